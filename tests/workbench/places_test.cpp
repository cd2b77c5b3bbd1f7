// SPDX-License-Identifier: GPL-3.0-or-later
// What a token of the text and a part of a formula stand for: the tensor that the inspector shows.
#include <QLabel>
#include <QToolButton>

#include "tests/workbench/selected.h"
#include "widgets/expression_editor.h"
#include "widgets/formula_view.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/tensor_view.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

struct Placed : Selected {
  // The first place of a formula whose innermost part is such a one.
  template <class Is>
  std::optional<QPoint> partOf(const FormulaView* view, std::size_t formula, Is is) {
    const auto& nodes = view->formulas()[formula].nodes;
    for (int y = 0; y < view->height(); y += 2)
      for (int x = 0; x < view->width(); x += 2)
        if (const auto part = view->partAt(QPointF(x, y)); part && part->first == formula && is(part->second, nodes))
          return QPoint(x, y);
    return std::nullopt;
  }
  std::set<std::string> tinted() {
    std::set<std::string> out;
    for (const auto& s : selection().selectedSpans()) out.insert(document().text().substr(s.begin, s.end - s.begin));
    return out;
  }
  // The page is visited, that the graph of the plan is there.
  void awaitPlan() {
    window->showPage(MainWindow::Page::Explain);
    const GraphView* graph = window->explain()->graph();
    ASSERT_TRUE(wait([&] { return graph->graph().stage == "fused" && !graph->graph().nodes.empty(); }));
    window->showPage(MainWindow::Page::Tune);
    ASSERT_TRUE(wait([&] { return !window->workspace().subgraphs().subgraphs.empty(); }));
    window->showPage(MainWindow::Page::Author);
  }
  std::set<std::string> marked() {
    std::set<std::string> ids;
    const GraphView* graph = window->explain()->graph();
    for (std::size_t i = 0; i < graph->graph().nodes.size(); ++i)
      if (graph->isChosen(i)) ids.insert(graph->graph().nodes[i].id);
    return ids;
  }
  std::set<std::string> inOutline() {
    std::set<std::string> out;
    auto* tree = window->outline()->findChild<QTreeWidget*>();
    for (QTreeWidgetItemIterator it(tree, QTreeWidgetItemIterator::Selected); *it; ++it)
      if ((*it)->parent() && (*it)->parent()->text(0) == "Tensors") out.insert((*it)->text(0).toStdString());
    return out;
  }
  // Where `context` begins in a cell, `at` bytes on; the inspector's tensor.
  QString caret(std::size_t index, const char* context, std::size_t at = 0) {
    window->notebook()->activate(cell(index)->id(), true);
    ExpressionEditor* editor = cell(index)->editor();
    const std::size_t found = editor->bytes().find(context);
    EXPECT_NE(found, std::string::npos) << context;
    editor->moveCaretTo(found + at);
    return window->inspector()->tensor();
  }
};

// Each line of a net is a call: its result, its arguments and its word select what they name.
TEST_F(Placed, WhatAFunctionMakesIsSelectedByItsName) {
  const std::string text =
      "# %%\ninput X[4, 3] = normal(0, 1)\nZ = linear(X, 2)\nY = linear(Z, 2)\nloss L = mean[n, o] Y[n, o]^2\n";
  openWith(text);
  window->notebook()->activate(cell(0)->id(), true);
  ExpressionEditor* editor = cell(0)->editor();
  const auto click = [&](const char* context, std::size_t at) {
    clickInOutline("X");
    window->notebook()->activate(cell(0)->id(), true);
    editor->moveCaretTo(editor->bytes().find(context) + at);
    std::set<std::string> tinted;
    for (const auto& s : selection().selectedSpans()) tinted.insert(text.substr(s.begin, s.end - s.begin));
    return tinted;
  };
  EXPECT_TRUE(click("Z = linear", 0).contains("Z"));
  EXPECT_EQ(window->inspector()->tensor(), "Z");
  EXPECT_TRUE(wait([&] { return window->explain()->graph()->graph().revision == document().revision(); }));
  EXPECT_TRUE(selection().isCalled("Z") || selection().reads() == "Z");
  EXPECT_EQ(click("linear(Z", 7), std::set<std::string>{"Z"});
  EXPECT_EQ(window->inspector()->tensor(), "Z");
  EXPECT_TRUE(selection().isCalled("Z") || selection().reads() == "Z");
  EXPECT_EQ(click("linear(Z", 2), std::set<std::string>{"linear"});
  EXPECT_EQ(window->inspector()->tensor(), "Y");
  EXPECT_TRUE(click("= linear(Z", 0).contains("Y = linear(Z, 2)"));
  EXPECT_EQ(window->inspector()->tensor(), "Y");
  EXPECT_TRUE(click("Y = linear", 0).contains("Y"));
  EXPECT_EQ(window->inspector()->tensor(), "Y");
}

TEST_F(Placed, InALoopEveryTokenLeadsToATensorOrSaysWhyNot) {
  openWith(
      "# %%\ninput X[4, 5, 2] = normal(0, 1)\nparam U[3, 2] = normal(0, 1)\nparam V[3, 3] = normal(0, 0.1)\nh[n: 4, i: 3] = "
      "0\ng[n: 4] = 0\n"
      "for s in 0..5 {\n  z[n, i] = sum[k] U[i, k]*X[n, s, k]\n  h[n, i] = tanh(z[n, i] + sum[j] V[i, j]*h[n, j])\n  g[n] = g[n] + "
      "z[n, 0]\n}\n"
      "loss L = mean[n, i] h[n, i]^2\n");
  window->notebook()->activate(cell(0)->id(), true);
  ExpressionEditor* editor = cell(0)->editor();
  const auto inspected = [&](const char* context, std::size_t at) {
    clickInOutline("X");
    window->notebook()->activate(cell(0)->id(), true);
    editor->moveCaretTo(editor->bytes().find(context) + at);
    return window->inspector()->tensor();
  };
  EXPECT_EQ(inspected("V[i, j]", 0), "V");
  EXPECT_EQ(inspected("U[i, k]", 0), "U");
  const QString last = inspected("h[n, i]^2", 0);
  EXPECT_EQ(last, "h");
  EXPECT_EQ(inspected("h[n, j]", 0), last);
  EXPECT_EQ(inspected("h[n, i] = tanh", 0), last);
  EXPECT_EQ(inspected("tanh(", 1), last);
  EXPECT_EQ(inspected("sum[j]", 1), last);
  EXPECT_EQ(inspected("h[n: 4", 0), "h#1");
  EXPECT_EQ(inspected("z[n, i] + sum", 0), QString());
  EXPECT_TRUE(window->inspector()->instead().startsWith("z is made anew in every step"))
      << window->inspector()->instead().toStdString();
  EXPECT_EQ(inspected("g[n] = g", 0), QString()) << "not what the loop begins with";
  EXPECT_TRUE(window->inspector()->instead().startsWith("g is carried from step to step, and nothing reads it"))
      << window->inspector()->instead().toStdString();
  EXPECT_EQ(inspected("g[n] + z", 0), QString()) << "nor there";
  EXPECT_TRUE(window->inspector()->instead().startsWith("g is carried from step to step, and nothing reads it"))
      << window->inspector()->instead().toStdString();
  EXPECT_EQ(inspected("V[i, j]", 0), "V");
  EXPECT_TRUE(window->inspector()->instead().isEmpty());
}

