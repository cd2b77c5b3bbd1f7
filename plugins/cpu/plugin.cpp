// SPDX-License-Identifier: Apache-2.0
#include <llvm/Config/llvm-config.h>

#include "plugins/cpu/plugin.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "plugins/cpu/codegen.h"
#include "plugins/cpu/kernel.h"
#include "plugins/cpu/linker.h"
#include "plugins/cpu/machine.h"
#include "plugins/cpu/thread_pool.h"

namespace nf::cpu {
namespace {

Error failure(const char* stage, const std::string& message) { return Error{stage, message, "cpu", {}}; }

class CpuDevice final : public Device {
 public:
  CpuDevice(Target target, std::shared_ptr<Linker> linker)
      : m_target(std::move(target)), m_linker(std::move(linker)),
        m_pool(std::make_shared<ThreadPool>(static_cast<int>(m_target.threads))) {}

  std::string name() const override { return "cpu"; }
  std::string description() const override { return hostDescription(static_cast<int>(m_target.threads)); }
  const Target& target() const override { return m_target; }

  Result<void*> allocate(std::int64_t bytes) override {
    if (bytes < 0) return failure("allocate", "a negative size was asked for");
    const std::size_t rounded = (static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)) + 63) / 64 * 64;
    void* memory = std::aligned_alloc(64, rounded);
    if (!memory) return failure("allocate", "there is no memory for " + std::to_string(bytes) + " bytes");
    return memory;
  }
  void release(void* memory) override { std::free(memory); }
  Result<Unit> copyIn(void* to, const void* from, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return Unit{};
  }
  Result<Unit> copyOut(void* to, const void* from, std::int64_t bytes) override { return copyIn(to, from, bytes); }
  Result<Unit> synchronize() override { return Unit{}; }

  Result<std::unique_ptr<Kernel>> link(const KernelObject& object) override {
    if (object.backend != "cpu") return failure("link", "the kernel was compiled for " + object.backend);
    std::vector<std::string> symbols;
    for (const KernelStage& s : object.stages) symbols.push_back(s.symbol);
    NF_TRY(Linker::Linked linked, m_linker->link(object.code, symbols));
    return std::unique_ptr<Kernel>(std::make_unique<CpuKernel>(object, std::move(linked), m_pool));
  }

 private:
  Target m_target;
  std::shared_ptr<Linker> m_linker;
  std::shared_ptr<ThreadPool> m_pool;
};

int threadsOr(int threads) {
  if (threads > 0) return threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

class CpuBackend final : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  std::vector<std::string> deviceNames() override { return {"cpu"}; }

  Result<std::unique_ptr<Device>> open(const std::string& device, int threads) override {
    NF_TRY(Target t, target(device, threads));
    NF_TRY(std::shared_ptr<Linker> linker, Linker::make());
    return std::unique_ptr<Device>(std::make_unique<CpuDevice>(std::move(t), std::move(linker)));
  }

  Result<Target> target(const std::string& device, int threads) override {
    if (device != "cpu") return failure("open", "there is no device " + device);
    return measuredHost(threadsOr(threads));
  }

  Result<std::unique_ptr<Compiler>> compiler(const Target& target) override { return makeCompiler(target); }

  Result<Target> measureAgain(const std::string& device, int threads) override {
    if (device != "cpu") return failure("measure", "there is no device " + device);
    return measuredHost(threadsOr(threads), true);
  }

  About about(const std::string&, int threads) override {
    const Measurements m = measurements(threadsOr(threads));
    return {hostDescription(threadsOr(threads)),
            m.at,
            m.bandwidth,
            m.flopRate,
            m.launchSeconds,
            m.l2Bandwidth,
            describeHost(threadsOr(threads)).l2Bytes * threadsOr(threads),
            {{"LLVM", LLVM_VERSION_STRING}, {"code generator", std::to_string(kCodeGeneratorVersion)}}};
  }
};

}  // namespace
}  // namespace nf::cpu

extern "C" nf::Backend* neoflowPlugin(std::uint32_t version) {
  static nf::cpu::CpuBackend backend;
  return version == nf::kPluginVersion ? &backend : nullptr;
}
