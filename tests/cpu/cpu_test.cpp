// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/cpu/kernel_check.h"

namespace nf::test {
namespace {

TEST(Elementwise, AddsWithATail) {
  std::mt19937_64 rng(1);
  for (const std::int64_t n : {1, 3, 16, 17, 64, 100, 1000}) {
    Builder b;
    const TensorId x = b.input("X", {n}), y = b.input("Y", {n});
    b.output(b.op("Z", {n}, {}, Reducer::None, [&](const auto& v) { return b.p.binary(ScalarOp::Add, b.at(x, v), b.at(y, v)); }));
    EXPECT_EQ(compareFirst(b.p, rng), "") << n;
  }
}

TEST(Generic, NaiveMatmul) {
  std::mt19937_64 rng(2);
  Builder b;
  const TensorId x = b.input("A", {13, 21}), y = b.input("B", {21, 35});
  b.output(b.op("C", {13, 35}, {21}, Reducer::Sum, [&](const auto& v) {
    return b.p.binary(ScalarOp::Mul, b.at(x, {v[0], v[2]}), b.at(y, {v[2], v[1]}));
  }));
  EXPECT_EQ(compareFirst(b.p, rng), "");
  EXPECT_EQ(compareFirst(b.p, rng, 2), "");
}

TEST(Elementwise, EveryFunctionInTheirTolerance) {
  std::mt19937_64 rng(3);
  for (const DType type : {DType::F32, DType::F64})
    for (const ScalarOp op :
         {ScalarOp::Neg, ScalarOp::Exp, ScalarOp::Log, ScalarOp::Sqrt, ScalarOp::Rsqrt, ScalarOp::Tanh, ScalarOp::Sigmoid,
          ScalarOp::Erf, ScalarOp::Sin, ScalarOp::Cos, ScalarOp::Abs, ScalarOp::Floor, ScalarOp::Relu, ScalarOp::StopGradient}) {
      Builder b;
      const TensorId x = b.input("X", {37}, type);
      const bool positive = op == ScalarOp::Log || op == ScalarOp::Sqrt || op == ScalarOp::Rsqrt;
      b.output(b.op(
          "Y", {37}, {}, Reducer::None,
          [&](const auto& v) {
            ExprId e = b.at(x, v);
            if (positive) e = b.p.binary(ScalarOp::Add, b.p.binary(ScalarOp::Mul, e, e), b.p.constant(0.25, type));
            return b.p.unary(op, e);
          },
          type));
      EXPECT_EQ(compareFirst(b.p, rng), "") << info(op).name;
    }
}

TEST(Elementwise, EveryBinaryOperation) {
  std::mt19937_64 rng(4);
  for (const DType type : {DType::F32, DType::F64, DType::I32})
    for (const ScalarOp op : {ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul, ScalarOp::Div, ScalarOp::Max, ScalarOp::Min,
                              ScalarOp::FloorDiv, ScalarOp::Mod}) {
      const bool integral = op == ScalarOp::FloorDiv || op == ScalarOp::Mod;
      if (integral != (type == DType::I32) && (integral || op == ScalarOp::Div)) continue;
      Builder b;
      const TensorId x = b.input("X", {5, 7}, type), y = b.input("Y", {5, 7}, type);
      b.output(b.op(
          "Z", {5, 7}, {}, Reducer::None,
          [&](const auto& v) {
            ExprId l = b.at(x, v), r = b.at(y, v);
            if (op == ScalarOp::Div) r = b.p.binary(ScalarOp::Add, b.p.binary(ScalarOp::Mul, r, r), b.p.constant(1, type));
            if (integral) {
              l = b.p.binary(ScalarOp::Sub, l, b.p.constant(20, type));
              r = b.p.binary(ScalarOp::Add, r, b.p.constant(1, type));
            }
            return b.p.binary(op, l, r);
          },
          type));
      EXPECT_EQ(compareFirst(b.p, rng, 1, {}, 40), "") << info(op).name;
    }
  for (const double exponent : {2.0, 3.0, 0.5, -1.0, -2.0, 1.7}) {
    Builder b;
    const TensorId x = b.input("X", {33});
    b.output(b.op("Z", {33}, {}, Reducer::None, [&](const auto& v) {
      return b.p.binary(ScalarOp::Pow, b.p.binary(ScalarOp::Add, b.at(x, v), b.p.constant(1.5)), b.p.constant(exponent));
    }));
    EXPECT_EQ(compareFirst(b.p, rng), "") << exponent;
  }
}

TEST(Elementwise, StorageTypesAndConversions) {
  std::mt19937_64 rng(5);
  for (const DType from : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32})
    for (const DType to : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
      Builder b;
      const TensorId x = b.input("X", {41}, from);
      b.output(b.op(
          "Y", {41}, {}, Reducer::None, [&](const auto& v) { return b.p.cast(to, b.at(x, v)); }, to));
      EXPECT_EQ(compareFirst(b.p, rng), "") << name(from) << " to " << name(to);
    }
}

TEST(Elementwise, TransposesShufflesAndSlices) {
  std::mt19937_64 rng(6);
  Builder b;
  const TensorId x = b.input("X", {6, 10, 8}), y = b.input("Y", {60});
  b.output(b.op("T", {8, 10, 6}, {}, Reducer::None, [&](const auto& v) { return b.at(x, {v[2], v[1], v[0]}); }));
  b.output(b.op("S", {6, 5, 8}, {}, Reducer::None, [&](const auto& v) { return b.at(x, {v[0], 2 * v[1], IndexExpr(7) - v[2]}); }));
  b.output(b.op("D", {60, 8}, {}, Reducer::None, [&](const auto& v) {
    return b.p.binary(ScalarOp::Mul, b.at(x, {floorDiv(v[0], 10), floorMod(v[0], 10), v[1]}), b.at(y, {v[0]}));
  }));
  b.output(b.op("M", {60}, {}, Reducer::None, [&](const auto& v) { return b.at(y, {floorMod(7 * v[0] + IndexExpr(3), 60)}); }));
  EXPECT_EQ(compareFirst(b.p, rng), "");
  EXPECT_EQ(compareFirst(b.p, rng, 2), "");
}

// select(0 <= i - 2 < n, X[i - 2], 0): the load must not happen outside.
TEST(Elementwise, PaddingReadsOnlyInside) {
  std::mt19937_64 rng(7);
  for (const std::int64_t n : {3, 20, 64}) {
    Builder b;
    const TensorId x = b.input("X", {n, n});
    b.output(b.op("Y", {n + 4, n + 4}, {}, Reducer::None, [&](const auto& v) {
      const IndexExpr i = v[0] - IndexExpr(2), j = v[1] - IndexExpr(2);
      const ExprId inside = b.p.cond(IndexCond::all(
          {IndexCond::ge0(i), IndexCond::ge0(IndexExpr(n - 1) - i), IndexCond::ge0(j), IndexCond::ge0(IndexExpr(n - 1) - j)}));
      return b.p.select(inside, b.at(x, {i, j}), b.p.constant(-3));
    }));
    EXPECT_EQ(compareFirst(b.p, rng), "") << n;
  }
}

TEST(Elementwise, RandomNumbersEqualTheReference) {
  std::mt19937_64 rng(8);
  Builder b;
  b.output(b.op("Y", {7, 19}, {}, Reducer::None, [&](const auto& v) { return b.p.random(5, 19 * v[0] + v[1]); }));
  EXPECT_EQ(compareFirst(b.p, rng), "");
}

TEST(Elementwise, LoopCountersAreArguments) {
  std::mt19937_64 rng(9);
  Builder b;
  const TensorId x = b.input("X", {4, 12, 33});
  const IndexExpr t = IndexExpr::variable(kLoopVariable);
  b.output(b.op("Y", {4, 33}, {}, Reducer::None, [&](const auto& v) {
    return b.p.binary(ScalarOp::Add, b.at(x, {v[0], IndexExpr(11) - t, v[1]}), b.p.indexValue(t, DType::F32));
  }));
  for (const std::int64_t at : {0, 5, 11}) EXPECT_EQ(compareFirst(b.p, rng, 1, {at}), "") << at;
}

TEST(Reduction, EveryReducerAlongEveryAxis) {
  std::mt19937_64 rng(10);
  for (const Reducer reducer : {Reducer::Sum, Reducer::Prod, Reducer::Max, Reducer::Min, Reducer::ArgMax, Reducer::ArgMin})
    for (const std::int64_t n : {1, 7, 40})
      for (const bool rows : {true, false}) {
        Builder b;
        const TensorId x = b.input("X", {n, 35});
        const bool arg = reducer == Reducer::ArgMax || reducer == Reducer::ArgMin;
        b.output(b.op(
            "Y", {rows ? n : 35}, {rows ? 35 : n}, reducer,
            [&](const auto& v) {
              return rows ? b.at(x, {v[0], v[1]}) : b.at(x, {v[1], v[0]});
            },
            arg ? DType::I32 : DType::F32));
        EXPECT_EQ(compareFirst(b.p, rng), "") << name(reducer) << n << rows;
      }
}

TEST(Reduction, ToAScalarAndOfSeveralAxes) {
  std::mt19937_64 rng(11);
  Builder b;
  const TensorId x = b.input("X", {6, 9, 50});
  b.output(b.op("S", {}, {6, 9, 50}, Reducer::Sum, [&](const auto& v) { return b.at(x, v); }));
  b.output(b.op(
      "A", {9}, {6, 50}, Reducer::ArgMax,
      [&](const auto& v) {
        return b.at(x, {v[1], v[0], v[2]});
      },
      DType::I32));
  b.output(b.op("P", {9}, {6, 50}, Reducer::Sum, [&](const auto& v) { return b.at(x, {v[1], v[0], v[2]}); }));
  EXPECT_EQ(compareFirst(b.p, rng), "");
  EXPECT_EQ(compareFirst(b.p, rng, 2), "");
}

TEST(Generic, SoftmaxInOneKernel) {
  std::mt19937_64 rng(12);
  for (const std::int64_t n : {10, 16, 77}) {
    Builder b;
    const TensorId x = b.input("X", {9, n});
    const TensorId m = b.op("M", {9}, {n}, Reducer::Max, [&](const auto& v) { return b.at(x, v); });
    const TensorId e = b.op("E", {9, n}, {}, Reducer::None, [&](const auto& v) {
      return b.p.unary(ScalarOp::Exp, b.p.binary(ScalarOp::Sub, b.at(x, v), b.at(m, {v[0]})));
    });
    const TensorId s = b.op("S", {9}, {n}, Reducer::Sum, [&](const auto& v) { return b.at(e, v); });
    b.output(b.op("Y", {9, n}, {}, Reducer::None,
                  [&](const auto& v) { return b.p.binary(ScalarOp::Div, b.at(e, v), b.at(s, {v[0]})); }));
    EXPECT_EQ(compareFirst(b.p, rng), "") << n;
  }
}

TEST(Generic, ConvolutionWithPaddingAndStride) {
  std::mt19937_64 rng(13);
  Builder b;
  const TensorId x = b.input("X", {2, 3, 9, 9}), w = b.input("W", {4, 3, 3, 3});
  b.output(b.op("Y", {2, 4, 5, 5}, {3, 3, 3}, Reducer::Sum, [&](const auto& v) {
    const IndexExpr h = 2 * v[2] + v[5] - IndexExpr(1), c = 2 * v[3] + v[6] - IndexExpr(1);
    const ExprId inside = b.p.cond(
        IndexCond::all({IndexCond::ge0(h), IndexCond::ge0(IndexExpr(8) - h), IndexCond::ge0(c), IndexCond::ge0(IndexExpr(8) - c)}));
    const ExprId pixel = b.p.select(inside, b.at(x, {v[0], v[4], h, c}), b.p.constant(0));
    return b.p.binary(ScalarOp::Mul, pixel, b.at(w, {v[1], v[4], v[5], v[6]}));
  }));
  EXPECT_EQ(compareFirst(b.p, rng), "");
}

TEST(Generic, GathersByDataAndChecksIt) {
  std::mt19937_64 rng(14);
  Builder b;
  const TensorId e = b.input("E", {6, 20}), idx = b.input("idx", {11}, DType::I32);
  b.output(b.op("Y", {11, 20}, {}, Reducer::None, [&](const auto& v) {
    return b.p.load(e, {{{}, b.at(idx, {v[0]})}, {v[1], {}}});
  }));
  EXPECT_EQ(compareFirst(b.p, rng, 1, {}, 6), "");
  EXPECT_TRUE(compareFirst(b.p, rng, 1, {}, 40).starts_with("refused: operator Y: an index of E is outside [0, 6): it is "));
}

TEST(Scatter, AddsByDataAndByGuard) {
  std::mt19937_64 rng(15);
  Builder b;
  const TensorId d = b.input("D", {30, 21}), idx = b.input("idx", {30}, DType::I32);
  Tensor out;
  out.name = "G";
  out.shape = {6, 21};
  Operator op;
  op.name = "G";
  op.kind = OperatorKind::Scatter;
  op.axes = {{"n", 30, {}}, {"d", 21, {}}};
  const auto n = IndexExpr::variable(0), j = IndexExpr::variable(1);
  op.body = b.p.select(b.p.cond(IndexCond::ge0(n - IndexExpr(3))), b.at(d, {n, j}), b.p.constant(0));
  op.scatter = {{{}, b.at(idx, {n})}, {j, {}}};
  op.output = b.p.addTensor(out);
  b.p.addOperator(op);
  b.output(op.output);
  EXPECT_EQ(compareFirst(b.p, rng, 1, {}, 6), "");
}

TEST(Scatter, DropsWhatFallsOutside) {
  std::mt19937_64 rng(16);
  Builder b;
  const TensorId d = b.input("D", {5, 6});
  Tensor out;
  out.name = "G";
  out.shape = {7};
  Operator op;
  op.name = "G";
  op.kind = OperatorKind::Scatter;
  op.axes = {{"i", 5, {}}, {"j", 6, {}}};
  const auto i = IndexExpr::variable(0), j = IndexExpr::variable(1);
  op.body = b.at(d, {i, j});
  op.scatter = {{i + j - IndexExpr(1), {}}};
  op.output = b.p.addTensor(out);
  b.p.addOperator(op);
  b.output(op.output);
  EXPECT_EQ(compareFirst(b.p, rng), "");
}

// NF_SEED=n replays a printed one.
std::uint64_t freshSeed() {
  const char* given = std::getenv("NF_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("NF_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// Contractions in every shape the examples use; the first schedule and a few random ones.
struct Case {
  std::string name;
  Program program;
};

IndexCond inside(const IndexExpr& e, std::int64_t extent) {
  return IndexCond::all({IndexCond::ge0(e), IndexCond::ge0(IndexExpr(extent - 1) - e)});
}

std::vector<Case> contractions() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, Builder b) { cases.push_back({name, std::move(b.p)}); };
  for (const auto& [m, n, k] :
       std::vector<std::array<std::int64_t, 3>>{{64, 64, 64}, {13, 37, 29}, {5, 100, 3}, {100, 3, 40}, {2, 8, 2}, {31, 64, 17}}) {
    const std::string shape = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
    for (int form = 0; form < 3; ++form) {
      Builder b;
      const TensorId x = form == 2 ? b.input("A", {k, m}) : b.input("A", {m, k});
      const TensorId y = form == 1 ? b.input("B", {n, k}) : b.input("B", {k, n});
      b.output(b.op("C", {m, n}, {k}, Reducer::Sum, [&](const auto& v) {
        return b.p.binary(ScalarOp::Mul, form == 2 ? b.at(x, {v[2], v[0]}) : b.at(x, {v[0], v[2]}),
                          form == 1 ? b.at(y, {v[1], v[2]}) : b.at(y, {v[2], v[1]}));
      }));
      add("gemm " + shape + (form == 0 ? " NN" : form == 1 ? " NT" : " TN"), std::move(b));
    }
  }
  {
    Builder b;  // bias and tanh after, relu before, and the plain product is an output too
    const TensorId x = b.input("A", {20, 30}), y = b.input("B", {30, 40}), bias = b.input("bias", {40}),
                   more = b.input("more", {20, 40});
    const TensorId r = b.op("R", {20, 30}, {}, Reducer::None, [&](const auto& v) { return b.p.unary(ScalarOp::Relu, b.at(x, v)); });
    const TensorId c = b.op("C", {20, 40}, {30}, Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, b.at(r, {v[0], v[2]}), b.at(y, {v[2], v[1]}));
    });
    const TensorId d = b.op("D", {20, 40}, {}, Reducer::None,
                            [&](const auto& v) { return b.p.binary(ScalarOp::Add, b.at(c, v), b.at(bias, {v[1]})); });
    const TensorId e = b.op("E", {20, 40}, {}, Reducer::None, [&](const auto& v) {
      return b.p.unary(ScalarOp::Tanh, b.p.binary(ScalarOp::Mul, b.at(d, v), b.at(more, v)));
    });
    b.output(c);
    b.output(e);
    add("prologue and epilogue", std::move(b));
  }
  for (const auto& [stride, pad] : std::vector<std::array<std::int64_t, 2>>{{1, 0}, {1, 1}, {2, 0}, {2, 1}}) {
    const std::int64_t h = 10, o = (h + 2 * pad - 3) / stride + 1;
    Builder b;
    const TensorId x = b.input("X", {2, 5, h, h}), w = b.input("W", {18, 5, 3, 3});
    b.output(b.op("Y", {2, 18, o, o}, {5, 3, 3}, Reducer::Sum, [&](const auto& v) {
      const IndexExpr r = stride * v[2] + v[5] - IndexExpr(pad), c = stride * v[3] + v[6] - IndexExpr(pad);
      ExprId pixel = b.at(x, {v[0], v[4], r, c});
      if (pad > 0) pixel = b.p.select(b.p.cond(IndexCond::all({inside(r, h), inside(c, h)})), pixel, b.p.constant(0));
      return b.p.binary(ScalarOp::Mul, pixel, b.at(w, {v[1], v[4], v[5], v[6]}));
    }));
    add("conv stride " + std::to_string(stride) + " pad " + std::to_string(pad), std::move(b));
    Builder g;  // its weights' gradient
    const TensorId gx = g.input("X", {2, 5, h, h}), dy = g.input("dY", {2, 18, o, o});
    g.output(g.op("dW", {18, 5, 3, 3}, {2, o, o}, Reducer::Sum, [&](const auto& v) {
      const IndexExpr r = stride * v[5] + v[2] - IndexExpr(pad), c = stride * v[6] + v[3] - IndexExpr(pad);
      ExprId pixel = g.at(gx, {v[4], v[1], r, c});
      if (pad > 0) pixel = g.p.select(g.p.cond(IndexCond::all({inside(r, h), inside(c, h)})), pixel, g.p.constant(0));
      return g.p.binary(ScalarOp::Mul, g.at(dy, {v[4], v[0], v[5], v[6]}), pixel);
    }));
    add("dW stride " + std::to_string(stride) + " pad " + std::to_string(pad), std::move(g));
  }
  {
    Builder b;  // dX of a 3x3 stride 2: r = h%2 + 2t, p = h//2 - t, under a guard
    const TensorId dy = b.input("dY", {3, 18, 4, 4}), w = b.input("W", {18, 7, 3, 3});
    b.output(b.op("dX", {3, 7, 9, 9}, {18, 2, 2}, Reducer::Sum, [&](const auto& v) {
      const auto r = [&](const IndexExpr& z, const IndexExpr& t) { return floorMod(z, 2) + 2 * t; };
      const auto q = [&](const IndexExpr& z, const IndexExpr& t) { return floorDiv(z, 2) - t; };
      const ExprId guard =
          b.p.cond(IndexCond::all({IndexCond::ge0(IndexExpr(2) - r(v[2], v[5])), IndexCond::ge0(IndexExpr(2) - r(v[3], v[6])),
                                   inside(q(v[2], v[5]), 4), inside(q(v[3], v[6]), 4)}));
      return b.p.select(guard,
                        b.p.binary(ScalarOp::Mul, b.at(dy, {v[0], v[4], q(v[2], v[5]), q(v[3], v[6])}),
                                   b.at(w, {v[4], v[1], r(v[2], v[5]), r(v[3], v[6])})),
                        b.p.constant(0));
    }));
    add("dX stride 2", std::move(b));
  }
  // The same where the extents are whole numbers of residue classes; of one picture only the classes have rows.
  for (const auto& [batch, pad] : std::vector<std::array<std::int64_t, 2>>{{1, 0}, {1, 1}, {3, 1}}) {
    Builder b;
    const TensorId dy = b.input("dY", {batch, 18, 5, 5}), w = b.input("W", {18, 20, 3, 3}), scale = b.input("scale", {20});
    const TensorId dx = b.op("dX", {batch, 20, 10, 10}, {18, 2, 2}, Reducer::Sum, [&](const auto& v) {
      const auto r = [&](const IndexExpr& z, const IndexExpr& t) { return floorMod(z + IndexExpr(pad), 2) + 2 * t; };
      const auto q = [&](const IndexExpr& z, const IndexExpr& t) { return floorDiv(z + IndexExpr(pad), 2) - t; };
      const ExprId guard =
          b.p.cond(IndexCond::all({IndexCond::ge0(IndexExpr(2) - r(v[2], v[5])), IndexCond::ge0(IndexExpr(2) - r(v[3], v[6])),
                                   inside(q(v[2], v[5]), 5), inside(q(v[3], v[6]), 5)}));
      return b.p.select(guard,
                        b.p.binary(ScalarOp::Mul, b.at(dy, {v[0], v[4], q(v[2], v[5]), q(v[3], v[6])}),
                                   b.at(w, {v[4], v[1], r(v[2], v[5]), r(v[3], v[6])})),
                        b.p.constant(0));
    });
    b.output(dx);
    b.output(b.op("step", {batch, 20, 10, 10}, {}, Reducer::None,
                  [&](const auto& v) { return b.p.binary(ScalarOp::Mul, b.at(dx, v), b.at(scale, {v[1]})); }));
    add("dX stride 2 in classes, batch " + std::to_string(batch) + " pad " + std::to_string(pad), std::move(b));
  }
  {
    Builder b;  // votes: einsum bid, ined -> bine
    const TensorId u = b.input("U", {9, 6, 8}), w = b.input("W", {6, 10, 16, 8});
    b.output(b.op("V", {9, 6, 10, 16}, {8}, Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, b.at(u, {v[0], v[1], v[4]}), b.at(w, {v[1], v[2], v[3], v[4]}));
    }));
    add("votes", std::move(b));
  }
  {
    Builder b;  // capsule convolution
    const TensorId x = b.input("A", {1, 3, 9, 9, 4, 4}), w = b.input("W", {5, 3, 3, 3, 4, 4});
    b.output(b.op("Y", {1, 5, 4, 4, 4, 4}, {3, 3, 3, 4}, Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, b.at(x, {v[0], v[6], 2 * v[2] + v[7], 2 * v[3] + v[8], v[4], v[9]}),
                        b.at(w, {v[1], v[6], v[7], v[8], v[9], v[5]}));
    }));
    add("capsule convolution", std::move(b));
  }
  {
    Builder b;  // dX of a 3x3 stride 2 over the output's places: tests on whole tiles, nested guards
    const TensorId dy = b.input("dY", {5, 24, 2, 2}), w = b.input("W", {24, 18, 3, 3});
    b.output(b.op("dX", {5, 18, 6, 6}, {24, 2, 2}, Reducer::Sum, [&](const auto& v) {
      const IndexExpr r = v[2] - 2 * v[5], s = v[3] - 2 * v[6];
      const ExprId product = b.p.binary(ScalarOp::Mul, b.at(dy, {v[0], v[4], v[5], v[6]}), b.at(w, {v[4], v[1], r, s}));
      const ExprId zero = b.p.constant(0);
      const ExprId inner = b.p.select(b.p.cond(IndexCond::all({inside(r, 3), inside(s, 3)})), product, zero);
      return b.p.select(b.p.cond(IndexCond::all({IndexCond::ge0(IndexExpr(4) - v[2]), IndexCond::ge0(IndexExpr(4) - v[3])})), inner,
                        zero);
    }));
    add("dX stride 2 by places", std::move(b));
  }
  {
    Builder b;  // Adam in the epilogue, its scalars beside the contraction
    const TensorId step = b.input("step", {}), x = b.input("A", {21, 20}), y = b.input("B", {21, 33}), w = b.input("W", {20, 33});
    const TensorId next = b.op("next", {}, {}, Reducer::None,
                               [&](const auto&) { return b.p.binary(ScalarOp::Add, b.at(step, {}), b.p.constant(2)); });
    const TensorId scale = b.op("scale", {}, {}, Reducer::None, [&](const auto&) {
      return b.p.binary(ScalarOp::Div, b.p.constant(1), b.p.binary(ScalarOp::Add, b.at(next, {}), b.p.constant(0.5)));
    });
    const TensorId g = b.op("G", {20, 33}, {21}, Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, b.at(x, {v[2], v[0]}), b.at(y, {v[2], v[1]}));
    });
    const TensorId m = b.op("M", {20, 33}, {}, Reducer::None,
                            [&](const auto& v) { return b.p.binary(ScalarOp::Mul, b.at(g, v), b.at(scale, {})); });
    b.output(next);
    b.output(m);
    b.output(b.op("W.next", {20, 33}, {}, Reducer::None,
                  [&](const auto& v) { return b.p.binary(ScalarOp::Sub, b.at(w, v), b.p.unary(ScalarOp::Tanh, b.at(m, v))); }));
    add("optimiser in the epilogue", std::move(b));
  }
  {
    Builder b;  // three factors, f16 operands, a scale of the rows
    const TensorId x = b.input("A", {12, 20}, DType::F16), y = b.input("B", {20, 33}, DType::BF16), s = b.input("s", {12});
    b.output(b.op("C", {12, 33}, {20}, Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, b.p.binary(ScalarOp::Mul, b.at(x, {v[0], v[2]}), b.at(y, {v[2], v[1]})), b.at(s, {v[0]}));
    }));
    add("three factors", std::move(b));
  }
  return cases;
}

