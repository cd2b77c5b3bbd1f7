// SPDX-License-Identifier: Apache-2.0
// Matrix units of a warp, run on the loop interpreter.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "core/schedule/fragment.h"
#include "core/schedule/gpu.h"
#include "core/schedule/loop_interpreter.h"
#include "core/schedule/lower.h"
#include "core/tune/tuning_state.h"
#include "tests/golden.h"
#include "tests/gpu/gpu_cases.h"

namespace nf::test {
namespace {

std::string compare(const Program& p, const Schedule& schedule, const Target& target, std::mt19937_64& rng) {
  const TensorValues inputs = randomInputs(p, rng);
  const auto reference = ReferenceProgram::prepare(p);
  if (!reference) return reference.error().message;
  const std::string result = compareLoops(p, schedule, target, inputs, reference->run(inputs, 7, 3, {}), {});
  if (result.empty()) return result;
  const auto loops = lower(p, schedule, target);
  return result + "\n" + schedule.text() + "\n" + (loops ? loop::toText(*loops).text : loops.error().message);
}

TEST(GpuMatrix, ContractionsEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  std::map<std::string, int> units;
  const std::vector<std::vector<DType>> types{{DType::F16}, {DType::BF16}, {DType::F16, DType::BF16}};
  for (const char* architecture : {"sm_80", "sm_75"})
    for (const auto& t : types)
      for (const Case& c : contractions(t)) {
        if (rng() % 2 == 0) continue;
        const Target target = gpuTarget(architecture);
        const auto space = scheduleSpace(c.program, target);
        ASSERT_TRUE(space.ok()) << c.name;
        const auto schedule = randomMatrix(**space, rng);
        if (!schedule) continue;
        ++units[unitOf(*schedule)];
        EXPECT_EQ(compare(c.program, *schedule, target, rng), "") << c.name << ", seed " << seed;
      }
  EXPECT_GE(units["mma16816"], 10);
  EXPECT_GE(units["mma1688"], 2);
  EXPECT_GE(units["tf32"], 2);
}

// Random extents, orders of axes, types, batches and epilogues.
TEST(GpuMatrix, RandomContractionsEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  const auto extent = [&](std::int64_t most) { return 9 + static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(most)); };
  const auto coin = [&] { return rng() % 2 == 0; };
  for (int round = 0; round < 24; ++round) {
    const std::int64_t m = coin() ? 8 * extent(4) : extent(60), n = coin() ? 8 * extent(4) : extent(60),
                       k = coin() ? 64 : extent(90);
    const std::int64_t batch = rng() % 4 == 0 ? 2 : 1;
    const DType left = coin() ? DType::F16 : DType::BF16, right = rng() % 4 == 0 ? DType::F16 : left;
    const bool turnLeft = coin(), turnRight = coin(), epilogue = coin();
    Builder b;
    const TensorId x = b.input("A", turnLeft ? std::vector{batch, k, m} : std::vector{batch, m, k}, left);
    const TensorId y = b.input("B", turnRight ? std::vector{batch, n, k} : std::vector{batch, k, n}, right);
    const TensorId bias = b.input("bias", {n});
    const TensorId c = b.op("C", {batch, m, n}, {k}, Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, turnLeft ? b.at(x, {v[0], v[3], v[1]}) : b.at(x, {v[0], v[1], v[3]}),
                        turnRight ? b.at(y, {v[0], v[2], v[3]}) : b.at(y, {v[0], v[3], v[2]}));
    });
    b.output(epilogue ? b.op(
                            "D", {batch, m, n}, {}, Reducer::None,
                            [&](const auto& v) {
                              return b.p.unary(ScalarOp::Relu, b.p.binary(ScalarOp::Add, b.at(c, v), b.at(bias, {v[2]})));
                            },
                            coin() ? left : DType::F32)
                      : c);
    const auto space = scheduleSpace(b.p, gpuTarget());
    ASSERT_TRUE(space.ok());
    const auto schedule = randomMatrix(**space, rng);
    ASSERT_TRUE(schedule.has_value()) << "seed " << seed << ", round " << round;
    EXPECT_EQ(compare(b.p, *schedule, gpuTarget(), rng), "") << "seed " << seed << ", round " << round;
  }
}

