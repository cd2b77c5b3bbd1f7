// SPDX-License-Identifier: GPL-3.0-or-later
// The frame: notebooks in tabs, panels and their layout, session, the registry of commands and its keys.
#include <QAbstractButton>
#include <QComboBox>
#include <QDockWidget>
#include <QFileInfo>
#include <QKeySequenceEdit>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QMenu>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSettings>
#include <QStatusBar>
#include <QTabBar>
#include <QToolButton>
#include <QTreeWidget>
#include <csignal>

#include "app/workbench/shortcuts.h"
#include "tests/workbench/window.h"
#include "widgets/basic.h"
#include "widgets/budget_slider.h"
#include "widgets/command_palette.h"
#include "widgets/devices_view.h"
#include "widgets/dock_page.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/message_bar.h"
#include "widgets/outline_view.h"
#include "widgets/plots.h"
#include "widgets/profile_view.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

struct Frame : Window {
  QString other() const {
    QFile file(folder.filePath("other.nf"));
    EXPECT_TRUE(file.open(QIODevice::WriteOnly));
    file.write("# %%\nlet z = 3\n");
    return file.fileName();
  }
  void command(Qt::Key key, Qt::KeyboardModifiers modifiers = {}) { QTest::keyClick(window->notebook(), key, modifiers); }
};

TEST_F(Frame, NotebooksStandInTabs) {
  open();
  ASSERT_EQ(window->tabs()->count(), 1);
  const QString second = other();
  window->openFile(second);
  ASSERT_EQ(window->tabs()->count(), 2);
  EXPECT_EQ(document().text(), "# %%\nlet z = 3\n");
  QTest::mouseClick(window->tabs(), Qt::LeftButton, {}, window->tabs()->tabRect(0).center());
  EXPECT_EQ(document().text(), capsule::kText);
  window->openFile(second);  // open already: no third tab
  EXPECT_EQ(window->tabs()->count(), 2);
  EXPECT_EQ(window->tabs()->currentIndex(), 1);
  window->notebook()->activate(cell(0)->id(), true);
  QTest::keyClicks(cell(0)->editor(), "q");
  EXPECT_TRUE(window->tabs()->tabText(1).contains("•"));
  QTest::keyClick(window.get(), Qt::Key_PageUp, Qt::ControlModifier);
  EXPECT_EQ(document().text(), capsule::kText);
  EXPECT_FALSE(document().modified());
}

TEST_F(Frame, AnAmpersandInANameStandsInItsTab) {
  open();
  QFile file(folder.filePath("name & other.nf"));
  ASSERT_TRUE(file.open(QIODevice::WriteOnly));
  file.write("# %%\nlet z = 3\n");
  file.close();
  window->openFile(file.fileName());
  EXPECT_EQ(window->tabs()->tabText(1), "name && other.nf") << "one & underlines the letter behind it";
}

TEST_F(Frame, ALongWordInTheStatusBarEndsWithAnEllipsis) {
  openChecked();
  const auto labels = window->statusBar()->findChildren<ElidedLabel*>();
  const auto status =
      std::find_if(labels.begin(), labels.end(), [&](const ElidedLabel* l) { return l->text() == window->statusText(); });
  ASSERT_NE(status, labels.end());
  (*status)->setText(QString(4000, 'x'));
  EXPECT_TRUE((*status)->shown().endsWith(QChar(0x2026)));
}

TEST_F(Frame, ComparedWithAnEqualFileSaysSo) {
  openChecked();
  window->action("file.compare")->trigger();
  EXPECT_EQ(window->findChild<QPlainTextEdit*>("comparison"), nullptr);
  EXPECT_TRUE(window->statusText().contains("are the same")) << window->statusText().toStdString();
  window->notebook()->activate(cell(1)->id(), true);
  QTest::keyClicks(cell(1)->editor(), "q");
  window->action("file.compare")->trigger();
  EXPECT_NE(window->findChild<QPlainTextEdit*>("comparison"), nullptr);
}

