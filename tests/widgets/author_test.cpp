// SPDX-License-Identifier: GPL-3.0-or-later
// Formulas, derivations, completion and hints: what a person reads and writes on the Author page.
#include <gtest/gtest.h>

#include <QAbstractItemView>
#include <QDockWidget>
#include <QFontMetricsF>
#include <QImage>
#include <QLabel>
#include <QLineEdit>
#include <QMainWindow>
#include <QPainter>
#include <QRegularExpression>
#include <QScrollArea>
#include <QScrollBar>
#include <QSettings>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include "tests/widgets/capsule.h"
#include "widgets/basic.h"
#include "widgets/completion_list.h"
#include "widgets/derivation_view.h"
#include "widgets/dock_page.h"
#include "widgets/expression_editor.h"
#include "widgets/formula_view.h"
#include "widgets/inspector_view.h"
#include "widgets/leads.h"
#include "widgets/tensor_view.h"

namespace nf {
namespace {

using namespace protocol;
using Kind = FormulaKind;

struct AuthorWidgets : ::testing::Test {
  Theme theme;
  Selection selection;
  AuthorWidgets() {
    theme.setMode(Theme::Mode::Light);
    selection.setSpans(capsule::analysis(capsule::kText, 1).spans);
  }
};

// What can be read in it.
QStringList badgesIn(const QWidget& widget) {
  QStringList words;
  for (const Badge* b : widget.findChildren<Badge*>())
    if (b->isVisible()) words << b->accessibleName();
  return words;
}
QString wordsIn(const QWidget& widget) {
  QStringList words;
  for (const QLabel* l : widget.findChildren<QLabel*>())
    if (l->isVisible()) words << l->text();
  return words.join(QLatin1Char('\n'));
}

// A mistake quotes code in the font of the window: `->` stays two signs there, too.
TEST_F(AuthorWidgets, AMistakeHasNoLigaturesInEitherTheme) {
  const MessageStrip strip(&theme, true, QStringLiteral("expected `->`"));
  for (const Theme::Mode mode : {Theme::Mode::Light, Theme::Mode::Dark}) {
    theme.setMode(mode);
    EXPECT_TRUE(strip.findChild<QLabel*>()->font().styleStrategy() & QFont::PreferNoShaping);
  }
}

TEST_F(AuthorWidgets, MonospaceTextHasNoLigatures) {
  // `<=` is as wide as its two characters, and is drawn as they are drawn one by one.
  const QFont font = theme.mono(24);
  const auto draw = [&](std::initializer_list<const char*> parts) {
    QImage image(80, 40, QImage::Format_Grayscale8);
    image.fill(Qt::white);
    QPainter p(&image);
    p.setFont(font);
    double x = 4;
    for (const char* part : parts) {
      p.drawText(QPointF(x, 30), QString::fromLatin1(part));
      x += std::round(QFontMetricsF(font).horizontalAdvance(QString::fromLatin1(part)));
    }
    return image;
  };
  int differs = 0;
  const QImage whole = draw({"<="}), apart = draw({"<", "="});
  for (int y = 0; y < whole.height(); ++y)
    for (int x = 0; x < whole.width(); ++x) differs += std::abs(qGray(whole.pixel(x, y)) - qGray(apart.pixel(x, y))) > 128;
  EXPECT_LT(differs, 20);
}

TEST_F(AuthorWidgets, AnAccessIsTintedInEveryFormula) {
  FormulaView view(&theme, &selection);
  view.resize(1200, 300);
  auto formulas = capsule::expression("Y", 1).formulas;
  for (const auto& f : capsule::expression("d(L)/d(W)", 1).formulas) formulas.push_back(f);
  view.setFormulas(formulas);
  view.show();
  const QImage before = view.grab().toImage();
  selection.select({1});
  const QImage after = view.grab().toImage();
  std::set<int> rows;
  for (int y = 0; y < after.height(); ++y)
    for (int x = 0; x < after.width(); ++x)
      if (after.pixelColor(x, y) == theme.colors().accentSoft && before.pixelColor(x, y) != theme.colors().accentSoft)
        rows.insert(y);
  ASSERT_FALSE(rows.empty());
  EXPECT_LT(*rows.begin(), before.height() / 2);
  EXPECT_GT(*rows.rbegin(), before.height() / 2);
}

GradientTermInfo term() {
  GradientTermInfo t;
  t.tensor = "A", t.access = "A[b, 2*p + r]", t.result = "d(L)/d(A)", t.form = GradientForm::Gather,
  t.certificate = CertificateState::Proved;
  t.derivation = {
      {"Access",
       {"z0 = b, 0 <= z0 < 1", "z1 = 2*p + r, 0 <= z1 < 29", "0 <= b <= 0", "0 <= p <= 13", "0 <= q <= 13", "1 <= r <= 2"}},
      {"Linear system", {"b = z0", "2*p + r = z1", "0 <= b <= 0", "0 <= p <= 13", "0 <= s0 <= 7   (s0 is p // 2)"}},
      {"Solution", {"b = z0", "p = z1 // 2 - t0", "r = 2*t0 + z1 % 2"}},
      {"Free axes", {"t0: 2 runs over r in steps of 2, 0 <= r <= 2"}},
      {"Guards that stay", {"2*t0 + z1 % 2 <= 2", "z0 % 2 == 0   (of z alone: around the sum)"}},
      {"Guards dropped", {"z1 >= 0   (s0 >= 0): always true"}},
      {"Inverse", {"sum t0:2 where ...: p = ..."}},
      {"Certificate", {"proved: every point is visited once"}},
      {"Something new", {"as it is"}}};
  return t;
}

TEST_F(AuthorWidgets, ADerivationIsReadAsSteps) {
  const auto rows = derivationRows(term());
  QStringList titles;
  for (const auto& row : rows) titles << row.title;
  EXPECT_EQ(titles,
            (QStringList{"Access", "System", "Solution", "Free axes", "Guards", "Dropped", "Certificate", "Something new"}));
  EXPECT_EQ(rows[0].lines[0].text, "z = (b, 2*p + r)");
  EXPECT_EQ(rows[0].lines[1].text, "0 ≤ z < (1, 29)");
  EXPECT_EQ(rows[0].pieces, (QStringList{"0 ≤ b < 1", "0 ≤ p, q < 14", "1 ≤ r < 3"}));
  EXPECT_EQ(rows[1].pieces, (QStringList{"b = z0", "2*p + r = z1", "0 ≤ s0 < 8", "s0 = p // 2"}));
  EXPECT_EQ(rows[3].pieces, QStringList{"t0 < 2 over r by 2"});
  EXPECT_EQ(rows[4].lines[1].text, "z0 % 2 == 0");
  EXPECT_EQ(rows[4].lines[1].note, "of z alone: around the sum");
  EXPECT_EQ(rows[5].lines[0].text, "z1 ≥ 0");
  EXPECT_EQ(rows[5].lines[0].note, "s0 ≥ 0: always true");
  EXPECT_EQ(rows[7].lines[0].text, "as it is");
}

TEST_F(AuthorWidgets, WrappedStepsAreAsHighAsTheirText) {
  DerivationView view(&theme);
  GradientTermInfo t = term();
  t.derivation = {
      {"Certificate", {"proved: every point that reads an element is visited once, and no other one is, whatever its place"}}};
  view.setTerms({t}, false);
  view.resize(260, view.heightForWidth(260));
  view.show();
  for (const QLabel* l : view.findChildren<QLabel*>())
    if (l->isVisible() && l->wordWrap()) { EXPECT_GE(l->height(), l->heightForWidth(l->width())) << l->text().toStdString(); }
}

TEST_F(AuthorWidgets, GuardsThatGoForOneReasonStandTogether) {
  GradientTermInfo t = term();
  t.derivation = {{"Guards dropped",
                   {"z0 >= 0   (k >= 0): always true", "z0 <= 15   (k <= 15): always true",
                    "z1 >= t0   (p >= 0): the other guards imply it", "in other words"}}};
  const auto rows = derivationRows(t);
  ASSERT_EQ(rows.size(), 1u);
  ASSERT_EQ(rows[0].lines.size(), 3u);
  EXPECT_EQ(QString(rows[0].lines[0].text).replace(QChar(0xa0), ' '), "z0 ≥ 0   z0 ≤ 15");
  EXPECT_EQ(rows[0].lines[0].note, "always true");
  EXPECT_EQ(rows[0].lines[1].note, "p ≥ 0: the other guards imply it");
  EXPECT_EQ(rows[0].lines[2].text, "in other words");
}

TEST_F(AuthorWidgets, WithoutGuardsItSaysNone) {
  GradientTermInfo t = term();
  t.derivation = {{"Solution", {"p = z1"}}, {"Certificate", {"proved"}}};
  const auto rows = derivationRows(t);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].title, "Guards");
  EXPECT_EQ(rows[1].pieces, QStringList{"none"});
}

