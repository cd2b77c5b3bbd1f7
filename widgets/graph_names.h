// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QString>
#include <QStringList>
#include <string>

#include "core/protocol/values.h"

namespace nf::protocol {
struct GraphPage;
}

namespace nf {

// An operator that a fused kernel computes once more instead of reading it: "d(L)/d(Y)#2".
bool isAgain(const protocol::GraphPage& graph, const protocol::GraphNode& node);
// As its box says it.
QString nodeName(const protocol::GraphPage& graph, const protocol::GraphNode& node);
// What it computes, the first time or again.
std::string tensorOf(const protocol::GraphPage& graph, const protocol::GraphNode& node);

}  // namespace nf
