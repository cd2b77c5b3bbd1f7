// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/profiler.h"

#include <optional>

#include "plugins/cuda/cupti/activities.h"
#include "plugins/cuda/cupti/counters.h"
#include "plugins/cuda/cupti/cupti_profiler.h"

namespace nf::cuda {
namespace {

class CuptiProfiler final : public Profiler {
 public:
  CuptiProfiler(ProfiledContext context, const Cupti* cupti) : m_context(std::move(context)), m_cupti(cupti) {}

  Result<Unit> start() override {
    NF_TRY([[maybe_unused]] const Unit opened, open());
    // What was queued before belongs to nobody.
    NF_TRY([[maybe_unused]] const Unit waited, m_context.synchronize());
    return m_activities->start();
  }
  void launching(std::uint64_t launch) override {
    if (m_activities) m_activities->launching(launch);
  }
  Result<std::vector<DeviceActivity>> stop() override {
    NF_TRY([[maybe_unused]] const Unit opened, open());
    const auto waited = m_context.synchronize();
    auto activities = m_activities->stop();
    if (!waited) return waited.error();
    return activities;
  }
  Result<KernelCounters> count(const std::function<Result<Unit>()>& launch) override {
    NF_TRY([[maybe_unused]] const Unit opened, open());
    const auto launchAndWait = [&]() -> Result<Unit> {
      NF_TRY([[maybe_unused]] const Unit launched, launch());
      return m_context.synchronize();
    };
    // What the kernel finds in caches is what it finds in a step that has just run it.
    NF_TRY([[maybe_unused]] const Unit warm, launchAndWait());
    NF_TRY(KernelCounters counters, countRange(*m_cupti, m_context.context, m_context.number, launchAndWait));
    SampledLines sampled = sampleLines(*m_cupti, m_context.context, launchAndWait, m_context.code);
    counters.lines = std::move(sampled.lines);
    counters.withoutLines = std::move(sampled.without);
    return counters;
  }

 private:
  Result<Unit> open() {
    if (!m_cupti) { NF_TRY(m_cupti, Cupti::get()); }
    if (!m_activities) m_activities.emplace(*m_cupti, m_context.number);
    return Unit{};
  }
  ProfiledContext m_context;
  const Cupti* m_cupti;
  std::optional<Activities> m_activities;
};

}  // namespace

std::unique_ptr<Profiler> makeProfiler(ProfiledContext context) { return makeProfiler(std::move(context), nullptr); }

std::unique_ptr<Profiler> makeProfiler(ProfiledContext context, const Cupti* cupti) {
  return std::make_unique<CuptiProfiler>(std::move(context), cupti);
}

std::string profilerVersion() {
  const auto cupti = Cupti::get();
  if (!cupti) return cupti.error().message;
  const std::uint32_t number = (*cupti)->number;
  // From CUDA 13 on the number is that of the toolkit, before it counts releases of CUPTI.
  const std::string version = number >= 100000 ? std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100)
                                               : "interface " + std::to_string(number);
  return (*cupti)->hasRanges ? version : version + ", without the range profiler of 12.6";
}

}  // namespace nf::cuda