// Factors that are computed: what is a cast to f16 is multiplied as f16, a product of two is not.
TEST(GpuMatrix, OperandsMustBeHeldAsTheyAre) {
  const auto units = [](const std::function<ExprId(Builder&, ExprId)>& factor, DType type = DType::F16) {
    Builder b;
    const TensorId x = b.input("A", {32, 64}, type), y = b.input("B", {64, 32}, DType::F16);
    b.output(b.op("C", {32, 32}, {64}, Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, factor(b, b.at(x, {v[0], v[2]})), b.at(y, {v[2], v[1]}));
    }));
    std::mt19937_64 rng(5);
    const auto space = scheduleSpace(b.p, gpuTarget());
    const auto schedule = randomMatrix(**space, rng);
    if (schedule) { EXPECT_EQ(compare(b.p, *schedule, gpuTarget(), rng), ""); }
    return schedule ? unitOf(*schedule) : "fma";
  };
  EXPECT_EQ(units([](Builder&, ExprId e) { return e; }), "mma16816");
  EXPECT_EQ(units([](Builder& b, ExprId e) { return b.p.unary(ScalarOp::Tanh, e); }), "fma");
  EXPECT_EQ(units([](Builder&, ExprId e) { return e; }, DType::F32), "fma");
  EXPECT_EQ(units([](Builder& b, ExprId e) { return b.p.cast(DType::F16, e); }, DType::F32), "mma16816");
  EXPECT_EQ(units([](Builder& b, ExprId e) { return b.p.cast(DType::F16, b.p.unary(ScalarOp::Relu, e)); }), "mma16816");
  EXPECT_EQ(units([](Builder& b, ExprId e) { return b.p.cast(DType::BF16, b.p.unary(ScalarOp::Relu, e)); }), "tf32");
}

TEST(GpuMatrix, EveryBarrierAndWaitIsNeeded) {
  for (const auto& [type, unit] : std::vector<std::pair<DType, std::string>>{{DType::F16, "mma16816"}, {DType::BF16, "mma16816"}})
    for (const int stages : {1, 2, 3})
      everyBarrierIsNeeded(gemm(32, 32, 64, type, type),
                           R"({"block_m":32,"block_n":32,"block_k":16,"thread_m":2,"thread_n":4,"matrix":")" + unit +
                               R"(","stages":)" + std::to_string(stages) + "}");
}

const char* kSmall = R"({"block_m":32,"block_n":32,"block_k":32,"thread_m":2,"thread_n":8,"matrix":"mma16816","stages":2})";

TEST(GpuMatrix, GoldenLoops) {
  const auto loops = lower(gemm(64, 32, 64, DType::F16, DType::F16), scheduled(kSmall), gpuTarget());
  ASSERT_TRUE(loops.ok()) << loops.error().message;
  testing::expectGolden("gpu/matrix.golden", loop::toText(*loops).text);
}

// Eight neighbouring rows of a slice lie in all banks, whatever the tile.
TEST(GpuMatrix, RowsOfAMatrixLieInDifferentBanks) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  for (int round = 0; round < 40; ++round) {
    const bool turned = rng() % 2 == 0;
    Builder b;
    const TensorId x = turned ? b.input("A", {128, 128}, DType::F16) : b.input("A", {128, 128}, DType::BF16);
    const TensorId y = b.input("B", {128, 128}, turned ? DType::F16 : DType::BF16);
    b.output(b.op("C", {128, 128}, {128}, Reducer::Sum, [&](const auto& v) {
      return b.p.binary(ScalarOp::Mul, turned ? b.at(x, {v[2], v[0]}) : b.at(x, {v[0], v[2]}),
                        turned ? b.at(y, {v[1], v[2]}) : b.at(y, {v[2], v[1]}));
    }));
    const auto space = scheduleSpace(b.p, gpuTarget());
    const auto schedule = randomMatrix(**space, rng);
    ASSERT_TRUE(schedule.has_value());
    const auto f = lower(b.p, *schedule, gpuTarget());
    ASSERT_TRUE(f.ok());
    for (const loop::Statement& s : f->statements) {
      if (s.kind != loop::Statement::Kind::MatrixLoad) continue;
      for (std::int64_t matrix = 0; matrix < s.elements; ++matrix) {
        std::set<std::int64_t> banks;
        for (std::int64_t row = 0; row < 8; ++row)
          banks.insert(
              2 *
              evaluate(s.left.offset, [&](IndexVar v) { return f->vars[v].name == "lane" ? 8 * matrix + row : std::int64_t(0); }) %
              128 / 16);
        EXPECT_EQ(banks.size(), 8u) << schedule->text() << ", seed " << seed;
      }
    }
  }
}

