// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/train_strip.h"

#include <QApplication>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QResizeEvent>
#include <algorithm>

#include "widgets/basic.h"
#include "widgets/eval_values.h"
#include "widgets/plots.h"
#include "widgets/swap_list.h"
#include "widgets/wrap_layout.h"

namespace nf {
namespace {

constexpr std::int64_t kFewest = 3;  // steps of a median while more are to come: of two it may be the first one, which is cold
constexpr std::int64_t kFewestOfTenth = 9;
constexpr int kFigures = 148;  // pixels beside the plots

// One step has no spread.
QString sampleText(const protocol::StepSpread& spread) {
  const QString count = QStringLiteral("n = %1").arg(spread.steps);
  return spread.steps < 2 ? count
                          : intervalText(spread.low * 1000, spread.high * 1000, spread.ms * 1000) + QStringLiteral("  ") + count;
}

}  // namespace

TrainStrip::TrainStrip(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_detail(new ElidedLabel("muted")), m_right(new ElidedLabel("muted")),
      m_note(label({}, "muted")), m_figure(label({})), m_figureName(label({}, "muted")), m_interval(label({}, "muted")),
      m_loss(label({})), m_eval(label({})), m_peer(label({}, "muted")), m_title(label(tr("Training"), "title")),
      m_message(new MessageStrip(theme, true)), m_checkpointTrouble(new MessageStrip(theme, false)), m_goTo(new QPushButton),
      m_warnings(new QVBoxLayout), m_progress(new QProgressBar), m_pause(new IconButton(theme, QStringLiteral("pause"))),
      m_stop(new IconButton(theme, QStringLiteral("stop"), tr("Stop"))),
      m_resume(new IconButton(theme, QStringLiteral("run"), tr("Resume"))),
      m_again(new IconButton(theme, QStringLiteral("reload"), tr("Train again"))),
      m_runs(new IconButton(theme, QStringLiteral("more"), tr("Runs"))), m_plot(new LatencyPlot(theme, true)),
      m_lossPlot(new LossPlot(theme, true)), m_top(new QHBoxLayout), m_grid(new QGridLayout), m_column(new QWidget),
      m_swapList(new SwapList(theme)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(12, 8, 0, 0);
  layout->setSpacing(2);
  auto* said = new QHBoxLayout;
  said->setSpacing(10);
  said->addWidget(m_title);
  said->addWidget(m_detail, 1);
  m_detail->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);  // it gives way before a button loses its word
  auto* buttons = new WrapLayout(10);
  m_top->setSpacing(10);
  m_top->addLayout(said, 1);
  m_top->addLayout(buttons);
  m_progress->setFixedWidth(120);
  m_progress->setTextVisible(false);
  m_progress->setAccessibleName(tr("Progress"));
  m_pause->setObjectName(QStringLiteral("pause"));
  m_stop->setObjectName(QStringLiteral("stop"));
  m_pause->setAccessibleName(tr("Pause"));
  buttons->addWidget(m_pause);
  buttons->addWidget(m_stop);
  buttons->addWidget(m_resume);
  m_again->setToolTip(tr("From the first step; the run that is shown stays among the runs of this notebook"));
  m_again->setAccessibleName(m_again->text());
  buttons->addWidget(m_again);
  m_runs->setToolTip(tr("The runs of this notebook: look at one, go on with it, open their folder"));
  m_runs->setAccessibleName(m_runs->text());
  m_runs->setObjectName(QStringLiteral("runs"));
  buttons->addWidget(m_runs);
  layout->addLayout(m_top);
  setUi(m_note, theme, 12);
  m_note->setWordWrap(true);
  m_note->hide();
  layout->addWidget(m_note);
  auto* below = new QHBoxLayout;
  below->setSpacing(10);
  setUi(m_title, theme, 13, QFont::DemiBold);
  setUi(m_detail, theme, 13);
  setUi(m_right, theme, 12);
  below->addWidget(m_progress);
  below->addWidget(m_right, 1);
  below->addStretch(0);
  layout->addLayout(below);
  m_right->hide();
  m_message->hide();
  m_message->addButton(m_goTo);
  m_goTo->setObjectName(QStringLiteral("place"));
  m_goTo->hide();
  layout->addWidget(m_message);
  m_warnings->setSpacing(1);
  layout->addLayout(m_warnings);
  m_checkpointTrouble->hide();
  layout->addWidget(m_checkpointTrouble);
  auto* figures = new QVBoxLayout;
  figures->setSpacing(2);
  setUi(m_figure, theme, 20, QFont::DemiBold);
  for (QLabel* l : {m_figureName, m_interval, m_loss, m_eval, m_peer}) setUi(l, theme, 12), l->setWordWrap(true);
  for (QLabel* l : {m_figure, m_figureName, m_interval, m_loss, m_eval, m_peer}) figures->addWidget(l);
  figures->insertSpacing(3, 6);
  figures->addStretch(1);
  m_column->setLayout(figures);
  figures->setContentsMargins(0, 6, 0, 0);
  m_grid->setHorizontalSpacing(12);
  m_grid->setVerticalSpacing(4);
  m_grid->setColumnStretch(1, 3);
  layout->addLayout(m_grid);
  layout->addWidget(m_swapList);
  connect(m_swapList, &SwapList::swapChosen, this, &TrainStrip::swapChosen);
  connect(m_plot, &LatencyPlot::swapChosen, this, &TrainStrip::swapChosen);
  connect(m_plot, &Plot::drawn, this, &TrainStrip::followLatency);
  connect(m_lossPlot, &Plot::drawn, this, &TrainStrip::followLoss);
  connect(m_pause, &QToolButton::clicked, this, [this] { Q_EMIT pauseRequested(!m_paused); });
  connect(m_stop, &QToolButton::clicked, this, [this] {
    m_stopped.start();
    Q_EMIT stopRequested();
  });
  setCheckpoint(Checkpoint::Usable);
  // They take the place of Stop: the second click of two on that one is none on them.
  const auto meant = [this] { return !m_stopped.isValid() || m_stopped.elapsed() >= QApplication::doubleClickInterval(); };
  connect(m_resume, &QToolButton::clicked, this, [this, meant] {
    if (meant()) Q_EMIT resumeRequested();
  });
  connect(m_again, &QToolButton::clicked, this, [this, meant] {
    if (meant()) Q_EMIT trainAgainRequested();
  });
  connect(m_runs, &QToolButton::clicked, this, &TrainStrip::runsRequested);
  connect(theme, &Theme::changed, this, &TrainStrip::arrange);
  arrange();
  setRunning(false);
}

// Latency and loss stand side by side where both can be read, else one above the other; the figures beside them, or above where that
// would leave too little of the plots.
void TrainStrip::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  if (shapeOf(event->size().width()) != m_shape) arrange();
}

