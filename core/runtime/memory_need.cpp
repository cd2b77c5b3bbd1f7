// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/memory_need.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "core/support/scaled_text.h"

namespace nf {
namespace {

std::string text(double bytes) { return bytesText(static_cast<std::int64_t>(std::min(bytes, 9.2e18))); }

Diagnostic warning(const MemoryNeed& need, const Program& program, const std::string& against) {
  Diagnostic d;
  d.severity = Severity::Warning;
  d.code = "much-memory";
  d.message = "a step takes " + text(need.bytes) + " of memory" + against;
  if (need.largest.valid()) {
    d.message += "; the largest tensor is `" + program[need.largest].name + "` with " + text(need.largestBytes);
    if (const OriginId origin = program[need.largest].origin; origin.valid()) d.span = program[origin].span;
  }
  return d;
}

}  // namespace

MemoryNeed memoryNeed(const ExecutionPlan& plan, bool doubles, bool readsBack) {
  const Program& program = *plan.main.program;
  MemoryNeed need;
  const auto bytesOfTensor = [&](TensorId t) {
    double elements = 1;
    for (const std::int64_t extent : program[t].shape) elements *= static_cast<double>(extent);
    return elements * (doubles ? 8 : static_cast<double>(bytesOf(program[t].type)));
  };
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    const bool inArena = t < plan.main.offsets.size() && plan.main.offsets[t] >= 0;
    if (!plan.persistent[t] && !inArena) continue;
    const double bytes = bytesOfTensor(TensorId(t));
    if (plan.persistent[t]) need.bytes += bytes;
    if (bytes > need.largestBytes) need.largest = TensorId(t), need.largestBytes = bytes;
  }
  for (const PlannedUpdate& u : plan.updates) need.bytes += bytesOfTensor(u.target);
  need.bytes += static_cast<double>(plan.main.arenaBytes);
  for (const Output& o : program.outputs)
    if (readsBack) need.readBytes = std::max(need.readBytes, bytesOfTensor(o.tensor));
  need.bytes += need.readBytes;
  return need;
}

std::string MemoryLimit::text() const {
  return (ofProcess ? "a limit (`ulimit -v`) allows " : "this machine has ") + nf::text(bytes);
}

MemoryLimit memoryLimit() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  MemoryLimit memory;
  if (pages > 0) memory.bytes = static_cast<double>(pages) * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return memory;
  const auto allowed = static_cast<double>(limit.rlim_cur);
  return memory.bytes > 0 && memory.bytes <= allowed ? memory : MemoryLimit{allowed, true};
}

std::optional<Error> tooLarge(const MemoryNeed& need, const Program& program, const MemoryLimit& limit) {
  if (limit.bytes <= 0 || need.bytes <= limit.bytes) return std::nullopt;
  std::string message = "There is no memory for ";
  if (need.largestBytes > limit.bytes) message += program[need.largest].name + ": it takes " + text(need.largestBytes);
  else if (need.largest.valid())
    message += "a step: it takes " + text(need.bytes) + ", " + program[need.largest].name + " alone " + text(need.largestBytes);
  else message += "a step: it takes " + text(need.bytes);
  if (need.largestBytes <= limit.bytes && need.readBytes > 0) message += ", of that " + text(need.readBytes) + " to show a tensor";
  return Error{"allocate", message + ", and " + limit.text() + ".", {}, {}};
}

std::optional<Diagnostic> muchMemory(const MemoryNeed& need, const Program& program, const MemoryLimit& limit) {
  if (limit.bytes <= 0 || need.bytes <= limit.bytes / 2 || need.bytes > limit.bytes) return std::nullopt;
  return warning(need, program, ", more than half of what there is: " + limit.text());
}

std::optional<Diagnostic> tooMuchMemory(const MemoryNeed& need, const Program& program, const MemoryLimit& limit) {
  if (limit.bytes <= 0 || need.bytes <= limit.bytes) return std::nullopt;
  return warning(need, program, ", and " + limit.text() + ", where it will be refused");
}

}  // namespace nf
