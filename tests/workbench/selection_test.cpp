// SPDX-License-Identifier: GPL-3.0-or-later
// One selection: what a click in one view leads to in the others.
#include <QLabel>
#include <QListWidget>
#include <QPlainTextEdit>
#include <QScrollBar>
#include <QTableView>
#include <QToolButton>
#include <QTreeWidget>

#include "tests/workbench/selected.h"
#include "widgets/basic.h"
#include "widgets/decision_card.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/formula_view.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_names.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/outline_view.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

TEST_F(Selected, TheLoopsThatADecisionLeadsToAreThoseOfItsConsumer) {
  openWith(example("welcome.nf"));
  window->showPage(MainWindow::Page::Explain);
  const auto row = [&] {
    const auto& decisions = window->explain()->fusion()->report().decisions;
    for (std::size_t i = 0; i < decisions.size(); ++i)
      if (decisions[i].consumer == "d(L)/d(W)") return static_cast<int>(i);
    return -1;
  };
  ASSERT_TRUE(wait([&] { return row() >= 0; }));
  clickRow(row());
  DecisionCard* card = window->explain()->card();
  QTest::mouseClick(card->forbid(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] {
    return row() >= 0 && window->explain()->fusion()->report().decisions[static_cast<std::size_t>(row())].state ==
                             protocol::FusionState::Forbidden;
  }));
  EXPECT_TRUE(window->explain()->decided()) << "a new analysis leaves the choice as it is";
  QToolButton* loops = nullptr;
  ASSERT_TRUE(wait([&] {
    loops = nullptr;
    for (QToolButton* b : card->findChildren<QToolButton*>())
      if (!loops && b->isVisible() && b->objectName().startsWith("loops:")) loops = b;
    return loops && window->workspace().subgraphs().revision == document().revision();
  }));
  QTest::mouseClick(loops, Qt::LeftButton);
  EXPECT_EQ(window->page(), MainWindow::Page::Tune);
  KernelView* kernel = window->tune()->kernel();
  ASSERT_TRUE(wait([&] { return !kernel->tintedLines().empty(); })) << kernel->text().toStdString();
  EXPECT_EQ(window->inspector()->tensor(), "d(L)/d(W)");
}

// The train cell cannot be read while another one has a mistake: the mistake is what stands in the way, not that there is no cell.
TEST_F(Selected, TrainGoesToTheMistakeThatKeepsItFromTraining) {
  const std::string good =
      "# %%\nlet N = 4\nparam W[N, N] = normal(0, 1)\n\n# %%\nloss L = mean[i, j] (W[i, j] - 3)^2\n\n"
      "# %%\ntrain L { optimizer = sgd(lr=0.01); steps = 5; device = reference }\n";
  std::string wrong = good;
  wrong.replace(wrong.find("W[i, j] - 3"), 7, "V[i, j]");
  openWith(wrong);
  ASSERT_TRUE(wait([&] { return cell(1)->status() == protocol::CellStatus::Error; }));
  window->notebook()->activate(cell(0)->id(), false);
  window->showPage(MainWindow::Page::Explain);
  window->action("run.train")->trigger();
  const std::string said = window->statusText().toStdString();
  EXPECT_TRUE(said.starts_with("A mistake in cell 2, line 1 keeps it from training: ")) << said;
  EXPECT_NE(said.find("V is not defined"), std::string::npos) << said;
  EXPECT_EQ(window->page(), MainWindow::Page::Author);
  EXPECT_EQ(window->notebook()->activeCell(), cell(1)->id());
  EXPECT_EQ(window->notebook()->caretByte(), wrong.find("V[i, j]"));
  document().replace(0, document().text().size(), "# %%\nlet N = 4\n", "Edit");
  window->notebook()->followDocument();
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
  window->action("run.train")->trigger();
  EXPECT_TRUE(window->statusText().contains("has no train cell")) << window->statusText().toStdString();
}

// The group of what is selected is shown; what is selected is not that of another one of its operators.
TEST_F(Selected, TheFusedGroupOfASelectionKeepsIt) {
  openWith(
      "# %%\nparam W[4, 4] = normal(0, 1)\nA[i, j] = W[i, j] + 1\nB[i, j] = A[i, j] * 2\nC[i, j] = B[i, j] - 3\n\n"
      "# %%\nloss L = mean[i, j] C[i, j]^2\n\n# %%\ntrain L { optimizer = sgd(lr=0.01); steps = 5 }\n");
  Q_EMIT window->outline()->tensorChosen("B");
  QToolButton* lead = nullptr;
  ASSERT_TRUE(wait([&] {
    for (auto* b : window->inspector()->findChildren<QToolButton*>())
      if (b->objectName().startsWith("group:") && b->isVisible()) lead = b;
    return lead != nullptr;
  }));
  QTest::mouseClick(lead, Qt::LeftButton);
  EXPECT_EQ(window->page(), MainWindow::Page::Explain);
  EXPECT_EQ(window->inspector()->tensor(), "B");
}

TEST_F(Selected, KeysGoFromMistakeToMistake) {
  const std::string text =
      "# %%\nparam W[4, 4] = normal(0, 1)\nA[i, j] = W[i, j] + V[i, j]\n\n# %%\nB[i, j] = A[i, j] * 2\n\n# %%\nC[i] = sum[j] U[i, "
      "j]\n";
  openWith(text);
  const std::size_t first = text.find("V[i, j]"), second = text.find("U[i, j]");
  ASSERT_TRUE(wait([&] { return cell(2)->diagnosticTexts().size() == 1; }));
  const auto caret = [&] { return window->notebook()->caretByte(); };
  window->notebook()->activate(cell(0)->id(), false);
  window->notebook()->scrollToByte(second, true);
  window->showPage(MainWindow::Page::Explain);
  QTest::keyClick(window.get(), Qt::Key_F8);
  EXPECT_EQ(window->page(), MainWindow::Page::Author);
  EXPECT_EQ(caret(), first) << "around the end";
  EXPECT_TRUE(window->statusText().startsWith("1 of 2, cell 1, line 2: V is not defined")) << window->statusText().toStdString();
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_F8);
  EXPECT_EQ(caret(), second);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_F8, Qt::ShiftModifier);
  EXPECT_EQ(caret(), first);
  QTest::keyClick(QApplication::focusWidget(), Qt::Key_F8, Qt::ShiftModifier);
  EXPECT_EQ(caret(), second);
}

