// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "core/fusion/kept.h"
#include "core/schedule/nest.h"
#include "core/schedule/scatter.h"
#include "core/support/checked.h"

namespace nf::loop {
namespace {

std::vector<IndexExpr> variables(std::size_t count, std::uint32_t from = 0) {
  std::vector<IndexExpr> v;
  for (std::size_t i = 0; i < count; ++i) v.push_back(IndexExpr::variable(static_cast<IndexVar>(from + i)));
  return v;
}

struct Probe {
  Function function;
  std::vector<IndexExpr> expressions;  // all that must stay simple
  std::vector<IndexExpr> loads, stores;
  std::vector<bool> plain;  // by load: no guard, no data-dependent component
};

Probe probeStage(const GroupView& group, const StagePlan& stage) {
  const Program& p = *group.program;
  Probe probe;
  Function& f = probe.function;
  const Operator& first = p[stage.front()];
  for (const Axis& axis : first.axes) f.addVar(axis.name, axis.extent, LoopKind::Serial);
  std::vector<BufferId> buffers;
  declareOperands(group, f, buffers);
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (group.stored[t] && !buffers[t].valid()) declareWorkspace(group, f, buffers, TensorId(t));
  const std::vector<BufferId> all = buffers;
  BodyLowering body(p, f);
  body.buffers = buffers;
  hideOwn(group, stage, body);
  const auto axes = variables(first.axes.size());
  for (const OperatorId id : stage) {
    const Operator& op = p[id];
    const auto& shape = p[op.output].shape;
    const auto strides = stridesOf(p[op.output]);
    IndexExpr offset;
    if (op.kind == OperatorKind::Scatter) {
      const ScatterParts parts = partsOf(p, op);
      for (const ExprId g : parts.guards) body.lower(id, g, axes);
      body.lower(id, parts.value, axes);
      for (std::size_t k = 0; k < shape.size(); ++k) {
        if (op.scatter[k].isData()) {
          body.lower(id, op.scatter[k].data, axes);
        } else {
          offset = offset + strides[k] * op.scatter[k].affine;
          const auto range = bounds(op.scatter[k].affine, rangesOf(op));
          if (!range || range->lo < 0 || range->hi >= shape[k]) probe.expressions.push_back(op.scatter[k].affine);
        }
      }
    } else {
      body.lower(id, op.body, axes);
      for (std::size_t k = 0; k < shape.size(); ++k) offset = offset + strides[k] * axes[k];
    }
    probe.stores.push_back(offset);
    probe.expressions.push_back(offset);
  }
  for (const Value& v : f.values) {
    switch (v.kind) {
      case Value::Kind::Index:
      case Value::Kind::IndexGe0:
      case Value::Kind::IndexEq0:
      case Value::Kind::Random: probe.expressions.push_back(v.index); break;
      case Value::Kind::Load:
        probe.expressions.push_back(v.place.offset);
        probe.loads.push_back(v.place.offset);
        probe.plain.push_back(!v.guard.valid() && v.place.data.empty());
        break;
      case Value::Kind::Constant:
      case Value::Kind::Apply:
      case Value::Kind::Fma: break;
    }
  }
  return probe;
}

std::size_t floors(const std::vector<IndexExpr>& expressions) {
  std::size_t n = 0;
  for (const IndexExpr& e : expressions) n += e.floorDivCount();
  return n;
}

// Cycles of one access of 16 lanes along variable v.
double accessCycles(const IndexExpr& e, IndexVar v, bool store) {
  std::int64_t stride = 0;
  bool inFloor = false;
  for (const IndexTerm& term : e.terms()) {
    if (!term.atom.isFloorDiv()) {
      if (term.atom.variable == v) stride += term.coefficient;
    } else if (term.atom.numerator->uses(v)) {
      inFloor = true;
    }
  }
  if (inFloor) return store ? 24 : 12;
  if (stride == 0) return store ? 24 : 0.5;
  if (stride == 1) return 1;
  if (stride == -1) return 2;
  return store ? 20 : 10;
}

std::int64_t strideAlong(const IndexExpr& e, IndexVar v) {
  for (const IndexTerm& term : e.terms())
    if (term.atom.isFloorDiv() && term.atom.numerator->uses(v)) return 0;
  return e.coefficientOf(v);
}

constexpr double kTransposedCycles = 6;  // of a vector: a load, four shuffles
constexpr double kTestCycles = 0.5;      // of a vector: one comparison, and its part of a mask
constexpr double kMostPeeled = 0.3;      // of the cycles of a term

}  // namespace

// A read far apart along the lanes and contiguous along another axis.
bool transposable(const IndexExpr& offset, IndexVar lane, IndexVar other) {
  const std::int64_t along = strideAlong(offset, lane);
  return along != 0 && along != 1 && along != -1 && strideAlong(offset, other) == 1;
}

int lanesCovering(std::int64_t extent, int most) {
  int lanes = 1;
  while (lanes < extent && lanes < most) lanes *= 2;
  return lanes;
}

namespace {

// By axis of the stage's operators: of how many residue classes it is made; 1: it stays.
std::vector<std::int64_t> phasesOf(const Probe& probe, const Operator& op, std::size_t rowAxes) {
  std::vector<std::int64_t> moduli(op.axes.size(), 1);
  if (op.kind != OperatorKind::Gather) return moduli;
  Nest nest;
  for (std::size_t k = 0; k < op.outputRank; ++k) nest.shape.push_back(op.axes[k].extent);
  nest.y = probe.expressions;
  std::vector<std::int64_t> found = phaseModuli(nest);
  for (std::size_t k = 0; k < found.size(); ++k)
    if (k < rowAxes || found[k] >= nest.shape[k]) found[k] = 1;  // one point a class is no loop
  keepWithin({}, found);
  std::copy(found.begin(), found.end(), moduli.begin());
  return moduli;
}

}  // namespace

namespace {

// More code than this in loops of their own, by classes and values of a term, costs more than constant phases save.
constexpr std::size_t kMostCode = 4096;

void addClasses(const Program& p, const StagePlan& stage, std::size_t values, NestView& view) {
  const Operator& op = p[stage.front()];
  Peeled term;
  if (op.kind != OperatorKind::Gather) return;
  // Terms that are zero may be left out of a sum; what other reducers take must be there.
  if (stage.size() == 1 && op.reducer == Reducer::Sum) term = peel(p, op.body);
  std::size_t count = 1;
  for (const std::int64_t h : view.moduli) count *= static_cast<std::size_t>(h);
  if ((term.conditions.empty() && view.classAxes.empty()) || count * values > kMostCode) return;
  view.term = term.value;
  view.classes = classesOf(p, op, term.conditions, view.moduli);
  double all = 0, left = 0;
  for (const StageClass& one : view.classes) {
    double whole = 1, terms = one.empty ? 0 : 1;
    for (std::size_t k = op.outputRank; k < op.axes.size(); ++k) {
      whole *= static_cast<double>(op.axes[k].extent);
      terms *= static_cast<double>(one.left[k].extent());
    }
    all += whole;
    left += terms;
    view.guards += static_cast<double>(one.guards.size()) / static_cast<double>(count);
    view.interior += interiorOf(op, one, view.moduli) / static_cast<double>(count);
  }
  if (!view.classAxes.empty()) view.visited = left / all;
}

}  // namespace

bool hasPhases(const GroupView& group, const StagePlan& stage, std::size_t rowAxes) {
  const auto moduli = phasesOf(probeStage(group, stage), (*group.program)[stage.front()], rowAxes);
  return std::any_of(moduli.begin(), moduli.end(), [](std::int64_t h) { return h > 1; });
}

IndexExpr replaced(const IndexExpr& e, const std::vector<IndexExpr>& by, const RangeOf& ranges) {
  return simplify(substitute(e,
                             [&](IndexVar v) -> std::optional<IndexExpr> {
                               if (v < by.size()) return by[v];
                               return std::nullopt;
                             }),
                  ranges);
}

std::vector<IndexExpr> originalAxes(const NestView& view, const std::vector<IndexExpr>& merged, const RangeOf& ranges) {
  std::vector<IndexExpr> axes;
  for (const IndexExpr& e : view.original) axes.push_back(replaced(e, merged, ranges));
  return axes;
}

NestView viewNest(const GroupView& group, const StagePlan& stage, std::size_t rowAxes, const std::set<std::size_t>& joined,
                  bool phases) {
  const Program& p = *group.program;
  const Operator& first = p[stage.front()];
  Probe probe = probeStage(group, stage);
  NestView view;
  const bool scatter = first.kind == OperatorKind::Scatter;
  const std::size_t rank = first.axes.size();

  // Merging: groups of original axes, each with the variable of its last axis.
  struct Group {
    std::size_t last;
    std::int64_t extent;
    bool reduced;
    std::string name;
    std::vector<std::size_t> members;
  };
  std::vector<Group> groups;
  std::vector<std::int64_t> extents;
  for (const Axis& axis : first.axes) extents.push_back(axis.extent);
  std::vector<IndexExpr> original = variables(rank);
  std::vector<IndexExpr> expressions = probe.expressions;
  std::vector<std::int64_t> moduli(rank, 1);
  if (phases) moduli = phasesOf(probe, first, rowAxes);
  std::vector<std::size_t> classes(rank, 0);  // the variable of an axis' residue class
  const auto replaceAll = [&](const std::function<std::optional<IndexExpr>(IndexVar)>& with, std::vector<IndexExpr> in) {
    const RangeOf ranges = rangesOf(std::span<const std::int64_t>(extents));
    for (IndexExpr& e : in) e = simplify(substitute(e, with), ranges);
    return in;
  };
  const auto dropUnit = [&](std::size_t k) {
    const auto with = [&](IndexVar v) -> std::optional<IndexExpr> {
      if (v == k) return IndexExpr(0);
      return std::nullopt;
    };
    expressions = replaceAll(with, std::move(expressions));
    original = replaceAll(with, std::move(original));
  };
  for (std::size_t k = 0; k < rank; ++k) {
    if (moduli[k] == 1) continue;
    if (extents[k] % moduli[k] != 0) view.ragged.push_back(k);
    classes[k] = extents.size();
    extents.push_back(moduli[k]);
    extents[k] = ceilDiv(extents[k], moduli[k]);
    const auto with = [&](IndexVar v) -> std::optional<IndexExpr> {
      if (v != k) return std::nullopt;
      return moduli[k] * IndexExpr::variable(v) + IndexExpr::variable(static_cast<IndexVar>(classes[k]));
    };
    expressions = replaceAll(with, std::move(expressions));
    original = replaceAll(with, std::move(original));
  }
  for (std::size_t k = 0; k < rank; ++k) {
    if (extents[k] == 1) {
      dropUnit(k);
      continue;
    }
    groups.push_back({k, extents[k], !scatter && k >= first.outputRank, first.axes[k].name, {k}});
    if (moduli[k] > 1) groups.push_back({classes[k], moduli[k], false, first.axes[k].name + "_phase", {k}});
  }
  for (std::size_t g = 0; g + 1 < groups.size();) {
    Group& a = groups[g];
    Group& b = groups[g + 1];
    const auto product = checkedMul(a.extent, b.extent);
    const bool ofClasses = moduli[a.members.back()] > 1 || moduli[b.members.back()] > 1;
    if (a.reduced != b.reduced || a.last < rowAxes || !product || ofClasses) {
      ++g;
      continue;
    }
    const std::int64_t inner = b.extent;
    const IndexExpr whole = IndexExpr::variable(static_cast<IndexVar>(b.last));
    const auto with = [&](IndexVar v) -> std::optional<IndexExpr> {
      if (v == a.last) return floorDiv(whole, inner);
      if (v == b.last) return floorMod(whole, inner);
      return std::nullopt;
    };
    const std::int64_t saved = extents[b.last];
    extents[b.last] = *product;
    auto merged = replaceAll(with, expressions);
    // An access that walks along one of them alone stays free of the other, even where it divides already.
    const bool together = std::all_of(expressions.begin(), expressions.end(), [&](const IndexExpr& e) {
      return e.uses(static_cast<IndexVar>(a.last)) == e.uses(static_cast<IndexVar>(b.last));
    });
    if (!joined.contains(b.members.front()) && (!together || floors(merged) > floors(expressions))) {
      extents[b.last] = saved;
      ++g;
      continue;
    }
    expressions = std::move(merged);
    original = replaceAll(with, std::move(original));
    b.extent = *product;
    b.name = a.name + b.name;
    b.members.insert(b.members.begin(), a.members.begin(), a.members.end());
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(g));
    if (g > 0) --g;
  }
  // Variables numbered by position.
  std::vector<std::uint32_t> position(extents.size(), 0);
  for (const Group& g : groups) {
    if (g.last < rowAxes) continue;
    position[g.last] = static_cast<std::uint32_t>(view.axes.size());
    const bool quotient = g.last < rank && moduli[g.last] > 1;
    if (g.last >= rank) view.classAxes.push_back(view.axes.size());
    view.axes.push_back({g.name, g.extent, g.reduced, quotient ? first.axes[g.last].extent / moduli[g.last] : g.extent});
    view.members.push_back(g.members);
  }
  for (std::size_t k = 0; k < rowAxes; ++k) {
    position[k] = static_cast<std::uint32_t>(view.axes.size() + k);
    view.rows *= static_cast<double>(first.axes[k].extent);
  }
  const auto renumber = [&](IndexVar v) -> std::optional<IndexExpr> {
    if (v < position.size()) return IndexExpr::variable(position[v]);
    return std::nullopt;
  };
  for (const IndexExpr& e : original) view.original.push_back(substitute(e, renumber));

