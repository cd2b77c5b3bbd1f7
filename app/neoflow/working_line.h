// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <unistd.h>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace nf {

// Says on standard error, where that is a terminal, what a command is at, when it takes longer than a second, and then every ten. A file
// or a script that reads it gets what is wrong alone. Its thread inherits what signals are masked: where StopOnSignal is used, it is
// made first.
//   neoflow: deriving the gradient, 11 s
class WorkingLine {
 public:
  // quiet: nothing is said.
  WorkingLine(std::string what, bool quiet) : m_what(std::move(what)) {
    if (quiet || isatty(STDERR_FILENO) == 0) return;
    m_thread = std::jthread([this](const std::stop_token& stop) {
      const auto begin = std::chrono::steady_clock::now();
      std::unique_lock lock(m_mutex);
      for (std::chrono::seconds at{1};; at += std::chrono::seconds(10)) {
        m_over.wait_until(lock, stop, begin + at, [] { return false; });
        if (stop.stop_requested()) return;
        std::fprintf(stderr, "neoflow: %s, %lld s\n", m_what.c_str(), static_cast<long long>(at.count()));
      }
    });
  }
  void now(std::string what) {
    const std::scoped_lock lock(m_mutex);
    m_what = std::move(what);
  }
  // Nothing is said from here on.
  void end() {
    if (!m_thread.joinable()) return;
    m_thread.request_stop();
    m_thread.join();
  }

 private:
  std::mutex m_mutex;
  std::condition_variable_any m_over;
  std::string m_what;
  std::jthread m_thread;
};

}  // namespace nf
