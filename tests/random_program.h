// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tests/build_loop.h"

namespace nf::test {

// Programs of a dozen small operators over shared inputs: elementwise, contractions, reductions, shuffled and padded accesses, scatters,
// repeated and dead ones, and now and then a Loop. Values stay tame, so that comparisons need no wide tolerance.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : m_rng(seed) {}

  Build make() {
    Build b;
    std::vector<TensorId> matrices{b.tensor("A", {3, 4}), b.tensor("B", {4, 3}), b.tensor("P", {3, 4}, TensorKind::Param)};
    m_index = b.tensor("I", {4}, TensorKind::Input, DType::I32);
    const int count = 5 + static_cast<int>(m_rng() % 8);
    for (int n = 0; n < count; ++n) matrices.push_back(step(b, matrices, "T" + std::to_string(n)));
    for (std::size_t k = 3; k < matrices.size(); ++k)
      if (m_rng() % 2 || k + 1 == matrices.size()) b.output(matrices[k]);
    return b;
  }

  TensorValues inputs(const Program& p) {
    TensorValues values;
    for (std::size_t t = 0; t < p.tensors.size(); ++t)
      if (p.tensors[t].kind != TensorKind::Intermediate && isFloating(p.tensors[t].type))
        values[TensorId(t)] = randomData(p.tensors[t], m_rng);
    if (const TensorId I = p.tensorNamed("I"); I.valid()) values[I] = {DType::I32, {4}, {2, 0, 1, 2}};
    return values;
  }

 private:
  TensorId pick(const std::vector<TensorId>& from) { return from[m_rng() % from.size()]; }

  TensorId step(Build& b, const std::vector<TensorId>& from, const std::string& name) {
    const TensorId x = pick(from), y = pick(from);
    const std::vector<std::int64_t> sx = b.p[x].shape, sy = b.p[y].shape;
    const auto tanh = [&](ExprId e) { return b.p.unary(ScalarOp::Tanh, e); };
    switch (m_rng() % 8) {
      case 0: {  // elementwise, the second access wrapped into range
        const ExprId other = b.load(y, {floorMod(var(0) + var(1), sy[0]), floorMod(var(1), sy[1])});
        return b.op(name, {{"i", sx[0]}, {"j", sx[1]}}, 2, Reducer::None,
                    tanh(b.add(b.mul(b.load(x, {var(0), var(1)}), b.number(1)), b.mul(other, b.number(0.5)))));
      }
      case 1:  // contraction over what fits
        return b.op(name, {{"i", sx[0]}, {"j", sy[1]}, {"k", std::min(sx[1], sy[0])}}, 2, Reducer::Sum,
                    tanh(b.mul(b.load(x, {var(0), var(2)}), b.load(y, {var(2), var(1)}))));
      case 2:  // transpose
        return b.op(name, {{"i", sx[1]}, {"j", sx[0]}}, 2, Reducer::None, b.load(x, {var(1), var(0)}));
      case 3: {  // padded shift
        const IndexExpr at = var(1) - IndexExpr(1);
        return b.op(name, {{"i", sx[0]}, {"j", sx[1]}}, 2, Reducer::None,
                    b.p.select(b.p.condGe0(at), b.load(x, {var(0), at}), b.add(b.number(2), b.number(-2))));
      }
      case 4: {  // reduction kept as a matrix
        const Reducer r = std::array{Reducer::Max, Reducer::Min, Reducer::Sum, Reducer::Prod}[m_rng() % 4];
        return b.op(name, {{"i", sx[0]}, {"j", 2}, {"k", sx[1]}}, 2, r,
                    b.add(b.load(x, {var(0), var(2)}), b.p.indexValue(var(1), DType::F32)));
      }
      case 5: {  // data-dependent rows, range-checked
        const ExprId row =
            b.p.binary(ScalarOp::Min, b.load(m_index, {var(0)}), b.p.constant(static_cast<double>(sx[0] - 1), DType::I32));
        return b.op(name, {{"i", 4}, {"j", sx[1]}}, 2, Reducer::None, b.p.load(x, {{{}, row}, {var(1), {}}}));
      }
      case 6: {  // scatter-add of rows
        const ExprId row = b.p.binary(ScalarOp::Mod, b.p.indexValue(var(0) + var(1), DType::I32), b.p.constant(3, DType::I32));
        return b.scatter(name, {{"i", sx[0]}, {"j", sx[1]}}, {3, sx[1]}, {{{}, row}, {var(1), {}}},
                         tanh(b.load(x, {var(0), var(1)})));
      }
      default: return loop(b, x, y, name);
    }
  }

