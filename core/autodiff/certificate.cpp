// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/autodiff/inverse.h"
#include "core/autodiff/partition.h"
#include "core/ir/rewrite.h"

namespace nf {
namespace {

IntegerSet constrainedBy(IntegerSet set, const std::vector<IndexCond>& conditions) {
  for (const IndexCond& c : conditions) set = set.constrained(c);
  return set;
}

std::vector<Range> boxOf(const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& second) {
  std::vector<Range> box;
  for (const std::int64_t extent : first) box.push_back({0, extent - 1});
  for (const std::int64_t extent : second) box.push_back({0, extent - 1});
  return box;
}

// { [z, t] : boxes, guards }
IntegerSet nestOf(IntegerContext& context, const AccessProblem& problem, const Inverse& inverse) {
  const IntegerSet box = IntegerSet::box(context, boxOf(problem.shape, inverse.axes));
  return constrainedBy(constrainedBy(box, inverse.zGuards), inverse.tGuards);
}

bool overflowed(const IndexCond& c) { return c.expr.overflowed() || std::any_of(c.operands.begin(), c.operands.end(), overflowed); }

// What a point of the domain fulfils that reads the tensor: the guards, and the bounds that its ranges do not imply.
std::vector<IndexCond> conditionsOf(const AccessProblem& problem) {
  std::vector<IndexCond> conditions = problem.guards;
  const RangeOf ranges = [&](IndexVar v) { return std::optional(problem.domain[v]); };
  for (std::size_t j = 0; j < problem.access.size(); ++j) {
    const auto range = bounds(problem.access[j], ranges);
    if (!range || range->lo < 0) conditions.push_back(IndexCond::ge0(problem.access[j]));
    if (!range || range->hi >= problem.shape[j])
      conditions.push_back(IndexCond::ge0(IndexExpr(problem.shape[j] - 1) - problem.access[j]));
  }
  return conditions;
}

IntegerSet pointsOf(IntegerContext& context, const AccessProblem& problem) {
  return constrainedBy(IntegerSet::box(context, problem.domain), conditionsOf(problem));
}

// With the witness h = (f, tOfY), point by point: g leads from the nest into the points, h from the points into the nest, h undoes g
// and g undoes h. Every claim is that a set is empty: many small questions, where an equality of relations is one large one.
std::optional<bool> proveByClaims(IntegerContext& context, const AccessProblem& problem, const Inverse& inverse,
                                  const QuestionLimit& limit) {
  const std::size_t m = problem.shape.size();
  const IntegerSet nest = nestOf(context, problem, inverse), points = pointsOf(context, problem);
  const auto v = [](std::size_t i) { return IndexExpr::variable(static_cast<IndexVar>(i)); };
  const auto atG = [&](IndexVar i) { return std::optional(inverse.y[i]); };
  const auto atH = [&](IndexVar i) { return std::optional(i < m ? problem.access[i] : inverse.tOfY[i - m]); };
  bool known = true;
  const auto always = [&](const IntegerSet& set, const IndexCond& claim) {
    const bool unanswered = overflowed(claim) || limit.isOver();
    const std::optional<bool> empty = unanswered ? std::nullopt : set.constrained(IndexCond::negate(claim)).isEmpty();
    known = known && empty.has_value();
    return empty == true;
  };
  const auto equal = [&](const IntegerSet& set, const IndexExpr& a, const IndexExpr& b) {
    const IndexExpr difference = a - b;
    if (!difference.overflowed() && difference == IndexExpr(0)) return true;
    return always(set, IndexCond::ge0(difference)) && always(set, IndexCond::ge0(-difference));
  };
  const auto inside = [&](const IntegerSet& set, const IndexExpr& e, const Range& range) {
    return always(set, IndexCond::ge0(e - IndexExpr(range.lo))) && always(set, IndexCond::ge0(IndexExpr(range.hi) - e));
  };
  const auto holds = [&] {
    for (std::size_t i = 0; i < inverse.y.size(); ++i)
      if (!inside(nest, inverse.y[i], problem.domain[i])) return false;
    for (std::size_t k = 0; k < inverse.axes.size(); ++k)
      if (!inside(points, inverse.tOfY[k], {0, inverse.axes[k] - 1})) return false;
    for (std::size_t j = 0; j < m; ++j)
      if (!equal(nest, substitute(problem.access[j], atG), v(j))) return false;
    for (std::size_t k = 0; k < inverse.axes.size(); ++k)
      if (!equal(nest, substitute(inverse.tOfY[k], atG), v(m + k))) return false;
    for (std::size_t i = 0; i < inverse.y.size(); ++i)
      if (!equal(points, substitute(inverse.y[i], atH), v(i))) return false;
    for (const IndexCond& g : problem.guards)
      if (!always(nest, substitute(g, atG))) return false;
    for (const auto* guards : {&inverse.zGuards, &inverse.tGuards})
      for (const IndexCond& g : *guards)
        if (!always(points, substitute(g, atH))) return false;
    return true;
  };
  if (holds()) return true;
  return known ? std::optional(false) : std::nullopt;
}

// With the witness: { [z, t] -> y = g(z, t) : boxes, guards } is the inverse of
// { y -> [f(y), tOfY(y)] : y in the domain, path guards, f(y) in the tensor }. The witness need not be believed: whatever it is,
// a function that undoes g on the nest and reaches just these y makes g a bijection onto them that keeps z.
std::optional<bool> proveByWitness(IntegerContext& context, const AccessProblem& problem, const Inverse& inverse) {
  std::vector<IndexExpr> back = problem.access;
  back.insert(back.end(), inverse.tOfY.begin(), inverse.tOfY.end());
  return context.areInverse(nestOf(context, problem, inverse), inverse.y, pointsOf(context, problem), back);
}

// Without it: { [z, t] -> [z, y] : boxes, guards, y = g(z, t) } is injective, and its range is
// { [z, y] : y in the domain, path guards, z = f(y), z in the tensor }.
std::optional<bool> proveByRange(IntegerContext& context, const AccessProblem& problem, const Inverse& inverse) {
  const std::size_t m = problem.shape.size();
  std::vector<IndexExpr> images;
  for (std::size_t j = 0; j < m; ++j) images.push_back(IndexExpr::variable(static_cast<IndexVar>(j)));
  images.insert(images.end(), inverse.y.begin(), inverse.y.end());

  std::vector<Range> box = boxOf(problem.shape, {});
  box.insert(box.end(), problem.domain.begin(), problem.domain.end());
  const auto behindZ = [m](IndexVar v) { return std::optional(IndexExpr::variable(static_cast<IndexVar>(m + v))); };
  IntegerSet fibres = IntegerSet::box(context, box);
  for (const IndexCond& g : problem.guards) fibres = fibres.constrained(substitute(g, behindZ));
  for (std::size_t j = 0; j < m; ++j)
    fibres =
        fibres.constrained(IndexCond::eq0(IndexExpr::variable(static_cast<IndexVar>(j)) - substitute(problem.access[j], behindZ)));
  return context.isBijectionOnto(nestOf(context, problem, inverse), images, fibres);
}

std::optional<bool> provePart(IntegerContext& context, const AccessProblem& problem, const Inverse& inverse,
                              const QuestionLimit& limit) {
  if (inverse.tOfY.size() == inverse.axes.size()) {
    if (proveByClaims(context, problem, inverse, limit) == true) return true;
    if (!limit.isOver() && proveByWitness(context, problem, inverse) == true) return true;
  }
  if (limit.isOver()) return std::nullopt;
  return proveByRange(context, problem, inverse);
}

}  // namespace

std::optional<bool> certify(const AccessProblem& problem, const Inverse& inverse, const QuestionLimit& limit) {
  if (inverse.y.size() != problem.domain.size()) return false;
  const auto parts = partsOf(problem, inverse);
  if (!parts) return false;
  IntegerContext context(limit);
  for (const Part& part : *parts) {
    const std::optional<bool> proved = provePart(context, part.problem, part.inverse, limit);
    if (!proved || !*proved) return proved;
  }
  return true;
}

std::optional<bool> certifyEmpty(const AccessProblem& problem, const QuestionLimit& limit) {
  IntegerContext context(limit);
  return pointsOf(context, problem).isEmpty();
}

std::vector<IndexCond> excludingConditions(const AccessProblem& problem, const QuestionLimit& limit) {
  IntegerContext context(limit);
  std::vector<IndexCond> conditions = conditionsOf(problem);
  for (std::size_t k = conditions.size(); k-- > 0;) {
    std::vector<IndexCond> others = conditions;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
    if (constrainedBy(IntegerSet::box(context, problem.domain), others).isEmpty() == true) conditions = std::move(others);
  }
  return conditions;
}

}  // namespace nf
