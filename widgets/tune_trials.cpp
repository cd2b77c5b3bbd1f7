// SPDX-License-Identifier: GPL-3.0-or-later
// What is chosen in TuneView: the kernel, its trials with the playhead, and how the shown one was made.
#include <QComboBox>
#include <QJsonDocument>
#include <QLabel>
#include <QListWidget>
#include <QPushButton>
#include <QRegularExpression>
#include <QTimer>
#include <QToolButton>
#include <algorithm>
#include <functional>

#include "widgets/basic.h"
#include "widgets/graph_names.h"
#include "widgets/kernel_view.h"
#include "widgets/names.h"
#include "widgets/profile_view.h"
#include "widgets/trial_marks.h"
#include "widgets/tune_trials.h"
#include "widgets/tune_view.h"

namespace nf {

using namespace protocol;

std::optional<std::uint64_t> measuredAlready(const std::vector<TrialInfo>& trials, const TrialInfo* shown,
                                             const JsonText& schedule) {
  const auto read = [](const JsonText& text) { return QJsonDocument::fromJson(QByteArray::fromStdString(text.text)); };
  const QJsonDocument wanted = read(schedule);
  const auto same = [&](const TrialInfo& t) { return t.us && t.status == TrialStatus::Ok && read(t.schedule) == wanted; };
  if (wanted.isNull()) return std::nullopt;
  if (shown && same(*shown)) return shown->number;
  const auto found = std::find_if(trials.rbegin(), trials.rend(), same);
  return found == trials.rend() ? std::nullopt : std::optional(found->number);
}

QString timeText(const SubgraphInfo& kernel) {
  return kernel.us ? microsecondsText(*kernel.us) : kernel.trials > 0 ? QObject::tr("not timed") : QObject::tr("no trial");
}

QString gainText(const SubgraphInfo& kernel, const TrialInfo* fastest) {
  const double fastestUs = fastest ? fastest->us.value_or(0) : 0;  // 0: not known
  const bool timed = kernel.us && *kernel.us > 0;
  if (kernel.state == SubgraphState::Pinned) {
    if (!timed || fastestUs <= 0) return QObject::tr("pinned");
    const QString ratio = significant(*kernel.us / fastestUs);
    const bool same = kernel.made && fastest->schedule == kernel.made->schedule;  // one kernel, timed at two moments
    if (same || *kernel.us <= fastestUs) return QObject::tr("pinned, fastest trial");
    return ratio == significant(1) ? QObject::tr("pinned, as fast as the best")
                                   : QObject::tr("pinned, %1× as slow as the best").arg(ratio);
  }
  if (!timed || !kernel.firstUs) return {};
  if (*kernel.us < *kernel.firstUs) return QObject::tr("%1× first").arg(significant(*kernel.firstUs / *kernel.us));
  // Its trials cannot be told apart, taking turns could.
  if (kernel.generation > 0) return QObject::tr("faster in turns");
  const bool lost = fastestUs > 0 && fastestUs < *kernel.us && significant(fastestUs) != significant(*kernel.us);
  if (!lost) return QObject::tr("= first");
  // The first kernel's own time is of another moment.
  return fastest->besideUs ? QObject::tr("first; %1 vs %2").arg(microsecondsText(fastestUs), microsecondsText(*fastest->besideUs))
                           : QObject::tr("first; best %1").arg(microsecondsText(fastestUs));
}

bool isSelectedPart(const std::vector<SubgraphInfo>& kernels, const SubgraphInfo& kernel, const Selection& selection,
                    bool byPlace) {
  const auto exact = [&](const SubgraphInfo& k) { return selection.relationOfPlaces(k.places) == Selection::Relation::Exact; };
  const auto near = [&](const SubgraphInfo& k) { return selection.relation(k.origins) != Selection::Relation::None; };
  if (byPlace && std::ranges::any_of(kernels, exact)) return exact(kernel);
  const auto anyInLoop = [&](const auto& is) {
    return std::ranges::any_of(kernels, [&](const SubgraphInfo& k) { return k.loop == kernel.loop && is(k); });
  };
  return kernel.loop.empty() || (anyInLoop(exact) ? exact(kernel) : near(kernel) || !anyInLoop(near));
}

QString rowTip(const SubgraphInfo& kernel, const TrialInfo* fastest) {
  const double fastestUs = fastest ? fastest->us.value_or(0) : 0;  // 0: not known
  QStringList lines{shortName(kernel.name)};
  const bool pinned = kernel.state == SubgraphState::Pinned;
  if (!kernel.setAside.empty())
    lines << QObject::tr("the hint for %1 is set aside: its schedule is none of this kernel's").arg(shortName(kernel.setAside));
  if (kernel.us)
    lines << (pinned                       ? QObject::tr("%1: the pinned kernel, as its trial was timed")
              : kernel.inUse == JsonText{} ? QObject::tr("%1: the best trial, which a run would begin with")
                                           : QObject::tr("%1: the kernel that the training runs, as its trial was timed"))
                 .arg(microsecondsText(*kernel.us));
  if (kernel.firstUs && !pinned)
    lines << QObject::tr("first, %1: what the first run on this device began with, as it was timed then")
                 .arg(microsecondsText(*kernel.firstUs));
  if (kernel.us && kernel.firstUs && !pinned && *kernel.us >= *kernel.firstUs && kernel.generation > 0)
    lines << QObject::tr("faster in turns: its trial is not faster than the first kernel was at its time, but taking turns it was");
  if (kernel.us && fastestUs > 0 && !pinned && significant(fastestUs) != significant(*kernel.us) && fastestUs < *kernel.us)
    lines << (fastest->besideUs ? QObject::tr("fastest trial: %1").arg(turnsText(*fastest))
                                : QObject::tr("fastest trial, %1, as it was timed by itself: which kernel is used is decided by "
                                              "taking turns")
                                      .arg(microsecondsText(fastestUs)));
  if (kernel.trials > 0)
    lines << QObject::tr("%1, those of earlier runs and by hand included; the bar is its share of this run's")
                 .arg(counted(kernel.trials, QObject::tr("trial"), QObject::tr("trials")));
  return lines.join(QLatin1Char('\n'));
}

const SubgraphInfo* TuneView::subgraph() const {
  for (const SubgraphInfo& s : m_subgraphs)
    if (s.id == m_current) return &s;
  return nullptr;
}

const TrialInfo* TuneView::trialNumbered(std::uint64_t number) const {
  for (const TrialInfo& t : m_trialList)
    if (t.number == number) return &t;
  return nullptr;
}

const TrialInfo* TuneView::shownTrial() const {
  if (m_trial) return trialNumbered(*m_trial);
  if (pinned()) {
    const auto timed = measuredAlready(m_trialList, nullptr, m_space.current);
    return timed ? trialNumbered(*timed) : nullptr;
  }
  // As its row has it: what runs, or what a run would begin with.
  const SubgraphInfo* s = subgraph();
  const TrialInfo* best = s && s->trial ? trialNumbered(*s->trial) : nullptr;
  if (best && best->us) return best;
  best = nullptr;
  for (const TrialInfo& t : m_trialList)
    if (t.us && t.status == TrialStatus::Ok && (!best || *t.us < *best->us)) best = &t;
  return best;
}

const TrialInfo* TuneView::trialInUse() const {
  const SubgraphInfo* s = subgraph();
  if (!s) return nullptr;
  // Which of two trials with one schedule, a first kernel that was compiled quickly and once more with full effort, the engine knows.
  for (const TrialInfo& t : m_trialList)
    if (t.number == s->trial && t.schedule == s->inUse) return &t;
  return nullptr;
}

bool TuneView::knows(const std::string& subgraph) const {
  return m_subgraphs.empty() || std::ranges::any_of(m_subgraphs, [&](const SubgraphInfo& s) { return s.id == subgraph; });
}

void TuneView::setSubgraphs(const std::vector<SubgraphInfo>& subgraphs, std::uint64_t revision, const std::set<std::string>& gone) {
  const bool edited = std::exchange(m_revision, revision) != revision;
  std::set<std::string> ids;
  for (const SubgraphInfo& s : subgraphs) ids.insert(s.id);
  m_profile->setKernels(subgraphs.empty() ? std::nullopt : std::optional(std::move(ids)));
  const SubgraphInfo* shown = subgraph();
  const auto of = [](const SubgraphInfo* s) {
    return s ? std::pair(s->inUse, s->trial) : std::pair<JsonText, std::optional<std::uint64_t>>();
  };
  const auto before = of(shown);
  m_subgraphs = subgraphs;
  const bool wasGone = isGone();
  m_gone = gone;
  countTrials(m_current, m_trialList);
  for (const SubgraphInfo& s : m_subgraphs) m_kernel->setTime(s.id, std::nullopt, s.us);
  if ((shown = subgraph()) && of(shown) != before) setTrials(m_current, std::vector<TrialInfo>(m_trialList));
  showTried(m_tried);
  const QSignalBlocker blocker(m_list);
  while (m_list->count() > static_cast<int>(subgraphs.size())) delete m_list->takeItem(m_list->count() - 1);
  while (m_list->count() < static_cast<int>(subgraphs.size())) new QListWidgetItem(m_list);
  int row = -1;
  const QStringList names = kernelNames(subgraphs);
  for (std::size_t i = 0; i < subgraphs.size(); ++i) {
    QListWidgetItem* item = m_list->item(static_cast<int>(i));
    const QString& name = names[static_cast<qsizetype>(i)];
    if (item->text() != name) item->setText(name);
    item->setForeground(gone.contains(subgraphs[i].id) ? m_theme->colors().hint : m_theme->colors().text);
    if (subgraphs[i].id == m_current) row = static_cast<int>(i);
  }
  const bool moved = m_list->currentRow() != row;
  m_list->setCurrentRow(row);
  if (moved && row >= 0) m_list->scrollToItem(m_list->item(row));
  showGains();
  m_list->viewport()->update();
  m_roofline->setSubgraphs(subgraphs, m_current);
  showOffers();
  showMeasureState();
  showInstances();
  if (row < 0 && !subgraphs.empty()) {
    // What a step spends most on is where to look first.
    std::size_t most = 0;
    const auto weight = [&](std::size_t i) { return subgraphs[i].us.value_or(0) * static_cast<double>(subgraphs[i].callsPerStep); };
    for (std::size_t i = 1; i < subgraphs.size(); ++i)
      if (weight(i) > weight(most)) most = i;
    const TunePlace back = std::exchange(m_back, {});
    for (std::size_t i = 0; i < subgraphs.size(); ++i)
      if (subgraphs[i].id == back.subgraph) most = i;
    m_list->setCurrentRow(static_cast<int>(most));
    const std::uint64_t followed = m_followed;
    chooseSubgraph(subgraphs[most].id);
    if (back.trial && subgraphs[most].id == back.subgraph) chooseTrial(back.trial);
    m_list->scrollToItem(m_list->item(static_cast<int>(most)));
    m_followed = followed;
  } else if (row >= 0 && subgraphs[static_cast<std::size_t>(row)].us && m_kernel->empty() && !m_kernelTimer->isActive()) {
    // It was chosen before it had a kernel.
    askKernel(m_asked, false);
  } else if (row >= 0 && !isGone() && (wasGone || (!m_kernel->empty() && m_kernelRevision != m_revision))) {
    // The same kernel, whose lines came from other places now.
    askKernelAgain();
  }
  if (isGone()) m_kernel->forgetPlaces();
  // It was chosen before anything was known about its kernel, or among the kernels of another text.
  if (edited || m_followed != m_selection->choices()) markSelection();
}

void TuneView::pick(const std::string& id) {
  chooseSubgraph(id);
  if (const SubgraphInfo* s = subgraph()) lead(protocol::Origins(s->origins), nodesOf(*s));
}

// To what the chosen kernel, or a launch of it, came from. That leads back to this kernel, whatever others hold of it, too.
void TuneView::lead(const protocol::Origins& origins, std::vector<std::string> tensors) {
  m_leading = true;
  m_selection->select(origins, std::move(tensors));
  m_leading = false;
  m_followed = m_selection->choices();
  m_led = m_followed;
}

void TuneView::showInstances() {
  const SubgraphInfo* s = subgraph();
  m_kernel->setInstances(s && m_instances ? m_instances(*s) : std::vector<KernelInstance>());
  m_kernel->setOperators(s && s->loop.empty() ? s->operators : std::vector<std::string>());
}

void TuneView::chooseSubgraph(const std::string& id) {
  m_current = id;
  m_led.reset();
  m_followed = m_selection->choices();
  m_trial.reset();
  m_compared.reset();
  m_space = {};
  m_kernelTimer->stop();
  m_kernelPending = false;
  m_asked.reset();
  m_playButton->setChecked(false);
  {
    const QSignalBlocker blocker(m_list);
    for (std::size_t i = 0; i < m_subgraphs.size(); ++i)
      if (m_subgraphs[i].id == id) m_list->setCurrentRow(static_cast<int>(i));
  }
  if (m_list->currentItem()) m_list->scrollToItem(m_list->currentItem());
  const SubgraphInfo* s = subgraph();
  m_trialsHeader->setDetail(s ? tr("%1, every trial a point, none hidden").arg(kernelName(s->name, 30)) : QString());
  m_roofline->setSubgraphs(m_subgraphs, m_current);
  m_roofline->setCurrent(std::nullopt);
  m_profile->choose(id);
  m_trials->setCurrent(std::nullopt);
  m_generations->setCurrent(std::nullopt);
  say({});
  m_measuring = false;
  showInstances();
  setTrials(id, {});
  m_kernel->clear();
  m_kernel->setWaiting(tr("no kernel yet"));
  showKnobs();
  Q_EMIT subgraphChosen(id);
  if (!m_asked) askKernel(std::nullopt, false);  // trials that are known have led to theirs
}

void TuneView::showGains() {
  for (std::size_t i = 0; i < m_subgraphs.size(); ++i) {
    QListWidgetItem* item = m_list->item(static_cast<int>(i));
    const auto fastest = m_fastest.find(m_subgraphs[i].id);
    const TrialInfo* trial = fastest == m_fastest.end() ? nullptr : &fastest->second;
    const QString gain = gainText(m_subgraphs[i], trial);
    if (item && item->data(Qt::AccessibleDescriptionRole).toString() != gain) item->setData(Qt::AccessibleDescriptionRole, gain);
    if (const QString tip = rowTip(m_subgraphs[i], trial); item && item->toolTip() != tip) item->setToolTip(tip);
  }
}

// A row counts what its plot shows, though it is told of less often.
void TuneView::countTrials(const std::string& id, const std::vector<TrialInfo>& trials) {
  const auto row = std::ranges::find(m_subgraphs, id, &SubgraphInfo::id);
  const auto count = std::ranges::count_if(trials, std::not_fn(untimed));
  if (row == m_subgraphs.end() || row->trials >= count) return;
  row->trials = count;
  m_list->viewport()->update();
}

void TuneView::setTrials(const std::string& id, const std::vector<TrialInfo>& trials) {
  countTrials(id, trials);
  const TrialInfo* fastest = nullptr;
  for (const TrialInfo& t : trials)
    if (t.us && *t.us > 0 && t.status == TrialStatus::Ok && (!fastest || *t.us < *fastest->us)) fastest = &t;
  if (fastest) m_fastest.insert_or_assign(id, *fastest);
  showGains();
  if (id != m_current) return;
  const bool awaited = m_trial && !trialNumbered(*m_trial);
  m_trialList = trials;
  m_trials->setTrials(trials);
  m_generations->setTrials(trials);
  m_legend->setTrials(trials);
  const TrialInfo* inUse = trialInUse();
  m_trials->setInUse(inUse ? std::optional(inUse->number) : std::nullopt);
  std::vector<std::pair<std::uint64_t, QString>> candidates;
  const auto add = [&](std::uint64_t number, const QString& text) {
    if (std::none_of(candidates.begin(), candidates.end(), [&](const auto& c) { return c.first == number; }))
      candidates.emplace_back(number, text);
  };
  const auto text = [&](const TrialInfo& t) {
    return QStringLiteral("g%1 c%2  %3").arg(t.generation).arg(t.number).arg(t.us ? microsecondsText(*t.us) : QString()) +
           (&t == inUse ? tr("  in use") : QString());
  };
  for (const auto& g : m_generations->generations())
    if (const TrialInfo* t = trialNumbered(g.best)) add(g.best, text(*t));
  for (const TrialInfo& t : m_trialList)
    if (t.us) add(t.number, text(t));
  m_kernel->setCandidates(std::move(candidates));
  for (const TrialInfo& t : m_trialList) m_kernel->setTime(id, t.number, t.us);
  if (awaited && trialNumbered(*m_trial)) showKnobs();
  // Those of another run: the chosen one is not among them.
  if (m_trial && m_trialKnown && !trials.empty() && !trialNumbered(*m_trial)) chooseTrial(std::nullopt);
  m_trialKnown = m_trialKnown || (m_trial && trialNumbered(*m_trial));
  showLineage();
  follow();
  refreshPin();
}

// While nobody has chosen a trial the views go with that of the row; what somebody has set by hand stays.
void TuneView::follow() {
  if (m_trial || pinned()) return;
  const TrialInfo* best = shownTrial();
  if (!best || m_asked == best->number) return;
  askKernel(best->number, false);
  const bool open = std::any_of(m_knobs.begin(), m_knobs.end(), [](const auto& knob) { return knob.second->view()->isVisible(); });
  if (!edited() && !open) showKnobs();
}

void TuneView::askKernel(std::optional<std::uint64_t> number, bool byHand) {
  m_asked = number;
  if (isGone()) {
    m_kernelTimer->stop();
    m_kernelPending = false;
    return m_kernel->empty() ? m_kernel->setWaiting(goneWords()) : m_kernel->setFailed(goneWords());
  }
  if (const TrialInfo* t = number ? trialNumbered(*number) : nullptr)
    m_kernel->setPending(QStringLiteral("g%1 c%2").arg(t->generation).arg(t->number));
  m_kernelPending = m_kernelTimer->isActive();
  if (byHand) m_kernelTimer->start();
  m_kernelRevision = m_revision;
  if (interprets()) return m_kernel->setFailed(noKernels());
  if (!m_kernelPending) Q_EMIT trialWanted(m_current, number);
}

void TuneView::askKernelAgain() {
  m_kernelRevision = m_revision;
  if (!m_current.empty() && !interprets()) Q_EMIT trialWanted(m_current, m_asked);
}

void TuneView::chooseTrial(std::optional<std::uint64_t> number) {
  m_trial = number;
  m_trialKnown = number && trialNumbered(*number);
  m_trials->setCurrent(number);
  m_generations->setCurrent(number);
  m_roofline->setCurrent(number);
  // Of one that is not known yet the knobs are shown when it is.
  if (!number || trialNumbered(*number)) showKnobs();
  showLineage();
  const TrialInfo* shown = pinned() && !number ? nullptr : shownTrial();
  askKernel(shown ? std::optional(shown->number) : number, true);
}

namespace {
// How a candidate was made, as far as whole changes have room: "crossed, order: rows to columns and 2 more".
QString changesText(const std::string& how) {
  constexpr qsizetype kRoom = 72;
  static const QRegularExpression between(QStringLiteral(R"(, (?![^\[]*\]))"));
  const QStringList all = QString::fromStdString(how).remove(QLatin1Char('"')).split(between);
  QString text = all.front();
  qsizetype shown = 1;
  while (shown < all.size() && text.size() + 2 + all[shown].size() <= kRoom) text += QStringLiteral(", ") + all[shown++];
  return shown < all.size() ? text + QObject::tr(" and %1 more").arg(all.size() - shown) : text;
}
}  // namespace

void TuneView::showLineage() {
  const TrialInfo* at = shownTrial();
  // Until one is chosen, too, all of the page is of the same trial.
  const auto shown = m_trial || !at ? m_trial : std::optional(at->number);
  m_generations->setCurrent(shown);
  m_roofline->setCurrent(shown);
  // What was tried beside a pinned kernel is not on its way to it.
  m_roofline->setTrials(m_trial || !pinned() ? m_trialList : at ? std::vector<TrialInfo>{*at} : std::vector<TrialInfo>());
  m_lineageBox->setVisible(at != nullptr);
  if (!at) return;
  m_lineageHeader->setDetail(at->predictedUs ? tr("predicted %1").arg(microsecondsText(*at->predictedUs)) : QString());
  const Palette& c = m_theme->colors();
  const QString mono = m_theme->mono(12).family();
  QString rows;
  QStringList whole;
  const TrialInfo* inUse = trialInUse();
  for (int depth = 0; at && depth < 4; ++depth) {
    rows += QStringLiteral(
                "<tr><td style='padding-right:14px; white-space:nowrap; font-family:\"%1\"'>"
                "<a href='%2' style='color:%3; text-decoration:none'>g%4 c%2</a></td><td style='color:%5'>%6</td></tr>")
                .arg(mono)
                .arg(at->number)
                .arg((depth == 0 ? c.text : c.accent).name())
                .arg(at->generation)
                .arg(c.muted.name(), (at == inUse ? QStringLiteral("<b>%1</b>, ").arg(tr("in use")) : QString()) +
                                         changesText(at->how).toHtmlEscaped());
    whole << QStringLiteral("g%1 c%2: %3").arg(at->generation).arg(at->number).arg(QString::fromStdString(at->how));
    if (const QString turns = turnsText(*at); depth == 0 && !turns.isEmpty()) {
      rows += QStringLiteral("<tr><td></td><td style='color:%1'>%2</td></tr>").arg(c.muted.name(), turns.toHtmlEscaped());
      whole << turns;
    }
    at = at->parents.empty() || at->parents.front() >= at->number ? nullptr : trialNumbered(at->parents.front());
  }
  m_lineage->setToolTip(whole.join(QLatin1Char('\n')));
  m_lineage->setText(QStringLiteral("<table style='font-size:12px'>%1</table>").arg(rows));
}

bool TuneView::holdsSelected(const std::string& subgraph) const {
  const auto s = std::ranges::find(m_subgraphs, subgraph, &SubgraphInfo::id);
  if (s == m_subgraphs.end() || m_selection->empty()) return false;
  if (m_selection->byPlace() && m_ledChoice == m_selection->choices() && !m_ledOperators.empty()) return isLed(*s);
  const std::vector<std::string> operators = nodesOf(*s);
  const bool again = !m_selection->byPlace() && m_ledChoice == m_selection->choices() &&
                     std::ranges::any_of(operators, [this](const std::string& op) { return m_ledOperators.contains(op); });
  return again || m_selection->relation(operators, s->origins) == Selection::Relation::Exact;
}

bool TuneView::isLed(const SubgraphInfo& s) const {
  if (m_ledChoice != m_selection->choices() || !m_selection->byPlace()) return false;
  const auto led = [this](const std::string& op) { return m_ledOperators.contains(op); };
  if (!led(s.loop) && std::ranges::none_of(s.operators, led)) return false;
  return isSelectedPart(m_subgraphs, s, *m_selection, true);
}

void TuneView::setLed(std::set<std::string> operators) {
  if (m_ledChoice == m_selection->choices() && m_ledOperators == operators) return;
  m_ledOperators = std::move(operators);
  m_ledChoice = m_selection->choices();
  m_list->viewport()->update();
  m_profile->refreshSelected();
  markSelection();
}

// The kernel that the selection led to: the one that came from inside it, else the one around it. One that fits stays.
void TuneView::markSelection() {
  if (m_selection->empty()) return;
  if (subgraph() && (m_leading || m_led == m_selection->choices())) return;
  // A line that is clicked stays in sight, whatever other kernels make of its place.
  if (subgraph() && m_kernel->choice() == m_selection->choices()) {
    m_followed = m_selection->choices();
    return;
  }
  // By name: the one that holds all that was chosen, else what is made last. An operator that is computed again has a number: "Y#2".
  const auto& tensors = m_selection->tensors();
  if (!tensors.empty() && m_selection->byPlace() && m_ledChoice != m_selection->choices()) return;  // it is not known yet
  if (!tensors.empty() && (!m_selection->byPlace() || m_ledOperators.empty())) {
    const auto holds = [](const SubgraphInfo& s, const std::string& tensor, bool again) {
      return s.loop == tensor || std::any_of(s.operators.begin(), s.operators.end(), [&](const std::string& op) {
               return op == tensor || (again && op.starts_with(tensor) && op.substr(tensor.size()).starts_with('#'));
             });
    };
    const auto follow = [&](const auto& fits) {
      if (const SubgraphInfo* s = subgraph(); s && fits(*s)) {
        m_followed = m_selection->choices();
        return true;
      }
      const auto found = std::find_if(m_subgraphs.begin(), m_subgraphs.end(), fits);
      if (found != m_subgraphs.end()) chooseSubgraph(found->id);
      return found != m_subgraphs.end();
    };
    if (follow([&](const SubgraphInfo& s) {
          return std::all_of(tensors.begin(), tensors.end(), [&](const auto& tensor) { return holds(s, tensor, true); });
        }))
      return;
    for (const bool again : {false, true})
      for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor)
        if (follow([&](const SubgraphInfo& s) { return holds(s, *tensor, again); })) return;
    // What no operator makes, a parameter, is where it is read. What only a `show` makes is nowhere.
    if (!m_kernel->absent().isEmpty()) {
      m_followed = m_selection->choices();
      return;
    }
  }
  if (!m_subgraphs.empty()) m_followed = m_selection->choices();
  // What is shown has lines of it.
  if (!m_kernel->pending() && !m_kernel->tintedLines().empty()) return;
  using Relation = Selection::Relation;
  // In the order of the program: what computes with it goes before what its gradient needs it for.
  if (const auto first = std::ranges::find_if(m_subgraphs, [this](const SubgraphInfo& s) { return isLed(s); });
      first != m_subgraphs.end()) {
    if (first->id != m_current) chooseSubgraph(std::string(first->id));
    return;
  }
  for (const Relation wanted : {Relation::Exact, Relation::Around}) {
    if (const SubgraphInfo* s = subgraph(); s && m_selection->relation(s->origins) == wanted) return;
    for (const SubgraphInfo& s : m_subgraphs)
      if (m_selection->relation(s.origins) == wanted) return chooseSubgraph(s.id);
  }
}

}  // namespace nf