// The name of a gradient that a cell shows is the text of that cell alone: its loops came from the access it is the gradient of.
TEST_F(Selected, TheInspectorOfAGradientLeadsToItsLoops) {
  openWith(example("welcome.nf"));
  clickInOutline("dL/dW");
  EXPECT_EQ(window->inspector()->tensor(), "d(L)/d(W)");
  QToolButton* loops = nullptr;
  ASSERT_TRUE(wait([&] {
    loops = nullptr;
    for (QToolButton* b : window->inspector()->findChildren<QToolButton*>())
      if (!loops && b->isVisible() && b->objectName().startsWith("loops:")) loops = b;
    return loops != nullptr;
  }));
  loops->click();
  EXPECT_EQ(window->page(), MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return !window->tune()->kernel()->tintedLines().empty(); }));
  EXPECT_EQ(window->inspector()->tensor(), "d(L)/d(W)");
}

TEST_F(Selected, TheInspectorStaysWithWhatACellShows) {
  openChecked();
  clickInOutline("Y");
  EXPECT_EQ(window->inspector()->tensor(), "Y");
  clickInOutline("2  L");
  EXPECT_EQ(window->notebook()->activeCell(), cell(2)->id());
  QTest::keyClick(window->notebook(), Qt::Key_Return, Qt::ControlModifier);
  ASSERT_TRUE(wait([&] { return cell(2)->status() == protocol::CellStatus::Ok; }));
  EXPECT_EQ(window->inspector()->tensor(), "Y");
  clickInOutline("dL/dW");
  EXPECT_EQ(window->inspector()->tensor(), "d(L)/d(W)");
  window->notebook()->activate(cell(1)->id(), true);
  cell(1)->editor()->moveCaretTo(cell(1)->editor()->bytes().find("p*2+r"));
  EXPECT_EQ(window->inspector()->tensor(), "A");
}

TEST_F(Selected, EveryAccessOfAFusedKernelHasItsLines) {
  openWith(example("figure4.nf"));
  window->showPage(MainWindow::Page::Tune);
  const auto fused = [&]() -> const protocol::SubgraphInfo* {
    for (const auto& s : window->workspace().subgraphs().subgraphs)
      if (std::find(s.operators.begin(), s.operators.end(), "Conv") != s.operators.end()) return &s;
    return nullptr;
  };
  ASSERT_TRUE(wait([&] { return fused() != nullptr; }));
  ASSERT_GT(fused()->operators.size(), 1u) << "Padded is computed where it is read";
  window->tune()->chooseSubgraph(fused()->id);
  KernelView* kernel = window->tune()->kernel();
  const auto tagged = [&](const QString& text) -> const KernelView::Tag* {
    for (const auto& tag : kernel->tags())
      if (tag.text.startsWith(text)) return &tag;
    return nullptr;
  };
  ASSERT_TRUE(wait([&] { return tagged("F[k, c, r, s]") != nullptr; })) << kernel->text().toStdString();
  QPlainTextEdit* expression = nullptr;
  for (QPlainTextEdit* e : kernel->findChildren<QPlainTextEdit*>())
    if (e->accessibleName() == "Expression of the kernel") expression = e;
  ASSERT_TRUE(expression);
  for (const char* access : {"X[n, c, h - 2, w - 2]", "Padded[n, c, 2*p + 2*r, 2*q + 2*s]", "F[k, c, r, s]"}) {
    SCOPED_TRACE(access);
    const KernelView::Tag* tag = tagged(access);
    ASSERT_TRUE(tag);
    ASSERT_FALSE(tag->lines.empty());
    ASSERT_GE(tag->begin, 0);
    QTextCursor cursor(expression->document());
    cursor.setPosition(tag->begin + 1);
    const auto lines = tag->lines;
    const auto origin = tag->origin;
    QTest::mouseClick(expression->viewport(), Qt::LeftButton, {}, expression->cursorRect(cursor).center());
    EXPECT_EQ(selection().origins(), protocol::Origins{origin});
    for (const int line : lines) {
      const auto tinted = kernel->tintedLines();
      EXPECT_NE(std::find(tinted.begin(), tinted.end(), line), tinted.end()) << line;
    }
  }
}

// A gradient of two terms, numbered from 1: the place that is chosen lights up its own, wherever they are added up too.
TEST_F(Selected, OfASumOfTermsTheOneThatWasChosenLightsUp) {
  openWith(
      "# %%\nlet N = 8\nparam W[N, N] = normal(0, 1)\ninput A[N, N] = normal(0, 1)\n\n"
      "# %%\nY[i, j] = sum[k] A[i, k] * W[k, j]\n\n"
      "# %%\nZ[i, j] = sum[k] A[i, k] * W[k, j]\n\n"
      "# %%\nloss L = sum[i, j] Y[i, j] * Z[i, j]\nshow d(L)/d(W)\n");
  window->notebook()->activate(cell(2)->id(), true);
  FormulaView* view = nullptr;
  ASSERT_TRUE(wait([&] { return (view = cell(3)->formulaView()) && view->formulas().size() == 3; }));
  using protocol::FormulaKind;
  const auto texts = [&](std::size_t formula) {
    QStringList out;
    for (const auto& node : view->formulas()[formula].nodes)
      if (node.kind == FormulaKind::Name && node.text.starts_with("(")) out << QString::fromStdString(node.text);
    return out;
  };
  EXPECT_EQ(texts(0), QStringList{"(1)"});
  EXPECT_EQ(texts(1), QStringList{"(2)"});
  EXPECT_EQ(texts(2), (QStringList{"(1)", "(2)"}));
  const auto tinted = [&](std::size_t formula) {
    std::vector<std::string> out;
    const auto& nodes = view->formulas()[formula].nodes;
    for (std::uint32_t i = 0; i < nodes.size(); ++i)
      if (view->tinted(formula, i)) {
        EXPECT_NE(nodes[i].kind, FormulaKind::Equation);
        out.push_back(nodes[i].kind == FormulaKind::Power ? nodes[nodes[i].children[1]].text : nodes[i].text);
      }
    return out;
  };
  for (const auto& [index, own, other] : {std::tuple{2, 0u, 1u}, std::tuple{1, 1u, 0u}}) {
    SCOPED_TRACE(index);
    CellView* v = cell(static_cast<std::size_t>(index));
    window->notebook()->activate(v->id(), true);
    const auto at = static_cast<int>(v->editor()->bytes().find("W[k"));
    QTextCursor cursor(v->editor()->document());
    cursor.setPosition(at + 2);
    QTest::mouseClick(v->editor()->viewport(), Qt::LeftButton, {}, v->editor()->cursorRect(cursor).center());
    EXPECT_EQ(tinted(own), std::vector<std::string>{"sum"});
    EXPECT_TRUE(tinted(other).empty());
    EXPECT_EQ(tinted(2), std::vector<std::string>{"(" + std::to_string(own + 1) + ")"});
  }
}