// ---------------------------------------------------------------- what the interpreter and the verifier must not let pass

struct Warp {
  loop::Function f;
  loop::BufferId shared, a, b, c;
  loop::VarId thread;

  explicit Warp(std::int64_t threads = 32) {
    f.buffers.push_back({"Y", DType::F32, threads, loop::Scope::Global, loop::Direction::Out, 0});
    f.operands = 1;
    shared = f.addShared("s", DType::F16, 256 * 4);
    a = f.addFragment("a", DType::F16, 16);
    b = f.addFragment("b", DType::F16, 8);
    c = f.addLocal("c", DType::F32, 8);
    thread = f.addVar("t", threads, loop::LoopKind::Thread);
  }
  loop::StmtId load(loop::BufferId to, const IndexExpr& offset, const IndexExpr& from, std::int64_t matrices = 4) {
    return f.matrixLoad({to, offset, {}}, {shared, from, {}}, matrices, false);
  }
  loop::StmtId tile(const IndexExpr& at) {
    return f.matrixTile({c, at, {}}, {a, IndexExpr(0), {}}, {b, IndexExpr(0), {}}, {16, 8, 16});
  }
  void finish(std::vector<loop::StmtId> body, bool full = true) {
    std::vector<loop::StmtId> all;
    if (full) {
      for (int e = 0; e < 32; ++e) all.push_back(f.store({shared, 32 * at(thread) + IndexExpr(e), {}}, f.constant(e, DType::F16)));
      for (int e = 0; e < 8; ++e) all.push_back(f.store({c, IndexExpr(e), {}}, f.constant(0, DType::F32)));
      all.push_back(f.barrier());
    }
    all.insert(all.end(), body.begin(), body.end());
    all.push_back(f.store({loop::BufferId(std::size_t{0}), at(thread), {}}, f.constant(1, DType::F32)));
    const auto block = f.addVar("b", 1, loop::LoopKind::Block);
    f.stages.push_back({"Y", {f.forEach(block, {f.forEach(thread, std::move(all))})}});
  }
  std::string run() const {
    std::vector<std::vector<double>> operands{std::vector<double>(static_cast<std::size_t>(f.buffers[0].elements))};
    const auto ran = loop::interpret(f, {&operands, {}, 1, 0});
    return ran.ok() ? "" : ran.error().message;
  }
  std::string verified() const {
    const auto problems = loop::verify(f);
    return problems.empty() ? "" : problems.front();
  }
};

TEST(GpuMatrix, WarpsMustBeWholeAndAgree) {
  const auto row = [](const Warp& w) { return 16 * at(w.thread); };
  {
    Warp w;
    w.finish({w.load(w.a, IndexExpr(0), row(w)), w.load(w.b, IndexExpr(0), row(w), 2), w.tile(IndexExpr(0))});
    EXPECT_EQ(w.verified(), "");
    EXPECT_EQ(w.run(), "");
  }
  {
    Warp w(16);
    w.finish({w.load(w.a, IndexExpr(0), row(w))});
    EXPECT_NE(w.run().find("a warp that has not all its threads"), std::string::npos) << w.run();
  }
  {
    Warp w;
    w.finish({w.load(w.a, floorMod(at(w.thread), 2), row(w))});
    EXPECT_NE(w.run().find("name different parts of a"), std::string::npos) << w.run();
  }
  {
    Warp w;
    w.finish({w.load(w.a, IndexExpr(0), row(w) + IndexExpr(4))});
    EXPECT_NE(w.run().find("does not begin at 16 bytes"), std::string::npos) << w.run();
  }
  {
    Warp w;
    w.finish({w.tile(IndexExpr(0))});
    EXPECT_NE(w.run().find("is read before it is written"), std::string::npos) << w.run();
  }
  {
    Warp w;  // written by other threads since the last barrier
    std::vector<loop::StmtId> body{w.f.store({w.shared, 32 * at(w.thread), {}}, w.f.constant(1, DType::F16)),
                                   w.load(w.a, IndexExpr(0), row(w))};
    w.finish(std::move(body));
    EXPECT_NE(w.run().find("a race on element"), std::string::npos) << w.run();
  }
  {
    Warp w;
    const auto half = w.f.when(w.f.ge0(IndexExpr(15) - at(w.thread)), {w.load(w.a, IndexExpr(0), row(w))});
    w.finish({half});
    EXPECT_NE(w.verified().find("under a condition"), std::string::npos) << w.verified();
    EXPECT_NE(w.run().find("under a condition"), std::string::npos) << w.run();
  }
}

