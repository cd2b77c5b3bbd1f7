// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>

namespace nf {

// Time as the loops see it, so that tests run them on a fake one.
class Clock {
 public:
  using Time = std::chrono::nanoseconds;  // since an arbitrary start
  virtual ~Clock() = default;
  virtual Time now() const = 0;
  // Waits on `changed` until `ready`, a stop request, or `until`. Returns ready().
  virtual bool waitUntil(std::unique_lock<std::mutex>& lock, std::condition_variable_any& changed, std::stop_token stop, Time until,
                         const std::function<bool()>& ready) = 0;
};

class SteadyClock final : public Clock {
 public:
  Time now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
  bool waitUntil(std::unique_lock<std::mutex>& lock, std::condition_variable_any& changed, std::stop_token stop, Time until,
                 const std::function<bool()>& ready) override {
    return changed.wait_until(lock, stop, std::chrono::steady_clock::time_point(until), ready);
  }
};

}  // namespace nf