TEST_F(AuthorWidgets, TheInspectorShowsTheDerivationAndIsPinned) {
  InspectorView view(&theme);
  view.resize(352, 900);
  view.show();
  TensorInfo tensor;
  tensor.name = "d(L)/d(A)", tensor.dtype = "f32", tensor.shape = {1, 29};
  view.setTensor(tensor);
  Expression e;
  e.tensor = "d(L)/d(A)";
  e.terms = {term()};
  view.setExpression(e);
  EXPECT_EQ(view.derivation()->steps(), 8);
  EXPECT_TRUE(view.derivation()->text().contains("0 ≤ p, q < 14"));
  EXPECT_TRUE(view.derivation()->isVisible());
  EXPECT_FALSE(view.pinned());
  auto buttons = view.findChildren<QToolButton*>();
  const auto pin = std::find_if(buttons.begin(), buttons.end(), [](QToolButton* b) { return b->accessibleName() == "Pin"; });
  ASSERT_NE(pin, buttons.end());
  QTest::mouseClick(*pin, Qt::LeftButton);
  EXPECT_TRUE(view.pinned());
}

// Two notebooks may have a tensor of one name and shape: what one had of it is not the other's.
TEST_F(AuthorWidgets, AnInspectorThatIsClearedKeepsNoValues) {
  InspectorView view(&theme);
  view.resize(352, 900);
  view.show();
  TensorInfo tensor;
  tensor.name = "w", tensor.dtype = "f32", tensor.shape = {2, 3};
  const auto rows = [&] { return view.values()->model()->rowCount(); };
  view.setTensor(tensor);
  TensorSlice slice;
  slice.tensor = "w", slice.shape = {2, 3}, slice.begin = {0, 0}, slice.end = {2, 3}, slice.histogram = {6}, slice.step = 7;
  view.values()->setSlice(slice, std::vector<double>(6, 0.5));
  ASSERT_EQ(rows(), 2);
  view.clear();
  view.setTensor(tensor);
  EXPECT_EQ(rows(), 0);
}

