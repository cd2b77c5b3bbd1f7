// SPDX-License-Identifier: GPL-3.0-or-later
// A kernel and the profile: lines and the tokens they came from, candidates side by side, facts and tags.
#include <gtest/gtest.h>

#include <Qsci/qsciscintilla.h>

#include <QComboBox>
#include <QHeaderView>
#include <QLabel>
#include <QPlainTextEdit>
#include <QScrollBar>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBlock>
#include <QTextLayout>
#include <cmath>

#include "tests/widgets/capsule.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/basic.h"
#include "widgets/kernel_view.h"
#include "widgets/plots.h"
#include "widgets/profile_view.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

// Its spans are of the capsule's notebook.
void readCapsule(KernelView& view) {
  view.setSpanText([](const protocol::SourceSpan& span) {
    return QString::fromStdString(capsule::kText.substr(span.begin, span.end - span.begin));
  });
}

using namespace protocol;

TEST_F(Tuning, AKernelThatDoesNotComeIsSaid) {
  KernelView view(&theme, &selection);
  view.setKernel(capsule::kernel("aa01", 1));
  view.setPending("g3 c2");
  view.setFailed("It was refused.");
  EXPECT_EQ(view.detail(), "below is g4 c1. It was refused.");
  view.setFailed("the compiler did not finish");
  EXPECT_EQ(view.detail(), "below is g4 c1. The compiler did not finish.");
  const auto said = [&] {
    for (const QWidget* w : view.findChildren<QWidget*>())
      if (w->toolTip() == "The compiler did not finish.") return true;
    return false;
  };
  EXPECT_TRUE(said());
  view.setKernel(capsule::kernel("aa01", 1));
  EXPECT_FALSE(said());
}

TEST_F(Tuning, MachineCodeThatWasAskedForIsShownOfTheKernelThatComes) {
  KernelView view(&theme, &selection);
  Kernel k = capsule::kernel("aa01", 1);
  k.texts.push_back({"asm", "kernel:\n\tvmovups\t(%rsi), %zmm0\n\tvbroadcastss\t(%rdx), %zmm1\n\tret\n", {{}, {1}, {1}, {}}});
  selection.select({1});
  view.showMachineCode();
  EXPECT_EQ(view.machineLines(), 0) << "there is no kernel yet";
  view.setKernel(k);
  EXPECT_EQ(view.language(), "asm");
  EXPECT_EQ(view.machineLines(), 2);
  view.showLanguage("loops");
  EXPECT_EQ(view.tintedLines().size(), 1u);
  EXPECT_EQ(view.machineLines(), 2) << "whatever is shown";
  view.setKernel(k);
  EXPECT_EQ(view.language(), "loops");
  // A device without assembly: what is nearest to it.
  k.texts.pop_back();
  view.showMachineCode();
  view.setKernel(k);
  EXPECT_EQ(view.language(), "llvm");
}

TEST_F(Tuning, FactsOfAKernelGiveWayToTheMapping) {
  KernelView view(&theme, &selection);
  Kernel k = capsule::kernel("aa01", 1);
  k.facts = {{"template", "contraction"}, {"stages", "2"}, {"workspace", "110592 B"}, {"code", "8840 B"}, {"vector", "512 bits"}};
  view.show();
  for (const int width : {420, 520, 700, 1200}) {
    SCOPED_TRACE(width);
    view.resize(width, 500);
    view.setKernel(k);
    selection.select({1});
    for (const QLabel* l : view.findChildren<QLabel*>())
      if (l->textFormat() == Qt::RichText && l->isVisible() && !l->wordWrap()) {
        EXPECT_LE(l->sizeHint().width(), l->width() + 2) << view.facts().toStdString();
        EXPECT_TRUE(l->toolTip().contains("vector 512 bits"));
      }
  }
  EXPECT_TRUE(view.facts().contains("vector 512 bits"));
}

TEST_F(Tuning, ATokenLeadsToTheKernelAroundItAndARowOfTheProfileToItsToken) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.setProfile(capsule::profile(1, false));
  selection.select({2});  // the access of W: what came from it comes before what is around it
  EXPECT_EQ(view.current(), "bb02");
  selection.select({1});  // the access of A stands in Y alone
  EXPECT_EQ(view.current(), "aa01");
  QTableView* table = nullptr;
  for (QTableView* t : view.profile()->findChildren<QTableView*>())
    if (t->accessibleName() == QLatin1String("Kernels of a step")) table = t;
  ASSERT_TRUE(table);
  table->setFocus();
  table->setCurrentIndex(table->model()->index(2, 0));
  EXPECT_EQ(view.current(), "cc03");
  EXPECT_EQ(selection.origins(), Origins{3});
}

