// SPDX-License-Identifier: GPL-3.0-or-later
// What GraphView draws: boxes, edges, groups, the overview, the legend.
#include <QPainter>
#include <QPainterPath>
#include <QSvgGenerator>
#include <algorithm>
#include <cmath>
#include <limits>

#include "widgets/basic.h"
#include "widgets/graph_names.h"
#include "widgets/graph_view.h"
#include "widgets/names.h"

namespace nf {

using namespace protocol;

namespace {
// Straight pieces with round corners.
QPainterPath alongRoute(const std::vector<QPointF>& route) {
  constexpr double kRound = 9;
  QPainterPath path(route.front());
  for (std::size_t i = 1; i + 1 < route.size(); ++i) {
    const QPointF in = route[i] - route[i - 1], out = route[i + 1] - route[i];
    const double inLength = std::hypot(in.x(), in.y()), outLength = std::hypot(out.x(), out.y());
    const double r = std::min({kRound, inLength / 2, outLength / 2});
    if (r < 0.5) {
      path.lineTo(route[i]);
      continue;
    }
    path.lineTo(route[i] - in / inLength * r);
    path.quadTo(route[i], route[i] + out / outLength * r);
  }
  path.lineTo(route.back());
  return path;
}
constexpr double kNamed = 0.42;  // below this one none for its name
// A font's size on the sheet, that it is no smaller than it should be on the screen.
int sized(int px, double scale) { return std::max(px, static_cast<int>(std::ceil(kSmallestText / std::max(scale, 1e-3)))); }
// From a line of a name to its second one, which has the room below its letters alone.
double lineStep(const QFontMetrics& metrics) { return metrics.ascent() + 1; }
}  // namespace

QColor GraphView::phaseColor(const GraphNode& node) const {
  const Palette& c = m_theme->colors();
  if (node.outsideStep) return c.muted;
  switch (node.phase) {
    case Phase::Forward: return c.forward;
    case Phase::Backward: return c.backward;
    case Phase::Optimizer: return c.optimizer;
    case Phase::Evaluation: return c.muted;
  }
  return c.forward;
}

QPainterPath GraphView::edgePath(std::size_t e) const {
  const auto [a, b] = m_layout.edges[e];
  if (const auto& route = m_layout.routes[e]; route.size() >= 2) return alongRoute(route);
  const EdgeCurve c = curveBetween(m_layout.nodes[static_cast<std::size_t>(a)], m_layout.nodes[static_cast<std::size_t>(b)]);
  QPainterPath path(c.start);
  path.cubicTo(c.c1, c.c2, c.end);
  return path;
}

void GraphView::paintEdge(QPainter& p, std::size_t e, const QColor& color, double width) {
  const QPainterPath path = edgePath(e);
  QPen pen(color, width);
  if (m_graph.edges[e].keptForBackward) pen.setStyle(Qt::DotLine);
  p.setPen(pen);
  p.setBrush(Qt::NoBrush);
  p.drawPath(path);
  // The last element is the end; the one before it, a corner or a control point, says from where it is reached.
  const QPointF end = path.currentPosition(), before = path.elementAt(path.elementCount() - 2);
  QPointF direction = end - before;
  const double length = std::hypot(direction.x(), direction.y());
  if (length < 1e-6) return;
  direction /= length;
  const QPointF normal(-direction.y(), direction.x());
  p.setPen(Qt::NoPen);
  p.setBrush(color);
  p.drawPolygon(QPolygonF{end, end - direction * 7 + normal * 3.2, end - direction * 7 - normal * 3.2});
}

// What belongs to the chosen node is outlined as it is, in a lighter hand.
QPen GraphView::outline(Mark mark, const QColor& plain) const {
  const Palette& c = m_theme->colors();
  if (mark == Mark::Chosen) return {c.text, 2.2};
  return mark == Mark::Belongs ? QPen(mixed(c.page, c.text, 0.6), 1.7) : QPen(plain, 1.1);
}

QString GraphView::tagOf(int group) const {
  const GraphGroup& g = m_graph.groups[static_cast<std::size_t>(group)];
  return g.id == g.name ? QString() : QString::fromStdString(g.id);
}

// What a step spends, and which share of it that is.
QString GraphView::timeOf(double us) const {
  QString text = microsecondsText(us);
  if (m_totalUs > 0) text += tr("  %1 %").arg(QString::number(us / m_totalUs * 100, 'f', us / m_totalUs < 0.0995 ? 1 : 0));
  return text;
}

// Of an operator with a kernel of its own; a group says what its operators take.
QString GraphView::timeOf(std::size_t node) const {
  const std::string& id = m_graph.nodes[node].id;
  const auto found = m_stepUs.find(id);
  const int group = m_layout.groupOf[node];
  // A kernel that equal operators share has the names of all.
  const bool alone = group < 0 ? m_alone.contains(id) : m_graph.groups[static_cast<std::size_t>(group)].nodes.size() == 1;
  const bool own = m_graph.stage == "fused" && alone;
  return own && found != m_stepUs.end() ? timeOf(found->second) : QString();
}

// What a step spends in a group, and of how much.
QString GraphView::factsOf(int index) const {
  const GraphGroup& group = m_graph.groups[static_cast<std::size_t>(index)];
  const bool closed = m_layout.groups[static_cast<std::size_t>(index)].closed;
  int members = 0;
  for (std::size_t i = 0; i < m_layout.groupOf.size(); ++i) members += m_layout.groupOf[i] == index && !m_layout.nodes[i].pill;
  const QString operators = counted(members, tr("operator"), tr("operators"));
  QStringList facts;
  if (group.kernels > 1 || !closed) facts << counted(group.kernels, tr("kernel"), tr("kernels"));
  std::optional<double> us = group.us;
  for (const std::string& op : group.nodes)
    if (const auto found = m_stepUs.find(op); found != m_stepUs.end() && !us)
      us = found->second * static_cast<double>(group.kernels);
  if (us) facts << timeOf(*us);
  // A copy that computes something again is known by what it serves.
  const auto leftOut = [&](const std::string& op) { return op.find('#') != std::string::npos || !m_steps.contains(op); };
  if (!us && !m_steps.empty() && std::all_of(group.nodes.begin(), group.nodes.end(), leftOut)) facts << tr("left out by training");
  if (closed) facts << operators;
  return facts.join(QStringLiteral("  "));
}

// What the operators of a closed group compute, the one that works most first.
QString GraphView::formulaOf(int group) const {
  constexpr std::size_t kMost = 4;  // that a line has room for
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < m_layout.groupOf.size(); ++i)
    if (m_layout.groupOf[i] == group && !m_layout.nodes[i].pill) members.push_back(i);
  std::stable_sort(members.begin(), members.end(),
                   [this](std::size_t a, std::size_t b) { return m_graph.nodes[a].flops > m_graph.nodes[b].flops; });
  QStringList parts;
  for (const std::size_t i : members)
    if (const QString caption = captionOf(static_cast<int>(i)); parts.size() < static_cast<qsizetype>(kMost) && !caption.isEmpty())
      parts << caption;
  return parts.join(QStringLiteral(",  "));
}

