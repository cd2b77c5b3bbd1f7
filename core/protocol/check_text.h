// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/protocol/values.h"

// What a numeric check has met, in the words that the command line and the inspector share.
namespace nf::protocol {

// "2 samples lie at a tie of `max` in L (net.nf:3:10): the first of equals has the gradient, as in PyTorch". place: where it is
// written, may be empty.
std::string choiceText(const NumericChoice& choice, const std::string& place = {});
// "at a tie or kink"; empty: the sample lies beside nothing that a gradient does not see.
std::string besideText(const NumericSample& sample);
// "W, B moved by about 1 %, as values that are all equal test little"
std::string movedText(const MovedCheck& moved);

}  // namespace nf::protocol
