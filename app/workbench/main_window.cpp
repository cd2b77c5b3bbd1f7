// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/main_window.h"

#include <QActionGroup>
#include <QApplication>
#include <QCloseEvent>
#include <QDialog>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QListWidget>
#include <QMenuBar>
#include <QMimeData>
#include <QPlainTextEdit>
#include <QScreen>
#include <QScrollArea>
#include <QSettings>
#include <QSplitter>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTextBlock>
#include <QTextCursor>
#include <QTimer>
#include <QToolBar>
#include <QToolButton>
#include <QVBoxLayout>

#include "widgets/basic.h"
#include "widgets/command_palette.h"
#include "widgets/devices_view.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/notebook_view.h"
#include "widgets/outline_view.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {

using protocol::CellStatus;

namespace {
constexpr int kLayoutVersion = 1;
}

MainWindow::MainWindow(Theme* theme, QStringList engineCommand, QWidget* parent)
    : QMainWindow(parent), m_theme(theme), m_workspace(std::make_unique<Workspace>(std::move(engineCommand))),
      m_messages(new MessageBar(theme)), m_pages(new QStackedWidget) {
  resize(1600, 1000);
  setAcceptDrops(true);
  Selection* selection = &m_workspace->selection();
  m_outline = new OutlineView(theme, selection);
  m_notebook = new NotebookView(theme, selection);
  m_inspector = new InspectorView(theme);
  m_explain = new ExplainView(theme, selection);
  m_tune = new TuneView(theme, selection);
  m_devices = new DevicesView(theme);
  makeActions();
  makeMenus();
  addToolBar(Qt::TopToolBarArea, [this] {
    auto* bar = new QToolBar(tr("Toolbar"));
    bar->setObjectName(QStringLiteral("toolbar"));
    bar->setMovable(false);
    bar->setContextMenuPolicy(Qt::PreventContextMenu);
    bar->setFixedHeight(44);
    bar->addWidget(makeToolbar());
    return bar;
  }());
  auto* central = new QWidget;
  auto* layout = new QVBoxLayout(central);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addWidget(line());
  layout->addWidget(m_messages);
  m_pages->addWidget(makeAuthor());
  m_pages->addWidget(m_explain);
  m_pages->addWidget(m_tune);
  m_pages->addWidget(m_devices);
  layout->addWidget(m_pages, 1);
  setCentralWidget(central);
  m_statusIcon = new QLabel;
  m_status = label({});
  m_constants = label({});
  m_place = label({});
  statusBar()->setSizeGripEnabled(false);
  statusBar()->setContentsMargins(8, 0, 8, 0);
  statusBar()->addWidget(m_statusIcon);
  statusBar()->addWidget(m_status, 1);
  statusBar()->addPermanentWidget(m_constants);
  statusBar()->addPermanentWidget(m_place);
  m_palette = new CommandPalette(theme, this);
  connectWorkspace();
  connectViews();
  connect(theme, &Theme::changed, this, [this] {
    for (auto& [id, a] : m_actions)
      if (const QString icon = a->property("icon").toString(); !icon.isEmpty()) a->setIcon(m_theme->icon(icon));
    m_device->setIcon(m_theme->icon(QStringLiteral("chip")));
    refreshOutline();
    refreshStatus();
  });
  m_notebook->setDocument(&m_workspace->document());
  refreshTitle();
  refreshOutline();
  refreshDevice();
  setStatus(QStringLiteral("running"), tr("Starting the engine"));
  showPage(Page::Author);
}

MainWindow::~MainWindow() { m_notebook->setDocument(nullptr); }

// ---------------------------------------------------------------- commands
QAction* MainWindow::add(const QString& id, const QString& text, const QKeySequence& key, std::function<void()> run,
                         const QString& icon) {
  auto* a = new QAction(text, this);
  a->setObjectName(id);
  a->setShortcut(key);
  if (!icon.isEmpty()) {
    a->setIcon(m_theme->icon(icon));
    a->setProperty("icon", icon);
    a->setIconVisibleInMenu(false);
  }
  connect(a, &QAction::triggered, this, [run = std::move(run)] { run(); });
  addAction(a);
  m_actions[id] = a;
  m_actionOrder.push_back(id);
  return a;
}

