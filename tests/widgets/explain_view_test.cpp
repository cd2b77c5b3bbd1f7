// SPDX-License-Identifier: GPL-3.0-or-later
// The explain page: decisions of fusion with their numbers, what is measured, asked for and outlined.
#include <gtest/gtest.h>

#include <QComboBox>
#include <QCoreApplication>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QTableView>
#include <QTableWidget>
#include <QTest>
#include <QToolButton>

#include "core/document/document.h"
#include "tests/widgets/capsule.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/decision_card.h"
#include "widgets/explain_view.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_view.h"

namespace nf {
namespace {

using namespace protocol;

// The page as it stands open on the capsule's graph.
struct Explain : Widgets {
  ExplainView view{&theme, &selection};
  Explain() {
    view.resize(1600, 900);
    view.show();
    view.setGraph(capsule::graph(1, "fused"));
  }
};

TEST_F(Widgets, FusionDecisionsShowTheirNumbers) {
  FusionModel model;
  model.setReport(capsule::fusion(1));
  const auto text = [&](int row, int column) { return model.data(model.index(row, column), Qt::DisplayRole).toString(); };
  EXPECT_EQ(text(1, FusionModel::kPair), "Y → L");
  EXPECT_EQ(text(1, FusionModel::kTraffic), "+3.20");
  EXPECT_EQ(text(1, FusionModel::kLaunchUs), "+4.20");
  EXPECT_EQ(text(2, FusionModel::kWork), "-231.0");
  const auto unit = [&](int column) { return model.headerData(column, Qt::Horizontal, Qt::DisplayRole).toString(); };
  EXPECT_EQ(unit(FusionModel::kTraffic), "dT  MB");
  protocol::FusionReport small = capsule::fusion(1);
  for (auto& d : small.decisions) d.dT = d.dT > 0 ? 8 : 0;
  FusionModel other;
  other.setReport(small);
  EXPECT_EQ(other.headerData(FusionModel::kTraffic, Qt::Horizontal, Qt::DisplayRole).toString(), "dT  B");
  EXPECT_EQ(other.data(other.index(1, FusionModel::kTraffic), Qt::DisplayRole).toString(), "+8");
  // Numbers of a column are compared: only what is far too small for its unit has its own.
  small.decisions[0].dT = 1.2e6, small.decisions[2].dT = -2500;
  other.setReport(small);
  EXPECT_EQ(other.headerData(FusionModel::kTraffic, Qt::Horizontal, Qt::DisplayRole).toString(), "dT  MB");
  EXPECT_EQ(other.data(other.index(0, FusionModel::kTraffic), Qt::DisplayRole).toString(), "+1.20");
  EXPECT_EQ(other.data(other.index(1, FusionModel::kTraffic), Qt::DisplayRole).toString(), "+8 B");
  EXPECT_EQ(other.data(other.index(2, FusionModel::kTraffic), Qt::DisplayRole).toString(), "-0.0025");
  EXPECT_EQ(text(2, FusionModel::kState), "refused");
  EXPECT_TRUE(model.csv().contains("\"Y\",\"L\",\"One+One\",3200000"));
  small.decisions[0].R = 1.1e-6;
  other.setReport(small);
  EXPECT_TRUE(other.csv().contains(",1.1e-06,")) << other.csv().toStdString();
  // The terms of R add up in the file, beside what was measured and the constants that they count with.
  small.decisions[0].measuredSaving = protocol::Measured{2.5, 2, 3, {}};
  other.setReport(small);
  const QStringList rows = other.csv().split(QLatin1Char('\n'));
  const QStringList names = rows[0].split(QLatin1Char(',')), first = rows[1].split(QLatin1Char(','));
  const auto field = [&](const char* name) { return first.at(names.indexOf(QLatin1String(name))); };
  EXPECT_NEAR(field("dT_seconds").toDouble(), small.decisions[0].dT / small.device.bandwidth * small.decisions[0].repeats, 1e-12);
  EXPECT_NEAR(field("dK_seconds").toDouble(), small.decisions[0].dK * small.device.launchSeconds * small.decisions[0].repeats,
              1e-12);
  EXPECT_EQ(field("measured_seconds"), QStringLiteral("2.5e-06"));
  EXPECT_EQ(first.at(first.size() - 1).toDouble(), small.device.launchSeconds);
  EXPECT_EQ(names.last(), QStringLiteral("L"));
  // One notation in every view; the source's own names where something is written for a program.
  EXPECT_EQ(text(0, FusionModel::kPair), "dW → W <-");
  EXPECT_TRUE(model.csv().contains("\"d(L)/d(W)\",\"W <-\""));
}

TEST_F(Widgets, AMeasuredSavingAndItsIntervalHaveRoom) {
  ExplainView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  FusionReport report = capsule::fusion(1);
  report.decisions[1].measuredSaving = Measured{101.9, 88.8, 115.0, {}};
  view.setFusion(report);
  const auto cell = view.table()->model()->index(1, FusionModel::kMeasured);
  ASSERT_EQ(cell.data().toString(), "+101.9 [+88.8, +115.0]");
  EXPECT_LE(view.table()->sizeHintForIndex(cell).width(), view.table()->columnWidth(FusionModel::kMeasured));
  report.decisions[1].measuredSaving = Measured{0.0148, 0.014632, 0.014968, {}};  // a kernel of some nanoseconds
  view.setFusion(report);
  EXPECT_EQ(view.table()->model()->index(1, FusionModel::kMeasured).data().toString(), "+0.0148 [+0.0146, +0.0150]");
  report.decisions[1].measuredSaving = Measured{-12345.6, -12345.61, -12345.59, {}};
  view.setFusion(report);
  EXPECT_EQ(view.table()->model()->index(1, FusionModel::kMeasured).data().toString(), "-12345.60 [-12345.61, -12345.59]");
  // It takes its room from the names: the state stands where it stood, and in sight.
  const QHeaderView* columns = view.table()->horizontalHeader();
  EXPECT_EQ(columns->visualIndex(FusionModel::kState), columns->count() - 1);
  EXPECT_LE(columns->length(), view.table()->viewport()->width());
}

// What flips a decision stands on its card, or why nothing does.
TEST_F(Widgets, EveryDecisionSaysWhatFlipsItOrWhyNothingDoes) {
  protocol::FusionDecisionInfo d = capsule::fusion(1).decisions[0];
  EXPECT_EQ(neverFlips(d), QString());
  d.flips.clear();
  d.curve.reset();
  EXPECT_TRUE(neverFlips(d).startsWith("None: it saves traffic and launches and costs nothing")) << neverFlips(d).toStdString();
  DecisionCard card(&theme);
  d.category = "One+Many", d.producerClass = "reduction", d.consumerClass = "injective";
  card.setDecision(1, d, capsule::fusion(1).device, Document::FusionHint::None);
  const auto labels = card.findChildren<QLabel*>();
  EXPECT_TRUE(std::any_of(labels.begin(), labels.end(), [](const QLabel* l) {
    return l->text().contains("is a reduction,") && l->text().contains("is injective.");
  }));
  const auto* words = card.findChild<QLabel*>("neverFlips");
  ASSERT_TRUE(words);
  EXPECT_EQ(words->text(), neverFlips(d));
  EXPECT_TRUE(words->isVisibleTo(&card));
  d.state = protocol::FusionState::NotLowerable;
  EXPECT_TRUE(neverFlips(d).endsWith("What keeps the two apart is no number."));
  d.dT = -d.dT, d.dK = 0;
  EXPECT_TRUE(neverFlips(d).startsWith("None: it costs traffic and saves nothing"));
  d.dT = 0;
  EXPECT_TRUE(neverFlips(d).startsWith("Nothing is left to count"));
}

// What leaves something is less than all of it; what is more than twice as much is told by how many times.
TEST_F(Widgets, AChangeThatFlipsIsToldAsFarAsItGoes) {
  protocol::FusionDecisionInfo d = capsule::fusion(1).decisions[0];
  for (const auto& [now, then, text] :
       {std::tuple{179e9, 604e6, "-99.7 %"}, std::tuple{100.0, 88.0, "-12 %"}, std::tuple{100.0, 140.0, "+40 %"},
        std::tuple{100.0, 340.0, "× 3.40"}, std::tuple{1e9, 1e3, "-99.9999 %"}}) {
    d.flips = {{"P_c", now, then, now < then, "FLOP/s"}};
    DecisionCard card(&theme);
    card.setDecision(1, d, capsule::fusion(1).device, Document::FusionHint::None);
    int found = 0;
    for (const QLabel* l : card.findChildren<QLabel*>()) found += l->text() == text || l->text() == QStringLiteral("P_c, ") + text;
    EXPECT_EQ(found, 2) << text << ": in its row and beside the title";
  }
}

TEST_F(Widgets, ADecisionCardIsNeverWiderThanItsPanel) {
  FusionReport report = capsule::fusion(1);
  FusionDecisionInfo d = report.decisions[2];
  d.producer = "d(L)/d(V.Logit.0.sum.over.every.capsule)", d.consumer = "d(L)/d(Votes.of.all.the.capsules.below)";
  d.traffic.push_back({"d(L)/d(V.Logit.0.sum.over.every.capsule.of.the.layer)", 3e6});
  d.flips.push_back({"d(L)/d(V.Logit.0.sum.over.every.capsule)", 401408, 3e6, true, "B"});
  for (const int width : {DecisionCard::kLeastWidth, 376, 500})
    for (const auto hint : {Document::FusionHint::None, Document::FusionHint::Fuse, Document::FusionHint::Split}) {
      SCOPED_TRACE(width);
      DecisionCard card(&theme);
      card.resize(width, 700);
      card.show();
      card.setDecision(3, d, report.device, hint);
      QCoreApplication::processEvents();
      const auto* scroll = card.findChild<QScrollArea*>();
      EXPECT_LE(scroll->widget()->minimumSizeHint().width(), scroll->viewport()->width());
      for (const QPushButton* b : {card.force(), card.forbid(), card.release(), card.measure()}) {
        if (!b->isVisible()) continue;
        EXPECT_GE(b->mapTo(&card, QPoint()).x(), 0) << b->text().toStdString();
        EXPECT_LE(b->mapTo(&card, QPoint(b->width(), 0)).x(), width) << b->text().toStdString();
      }
    }
}

// A figure that decides says how far it may be off, as on Devices; what an A/B saves says which statistic it is.
TEST_F(Widgets, WhatADecisionCountsWithHasItsInterval) {
  FusionReport report = capsule::fusion(1);
  report.device.bandwidth = 20.2e9, report.device.bandwidthInterval = {19.9e9, 20.9e9, 64};
  report.device.launchInterval = {};
  DecisionCard card(&theme);
  card.setDecision(1, report.decisions[0], report.device, Document::FusionHint::None);
  const auto* constants = card.findChild<QLabel*>("constants");
  ASSERT_TRUE(constants);
  EXPECT_TRUE(constants->text().contains("P_d 20.2 GB/s  [19.9, 20.9]  n = 64")) << constants->text().toStdString();
  EXPECT_TRUE(constants->text().endsWith("L " + microsecondsText(report.device.launchSeconds * 1e6))) << "none is known of it";
  FusionModel model;
  report.decisions[0].measuredSaving = Measured{-5.9, -36.3, 24.5, {-6, -5.9, 3}};
  report.decisions[1].measuredSaving = Measured{2, 1, 3, {}};
  model.setReport(report);
  const auto tip = [&](int row) { return model.data(model.index(row, FusionModel::kMeasured), Qt::ToolTipRole).toString(); };
  EXPECT_TRUE(tip(0).contains("3 paired differences"));
  EXPECT_TRUE(tip(1).contains("that took the fusion back"));
  EXPECT_FALSE(tip(0).contains("loop"));
  // R is of a step, and so is what stands beside it.
  report.decisions[1].repeats = 8;
  model.setReport(report);
  EXPECT_EQ(model.data(model.index(1, FusionModel::kMeasured), Qt::DisplayRole).toString(), "+16.0 [+8.0, +24.0]");
  EXPECT_EQ(model.data(model.index(1, FusionModel::kMeasured), FusionModel::kSortRole).toDouble(), 16);
  EXPECT_TRUE(tip(1).contains("times its 8 passes"));
  card.setDecision(2, report.decisions[1], report.device, Document::FusionHint::None);
  EXPECT_TRUE(card.whatIf().startsWith(
      "Measured in pairs: fused is faster by 16.0 µs [8.00, 24.0], the median difference. That is 8 passes of the loop. R said"))
      << card.whatIf().toStdString();
}

TEST_F(Explain, ForceAndForbidAreAskedForByName) {
  view.setFusion(capsule::fusion(1));
  QString producer, consumer;
  Document::FusionHint hint = Document::FusionHint::None;
  QObject::connect(&view, &ExplainView::hintRequested, &view,
                   [&](const QString& p, const QString& c, Document::FusionHint h) { producer = p, consumer = c, hint = h; });
  view.chooseDecision(2);
  EXPECT_EQ(selection.origins(), (Origins{0, 3}));
  QTest::mouseClick(view.card()->force(), Qt::LeftButton);
  EXPECT_EQ(producer, "Y");
  EXPECT_EQ(consumer, "d(L)/d(Y)");
  EXPECT_EQ(hint, Document::FusionHint::Fuse);
  QTest::mouseClick(view.card()->forbid(), Qt::LeftButton);
  EXPECT_EQ(hint, Document::FusionHint::Split);
  view.grab();
}

// One of the tensors that a loop makes: the loop's node is its end, and leads to it.
TEST_F(Explain, ADecisionOnATensorOfALoopStandsAtTheLoopsNode) {
  FusionReport report = capsule::fusion(1);
  report.decisions[1].producer = "Y_steps";
  view.setFusion(report);
  view.table()->setCurrentIndex(view.table()->model()->index(1, 0));
  QStringList outlined;
  const auto& nodes = view.graph()->graph().nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (view.graph()->isOutlined(i)) outlined << QString::fromStdString(nodes[i].id);
  outlined.sort();
  EXPECT_EQ(outlined.join(' '), "L Y");
  EXPECT_FALSE(view.graph()->decisionPlace().isNull());
  selection.clear();
  selection.select({}, {"Y"});
  const auto related = view.relatedDecisions();
  EXPECT_EQ(std::ranges::count(related, 1), 1);
}

// The card names it and says to choose it in the table.
TEST_F(Explain, TheDecisionOfWhatIsSelectedStaysInSightWhereTheTableShrinks) {
  FusionReport report = capsule::fusion(1);
  const FusionDecisionInfo last = report.decisions.back();
  report.decisions.insert(report.decisions.begin(), 40, report.decisions.front());
  for (auto& d : report.decisions) d.origins = {0}, d.consumerOrigins = {0};
  report.decisions.back().origins = last.origins, report.decisions.back().consumerOrigins = last.consumerOrigins;
  selection.select(last.origins);
  view.setFusion(report);
  const auto related = view.relatedDecisions();
  ASSERT_EQ(related, std::vector<int>{static_cast<int>(report.decisions.size()) - 1});
  const auto inSight = [&] {
    for (int row = 0; row < view.table()->model()->rowCount(); ++row)
      if (const QModelIndex index = view.table()->model()->index(row, 1);
          view.table()->model()->data(index, FusionModel::kDecisionRole).toInt() == related.front())
        return view.table()->viewport()->rect().intersects(view.table()->visualRect(index));
    return false;
  };
  EXPECT_TRUE(inSight());
  view.table()->scrollToTop();
  EXPECT_FALSE(inSight());
  view.resize(view.width() - 300, view.height() - 200);
  EXPECT_TRUE(QTest::qWaitFor(inSight));
}

// The one in the card, as other rows come and as the table shrinks.
TEST_F(Explain, AChosenDecisionStaysInSight) {
  FusionReport report = capsule::fusion(1);
  for (int i = 0; i < 40; ++i) {
    FusionDecisionInfo d = report.decisions[0];
    d.producer = "P" + std::to_string(i);
    report.decisions.push_back(d);
  }
  view.setFusion(report);
  const auto inSight = [&] {
    const QModelIndex now = view.table()->currentIndex();
    return now.isValid() && view.table()->viewport()->rect().contains(view.table()->visualRect(now).center());
  };
  view.chooseDecision(static_cast<int>(report.decisions.size()) - 1);
  EXPECT_TRUE(inSight());
  view.table()->scrollToTop();
  EXPECT_FALSE(inSight());
  view.resize(view.width() - 300, view.height() - 200);
  EXPECT_TRUE(QTest::qWaitFor(inSight));
  std::rotate(report.decisions.begin(), report.decisions.begin() + 10, report.decisions.end());
  view.setFusion(report);
  EXPECT_TRUE(inSight());
  ASSERT_TRUE(view.chosenDecision());
  EXPECT_EQ(view.chosenDecision()->producer, "P39");
}

TEST_F(Explain, TheTablesOfThePageFollowTheSelectionAndLeadIt) {
  view.setFusion(capsule::fusion(1));
  selection.select({3});
  EXPECT_EQ(view.relatedDecisions(), (std::vector<int>{1, 2, 3}));
  QStringList rows;
  for (const QModelIndex& i : view.nodes()->selectionModel()->selectedRows()) rows << i.data().toString();
  rows.sort();
  EXPECT_EQ(rows.join(' '), "L dY");
  // A token inside an operator: the one that holds it, what was derived from it or reads it, and the tensor that it reads.
  selection.select({1});
  selection.read("A");
  rows.clear();
  for (const QModelIndex& i : view.nodes()->selectionModel()->selectedRows()) rows << i.data().toString();
  rows.sort();
  EXPECT_EQ(rows.join(' '), "A Y dW");
  const auto& nodes = view.graph()->graph().nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    EXPECT_EQ(view.graph()->isOutlined(i), nodes[i].id == "A" || nodes[i].id == "Y" || nodes[i].id == "d(L)/d(W)") << nodes[i].id;
  // Decisions of what was derived from an access, and of what carries the tensor to it, which nothing makes here.
  selection.select({2});
  selection.read("W");
  EXPECT_EQ(view.relatedDecisions(), (std::vector<int>{0, 3}));
  selection.clear();
  EXPECT_TRUE(view.nodes()->selectionModel()->selectedRows().isEmpty());
  view.nodes()->setFocus();
  view.nodes()->setCurrentCell(2, 0);
  EXPECT_EQ(view.graph()->chosen(), "Y");
  QTest::keyClick(view.nodes(), Qt::Key_Down);
  EXPECT_EQ(view.graph()->chosen(), "L");
  EXPECT_EQ(selection.origins(), Origins{3});
}

// Its first row gets the keyboard with it, and is not chosen by that; a click on it is a choice.
TEST_F(Explain, LookingAtTheGraphAsATableChoosesNothing) {
  view.graph()->choose("L", true);
  const Origins chosen = selection.origins();
  view.graph()->setFocus();
  QToolButton* asTable = nullptr;
  for (QToolButton* b : view.findChildren<QToolButton*>())
    if (b->text() == "As table") asTable = b;
  ASSERT_TRUE(asTable);
  asTable->click();
  view.nodes()->setFocus();
  ASSERT_TRUE(QTest::qWaitFor([&] { return view.nodes()->isVisible() && view.nodes()->hasFocus(); }));
  EXPECT_EQ(view.graph()->chosen(), "L");
  EXPECT_EQ(selection.origins(), chosen);
  const QTableWidgetItem* first = view.nodes()->item(0, 0);
  QTest::mouseClick(view.nodes()->viewport(), Qt::LeftButton, {}, view.nodes()->visualItemRect(first).center());
  EXPECT_EQ(view.graph()->chosen(), first->data(Qt::UserRole).toString());
}

// Columns take what they say, and the names have the rest: nothing is cut where there is room for all of it.
// What a pass did is counted where it is looked for, nothing too.
TEST_F(Explain, WhatAPassChangedIsCounted) {
  ExplainView view(&theme, &selection);
  view.resize(1400, 900);
  view.show();
  auto graph = capsule::graph(1, "transformed");
  for (GraphNode& n : graph.nodes) n.added = n.changed = false;
  view.setGraph(graph);
  const QString counts = view.counts();
  EXPECT_TRUE(counts.startsWith("7 nodes, ")) << counts.toStdString();
  const auto buttons = view.findChildren<IconButton*>();
  const auto eye = std::ranges::find_if(buttons, [](const IconButton* b) { return b->text() == "What this pass changed"; });
  ASSERT_NE(eye, buttons.end());
  QTest::mouseClick(*eye, Qt::LeftButton);
  EXPECT_EQ(view.counts(), counts + ", nothing that this pass added or changed");
  graph.nodes[1].added = graph.nodes[2].added = graph.nodes[3].changed = true;
  view.setGraph(graph);
  EXPECT_EQ(view.counts(), counts + ", 2 added, 1 changed");
  QTest::mouseClick(*eye, Qt::LeftButton);
  EXPECT_EQ(view.counts(), counts);
}

TEST_F(Explain, NamesOfDecisionsAreWholeInAWideTable) {
  FusionReport report = capsule::fusion(1);
  report.decisions[0].producer = "V.Logit.0.sum", report.decisions[0].consumer = "V.Logit.0.sum_steps";
  view.resize(1600, 900);
  view.show();
  view.setFusion(report);
  const QTableView* table = view.table();
  ASSERT_TRUE(QTest::qWaitFor([&] { return table->viewport()->width() > 1000; }));
  const auto fits = [&] {
    for (int row = 0; row < table->model()->rowCount(); ++row)
      for (int c = 0; c < FusionModel::kColumns; ++c)
        if (QFontMetrics(c == FusionModel::kCategory || c == FusionModel::kState ? theme.ui(12) : theme.mono(12))
                    .horizontalAdvance(table->model()->index(row, c).data().toString()) +
                16 + (c == FusionModel::kState ? 22 : 0) >
            table->columnWidth(c))
          return false;
    return true;
  };
  EXPECT_TRUE(QTest::qWaitFor(fits));
  EXPECT_EQ(table->horizontalScrollBar()->maximum(), 0);
  // What somebody has made wider stays so.
  QHeaderView* header = table->horizontalHeader();
  header->resizeSection(FusionModel::kMeasured, 230);
  report.revision = 2;
  view.setFusion(report);
  EXPECT_EQ(table->columnWidth(FusionModel::kMeasured), 230);
}

// An operator that several kernels compute is a decision's end in each of them; what was measured holds while it is decided alike.
TEST_F(Widgets, ADecisionIsOutlinedWhereverItIsComputed) {
  GraphView view(&theme, &selection);
  view.resize(900, 500);
  GraphPage g = capsule::graph(1, "fused");
  GraphNode again = g.nodes[2];
  again.id = again.name = "Y#2", again.added = true;
  g.nodes.insert(g.nodes.begin() + 2, again);
  g.edges.insert(g.edges.begin(), GraphEdge{"Y#2", "L", "Y", 4, false, false});
  g.groups[0].nodes = {"Y#2", "L"};
  g.groups[1].nodes = {"Y", "d(L)/d(Y)"};
  std::erase_if(g.edges, [](const GraphEdge& e) { return e.from == "Y" && e.to == "L"; });
  view.setGraph(g);
  view.toggleGroup(0);
  selection.select({0, 3}, {"Y", "L"});
  view.setDecision("Y", "L", "R +1.00 µs");
  QStringList outlined;
  for (std::size_t i = 0; i < g.nodes.size(); ++i)
    if (view.isOutlined(i)) outlined << QString::fromStdString(view.graph().nodes[i].id);
  outlined.sort();
  EXPECT_EQ(outlined.join(' '), "L Y Y#2");
  ASSERT_FALSE(view.decisionPlace().isNull());
  const QRectF group = view.layoutOf().groups[0].rect;
  EXPECT_LT(std::abs(view.decisionPlace().center().x() - group.center().x()), group.width())
      << "beside the kernel that it is about";
}

TEST_F(Explain, WhatTheStepDoesWithoutIsMarkedInGraphAndTable) {
  GraphPage page = capsule::graph(1, "fused");
  view.setGraph(page);
  const QImage inside = view.graph()->grab().toImage();
  const auto outside = std::find_if(page.nodes.begin(), page.nodes.end(), [](const GraphNode& n) { return n.id == "d(L)/d(W)"; });
  ASSERT_NE(outside, page.nodes.end());
  outside->outsideStep = true;
  view.setGraph(page);
  EXPECT_NE(view.graph()->grab().toImage(), inside);
  const auto row = static_cast<int>(outside - page.nodes.begin());
  EXPECT_EQ(view.nodes()->model()->index(row, 1).data().toString(), "outside the step");
  EXPECT_NE(view.nodes()->model()->index(row == 0 ? 1 : 0, 1).data().toString(), "outside the step");
}

TEST_F(Explain, WhatWasMeasuredHoldsWhileItIsDecidedAlike) {
  FusionReport report = capsule::fusion(1);
  view.setFusion(report);
  view.chooseDecision(2);
  view.setComparison({"Y",
                      "d(L)/d(Y)",
                      "cpu",
                      {41, 40, 42, {41}},
                      {43, 42, 44, {43}},
                      {-2, -3, -1, {-2}},
                      "Fused is slower.",
                      "",
                      {"Y + d(L)/d(Y)"},
                      {"Y", "d(L)/d(Y)"}});
  QCoreApplication::processEvents();
  EXPECT_TRUE(view.card()->intervals());
  for (const QWidget* w = view.card()->forbid(); w; w = w->parentWidget())
    EXPECT_FALSE(qobject_cast<const QScrollArea*>(w)) << "a button is never scrolled out of sight";
  view.setFusion(report);
  EXPECT_EQ(view.card()->whatIf(), "Fused is slower.");
  // Another engine has constants of its own, and an older measurement on record.
  FusionReport restarted = report;
  restarted.decisions[2].R *= 1.25;
  restarted.decisions[2].measuredSaving = Measured{-9, -10, -8, {}};
  view.setFusion(restarted);
  EXPECT_EQ(view.card()->whatIf(), "Fused is slower.");
  ASSERT_TRUE(view.chosenDecision()->measuredSaving);
  EXPECT_EQ(view.chosenDecision()->measuredSaving->median, -2);
  FusionReport anew = report;
  anew.decisions[2].state = FusionState::Forbidden;
  std::rotate(anew.decisions.begin(), anew.decisions.begin() + 2, anew.decisions.end());
  view.setFusion(anew);
  ASSERT_TRUE(view.chosenDecision());
  EXPECT_EQ(view.chosenDecision()->producer, "Y");
  EXPECT_EQ(view.chosenDecision()->consumer, "d(L)/d(Y)");
  EXPECT_FALSE(view.card()->intervals()) << "of another plan";
  EXPECT_FALSE(view.chosenDecision()->measuredSaving);
  // A report in between that does not have it does not make another one the chosen one.
  FusionReport without = report;
  without.decisions.resize(1);
  view.card()->force()->setFocus();
  view.setFusion(without);
  EXPECT_FALSE(view.chosenDecision());
  view.setFusion(report);
  ASSERT_TRUE(view.chosenDecision());
  EXPECT_EQ(view.chosenDecision()->consumer, "d(L)/d(Y)");
  EXPECT_EQ(view.card()->whatIf(), "Fused is slower.");
}

TEST_F(Explain, AnEmptyCardNamesTheDecisionsThatTheSelectionIsPartOf) {
  view.setFusion(capsule::fusion(1));
  const auto says = [&](const QString& words) {
    const auto labels = view.card()->findChildren<QLabel*>();
    return std::any_of(labels.begin(), labels.end(),
                       [&](const QLabel* l) { return l->isVisible() && l->text().startsWith(words); });
  };
  EXPECT_TRUE(says("Choose a decision in the table"));
  const auto& d = view.fusion()->report().decisions[1];
  selection.select(d.origins, {d.producer, d.consumer});
  const auto related = view.relatedDecisions();
  ASSERT_FALSE(related.empty());
  EXPECT_TRUE(says(related.size() == 1 ? "The selection is part of decision " + QString::number(related[0] + 1) + "."
                                       : "The selection is part of decisions " + QString::number(related[0] + 1) + ", "));
  selection.clear();
  EXPECT_TRUE(says("Choose a decision in the table"));
}

// Row, edge and card are of one selection.
TEST_F(Explain, ADecisionIsLetGoWhereTheSelectionIsOfSomethingElse) {
  view.setFusion(capsule::fusion(1));
  view.chooseDecision(0);
  ASSERT_TRUE(view.chosenDecision());
  selection.select({2}, {"d(L)/d(W)"});
  EXPECT_TRUE(view.chosenDecision()) << "one of its ends";
  selection.clear();
  EXPECT_TRUE(view.chosenDecision()) << "nothing else is selected";
  selection.select({0}, {"Y"});
  EXPECT_FALSE(view.chosenDecision());
  EXPECT_FALSE(view.card()->force()->isVisible());
  EXPECT_FALSE(view.table()->currentIndex().isValid());
  view.setFusion(capsule::fusion(1));
  EXPECT_FALSE(view.chosenDecision());
  view.chooseDecision(1);
  EXPECT_TRUE(view.chosenDecision());
}

TEST_F(Explain, ADecisionThatTheFilterLeavesOutStaysInItsCard) {
  FusionReport report = capsule::fusion(1);
  std::size_t refused = 0;
  while (refused < report.decisions.size() && report.decisions[refused].state != FusionState::Refused) ++refused;
  ASSERT_LT(refused, report.decisions.size());
  const auto states = [&](FusionState s) { view.states()->setCurrentIndex(1 + static_cast<int>(s)); };
  view.setFusion(report);
  states(FusionState::Refused);
  ASSERT_GT(view.table()->model()->rowCount(), 0);
  view.table()->setCurrentIndex(view.table()->model()->index(0, 0));
  ASSERT_TRUE(view.chosenDecision());
  const auto producer = view.chosenDecision()->producer, consumer = view.chosenDecision()->consumer;
  const int rows = view.table()->model()->rowCount();
  Document::FusionHint written = Document::FusionHint::None;
  view.setHints([&](const std::string&, const std::string&) { return written; });
  QObject::connect(&view, &ExplainView::hintRequested, &view,
                   [&](const QString&, const QString&, Document::FusionHint hint) { written = hint; });
  QTest::mouseClick(view.card()->force(), Qt::LeftButton);
  ASSERT_EQ(written, Document::FusionHint::Fuse);
  for (auto& d : report.decisions)
    if (d.producer == producer && d.consumer == consumer) d.state = FusionState::Forced;
  view.setFusion(report);
  EXPECT_EQ(view.table()->model()->rowCount(), rows) << "whoever has changed it looks at it";
  ASSERT_TRUE(view.chosenDecision());
  EXPECT_EQ(view.chosenDecision()->state, FusionState::Forced);
  EXPECT_TRUE(view.card()->force()->isHidden());
  EXPECT_FALSE(view.card()->release()->isHidden());
  EXPECT_TRUE(view.decided());
  EXPECT_TRUE(view.table()->currentIndex().isValid());
  states(FusionState::Refused);
  states(FusionState::Accepted);
  states(FusionState::Refused);
  EXPECT_EQ(view.table()->model()->rowCount(), rows - 1) << "a filter that is chosen anew";
  EXPECT_FALSE(view.table()->currentIndex().isValid());
  // The buttons go on meaning the decision in the card, and the row is the chosen one again where it is shown.
  QTest::mouseClick(view.card()->release(), Qt::LeftButton);
  EXPECT_EQ(written, Document::FusionHint::None);
  states(FusionState::Forced);
  ASSERT_EQ(view.table()->model()->rowCount(), 1);
  EXPECT_EQ(view.table()->currentIndex().row(), 0);
  // Choosing what is shown chooses no decision; where none is left it says so.
  states(FusionState::Forbidden);
  EXPECT_EQ(view.table()->model()->rowCount(), 0);
  EXPECT_EQ(view.chosenDecision()->producer, producer);
  EXPECT_TRUE(view.none()->isVisible());
  EXPECT_EQ(view.none()->text(), QStringLiteral("None of the %1 decisions is forbidden.").arg(report.decisions.size()));
  view.states()->setCurrentIndex(0);
  EXPECT_FALSE(view.none()->isVisible());
  EXPECT_EQ(view.table()->model()->rowCount(), static_cast<int>(report.decisions.size()));
}

}  // namespace
}  // namespace nf
