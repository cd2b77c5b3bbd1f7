// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/support/hash.h"

namespace nf {

// Variables of index expressions. Inside an operator, variable v < axes.size() is its axis v (output axes first, then
// reduction axes). Variables from kLoopVariable on are the counters of enclosing Loops, outermost first.
using IndexVar = std::uint32_t;
inline constexpr IndexVar kLoopVariable = 0x40000000u;

// Inclusive integer interval; empty when hi < lo.
struct Range {
  std::int64_t lo = 0;
  std::int64_t hi = -1;
  bool empty() const { return hi < lo; }
  std::int64_t extent() const { return empty() ? 0 : hi - lo + 1; }
  friend bool operator==(const Range&, const Range&) = default;
};

class IndexExpr;

// A variable, or floor(numerator / divisor) with divisor > 1. mod(e, d) is no atom: it is e - d*floor(e/d), so that
// 4*(x//4) + x%4 cancels to x (design: autodiff, section 2); the printer re-creates it.
struct IndexAtom {
  IndexVar variable = 0;                       // meaningful while !numerator
  std::shared_ptr<const IndexExpr> numerator;  // set: this atom is a floor division
  std::int64_t divisor = 1;

  bool isFloorDiv() const { return numerator != nullptr; }
  friend bool operator==(const IndexAtom&, const IndexAtom&);
  friend std::strong_ordering operator<=>(const IndexAtom&, const IndexAtom&);
};

struct IndexTerm {
  IndexAtom atom;
  std::int64_t coefficient = 0;  // never 0
  friend bool operator==(const IndexTerm&, const IndexTerm&) = default;
};

// Quasi-affine integer expression in normal form: constant + sum of coefficient * atom, terms sorted by atom, none zero.
// Equal expressions compare equal. Arithmetic is overflow-checked: once a result does not fit 64 bits, or has more than
// kMostTerms terms or kDeepest nested floors (so that walks over it may recurse), overflowed() stays true and the value
// means nothing.
class IndexExpr {
 public:
  static constexpr std::uint32_t kMostTerms = 4096;  // nested ones included
  static constexpr std::uint32_t kDeepest = 64;

  IndexExpr() = default;
  IndexExpr(std::int64_t constant) : m_constant(constant) {}
  static IndexExpr variable(IndexVar v);

  std::int64_t constant() const { return m_constant; }
  const std::vector<IndexTerm>& terms() const { return m_terms; }
  bool overflowed() const { return m_overflowed; }

  bool isConstant() const { return m_terms.empty(); }
  std::optional<IndexVar> asVariable() const;  // the expression is exactly one variable
  bool isAffine() const;                       // no floor division
  bool uses(IndexVar v) const;
  std::int64_t coefficientOf(IndexVar v) const;              // of the plain variable term; 0 where it has none
  void collectVariables(std::vector<IndexVar>& into) const;  // sorted, without repeats
  std::size_t floorDivCount() const;                         // nested ones included

  IndexExpr operator-() const;
  friend IndexExpr operator+(const IndexExpr&, const IndexExpr&);
  friend IndexExpr operator-(const IndexExpr&, const IndexExpr&);
  friend IndexExpr operator*(std::int64_t, const IndexExpr&);
  friend bool operator==(const IndexExpr&, const IndexExpr&);
  friend std::strong_ordering operator<=>(const IndexExpr&, const IndexExpr&);

  void addTo(Hasher& hasher) const;

 private:
  friend class IndexExprAccess;
  friend IndexExpr floorDiv(const IndexExpr&, std::int64_t);
  std::int64_t m_constant = 0;
  bool m_overflowed = false;
  std::uint32_t m_size = 0;   // terms, nested ones included
  std::uint32_t m_depth = 0;  // of nested floors
  std::vector<IndexTerm> m_terms;
};

// floor(e / d), d > 0. Pulls out multiples of d, cancels common factors, merges nested floors.
IndexExpr floorDiv(const IndexExpr& e, std::int64_t d);
// e - d*floor(e / d), in [0, d), d > 0.
IndexExpr floorMod(const IndexExpr& e, std::int64_t d);

// The range of a variable; a variable that has none known is unbounded and yields nullopt.
using RangeOf = std::function<std::optional<Range>(IndexVar)>;
RangeOf rangesOf(std::span<const std::int64_t> extents);  // variable v: [0, extents[v] - 1]

// Interval that contains every value (exact for affine e with independent variables; recognises e - d*floor(e/d)).
// nullopt: unbounded or overflowing.
std::optional<Range> bounds(const IndexExpr& e, const RangeOf& ranges);

// Folds floors whose value the ranges fix, everywhere inside.
IndexExpr simplify(const IndexExpr& e, const RangeOf& ranges);

// Replaces variables; `replacement` returns nullopt for those that stay.
IndexExpr substitute(const IndexExpr& e, const std::function<std::optional<IndexExpr>(IndexVar)>& replacement);

std::int64_t evaluate(const IndexExpr& e, const std::function<std::int64_t(IndexVar)>& value);

// Language text, "2*p + r - 1", "x // 4", "(x + 1) % 6"; mod re-created from its floor form. Round-trips through the parser.
std::string toText(const IndexExpr& e, const std::function<std::string(IndexVar)>& name);

// A condition over index expressions: a tree, so that path guards of any select can be held (design: autodiff, section 2).
struct IndexCond {
  enum class Kind : std::uint8_t { GreaterEqualZero, EqualZero, And, Or, Not };
  Kind kind = Kind::And;  // And without operands: true. Or without operands: false.
  IndexExpr expr;         // of the first two kinds
  std::vector<IndexCond> operands;

  static IndexCond ge0(IndexExpr e);
  static IndexCond eq0(IndexExpr e);
  static IndexCond all(std::vector<IndexCond> operands);
  static IndexCond any(std::vector<IndexCond> operands);
  static IndexCond negate(IndexCond operand);  // of GreaterEqualZero: -e - 1 >= 0; of Not: the operand
  static IndexCond always() { return all({}); }
  bool isAlways() const { return kind == Kind::And && operands.empty(); }
  friend bool operator==(const IndexCond&, const IndexCond&) = default;
};

IndexCond substitute(const IndexCond& c, const std::function<std::optional<IndexExpr>(IndexVar)>& replacement);
bool evaluate(const IndexCond& c, const std::function<std::int64_t(IndexVar)>& value);
void collectVariables(const IndexCond& c, std::vector<IndexVar>& into);  // sorted, without repeats
// Language text, "2*p + r >= 1", "z % 2 == 0 and not (i == j)".
std::string toText(const IndexCond& c, const std::function<std::string(IndexVar)>& name);

}  // namespace nf