TrainStrip::Shape TrainStrip::shapeOf(int width) const {
  constexpr int kSideBySide = 900, kFiguresBeside = 520;
  return width >= m_theme->scaled(kSideBySide)      ? Shape::Wide
         : width >= m_theme->scaled(kFiguresBeside) ? Shape::Usual
                                                    : Shape::Narrow;
}

void TrainStrip::arrange() {
  const Shape shape = m_shape = shapeOf(width());
  const bool wide = shape == Shape::Wide, narrow = shape == Shape::Narrow;
  for (QWidget* w : {m_column, static_cast<QWidget*>(m_plot), static_cast<QWidget*>(m_lossPlot)}) m_grid->removeWidget(w);
  if (narrow) {
    m_column->setMinimumWidth(0);
    m_column->setMaximumWidth(QWIDGETSIZE_MAX);
    m_grid->addWidget(m_column, 0, 0, 1, 2, Qt::AlignTop);
    m_grid->addWidget(m_plot, 1, 0, 1, 2);
    m_grid->addWidget(m_lossPlot, 2, 0, 1, 2);
  } else {
    m_column->setFixedWidth(m_theme->scaled(kFigures));
    m_grid->addWidget(m_column, 0, 0, 2, 1, Qt::AlignTop);
    m_grid->addWidget(m_plot, 0, 1);
    m_grid->addWidget(m_lossPlot, wide ? 0 : 1, wide ? 2 : 1);
  }
  m_top->setDirection(narrow ? QBoxLayout::TopToBottom : QBoxLayout::LeftToRight);
  m_top->setSpacing(narrow ? 2 : 10);
  m_grid->setColumnStretch(2, wide ? 2 : 0);
  m_plot->setFixedHeight(m_theme->scaled(150));
  m_lossPlot->setFixedHeight(m_theme->scaled(wide ? 150 : 104));
}

