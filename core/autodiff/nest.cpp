// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/nest.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "core/autodiff/points.h"
#include "core/ir/rewrite.h"
#include "core/support/checked.h"

namespace nf {
namespace {

constexpr std::size_t kEnumerated = 2048;  // points of z and t that are enumerated rather than asked of isl
constexpr std::size_t kMaskBits = 64;
constexpr std::size_t kMostExistenceGuards = 4;
constexpr std::size_t kMostEliminated = 40;
constexpr int kMostRelaxed = 8;

bool isNever(const IndexCond& c) { return c.kind == IndexCond::Kind::Or && c.operands.empty(); }

bool anyOverflow(const IndexCond& c) {
  return c.expr.overflowed() || std::any_of(c.operands.begin(), c.operands.end(), anyOverflow);
}

RangeOf rangesOf(const std::vector<Range>& ranges) {
  return [&ranges](IndexVar v) -> std::optional<Range> {
    if (v < ranges.size()) return ranges[v];
    return std::nullopt;
  };
}

std::size_t floorsOf(const IndexCond& c) {
  const bool compare = c.kind == IndexCond::Kind::GreaterEqualZero || c.kind == IndexCond::Kind::EqualZero;
  return compare ? c.expr.floorDivCount() : 5;
}

// What the points of the box say about the guards: which sets of them fail together somewhere.
class Observation {
 public:
  Observation(const Nest& nest) : m_axes(nest.axes.size()) {
    const std::vector<Range> ranges = nest.ranges();
    Tape tape(ranges.size());
    std::vector<Tape::Test> tests;
    m_known = nest.guards.size() <= kMaskBits;
    std::uint64_t zMask = 0;
    for (std::size_t g = 0; g < nest.guards.size() && m_known; ++g) {
      tests.push_back(tape.add(nest.guards[g].condition));
      if (!nest.usesAxis(nest.guards[g].condition)) zMask |= std::uint64_t{1} << g;
    }
    BoxPoints points(ranges, m_known ? kEnumerated : 0);
    m_exhaustive = m_known && points.exhaustive();
    std::vector<std::int64_t> values(tape.slots());
    std::vector<std::int64_t> z;
    bool inhabited = true;
    while (points.next(values)) {
      tape.run(values);
      std::uint64_t failing = 0;
      for (std::size_t g = 0; g < tests.size(); ++g)
        if (!tests[g].holds(values)) failing |= std::uint64_t{1} << g;
      if (m_masks.empty() || m_masks.back() != failing) m_masks.push_back(failing);
      if (failing == 0) {
        for (std::size_t k = 0; k < m_axes; ++k) {
          const std::int64_t t = values[nest.shape.size() + k];
          if (!m_inhabited) m_seen.push_back({t, t});
          else m_seen[k] = {std::min(m_seen[k].lo, t), std::max(m_seen[k].hi, t)};
        }
        m_inhabited = true;
      }
      if (m_exhaustive && (failing & zMask) == 0) {
        const bool same = !z.empty() && std::equal(z.begin(), z.end(), values.begin());
        if (!same) {
          m_emptyFibres = m_emptyFibres || !inhabited;
          z.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(nest.shape.size()));
          inhabited = false;
        }
        inhabited = inhabited || failing == 0;
      }
      if (m_masks.size() >= 4096) compact();
    }
    m_emptyFibres = m_emptyFibres || !inhabited;
    compact();
  }

  bool exhaustive() const { return m_exhaustive; }
  bool inhabited() const { return m_inhabited; }
  const std::vector<Range>& seen() const { return m_seen; }            // of the axes where all guards hold; inhabited() only
  bool emptyFibres() const { return !m_exhaustive || m_emptyFibres; }  // may some z that passes have no t?

  // Is there a point where of `considered` just guard g fails?
  bool refutes(std::size_t g, std::uint64_t considered) const {
    return m_known &&
           std::any_of(m_masks.begin(), m_masks.end(), [&](std::uint64_t m) { return (m & considered) == std::uint64_t{1} << g; });
  }

 private:
  void compact() {
    std::sort(m_masks.begin(), m_masks.end());
    m_masks.erase(std::unique(m_masks.begin(), m_masks.end()), m_masks.end());
  }

