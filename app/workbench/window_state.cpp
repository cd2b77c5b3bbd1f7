// SPDX-License-Identifier: GPL-3.0-or-later
// What the window shows of the current notebook: titles, outline, status, inspector, and where things lead.
#include <QAbstractButton>
#include <QBoxLayout>
#include <QFileInfo>
#include <QLabel>
#include <QLocale>
#include <QRegularExpression>
#include <QStackedWidget>
#include <QTabBar>
#include <QToolButton>
#include <algorithm>
#include <set>
#include <utility>

#include "app/workbench/main_window.h"
#include "widgets/basic.h"
#include "widgets/cell_view.h"
#include "widgets/decision_card.h"
#include "widgets/devices_view.h"
#include "widgets/explain_view.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/markdown_view.h"
#include "widgets/message_bar.h"
#include "widgets/names.h"
#include "widgets/notebook_view.h"
#include "widgets/outline_view.h"
#include "widgets/step_chooser.h"
#include "widgets/swap_list.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {

using protocol::CellStatus;

void MainWindow::afterRunChange() {
  refreshRunActions();
  refreshOutline();
  refreshStatus();
}

void MainWindow::refreshRunActions() {
  using protocol::RunPhase;
  const RunPhase phase = m_tab->workspace->runState().phase;
  const bool runs = phase != RunPhase::Idle || m_tab->workspace->runAsked();
  action(QStringLiteral("run.stop"))->setEnabled(runs && phase != RunPhase::Stopping);
  QAction* pause = action(QStringLiteral("run.pause"));
  const bool paused = phase == RunPhase::Paused;
  pause->setEnabled(paused || phase == RunPhase::Training);
  pause->setText(paused ? tr("Resume") : tr("Pause"));
  pause->setProperty("iconName", paused ? QStringLiteral("run") : QStringLiteral("pause"));
  pause->setIcon(m_theme->icon(pause->property("iconName").toString()));
}

MainWindow::Page MainWindow::page() const { return static_cast<Page>(m_pages->currentIndex()); }

// What had the keyboard of it last, unless a Space would press it; of Author its notebook.
void MainWindow::focusPage() {
  QWidget* shown = m_pages->currentWidget();
  QWidget* last = shown->focusWidget();
  if (page() == Page::Author) return notebook()->activate(notebook()->activeCell(), notebook()->editing());
  const bool there = last && last->isVisible() && last->isEnabled() && !qobject_cast<QAbstractButton*>(last);
  (there ? last : shown)->setFocus(Qt::OtherFocusReason);
}

void MainWindow::showPage(Page page) {
  m_pages->setCurrentIndex(static_cast<int>(page));
  placeTabs();
  for (const char* id : {"view.zoomIn", "view.zoomOut", "view.zoomReset"})
    action(QString::fromLatin1(id))->setEnabled(page == Page::Author || page == Page::Explain);
  keepSessionSoon();
  m_switch->setCurrent(page == Page::Devices ? -1 : static_cast<int>(page));
  refreshPage();
  if (page != Page::Author && m_tab) m_tab->notebook->forgetCommand();
  if (page == Page::Explain) m_explain->graph()->setFocus();
  if (page == Page::Author) {
    m_tab->notebook->activate(m_tab->notebook->activeCell(), m_tab->notebook->editing());
    revealSelection();
  }
  if (m_tab && std::ranges::any_of(m_tab->workspace->analysis().diagnostics,
                                   [](const auto& d) { return d.severity == protocol::Severity::Error; }))
    refreshStatus();  // in the words of this page
  refreshPlace();
}

// Which notebook a page shows is in sight on each that shows one; Author has the tabs over its cells.
void MainWindow::placeTabs() {
  const bool author = page() == Page::Author;
  QBoxLayout* home = author ? m_authorTabs : static_cast<QBoxLayout*>(m_tabRow->layout());
  if (m_tabBar->parentWidget() != home->parentWidget()) {
    home->insertWidget(0, m_tabBar, author ? 1 : 0);
    m_tabBar->show();
  }
  m_tabRow->setVisible(page() == Page::Explain || page() == Page::Tune);
}