void GraphView::paintGroup(QPainter& p, std::size_t g, double scale) {
  const Palette& c = m_theme->colors();
  const auto& box = m_layout.groups[g];
  const GraphGroup& group = m_graph.groups[g];
  const bool detail = scale >= kNamed;
  bool marked = m_marks.empty(), touched = !m_changes;
  Mark mark = Mark::Plain;
  std::vector<int> members(4, 0);
  for (std::size_t i = 0; i < m_layout.groupOf.size() && box.closed; ++i) {
    if (m_layout.groupOf[i] != static_cast<int>(g)) continue;
    if (!m_layout.nodes[i].pill) ++members[static_cast<std::size_t>(m_graph.nodes[i].phase)];
    touched = touched || m_graph.nodes[i].added || m_graph.nodes[i].changed;
  }
  // What fusion makes is the kernels.
  touched = touched || (m_graph.stage == "fused" && members[0] + members[1] + members[2] + members[3] > 1);
  if (!m_marks.empty())
    for (std::size_t i = 0; i < m_layout.groupOf.size(); ++i)
      if (m_layout.groupOf[i] == static_cast<int>(g)) {
        marked = marked || m_marks[i] != Mark::Plain;
        mark = std::max(mark, m_marks[i]);
      }
  const bool dim = !marked || m_outdated || (box.closed && !touched);
  const auto shade = [&](const QColor& color) { return dim ? mixed(c.page, color, 0.42) : color; };
  const QString facts = factsOf(static_cast<int>(g));
  // As cards and tables call it, before the name of what it makes.
  const QString name = shortName(group.name), id = tagOf(static_cast<int>(g));
  const auto tagWidth = [&](const QFontMetrics& metrics) { return id.isEmpty() ? 0 : metrics.horizontalAdvance(id) + 6; };
  if (box.closed) {
    const QColor phases[] = {c.forward, c.backward, c.optimizer, c.muted};
    QColor main = c.forward;
    int most = 0;
    for (std::size_t k = 0; k < 4; ++k)
      if (members[k] > most) most = members[k], main = phases[k];
    p.setPen(outline(mark, mixed(c.page, main, dim ? 0.35 : 0.75)));
    p.setBrush(mixed(c.page, main, (c.dark ? 0.13 : 0.07) * (dim ? 0.4 : 1)));
    p.drawRoundedRect(box.rect, 10, 10);
    // The bar shows every phase in the group by its share.
    const int total = std::max(1, members[0] + members[1] + members[2] + members[3]);
    double y = box.rect.top() + 8;
    const double room = box.rect.height() - 16;
    p.setPen(Qt::NoPen);
    for (std::size_t k = 0; k < 4; ++k) {
      if (members[k] == 0) continue;
      const double h = room * members[k] / total;
      p.setBrush(shade(phases[k]));
      p.drawRect(QRectF(box.rect.left() + 6, y, 3, h));
      y += h;
    }
    if (!detail) return;
    p.drawPixmap(QRectF(box.rect.left() + 12, box.rect.top() + 7, 14, 14),
                 m_theme->pixmap(QStringLiteral("right"), shade(c.muted), 2), QRectF(0, 0, 32, 32));
    const QRectF inner = box.rect.adjusted(28, 3, -8, -3);
    const QFont small = m_theme->ui(sized(11, scale));
    p.setFont(m_theme->ui(sized(12, scale), QFont::DemiBold));
    p.setPen(shade(c.text));
    const int rows = static_cast<int>((inner.height() + 1 - p.fontMetrics().height()) / QFontMetrics(small).height());
    const bool both = rows > 0;
    const QFontMetrics metrics = p.fontMetrics();
    const double tag = tagWidth(metrics), more = lineStep(metrics);
    const QStringList lines = nameLines(metrics, name, static_cast<int>(inner.width() - tag), static_cast<int>(inner.width()),
                                        metrics.height() + more + (both ? QFontMetrics(small).height() : 0) <= inner.height() + 1,
                                        [&](const QString& text, int width) { return elidedName(metrics, text, width); });
    const double nameHeight = metrics.height() + more * static_cast<double>(lines.size() - 1);
    const QRectF first(inner.left(), both ? inner.top() : inner.center().y() - nameHeight / 2, inner.width(), metrics.height());
    p.drawText(first.adjusted(tag, 0, 0, 0), Qt::AlignTop | Qt::AlignLeft, lines.front());
    if (lines.size() > 1) p.drawText(first.translated(0, more), Qt::AlignTop | Qt::AlignLeft, lines.back());
    p.setPen(shade(c.muted));
    p.drawText(first, Qt::AlignTop | Qt::AlignLeft, id);
    if (!both) return;
    p.setFont(small);
    p.setPen(shade(c.muted));
    QString shown = facts;
    if (p.fontMetrics().horizontalAdvance(facts) > inner.width()) shown.replace(tr("operators"), tr("ops"));
    p.drawText(inner, Qt::AlignBottom | Qt::AlignLeft,
               p.fontMetrics().elidedText(shown, Qt::ElideRight, static_cast<int>(inner.width())));
    if (rows < 2 || lines.size() > 1) return;
    p.setPen(shade(mixed(c.muted, c.text, 0.5)));
    p.drawText(inner.adjusted(0, 0, 0, -QFontMetrics(small).height()), Qt::AlignBottom | Qt::AlignLeft,
               p.fontMetrics().elidedText(formulaOf(static_cast<int>(g)), Qt::ElideRight, static_cast<int>(inner.width())));
    return;
  }
  if (!detail) return;
  const QRectF title(box.rect.left() + 6, box.rect.top() + 3, box.rect.width() - 12, kGroupTitle - 6);
  p.setFont(m_theme->ui(sized(12, scale)));
  if (p.fontMetrics().height() > kGroupTitle) return;
  const double factsWidth = p.fontMetrics().horizontalAdvance(facts);
  p.setFont(m_theme->ui(sized(12, scale), QFont::DemiBold));
  const double tag = tagWidth(p.fontMetrics()), nameLeft = 18 + tag;
  const double full = p.fontMetrics().horizontalAdvance(name);
  const bool both = nameLeft + std::min(full, 60.0) + 10 + factsWidth < title.width();
  const double nameRoom = title.width() - nameLeft - (both ? factsWidth + 10 : 0);
  const QString shownName = elidedName(p.fontMetrics(), name, static_cast<int>(nameRoom));
  const double nameWidth = p.fontMetrics().horizontalAdvance(shownName);
  p.fillRect(QRectF(title.left(), title.top(), std::min(title.width(), nameLeft + nameWidth + 10 + (both ? factsWidth : 0)),
                    title.height()),
             c.page);
  p.drawPixmap(QRectF(title.left() + 1, title.top() + 2, 14, 14), m_theme->pixmap(QStringLiteral("down"), shade(c.muted), 2),
               QRectF(0, 0, 32, 32));
  p.setPen(shade(c.muted));
  p.drawText(QRectF(title.left() + 18, title.top(), tag, title.height()), Qt::AlignVCenter, id);
  p.setPen(shade(c.text));
  p.drawText(QRectF(title.left() + nameLeft, title.top(), nameWidth + 4, title.height()), Qt::AlignVCenter, shownName);
  if (!both) return;
  p.setFont(m_theme->ui(sized(12, scale)));
  p.setPen(shade(c.muted));
  p.drawText(QRectF(title.left() + nameLeft + nameWidth + 10, title.top(), factsWidth + 4, title.height()), Qt::AlignVCenter,
             facts);
}