// One operator in one kernel that two statements make: it has the tags of the one that is selected.
TEST_F(Tuning, AnOperatorOfTwoStatementsHasTheTagsOfTheChosenOne) {
  const std::string text = "P[i] = tanh(A[i] * 2)\nQ[i] = tanh(A[i] * 2)\n";
  const std::size_t second = text.find('Q');
  const auto span = [&](const char* what, std::size_t from) {
    const auto begin = static_cast<std::uint32_t>(text.find(what, from));
    return SourceSpan{"", begin, begin + static_cast<std::uint32_t>(std::string(what).size())};
  };
  selection.setSpans({span("P[i] = tanh(A[i] * 2)", 0), span("tanh", 0), span("A[i]", 0), span("Q[i] = tanh(A[i] * 2)", second),
                      span("tanh", second), span("A[i]", second)});
  KernelView view(&theme, &selection);
  view.resize(700, 500);
  view.show();
  view.setSpanText([&](const SourceSpan& s) { return QString::fromStdString(text.substr(s.begin, s.end - s.begin)); });
  Kernel k = capsule::kernel("aa01", {});
  k.expression = "P[i] = tanh(A[i] * 2)";
  k.expressionOrigins = {{0, 3}};
  k.texts = {{"loops", "parallel for i\n  load A\n  store tanh\n", {{0, 3}, {2, 5}, {0, 1, 3, 4}}}};
  view.setKernel(k);
  const auto tags = [&] {
    Origins all;
    for (const auto& t : view.tags()) all.push_back(t.origin);
    return all;
  };
  EXPECT_EQ(tags(), (Origins{1, 2}));
  EXPECT_EQ(view.also(), "");
  selection.select({3});
  EXPECT_EQ(tags(), (Origins{4, 5}));
  EXPECT_EQ(view.also(), "also Q:");
  selection.select({2});
  EXPECT_EQ(tags(), (Origins{1, 2}));
  EXPECT_EQ(view.also(), "");
  // Of a step that makes the other one alone it has that one's name.
  k.expression = "Q[i] = tanh(A[i] * 2)";
  view.setKernel(k);
  EXPECT_EQ(tags(), (Origins{1, 2}));
  EXPECT_EQ(view.also(), "also P:");
  selection.select({5});
  EXPECT_EQ(tags(), (Origins{4, 5}));
  EXPECT_EQ(view.also(), "");
  selection.clear();
  EXPECT_EQ(tags(), (Origins{4, 5})) << "nothing is selected";
}

// One expression in two cells is one kernel. The place that the selection is in is the one that lines and tags lead to.
TEST_F(Tuning, EachPlaceOfAKernelSelectsItsOwnTokens) {
  const std::string text = "P[i] = sum[k] A[i, k] * A[i, k]\nQ[i] = sum[k] B[i, k] * B[i, k]\n";
  const auto p = capsule::spanOf(text, "P[i] = sum[k] A[i, k] * A[i, k]"),
             q = capsule::spanOf(text, "Q[i] = sum[k] B[i, k] * B[i, k]");
  const auto a = capsule::spanOf(text, "A[i, k]"), b = capsule::spanOf(text, "B[i, k]");
  selection.setSpans({p, a, q, b});
  KernelView view(&theme, &selection);
  view.resize(700, 500);
  view.show();
  view.setSpanText([&](const SourceSpan& s) { return QString::fromStdString(text.substr(s.begin, s.end - s.begin)); });
  Kernel k = capsule::kernel("aa01", {});
  k.expression = "P[i] = sum[k] A[i, k] * A[i, k]";
  k.expressionOrigins = {{0, 2}};
  k.texts = {{"loops", "parallel for i\n  load A\n  store\n", {{0, 2}, {1, 3}, {0, 2}}}};
  view.setKernel(k);
  view.setInstances({{{0}, "P"}, {{2}, "Q"}});
  const auto tag = [&] { return view.tags().size() == 1 ? view.tags()[0].text : QString(); };
  selection.select({3});
  EXPECT_EQ(tag(), "B[i, k]");
  EXPECT_EQ(view.also(), "also Q:") << "the expression is that of P";
  const auto labels = view.findChildren<QLabel*>();
  EXPECT_TRUE(std::any_of(labels.begin(), labels.end(), [](const QLabel* l) { return l->text().contains("also Q:"); }));
  EXPECT_EQ(view.tintedLines(), std::vector<int>{1});
  view.chooseLine(0);
  EXPECT_EQ(selection.origins(), Origins{2});
  view.chooseLine(1);
  EXPECT_EQ(selection.origins(), Origins{3});
  selection.select({1});
  EXPECT_EQ(tag(), "A[i, k]");
  EXPECT_EQ(view.also(), "");
  EXPECT_EQ(view.tintedLines(), std::vector<int>{1});
  view.chooseLine(0);
  EXPECT_EQ(selection.origins(), Origins{0});
  selection.clear();  // the last place stays
  view.chooseLine(1);
  EXPECT_EQ(selection.origins(), Origins{1});
}

