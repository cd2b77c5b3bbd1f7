// SPDX-License-Identifier: Apache-2.0
#include "core/ir/index_expr.h"

#include <algorithm>
#include <numeric>

#include "core/support/assert.h"
#include "core/support/checked.h"

namespace nf {

// Builds normal forms; the only writer of an IndexExpr's fields besides its constructors.
class IndexExprAccess {
 public:
  explicit IndexExprAccess(IndexExpr e = {}) : m_expr(std::move(e)) {}

  void addConstant(std::int64_t value) {
    if (__builtin_add_overflow(m_expr.m_constant, value, &m_expr.m_constant)) m_expr.m_overflowed = true;
  }
  // Keeps the terms sorted and free of zeros.
  void addTerm(const IndexAtom& atom, std::int64_t coefficient) {
    if (coefficient == 0) return;
    auto& terms = m_expr.m_terms;
    const auto at =
        std::lower_bound(terms.begin(), terms.end(), atom, [](const IndexTerm& t, const IndexAtom& a) { return t.atom < a; });
    if (at == terms.end() || !(at->atom == atom)) {
      terms.insert(at, {atom, coefficient});
      return;
    }
    if (__builtin_add_overflow(at->coefficient, coefficient, &at->coefficient)) m_expr.m_overflowed = true;
    else if (at->coefficient == 0) terms.erase(at);
  }
  void add(const IndexExpr& e, std::int64_t factor) {
    if (e.m_overflowed) m_expr.m_overflowed = true;
    std::int64_t product;
    if (__builtin_mul_overflow(e.m_constant, factor, &product)) m_expr.m_overflowed = true;
    else addConstant(product);
    for (const IndexTerm& term : e.m_terms) {
      if (__builtin_mul_overflow(term.coefficient, factor, &product)) m_expr.m_overflowed = true;
      else addTerm(term.atom, product);
    }
  }
  IndexExpr take() {
    std::uint64_t size = m_expr.m_terms.size();
    m_expr.m_depth = 0;
    for (const IndexTerm& t : m_expr.m_terms) {
      if (!t.atom.isFloorDiv()) continue;
      size += t.atom.numerator->m_size;
      m_expr.m_depth = std::max(m_expr.m_depth, t.atom.numerator->m_depth + 1);
    }
    if (size > IndexExpr::kMostTerms || m_expr.m_depth > IndexExpr::kDeepest) {
      m_expr = IndexExpr();
      m_expr.m_overflowed = true;
      return std::move(m_expr);
    }
    m_expr.m_size = static_cast<std::uint32_t>(size);
    return std::move(m_expr);
  }