  std::size_t m_axes;
  bool m_known = false, m_exhaustive = false, m_inhabited = false, m_emptyFibres = false;
  std::vector<std::uint64_t> m_masks;
  std::vector<Range> m_seen;
};

// isl's word, asked for only where enumeration and intervals leave a doubt.
class Oracle {
 public:
  Oracle(const Nest& nest, const QuestionLimit& limit) : m_nest(nest), m_limit(limit) {}

  IntegerSet box() {
    if (!m_context) m_context = std::make_unique<IntegerContext>(m_limit);
    return IntegerSet::box(*m_context, m_nest.ranges());
  }

  bool implied(const IndexCond& guard, const std::vector<const IndexCond*>& by) {
    IntegerSet points = box();
    for (const IndexCond* c : by) points = points.constrained(*c);
    return points.constrained(IndexCond::negate(guard)).isEmpty().value_or(false);
  }

 private:
  const Nest& m_nest;
  QuestionLimit m_limit;
  std::unique_ptr<IntegerContext> m_context;
};

void dropped(const PartNames& names, const Guard& guard, const char* reason) {
  if (!names) return;
  const IndexCond c = folded(guard.condition);
  const bool range = guard.condition.kind == IndexCond::Kind::GreaterEqualZero;
  if (c.isAlways() && range) names.lines->dropped.push_back(guard.why + ": " + reason);
  if (!c.isAlways()) names.lines->dropped.push_back(names.textZ(c) + "   (" + guard.why + "): " + reason);
}

// Folds, splits conjunctions, drops repeats and what intervals decide.
NestState tidy(Nest& nest, const PartNames& names) {
  const std::vector<Range> box = nest.ranges();
  const RangeOf ranges = rangesOf(box);
  for (IndexExpr& e : nest.y) {
    e = simplify(e, ranges);
    if (e.overflowed()) return NestState::Overflow;
  }
  std::vector<Guard> pending = std::move(nest.guards);
  nest.guards.clear();
  for (Guard& guard : pending) {
    if (anyOverflow(guard.condition)) return NestState::Overflow;
    IndexCond c = simplify(guard.condition, ranges);
    if (isNever(c)) return NestState::Empty;
    if (c.isAlways()) {
      dropped(names, guard, "always true");
      continue;
    }
    std::vector<IndexCond> conjuncts = c.kind == IndexCond::Kind::And ? c.operands : std::vector{c};
    for (IndexCond& one : conjuncts) {
      if (one.kind == IndexCond::Kind::GreaterEqualZero) one.expr = reducedInequality(one.expr);
      if (anyOverflow(one)) return NestState::Overflow;
      const bool known = std::any_of(nest.guards.begin(), nest.guards.end(), [&](const Guard& g) { return g.condition == one; });
      if (known) dropped(names, guard, "said twice");
      else nest.guards.push_back({std::move(one), guard.why});
    }
  }
  return NestState::Ready;
}

// Shrinks the axes to `leftover` and renumbers them. True where anything changed.
bool narrow(Nest& nest, const std::vector<Range>& leftover, const PartNames& names) {
  const std::size_t m = nest.shape.size();
  std::vector<IndexExpr> replacement, tOfY;
  std::vector<std::int64_t> axes;
  bool changed = false;
  for (std::size_t k = 0; k < nest.axes.size(); ++k) {
    const Range& r = leftover[k];
    IndexExpr t = r.lo;
    if (r.extent() > 1) {
      t = t + IndexExpr::variable(static_cast<IndexVar>(m + axes.size()));
      axes.push_back(r.extent());
      if (k < nest.tOfY.size()) tOfY.push_back(nest.tOfY[k] - IndexExpr(r.lo));
    }
    if (r.extent() != nest.axes[k]) {
      changed = true;
      if (names)
        names.lines->axes.push_back("the guards leave " + std::to_string(r.lo) + " <= " + names.ofZ(static_cast<IndexVar>(m + k)) +
                                    " <= " + std::to_string(r.hi) + (r.extent() == 1 ? ": no axis" : ": counted from there"));
    }
    replacement.push_back(std::move(t));
  }
  if (!changed) return false;
  const auto renumber = [&](IndexVar v) -> std::optional<IndexExpr> {
    if (v < m) return std::nullopt;
    return replacement[v - m];
  };
  nest.axes = std::move(axes);
  nest.tOfY = std::move(tOfY);
  for (IndexExpr& e : nest.y) e = substitute(e, renumber);
  for (Guard& g : nest.guards) g.condition = substitute(g.condition, renumber);
  return true;
}

void dropImplied(Nest& nest, const Observation& observed, Oracle& oracle, const PartNames& names) {
  std::vector<std::size_t> order(nest.guards.size()), cost(nest.guards.size());
  std::vector<bool> usesAxis(nest.guards.size()), kept(nest.guards.size(), true);
  std::uint64_t all = 0, ofZ = 0;
  for (std::size_t g = 0; g < nest.guards.size(); ++g) {
    const IndexCond& c = nest.guards[g].condition;
    order[g] = g;
    std::vector<IndexVar> used;
    collectVariables(c, used);
    const auto axes =
        static_cast<std::size_t>(std::count_if(used.begin(), used.end(), [&](IndexVar v) { return v >= nest.shape.size(); }));
    usesAxis[g] = axes > 0;
    cost[g] = 10 * axes + floorsOf(c);
    if (g >= kMaskBits) continue;
    all |= std::uint64_t{1} << g;
    if (!usesAxis[g]) ofZ |= std::uint64_t{1} << g;
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return cost[a] > cost[b]; });
  for (const std::size_t g : order) {
    if (observed.refutes(g, usesAxis[g] ? all : ofZ)) continue;
    if (!observed.exhaustive()) {
      std::vector<const IndexCond*> others;
      for (std::size_t h = 0; h < nest.guards.size(); ++h)
        if (h != g && kept[h] && (usesAxis[g] || !usesAxis[h])) others.push_back(&nest.guards[h].condition);
      if (!oracle.implied(nest.guards[g].condition, others)) continue;
    }
    kept[g] = false;
    if (g < kMaskBits) {
      all &= ~(std::uint64_t{1} << g);
      ofZ &= ~(std::uint64_t{1} << g);
    }
    dropped(names, nest.guards[g], "the other guards imply it");
  }
  std::size_t g = 0;
  std::erase_if(nest.guards, [&](const Guard&) { return !kept[g++]; });
}

