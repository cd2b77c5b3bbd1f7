// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/dtype.h"

namespace nf {

// Values in host memory, row-major, in their storage type.
struct HostTensor {
  DType type = DType::F32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  static HostTensor make(DType type, std::vector<std::int64_t> shape);  // zeros; the shape's size fits: the caller has checked it
  std::int64_t elements() const;
  double at(std::int64_t element) const;
  void set(std::int64_t element, double value);  // rounds to the nearest (ties to even); i32 saturates
  friend bool operator==(const HostTensor&, const HostTensor&) = default;
};

// One stored value as a double and back.
double loadValue(DType type, const void* from, std::int64_t element);
void storeValue(DType type, void* to, std::int64_t element, double value);

// The same values in another type.
HostTensor converted(const HostTensor& tensor, DType type);

std::string shapeText(const std::vector<std::int64_t>& shape);  // "[64, 8, 8]"

}  // namespace nf
