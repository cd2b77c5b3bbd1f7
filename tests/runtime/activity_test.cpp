// SPDX-License-Identifier: Apache-2.0
// What a run leaves behind launch by launch, and the trace that is made of it.
#include "core/runtime/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/device/reference_backend.h"
#include "core/runtime/run.h"
#include "tests/runtime/profiled_device.h"

namespace nf {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kRecurrent =
    "input X[2, 4, 3] = normal(0, 1)\n"
    "param U[3, 3] = normal(0, 1)\n"
    "h[b: 2, n: 3] = 0\n"
    "for t in 0..4 { h[b, n] = tanh(X[b, t, n] + sum[k] U[n, k] * h[b, k]) }\n"
    "loss L = mean[b, n] h[b, n]^2\n"
    "train L { steps = 3; optimizer = sgd(lr=0.1); seed = 1 }\n";

struct Job {
  Backend* backend = referenceBackend(kPluginVersion);
  fakes::ProfiledDevice* device = nullptr;  // where it keeps an account
  std::unique_ptr<DeviceContext> context;
  std::unique_ptr<RunJob> job;

  explicit Job(bool profiled) {
    auto opened = std::move(*backend->open("reference", 1));
    auto compiler = std::move(*backend->compiler(opened->target()));
    std::unique_ptr<Device> used = std::move(opened);
    if (profiled) {
      auto wrapped = std::make_unique<fakes::ProfiledDevice>(std::move(used));
      device = wrapped.get();
      used = std::move(wrapped);
    }
    context = DeviceContext::of(std::move(used), std::move(compiler), nullptr);
    RunOptions options;
    options.source = {"net.nf", "", kRecurrent};
    options.trainStep = 0;
    job = std::make_unique<RunJob>(*context, options);
    const auto prepared = job->prepare({});
    EXPECT_TRUE(prepared.ok() && *prepared) << (prepared.ok() ? "stopped" : prepared.error().message);
  }
  ActivityRecord runs(int count, std::int64_t most = 100000) {
    job->setRecording(most);
    for (int i = 0; i < count; ++i) EXPECT_TRUE(job->run(true).ok());
    return job->endTiming();
  }
};

std::vector<Activity> only(const ActivityRecord& record, ActivityKind kind) {
  std::vector<Activity> found;
  for (const Activity& a : record.activities)
    if (a.kind == kind) found.push_back(a);
  return found;
}

std::int64_t launchesOf(const ExecutionPlan& plan) {
  double calls = 0;
  for (const PlannedSubgraph& s : plan.subgraphs) calls += s.callsPerStep;
  return static_cast<std::int64_t>(calls);
}

TEST(Activity, EveryLaunchOfEveryRunIsThereAndItsTimeIsTheProfiles) {
  Job job(false);
  const ActivityRecord record = job.runs(3);
  const Executable& x = job.job->executable();
  EXPECT_EQ(record.runs, 3);
  EXPECT_EQ(record.leftOut, 0);
  EXPECT_FALSE(record.ofDevice);
  EXPECT_TRUE(record.why.empty());
  const auto kernels = only(record, ActivityKind::Kernel);
  EXPECT_EQ(static_cast<std::int64_t>(kernels.size()), 3 * launchesOf(x.plan()));
  std::vector<double> seconds(x.plan().subgraphs.size());
  for (const Activity& a : kernels) {
    ASSERT_LT(a.site, record.sites.size());
    EXPECT_EQ(record.sites[a.site].hash, x.plan().subgraphs[record.sites[a.site].subgraph].hash);
    seconds[record.sites[a.site].subgraph] += static_cast<double>(a.end - a.begin) * 1e-9;
  }
  for (std::size_t s = 0; s < seconds.size(); ++s) EXPECT_NEAR(seconds[s], x.profile()[s].seconds, 1e-12 + 1e-9 * seconds[s]) << s;
}

TEST(Activity, WhatIsInsideLiesWithinWhatIsAroundIt) {
  Job job(false);
  const ActivityRecord record = job.runs(2);
  const auto steps = only(record, ActivityKind::Step);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_LE(steps[0].end, steps[1].begin);
  std::vector<Activity> open;
  std::int64_t latest = 0;
  for (const Activity& a : record.activities) {
    EXPECT_LE(latest, a.begin);
    latest = a.begin;
    EXPECT_LE(a.begin, a.end);
    while (!open.empty() && open.back().end <= a.begin && open.back().end < a.end) open.pop_back();
    if (a.kind == ActivityKind::Step) {
      EXPECT_TRUE(open.empty());
    } else {
      ASSERT_FALSE(open.empty()) << name(a.kind);
      EXPECT_LE(a.end, open.back().end) << name(a.kind);
      EXPECT_EQ(a.run, open.front().run);
    }
    if (a.kind == ActivityKind::Step || a.kind == ActivityKind::Trip) open.push_back(a);
  }
  // The loop and its gradient, four steps each, one of them from the end.
  std::vector<std::int64_t> trips;
  for (const Activity& a : only(oneRun(record, 0), ActivityKind::Trip)) trips.push_back(a.trip);
  ASSERT_GE(trips.size(), 8u);
  EXPECT_EQ(std::vector<std::int64_t>(trips.begin(), trips.begin() + 4), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(std::vector<std::int64_t>(trips.end() - 4, trips.end()), (std::vector<std::int64_t>{3, 2, 1, 0}));
}

TEST(Activity, ARunThatHasNoRoomIsLeftOutWholeAndCounted) {
  Job job(false);
  const auto one = static_cast<std::int64_t>(job.runs(1).activities.size());
  Job other(false);
  const ActivityRecord record = other.runs(5, 2 * one + one / 2);
  EXPECT_EQ(record.runs, 2);
  EXPECT_EQ(record.leftOut, 3);
  EXPECT_EQ(static_cast<std::int64_t>(record.activities.size()), 2 * one);
  EXPECT_EQ(other.runs(2, 0).activities.size(), 0u) << "nothing is kept where nobody asked for it";
}

TEST(Activity, OneRunBeginsAtItsOwnBegin) {
  Job job(false);
  const ActivityRecord record = job.runs(3);
  const std::int64_t median = medianRun(record);
  ASSERT_GE(median, 0);
  const ActivityRecord one = oneRun(record, median);
  EXPECT_EQ(one.runs, 1);
  EXPECT_EQ(one.activities.size() * 3, record.activities.size());
  EXPECT_EQ(one.activities.front().begin, 0);
  std::vector<std::int64_t> durations;
  for (const Activity& a : only(record, ActivityKind::Step)) durations.push_back(a.end - a.begin);
  std::sort(durations.begin(), durations.end());
  EXPECT_EQ(one.activities.front().end, durations[1]);
  EXPECT_EQ(medianRun(ActivityRecord{}), -1);
}

TEST(Activity, ADevicesOwnAccountTakesThePlaceOfTheHostsClock) {
  Job job(true);
  const ActivityRecord record = job.runs(2);
  const Executable& x = job.job->executable();
  EXPECT_TRUE(record.ofDevice);
  EXPECT_THAT(record.lanes, testing::ElementsAre("steps", "stream 8", "stream 7"));
  const auto launches = static_cast<std::size_t>(2 * launchesOf(x.plan()));
  EXPECT_EQ(only(record, ActivityKind::Launch).size(), launches);
  const auto kernels = only(record, ActivityKind::Kernel);
  ASSERT_EQ(kernels.size(), 2 * launches);
  EXPECT_EQ(kernels[0].lane, 2u);
  EXPECT_EQ(kernels[0].name, "first");
  EXPECT_EQ(kernels[0].run, 0);
  const auto copies = only(record, ActivityKind::Copy);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].site, Activity::kNoSite);
  EXPECT_EQ(copies[0].bytes, 96);
  for (std::size_t s = 0; s < x.profile().size(); ++s) {
    EXPECT_EQ(static_cast<double>(x.profile()[s].calls), 2 * x.plan().subgraphs[s].callsPerStep);
    EXPECT_NEAR(x.profile()[s].median(), 40e-6, 1e-10);
  }
}