// A weaker inequality in which t stands in no floor: c*floor(n/d) is at most c*n/d, for negative c at most c*(n-d+1)/d.
// nullopt: a number does not fit, or the floors nest too deep.
//   before: 3*z - (t + z)//2 >= 0        after: 5*z - t + 1 >= 0
std::optional<IndexExpr> withoutFloorsOf(IndexVar t, IndexExpr e) {
  for (int step = 0; step < kMostRelaxed; ++step) {
    const auto& terms = e.terms();
    const auto found = std::find_if(terms.begin(), terms.end(),
                                    [&](const IndexTerm& term) { return term.atom.isFloorDiv() && term.atom.numerator->uses(t); });
    if (found == terms.end()) return e;
    const IndexExpr numerator = *found->atom.numerator;
    const std::int64_t c = found->coefficient, d = found->atom.divisor;
    const IndexExpr rest = e - c * floorDiv(numerator, d);
    e = d * rest + c * (c > 0 ? numerator : numerator - IndexExpr(d - 1));
    if (e.overflowed()) return std::nullopt;
  }
  return std::nullopt;
}

// Of many necessary conditions on z the few that keep out the most.
void keepStrongest(const std::vector<std::int64_t>& shape, const std::vector<IndexCond>& before, std::vector<Guard>& guards) {
  std::vector<Range> box;
  for (const std::int64_t extent : shape) box.push_back({0, extent - 1});
  Tape tape(box.size());
  std::vector<Tape::Test> known, tests;
  for (const IndexCond& c : before) known.push_back(tape.add(c));
  for (const Guard& g : guards) tests.push_back(tape.add(g.condition));
  std::vector<std::vector<bool>> refused;  // points that pass so far, and which guards refuse them
  std::vector<std::int64_t> values(tape.slots());
  BoxPoints points(box, kEnumerated);
  while (points.next(values)) {
    tape.run(values);
    const auto holds = [&](const Tape::Test& t) { return t.holds(values); };
    if (!std::all_of(known.begin(), known.end(), holds)) continue;
    std::vector<bool> by;
    for (const Tape::Test& t : tests) by.push_back(!holds(t));
    refused.push_back(std::move(by));
  }
  std::vector<Guard> kept;
  while (kept.size() < kMostExistenceGuards && !refused.empty()) {
    std::size_t best = 0;
    std::ptrdiff_t most = 0;
    for (std::size_t g = 0; g < guards.size(); ++g) {
      const auto count = std::count_if(refused.begin(), refused.end(), [&](const std::vector<bool>& by) { return by[g]; });
      if (count > most) {
        most = count;
        best = g;
      }
    }
    if (most == 0) break;
    kept.push_back(guards[best]);
    std::erase_if(refused, [&](const std::vector<bool>& by) { return by[best]; });
  }
  guards = std::move(kept);
}

}  // namespace

