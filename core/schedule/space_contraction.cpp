// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "core/schedule/contraction.h"
#include "core/schedule/knob_space.h"
#include "core/schedule/phases.h"

namespace nf::loop {
namespace {

class ContractionSpace final : public KnobSpace {
 public:
  explicit ContractionSpace(const Target& target) : KnobSpace("contraction"), m_target(target) {}

  bool open(const Program& program) {
    addForms(program, "own", "merged");
    // An axis that stands under floors on both sides is of both; in a residue class it may be of one.
    if (const auto split = withPhases(program)) addForms(*split, "phases", "phases merged");
    if (m_forms.empty()) return false;
    declareKnobs();
    return canTile();
  }

 protected:
  enum : std::size_t { kVector, kVectors, kRows, kUnroll, kPackRows, kPackColumns, kEpilogue, kAxes, kOrder };

  Point firstPoint() const override {
    if (m_first.empty()) m_first = search();
    return m_first;
  }

  std::string illegal(const Point& point) const override {
    const Form& form = formOf(point);
    const ContractionView& view = form.view;
    if (!form.vectors.contains(value(point, kVector).get<std::string>()))
      return "the axis of vector is merged or split by the value of axes";
    if (!form.rows.contains(value(point, kRows).get<std::string>()))
      return "an axis of rows is merged or split by the value of axes";
    const ContractionKnobs k = knobsOf(point);
    const AxisClass side = view.classes[k.vectorAxis];
    std::int64_t tile = 1;
    for (const auto& r : k.rows) {
      if (view.classes[r.axis] == side) return "rows and vector are axes of the same operand; rows takes one of the other";
      tile *= r.factor;
    }
    // A tile that does not fit the registers spills: a cliff, not a slope.
    if (tile * k.vectors + k.vectors + 1 > m_target.vectorRegisters)
      return "rows times vectors needs more registers than the processor has";
    if (k.vectors > 1 && (k.vectors - 1) * k.lanes >= view.nest.axes[k.vectorAxis].extent)
      return "so many vectors are wider than the axis of vector";
    const bool left = side == AxisClass::Left;
    if (k.packColumns == Packing::Tensor &&
        (!(left ? view.leftRead : view.rightRead).valid() || !(left ? view.leftMovable : view.rightMovable)[k.vectorAxis]))
      return "the operand of pack_columns is no tensor that can be copied with the axis of vector innermost";
    if (k.packRows == Packing::Tensor &&
        (!(left ? view.rightRead : view.leftRead).valid() || (left ? view.rightPlain : view.leftPlain)))
      return "the operand of pack_rows has nothing to compute ahead into a copy: it is read as it lies, or from several tensors";
    const std::size_t lanes = static_cast<std::size_t>(k.vectors) * static_cast<std::size_t>(tile);
    if (static_cast<int>(lanes) * k.unroll > 512) return "unroll times rows times vectors writes out more than 512 multiplications";
    return {};
  }

  double estimate(const Point& point) const override { return estimateContraction(formOf(point).view, knobsOf(point), m_target); }

