// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/decision_card.h"

#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QTimer>
#include <algorithm>
#include <cmath>

#include "widgets/basic.h"
#include "widgets/fusion_model.h"
#include "widgets/keep_focus.h"
#include "widgets/names.h"

namespace nf {

using namespace protocol;

namespace {

// As "L.sum is ..." goes on: the nouns among the classes have an article.
QString classWords(const std::string& fusionClass) {
  const QString word = QString::fromStdString(fusionClass);
  return word == QLatin1String("reduction") ? QObject::tr("a reduction") : word;
}

// A quantity in its unit: extents, times, rates.
QString sizeText(double value, const std::string& unit) {
  if (unit.empty()) return grouped(std::llround(value));
  if (unit == "s") return microsecondsText(value * 1e6);
  if (unit == "B" || unit == "B/s" || unit == "FLOP/s") return flopsText(value, QString::fromStdString(unit));
  return value >= 1000 && value == std::floor(value) ? grouped(static_cast<std::int64_t>(value)) : significant(value, 4);
}

// "+12 %", "× 3.40". What leaves something is no change by 100 %.
QString changeText(double now, double then) {
  const double percent = now != 0 ? (then / now - 1) * 100 : 0;
  if (std::abs(percent) >= 100) return QStringLiteral("× %1").arg(significant(now != 0 ? then / now : 0));
  QString number;
  for (int digits = 0; number.isEmpty() || (number.toDouble() >= 100 && digits < 6); ++digits)
    number = QString::number(std::abs(percent), 'f', digits);
  return (percent > 0 ? QStringLiteral("+") : QStringLiteral("-")) + number + QStringLiteral(" %");
}

// Which way is faster, if one is beyond noise.
QString savingText(const Measured& saving) {
  const QString interval = QStringLiteral("%1 µs [%2, %3]");
  const auto filled = [&](double median, double low, double high) {
    return interval.arg(significant(median), significant(low), significant(high));
  };
  const QString count = saving.samples.empty() ? QString() : QObject::tr(", n = %1").arg(saving.samples.size());
  if (saving.low <= 0 && saving.high >= 0)
    return QObject::tr("Measured in pairs: the two cannot be told apart, fused saves %1%2, the median difference.")
        .arg(filled(saving.median, saving.low, saving.high), count);
  return saving.median > 0 ? QObject::tr("Measured in pairs: fused is faster by %1%2, the median difference.")
                                 .arg(filled(saving.median, saving.low, saving.high), count)
                           : QObject::tr("Measured in pairs: fused is slower by %1%2, the median difference.")
                                 .arg(filled(-saving.median, -saving.high, -saving.low), count);
}

// dT/P_d + dC/P_c + dK·L = R, each bar where the one before ended.
class Waterfall : public QWidget {
 public:
  Waterfall(const Theme* theme, const FusionDecisionInfo& d, const DeviceConstants& k) : m_theme(theme) {
    const double a = k.bandwidth > 0 ? d.dT / k.bandwidth * 1e6 : 0, b = k.flopRate > 0 ? d.dC / k.flopRate * 1e6 : 0,
                 c = d.dK * k.launchSeconds * 1e6;
    m_rows = {
        {QStringLiteral("dT / P_d"),
         tr("%1 at %2").arg(flopsText(d.dT, QStringLiteral("B")), flopsText(k.bandwidth, QStringLiteral("B/s"))), 0, a, a},
        {QStringLiteral("dC / P_c"), tr("%1 at %2").arg(flopsText(d.dC), flopsText(k.flopRate, QStringLiteral("FLOP/s"))), a, a + b,
         b},
        {QStringLiteral("dK · L"),
         tr("%1 at %2")
             .arg(counted(static_cast<std::int64_t>(d.dK), tr("launch"), tr("launches")), microsecondsText(k.launchSeconds * 1e6)),
         a + b, a + b + c, c},
        {QStringLiteral("R"), QString(), 0, d.R * 1e6, d.R * 1e6}};
    setFixedHeight(4 * 38 - 10);
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    const Palette& c = m_theme->colors();
    double low = 0, high = 0;
    for (const Row& r : m_rows) low = std::min({low, r.from, r.to}), high = std::max({high, r.from, r.to});
    if (high - low < 1e-9) high = low + 1;
    const double left = 88, room = width() - left - 4;
    const auto x = [&](double v) { return left + (v - low) / (high - low) * room; };
    const QFontMetricsF small(m_theme->ui(11));
    // Lines between the bars go around the words below them.
    const auto line = [&](double at, double y, double h, double noteWidth, const QColor& color, Qt::PenStyle style) {
      if (at < noteWidth + 6) return;
      p.setPen(QPen(color, 1, style));
      p.drawLine(QPointF(at, y), QPointF(at, y + h));
    };
    for (std::size_t i = 0; i < m_rows.size(); ++i) {
      const Row& r = m_rows[i];
      const double y = static_cast<double>(i) * 38;
      const double note = small.horizontalAdvance(r.note);
      p.setPen(QPen(mixed(c.page, c.text, 0.6), 1));
      p.drawLine(QPointF(x(0), y - 1), QPointF(x(0), y + 16));
      if (i + 1 < m_rows.size()) {
        line(x(0), y + 15, 23, note, mixed(c.page, c.text, 0.6), Qt::SolidLine);
        line(x(r.to), y + 15, 23, note, c.muted, Qt::DotLine);
      }
      const QRectF bar(std::min(x(r.from), x(r.to)), y, std::max(2.0, std::abs(x(r.to) - x(r.from))), 15);
      const bool total = i + 1 == m_rows.size();
      p.fillRect(bar, total ? c.text : r.value >= 0 ? c.optimizer : c.backward);
      p.setFont(m_theme->ui(12, QFont::DemiBold));
      p.setPen(c.text);
      p.drawText(QRectF(0, y - 1, left - 8, 17), Qt::AlignVCenter, r.name);
      p.setFont(m_theme->ui(11));
      p.setPen(c.muted);
      p.drawText(QRectF(0, y + 16, width(), 15), Qt::AlignVCenter, r.note);
      p.setFont(m_theme->mono(11, QFont::DemiBold));
      const QString text = plusMinus(r.value) + (total ? QStringLiteral(" µs") : QString());
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
    double value;  // what the table has: the difference of the two is rounded once more
  };
  const Theme* m_theme;
  std::vector<Row> m_rows;
};

// R over the size that flips it soonest, with where it stands now.
class FlipCurve : public QWidget {
 public:
  FlipCurve(const Theme* theme, FusionCurve curve, FusionFlip flip)
      : m_theme(theme), m_curve(std::move(curve)), m_flip(std::move(flip)) {
    setFixedHeight(108);
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
    const double left = 34, room = width() - left - 8, bottom = height() - 36;
    const bool logarithmic = lowX > 0 && highX / lowX > 10;
    const auto along = [&](double v) {
      return logarithmic ? std::log(v / lowX) / std::log(highX / lowX) : (v - lowX) / (highX - lowX);
    };
    const auto x = [&](double v) { return left + along(v) * room; };
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
    struct Mark {
      double at;
      QString text;
      bool filled;
    };
    std::vector<Mark> marks;
    const auto mark = [&](double v, const QString& text, bool filled) {
      if (v < lowX || v > highX) return;
      double r = m_curve.rewardSeconds[0];
      for (std::size_t i = 0; i + 1 < n; ++i)
        if (v >= m_curve.x[i] && v <= m_curve.x[i + 1])
          r = m_curve.rewardSeconds[i] + (m_curve.rewardSeconds[i + 1] - m_curve.rewardSeconds[i]) * (v - m_curve.x[i]) /
                                             std::max(1e-300, m_curve.x[i + 1] - m_curve.x[i]);
      p.setPen(QPen(c.muted, 1, Qt::DotLine));
      p.drawLine(QPointF(x(v), y(r)), QPointF(x(v), bottom + 2));
      p.setPen(QPen(c.text, 1.4));
      p.setBrush(filled ? c.text : c.page);
      p.drawEllipse(QPointF(x(v), y(r)), 4, 4);
      marks.push_back({x(v), text, filled});
    };
    mark(m_flip.threshold, QObject::tr("flips at %1").arg(sizeText(m_flip.threshold, m_flip.unit)), false);
    mark(m_flip.now, QObject::tr("now %1").arg(sizeText(m_flip.now, m_flip.unit)), true);
    std::sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) { return a.at < b.at; });
    // Side by side where both fit; else the right one takes the line below.
    p.setFont(m_theme->ui(11, QFont::DemiBold));
    p.setPen(c.text);
    double end = -1e9;
    for (const Mark& m : marks) {
      const double w = p.fontMetrics().horizontalAdvance(m.text) + 2;
      const double from = std::clamp(m.at - w / 2, left, std::max(left, width() - w - 2));
      const bool below = from < end + 10;
      p.drawText(QRectF(from, bottom + (below ? 18 : 3), w + 2, 15), Qt::AlignVCenter, m.text);
      end = from + w;
    }
  }