TEST_F(Tuning, TagsTieTokensToLines) {
  KernelView view(&theme, &selection);
  readCapsule(view);
  view.resize(700, 600);
  view.show();
  view.setKernel(capsule::kernel("aa01", 41));
  ASSERT_EQ(view.tags().size(), 2u);  // the statement holds both accesses: it says less
  EXPECT_EQ(view.tags()[0].text, "A[b, c, p*2+r, q*2+s, i, l]");
  EXPECT_EQ(view.tags()[0].lines, std::vector<int>{4});
  EXPECT_GE(view.tags()[0].begin, 0);
  EXPECT_EQ(view.tags()[1].lines, std::vector<int>{5});
  view.showLanguage("llvm");
  ASSERT_EQ(view.tags().size(), 2u);
  EXPECT_EQ(view.tags()[0].lines, std::vector<int>{2});
  selection.select({view.tags()[1].origin});
  EXPECT_EQ(view.tintedLines(), view.tags()[1].lines);
}

// Passes order the terms of an index and write 0 for an axis of one: it is the same access. One that stands there as it is keeps its place.
TEST_F(Tuning, ATokenIsFoundWhereItsIndicesAreWrittenOtherwise) {
  const std::string text = "Y[b, p] = sum[r] A[b, p*2+r] * A[b, r] * B[r]\n";
  selection.setSpans({capsule::spanOf(text, "Y[b, p] = sum[r] A[b, p*2+r] * A[b, r] * B[r]"), capsule::spanOf(text, "A[b, p*2+r]"),
                      capsule::spanOf(text, "A[b, r]"), capsule::spanOf(text, "B[r]")});
  KernelView view(&theme, &selection);
  view.resize(700, 500);
  view.show();
  view.setSpanText([&](const SourceSpan& s) { return QString::fromStdString(text.substr(s.begin, s.end - s.begin)); });
  Kernel k = capsule::kernel("aa01", {});
  k.expression = "Y[b: 1, p] = sum[r] A[0, 2*p + r] * A[b, r] * B[r]";
  k.expressionOrigins = {{0}};
  k.texts = {{"loops", "load A\nload A\nload B\n", {{1}, {2}, {3}}}};
  view.setKernel(k);
  QStringList marked;
  for (const auto& tag : view.tags())
    if (tag.begin >= 0) marked << QString::fromStdString(k.expression).mid(tag.begin, tag.end - tag.begin);
  EXPECT_EQ(marked.join(' '), "A[0, 2*p + r] A[b, r] B[r]");
}

// A word stands in many statements: a tag is where its own one stands, also where a sum within it has become an operator of its own.
TEST_F(Tuning, ATokenIsFoundInItsOwnStatement) {
  const std::string text = "m[b] = sum[n] x[b, n]\nQ[b, n] = exp(sum[k] X[b, k] * W[n, k])\n";
  const auto at = [&](const char* words, std::uint32_t from = 0) {
    SourceSpan span = capsule::spanOf(text, words);
    const auto begin = static_cast<std::uint32_t>(text.find(words, from));
    return SourceSpan{span.source, begin, begin + (span.end - span.begin)};
  };
  selection.setSpans({at("m[b] = sum[n] x[b, n]"), at("Q[b, n] = exp(sum[k] X[b, k] * W[n, k])"), at("sum", 20), at("exp")});
  KernelView view(&theme, &selection);
  view.resize(700, 500);
  view.show();
  view.setSpanText([&](const SourceSpan& s) { return QString::fromStdString(text.substr(s.begin, s.end - s.begin)); });
  Kernel k = capsule::kernel("aa01", {});
  k.expression = "m[b] = sum[n] Q[b, n]\nQ[b, n] = exp(Q.sum[b, n])";
  k.expressionOrigins = {{0}, {1}};
  k.texts = {{"loops", "load sum\nexp\n", {{2}, {3}}}};
  view.setKernel(k);
  QStringList marked;
  for (const auto& tag : view.tags())
    if (tag.begin >= 0) marked << QString::fromStdString(k.expression).mid(tag.begin, tag.end - tag.begin);
  marked.sort();
  EXPECT_EQ(marked.join(" | "), "Q.sum[b, n] | exp");
}

// A faster kernel takes its place while somebody reads: nobody has moved the cursor.
TEST_F(Tuning, AnotherKernelUnderTheCursorChoosesNothing) {
  KernelView view(&theme, &selection);
  readCapsule(view);
  view.resize(700, 600);
  view.show();
  view.setKernel(capsule::kernel("aa01", 41));
  auto* expression = view.findChild<QPlainTextEdit*>();
  expression->setFocus();
  ASSERT_TRUE(QTest::qWaitFor([&] { return expression->hasFocus(); }));
  expression->moveCursor(QTextCursor::End);
  ASSERT_FALSE(selection.empty());
  selection.clear();
  Kernel other = capsule::kernel("aa01", 42);
  other.expression = "Z" + other.expression.substr(1);
  view.setKernel(other);
  EXPECT_TRUE(expression->hasFocus());
  EXPECT_EQ(expression->toPlainText().front(), QChar('Z'));
  EXPECT_TRUE(selection.empty());
}

