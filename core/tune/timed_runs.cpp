// SPDX-License-Identifier: Apache-2.0
#include "core/tune/timed_runs.h"

#include <algorithm>

namespace nf {

TimedRuns::TimedRuns(Device& device, std::function<Result<Unit>()> run, std::function<std::int64_t()> now,
                     std::function<void()> before)
    : m_device(device), m_run(std::move(run)), m_now(std::move(now)), m_before(std::move(before)),
      m_queued(device.recorder() != nullptr) {}

Result<double> TimedRuns::operator()() {
  m_before();
  const std::int64_t wanted = m_queued ? kQueuedSample : kSample, most = m_queued ? kMostRecorded : kMostRuns;
  for (;;) {
    NF_TRY(const std::int64_t duration, sample());
    if (duration >= wanted / 2 || m_runs >= most) return static_cast<double>(duration) / static_cast<double>(m_runs) / 1000;
    m_runs = std::min(most, m_runs * (wanted / duration + 1));
    NF_TRY([[maybe_unused]] const Unit recorded, record());
  }
}

Result<std::int64_t> TimedRuns::sample() {
  const std::int64_t start = m_now();
  if (m_graph) {
    NF_TRY([[maybe_unused]] const Unit replayed, m_graph->replay(kSeed, kStep));
  } else {
    for (std::int64_t n = 0; n < m_runs; ++n) { NF_TRY([[maybe_unused]] const Unit ran, m_run()); }
  }
  NF_TRY([[maybe_unused]] const Unit ended, m_device.synchronize());
  return std::max<std::int64_t>(m_now() - start, 1);
}

Result<Unit> TimedRuns::record() {
  LaunchRecorder* const recorder = m_device.recorder();
  if (!recorder || m_refused) return Unit{};
  m_refused = true;
  if (!recorder->begin()) return Unit{};
  for (std::int64_t n = 0; n < m_runs; ++n) {
    if (const auto ran = m_run(); !ran) {
      recorder->discard();
      return ran.error();
    }
  }
  auto graph = recorder->end(std::move(m_graph));
  if (!graph) return Unit{};
  m_graph = std::move(*graph);
  m_refused = false;
  // Its first launch brings it to the device.
  NF_TRY([[maybe_unused]] const Unit replayed, m_graph->replay(kSeed, kStep));
  return m_device.synchronize();
}

}  // namespace nf