TEST(Contraction, FirstSchedules) {
  std::mt19937_64 rng(20);
  for (const Case& c : contractions()) {
    EXPECT_EQ((*scheduleSpace(c.program, hostTarget()))->first().kind, "contraction") << c.name;
    EXPECT_EQ(compareFirst(c.program, rng), "") << c.name;
  }
}

// Reductions, elementwise operators and chains of both that share rows.
std::vector<Case> nests() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, Builder b) { cases.push_back({name, std::move(b.p)}); };
  const auto sub = [](Builder& b, ExprId l, ExprId r) { return b.p.binary(ScalarOp::Sub, l, r); };
  const auto mul = [](Builder& b, ExprId l, ExprId r) { return b.p.binary(ScalarOp::Mul, l, r); };
  const auto div = [](Builder& b, ExprId l, ExprId r) { return b.p.binary(ScalarOp::Div, l, r); };
  for (const Reducer reducer : {Reducer::Sum, Reducer::Prod, Reducer::Max, Reducer::Min, Reducer::ArgMax}) {
    Builder b;
    const TensorId x = b.input("X", {12, 5, 32, 10}), y = b.input("Y", {32, 10});
    const bool arg = reducer == Reducer::ArgMax;
    b.output(b.op(
        "R", {12, 32}, {5, 10}, reducer,
        [&](const auto& v) {
          return mul(b, b.at(x, {v[0], v[2], v[1], v[3]}), b.at(y, {v[1], v[3]}));
        },
        arg ? DType::I32 : DType::F32));
    add(std::string("reduction ") + std::string(name(reducer)), std::move(b));
  }
  {
    Builder b;  // several side by side
    const TensorId x = b.input("X", {24, 37});
    b.output(b.op("S", {24}, {37}, Reducer::Sum, [&](const auto& v) { return b.at(x, v); }));
    b.output(b.op("M", {24}, {37}, Reducer::Max, [&](const auto& v) { return b.p.unary(ScalarOp::Abs, b.at(x, v)); }));
    add("reductions side by side", std::move(b));
  }
  for (const std::int64_t n : {10, 16, 33}) {
    Builder b;
    const TensorId x = b.input("X", {6, 8, n});
    const TensorId m = b.op("M", {6, 8}, {n}, Reducer::Max, [&](const auto& v) { return b.at(x, v); });
    const TensorId e = b.op("E", {6, 8, n}, {}, Reducer::None, [&](const auto& v) {
      return b.p.unary(ScalarOp::Exp, sub(b, b.at(x, v), b.at(m, {v[0], v[1]})));
    });
    const TensorId s = b.op("S", {6, 8}, {n}, Reducer::Sum, [&](const auto& v) { return b.at(e, v); });
    const TensorId y = b.op("Y", {6, 8, n}, {}, Reducer::None, [&](const auto& v) {
      return div(b, b.at(e, v), b.at(s, {v[0], v[1]}));
    });
    b.output(s);
    b.output(y);
    add("softmax of " + std::to_string(n), std::move(b));
  }
  {
    Builder b;  // votes that agree are routed together: all stages of one row share its votes
    const TensorId votes = b.input("Votes", {5, 32, 10, 16});
    const TensorId s = b.op("S", {5, 10, 16}, {32}, Reducer::Sum, [&](const auto& v) {
      return b.at(votes, {v[0], v[3], v[1], v[2]});
    });
    const TensorId q = b.op("Q", {5, 10}, {16}, Reducer::Sum, [&](const auto& v) {
      const ExprId e = b.at(s, v);
      return mul(b, e, e);
    });
    const TensorId u = b.op("U", {5, 10, 16}, {}, Reducer::None, [&](const auto& v) {
      // Squash: lengths below one, so that what follows keeps its digits.
      const ExprId length = b.at(q, {v[0], v[1]}), more = b.p.binary(ScalarOp::Add, length, b.p.constant(1));
      return div(b, mul(b, b.at(s, v), length), mul(b, more, b.p.unary(ScalarOp::Sqrt, more)));
    });
    const TensorId l = b.op("L", {5, 32, 10}, {16}, Reducer::Sum, [&](const auto& v) {
      return mul(b, b.at(votes, {v[0], v[1], v[2], v[3]}), b.at(u, {v[0], v[2], v[3]}));
    });
    const TensorId m = b.op("M", {5, 32}, {10}, Reducer::Max, [&](const auto& v) { return b.at(l, v); });
    const TensorId c = b.op("C", {5, 32, 10}, {}, Reducer::None, [&](const auto& v) {
      return b.p.unary(ScalarOp::Tanh, sub(b, b.at(l, v), b.at(m, {v[0], v[1]})));
    });
    b.output(l);
    b.output(b.op("V", {5, 10, 16}, {32}, Reducer::Sum, [&](const auto& v) {
      return mul(b, b.at(c, {v[0], v[3], v[1]}), b.at(votes, {v[0], v[3], v[1], v[2]}));
    }));
    add("routing", std::move(b));
  }
  {
    Builder b;  // rows that shift inside: no rows can be shared
    const TensorId x = b.input("X", {9, 20});
    const TensorId s = b.op("S", {9}, {20}, Reducer::Sum, [&](const auto& v) { return b.at(x, v); });
    b.output(
        b.op("Y", {9, 20}, {}, Reducer::None, [&](const auto& v) { return sub(b, b.at(x, v), b.at(s, {IndexExpr(8) - v[0]})); }));
    add("reversed rows", std::move(b));
  }
  {
    Builder b;  // a costly value that many points read, under padding
    const TensorId x = b.input("X", {7}), z = b.input("Z", {11, 18});
    const TensorId e = b.op("E", {7}, {}, Reducer::None, [&](const auto& v) { return b.p.unary(ScalarOp::Exp, b.at(x, v)); });
    b.output(b.op("Y", {11, 18}, {}, Reducer::None, [&](const auto& v) {
      const IndexExpr i = v[0] - IndexExpr(2);
      return b.p.binary(ScalarOp::Add, b.at(z, v), b.p.select(b.p.cond(inside(i, 7)), b.at(e, {i}), b.p.constant(0)));
    }));
    add("costly and padded", std::move(b));
  }
  for (const auto& [n, m] : std::vector<std::array<std::int64_t, 2>>{{16, 32}, {33, 20}, {5, 70}}) {
    Builder b;  // transposes, beside what is in order
    const TensorId x = b.input("X", {3, n, m}), y = b.input("Y", {3, m, n}, DType::F16), z = b.input("Z", {m});
    b.output(b.op("T", {3, m, n}, {}, Reducer::None, [&](const auto& v) {
      return b.p.binary(ScalarOp::Add, mul(b, b.at(x, {v[0], v[2], v[1]}), b.at(z, {v[1]})), b.at(y, v));
    }));
    b.output(b.op("D", {3, m, n}, {}, Reducer::None, [&](const auto& v) {
      return sub(b, b.at(x, {v[0], v[2], v[1]}), b.at(y, v));
    }));
    add("transpose " + std::to_string(n) + "x" + std::to_string(m), std::move(b));
  }
  {
    Builder b;  // a scatter by data and its reader
    const TensorId d = b.input("D", {20, 6}), at = b.input("I", {20}, DType::I32);
    Tensor out;
    out.name = "G";
    out.shape = {4, 6};
    Operator op;
    op.name = "G";
    op.kind = OperatorKind::Scatter;
    op.axes = {{"i", 20, {}}, {"j", 6, {}}};
    op.body = b.at(d, {IndexExpr::variable(0), IndexExpr::variable(1)});
    op.scatter = {{{}, b.at(at, {IndexExpr::variable(0)})}, {IndexExpr::variable(1), {}}};
    op.output = b.p.addTensor(out);
    b.p.addOperator(op);
    b.output(b.op("Y", {4, 6}, {}, Reducer::None, [&](const auto& v) { return b.p.unary(ScalarOp::Neg, b.at(op.output, v)); }));
    add("scatter", std::move(b));
  }
  return cases;
}

