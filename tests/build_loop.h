// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tests/build_program.h"

namespace nf::test {

// One Loop under construction: `body` is built like a program, its tensors are tied to the outer ones by name.
struct BuildLoop {
  Build& outer;
  Build body;
  Loop loop;

  BuildLoop(Build& outer, std::int64_t trips, std::uint32_t depth = 0, bool reversed = false) : outer(outer) {
    loop.trips = trips;
    loop.depth = depth;
    loop.reversed = reversed;
    loop.counter = depth == 0 ? "t" : "u";
  }

  IndexExpr counter() const { return var(kLoopVariable + loop.depth); }

  TensorId invariant(TensorId t) {
    const TensorId inner = body.tensor(outer.p[t].name + "_in", outer.p[t].shape, TensorKind::Input, outer.p[t].type);
    loop.invariants.push_back({t, inner});
    return inner;
  }
  // The value before a step; `carry` names the one after it.
  TensorId carried(TensorId initial) { return body.tensor(outer.p[initial].name + "_before", outer.p[initial].shape); }
  TensorId carry(TensorId initial, TensorId in, TensorId out, bool last = true) {
    const TensorId l =
        last ? outer.tensor(outer.p[initial].name + "_last", outer.p[initial].shape, TensorKind::Intermediate) : TensorId{};
    loop.carried.push_back({initial, in, out, l});
    return l;
  }
  TensorId stack(TensorId inner) {
    std::vector<std::int64_t> shape = body.p[inner].shape;
    shape.insert(shape.begin(), loop.trips);
    const TensorId t = outer.tensor(body.p[inner].name + "_all", shape, TensorKind::Intermediate);
    loop.stacked.push_back({inner, t});
    return t;
  }
  TensorId accumulate(TensorId inner) {
    const TensorId t = outer.tensor(body.p[inner].name + "_total", body.p[inner].shape, TensorKind::Intermediate);
    loop.accumulated.push_back({inner, t});
    return t;
  }
  void close(const std::string& name = "loop") {
    loop.body = std::make_shared<const Program>(body.p);
    outer.p.loops.push_back(loop);
    Operator op;
    op.name = name;
    op.kind = OperatorKind::Loop;
    op.loop = LoopId(outer.p.loops.size() - 1);
    outer.p.addOperator(op);
  }
};

// sum over all elements of t, squared
inline TensorId squareSum(Build& b, const std::string& name, TensorId t) {
  std::vector<std::pair<std::string, std::int64_t>> axes;
  std::vector<IndexExpr> at;
  for (std::size_t k = 0; k < b.p[t].shape.size(); ++k) {
    axes.emplace_back("i" + std::to_string(k), b.p[t].shape[k]);
    at.push_back(var(static_cast<IndexVar>(k)));
  }
  const ExprId e = b.load(t, at);
  return b.op(name, axes, 0, axes.empty() ? Reducer::None : Reducer::Sum, b.mul(e, e));
}

inline TensorId plus(Build& b, const std::string& name, std::vector<TensorId> scalars) {
  ExprId sum = b.load(scalars[0], {});
  for (std::size_t k = 1; k < scalars.size(); ++k) sum = b.add(sum, b.load(scalars[k], {}));
  return b.op(name, {}, 0, Reducer::None, sum);
}

// A recurrent net: h <- tanh(U h + W x_t + b), loss over the last and all states. `reversed` runs it backwards in time.
inline TensorId recurrentNet(Build& b, std::int64_t trips, bool reversed) {
  const std::int64_t B = 2, N = 3, I = 4;
  const auto X = b.tensor("X", {B, trips, I}), U = b.tensor("U", {N, N}, TensorKind::Param),
             W = b.tensor("W", {N, I}, TensorKind::Param), bias = b.tensor("bias", {N}, TensorKind::Param),
             h0 = b.tensor("h", {B, N});
  BuildLoop l(b, trips, 0, reversed);
  const auto x = l.invariant(X), u = l.invariant(U), w = l.invariant(W), c = l.invariant(bias);
  const auto h = l.carried(h0);
  Build& s = l.body;
  const auto zx = s.op("zx", {{"b", B}, {"n", N}, {"i", I}}, 2, Reducer::Sum,
                       s.mul(s.load(w, {var(1), var(2)}), s.load(x, {var(0), l.counter(), var(2)})));
  const auto zh =
      s.op("zh", {{"b", B}, {"n", N}, {"k", N}}, 2, Reducer::Sum, s.mul(s.load(u, {var(1), var(2)}), s.load(h, {var(0), var(2)})));
  const auto next = s.op(
      "next", {{"b", B}, {"n", N}}, 2, Reducer::None,
      s.p.unary(ScalarOp::Tanh, s.add(s.add(s.load(zx, {var(0), var(1)}), s.load(zh, {var(0), var(1)})), s.load(c, {var(1)}))));
  const auto last = l.carry(h0, h, next), all = l.stack(next), total = l.accumulate(zh);
  l.close();
  return plus(b, "L", {squareSum(b, "L1", last), squareSum(b, "L2", all), squareSum(b, "L3", total)});
}

}  // namespace nf::test