// In a narrow panel badges stand below each other and long lines break: a formula that is cut off reads as another one.
TEST_F(AuthorWidgets, ANarrowInspectorCutsNothing) {
  InspectorView view(&theme);
  view.resize(280, 900);
  view.show();
  TensorInfo tensor;
  tensor.name = "d(L)/d(W)", tensor.dtype = "f32", tensor.shape = {32, 8, 3, 3, 4, 4};
  view.setTensor(tensor);
  Expression e = capsule::expression("d(L)/d(W)", 1);
  e.terms[0].derivation = {{"Linear system", {"q0 = 4*t1 + (3*z0 + 3*t0 + 5*t1) // 4", "m1 = (p + (3*p + 3*r) // 4) % 11"}},
                           {"Cost", {"f(alpha,beta,gamma,delta,epsilon,zeta,eta,theta,iota,kappa)"}}};
  view.setExpression(e);
  std::vector<QRect> badges;
  for (const Badge* b : view.findChildren<Badge*>())
    if (b->isVisible()) badges.emplace_back(b->mapTo(&view, QPoint()), b->size());
  ASSERT_TRUE(QTest::qWaitFor([&] {
    badges.clear();
    for (const Badge* b : view.findChildren<Badge*>())
      if (b->isVisible()) badges.emplace_back(b->mapTo(&view, QPoint()), b->size());
    return badges.size() == 2 && badges[1].top() > badges[0].bottom();
  }));
  for (const QRect& b : badges) EXPECT_LE(b.right(), view.width());
  for (const QLabel* l : view.derivation()->findChildren<QLabel*>())
    for (const QString& word : l->text().split(QRegularExpression(QStringLiteral("[ \\x{200b}]"))))
      EXPECT_LE(QFontMetrics(l->font()).horizontalAdvance(word), l->width()) << word.toStdString();
  EXPECT_EQ(view.scroll()->horizontalScrollBar()->maximum(), 0);
  view.resize(500, 900);
  ASSERT_TRUE(QTest::qWaitFor([&] {
    badges.clear();
    for (const Badge* b : view.findChildren<Badge*>())
      if (b->isVisible()) badges.emplace_back(b->mapTo(&view, QPoint()), b->size());
    return badges[1].top() == badges[0].top();
  }));
}

// A name is as long as its author likes: it is elided, and whole in a tooltip.
TEST_F(AuthorWidgets, ALongNameMakesTheInspectorNoWider) {
  InspectorView view(&theme);
  view.resize(320, 900);
  view.show();
  const std::string name(100, 'w'), gradient = "d(L)/d(" + name + ")";
  TensorInfo tensor;
  tensor.name = gradient, tensor.dtype = "f32", tensor.shape = {32, 8};
  view.setTensor(tensor);
  Expression e = capsule::expression("d(L)/d(W)", 1);
  e.tensor = gradient;
  e.terms[0].tensor = name, e.terms[0].access = name + "[i, j]", e.terms[0].result = gradient;
  e.terms[0].derivation = {{"Linear system", {name + " = 4*t1"}}};
  view.setExpression(e);
  EXPECT_EQ(view.scroll()->horizontalScrollBar()->maximum(), 0);
  ASSERT_TRUE(QTest::qWaitFor([&] { return view.scroll()->widget()->width() <= view.width(); }));
  const QString whole = QString::fromStdString("dL/d" + name);
  bool head = false;
  for (const QLabel* l : view.findChildren<QLabel*>()) {
    if (!l->isVisible() || !l->toolTip().contains(whole)) continue;
    EXPECT_TRUE(l->text().contains(QChar(0x2026))) << l->text().toStdString();
    head = head || l->toolTip() == whole;
  }
  EXPECT_TRUE(head);
  EXPECT_LE(view.values()->mapTo(&view, QPoint(view.values()->width(), 0)).x(), view.width());
}

// The check computes with initial values, whatever a training has learnt since.
TEST_F(AuthorWidgets, ACheckAndValuesBesideItSayWhichStateTheyAreOf) {
  InspectorView view(&theme);
  view.show();
  TensorInfo tensor;
  tensor.name = "d(L)/d(W)", tensor.dtype = "f32", tensor.shape = {2};
  view.setTensor(tensor);
  TensorSlice slice;
  slice.tensor = "d(L)/d(W)", slice.dtype = "f32", slice.shape = slice.end = {2}, slice.begin = {0}, slice.step = 999;
  view.setSlice(slice, {1, 2});
  EXPECT_FALSE(wordsIn(view).contains("initial values"));
  EXPECT_TRUE(wordsIn(view).contains("at step 999")) << wordsIn(view).toStdString();
  Expression e = capsule::expression("d(L)/d(W)", 1);
  ASSERT_TRUE(e.check);
  view.setExpression(e);
  EXPECT_EQ(wordsIn(view).count("initial values"), 1) << wordsIn(view).toStdString();
  slice.step = -1;
  view.setSlice(slice, {1, 2});
  EXPECT_EQ(wordsIn(view).count("initial values"), 2) << "of the check and of the values";
  e.check.reset();
  e.revision = 2;
  view.setExpression(e);
  EXPECT_EQ(wordsIn(view).count("initial values"), 0);
}

