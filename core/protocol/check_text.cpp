// SPDX-License-Identifier: Apache-2.0
#include "core/protocol/check_text.h"

namespace nf::protocol {

std::string choiceText(const NumericChoice& c, const std::string& place) {
  const std::string where = " in " + c.reader + (place.empty() ? "" : " (" + place + ")"), name = "`" + c.what + "`" + where;
  const std::string lie = std::to_string(c.samples) + (c.samples == 1 ? " sample lies" : " samples lie");
  switch (c.kind) {
    case NumericChoice::Kind::Jump: return lie + " beside a jump of " + (c.what == "comparison" ? "a comparison" + where : name);
    case NumericChoice::Kind::First: return lie + " at a tie of " + name + ": the first of equals has the gradient, as in PyTorch";
    case NumericChoice::Kind::Even: return lie + " at a tie of " + name + ": equals share the gradient, as in PyTorch's amax";
    case NumericChoice::Kind::Kink: break;
  }
  return lie + " at a kink of " + name +
         (c.what == "max" || c.what == "min" ? ": the second of equals has the gradient" : ": the slope there is 0, as in PyTorch");
}

std::string besideText(const NumericSample& sample) { return sample.jump ? "beside a jump" : sample.tie ? "at a tie or kink" : ""; }

std::string movedText(const MovedCheck& moved) {
  std::string names;
  for (const std::string& name : moved.tensors) names += (names.empty() ? "" : ", ") + name;
  return names + " moved by about 1 %, as values that are all equal test little";
}

}  // namespace nf::protocol
