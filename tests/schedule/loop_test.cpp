// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/schedule/loop_interpreter.h"
#include "core/schedule/lower.h"

namespace nf::loop {
namespace {

Program scaled(std::int64_t n) {
  Program p;
  Tensor x{.name = "X", .kind = TensorKind::Input, .shape = {n}};
  const TensorId in = p.addTensor(x);
  Operator op;
  op.name = "Y";
  op.axes = {{"i", n, {}}};
  op.outputRank = 1;
  const OriginId origin = p.sourceOrigin({SourceId(std::size_t{0}), 3, 9});
  op.body = p.binary(ScalarOp::Mul, p.load(in, {{IndexExpr::variable(0), {}}}), p.constant(2), origin);
  op.origin = origin;
  op.output = p.addTensor({.name = "Y", .shape = {n}});
  p.addOperator(op);
  p.outputs.push_back({"Y", op.output, OutputRole::Named});
  return p;
}

Target plainTarget() {
  Target t;
  t.vectorBytes = 64;
  t.vectorRegisters = 32;
  return t;
}

TEST(LoopText, GoldenElementwiseWithATail) {
  const Program p = scaled(40);
  const Target target = plainTarget();
  const auto space = scheduleSpace(p, target);
  const auto schedule = Schedule::parse(R"({"version":1,"kind":"elementwise","knobs":{"vector":"0:i","lanes":16}})");
  ASSERT_TRUE(schedule.ok());
  ASSERT_TRUE((*space)->check(*schedule).ok());
  const auto f = lower(p, *schedule, target);
  ASSERT_TRUE(f.ok());
  const LoopText text = toText(*f);
  EXPECT_EQ(text.text,
            "kernel Y(@in X: f32[40], @out Y: f32[40])\n"
            "  stage Y, 3 tasks:\n"
            "    parallel ib in 3:\n"
            "      if (1 - ib >= 0):\n"
            "        vector iv in 16:\n"
            "          Y[16*ib + iv] = (X[16*ib + iv] * 2)\n"
            "      else:\n"
            "        vector iv in 16:\n"
            "          if (39 - 16*ib - iv >= 0):\n"
            "            Y[16*ib + iv] = (X[16*ib + iv] * 2)\n");
  EXPECT_EQ(text.lineOrigins.size(), 10u);
  EXPECT_EQ(text.lineOrigins[5], std::vector<OriginId>{OriginId(std::size_t{0})});
  EXPECT_TRUE(verify(*f).empty());
}

// P is computed where it is read: the line that reads it knows the access that stood there.
TEST(LoopText, AnAccessThatIsComputedInPlaceKeepsItsLine) {
  Program p;
  const TensorId in = p.addTensor({.name = "X", .kind = TensorKind::Input, .shape = {32}});
  const auto at = [&](std::uint32_t begin) { return p.sourceOrigin({SourceId(std::size_t{0}), begin, begin + 4}); };
  const OriginId ofX = at(10), ofP = at(20), sum = at(30);
  const auto add = [&](const char* name, ExprId body) {
    Operator op;
    op.name = name;
    op.axes = {{"i", 32, {}}};
    op.outputRank = 1;
    op.body = body;
    op.output = p.addTensor({.name = name, .shape = {32}});
    p.addOperator(op);
    return op.output;
  };
  const auto load = [&](TensorId t, OriginId origin) { return p.load(t, {{IndexExpr::variable(0), {}}}, origin); };
  const TensorId made = add("P", p.binary(ScalarOp::Mul, load(in, ofX), p.constant(2)));
  const TensorId out = add("Y", p.binary(ScalarOp::Add, load(made, ofP), p.constant(1), sum));
  p.outputs.push_back({"Y", out, OutputRole::Named});
  const Target target = plainTarget();
  const auto schedule = Schedule::parse(R"({"version":1,"kind":"elementwise","knobs":{"vector":"0:i","lanes":16}})");
  ASSERT_TRUE(schedule.ok());
  const auto f = lower(p, *schedule, target);
  ASSERT_TRUE(f.ok());
  const LoopText text = toText(*f);
  std::vector<std::vector<OriginId>> mapped;
  for (const auto& line : text.lineOrigins)
    if (!line.empty()) mapped.push_back(line);
  const std::vector<OriginId> all{sum, ofP, ofX};  // what is done last first
  EXPECT_EQ(mapped, std::vector<std::vector<OriginId>>{all}) << text.text;
}

// An embedding's gradient: points of two tokens may meet, those of two features never do.
TEST(LoopText, ScatterRunsInParallelWhereItNeverMeets) {
  const auto text = [](bool shifted) {
    Program p;
    const TensorId d = p.addTensor({.name = "D", .kind = TensorKind::Input, .shape = {5, 6}});
    const TensorId rows = p.addTensor({.name = "rows", .kind = TensorKind::Input, .type = DType::I32, .shape = {5}});
    const IndexExpr n = IndexExpr::variable(0), j = IndexExpr::variable(1);
    Operator op;
    op.name = "G";
    op.kind = OperatorKind::Scatter;
    op.axes = {{"n", 5, {}}, {"j", 6, {}}};
    op.body = p.load(d, {{n, {}}, {j, {}}});
    op.scatter = {{{}, p.load(rows, {{n, {}}})}, {shifted ? j + n : j, {}}};
    op.output = p.addTensor({.name = "G", .shape = {4, 10}});
    p.addOperator(op);
    p.outputs.push_back({"G", op.output, OutputRole::Named});
    const auto f = lower(p, *Schedule::parse(R"({"version":1,"kind":"scatter","knobs":{"vector":"","lanes":1}})"), plainTarget());
    EXPECT_TRUE(f.ok()) << (f.ok() ? "" : f.error().message);
    if (!f.ok()) return std::string();
    EXPECT_TRUE(verify(*f).empty());
    return toText(*f).text;
  };
  const std::string embedding = text(false), shifted = text(true);
  EXPECT_LT(embedding.find("parallel j in 6"), embedding.find("for n in 5")) << embedding;
  EXPECT_NE(embedding.find("for n in 5"), std::string::npos) << embedding;
  EXPECT_EQ(shifted.find("parallel j"), std::string::npos) << shifted;
  EXPECT_EQ(shifted.find("parallel n"), std::string::npos) << shifted;
}

TEST(Schedule, TextRoundTripsAndRefusals) {
  const Program p = scaled(40);
  const auto space = scheduleSpace(p, plainTarget());
  const Schedule first = (*space)->first();
  EXPECT_EQ(*Schedule::parse(first.text()), first);
  EXPECT_FALSE(Schedule::parse("{").ok());
  EXPECT_FALSE(Schedule::parse(R"({"version":2,"kind":"elementwise","knobs":{}})").ok());
  const auto wrong = Schedule::parse(R"({"version":1,"kind":"elementwise","knobs":{"vector":"0:i","lanes":17}})");
  EXPECT_EQ((*space)->check(*wrong).error().message, "knob lanes cannot be 17 here");
  const auto unknown = Schedule::parse(R"({"version":1,"kind":"elementwise","knobs":{"vector":"0:i","lanes":16,"x":1}})");
  EXPECT_EQ((*space)->check(*unknown).error().message, "there is no knob x here");
  const auto misspelt = Schedule::parse(R"({"version":1,"kind":"elementwise","knobs":{"vektor":"0:i","lanes":17}})");
  EXPECT_EQ((*space)->check(*misspelt).error().message,
            "knob lanes cannot be 17 here; there is no knob vektor here, is vector meant?");
  EXPECT_FALSE(lower(p, *wrong, plainTarget()).ok());
}

TEST(Schedule, OneSeedOneTrajectory) {
  const auto space = scheduleSpace(scaled(1000), plainTarget());
  for (int run = 0; run < 2; ++run) {
    std::mt19937_64 a(5), b(5);
    for (int i = 0; i < 20; ++i) EXPECT_EQ((*space)->random(a), (*space)->random(b));
  }
  EXPECT_EQ((*space)->features((*space)->first()).size(), (*space)->features((*space)->first()).size());
}

TEST(Schedule, ALoopIsNoKernel) {
  Program p;
  Operator op;
  op.name = "L";
  op.kind = OperatorKind::Loop;
  p.loops.push_back({});
  op.loop = LoopId(std::size_t{0});
  p.addOperator(op);
  const auto space = scheduleSpace(p, plainTarget());
  ASSERT_FALSE(space.ok());
  EXPECT_EQ(space.error().message, "a loop is one kernel on CUDA devices alone: elsewhere its body's operators are kernels");
}

// A block of threads that turns its elements round through shared memory.
Function turned(bool barrier) {
  Function f;
  f.name = "turn";
  f.buffers.push_back({"X", DType::F32, 32, Scope::Global, Direction::In, 0});
  f.buffers.push_back({"Y", DType::F32, 32, Scope::Global, Direction::Out, 0});
  f.operands = 2;
  f.buffers.push_back({"S", DType::F32, 8, Scope::Shared, Direction::None, 0});
  const BufferId x(std::size_t{0}), y(std::size_t{1}), s(std::size_t{2});
  const VarId block = f.addVar("b", 4, LoopKind::Block), thread = f.addVar("t", 8, LoopKind::Thread);
  std::vector<StmtId> body{f.store({s, at(thread), {}}, f.load({x, 8 * at(block) + at(thread), {}}))};
  if (barrier) body.push_back(f.add({.kind = Statement::Kind::Barrier}));
  body.push_back(f.store({y, 8 * at(block) + at(thread), {}}, f.load({s, IndexExpr(7) - at(thread), {}})));
  if (barrier) body.push_back(f.add({.kind = Statement::Kind::Barrier}));
  f.stages.push_back({"turn", {f.forEach(block, {f.forEach(thread, body)})}});
  return f;
}

TEST(LoopInterpreter, RunsThreadsBetweenBarriers) {
  const Function f = turned(true);
  EXPECT_TRUE(verify(f).empty());
  std::vector<std::vector<double>> operands{std::vector<double>(32), std::vector<double>(32)};
  for (int i = 0; i < 32; ++i) operands[0][static_cast<std::size_t>(i)] = i;
  ASSERT_TRUE(interpret(f, {&operands, {}, 1, 0}).ok());
  for (int i = 0; i < 32; ++i) EXPECT_EQ(operands[1][static_cast<std::size_t>(i)], i / 8 * 8 + 7 - i % 8);
}

TEST(LoopInterpreter, FindsTheMissingBarrier) {
  std::vector<std::vector<double>> operands{std::vector<double>(32, 1.0), std::vector<double>(32)};
  const auto ran = interpret(turned(false), {&operands, {}, 1, 0});
  ASSERT_FALSE(ran.ok());
  EXPECT_NE(ran.error().message.find("a race on element"), std::string::npos) << ran.error().message;
}

TEST(LoopInterpreter, FindsTasksThatMeet) {
  Function f;
  f.buffers.push_back({"Y", DType::F32, 1, Scope::Global, Direction::Out, 0});
  f.operands = 1;
  const VarId t = f.addVar("t", 2, LoopKind::Parallel);
  f.stages.push_back({"s", {f.forEach(t, {f.store({BufferId(std::size_t{0}), {}, {}}, f.indexValue(at(t), DType::F32))})}});
  std::vector<std::vector<double>> operands{{0.0}};
  EXPECT_EQ(interpret(f, {&operands, {}, 1, 0}).error().message, "stage s: a race on element 0 of Y");
}

TEST(LoopVerifier, NamesWhatIsWrong) {
  const auto says = [](const Function& f, const std::string& what) {
    for (const std::string& problem : verify(f))
      if (problem.find(what) != std::string::npos) return true;
    return false;
  };
  Function base;
  base.buffers.push_back({"X", DType::F32, 8, Scope::Global, Direction::In, 0});
  base.buffers.push_back({"Y", DType::F32, 8, Scope::Global, Direction::Out, 0});
  base.operands = 2;
  const BufferId x(std::size_t{0}), y(std::size_t{1});
  {
    Function f = base;
    const VarId i = f.addVar("i", 9, LoopKind::Serial);
    f.stages.push_back({"s", {f.forEach(i, {f.store({y, at(i), {}}, f.constant(0, DType::F32))})}});
    EXPECT_TRUE(says(f, "an offset of Y may leave it"));
  }
  {
    Function f = base;
    f.stages.push_back({"s", {f.store({x, {}, {}}, f.constant(0, DType::F32))}});
    EXPECT_TRUE(says(f, "X is @in and written"));
  }
  {
    Function f = base;
    const VarId i = f.addVar("i", 8, LoopKind::Serial), t = f.addVar("t", 2, LoopKind::Parallel);
    f.stages.push_back({"s", {f.forEach(i, {f.forEach(t, {f.store({y, at(i), {}}, f.constant(0, DType::F32))})})}});
    EXPECT_TRUE(says(f, "parallel loop t is not outermost"));
  }
  {
    Function f = base;
    const VarId i = f.addVar("i", 8, LoopKind::Serial);
    f.stages.push_back({"s", {f.store({y, at(i), {}}, f.constant(0, DType::F32))}});
    EXPECT_TRUE(says(f, "used outside its loop"));
  }
  {
    Function f = base;
    f.stages.push_back({"s", {f.when(f.ge0(IndexExpr(0)), {f.add({.kind = Statement::Kind::Barrier})})}});
    EXPECT_TRUE(says(f, "a barrier stands under a condition"));
  }
}

}  // namespace
}  // namespace nf::loop
