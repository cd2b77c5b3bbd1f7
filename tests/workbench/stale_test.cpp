// SPDX-License-Identifier: GPL-3.0-or-later
// Results of a text that has changed since: what is stale, what stays.
#include <signal.h>

#include <QComboBox>
#include <QLabel>

#include "tests/workbench/real_engine.h"
#include "widgets/basic.h"
#include "widgets/expression_editor.h"
#include "widgets/formula_view.h"
#include "widgets/inspector_view.h"
#include "widgets/message_bar.h"
#include "widgets/outline_view.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"

namespace nf {
namespace {

using protocol::CellStatus;

TEST_F(RealEngine, WhatAnEngineHasNotAnsweredIsGreyedAfterTheAnalysisToo) {
  openChecked();
  ASSERT_TRUE(wait([&] { return window->workspace().idle() && !cell(2)->resultIsGreyed(); }));
  const auto process = static_cast<pid_t>(window->workspace().engine().processId());
  ASSERT_EQ(::kill(process, SIGSTOP), 0);
  const std::size_t end = document().text().find("let N = 4") + 9;
  document().replace(end, end, "  # rows", "Edit");
  window->notebook()->followDocument();
  const bool greyed = wait([&] { return cell(2)->resultIsGreyed(); });
  // Between the analysis and the formula the cell's result is that of the text before.
  bool early = false;
  QObject::connect(&window->workspace(), &Workspace::analysed, window.get(), [&] { early = !cell(2)->resultIsGreyed(); });
  ASSERT_EQ(::kill(process, SIGCONT), 0);
  ASSERT_TRUE(greyed);
  checked();
  EXPECT_FALSE(early);
  EXPECT_TRUE(wait([&] { return !cell(2)->resultIsGreyed(); }));
}

TEST_F(RealEngine, AShownParameterGreysNothingBesideIt) {
  std::string text = kNotebook;
  text.replace(text.find("show A"), 6, "show W, A");
  openChecked(text);
  ASSERT_TRUE(wait([&] { return window->workspace().idle() && !cell(1)->awaitsAnswer(); }));
  ASSERT_FALSE(cell(1)->formulaView()->formulas().empty());
  EXPECT_FALSE(cell(1)->resultIsGreyed());
  QStringList words;
  for (const QLabel* l : cell(1)->findChildren<QLabel*>())
    if (l->isVisible()) words << l->text();
  EXPECT_TRUE(words.contains("W is given, not computed.")) << words.join('|').toStdString();
  compute(1);
  EXPECT_FALSE(cell(1)->resultIsGreyed());
}

// It has no formula and nothing was derived: its values are what there is to see, as they are of any other tensor.
TEST_F(RealEngine, ANotebookWithoutAnOperatorIsSoonUpToDate) {
  openChecked("let N = 3\ninput X[N] = normal(0, 1)\nshow X\n");
  EXPECT_TRUE(wait([&] { return window->statusText().startsWith("Parse, shapes and gradient up to date"); }))
      << window->statusText().toStdString();
}

// Paper has no keys to press.
TEST_F(RealEngine, WhatIsStaleNamesNoKeyOnPaper) {
  openChecked();
  compute(1);
  QTest::mouseClick(cell(0)->editor()->viewport(), Qt::LeftButton);
  const std::size_t at = cell(0)->editor()->bytes().rfind("0, 1");
  ASSERT_NE(at, std::string::npos);
  cell(0)->editor()->selectBytes(at, at + 4);
  QTest::keyClicks(cell(0)->editor(), "0, 2");
  checked();
  ASSERT_TRUE(wait([&] { return cell(1)->note().contains("Shift+Enter"); })) << cell(1)->note().toStdString();
  cell(1)->setOnPaper(true);
  EXPECT_TRUE(cell(1)->note().startsWith("Stale:"));
  EXPECT_FALSE(cell(1)->note().contains("Shift+Enter"));
  cell(1)->setOnPaper(false);
  EXPECT_TRUE(cell(1)->note().contains("Shift+Enter"));
}

TEST_F(RealEngine, ValuesAreThereAgainWhenARenameIsUndone) {
  std::string text = kNotebook;
  text.replace(text.find("show A"), 6, "show W, A");
  openChecked(text);
  compute(1);
  cell(1)->findChild<QComboBox*>()->setCurrentText("A");
  ASSERT_TRUE(wait([&] { return cell(1)->tensorView()->tensor() == "A" && cell(1)->tensorView()->model()->rowCount() == 4; }));
  ASSERT_EQ(window->notebook()->rename("A", "Other"), QString());
  checked();
  ASSERT_TRUE(wait([&] { return cell(1)->tensorView()->tensor() == "Other"; }));
  window->action("edit.undo")->trigger();
  checked();
  ASSERT_TRUE(wait([&] { return cell(1)->tensorView()->tensor() == "A"; }));
  EXPECT_TRUE(wait([&] { return cell(1)->tensorView()->model()->rowCount() == 4; }));
  EXPECT_TRUE(wait([&] { return !cell(1)->tensorView()->old() && cell(1)->status() == CellStatus::Ok; }));
}

TEST_F(RealEngine, ComputingEveryShownValueTicksNoCellThatHasNotTrained) {
  openChecked();
  window->action("run.all")->trigger();
  ASSERT_TRUE(wait([&] { return cell(4)->tensorView() && cell(4)->tensorView()->model()->rowCount() > 0; }));
  ASSERT_TRUE(wait([&] { return !window->workspace().running() && !window->workspace().runAsked(); }));
  EXPECT_EQ(cell(4)->status(), CellStatus::Ok);
  EXPECT_TRUE(cell(5)->neverTrained());
  EXPECT_FALSE(cell(5)->hasRun());
}

TEST_F(RealEngine, ResultsAreStaleWhereWhatTheyDependOnChanged) {
  openChecked();
  for (const std::size_t i : {1u, 2u, 3u, 4u}) compute(i);
  using S = CellStatus;
  EXPECT_EQ(states(), (std::vector<S>(6, S::Ok)));
  replace("W[i, j] * 2", "W[i, j] * 5");
  EXPECT_EQ(states(), (std::vector<S>{S::Ok, S::Stale, S::Ok, S::Stale, S::Ok, S::Ok})) << "D reads A, C and L do not";
  EXPECT_TRUE(cell(3)->note().contains("Stale"));
  window->action("edit.undo")->trigger();
  checked();
  EXPECT_EQ(states(), (std::vector<S>(6, S::Ok))) << "it is what it was computed from";
  replace("A[i, j] = W[i, j] * 2", "# twice\nA[i, j] = W[i, j]*2  # as above");
  EXPECT_EQ(states(), (std::vector<S>(6, S::Ok))) << "words are no change";
  replace("normal(0, 1)", "normal(0, 2)");
  EXPECT_EQ(states(), (std::vector<S>{S::Ok, S::Stale, S::Stale, S::Stale, S::Stale, S::Ok}));
  compute(3);
  EXPECT_EQ(cell(2)->status(), S::Stale);
}

// Who writes and runs in one go need not wait for the check.
TEST_F(RealEngine, CellsThatAreRunBeforeTheirTextIsCheckedRunAfterIt) {
  openChecked();
  compute(1);
  compute(2);
  const auto values = [&](std::size_t i) {
    const auto* model = cell(i)->tensorView()->model();
    return model->index(0, 0).data().toDouble();
  };
  ASSERT_TRUE(
      wait([&] { return cell(1)->tensorView()->model()->rowCount() > 0 && cell(2)->tensorView()->model()->rowCount() > 0; }));
  const double one = values(1), two = values(2);
  const auto runAfter = [&](std::size_t i, const char* typed) {
    window->notebook()->activate(cell(i)->id(), true);
    cell(i)->editor()->moveCursor(QTextCursor::Start);
    cell(i)->editor()->moveCursor(QTextCursor::EndOfLine);
    QTest::keyClicks(cell(i)->editor(), typed);
    QTest::keyClick(cell(i)->editor(), Qt::Key_Return, Qt::ControlModifier);
    EXPECT_FALSE(window->workspace().analysisIsKnown());
    EXPECT_TRUE(window->statusText().contains("then the cell runs")) << window->statusText().toStdString();
  };
  runAfter(1, " + 1");
  runAfter(2, " + 1");
  ASSERT_TRUE(wait([&] { return values(1) != one && values(2) != two; }));
  EXPECT_NEAR(values(1), one + 1, 2e-3);
  EXPECT_NEAR(values(2), two + 1, 2e-3);
  ASSERT_TRUE(wait([&] { return cell(1)->status() == CellStatus::Ok && cell(2)->status() == CellStatus::Ok; }));
}

TEST_F(RealEngine, EveryShownValueIsComputedOfTheTextThatWasJustTyped) {
  openChecked();
  const std::size_t at = document().text().find("W[i, j] + 1");
  document().replace(at, at + 11, "W[i, j] * 0 + 7", "Edit");
  window->notebook()->followDocument();
  window->action("run.all")->trigger();
  EXPECT_FALSE(window->workspace().analysisIsKnown());
  const auto* model = cell(2)->tensorView()->model();
  ASSERT_TRUE(wait([&] { return model->rowCount() > 0 && model->index(0, 0).data().toDouble() == 7; }));
  EXPECT_TRUE(wait([&] { return cell(2)->status() == CellStatus::Ok; }));
}

// Values that stand beside a badge of the newest text say that they are of an older one.
TEST_F(RealEngine, TheInspectorsValuesAreOldWhereWhatTheyDependOnChanged) {
  openChecked();
  compute(4);
  Q_EMIT window->outline()->tensorChosen("d(L)/d(W)");
  TensorView* values = window->inspector()->values();
  ASSERT_TRUE(wait([&] { return values->model()->rowCount() > 0; }));
  EXPECT_FALSE(values->old());
  replace("(C[i, j] - 3)^2", "(C[i, j] - 3)^4");
  EXPECT_TRUE(wait([&] { return values->old(); }));
  Q_EMIT window->outline()->tensorChosen("C");
  ASSERT_TRUE(wait([&] { return values->model()->rowCount() > 0 && !values->old(); })) << "it depends on nothing that changed";
  Q_EMIT window->outline()->tensorChosen("d(L)/d(W)");
  EXPECT_TRUE(wait([&] { return values->old(); }));
  compute(4);
  EXPECT_TRUE(wait([&] { return !values->old(); }));
}

TEST_F(RealEngine, ATrainedCellIsStaleAfterAnEditOfItsLoss) {
  std::string text = kNotebook;
  text.replace(text.find("100000000"), 9, "20");
  openChecked(text);
  run(5);
  ASSERT_TRUE(wait([&] { return cell(5)->status() != CellStatus::Running; }));
  EXPECT_EQ(cell(5)->status(), CellStatus::Ok) << cell(5)->note().toStdString();
  replace("- 3)^2", "- 4)^2");
  EXPECT_EQ(cell(5)->status(), CellStatus::Stale);
  replace("- 4)^2", "- 3)^2");
  EXPECT_EQ(cell(5)->status(), CellStatus::Ok);
  replace("sgd(lr=0.01)", "sgd(lr=0.02)");
  EXPECT_EQ(cell(5)->status(), CellStatus::Stale);
}

// What runs is the text as it was: that is said, its values are greyed, and what it left is gone on with by that text alone.
TEST_F(RealEngine, ATrainingOfAnOlderTextSaysSo) {
  openChecked();
  run(5);
  ASSERT_TRUE(wait([&] { return !window->workspace().steps().empty(); }));
  Q_EMIT window->outline()->tensorChosen("L");
  TensorView* values = window->inspector()->values();
  ASSERT_TRUE(wait([&] { return !values->facts().isEmpty() && !values->old(); }));
  EXPECT_EQ(cell(5)->note(), "");
  replace("- 3)^2", "- 4)^2");
  EXPECT_EQ(cell(5)->status(), CellStatus::Running);
  EXPECT_TRUE(cell(5)->note().startsWith("Trains the text as it was when it began.")) << cell(5)->note().toStdString();
  EXPECT_TRUE(wait([&] { return values->old(); }));
  EXPECT_TRUE(values->note().startsWith("What these depend on has changed")) << values->note().toStdString();
  replace("- 4)^2", "- 3)^2");
  EXPECT_EQ(cell(5)->note(), "");
  EXPECT_TRUE(wait([&] { return !values->old(); }));
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));