// What is read by computed indices is scattered back, by an operator of its own: it is the gradient as much as what is gathered.
TEST_F(Selected, AGradientIsItsScatterToo) {
  const std::string text =
      "# %%\nlet N = 12\nparam T[N] = normal(0, 1)\ninput Idx[N] : i32 = 3\n\n"
      "# %%\nGat[i] = T[Idx[i]]^2\n\n# %%\nStr[p] = max[r: 3] T[p*3 + r]\n\n"
      "# %%\nloss L = sum[i] Gat[i]^2 + mean[p] Str[p]^2\nshow d(L)/d(T)\n\n"
      "# %%\ntrain L { optimizer = sgd(lr=0.001); steps = 3000 }\n";
  openWith(text);
  clickInOutline("dL/dT");
  const auto tinted = [&] {
    std::set<std::string> out;
    for (const auto& s : selection().selectedSpans()) out.insert(text.substr(s.begin, s.end - s.begin));
    return out;
  };
  ASSERT_TRUE(wait([&] { return tinted().contains("T[Idx[i]]") && tinted().contains("T[p*3 + r]"); }));
  const auto leads = [&](const QString& target) {
    for (const QToolButton* b : window->inspector()->findChildren<QToolButton*>())
      if (b->isVisible() && b->objectName().startsWith(target)) return true;
    return false;
  };
  EXPECT_TRUE(wait([&] { return leads("node:d(L)/d(T)#"); }));
  // A parameter leads where every access of it does.
  clickInOutline("T");
  for (const char* target : {"node:T", "node:Gat", "node:Str", "node:d(L)/d(T)#", "tensor:d(L)/d(T)", "kernel:"})
    EXPECT_TRUE(wait([&] { return leads(target); })) << target;
  clickInOutline("dL/dT");
  const auto scatter = [&]() -> const protocol::SubgraphInfo* {
    for (const auto& s : window->workspace().subgraphs().subgraphs)
      if (std::any_of(s.operators.begin(), s.operators.end(), [](const auto& op) { return op.starts_with("d(L)/d(T)#"); }))
        return &s;
    return nullptr;
  };
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return scatter() != nullptr; }));
  window->tune()->chooseSubgraph(scatter()->id);
  EXPECT_TRUE(wait([&] { return !window->tune()->kernel()->tintedLines().empty(); }))
      << window->tune()->kernel()->text().toStdString();
  // The access leads to the tensor, to the operator that holds it, to what is derived from it, and to their kernels.
  window->showPage(MainWindow::Page::Author);
  window->notebook()->activate(cell(1)->id(), true);
  cell(1)->editor()->moveCaretTo(cell(1)->editor()->bytes().find("T[Idx") + 1);
  ASSERT_EQ(window->inspector()->tensor(), "T");
  for (const char* target : {"node:T", "node:Gat", "node:d(L)/d(T)#", "tensor:d(L)/d(T)", "kernel:", "loops:", "code:"})
    EXPECT_TRUE(wait([&] { return leads(target); })) << target;
}

TEST_F(Selected, AClickWhereTheCaretStandsSelectsWhatIsThere) {
  openWith(
      "# %%\nlet N = 8\ninput X[N, N] = normal(0, 1)\nparam W[N, N] = normal(0, 0.1)\n\n"
      "# %%\nA[i, j] = sum[k] X[i, k] * W[k, j]\n\n# %%\nloss L = mean[i, j] A[i, j]^2\n");
  ExpressionEditor* editor = cell(1)->editor();
  window->notebook()->activate(cell(1)->id(), true);
  QTextCursor cursor(editor->document());
  cursor.setPosition(static_cast<int>(editor->bytes().find("X[i")) + 1);
  const QPoint there = editor->cursorRect(cursor).center();
  const auto click = [&] { QTest::mouseClick(editor->viewport(), Qt::LeftButton, {}, there); };
  click();
  ASSERT_EQ(window->inspector()->tensor(), "X");
  const protocol::Origins access = selection().origins();
  const auto caret = editor->caretByte();
  clickInOutline("W");
  ASSERT_EQ(window->inspector()->tensor(), "W");
  ASSERT_EQ(editor->caretByte(), caret);
  click();
  EXPECT_EQ(editor->caretByte(), caret);
  EXPECT_EQ(window->inspector()->tensor(), "X");
  EXPECT_EQ(selection().origins(), access);
}

// All updates have one place, the word `sgd`: a parameter leads to its own.
TEST_F(Selected, AParameterLeadsToItsOwnUpdateAlone) {
  openWith(
      "# %%\nlet N = 8\ninput X[N, N] = normal(0, 1)\nparam W[N, N] = normal(0, 0.1)\nparam V[N, N] = normal(0, 0.1)\n\n"
      "# %%\nA[i, j] = sum[k] X[i, k] * W[k, j]\n\n# %%\nB[i, j] = sum[k] A[i, k] * V[k, j]\n\n"
      "# %%\nloss L = mean[i, j] (B[i, j] - 1)^2\nshow A, B\n\n"
      "# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 3000 }\n");
  const auto leads = [&](const QString& target) {
    for (const QToolButton* b : window->inspector()->findChildren<QToolButton*>())
      if (b->isVisible() && b->objectName() == target) return true;
    return false;
  };
  clickInOutline("V");
  EXPECT_TRUE(wait([&] { return leads("node:V.next") && leads("node:B"); }));
  EXPECT_FALSE(leads("node:W.next"));
  EXPECT_FALSE(leads("node:A"));
  clickInOutline("W");
  EXPECT_TRUE(wait([&] { return leads("node:W.next") && leads("node:A"); }));
  EXPECT_FALSE(leads("node:V.next"));
}

// A product is its factors too, not its sign alone.
TEST_F(Selected, AClickedTermLightsUpAllThatItIsMadeOf) {
  openWith(
      "# %%\nlet N = 8\nparam W[N] = normal(0, 1)\ninput A[2*N] = normal(0, 1)\ninput B[N] = normal(0, 1)\n\n"
      "# %%\nY[p: N] = sum[r: N] A[p + r] * W[r] * exp(B[r])\n\n"
      "# %%\nloss L = sum[p] Y[p]^2\nshow d(L)/d(A)\n");
  FormulaView* view = nullptr;
  ASSERT_TRUE(wait([&] { return (view = cell(2)->formulaView()) && !view->formulas().empty(); }));
  using protocol::FormulaKind;
  const auto& nodes = view->formulas().back().nodes;
  const auto selectedText = [&] {
    std::set<std::string> out;
    for (const auto& s : selection().selectedSpans()) out.insert(document().text().substr(s.begin, s.end - s.begin));
    return out;
  };
  // The largest part that is a product, at a place of its own.
  std::optional<std::pair<QPoint, std::size_t>> product;
  for (int x = 0; x < view->width(); x += 2)
    for (int y = 0; y < view->height(); y += 2) {
      const auto part = view->partAt(QPointF(x, y));
      if (!part || part->first + 1 != view->formulas().size() || nodes[part->second].kind != FormulaKind::Infix ||
          nodes[part->second].text != "*" || (product && part->second <= product->second))
        continue;
      product = {QPoint(x, y), part->second};
    }
  ASSERT_TRUE(product);
  QTest::mouseClick(view, Qt::LeftButton, {}, product->first);
  const auto text = selectedText();
  EXPECT_TRUE(text.contains("W[r]")) << toLatex(view->formulas().back()).toStdString();
  EXPECT_TRUE(text.contains("B[r]"));
  EXPECT_TRUE(selection().tensors().empty());
}