TEST_F(Frame, TheTimeAfterAKeyIsToldWhenOneWasPressed) {
  openChecked();
  ASSERT_TRUE(wait([&] { return window->statusText().contains("up to date"); })) << window->statusText().toStdString();
  EXPECT_FALSE(window->statusText().contains("key")) << window->statusText().toStdString();
  window->notebook()->activate(cell(1)->id(), true);
  QTest::keyClick(cell(1)->editor(), Qt::Key_End, Qt::ControlModifier);
  QTest::keyClicks(cell(1)->editor(), " # q");
  EXPECT_TRUE(wait([&] { return window->statusText().contains("ms after the last key"); })) << window->statusText().toStdString();
}

TEST_F(Frame, TuneIsAsItWasWhenItsNotebookComesBack) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  TuneView* tune = window->tune();
  ASSERT_TRUE(wait([&] { return tune->list()->count() == 3; }));
  QTest::mouseClick(tune->profile()->findChild<IconButton*>("profile"), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return tune->profile()->model()->rowCount() == 3; }));
  const auto taken = tune->profile()->taken();
  ASSERT_TRUE(taken);
  QTest::mouseClick(tune->list()->viewport(), Qt::LeftButton, {}, tune->list()->visualItemRect(tune->list()->item(2)).center());
  const std::string subgraph = tune->current();
  ASSERT_TRUE(wait([&] { return tune->trials()->points() > 0; }));
  tune->chooseTrial(7);
  window->openFile(other());
  ASSERT_EQ(window->tabs()->currentIndex(), 1);
  EXPECT_EQ(tune->profile()->model()->rowCount(), 0);
  EXPECT_FALSE(tune->profile()->taken());
  QTest::keyClick(window.get(), Qt::Key_PageUp, Qt::ControlModifier);
  ASSERT_EQ(window->tabs()->currentIndex(), 0);
  ASSERT_TRUE(wait([&] { return tune->current() == subgraph && tune->trial() == 7u; })) << tune->current();
  EXPECT_EQ(tune->profile()->model()->rowCount(), 3);
  EXPECT_EQ(tune->profile()->taken(), taken) << "its age counts from when it was taken";
  EXPECT_TRUE(wait([&] { return tune->chosenSchedule().text == capsule::trials()[7].schedule.text; }));
}

TEST_F(Frame, TheBudgetIsOfItsNotebook) {
  open();
  window->openFile(other());
  window->showTab(0);
  BudgetSlider* handle = window->tune()->budget();
  EXPECT_EQ(handle->value(), 30);
  handle->setValue(52);
  window->showTab(1);  // before the wish was sent
  EXPECT_EQ(handle->value(), 30);
  EXPECT_EQ(window->workspace().budget(), 0.3);
  window->showTab(0);
  EXPECT_EQ(handle->value(), 52);
  EXPECT_EQ(window->workspace().budget(), 0.52);
}

TEST_F(Frame, TheFilterOfTheOutlineIsOfItsNotebook) {
  openChecked();
  OutlineView* outline = window->outline();
  outline->filterField()->setText("dL/d");
  EXPECT_EQ(outline->nothing(), "");
  outline->filterField()->setText("nobody has this");
  EXPECT_EQ(outline->nothing(), "No name here has \"nobody has this\" in it.");
  window->openFile(other());
  EXPECT_EQ(outline->filterField()->text(), "");
  EXPECT_EQ(outline->nothing(), "");
  EXPECT_FALSE(outline->tree()->topLevelItem(0)->isHidden());
}

