// SPDX-License-Identifier: GPL-3.0-or-later
// Cells and trainings that somebody runs: at once, once the text is checked, or with the reason why not.
#include <algorithm>
#include <utility>

#include "app/workbench/main_window.h"
#include "widgets/basic.h"
#include "widgets/cell_view.h"
#include "widgets/notebook_view.h"
#include "widgets/train_strip.h"

namespace nf {

using protocol::CellStatus;

// Training goes on from its newest checkpoint, or begins again where there is none, as soon as the engine knows the notebook. False: it
// cannot, and why is said.
bool MainWindow::resume(Tab* tab, CellId id) {
  if (tab != m_tab) return false;
  if (tab->workspace->engine().state() == EngineLink::State::Dead) tab->workspace->startEngine();
  if (waitsForCheck(tr("training goes on"))) {
    tab->resumeWhenChecked = id;
    return true;
  }
  if (!engineAnswers()) return false;
  const CellView* v = tab->notebook->view(id);
  TrainStrip* strip = v ? v->train() : nullptr;
  if (!strip) return false;
  const bool offered = strip->resumes();
  refreshCheckpoint(tab, id);
  if (offered && !strip->resumes()) {
    setStatus("stale", strip->resume()->toolTip());
    return false;
  }
  return runCell(id, offered);
}

void MainWindow::resumeTraining() {
  if (m_tab->training != 0) return setStatus("warning", tr("A training is under way"));
  const auto resumes = [](const CellView* v) { return v && v->train() && !v->train()->isHidden() && v->train()->resumes(); };
  const CellView* found = notebook()->view(notebook()->activeCell());
  QString why;
  if (!resumes(found)) {
    found = nullptr;
    for (const CellView* v : notebook()->cells()) {
      if (!found && resumes(v)) found = v;
      if (why.isEmpty() && v->train() && !v->train()->isHidden()) why = v->train()->resume()->toolTip();
    }
  }
  if (!found)
    return setStatus("warning", why.isEmpty() ? tr("No training of this notebook has left a checkpoint to go on from") : why);
  showPage(Page::Author);
  notebook()->bringIntoSight(found->train());
  resume(m_tab, found->id());
}

// Of what somebody asks for; what stands in its way is said.
bool MainWindow::engineAnswers() {
  const auto state = m_tab->workspace->engine().state();
  if (state == EngineLink::State::Ready) return true;
  const bool dead = state == EngineLink::State::Dead;
  setStatus(dead ? "error" : "running", dead ? tr("The engine is not running") : tr("The engine starts; ask again then"));
  if (!dead) return false;
  if (m_tab->engineLost.isEmpty()) m_tab->engineLost = tr("The engine is not running.");
  m_tab->engineDown = true;
  refreshMessages();
  return false;
}

// True if the notebook is not known yet: who asked is served then.
bool MainWindow::waitsForCheck(const QString& then) {
  const bool starts = m_tab->workspace->engine().state() == EngineLink::State::Starting;
  if (!starts && (m_tab->workspace->engine().state() != EngineLink::State::Ready || m_tab->workspace->analysisIsKnown()))
    return false;
  setStatus("running", (starts ? tr("The engine starts; then %1") : tr("Checking; then %1")).arg(then));
  return true;
}

// What was asked for while the text was being checked, of the text as it is now.
void MainWindow::runWhatWaited(Tab* tab) {
  const std::vector<CellId> cells = std::exchange(tab->runWhenChecked, {});
  const bool all = std::exchange(tab->runAllWhenChecked, false);
  if (tab != m_tab) return;
  for (const CellId id : cells) runCell(id);
  if (all) runAll();
}

void MainWindow::runAll() {
  m_tab->notebook->forgetCommand();
  if (waitsForCheck(tr("every shown value is computed"))) {
    m_tab->runAllWhenChecked = true;
    return;
  }
  if (!engineAnswers()) return;
  const auto& known = workspace().analysis();
  const bool sound = std::ranges::none_of(known.diagnostics, [](const auto& d) { return d.severity == protocol::Severity::Error; });
  if (sound && std::ranges::all_of(known.cells, [](const auto& cell) { return cell.shows.empty(); }))
    return setStatus("warning", tr("No cell shows a value: `show Y` does. A cell with `train` is run by itself"));
  for (CellView* v : notebook()->cells())
    if (!v->shows().isEmpty() && v->status() != CellStatus::Error && v->status() != CellStatus::Queued)
      v->beginRun(m_tab->training != 0 && m_tab->training != v->id());
  workspace().runAll();
}

// False: it cannot, and why is said.
bool MainWindow::runCell(CellId id, bool resume, const QString& weights) {
  CellView* v = m_tab->notebook->view(id);
  if (!v || v->kind() == CellKind::Markdown) return false;
  m_tab->notebook->forgetCommand();
  if (waitsForCheck(tr("the cell runs"))) {
    if (resume) m_tab->resumeWhenChecked = id;
    else if (std::ranges::find(m_tab->runWhenChecked, id) == m_tab->runWhenChecked.end()) m_tab->runWhenChecked.push_back(id);
    return true;
  }
  if (!engineAnswers()) return false;
  const auto cell = m_tab->notebook->analysisCell(id);
  if (!cell) return false;
  const auto& info = m_tab->workspace->analysis().cells[*cell];
  if (v->status() == CellStatus::Error && !v->diagnosticTexts().isEmpty()) {
    setStatus("error", v->diagnosticTexts().front().section(QLatin1Char('\n'), 0, 0));
    return false;
  }
  if (!info.waits.empty()) {
    setStatus("error", v->note());
    return false;
  }
  if (info.train && m_tab->workspace->running()) {
    setStatus("error", tr("Another run is under way: stop it first"));
    return false;
  }
  v->beginRun(m_tab->training != 0);
  QString from;
  if (resume) {
    // An engine elsewhere finds the newest by itself.
    const Tab::Train* known = trainIn(m_tab, id);
    const TrainOf* of = known ? &known->of : nullptr;
    const QString place = m_tab->workspace->place(), shown = shownCheckpoint(m_tab, of).path;
    from = shown.isEmpty() || shown == newestCheckpoint(place, of).path ? QStringLiteral("newest") : shown;
  }
  m_tab->begunWith = begunWith(weights);
  m_tab->workspace->runCell(*cell, info.train.has_value(), from, weights);
  refreshOutline();
  return true;
}

}  // namespace nf
