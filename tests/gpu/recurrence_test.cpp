// SPDX-License-Identifier: Apache-2.0
// Loops as one kernel, all blocks of the grid together on the loop interpreter.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include <nlohmann/json.hpp>

#include "core/fusion/partition.h"
#include "core/ir/structural_hash.h"
#include "core/lang/compile.h"
#include "core/runtime/execution_plan.h"
#include "core/runtime/persist_loops.h"
#include "core/runtime/pipeline.h"
#include "core/runtime/schedule_check.h"
#include "core/runtime/step_program.h"
#include "core/schedule/gpu.h"
#include "core/schedule/loop_interpreter.h"
#include "core/schedule/lower.h"
#include "tests/build_loop.h"
#include "tests/gpu/gpu_cases.h"
#include "tests/recurrence_cases.h"

namespace nf::test {
namespace {

// Few multiprocessors, so that the interpreter has few blocks to run.
Target smallTarget() {
  Target t = gpuTarget();
  t.threads = 4;
  return t;
}

std::string compareOne(const Program& p, const Schedule& schedule, std::mt19937_64& rng) {
  const TensorValues inputs = randomInputs(p, rng);
  const auto reference = ReferenceProgram::prepare(p);
  if (!reference) return reference.error().message;
  const std::string result = compareLoops(p, schedule, smallTarget(), inputs, reference->run(inputs, 7, 3, {}), {});
  if (result.empty()) return result;
  const auto loops = lower(p, schedule, smallTarget());
  return result + "\n" + schedule.text() + "\n" + (loops ? loop::toText(*loops).text : loops.error().message);
}

Schedule knobs(const std::string& axis, int blocks, const std::string& hold, int lanes = 4, int rows = 2) {
  return scheduled(R"({"axis":")" + axis + R"(","blocks":)" + std::to_string(blocks) + R"(,"threads":64,"lanes":)" +
                       std::to_string(lanes) + R"(,"rows":)" + std::to_string(rows) + R"(,"hold":")" + hold + R"("})",
                   "recurrence");
}

// Several blocks, of not more threads than the interpreter is quick with.
Schedule randomBlocks(const ScheduleSpace& space, std::mt19937_64& rng) {
  for (;;) {
    Schedule s = space.random(rng);
    if ((*s.knobs)["threads"].get<int>() <= 128 && (*s.knobs)["blocks"].get<int>() > 1) return s;
  }
}

std::vector<std::size_t> gridBarriers(const loop::Function& f) {
  std::vector<std::size_t> found;
  for (std::size_t s = 0; s < f.statements.size(); ++s)
    if (f.statements[s].kind == loop::Statement::Kind::Barrier && f.statements[s].barrier == loop::BarrierScope::Grid)
      found.push_back(s);
  return found;
}

// Each taken out alone: the interpreter notices.
std::size_t everyGridBarrierIsNeeded(const Program& p, const Schedule& schedule, const std::string& name) {
  const auto lowered = lower(p, schedule, smallTarget());
  EXPECT_TRUE(lowered.ok()) << name;
  if (!lowered) return 0;
  EXPECT_EQ(interpreted(*lowered, p), "") << name << schedule.text();
  const auto barriers = gridBarriers(*lowered);
  for (const std::size_t s : barriers) {
    loop::Function broken = *lowered;
    for (loop::Statement& around : broken.statements) std::erase(around.body, loop::StmtId(s));
    EXPECT_NE(interpreted(broken, p), "") << name << schedule.text() << " without statement " << s << "\n"
                                          << loop::toText(*lowered).text;
  }
  return barriers.size();
}

TEST(Recurrence, RandomOnesEqualTheReference) {
  const std::uint64_t seed = freshSeed();
  std::size_t meet = 0;
  for (std::uint64_t n = 0; n < 12; ++n) {
    std::mt19937_64 rng(seed + n);
    const Program p = randomRecurrence(rng);
    const auto space = scheduleSpace(p, smallTarget());
    ASSERT_TRUE(space.ok()) << space.error().message << ", seed " << seed + n;
    Schedule last = (*space)->first();
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE((*space)->check(last).ok()) << last.text();
      ASSERT_EQ(compareOne(p, last, rng), "") << "seed " << seed + n;
      meet += !gridBarriers(*lower(p, last, smallTarget())).empty();
      last = i % 2 == 0 ? randomBlocks(**space, rng) : (*space)->mutate(last, rng);
    }
  }
  EXPECT_GE(meet, 2u);
}

TEST(Recurrence, EveryKnobEqualsTheReference) {
  std::mt19937_64 rng(11);
  const Program p = plainRecurrence(4, 6, 10);
  for (const char* axis : {"b", "n"})
    for (const int blocks : {1, 4})
      for (const char* hold : {"none", "shared", "registers"})
        for (const int lanes : {1, 32})
          for (const int rows : {1, 2}) {
            const Schedule s = knobs(axis, blocks, hold, lanes, rows);
            const auto legal = (*scheduleSpace(p, smallTarget()))->check(s);
            ASSERT_TRUE(legal.ok()) << legal.error().message << s.text();
            ASSERT_EQ(compareOne(p, s, rng), "");
          }
}

TEST(Recurrence, EveryBarrierOfTheGridIsNeeded) {
  const std::uint64_t seed = freshSeed();
  const Program plain = plainRecurrence(4, 3, 8);
  for (const char* hold : {"none", "shared", "registers"})
    EXPECT_EQ(everyGridBarrierIsNeeded(plain, knobs("n", 4, hold), "plain"), 2u);  // before the first step, and one a step
  std::size_t barriers = 0;
  for (std::uint64_t n = 0; n < 12; ++n) {
    std::mt19937_64 rng(seed + n);
    const Program p = randomRecurrence(rng, 3);
    const auto space = scheduleSpace(p, smallTarget());
    ASSERT_TRUE(space.ok()) << space.error().message;
    barriers += everyGridBarrierIsNeeded(p, randomBlocks(**space, rng), "seed " + std::to_string(seed + n));
  }
  EXPECT_GE(barriers, 2u);
}

// Rows of a batch need nothing of each other.
TEST(Recurrence, BlocksOfABatchNeverMeet) {
  const Program p = plainRecurrence(4, 8, 6);
  EXPECT_TRUE(gridBarriers(*lower(p, knobs("b", 4, "shared"), smallTarget())).empty());
  EXPECT_EQ(gridBarriers(*lower(p, knobs("n", 2, "shared"), smallTarget())).size(), 2u);
}

// ---------------------------------------------------------------- what the language makes

Stages stagesOf(const std::string& source, std::shared_ptr<const Target> target) {
  const auto folder = std::filesystem::path(NF_SOURCE_DIR) / "examples";
  const CompiledNotebook notebook = compileNotebook({"test.nf", folder.string(), source});
  EXPECT_TRUE(notebook.ok()) << render(notebook.diagnostics, notebook.sources);
  StageOptions options;
  options.device = deviceConstants(*target);
  options.target = target;
  auto stages = runStages(std::make_shared<const Program>(decidedProgram(notebook, 0)), options);
  EXPECT_TRUE(stages.ok()) << (stages.ok() ? "" : stages.error().message);
  return stages.ok() ? std::move(*stages) : Stages{};
}

std::string milstm(int batch, int units) {
  std::ifstream in(std::filesystem::path(NF_SOURCE_DIR) / "examples" / "milstm.nf");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string sizes = "let B = 64, H = 48";
  const std::size_t at = text.find(sizes);
  EXPECT_NE(at, std::string::npos);
  text.replace(at, sizes.size(), "let B = " + std::to_string(batch) + ", H = " + std::to_string(units));
  const std::string train = "batch = 64;";
  return text.replace(text.find(train), train.size(), "batch = " + std::to_string(batch) + ";");
}

// A net with gates, and the loop of its gradient.
TEST(Recurrence, LoopsOfATrainedNetEqualTheReference) {
  const auto target = std::make_shared<const Target>(smallTarget());
  const Stages stages = stagesOf(milstm(3, 5), target);
  ASSERT_TRUE(stages.fused);
  const Program& p = *stages.fused;
  std::mt19937_64 rng(5);
  std::size_t loops = 0, reversed = 0;
  for (std::size_t o = 0; o < p.operators.size(); ++o) {
    if (p.operators[o].kind != OperatorKind::Loop) continue;
    ++loops;
    reversed += p[p.operators[o].loop].reversed;
    const Program one = extractSubgraph(p, {OperatorId(o)}).program;
    const auto space = scheduleSpace(one, *target);
    ASSERT_TRUE(space.ok()) << space.error().message;
    EXPECT_EQ(compareOne(one, (*space)->first(), rng), "");
    for (int i = 0; i < 3; ++i) EXPECT_EQ(compareOne(one, randomBlocks(**space, rng), rng), "");
    everyGridBarrierIsNeeded(one, randomBlocks(**space, rng), p.operators[o].name);
  }
  EXPECT_GE(loops, 2u);
  EXPECT_GE(reversed, 1u);
}

TEST(Recurrence, LoopsThatPayAreOneLaunch) {
  Program p = plainRecurrence(64, 16, 256);
  p = *partition(p);
  Target target = gpuTarget("sm_90");
  const Program persistent = persistLoops(p, target);
  ASSERT_TRUE(persistent.loops.front().persistent);
  EXPECT_FALSE(isStepped(persistent, persistent.groups.front()));
  const auto plan = planExecution(persistent);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ((*plan)->launchesPerStep, 1);
  EXPECT_TRUE((*plan)->main.loops.empty());
  const auto first = (*scheduleSpace(*(*plan)->subgraphs.front().program, target))->first();
  EXPECT_EQ(first.kind, "recurrence");
  EXPECT_NE((*first.knobs)["hold"], "none") << first.text();
  EXPECT_GE((*first.knobs)["blocks"].get<int>(), 8) << first.text();

  target.backend = "cpu";
  EXPECT_FALSE(persistLoops(p, target).loops.front().persistent);
  target.backend = "cuda";
  // A kernel of its body that somebody has pinned stays one.
  p.hints.push_back({Hint::Kind::Schedule, {"next"}, R"({"kind":"elementwise","knobs":{"threads":64}})", {}});
  EXPECT_FALSE(persistLoops(p, target).loops.front().persistent);
  // What a hint asks for is done, whether it pays or not.
  Program one = *partition(plainRecurrence(1, 512, 512));
  one.hints.push_back({Hint::Kind::Schedule, {"h_last"}, R"({"kind":"recurrence","knobs":{}})", {}});
  EXPECT_TRUE(persistLoops(one, target).loops.front().persistent);
}

TEST(Recurrence, TheStepsOfATrainedNetAreOneLaunchEach) {
  const Stages stages = stagesOf(milstm(1, 256), std::make_shared<const Target>(gpuTarget("sm_90")));
  ASSERT_TRUE(stages.fused);
  for (const Loop& loop : stages.fused->loops) EXPECT_TRUE(loop.persistent);
  const auto plan = planExecution(*stages.fused);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_TRUE((*plan)->main.loops.empty());
}

const char* kHinted = R"(let B = 2, N = 8
input X[B, 3, N] = 1
param U[N, N] = normal(0, 0.1)
const h[B, N] = zeros()
for t in 0..3 { h[b, n] = tanh((sum[k] U[n, k] * h[b, k]) + X[b, t, n]) }
show h
hint schedule h { kind = recurrence; axis = n; blocks = 4; threads = 64; lanes = 4; rows = 1; hold = shared }
)";