TEST(GpuMatrix, TheVerifierKnowsWhatFits) {
  {
    Warp w;
    w.finish({w.f.matrixTile({w.c, IndexExpr(0), {}}, {w.a, IndexExpr(0), {}}, {w.b, IndexExpr(0), {}}, {16, 16, 16})});
    EXPECT_NE(w.verified().find("no matrix unit"), std::string::npos) << w.verified();
  }
  {
    Warp w;
    const auto other = w.f.addFragment("x", DType::BF16, 8);
    w.finish({w.load(other, IndexExpr(0), 16 * at(w.thread))});
    EXPECT_NE(w.verified().find("different types"), std::string::npos) << w.verified();
  }
  {
    Warp w;
    w.finish({w.load(w.a, IndexExpr(0), 16 * at(w.thread), 3)});
    EXPECT_NE(w.verified().find("1, 2 or 4"), std::string::npos) << w.verified();
  }
  {
    Warp w;
    w.finish({w.f.store({w.a, IndexExpr(0), {}}, w.f.constant(1, DType::F32))});
    EXPECT_NE(w.verified().find("part of a register"), std::string::npos) << w.verified();
  }
  {
    Warp w;
    w.finish({w.tile(IndexExpr(6))});
    EXPECT_NE(w.verified().find("c may leave it"), std::string::npos) << w.verified();
  }
}

