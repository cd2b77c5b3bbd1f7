// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/fusion_model.h"

#include <QLocale>
#include <algorithm>
#include <cmath>

#include "widgets/basic.h"
#include "widgets/moved_places.h"
#include "widgets/names.h"

namespace nf {

using protocol::FusionDecisionInfo;
using protocol::FusionState;

QString stateWord(FusionState state) {
  switch (state) {
    case FusionState::Accepted: return QObject::tr("accepted");
    case FusionState::Refused: return QObject::tr("refused");
    case FusionState::NotLowerable: return QObject::tr("not lowerable");
    case FusionState::Forced: return QObject::tr("forced");
    case FusionState::Forbidden: return QObject::tr("forbidden");
    case FusionState::Reverted: return QObject::tr("reverted, slower");
  }
  return {};
}

QString stateIcon(FusionState state) {
  switch (state) {
    case FusionState::Accepted: return QStringLiteral("ok");
    case FusionState::Refused:
    case FusionState::Forbidden: return QStringLiteral("refused");
    case FusionState::NotLowerable: return QStringLiteral("notlowerable");
    case FusionState::Forced: return QStringLiteral("flag");
    case FusionState::Reverted: return QStringLiteral("reverted");
  }
  return {};
}

Shade stateColor(FusionState state) {
  switch (state) {
    case FusionState::Accepted: return &Palette::proved;
    case FusionState::Refused:
    case FusionState::NotLowerable: return &Palette::muted;
    case FusionState::Forbidden:
    case FusionState::Forced: return &Palette::accent;
    case FusionState::Reverted: return &Palette::reverted;
  }
  return &Palette::muted;
}

QString neverFlips(const FusionDecisionInfo& d) {
  if (!d.flips.empty()) return {};
  const auto named = [&](auto&& counts) {
    QStringList names;
    if (counts(d.dT)) names << QObject::tr("traffic");
    if (counts(d.dC)) names << QObject::tr("arithmetic");
    if (counts(d.dK)) names << QObject::tr("launches");
    return names.join(QObject::tr(" and "));
  };
  const QString saved = named([](double v) { return v > 0; }), spent = named([](double v) { return v < 0; });
  const QString why =
      saved.isEmpty() && spent.isEmpty()
          ? QObject::tr("Nothing is left to count between the two: R is 0 at every size and on every device.")
      : spent.isEmpty()
          ? QObject::tr("None: it saves %1 and costs nothing, so R stays above 0 at every size and for every P_d, P_c and L.")
                .arg(saved)
      : saved.isEmpty()
          ? QObject::tr("None: it costs %1 and saves nothing, so R stays below 0 at every size and for every P_d, P_c and L.")
                .arg(spent)
          : QObject::tr("None: no one size, nor P_d, P_c or L, turns the sign of R alone.");
  return d.state == FusionState::NotLowerable ? why + QLatin1Char(' ') + QObject::tr("What keeps the two apart is no number.")
                                              : why;
}

protocol::Measured savingOfAStep(const FusionDecisionInfo& d) {
  protocol::Measured saving = d.measuredSaving.value_or(protocol::Measured{});
  for (double* const us : {&saving.median, &saving.low, &saving.high}) *us *= d.repeats;
  return saving;
}

namespace {
QString signedText(double value, int decimals) {
  if (value == 0) return QStringLiteral("0");
  const double size = std::abs(value);
  if (size < 0.1) decimals = std::min(7, 1 + static_cast<int>(-std::floor(std::log10(size))));  // two digits
  return (value > 0 ? QStringLiteral("+") : QStringLiteral("-")) + QString::number(size, 'f', size >= 100 ? 1 : decimals);
}

// One for a column, that its numbers may be compared: the largest of them reads well.
std::pair<double, QString> unitFor(double largest, const char* name) {
  const char* prefix = largest >= 1e9 ? "G" : largest >= 1e6 ? "M" : largest >= 1e3 ? "k" : "";
  const double scale = largest >= 1e9 ? 1e-9 : largest >= 1e6 ? 1e-6 : largest >= 1e3 ? 1e-3 : 1;
  return {scale, QLatin1String(prefix) + QLatin1String(name)};
}

// What is too small for the column's unit has its own.
QString amountText(double value, const std::pair<double, QString>& unit, const char* name) {
  constexpr double kLeast = 1e-5;  // takes six decimals
  if (value == 0 || std::abs(value) * unit.first >= kLeast) return signedText(value * unit.first, unit.first < 1 ? 2 : 0);
  const auto [scale, own] = unitFor(std::abs(value), name);
  return signedText(value * scale, scale < 1 ? 1 : 0) + QLatin1Char(' ') + own;
}

// As many decimals as the first digit of what the saving varies by needs, and seven digits at most.
QString measuredText(const protocol::Measured& saving) {
  const double half = (saving.high - saving.low) / 2;
  const int before = std::abs(saving.median) >= 10 ? static_cast<int>(std::log10(std::abs(saving.median))) + 1 : 1;
  const int decimals = half > 0 ? std::clamp(static_cast<int>(-std::floor(std::log10(half))), 1, std::max(1, 7 - before)) : 1;
  const auto text = [decimals](double v) { return (v > 0 ? QStringLiteral("+") : QString()) + QString::number(v, 'f', decimals); };
  return QStringLiteral("%1 [%2, %3]").arg(text(saving.median), text(saving.low), text(saving.high));
}
}  // namespace

void FusionModel::movePlaces(const MovedPlaces& moved) {
  for (auto& d : m_report.decisions)
    for (protocol::Origins* places : {&d.origins, &d.consumerOrigins}) moved.move(*places);
}

void FusionModel::setReport(protocol::FusionReport report) {
  beginResetModel();
  m_report = std::move(report);
  m_largest = 0;
  double bytes = 0, flops = 0;
  for (const auto& d : m_report.decisions) {
    if (std::isfinite(d.R)) m_largest = std::max(m_largest, std::abs(d.R) * 1e6);
    bytes = std::max(bytes, std::abs(d.dT));
    flops = std::max(flops, std::abs(d.dC));
  }
  m_traffic = unitFor(bytes, "B");
  m_work = unitFor(flops, "FLOP");
  endResetModel();
}

void FusionModel::setMeasured(const std::string& producer, const std::string& consumer, protocol::Measured saving) {
  for (std::size_t i = 0; i < m_report.decisions.size(); ++i) {
    FusionDecisionInfo& d = m_report.decisions[i];
    if (d.producer != producer || d.consumer != consumer) continue;
    d.measuredSaving = std::move(saving);
    const QModelIndex cell = index(static_cast<int>(i), kMeasured);
    Q_EMIT dataChanged(cell, cell);
    return;
  }
}

double FusionModel::microseconds(const FusionDecisionInfo& d, int column) const {
  const auto& k = m_report.device;
  switch (column) {
    case kTrafficUs: return k.bandwidth > 0 ? d.dT / k.bandwidth * 1e6 : 0;
    case kWorkUs: return k.flopRate > 0 ? d.dC / k.flopRate * 1e6 : 0;
    case kLaunchUs: return d.dK * k.launchSeconds * 1e6;
    default: return d.R * 1e6;
  }
}

QVariant FusionModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const FusionDecisionInfo& d = m_report.decisions[static_cast<std::size_t>(index.row())];
  if (role == kDecisionRole) return index.row();
  if (role == Qt::TextAlignmentRole)
    return static_cast<int>(
        (index.column() == kPair || index.column() == kCategory || index.column() == kState ? Qt::AlignLeft : Qt::AlignRight) |
        Qt::AlignVCenter);
  if (role == Qt::ToolTipRole && index.column() == kMeasured && d.measuredSaving) {
    const auto pairs = d.measuredSaving->samples.size();
    const QString times =
        d.repeats > 1
            ? QLatin1Char(' ') +
                  tr("Of one pass of the loop, times its %1 passes in a step, as R counts them.").arg(QString::number(d.repeats))
            : QString();
    return (pairs > 0 ? tr("Saved by fusing: the median of %1 paired differences, with its 95 % interval. It need not be the "
                           "difference of the two medians.")
                            .arg(pairs)
                      : tr("Saved by fusing: the median of the paired differences that took the fusion back, with its 95 % "
                           "interval.")) +
           times;
  }
  if (role == Qt::ToolTipRole) return shortName(d.why);
  if (role == kSortRole) {
    switch (index.column()) {
      case kNumber: return index.row();
      case kTraffic: return d.dT;
      case kWork: return d.dC;
      case kKernels: return d.dK;
      case kTrafficUs:
      case kWorkUs:
      case kLaunchUs:
      case kBar:
      case kReward: return microseconds(d, index.column());
      case kMeasured: return d.measuredSaving ? savingOfAStep(d).median : -1e300;
      default: return data(index, Qt::DisplayRole);
    }
  }
  if (role == Qt::UserRole) return microseconds(d, kReward);
  if (role != Qt::DisplayRole) return {};
  switch (index.column()) {
    case kNumber: return index.row() + 1;
    case kPair:
      return shortName(d.producer) + QStringLiteral(" → ") + shortName(d.consumer) +
             (d.recomputed.empty() ? QString() : tr(", recomputed"));
    case kCategory: return QString::fromStdString(d.category);
    case kTraffic: return amountText(d.dT, m_traffic, "B");
    case kWork: return amountText(d.dC, m_work, "FLOP");
    case kKernels: return signedText(d.dK, 0);
    case kTrafficUs:
    case kWorkUs:
    case kLaunchUs:
    case kReward: return signedText(microseconds(d, index.column()), 2);
    case kMeasured: return d.measuredSaving ? measuredText(savingOfAStep(d)) : QStringLiteral("–");
    case kState: return stateWord(d.state);
    default: return {};
  }
}