void TrainStrip::setOnPaper(bool onPaper) {
  m_plot->setOnPaper(onPaper);
  m_lossPlot->setOnPaper(onPaper);
  m_swapList->setOnPaper(onPaper);
}

void TrainStrip::drawOnPaper() {
  m_plot->drawOnPaper();
  m_lossPlot->drawOnPaper();
}

void TrainStrip::setPeer(const QString& name, double milliseconds) {
  m_peerName = name, m_peerMs = milliseconds;
  m_plot->setPeer(name, milliseconds);
  showPeer();
}

// Since when the running median is below the recorded step of another system.
void TrainStrip::showPeer() {
  m_peer->setVisible(m_peerMs > 0);
  if (!(m_peerMs > 0)) return;
  const QString theirs = microsecondsText(m_peerMs * 1000);
  const QString other = QStringLiteral("%1, %2").arg(m_peerName, theirs);
  const auto against = m_plot->againstPeer();
  // Of a run that is over the figure above is of its last tenth.
  const double ours = m_figureMs > 0 ? m_figureMs : against ? against->ms : 0;
  const bool since = against && against->from;
  m_peer->setText(!against           ? tr("to compare with: %1").arg(other)
                  : ours >= m_peerMs ? (!m_running ? tr("not faster than %1: median %2 against %3")
                                        : since    ? tr("not faster than %1 just now: median %2 against %3")
                                                   : tr("not yet faster than %1: median %2 against %3"))
                                           .arg(m_peerName, microsecondsText(ours * 1000), theirs)
                  : since ? tr("faster than %1 from step %2 on").arg(other, grouped(*against->from))
                          : tr("median step now faster than %1").arg(other));
  m_peer->setToolTip(tr("From the first step from which the running median, the line drawn, stays below the other's to the end"));
}

// No swap is an answer too.
void TrainStrip::sayNoSwaps(bool ended) {
  const QString tried = counted(m_candidates, tr("candidate"), tr("candidates"));
  if (m_swapList->count() > 0) return m_swapList->setNone({});
  if (!ended && m_searchless) return m_swapList->setNone(tr("No kernel is swapped: nothing is searched in this run."));
  if (!ended)
    return m_swapList->setNone(
        m_candidates == 1  ? tr("No kernel swapped yet: one candidate was tried and was not faster beyond noise.")
        : m_candidates > 0 ? tr("No kernel swapped yet: of %1 none was faster beyond noise.").arg(tried)
        : m_trials > 0     ? tr("No kernel swapped yet: only first kernels were timed so far, no candidate was tried.")
                           : tr("No kernel swapped yet: the search has tried nothing so far."));
  if (m_candidates > 0)
    return m_swapList->setNone(
        (m_candidates == 1
             ? tr("No kernel was swapped: one candidate was tried while it ran and was not faster than the kernel in use beyond "
                  "noise. ")
             : tr("No kernel was swapped: of %1 tried while it ran none was faster than the kernel in use beyond noise. ")
                   .arg(tried)) +
        tr("The curve is that of the first kernels."));
  using protocol::SearchState;
  QString why;
  switch (m_search) {
    case SearchState::Static: why = tr("in static mode nothing is searched."); break;
    case SearchState::Fixed: why = tr("the interpreter runs none, and there is nothing to search."); break;
    case SearchState::Replayed: why = tr("the kernels were those of a swap log."); break;
    case SearchState::Finished: why = tr("the search had nothing left that would be worth a trial."); break;
    case SearchState::Unbegun:
      why = m_trials > 0 ? tr("the run ended before the search had tried a candidate: its trials timed the first kernels.")
                         : tr("the run ended before the search had tried a candidate.");
      break;
    case SearchState::Searched: why = tr("no candidate was faster than the kernel in use beyond noise."); break;
    case SearchState::Unknown: return m_swapList->setNone({});  // of a run that is only known by its folder
  }
  m_swapList->setNone(tr("No kernel was swapped: %1").arg(why));
}