// A derivative in a formula is the tensor of its name: what it came from lights up, not the statement that it is the derivative by.
TEST_F(Selected, ADerivativeInAFormulaIsItsOwnTensor) {
  openWith(
      "# %%\nlet N = 8\nparam W[N] = normal(0, 1)\ninput A[2*N] = normal(0, 1)\n\n"
      "# %%\nY[p: N] = sum[r: N] A[p + r] * W[r]\n\n"
      "# %%\nloss L = sum[p] Y[p]^2\nshow d(L)/d(A)\n");
  FormulaView* view = nullptr;
  ASSERT_TRUE(wait([&] { return (view = cell(2)->formulaView()) && !view->formulas().empty(); }));
  using protocol::FormulaKind;
  const std::size_t last = view->formulas().size() - 1;
  const auto& nodes = view->formulas().back().nodes;
  std::optional<std::pair<QPoint, std::uint32_t>> read;  // the one that the right side has
  for (int x = 0; x < view->width(); x += 2)
    for (int y = 0; y < view->height(); y += 2) {
      const auto part = view->partAt(QPointF(x, y));
      if (part && part->first == last && nodes[part->second].kind == FormulaKind::Partial &&
          part->second != nodes.back().children.front())
        read = {QPoint(x, y), part->second};
    }
  ASSERT_TRUE(read);
  QTest::mouseClick(view, Qt::LeftButton, {}, read->first);
  EXPECT_EQ(selection().tensors(), std::vector<std::string>{"d(L)/d(Y)"});
  EXPECT_TRUE(view->tinted(last, read->second));
  EXPECT_FALSE(view->tinted(last, nodes.back().children.front()));
  const std::size_t loss = document().text().find("loss L");
  const auto chosen = [&](bool inLoss) {
    const auto spans = selection().selectedSpans();
    return std::count_if(spans.begin(), spans.end(), [&](const auto& s) { return (s.begin >= loss) == inLoss; });
  };
  EXPECT_TRUE(wait([&] { return chosen(true) > 0; }));
  EXPECT_EQ(chosen(false), 0) << "not the statement of Y";
}

// What no operator makes is where it is read.
TEST_F(Selected, AParameterIsEverythingThatReadsIt) {
  const std::string text =
      "# %%\nlet N = 8\nparam W[N, N] = normal(0, 1)\ninput A[N, N] = normal(0, 1)\n\n"
      "# %%\nY[i, j] = sum[k] A[i, k] * W[k, j]\n\n"
      "# %%\nZ[i, j] = Y[i, j] * tanh(W[j, i])\n\n"
      "# %%\nloss L = sum[i, j] Z[i, j]^2\nshow d(L)/d(A)\n";
  openWith(text);
  FormulaView* view = nullptr;
  ASSERT_TRUE(wait([&] { return (view = cell(3)->formulaView()) && !view->formulas().empty(); }));
  CellView* declared = cell(0);
  window->notebook()->activate(declared->id(), true);
  declared->editor()->moveCaretTo(declared->editor()->bytes().find("W[N") + 1);
  ASSERT_EQ(selection().tensors(), std::vector<std::string>{"W"});
  std::set<std::string> read;
  for (const auto& s : selection().selectedSpans()) read.insert(text.substr(s.begin, s.end - s.begin));
  EXPECT_TRUE(read.contains("W[k, j]"));
  EXPECT_TRUE(read.contains("W[j, i]"));
  EXPECT_FALSE(read.contains("A[i, k]"));
  bool tinted = false;
  const auto& formulas = view->formulas();
  for (std::size_t f = 0; f < formulas.size(); ++f)
    for (std::uint32_t i = 0; i < formulas[f].nodes.size(); ++i) tinted = tinted || view->tinted(f, i);
  EXPECT_TRUE(tinted) << "dL/dA reads W";
  window->showPage(MainWindow::Page::Explain);
  GraphView* graph = window->explain()->graph();
  ASSERT_TRUE(wait([&] { return graph->graph().stage == "fused" && !graph->graph().nodes.empty(); }));
  for (std::size_t i = 0; i < graph->graph().nodes.size(); ++i)
    EXPECT_EQ(graph->isOutlined(i), graph->graph().nodes[i].id == "W") << graph->graph().nodes[i].id;
  window->showPage(MainWindow::Page::Tune);
  for (const char* language : {"loops", "llvm"}) {
    KernelView* kernel = window->tune()->kernel();
    ASSERT_TRUE(wait([&] {
      kernel->showLanguage(language);
      return kernel->language() == language && !kernel->tintedLines().empty();
    })) << language
        << kernel->text().toStdString();
  }
}

