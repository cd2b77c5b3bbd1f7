// SPDX-License-Identifier: GPL-3.0-or-later
// Names of cells and nodes: what the outline calls a cell, and what a search in the graph finds.
#include <gtest/gtest.h>

#include <QLineEdit>
#include <QTest>

#include "tests/widgets/capsule.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/explain_view.h"
#include "widgets/graph_names.h"
#include "widgets/graph_view.h"
#include "widgets/names.h"
#include "widgets/outline_view.h"

namespace nf {
namespace {

TEST(Names, WhatADerivativeIsByKeepsItsOwnNumber) {
  EXPECT_EQ(shortName(QStringLiteral("d(L)/d(A#1)")), "d(A#1)");
  EXPECT_EQ(shortName(QStringLiteral("d(L)/d(A)#1")), "dA#1");
  EXPECT_EQ(derivativeText(QStringLiteral("d(L)/d(A#1) + d(L)/d(A)")), "dL/d(A#1) + dL/dA");
  EXPECT_EQ(lossOf("d(La)/d(W)#2"), "La");
  EXPECT_EQ(lossOf("W.next"), "");
}

TEST(ShortName, NamesTheLossWhereThereAreSeveral) {
  const std::string text = "d(L1)/d(W)#2 + d(L2)/d(W)";
  EXPECT_EQ(shortName(text), "dW#2 + dW");
  setSeveralLosses(true);
  EXPECT_EQ(shortName(text), "dL1/dW#2 + dL2/dW");
  setSeveralLosses(false);
  EXPECT_EQ(shortName(text), "dW#2 + dW");
}

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
  for (const char* name : {"dW", "dL/dW", "d(L)/d(W)"}) {
    view.finder()->clear();
    QTest::keyClicks(view.finder(), name);
    EXPECT_EQ(view.graph()->chosen(), "d(L)/d(W)") << name;
  }
  QTest::keyClicks(view.finder(), "hatever");
  EXPECT_EQ(view.foundText(), "nothing");
  // Escape leaves it at what was found; the keys are the graph's then.
  view.finder()->clear();
  QTest::keyClicks(view.finder(), "dW");
  view.finder()->setFocus();
  QTest::keyClick(view.finder(), Qt::Key_Escape);
  EXPECT_EQ(view.finder()->text(), "");
  EXPECT_EQ(view.focusWidget(), view.graph());
  EXPECT_EQ(view.graph()->chosen(), "d(L)/d(W)");
  // By the name of a gradient that is equal to another one, which computes it.
  auto merged = capsule::graph(2, "fused");
  for (auto& node : merged.nodes)
    if (node.id == "d(L)/d(W)") node.merged = {{node.id, {}}, {"d(L)/d(Twin)", {}}};
  view.setGraph(merged);
  QTest::keyClicks(view.finder(), "dTwin");
  EXPECT_EQ(view.graph()->chosen(), "d(L)/d(W)");
  EXPECT_EQ(nodeTitle(merged, *std::ranges::find_if(merged.nodes, [](const auto& n) { return n.id == "d(L)/d(W)"; })),
            "dW = dTwin");
  view.reset();  // another notebook
  EXPECT_EQ(view.finder()->text(), "");
  EXPECT_EQ(view.foundText(), "");
}

// Two kernels of one name are two rows: with the loss, the loop, or a number, and each leads to its own place in the graph.
TEST(KernelNames, NoTwoAreAlike) {
  const auto named = [](const char* name, const char* loop = "") {
    protocol::SubgraphInfo s;
    s.name = name, s.loop = loop, s.operators = {"c"};
    return s;
  };
  EXPECT_EQ(kernelNames({named("d(L)/d(c)"), named("Y")}), (QStringList{"dc", "Y"}));
  EXPECT_EQ(kernelNames({named("d(L)/d(c)"), named("d(M)/d(c)")}), (QStringList{"dL/dc", "dM/dc"}));
  EXPECT_EQ(kernelNames({named("d(L)/d(c)"), named("d(L)/d(c)", "h#2")}), (QStringList{"dL/dc", "dL/dc in the loop of h#2"}));
  EXPECT_EQ(kernelNames({named("c"), named("c")}), (QStringList{"c (1)", "c (2)"}));
  EXPECT_EQ(nodesOf(named("c")), std::vector<std::string>{"c"});
  EXPECT_EQ(nodesOf(named("c", "h#2")), std::vector<std::string>{"h#2"});
}

}  // namespace
}  // namespace nf
