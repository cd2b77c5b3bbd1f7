// SPDX-License-Identifier: GPL-3.0-or-later
#include <gtest/gtest.h>

#include <QApplication>
#include <QFile>
#include <QLabel>
#include <QListWidget>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QTableView>
#include <QTableWidget>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <QWheelEvent>
#include <random>

#include "core/document/document.h"
#include "tests/widgets/capsule.h"
#include "widgets/basic.h"
#include "widgets/code_highlighter.h"
#include "widgets/decision_card.h"
#include "widgets/derivation_view.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/formula_view.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_view.h"
#include "widgets/kernel_view.h"
#include "widgets/message_bar.h"
#include "widgets/names.h"
#include "widgets/notebook_view.h"
#include "widgets/plots.h"
#include "widgets/stage_slider.h"
#include "widgets/tensor_view.h"
#include "widgets/tune_view.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  QApplication application(argc, argv);
  return RUN_ALL_TESTS();
}

namespace nf {
namespace {

using namespace protocol;

struct Widgets : ::testing::Test {
  Theme theme;
  Selection selection;
  Widgets() {
    theme.setMode(Theme::Mode::Light);
    selection.setSpans(capsule::analysis(capsule::kText, 1).spans);
  }
};

TEST_F(Widgets, SelectionLightsWhatCameFromATokenAndNotItsSiblings) {
  selection.select({1});  // the access of A in Y
  EXPECT_EQ(selection.relation({1}), Selection::Relation::Exact);
  EXPECT_EQ(selection.relation({0}), Selection::Relation::Around);
  EXPECT_EQ(selection.relation({2}), Selection::Relation::None);
  EXPECT_EQ(selection.relation({3}), Selection::Relation::None);
  selection.select({0});
  EXPECT_EQ(selection.relation({1}), Selection::Relation::Exact);
  const auto spans = capsule::analysis(capsule::kText, 1).spans;
  selection.selectBytes(spans[2].begin + 2, spans[2].begin + 2);
  EXPECT_EQ(selection.origins(), Origins{2});
  selection.selectBytes(0, 0);
  EXPECT_TRUE(selection.empty());
}

TEST_F(Widgets, SelectionIsFoundAgainInANewAnalysis) {
  selection.select({2});
  auto spans = selection.spans();
  spans.insert(spans.begin(), SourceSpan{"std/nn.nf", 0, 4});
  selection.setSpans(spans);
  EXPECT_EQ(selection.origins(), Origins{3});
}

TEST_F(Widgets, FormulasAreSetAndTakenOutAsLatex) {
  const Expression y = capsule::expression("Y", 1), gradient = capsule::expression("d(L)/d(W)", 1);
  ASSERT_TRUE(wellFormed(y.formulas[0]));
  ASSERT_TRUE(wellFormed(gradient.formulas[0]));
  const FormulaBox box = setFormula(y.formulas[0], theme, 22);
  EXPECT_GT(box.width, 200);
  EXPECT_GT(box.ascent, 20);
  EXPECT_GE(box.regions.size(), 3u);
  EXPECT_EQ(toLatex(y.formulas[0]),
            "Y_{b, k, p, q, i, j} = \\sum_{c=0}^{7} \\sum_{r=0}^{2} \\sum_{s=0}^{2} \\sum_{l=0}^{3} "
            "A_{b, c, 2 p + r, 2 q + s, i, l} \\, W_{k, c, r, s, l, j}");
  EXPECT_TRUE(toLatex(gradient.formulas[0])
                  .startsWith("\\frac{\\partial L}{\\partial W_{k, c, r, s, l, j}} = \\frac{2}{401408} \\, \\sum_{b=0}^{0}"));
  EXPECT_TRUE(toLatex(gradient.formulas[0]).contains("\\left(Y_{b, k, p, q, i, j} - 1\\right)"));
}

TEST_F(Widgets, AFormulaThatIsNoTreeIsNotDrawn) {
  Formula broken;
  broken.nodes.resize(2);
  broken.nodes[0].children = {1};
  EXPECT_EQ(setFormula(broken, theme, 22).width, 0);
  EXPECT_TRUE(toLatex(broken).isEmpty());
}

TEST_F(Widgets, EveryFormulaKindHasASize) {
  for (const FormulaKind kind : {FormulaKind::Infix, FormulaKind::Fraction, FormulaKind::Power, FormulaKind::Partial,
                                 FormulaKind::Cases, FormulaKind::Call, FormulaKind::Prefix}) {
    for (const char* text : {"+", "-", "*", "/", "//", "%", "<=", "sqrt", "abs", "floor", "exp", "not"}) {
      capsule::FormulaMaker m;
      std::vector<std::uint32_t> children;
      const int count = kind == FormulaKind::Cases ? 3 : kind == FormulaKind::Prefix || kind == FormulaKind::Call ? 1 : 2;
      for (int i = 0; i < count; ++i) children.push_back(m.add(FormulaKind::Name, "x"));
      m.add(kind, text, children);
      ASSERT_TRUE(wellFormed(m.formula));
      EXPECT_GT(setFormula(m.formula, theme, 20).width, 5);
      EXPECT_FALSE(toLatex(m.formula).isEmpty());
    }
  }
}

TEST_F(Widgets, AClickOnASymbolSelectsItsOrigin) {
  FormulaView view(&theme, &selection);
  view.resize(900, 200);
  view.setFormulas(capsule::expression("Y", 1).formulas);
  view.show();
  bool found = false;
  for (int x = 0; x < 700 && !found; x += 4)
    for (int y = 0; y < view.height() && !found; y += 4) {
      const auto part = view.partAt(QPointF(x, y));
      if (!part || view.formulas()[part->first].nodes[part->second].origins != Origins{2}) continue;
      QTest::mouseClick(&view, Qt::LeftButton, {}, QPoint(x, y));
      found = true;
    }
  EXPECT_TRUE(found);
  EXPECT_EQ(selection.origins(), Origins{2});
}

TEST_F(Widgets, HighlightingKeepsPlacesInAnyBytes) {
  std::mt19937_64 rng(5);
  for (int round = 0; round < 300; ++round) {
    std::string text = capsule::kText.substr(rng() % capsule::kText.size(), rng() % 80);
    for (auto n = rng() % 4; n > 0 && !text.empty(); --n) text[rng() % text.size()] = static_cast<char>(rng());
    int at = 0;
    const int size = static_cast<int>(displayText(text).size());
    for (const ColoredRun& run : highlight(text, theme.colors())) {
      EXPECT_GE(run.begin, at);
      at = run.begin + run.length;
    }
    EXPECT_LE(at, size);
  }
}

TEST_F(Widgets, TheWheelOverABarAcrossScrollsThePage) {
  ExpressionEditor editor(&theme, true);
  editor.resize(300, 80);
  editor.setBytes(std::string(400, 'x'));
  editor.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&editor));
  QScrollBar* bar = editor.horizontalScrollBar();
  ASSERT_TRUE(QTest::qWaitFor([&] { return bar->maximum() > 0; }));
  const auto turn = [&](QPoint by) {
    QWheelEvent wheel(QPointF(5, 5), bar->mapToGlobal(QPointF(5, 5)), {}, by, Qt::NoButton, Qt::NoModifier, Qt::NoScrollPhase,
                      false);
    QApplication::sendEvent(bar, &wheel);
    return bar->value();
  };
  EXPECT_EQ(turn({0, -120}), 0);
  EXPECT_GT(turn({-120, 0}), 0);
}