TEST(Activity, ADeviceThatGivesNoAccountSaysWhyAndTheHostsClockServes) {
  Job job(true);
  job.device->refuses = "Only an administrator may look.";
  const ActivityRecord record = job.runs(1);
  EXPECT_FALSE(record.ofDevice);
  EXPECT_EQ(record.why, "Only an administrator may look.");
  EXPECT_EQ(static_cast<std::int64_t>(only(record, ActivityKind::Kernel).size()), launchesOf(job.job->executable().plan()));
  const auto counted = job.job->count();
  ASSERT_FALSE(counted.ok());
  EXPECT_EQ(counted.error().stage, kCountersStage);
}

TEST(Activity, EveryKernelIsCountedOnce) {
  Job job(true);
  const auto counted = job.job->count();
  ASSERT_TRUE(counted.ok()) << counted.error().message;
  std::set<Hash> all;
  for (const PlannedSubgraph& s : job.job->executable().plan().subgraphs) all.insert(s.hash);
  EXPECT_EQ(counted->size(), all.size());
  EXPECT_EQ(static_cast<std::size_t>(job.device->counted), job.job->executable().plan().subgraphs.size());
  Job without(false);
  const auto none = without.job->count();
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("has no counters"));
}

TEST(Activity, ATraceIsReadAsTheFormatSays) {
  for (const bool profiled : {false, true}) {
    SCOPED_TRACE(profiled);
    Job job(profiled);
    const ActivityRecord record = job.runs(2);
    const json trace = json::parse(chromeTrace(record, job.job->notebook().sources, "net.nf: a step"));
    std::size_t complete = 0;
    std::map<std::pair<int, int>, std::string> threads;
    std::map<int, std::string> processes;
    bool inLoop = false, placed = false;
    for (const json& event : trace.at("traceEvents")) {
      const int process = event.at("pid").get<int>(), thread = event.at("tid").get<int>();
      if (event.at("ph") == "M") {
        const auto named = event.at("args").at("name").get<std::string>();
        if (event.at("name") == "process_name") processes[process] = named;
        else if (event.at("name") == "thread_name") threads[{process, thread}] = named;
        continue;
      }
      ASSERT_EQ(event.at("ph"), "X");
      const Activity& a = record.activities[complete++];
      EXPECT_NEAR(event.at("ts").get<double>(), static_cast<double>(a.begin) * 1e-3, 1e-6 * static_cast<double>(a.begin) + 1e-9);
      EXPECT_GE(event.at("dur").get<double>(), 0);
      EXPECT_TRUE(threads.contains({process, thread})) << process << ", " << thread;
      EXPECT_TRUE(processes.contains(process));
      const json& arguments = event.at("args");
      if (a.kind != ActivityKind::Kernel) continue;
      EXPECT_EQ(arguments.at("subgraph"), record.sites[a.site].hash.hex());
      EXPECT_THAT(event.at("cat").get<std::string>(), testing::StartsWith("kernel,"));
      if (!arguments.contains("expression")) continue;
      const auto expression = arguments.at("expression").get<std::string>();
      EXPECT_THAT(expression, testing::Not(HasSubstr("`?`")));
      if (expression.find("[b, t, n]") != std::string::npos) inLoop = true;
      if (arguments.contains("origin") && arguments.at("origin").get<std::string>().find("net.nf:5:") != std::string::npos)
        placed = true;
    }
    EXPECT_EQ(complete, record.activities.size());
    EXPECT_TRUE(inLoop) << "the counter of a loop has its name";
    EXPECT_TRUE(placed) << "what the loss is made of says where it stands";
    EXPECT_EQ(processes.size(), profiled ? 2u : 1u);
  }
}

}  // namespace
}  // namespace nf