  const TrainStrip* strip = cell(5)->train();
  EXPECT_TRUE(strip->resumes());
  replace("- 3)^2", "- 4)^2");
  EXPECT_EQ(cell(5)->status(), CellStatus::Stale);
  EXPECT_FALSE(strip->resumes());
  EXPECT_EQ(strip->resume()->text(), "Train again");
  EXPECT_TRUE(strip->resume()->toolTip().contains("What is trained has changed")) << strip->resume()->toolTip().toStdString();
  replace("- 4)^2", "- 3)^2");
  EXPECT_TRUE(strip->resumes());
  EXPECT_EQ(strip->resume()->text(), "Resume");
  EXPECT_EQ(cell(5)->status(), CellStatus::Ok);
  replace("100000000", "200000000");
  EXPECT_TRUE(strip->resumes()) << "more steps go on from it";
  replace("sgd(lr=0.01)", "sgd(lr=0.02)");
  EXPECT_FALSE(strip->resumes());
}

// The text was edited while it trained: what its checkpoint belongs to is said, until the edit is undone.
TEST_F(RealEngine, ACheckpointOfTheTextBeforeAnEditIsNamed) {
  openChecked();
  run(5);
  ASSERT_TRUE(wait([&] { return !window->workspace().steps().empty(); }));
  window->action("run.stop")->trigger();
  const TrainStrip* strip = cell(5)->train();
  ASSERT_TRUE(wait([&] { return !window->workspace().running() && strip->resumes() && strip->checkpointStep() > 0; }));
  const QString step = grouped(strip->checkpointStep());
  QTest::mouseClick(strip->resume(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->workspace().running() && !window->workspace().awaitsStep(); }));
  replace("- 3)^2", "- 4)^2");
  ASSERT_EQ(::kill(static_cast<pid_t>(window->workspace().engine().processId()), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine" && window->workspace().analysisIsKnown(); }));
  EXPECT_TRUE(strip->detail().startsWith("newest checkpoint: step " + step + ", of the text before the edit"))
      << strip->detail().toStdString();
  EXPECT_TRUE(window->messages()->text().contains("The checkpoint of step " + step + " is of the text before the edit"))
      << window->messages()->text().toStdString();
  EXPECT_EQ(window->messages()->answers(), QStringList("Train again"));
  replace("- 4)^2", "- 3)^2");
  EXPECT_TRUE(strip->detail().startsWith("newest checkpoint: step " + step + "; ")) << strip->detail().toStdString();
  EXPECT_TRUE(window->messages()->text().contains("go on from step " + step)) << window->messages()->text().toStdString();
  EXPECT_EQ(window->messages()->answers(), QStringList("Resume training"));
}

TEST_F(RealEngine, AFinishedCheckStaysThroughEditsOfOtherThings) {
  openChecked();
  Q_EMIT window->outline()->tensorChosen("d(L)/d(W)");
  InspectorView* inspector = window->inspector();
  ASSERT_TRUE(wait([&] { return inspector->compare() && inspector->compare()->isEnabled(); }));
  QTest::mouseClick(inspector->compare(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return inspector->checked().contains("all of "); }));
  const QString found = inspector->checked();
  const auto said = [&] {
    QStringList words;
    for (const QLabel* l : inspector->findChildren<QLabel*>())
      if (l->isVisibleTo(inspector)) words << l->text();
    return words.join(QLatin1Char('\n'));
  };
  std::uint64_t arrived = 0;
  QObject::connect(&window->workspace(), &Workspace::expressionArrived, window.get(), [&](const protocol::Expression& e) {
    if (e.tensor == "d(L)/d(W)") arrived = e.revision;
  });
  const auto edited = [&](const char* what, const char* with) {
    replace(what, with);
    ASSERT_TRUE(wait([&] { return arrived == document().revision(); }));
  };
  edited("W[i, j] * 2", "W[i, j] * 5");
  EXPECT_EQ(inspector->checked(), found);
  EXPECT_FALSE(said().contains("has changed"));
  edited("- 3)^2", "- 4)^2");
  EXPECT_EQ(inspector->checked(), "");
  EXPECT_TRUE(said().contains("has changed since it was checked")) << said().toStdString();
  ASSERT_TRUE(inspector->compare());
  QTest::mouseClick(inspector->compare(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return inspector->checked().contains("all of "); }));
  EXPECT_FALSE(said().contains("has changed"));
}

}  // namespace
}  // namespace nf
