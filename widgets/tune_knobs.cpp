// SPDX-License-Identifier: GPL-3.0-or-later
// The knobs of TuneView's kernel: what they are set to, pinned, measured by hand and measured again.
#include <QBrush>
#include <QComboBox>
#include <QGridLayout>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLabel>
#include <QPushButton>
#include <QStyledItemDelegate>
#include <QTimer>
#include <algorithm>
#include <cmath>

#include "widgets/basic.h"
#include "widgets/keep_focus.h"
#include "widgets/names.h"
#include "widgets/tune_view.h"

namespace nf {

using namespace protocol;

namespace {

QJsonObject parsed(const std::string& text) { return QJsonDocument::fromJson(QByteArray::fromStdString(text)).object(); }

QByteArray jsonOf(const QJsonValue& value) {
  QByteArray array = QJsonDocument(QJsonArray{value}).toJson(QJsonDocument::Compact);
  return array.mid(1, array.size() - 2);
}

QJsonValue valueOf(const std::string& text) {
  return QJsonDocument::fromJson(QByteArray::fromStdString("[" + text + "]")).array().at(0);
}

bool sameSchedule(const JsonText& a, const JsonText& b) { return a == b || parsed(a.text) == parsed(b.text); }

// [3,1,16,6] as "3 × 1 × 16 × 6", a word without its quotes.
QString pretty(const std::string& json) {
  const QJsonValue v = valueOf(json);
  if (v.isString()) return v.toString().isEmpty() ? QObject::tr("none") : v.toString();
  if (v.isBool()) return v.toBool() ? QObject::tr("yes") : QObject::tr("no");
  if (!v.isArray()) return QString::fromStdString(json);
  if (v.toArray().isEmpty()) return QObject::tr("none");
  QStringList parts;
  for (const auto& e : v.toArray()) parts << QString::fromUtf8(jsonOf(e));
  return parts.join(QStringLiteral(" × "));
}

// A list of values is no menu: that is drawn in one colour whatever an item's own is.
class ValueDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    return QStyledItemDelegate::sizeHint(option, index).expandedTo({0, 24});
  }
};

}  // namespace

std::map<std::string, std::string> knobsOf(const std::string& schedule) {
  std::map<std::string, std::string> out;
  const QJsonObject knobs = parsed(schedule).value(QStringLiteral("knobs")).toObject();
  for (auto it = knobs.begin(); it != knobs.end(); ++it) out[it.key().toStdString()] = jsonOf(it.value()).toStdString();
  return out;
}

std::string withKnobs(const std::string& schedule, const std::map<std::string, std::string>& wanted) {
  QJsonObject object = parsed(schedule);
  QJsonObject knobs = object.value(QStringLiteral("knobs")).toObject();
  for (const auto& [name, value] : wanted) knobs.insert(QString::fromStdString(name), valueOf(value));
  object.insert(QStringLiteral("knobs"), knobs);
  return QJsonDocument(object).toJson(QJsonDocument::Compact).toStdString();
}

void TuneView::setSpace(const Space& space) {
  if (space.subgraph != m_current) return;
  const bool shown =
      !m_knobs.empty() && std::equal(space.knobs.begin(), space.knobs.end(), m_space.knobs.begin(), m_space.knobs.end(),
                                     [](const KnobInfo& a, const KnobInfo& b) { return a.name == b.name && a.values == b.values; });
  m_space = space;
  showLineage();
  if (!shown) return showKnobs();
  markRuledOut();
  showMeasureState();
}

bool TuneView::told() const { return !m_space.at.text.empty() && sameSchedule(m_space.at, chosenSchedule()); }

// Greyed and still to be chosen: of two knobs that are turned together one is turned first.
void TuneView::markRuledOut() {
  if (!told()) return;
  for (const KnobInfo& knob : m_space.knobs) {
    const auto found = m_knobs.find(QString::fromStdString(knob.name));
    if (found == m_knobs.end()) continue;
    for (std::size_t i = 0; i < knob.values.size(); ++i) {
      const int item = found->second->findData(QString::fromStdString(knob.values[i].text));
      const QString why = i < knob.ruledOut.size() ? QString::fromStdString(knob.ruledOut[i]) : QString();
      found->second->setItemData(item, why.isEmpty() ? QVariant() : QVariant(QBrush(m_theme->colors().hint)), Qt::ForegroundRole);
      found->second->setItemData(item, why.isEmpty() ? QVariant() : QVariant(why), Qt::ToolTipRole);
    }
  }
}

QString TuneView::refusal() const {
  if (told() && !m_space.ruledOut.empty()) return QString::fromStdString(m_space.ruledOut);
  const auto refused = [](const TrialInfo& t) { return t.status != TrialStatus::Ok && t.status != TrialStatus::Slow; };
  const auto words = [](const TrialInfo& t) {
    return tr("g%1 c%2 was refused: %3").arg(t.generation).arg(t.number).arg(QString::fromStdString(t.how));
  };
  if (!edited()) {
    const TrialInfo* t = m_trial ? trialNumbered(*m_trial) : nullptr;
    return t && refused(*t) ? words(*t) : QString();
  }
  // One that failed once and was measured another time is none that was refused.
  const QJsonObject chosen = parsed(chosenSchedule().text);
  const auto find = [&](bool failed) {
    return std::find_if(m_trialList.begin(), m_trialList.end(),
                        [&](const TrialInfo& t) { return refused(t) == failed && parsed(t.schedule.text) == chosen; });
  };
  const auto found = find(true);
  return found == m_trialList.end() || find(false) != m_trialList.end() ? QString() : words(*found);
}

