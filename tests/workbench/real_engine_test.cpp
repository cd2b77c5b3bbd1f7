// SPDX-License-Identifier: GPL-3.0-or-later
// The window with the engine that people have: mistakes, an engine that is killed, what a choice shows.
#include <signal.h>

#include <QComboBox>
#include <QDir>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QSignalSpy>
#include <QToolButton>
#include <set>

#include "tests/workbench/real_engine.h"
#include "widgets/basic.h"
#include "widgets/devices_view.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/formula_view.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_names.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/message_bar.h"
#include "widgets/outline_view.h"
#include "widgets/plots.h"
#include "widgets/rename_bar.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

using protocol::CellStatus;

TEST_F(RealEngine, AFunctionOfTheLibraryHasTheWordsAboveItBelowThePointer) {
  openChecked("# %%\ninput A[4, 5]\nQ = softmax(A)\n");
  ExpressionEditor* editor = cell(0)->editor();
  const QPoint place = editor->rectOf(editor->bytes().find("softmax") + 2).center() - editor->viewport()->pos() + QPoint(2, 0);
  EXPECT_TRUE(editor->whatIsAt(place).contains("from std/norm.nf\nOver the last axis. Subtracting the greatest value"))
      << editor->whatIsAt(place).toStdString();
}

TEST_F(RealEngine, AGradientIsComparedWithFiniteDifferencesByAClick) {
  openChecked();
  for (const auto& t : window->workspace().analysis().tensors)
    if (t.derivative) Q_EMIT window->outline()->tensorChosen(QString::fromStdString(t.name));
  InspectorView* inspector = window->inspector();
  ASSERT_TRUE(wait([&] { return inspector->compare() && inspector->compare()->isEnabled(); }));
  QTest::mouseClick(inspector->compare(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return !inspector->checked().isEmpty(); }));
  EXPECT_TRUE(inspector->checked().startsWith("numeric check ")) << inspector->checked().toStdString();
  EXPECT_TRUE(wait([&] { return inspector->checked().contains("all of "); })) << inspector->checked().toStdString();
}

// What is undone or redone is where the caret stands, and the inspector is of that line, whatever was chosen before.
TEST_F(RealEngine, UndoAndRedoSelectWhereTheyPutTheCaret) {
  openChecked("# %%\nlet n = 4\nparam W[n, n] = normal(0, 1)\n# %%\nA[i, j] = W[i, j] * 2\nB[i, j] = A[i, j] + 1\n# %%\nshow B\n");
  const auto inspects = [&](const char* tensor) { return wait([&] { return window->inspector()->tensor() == tensor; }); };
  const auto put = [&](const std::string& at) {
    window->notebook()->scrollToByte(document().text().find(at), true);
    return window->notebook()->editing();
  };
  ASSERT_TRUE(put("A[i, j] ="));
  ASSERT_TRUE(inspects("A"));
  ASSERT_EQ(window->notebook()->rename("A", "Zed"), QString());
  checked();
  ASSERT_TRUE(wait([&] { return window->workspace().tensor("Zed") != nullptr; }));
  for (const char* action : {"edit.undo", "edit.redo", "edit.undo"}) {
    Q_EMIT window->outline()->tensorChosen("W");
    ASSERT_TRUE(inspects("W"));
    window->action(action)->trigger();
    checked();
    const std::string& text = document().text();
    const std::size_t caret = window->notebook()->caretByte(), begin = text.rfind('\n', caret == 0 ? 0 : caret - 1) + 1;
    const std::string line = text.substr(begin, text.find('\n', begin) - begin);
    ASSERT_TRUE(line.find(" = ") != std::string::npos) << line;
    EXPECT_TRUE(wait([&] { return window->inspector()->tensor() != "W"; })) << action << ": " << line;
  }
}

