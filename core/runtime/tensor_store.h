// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/device/backend.h"
#include "core/ir/program.h"
#include "core/runtime/host_tensor.h"

namespace nf {

// Values that outlive a step, by tensor name, in device memory: what a training and an evaluation executable share. Updated tensors
// have two buffers that change places at the end of a step.
class TensorStore {
 public:
  explicit TensorStore(Device& device) : m_device(device) {}
  ~TensorStore();
  TensorStore(const TensorStore&) = delete;
  TensorStore& operator=(const TensorStore&) = delete;

  struct Entry {
    std::string name;
    TensorKind kind = TensorKind::Input;
    DType type = DType::F32;
    std::vector<std::int64_t> shape;
    std::int64_t bytes = 0;          // on the device
    std::array<void*, 2> buffers{};  // the second one: null until somebody updates it
    std::uint32_t current = 0;
    bool written = false;  // has been given a value
    void* value() const { return buffers[current]; }
  };
  // Finds or makes the entry of this name. Null: there is one of another shape or type.
  Result<Entry*> entry(const Tensor& tensor);
  Entry* find(const std::string& name);
  Result<Unit> makeSecondBuffer(Entry& entry);

  Result<Unit> write(Entry& entry, const HostTensor& value);
  // Elements [first, first + part.elements()), in the tensor's type. Whoever has written all of them sets `written`.
  Result<Unit> writePart(Entry& entry, std::int64_t first, const HostTensor& part);
  Result<Unit> writeBytes(Entry& entry, const std::byte* values);  // in the tensor's own type
  Result<HostTensor> read(const Entry& entry) const;
  // In order of name.
  const std::map<std::string, std::unique_ptr<Entry>>& entries() const { return m_entries; }
  std::int64_t bytes() const { return m_bytes; }
  Device& device() const { return m_device; }

 private:
  Device& m_device;
  std::map<std::string, std::unique_ptr<Entry>> m_entries;
  std::vector<double> m_staging;
  std::int64_t m_bytes = 0;
};

// Device::allocate, whose failure says what for, in a unit for people: "There is no memory for WHAT 40 GiB, and this machine has 16 GiB."
Result<void*> deviceMemory(Device& device, std::int64_t bytes, const std::string& what);

// Device memory as a host tensor and back, whatever way the device keeps its elements.
Result<HostTensor> readDevice(Device& device, const void* from, DType type, const std::vector<std::int64_t>& shape);

}  // namespace nf