// Its left side, its sign of equality and its sum are the operator that a formula writes out, not what the operator reads.
TEST_F(Placed, AFormulaStandsForItsOperator) {
  using protocol::FormulaKind;
  openWith(example("welcome.nf"));
  using Line = std::pair<FormulaView*, std::size_t>;
  const auto line = [&](const std::string& name) -> Line {
    for (const CellView* v : window->notebook()->cells())
      if (FormulaView* view = v->formulaView())
        for (std::size_t i = 0; i < view->formulas().size(); ++i)
          if (view->formulas()[i].name == name) return {view, i};
    return {};
  };
  ASSERT_TRUE(wait([&] { return line("Y").first && line("d(L)/d(W)").first; }));
  const auto click = [&](const Line& of, auto is) {
    const auto at = partOf(of.first, of.second, is);
    ASSERT_TRUE(at);
    QTest::mouseClick(of.first, Qt::LeftButton, {}, *at);
  };
  const Line statement = line("Y"), gradient = line("d(L)/d(W)");
  for (const auto& [of, tensor, row] : {std::tuple{statement, "Y", "Y"}, std::tuple{gradient, "d(L)/d(W)", "dL/dW"}}) {
    const std::uint32_t left = of.first->formulas()[of.second].nodes.back().children.front();
    for (const auto kind : {FormulaKind::Reduce, FormulaKind::Equation}) {
      SCOPED_TRACE(std::string(tensor) + " " + std::to_string(static_cast<int>(kind)));
      clickInOutline("A");
      click(of, [&](std::uint32_t i, const auto& nodes) { return nodes[i].kind == kind; });
      EXPECT_EQ(window->inspector()->tensor(), tensor);
      EXPECT_EQ(inOutline(), std::set<std::string>{row});
    }
    clickInOutline("A");
    click(of, [&](std::uint32_t i, const auto&) { return i == left; });
    EXPECT_EQ(window->inspector()->tensor(), tensor);
    EXPECT_EQ(inOutline(), std::set<std::string>{row});
  }
  // A factor is what it reads, be it a derivative that no cell asks for.
  clickInOutline("W");
  click(statement, [](std::uint32_t i, const auto& nodes) {
    return nodes[i].kind == FormulaKind::Subscript && nodes[nodes[i].children.front()].text == "A";
  });
  EXPECT_EQ(window->inspector()->tensor(), "A");
  click(gradient, [](std::uint32_t i, const auto& nodes) {
    return nodes[i].kind == FormulaKind::Partial && i != nodes.back().children.front();
  });
  EXPECT_EQ(window->inspector()->tensor(), "d(L)/d(Y)");
  EXPECT_TRUE(wait([&] { return !tinted().empty(); }));
  EXPECT_TRUE(wait([&] { return window->inspector()->values()->note().contains("show d(L)/d(Y)"); }))
      << window->inspector()->values()->note().toStdString();
}

TEST_F(Placed, ASignIsPartOfWhatItsStatementMakes) {
  openWith(
      "# %%\nlet N = 4\ninput A[N, N] = normal(0, 1)\nparam W[N, N] = normal(0, 1)\n\n"
      "# %%\nY[i, j] = tanh(sum[k] A[i, k] * W[k, j])\nZ[i, j] = Y[i, j] + A[i, j]\nloss L = sum[i, j] Z[i, j]^2\n");
  EXPECT_EQ(caret(1, "+ A"), "Z");
  EXPECT_EQ(inOutline(), std::set<std::string>{"Z"});
  EXPECT_EQ(caret(1, "W[k"), "W");
  EXPECT_EQ(caret(1, "^2"), "L");
  EXPECT_EQ(caret(1, "Y[i, j] +"), "Y");
  EXPECT_EQ(inOutline(), std::set<std::string>{"Y"});
}

// A function's places are what its calls make of them, all of the calls.
TEST_F(Placed, ThePlacesOfAFunctionAreWhatItsCallsMake) {
  openWith(
      "# %%\nlet N = 4\ninput X[N, N] = normal(0, 1)\ninput V[N, N] = normal(0, 1)\n\n"
      "# %%\ndef twice(x[N, M]) -> Y { Y[n, m] = 2 * x[n, m] }\ndef sq(a) = a * a\ndef idle(a) = a + 1\n\n"
      "# %%\nT = twice(X)\nU = twice(V)\n\n# %%\nS[n, m] = sq(X[n, m]) + T[n, m] * U[n, m]\nloss L = sum[n, m] S[n, m]^2\n");
  window->showPage(MainWindow::Page::Explain);
  GraphView* graph = window->explain()->graph();
  ASSERT_TRUE(wait([&] { return graph->graph().revision == document().revision() && !graph->graph().nodes.empty(); }));
  window->showPage(MainWindow::Page::Author);
  for (const auto& [place, at] : {std::pair{"2 * x", 0}, std::pair{"2 * x", 2}, std::pair{"twice(x", 1}, std::pair{"Y[n, m]", 0}}) {
    SCOPED_TRACE(std::string(place) + " " + std::to_string(at));
    clickInOutline("X");
    EXPECT_EQ(caret(1, place, static_cast<std::size_t>(at)), "U");
    EXPECT_EQ(selection().tensors(), (std::vector<std::string>{"T", "U"}));
    EXPECT_EQ(inOutline(), (std::set<std::string>{"T", "U"}));
    EXPECT_EQ(selection().selectedSpans().size(), 3u) << "the place itself and its calls";
    for (std::size_t i = 0; i < graph->graph().nodes.size(); ++i) {
      const std::string& id = graph->graph().nodes[i].id;
      EXPECT_EQ(graph->isOutlined(i), id == "T" || id == "U") << id;
    }
  }
  caret(1, "x[n, m] }");
  EXPECT_EQ(selection().tensors(), (std::vector<std::string>{"X", "V"}));
  EXPECT_EQ(caret(1, "a * a", 2), "S");
  EXPECT_EQ(caret(1, "sq(a"), "S");
  EXPECT_EQ(caret(1, "idle"), QString());
  EXPECT_TRUE(window->inspector()->instead().contains("calls idle")) << window->inspector()->instead().toStdString();
  // A call is its own alone.
  caret(2, "twice(V)");
  EXPECT_EQ(caret(2, "T = "), "T");
  EXPECT_EQ(selection().tensors(), std::vector<std::string>{"T"});
}

