// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/scatter.h"

#include <algorithm>

#include "core/ir/integer_set.h"
#include "core/support/checked.h"

namespace nf::loop {
namespace {

constexpr std::uint64_t kRaceQuota = 100000;  // isl operations

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
std::set<std::size_t> axesOf(const Program& program, const Operator& op, ExprId root) {
  std::vector<IndexVar> used;
  for (const ExprId e : nodesOf(program, root)) {
    const ScalarNode& n = program[e];
    if (n.index.valid()) program[n.index].collectVariables(used);
    if (n.access.valid())
      for (const AccessIndex& inner : program[n.access].indices)
        if (!inner.isData()) inner.affine.collectVariables(used);
  }
  std::set<std::size_t> axes(used.begin(), used.end());
  axes.erase(axes.lower_bound(op.axes.size()), axes.end());  // counters of loops around
  return axes;
}
}  // namespace

std::set<std::size_t> axesOfData(const Program& program, const Operator& op) {
  std::set<std::size_t> axes;
  for (const AccessIndex& index : op.scatter)
    if (index.isData()) axes.merge(axesOf(program, op, index.data));
  return axes;
}

bool dependsOnlyOn(const Program& program, const Operator& op, ExprId root, const std::set<std::size_t>& axes) {
  const std::set<std::size_t> used = axesOf(program, op, root);
  return std::includes(axes.begin(), axes.end(), used.begin(), used.end());
}

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
  // Each is looked up only where those before it hold.
  for (const ExprId g : parts.guards) guard = function.both(guard, body.lower(id, g, axes, guard));
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

}  // namespace nf::loop
