// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/protocol/message.h"

namespace nf {

// The trial of this schedule that has a figure, the shown one before others.
std::optional<std::uint64_t> measuredAlready(const std::vector<protocol::TrialInfo>& trials, const protocol::TrialInfo* shown,
                                             const protocol::JsonText& schedule);

}  // namespace nf
