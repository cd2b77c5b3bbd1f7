// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QString>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/protocol/message.h"

namespace nf {

class Selection;

// Below the time in a kernel's row: how it compares with the first kernel, or with its fastest trial; null where that is not known.
QString gainText(const protocol::SubgraphInfo& kernel, const protocol::TrialInfo* fastest);
// Its time; what is known of it otherwise: a first kernel may only have been checked.
QString timeText(const protocol::SubgraphInfo& kernel);
// What the figures of its row are of.
QString rowTip(const protocol::SubgraphInfo& kernel, const protocol::TrialInfo* fastest = nullptr);
// The trial of this schedule that has a figure, the shown one before others, then the newest: a first kernel that was compiled quickly has
// another with full effort.
std::optional<std::uint64_t> measuredAlready(const std::vector<protocol::TrialInfo>& trials, const protocol::TrialInfo* shown,
                                             const protocol::JsonText& schedule);

// Of the kernels that a selected place leads to by their operators: those that compute or read something there, where any do. The graph
// has a loop as one node: what is selected in its body is of those of its kernels that came from around it, else of all.
bool isSelectedPart(const std::vector<protocol::SubgraphInfo>& kernels, const protocol::SubgraphInfo& kernel,
                    const Selection& selection, bool byPlace);

}  // namespace nf
