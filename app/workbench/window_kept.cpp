// SPDX-License-Identifier: GPL-3.0-or-later
// Runs that lie beside their notebook: what is shown of them, what is gone on with.
#include <QApplication>
#include <QClipboard>
#include <QDesktopServices>
#include <QMenu>
#include <QPointer>
#include <QThreadPool>
#include <QUrl>
#include <algorithm>
#include <utility>

#include "app/workbench/carry_runs.h"
#include "app/workbench/main_window.h"
#include "widgets/basic.h"
#include "widgets/cell_view.h"
#include "widgets/notebook_view.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {

// Of a notebook that is open elsewhere only one that has ended: another may be under way there.
void MainWindow::lookForKept(Tab* tab, const QString& folder, bool again) {
  Workspace* workspace = tab->workspace.get();
  tab->kept.reset();
  const auto stands = [over = again || !folder.isEmpty()](const Workspace& w) { return !over && !w.steps().empty(); };
  if (tab->training != 0 || stands(*workspace)) return;
  QThreadPool::globalInstance()->start([this, w = QPointer<Workspace>(workspace), path = workspace->runsPlace(), folder, stands] {
    if (path.isEmpty()) return;
    auto run = std::make_shared<std::optional<KeptRun>>(folder.isEmpty() ? newestKeptRun(path) : keptRun(path, folder));
    if (!*run) return;
    const auto show = [this, w, path, run, stands] {
      if (!w || w->runsPlace() != path) return;
      if (!w->holder().isEmpty() && !(*run)->done && !(*run)->error) return;
      for (const auto& tab : m_tabs) {
        if (tab->workspace.get() != w || tab->training != 0 || stands(*w)) continue;
        tab->kept = std::move(*run);
        showKept(tab.get());
      }
    };
    QMetaObject::invokeMethod(QCoreApplication::instance(), show, Qt::QueuedConnection);
  });
}

void MainWindow::noteTrains(Tab* tab) {
  const protocol::Analysis& analysis = tab->workspace->analysis();
  const bool sound =
      std::ranges::none_of(analysis.diagnostics, [](const auto& d) { return d.severity == protocol::Severity::Error; });
  if (sound) tab->trains.clear();
  for (std::size_t i = 0; i < analysis.cells.size(); ++i)
    if (const auto of = trainOf(analysis, i))
      if (const CellView* v = tab->notebook->viewOfAnalysisCell(static_cast<std::uint32_t>(i)))
        tab->trains.insert_or_assign(v->id(), Tab::Train{*of, *analysis.cells[i].train});
}

const MainWindow::Tab::Train* MainWindow::trainIn(const Tab* tab, CellId id) {
  const auto found = tab->trains.find(id);
  return found == tab->trains.end() ? nullptr : &found->second;
}

void MainWindow::refreshCheckpoint(Tab* tab, CellId id) {
  const CellView* v = tab->notebook->viewThatRan(id);
  if (!v || !v->train()) return;
  std::int64_t steps = 0;
  bool other = false;
  const Tab::Train* known = trainIn(tab, id);
  const RunCheckpoint checkpoint = shownCheckpoint(tab, known ? &known->of : nullptr);
  if (known) {
    const protocol::TrainInfo& train = known->info;
    const bool same = train.batch == checkpoint.batch;  // another one has another number of steps to the epoch
    steps = train.steps > 0 ? train.steps : same ? train.epochs * checkpoint.stepsPerEpoch : 0;
    other = checkpoint.there && !train.program.empty() && !checkpoint.program.empty() && train.program != checkpoint.program;
  }
  const bool past = checkpoint.there && steps > 0 && checkpoint.steps >= steps;
  using Checkpoint = TrainStrip::Checkpoint;
  v->train()->setCheckpoint(
      !checkpoint.there ? Checkpoint::None
      : other           ? Checkpoint::OfOtherText
      : past            ? Checkpoint::AtTheEnd
                        : Checkpoint::Usable,
      checkpoint.steps,
      other
          ? tr("What is trained has changed since: from the first step. Undone, it goes on from step %1. Runs, beside it, begins a "
               "run of the text as it is with what was learnt.")
                .arg(grouped(checkpoint.steps))
      : past ? tr("The checkpoint has %1 steps behind it, and training ends with step %2: from the first step. Ask for more "
                  "steps or epochs to go on from it.")
                   .arg(grouped(checkpoint.steps), grouped(steps))
             : QString(),
      checkpoint.steps > 0 && steps > checkpoint.steps);
  v->train()->setRuns(hasRuns(tab->workspace->runsPlace()));
}

