// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/graph_names.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/protocol/message.h"
#include "core/support/unique_names.h"
#include "core/syntax/derivative_name.h"
#include "widgets/graph_view.h"
#include "widgets/names.h"
#include "widgets/selection.h"

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

namespace {

// Those of these spans that no smaller one of them is inside of.
std::set<std::uint32_t> innermost(const std::set<std::uint32_t>& spans, const std::vector<SourceSpan>& all) {
  std::set<std::uint32_t> least = spans;
  std::erase_if(least, [&](std::uint32_t o) {
    const SourceSpan& outer = all[o];
    return std::ranges::any_of(spans, [&](std::uint32_t other) {
      const SourceSpan& s = all[other];
      return s.source == outer.source && s.begin >= outer.begin && s.end <= outer.end && s.end - s.begin < outer.end - outer.begin;
    });
  });
  return least;
}

}  // namespace

std::set<std::string> calledNames(const GraphPage& graph, const Selection& selection) {
  std::set<std::string> names(selection.tensors().begin(), selection.tensors().end());
  for (const GraphNode& node : graph.nodes)
    if (std::ranges::any_of(node.merged, [&](const MergedOperator& m) { return selection.isCalled(m.name); }))
      names.insert(node.id);
  return names;
}

std::vector<bool> ledTo(const GraphPage& graph, const Selection& selection, const std::string& reads) {
  using Relation = Selection::Relation;
  const std::size_t count = graph.nodes.size();
  // The node that an equal one was merged into stands for both.
  std::set<std::string> standing;
  for (const GraphNode& node : graph.nodes)
    if (!reads.empty() && (node.id == reads || std::ranges::find(node.merged, reads, &MergedOperator::name) != node.merged.end()))
      standing.insert(node.id);
  std::set<std::string> readers;
  for (const GraphEdge& e : graph.edges)
    if (!e.carried && !reads.empty() && (e.from == reads || withoutNumber(e.from) == reads || standing.contains(e.from)))
      readers.insert(e.to);
  const auto placesOf = [](const GraphNode& node) -> const Origins& {
    return node.kind == NodeKind::Operator ? node.places : node.origins;
  };
  std::vector<Relation> relation(count);
  std::vector<bool> uses(count), led(count);
  std::set<std::uint32_t> around;  // spans that hold a selected place
  bool exact = false;              // some operator came from a selected place
  for (std::size_t i = 0; i < count; ++i) {
    const GraphNode& node = graph.nodes[i];
    relation[i] = selection.relationOfPlaces(placesOf(node));
    uses[i] = readers.contains(node.id) || (!reads.empty() && isGradientOf(graph, node, reads));
    led[i] = relation[i] == Relation::Exact;
    if (node.kind != NodeKind::Operator) continue;
    exact = exact || led[i];
    if (relation[i] == Relation::Around)
      for (const std::uint32_t o : node.places)
        if (selection.relationOfPlaces({o}) == Relation::Around) around.insert(o);
  }
  // What was written there is no part of any operator since: those that read what it read, else those of the smallest place around it.
  if (!exact) {
    bool held = false;
    for (std::size_t i = 0; i < count; ++i)
      if (relation[i] == Relation::Around && readers.contains(graph.nodes[i].id)) led[i] = held = true;
    if (const auto least = innermost(around, selection.spans()); !held)
      for (std::size_t i = 0; i < count; ++i)
        if (relation[i] == Relation::Around &&
            std::ranges::any_of(graph.nodes[i].places, [&](auto o) { return least.contains(o); }))
          led[i] = true;
  }
  // The argument of a call is inside no operator.
  if (!selection.empty() && std::ranges::none_of(led, std::identity{})) led = uses;
  // Of a place in a function that reads a tensor, that tensor.
  for (std::size_t i = 0; i < count; ++i)
    if (standing.contains(graph.nodes[i].id) ||
        (graph.nodes[i].kind != NodeKind::Operator && selection.isCalled(graph.nodes[i].id)))
      led[i] = true;
  return led;
}

bool leadsToOperator(const GraphPage& graph, const std::vector<bool>& led) {
  for (std::size_t i = 0; i < std::min(graph.nodes.size(), led.size()); ++i)
    if (led[i] && graph.nodes[i].kind == NodeKind::Operator) return true;
  return false;
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