TEST_F(AuthorWidgets, WhatIsKnownOfAnOlderTextIsBeingChecked) {
  InspectorView view(&theme);
  view.show();
  TensorInfo tensor;
  tensor.name = "d(L)/d(W)", tensor.dtype = "f32", tensor.shape = {9216};
  view.setTensor(tensor);
  view.setRevision(1);
  view.setExpression(capsule::expression("d(L)/d(W)", 1));
  EXPECT_FALSE(view.checking());
  view.setRevision(2);
  ASSERT_TRUE(QTest::qWaitFor([&] { return view.checking(); }));
  EXPECT_TRUE(badgesIn(view).contains("checking"));
  EXPECT_FALSE(badgesIn(view).contains("proved"));
  view.setExpression(capsule::expression("d(L)/d(W)", 1));
  EXPECT_TRUE(view.checking()) << "an answer that was overtaken";
  view.setExpression(capsule::expression("d(L)/d(W)", 2));
  EXPECT_FALSE(view.checking());
  // Answered before it was drawn as old: so it stays.
  view.setRevision(3);
  view.setExpression(capsule::expression("d(L)/d(W)", 3));
  EXPECT_FALSE(view.awaitsAnswer());
  EXPECT_TRUE(badgesIn(view).contains("proved"));
  EXPECT_TRUE(badgesIn(view).contains("proved"));
  view.setRevision(4);
  view.setExpressionFailed("d(L)/d(W)", "The notebook has no such tensor.");
  EXPECT_TRUE(badgesIn(view).isEmpty());
  EXPECT_TRUE(wordsIn(view).contains("no such tensor"));
}

TEST_F(AuthorWidgets, AProofUnderWayIsNotCalledProved) {
  InspectorView view(&theme);
  view.show();
  TensorInfo tensor;
  tensor.name = "d(L)/d(A)", tensor.dtype = "f32", tensor.shape = {1, 29};
  view.setTensor(tensor);
  Expression e;
  e.tensor = "d(L)/d(A)";
  e.terms = {term()};
  e.terms[0].certificate = CertificateState::Checking;
  view.setExpression(e);
  EXPECT_EQ(badgesIn(view), QStringList{"checking"});
  EXPECT_TRUE(view.proves());
  e.terms[0].certificate = CertificateState::Proved;
  view.setExpression(e);
  EXPECT_EQ(badgesIn(view), QStringList{"proved"});
  EXPECT_FALSE(view.proves());
}

TEST_F(AuthorWidgets, ALeadWithALongNameKeepsItsBeginning) {
  Section section(&theme, "Leads to");
  section.resize(260, 200);
  showLeads(&section, &theme, {{"kernel", "Kernel " + QString(20, 'W'), "1.3 ms", "kernel:1"}, {"node", "Node W", "", "node:1"}},
            {});
  section.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&section));
  for (const char* target : {"kernel:1", "node:1"}) {
    auto* lead = section.findChild<IconButton*>(target);
    ASSERT_TRUE(lead);
    const QImage image = lead->grab().toImage();
    int ink = 0;  // columns beside the icon that are not blank
    for (int x = 26; x < image.width(); ++x)
      for (int y = 3; y < image.height() - 3; ++y)
        if (image.pixelColor(x, y).lightness() < 128) {
          ++ink;
          break;
        }
    EXPECT_GT(ink, lead->text() == "Node W" ? 10 : image.width() / 3) << lead->text().toStdString();
  }
  EXPECT_LT(section.findChild<IconButton*>("kernel:1")->width(), section.findChild<IconButton*>("kernel:1")->sizeHint().width());
}

TEST_F(AuthorWidgets, AScatterByItsCostIsNotForWantOfAProof) {
  InspectorView view(&theme);
  view.show();
  TensorInfo tensor;
  tensor.name = "d(L)/d(A)", tensor.dtype = "f32", tensor.shape = {1, 29};
  view.setTensor(tensor);
  Expression e;
  e.tensor = "d(L)/d(A)";
  e.terms = {term()};
  e.terms[0].form = GradientForm::Scatter;
  for (const auto state : {CertificateState::Proved, CertificateState::Unneeded}) {
    e.terms[0].certificate = state;
    view.setExpression(e);
    EXPECT_TRUE(badgesIn(view).contains("scatter"));
    EXPECT_TRUE(wordsIn(view).contains("by its cost"));
    EXPECT_FALSE(wordsIn(view).contains("could be proved"));
    EXPECT_FALSE(wordsIn(view).contains("under way"));
  }
  e.terms[0].certificate = CertificateState::Checking;  // solved in haste, or perhaps read by no point
  view.setExpression(e);
  EXPECT_TRUE(badgesIn(view).contains("checking"));
  EXPECT_TRUE(wordsIn(view).contains("under way"));
  e.terms[0].certificate = CertificateState::Uncertified;
  view.setExpression(e);
  EXPECT_TRUE(wordsIn(view).contains("No inverse of this access could be proved"));
  e.terms.push_back(term());
  view.setExpression(e);
  EXPECT_TRUE(wordsIn(view).contains("Of 1 access of its 2 no inverse could be proved"));
}