IndexExpr reducedInequality(const IndexExpr& e) {
  std::int64_t common = 0;
  for (const IndexTerm& t : e.terms()) common = std::gcd(common, t.coefficient);
  return common > 1 ? floorDiv(e, common) : e;
}

std::vector<Range> Nest::ranges() const {
  std::vector<Range> result;
  for (const std::int64_t extent : shape) result.push_back({0, extent - 1});
  for (const std::int64_t extent : axes) result.push_back({0, extent - 1});
  return result;
}

bool Nest::usesAxis(const IndexCond& c) const {
  std::vector<IndexVar> used;
  collectVariables(c, used);
  return !used.empty() && used.back() >= shape.size();
}

Nest nestOf(const std::vector<std::int64_t>& shape, const Inverse& inverse) {
  Nest nest{shape, inverse.axes, inverse.y, inverse.tOfY, {}};
  for (const auto* guards : {&inverse.zGuards, &inverse.tGuards})
    for (const IndexCond& g : *guards) nest.guards.push_back({g, {}});
  return nest;
}

Inverse inverseOf(const Nest& nest) {
  Inverse inverse;
  inverse.axes = nest.axes;
  inverse.y = nest.y;
  inverse.tOfY = nest.tOfY;
  for (const Guard& g : nest.guards) (nest.usesAxis(g.condition) ? inverse.tGuards : inverse.zGuards).push_back(g.condition);
  for (const std::int64_t extent : nest.axes) inverse.tripsPerZ *= extent;
  inverse.zShare = shareOfGuarded(nest.shape, inverse.zGuards);
  inverse.phaseModulus.assign(nest.shape.size(), 1);
  return inverse;
}

NestState prune(Nest& nest, const QuestionLimit& limit, const PartNames& names) {
  for (;;) {
    if (const NestState state = tidy(nest, names); state != NestState::Ready) return state;
    if (nest.guards.empty()) return NestState::Ready;  // nothing narrows an axis either
    const Observation observed(nest);
    if (observed.exhaustive() && !observed.inhabited()) return NestState::Empty;
    Oracle oracle(nest, limit);
    std::vector<Range> leftover;
    std::optional<IntegerSet> points;
    for (std::size_t k = 0; k < nest.axes.size(); ++k) {
      const Range full{0, nest.axes[k] - 1};
      if (observed.exhaustive() || (observed.inhabited() && observed.seen()[k] == full)) {
        leftover.push_back(observed.exhaustive() ? observed.seen()[k] : full);
        continue;
      }
      if (!points) {
        points = oracle.box();
        for (const Guard& g : nest.guards) points = points->constrained(g.condition);
      }
      const auto exact = points->rangeOf(IndexExpr::variable(static_cast<IndexVar>(nest.shape.size() + k)));
      leftover.push_back(exact && !exact->empty() ? *exact : full);
    }
    if (narrow(nest, leftover, names)) continue;
    dropImplied(nest, observed, oracle, names);
    return NestState::Ready;
  }
}