// An argument is the tensor that it reads, also where the call is all that the statement computes.
TEST_F(Placed, AnArgumentOfACallThatIsAWholeRightSideIsATensor) {
  openWith(
      "# %%\ninput X[4, 4] = normal(0, 1)\nparam W[4, 4] = normal(0, 0.5)\ndef one(x) = tanh(x) * 2\n\n"
      "# %%\nA[i,j] = one(W[i,j])\nD[i,j] = one(X[i,j]) + 1\nloss L = mean[i,j] A[i,j] * D[i,j]\nshow d(L)/d(W)\n");
  GraphView* graph = window->explain()->graph();
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return graph->graph().revision == document().revision() && !graph->graph().nodes.empty(); }));
  window->showPage(MainWindow::Page::Author);
  EXPECT_EQ(caret(1, "W[i,j])"), "W");
  EXPECT_EQ(caret(1, "X[i,j])"), "X");
  EXPECT_EQ(caret(1, "one(W"), "A");
  EXPECT_EQ(caret(1, "A[i,j] = "), "A");
  EXPECT_EQ(caret(0, "tanh"), "D");
  EXPECT_EQ(selection().tensors(), (std::vector<std::string>{"A", "D"}));
  // What is chosen by its name leads where its accesses do.
  clickInOutline("W");
  EXPECT_TRUE(wait([&] { return window->inspector()->findChild<QToolButton*>("node:A") != nullptr; }));
}

// The first click into the text of a window that is not active yet selects as any other.
TEST_F(Placed, AClickIntoAWindowThatIsNotActiveSelects) {
  openWith("# %%\ninput X[4] = normal(0, 1)\nA[i] = X[i] * 2\nB[i] = A[i] + 1\n");
  QWidget other;
  other.show();
  other.activateWindow();
  ASSERT_TRUE(QTest::qWaitForWindowActive(&other));
  ExpressionEditor* editor = cell(0)->editor();
  const QPoint place = editor->rectOf(editor->bytes().find("B[i]") + 1).center() - editor->viewport()->pos();
  QTest::mouseClick(editor->viewport(), Qt::LeftButton, Qt::NoModifier, place);
  EXPECT_TRUE(wait([&] { return selection().tensors() == std::vector<std::string>{"B"}; }));
}

// From the upper edge of the box to the lower one a click is for the nearest line, also where the caret stands already.
TEST_F(Placed, AClickOnTheBoxAroundATextSelectsWhatIsNearest) {
  openWith(
      "# %%\ninput X[4] = normal(0, 1)\n\n# %%\nA[i] = X[i] * 2\n\n# %%\nB[i] = A[i] + 1\nC[i] = B[i] * A[i]\n\n"
      "# %%\nloss L = sum[i] C[i]\n");
  const auto clickAt = [](CellView* at, int x, int y) {
    ExpressionEditor* editor = at->editor();
    const QPoint place(x, y);
    if (editor->viewport()->geometry().contains(place))
      return QTest::mouseClick(editor->viewport(), Qt::LeftButton, {}, place - editor->viewport()->pos());
    QTest::mouseClick(at, Qt::LeftButton, {}, editor->mapTo(at, place));
  };
  for (const auto& [number, first, last] : {std::tuple{1, "A", "A"}, std::tuple{2, "B", "C"}}) {
    CellView* at = cell(number);
    ExpressionEditor* editor = at->editor();
    const int x = editor->rectOf(0).center().x() + 2, middle = editor->height() / 2;
    for (const bool there : {false, true})
      for (int y = 1; y < editor->height() - 1; ++y) {
        if (std::abs(y - middle) < 3 && first != last) continue;  // between two lines
        SCOPED_TRACE(std::to_string(number) + ", " + std::to_string(y) + " of " + std::to_string(editor->height()));
        const std::string want = y < middle ? first : last;
        editor->moveCaretTo(there ? editor->bytes().find(want + "[i] =") : editor->bytes().size());
        clickInOutline("L");
        ASSERT_EQ(selection().tensors(), std::vector<std::string>{"L"});
        clickAt(at, x, y);
        ASSERT_EQ(selection().tensors(), std::vector<std::string>{want});
      }
  }
}

// A word, an index or a left side in the body of a function is part of what its calls make.
TEST_F(Placed, EveryPlaceInAFunctionIsPartOfWhatItsCallsMake) {
  openWith(
      "# %%\nlet N = 4\ninput X[N, N] = normal(0, 1)\ninput V[N, N] = normal(0, 1)\n\n"
      "# %%\ndef lin(x[n, m], w[m, o]) -> y {\n  y[i, j] = sum[k] x[i, k] * w[k, j]\n}\n\n"
      "# %%\nS = lin(X, V)\nT = lin(S, V)\nshow T\n");
  for (const auto& [place, at] : {std::pair{"sum[k]", 1}, std::pair{"sum[k]", 4}, std::pair{"y[i, j]", 5}, std::pair{"* w", 0}}) {
    SCOPED_TRACE(std::string(place) + " " + std::to_string(at));
    clickInOutline("X");
    EXPECT_EQ(caret(1, place, static_cast<std::size_t>(at)), "T");
    EXPECT_EQ(selection().tensors(), (std::vector<std::string>{"S", "T"}));
  }
}