TEST_F(Frame, AgesOfDevicesCountOnWhileAnotherNotebookIsInFront) {
  openChecked();
  ASSERT_TRUE(wait([&] { return window->workspace().devices().has_value(); }));
  const auto taken = window->workspace().devicesTaken();
  const auto* devices = window->findChild<DevicesView*>();
  ASSERT_TRUE(devices);
  EXPECT_EQ(devices->taken(), taken);
  window->openFile(other());
  ASSERT_TRUE(wait([&] { return window->workspace().devices().has_value(); }));
  EXPECT_GT(window->workspace().devicesTaken(), taken);
  EXPECT_EQ(devices->taken(), window->workspace().devicesTaken());
  window->showTab(0);
  EXPECT_EQ(window->workspace().devicesTaken(), taken);
  EXPECT_EQ(devices->taken(), taken);
}

// What both ways took is there still after the engine that measured it, and the message says that a measurement ended.
TEST_F(Frame, MeasurementsOutliveTheEngineThatTookThem) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  ExplainView* explain = window->explain();
  ASSERT_TRUE(wait([&] { return explain->fusion()->rowCount() == 4; }));
  explain->chooseDecision(2);
  explain->card()->measure()->click();
  ASSERT_TRUE(wait([&] { return explain->card()->whatIf().contains("slower by 1.8") && !explain->measuring(); }));
  explain->chooseDecision(1);
  const auto engine = static_cast<pid_t>(window->workspace().engine().processId());
  ASSERT_EQ(::kill(engine, SIGSTOP), 0);  // it answers no more
  explain->card()->measure()->click();
  ASSERT_EQ(::kill(engine, SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine"; }));
  EXPECT_TRUE(window->messages()->text().contains("The measurement under way ended")) << window->messages()->text().toStdString();
  EXPECT_FALSE(explain->measuring());
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsKnown() && explain->fusion()->rowCount() == 4; }));
  EXPECT_TRUE(explain->fusion()->index(2, FusionModel::kMeasured).data().toString().contains("["));
}

TEST_F(Frame, EachNotebookHasItsEngineAndAnalysis) {
  openChecked();
  window->openFile(other());
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
  window->showTab(0);
  EXPECT_TRUE(window->workspace().analysisIsCurrent());
  EXPECT_EQ(window->notebook()->cells().size(), 4u);
}

TEST_F(Frame, ClosingAChangedTabAsks) {
  open();
  window->openFile(other());
  document().replace(0, 0, "# x\n", "Edit");
  QTest::keyClick(window.get(), Qt::Key_W, Qt::ControlModifier);
  EXPECT_EQ(window->tabs()->count(), 2);
  ASSERT_EQ(window->messages()->key(), "close");
  QTest::mouseClick(window->messages()->buttons().at(1), Qt::LeftButton);
  EXPECT_EQ(window->tabs()->count(), 1);
  EXPECT_EQ(document().text(), capsule::kText);
  QTest::keyClick(window.get(), Qt::Key_W, Qt::ControlModifier);
  ASSERT_EQ(window->tabs()->count(), 1);  // an empty notebook takes the place of the last one
  EXPECT_TRUE(document().text().empty());
}

TEST_F(Frame, TheSessionComesBack) {
  open();
  const QString second = other();
  window->openFile(second);
  window->showTab(0);
  EXPECT_TRUE(window->close());
  window = std::make_unique<MainWindow>(&theme, QStringList{NF_SCRIPTED_ENGINE});
  window->restoreSession();
  ASSERT_EQ(window->tabs()->count(), 2);
  EXPECT_EQ(window->workspace().path(), path());
  EXPECT_EQ(window->tabs()->currentIndex(), 0);
}

TEST_F(Frame, ANewNotebookHasTheLeastFreeName) {
  open();
  window->openFile(other());
  window->action("file.new")->trigger();
  EXPECT_EQ(window->workspace().name(), "untitled.nf");
  window->notebook()->activate(cell(0)->id(), true);
  QTest::keyClicks(cell(0)->editor(), "x");
  window->action("file.new")->trigger();
  EXPECT_EQ(window->workspace().name(), "untitled 2.nf");
}

