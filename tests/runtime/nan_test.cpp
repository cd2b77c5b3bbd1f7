// SPDX-License-Identifier: Apache-2.0
// Which operator is named where a loss or a weight becomes no number.
#include <cmath>
#include <fstream>

#include "core/runtime/checkpoint.h"
#include "core/runtime/data_file.h"
#include "core/runtime/run_folder.h"
#include "tests/runtime/train_runs.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

using namespace runs;
using testing::HasSubstr;

TEST(Train, ANaNStopsAndNamesTheFirstOperator) {
  const auto context = interpreter();
  std::vector<protocol::Message> messages;
  TrainJob job(*context, optionsFor(R"(
param w[4] = normal(1, 0)
u[i] = w[i] * w[i]
v[i] = log(u[i] - 0.5)
r[i] = v[i] * 2
loss L = mean[i] r[i]
train L { steps = 50; optimizer = sgd(lr=0.3); mode = static }
)"),
               [&](const protocol::Message& m) { messages.push_back(m); });
  const auto summary = job.run({});
  ASSERT_FALSE(summary.ok());
  EXPECT_THAT(summary.error().message, HasSubstr("the first one came from v"));
  const auto errors = only<protocol::ErrorEvent>(messages);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].line, 4) << "the line of v";
}

TEST(Train, TheStepsBeforeANaNAreToldToTheLast) {
  const auto context = interpreter();
  std::vector<protocol::Message> messages;
  TrainJob job(*context, optionsFor(R"(
param w[1] = normal(1, 0)
loss L = mean[i] (w[i] + 1e-30 * log(w[i]))
train L { steps = 5000; optimizer = sgd(lr=0.001); mode = static }
)"),
               [&](const protocol::Message& m) { messages.push_back(m); });
  const auto summary = job.run({});
  ASSERT_FALSE(summary.ok());
  const auto steps = only<protocol::StepEvent>(messages);
  ASSERT_GT(steps.size(), 256u);
  EXPECT_GT(steps.back().step, 900);
  EXPECT_THAT(summary.error().message, HasSubstr("is not a number in step " + std::to_string(steps.back().step + 1) + ";"));
  std::int64_t told = 0;
  for (const auto& s : steps) told += s.steps;
  EXPECT_EQ(told, steps.back().step);
}

// One that was there before the first step is nobody's update.
TEST(Train, ANaNInAFirstValueNamesItsTensorAndFile) {
  const fakes::Folder folder;
  const std::string weights = folder.path("weights.safetensors");
  HostTensor none{DType::F32, {2}, std::vector<std::byte>(8, std::byte{0xff})};
  ASSERT_TRUE(writeFileAtomically(weights, safetensorsBytes({{"w", none}}, {})).ok());
  const std::string rest = "loss L = mean[i] (w[i] - 1)^2\ntrain L { steps = 5; optimizer = adam(lr=0.1); mode = static }\n";
  for (const bool declared : {false, true}) {
    TrainOptions o =
        optionsFor((declared ? "param w[2] = safetensors(\"" + weights + "\", \"w\")\n" : "param w[2] = normal(0, 1)\n") + rest);
    if (!declared) o.initialWeights = weights;
    const auto context = interpreter();
    std::vector<protocol::Message> messages;
    TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
    const auto summary = job.run({});
    ASSERT_FALSE(summary.ok());
    EXPECT_THAT(summary.error().message, HasSubstr("the first one came from w, whose first value has one"));
    EXPECT_EQ(summary.error().message.find(weights) != std::string::npos, !declared);
    const auto errors = only<protocol::ErrorEvent>(messages);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors[0].line, 1) << "where w is declared";
  }
}

// A loss that overflows gives no NaN before the gradient, and is seen a step later: the gradient is named, not the weights.
TEST(Train, ANaNInTheWeightsNamesTheGradientThatMadeIt) {
  const auto context = interpreter();
  std::vector<protocol::Message> messages;
  TrainJob job(*context, optionsFor(R"(
param w[4] = normal(1, 0)
v[i] = exp(1000 * w[i])
loss L = mean[i] (v[i] + 1/v[i])
train L { steps = 50; optimizer = sgd(lr=0.3); mode = static }
)"),
               [&](const protocol::Message& m) { messages.push_back(m); });
  const auto summary = job.run({});
  ASSERT_FALSE(summary.ok());
  EXPECT_THAT(summary.error().message, HasSubstr("the first one came from d(L)/d(w) in step 2, whose loss was inf"));
}

// The norm of a zero vector has no derivative. Statistics of the forward pass are updated before the loss is seen.
TEST(Train, ANaNOfTheBackwardPassNamesItsOperator) {
  const std::string rest = R"(
param w[3, 2] = normal(0, 0)
param v[2] = normal(0, 1)
state m[3] = normal(0, 0)
a[b, k] = v[k] * w[b, k]
n[b] = sqrt(sum[k] a[b, k]^2)
m[b] <- 0.5 * m[b] + 0.5 * n[b]
loss L = mean[b] (n[b] - 1)^2
train L { optimizer = sgd(lr=0.1); mode = static; )";
  for (const char* steps : {"steps = 50 }\n", "steps = 1 }\n"}) {
    const fakes::Folder folder;
    const auto context = interpreter();
    std::vector<protocol::Message> messages;
    TrainOptions o = optionsFor(rest + steps);
    o.outputRoot = folder.path("out");
    TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
    const auto summary = job.run({});
    ASSERT_FALSE(summary.ok());
    EXPECT_THAT(summary.error().message, HasSubstr("in step 1")) << summary.error().message;
    EXPECT_THAT(summary.error().message, HasSubstr("the first one came from d(L)/d(")) << summary.error().message;
    const auto errors = only<protocol::ErrorEvent>(messages);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors[0].line, 6) << "the line of the square root";
  }
}