// Of a call of several results in a function the statement is part of what all of them are, as it is in a cell.
TEST_F(Placed, AStatementOfSeveralResultsInAFunctionIsAllThatItMakes) {
  openWith(
      "# %%\nlet N = 5, M = 4, K = 3\ninput X[N, M] = normal(0, 1)\nparam W[M, K] = normal(0, 1)\n"
      "def two(a[N, M], w[M, K]) -> u, s {\n  u[i, k] = tanh(sum[m] a[i, m] * w[m, k])\n  s[i] = sum[k] u[i, k]^2 }\n"
      "def nest(a[N, M], w[M, K]) -> r {\n  u, s = two(a, w)\n  r[i, k] = u[i, k] / (1 + s[i]) }\n"
      "# %%\nR = nest(X, W)\nQ[i, k] = R[i, k] * 2\nloss L = mean[i, k] (Q[i, k] - 1)^2\n"
      "# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 3 }\n");
  awaitPlan();
  clickInOutline("Q");
  caret(0, "= two(a, w)", 0);
  EXPECT_TRUE(selection().isCalled("R.u") && selection().isCalled("R.s")) << testing::PrintToString(selection().tensors());
  EXPECT_FALSE(selection().isCalled("Q"));
  EXPECT_TRUE(wait([&] { return marked().contains("R.u") && marked().contains("R.s"); })) << testing::PrintToString(marked());
  EXPECT_FALSE(marked().contains("Q"));
  EXPECT_FALSE(marked().contains("L"));
}

// One node computes both: each gradient leads to it and has the places of its own statement alone.
TEST_F(Placed, OfTwoEqualGradientsEachLeadsToWhatComputesThem) {
  for (const std::string shown : {"", "show d(L)/d(W), d(L)/d(V)\n"}) {
    const std::string text =
        "# %%\ninput X[40, 40] = normal(0, 1)\nparam W[40, 40] = normal(0, 0.1)\nparam V[40, 40] = normal(0, 0.1)\n"
        "P[i, j] = sum[k] X[i, k] * W[k, j]\n# %%\nQ[i, j] = sum[k] X[i, k] * V[k, j]\n"
        "loss L = mean[i, j] (P[i, j] + Q[i, j] - 1)^2\n" +
        shown + "# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 20 }\n";
    openWith(text);
    window->showPage(MainWindow::Page::Explain);
    const auto merged = [&]() -> const protocol::GraphNode* {
      for (const auto& node : window->explain()->graph()->graph().nodes)
        if (node.merged.size() == 2 && node.merged[0].name.starts_with("d(L)/d(W)")) return &node;
      return nullptr;
    };
    ASSERT_TRUE(wait([&] { return merged() != nullptr; }));
    const std::string node = merged()->id, other = node == "d(L)/d(W)" ? "d(L)/d(V)" : "d(L)/d(W)";
    EXPECT_EQ(merged()->merged[1].name, other);
    window->showPage(MainWindow::Page::Author);
    const auto leadsTo = [&](const std::string& target) {
      return wait([&] {
        const auto* lead = window->inspector()->findChild<QToolButton*>(QString::fromStdString(target));
        return lead && lead->isVisible();
      });
    };
    const auto words = [&] {
      std::set<std::string> all;
      for (const auto& span : selection().selectedSpans()) all.insert(text.substr(span.begin, span.end - span.begin));
      return all;
    };
    for (const std::string& gradient : {node, other}) {
      SCOPED_TRACE(gradient);
      Q_EMIT window->outline()->tensorChosen(QString::fromStdString(gradient));
      EXPECT_TRUE(leadsTo("node:" + node));
      EXPECT_TRUE(selection().isCalled(node) && selection().isCalled(gradient));
      const auto kernels = window->workspace().subgraphs().subgraphs;
      const auto kernel = std::ranges::find_if(kernels, [&](const auto& s) { return std::ranges::count(s.operators, node) > 0; });
      ASSERT_NE(kernel, kernels.end());
      EXPECT_TRUE(leadsTo("kernel:" + kernel->id));
      EXPECT_TRUE(wait([&] { return window->tune()->current() == kernel->id; }));
      const bool ofW = gradient == "d(L)/d(W)";
      EXPECT_TRUE(wait([&] { return words().contains(ofW ? "W[k, j]" : "V[k, j]"); })) << testing::PrintToString(words());
      EXPECT_FALSE(words().contains(ofW ? "V[k, j]" : "W[k, j]")) << testing::PrintToString(words());
    }
    // And back: the place of an access leads to its gradient.
    for (const bool ofW : {true, false}) {
      const std::string access = ofW ? "W[k, j]" : "V[k, j]";
      window->notebook()->scrollToByte(text.find(access) + 1, true);
      EXPECT_TRUE(leadsTo(ofW ? "tensor:d(L)/d(W)" : "tensor:d(L)/d(V)")) << access;
      EXPECT_TRUE(leadsTo("node:" + node)) << access;
      EXPECT_FALSE(window->inspector()->findChild<QToolButton*>(ofW ? "tensor:d(L)/d(V)" : "tensor:d(L)/d(W)")) << access;
      // What becomes of the parameter belongs to it in the graph, too.
      const auto belonging = [&] {
        std::set<std::string> ids;
        const auto& nodes = window->explain()->graph()->graph().nodes;
        for (std::size_t i = 0; i < nodes.size(); ++i)
          if (window->explain()->graph()->belongs(i)) ids.insert(nodes[i].id);
        return ids;
      };
      EXPECT_TRUE(wait([&] { return belonging().contains(ofW ? "W.next" : "V.next"); })) << testing::PrintToString(belonging());
      EXPECT_FALSE(belonging().contains(ofW ? "V.next" : "W.next"));
    }
  }
}