// The names that a mistake hides, kept in the outline, are renamed with the text.
TEST_F(RealEngine, ANameIsRenamedThatAMistakeHides) {
  openWith(
      "# %%\nparam W[4, 4] = normal(0, 1)\nlet Q = 1\nY[i, j] = W[i, j] * 2\nloss L = mean[i, j] Y[i, j]^2\nshow Y, d(L)/d(Y)\n");
  checked();
  replace("show Y", "Z[i] = nosuch[i] * Y[i, i]\nshow Y");
  replace("Y[i, j] = W", "Y[i, j] = also[i] * W");
  const auto& w = window->workspace();
  ASSERT_TRUE(wait([&] { return w.analysisIsCurrent() && !w.missing().empty(); }));
  const auto named = [&](const std::string& name) {
    const auto& tensors = w.names().tensors;
    return std::any_of(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  };
  ASSERT_TRUE(named("Y") && named("d(L)/d(Y)"));
  window->notebook()->activate(cell(0)->id(), true);
  cell(0)->editor()->moveCaretTo(cell(0)->editor()->bytes().find("Y["));
  window->action("edit.rename")->trigger();
  ASSERT_EQ(window->renamer()->name(), "Y");
  window->renamer()->field()->setText("Weighted");
  QTest::keyClick(window->renamer()->field(), Qt::Key_Return);
  ASSERT_TRUE(document().text().starts_with("# %%\nparam W[4, 4] = normal(0, 1)\nlet Q = 1\nWeighted[i, j] = also"))
      << document().text();
  ASSERT_TRUE(wait([&] { return w.analysisIsCurrent(); }));
  EXPECT_FALSE(named("Y") || named("d(L)/d(Y)"));
  EXPECT_TRUE(named("Weighted") && named("d(L)/d(Weighted)"));
}

TEST_F(RealEngine, AMistakeLeavesTheOtherCellsWhole) {
  openChecked();
  compute(2);
  ASSERT_TRUE(wait([&] { return cell(2)->tensorView()->model()->rowCount() > 0; }));
  replace("W[i, j] * 2", "W[i, j] * nowhere");
  using S = CellStatus;
  EXPECT_EQ(states(), (std::vector<S>{S::Ok, S::Error, S::Ok, S::Queued, S::Ok, S::Ok}));
  ASSERT_FALSE(cell(1)->diagnosticTexts().isEmpty());
  EXPECT_TRUE(cell(1)->diagnosticTexts().front().contains("nowhere"));
  EXPECT_TRUE(cell(3)->note().contains("A")) << cell(3)->note().toStdString();
  EXPECT_GT(cell(2)->tensorView()->model()->rowCount(), 0);
  EXPECT_EQ(cell(4)->shows(), QStringList{"d(L)/d(W)"});
  EXPECT_EQ(cell(3)->shows(), QStringList{"D"}) << "its formula stays in sight";
  EXPECT_EQ(window->workspace().missing(), (std::set<std::string>{"A", "D"}));
  EXPECT_TRUE(cell(3)->resultIsGreyed());
  // Formulas are answered after the analysis: until then what is shown may be greyed as `checking`.
  EXPECT_TRUE(wait([&] { return !cell(2)->resultIsGreyed(); }));
  const auto* c = window->workspace().tensor("C");
  ASSERT_TRUE(c);
  EXPECT_EQ(c->shape, (std::vector<std::int64_t>{4, 4}));
  // Another text of the cell that is whole: its extents, gradient and values follow.
  replace("let N = 4", "let N = 3");
  EXPECT_EQ(window->workspace().tensor("C")->shape, (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(cell(2)->status(), S::Stale);
  compute(2);
  compute(4);
  run(3);
  EXPECT_EQ(cell(3)->status(), S::Queued) << "it cannot run";
  run(5);
  ASSERT_TRUE(wait([&] { return !window->workspace().steps().empty(); })) << "what does not need A is trained";
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  replace("nowhere", "2");
  EXPECT_EQ(cell(1)->status(), S::Ok);
  EXPECT_EQ(cell(3)->status(), S::Ok);
  EXPECT_TRUE(window->workspace().missing().empty());
  EXPECT_TRUE(wait([&] { return !cell(3)->resultIsGreyed(); }));
}

TEST_F(RealEngine, WhatATrainingDoesNotKeepIsNoWordOnceItsEngineIsGone) {
  openChecked();
  run(5);
  ASSERT_TRUE(wait([&] { return !window->workspace().steps().empty(); }));
  const TensorView* values = cell(3)->tensorView();
  auto* tabs = cell(3)->findChild<TabRow*>();
  ASSERT_TRUE(tabs);
  tabs->setFocus();
  for (int i = 0; i < 3; ++i) QTest::keyClick(tabs, Qt::Key_Right);
  ASSERT_TRUE(wait([&] { return values->note().contains("not kept while training"); })) << values->note().toStdString();
  ASSERT_EQ(::kill(static_cast<pid_t>(window->workspace().engine().processId()), SIGKILL), 0);
  // Where it took long to come here there is a checkpoint, which the values are computed from.
  QDir(path() + ".out").removeRecursively();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  EXPECT_TRUE(wait([&] { return values->note().contains("run its cell"); })) << values->note().toStdString();
}

TEST_F(RealEngine, AShowCellThatComesBackIsAsItWas) {
  openChecked();
  auto* tabs = cell(3)->findChild<TabRow*>();
  ASSERT_TRUE(tabs);
  tabs->setFocus();
  for (int i = 0; i < 3; ++i) QTest::keyClick(tabs, Qt::Key_Right);
  const int chosen = tabs->current();
  ASSERT_GT(chosen, 0);
  const CellId id = cell(3)->id();
  window->notebook()->activate(id, false);
  for (int i = 0; i < 2; ++i) QTest::keyClick(window->notebook(), Qt::Key_D);
  ASSERT_FALSE(document().cell(id));
  checked();
  QTest::keyClick(window->notebook(), Qt::Key_Z);
  ASSERT_TRUE(document().cell(id));
  checked();
  EXPECT_EQ(cell(3)->id(), id);
  ASSERT_TRUE(cell(3)->findChild<TabRow*>());
  EXPECT_EQ(cell(3)->findChild<TabRow*>()->current(), chosen);
  EXPECT_TRUE(wait([&] { return cell(3)->tensorView()->isVisible() && cell(3)->shows().contains("D"); }));
}

TEST_F(RealEngine, AShownInputHasItsValuesInItsCell) {
  std::string text = kNotebook;
  text.replace(text.find("show A"), 6, "input X[N, N] = normal(0, 1)\nshow X, W");
  openChecked(text);
  ASSERT_TRUE(wait([&] { return window->workspace().idle() && cell(1)->tensorView() && cell(1)->tensorView()->isVisible(); }));
  EXPECT_EQ(cell(1)->tensorView()->tensor(), "X");
  const auto words = [&] {
    QStringList all;
    for (const QLabel* l : cell(1)->findChildren<QLabel*>())
      if (l->isVisible()) all << l->text();
    return all.join(QLatin1Char('|'));
  };
  EXPECT_FALSE(words().contains("given, not computed")) << words().toStdString();
  compute(1);
  ASSERT_TRUE(wait([&] { return cell(1)->tensorView()->model()->rowCount() == 4; }));
  EXPECT_FALSE(words().contains("given, not computed")) << words().toStdString();
  cell(1)->showResult(0);
  EXPECT_TRUE(words().contains("X is given, not computed.")) << words().toStdString();
}

TEST_F(RealEngine, AKilledEngineIsStartedAgainAndTrainingResumed) {
  openChecked();
  compute(2);
  run(5);
  ASSERT_TRUE(wait([&] { return !window->workspace().steps().empty(); }));
  window->action("run.stop")->trigger();  // the last step makes a checkpoint
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  const std::int64_t first = window->workspace().steps().back().step;
  ASSERT_TRUE(cell(5)->train()->resume()->isVisible());
  QTest::mouseClick(cell(5)->train()->resume(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return window->workspace().steps().back().step > first; }));
  const auto process = window->workspace().engine().processId();
  ASSERT_EQ(::kill(static_cast<pid_t>(process), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine"; }));
  EXPECT_TRUE(window->messages()->text().contains("killed"));
  EXPECT_FALSE(window->workspace().running());
  EXPECT_FALSE(cell(5)->train()->running());
  EXPECT_EQ(cell(5)->status(), CellStatus::Stale);
  EXPECT_TRUE(cell(5)->note().contains("ended")) << cell(5)->note().toStdString();
  EXPECT_FALSE(window->action("run.stop")->isEnabled());
  for (const auto& device : window->workspace().devices()->devices) EXPECT_FALSE(device.inUse) << device.name;
  EXPECT_EQ(cell(2)->status(), CellStatus::Ok);
  EXPECT_GT(cell(2)->tensorView()->model()->rowCount(), 0) << "what was shown stays";
  EXPECT_FALSE(window->workspace().steps().empty());
  ASSERT_TRUE(wait([&] { return window->workspace().engine().state() == EngineLink::State::Ready; }));
  // The bar offers what the text as it is can have.
  const auto offers = [&](const char* answer, bool goesOn) {
    return window->messages()->answers() == QStringList{answer} &&
           window->messages()->text().contains("The training can go on from step") == goesOn;
  };
  EXPECT_TRUE(wait([&] { return offers("Resume training", true); })) << window->messages()->text().toStdString();
  replace("- 3)^2", "- 4)^2");
  EXPECT_TRUE(wait([&] { return offers("Train again", false); })) << window->messages()->text().toStdString();
  replace("- 4)^2", "- 3)^2");
  EXPECT_TRUE(wait([&] { return offers("Resume training", true); })) << window->messages()->text().toStdString();
  ASSERT_EQ(window->messages()->buttons().size(), 1);
  QTest::mouseClick(window->messages()->buttons().front(), Qt::LeftButton);
  EXPECT_TRUE(window->messages()->key().isEmpty());
  const std::int64_t before = window->workspace().steps().back().step;
  std::int64_t resumed = 0;
  QObject::connect(&window->workspace(), &Workspace::stepArrived, window.get(), [&](const protocol::StepEvent& e) {
    if (resumed == 0) resumed = e.step;
  });
  ASSERT_TRUE(wait([&] { return resumed > 0; })) << cell(5)->train()->detail().toStdString();
  EXPECT_GE(resumed, first) << "from the checkpoint, not from the beginning";
  EXPECT_EQ(cell(5)->status(), CellStatus::Running);
  const auto& steps = window->workspace().steps();
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.step < b.step; })) << before;
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
}

// Closed and opened again, a notebook has its last run under its cell, and its cells compute with what that learnt.
TEST_F(RealEngine, ANotebookThatIsOpenedAgainGoesOnWithItsRun) {
  // C as it is computed now, of that step.
  const auto computed = [&](bool trained) {
    std::vector<double> out;
    std::int64_t step = -2;
    const auto heard = QObject::connect(&window->workspace(), &Workspace::sliceArrived, window.get(),
                                        [&](const protocol::TensorSlice& slice, const std::vector<double>& values) {
                                          if (slice.tensor == "C") step = slice.step, out = values;
                                        });
    compute(2);
    EXPECT_TRUE(wait([&] { return trained ? step >= 0 : step == -1; }));
    QObject::disconnect(heard);
    return out;
  };
  openChecked();
  const auto initial = computed(false);
  run(5);
  ASSERT_TRUE(wait([&] { return !window->workspace().steps().empty(); }));
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  const std::int64_t last = window->workspace().steps().back().step;
  const auto learnt = computed(true);
  EXPECT_NE(learnt, initial);
  window.reset();

  openChecked();
  TrainStrip* strip = nullptr;
  ASSERT_TRUE(wait([&] { return (strip = cell(5)->train()) && strip->isVisible() && strip->plot()->steps() > 0; }));
  EXPECT_TRUE(strip->result().startsWith("Stopped ")) << strip->result().toStdString();
  EXPECT_TRUE(strip->result().contains("run of ")) << strip->result().toStdString();
  EXPECT_NE(cell(5)->status(), protocol::CellStatus::Stale);
  const auto again = computed(true);
  ASSERT_EQ(again.size(), learnt.size());
  for (std::size_t i = 0; i < again.size(); ++i) EXPECT_NEAR(again[i], learnt[i], 1e-5) << "another device";
  ASSERT_TRUE(strip->resume()->isVisible());
  EXPECT_EQ(strip->resume()->text(), "Resume");
  ASSERT_TRUE(strip->again()->isVisible());
  std::int64_t first = 0;
  QObject::connect(&window->workspace(), &Workspace::stepArrived, window.get(), [&](const protocol::StepEvent& e) {
    if (first == 0) first = e.step;
  });
  const auto stopAfterAStep = [&] {
    ASSERT_TRUE(wait([&] { return first > 0; })) << strip->detail().toStdString();
    window->action("run.stop")->trigger();
    ASSERT_TRUE(wait([&] { return !window->workspace().running(); }));
  };
  QTest::mouseClick(strip->resume(), Qt::LeftButton);
  stopAfterAStep();
  EXPECT_GT(first, last);
  first = 0;
  QTest::mouseClick(strip->again(), Qt::LeftButton);
  stopAfterAStep();
  EXPECT_LE(first, last) << "from the first step";
  window.reset();

  // Declared another way, it begins at its initial value, and the cell says so.
  openChecked();
  replace("normal(0, 1)", "normal(0, 2)");
  compute(2);
  EXPECT_TRUE(cell(2)->note().contains("`W` has its initial value")) << cell(2)->note().toStdString();
  EXPECT_EQ(cell(5)->status(), protocol::CellStatus::Stale) << "its run was of another text";
}

// While a line is not finished yet, a pinned inspector keeps what it showed: the mistake is told where it is.
TEST_F(RealEngine, APinnedInspectorStaysWhileSomebodyTypes) {
  openChecked();
  window->pinInspector("d(L)/d(W)");
  const auto shows = [&](const QString& text) {
    for (const QLabel* l : window->inspector()->findChildren<QLabel*>())
      if (l->isVisible() && l->text().contains(text)) return true;
    return false;
  };
  ASSERT_TRUE(wait([&] { return shows("gathers its terms"); }));
  QSignalSpy failed(&window->workspace(), &Workspace::expressionFailed);
  replace("- 3)^2", "- 3)^2 * (");
  ASSERT_GT(cell(4)->diagnosticTexts().size(), 0);
  // What was asked about the broken text is answered before what is asked now.
  int arrived = 0;
  QObject::connect(&window->workspace(), &Workspace::expressionArrived, window.get(),
                   [&](const protocol::Expression& e) { arrived += e.tensor == "C"; });
  window->inspector()->beginCheck();
  Q_EMIT window->inspector()->checkWanted("d(L)/d(W)");
  window->workspace().wantExpression("C");
  ASSERT_TRUE(wait([&] { return arrived > 0; }));
  EXPECT_EQ(failed.count(), 0) << failed.value(0).value(1).toString().toStdString();
  EXPECT_TRUE(shows("gathers its terms"));
  EXPECT_FALSE(shows("There is no tensor"));
  EXPECT_FALSE(window->statusText().contains("There is no tensor")) << window->statusText().toStdString();
  replace("- 3)^2 * (", "- 3)^2");
  EXPECT_TRUE(shows("gathers its terms"));
  // The check, which a broken text has no answer for, goes on with the mended one.
  EXPECT_TRUE(wait([&] { return window->inspector()->checked().endsWith("all of 16"); }))
      << window->inspector()->checked().toStdString();
}

// Nor does one that follows the caret go elsewhere by what the mistake makes of the lines around it.
TEST_F(RealEngine, TheInspectorStaysWhereSomebodyTypesAMistake) {
  openChecked(
      "# %%\nlet N = 4\nparam W[N] = normal(0, 1)\nloss L = mean[i] (W[i] - 3)^2\nY[i] = W[i] * 2\nZ[i] = Y[i] + 1\nshow Z\n\n"
      "# %%\nA[i] = W[i] + Z[i]\nshow A\n");
  window->notebook()->activate(cell(0)->id(), true);
  for (const char* typed : {" (((", " +", " * exp(", " [", " )", " sum[", " {", "\nQ[i] = Y[i"}) {
    cell(0)->editor()->moveCaretTo(document().text().find("^2") + 2 - cell(0)->bodyBegin);
    ASSERT_TRUE(wait([&] { return window->inspector()->tensor() == "L"; }));
    const std::string text = document().text();
    for (const char* c = typed; *c; ++c) {
      if (*c == '\n') QTest::keyClick(cell(0)->editor(), Qt::Key_Return);
      else QTest::keyClick(cell(0)->editor(), *c);
      checked();
      EXPECT_EQ(window->inspector()->tensor(), "L") << typed << " up to letter " << c - typed + 1;
    }
    while (document().text() != text) {
      window->action("edit.undo")->trigger();
      checked();
    }
  }
}

// What was asked about a kernel that an edit took away is answered once, and nothing is sent again and again for it.
TEST_F(RealEngine, AnAnswerAboutWhatIsGoneIsTheLastOne) {
  openChecked();
  int refused = 0, told = 0;
  QObject::connect(&window->workspace().engine(), &EngineLink::received, window.get(), [&](const protocol::Envelope& e) {
    const auto* failed = std::get_if<protocol::Failed>(&e.message);
    refused += failed && failed->stage == "revision";
    told += std::holds_alternative<protocol::Expression>(e.message);
  });
  window->workspace().wantKernel("0123456789abcdef0123456789abcdef", {});
  ASSERT_TRUE(wait([&] { return refused > 0; }));
  for (int i = 1; i <= 10; ++i) {
    const int before = told;
    window->workspace().wantExpression("C");
    ASSERT_TRUE(wait([&] { return told > before; }));
  }
  EXPECT_EQ(refused, 1);
}

// The only cell, deleted and brought back, has its panel and its text to the last line.
TEST_F(RealEngine, TheOnlyCellComesBackWithItsRun) {
  openChecked("param W[4] = normal(0, 1)\nloss L = sum[i] W[i]^2\ntrain L { steps = 20; device = reference }\n\n");
  run(0);
  ASSERT_TRUE(wait([&] { return cell(0)->status() != CellStatus::Running && cell(0)->train()->plot()->steps() > 0; }));
  const std::string text = document().text();
  const int steps = cell(0)->train()->plot()->steps();
  QTest::keyClick(cell(0)->editor(), Qt::Key_Escape);
  QTest::keyClicks(window->notebook(), "dd");
  EXPECT_EQ(document().text(), "");
  checked();
  QTest::keyClick(window->notebook(), Qt::Key_Z);
  EXPECT_EQ(document().text(), text);
  checked();
  ASSERT_TRUE(cell(0)->train());
  EXPECT_TRUE(cell(0)->train()->isVisible());
  EXPECT_EQ(cell(0)->train()->plot()->steps(), steps);
}

TEST_F(RealEngine, TheInspectorLetsGoOfWhatIsDeleted) {
  openChecked();
  Q_EMIT window->outline()->tensorChosen("D");
  ASSERT_TRUE(wait([&] { return window->inspector()->tensor() == "D"; }));
  replace("D[i] = sum[j] C[i, j] * A[i, j]", "D[i] = sum[j] C[i, j] * nowhere[i, j]");
  EXPECT_EQ(window->inspector()->tensor(), "D");
  EXPECT_TRUE(isGreyed(window->inspector()->scroll()->widget())) << "a mistake hides it for now";
  window->action("edit.undo")->trigger();
  checked();
  EXPECT_FALSE(isGreyed(window->inspector()->scroll()->widget()));
  window->notebook()->activate(cell(3)->id(), false);
  QTest::keyClicks(window->notebook(), "dd");
  checked();
  EXPECT_NE(window->inspector()->tensor(), "D");
}

// A note that speaks of another place says where it is, and goes there.
TEST_F(RealEngine, ANoteLeadsToItsPlace) {
  openChecked("# %%\nlet N = 4\nparam A[N] = normal(0, 1)\n\n# %%\nB[i] = A[i]\n\n# %%\nA[i] = B[i] + 1\n");
  ASSERT_FALSE(cell(2)->diagnosticTexts().isEmpty());
  EXPECT_TRUE(cell(2)->diagnosticTexts().front().contains("it was defined here: cell 1, line 2\n"))
      << cell(2)->diagnosticTexts().front().toStdString();
  auto* button = cell(2)->findChild<QPushButton*>("place");
  ASSERT_TRUE(button);
  QTest::mouseClick(button, Qt::LeftButton);
  EXPECT_EQ(window->notebook()->activeCell(), cell(0)->id());
  EXPECT_EQ(window->notebook()->caretByte(), document().text().find("A[N]"));
}

TEST_F(RealEngine, ANameThatIsBeingTypedIsOneTensor) {
  openChecked("# %%\ninput A[4] = uniform(0, 1)\nparam w[4] = 1\nB[i] = A[i] * w[i]\nloss L = mean[i] B[i]^2\n");
  const std::size_t all = window->workspace().names().tensors.size();
  const std::size_t at = document().text().find("w[4]") + 1;
  window->notebook()->activate(cell(0)->id(), true);
  cell(0)->editor()->moveCaretTo(at - cell(0)->bodyBegin);
  for (const char letter : {'h', 'i', 'd', 'd'}) {
    QTest::keyClick(cell(0)->editor(), letter);
    ASSERT_TRUE(wait([&] { return window->workspace().analysisIsKnown(); }));
  }
  EXPECT_LE(window->workspace().names().tensors.size(), all + 1);
  EXPECT_TRUE(window->workspace().missing().contains("w"));
  EXPECT_FALSE(window->workspace().missing().contains("wh"));
}

TEST_F(RealEngine, ACellThatWaitedForAnEngineThatEndedHasNoMistake) {
  openChecked(
      "# %%\nparam W[4] = normal(0, 1)\nA[i] = W[i] * 2\nloss L = mean[i] A[i]^2\nshow A\n\n"
      "# %%\ntrain L { optimizer = sgd(lr=1e-9); steps = 1000000000; mode = static; device = reference }\n");
  run(1);
  ASSERT_TRUE(wait([&] { return !window->workspace().steps().empty(); }));
  run(0);
  ASSERT_TRUE(wait([&] { return cell(0)->note() == "Waits until the training has ended."; })) << cell(0)->note().toStdString();
  const auto process = window->workspace().engine().processId();
  ASSERT_EQ(::kill(static_cast<pid_t>(process), SIGKILL), 0);
  ASSERT_TRUE(
      wait([&] { return window->workspace().engine().processId() > 0 && window->workspace().engine().processId() != process; }));
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsKnown(); }));
  EXPECT_NE(cell(0)->status(), CellStatus::Error);
  EXPECT_EQ(cell(0)->errors(), 0);
  EXPECT_TRUE(cell(0)->note().contains("ended before this was finished")) << cell(0)->note().toStdString();
}

