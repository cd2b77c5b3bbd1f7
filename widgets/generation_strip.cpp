// SPDX-License-Identifier: GPL-3.0-or-later
// The generations of a search, a box each.
#include <QKeyEvent>
#include <QPainter>
#include <QToolButton>
#include <algorithm>
#include <optional>

#include "widgets/basic.h"
#include "widgets/plots.h"
#include "widgets/trial_marks.h"

namespace nf {

using protocol::TrialInfo;

GenerationStrip::GenerationStrip(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_back(new IconButton(theme, QStringLiteral("left"), {}, this)),
      m_forward(new IconButton(theme, QStringLiteral("right"), {}, this)) {
  m_back->setAccessibleName(tr("The generation before"));
  m_forward->setAccessibleName(tr("The generation after"));
  for (QToolButton* b : {m_back, m_forward}) {
    b->setToolTip(b->accessibleName());
    b->setFocusPolicy(Qt::StrongFocus);
    b->setAutoRepeat(true);
    b->hide();
  }
  connect(m_back, &QToolButton::clicked, this, [this] { step(-1); });
  connect(m_forward, &QToolButton::clicked, this, [this] { step(1); });
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Generations of the search"));
  connect(theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

void GenerationStrip::setTrials(const std::vector<TrialInfo>& trials) {
  m_trials = trials;
  m_generations.clear();
  // One on record that is tried again stands among the old ones: what counts is its generation.
  std::vector<const TrialInfo*> order;
  for (const TrialInfo& t : trials) order.push_back(&t);
  std::stable_sort(order.begin(), order.end(),
                   [](const TrialInfo* a, const TrialInfo* b) { return a->generation < b->generation; });
  const TrialInfo* overall = nullptr;
  for (const TrialInfo* t : order) {
    if (!measured(*t)) continue;
    if (!overall || *t->us < *overall->us) overall = t;
    if (m_generations.empty() || m_generations.back().number != t->generation)
      m_generations.push_back({t->generation, t->number, *t->us});
    Generation& own = m_generations.back();
    if (*t->us < own.us) own.best = t->number, own.us = *t->us;
  }
  m_best = overall ? std::optional(overall->number) : std::nullopt;
  refreshArrows();
  update();
}

void GenerationStrip::setCurrent(std::optional<std::uint64_t> number) {
  m_current = number;
  refreshArrows();
  update();
}

// They stand where not all generations fit.
void GenerationStrip::refreshArrows() {
  const int count = static_cast<int>(m_generations.size()), y = (height() - m_back->sizeHint().height()) / 2;
  m_back->move(0, y);
  m_forward->move(width() - m_forward->sizeHint().width(), y);
  for (QToolButton* b : {m_back, m_forward}) b->setVisible(count > fits());
  m_back->setEnabled(current() > 0);
  m_forward->setEnabled(current() >= 0 && current() + 1 < count);
}

void GenerationStrip::resizeEvent(QResizeEvent*) { refreshArrows(); }

int GenerationStrip::current() const {
  if (m_generations.empty()) return -1;
  for (const TrialInfo& t : m_trials)
    if (t.number == m_current.value_or(*m_best))
      for (std::size_t i = 0; i < m_generations.size(); ++i)
        if (m_generations[i].number == t.generation) return static_cast<int>(i);
  return -1;
}

namespace {
constexpr int kBox = 62, kBoxGap = 6, kBoxes = 28;  // an arrow stands before them, and one behind
}

int GenerationStrip::fits() const { return std::max(1, (width() - 2 * kBoxes + kBoxGap) / (kBox + kBoxGap)); }

// As many as fit; the chosen one is always among them.
int GenerationStrip::firstShown() const {
  const int count = static_cast<int>(m_generations.size());
  if (count <= fits()) return 0;
  return std::clamp(current() - fits() / 2, 0, count - fits());
}

std::vector<std::int64_t> GenerationStrip::shown() const {
  std::vector<std::int64_t> out;
  for (std::size_t i = static_cast<std::size_t>(firstShown());
       i < m_generations.size() && out.size() < static_cast<std::size_t>(fits()); ++i)
    out.push_back(m_generations[i].number);
  return out;
}

QRect GenerationStrip::boxOf(int index) const { return {kBoxes + (index - firstShown()) * (kBox + kBoxGap), 6, kBox, 36}; }

void GenerationStrip::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const Palette& c = m_theme->colors();
  const int now = current(), end = std::min(firstShown() + fits(), static_cast<int>(m_generations.size()));
  for (int i = firstShown(); i < end; ++i) {
    const QRect r = boxOf(i);
    const Generation& g = m_generations[static_cast<std::size_t>(i)];
    p.setPen(QPen(i == now ? c.accent : c.separator, i == now ? 1.4 : 1));
    p.setBrush(i == now ? c.accentSoft : c.raised);
    p.drawRoundedRect(QRectF(r).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
    p.setFont(m_theme->mono(12, i == now ? QFont::DemiBold : QFont::Normal));
    p.setPen(i == now ? c.text : c.muted);
    p.drawText(r.adjusted(0, 3, 0, -18), Qt::AlignCenter, QStringLiteral("g%1").arg(g.number));
    p.setFont(m_theme->mono(11));
    p.drawText(r.adjusted(0, 17, 0, -3), Qt::AlignCenter, microsecondsText(g.us));
  }
  if (m_generations.empty()) {
    p.setPen(c.hint);
    p.setFont(m_theme->ui(12));
    p.drawText(rect().adjusted(kBoxes, 0, 0, 0), Qt::AlignVCenter, tr("no generation yet"));
  }
  if (hasFocus()) {
    p.setPen(QPen(c.accent, 1.4));
    p.setBrush(Qt::NoBrush);
    p.drawLine(kBoxes, height() - 2, width() - 16, height() - 2);
  }
}

void GenerationStrip::mousePressEvent(QMouseEvent* event) {
  const int end = std::min(firstShown() + fits(), static_cast<int>(m_generations.size()));
  for (int i = firstShown(); i < end; ++i)
    if (boxOf(i).contains(event->pos())) return Q_EMIT trialChosen(m_generations[static_cast<std::size_t>(i)].best);
}

void GenerationStrip::step(int by) {
  if (m_generations.empty()) return;
  const int to = std::clamp(current() + by, 0, static_cast<int>(m_generations.size()) - 1);
  Q_EMIT trialChosen(m_generations[static_cast<std::size_t>(to)].best);
}

void GenerationStrip::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Left: return step(-1);
    case Qt::Key_Right: return step(1);
    case Qt::Key_Home: return step(-static_cast<int>(m_generations.size()));
    case Qt::Key_End: return step(static_cast<int>(m_generations.size()));
    default: QWidget::keyPressEvent(event);
  }
}

}  // namespace nf