 private:
  IndexExpr m_expr;
};

bool operator==(const IndexAtom& a, const IndexAtom& b) {
  if (a.isFloorDiv() != b.isFloorDiv()) return false;
  if (!a.isFloorDiv()) return a.variable == b.variable;
  return a.divisor == b.divisor && (a.numerator == b.numerator || *a.numerator == *b.numerator);
}

std::strong_ordering operator<=>(const IndexAtom& a, const IndexAtom& b) {
  if (a.isFloorDiv() != b.isFloorDiv()) return a.isFloorDiv() ? std::strong_ordering::greater : std::strong_ordering::less;
  if (!a.isFloorDiv()) return a.variable <=> b.variable;
  if (a.numerator != b.numerator)
    if (const auto order = *a.numerator <=> *b.numerator; order != 0) return order;
  return a.divisor <=> b.divisor;
}

bool operator==(const IndexExpr& a, const IndexExpr& b) {
  return a.m_constant == b.m_constant && a.m_overflowed == b.m_overflowed && a.m_terms == b.m_terms;
}

std::strong_ordering operator<=>(const IndexExpr& a, const IndexExpr& b) {
  const std::size_t common = std::min(a.m_terms.size(), b.m_terms.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (const auto order = a.m_terms[i].atom <=> b.m_terms[i].atom; order != 0) return order;
    if (const auto order = a.m_terms[i].coefficient <=> b.m_terms[i].coefficient; order != 0) return order;
  }
  if (const auto order = a.m_terms.size() <=> b.m_terms.size(); order != 0) return order;
  if (const auto order = a.m_constant <=> b.m_constant; order != 0) return order;
  return a.m_overflowed <=> b.m_overflowed;
}

IndexExpr IndexExpr::variable(IndexVar v) {
  IndexExpr e;
  e.m_terms.push_back({IndexAtom{v, nullptr, 1}, 1});
  e.m_size = 1;
  return e;
}

std::optional<IndexVar> IndexExpr::asVariable() const {
  if (m_overflowed || m_constant != 0 || m_terms.size() != 1) return std::nullopt;
  if (m_terms[0].coefficient != 1 || m_terms[0].atom.isFloorDiv()) return std::nullopt;
  return m_terms[0].atom.variable;
}

bool IndexExpr::isAffine() const {
  return std::none_of(m_terms.begin(), m_terms.end(), [](const IndexTerm& t) { return t.atom.isFloorDiv(); });
}

bool IndexExpr::uses(IndexVar v) const {
  return std::any_of(m_terms.begin(), m_terms.end(),
                     [v](const IndexTerm& t) { return t.atom.isFloorDiv() ? t.atom.numerator->uses(v) : t.atom.variable == v; });
}

std::int64_t IndexExpr::coefficientOf(IndexVar v) const {
  for (const IndexTerm& t : m_terms)
    if (!t.atom.isFloorDiv() && t.atom.variable == v) return t.coefficient;
  return 0;
}

void IndexExpr::collectVariables(std::vector<IndexVar>& into) const {
  for (const IndexTerm& t : m_terms) {
    if (t.atom.isFloorDiv()) {
      t.atom.numerator->collectVariables(into);
      continue;
    }
    const auto at = std::lower_bound(into.begin(), into.end(), t.atom.variable);
    if (at == into.end() || *at != t.atom.variable) into.insert(at, t.atom.variable);
  }
}

std::size_t IndexExpr::floorDivCount() const {
  std::size_t count = 0;
  for (const IndexTerm& t : m_terms)
    if (t.atom.isFloorDiv()) count += 1 + t.atom.numerator->floorDivCount();
  return count;
}

IndexExpr IndexExpr::operator-() const { return -1 * *this; }

IndexExpr operator+(const IndexExpr& a, const IndexExpr& b) {
  IndexExprAccess sum(a);
  sum.add(b, 1);
  return sum.take();
}

IndexExpr operator-(const IndexExpr& a, const IndexExpr& b) {
  IndexExprAccess sum(a);
  sum.add(b, -1);
  return sum.take();
}

IndexExpr operator*(std::int64_t factor, const IndexExpr& e) {
  IndexExprAccess product;
  product.add(e, factor);
  return product.take();
}

void IndexExpr::addTo(Hasher& hasher) const {
  hasher.add(static_cast<std::uint64_t>(m_constant)).add(m_terms.size() * 2 + (m_overflowed ? 1 : 0));
  for (const IndexTerm& t : m_terms) {
    hasher.add(static_cast<std::uint64_t>(t.coefficient)).add(static_cast<std::uint64_t>(t.atom.divisor));
    if (t.atom.isFloorDiv()) t.atom.numerator->addTo(hasher);
    else hasher.add(t.atom.variable);
  }
}

IndexExpr floorDiv(const IndexExpr& e, std::int64_t d) {
  NF_ASSERT(d > 0);
  if (d == 1 || e.m_overflowed) return e;
  // e = d*whole + rest, every coefficient of rest in [0, d).
  IndexExprAccess whole, rest;
  std::int64_t common = d;
  for (const IndexTerm& t : e.m_terms) {
    whole.addTerm(t.atom, floorDiv(t.coefficient, d));
    const std::int64_t remainder = floorMod(t.coefficient, d);
    rest.addTerm(t.atom, remainder);
    common = std::gcd(common, remainder);
  }
  whole.addConstant(floorDiv(e.m_constant, d));
  rest.addConstant(floorMod(e.m_constant, d));
  IndexExpr numerator = rest.take();
  if (numerator.isConstant()) return whole.take();
  if (common > 1) {
    IndexExprAccess reduced;
    for (const IndexTerm& t : numerator.m_terms) reduced.addTerm(t.atom, t.coefficient / common);
    reduced.addConstant(numerator.m_constant / common);
    whole.add(floorDiv(reduced.take(), d / common), 1);
    return whole.take();
  }
  // floor((floor(x/b) + k)/d) = floor((x + k*b)/(b*d))
  if (numerator.m_terms.size() == 1 && numerator.m_terms[0].coefficient == 1 && numerator.m_terms[0].atom.isFloorDiv()) {
    const IndexAtom& inner = numerator.m_terms[0].atom;
    const auto shift = checkedMul(numerator.m_constant, inner.divisor);
    const auto divisor = checkedMul(d, inner.divisor);
    if (shift && divisor) {
      whole.add(floorDiv(*inner.numerator + IndexExpr(*shift), *divisor), 1);
      return whole.take();
    }
  }
  whole.addTerm(IndexAtom{0, std::make_shared<const IndexExpr>(std::move(numerator)), d}, 1);
  return whole.take();
}

IndexExpr floorMod(const IndexExpr& e, std::int64_t d) { return e - d * floorDiv(e, d); }

RangeOf rangesOf(std::span<const std::int64_t> extents) {
  return [extents = std::vector<std::int64_t>(extents.begin(), extents.end())](IndexVar v) -> std::optional<Range> {
    if (v >= extents.size()) return std::nullopt;
    return Range{0, extents[v] - 1};
  };
}

namespace {

std::optional<Range> scaled(Range r, std::int64_t factor) {
  const auto a = checkedMul(r.lo, factor), b = checkedMul(r.hi, factor);
  if (!a || !b) return std::nullopt;
  return Range{std::min(*a, *b), std::max(*a, *b)};
}

std::optional<Range> added(Range a, Range b) {
  const auto lo = checkedAdd(a.lo, b.lo), hi = checkedAdd(a.hi, b.hi);
  if (!lo || !hi) return std::nullopt;
  return Range{*lo, *hi};
}

std::optional<Range> termwise(const IndexExpr& e, const RangeOf& ranges) {
  std::optional<Range> total = Range{e.constant(), e.constant()};
  for (const IndexTerm& t : e.terms()) {
    std::optional<Range> range;
    if (t.atom.isFloorDiv()) {
      range = bounds(*t.atom.numerator, ranges);
      if (range) range = Range{floorDiv(range->lo, t.atom.divisor), floorDiv(range->hi, t.atom.divisor)};
    } else {
      range = ranges(t.atom.variable);
    }
    if (!range || range->empty()) return std::nullopt;
    const auto part = scaled(*range, t.coefficient);
    if (!part) return std::nullopt;
    total = added(*total, *part);
    if (!total) return std::nullopt;
  }
  return total;
}

// k * floor(n/D) seen as a remainder: with c a divisor of D and k, q = floor(n / (D/c)) and m = -k/c,
// k * floor(n/D) = m * (q % c) - m * q.
struct Remainder {
  IndexExpr dividend;        // q
  std::int64_t modulus = 0;  // c
  std::int64_t factor = 0;   // m
};

// The remainders of which term `t` may be part, the largest modulus first; `accept` ends the search by true.
template <class Accept>
bool remaindersOf(const IndexTerm& t, Accept accept) {
  constexpr std::int64_t kMostDivisors = 64;
  const std::int64_t common = std::gcd(t.coefficient, t.atom.divisor);
  for (std::int64_t quotient = 1; quotient <= std::min(common - 1, kMostDivisors); ++quotient) {
    if (common % quotient != 0) continue;
    const std::int64_t modulus = common / quotient;
    const auto factor = checkedMul(t.coefficient / modulus, -1);
    if (!factor) continue;
    if (accept(Remainder{floorDiv(*t.atom.numerator, t.atom.divisor / modulus), modulus, *factor})) return true;
  }
  return false;
}

// Does e hold factor * terms of x, or more of them? (the constant does not matter)
bool holds(const IndexExpr& e, std::int64_t factor, const IndexExpr& x) {
  std::size_t i = 0;
  for (const IndexTerm& t : x.terms()) {
    while (i < e.terms().size() && e.terms()[i].atom < t.atom) ++i;
    if (i == e.terms().size() || e.terms()[i].atom != t.atom) return false;
    const auto c = checkedMul(factor, t.coefficient);
    if (!c || (*c > 0 ? e.terms()[i].coefficient < *c : e.terms()[i].coefficient > *c)) return false;
  }
  return !x.isConstant();
}

}  // namespace

std::optional<Range> bounds(const IndexExpr& e, const RangeOf& ranges) {
  if (e.overflowed()) return std::nullopt;
  std::optional<Range> plain = termwise(e, ranges);
  if (e.isAffine()) return plain;
  // The same with every recognisable x - d*floor(x/d) taken together.
  IndexExpr rest = e;
  std::optional<Range> mods = Range{0, 0};
  for (const IndexTerm& t : e.terms()) {
    if (!t.atom.isFloorDiv()) continue;
    remaindersOf(t, [&](const Remainder& r) {
      if (!holds(rest, r.factor, r.dividend)) return false;
      const auto part = scaled({0, r.modulus - 1}, r.factor);
      const auto sum = part ? added(*mods, *part) : std::nullopt;
      IndexExprAccess without(rest);
      without.addTerm(t.atom, -t.coefficient);
      without.add(r.dividend, -r.factor);
      IndexExpr left = without.take();
      if (!sum || left.overflowed()) return false;
      rest = std::move(left);
      mods = sum;
      return true;
    });
  }
  const auto other = termwise(rest, ranges);
  if (!other) return plain;
  const auto together = added(*other, *mods);
  if (!plain || !together) return plain ? plain : together;
  return Range{std::max(plain->lo, together->lo), std::min(plain->hi, together->hi)};
}

namespace {

// floor(x/d) for an x already simplified; folds what the ranges decide.
IndexExpr simplifiedFloorDiv(const IndexExpr& x, std::int64_t d, const RangeOf& ranges) {
  const IndexExpr divided = floorDiv(x, d);
  if (divided.isAffine()) return divided;
  IndexExprAccess result(IndexExpr(divided.constant()));
  for (const IndexTerm& t : divided.terms()) {
    if (!t.atom.isFloorDiv()) {
      result.addTerm(t.atom, t.coefficient);
      continue;
    }
    const IndexExpr& numerator = *t.atom.numerator;
    const std::int64_t divisor = t.atom.divisor;
    const auto range = bounds(numerator, ranges);
    if (range && floorDiv(range->lo, divisor) == floorDiv(range->hi, divisor)) {
      result.add(IndexExpr(floorDiv(range->lo, divisor)), t.coefficient);
      continue;
    }
    // The representative with coefficients in (-d/2, d/2] may lie in one bucket where the one in [0, d) does not.
    IndexExprAccess symmetric(IndexExpr(numerator.constant())), moved;
    bool differs = false;
    for (const IndexTerm& n : numerator.terms()) {
      const bool flip = n.coefficient > divisor - n.coefficient && n.coefficient < divisor;
      symmetric.addTerm(n.atom, flip ? n.coefficient - divisor : n.coefficient);
      if (flip) moved.addTerm(n.atom, 1);
      differs |= flip;
    }
    if (differs) {
      const auto flipped = bounds(symmetric.take(), ranges);
      if (flipped && floorDiv(flipped->lo, divisor) == floorDiv(flipped->hi, divisor)) {
        result.add(IndexExpr(floorDiv(flipped->lo, divisor)), t.coefficient);
        result.add(moved.take(), t.coefficient);
        continue;
      }
    }
    // x = g*E + r with r in one bucket of g and g | d: floor(x/d) = floor((E + bucket)/(d/g)).
    bool split = false;
    for (const IndexTerm& n : numerator.terms()) {
      const std::int64_t g = std::gcd(n.coefficient, divisor);
      if (g <= 1) continue;
      IndexExprAccess multiples, rest;
      for (const IndexTerm& k : numerator.terms()) {
        if (k.coefficient % g == 0) multiples.addTerm(k.atom, k.coefficient / g);
        else rest.addTerm(k.atom, k.coefficient);
      }
      rest.addConstant(numerator.constant());
      const auto r = bounds(rest.take(), ranges);
      if (!r || floorDiv(r->lo, g) != floorDiv(r->hi, g)) continue;
      multiples.addConstant(floorDiv(r->lo, g));
      result.add(simplifiedFloorDiv(multiples.take(), divisor / g, ranges), t.coefficient);
      split = true;
      break;
    }
    if (!split) result.addTerm(t.atom, t.coefficient);
  }
  return result.take();
}

}  // namespace

IndexExpr simplify(const IndexExpr& e, const RangeOf& ranges) {
  if (e.isAffine() && !e.overflowed()) {
    // A variable with one value is that value.
    IndexExprAccess result(IndexExpr(e.constant()));
    for (const IndexTerm& t : e.terms()) {
      const auto range = ranges(t.atom.variable);
      if (range && range->lo == range->hi) result.add(IndexExpr(range->lo), t.coefficient);
      else result.addTerm(t.atom, t.coefficient);
    }
    return result.take();
  }
  if (e.overflowed()) return e;
  IndexExprAccess result(IndexExpr(e.constant()));
  for (const IndexTerm& t : e.terms()) {
    if (t.atom.isFloorDiv()) {
      result.add(simplifiedFloorDiv(simplify(*t.atom.numerator, ranges), t.atom.divisor, ranges), t.coefficient);
      continue;
    }
    const auto range = ranges(t.atom.variable);
    if (range && range->lo == range->hi) result.add(IndexExpr(range->lo), t.coefficient);
    else result.addTerm(t.atom, t.coefficient);
  }
  return result.take();
}

IndexExpr substitute(const IndexExpr& e, const std::function<std::optional<IndexExpr>(IndexVar)>& replacement) {
  IndexExprAccess result(IndexExpr(e.constant()));
  if (e.overflowed()) return e;
  for (const IndexTerm& t : e.terms()) {
    if (t.atom.isFloorDiv()) {
      result.add(floorDiv(substitute(*t.atom.numerator, replacement), t.atom.divisor), t.coefficient);
    } else if (const auto r = replacement(t.atom.variable)) {
      result.add(*r, t.coefficient);
    } else {
      result.addTerm(t.atom, t.coefficient);
    }
  }
  return result.take();
}

std::int64_t evaluate(const IndexExpr& e, const std::function<std::int64_t(IndexVar)>& value) {
  std::int64_t total = e.constant();
  for (const IndexTerm& t : e.terms())
    total += t.coefficient *
             (t.atom.isFloorDiv() ? floorDiv(evaluate(*t.atom.numerator, value), t.atom.divisor) : value(t.atom.variable));
  return total;
}

// ---------------------------------------------------------------- text
namespace {

using NameOf = std::function<std::string(IndexVar)>;

// One summand of the text: coefficient * factor, where the factor binds as tightly as `//` when it is composite.
struct Piece {
  std::int64_t coefficient;
  std::string factor;
  bool composite;
};

std::string operandText(const IndexExpr& e, const NameOf& name) {
  const std::string text = toText(e, name);
  return e.asVariable() || (e.isConstant() && e.constant() >= 0) ? text : "(" + text + ")";
}

std::vector<Piece> piecesOf(const IndexExpr& e, const NameOf& name, std::int64_t& constant) {
  std::vector<Piece> pieces;
  IndexExpr left = e;
  for (auto t = e.terms().rbegin(); t != e.terms().rend(); ++t) {  // the largest divisor first: it is the outermost
    if (!t->atom.isFloorDiv() || !std::binary_search(left.terms().begin(), left.terms().end(), *t,
                                                     [](const auto& a, const auto& b) { return a.atom < b.atom; }))
      continue;
    remaindersOf(*t, [&](const Remainder& r) {
      if (!holds(left, r.factor, r.dividend)) return false;
      IndexExprAccess without(left);
      without.addTerm(t->atom, -t->coefficient);
      without.add(r.dividend, -r.factor);
      const IndexExpr rest = without.take();
      // (q // 2) % 3 only where it makes the text shorter.
      const bool exact = rest.terms().size() + r.dividend.terms().size() + 1 == left.terms().size();
      if (rest.overflowed() || (!exact && r.modulus != t->atom.divisor)) return false;
      pieces.push_back({r.factor, operandText(r.dividend, name) + " % " + std::to_string(r.modulus), true});
      left = rest;
      return true;
    });
  }
  std::vector<Piece> remainders(pieces.rbegin(), pieces.rend());
  pieces.clear();
  for (const IndexTerm& t : left.terms()) {
    if (t.atom.isFloorDiv())
      pieces.push_back({t.coefficient, operandText(*t.atom.numerator, name) + " // " + std::to_string(t.atom.divisor), true});
    else pieces.push_back({t.coefficient, name(t.atom.variable), false});
  }
  pieces.insert(pieces.end(), remainders.begin(), remainders.end());
  constant = left.constant();
  return pieces;
}

// |value| of a coefficient or constant, also of the least integer.
std::string magnitude(std::int64_t value) {
  return std::to_string(value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value));
}

// Summands whose sign is `sign` are added, the others subtracted; added ones come first.
std::string sumText(const std::vector<Piece>& pieces, std::int64_t constant, bool flip) {
  std::string out;
  const auto append = [&](bool minus, const std::string& text, bool composite) {
    if (out.empty()) out = !minus ? text : composite ? "-(" + text + ")" : "-" + text;
    else out += (minus ? " - " : " + ") + text;
  };
  const auto appendSigned = [&](bool minus) {
    for (const Piece& p : pieces) {
      if (((p.coefficient < 0) != flip) != minus) continue;
      const bool one = p.coefficient == 1 || p.coefficient == -1;
      if (one) append(minus, p.factor, p.composite);
      else append(minus, magnitude(p.coefficient) + "*" + (p.composite ? "(" + p.factor + ")" : p.factor), false);
    }
  };
  const bool minusConstant = (constant < 0) != flip;
  appendSigned(false);
  if (constant != 0 && !minusConstant) append(false, magnitude(constant), false);
  appendSigned(true);
  if (constant != 0 && minusConstant) append(true, magnitude(constant), false);
  return out.empty() ? "0" : out;
}

}  // namespace

