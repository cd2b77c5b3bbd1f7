// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/kernel.h"

#include <utility>

#include "plugins/cpu/flush_denormals.h"

namespace nf::cpu {
namespace {

// Below this a kernel is over before another thread has woken up.
constexpr std::int64_t kAloneFlops = 20000;

}  // namespace

CpuKernel::CpuKernel(const KernelObject& object, Linker::Linked linked, std::shared_ptr<ThreadPool> pool)
    : m_linked(std::move(linked)), m_checks(object.checks), m_pool(std::move(pool)), m_alone(object.flops < kAloneFlops) {
  for (const KernelStage& s : object.stages) m_tasks.push_back(s.tasks);
}

Result<Unit> CpuKernel::launch(const LaunchArgs& args) {
  const FlushDenormals flush;
  std::int64_t status[2] = {0, 0};
  const KernelCall call{args.tensors.data(), args.workspace, args.counters.data(),           args.seed,
                        args.step,           status,         args.stop ? args.stop : &kNever};
  for (std::size_t s = 0; s < m_tasks.size(); ++s) {
    if (m_alone) m_linked.entries[s](&call, 0, m_tasks[s]);
    else m_pool->run(m_linked.entries[s], call, m_tasks[s]);
    if (call.stop->load(std::memory_order_relaxed)) return stopped();
    if (status[0] == 0) continue;
    const auto check = static_cast<std::size_t>(status[0] - 1);
    const std::string what = check < m_checks.size() ? m_checks[check] : "an index is out of range";
    return Error{"run", what + ": it is " + std::to_string(status[1]), "cpu", {}};
  }
  return Unit{};
}

}  // namespace nf::cpu