 private:
  const Theme* m_theme;
  FusionCurve m_curve;
  FusionFlip m_flip;
};

// The two ways under one axis: whiskers, a mark at the median (ring A, square B), samples as dots.
class Intervals : public QWidget {
 public:
  Intervals(const Theme* theme, Measured a, Measured b) : m_theme(theme), m_rows{std::move(a), std::move(b)} {
    setFixedHeight(92);
    setAccessibleName(QObject::tr("Apart %1 µs, fused %2 µs").arg(significant(m_rows[0].median), significant(m_rows[1].median)));
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    p.setRenderHint(QPainter::Antialiasing);
    const Palette& c = m_theme->colors();
    double low = m_rows[0].low, high = m_rows[0].high;
    for (const Measured& m : m_rows) {
      low = std::min(low, m.low), high = std::max(high, m.high);
      for (const double s : m.samples) low = std::min(low, s), high = std::max(high, s);
    }
    const double margin = std::max((high - low) * 0.08, std::abs(high) * 1e-4 + 1e-9);
    low -= margin, high += margin;
    const double left = 66, room = width() - left - 10;
    const auto x = [&](double v) { return left + (v - low) / (high - low) * room; };
    // Few round numbers below.
    const double ten = std::pow(10, std::floor(std::log10((high - low) / 4)));
    double step = 10 * ten;
    for (const double k : {5.0, 2.0, 1.0})
      if ((high - low) / (k * ten) <= 5) step = k * ten;
    p.setFont(m_theme->ui(11));
    for (double v = std::ceil(low / step) * step; v <= high; v += step) {
      p.setPen(QPen(c.grid, 1));
      p.drawLine(QPointF(x(v), 2), QPointF(x(v), 68));
      p.setPen(c.muted);
      p.drawText(QRectF(x(v) - 40, 72, 80, 16), Qt::AlignCenter, significant(v, 4));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      const Measured& m = m_rows[i];
      const double y = i == 0 ? 16 : 48;
      const QColor color = i == 0 ? c.accent : c.text;
      p.setFont(m_theme->ui(12));
      p.setPen(c.text);
      p.drawText(QRectF(0, y - 9, left - 6, 18), Qt::AlignVCenter, i == 0 ? QObject::tr("A  apart") : QObject::tr("B  fused"));
      p.setPen(QPen(color, 1.6));
      p.drawLine(QPointF(x(m.low), y), QPointF(x(m.high), y));
      for (const double end : {m.low, m.high}) p.drawLine(QPointF(x(end), y - 5), QPointF(x(end), y + 5));
      p.setBrush(c.page);
      if (i == 0) p.drawEllipse(QPointF(x(m.median), y), 4, 4);
      else p.drawRect(QRectF(x(m.median) - 3.5, y - 3.5, 7, 7));
      p.setPen(Qt::NoPen);
      p.setBrush(c.hint);
      for (const double s : m.samples) p.drawEllipse(QPointF(x(s), y + 11), 1.6, 1.6);
    }
  }

