// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/schedule/contraction.h"
#include "core/schedule/knob_space.h"

namespace nf::loop {
namespace {

class ContractionSpace final : public KnobSpace {
 public:
  ContractionSpace(GuardedFactors guarded, const Target& target)
      : KnobSpace("contraction"), m_program(std::move(guarded.program)), m_skips(std::move(guarded.skips)), m_target(target) {}

  // Two steps: the view borrows the program that is already in its place.
  bool open() {
    auto group = viewGroup(m_program);
    if (!group) return false;
    m_group = std::move(*group);
    auto view = viewContraction(m_group, m_skips);
    if (!view) return false;
    m_view = std::move(*view);
    declareKnobs();
    return canTile();
  }

 protected:
  enum : std::size_t { kVector, kVectors, kRows, kUnroll, kPackRows, kPackColumns, kEpilogue, kOrder };

  Point firstPoint() const override {
    if (m_first.empty()) m_first = search();
    return m_first;
  }

  std::string illegal(const Point& point) const override {
    const ContractionKnobs k = knobsOf(point);
    const AxisClass side = m_view.classes[k.vectorAxis];
    std::int64_t tile = 1;
    for (const auto& r : k.rows) {
      if (m_view.classes[r.axis] == side) return "knob rows tiles the side that knob vector has on the lanes";
      tile *= r.factor;
    }
    // A tile that does not fit the registers spills: a cliff, not a slope.
    if (tile * k.vectors + k.vectors + 1 > m_target.vectorRegisters)
      return "the register tile of knobs rows and vectors does not fit the registers";
    if (k.vectors > 1 && (k.vectors - 1) * k.lanes >= m_view.nest.axes[k.vectorAxis].extent)
      return "knob vectors is wider than the axis";
    const bool left = side == AxisClass::Left;
    if (k.packColumns == Packing::Tensor &&
        (!(left ? m_view.leftRead : m_view.rightRead).valid() || !(left ? m_view.leftMovable : m_view.rightMovable)[k.vectorAxis]))
      return "knob pack_columns cannot lay the vector axis innermost in a copy of the tensor";
    if (k.packRows == Packing::Tensor &&
        (!(left ? m_view.rightRead : m_view.leftRead).valid() || (left ? m_view.rightPlain : m_view.leftPlain)))
      return "knob pack_rows has no expression to compute ahead";
    const std::size_t lanes = static_cast<std::size_t>(k.vectors) * static_cast<std::size_t>(tile);
    if (static_cast<int>(lanes) * k.unroll > 512) return "knob unroll makes too much code of this register tile";
    return {};
  }

  double estimate(const Point& point) const override { return estimateContraction(m_view, knobsOf(point), m_target); }

  std::vector<double> featuresOf(const Point& point) const override {
    const ContractionKnobs k = knobsOf(point);
    double batch = 1, rows = 1, columns = 1, inner = 1, tile = 1, rest = 0;
    const AxisClass side = m_view.classes[k.vectorAxis];
    for (std::size_t a = 0; a < m_view.classes.size(); ++a) {
      const auto extent = static_cast<double>(m_view.nest.axes[a].extent);
      if (m_view.classes[a] == AxisClass::Batch) batch *= extent;
      else if (m_view.classes[a] == AxisClass::Inner) inner *= extent;
      else (m_view.classes[a] == side ? columns : rows) *= extent;
    }
    for (const auto& r : k.rows) {
      tile *= static_cast<double>(r.factor);
      rest += std::fmod(static_cast<double>(m_view.nest.axes[r.axis].extent), static_cast<double>(r.factor)) /
              static_cast<double>(r.factor);
    }
    const double width = k.vectors * k.lanes;
    const double padded = std::ceil(static_cast<double>(m_view.nest.axes[k.vectorAxis].extent) / width) * width /
                          static_cast<double>(m_view.nest.axes[k.vectorAxis].extent);
    return {std::log2(batch),
            std::log2(rows),
            std::log2(columns),
            std::log2(inner),
            tile,
            static_cast<double>(k.vectors),
            tile * k.vectors,
            rest,
            padded,
            std::log2(k.unroll),
            k.packRows == Packing::Tiles ? 1.0 : 0.0,
            k.packRows == Packing::Tensor ? 1.0 : 0.0,
            k.packColumns == Packing::Tiles ? 1.0 : 0.0,
            k.packColumns == Packing::Tensor ? 1.0 : 0.0,
            k.apart ? 1.0 : 0.0,
            k.rowsInside ? 1.0 : 0.0,
            std::log2(inner * width * 4),
            std::log2(std::max(estimate(point), 1e-9))};
  }

  Function lowerPoint(const Point& point) const override { return lowerContraction(m_group, m_view, knobsOf(point), m_target); }

 private:
  std::string axisName(std::size_t a) const { return std::to_string(a) + ":" + m_view.nest.axes[a].name; }