QString TrainStrip::figures() const {
  QStringList parts;
  for (const QLabel* l : {m_figure, m_figureName, m_interval, m_loss, m_eval, m_peer})
    if (!l->isHidden() && !l->text().isEmpty()) parts << l->text();
  return parts.join(QLatin1Char('\n'));
}

QString TrainStrip::result() const {
  if (m_running) return {};
  const bool failed = !m_message->isHidden() && m_detail->text().isEmpty();
  return m_title->text() + QLatin1Char(' ') + (failed ? m_message->text() : m_detail->text());
}

QString TrainStrip::failure() const { return m_message->isHidden() ? QString() : m_message->text(); }

QString TrainStrip::detail() const { return m_detail->text(); }

QString TrainStrip::note() const { return m_note->isHidden() ? QString() : m_note->text(); }

void TrainStrip::setOrigin(const QString& words) {
  m_origin = words;
  sayNote();
}

// Without a step there is nothing to draw and no figure: what went wrong stands alone.
void TrainStrip::showCurves() {
  const bool any = m_running || hasCurves();
  m_plot->setVisible(any);
  m_lossPlot->setVisible(any);
  m_column->setVisible(any);
  m_swapList->setVisible(any);
}

bool TrainStrip::hasCurves() const { return m_plot->steps() > 0 || m_lossPlot->points() + m_lossPlot->evaluations() > 0; }

void TrainStrip::setRunning(bool running) {
  m_running = running;
  showCurves();
  m_keptTo.reset();
  m_lost = false;
  if (running) m_message->hide(), m_end = End::None;
  sayNote();
  offer();
  m_detail->setLines(running ? 1 : 3);  // what comes to rest may be read, what changes moves nothing below it
  m_pause->setVisible(running);
  m_stop->setVisible(running);
  m_progress->setVisible(running);
}

void TrainStrip::offer() {
  const bool goesOn = resumes() && (m_end == End::Cut || m_more);
  m_resume->setVisible(m_end == End::Cut || (m_end == End::Whole && goesOn));
  m_again->setVisible(m_end == End::Whole || (m_end == End::Cut && resumes()));
  m_runs->setVisible(m_end != End::None && m_hasRuns);
}

void TrainStrip::setRuns(bool there) {
  m_hasRuns = there;
  offer();
}

void TrainStrip::setSteps(const std::vector<protocol::StepEvent>& steps, const std::vector<protocol::KernelSwapEvent>& swaps,
                          const std::vector<protocol::EvalEvent>& evals) {
  m_plot->clear();
  m_lossPlot->clear();
  m_swapList->clear();
  const std::int64_t since = m_swapsSince, splitsSince = m_splitsSince;
  for (const auto& step : steps) addStep(step);
  for (const auto& swap : swaps) addSwap(swap);
  m_swapsSince = since, m_splitsSince = splitsSince;
  for (const auto& eval : evals) addEval(eval);
  if (!m_right->isHidden()) showTuner();
}

void TrainStrip::clearWarnings() {
  while (QLayoutItem* item = m_warnings->takeAt(0)) {
    item->widget()->hide();
    item->widget()->deleteLater();
    delete item;
  }
  m_checkpointTrouble->setText({});
  m_checkpointTrouble->hide();
}

void TrainStrip::addWarning(const QString& message, const Place& place) {
  auto* strip = new MessageStrip(m_theme, false, message);
  if (!place.name.isEmpty()) {
    auto* button = new QPushButton(tr("Go to %1").arg(place.name));
    button->setObjectName(QStringLiteral("place"));
    connect(button, &QPushButton::clicked, this, place.go);
    strip->addButton(button);
  }
  m_warnings->addWidget(strip);
}

void TrainStrip::setCheckpointFailed(const QString& message) {
  m_checkpointTrouble->setText(message);
  m_checkpointTrouble->setVisible(!message.isEmpty());
}