TEST_F(Frame, AFileThatIsNotThereIsBegun) {
  open();
  const QString fresh = folder.filePath("fresh.nf");
  window->openFile(fresh);
  EXPECT_EQ(window->tabs()->count(), 1) << "opening begins nothing";
  window->openFiles({fresh, folder.filePath("no/such/folder.nf")}, MainWindow::Missing::Begun);
  ASSERT_EQ(window->tabs()->count(), 2);
  EXPECT_TRUE(window->messages()->text().contains("fresh.nf is not there yet")) << window->messages()->text().toStdString();
  EXPECT_TRUE(window->messages()->text().contains("folder.nf cannot be read")) << window->messages()->text().toStdString();
  window->messages()->dismiss("open");
  EXPECT_TRUE(window->workspace().neverSaved());
  QTest::keyClicks(QApplication::focusWidget(), "let z = 3");
  EXPECT_EQ(document().text(), "let z = 3");
  QFile beside(folder.filePath("beside.nf"));  // what watches for the file hears of the folder
  ASSERT_TRUE(beside.open(QIODevice::WriteOnly));
  QTest::qWait(600);
  EXPECT_EQ(window->workspace().onDisk(), Workspace::OnDisk::Same) << "never written is not deleted";
  window->action("file.save")->trigger();
  QFile file(fresh);
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  EXPECT_TRUE(file.readAll().startsWith("let z = 3"));
  EXPECT_FALSE(window->workspace().neverSaved());
}

TEST_F(Frame, ABegunNotebookIsThereToBeWrittenInto) {
  window = std::make_unique<MainWindow>(&theme, QStringList{NF_SCRIPTED_ENGINE});
  window->openFiles({folder.filePath("fresh.nf")}, MainWindow::Missing::Begun);
  window->show();
  window->activateWindow();
  ASSERT_TRUE(QTest::qWaitForWindowActive(window.get()));
  QTest::keyClicks(QApplication::focusWidget(), "let z = 3");
  EXPECT_EQ(document().text(), "let z = 3");
}

// A file of the kernel that nobody may write, root neither.
TEST_F(Frame, AFileThatCannotBeWrittenIsSaidWhenItIsOpened) {
  const QString file = "/proc/sys/kernel/ostype";
  ASSERT_TRUE(QFileInfo(file).isReadable() && !QFileInfo(file).isWritable());
  open();
  window->openFile(file);
  ASSERT_EQ(window->messages()->key(), "unwritable");
  EXPECT_TRUE(window->messages()->text().contains("cannot be written")) << window->messages()->text().toStdString();
  QStringList states;
  for (const QLabel* l : window->findChildren<QLabel*>()) states << l->text();
  EXPECT_TRUE(states.contains("cannot be written"));
  EXPECT_FALSE(states.contains("saved"));
  document().replace(0, 0, "# x\n", "Edit");
  window->action("file.save")->trigger();
  EXPECT_EQ(window->messages()->shown(), QStringList{"save"}) << "one bar says it";
  window->showTab(0);
  EXPECT_TRUE(window->messages()->key().isEmpty());
}

TEST_F(Frame, AClickBelowTheCellsKeepsTheKeys) {
  openChecked();
  window->resize(1400, 1400);
  QWidget* page = window->notebook()->widget();
  ASSERT_TRUE(wait([&] { return page->height() - cell(3)->geometry().bottom() > 60; }));
  QTest::mouseClick(page, Qt::LeftButton, {}, QPoint(page->width() / 2, page->height() - 20));
  const std::size_t before = window->notebook()->cells().size();
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_B);
  EXPECT_EQ(window->notebook()->cells().size(), before + 1);
}

