// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/formula_view.h"

#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <QScrollBar>
#include <QWheelEvent>
#include <algorithm>
#include <set>

#include "widgets/basic.h"
#include "widgets/names.h"

namespace nf {
namespace {
constexpr double kPx = 22;
constexpr int kBar = 10;
constexpr double kLeast = 240;  // lines are not broken to less
}  // namespace

FormulaView::FormulaView(const Theme* theme, Selection* selection, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_selection(selection), m_scroll(new QScrollBar(Qt::Horizontal, this)) {
  setMouseTracking(true);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  m_scroll->setAccessibleName(tr("Scroll the formula"));
  m_scroll->setSingleStep(24);
  m_scroll->hide();
  connect(m_scroll, &QScrollBar::valueChanged, this, qOverload<>(&QWidget::update));
  leaveWheelToPage(m_scroll);
  connect(theme, &Theme::changed, this, [this] {
    layOut();
    Q_EMIT heightChanged();
  });
  connect(selection, &Selection::changed, this, &FormulaView::findTinted);
}

namespace {
// The tensor that a partial derivative stands for, "d(L)/d(Y)", or "d(L)/d(Y)#2" with its number above; empty: the part is none.
std::string derivativeAt(const protocol::Formula& formula, std::uint32_t node) {
  using protocol::FormulaKind;
  const auto& nodes = formula.nodes;
  const protocol::FormulaNode& part = nodes[node];
  const auto nameOf = [&](std::uint32_t i) {
    while (nodes[i].kind == FormulaKind::Subscript && !nodes[i].children.empty()) i = nodes[i].children.front();
    return nodes[i].kind == FormulaKind::Name ? nodes[i].text : std::string();
  };
  if (part.kind == FormulaKind::Partial && part.children.size() == 2) {
    const std::string of = nameOf(part.children[0]), by = nameOf(part.children[1]);
    return of.empty() || by.empty() ? std::string() : "d(" + of + ")/d(" + by + ")";
  }
  if (part.kind != FormulaKind::Power || part.children.size() != 2 || nodes[part.children[0]].kind != FormulaKind::Partial)
    return {};
  const std::string& number = nodes[part.children[1]].text;
  if (nodes[part.children[1]].kind != FormulaKind::Name || number.size() < 3 || (number.front() != '(' && number.front() != '['))
    return {};
  const std::string whole = derivativeAt(formula, part.children[0]);
  return whole.empty() ? whole : whole + "#" + number.substr(1, number.size() - 2);
}
}  // namespace

// What came from the selection: the terms, and the whole line only where all of it did. A sum of terms of several places is not one
// place's. Where no part says more than the line, the line is tinted.
void FormulaView::findTinted() {
  using Relation = Selection::Relation;
  m_tinted.clear();
  // Of a place in a function what was written out from there; the name that a statement makes stands for all of it.
  const auto& spans = m_selection->spans();
  const auto isNameOf = [&](std::uint32_t statement, std::uint32_t name) {
    if (statement >= spans.size() || name >= spans.size()) return false;
    const protocol::SourceSpan &s = spans[statement], &n = spans[name];
    return s.source == n.source && s.begin == n.begin && s.end >= n.end;
  };
  const auto isInBody = [&](const protocol::Formula& formula, const protocol::FormulaNode& node) {
    const auto isOfName = [&](std::uint32_t name) {
      return std::ranges::any_of(node.bodies, [&](std::uint32_t o) { return isNameOf(o, name); });
    };
    if (m_selection->relationOfPlaces(node.bodies) == Relation::Exact) return true;
    return m_selection->isCalled(formula.name) && std::ranges::any_of(m_selection->body(), isOfName);
  };
  for (const auto& formula : m_formulas) {
    const std::size_t n = formula.nodes.size();
    std::vector<bool> exact(n, false), own(n, false), left(n, false);
    if (n > 0 && formula.nodes.back().kind == protocol::FormulaKind::Equation) {
      left.back() = true;
      std::vector<std::uint32_t> open{formula.nodes.back().children.front()};
      while (!open.empty()) {
        const std::uint32_t i = open.back();
        open.pop_back();
        left[i] = true;
        open.insert(open.end(), formula.nodes[i].children.begin(), formula.nodes[i].children.end());
      }
    }
    bool any = false;
    for (std::size_t i = 0; i < n && !m_selection->empty(); ++i) {
      const auto& origins = formula.nodes[i].origins;
      exact[i] = m_selection->relation(origins) == Relation::Exact;
      own[i] = exact[i] && std::all_of(origins.begin(), origins.end(), [&](std::uint32_t o) {
                 const Relation r = m_selection->relation({o});
                 return left[i] ? r == Relation::Exact : r != Relation::None;
               });
      any = any || own[i];
    }
    m_tinted.push_back(any ? std::move(own) : std::move(exact));
  }
  leaveOtherResults();
  leaveOtherLosses();
  // What is chosen by its name is all that its formula writes out.
  for (std::size_t f = 0; f < m_formulas.size() && !m_selection->byPlace(); ++f)
    if (m_selection->isCalled(m_formulas[f].name)) m_tinted[f].assign(m_tinted[f].size(), true);
  // A derivative has a name of its own, whatever its places are.
  for (std::size_t f = 0; f < m_formulas.size() && !m_selection->tensors().empty(); ++f)
    for (std::uint32_t i = 0; i < m_formulas[f].nodes.size(); ++i)
      if (const std::string name = derivativeAt(m_formulas[f], i); !name.empty())
        m_tinted[f][i] = m_tinted[f][i] || m_selection->isCalled(name);
  for (std::size_t f = 0; f < m_formulas.size() && !m_selection->body().empty(); ++f)
    for (std::size_t i = 0; i < m_formulas[f].nodes.size(); ++i) m_tinted[f][i] = isInBody(m_formulas[f], m_formulas[f].nodes[i]);
  update();
}

// A call of a function of several results is one statement: what is chosen by the name of one comes from where that is written.
void FormulaView::leaveOtherResults() {
  if (m_selection->byPlace()) return;
  const auto isCalled = [this](const protocol::Formula& formula) { return m_selection->isCalled(formula.name); };
  Selection bodies;
  bodies.setSpans(m_selection->spans());
  if (m_selection->written().empty()) return;
  std::set<protocol::Origins> statements;
  for (const auto& formula : m_formulas)
    if (isCalled(formula) && !formula.nodes.empty()) statements.insert(formula.nodes.back().origins);
  bodies.select(m_selection->written());
  for (std::size_t f = 0; f < m_formulas.size(); ++f) {
    const auto& nodes = m_formulas[f].nodes;
    if (isCalled(m_formulas[f]) || nodes.empty()) continue;
    const bool sameCall = statements.contains(nodes.back().origins);
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].bodies.empty() ? sameCall : bodies.relation(nodes[i].bodies) != Selection::Relation::Exact)
        m_tinted[f][i] = false;
  }
}