// A mistake leads to its place, by the mouse on its words or beside them and by keys, also where that is far above it.
TEST_F(RealEngine, AMistakeLeadsToItsPlace) {
  std::string lines;
  for (int i = 0; i < 90; ++i) lines += "let n" + std::to_string(i) + " = 4\n";
  openChecked("# %%\nlet N = 4\nparam A[N] = normal(0, 1)\nB[i] = nowhere[i] + A[i]\n" + lines + "\n# %%\nC[i] = A[i]\n");
  NotebookView* notebook = window->notebook();
  CellView* wrong = cell(0);
  ASSERT_EQ(wrong->errors(), 1);
  const auto strip = [&] {
    for (QWidget* w : wrong->findChildren<MessageStrip*>())
      if (w->isVisible()) return static_cast<MessageStrip*>(w);
    return static_cast<MessageStrip*>(nullptr);
  };
  ASSERT_TRUE(strip());
  const std::size_t begin = wrong->editor()->bytes().find("nowhere");
  const auto place = [&] {
    const QRect line = wrong->editor()->rectOf(begin);
    return notebook->viewport()->rect().contains(wrong->editor()->mapTo(notebook->viewport(), line.center()));
  };
  const auto leads = [&] {
    const auto [from, to] = wrong->editor()->selectionBytes();
    return wrong->editor()->hasFocus() && notebook->editing() && from == begin && to >= begin + 7 && to < begin + 20;
  };
  const auto leave = [&] {
    wrong->editor()->moveCaretTo(0);
    notebook->activate(cell(1)->id(), false);
    notebook->ensureWidgetVisible(strip());
    ASSERT_FALSE(leads() || place());
  };
  leave();
  QTest::mouseClick(strip()->findChild<QLabel*>(), Qt::LeftButton, {}, {4, 8});
  EXPECT_TRUE(leads());
  EXPECT_TRUE(wait(place));
  leave();
  QTest::mouseClick(strip(), Qt::LeftButton, {}, {10, strip()->height() / 2});
  EXPECT_TRUE(leads());
  EXPECT_TRUE(wait(place));
  leave();
  notebook->activate(wrong->id(), false);
  QTest::keyClick(notebook, Qt::Key_Tab);
  ASSERT_TRUE(strip()->hasFocus());
  QTest::keyClick(strip(), Qt::Key_Return);
  EXPECT_TRUE(leads());
  EXPECT_TRUE(wait(place));
  leave();
  // Words that are chosen to be copied lead nowhere.
  auto* words = strip()->findChild<QLabel*>();
  QTest::mouseDClick(words, Qt::LeftButton, {}, {words->fontMetrics().horizontalAdvance("no"), 8});
  EXPECT_TRUE(words->hasSelectedText());
}

