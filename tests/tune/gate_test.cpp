// SPDX-License-Identifier: Apache-2.0
#include "core/tune/gate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "core/device/reference.h"
#include "core/tune/index_ranges.h"
#include "core/tune/measure.h"
#include "core/tune/point_evaluator.h"
#include "tests/build_program.h"
#include "tests/tune/fakes.h"
#include "tests/tune/worker/fake_backend.h"

namespace nf {
namespace {

TEST(PointEvaluator, HalfPrecisionRoundTripsEveryValue) {
  for (const DType type : {DType::F16, DType::BF16})
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const auto stored = static_cast<std::uint16_t>(bits);
      const double value = readElement({type, &stored}, 0);
      std::uint16_t back = 0;
      writeElement(type, &back, 0, value);
      if (std::isnan(value)) EXPECT_TRUE(std::isnan(readElement({type, &back}, 0)));
      else ASSERT_EQ(back, stored) << value;
    }
  // Between two neighbours the nearer one, and of equally near ones the even one.
  std::uint16_t half = 0;
  writeElement(DType::F16, &half, 0, 2049);
  EXPECT_EQ(readElement({DType::F16, &half}, 0), 2048);
  writeElement(DType::F16, &half, 0, 2051);
  EXPECT_EQ(readElement({DType::F16, &half}, 0), 2052);
  writeElement(DType::F16, &half, 0, 65519);
  EXPECT_EQ(readElement({DType::F16, &half}, 0), 65504);
  writeElement(DType::F16, &half, 0, 65520);
  EXPECT_TRUE(std::isinf(readElement({DType::F16, &half}, 0)));
}

// Every point of a program equals what the interpreter gives.
void expectSameAsInterpreter(const Program& program) {
  std::mt19937_64 rng(5);
  TensorValues inputs;
  std::vector<std::vector<double>> storage(program.tensors.size());
  const auto writer = producers(program);
  auto evaluator = PointEvaluator::prepare(program);
  ASSERT_TRUE(evaluator.ok());
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    if (writer[t].valid()) continue;
    for (std::int64_t e = 0; e < program.tensors[t].elements(); ++e)
      storage[t].push_back(static_cast<double>(rng() % 1000) / 250 - 2);
    inputs.emplace(TensorId(t), TensorData{program.tensors[t].type, program.tensors[t].shape, storage[t]});
    evaluator->bind(TensorId(t), {DType::F64, storage[t].data()});
  }
  const auto all = interpret(program, inputs);
  ASSERT_TRUE(all.ok()) << all.error().message;
  for (const Output& output : program.outputs)
    for (std::int64_t e = 0; e < program[output.tensor].elements(); ++e) {
      std::int64_t work = 1 << 20;
      const auto value = evaluator->value(output.tensor, e, work);
      ASSERT_TRUE(value);
      EXPECT_DOUBLE_EQ(*value, all->at(output.tensor).values[static_cast<std::size_t>(e)]);
    }
}

TEST(PointEvaluator, AgreesWithTheInterpreter) {
  expectSameAsInterpreter(fakes::matmul(5, 7, 3));
  expectSameAsInterpreter(fakes::matmul(4, 3, 9, true));
  expectSameAsInterpreter(fakes::elementwise(33));
}

// Y[i, j] = max over r of X[(2i + r) % 7, j // 2] where i + r < 6, else -r; A = argmax along j of Y
TEST(PointEvaluator, FollowsFloorsGuardsAndArgReductions) {
  Program p;
  Tensor x;
  x.name = "X";
  x.kind = TensorKind::Input;
  x.shape = {7, 4};
  const TensorId in = p.addTensor(x);
  Tensor y;
  y.name = "Y";
  y.shape = {5, 8};
  const TensorId out = p.addTensor(y);
  const IndexExpr i = IndexExpr::variable(0), j = IndexExpr::variable(1), r = IndexExpr::variable(2);
  Operator op;
  op.name = "Y";
  op.axes = {{"i", 5, {}}, {"j", 8, {}}, {"r", 4, {}}};
  op.outputRank = 2;
  op.reducer = Reducer::Max;
  op.body = p.select(p.condGe0(IndexExpr(5) - i - r), p.load(in, {{floorMod(2 * i + r, 7), {}}, {floorDiv(j, 2), {}}}),
                     p.unary(ScalarOp::Neg, p.indexValue(r, DType::F32)));
  op.output = out;
  p.addOperator(op);
  Tensor a;
  a.name = "A";
  a.type = DType::I32;
  a.shape = {5};
  const TensorId arg = p.addTensor(a);
  Operator best;
  best.name = "A";
  best.axes = {{"i", 5, {}}, {"j", 8, {}}};
  best.outputRank = 1;
  best.reducer = Reducer::ArgMax;
  best.body = p.load(out, {{i, {}}, {j, {}}});
  best.output = arg;
  p.addOperator(best);
  p.outputs = {{"Y", out, OutputRole::Named}, {"A", arg, OutputRole::Named}};
  expectSameAsInterpreter(p);
}