  std::vector<std::int64_t> mergedExtents;
  for (const NestAxis& axis : view.axes) mergedExtents.push_back(axis.extent);
  for (std::size_t k = 0; k < rowAxes; ++k) mergedExtents.push_back(first.axes[k].extent);
  const RangeOf ranges = rangesOf(std::span<const std::int64_t>(mergedExtents));
  const auto final = [&](const IndexExpr& e) {
    return simplify(substitute(e,
                               [&](IndexVar v) -> std::optional<IndexExpr> {
                                 if (v < rank) return view.original[v];
                                 return std::nullopt;
                               }),
                    ranges);
  };
  for (IndexExpr& e : probe.loads) e = final(e);
  for (IndexExpr& e : probe.stores) e = final(e);
  view.accesses = probe.loads.size() + probe.stores.size();
  view.operators = stage.size();
  bool anyArg = false, data = false;
  for (const OperatorId id : stage) anyArg = anyArg || isArg(p[id].reducer);
  for (const Value& v : probe.function.values) {
    if (v.kind == Value::Kind::Apply) {
      view.work += info(v.op).flops;
      if (isCall(v.op)) view.calls += 1;
    }
    data = data || !v.place.data.empty();
  }
  view.points = view.rows;
  for (std::size_t a = 0; a < view.axes.size(); ++a) {
    const auto v = static_cast<IndexVar>(a);
    double cycles = 0;
    for (const IndexExpr& e : probe.loads) cycles += accessCycles(e, v, false);
    const bool ragged = std::find(view.ragged.begin(), view.ragged.end(), view.members[a].back()) != view.ragged.end();
    view.tileAllowed.push_back(!scatter && !anyArg && first.reducer != Reducer::None && !view.axes[a].reduced && !ragged);
    bool allowed = !ragged || view.axes[a].whole < view.axes[a].extent;  // of a class' number the lanes would hold few
    if (scatter) {
      // Lanes must not meet: one component of the place is the lane itself, and it stands nowhere else.
      bool apart = false;
      const Operator& op = first;
      std::size_t uses = 0;
      for (const AccessIndex& index : op.scatter) {
        if (index.isData()) {
          for (const ExprId e : nodesOf(p, index.data)) {
            if (p[e].op == ScalarOp::Load)
              for (const AccessIndex& inner : p[p[e].access].indices)
                if (!inner.isData() && final(inner.affine).uses(v)) ++uses;
            if (p[e].index.valid() && final(p[p[e].index]).uses(v)) ++uses;
          }
          continue;
        }
        const IndexExpr e = final(index.affine);
        if (!e.uses(v)) continue;
        ++uses;
        apart = apart || (e.isAffine() && e.coefficientOf(v) != 0);
      }
      allowed = apart && uses == 1;
      for (const IndexExpr& e : probe.stores) cycles += accessCycles(e, v, true) + accessCycles(e, v, false);
    } else if (view.axes[a].reduced) {
      allowed = !anyArg && allowed;
    } else {
      for (const IndexExpr& e : probe.stores) cycles += accessCycles(e, v, true);
    }
    double stored = 0;
    if (!view.axes[a].reduced)
      for (const IndexExpr& e : probe.stores) stored += accessCycles(e, v, true);
    view.foldedStore.push_back(stored);
    view.accessCost.push_back(cycles);
    view.lanesAllowed.push_back(allowed);
    view.points *= static_cast<double>(view.axes[a].extent);
  }
  if (!scatter && first.reducer == Reducer::None)
    for (std::size_t a = 0; a < view.axes.size(); ++a) {
      view.transposedCost.emplace_back(view.axes.size(), view.accessCost[a]);
      for (std::size_t t = 0; t < view.axes.size(); ++t)
        for (std::size_t l = 0; l < probe.loads.size() && view.ragged.empty(); ++l)
          if (t != a && probe.plain[l] && transposable(probe.loads[l], static_cast<IndexVar>(a), static_cast<IndexVar>(t)))
            view.transposedCost[a][t] += kTransposedCycles - accessCycles(probe.loads[l], static_cast<IndexVar>(a), false);
    }
  std::set<TensorId> tensors;
  for (const OperatorId id : stage) {
    tensors.insert(p[id].output);
    for (const TensorId t : readsOf(p, id)) tensors.insert(t);
  }
  for (const TensorId t : tensors) view.bytes += static_cast<double>(p[t].bytes());
  view.moduli = std::move(moduli);
  addClasses(p, stage, probe.function.values.size(), view);
  return view;
}