// A state that the forward pass moves before the loss is seen stands where it stood in the step that is looked at again.
TEST(Train, ANaNOfTheBackwardPassIsFoundInTheStepThatMadeIt) {
  for (const char* steps : {"steps = 50 }\n", "steps = 4 }\n"}) {
    const auto context = interpreter();
    std::vector<protocol::Message> messages;
    TrainJob job(*context,
                 optionsFor(std::string(R"(
param w[2] = normal(1, 0)
state at = normal(0, 0)
at <- at + 1
q[i] = w[i] * (3 - at)
z = sqrt(sum[i] q[i]^2)
loss L = z * 0.001
train L { optimizer = sgd(lr=0.1); mode = static; )") +
                            steps),
                 [&](const protocol::Message& m) { messages.push_back(m); });
    const auto summary = job.run({});
    ASSERT_FALSE(summary.ok());
    EXPECT_THAT(summary.error().message, HasSubstr("the first one came from d(L)/d(q) in step 4")) << summary.error().message;
  }
}

// A step that is too long leaves an infinity where the loss is finite ever after.
TEST(Train, WeightsThatBecomeInfiniteAreNoSuccess) {
  struct Case {
    const char *rate, *steps, *said;
    int line;
  };
  for (const Case& c :
       {Case{"1e38", "1", "w holds an infinite value after step 1; the first one came from w.next, the new w of step 1.", 0},
        Case{"1e38", "3", "w holds an infinite value after step 3, and held one before that step.", 2},
        Case{"q", "1", "w holds an infinite value after step 1; the first one came from q in step 1.", 4}}) {
    const fakes::Folder folder;
    const auto context = interpreter();
    std::vector<protocol::Message> messages;
    TrainOptions o = optionsFor(std::string(R"(
param w[3] = normal(1, 0)
y[i] = exp(w[i] * 640)
q = 1e38 * sum[i] y[i]
loss L = sum[i] y[i]
train L { optimizer = sgd(lr=)") +
                                c.rate + "); mode = static; steps = " + c.steps + " }\n");
    o.outputRoot = folder.path("out");
    TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
    const auto summary = job.run({});
    ASSERT_FALSE(summary.ok()) << c.rate;
    EXPECT_EQ(summary.error().message, c.said);
    const auto errors = only<protocol::ErrorEvent>(messages);
    ASSERT_EQ(errors.size(), 1u);
    if (c.line > 0) { EXPECT_EQ(errors[0].line, c.line); }
    EXPECT_FALSE(checkpointAt(folder.path("out")).ok()) << "nothing that can be resumed is left";
  }
}

// States begin with infinities, masks hold them, and so may weights that were given with them.
TEST(Train, InfinitiesThatAreMeantEndNoTraining) {
  const fakes::Folder folder;
  const std::string weights = folder.path("weights.safetensors");
  HostTensor masked = HostTensor::make(DType::F32, {2});
  masked.set(1, -HUGE_VAL);
  ASSERT_TRUE(writeFileAtomically(weights, safetensorsBytes({{"m", masked}}, {})).ok());
  const auto context = interpreter();
  TrainOptions o = optionsFor(R"(
param w[2] = normal(1, 0)
param m[2] = normal(0, 0)
state top = -inf
state low[2] = inf
top <- max(top, -inf)
low[i] <- min(low[i], w[i])
loss L = sum[i] (exp(m[i]) * (w[i] - 2)^2)
train L { steps = 4; optimizer = sgd(lr=0.01); mode = static }
)");
  o.initialWeights = weights;
  TrainJob job(*context, o, {});
  const auto summary = job.run({});
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  const auto left = job.weights(1 << 20);
  EXPECT_EQ(left.at("m").at(1), -HUGE_VAL);
  EXPECT_EQ(left.at("top").at(0), -HUGE_VAL);
}

TEST(Train, AnInfiniteLossEndsNoTraining) {
  const auto context = interpreter();
  const auto summary = TrainJob(*context, optionsFor(R"(
param w[2] = normal(1, 0)
loss L = sum[i] w[i]^2 + inf
train L { steps = 3; optimizer = sgd(lr=0.1); mode = static }
)"),
                                {})
                           .run({});
  EXPECT_TRUE(summary.ok()) << summary.error().message;
}

// What an infinite value of the data does to the weights is seen a step later: the data are named all the same.
TEST(Train, AnInfinityInTheDataNamesItsInput) {
  const fakes::Folder folder;
  std::ofstream(folder.path("d.csv")) << "1,2\n3,4\n1,inf\n2,1\n";
  const auto context = interpreter();
  std::vector<protocol::Message> messages;
  TrainOptions o = optionsFor(R"(
data D = csv("d.csv")
input X[2, 2] = batch D[:, 0..2]
param w[2] = normal(1, 0)
loss L = mean[b] (sum[k] X[b, k] * w[k])^2
train L { epochs = 4; optimizer = sgd(lr=0.01); mode = static }
)");
  o.source.directory = folder.path("");
  TrainJob job(*context, o, [&](const protocol::Message& m) { messages.push_back(m); });
  const auto summary = job.run({});
  ASSERT_FALSE(summary.ok());
  EXPECT_THAT(summary.error().message, HasSubstr("; X has an infinite value in step "));
  const auto errors = only<protocol::ErrorEvent>(messages);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].line, 3);
  EXPECT_EQ(errors[0].column, 7);
}

}  // namespace
}  // namespace nf
