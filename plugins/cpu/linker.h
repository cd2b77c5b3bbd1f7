// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/support/result.h"
#include "plugins/cpu/kernel_call.h"

namespace nf::cpu {

// Relocatable objects to callable code in this process. Links only: no code generator runs here. Thread-safe.
class Linker {
 public:
  static Result<std::shared_ptr<Linker>> make();
  virtual ~Linker() = default;
  // Code of one object; it is unmapped when the last owner is gone.
  struct Linked {
    std::shared_ptr<void> owner;
    std::vector<StageEntry> entries;
  };
  virtual Result<Linked> link(std::span<const std::byte> object, const std::vector<std::string>& symbols) = 0;
};

}  // namespace nf::cpu