// What the visible page shows is asked for again; what is hidden waits until it is seen.
void MainWindow::refreshPage() {
  switch (page()) {
    case Page::Author: m_leadsTimer.start(); break;  // where things lead to: not while one types
    case Page::Explain:
      // What a notebook with errors has of a graph comes as well, if it has any.
      m_explain->setWaiting(
          m_explain->graph()->graph().nodes.empty() && m_tab->workspace->engineState() != EngineLink::State::Dead &&
          std::none_of(m_tab->workspace->analysis().diagnostics.begin(), m_tab->workspace->analysis().diagnostics.end(),
                       [](const protocol::DiagnosticInfo& d) { return d.severity == protocol::Severity::Error; }));
      m_tab->workspace->wantGraph(m_explain->stage());
      m_tab->workspace->wantFusion();
      m_tab->workspace->wantSubgraphs();
      break;
    case Page::Tune:
      m_tab->workspace->wantGraph(m_explain->stage());  // knows the places of each kernel
      m_tab->workspace->wantSubgraphs();
      showRun();
      break;
    case Page::Devices:
      if (!m_tab->workspace->devices()) m_tab->workspace->wantDevices(false);
      break;
  }
}

void MainWindow::refreshPeer() {
  const Workspace::Peer peer = m_tab->workspace->peer();
  m_tune->setPeer(peer.name, peer.stepMs);
  for (const auto& tab : m_tabs) {
    const Workspace::Peer own = tab->workspace->peer();
    for (CellView* v : tab->notebook->cellsThatRan())
      if (v->train()) v->train()->setPeer(own.name, own.stepMs);
  }
}

// What is asked for again and again is, while the current notebook runs.
void MainWindow::followRun() {
  const auto& run = m_tab->workspace->runState();
  constexpr auto phases = protocol::enumNames(protocol::RunPhase{});
  const bool runs = run.phase != protocol::RunPhase::Idle;
  // The values of the step that it stands at; from then on they stay.
  const bool paused = run.phase == protocol::RunPhase::Paused;
  if (!std::exchange(m_valuesOfPause, paused) && paused) refreshValues();
  m_devices->setRunning(runs ? run.device : std::string(), QString::fromLatin1(phases[static_cast<std::size_t>(run.phase)]));
  for (QTimer* timer : {&m_profileTimer, &m_valuesTimer}) {
    if (m_tab->workspace->running() && !timer->isActive()) timer->start();
    else if (!m_tab->workspace->running()) timer->stop();
  }
}

// The last values of a run that has ended, and what its kernels took.
void MainWindow::refreshValues() {
  Workspace& w = *m_tab->workspace;
  const auto refresh = [&w](const TensorView* view) {
    if (view && !view->tensor().isEmpty()) w.wantSlice(view->request());
  };
  refresh(m_inspector->values());
  for (const CellView* v : m_tab->notebook->cells())
    if (v->tensorView() && v->tensorView()->isVisibleTo(v)) refresh(v->tensorView());
  if (w.engineState() == EngineLink::State::Ready) w.wantSubgraphs();
}

namespace {
QString shortened(const QString& name) {
  constexpr int kMost = 32;
  return name.size() <= kMost ? name : name.left(kMost / 2) + QChar(0x2026) + name.right(kMost / 2 - 1);
}
}  // namespace

void MainWindow::refreshTabs() {
  for (std::size_t i = 0; i < m_tabs.size(); ++i) {
    const Workspace& w = *m_tabs[i]->workspace;
    const int index = static_cast<int>(i);
    // An & would underline the letter behind it.
    m_tabBar->setTabText(index, shortened(w.name()).replace(QLatin1Char('&'), QLatin1String("&&")) +
                                    (m_tabs[i]->workspace->document().modified() ? QStringLiteral("  •") : QString()));
    m_tabBar->setTabToolTip(index, w.path());
  }
  keepSessionSoon();
}

// A question is put once and stays until it is answered, put away, or has nothing to ask any more.
void MainWindow::askOnce(const QString& key, const QString& text, const QStringList& answers) {
  const QString all = text + QChar(0) + answers.join(QChar(0));
  const auto known = m_asked.find(key);
  if (text.isEmpty()) {
    if (known == m_asked.end()) return;
    m_asked.erase(known);
    return m_messages->dismiss(key);
  }
  if (known != m_asked.end() && known->second == all) return;
  m_asked[key] = all;
  m_messages->ask(key, text, answers);
}

