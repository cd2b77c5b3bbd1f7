// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/nest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "core/autodiff/phase.h"
#include "core/ir/integer_set.h"
#include "core/support/assert.h"
#include "core/support/checked.h"

namespace nf::loop {
namespace {

constexpr std::uint64_t kRaceQuota = 100000;  // isl operations

bool isArg(Reducer r) { return r == Reducer::ArgMax || r == Reducer::ArgMin; }

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

bool isCall(ScalarOp op) {
  switch (op) {
    case ScalarOp::Exp:
    case ScalarOp::Log:
    case ScalarOp::Tanh:
    case ScalarOp::Sigmoid:
    case ScalarOp::Erf:
    case ScalarOp::Sin:
    case ScalarOp::Cos:
    case ScalarOp::Pow: return true;
    default: return false;
  }
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

// A read far apart along the lanes and contiguous along another axis.
bool transposable(const IndexExpr& offset, IndexVar lane, IndexVar other) {
  const std::int64_t along = strideAlong(offset, lane);
  return along != 0 && along != 1 && along != -1 && strideAlong(offset, other) == 1;
}

constexpr double kTransposedCycles = 6;  // of a vector: a load, four shuffles

int lanesCovering(std::int64_t extent, int most) {
  int lanes = 1;
  while (lanes < extent && lanes < most) lanes *= 2;
  return lanes;
}

}  // namespace

ScatterParts partsOf(const Program& program, const Operator& op) {
  ScatterParts parts;
  parts.value = op.body;
  while (program[parts.value].op == ScalarOp::Select) {
    const ScalarNode& select = program[parts.value];
    const ScalarNode& otherwise = program[select.operands[2]];
    if (otherwise.op != ScalarOp::Constant || otherwise.value != 0) break;
    parts.guards.push_back(select.operands[0]);
    parts.value = select.operands[1];
  }
  return parts;
}

namespace {

// Axes that the places by data depend on.
std::set<std::size_t> axesOfData(const Program& program, const Operator& op) {
  std::vector<IndexVar> used;
  for (const AccessIndex& index : op.scatter) {
    if (!index.isData()) continue;
    for (const ExprId e : nodesOf(program, index.data)) {
      if (program[e].index.valid()) program[program[e].index].collectVariables(used);
      if (program[e].access.valid())
        for (const AccessIndex& inner : program[program[e].access].indices)
          if (!inner.isData()) inner.affine.collectVariables(used);
    }
  }
  std::set<std::size_t> axes(used.begin(), used.end());
  axes.erase(axes.lower_bound(op.axes.size()), axes.end());  // counters of loops around
  return axes;
}

}  // namespace

bool sortsPoints(const Program& program, const Operator& op) {
  if (op.kind != OperatorKind::Scatter) return false;
  const std::set<std::size_t> sorted = axesOfData(program, op);
  std::set<std::size_t> direct;
  const auto& shape = program[op.output].shape;
  std::int64_t places = 1, points = 1, others = 1;
  bool any = false;
  for (std::size_t k = 0; k < op.scatter.size(); ++k) {
    if (op.scatter[k].isData()) {
      any = true;
      const auto more = checkedMul(places, shape[k]);
      if (!more) return false;
      places = *more;
      continue;
    }
    const auto v = op.scatter[k].affine.asVariable();
    if (!v || *v >= op.axes.size() || sorted.contains(*v) || op.axes[*v].extent != shape[k] || !direct.insert(*v).second)
      return false;
  }
  for (std::size_t a = 0; a < op.axes.size(); ++a) {
    const auto more = checkedMul(sorted.contains(a) ? points : others, op.axes[a].extent);
    if (!more || (!sorted.contains(a) && !direct.contains(a))) return false;
    (sorted.contains(a) ? points : others) = *more;
  }
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 4;  // places and points are counted in 32 bits
  return any && !sorted.empty() && places < kMost && points < kMost && checkedMul(points, others).has_value();
}

ValueId storeGuard(const Program& program, OperatorId id, const ScatterParts& parts, const std::vector<IndexExpr>& axes,
                   Function& function, BodyLowering& body) {
  const Operator& op = program[id];
  ValueId guard;
  for (const ExprId g : parts.guards) guard = function.both(guard, body.lower(id, g, axes));
  const auto& shape = program[op.output].shape;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (op.scatter[k].isData()) continue;
    const auto range = bounds(op.scatter[k].affine, rangesOf(op));
    if (range && range->lo >= 0 && range->hi < shape[k]) continue;
    const IndexExpr e = body.at(op.scatter[k].affine, axes);
    guard = function.both(guard, function.ge0(e));
    guard = function.both(guard, function.ge0(IndexExpr(shape[k] - 1) - e));
  }
  return guard;
}

void hideOwn(const GroupView& group, const StagePlan& stage, BodyLowering& body) {
  for (const OperatorId id : stage)
    if (group.injective(id)) body.buffers[(*group.program)[id].output.value] = {};
}

bool iterationsNeverMeet(const Operator& op, const std::vector<IndexExpr>& axes, IndexVar v, const RangeOf& ranges) {
  std::vector<IndexExpr> places;
  std::vector<IndexVar> used{v};
  for (const AccessIndex& index : op.scatter) {
    if (index.isData()) continue;
    places.push_back(substitute(index.affine, [&](IndexVar a) -> std::optional<IndexExpr> {
      if (a < axes.size()) return axes[a];
      return std::nullopt;
    }));
    places.back() = simplify(places.back(), ranges);
    places.back().collectVariables(used);
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::vector<Range> box;
  for (int twice = 0; twice < 2; ++twice)
    for (const IndexVar u : used) {
      const auto range = ranges(u);
      if (!range) return false;
      box.push_back(*range);
    }
  const auto point = [&](std::size_t which) {
    return [&used, which](IndexVar u) -> std::optional<IndexExpr> {
      const auto at = static_cast<std::size_t>(std::lower_bound(used.begin(), used.end(), u) - used.begin());
      return IndexExpr::variable(static_cast<IndexVar>(which * used.size() + at));
    };
  };
  IntegerContext context(kRaceQuota);
  IntegerSet meeting = IntegerSet::box(context, box);
  for (const IndexExpr& place : places)
    meeting = meeting.constrained(IndexCond::eq0(substitute(place, point(1)) - substitute(place, point(0))));
  const IndexExpr first = *point(0)(v), second = *point(1)(v);
  return meeting.constrained(IndexCond::ge0(second - first - IndexExpr(1))).isEmpty().value_or(false);
}

double identityOf(Reducer reducer, DType type) {
  const double infinity = type == DType::I32 ? 2147483647.0 : std::numeric_limits<double>::infinity();
  switch (reducer) {
    case Reducer::Prod: return 1;
    case Reducer::Max:
    case Reducer::ArgMax: return type == DType::I32 ? -2147483648.0 : -infinity;
    case Reducer::Min:
    case Reducer::ArgMin: return infinity;
    case Reducer::None:
    case Reducer::Sum: return 0;
  }
  return 0;
}

ValueId combine(Function& f, Reducer reducer, ValueId accumulator, ValueId value) {
  const DType type = f[accumulator].type;
  switch (reducer) {
    case Reducer::Sum: {
      const Value& v = f[value];
      if (v.kind == Value::Kind::Apply && v.op == ScalarOp::Mul && (type == DType::F32 || type == DType::F64) &&
          f[v.operands[0]].type == type && f[v.operands[1]].type == type)
        return f.fma(v.operands[0], v.operands[1], accumulator, v.origin);
      return f.apply(ScalarOp::Add, type, {accumulator, value, {}}, v.origin);
    }
    case Reducer::Prod: return f.apply(ScalarOp::Mul, type, {accumulator, value, {}}, f[value].origin);
    // max(x, y) keeps a NaN of either: the first one stays.
    case Reducer::Max: return f.apply(ScalarOp::Max, type, {value, accumulator, {}}, f[value].origin);
    case Reducer::Min: return f.apply(ScalarOp::Min, type, {value, accumulator, {}}, f[value].origin);
    case Reducer::None:
    case Reducer::ArgMax:
    case Reducer::ArgMin: break;
  }
  NF_ASSERT(false);
  return {};
}

namespace {

// By axis of the stage's operators: of how many residue classes it is made; 1: it stays.
std::vector<std::int64_t> phasesOf(const Probe& probe, const Operator& op, std::size_t rowAxes) {
  const PhaseOptions most;
  std::vector<std::int64_t> moduli(op.axes.size(), 1);
  if (op.kind != OperatorKind::Gather) return moduli;
  for (const IndexExpr& e : probe.expressions) collectPhaseModuli(e, moduli);
  std::int64_t count = 1;
  for (std::size_t k = 0; k < moduli.size(); ++k) {
    const bool split = k >= rowAxes && k < op.outputRank && moduli[k] < op.axes[k].extent && moduli[k] <= most.mostPerDimension &&
                       count * moduli[k] <= most.mostPhases;
    if (!split) moduli[k] = 1;
    count *= moduli[k];
  }
  return moduli;
}

}  // namespace

bool hasPhases(const GroupView& group, const StagePlan& stage, std::size_t rowAxes) {
  const auto moduli = phasesOf(probeStage(group, stage), (*group.program)[stage.front()], rowAxes);
  return std::any_of(moduli.begin(), moduli.end(), [](std::int64_t h) { return h > 1; });
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
  if (knobs.vectorAxis < 0) {
    cycles = view.points * (view.work + static_cast<double>(view.accesses) + 14 * view.calls + 2);
  } else {
    const auto axis = static_cast<std::size_t>(knobs.vectorAxis);
    const double extent = static_cast<double>(view.axes[axis].extent);
    const double lanes = knobs.lanes;
    const double blocks = std::ceil(extent / lanes);
    const double outer = view.points / extent;
    const bool transposed = knobs.tile > 1 && !view.transposedCost.empty();
    double access = view.accessCost[axis];
    if (transposed) {
      const auto other = static_cast<std::size_t>(knobs.tileAxis);
      const double whole = std::ceil(static_cast<double>(view.axes[other].extent) / knobs.tile) * knobs.tile;
      access = view.transposedCost[axis][other] * whole / static_cast<double>(view.axes[other].extent);
    }
    const double perBlock = (lanes / native) * (view.work * 0.5 + access * native / 16 + 6 * view.calls);
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

namespace {

// Builds the loops of one stage.
class NestBuilder {
 public:
  // rows: variables of the leading axes, bound outside; the loops are then returned, not made a stage.
  NestBuilder(const GroupView& group, const StagePlan& plan, const NestKnobs& knobs, Function& function, BodyLowering& body,
              std::vector<VarId> rows = {})
      : m_group(group), m_p(*group.program), m_plan(plan), m_knobs(knobs), m_f(function), m_body(body), m_rows(std::move(rows)),
        m_view(viewNest(group, plan, m_rows.size(), {}, knobs.phases)) {}

  std::vector<StmtId> run() {
    const Operator& first = m_p[m_plan.front()];
    const std::vector<BufferId> visible = m_body.buffers;
    hideOwn(m_group, m_plan, m_body);
    m_targets = visible;
    if (first.kind == OperatorKind::Scatter) scatter(first);
    else gather(first);
    m_body.buffers = visible;
    m_body.forget();
    return std::move(m_made);
  }

 private:
  void gather(const Operator& first) {
    openLoops(first.origin);
    std::vector<StmtId> inner = first.reducer == Reducer::None ? elementwise() : reduction();
    close(std::move(inner), first);
  }

  void close(std::vector<StmtId> inner, const Operator& op) {
    ValueId exists;
    for (const IndexExpr& e : m_ragged)
      if (!m_lane.valid() || !e.uses(m_lane.value)) exists = m_f.both(exists, m_f.ge0(e));
    if (exists.valid()) inner = {m_f.when(exists, std::move(inner), {}, op.origin)};
    for (auto it = m_open.rbegin(); it != m_open.rend(); ++it) inner = {m_f.forEach(*it, std::move(inner), op.origin)};
    if (m_rows.empty()) m_f.stages.push_back({op.name, std::move(inner)});
    else m_made = std::move(inner);
  }

  const NestAxis& axis(std::size_t a) const { return m_view.axes[a]; }
  bool isVector(std::size_t a) const { return m_knobs.vectorAxis == static_cast<int>(a); }
  bool isTiled(std::size_t a) const { return m_knobs.tileAxis == static_cast<int>(a) && m_knobs.tile > 1; }

  // Variables of all axes; loops of the output axes are opened, those of reduced ones come later.
  void openLoops(OriginId) {
    std::vector<IndexExpr> merged(m_view.axes.size());
    double tasks = 1;
    std::vector<std::size_t> outer;
    for (std::size_t a = 0; a < m_view.axes.size(); ++a) {
      if (isVector(a)) {
        const std::int64_t blocks = ceilDiv(axis(a).extent, m_knobs.lanes);
        m_full = axis(a).whole / m_knobs.lanes;
        m_whole = axis(a).whole;
        if (blocks > 1) m_block = m_f.addVar(axis(a).name + "b", blocks, LoopKind::Serial);
        m_lane = m_f.addVar(axis(a).name + "v", m_knobs.lanes, LoopKind::Vector);
        merged[a] = at(m_lane);
        if (m_block.valid()) merged[a] = m_knobs.lanes * at(m_block) + merged[a];
        m_laneIndex = merged[a];
        m_laneExtent = axis(a).extent;
        continue;
      }
      if (axis(a).reduced && !isTiled(a)) {
        if (const std::int64_t inner = partOf(axis(a).extent); inner > 1) {
          const VarId outside = m_f.addVar(axis(a).name + "o", axis(a).extent / inner, LoopKind::Serial);
          const VarId inside = m_f.addVar(axis(a).name, inner, LoopKind::Serial);
          merged[a] = inner * at(outside) + at(inside);
          m_reduced.insert(m_reduced.end(), {outside, inside});
          continue;
        }
      }
      const VarId v = m_f.addVar(axis(a).name + (isTiled(a) ? "o" : ""), ceilDiv(axis(a).extent, isTiled(a) ? m_knobs.tile : 1),
                                 LoopKind::Serial);
      merged[a] = at(v);
      if (isTiled(a)) {
        m_tile = m_f.addVar(axis(a).name + "u", m_knobs.tile, LoopKind::Unrolled);
        m_tileBase = m_knobs.tile * at(v);
        merged[a] = m_tileBase + at(m_tile);
      }
      if (axis(a).reduced) m_reduced.push_back(v);
      else outer.push_back(v.value);
    }
    if (m_block.valid() && !axis(static_cast<std::size_t>(m_knobs.vectorAxis)).reduced) outer.push_back(m_block.value);
    for (const std::size_t v : outer) {
      // Few tasks keep one level serial; enough of them to share out is enough.
      if (tasks < 256 && m_rows.empty()) m_f.vars[v].kind = LoopKind::Parallel;
      tasks *= static_cast<double>(m_f.vars[v].extent);
      m_open.push_back(VarId(v));
    }
    for (const VarId row : m_rows) merged.push_back(at(row));
    m_merged = std::move(merged);
    m_axes = originals(m_merged);
    for (const std::size_t k : m_view.ragged)
      m_ragged.push_back(simplify(IndexExpr(m_p[m_plan.front()].axes[k].extent - 1) - m_axes[k], m_f.ranges()));
  }

  std::vector<IndexExpr> originals(const std::vector<IndexExpr>& merged) const {
    std::vector<IndexExpr> axes;
    for (const IndexExpr& e : m_view.original)
      axes.push_back(simplify(substitute(e,
                                         [&](IndexVar v) -> std::optional<IndexExpr> {
                                           if (v < merged.size()) return merged[v];
                                           return std::nullopt;
                                         }),
                              m_f.ranges()));
    return axes;
  }

  bool tail() const { return m_lane.valid() && (m_laneExtent % m_knobs.lanes != 0 || m_whole != m_laneExtent); }
  ValueId inside() {
    ValueId all = m_f.ge0(IndexExpr(m_laneExtent - 1) - m_laneIndex);
    for (const IndexExpr& e : m_ragged)
      if (e.uses(m_lane.value)) all = m_f.both(all, m_f.ge0(e));
    return all;
  }

  // Statements over the lanes, where the lanes are an axis: whole blocks without a mask, the last one with it.
  std::vector<StmtId> overLanes(std::vector<StmtId> body, OriginId origin) {
    if (!m_lane.valid()) return body;
    if (!tail()) return {m_f.forEach(m_lane, std::move(body), origin)};
    const StmtId masked = m_f.forEach(m_lane, {m_f.when(inside(), body)}, origin);
    if (!m_block.valid()) return {masked};
    const StmtId whole = m_f.forEach(m_lane, std::move(body), origin);
    return {m_f.when(m_f.ge0(IndexExpr(m_full - 1) - at(m_block)), {whole}, {masked}, origin)};
  }

  Place outputPlace(const Operator& op) { return outputPlace(op, m_axes); }
  Place outputPlace(const Operator& op, const std::vector<IndexExpr>& axes) {
    Place place;
    place.buffer = m_targets[op.output.value];
    const auto strides = stridesOf(m_p[op.output]);
    for (std::size_t k = 0; k < strides.size(); ++k) place.offset = place.offset + strides[k] * axes[k];
    place.offset = simplify(place.offset, m_f.ranges());
    return place;
  }

  ValueId stored(ValueId value, BufferId buffer) { return m_body.convert(value, arithmeticType(m_f[buffer].type)); }

  std::vector<StmtId> elementwise() {
    std::vector<StmtId> body;
    for (const OperatorId id : m_plan) {
      const Operator& op = m_p[id];
      const ValueId value = m_body.lower(id, op.body, m_axes);
      const Place place = outputPlace(op);
      body.push_back(m_f.store(place, stored(value, place.buffer), op.origin));
    }
    const OriginId origin = m_p[m_plan.front()].origin;
    if (!m_tile.valid()) return overLanes(std::move(body), origin);
    return transposed(std::move(body), origin);
  }

  // A block of lanes by as many neighbours along the tile axis. Reads that are contiguous along the tile axis come in as vectors of
  // it and are turned, so that the stores are contiguous along the lanes.
  std::vector<StmtId> transposed(std::vector<StmtId> body, OriginId origin) {
    const std::int64_t lanes = m_knobs.lanes;
    const NestAxis& other = axis(static_cast<std::size_t>(m_knobs.tileAxis));
    const bool otherTail = other.extent % lanes != 0;
    std::vector<StmtId> all;
    std::map<ValueId, ValueId> turned;
    const auto turn = [&](ValueId id) {
      const Value load = m_f[id];
      BufferId block = m_f.addLocal("block", arithmeticType(m_f[load.place.buffer].type), lanes * lanes);
      const VarId row = m_f.addVar("u", lanes, LoopKind::Unrolled), lane = m_f.addVar("w", lanes, LoopKind::Vector);
      Place from = load.place;
      from.offset = simplify(substitute(from.offset,
                                        [&](IndexVar v) -> std::optional<IndexExpr> {
                                          if (v == m_lane.value) return at(row);
                                          if (v == m_tile.value) return at(lane);
                                          return std::nullopt;
                                        }),
                             m_f.ranges());
      // Rows past the end of the lanes and lanes past the end of the tile are not read.
      ValueId guard;
      if (tail()) {
        IndexExpr index = at(row);
        if (m_block.valid()) index = lanes * at(m_block) + index;
        guard = m_f.both(guard, m_f.ge0(IndexExpr(m_laneExtent - 1) - index));
      }
      if (otherTail) guard = m_f.both(guard, m_f.ge0(IndexExpr(other.extent - 1) - m_tileBase - at(lane)));
      const ValueId read = m_f.load(std::move(from), guard, load.origin);
      const StmtId store = m_f.store(local(block, lanes * at(row) + at(lane)), read, origin);
      all.push_back(m_f.forEach(lane, {m_f.forEach(row, {store}, origin)}, origin));
      return m_f.load(local(transposeBlock(block, all, origin), lanes * at(m_tile) + at(m_lane)), {}, load.origin);
    };
    for (const StmtId id : body) {
      const ValueId root = m_f[id].value;
      for (const ValueId v : valuesOf(m_f, m_f[id])) {
        if (turned.contains(v)) continue;
        Value value = m_f[v];
        const bool plain = value.kind == Value::Kind::Load && !value.guard.valid() && value.place.data.empty();
        if (plain && transposable(value.place.offset, m_lane.value, m_tile.value)) {
          turned.emplace(v, turn(v));
          continue;
        }
        bool changed = false;
        const auto replace = [&](ValueId& operand) {
          if (!operand.valid()) return;
          changed = changed || turned.at(operand) != operand;
          operand = turned.at(operand);
        };
        for (ValueId& operand : value.operands) replace(operand);
        replace(value.guard);
        for (DataIndex& d : value.place.data) replace(d.value);
        if (changed) m_f.values.push_back(std::move(value));
        turned.emplace(v, changed ? ValueId(m_f.values.size() - 1) : v);
      }
      m_f[id].value = turned.at(root);
    }
    if (otherTail) body = {m_f.when(m_f.ge0(IndexExpr(other.extent - 1) - m_tileBase - at(m_tile)), std::move(body), {}, origin)};
    append(all, overLanes({m_f.forEach(m_tile, std::move(body), origin)}, origin));
    return all;
  }

  // lanes x lanes elements, turned in place of a network: step by step row bits and lane bits change places.
  BufferId transposeBlock(BufferId from, std::vector<StmtId>& all, OriginId origin) {
    const std::int64_t lanes = m_knobs.lanes;
    for (std::int64_t bit = 1; bit < lanes; bit *= 2) {
      const BufferId into = m_f.addLocal("turned", m_f[from].type, lanes * lanes);
      const VarId row = m_f.addVar("u", lanes, LoopKind::Unrolled), lane = m_f.addVar("w", lanes, LoopKind::Vector);
      const IndexExpr rowBit = floorMod(floorDiv(at(row), bit), 2), laneBit = floorMod(floorDiv(at(lane), bit), 2);
      const IndexExpr place = lanes * (at(row) + bit * (laneBit - rowBit)) + at(lane) + bit * (rowBit - laneBit);
      const StmtId store = m_f.store(local(into, lanes * at(row) + at(lane)), m_f.load(local(from, place)), origin);
      all.push_back(m_f.forEach(lane, {m_f.forEach(row, {store}, origin)}, origin));
      from = into;
    }
    return from;
  }

  struct Accumulator {
    BufferId value, index;
    DType type;
  };

  // Long sums are sums of parts: of n numbers in a row the rounding error grows with n, of the sums of parts with the lengths of both.
  static constexpr std::int64_t kLongSum = 64;

  // The steps of a part of a long loop: its largest divisor up to the root. 1: it stays whole.
  std::int64_t partOf(std::int64_t extent) const {
    if (extent < kLongSum || m_p[m_plan.front()].reducer != Reducer::Sum) return 1;
    auto steps = static_cast<std::int64_t>(std::sqrt(static_cast<double>(extent)));
    while (extent % steps != 0) --steps;
    return steps >= 4 ? steps : 1;
  }

  // How many of the reduced loops stand outside a part; 0: the sum is short.
  std::size_t loopsOutsideParts() const {
    double all = 1;
    for (const VarId v : m_reduced) all *= static_cast<double>(m_f[v].extent);
    if (all < kLongSum) return 0;
    std::size_t best = 0;
    double outside = 1, shortest = all;
    for (std::size_t k = 1; k < m_reduced.size(); ++k) {
      outside *= static_cast<double>(m_f[m_reduced[k - 1]].extent);
      if (outside + all / outside >= shortest) continue;
      best = k;
      shortest = outside + all / outside;
    }
    return best;
  }

  Place local(BufferId buffer, const IndexExpr& offset) { return {buffer, offset, {}}; }

  std::vector<StmtId> reduction() {
    const bool rows = m_lane.valid() && axis(static_cast<std::size_t>(m_knobs.vectorAxis)).reduced;
    const bool fold = rows && m_tile.valid();
    IndexExpr lane = m_lane.valid() ? at(m_lane) : IndexExpr(0);
    if (m_tile.valid()) lane = static_cast<std::int64_t>(m_knobs.lanes) * at(m_tile) + lane;
    // Where lanes of neighbours are folded, a last vector holds a result a lane.
    std::vector<IndexExpr> resultAxes = m_axes;
    VarId resultLane;
    if (fold) {
      resultLane = m_f.addVar("f", m_knobs.lanes, LoopKind::Vector);
      std::vector<IndexExpr> merged = m_merged;
      merged[static_cast<std::size_t>(m_knobs.tileAxis)] = m_tileBase + at(resultLane);
      resultAxes = originals(merged);
    }
    std::vector<Accumulator> accumulators;
    std::vector<StmtId> start, step, result;
    m_partLoops = loopsOutsideParts();
    m_partStart.clear();
    m_partEnd.clear();
    for (const OperatorId id : m_plan) {
      const Operator& op = m_p[id];
      const ValueId value = m_body.lower(id, op.body, m_axes);
      DType type = m_f[value].type;
      if (type == DType::Bool) type = DType::F32;
      Accumulator acc;
      acc.type = type;
      acc.value = m_f.addLocal("acc" + std::to_string(accumulators.size()), type,
                               static_cast<std::int64_t>(m_knobs.lanes) * (fold ? m_knobs.lanes : m_knobs.tile));
      const Place place = local(acc.value, lane);
      start.push_back(m_f.store(place, m_f.constant(identityOf(op.reducer, type), type), op.origin));
      const ValueId next = m_body.convert(value, type);
      const ValueId old = m_f.load(place);
      if (isArg(op.reducer)) {
        acc.index = m_f.addLocal("arg" + std::to_string(accumulators.size()), DType::I32, m_knobs.lanes);
        const Place where = local(acc.index, lane);
        start.push_back(m_f.store(where, m_f.constant(0, DType::I32), op.origin));
        ValueId better = m_f.apply(ScalarOp::Lt, DType::Bool, {old, next, {}});
        if (op.reducer == Reducer::ArgMin) better = m_f.apply(ScalarOp::Lt, DType::Bool, {next, old, {}});
        if (type != DType::I32) {
          const ValueId newNan = m_f.apply(ScalarOp::Ne, DType::Bool, {next, next, {}});
          const ValueId oldFine = m_f.apply(ScalarOp::Eq, DType::Bool, {old, old, {}});
          better = m_f.apply(ScalarOp::Or, DType::Bool, {better, m_f.apply(ScalarOp::And, DType::Bool, {newNan, oldFine, {}}), {}});
        }
        const ValueId here = m_f.indexValue(linearReduced(op), DType::I32);
        step.push_back(m_f.store(where, m_f.apply(ScalarOp::Select, DType::I32, {better, here, m_f.load(where)}), op.origin));
        step.push_back(m_f.store(place, m_f.apply(ScalarOp::Select, type, {better, next, old}), op.origin));
      } else if (op.reducer == Reducer::Sum && m_partLoops > 0) {
        const Place part = local(m_f.addLocal("part" + std::to_string(accumulators.size()), type, m_f[acc.value].elements), lane);
        m_partStart.push_back(m_f.store(part, m_f.constant(0, type), op.origin));
        step.push_back(m_f.store(part, combine(m_f, op.reducer, m_f.load(part), next), op.origin));
        m_partEnd.push_back(m_f.store(place, m_f.apply(ScalarOp::Add, type, {old, m_f.load(part), {}}), op.origin));
      } else {
        step.push_back(m_f.store(place, combine(m_f, op.reducer, old, next), op.origin));
      }
      const BufferId from = acc.index.valid() ? acc.index : acc.value;
      const Place out = outputPlace(op, resultAxes);
      const ValueId last = m_f.load(local(from, fold ? at(resultLane) : rows ? IndexExpr(0) : lane));
      result.push_back(m_f.store(out, stored(last, out.buffer), op.origin));
      accumulators.push_back(acc);
    }
    const OriginId origin = m_p[m_plan.front()].origin;
    if (m_tile.valid()) {
      start = {m_f.forEach(m_tile, std::move(start), origin)};
      step = {m_f.forEach(m_tile, std::move(step), origin)};
      for (auto* ends : {&m_partStart, &m_partEnd})
        if (!ends->empty()) *ends = {m_f.forEach(m_tile, std::move(*ends), origin)};
      if (!fold) result = {m_f.forEach(m_tile, std::move(result), origin)};
    }
    if (rows) {
      std::vector<StmtId> all = lanes(std::move(start), false, origin);
      std::vector<StmtId> inner = overLanes(std::move(step), origin);
      if (m_block.valid()) inner = {m_f.forEach(m_block, std::move(inner), origin)};
      append(all, reducedLoops(std::move(inner), origin));
      if (fold) {
        append(all, foldRows(accumulators, origin));
        if (m_knobs.tile < m_knobs.lanes)
          result = {m_f.when(m_f.ge0(IndexExpr(m_knobs.tile - 1) - at(resultLane)), std::move(result), {}, origin)};
        append(all, {m_f.forEach(resultLane, std::move(result), origin)});
        return all;
      }
      append(all, tree(accumulators, origin));
      append(all, std::move(result));
      return all;
    }
    const auto column = [&](bool masked) {
      std::vector<StmtId> all = lanes(start, false, origin);
      append(all, reducedLoops(lanes(step, masked, origin), origin));
      append(all, lanes(result, masked, origin));
      return all;
    };
    if (!tail()) return column(false);
    if (!m_block.valid()) return column(true);
    return {m_f.when(m_f.ge0(IndexExpr(m_full - 1) - at(m_block)), column(false), column(true), origin)};
  }

  static void append(std::vector<StmtId>& all, std::vector<StmtId> more) { all.insert(all.end(), more.begin(), more.end()); }

  std::vector<StmtId> lanes(std::vector<StmtId> body, bool masked, OriginId origin) {
    if (!m_lane.valid()) return body;
    if (masked) body = {m_f.when(inside(), std::move(body), {}, origin)};
    return {m_f.forEach(m_lane, std::move(body), origin)};
  }

  std::vector<StmtId> reducedLoops(std::vector<StmtId> inner, OriginId origin) {
    double trips = 1;
    for (auto it = m_reduced.rbegin(); it != m_reduced.rend(); ++it) {
      Var& v = m_f.vars[it->value];
      trips *= static_cast<double>(v.extent);
      if (trips * m_knobs.tile <= (m_knobs.tile > 1 ? 32 : 9) && m_plan.size() == 1 && m_view.work < 12)
        v.kind = LoopKind::Unrolled;
      inner = {m_f.forEach(*it, std::move(inner), origin)};
      if (m_partStart.empty() || static_cast<std::size_t>(m_reduced.rend() - it) != m_partLoops + 1) continue;
      std::vector<StmtId> part = lanes(m_partStart, false, origin);
      append(part, std::move(inner));
      append(part, lanes(m_partEnd, false, origin));
      inner = std::move(part);
    }
    return inner;
  }

  // Row-major number of a reduced point.
  IndexExpr linearReduced(const Operator& op) {
    IndexExpr linear;
    for (std::size_t k = op.outputRank; k < op.axes.size(); ++k) linear = op.axes[k].extent * linear + m_axes[k];
    return simplify(linear, m_f.ranges());
  }

  // Vectors that stand below each other, folded pair by pair: half of the lanes of one beside half of those of the next, until
  // lane l of one vector is the sum of vector l.
  //   a0 a1 a2 a3 | b0 b1 b2 b3   ->   a0+a2 a1+a3 b0+b2 b1+b3   ->   ..
  std::vector<StmtId> foldRows(std::vector<Accumulator>& accumulators, OriginId origin) {
    const std::int64_t lanes = m_knobs.lanes;
    std::vector<StmtId> all;
    for (std::size_t k = 0; k < accumulators.size(); ++k) {
      const Reducer reducer = m_p[m_plan[k]].reducer;
      BufferId from = accumulators[k].value;
      const DType type = accumulators[k].type;
      if (m_knobs.tile < lanes) {
        const VarId lane = m_f.addVar("w", lanes, LoopKind::Vector);
        const VarId row = m_f.addVar("u", lanes - m_knobs.tile, LoopKind::Unrolled);
        const StmtId fill = m_f.store(local(from, lanes * (at(row) + IndexExpr(m_knobs.tile)) + at(lane)),
                                      m_f.constant(identityOf(reducer, type), type), origin);
        all.push_back(m_f.forEach(lane, {m_f.forEach(row, {fill}, origin)}, origin));
      }
      for (std::int64_t half = lanes / 2; half >= 1; half /= 2) {
        const std::int64_t rows = half;  // as many vectors as a segment has lanes
        const BufferId into = half == 1 ? accumulators[k].value : m_f.addLocal("fold", type, rows * lanes);
        const VarId lane = m_f.addVar("w", lanes, LoopKind::Vector);
        const VarId row = m_f.addVar("u", rows, LoopKind::Unrolled);
        const IndexExpr within = floorMod(at(lane), lanes / 2);
        const IndexExpr first =
            lanes * (2 * at(row) + floorDiv(at(lane), lanes / 2)) + 2 * half * floorDiv(within, half) + floorMod(within, half);
        const ValueId a = m_f.load(local(from, first));
        const ValueId b = m_f.load(local(from, first + IndexExpr(half)));
        const StmtId store = m_f.store(local(into, lanes * at(row) + at(lane)), combine(m_f, reducer, a, b), origin);
        all.push_back(m_f.forEach(lane, {m_f.forEach(row, {store}, origin)}, origin));
        from = into;
      }
    }
    return all;
  }

  // Halves the lanes until one is left: a fixed tree.
  std::vector<StmtId> tree(const std::vector<Accumulator>& accumulators, OriginId origin) {
    std::vector<StmtId> all;
    for (std::int64_t width = m_knobs.lanes / 2; width >= 1; width /= 2) {
      const VarId lane = m_f.addVar("w", width, LoopKind::Vector);
      std::vector<StmtId> body;
      for (std::size_t k = 0; k < accumulators.size(); ++k) {
        const Place to = local(accumulators[k].value, at(lane));
        const ValueId a = m_f.load(to);
        const ValueId b = m_f.load(local(accumulators[k].value, at(lane) + IndexExpr(width)));
        body.push_back(m_f.store(to, combine(m_f, m_p[m_plan[k]].reducer, a, b), origin));
      }
      all.push_back(m_f.forEach(lane, std::move(body), origin));
    }
    return all;
  }

  void scatter(const Operator& op) {
    if (m_knobs.sorted) return sortedScatter(op);
    const BufferId target = m_targets[op.output.value];
    zero(op, target);
    openLoops(op.origin);
    // Points may meet in one element. Loops whose iterations never do go outside and run in parallel; the others keep their order, so
    // each element sums in the same order whatever the number of threads.
    const auto free = std::stable_partition(m_open.begin(), m_open.end(),
                                            [&](VarId v) { return iterationsNeverMeet(op, m_axes, v.value, m_f.ranges()); });
    for (auto it = m_open.begin(); it != free; ++it) m_f.vars[it->value].kind = LoopKind::Parallel;
    for (auto it = free; it != m_open.end(); ++it) m_f.vars[it->value].kind = LoopKind::Serial;
    const OperatorId id = m_plan.front();
    const ScatterParts parts = partsOf(m_p, op);
    const ValueId guard = storeGuard(m_p, id, parts, m_axes, m_f, m_body);
    const ValueId value = m_body.lower(id, parts.value, m_axes);
    Place place = m_body.place(id, op.output, target, op.scatter, m_axes);
    const DType type = arithmeticType(m_f[target].type);
    const ValueId sum = m_f.apply(ScalarOp::Add, type, {m_f.load(place), m_body.convert(value, type), {}}, op.origin);
    std::vector<StmtId> body{m_f.store(std::move(place), sum, op.origin)};
    if (guard.valid()) body = {m_f.when(guard, std::move(body), {}, op.origin)};
    close(overLanes(std::move(body), op.origin), op);
  }

  void sortedScatter(const Operator& op) {
    const OperatorId id = m_plan.front();
    const BufferId target = m_targets[op.output.value];
    const DType type = arithmeticType(m_f[target].type);
    const std::set<std::size_t> byData = axesOfData(m_p, op);
    const auto& shape = m_p[op.output].shape;
    std::int64_t points = 1, others = 1, places = 1;
    for (std::size_t a = 0; a < op.axes.size(); ++a) (byData.contains(a) ? points : others) *= op.axes[a].extent;
    for (std::size_t k = 0; k < shape.size(); ++k)
      if (op.scatter[k].isData()) places *= shape[k];
    // starts[v + 1], while points are ranked, is where the next one of place v goes; then starts[v] is where those of v begin.
    const BufferId starts = m_f.addWorkspace(op.name + " starts", DType::I32, places + 2);
    const BufferId rank = m_f.addWorkspace(op.name + " rank", DType::I32, points);
    const BufferId values = m_f.addWorkspace(op.name + " sorted", type, points * others);
    const auto stage = [&](const std::string& what, const std::vector<VarId>& loops, std::vector<StmtId> inner) {
      for (auto it = loops.rbegin(); it != loops.rend(); ++it) inner = {m_f.forEach(*it, std::move(inner), op.origin)};
      m_f.stages.push_back({op.name + what, std::move(inner)});
      m_body.forget();
    };
    const auto one = [&] { return m_f.constant(1, DType::I32); };
    const auto sum = [&](ValueId a, ValueId b) { return m_f.apply(ScalarOp::Add, DType::I32, {a, b, {}}, op.origin); };
    const VarId empty = m_f.addVar("v", places + 2, LoopKind::Serial);
    stage(" starts = 0", {empty}, {m_f.store({starts, at(empty), {}}, m_f.constant(0, DType::I32), op.origin)});

    // One walk over the points that data tells apart, in their order; `inner` gets the place of the point's counter and its number.
    const auto walk = [&](const std::string& what,
                          const std::function<std::vector<StmtId>(const Place&, const IndexExpr&)>& inner) {
      std::vector<VarId> loops;
      std::vector<IndexExpr> axes(op.axes.size());
      IndexExpr number;
      for (std::size_t a = 0; a < op.axes.size(); ++a) {
        if (!byData.contains(a)) continue;
        loops.push_back(m_f.addVar(op.axes[a].name, op.axes[a].extent, LoopKind::Serial));
        axes[a] = at(loops.back());
        number = op.axes[a].extent * number + axes[a];
      }
      // As the scatter's own place, of the components by data alone.
      Place counter = m_body.place(id, op.output, target, op.scatter, axes);
      counter.buffer = starts;
      counter.offset = IndexExpr();
      std::int64_t stride = places;
      std::size_t component = 0;
      for (std::size_t k = 0; k < shape.size(); ++k) {
        if (!op.scatter[k].isData()) continue;
        stride /= shape[k];
        counter.data[component++].stride = stride;
      }
      stage(what, loops, inner(counter, number));
    };
    walk(" counts", [&](Place counter, const IndexExpr&) -> std::vector<StmtId> {
      counter.offset = IndexExpr(2);
      const ValueId more = sum(m_f.load(counter), one());
      return {m_f.store(counter, more, op.origin)};
    });
    const VarId place = m_f.addVar("v", places, LoopKind::Serial);
    stage(" starts", {place},
          {m_f.store({starts, at(place) + IndexExpr(2), {}},
                     sum(m_f.load({starts, at(place) + IndexExpr(2), {}}), m_f.load({starts, at(place) + IndexExpr(1), {}})),
                     op.origin)});
    walk(" ranks", [&](Place counter, const IndexExpr& number) -> std::vector<StmtId> {
      counter.offset = IndexExpr(1);
      const StmtId mine = m_f.store({rank, number, {}}, m_f.load(counter), op.origin);
      const ValueId next = sum(m_f.load({rank, number, {}}), one());
      return {mine, m_f.store(counter, next, op.origin)};
    });

    openLoops(op.origin);
    for (const VarId v : m_open) m_f.vars[v.value].kind = LoopKind::Parallel;  // every point has a rank of its own
    IndexExpr number, column;
    for (std::size_t a = 0; a < op.axes.size(); ++a) {
      IndexExpr& e = byData.contains(a) ? number : column;
      e = op.axes[a].extent * e + m_axes[a];
    }
    Place sorted{values, simplify(column, m_f.ranges()), {}};
    const ValueId mine = m_f.load({rank, simplify(number, m_f.ranges()), {}});
    m_f.checks.push_back("operator " + op.name + ": the rank of a point is outside its points");
    sorted.data.push_back({mine, others, points, static_cast<std::uint32_t>(m_f.checks.size() - 1)});
    const ValueId value = m_body.convert(m_body.lower(id, op.body, m_axes), type);
    std::vector<StmtId> inner = overLanes({m_f.store(std::move(sorted), value, op.origin)}, op.origin);
    for (auto it = m_open.rbegin(); it != m_open.rend(); ++it) inner = {m_f.forEach(*it, std::move(inner), op.origin)};
    m_f.stages.push_back({op.name + " sorted", std::move(inner)});
    m_body.forget();
    sumSegments(op, target, byData, starts, values, points, others);
  }

  // Each place adds up its segment.
  void sumSegments(const Operator& op, BufferId target, const std::set<std::size_t>& byData, BufferId starts, BufferId values,
                   std::int64_t points, std::int64_t others) {
    const DType type = arithmeticType(m_f[target].type);
    const auto& shape = m_p[op.output].shape;
    const auto strides = stridesOf(m_p[op.output]);
    std::vector<VarId> loops;
    IndexExpr offset, number, column;
    for (std::size_t k = 0; k < shape.size(); ++k) {
      if (!op.scatter[k].isData()) continue;
      loops.push_back(m_f.addVar("v" + std::to_string(k), shape[k], LoopKind::Parallel));
      number = shape[k] * number + at(loops.back());
      offset = offset + strides[k] * at(loops.back());
    }
    // Columns: the other axes, the innermost on the lanes.
    VarId lane;
    ValueId inside;
    for (std::size_t a = 0; a < op.axes.size(); ++a) {
      if (byData.contains(a)) continue;
      const std::int64_t extent = op.axes[a].extent;
      const bool last = std::none_of(op.axes.begin() + static_cast<std::ptrdiff_t>(a) + 1, op.axes.end(), [&](const Axis& b) {
        return !byData.contains(static_cast<std::size_t>(&b - op.axes.data()));
      });
      IndexExpr e;
      if (last && m_knobs.lanes > 1) {
        const int lanes = lanesCovering(extent, m_knobs.lanes);
        lane = m_f.addVar(op.axes[a].name + "v", lanes, LoopKind::Vector);
        e = at(lane);
        if (const std::int64_t blocks = ceilDiv(extent, lanes); blocks > 1) {
          loops.push_back(m_f.addVar(op.axes[a].name + "b", blocks, LoopKind::Parallel));
          e = lanes * at(loops.back()) + e;
        }
        if (extent % lanes != 0) inside = m_f.ge0(IndexExpr(extent - 1) - e);
      } else {
        loops.push_back(m_f.addVar(op.axes[a].name, extent, LoopKind::Parallel));
        e = at(loops.back());
      }
      column = extent * column + e;
      for (std::size_t k = 0; k < shape.size(); ++k)
        if (!op.scatter[k].isData() && op.scatter[k].affine.asVariable() == static_cast<IndexVar>(a))
          offset = offset + strides[k] * e;
    }
    const std::int64_t lanes = lane.valid() ? m_f[lane].extent : 1;
    const BufferId sum = m_f.addLocal("acc", type, lanes);
    const Place own{sum, lane.valid() ? at(lane) : IndexExpr(0), {}};
    const auto over = [&](StmtId statement) {
      if (inside.valid()) statement = m_f.when(inside, {statement}, {}, op.origin);
      return lane.valid() ? m_f.forEach(lane, {statement}, op.origin) : statement;
    };
    const VarId p = m_f.addVar("p", points, LoopKind::Serial);
    const ValueId here = m_f.indexValue(at(p), DType::I32);
    const ValueId begins = m_f.apply(ScalarOp::Le, DType::Bool, {m_f.load({starts, number, {}}), here, {}});
    const ValueId ends = m_f.apply(ScalarOp::Lt, DType::Bool, {here, m_f.load({starts, number + IndexExpr(1), {}}), {}});
    const ValueId more =
        m_f.apply(ScalarOp::Add, type, {m_f.load(own), m_f.load({values, others * at(p) + column, {}}), {}}, op.origin);
    const StmtId add = over(m_f.store(own, more, op.origin));
    std::vector<StmtId> inner{over(m_f.store(own, m_f.constant(0, type), op.origin)),
                              m_f.forEach(p, {m_f.when(m_f.both(begins, ends), {add}, {}, op.origin)}, op.origin),
                              over(m_f.store({target, offset, {}}, m_f.load(own), op.origin))};
    for (auto it = loops.rbegin(); it != loops.rend(); ++it) inner = {m_f.forEach(*it, std::move(inner), op.origin)};
    m_f.stages.push_back({op.name, std::move(inner)});
  }

  void zero(const Operator& op, BufferId target) {
    const std::int64_t n = m_f[target].elements;
    const std::int64_t lanes = n >= 64 ? 64 : lanesCovering(n, 64);
    const VarId lane = m_f.addVar("z", lanes, LoopKind::Vector);
    const VarId block = m_f.addVar("zb", ceilDiv(n, lanes), LoopKind::Parallel);
    const IndexExpr index = lanes * at(block) + at(lane);
    const DType type = arithmeticType(m_f[target].type);
    StmtId body = m_f.store({target, index, {}}, m_f.constant(0, type), op.origin);
    if (n % lanes != 0) body = m_f.when(m_f.ge0(IndexExpr(n - 1) - index), {body}, {}, op.origin);
    body = m_f.forEach(block, {m_f.forEach(lane, {body}, op.origin)}, op.origin);
    m_f.stages.push_back({op.name + " = 0", {body}});
  }

  const GroupView& m_group;
  const Program& m_p;
  const StagePlan& m_plan;
  NestKnobs m_knobs;
  Function& m_f;
  BodyLowering& m_body;
  std::vector<VarId> m_rows;
  NestView m_view;
  std::vector<StmtId> m_made;  // of a row
  std::vector<BufferId> m_targets;
  std::vector<VarId> m_open, m_reduced;
  std::vector<IndexExpr> m_axes, m_merged;
  std::size_t m_partLoops = 0;                 // reduced loops outside a part of the sums; 0: no parts
  std::vector<StmtId> m_partStart, m_partEnd;  // around one
  VarId m_lane, m_block, m_tile;
  IndexExpr m_tileBase;
  IndexExpr m_laneIndex;
  std::vector<IndexExpr> m_ragged;  // at least 0 where the point exists
  std::int64_t m_laneExtent = 1, m_whole = 1, m_full = 0;
};

}  // namespace

void lowerNest(const GroupView& group, const StagePlan& stage, const NestKnobs& knobs, Function& function, BodyLowering& body) {
  NestBuilder(group, stage, knobs, function, body).run();
}

std::size_t sharedRows(const GroupView& group, const std::vector<StagePlan>& stages) {
  const Program& p = *group.program;
  const Operator* first = nullptr;
  std::size_t shared = 0;
  // Only operators that the stages need, inlined ones included; all of them make something another one reads or an output.
  for (const Operator& op : p.operators) {
    if (op.kind != OperatorKind::Gather) return 0;
    if (!first) {
      first = &op;
      shared = op.outputRank;
    }
    shared = std::min<std::size_t>(shared, op.outputRank);
    for (std::size_t k = 0; k < shared; ++k)
      if (op.axes[k].extent != first->axes[k].extent) shared = k;
    for (const ExprId e : nodesOf(p, op.body)) {
      if (p[e].op != ScalarOp::Load) continue;
      const Access& access = p[p[e].access];
      if (!group.producers[access.tensor.value].valid()) continue;
      for (std::size_t k = 0; k < shared; ++k)
        if (k >= access.indices.size() || access.indices[k].isData() ||
            access.indices[k].affine.asVariable() != std::optional<IndexVar>(static_cast<IndexVar>(k)))
          shared = k;
    }
  }
  return stages.size() < 2 ? 0 : shared;
}

void lowerRows(const GroupView& group, const std::vector<StagePlan>& stages, std::size_t rowAxes,
               const std::vector<NestKnobs>& knobs, Function& function, BodyLowering& body) {
  const Program& p = *group.program;
  const Operator& first = p[stages.front().front()];
  std::vector<VarId> rows;
  for (std::size_t k = 0; k < rowAxes; ++k)
    rows.push_back(function.addVar(first.axes[k].name, first.axes[k].extent, LoopKind::Parallel));
  std::vector<StmtId> all;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const auto made = NestBuilder(group, stages[s], knobs[s], function, body, rows).run();
    all.insert(all.end(), made.begin(), made.end());
  }
  for (auto it = rows.rbegin(); it != rows.rend(); ++it) all = {function.forEach(*it, std::move(all), first.origin)};
  function.stages.push_back({p[stages.back().back()].name, std::move(all)});
}

}  // namespace nf::loop