void MainWindow::makeActions() {
  add("file.new", tr("New notebook"), QKeySequence::New, [this] { m_workspace->openText({}, {}); });
  add("file.open", tr("Open..."), QKeySequence::Open, [this] {
    const QString path =
        QFileDialog::getOpenFileName(this, tr("Open a notebook"), m_workspace->path(), tr("Notebooks (*.nf);;All files (*)"));
    if (!path.isEmpty()) openFile(path);
  });
  add("file.save", tr("Save"), QKeySequence::Save, [this] { save(false); });
  add("file.saveAs", tr("Save as..."), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_S), [this] { save(true); });
  add("file.quit", tr("Quit"), QKeySequence::Quit, [this] { close(); });
  add(
      "edit.undo", tr("Undo"), QKeySequence::Undo, [this] { undoOrRedo(true); }, "undo");
  add(
      "edit.redo", tr("Redo"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Z), [this] { undoOrRedo(false); }, "redo");
  m_actions["edit.redo"]->setShortcuts({QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Z), QKeySequence(Qt::CTRL | Qt::Key_Y)});
  add("cell.above", tr("Insert cell above"), {}, [this] { m_notebook->insertAbove(); });
  add("cell.below", tr("Insert cell below"), {}, [this] { m_notebook->insertBelow(); });
  add("cell.up", tr("Move cell up"), QKeySequence(Qt::ALT | Qt::Key_Up), [this] { m_notebook->moveActive(-1); });
  add("cell.down", tr("Move cell down"), QKeySequence(Qt::ALT | Qt::Key_Down), [this] { m_notebook->moveActive(1); });
  add("cell.split", tr("Split cell at the cursor"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Minus),
      [this] { m_notebook->splitActive(); });
  add("cell.join", tr("Join with the next cell"), {}, [this] { m_notebook->joinActive(); });
  add("cell.kind", tr("Code or Markdown"), {}, [this] { m_notebook->toggleKind(); });
  add("cell.copy", tr("Copy cell"), {}, [this] { m_notebook->copyActive(); });
  add("cell.cut", tr("Cut cell"), {}, [this] { m_notebook->cutActive(); });
  add("cell.paste", tr("Paste cell below"), {}, [this] { m_notebook->pasteBelow(); });
  add("cell.remove", tr("Delete cell"), {}, [this] { m_notebook->removeActive(); });
  add(
      "run.cell", tr("Run cell"), QKeySequence(Qt::SHIFT | Qt::Key_Return), [this] { runActive(1); }, "run");
  add("run.stay", tr("Run cell and stay"), QKeySequence(Qt::CTRL | Qt::Key_Return), [this] { runActive(0); });
  add("run.insert", tr("Run cell and insert below"), QKeySequence(Qt::ALT | Qt::Key_Return), [this] { runActive(2); });
  add("run.all", tr("Compute every shown value"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_Return),
      [this] { m_workspace->runAll(); });
  add("run.pause", tr("Pause or resume"), {},
      [this] { m_workspace->pause(m_workspace->runState().phase != protocol::RunPhase::Paused); });
  add(
      "run.stop", tr("Stop"), QKeySequence(Qt::CTRL | Qt::Key_Period), [this] { m_workspace->stop(); }, "stop");
  add("run.restart", tr("Restart the engine"), {}, [this] { m_workspace->startEngine(); });
  add("tune.start", tr("Tune without training"), {},
      [this] { m_workspace->tell(protocol::TuneRequest{m_workspace->document().revision()}); });
  add("tune.measureDevice", tr("Measure the devices again"), {}, [this] {
    m_devices->setMeasuring(true);
    m_workspace->wantDevices(true);
  });
  add("view.author", tr("Author"), QKeySequence(Qt::CTRL | Qt::Key_1), [this] { showPage(Page::Author); });
  add("view.explain", tr("Explain"), QKeySequence(Qt::CTRL | Qt::Key_2), [this] { showPage(Page::Explain); });
  add("view.tune", tr("Tune"), QKeySequence(Qt::CTRL | Qt::Key_3), [this] { showPage(Page::Tune); });
  add("view.devices", tr("Devices"), QKeySequence(Qt::CTRL | Qt::Key_4), [this] { showPage(Page::Devices); });
  add("view.light", tr("Light"), {}, [this] { m_theme->setMode(Theme::Mode::Light); });
  add("view.dark", tr("Dark"), {}, [this] { m_theme->setMode(Theme::Mode::Dark); });
  add("view.system", tr("As the system"), {}, [this] { m_theme->setMode(Theme::Mode::System); });
  add("view.reset", tr("Reset the layout"), {}, [this] {
    QSettings().remove(QStringLiteral("layout"));
    m_authorSplit->setSizes({256, width() - 256 - 352, 352});
    m_explain->splitter()->setSizes({width() - 376, 376});
  });
  // Of the plot that has the keyboard, else the step latency.
  const auto plot = [this]() -> Plot* {
    for (QWidget* w = QApplication::focusWidget(); w; w = w->parentWidget())
      if (auto* found = qobject_cast<Plot*>(w)) return found;
    return m_tune->latency();
  };
  add("plot.table", tr("Plot as a table"), {}, [plot] { plot()->showTable(!plot()->showsTable()); });
  for (const char* suffix : {"csv", "json", "png", "svg"}) {
    const QString ending = QString::fromLatin1(suffix);
    add("plot." + ending, tr("Save the plot as %1...").arg(ending.toUpper()), {}, [plot, ending] { plot()->saveAs(ending); });
  }
  add("tune.profile", tr("Profile a step"), {}, [this] {
    setStatus("running", tr("Profiling a step"));
    m_workspace->wantProfile();
  });
  add("tools.go", tr("Go to anything"), QKeySequence(Qt::CTRL | Qt::Key_K), [this] { openPalette(true); });
  add("tools.palette", tr("Command palette"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_P), [this] { openPalette(false); });
  add("help.shortcuts", tr("Keyboard shortcuts"), QKeySequence(Qt::Key_F1), [this] { showShortcuts(); });
}

void MainWindow::makeMenus() {
  const auto menu = [this](const QString& title, std::initializer_list<const char*> ids) {
    QMenu* m = menuBar()->addMenu(title);
    for (const char* id : ids) {
      if (*id == '-') m->addSeparator();
      else m->addAction(m_actions.at(QString::fromLatin1(id)));
    }
    return m;
  };
  QMenu* file = menu(tr("File"), {"file.new", "file.open"});
  QMenu* recent = file->addMenu(tr("Open recent"));
  connect(recent, &QMenu::aboutToShow, this, [this, recent] {
    recent->clear();
    for (const QString& path : QSettings().value(QStringLiteral("recent")).toStringList())
      if (QFileInfo::exists(path))
        recent->addAction(QFileInfo(path).fileName() + QStringLiteral("   ") + QFileInfo(path).path(), this,
                          [this, path] { openFile(path); });
    if (recent->isEmpty()) recent->addAction(tr("No notebook yet"))->setEnabled(false);
  });
  file->addSeparator();
  for (const char* id : {"file.save", "file.saveAs"}) file->addAction(m_actions.at(QString::fromLatin1(id)));
  file->addSeparator();
  file->addAction(m_actions.at("file.quit"));
  menu(tr("Edit"), {"edit.undo", "edit.redo", "-", "cell.cut", "cell.copy", "cell.paste"});
  QMenu* view = menu(tr("View"), {"view.author", "view.explain", "view.tune", "view.devices", "-"});
  QMenu* themes = view->addMenu(tr("Theme"));
  auto* group = new QActionGroup(this);
  for (const char* id : {"view.light", "view.dark", "view.system"}) {
    QAction* a = m_actions.at(QString::fromLatin1(id));
    a->setCheckable(true);
    group->addAction(a);
    themes->addAction(a);
  }
  view->addAction(m_actions.at("view.reset"));
  menu(tr("Cell"),
       {"cell.above", "cell.below", "-", "cell.up", "cell.down", "cell.split", "cell.join", "cell.kind", "-", "cell.remove"});
  menu(tr("Run"), {"run.cell", "run.stay", "run.insert", "run.all", "-", "run.pause", "run.stop", "-", "run.restart"});
  menu(tr("Tune"), {"tune.start", "tune.profile", "tune.measureDevice"});
  menu(tr("Tools"), {"tools.go", "tools.palette", "-", "plot.table", "plot.csv", "plot.json", "plot.png", "plot.svg"});
  menu(tr("Help"), {"help.shortcuts"});
}