// What the current notebook has to ask.
void MainWindow::refreshMessages() {
  Workspace& w = *m_tab->workspace;
  const QString name = w.name();
  askOnce("keep",
          m_tab->journalHidden || w.journalError().isEmpty()
              ? QString()
              : tr("What is not saved of %1 cannot be kept for recovery: %2").arg(name, w.journalError()),
          {tr("Save")});
  askOnce("runs", w.strandedText(), {tr("Try again")});
  askOnce("restored", m_restored, {});
  QStringList others;
  for (const auto& tab : m_tabs)
    if (tab->recovered && tab.get() != m_tab) others << tab->workspace->name();
  askOnce("recovered",
          !m_tab->recovered ? QString()
          : others.isEmpty()
              ? tr("The workbench ended before %1 was saved. It was recovered, with the steps that can be undone.").arg(name)
              : tr("The workbench ended before %1 was saved. It was recovered, with the steps that can be undone, and so were: %2.")
                    .arg(name, others.join(QStringLiteral(", "))),
          w.path().isEmpty() ? QStringList() : QStringList{tr("Compare with the file")});
  if (m_tab->left.empty()) {
    askOnce("journal", {}, {});
  } else {
    const QString when = QLocale().toString(QFileInfo(m_tab->left.front().file).lastModified(), QLocale::ShortFormat);
    askOnce("journal", tr("A session ended before %1 was saved. Its changes of %2 were kept.").arg(name, when),
            {tr("Recover"), tr("Compare"), tr("Discard")});
  }
  askOnce("lock",
          w.holder().isEmpty() || m_tab->holderHidden
              ? QString()
              : tr("%1 is open in %2. It is shown here and cannot be edited.").arg(name, w.holder()),
          {tr("Edit anyway")});
  askOnce("unwritable",
          w.writable() || m_tab->unwritableHidden || !w.holder().isEmpty()
              ? QString()
              : tr("%1 cannot be written: what is changed here can be saved under another name.").arg(name),
          {tr("Save as...")});
  const bool deleted = w.onDisk() == Workspace::OnDisk::Deleted;
  askOnce("outside",
          w.onDisk() == Workspace::OnDisk::Same || m_tab->diskHidden ? QString()
          : deleted ? tr("%1 was deleted on disk. Its text is still here; saving writes the file again.").arg(name)
                    : tr("%1 changed on disk while it was edited here.").arg(name),
          deleted ? QStringList{tr("Save"), tr("Save as...")} : QStringList{tr("Keep mine"), tr("Reload"), tr("Compare")});
  if (w.document().cell(m_tab->deletedHidden)) m_tab->deletedHidden = 0;
  askOnce("deleted",
          m_tab->training == 0 || m_tab->deletedHidden == m_tab->training || w.document().cell(m_tab->training)
              ? QString()
              : tr("The cell that trains was deleted. Its training goes on; undo brings the cell back."),
          {tr("Stop training")});
  const CellView* cut = m_tab->notebook->view(m_tab->interrupted);
  const bool resumes = cut && cut->train() && cut->train()->resumes();
  const bool edited = cut && cut->train() && cut->train()->checkpoint() == TrainStrip::Checkpoint::OfOtherText;
  QString from;
  if ((resumes || edited) && !m_tab->engineLost.isEmpty() && cut->train()->checkpointStep() > 0)
    from = (edited ? tr(" The checkpoint of step %1 is of the text before the edit: undone, the training can go on from it.")
                   : tr(" The training can go on from step %1."))
               .arg(grouped(cut->train()->checkpointStep()));
  m_explain->setEngineGone(m_tab->engineDown);
  m_tune->setEngineGone(m_tab->engineDown);
  askOnce("engine", m_tab->engineLost + from,
          m_tab->engineDown ? QStringList{tr("Restart the engine")}
          : cut             ? QStringList{resumes ? tr("Resume training") : tr("Train again")}
                            : QStringList());
}

// Where the cursor is; while whole cells are chosen that they are.
void MainWindow::refreshPlace() {
  const NotebookView* n = m_tab->notebook;
  if (page() != Page::Author) return m_place->clear();
  if (!n->editing()) return m_place->setText(tr("Whole cell chosen: Enter writes into it"));
  const std::string& text = m_tab->workspace->document().text();
  const std::string_view before = std::string_view(text).substr(0, std::min(n->caretByte(), text.size()));
  // The column is that of the text as it is written in, without the signs that make Markdown comments of the file.
  const ExpressionEditor* editor = n->view(n->activeCell())->editor();
  const std::string_view shown = std::string_view(editor->bytes()).substr(0, editor->caretByte());
  const std::string_view line = shown.substr(shown.rfind('\n') + 1);
  m_place->setText(
      tr("Ln %1, Col %2").arg(std::count(before.begin(), before.end(), '\n') + 1).arg(unitOffset(line, line.size()) + 1));
}