void GraphView::paintWorld(QPainter& p, const QRectF& visible, double scale) {
  const Palette& c = m_theme->colors();
  const auto faded = [&](const QColor& color) { return mixed(c.page, color, 0.32); };
  const bool detail = scale >= kNamed;
  p.setRenderHint(QPainter::Antialiasing, m_graph.nodes.size() < 5000);
  // Dashing and stroking curves that cross the whole of a large graph takes minutes: there, edges are hairlines.
  const bool hairlines = scale < 0.12 || m_layout.edges.size() > 20000;
  for (const auto& group : m_layout.groups) {
    if (group.closed || group.rect.isNull() || !group.rect.intersects(visible)) continue;
    const auto g = static_cast<int>(&group - m_layout.groups.data());
    bool marked = m_marks.empty();
    for (std::size_t i = 0; i < m_layout.groupOf.size() && !marked; ++i)
      marked = m_layout.groupOf[i] == g && m_marks[i] != Mark::Plain;
    p.setPen(QPen(mixed(c.page, c.muted, marked && !m_outdated ? 0.75 : 0.3), 1.1));
    p.setBrush(Qt::NoBrush);
    p.drawRoundedRect(group.rect, 10, 10);
  }
  const auto markOf = [&](std::size_t i) { return m_marks.empty() ? Mark::Plain : m_marks[i]; };
  const auto unchanged = [&](std::size_t i) { return m_changes && !m_graph.nodes[i].added && !m_graph.nodes[i].changed; };
  for (const bool strong : {false, true})
    for (std::size_t e = 0; e < m_layout.edges.size(); ++e) {
      if (!m_layout.drawn[e]) continue;
      const auto a = static_cast<std::size_t>(m_layout.edges[e].first), b = static_cast<std::size_t>(m_layout.edges[e].second);
      const auto &ra = m_layout.nodes[a].rect, &rb = m_layout.nodes[b].rect;
      if (!ra.united(rb).intersects(visible)) continue;
      const bool on = !m_marks.empty() && markOf(a) != Mark::Plain && markOf(b) != Mark::Plain;
      if (on != strong) continue;
      const GraphNode& to = m_graph.nodes[b];
      QColor color = to.kind == NodeKind::Operator ? phaseColor(to) : c.muted;
      // What a step hands to another part of the picture would cover everything between.
      const bool pill = m_layout.nodes[a].pill || m_layout.nodes[b].pill;
      const bool far =
          m_graph.edges[e].keptForBackward || m_graph.edges[e].carried ||
          (pill && (std::abs(ra.center().y() - rb.center().y()) > 150 || std::abs(ra.center().x() - rb.center().x()) > 420));
      const bool touched = markOf(a) == Mark::Chosen || markOf(b) == Mark::Chosen;
      // Every update waits for all gradients where they are clipped together: the net is read without them.
      const bool update = to.phase == Phase::Optimizer && m_graph.edges.size() > 60;
      if (update && !far && !touched && !on) color = mixed(c.page, color, 0.35);
      if (far && !touched) color = mixed(c.page, color, m_graph.edges.size() > 60 ? 0.22 : 0.3);
      else if (pill) color = mixed(c.page, color, 0.6);
      else if (!m_marks.empty() && !on) color = faded(color);
      if (m_outdated || (unchanged(a) && unchanged(b))) color = faded(color);
      if (hairlines) {
        p.setPen(QPen(color, 0));
        p.drawLine(ra.center(), rb.center());
      } else {
        paintEdge(p, e, color, on && !(far && !touched) ? 2.2 : 1.3);
      }
    }
  for (std::size_t g = 0; g < m_layout.groups.size(); ++g)
    if (m_layout.groups[g].closed && m_layout.groups[g].rect.intersects(visible)) paintGroup(p, g, scale);
  for (std::size_t i = 0; i < m_graph.nodes.size(); ++i) {
    const auto& box = m_layout.nodes[i];
    if (box.hidden || !box.rect.intersects(visible)) continue;
    const GraphNode& node = m_graph.nodes[i];
    const Mark mark = m_marks.empty() ? Mark::Path : m_marks[i];
    const bool dim = (mark == Mark::Plain && !m_marks.empty()) || m_outdated || unchanged(i);
    const QColor phase = dim ? faded(phaseColor(node)) : phaseColor(node);
    const QColor text = dim ? mixed(c.page, c.text, 0.42) : c.text, muted = dim ? mixed(c.page, c.muted, 0.42) : c.muted;
    if (box.pill) {
      p.setPen(outline(mark, mixed(c.page, c.muted, dim ? 0.3 : 0.7)));
      p.setBrush(c.page);
      p.drawRoundedRect(box.rect, 11, 11);
      if (!detail) continue;
      const bool turns = node.kind == NodeKind::State;
      p.setFont(m_theme->mono(sized(12, scale)));
      const QFontMetrics metrics = p.fontMetrics();
      if (metrics.capHeight() + 2 > box.rect.height()) continue;
      // Letters that are large beside the pill take its margins, too.
      const QRectF inner = box.rect.adjusted(scale < 0.75 ? 2 : 6, 0, turns ? -20 : scale < 0.75 ? -2 : -6, 0);
      p.setPen(text);
      p.drawText(inner, Qt::AlignCenter | Qt::TextDontClip,
                 metrics.elidedText(QString::fromStdString(node.name), Qt::ElideMiddle, static_cast<int>(inner.width())));
      if (turns)
        p.drawPixmap(QRectF(box.rect.right() - 19, box.rect.top() + 4, 14, 14), m_theme->pixmap(QStringLiteral("loop"), muted, 2),
                     QRectF(0, 0, 32, 32));
      continue;
    }
    QPen pen = outline(mark, mixed(c.page, phase, dim ? 0.4 : 0.75));
    if (node.outsideStep) pen.setStyle(Qt::DashLine);
    p.setPen(pen);
    p.setBrush(mixed(c.page, phase, (c.dark ? 0.16 : 0.09) * (dim ? 0.4 : 1)));
    p.drawRoundedRect(box.rect, 4, 4);
    p.setPen(Qt::NoPen);
    p.setBrush(phase);
    p.drawRoundedRect(QRectF(box.rect.left() + 3, box.rect.top() + 4, 3, box.rect.height() - 8), 1.5, 1.5);
    if (!detail) continue;
    const QRectF inner = box.rect.adjusted(12, 1, -5, -1);
    const QFont small = m_theme->ui(sized(11, scale));
    p.setFont(m_theme->mono(sized(13, scale)));
    p.setPen(text);
    const bool both = p.fontMetrics().height() + QFontMetrics(small).height() <= inner.height() + 1;
    const QFontMetrics metrics = p.fontMetrics();
    const double more = lineStep(metrics);
    const int room = static_cast<int>(inner.width());
    const QStringList lines =
        nameLines(metrics, nodeTitle(m_graph, node), room, room, !both && metrics.height() + more <= inner.height() + 1,
                  [&](const QString& text, int width) { return metrics.elidedText(text, Qt::ElideMiddle, width); });
    const double top =
        both ? inner.top() + 1 : inner.center().y() - (metrics.height() + more * static_cast<double>(lines.size() - 1)) / 2;
    for (qsizetype k = 0; k < lines.size(); ++k)
      p.drawText(QRectF(inner.left(), top + more * static_cast<double>(k), inner.width(), metrics.height()),
                 Qt::AlignTop | Qt::AlignLeft, lines[k]);
    if (!both) continue;
    p.setFont(small);
    p.setPen(muted);
    const QString time = timeOf(i), caption = captionOf(static_cast<int>(i));
    p.drawText(inner.adjusted(0, 1, 0, -1), Qt::AlignBottom | Qt::AlignLeft,
               p.fontMetrics().elidedText(time.isEmpty() ? caption : time + QStringLiteral("  ") + caption, Qt::ElideRight,
                                          static_cast<int>(inner.width())));
    if (m_changes && node.added && !dim) {
      p.setFont(m_theme->ui(sized(11, scale), QFont::DemiBold));
      p.setPen(c.proved);
      p.drawText(inner, Qt::AlignTop | Qt::AlignRight, tr("new"));
    }
  }
  for (std::size_t g = 0; g < m_layout.groups.size(); ++g) {
    const auto& group = m_layout.groups[g];
    if (!group.closed && !group.rect.isNull() && group.rect.intersects(visible)) paintGroup(p, g, scale);
  }
  if (!detail) return;
  const QRectF tag = decisionPlace();
  if (tag.isNull()) return;
  p.setFont(m_theme->mono(sized(12, m_scale), QFont::DemiBold));
  p.setPen(QPen(c.text, 1.2));
  p.setBrush(c.page);
  p.drawRoundedRect(tag, 3, 3);
  p.drawText(tag, Qt::AlignCenter, m_decisionText);
}