TEST(Recurrence, AHintNamesWhatTheLoopHandsOn) {
  const auto target = std::make_shared<const Target>(smallTarget());
  StageOptions options;
  options.device = deviceConstants(*target);
  options.target = target;
  const Stages stages = stagesOf(kHinted, target);
  ASSERT_TRUE(stages.fused);
  ASSERT_EQ(stages.fused->loops.size(), 1u);
  EXPECT_TRUE(stages.fused->loops.front().persistent);
  EXPECT_TRUE(checkPins(stages, options, *target).diagnostics.empty());

  // What is no legal schedule is told; on a device without such kernels the hint is set aside.
  std::string wrong = kHinted;
  wrong.replace(wrong.find("blocks = 4"), 10, "blocks = 9");
  const PinFindings illegal = checkPins(stagesOf(wrong, target), options, *target);
  ASSERT_EQ(illegal.diagnostics.size(), 1u);
  EXPECT_EQ(illegal.diagnostics.front().severity, Severity::Error);
  EXPECT_NE(illegal.diagnostics.front().message.find("knob blocks cannot be 9 here"), std::string::npos)
      << illegal.diagnostics.front().message;

  Target cpu = smallTarget();
  cpu.backend = "cpu";
  options.target = std::make_shared<const Target>(cpu);
  const Stages elsewhere = stagesOf(kHinted, options.target);
  ASSERT_TRUE(elsewhere.fused);
  EXPECT_FALSE(elsewhere.fused->loops.front().persistent);
  const PinFindings aside = checkPins(elsewhere, options, cpu);
  ASSERT_EQ(aside.diagnostics.size(), 1u);
  EXPECT_EQ(aside.diagnostics.front().severity, Severity::Warning);
  EXPECT_EQ(aside.setAside.size(), 1u);
}