TEST_F(AuthorWidgets, AScatterByDataWasNotTriedAndHasNoTermsAnElement) {
  InspectorView view(&theme);
  view.show();
  TensorInfo tensor;
  tensor.name = "d(L)/d(A)", tensor.dtype = "f32", tensor.shape = {1, 29};
  view.setTensor(tensor);
  Expression e;
  e.tensor = "d(L)/d(A)";
  e.terms = {term()};
  e.terms[0].tripsPerElement = 324;
  view.setExpression(e);
  EXPECT_TRUE(wordsIn(view).contains("Terms an element"));
  EXPECT_FALSE(wordsIn(view).contains("Term 1 of"));
  e.terms[0].form = GradientForm::Scatter;
  e.terms[0].certificate = CertificateState::Untried;
  view.setExpression(e);
  EXPECT_TRUE(badgesIn(view).contains("scatter"));
  EXPECT_TRUE(wordsIn(view).contains("depends on data"));
  EXPECT_FALSE(wordsIn(view).contains("could be proved"));
  EXPECT_FALSE(wordsIn(view).contains("by its cost"));
  EXPECT_FALSE(wordsIn(view).contains("Terms an element"));
  e.terms.push_back(term());
  e.terms[1].result = "d(L)/d(A)#2";
  view.setExpression(e);
  EXPECT_TRUE(wordsIn(view).contains("The index of 1 access of its 2 depends on data"));
  EXPECT_TRUE(wordsIn(view).contains("Term 1 of 2"));
  EXPECT_TRUE(wordsIn(view).contains("Term 2 of 2"));
  EXPECT_TRUE(wordsIn(view).contains("d(L)/d(A)#2"));
}

TEST_F(AuthorWidgets, SamplesOfANumericCheckAreATableAndWhatIsNotFiniteIsNeverGreen) {
  InspectorView view(&theme);
  view.resize(352, 900);
  view.show();
  TensorInfo tensor;
  tensor.name = "d(N)/d(x)", tensor.dtype = "f64", tensor.shape = {3};
  view.setTensor(tensor);
  Expression e;
  e.tensor = tensor.name;
  e.terms = {term()};
  NumericCheck check;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  check.samples = check.wanted = check.elements = 3, check.refuted = 2, check.worst = nan, check.allowed = 1e-5;
  check.histogram = {1, 0, 0, 0}, check.histogramFirst = -13, check.histogramLast = -3;
  check.worstSamples = {
      {{2}, nan, 0, nan, 0}, {{0}, INFINITY, 1.5, INFINITY, 0}, {{12, 0, 2, 0, 2, 0}, 0.00091154, 0.00091154, 1.9e-9, 0}};
  e.check = check;
  view.setExpression(e);
  EXPECT_EQ(view.checked(), "numeric check NaN, all of 3");
  const auto* table = view.findChild<QWidget*>("samples");
  ASSERT_TRUE(table);
  QStringList cells;
  for (const QLabel* l : table->findChildren<QLabel*>()) cells << l->text();
  EXPECT_EQ(cells.mid(4, 4), (QStringList{"[2]", "NaN", "0", "NaN"}));
  EXPECT_EQ(cells.mid(8, 4), (QStringList{"[0]", "inf", "1.5000", "inf"}));
  EXPECT_LE(table->geometry().right(), view.width());
  const QString all = wordsIn(view);
  EXPECT_TRUE(all.contains("2 samples have no finite error")) << all.toStdString();
  EXPECT_FALSE(all.contains("apart by more"));
}

TEST_F(AuthorWidgets, ANumericCheckGoesOnUntilItIsWholeAndSaysHowFarItIs) {
  InspectorView view(&theme);
  view.show();
  TensorInfo tensor;
  tensor.name = "d(L)/d(W)", tensor.dtype = "f32", tensor.shape = {9216};
  view.setTensor(tensor);
  Expression e;
  e.tensor = tensor.name;
  e.terms = {term()};
  view.setExpression(e);
  QSignalSpy wanted(&view, &InspectorView::checkWanted);
  QTest::mouseClick(view.compare(), Qt::LeftButton);
  EXPECT_EQ(wanted.count(), 1);
  NumericCheck check;
  check.samples = 1, check.wanted = 256, check.elements = 9216, check.worst = 3.1e-10, check.allowed = 1e-5;
  const auto shown = [&]() -> const Badge* {
    for (const Badge* b : view.findChildren<Badge*>())
      if (b->isVisible() && b->accessibleName().startsWith("numeric")) return b;
    return nullptr;
  };
  const auto badge = [&] { return shown() ? shown()->accessibleName() : QString(); };
  const auto icon = [&] { return shown() ? shown()->icon() : QString(); };
  e.check = check;
  view.setExpression(e);
  EXPECT_EQ(badge(), "numeric check 3.1e-10, 1 of 256");
  EXPECT_EQ(icon(), "running") << "what goes on is no warning";
  EXPECT_EQ(wanted.count(), 2);
  e.check->samples = 100;
  view.setExpression(e);
  EXPECT_EQ(wanted.count(), 3);
  QTest::mouseClick(view.compare(), Qt::LeftButton);
  e.check->samples = 180;
  view.setExpression(e);
  EXPECT_EQ(wanted.count(), 3) << "stopped: the round under way is the last";
  EXPECT_EQ(icon(), "pause");
  QTest::mouseClick(view.compare(), Qt::LeftButton);
  EXPECT_EQ(wanted.count(), 4);
  EXPECT_EQ(icon(), "running");
  e.check->refuted = 1;
  view.setExpression(e);
  EXPECT_EQ(icon(), "error") << "what is refuted is told at once";
  EXPECT_EQ(wanted.count(), 5);
  e.check->refuted = 0;
  e.check->samples = 256;
  view.setExpression(e);
  EXPECT_EQ(wanted.count(), 5);
  EXPECT_EQ(badge(), "numeric check 3.1e-10, 256 samples");
  EXPECT_EQ(icon(), "proved");
  EXPECT_EQ(view.compare(), nullptr);
}