TEST_F(RealEngine, ValuesThatAreNotThereAreComputedByTheButtonInTheirPlace) {
  openChecked();
  QTest::mouseClick(cell(1)->editor()->viewport(), Qt::LeftButton);
  cell(1)->showResult(3);
  ASSERT_TRUE(cell(1)->runHere()->isVisible());
  QTest::mouseClick(cell(1)->runHere(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return cell(1)->tensorView()->model()->rowCount() == 4; }));
  EXPECT_FALSE(cell(1)->runHere()->isVisible());
}

TEST_F(RealEngine, BytesThatAreNoTextCostOnlyTheirCell) {
  std::string text = kNotebook;
  text.insert(text.find("A[i, j] = W"), "\xff\xfe");
  openChecked(text);
  EXPECT_EQ(cell(1)->status(), CellStatus::Error);
  EXPECT_EQ(cell(2)->status(), CellStatus::Ok);
  compute(2);
  window->notebook()->activate(cell(2)->id(), true);
  QTest::keyClicks(cell(2)->editor(), " ");
  window->action("file.save")->trigger();
  EXPECT_NE(onDisk().find("\xff\xfe"
                          "A[i, j]"),
            std::string::npos);
}

TEST_F(RealEngine, AnotherFileInTheSameTabIsAnalysed) {
  window = std::make_unique<MainWindow>(&theme, QStringList{NF_NEOFLOW, "engine"});
  window->show();
  window->startEngine();
  checked();
  write(kNotebook);
  window->openFile(path());
  checked();
  EXPECT_EQ(window->workspace().analysis().cells.size(), 6u);
}

