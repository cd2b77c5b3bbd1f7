// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "plugins/cpu/kernel_call.h"

namespace nf::cpu {

// Threads that share the tasks of one stage; the caller is one of them. One stage at a time.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // 1: no thread besides the caller's
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void run(StageEntry entry, const KernelCall& call, std::int64_t tasks);
  int threads() const { return static_cast<int>(m_workers.size()) + 1; }

 private:
  void serve(std::stop_token stop);
  void share();
  // Looks for a moment without giving up the core: stages follow each other within microseconds.
  template <class Condition>
  static bool soon(Condition&& condition);

  std::mutex m_launch;  // of run
  std::mutex m_mutex;
  std::condition_variable_any m_wake;
  std::condition_variable m_idle;
  // Changed under m_mutex; looked at without it by those who spin.
  std::atomic<std::uint64_t> m_generation{0};  // of the stage
  std::atomic<int> m_busy{0};                  // workers inside share
  StageEntry m_entry = nullptr;
  const KernelCall* m_call = nullptr;
  std::int64_t m_tasks = 0, m_chunk = 1;
  std::atomic<std::int64_t> m_next{0};
  std::vector<std::jthread> m_workers;
};

}  // namespace nf::cpu