TEST_F(Widgets, TypingInAnEditorIsToldInBytes) {
  ExpressionEditor editor(&theme, true);
  editor.setBytes("αβ = 1\r\nx");
  std::string replica = editor.bytes();
  QObject::connect(&editor, &ExpressionEditor::bytesEdited, &editor,
                   [&](std::size_t begin, std::size_t end, const QByteArray& text) {
                     replica.replace(begin, end - begin, text.toStdString());
                     EXPECT_EQ(replica, editor.bytes());
                   });
  editor.show();
  editor.setFocus();
  editor.moveCaretTo(2);  // between the Greek letters
  QTest::keyClicks(&editor, "a2");
  EXPECT_EQ(replica, "αa2β = 1\r\nx");
  QTest::keyClick(&editor, Qt::Key_Backspace);
  QTest::keyClick(&editor, Qt::Key_End, Qt::ControlModifier);
  QTest::keyClick(&editor, Qt::Key_Return);
  QTest::keyClicks(&editor, "yy");
  EXPECT_EQ(replica, "αaβ = 1\r\nx\nyy");
}

TEST_F(Widgets, RandomTypingNeverLosesAByte) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    ExpressionEditor editor(&theme, true);
    editor.setBytes(std::string("aaa\nb") + "\xff" + "\r\n\rc𝛼");
    std::string replica = editor.bytes();
    QObject::connect(&editor, &ExpressionEditor::bytesEdited, &editor,
                     [&](std::size_t begin, std::size_t end, const QByteArray& text) {
                       replica.replace(begin, end - begin, text.toStdString());
                     });
    editor.show();
    for (int i = 0; i < 150; ++i) {
      switch (rng() % 6) {
        case 0: QTest::keyClick(&editor, Qt::Key_Left, rng() % 2 ? Qt::ShiftModifier : Qt::NoModifier); break;
        case 1: QTest::keyClick(&editor, Qt::Key_Backspace); break;
        case 2: QTest::keyClick(&editor, Qt::Key_Delete); break;
        case 3: QTest::keyClick(&editor, Qt::Key_Return); break;
        case 4: editor.moveCaretTo(rng() % (replica.size() + 1)); break;
        default: editor.insertAtCaret(rng() % 2 ? QStringLiteral("a") : QStringLiteral("𝛽"));
      }
      ASSERT_EQ(replica, editor.bytes());
      const std::u16string shown = displayText(replica);
      ASSERT_EQ(editor.toPlainText(), QString::fromUtf16(shown.data(), static_cast<qsizetype>(shown.size())));
    }
  }
}

TEST_F(Widgets, TheGraphRunsForwardThenBackUnderIt) {
  const GraphPage g = capsule::graph(1, "fused");
  const GraphLayout l = layOutGraph(g);
  const auto at = [&](const char* id) {
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
      if (g.nodes[i].id == id) return l.nodes[i].rect;
    return QRectF();
  };
  EXPECT_LT(at("Y").center().x(), at("L").center().x());
  EXPECT_GT(at("d(L)/d(Y)").center().x(), at("d(L)/d(W)").center().x());
  EXPECT_GT(at("d(L)/d(W)").center().x(), at("W <-").center().x());
  EXPECT_GT(at("d(L)/d(Y)").top(), at("L").bottom());
  EXPECT_LT(at("A").bottom(), at("Y").top());
  for (std::size_t i = 0; i < l.nodes.size(); ++i)
    for (std::size_t k = i + 1; k < l.nodes.size(); ++k)
      EXPECT_FALSE(l.nodes[i].rect.intersects(l.nodes[k].rect)) << g.nodes[i].id << " " << g.nodes[k].id;
}

