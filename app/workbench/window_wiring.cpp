// SPDX-License-Identifier: GPL-3.0-or-later
// Who hears whom. A notebook's views always follow it; the shared views follow the current one.
#include <QApplication>
#include <QDialog>
#include <QLabel>
#include <algorithm>
#include <set>
#include <utility>

#include "app/workbench/answer_watch.h"
#include "app/workbench/main_window.h"
#include "app/workbench/newest_run.h"
#include "core/syntax/token.h"
#include "widgets/basic.h"
#include "widgets/cell_view.h"
#include "widgets/decision_card.h"
#include "widgets/devices_view.h"
#include "widgets/explain_view.h"
#include "widgets/find_bar.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_names.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/message_bar.h"
#include "widgets/names.h"
#include "widgets/notebook_view.h"
#include "widgets/outline_view.h"
#include "widgets/rename_bar.h"
#include "widgets/step_chooser.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {

using protocol::CellStatus;

void MainWindow::connectTab(Tab* tab) {
  Workspace* w = tab->workspace.get();
  connect(w, &Workspace::opened, this, [this, tab, w] {
    tab->notebook->setFolder(w->folder());
    tab->notebook->setDocument(&w->document());
    tab->inspected.clear();
    tab->tuned = {};
    tab->training = 0;
    tab->discard = tab->unwritten = false;
    tab->diskHidden = tab->holderHidden = tab->unwritableHidden = false;
    tab->notebook->setReadOnly(w->document().readOnly());
    lookForKept(tab);
    refreshTabs();
    if (tab != m_tab) return;
    m_inspector->clear();
    m_inspector->setRevision(w->document().revision());
    m_explain->setRevision(w->document().revision());
    m_explain->reset();
    m_tune->reset();
    refreshPeer();
    refreshTitle();
    refreshOutline();
    refreshMessages();
  });
  connect(w, &Workspace::moved, this, [tab, w] { tab->notebook->setFolder(w->folder()); });
  connect(w, &Workspace::documentEdited, this, [this, tab] {
    tab->discard = false;
    tab->notebook->setOutdated();
    tab->notebook->forgetCommand();
    if (tab != m_tab) return refreshTabs();
    refreshMessages();
    refreshTitle();
    m_tune->refreshPin();
    m_inspector->setRevision(tab->workspace->document().revision());
    m_explain->setRevision(tab->workspace->document().revision());
    refreshStatus();
  });
  connect(w, &Workspace::editRefused, this,
          [this, w] { setStatus("warning", tr("%1 is read-only here: nothing was written").arg(w->name())); });
  connect(w, &Workspace::modifiedChanged, this, [this, tab] {
    if (tab == m_tab) refreshTitle();
    else refreshTabs();
  });
  connect(w, &Workspace::readAgain, this, [this, tab, w] {
    tab->notebook->followDocument();
    if (tab != m_tab) return;
    refreshOutline();
    setStatus("reload", tr("%1 changed on disk and was read again").arg(w->name()));
  });
  connect(w, &Workspace::diskChanged, this, [this, tab] {
    tab->diskHidden = false;
    if (m_comparison && tab->workspace->onDisk() == Workspace::OnDisk::Same) m_comparison->close();
    if (tab != m_tab) return;
    refreshMessages();
    refreshTitle();
  });
  connect(w, &Workspace::lockChanged, this, [this, tab, w] {
    tab->holderHidden = false;
    tab->notebook->setReadOnly(w->document().readOnly());
    lookForKept(tab);
    if (tab != m_tab) return refreshTabs();
    if (w->holder().isEmpty()) setStatus("ok", tr("%1 can be edited here").arg(w->name()));
    refreshTitle();
    refreshMessages();
  });
  connect(w, &Workspace::journalChanged, this, [this, tab] {
    tab->journalHidden = false;
    keepSessionSoon();
    if (tab == m_tab) refreshMessages();
  });
  connect(w, &Workspace::engineReady, this, [this, tab] {
    m_enginesWanted = true;
    if (std::exchange(tab->engineDown, false)) tab->engineLost.clear();
    if (tab != m_tab) return;
    refreshMessages();
    refreshStatus();
    refreshDevice();
  });
  connect(w, &Workspace::engineDied, this, [this, tab, w](const QString& reason) {
    for (CellView* v : tab->notebook->cellsThatRan()) {
      if (v->train() && v->train()->running()) {
        tab->interrupted = v->id();
        refreshCheckpoint(tab, v->id());
        v->train()->setLost();
      }
      v->setInterrupted(tr("The engine ended before this was finished."));
    }
    for (const CellView* v : tab->notebook->cells())
      if (v->tensorView()) v->tensorView()->setLost();
    if (tab == m_tab) m_inspector->values()->setLost();
    tab->training = 0;
    tab->unwritten = false;
    m_messages->dismiss("training");
    if (trainingNames().isEmpty()) m_messages->dismiss("quit");
    closeEnded(tab);
    tab->engineLost = reason;
    // One that ends again and again is not started again and again.
    constexpr qint64 kSoonMs = 30000;
    const bool again = w->engine().hello().process != 0 && (!tab->restarted.isValid() || tab->restarted.elapsed() > kSoonMs);
    if (tab == m_tab && (m_explain->measuring() || m_tune->measuring()))
      tab->engineLost += tr(" The measurement under way ended with it; what was measured before is kept.");
    tab->engineDown = !again;
    if (again) {
      tab->engineLost += tr(" A new engine was started.");
      tab->restarted.start();
      QTimer::singleShot(0, w, &Workspace::startEngine);
    }
    m_devices->setMeasuring(false);
    if (tab != m_tab) return;
    afterRunChange();
    if (m_explain->measuring()) m_explain->setComparisonFailed(tr("the engine ended"));
    if (m_tune->measuring()) m_tune->setMeasureFailed(tr("the engine ended"));
    m_kernelLost = m_kernelLost || m_tune->kernel()->pending();
    refreshMessages();
    refreshStatus();
  });
  auto* watch = new AnswerWatch(w, w);
  connect(watch, &AnswerWatch::silent, this, [this, tab] {
    tab->engineLost = tr("The engine does not answer.");
    tab->engineDown = true;
    if (tab == m_tab) refreshMessages();
  });
  connect(watch, &AnswerWatch::answered, this, [this, tab] {
    tab->engineLost.clear();
    tab->engineDown = false;
    if (tab == m_tab) refreshMessages();
  });
  connect(w, &Workspace::placesMoved, this, [this, tab](const MovedPlaces& moved) {
    if (tab == m_tab) m_explain->movePlaces(moved);
  });
  connect(w, &Workspace::analysed, this, [this, tab, w] {
    tab->notebook->setAnalysis(w->analysis());
    noteTrains(tab);
    showKept(tab);
    for (const CellView* v : tab->notebook->cells())
      if (v->train() && v->train()->ended()) refreshCheckpoint(tab, v->id());
    if (tab == m_tab) {
      if (tab->interrupted) refreshMessages();
      const auto isError = [](const auto& d) { return d.severity == protocol::Severity::Error; };
      if (m_toMistake && std::ranges::none_of(w->analysis().diagnostics, isError)) {
        m_toMistake = nullptr;
        m_messages->dismiss("export");
      }
      m_outline->setNames(w->names(), w->missing());
      refreshSteps();
      refreshOutline();
      refreshStatus();
      refreshPage();
      const auto gone = [&] { return !m_inspector->tensor().isEmpty() && !tensorNamed(m_inspector->tensor().toStdString()); };
      if (gone() && w->missing().empty() && !m_inspector->pinned()) {
        m_inspector->clear();
        tab->inspected.clear();
      }
      inspectSelection();
      m_inspector->setOutdated(gone());
    }
    if (const CellId id = std::exchange(tab->resumeWhenChecked, 0)) resume(tab, id);
    runWhatWaited(tab);
    if (tab != m_tab || !std::exchange(tab->trainWhenChecked, false)) return;
    for (std::size_t i = 0; i < w->analysis().cells.size(); ++i)
      if (w->analysis().cells[i].train)
        if (CellView* v = tab->notebook->viewOfAnalysisCell(static_cast<std::uint32_t>(i))) {
          showCell(v->id());
          runCell(v->id());
          return;
        }
  });
  connect(w, &Workspace::hintsRefused, this, [this, tab, w] {
    tab->notebook->setAnalysis(w->analysis());
    if (tab != m_tab) return;
    refreshOutline();
    refreshStatus();
  });
  connect(w, &Workspace::expressionArrived, this, [this, tab](const protocol::Expression& e) {
    const auto zeros = [tab] {
      QStringList all;
      for (const CellView* v : tab->notebook->cells()) all << v->zeros();
      return all;
    };
    const QStringList before = zeros();
    tab->notebook->setExpression(e);
    if (tab != m_tab) return;
    m_inspector->setExpression(e);
    if (zeros() != before || statusText() == checkingText() || statusText() == provingText()) refreshStatus();
  });
  connect(w, &Workspace::expressionFailed, this, [this, tab](const QString& tensor, const QString& message) {
    tab->notebook->setExpressionFailed(tensor, message);
    if (tab != m_tab) return;
    m_inspector->setExpressionFailed(tensor, message);
    if (statusText() == checkingText()) refreshStatus();
  });
  // A mistake takes what hangs on it out of the program: what was known before stays in its place, greyed.
  const auto mistakenAway = [w](std::size_t now, std::size_t before) {
    return now < before && std::ranges::any_of(w->analysis().diagnostics, [](const protocol::DiagnosticInfo& d) {
             return d.severity == protocol::Severity::Error;
           });
  };
  connect(w, &Workspace::graphPlanArrived, this, [this, tab, mistakenAway](const protocol::GraphPage& plan) {
    if (tab != m_tab) return;
    if (const auto* known = m_explain->graph()->plan(); known && mistakenAway(plan.nodes.size(), known->nodes.size()))
      return m_explain->takePlaces(plan);
    m_explain->setPlan(plan);
    m_tune->showInstances();
  });
  connect(w, &Workspace::graphArrived, this, [this, tab, mistakenAway](const protocol::GraphPage& graph) {
    if (tab != m_tab) return;
    m_explain->setWaiting(false);
    if (const auto& known = m_explain->graph()->graph();
        known.stage == graph.stage && mistakenAway(graph.nodes.size(), known.nodes.size())) {
      m_explain->takePlaces(graph);
    } else {
      m_explain->setGraph(graph);
      if (const QString link = std::exchange(tab->awaitedLink, {}); !link.isEmpty()) followInGraph(link);
      m_tune->showInstances();
    }
    // The graph knows where a node comes from.
    if (!m_selection.tensors().empty()) m_selection.call(withParts(m_selection.tensors()));
    if (const auto places = placesOfSelection(); !places.empty()) m_selection.place(places);
    if (!m_selection.byPlace()) m_selection.write(writtenOf(m_selection.tensors()));
    showLed();
    refreshLeads();
  });
  connect(w, &Workspace::fusionArrived, this, [this, tab, mistakenAway](const protocol::FusionReport& report) {
    if (tab != m_tab || mistakenAway(report.decisions.size(), m_explain->fusion()->report().decisions.size())) return;
    m_explain->setFusion(report);
  });
  connect(w, &Workspace::devicesMeasured, this, [this, tab] {
    for (const auto& other : m_tabs)
      if (other.get() != tab && other->workspace->engineState() == EngineLink::State::Ready) other->workspace->wantDevices(false);
  });
  connect(w, &Workspace::valuesChosen, this, [this, tab] {
    if (tab == m_tab) refreshValues();
  });
  connect(w, &Workspace::devicesArrived, this, [this, tab, w] {
    if (tab != m_tab) return;
    m_devices->setDevices(*w->devices(), w->devicesTaken());
    m_outline->setDevices(*w->devices());
    refreshDevice();
    refreshStatus();
  });
  connect(w, &Workspace::subgraphsArrived, this, [this, tab, w] {
    if (tab != m_tab) return;
    m_tune->setSubgraphs(w->subgraphs().subgraphs, w->subgraphs().revision, w->goneKernels());
    if (w->engineState() == EngineLink::State::Ready && std::exchange(m_kernelLost, false)) m_tune->askKernelAgain();
    showTimes();
    refreshLeads();
  });
  connect(w, &Workspace::trialsChanged, this, [this, tab, w](const std::string& id) {
    if (tab == m_tab) m_tune->setTrials(id, w->trials(id));
  });
  connect(w, &Workspace::kernelArrived, this, [this, tab](const protocol::Kernel& k) {
    if (tab == m_tab) m_tune->setKernel(k);
  });
  connect(w, &Workspace::spaceArrived, this, [this, tab](const protocol::Space& s) {
    if (tab == m_tab) m_tune->setSpace(s);
  });
  connect(w, &Workspace::trialArrived, this, [this, tab](const protocol::TrialEvent& t) {
    if (tab == m_tab) m_tune->addTrial(t);
  });
  connect(w, &Workspace::profileArrived, this, [this, tab, w](const protocol::Profile& p) {
    if (tab != m_tab) return;
    m_tune->setProfile(p, w->profileTaken());
    showTimes();
  });
  connect(w, &Workspace::sliceFailed, this, [this, tab](const QString& tensor, const QString& message) {
    if (tab == m_tab) m_inspector->values()->setUnavailable(tensor, message);
    for (CellView* v : tab->notebook->cells())
      if (v->tensorView()) v->tensorView()->setUnavailable(tensor, message);
  });
  connect(w, &Workspace::sliceArrived, this, [this, tab](const protocol::TensorSlice& slice, const std::vector<double>& values) {
    tab->notebook->setSlice(slice, values);
    if (tab == m_tab) m_inspector->setSlice(slice, values);
  });
  connect(w, &Workspace::failed, this, [this, tab](const QString& what, const QString& message) {
    if (tab != m_tab) return;
    setStatus("error", what + QStringLiteral(": ") + message);
    if (what == Workspace::tr("Graph")) m_explain->setWaiting(false);
    if (what == Workspace::tr("Kernel")) m_tune->setKernelFailed(message);
    if (what == Workspace::tr("Devices")) m_devices->setFailed(message);
  });
}