QWidget* MainWindow::makeToolbar() {
  auto* bar = new QWidget;
  bar->setProperty("role", QStringLiteral("chrome"));
  bar->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  auto* grid = new QGridLayout(bar);
  grid->setContentsMargins(12, 0, 8, 0);
  auto* left = new QHBoxLayout;
  left->setSpacing(8);
  m_name = label({}, "title");
  m_state = label({}, "muted");
  m_state->setFont(m_theme->ui(12));
  left->addWidget(m_name);
  left->addWidget(m_state);
  left->addSpacing(28);
  for (const char* id : {"edit.undo", "edit.redo", "run.cell", "run.stop"}) {
    auto* button = new QToolButton;
    button->setDefaultAction(m_actions.at(QString::fromLatin1(id)));
    const bool words = QLatin1String(id).startsWith(QLatin1String("run"));
    button->setToolButtonStyle(words ? Qt::ToolButtonTextBesideIcon : Qt::ToolButtonIconOnly);
    button->setFocusPolicy(Qt::TabFocus);
    left->addWidget(button);
    if (QLatin1String(id) == QLatin1String("edit.redo")) left->addSpacing(12);
  }
  left->addStretch(1);
  m_switch = new SegmentedSwitch(m_theme, {tr("Author"), tr("Explain"), tr("Tune")}, 88);
  connect(m_switch, &SegmentedSwitch::chosen, this, [this](int i) { showPage(static_cast<Page>(i)); });
  auto* right = new QHBoxLayout;
  right->setSpacing(12);
  right->addStretch(1);
  auto* go = new QPushButton(tr("Go to anything") + QStringLiteral("          Ctrl+K"));
  go->setIcon(m_theme->icon(QStringLiteral("search"), m_theme->colors().muted));
  go->setStyleSheet(QStringLiteral("QPushButton { text-align: left; padding-left: 8px; font-weight: 400; }"));
  go->setFixedWidth(240);
  go->setAccessibleName(tr("Go to anything"));
  connect(m_theme, &Theme::changed, go,
          [this, go] { go->setIcon(m_theme->icon(QStringLiteral("search"), m_theme->colors().muted)); });
  connect(go, &QPushButton::clicked, this, [this] { openPalette(true); });
  right->addWidget(go);
  m_device = new QToolButton;
  m_device->setIcon(m_theme->icon(QStringLiteral("chip")));
  m_device->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  m_device->setFocusPolicy(Qt::TabFocus);
  m_device->setToolTip(tr("Devices and their measured constants"));
  connect(m_device, &QToolButton::clicked, this, [this] { showPage(Page::Devices); });
  right->addWidget(m_device);
  grid->addLayout(left, 0, 0);
  grid->addWidget(m_switch, 0, 1);
  grid->addLayout(right, 0, 2);
  grid->setColumnStretch(0, 1);
  grid->setColumnStretch(2, 1);
  return bar;
}

QWidget* MainWindow::makeAuthor() {
  m_authorSplit = new QSplitter(Qt::Horizontal);
  m_authorSplit->setHandleWidth(1);
  m_authorSplit->setObjectName(QStringLiteral("author"));
  m_outline->setMinimumWidth(180);
  m_inspector->setMinimumWidth(260);
  auto* middle = new QWidget;
  auto* layout = new QVBoxLayout(middle);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  m_notebookHeader = new PanelHeader(m_theme, tr("Notebook"));
  auto* cell = new IconButton(m_theme, QStringLiteral("plus"), tr("Cell"));
  auto* text = new IconButton(m_theme, QStringLiteral("text"), tr("Text"));
  cell->setToolTip(tr("Insert a cell below (B)"));
  text->setToolTip(tr("Insert a text cell below"));
  connect(cell, &QToolButton::clicked, m_notebook, &NotebookView::insertBelow);
  connect(text, &QToolButton::clicked, this, [this] {
    m_notebook->insertBelow();
    m_notebook->toggleKind();
    m_notebook->activate(m_notebook->activeCell(), true);
  });
  m_notebookHeader->add(text);
  m_notebookHeader->add(cell);
  layout->addWidget(m_notebookHeader);
  layout->addWidget(line());
  layout->addWidget(m_notebook, 1);
  m_authorSplit->addWidget(m_outline);
  m_authorSplit->addWidget(middle);
  m_authorSplit->addWidget(m_inspector);
  m_authorSplit->setStretchFactor(0, 0);
  m_authorSplit->setStretchFactor(1, 1);
  m_authorSplit->setStretchFactor(2, 0);
  m_authorSplit->setSizes({256, 992, 352});
  return m_authorSplit;
}

