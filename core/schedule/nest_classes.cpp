// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/schedule/nest_builder.h"

namespace nf::loop {

// Loops of their own by class: where each is a constant of its loops, no lane and no part of a tile.
bool NestBuilder::byClasses() const {
  if (m_view.classes.empty() || (m_view.classAxes.empty() && !m_knobs.peeled)) return false;
  return std::none_of(m_view.classAxes.begin(), m_view.classAxes.end(), [&](std::size_t a) { return isVector(a) || isTiled(a); });
}

// The reduced axes as long as the class needs them; those on the lanes and merged ones stay, and keep guards for it.
void NestBuilder::openClass(const StageClass& one) {
  m_class = &one;
  std::vector<IndexCond> guards = one.guards;
  m_reduced.clear();
  for (std::size_t a = 0; a < m_view.axes.size(); ++a) {
    if (!axis(a).reduced) continue;
    const std::vector<std::size_t>& members = m_view.members[a];
    if (members.size() == 1 && !isVector(a)) {
      const Range& left = one.left[members[0]];
      m_merged[a] = IndexExpr(left.lo) + reducedCounter(axis(a).name, left.extent());
      continue;
    }
    if (!isVector(a)) m_merged[a] = reducedCounter(axis(a).name, axis(a).extent);
    for (const std::size_t k : members) {
      const IndexExpr t = IndexExpr::variable(static_cast<IndexVar>(k));
      guards.push_back(IndexCond::ge0(t - IndexExpr(one.left[k].lo)));
      guards.push_back(IndexCond::ge0(IndexExpr(one.left[k].hi) - t));
    }
  }
  setAxes();
  m_guards.clear();
  for (const IndexCond& g : guards) {
    const IndexCond here = simplify(substitute(g,
                                               [&](IndexVar v) -> std::optional<IndexExpr> {
                                                 if (v < m_axes.size()) return m_axes[v];
                                                 return std::nullopt;
                                               }),
                                    m_f.ranges());
    if (!here.isAlways()) m_guards.push_back(here);
  }
}

// The loops once without the guards that hold everywhere inside, and once with them for the border.
std::vector<StmtId> NestBuilder::peeled(const std::function<std::vector<StmtId>()>& inner, OriginId origin) {
  if (!m_knobs.peeled) return inner();
  const auto isInside = [&](IndexVar v) {
    const bool lane = (m_lane.valid() && v == m_lane.value) || (m_tile.valid() && v == m_tile.value);
    const bool block = m_block.valid() && (VarId(v) == m_block || VarId(v) == m_blockPart) &&
                       axis(static_cast<std::size_t>(m_knobs.vectorAxis)).reduced;
    return lane || block || std::find(m_reduced.begin(), m_reduced.end(), VarId(v)) != m_reduced.end();
  };
  PeeledGuards split = peelGuards(m_guards, isInside, m_f.ranges());
  if (split.peeled.empty()) return inner();
  ValueId inside;
  for (const IndexCond& c : split.interior) inside = m_f.both(inside, m_f.ge0(c.expr));
  std::vector<IndexCond> all = std::move(m_guards);
  m_guards = std::move(split.kept);
  std::vector<StmtId> interior = inner();
  m_guards = std::move(all);
  std::vector<StmtId> border = inner();
  return {m_f.when(inside, std::move(interior), std::move(border), origin)};
}

ValueId NestBuilder::test(const IndexCond& c) {
  switch (c.kind) {
    case IndexCond::Kind::GreaterEqualZero: return m_f.ge0(c.expr);
    case IndexCond::Kind::EqualZero: return m_f.eq0(c.expr);
    case IndexCond::Kind::Not: return m_f.apply(ScalarOp::Not, DType::Bool, {test(c.operands[0]), {}, {}});
    case IndexCond::Kind::And:
    case IndexCond::Kind::Or: break;
  }
  const bool every = c.kind == IndexCond::Kind::And;
  if (c.operands.empty()) return m_f.constant(every ? 1 : 0, DType::Bool);
  ValueId result = test(c.operands[0]);
  for (std::size_t k = 1; k < c.operands.size(); ++k)
    result = m_f.apply(every ? ScalarOp::And : ScalarOp::Or, DType::Bool, {result, test(c.operands[k]), {}});
  return result;
}

// Of the class's guards those that are the same for all lanes and neighbours of a tile, or the others. Invalid: there are none.
ValueId NestBuilder::testsOf(bool uniform) {
  ValueId all;
  for (const IndexCond& g : m_guards) {
    std::vector<IndexVar> used;
    collectVariables(g, used);
    const bool same = std::none_of(used.begin(), used.end(), [&](IndexVar v) {
      return (m_lane.valid() && v == m_lane.value) || (m_tile.valid() && v == m_tile.value);
    });
    if (same == uniform) all = m_f.both(all, test(g));
  }
  return all;
}

// What a point of the operator is worth to the reduction.
ValueId NestBuilder::termOf(OperatorId id) {
  const ExprId body = m_p[id].body;
  if (!m_class || !m_view.term.valid()) return m_body.lower(id, body, m_axes);
  const ValueId guard = testsOf(false);
  const ValueId value = m_body.convert(m_body.lower(id, m_view.term, m_axes, guard), m_p[body].type);
  if (!guard.valid()) return value;
  return m_f.apply(ScalarOp::Select, m_p[body].type, {guard, value, m_f.constant(0, m_p[body].type)}, m_p[body].origin);
}

// Terms that a test for all lanes shuts out are not there.
std::vector<StmtId> NestBuilder::whereTermsAre(std::vector<StmtId> step, OriginId origin) {
  if (!m_class || !m_view.term.valid()) return step;
  const ValueId guard = testsOf(true);
  if (!guard.valid()) return step;
  return {m_f.when(guard, std::move(step), {}, origin)};
}

}  // namespace nf::loop