// What lies beside the places given by data, two such places, points that a guard leaves out, and an operator that reads the sums.
TEST(PointEvaluator, AddsUpWhatArrivesAtAPlaceOfAScatter) {
  for (const bool two : {false, true}) {
    test::Build b;
    const auto i = test::var(0), n = test::var(1), m = test::var(2), k = test::var(3);
    const TensorId x = b.tensor("x", {40, 2}), v = b.tensor("V", {3, 40, 2, 4});
    const auto index = [&](double scale) {
      return b.p.cast(DType::I32, b.p.unary(ScalarOp::Floor, b.mul(b.p.unary(ScalarOp::Abs, b.load(x, {n, m})), b.number(scale))));
    };
    const ExprId arrives = b.p.binary(ScalarOp::Lt, b.load(x, {n, m}), b.number(1));
    const ExprId value = b.p.select(arrives, b.mul(b.load(v, {i, n, m, k}), b.load(x, {n, m})), b.number(0));
    std::vector<AccessIndex> at{{i, {}}, {{}, index(3)}, {k, {}}};
    std::vector<std::int64_t> shape{3, 7, 4};
    if (two) at.push_back({{}, index(1.5)}), shape.push_back(4);
    const TensorId d = b.scatter("D", {{"i", 3}, {"n", 40}, {"m", 2}, {"k", 4}}, shape, at, value);
    b.output(d);
    b.output(b.op("S", {{"i", 3}, {"n", 7}}, 2, Reducer::None,
                  b.mul(two ? b.load(d, {i, n, IndexExpr(1), IndexExpr(2)}) : b.load(d, {i, n, IndexExpr(1)}), b.number(0.5))));
    ASSERT_TRUE(PointEvaluator::prepare(b.p).ok()) << two;
    expectSameAsInterpreter(b.p);
  }
}

TEST(PointEvaluator, StopsWhenTheWorkIsUsedUp) {
  const Program program = fakes::matmul(2, 2, 1000);
  auto evaluator = PointEvaluator::prepare(program);
  ASSERT_TRUE(evaluator.ok());
  const std::vector<float> values(4000, 1);
  evaluator->bind(TensorId(0u), {DType::F32, values.data()});
  evaluator->bind(TensorId(1u), {DType::F32, values.data()});
  std::int64_t work = 100;
  EXPECT_FALSE(evaluator->value(TensorId(2u), 0, work));
  EXPECT_EQ(work, 0);
  work = 4000;
  EXPECT_EQ(evaluator->value(TensorId(2u), 0, work), 1000);
  EXPECT_EQ(work, 1000);
}

// The sum of `x` from a sample of it.
struct Estimate {
  double value = 0, error = 0;
  std::int64_t used = 0;
};
Estimate estimated(const std::vector<double>& x, std::int64_t terms) {
  test::Build b;
  const auto n = static_cast<std::int64_t>(x.size());
  const TensorId in = b.tensor("x", {n}, TensorKind::Input, DType::F64);
  const TensorId sum = b.op("S", {{"n", n}}, 0, Reducer::Sum, b.load(in, {test::var(0)}), DType::F64);
  auto evaluator = PointEvaluator::prepare(b.p, true, true);
  EXPECT_TRUE(evaluator.ok());
  evaluator->bind(in, {DType::F64, x.data()});
  evaluator->setSample(terms);
  std::int64_t work = 10'000'000;
  const auto value = evaluator->value(sum, 0, work);
  const auto error = evaluator->error(sum, 0, work);
  EXPECT_TRUE(value && error);
  return {value.value_or(0), error.value_or(0), 10'000'000 - work};
}