TrainStrip* MainWindow::strip(Tab* tab) const {
  CellView* v = tab->notebook->viewThatRan(tab->training);
  return v ? v->train() : nullptr;
}

// A run: its strip under the cell, and the tune page while it is the current notebook's.
void MainWindow::connectRun(Tab* tab) {
  Workspace* w = tab->workspace.get();
  connect(w, &Workspace::runsStranded, this, [this, tab] {
    if (tab == m_tab) refreshMessages();
    for (const CellView* v : tab->notebook->cells())
      if (v->train() && v->train()->ended()) refreshCheckpoint(tab, v->id());
  });
  connect(w, &Workspace::runStarted, this, [this, tab](std::uint32_t cell, bool resumed) {
    tab->interrupted = tab->trained = 0;
    tab->unwritten = false;
    tab->kept.reset();
    tab->resumedRun = std::exchange(tab->shownRun, {});
    tab->workspace->leaveStranded();
    tab->whenKept = {};
    tab->engineLost.clear();
    if (tab == m_tab) refreshMessages();
    if (tab == m_tab && !resumed) m_tune->clearSteps();
    if (CellView* v = tab->notebook->viewOfAnalysisCell(cell)) {
      tab->training = tab->runOf = v->id();
      if (v->train()) {
        v->train()->show();
        v->train()->start(resumed);
        if (!resumed) v->train()->setOrigin(tab->begunWith);
        refreshPeer();
        QTimer::singleShot(0, v, [tab, v] { tab->notebook->bringIntoSight(v->train()); });
      }
      v->beginRun();
    }
    if (tab == m_tab) refreshOutline();
  });
  connect(w, &Workspace::stepsTrimmed, this, [this, tab, w] {
    if (TrainStrip* s = strip(tab)) s->setSteps(w->steps(), w->swaps(), w->evals());
    if (tab == m_tab) showRun();
  });
  connect(w, &Workspace::runStateChanged, this, [this, tab, w] {
    if (TrainStrip* s = strip(tab); s && w->running()) s->setState(w->runState());
    tab->ran = tab->ran || w->running();
    if (tab != m_tab) return;
    m_tune->setRunState(w->runState(), w->trialsOfOthers());
    m_tune->setByHand(w->trialsByHand());
    const auto phase = w->runState().phase;
    if (page() == Page::Tune && phase == protocol::RunPhase::Idle) w->wantSubgraphs();
    if (std::exchange(m_pausedShown, phase == protocol::RunPhase::Paused) != (phase == protocol::RunPhase::Paused)) {
      refreshOutline();
      if (CellView* v = tab->notebook->view(tab->training)) v->update();
    }
    followRun();
    if (!w->running() && std::exchange(tab->ran, false)) refreshValues();
    refreshStatus();
    refreshRunActions();
  });
  connect(w, &Workspace::stepArrived, this, [this, tab](const protocol::StepEvent& e) {
    if (TrainStrip* s = strip(tab)) s->addStep(e);
    if (tab == m_tab) m_tune->addStep(e);
  });
  connect(w, &Workspace::swapArrived, this, [this, tab, w](const protocol::KernelSwapEvent& e) {
    if (TrainStrip* s = strip(tab)) s->addSwap(e);
    if (tab != m_tab) return;
    m_tune->addSwap(e);
    if (page() != Page::Author) w->wantSubgraphs();
  });
  connect(w, &Workspace::trialArrived, this, [this, tab](const protocol::TrialEvent& e) {
    if (TrainStrip* s = strip(tab)) s->addTrial(e);
  });
  connect(w, &Workspace::countersArrived, this, [this, tab](const protocol::KernelCountersEvent& e) {
    if (tab == m_tab) m_tune->addCounters(e);
  });
  connect(w, &Workspace::evalArrived, this, [this, tab](const protocol::EvalEvent& e) {
    if (TrainStrip* s = strip(tab)) s->addEval(e);
    if (tab == m_tab) m_tune->addEval(e);
  });
  connect(w, &Workspace::cellFinished, this, [this, tab](const protocol::CellResult& result) {
    CellView* v = tab->notebook->viewOfAnalysisCell(result.cell);
    if (!v) return;
    // A cell that trains has run when its training has.
    const bool beside = v->train() && v->id() != tab->training;
    if (beside && v->shows().isEmpty()) return;
    v->setStatus(result.status, QString::fromStdString(result.message), !beside);
    if (result.status == CellStatus::Ok && !v->shows().isEmpty()) {
      v->showResult(3);
      // Who looks at the cell looks for what it shows; who has gone on, or scrolled away, stays there.
      if (v->id() == tab->notebook->activeCell() && !v->visibleRegion().isEmpty()) tab->notebook->bringIntoSight(v);
    }
    if (tab == m_tab) refreshOutline();
  });
  connect(w, &Workspace::runEnded, this, [this, tab](const QString& message) {
    for (CellView* v : tab->notebook->cellsThatRan())
      if (v->id() != tab->training) v->setInterrupted(message);
    if (tab == m_tab) refreshOutline();
  });
  const auto ended = [this, tab](CellStatus status, const QString& message) {
    tab->notebook->setCellStatus(tab->training, status, message);
    tab->training = 0;
    for (CellView* v : tab->notebook->cells()) v->trainingEnded();
    if (tab == m_tab) refreshMessages();
    m_messages->dismiss("training");
    if (trainingNames().isEmpty()) m_messages->dismiss("quit");
    closeEnded(tab);
    if (tab == m_tab) afterRunChange();
    if (!isActiveWindow()) QApplication::alert(this);
  };
  connect(w, &Workspace::done, this, [this, tab, ended](const protocol::DoneEvent& e) {
    tab->trained = tab->training;
    if (TrainStrip* s = strip(tab)) {
      refreshCheckpoint(tab, tab->training);
      s->setDone(e);
    }
    if (tab == m_tab) showRun();
    ended(CellStatus::Ok, {});
  });
  // A line of the notebook, as it was when it was sent.
  const auto placeOf = [tab, w](const std::string& file, std::int64_t line, std::int64_t column) {
    return QString::fromStdString(file) == w->name() ? placeAt(tab, line, column) : TrainStrip::Place();
  };
  connect(w, &Workspace::warned, this, [this, tab, placeOf](const protocol::WarningEvent& e) {
    const QString message = QString::fromStdString(e.message);
    if (TrainStrip* s = strip(tab)) s->addWarning(message, placeOf(e.file, e.line, e.column));
    if (tab == m_tab) setStatus("warning", message);
  });
  connect(w, &Workspace::checkpointFailed, this, [this, tab](const protocol::CheckpointFailedEvent& e) {
    const QString message = QString::fromStdString(e.message);
    if (TrainStrip* s = strip(tab)) s->setCheckpointFailed(message);
    if (tab == m_tab) setStatus("warning", message);
  });
  connect(w, &Workspace::runFailed, this, [this, tab, ended, placeOf](const QString& message, const protocol::ErrorEvent& at) {
    // Behind its end: something of it could not be written.
    const CellView* trained = tab->training == 0 ? tab->notebook->viewThatRan(tab->trained) : nullptr;
    if (trained && trained->train()) {
      trained->train()->setUnsaved(message);
      tab->unwritten = true;
      return setStatus("error", message);
    }
    TrainStrip* s = strip(tab);
    const TrainStrip::Place place = placeOf(at.file, at.line, at.column);
    if (s) refreshCheckpoint(tab, tab->training), s->setError(message, place);
    ended(CellStatus::Error, s ? QString() : message);  // the strip says it already
    // What was learnt before stands there again.
    const bool refused = tab->workspace->steps().empty() || tab->workspace->awaitsStep();
    if (!s || !refused) return;
    tab->whenKept = [message, place](CellView& kept) {
      kept.train()->setRefused(message, place);
      kept.setRefused();
    };
    lookForKept(tab, tab->resumedRun, true);
  });
}

