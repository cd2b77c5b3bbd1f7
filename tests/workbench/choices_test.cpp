// SPDX-License-Identifier: GPL-3.0-or-later
// What is chosen stays so, where a decision leads and while another notebook is looked at; a part of a call is what is written for it.
#include <QPlainTextEdit>
#include <QTabBar>
#include <QTextBlock>
#include <QToolButton>
#include <map>
#include <set>

#include "tests/workbench/real_engine.h"
#include "widgets/decision_card.h"
#include "widgets/explain_view.h"
#include "widgets/formula_view.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/notebook_view.h"
#include "widgets/outline_view.h"
#include "widgets/tensor_view.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

using protocol::GraphNode;
using protocol::GraphPage;

struct Choices : RealEngine {
  // Of the first decision about these; -1: there is none.
  int decisionOf(const std::string& producer, const std::string& consumer = {}) const {
    const auto& decisions = window->explain()->fusion()->report().decisions;
    const auto found = std::ranges::find_if(
        decisions, [&](const auto& d) { return d.producer == producer && (consumer.empty() || d.consumer == consumer); });
    return found == decisions.end() ? -1 : static_cast<int>(found - decisions.begin());
  }
  bool knowsKernels() const { return !window->workspace().subgraphs().subgraphs.empty(); }
};

// Of a loop's body no list has the tensors: what a decision leads to is chosen by the decision's place.
TEST_F(Choices, ADecisionInALoopStaysChosenWhereItLeads) {
  const std::string sum = "sum[k] U[i, k] * h[k]";
  openChecked("# %%\nparam U[4, 4] = normal(0, 1)\nh[i: 4] = 0.5\nfor t in 0..5 {\n  m[i] = " + sum +
              "\n  h[i] = tanh(m[i]) }\nloss L = sum[i] h[i]^2\n# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 3 }\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return decisionOf("m") >= 0 && knowsKernels(); }));
  window->explain()->chooseDecision(decisionOf("m"));
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
  ASSERT_TRUE(wait([&] { return knowsKernels(); }));
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
  ASSERT_TRUE(wait([&] { return decisionOf("h", "L") >= 0 && knowsKernels(); }));
  window->explain()->chooseDecision(decisionOf("h", "L"));
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

const char* const kTwoLosses =
    "# %%\nlet N = 6\ninput X[N, N] = normal(0, 1)\nparam W[N, N] = normal(0, 0.3)\nY[i, j] = sum[k] X[i, k] * W[k, j]\n"
    "# %%\nE1[i, j] = exp(X[i, j]) * Y[i, j]\n# %%\nE2[i, j] = exp(X[i, j]) * Y[i, j]\n"
    "# %%\nloss La = mean[i, j] (Y[i, j] + E1[i, j] - 1)^2\nloss Lb = mean[i, j] sin(Y[i, j] + E2[i, j])\n"
    "# %%\nshow d(La)/d(W), d(Lb)/d(W)\n# %%\ntrain La { optimizer = sgd(lr=0.1); steps = 3 }\n";

TEST_F(Choices, TheGradientOfAnotherLossIsNotMeant) {
  openChecked(kTwoLosses);
  const FormulaView* view = nullptr;
  ASSERT_TRUE(wait([&] {
    for (const CellView* c : window->notebook()->cells())
      if (c->formulaView() && c->formulaView()->formulas().size() == 2) view = c->formulaView();
    return view != nullptr;
  }));
  const std::string text = document().text();
  for (const std::size_t chosen : {1, 0}) {
    const std::string name = chosen == 0 ? "d(La)/d(W)" : "d(Lb)/d(W)";
    window->notebook()->scrollToByte(text.find(name, text.find("show")), true);
    ASSERT_TRUE(wait([&] { return window->workspace().selection().isCalled(name); }));
    EXPECT_EQ(view->formulas()[chosen].name, name);
    EXPECT_GT(tintedParts(*view, chosen), 0);
    EXPECT_EQ(tintedParts(*view, 1 - chosen), 0) << name;
  }
}

// A second click meets what the first one did.
TEST_F(Choices, AClickInAFormulaLeavesThePageWhereItIs) {
  openChecked(kTwoLosses);
  window->resize(1200, 520);
  FormulaView* view = nullptr;
  ASSERT_TRUE(wait([&] {
    for (const CellView* c : window->notebook()->cells())
      if (c->formulaView() && c->formulaView()->formulas().size() == 2) view = c->formulaView();
    return view != nullptr && window->statusText().contains("up to date");
  }));
  window->notebook()->bringIntoSight(view);
  const auto top = [&] { return view->mapTo(window->notebook()->viewport(), QPoint()).y(); };
  ASSERT_TRUE(wait([&] { return top() >= 0; }));
  const int before = top();
  const auto second = static_cast<std::uint32_t>(document().text().find("E1[i, j] ="));
  int above = 0;
  for (int x = 6; x < view->width(); x += 15) {
    QTest::mouseClick(view, Qt::LeftButton, {}, QPoint(x, 24));
    for (int i = 0; i < 4; ++i) QCoreApplication::processEvents();
    EXPECT_EQ(top(), before) << x;
    const auto spans = window->workspace().selection().selectedSpans();
    above += !spans.empty() && spans.front().end < second;
  }
  EXPECT_GT(above, 0) << "places out of sight";
}

// Where a place leads is no matter of the stage that is looked at; a link goes to the stage that has its node.
TEST_F(Choices, LinksAreThoseOfThePlanAtEveryStage) {
  openChecked(kTwoLosses);
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->plan() && knowsKernels(); }));
  const std::string text = document().text();
  std::vector<std::vector<QString>> all;
  for (const char* stage : {"fused", "differentiated", "source"}) {
    window->showPage(MainWindow::Page::Explain);
    window->explain()->wantStage(QString::fromLatin1(stage));
    ASSERT_TRUE(wait([&] { return window->explain()->graph()->graph().stage == stage; }));
    window->showPage(MainWindow::Page::Author);
    window->notebook()->scrollToByte(text.find("Y[i", text.find("# %%")), true);
    window->notebook()->scrollToByte(text.find("exp", text.find("E2")), true);
    ASSERT_TRUE(wait([&] { return !window->workspace().selection().empty(); }));
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
    auto& targets = all.emplace_back();
    for (const QToolButton* lead : window->inspector()->findChildren<QToolButton*>())
      if (lead->objectName().contains(QLatin1Char(':'))) targets.push_back(lead->objectName());
    EXPECT_FALSE(targets.empty());
    EXPECT_EQ(targets, all.front()) << stage;
  }
  // The partitioned stage has groups of its own under such ids.
  const auto group = std::ranges::find_if(all.front(), [](const QString& t) { return t.startsWith("group:"); });
  ASSERT_NE(group, all.front().end());
  window->explain()->wantStage(QStringLiteral("partitioned"));
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->graph().stage == "partitioned"; }));
  window->inspector()->findChild<QToolButton*>(*group)->click();
  EXPECT_TRUE(wait([&] { return window->explain()->graph()->graph().stage == "fused"; }));
  window->explain()->wantStage(QStringLiteral("source"));
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->graph().stage == "source"; }));
  const auto copy = std::ranges::find_if(all.front(), [](const QString& t) { return t.startsWith("node:") && t.contains('#'); });
  ASSERT_NE(copy, all.front().end()) << "a copy, which the source has not";
  window->inspector()->findChild<QToolButton*>(*copy)->click();
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->graph().stage == "fused"; }));
  EXPECT_TRUE(wait([&] { return window->workspace().selection().isCalled(copy->sliced(5).toStdString()); }));
}

