// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/runtime/host_tensor.h"

namespace nf {

// What a tensor holds, in few numbers; mean, rms, least and greatest are of the values that are finite.
struct ValueSummary {
  explicit ValueSummary(const HostTensor& tensor);
  bool none() const { return notFinite == elements; }  // is finite

  std::int64_t elements = 0, notFinite = 0;
  double mean = 0, rms = 0, least = 0, greatest = 0;
  std::vector<double> first;  // eight at most
};

// "L = 0.5", or "Y  f32 [4]  mean 10, rms 10, min 10, max 10" and a line of its first values.
std::vector<std::string> valueLines(const std::string& name, const HostTensor& tensor);

}  // namespace nf