namespace {
void showIn(CellView& v, const KeptRun& run) {
  v.train()->show();
  v.setResultMeaning(run.meaning, run.done && !run.done->stopped);
  v.train()->setKept(run.began, run.steps, run.swaps, run.evals, run.done, run.error);
  v.train()->setOrigin(begunWith(run.record));
}
}  // namespace

void MainWindow::showKept(Tab* tab) {
  if (!tab->kept || tab->training != 0) return;
  const auto& cells = tab->notebook->cells();
  const auto found = std::ranges::find_if(cells, [&](const CellView* v) {
    const Tab::Train* known = trainIn(tab, v->id());
    return known && isRunOf(tab->kept->record, known->of);
  });
  CellView* v = found == cells.end() ? nullptr : *found;
  if (!v || !v->train()) return;
  KeptRun run = std::move(*tab->kept);
  tab->kept.reset();
  tab->shownRun = run.folder;
  tab->runOf = v->id();
  // As it was when it had been begun, once this analysis is in all views.
  QMetaObject::invokeMethod(
      tab->workspace.get(), [w = tab->workspace.get(), step = trainIn(tab, v->id())->info.number] { w->lookAtStep(step); },
      Qt::QueuedConnection);
  showIn(*v, run);
  if (const auto say = std::exchange(tab->whenKept, {})) say(*v);
  refreshCheckpoint(tab, v->id());
  tab->workspace->setRun(std::move(run.steps), std::move(run.swaps), std::move(run.evals));
  showOtherRuns(tab);
  refreshPeer();
  if (tab == m_tab) showRun(), refreshOutline();
}

// Cells of other trainings tell what their own newest run came to; the views of a run have the newest of all.
void MainWindow::showOtherRuns(Tab* tab) {
  Workspace* workspace = tab->workspace.get();
  std::vector<std::pair<CellId, TrainOf>> others;
  for (const CellView* v : tab->notebook->cells())
    if (const Tab::Train* known = trainIn(tab, v->id()); known && v->train() && v->train()->isHidden())
      others.emplace_back(v->id(), known->of);
  if (others.empty()) return;
  QThreadPool::globalInstance()->start([this, w = QPointer<Workspace>(workspace), path = workspace->runsPlace(), others] {
    auto runs = std::make_shared<std::vector<std::pair<CellId, KeptRun>>>();
    for (const auto& [id, of] : others)
      if (const auto found = keptRuns(path, of); !found.empty())
        if (auto run = keptRun(path, found.front().folder)) runs->emplace_back(id, std::move(*run));
    const auto show = [this, w, path, runs] {
      const auto tab = std::ranges::find_if(m_tabs, [&](const auto& t) { return w && t->workspace.get() == w; });
      if (tab == m_tabs.end() || w->runsPlace() != path) return;
      for (const auto& [id, run] : *runs) {
        CellView* v = (*tab)->notebook->view(id);
        if (!v || !v->train() || !v->train()->isHidden() || (*tab)->training == id) continue;
        if (!w->holder().isEmpty() && !run.done && !run.error) continue;
        showIn(*v, run);
        refreshCheckpoint(tab->get(), id);
      }
      refreshPeer();
    };
    QMetaObject::invokeMethod(QCoreApplication::instance(), show, Qt::QueuedConnection);
  });
}