// A sign of the second of two equal statements is part of the decisions about the node that computes both, as one of the first is.
TEST_F(Placed, ThePartsOfAnEqualStatementHaveItsDecisions) {
  openWith(
      "# %%\ninput X[40, 30] = normal(0, 1)\nparam W[30, 20] = normal(0, 0.1)\nP[n, j] = sum[k] X[n, k] * W[k, j]\n"
      "# %%\nR[n, j] = sum[k] X[n, k] * W[k, j]\nS[n, j] = tanh(P[n, j]) + R[n, j]\nloss L = mean[n, j] S[n, j]^2\n\n"
      "# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 20 }\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->table()->model()->rowCount() > 0; }));
  std::vector<int> rows[2];
  for (const std::size_t cell : {0u, 1u}) {
    window->showPage(MainWindow::Page::Author);
    caret(cell, "* W", 0);
    window->showPage(MainWindow::Page::Explain);
    wait([&] { return !window->explain()->relatedDecisions().empty(); });
    rows[cell] = window->explain()->relatedDecisions();
  }
  EXPECT_FALSE(rows[0].empty());
  EXPECT_EQ(rows[1], rows[0]);
}

// All that it updates and keeps, in every view; the inspector has the last of it and leads to all of it.
TEST_F(Placed, AnOptimizerIsWhatItUpdates) {
  for (const std::string optimizer : {"adam", "sgd"}) {
    openWith(
        "# %%\ninput X[4, 3] = normal(0, 1)\nparam V[5, 3] = normal(0, 1)\nparam W[2, 5] = normal(0, 1)\n"
        "Z[n, k] = sum[c] X[n, c] * V[k, c]\nY[n, o] = sum[k] tanh(Z[n, k]) * W[o, k]\nloss L = mean[n, o] Y[n, o]^2\n\n"
        "# %%\ntrain L { steps = 10; optimizer = " +
        optimizer + "(lr=1e-3) }\n");
    window->showPage(MainWindow::Page::Explain);
    ASSERT_TRUE(wait([&] { return !window->explain()->graph()->graph().nodes.empty(); }));
    window->showPage(MainWindow::Page::Author);
    EXPECT_EQ(caret(1, optimizer.c_str(), 1), "W.next") << optimizer;
    const auto outline = inOutline();
    for (const char* name : {"V.next", "W.next"}) EXPECT_TRUE(outline.contains(name)) << optimizer << " " << name;
    for (const char* name : {"L.step.next", "V.adam.M", "W.adam.V"}) EXPECT_EQ(outline.contains(name), optimizer == "adam") << name;
    std::set<std::string> nodes;
    const auto& graph = window->explain()->graph()->graph();
    for (const auto& node : graph.nodes)
      if (selection().relation(node.origins) == Selection::Relation::Exact) nodes.insert(node.id);
    EXPECT_TRUE(nodes.contains("V.next") && nodes.contains("W.next")) << optimizer;
    EXPECT_FALSE(nodes.contains("Z"));
    const auto leads = [&] {
      const auto all = window->inspector()->findChildren<QToolButton*>();
      return std::ranges::any_of(all, [](const QToolButton* b) { return b->isVisible() && b->objectName().startsWith("node:V."); });
    };
    EXPECT_TRUE(wait(leads)) << optimizer << ": it leads to the other parameter's update, too";
    for (const std::string& node : nodes) {
      const QString lead = "node:" + QString::fromStdString(node);
      EXPECT_TRUE(!selection().isCalled(node) || window->inspector()->findChild<QToolButton*>(lead)) << optimizer << " " << node;
    }
  }
}

// The operators that read what the access reads, and what was derived from it: no others whose statement it stands in.
TEST_F(Placed, AnAccessLeadsToTheOperatorsThatHoldIt) {
  openWith(
      "# %%\ninput X[8, 6] = normal(0, 1)\ninput y[8] : i32 = 3\nparam F[5, 6] = normal(0, 1)\nparam b[5] = normal(0, 1)\n"
      "A[n, k] = relu(b[k] + sum[r] X[n, r] * F[k, r])\nloss L = cross_entropy(A, y)\n\n"
      "# %%\ntrain L { steps = 10; optimizer = sgd(lr=1e-3) }\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return !window->explain()->graph()->graph().nodes.empty(); }));
  const auto led = [&] {
    std::set<std::string> ids;
    for (const QToolButton* b : window->inspector()->findChildren<QToolButton*>())
      if (b->isVisible() && b->objectName().startsWith("node:")) ids.insert(b->objectName().mid(5).toStdString());
    return ids;
  };
  window->showPage(MainWindow::Page::Author);
  EXPECT_EQ(caret(0, "X[n, r]", 0), "X");
  const std::set<std::string> ofX{"X", "A.sum", "d(L)/d(F)"};
  EXPECT_TRUE(wait([&] { return led() == ofX; })) << testing::PrintToString(led());
  EXPECT_EQ(marked(), ofX);
  EXPECT_EQ(caret(0, "y)", 0), "y");
  const auto ofY = [&] {
    return led().contains("y") && led().contains("L") && !led().contains("L.P.M") && !led().contains("L.P.S");
  };
  EXPECT_TRUE(wait(ofY)) << testing::PrintToString(led());
  EXPECT_EQ(marked(), led());
  clickInOutline("y");
  EXPECT_TRUE(wait(ofY)) << testing::PrintToString(led());
}

// What stays in the inspector without being selected says so.
TEST_F(Placed, WhatIsNotSelectedAnyMoreSaysSo) {
  openWith(
      "# %%\nparam V[5, 3] = normal(0, 1)\nZ[n] = sum[c] V[n, c]\nloss L = sum[n] Z[n]^2\n\n# %% [markdown]\n# Words\n\n"
      "# %%\ntrain L { steps = 10; optimizer = sgd(lr=1e-3) }\n");
  EXPECT_EQ(caret(0, "Z[n] =", 0), "Z");
  EXPECT_TRUE(window->inspector()->kept().isEmpty());
  EXPECT_EQ(caret(2, "optimizer", 2), "Z");
  EXPECT_EQ(window->inspector()->kept(), "Chosen last: nothing is selected now.");
  EXPECT_TRUE(inOutline().empty());
  EXPECT_EQ(caret(0, "V[n, c]", 0), "V");
  EXPECT_TRUE(window->inspector()->kept().isEmpty());
  caret(2, "train", 2);
  EXPECT_EQ(window->inspector()->kept().isEmpty(), selection().isCalled(window->inspector()->tensor().toStdString()));
  // What it stood at when nothing had been chosen yet is chosen since.
  openWith("# %%\nparam V[5, 3] = normal(0, 1)\nZ[n] = sum[c] V[n, c]\nshow Z, V\n");
  ASSERT_TRUE(wait([&] { return window->inspector()->tensor() == "V"; }));
  EXPECT_TRUE(window->inspector()->kept().isEmpty());
  EXPECT_EQ(caret(0, "show Z, V", 8), "V");
  EXPECT_EQ(caret(0, "= normal", 0), "V");
  EXPECT_EQ(window->inspector()->kept(), "Chosen last: nothing is selected now.");
}

// A statement of a loop that only the next one reads has no tensor, but a kernel.
TEST_F(Placed, AStatementInALoopLeadsOn) {
  openWith(
      "# %%\nparam V[5, 5] = normal(0, 0.5)\nparam P[3, 5] = normal(0, 1)\nh[n, j] = P[n, j] * 0\nfor t in 0..6 {\n"
      "  z[n, j] = sum[m] h[n, m] * V[m, j]\n  h[n, j] = tanh(z[n, j] + P[n, j])\n}\nloss L = mean[n, j] h[n, j]^2\n\n"
      "# %%\ntrain L { steps = 10; optimizer = sgd(lr=1e-3) }\n");
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return !window->workspace().subgraphs().subgraphs.empty(); }));
  window->showPage(MainWindow::Page::Author);
  EXPECT_EQ(caret(0, "z[n, j] =", 0), QString());
  EXPECT_EQ(tinted(), std::set<std::string>{"z[n, j] = sum[m] h[n, m] * V[m, j]"});
  const auto kernel = [&] {
    const auto buttons = window->inspector()->findChildren<QToolButton*>();
    return std::ranges::any_of(buttons, [](const QToolButton* b) { return b->isVisible() && b->text() == "Kernel z + h"; });
  };
  EXPECT_TRUE(wait(kernel)) << "it leads to the kernel that computes it";
  for (const auto& s : window->workspace().subgraphs().subgraphs)
    if (s.name == "z + h") window->tune()->chooseSubgraph(s.id);
  window->showPage(MainWindow::Page::Tune);
  EXPECT_TRUE(wait([&] { return window->tune()->kernel()->tintedLines().size() > 3; })) << "lines of its own";
  // The loop as a whole leads to the gradient that its steps are part of.
  window->showPage(MainWindow::Page::Author);
  EXPECT_EQ(caret(0, "0..6"), "h");
  EXPECT_TRUE(wait([&] { return window->inspector()->findChild<QToolButton*>("tensor:d(L)/d(V)") != nullptr; }));
}