// The same expression in two cells is one kernel, yet each place selects its own token, node and gradient terms.
// One node computes both; each name has its own statement.
TEST_F(RealEngine, OfTwoStatementsThatComputeOneThingEachSelectsItself) {
  openChecked(
      "# %%\ninput X[4, 3] = normal(0, 1)\nparam W[3, 3] = normal(0, 1)\n\n"
      "# %%\nP[b, i] = sum[j] W[i, j] * X[b, j]\n\n"
      "# %%\nQ[b, i] = sum[j] W[i, j] * X[b, j]\n\n"
      "# %%\nloss L = mean[b, i] (P[b, i] * Q[b, i]^2)\ntrain L { optimizer = sgd(lr=0.1); steps = 3 }\n");
  window->workspace().wantGraph("fused");
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->graph().stage == "fused" && window->explain()->graph()->plan(); }));
  const auto& selection = window->workspace().selection();
  for (const std::size_t at : {1, 2}) {
    window->notebook()->activate(cell(at)->id(), true);
    cell(at)->editor()->moveCaretTo(1);
    ASSERT_EQ(selection.tensors(), std::vector<std::string>{at == 1 ? "P" : "Q"});
    const auto spans = selection.selectedSpans();
    ASSERT_EQ(spans.size(), 1u);
    EXPECT_EQ(document().text().substr(spans[0].begin, 1), at == 1 ? "P" : "Q");
    // The one node of both is lit, and beside it the gradient of the chosen one alone.
    const GraphView* graph = window->explain()->graph();
    std::set<std::string> lit, belongs;
    for (std::size_t i = 0; i < graph->graph().nodes.size(); ++i) {
      const std::string tensor = tensorOf(graph->graph(), graph->graph().nodes[i]);
      if (graph->isChosen(i)) lit.insert(tensor);
      if (graph->belongs(i)) belongs.insert(tensor);
    }
    EXPECT_EQ(lit, std::set<std::string>{"P"});
    EXPECT_EQ(belongs, std::set<std::string>{at == 1 ? "d(L)/d(P)" : "d(L)/d(Q)"});
  }
}