bool GraphView::isEndOfDecision(const GraphNode& node) const {
  const QString tensor = QString::fromStdString(tensorOf(m_graph, node));
  return tensor == m_decisionFrom || tensor == m_decisionTo;
}

// The first edge from the one to the other: where an operator is computed in several kernels, in the first of them.
std::optional<std::size_t> GraphView::decisionEdge() const {
  for (std::size_t e = 0; e < m_layout.edges.size(); ++e) {
    const auto [a, b] = m_layout.edges[e];
    if (a >= 0 && b >= 0 &&
        QString::fromStdString(tensorOf(m_graph, m_graph.nodes[static_cast<std::size_t>(a)])) == m_decisionFrom &&
        QString::fromStdString(tensorOf(m_graph, m_graph.nodes[static_cast<std::size_t>(b)])) == m_decisionTo)
      return e;
  }
  return std::nullopt;
}

QRectF GraphView::decisionPlace() const {
  if (!decided()) return {};
  const std::optional<std::size_t> edge = decisionEdge();
  if (!edge) return {};
  const auto [a, b] = m_layout.edges[*edge];
  const QRectF ra = m_layout.nodes[static_cast<std::size_t>(a)].rect, rb = m_layout.nodes[static_cast<std::size_t>(b)].rect;
  const QFontMetricsF metrics(m_theme->mono(sized(12, m_scale), QFont::DemiBold));
  const QSizeF size(metrics.horizontalAdvance(m_decisionText) + 16, metrics.height() + 4);
  if (ra == rb) return freePlace(QPointF(ra.center().x(), ra.bottom() + size.height() / 2 + 5), size);
  // As near to the edge as there is room, in its middle first.
  const QPainterPath path = edgePath(*edge);
  QRectF place;
  double nearest = std::numeric_limits<double>::infinity();
  for (const double at : {0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8}) {
    const QPointF wanted = path.pointAtPercent(at);
    const QRectF there = freePlace(wanted, size);
    const double distance = QLineF(wanted, there.center()).length();
    if (distance < nearest) place = there, nearest = distance;
    if (nearest < size.height()) break;
  }
  return place;
}

