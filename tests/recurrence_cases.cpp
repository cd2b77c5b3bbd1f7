// SPDX-License-Identifier: Apache-2.0
#include "tests/recurrence_cases.h"

#include <optional>

#include "core/ir/structural_hash.h"
#include "tests/build_loop.h"

namespace nf::test {
namespace {

Program alone(const Build& b) { return extractSubgraph(b.p, {OperatorId(b.p.operators.size() - 1)}).program; }

}  // namespace

Program plainRecurrence(std::int64_t steps, std::int64_t batch, std::int64_t units) {
  Build b;
  const TensorId x = b.tensor("X", {steps, batch, units}), u = b.tensor("U", {units, units}, TensorKind::Param),
                 h0 = b.tensor("h", {batch, units});
  BuildLoop l(b, steps);
  const TensorId xs = l.invariant(x), w = l.invariant(u), h = l.carried(h0);
  Build& s = l.body;
  const TensorId z = s.op("z", {{"b", batch}, {"n", units}, {"k", units}}, 2, Reducer::Sum,
                          s.mul(s.load(w, {var(1), var(2)}), s.load(h, {var(0), var(2)})));
  const TensorId next =
      s.op("next", {{"b", batch}, {"n", units}}, 2, Reducer::None,
           s.p.unary(ScalarOp::Tanh, s.add(s.load(z, {var(0), var(1)}), s.load(xs, {l.counter(), var(0), var(1)}))));
  l.carry(h0, h, next);
  l.stack(next);
  l.close();
  return alone(b);
}

Program randomRecurrence(std::mt19937_64& rng, std::int64_t leastSteps) {
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(most - least + 1));
  };
  const auto coin = [&] { return rng() % 2 == 0; };
  const std::int64_t steps = draw(leastSteps, leastSteps + 3), B = draw(1, 6), N = draw(2, 11);
  Build b;
  const TensorId x = b.tensor("X", {B, steps, N}), h0 = b.tensor("h", {B, N});
  BuildLoop l(b, steps, 0, coin());
  Build& s = l.body;
  const TensorId xs = l.invariant(x), h = l.carried(h0);
  const std::vector<std::pair<std::string, std::int64_t>> point{{"b", B}, {"n", N}};
  const auto own = [&](TensorId t) { return s.load(t, {var(0), var(1)}); };

  // A second carried value of the same shape, one a unit, and one alone.
  const bool hasCell = coin(), hasUnit = coin(), hasOne = coin(), hasStill = coin();
  const TensorId c0 = hasCell ? b.tensor("c", {B, N}) : TensorId{}, u0 = hasUnit ? b.tensor("m", {N}) : TensorId{},
                 q0 = hasOne ? b.tensor("q", {}) : TensorId{};
  const TensorId c = hasCell ? l.carried(c0) : TensorId{}, m = hasUnit ? l.carried(u0) : TensorId{},
                 q = hasOne ? l.carried(q0) : TensorId{};

  std::vector<TensorId> gates;
  for (std::int64_t g = 0, count = draw(1, 3); g < count; ++g) {
    const std::string name = "z" + std::to_string(g);
    const bool turned = coin();
    const TensorId w = l.invariant(b.tensor("W" + std::to_string(g), {N, N}, TensorKind::Param));
    const TensorId from = hasCell && coin() ? c : h;
    const TensorId z =
        s.op(name, {{"b", B}, {"n", N}, {"k", N}}, 2,
             coin()   ? Reducer::Sum
             : g == 0 ? Reducer::Sum
                      : Reducer::Max,
             s.mul(s.load(w, turned ? std::vector{var(2), var(1)} : std::vector{var(1), var(2)}), s.load(from, {var(0), var(2)})));
    ExprId sum = s.add(own(z), s.load(xs, {var(0), l.counter(), var(1)}));
    if (hasUnit && coin()) sum = s.add(sum, s.load(m, {var(1)}));
    if (hasOne && coin()) sum = s.add(sum, s.load(q, {}));
    gates.push_back(
        s.op("g" + std::to_string(g), point, 2, Reducer::None, s.p.unary(coin() ? ScalarOp::Tanh : ScalarOp::Sigmoid, sum)));
  }
  ExprId cell = own(gates.front());
  for (std::size_t g = 1; g < gates.size(); ++g) cell = coin() ? s.mul(cell, own(gates[g])) : s.add(cell, own(gates[g]));
  if (hasCell) {
    const TensorId next = s.op("c_next", point, 2, Reducer::None, s.add(s.mul(s.number(0.5), own(c)), cell));
    l.carry(c0, c, next, coin());
    if (coin()) l.stack(next);
    cell = s.p.unary(ScalarOp::Tanh, own(next));
  }
  const TensorId next = s.op("h_next", point, 2, Reducer::None, s.mul(s.number(0.5), s.add(cell, own(h))));
  l.carry(h0, h, next);
  if (coin()) l.stack(next);
  if (coin()) l.accumulate(gates.front());
  if (hasUnit) {
    const TensorId sum = s.op("m_sum", {{"n", N}, {"b", B}}, 1, Reducer::Sum, s.load(next, {var(1), var(0)}));
    const TensorId after =
        s.op("m_next", {{"n", N}}, 1, Reducer::None, s.mul(s.number(0.25), s.add(s.load(m, {var(0)}), s.load(sum, {var(0)}))));
    l.carry(u0, m, after, coin());
    if (coin()) l.stack(after);
  }
  if (hasOne) {
    const TensorId after = s.op("q_next", {{"b", B}, {"n", N}}, 0, Reducer::Max, s.load(coin() ? next : h, {var(0), var(1)}));
    l.carry(q0, q, after);
    if (coin()) l.accumulate(after);
  }
  if (hasStill) {
    // A value that never changes, and one that another one was a step before.
    const TensorId still0 = b.tensor("still", {B, N}), late0 = b.tensor("late", {B, N});
    const TensorId still = l.carried(still0), late = l.carried(late0);
    l.carry(still0, still, still);
    l.carry(late0, late, h);
    l.accumulate(s.op("both", point, 2, Reducer::None, s.add(own(still), own(late))));
  }
  l.close();
  return alone(b);
}

}  // namespace nf::test