GraphPage randomGraph(std::uint64_t seed, int nodes) {
  std::mt19937_64 rng(seed);
  GraphPage g;
  g.stage = "fused";
  for (int i = 0; i < nodes; ++i) {
    GraphNode n;
    n.id = n.name = "t" + std::to_string(i);
    n.kind = rng() % 9 == 0 ? NodeKind::Param : NodeKind::Operator;
    n.phase = static_cast<Phase>(rng() % 4);
    g.nodes.push_back(n);
    for (int e = 0; e < 2 && i > 0; ++e)
      g.edges.push_back({"t" + std::to_string(rng() % static_cast<std::uint64_t>(rng() % 20 == 0 ? nodes : i)), n.id, "x", 4,
                         rng() % 5 == 0, rng() % 7 == 0});
  }
  g.edges.push_back({"nowhere", "t0", "x", 0, false, false});
  g.totalNodes = nodes;
  return g;
}

TEST_F(Widgets, NodesNeverOverlapInRandomGraphs) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const GraphPage g = randomGraph(seed, 60);
    const GraphLayout l = layOutGraph(g);
    for (std::size_t i = 0; i < l.nodes.size(); ++i)
      for (std::size_t k = i + 1; k < l.nodes.size(); ++k)
        EXPECT_FALSE(!l.nodes[i].pill && !l.nodes[k].pill && l.nodes[i].rect.intersects(l.nodes[k].rect));
  }
}

QRectF rectOf(const GraphView& view, const std::string& id) {
  const auto& nodes = view.graph().nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].id == id) return {view.toWidget(view.layoutOf().nodes[i].rect.topLeft()), view.layoutOf().nodes[i].rect.size()};
  return {};
}

TEST_F(Widgets, ANodeKeepsItsPlaceThroughEveryStage) {
  GraphView view(&theme, &selection);
  view.resize(900, 500);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  std::map<std::string, QRectF> places;
  for (const auto& n : view.graph().nodes) places[n.id] = rectOf(view, n.id);
  for (const char* stage : {"source", "differentiated", "transformed", "partitioned", "fused", "source", "fused"}) {
    SCOPED_TRACE(stage);
    view.setGraph(capsule::graph(1, stage));
    for (const auto& n : view.graph().nodes) EXPECT_EQ(rectOf(view, n.id), places.at(n.id)) << n.id;
  }
}

// Stages of random graphs: some operators are not there yet, some are gone later; groups are closed or open.
TEST_F(Widgets, NodesKeepTheirPlacesInStagesOfRandomGraphs) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    GraphPage fused = randomGraph(seed, 70);
    for (std::size_t i = 0; i + 5 < fused.nodes.size(); i += 5) {
      GraphGroup g;
      g.id = "G" + std::to_string(i);
      for (std::size_t k = i; k < i + rng() % 5; ++k)
        if (fused.nodes[k].kind == NodeKind::Operator) g.nodes.push_back(fused.nodes[k].id);
      if (!g.nodes.empty()) fused.groups.push_back(g);
    }
    GraphView view(&theme, &selection);
    view.resize(900, 500);
    view.setGraph(fused);
    if (seed % 2) view.toggleGroups();
    std::map<std::string, QRectF> places;
    for (const auto& n : fused.nodes) places[n.id] = rectOf(view, n.id);
    for (int stage = 0; stage < 4; ++stage) {
      GraphPage page = fused;
      page.stage = "partitioned";
      page.groups.clear();
      std::erase_if(page.nodes, [&](const GraphNode&) { return rng() % 3 == 0; });
      for (int gone = 0; gone < 3; ++gone) {
        GraphNode n;
        n.id = n.name = "gone" + std::to_string(gone);
        page.nodes.push_back(n);
        page.edges.push_back({n.id, page.nodes.front().id, "x", 4, false, false});
      }
      view.setGraph(page);
      const auto& nodes = view.layoutOf().nodes;
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        const std::string& id = view.graph().nodes[i].id;
        if (const auto place = places.find(id); place != places.end()) {
          EXPECT_EQ(rectOf(view, id), place->second) << id;
        } else {
          for (std::size_t k = 0; k < nodes.size(); ++k) EXPECT_FALSE(k != i && nodes[k].rect.intersects(nodes[i].rect)) << id;
        }
      }
    }
    view.setGraph(fused);
    for (const auto& n : fused.nodes) EXPECT_EQ(rectOf(view, n.id), places.at(n.id)) << n.id;
  }
}

TEST_F(Widgets, ANodeSaysWhatItComputesAndAGroupWhatItCosts) {
  GraphView view(&theme, &selection);
  view.resize(900, 500);
  GraphPage g = capsule::graph(1, "fused");
  GraphNode again = g.nodes[4];
  again.id = again.name = "d(L)/d(Y)#2", again.added = true;
  g.nodes.push_back(again);
  g.nodes[5].text = "Σ d(L)/d(Y)·A";
  for (auto& group : g.groups) group.us.reset();
  view.setGraph(g);
  EXPECT_EQ(view.captionOf(5), "Σ dY·A");
  EXPECT_EQ(view.captionOf(7), "computed again");
  EXPECT_EQ(view.factsOf(1), "1 kernel");
  EXPECT_EQ(view.tagOf(1), QString::fromStdString(g.groups[1].id)) << "the number that tables and cards use";
  view.setSubgraphs(capsule::subgraphs());
  EXPECT_EQ(view.factsOf(0), "1 kernel  41.8 µs  73 %");
  EXPECT_EQ(view.factsOf(1), "1 kernel  12.6 µs  22 %");
  view.toggleGroup(1);
  EXPECT_EQ(view.factsOf(1), "12.6 µs  22 %  2 operators");
  EXPECT_TRUE(view.findNext("dW"));
  EXPECT_EQ(view.chosen(), "d(L)/d(W)");
}

