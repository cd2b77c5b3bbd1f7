// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/stage_slider.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>

#include "widgets/basic.h"

namespace nf {

using namespace protocol;

namespace {
constexpr int kBeside = 58, kBelow = 72, kLine = 18;  // heights: of all, where notes stand below with one line; of a further line
}

StageSlider::StageSlider(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_current(QStringLiteral("fused")) {
  setFixedHeight(kBeside);
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
  fit();
  update();
}

void StageSlider::setCurrent(const QString& stage) {
  m_current = stage;
  fit();
  update();
}

int StageSlider::count() const { return static_cast<int>(m_stages.size()); }
double StageSlider::xOf(int i) const { return 84 + (width() - 176.0) * i / std::max(1, count() - 1); }

// Each stage has the room around its stop, up to halfway to the next one; the outer two reach to the edges.
std::vector<StageSlider::Words> StageSlider::words() const {
  constexpr double kMargin = 8, kGap = 8, kApart = 14, kTop = 30;
  std::vector<Words> all;
  const QFontMetricsF small(m_theme->ui(12));
  for (int i = 0; i < count(); ++i) {
    const auto& s = m_stages[static_cast<std::size_t>(i)];
    const double left = i == 0 ? kMargin : (xOf(i - 1) + xOf(i)) / 2 + kApart / 2,
                 right = i + 1 == count() ? width() - kMargin : (xOf(i) + xOf(i + 1)) / 2 - kApart / 2;
    Words w;
    w.word = QString::fromStdString(s.stage);
    if (s.operators > 0)
      w.whole = s.note.empty() ? counted(s.operators, tr("operator"), tr("operators")) : QString::fromStdString(s.note);
    const bool current = w.word == m_current;
    const double word = QFontMetricsF(m_theme->ui(12, current ? QFont::DemiBold : QFont::Normal)).horizontalAdvance(w.word) + 2;
    const double room = std::max(0.0, right - left - (m_below ? 0 : word + kGap));
    w.fits = small.horizontalAdvance(w.whole) <= room;
    const QSizeF lines = small.boundingRect(QRectF(0, 0, room, QWIDGETSIZE_MAX), Qt::TextWordWrap, w.whole).size();
    const double note = w.whole.isEmpty() ? 0 : std::min(room, (w.fits ? small.horizontalAdvance(w.whole) : lines.width()) + 2);
    w.lines = w.fits ? 1 : std::max(1, qRound(lines.height() / small.lineSpacing()));
    const auto from = [&](double wide) { return std::clamp(xOf(i) - wide / 2, left, std::max(left, right - wide)); };
    if (m_below) {
      w.wordAt = QRectF(from(word), kTop, word, kLine);
      w.noteAt = QRectF(from(note), kTop + kLine, note, kLine * w.lines);
    } else {
      w.wordAt = QRectF(from(word + (note > 0 ? kGap + note : 0)), kTop + 2, word, kLine);
      w.noteAt = QRectF(w.wordAt.right() + kGap, kTop + 2, note, kLine);
    }
    all.push_back(std::move(w));
  }
  return all;
}

void StageSlider::fit() {
  m_below = false;
  const auto beside = words();
  m_below = std::any_of(beside.begin(), beside.end(), [](const Words& w) { return !w.fits; });
  int lines = 1;
  if (m_below)
    for (const Words& w : words()) lines = std::max(lines, w.lines);
  setFixedHeight(m_below ? kBelow + kLine * (lines - 1) : kBeside);
}

void StageSlider::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  if (event->oldSize().width() != event->size().width()) fit();
}

std::vector<QRectF> StageSlider::labels() const {
  std::vector<QRectF> all;
  for (const Words& w : words()) all.push_back(w.whole.isEmpty() ? w.wordAt : w.wordAt.united(w.noteAt));
  return all;
}

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
  const auto all = words();
  for (int i = 0; i < count(); ++i) {
    const Words& w = all[static_cast<std::size_t>(i)];
    p.setPen(QPen(i <= current ? c.accent : c.hint, 2));
    p.setBrush(i == current ? c.accent : c.page);
    p.drawEllipse(QPointF(xOf(i), y), i == current ? 6.5 : 4.5, i == current ? 6.5 : 4.5);
    p.setFont(m_theme->ui(12, i == current ? QFont::DemiBold : QFont::Normal));
    p.setPen(i == current ? c.text : c.muted);
    p.drawText(w.wordAt, Qt::AlignVCenter, w.word);
    p.setFont(m_theme->ui(12));
    p.setPen(c.hint);
    p.drawText(w.noteAt, w.fits ? int(Qt::AlignVCenter) : int(Qt::AlignTop | Qt::AlignHCenter | Qt::TextWordWrap), w.whole);
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
