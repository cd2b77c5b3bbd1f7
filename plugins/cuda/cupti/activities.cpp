// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/cupti/activities.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace nf::cuda {
namespace {

constexpr std::size_t kBufferBytes = 1u << 20;
constexpr std::size_t kBufferAlignment = 64;
constexpr auto kExternal = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

// CUPTI's callbacks carry no pointer of ours.
std::mutex sinkMutex;
Activities* sink = nullptr;
const Cupti* registered = nullptr;  // whose callbacks are ours

void CUPTIAPI bufferRequested(std::uint8_t** buffer, std::size_t* size, std::size_t* mostRecords) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer ? kBufferBytes : 0;
  *mostRecords = 0;  // as many as there is room for
}

void CUPTIAPI bufferCompleted(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t bytes) {
  {
    const std::lock_guard lock(sinkMutex);
    if (sink && buffer) sink->take(buffer, bytes);
  }
  std::free(buffer);
}

std::uint64_t CUPTIAPI steadyClock() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

const char* directionOf(std::uint8_t copyKind) {
  switch (copyKind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "within the device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH: return "within the host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: return "device to device";
    default: return "copy";
  }
}

}  // namespace

Activities::~Activities() {
  if (m_recording) disable();
  const std::lock_guard lock(sinkMutex);
  if (sink == this) sink = nullptr;
}

Result<Unit> Activities::start() {
  {
    const std::lock_guard lock(sinkMutex);
    if (sink && sink != this) return Error{kCountersStage, "Another device of this process is being recorded.", "cuda", {}};
    // CUPTI takes both once, before anything is enabled.
    if (registered != &m_cupti) {
      CUptiResult code = m_cupti.registerClock(&steadyClock);
      if (code == CUPTI_SUCCESS) code = m_cupti.registerCallbacks(&bufferRequested, &bufferCompleted);
      if (code != CUPTI_SUCCESS) return m_cupti.failure("CUPTI takes no buffers", code);
      registered = &m_cupti;
    }
    sink = this;
  }
  {
    const std::lock_guard lock(m_mutex);
    m_found.clear();
    m_launches.clear();
  }
  m_recording = true;
  // An external id is tied to calls of the driver, so these are recorded, too. A graph is recorded as a whole.
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_GRAPH_TRACE}) {
    const CUptiResult code = m_cupti.enable(kind);
    if (code == CUPTI_SUCCESS) {
      m_enabled.push_back(kind);
      continue;
    }
    disable();
    const std::lock_guard lock(sinkMutex);
    sink = nullptr;
    return m_cupti.failure("CUPTI does not record what the device does", code);
  }
  return Unit{};
}

void Activities::disable() {
  popLaunch();
  for (const CUpti_ActivityKind kind : m_enabled) m_cupti.disable(kind);
  m_enabled.clear();
  m_recording = false;
}

void Activities::popLaunch() {
  std::uint64_t last = 0;
  if (m_pushed) m_cupti.popExternal(kExternal, &last);
  m_pushed = false;
}

void Activities::launching(std::uint64_t launch) {
  if (!m_recording) return;
  popLaunch();
  if (launch == DeviceActivity::kNoLaunch) return;
  m_pushed = m_cupti.pushExternal(kExternal, launch) == CUPTI_SUCCESS;
}

Result<std::vector<DeviceActivity>> Activities::stop() {
  popLaunch();
  const CUptiResult code = m_cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  std::size_t dropped = 0;
  m_cupti.droppedRecords(nullptr, 0, &dropped);
  disable();
  {
    const std::lock_guard lock(sinkMutex);
    sink = nullptr;
  }
  if (code != CUPTI_SUCCESS) return m_cupti.failure("CUPTI does not give what it has recorded", code);
  if (dropped > 0)
    return Error{
        kCountersStage, "CUPTI had no room for " + std::to_string(dropped) + " records of what the device did.", "cuda", {}};
  const std::lock_guard lock(m_mutex);
  std::vector<DeviceActivity> activities;
  activities.reserve(m_found.size());
  for (Found& f : m_found) {
    if (const auto launch = m_launches.find(f.correlation); launch != m_launches.end()) f.activity.launch = launch->second;
    activities.push_back(std::move(f.activity));
  }
  m_found.clear();
  m_launches.clear();
  std::stable_sort(activities.begin(), activities.end(),
                   [](const DeviceActivity& a, const DeviceActivity& b) { return a.begin < b.begin; });
  return activities;
}

void Activities::add(DeviceActivity::Kind kind, std::uint32_t device, std::uint64_t begin, std::uint64_t end,
                     std::uint32_t correlation, std::uint32_t stream, std::uint64_t bytes, const char* name) {
  // Both times are 0 where CUPTI could not take them.
  if (device != m_device || begin == 0 || end < begin) return;
  m_found.push_back({{kind, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end), DeviceActivity::kNoLaunch, stream,
                      static_cast<std::int64_t>(bytes), name ? name : ""},
                     correlation});
}

void Activities::take(std::uint8_t* buffer, std::size_t bytes) {
  const std::lock_guard lock(m_mutex);
  CUpti_Activity* record = nullptr;
  // Newer libraries append to these structures: what is read here stands at the same place in all since CUDA 12.0.
  while (m_cupti.nextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto* k = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
        add(DeviceActivity::Kind::Kernel, k->deviceId, k->start, k->end, k->correlationId, k->streamId, 0, k->name);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto* m = reinterpret_cast<const CUpti_ActivityMemcpy5*>(record);
        add(DeviceActivity::Kind::Copy, m->deviceId, m->start, m->end, m->correlationId, m->streamId, m->bytes,
            directionOf(m->copyKind));
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto* m = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
        add(DeviceActivity::Kind::Fill, m->deviceId, m->start, m->end, m->correlationId, m->streamId, m->bytes, "fill");
        break;
      }
      case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: {
        const auto* g = reinterpret_cast<const CUpti_ActivityGraphTrace*>(record);
        add(DeviceActivity::Kind::GraphLaunch, g->deviceId, g->start, g->end, g->correlationId, g->streamId, 0, "graph");
        break;
      }
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto* e = reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(record);
        if (e->externalKind == kExternal) m_launches[e->correlationId] = e->externalId;
        break;
      }
      default: break;
    }
  }
}

}  // namespace nf::cuda