// Its place is that of what reads the same, whose lines are there: it is none of them.
TEST_F(Tuning, WhatNoKernelComputesHasNoLines) {
  KernelView view(&theme, &selection);
  readCapsule(view);
  view.resize(700, 600);
  view.show();
  view.setKernel(capsule::kernel("aa01", 41));
  ASSERT_EQ(view.tags().size(), 2u);
  const auto origin = view.tags()[0].origin;
  const auto words = [&] {
    QStringList all;
    for (const QLabel* l : view.findChildren<QLabel*>()) all << l->text();
    return all.join('\n');
  };
  view.setOutside([](const std::string& tensor) { return tensor == "d(L)/d(A)"; });
  selection.select({origin}, {"d(L)/d(A)"});
  EXPECT_EQ(view.absent(), "dA");
  EXPECT_TRUE(view.tintedLines().empty());
  EXPECT_TRUE(words().contains("no kernel of a step computes dA")) << words().toStdString();
  selection.select({origin}, {"Y"});
  EXPECT_FALSE(view.tintedLines().empty());
  selection.select({origin});
  EXPECT_FALSE(view.tintedLines().empty());
}

// However many kernels were looked at.
TEST_F(Tuning, TagsAreDrawnInTheHundredthKernel) {
  KernelView view(&theme, &selection);
  readCapsule(view);
  view.resize(600, 400);
  view.show();
  auto* code = view.findChild<QsciScintilla*>();
  ASSERT_TRUE(code);
  const auto styles = [&] {
    std::vector<long> out;
    for (int i = 0; i < code->lines(); ++i)
      if (code->SendScintilla(QsciScintilla::SCI_MARGINGETTEXT, static_cast<unsigned long>(i), static_cast<void*>(nullptr)) > 0)
        out.push_back(code->SendScintilla(QsciScintilla::SCI_MARGINGETSTYLE, static_cast<unsigned long>(i)));
    return out;
  };
  view.setKernel(capsule::kernel("aa01", 41));
  const auto first = styles();
  ASSERT_FALSE(first.empty());
  for (int i = 0; i < 100; ++i) view.setKernel(capsule::kernel(i % 2 ? "aa01" : "aa02", 41));
  EXPECT_EQ(styles(), first);
}

TEST_F(Tuning, ANumberIsFoundWhereItStandsByItself) {
  KernelView view(&theme, &selection);
  view.resize(700, 600);
  view.show();
  protocol::Kernel k = capsule::kernel("aa01", 41);
  view.setSpanText([](const SourceSpan&) { return QStringLiteral("1"); });
  k.expression = "L = sum[b: 1, k] (Y[11, k] * 1.5 - 1)^2";
  view.setKernel(k);
  ASSERT_FALSE(view.tags().empty());
  for (const auto& tag : view.tags()) {
    EXPECT_EQ(tag.begin, static_cast<int>(k.expression.find("1)^2")));
    EXPECT_EQ(tag.end, tag.begin + 1);
  }
}

TEST_F(Tuning, TwoCandidatesAreCompared) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.setTrials("aa01", capsule::trials());
  view.chooseTrial(40);
  view.setKernel(capsule::kernel("aa01", 40));
  std::vector<std::uint64_t> wanted;
  QObject::connect(&view, &TuneView::trialWanted, &view, [&](const std::string&, std::optional<std::uint64_t> t) {
    if (t) wanted.push_back(*t);
  });
  QComboBox* with = view.kernel()->comparison();
  ASSERT_GT(with->count(), 2);
  with->setFocus();
  QTest::keyClick(with, Qt::Key_Down);
  ASSERT_FALSE(wanted.empty());
  view.setKernel(capsule::otherKernel("aa01", wanted.back()));
  EXPECT_EQ(view.kernel()->difference(), (std::pair{1, 1}));
  EXPECT_TRUE(view.kernel()->text().contains("for k in 0..16"));
  selection.select({1});
  EXPECT_EQ(view.kernel()->tintedLines().size(), 1u);
  QTest::keyClick(with, Qt::Key_Home);
  EXPECT_EQ(view.kernel()->difference(), (std::pair{0, 0}));
}

TEST_F(Tuning, AssemblyIsShownWithoutDirectivesAndKeepsItsOrigins) {
  KernelView view(&theme, &selection);
  Kernel k = capsule::kernel("aa01", 1);
  k.texts = {{"asm",
              "\t.text\n\t.file\t\"A\"\nkernel:\n\t.cfi_startproc\n.Ltmp0:\n\t.loc\t1 2 3\n\tvmovups\t(%rsi), "
              "%zmm0\n\tretq\n\t.section\t.debug_info,\"\",@progbits\n\t.byte\t0\n",
              {{}, {}, {0}, {0}, {1}, {1}, {1}, {0}, {}, {}}}};
  view.setKernel(k);
  view.showLanguage("asm");
  EXPECT_TRUE(view.text().contains("vmovups"));
  EXPECT_FALSE(view.text().contains(".cfi"));
  EXPECT_FALSE(view.text().contains(".byte"));
  selection.select({1});
  ASSERT_EQ(view.tintedLines().size(), 1u);
  EXPECT_TRUE(view.text().split('\n')[view.tintedLines()[0]].contains("vmovups"));
}