std::string toText(const IndexExpr& e, const NameOf& name) {
  std::int64_t constant = 0;
  const std::vector<Piece> pieces = piecesOf(e, name, constant);
  return sumText(pieces, constant, false);
}

IndexCond IndexCond::ge0(IndexExpr e) { return {Kind::GreaterEqualZero, std::move(e), {}}; }
IndexCond IndexCond::eq0(IndexExpr e) { return {Kind::EqualZero, std::move(e), {}}; }
IndexCond IndexCond::all(std::vector<IndexCond> operands) { return {Kind::And, {}, std::move(operands)}; }
IndexCond IndexCond::any(std::vector<IndexCond> operands) { return {Kind::Or, {}, std::move(operands)}; }

IndexCond IndexCond::negate(IndexCond operand) {
  if (operand.kind == Kind::GreaterEqualZero) return ge0(-operand.expr - IndexExpr(1));
  if (operand.kind == Kind::Not) {
    IndexCond inner = std::move(operand.operands[0]);
    return inner;
  }
  IndexCond c{Kind::Not, {}, {}};
  c.operands.push_back(std::move(operand));
  return c;
}

IndexCond substitute(const IndexCond& c, const std::function<std::optional<IndexExpr>(IndexVar)>& replacement) {
  IndexCond result{c.kind, substitute(c.expr, replacement), {}};
  for (const IndexCond& operand : c.operands) result.operands.push_back(substitute(operand, replacement));
  return result;
}

