// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>

namespace nf::cpu {
namespace {

std::atomic<std::int64_t> tasksDone{0};

void countTasks(const KernelCall*, std::int64_t begin, std::int64_t end) { tasksDone += end - begin; }

TEST(ThreadPool, EveryTaskIsDoneOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const std::int64_t tasks : {1, 2, 7, 64, 1000}) {
      tasksDone = 0;
      KernelCall call{};
      pool.run(countTasks, call, tasks);
      EXPECT_EQ(tasksDone, tasks) << threads << " threads";
    }
  }
}

// Who wakes after a stage was stopped has its tasks in sight no more: the call is gone with its caller.
TEST(ThreadPool, AStageThatWasStoppedLeavesNothingBehind) {
  KernelCall stopped{};
  const std::atomic<bool> stop{true};
  for (int i = 0; i < 500; ++i) {
    ThreadPool pool(4);  // its threads are not there yet when the stage ends
    stopped.stop = &stop;
    pool.run(countTasks, stopped, 1000);
    stopped.stop = nullptr;
    tasksDone = 0;
    KernelCall call{};
    if (i % 2 == 0) continue;
    pool.run(countTasks, call, 1000);
    EXPECT_EQ(tasksDone, 1000);
  }
}

}  // namespace
}  // namespace nf::cpu
