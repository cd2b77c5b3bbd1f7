// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "core/support/hash.h"
#include "core/tune/compile_service.h"
#include "core/tune/worker_process.h"

namespace nf {

// What a worker process has been told already; fresh with each process.
struct WorkerMemory {
  std::unordered_set<Hash> programs;
  std::unordered_set<std::string> targets;
};

// Threads that each keep one worker process alive and feed it from one queue.
class WorkerPool {
 public:
  struct Options {
    int workers = 1;
    std::vector<std::string> command;
    bool firstKeepsPriority = false;  // worker 0 takes no Background work while there are others
  };
  struct Attempt {
    WorkerProcess::Reply reply;
    bool cancelled = false;  // the job's stop or the pool's end, not the worker's fault
    std::string startError;  // no worker could be started
  };
  struct Job {
    CompilePriority priority = CompilePriority::Background;
    std::stop_token stop;  // a running attempt gets kGrace more, then its worker is killed
    std::function<Frame(WorkerMemory&)> request;
    std::function<std::chrono::milliseconds()> deadline;
    // Called after each attempt, no lock held. True: the job is done. False: once more, on a fresh worker where this one died.
    std::function<bool(Attempt)> attempted;
    // Whether a worker that answers this ends then: what comes next goes to another. Empty: it does not.
    std::function<bool(const Frame&)> ends;
  };
  static constexpr std::chrono::milliseconds kGrace{500};

  explicit WorkerPool(Options options);
  ~WorkerPool();
  void submit(Job job);
  std::vector<pid_t> processIds() const;
  std::int64_t started() const { return m_started; }
  std::int64_t died() const { return m_died; }
  std::int64_t deadlines() const { return m_deadlines; }

 private:
  struct Slot {
    int index = 0;
    int wake = -1;  // eventfd: a job was queued or cancelled, or the pool ends
    std::atomic<pid_t> pid{0};
    std::unique_ptr<WorkerProcess> process;
    WorkerMemory memory;
    std::chrono::steady_clock::time_point born;
    std::jthread thread;
  };
  struct Queued {
    Job job;
    std::unique_ptr<std::stop_callback<std::function<void()>>> onStop;
  };
  void run(Slot& slot);
  void work(Slot& slot, Queued& queued);
  bool ensureProcess(Slot& slot, std::string& error);
  std::unique_ptr<Queued> take(const Slot& slot);
  void endStopped();
  void wakeAll();
  void drain(const Slot& slot);

  Options m_options;
  mutable std::mutex m_mutex;
  std::deque<std::unique_ptr<Queued>> m_urgent, m_background;
  std::atomic<bool> m_ending{false};
  std::atomic<std::int64_t> m_started{0}, m_died{0}, m_deadlines{0};
  std::vector<std::unique_ptr<Slot>> m_slots;
};

}  // namespace nf
