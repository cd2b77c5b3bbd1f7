// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/stage_slider.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>

namespace nf {

using namespace protocol;

StageSlider::StageSlider(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_current(QStringLiteral("fused")) {
  setFixedHeight(58);
  setFocusPolicy(Qt::TabFocus);
  setAccessibleName(tr("Stage"));
  clear();
  connect(theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

void StageSlider::clear() {
  m_stages.clear();
  for (const char* stage : {"source", "differentiated", "transformed", "partitioned", "fused"}) m_stages.push_back({stage, 0, {}});
  update();
}

void StageSlider::setStages(const std::vector<StageSummary>& stages) {
  if (!stages.empty()) m_stages = stages;
  update();
}

void StageSlider::setCurrent(const QString& stage) {
  m_current = stage;
  update();
}

int StageSlider::count() const { return static_cast<int>(m_stages.size()); }
double StageSlider::xOf(int i) const { return 84 + (width() - 176.0) * i / std::max(1, count() - 1); }

void StageSlider::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const Palette& c = m_theme->colors();
  p.fillRect(rect(), c.page);
  int current = 0;
  for (int i = 0; i < count(); ++i)
    if (QString::fromStdString(m_stages[static_cast<std::size_t>(i)].stage) == m_current) current = i;
  const double y = 18;
  p.setPen(QPen(c.separator, 2));
  p.drawLine(QPointF(xOf(0), y), QPointF(xOf(count() - 1), y));
  p.setPen(QPen(c.accent, 2));
  p.drawLine(QPointF(xOf(0), y), QPointF(xOf(current), y));
  for (int i = 0; i < count(); ++i) {
    const auto& s = m_stages[static_cast<std::size_t>(i)];
    p.setPen(QPen(i <= current ? c.accent : c.hint, 2));
    p.setBrush(i == current ? c.accent : c.page);
    p.drawEllipse(QPointF(xOf(i), y), i == current ? 6.5 : 4.5, i == current ? 6.5 : 4.5);
    const QString word = QString::fromStdString(s.stage);
    const QString note =
        s.operators > 0 ? QString::fromStdString(s.note.empty() ? std::to_string(s.operators) + " operators" : s.note) : QString();
    p.setFont(m_theme->ui(12, i == current ? QFont::DemiBold : QFont::Normal));
    const double w = p.fontMetrics().horizontalAdvance(word);
    QFont small = m_theme->ui(12);
    const QFontMetrics metrics(small);
    const double room = (width() - 176.0) / std::max(1, count() - 1) - w - 18;
    const QString shortNote = metrics.elidedText(note, Qt::ElideRight, static_cast<int>(room));
    const double total = w + (shortNote.isEmpty() ? 0 : 8 + metrics.horizontalAdvance(shortNote));
    const double x = std::clamp(xOf(i) - total / 2, 8.0, std::max(8.0, width() - total - 8));
    p.setPen(i == current ? c.text : c.muted);
    p.drawText(QRectF(x, 32, w + 4, 18), Qt::AlignVCenter, word);
    p.setFont(small);
    p.setPen(c.hint);
    p.drawText(QRectF(x + w + 8, 32, total, 18), Qt::AlignVCenter, shortNote);
  }
  if (hasFocus()) {
    p.setPen(QPen(c.accent, 1));
    p.setBrush(Qt::NoBrush);
    p.drawEllipse(QPointF(xOf(current), y), 10, 10);
  }
}

void StageSlider::mousePressEvent(QMouseEvent* event) {
  int best = 0;
  for (int i = 1; i < count(); ++i)
    if (std::abs(xOf(i) - event->position().x()) < std::abs(xOf(best) - event->position().x())) best = i;
  Q_EMIT chosen(QString::fromStdString(m_stages[static_cast<std::size_t>(best)].stage));
}

void StageSlider::keyPressEvent(QKeyEvent* event) {
  const int step = event->key() == Qt::Key_Left ? -1 : event->key() == Qt::Key_Right ? 1 : 0;
  if (step == 0) return QWidget::keyPressEvent(event);
  for (int i = 0; i < count(); ++i)
    if (QString::fromStdString(m_stages[static_cast<std::size_t>(i)].stage) == m_current) {
      const int next = std::clamp(i + step, 0, count() - 1);
      if (next != i) Q_EMIT chosen(QString::fromStdString(m_stages[static_cast<std::size_t>(next)].stage));
      return;
    }
}

}  // namespace nf
