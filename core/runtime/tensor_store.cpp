// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/tensor_store.h"

#include "core/runtime/memory_need.h"
#include "core/support/assert.h"
#include "core/support/scaled_text.h"

namespace nf {
namespace {

Result<void*> memoryFor(Device& device, const TensorStore::Entry& entry) {
  return deviceMemory(device, entry.bytes, entry.name + ": it takes");
}

}  // namespace

Result<void*> deviceMemory(Device& device, std::int64_t bytes, const std::string& what) {
  auto memory = device.allocate(bytes);
  if (memory) return memory;
  Error error = memory.error();
  error.message = "There is no memory for " + what + " " + bytesText(bytes);
  // Other devices say it in their own words.
  if (const MemoryLimit limit = memoryLimit(); limit.bytes > 0 && device.target().backend != "cuda")
    error.message += ", and " + limit.text();
  error.message += ".";
  return error;
}

TensorStore::~TensorStore() {
  for (const auto& [name, entry] : m_entries)
    for (void* buffer : entry->buffers)
      if (buffer) m_device.release(buffer);
}

Result<TensorStore::Entry*> TensorStore::entry(const Tensor& tensor) {
  if (const auto found = m_entries.find(tensor.name); found != m_entries.end())
    return found->second->shape == tensor.shape && found->second->type == tensor.type ? found->second.get() : nullptr;
  auto entry = std::make_unique<Entry>();
  entry->name = tensor.name;
  entry->kind = tensor.kind;
  entry->type = tensor.type;
  entry->shape = tensor.shape;
  entry->bytes = m_device.storesDoubles() ? tensor.elements() * 8 : tensor.bytes();
  NF_TRY(entry->buffers[0], memoryFor(m_device, *entry));
  m_bytes += entry->bytes;
  return m_entries.emplace(tensor.name, std::move(entry)).first->second.get();
}

TensorStore::Entry* TensorStore::find(const std::string& name) {
  const auto found = m_entries.find(name);
  return found == m_entries.end() ? nullptr : found->second.get();
}

Result<Unit> TensorStore::makeSecondBuffer(Entry& entry) {
  void*& other = entry.buffers[entry.current ^ 1u];
  if (other) return Unit{};
  NF_TRY(other, memoryFor(m_device, entry));
  m_bytes += entry.bytes;
  return Unit{};
}

Result<Unit> TensorStore::write(Entry& entry, const HostTensor& value) {
  NF_ASSERT(value.shape == entry.shape);
  if (m_device.storesDoubles()) {
    entry.written = true;
    m_staging.resize(static_cast<std::size_t>(value.elements()));
    for (std::size_t i = 0; i < m_staging.size(); ++i) m_staging[i] = storedAs(entry.type, value.at(static_cast<std::int64_t>(i)));
    return m_device.copyIn(entry.value(), m_staging.data(), entry.bytes);
  }
  if (value.type == entry.type) return writeBytes(entry, value.bytes.data());
  const HostTensor own = converted(value, entry.type);
  return writeBytes(entry, own.bytes.data());
}

Result<Unit> TensorStore::writePart(Entry& entry, std::int64_t first, const HostTensor& part) {
  NF_ASSERT(part.type == entry.type);
  const std::int64_t elementBytes = m_device.storesDoubles() ? 8 : bytesOf(entry.type);
  std::byte* const to = static_cast<std::byte*>(entry.value()) + first * elementBytes;
  if (!m_device.storesDoubles()) return m_device.copyIn(to, part.bytes.data(), static_cast<std::int64_t>(part.bytes.size()));
  m_staging.resize(static_cast<std::size_t>(part.elements()));
  for (std::size_t i = 0; i < m_staging.size(); ++i) m_staging[i] = part.at(static_cast<std::int64_t>(i));
  return m_device.copyIn(to, m_staging.data(), part.elements() * 8);
}

Result<Unit> TensorStore::writeBytes(Entry& entry, const std::byte* values) {
  entry.written = true;
  if (!m_device.storesDoubles()) return m_device.copyIn(entry.value(), values, entry.bytes);
  m_staging.resize(static_cast<std::size_t>(entry.bytes / 8));
  for (std::size_t i = 0; i < m_staging.size(); ++i) m_staging[i] = loadValue(entry.type, values, static_cast<std::int64_t>(i));
  return m_device.copyIn(entry.value(), m_staging.data(), entry.bytes);
}

Result<HostTensor> TensorStore::read(const Entry& entry) const {
  return readDevice(m_device, entry.value(), entry.type, entry.shape);
}

Result<HostTensor> readDevice(Device& device, const void* from, DType type, const std::vector<std::int64_t>& shape) {
  HostTensor value = HostTensor::make(device.storesDoubles() && type != DType::I32 ? DType::F64 : type, shape);
  if (!device.storesDoubles()) {
    NF_TRY([[maybe_unused]] const Unit out,
           device.copyOut(value.bytes.data(), from, static_cast<std::int64_t>(value.bytes.size())));
    return value;
  }
  HostTensor doubles = HostTensor::make(DType::F64, shape);
  NF_TRY([[maybe_unused]] const Unit out,
         device.copyOut(doubles.bytes.data(), from, static_cast<std::int64_t>(doubles.bytes.size())));
  return converted(doubles, value.type);
}

}  // namespace nf
