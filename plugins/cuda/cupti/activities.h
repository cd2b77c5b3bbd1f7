// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/device/profiler.h"
#include "plugins/cuda/cupti/cupti.h"

namespace nf::cuda {

// CUPTI's activity records of one device. A launch is known by the external id that was pushed when it was made: the record that ties the
// external id to a correlation id may come in another buffer than the kernel's. CUPTI is one for the whole process: one recording at a time.
class Activities {
 public:
  Activities(const Cupti& cupti, int device) : m_cupti(cupti), m_device(static_cast<std::uint32_t>(device)) {}
  ~Activities();
  Activities(const Activities&) = delete;
  Activities& operator=(const Activities&) = delete;

  Result<Unit> start();
  void launching(std::uint64_t launch);
  // All work of the device has ended. By begin.
  Result<std::vector<DeviceActivity>> stop();

  // Of CUPTI's callbacks, on any thread: the records of a buffer.
  void take(std::uint8_t* buffer, std::size_t bytes);

 private:
  void add(DeviceActivity::Kind kind, std::uint32_t device, std::uint64_t begin, std::uint64_t end, std::uint32_t correlation,
           std::uint32_t stream, std::uint64_t bytes, const char* name);
  void disable();
  void popLaunch();

  const Cupti& m_cupti;
  std::uint32_t m_device;
  bool m_recording = false, m_pushed = false;
  std::vector<CUpti_ActivityKind> m_enabled;
  std::mutex m_mutex;  // what follows
  struct Found {
    DeviceActivity activity;
    std::uint32_t correlation = 0;
  };
  std::vector<Found> m_found;
  std::unordered_map<std::uint32_t, std::uint64_t> m_launches;  // by correlation id
};

}  // namespace nf::cuda
