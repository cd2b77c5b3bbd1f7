// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "core/device/backend.h"

namespace nf::test {

// The CUDA back end's own loops and CUDA C, compiled for the driver double.
class HostCompiler final : public Compiler {
 public:
  explicit HostCompiler(std::string architecture = "sm_80") : m_architecture(std::move(architecture)) {}
  // A schedule of the kind "reference" stands for the space's first one.
  Result<KernelObject> compile(const CompileRequest& request) override;

 private:
  std::string m_architecture;
};

// A kernel of this program whose every launch ends in the driver's error `code`.
Result<KernelObject> failingKernel(const Program& program, int code);

// A device of the CUDA back end on the driver double.
std::unique_ptr<Device> openDouble(int number);

}  // namespace nf::test