TEST_F(Frame, TrainingFromTheStartShowsTheTrainCell) {
  std::string text = capsule::kText;
  for (int i = 0; i < 30; ++i) text.insert(text.find("# %%\ntrain"), "# %%\nlet z" + std::to_string(i) + " = 1\n\n");
  write(text);
  window = std::make_unique<MainWindow>(&theme, QStringList{NF_SCRIPTED_ENGINE});
  window->trainFirst();
  window->openFile(path());
  window->show();
  window->workspace().startEngine();
  CellView* train = window->notebook()->cells().back();
  ASSERT_TRUE(wait([&] { return train->train() && train->train()->plot()->steps() == 100 && !train->train()->running(); }));
  EXPECT_EQ(window->notebook()->activeCell(), train->id());
  const auto seen = [](QWidget* part) { return wait([part] { return !part->visibleRegion().isEmpty(); }); };
  EXPECT_TRUE(seen(train->train()->plot()->canvas()));
  EXPECT_TRUE(seen(train->editor()->viewport()));
  // What is above grows: results that come later.
  cell(1)->setMinimumHeight(cell(1)->height() + 900);
  ASSERT_TRUE(wait([&] { return cell(1)->height() > 900; }));
  EXPECT_TRUE(seen(train->train()->plot()->canvas()));
}

// Tabs that do not fit are in a list.
TEST_F(Frame, EveryNotebookIsReachedWhereTheTabsDoNotFit) {
  openChecked();
  auto* all = window->findChild<QToolButton*>("allTabs");
  ASSERT_TRUE(all);
  EXPECT_FALSE(all->isVisible());
  for (int i = 0; i < 24; ++i) window->action("file.new")->trigger();
  ASSERT_TRUE(wait([&] { return all->isVisible(); }));
  Q_EMIT all->menu()->aboutToShow();
  ASSERT_EQ(all->menu()->actions().size(), 25);
  EXPECT_TRUE(all->menu()->actions().back()->isChecked());
  all->menu()->actions().front()->trigger();
  EXPECT_EQ(window->workspace().path(), path());
  while (window->tabs()->count() > 2) window->action("file.close")->trigger();
  ASSERT_TRUE(wait([&] { return !all->isVisible(); }));
}

TEST_F(Frame, TheLayoutIsKeptAndReset) {
  open();
  window->action("view.inspector")->trigger();
  EXPECT_FALSE(window->authorPage()->panel("inspector")->isVisible());
  EXPECT_TRUE(window->close());
  open();
  window->restoreLayout();
  EXPECT_FALSE(window->authorPage()->panel("inspector")->isVisible());
  window->action("view.reset")->trigger();
  EXPECT_TRUE(window->authorPage()->panel("inspector")->isVisible());
  EXPECT_EQ(window->authorPage()->panel("inspector")->width(), 352);
}

TEST_F(Frame, APanelIsHiddenByItsMenu) {
  open();
  QDockWidget* outline = window->authorPage()->panel("outline");
  auto* more = outline->titleBarWidget()->findChild<QToolButton*>();
  ASSERT_TRUE(more && more->menu());
  for (QAction* a : more->menu()->actions())
    if (a->text() == "Hide") a->trigger();
  EXPECT_FALSE(outline->isVisible());
}

TEST_F(Frame, AKeyIsChangedInTheShortcutEditor) {
  open();
  window->action("tools.shortcuts")->trigger();
  auto* editor = window->findChild<ShortcutEditor*>();
  ASSERT_TRUE(editor);
  QTest::keyClicks(editor->filter(), "join");
  editor->choose("cell.join");
  editor->keys()->setKeySequence(QKeySequence(Qt::CTRL | Qt::Key_S));
  QTest::mouseClick(editor->use(), Qt::LeftButton);
  EXPECT_EQ(window->registry().holder(QKeySequence(Qt::CTRL | Qt::Key_S)), "cell.join");
  EXPECT_TRUE(window->action("file.save")->shortcuts().isEmpty());
  QSettings settings;
  window->registry().save(settings);
  QTest::mouseClick(editor->resetAll(), Qt::LeftButton);
  EXPECT_EQ(window->registry().holder(QKeySequence(Qt::CTRL | Qt::Key_S)), "file.save");
  window->registry().load(settings);
  EXPECT_EQ(window->registry().holder(QKeySequence(Qt::CTRL | Qt::Key_S)), "cell.join");
  editor->choose("cell.join");
  QTest::mouseClick(editor->reset(), Qt::LeftButton);
  EXPECT_FALSE(window->registry().changed("cell.join"));
  window->registry().resetAllKeys();
}