TEST_F(Choices, ADecisionLeadsToEachThingOnce) {
  openChecked(
      "# %%\ninput X[6, 5] = normal(0, 1)\nparam W[5, 5] = normal(0, 1)\n"
      "Y[i, j] = tanh(sum[k] X[i, k] * W[k, j])\nZ[i, j] = sum[k] Y[i, k] * W[k, j]\nloss L = mean[i, j] Z[i, j]^2\n"
      "show d(L)/d(W)\n# %%\ntrain L { optimizer = adam(lr=0.1); steps = 3 }\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->plan() && knowsKernels(); }));
  const auto& decisions = window->explain()->fusion()->report().decisions;
  int gradients = 0;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    window->explain()->chooseDecision(static_cast<int>(i));
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);  // links of the decision before
    std::set<QString> seen;
    for (const auto* lead : window->explain()->card()->findChildren<QToolButton*>()) {
      if (!lead->objectName().contains(QLatin1Char(':'))) continue;
      EXPECT_TRUE(seen.insert(lead->objectName()).second)
          << decisions[i].producer << " -> " << decisions[i].consumer << ": " << lead->objectName().toStdString();
      gradients += lead->objectName().startsWith(QLatin1String("tensor:")) ? 1 : 0;
    }
  }
  EXPECT_GT(gradients, 0);
}

