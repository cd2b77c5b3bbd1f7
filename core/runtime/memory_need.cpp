// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/memory_need.h"

#include <unistd.h>

#include <algorithm>

#include "core/support/scaled_text.h"

namespace nf {
namespace {

std::string text(double bytes) { return bytesText(static_cast<std::int64_t>(std::min(bytes, 9.2e18))); }

}  // namespace

MemoryNeed memoryNeed(const ExecutionPlan& plan, bool doubles) {
  const Program& program = *plan.main.program;
  MemoryNeed need;
  const auto bytesOfTensor = [&](TensorId t) {
    double elements = 1;
    for (const std::int64_t extent : program[t].shape) elements *= static_cast<double>(extent);
    return elements * (doubles ? 8 : static_cast<double>(bytesOf(program[t].type)));
  };
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    if (!plan.persistent[t]) continue;
    const double bytes = bytesOfTensor(TensorId(t));
    need.bytes += bytes;
    if (bytes > need.largestBytes) need.largest = TensorId(t), need.largestBytes = bytes;
  }
  for (const PlannedUpdate& u : plan.updates) need.bytes += bytesOfTensor(u.target);
  need.bytes += static_cast<double>(plan.main.arenaBytes);
  return need;
}

double machineMemory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<double>(pages) * static_cast<double>(::sysconf(_SC_PAGE_SIZE)) : 0;
}

std::optional<Error> tooLarge(const MemoryNeed& need, const Program& program, double machine) {
  if (machine <= 0 || need.bytes <= machine) return std::nullopt;
  std::string message = "There is no memory for ";
  if (need.largestBytes > machine) message += program[need.largest].name + ": it takes " + text(need.largestBytes);
  else if (need.largest.valid())
    message += "a step: it takes " + text(need.bytes) + ", " + program[need.largest].name + " alone " + text(need.largestBytes);
  else message += "a step: it takes " + text(need.bytes);
  return Error{"allocate", message + ", and this machine has " + text(machine) + ".", {}, {}};
}

std::optional<Diagnostic> muchMemory(const MemoryNeed& need, const Program& program, double machine) {
  if (machine <= 0 || need.bytes <= machine / 2 || need.bytes > machine) return std::nullopt;
  Diagnostic d;
  d.severity = Severity::Warning;
  d.code = "much-memory";
  d.message = "a step takes " + text(need.bytes) + " of memory, more than half of the " + text(machine) + " that this machine has";
  if (need.largest.valid()) {
    d.message += "; the largest tensor is `" + program[need.largest].name + "` with " + text(need.largestBytes);
    if (const OriginId origin = program[need.largest].origin; origin.valid()) d.span = program[origin].span;
  }
  return d;
}

}  // namespace nf