// The hint may be of a kernel that another fusion has.
TEST_F(Tuning, AKernelWhosePinIsSetAsideOffersOne) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setPins([](const std::string&) { return true; });
  auto subgraphs = capsule::subgraphs();
  view.setSubgraphs(subgraphs);
  view.chooseSubgraph(subgraphs[0].id);
  EXPECT_EQ(view.pin()->text(), "Unpin");
  subgraphs[0].setAside = subgraphs[0].pinTensor;
  view.setSubgraphs(subgraphs);
  EXPECT_EQ(view.pin()->text(), "Pin");
}

// No trial stands for a pinned schedule but its own.
TEST_F(Tuning, APinnedKernelThatWasNotMeasuredShowsNoOtherTrial) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setPins([](const std::string&) { return true; });
  view.setSubgraphs(capsule::subgraphs());
  auto trials = capsule::trials();
  for (std::size_t i = 0; i < trials.size(); ++i)
    trials[i].schedule.text = R"({"kind":"contraction","knobs":{"threads":1,"tile":[4,)" + std::to_string(i) + "]},\"version\":1}";
  view.setTrials("aa01", trials);
  Space space = capsule::space("aa01");
  space.current.text = R"({"kind":"contraction","knobs":{"threads":1,"tile":[4,999]},"version":1})";
  view.setSpace(space);
  EXPECT_EQ(view.lineage(), "");
  EXPECT_FALSE(view.replay()->isEnabled());
  const auto own =
      std::find_if(trials.begin(), trials.end(), [](const TrialInfo& t) { return t.us && t.status == TrialStatus::Ok; });
  ASSERT_NE(own, trials.end());
  space.current = own->schedule;
  view.setSpace(space);
  EXPECT_TRUE(view.lineage().contains("c" + QString::number(own->number))) << view.lineage().toStdString();
  EXPECT_TRUE(view.replay()->isEnabled());
}

// Also where somebody has clicked into the form that was shown before.
TEST_F(Tuning, AnotherFormOfTheKernelShowsTheSelectionsFirstLine) {
  KernelView view(&theme, &selection);
  view.resize(700, 500);
  view.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&view));
  Kernel k = capsule::kernel("aa01", 1);
  KernelTextInfo loops{"loops", "", {}}, llvm{"llvm", "", {}};
  for (int i = 0; i < 400; ++i) {
    loops.text += "line\n", loops.lineOrigins.push_back(i == 10 ? Origins{1} : Origins{0});
    llvm.text += "load\n", llvm.lineOrigins.push_back(i == 300 ? Origins{1} : Origins{0});
  }
  k.texts = {loops, llvm};
  view.setKernel(k);
  view.showLanguage("loops");
  auto* code = view.findChild<QsciScintilla*>();
  ASSERT_TRUE(code);
  code->setFocus();
  selection.select({1});
  view.showLanguage("llvm");
  ASSERT_EQ(view.tintedLines(), std::vector<int>{300});
  EXPECT_TRUE(QTest::qWaitFor([&] {
    const int first = code->firstVisibleLine();
    return first <= 300 && 300 < first + static_cast<int>(code->SendScintilla(QsciScintilla::SCI_LINESONSCREEN));
  })) << code->firstVisibleLine();
}

TEST_F(Tuning, TheTintOfAStatementCoversItsWrappedLines) {
  KernelView view(&theme, &selection);
  view.resize(420, 600);
  view.show();
  Kernel k = capsule::kernel("aa01", {});
  k.expression =
      "Output[batch, channel, row, column] = sum[k] Left[batch, channel, row, k] * Right[batch, channel, k, column]\nZ = 1";
  k.expressionOrigins = {{0}, {4}};
  view.setKernel(k);
  selection.select({0});
  const auto* field = view.findChild<QPlainTextEdit*>();
  ASSERT_TRUE(field);
  QTextCursor end(field->document()->firstBlock());
  end.movePosition(QTextCursor::EndOfBlock);
  const QRect last = field->cursorRect(end), first = field->cursorRect(QTextCursor(field->document()));
  ASSERT_GT(last.top(), first.bottom()) << "it wraps";
  const QImage image = field->viewport()->grab().toImage();
  for (const QRect& line : {first, last})
    EXPECT_EQ(image.pixelColor(image.width() - 30, line.center().y()).rgb(), theme.colors().accentSoft.rgb());
  EXPECT_NE(image.pixelColor(image.width() - 30, last.center().y() + last.height()).rgb(), theme.colors().accentSoft.rgb());
}