void MainWindow::connectNotebook(Tab* tab) {
  NotebookView* n = tab->notebook;
  Workspace* w = tab->workspace.get();
  connect(n, &NotebookView::edited, this, [this, tab, n] {
    n->followDocument();
    if (tab == m_tab) refreshOutline();
  });
  // Why not, and what can be done about it, though it was put away.
  connect(n, &NotebookView::writingRefused, this, [this, tab] {
    tab->holderHidden = false;
    if (tab == m_tab) refreshMessages();
  });
  connect(n, &NotebookView::checkingChanged, this, [this, tab] {
    if (tab == m_tab) refreshStatus();
  });
  connect(n, &NotebookView::undoRequested, this, [this] { undoOrRedo(true); });
  connect(n, &NotebookView::textMenuRequested, this, &MainWindow::showTextMenu);
  connect(n, &NotebookView::redoRequested, this, [this] { undoOrRedo(false); });
  connect(n, &NotebookView::caretMoved, this, [this, tab] {
    if (tab == m_tab) refreshPlace();
  });
  connect(n, &NotebookView::signatureChanged, this, [this](const QString& signature) {
    if (signature.isEmpty()) refreshStatus();
    else setStatus("function", signature);
  });
  connect(n, &NotebookView::activeChanged, this, [this, tab, n] {
    keepSessionSoon();
    if (tab != m_tab) return;
    refreshPlace();
    refreshOutline();
    // Of what a cell shows, the one that is looked at already stays.
    const CellView* v = n->view(n->activeCell());
    if (v && !v->shows().isEmpty() && !v->shows().contains(m_inspector->tensor())) {
      // The cell is what is looked for, wherever the tensor stands.
      m_staysInSight = true;
      chooseTensor(v->shows().back());
      m_staysInSight = false;
    }
  });
  connect(n, &NotebookView::expressionWanted, w, &Workspace::wantExpression);
  connect(n, &NotebookView::tensorWanted, w, &Workspace::wantSlice);
  connect(n, &NotebookView::textCopied, this, [this](const QString& what) { setStatus("copy", tr("Copied %1").arg(what)); });
  connect(n, &NotebookView::foundChanged, this, [this, tab, n] {
    if (tab == m_tab) m_find->setCount(n->foundHere(), n->foundPlaces());
  });
  connect(n, &NotebookView::zoomWanted, this, &MainWindow::zoom);
  connect(n, &NotebookView::pauseRequested, w, &Workspace::pause);
  connect(n, &NotebookView::stopRequested, w, &Workspace::stop);
  connect(n, &NotebookView::swapChosen, this, [this](const protocol::KernelSwapEvent& swap) {
    // A kernel that was split is none any more: its decision is.
    if (swap.split) return showPage(Page::Explain);
    showPage(Page::Tune);
    m_tune->chooseSubgraph(swap.subgraph);
  });
  connect(n, &NotebookView::resumeRequested, this, [this, tab](CellId id) { resume(tab, id); });
  connect(n, &NotebookView::runsRequested, this, [this, tab](CellId id) { showRuns(tab, id); });
  connect(n, &NotebookView::trainAgainRequested, this, [this, tab](CellId id) {
    if (tab == m_tab) runCell(id);
  });
  connect(n, &NotebookView::runRequested, this, [this, tab](CellId id) {
    if (tab == m_tab) runCell(id);
  });
}