// A function that another one calls, from a loop, too: its name and every place in it lead to what is computed there, wherever that was
// moved, and to the decisions about that; the text lights up the place and the calls, not the statements around them.
TEST_F(Placed, AFunctionIsWhatIsComputedInItWhereverThatWasMoved) {
  openWith(
      "# %%\ninput X[6, 4, 8] = normal(0, 1)\nparam W[8, 8] = normal(0, 0.3)\nconst h[6, 8] = 0.1\n\n"
      "# %%\ndef twice(a[N, D]) -> Z {\n  T = mix(a)\n  Z[n, d] = tanh(T[n, d]) * 2\n}\n"
      "def mix(b[N4, D4]) -> Y { Y[n, d] = sum[e: 8] b[n, e] * W[e, d] }\n\n"
      "# %%\nP = twice(X[_, 0, _])\nfor t in 0..4 { h = sigmoid(h) * 0.5 + twice(X[_, t, _]) }\n"
      "loss L = mean[n, d] (h[n, d] - P[n, d])^2\n\n# %%\ntrain L { optimizer = adam(lr=1e-3); steps = 20 }\n");
  window->showPage(MainWindow::Page::Explain);
  ExplainView* explain = window->explain();
  ASSERT_TRUE(wait([&] { return explain->graph()->graph().stage == "fused" && explain->fusion()->rowCount() > 0; }));
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return !window->workspace().subgraphs().subgraphs.empty(); }));
  window->showPage(MainWindow::Page::Author);
  using Names = std::set<std::string>;
  const auto forward = [&] {
    Names ids;
    const auto& nodes = explain->graph()->graph().nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (explain->graph()->isChosen(i) && nodes[i].kind == protocol::NodeKind::Operator &&
          nodes[i].phase == protocol::Phase::Forward)
        ids.insert(nodes[i].id);
    return ids;
  };
  const std::string sum = "h.twice.T_steps", tanh = "h.twice_steps";
  for (const auto& [context, at, nodes, lit] : {std::tuple{"mix(b", 0, Names{"P.T", sum}, Names{"mix", "twice"}},
                                                {"mix(a", 0, {"P.T", sum}, {"mix", "twice"}},
                                                {"T = mix", 0, {"P.T", sum}, {"T", "twice"}},
                                                {"sum[e", 0, {"P.T", sum}, {"sum", "mix", "twice"}},
                                                {"tanh", 0, {"P", tanh}, {"tanh", "twice"}},
                                                {"twice(a", 0, {"P.T", sum, "P", tanh}, {"twice"}}}) {
    SCOPED_TRACE(context);
    clickInOutline("L");
    caret(1, context, static_cast<std::size_t>(at));
    EXPECT_TRUE(wait([&] { return forward() == nodes; })) << testing::PrintToString(forward());
    EXPECT_EQ(tinted(), lit);
    const std::set<std::string> ids(nodes.begin(), nodes.end());
    const auto& decisions = explain->fusion()->report().decisions;
    const auto related = explain->relatedDecisions();
    std::size_t ofForward = 0;
    for (std::size_t i = 0; i < decisions.size(); ++i) {
      const auto& d = decisions[i];
      const bool isRelated = std::ranges::find(related, static_cast<int>(i)) != related.end();
      if (ids.contains(d.producerNode) || ids.contains(d.consumerNode)) {
        EXPECT_TRUE(isRelated) << d.producer << " " << d.consumer;
        ++ofForward;
      }
      // The loop reads what was moved out of it and computes nothing of the function.
      EXPECT_FALSE(isRelated && d.producerNode == "h" && !ids.contains(d.consumerNode) && !d.consumerNode.starts_with("d("));
    }
    EXPECT_GT(ofForward, 0u);
  }
}

