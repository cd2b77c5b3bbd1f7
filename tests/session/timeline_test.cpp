// SPDX-License-Identifier: Apache-2.0
// The timeline of a profile, as the engine sends it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/session/engine_process.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

using namespace protocol;

constexpr const char* kNet =
    "input X[4, 3] = normal(0, 1)\nparam W[2, 3] = normal(0, 1)\nY[b, n] = sum[k] X[b, k] * W[n, k]\n"
    "loss L = mean[b, n] Y[b, n]^2\n";
constexpr const char* kTrain = "train L { steps = 1000000; optimizer = sgd(lr=0.01); mode = static; seed = 1 }\n";

void checkTimeline(const Profile& profile, const Analysis& analysis, const std::string& text) {
  const Timeline& t = profile.timeline;
  ASSERT_FALSE(t.activities.empty());
  EXPECT_EQ(t.activities.front().kind, ActivityKind::Step);
  EXPECT_EQ(t.activities.front().begin, 0);
  EXPECT_FALSE(t.ofDevice);
  std::set<std::string> known, seen;
  for (const KernelTimeInfo& k : profile.kernels) known.insert(k.subgraph);
  std::set<protocol::Phase> phases;
  bool placed = false;
  for (const TimelineActivity& a : t.activities) {
    EXPECT_LE(a.end, t.activities.front().end);
    if (a.kind != ActivityKind::Kernel) continue;
    ASSERT_GE(a.site, 0);
    const TimelineSite& site = t.sites.at(static_cast<std::size_t>(a.site));
    seen.insert(site.subgraph);
    phases.insert(site.phase);
    EXPECT_FALSE(site.expression.empty());
    for (const std::uint32_t origin : site.origins) {
      ASSERT_LT(origin, analysis.spans.size());
      const SourceSpan& span = analysis.spans[origin];
      if (span.source.empty() && text.substr(span.begin, span.end - span.begin).find("X[b, k]") != std::string::npos) placed = true;
    }
  }
  EXPECT_EQ(seen, known);
  EXPECT_TRUE(placed) << "a launch leads back to the text";
  EXPECT_GE(phases.size(), 2u) << "forward and what follows it";
}

TEST(Timeline, OfAStepThatIsPreparedForIt) {
  const fakes::Folder folder;
  EngineProcess engine(folder.path("."));
  const std::string text = std::string(kNet) + kTrain;
  const Analysis analysis = engine.document(text);
  checkTimeline(engine.ask<Profile>(ProfileRequest{1, 3}), analysis, text);
}

// Of a notebook that does not train: the kernels of the plan that is shown, not those of a program that keeps every tensor.
TEST(Timeline, OfTheKernelsThatAreDecidedForWhereNothingTrains) {
  for (const char* text :
       {"input X[4, 9] = normal(0, 1)\nparam F[3, 9] = normal(0, 1)\nP[i, j] = tanh(X[i, j]) * X[i, j]\n"
        "Y[i, k] = sum[j] P[i, j] * F[k, j]\nloss L = mean[i, k] Y[i, k]^2\nshow d(L)/d(F), d(L)/d(X)\n",
        "input X[4, 9] = normal(0, 1)\nY[i, j] = X[i, j] * 2\nZ[i, j] = Y[i, j] + 1\neval m = mean[i, j] Z[i, j]\n",
        "input X[4, 9] = normal(0, 1)\nY[i, j] = X[i, j] * 2\nZ[i, j] = exp(Y[i, j] + 1)\n"}) {
    SCOPED_TRACE(text);
    const fakes::Folder folder;
    EngineProcess engine(folder.path("."));
    engine.document(text);
    std::set<std::string> decided, profiled;
    for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs) decided.insert(s.id);
    for (const KernelTimeInfo& k : engine.ask<Profile>(ProfileRequest{1, 3}).kernels) profiled.insert(k.subgraph);
    EXPECT_FALSE(decided.empty());
    EXPECT_EQ(profiled, decided);
  }
}

RequestId trainFirstStep(EngineProcess& engine) {
  const RequestId id = engine.newId();
  TrainRequest train;
  train.revision = 1;
  train.cell = 1;
  engine.send(train, id);
  engine.await<FirstStepEvent>();
  return id;
}

TEST(Timeline, OfTheStepsThatTrain) {
  const fakes::Folder folder;
  EngineProcess engine(folder.path("."));
  const std::string text = std::string(kNet) + "# %%\n" + kTrain;
  const Analysis analysis = engine.document(text);
  const auto id = trainFirstStep(engine);
  const Profile profile = engine.ask<Profile>(ProfileRequest{1, 5});
  EXPECT_TRUE(profile.training);
  EXPECT_GE(profile.runs, 5);
  checkTimeline(profile, analysis, text);
  engine.send(StopRequest{});
  engine.await<Finished>(id);
}

TEST(Timeline, OfATrainingThatEndsBeforeItsStepsAreThere) {
  const fakes::Folder folder;
  EngineProcess engine(folder.path("."));
  const std::string text = std::string(kNet) + "# %%\ntrain L { steps = 2000; mode = static; seed = 1 }\n";
  const Analysis analysis = engine.document(text);
  trainFirstStep(engine);
  const Profile profile = engine.ask<Profile>(ProfileRequest{1, 5000});
  EXPECT_FALSE(profile.training);
  EXPECT_EQ(profile.runs, 5000);
  checkTimeline(profile, analysis, text);
}

}  // namespace
}  // namespace nf