// ---------------------------------------------------------------- wiring
void MainWindow::connectWorkspace() {
  Workspace* w = m_workspace.get();
  connect(w, &Workspace::opened, this, [this] {
    m_notebook->setDocument(&m_workspace->document());
    m_inspected.clear();
    m_inspector->clear();
    m_training = 0;
    m_tune->setSubgraphs({});
    m_tune->clearSteps();
    refreshPeer();
    refreshTitle();
    refreshOutline();
    m_left = m_workspace->leftJournal();
    if (m_left)
      m_messages->ask("journal", tr("A session ended before %1 was saved. Its changes were kept.").arg(m_workspace->name()),
                      {tr("Recover"), tr("Compare"), tr("Discard")});
  });
  connect(w, &Workspace::documentEdited, this, [this] {
    refreshTitle();
    m_notebook->setOutdated();
    m_explain->setOutdated(true);
    refreshStatus();
  });
  connect(w, &Workspace::modifiedChanged, this, &MainWindow::refreshTitle);
  connect(w, &Workspace::changedOutside, this, [this](bool clean) {
    if (clean) {
      m_notebook->followDocument();
      refreshOutline();
      setStatus("reload", tr("%1 changed on disk and was read again").arg(m_workspace->name()));
    } else {
      m_messages->ask("outside", tr("%1 changed on disk while it was edited here.").arg(m_workspace->name()),
                      {tr("Keep mine"), tr("Reload"), tr("Compare")});
    }
  });
  connect(w, &Workspace::engineReady, this, [this] {
    m_messages->dismiss("engine");
    refreshStatus();
    refreshDevice();
  });
  connect(w, &Workspace::engineDied, this, [this](const QString& reason) {
    for (CellView* v : m_notebook->cells())
      if (v->train()) v->train()->setLost();
    afterRunChange();
    m_messages->ask("engine", reason, {tr("Restart the engine")});
    refreshStatus();
  });
  connect(w, &Workspace::analysed, this, [this] {
    m_notebook->setAnalysis(m_workspace->analysis());
    m_outline->setAnalysis(m_workspace->analysis());
    refreshOutline();
    refreshStatus();
    refreshPage();
    inspectSelection();
    if (m_trainWhenChecked) {
      m_trainWhenChecked = false;
      for (std::size_t i = 0; i < m_workspace->analysis().cells.size(); ++i)
        if (m_workspace->analysis().cells[i].train)
          if (CellView* v = m_notebook->viewOfAnalysisCell(static_cast<std::uint32_t>(i))) return runCell(v->id());
    }
  });
  connect(w, &Workspace::expressionArrived, this, [this](const protocol::Expression& e) {
    m_notebook->setExpression(e);
    m_inspector->setExpression(e);
  });
  connect(w, &Workspace::expressionFailed, m_notebook, &NotebookView::setExpressionFailed);
  connect(w, &Workspace::graphArrived, this, [this](const protocol::GraphPage& graph) {
    m_explain->setGraph(graph);
    refreshLeads();
  });
  connect(w, &Workspace::fusionArrived, m_explain, &ExplainView::setFusion);
  connect(w, &Workspace::devicesArrived, this, [this] {
    m_devices->setDevices(*m_workspace->devices());
    m_outline->setDevices(*m_workspace->devices());
    refreshDevice();
    refreshStatus();
  });
  connect(w, &Workspace::subgraphsArrived, this, [this] {
    m_tune->setSubgraphs(m_workspace->subgraphs().subgraphs);
    refreshLeads();
  });
  connect(w, &Workspace::trialsChanged, this, [this](const std::string& id) { m_tune->setTrials(id, m_workspace->trials(id)); });
  connect(w, &Workspace::kernelArrived, m_tune, &TuneView::setKernel);
  connect(w, &Workspace::spaceArrived, m_tune, &TuneView::setSpace);
  connect(w, &Workspace::trialArrived, m_tune, &TuneView::addTrial);
  connect(w, &Workspace::profileArrived, m_tune, &TuneView::setProfile);
  connect(w, &Workspace::sliceArrived, this, [this](const protocol::TensorSlice& slice, const std::vector<double>& values) {
    m_notebook->setSlice(slice, values);
    m_inspector->setSlice(slice, values);
  });
  connect(w, &Workspace::sliceFailed, this, [this](const QString& tensor, const QString& message) {
    m_inspector->values()->setUnavailable(tensor, message);
    for (CellView* v : m_notebook->cells())
      if (v->tensorView()) v->tensorView()->setUnavailable(tensor, message);
  });
  connect(w, &Workspace::runStarted, this, [this](std::uint32_t cell) {
    m_tune->clearSteps();
    if (CellView* v = m_notebook->viewOfAnalysisCell(cell)) {
      m_training = v->id();
      if (v->train()) {
        v->train()->show();
        v->train()->start();
        refreshPeer();
        QTimer::singleShot(0, v, [this, v] { m_notebook->ensureWidgetVisible(v->train(), 0, 24); });
      }
      v->setStatus(CellStatus::Running, {});
    }
    refreshOutline();
  });
  const auto strip = [this]() -> TrainStrip* {
    CellView* v = m_notebook->view(m_training);
    return v ? v->train() : nullptr;
  };
  connect(w, &Workspace::runStateChanged, this, [this, strip] {
    const auto& state = m_workspace->runState();
    if (TrainStrip* s = strip(); s && state.phase != protocol::RunPhase::Idle) s->setState(state);
    m_tune->setRunState(state);
    refreshStatus();
    m_actions["run.stop"]->setEnabled(m_workspace->running());
    m_actions["run.pause"]->setEnabled(m_workspace->running());
  });
  connect(w, &Workspace::stepArrived, this, [this, strip](const protocol::StepEvent& e) {
    if (TrainStrip* s = strip()) s->addStep(e);
    m_tune->addStep(e);
  });
  connect(w, &Workspace::swapArrived, this, [this, strip](const protocol::KernelSwapEvent& e) {
    if (TrainStrip* s = strip()) s->addSwap(e);
    m_tune->addSwap(e);
    if (page() == Page::Tune) m_workspace->wantSubgraphs();
  });
  connect(w, &Workspace::evalArrived, this, [this, strip](const protocol::EvalEvent& e) {
    if (TrainStrip* s = strip()) s->addEval(e);
    m_tune->addEval(e);
  });
  connect(w, &Workspace::cellFinished, this, [this](const protocol::CellResult& result) {
    CellView* v = m_notebook->viewOfAnalysisCell(result.cell);
    if (!v) return;
    v->setStatus(result.status, QString::fromStdString(result.message));
    if (result.status == CellStatus::Ok && !v->shows().isEmpty()) v->showResult(3);
    refreshOutline();
  });
  connect(w, &Workspace::done, this, [this, strip](const protocol::DoneEvent& e) {
    if (TrainStrip* s = strip()) s->setDone(e);
    m_notebook->setCellStatus(m_training, CellStatus::Ok, {});
    m_training = 0;
    afterRunChange();
    if (!isActiveWindow()) QApplication::alert(this);
  });
  connect(w, &Workspace::runFailed, this, [this, strip](const QString& message) {
    if (TrainStrip* s = strip()) s->setError(message);
    m_notebook->setCellStatus(m_training, CellStatus::Error, message);
    m_training = 0;
    afterRunChange();
  });
  connect(w, &Workspace::failed, this,
          [this](const QString& what, const QString& message) { setStatus("error", what + QStringLiteral(": ") + message); });
  connect(&w->selection(), &Selection::changed, this, &MainWindow::inspectSelection);
}