void TrainStrip::setUnsaved(const QString& message) {
  m_message->setText(message + tr(" What it learnt is in this notebook's engine alone, and gone when the notebook is closed."));
  m_message->show();
  m_goTo->hide();
}

QStringList TrainStrip::warnings() const {
  QStringList all;
  for (int i = 0; i < m_warnings->count(); ++i) all << static_cast<const MessageStrip*>(m_warnings->itemAt(i)->widget())->text();
  if (!m_checkpointTrouble->isHidden()) all << m_checkpointTrouble->text();
  return all;
}

// The steps alone may be a small part of it.
void TrainStrip::tellSpan() {
  m_detail->setToolTip(
      m_detail->text() + QLatin1Char('\n') +
      tr("The time is of the whole run after its preparation: of its steps, and of what lies between them, such as "
         "reading the data, evaluations, checkpoints and what is written into its folder."));
}

void TrainStrip::start(bool resumed) {
  m_detail->setToolTip({});
  clearWarnings();
  m_swapsSince = m_splitsSince = 0;
  m_steps = 0;
  if (!resumed) {
    m_origin.clear();
    m_plot->clear();
    m_lossPlot->clear();
    m_swapList->clear();
    m_trials = m_candidates = m_deaths = 0;
    m_figureMs = 0;
    for (QLabel* l : {m_figure, m_figureName, m_interval, m_loss, m_eval, static_cast<QLabel*>(m_right)}) l->clear();
    m_right->hide();
  }
  m_title->setText(tr("Preparing"));
  m_search = protocol::SearchState::Unknown;
  m_resumed = resumed;
  m_from = resumed ? checkpointStep() : 0;
  showPeer();
  m_detail->setText(resumed && checkpointStep() > 0
                        ? tr("going on from step %1, preparing the first kernels").arg(grouped(checkpointStep()))
                        : tr("preparing the first kernels"));
  m_progress->setRange(0, 0);
  setRunning(true);
}

void TrainStrip::setState(const protocol::RunState& s) {
  using protocol::RunPhase;
  if (s.phase == RunPhase::Idle) {
    setRunning(false);
    return showPeer();
  }
  setRunning(true);
  // Where a search runs beside the steps, its share is told.
  m_searchless = (s.phase == RunPhase::Training || s.phase == RunPhase::Paused) && s.budgetShare <= 0;
  m_paused = s.phase == RunPhase::Paused;
  m_pause->setIconName(m_paused ? QStringLiteral("run") : QStringLiteral("pause"));
  m_pause->setToolTip(m_paused ? tr("Resume") : tr("Pause"));
  m_pause->setAccessibleName(m_pause->toolTip());
  switch (s.phase) {
    case RunPhase::Idle: break;
    case RunPhase::Preparing: m_title->setText(tr("Preparing")); break;
    case RunPhase::Computing: m_title->setText(tr("Computing")); break;
    case RunPhase::Training: m_title->setText(tr("Training")); break;
    case RunPhase::Tuning: m_title->setText(tr("Tuning")); break;
    case RunPhase::Paused: m_title->setText(tr("Paused")); break;
    case RunPhase::Stopping: m_title->setText(tr("Stopping")); break;
  }
  QStringList parts;
  // While the engine reads the checkpoint it tells no step.
  const std::int64_t from = s.resumedAt > 0 ? s.resumedAt : m_resumed && s.step == 0 ? checkpointStep() : 0;
  if (from > 0) m_from = from;
  if (from > 0 && s.step <= from)
    parts << (s.steps > 0 ? tr("going on from step %1 of %2").arg(grouped(from), grouped(s.steps))
                          : tr("going on from step %1").arg(grouped(from)));
  else if (s.step > 0)
    parts << (s.steps > 0 ? tr("step %1 of %2").arg(grouped(s.step), grouped(s.steps)) : tr("step %1").arg(grouped(s.step)));
  // Without data an epoch is a step.
  if (s.epochs > 0 && s.epochs != s.steps) parts << tr("epoch %1 of %2").arg(s.epoch).arg(s.epochs);
  if (s.secondsLeft) parts << tr("%1 left").arg(secondsText(*s.secondsLeft));
  if (from > 0 && s.step > from) parts << tr("resumed from step %1").arg(grouped(from));
  if (!s.detail.empty()) parts << QString::fromStdString(s.detail);
  m_detail->setText(parts.join(QStringLiteral(", ")));
  m_progress->setRange(0, s.steps > 0 ? 1000 : 0);
  if (s.steps > 0)
    m_progress->setValue(
        static_cast<int>(std::clamp(1000.0 * static_cast<double>(s.step) / static_cast<double>(s.steps), 0.0, 1000.0)));
  m_trials = s.trials;
  m_candidates = s.candidates;
  showTuner();
  if (s.phase == RunPhase::Training || s.phase == RunPhase::Paused) sayNoSwaps(false);
  // Where the engine says what the search waits for, that is why.
  if (s.phase == RunPhase::Training && m_swapList->count() == 0 && s.candidates == 0 && s.trials > 0 && !s.detail.empty())
    m_swapList->setNone(tr("No kernel swapped yet: only first kernels were timed, %1.").arg(QString::fromStdString(s.detail)));
  showPeer();
}

