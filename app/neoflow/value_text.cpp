// SPDX-License-Identifier: Apache-2.0
#include "app/neoflow/value_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace nf {

ValueSummary::ValueSummary(const HostTensor& tensor) : elements(tensor.elements()) {
  double sum = 0, squares = 0;
  least = HUGE_VAL, greatest = -HUGE_VAL;
  for (std::int64_t i = 0; i < elements; ++i) {
    const double v = tensor.at(i);
    if (first.size() < 8) first.push_back(std::isnan(v) ? NAN : v);  // its sign says nothing and differs between devices
    if (!std::isfinite(v)) {
      ++notFinite;
      continue;
    }
    sum += v;
    squares += v * v;
    least = std::min(least, v);
    greatest = std::max(greatest, v);
  }
  const auto finite = static_cast<double>(elements - notFinite);
  mean = sum / finite;
  rms = std::sqrt(squares / finite);
}

std::vector<std::string> valueLines(const std::string& name, const HostTensor& tensor) {
  const ValueSummary s(tensor);
  const bool whole = tensor.type == DType::I32;
  char text[128];
  if (s.elements == 1) {
    std::snprintf(text, sizeof text, whole ? " = %.0f" : " = %.7g", s.first[0]);
    return {name + text};
  }
  std::string line = name + "  " + std::string(nf::name(tensor.type)) + " " + shapeText(tensor.shape) + "  ";
  if (s.none()) {
    line += "none of " + std::to_string(s.elements) + " values is finite";
  } else {
    std::snprintf(text, sizeof text, "mean %.4g, rms %.4g, min %.4g, max %.4g", s.mean, s.rms, s.least, s.greatest);
    line += text;
    if (s.notFinite > 0) line += ", " + std::to_string(s.notFinite) + " not finite";
  }
  std::string row = "   ";
  for (const double v : s.first) {
    std::snprintf(text, sizeof text, whole ? " %.0f" : " %.5g", v);
    row += text;
  }
  return {line, row + (s.elements > 8 ? " ..." : "")};
}

}  // namespace nf