// ---------------------------------------------------------------- refusals

std::string refusal(const Program& p) {
  const auto space = scheduleSpace(p, smallTarget());
  return space.ok() ? "" : space.error().message;
}

Program withBody(const std::function<TensorId(Build&, TensorId)>& make) {
  Build b;
  const TensorId h0 = b.tensor("h", {4});
  BuildLoop l(b, 3);
  const TensorId h = l.carried(h0);
  l.carry(h0, h, make(l.body, h));
  l.close("steps");
  return extractSubgraph(b.p, {OperatorId(std::size_t{0})}).program;
}

TEST(Recurrence, SaysWhyALoopIsNoKernel) {
  const std::string begin = "the loop steps is not one kernel: ";
  EXPECT_EQ(refusal(withBody([](Build& s, TensorId h) {
              return s.scatter("S", {{"i", 4}}, {4}, {{floorDiv(var(0), 2), {}}}, s.load(h, {var(0)}));
            })),
            begin + "operator S of its body is a scatter");
  EXPECT_EQ(refusal(withBody([](Build& s, TensorId h) {
              const TensorId at = s.op("A", {{"i", 4}}, 0, Reducer::ArgMax, s.load(h, {var(0)}), DType::I32);
              return s.op("Y", {{"i", 4}}, 1, Reducer::None, s.p.cast(DType::F32, s.load(at, {})));
            })),
            begin + "operator A of its body asks for the place of a maximum or minimum");
  EXPECT_EQ(refusal(withBody([](Build& s, TensorId h) {
              const ExprId at = s.p.cast(DType::I32, s.load(h, {var(0)}));
              return s.op("Y", {{"i", 4}}, 1, Reducer::None, s.p.load(h, {{{}, at}}));
            })),
            begin + "operator Y of its body reads h_before at a place that depends on data");
  EXPECT_EQ(refusal(withBody([](Build& s, TensorId) {
              return s.op("Y", {{"i", 4}}, 1, Reducer::None, s.p.indexValue(var(0), DType::F32));
            })),
            begin + "no step reads what another made, so its operators run over all steps at once");
  Target cpu = smallTarget();
  cpu.backend = "cpu";
  EXPECT_EQ(scheduleSpace(plainRecurrence(2, 2, 2), cpu).error().message,
            "a loop is one kernel on CUDA devices alone: elsewhere its body's operators are kernels");
}