  void declareKnobs() {
    Knob vector{"vector", "output axis on the vector lanes", {}};
    for (std::size_t a = 0; a < m_view.classes.size(); ++a) {
      if (m_view.classes[a] != AxisClass::Left && m_view.classes[a] != AxisClass::Right) continue;
      vector.values.push_back(axisName(a));
      m_vectorAxes.push_back(a);
    }
    Knob vectors{"vectors", "vectors of one register tile", {1, 2, 3, 4, 5, 6}};
    Knob rows{"rows", "axes and factors of the register tile's rows", {}};
    for (std::size_t a = 0; a < m_view.classes.size(); ++a) {
      if (m_view.classes[a] != AxisClass::Left && m_view.classes[a] != AxisClass::Right) continue;
      for (const std::int64_t f : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28}) {
        if (f > m_view.nest.axes[a].extent) break;
        addRows(rows, {{a, f}});
        // A second axis of the same side, taken whole or halved: small windows.
        for (std::size_t b = 0; b < m_view.classes.size(); ++b) {
          if (b == a || m_view.classes[b] != m_view.classes[a]) continue;
          const std::int64_t extent = m_view.nest.axes[b].extent;
          if (extent <= 8 && f * extent <= 28 && f > 1) addRows(rows, {{a, f}, {b, extent}});
        }
      }
    }
    m_knobs = {std::move(vector),
               std::move(vectors),
               std::move(rows),
               {"unroll", "steps of the reduction unrolled", {1, 2, 4, 8}},
               {"pack_rows",
                "how the broadcast operand is read: in place, from a copy in tiles, from a copy of its tensor",
                {"place", "tiles", "tensor"}},
               {"pack_columns",
                "how the vector operand is read: in place, from a copy in tiles, from a copy of its tensor",
                {"place", "tiles", "tensor"}},
               {"epilogue", "fused into the register tiles, or apart: a nest of its own over the sums", {"fused", "apart"}, true},
               {"order", "which tiles the inner loop walks", {"rows", "columns"}}};
  }

  void addRows(Knob& knob, std::vector<ContractionKnobs::Row> rows) {
    std::string text;
    for (const auto& r : rows) text += (text.empty() ? "" : " ") + axisName(r.axis) + "*" + std::to_string(r.factor);
    knob.values.push_back(text);
    m_rows.push_back(std::move(rows));
  }

  ContractionKnobs knobsOf(const Point& point) const {
    ContractionKnobs k;
    k.vectorAxis = m_vectorAxes[point[kVector]];
    k.vectors = value(point, kVectors).get<int>();
    k.lanes = static_cast<int>(m_target.vectorBytes / 4);
    k.rows = m_rows[point[kRows]];
    k.unroll = value(point, kUnroll).get<int>();
    k.packRows = static_cast<Packing>(point[kPackRows]);
    k.packColumns = static_cast<Packing>(point[kPackColumns]);
    k.apart = point[kEpilogue] == 1;
    k.rowsInside = value(point, kOrder) == "rows";
    return k;
  }

  // Any tile of one row and one vector is legal: there is one where both sides have an axis.
  bool canTile() const { return !m_vectorAxes.empty() && !m_rows.empty(); }

  // The whole space by the analytic model: some thousand points, a microsecond or two each.
  Point search() const {
    Point best, point(8, 0);
    double bestSeconds = std::numeric_limits<double>::infinity();
    for (point[kVector] = 0; point[kVector] < m_knobs[kVector].values.size(); ++point[kVector])
      for (point[kVectors] = 0; point[kVectors] < m_knobs[kVectors].values.size(); ++point[kVectors])
        for (point[kRows] = 0; point[kRows] < m_knobs[kRows].values.size(); ++point[kRows])
          for (point[kPackRows] = 0; point[kPackRows] < 3; ++point[kPackRows])
            for (std::size_t last = 0; last < 6; ++last) {
              point[kPackColumns] = last / 2;
              point[kEpilogue] = last % 2;
              const ContractionKnobs k = knobsOf(point);
              std::int64_t tile = k.vectors;
              for (const auto& r : k.rows) tile *= r.factor;
              point[kUnroll] = tile * 8 <= 64 ? 3 : tile * 4 <= 64 ? 2 : tile * 2 <= 64 ? 1 : 0;
              point[kOrder] = 0;
              if (!illegal(point).empty()) continue;
              const double seconds = estimate(point);
              if (seconds >= bestSeconds) continue;
              best = point;
              bestSeconds = seconds;
            }
    return best;
  }

  Program m_program;
  std::set<ExprId> m_skips;
  Target m_target;
  GroupView m_group;
  ContractionView m_view;
  std::vector<std::size_t> m_vectorAxes;
  std::vector<std::vector<ContractionKnobs::Row>> m_rows;
  mutable Point m_first;  // found when it is first asked for
};

}  // namespace

std::unique_ptr<KnobSpace> contractionSpace(const Program& program, const GroupView&, const Target& target) {
  auto space = std::make_unique<ContractionSpace>(withGuardsOnFactors(program), target);
  if (!space->open()) return nullptr;
  return space;
}

}  // namespace nf::loop