void MainWindow::connectViews() {
  connect(m_messages, &MessageBar::answered, this, &MainWindow::answer);
  connect(m_notebook, &NotebookView::edited, this, [this] {
    m_notebook->followDocument();
    refreshOutline();
  });
  connect(m_notebook, &NotebookView::undoRequested, this, [this] { undoOrRedo(true); });
  connect(m_notebook, &NotebookView::redoRequested, this, [this] { undoOrRedo(false); });
  connect(m_notebook, &NotebookView::caretMoved, this,
          [this](int lineNumber, int column) { m_place->setText(tr("Ln %1, Col %2").arg(lineNumber).arg(column)); });
  connect(m_notebook, &NotebookView::activeChanged, this, [this] {
    refreshOutline();
    const CellView* v = m_notebook->view(m_notebook->activeCell());
    if (v && !v->shows().isEmpty()) inspect(v->shows().back());
  });
  connect(m_notebook, &NotebookView::expressionWanted, m_workspace.get(), &Workspace::wantExpression);
  connect(m_notebook, &NotebookView::tensorWanted, m_workspace.get(), &Workspace::wantSlice);
  connect(m_notebook, &NotebookView::textCopied, this,
          [this](const QString& what) { setStatus("copy", tr("Copied %1").arg(what)); });
  connect(m_notebook, &NotebookView::pauseRequested, m_workspace.get(), &Workspace::pause);
  connect(m_notebook, &NotebookView::stopRequested, m_workspace.get(), &Workspace::stop);
  connect(m_outline, &OutlineView::cellChosen, this, [this](CellId id) { showCell(id); });
  connect(m_outline, &OutlineView::tensorChosen, this, [this](const QString& name) {
    if (const auto* t = m_workspace->tensor(name.toStdString())) m_workspace->selection().select(t->origins);
    inspect(name);
  });
  connect(m_outline, &OutlineView::placeChosen, this, [this](std::uint32_t byte) { m_notebook->scrollToByte(byte, true); });
  connect(m_outline, &OutlineView::deviceChosen, this, [this] { showPage(Page::Devices); });
  connect(m_inspector, &InspectorView::sliceWanted, this, [this] { m_workspace->wantSlice(m_inspector->values()->request()); });
  connect(m_inspector, &InspectorView::checkWanted, this, [this](const QString& tensor) {
    m_workspace->ask(protocol::ExpressionRequest{m_workspace->document().revision(), tensor.toStdString(), true},
                     [this](const protocol::Envelope& envelope) {
                       if (const auto* e = std::get_if<protocol::Expression>(&envelope.message)) m_inspector->setExpression(*e);
                       else if (const auto* f = std::get_if<protocol::Failed>(&envelope.message))
                         setStatus("error", QString::fromStdString(f->message));
                     });
  });
  connect(m_inspector, &InspectorView::leadChosen, this, [this](const QString& target) {
    const QString id = target.section(QLatin1Char(':'), 1);
    if (target.startsWith(QLatin1String("node:"))) {
      showPage(Page::Explain);
      m_explain->graph()->choose(id, true);
    } else if (target.startsWith(QLatin1String("kernel:"))) {
      showPage(Page::Tune);
      m_tune->chooseSubgraph(id.toStdString());
    }
  });
  m_explain->setHints([this](const std::string& producer, const std::string& consumer) {
    return m_workspace->document().fusionHint(producer, consumer);
  });
  connect(m_explain, &ExplainView::stageWanted, m_workspace.get(), &Workspace::wantGraph);
  connect(
      m_explain, &ExplainView::hintRequested, this,
      [this](const QString& producer, const QString& consumer, Document::FusionHint hint) {
        m_workspace->document().setFusionHint(producer.toStdString(), consumer.toStdString(), hint);
        m_notebook->followDocument();
        refreshOutline();
        setStatus(
            "flag",
            m_workspace->document().undoLabel().empty()
                ? QString()
                : tr("%1: written into the notebook as a hint").arg(QString::fromStdString(m_workspace->document().undoLabel())));
      });
  connect(m_tune, &TuneView::subgraphChosen, this, [this](const std::string& id) {
    m_workspace->wantTrials(id);
    m_workspace->wantSpace(id);
    m_tune->setTrials(id, m_workspace->trials(id));
  });
  connect(m_tune, &TuneView::trialWanted, m_workspace.get(), &Workspace::wantKernel);
  connect(m_tune, &TuneView::measureRequested, this, [this](const std::string& id, const protocol::JsonText& schedule) {
    setStatus("running", tr("Measuring by hand"));
    m_workspace->ask(protocol::MeasureRequest{id, schedule}, [this, id](const protocol::Envelope& envelope) {
      if (const auto* measured = std::get_if<protocol::TrialMeasured>(&envelope.message)) {
        m_workspace->wantTrials(id);
        if (m_tune->current() == id) {
          m_tune->chooseTrial(measured->trial.number);
          m_tune->setMeasured(measured->trial);
        }
        setStatus("ok", measured->trial.us ? tr("Measured: %1").arg(microsecondsText(*measured->trial.us))
                                           : tr("Not measured: %1").arg(QString::fromStdString(measured->trial.how)));
      } else if (const auto* f = std::get_if<protocol::Failed>(&envelope.message)) {
        m_tune->setMeasureFailed(QString::fromStdString(f->message));
        setStatus("error", QString::fromStdString(f->message));
      }
    });
  });
  connect(m_tune, &TuneView::profileWanted, m_actions["tune.profile"], &QAction::trigger);
  m_tune->kernel()->setSpanText([this](const protocol::SourceSpan& span) {
    const std::string& text = m_workspace->document().text();
    if (!span.source.empty() || !m_workspace->analysisIsCurrent() || span.end > text.size() || span.begin >= span.end)
      return QString();
    return QString::fromStdString(text.substr(span.begin, span.end - span.begin));
  });
  // While something trains and somebody looks, its steps are profiled now and then.
  auto* sample = new QTimer(this);
  sample->setInterval(2000);
  connect(sample, &QTimer::timeout, this, [this] {
    if (page() != Page::Tune || m_workspace->runState().phase != protocol::RunPhase::Training) return;
    m_workspace->wantProfile();
    m_workspace->wantSubgraphs();
  });
  // The values that are in sight follow the training.
  auto* values = new QTimer(this);
  values->setInterval(500);
  connect(values, &QTimer::timeout, this, [this] {
    if (m_workspace->runState().phase != protocol::RunPhase::Training) return;
    const auto follow = [this](const TensorView* view) {
      if (view && view->isVisible() && !view->visibleRegion().isEmpty()) m_workspace->refreshSlice(view->request());
    };
    follow(m_inspector->values());
    for (const CellView* v : m_notebook->cells()) follow(v->tensorView());
  });
  connect(m_workspace.get(), &Workspace::runStateChanged, sample, [this, sample, values] {
    for (QTimer* timer : {sample, values}) {
      if (m_workspace->running() && !timer->isActive()) timer->start();
      else if (!m_workspace->running()) timer->stop();
    }
  });
  connect(m_tune, &TuneView::budgetRequested, this, [this](double share) {
    m_workspace->tell(protocol::BudgetRequest{share, std::nullopt});
  });
  connect(m_tune, &TuneView::tuneRequested, m_actions["tune.start"], &QAction::trigger);
  connect(m_devices, &DevicesView::measureWanted, m_actions["tune.measureDevice"], &QAction::trigger);
  m_actions["run.stop"]->setEnabled(false);
  m_actions["run.pause"]->setEnabled(false);
}

// ---------------------------------------------------------------- state shown
void MainWindow::afterRunChange() {
  m_actions["run.stop"]->setEnabled(m_workspace->running());
  m_actions["run.pause"]->setEnabled(m_workspace->running());
  refreshOutline();
  refreshStatus();
  if (page() == Page::Tune) m_workspace->wantSubgraphs();
}

MainWindow::Page MainWindow::page() const { return static_cast<Page>(m_pages->currentIndex()); }

void MainWindow::showPage(Page page) {
  m_pages->setCurrentIndex(static_cast<int>(page));
  m_switch->setCurrent(page == Page::Devices ? -1 : static_cast<int>(page));
  refreshPage();
  if (page == Page::Author) m_notebook->activate(m_notebook->activeCell(), m_notebook->editing());
}

// What the visible page shows is asked for again; what is hidden waits until it is seen.
void MainWindow::refreshPage() {
  switch (page()) {
    case Page::Author: break;
    case Page::Explain:
      m_workspace->wantGraph(m_explain->stage());
      m_workspace->wantFusion();
      break;
    case Page::Tune:
      m_workspace->wantSubgraphs();
      m_tune->setRun(m_workspace->steps(), m_workspace->swaps(), m_workspace->evals());
      break;
    case Page::Devices:
      if (!m_workspace->devices()) m_workspace->wantDevices(false);
      break;
  }
}

void MainWindow::refreshPeer() {
  const Workspace::Peer peer = m_workspace->peer();
  m_tune->setPeer(peer.name, peer.stepMs);
  for (CellView* v : m_notebook->cells())
    if (v->train()) v->train()->setPeer(peer.name, peer.stepMs);
}

void MainWindow::refreshTitle() {
  const bool modified = m_workspace->document().modified();
  m_name->setText(m_workspace->name());
  m_state->setText(modified ? tr("edited") : m_workspace->path().isEmpty() ? tr("not saved yet") : tr("saved"));
  setWindowTitle(m_workspace->name() + QStringLiteral("[*] - NeoFlow"));
  setWindowModified(modified);
  m_notebookHeader->setTitle(m_workspace->name());
  const Document& d = m_workspace->document();
  m_actions["edit.undo"]->setEnabled(d.canUndo());
  m_actions["edit.redo"]->setEnabled(d.canRedo());
  m_actions["edit.undo"]->setToolTip(d.canUndo() ? tr("Undo: %1").arg(QString::fromStdString(d.undoLabel())) : tr("Undo"));
  m_actions["edit.redo"]->setToolTip(d.canRedo() ? tr("Redo: %1").arg(QString::fromStdString(d.redoLabel())) : tr("Redo"));
}