void MainWindow::refreshTitle() {
  setSavePlace(m_tab->workspace->path());
  const bool modified = m_tab->workspace->document().modified();
  m_name->setText(m_tab->workspace->name());
  m_state->setText(m_tab->workspace->document().readOnly()                    ? tr("read-only")
                   : m_tab->workspace->onDisk() == Workspace::OnDisk::Deleted ? tr("deleted on disk")
                   : m_tab->workspace->onDisk() == Workspace::OnDisk::Changed ? tr("changed on disk")
                   : modified                                                 ? tr("edited")
                   : !m_tab->workspace->writable()                            ? tr("cannot be written")
                   : m_tab->workspace->neverSaved()                           ? tr("not saved yet")
                                                                              : tr("saved"));
  setWindowTitle(m_tab->workspace->name() + QStringLiteral("[*] - NeoFlow"));
  setWindowModified(modified);
  refreshTabs();
  const Document& d = m_tab->workspace->document();
  action(QStringLiteral("edit.undo"))->setEnabled(d.canUndo());
  action(QStringLiteral("edit.redo"))->setEnabled(d.canRedo());
  action(QStringLiteral("edit.undo"))
      ->setToolTip(d.canUndo() ? tr("Undo: %1").arg(QString::fromStdString(d.undoLabel())) : tr("Undo"));
  action(QStringLiteral("edit.redo"))
      ->setToolTip(d.canRedo() ? tr("Redo: %1").arg(QString::fromStdString(d.redoLabel())) : tr("Redo"));
}

void MainWindow::refreshSteps() {
  const protocol::Analysis& analysis = m_tab->workspace->analysis();
  QStringList losses;
  for (const protocol::CellInfo& cell : analysis.cells) {
    if (!cell.train) continue;
    // Statements stand in order; one that shares its cell with another is known by its number.
    while (losses.size() < cell.train->number) losses << tr("train %1").arg(losses.size() + 1);
    losses << QString::fromStdString(cell.train->loss);
  }
  std::set<std::string> derived;
  for (const protocol::TensorInfo& t : analysis.tensors)
    if (t.derivative) derived.insert(t.name.substr(0, t.name.find(")/d(")));
  setSeveralLosses(derived.size() > 1);
  for (const CellView* v : m_tab->notebook->cells())
    if (v->train()) v->train()->swaps()->nameAgain();
  for (StepChooser* steps : {m_explain->steps(), m_tune->steps()}) steps->setTrains(losses, static_cast<int>(analysis.step));
}

