// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference_kernel.h"

#include "core/device/reference_code.h"
#include "core/device/reference_execution.h"
#include "core/device/reference_preparation.h"

namespace nf {

ReferenceKernel::ReferenceKernel(std::unique_ptr<Code> code) : m_code(std::move(code)) {}
ReferenceKernel::ReferenceKernel(ReferenceKernel&&) noexcept = default;
ReferenceKernel& ReferenceKernel::operator=(ReferenceKernel&&) noexcept = default;
ReferenceKernel::~ReferenceKernel() = default;

Result<ReferenceKernel> ReferenceKernel::prepare(const Program& program, const Operator& op, bool training,
                                                 std::span<const std::int64_t> counterTrips, Storage storage) {
  auto code = std::make_unique<Code>();
  code->rounds = storage == Storage::Rounded;
  code->outputType = program[op.output].type;
  NF_TRY([[maybe_unused]] const Unit done, reference::prepare(program, op, training, counterTrips, *code));
  return ReferenceKernel(std::move(code));
}

TensorId ReferenceKernel::output() const { return m_code->output; }

Result<Unit> ReferenceKernel::run(const Bindings& bindings) const {
  if (bindings.counters.size() < m_code->counters)
    return Error{"interpret", "operator " + m_code->name + " stands in a loop and was run without its counter", "reference", {}};
  NF_TRY(const Unit ran, reference::execute(*m_code, bindings));
  if (m_code->rounds && (m_code->outputType == DType::F16 || m_code->outputType == DType::BF16))
    for (double& value : *bindings.output) value = storedAs(m_code->outputType, value);
  return ran;
}

}  // namespace nf