TEST_F(AuthorWidgets, TiesChoicesAndMovedPointsOfANumericCheckAreToldAsOnTheCommandLine) {
  InspectorView view(&theme);
  view.resize(352, 900);
  view.show();
  TensorInfo tensor;
  tensor.name = "d(L)/d(W)", tensor.dtype = "f32", tensor.shape = {6};
  view.setTensor(tensor);
  Expression e;
  e.tensor = tensor.name;
  e.terms = {term()};
  NumericCheck check;
  check.samples = check.wanted = check.elements = 6, check.refuted = 1, check.worst = 1e-12, check.allowed = 1e-5;
  check.ties = 2, check.histogram = {6, 0}, check.histogramFirst = -13, check.histogramLast = -3;
  check.worstSamples = {{{0}, 1, 1, 1e-12, 0, false, true}, {{1}, 1, 1, 1e-13, 0, false, false}};
  check.choices = {{"max", "P", NumericChoice::Kind::First, 1}, {"relu", "Y", NumericChoice::Kind::Kink, 2}};
  check.moved = MovedCheck{{"W"}, 6, 6, 1, 0, 0.5, {{{3}, 2, 3, 0.5, 0, false, false}}};
  e.check = check;
  view.setExpression(e);
  QStringList cells;
  for (const QLabel* l : view.findChild<QWidget*>("samples")->findChildren<QLabel*>()) cells << l->text();
  EXPECT_TRUE(cells.contains("[0], at a tie or kink"));
  EXPECT_TRUE(cells.contains("[1]"));
  const QString all = wordsIn(view);
  EXPECT_TRUE(all.contains("1 sample lies at a tie of") && all.contains("the first of equals has the gradient, as in PyTorch"));
  EXPECT_TRUE(all.contains("2 samples lie at a kink of") && all.contains("the slope there is 0, as in PyTorch"));
  EXPECT_TRUE(all.contains("Also with W moved by about 1 %")) << all.toStdString();
  EXPECT_TRUE(all.contains("6 of 6 elements, worst error 0.5") && all.contains("1 beyond what rounding explains"));
  EXPECT_FALSE(all.contains("apart by more")) << "the first point refutes nothing";
  ASSERT_TRUE(view.findChild<QWidget*>("moved samples"));
  EXPECT_LE(view.findChild<QWidget*>("moved samples")->geometry().right(), view.width());
}

TEST_F(AuthorWidgets, HintsThatDoNotFitAreShortened) {
  ExpressionEditor editor(&theme, true);
  editor.setBytes("Y[b,k,p,q,i,j] = sum[c,r,s,l] A[b, c, p*2+r, q*2+s, i, l] * W[k, c, r, s, l, j]");
  editor.resize(1400, 60);
  editor.show();
  editor.setHints({{editor.bytes().size(), {"b: 1", "k: 16", "p: 14", "q: 14", "i: 4", "j: 4"}}});
  EXPECT_EQ(editor.shownHint(0), "b: 1  k: 16  p: 14  q: 14  i: 4  j: 4");
  const int text = QFontMetrics(theme.mono(13)).horizontalAdvance(editor.toPlainText());
  editor.resize(text + 260, 60);
  EXPECT_EQ(editor.shownHint(0), "b:1 k:16 p:14 q:14 i:4 j:4");
  editor.resize(text + 180, 60);
  EXPECT_TRUE(editor.shownHint(0).endsWith("…"));
  EXPECT_TRUE(editor.shownHint(0).startsWith("b:1 k:16 p:14"));
  EXPECT_LE(QFontMetrics(theme.mono(12)).horizontalAdvance(editor.shownHint(0)), 180);
  editor.resize(text / 2, 60);
  EXPECT_TRUE(editor.shownHint(0).isEmpty());
}

// The JSON of a pinned schedule is written out only where the caret is: its text is the notebook's either way.
TEST_F(AuthorWidgets, APinnedScheduleIsFoldedUntilTheCaretIsInIt) {
  const std::string json =
      R"({"kind":"contraction","knobs":{"axes":"own","lanes":16,"left":[1,4,8],"packing":"both","parallel":"outer","reductions":"blocked",)"
      R"("right":[2,2,16],"unroll":4},"version":1})";
  const std::string text = "hint fuse Y, Z\nhint schedule Y " + json + "\nhint schedule Z " + json;
  QWidget window;
  ExpressionEditor editor(&theme, true, &window);
  QLineEdit elsewhere(&window);
  window.resize(700, 200);
  editor.setGeometry(0, 0, 700, 100);
  elsewhere.setGeometry(0, 150, 100, 30);
  editor.setBytes(text);
  window.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&window));
  elsewhere.setFocus();
  const auto left = [&](std::size_t line) { return editor.rectOf(text.find("hint schedule", line) + 16 + json.size()).left(); };
  const std::size_t first = text.find("hint schedule Y"), second = text.find("hint schedule Z");
  ASSERT_TRUE(QTest::qWaitFor([&] { return !editor.shownFold(1).isEmpty(); }));
  EXPECT_TRUE(editor.shownFold(0).isEmpty());
  EXPECT_TRUE(editor.shownFold(1).startsWith("contraction")) << editor.shownFold(1).toStdString();
  EXPECT_TRUE(editor.shownFold(1).contains("axes:own") || editor.shownFold(1).contains("axes: own"));
  EXPECT_EQ(editor.shownFold(2), editor.shownFold(1));
  EXPECT_EQ(editor.horizontalScrollBar()->maximum(), 0) << "nothing to scroll to";
  EXPECT_LT(left(first), 300);
  // The caret in one of them writes it out; the other stays.
  editor.setFocus();
  editor.moveCaretTo(second + 3);
  ASSERT_TRUE(QTest::qWaitFor([&] { return editor.shownFold(2).isEmpty(); }));
  EXPECT_FALSE(editor.shownFold(1).isEmpty());
  EXPECT_GT(editor.horizontalScrollBar()->maximum(), 0);
  editor.moveCaretTo(0);
  EXPECT_FALSE(editor.shownFold(2).isEmpty());
  EXPECT_EQ(editor.horizontalScrollBar()->maximum(), 0);
  // What is found in it, or wrong with it, can be seen.
  editor.setMarks({{first + 40, first + 45, ExpressionEditor::Mark::Kind::FoundHere}});
  EXPECT_TRUE(editor.shownFold(1).isEmpty());
  editor.setMarks({});
  EXPECT_FALSE(editor.shownFold(1).isEmpty());
  // What cannot be read as a schedule is never hidden.
  editor.setBytes("hint schedule Y {\"kind\": ");
  EXPECT_TRUE(editor.shownFold(0).isEmpty());
  editor.setBytes(text);
  EXPECT_EQ(editor.toPlainText().toStdString(), text);
}