// One operator in every view: what the statement makes, never what it reads or what else came from the same place.
TEST_F(Selected, WhatIsChosenInOneViewIsChosenInAll) {
  openWith(example("welcome.nf"));
  ExplainView* explain = window->explain();
  GraphView* graph = explain->graph();
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] {
    return graph->graph().stage == "fused" && !graph->graph().nodes.empty() && explain->fusion()->rowCount() > 2 &&
           !window->workspace().subgraphs().subgraphs.empty();
  }));
  const auto outlined = [&] {
    QStringList out;
    for (std::size_t i = 0; i < graph->graph().nodes.size(); ++i)
      if (graph->isOutlined(i)) out << QString::fromStdString(graph->graph().nodes[i].id);
    return out.join(' ');
  };
  const auto listed = [&] {
    auto* tree = window->outline()->findChild<QTreeWidget*>();
    const auto loss = tree->findItems("L", Qt::MatchExactly | Qt::MatchRecursive);
    QStringList out;  // of the tensors: the row of the cell that is worked in is another matter
    for (const QTreeWidgetItem* item : tree->selectedItems())
      if (!loss.isEmpty() && item->parent() == loss.front()->parent()) out << item->text(0);
    return out.join(' ');
  };
  const auto holds = [&](const std::string& op) {
    for (const auto& s : window->workspace().subgraphs().subgraphs)
      if (s.id == window->tune()->current()) return std::find(s.operators.begin(), s.operators.end(), op) != s.operators.end();
    return false;
  };
  const auto kernelHolds = [&](const std::string& op) {
    window->showPage(MainWindow::Page::Tune);
    const bool held = wait([&] { return holds(op); });
    window->showPage(MainWindow::Page::Explain);
    return held;
  };
  const auto clickNode = [&](const char* id) {
    for (std::size_t i = 0; i < graph->graph().nodes.size(); ++i)
      if (graph->graph().nodes[i].id == id)
        return QTest::mouseClick(graph, Qt::LeftButton, {}, graph->toWidget(graph->layoutOf().nodes[i].rect.center()).toPoint());
    FAIL() << id;
  };
  const auto selectedText = [&] {
    QStringList out;
    for (const auto& s : selection().selectedSpans())
      out << QString::fromStdString(document().text().substr(s.begin, s.end - s.begin));
    return out.join(" | ");
  };
  clickNode("d(L)/d(W)");
  EXPECT_EQ(outlined(), "d(L)/d(W)");
  EXPECT_EQ(window->inspector()->tensor(), "d(L)/d(W)");
  EXPECT_EQ(listed(), "dL/dW");
  EXPECT_EQ(selectedText(), "W[k, c, r, s, l, j] | d(L)/d(W)");
  EXPECT_TRUE(kernelHolds("d(L)/d(W)"));
  clickNode("L");
  EXPECT_EQ(outlined(), "L");
  EXPECT_EQ(window->inspector()->tensor(), "L");
  EXPECT_EQ(listed(), "L");
  EXPECT_TRUE(kernelHolds("L"));
  clickNode("Y");
  EXPECT_EQ(outlined(), "Y");
  EXPECT_EQ(window->inspector()->tensor(), "Y");
  EXPECT_TRUE(kernelHolds("Y"));
  // A decision is about its two ends; the card is about what is made of them.
  int row = -1;
  for (int i = 0; i < explain->fusion()->rowCount(); ++i)
    if (const auto& d = explain->fusion()->report().decisions[static_cast<std::size_t>(i)]; d.consumer == "d(L)/d(W)") row = i;
  ASSERT_GE(row, 0);
  clickRow(row);
  EXPECT_TRUE(explain->decided());
  EXPECT_EQ(window->inspector()->tensor(), "d(L)/d(W)");
  EXPECT_TRUE(kernelHolds("d(L)/d(W)"));
  // A kernel of the list: its operators, and in the inspector the last of them that the notebook has.
  window->showPage(MainWindow::Page::Tune);
  auto* kernels = window->tune()->findChild<QListWidget*>();
  for (int i = 0; i < kernels->count(); ++i)
    if (kernels->item(i)->text() == "L") kernels->setCurrentRow(i);
  EXPECT_EQ(window->inspector()->tensor(), "L");
  EXPECT_EQ(outlined(), "L");
  // By its name in the outline, and by its name in a cell.
  window->showPage(MainWindow::Page::Author);
  clickInOutline("dL/dA");
  EXPECT_EQ(window->inspector()->tensor(), "d(L)/d(A)");
  EXPECT_EQ(outlined(), "d(L)/d(A)");
  EXPECT_EQ(selectedText(), "A[b, c, p*2+r, q*2+s, i, l] | d(L)/d(A)");
  CellView* shows = nullptr;
  for (CellView* v : window->notebook()->cells())
    if (v->editor()->bytes().starts_with("show Y")) shows = v;
  ASSERT_TRUE(shows);
  window->notebook()->activate(shows->id(), true);
  shows->editor()->moveCaretTo(shows->editor()->bytes().find("d(L)/d(W)") + 3);
  EXPECT_EQ(window->inspector()->tensor(), "d(L)/d(W)");
  EXPECT_EQ(outlined(), "d(L)/d(W)");
  EXPECT_TRUE(kernelHolds("d(L)/d(W)"));
}

TEST_F(Selected, TheTextComesToThePlaceOfANode) {
  std::string text = "# %%\nlet N = 8\nparam W[N] = normal(0, 1)\ninput X[N] = normal(0, 1)\n\n";
  for (int i = 0; i < 40; ++i) text += "# %% [markdown]\n# Paragraph " + std::to_string(i) + "\n\n";
  text += "# %%\nY[i] = tanh(W[i] * X[i])\n\n# %%\nloss L = mean[i] Y[i]^2\n";
  openWith(text);
  window->showPage(MainWindow::Page::Explain);
  GraphView* graph = window->explain()->graph();
  ASSERT_TRUE(wait([&] { return graph->graph().nodes.size() > 2; }));
  graph->choose("Y", true);
  window->showPage(MainWindow::Page::Author);
  CellView* made = nullptr;
  for (CellView* v : window->notebook()->cells())
    if (v->kind() == CellKind::Code && v->editor()->bytes().starts_with("Y[i]")) made = v;
  ASSERT_TRUE(made);
  EXPECT_TRUE(wait([&] { return !made->editor()->visibleRegion().isEmpty(); }));
  EXPECT_EQ(window->notebook()->activeCell(), cell(0)->id()) << "the cursor stays";
}

TEST_F(Selected, ANameThatIsShownSelectsItsTensorWholly) {
  openWith(
      "# %%\nlet N = 8\nparam M[N, N] = normal(0, 1)\n\n# %%\nQ1[i, j] = M[i, j] * M[i, j] + 1\n\n"
      "# %%\nQ2[i, j] = M[i, j] * M[i, j] + 1\n\n# %%\nloss L = mean[i, j] (Q1[i, j] - Q2[i, j] * 0.5)^2\n\n# %%\nshow Q1, Q2\n");
  const auto click = [&](std::size_t at) { window->notebook()->scrollToByte(static_cast<std::uint32_t>(at), true); };
  for (const char* name : {"Q1", "Q2"}) {
    click(document().text().find(std::string(name) + "[i") + 1);
    const auto byDefinition = selection().origins();
    ASSERT_EQ(selection().tensors(), std::vector<std::string>{name});
    click(document().text().rfind(name) + 1);
    EXPECT_EQ(selection().tensors(), std::vector<std::string>{name});
    EXPECT_EQ(selection().origins(), byDefinition) << name;
    EXPECT_GE(selection().selectedSpans().size(), 1u) << name;
  }
  // Both are computed as one, and are part of the same decisions.
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->fusion()->rowCount() > 0; }));
  window->showPage(MainWindow::Page::Author);
  click(document().text().find("Q1[i") + 1);
  const auto first = window->explain()->relatedDecisions();
  EXPECT_FALSE(first.empty());
  click(document().text().find("Q2[i") + 1);
  EXPECT_EQ(window->explain()->relatedDecisions(), first);
}