void MainWindow::refreshOutline() {
  const auto ran = m_tab->trains.find(m_tab->runOf);
  const bool other = ran != m_tab->trains.end() && ran->second.info.number != m_tab->workspace->analysis().step;
  const CellView* of = m_tab->notebook->viewThatRan(m_tab->runOf);
  m_tune->setRunOf(of && of->runIsOld(), other ? QString::fromStdString(ran->second.info.loss) : QString());
  showStep();
  std::vector<OutlineView::CellLine> lines;
  int number = 0;
  for (const Cell& cell : m_tab->workspace->document().cells()) {
    const CellView* v = m_tab->notebook->view(cell.id);
    OutlineView::CellLine entry{cell.id, {}, {}, OutlineView::CellLine::Kind::Code, -1};
    if (cell.kind == CellKind::Markdown) {
      entry.kind = OutlineView::CellLine::Kind::Text;
      const QString title = firstLineOf(QString::fromStdString(markdownOf(m_tab->workspace->document().body(cell))));
      entry.title = title.isEmpty() ? tr("empty text") : title;
    } else {
      ++number;
      QString title;
      std::uint32_t index = 0;
      if (const auto k = m_tab->notebook->analysisCell(cell.id); k && *k < m_tab->workspace->analysis().cells.size()) {
        index = *k;
        const auto& info = m_tab->workspace->analysis().cells[index];
        const auto isResult = [&](const std::string& name) {
          const auto* t = m_tab->workspace->tensor(name);
          return t && (t->kind == protocol::SymbolKind::Loss || t->kind == protocol::SymbolKind::Eval);
        };
        title = info.train ? tr("train %1").arg(QString::fromStdString(info.train->loss)) : cellTitle(info.defines, isResult);
        if (title.isEmpty() && !info.shows.empty()) {
          QStringList shows;
          for (const auto& n : info.shows) shows << QString::fromStdString(n);
          title = tr("show %1").arg(shows.join(QStringLiteral(", ")));
        }
      }
      if (title.isEmpty())
        title = QString::fromStdString(std::string(m_tab->workspace->document().body(cell)))
                    .section(QLatin1Char('\n'), 0, 0, QString::SectionSkipEmpty)
                    .remove(QRegularExpression(QStringLiteral("[\\s{]+$")))
                    .trimmed();
      entry.title = QStringLiteral("%1  %2").arg(number).arg(title.isEmpty() ? tr("empty") : title);
      if (v) {
        entry.status = v->neverTrained() ? -1 : static_cast<int>(v->status());
        switch (v->status()) {
          case CellStatus::Ok: entry.state = v->runIsOld() ? tr("stale") : v->stoppedEarly() ? tr("stopped") : QString(); break;
          case CellStatus::Error: entry.state = counted(std::max<std::int64_t>(1, v->errors()), tr("error"), tr("errors")); break;
          case CellStatus::Stale: entry.state = tr("stale"); break;
          case CellStatus::Queued: entry.state = tr("waits"); break;
          case CellStatus::Running:
            entry.state = v->id() == m_tab->training && m_tab->workspace->runState().phase == protocol::RunPhase::Paused
                              ? tr("paused")
                              : tr("running");
            break;
        }
      }
    }
    lines.push_back(std::move(entry));
  }
  m_outline->setCells(lines, m_tab->notebook->activeCell());
}

namespace {
constexpr qint64 kRefusalStays = 5000;  // ms, before the steps of a run are told again
}

void MainWindow::setStatus(const QString& icon, const QString& text) {
  m_refused.invalidate();
  if (icon == QLatin1String("error") || icon == QLatin1String("warning")) m_refused.start();
  showStatus(icon, text);
}

void MainWindow::showStatus(const QString& icon, const QString& text) {
  const Palette& c = m_theme->colors();
  const QColor color = icon == QLatin1String("error")                                   ? c.failed
                       : icon == QLatin1String("proved") || icon == QLatin1String("ok") ? c.proved
                       : icon == QLatin1String("running")                               ? c.accent
                       : icon == QLatin1String("warning")                               ? c.stale
                                                                                        : c.muted;
  m_statusIcon->setPixmap(m_theme->pixmap(icon, color, devicePixelRatioF()));
  const QString plain = plainCodeText(text);
  m_status->setText(plain);
  m_status->setToolTip(plain);
}

QString MainWindow::checkingText() { return tr("Checking the gradients"); }
QString MainWindow::provingText() { return tr("Parse and shapes up to date; the proof of a gradient is under way"); }