void MainWindow::refreshOutline() {
  std::vector<OutlineView::CellLine> lines;
  int number = 0;
  for (const Cell& cell : m_workspace->document().cells()) {
    const CellView* v = m_notebook->view(cell.id);
    OutlineView::CellLine entry{cell.id, {}, {}, OutlineView::CellLine::Kind::Code, -1};
    if (cell.kind == CellKind::Markdown) {
      entry.kind = OutlineView::CellLine::Kind::Text;
      QString title = QString::fromStdString(markdownOf(m_workspace->document().body(cell)))
                          .section(QLatin1Char('\n'), 0, 0, QString::SectionSkipEmpty);
      while (title.startsWith(QLatin1Char('#'))) title.remove(0, 1);
      entry.title = title.trimmed().isEmpty() ? tr("empty text") : title.trimmed();
    } else {
      ++number;
      QString title;
      std::uint32_t index = 0;
      if (const auto k = m_notebook->analysisCell(cell.id); k && *k < m_workspace->analysis().cells.size()) {
        index = *k;
        const auto& info = m_workspace->analysis().cells[index];
        QStringList names;
        for (const auto& n : info.defines) names << QString::fromStdString(n);
        if (names.size() > 3) names = names.mid(0, 3) << QStringLiteral("...");
        title = info.train ? tr("train %1").arg(QString::fromStdString(info.train->loss)) : names.join(QStringLiteral(", "));
        if (title.isEmpty() && !info.shows.empty()) {
          QStringList shows;
          for (const auto& n : info.shows) shows << QString::fromStdString(n);
          title = tr("show %1").arg(shows.join(QStringLiteral(", ")));
        }
      }
      if (title.isEmpty())
        title = QString::fromStdString(std::string(m_workspace->document().body(cell)))
                    .section(QLatin1Char('\n'), 0, 0, QString::SectionSkipEmpty)
                    .trimmed();
      entry.title = QStringLiteral("%1  %2").arg(number).arg(title.isEmpty() ? tr("empty") : title);
      if (v) {
        entry.status = static_cast<int>(v->status());
        switch (v->status()) {
          case CellStatus::Ok: break;
          case CellStatus::Error:
            entry.state = counted(std::max<std::int64_t>(1, v->diagnosticTexts().size()), tr("error"), tr("errors"));
            break;
          case CellStatus::Stale: entry.state = tr("stale"); break;
          case CellStatus::Queued: entry.state = tr("queued"); break;
          case CellStatus::Running: entry.state = tr("running"); break;
        }
      }
    }
    lines.push_back(std::move(entry));
  }
  m_outline->setCells(lines, m_notebook->activeCell());
}

void MainWindow::setStatus(const QString& icon, const QString& text) {
  const Palette& c = m_theme->colors();
  const QColor color = icon == QLatin1String("error")                                   ? c.failed
                       : icon == QLatin1String("proved") || icon == QLatin1String("ok") ? c.proved
                       : icon == QLatin1String("running")                               ? c.accent
                                                                                        : c.muted;
  m_statusIcon->setPixmap(m_theme->pixmap(icon, color, devicePixelRatioF()));
  m_status->setText(text);
}

void MainWindow::refreshStatus() {
  using State = EngineLink::State;
  const auto& run = m_workspace->runState();
  constexpr auto phases = protocol::enumNames(protocol::RunPhase{});
  switch (m_workspace->engine().state()) {
    case State::Stopped:
    case State::Starting: setStatus("running", tr("Starting the engine")); break;
    case State::Dead: setStatus("error", tr("The engine is gone; the notebook can be edited and saved")); break;
    case State::Ready:
      if (m_workspace->running()) {
        QString text = QString::fromLatin1(phases[static_cast<std::size_t>(run.phase)]);
        text[0] = text[0].toUpper();
        if (run.step > 0) text += tr(", step %1").arg(grouped(run.step));
        if (!run.detail.empty()) text += QStringLiteral(", ") + QString::fromStdString(run.detail);
        setStatus("running", text);
      } else if (!m_workspace->analysisIsCurrent()) {
        setStatus("running", tr("Checking"));
      } else {
        int errors = 0;
        for (const auto& d : m_workspace->analysis().diagnostics) errors += d.severity == protocol::Severity::Error;
        if (errors > 0) setStatus("error", counted(errors, tr("error"), tr("errors")));
        else
          setStatus("proved", tr("Parse, shapes and gradient up to date, %1 ms after the last key")
                                  .arg(static_cast<int>(m_workspace->millisecondsAfterKey())));
      }
  }
  QString constants;
  if (m_workspace->devices())
    for (const auto& d : m_workspace->devices()->devices)
      if (d.constants && (d.inUse || constants.isEmpty()) && d.unavailable.empty()) {
        constants = QStringLiteral("%1  %2  ·  %3  ·  %4")
                        .arg(QString::fromStdString(d.name), flopsText(d.constants->bandwidth, QStringLiteral("B/s")),
                             flopsText(d.constants->flopRate, QStringLiteral("FLOP/s")),
                             tr("launch %1").arg(microsecondsText(d.constants->launchSeconds * 1e6)));
        m_tune->setDevice(d.constants);
      }
  m_constants->setText(constants);
}

void MainWindow::refreshDevice() {
  QString text = tr("No device yet");
  if (m_workspace->devices())
    for (const auto& d : m_workspace->devices()->devices)
      if (d.unavailable.empty() && (d.inUse || text == tr("No device yet") || text == QLatin1String("reference")))
        text = QString::fromStdString(d.name);
  m_device->setText(text);
}

void MainWindow::inspect(const QString& name) {
  const auto* t = m_workspace->tensor(name.toStdString());
  if (!t) return;
  m_inspected = name;
  m_inspector->setTensor(*t);
  m_workspace->wantExpression(name);
  m_workspace->wantSlice(m_inspector->values()->request());
  refreshLeads();
}

// The tensor of the smallest selected token; else the one whose definition is selected.
void MainWindow::inspectSelection() {
  const Selection& selection = m_workspace->selection();
  if (selection.empty()) {
    // Nothing chosen yet: the last thing a cell shows is what the notebook is about.
    if (m_inspected.isEmpty())
      for (const auto& cell : m_workspace->analysis().cells)
        if (!cell.shows.empty()) m_inspected = QString::fromStdString(cell.shows.back());
    if (!m_inspected.isEmpty()) inspect(m_inspected);
    return;
  }
  const protocol::TokenInfo* best = nullptr;
  for (const auto& token : m_workspace->analysis().tokens)
    if (selection.relation(token.origins) == Selection::Relation::Exact &&
        (!best || token.end - token.begin > best->end - best->begin))
      best = &token;
  if (best && !best->tensor.empty()) return inspect(QString::fromStdString(best->tensor));
  for (const auto& t : m_workspace->analysis().tensors)
    if (selection.relation(t.origins) == Selection::Relation::Exact) return inspect(QString::fromStdString(t.name));
}