void TrainStrip::showStep(const protocol::StepSpread& spread, const QString& name) {
  m_figureMs = spread.ms;
  m_figure->setText(microsecondsText(spread.ms * 1000, spread.steps > 1 ? spread.high * 1000 : 0));
  m_figureName->setText(name);
  m_interval->setText(sampleText(spread));
  m_interval->setToolTip(spread.steps > 1 ? tr("Half of these steps lie in the interval") : QString());
}

// Of a run that is over and whose last tenth says nothing: what was drawn.
void TrainStrip::showNewest() {
  if (const auto drawn = m_plot->newest()) showStep(*drawn, drawn->steps > 1 ? tr("median step") : tr("the only step"));
}

void TrainStrip::addStep(const protocol::StepEvent& step) {
  m_plot->addStep(step);
  m_lossPlot->addStep(step);
  // A plot that nobody sees is drawn when it is.
  if (!m_plot->isVisible()) followLatency();
  if (!m_lossPlot->isVisible()) followLoss();
}

// Steps come faster than plots are drawn: the figures change with the labels at the ends of the curves, and are the same ones.
void TrainStrip::followLatency() {
  if (!m_running) return;
  if (const auto drawn = m_plot->newest(); drawn && drawn->steps >= kFewest) showStep(*drawn, tr("median step"));
  showPeer();
}

void TrainStrip::followLoss() {
  if (const auto loss = m_lossPlot->newest()) sayLoss(*loss);
  followEval();
}

void TrainStrip::sayLoss(double loss) {
  m_loss->setText(tr("loss %1").arg(significant(loss, 4)));
  m_loss->setToolTip(
      tr("Of the newest step; the curve has the mean of the steps around it, between the least and the most of them"));
}

void TrainStrip::addTrial(const protocol::TrialEvent& trial) {
  if (trial.status != protocol::TrialStatus::Killed && trial.status != protocol::TrialStatus::Crashed) return;
  ++m_deaths;
  showTuner();
}

QString TrainStrip::tuner() const { return m_right->text(); }

void TrainStrip::showTuner() {
  // A kernel that took another one's place is a swap, as the Tune page counts them; one that was split again is not.
  // Of runs that it was resumed from. Those of steps that are made again stand in the list until the engine has read the checkpoint.
  std::int64_t before = m_swapList->count() - m_swapList->splits() - m_swapsSince;
  if (m_from > 0) before = std::min(before, m_swapList->swapsUntil(m_from));
  if (m_trials + m_swapList->count() + m_deaths == 0) return;
  QStringList parts{counted(m_trials, tr("trial"), tr("trials")), counted(m_swapsSince, tr("swap"), tr("swaps"))};
  if (before > 0) parts << tr("%1 before it was resumed").arg(grouped(before));
  if (m_splitsSince > 0) parts << tr("%1 split again").arg(counted(m_splitsSince, tr("kernel"), tr("kernels")));
  if (m_deaths > 0) parts << tr("%1 ended by a candidate").arg(counted(m_deaths, tr("worker"), tr("workers")));
  m_right->setText(tr("tuner: %1").arg(parts.join(QStringLiteral(", "))));
  m_right->show();
  m_right->setToolTip(m_right->text() + QLatin1Char('\n') +
                      tr("Tried by this run. The Tune page counts those on record from earlier runs, too."));
}