TEST_F(Frame, EveryCommandIsInTheEditorTheSheetAndThePalette) {
  open();
  window->action("tools.shortcuts")->trigger();
  auto* editor = window->findChild<ShortcutEditor*>();
  EXPECT_EQ(editor->list()->topLevelItemCount(), static_cast<int>(window->actions().size()));
  editor->close();
  window->activateWindow();
  ASSERT_TRUE(QTest::qWaitForWindowActive(window.get()));
  command(Qt::Key_Question);
  auto* sheet = window->findChild<ShortcutSheet*>();
  ASSERT_TRUE(sheet);
  QStringList words;
  for (const QLabel* l : sheet->findChildren<QLabel*>()) words << l->text();
  for (const auto& [id, a] : window->actions()) {
    if (!a->shortcuts().isEmpty()) { EXPECT_TRUE(words.contains(a->text())) << id.toStdString(); }
  }
  window->action("tools.palette")->trigger();
  EXPECT_GT(window->palette()->list()->count(), 30);
}

TEST_F(Frame, EnterAndEscapeGoInAndOutOfACell) {
  openChecked();
  window->notebook()->activate(cell(1)->id(), false);
  command(Qt::Key_Return);
  EXPECT_TRUE(window->notebook()->editing());
  QTest::keyClick(cell(1)->editor(), Qt::Key_Escape);
  EXPECT_FALSE(window->notebook()->editing());
}

TEST_F(Frame, TheThreeWaysOfRunningACell) {
  openChecked();
  window->notebook()->activate(cell(2)->id(), true);
  QTest::keyClick(cell(2)->editor(), Qt::Key_Return, Qt::ControlModifier);
  EXPECT_EQ(window->notebook()->activeCell(), cell(2)->id());
  ASSERT_TRUE(wait([&] { return cell(2)->status() == protocol::CellStatus::Ok; }));
  window->notebook()->activate(cell(1)->id(), true);
  QTest::keyClick(cell(1)->editor(), Qt::Key_Return, Qt::ShiftModifier);
  EXPECT_EQ(window->notebook()->activeCell(), cell(2)->id());
  QTest::keyClick(window->notebook(), Qt::Key_Return, Qt::AltModifier);
  EXPECT_EQ(window->notebook()->cells().size(), 5u);
  EXPECT_EQ(window->notebook()->activeCell(), cell(3)->id());
}

TEST_F(Frame, KeysOfCommandModeReachTheDocument) {
  open();
  window->notebook()->activate(cell(1)->id(), false);
  const std::string body(document().body(document().cells()[1]));
  command(Qt::Key_C);
  command(Qt::Key_V);
  ASSERT_EQ(window->notebook()->cells().size(), 5u);
  EXPECT_EQ(document().body(document().cells()[2]), body);
  command(Qt::Key_X);
  EXPECT_EQ(window->notebook()->cells().size(), 4u);
  command(Qt::Key_Z);
  EXPECT_EQ(window->notebook()->cells().size(), 5u);
  command(Qt::Key_Z);
  EXPECT_EQ(document().text(), capsule::kText);
  window->notebook()->activate(cell(1)->id(), false);
  command(Qt::Key_A);
  command(Qt::Key_B);
  EXPECT_EQ(window->notebook()->cells().size(), 6u);
  command(Qt::Key_M);
  EXPECT_EQ(document().cell(window->notebook()->activeCell())->kind, CellKind::Markdown);
  command(Qt::Key_Y);
  EXPECT_EQ(document().cell(window->notebook()->activeCell())->kind, CellKind::Code);
  const CellId here = window->notebook()->activeCell();
  command(Qt::Key_J);
  command(Qt::Key_K);
  EXPECT_EQ(window->notebook()->activeCell(), here);
  command(Qt::Key_D);
  command(Qt::Key_D);
  EXPECT_EQ(window->notebook()->cells().size(), 5u);
}