TEST(Nest, FirstSchedules) {
  std::mt19937_64 rng(21);
  for (const Case& c : nests()) {
    EXPECT_EQ(compareFirst(c.program, rng), "") << c.name;
    EXPECT_EQ(compareFirst(c.program, rng, 2), "") << c.name;
  }
}

TEST(Nest, ChainsThatShareRowsRunRowByRow) {
  for (const Case& c : nests()) {
    const auto knobs = *(*scheduleSpace(c.program, hostTarget()))->first().knobs;
    const bool chain = c.name.starts_with("softmax") || c.name == "routing";
    EXPECT_EQ(knobs.contains("rows"), chain) << c.name;
    if (chain) { EXPECT_GT(knobs["rows"], 0) << c.name; }
  }
}

TEST(Nest, TransposesAreTurnedInRegisters) {
  for (const Case& c : nests()) {
    if (!c.name.starts_with("transpose 16x32")) continue;
    const auto knobs = *(*scheduleSpace(c.program, hostTarget()))->first().knobs;
    EXPECT_TRUE(knobs.contains("tile")) << knobs.dump();
  }
}

TEST(Nest, RandomLegalSchedulesEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  const Target target = hostTarget(2);
  auto device = cpu().open("cpu", 2);
  ASSERT_TRUE(device.ok());
  for (const Case& c : nests()) {
    const auto space = scheduleSpace(c.program, target);
    Schedule last = (*space)->first();
    for (int i = 0; i < 9; ++i) {
      const Schedule s = i % 3 == 0   ? (*space)->random(rng)
                         : i % 3 == 1 ? (*space)->mutate(last, rng)
                                      : (*space)->cross(last, (*space)->random(rng), rng);
      EXPECT_TRUE((*space)->check(s).ok());
      EXPECT_EQ(compare(c.program, s, target, **device, rng), "") << c.name << ", seed " << seed;
      last = s;
    }
  }
}

TEST(Contraction, RandomLegalSchedulesEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  const Target target = hostTarget(2);
  auto device = cpu().open("cpu", 2);
  ASSERT_TRUE(device.ok());
  for (const Case& c : contractions()) {
    const auto space = scheduleSpace(c.program, target);
    Schedule last = (*space)->first();
    for (int i = 0; i < 3; ++i) {
      const Schedule s = i < 1    ? (*space)->random(rng)
                         : i == 1 ? (*space)->mutate(last, rng)
                                  : (*space)->cross(last, (*space)->first(), rng);
      EXPECT_TRUE((*space)->check(s).ok());
      EXPECT_EQ(compare(c.program, s, target, **device, rng), "") << c.name << ", seed " << seed;
      last = s;
    }
  }
}

// A strided convolution's gradient may be scheduled by its residue classes, and of one picture must be: h and w stand under floors on
// both sides, so nothing but the classes has rows of its own.
TEST(Contraction, ResidueClassesAreAKnob) {
  std::size_t seen = 0;
  for (const Case& c : contractions()) {
    if (!c.name.starts_with("dX stride 2 in classes")) continue;
    const auto space = scheduleSpace(c.program, hostTarget());
    std::vector<std::string> axes;
    for (const KnobInfo& knob : (*space)->knobs())
      if (knob.name == "axes") axes = knob.values;
    const bool onePicture = c.name.find("batch 1") != std::string::npos;
    EXPECT_EQ(std::count(axes.begin(), axes.end(), "\"own\"") == 0, onePicture) << c.name;
    EXPECT_EQ(std::count(axes.begin(), axes.end(), "\"phases\""), 1) << c.name;
    ++seen;
  }
  EXPECT_EQ(seen, 3u);
}

