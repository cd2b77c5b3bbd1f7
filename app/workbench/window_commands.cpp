// SPDX-License-Identifier: GPL-3.0-or-later
// The commands of the window: the registry's entries, the menus made of it, and what they do.
#include <signal.h>

#include <QActionGroup>
#include <QApplication>
#include <QDialog>
#include <QDialogButtonBox>
#include <QDockWidget>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenu>
#include <QMenuBar>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSettings>
#include <QStackedWidget>
#include <QTabBar>
#include <QTextBlock>
#include <QTextCursor>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

#include "app/workbench/main_window.h"
#include "app/workbench/newest_run.h"
#include "app/workbench/shortcuts.h"
#include "widgets/basic.h"
#include "widgets/cell_view.h"
#include "widgets/decision_card.h"
#include "widgets/devices_view.h"
#include "widgets/dock_page.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/message_bar.h"
#include "widgets/notebook_view.h"
#include "widgets/plots.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {

void MainWindow::makeActions() {
  using Keys = QList<QKeySequence>;
  const auto keys = [](QKeySequence::StandardKey key) { return QKeySequence::keyBindings(key); };
  const auto one = [](const char* key) { return Keys{QKeySequence(QString::fromLatin1(key))}; };
  QString group;
  const auto add = [&](const char* id, const QString& text, const Keys& shortcut, std::function<void()> run, const char* icon = "",
                       const char* notebookKey = "") {
    m_actions->add(QString::fromLatin1(id), group, text, shortcut, std::move(run), QString::fromLatin1(icon),
                   QString::fromLatin1(notebookKey));
  };
  group = tr("File");
  add("file.new", tr("New notebook"), one("Ctrl+N"), [this] {
    showTab(indexOf(newTab()));
    showPage(Page::Author);
  });
  add("file.open", tr("Open..."), one("Ctrl+O"), [this] {
    const QString path =
        QFileDialog::getOpenFileName(this, tr("Open a notebook"), workspace().path(), tr("Notebooks (*.nf);;All files (*)"));
    if (!path.isEmpty()) openFile(path);
  });
  add("file.save", tr("Save"), one("Ctrl+S"), [this] { save(false); });
  add("file.saveAs", tr("Save as..."), one("Ctrl+Shift+S"), [this] { save(true); });
  add("file.compare", tr("Compare with the file"), {}, [this] { compareWithDisk(); });
  add("file.exportHtml", tr("Export as HTML report..."), {},
      [this] { exportAs(tr("Export as an HTML report"), tr("HTML (*.html)"), QStringLiteral("html"), &MainWindow::exportHtml); });
  add("file.exportPdf", tr("Export as PDF..."), {},
      [this] { exportAs(tr("Export as PDF"), tr("PDF (*.pdf)"), QStringLiteral("pdf"), &MainWindow::exportPdf); });
  add("file.close", tr("Close notebook"), one("Ctrl+W"), [this] { closeTab(indexOf(m_tab)); });
  add("file.next", tr("Next notebook"), {QKeySequence(Qt::CTRL | Qt::Key_PageDown), QKeySequence(Qt::CTRL | Qt::Key_Tab)},
      [this] { showTab((indexOf(m_tab) + 1) % static_cast<int>(m_tabs.size())); });
  add("file.previous", tr("Previous notebook"),
      {QKeySequence(Qt::CTRL | Qt::Key_PageUp), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Tab)}, [this] {
        const int n = static_cast<int>(m_tabs.size());
        showTab((indexOf(m_tab) + n - 1) % n);
      });
  add("file.quit", tr("Quit"), one("Ctrl+Q"), [this] { close(); });
  group = tr("Edit");
  add(
      "edit.undo", tr("Undo"), keys(QKeySequence::Undo), [this] { undoOrRedo(true); }, "undo", "Z");
  add(
      "edit.redo", tr("Redo"), {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Z), QKeySequence(Qt::CTRL | Qt::Key_Y)},
      [this] { undoOrRedo(false); }, "redo");
  const auto text = [](const char* slot) {
    return [slot] {
      if (QWidget* w = QApplication::focusWidget()) QMetaObject::invokeMethod(w, slot);
    };
  };
  // The keys are the field's own: it takes them before a command of the window could.
  add("edit.cut", tr("Cut text"), {}, text("cut"));
  add("edit.copy", tr("Copy text"), {}, text("copy"));
  add("edit.paste", tr("Paste text"), {}, text("paste"));
  add("edit.all", tr("Select all text"), {}, text("selectAll"));
  add(
      "edit.find", tr("Find..."), one("Ctrl+F"), [this] { openFind(false); }, "search");
  add("edit.replace", tr("Replace..."), one("Ctrl+H"), [this] { openFind(true); });
  add("edit.rename", tr("Rename..."), one("F2"), [this] { openRename(); });
  add("edit.definition", tr("Go to definition"), one("F12"), [this] { goToDefinition(); });
  add("edit.findNext", tr("Next place found"), one("F3"), [this] { stepFound(1); });
  add("edit.findPrevious", tr("Previous place found"), one("Shift+F3"), [this] { stepFound(-1); });
  add("edit.nextMistake", tr("Next mistake"), one("F8"), [this] { stepMistake(1); });
  add("edit.previousMistake", tr("Previous mistake"), one("Shift+F8"), [this] { stepMistake(-1); });
  group = tr("Cell");
  add(
      "cell.above", tr("Insert cell above"), {}, [this] { insertCell(&NotebookView::insertAbove); }, "", "A");
  add(
      "cell.below", tr("Insert cell below"), {}, [this] { insertCell(&NotebookView::insertBelow); }, "", "B");
  add("cell.text", tr("Insert text below"), {}, [this] {
    notebook()->insertBelow();
    notebook()->toggleKind();
    notebook()->activate(notebook()->activeCell(), true);
  });
  add("cell.up", tr("Move cell up"), one("Alt+Up"), [this] { notebook()->moveActive(-1); });
  add("cell.down", tr("Move cell down"), one("Alt+Down"), [this] { notebook()->moveActive(1); });
  add("cell.split", tr("Split cell at the cursor"), one("Ctrl+Shift+-"), [this] { notebook()->splitActive(); });
  add("cell.join", tr("Join with the next cell"), {}, [this] { notebook()->joinActive(); });
  add(
      "cell.kind", tr("Code or Markdown"), {}, [this] { notebook()->toggleKind(); }, "", "M  Y");
  add(
      "cell.cut", tr("Cut cell"), {}, [this] { notebook()->cutActive(); }, "", "X");
  add(
      "cell.copy", tr("Copy cell"), {}, [this] { notebook()->copyActive(); }, "", "C");
  add(
      "cell.paste", tr("Paste cell below"), {}, [this] { notebook()->pasteBelow(); }, "", "V");
  add(
      "cell.remove", tr("Delete cell"), {}, [this] { notebook()->removeActive(); }, "", "D D");
  group = tr("Run");
  add(
      "run.cell", tr("Run cell"), {QKeySequence(Qt::SHIFT | Qt::Key_Return), QKeySequence(Qt::SHIFT | Qt::Key_Enter)},
      [this] { runActive(AfterRun::Next); }, "run");
  add("run.stay", tr("Run cell and stay"), {QKeySequence(Qt::CTRL | Qt::Key_Return), QKeySequence(Qt::CTRL | Qt::Key_Enter)},
      [this] { runActive(AfterRun::Stay); });
  add("run.insert", tr("Run cell and insert below"),
      {QKeySequence(Qt::ALT | Qt::Key_Return), QKeySequence(Qt::ALT | Qt::Key_Enter)},
      [this] { runActive(AfterRun::InsertBelow); });
  add("run.all", tr("Run all cells: every shown value"), one("Ctrl+Shift+Return"), [this] { runAll(); });
  add("run.train", tr("Train"), {}, [this] { train(); });
  add("run.resume", tr("Resume training"), {}, [this] { resumeTraining(); });
  add(
      "run.pause", tr("Pause"), {}, [this] { workspace().pause(workspace().runState().phase != protocol::RunPhase::Paused); },
      "pause");
  add(
      "run.stop", tr("Stop"), one("Ctrl+."), [this] { workspace().stop(); }, "stop");
  add("run.restart", tr("Restart the engine"), {}, [this] { workspace().startEngine(); });
  add("run.runs", tr("Runs of this notebook..."), {}, [this] { showRuns(); });
  add("run.check", tr("Numeric check of the gradient"), {}, [this] { checkGradient(); });
  group = tr("Explain");
  // As the buttons of the decision's card, which say what cannot be had by not being there.
  const auto decide = [&](const char* id, const QString& text, QPushButton* (DecisionCard::*button)() const) {
    add(id, text, {}, [this, button] {
      showPage(Page::Explain);
      QPushButton* const pressed = (m_explain->card()->*button)();
      if (pressed->isVisible() && pressed->isEnabled()) return pressed->click();
      setStatus("warning", m_explain->chosenDecision() ? tr("This decision leaves no such choice")
                                                       : tr("Choose a row of the table of decisions first"));
    });
  };
  decide("explain.force", tr("Force the fusion"), &DecisionCard::force);
  decide("explain.forbid", tr("Forbid the fusion"), &DecisionCard::forbid);
  decide("explain.release", tr("Let the reward decide"), &DecisionCard::release);
  decide("explain.measure", tr("Measure the fusion A/B"), &DecisionCard::measure);
  group = tr("Tune");
  add("tune.start", tr("Tune without training"), {}, [this] {
    if (engineAnswers()) workspace().tell(protocol::TuneRequest{workspace().document().revision()});
  });
  // As the buttons of the knobs; one that cannot be pressed says why.
  const auto knobs = [&](const char* id, const QString& text, QPushButton* (TuneView::*button)() const) {
    add(id, text, {}, [this, button] {
      showPage(Page::Tune);
      QPushButton* const pressed = (m_tune->*button)();
      if (pressed->isEnabled()) return pressed->click();
      setStatus("warning", m_tune->current().empty()     ? tr("There is no kernel yet: train, or tune without training")
                           : m_tune->measuring()         ? tr("A schedule is being measured already")
                           : pressed == m_tune->pin()    ? pressed->toolTip()
                           : pressed == m_tune->replay() ? tr("This kernel has no trial yet that could run again")
                                                         : tr("The knobs say no schedule that this kernel can have"));
    });
  };
  knobs("tune.pin", tr("Pin or unpin the schedule"), &TuneView::pin);
  knobs("tune.replay", tr("Replay the chosen trial"), &TuneView::replay);
  knobs("tune.measure", tr("Measure the schedule"), &TuneView::measure);
  add("tune.profile", tr("Profile a step"), {}, [this] {
    if (!engineAnswers()) return;
    setStatus("running", tr("Profiling a step"));
    workspace().wantProfile();
  });
  add("tune.measureDevice", tr("Measure the devices again"), {}, [this] {
    if (!engineAnswers()) return;
    m_devices->setMeasuring(true);
    workspace().wantDevices(true);
  });
  group = tr("View");
  add("view.author", tr("Author"), one("Ctrl+1"), [this] { showPage(Page::Author); });
  add("view.explain", tr("Explain"), one("Ctrl+2"), [this] { showPage(Page::Explain); });
  add("view.tune", tr("Tune"), one("Ctrl+3"), [this] { showPage(Page::Tune); });
  add("view.devices", tr("Devices"), one("Ctrl+4"), [this] { showPage(Page::Devices); });
  add("view.zoomIn", tr("Zoom in"), {QKeySequence(Qt::CTRL | Qt::Key_Plus), QKeySequence(Qt::CTRL | Qt::Key_Equal)},
      [this] { zoom(1); });
  add("view.zoomOut", tr("Zoom out"), one("Ctrl+-"), [this] { zoom(-1); });
  add("view.zoomReset", tr("Zoom to 100 %"), one("Ctrl+0"), [this] { zoom(0); });
  const auto panel = [&](const char* id, const QString& text, Page page, DockPage* host, const char* name) {
    add(id, text, {}, [this, page, host, name] {
      QDockWidget* dock = host->panel(QString::fromLatin1(name));
      const bool shown = dock->isVisible();
      showPage(page);
      dock->setVisible(!shown);
    });
  };
  panel("view.outline", tr("Show or hide the outline"), Page::Author, m_author, "outline");
  panel("view.inspector", tr("Show or hide the inspector"), Page::Author, m_author, "inspector");
  panel("view.fusion", tr("Show or hide the fusion decisions"), Page::Explain, m_explain, "fusion");
  panel("view.decision", tr("Show or hide the chosen decision"), Page::Explain, m_explain, "decision");
  add("view.reset", tr("Reset the layout"), {}, [this] {
    QSettings().remove(QStringLiteral("layout"));
    for (DockPage* page : m_pages->findChildren<DockPage*>()) page->resetLayout();
  });
  add("view.light", tr("Light theme"), {}, [this] { chooseTheme(Theme::Mode::Light); });
  add("view.dark", tr("Dark theme"), {}, [this] { chooseTheme(Theme::Mode::Dark); });
  add("view.system", tr("Theme of the system"), {}, [this] { chooseTheme(Theme::Mode::System); });
  group = tr("Tools");
  // Of the plot that has the keyboard, else of those in sight one that shows something: the step latency, else the first. Where there is
  // none, null, and it is said.
  const auto plot = [this]() -> Plot* {
    const auto inSight = [](const Plot* p) {
      QRect seen = p->rect();  // its region is that of the chart within, which covers it
      for (const QWidget* w = p; w->parentWidget() && !w->isWindow(); w = w->parentWidget())
        seen = seen.translated(w->pos()).intersected(w->parentWidget()->rect());
      return p->isVisible() && !seen.isEmpty();
    };
    for (QWidget* w = QApplication::focusWidget(); w; w = w->parentWidget())
      if (auto* found = qobject_cast<Plot*>(w)) return found;
    QList<Plot*> plots = findChildren<Plot*>();
    plots.prepend(m_tune->latency());
    Plot* empty = nullptr;
    for (Plot* p : plots) {
      if (!inSight(p)) continue;
      if (!p->table().rows.empty()) return p;
      if (!empty) empty = p;
    }
    if (!empty) setStatus("warning", tr("No plot is in sight: the panel of a training and the Tune page have some"));
    return empty;
  };
  add("plot.table", tr("Plot as a table"), {}, [plot] {
    if (Plot* p = plot()) p->showTable(!p->showsTable());
  });
  for (const char* ending : {"csv", "json", "png", "svg"}) {
    const QString kind = QString::fromLatin1(ending);
    add(("plot." + kind).toLatin1().constData(), tr("Save the plot as %1...").arg(kind.toUpper()), {}, [this, plot, kind] {
      Plot* p = plot();
      if (p && p->table().rows.empty()) setStatus("warning", tr("The plot is empty: there is nothing to save yet"));
      else if (p) p->saveAs(kind);
    });
  }
  add("tools.go", tr("Go to anything"), one("Ctrl+K"), [this] { openPalette(true); });
  add("tools.palette", tr("Command palette"), one("Ctrl+Shift+P"), [this] { openPalette(false); });
  add("tools.message", tr("Answer the message"), one("F6"), [this] {
    if (!m_messages->focusNext()) setStatus("ok", tr("No message waits"));
  });
  add("tools.menu", tr("Menu bar"), one("F10"), [this] {
    menuBar()->setFocus(Qt::MenuBarFocusReason);
    menuBar()->setActiveAction(menuBar()->actions().front());
  });
  add("tools.shortcuts", tr("Change keyboard shortcuts..."), {}, [this] { editShortcuts(); });
  group = tr("Help");
  add("help.shortcuts", tr("Keys"), {QKeySequence(Qt::Key_F1), QKeySequence(Qt::Key_Question)}, [this] { showShortcuts(); });
}