// One of several results of a call, and what a call makes on the way, is what is written of it, not all of the call.
TEST_F(Choices, APartOfACallHasTheLinesAndFormulasOfItsOwn) {
  openChecked(
      "# %%\nlet N = 5, M = 4, K = 3\ninput X[N, M] = normal(0, 1)\nparam W[M, K] = normal(0, 1)\n"
      "def two(a[N, M], w[M, K]) -> u, s {\n  u[i, k] = tanh(sum[m] a[i, m] * w[m, k])\n  s[i] = sum[k] u[i, k]^2 }\n"
      "def nest(a[N, M], w[M, K]) -> r {\n  u, s = two(a, w)\n  r[i, k] = u[i, k] / (1 + s[i]) }\n"
      "# %%\nP, Q = two(X, W)\nshow P, Q\n# %%\nR = nest(X, W)\n"
      "loss L = mean[i, k] (R[i, k] - 1)^2 + mean[i] Q[i] * P[i, 0]\n"
      "# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 3 }\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return decisionOf("R") >= 0 && knowsKernels(); }));
  window->explain()->chooseDecision(decisionOf("R"));
  window->showPage(MainWindow::Page::Tune);
  KernelView* kernel = window->tune()->kernel();
  const std::string text = document().text();
  const auto spans = window->workspace().analysis().spans;
  const auto bodyOf = [&](const std::string& statement) { return text.find(statement); };
  const std::size_t u = bodyOf("u[i, k] = tanh"), nest = bodyOf("def nest");
  int own = 0, others = 0;
  const auto subgraphs = window->workspace().subgraphs().subgraphs;  // may come anew meanwhile
  for (const auto& subgraph : subgraphs) {
    ASSERT_TRUE(showKernel(subgraph.id));
    const auto lines = kernel->lineOrigins();
    const auto lit = kernel->tintedLines();
    for (std::size_t line = 0; line < lines.size(); ++line) {
      bool inTwo = false, inNest = false;
      for (const auto o : lines[line]) {
        const auto& at = spans[o];
        if (!at.source.empty()) continue;
        inTwo = inTwo || (at.begin >= u && at.end < nest);
        inNest = inNest || (at.begin > nest && at.end < bodyOf("# %%\nP, Q") && at.begin >= bodyOf("r[i, k]"));
      }
      const bool tinted = std::ranges::find(lit, static_cast<int>(line)) != lit.end();
      own += tinted && inNest ? 1 : 0;
      others += inTwo && !inNest ? 1 : 0;
      if (!inTwo || inNest) continue;
      EXPECT_FALSE(tinted) << subgraph.name << ", line " << line;
    }
  }
  EXPECT_GT(own, 0);
  EXPECT_GT(others, 0) << "lines of u and of s, which stay dark";
  window->showPage(MainWindow::Page::Author);
  const auto formulas = [&] { return cell(1)->formulaView(); };
  ASSERT_TRUE(wait([&] { return formulas() && formulas()->formulas().size() > 1; }));
  const auto leadsTo = [&](const char* target) {
    const auto* lead = window->inspector()->findChild<QToolButton*>(QLatin1String(target));
    return lead && lead->isVisible();
  };
  for (const std::string result : {"Q", "P", "Q"}) {
    Q_EMIT window->outline()->tensorChosen(QString::fromStdString(result));
    EXPECT_TRUE(wait([&] { return leadsTo(result == "Q" ? "node:Q" : "node:P"); })) << result;
    EXPECT_EQ(leadsTo("node:P"), result == "P");
    EXPECT_EQ(leadsTo("node:P.sum"), result == "P");
    EXPECT_EQ(leadsTo("node:Q"), result == "Q");
    for (std::size_t f = 0; f < formulas()->formulas().size(); ++f) {
      const auto& formula = formulas()->formulas()[f];
      const int tinted = tintedParts(*formulas(), f);
      const bool isPart = formula.name == result || formula.name.starts_with(result + ".");
      EXPECT_EQ(tinted > 0, isPart) << result << " chosen, formula of " << formula.name;
    }
  }
}

const char* const kCalledTwice =
    "# %%\nlet N = 32, K = 16, M = 8\ninput X[N, K] = normal(0, 1)\nparam W[K, M] = normal(0, 0.3)\n"
    "def two(A[N, K], B[K, M]) -> P, Q {\n  P[n, m] = sum[k] A[n, k] * B[k, m]\n  Q[n, m] = tanh(P[n, m]) + 0.5 * P[n, m] }\n"
    "def outer(A[N, K], B[K, M]) -> R {\n  U, S = two(A, B)\n  R[n, m] = U[n, m] * S[n, m] }\n"
    "# %%\nP1, Q1 = two(X, W)\nZ = outer(X, W)\n# %%\nE[n, m] = exp(-Q1[n, m]^2)\n"
    "# %%\nloss L = mean[n, m] (E[n, m] - Z[n, m])^2\n# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 3 }\n";

// Of a function that another one calls, too: a place lights up the lines that were written out from it, not all that the calls make; a
// line selects what it was written out from, and is among what lights up.
TEST_F(Choices, APlaceInAFunctionAndALineOfAKernelAreEachOthers) {
  openChecked(kCalledTwice);
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->plan() && knowsKernels(); }));
  const std::string text = document().text();
  const auto spans = window->workspace().analysis().spans;
  const auto tanhs = [&](const protocol::Origins& origins) {
    return std::ranges::any_of(origins, [&](std::uint32_t o) {
      return spans[o].source.empty() && text.substr(spans[o].begin, spans[o].end - spans[o].begin) == "tanh";
    });
  };
  KernelView* kernel = window->tune()->kernel();
  int ofTanh = 0, copies = 0, clicked = 0;
  const auto subgraphs = window->workspace().subgraphs().subgraphs;
  for (const auto& subgraph : subgraphs) {
    SCOPED_TRACE(subgraph.name);
    window->showPage(MainWindow::Page::Author);
    window->notebook()->scrollToByte(text.find("tanh") + 1, true);
    ASSERT_TRUE(wait([&] { return window->workspace().selection().body().size() == 1; }));
    ASSERT_TRUE(showKernel(subgraph.id));
    const auto lines = kernel->lineOrigins();
    for (const int line : kernel->tintedLines()) {
      ++ofTanh;
      EXPECT_TRUE(tanhs(lines[static_cast<std::size_t>(line)])) << line;
    }
    // The expressions as well, those of a copy (`Q1#5`) among them.
    const auto* expression = kernel->findChild<QPlainTextEdit*>();
    const std::set<int> litBlocks = litExpressions(*kernel);
    for (QTextBlock block = expression->document()->begin(); block.isValid(); block = block.next()) {
      const bool lit = litBlocks.contains(block.blockNumber());
      EXPECT_EQ(lit, block.text().contains(QLatin1String("tanh("))) << block.text().toStdString();
      copies += lit && block.text().section(QLatin1Char('['), 0, 0).contains(QLatin1Char('#')) ? 1 : 0;
    }
    std::set<protocol::Origins> seen;
    for (std::size_t line = 0; line < lines.size(); ++line) {
      if (lines[line].empty() || !seen.insert(lines[line]).second) continue;
      kernel->chooseLine(static_cast<int>(line));
      const auto lit = kernel->tintedLines();
      EXPECT_TRUE(std::ranges::find(lit, static_cast<int>(line)) != lit.end()) << line;
      const auto body = window->workspace().selection().body();
      clicked += body.empty() ? 0 : 1;
      for (const std::uint32_t o : body)
        EXPECT_TRUE(std::ranges::find(lines[line], o) != lines[line].end()) << "a place of its own, line " << line;
    }
  }
  EXPECT_GT(ofTanh, 0);
  EXPECT_GT(copies, 0);
  EXPECT_GT(clicked, 1);
}