// Whatever form was looked at last, and of every kernel that follows.
TEST_F(Tuning, MachineCodeIsTheFormNearestToTheDevice) {
  KernelView view(&theme, &selection);
  Kernel k = capsule::kernel("aa01", 1);
  k.texts = {{"loops", "for p\n  Y[p] = X[p]\n", {{1}, {1}}},
             {"llvm", "load\nstore\nret\n", {{0}, {0}, {0}}},
             {"asm", "kernel:\n\tvmovups\t(%rsi), %zmm0\n\tretq\n", {{0}, {1}, {0}}}};
  view.setKernel(k);
  view.showLanguage("loops");
  selection.select({1});
  EXPECT_EQ(view.tintedLines().size(), 2u);
  EXPECT_EQ(view.machineLines(), 1) << "its own, not those of the form that is shown";
  view.showMachineCode();
  EXPECT_EQ(view.language(), "asm");
  k.texts[2] = {"ptx", "ld.global.f32\nld.global.f32\nret;\n", {{1}, {1}, {0}}};
  k.texts.push_back({"cuda", "Y[p] = X[p];\n", {{1}}});
  view.setKernel(k);
  EXPECT_EQ(view.language(), "ptx");
  EXPECT_EQ(view.machineLines(), 2);
  view.showLanguage("loops");
  view.setKernel(k);
  EXPECT_EQ(view.language(), "loops");
}

// A profile of kernels that the step has no more says so, and its rows choose nothing.
TEST_F(Tuning, AProfileOfAnEarlierStepSaysSo) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs(), 1);
  view.setProfile(capsule::profile(1, false));
  ProfileView* profile = view.profile();
  EXPECT_FALSE(profile->age().contains("earlier")) << profile->age().toStdString();
  view.chooseSubgraph("aa01");
  auto now = capsule::subgraphs();
  const auto gone = std::find_if(now.begin(), now.end(), [](const auto& s) { return s.id == "bb02"; });
  ASSERT_NE(gone, now.end());
  gone->id = "dd04";
  view.setSubgraphs(now, 2);
  EXPECT_TRUE(profile->age().startsWith("of another plan, ")) << profile->age().toStdString();
  const auto isNow = [&](int row) { return profile->model()->index(row, 0).data(ProfileModel::kNowRole).toBool(); };
  EXPECT_FALSE(isNow(0));
  EXPECT_TRUE(isNow(1));
  profile->table()->setFocus();
  QTest::keyClick(profile->table(), Qt::Key_Home, Qt::ControlModifier);
  EXPECT_EQ(view.current(), "aa01") << "no half of the page goes with it";
  EXPECT_TRUE(profile->sentence().startsWith("The step has no such kernel now: this profile is of another plan."))
      << profile->sentence().toStdString();
  QTest::keyClick(profile->table(), Qt::Key_Down);
  EXPECT_FALSE(profile->sentence().startsWith("The step has no such")) << profile->sentence().toStdString();
  view.setSubgraphs(capsule::subgraphs(), 3);
  EXPECT_FALSE(profile->age().contains("earlier")) << profile->age().toStdString();
  // The same kernels, pinned to other schedules, or on another device.
  view.setStep("cpu", true);
  EXPECT_TRUE(profile->age().startsWith("of an earlier text, ")) << profile->age().toStdString();
  EXPECT_FALSE(isNow(1));
  for (const auto key : {Qt::Key_End, Qt::Key_Home}) {
    QTest::keyClick(profile->table(), key, Qt::ControlModifier);
    EXPECT_EQ(profile->sentence(), "This profile is of an earlier text. Profile measures the step as it is.");
  }
  EXPECT_EQ(view.current(), "bb02");
  view.setStep("cpu", false);
  EXPECT_TRUE(isNow(1));
  view.setStep("reference", false);
  EXPECT_TRUE(profile->age().startsWith("on cpu, which is not in use, ")) << profile->age().toStdString();
  EXPECT_FALSE(isNow(1));
  view.setStep("cpu", false);
  // One that another has taken the place of is still a kernel of the step.
  view.setStep("cpu", false, {"bb02"});
  EXPECT_TRUE(profile->age().startsWith("before kernels were replaced, ")) << profile->age().toStdString();
  EXPECT_FALSE(isNow(0));
  EXPECT_TRUE(isNow(1));
  QTest::keyClick(profile->table(), Qt::Key_Home, Qt::ControlModifier);
  EXPECT_EQ(view.current(), "bb02");
  EXPECT_TRUE(profile->sentence().startsWith("Another kernel has taken its place since.")) << profile->sentence().toStdString();
  view.setStep("cpu", false);
  EXPECT_TRUE(isNow(0));
  // And the curves of a run of another text.
  view.setRunOf(true, {});
  EXPECT_TRUE(isGreyed(view.latency()) && isGreyed(view.loss()));
  view.setRunOf(false, {});
  EXPECT_FALSE(isGreyed(view.latency()) || isGreyed(view.loss()));
}

