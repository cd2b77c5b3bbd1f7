// SPDX-License-Identifier: GPL-3.0-or-later
// Names of cells and nodes: what the outline calls a cell, and what a search in the graph finds.
#include <gtest/gtest.h>

#include <QLineEdit>
#include <QTest>

#include "tests/widgets/capsule.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/explain_view.h"
#include "widgets/graph_view.h"
#include "widgets/outline_view.h"

namespace nf {
namespace {

TEST(CellTitle, NamesWhatAPersonNamedAndNotItsParts) {
  const auto isResult = [](const std::string& name) { return name == "L" || name == "accuracy"; };
  EXPECT_EQ(cellTitle({"P.sum", "P", "L"}, isResult), "P, L");
  EXPECT_EQ(cellTitle({"A", "B", "L.P.M", "L.P.S", "L.P", "C", "L", "accuracy"}, isResult), "L, accuracy, A, ...");
  EXPECT_EQ(cellTitle({"A", "B", "L"}, isResult), "A, B, L");
  EXPECT_EQ(cellTitle({"X.a", "X.b", "X.c", "X.d"}, isResult), "X.a, X.b, X.c, ...") << "there is nothing else to name it by";
  EXPECT_EQ(cellTitle({"h#1", "c#1", "h.W", "h", "Score"}, isResult), "h, c, Score") << "as they are written";
  EXPECT_EQ(cellTitle({}, isResult), "");
}

TEST_F(Widgets, ASearchInTheGraphFindsTheNodeOfThatNameFirst) {
  ExplainView view(&theme, &selection);
  view.resize(1600, 900);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  EXPECT_EQ(view.foundText(), "");
  QTest::keyClicks(view.finder(), "w");
  EXPECT_EQ(view.graph()->chosen(), "W") << "not dW, which holds it";
  const auto hits = view.graph()->found("w").size();
  ASSERT_GE(hits, 2u);
  EXPECT_EQ(view.foundText(), QString("1 of %1").arg(hits));
  QTest::keyClick(view.finder(), Qt::Key_Return);
  EXPECT_NE(view.graph()->chosen(), "W");
  EXPECT_EQ(view.foundText(), QString("2 of %1").arg(hits));
  QTest::keyClicks(view.finder(), "hatever");
  EXPECT_EQ(view.foundText(), "nothing");
  view.reset();  // another notebook
  EXPECT_EQ(view.finder()->text(), "");
  EXPECT_EQ(view.foundText(), "");
}

}  // namespace
}  // namespace nf
