// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/plot_axis.h"

#include <cmath>

#include "widgets/basic.h"

namespace nf {
namespace {

class RoundTicker : public QCPAxisTicker {
 public:
  RoundTicker(QCPAxis* axis, bool integers, double most, TickText text)
      : m_axis(axis), m_integers(integers), m_most(most), m_text(text) {}

 protected:
  double pixels() const {
    const QCPAxisRect* rect = m_axis->axisRect();
    return m_axis->orientation() == Qt::Horizontal ? rect->width() : rect->height();
  }
  double perTick() const { return m_axis->orientation() == Qt::Horizontal ? 84 : 34; }

  double getTickStep(const QCPRange& range) override {
    setTickCount(std::max(2, static_cast<int>(pixels() / perTick())));
    const double step = QCPAxisTicker::getTickStep(range);
    m_step = m_integers ? std::max(1.0, std::ceil(step - 1e-9)) : step;
    return m_step;
  }

  QVector<double> createTickVector(double step, const QCPRange& range) override {
    QVector<double> ticks;
    if (m_axis->scaleType() == QCPAxis::stLogarithmic) ticks = decades(range);
    if (ticks.size() < 2) {
      ticks = QCPAxisTicker::createTickVector(step, range);
    } else {
      m_step = 0;
    }
    const auto cut = [&] { ticks.removeIf([&](double t) { return t > m_most || t < range.lower || t > range.upper; }); };
    cut();
    // One tick says nothing of the scale.
    for (int finer = 0; finer < 3 && ticks.size() < 2 && !(m_integers && step < 2); ++finer) {
      m_step = step /= 2;
      ticks = QCPAxisTicker::createTickVector(step, range);
      cut();
    }
    m_top = ticks.isEmpty() ? range.upper : ticks.back();
    // Even steps stay even: where two labels would meet all of them stand wider apart.
    for (QVector<double> kept = ticks; m_axis->scaleType() == QCPAxis::stLinear && ticks.size() > 2; kept = ticks) {
      if (spread(kept); kept.size() == ticks.size()) return kept;
      m_step = step = cleanMantissa(step * 2);
      ticks = QCPAxisTicker::createTickVector(step, range);
      if (cut(); ticks.size() < 2) return kept;
      m_top = ticks.back();
    }
    spread(ticks);
    return ticks;
  }

  QString getTickLabel(double tick, const QLocale&, QChar, int) override { return m_text(tick, m_step, m_top); }
  QVector<double> createSubTickVector(int, const QVector<double>&) override { return {}; }

 private:
  // Labels side by side take the more room the more they say, and even steps draw together on a logarithmic axis: from the last label
  // on, each that would run into the one after it goes.
  void spread(QVector<double>& ticks) const {
    const bool across = m_axis->orientation() == Qt::Horizontal;
    const double apart = across ? 8 : 2;
    const QFontMetricsF metrics(m_axis->tickLabelFont());
    double free = HUGE_VAL;
    for (qsizetype i = ticks.size(); i-- > 0;) {
      const double pixel = m_axis->coordToPixel(ticks[i]), at = across ? pixel : -pixel;
      const double half = (across ? metrics.horizontalAdvance(m_text(ticks[i], m_step, m_top)) : metrics.ascent()) / 2;
      if (at + half + apart > free) ticks.removeAt(i);
      else free = at - half;
    }
  }

  // The densest of 1-2-5, 1-3, 1 a decade, every second decade ... that has room.
  QVector<double> decades(const QCPRange& range) const {
    const double low = std::max(range.lower, 1e-300), high = std::max(std::min(range.upper, m_most), low);
    const int first = static_cast<int>(std::floor(std::log10(low))), last = static_cast<int>(std::ceil(std::log10(high)));
    const double room = std::max(2.0, pixels() / perTick());
    const auto make = [&](std::initializer_list<double> factors, int every) {
      QVector<double> ticks;
      for (int e = first; e <= last; ++e)
        for (const double f : factors)
          if (const double t = f * std::pow(10.0, e); e % every == 0 && t >= low && t <= high) ticks << t;
      return ticks;
    };
    for (const auto& factors : {std::initializer_list<double>{1.0, 2.0, 5.0}, {1.0, 3.0}, {1.0}})
      if (const auto ticks = make(factors, 1); static_cast<double>(ticks.size()) <= room) return ticks;
    // Two that stand a little close are better than one, which says nothing of the scale.
    int every = 1;
    while (every < 64 && static_cast<double>(make({1.0}, every).size()) > room && make({1.0}, every + 1).size() >= 2) ++every;
    return make({1.0}, every);
  }

  QCPAxis* m_axis;
  bool m_integers;
  double m_most, m_step = 0, m_top = 1;
  TickText m_text;
};

// As many as tell the ticks apart and name their places: 62.5 in steps of 2.5.
int decimalsFor(double step) {
  int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 9);
  for (int finer = 0; finer < 2 && decimals < 9; ++finer) {
    const double scaled = step * std::pow(10.0, decimals);
    if (std::abs(scaled - std::round(scaled)) < 1e-6 * scaled) break;
    ++decimals;
  }
  return decimals;
}

QString scaledTick(double value, double step, double top, std::initializer_list<std::pair<double, const char*>> units) {
  const double measure = step > 0 ? std::max(std::abs(top), step) : std::abs(value);
  auto unit = units.begin();
  while (unit + 1 != units.end() && measure >= (unit + 1)->first * (1 - 1e-9)) ++unit;
  const QString number =
      step > 0 ? QString::number(value / unit->first, 'f', decimalsFor(step / unit->first)) : significant(value / unit->first, 3);
  return withoutZeros(number + QLatin1Char(' ') + QString::fromUtf8(unit->second));
}

}  // namespace