std::vector<SymbolInfo> symbols() {
  std::vector<SymbolInfo> out;
  const auto add = [&](SymbolKind kind, const char* name, const char* detail) {
    SymbolInfo s;
    s.kind = kind, s.name = name, s.detail = detail;
    out.push_back(s);
  };
  add(SymbolKind::Param, "weights", "f32 [3]");
  add(SymbolKind::Extent, "width", "3");
  add(SymbolKind::State, "wave", "f32 [3]");
  add(SymbolKind::Data, "digits", "1797 rows");
  add(SymbolKind::Function, "conv2d", "conv2d(X[N,C,H,W], K, R; stride = 1, pad = 0) -> Y");
  add(SymbolKind::Tensor, "d(L)/d(weights)", "f32 [3]");
  return out;
}

QStringList offered(std::string text) {
  const auto cursor = static_cast<std::uint32_t>(text.find('|'));
  text.erase(cursor, 1);
  QStringList out;
  for (const auto& item : completionsAt(text, cursor, completionContext(text, cursor), symbols())) out << item.word;
  return out;
}

TEST_F(AuthorWidgets, CompletionGoesByPlace) {
  EXPECT_EQ(offered("Y[i] = w|"), (QStringList{"weights", "width", "wave"}));
  EXPECT_EQ(offered("Y[row, i] = weights[ro|]"), (QStringList{"row", "prod"}));
  EXPECT_TRUE(offered("Y[i] = co|").contains("conv2d"));
  EXPECT_TRUE(offered("Y[i] = co|").contains("cos"));
  EXPECT_EQ(offered("input w|"), QStringList());
  EXPECT_EQ(offered("input X[3] : f|"), (QStringList{"f16", "f32", "f64"}));
  EXPECT_EQ(offered("train L { optimizer = |"), (QStringList{"adam", "momentum", "sgd"}));
  EXPECT_EQ(offered("train L { op|"), QStringList{"optimizer"});
  EXPECT_TRUE(offered("inp|").contains("input"));
  EXPECT_FALSE(offered("wi|").contains("width"));
  EXPECT_EQ(offered("# wei|"), QStringList());
}

TEST_F(AuthorWidgets, CompletionInsertsTheChosenByKey) {
  ExpressionEditor editor(&theme, true);
  editor.setSymbols(std::make_shared<const std::vector<SymbolInfo>>(symbols()));
  editor.setBytes("Y[i] =  + 1");
  editor.resize(600, 60);
  editor.show();
  editor.setFocus();
  editor.moveCaretTo(7);
  QTest::keyClicks(&editor, "wi");
  ASSERT_TRUE(editor.completing());
  QTest::keyClick(&editor, Qt::Key_Return);
  EXPECT_EQ(editor.bytes(), "Y[i] = width + 1");
  EXPECT_FALSE(editor.completing());
  QTest::keyClick(&editor, Qt::Key_Space, Qt::ControlModifier);
  EXPECT_FALSE(editor.completing()) << "the only choice is there already";
  editor.moveCaretTo(editor.bytes().size());
  QTest::keyClicks(&editor, " * wa");
  ASSERT_TRUE(editor.completing());
  QTest::keyClick(&editor, Qt::Key_Tab);
  EXPECT_EQ(editor.bytes(), "Y[i] = width + 1 * wave");
  // A function is about to be called; where its bracket stands it keeps that one.
  for (const auto& [before, after] : {std::pair("Y[i] =  + 1", "Y[i] = conv2d( + 1"), {"Y[i] = (X, 3)", "Y[i] = conv2d(X, 3)"}}) {
    editor.setBytes(before);
    editor.moveCaretTo(7);
    QTest::keyClicks(&editor, "conv");
    ASSERT_TRUE(editor.completing());
    QTest::keyClick(&editor, Qt::Key_Return);
    EXPECT_EQ(editor.bytes(), after);
  }
  for (const auto& [typed, after] : {std::pair("sigm", "Y[i] = sigmoid("), {"argm", "Y[i] = argmax"}}) {
    editor.setBytes("Y[i] = ");
    editor.moveCaretTo(7);
    QTest::keyClicks(&editor, typed);
    ASSERT_TRUE(editor.completing());
    QTest::keyClick(&editor, Qt::Key_Return);
    EXPECT_EQ(editor.bytes(), after);
  }
  QTest::keyClicks(&editor, " - we");
  ASSERT_TRUE(editor.completing());
  QTest::keyClick(&editor, Qt::Key_Escape);
  EXPECT_FALSE(editor.completing());
  EXPECT_TRUE(editor.bytes().ends_with(" - we"));
}

