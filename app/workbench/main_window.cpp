// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/main_window.h"

#include <QCloseEvent>
#include <QCoreApplication>
#include <QDir>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFile>
#include <QFileInfo>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMenuBar>
#include <QMimeData>
#include <QPointer>
#include <QPushButton>
#include <QScreen>
#include <QSettings>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTabBar>
#include <QThreadPool>
#include <QToolBar>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "app/workbench/toolbar_focus.h"
#include "widgets/basic.h"
#include "widgets/cell_view.h"
#include "widgets/command_palette.h"
#include "widgets/devices_view.h"
#include "widgets/dock_page.h"
#include "widgets/explain_view.h"
#include "widgets/find_bar.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/lay_out_before_paint.h"
#include "widgets/message_bar.h"
#include "widgets/notebook_view.h"
#include "widgets/outline_view.h"
#include "widgets/rename_bar.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

// Says when its tabs may have come to need another room than it has.
class TabBar : public QTabBar {
 public:
  std::function<void()> changed;

 protected:
  void tabLayoutChange() override {
    QTabBar::tabLayoutChange();
    tell();
  }
  void resizeEvent(QResizeEvent* event) override {
    QTabBar::resizeEvent(event);
    tell();
  }

 private:
  // Later: its tabs are being laid out.
  void tell() {
    QTimer::singleShot(0, this, [this] {
      if (changed) changed();
    });
  }
};

}  // namespace

MainWindow::MainWindow(Theme* theme, QStringList engineCommand, QWidget* parent)
    : QMainWindow(parent), m_theme(theme), m_text(new Theme(*theme, theme)), m_engineCommand(std::move(engineCommand)),
      m_actions(new ActionRegistry(theme, this)), m_messages(new MessageBar(theme)), m_pages(new QStackedWidget),
      m_notebooks(new QStackedWidget), m_tabBar(new TabBar), m_tabRow(new QWidget), m_find(new FindBar(theme)),
      m_rename(new RenameBar(theme)), m_author(new DockPage(theme, QStringLiteral("author"))) {
  resize(1600, 1000);
  layOutBeforePaint(this);
  setAcceptDrops(true);
  m_outline = new OutlineView(theme, &m_selection);
  m_inspector = new InspectorView(theme);
  m_explain = new ExplainView(theme, &m_selection);
  m_tune = new TuneView(theme, &m_selection);
  m_devices = new DevicesView(theme);
  makeActions();
  makeMenus();
  menuBar()->setFixedHeight(28);
  auto* bar = new QToolBar(tr("Toolbar"));
  bar->setObjectName(QStringLiteral("toolbar"));
  bar->setMovable(false);
  bar->setContextMenuPolicy(Qt::PreventContextMenu);
  bar->setFixedHeight(44);
  bar->addWidget(makeToolbar());
  m_toolbarFocus = new ToolbarFocus(bar, m_pages, [this] { focusPage(); });
  addToolBar(Qt::TopToolBarArea, bar);
  makeAuthor();
  auto* central = new QWidget;
  auto* layout = new QVBoxLayout(central);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  layout->addWidget(line());
  layout->addWidget(m_messages);
  m_tabRow->setProperty("role", QStringLiteral("page"));
  m_tabRow->setAttribute(Qt::WA_StyledBackground);
  auto* tabs = new QVBoxLayout(m_tabRow);
  tabs->setContentsMargins(0, 0, 0, 0);
  tabs->setSpacing(0);
  tabs->addWidget(line());
  layout->addWidget(m_tabRow);
  for (QWidget* page : {static_cast<QWidget*>(m_author), static_cast<QWidget*>(m_explain), static_cast<QWidget*>(m_tune),
                        static_cast<QWidget*>(m_devices)})
    m_pages->addWidget(page);
  layout->addWidget(m_pages, 1);
  setCentralWidget(central);
  m_statusIcon = new QLabel;
  m_status = new ElidedLabel;
  m_status->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  m_constants = new ElidedLabel;
  m_place = label({});
  m_place->setContentsMargins(12, 0, 0, 0);
  statusBar()->setSizeGripEnabled(false);
  statusBar()->setContentsMargins(8, 0, 8, 0);
  statusBar()->addWidget(m_statusIcon);
  statusBar()->addWidget(m_status, 1);
  statusBar()->addPermanentWidget(m_constants);
  statusBar()->addPermanentWidget(m_place);
  m_palette = new CommandPalette(theme, this);
  m_sessionTimer.setSingleShot(true);
  m_sessionTimer.setInterval(1000);
  connect(&m_sessionTimer, &QTimer::timeout, this, &MainWindow::writeSession);
  m_leadsTimer.setSingleShot(true);
  m_leadsTimer.setInterval(300);
  connectViews();
  connect(theme, &Theme::changed, this, [this] {
    m_device->setIcon(m_theme->icon(QStringLiteral("chip")));
    refreshOutline();
    refreshStatus();
  });
  showTab(indexOf(newTab()));
  setStatus(QStringLiteral("running"), tr("Starting the engine"));
  showPage(Page::Author);
}

