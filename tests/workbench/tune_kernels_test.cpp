// SPDX-License-Identifier: GPL-3.0-or-later
// Tune's kernels with the engine that people have: where they lead, and what a mistake leaves of them.
#include <QListWidget>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QToolButton>

#include "tests/workbench/real_engine.h"
#include "widgets/expression_editor.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

// The kernels of what a mistake takes out stay, greyed, and are not offered to be measured; the others go on.
TEST_F(RealEngine, AMistakeLeavesTuneWhatItHad) {
  openChecked(
      "# %%\ninput X[24, 24] = normal(0, 1)\nparam W[24, 24] = normal(0, 1)\n\n"
      "# %%\nP[i, j] = sum[k] X[i, k] * W[k, j]\nshow P\n\n"
      "# %%\nR[i] = sum[j] X[i, j]^2\nshow R\n");
  window->showPage(MainWindow::Page::Tune);
  TuneView* tune = window->tune();
  const auto rows = [&] { return tune->list()->count(); };
  ASSERT_TRUE(wait([&] { return rows() == 2; }));
  const auto rowOf = [&](const char* name) {
    for (int i = 0; i < rows(); ++i)
      if (tune->list()->item(i)->text().contains(QLatin1String(name))) return tune->list()->item(i);
    return static_cast<QListWidgetItem*>(nullptr);
  };
  ASSERT_TRUE(rowOf("P") && rowOf("R"));
  QTest::mouseClick(tune->list()->viewport(), Qt::LeftButton, {}, tune->list()->visualItemRect(rowOf("P")).center());
  ASSERT_TRUE(wait([&] { return tune->measure()->isEnabled(); }));
  const std::string before = document().text();
  replace("X[i, k] *", "X[i, k] * $");
  ASSERT_GT(cell(1)->errors(), 0);
  const QColor muted = theme.colors().hint;
  ASSERT_TRUE(wait([&] { return rowOf("P") && rowOf("P")->foreground().color() == muted; }));
  EXPECT_EQ(rows(), 2);
  EXPECT_NE(rowOf("R")->foreground().color(), muted);
  EXPECT_FALSE(tune->measure()->isEnabled());
  EXPECT_TRUE(tune->measure()->toolTip().contains("mistake"));
  // Its code stays, and leads nowhere: the places are those of another text.
  EXPECT_FALSE(tune->kernel()->empty());
  const auto& selection = window->workspace().selection();
  const auto choices = selection.choices();
  auto* expression = tune->kernel()->findChild<QPlainTextEdit*>();
  ASSERT_NE(expression, nullptr);
  QTest::mouseClick(expression->viewport(), Qt::LeftButton, {}, expression->cursorRect().center() + QPoint(4, 0));
  EXPECT_EQ(selection.choices(), choices);
  QTest::mouseClick(tune->list()->viewport(), Qt::LeftButton, {}, tune->list()->visualItemRect(rowOf("R")).center());
  EXPECT_TRUE(wait([&] { return tune->measure()->isEnabled(); }));
  EXPECT_TRUE(wait([&] { return !tune->kernel()->empty(); }));
  // Chosen anew, it has no code to wait for.
  QTest::mouseClick(tune->list()->viewport(), Qt::LeftButton, {}, tune->list()->visualItemRect(rowOf("P")).center());
  EXPECT_TRUE(selection.isCalled("P"));
  EXPECT_FALSE(tune->kernel()->pending());
  replace("* $", "*");
  ASSERT_EQ(document().text(), before);
  EXPECT_TRUE(wait([&] { return rowOf("P")->foreground().color() != muted; }));
  EXPECT_EQ(rows(), 2);
  EXPECT_TRUE(wait([&] { return !tune->kernel()->empty() && !tune->kernel()->pending(); })) << "it is there again";
}