TEST_F(AuthorWidgets, TheSignatureOfTheCallIsTold) {
  ExpressionEditor editor(&theme, true);
  editor.setSymbols(std::make_shared<const std::vector<SymbolInfo>>(symbols()));
  editor.show();
  editor.setFocus();
  QString told;
  QObject::connect(&editor, &ExpressionEditor::signatureChanged, &editor, [&](const QString& s) { told = s; });
  editor.setBytes("Z = conv2d(X, 3)");
  editor.moveCaretTo(12);
  EXPECT_TRUE(told.startsWith("conv2d(X[N,C,H,W]"));
  editor.moveCaretTo(1);
  EXPECT_TRUE(told.isEmpty());
  // Nobody stands in a call who went to another cell.
  editor.moveCaretTo(12);
  QFocusEvent away(QEvent::FocusOut, Qt::MouseFocusReason), back(QEvent::FocusIn, Qt::MouseFocusReason);
  QApplication::sendEvent(&editor, &away);
  EXPECT_TRUE(told.isEmpty());
  QApplication::sendEvent(&editor, &back);
  EXPECT_TRUE(told.startsWith("conv2d(X[N,C,H,W]"));
}

TEST_F(AuthorWidgets, PanelsStayWhereTheyWerePut) {
  QTemporaryDir folder;
  QSettings settings(folder.filePath("layout.ini"), QSettings::IniFormat);
  const auto make = [&] {
    auto page = std::make_unique<DockPage>(&theme, QStringLiteral("page"));
    page->setCentralWidget(new QWidget);
    page->addPanel(QStringLiteral("left"), new PanelHeader(&theme, "Left"), new QWidget, Qt::LeftDockWidgetArea, 200);
    page->addPanel(QStringLiteral("right"), new PanelHeader(&theme, "Right"), new QWidget, Qt::RightDockWidgetArea, 300);
    page->resize(1000, 600);
    return page;
  };
  auto page = make();
  page->show();
  EXPECT_EQ(page->panel("left")->width(), 200);
  EXPECT_EQ(page->panel("right")->width(), 300);
  page->panel("right")->hide();
  page->addDockWidget(Qt::RightDockWidgetArea, page->panel("left"));
  page->saveLayout(settings);
  page = make();
  page->restoreLayout(settings);
  page->show();
  EXPECT_FALSE(page->panel("right")->isVisible());
  EXPECT_EQ(page->dockWidgetArea(page->panel("left")), Qt::RightDockWidgetArea);
  page->resetLayout();
  EXPECT_TRUE(page->panel("right")->isVisible());
  EXPECT_EQ(page->dockWidgetArea(page->panel("left")), Qt::LeftDockWidgetArea);
}

// What folded in a small window is no panel that somebody put away.
TEST_F(AuthorWidgets, FoldedPanelsComeBackInALargerWindow) {
  QTemporaryDir folder;
  QSettings settings(folder.filePath("layout.ini"), QSettings::IniFormat);
  const auto make = [&](int width) {
    auto page = std::make_unique<DockPage>(&theme, QStringLiteral("page"));
    page->setCentralWidget(new QWidget);
    page->addPanel(QStringLiteral("left"), new PanelHeader(&theme, "Left"), new QWidget, Qt::LeftDockWidgetArea, 200);
    page->addPanel(QStringLiteral("right"), new PanelHeader(&theme, "Right"), new QWidget, Qt::RightDockWidgetArea, 300);
    page->keepForMiddle(400, {QStringLiteral("left"), QStringLiteral("right")});
    page->resize(width, 600);
    return page;
  };
  const auto shown = [](const DockPage& page) {
    return std::pair(page.panel("left")->isVisible(), page.panel("right")->isVisible());
  };
  auto page = make(700);
  page->show();
  EXPECT_EQ(shown(*page), std::pair(false, true));
  EXPECT_TRUE(page->isFolded("left"));
  page->saveLayout(settings);
  for (const auto& [width, left] : {std::pair(700, false), std::pair(1000, true)}) {
    page = make(width);
    page->restoreLayout(settings);
    page->show();
    EXPECT_TRUE(QTest::qWaitFor([&] { return shown(*page) == std::pair(left, true); })) << width;
  }
  page->panel("left")->hide();
  page->saveLayout(settings);
  page = make(1000);
  page->restoreLayout(settings);
  page->show();
  QCoreApplication::processEvents();
  EXPECT_EQ(shown(*page), std::pair(false, true)) << "put away";
}

TEST_F(AuthorWidgets, PanelsGrowAgainWithTheWindow) {
  DockPage page(&theme, QStringLiteral("page"));
  page.setCentralWidget(new QWidget);
  page.centralWidget()->setMinimumWidth(300);
  page.addPanel(QStringLiteral("left"), new PanelHeader(&theme, "Left"), new QWidget, Qt::LeftDockWidgetArea, 200);
  page.addPanel(QStringLiteral("right"), new PanelHeader(&theme, "Right"), new QWidget, Qt::RightDockWidgetArea, 300);
  page.resize(560, 600);
  page.show();
  const auto widths = [&] { return std::pair(page.panel("left")->width(), page.panel("right")->width()); };
  EXPECT_LT(widths().second, 300);
  page.resize(1200, 600);
  EXPECT_TRUE(QTest::qWaitFor([&] { return widths() == std::pair(200, 300); })) << widths().first << ' ' << widths().second;
}

}  // namespace
}  // namespace nf