std::vector<int> lanesFor(const NestView& view, int vectorAxis, const Target& target) {
  if (vectorAxis < 0) return {1};
  const auto native = static_cast<int>(std::max<std::int64_t>(target.vectorBytes / 4, 4));
  std::vector<int> lanes;
  for (int l = native; l <= 4 * native; l *= 2) {
    lanes.push_back(l);
    if (l >= view.axes[static_cast<std::size_t>(vectorAxis)].extent) break;
  }
  return lanes;
}

std::vector<int> tilesFor(const NestView& view, const NestKnobs& knobs, int tileAxis, std::size_t operators, const Target& target) {
  std::vector<int> tiles{1};
  if (tileAxis < 0 || tileAxis == knobs.vectorAxis || knobs.vectorAxis < 0) return tiles;
  const auto native = static_cast<int>(std::max<std::int64_t>(target.vectorBytes / 4, 4));
  const auto lane = static_cast<std::size_t>(knobs.vectorAxis), other = static_cast<std::size_t>(tileAxis);
  if (!view.transposedCost.empty() && knobs.lanes == native && view.transposedCost[lane][other] < view.accessCost[lane])
    tiles.push_back(native);
  if (!view.tileAllowed[other]) return tiles;
  const bool fold = view.axes[static_cast<std::size_t>(knobs.vectorAxis)].reduced;
  if (fold && knobs.lanes != native) return tiles;
  const std::int64_t extent = view.axes[static_cast<std::size_t>(tileAxis)].extent;
  const std::int64_t vectors = std::max(1, knobs.lanes / native) * static_cast<std::int64_t>(operators);
  const std::int64_t most = std::min<std::int64_t>(fold ? knobs.lanes : 16, target.vectorRegisters * 3 / 4 / vectors);
  for (int t = 2; t <= most; ++t)
    if (extent % t == 0) tiles.push_back(t);
  return tiles;
}