// To be looked at and gone on with: what cells show is computed with what it learnt.
void MainWindow::showRuns(Tab* tab, CellId id) {
  const CellView* v = tab->notebook->view(id);
  const Tab::Train* known = trainIn(tab, id);
  if (!v || !v->train()) return;
  if (!known) return sayNoRuns();
  const TrainOf of = known->of;
  const QString place = tab->workspace->runsPlace();
  const auto runs = keptRuns(place, of);
  constexpr std::size_t kMostRuns = 20;
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  menu->setObjectName(QStringLiteral("runs"));
  const QString shown = !tab->shownRun.isEmpty() || runs.empty() ? tab->shownRun : runs.front().folder;
  for (std::size_t i = 0; i < std::min(runs.size(), kMostRuns); ++i) {
    QAction* a = menu->addAction(runs[i].words);
    a->setCheckable(true);
    a->setChecked(runs[i].folder == shown);
    connect(a, &QAction::triggered, this, [this, tab, place, of, folder = runs[i].folder] {
      if (indexOf(tab) < 0 || tab->training != 0) return;
      lookForKept(tab, folder);
      const RunCheckpoint left = checkpointOf(place, folder, &of);
      tab->workspace->useValues(left.there ? left.path : QString());
    });
  }
  if (runs.size() > kMostRuns)
    menu->addAction(tr("%1 are older").arg(counted(static_cast<std::int64_t>(runs.size() - kMostRuns), tr("run"), tr("runs"))))
        ->setEnabled(false);
  menu->addSeparator();
  connect(menu->addAction(tr("Open the folder of the runs")), &QAction::triggered, this, [this, place] {
    const QString folder = place + kRuns;
    if (!QDesktopServices::openUrl(QUrl::fromLocalFile(folder)))
      setStatus("warning", tr("Nothing opens folders here: %1").arg(folder));
  });
  const RunCheckpoint checkpoint = shownCheckpoint(tab, &of);
  QAction* onward = menu->addAction(tr("Begin a run with what this one learnt"));
  onward->setObjectName(QStringLiteral("onward"));
  onward->setEnabled(checkpoint.there && !checkpoint.path.isEmpty());
  connect(onward, &QAction::triggered, this, [this, tab, id, path = checkpoint.path] {
    if (tab != m_tab) return;
    if (!tab->workspace->analysisIsKnown()) return setStatus("running", tr("The notebook is being checked: ask again then"));
    runCell(id, false, path);
  });
  QAction* copy = menu->addAction(tr("Copy the path of what this run learnt"));
  copy->setEnabled(checkpoint.there && !checkpoint.path.isEmpty());
  connect(copy, &QAction::triggered, this, [this, path = checkpoint.path] {
    QApplication::clipboard()->setText(path);
    setStatus("ok", tr("Copied %1: the values of every parameter, in safetensors").arg(path));
  });
  const QWidget* at = v->train()->runs();
  menu->popup(at->mapToGlobal(QPoint(0, at->height())));
}

void MainWindow::sayNoRuns() {
  const QString place = workspace().runsPlace();
  setStatus("warning", m_tab->training != 0 ? tr("A training is under way: its runs are there when it has ended")
                       : hasRuns(place)     ? tr("No train statement of the text has left one of the runs in %1").arg(place + kRuns)
                                            : tr("No training of this notebook has left a run"));
}

void MainWindow::showRuns() {
  const auto offers = [this](const CellView* v) {
    return v && v->train() && !v->train()->runs()->isHidden() && trainIn(m_tab, v->id());
  };
  const CellView* v = notebook()->view(notebook()->activeCell());
  if (!offers(v)) {
    const auto& cells = notebook()->cells();
    const auto found = std::find_if(cells.begin(), cells.end(), offers);
    v = found == cells.end() ? nullptr : *found;
  }
  if (!v) return sayNoRuns();
  showPage(Page::Author);
  notebook()->bringIntoSight(v->train());
  showRuns(m_tab, v->id());
}

RunCheckpoint MainWindow::shownCheckpoint(const Tab* tab, const TrainOf* train) const {
  const QString place = tab->workspace->runsPlace();
  if (!tab->shownRun.isEmpty())
    if (RunCheckpoint shown = checkpointOf(place, tab->shownRun, train); shown.ofTrain) return shown;
  return newestCheckpoint(place, train);
}

}  // namespace nf