void MainWindow::refreshStatus() {
  using State = EngineLink::State;
  const auto& run = m_tab->workspace->runState();
  constexpr auto phases = protocol::enumNames(protocol::RunPhase{});
  switch (m_tab->workspace->engine().state()) {
    case State::Stopped:
    case State::Starting: showStatus("running", tr("Starting the engine")); break;
    case State::Dead: showStatus("error", tr("The engine is gone; the notebook can be edited and saved")); break;
    case State::Ready:
      if (m_tab->workspace->running()) {
        if (m_refused.isValid() && m_refused.elapsed() < kRefusalStays) break;
        QString text = QString::fromLatin1(phases[static_cast<std::size_t>(run.phase)]);
        text[0] = text[0].toUpper();
        if (run.step > 0) text += tr(", step %1").arg(grouped(run.step));
        if (!run.detail.empty()) text += QStringLiteral(", ") + QString::fromStdString(run.detail);
        if (run.secondsLeft) text += tr(", %1 left").arg(secondsText(*run.secondsLeft));
        const TrainStrip* training = strip(m_tab);
        const QStringList warnings = training ? training->warnings() : QStringList();
        if (!warnings.isEmpty()) text += QStringLiteral("  ·  ") + warnings.back().section(QLatin1Char('\n'), 0, 0);
        const bool paused = run.phase == protocol::RunPhase::Paused;
        showStatus(!warnings.isEmpty() ? "warning" : paused ? "pause" : "running", text);
      } else if (m_tab->workspace->runAsked()) {
        showStatus("running", tr("Preparing"));
      } else if (!m_tab->workspace->analysisIsCurrent()) {
        const bool waits = !m_tab->runWhenChecked.empty();
        if (!waits || !waitsForCheck(tr("the cell runs"))) showStatus("running", tr("Checking"));
      } else {
        int errors = 0;
        QString first;
        for (const auto& d : m_tab->workspace->analysis().diagnostics) {
          if (d.severity != protocol::Severity::Error) continue;
          if (++errors == 1) first = QString::fromStdString(d.message).section(QLatin1Char('\n'), 0, 0);
        }
        QString failure, zero, warning;
        for (const CellView* v : m_tab->notebook->cells()) {
          if (failure.isEmpty()) failure = v->failure();
          if (zero.isEmpty()) zero = v->zeros();
          if (warning.isEmpty()) warning = v->warning();
        }
        // Elsewhere than on Author nothing else tells what is wrong, as a pin that a hint for a fusion does not leave its kernel.
        if (errors > 0)
          showStatus("error", counted(errors, tr("error"), tr("errors")) +
                                  (page() == Page::Author ? QString() : QStringLiteral(": ") + first));
        else if (!failure.isEmpty()) showStatus("error", tr("Failed: %1").arg(failure.section(QLatin1Char('\n'), 0, 0)));
        else if (m_tab->notebook->awaitsAnswers() || m_inspector->checking()) showStatus("running", checkingText());
        else if (!zero.isEmpty()) showStatus("warning", zero.section(QLatin1Char('\n'), 0, 0));
        else if (!warning.isEmpty()) showStatus("warning", warning.section(QLatin1Char('\n'), 0, 0));
        else if (m_tab->notebook->proves() || m_inspector->proves()) showStatus("running", provingText());
        else
          showStatus("proved",
                     tr("Parse, shapes and gradient up to date") +
                         (m_tab->workspace->millisecondsAfterKey()
                              ? tr(", %1 ms after the last key").arg(static_cast<int>(*m_tab->workspace->millisecondsAfterKey()))
                              : QString()));
      }
  }
  showStep();
  // What the kernels run on is what everything is counted with; all of the device where that is more stands in the tooltip.
  QString constants, what, whole;
  if (m_tab->workspace->devices()) {
    const auto& devices = m_tab->workspace->devices()->devices;
    const bool inUse = std::ranges::any_of(devices, &protocol::DeviceInfo::inUse);
    for (const auto& d : devices) {
      if (!d.unavailable.empty() || (inUse ? !d.inUse : !d.constants || !constants.isEmpty())) continue;
      if (d.constants) {
        const auto& used = d.kernels ? *d.kernels : *d.constants;
        constants = scopeText(used, d.constants->threads) + QStringLiteral(":  ") + nf::constantsText(used);
        const auto lines = [](const QString& scope, const protocol::DeviceConstants& k) {
          return scope + QLatin1Char('\n') + constantLines(k).join(QLatin1Char('\n'));
        };
        what = lines(scopeText(used, d.constants->threads), used);
        whole = d.kernels ? lines(scopeText(*d.constants), *d.constants) : QString();
        m_tune->setDevice(used);
      } else {
        constants = tr("%1: not measured").arg(QString::fromStdString(d.name));
        what = tr("No constants of %1 are measured: decisions count with assumed ones, and there is no roofline.")
                   .arg(QString::fromStdString(d.name));
        m_tune->setDevice(std::nullopt);
      }
    }
  }
  m_constants->setText(constants);
  m_constants->setToolTip(whole.isEmpty()
                              ? what
                              : tr("What kernels run on, and decisions, roofline and profile count with:") + QLatin1Char('\n') +
                                    what + QLatin1Char('\n') + tr("All of it:") + QLatin1Char('\n') + whole);
}

void MainWindow::refreshDevice() {
  QString text = tr("No device yet");
  if (m_tab->workspace->devices())
    for (const auto& d : m_tab->workspace->devices()->devices)
      if (d.unavailable.empty() && (d.inUse || text == tr("No device yet") || text == QLatin1String("reference")))
        text = QString::fromStdString(d.name);
  m_device->setText(text);
}

QString MainWindow::statusText() const { return m_status->text(); }
QString MainWindow::constantsText() const { return m_constants->text(); }

}  // namespace nf