// What both results of a call read, its parameters, makes neither a part of the other; a copy in another kernel is of the decisions there.
TEST_F(Choices, ResultsThatReadTheSameAreToldApart) {
  openChecked(
      "# %%\nlet N = 64, D = 32\ninput X[N, D] = normal(0, 1)\nparam W[D] = uniform(0.5, 1)\n"
      "def two(x[n, d], w[d]) -> a, b {\n  a[i, j] = exp(x[i, j] * w[j])\n  b[i, j] = cos(x[i, j]) + w[j] }\n"
      "def outer(x[n, d], w[d]) -> r {\n  u, v = two(x, w)\n  r[i, j] = u[i, j] + 2 * v[i, j] }\n"
      "# %%\nP, Q = two(X, W)\nR = outer(P, W)\nshow P, Q, R\n"
      "# %%\nloss L = mean[i, j] (P[i, j] - Q[i, j] * R[i, j])^2\n# %%\ntrain L { steps = 3 }\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->plan() && knowsKernels(); }));
  const GraphPage graph = window->explain()->graph()->graph();
  const auto subgraphs = window->workspace().subgraphs().subgraphs;
  const auto madeBy = [](const std::string& id, const std::string& tensor) { return id == tensor || id.starts_with(tensor + "#"); };
  const std::vector<std::pair<std::string, std::string>> siblings{{"P", "Q"}, {"Q", "P"}, {"R.u", "R.v"}, {"R.v", "R.u"}};
  KernelView* kernel = window->tune()->kernel();
  int dark = 0, own = 0, shown = 0;
  for (const auto& [result, other] : siblings) {
    SCOPED_TRACE(result);
    window->showPage(MainWindow::Page::Author);
    Q_EMIT window->outline()->tensorChosen(QString::fromStdString(result));
    ASSERT_TRUE(wait([&] {
      const auto* lead = window->inspector()->findChild<QToolButton*>(QStringLiteral("node:") + QString::fromStdString(result));
      return window->inspector()->tensor().toStdString() == result && lead && lead->isVisible();
    }));
    for (const GraphNode& node : graph.nodes) {
      const auto* lead = window->inspector()->findChild<QToolButton*>(QStringLiteral("node:") + QString::fromStdString(node.id));
      if (madeBy(node.id, other)) { EXPECT_FALSE(lead && lead->isVisible()) << node.id; }
    }
    ASSERT_TRUE(wait([&] { return cell(1)->formulaView() && cell(1)->formulaView()->formulas().size() > 2; }));
    const FormulaView* formulas = cell(1)->formulaView();
    for (std::size_t f = 0; f < formulas->formulas().size(); ++f) {
      const auto& formula = formulas->formulas()[f];
      const int tinted = tintedParts(*formulas, f);
      if (formula.name == other) { EXPECT_EQ(tinted, 0) << formula.name; }
      if (formula.name == result) {
        EXPECT_GT(tinted, 0) << formula.name;
        ++shown;
      }
    }
    window->showPage(MainWindow::Page::Tune);
    for (const auto& subgraph : subgraphs) {
      ASSERT_TRUE(showKernel(subgraph.id));
      const auto* expression = kernel->findChild<QPlainTextEdit*>();
      const std::set<int> lit = litExpressions(*kernel);
      for (QTextBlock block = expression->document()->begin(); block.isValid(); block = block.next()) {
        const std::string name =
            block.text().section(QLatin1Char('['), 0, 0).remove(QLatin1Char('`')).section(QLatin1Char(' '), -1).toStdString();
        if (madeBy(name, other)) {
          ++dark;
          EXPECT_FALSE(lit.contains(block.blockNumber())) << block.text().toStdString();
        }
        if (madeBy(name, result)) {
          ++own;
          EXPECT_TRUE(lit.contains(block.blockNumber())) << block.text().toStdString();
        }
      }
    }
  }
  EXPECT_EQ(shown, 2) << "P and Q are in the cell";
  EXPECT_GT(dark, 3);
  EXPECT_GT(own, 3);
  window->showPage(MainWindow::Page::Explain);
  const auto& decisions = window->explain()->fusion()->report().decisions;
  int copies = 0;
  for (const GraphNode& node : graph.nodes) {
    if (!node.id.starts_with("Q#")) continue;
    const auto group =
        std::ranges::find_if(graph.groups, [&](const auto& g) { return std::ranges::find(g.nodes, node.id) != g.nodes.end(); });
    ASSERT_NE(group, graph.groups.end());
    window->explain()->graph()->choose(QString::fromStdString(node.id), true);
    QCoreApplication::processEvents();
    std::vector<int> expected;
    for (std::size_t d = 0; d < decisions.size(); ++d) {
      const auto stands = [&](const std::string& tensor) {
        return std::ranges::any_of(group->nodes, [&](const std::string& id) { return madeBy(id, tensor); });
      };
      if ((decisions[d].producer == "Q" && stands(decisions[d].consumer)) ||
          (decisions[d].consumer == "Q" && stands(decisions[d].producer)))
        expected.push_back(static_cast<int>(d));
    }
    EXPECT_FALSE(expected.empty()) << node.id;
    EXPECT_EQ(window->explain()->relatedDecisions(), expected) << node.id;
    ++copies;
  }
  EXPECT_GT(copies, 0);
}

// A statement of a function that a gradient has nothing of lights up nothing in its formula, in whichever cell; nor does a kernel that has it
// of another call belong to a result that no kernel of the step computes.
TEST_F(Choices, WhatTheOtherCallMakesIsNotOfThisOne) {
  openChecked(
      "# %%\nlet N = 8\ninput X[N, N] = normal(0, 1)\nparam W[N, N] = normal(0, 0.3)\nparam V[N, N] = normal(0, 0.3)\n"
      "def pair(x, w) -> S, Q {\n  M[i, j] = sum[k] x[i, k] * w[k, j]\n  S[i, j] = tanh(M[i, j])\n  Q[i, j] = M[i, j] * M[i, j] }\n"
      "def outer(x, w) -> R {\n  a, b = pair(x, w)\n  R[i, j] = a[i, j] + 0.5 * b[i, j] }\n"
      "# %%\nP1, P2 = pair(X, W)\nO = outer(X, V)\nshow P2\n"
      "# %%\nE1[i, j] = exp(P1[i, j] - O[i, j])\nloss L1 = mean[i, j] (P1[i, j] + E1[i, j] - 1)^2\n"
      "loss L2 = mean[i, j] (P2[i, j] - O[i, j])^2\nshow d(L1)/d(W)\n"
      "# %%\ntrain L1 { optimizer = sgd(lr=0.01); steps = 3 }\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->plan() && knowsKernels(); }));
  window->showPage(MainWindow::Page::Author);
  ASSERT_TRUE(wait([&] {
    return cell(1)->formulaView() && !cell(1)->formulaView()->formulas().empty() && cell(2)->formulaView() &&
           !cell(2)->formulaView()->formulas().empty();
  }));
  const auto tinted = [&](int of) {
    const FormulaView* view = cell(of)->formulaView();
    int count = 0;
    for (std::size_t f = 0; f < view->formulas().size(); ++f) count += tintedParts(*view, f);
    return count;
  };
  const std::string text = document().text();
  const auto& selection = window->workspace().selection();
  for (const char* place : {"Q[i, j] = M", "= M[i, j] * M", "* M[i, j] }"}) {
    SCOPED_TRACE(place);
    window->notebook()->scrollToByte(text.find(place), true);
    ASSERT_TRUE(wait([&] { return selection.body().size() == 1 && selection.isCalled("P2"); }));
    EXPECT_GT(tinted(1), 0) << "P2 is made there";
    EXPECT_EQ(tinted(2), 0) << "the gradient by W is of P1";
  }
  // A factor of the gradient that the call hands over is what stands there.
  FormulaView* gradient = cell(2)->formulaView();
  const auto& formula = gradient->formulas().back();
  const auto factor = std::ranges::find_if(formula.nodes, [&](const auto& n) {
    return n.kind == protocol::FormulaKind::Subscript && formula.nodes[n.children.front()].text == "X";
  });
  ASSERT_NE(factor, formula.nodes.end());
  const auto wanted = static_cast<std::uint32_t>(factor - formula.nodes.begin());
  std::optional<QPoint> at;
  for (int y = 0; y < gradient->height() && !at; y += 2)
    for (int x = 0; x < gradient->width() && !at; x += 2)
      if (const auto part = gradient->partAt(QPointF(x, y)); part && part->first + 1 == gradient->formulas().size() &&
                                                             (part->second == wanted || part->second == factor->children.front()))
        at = QPoint(x, y);
  ASSERT_TRUE(at);
  QTest::mouseClick(gradient, Qt::LeftButton, {}, *at);
  ASSERT_TRUE(wait([&] { return window->inspector()->tensor() == "X"; }));
  for (const auto& span : selection.selectedSpans())
    EXPECT_EQ(text.substr(span.begin, span.end - span.begin), "X") << "not the call";
  EXPECT_FALSE(selection.isCalled("P2"));
  // No kernel of the step is of P2, though one holds P1 of its call and `Q` of the other.
  Q_EMIT window->outline()->tensorChosen(QStringLiteral("P2"));
  ASSERT_TRUE(
      wait([&] { return window->inspector()->tensor() == "P2" && window->inspector()->findChild<QToolButton*>("node:P2"); }));
  for (const QToolButton* lead : window->inspector()->findChildren<QToolButton*>())
    if (lead->isVisible()) { EXPECT_FALSE(lead->objectName().startsWith("kernel:")) << lead->text().toStdString(); }
  EXPECT_GT(tinted(1), 0);
  EXPECT_EQ(tinted(2), 0);
  Q_EMIT window->outline()->tensorChosen(QStringLiteral("P1"));
  ASSERT_TRUE(wait([&] { return window->inspector()->tensor() == "P1"; }));
  EXPECT_TRUE(wait([&] {
    return std::ranges::any_of(window->inspector()->findChildren<QToolButton*>(), [](const QToolButton* lead) {
      return lead->isVisible() && lead->objectName().startsWith("kernel:");
    });
  }));
}

// The loop has the name of what it carries, and the places of all its statements: a line of its kernel is not the loop.
TEST_F(Choices, ALineOfALoopsKernelIsOneStatementOfIt) {
  openChecked(
      "# %%\nlet B = 6, H = 5, T = 4\ninput E[B, H] = normal(0, 1)\nparam A[H, H] = normal(0, 0.4)\n"
      "# %%\nh = E\nc = E\nfor t in 0..T {\n  g[b, o] = sigmoid(sum[q] h[b, q] * A[q, o])\n  c[b, o] = g[b, o] * c[b, o] + 0.1\n"
      "  h[b, o] = tanh(c[b, o]) * g[b, o]\n}\n"
      "# %%\nloss L = mean[b, o] (h[b, o] - c[b, o])^2\n# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 3 }\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->plan() && knowsKernels(); }));
  const std::string text = document().text();
  KernelView* kernel = window->tune()->kernel();
  int looked = 0, boxed = 0;
  for (const char* place : {"A[q, o]", "c[b, o] + 0.1", "sum[q]"}) {
    SCOPED_TRACE(place);
    window->showPage(MainWindow::Page::Author);
    window->notebook()->scrollToByte(text.find(place), true);
    ASSERT_TRUE(wait([&] { return !window->workspace().selection().empty(); }));
    std::set<std::string> statements;  // that light up
    for (const auto& subgraph : window->workspace().subgraphs().subgraphs) {
      if (subgraph.loop != "h" && subgraph.loop != "c") continue;
      ASSERT_TRUE(showKernel(subgraph.id));
      const auto* expression = kernel->findChild<QPlainTextEdit*>();
      for (const QTextEdit::ExtraSelection& s : expression->extraSelections())
        if (s.format.boolProperty(QTextFormat::FullWidthSelection)) {
          const QString line = expression->document()->findBlockByNumber(s.cursor.blockNumber()).text();
          EXPECT_FALSE(line.startsWith("h[b, o]")) << line.toStdString();
          statements.insert(line.left(line.indexOf('[')).toStdString());
        } else if (std::string_view(place).starts_with("c[") && s.format.background().style() != Qt::NoBrush) {
          EXPECT_EQ(s.cursor.selectedText(), "`c#1`[b, o]") << "what it reads, not what it makes";
          ++boxed;
        }
      ++looked;
    }
    EXPECT_TRUE(statements.contains(std::string_view(place).starts_with("c[") ? "c" : "g.sum"));
  }
  EXPECT_GT(looked, 0);
  EXPECT_GT(boxed, 0);
}

// The line of a kernel that makes something, and the line of its expression, are of that, whatever else calls of the same functions make.
TEST_F(Choices, ALineWithCallsIsOfWhatItMakes) {
  openChecked(
      "# %%\nlet N = 8, M = 6\ninput X[N, M] = normal(0, 1)\nparam V[M] = 0.3\ndef sq(x) = x * x\n"
      "def lin(A[N, K], s) -> Q {\n  Q[n, k] = A[n, k] * s + sq(A[n, k]) }\n"
      "# %%\nconst a[N, M] = 0.5\nfor t in 0..4 { a = tanh(a) + X }\n"
      "# %%\nconst b[N, M] = 0.5\nfor t in 0..4 { b = X - sq(b) }\n"
      "# %%\nconst c[N, M] = 0.5\nfor t in 0..4 { c = lin(c, 0.3) }\n"
      "# %%\nconst d[N, M] = 0.5\nfor t in 0..4 { d = sq(d) }\n"
      "# %%\nS[n] = sum[m] (sq(a[n, m]) + b[n, m] * V[m] + c[n, m] - d[n, m])\nT = sq(S)\n"
      "# %%\nloss L = mean[n] sq(T[n])\n# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 3 }\nhint split S, T\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->plan() && knowsKernels(); }));
  KernelView* kernel = window->tune()->kernel();
  auto* expression = kernel->findChild<QPlainTextEdit*>();
  const std::set<std::string> wanted{"a", "b", "c", "d", "T"};
  std::map<std::string, int> clicked;
  const auto isOf = [&](const std::string& made) {
    EXPECT_TRUE(wait([&] { return window->inspector()->tensor().toStdString() == made; }))
        << window->inspector()->tensor().toStdString();
    QTest::qWait(50);
    std::set<std::string> strangers = wanted;
    strangers.erase(made);
    strangers.insert({"S", "X", "L"});
    for (const QToolButton* lead : window->inspector()->findChildren<QToolButton*>())
      if (!lead->isHidden() && lead->objectName().startsWith("node:")) {
        EXPECT_FALSE(strangers.contains(lead->objectName().mid(5).toStdString())) << lead->objectName().toStdString();
      }
    ++clicked[made];
  };
  const auto subgraphs = window->workspace().subgraphs().subgraphs;
  for (const auto& subgraph : subgraphs) {
    SCOPED_TRACE(subgraph.name + " of " + subgraph.loop);
    ASSERT_TRUE(showKernel(subgraph.id));
    if (!subgraph.loop.empty() && !wanted.contains(subgraph.loop)) continue;
    const QStringList lines = kernel->text().split(QLatin1Char('\n'));
    for (qsizetype i = 0; i < lines.size(); ++i) {
      const std::string made = lines[i].trimmed().section(QLatin1Char('['), 0, 0).toStdString();
      if (!wanted.contains(made) || !lines[i].contains("] = ")) continue;
      SCOPED_TRACE(subgraph.name + ": " + lines[i].toStdString());
      ASSERT_TRUE(showKernel(subgraph.id));
      kernel->chooseLine(static_cast<int>(i));
      isOf(made);
    }
    for (int block = 0; block < expression->document()->blockCount(); ++block) {
      const QTextBlock line = expression->document()->findBlockByNumber(block);
      const std::string made = line.text().section(QLatin1Char('['), 0, 0).toStdString();
      if (!wanted.contains(made)) continue;
      for (const bool atEnd : {false, true}) {
        SCOPED_TRACE(line.text().toStdString() + (atEnd ? ", at its end" : ", at its name"));
        ASSERT_TRUE(showKernel(subgraph.id));
        window->inspector()->setFocus();
        QTextCursor cursor(line);
        if (!atEnd) cursor.movePosition(QTextCursor::EndOfBlock);
        expression->setTextCursor(cursor);
        expression->setFocus();
        cursor.movePosition(atEnd ? QTextCursor::EndOfBlock : QTextCursor::StartOfBlock);
        expression->setTextCursor(cursor);
        isOf(made);
      }
    }
  }
  for (const std::string& made : wanted) EXPECT_GE(clicked[made], 2) << made;
}

// It is the person's own, and computed nowhere.
TEST_F(Choices, ALoopThatNothingReadsSaysSoInTheGraph) {
  openChecked("# %%\ninput X[8] = normal(0, 1)\nconst a[8] = 0.5\nfor t in 0..4 { a = tanh(a) + X }\nE[i] = X[i] * 2\nshow E\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->plan() != nullptr; }));
  window->explain()->wantStage(QStringLiteral("source"));
  GraphView* graph = window->explain()->graph();
  ASSERT_TRUE(wait([&] { return graph->graph().stage == "source"; }));
  ASSERT_TRUE(std::ranges::any_of(graph->graph().nodes, [](const GraphNode& n) { return n.id == "a"; }));
  graph->choose(QStringLiteral("a"), false);
  EXPECT_TRUE(window->inspector()->instead().startsWith("a is carried from step to step, and nothing reads it"))
      << window->inspector()->instead().toStdString();
}

// A mistake keeps operators out of the program: what is chosen leads where it led, as far as that is still there, and nowhere else.
TEST_F(Choices, AMistakeBringsNoStrangeLinks) {
  openChecked(
      "# %%\nlet B = 6, M = 5\ninput X[B, M] = normal(0, 1)\nparam W[M, M] = normal(0, 0.5)\nparam U[M, M] = normal(0, 0.3)\n"
      "const h[B, M] = 0.3\n"
      "# %%\nA[b, j] = sum[i] X[b, i] * W[i, j]\nfor t in 0..4 { h[b, j] = tanh(A[b, j] + sum[k] h[b, k] * U[k, j]) }\n"
      "# %%\nS[b, j] = exp(h[b, j] - max[l] h[b, l]) / sum[m] exp(h[b, m] - max[l] h[b, l])\nZ[b, j] = relu(S[b, j] * 2 - 0.1)\n"
      "# %%\nZ2[b, j] = relu(S[b, j] * 2 - 0.1)\n"
      "# %%\nloss La = mean[b, j] (Z[b, j] + Z2[b, j] - 1)^2\nloss Lb = mean[b, j] tanh(A[b, j])\n"
      "# %%\ntrain La { optimizer = sgd(lr=0.1); steps = 3 }\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->plan() && knowsKernels(); }));
  const auto links = [&] {
    std::set<std::string> out;
    for (const QToolButton* lead : window->inspector()->findChildren<QToolButton*>())
      if (!lead->isHidden() && lead->objectName().contains(QLatin1Char(':'))) out.insert(lead->objectName().toStdString());
    return out;
  };
  const auto choose = [&] {
    window->showPage(MainWindow::Page::Author);
    window->notebook()->scrollToByte(document().text().find("h[b, k]"), true);
    EXPECT_TRUE(wait([&] { return links().contains("node:h"); }));
  };
  choose();
  const std::set<std::string> before = links();
  std::set<std::string> ofLoop;
  for (const auto& s : window->workspace().subgraphs().subgraphs)
    if (s.loop == "h") ofLoop.insert("kernel:" + s.id);
  ASSERT_FALSE(ofLoop.empty());
  const auto held = [&] {
    ASSERT_TRUE(wait([&] { return links().contains("node:h"); }));
    const std::set<std::string> now = links();
    for (const std::string& link : now) EXPECT_TRUE(before.contains(link)) << link;
    EXPECT_TRUE(std::ranges::any_of(ofLoop, [&](const auto& kernel) { return now.contains(kernel); }));
  };
  const auto edit = [&](const std::string& what, const std::string& with) {
    ASSERT_NO_FATAL_FAILURE(replace(what, with));
    held();
    QTest::qWait(1000);  // they are asked for when somebody has stopped typing
    ASSERT_TRUE(wait([&] { return window->workspace().idle(); }));
    held();
  };
  edit("Z[b, j] = relu", "Z[b, j] = rel2");
  edit("Z2[b, j] = relu", "Z2[b, j] = rel2");
  choose();
  held();
  edit("let B", "let C = 1, B");
  choose();
  held();
}

// What is computed again in another kernel is in that one, too.
TEST_F(Choices, RowsOfTuneHoldWhatComputesTheChosenTensorAgain) {
  openChecked(kCalledTwice);
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->plan() && knowsKernels(); }));
  Q_EMIT window->outline()->tensorChosen(QStringLiteral("Q1"));
  window->showPage(MainWindow::Page::Tune);
  for (const auto& s : window->workspace().subgraphs().subgraphs) {
    const bool again = std::ranges::any_of(s.operators, [](const std::string& op) { return op.starts_with("Q1#"); });
    const bool own = std::ranges::find(s.operators, "Q1") != s.operators.end();
    EXPECT_TRUE(wait([&] { return window->tune()->holdsSelected(s.id) == (again || own); })) << s.name;
  }
}

// A page that was as high as the one before it is laid out at its own height.
TEST_F(Choices, ValuesStandWhereTheyAreAfterAHigherPageOfTheResult) {
  openChecked(std::string(kCalledTwice) + "# %%\nshow d(L)/d(W), Z, E, P1\n");
  const auto* values = [&]() -> TensorView* {
    run(5);
    return wait([&] { return cell(5)->tensorView() && cell(5)->tensorView()->model()->rowCount() > 0; }) ? cell(5)->tensorView()
                                                                                                         : nullptr;
  }();
  ASSERT_TRUE(values);
  for (const int before : {0, 2, 0, 1}) {
    SCOPED_TRACE(before);
    cell(5)->showResult(before);
    QTest::qWait(100);  // its height is known in several rounds
    cell(5)->showResult(3);
    const auto whole = [&] {
      const auto parts = values->findChildren<QWidget*>(Qt::FindDirectChildrenOnly);
      return std::ranges::all_of(parts,
                                 [&](const QWidget* w) { return !w->isVisible() || values->rect().contains(w->geometry()); });
    };
    EXPECT_TRUE(wait(whole));
  }
}

}  // namespace
}  // namespace nf
