// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "core/ir/dtype.h"
#include "core/support/result.h"

namespace nf {

// What reads or fills a large tensor looks at its stop this often: some milliseconds.
constexpr std::int64_t kElementsBetweenStops = 1 << 16;

// Values in host memory, row-major, in their storage type.
struct HostTensor {
  DType type = DType::F32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  static HostTensor make(DType type, std::vector<std::int64_t> shape);  // zeros; the shape's size fits: the caller has checked it
  static Result<HostTensor> zeros(DType type, std::vector<std::int64_t> shape,
                                  const std::stop_token& stop);  // the same, or stopped()
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
