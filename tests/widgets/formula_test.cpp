// SPDX-License-Identifier: GPL-3.0-or-later
// How formulas are set: what stands beside what, and that it cannot be read otherwise.
#include <gtest/gtest.h>

#include <QFontMetricsF>
#include <algorithm>

#include "tests/widgets/capsule.h"
#include "widgets/formula_layout.h"

namespace nf {
namespace {

using Kind = protocol::FormulaKind;
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
};

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

}  // namespace
}  // namespace nf
