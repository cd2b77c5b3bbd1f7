// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/graph_names.h"

#include <algorithm>
#include <map>

#include "core/protocol/message.h"
#include "core/syntax/derivative_name.h"
#include "widgets/graph_view.h"
#include "widgets/names.h"

namespace nf {

using namespace protocol;

bool isAgain(const GraphPage& graph, const GraphNode& node) {
  return graph.stage == "fused" && node.added && node.id.find('#') != std::string::npos;
}

QString nodeName(const GraphPage& graph, const GraphNode& node) {
  const QString name = shortName(node.name);
  return isAgain(graph, node) ? name.section(QLatin1Char('#'), 0, -2) : name;
}

QString nodeTitle(const GraphPage& graph, const GraphNode& node) {
  QStringList names{nodeName(graph, node)};
  for (const MergedOperator& m : node.merged)
    if (m.name != node.id && m.name.starts_with("d(")) names << shortName(m.name);
  return names.join(QStringLiteral(" = "));
}

std::string tensorOf(const GraphPage& graph, const GraphNode& node) {
  return isAgain(graph, node) ? node.id.substr(0, node.id.rfind('#')) : node.id;
}

bool isGradientOf(const GraphPage& graph, const GraphNode& node, const std::string& tensor) {
  const auto is = [&](const std::string& made) {
    const auto names = derivativeNames(made);
    return names && names->second == tensor;
  };
  return is(tensorOf(graph, node)) || std::ranges::any_of(node.merged, [&](const MergedOperator& m) { return is(m.name); });
}

bool isUpdateOf(const GraphNode& node, const std::string& tensor) {
  return (node.phase == Phase::Optimizer || node.kind == NodeKind::State) && node.id.starts_with(tensor + '.');
}

QStringList nameLines(const QFontMetrics& metrics, const QString& name, int first, int second, bool room,
                      const std::function<QString(const QString&, int)>& elided) {
  qsizetype end = 0;
  if (room && metrics.horizontalAdvance(name) > first)
    for (qsizetype i = 1; i < name.size() && metrics.horizontalAdvance(name.left(i).trimmed()) <= first; ++i)
      if (name[i] == QLatin1Char('.') || name[i] == QLatin1Char('_') || name[i - 1] == QLatin1Char(' ')) end = i;
  if (end == 0) return {elided(name, first)};
  return {name.left(end).trimmed(), elided(name.mid(end).trimmed(), second)};
}

QStringList captionsOf(const GraphPage& graph) {
  std::map<std::string_view, const GraphNode*> again;
  for (const GraphNode& n : graph.nodes)
    if (isAgain(graph, n)) again.emplace(n.id, &n);
  QStringList captions;
  std::map<std::string_view, qsizetype> at;
  for (const GraphNode& n : graph.nodes) {
    at.emplace(n.id, captions.size());
    captions << (isAgain(graph, n) ? GraphView::tr("computed again") : shortName(n.text));
  }
  for (const GraphEdge& e : graph.edges) {
    const auto from = again.find(e.from);
    const auto to = at.find(e.to);
    if (from == again.end() || to == at.end() || again.contains(e.to)) continue;
    captions[to->second].replace(shortName(from->second->name), nodeName(graph, *from->second));
  }
  return captions;
}

std::vector<std::string> nodesOf(const SubgraphInfo& kernel) {
  return kernel.loop.empty() ? kernel.operators : std::vector<std::string>{kernel.loop};
}

QStringList kernelNames(const std::vector<SubgraphInfo>& kernels) {
  std::vector<QStringList> wordings;
  for (const SubgraphInfo& k : kernels) {
    const QString name = QString::fromStdString(k.name), whole = derivativeText(name);
    wordings.push_back(
        {shortName(name), whole, k.loop.empty() ? whole : QObject::tr("%1 in the loop of %2").arg(whole, shortName(k.loop))});
  }
  std::vector<std::map<QString, int>> counts(3);
  for (const QStringList& w : wordings)
    for (std::size_t i = 0; i < counts.size(); ++i) ++counts[i][w[static_cast<qsizetype>(i)]];
  QStringList names;
  std::map<QString, int> before;
  for (const QStringList& w : wordings) {
    std::size_t i = 0;
    while (i < counts.size() && counts[i][w[static_cast<qsizetype>(i)]] > 1) ++i;
    names << (i < counts.size() ? w[static_cast<qsizetype>(i)] : QStringLiteral("%1 (%2)").arg(w.back()).arg(++before[w.back()]));
  }
  return names;
}

}  // namespace nf