// Runs Y = f(X) on f32 values and returns Y.
std::vector<float> evaluated(ScalarOp op, const std::vector<float>& x) {
  Builder b;
  const auto n = static_cast<std::int64_t>(x.size());
  const TensorId in = b.input("X", {n});
  b.output(b.op("Y", {n}, {}, Reducer::None, [&](const auto& v) { return b.p.unary(op, b.at(in, v)); }));
  auto device = cpu().open("cpu", 1);
  auto compiler = cpu().compiler((*device)->target());
  const auto object = (*compiler)->compile({b.p, (*scheduleSpace(b.p, (*device)->target()))->first(), {}});
  auto kernel = (*device)->link(*object);
  auto* from = static_cast<float*>(*(*device)->allocate(4 * n));
  auto* to = static_cast<float*>(*(*device)->allocate(4 * n));
  std::copy(x.begin(), x.end(), from);
  void* tensors[] = {from, to};
  LaunchArgs args;
  args.tensors = tensors;
  EXPECT_TRUE((*kernel)->launch(args).ok());
  std::vector<float> y(to, to + n);
  (*device)->release(from);
  (*device)->release(to);
  return y;
}

// In units of the last place of the exact result, over the range where it is a normal number.
TEST(VectorMath, ErrorsAreAsStated) {
  const auto worst = [](ScalarOp op, double low, double high, double (*exact)(double)) {
    std::mt19937_64 rng(1);
    std::vector<float> x;
    for (int i = 0; i < 200000; ++i)
      x.push_back(static_cast<float>(low + (high - low) * static_cast<double>(rng() >> 11) * 0x1p-53));
    for (int e = -30; e < 6; ++e)
      for (int i = 0; i < 200; ++i) {
        const float v = std::ldexp(1.f + static_cast<float>(rng() % 1000) / 1000.f, e);
        if (v > low && v < high) x.push_back(v);
        if (-v > low && -v < high) x.push_back(-v);
      }
    const auto y = evaluated(op, x);
    double most = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = exact(x[i]);
      if (std::fabs(want) < 1.2e-38) continue;
      const double ulp = std::ldexp(1.0, std::ilogb(want) - 23);
      most = std::max(most, std::fabs(y[i] - want) / ulp);
    }
    return most;
  };
  EXPECT_LE(worst(ScalarOp::Exp, -87, 88, [](double v) { return std::exp(v); }), 1.5);
  EXPECT_LE(worst(ScalarOp::Log, 1e-30, 1e4, [](double v) { return std::log(v); }), 1.5);
  EXPECT_LE(worst(ScalarOp::Log, 0.5, 2, [](double v) { return std::log(v); }), 1.5);
  EXPECT_LE(worst(ScalarOp::Tanh, -10, 10, [](double v) { return std::tanh(v); }), 2);
  EXPECT_LE(worst(ScalarOp::Sigmoid, -80, 30, [](double v) { return 1 / (1 + std::exp(-v)); }), 3);
  EXPECT_LE(worst(ScalarOp::Erf, -5, 5, [](double v) { return std::erf(v); }), 2.5);
}