// What a loop carries into a function of several results leads to what reads it there and to what was derived from that.
TEST_F(Placed, ACarriedArgumentLeadsToItsGradient) {
  openWith(
      "# %%\ninput X[4, 3, 5] = normal(0, 1)\nparam W[5, 6] = normal(0, 0.5)\n"
      "def cell(x, h, c) -> hN, cN {\n  Z[i, j] = (sum[k] x[i, k] * W[k, j]) * h[i, j]\n"
      "  cN[i, j] = sigmoid(Z[i, j]) * c[i, j] + x[i, 0]\n  hN[i, j] = tanh(cN[i, j])\n}\n"
      "const h[4, 6] = 0.5\nconst c[4, 6] = 0.1\nfor t in 0..3 { h, c = cell(X[_, t, _], h, c) }\n"
      "loss L = mean[i, j] h[i, j]^2\n\n# %%\ntrain L { steps = 10; optimizer = sgd(lr=1e-3) }\n");
  awaitPlan();
  for (const char* argument : {"h, c) }", "c) }"}) {
    SCOPED_TRACE(argument);
    clickInOutline("L");
    caret(0, argument);
    const auto isMarked = [&](const char* name) { return marked().contains(name); };
    EXPECT_TRUE(wait([&] { return isMarked("h") && isMarked("d(L)/d(h.Z)_steps"); }));
    EXPECT_FALSE(isMarked("d(L)/d(W)"));
    EXPECT_FALSE(isMarked("L"));
  }
}

// Of two equal statements the kernel that computes both has the tags of the chosen one, its name among them, and says which it is. What a
// loop computes as well is neither.
TEST_F(Placed, AKernelOfEqualStatementsHasTheTagsOfTheChosenOne) {
  openWith(
      "# %%\ninput X[6, 4] = normal(0, 1)\nparam W[4, 4] = normal(0, 0.5)\nP[i, j] = sum[k] X[i, k] * W[k, j]\n\n"
      "# %%\nQ[i, j] = sum[k] X[i, k] * W[k, j]\nconst h[4] = zeros()\n"
      "for t in 0..6 {\n  h[j] = tanh(0.5 * h[j] + sum[k] X[t, k] * W[k, j])\n}\n"
      "loss L = mean[i, j] (P[i, j] * Q[i, j]) + sum[j] h[j]^2\n\n# %%\ntrain L { steps = 10; optimizer = sgd(lr=1e-3) }\n");
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return !window->workspace().subgraphs().subgraphs.empty(); }));
  const KernelView* kernel = window->tune()->kernel();
  const std::size_t second = document().text().find("# %%\nQ");
  for (const char* chosen : {"P", "Q", "P"}) {
    SCOPED_TRACE(chosen);
    window->showPage(MainWindow::Page::Author);
    clickInOutline(chosen);
    window->showPage(MainWindow::Page::Tune);
    const auto isOf = [&](const char* name) {
      return std::ranges::any_of(kernel->tags(), [&](const auto& tag) { return tag.text == QLatin1String(name); });
    };
    const bool first = *chosen == 'P';
    EXPECT_TRUE(wait([&] { return isOf(chosen); }));
    EXPECT_FALSE(isOf(first ? "Q" : "P"));
    const auto& spans = window->workspace().analysis().spans;
    const auto isOfTheOther = [&](const auto& tag) { return tag.text == "X[i, k]" && (spans[tag.origin].begin < second) != first; };
    EXPECT_TRUE(std::ranges::none_of(kernel->tags(), isOfTheOther));
    EXPECT_EQ(kernel->also(), first ? QString() : QStringLiteral("also Q:"));
    EXPECT_FALSE(kernel->tintedLines().empty());
  }
}

// Of two equal statements the training step may have one alone: what computes that stands for the other, too, in whichever order they
// are written, and nothing that is made of the one in the step comes from the other.
TEST_F(Placed, AnEqualStatementOutsideTheStepLeadsToWhatComputesBoth) {
  const std::string a = "# %%\nA[n, o] = sum[i] X[n, i] * U[o, i]\n", b = "# %%\nB[n, o] = sum[j] X[n, j] * U[o, j]\n";
  for (const bool inStepFirst : {true, false}) {
    SCOPED_TRACE(inStepFirst);
    openWith("# %%\nlet N = 6, I = 5, O = 4\ninput X[N, I] = normal(0, 1)\nparam U[O, I] = normal(0, 0.5)\n" +
             (inStepFirst ? a + b : b + a) +
             "# %%\nloss La = mean[n, o] (A[n, o] - 1)^2\nloss Lb = mean[n, o] (B[n, o] + 2)^4\n# %%\nshow B, Lb\n"
             "# %%\ntrain La { steps = 100 }\n");
    awaitPlan();
    using Names = std::set<std::string>;
    const auto led = [&](const char* kind) {
      Names names;
      for (const QToolButton* button : window->inspector()->findChildren<QToolButton*>())
        if (!button->isHidden() && button->text().startsWith(kind)) names.insert(button->text().section(' ', 1).toStdString());
      return names;
    };
    const std::size_t ofA = inStepFirst ? 1 : 2, ofB = 3 - ofA;
    for (const auto& [cell, place, inspected, nodes, kernels] :
         {std::tuple{ofB, "sum[j]", "B", Names{"A"}, Names{"A"}}, std::tuple{ofB, "X[n, j]", "X", Names{"X", "A"}, Names{"A"}},
          std::tuple{ofB, "B[n, o] =", "B", Names{"A"}, Names{"A"}},
          std::tuple{ofA, "sum[i]", "A", Names{"A", "dU"}, Names{"A", "dA + dU + U.next"}},
          std::tuple{ofA, "X[n, i]", "X", Names{"X", "A", "dU"}, Names{"A", "dA + dU + U.next"}},
          // Read by what no kernel of the step computes.
          std::tuple{std::size_t{3}, "B[n, o]", "B", Names{"A", "Lb"}, Names{}}}) {
      SCOPED_TRACE(place);
      EXPECT_EQ(caret(cell, place, 1).toStdString(), inspected);
      EXPECT_TRUE(wait([&] { return led("Node ") == nodes; })) << testing::PrintToString(led("Node "));
      EXPECT_EQ(led("Kernel "), kernels);
      EXPECT_EQ(led("Gradient ").size(), nodes.contains("dU"));
    }
    // Its instructions, by its own words.
    clickInOutline("B");
    window->showPage(MainWindow::Page::Tune);
    const KernelView* kernel = window->tune()->kernel();
    EXPECT_TRUE(wait([&] {
      return std::ranges::any_of(kernel->tags(), [](const auto& tag) { return tag.text == "X[n, j]" && !tag.lines.empty(); });
    }));
    EXPECT_FALSE(kernel->tintedLines().empty());
    window->showPage(MainWindow::Page::Author);
  }
}

