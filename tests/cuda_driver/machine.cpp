// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_driver/machine.h"

#include <gtest/gtest.h>

#include "core/ir/structural_hash.h"
#include "core/schedule/lower.h"
#include "plugins/cuda/compiler.h"
#include "plugins/cuda/device.h"
#include "plugins/cuda/emit.h"
#include "tests/cuda/host_run.h"

namespace nf::test {
namespace {

// In binding order: what no operator makes, then the outputs.
std::vector<DType> operandsOf(const Program& program) {
  std::vector<DType> types;
  const std::vector<OperatorId> made = producers(program);
  for (std::size_t t = 0; t < program.tensors.size(); ++t)
    if (!made[t].valid()) types.push_back(program.tensors[t].type);
  for (const Output& o : program.outputs) types.push_back(program[o.tensor].type);
  return types;
}

struct Emitted {
  KernelObject object;
  cuda::EmittedSource source;
};

Result<Emitted> emitted(const CompileRequest& request, const std::string& architecture) {
  NF_TRY(const Target target, cuda::nominalTarget(architecture));
  NF_TRY(const auto space, scheduleSpace(request.subgraph, target));
  Emitted made;
  made.object.backend = "cuda";
  made.object.generator = "double";
  made.object.subgraph = structuralHash(request.subgraph);
  made.object.schedule = request.schedule.kind == "reference" ? space->first() : request.schedule;
  NF_TRY(const loop::Function function, lower(request.subgraph, made.object.schedule, target));
  made.object.workspaceBytes = function.workspaceBytes;
  made.object.flops = function.flops;
  made.object.checks = function.checks;
  NF_TRY(made.source, cuda::emit(function));
  made.object.stages = made.source.stages;
  return made;
}

}  // namespace

Result<KernelObject> HostCompiler::compile(const CompileRequest& request) {
  NF_TRY(Emitted made, emitted(request, m_architecture));
  NF_TRY(made.object.code, hostModule(made.source, operandsOf(request.subgraph)));
  return std::move(made.object);
}

Result<KernelObject> failingKernel(const Program& program, int code) {
  NF_TRY(Emitted made, emitted({program, {"reference", nullptr}, {}}, "sm_80"));
  std::string text;
  for (const KernelStage& s : made.object.stages) {
    text +=
        "extern \"C\" {\nextern const unsigned long " + s.symbol + "_bytes[];\nconst unsigned long " + s.symbol + "_bytes[] = {";
    for (std::size_t t = 0; t < operandsOf(program).size(); ++t) text += "8, ";
    text += "8, 64, 8, 8, 4, 0};\nint " + s.symbol + "(void**, unsigned, unsigned) { return " + std::to_string(code) + "; }\n}\n";
  }
  NF_TRY(made.object.code, hostModuleOf(text));
  return std::move(made.object);
}

std::unique_ptr<Device> openDouble(int number) {
  auto device = cuda::openDevice(number);
  EXPECT_TRUE(device.ok()) << (device.ok() ? "" : device.error().message + " " + device.error().detail);
  return device.ok() ? std::move(*device) : nullptr;
}

}  // namespace nf::test