// Its place in `train` is that of every other parameter's update, too.
TEST_F(Selected, AnUpdateLeadsToItsOwnParametersNodes) {
  openWith(
      "# %%\nlet N = 8\nparam F[N, N] = normal(0, 1)\nparam R[N, N] = normal(0, 1)\n\n"
      "# %%\nloss L = mean[i, j] (F[i, j] * R[i, j] - 1)^2\n\n# %%\ntrain L { optimizer = adam(lr=1e-2); steps = 10 }\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return window->explain()->graph()->graph().nodes.size() > 6; }));
  window->showPage(MainWindow::Page::Author);
  clickInOutline("R.next");
  ASSERT_EQ(window->inspector()->tensor(), "R.next");
  const auto nodes = [&] {
    QStringList out;
    for (const QToolButton* lead : window->inspector()->findChildren<QToolButton*>())
      if (lead->objectName().startsWith("node:") && !lead->isHidden()) out << lead->objectName().mid(5);
    return out;
  };
  ASSERT_TRUE(wait([&] { return nodes().contains("R.next"); }));
  for (const QString& node : nodes()) EXPECT_FALSE(node.startsWith("F")) << node.toStdString();
  EXPECT_FALSE(nodes().filter("R.adam").isEmpty()) << nodes().join(' ').toStdString();
}

// A parameter that is chosen has with it what a step computes for it: its gradient, the states of its optimizer and its update.
TEST_F(Selected, WhatIsMadeForAParameterBelongsToIt) {
  openWith(
      "# %%\nlet N = 8\nparam F[N, N] = normal(0, 1)\nparam R[N, N] = normal(0, 1)\n\n"
      "# %%\nloss L = mean[i, j] (F[i, j] * R[i, j] - 1)^2\n\n# %%\ntrain L { optimizer = adam(lr=1e-2); steps = 10 }\n");
  window->showPage(MainWindow::Page::Explain);
  const GraphView* graph = window->explain()->graph();
  ASSERT_TRUE(wait([&] { return graph->graph().stage == "fused" && graph->graph().nodes.size() > 6; }));
  const auto named = [&](bool (GraphView::*marked)(std::size_t) const) {
    QStringList out;
    for (std::size_t i = 0; i < graph->graph().nodes.size(); ++i)
      if ((graph->*marked)(i)) out << QString::fromStdString(graph->graph().nodes[i].id);
    return out;
  };
  const auto ofR = [&] {
    const QStringList belong = named(&GraphView::belongs);
    EXPECT_EQ(named(&GraphView::isOutlined), QStringList("R"));
    for (const char* id : {"d(L)/d(R)", "R.next"}) EXPECT_TRUE(belong.contains(id)) << belong.join(' ').toStdString();
    EXPECT_FALSE(belong.filter("R.adam").isEmpty()) << belong.join(' ').toStdString();
    for (const QString& id : belong) EXPECT_TRUE(id.startsWith("R.") || id == "d(L)/d(R)") << id.toStdString();
  };
  window->showPage(MainWindow::Page::Author);
  clickInOutline("R");
  ofR();
  // In the text as in the outline.
  clickInOutline("F");
  EXPECT_EQ(named(&GraphView::isOutlined), QStringList("F"));
  CellView* declared = cell(0);
  window->notebook()->activate(declared->id(), true);
  declared->editor()->moveCaretTo(declared->editor()->bytes().find("R[N") + 1);
  ofR();
}

// An access is part of the decisions about the tensor that it reads there, whose both ends are outlined in the graph.
TEST_F(Selected, AnAccessLeadsToTheDecisionsAboutWhatItReads) {
  openWith(example("welcome.nf"));
  window->showPage(MainWindow::Page::Explain);
  ExplainView* explain = window->explain();
  ASSERT_TRUE(wait([&] { return explain->fusion()->rowCount() > 2; }));
  const auto related = [&] {
    QStringList out;
    for (const int i : explain->relatedDecisions()) {
      const auto& d = explain->fusion()->report().decisions[static_cast<std::size_t>(i)];
      out << QString::fromStdString(d.producer + " to " + d.consumer);
    }
    out.sort();
    return out.join(", ").toStdString();
  };
  const auto click = [&](const char* text, std::size_t behind) {
    const std::size_t at = document().text().find(text);
    ASSERT_NE(at, std::string::npos);
    window->notebook()->scrollToByte(static_cast<std::uint32_t>(at + behind), true);
  };
  click("(Y[", 1);
  ASSERT_EQ(selection().reads(), "Y");
  EXPECT_EQ(related(), "Y to L, Y to d(L)/d(Y), d(L)/d(Y) to d(L)/d(W)");
  // Any other place of the loss is part of what the loss is part of.
  click("mean[", 5);
  EXPECT_EQ(related(), "Y to L");
}

TEST_F(Selected, ADecisionStaysTheSameWhenItIsDecidedAnew) {
  openWith(example("welcome.nf"));
  window->showPage(MainWindow::Page::Explain);
  ExplainView* explain = window->explain();
  ASSERT_TRUE(wait([&] { return explain->fusion()->rowCount() > 2; }));
  const auto is = [&](const char* producer, const char* consumer) {
    const auto* d = explain->chosenDecision();
    return d && d->producer == producer && d->consumer == consumer;
  };
  clickRow(0);
  ASSERT_TRUE(is("d(L)/d(Y)", "d(L)/d(W)"));
  explain->table()->setFocus();
  explain->card()->forbid()->setFocus();
  QTest::mouseClick(explain->card()->forbid(), Qt::LeftButton);
  ASSERT_TRUE(wait([&] {
    for (const auto& d : explain->fusion()->report().decisions)
      if (d.state == protocol::FusionState::Forbidden) return true;
    return false;
  }));
  ASSERT_NE(explain->fusion()->report().decisions[0].consumer, "d(L)/d(W)") << "the table is in another order";
  EXPECT_TRUE(is("d(L)/d(Y)", "d(L)/d(W)"));
  EXPECT_EQ(explain->table()->selectionModel()->selectedRows().size(), 1);
  EXPECT_EQ(explain->table()->selectionModel()->currentIndex().row(),
            explain->table()->selectionModel()->selectedRows().front().row());
  EXPECT_TRUE(explain->decided());
  EXPECT_FALSE(explain->card()->release()->isHidden()) << "the hint can be taken back where it was given";
  QTest::mouseClick(explain->card()->release(), Qt::LeftButton);
  ASSERT_TRUE(
      wait([&] { return explain->chosenDecision() && explain->chosenDecision()->state == protocol::FusionState::Accepted; }));
  EXPECT_TRUE(is("d(L)/d(Y)", "d(L)/d(W)"));
}

// Nothing shows the derivative of what lies between: it is one of the notebook all the same, after every edit.
TEST_F(Selected, ADerivativeOnTheWayIsNotGreyWhenTheTextIsChecked) {
  openWith(example("welcome.nf"));
  window->showPage(MainWindow::Page::Explain);
  ExplainView* explain = window->explain();
  ASSERT_TRUE(wait([&] { return explain->fusion()->rowCount() > 2 && explain->graph()->layoutOf().nodes.size() > 2; }));
  clickRow(0);
  ASSERT_EQ(explain->chosenDecision()->producer, "d(L)/d(Y)");
  ASSERT_FALSE(window->workspace().tensor("d(L)/d(Y)"));
  explain->graph()->choose(QStringLiteral("d(L)/d(Y)"), true);
  ASSERT_TRUE(wait([&] { return window->inspector()->tensor() == "d(L)/d(Y)"; }));
  for (const char* with : {"normal(0, 2)", "normal(0, 3)"}) {
    const auto at = document().text().find("normal(0, ");
    document().replace(at, at + std::string_view("normal(0, 1)").size(), with, "Edit");
    ASSERT_TRUE(wait([&] { return window->workspace().analysisIsCurrent(); }));
    QCoreApplication::processEvents();
    ASSERT_EQ(window->inspector()->tensor(), "d(L)/d(Y)");
    EXPECT_FALSE(isGreyed(window->inspector()->scroll()->widget()));
  }
}

TEST_F(Selected, ANodeTakesThePlaceOfADecision) {
  openChecked();
  window->showPage(MainWindow::Page::Explain);
  ExplainView* explain = window->explain();
  GraphView* graph = explain->graph();
  ASSERT_TRUE(wait([&] { return explain->fusion()->rowCount() == 4 && graph->graph().nodes.size() == 7; }));
  clickRow(2);
  EXPECT_TRUE(explain->decided());
  EXPECT_FALSE(graph->decisionPlace().isNull());
  const auto clickNode = [&](const char* id) {
    for (std::size_t i = 0; i < graph->graph().nodes.size(); ++i)
      if (graph->graph().nodes[i].id == id)
        QTest::mouseClick(graph, Qt::LeftButton, {}, graph->toWidget(graph->layoutOf().nodes[i].rect.center()).toPoint());
  };
  clickNode("W");
  EXPECT_EQ(graph->chosen(), "W");
  EXPECT_FALSE(explain->decided());
  EXPECT_TRUE(graph->decisionPlace().isNull());
  EXPECT_FALSE(explain->chosenDecision()) << "it is of other nodes";
  clickRow(2);
  EXPECT_TRUE(explain->decided());
  EXPECT_FALSE(graph->decisionPlace().isNull());
  EXPECT_TRUE(graph->chosen().isEmpty());
  // What is chosen in the notebook is not taken away by the decision that was looked at before.
  window->showPage(MainWindow::Page::Author);
  window->notebook()->activate(cell(1)->id(), true);
  cell(1)->editor()->moveCaretTo(cell(1)->editor()->bytes().find("p*2+r"));
  EXPECT_FALSE(explain->decided());
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return explain->fusion()->rowCount() == 4; }));
  QCoreApplication::processEvents();
  EXPECT_EQ(selection().origins(), protocol::Origins{1});
}