// The place nearest to `wanted` where a label covers no box and no group's title.
QRectF GraphView::freePlace(QPointF wanted, QSizeF size) const {
  constexpr double kStep = 6, kFarthest = 240;
  const auto around = [&](QPointF at) { return QRectF(at - QPointF(size.width() / 2, size.height() / 2), size); };
  // Where the legend stands, on the sheet; what is wanted below it is out of sight anyway.
  const double legend = (height() - legendHeight() - 6 - m_offset.y()) / m_scale;
  const auto free = [&](const QRectF& place) {
    const QRectF wide = place.adjusted(-3, -3, 3, 3);
    if (wanted.y() < legend && wide.bottom() > legend) return false;
    return std::none_of(m_layout.nodes.begin(), m_layout.nodes.end(), [&](const auto& n) { return n.rect.intersects(wide); }) &&
           std::none_of(m_layout.groups.begin(), m_layout.groups.end(), [&](const auto& g) {
             return !g.rect.isNull() &&
                    QRectF(g.rect.topLeft(), QSizeF(g.rect.width(), g.closed ? g.rect.height() : kGroupTitle)).intersects(wide);
           });
  };
  for (double r = 0; r <= kFarthest; r += kStep)
    for (int k = 0; k < (r > 0 ? 24 : 1); ++k) {
      // Downwards first: titles stand above.
      const double angle = M_PI / 2 + (k % 2 ? 1 : -1) * ((k + 1) / 2) * M_PI / 12;
      if (const QRectF place = around(wanted + QPointF(std::cos(angle), std::sin(angle)) * r); free(place)) return place;
    }
  return around(wanted);
}