QString withoutZeros(QString text) {
  qsizetype space = text.indexOf(QLatin1Char(' '));
  if (space < 0) space = text.size();
  if (!text.left(space).contains(QLatin1Char('.')) || text.left(space).contains(QLatin1Char('e'))) return text;
  qsizetype end = space;
  while (text[end - 1] == QLatin1Char('0')) --end;
  if (text[end - 1] == QLatin1Char('.')) --end;
  return text.left(end) + text.mid(space);
}

QString countTick(double value, double, double) { return grouped(static_cast<std::int64_t>(std::llround(value))); }
QString microsecondTick(double us, double step, double top) {
  return scaledTick(us, step, top, {{1e-3, "ns"}, {1.0, "µs"}, {1e3, "ms"}, {1e6, "s"}});
}
QString millisecondTick(double ms, double step, double top) { return microsecondTick(ms * 1e3, step * 1e3, top * 1e3); }
QString secondTick(double s, double step, double top) {
  return s == 0 ? QStringLiteral("0 s") : scaledTick(s, step, top, {{1e-3, "ms"}, {1.0, "s"}, {60.0, "min"}, {3600.0, "h"}});
}
QString flopTick(double flops, double step, double top) {
  return scaledTick(flops, step, top, {{1.0, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}, {1e15, "P"}}).trimmed();
}
QString plainTick(double value, double step, double) {
  const double size = std::abs(value);
  if (step > 0 && size < step / 2) return QStringLiteral("0");
  if ((step > 1e-6 || (step > 0 && size >= 1e-4)) && size < 1e6)
    return withoutZeros(QString::number(value, 'f', decimalsFor(step)));
  if (value == 0 || (size >= 1e-4 && size < 1e6)) return withoutZeros(significant(value, 3));
  // 2·10⁻⁷: short beside the axis, and read without counting zeros.
  const int power = static_cast<int>(std::floor(std::log10(size) + 1e-9));
  const double unit = std::pow(10.0, power);
  const QString mantissa = withoutZeros(QString::number(value / unit, 'f', step > 0 ? std::max(2, decimalsFor(step / unit)) : 2));
  QString ten = QStringLiteral("10");
  const QString digits = QStringLiteral("⁰¹²³⁴⁵⁶⁷⁸⁹");
  for (const QChar c : QString::number(power)) ten += c == QLatin1Char('-') ? QChar(0x207b) : digits[c.digitValue()];
  return mantissa == QLatin1String("1") ? ten : mantissa + QChar(0xb7) + ten;
}
QString percentTick(double share, double step, double) {
  return QString::number(share * 100, 'f', decimalsFor(std::max(1e-9, step * 100))) + QStringLiteral(" %");
}

void setAxis(QCPAxis* axis, const AxisRange& wish, TickText text) {
  double low = wish.low, high = wish.high;
  if (!(low <= high)) low = wish.positive ? 0.1 : 0, high = 1;
  const bool log = wish.logarithmic || (wish.positive && low > 0 && high / low > 10);
  axis->setScaleType(log ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
  axis->setTicker(QSharedPointer<QCPAxisTicker>(new RoundTicker(axis, wish.integers, wish.labelsUpTo, text)));
  if (log) {
    const double room = std::max(1.02, std::pow(high / low, wish.room));
    axis->setRange(low / room, high * room);
  } else {
    // Values that are nearly equal make a flat line: labels of a finer step would not fit beside the axis, least of all with a power of ten.
    const double size = std::abs(high), flat = size * (size < 1e-4 ? 2e-2 : 1e-4);
    const double room = high > low ? std::max((high - low) * wish.room, flat) : std::max(size * 0.1, 1e-9);
    axis->setRange(wish.positive ? std::max(0.0, low - room) : low - room, high + room);
  }
}

void sayEmpty(QCustomPlot* plot, const Theme* theme, const QString& text) {
  for (QCPAxis* axis : {plot->xAxis, plot->yAxis}) axis->setTickLabels(text.isEmpty()), axis->grid()->setVisible(text.isEmpty());
  if (text.isEmpty()) return;
  auto* item = new QCPItemText(plot);
  item->setFont(theme->ui(12));
  item->setColor(theme->colors().muted);
  item->position->setType(QCPItemPosition::ptAbsolute);
  item->setClipToAxisRect(false);
  // In the middle of the picture, on as many lines as its width asks for.
  const QFontMetrics metrics(item->font());
  const int room = std::max(80, plot->width() - 24);
  QStringList lines;
  for (const QString& word : text.split(QLatin1Char(' '))) {
    if (!lines.isEmpty() && metrics.horizontalAdvance(lines.back() + QLatin1Char(' ') + word) <= room)
      lines.back() += QLatin1Char(' ') + word;
    else lines << word;
  }
  item->setText(lines.join(QLatin1Char('\n')));
  item->setTextAlignment(Qt::AlignCenter);
  item->position->setCoords(plot->width() / 2.0, plot->height() / 2.0);
}

}  // namespace nf
