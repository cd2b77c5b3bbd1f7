// SPDX-License-Identifier: GPL-3.0-or-later
// What is chosen stays so: where a decision leads, and while another notebook is looked at.
#include <QTabBar>
#include <QToolButton>
#include <set>

#include "tests/workbench/real_engine.h"
#include "widgets/decision_card.h"
#include "widgets/explain_view.h"
#include "widgets/fusion_model.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/outline_view.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

using Choices = RealEngine;

// Of a loop's body no list has the tensors: what a decision leads to is chosen by the decision's place.
TEST_F(Choices, ADecisionInALoopStaysChosenWhereItLeads) {
  const std::string sum = "sum[k] U[i, k] * h[k]";
  openChecked("# %%\nparam U[4, 4] = normal(0, 1)\nh[i: 4] = 0.5\nfor t in 0..5 {\n  m[i] = " + sum +
              "\n  h[i] = tanh(m[i]) }\nloss L = sum[i] h[i]^2\n# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 3 }\n");
  window->showPage(MainWindow::Page::Explain);
  const auto inside = [&] {
    const auto& decisions = window->explain()->fusion()->report().decisions;
    for (std::size_t i = 0; i < decisions.size(); ++i)
      if (decisions[i].producer == "m") return static_cast<int>(i);
    return -1;
  };
  ASSERT_TRUE(wait([&] { return inside() >= 0 && !window->workspace().subgraphs().subgraphs.empty(); }));
  window->explain()->chooseDecision(inside());
  const auto& selection = window->workspace().selection();
  ASSERT_EQ(selection.selectedSpans().size(), 1u);
  const auto chosen = [&] {
    const auto span = selection.selectedSpans()[0];
    return document().text().substr(span.begin, span.end - span.begin);
  };
  EXPECT_NE(chosen().find(sum), std::string::npos) << chosen();
  for (const auto& s : window->workspace().subgraphs().subgraphs) {
    if (std::ranges::find(s.operators, "m") == s.operators.end()) continue;
    Q_EMIT window->explain()->card()->leadChosen(QStringLiteral("kernel:") + QString::fromStdString(s.id));
    EXPECT_EQ(window->tune()->current(), s.id);
  }
  EXPECT_EQ(window->page(), MainWindow::Page::Tune);
  ASSERT_EQ(selection.selectedSpans().size(), 1u);
  EXPECT_NE(chosen().find(sum), std::string::npos) << chosen();
}

// Whoever looks at another notebook meanwhile comes back to what was chosen, with its lines in the kernel.
TEST_F(Choices, AChoiceWaitsWhileAnotherNotebookIsLookedAt) {
  openChecked();
  const auto& selection = window->workspace().selection();
  const auto there = [&] { return wait([&] { return !window->tune()->kernel()->tintedLines().empty(); }); };
  const auto backAndForth = [&] {
    window->action("file.new")->trigger();
    ASSERT_TRUE(selection.empty());
    QTest::mouseClick(window->tabs(), Qt::LeftButton, {}, window->tabs()->tabRect(0).center());
  };
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return !window->workspace().subgraphs().subgraphs.empty(); }));
  Q_EMIT window->outline()->tensorChosen("C");
  ASSERT_TRUE(there());
  backAndForth();
  EXPECT_EQ(selection.tensors(), std::vector<std::string>{"C"});
  EXPECT_EQ(window->inspector()->tensor(), "C");
  EXPECT_TRUE(there());
  // A place, too.
  window->showPage(MainWindow::Page::Author);
  const auto place = document().text().find("W[i, j] + 1");
  window->notebook()->scrollToByte(place, true);
  ASSERT_TRUE(wait([&] { return selection.reads() == "W"; })) << selection.reads();
  const auto spans = selection.selectedSpans();
  backAndForth();
  EXPECT_EQ(selection.selectedSpans(), spans);
  EXPECT_EQ(selection.reads(), "W");
}

// A decision leads to kernels of either of its ends: both stay chosen in each.
TEST_F(Choices, ADecisionLeadsToTheKernelsOfBothItsEnds) {
  openChecked(
      "# %%\nparam W[4, 4] = normal(0, 1)\ninput X[2, 5, 4] = normal(0, 1)\n"
      "def cell(x, h, c) -> hN, cN {\n  Z[i, j] = (sum[k] x[i, k] * W[k, j]) * h[i, j]\n"
      "  cN[i, j] = sigmoid(Z[i, j]) * c[i, j] + x[i, j]\n  hN[i, j] = tanh(cN[i, j]) }\n"
      "h[i: 2, j: 4] = 0.5\nc[i: 2, j: 4] = 0.25\nfor t in 0..5 { h, c = cell(X[_, t, _], h, c) }\n"
      "loss L = sum[i, j] h[i, j]^2\n# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 3 }\n");
  window->showPage(MainWindow::Page::Explain);
  const auto intoLoss = [&] {
    const auto& decisions = window->explain()->fusion()->report().decisions;
    for (std::size_t i = 0; i < decisions.size(); ++i)
      if (decisions[i].producer == "h" && decisions[i].consumer == "L") return static_cast<int>(i);
    return -1;
  };
  ASSERT_TRUE(wait([&] { return intoLoss() >= 0 && !window->workspace().subgraphs().subgraphs.empty(); }));
  window->explain()->chooseDecision(intoLoss());
  const auto& selection = window->workspace().selection();
  const std::vector<std::string> both{"h", "L"};
  ASSERT_EQ(selection.tensors(), both);
  std::set<std::string> kernels;
  for (const auto* lead : window->explain()->card()->findChildren<QToolButton*>())
    if (lead->objectName().startsWith("kernel:")) kernels.insert(lead->objectName().sliced(7).toStdString());
  EXPECT_GE(kernels.size(), 2u) << "of either end";
  for (const std::string& id : kernels) {
    window->showPage(MainWindow::Page::Explain);
    const QString target = "kernel:" + QString::fromStdString(id);
    auto* lead = window->explain()->card()->findChild<QToolButton*>(target);
    ASSERT_TRUE(lead) << id;
    lead->click();
    EXPECT_EQ(window->page(), MainWindow::Page::Tune);
    ASSERT_TRUE(wait([&] { return window->tune()->current() == id && !window->tune()->kernel()->pending(); })) << id;
    EXPECT_TRUE(wait([&] { return !window->tune()->kernel()->tintedLines().empty(); })) << id;
    EXPECT_EQ(selection.tensors(), both) << id;
    EXPECT_TRUE(window->explain()->decided());
  }
}

}  // namespace
}  // namespace nf