// The history is the notebook's, whichever cell's text the menu is of.
void MainWindow::showTextMenu(ExpressionEditor* editor, const QPoint& at) {
  auto* menu = new QMenu(editor);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  const auto commands = [&](std::initializer_list<const char*> ids) {
    for (const char* id : ids) menu->addAction(action(QString::fromLatin1(id)));
    menu->addSeparator();
  };
  const auto text = [&](const QString& word, QKeySequence::StandardKey key, void (QPlainTextEdit::*command)(), bool enabled) {
    const QString keys = QKeySequence(key).toString(QKeySequence::NativeText);
    menu->addAction(word + QLatin1Char('\t') + keys, editor, command)->setEnabled(enabled);
  };
  const bool selected = editor->textCursor().hasSelection(), writable = !editor->isReadOnly();
  commands({"edit.undo", "edit.redo"});
  text(tr("Cut text"), QKeySequence::Cut, &QPlainTextEdit::cut, selected && writable);
  text(tr("Copy text"), QKeySequence::Copy, &QPlainTextEdit::copy, selected);
  text(tr("Paste text"), QKeySequence::Paste, &QPlainTextEdit::paste, editor->canPaste());
  text(tr("Select all text"), QKeySequence::SelectAll, &QPlainTextEdit::selectAll, !editor->document()->isEmpty());
  menu->addSeparator();
  commands({"edit.definition", "edit.rename"});
  commands({"cell.split", "run.cell"});
  menu->popup(at);
}