TEST(GpuMatrix, RoundsAsStorageDoes) {
  EXPECT_EQ(loop::roundedToFragment(DType::F16, 2049), 2048);  // ties to even
  EXPECT_EQ(loop::roundedToFragment(DType::F16, 2051), 2052);
  EXPECT_EQ(loop::roundedToFragment(DType::F16, 65519), 65504);
  EXPECT_EQ(loop::roundedToFragment(DType::F16, -65520), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(loop::roundedToFragment(DType::F16, 0x1.8p-25), 0x1p-24);
  EXPECT_EQ(loop::roundedToFragment(DType::F16, 0x1p-25), 0);
  EXPECT_EQ(loop::roundedToFragment(DType::BF16, 257), 256);
  EXPECT_EQ(loop::roundedToFragment(DType::BF16, 259), 260);
  EXPECT_EQ(loop::roundedToFragment(DType::F32, 2049), 2050);  // tf32: ties away from zero
  EXPECT_EQ(loop::roundedToFragment(DType::F32, -2049), -2050);
  EXPECT_EQ(loop::roundedToFragment(DType::F32, 65520), 65536);
}

// ---------------------------------------------------------------- the space

TEST(GpuMatrix, UnitsFollowTheDeviceAndTheOperands) {
  const auto first = [](const Program& p, const char* architecture) {
    return unitOf((*scheduleSpace(p, gpuTarget(architecture)))->first());
  };
  const Program half = gemm(512, 512, 512, DType::F16, DType::F16), brain = gemm(512, 512, 512, DType::BF16, DType::BF16);
  const Program mixed = gemm(512, 512, 512, DType::F16, DType::BF16), full = gemm(512, 512, 512);
  for (const char* type : {"half", "brain"}) EXPECT_NE(first(type == std::string("half") ? half : brain, "sm_90"), "fma");
  for (const char* architecture : {"sm_80", "sm_89"}) {
    EXPECT_EQ(first(half, architecture), "mma16816") << architecture;
    EXPECT_EQ(first(brain, architecture), "mma16816") << architecture;
    EXPECT_EQ(first(mixed, architecture), "tf32") << architecture;
    EXPECT_EQ(first(full, architecture), "fma") << architecture;
  }
  EXPECT_EQ(first(half, "sm_75"), "mma1688");
  EXPECT_EQ(first(brain, "sm_75"), "fma");
  EXPECT_EQ(first(mixed, "sm_75"), "fma");

  const auto space = scheduleSpace(full, gpuTarget());
  EXPECT_EQ((*space)->check(scheduled(kSmall)).error().message, "knob matrix cannot be \"mma16816\" here");
  const auto halves = scheduleSpace(half, gpuTarget());
  EXPECT_TRUE((*halves)->check(scheduled(kSmall)).ok());
  const auto why = [&](const std::string& knobs) { return (*halves)->check(scheduled(knobs)).error().message; };
  EXPECT_EQ(why(R"({"block_m":32,"block_n":32,"block_k":8,"thread_m":2,"thread_n":8,"matrix":"mma16816","stages":2})"),
            "knob block_k is no multiple of what the matrix unit takes at once");
  EXPECT_EQ(why(R"({"block_m":32,"block_n":32,"block_k":16,"thread_m":1,"thread_n":4,"matrix":"mma16816","stages":2})"),
            "a warp's 8 thread_m x 4 thread_n results are no 16 x 16 tiles of its block's");
}

// What a person would take, within a factor of two.
// What a search may still gain is reckoned from the fastest units that could take the operands: f32's own would end it early.
TEST(GpuMatrix, TheRoofIsThatOfTheMatrixUnits) {
  const auto seconds = [](DType type, const Target& target) { return rooflineSeconds(gemm(1024, 1024, 8192, type, type), target); };
  for (const auto& [architecture, speed] : {std::pair("sm_75", 8.0), std::pair("sm_80", 16.0), std::pair("sm_90", 16.0)}) {
    const Target target = gpuTarget(architecture);
    const double plain = seconds(DType::F32, target);
    EXPECT_NEAR(plain, 2.0 * 1024 * 1024 * 8192 / (target.peakFlops * static_cast<double>(target.threads)), 0.01 * plain);
    EXPECT_DOUBLE_EQ(loop::matrixSpeed(target), speed);
    for (const DType half : {DType::F16, DType::BF16})
      EXPECT_NEAR(plain / seconds(half, target), speed, 0.01 * speed) << architecture;
  }
  Target cpu;
  cpu.peakFlops = 1e11;
  EXPECT_EQ(loop::matrixSpeed(cpu), 1);
}

TEST(GpuContraction, FirstSchedulesHaveTiles) {
  const auto knobs = [](const Program& p, const char* architecture = "sm_80") {
    return *(*scheduleSpace(p, gpuTarget(architecture)))->first().knobs;
  };
  for (const char* architecture : {"sm_75", "sm_80", "sm_90"}) {
    const auto small = knobs(gemm(64, 64, 64), architecture);
    EXPECT_GE(small["thread_m"].get<int>() * small["thread_n"].get<int>(), 2) << architecture << small;
    const auto large = knobs(gemm(2048, 2048, 2048), architecture);
    EXPECT_GE(large["thread_m"].get<int>() * large["thread_n"].get<int>(), 16) << architecture << large;
    EXPECT_GE(large["block_m"].get<int>() * large["block_n"].get<int>(), 64 * 64) << architecture << large;
    EXPECT_EQ(large.value("split_k", 1), 1) << architecture << large;
  }
  const auto half = knobs(gemm(2048, 2048, 2048, DType::F16, DType::F16));
  EXPECT_GE(half["block_m"].get<int>() * half["block_n"].get<int>(), 64 * 128) << half;
  EXPECT_GE(half["stages"].get<int>(), 2) << half;
  // Few results and many reduced points: parts.
  EXPECT_GT(knobs(gemm(64, 64, 16384)).value("split_k", 1), 1);
}

}  // namespace
}  // namespace nf::test