bool evaluate(const IndexCond& c, const std::function<std::int64_t(IndexVar)>& value) {
  switch (c.kind) {
    case IndexCond::Kind::GreaterEqualZero: return evaluate(c.expr, value) >= 0;
    case IndexCond::Kind::EqualZero: return evaluate(c.expr, value) == 0;
    case IndexCond::Kind::Not: return !evaluate(c.operands[0], value);
    case IndexCond::Kind::And:
      return std::all_of(c.operands.begin(), c.operands.end(), [&](const IndexCond& o) { return evaluate(o, value); });
    case IndexCond::Kind::Or:
      return std::any_of(c.operands.begin(), c.operands.end(), [&](const IndexCond& o) { return evaluate(o, value); });
  }
  return false;
}

void collectVariables(const IndexCond& c, std::vector<IndexVar>& into) {
  c.expr.collectVariables(into);
  for (const IndexCond& operand : c.operands) collectVariables(operand, into);
}

namespace {

// "2*p + r >= 1": summands with a plus stay left, the others go right.
std::string comparisonText(const IndexExpr& e, const char* relation, const char* flipped, const NameOf& name) {
  std::int64_t constant = 0;
  std::vector<Piece> left = piecesOf(e, name, constant), right;
  const auto negative = [](const Piece& p) { return p.coefficient < 0; };
  if (std::all_of(left.begin(), left.end(), negative) && !left.empty())
    return sumText(left, 0, true) + flipped + sumText({}, constant, false);
  std::copy_if(left.begin(), left.end(), std::back_inserter(right), negative);
  std::erase_if(left, negative);
  if (!right.empty() && constant > 0) return sumText(left, constant, false) + relation + sumText(right, 0, true);
  return sumText(left, 0, false) + relation + sumText(right, constant, true);
}

}  // namespace

std::string toText(const IndexCond& c, const NameOf& name) {
  const auto joined = [&](const char* word, const char* neutral) {
    std::string out;
    for (const IndexCond& operand : c.operands) {
      if (!out.empty()) out += word;
      const bool composite = operand.kind == IndexCond::Kind::And || operand.kind == IndexCond::Kind::Or;
      out += composite && c.operands.size() > 1 ? "(" + toText(operand, name) + ")" : toText(operand, name);
    }
    return out.empty() ? std::string(neutral) : out;
  };
  switch (c.kind) {
    case IndexCond::Kind::GreaterEqualZero: return comparisonText(c.expr, " >= ", " <= ", name);
    case IndexCond::Kind::EqualZero: return comparisonText(c.expr, " == ", " == ", name);
    case IndexCond::Kind::And: return joined(" and ", "0 == 0");
    case IndexCond::Kind::Or: return joined(" or ", "0 == 1");
    case IndexCond::Kind::Not: return "not (" + toText(c.operands[0], name) + ")";
  }
  return "";
}

}  // namespace nf