void MainWindow::makeMenus() {
  const auto menu = [this](const QString& title, std::initializer_list<const char*> ids) {
    QMenu* m = menuBar()->addMenu(title);
    for (const char* id : ids) {
      if (*id == '-') m->addSeparator();
      else m->addAction(action(QString::fromLatin1(id)));
    }
    return m;
  };
  QMenu* file = menu(tr("&File"), {"file.new", "file.open"});
  QMenu* recent = file->addMenu(tr("Open recent"));
  connect(recent, &QMenu::aboutToShow, this, [this, recent] {
    recent->clear();
    for (const QString& path : QSettings().value(QStringLiteral("recent")).toStringList())
      if (QFileInfo::exists(path)) {
        QString words = QFileInfo(path).fileName() + QStringLiteral("   ") + QFileInfo(path).path();
        recent->addAction(words.replace(QLatin1Char('&'), QLatin1String("&&")), this, [this, path] { openFile(path); });
      }
    if (recent->isEmpty()) recent->addAction(tr("No notebook yet"))->setEnabled(false);
  });
  file->addSeparator();
  for (const char* id : {"file.save", "file.saveAs", "file.compare"}) file->addAction(action(QString::fromLatin1(id)));
  file->addSeparator();
  for (const char* id : {"file.exportHtml", "file.exportPdf"}) file->addAction(action(QString::fromLatin1(id)));
  file->addSeparator();
  file->addAction(action(QStringLiteral("file.close")));
  file->addSeparator();
  file->addAction(action(QStringLiteral("file.quit")));
  QMenu* edit = menu(tr("&Edit"), {"edit.undo", "edit.redo", "-", "edit.cut", "edit.copy", "edit.paste", "edit.all", "-"});
  for (const char* id : {"edit.find", "edit.replace", "edit.rename", "edit.definition", "edit.findNext", "edit.findPrevious",
                         "edit.nextMistake", "edit.previousMistake"})
    edit->addAction(action(QString::fromLatin1(id)));
  edit->addSeparator();
  for (const char* id : {"cell.cut", "cell.copy", "cell.paste"}) edit->addAction(action(QString::fromLatin1(id)));
  QMenu* view = menu(tr("&View"), {"view.author", "view.explain", "view.tune", "view.devices", "-"});
  for (const char* id : {"view.zoomIn", "view.zoomOut", "view.zoomReset"}) view->addAction(action(QString::fromLatin1(id)));
  view->addSeparator();
  QMenu* panels = view->addMenu(tr("Panels"));
  for (const char* id : {"view.outline", "view.inspector", "view.fusion", "view.decision"})
    panels->addAction(action(QString::fromLatin1(id)));
  QMenu* themes = view->addMenu(tr("Theme"));
  auto* group = new QActionGroup(this);
  for (const char* id : {"view.light", "view.dark", "view.system"}) {
    QAction* a = action(QString::fromLatin1(id));
    a->setCheckable(true);
    a->setChecked(m_theme->mode() == (QLatin1String(id).endsWith(QLatin1String("light"))  ? Theme::Mode::Light
                                      : QLatin1String(id).endsWith(QLatin1String("dark")) ? Theme::Mode::Dark
                                                                                          : Theme::Mode::System));
    group->addAction(a);
    themes->addAction(a);
  }
  view->addAction(action(QStringLiteral("view.reset")));
  menu(tr("&Cell"), {"cell.above", "cell.below", "cell.text", "-", "cell.up", "cell.down", "cell.split", "cell.join", "cell.kind",
                     "-", "cell.remove"});
  menu(tr("&Run"), {"run.cell", "run.stay", "run.insert", "run.all", "run.train", "run.resume", "run.runs", "run.check", "-",
                    "run.pause", "run.stop", "-", "run.restart"});
  menu(tr("E&xplain"), {"explain.force", "explain.forbid", "explain.release", "-", "explain.measure"});
  menu(tr("&Tune"), {"tune.start", "-", "tune.pin", "tune.replay", "tune.measure", "-", "tune.profile", "tune.measureDevice"});
  menu(tr("T&ools"), {"tools.go", "tools.palette", "tools.message", "-", "tools.shortcuts", "-", "plot.table", "plot.csv",
                      "plot.json", "plot.png", "plot.svg"});
  menu(tr("&Help"), {"help.shortcuts"});
}