TEST(Recurrence, KnobsRefuseByName) {
  const Program p = plainRecurrence(4, 8, 512);
  const auto why = [&](const Schedule& s) { return (*scheduleSpace(p, smallTarget()))->check(s).error().message; };
  EXPECT_EQ(why(knobs("n", 4, "shared")), "knob hold keeps more than the 163 KB of shared memory that a block has");
  EXPECT_EQ(why(knobs("n", 4, "registers")), "knob hold keeps more weights than the registers of a thread have place for");
  // As many blocks as can be there at once, and no more.
  EXPECT_EQ(why(knobs("n", 8, "none")), "knob blocks cannot be 8 here");
}

std::int64_t sharedOf(const loop::Function& f) {
  std::int64_t bytes = 0;
  for (const loop::Buffer& b : f.buffers)
    if (b.scope == loop::Scope::Shared)
      bytes += (b.elements * bytesOf(b.type) + loop::kSharedAlignment - 1) / loop::kSharedAlignment * loop::kSharedAlignment;
  return bytes;
}

TEST(Recurrence, WeightsBeyond48KilobytesStayInSharedMemory) {
  std::mt19937_64 rng(3);
  const Program p = plainRecurrence(3, 2, 160);  // each of two blocks holds 80 x 160 numbers
  const Schedule s = knobs("n", 2, "shared", 4, 1);
  ASSERT_TRUE((*scheduleSpace(p, smallTarget()))->check(s).ok());
  const auto lowered = lower(p, s, smallTarget());
  ASSERT_TRUE(lowered.ok());
  EXPECT_GE(sharedOf(*lowered), 80 * 160 * 4);
  EXPECT_GT(sharedOf(*lowered), 48 << 10);
  EXPECT_EQ(compareOne(p, s, rng), "");
}

// As much as the device gives a block, and no more: weights of `units` x `units` numbers in one block.
TEST(Recurrence, WhatADeviceGivesABlockIsTheLimitOfItsWeights) {
  for (const auto& [architecture, units] :
       {std::pair("sm_75", 128), std::pair("sm_80", 204), std::pair("sm_86", 159), std::pair("sm_90", 241)}) {
    const Target target = gpuTarget(architecture);
    const auto check = [&](std::int64_t extent) {
      return (*scheduleSpace(plainRecurrence(1, 1, extent), target))->check(knobs("n", 1, "shared", 1, 1)).ok();
    };
    EXPECT_TRUE(check(units)) << architecture;
    EXPECT_FALSE(check(units + 1)) << architecture;
  }
}