void MainWindow::refreshLeads() {
  std::vector<InspectorView::Lead> leads;
  const auto* t = m_workspace->tensor(m_inspected.toStdString());
  if (t) {
    Selection probe;
    probe.setSpans(m_workspace->analysis().spans);
    probe.select(t->origins);
    for (const auto& node : m_explain->graph()->graph().nodes)
      if (node.id == t->name || probe.relation(node.origins) == Selection::Relation::Exact) {
        if (leads.size() >= 6) break;
        leads.push_back({QStringLiteral("graph"), tr("Node %1").arg(QString::fromStdString(node.name)),
                         QString::fromLatin1(protocol::enumNames(protocol::Phase{})[static_cast<std::size_t>(node.phase)]),
                         QStringLiteral("node:") + QString::fromStdString(node.id)});
      }
    for (const auto& s : m_workspace->subgraphs().subgraphs)
      if (std::find(s.operators.begin(), s.operators.end(), t->name) != s.operators.end() ||
          probe.relation(s.origins) == Selection::Relation::Exact) {
        if (leads.size() >= 10) break;
        leads.push_back({QStringLiteral("code"), tr("Kernel %1").arg(QString::fromStdString(s.name)),
                         s.us ? microsecondsText(*s.us) : QString(), QStringLiteral("kernel:") + QString::fromStdString(s.id)});
      }
  }
  m_inspector->setLeads(leads);
}

// ---------------------------------------------------------------- doing
void MainWindow::openFile(const QString& path) {
  const auto opened = m_workspace->open(path);
  if (!opened) {
    m_messages->ask("open", QString::fromStdString(opened.error().message), {});
    return;
  }
  remember(m_workspace->path());
}

void MainWindow::remember(const QString& path) {
  QSettings settings;
  QStringList recent = settings.value(QStringLiteral("recent")).toStringList();
  recent.removeAll(path);
  recent.prepend(path);
  settings.setValue(QStringLiteral("recent"), recent.mid(0, 12));
}

void MainWindow::save(bool ask) {
  QString path = m_workspace->path();
  if (ask || path.isEmpty())
    path = QFileDialog::getSaveFileName(this, tr("Save the notebook"), path.isEmpty() ? QStringLiteral("untitled.nf") : path,
                                        tr("Notebooks (*.nf)"));
  if (path.isEmpty()) return;
  const auto saved = m_workspace->save(path);
  if (!saved) {
    m_messages->ask("save", QString::fromStdString(saved.error().message), {tr("Try again"), tr("Save as...")});
    return;
  }
  m_messages->dismiss("save");
  m_messages->dismiss("close");
  remember(m_workspace->path());
  setStatus("ok", tr("Saved %1").arg(m_workspace->name()));
  if (m_closing) close();
}

void MainWindow::undoOrRedo(bool undo) {
  Document& d = m_workspace->document();
  const auto where = undo ? d.undo() : d.redo();
  if (!where) return;
  m_notebook->followDocument();
  showPage(page() == Page::Author ? Page::Author : page());
  m_notebook->scrollToByte(std::min(*where, d.text().size()), page() == Page::Author);
  refreshOutline();
  refreshTitle();
}

void MainWindow::runActive(int then) {
  const CellId id = m_notebook->activeCell();
  runCell(id);
  if (then == 1) {
    if (m_workspace->document().indexOf(id) + 1 >= m_workspace->document().cells().size()) m_notebook->insertBelow();
    else m_notebook->activateBeside(1);
  } else if (then == 2) {
    m_notebook->insertBelow();
  } else {
    m_notebook->activate(id, false);
  }
}

void MainWindow::runCell(CellId id) {
  CellView* v = m_notebook->view(id);
  if (!v || v->kind() == CellKind::Markdown) return;
  if (m_workspace->engine().state() != EngineLink::State::Ready) {
    setStatus("error", tr("The engine is not running"));
    return;
  }
  const auto cell = m_notebook->analysisCell(id);
  if (!cell || !m_workspace->analysisIsCurrent()) {
    setStatus("stale", tr("The cell is still being checked"));
    return;
  }
  const auto& info = m_workspace->analysis().cells[*cell];
  if (v->status() == CellStatus::Error && !v->diagnosticTexts().isEmpty()) {
    setStatus("error", v->diagnosticTexts().front().section(QLatin1Char('\n'), 0, 0));
    return;
  }
  if (info.train && m_workspace->running()) {
    setStatus("error", tr("Another run is under way: stop it first"));
    return;
  }
  v->setStatus(CellStatus::Running, {});
  m_workspace->runCell(*cell, info.train.has_value());
  refreshOutline();
}

void MainWindow::showCell(CellId id) {
  m_notebook->activate(id, false);
  if (CellView* v = m_notebook->view(id)) m_notebook->ensureWidgetVisible(v, 0, 40);
}

void MainWindow::trainFirst() { m_trainWhenChecked = true; }

void MainWindow::answer(const QString& key, int index) {
  if (key == QLatin1String("engine") && index == 0) {
    m_workspace->startEngine();
    refreshStatus();
  } else if (key == QLatin1String("journal") && m_left) {
    if (index == 0) {
      m_workspace->recover(*m_left);
      m_notebook->followDocument();
      refreshOutline();
    } else if (index == 1) {
      compare(m_workspace->document().text(), m_left->text, tr("What the journal has and the file has not"));
      m_messages->ask("journal", tr("Recover the changes of the session that ended?"),
                      {tr("Recover"), tr("Compare"), tr("Discard")});
    } else if (index == 2) {
      m_workspace->removeJournal();
    }
  } else if (key == QLatin1String("outside")) {
    if (index == 1) {
      m_workspace->reloadFromDisk();
      m_notebook->followDocument();
      refreshOutline();
    } else if (index == 2) {
      QFile file(m_workspace->path());
      if (file.open(QIODevice::ReadOnly))
        compare(m_workspace->document().text(), file.readAll().toStdString(), tr("What the file has and this window has not"));
      m_messages->ask("outside", tr("%1 changed on disk while it was edited here.").arg(m_workspace->name()),
                      {tr("Keep mine"), tr("Reload"), tr("Compare")});
    }
  } else if (key == QLatin1String("save")) {
    if (index >= 0) save(index == 1);
  } else if (key == QLatin1String("close")) {
    m_closing = index == 0 || index == 1;
    if (index == 0) save(false);
    if (index == 1) {
      m_workspace->removeJournal();
      close();
    }
  }
}