void MainWindow::remember(const QString& path) {
  QSettings settings;
  QStringList recent = settings.value(QStringLiteral("recent")).toStringList();
  recent.removeAll(path);
  recent.prepend(path);
  settings.setValue(QStringLiteral("recent"), recent.mid(0, 12));
}

void MainWindow::save(bool ask) {
  const QString path = m_tab->workspace->path();
  if (!ask && !path.isEmpty()) return saveTo(path, false);
  auto* dialog = new QFileDialog(this, tr("Save the notebook"));
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setAcceptMode(QFileDialog::AcceptSave);
  dialog->setNameFilter(tr("Notebooks (*.nf)"));
  dialog->setDefaultSuffix(QStringLiteral("nf"));
  if (!path.isEmpty()) dialog->setDirectory(QFileInfo(path).absolutePath());
  dialog->selectFile(m_tab->workspace->name());
  connect(dialog, &QFileDialog::fileSelected, this, [this](const QString& chosen) { saveTo(chosen, true); });
  connect(dialog, &QFileDialog::rejected, this, [this] { m_closeWanted = Close::No; });
  dialog->open();
}

void MainWindow::saveTo(const QString& path, bool overwrite) {
  const auto saved = m_tab->workspace->save(path, overwrite);
  if (!saved) {
    m_closeWanted = Close::No;
    m_messages->dismiss("close");
    if (saved.error().stage == "outside") {
      m_tab->diskHidden = false;
      m_asked.erase("outside");
      refreshMessages();
      return setStatus("error", QString::fromStdString(saved.error().message));
    }
    // One bar says it, not that and the one that foretold it.
    m_tab->unwritableHidden = true;
    refreshMessages();
    return m_messages->ask("save", QString::fromStdString(saved.error().message), {tr("Try again"), tr("Save as...")});
  }
  for (const char* key : {"save", "close", "open"}) m_messages->dismiss(QString::fromLatin1(key));
  m_closeAsked = Close::No;
  m_tab->recovered = false;
  refreshMessages();
  refreshTitle();
  remember(m_tab->workspace->path());
  setStatus("ok", tr("Saved %1").arg(m_tab->workspace->name()));
  const Close wanted = std::exchange(m_closeWanted, Close::No);
  if (wanted == Close::Window) saveAllAndQuit();
  if (wanted == Close::Tab) closeTab(indexOf(m_tab));
}