// The gradients of two losses come from the same places.
void FormulaView::leaveOtherLosses() {
  if (m_selection->byPlace()) return;
  std::set<std::string> losses;
  for (const std::string& tensor : m_selection->tensors()) losses.insert(lossOf(tensor));
  if (losses.contains({})) return;
  for (std::size_t f = 0; f < m_formulas.size(); ++f)
    if (const std::string loss = lossOf(m_formulas[f].name); !loss.empty() && !losses.contains(loss))
      m_tinted[f].assign(m_tinted[f].size(), false);
}

void FormulaView::setFormulas(std::vector<protocol::Formula> formulas) {
  m_formulas = std::move(formulas);
  m_hovered.reset();
  QStringList latex;
  for (const auto& f : m_formulas) latex << toLatex(f);
  setAccessibleName(latex.join(QLatin1Char('\n')));
  findTinted();
  layOut();
}

void FormulaView::layOut() {
  m_boxes.clear();
  m_origins.clear();
  const double room = std::max(kLeast, width() - 8.0);
  double y = 8, widest = 0;
  for (const auto& formula : m_formulas) {
    FormulaBox box = setFormula(formula, *m_theme, kPx * m_theme->textScale(), room);
    m_origins.emplace_back(0, y + box.ascent);
    y += box.ascent + box.descent + 16;
    widest = std::max(widest, box.width);
    m_boxes.push_back(std::move(box));
  }
  m_content = {static_cast<int>(widest) + 8, m_boxes.empty() ? 0 : static_cast<int>(y)};
  placeScrollBar();
  update();
}

void FormulaView::setOnPaper(bool onPaper) {
  if (m_onPaper == onPaper) return;
  m_onPaper = onPaper;
  placeScrollBar();
  update();
}

QSize FormulaView::sizeHint() const { return {m_content.width(), m_content.height() + (m_scroll->isHidden() ? 0 : kBar)}; }

void FormulaView::placeScrollBar() {
  const int beyond = std::max(0, m_content.width() - width());
  m_scroll->setRange(0, beyond);
  m_scroll->setPageStep(width());
  m_scroll->setVisible(beyond > 0 && !m_onPaper);
  const int wanted = sizeHint().height();
  m_scroll->setGeometry(0, wanted - kBar, width(), kBar);
  if (height() == wanted) return;
  setFixedHeight(wanted);
  updateGeometry();
  Q_EMIT heightChanged();
}

void FormulaView::resizeEvent(QResizeEvent* event) {
  if (event->oldSize().width() != event->size().width()) layOut();
}

// Upright the notebook scrolls.
void FormulaView::wheelEvent(QWheelEvent* event) {
  const QPoint by = event->angleDelta();
  const int sideways = event->modifiers() & Qt::ShiftModifier ? by.x() + by.y() : by.x();
  if (sideways == 0 || m_scroll->maximum() == 0) return event->ignore();
  m_scroll->setValue(m_scroll->value() - sideways);
}