// One kernel of two statements: the expression is that of the first, what the selection is of is said.
TEST_F(Selected, AKernelOfTwoStatementsSaysWhichOneTheSelectionIsOf) {
  openWith(
      "# %%\nlet N = 8\ninput X[N, N] = normal(0, 1)\ninput Z[N, N] = normal(0, 1)\n\n"
      "# %%\nP[i, j] = sum[k] X[i, k] * X[k, j]\n\n# %%\nQ[i, j] = sum[k] Z[i, k] * Z[k, j]\n\n"
      "# %%\nR[i, j] = P[i, j] + Q[i, j]\nhint split P, R\nhint split Q, R\nshow R\n");
  const auto choose = [&](const char* access) {
    window->showPage(MainWindow::Page::Author);
    window->notebook()->scrollToByte(static_cast<std::uint32_t>(document().text().find(access)) + 2, true);
    window->showPage(MainWindow::Page::Tune);
  };
  KernelView* kernel = window->tune()->kernel();
  choose("Z[i, k]");
  ASSERT_TRUE(wait([&] { return kernel->also() == "also Q:"; })) << kernel->also().toStdString() << window->tune()->current();
  choose("X[i, k]");
  EXPECT_TRUE(wait([&] { return kernel->also().isEmpty() && !kernel->tintedLines().empty(); }));
}

// In the body of a function a token leads to its own lines, whoever calls it, and so does the argument that stands for it in a call.
TEST_F(Selected, ATokenOfAFunctionLeadsToItsOwnLines) {
  openWith(
      "# %%\nlet N = 32\ninput X[N, N] = normal(0, 1)\nparam C[N, N] = normal(0, 0.2)\n\n"
      "# %%\ndef lin(x[n, m], w[m, o]) -> y {\n  y[i, j] = sum[k] x[i, k] * w[k, j]\n}\n\n"
      "# %%\nS = lin(X, C)\nshow S\n");
  KernelView* kernel = window->tune()->kernel();
  const auto linesOf = [&](const char* context, std::size_t at) {
    window->showPage(MainWindow::Page::Author);
    window->notebook()->scrollToByte(static_cast<std::uint32_t>(document().text().find(context) + at), true);
    window->showPage(MainWindow::Page::Tune);
    EXPECT_TRUE(wait([&] { return !kernel->empty() && !kernel->tintedLines().empty(); })) << context;
    return kernel->tintedLines();
  };
  const auto whole = linesOf("S = lin", 0), left = linesOf("x[i, k]", 2), right = linesOf("w[k, j]", 2);
  EXPECT_LT(left.size(), whole.size());
  EXPECT_LT(right.size(), whole.size());
  EXPECT_NE(left, right);
  EXPECT_EQ(linesOf("lin(X, C)", 4), left);
  EXPECT_EQ(linesOf("lin(X, C)", 7), right);
  QStringList tags;
  for (const auto& tag : kernel->tags()) tags << tag.text;
  EXPECT_TRUE(tags.contains("x[i, k]") && tags.contains("w[k, j]")) << tags.join(" | ").toStdString();
  EXPECT_TRUE(std::ranges::none_of(tags, [](const QString& t) { return t.contains("sum[k]"); })) << tags.join(" | ").toStdString();
}