MainWindow::~MainWindow() {
  delete m_toolbarFocus;
  m_text->deleteLater();
  for (auto& tab : m_tabs) {
    tab->workspace->disconnect(this);
    tab->notebook->disconnect(this);
    tab->notebook->setDocument(nullptr);
  }
}

QWidget* MainWindow::makeToolbar() {
  auto* bar = new QWidget;
  bar->setProperty("role", QStringLiteral("chrome"));
  bar->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  auto* grid = new QGridLayout(bar);
  grid->setContentsMargins(12, 0, 8, 0);
  auto* left = new QHBoxLayout;
  left->setSpacing(8);
  m_name = new ElidedLabel("title", Qt::ElideMiddle);
  auto* state = new ElidedLabel("muted");
  state->setFont(m_theme->ui(12));
  state->setSizePolicy(QSizePolicy::Maximum, QSizePolicy::Preferred);
  state->setLeast(34);
  m_state = state;
  // The name gives way to the buttons: what stops a run is in sight on every page and at every size.
  m_name->setSizePolicy(QSizePolicy::Maximum, QSizePolicy::Preferred);
  m_name->setLeast(72);
  left->addWidget(m_name);
  left->addWidget(m_state);
  left->addSpacing(16);
  for (const char* id : {"edit.undo", "edit.redo", "run.cell", "run.pause", "run.stop"}) {
    auto* button = new QToolButton;
    QAction* a = action(QString::fromLatin1(id));
    button->setObjectName(QString::fromLatin1(id));
    const bool runs = QLatin1String(id) == QLatin1String("run.cell");
    if (runs) {
      // The key writes on below the last cell; who presses a button does not.
      const auto dress = [a, button] {
        button->setText(a->text());
        button->setIcon(a->icon());
        button->setToolTip(a->toolTip());
        button->setEnabled(a->isEnabled());
      };
      dress();
      connect(a, &QAction::changed, button, dress);
      connect(button, &QToolButton::clicked, this, [this] { runActive(AfterRun::NextIfAny); });
    } else {
      button->setDefaultAction(a);
    }
    const bool words = runs || QLatin1String(id) == QLatin1String("run.stop");
    button->setToolButtonStyle(words ? Qt::ToolButtonTextBesideIcon : Qt::ToolButtonIconOnly);
    button->setFocusPolicy(Qt::TabFocus);
    button->setAccessibleName(a->text());
    connect(a, &QAction::changed, button, [a, button] { button->setAccessibleName(a->text()); });
    left->addWidget(button);
    if (QLatin1String(id) == QLatin1String("edit.redo")) left->addSpacing(12);
  }
  left->addStretch(1);
  m_switch = new SegmentedSwitch(m_theme, {tr("Author"), tr("Explain"), tr("Tune")}, 88);
  connect(m_switch, &SegmentedSwitch::chosen, this, [this](int i) { showPage(static_cast<Page>(i)); });
  auto* right = new QHBoxLayout;
  right->setSpacing(12);
  right->addStretch(0);
  auto* go = new QPushButton;
  go->setFixedHeight(28);
  go->setMinimumWidth(112);
  go->setMaximumWidth(248);
  go->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  go->setAccessibleName(tr("Go to anything"));
  auto* inside = new QHBoxLayout(go);
  inside->setContentsMargins(8, 0, 8, 0);
  auto* lens = new QLabel;
  auto* words = new ElidedLabel("muted");
  words->setText(tr("Go to anything"));
  auto* key = label({}, "hint");
  key->setFont(m_theme->ui(11));
  for (QWidget* w : {static_cast<QWidget*>(lens), static_cast<QWidget*>(words), static_cast<QWidget*>(key)})
    w->setAttribute(Qt::WA_TransparentForMouseEvents);
  inside->addWidget(lens);
  inside->addWidget(words, 1);
  inside->addWidget(key);
  const auto dress = [this, lens, key] {
    lens->setPixmap(m_theme->pixmap(QStringLiteral("search"), m_theme->colors().muted, devicePixelRatioF()));
    key->setText(action(QStringLiteral("tools.go"))->shortcut().toString(QKeySequence::NativeText));
  };
  connect(m_theme, &Theme::changed, go, dress);
  connect(m_actions, &ActionRegistry::keysChanged, go, dress);
  dress();
  connect(go, &QPushButton::clicked, action(QStringLiteral("tools.go")), &QAction::trigger);
  right->addWidget(go, 1);
  m_device = new QToolButton;
  m_device->setIcon(m_theme->icon(QStringLiteral("chip")));
  m_device->setProperty("role", QStringLiteral("field"));
  m_device->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  m_device->setFocusPolicy(Qt::TabFocus);
  m_device->setFixedHeight(28);
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

void MainWindow::makeAuthor() {
  auto* middle = new QWidget;
  auto* layout = new QVBoxLayout(middle);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  auto* row = new QWidget;
  row->setProperty("role", QStringLiteral("page"));
  row->setAttribute(Qt::WA_StyledBackground);
  row->setFixedHeight(34);
  auto* buttons = new QHBoxLayout(row);
  buttons->setContentsMargins(0, 0, 10, 0);
  buttons->setSpacing(8);
  m_tabBar->setExpanding(false);
  m_tabBar->setDrawBase(false);
  m_tabBar->setMovable(true);
  m_tabBar->setElideMode(Qt::ElideNone);
  m_tabBar->setUsesScrollButtons(true);
  m_tabBar->setAccessibleName(tr("Notebooks"));
  m_tabBar->setContextMenuPolicy(Qt::CustomContextMenu);
  connect(m_tabBar, &QTabBar::currentChanged, this, &MainWindow::showTab);
  connect(m_tabBar, &QTabBar::tabMoved, this,
          [this](int from, int to) { std::swap(m_tabs[static_cast<std::size_t>(from)], m_tabs[static_cast<std::size_t>(to)]); });
  connect(m_tabBar, &QWidget::customContextMenuRequested, this, [this](const QPoint& at) {
    const int index = m_tabBar->tabAt(at);
    if (index < 0) return;
    QMenu menu;
    menu.addAction(tr("Close"), this, [this, index] { closeTab(index); });
    menu.exec(m_tabBar->mapToGlobal(at));
  });
  buttons->addWidget(m_tabBar, 1);
  auto* all = new IconButton(m_theme, QStringLiteral("more"));
  all->setObjectName(QStringLiteral("allTabs"));
  all->setAccessibleName(tr("All notebooks"));
  all->setToolTip(tr("All open notebooks"));
  all->setPopupMode(QToolButton::InstantPopup);
  auto* names = new QMenu(all);
  connect(names, &QMenu::aboutToShow, this, [this, names] {
    names->clear();
    for (int i = 0; i < m_tabBar->count(); ++i) {
      QAction* one = names->addAction(m_tabBar->tabText(i), this, [this, i] { showTab(i); });
      one->setCheckable(true);
      one->setChecked(i == m_tabBar->currentIndex());
    }
  });
  all->setMenu(names);
  all->hide();
  buttons->addWidget(all);
  static_cast<TabBar*>(m_tabBar)->changed = [this, all] {
    const int last = m_tabBar->count() - 1;
    all->setVisible(last > 0 && m_tabBar->tabRect(last).right() - m_tabBar->tabRect(0).left() >= m_tabBar->width());
  };
  const auto arrows = [this] {
    for (const auto& [name, icon] : {std::pair("ScrollLeftButton", "left"), std::pair("ScrollRightButton", "right")})
      if (auto* button = m_tabBar->findChild<QToolButton*>(QLatin1String(name))) {
        button->setArrowType(Qt::NoArrow);
        button->setIcon(m_theme->icon(QLatin1String(icon)));
      }
  };
  arrows();
  connect(m_theme, &Theme::changed, this, arrows);
  m_authorTabs = buttons;
  auto* text = new IconButton(m_theme, QStringLiteral("text"), tr("Text"));
  auto* cell = new IconButton(m_theme, QStringLiteral("plus"), tr("Cell"));
  cell->setToolTip(tr("Insert a cell below (B)"));
  text->setToolTip(tr("Insert a text cell below"));
  connect(cell, &QToolButton::clicked, action(QStringLiteral("cell.below")), &QAction::trigger);
  connect(text, &QToolButton::clicked, action(QStringLiteral("cell.text")), &QAction::trigger);
  auto* more = new IconButton(m_theme, QStringLiteral("more"));
  more->setAccessibleName(tr("More about cells"));
  more->setToolTip(tr("Move, split, join, delete"));
  more->setPopupMode(QToolButton::InstantPopup);
  auto* menu = new QMenu(more);
  for (const char* id : {"cell.up", "cell.down", "cell.split", "cell.join", "cell.kind", "cell.remove"})
    menu->addAction(action(QString::fromLatin1(id)));
  more->setMenu(menu);
  for (QWidget* w : {static_cast<QWidget*>(text), static_cast<QWidget*>(cell), static_cast<QWidget*>(more)}) buttons->addWidget(w);
  layout->addWidget(row);
  layout->addWidget(line());
  layout->addWidget(m_find);
  layout->addWidget(m_rename);
  layout->addWidget(m_notebooks, 1);
  m_author->setCentralWidget(middle);
  m_outline->setMinimumWidth(180);
  m_inspector->setMinimumWidth(260);
  m_author->addPanel(QStringLiteral("outline"), new PanelHeader(m_theme, tr("Outline")), m_outline, Qt::LeftDockWidgetArea, 256);
  m_author->addPanel(QStringLiteral("inspector"), new PanelHeader(m_theme, tr("Inspector")), m_inspector, Qt::RightDockWidgetArea,
                     352);
  keepForNotebook();
}

// A line of code as it is usually written has room.
void MainWindow::keepForNotebook() {
  constexpr double kNotebook = 520;
  m_author->keepForMiddle(qRound(kNotebook * textScale()), {QStringLiteral("outline"), QStringLiteral("inspector")});
}

// ---------------------------------------------------------------- notebooks
MainWindow::Tab* MainWindow::newTab() {
  auto tab = std::make_unique<Tab>();
  const auto newJournal = [this] { return m_store ? m_store->newJournal() : QString(); };
  tab->workspace = std::make_unique<Workspace>(m_engineCommand, &m_selection, newJournal, freeUntitled());
  tab->notebook = new NotebookView(m_text, &m_selection);
  tab->notebook->setLibrary([](const std::string& source) { return libraryText(source).toStdString(); });
  m_notebooks->addWidget(tab->notebook);
  Tab* made = tab.get();
  connectTab(made);
  connectRun(made);
  connectNotebook(made);
  made->notebook->setDocument(&made->workspace->document());
  m_tabs.push_back(std::move(tab));
  const QSignalBlocker quiet(m_tabBar);
  m_tabBar->addTab(QString());
  refreshTabs();
  return made;
}

int MainWindow::freeUntitled() const {
  for (int number = 1;; ++number)
    if (std::none_of(m_tabs.begin(), m_tabs.end(),
                     [&](const auto& tab) { return tab->workspace->path().isEmpty() && tab->workspace->untitled() == number; }))
      return number;
}

int MainWindow::indexOf(const Tab* tab) const {
  for (std::size_t i = 0; i < m_tabs.size(); ++i)
    if (m_tabs[i].get() == tab) return static_cast<int>(i);
  return -1;
}

void MainWindow::showTab(int index) {
  if (index < 0 || index >= static_cast<int>(m_tabs.size())) return;
  Tab* next = m_tabs[static_cast<std::size_t>(index)].get();
  if (next == m_tab) return;
  m_rename->hide();
  const bool finding = m_tab && m_find->isVisibleTo(m_find->parentWidget());
  if (finding) m_tab->notebook->find({}, false);
  if (m_tab) m_tab->tuned = m_tune->place(), leaveChoice();
  m_tune->finishBudget();
  if (m_tab) m_tab->workspace->setCurrent(false);
  m_tab = next;
  {
    const QSignalBlocker quiet(m_tabBar);
    m_tabBar->setCurrentIndex(index);
  }
  m_notebooks->setCurrentWidget(m_tab->notebook);
  m_inspector->clear();
  m_inspector->setRevision(m_tab->workspace->document().revision());
  m_explain->setRevision(m_tab->workspace->document().revision());
  m_explain->reset();
  m_tune->reset();
  m_selection.clear();
  m_outline->filterField()->clear();
  m_tab->workspace->setCurrent(true);
  m_outline->setNames(m_tab->workspace->names(), m_tab->workspace->missing());
  refreshSteps();
  m_tune->goBack(m_tab->tuned);
  m_tune->setBudget(m_tab->workspace->budget());
  m_tune->setRunState(m_tab->workspace->runState(), m_tab->workspace->trialsOfOthers());
  m_tune->setByHand(m_tab->workspace->trialsByHand());
  if (const auto& profile = m_tab->workspace->profile()) m_tune->setProfile(*profile, m_tab->workspace->profileTaken());
  showRun();
  refreshPeer();
  followRun();
  for (const char* key : {"close", "save", "open", "training"}) m_messages->dismiss(QString::fromLatin1(key));
  m_closeAsked = Close::No;
  refreshMessages();
  if (m_enginesWanted && m_tab->workspace->engine().state() == EngineLink::State::Stopped) m_tab->workspace->startEngine();
  refreshTitle();
  afterRunChange();
  // Each notebook has an engine of its own, and a device that it uses.
  if (const auto& devices = m_tab->workspace->devices()) {
    m_devices->setDevices(*devices, m_tab->workspace->devicesTaken());
    m_outline->setDevices(*devices);
  }
  refreshDevice();
  refreshPage();
  if (!m_tab->inspected.isEmpty()) inspect(m_tab->inspected);
  // An empty notebook is there to be written into.
  m_tab->notebook->activate(m_tab->notebook->activeCell(), m_tab->workspace->document().text().empty());
  returnToChoice();
  if (finding) m_tab->notebook->find(m_find->field()->text(), m_find->exact());
  refreshPlace();
}

// The current one is empty and nobody has written into it: what is opened takes its place.
bool MainWindow::untouchedTab() const {
  Document& d = m_tab->workspace->document();
  return m_tab->workspace->path().isEmpty() && !d.modified() && d.text().empty();
}

void MainWindow::openFiles(const QStringList& paths, Missing missing) {
  QStringList refused;
  for (const QString& path : paths)
    if (const QString why = tryToOpen(path, missing); !why.isEmpty()) refused << why;
  if (!refused.isEmpty()) m_messages->ask("open", refused.join(QLatin1Char('\n')), {});
}

// Where this file is open, by whatever path; null: nowhere.
MainWindow::Tab* MainWindow::tabOf(const QString& path) const {
  if (path.isEmpty()) return nullptr;
  const QString wanted = QFileInfo(path).absoluteFilePath(), file = QFileInfo(wanted).canonicalFilePath();
  for (const auto& tab : m_tabs) {
    const QString open = tab->workspace->path();
    if (open == wanted || (!open.isEmpty() && !file.isEmpty() && QFileInfo(open).canonicalFilePath() == file)) return tab.get();
  }
  return nullptr;
}

QString MainWindow::tryToOpen(const QString& path, Missing missing) {
  const QString wanted = QFileInfo(path).absoluteFilePath();
  const bool begins = missing == Missing::Begun && !QFileInfo::exists(wanted) && QFileInfo(wanted).dir().exists();
  if (Tab* open = tabOf(path)) {
    showTab(indexOf(open));
    return {};
  }
  if (!begins && (!QFileInfo(wanted).isReadable() || QFileInfo(wanted).isDir())) return tr("%1 cannot be read.").arg(path);
  // Shown as text, it would not be what is on the disk.
  if (QFile file(wanted); file.open(QIODevice::ReadOnly) && file.read(1 << 16).contains('\0'))
    return tr("%1 is no notebook: it holds binary data.").arg(path);
  Tab* tab = untouchedTab() ? m_tab : newTab();
  QString why;
  if (begins) {
    tab->workspace->begin(wanted);
    why = tr("%1 is not there yet. This is a new notebook, and saving it writes the file.").arg(path);
  } else if (const auto opened = tab->workspace->open(wanted); !opened) why = QString::fromStdString(opened.error().message);
  else remember(tab->workspace->path());
  if (m_store) tab->left = m_store->takeOf(wanted);
  for (auto waiting = m_waiting.begin(); waiting != m_waiting.end();) {
    const bool own = QString::fromStdString(waiting->journal.path) == wanted;
    if (own) tab->left.push_back(std::move(*waiting));
    waiting = own ? m_waiting.erase(waiting) : waiting + 1;
  }
  // What was saved after all needs no question.
  std::erase_if(tab->left, [tab](const LeftJournal& left) {
    return left.journal.text == tab->workspace->document().text() && QFile::remove(left.file);
  });
  showTab(indexOf(tab));
  if (begins) tab->notebook->activate(tab->notebook->activeCell(), true);
  refreshTabs();
  keepSession();
  refreshMessages();
  return why;
}

void MainWindow::closeTab(int index) {
  if (index < 0 || index >= static_cast<int>(m_tabs.size())) return;
  Tab* tab = m_tabs[static_cast<std::size_t>(index)].get();
  if (tab->training != 0) {
    showTab(index);
    m_messages->askNow("training", tr("%1 trains.").arg(tab->workspace->name()),
                       {tr("Stop and close"), tr("Train on, then close"), tr("Cancel")});
    return;
  }
  if (tab->workspace->document().modified() && !tab->discard) {
    showTab(index);
    m_closeAsked = Close::Tab;
    m_messages->askNow("close", tr("%1 has changes that are not saved.").arg(tab->workspace->name()),
                       {tr("Save and close"), tr("Close without saving"), tr("Cancel")});
    return;
  }
  if (tab->unwritten) {
    showTab(index);
    return m_messages->askNow("lost",
                              tr("What %1 has learnt is on no disk, and gone when it is closed.").arg(tab->workspace->name()),
                              {tr("Close all the same"), tr("Cancel")});
  }
  if (m_tabs.size() == 1) newTab();
  if (tab == m_tab) showTab(index + 1 < static_cast<int>(m_tabs.size()) ? index + 1 : index - 1);
  tab->workspace->disconnect(this);
  tab->notebook->disconnect(this);
  tab->workspace->forget();
  for (LeftJournal& left : tab->left) m_waiting.push_back(std::move(left));
  tab->notebook->setDocument(nullptr);
  m_notebooks->removeWidget(tab->notebook);
  tab->notebook->deleteLater();
  {
    const QSignalBlocker quiet(m_tabBar);
    m_tabBar->removeTab(index);
  }
  m_tabs.erase(m_tabs.begin() + index);
  const QSignalBlocker quiet(m_tabBar);
  m_tabBar->setCurrentIndex(indexOf(m_tab));
  keepSession();
  refreshTitle();
}

// Later: the run that has ended is still being told of.
void MainWindow::closeEnded(Tab* tab) {
  if (!std::exchange(tab->closeWhenEnded, false)) return;
  QTimer::singleShot(0, tab->workspace.get(), [this, tab] { closeTab(indexOf(tab)); });
}

void MainWindow::startEngine() {
  m_enginesWanted = true;
  m_tab->workspace->startEngine();
}

// ---------------------------------------------------------------- layout and session
void MainWindow::fitToScreen() {
  constexpr int kFrameWidth = 8, kFrameHeight = 40;
  const QSize room = screen()->availableGeometry().size();
  if (width() + kFrameWidth <= room.width() && height() + kFrameHeight <= room.height()) return;
  resize(size().boundedTo(room - QSize(kFrameWidth, kFrameHeight)));
  setWindowState(windowState() | Qt::WindowMaximized);
}

void MainWindow::restoreLayout() {
  QSettings settings;
  m_actions->load(settings);
  if (const double scale = settings.value(QStringLiteral("view/textScale")).toDouble(); scale >= 0.5 && scale <= 3)
    m_text->setTextScale(scale), keepForNotebook();
  if (settings.value(QStringLiteral("layout/version")).toInt() != kLayoutVersion) return;
  restoreGeometry(settings.value(QStringLiteral("layout/geometry")).toByteArray());
  for (DockPage* page : m_pages->findChildren<DockPage*>()) page->restoreLayout(settings);
}

void MainWindow::saveLayout() {
  QSettings settings;
  settings.setValue(QStringLiteral("layout/version"), kLayoutVersion);
  settings.setValue(QStringLiteral("layout/geometry"), saveGeometry());
  for (const DockPage* page : m_pages->findChildren<DockPage*>()) page->saveLayout(settings);
}

void MainWindow::useSession(const Session& session) {
  for (std::size_t i = 0; i < session.tabs.size(); ++i) {
    const SessionTab& kept = session.tabs[i];
    if (kept.journal.isEmpty()) {
      if (QFileInfo(kept.path).isReadable()) openFile(kept.path);
    } else if (auto journal = readJournal(kept.journal)) {
      // A journal may be newer than what was written of its session: the notebook is open then, as it was on disk.
      Tab* open = tabOf(kept.path);
      const bool clean = open && !open->workspace->document().modified() && open->training == 0;
      Tab* tab = clean ? open : untouchedTab() ? m_tab : newTab();
      const bool taken = std::any_of(m_tabs.begin(), m_tabs.end(), [&](const auto& other) {
        return other.get() != tab && other->workspace->path().isEmpty() && other->workspace->untitled() == kept.untitled;
      });
      if (kept.untitled > 0 && !taken) tab->workspace->setUntitled(kept.untitled);
      tab->workspace->openJournal({kept.journal, std::move(*journal)});
      tab->recovered = true;
      showTab(indexOf(tab));
    }
    const auto& cells = m_tab->workspace->document().cells();
    if (kept.cell > 0 && kept.cell < static_cast<int>(cells.size()))
      m_tab->notebook->activate(cells[static_cast<std::size_t>(kept.cell)].id, false);
  }
}

void MainWindow::restoreSession() {
  if (!m_store) return;
  const bool left = openLeft();
  QSettings settings;
  const QStringList files = settings.value(QStringLiteral("session/files")).toStringList();
  const QString current = settings.value(QStringLiteral("session/current")).toString();
  settings.remove(QStringLiteral("session"));
  const int shown = m_tabBar->currentIndex();
  for (const QString& path : files)
    if (QFileInfo(path).isReadable()) openFile(path);
  if (left) showTab(shown);
  else if (QFileInfo(current).isReadable()) openFile(current);
  writeSession();
}

bool MainWindow::openLeft() {
  SessionStore::Left left = m_store->takeAll();
  bool recovered = false;
  qsizetype notebooks = 0;
  for (const Session& session : left.sessions) {
    const int before = untouchedTab() ? 0 : m_tabBar->count();
    useSession(session);
    for (const SessionTab& tab : session.tabs) {
      notebooks += !tab.journal.isEmpty() || !tab.path.isEmpty();
      recovered = recovered || !tab.journal.isEmpty();
    }
    if (&session == &left.sessions.front()) {
      showTab(std::clamp(before + session.current, 0, m_tabBar->count() - 1));
      if (session.page >= 0 && session.page < m_pages->count()) showPage(static_cast<Page>(session.page));
    }
  }
  writeSession();
  if (!recovered && notebooks > 0)
    m_restored = tr("The workbench ended without being closed. What was open is open again; nothing was unsaved.");
  if (!left.unreadable.isEmpty())
    m_restored = (m_restored + tr(" A damaged journal was kept as %1.").arg(left.unreadable.join(QStringLiteral(", ")))).trimmed();
  refreshMessages();
  return !left.sessions.empty();
}

void MainWindow::tellOfLeft() {
  if (!m_store) return;
  QStringList open;
  for (const auto& tab : m_tabs) open << tab->workspace->path();
  const SessionStore::Waiting left = m_store->countLeft(open);
  if (left.notebooks == 0) return;
  const QString all = counted(left.notebooks, tr("notebook"), tr("notebooks"));
  const bool one = left.notebooks == 1;
  askOnce("left",
          left.unsaved == 0 ? tr("A session ended without being closed: %1 %2 open in it.").arg(all, one ? tr("was") : tr("were"))
          : left.unsaved == left.notebooks
              ? tr("A session ended without being closed: %1 that %2.")
                    .arg(all, one ? tr("was not saved waits, as it was") : tr("were not saved wait, as they were"))
              : tr("A session ended without being closed: %1 were open in it, %2 of them not saved. They wait, as they were.")
                    .arg(all)
                    .arg(left.unsaved),
          left.unsaved > 0 ? QStringList{one ? tr("Open it") : tr("Open them")}
                           : QStringList{one ? tr("Open it") : tr("Open them"), one ? tr("Forget it") : tr("Forget them")});
}

void MainWindow::keepSessionSoon() {
  if (!m_sessionTimer.isActive()) m_sessionTimer.start();
}

void MainWindow::writeSession() {
  keepSession();
  if (m_store) saveLayout();
}

void MainWindow::keepSession() {
  if (!m_store) return;
  Session session;
  session.current = indexOf(m_tab);
  session.page = static_cast<int>(page());
  for (const auto& tab : m_tabs) {
    Workspace& w = *tab->workspace;
    session.tabs.push_back({w.path(), w.hasJournal() ? w.journalFile() : QString(), w.path().isEmpty() ? w.untitled() : 0,
                            static_cast<int>(w.document().indexOf(tab->notebook->activeCell()))});
  }
  m_store->write(session);
}

std::vector<MainWindow::Tab*> MainWindow::unsavedTabs() const {
  std::vector<Tab*> out;
  for (const auto& tab : m_tabs)
    if (tab->workspace->document().modified() && !tab->discard) out.push_back(tab.get());
  return out;
}

QStringList MainWindow::trainingNames() const {
  QStringList out;
  for (const auto& tab : m_tabs)
    if (tab->training != 0) out << tab->workspace->name();
  return out;
}

void MainWindow::quit() {
  m_quitting = true;
  close();
  m_quitting = false;
}

void MainWindow::end() {
  if (unsavedTabs().empty()) return quit();
  for (const auto& tab : m_tabs)
    if (tab->workspace->document().modified()) tab->workspace->writeJournal();
  writeSession();
  QCoreApplication::exit(0);
}

// One after the other: a notebook without a file is asked for its name.
void MainWindow::saveAllAndQuit() {
  const auto unsaved = unsavedTabs();
  if (unsaved.empty()) return quit();
  showTab(indexOf(unsaved.front()));
  m_closeWanted = Close::Window;
  save(false);
}

QString MainWindow::endsWithWindow() const {
  const QStringList training = trainingNames();
  QString text = training.isEmpty()     ? QString()
                 : training.size() == 1 ? tr(" %1 trains, which ends with the window.").arg(training.front())
                                        : tr(" %1 notebooks train, which ends with the window: %2.")
                                              .arg(training.size())
                                              .arg(training.join(QStringLiteral(", ")));
  for (const auto& tab : m_tabs)
    if (tab->unwritten) text += tr(" What %1 has learnt is on no disk, and gone with the window.").arg(tab->workspace->name());
  return text;
}

void MainWindow::closeEvent(QCloseEvent* event) {
  const QString ends = m_quitting ? QString() : endsWithWindow();
  m_messages->dismiss("quit");
  if (const auto unsaved = unsavedTabs(); !unsaved.empty()) {
    event->ignore();
    if (std::find(unsaved.begin(), unsaved.end(), m_tab) == unsaved.end()) showTab(indexOf(unsaved.front()));
    m_closeAsked = Close::Window;
    QStringList names;
    for (const Tab* tab : unsaved) names << tab->workspace->name();
    if (names.size() == 1)
      m_messages->askNow("close", tr("Quit? %1 has changes that are not saved.").arg(names.front()) + ends,
                         {tr("Save and quit"), tr("Quit without saving"), tr("Cancel")});
    else
      m_messages->askNow(
          "close",
          tr("Quit? %1 notebooks have changes that are not saved: %2.").arg(names.size()).arg(names.join(QStringLiteral(", "))) +
              ends,
          {tr("Save all"), tr("Discard"), tr("Cancel")});
    return;
  }
  if (!ends.isEmpty()) {
    event->ignore();
    return m_messages->askNow("quit", tr("Quit?") + ends,
                              {trainingNames().isEmpty() ? tr("Quit all the same") : tr("Stop and quit"), tr("Cancel")});
  }
  if (!m_store) return QMainWindow::closeEvent(event);
  for (const auto& tab : m_tabs) tab->workspace->forget();
  m_sessionTimer.stop();
  saveLayout();
  QSettings settings;
  QStringList files;
  for (const auto& tab : m_tabs)
    if (!tab->workspace->path().isEmpty()) files << tab->workspace->path();
  settings.setValue(QStringLiteral("session/files"), files);
  settings.setValue(QStringLiteral("session/current"), m_tab->workspace->path());
  m_store->close();
  m_store.reset();
  QMainWindow::closeEvent(event);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  QStringList files;
  for (const QUrl& url : event->mimeData()->urls())
    if (url.isLocalFile()) files << url.toLocalFile();
  openFiles(files);
}

void MainWindow::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  if (m_palette) m_palette->hide();
  keepSessionSoon();
}

void MainWindow::moveEvent(QMoveEvent* event) {
  QMainWindow::moveEvent(event);
  keepSessionSoon();
}

// A network file system tells of no changes: what is on disk is looked at when somebody comes back.
void MainWindow::changeEvent(QEvent* event) {
  QMainWindow::changeEvent(event);
  if (event->type() != QEvent::ActivationChange || !isActiveWindow()) return;
  for (const auto& tab : m_tabs) {
    tab->workspace->checkDisk();
    tab->workspace->checkLock();
  }
}

}  // namespace nf