TEST_F(Frame, TheInspectorLeadsToTheGraph) {
  openChecked();
  Q_EMIT window->outline()->tensorChosen("Y");
  QToolButton* lead = nullptr;
  ASSERT_TRUE(wait([&] { return (lead = window->inspector()->findChild<QToolButton*>("node:Y")) && lead->isVisible(); }));
  QTest::mouseClick(lead, Qt::LeftButton);
  EXPECT_EQ(window->page(), MainWindow::Page::Explain);
  EXPECT_EQ(window->explain()->graph()->chosen(), "Y");
}

TEST_F(Frame, APinnedInspectorStays) {
  openChecked();
  Q_EMIT window->outline()->tensorChosen("Y");
  EXPECT_EQ(window->inspector()->tensor(), "Y");
  for (QToolButton* b : window->inspector()->findChildren<QToolButton*>())
    if (b->accessibleName() == "Pin") QTest::mouseClick(b, Qt::LeftButton);
  Q_EMIT window->outline()->tensorChosen("W");
  EXPECT_EQ(window->inspector()->tensor(), "Y");
}

TEST_F(Frame, NoOtherWindowComesUp) {
  openChecked();
  ASSERT_TRUE(wait([&] { return window->workspace().devices().has_value(); }));
  for (const auto page : {MainWindow::Page::Explain, MainWindow::Page::Tune, MainWindow::Page::Devices, MainWindow::Page::Author})
    window->showPage(page);
  EXPECT_TRUE(window->isActiveWindow());
}

// What stops a run is in sight on every page of a small screen, and works there.
TEST_F(Frame, PauseAndStopAreInSightOnEveryPage) {
  writeLongTraining();
  QFile::rename(path(), folder.filePath("a_notebook_with_quite_a_long_name_for_its_window.nf"));
  window = std::make_unique<MainWindow>(&theme, QStringList{NF_SCRIPTED_ENGINE});
  window->openFile(folder.filePath("a_notebook_with_quite_a_long_name_for_its_window.nf"));
  window->resize(1280, 800);
  window->show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(window.get()));
  window->workspace().startEngine();
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
  EXPECT_EQ(window->size(), QSize(1280, 800));
  run(3);
  const auto phase = [&] { return window->workspace().runState().phase; };
  ASSERT_TRUE(wait([&] { return phase() == protocol::RunPhase::Training; }));
  auto *pause = window->findChild<QToolButton*>("run.pause"), *stop = window->findChild<QToolButton*>("run.stop");
  ASSERT_TRUE(pause && stop);
  for (const auto page : {MainWindow::Page::Author, MainWindow::Page::Explain, MainWindow::Page::Tune, MainWindow::Page::Devices}) {
    window->showPage(page);
    for (const QToolButton* b : {pause, stop}) {
      EXPECT_TRUE(b->isEnabled());
      EXPECT_EQ(b->visibleRegion().boundingRect(), b->rect()) << b->objectName().toStdString();
      EXPECT_TRUE(window->rect().contains(QRect(b->mapTo(window.get(), QPoint()), b->size())));
    }
    QTest::mouseClick(pause, Qt::LeftButton);
    ASSERT_TRUE(wait([&] { return phase() == protocol::RunPhase::Paused && pause->accessibleName() == "Resume"; }));
    QTest::mouseClick(pause, Qt::LeftButton);
    ASSERT_TRUE(wait([&] { return phase() == protocol::RunPhase::Training && pause->accessibleName() == "Pause"; }));
  }
  QTest::mouseClick(stop, Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return phase() == protocol::RunPhase::Idle; }));
  EXPECT_FALSE(stop->isEnabled());
}

