// SPDX-License-Identifier: GPL-3.0-or-later
// What the window shows of the current notebook: titles, outline, status, inspector, and where things lead.
#include <QBoxLayout>
#include <QFileInfo>
#include <QLabel>
#include <QLocale>
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
      m_tune->setRun(m_tab->workspace->steps(), m_tab->workspace->swaps(), m_tab->workspace->evals());
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
  m_devices->setRunning(runs ? run.device : std::string(), QString::fromLatin1(phases[static_cast<std::size_t>(run.phase)]));
  for (QTimer* timer : {&m_profileTimer, &m_valuesTimer}) {
    if (m_tab->workspace->running() && !timer->isActive()) timer->start();
    else if (!m_tab->workspace->running()) timer->stop();
  }
}

// The last values of a run that has ended, and what its kernels took.
void MainWindow::refreshValues() {
  Workspace& w = *m_tab->workspace;
  if (w.engineState() != EngineLink::State::Ready) return;
  const auto refresh = [&w](const TensorView* view) {
    if (view && !view->tensor().isEmpty()) w.wantSlice(view->request());
  };
  refresh(m_inspector->values());
  for (const CellView* v : m_tab->notebook->cells())
    if (v->tensorView() && v->tensorView()->isVisibleTo(v)) refresh(v->tensorView());
  w.wantSubgraphs();
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
  askOnce("engine", m_tab->engineLost,
          m_tab->engineDown    ? QStringList{tr("Restart the engine")}
          : m_tab->interrupted ? QStringList{resumes ? tr("Resume training") : tr("Train again")}
                               : QStringList());
}

// Where the cursor is; while whole cells are chosen that they are, and what the last letter did to them.
void MainWindow::refreshPlace() {
  const NotebookView* n = m_tab->notebook;
  if (page() != Page::Author) return m_place->clear();
  if (const QString last = n->lastCommand(); !last.isEmpty()) return m_place->setText(last);
  if (!n->editing()) return m_place->setText(tr("Whole cells: Enter writes into one"));
  const std::string& text = m_tab->workspace->document().text();
  const std::string_view before = std::string_view(text).substr(0, std::min(n->caretByte(), text.size()));
  const std::size_t newline = before.rfind('\n');
  const std::string_view line = before.substr(newline == std::string_view::npos ? 0 : newline + 1);
  m_place->setText(
      tr("Ln %1, Col %2").arg(std::count(before.begin(), before.end(), '\n') + 1).arg(unitOffset(line, line.size()) + 1));
}