void TuneView::showKnobs() {
  auto* grid = static_cast<QGridLayout*>(m_knobBox->layout());
  while (QLayoutItem* item = grid->takeAt(0)) {
    if (item->widget()) item->widget()->hide(), item->widget()->deleteLater();
    delete item;
  }
  m_knobs.clear();
  m_knobsAsFound.clear();
  grid->setContentsMargins(16, 0, 8, 8);
  grid->setHorizontalSpacing(8);
  grid->setVerticalSpacing(0);
  m_schedule = shownSchedule();
  const auto values = knobsOf(m_schedule);
  int row = 0;
  for (const KnobInfo& knob : m_space.knobs) {
    const QString name = QString::fromStdString(knob.name);
    auto* title = label(QString(name).replace(QLatin1Char('_'), QLatin1Char(' ')));
    title->setToolTip(QString::fromStdString(knob.help));
    title->setFont(m_theme->ui(12));
    auto* box = new QComboBox;
    box->setProperty("flat", true);
    box->setItemDelegate(new ValueDelegate(box));
    box->setFont(m_theme->mono(12));
    box->setAccessibleName(name);
    leaveWheelToPage(box);
    box->setToolTip(QString::fromStdString(knob.help));
    box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    const auto now = values.find(knob.name);
    bool present = false;
    for (const JsonText& v : knob.values) present = present || (now != values.end() && v.text == now->second);
    if (now != values.end() && !present) box->addItem(pretty(now->second), QString::fromStdString(now->second));
    for (const JsonText& v : knob.values) box->addItem(pretty(v.text), QString::fromStdString(v.text));
    if (now != values.end()) box->setCurrentIndex(std::max(0, box->findData(QString::fromStdString(now->second))));
    connect(box, &QComboBox::currentIndexChanged, this, [this] {
      m_spaceTimer->start();
      showMeasureState();
    });
    title->setBuddy(box);
    grid->addWidget(title, row, 0);
    grid->addWidget(box, row++, 1);
    m_knobs[name] = box;
    m_knobsAsFound[name] = box->currentData().toString();
  }
  grid->setColumnStretch(1, 1);
  grid->setRowStretch(row, 1);
  const TrialInfo* shown = m_trial || !pinned() ? shownTrial() : nullptr;
  m_knobHeader->setTitle(shown ? tr("Knobs of g%1 c%2").arg(shown->generation).arg(shown->number) : tr("Knobs"));
  markRuledOut();
  if (!m_knobs.empty() && !told()) m_spaceTimer->start();
  showMeasureState();
}

// Of the shown trial; a pinned kernel's, or one that was not tried, is what the engine says.
std::string TuneView::shownSchedule() const {
  const TrialInfo* t = m_trial || !pinned() ? shownTrial() : nullptr;
  return t && !knobsOf(t->schedule.text).empty() ? t->schedule.text : m_space.current.text;
}

bool TuneView::edited() const {
  return std::any_of(m_knobs.begin(), m_knobs.end(), [this](const auto& knob) {
    const auto found = m_knobsAsFound.find(knob.first);
    return found != m_knobsAsFound.end() && knob.second->currentData().toString() != found->second;
  });
}

QComboBox* TuneView::knob(const QString& name) const {
  const auto found = m_knobs.find(name);
  return found == m_knobs.end() ? nullptr : found->second;
}

void TuneView::showMeasureState() {
  const QString why = refusal();
  const bool ruledOut = !why.isEmpty() && edited();
  setUsable(m_measure, !m_space.knobs.empty() && !m_measuring && !ruledOut && !isGone());
  if (ruledOut) say(tr("This kernel cannot have it: %1").arg(why));
  else if (m_refusalSaid) say({});
  m_refusalSaid = ruledOut;
  refreshPin();
  QString detail;
  if (edited()) detail = tr("not measured");
  else if (m_space.size > 0)
    detail =
        tr("%1 in all").arg(m_space.size < 1e15 ? grouped(static_cast<std::int64_t>(m_space.size)) : significant(m_space.size, 2));
  m_knobHeader->setDetail(m_space.knobs.empty() ? QString() : detail);
}

// What the panel was made of, and what was set in it since: neither a trial that was found meanwhile nor one that is not known yet.
JsonText TuneView::chosenSchedule() const {
  if (m_knobs.empty()) return {shownSchedule()};
  std::map<std::string, std::string> knobs;
  for (const auto& [name, box] : m_knobs)
    if (const QString value = box->currentData().toString(); value != m_knobsAsFound.at(name))
      knobs[name.toStdString()] = value.toStdString();
  return {knobs.empty() ? m_schedule : withKnobs(m_schedule, knobs)};
}