TEST_F(Widgets, AHundredThousandNodesAreLaidOutBesideTheWindow) {
  GraphView view(&theme, &selection);
  view.resize(800, 600);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  view.setGraph(randomGraph(3, 100000));
  EXPECT_EQ(view.graph().nodes.size(), 7u);  // the old one stays until the new one is ready
  ASSERT_TRUE(QTest::qWaitFor([&] { return view.graph().nodes.size() == 100000; }, 120000));
  view.grab();
}

TEST_F(Widgets, ANodeIsChosenByClickAndByKey) {
  GraphView view(&theme, &selection);
  view.resize(900, 500);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  view.fit();
  QTest::mouseClick(&view, Qt::LeftButton, {}, view.toWidget(view.layoutOf().nodes[2].rect.center()).toPoint());
  EXPECT_EQ(view.chosen(), "Y");
  EXPECT_EQ(selection.origins(), Origins{0});
  QTest::keyClick(&view, Qt::Key_Right);
  EXPECT_EQ(view.chosen(), "L");
  EXPECT_TRUE(view.findNext("d(W)"));
  EXPECT_EQ(view.chosen(), "d(L)/d(W)");
  QTest::keyClick(&view, Qt::Key_Escape);
  EXPECT_TRUE(selection.empty());
}

TEST_F(Widgets, TheGraphIsSavedAsSvg) {
  GraphView view(&theme, &selection);
  view.setGraph(capsule::graph(1, "fused"));
  QTemporaryDir folder;
  ASSERT_TRUE(view.saveSvg(folder.filePath("g.svg")));
  QFile file(folder.filePath("g.svg"));
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  EXPECT_TRUE(file.readAll().contains("<svg"));
}

TEST_F(Widgets, FusionDecisionsShowTheirNumbers) {
  FusionModel model;
  model.setReport(capsule::fusion(1));
  const auto text = [&](int row, int column) { return model.data(model.index(row, column), Qt::DisplayRole).toString(); };
  EXPECT_EQ(text(1, FusionModel::kPair), "Y → L");
  EXPECT_EQ(text(1, FusionModel::kTraffic), "+3.20");
  EXPECT_EQ(text(1, FusionModel::kLaunchUs), "+4.20");
  EXPECT_EQ(text(2, FusionModel::kWork), "-231.0");
  EXPECT_EQ(text(2, FusionModel::kState), "refused");
  EXPECT_TRUE(model.csv().contains("\"Y\",\"L\",\"One+One\",3200000"));
  // One notation in every view; the source's own names where something is written for a program.
  EXPECT_EQ(text(0, FusionModel::kPair), "dW → W <-");
  EXPECT_TRUE(model.csv().contains("\"d(L)/d(W)\",\"W <-\""));
}

// What flips a decision stands on its card, or why nothing does.
TEST_F(Widgets, EveryDecisionSaysWhatFlipsItOrWhyNothingDoes) {
  protocol::FusionDecisionInfo d = capsule::fusion(1).decisions[0];
  EXPECT_EQ(neverFlips(d), QString());
  d.flips.clear();
  d.curve.reset();
  EXPECT_TRUE(neverFlips(d).startsWith("None: it saves traffic and launches and costs nothing")) << neverFlips(d).toStdString();
  DecisionCard card(&theme);
  card.setDecision(1, d, capsule::fusion(1).device, Document::FusionHint::None);
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
  EXPECT_TRUE(tip(1).contains("the difference of the two medians"));
}