 private:
  const Theme* m_theme;
  Measured m_rows[2];
};

}  // namespace

DecisionCard::DecisionCard(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_header(new PanelHeader(theme, tr("Decision"))), m_title(label({})), m_why(label({})),
      m_empty(label({}, "muted")), m_noise(label({}, "muted")), m_measured(label({}, "muted")), m_badge(new Badge(theme)),
      m_waterfall(new Section(theme, tr("Why"))), m_flip(new Section(theme, tr("Smallest change that flips it"))),
      m_what(new Section(theme, tr("What if"))), m_leads(new Section(theme, tr("Same selection elsewhere"))),
      m_force(new QPushButton(tr("Force"))), m_forbid(new QPushButton(tr("Forbid"))),
      m_release(new QPushButton(tr("Let the reward decide"))), m_measure(new QPushButton(tr("Measure A/B"))),
      m_intervals(new QVBoxLayout), m_scroll(new QScrollArea), m_body(new QWidget), m_foot(new QWidget) {
  setProperty("role", QStringLiteral("page"));
  setAttribute(Qt::WA_StyledBackground);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  setRelated({});
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
  m_why->setTextFormat(Qt::RichText);
  m_why->setTextInteractionFlags(Qt::TextSelectableByMouse);
  head->addWidget(m_why);
  content->addLayout(head);
  content->addWidget(line());
  for (Section* s : {m_waterfall, m_flip, m_what, m_leads}) content->addWidget(s);
  m_waterfall->setDetail(QStringLiteral("R = dT/P_d + dC/P_c + dK·L"));
  content->addStretch(1);
  auto* buttons = new QHBoxLayout;
  buttons->setSpacing(8);
  m_force->setIcon(theme->icon(QStringLiteral("flag")));
  m_forbid->setIcon(theme->icon(QStringLiteral("refused")));
  connect(theme, &Theme::changed, this, [this] {
    m_force->setIcon(m_theme->icon(QStringLiteral("flag")));
    m_forbid->setIcon(m_theme->icon(QStringLiteral("refused")));
    m_measure->setIcon(m_theme->icon(QStringLiteral("measure"), m_theme->colors().onAccent));
  });
  m_measure->setIcon(theme->icon(QStringLiteral("measure"), theme->colors().onAccent));
  m_measure->setProperty("primary", true);
  m_measure->setToolTip(tr("Runs both ways in turn on the device"));
  for (QPushButton* b : {m_force, m_forbid, m_release, m_measure}) b->setProperty("tight", true);
  buttons->addWidget(m_force);
  buttons->addWidget(m_forbid);
  buttons->addStretch(1);
  buttons->addWidget(m_measure);
  m_noise->setWordWrap(true);
  m_measured->setWordWrap(true);
  m_measured->setFont(theme->ui(12));
  m_measured->hide();
  m_intervals->setContentsMargins(0, 0, 0, 0);
  m_what->body()->addLayout(m_intervals);
  m_what->body()->addWidget(m_noise);
  m_what->body()->addWidget(m_measured);
  m_scroll->setWidgetResizable(true);
  m_scroll->setFocusPolicy(Qt::TabFocus);
  m_scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_body->setProperty("role", QStringLiteral("page"));
  scrollAsWide(m_scroll, m_body);
  layout->addWidget(m_scroll, 1);
  // What can be done stands still below what is read, however long that gets.
  auto* foot = new QVBoxLayout(m_foot);
  foot->setContentsMargins(0, 0, 0, 10);
  foot->setSpacing(8);
  foot->addWidget(line());
  auto* inset = new QVBoxLayout;
  inset->setContentsMargins(16, 0, 16, 0);
  inset->setSpacing(8);
  inset->addLayout(buttons);
  inset->addWidget(m_release, 0, Qt::AlignLeft);
  // The buttons above it stand where they stood when it comes.
  QSizePolicy kept = m_release->sizePolicy();
  kept.setRetainSizeWhenHidden(true);
  m_release->setSizePolicy(kept);
  foot->addLayout(inset);
  layout->addWidget(m_foot);
  connect(m_force, &QPushButton::clicked, this, [this] { Q_EMIT hintRequested(Document::FusionHint::Fuse); });
  connect(m_forbid, &QPushButton::clicked, this, [this] { Q_EMIT hintRequested(Document::FusionHint::Split); });
  connect(m_measure, &QPushButton::clicked, this, [this] { Q_EMIT measureRequested(m_producer, m_consumer); });
  connect(m_release, &QPushButton::clicked, this, [this] { Q_EMIT hintRequested(Document::FusionHint::None); });
  clear();
}

DecisionCard::~DecisionCard() {
  if (m_header && !m_header->parent()) delete m_header;
}

PanelHeader* DecisionCard::header() const { return m_header; }
QString DecisionCard::whatIf() const { return m_noise->text(); }
bool DecisionCard::comparing() const { return !m_measure->isEnabled(); }
bool DecisionCard::intervals() const { return m_intervals->count() > 0; }

void DecisionCard::setComparing() {
  setUsable(m_measure, false);
  m_noise->setText(tr("Measuring both ways in turn"));
}

void DecisionCard::setComparison(const Comparison& k) {
  if (k.producer != m_producer || k.consumer != m_consumer) return;
  setUsable(m_measure, true);
  clearIntervals();
  m_intervals->addWidget(new Intervals(m_theme, k.apart, k.fused));
  m_what->setDetail(tr("µs on %1, %2 pairs").arg(QString::fromStdString(k.device)).arg(k.saving.samples.size()));
  m_noise->setText(shortName(k.verdict));
  const auto kernels = [](const std::vector<std::string>& names) {
    constexpr std::size_t kMost = 3;
    QStringList shown;
    for (std::size_t i = 0; i < names.size() && i < kMost; ++i) shown << kernelName(names[i], 32);
    if (names.size() > kMost) shown << tr("%1 more").arg(names.size() - kMost);
    return shown.join(QStringLiteral(", "));
  };
  QStringList lines;
  lines << tr("Saving of B: %1 µs [%2, %3], paired: the median of the %4 differences between a run of A and the run of B beside "
              "it. It "
              "need "
              "not be the distance of the two medians drawn.")
               .arg(significant(k.saving.median), significant(k.saving.low), significant(k.saving.high))
               .arg(k.saving.samples.size());
  lines << (m_fused ? tr("B is the plan drawn, A what it becomes when Forbid keeps the two apart and the rest is decided anew.")
                    : tr("A is the plan drawn, B what it becomes when Force fuses the two and the rest is decided anew."));
  const QString timed = tr("Timed: the kernels that differ and those that share an operator with them, ");
  lines << timed + (k.loop.empty() ? tr("run once each. A step of a training runs all the others too, so its time is another.")
                                   : tr("for one pass of the loop %1. A step of a training makes every pass and runs all other "
                                        "kernels too, so its time is another.")
                                         .arg(shortName(k.loop)));
  if (!k.apartKernels.empty())
    lines << tr("A, apart, %1: %2")
                 .arg(counted(static_cast<std::int64_t>(k.apartKernels.size()), tr("kernel"), tr("kernels")),
                      kernels(k.apartKernels));
  if (!k.fusedKernels.empty())
    lines << tr("B, fused, %1: %2")
                 .arg(counted(static_cast<std::int64_t>(k.fusedKernels.size()), tr("kernel"), tr("kernels")),
                      kernels(k.fusedKernels));
  m_measured->setText(lines.join(QLatin1Char('\n')));
  m_measured->show();
  QTimer::singleShot(0, m_scroll, [this] { m_scroll->ensureWidgetVisible(m_noise, 0, 40); });
}

QString DecisionCard::measured() const { return m_measured->isHidden() ? QString() : m_measured->text(); }

void DecisionCard::setComparisonFailed(const QString& message) {
  setUsable(m_measure, true);
  m_noise->setText(tr("Not measured: %1").arg(message));
}

void DecisionCard::clearIntervals() {
  while (QLayoutItem* item = m_intervals->takeAt(0)) {
    item->widget()->hide();
    item->widget()->deleteLater();
    delete item;
  }
  m_what->setDetail({});
  m_measured->hide();
}

void DecisionCard::setLeads(const std::vector<Lead>& leads) {
  showLeads(m_leads, m_theme, leads, [this](const QString& target) { Q_EMIT leadChosen(target); });
}

void DecisionCard::setRelated(const std::vector<int>& decisions) {
  constexpr std::size_t kMostNamed = 8;
  QStringList numbers;
  for (std::size_t i = 0; i < std::min(decisions.size(), kMostNamed); ++i) numbers << QString::number(decisions[i] + 1);
  const QString what = tr("its numbers, what would flip it, and what you can do about it stand here.");
  if (numbers.isEmpty()) return m_empty->setText(tr("Choose a decision in the table: ") + what);
  const QString all = numbers.join(QStringLiteral(", ")) +
                      (decisions.size() > kMostNamed ? tr(" and %1 more").arg(decisions.size() - kMostNamed) : QString());
  m_empty->setText((decisions.size() == 1 ? tr("The selection is part of decision %1. Choose it in the table: ")
                                          : tr("The selection is part of decisions %1. Choose one in the table: "))
                       .arg(all) +
                   what);
}

void DecisionCard::clear() {
  m_header->setTitle(tr("Decision"));
  m_scroll->hide();
  m_foot->hide();
  m_empty->show();
}

void DecisionCard::setDecision(int number, const FusionDecisionInfo& d, const DeviceConstants& device, Document::FusionHint hint) {
  const bool another = d.producer != m_producer || d.consumer != m_consumer;
  const bool fused = d.state == FusionState::Accepted || d.state == FusionState::Forced;
  if (another) setUsable(m_measure, true);
  if (another || fused != m_fused) m_scroll->verticalScrollBar()->setValue(0);  // what has changed stands at the top
  clearIntervals();
  m_producer = d.producer, m_consumer = d.consumer;
  m_fused = fused;
  m_empty->hide();
  m_scroll->show();
  m_foot->show();
  m_header->setTitle(tr("Decision %1").arg(number));
  m_title->setText(shortName(d.producer) + QStringLiteral(" → ") + shortName(d.consumer) +
                   (d.recomputed.empty() ? QString() : tr(", recomputed")));
  m_badge->show(stateIcon(d.state), stateWord(d.state), stateColor(d.state));
  QString why = shortName(d.why);
  if (!d.recomputed.empty())
    why += QLatin1Char('\n') +
           (fused ? tr("Computed again: %1.") : tr("Fused it would be computed again: %1.")).arg(shortName(d.recomputed));
  if (!d.producerClass.empty())
    why += QLatin1Char('\n') + tr("%1: %2 is %3, %4 is %5.")
                                   .arg(QString::fromStdString(d.category), shortName(d.producer), classWords(d.producerClass),
                                        shortName(d.consumer), classWords(d.consumerClass));
  m_why->setText(codeText(why));
  m_waterfall->clear();
  m_waterfall->body()->addWidget(new Waterfall(m_theme, d, device));
  m_scope =
      device.device.empty()
          ? QString()
          : scopeText(device) + (device.assumed ? tr(", assumed, not measured:  ") : QStringLiteral(":  ")) + constantsText(device);
  auto* scope = label(m_scope.isEmpty() ? QString()
                                        : scopeText(device) + (device.assumed ? tr(", assumed, not measured") : QString()) +
                                              QLatin1Char('\n') + constantLines(device).join(QLatin1Char('\n')),
                      "muted");
  scope->setObjectName(QStringLiteral("constants"));
  scope->setToolTip(tr("In brackets: holds the true value with 95 %, as far as the samples of one measurement can tell"));
  scope->setFont(m_theme->ui(12));
  scope->setWordWrap(true);
  m_waterfall->body()->addWidget(scope);
  if (!d.traffic.empty() || !d.arithmetic.empty()) {
    auto* grid = new QGridLayout;
    grid->setHorizontalSpacing(14);
    grid->setVerticalSpacing(2);
    int row = 0;
    const auto add = [&](const FusionTerm& t, const QString& value) {
      auto* name = new ElidedLabel;
      name->setText(shortName(t.name));
      name->setFont(m_theme->mono(12));
      auto* amount = label(value);
      amount->setFont(m_theme->mono(12));
      amount->setAlignment(Qt::AlignRight);
      grid->addWidget(name, row, 0);
      grid->addWidget(amount, row++, 1);
    };
    for (const FusionTerm& t : d.traffic)
      add(t, (t.amount > 0 ? QStringLiteral("+") : QString()) + flopsText(t.amount, QStringLiteral("B")));
    for (const FusionTerm& t : d.arithmetic) add(t, (t.amount > 0 ? QStringLiteral("+") : QString()) + flopsText(t.amount));
    grid->setColumnStretch(0, 1);
    auto* box = new QWidget;
    box->setLayout(grid);
    grid->setContentsMargins(0, 6, 0, 0);
    m_waterfall->body()->addWidget(box);
  }
  m_flip->clear();
  m_flip->setDetail({});
  if (const QString never = neverFlips(d); !never.isEmpty()) {
    auto* words = label(never, "muted");
    words->setObjectName(QStringLiteral("neverFlips"));
    words->setWordWrap(true);
    m_flip->body()->addWidget(words);
  } else {
    const FusionFlip& first = d.flips.front();
    m_flip->setDetail(shortName(first.quantity) + QStringLiteral(", ") + changeText(first.now, first.threshold));
    if (d.curve) m_flip->body()->addWidget(new FlipCurve(m_theme, *d.curve, first));
    auto* box = new QWidget;
    auto* grid = new QGridLayout(box);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setVerticalSpacing(4);
    int row = 0;
    for (const FusionFlip& f : d.flips) {
      auto* condition = new ElidedLabel(nullptr, Qt::ElideMiddle);
      condition->setText(shortName(f.quantity) + (f.above ? QStringLiteral(" ≥ ") : QStringLiteral(" ≤ ")) +
                         sizeText(f.threshold, f.unit));
      condition->setFont(m_theme->mono(12));
      grid->addWidget(condition, row, 0);
      grid->addWidget(label(tr("now %1").arg(sizeText(f.now, f.unit)), "muted"), row, 1);
      auto* by = label(changeText(f.now, f.threshold));
      by->setFont(m_theme->mono(12));
      by->setAlignment(Qt::AlignRight);
      grid->addWidget(by, row++, 2);
    }
    m_flip->body()->addWidget(box);
    auto* held = label(tr("R of this decision; what is decided before it stays as it is."), "muted");
    held->setObjectName(QStringLiteral("flipHolds"));
    held->setWordWrap(true);
    m_flip->body()->addWidget(held);
  }
  m_noise->setText(d.measuredSaving ? savingText(savingOfAStep(d)) + QLatin1Char(' ') +
                                          (d.repeats > 1 ? tr("That is %1 passes of the loop.").arg(QString::number(d.repeats)) +
                                                               QLatin1Char(' ')
                                                         : QString()) +
                                          tr("R said %1.").arg(plusMinus(d.R * 1e6) + QStringLiteral(" µs"))
                   : hint != Document::FusionHint::None
                       ? tr("A hint in the notebook decides this one.")
                       : tr("Writes a hint into the notebook; the engine decides again and the next run measures it."));
  // No kernel can be made of it: there is nothing to force, to forbid or to measure.
  const bool possible = d.state != FusionState::NotLowerable;
  m_force->setVisible(possible && hint != Document::FusionHint::Fuse);
  m_forbid->setVisible(possible && hint != Document::FusionHint::Split);
  m_measure->setVisible(possible);
  if (!possible && hint == Document::FusionHint::None)
    m_noise->setText(tr("No kernel can be made of the two; the reason stands above."));
  m_release->setVisible(hint != Document::FusionHint::None);
  m_foot->setVisible(possible || hint != Document::FusionHint::None);
  if (comparing()) setComparing();
}

}  // namespace nf
