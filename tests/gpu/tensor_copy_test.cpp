// SPDX-License-Identifier: Apache-2.0
// Slices that the copy engine brings, run on the loop interpreter.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include <nlohmann/json.hpp>

#include "core/schedule/arrival_order.h"
#include "core/schedule/loop_interpreter.h"
#include "core/schedule/lower.h"
#include "tests/gpu/gpu_cases.h"

namespace nf::test {
namespace {

using Kind = loop::Statement::Kind;

Schedule boxes(int blockM, int blockN, int stages, int pipeline, nlohmann::json more = nlohmann::json::object()) {
  nlohmann::json knobs{{"block_m", blockM}, {"block_n", blockN}, {"block_k", 64},   {"thread_m", 2},       {"thread_n", blockN / 4},
                       {"stages", stages},  {"matrix", "wgmma"}, {"copies", "tma"}, {"pipeline", pipeline}};
  knobs.update(more);
  return {"contraction", std::make_shared<const nlohmann::json>(std::move(knobs))};
}

const nlohmann::json kTf32{{"block_k", 32}, {"precision", "tf32"}};

struct Shape {
  std::int64_t batch = 1, m = 64, n = 64, k = 128;
  bool turnLeft = false, turnRight = false;  // A[k, m], B[n, k]
};

// C[s, m, n] = sum over k of A[s, m, k] * B[s, k, n], both in `type`.
Program product(const Shape& shape, DType type, bool epilogue = false) {
  Builder b;
  const auto [s, m, n, k, turnLeft, turnRight] = shape;
  const TensorId x = b.input("A", turnLeft ? std::vector{s, k, m} : std::vector{s, m, k}, type);
  const TensorId y = b.input("B", turnRight ? std::vector{s, n, k} : std::vector{s, k, n}, type);
  const TensorId c = b.op("C", {s, m, n}, {k}, Reducer::Sum, [&](const auto& v) {
    return b.p.binary(ScalarOp::Mul, shape.turnLeft ? b.at(x, {v[0], v[3], v[1]}) : b.at(x, {v[0], v[1], v[3]}),
                      shape.turnRight ? b.at(y, {v[0], v[2], v[3]}) : b.at(y, {v[0], v[3], v[2]}));
  });
  b.output(epilogue ? b.op("D", {s, m, n}, {}, Reducer::None, [&](const auto& v) { return b.p.unary(ScalarOp::Relu, b.at(c, v)); })
                    : c);
  return b.p;
}

std::string compared(const Program& p, const Schedule& schedule, std::mt19937_64& rng) {
  const TensorValues inputs = randomInputs(p, rng);
  const auto reference = ReferenceProgram::prepare(p);
  if (!reference) return reference.error().message;
  const std::string wrong = compareLoops(p, schedule, gpuTarget("sm_90"), inputs, reference->run(inputs, 7, 3, {}), {});
  return wrong.empty() ? wrong : wrong + "\n" + schedule.text();
}

std::string why(const Program& p, const Schedule& s, const char* architecture = "sm_90") {
  const auto checked = (*scheduleSpace(p, gpuTarget(architecture)))->check(s);
  return checked ? std::string() : checked.error().message;
}

// Extents whose rows begin at 16 bytes and end nowhere near a block.
TEST(GpuTensorCopies, RandomContractionsEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  const auto extent = [&](std::uint64_t most) { return 8 * static_cast<std::int64_t>(2 + rng() % (most / 8)); };
  for (int round = 0; round < 10; ++round) {
    const bool tf32 = round % 5 == 4;
    Shape shape{static_cast<std::int64_t>(1 + rng() % 3), extent(90), extent(90), extent(200), rng() % 2 == 0, rng() % 2 == 0};
    if (tf32) {
      shape.turnLeft = false;
      shape.turnRight = true;
    }
    const DType type = tf32 ? DType::F32 : rng() % 2 == 0 ? DType::F16 : DType::BF16;
    const Program p = product(shape, type, rng() % 2 == 0);
    const int stages = 1 + static_cast<int>(rng() % 4), blockM = rng() % 2 == 0 ? 64 : 128, blockN = rng() % 2 == 0 ? 64 : 128;
    const Schedule s = boxes(blockM, blockN, stages == 1 || stages == 4 ? stages : 2 + round % 2,
                             stages == 4 || (stages == 3 && round % 2 == 1) ? 3 : 2, tf32 ? kTf32 : nlohmann::json::object());
    ASSERT_EQ(why(p, s), "") << "seed " << seed << ", round " << round << s.text();
    EXPECT_EQ(compared(p, s, rng), "") << "seed " << seed << ", round " << round;
  }
}

TEST(GpuTensorCopies, SearchesTakeThem) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  const Program p = product({1, 72, 80, 200, false, true}, DType::F16);
  const auto space = scheduleSpace(p, gpuTarget("sm_90"));
  ASSERT_TRUE(space.ok());
  EXPECT_EQ((*space)->first().knobs->value("copies", "async"), "async") << "until it has been measured";
  int found = 0;
  for (int attempt = 0; attempt < 2000 && found < 4; ++attempt) {
    const Schedule s = (*space)->random(rng);
    if (s.kind != "contraction" || s.knobs->value("copies", "async") != "tma") continue;
    ++found;
    EXPECT_EQ(compared(p, s, rng), "") << "seed " << seed;
  }
  EXPECT_EQ(found, 4);
}

TEST(GpuTensorCopies, SplitResultsAndAxesThatMakeABoxEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  EXPECT_EQ(compared(product({1, 72, 64, 320, false, false}, DType::F16), boxes(64, 64, 2, 2, {{"split_k", 2}}), rng), "") << seed;
  // A[p, s, q, k]: 64 rows are two of p with all 32 of q, and s stands between them in memory.
  Builder b;
  const TensorId x = b.input("A", {3, 2, 32, 72}, DType::BF16), y = b.input("B", {2, 72, 40}, DType::BF16);
  b.output(b.op("C", {2, 3, 32, 40}, {72}, Reducer::Sum, [&](const auto& v) {
    return b.p.binary(ScalarOp::Mul, b.at(x, {v[1], v[0], v[2], v[4]}), b.at(y, {v[0], v[4], v[3]}));
  }));
  const Schedule s = boxes(64, 64, 2, 2);
  ASSERT_EQ(why(b.p, s), "");
  EXPECT_EQ(compared(b.p, s, rng), "") << seed;
}

// Each statement of these kinds left out, one at a time.
TEST(GpuTensorCopies, EveryArrivalCopyBarrierAndFenceIsNeeded) {
  const Program p = product({1, 64, 64, 384, false, false}, DType::F16);  // slices enough to come into each memory again
  const std::set<Kind> kinds{Kind::Barrier,        Kind::ProxyFence,      Kind::TensorCopy,
                             Kind::ArrivalInit,    Kind::ArrivalExpect,   Kind::ArrivalWait,
                             Kind::WarpgroupFence, Kind::WarpgroupCommit, Kind::WarpgroupWait};
  for (const auto& [stages, pipeline] : std::vector<std::pair<int, int>>{{1, 2}, {2, 2}, {3, 3}}) {
    const auto f = lower(p, boxes(64, 64, stages, pipeline), gpuTarget("sm_90"));
    ASSERT_TRUE(f.ok()) << f.error().message;
    ASSERT_EQ(interpreted(*f, p), "");
    std::set<Kind> seen;
    for (std::size_t s = 0; s < f->statements.size(); ++s) {
      if (!kinds.contains(f->statements[s].kind)) continue;
      seen.insert(f->statements[s].kind);
      loop::Function broken = *f;
      for (loop::Statement& around : broken.statements) std::erase(around.body, loop::StmtId(s));
      EXPECT_NE(interpreted(broken, p), "") << "without statement " << s << " of\n" << loop::toText(*f).text;
    }
    EXPECT_EQ(seen, kinds);
  }
}

struct Broken {
  Program p;
  loop::Function f;
  explicit Broken(DType type = DType::F16)
      : p(product({1, 64, 64, 256, false, true}, type)),
        f(*lower(p, boxes(64, 64, 2, 2, type == DType::F32 ? kTf32 : nlohmann::json::object()), gpuTarget("sm_90"))) {}
  loop::Statement& first(Kind kind) {
    for (loop::Statement& s : f.statements)
      if (s.kind == kind) return s;
    std::abort();
  }
  std::string words() const { return interpreted(f, p); }
};

TEST(GpuTensorCopies, BytesAreThereWhenTheRightPhaseHasEnded) {
  Broken b;
  loop::Statement& wait = b.first(Kind::ArrivalWait);
  wait.parity = IndexExpr(1) - wait.parity;
  EXPECT_NE(b.words().find("is read before it is written"), std::string::npos) << b.words();
}

TEST(GpuTensorCopies, AnArrivalCountsItsBytes) {
  for (const std::int64_t more : {16, -16}) {
    Broken b;
    b.first(Kind::ArrivalExpect).elements += more;
    EXPECT_NE(b.words().find(more > 0 ? "that never ends" : "does not expect"), std::string::npos) << b.words();
  }
}

TEST(GpuTensorCopies, BoxesBeginAtTheFirstOfEightRows) {
  Broken b;
  loop::Statement& copy = b.first(Kind::TensorCopy);
  copy.target.offset = copy.target.offset + IndexExpr(64);
  EXPECT_NE(b.words().find("does not begin at the first of eight rows of left"), std::string::npos) << b.words();
}

TEST(GpuTensorCopies, TwoCopiesDoNotMeet) {
  Broken b;
  std::size_t copies = 0;
  for (loop::Statement& s : b.f.statements)
    if (s.kind == Kind::TensorCopy && ++copies == 2) s.target = b.first(Kind::TensorCopy).target;  // B where A comes
  EXPECT_NE(b.words().find("is on its way by two tensor copies"), std::string::npos) << b.words();
}

// Who has not waited does not see what another has waited for.
TEST(GpuTensorCopies, EachThreadWaitsForItself) {
  Broken b;
  loop::ArrivalOrder order(b.f);
  order.begin(2);
  const loop::Place arrival = b.first(Kind::ArrivalInit).target;
  const loop::BufferId left = b.first(Kind::TensorCopy).target.buffer;
  EXPECT_EQ(order.init(arrival, 0, 0, 1), "");
  order.proxyFence(0);
  EXPECT_EQ(order.expect(arrival, 0, 2, 0, 1), "");
  EXPECT_EQ(order.copy(arrival, 0, 2, {{left, 5, 3.0}}, 0, 1), "");
  std::vector<loop::ArrivalOrder::Landing> landed;
  EXPECT_NE(order.wait(arrival, 0, 0, 1, 1, landed), "") << "no barrier behind the beginning";
  EXPECT_EQ(order.wait(arrival, 0, 0, 0, 2, landed), "");
  ASSERT_EQ(landed.size(), 1u);
  EXPECT_EQ(landed[0].value, 3.0);
  EXPECT_EQ(order.read(left, 5, 0, 1), "");
  EXPECT_NE(order.read(left, 5, 1, 1), "");
  EXPECT_NE(order.read(left, 5, 0, 2), "");
  EXPECT_EQ(order.wait(arrival, 0, 0, 1, 2, landed), "");
  EXPECT_EQ(order.read(left, 5, 0, 2), "");
  EXPECT_EQ(order.end(), "");
}

TEST(GpuTensorCopies, TheVerifierKnowsWhatTheEngineTakes) {
  const auto problem = [](const std::function<void(loop::Function&)>& change, DType type = DType::F16) {
    Broken b(type);
    change(b.f);
    const auto problems = loop::verify(b.f);
    return problems.empty() ? std::string() : problems.front();
  };
  const auto copyOf = [](loop::Function& f) -> loop::Statement& {
    for (loop::Statement& s : f.statements)
      if (s.kind == Kind::TensorCopy) return s;
    std::abort();
  };
  EXPECT_EQ(problem([](loop::Function&) {}), "");
  EXPECT_EQ(problem([](loop::Function&) {}, DType::F32), "");
  EXPECT_EQ(problem([](loop::Function& f) { f.maps[0].axes[1].stride += 4; }),
            "map left_map has a stride that the engine does not take");
  EXPECT_EQ(problem([](loop::Function& f) { f.maps[0].axes[1].box = 257; }),
            "map left_map has an axis or a box that the engine does not take");
  EXPECT_EQ(problem([](loop::Function& f) { f.maps[0].axes[0].box = 32; }), "map left_map has no rows of 128 bytes");
  EXPECT_EQ(problem([](loop::Function& f) { f.maps[0].axes[1].extent += 1; }), "map left_map leaves its buffer");
  EXPECT_EQ(problem([](loop::Function& f) { f.maps[0].offset = 1; }), "map left_map does not begin at a multiple of 16 bytes");
  EXPECT_NE(problem([&](loop::Function& f) { copyOf(f).coordinates.pop_back(); }).find("as its map has axes"), std::string::npos);
  EXPECT_NE(problem([](loop::Function& f) { f.maps[1].rounded = false; }, DType::F32).find("do not both round"), std::string::npos);
  EXPECT_NE(problem([&](loop::Function& f) {
              const loop::BufferId left = copyOf(f).target.buffer;
              for (loop::Statement& s : f.statements)
                if (s.kind == Kind::Store && f[s.target.buffer].scope == loop::Scope::Local) s.target = {left, IndexExpr(0), {}};
            }).find("left is filled by tensor copies and written by threads"),
            std::string::npos);
}

TEST(GpuTensorCopies, OthersAreRefusedWithTheReason) {
  const Program plain = product({1, 128, 128, 256, false, false}, DType::F16);
  EXPECT_EQ(why(plain, boxes(128, 128, 4, 3)), "");
  EXPECT_EQ(why(plain, boxes(64, 64, 2, 2), "sm_80"), "knob matrix cannot be \"wgmma\" here; knob copies cannot be \"tma\" here");
  nlohmann::json numbers{{"block_m", 64}, {"block_n", 64}, {"block_k", 16},  {"thread_m", 4},
                         {"thread_n", 4}, {"stages", 2},   {"copies", "tma"}};
  const Schedule fma{"contraction", std::make_shared<const nlohmann::json>(numbers)};
  EXPECT_EQ(why(plain, fma), "knob copies cannot be tma but for wgmma");
  EXPECT_EQ(why(plain, fma, "sm_80"), "knob copies cannot be \"tma\" here");
  EXPECT_EQ(why(product({1, 64, 64, 100, false, false}, DType::F16), boxes(64, 64, 2, 2)),
            "knob copies cannot be tma for the left operand: its rows need not begin at multiples of 16 bytes");
  EXPECT_EQ(why(product({1, 64, 64, 128, false, false}, DType::F32), boxes(64, 64, 2, 2, kTf32)),
            "knob copies cannot be tma for the right operand: its neighbours in memory are not those along the reduced points, and "
            "nothing turns tf32");
  EXPECT_EQ(why(plain, boxes(128, 256, 6, 3)), "the slices of knob stages do not fit the shared memory of a block");
  // 64 rows of q, of which there are 40, would be a part of the next p's.
  Builder cut;
  const TensorId x = cut.input("A", {4, 2, 40, 64}, DType::F16), y = cut.input("B", {2, 64, 64}, DType::F16);
  cut.output(cut.op("C", {2, 4, 40, 64}, {64}, Reducer::Sum, [&](const auto& v) {
    return cut.p.binary(ScalarOp::Mul, cut.at(x, {v[1], v[0], v[2], v[4]}), cut.at(y, {v[0], v[4], v[3]}));
  }));
  EXPECT_EQ(why(cut.p, boxes(64, 64, 2, 2)), "knob copies cannot be tma for the left operand: a slice of it is no box of its axes");
  // Rounded as it is read.
  Builder made;
  const TensorId full = made.input("A", {64, 128}), half = made.input("B", {128, 64}, DType::F16);
  made.output(made.op("C", {64, 64}, {128}, Reducer::Sum, [&](const auto& v) {
    return made.p.binary(ScalarOp::Mul, made.p.cast(DType::F16, made.at(full, {v[0], v[2]})), made.at(half, {v[2], v[1]}));
  }));
  EXPECT_EQ(why(made.p, boxes(64, 64, 2, 2)),
            "knob copies cannot be tma for the left operand: it is computed, not read from memory");
}

// What is outside a tensor is zero, whatever lies behind it.
TEST(GpuTensorCopies, NothingIsReadBehindAnAxis) {
  const Program p = product({1, 40, 24, 72, true, false}, DType::F16);
  const auto f = lower(p, boxes(64, 64, 2, 2), gpuTarget("sm_90"));
  ASSERT_TRUE(f.ok()) << f.error().message;
  ASSERT_EQ(f->maps.size(), 2u);
  EXPECT_EQ(f->maps[0].axes[0].extent, 40);
  EXPECT_EQ(f->maps[0].axes[1].extent, 72);
  std::vector<std::vector<double>> operands{std::vector<double>(40 * 72, 1), std::vector<double>(72 * 24, 1),
                                            std::vector<double>(40 * 24)};
  const auto ran = loop::interpret(*f, {&operands, {}, 1, 0});
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(operands.back(), std::vector<double>(40 * 24, 72));
}

}  // namespace
}  // namespace nf::test