// Values that stay within a block take what its weights leave.
TEST(Recurrence, NoScheduleAsksForMoreSharedMemoryThanABlockHas) {
  const std::uint64_t seed = freshSeed();
  std::mt19937_64 rng(seed);
  for (const char* architecture : {"sm_75", "sm_80", "sm_90"}) {
    const Target target = gpuTarget(architecture);
    for (const std::int64_t batch : {1, 64}) {
      const Program p = plainRecurrence(2, batch, 256);
      const auto space = scheduleSpace(p, target);
      ASSERT_TRUE(space.ok()) << space.error().message;
      for (int i = 0; i < 24; ++i) {
        const Schedule s = i == 0 ? (*space)->first() : (*space)->random(rng);
        const auto lowered = lower(p, s, target);
        ASSERT_TRUE(lowered.ok()) << lowered.error().message << s.text();
        EXPECT_LE(sharedOf(*lowered), loop::sharedBytesOfBlock(target)) << "seed " << seed << " " << architecture << s.text();
      }
    }
  }
}

// ---------------------------------------------------------------- what the interpreter and the verifier must not let pass

// Each block writes its element and reads its neighbour's.
loop::Function neighbours(bool meet, bool condition = false) {
  loop::Function f;
  f.buffers.push_back({"Y", DType::F32, 4, loop::Scope::Global, loop::Direction::InOut, 0});
  f.buffers.push_back({"Z", DType::F32, 4, loop::Scope::Global, loop::Direction::Out, 0});
  f.operands = 2;
  const loop::BufferId y(std::size_t{0}), z(std::size_t{1});
  const auto block = f.addVar("b", 4, loop::LoopKind::Block), thread = f.addVar("t", 1, loop::LoopKind::Thread);
  std::vector<loop::StmtId> body{f.store({y, loop::at(block), {}}, f.indexValue(loop::at(block), DType::F32))};
  const auto barrier = f.barrier({}, loop::BarrierScope::Grid);
  if (meet) body.push_back(condition ? f.when(f.ge0(loop::at(block)), {barrier}) : barrier);
  else body.push_back(f.barrier());
  body.push_back(f.store({z, loop::at(block), {}}, f.load({y, IndexExpr(3) - loop::at(block), {}})));
  f.stages.push_back({"Y", {f.forEach(block, {f.forEach(thread, std::move(body))})}});
  return f;
}

std::string runOf(const loop::Function& f) {
  std::vector<std::vector<double>> operands{std::vector<double>(4), std::vector<double>(4)};
  const auto ran = loop::interpret(f, {&operands, {}, 1, 0});
  if (!ran) return ran.error().message;
  for (std::size_t i = 0; i < 4; ++i)
    if (operands[1][i] != static_cast<double>(3 - i)) return "wrong";
  return {};
}

TEST(Recurrence, BlocksThatMeetSeeWhatOthersWrote) {
  EXPECT_TRUE(loop::verify(neighbours(true)).empty());
  EXPECT_EQ(runOf(neighbours(true)), "");
  EXPECT_NE(runOf(neighbours(false)), "");
  const auto problems = loop::verify(neighbours(true, true));
  ASSERT_FALSE(problems.empty());
  EXPECT_NE(problems.front().find("under a condition"), std::string::npos) << problems.front();
}

TEST(Recurrence, SharedMemoryStaysWithItsBlockAcrossABarrierOfTheGrid) {
  loop::Function f;
  f.buffers.push_back({"Y", DType::F32, 4, loop::Scope::Global, loop::Direction::Out, 0});
  f.operands = 1;
  const auto shared = f.addShared("s", DType::F32, 1);
  const auto block = f.addVar("b", 4, loop::LoopKind::Block), thread = f.addVar("t", 1, loop::LoopKind::Thread);
  const auto own = f.store({shared, IndexExpr(0), {}}, f.indexValue(loop::at(block), DType::F32));
  const auto out = f.store({loop::BufferId(std::size_t{0}), loop::at(block), {}}, f.load({shared, IndexExpr(0), {}}));
  f.stages.push_back({"Y", {f.forEach(block, {f.forEach(thread, {own, f.barrier({}, loop::BarrierScope::Grid), out})})}});
  std::vector<std::vector<double>> operands{std::vector<double>(4)};
  const auto ran = loop::interpret(f, {&operands, {}, 1, 0});
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(operands[0], (std::vector<double>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace nf::test