void MainWindow::undoOrRedo(bool undo) {
  Document& d = m_tab->workspace->document();
  const std::vector<Cell> before = d.cells();
  const std::string label = undo ? d.undoLabel() : d.redoLabel();
  const auto where = undo ? d.undo() : d.redo();
  if (!where) return;
  // A decision is in sight where it was made, other text on one page alone.
  const bool inSight = page() == Page::Author || (page() == Page::Explain && Document::labelsFusionHint(label)) ||
                       (page() == Page::Tune && Document::labelsScheduleHint(label));
  const bool editing = m_tab->notebook->editing();
  m_tab->notebook->followDocument();
  if (!inSight) showPage(Page::Author);
  // The place is the edit's, which may end in the cell after the one that came back or went.
  const auto back = std::ranges::find_if(
      d.cells(), [&](const Cell& cell) { return std::ranges::find(before, cell.id, &Cell::id) == before.end(); });
  const auto gone = std::ranges::find_if(before, [&](const Cell& cell) { return !d.cell(cell.id); });
  std::size_t byte = std::min(*where, d.text().size());
  auto edit = editing ? NotebookView::Edit::Any : NotebookView::Edit::None;
  if (back != d.cells().end()) {
    byte = back->begin;
    if (editing) edit = NotebookView::Edit::Code;
  } else if (gone != before.end()) {
    const auto [cell, writing] = m_tab->notebook->whereFrom(gone->id, gone == before.begin() ? 0 : std::prev(gone)->id);
    byte = d.cell(cell)->begin;
    if (editing && !writing) edit = NotebookView::Edit::Code;
  }
  m_tab->notebook->scrollToByte(byte, page() == Page::Author, edit);
  refreshOutline();
  refreshPlace();
  refreshTitle();
}