// Within a loop and in the functions that it calls, each place leads to what is computed there, also where that was moved out of the loop.
TEST_F(Placed, APlaceWithinALoopLeadsToItsOwnNodes) {
  openWith(
      "# %%\ndef sq(x) = x * x * 0.5\ndef cell(v, h, W, Q) -> g {\n  P[n, j] = sum[i] v[n, i] * W[i, j]\n"
      "  g[n, j] = tanh(h[n, j] + P[n, j]) * sq(Q[n, j])\n}\n\n"
      "# %%\ninput X[4, 3, 5] = normal(0, 1)\nparam W[5, 6] = normal(0, 0.5)\nparam Q[4, 6] = normal(0, 1)\n"
      "const h[4, 6] = zeros()\nfor t in 0..3 { h = cell(X[_, t, _], h, W, Q) }\nA[n, j] = sq(tanh(h[n, j])) + h[n, j]\n"
      "loss L = mean[n, j] A[n, j]\n\n# %%\ntrain L { steps = 10; optimizer = sgd(lr=1e-3) }\n");
  awaitPlan();
  using Names = std::set<std::string>;
  const auto led = [&](const char* kind, qsizetype from) {
    Names names;
    for (const QToolButton* b : window->inspector()->findChildren<QToolButton*>())
      if (b->isVisible() && b->objectName().startsWith(QLatin1String(kind)))
        names.insert((from ? b->objectName().mid(from) : b->text()).toStdString());
    return names;
  };
  const std::string h = "h", hoisted = "h.P_steps", dh = "d(L)/d(h)_steps", dP = "d(L)/d(h.P)_steps", dW = "d(L)/d(W)",
                    dQ = "d(L)/d(Q)";
  struct Case {
    std::size_t cell;
    const char* context;
    std::size_t at;
    const char* inspected;
    Names nodes;
  };
  const std::vector<Case> cases{
      {1, "X[_, t", 0, "X", {"X", hoisted, dW}},     {1, "X[_, t", 5, "X", {"X", hoisted, dW}},
      {1, "h, W, Q)", 0, "h", {h, dh, dP, dQ}},      {1, "W, Q)", 0, "W", {"W", hoisted, dW}},
      {1, "Q) }", 0, "Q", {"Q", h, dh, dP, dQ}},     {1, "cell(X", 0, "h", {hoisted, h, dh, dP, dW, dQ}},
      {1, "sq(tanh", 4, "A", {"A", "d(L)/d(h)"}},    {1, "+ h[n", 2, "h", {h, "A", "d(L)/d(h)"}},
      {0, "v[n, i]", 0, "X", {"X", hoisted, dW}},    {0, "cell(v", 5, "X", {"X", hoisted, dW}},
      {0, "P[n, j])", 0, "h", {h, dh, dP, dQ}},      {0, "tanh(h", 0, "h", {h, dh, dP, dQ}},
      {0, "Q[n, j])", 0, "Q", {"Q", h, dh, dP, dQ}}, {0, "x * 0.5", 0, "Q", {"Q", h, "A", "d(L)/d(h)", dh, dP, dQ}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.context) + " " + std::to_string(c.at));
    clickInOutline("L");
    EXPECT_EQ(caret(c.cell, c.context, c.at).toStdString(), c.inspected);
    EXPECT_TRUE(wait([&] { return marked() == c.nodes; })) << testing::PrintToString(marked());
    const auto isListed = [&] {
      const Names nodes = led("node:", 5);
      return std::ranges::all_of(c.nodes, [&](const std::string& id) { return nodes.contains(id); });
    };
    EXPECT_TRUE(wait(isListed)) << testing::PrintToString(led("node:", 5));
    const Names kernels = led("kernel:", 0);
    // What is read elsewhere is made by another kernel than those that compute or read something there.
    EXPECT_EQ(kernels.contains("Kernel h"), c.nodes.contains(h) && c.context != std::string("+ h[n"))
        << testing::PrintToString(kernels);
    EXPECT_EQ(kernels.contains("Kernel h.P_steps"), c.nodes.contains(hoisted)) << testing::PrintToString(kernels);
  }
  // What a place is part of making is chosen whole by its name.
  caret(0, "tanh(h");
  EXPECT_EQ(selection().tensors(), std::vector<std::string>{h});
  clickInOutline("h");
  EXPECT_EQ(marked(), Names{h});
  // Of the tensors that go through a place the inspector shows one, and has the others at hand.
  EXPECT_EQ(caret(0, "x * x"), "Q");
  QLabel* among = window->inspector()->among();
  EXPECT_TRUE(among->isVisible());
  EXPECT_EQ(among->textFormat(), Qt::RichText);
  EXPECT_TRUE(among->text().startsWith("One of 2 of this place")) << among->text().toStdString();
  Q_EMIT among->linkActivated(QStringLiteral("A"));
  EXPECT_EQ(window->inspector()->tensor(), "A");
  EXPECT_TRUE(marked().contains("d(L)/d(Q)")) << "the place stays what is selected";
  caret(1, "W, Q)");
  EXPECT_FALSE(among->isVisible());
  // What is called alike outside and in a function is one tag of the kernel.
  for (const auto& s : window->workspace().subgraphs().subgraphs)
    if (s.name == "h") window->tune()->chooseSubgraph(s.id);
  window->showPage(MainWindow::Page::Tune);
  const KernelView* kernel = window->tune()->kernel();
  const auto isTagged = [&](const char* text) {
    return std::ranges::count_if(kernel->tags(), [&](const auto& tag) { return tag.text == QLatin1String(text); });
  };
  EXPECT_TRUE(wait([&] { return isTagged("tanh") == 1; }));
  EXPECT_EQ(isTagged("Q"), 1);
  EXPECT_EQ(isTagged("h"), 1);
  EXPECT_EQ(isTagged("Q[n, j]"), 1);
}

}  // namespace
}  // namespace nf