NestState addExistenceGuards(Nest& nest, const QuestionLimit& limit, const PartNames& names) {
  if (nest.axes.empty()) return NestState::Ready;
  std::vector<IndexExpr> atoms;
  for (const Guard& g : nest.guards) {
    if (!nest.usesAxis(g.condition)) continue;
    if (g.condition.kind == IndexCond::Kind::GreaterEqualZero || g.condition.kind == IndexCond::Kind::EqualZero)
      atoms.push_back(g.condition.expr);
    if (g.condition.kind == IndexCond::Kind::EqualZero) atoms.push_back(-g.condition.expr);
  }
  if (atoms.empty() || !Observation(nest).emptyFibres()) return NestState::Ready;
  const std::vector<Range> box = nest.ranges();
  const RangeOf ranges = rangesOf(box);
  // Fourier-Motzkin with integer bounds: exact for one axis, necessary for more and for an axis inside a floor.
  for (std::size_t k = nest.axes.size(); k-- > 0;) {
    const auto t = static_cast<IndexVar>(nest.shape.size() + k);
    std::vector<IndexExpr> next, lower{0}, upper{nest.axes[k] - 1};
    for (const IndexExpr& atom : atoms) {
      const auto free = withoutFloorsOf(t, atom);
      if (!free) continue;
      const IndexExpr& e = *free;
      const std::int64_t c = e.coefficientOf(t);
      const IndexExpr rest = e - c * IndexExpr::variable(t);
      if (rest.overflowed()) return NestState::Overflow;
      if (c == 0) next.push_back(e);
      else if (c > 0) lower.push_back(-simplify(floorDiv(simplify(rest, ranges), c), ranges));
      else upper.push_back(simplify(floorDiv(simplify(rest, ranges), -c), ranges));
    }
    for (const IndexExpr& l : lower)
      for (const IndexExpr& u : upper) {
        IndexExpr e = simplify(u - l, ranges);
        if (e.overflowed()) return NestState::Overflow;
        const auto range = bounds(e, ranges);
        if (range && range->lo >= 0) continue;
        if (std::find(next.begin(), next.end(), e) == next.end()) next.push_back(std::move(e));
      }
    if (next.size() > kMostEliminated) return NestState::Ready;
    atoms = std::move(next);
  }
  Nest onlyZ;
  onlyZ.shape = nest.shape;
  std::vector<IndexCond> before;
  for (const Guard& g : nest.guards)
    if (!nest.usesAxis(g.condition)) before.push_back(g.condition);
  for (const IndexCond& c : before) onlyZ.guards.push_back({c, {}});
  for (IndexExpr& e : atoms) {
    const IndexCond c = IndexCond::ge0(std::move(e));
    if (nest.usesAxis(c)) continue;
    onlyZ.guards.push_back({c, names ? "the fibre of z is not empty" : std::string()});
  }
  if (onlyZ.guards.size() == before.size()) return NestState::Ready;
  if (const NestState state = prune(onlyZ, limit, PartNames{}); state != NestState::Ready) return state;
  std::vector<Guard> added;
  for (Guard& g : onlyZ.guards)
    if (std::find(before.begin(), before.end(), g.condition) == before.end()) added.push_back(std::move(g));
  if (added.size() > kMostExistenceGuards) keepStrongest(nest.shape, before, added);
  if (added.empty()) return NestState::Ready;
  for (Guard& g : added) {
    if (names) names.lines->existence.push_back(names.textZ(g.condition));
    nest.guards.push_back(std::move(g));
  }
  return prune(nest, limit, names);
}

double shareOfGuarded(const std::vector<std::int64_t>& shape, const std::vector<IndexCond>& guards) {
  if (guards.empty()) return 1;
  std::vector<Range> box;
  for (const std::int64_t extent : shape) box.push_back({0, extent - 1});
  Tape tape(box.size());
  std::vector<Tape::Test> tests;
  BoxPoints points(box, kEnumerated);
  double share = 1;
  for (const IndexCond& g : guards) {
    if (!points.exhaustive() && g.kind == IndexCond::Kind::EqualZero) {
      // A sample would hardly meet it: a remainder has its modulus, any other equality fixes one variable.
      std::int64_t among = 1;
      for (const IndexTerm& t : g.expr.terms())
        if (t.atom.isFloorDiv() && std::abs(t.coefficient) == t.atom.divisor) among = std::max(among, t.atom.divisor);
      std::vector<IndexVar> used;
      collectVariables(g, used);
      if (among == 1 && !used.empty()) {
        among = shape[used[0]];
        for (const IndexVar v : used) among = std::min(among, shape[v]);
      }
      share /= static_cast<double>(among);
      continue;
    }
    tests.push_back(tape.add(g));
  }
  std::vector<std::int64_t> values(tape.slots());
  std::size_t passing = 0;
  while (points.next(values)) {
    tape.run(values);
    passing += std::all_of(tests.begin(), tests.end(), [&](const Tape::Test& t) { return t.holds(values); }) ? 1 : 0;
  }
  const double seen =
      points.count() == 0 ? 1 : static_cast<double>(std::max<std::size_t>(passing, 1)) / static_cast<double>(points.count());
  return share * seen;
}

}  // namespace nf