void MainWindow::runActive(AfterRun then) {
  const CellId id = m_tab->notebook->activeCell();
  runCell(id);
  const Document& d = m_tab->workspace->document();
  const bool last = d.indexOf(id) + 1 >= d.cells().size();
  // An empty last cell is the one to write on in.
  const CellView* ran = m_tab->notebook->view(id);
  const bool written = ran && !QString::fromStdString(ran->editor()->bytes()).trimmed().isEmpty();
  const bool writes = written && page() == Page::Author;  // elsewhere nobody would see the new one
  if (then == AfterRun::InsertBelow || (then == AfterRun::Next && last && writes)) insertCell(&NotebookView::insertBelow);
  else if (then == AfterRun::Next && last) m_tab->notebook->activate(id, page() == Page::Author);
  else if (then != AfterRun::Stay && !last) m_tab->notebook->activateBeside(1);
  else m_tab->notebook->activate(id, false);
}

// Of the gradient in the inspector, or of what is inspected: by finite differences, shown there.
void MainWindow::checkGradient() {
  QString name = m_inspector->tensor();
  const auto* t = workspace().tensor(name.toStdString());
  if (t && !t->derivative) {
    const std::string ending = ")/d(" + t->name + ")";
    t = nullptr;
    for (const auto& other : workspace().analysis().tensors)
      if (!t && other.derivative && other.name.ends_with(ending)) t = &other;
  }
  if (!t) return setStatus("error", tr("There is no gradient to check: choose one in the outline"));
  refreshStatus();  // there is one, whatever was said of another
  showPage(Page::Author);
  m_author->panel(QStringLiteral("inspector"))->show();
  name = QString::fromStdString(t->name);
  m_inspector->setPinned(m_inspector->pinned() && m_inspector->tensor() == name);
  chooseTensor(name);
  m_inspector->beginCheck();
}

void MainWindow::showCell(CellId id) {
  m_tab->notebook->activate(id, false);
  if (CellView* v = m_tab->notebook->view(id)) m_tab->notebook->showCell(v);
}

// By menu or button, for who then writes; the notebook's own key leaves the cell to further keys.
void MainWindow::insertCell(void (NotebookView::*insert)()) {
  (notebook()->*insert)();
  notebook()->activate(notebook()->activeCell(), true);
}

void MainWindow::trainFirst() { m_tab->trainWhenChecked = true; }

