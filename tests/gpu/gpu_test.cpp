// SPDX-License-Identifier: Apache-2.0
// Schedules for a GPU, run thread by thread on the loop interpreter: results, races, bounds.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/lang/compile.h"
#include "core/runtime/execution_plan.h"
#include "core/runtime/pipeline.h"
#include "core/schedule/loop_interpreter.h"
#include "core/schedule/lower.h"
#include "tests/gpu/gpu_cases.h"
#include "tests/kernel_cases.h"
#include "tests/random_program.h"

namespace nf::test {
namespace {

std::string compareGpu(const Program& p, const Schedule& schedule, std::mt19937_64& rng, std::vector<std::int64_t> counters = {},
                       int integerLimit = 4) {
  const TensorValues inputs = randomInputs(p, rng, integerLimit);
  const auto reference = ReferenceProgram::prepare(p);
  if (!reference) return reference.error().message;
  const auto want = reference->run(inputs, 7, 3, counters);
  std::string result = compareLoops(p, schedule, gpuTarget(), inputs, want, counters);
  if (result.empty()) return result;
  const auto loops = lower(p, schedule, gpuTarget());
  return result + "\n" + schedule.text() + "\n" + (loops ? loop::toText(*loops).text : loops.error().message);
}

// The first schedule, then random ones, mutated ones and children.
std::string compareSome(const Program& p, std::mt19937_64& rng, int schedules, int integerLimit = 4) {
  auto space = scheduleSpace(p, gpuTarget());
  if (!space) return space.error().message;
  Schedule last = (*space)->first();
  std::string result = compareGpu(p, last, rng, {}, integerLimit);
  for (int i = 0; i < schedules && result.empty(); ++i) {
    const Schedule s = i % 3 == 0   ? (*space)->random(rng)
                       : i % 3 == 1 ? (*space)->mutate(last, rng)
                                    : (*space)->cross(last, (*space)->random(rng), rng);
    const auto legal = (*space)->check(s);
    if (!legal) return legal.error().message + "\n" + s.text();
    result = compareGpu(p, s, rng, {}, integerLimit);
    last = s;
  }
  return result;
}

TEST(Gpu, NestsEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  for (const Case& c : nests()) EXPECT_EQ(compareSome(c.program, rng, 6), "") << c.name << ", seed " << seed;
}

TEST(Gpu, ContractionsEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  std::size_t tiled = 0;
  for (const Case& c : contractions()) {
    tiled += (*scheduleSpace(c.program, gpuTarget()))->first().kind == "contraction";
    EXPECT_EQ(compareSome(c.program, rng, 2), "") << c.name << ", seed " << seed;
  }
  EXPECT_GE(tiled, contractions().size() / 2);
}

// Every kernel of random programs, through the whole chain of passes.
TEST(Gpu, RandomProgramsEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  for (std::uint64_t n = 0; n < 12; ++n) {
    RandomProgram random(seed + n);
    std::mt19937_64 rng(seed + n);
    const Build b = random.make();
    StageOptions options;
    options.device = deviceConstants(gpuTarget());
    const auto stages = runStages(std::make_shared<const Program>(b.p), options);
    ASSERT_TRUE(stages.ok()) << stages.error().message;
    const auto plan = planExecution(*stages->fused);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    for (const PlannedSubgraph& s : (*plan)->subgraphs) {
      auto space = scheduleSpace(*s.program, gpuTarget());
      ASSERT_TRUE(space.ok()) << space.error().message;
      for (const Schedule& schedule : {(*space)->first(), (*space)->random(rng)})
        EXPECT_EQ(compareGpu(*s.program, schedule, rng, {1, 0}, 3), "") << s.name << ", seed " << seed + n;
    }
  }
}

// ---------------------------------------------------------------- what the interpreter must not let pass

TEST(Gpu, EveryBarrierAndWaitOfAPipelineIsNeeded) {
  const Program p = gemm(32, 32, 64);
  for (const int stages : {1, 2, 3})
    everyBarrierIsNeeded(
        p, R"({"block_m":32,"block_n":32,"block_k":8,"thread_m":4,"thread_n":4,"stages":)" + std::to_string(stages) + "}");
}

TEST(Gpu, BlocksThatMeetAreARace) {
  loop::Function f;
  f.buffers.push_back({"Y", DType::F32, 4, loop::Scope::Global, loop::Direction::Out, 0});
  f.operands = 1;
  const auto block = f.addVar("b", 2, loop::LoopKind::Block), thread = f.addVar("t", 4, loop::LoopKind::Thread);
  const auto store = f.store({loop::BufferId(std::size_t{0}), loop::at(thread), {}}, f.constant(1, DType::F32));
  f.stages.push_back({"Y", {f.forEach(block, {f.forEach(thread, {store})})}});
  std::vector<std::vector<double>> operands{std::vector<double>(4)};
  const auto ran = loop::interpret(f, {&operands, {}, 1, 0});
  ASSERT_FALSE(ran.ok());
  EXPECT_NE(ran.error().message.find("a race on element 0 of Y"), std::string::npos) << ran.error().message;
}

TEST(Gpu, SharedMemoryIsOfOneBlock) {
  loop::Function f;
  f.buffers.push_back({"Y", DType::F32, 2, loop::Scope::Global, loop::Direction::Out, 0});
  f.operands = 1;
  const auto shared = f.addShared("s", DType::F32, 1);
  const auto block = f.addVar("b", 2, loop::LoopKind::Block), thread = f.addVar("t", 1, loop::LoopKind::Thread);
  const auto first = f.when(f.eq0(loop::at(block)), {f.store({shared, IndexExpr(0), {}}, f.constant(1, DType::F32))});
  const auto second = f.store({loop::BufferId(std::size_t{0}), loop::at(block), {}}, f.load({shared, IndexExpr(0), {}}));
  f.stages.push_back({"Y", {f.forEach(block, {f.forEach(thread, {first, second})})}});
  std::vector<std::vector<double>> operands{std::vector<double>(2)};
  const auto ran = loop::interpret(f, {&operands, {}, 1, 0});
  ASSERT_FALSE(ran.ok());
  EXPECT_NE(ran.error().message.find("read before it is written"), std::string::npos) << ran.error().message;
}

TEST(Gpu, ThreadsExchangeBeforeAnyTakes) {
  loop::Function f;
  f.buffers.push_back({"Y", DType::F32, 32, loop::Scope::Global, loop::Direction::Out, 0});
  f.operands = 1;
  const auto value = f.addLocal("v", DType::F32, 1);
  const loop::Place own{value, IndexExpr(0), {}};
  const auto thread = f.addVar("t", 32, loop::LoopKind::Thread), block = f.addVar("b", 1, loop::LoopKind::Block);
  std::vector<loop::StmtId> body{f.store(own, f.indexValue(loop::at(thread), DType::F32)), f.exchange(own, own, 5),
                                 f.store({loop::BufferId(std::size_t{0}), loop::at(thread), {}}, f.load(own))};
  f.stages.push_back({"Y", {f.forEach(block, {f.forEach(thread, std::move(body))})}});
  EXPECT_TRUE(loop::verify(f).empty());
  std::vector<std::vector<double>> operands{std::vector<double>(32)};
  ASSERT_TRUE(loop::interpret(f, {&operands, {}, 1, 0}).ok());
  for (std::size_t t = 0; t < 32; ++t) EXPECT_EQ(operands[0][t], static_cast<double>(t ^ 5));
}

TEST(Gpu, KnobsRefuseByName) {
  const Program p = gemm(64, 64, 64);
  const auto space = scheduleSpace(p, gpuTarget());
  const auto why = [&](const std::string& knobs) { return (*space)->check(scheduled(knobs)).error().message; };
  EXPECT_EQ(why(R"({"block_m":128,"block_n":256,"block_k":32,"thread_m":8,"thread_n":8,"stages":4})"),
            "the slices of knob stages do not fit the shared memory of a block");
  EXPECT_EQ(why(R"({"block_m":16,"block_n":16,"block_k":8,"thread_m":8,"thread_n":8,"stages":1})"),
            "these tiles make no block of 32 to 512 threads in whole warps");
  EXPECT_EQ(why(R"({"block_m":64,"block_n":64,"block_k":32,"thread_m":4,"thread_n":4,"stages":1,"split_k":4})"),
            "knob split_k has more parts than there are slices");
}

}  // namespace
}  // namespace nf::test
