// SPDX-License-Identifier: Apache-2.0
// What is made of CUPTI's records, counters and samples; a double of the library gives them.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "plugins/cuda/cupti/activities.h"
#include "plugins/cuda/cupti/counters.h"
#include "plugins/cuda/cupti/cupti.h"
#include "plugins/cuda/cupti/cupti_profiler.h"
#include "tests/cupti/double/controls.h"

namespace nf::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CuptiTest : public testing::Test {
 protected:
  void SetUp() override {
    static const Result<std::unique_ptr<const Cupti>> opened = Cupti::open(NF_CUPTI_DOUBLE);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    m_cupti = opened->get();
    void* const library = dlopen(NF_CUPTI_DOUBLE, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr);
    m_double = reinterpret_cast<test::DoubleControls (*)()>(dlsym(library, "cuptiDoubleControls"))();
    m_double.reset();
  }
  std::unique_ptr<Profiler> profiler(std::span<const std::byte> code = {}) {
    return makeProfiler({nullptr, 0,
                         [this]() -> Result<Unit> {
                           ++m_waits;
                           return Unit{};
                         },
                         [code] { return code; }},
                        m_cupti);
  }
  const Cupti* m_cupti = nullptr;
  test::DoubleControls m_double{};
  int m_waits = 0;
};

TEST_F(CuptiTest, RecordsAreTiedToTheLaunchesTheyCameFrom) {
  const auto p = profiler();
  m_double.kernel("before", 0, 10, 20, 3);
  ASSERT_TRUE(p->start().ok());
  EXPECT_GT(m_double.enabledKinds(), 0u);
  p->launching(41);
  m_double.kernel("first", 0, 300, 340, 7);
  m_double.kernel("second", 0, 340, 350, 7);
  p->launching(42);
  m_double.kernel("third", 0, 200, 210, 9);
  m_double.copy(4096, 400, 450, 7);
  m_double.fill(64, 460, 470, 7);
  p->launching(43);
  m_double.graph(500, 900, 7);
  p->launching(DeviceActivity::kNoLaunch);
  m_double.copy(8, 950, 960, 7);
  m_double.kernel("of another device", 1, 600, 700, 7);
  m_double.kernel("without times", 0, 0, 0, 7);
  const auto activities = p->stop();
  ASSERT_TRUE(activities.ok()) << activities.error().message;
  EXPECT_EQ(m_double.enabledKinds(), 0u);
  EXPECT_GE(m_waits, 2);
  std::vector<std::string> seen;
  for (const DeviceActivity& a : *activities) {
    const std::string launch = a.launch == DeviceActivity::kNoLaunch ? "-" : std::to_string(a.launch);
    seen.push_back(a.name + " " + launch + " " + std::to_string(a.begin) + ".." + std::to_string(a.end) + " on " +
                   std::to_string(a.stream) + " " + std::to_string(a.bytes));
  }
  EXPECT_THAT(seen, ElementsAre("before - 10..20 on 3 0", "third 42 200..210 on 9 0", "first 41 300..340 on 7 0",
                                "second 41 340..350 on 7 0", "host to device 42 400..450 on 7 4096", "fill 42 460..470 on 7 64",
                                "graph 43 500..900 on 7 0", "host to device - 950..960 on 7 8"));
  EXPECT_EQ((*activities)[4].kind, DeviceActivity::Kind::Copy);
  EXPECT_EQ((*activities)[5].kind, DeviceActivity::Kind::Fill);
  EXPECT_EQ((*activities)[6].kind, DeviceActivity::Kind::GraphLaunch);
}

TEST_F(CuptiTest, ARecordingBeginsWithNothingAndTheClockIsTheHostsSteadyOne) {
  const auto p = profiler();
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(p->start().ok());
    p->launching(5);
    m_double.kernel("k", 0, 100, 200, 1);
    const auto activities = p->stop();
    ASSERT_TRUE(activities.ok());
    EXPECT_EQ(activities->size(), 1u) << round;
  }
  const auto now = [] {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
  };
  const std::uint64_t before = now(), read = m_double.clock(), after = now();
  EXPECT_LE(before, read);
  EXPECT_LE(read, after);
}

TEST_F(CuptiTest, OneDeviceIsRecordedAtATime) {
  const auto first = profiler();
  const auto second = profiler();
  ASSERT_TRUE(first->start().ok());
  const auto refused = second->start();
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("Another device"));
  ASSERT_TRUE(first->stop().ok());
  EXPECT_TRUE(second->start().ok());
  EXPECT_TRUE(second->stop().ok());
}

TEST_F(CuptiTest, WhatWasDroppedIsTold) {
  const auto p = profiler();
  ASSERT_TRUE(p->start().ok());
  m_double.drop(17);
  const auto activities = p->stop();
  ASSERT_FALSE(activities.ok());
  EXPECT_EQ(activities.error().stage, kCountersStage);
  EXPECT_THAT(activities.error().message, HasSubstr("17 records"));
}