TEST_F(Widgets, ForceAndForbidAreAskedForByName) {
  ExplainView view(&theme, &selection);
  view.resize(1600, 900);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
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

// A large graph is placed beside the main thread: its table does not wait for that, nor read the graph before it.
TEST_F(Widgets, ALargeGraphIsListedBeforeItIsPlaced) {
  ExplainView view(&theme, &selection);
  view.setGraph(capsule::graph(1, "fused"));
  protocol::GraphPage large;
  large.stage = "fused";
  for (int i = 0; i < 3200; ++i) {
    protocol::GraphNode node;
    node.id = node.name = "X" + std::to_string(i);
    node.text = "X" + std::to_string(i - 1) + " + 1";
    large.nodes.push_back(node);
    if (i > 0) large.edges.push_back({"X" + std::to_string(i - 1), node.id, "X" + std::to_string(i - 1)});
  }
  large.totalNodes = 3200;
  view.setGraph(large);
  ASSERT_EQ(view.nodes()->model()->rowCount(), 3200);
  EXPECT_EQ(view.nodes()->model()->index(3100, 2).data().toString(), "X3099 + 1");
  EXPECT_TRUE(QTest::qWaitFor([&] { return view.graph()->graph().nodes.size() == 3200; }, 60000));
  EXPECT_EQ(view.graph()->captionOf(3100), "X3099 + 1");
}

TEST_F(Widgets, TheTablesOfThePageFollowTheSelectionAndLeadIt) {
  ExplainView view(&theme, &selection);
  view.resize(1600, 900);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  view.setFusion(capsule::fusion(1));
  selection.select({3});
  EXPECT_EQ(view.relatedDecisions(), (std::vector<int>{0, 1, 2, 3}));
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
  selection.select({2});
  EXPECT_TRUE(view.relatedDecisions().empty());
  selection.clear();
  EXPECT_TRUE(view.nodes()->selectionModel()->selectedRows().isEmpty());
  view.nodes()->setFocus();
  view.nodes()->setCurrentCell(2, 0);
  EXPECT_EQ(view.graph()->chosen(), "Y");
  QTest::keyClick(view.nodes(), Qt::Key_Down);
  EXPECT_EQ(view.graph()->chosen(), "L");
  EXPECT_EQ(selection.origins(), Origins{3});
}

TEST_F(Widgets, WhatHasANameIsSelectedByItAlone) {
  selection.select({0, 2}, {"d(L)/d(W)"});
  EXPECT_EQ(selection.relation({"d(L)/d(W)"}, {0, 2}), Selection::Relation::Exact);
  EXPECT_EQ(selection.relation({"Y"}, {0}), Selection::Relation::None) << "it comes from the same statement";
  const auto choice = selection.choices();
  selection.select({2}, {"d(L)/d(W)"});
  selection.place({2});
  EXPECT_EQ(selection.choices(), choice) << "the same choice";
  EXPECT_EQ(selection.origins(), Origins{2});
  selection.setSpans(capsule::analysis(capsule::kText + "\n# %%\n", 2).spans);
  EXPECT_EQ(selection.tensors(), std::vector<std::string>{"d(L)/d(W)"});
  selection.select({0});
  EXPECT_EQ(selection.relation({"Y"}, {0}), Selection::Relation::Exact);
  selection.setSpans({});
  EXPECT_TRUE(selection.empty());
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

TEST_F(Widgets, WhatTheStepDoesWithoutIsMarkedInGraphAndTable) {
  ExplainView view(&theme, &selection);
  view.resize(1600, 900);
  view.show();
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

TEST_F(Widgets, WhatWasMeasuredHoldsWhileItIsDecidedAlike) {
  ExplainView view(&theme, &selection);
  view.resize(1600, 900);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
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

TEST_F(Widgets, ACountIsNeverCutOutOfAName) {
  const QFontMetrics metrics(theme.ui(12));
  const QString name = "V.Vote.0 and 12 more";
  EXPECT_EQ(elidedName(metrics, name, metrics.horizontalAdvance(name)), name);
  for (int width = metrics.horizontalAdvance(name) - 1; width > metrics.horizontalAdvance("V… +12"); --width) {
    const QString text = elidedName(metrics, name, width);
    EXPECT_TRUE(text.endsWith(" +12")) << text.toStdString();
    EXPECT_LE(metrics.horizontalAdvance(text), width) << text.toStdString();
  }
  EXPECT_EQ(elidedName(metrics, name, 8), "+12");
  EXPECT_EQ(kernelName("V.Vote.0 and 12 more", 14), "V.Vote.0 +12");
  EXPECT_EQ(kernelName("V.Vote.0 and 12 more", 30), "V.Vote.0 and 12 more");
}

// Narrow as it may be, what a stage did runs into no other stage.
TEST_F(Widgets, LabelsOfStagesNeverMeet) {
  StageSlider slider(&theme);
  slider.setStages({{"source", 51, "51 operators"},
                    {"differentiated", 84, "added 33"},
                    {"transformed", 84, "84 operators"},
                    {"partitioned", 82, "82 in 82 kernels, 2 outside the step"},
                    {"fused", 99, "99 in 16 kernels, 2 outside the step"}});
  slider.show();
  for (int width = 700; width < 1900; width += 37) {
    slider.resize(width, slider.height());
    const auto labels = slider.labels();
    ASSERT_EQ(labels.size(), 5u);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      EXPECT_TRUE(QRectF(slider.rect()).contains(labels[i])) << width << ", " << i;
      if (i == 0) continue;
      EXPECT_LT(labels[i - 1].right() + 6, labels[i].left()) << width << ", " << i;
    }
  }
}

TEST_F(Widgets, AChosenDecisionComesIntoSight) {
  GraphView view(&theme, &selection);
  view.resize(500, 320);
  view.show();
  view.setGraph(capsule::graph(1, "fused"));
  view.zoomBy(4);
  view.setDecision("d(L)/d(W)", "W <-", "R +1 µs");
  for (const char* id : {"d(L)/d(W)", "W <-"})
    EXPECT_TRUE(QRectF(view.rect()).intersects(QRectF(rectOf(view, id).topLeft(), QSizeF(102, 40) * view.zoom()))) << id;
}

TEST_F(Widgets, KernelLinesFollowTheSelection) {
  KernelView view(&theme, &selection);
  view.resize(700, 500);
  view.show();
  view.setKernel(capsule::kernel("aa01", {}));
  EXPECT_TRUE(view.text().contains("parallel for p"));
  selection.select({1});
  EXPECT_EQ(view.tintedLines(), std::vector<int>{4});
  view.showLanguage("llvm");
  EXPECT_EQ(view.tintedLines(), std::vector<int>{2});
  // Of a line's places the innermost is what it was made for, not the statement around it.
  Kernel kernel = capsule::kernel("aa01", {});
  for (auto& text : kernel.texts)
    if (text.language == "llvm") text.lineOrigins.assign(4, Origins{0, 2});
  view.setKernel(kernel);
  view.showLanguage("llvm");
  view.chooseLine(2);
  EXPECT_EQ(selection.origins(), Origins{2});
  view.clear();
  EXPECT_TRUE(view.text().isEmpty());
}

TEST_F(Widgets, EveryTrialIsAPointAndAClickChoosesOne) {
  TuneView view(&theme, &selection);
  view.resize(1600, 900);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  EXPECT_EQ(view.current(), "aa01");
  view.setTrials("aa01", capsule::trials());
  view.setTrials("bb02", {});
  EXPECT_EQ(view.trials()->points(), 120);
  EXPECT_GT(view.trials()->failures(), 5);
  view.setSpace(capsule::space("aa01"));
  std::optional<std::uint64_t> wanted;
  QObject::connect(&view, &TuneView::trialWanted, &view, [&](const std::string&, std::optional<std::uint64_t> t) { wanted = t; });
  view.chooseTrial(3);
  EXPECT_EQ(wanted, 3u);
  EXPECT_EQ(knobsOf(view.chosenSchedule().text), knobsOf(capsule::trials()[3].schedule.text));
  QTest::keyClick(view.list(), Qt::Key_Down);
  EXPECT_EQ(view.current(), "bb02");
  EXPECT_EQ(selection.origins(), (Origins{2, 5}));
  view.grab();
}

TEST_F(Widgets, KnobsAreSetInTheScheduleAndNowhereElse) {
  const std::string schedule = R"({"kind":"contraction","knobs":{"threads":1,"tile":[4,8]},"version":1})";
  EXPECT_EQ(withKnobs(schedule, {{"tile", "[8,8]"}}), R"({"kind":"contraction","knobs":{"threads":1,"tile":[8,8]},"version":1})");
  EXPECT_EQ(knobsOf("no json").size(), 0u);
}

TEST_F(Widgets, LatencyKeepsEveryStepAndSwap) {
  LatencyPlot plot(&theme, false);
  plot.resize(600, 300);
  for (int i = 0; i < 5000; ++i) {
    StepEvent e;
    e.step = i, e.ms = 5.0 / (1 + i / 1000);
    plot.addStep(e);
  }
  plot.addSwap({"aa01", "Y", 9, 4, 1, 1000, 0});
  EXPECT_EQ(plot.steps(), 5000);
  EXPECT_EQ(plot.swaps(), 1);
  QTemporaryDir folder;
  EXPECT_EQ(plot.save(folder.filePath("p.svg")), "");
}

TEST_F(Widgets, TensorValuesFillTheTableAndHostileOnesDoNot) {
  TensorView view(&theme, false);
  view.setTensor("W", {2, 3, 4});
  EXPECT_EQ(view.request().begin, (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(view.request().end, (std::vector<std::int64_t>{1, 3, 4}));
  TensorSlice slice;
  slice.tensor = "W", slice.begin = {0, 0, 0}, slice.end = {1, 3, 4}, slice.max = 1;
  view.setSlice(slice, {1, 2, 3});
  EXPECT_EQ(view.model()->rowCount(), 3);
  EXPECT_EQ(view.model()->data(view.model()->index(0, 2), Qt::DisplayRole).toString(), "3.000");
  EXPECT_EQ(view.model()->data(view.model()->index(2, 3), Qt::DisplayRole).toString(), "NaN");
  slice.end = {1, 1 << 30, 1 << 30};
  view.setSlice(slice, {});
  EXPECT_EQ(view.model()->rowCount(), 0);
  slice.end = {};
  view.setSlice(slice, {});
}

// What happened meanwhile hides nothing that was said before: bars stand under one another, and what there is no room for is counted.
TEST_F(Widgets, MessagesStandUnderOneAnother) {
  MessageBar bar(&theme);
  bar.resize(600, 400);
  EXPECT_TRUE(bar.isHidden());
  bar.ask("left", "A session ended.", {"Open it"});
  bar.ask("open", "pic.png is no notebook.", {});
  bar.show();
  EXPECT_EQ(bar.shown(), QStringList({"open", "left"}));
  QStringList read;
  for (const QLabel* l : bar.findChildren<QLabel*>())
    if (l->isVisible()) read << l->text();
  EXPECT_TRUE(read.contains("A session ended.") && read.contains("pic.png is no notebook.")) << read.join('|').toStdString();
  QString key;
  int index = -2;
  QObject::connect(&bar, &MessageBar::answered, [&](const QString& k, int i) { key = k, index = i; });
  QPushButton* open = nullptr;
  for (QPushButton* b : bar.findChildren<QPushButton*>())
    if (b->text() == "Open it") open = b;
  ASSERT_TRUE(open && open->isVisible()) << "one that waits is answered, too";
  QTest::mouseClick(open, Qt::LeftButton);
  EXPECT_EQ(key, "left");
  EXPECT_EQ(index, 0);
  EXPECT_EQ(bar.shown(), QStringList({"open"}));
  for (const char* more : {"a", "b", "c"}) bar.ask(more, more, {});
  EXPECT_EQ(bar.shown(), QStringList({"c", "b", "a"}));
  bool counted = false;
  for (const QLabel* l : bar.findChildren<QLabel*>())
    counted = counted || (l->isVisible() && l->text().startsWith("1 message waits"));
  EXPECT_TRUE(counted);
  for (const char* gone : {"c", "b", "a", "open"}) bar.dismiss(gone);
  EXPECT_TRUE(bar.isHidden());
}

struct Notebook : Widgets {
  Document document{capsule::kText};
  NotebookView view{&theme, &selection};
  Notebook() {
    view.resize(1000, 900);
    view.setDocument(&document);
    QObject::connect(&view, &NotebookView::edited, &view, &NotebookView::followDocument);
    view.show();
  }
  CellView* cell(std::size_t i) { return view.cells()[i]; }
  void analyse() { view.setAnalysis(capsule::analysis(document.text(), document.revision())); }
};

TEST_F(Notebook, TypingReachesTheDocumentAndComesBack) {
  view.activate(cell(1)->id(), true);
  cell(1)->editor()->moveCaretTo(0);
  QTest::keyClicks(cell(1)->editor(), "let Z = 2");
  QTest::keyClick(cell(1)->editor(), Qt::Key_Return);
  EXPECT_NE(document.text().find("# %%\nlet Z = 2\nlet B = 1"), std::string::npos);
  while (document.canUndo()) document.undo();
  view.followDocument();
  EXPECT_EQ(document.text(), capsule::kText);
  EXPECT_TRUE(cell(1)->editor()->toPlainText().startsWith("let B"));
}

// A run that did not end says so, also where the result that is shown is of an earlier text.
TEST_F(Notebook, TheLastRunOfATextSpeaksBeforeTheAgeOfItsResult) {
  const auto analyse = [&](const char* meaning) {
    auto a = capsule::analysis(document.text(), document.revision());
    a.cells[3].meaning = meaning;
    view.setAnalysis(a);
  };
  const auto run = [&] { cell(3)->beginRun(); };
  using protocol::CellStatus;
  analyse("40 epochs");
  EXPECT_TRUE(cell(3)->neverTrained());
  run();
  cell(3)->setStatus(CellStatus::Ok, {});
  EXPECT_FALSE(cell(3)->neverTrained());
  analyse("4000 epochs");
  EXPECT_TRUE(cell(3)->note().contains("has changed since it ran")) << cell(3)->note().toStdString();
  run();
  cell(3)->setInterrupted("The engine ended before this was finished.");
  analyse("4000 epochs");
  EXPECT_EQ(cell(3)->note(), "The engine ended before this was finished.");
  EXPECT_EQ(cell(3)->status(), CellStatus::Stale);
  run();
  cell(3)->setStatus(CellStatus::Error, "no memory");
  EXPECT_EQ(cell(3)->status(), CellStatus::Error);
  EXPECT_EQ(cell(3)->failure(), "no memory");
  analyse("4 epochs");
  EXPECT_EQ(cell(3)->status(), CellStatus::Stale);
  EXPECT_EQ(cell(3)->failure(), QString());
}

// A training that failed leaves its words and curve under the cell: of another text, they are marked as any result is.
TEST_F(Notebook, AFailedTrainingIsStaleOnceItsTextChanges) {
  const auto analyse = [&](const char* meaning) {
    auto a = capsule::analysis(document.text(), document.revision());
    a.cells[3].meaning = meaning;
    view.setAnalysis(a);
  };
  using protocol::CellStatus;
  analyse("lr=inf");
  cell(3)->beginRun();
  cell(3)->setStatus(CellStatus::Error, "The loss L is not a number in step 3.");
  ASSERT_EQ(cell(3)->status(), CellStatus::Error);
  analyse("lr=0.1");
  EXPECT_EQ(cell(3)->status(), CellStatus::Stale);
  EXPECT_TRUE(cell(3)->note().startsWith("Stale: ")) << cell(3)->note().toStdString();
  EXPECT_EQ(cell(3)->failure(), QString());
  analyse("lr=inf");
  EXPECT_EQ(cell(3)->status(), CellStatus::Error);
}

TEST_F(Notebook, BlankLinesTypedAtTheEndStay) {
  view.activate(cell(3)->id(), true);
  QTest::keyClick(cell(3)->editor(), Qt::Key_End, Qt::ControlModifier);
  QTest::keyClick(cell(3)->editor(), Qt::Key_Return);
  QTest::keyClick(cell(3)->editor(), Qt::Key_Return);
  QTest::keyClicks(cell(3)->editor(), "show L");
  EXPECT_TRUE(cell(3)->editor()->toPlainText().endsWith("}\n\nshow L"));
  EXPECT_EQ(std::string(document.body(document.cells()[3])), cell(3)->editor()->bytes());
}

TEST_F(Notebook, ASeparatorThatIsTypedSplitsTheCell) {
  view.activate(cell(3)->id(), true);
  QTest::keyClick(cell(3)->editor(), Qt::Key_End, Qt::ControlModifier);
  QTest::keyClick(cell(3)->editor(), Qt::Key_Return);
  QTest::keyClicks(cell(3)->editor(), "# %%");
  EXPECT_EQ(view.cells().size(), 5u);
}

TEST_F(Notebook, KeysOfTheCommandMode) {
  view.activate(cell(1)->id(), false);
  QTest::keyClick(&view, Qt::Key_B);
  EXPECT_EQ(view.cells().size(), 5u);
  EXPECT_EQ(view.activeCell(), cell(2)->id());
  QTest::keyClick(&view, Qt::Key_A);
  EXPECT_EQ(view.cells().size(), 6u);
  QTest::keyClick(&view, Qt::Key_D);
  EXPECT_EQ(view.cells().size(), 6u);
  QTest::keyClick(&view, Qt::Key_D);
  EXPECT_EQ(view.cells().size(), 5u);
  QTest::keyClick(&view, Qt::Key_M);
  EXPECT_EQ(document.cell(view.activeCell())->kind, CellKind::Markdown);
  QTest::keyClick(&view, Qt::Key_Y);
  EXPECT_EQ(document.cell(view.activeCell())->kind, CellKind::Code);
  const CellId here = view.activeCell();
  QTest::keyClick(&view, Qt::Key_K);
  EXPECT_NE(view.activeCell(), here);
  QTest::keyClick(&view, Qt::Key_J);
  EXPECT_EQ(view.activeCell(), here);
  QTest::keyClick(&view, Qt::Key_Return);
  EXPECT_TRUE(view.editing());
  QTest::keyClick(view.view(here)->editor(), Qt::Key_Escape);
  EXPECT_FALSE(view.editing());
}

TEST_F(Notebook, MarkdownIsEditedInPlace) {
  view.activate(cell(0)->id(), true);
  EXPECT_TRUE(cell(0)->editor()->isVisible());
  QTest::keyClick(cell(0)->editor(), Qt::Key_End, Qt::ControlModifier);
  QTest::keyClicks(cell(0)->editor(), " More.");
  EXPECT_NE(document.text().find("# One operator that no library has. More.\n"), std::string::npos);
  QTest::keyClick(cell(0)->editor(), Qt::Key_Escape);
  EXPECT_FALSE(cell(0)->editor()->isVisible());
}

TEST_F(Notebook, AnErrorStandsUnderItsCellWithAButtonThatMendsIt) {
  const std::size_t at = document.text().find("W[k, c");
  document.replace(at, at + 1, "nowhere", "Edit");
  view.followDocument();
  analyse();
  EXPECT_EQ(cell(1)->status(), CellStatus::Error);
  EXPECT_EQ(cell(1)->diagnosticTexts(), QStringList{"nowhere is not defined\ndid you mean W?"});
  auto* fix = cell(1)->findChild<QPushButton*>("fix");
  ASSERT_TRUE(fix);
  QTest::mouseClick(fix, Qt::LeftButton);
  EXPECT_EQ(document.text(), capsule::kText);
}

TEST_F(Notebook, AnOldAnalysisIsNotShownOnANewText) {
  const auto old = capsule::analysis(document.text(), document.revision());
  document.replace(0, 0, "# %%\nx\n", "Edit");
  view.followDocument();
  view.setAnalysis(old);
  EXPECT_FALSE(view.analysisCell(cell(1)->id()));
}

TEST_F(Notebook, AShowCellHasFormulaSourceAndDerivation) {
  QStringList wanted;
  QObject::connect(&view, &NotebookView::expressionWanted, &view, [&](const QString& t) { wanted << t; });
  analyse();
  EXPECT_EQ(wanted, (QStringList{"Y", "d(L)/d(W)"}));
  view.setExpression(capsule::expression("Y", 1));
  view.setExpression(capsule::expression("d(L)/d(W)", 1));
  EXPECT_EQ(cell(2)->formulaView()->formulas().size(), 2u);
  EXPECT_TRUE(cell(2)->source().contains("`d(L)/d(W)`[k,c,r,s,l,j] = 2/401408"));
  EXPECT_TRUE(cell(2)->latex().contains("\\partial W"));
  for (int tab = 0; tab < 4; ++tab) {
    cell(2)->showResult(tab);
    cell(2)->grab();
  }
  view.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&view));
  cell(2)->showResult(2);
  const auto* derivation = cell(2)->findChild<DerivationView*>();
  ASSERT_TRUE(derivation);
  EXPECT_GT(derivation->steps(), 0);
  EXPECT_TRUE(QTest::qWaitFor([&] { return derivation->height() >= 12 * derivation->steps(); }, 30000));
}

// What a derivative refers to stands folded below its formula, and goes along when its source is copied.
TEST_F(Notebook, WhatAGradientIsMadeOfIsFoldedBelowIt) {
  analyse();
  view.setExpression(capsule::expression("Y", 1));
  auto gradient = capsule::expression("d(L)/d(W)", 1);
  gradient.definitions = {"`d(L)/d(Y)`[b, k] = 2 * Y[b, k]\n", "for t in 0..4 reversed {\n  g[i] = g[i] * h[i]\n}\n"};
  gradient.definitionCount = 2;
  view.setExpression(gradient);
  view.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&view));
  auto* fold = cell(2)->findChild<QToolButton*>("definitions");
  ASSERT_TRUE(fold);
  QPlainTextEdit* field = nullptr;
  for (auto* e : cell(2)->findChildren<QPlainTextEdit*>())
    if (e->accessibleName() == "What the result is made of") field = e;
  ASSERT_TRUE(field);
  for (const int tab : {0, 1}) {
    cell(2)->showResult(tab);
    EXPECT_TRUE(fold->isVisible());
    EXPECT_EQ(fold->text(), "Derived before it: 2 statements");
    EXPECT_FALSE(field->isVisible());
  }
  QTest::mouseClick(fold, Qt::LeftButton);
  EXPECT_TRUE(field->isVisible());
  EXPECT_TRUE(field->toPlainText().startsWith("`d(L)/d(Y)`[b, k] = 2 * Y[b, k]\nfor t in 0..4 reversed {"));
  EXPECT_FALSE(cell(2)->ownSource().contains("reversed"));
  EXPECT_LT(cell(2)->source().indexOf("reversed"), cell(2)->source().indexOf("`d(L)/d(W)`[k,c,r,s,l,j]"));
  cell(2)->showResult(2);
  EXPECT_FALSE(fold->isVisible());
  EXPECT_FALSE(field->isVisible());
}

TEST_F(Notebook, TheCaretSelectsTheAccessUnderIt) {
  analyse();
  view.activate(cell(1)->id(), true);
  const auto& bytes = cell(1)->editor()->bytes();
  cell(1)->editor()->moveCaretTo(bytes.find("p*2+r"));
  EXPECT_EQ(selection.origins(), Origins{1});
}

}  // namespace
}  // namespace nf