// A small picture of the whole, where it does not fit, with what is in sight.
QRectF GraphView::overview() const {
  const QRectF all = m_layout.bounds;
  if (all.isNull() || m_graph.nodes.size() < 2 || width() < 500 || height() < 320) return {};
  const QRectF shown(toWidget(all.topLeft()), toWidget(all.bottomRight()));
  if (QRectF(rect()).adjusted(-4, -4, 4, 4).contains(shown)) return {};
  const double scale = std::min(160 / all.width(), 80 / all.height());
  const QSizeF size = all.size() * scale;
  return cornerFor(size);
}

// It leaves its corner only for one in which it covers less, and while the graph is dragged for none.
QRectF GraphView::cornerFor(QSizeF size) const {
  constexpr double kEdge = 12;
  const double low = height() - legendHeight() - size.height() - 8, right = width() - size.width() - kEdge;
  const QPointF corners[] = {{right, low}, {kEdge, low}, {right, kEdge}, {kEdge, kEdge}};
  if (!m_dragging) {
    const auto covered = [&](QPointF corner) {
      const QRectF place = QRectF(corner, size).adjusted(-4, -4, 4, 4);
      double area = 0;
      for (const auto& node : m_layout.nodes) {
        const QRectF common = QRectF(toWidget(node.rect.topLeft()), toWidget(node.rect.bottomRight())).intersected(place);
        area += common.width() * common.height();
      }
      return area;
    };
    double least = covered(corners[m_corner]);
    for (std::size_t k = 0; k < std::size(corners) && least > 0; ++k)
      if (const double area = covered(corners[k]); area < least) least = area, m_corner = k;
  }
  return {corners[m_corner], size};
}