  // h <- tanh(mix(h, X) + front + ..), with operators that can leave to the front, to the back and as sums over time.
  TensorId loop(Build& b, TensorId x, TensorId y, const std::string& name) {
    const std::vector<std::int64_t> sx = b.p[x].shape, sy = b.p[y].shape;
    const std::int64_t trips = 1 + static_cast<std::int64_t>(m_rng() % 3);
    BuildLoop l(b, trips, 0, m_rng() % 2);
    const auto xi = l.invariant(x);
    const auto yi = x == y ? xi : l.invariant(y);
    const auto h0 =
        b.op(name + "_h0", {{"i", sx[0]}, {"j", sx[1]}}, 2, Reducer::None, b.mul(b.number(0.5), b.load(x, {var(0), var(1)})));
    const auto h = l.carried(h0);
    Build& s = l.body;
    const IndexExpr t = l.counter();
    const auto front = s.op(
        "front", {{"i", sx[0]}, {"j", sx[1]}}, 2, Reducer::None,
        s.mul(s.load(yi, {floorMod(var(0) + t, sy[0]), floorMod(var(1), sy[1])}), s.p.indexValue(t + IndexExpr(1), DType::F32)));
    const auto once = s.op("once", {{"i", sx[0]}, {"k", sx[1]}}, 1, Reducer::Sum, s.load(xi, {var(0), var(1)}));
    const auto noise = s.op("noise", {{"i", sx[0]}}, 1, Reducer::None, s.p.random(1, 8 * t + var(0)));
    const ExprId mix = s.mul(s.load(h, {var(0), floorMod(var(1) + t, sx[1])}), s.load(front, {var(0), var(1)}));
    const auto next = s.op("next", {{"i", sx[0]}, {"j", sx[1]}}, 2, Reducer::None,
                           s.p.unary(ScalarOp::Tanh, s.add(s.add(mix, s.load(once, {var(0)})), s.load(noise, {var(0)}))));
    const auto back = s.op("back", {{"i", sx[0]}, {"j", sx[0]}, {"k", sx[1]}}, 2, Reducer::Sum,
                           s.mul(s.load(next, {var(0), var(2)}), s.load(h, {var(1), var(2)})));
    const auto late = s.op("late", {{"i", sx[0]}, {"j", sx[1]}}, 2, Reducer::None,
                           s.mul(s.load(back, {var(0), var(0)}), s.load(front, {var(0), var(1)})));
    const auto last = l.carry(h0, h, next, m_rng() % 4 != 0);
    const auto all = l.stack(m_rng() % 2 ? late : next),
               total = l.accumulate(std::array{back, front, late, once, next}[m_rng() % 5]);
    const auto more = l.stack(std::array{once, h, front}[m_rng() % 3]);
    // Results are told apart by program: several loops may stand in one.
    for (const TensorId r : {all, total, more}) b.p[r].name = b.p.freshName(name + "_" + b.p[r].name);
    l.close(name + "_loop");
    ExprId sum = b.load(all, {IndexExpr(trips - 1), floorMod(var(0), b.p[all].shape[1]), floorMod(var(1), b.p[all].shape[2])});
    if (last.valid()) sum = b.add(sum, b.load(last, {var(0), var(1)}));
    const std::vector<std::int64_t>& st = b.p[total].shape;
    sum = b.add(sum, st.size() == 2 ? b.load(total, {floorMod(var(0), st[0]), floorMod(var(1), st[1])})
                                    : b.load(total, {floorMod(var(0), st[0])}));
    const std::vector<std::int64_t>& sm = b.p[more].shape;
    sum = b.add(sum, sm.size() == 3 ? b.load(more, {IndexExpr(0), var(0), var(1)}) : b.load(more, {IndexExpr(0), var(0)}));
    return b.op(name, {{"i", sx[0]}, {"j", sx[1]}}, 2, Reducer::None, b.p.unary(ScalarOp::Tanh, sum));
  }

  std::mt19937_64 m_rng;
  TensorId m_index;
};

}  // namespace nf::test
