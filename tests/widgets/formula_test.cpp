// SPDX-License-Identifier: GPL-3.0-or-later
// How formulas are set: what stands beside what, and that it cannot be read otherwise.
#include <gtest/gtest.h>

#include <QFontMetricsF>
#include <QScrollBar>
#include <QTest>
#include <algorithm>

#include "tests/widgets/capsule.h"
#include "widgets/formula_layout.h"
#include "widgets/formula_view.h"

namespace nf {
namespace {

using namespace protocol;
using Kind = FormulaKind;
using Maker = capsule::FormulaMaker;

// X if 2q + 2s >= 1 and 2q + 2s <= 11, else 0.
std::uint32_t paddedAccess(Maker& m) {
  const auto relation = [&](const char* sign, const char* bound) {
    const auto index = m.access("i", {"2q+s"}), end = m.add(Kind::Number, bound);
    return m.add(Kind::Infix, sign, {index, end});
  };
  const auto from = relation(">=", "1"), to = relation("<=", "11");
  const auto condition = m.add(Kind::Infix, "and", {from, to});
  const auto value = m.access("X", {"n", "q"}), zero = m.add(Kind::Number, "0");
  return m.add(Kind::Cases, "", {condition, value, zero});
}

bool isRound(const FormulaBox::Stroke& stroke) { return stroke.points.size() == 13; }

std::ptrdiff_t roundStrokes(const FormulaBox& box) { return std::count_if(box.strokes.begin(), box.strokes.end(), isRound); }

struct Formulas : ::testing::Test {
  Theme theme;
  Selection selection;
  Formulas() { theme.setMode(Theme::Mode::Light); }
};

QStringList textsOf(const FormulaBox& box) {
  QStringList out;
  for (const auto& run : box.runs) out << run.text;
  return out;
}

// "... and 2q + 2s <= 11 F" would be read as 11 F.
TEST_F(Formulas, AFactorBehindCasesIsNotReadIntoTheirConditions) {
  Maker m;
  const auto cases = paddedAccess(m), factor = m.access("F", {"k"});
  m.add(Kind::Infix, "*", {cases, factor});
  for (const double px : {11.0, 22.0, 33.0, 55.0}) {
    SCOPED_TRACE(px);
    const FormulaBox box = setFormula(m.formula, theme, px);
    double conditions = 0, follows = 0, top = 0, bottom = 0;
    for (const auto& run : box.runs) {
      if (run.text == "F") follows = run.at.x();
      if (run.text == "if") top = run.at.y();
      if (run.text == "otherwise") bottom = run.at.y();
      if (run.text == "11" || run.text == "otherwise")
        conditions = std::max(conditions, run.at.x() + QFontMetricsF(run.font).horizontalAdvance(run.text));
    }
    ASSERT_LT(conditions, follows);
    const auto closes = [&](const FormulaBox::Stroke& stroke) {
      const auto between = [&](QPointF p) { return p.x() > conditions && p.x() < follows; };
      return std::all_of(stroke.points.begin(), stroke.points.end(), between) && stroke.points.front().y() < top &&
             stroke.points.back().y() > bottom;
    };
    EXPECT_TRUE(std::any_of(box.strokes.begin(), box.strokes.end(), closes));
    for (const double share : {0.4, 0.6, 0.8})
      EXPECT_EQ(roundStrokes(setFormula(m.formula, theme, px, share * box.width)), 2) << share;
  }
  EXPECT_TRUE(toLatex(m.formula).contains("\\end{cases}\\right) \\, F_{k}")) << toLatex(m.formula).toStdString();
}

TEST_F(Formulas, CasesAreClosedWhereSomethingFollowsThem) {
  const auto brackets = [&](auto make) {
    Maker m;
    make(m);
    const QString latex = toLatex(m.formula);
    EXPECT_EQ(latex.contains("\\left(\\begin{cases}"), latex.contains("\\end{cases}\\right)"));
    const bool closed = latex.contains("\\end{cases}\\right)");
    EXPECT_EQ(closed, roundStrokes(setFormula(m.formula, theme, 22)) == 2) << latex.toStdString();
    return closed;
  };
  const auto infix = [](Maker& m, const char* sign) {
    const auto cases = paddedAccess(m), other = m.access("F", {"k"});
    m.add(Kind::Infix, sign, {cases, other});
  };
  EXPECT_TRUE(brackets([&](Maker& m) { infix(m, "+"); }));
  EXPECT_TRUE(brackets([&](Maker& m) { infix(m, ">="); }));
  EXPECT_FALSE(brackets([&](Maker& m) { infix(m, "/"); })) << "one below the other";
  EXPECT_FALSE(brackets([](Maker& m) {
    const auto factor = m.access("F", {"k"}), cases = paddedAccess(m);
    m.add(Kind::Infix, "*", {factor, cases});
  })) << "nothing follows";
  EXPECT_TRUE(brackets([](Maker& m) {
    const auto first = m.access("F", {"k"}), cases = paddedAccess(m);
    const auto product = m.add(Kind::Infix, "*", {first, cases}), last = m.access("G", {"k"});
    m.add(Kind::Infix, "*", {product, last});
  })) << "in the middle of a product";
  EXPECT_TRUE(brackets([](Maker& m) {
    const auto sum = m.sum({{"r", 0, 2}}, paddedAccess(m)), other = m.access("F", {"k"});
    m.add(Kind::Infix, "+", {sum, other});
  })) << "at the end of a sum that something follows";
  EXPECT_FALSE(brackets([](Maker& m) {
    const auto left = m.access("Z", {"q"}), sum = m.sum({{"r", 0, 2}}, paddedAccess(m));
    m.add(Kind::Equation, "=", {left, sum});
  }));
}

TEST_F(Formulas, ASumOfCasesThatIsAFactorHasOnePairOfBrackets) {
  Maker m;
  const auto sum = m.sum({{"r", 0, 2}}, paddedAccess(m)), factor = m.access("F", {"k"});
  m.add(Kind::Infix, "*", {sum, factor});
  EXPECT_EQ(roundStrokes(setFormula(m.formula, theme, 22)), 2);
  EXPECT_FALSE(toLatex(m.formula).contains("\\left(\\begin{cases}")) << toLatex(m.formula).toStdString();
}

TEST_F(Formulas, IndicesAreSetOneWay) {
  Maker m;
  m.access("A", {"b", "2p+r"});
  const FormulaBox box = setFormula(m.formula, theme, 22);
  for (const auto& run : box.runs)
    for (const QChar c : run.text) {
      if (c.isLetter()) { EXPECT_TRUE(run.font.italic()) << run.text.toStdString(); }
    }
  // 2p is a product without a sign between.
  EXPECT_FALSE(textsOf(box).contains(QStringLiteral("·")));
  EXPECT_EQ(textsOf(box), (QStringList{"A", "b", ",", "2", "p", "+", "r"}));
}

// Beside a factor a remainder stands in brackets: `a mod 2 b` would be the remainder by 2b.
TEST_F(Formulas, ARemainderTakesNoFactorAlong) {
  Maker m;
  const auto remainder = m.add(Kind::Infix, "%", {m.add(Kind::Name, "a"), m.add(Kind::Number, "2")});
  m.add(Kind::Infix, "*", {remainder, m.add(Kind::Name, "b")});
  EXPECT_EQ(toLatex(m.formula), "\\left(a \\bmod 2\\right) \\, b");
  Maker sum;
  const auto plain = sum.add(Kind::Infix, "%", {sum.add(Kind::Name, "a"), sum.add(Kind::Number, "2")});
  sum.add(Kind::Infix, "+", {plain, sum.add(Kind::Name, "b")});
  EXPECT_EQ(toLatex(sum.formula), "a \\bmod 2 + b");
}

// 0.5 (2 Y) is not 0.52 Y, and a product by -b no difference.
TEST_F(Formulas, AFactorIsNotReadOnIntoANumber) {
  const auto product = [](auto right) {
    Maker m;
    const auto left = m.add(Kind::Number, "0.5");
    m.add(Kind::Infix, "*", {left, right(m)});
    return m;
  };
  const auto doubled = [](Maker& m) { return m.add(Kind::Infix, "*", {m.add(Kind::Number, "2"), m.add(Kind::Name, "Y")}); };
  const auto power = [](Maker& m) { return m.add(Kind::Power, "", {m.add(Kind::Number, "2"), m.add(Kind::Name, "Y")}); };
  const auto half = [](Maker& m) { return m.add(Kind::Fraction, "", {m.add(Kind::Name, "a"), m.add(Kind::Name, "Y")}); };
  const auto less = [](Maker& m) { return m.add(Kind::Prefix, "-", {m.add(Kind::Name, "Y")}); };
  const auto name = [](Maker& m) { return m.add(Kind::Name, "Y"); };
  EXPECT_EQ(toLatex(product(doubled).formula), "0.5 \\cdot 2 Y");
  EXPECT_EQ(toLatex(product(power).formula), "0.5 \\cdot 2^{Y}");
  EXPECT_EQ(toLatex(product(half).formula), "0.5 \\cdot \\frac{a}{Y}");
  EXPECT_EQ(toLatex(product(less).formula), "0.5 \\cdot \\left(-Y\\right)");
  EXPECT_EQ(toLatex(product(name).formula), "0.5 Y");
  EXPECT_EQ(textsOf(setFormula(product(doubled).formula, theme, 22)), (QStringList{"0.5", "·", "2", "Y"}));
  EXPECT_EQ(textsOf(setFormula(product(name).formula, theme, 22)), (QStringList{"0.5", "Y"}));
}

TEST_F(Formulas, NoTwoSignsStandSideBySide) {
  const auto infix = [](const char* sign, auto right) {
    Maker m;
    const auto left = m.add(Kind::Name, "x");
    m.add(Kind::Infix, sign, {left, right(m)});
    return m.formula;
  };
  const auto two = [](Maker& m) { return m.add(Kind::Number, "-2"); };
  const auto product = [](Maker& m) { return m.add(Kind::Infix, "*", {m.add(Kind::Number, "-2"), m.add(Kind::Name, "y")}); };
  const auto half = [](Maker& m) { return m.add(Kind::Infix, "/", {m.add(Kind::Number, "-2"), m.add(Kind::Name, "y")}); };
  EXPECT_EQ(toLatex(infix("*", two)), "x \\cdot \\left(-2\\right)");
  EXPECT_EQ(toLatex(infix("+", two)), "x + \\left(-2\\right)");
  EXPECT_EQ(toLatex(infix("-", product)), "x - \\left(-2 y\\right)");
  EXPECT_EQ(toLatex(infix("-", half)), "x - \\frac{-2}{y}");
  EXPECT_EQ(toLatex(infix("<", two)), "x < -2");
  const auto strokes = [&](const Formula& formula) { return setFormula(formula, theme, 22).strokes.size(); };
  EXPECT_EQ(strokes(infix("*", two)), 2u);
  EXPECT_EQ(strokes(infix("<", two)), 0u);
  EXPECT_EQ(setFormula(infix("+", product), theme, 22, 10).strokes.size(), 2u);  // on several lines, too
}

TEST_F(Formulas, ASmallNumberIsAPowerOfTen) {
  const auto number = [](const char* text) {
    Maker m;
    m.add(Kind::Number, text);
    return m.formula;
  };
  EXPECT_EQ(toLatex(number("1e-05")), "10^{-5}");
  EXPECT_EQ(toLatex(number("-1.5e+20")), "-1.5 \\cdot 10^{20}");
  EXPECT_EQ(toLatex(number("-inf")), "-inf");
  const FormulaBox box = setFormula(number("2.5e-08"), theme, 22);
  ASSERT_EQ(textsOf(box), (QStringList{"2.5·10", "−8"}));
  EXPECT_LT(box.runs[1].at.y(), box.runs[0].at.y());
  Maker power;
  power.add(Kind::Power, "", {power.add(Kind::Number, "2e-05"), power.add(Kind::Number, "2")});
  EXPECT_EQ(toLatex(power.formula), "\\left(2 \\cdot 10^{-5}\\right)^{2}");
}

// W2[k] is not W[2*k].
TEST_F(Formulas, ANumberInANameIsNoIndex) {
  Maker named, index;
  named.access("W2", {"k"});
  const auto w = index.add(Kind::Name, "W"), two = index.add(Kind::Number, "2"), k = index.add(Kind::Name, "k");
  index.add(Kind::Subscript, "", {w, index.add(Kind::Infix, "*", {two, k})});
  EXPECT_EQ(toLatex(named.formula), "\\mathit{W2}_{k}");
  EXPECT_EQ(toLatex(index.formula), "W_{2 k}");
  const auto heightOf = [&](const Maker& m, const char* text) {
    for (const auto& run : setFormula(m.formula, theme, 22).runs)
      if (run.text == text) return run.at.y();
    return -1000.0;
  };
  EXPECT_EQ(heightOf(named, "2"), heightOf(named, "W"));
  EXPECT_GT(heightOf(index, "2"), heightOf(index, "W"));
}

TEST_F(Formulas, ALetterAndItsNumberAreOneName) {
  Maker m;
  m.add(Kind::Name, "z12");
  const FormulaBox box = setFormula(m.formula, theme, 22);
  ASSERT_EQ(box.runs.size(), 2u);
  EXPECT_TRUE(box.runs[0].font.italic());
  EXPECT_FALSE(box.runs[1].font.italic());
  EXPECT_GT(box.runs[1].at.y(), box.runs[0].at.y());
  EXPECT_EQ(toLatex(m.formula), "{z_{12}}");
}

Formula longCases() {
  Maker m;
  std::uint32_t all = 0;
  for (int i = 0; i < 4; ++i) {
    const auto left = m.access("condition", {"i", "j"}), right = m.access("bound", {"k", "l"});
    const auto one = m.add(Kind::Infix, ">=", {left, right});
    all = i == 0 ? one : m.add(Kind::Infix, "and", {all, one});
  }
  const auto value = m.access("Y", {"b", "k", "p", "q", "i", "j"}), zero = m.add(Kind::Number, "0");
  const auto cases = m.add(Kind::Cases, "", {all, value, zero});
  const auto name = m.access("G", {"b"});
  m.add(Kind::Equation, "=", {name, cases});
  return m.formula;
}

TEST_F(Formulas, ConditionsStandOneALine) {
  const FormulaBox box = setFormula(longCases(), theme, 22);
  std::set<int> lines;
  for (const auto& run : box.runs)
    if (run.text == "if" || run.text == "and") lines.insert(static_cast<int>(run.at.y()));
  EXPECT_EQ(lines.size(), 4u);
  for (const auto& run : box.runs) EXPECT_GE(run.font.pixelSize(), 10) << run.text.toStdString();
}

// G = sum of many products, wider than any page; its parts by their runs.
Formula longSum(int terms) {
  Maker m;
  std::uint32_t all = 0;
  for (int i = 0; i < terms; ++i) {
    const auto term = m.access(("A" + std::to_string(i)).c_str(), {"i", "j"});
    all = i == 0 ? term : m.add(Kind::Infix, i % 2 == 0 ? "+" : "-", {all, term});
  }
  const auto name = m.access("G", {"b"});
  m.add(Kind::Equation, "=", {name, all});
  return m.formula;
}

TEST_F(Formulas, ALongFormulaIsBrokenBeforeItsSigns) {
  const Formula formula = longSum(30);
  const FormulaBox whole = setFormula(formula, theme, 22);
  for (const double room : {300.0, 500.0, 900.0}) {
    SCOPED_TRACE(room);
    ASSERT_GT(whole.width, room);
    const FormulaBox box = setFormula(formula, theme, 22, room);
    EXPECT_LE(box.width, room);
    EXPECT_EQ(textsOf(box).size(), textsOf(whole).size());  // nothing lost
    // A line begins with its sign, or with the formula's first term.
    std::map<int, std::pair<double, QString>> first;
    for (const auto& run : box.runs) {
      if (run.font.pixelSize() < 22) continue;
      auto& line = first.try_emplace(static_cast<int>(std::lround(run.at.y())), 1e9, QString()).first->second;
      if (run.at.x() < line.first) line = {run.at.x(), run.text};
    }
    ASSERT_GT(first.size(), 1u);
    int others = 0;  // the formula's name, and its first term where that has a line of its own
    for (const auto& [y, begin] : first) others += begin.second != "+" && begin.second != QChar(0x2212);
    EXPECT_LE(others, 2);
    // Runs of one line do not overlap those of another.
    for (auto it = std::next(first.begin()); it != first.end(); ++it) EXPECT_GE(it->first - std::prev(it)->first, 20);
  }
}

TEST_F(Formulas, ConditionsGoBelowTheirValueWhereThePageIsNarrow) {
  const FormulaBox wide = setFormula(longCases(), theme, 22), narrow = setFormula(longCases(), theme, 22, wide.width * 0.75);
  EXPECT_LE(narrow.width, wide.width * 0.75);
  EXPECT_EQ(textsOf(narrow).size(), textsOf(wide).size());
  FormulaView view(&theme, &selection);
  view.resize(1600, 200);
  view.show();
  view.setFormulas({longCases()});
  const int high = view.height();
  view.resize(static_cast<int>(wide.width * 0.75) + 8, view.height());
  EXPECT_FALSE(view.scrollBar()->isVisible());
  EXPECT_GT(view.height(), high);
}

// A side of a relation that takes several lines is read to its end before what it is related to.
TEST_F(Formulas, ARelationStandsBelowASideOfSeveralLines) {
  Maker m;
  std::uint32_t sum = 0;
  for (int i = 0; i < 10; ++i) {
    const auto term = m.access("A", {"i", "j"});
    sum = i == 0 ? term : m.add(Kind::Infix, "+", {sum, term});
  }
  const auto element = m.add(Kind::Name, "z");
  m.add(Kind::Infix, "==", {sum, element});
  const FormulaBox whole = setFormula(m.formula, theme, 22);
  for (const double share : {0.3, 0.5, 0.7}) {
    SCOPED_TRACE(share);
    const FormulaBox box = setFormula(m.formula, theme, 22, share * whole.width);
    EXPECT_LE(box.width, share * whole.width);
    EXPECT_EQ(textsOf(box).size(), textsOf(whole).size());
    std::optional<double> relation;
    double last = 0;
    for (const auto& run : box.runs) {
      if (run.text == "=") relation = run.at.y();
      else if (run.text != "z") last = std::max(last, run.at.y());
    }
    ASSERT_TRUE(relation);
    EXPECT_GT(*relation, last);
  }
}

TEST_F(Formulas, WhatCannotBeBrokenIsScrolled) {
  Maker m;
  const auto left = m.access("condition", {"batch", "channel", "row", "column"}), right = m.access("bound", {"batch", "channel"});
  m.add(Kind::Fraction, "", {left, right});
  FormulaView view(&theme, &selection);
  view.resize(200, 200);
  view.show();
  view.setFormulas({m.formula});
  ASSERT_TRUE(view.scrollBar()->isVisible());
  EXPECT_GT(view.scrollBar()->maximum(), 0);
  const QImage before = view.grab().toImage();
  QTest::mouseClick(view.scrollBar(), Qt::LeftButton, {}, QPoint(view.scrollBar()->width() - 3, 5));
  EXPECT_GT(view.scrollBar()->value(), 0);
  EXPECT_NE(view.grab().toImage(), before);
  view.resize(2000, view.height());
  EXPECT_FALSE(view.scrollBar()->isVisible());
}

}  // namespace
}  // namespace nf