// The word of a reduction within an expression is an operator, and where the same expression stands twice each word is its own: the two
// lead to mirror images, and to the lines that add up.
TEST_F(Selected, TheWordOfASumSelectsTheSumOfItsOwnCell) {
  openWith(
      "# %%\ninput X[32, 64] = normal(0, 1)\nparam W[64, 64] = normal(0, 0.2)\n\n"
      "# %%\nP[b, n] = exp(sum[k] X[b, k] * W[n, k])\n\n# %%\nQ[b, n] = exp(sum[k] X[b, k] * W[n, k])\n\n"
      "# %%\nM[b] = sum[n] P[b, n] * 0.01\nN[b] = sum[n] Q[b, n] * 0.01\nloss L = mean[b] (M[b] * N[b] - 0.5)^2\n\n"
      "# %%\nshow d(L)/d(W)\ntrain L { steps = 2000; optimizer = adam(lr = 0.001) }\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait(
      [&] { return !window->explain()->graph()->graph().nodes.empty() && !window->workspace().subgraphs().subgraphs.empty(); }));
  const std::string& text = document().text();
  const auto& spans = window->workspace().analysis().spans;
  std::size_t at = 0;
  for (const auto& [sum, part] : {std::pair("P.sum", "d(L)/d(W)#2"), {"Q.sum", "d(L)/d(W)#1"}}) {
    SCOPED_TRACE(sum);
    at = text.find("(sum[k]", at + 1);
    window->showPage(MainWindow::Page::Author);
    window->notebook()->scrollToByte(static_cast<std::uint32_t>(at) + 2, true);
    ASSERT_TRUE(wait([&] { return selection().isCalled(sum); }));
    ASSERT_TRUE(wait([&] { return selection().origins().size() == 1; }));
    EXPECT_EQ(spans[selection().origins().front()].begin, at + 1) << "its own place alone";
    const auto leadsTo = [&](const std::string& target) {
      return window->inspector()->findChild<QToolButton*>(QString::fromStdString(target)) != nullptr;
    };
    EXPECT_TRUE(wait([&] { return leadsTo("node:P.sum") && leadsTo("node:d(L)/d(W)"); }));
    EXPECT_TRUE(leadsTo(std::string("node:") + part));
    const char* const otherPart = part == std::string("d(L)/d(W)#1") ? "node:d(L)/d(W)#2" : "node:d(L)/d(W)#1";
    EXPECT_TRUE(wait([&] { return !leadsTo(otherPart); }));
    window->showPage(MainWindow::Page::Tune);
    KernelView* kernel = window->tune()->kernel();
    ASSERT_TRUE(wait([&] { return !kernel->tintedLines().empty(); }));
    const QStringList lines = kernel->text().split('\n');
    const std::vector<int> marked = kernel->tintedLines();
    int adds = 0;
    for (int i = 0; i < lines.size(); ++i) {
      const bool tinted = std::ranges::find(marked, i) != marked.end();
      if (lines[i].contains("= fma(")) {
        ++adds;
        EXPECT_TRUE(tinted) << lines[i].toStdString();
      }
      if (lines[i].contains("exp(")) { EXPECT_FALSE(tinted) << lines[i].toStdString(); }
    }
    EXPECT_GT(adds, 0);
  }
}

// The body of a loop is several kernels, the loop one node: a token is of the kernel of its statement.
TEST_F(Selected, ATokenInALoopLeadsToTheKernelsOfItsStatement) {
  openWith(
      "# %%\nlet B = 16, T = 6, D = 5, H = 8\ninput X[B, T, D] = normal(0, 1)\nparam Wx[4, H, D] = normal(0, 0.3)\n"
      "param Wh[4, H, H] = normal(0, 0.3)\nparam bb[4, H] = zeros()\nconst h[B, H] = zeros()\nconst c[B, H] = zeros()\n\n"
      "# %%\nfor t in 0..T {\n"
      "  A[b, g, j] = bb[g, j] + sum[d] X[b, t, d] * Wx[g, j, d] + sum[k] h[b, k] * Wh[g, j, k]\n"
      "  c[b, j] = sigmoid(A[b, 1, j]) * c[b, j] + sigmoid(A[b, 0, j]) * tanh(A[b, 2, j])\n"
      "  h[b, j] = sigmoid(A[b, 3, j]) * tanh(c[b, j])\n}\n\n"
      "# %%\nloss L = mean[b, j] (h[b, j] - 0.5)^2\ntrain L { optimizer = adam(lr = 1e-2); steps = 2000 }\n");
  window->showPage(MainWindow::Page::Tune);
  ASSERT_TRUE(wait([&] { return !window->workspace().subgraphs().subgraphs.empty(); }));
  const auto made = [&](const protocol::SubgraphInfo& s, const char* name) {
    return std::ranges::find(s.operators, name) != s.operators.end();
  };
  const auto& kernels = window->workspace().subgraphs().subgraphs;
  const auto ofA = std::ranges::find_if(kernels, [&](const auto& s) { return made(s, "A"); });
  const auto ofC = std::ranges::find_if(kernels, [&](const auto& s) { return made(s, "c"); });
  ASSERT_NE(ofA, kernels.end());
  ASSERT_NE(ofC, kernels.end());
  ASSERT_NE(ofA->id, ofC->id);
  const std::string a = "kernel:" + ofA->id, c = "kernel:" + ofC->id;
  for (const auto& [token, own, other] : {std::tuple("tanh(A[b, 2", c, a), {"bb[g, j]", a, c}}) {
    SCOPED_TRACE(token);
    window->showPage(MainWindow::Page::Author);
    window->notebook()->scrollToByte(static_cast<std::uint32_t>(document().text().find(token)) + 1, true);
    const auto leadsTo = [&](const std::string& target) {
      return window->inspector()->findChild<QToolButton*>(QString::fromStdString(target)) != nullptr;
    };
    EXPECT_TRUE(wait([&] { return leadsTo(own) && !leadsTo(other); }));
    window->showPage(MainWindow::Page::Tune);
    EXPECT_TRUE(wait([&] { return "kernel:" + window->tune()->current() == own; })) << window->tune()->current();
  }
}

// The word of a call is everything that the call makes, also where a derivative at that place reads some of it.
TEST_F(Selected, TheWordOfACallLeadsToAllThatItMakes) {
  openWith(
      "# %%\ninput X[40, 24] = normal(0, 1)\nparam g[24] = 1\nU[n, m] = X[n, m] * g[m]\nP = softmax(U)\n"
      "loss L = mean[n, m] (P[n, m] - 0.1)^2\n# %%\ntrain L { steps = 200; optimizer = adam(lr=1e-2) }\n");
  window->showPage(MainWindow::Page::Explain);
  ASSERT_TRUE(wait([&] { return !window->explain()->graph()->graph().nodes.empty(); }));
  window->showPage(MainWindow::Page::Author);
  window->notebook()->scrollToByte(static_cast<std::uint32_t>(document().text().find("softmax")) + 2, true);
  const auto leadsTo = [&](const char* node) {
    return window->inspector()->findChild<QToolButton*>(QStringLiteral("node:") + QString::fromLatin1(node)) != nullptr;
  };
  EXPECT_TRUE(wait([&] { return leadsTo("P.M") && leadsTo("P.E") && leadsTo("P.S") && leadsTo("P"); }));
  const auto led = window->explain()->ledOperators();
  for (const char* made : {"P.M", "P.E", "P.S", "P"}) EXPECT_TRUE(led.contains(made)) << made;
  // What fusion computes again, as often as the device's constants make it do so.
  const protocol::GraphPage& graph = window->explain()->graph()->graph();
  for (const protocol::GraphNode& node : graph.nodes)
    if (tensorOf(graph, node) == "P.E") { EXPECT_TRUE(led.contains(node.id)) << node.id; }
  EXPECT_FALSE(led.contains("U"));
  EXPECT_FALSE(led.contains("L"));
}

}  // namespace
}  // namespace nf