// The row of a kernel that two cells share selects both: it leads to what both lead to, whichever of them the inspector shows.
TEST_F(RealEngine, TheRowOfASharedKernelLeadsToWhatItsPlacesLeadTo) {
  openChecked(
      "# %%\nlet N = 24\ninput X[N, N] = normal(0, 1)\nparam W[N, N] = normal(0, 1)\nparam U[N, N] = normal(0, 1)\n\n"
      "# %%\nP[i, j] = sum[k] X[i, k] * W[k, j]\n\n"
      "# %%\nQ[i, j] = sum[k] X[i, k] * U[k, j]\n\n"
      "# %%\nloss L = mean[i, j] (P[i, j] * Q[j, i] - 1)^2\nshow d(L)/d(X)\n\n"
      "# %%\ntrain L { optimizer = sgd(lr=0.0001); steps = 3 }\n");
  window->showPage(MainWindow::Page::Tune);
  const auto kernelOf = [&](const std::string& name) -> const protocol::SubgraphInfo* {
    for (const auto& s : window->workspace().subgraphs().subgraphs)
      if (std::ranges::count(s.operators, name) > 0) return &s;
    return nullptr;
  };
  ASSERT_TRUE(wait([&] { return kernelOf("P") && kernelOf("W.next") && window->explain()->graph()->plan() != nullptr; }));
  window->tune()->chooseSubgraph(kernelOf("P")->id);
  QListWidget* list = window->tune()->list();
  QTest::mouseClick(list->viewport(), Qt::LeftButton, {}, list->visualItemRect(list->currentItem()).center());
  const auto& selection = window->workspace().selection();
  ASSERT_TRUE(selection.isCalled("P") && selection.isCalled("Q"));
  window->showPage(MainWindow::Page::Author);
  const auto leadsTo = [&](const std::string& target) {
    return wait([&] {
      const auto* lead = window->inspector()->findChild<QToolButton*>(QString::fromStdString(target));
      return lead && lead->isVisible();
    });
  };
  for (const std::string name : {"P", "Q", "d(L)/d(W)", "d(L)/d(U)"}) EXPECT_TRUE(leadsTo("node:" + name)) << name;
  for (const char* name : {"W.next", "U.next"}) EXPECT_TRUE(leadsTo("kernel:" + kernelOf(name)->id)) << name;
}

// An access that is a place of its own only for the gradient: whichever kernel was open, the one that reads it is shown.
TEST_F(RealEngine, AnAccessLeadsToTheKernelThatReadsItAndMarksThatOfItsGradient) {
  openChecked(
      "# %%\nlet N = 64\ninput X[N, N] = normal(0, 1)\nparam W1[N, N] = normal(0, 0.1)\nparam W2[N, N] = normal(0, 0.1)\n\n"
      "# %%\nP[i, j] = sum[k] X[i, k] * W1[k, j]\n\n"
      "# %%\nQ[i, j] = sum[k] X[i, k] * W2[k, j]\n\n"
      "# %%\nR[i, j] = relu(2 * P[i, j] + Q[i, j])\nloss L = mean[i, j] (R[i, j] - 1)^2\n\n"
      "# %%\ntrain L { optimizer = adam(lr=0.001); steps = 3 }\n");
  window->showPage(MainWindow::Page::Tune);
  const auto& all = window->workspace().subgraphs().subgraphs;
  const auto kernelOf = [&](const std::string& name) {
    const auto s = std::ranges::find_if(all, [&](const auto& k) { return std::ranges::count(k.operators, name) > 0; });
    return s == all.end() ? std::string() : s->id;
  };
  ASSERT_TRUE(wait([&] { return !kernelOf("Q").empty() && !kernelOf("W2.next").empty() && window->explain()->graph()->plan(); }));
  ASSERT_NE(kernelOf("Q"), kernelOf("W2.next"));
  TuneView* tune = window->tune();
  const auto bar = [&](const std::string& id) {
    const auto row = std::ranges::find(all, id, &protocol::SubgraphInfo::id) - all.begin();
    QListWidget* list = tune->list();
    list->scrollToItem(list->item(static_cast<int>(row)));
    const QRect r = list->visualItemRect(list->item(static_cast<int>(row)));
    return list->viewport()->grab().toImage().pixelColor(1, r.center().y()) == theme.colors().accent;
  };
  const std::size_t at = document().text().find("W2[k, j]");
  for (const char* open : {"W1.next", "W2.next", "Q"}) {
    SCOPED_TRACE(open);
    window->showPage(MainWindow::Page::Tune);
    tune->chooseSubgraph(kernelOf(open));
    window->notebook()->activate(cell(2)->id(), true);
    cell(2)->editor()->moveCaretTo(0);
    cell(2)->editor()->moveCaretTo(static_cast<int>(at + 1 - document().text().find("Q[i, j]")));
    ASSERT_EQ(selection().reads(), "W2");
    EXPECT_TRUE(wait([&] { return tune->current() == kernelOf("Q"); })) << tune->current();
    EXPECT_TRUE(bar(kernelOf("Q")) && bar(kernelOf("W2.next")));
    EXPECT_FALSE(bar(kernelOf("W1.next")));
  }
}

}  // namespace
}  // namespace nf