// The same kernel, after an edit: its lines came from other places of the source now.
TEST_F(Tuning, AKernelIsAskedForAgainWhereTheNotebookIsAnother) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  int asked = 0;
  QObject::connect(&view, &TuneView::trialWanted, &view, [&] { ++asked; });
  view.setSubgraphs(capsule::subgraphs(), 1);
  view.chooseSubgraph("aa01");
  view.setKernel(capsule::kernel("aa01", 1));
  const int before = asked;
  view.setSubgraphs(capsule::subgraphs(), 1);
  EXPECT_EQ(asked, before);
  view.setSubgraphs(capsule::subgraphs(), 2);
  EXPECT_EQ(asked, before + 1);
  view.setSubgraphs(capsule::subgraphs(), 2);
  EXPECT_EQ(asked, before + 1);
}

// More is counted as the expression is written than the kernel has to do.
TEST_F(Tuning, NothingIsFasterThanThePeak) {
  ProfileModel model;
  DeviceConstants device;
  device.bandwidth = 20e9, device.flopRate = 100e9, device.launchSeconds = 2e-6;
  model.setDevice(device);
  Profile p = capsule::profile(1, true);
  p.kernels[0].flops = static_cast<std::int64_t>(p.kernels[0].us * 1e-6 * 120e9);
  model.setProfile(p);
  EXPECT_EQ(model.limitOf(0).section(QLatin1Char('.'), 0, 0),
            "At the peak of arithmetic: as it is written it counts 120 % of what was measured, of which the kernel does less");
}

TEST_F(Tuning, TheProfileIsATableWithASentence) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  DeviceConstants device;
  device.bandwidth = 20e9, device.flopRate = 100e9, device.launchSeconds = 2e-6;
  view.setDevice(device);
  view.setProfile(capsule::profile(1, true));
  EXPECT_TRUE(view.profile()->age().endsWith("just now")) << view.profile()->age().toStdString();
  view.setProfile(capsule::profile(1, true), std::chrono::steady_clock::now() - std::chrono::minutes(32));
  EXPECT_TRUE(view.profile()->age().endsWith(", 32 min ago")) << view.profile()->age().toStdString();
  const auto* model = view.profile()->model();
  const auto text = [&](int row, int column) { return model->data(model->index(row, column), Qt::DisplayRole).toString(); };
  EXPECT_EQ(text(0, ProfileModel::kKernel), "dW + sgd");
  EXPECT_EQ(text(0, ProfileModel::kTime), "900 µs");
  EXPECT_EQ(text(0, ProfileModel::kShare), "82 %");
  EXPECT_EQ(text(0, ProfileModel::kArithmetic), "48.0");
  EXPECT_EQ(text(1, ProfileModel::kBandwidth), "15.0");
  EXPECT_TRUE(model->limitOf(0).startsWith("Limited by arithmetic: 48 %")) << model->limitOf(0).toStdString();
  EXPECT_TRUE(model->limitOf(1).startsWith("Limited by memory: 75 %")) << model->limitOf(1).toStdString();
  EXPECT_TRUE(model->limitOf(2).startsWith("Limited by its launch")) << model->limitOf(2).toStdString();
  const auto isLimit = [&](int column) { return model->data(model->index(1, column), ProfileModel::kLimitRole).toBool(); };
  EXPECT_TRUE(isLimit(ProfileModel::kBandwidth));
  // What never leaves the cache is not limited by memory.
  DeviceConstants cached = device;
  cached.l2Bytes = std::int64_t{1} << 40;
  for (const auto& [rate, sentence] :
       std::vector<std::pair<double, QString>>{{100e9, "Limited by neither ceiling: L2, where all of it stays, at 15 %"},
                                               {30e9, "Limited by L2, where all of it stays: 50 % of its bandwidth"},
                                               {10e9, "Served by a cache: it moves 150 % of what L2 could"}}) {
    cached.l2Bandwidth = rate;
    view.setDevice(cached);
    EXPECT_TRUE(model->limitOf(1).startsWith(sentence)) << model->limitOf(1).toStdString();
    EXPECT_EQ(isLimit(ProfileModel::kBandwidth), rate == 30e9);
    EXPECT_NEAR(model->data(model->index(1, ProfileModel::kBandwidth), ProfileModel::kBarRole).toDouble(), 15e9 / rate, 1e-6);
  }
  cached.l2Bytes = 4096;
  view.setDevice(cached);
  EXPECT_TRUE(model->limitOf(1).startsWith("Limited by memory: 75 %")) << model->limitOf(1).toStdString();
  view.setDevice(device);
  view.profile()->table()->setFocus();
  QTest::keyClick(view.profile()->table(), Qt::Key_Home, Qt::ControlModifier);
  EXPECT_EQ(view.current(), "bb02");
  QTest::keyClick(view.profile()->table(), Qt::Key_Down);
  EXPECT_EQ(view.current(), "aa01");
  EXPECT_TRUE(view.profile()->sentence().startsWith("Limited by memory"));
  QTemporaryDir folder;
  ASSERT_EQ(view.profile()->save(folder.filePath("p.csv")), "");
  EXPECT_NE(view.profile()->save("/nowhere/p.csv"), "");
  EXPECT_EQ(read(folder.filePath("p.csv")).count('\n'), 4);
}

