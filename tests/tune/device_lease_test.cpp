// SPDX-License-Identifier: Apache-2.0
#include "core/tune/device_lease.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <filesystem>
#include <thread>

namespace nf {
namespace {

class DeviceLeaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/nf-lease-XXXXXX";
    m_directory = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(m_directory); }
  std::unique_ptr<DeviceLease> open() {
    auto lease = DeviceLease::open("cuda:0", m_directory);
    EXPECT_TRUE(lease.ok()) << (lease ? "" : lease.error().message);
    return std::move(*lease);
  }
  std::string m_directory;
};

TEST_F(DeviceLeaseTest, OneHolderAtATime) {
  const auto a = open(), b = open();
  {
    auto hold = a->acquire();
    EXPECT_TRUE(hold);
    std::jthread([&] { EXPECT_FALSE(b->acquireWithin(std::chrono::milliseconds(5))); }).join();
    EXPECT_EQ(b->waits().count, 1);
    EXPECT_GE(b->waits().longestNanoseconds, 5000000);
  }
  EXPECT_TRUE(b->acquireWithin(std::chrono::nanoseconds(0)));
  EXPECT_EQ(a->waits().count, 0);
}

TEST_F(DeviceLeaseTest, AHolderThatDiesFreesIt) {
  const auto lease = open();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto mine = DeviceLease::open("cuda:0", m_directory);
    auto hold = (*mine)->acquire();
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(lease->acquireWithin(std::chrono::milliseconds(1)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(lease->acquireWithin(std::chrono::seconds(10)));
  EXPECT_EQ(lease->waits().ownersDied, 1);
  EXPECT_TRUE(lease->acquireWithin(std::chrono::seconds(10)));
  EXPECT_EQ(lease->waits().ownersDied, 1);
  close(ready[0]);
  close(ready[1]);
}

TEST_F(DeviceLeaseTest, AWaiterComesBeforeTheOneWhoReleases) {
  const auto lease = open(), other = open();
  constexpr int kTurns = 50;
  int mine = 0, theirs = 0, worstLead = 0;
  std::atomic<bool> started = false;
  std::jthread waiter([&] {
    for (int i = 0; i < kTurns; ++i) {
      started = true;
      auto hold = other->acquire();
      ++theirs;
    }
  });
  while (!started) std::this_thread::yield();
  for (int i = 0; i < kTurns; ++i) {
    auto hold = lease->acquire();
    ++mine;
    worstLead = std::max(worstLead, theirs - mine);
  }
  waiter.join();
  EXPECT_EQ(theirs, kTurns);
  EXPECT_EQ(mine, kTurns);
}

TEST_F(DeviceLeaseTest, AFolderThatCannotBeMadeIsAnError) {
  const auto lease = DeviceLease::open("cpu", "/proc/nowhere/neoflow");
  ASSERT_FALSE(lease.ok());
  EXPECT_EQ(lease.error().stage, "open device lease");
}

}  // namespace
}  // namespace nf