TEST(PointEvaluator, LongSumsAreEstimatedFromASample) {
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<double> light(1'000'000), heavy = light, rare = light, same(light.size(), 3);
  for (std::size_t i = 0; i < light.size(); ++i) {
    light[i] = uniform(rng);
    heavy[i] = 1 / (light[i] * light[i]);
    rare[i] = i % 500'000 == 0 ? 1e9 : 1;
  }
  double sum = 0;
  for (const double v : light) sum += v;
  const Estimate of = estimated(light, 16384);
  EXPECT_LE(of.used, 16384);
  EXPECT_LE(std::fabs(of.value - sum), of.error);
  EXPECT_LT(of.error, 0.05 * sum);
  // What a sample says too little of.
  for (const auto& terms : {heavy, rare, same}) EXPECT_EQ(estimated(terms, 16384).error, INFINITY);
  // Few terms are added up.
  light.resize(4096);
  sum = 0;
  for (const double v : light) sum += v;
  EXPECT_NEAR(estimated(light, 1024).value, sum, 1e-9);
}

class GateTest : public ::testing::TestWithParam<GateLevel> {
 protected:
  GateTest() : m_device(std::move(*fakeBackend(kPluginVersion)->open("fake", 1))) {}

  GateReport check(Gate& gate, const Program& program, nlohmann::json knobs) {
    const auto compiler = std::move(*fakeBackend(kPluginVersion)->compiler({}));
    const auto object = compiler->compile({program, fakes::schedule(std::move(knobs)), {}});
    const auto kernel = std::move(*m_device->link(*object));
    return gate.check(*kernel, *object, GetParam());
  }

  GateReport check(const Program& program, nlohmann::json knobs) {
    auto gate = Gate::prepare(*m_device, std::make_shared<const Program>(program), structuralHash(program));
    EXPECT_TRUE(gate.ok());
    return check(**gate, program, std::move(knobs));
  }

  std::unique_ptr<Device> m_device;
};

TEST_P(GateTest, PassesWhatIsRightAndRefusesWhatIsNot) {
  const Program programs[] = {fakes::matmul(9, 17, 33), fakes::matmul(40, 50, 60, true), fakes::elementwise(1000),
                              fakes::matmul(6, 6, 6, false, DType::F16), fakes::matmul(6, 6, 6, false, DType::BF16)};
  for (const Program& program : programs) {
    const GateReport right = check(program, {{"run", "ok"}});
    EXPECT_TRUE(right.passed) << right.failure;
    EXPECT_GT(right.comparedOutputs, 30);
    for (const char* how : {"wrong", "last", "partial", "overrun", "fail"}) {
      const GateReport report = check(program, {{"run", how}});
      EXPECT_FALSE(report.passed) << how;
      EXPECT_FALSE(report.failure.empty());
    }
  }
}

// f32 has no 1e59: the kernel's infinity is right, and what stays in range is still compared.
TEST_P(GateTest, WhatTheTypeCannotHoldIsInfinite) {
  test::Build b;
  const TensorId x = b.tensor("x", {200}, TensorKind::Input);
  const ExprId value = b.load(x, {test::var(0)});
  const ExprId huge = b.mul(b.mul(b.add(value, b.number(2)), b.number(1e30)), b.number(1e29));
  b.output(b.op("H", {{"n", 200}}, 1, Reducer::None, huge));
  b.output(b.op("Y", {{"n", 200}}, 1, Reducer::None, b.mul(value, b.number(3))));
  const GateReport right = check(b.p, {{"run", "ok"}});
  EXPECT_TRUE(right.passed) << right.failure;
  EXPECT_FALSE(check(b.p, {{"run", "wrong"}}).passed);
}