void MainWindow::answer(const QString& key, int index) {
  m_asked.erase(key);
  Workspace& w = *m_tab->workspace;
  if (key == QLatin1String("engine")) {
    const QString lost = std::exchange(m_tab->engineLost, {});
    if (index == 0 && m_tab->engineDown && w.engineState() == EngineLink::State::Ready) {
      // It lives and does not answer: its end starts another.
      m_tab->restarted.invalidate();
      ::kill(static_cast<pid_t>(w.engine().processId()), SIGKILL);
    } else if (index == 0 && m_tab->engineDown) {
      w.startEngine();
    } else if (index == 0 && m_tab->interrupted && !resume(m_tab, m_tab->interrupted)) {
      m_tab->engineLost = lost;
      return refreshMessages();
    }
    refreshStatus();
  } else if (key == QLatin1String("journal") && !m_tab->left.empty()) {
    if (index == 1) {
      compare(w.document().text(), m_tab->left.front().journal.text, tr("What the journal has and the file has not"));
    } else {
      const LeftJournal left = std::move(m_tab->left.front());
      m_tab->left.erase(m_tab->left.begin());
      if (index == 0) {
        w.recover(left);
        m_tab->notebook->followDocument();
        refreshOutline();
      } else if (index == 2) {
        QFile::remove(left.file);
      } else {
        m_waiting.push_back(left);
      }
    }
  } else if (key == QLatin1String("outside") && w.onDisk() == Workspace::OnDisk::Deleted) {
    m_tab->diskHidden = index < 0;
    if (index >= 0) save(index == 1);
  } else if (key == QLatin1String("outside")) {
    m_tab->diskHidden = index < 0;
    if (index == 0) {
      w.keepMine();
    } else if (index == 1) {
      w.reloadFromDisk();
      m_tab->notebook->followDocument();
      refreshOutline();
    } else if (index == 2) {
      compareWithDisk();
    }
  } else if (key == QLatin1String("deleted")) {
    m_tab->deletedHidden = m_tab->training;
    if (index == 0) w.stop();
  } else if (key == QLatin1String("lock")) {
    m_tab->holderHidden = index < 0;
    if (index == 0) w.editAnyway();
  } else if (key == QLatin1String("unwritable")) {
    m_tab->unwritableHidden = true;
    if (index == 0) save(true);
  } else if (key == QLatin1String("keep")) {
    m_tab->journalHidden = true;
    if (index == 0) save(false);
  } else if (key == QLatin1String("runs")) {
    if (index == 0) m_asked.erase("runs"), w.carryAgain();
    else w.leaveStranded();
  } else if (key == QLatin1String("left")) {
    if (index == 0 && !openLeft()) setStatus("warning", tr("Another window has opened it meanwhile"));
    else if (index == 1) m_store->forgetLeft();
  } else if (key == QLatin1String("recovered")) {
    // Compared, the word stands still: other files have theirs.
    if (index == 0) compareWithDisk();
    else m_tab->recovered = false;
  } else if (key == QLatin1String("restored")) {
    m_restored.clear();
  } else if (key == QLatin1String("training")) {
    m_tab->closeWhenEnded = index == 0 || index == 1;
    if (index == 0) w.stop();
  } else if (key == QLatin1String("lost")) {
    if (index == 0) {
      m_tab->unwritten = false;
      closeTab(indexOf(m_tab));
    }
  } else if (key == QLatin1String("quit")) {
    if (index == 0) return quit();
  } else if (key == QLatin1String("export")) {
    if (const auto go = std::exchange(m_toMistake, {}); index == 0 && go) showPage(Page::Author), go();
  } else if (key == QLatin1String("save")) {
    if (index >= 0) save(index == 1);
  } else if (key == QLatin1String("close")) {
    const Close wanted = std::exchange(m_closeAsked, Close::No);
    if (index == 0 && wanted == Close::Window) {
      saveAllAndQuit();
    } else if (index == 0) {
      m_closeWanted = wanted;
      save(false);
    } else if (index == 1) {
      std::vector<Tab*> given{m_tab};
      if (wanted == Close::Window) given = unsavedTabs();
      for (Tab* tab : given) {
        tab->discard = true;
        tab->workspace->removeJournal();
      }
      if (wanted == Close::Window) quit();
      else closeTab(indexOf(m_tab));
    }
  }
  refreshMessages();
}

void MainWindow::compareWithDisk() {
  QFile file(m_tab->workspace->path());
  const std::string onDisk = file.open(QIODevice::ReadOnly) ? Workspace::textOf(file.readAll()) : std::string();
  if (onDisk == m_tab->workspace->document().text()) {
    if (m_comparison) m_comparison->close();
    return setStatus("ok", tr("%1 and its file are the same: nothing to compare").arg(m_tab->workspace->name()));
  }
  m_comparison = compare(onDisk, m_tab->workspace->document().text(), tr("What the file has (-) and this window has (+)"));
}

