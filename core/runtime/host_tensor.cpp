// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/host_tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/support/assert.h"

namespace nf {
namespace {

float halfToFloat(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const int exponent = (h >> 10) & 31;
  const std::uint32_t mantissa = h & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                        : std::ldexp(static_cast<float>(mantissa | 1024u), exponent - 25);
  return sign ? -magnitude : magnitude;
}

// From double directly: a detour over float would round twice.
std::uint16_t doubleToHalf(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000u : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00u;
  if (magnitude >= 65520.0) return sign | 0x7c00u;
  if (magnitude < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1p24)));
  int exponent;
  const double fraction = std::frexp(magnitude, &exponent);                                    // [0.5, 1)
  const auto mantissa = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(fraction, 11)));  // [1024, 2048]
  return static_cast<std::uint16_t>(sign + ((static_cast<std::uint32_t>(exponent + 14) << 10) + (mantissa - 1024u)));
}

std::uint16_t doubleToBrain(double value) {
  if (std::isnan(value)) return 0x7fc0u;
  if (std::isinf(value)) return value < 0 ? 0xff80u : 0x7f80u;
  const double magnitude = std::fabs(value);
  const std::uint16_t sign = std::signbit(value) ? 0x8000u : 0;
  if (magnitude < 0x1p-126)
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1p133)));
  int exponent;
  const double fraction = std::frexp(magnitude, &exponent);
  if (exponent > 128) return sign | 0x7f80u;
  const auto mantissa = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(fraction, 8)));  // [128, 256]
  return static_cast<std::uint16_t>(sign + ((static_cast<std::uint32_t>(exponent + 126) << 7) + (mantissa - 128u)));
}

template <class T>
T read(const void* from, std::int64_t element) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(from) + element * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void write(void* to, std::int64_t element, T value) {
  std::memcpy(static_cast<std::byte*>(to) + element * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

double loadValue(DType type, const void* from, std::int64_t element) {
  switch (type) {
    case DType::F32: return read<float>(from, element);
    case DType::F64: return read<double>(from, element);
    case DType::F16: return halfToFloat(read<std::uint16_t>(from, element));
    case DType::BF16: return std::bit_cast<float>(static_cast<std::uint32_t>(read<std::uint16_t>(from, element)) << 16);
    case DType::I32: return read<std::int32_t>(from, element);
    case DType::Bool: return read<std::uint8_t>(from, element);
    case DType::I64: return static_cast<double>(read<std::int64_t>(from, element));
  }
  return 0;
}

void storeValue(DType type, void* to, std::int64_t element, double value) {
  switch (type) {
    case DType::F32: write(to, element, static_cast<float>(value)); return;
    case DType::F64: write(to, element, value); return;
    case DType::F16: write(to, element, doubleToHalf(value)); return;
    case DType::BF16: write(to, element, doubleToBrain(value)); return;
    case DType::I32: {
      constexpr double low = std::numeric_limits<std::int32_t>::min(), high = std::numeric_limits<std::int32_t>::max();
      const double rounded = std::isnan(value) ? 0 : std::nearbyint(value);
      write(to, element, static_cast<std::int32_t>(rounded < low ? low : rounded > high ? high : rounded));
      return;
    }
    case DType::Bool: write(to, element, static_cast<std::uint8_t>(value != 0)); return;
    case DType::I64: write(to, element, static_cast<std::int64_t>(value)); return;
  }
}

HostTensor HostTensor::make(DType type, std::vector<std::int64_t> shape) {
  HostTensor tensor;
  tensor.type = type;
  tensor.shape = std::move(shape);
  tensor.bytes.resize(static_cast<std::size_t>(tensor.elements() * bytesOf(type)));
  return tensor;
}

Result<HostTensor> HostTensor::zeros(DType type, std::vector<std::int64_t> shape, const std::stop_token& stop) {
  constexpr std::size_t kPart = std::size_t{64} << 20;
  HostTensor tensor;
  tensor.type = type;
  tensor.shape = std::move(shape);
  const auto bytes = static_cast<std::size_t>(tensor.elements() * bytesOf(type));
  tensor.bytes.reserve(bytes);
  while (tensor.bytes.size() < bytes) {
    if (stop.stop_requested()) return stopped();
    tensor.bytes.resize(std::min(bytes, tensor.bytes.size() + kPart));
  }
  return tensor;
}

std::int64_t HostTensor::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

double HostTensor::at(std::int64_t element) const { return loadValue(type, bytes.data(), element); }
void HostTensor::set(std::int64_t element, double value) { storeValue(type, bytes.data(), element, value); }

HostTensor converted(const HostTensor& tensor, DType type) {
  if (tensor.type == type) return tensor;
  HostTensor result = HostTensor::make(type, tensor.shape);
  for (std::int64_t i = 0, n = tensor.elements(); i < n; ++i) result.set(i, tensor.at(i));
  return result;
}

std::string shapeText(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace nf