void TrainStrip::addSwap(const protocol::KernelSwapEvent& swap) {
  ++(swap.split ? m_splitsSince : m_swapsSince);
  m_plot->addSwap(swap);
  m_swapList->add(swap);
  if (!m_right->isHidden()) showTuner();
}

void TrainStrip::addEval(const protocol::EvalEvent& eval) {
  m_lossPlot->addEval(eval);
  if (!m_lossPlot->isVisible()) followEval();
}

// As the plot has it. Where a run was stopped between two evaluations the last one is of the weights of its step, not of those that were kept.
void TrainStrip::followEval() {
  const protocol::EvalEvent* const eval = m_lossPlot->newestEval();
  if (!eval) return;
  QString text;
  if (const auto values = valuesOf(*eval); !values.empty())
    text = (eval->of_inputs ? tr("on the inputs: %1") : tr("held out %1")).arg(evalText(values, eval->averaged));
  else if (eval->loss) text = tr("held-out loss %1").arg(significant(*eval->loss, 4));
  if (text.isEmpty()) return;
  m_eval->setText(!m_running && eval->step < m_steps ? tr("%1 at step %2").arg(text, grouped(eval->step)) : text);
}

void TrainStrip::setDone(const protocol::DoneEvent& done) {
  m_end = done.stopped ? End::Cut : End::Whole;
  m_steps = done.steps;
  setRunning(false);
  m_title->setText(done.stopped ? tr("Stopped") : tr("Trained"));
  const QString steps = grouped(done.steps), seconds = secondsText(done.seconds);
  QString detail;
  if (done.resumed_at > 0)
    detail = (done.stopped ? tr("after %1 steps, %2 of them in %3 since it was resumed")
                           : tr("%1 steps, %2 of them in %3 since it was resumed"))
                 .arg(steps, grouped(done.steps - done.resumed_at), seconds);
  else detail = (done.stopped ? tr("after %1 steps, %2") : tr("%1 steps in %2")).arg(steps, seconds);
  // An older engine does not tell it.
  if (!done.stopped && done.preparation_ms > 0)
    detail += tr(", after %1 of preparation").arg(secondsText(done.preparation_ms / 1000));
  m_detail->setText(detail);
  tellSpan();
  if (done.median_step_ms_last_tenth > 0 && done.last_tenth_steps >= kFewestOfTenth) {
    showStep({done.median_step_ms_last_tenth, done.last_tenth_low_ms, done.last_tenth_high_ms, done.last_tenth_steps},
             tr("median step, last tenth"));
    m_plot->setFigure(done.median_step_ms_last_tenth);
    if (done.median_step_ms_first_tenth > 0)
      m_interval->setText(m_interval->text() + QLatin1Char('\n') +
                          tr("first tenth %1").arg(microsecondsText(done.median_step_ms_first_tenth * 1000)));
  } else {
    showNewest();
  }
  if (done.checkpoints_failed > 0) {
    const QString first = m_checkpointTrouble->text().remove(QStringLiteral(" Training goes on and tries again."));  // it is over
    setCheckpointFailed(
        tr("%1 could not be written while it ran.").arg(counted(done.checkpoints_failed, tr("checkpoint"), tr("checkpoints"))) +
        (first.isEmpty() ? QString() : QLatin1Char('\n') + first));
  }
  m_search = done.search;
  sayNoSwaps(true);
  showPeer();
  if (done.loss) m_loss->setText(tr("loss %1").arg(significant(*done.loss, 4)));
  followEval();
  if (done.accuracy && m_eval->text().isEmpty()) m_eval->setText(tr("held out %1").arg(evalText({{"accuracy", *done.accuracy}})));
}

void TrainStrip::setError(const QString& message, const Place& place) {
  m_end = End::Whole;
  setRunning(false);
  m_title->setText(tr("Failed"));
  m_detail->clear();
  say(message, place);
  if (m_plot->steps() > 0) sayNoSwaps(true);
  showNewest();
  showPeer();
}

