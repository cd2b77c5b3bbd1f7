// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/linker.h"

#include <atomic>
#include <cmath>
#include <cstring>

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/MemoryBuffer.h>

namespace nf::cpu {
namespace {

using namespace llvm::orc;

Error failure(const std::string& message, llvm::Error error) {
  return Error{"link", message, "cpu", llvm::toString(std::move(error))};
}

template <class F>
ExecutorSymbolDef symbol(F* function) {
  return {ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
}

// What generated code may call, and nothing else of this process.
SymbolMap runtime(ExecutionSession& session) {
  SymbolMap map;
  using F1 = float (*)(float);
  using F2 = float (*)(float, float);
  using D1 = double (*)(double);
  using D2 = double (*)(double, double);
  const auto add = [&](const char* name, auto function) { map[session.intern(name)] = symbol(function); };
  add("expf", static_cast<F1>(std::exp));
  add("logf", static_cast<F1>(std::log));
  add("tanhf", static_cast<F1>(std::tanh));
  add("erff", static_cast<F1>(std::erf));
  add("sinf", static_cast<F1>(std::sin));
  add("cosf", static_cast<F1>(std::cos));
  add("powf", static_cast<F2>(std::pow));
  add("exp", static_cast<D1>(std::exp));
  add("log", static_cast<D1>(std::log));
  add("tanh", static_cast<D1>(std::tanh));
  add("erf", static_cast<D1>(std::erf));
  add("sin", static_cast<D1>(std::sin));
  add("cos", static_cast<D1>(std::cos));
  add("pow", static_cast<D2>(std::pow));
  add("floorf", static_cast<F1>(std::floor));
  add("floor", static_cast<D1>(std::floor));
  add("rintf", static_cast<F1>(std::rint));
  add("rint", static_cast<D1>(std::rint));
  add("fmaf", static_cast<float (*)(float, float, float)>(std::fma));
  add("fma", static_cast<double (*)(double, double, double)>(std::fma));
  add("memcpy", static_cast<void* (*)(void*, const void*, std::size_t)>(std::memcpy));
  add("memset", static_cast<void* (*)(void*, int, std::size_t)>(std::memset));
  add("memmove", static_cast<void* (*)(void*, const void*, std::size_t)>(std::memmove));
  return map;
}

class OrcLinker final : public Linker, public std::enable_shared_from_this<OrcLinker> {
 public:
  explicit OrcLinker(std::unique_ptr<ExecutorProcessControl> control) : m_session(std::move(control)), m_layer(m_session) {
    m_session.setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });
  }
  ~OrcLinker() override { llvm::consumeError(m_session.endSession()); }

  Result<Linked> link(std::span<const std::byte> object, const std::vector<std::string>& symbols) override {
    JITDylib& library = m_session.createBareJITDylib("kernel" + std::to_string(m_next++));
    std::shared_ptr<void> owner(static_cast<void*>(&library), [self = shared_from_this()](void* l) {
      llvm::consumeError(self->m_session.removeJITDylib(*static_cast<JITDylib*>(l)));
    });
    if (auto error = library.define(absoluteSymbols(runtime(m_session))))
      return failure("the kernel's symbols clash", std::move(error));
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(reinterpret_cast<const char*>(object.data()), object.size()),
                                                       library.getName());
    if (auto error = m_layer.add(library, std::move(buffer)))
      return failure("the kernel's object cannot be read", std::move(error));
    Linked linked;
    linked.owner = std::move(owner);
    SymbolLookupSet wanted;
    for (const std::string& name : symbols) wanted.add(m_session.intern(name));
    auto found = m_session.lookup({{&library, JITDylibLookupFlags::MatchAllSymbols}}, wanted);
    if (!found) return failure("the kernel cannot be linked", found.takeError());
    for (const std::string& name : symbols)
      linked.entries.push_back((*found)[m_session.intern(name)].getAddress().toPtr<StageEntry>());
    return linked;
  }

 private:
  ExecutionSession m_session;
  ObjectLinkingLayer m_layer;
  std::atomic<std::uint64_t> m_next{0};
};

}  // namespace

Result<std::shared_ptr<Linker>> Linker::make() {
  auto control = SelfExecutorProcessControl::Create();
  if (!control) return failure("LLVM's linker cannot serve this process", control.takeError());
  return std::shared_ptr<Linker>(std::make_shared<OrcLinker>(std::move(*control)));
}

}  // namespace nf::cpu