// In a window of 1024 px the profile has about 320: every head stands whole, and none is out of sight.
TEST_F(Tuning, TheHeadsOfANarrowProfileStandWhole) {
  ProfileView view(&theme);
  view.show();
  for (const int width : {320, 400, 470, 620, 900}) {
    view.resize(width, 240);
    view.setProfile(capsule::profile(1, true));
    QCoreApplication::processEvents();
    const QHeaderView* head = view.table()->horizontalHeader();
    EXPECT_LE(head->length(), view.table()->viewport()->width()) << width;
    for (int column = 0; column < ProfileModel::kColumns; ++column) {
      if (head->isSectionHidden(column)) continue;
      EXPECT_GE(head->sectionSize(column), head->sectionSizeHint(column)) << width << " " << column;
    }
  }
}

// Of an expression that is long, or broken by a narrow panel, whole lines are shown.
TEST_F(Tuning, TheExpressionOfAKernelIsCutBetweenLines) {
  for (const int terms : {1, 4, 60})
    for (const int width : {360, 700}) {
      SCOPED_TRACE(::testing::Message() << terms << ' ' << width);
      KernelView view(&theme, &selection);
      view.resize(width, 600);
      view.show();
      Kernel kernel = capsule::kernel("aa01", std::nullopt);
      kernel.expression = "Y[i] = A[i]";
      for (int i = 0; i < terms; ++i) kernel.expression += " + select(z2 // 2 >= " + std::to_string(i) + ", A[i], B[i, k])";
      view.setKernel(kernel);
      QPlainTextEdit* text = nullptr;
      for (QPlainTextEdit* e : view.findChildren<QPlainTextEdit*>())
        if (e->accessibleName() == "Expression of the kernel") text = e;
      ASSERT_TRUE(text);
      const auto lines = [&] { return static_cast<int>(text->document()->size().height()); };  // counted, not pixels
      const int margin = static_cast<int>(text->document()->documentMargin());
      // As they are laid out: a font's line spacing may be a pixel less.
      const QTextLayout& laid = *text->document()->firstBlock().layout();
      EXPECT_TRUE(QTest::qWaitFor([&] {
        const double six = laid.lineCount() > 6 ? laid.lineAt(6).y() : laid.boundingRect().height();
        return lines() > 6 ? text->height() == std::ceil(six) + margin + 1 && !text->toolTip().isEmpty()
                           : text->height() >= six + 2 * margin && text->toolTip().isEmpty();
      })) << lines()
          << " lines in " << text->height();
      // Of several statements those are shown that have room as a whole.
      const int whole = laid.lineCount();
      if (terms != 4 || whole > 3) continue;
      const std::string statement = kernel.expression;
      for (int i = 0; i < 6; ++i) kernel.expression += "\n" + statement;
      view.setKernel(kernel);
      EXPECT_TRUE(QTest::qWaitFor([&] {
        const QTextLayout& first = *text->document()->firstBlock().layout();
        const double fitting = 6 / whole * first.boundingRect().height();
        return first.lineCount() == whole && text->height() == std::ceil(fitting) + margin + 1;
      })) << whole
          << " lines each in " << text->height();
    }
}

// Scrolled to its end, the last line of a kernel stands whole above the scroll bar.
TEST_F(Tuning, TheLastLineOfAKernelIsAboveTheScrollBar) {
  KernelView view(&theme, &selection);
  Kernel k = capsule::kernel("aa01", 1);
  std::string text;
  for (int i = 0; i < 60; ++i) text += "line " + std::to_string(i) + std::string(300, 'x') + (i < 59 ? "\n" : "");
  k.texts = {{"loops", text, {}}};
  view.setKernel(k);
  view.show();
  for (const int height : {400, 407, 413, 419}) {
    SCOPED_TRACE(height);
    view.resize(500, height);
    auto* code = view.findChild<QAbstractScrollArea*>("code");
    ASSERT_TRUE(code);
    ASSERT_TRUE(QTest::qWaitFor([&] { return view.height() == height && code->horizontalScrollBar()->isVisible(); }));
    code->verticalScrollBar()->setValue(code->verticalScrollBar()->maximum());
    const auto [top, bottom] = view.lineOnScreen(59);
    EXPECT_GE(top, 0);
    EXPECT_LE(bottom, code->viewport()->height());
    EXPECT_LE(code->viewport()->geometry().bottom(), code->horizontalScrollBar()->mapTo(code, QPoint(0, 0)).y());
  }
}

}  // namespace
}  // namespace nf