TEST_F(CuptiTest, ARefusalIsOneSentenceWithWhatHelps) {
  const auto p = profiler();
  m_double.refuse("cuptiActivityEnable", CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  const auto started = p->start();
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().stage, kCountersStage);
  EXPECT_THAT(started.error().message,
              testing::AllOf(HasSubstr("ERR_NVGPUCTRPERM"), HasSubstr("NVreg_RestrictProfilingToAdminUsers=0")));
  EXPECT_EQ(m_double.enabledKinds(), 0u);
  m_double.refuse("cuptiActivityEnable", CUPTI_SUCCESS);
  EXPECT_TRUE(p->start().ok()) << "what was refused once may be allowed later";
  EXPECT_TRUE(p->stop().ok());

  m_double.refuse("cuptiRangeProfilerStart", CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  const auto counted = p->count([]() -> Result<Unit> { return Unit{}; });
  ASSERT_FALSE(counted.ok());
  EXPECT_THAT(counted.error().message, HasSubstr("ERR_NVGPUCTRPERM"));
  m_double.refuse("cuptiRangeProfilerStart", CUPTI_ERROR_NOT_SUPPORTED);
  const auto other = p->count([]() -> Result<Unit> { return Unit{}; });
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, HasSubstr("CUPTI_ERROR_NOT_SUPPORTED"));
}

#ifdef NF_CUPTI_RANGES
TEST_F(CuptiTest, CountersAreReadInPassesAndMeanWhatTheyAreCalled) {
  const std::vector<std::byte> code(64);
  const auto p = profiler(code);
  int launches = 0;
  const auto counted = p->count([&]() -> Result<Unit> {
    ++launches;
    return Unit{};
  });
  ASSERT_TRUE(counted.ok()) << counted.error().message;
  EXPECT_EQ(m_double.passes(), 3);
  EXPECT_GT(launches, 3);
  EXPECT_EQ(launches, m_waits) << "every launch is waited for";
  EXPECT_DOUBLE_EQ(counted->us, 12.5);
  EXPECT_DOUBLE_EQ(counted->occupancy, 0.625);
  EXPECT_DOUBLE_EQ(counted->dramBytes, 4096);
  EXPECT_DOUBLE_EQ(counted->l2Bytes, 16384);
  EXPECT_DOUBLE_EQ(counted->flops, 10 + 2 * 100 + 1000);
  ASSERT_EQ(counted->stalls.size(), 2u) << "what is no number is no stall";
  EXPECT_EQ(counted->stalls[0], (KernelCounters::Stall{"long_scoreboard", 0.75}));
  EXPECT_EQ(counted->stalls[1], (KernelCounters::Stall{"barrier", 0.25}));
  ASSERT_EQ(counted->lines.size(), 3u);
  EXPECT_EQ(counted->lines[0], (KernelCounters::Line{30, 20, "barrier"}));
  EXPECT_EQ(counted->lines[1], (KernelCounters::Line{12, 8, "long_scoreboard"}));
  EXPECT_EQ(counted->lines[2], (KernelCounters::Line{0, 1, "long_scoreboard"}));
  EXPECT_EQ(counted->withoutLines, "");
}

TEST_F(CuptiTest, WithoutSamplesTheCountersStay) {
  const auto p = profiler();
  const auto assembled = p->count([]() -> Result<Unit> { return Unit{}; });
  ASSERT_TRUE(assembled.ok());
  EXPECT_THAT(assembled->withoutLines, HasSubstr("driver assembled"));
  m_double.reset();
  m_double.refuse("cuptiPCSamplingEnable", CUPTI_ERROR_NOT_SUPPORTED);
  const auto counted = p->count([]() -> Result<Unit> { return Unit{}; });
  ASSERT_TRUE(counted.ok());
  EXPECT_DOUBLE_EQ(counted->us, 12.5);
  EXPECT_TRUE(counted->lines.empty());
  EXPECT_THAT(counted->withoutLines, HasSubstr("CUPTI_ERROR_NOT_SUPPORTED"));
}

TEST_F(CuptiTest, AKernelThatFailsUnderCountersSaysSo) {
  const auto p = profiler();
  int launches = 0;
  const auto counted = p->count([&]() -> Result<Unit> {
    if (++launches == 3) return Error{"run", "The kernel failed.", "cuda:0", {}};
    return Unit{};
  });
  ASSERT_FALSE(counted.ok());
  EXPECT_EQ(counted.error().message, "The kernel failed.");
  m_double.reset();
  EXPECT_TRUE(p->count([]() -> Result<Unit> { return Unit{}; }).ok());
}
#endif

TEST_F(CuptiTest, ALibraryThatIsNotThereOrIsAnotherIsTold) {
  const auto none = Cupti::open("/nowhere/libcupti.so.13");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("can't be opened"));
  const auto other = Cupti::open("libm.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, HasSubstr("lacks cupti"));
}

}  // namespace
}  // namespace nf::cuda
