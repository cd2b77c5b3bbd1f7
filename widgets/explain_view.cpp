// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/explain_view.h"

#include <QComboBox>
#include <QFile>
#include <QFileDialog>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <QScrollArea>
#include <QSortFilterProxyModel>
#include <QSplitter>
#include <QStackedWidget>
#include <QStyledItemDelegate>
#include <QTableView>
#include <QTableWidget>
#include <cmath>

#include "widgets/basic.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_view.h"

namespace nf {

using namespace protocol;

// ---------------------------------------------------------------- stages
StageSlider::StageSlider(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_current(QStringLiteral("fused")) {
  setFixedHeight(58);
  setFocusPolicy(Qt::TabFocus);
  setAccessibleName(tr("Stage"));
  for (const char* stage : {"source", "differentiated", "transformed", "partitioned", "fused"}) m_stages.push_back({stage, 0, {}});
  connect(theme, &Theme::changed, this, qOverload<>(&QWidget::update));
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

// ---------------------------------------------------------------- the card
namespace {

QString plusMinus(double us) {
  return (us > 0 ? QStringLiteral("+") : us < 0 ? QStringLiteral("-") : QString()) + QString::number(std::abs(us), 'f', 2);
}

// dT/P_d + dC/P_c + dK·L = R, each bar where the one before ended.
class Waterfall : public QWidget {
 public:
  Waterfall(const Theme* theme, const FusionDecisionInfo& d, const DeviceConstants& k) : m_theme(theme) {
    const double a = k.bandwidth > 0 ? d.dT / k.bandwidth * 1e6 : 0, b = k.flopRate > 0 ? d.dC / k.flopRate * 1e6 : 0,
                 c = d.dK * k.launchSeconds * 1e6;
    m_rows = {
        {QStringLiteral("dT / P_d"), tr("%1 at %2").arg(bytesText(d.dT), flopsText(k.bandwidth, QStringLiteral("B/s"))), 0, a},
        {QStringLiteral("dC / P_c"), tr("%1 at %2").arg(flopsText(d.dC), flopsText(k.flopRate, QStringLiteral("FLOP/s"))), a,
         a + b},
        {QStringLiteral("dK · L"), tr("%1 launches at %2").arg(d.dK).arg(microsecondsText(k.launchSeconds * 1e6)), a + b,
         a + b + c},
        {QStringLiteral("R"), QString(), 0, d.R * 1e6}};
    setFixedHeight(4 * 38 - 10);
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    const Palette& c = m_theme->colors();
    double low = 0, high = 0;
    for (const Row& r : m_rows) low = std::min({low, r.from, r.to}), high = std::max({high, r.from, r.to});
    if (high - low < 1e-9) high = low + 1;
    const double left = 104, room = width() - left - 4;
    const auto x = [&](double v) { return left + (v - low) / (high - low) * room; };
    p.setPen(c.text);
    p.drawLine(QPointF(x(0), 0), QPointF(x(0), height()));
    for (std::size_t i = 0; i < m_rows.size(); ++i) {
      const Row& r = m_rows[i];
      const double y = static_cast<double>(i) * 38;
      const double value = r.to - r.from;
      const QRectF bar(std::min(x(r.from), x(r.to)), y, std::max(2.0, std::abs(x(r.to) - x(r.from))), 15);
      const bool total = i + 1 == m_rows.size();
      p.fillRect(bar, total ? c.text : value >= 0 ? c.optimizer : c.backward);
      p.setFont(m_theme->ui(12, QFont::DemiBold));
      p.setPen(c.text);
      p.drawText(QRectF(0, y - 1, left - 8, 17), Qt::AlignVCenter, r.name);
      p.setFont(m_theme->ui(11));
      p.setPen(c.muted);
      p.drawText(QRectF(0, y + 16, width(), 15), Qt::AlignVCenter, r.note);
      p.setFont(m_theme->mono(11, QFont::DemiBold));
      const QString text = plusMinus(value) + (total ? QStringLiteral(" µs") : QString());
      const double w = p.fontMetrics().horizontalAdvance(text) + 4;
      if (bar.width() > w + 6) {
        p.setPen(total ? c.page : c.dark ? QColor(0x10, 0x14, 0x18) : QColor(Qt::white));
        p.drawText(bar, Qt::AlignCenter, text);
      } else {
        p.setPen(c.text);
        const bool right = bar.right() + w < width();
        p.drawText(right ? QRectF(bar.right() + 4, y, w, 15) : QRectF(bar.left() - w - 2, y, w, 15), Qt::AlignVCenter, text);
      }
    }
  }

 private:
  struct Row {
    QString name, note;
    double from, to;
  };
  const Theme* m_theme;
  std::vector<Row> m_rows;
};

// R over the size that flips it soonest, with where it stands now.
class FlipCurve : public QWidget {
 public:
  FlipCurve(const Theme* theme, FusionCurve curve, FusionFlip flip)
      : m_theme(theme), m_curve(std::move(curve)), m_flip(std::move(flip)) {
    setFixedHeight(96);
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    const std::size_t n = std::min(m_curve.x.size(), m_curve.rewardSeconds.size());
    if (n < 2) return;
    QPainter p(this);
    p.setRenderHint(QPainter::Antialiasing);
    const Palette& c = m_theme->colors();
    double lowX = m_curve.x[0], highX = lowX, low = 0, high = 0;
    for (std::size_t i = 0; i < n; ++i) {
      lowX = std::min(lowX, m_curve.x[i]), highX = std::max(highX, m_curve.x[i]);
      low = std::min(low, m_curve.rewardSeconds[i]), high = std::max(high, m_curve.rewardSeconds[i]);
    }
    if (!(highX > lowX) || !(high > low)) return;
    const double left = 34, room = width() - left - 8, bottom = height() - 22;
    const auto x = [&](double v) { return left + (v - lowX) / (highX - lowX) * room; };
    const auto y = [&](double v) { return 6 + (high - v) / (high - low) * (bottom - 12); };
    p.setPen(QPen(c.grid, 1));
    p.drawLine(QPointF(left, y(0)), QPointF(width(), y(0)));
    p.setFont(m_theme->ui(11));
    p.setPen(c.muted);
    p.drawText(QRectF(0, y(0) - 8, left - 6, 16), Qt::AlignVCenter, QStringLiteral("R 0"));
    for (std::size_t i = 0; i + 1 < n; ++i) {
      p.setPen(QPen(m_curve.rewardSeconds[i] + m_curve.rewardSeconds[i + 1] >= 0 ? c.optimizer : c.backward, 2));
      p.drawLine(QPointF(x(m_curve.x[i]), y(m_curve.rewardSeconds[i])),
                 QPointF(x(m_curve.x[i + 1]), y(m_curve.rewardSeconds[i + 1])));
    }
    const auto mark = [&](double v, const QString& text, bool filled, bool strong) {
      if (v < lowX || v > highX) return;
      double r = m_curve.rewardSeconds[0];
      for (std::size_t i = 0; i + 1 < n; ++i)
        if (v >= m_curve.x[i] && v <= m_curve.x[i + 1])
          r = m_curve.rewardSeconds[i] + (m_curve.rewardSeconds[i + 1] - m_curve.rewardSeconds[i]) * (v - m_curve.x[i]) /
                                             std::max(1e-300, m_curve.x[i + 1] - m_curve.x[i]);
      p.setPen(QPen(c.text, 1.4));
      p.setBrush(filled ? c.text : c.page);
      p.drawEllipse(QPointF(x(v), y(r)), 4, 4);
      p.setFont(m_theme->ui(11, strong ? QFont::DemiBold : QFont::Normal));
      p.setPen(c.text);
      const double w = p.fontMetrics().horizontalAdvance(text);
      p.drawText(QRectF(std::clamp(x(v) - w / 2, left, width() - w - 2), bottom + 2, w + 4, 18), Qt::AlignVCenter, text);
    };
    mark(m_flip.threshold, QObject::tr("flips at %1").arg(significant(m_flip.threshold)), false, true);
    mark(m_flip.now, QObject::tr("now %1").arg(significant(m_flip.now)), true, true);
  }

 private:
  const Theme* m_theme;
  FusionCurve m_curve;
  FusionFlip m_flip;
};

QString quantityText(double value, const std::string& unit) {
  if (unit == "s") return microsecondsText(value * 1e6);
  if (unit == "B/s" || unit == "FLOP/s") return flopsText(value, QString::fromStdString(unit));
  return significant(value, 4);
}

class FusionDelegate : public QStyledItemDelegate {
 public:
  FusionDelegate(const Theme* theme, const FusionModel* model, QObject* parent)
      : QStyledItemDelegate(parent), m_theme(theme), m_model(model) {}
  void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Palette& c = m_theme->colors();
    const bool selected = option.state & QStyle::State_Selected;
    p->fillRect(option.rect, selected ? c.accentSoft : c.page);
    if (selected && index.column() == 0)
      p->fillRect(QRect(option.rect.left(), option.rect.top(), 3, option.rect.height()), c.accent);
    p->fillRect(QRect(option.rect.left(), option.rect.bottom(), option.rect.width(), 1), c.grid);
    const auto& d = m_model->report().decisions[static_cast<std::size_t>(index.data(FusionModel::kDecisionRole).toInt())];
    const QRect r = option.rect.adjusted(8, 0, -8, 0);
    if (index.column() == FusionModel::kBar) {
      // Signed, about the middle; a square root keeps small ones visible, the number beside it is exact.
      const double us = index.data(Qt::UserRole).toDouble(), most = std::max(1e-9, m_model->largestReward());
      const double half = r.width() / 2.0, w = half * std::sqrt(std::min(1.0, std::abs(us) / most));
      const double middle = r.left() + half;
      p->fillRect(QRectF(us >= 0 ? middle : middle - w, r.center().y() - 4, std::max(1.5, w), 9),
                  us >= 0 ? c.optimizer : c.backward);
      p->fillRect(QRectF(middle, r.top() + 4, 1, r.height() - 8), c.separator);
      return;
    }
    int left = 0;
    QColor color = c.text;
    if (index.column() == FusionModel::kState) {
      color = stateColor(d.state, c);
      p->drawPixmap(r.left(), r.center().y() - 7, m_theme->pixmap(stateIcon(d.state), color, p->device()->devicePixelRatioF()));
      left = 22;
      if (d.state != FusionState::Reverted) color = c.text;
    }
    const bool words =
        index.column() == FusionModel::kCategory || index.column() == FusionModel::kState || index.column() == FusionModel::kNumber;
    p->setFont(words ? m_theme->ui(12) : m_theme->mono(12));
    const QString text = index.data(Qt::DisplayRole).toString();
    p->setPen(text == QLatin1String("0") || text == QStringLiteral("–") || index.column() == FusionModel::kNumber ? c.hint : color);
    p->drawText(r.adjusted(left, 0, 0, 0), index.data(Qt::TextAlignmentRole).toInt(),
                p->fontMetrics().elidedText(text, Qt::ElideRight, r.width() - left));
  }

 private:
  const Theme* m_theme;
  const FusionModel* m_model;
};

class StateProxy : public QSortFilterProxyModel {
 public:
  using QSortFilterProxyModel::QSortFilterProxyModel;
  void setState(int state) {
    m_state = state;
    invalidateFilter();
  }

 protected:
  bool filterAcceptsRow(int row, const QModelIndex&) const override {
    return m_state < 0 ||
           static_cast<int>(
               static_cast<const FusionModel*>(sourceModel())->report().decisions[static_cast<std::size_t>(row)].state) == m_state;
  }

 private:
  int m_state = -1;
};

}  // namespace

DecisionCard::DecisionCard(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_header(new PanelHeader(theme, tr("Decision"))), m_title(label({})), m_why(label({})),
      m_empty(label(tr("Choose a decision in the table: its numbers, what would flip it, and what you can do about it stand here."),
                    "muted")),
      m_noise(label({}, "muted")), m_badge(new Badge(theme)), m_waterfall(new Section(theme, tr("Why"))),
      m_flip(new Section(theme, tr("Smallest change that flips it"))), m_what(new Section(theme, tr("What if"))),
      m_force(new QPushButton(tr("Force"))), m_forbid(new QPushButton(tr("Forbid"))),
      m_release(new QPushButton(tr("Let the reward decide"))), m_body(new QWidget) {
  setProperty("role", QStringLiteral("page"));
  setAttribute(Qt::WA_StyledBackground);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addWidget(m_header);
  m_empty->setWordWrap(true);
  m_empty->setContentsMargins(16, 4, 16, 0);
  m_empty->setAlignment(Qt::AlignTop);
  layout->addWidget(m_empty);
  auto* content = new QVBoxLayout(m_body);
  content->setContentsMargins(0, 0, 0, 0);
  content->setSpacing(0);
  auto* head = new QVBoxLayout;
  head->setContentsMargins(16, 4, 16, 12);
  head->setSpacing(8);
  auto* top = new QHBoxLayout;
  m_title->setFont(theme->ui(15, QFont::DemiBold));
  m_title->setWordWrap(true);
  top->addWidget(m_title, 1);
  top->addWidget(m_badge, 0, Qt::AlignTop);
  head->addLayout(top);
  m_why->setWordWrap(true);
  m_why->setTextInteractionFlags(Qt::TextSelectableByMouse);
  head->addWidget(m_why);
  content->addLayout(head);
  content->addWidget(line());
  for (Section* s : {m_waterfall, m_flip, m_what}) content->addWidget(s);
  m_waterfall->setDetail(QStringLiteral("R = dT/P_d + dC/P_c + dK·L"));
  content->addStretch(1);
  auto* buttons = new QHBoxLayout;
  buttons->setSpacing(8);
  m_force->setIcon(theme->icon(QStringLiteral("flag")));
  m_forbid->setIcon(theme->icon(QStringLiteral("refused")));
  connect(theme, &Theme::changed, this, [this] {
    m_force->setIcon(m_theme->icon(QStringLiteral("flag")));
    m_forbid->setIcon(m_theme->icon(QStringLiteral("refused")));
  });
  buttons->addWidget(m_force);
  buttons->addWidget(m_forbid);
  buttons->addWidget(m_release);
  buttons->addStretch(1);
  m_noise->setWordWrap(true);
  m_what->body()->addWidget(m_noise);
  m_what->body()->addLayout(buttons);
  auto* scroll = new QScrollArea;
  scroll->setWidgetResizable(true);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_body->setProperty("role", QStringLiteral("page"));
  scroll->setWidget(m_body);
  layout->addWidget(scroll, 1);
  connect(m_force, &QPushButton::clicked, this, [this] { Q_EMIT hintRequested(Document::FusionHint::Fuse); });
  connect(m_forbid, &QPushButton::clicked, this, [this] { Q_EMIT hintRequested(Document::FusionHint::Split); });
  connect(m_release, &QPushButton::clicked, this, [this] { Q_EMIT hintRequested(Document::FusionHint::None); });
  clear();
}

void DecisionCard::clear() {
  m_header->setTitle(tr("Decision"));
  m_body->hide();
  m_empty->show();
}

void DecisionCard::setDecision(int number, const FusionDecisionInfo& d, const DeviceConstants& device, Document::FusionHint hint) {
  const Palette& c = m_theme->colors();
  m_empty->hide();
  m_body->show();
  m_header->setTitle(tr("Decision %1").arg(number));
  m_title->setText(QString::fromStdString(d.producer) + QStringLiteral(" → ") + QString::fromStdString(d.consumer));
  m_badge->show(stateIcon(d.state), stateWord(d.state), stateColor(d.state, c));
  QString why = QString::fromStdString(d.why);
  if (!d.recomputed.empty()) why += QLatin1Char('\n') + tr("Computed again: %1.").arg(QString::fromStdString(d.recomputed));
  if (!d.producerClass.empty())
    why += QLatin1Char('\n') + tr("%1: %2 is %3, %4 is %5.")
                                   .arg(QString::fromStdString(d.category), QString::fromStdString(d.producer),
                                        QString::fromStdString(d.producerClass), QString::fromStdString(d.consumer),
                                        QString::fromStdString(d.consumerClass));
  m_why->setText(why);
  m_waterfall->clear();
  m_waterfall->body()->addWidget(new Waterfall(m_theme, d, device));
  if (!d.traffic.empty() || !d.arithmetic.empty()) {
    auto* grid = new QGridLayout;
    grid->setHorizontalSpacing(14);
    grid->setVerticalSpacing(2);
    int row = 0;
    const auto add = [&](const FusionTerm& t, const QString& value) {
      auto* name = label(QString::fromStdString(t.name));
      name->setFont(m_theme->mono(12));
      auto* amount = label(value);
      amount->setFont(m_theme->mono(12));
      amount->setAlignment(Qt::AlignRight);
      grid->addWidget(name, row, 0);
      grid->addWidget(amount, row++, 1);
    };
    for (const FusionTerm& t : d.traffic) add(t, (t.amount > 0 ? QStringLiteral("+") : QString()) + bytesText(t.amount));
    for (const FusionTerm& t : d.arithmetic) add(t, (t.amount > 0 ? QStringLiteral("+") : QString()) + flopsText(t.amount));
    grid->setColumnStretch(0, 1);
    auto* box = new QWidget;
    box->setLayout(grid);
    grid->setContentsMargins(0, 6, 0, 0);
    m_waterfall->body()->addWidget(box);
  }
  m_flip->clear();
  m_flip->setVisible(!d.flips.empty());
  if (!d.flips.empty()) {
    const FusionFlip& first = d.flips.front();
    const double change = first.now != 0 ? (first.threshold / first.now - 1) * 100 : 0;
    m_flip->setDetail(tr("%1, by %2 %").arg(QString::fromStdString(first.quantity)).arg(std::abs(change), 0, 'f', 0));
    if (d.curve) m_flip->body()->addWidget(new FlipCurve(m_theme, *d.curve, first));
    auto* box = new QWidget;
    auto* grid = new QGridLayout(box);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setVerticalSpacing(4);
    int row = 0;
    for (const FusionFlip& f : d.flips) {
      auto* condition = label(QString::fromStdString(f.quantity) + (f.above ? QStringLiteral(" ≥ ") : QStringLiteral(" ≤ ")) +
                              quantityText(f.threshold, f.unit));
      condition->setFont(m_theme->mono(12));
      grid->addWidget(condition, row, 0);
      grid->addWidget(label(tr("now %1").arg(quantityText(f.now, f.unit)), "muted"), row, 1);
      const double percent = f.now != 0 ? (f.threshold / f.now - 1) * 100 : 0;
      auto* by = label(std::abs(percent) < 100 ? QStringLiteral("%1%2 %")
                                                     .arg(percent > 0 ? QStringLiteral("+") : QStringLiteral("-"))
                                                     .arg(std::abs(percent), 0, 'f', 0)
                                               : QStringLiteral("× %1").arg(significant(f.now != 0 ? f.threshold / f.now : 0)));
      by->setFont(m_theme->mono(12));
      by->setAlignment(Qt::AlignRight);
      grid->addWidget(by, row++, 2);
    }
    m_flip->body()->addWidget(box);
  }
  m_noise->setText(d.measuredSaving ? tr("Measured: %1 µs saved a step [%2, %3], n = %4. R said %5.")
                                          .arg(significant(d.measuredSaving->median), significant(d.measuredSaving->low),
                                               significant(d.measuredSaving->high))
                                          .arg(d.measuredSaving->samples.size())
                                          .arg(plusMinus(d.R * 1e6))
                   : hint != Document::FusionHint::None
                       ? tr("A hint in the notebook decides this one.")
                       : tr("Writes a hint into the notebook; the engine decides again and the next run measures it."));
  m_force->setVisible(hint != Document::FusionHint::Fuse);
  m_forbid->setVisible(hint != Document::FusionHint::Split);
  m_release->setVisible(hint != Document::FusionHint::None);
}

// ---------------------------------------------------------------- the page
ExplainView::ExplainView(const Theme* theme, Selection* selection, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_selection(selection), m_graphHeader(new PanelHeader(theme, tr("Graph"))),
      m_fusionHeader(new PanelHeader(theme, tr("Fusion"))), m_slider(new StageSlider(theme)),
      m_graph(new GraphView(theme, selection)), m_nodes(new QTableWidget), m_graphStack(new QStackedWidget), m_find(new QLineEdit),
      m_zoom(label(QStringLiteral("100 %"), "muted")), m_model(new FusionModel(this)), m_proxy(new StateProxy(this)),
      m_table(new QTableView), m_states(new QComboBox), m_card(new DecisionCard(theme)), m_split(new QSplitter(Qt::Horizontal)) {
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  auto* left = new QSplitter(Qt::Vertical);
  auto* top = new QWidget;
  top->setProperty("role", QStringLiteral("page"));
  top->setAttribute(Qt::WA_StyledBackground);
  auto* topLayout = new QVBoxLayout(top);
  topLayout->setContentsMargins(0, 0, 0, 0);
  topLayout->setSpacing(0);
  m_find->setPlaceholderText(tr("Find a node"));
  m_find->setFixedWidth(168);
  m_find->addAction(theme->icon(QStringLiteral("search"), theme->colors().muted), QLineEdit::LeadingPosition);
  auto* changes = new IconButton(theme, QStringLiteral("eye"), tr("What this pass changed"));
  changes->setCheckable(true);
  auto* asTable = new IconButton(theme, QStringLiteral("table"), tr("As table"));
  asTable->setCheckable(true);
  auto* svg = new IconButton(theme, QStringLiteral("svg"), tr("SVG"));
  auto* minus = new IconButton(theme, QStringLiteral("minus"));
  auto* plus = new IconButton(theme, QStringLiteral("plus"));
  minus->setAccessibleName(tr("Zoom out"));
  plus->setAccessibleName(tr("Zoom in"));
  m_zoom->setFixedWidth(46);
  m_zoom->setAlignment(Qt::AlignCenter);
  for (QWidget* w :
       {static_cast<QWidget*>(m_find), static_cast<QWidget*>(changes), static_cast<QWidget*>(asTable), static_cast<QWidget*>(svg),
        static_cast<QWidget*>(minus), static_cast<QWidget*>(m_zoom), static_cast<QWidget*>(plus)})
    m_graphHeader->add(w);
  topLayout->addWidget(m_graphHeader);
  topLayout->addWidget(line());
  topLayout->addWidget(m_slider);
  topLayout->addWidget(line());
  m_nodes->setColumnCount(7);
  m_nodes->setHorizontalHeaderLabels({tr("Node"), tr("Phase"), tr("Expression"), tr("Shape"), tr("Size"), tr("Work"), tr("Class")});
  m_nodes->horizontalHeader()->setStretchLastSection(true);
  m_nodes->verticalHeader()->hide();
  m_nodes->verticalHeader()->setDefaultSectionSize(25);
  m_nodes->setEditTriggers(QAbstractItemView::NoEditTriggers);
  m_nodes->setSelectionBehavior(QAbstractItemView::SelectRows);
  m_nodes->setShowGrid(false);
  m_graphStack->addWidget(m_graph);
  m_graphStack->addWidget(m_nodes);
  topLayout->addWidget(m_graphStack, 1);
  auto* bottom = new QWidget;
  bottom->setProperty("role", QStringLiteral("page"));
  bottom->setAttribute(Qt::WA_StyledBackground);
  auto* bottomLayout = new QVBoxLayout(bottom);
  bottomLayout->setContentsMargins(0, 0, 0, 0);
  bottomLayout->setSpacing(0);
  m_states->addItem(tr("All states"), -1);
  for (int s = 0; s <= static_cast<int>(FusionState::Reverted); ++s) m_states->addItem(stateWord(static_cast<FusionState>(s)), s);
  m_states->setAccessibleName(tr("States shown"));
  auto* csv = new IconButton(theme, QStringLiteral("copy"), tr("CSV"));
  m_fusionHeader->add(m_states);
  m_fusionHeader->add(csv);
  bottomLayout->addWidget(m_fusionHeader);
  bottomLayout->addWidget(line());
  m_proxy->setSourceModel(m_model);
  m_proxy->setSortRole(FusionModel::kSortRole);
  m_table->setModel(m_proxy);
  m_table->setItemDelegate(new FusionDelegate(theme, m_model, this));
  m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
  m_table->setSelectionMode(QAbstractItemView::SingleSelection);
  m_table->setShowGrid(false);
  m_table->verticalHeader()->hide();
  m_table->verticalHeader()->setDefaultSectionSize(25);
  m_table->setSortingEnabled(true);
  m_table->sortByColumn(-1, Qt::AscendingOrder);
  m_table->horizontalHeader()->setHighlightSections(false);
  m_table->horizontalHeader()->setFont(theme->ui(12, QFont::DemiBold));
  const int widths[] = {40, 190, 96, 84, 92, 46, 74, 74, 66, 84, 74, 104, 140};
  for (int i = 0; i < FusionModel::kColumns; ++i) m_table->setColumnWidth(i, widths[i]);
  m_table->horizontalHeader()->setSectionResizeMode(FusionModel::kPair, QHeaderView::Stretch);
  m_table->horizontalHeader()->setMinimumSectionSize(30);
  m_table->setAccessibleName(tr("Fusion decisions"));
  bottomLayout->addWidget(m_table, 1);
  left->addWidget(top);
  left->addWidget(bottom);
  left->setStretchFactor(0, 3);
  left->setStretchFactor(1, 2);
  left->setHandleWidth(1);
  left->setSizes({540, 360});
  m_split->addWidget(left);
  m_split->addWidget(m_card);
  m_split->setHandleWidth(1);
  m_split->setStretchFactor(0, 1);
  m_split->setStretchFactor(1, 0);
  m_split->setSizes({1224, 376});
  m_card->setMinimumWidth(300);
  layout->addWidget(m_split);

  connect(m_slider, &StageSlider::chosen, this, [this](const QString& stage) {
    m_stage = stage;
    m_slider->setCurrent(stage);
    Q_EMIT stageWanted(stage);
  });
  connect(m_find, &QLineEdit::returnPressed, this, [this] { m_graph->findNext(m_find->text()); });
  connect(m_find, &QLineEdit::textEdited, this, [this](const QString& text) { m_graph->findNext(text); });
  connect(changes, &QToolButton::toggled, m_graph, &GraphView::setHighlightChanges);
  connect(asTable, &QToolButton::toggled, this, [this](bool on) { m_graphStack->setCurrentIndex(on ? 1 : 0); });
  connect(minus, &QToolButton::clicked, this, [this] { m_graph->zoomBy(0.8); });
  connect(plus, &QToolButton::clicked, this, [this] { m_graph->zoomBy(1.25); });
  connect(m_graph, &GraphView::zoomChanged, this,
          [this](double zoom) { m_zoom->setText(QStringLiteral("%1 %").arg(static_cast<int>(zoom * 100 + 0.5))); });
  connect(svg, &QToolButton::clicked, this, [this] {
    const QString path = QFileDialog::getSaveFileName(this, tr("Save the graph"), QStringLiteral("graph.svg"), tr("SVG (*.svg)"));
    if (!path.isEmpty()) m_graph->saveSvg(path);
  });
  connect(csv, &QToolButton::clicked, this, [this] {
    const QString path =
        QFileDialog::getSaveFileName(this, tr("Save the decisions"), QStringLiteral("fusion.csv"), tr("CSV (*.csv)"));
    QFile file(path);
    if (!path.isEmpty() && file.open(QIODevice::WriteOnly)) file.write(m_model->csv().toUtf8());
  });
  connect(m_nodes, &QTableWidget::cellClicked, this, [this](int row) { m_graph->choose(m_nodes->item(row, 0)->text(), true); });
  connect(m_states, &QComboBox::currentIndexChanged, this,
          [this] { static_cast<StateProxy*>(m_proxy)->setState(m_states->currentData().toInt()); });
  connect(m_table->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this](const QModelIndex& now) {
    if (!now.isValid()) return m_card->clear();
    const int i = m_proxy->mapToSource(now).row();
    const auto& d = m_model->report().decisions[static_cast<std::size_t>(i)];
    m_card->setDecision(i + 1, d, m_model->report().device, m_hints ? m_hints(d.producer, d.consumer) : Document::FusionHint::None);
    m_graph->setDecision(QString::fromStdString(d.producer), QString::fromStdString(d.consumer),
                         QStringLiteral("R %1 µs").arg(plusMinus(d.R * 1e6)));
    m_selection->select(d.origins);
  });
  connect(m_card, &DecisionCard::hintRequested, this, [this](Document::FusionHint hint) {
    const QModelIndex now = m_table->currentIndex();
    if (!now.isValid()) return;
    const auto& d = m_model->report().decisions[static_cast<std::size_t>(m_proxy->mapToSource(now).row())];
    Q_EMIT hintRequested(QString::fromStdString(d.producer), QString::fromStdString(d.consumer), hint);
  });
}

void ExplainView::setGraph(const GraphPage& graph) {
  m_stage = QString::fromStdString(graph.stage);
  m_slider->setStages(graph.stages);
  m_slider->setCurrent(m_stage);
  m_graphHeader->setDetail(counted(static_cast<std::int64_t>(graph.nodes.size()), tr("node"), tr("nodes")) + QStringLiteral(", ") +
                           counted(static_cast<std::int64_t>(graph.edges.size()), tr("edge"), tr("edges")));
  m_graph->setGraph(graph);
  const int rows = static_cast<int>(std::min<std::size_t>(graph.nodes.size(), 5000));
  m_nodes->setRowCount(rows);
  constexpr auto phases = enumNames(Phase{});
  for (int i = 0; i < rows; ++i) {
    const auto& n = graph.nodes[static_cast<std::size_t>(i)];
    const QString cells[] = {QString::fromStdString(n.id),
                             QLatin1String(phases[static_cast<std::size_t>(n.phase)]),
                             QString::fromStdString(n.text),
                             shapeText(n.shape),
                             bytesText(static_cast<double>(n.bytes)),
                             n.flops > 0 ? flopsText(static_cast<double>(n.flops)) : QString(),
                             QString::fromStdString(n.category)};
    for (int k = 0; k < 7; ++k) m_nodes->setItem(i, k, new QTableWidgetItem(cells[k]));
  }
}

void ExplainView::setFusion(const FusionReport& report) {
  std::string producer, consumer;
  if (const QModelIndex now = m_table->currentIndex(); now.isValid()) {
    const auto& d = m_model->report().decisions[static_cast<std::size_t>(m_proxy->mapToSource(now).row())];
    producer = d.producer, consumer = d.consumer;
  }
  m_model->setReport(report);
  int accepted = 0;
  for (const auto& d : report.decisions) accepted += d.state == FusionState::Accepted || d.state == FusionState::Forced;
  m_fusionHeader->setDetail(counted(static_cast<std::int64_t>(report.decisions.size()), tr("decision"), tr("decisions")) +
                            tr(", %1 accepted, greedy by R, in seconds saved; optimistic on purpose").arg(accepted));
  m_card->clear();
  for (std::size_t i = 0; i < report.decisions.size(); ++i)
    if (!producer.empty() && report.decisions[i].producer == producer && report.decisions[i].consumer == consumer)
      return chooseDecision(static_cast<int>(i));
}

void ExplainView::chooseDecision(int number) {
  const QModelIndex index = m_proxy->mapFromSource(m_model->index(number, 0));
  if (!index.isValid()) return;
  m_table->setCurrentIndex(index);
  m_table->scrollTo(index);
}

void ExplainView::setOutdated(bool outdated) { m_graph->setOutdated(outdated); }

}  // namespace nf