TEST_P(GateTest, OperandsInTf32AreForSchedulesThatSaySo) {
  const Program program = fakes::matmul(40, 50, 60, true);
  EXPECT_FALSE(check(program, {{"run", "tf32"}}).passed);
  const GateReport right = check(program, {{"run", "tf32"}, {"precision", "tf32"}});
  EXPECT_TRUE(right.passed) << right.failure;
  for (const char* how : {"wrong", "last", "partial"})
    EXPECT_FALSE(check(program, {{"run", how}, {"precision", "tf32"}}).passed) << how;
  // One that keeps f32 is not compared with one that does not.
  auto gate = Gate::prepare(*m_device, std::make_shared<const Program>(program), structuralHash(program));
  ASSERT_TRUE(gate.ok());
  EXPECT_TRUE(check(**gate, program, {{"run", "tf32"}, {"precision", "tf32"}}).passed);
  EXPECT_TRUE(check(**gate, program, {{"run", "ok"}}).passed);
  EXPECT_FALSE(check(**gate, program, {{"run", "tf32"}}).passed);
}

TEST_P(GateTest, LaterKernelsAreComparedWithTheFirstOneEverywhere) {
  if (GetParam() == GateLevel::Quick) return;
  const Program program = fakes::elementwise(5000);
  auto gate = Gate::prepare(*m_device, std::make_shared<const Program>(program), structuralHash(program));
  ASSERT_TRUE(gate.ok());
  EXPECT_TRUE(check(**gate, program, {{"run", "ok"}}).passed);
  const GateReport again = check(**gate, program, {{"run", "ok"}});
  EXPECT_TRUE(again.passed);
  EXPECT_GE(again.comparedOutputs, 5000);
}

// The mean square of a convolution, with and without the picture among what is stored. A point of it takes 7 million nodes.
Program meanOfPicture(bool stored) {
  test::Build b;
  constexpr std::int64_t kSide = 400;
  const TensorId x = b.tensor("X", {kSide + 2, kSide + 2}, TensorKind::Input), f = b.tensor("F", {3, 3}, TensorKind::Param);
  const auto p = test::var(0), q = test::var(1), r = test::var(2), s = test::var(3);
  const TensorId y = b.op("Y", {{"p", kSide}, {"q", kSide}, {"r", 3}, {"s", 3}}, 2, Reducer::Sum,
                          b.mul(b.load(x, {p + r, q + s}), b.load(f, {r, s})));
  const ExprId off = b.add(b.load(y, {p, q}), b.number(-1));
  const TensorId l =
      b.op("L", {{"p", kSide}, {"q", kSide}}, 0, Reducer::Sum, b.mul(b.mul(off, off), b.number(1.0 / (kSide * kSide))));
  if (stored) b.output(y);
  b.output(l);
  return b.p;
}

TEST_P(GateTest, ASumBeyondTheWorkForPointsIsHeldAgainstWhatIsStoredOrASample) {
  for (const bool stored : {true, false}) {
    const Program program = meanOfPicture(stored);
    auto gate = Gate::prepare(*m_device, std::make_shared<const Program>(program), structuralHash(program));
    ASSERT_TRUE(gate.ok());
    const GateReport wrong = check(**gate, program, {{"run", "scalars"}});
    EXPECT_FALSE(wrong.passed);
    EXPECT_NE(wrong.failure.find("L[] is "), std::string::npos) << wrong.failure;
    EXPECT_EQ(wrong.failure.find("give or take") == std::string::npos, stored) << wrong.failure;
    const GateReport right = check(**gate, program, {{"run", "ok"}});
    EXPECT_TRUE(right.passed) << right.failure;
    EXPECT_FALSE(check(**gate, program, {{"run", "scalars"}}).passed);
  }
}