void MainWindow::compare(const std::string& before, const std::string& after, const QString& title) {
  auto* dialog = new QDialog(this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setWindowTitle(title);
  dialog->resize(820, 620);
  auto* layout = new QVBoxLayout(dialog);
  auto* text = new QPlainTextEdit;
  text->setReadOnly(true);
  text->setFont(m_theme->mono(13));
  text->setLineWrapMode(QPlainTextEdit::NoWrap);
  layout->addWidget(text);
  const Palette& c = m_theme->colors();
  QTextCursor cursor(text->document());
  for (const DiffLine& l : diffLines(before, after)) {
    QTextBlockFormat format;
    if (l.kind == DiffLine::Kind::Removed) format.setBackground(mixed(c.page, c.failed, 0.18));
    if (l.kind == DiffLine::Kind::Added) format.setBackground(mixed(c.page, c.proved, 0.18));
    cursor.setBlockFormat(format);
    cursor.insertText((l.kind == DiffLine::Kind::Removed ? QStringLiteral("- ")
                       : l.kind == DiffLine::Kind::Added ? QStringLiteral("+ ")
                                                         : QStringLiteral("  ")) +
                      QString::fromStdString(l.text));
    cursor.insertBlock();
  }
  dialog->show();
}

void MainWindow::openPalette(bool everything) {
  std::vector<CommandPalette::Entry> entries;
  if (everything) {
    for (const auto& s : m_workspace->analysis().symbols) {
      if (!s.definition.source.empty()) continue;
      entries.push_back({QStringLiteral("tensor"), QString::fromStdString(s.name), QString::fromStdString(s.detail).left(28),
                         [this, at = s.definition.begin] {
                           showPage(Page::Author);
                           m_notebook->scrollToByte(at, true);
                         }});
    }
    int number = 0;
    for (const Cell& cell : m_workspace->document().cells()) {
      const QString first =
          QString::fromStdString(std::string(m_workspace->document().body(cell))).section(QLatin1Char('\n'), 0, 0);
      number += cell.kind == CellKind::Code;
      entries.push_back({cell.kind == CellKind::Code ? QStringLiteral("code") : QStringLiteral("text"), first,
                         cell.kind == CellKind::Code ? tr("cell %1").arg(number) : tr("text"), [this, id = cell.id] {
                           showPage(Page::Author);
                           m_notebook->activate(id, false);
                           if (CellView* v = m_notebook->view(id)) m_notebook->ensureWidgetVisible(v, 0, 40);
                         }});
    }
    for (const auto& node : m_explain->graph()->graph().nodes)
      entries.push_back(
          {QStringLiteral("graph"), QString::fromStdString(node.name), tr("node"), [this, id = QString::fromStdString(node.id)] {
             showPage(Page::Explain);
             m_explain->graph()->choose(id, true);
           }});
  }
  for (const QString& id : m_actionOrder) {
    QAction* a = m_actions.at(id);
    if (a->isEnabled())
      entries.push_back(
          {a->property("icon").toString(), a->text(), a->shortcut().toString(QKeySequence::NativeText), [a] { a->trigger(); }});
  }
  m_palette->open(everything ? tr("Go to anything") : tr("Run a command"), std::move(entries));
}

void MainWindow::showShortcuts() {
  auto* dialog = new QDialog(this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setWindowTitle(tr("Keyboard shortcuts"));
  dialog->setObjectName(QStringLiteral("shortcuts"));
  auto* layout = new QVBoxLayout(dialog);
  auto* scroll = new QScrollArea;
  scroll->setWidgetResizable(true);
  auto* content = new QWidget;
  content->setProperty("role", QStringLiteral("page"));
  auto* grid = new QGridLayout(content);
  grid->setHorizontalSpacing(32);
  int row = 0;
  const auto entry = [&](const QString& key, const QString& text) {
    auto* k = label(key);
    k->setFont(m_theme->mono(12));
    grid->addWidget(k, row, 0);
    grid->addWidget(label(text), row++, 1);
  };
  const auto heading = [&](const QString& text) {
    auto* h = label(text);
    h->setFont(m_theme->ui(15, QFont::DemiBold));
    grid->addWidget(h, row++, 0, 1, 2);
  };
  heading(tr("Anywhere"));
  for (const QString& id : m_actionOrder)
    if (const QAction* a = m_actions.at(id); !a->shortcut().isEmpty())
      entry(a->shortcut().toString(QKeySequence::NativeText), a->text());
  heading(tr("In the notebook, outside a cell's text"));
  const std::pair<const char*, QString> keys[] = {{"Enter", tr("Edit the cell")},
                                                  {"J  K", tr("Next, previous cell")},
                                                  {"A  B", tr("Insert above, below")},
                                                  {"D D", tr("Delete the cell")},
                                                  {"X  C  V", tr("Cut, copy, paste the cell")},
                                                  {"M  Y", tr("To Markdown, to code")},
                                                  {"Z", tr("Undo")}};
  for (const auto& [key, text] : keys) entry(QString::fromLatin1(key), text);
  heading(tr("In a cell's text"));
  entry(QStringLiteral("Esc"), tr("Leave the text"));
  entry(QStringLiteral("Ctrl+Space"), tr("Complete a name"));
  heading(tr("In the trials"));
  entry(QStringLiteral("Left  Right"), tr("The trial before, after"));
  entry(QStringLiteral("PgUp  PgDn"), tr("The generation before, after"));
  entry(QStringLiteral("Home  End"), tr("The first, the last trial"));
  heading(tr("In the graph"));
  entry(QStringLiteral("Arrows"), tr("Follow an edge"));
  entry(QStringLiteral("+  -  0"), tr("Zoom in, out, all"));
  scroll->setWidget(content);
  layout->addWidget(scroll);
  dialog->resize(520, 640);
  dialog->show();
}

// ---------------------------------------------------------------- the window
void MainWindow::restoreLayout() {
  QSettings settings;
  if (settings.value(QStringLiteral("layout/version")).toInt() != kLayoutVersion) return;
  restoreGeometry(settings.value(QStringLiteral("layout/geometry")).toByteArray());
  m_authorSplit->restoreState(settings.value(QStringLiteral("layout/author")).toByteArray());
  m_explain->splitter()->restoreState(settings.value(QStringLiteral("layout/explain")).toByteArray());
}

void MainWindow::closeEvent(QCloseEvent* event) {
  if (m_workspace->document().modified() && !m_closing) {
    event->ignore();
    m_messages->ask("close", tr("%1 has changes that are not saved.").arg(m_workspace->name()),
                    {tr("Save and close"), tr("Close without saving")});
    return;
  }
  m_closing = false;
  QSettings settings;
  settings.setValue(QStringLiteral("layout/version"), kLayoutVersion);
  settings.setValue(QStringLiteral("layout/geometry"), saveGeometry());
  settings.setValue(QStringLiteral("layout/author"), m_authorSplit->saveState());
  settings.setValue(QStringLiteral("layout/explain"), m_explain->splitter()->saveState());
  QMainWindow::closeEvent(event);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  for (const QUrl& url : event->mimeData()->urls())
    if (url.isLocalFile()) return openFile(url.toLocalFile());
}

void MainWindow::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  if (m_palette) m_palette->hide();
}

}  // namespace nf