// Cycles of issue a vector, padded lanes counted, against the traffic of distinct bytes.
double estimateNest(const NestView& view, const NestKnobs& knobs, const Target& target) {
  const double native = static_cast<double>(std::max<std::int64_t>(target.vectorBytes / 4, 4));
  const double hertz = target.peakFlops > 0 ? target.peakFlops / (4 * native) : 2.5e9;
  double cycles;
  const double points = view.points * view.visited;
  if (knobs.vectorAxis < 0) {
    cycles = points * (view.work + static_cast<double>(view.accesses) + 14 * view.calls + 2);
  } else {
    const auto axis = static_cast<std::size_t>(knobs.vectorAxis);
    const double extent = static_cast<double>(view.axes[axis].extent);
    const double lanes = knobs.lanes;
    const double blocks = std::ceil(extent / lanes);
    const double outer = points / extent;
    const bool transposed = knobs.tile > 1 && !view.transposedCost.empty();
    double access = view.accessCost[axis];
    if (transposed) {
      const auto other = static_cast<std::size_t>(knobs.tileAxis);
      const double whole = std::ceil(static_cast<double>(view.axes[other].extent) / knobs.tile) * knobs.tile;
      access = view.transposedCost[axis][other] * whole / static_cast<double>(view.axes[other].extent);
    }
    double perBlock = (lanes / native) * (view.work * 0.5 + access * native / 16 + 6 * view.calls);
    // Where guards are peeled off, a term costs no tests and no masks.
    if (knobs.peeled) perBlock -= view.interior * std::min(kMostPeeled * perBlock, kTestCycles * view.guards * lanes / native);
    cycles = outer * blocks * (perBlock + 3.0 / knobs.tile);
    if (std::fmod(extent, lanes) != 0) cycles += outer * 4;
    double inner = 1;
    for (const NestAxis& a : view.axes)
      if (a.reduced) inner *= static_cast<double>(a.extent);
    const double results = view.points / inner;
    if (view.axes[axis].reduced) {
      // Folding neighbours into each other takes three operations a pair of vectors.
      if (knobs.tile > 1)
        cycles += results / knobs.tile * (3 * (lanes - 1) + view.foldedStore[static_cast<std::size_t>(knobs.tileAxis)]);
      else cycles += results * (6 * std::log2(lanes) + 6);
    }
    // A dependent chain of additions: latency 4 over the vectors in flight.
    if (inner > 1) cycles = std::max(cycles, outer * blocks * 4 / knobs.tile);
  }
  const double fits = view.bytes / view.rows < static_cast<double>(target.l2Bytes) ? 8 : 1;
  const double bandwidth = (target.peakBandwidth > 0 ? target.peakBandwidth : 1e10) * fits;
  // Not the larger alone: of two nests that wait for memory the one that computes less is still the better.
  const double compute = cycles / hertz, memory = view.bytes / bandwidth;
  return std::max(compute, memory) + 0.2 * std::min(compute, memory);
}

NestKnobs firstNest(const NestView& view, const Target& target) {
  NestKnobs best;
  double bestSeconds = estimateNest(view, best, target);
  for (std::size_t a = 0; a < view.axes.size(); ++a) {
    if (!view.lanesAllowed[a]) continue;
    const auto lanes = lanesFor(view, static_cast<int>(a), target);
    for (const int l : lanes) {
      // Wide vectors spill once the expression holds many values.
      if (view.calls > 0 && l > 2 * lanes.front()) continue;
      const NestKnobs flat{static_cast<int>(a), l, -1, 1};
      const auto consider = [&](const NestKnobs& knobs) {
        const double seconds = estimateNest(view, knobs, target);
        if (seconds < bestSeconds) {
          best = knobs;
          bestSeconds = seconds;
        }
      };
      consider(flat);
      for (std::size_t t = 0; t < view.axes.size(); ++t)
        for (const int tile : tilesFor(view, flat, static_cast<int>(t), view.operators, target))
          if (tile > 1) consider({flat.vectorAxis, l, static_cast<int>(t), tile});
    }
  }
  return best;
}

}  // namespace nf::loop