void MainWindow::refreshTitle() {
  const bool modified = m_tab->workspace->document().modified();
  m_name->setText(m_tab->workspace->name());
  m_state->setText(m_tab->workspace->document().readOnly()                    ? tr("read-only")
                   : m_tab->workspace->onDisk() == Workspace::OnDisk::Deleted ? tr("deleted on disk")
                   : m_tab->workspace->onDisk() == Workspace::OnDisk::Changed ? tr("changed on disk")
                   : modified                                                 ? tr("edited")
                   : !m_tab->workspace->writable()                            ? tr("cannot be written")
                   : m_tab->workspace->path().isEmpty()                       ? tr("not saved yet")
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

void MainWindow::refreshOutline() {
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
                    .trimmed();
      entry.title = QStringLiteral("%1  %2").arg(number).arg(title.isEmpty() ? tr("empty") : title);
      if (v) {
        entry.status = v->neverTrained() ? -1 : static_cast<int>(v->status());
        switch (v->status()) {
          case CellStatus::Ok: entry.state = v->stoppedEarly() ? tr("stopped") : QString(); break;
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

void MainWindow::setStatus(const QString& icon, const QString& text) {
  const Palette& c = m_theme->colors();
  const QColor color = icon == QLatin1String("error")                                   ? c.failed
                       : icon == QLatin1String("proved") || icon == QLatin1String("ok") ? c.proved
                       : icon == QLatin1String("running")                               ? c.accent
                       : icon == QLatin1String("warning")                               ? c.stale
                                                                                        : c.muted;
  m_statusIcon->setPixmap(m_theme->pixmap(icon, color, devicePixelRatioF()));
  m_status->setText(text);
  m_status->setToolTip(text);
}

QString MainWindow::checkingText() { return tr("Checking the gradients"); }
QString MainWindow::provingText() { return tr("Parse and shapes up to date; the proof of a gradient is under way"); }

void MainWindow::refreshStatus() {
  using State = EngineLink::State;
  const auto& run = m_tab->workspace->runState();
  constexpr auto phases = protocol::enumNames(protocol::RunPhase{});
  switch (m_tab->workspace->engine().state()) {
    case State::Stopped:
    case State::Starting: setStatus("running", tr("Starting the engine")); break;
    case State::Dead: setStatus("error", tr("The engine is gone; the notebook can be edited and saved")); break;
    case State::Ready:
      if (m_tab->workspace->running()) {
        QString text = QString::fromLatin1(phases[static_cast<std::size_t>(run.phase)]);
        text[0] = text[0].toUpper();
        if (run.step > 0) text += tr(", step %1").arg(grouped(run.step));
        if (!run.detail.empty()) text += QStringLiteral(", ") + QString::fromStdString(run.detail);
        if (run.secondsLeft) text += tr(", %1 left").arg(secondsText(*run.secondsLeft));
        const TrainStrip* training = strip(m_tab);
        const QStringList warnings = training ? training->warnings() : QStringList();
        if (!warnings.isEmpty()) text += QStringLiteral("  ·  ") + warnings.back().section(QLatin1Char('\n'), 0, 0);
        setStatus(warnings.isEmpty() ? "running" : "warning", text);
      } else if (m_tab->workspace->runAsked()) {
        setStatus("running", tr("Preparing"));
      } else if (!m_tab->workspace->analysisIsCurrent()) {
        const bool waits = !m_tab->runWhenChecked.empty();
        if (!waits || !waitsForCheck(tr("the cell runs"))) setStatus("running", tr("Checking"));
      } else {
        int errors = 0;
        for (const auto& d : m_tab->workspace->analysis().diagnostics) errors += d.severity == protocol::Severity::Error;
        QString failure, zero, warning;
        for (const CellView* v : m_tab->notebook->cells()) {
          if (failure.isEmpty()) failure = v->failure();
          if (zero.isEmpty()) zero = v->zeros();
          if (warning.isEmpty()) warning = v->warning();
        }
        if (errors > 0) setStatus("error", counted(errors, tr("error"), tr("errors")));
        else if (!failure.isEmpty()) setStatus("error", tr("Failed: %1").arg(failure.section(QLatin1Char('\n'), 0, 0)));
        else if (m_tab->notebook->awaitsAnswers() || m_inspector->checking()) setStatus("running", checkingText());
        else if (!zero.isEmpty()) setStatus("warning", zero.section(QLatin1Char('\n'), 0, 0));
        else if (!warning.isEmpty()) setStatus("warning", warning.section(QLatin1Char('\n'), 0, 0));
        else if (m_tab->notebook->proves() || m_inspector->proves()) setStatus("running", provingText());
        else
          setStatus("proved",
                    tr("Parse, shapes and gradient up to date") +
                        (m_tab->workspace->millisecondsAfterKey()
                             ? tr(", %1 ms after the last key").arg(static_cast<int>(*m_tab->workspace->millisecondsAfterKey()))
                             : QString()));
      }
  }
  // What the kernels run on is what everything is counted with; all of the device where that is more stands in the tooltip.
  QString constants, what, whole;
  if (m_tab->workspace->devices())
    for (const auto& d : m_tab->workspace->devices()->devices)
      if (d.constants && (d.inUse || constants.isEmpty()) && d.unavailable.empty()) {
        const auto& used = d.kernels ? *d.kernels : *d.constants;
        constants = scopeText(used, d.constants->threads) + QStringLiteral(":  ") + nf::constantsText(used);
        const auto lines = [](const QString& scope, const protocol::DeviceConstants& k) {
          return scope + QLatin1Char('\n') + constantLines(k).join(QLatin1Char('\n'));
        };
        what = lines(scopeText(used, d.constants->threads), used);
        whole = d.kernels ? lines(scopeText(*d.constants), *d.constants) : QString();
        m_tune->setDevice(used);
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

void MainWindow::inspect(const QString& name) {
  if (m_inspector->pinned() && name != m_inspector->tensor()) return;
  const auto* t = m_tab->workspace->tensor(name.toStdString());
  if (!t) return;
  m_tab->inspected = name;
  m_inspector->setTensor(*t);
  m_tab->workspace->wantExpression(name);
  m_tab->workspace->wantSlice(m_inspector->values()->request());
  refreshLeads();
}

void MainWindow::chooseTensor(const QString& name) {
  const auto tensors = withParts({name.toStdString()});
  m_selection.select(placesOf(tensors), tensors);
  inspect(name);
}

// A derivative is the partial sums that it is made of, "d(L)/d(T)#1", too; itself last.
std::vector<std::string> MainWindow::withParts(const std::vector<std::string>& tensors) const {
  if (tensors.empty()) return tensors;
  const std::string& whole = tensors.back();
  const std::string stem = whole + '#';
  const auto* t = m_tab->workspace->tensor(whole);
  if (!t || !t->derivative || std::any_of(tensors.begin(), tensors.end() - 1, [&](const auto& n) { return !n.starts_with(stem); }))
    return tensors;
  std::set<std::string> parts;
  for (const protocol::GraphPage* graph : {&m_explain->graph()->graph(), m_explain->graph()->plan()})
    if (graph && graph->revision == m_tab->workspace->analysis().revision)
      for (const auto& node : graph->nodes)
        if (node.id.starts_with(stem)) parts.insert(node.id);
  std::vector<std::string> all(parts.begin(), parts.end());
  all.push_back(whole);
  return all;
}

// What makes these came from, for each of spans in one another the innermost: kernels and formulas know it by these. The name of a
// gradient in a `show` is no part of any of them, but it is where the notebook has it; so is the name of what a function makes. What
// nothing makes, a parameter, is known by where it is read.
protocol::Origins MainWindow::placesOf(const std::vector<std::string>& tensors) const {
  protocol::Origins places;
  const auto& spans = m_selection.spans();
  const auto add = [&](const protocol::Origins& origins) {
    for (const auto o : origins) {
      if (o >= spans.size()) continue;
      const bool holds = std::any_of(origins.begin(), origins.end(), [&](std::uint32_t k) {
        return k < spans.size() && spans[o].source == spans[k].source && spans[o].begin <= spans[k].begin &&
               spans[o].end >= spans[k].end && spans[o].end - spans[o].begin > spans[k].end - spans[k].begin;
      });
      if (!holds && std::find(places.begin(), places.end(), o) == places.end()) places.push_back(o);
    }
  };
  const auto* plan = m_explain->graph()->plan();
  for (const std::string& tensor : tensors) {
    const auto* t = m_tab->workspace->tensor(tensor);
    // The node of two statements that compute one thing comes from both.
    const bool written = t && !t->derivative && !t->origins.empty();
    for (const protocol::GraphPage* graph : {&m_explain->graph()->graph(), plan})
      if (!written && graph && graph->revision == m_tab->workspace->analysis().revision)
        for (const auto& node : graph->nodes)
          if (node.id == tensor) add(node.origins);
    if (t) {
      if (t->derivative || written || places.empty()) add(t->origins);
      for (const std::uint32_t reader : t->readers) add({reader});
      // The statement of an operator holds its name.
      const auto isHeld = [&](const protocol::SourceSpan& name) {
        return std::any_of(t->origins.begin(), t->origins.end(), [&](std::uint32_t o) {
          return o < spans.size() && spans[o].source.empty() && spans[o].begin <= name.begin && spans[o].end >= name.end;
        });
      };
      for (const auto& s : m_tab->workspace->analysis().symbols)
        if (const auto* token = tokenAt(s.definition); token && token->tensor == tensor && token->inside.empty())
          if (!isHeld(s.definition)) add(token->origins);
    }
  }
  return places;
}

const protocol::TokenInfo* MainWindow::tokenAt(const protocol::SourceSpan& span) const {
  if (!span.source.empty() || span.begin >= span.end) return nullptr;
  const auto& tokens = m_tab->workspace->analysis().tokens;
  const auto found = std::lower_bound(tokens.begin(), tokens.end(), span, [](const auto& token, const protocol::SourceSpan& s) {
    return token.begin < s.begin || (token.begin == s.begin && token.end > s.end);
  });
  return found != tokens.end() && found->begin == span.begin && found->end == span.end ? &*found : nullptr;
}

// The longest in the selected place. A part of a statement in a loop that is no token stands for what the statement makes.
const protocol::TokenInfo* MainWindow::selectedToken() const {
  const Selection& selection = m_tab->workspace->selection();
  const protocol::TokenInfo *best = nullptr, *holder = nullptr;
  const auto length = [](const protocol::TokenInfo& token) { return token.end - token.begin; };
  for (const auto& token : m_tab->workspace->analysis().tokens) {
    const Selection::Relation relation = selection.relation(token.origins);
    if (relation == Selection::Relation::Exact && (!best || length(token) > length(*best))) best = &token;
    if (relation == Selection::Relation::Around && !token.inside.empty() && (!holder || length(token) < length(*holder)))
      holder = &token;
  }
  if (!best || !holder) return best ? best : holder;
  const auto places = selection.selectedSpans();
  const bool whole =
      std::any_of(places.begin(), places.end(), [&](const auto& s) { return s.begin == best->begin && s.end == best->end; });
  return whole ? best : holder;
}

void MainWindow::pinInspector(const QString& tensor) {
  m_inspector->setPinned(false);
  inspect(tensor);
  m_inspector->setPinned(true);
  if (const auto* t = m_tab->workspace->tensor(tensor.toStdString()); t && t->derivative) m_inspector->beginCheck();
}

// What was chosen by its name comes into sight in the text, once for each choice.
void MainWindow::revealSelection() {
  if (page() != Page::Author || m_selection.tensors().empty() || !m_tab->workspace->analysisIsCurrent()) return;
  const auto spans = m_selection.selectedSpans();
  if (spans.empty() || std::exchange(m_revealed, m_selection.choices()) == m_selection.choices()) return;
  // A page that was hidden has its size from here on.
  QTimer::singleShot(0, m_tab->notebook, [notebook = m_tab->notebook, spans] { notebook->reveal(spans); });
}

// The one tensor that is made there; empty: none, or several, or places that make nothing among them.
std::string MainWindow::tensorMadeAt(const protocol::Origins& origins) const {
  std::set<std::string> made;
  const auto& analysis = m_tab->workspace->analysis();
  for (const auto id : origins) {
    if (id >= analysis.spans.size()) continue;
    bool makes = false;
    const auto note = [&](const std::string& name) { made.insert(name), makes = true; };
    const protocol::TokenInfo* token = tokenAt(analysis.spans[id]);
    if (token && !token->inside.empty()) return {};  // it makes a part of what the loop makes
    for (const auto& s : analysis.symbols)
      if (s.definition == analysis.spans[id] && s.definition.begin < s.definition.end) {
        // A name that a loop gives another value, or a second name of a tensor, says which one it is here.
        const bool other = token && (token->tensor.starts_with(s.name + '#') || !m_tab->workspace->tensor(s.name));
        if (const std::string& name = other ? token->tensor : s.name; m_tab->workspace->tensor(name)) note(name);
      }
    for (const auto& t : analysis.tensors)
      if (t.origins == protocol::Origins{id}) note(t.name);
    if (!makes) return {};
  }
  return made.size() == 1 ? *made.begin() : std::string();
}

// The tensor of the smallest selected token; else the one whose definition is selected.
void MainWindow::inspectSelection() {
  const Selection& selection = m_tab->workspace->selection();
  if (selection.empty()) {
    // Nothing chosen yet: the last thing a cell shows is what the notebook is about.
    if (m_tab->inspected.isEmpty())
      for (const auto& cell : m_tab->workspace->analysis().cells)
        if (!cell.shows.empty()) m_tab->inspected = QString::fromStdString(cell.shows.back());
    if (!m_tab->inspected.isEmpty()) inspect(m_tab->inspected);
    return;
  }
  if (!selection.tensors().empty()) {
    if (auto all = withParts(selection.tensors()); all != selection.tensors()) return m_selection.call(std::move(all));
    if (const auto places = placesOf(selection.tensors()); !places.empty()) m_selection.place(places);
    revealSelection();
    // What is computed again, "Y#2", is Y; an operator that has no tensor in the notebook has none to show.
    for (auto tensor = selection.tensors().rbegin(); tensor != selection.tensors().rend(); ++tensor)
      for (const std::string& name : {*tensor, tensor->substr(0, tensor->find('#'))})
        if (m_tab->workspace->tensor(name)) return inspect(QString::fromStdString(name));
    return;
  }
  // The place of a statement, or of the name that it defines, is that of the tensor that it makes.
  if (const auto made = tensorMadeAt(selection.origins()); !made.empty()) return m_selection.call({made});
  if (const protocol::TokenInfo* token = selectedToken()) {
    if (selection.reads() != token->tensor) return m_selection.read(token->tensor);
    if (!token->tensor.empty()) return inspect(QString::fromStdString(token->tensor));
    if (m_inspector->pinned()) return;
    m_tab->inspected.clear();
    return m_inspector->setMadeInLoop(QString::fromStdString(token->inside));
  }
  // What several tensors come from is none of them: `epochs` of a training.
  const protocol::TensorInfo* only = nullptr;
  for (const auto& t : m_tab->workspace->analysis().tensors)
    if (selection.relation(t.origins) == Selection::Relation::Exact) {
      if (only) return;
      only = &t;
    }
  if (only) inspect(QString::fromStdString(only->name));
}

// Where the selection leads: its text, the nodes and fused group, the kernel in each of its forms.
std::vector<Lead> MainWindow::leadsOf(const protocol::Origins& origins, const std::vector<std::string>& tensors, bool token) {
  constexpr std::size_t kMostNodes = 8, kMostKernels = 6, kMostWhole = 2;
  const std::string& tensor = tensors.back();
  std::vector<Lead> leads;
  Selection probe;
  probe.setSpans(m_tab->workspace->analysis().spans);
  probe.select(origins);
  const auto& graph = m_explain->graph()->graph();
  constexpr auto phases = protocol::enumNames(protocol::Phase{});
  const auto related = [&](const protocol::Origins& places) {
    const Selection::Relation relation = probe.relation(places);
    return relation == Selection::Relation::Exact || (token && relation == Selection::Relation::Around);
  };
  // The update of a parameter has its place in `train`, where that of every other one is: it is known by what it becomes.
  const auto updates = [&](const std::string& id) {
    return std::any_of(graph.edges.begin(), graph.edges.end(),
                       [&](const auto& e) { return e.carried && e.from == id && e.to == tensor; });
  };
  std::vector<std::string> ids;
  std::set<std::string> gradients;
  for (const auto& node : graph.nodes) {
    if (std::find(tensors.begin(), tensors.end(), node.id) == tensors.end() && !related(node.origins) && !updates(node.id))
      continue;
    ids.push_back(node.id);
    if (const auto* t = m_tab->workspace->tensor(node.id.substr(0, node.id.find('#'))); token && t && t->derivative)
      gradients.insert(t->name);
    if (ids.size() > kMostNodes) continue;
    leads.push_back({QStringLiteral("graph"), tr("Node %1").arg(shortName(node.name)),
                     QString::fromLatin1(phases[static_cast<std::size_t>(node.phase)]),
                     QStringLiteral("node:") + QString::fromStdString(node.id)});
  }
  for (const std::string& name : gradients)
    leads.push_back({QStringLiteral("sum"),
                     tr("Gradient %1").arg(derivativeText(QString::fromStdString(name))),
                     {},
                     QStringLiteral("tensor:") + QString::fromStdString(name)});
  for (const auto& group : graph.groups)
    if (group.nodes.size() > 1 && std::any_of(group.nodes.begin(), group.nodes.end(), [&](const std::string& id) {
          return std::find(ids.begin(), ids.end(), id) != ids.end();
        }))
      leads.push_back({QStringLiteral("group"), tr("Fused group %1").arg(kernelName(group.name, 28)),
                       QString::fromStdString(group.id), QStringLiteral("node:") + QString::fromStdString(group.nodes.front())});
  std::size_t kernels = 0;
  const auto& subgraphs = m_tab->workspace->subgraphs().subgraphs;
  for (const auto& s : subgraphs) {
    const bool own = std::any_of(s.operators.begin(), s.operators.end(), [&](const std::string& op) {
      return std::find(tensors.begin(), tensors.end(), op) != tensors.end() || std::find(ids.begin(), ids.end(), op) != ids.end();
    });
    if (!own && !related(s.origins)) continue;
    if (++kernels > kMostKernels) break;
    const QString id = QString::fromStdString(s.id);
    leads.push_back({QStringLiteral("bars"), tr("Kernel %1").arg(kernelName(s.name, 28)),
                     s.us ? microsecondsText(*s.us) : tr("not measured"), QStringLiteral("kernel:") + id});
    if (kernels > kMostWhole) continue;
    leads.push_back({QStringLiteral("loop"), tr("Loop nest"), QString::fromStdString(s.kind), QStringLiteral("loops:") + id});
    const bool shown = m_tune->current() == s.id && m_selection.origins() == origins;
    const std::int64_t lines = shown ? m_tune->kernel()->machineLines() : 0;
    leads.push_back({QStringLiteral("code"), tr("Machine code"), lines > 0 ? counted(lines, tr("line"), tr("lines")) : QString(),
                     QStringLiteral("code:") + id});
  }
  const auto made = std::find(ids.begin(), ids.end(), tensor);
  const auto& ops = graph.nodes;
  if (kernels == 0 && made != ids.end() && !subgraphs.empty() && std::any_of(ops.begin(), ops.end(), [&](const auto& node) {
        return node.id == tensor && node.kind == protocol::NodeKind::Operator;
      }))
    leads.push_back({QStringLiteral("stale"), tr("No kernel of a step: training leaves it out"), tr("a show runs it"),
                     QStringLiteral("node:") + QString::fromStdString(tensor)});
  return leads;
}

void MainWindow::refreshLeads() {
  if (const auto* t = m_tab->workspace->tensor(m_tab->inspected.toStdString())) {
    const bool token = m_selection.tensors().empty() && !m_selection.empty() && m_selection.reads() == t->name;
    // What no operator makes is known by where it is read, as a token is.
    m_inspector->setLeads(token                 ? leadsOf(m_selection.origins(), {t->name}, true)
                          : !t->readers.empty() ? leadsOf(placesOf({t->name}), {t->name}, true)
                                                : leadsOf(t->origins, withParts({t->name}), false));
  }
  const auto* decision = m_explain->chosenDecision();
  if (!decision) return;
  std::vector<Lead> leads;
  const auto& spans = m_tab->workspace->analysis().spans;
  const std::string& text = m_tab->workspace->document().text();
  if (m_tab->workspace->analysisIsCurrent())
    for (const auto id : decision->origins) {
      if (id >= spans.size() || !spans[id].source.empty() || spans[id].end > text.size() || leads.size() >= 2) continue;
      const QString source = QString::fromStdString(text.substr(spans[id].begin, spans[id].end - spans[id].begin)).simplified();
      leads.push_back({QStringLiteral("text"), tr("Source"), source.size() > 24 ? source.left(23) + QChar(0x2026) : source,
                       QStringLiteral("byte:%1").arg(spans[id].begin)});
    }
  for (const std::string& name : {decision->producer, decision->consumer})
    if (name.starts_with("d(") && m_tab->workspace->tensor(name))
      leads.push_back({QStringLiteral("sum"),
                       tr("Gradient %1").arg(shortName(name)),
                       {},
                       QStringLiteral("tensor:") + QString::fromStdString(name)});
  for (Lead& lead : leadsOf({}, {decision->consumer}, false)) leads.push_back(std::move(lead));
  m_explain->card()->setLeads(leads);
}

void MainWindow::follow(const QString& target) {
  const QString kind = target.section(QLatin1Char(':'), 0, 0), id = target.section(QLatin1Char(':'), 1);
  if (kind == QLatin1String("node")) {
    showPage(Page::Explain);
    m_explain->graph()->choose(id, true);
  } else if (kind == QLatin1String("byte")) {
    showPage(Page::Author);
    m_tab->notebook->scrollToByte(id.toULongLong(), true);
  } else if (kind == QLatin1String("tensor")) {
    showPage(Page::Author);
    chooseTensor(id);
  } else {
    showPage(Page::Tune);
    m_tune->chooseSubgraph(id.toStdString());
    if (kind == QLatin1String("loops")) m_tune->kernel()->showLanguage(QStringLiteral("loops"));
    if (kind == QLatin1String("code")) m_tune->kernel()->showMachineCode();
  }
}

QString MainWindow::statusText() const { return m_status->text(); }
QString MainWindow::constantsText() const { return m_constants->text(); }

}  // namespace nf