TEST_F(RealEngine, EachOfTwoEqualExpressionsSelectsItsOwn) {
  openChecked(
      "# %%\nlet N = 24\nparam A[N, N] = normal(0, 1)\nparam B[N, N] = normal(0, 1)\n\n"
      "# %%\nX[i, j] = sum[k] A[i, k] * A[k, j]\n\n"
      "# %%\nY[i, j] = sum[k] B[i, k] * B[k, j]\n\n"
      "# %%\nloss L = sum[i, j] X[i, j] * Y[j, i]\nshow d(L)/d(A), d(L)/d(B)\n\n"
      "# %%\ntrain L { optimizer = sgd(lr=0.0001); steps = 3 }\n");
  window->showPage(MainWindow::Page::Tune);
  const auto shared = [&]() -> const protocol::SubgraphInfo* {
    for (const auto& s : window->workspace().subgraphs().subgraphs)
      if (std::find(s.operators.begin(), s.operators.end(), "X") != s.operators.end()) return &s;
    return nullptr;
  };
  ASSERT_TRUE(wait([&] { return shared() != nullptr && window->explain()->graph()->plan() != nullptr; }));
  EXPECT_EQ(shared()->callsPerStep, 2);
  std::map<std::string, protocol::Expression> gradients;
  QObject::connect(&window->workspace(), &Workspace::expressionArrived, window.get(),
                   [&](const protocol::Expression& e) { gradients[e.tensor] = e; });
  for (const char* name : {"d(L)/d(A)", "d(L)/d(B)"}) window->workspace().wantExpression(name);
  ASSERT_TRUE(wait([&] { return gradients.size() == 2; }));
  window->workspace().wantGraph("fused");
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->graph().stage == "fused"; }));
  const auto& selection = window->workspace().selection();
  using Relation = Selection::Relation;
  const auto lit = [&](const protocol::Origins& origins) { return selection.relation(origins) != Relation::None; };
  for (const auto& [cellIndex, token, own, other, gradient, otherGradient] :
       {std::tuple{1, "A[i, k]", "X", "Y", "d(L)/d(A)", "d(L)/d(B)"},
        std::tuple{2, "B[i, k]", "Y", "X", "d(L)/d(B)", "d(L)/d(A)"}}) {
    SCOPED_TRACE(token);
    window->showPage(MainWindow::Page::Author);
    window->notebook()->activate(cell(static_cast<std::size_t>(cellIndex))->id(), true);
    const std::string& body = cell(static_cast<std::size_t>(cellIndex))->editor()->bytes();
    cell(static_cast<std::size_t>(cellIndex))->editor()->moveCaretTo(body.find(token) + 1);
    ASSERT_FALSE(selection.empty());
    for (const auto& node : window->explain()->graph()->graph().nodes) {
      if (node.id == own) { EXPECT_TRUE(lit(node.origins)); }
      if (node.id == other) { EXPECT_FALSE(lit(node.origins)); }
    }
    const auto terms = [&](const std::string& name) {
      int exact = 0;
      for (const auto& formula : gradients[name].formulas)
        for (const auto& node : formula.nodes) exact += selection.relation(node.origins) == Relation::Exact;
      return exact;
    };
    EXPECT_GT(terms(gradient), 0);
    EXPECT_EQ(terms(otherGradient), 0);
  }
}

// What hangs on a mistake is no part of the program while it stands: the graph and the decisions of before stay, greyed.
TEST_F(RealEngine, AMistakeLeavesExplainWhatItHad) {
  openChecked(
      "# %%\ninput X[8, 8] = normal(0, 1)\nparam W[8, 8] = normal(0, 1)\n\n"
      "# %%\nP[i, j] = sum[k] X[i, k] * W[k, j]\nQ[i, j] = max(P[i, j], 0)\nloss L = mean[i, j] Q[i, j]\n\n"
      "# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 3 }\n");
  window->showPage(MainWindow::Page::Explain);
  const auto& shown = window->explain()->graph()->graph();
  const auto& report = window->explain()->fusion()->report();
  ASSERT_TRUE(wait([&] { return !shown.nodes.empty() && !report.decisions.empty(); }));
  const std::size_t nodes = shown.nodes.size(), decisions = report.decisions.size();
  const std::string before = document().text();
  cell(1)->editor()->moveCaretTo(cell(1)->editor()->bytes().find("X[i, k]"));
  QTest::keyClicks(cell(1)->editor(), "$");
  ASSERT_NE(document().text(), before);
  checked();
  ASSERT_GT(cell(1)->errors(), 0);
  EXPECT_FALSE(QTest::qWaitFor([&] { return shown.nodes.size() < nodes || report.decisions.size() < decisions; }, 1500));
  EXPECT_LT(shown.revision, document().revision()) << "of the text before: it is greyed";
  window->action("edit.undo")->trigger();
  EXPECT_TRUE(wait([&] { return shown.revision == document().revision() && report.revision == document().revision(); }));
  EXPECT_EQ(shown.nodes.size(), nodes);
}