TEST(VectorMath, EndsAndSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto exp = evaluated(ScalarOp::Exp, {-inf, inf, -200.f, 200.f, 0.f, -88.5f});
  EXPECT_EQ(exp[0], 0.f);
  EXPECT_EQ(exp[1], inf);
  EXPECT_EQ(exp[2], 0.f);
  EXPECT_EQ(exp[3], inf);
  EXPECT_EQ(exp[4], 1.f);
  EXPECT_NEAR(exp[5], 3.67e-39, 1e-40);
  const auto log = evaluated(ScalarOp::Log, {0.f, inf, 1.f, 1e-40f});
  EXPECT_EQ(log[0], -inf);
  EXPECT_EQ(log[1], inf);
  EXPECT_EQ(log[2], 0.f);
  EXPECT_NEAR(log[3], std::log(1e-40), 1e-4);
  EXPECT_TRUE(std::isnan(evaluated(ScalarOp::Log, {-1.f})[0]));
  const auto tanh = evaluated(ScalarOp::Tanh, {-inf, inf, -0.f});
  EXPECT_EQ(tanh[0], -1.f);
  EXPECT_EQ(tanh[1], 1.f);
  EXPECT_TRUE(std::signbit(tanh[2]));
  for (const ScalarOp op : {ScalarOp::Exp, ScalarOp::Log, ScalarOp::Tanh, ScalarOp::Sigmoid, ScalarOp::Erf})
    EXPECT_TRUE(std::isnan(evaluated(op, {nan})[0])) << info(op).name;
}

