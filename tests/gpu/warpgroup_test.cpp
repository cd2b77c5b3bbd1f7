// SPDX-License-Identifier: Apache-2.0
// Matrix units of four warps, run on the loop interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "core/schedule/fragment.h"
#include "core/schedule/loop_interpreter.h"
#include "core/schedule/lower.h"
#include "tests/gpu/gpu_cases.h"

namespace nf::test {
namespace {

using Kind = loop::Statement::Kind;

// A[m, k] * B[k, n], either of them turned.
Program product(std::int64_t m, std::int64_t n, std::int64_t k, std::array<DType, 2> types, bool turnLeft, bool turnRight,
                bool epilogue) {
  Builder b;
  const TensorId x = b.input("A", turnLeft ? std::vector{k, m} : std::vector{m, k}, types[0]);
  const TensorId y = b.input("B", turnRight ? std::vector{n, k} : std::vector{k, n}, types[1]);
  const TensorId c = b.op("C", {m, n}, {k}, Reducer::Sum, [&](const auto& v) {
    return b.p.binary(ScalarOp::Mul, turnLeft ? b.at(x, {v[2], v[0]}) : b.at(x, {v[0], v[2]}),
                      turnRight ? b.at(y, {v[1], v[2]}) : b.at(y, {v[2], v[1]}));
  });
  b.output(epilogue ? b.op("D", {m, n}, {}, Reducer::None, [&](const auto& v) { return b.p.unary(ScalarOp::Relu, b.at(c, v)); })
                    : c);
  return b.p;
}
Program product(std::int64_t m, std::int64_t n, std::int64_t k, DType type, bool turnLeft, bool turnRight, bool epilogue) {
  return product(m, n, k, {type, type}, turnLeft, turnRight, epilogue);
}

Schedule tile(int blockM, int blockN, int stages, int pipeline) {
  nlohmann::json knobs{{"block_m", blockM},      {"block_n", blockN}, {"block_k", 64},     {"thread_m", 2},
                       {"thread_n", blockN / 4}, {"stages", stages},  {"matrix", "wgmma"}, {"pipeline", pipeline}};
  return {"contraction", std::make_shared<const nlohmann::json>(std::move(knobs))};
}

// rounded: the operands are in f32.
Schedule tf32Tile(int blockM, int blockN, int stages, int pipeline, bool rounded) {
  nlohmann::json knobs = *tile(blockM, blockN, stages, pipeline).knobs;
  knobs["block_k"] = 32;
  if (rounded) knobs["precision"] = "tf32";
  return {"contraction", std::make_shared<const nlohmann::json>(std::move(knobs))};
}

std::string compared(const Program& p, const Schedule& schedule, std::mt19937_64& rng) {
  const TensorValues inputs = randomInputs(p, rng);
  const auto reference = ReferenceProgram::prepare(p);
  if (!reference) return reference.error().message;
  return compareLoops(p, schedule, gpuTarget("sm_90"), inputs, reference->run(inputs, 7, 3, {}), {});
}

TEST(GpuWarpgroup, RandomContractionsEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  const Target target = gpuTarget("sm_90");
  const auto extent = [&](std::uint64_t most) {
    return rng() % 2 == 0 ? 8 * static_cast<std::int64_t>(2 + rng() % (most / 8)) : static_cast<std::int64_t>(9 + rng() % most);
  };
  std::set<int> pipelines;
  for (int round = 0; round < 12; ++round) {
    const auto half = [&] { return rng() % 2 == 0 ? DType::F16 : DType::BF16; };
    const Program p =
        product(extent(80), extent(80), extent(180), {half(), half()}, rng() % 2 == 0, rng() % 2 == 0, rng() % 2 == 0);
    const auto space = scheduleSpace(p, target);
    ASSERT_TRUE(space.ok());
    std::optional<Schedule> schedule;
    for (int attempt = 0; attempt < 500 && !schedule; ++attempt) {
      const Schedule s = (*space)->random(rng);
      if (s.kind == "contraction" && s.knobs->value("matrix", "fma") == "wgmma" && s.knobs->value("pipeline", 2) == 2 + round % 2)
        schedule = s;
    }
    ASSERT_TRUE(schedule.has_value()) << "seed " << seed << ", round " << round;
    EXPECT_EQ(compared(p, *schedule, rng), "") << "seed " << seed << ", round " << round << "\n" << schedule->text();
  }
}

// Its units read along the reduced points alone: what lies along others is turned as it is written.
TEST(GpuWarpgroup, OperandsOfTf32LieAnyWayInMemory) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  for (const bool rounded : {false, true})
    for (const bool turnLeft : {false, true})
      for (const bool turnRight : {false, true}) {
        const std::array<DType, 2> types =
            rounded ? std::array{DType::F32, rng() % 2 == 0 ? DType::F32 : DType::F16} : std::array{DType::F16, DType::BF16};
        const Program p = product(72, 70 + 2 * static_cast<std::int64_t>(rng() % 4), 100, types, turnLeft, turnRight, false);
        const Schedule s = rng() % 2 == 0 ? tf32Tile(64, 64, 2, 2, rounded) : tf32Tile(128, 128, 3, 3, rounded);
        EXPECT_EQ(compared(p, s, rng), "") << "seed " << seed << "\n" << s.text();
      }
}

// 2049 takes 12 bits; tf32 makes 2050 of it, before the units have it.
TEST(GpuWarpgroup, RoundsToTf32AsSlicesAreWritten) {
  const Program p = product(64, 64, 32, DType::F32, false, true, false);
  const auto f = lower(p, tf32Tile(64, 64, 2, 2, true), gpuTarget("sm_90"));
  ASSERT_TRUE(f.ok()) << f.error().message;
  std::vector<std::vector<double>> operands{std::vector<double>(64 * 32, 2049), std::vector<double>(64 * 32, 1),
                                            std::vector<double>(64 * 64)};
  ASSERT_TRUE(loop::interpret(*f, {&operands, {}, 1, 0}));
  EXPECT_EQ(operands.back(), std::vector<double>(64 * 64, 32 * 2050));
}

// Each statement of these kinds left out, one at a time.
void expectEachNeeded(const loop::Function& f, const Program& p, const std::set<Kind>& kinds) {
  ASSERT_EQ(interpreted(f, p), "");
  std::size_t last = f.statements.size();  // behind the last slice no copies are under way
  while (f.statements[--last].kind != Kind::AsyncWait) {}
  std::set<Kind> seen;
  for (std::size_t s = 0; s < last; ++s) {
    if (!kinds.contains(f.statements[s].kind)) continue;
    seen.insert(f.statements[s].kind);
    loop::Function broken = f;
    for (loop::Statement& around : broken.statements) std::erase(around.body, loop::StmtId(s));
    EXPECT_NE(interpreted(broken, p), "") << "without statement " << s << " of\n" << loop::toText(f).text;
  }
  EXPECT_EQ(seen, kinds);
}

TEST(GpuWarpgroup, EveryBarrierFenceAndWaitIsNeeded) {
  const Program p = product(64, 64, 384, DType::F16, false, false, false);  // slices enough to come into each memory again
  for (const auto& [stages, pipeline] : std::vector<std::pair<int, int>>{{2, 2}, {3, 2}, {3, 3}, {4, 3}}) {
    const auto f = lower(p, tile(64, 64, stages, pipeline), gpuTarget("sm_90"));
    ASSERT_TRUE(f.ok()) << f.error().message;
    expectEachNeeded(
        *f, p,
        {Kind::Barrier, Kind::AsyncWait, Kind::ProxyFence, Kind::WarpgroupFence, Kind::WarpgroupCommit, Kind::WarpgroupWait});
  }
}

struct Broken {
  Program p;
  loop::Function f;
  explicit Broken(DType type = DType::F16)
      : p(product(64, 64, 128, type, false, false, false)),
        f(*lower(p, type == DType::F32 ? tf32Tile(64, 64, 2, 2, true) : tile(64, 64, 2, 2), gpuTarget("sm_90"))) {}
  loop::StmtId first(Kind kind) const {
    for (std::size_t s = 0; s < f.statements.size(); ++s)
      if (f.statements[s].kind == kind) return loop::StmtId(s);
    return {};
  }
  std::string words() const { return interpreted(f, p); }
};

TEST(GpuWarpgroup, AFenceOfTheProxyStandsBeforeTheBarrier) {
  Broken b;
  for (loop::Statement& s : b.f.statements)
    for (std::size_t i = 0; i + 1 < s.body.size(); ++i)
      if (b.f[s.body[i]].kind == Kind::ProxyFence && b.f[s.body[i + 1]].kind == Kind::Barrier) {
        std::swap(s.body[i], s.body[i + 1]);
        ++i;
      }
  EXPECT_NE(b.words().find("with no proxy fence and barrier behind its write"), std::string::npos) << b.words();
}

TEST(GpuWarpgroup, OperandsBeginWhereTheirPartsComeInOrder) {
  Broken b;
  loop::Statement& s = b.f[b.first(Kind::WarpgroupTile)];
  s.left.offset = s.left.offset + IndexExpr(64);
  EXPECT_NE(b.words().find("does not begin in the first of eight rows of left"), std::string::npos) << b.words();
}

TEST(GpuWarpgroup, WarpgroupsMustAgree) {
  Broken b;
  IndexExpr warp;
  for (std::size_t v = 0; v < b.f.vars.size(); ++v)
    if (b.f.vars[v].name == "warp") warp = IndexExpr::variable(static_cast<IndexVar>(v));
  loop::Statement& s = b.f[b.first(Kind::WarpgroupTile)];
  s.right.offset = s.right.offset + 1024 * floorMod(warp, 2);
  EXPECT_NE(b.words().find("the threads of a warpgroup name different parts of right"), std::string::npos) << b.words();
}

TEST(GpuWarpgroup, TheVerifierKnowsWhatFits) {
  const auto problem = [](const std::function<void(loop::Function&, loop::Statement&)>& change) {
    Broken b;
    change(b.f, b.f[b.first(Kind::WarpgroupTile)]);
    const auto problems = loop::verify(b.f);
    return problems.empty() ? std::string() : problems.front();
  };
  EXPECT_EQ(problem([](loop::Function&, loop::Statement&) {}), "");
  EXPECT_NE(problem([](loop::Function&, loop::Statement& s) { s.tile[1] = 60; }).find("no warpgroup has tiles of this shape"),
            std::string::npos);
  EXPECT_NE(problem([](loop::Function&, loop::Statement& s) { s.tile[1] = 256; }).find("may leave it"), std::string::npos);
  EXPECT_NE(problem([](loop::Function& f, loop::Statement& s) {
              f.buffers[s.left.buffer.value].type = DType::BF16;
            }).find("not the product of shared buffers of one type"),
            std::string::npos);
}

TEST(GpuWarpgroup, TheVerifierKnowsWhatTf32Wants) {
  const auto problem = [](const std::function<void(loop::Function&, loop::Statement&)>& change) {
    Broken b(DType::F32);
    change(b.f, b.f[b.first(Kind::WarpgroupTile)]);
    const auto problems = loop::verify(b.f);
    return problems.empty() ? std::string() : problems.front();
  };
  EXPECT_EQ(problem([](loop::Function&, loop::Statement&) {}), "");
  EXPECT_NE(problem([](loop::Function&, loop::Statement& s) { s.tile[2] = 16; }).find("no warpgroup has tiles of this shape"),
            std::string::npos);
  EXPECT_NE(problem([](loop::Function&, loop::Statement& s) {
              s.leftLies = {true, 0};
            }).find("does not lie along the reduced points"),
            std::string::npos);
  EXPECT_NE(problem([](loop::Function& f, loop::Statement& s) {
              f.buffers[s.right.buffer.value].rounded = false;
            }).find("an operand of a tile on tf32 is not rounded to it"),
            std::string::npos);
}

// Eight rows of 128 bytes are all 1024, each part once; the order of the parts comes again after them.
TEST(GpuWarpgroup, SwizzlingExchangesThePartsOfEightRows) {
  std::set<std::int64_t> places;
  for (std::int64_t e = 0; e < 512; ++e) places.insert(loop::swizzled(DType::F16, e));
  EXPECT_EQ(places.size(), 512u);
  EXPECT_EQ(*places.rbegin(), 511);
  EXPECT_EQ(loop::swizzled(DType::F16, 0), 0);
  EXPECT_EQ(loop::swizzled(DType::F16, 64), 64 + 8);  // row 1: part 0 is where part 1 would be
  EXPECT_EQ(loop::swizzled(DType::F16, 64 * 7 + 3), 64 * 7 + 56 + 3);
  EXPECT_EQ(loop::swizzled(DType::F16, 512 + 64), 512 + 64 + 8);
  for (std::int64_t column = 0; column < 64; column += 8) {  // one part of eight rows lies in all banks
    std::set<std::int64_t> banks;
    for (std::int64_t row = 0; row < 8; ++row) banks.insert(loop::swizzled(DType::F16, 64 * row + column) * 2 % 128 / 16);
    EXPECT_EQ(banks.size(), 8u);
  }
}

TEST(GpuWarpgroup, IsForHopperAndWholeTiles) {
  const Program half = product(512, 512, 512, DType::F16, false, false, false);
  const auto why = [&](const Schedule& s, const char* architecture = "sm_90") {
    const auto checked = (*scheduleSpace(half, gpuTarget(architecture)))->check(s);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(why(tile(128, 256, 4, 3)), "");
  EXPECT_EQ(why(tile(128, 128, 4, 2)), "");
  EXPECT_EQ(why(tile(128, 128, 2, 3)), "knob pipeline of 3 levels needs 3 slices under way for wgmma");
  EXPECT_EQ(why(tile(256, 256, 4, 3)), "the results of a thread fill its registers");
  EXPECT_EQ(why(tile(128, 256, 6, 3)), "the slices of knob stages do not fit the shared memory of a block");
  EXPECT_EQ(why(tile(128, 256, 4, 3), "sm_80"), "knob thread_n cannot be 64 here; knob matrix cannot be \"wgmma\" here");
  EXPECT_EQ(why(tile(128, 64, 4, 3), "sm_80"), "knob matrix cannot be \"wgmma\" here");
  EXPECT_EQ(why(tile(128, 64, 4, 3), "sm_120"), "knob matrix cannot be \"wgmma\" here");
  const Program full = product(512, 512, 512, DType::F32, false, false, false);
  const auto whyFull = [&](const Schedule& s, const char* architecture = "sm_90") {
    const auto checked = (*scheduleSpace(full, gpuTarget(architecture)))->check(s);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(whyFull(tf32Tile(128, 128, 4, 3, true)), "");
  EXPECT_EQ(whyFull(tf32Tile(128, 128, 4, 3, false)),
            "knob matrix rounds operands in f32 to tf32, which knob precision does not allow");
  EXPECT_EQ(whyFull(tile(128, 128, 4, 3)), "knob matrix rounds operands in f32 to tf32, which knob precision does not allow");
  Schedule wide = tf32Tile(128, 128, 4, 3, true);
  nlohmann::json knobs = *wide.knobs;
  knobs["block_k"] = 64;
  wide.knobs = std::make_shared<const nlohmann::json>(knobs);
  EXPECT_EQ(whyFull(wide), "knob block_k must be 32 for wgmma on tf32");
  EXPECT_EQ(whyFull(tf32Tile(128, 64, 4, 3, true), "sm_80"), "knob matrix cannot be \"wgmma\" here");
  // From a wave of large tiles and many reduced points on it is the first choice.
  const Schedule first = (*scheduleSpace(product(4096, 4096, 4096, DType::F16, false, true, false), gpuTarget("sm_90")))->first();
  EXPECT_EQ(first.knobs->value("matrix", "fma"), "wgmma") << first.text();
  EXPECT_GE(first.knobs->at("block_m").get<int>() * first.knobs->at("block_n").get<int>(), 128 * 128) << first.text();
}

}  // namespace
}  // namespace nf::test