void TuneView::say(const QString& text) {
  m_result->setText(text);
  m_result->setVisible(!text.isEmpty());
}

bool TuneView::pinned() const {
  const SubgraphInfo* s = subgraph();
  if (!s || (!s->setAside.empty() && s->setAside == s->pinTensor)) return false;
  return m_pins ? m_pins(s->pinTensor) : s->state == SubgraphState::Pinned;
}

void TuneView::refreshPin() {
  const SubgraphInfo* s = subgraph();
  const bool pins = pinned();
  m_pin->setText(pins ? tr("Unpin") : tr("Pin"));
  const QString why = pins ? QString() : refusal();
  const bool unknown = !pins && edited() && !told();
  setUsable(m_pin, s && !s->pinTensor.empty() && !isGone() &&
                       (pins || (why.isEmpty() && !unknown && !knobsOf(chosenSchedule().text).empty())));
  m_pin->setToolTip(interprets() && !pins        ? noKernels()
                    : isGone()                   ? goneWords()
                    : !s || s->pinTensor.empty() ? tr("No tensor's name is this kernel's alone, so no hint can keep its schedule")
                    : pins                       ? tr("Take the hint out of the notebook: the search decides again")
                    : !why.isEmpty()             ? tr("No schedule of this kernel: %1").arg(why)
                    : unknown                    ? tr("Not checked yet whether this kernel can have it")
                    : !s->setAside.empty() && s->setAside == s->pinTensor
                        ? tr("Keep this schedule: it takes the place of the hint for %1, which is none of this kernel")
                              .arg(shortName(s->setAside))
                        : tr("Keep this schedule: written into the notebook as a hint"));
  setUsable(m_replay, shownTrial() != nullptr && !m_measuring && !isGone());
}

namespace {

// "41.8 µs [41.4, 42.3]", or the word for how it ended.
QString figureOf(const TrialInfo& t) {
  if (!t.us) return QString::fromLatin1(enumNames(TrialStatus{})[static_cast<std::size_t>(t.status)]);
  return measuredText(*t.us, t.lowUs, t.highUs);
}

// "Faster" needs intervals that do not touch: -1 faster, 1 slower, 0 not separated.
int separated(const TrialInfo& now, const TrialInfo& before) {
  if (now.highUs.value_or(*now.us) < before.lowUs.value_or(*before.us)) return -1;
  return now.lowUs.value_or(*now.us) > before.highUs.value_or(*before.us) ? 1 : 0;
}

}  // namespace

void TuneView::setReplaying(std::uint64_t number) {
  m_measuring = true;
  setUsable(m_measure, false);
  refreshPin();
  if (const TrialInfo* t = trialNumbered(number)) say(tr("g%1 c%2 runs again").arg(t->generation).arg(number));
}

void TuneView::setReplayed(std::uint64_t number, const TrialInfo& now) {
  m_measuring = false;
  showMeasureState();
  const TrialInfo* before = trialNumbered(number);
  if (!before) return;
  QString text = tr("g%1 c%2 was %3\nnow %4").arg(before->generation).arg(number).arg(figureOf(*before), figureOf(now));
  if (now.us && before->us) {
    const int percent = static_cast<int>(std::lround(std::abs(1 - *now.us / *before->us) * 100));
    const int way = separated(now, *before);
    text += way < 0 ? tr(": %1 % faster").arg(percent) : way > 0 ? tr(": %1 % slower").arg(percent) : tr(": within the noise");
  } else if (!now.us) {
    text += QStringLiteral(": ") + QString::fromStdString(now.how);
  }
  say(text);
}

void TuneView::setMeasuring() {
  m_measuring = true;
  setUsable(m_measure, false);
  refreshPin();
  say(tr("measuring by hand"));
}

void TuneView::setMeasured(const TrialInfo& trial) {
  m_measuring = false;
  showMeasureState();
  const TrialInfo* best = nullptr;
  for (const TrialInfo& t : m_trialList)
    if (t.us && t.status == TrialStatus::Ok && t.number != trial.number && (!best || *t.us < *best->us)) best = &t;
  if (!trial.us || (trial.status != TrialStatus::Ok && trial.status != TrialStatus::Slow)) {
    say(tr("refused: %1").arg(QString::fromStdString(trial.how)));
    return;
  }
  QString text = figureOf(trial);
  if (best) {
    const int percent = static_cast<int>(std::lround(std::abs(1 - *trial.us / *best->us) * 100));
    const int way = separated(trial, *best);
    text += QLatin1Char('\n') + (way < 0   ? tr("%1 % faster than the fastest trial").arg(percent)
                                 : way > 0 ? tr("%1 % slower than the fastest trial").arg(percent)
                                           : tr("within the noise of the fastest trial"));
  }
  say(text);
}

void TuneView::setMeasureFailed(const QString& message) {
  m_measuring = false;
  showMeasureState();
  say(message);
}

QString TuneView::measured() const { return m_result->text(); }

}  // namespace nf