void GraphView::paintOverview(QPainter& p) {
  const QRectF place = overview();
  if (place.isNull()) return;
  const Palette& c = m_theme->colors();
  const double scale = place.width() / m_layout.bounds.width();
  p.setPen(c.separator);
  p.setBrush(c.page);
  p.drawRect(place.adjusted(-4, -4, 4, 4));
  if (m_graph.nodes.size() < 5000)
    for (std::size_t i = 0; i < m_layout.nodes.size(); ++i) {
      const QRectF& r = m_layout.nodes[i].rect;
      p.fillRect(QRectF(place.topLeft() + (r.topLeft() - m_layout.bounds.topLeft()) * scale,
                        QSizeF(std::max(1.5, r.width() * scale), std::max(1.5, r.height() * scale))),
                 m_layout.nodes[i].pill ? c.separator : mixed(c.page, phaseColor(m_graph.nodes[i]), 0.6));
    }
  const QRectF seen(-m_offset / m_scale, QSizeF(size()) / m_scale);
  QRectF frame(place.topLeft() + (seen.topLeft() - m_layout.bounds.topLeft()) * scale, seen.size() * scale);
  p.setPen(QPen(c.accent, 1));
  p.setBrush(Qt::NoBrush);
  p.drawRect(frame.intersected(place.adjusted(-3, -3, 3, 3)));
}

