// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/device/backend.h"
#include "plugins/cpu/linker.h"
#include "plugins/cpu/thread_pool.h"

namespace nf::cpu {

// Linked code as a step launches it.
class CpuKernel final : public Kernel {
 public:
  CpuKernel(const KernelObject& object, Linker::Linked linked, std::shared_ptr<ThreadPool> pool);
  Result<Unit> launch(const LaunchArgs& args) override;

 private:
  Linker::Linked m_linked;
  std::vector<std::int64_t> m_tasks;  // of each stage
  std::vector<std::string> m_checks;
  std::shared_ptr<ThreadPool> m_pool;
  bool m_alone;
};

}  // namespace nf::cpu