namespace {

// Of each line what is not in the line it is compared with, in characters: the n-th added of a place with the n-th removed.
std::vector<std::pair<qsizetype, qsizetype>> changedParts(const std::vector<DiffLine>& lines) {
  using Kind = DiffLine::Kind;
  std::vector<std::pair<qsizetype, qsizetype>> parts(lines.size(), {0, 0});
  for (std::size_t i = 0; i < lines.size();) {
    std::size_t added = i;
    while (added < lines.size() && lines[added].kind == Kind::Removed) ++added;
    std::size_t end = added;
    while (end < lines.size() && lines[end].kind == Kind::Added) ++end;
    for (std::size_t k = 0; i + k < added && added + k < end; ++k) {
      const QString a = QString::fromStdString(lines[i + k].text), b = QString::fromStdString(lines[added + k].text);
      const qsizetype least = std::min(a.size(), b.size());
      qsizetype same = 0, tail = 0;
      while (same < least && a[same] == b[same]) ++same;
      while (tail < least - same && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
      parts[i + k] = {same, a.size() - tail};
      parts[added + k] = {same, b.size() - tail};
    }
    i = std::max(end, i + 1);
  }
  return parts;
}

}  // namespace

QDialog* MainWindow::compare(const std::string& before, const std::string& after, const QString& title) {
  auto* dialog = new QDialog(this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setWindowTitle(title);
  dialog->resize(820, 620);
  auto* layout = new QVBoxLayout(dialog);
  auto* text = new QPlainTextEdit;
  text->setReadOnly(true);
  text->setFont(m_theme->mono(13));
  text->setAccessibleName(title);
  text->setObjectName(QStringLiteral("comparison"));
  layout->addWidget(text);
  const Palette& c = m_theme->colors();
  QTextCursor cursor(text->document());
  int first = -1;
  const std::vector<DiffLine> lines = diffLines(before, after);
  const std::vector<std::pair<qsizetype, qsizetype>> changed = changedParts(lines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const DiffLine& l = lines[i];
    QTextBlockFormat format;
    if (l.kind == DiffLine::Kind::Removed) format.setBackground(mixed(c.page, c.failed, 0.18));
    if (l.kind == DiffLine::Kind::Added) format.setBackground(mixed(c.page, c.proved, 0.18));
    cursor.setBlockFormat(format);
    const QString sign = l.kind == DiffLine::Kind::Removed ? QStringLiteral("- ")
                         : l.kind == DiffLine::Kind::Added ? QStringLiteral("+ ")
                                                           : QStringLiteral("  ");
    const QString words = QString::fromStdString(l.text);
    const auto [from, to] = changed[i];
    QTextCharFormat plain, marked;
    marked.setBackground(mixed(c.page, l.kind == DiffLine::Kind::Removed ? c.failed : c.proved, 0.45));
    cursor.insertText(sign + words.left(from), plain);
    if (first < 0 && l.kind != DiffLine::Kind::Same) first = cursor.position();
    cursor.insertText(words.mid(from, to - from), marked);
    cursor.insertText(words.mid(to), plain);
    cursor.insertBlock();
  }
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
  buttons->button(QDialogButtonBox::Close)->setIcon({});  // the style's is drawn for light windows
  connect(buttons, &QDialogButtonBox::rejected, dialog, &QDialog::close);
  layout->addWidget(buttons);
  dialog->show();
  cursor.setPosition(std::max(first, 0));
  text->setTextCursor(cursor);
  text->centerCursor();
  return dialog;
}

void MainWindow::zoom(int steps) {
  if (page() == Page::Explain) return steps == 0 ? m_explain->graph()->fit() : m_explain->graph()->zoomBy(steps > 0 ? 1.25 : 0.8);
  constexpr double kScales[] = {0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 1.75, 2, 2.5};
  std::size_t at = 3;
  for (std::size_t i = 0; i < std::size(kScales); ++i)
    if (std::abs(kScales[i] - textScale()) < std::abs(kScales[at] - textScale())) at = i;
  if (steps > 0 && at + 1 < std::size(kScales)) ++at;
  if (steps < 0 && at > 0) --at;
  setTextScale(steps == 0 ? 1 : kScales[at]);
}

void MainWindow::setTextScale(double scale) {
  m_text->setTextScale(scale);
  keepForNotebook();
  if (m_store) QSettings().setValue(QStringLiteral("view/textScale"), scale);
  setStatus("text", tr("The notebook's text at %1 %").arg(qRound(scale * 100)));
}

Theme::Mode MainWindow::keptTheme() {
  const QString kept = QSettings().value(QStringLiteral("view/theme")).toString();
  return kept == QLatin1String("light")  ? Theme::Mode::Light
         : kept == QLatin1String("dark") ? Theme::Mode::Dark
                                         : Theme::Mode::System;
}

// On disk at once: a window that is killed later keeps it, too.
void MainWindow::chooseTheme(Theme::Mode mode) {
  m_theme->setMode(mode);
  if (!m_store) return;
  QSettings settings;
  settings.setValue(QStringLiteral("view/theme"), mode == Theme::Mode::Light  ? QStringLiteral("light")
                                                  : mode == Theme::Mode::Dark ? QStringLiteral("dark")
                                                                              : QStringLiteral("system"));
  settings.sync();
}

void MainWindow::showShortcuts() { (new ShortcutSheet(m_theme, m_actions, this))->show(); }

void MainWindow::editShortcuts() { (new ShortcutEditor(m_theme, m_actions, this))->show(); }

}  // namespace nf