void FormulaView::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const Palette& c = m_theme->colors();
  const double fit = m_onPaper && m_content.width() > width() ? double(width()) / m_content.width() : 1;
  p.scale(fit, fit);
  for (std::size_t i = 0; i < m_boxes.size(); ++i) {
    const FormulaBox& box = m_boxes[i];
    p.save();
    p.translate(m_origins[i] - QPointF(m_onPaper ? 0 : m_scroll->value(), 0));
    p.setPen(Qt::NoPen);
    for (const auto& region : box.regions) {
      if (m_onPaper) break;
      const bool selected = tinted(i, region.node);
      const bool hovered = m_hovered && m_hovered->first == i && m_hovered->second == region.node;
      if (!selected && !hovered) continue;
      p.setBrush(selected ? c.accentSoft : mixed(c.page, c.accent, 0.08));
      p.drawRoundedRect(region.rect.adjusted(-3, -3, 3, 3), 3, 3);
    }
    p.setPen(c.text);
    for (const auto& run : box.runs) {
      p.setFont(run.font);
      p.drawText(run.at, run.text);
    }
    p.setBrush(Qt::NoBrush);
    for (const auto& stroke : box.strokes) {
      p.setPen(QPen(c.text, stroke.width, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
      p.drawPolyline(stroke.points.data(), static_cast<int>(stroke.points.size()));
    }
    p.restore();
  }
}

std::optional<std::pair<std::size_t, std::uint32_t>> FormulaView::partAt(QPointF at) const {
  std::optional<std::pair<std::size_t, std::uint32_t>> best;
  double area = 1e18;
  at.rx() += m_scroll->value();
  for (std::size_t i = 0; i < m_boxes.size(); ++i)
    for (const auto& region : m_boxes[i].regions) {
      const QRectF r = region.rect.translated(m_origins[i]);
      if (r.contains(at) && r.width() * r.height() < area) area = r.width() * r.height(), best = {i, region.node};
    }
  return best;
}

// A product came from its sign, its factors from their accesses: all of them are what was clicked.
protocol::Origins FormulaView::originsWithin(std::size_t formula, std::uint32_t node) const {
  const auto& nodes = m_formulas[formula].nodes;
  protocol::Origins all;
  std::set<std::uint32_t> known;
  std::vector<std::uint32_t> open{node};
  while (!open.empty()) {
    const auto& part = nodes[open.back()];
    open.pop_back();
    // It stands for the whole statement that it is the derivative by: what stands beside it says more.
    if (!derivativeAt(m_formulas[formula], static_cast<std::uint32_t>(&part - nodes.data())).empty() && &part != &nodes[node])
      continue;
    for (const std::uint32_t o : part.origins)
      if (known.insert(o).second) all.push_back(o);
    open.insert(open.end(), part.children.rbegin(), part.children.rend());
  }
  return all;
}

// What a click there chooses. Of what is written in a function the place there: the call is of all that the function makes. What is read
// there is handed over by the call.
protocol::Origins FormulaView::chosenBy(std::size_t formula, std::uint32_t node) const {
  using Kind = protocol::FormulaKind;
  const auto& part = m_formulas[formula].nodes[node];
  if (part.bodies.empty()) return originsWithin(formula, node);
  const auto isCall = [this](std::uint32_t o) { return m_selection->isCall(o); };
  protocol::Origins handed = originsWithin(formula, node);
  // A sum of what several statements give is of none of them.
  if (part.kind != Kind::Subscript && part.kind != Kind::Name)
    return std::ranges::all_of(part.origins, isCall) ? protocol::Origins{part.bodies.front()} : handed;
  std::erase_if(handed, isCall);
  return handed.empty() ? protocol::Origins{part.bodies.front()} : handed;
}

// The left side, the sign of equality and what is summed outermost stand for the operator that the formula writes out.
bool FormulaView::isOperator(std::size_t formula, std::uint32_t node) const {
  const auto& nodes = m_formulas[formula].nodes;
  const auto& root = nodes.back();
  if (m_formulas[formula].name.empty() || root.kind != protocol::FormulaKind::Equation || root.children.size() != 2) return false;
  if (node + 1 == nodes.size()) return true;
  if (node == root.children[1]) return nodes[node].kind == protocol::FormulaKind::Reduce;
  std::vector<std::uint32_t> open{root.children[0]};
  while (!open.empty()) {
    const std::uint32_t i = open.back();
    open.pop_back();
    if (i == node) return true;
    open.insert(open.end(), nodes[i].children.begin(), nodes[i].children.end());
  }
  return false;
}

void FormulaView::mousePressEvent(QMouseEvent* event) {
  const auto part = partAt(event->position());
  if (!part) return m_selection->clear();
  const std::string derivative = derivativeAt(m_formulas[part->first], part->second);
  if (isOperator(part->first, part->second)) m_selection->select({}, {m_formulas[part->first].name});
  else if (!derivative.empty()) m_selection->select({}, {derivative});
  else m_selection->select(chosenBy(part->first, part->second));
}

void FormulaView::mouseMoveEvent(QMouseEvent* event) {
  const auto part = partAt(event->position());
  if (part == m_hovered) return;
  m_hovered = part;
  setCursor(part ? Qt::PointingHandCursor : Qt::ArrowCursor);
  update();
}

void FormulaView::leaveEvent(QEvent*) {
  m_hovered.reset();
  update();
}

}  // namespace nf