void TrainStrip::say(const QString& message, const Place& place) {
  m_message->setText(message);
  m_message->show();
  m_goTo->disconnect();
  m_goTo->setText(tr("Go to %1").arg(place.name));
  m_goTo->setVisible(!place.name.isEmpty());
  if (!place.name.isEmpty()) connect(m_goTo, &QPushButton::clicked, this, place.go);
}

void TrainStrip::setRefused(const QString& message, const Place& place) {
  say(tr("Training did not begin: %1").arg(message), place);
}

void TrainStrip::setKept(const QString& began, const std::vector<protocol::StepEvent>& steps,
                         const std::vector<protocol::KernelSwapEvent>& swaps, const std::vector<protocol::EvalEvent>& evals,
                         const std::optional<protocol::DoneEvent>& done, const std::optional<protocol::ErrorEvent>& error) {
  start();
  setSteps(steps, swaps, evals);
  if (error) setError(QString::fromStdString(error->message));
  else setDone(done.value_or(protocol::DoneEvent{}));
  if (!done && !error) {
    m_end = End::Cut;
    offer();
    m_title->setText(tr("Interrupted"));
    m_keptTo = steps.empty() ? 0 : steps.back().step;
    m_detail->setText(tr("at step %1").arg(grouped(*m_keptTo)));
  }
  m_detail->setText(tr("run of %1").arg(began) +
                    (m_detail->text().isEmpty() ? QString() : QStringLiteral(": ") + m_detail->text()));
  if (done) tellSpan();
  m_swapList->setNone({});
}

void TrainStrip::setCheckpoint(Checkpoint checkpoint, std::int64_t step, const QString& why, bool more) {
  const bool there = checkpoint == Checkpoint::Usable;
  m_checkpoint = checkpoint;
  m_more = more;
  m_checkpointStep = step;
  m_resume->setText(there ? tr("Resume") : tr("Train again"));
  m_resume->setToolTip(there && step > 0 ? tr("Go on from the checkpoint of step %1").arg(grouped(step))
                       : there           ? tr("Go on from the newest checkpoint")
                       : why.isEmpty()   ? tr("There is no checkpoint to go on from: from the first step")
                                         : why);
  m_resume->setAccessibleName(m_resume->text());
  // Of a run that was killed the curve goes on behind what was kept of it.
  if (m_keptTo && checkpoint != Checkpoint::None && step > 0 && step != *m_keptTo) {
    m_detail->setText(m_detail->text() + tr("; newest checkpoint: step %1").arg(grouped(step)));
    m_keptTo.reset();
  }
  if (m_lost) sayLost();
  sayNote();
  offer();
}

// Where Resume has gone is told on a line of its own: it is no part of what the run did.
void TrainStrip::sayNote() {
  const bool edited =
      m_checkpoint == Checkpoint::OfOtherText && m_checkpointStep > 0 && !m_running && !m_lost && m_end != End::None;
  QStringList lines;
  if (!m_origin.isEmpty()) lines << m_origin;
  if (edited) lines << tr("Resume is of the text before the edit. With the text as it is, Runs begins a run with what was learnt.");
  m_note->setText(lines.join(QLatin1Char('\n')));
  m_note->setVisible(!lines.isEmpty());
}

void TrainStrip::sayLost() {
  QString from;
  if (m_checkpoint == Checkpoint::None) from = tr("there is no checkpoint yet; ");
  else if (m_checkpointStep > 0 && m_checkpoint == Checkpoint::OfOtherText)
    from = tr("newest checkpoint: step %1, of the text before the edit; ").arg(grouped(m_checkpointStep));
  else if (m_checkpointStep > 0) from = tr("newest checkpoint: step %1; ").arg(grouped(m_checkpointStep));
  // What to go on from stands first: the rest gives way in a narrow panel.
  m_detail->setText(from + tr("the engine ended"));
}

void TrainStrip::setLost() {
  if (!m_running) return;
  m_end = End::Cut;
  setRunning(false);
  m_lost = true;
  m_title->setText(tr("Interrupted"));
  sayLost();
  showNewest();
  showPeer();
}

}  // namespace nf
