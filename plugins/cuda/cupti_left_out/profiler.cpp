// SPDX-License-Identifier: Apache-2.0
// For builds that have found no CUPTI headers.
#include "plugins/cuda/profiler.h"

namespace nf::cuda {
namespace {

constexpr const char* kLeftOut = "This program was built without the headers of CUPTI, NVIDIA's library for profiles.";

class LeftOut final : public Profiler {
 public:
  Result<Unit> start() override { return refusal(); }
  void launching(std::uint64_t) override {}
  Result<std::vector<DeviceActivity>> stop() override { return refusal(); }
  Result<KernelCounters> count(const std::function<Result<Unit>()>&) override { return refusal(); }

 private:
  static Error refusal() { return {kCountersStage, kLeftOut, "cuda", {}}; }
};

}  // namespace

std::unique_ptr<Profiler> makeProfiler(ProfiledContext) { return std::make_unique<LeftOut>(); }
std::string profilerVersion() { return kLeftOut; }

}  // namespace nf::cuda
