// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/inverse.h"
#include "core/autodiff/partition.h"

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

// With the witness: { [z, t] -> y = g(z, t) : boxes, guards } is the inverse of
// { y -> [f(y), tOfY(y)] : y in the domain, path guards, f(y) in the tensor }. The witness need not be believed: whatever it is,
// a function that undoes g on the nest and reaches just these y makes g a bijection onto them that keeps z.
std::optional<bool> proveByWitness(IntegerContext& context, const AccessProblem& problem, const Inverse& inverse) {
  IntegerSet points = constrainedBy(IntegerSet::box(context, problem.domain), problem.guards);
  const RangeOf ranges = [&](IndexVar v) { return std::optional(problem.domain[v]); };
  for (std::size_t j = 0; j < problem.access.size(); ++j) {
    const auto range = bounds(problem.access[j], ranges);
    if (!range || range->lo < 0) points = points.constrained(IndexCond::ge0(problem.access[j]));
    if (!range || range->hi >= problem.shape[j])
      points = points.constrained(IndexCond::ge0(IndexExpr(problem.shape[j] - 1) - problem.access[j]));
  }
  std::vector<IndexExpr> back = problem.access;
  back.insert(back.end(), inverse.tOfY.begin(), inverse.tOfY.end());
  return context.areInverse(nestOf(context, problem, inverse), inverse.y, points, back);
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

std::optional<bool> provePart(IntegerContext& context, const AccessProblem& problem, const Inverse& inverse) {
  if (inverse.tOfY.size() == inverse.axes.size() && proveByWitness(context, problem, inverse) == true) return true;
  return proveByRange(context, problem, inverse);
}

}  // namespace

std::optional<bool> certify(const AccessProblem& problem, const Inverse& inverse, std::uint64_t quota) {
  if (inverse.y.size() != problem.domain.size()) return false;
  const auto parts = partsOf(problem, inverse);
  if (!parts) return false;
  IntegerContext context(quota);
  for (const Part& part : *parts) {
    const std::optional<bool> proved = provePart(context, part.problem, part.inverse);
    if (!proved || !*proved) return proved;
  }
  return true;
}

}  // namespace nf