TEST_F(RealEngine, EachNotebookShowsTheDeviceThatItUses) {
  openChecked();
  const auto uses = [&](const char* device) {
    return window->workspace().devices() && std::ranges::any_of(window->workspace().devices()->devices, [&](const auto& d) {
             return d.inUse && d.name.starts_with(device);
           });
  };
  ASSERT_TRUE(wait([&] { return uses("cpu"); }));
  window->workspace().useDevice(QStringLiteral("reference"));
  ASSERT_TRUE(wait([&] { return uses("reference"); }));
  // Nobody measures it: another device's figures are not its own.
  EXPECT_TRUE(wait([&] { return window->constantsText() == "reference: not measured"; })) << window->constantsText().toStdString();
  window->showPage(MainWindow::Page::Explain);
  EXPECT_TRUE(wait([&] {
    const auto& device = window->explain()->fusion()->report().device;
    return device.device == "reference" && device.assumed;
  }));
  // An engine that is started anew goes on with it.
  ASSERT_EQ(::kill(static_cast<pid_t>(window->workspace().engine().processId()), SIGKILL), 0);
  ASSERT_TRUE(wait([&] { return window->messages()->key() == "engine" && !uses("reference"); }));
  EXPECT_TRUE(wait([&] { return uses("reference"); })) << "and not with its own choice";
  window->action("file.new")->trigger();
  ASSERT_TRUE(wait([&] { return uses("cpu"); }));
  EXPECT_TRUE(wait([&] { return window->constantsText().startsWith("cpu, "); })) << window->constantsText().toStdString();
  window->showPage(MainWindow::Page::Devices);
  const auto button = [&](const QString& device) {
    for (const IconButton* b : window->findChild<DevicesView*>()->findChildren<IconButton*>())
      if (b->accessibleName() == "Use " + device) return b->text();
    return QString();
  };
  EXPECT_EQ(button("cpu"), "Used");
  EXPECT_EQ(button("reference"), "Use");
  window->tabs()->setCurrentIndex(0);
  EXPECT_TRUE(uses("reference"));
  EXPECT_TRUE(wait([&] { return button("reference") == "Used" && button("cpu") == "Use"; }));
}

// The interpreter has no kernels: nothing of another device's stands there as if it were its own, and nothing is offered that cannot be.
TEST_F(RealEngine, TuneSaysThatTheInterpreterHasNoKernels) {
  openChecked();
  window->showPage(MainWindow::Page::Tune);
  TuneView* tune = window->tune();
  const auto turnable = [&] { return tune->chosenSchedule().text.find("knobs") != std::string::npos; };
  ASSERT_TRUE(wait([&] { return !tune->kernel()->empty() && turnable(); }));
  EXPECT_TRUE(tune->measure()->isEnabled());
  QTest::mouseClick(tune->measure(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return tune->trials()->points() > 0; }));
  const auto leadsToKernel = [&] {
    return std::ranges::any_of(window->inspector()->findChildren<QToolButton*>(),
                               [](const QToolButton* b) { return !b->isHidden() && b->objectName().startsWith("kernel:"); });
  };
  Q_EMIT window->outline()->tensorChosen("C");
  EXPECT_TRUE(wait(leadsToKernel));
  window->workspace().useDevice(QStringLiteral("reference"));
  ASSERT_TRUE(wait([&] { return tune->kernel()->detail().contains("interprets the operators"); }))
      << tune->kernel()->detail().toStdString();
  EXPECT_TRUE(wait([&] { return !leadsToKernel(); })) << "there is none to go to";
  EXPECT_TRUE(tune->kernel()->empty());
  EXPECT_FALSE(turnable());
  EXPECT_EQ(tune->trials()->points(), 0);
  for (QPushButton* b : {tune->measure(), tune->pin(), tune->replay(), tune->tune()}) {
    EXPECT_FALSE(b->isEnabled()) << b->text().toStdString();
    EXPECT_FALSE(b->toolTip().isEmpty());
  }
  window->workspace().useDevice(QStringLiteral("cpu"));
  ASSERT_TRUE(wait([&] { return !tune->kernel()->empty() && turnable(); }));
  EXPECT_TRUE(tune->measure()->isEnabled());
  EXPECT_TRUE(wait([&] { return tune->trials()->points() > 0; }));
  EXPECT_TRUE(wait(leadsToKernel));
}

// What is measured beside a training is what that leaves: it is refused where it was asked for.
TEST_F(RealEngine, DevicesAreNotMeasuredBesideATraining) {
  openChecked();
  run(5);
  ASSERT_TRUE(wait([&] { return window->workspace().runState().step > 50; }));
  window->showPage(MainWindow::Page::Devices);
  auto* devices = window->findChild<DevicesView*>();
  window->action("tune.measureDevice")->trigger();
  EXPECT_TRUE(wait([&] { return devices->detail().contains("measure when it has ended"); })) << devices->detail().toStdString();
  window->action("run.stop")->trigger();
  ASSERT_TRUE(wait([&] { return !window->workspace().running() && !window->workspace().runAsked(); }));
  // The engine is free a moment later.
  EXPECT_TRUE(wait([&] {
    if (devices->detail().contains("when it has ended")) window->action("tune.measureDevice")->trigger();
    return devices->detail().contains("measured on this machine");
  })) << devices->detail().toStdString();
}

// The choice of a shown tensor with a long name makes neither its cell nor the page wider.
TEST_F(RealEngine, LongNamesLeaveCellsTheirWidth) {
  const std::string name = "a_very_long_name_of_a_tensor_that_goes_on_and_on_until_nobody_reads_it_any_more_here";
  openChecked("# %%\ninput X[4, 4] = normal(0, 1)\n" + name + "[i, j] = X[i, j] * 2\nshow X, " + name + ", X * 3\n");
  window->resize(1280, 800);
  compute(0);
  cell(0)->showResult(3);
  const auto* choice = cell(0)->findChild<QComboBox*>();
  ASSERT_TRUE(choice && wait([&] { return choice->isVisible(); }));
  EXPECT_EQ(choice->itemText(1).toStdString(), name);
  auto* notebook = window->notebook();
  EXPECT_LE(cell(0)->minimumSizeHint().width(), notebook->viewport()->width());
  EXPECT_TRUE(wait([&] { return notebook->widget()->width() == notebook->viewport()->width(); }))
      << notebook->widget()->width() << " of " << notebook->viewport()->width();
}

