// SPDX-License-Identifier: Apache-2.0
#include "core/tune/worker_pool.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <algorithm>

namespace nf {

WorkerPool::WorkerPool(Options options) : m_options(std::move(options)) {
  for (int i = 0; i < std::max(m_options.workers, 1); ++i) {
    auto slot = std::make_unique<Slot>();
    slot->index = i;
    slot->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    NF_ASSERT(slot->wake >= 0);
    m_slots.push_back(std::move(slot));
  }
  for (auto& slot : m_slots) slot->thread = std::jthread([this, s = slot.get()] { run(*s); });
}

WorkerPool::~WorkerPool() {
  m_ending = true;
  wakeAll();
  for (auto& slot : m_slots) slot->thread.join();
  // No slot is left; what is still queued ends as cancelled, here.
  for (auto* queue : {&m_urgent, &m_background})
    while (!queue->empty()) {
      const std::unique_ptr<Queued> queued = std::move(queue->front());
      queue->pop_front();
      queued->onStop.reset();
      Attempt attempt;
      attempt.cancelled = true;
      queued->job.attempted(std::move(attempt));
    }
  for (auto& slot : m_slots) close(slot->wake);
}

void WorkerPool::submit(Job job) {
  auto queued = std::make_unique<Queued>();
  queued->job = std::move(job);
  queued->onStop = std::make_unique<std::stop_callback<std::function<void()>>>(queued->job.stop, [this] { wakeAll(); });
  {
    const std::lock_guard lock(m_mutex);
    (queued->job.priority == CompilePriority::FirstKernel ? m_urgent : m_background).push_back(std::move(queued));
  }
  wakeAll();
}

std::vector<pid_t> WorkerPool::processIds() const {
  std::vector<pid_t> ids;
  for (const auto& slot : m_slots)
    if (const pid_t pid = slot->pid) ids.push_back(pid);
  return ids;
}

void WorkerPool::wakeAll() {
  const std::uint64_t one = 1;
  for (const auto& slot : m_slots) { [[maybe_unused]] const ssize_t n = write(slot->wake, &one, sizeof one); }
}

void WorkerPool::drain(const Slot& slot) {
  std::uint64_t count;
  [[maybe_unused]] const ssize_t n = read(slot.wake, &count, sizeof count);
}

// A job that nobody wants any more does not wait for the worker in front of it.
void WorkerPool::endStopped() {
  std::vector<std::unique_ptr<Queued>> stopped;
  {
    const std::lock_guard lock(m_mutex);
    for (auto* queue : {&m_urgent, &m_background})
      for (auto it = queue->begin(); it != queue->end();)
        if ((*it)->job.stop.stop_requested()) {
          stopped.push_back(std::move(*it));
          it = queue->erase(it);
        } else {
          ++it;
        }
  }
  for (const auto& queued : stopped) {
    queued->onStop.reset();
    Attempt attempt;
    attempt.cancelled = true;
    queued->job.attempted(std::move(attempt));
  }
}

std::unique_ptr<WorkerPool::Queued> WorkerPool::take(const Slot& slot) {
  const std::lock_guard lock(m_mutex);
  const bool background = !m_options.firstKeepsPriority || slot.index != 0 || m_slots.size() == 1;
  std::deque<std::unique_ptr<Queued>>* queue = !m_urgent.empty() ? &m_urgent : background ? &m_background : nullptr;
  if (!queue || queue->empty()) return nullptr;
  auto queued = std::move(queue->front());
  queue->pop_front();
  return queued;
}

bool WorkerPool::ensureProcess(Slot& slot, std::string& error) {
  if (slot.process && !slot.process->hungUp()) return true;
  if (slot.process) ++m_died;
  slot.process.reset();
  slot.pid = 0;
  slot.memory = {};
  auto process = WorkerProcess::start(m_options.command);
  if (!process) {
    error = process.error().message + ": " + process.error().detail;
    return false;
  }
  slot.process = std::move(*process);
  slot.pid = slot.process->pid();
  slot.born = std::chrono::steady_clock::now();
  ++m_started;
  return true;
}

void WorkerPool::run(Slot& slot) {
  std::string error;
  bool eager = true;
  while (!m_ending) {
    endStopped();
    if (eager) ensureProcess(slot, error);
    if (auto queued = take(slot)) {
      work(slot, *queued);
      eager = true;
      continue;
    }
    // An idle worker that dies is replaced at once, unless it died at birth: then the next job starts one.
    const bool dead = slot.process && slot.process->hungUp();
    if (dead) {
      eager = std::chrono::steady_clock::now() - slot.born > std::chrono::milliseconds(100);
      if (eager) continue;
      ++m_died;
      slot.process.reset();
      slot.pid = 0;
    }
    pollfd fds[2] = {{slot.wake, POLLIN, 0}, {slot.process ? slot.process->descriptor() : -1, POLLIN, 0}};
    poll(fds, 2, -1);
    drain(slot);
  }
  slot.process.reset();
  slot.pid = 0;
}

void WorkerPool::work(Slot& slot, Queued& queued) {
  Job& job = queued.job;
  for (;;) {
    Attempt attempt;
    const bool stopped = m_ending || job.stop.stop_requested();
    if (stopped) {
      attempt.cancelled = true;
    } else if (ensureProcess(slot, attempt.startError)) {
      bool cancelled = false;
      attempt.reply = slot.process->exchange(job.request(slot.memory), std::chrono::steady_clock::now() + job.deadline(), slot.wake,
                                             [&]() -> std::optional<WorkerProcess::Time> {
                                               drain(slot);
                                               endStopped();
                                               const auto now = std::chrono::steady_clock::now();
                                               if (m_ending) return cancelled = true, now;
                                               if (!cancelled && job.stop.stop_requested()) return cancelled = true, now + kGrace;
                                               return std::nullopt;
                                             });
      if (attempt.reply.failure != WorkerProcess::Failure::None) {
        attempt.cancelled = cancelled && attempt.reply.failure == WorkerProcess::Failure::Deadline;
        (attempt.reply.failure == WorkerProcess::Failure::Deadline ? m_deadlines : m_died) += !attempt.cancelled;
        slot.process.reset();
        slot.pid = 0;
      } else if (job.ends && job.ends(attempt.reply.frame)) {
        ++m_died;
        slot.process.reset();
        slot.pid = 0;
      }
    }
    const bool cancelled = attempt.cancelled;
    if (cancelled) queued.onStop.reset();
    if (job.attempted(std::move(attempt)) || cancelled) return;
  }
}

}  // namespace nf
