// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/thread_pool.h"

#include <algorithm>
#include <chrono>

#include <immintrin.h>

#include "plugins/cpu/flush_denormals.h"

namespace nf::cpu {
namespace {

// Longer than the gap between two stages of a step, shorter than anybody else would miss the core.
constexpr std::chrono::microseconds kSpin{40};

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) m_workers.emplace_back([this](std::stop_token stop) { serve(stop); });
}

ThreadPool::~ThreadPool() {
  for (std::jthread& worker : m_workers) worker.request_stop();
}

template <class Condition>
bool ThreadPool::soon(Condition&& condition) {
  const auto until = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (condition()) return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

void ThreadPool::share() {
  for (;;) {
    const std::int64_t begin = m_next.fetch_add(m_chunk, std::memory_order_relaxed);
    if (begin >= m_tasks || m_call->stop->load(std::memory_order_relaxed)) return;
    m_entry(m_call, begin, std::min(begin + m_chunk, m_tasks));
  }
}

void ThreadPool::serve(std::stop_token stop) {
  const FlushDenormals flush;
  std::uint64_t seen = 0;
  std::unique_lock lock(m_mutex);
  for (;;) {
    if (m_generation == seen) {
      lock.unlock();
      soon([&] { return m_generation.load(std::memory_order_relaxed) != seen; });
      lock.lock();
    }
    if (!m_wake.wait(lock, stop, [&] { return m_generation != seen; })) return;
    seen = m_generation;
    if (m_next.load(std::memory_order_relaxed) >= m_tasks) continue;  // woke too late
    ++m_busy;
    lock.unlock();
    share();
    lock.lock();
    if (--m_busy == 0) m_idle.notify_one();
  }
}

void ThreadPool::run(StageEntry entry, const KernelCall& call, std::int64_t tasks) {
  if (m_workers.empty() || tasks <= 1) {
    entry(&call, 0, tasks);
    return;
  }
  std::lock_guard one(m_launch);
  {
    std::lock_guard lock(m_mutex);
    m_entry = entry;
    m_call = &call;
    m_tasks = tasks;
    // Several chunks a thread: a core that is busy elsewhere takes fewer.
    m_chunk = std::max<std::int64_t>(1, tasks / (8 * threads()));
    m_next.store(0, std::memory_order_relaxed);
    ++m_generation;
  }
  m_wake.notify_all();
  share();
  soon([&] { return m_busy.load(std::memory_order_relaxed) == 0; });
  std::unique_lock lock(m_mutex);
  m_idle.wait(lock, [&] { return m_busy == 0; });
  // A stage that was stopped leaves tasks behind, and `call` is the caller's: who wakes from here on finds none.
  m_next.store(m_tasks, std::memory_order_relaxed);
}

}  // namespace nf::cpu