// A gradient that is 0 by rule is said where it stands; nothing is called proved that nobody proved.
TEST_F(RealEngine, AGradientThatIsZeroByRuleIsSaid) {
  openChecked("# %%\ninput x[3] : f64 = 2\n\n# %%\nF = sum[i] floor(x[i])\nG = sum[i] x[i]^2\nshow d(F)/d(x)\n");
  ASSERT_TRUE(wait([&] { return !cell(1)->zeros().isEmpty(); }));
  EXPECT_TRUE(cell(1)->zeros().startsWith("dF/dx is 0: ")) << cell(1)->zeros().toStdString();
  EXPECT_TRUE(cell(1)->zeros().contains("slope")) << cell(1)->zeros().toStdString();
  const auto said = [&] {
    const auto labels = window->findChildren<QLabel*>();
    return std::any_of(labels.begin(), labels.end(),
                       [&](const QLabel* l) { return l->isVisible() && l->toolTip() == cell(1)->zeros(); });
  };
  EXPECT_TRUE(wait(said)) << "in the status bar";
  const auto visible = [&](const QWidget* in) {
    QStringList words;
    for (const Badge* b : in->findChildren<Badge*>())
      if (b->isVisible()) words << b->accessibleName();
    for (const QLabel* l : in->findChildren<QLabel*>())
      if (l->isVisible()) words << l->text();
    return words.join(QLatin1Char('\n'));
  };
  Q_EMIT window->outline()->tensorChosen("d(F)/d(x)");
  ASSERT_TRUE(wait([&] { return visible(window->inspector()).startsWith("zero\n"); }))
      << visible(window->inspector()).toStdString();
  EXPECT_FALSE(visible(window->inspector()).contains("bijection"));
  EXPECT_FALSE(visible(window->inspector()).contains("Terms an element"));
  replace("d(F)/d(x)", "d(G)/d(x)");
  EXPECT_TRUE(wait([&] { return cell(1)->zeros().isEmpty() && cell(1)->formulaView()->formulas().size() == 1; }));
  EXPECT_FALSE(visible(cell(1)).contains("A part of"));
  replace("x[i]^2", "(x[i]^2 + floor(x[i]))");
  EXPECT_TRUE(wait([&] { return visible(cell(1)).contains("A part of dG/dx is 0: "); })) << visible(cell(1)).toStdString();
  EXPECT_TRUE(cell(1)->zeros().isEmpty()) << "no warning";
}

// However tall a formula is: each cell as high as what it holds, and the page scrolls.
TEST_F(RealEngine, ATallFormulaScrollsAndCutsNothing) {
  openChecked(
      "# %%\ninput A[20] : f64 = normal(0, 1)\nparam W[3] : f64 = normal(0, 1)\n"
      "Y[p: 10] = sum[r] (A[2*p + r - 1] else 0) * W[r] * A[((7*p//3 + 11*r)%97//4 + (13*r+p)//6%31 + (2*r+p)//7%5*3) % 20]\n\n"
      "# %%\nZ[i, j: 4] = Y[i] * A[(i + 3*j) % 20]^2 + select(i > j, Y[i//2], 0)\nloss L = sum[i, j] Z[i, j]^2\n\n"
      "# %%\nshow d(L)/d(A), d(L)/d(W)\n");
  window->resize(1200, 700);
  NotebookView* page = window->notebook();
  ASSERT_TRUE(wait([&] { return cell(2)->formulaView() && cell(2)->formulaView()->formulas().size() >= 4; }));
  const auto whole = [&] {
    for (const CellView* v : page->cells()) {
      if (v->height() < v->minimumSizeHint().height() || v->height() < v->sizeHint().height()) return false;
      if (v->editor()->height() < v->editor()->sizeHint().height()) return false;
      for (const QWidget* part : v->findChildren<QWidget*>(Qt::FindDirectChildrenOnly))
        if (part->isVisible() && !v->rect().contains(part->geometry())) return false;
    }
    const FormulaView* formula = page->cells().back()->formulaView();
    return formula->height() >= formula->sizeHint().height() && formula->parentWidget()->height() >= formula->height();
  };
  const auto scrolls = [&] {
    return page->widget()->height() > page->viewport()->height() &&
           page->verticalScrollBar()->maximum() == page->widget()->height() - page->viewport()->height();
  };
  EXPECT_TRUE(wait([&] { return whole() && scrolls(); }));
  page->activate(cell(0)->id(), false);
  const int before = page->widget()->height();
  QTest::keyClicks(page, "aa");
  EXPECT_EQ(page->cells().size(), 5u);
  EXPECT_TRUE(wait([&] { return page->widget()->height() > before && whole() && scrolls(); }));
  page->verticalScrollBar()->setValue(page->verticalScrollBar()->maximum());
  const QWidget* formula = page->cells().back()->formulaView();
  EXPECT_LT(formula->mapTo(page->viewport(), QPoint(0, formula->height())).y(), page->viewport()->height())
      << "its last line is in sight";
}

// A bar that says what is so no more misleads.
TEST_F(RealEngine, AReportThatWasRefusedIsTakenBack) {
  openChecked();
  const auto refused = [&] { return window->messages()->shown().contains("export"); };
  for (const bool mended : {true, false}) {
    replace("+ 1\n", "+ nowhere\n");
    window->exportHtml(folder.filePath("page.html"));
    ASSERT_TRUE(wait([&] { return !window->exporting(); }));
    ASSERT_TRUE(refused());
    if (mended) {
      replace("+ nowhere\n", "+ 1\n");
      EXPECT_TRUE(wait([&] { return !refused(); })) << "the mistake is gone";
    } else {
      window->exportPdf(folder.filePath("page.pdf"));
      EXPECT_FALSE(refused()) << "an export that was written";
    }
  }
}

}  // namespace
}  // namespace nf
