// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <pthread.h>
#include <unistd.h>
#include <atomic>
#include <csignal>
#include <stop_token>
#include <thread>

namespace nf {

inline constexpr char kStoppedSentence[] = "neoflow: Stopped before the result was there.\n";

extern "C" inline void endWithSentence(int signal) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kStoppedSentence, sizeof kStoppedSentence - 1);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// Of what cannot be stopped in order, or not yet: it ends by the signal, and says so. What was ignored stays so.
inline void saySentenceOnSignal() {
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) std::signal(number, endWithSentence);
  }
}

// Interrupt, termination and a closed terminal (unless it is ignored, as under nohup) ask the job to stop; a second one ends the
// process. A thread of its own waits for the signals, so that no handler runs in the middle of anything. Made before other threads,
// which inherit the mask.
class StopOnSignal {
 public:
  StopOnSignal() {
    sigemptyset(&m_signals);
    sigaddset(&m_signals, SIGINT);
    sigaddset(&m_signals, SIGTERM);
    struct sigaction hangup {};
    if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&m_signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &m_signals, &m_before);
    m_thread = std::thread([this] {
      for (bool again = false;; again = true) {
        int signal = 0;
        if (sigwait(&m_signals, &signal) != 0 || m_over) return;
        if (again) _exit(128 + signal);
        m_stop.request_stop();
      }
    });
  }
  ~StopOnSignal() {
    m_over = true;
    // To this thread alone, and one that it waits for anyway: no other signal loses its meaning.
    pthread_kill(m_thread.native_handle(), SIGTERM);
    m_thread.join();
    pthread_sigmask(SIG_SETMASK, &m_before, nullptr);
  }
  std::stop_token token() const { return m_stop.get_token(); }

 private:
  sigset_t m_signals{}, m_before{};
  std::stop_source m_stop;
  std::atomic<bool> m_over{false};
  std::thread m_thread;
};

}  // namespace nf