void MainWindow::connectViews() {
  connect(m_messages, &MessageBar::answered, this, &MainWindow::answer);
  connect(m_messages, &MessageBar::focusLeft, this, [this] {
    if (page() == Page::Author) notebook()->activate(notebook()->activeCell(), notebook()->editing());
  });
  connect(&m_selection, &Selection::changed, this, [this] {
    if (m_tab) inspectSelection();
  });
  connect(m_find, &FindBar::wanted, this, [this](const QString& text, bool exact) { notebook()->find(text, exact); });
  connect(m_find, &FindBar::stepped, this, [this](int direction) { notebook()->findNext(direction); });
  connect(m_find, &FindBar::replaceWanted, this, [this](const QString& with) { notebook()->replaceFound(with); });
  connect(m_find, &FindBar::replaceAllWanted, this, [this](const QString& with) { notebook()->replaceAllFound(with); });
  connect(m_find, &FindBar::closed, this, &MainWindow::closeFind);
  connect(m_rename, &RenameBar::closed, this, &MainWindow::closeRename);
  connect(m_rename, &RenameBar::renameWanted, this, [this](const QString& name, const QString& to) {
    if (const QString why = notebook()->rename(name, to); !why.isEmpty()) return m_rename->refuse(why);
    workspace().renameNames(name, to.trimmed());
    closeRename();
  });
  connect(m_explain->graph(), &GraphView::nodeOpened, this, [this](const QString& id) {
    const auto& spans = workspace().analysis().spans;
    if (!workspace().analysisIsCurrent()) return;
    for (const auto& node : m_explain->graph()->graph().nodes)
      if (QString::fromStdString(node.id) == id)
        for (const auto origin : node.origins)
          if (origin < spans.size() && spans[origin].source.empty() && spans[origin].begin < spans[origin].end)
            return follow(QStringLiteral("byte:%1").arg(spans[origin].begin));
    setStatus("graph", tr("%1 has no place of its own in the notebook").arg(shortName(id)));
  });
  connect(m_outline, &OutlineView::cellOpened, this, [this](CellId id) {
    showCell(id);
    notebook()->activate(id, true);
  });
  connect(m_outline, &OutlineView::tensorOpened, this, [this](const QString& name) {
    for (const auto& s : workspace().analysis().symbols)
      if (QString::fromStdString(s.name) == name && s.definition.source.empty() && workspace().analysisIsCurrent())
        notebook()->scrollToByte(s.definition.begin, true);
  });
  connect(&m_leadsTimer, &QTimer::timeout, this, [this] {
    if (page() != Page::Author || !m_tab->workspace->analysisIsCurrent()) return;
    m_tab->workspace->wantGraph(m_explain->stage());
    m_tab->workspace->wantSubgraphs();
    m_tab->workspace->wantFusion();
  });
  connect(m_outline, &OutlineView::cellChosen, this, [this](CellId id) { showCell(id); });
  connect(m_outline, &OutlineView::tensorChosen, this, [this](const QString& name) { chooseTensor(name); });
  connect(m_outline, &OutlineView::placeChosen, this, [this](std::uint32_t byte) { notebook()->scrollToByte(byte, true); });
  connect(m_outline, &OutlineView::functionOpened, this, [this](const QString& name) { goToDefinition(name); });
  connect(m_outline, &OutlineView::deviceChosen, this, [this] { showPage(Page::Devices); });
  connect(m_inspector, &InspectorView::sliceWanted, this, [this] { workspace().wantSlice(m_inspector->values()->request()); });
  connect(m_inspector, &InspectorView::checkWanted, this, [this](const QString& tensor) {
    if (!engineAnswers()) return m_inspector->setCheckFailed(tr("The engine is not running."));
    Workspace* w = &workspace();
    const std::uint64_t revision = w->document().revision();
    w->ask(protocol::ExpressionRequest{revision, tensor.toStdString(), true}, [this, w, revision, tensor](const auto& envelope) {
      if (w != &workspace() || tensor != m_inspector->tensor()) return;
      if (const auto* e = std::get_if<protocol::Expression>(&envelope.message)) {
        m_inspector->setExpression(*e);
        refreshStatus();
        if (e->check && e->check->samples >= e->check->wanted) Q_EMIT w->milestone(QStringLiteral("check"));
      } else if (const auto* f = std::get_if<protocol::Failed>(&envelope.message)) {
        if (w->isOvertaken(revision, tensor)) return m_inspector->setCheckOvertaken();
        m_inspector->setCheckFailed(QString::fromStdString(f->message));
        setStatus("error", QString::fromStdString(f->message));
      }
    });
  });
  connect(m_inspector, &InspectorView::checkingChanged, this, &MainWindow::refreshStatus);
  connect(m_inspector, &InspectorView::amongChosen, this, [this](const QString& tensor) {
    m_amongChoice = m_selection.choices();
    inspect(tensor);
  });
  connect(m_inspector, &InspectorView::leadChosen, this, [this](const QString& target) {
    if (m_selection.empty()) chooseTensor(m_inspector->tensor());
    follow(target);
  });
  m_explain->setHints([this](const std::string& producer, const std::string& consumer) {
    return workspace().document().fusionHint(producer, consumer);
  });
  // Both ends stay chosen: what is gone to may be of either.
  connect(m_explain->card(), &DecisionCard::leadChosen, this, [this](const QString& target) {
    m_explain->selectDecision();
    follow(target);
  });
  connect(m_explain->card(), &DecisionCard::measureRequested, this,
          [this](const std::string& producer, const std::string& consumer) {
            if (!engineAnswers()) return;
            m_explain->card()->setComparing();
            setStatus("running", tr("Measuring %1 and %2 fused and apart").arg(shortName(producer), shortName(consumer)));
            workspace().ask(protocol::CompareFusionRequest{workspace().document().revision(), producer, consumer},
                            [this](const protocol::Envelope& envelope) {
                              if (const auto* k = std::get_if<protocol::FusionCompared>(&envelope.message)) {
                                m_explain->setComparison({k->producer, k->consumer, k->device, k->split, k->fused, k->saving,
                                                          k->verdict, k->loop, k->fusedKernels, k->splitKernels});
                                setStatus("ok", shortName(k->verdict));
                                if (k->judged) workspace().wantPlan();
                              } else if (const auto* f = std::get_if<protocol::Failed>(&envelope.message)) {
                                m_explain->setComparisonFailed(QString::fromStdString(f->message));
                                setStatus("error", QString::fromStdString(f->message));
                              }
                            });
          });
  connect(m_explain, &ExplainView::decisionChosen, this, &MainWindow::refreshLeads);
  connect(m_explain, &ExplainView::stageWanted, this, [this](const QString& stage) { workspace().wantGraph(stage); });
  for (const StepChooser* steps : {m_explain->steps(), m_tune->steps()})
    connect(steps, &StepChooser::chosen, this, [this](int train) { workspace().lookAtStep(static_cast<std::uint32_t>(train)); });
  connect(m_explain, &ExplainView::hintRequested, this,
          [this](const QString& producer, const QString& consumer, Document::FusionHint hint) {
            Document& d = workspace().document();
            d.setFusionHint(producer.toStdString(), consumer.toStdString(), hint);
            notebook()->followDocument();
            refreshOutline();
            if (!d.readOnly() && !d.undoLabel().empty())
              setStatus("flag", tr("%1: written into the notebook as a hint").arg(QString::fromStdString(d.undoLabel())));
          });
  connect(m_tune, &TuneView::subgraphChosen, this, [this](const std::string& id) {
    workspace().wantTrials(id);
    if (!m_tune->interprets()) workspace().wantSpace(id);
    m_tune->setTrials(id, workspace().trials(id));
  });
  connect(m_tune, &TuneView::spaceWanted, this,
          [this](const std::string& id, const protocol::JsonText& schedule) { workspace().wantSpace(id, schedule); });
  connect(m_tune, &TuneView::trialWanted, this, [this](const std::string& subgraph, std::optional<std::uint64_t> trial) {
    m_kernelLost = workspace().engineState() != EngineLink::State::Ready;
    workspace().wantKernel(subgraph, trial);
  });
  // The answer is the notebook's that asked, which another may have taken the place of.
  connect(m_tune, &TuneView::measureRequested, this,
          [this](const std::string& id, const protocol::JsonText& schedule, std::optional<std::uint64_t> base) {
            if (!engineAnswers()) return m_tune->setMeasureFailed(tr("the engine is not running"));
            setStatus("running", tr("Measuring by hand"));
            Workspace* w = &workspace();
            w->ask(protocol::MeasureRequest{id, schedule, std::nullopt, base}, [this, w, id](const protocol::Envelope& envelope) {
              const bool shown = w == &workspace() && m_tune->current() == id;
              if (const auto* measured = std::get_if<protocol::TrialMeasured>(&envelope.message)) {
                const auto& known = w->trials(id);
                const std::uint64_t number = measured->trial.number;
                const bool repeats =
                    std::any_of(known.begin(), known.end(), [number](const auto& t) { return t.number == number; });
                w->takeTrial(id, measured->trial);
                if (w == &workspace()) m_tune->setByHand(w->trialsByHand());
                w->wantTrials(id);
                w->wantSubgraphs();
                if (shown && repeats) {
                  // No knob was turned: it is that trial again.
                  m_tune->setReplayed(number, measured->trial);
                  return refreshStatus();
                }
                if (shown) {
                  m_tune->chooseTrial(number);
                  m_tune->setMeasured(measured->trial);
                }
                setStatus("ok", measured->trial.us ? tr("Measured: %1").arg(microsecondsText(*measured->trial.us))
                                                   : tr("Not measured: %1").arg(QString::fromStdString(measured->trial.how)));
              } else if (const auto* f = std::get_if<protocol::Failed>(&envelope.message)) {
                if (shown) m_tune->setMeasureFailed(QString::fromStdString(f->message));
                setStatus("error", QString::fromStdString(f->message));
              }
            });
          });
  connect(m_tune, &TuneView::replayRequested, this,
          [this](const std::string& id, std::uint64_t number, const protocol::JsonText& schedule) {
            if (!engineAnswers()) return m_tune->setMeasureFailed(tr("the engine is not running"));
            setStatus("running", tr("Measuring a trial again"));
            Workspace* w = &workspace();
            w->ask(protocol::MeasureRequest{id, schedule, number, std::nullopt},
                   [this, w, id, number](const protocol::Envelope& envelope) {
                     const bool shown = w == &workspace() && m_tune->current() == id;
                     if (const auto* measured = std::get_if<protocol::TrialMeasured>(&envelope.message)) {
                       w->wantTrials(id);
                       if (shown) m_tune->setReplayed(number, measured->trial);
                       refreshStatus();
                     } else if (const auto* f = std::get_if<protocol::Failed>(&envelope.message)) {
                       if (shown) m_tune->setMeasureFailed(QString::fromStdString(f->message));
                       setStatus("error", QString::fromStdString(f->message));
                     }
                   });
          });
  m_tune->setInstances([this](const protocol::SubgraphInfo& s) {
    std::vector<KernelInstance> out;
    const auto* plan = m_explain->graph()->plan();
    if (!plan || plan->revision != workspace().document().revision()) return out;
    const std::vector<std::string> nodes = nodesOf(s);
    const std::set<std::string> operators(nodes.begin(), nodes.end());
    for (const auto& group : plan->groups)
      if (!group.nodes.empty() && operators.contains(group.nodes.front())) {
        QStringList names;
        for (const std::string& node : group.nodes) names << shortName(node);
        // The expression is that of the place whose operators are named first.
        const bool first = names.contains(shortName(nodes.front()));
        out.insert(first ? out.begin() : out.end(), {group.origins, names.join(QStringLiteral(" + "))});
      }
    return out;
  });
  m_tune->kernel()->setOutside([this](const std::string& tensor) { return isOutsideStep(tensor); });
  m_tune->setPins([this](const std::string& tensor) { return workspace().document().scheduleHint(tensor).has_value(); });
  const auto pin = [this](const std::string& tensor, std::optional<std::string> schedule) {
    workspace().document().setScheduleHint(tensor, schedule);
    notebook()->followDocument();
    refreshOutline();
    if (!workspace().document().readOnly())
      setStatus("pin", schedule ? tr("The schedule of %1 is kept: written into the notebook as a hint").arg(shortName(tensor))
                                : tr("The hint for %1 is taken out: the search decides").arg(shortName(tensor)));
  };
  connect(m_tune, &TuneView::pinRequested, this,
          [pin](const std::string& tensor, const protocol::JsonText& schedule) { pin(tensor, schedule.text); });
  connect(m_tune, &TuneView::unpinRequested, this, [pin](const std::string& tensor) { pin(tensor, std::nullopt); });
  connect(m_tune, &TuneView::profileWanted, action("tune.profile"), &QAction::trigger);
  m_tune->kernel()->setSpanText([this](const protocol::SourceSpan& span) {
    const std::string& text = workspace().document().text();
    if (!span.source.empty() || !workspace().analysisIsCurrent() || span.end > text.size() || span.begin >= span.end)
      return QString();
    return QString::fromStdString(text.substr(span.begin, span.end - span.begin));
  });
  // While something trains and somebody looks, its steps are profiled now and then.
  m_profileTimer.setInterval(2000);
  connect(&m_profileTimer, &QTimer::timeout, this, [this] {
    const auto phase = workspace().runState().phase;
    if (page() != Page::Tune || (phase != protocol::RunPhase::Training && phase != protocol::RunPhase::Tuning)) return;
    if (phase == protocol::RunPhase::Training) workspace().wantProfile();
    workspace().wantSubgraphs();
  });
  // The values that are in sight follow the training.
  m_valuesTimer.setInterval(500);
  connect(&m_valuesTimer, &QTimer::timeout, this, [this] {
    if (workspace().runState().phase != protocol::RunPhase::Training) return;
    const auto refresh = [this](const TensorView* view) {
      if (view && view->isVisible() && !view->visibleRegion().isEmpty()) workspace().refreshSlice(view->request());
    };
    refresh(m_inspector->values());
    for (const CellView* v : notebook()->cells()) refresh(v->tensorView());
  });
  connect(m_tune, &TuneView::budgetRequested, this, [this](double share) { workspace().setBudget(share); });
  connect(m_tune, &TuneView::tuneRequested, action("tune.start"), &QAction::trigger);
  connect(m_devices, &DevicesView::measureWanted, action("tune.measureDevice"), &QAction::trigger);
  connect(m_devices, &DevicesView::deviceWanted, this, [this](const QString& name) { workspace().useDevice(name); });
}

void MainWindow::openRename() {
  showPage(Page::Author);
  const CellView* v = notebook()->view(notebook()->activeCell());
  const QString name = v && notebook()->editing() ? v->editor()->nameAtCaret() : QString();
  if (name.isEmpty()) return setStatus("warning", tr("The caret is at no name"));
  const auto is = [&](const auto& known) { return known.name == name.toStdString(); };
  const auto& symbols = workspace().analysis().symbols;
  const auto found = std::ranges::find_if(symbols, is);
  // A mistake may hide it for now.
  if (found == symbols.end() && std::ranges::none_of(workspace().names().tensors, is))
    return setStatus("warning", isKeyword(name.toStdString())
                                    ? tr("%1 is a word of the language").arg(name)
                                    : tr("%1 is no name that the notebook defines: it belongs to its statement").arg(name));
  if (found != symbols.end() && !found->definition.source.empty())
    return setStatus("warning", tr("%1 is a function of %2").arg(name, QString::fromStdString(found->definition.source)));
  if (m_find->isVisible()) closeFind();
  m_rename->open(name);
}

void MainWindow::closeRename() {
  m_rename->hide();
  notebook()->activate(notebook()->activeCell(), notebook()->editing());
}

}  // namespace nf