void GraphView::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.fillRect(rect(), m_theme->colors().page);
  p.save();
  p.translate(m_offset);
  p.scale(m_scale, m_scale);
  paintWorld(p, QRectF(-m_offset / m_scale, QSizeF(size()) / m_scale), m_scale);
  p.restore();
  const Palette& c = m_theme->colors();
  if (m_graph.nodes.empty()) {
    p.setPen(c.muted);
    p.setFont(m_theme->ui());
    p.drawText(rect(), Qt::AlignCenter, m_nothing);
    return;
  }
  paintLegend(p);
  paintOverview(p);
  if (hasFocus()) {
    p.setPen(QPen(mixed(c.page, c.accent, 0.6), 1));
    p.setBrush(Qt::NoBrush);
    p.drawRect(rect().adjusted(0, 0, -1, -1));
  }
}

namespace {
constexpr double kLegendLine = 26, kLegendBeside = 8, kLegendApart = 24, kLegendRow = 20, kLegendLeft = 16;
}

std::vector<std::vector<GraphView::LegendEntry>> GraphView::legend() const {
  const Palette& c = m_theme->colors();
  std::vector<LegendEntry> entries = {{tr("forward"), c.forward, Qt::SolidLine, 0},
                                      {tr("backward"), c.backward, Qt::SolidLine, 0},
                                      {tr("optimizer"), c.optimizer, Qt::SolidLine, 0},
                                      {tr("kept for backward"), c.muted, Qt::DotLine, 0},
                                      {tr("carried between steps"), c.muted, Qt::NoPen, 0}};
  if (std::any_of(m_graph.nodes.begin(), m_graph.nodes.end(), [](const GraphNode& n) { return n.outsideStep; }))
    entries.push_back({tr("outside the step"), c.muted, Qt::DashLine, 0});
  const QFontMetricsF metrics(m_theme->ui(12));
  std::vector<std::vector<LegendEntry>> rows(1);
  double x = kLegendLeft;
  for (LegendEntry& e : entries) {
    e.width = kLegendLine + kLegendBeside + metrics.horizontalAdvance(e.word);
    if (x + e.width + kLegendLeft > width() && !rows.back().empty()) rows.emplace_back(), x = kLegendLeft;
    x += e.width + kLegendApart;
    rows.back().push_back(std::move(e));
  }
  return rows;
}

double GraphView::legendHeight() const { return kLegendRow * static_cast<double>(legend().size()) + 8; }

// On a ground of its own: what is drawn below it ends there.
void GraphView::paintLegend(QPainter& p) const {
  const Palette& c = m_theme->colors();
  p.setRenderHint(QPainter::Antialiasing);
  p.setFont(m_theme->ui(12));
  double y = height() - legendHeight();
  p.fillRect(QRectF(0, y, width(), height() - y), c.page);
  y += 2 + kLegendRow / 2;
  for (const auto& row : legend()) {
    double x = kLegendLeft;
    for (const LegendEntry& e : row) {
      if (e.style == Qt::NoPen) {
        p.drawPixmap(QRectF(x + kLegendLine - 18, y - 7, 14, 14), m_theme->pixmap(QStringLiteral("loop"), e.color, 2),
                     QRectF(0, 0, 32, 32));
      } else {
        const double end = x + kLegendLine;
        p.setPen(QPen(e.color, 1.8, e.style));
        p.drawLine(QPointF(x, y), QPointF(end, y));
        p.setPen(Qt::NoPen);
        p.setBrush(e.color);
        if (e.style == Qt::SolidLine) p.drawPolygon(QPolygonF{{end, y}, {end - 7, y - 3.2}, {end - 7, y + 3.2}});
      }
      p.setPen(c.muted);
      p.drawText(QRectF(x + kLegendLine + kLegendBeside, y - kLegendRow / 2, e.width, kLegendRow), Qt::AlignVCenter, e.word);
      x += e.width + kLegendApart;
    }
    y += kLegendRow;
  }
}

bool GraphView::saveSvg(const QString& path) {
  QSvgGenerator svg;
  svg.setFileName(path);
  const QRectF room = m_layout.bounds.adjusted(-16, -16, 16, 16);
  svg.setViewBox(QRectF(QPointF(0, 0), room.size()));
  svg.setSize(room.size().toSize());
  svg.setTitle(QString::fromStdString(m_graph.stage));
  QPainter p;
  if (!p.begin(&svg)) return false;
  p.fillRect(QRectF(QPointF(0, 0), room.size()), m_theme->colors().page);
  p.translate(-room.topLeft());
  paintWorld(p, room, 1);
  return p.end();
}

}  // namespace nf
