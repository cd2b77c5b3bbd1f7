// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <unistd.h>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

#include "core/ir/structural_hash.h"
#include "core/schedule/lower.h"
#include "plugins/cpu/machine.h"
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

// One expression of thousands of nodes: emitted in one pass over them.
TEST(Elementwise, ALongSumIsOneKernel) {
  constexpr int kTerms = 10'000;
  std::mt19937_64 rng(3);
  Builder b;
  const TensorId x = b.input("X", {40});
  b.output(b.op("Y", {40}, {}, Reducer::None, [&](const auto& v) {
    ExprId sum = b.at(x, v);
    for (int k = 1; k < kTerms; ++k)
      sum = b.p.binary(ScalarOp::Add, sum, b.p.binary(ScalarOp::Mul, b.at(x, v), b.p.constant(k % 2 == 0 ? 0.5 : -0.25)));
    return sum;
  }));
  EXPECT_EQ(compareFirst(b.p, rng), "");
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

// dE[I[n], .., d] += W(n, .., d), an embedding's gradient; twice: two places by data. `guarded`: of some points only.
Program embeddingGradient(std::int64_t rows, std::int64_t points, std::int64_t width, bool twice, bool guarded) {
  Builder b;
  const TensorId d = b.input("D", {points, 3, width}), w = b.input("W", {width});
  const TensorId idx = b.input("I", {points}, DType::I32), second = b.input("J", {points, 3}, DType::I32);
  const auto n = IndexExpr::variable(0), m = IndexExpr::variable(1), j = IndexExpr::variable(2);
  Operator op;
  op.name = "G";
  op.kind = OperatorKind::Scatter;
  op.axes = {{"n", points, {}}, {"m", 3, {}}, {"d", width, {}}};
  op.body = b.p.binary(ScalarOp::Mul, b.at(d, {n, m, j}), b.at(w, {j}));
  if (guarded) op.body = b.p.select(b.p.cond(IndexCond::ge0(n - m - IndexExpr(2))), op.body, b.p.constant(0));
  op.scatter = {{{}, b.at(idx, {n})}, {m, {}}, {j, {}}};
  if (twice) op.scatter[1] = {{}, b.at(second, {n, m})};
  Tensor out;
  out.name = "G";
  out.shape = {rows, twice ? 4 : 3, width};
  op.output = b.p.addTensor(out);
  b.p.addOperator(op);
  b.output(op.output);
  return std::move(b.p);
}

Schedule withPoints(const ScheduleSpace& space, const std::string& points) {
  auto knobs = *space.first().knobs;
  knobs["points"] = points;
  return {"scatter", std::make_shared<const nlohmann::json>(std::move(knobs))};
}

TEST(Scatter, PointsMayBeSortedByPlace) {
  std::mt19937_64 rng(17);
  for (const int threads : {1, 3}) {
    const Target target = hostTarget(threads);
    auto device = cpu().open("cpu", threads);
    for (const std::int64_t width : {1, 20, 37})
      for (const bool twice : {false, true})
        for (const bool guarded : {false, true}) {
          const Program p = embeddingGradient(6, 31, width, twice, guarded);
          const auto space = scheduleSpace(p, target);
          const Schedule sorted = withPoints(**space, "sorted");
          ASSERT_TRUE((*space)->check(sorted).ok()) << (*space)->check(sorted).error().message;
          EXPECT_EQ(compare(p, sorted, target, **device, rng, {}, 4), "") << width << twice << guarded;
        }
    const Program p = embeddingGradient(6, 31, 20, false, false);
    const Schedule sorted = withPoints(**scheduleSpace(p, target), "sorted");
    EXPECT_TRUE(
        compare(p, sorted, target, **device, rng, {}, 40).starts_with("refused: operator G: index 0 of G is outside [0, 6)"));
  }
}

// Sorted or not, on any number of threads, in any run: every element sums the same numbers in the same order.
TEST(Scatter, ThreadsAndSortingDoNotChangeABit) {
  constexpr std::int64_t kRows = 23, kPoints = 700, kWidth = 45;
  const Program p = embeddingGradient(kRows, kPoints, kWidth, false, true);
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::vector<float> values(kPoints * 3 * kWidth), weights(kWidth);
  for (auto* list : {&values, &weights})
    for (float& v : *list) v = std::ldexp(static_cast<float>(rng() % 2000) - 1000, static_cast<int>(rng() % 20) - 10);
  std::vector<std::int32_t> rows(kPoints), other(kPoints * 3, 0);
  for (std::int32_t& r : rows) r = static_cast<std::int32_t>(std::min(rng() % kRows, rng() % kRows));  // some often, some rarely
  std::vector<std::vector<std::uint32_t>> results;
  for (const char* points : {"in order", "sorted"})
    for (const int threads : {1, 2, 4}) {
      const Target target = hostTarget(threads);
      auto device = cpu().open("cpu", threads);
      auto compiler = cpu().compiler(target);
      const auto object = (*compiler)->compile({p, withPoints(**scheduleSpace(p, target), points), {}});
      ASSERT_TRUE(object.ok()) << object.error().message;
      auto kernel = (*device)->link(*object);
      ASSERT_TRUE(kernel.ok());
      constexpr std::size_t kElements = kRows * 3 * kWidth;
      const auto give = [&](const void* data, std::size_t bytes) {
        void* memory = *(*device)->allocate(static_cast<std::int64_t>(bytes));
        if (data) std::memcpy(memory, data, bytes);
        return memory;
      };
      std::vector<void*> tensors{give(values.data(), values.size() * 4), give(weights.data(), weights.size() * 4),
                                 give(rows.data(), rows.size() * 4), give(other.data(), other.size() * 4),
                                 give(nullptr, kElements * 4)};
      void* workspace = give(nullptr, static_cast<std::size_t>(object->workspaceBytes) + 64);
      LaunchArgs args;
      args.tensors = tensors;
      args.workspace = workspace;
      for (int run = 0; run < 5; ++run) {
        std::memset(workspace, 0xff, static_cast<std::size_t>(object->workspaceBytes));
        ASSERT_TRUE((*kernel)->launch(args).ok());
        results.emplace_back(kElements);
        std::memcpy(results.back().data(), tensors.back(), kElements * 4);
      }
      for (void* t : tensors) (*device)->release(t);
      (*device)->release(workspace);
    }
  for (const auto& r : results) EXPECT_EQ(r, results[0]);
}

// A guard that bounds a long loop becomes its end: the compiled code agrees with the loops as they are read.
TEST(Reduction, GuardsThatBoundALoop) {
  std::mt19937_64 rng(18);
  struct Bound {
    const char* name;
    std::function<IndexCond(const IndexExpr&, const IndexExpr&)> holds;  // of the row and the reduced point
  };
  const std::vector<Bound> bounds = {
      {"at most", [](const auto& i, const auto& k) { return IndexCond::ge0(i - k); }},
      {"at least", [](const auto& i, const auto& k) { return IndexCond::ge0(k - i - IndexExpr(3)); }},
      {"a band",
       [](const auto& i, const auto& k) {
         return IndexCond::all({IndexCond::ge0(3 * k - i + IndexExpr(7)), IndexCond::ge0(i - 2 * k + IndexExpr(9))});
       }},
      {"never", [](const auto& i, const auto& k) { return IndexCond::ge0(i - k - IndexExpr(500)); }},
      {"a band and a class", [](const auto& i, const auto& k) {
         return IndexCond::all({IndexCond::ge0(i - k), IndexCond::eq0(floorMod(i + k, 3))});
       }}};
  for (const Bound& bound : bounds)
    for (const Reducer reducer : {Reducer::Sum, Reducer::Max}) {
      Builder b;
      const TensorId x = b.input("X", {41, 67}), y = b.input("Y", {67, 20});
      b.output(b.op("Z", {41, 20}, {67}, reducer, [&](const auto& v) {
        return b.p.select(b.p.cond(bound.holds(v[0], v[2])),
                          b.p.binary(ScalarOp::Mul, b.at(x, {v[0], v[2]}), b.at(y, {v[2], v[1]})), b.p.constant(0));
      }));
      EXPECT_EQ(compareFirst(b.p, rng), "") << bound.name;
      EXPECT_EQ(compareFirst(b.p, rng, 2), "") << bound.name;
    }
}

TEST(Contraction, FirstSchedules) {
  std::mt19937_64 rng(20);
  for (const Case& c : contractions()) {
    EXPECT_EQ((*scheduleSpace(c.program, hostTarget()))->first().kind, "contraction") << c.name;
    EXPECT_EQ(compareFirst(c.program, rng), "") << c.name;
  }
}

TEST(Nest, FirstSchedules) {
  std::mt19937_64 rng(21);
  for (const Case& c : nests()) {
    EXPECT_EQ(compareFirst(c.program, rng), "") << c.name;
    EXPECT_EQ(compareFirst(c.program, rng, 2), "") << c.name;
  }
}

// A kernel is known by its structural hash, which no name is part of, and so are the schedules that are recorded for it.
TEST(Schedule, NamesHaveNoPartInIt) {
  std::vector<Case> cases = nests();
  for (Case& c : contractions()) cases.push_back(std::move(c));
  for (const Case& c : cases) {
    Program renamed = c.program;
    for (Operator& op : renamed.operators)
      for (std::size_t a = 0; a < op.axes.size(); ++a) op.axes[a].name = "other" + std::to_string(op.axes.size() - a);
    for (Tensor& t : renamed.tensors) t.name = "of_" + t.name;
    ASSERT_EQ(structuralHash(renamed), structuralHash(c.program)) << c.name;
    for (const std::string backend : {"cpu", "cuda"}) {
      Target target = hostTarget();
      target.backend = backend;
      const auto space = scheduleSpace(c.program, target), other = scheduleSpace(renamed, target);
      ASSERT_EQ(space.ok(), other.ok()) << c.name;
      if (!space) continue;
      EXPECT_EQ((*space)->first().text(), (*other)->first().text()) << c.name;
      const auto knobs = (*space)->knobs(), others = (*other)->knobs();
      ASSERT_EQ(knobs.size(), others.size());
      for (std::size_t k = 0; k < knobs.size(); ++k)
        EXPECT_EQ(knobs[k].values, others[k].values) << c.name << ", " << knobs[k].name;
    }
  }
}

// Hints and logs that call axes by the names of their notebook.
TEST(Schedule, OlderOnesAreRead) {
  const auto older = Schedule::parse(R"({"kind":"contraction","knobs":{"order":"rows","rows":"0:k*2 2:j*4","vector":"1:ne"}})");
  ASSERT_TRUE(older.ok());
  EXPECT_EQ(older->text(),
            R"({"kind":"contraction","knobs":{"order":"rows","rows":"axis0*2 axis2*4","vector":"axis1"},"version":1})");
  EXPECT_EQ(Schedule::parse(older->text())->text(), older->text());
}

TEST(Nest, ChainsThatShareRowsRunRowByRow) {
  for (const Case& c : nests()) {
    const auto knobs = *(*scheduleSpace(c.program, hostTarget()))->first().knobs;
    // Of a gradient with its reader only rows within a residue class are worth it.
    const bool chain = c.name.starts_with("softmax") || c.name == "routing";
    if (c.name.find(" gradient ") == std::string::npos) { EXPECT_EQ(knobs.contains("rows"), chain) << c.name; }
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
TEST(Nest, ResidueClassesAreAKnob) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  const Target target = hostTarget(2);
  auto device = cpu().open("cpu", 2);
  std::size_t seen = 0;
  for (const Case& c : nests()) {
    const auto space = scheduleSpace(c.program, target);
    if ((*space)->first().kind == "contraction") continue;  // their knob has its own test
    if (!(*space)->first().knobs->contains("vector") && !(*space)->first().knobs->contains("stage0.vector")) continue;
    const auto knobs = (*space)->knobs();
    const bool split = std::any_of(knobs.begin(), knobs.end(), [](const KnobInfo& k) { return k.name == "axes"; });
    EXPECT_EQ(split, c.name.find(" gradient ") != std::string::npos || c.name.starts_with("upsampling")) << c.name;
    if (!split) continue;
    ++seen;
    int tried = 0;
    for (int i = 0; tried < 6 && i < 1000; ++i) {
      const Schedule s = (*space)->random(rng);
      if (!(*space)->check(s).ok() || s.knobs->value("axes", "own") != "phases") continue;
      ++tried;
      EXPECT_EQ(compare(c.program, s, target, **device, rng), "") << c.name << ", seed " << seed;
    }
    EXPECT_EQ(tried, 6) << c.name;
    if (c.name.starts_with("upsampling")) continue;  // two periods in one axis: one's divisions of the other's classes stay
    // Point by point no division is left. Lanes and tiles over a residue class bring their own.
    nlohmann::json plain{{"axes", "phases"}};
    for (const KnobInfo& k : knobs) {
      if (k.name == "rows") plain[k.name] = 1;
      if (k.name.ends_with("vector")) plain[k.name] = "";
      if (k.name.ends_with("lanes")) plain[k.name] = 1;
    }
    const Schedule s{(*space)->first().kind, std::make_shared<const nlohmann::json>(plain)};
    ASSERT_TRUE((*space)->check(s).ok()) << (*space)->check(s).error().message << s.text();
    EXPECT_EQ(loop::toText(*lower(c.program, s, target)).text.find("//"), std::string::npos) << c.name << "\n" << s.text();
  }
  EXPECT_EQ(seen, 8u);
}

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

// Runs Y = f(X) on f32 values and returns Y; `exponent` of a power.
std::vector<float> evaluated(ScalarOp op, const std::vector<float>& x, std::optional<double> exponent = {}) {
  Builder b;
  const auto n = static_cast<std::int64_t>(x.size());
  const TensorId in = b.input("X", {n});
  b.output(b.op("Y", {n}, {}, Reducer::None, [&](const auto& v) {
    return exponent ? b.p.binary(op, b.at(in, v), b.p.constant(*exponent)) : b.p.unary(op, b.at(in, v));
  }));
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
  EXPECT_EQ(exp[5], 0.f) << "3.67e-39 is denormal";
  const auto log = evaluated(ScalarOp::Log, {0.f, inf, 1.f, 1e-40f, 1.2e-38f});
  EXPECT_EQ(log[0], -inf);
  EXPECT_EQ(log[1], inf);
  EXPECT_EQ(log[2], 0.f);
  EXPECT_EQ(log[3], -inf) << "what is denormal is zero";
  EXPECT_NEAR(log[4], std::log(1.2e-38), 1e-4);
  EXPECT_TRUE(std::isnan(evaluated(ScalarOp::Log, {-1.f})[0]));
  const auto tanh = evaluated(ScalarOp::Tanh, {-inf, inf, -0.f});
  EXPECT_EQ(tanh[0], -1.f);
  EXPECT_EQ(tanh[1], 1.f);
  EXPECT_TRUE(std::signbit(tanh[2]));
  const std::vector<float> bases{-inf, inf, -0.f, 0.f, 4.f, -4.f, nan};
  const auto root = evaluated(ScalarOp::Pow, bases, 0.5);
  for (std::size_t i = 0; i < bases.size(); ++i) {
    const float want = std::pow(bases[i], 0.5f);
    EXPECT_TRUE(std::isnan(want) ? std::isnan(root[i]) : root[i] == want && std::signbit(root[i]) == std::signbit(want))
        << bases[i] << ": " << root[i];
  }
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

// In a kernel of one task nothing depends on the task: LLVM moves all of it out of the loop.
TEST(Compiler, OriginsOutliveCodeMotion) {
  Builder b;
  const auto from = [&](std::uint32_t begin) { return b.p.sourceOrigin({SourceId(std::size_t{0}), begin, begin + 5}); };
  const OriginId ofX = from(10), ofW = from(20), ofProduct = from(30);
  const TensorId x = b.input("X", {4, 6}), w = b.input("W", {6, 6});
  b.output(b.op("Y", {4, 6}, {6}, Reducer::Sum, [&](const auto& v) {
    return b.p.binary(ScalarOp::Mul, b.p.load(x, {{v[0], {}}, {v[2], {}}}, ofX), b.p.load(w, {{v[2], {}}, {v[1], {}}}, ofW),
                      ofProduct);
  }));
  const Target target = hostTarget();
  auto compiler = cpu().compiler(target);
  const auto object = (*compiler)->compile({b.p, (*scheduleSpace(b.p, target))->first(), {"loops", "llvm", "asm"}});
  ASSERT_TRUE(object.ok()) << object.error().message;
  for (const char* kind : {"loops", "llvm", "asm"}) {
    const KernelText& text = object->texts.at(kind);
    for (const OriginId origin : {ofX, ofW, ofProduct})
      EXPECT_TRUE(std::any_of(text.lineOrigins.begin(), text.lineOrigins.end(),
                              [&](const auto& o) { return std::find(o.begin(), o.end(), origin) != o.end(); }))
          << kind << ", " << origin.value << "\n"
          << text.text;
  }
}

// Less effort gives other code and the same bits.
TEST(Compiler, QuickCodeComputesTheSame) {
  constexpr std::int64_t kRows = 17, kColumns = 40, kSummed = 33;
  Builder b;
  const TensorId x = b.input("X", {kRows, kSummed}), w = b.input("W", {kSummed, kColumns});
  b.output(b.op("Y", {kRows, kColumns}, {kSummed}, Reducer::Sum, [&](const auto& v) {
    return b.p.binary(ScalarOp::Mul, b.at(x, {v[0], v[2]}), b.at(w, {v[2], v[1]}));
  }));
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::vector<float> left(kRows * kSummed), right(kSummed * kColumns);
  for (auto* list : {&left, &right})
    for (float& value : *list) value = static_cast<float>(static_cast<int>(rng() % 2001) - 1000) / 7;
  const Target target = hostTarget();
  auto device = cpu().open("cpu", 1);
  auto compiler = cpu().compiler(target);
  std::vector<KernelObject> objects;
  std::vector<std::vector<float>> results;
  for (const CompileEffort effort : {CompileEffort::Full, CompileEffort::Quick, CompileEffort::Full}) {
    const auto object = (*compiler)->compile({b.p, (*scheduleSpace(b.p, target))->first(), {}, effort});
    ASSERT_TRUE(object.ok()) << object.error().message;
    EXPECT_EQ(object->effort, effort);
    auto kernel = (*device)->link(*object);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    std::vector<float> result(kRows * kColumns);
    std::vector<std::byte> workspace(static_cast<std::size_t>(object->workspaceBytes) + 64);
    void* space = workspace.data();
    std::size_t room = workspace.size();
    std::align(64, static_cast<std::size_t>(object->workspaceBytes), space, room);
    const std::vector<void*> tensors{left.data(), right.data(), result.data()};
    LaunchArgs args;
    args.tensors = tensors;
    args.workspace = space;
    ASSERT_TRUE((*kernel)->launch(args).ok());
    results.push_back(std::move(result));
    objects.push_back(*object);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(objects[0].code, objects[1].code);
  EXPECT_EQ(objects[0].code, objects[2].code) << "the switch of one compilation says nothing about the next";
}

// A kernel of centuries ends when it is asked to, wherever its loops stand; a short one has no code for that.
TEST(Device, LongKernelsStop) {
  const auto sum = [](Builder& b, std::vector<std::int64_t> shape, std::vector<std::int64_t> reduced) {
    const TensorId x = b.input("X", {16});
    b.output(b.op("S", std::move(shape), std::move(reduced), Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, b.at(x, {IndexExpr(3)}), b.p.indexValue(v.back(), DType::F32));
    }));
  };
  const Target target = hostTarget();
  auto compiler = cpu().compiler(target);
  const std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>> cases{
      {{1}, {1'000'000'000'000'000}}, {{4}, {1'000'000'000'000, 3}}, {{1'000'000}, {1'000'000'000}}, {{2, 8}, {40'000'000'000}}};
  for (const auto& [shape, reduced] : cases) {
    Builder b;
    sum(b, shape, reduced);
    const auto object = (*compiler)->compile({b.p, (*scheduleSpace(b.p, target))->first(), {}});
    ASSERT_TRUE(object.ok()) << object.error().message << object.error().detail;
    for (const int threads : {1, 2}) {
      auto device = cpu().open("cpu", threads);
      auto kernel = (*device)->link(*object);
      std::vector<float> x(16, 1.f);
      std::int64_t elements = 1;
      for (const std::int64_t n : shape) elements *= n;
      void* tensors[] = {x.data(), *(*device)->allocate(elements * 4)};
      std::vector<std::byte> workspace(static_cast<std::size_t>(object->workspaceBytes) + 64);
      std::atomic<bool> stop{false};
      LaunchArgs args;
      args.tensors = tensors;
      args.workspace = workspace.data() + (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64);
      args.stop = &stop;
      std::atomic<bool> running{false};
      std::thread other([&] {
        while (!running) std::this_thread::yield();
        stop = true;
      });
      running = true;
      const auto done = (*kernel)->launch(args);
      other.join();
      ASSERT_FALSE(done.ok());
      EXPECT_TRUE(isStopped(done.error()));
      (*device)->release(tensors[1]);
    }
  }
  Builder b;
  sum(b, {1000}, {1000});
  const auto object = (*compiler)->compile({b.p, (*scheduleSpace(b.p, target))->first(), {"llvm"}});
  EXPECT_EQ(object->texts.at("llvm").text.find("stopped"), std::string::npos);
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

// Of every thread that runs a kernel, and of none that does something else.
TEST(Device, DenormalNumbersAreZero) {
  Builder b;
  constexpr std::int64_t kRows = 64, kColumns = 1000;
  const TensorId x = b.input("X", {kRows, kColumns});
  b.output(b.op("Y", {kRows, kColumns}, {}, Reducer::None,
                [&](const auto& v) { return b.p.binary(ScalarOp::Mul, b.at(x, v), b.p.constant(0.25)); }));
  for (const int threads : {1, 2}) {
    auto device = cpu().open("cpu", threads);
    auto compiler = cpu().compiler(hostTarget(threads));
    const auto object = (*compiler)->compile({b.p, (*scheduleSpace(b.p, hostTarget(threads)))->first(), {}});
    ASSERT_TRUE(object.ok());
    auto kernel = (*device)->link(*object);
    constexpr std::int64_t kSize = kRows * kColumns;
    auto* from = static_cast<float*>(*(*device)->allocate(4 * kSize));
    auto* to = static_cast<float*>(*(*device)->allocate(4 * kSize));
    for (int i = 0; i < kSize; ++i) from[i] = i % 3 == 0 ? 1.f : i % 3 == 1 ? 2e-38f : 4e-39f;
    void* tensors[] = {from, to};
    LaunchArgs args;
    args.tensors = tensors;
    ASSERT_TRUE((*kernel)->launch(args).ok());
    for (int i = 0; i < kSize; ++i) ASSERT_EQ(to[i], i % 3 == 0 ? 0.25f : 0.f) << i << ", " << threads;
    volatile float small = 2e-38f;
    EXPECT_GT(small * 0.25f, 0.f) << "here as before";
    (*device)->release(from);
    (*device)->release(to);
  }
}

// The interval of order statistics holds the quantile as often as it says, and is the narrowest that grows from its middle.
TEST(Machine, TheRanksAroundAQuantileHoldIt) {
  for (const int samples : {1, 2, 9, 32, 64, 200})
    for (const double quantile : {0.1, 0.5, 0.9}) {
      const auto r = cpu::quantileRanks(samples, quantile, 0.95);
      ASSERT_LE(0, r.low);
      ASSERT_LE(r.low, r.at);
      ASSERT_LE(r.at, r.high);
      ASSERT_LT(r.high, samples);
      // By recurrence, not by logarithms: P(k of them lie below the quantile).
      double chance = std::pow(1 - quantile, samples), covered = 0, least = 1;
      for (int k = 0; k <= samples; ++k) {
        if (k > r.low && k <= r.high) covered += chance, least = std::min(least, chance);
        chance *= quantile / (1 - quantile) * (samples - k) / (k + 1);
      }
      if (r.low > 0 && r.high + 1 < samples) { EXPECT_GE(covered, 0.95) << samples << " " << quantile; }
      EXPECT_LT(covered - least, 0.95) << samples << " " << quantile;
    }
  const auto r = cpu::quantileRanks(64, 0.9, 0.95);
  EXPECT_EQ(std::tuple(r.low, r.at, r.high), std::tuple(52, 57, 62));
}

TEST(Machine, ConstantsKeepTheirIntervalsAndOlderCachesAreRead) {
  const std::filesystem::path cache = std::filesystem::temp_directory_path() / ("neoflow-cache-" + std::to_string(::getpid()));
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before ? before : "";
  setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  EXPECT_EQ(cpu::measurements(1).bandwidth.samples, 0);
  const Target t = cpu::measuredHost(1);
  const auto known = cpu::measurements(1);
  EXPECT_GT(known.at, 0);
  EXPECT_EQ(known.bandwidth.value, t.peakBandwidth);
  EXPECT_EQ(known.flopRate.value, t.peakFlops);
  EXPECT_EQ(known.launchSeconds.value, t.launchSeconds);
  for (const Backend::Estimate& e : {known.bandwidth, known.flopRate, known.launchSeconds, known.l2Bandwidth}) {
    EXPECT_LT(0, e.low);
    EXPECT_LE(e.low, e.value);
    EXPECT_LE(e.value, e.high);
    EXPECT_GE(e.samples, 64);
  }
  for (const auto& entry : std::filesystem::directory_iterator(cache / "neoflow")) {
    if (entry.path().extension() != ".json") continue;
    auto json = nlohmann::json::parse(std::ifstream(entry.path()));
    ASSERT_TRUE(json.contains("intervals"));
    json.erase("intervals");
    std::ofstream(entry.path()) << json;
  }
  const Target again = cpu::measuredHost(1);
  EXPECT_EQ(again.peakBandwidth, t.peakBandwidth) << "not measured anew";
  EXPECT_EQ(again.launchSeconds, t.launchSeconds);
  EXPECT_EQ(cpu::measurements(1).bandwidth.value, t.peakBandwidth);
  EXPECT_EQ(cpu::measurements(1).bandwidth.samples, 0);
  if (before) setenv("XDG_CACHE_HOME", kept.c_str(), 1);
  else unsetenv("XDG_CACHE_HOME");
  std::filesystem::remove_all(cache);
}

}  // namespace
}  // namespace nf::test