  std::vector<double> featuresOf(const Point& point) const override {
    const ContractionView& view = formOf(point).view;
    const ContractionKnobs k = knobsOf(point);
    double batch = 1, rows = 1, columns = 1, inner = 1, tile = 1, rest = 0;
    const AxisClass side = view.classes[k.vectorAxis];
    for (std::size_t a = 0; a < view.classes.size(); ++a) {
      const auto extent = static_cast<double>(view.nest.axes[a].extent);
      if (view.classes[a] == AxisClass::Batch) batch *= extent;
      else if (view.classes[a] == AxisClass::Inner) inner *= extent;
      else (view.classes[a] == side ? columns : rows) *= extent;
    }
    for (const auto& r : k.rows) {
      tile *= static_cast<double>(r.factor);
      rest += std::fmod(static_cast<double>(view.nest.axes[r.axis].extent), static_cast<double>(r.factor)) /
              static_cast<double>(r.factor);
    }
    const double width = k.vectors * k.lanes;
    const double padded = std::ceil(static_cast<double>(view.nest.axes[k.vectorAxis].extent) / width) * width /
                          static_cast<double>(view.nest.axes[k.vectorAxis].extent);
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

  Function lowerPoint(const Point& point) const override {
    const Form& form = formOf(point);
    return lowerContraction(form.source->group, form.view, knobsOf(point), m_target);
  }

 private:
  // A program with its guards on the factors; the group borrows it.
  struct Source {
    explicit Source(GuardedFactors g) : guarded(std::move(g)) {}
    GuardedFactors guarded;
    GroupView group;
  };

  // The contraction with its axes as the accesses have them or split into residue classes, and with neighbours of one side merged.
  struct Form {
    Form(std::shared_ptr<const Source> from, std::string called, ContractionView v)
        : source(std::move(from)), name(std::move(called)), view(std::move(v)) {}
    std::shared_ptr<const Source> source;
    std::string name;  // value of the knob axes
    ContractionView view;
    std::map<std::string, std::size_t> vectors;  // values of the knobs that are legal here
    std::map<std::string, std::vector<ContractionKnobs::Row>> rows;
  };
  const Form& formOf(const Point& point) const { return m_forms[point[kAxes]]; }

  void addForms(const Program& program, const char* own, const char* merged) {
    const auto source = std::make_shared<Source>(withGuardsOnFactors(program));
    auto group = viewGroup(source->guarded.program);
    if (!group) return;
    source->group = std::move(*group);
    auto view = viewContraction(source->group, source->guarded.skips);
    if (!view) return;
    const auto joined = neighbours(*view);
    m_forms.emplace_back(source, own, std::move(*view));
    if (!joined.empty())
      if (auto flat = viewContraction(source->group, source->guarded.skips, joined))
        m_forms.emplace_back(source, merged, std::move(*flat));
  }

  // What the axes are called, form by form where they differ.
  std::string axesText() const {
    std::string text;
    for (const Form& form : m_forms) {
      std::vector<std::string> names;
      for (const NestAxis& axis : form.view.nest.axes) names.push_back(axis.name);
      text += (text.empty() ? "" : ";") + (m_forms.size() > 1 ? " " + form.name : std::string()) + KnobSpace::axesText(names);
    }
    return text;
  }

  void declareKnobs() {
    Knob vector{"vector", "output axis on the vector lanes" + axesText(), {}};
    Knob vectors{"vectors", "vectors of one register tile", {1, 2, 3, 4, 5, 6}};
    Knob rows{"rows", "axes and factors of the register tile's rows" + axesText(), {}};
    Knob axes{"axes", "as the accesses have them or split into residue classes, and with neighbours of one side merged", {}, true};
    for (const Form& form : m_forms) axes.values.push_back(form.name);
    const auto add = [](Knob& knob, const std::string& text) {
      if (std::find(knob.values.begin(), knob.values.end(), text) == knob.values.end()) knob.values.push_back(text);
    };
    for (Form& form : m_forms) {
      const ContractionView& view = form.view;
      const auto addRows = [&](std::vector<ContractionKnobs::Row> tile) {
        std::string text;
        for (const auto& r : tile) text += (text.empty() ? "" : " ") + axisValue(r.axis) + "*" + std::to_string(r.factor);
        add(rows, text);
        form.rows.emplace(std::move(text), std::move(tile));
      };
      for (std::size_t a = 0; a < view.classes.size(); ++a) {
        if (view.classes[a] != AxisClass::Left && view.classes[a] != AxisClass::Right) continue;
        add(vector, axisValue(a));
        form.vectors.emplace(axisValue(a), a);
        for (const std::int64_t f : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28}) {
          if (f > view.nest.axes[a].extent) break;
          addRows({{a, f}});
          // A second axis of the same side, taken whole or halved: small windows.
          for (std::size_t b = 0; b < view.classes.size(); ++b) {
            if (b == a || view.classes[b] != view.classes[a]) continue;
            const std::int64_t extent = view.nest.axes[b].extent;
            if (extent <= 8 && f * extent <= 28 && f > 1) addRows({{a, f}, {b, extent}});
          }
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
               std::move(axes),
               {"order", "which tiles the inner loop walks", {"rows", "columns"}}};
  }

  ContractionKnobs knobsOf(const Point& point) const {
    ContractionKnobs k;
    const Form& form = formOf(point);
    k.vectorAxis = form.vectors.at(value(point, kVector).get<std::string>());
    k.vectors = value(point, kVectors).get<int>();
    k.lanes = static_cast<int>(m_target.vectorBytes / 4);
    k.rows = form.rows.at(value(point, kRows).get<std::string>());
    k.unroll = value(point, kUnroll).get<int>();
    k.packRows = static_cast<Packing>(point[kPackRows]);
    k.packColumns = static_cast<Packing>(point[kPackColumns]);
    k.apart = point[kEpilogue] == 1;
    k.rowsInside = value(point, kOrder) == "rows";
    return k;
  }

  // Any tile of one row and one vector is legal: there is one where both sides have an axis.
  bool canTile() const { return !m_forms[0].vectors.empty() && !m_forms[0].rows.empty(); }

  // The whole space by the analytic model: some thousand points, a microsecond or two each.
  Point search() const {
    Point best, point(9, 0);
    double bestSeconds = std::numeric_limits<double>::infinity();
    for (point[kAxes] = 0; point[kAxes] < m_forms.size(); ++point[kAxes]) {
      const Form& form = formOf(point);
      for (const auto& [vector, axis] : form.vectors)
        for (const auto& [rows, tile] : form.rows) {
          if (form.view.classes[tile[0].axis] == form.view.classes[axis]) continue;
          point[kVector] = positionOf(kVector, vector);
          point[kRows] = positionOf(kRows, rows);
          for (point[kVectors] = 0; point[kVectors] < m_knobs[kVectors].values.size(); ++point[kVectors])
            for (std::size_t last = 0; last < 18; ++last) {
              point[kPackRows] = last / 6;
              point[kPackColumns] = last / 2 % 3;
              point[kEpilogue] = last % 2;
              const ContractionKnobs k = knobsOf(point);
              std::int64_t registers = k.vectors;
              for (const auto& r : k.rows) registers *= r.factor;
              point[kUnroll] = registers * 8 <= 64 ? 3 : registers * 4 <= 64 ? 2 : registers * 2 <= 64 ? 1 : 0;
              point[kOrder] = 0;
              if (!illegal(point).empty()) continue;
              const double seconds = estimate(point);
              if (seconds >= bestSeconds) continue;
              best = point;
              bestSeconds = seconds;
            }
        }
    }
    return best;
  }

  Target m_target;
  std::vector<Form> m_forms;
  mutable Point m_first;  // found when it is first asked for
};

}  // namespace

std::unique_ptr<KnobSpace> contractionSpace(const Program& program, const GroupView&, const Target& target) {
  auto space = std::make_unique<ContractionSpace>(target);
  if (!space->open(program)) return nullptr;
  return space;
}

}  // namespace nf::loop