QVariant FusionModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole)
    return static_cast<int>((section == kPair || section == kCategory || section == kState ? Qt::AlignLeft : Qt::AlignRight) |
                            Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  if (section == kTraffic) return tr("dT  %1").arg(m_traffic.second);
  if (section == kWork) return tr("dC  %1").arg(m_work.second);
  const char* names[] = {"#",     "Producer → consumer", "Category", "", "", "dK", "dT/P_d  µs", "dC/P_c  µs", "dK·L  µs", "",
                         "R  µs", "Measured  µs",        "State"};
  return tr(names[section]);
}

QString FusionModel::csv() const {
  QString out = QStringLiteral(
      "producer,consumer,category,dT_bytes,dC_flops,dK,repeats,dT_seconds,dC_seconds,dK_seconds,"
      "R_seconds,measured_seconds,measured_low,measured_high,flips,flips_at,state,why,P_d,P_c,L\n");
  const auto quoted = [](const std::string& text) {
    return QLatin1Char('"') + QString::fromStdString(text).replace(QLatin1Char('"'), QStringLiteral("\"\"")) + QLatin1Char('"');
  };
  // The shortest text that reads as the same number.
  const auto exact = [](double value) { return QString::number(value, 'g', QLocale::FloatingPointShortest); };
  const auto& device = m_report.device;
  for (const auto& d : m_report.decisions) {
    constexpr auto names = enumNames(FusionState{});
    const auto seconds = [&](int column) { return exact(microseconds(d, column) / 1e6); };
    const std::optional<protocol::Measured> measured = d.measuredSaving ? std::optional(savingOfAStep(d)) : std::nullopt;
    const auto saving = [&](double protocol::Measured::*part) { return measured ? exact((*measured).*part / 1e6) : QString(); };
    out += QStringList{quoted(d.producer),
                       quoted(d.consumer),
                       quoted(d.category),
                       exact(d.dT),
                       exact(d.dC),
                       QString::number(d.dK),
                       exact(d.repeats),
                       seconds(kTrafficUs),
                       seconds(kWorkUs),
                       seconds(kLaunchUs),
                       exact(d.R),
                       saving(&protocol::Measured::median),
                       saving(&protocol::Measured::low),
                       saving(&protocol::Measured::high),
                       d.flips.empty() ? QString() : quoted(d.flips.front().quantity),
                       d.flips.empty() ? QString() : exact(d.flips.front().threshold),
                       QLatin1String(names[static_cast<std::size_t>(d.state)]),
                       quoted(d.why),
                       exact(device.bandwidth),
                       exact(device.flopRate),
                       exact(device.launchSeconds)}
               .join(QLatin1Char(',')) +
           QLatin1Char('\n');
  }
  return out;
}

}  // namespace nf
