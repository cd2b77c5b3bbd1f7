// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "core/device/backend.h"
#include "core/device/profiler.h"

namespace nf::fakes {

// The interpreter with an account of its own: of each launch two kernels of 30 and 10 us on stream 7, and of each recording one copy that
// nobody announced.
class ProfiledDevice final : public Device, public Profiler {
 public:
  explicit ProfiledDevice(std::unique_ptr<Device> inner) : m_inner(std::move(inner)) {}

  std::string name() const override { return m_inner->name(); }
  std::string description() const override { return m_inner->description(); }
  const Target& target() const override { return m_inner->target(); }
  Result<void*> allocate(std::int64_t bytes) override { return m_inner->allocate(bytes); }
  void release(void* memory) override { m_inner->release(memory); }
  Result<Unit> copyIn(void* to, const void* from, std::int64_t bytes) override { return m_inner->copyIn(to, from, bytes); }
  Result<Unit> copyOut(void* to, const void* from, std::int64_t bytes) override { return m_inner->copyOut(to, from, bytes); }
  Result<Unit> copy(void* to, const void* from, std::int64_t bytes) override { return m_inner->copy(to, from, bytes); }
  bool storesDoubles() const override { return m_inner->storesDoubles(); }
  Result<std::unique_ptr<Kernel>> link(const KernelObject& object) override { return m_inner->link(object); }
  Result<Unit> synchronize() override { return m_inner->synchronize(); }
  Profiler* profiler() override { return this; }

  Result<Unit> start() override {
    if (!refuses.empty()) return Error{kCountersStage, refuses, name(), {}};
    m_activities.clear();
    ++started;
    return Unit{};
  }
  void launching(std::uint64_t launch) override {
    if (launch == DeviceActivity::kNoLaunch) return;
    const std::int64_t at = now();
    if (m_activities.empty())
      m_activities.push_back({DeviceActivity::Kind::Copy, at, at + 5'000, DeviceActivity::kNoLaunch, 8, 96});
    m_activities.push_back({DeviceActivity::Kind::Kernel, at, at + 30'000, launch, 7, 0, "first"});
    m_activities.push_back({DeviceActivity::Kind::Kernel, at + 30'000, at + 40'000, launch, 7, 0, "second"});
  }
  Result<std::vector<DeviceActivity>> stop() override { return std::exchange(m_activities, {}); }
  Result<KernelCounters> count(const std::function<Result<Unit>()>& launch) override {
    if (!refuses.empty()) return Error{kCountersStage, refuses, name(), {}};
    for (int pass = 0; pass < 3; ++pass) { NF_TRY([[maybe_unused]] const Unit ran, launch()); }
    KernelCounters c;
    c.us = 40;
    c.flops = 1000 + counted++;
    c.stalls = {{"long_scoreboard", 0.5}};
    return c;
  }

  std::string refuses;  // why it gives no account
  int started = 0, counted = 0;

 private:
  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  std::unique_ptr<Device> m_inner;
  std::vector<DeviceActivity> m_activities;
};

}  // namespace nf::fakes