TEST_F(Frame, IconsOfCommandsFollowTheTheme) {
  open();
  const auto stroke = [&] {
    const QImage image = window->action("run.cell")->icon().pixmap(16, QIcon::Normal).toImage();
    QColor strongest = Qt::transparent;
    for (int y = 0; y < image.height(); ++y)
      for (int x = 0; x < image.width(); ++x)
        if (image.pixelColor(x, y).alpha() > strongest.alpha()) strongest = image.pixelColor(x, y);
    return strongest.lightness();
  };
  theme.setMode(Theme::Mode::Light);
  EXPECT_LT(stroke(), 100);
  theme.setMode(Theme::Mode::Dark);
  EXPECT_GT(stroke(), 150);
}

// Whatever takes the mouse is reached by the keyboard and has a name for who does not see it.
TEST_F(Frame, EverythingIsReachedByTheKeyboardAndNamed) {
  openChecked();
  ASSERT_TRUE(wait([&] { return window->workspace().devices().has_value(); }));
  const auto interactive = [](const QWidget* w) {
    return w->inherits("QAbstractButton") || w->inherits("QComboBox") || w->inherits("QAbstractSlider") ||
           w->inherits("QLineEdit") || w->inherits("QAbstractItemView") || w->inherits("nf::Plot") ||
           w->inherits("nf::GraphView") || w->inherits("nf::StageSlider") || w->inherits("nf::TabRow") ||
           w->inherits("nf::SegmentedSwitch") || w->inherits("nf::GenerationStrip") || w->inherits("QsciScintilla") ||
           w->inherits("QPlainTextEdit");
  };
  for (const auto page : {MainWindow::Page::Author, MainWindow::Page::Explain, MainWindow::Page::Tune, MainWindow::Page::Devices}) {
    window->showPage(page);
    if (page == MainWindow::Page::Tune) {
      ASSERT_TRUE(wait([&] { return window->tune()->knob("threads") != nullptr; }));
    }
    for (QWidget* w : window->findChildren<QWidget*>()) {
      if (!w->isVisible() || !interactive(w) || w->objectName().startsWith("qt_")) continue;
      if (w->inherits("nf::ExpressionEditor")) continue;  // Enter leads into it from its cell: in it Tab writes
      if (w->inherits("QScrollBar") || w->inherits("QHeaderView") || w->inherits("QLineEditIconButton") ||
          w->parentWidget()->inherits("QTabBar") || w->parentWidget()->inherits("QAbstractItemView") ||
          w->parentWidget()->inherits("QAbstractSpinBox") || w->inherits("QTableCornerButton"))
        continue;
      const auto* name = w->metaObject()->className();
      const QString words = w->accessibleName() + w->toolTip() +
                            (w->inherits("QAbstractButton") ? static_cast<QAbstractButton*>(w)->text() : QString());
      EXPECT_FALSE(words.trimmed().isEmpty()) << name << " in " << w->parentWidget()->metaObject()->className() << " has no name";
      EXPECT_TRUE((w->focusPolicy() & Qt::TabFocus) || w->focusProxy())
          << name << " " << words.toStdString() << " is not reached by Tab";
    }
  }
}

TEST_F(Frame, EveryButtonHasAName) {
  openChecked();
  for (const auto page : {MainWindow::Page::Author, MainWindow::Page::Explain}) {
    window->showPage(page);
    for (const QAbstractButton* b : window->findChildren<QAbstractButton*>()) {
      if (!b->isVisible() || b->objectName().startsWith("qt_") || b->inherits("QLineEditIconButton")) continue;
      EXPECT_FALSE((b->text() + b->accessibleName() + b->toolTip()).trimmed().isEmpty())
          << b->metaObject()->className() << " in " << b->parentWidget()->metaObject()->className();
    }
  }
}

}  // namespace
}  // namespace nf
