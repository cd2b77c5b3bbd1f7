// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_driver/double/state.h"

#include <cstring>
#include <utility>

namespace nf::driver_double {

State& state() {
  static State self;
  return self;
}

CUctx_st*& current() {
  thread_local CUctx_st* context = nullptr;
  return context;
}

bool holds(const CUctx_st& context, const void* at, std::size_t size) {
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  auto after = context.allocations.upper_bound(begin);
  if (after == context.allocations.begin()) return false;
  const auto& [start, bytes] = *std::prev(after);
  return begin + size <= start + bytes;
}

Work workOf(CUfunction function, unsigned blocks, unsigned threads, unsigned shared, bool together, void** parameters) {
  Work work;
  work.function = function;
  work.blocks = blocks;
  work.threads = threads;
  work.shared = shared;
  work.together = together;
  for (std::size_t i = 0; function->bytes[i] != 0; ++i) {
    const auto* const from = static_cast<const unsigned char*>(parameters[i]);
    work.parameters.emplace_back(from, from + function->bytes[i]);
  }
  return work;
}

namespace {

CUresult launch(CUctx_st& context, Work& work) {
  State& s = state();
  if (!work.function->module->loaded || work.function->module->context != &context) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (context.untilLoss == 0) return context.lossCode;
  if (context.untilLoss > 0) --context.untilLoss;
  std::vector<void*> pointers;
  for (auto& p : work.parameters) pointers.push_back(p.data());
  ++s.counts.kernels;
  s.counts.together += work.together;
  s.ran.push_back(work.function->name);
  return static_cast<CUresult>(work.function->run(pointers.data(), work.blocks, work.threads));
}

CUresult run(CUctx_st& context, Work& work) {
  State& s = state();
  switch (work.kind) {
    case Work::Kind::Launch: return launch(context, work);
    case Work::Kind::Copy:
      if (!holds(context, work.to, work.bytes) || !holds(context, work.from, work.bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
      ++s.counts.copies;
      std::memmove(work.to, work.from, work.bytes);
      return CUDA_SUCCESS;
    case Work::Kind::Fill:
      if (!holds(context, work.to, work.bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
      ++s.counts.fills;
      std::memset(work.to, work.value, work.bytes);
      return CUDA_SUCCESS;
    case Work::Kind::CopyIn:
      if (!holds(context, work.to, work.bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
      ++s.counts.copiesIn;
      std::memcpy(work.to, work.from, work.bytes);
      return CUDA_SUCCESS;
    case Work::Kind::CopyOut:
      if (!holds(context, work.from, work.bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
      std::memcpy(work.to, work.from, work.bytes);
      return CUDA_SUCCESS;
    case Work::Kind::Event: work.event->stream = nullptr; return CUDA_SUCCESS;
  }
  return CUDA_ERROR_UNKNOWN;
}

}  // namespace

CUresult drain(CUstream_st& stream) {
  CUctx_st& context = *stream.context;
  while (!stream.queue.empty() && context.lost == CUDA_SUCCESS) {
    Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    context.lost = run(context, work);
  }
  if (context.lost != CUDA_SUCCESS) stream.queue.clear();
  return context.lost;
}

void reset() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (int d = 0; d < kDevices; ++d) {
    CUctx_st& context = s.contexts[static_cast<std::size_t>(d)];
    std::destroy_at(&context);  // gives its memory back
    std::construct_at(&context)->device = d;
  }
  s.counts = {};
  s.alive = {};
  s.ran.clear();
  s.refusesChanges = s.refusesGraphs = false;
}

void loseAfter(int number, std::int64_t launches, CUresult code) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.contexts[static_cast<std::size_t>(number)].untilLoss = launches;
  s.contexts[static_cast<std::size_t>(number)].lossCode = code;
}

void refuseChanges(bool refuse) { state().refusesChanges = refuse; }
void refuseGraphs(bool refuse) { state().refusesGraphs = refuse; }

Counts counts() {
  const std::lock_guard lock(state().mutex);
  return state().counts;
}

std::vector<std::string> ran() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().ran, {});
}

Alive alive() {
  const std::lock_guard lock(state().mutex);
  return state().alive;
}

}  // namespace nf::driver_double