TEST(Compiler, TextsCarryOriginsToInstructions) {
  Builder b;
  const OriginId origin = b.p.sourceOrigin({SourceId(std::size_t{0}), 10, 20});
  const TensorId x = b.input("X", {64});
  b.output(b.op("Y", {64}, {}, Reducer::None, [&](const auto& v) {
    return b.p.unary(ScalarOp::Tanh, b.p.load(x, {{v[0], {}}}, origin), origin);
  }));
  const Target target = hostTarget();
  auto compiler = cpu().compiler(target);
  const auto object = (*compiler)->compile({b.p, (*scheduleSpace(b.p, target))->first(), {"loops", "llvm", "asm"}});
  ASSERT_TRUE(object.ok()) << object.error().message;
  for (const char* kind : {"loops", "llvm", "asm"}) {
    const KernelText& text = object->texts.at(kind);
    EXPECT_EQ(static_cast<std::size_t>(std::count(text.text.begin(), text.text.end(), '\n')), text.lineOrigins.size()) << kind;
    const auto known =
        std::count_if(text.lineOrigins.begin(), text.lineOrigins.end(), [&](const auto& o) { return o == std::vector{origin}; });
    EXPECT_GE(known, kind == std::string("loops") ? 1 : 8) << kind;
  }
}

// Tasks are shared out differently; every reduction has its own fixed tree.
TEST(Device, ThreadCountDoesNotChangeABit) {
  Builder b;
  const TensorId x = b.input("X", {50, 300});
  b.output(b.op("S", {50}, {300}, Reducer::Sum, [&](const auto& v) { return b.p.unary(ScalarOp::Exp, b.at(x, v)); }));
  const Schedule schedule = (*scheduleSpace(b.p, hostTarget()))->first();
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3}) {
    auto device = cpu().open("cpu", threads);
    auto compiler = cpu().compiler(hostTarget(threads));
    const auto object = (*compiler)->compile({b.p, schedule, {}});
    ASSERT_TRUE(object.ok());
    auto kernel = (*device)->link(*object);
    auto* from = static_cast<float*>(*(*device)->allocate(4 * 15000));
    auto* to = static_cast<float*>(*(*device)->allocate(4 * 50));
    for (int i = 0; i < 15000; ++i) from[i] = static_cast<float>(i % 97) / 50.f;
    void* tensors[] = {from, to};
    LaunchArgs args;
    args.tensors = tensors;
    for (int run = 0; run < 20; ++run) ASSERT_TRUE((*kernel)->launch(args).ok());
    results.emplace_back(to, to + 50);
    (*device)->release(from);
    (*device)->release(to);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace nf::test
