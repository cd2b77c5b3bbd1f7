// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QFontMetrics>
#include <QString>
#include <QStringList>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/protocol/values.h"

namespace nf::protocol {
struct GraphPage;
}

namespace nf {

class Selection;

// An operator that a fused kernel computes once more instead of reading it: "d(L)/d(Y)#2".
bool isAgain(const protocol::GraphPage& graph, const protocol::GraphNode& node);
// Without the number of one that is computed again.
QString nodeName(const protocol::GraphPage& graph, const protocol::GraphNode& node);
// With the derivatives that are equal and computed by it: "dW = dV".
QString nodeTitle(const protocol::GraphPage& graph, const protocol::GraphNode& node);
// What it computes, the first time or again.
std::string tensorOf(const protocol::GraphPage& graph, const protocol::GraphNode& node);
// What is of a tensor and no tensor of its own: a gradient with respect to it with its partial sums, and what an optimizer makes of it.
bool isGradientOf(const protocol::GraphPage& graph, const protocol::GraphNode& node, const std::string& tensor);
bool isUpdateOf(const protocol::GraphNode& node, const std::string& tensor);

// What the selection calls, and the nodes of the graph that stand for one of these, which was merged into them.
std::set<std::string> calledNames(const protocol::GraphPage& graph, const Selection& selection);

// By node: whether selected places inside operators lead to it: it came from one of them, it holds one, or it makes `reads`, the tensor
// that they read. What holds an access reads its tensor; where none does, what holds a place is the smallest around it.
std::vector<bool> ledTo(const protocol::GraphPage& graph, const Selection& selection, const std::string& reads);

// By such a result: does the place lead to an operator? The name of a function does not.
bool leadsToOperator(const protocol::GraphPage& graph, const std::vector<bool>& led);

// Where the graph has the kernel: the operators of a loop's body are in no graph, and may have the names of others that are.
std::vector<std::string> nodesOf(const protocol::SubgraphInfo& kernel);
// What lists call the kernels, no two of them alike: the short name, with the loss, the loop or a number where another has that one, too.
QStringList kernelNames(const std::vector<protocol::SubgraphInfo>& kernels);
// A name on two lines, where it is too long for the first and there is `room` for a second: parted between its words, what the second
// does not hold elided.
QStringList nameLines(const QFontMetrics& metrics, const QString& name, int first, int second, bool room,
                      const std::function<QString(const QString&, int)>& elided);

}  // namespace nf