// What has no arithmetic is not compared in full however large it is.
TEST_P(GateTest, OfMuchDataThatIsMovedPointsAreCompared) {
  test::Build b;
  constexpr std::int64_t kRows = 1500, kColumns = 1400;
  const TensorId x = b.tensor("X", {kColumns, kRows}, TensorKind::Input);
  b.output(b.op("Y", {{"i", kRows}, {"j", kColumns}}, 2, Reducer::None, b.load(x, {test::var(1), test::var(0)})));
  auto gate = Gate::prepare(*m_device, std::make_shared<const Program>(b.p), structuralHash(b.p));
  ASSERT_TRUE(gate.ok());
  for (const char* how : {"wrong", "last", "partial"}) EXPECT_FALSE(check(**gate, b.p, {{"run", how}}).passed) << how;
  const GateReport right = check(**gate, b.p, {{"run", "ok"}});
  EXPECT_TRUE(right.passed) << right.failure;
  EXPECT_GE(right.comparedOutputs, GetParam() == GateLevel::Quick ? 2 * 4000 : 2 * 50'000);
  EXPECT_LE(right.comparedOutputs, kRows * kColumns / 10);
}

// dE[I[n], d] += V[n, d] of the first `points` n; a table of many rows, most of which nothing arrives at.
Program scatteredRows(std::int64_t points) {
  test::Build b;
  constexpr std::int64_t kRows = 60'000, kPoints = 33'000, kColumns = 64;
  const auto n = test::var(0), d = test::var(1);
  const TensorId rows = b.tensor("I", {kPoints}, TensorKind::Input, DType::I32), v = b.tensor("V", {kPoints, kColumns});
  ExprId value = b.load(v, {n, d});
  if (points < kPoints) value = b.p.select(b.p.condGe0(IndexExpr(points - 1) - n), value, b.number(0));
  b.output(b.scatter("dE", {{"n", kPoints}, {"d", kColumns}}, {kRows, kColumns}, {{{}, b.load(rows, {n})}, {d, {}}}, value));
  return b.p;
}

TEST_P(GateTest, OfALargeScatterPlacesAreComparedThatSomethingArrivesAt) {
  const Program program = scatteredRows(33'000);
  auto gate = Gate::prepare(*m_device, std::make_shared<const Program>(program), structuralHash(program));
  ASSERT_TRUE(gate.ok());
  const GateReport few = check(**gate, scatteredRows(31'000), {{"run", "ok"}});
  EXPECT_FALSE(few.passed);
  EXPECT_NE(few.failure.find("dE["), std::string::npos) << few.failure;
  const GateReport right = check(**gate, program, {{"run", "ok"}});
  EXPECT_TRUE(right.passed) << right.failure;
  EXPECT_GE(right.comparedOutputs, 256);
  EXPECT_LE(right.comparedOutputs, 200'000);
}

// Y[n, d] = E[index(n), d] of E[extent, 3]; the index is computed from the input of this type, or from an operator of the group.
Program gather(std::int64_t extent, DType type, bool ofOperator, const std::function<ExprId(test::Build&, ExprId)>& index) {
  test::Build b;
  const TensorId x = b.tensor("x", {70}, TensorKind::Input, type), e = b.tensor("E", {extent, 3}, TensorKind::Param);
  const auto n = test::var(0), d = test::var(1);
  TensorId from = x;
  if (ofOperator) from = b.op("Z", {{"n", 70}}, 1, Reducer::None, index(b, b.load(x, {n})), DType::I32);
  const ExprId at = ofOperator ? b.load(from, {n}) : index(b, b.load(x, {n}));
  b.output(b.op("Y", {{"n", 70}, {"d", 3}}, 2, Reducer::None, b.p.load(e, {{{}, at}, {d, {}}})));
  return b.p;
}

ExprId whole(test::Build& b, ExprId value) { return b.p.cast(DType::I32, b.p.unary(ScalarOp::Floor, value)); }

TEST_P(GateTest, WhatReachesAnIndexStaysInRange) {
  const auto scaled = [](test::Build& b, ExprId v) { return whole(b, b.mul(v, b.number(7))); };
  const auto shifted = [](test::Build& b, ExprId v) { return b.p.binary(ScalarOp::Sub, v, b.number(5, DType::I32)); };
  const auto squared = [](test::Build& b, ExprId v) { return whole(b, b.add(b.mul(v, v), b.number(2))); };
  for (const Program& program :
       {gather(7, DType::F32, false, scaled), gather(7, DType::F32, true, scaled), gather(9, DType::I32, false, shifted),
        gather(3, DType::F32, true, squared), gather(7, DType::F16, false, scaled), gather(7, DType::BF16, false, scaled)}) {
    EXPECT_TRUE(IndexRanges(program).choose(false).proved);
    const GateReport right = check(program, {{"run", "ok"}});
    EXPECT_TRUE(right.passed) << right.failure;
    EXPECT_GT(right.comparedOutputs, 30);
    EXPECT_FALSE(check(program, {{"run", "wrong"}}).passed);
  }
}

TEST(IndexRanges, AreAsWideAsTheIndexAllows) {
  const auto shifted = [](test::Build& b, ExprId v) { return b.p.binary(ScalarOp::Sub, v, b.number(5, DType::I32)); };
  const Program program = gather(100, DType::I32, false, shifted);
  const auto choice = IndexRanges(program).choose(false);
  ASSERT_TRUE(choice.ranges[0]);
  EXPECT_GE(choice.ranges[0]->low, 5);
  EXPECT_EQ(choice.ranges[0]->high, 104);
  EXPECT_FALSE(choice.ranges[1]);
}

// No value of the input leads into the axis: the kernel refuses as the reference does, and that is all there is to compare.
TEST_P(GateTest, WhereNoIndexIsLegalAKernelMustRefuse) {
  const auto beyond = [](test::Build& b, ExprId v) { return whole(b, b.add(b.mul(v, v), b.number(12))); };
  const Program program = gather(7, DType::F32, false, beyond);
  const GateReport report = check(program, {{"run", "ok"}});
  EXPECT_TRUE(report.passed) << report.failure;
  EXPECT_EQ(report.comparedOutputs, 0);
}

INSTANTIATE_TEST_SUITE_P(Levels, GateTest, ::testing::Values(GateLevel::Quick, GateLevel::Full),
                         [](const auto& param) { return param.param == GateLevel::Quick ? "Quick" : "Full"; });

// ---------------------------------------------------------------- measurement policy

std::function<Result<double>()> constant(double us, int* runs = nullptr) {
  return [=]() -> Result<double> {
    if (runs) ++*runs;
    return us;
  };
}

TEST(Measure, OneRunIsEnoughBeyondThreeTimesTheIncumbent) {
  int runs = 0;
  const auto measured = measureCandidate(constant(31, &runs), constant(10));
  EXPECT_EQ(measured->status, TrialStatus::Slow);
  EXPECT_EQ(runs, 1);
}

TEST(Measure, ThreeRunsAreEnoughBeyondAFifth) {
  int runs = 0;
  const auto measured = measureCandidate(constant(12.5, &runs), constant(10));
  EXPECT_EQ(measured->status, TrialStatus::Slow);
  EXPECT_EQ(measured->reason, "1.25 times the incumbent");
  EXPECT_EQ(runs, 3);
}

TEST(Measure, OtherwisePairsInterleavedUntilTheyDecide) {
  std::string order;
  const auto run = [&](char who, double us) { return [&order, who, us]() -> Result<double> { return order += who, us; }; };
  const auto measured = measureCandidate(run('c', 9), run('i', 10));
  EXPECT_EQ(measured->status, TrialStatus::Ok);
  EXPECT_EQ(order,
            "ciccii"
            "ciicciicciicci");
  EXPECT_EQ(measured->pairs.size(), 7u);
  EXPECT_EQ(measured->timing.median, 9);
  EXPECT_EQ(measured->incumbent.median, 10);
  int runs = 0;
  measureCandidate(constant(9.81, &runs), constant(10)).value();
  EXPECT_EQ(runs, 3 + 7);
}

// What looks like a gain after seven pairs may be the noise of seven; what is none then ends it.
TEST(Measure, AGainIsHeldAgainstAllPairsWhereThatIsAskedFor) {
  MeasurePolicy policy;
  policy.fullGain = true;
  EXPECT_EQ(measureCandidate(constant(9), constant(10), policy)->pairs.size(), 21u);
  EXPECT_EQ(measureCandidate(constant(10), constant(10), policy)->pairs.size(), 7u);
  policy.seconds = 1e-6;
  EXPECT_EQ(measureCandidate(constant(9), constant(10), policy)->pairs.size(), 7u) << "slow kernels are not run on and on";
}

TEST(Measure, WithoutAnIncumbentThreeRuns) {
  int runs = 0;
  const auto measured = measureCandidate(constant(5, &runs), {});
  EXPECT_EQ(measured->status, TrialStatus::Ok);
  EXPECT_EQ(measured->timing.median, 5);
  EXPECT_EQ(runs, 3);
}

}  // namespace
}  // namespace nf
