// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/access_generator.h"

#include <algorithm>
#include <numeric>

#include "core/autodiff/points.h"

namespace nf::testing {
namespace {

constexpr std::int64_t kMostElements = 6000;

IndexExpr v(std::size_t i) { return IndexExpr::variable(static_cast<IndexVar>(i)); }

class Generator {
 public:
  explicit Generator(Choices& choices) : m_r(choices) {}

  std::optional<AccessProblem> general(AccessClass c) {
    const int n = m_r.between(1, 4);
    for (int i = 0; i < n; ++i) {
      const int lo = m_r.of({0, 0, 0, 0, -2, 1});
      m_p.domain.push_back({lo, lo + m_r.between(1, n < 4 ? 7 : 4) - 1});
    }
    const int components = m_r.between(1, 3);
    std::vector<IndexExpr> access;
    if (c == AccessClass::Pair) {
      const IndexExpr base = affine(2);
      const int d = m_r.of({2, 3, 4, 5});
      access = {floorDiv(base, d), floorMod(base, d)};
      if (m_r.chance(50)) access[1] = m_r.of({2, d}) * access[1] + (m_r.chance(50) ? affine(1) : IndexExpr(0));
      if (components > 2) access.push_back(affine(2));
      if (m_r.chance(30)) m_r.shuffle(access);
    } else {
      for (int j = 0; j < components; ++j) access.push_back(index(c, 0));
    }
    if (access.size() > 1 && m_r.chance(8)) access[1] = access[0];
    for (IndexExpr& f : access) place(f, m_r.chance(30) ? m_r.of({0, 0, 0, 1, -1}) : 0, m_r.chance(20) ? m_r.between(1, 2) : 0);
    if (c == AccessClass::Guards || m_r.chance(15))
      for (int k = m_r.between(1, 2); k > 0; --k) m_p.guards.push_back(guard());
    return checked();
  }

  std::optional<AccessProblem> convolution() {
    if (m_r.chance(60)) {
      const int batch = m_r.between(1, 2);
      add(axis(batch), batch);
    }
    const int groups = m_r.of({1, 1, 2, 3}), channels = m_r.between(1, 2), outputs = groups * m_r.between(1, 2);
    const bool shuffled = m_r.chance(33);
    const IndexExpr k = axis(outputs), c = axis(channels);
    const int all = channels * groups;
    IndexExpr channel = channels * floorDiv(k, outputs / groups) + c;
    if (shuffled && all > 1) {
      std::vector<int> divisors;
      for (int d = 1; d <= all; ++d)
        if (all % d == 0) divisors.push_back(d);
      const int d = divisors[static_cast<std::size_t>(m_r.between(0, static_cast<int>(divisors.size()) - 1))];
      channel = (all / d) * floorMod(channel, d) + floorDiv(channel, d);
    }
    add(channel, all);
    for (int dimension = m_r.between(1, 2); dimension > 0; --dimension) {
      const int stride = m_r.of({1, 2, 2, 3, 4}), dilation = m_r.of({1, 1, 2, 3});
      const int positions = m_r.between(1, 4), taps = m_r.between(1, 4), pad = m_r.between(0, 3);
      const IndexExpr p = axis(positions), r = axis(taps);
      const int extent = std::max(1, (positions - 1) * stride + (taps - 1) * dilation + 1 - 2 * pad + m_r.between(0, 2));
      IndexExpr e = stride * p + dilation * r - IndexExpr(pad);
      if (m_r.chance(20)) e = floorMod(e, extent);  // circular
      else if (m_r.chance(15)) e = floorDiv(e, 2);
      add(e, extent);
      m_p.guards.push_back(IndexCond::ge0(e));
      m_p.guards.push_back(IndexCond::ge0(IndexExpr(extent - 1) - e));
    }
    if (m_r.chance(30)) axis(m_r.between(2, 3));
    permuteVariables();
    return checked();
  }

  std::optional<AccessProblem> reshape() {
    const int n = m_r.between(1, 4);
    std::vector<std::size_t> order;
    std::vector<int> extents;
    for (int i = 0; i < n; ++i) {
      order.push_back(static_cast<std::size_t>(i));
      extents.push_back(m_r.of({1, 2, 3, 4, 6}));
      axis(extents.back());
    }
    m_r.shuffle(order);
    IndexExpr linear;
    std::int64_t size = 1;
    for (const std::size_t i : order) {
      linear = extents[i] * linear + v(i);
      size *= extents[i];
    }
    if (m_r.chance(30)) {  // a padded flat buffer
      linear = linear + IndexExpr(m_r.between(1, 4));
      size += 4;
    }
    if (m_r.chance(20)) {
      linear = 2 * linear;
      size *= 2;
    }
    std::vector<std::pair<IndexExpr, std::int64_t>> components;
    for (int k = m_r.between(0, 3); k > 0; --k) {
      const int d = m_r.of({2, 3, 4, 5, 6});
      components.insert(components.begin(), {floorMod(linear, d), d});
      linear = floorDiv(linear, d);
      size = (size + d - 1) / d;
    }
    components.insert(components.begin(), {linear, size});
    if (m_r.chance(30)) m_r.shuffle(components);
    if (components.size() > 1 && m_r.chance(25))
      components.erase(components.begin() + m_r.between(0, static_cast<int>(components.size()) - 1));
    for (const auto& [e, extent] : components) add(e, extent);
    return checked();
  }

  std::optional<AccessProblem> wide() {
    const int n = m_r.between(5, 6);
    for (int i = 0; i < n; ++i) axis(m_r.between(2, 3));
    for (int components = m_r.between(1, 2); components > 0; --components) {
      IndexExpr e;
      for (const std::size_t i : some(m_r.between(2, n))) e = e + m_r.of({1, 1, 2, 3, -1}) * v(i);
      if (m_r.chance(60)) {
        const int d = m_r.of({2, 3, 4});
        e = m_r.chance(50) ? floorDiv(e, d) : floorMod(e, d);
      }
      if (m_r.chance(30)) e = e + floorMod(v(pick()) + v(pick()), 2);
      place(e, 0, 0);
    }
    if (m_r.chance(30)) m_p.guards.push_back(IndexCond::ge0(affine(2) + IndexExpr(1)));
    return checked();
  }

 private:
  std::size_t pick() { return static_cast<std::size_t>(m_r.between(0, static_cast<int>(m_p.domain.size()) - 1)); }

  std::vector<std::size_t> some(int count) {
    std::vector<std::size_t> all(m_p.domain.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    m_r.shuffle(all);
    all.resize(std::min(all.size(), static_cast<std::size_t>(count)));
    return all;
  }

  IndexExpr affine(int most) {
    IndexExpr e = m_r.chance(40) ? m_r.between(-2, 2) : 0;
    for (const std::size_t i : some(m_r.between(1, std::min(most, static_cast<int>(m_p.domain.size())))))
      e = e + m_r.of({1, 1, 1, 1, 2, 2, 3, -1, -2, 3, 4}) * v(i);
    return e;
  }

  IndexExpr index(AccessClass c, int depth) {
    if (c == AccessClass::Affine || m_r.chance(35)) return affine(3);
    const int d = m_r.of({2, 2, 3, 3, 4, 5, 6});
    const IndexExpr inner = depth < 1 && m_r.chance(30) ? index(c, depth + 1) : affine(2);
    const bool floor = c == AccessClass::Floor || (c != AccessClass::Mod && m_r.chance(50));
    IndexExpr e = floor ? floorDiv(inner, d) : floorMod(inner, d);
    if (m_r.chance(30)) e = m_r.of({1, 1, 2, 3, -1}) * e + (m_r.chance(60) ? affine(1) : IndexExpr(m_r.between(0, 2)));
    return e;
  }

  IndexCond guard() {
    const int kind = m_r.between(0, 99);
    if (kind < 45) return IndexCond::ge0(affine(2) + IndexExpr(m_r.between(-1, 3)));
    if (kind < 60) return IndexCond::eq0(m_r.chance(50) ? affine(2) : floorMod(affine(2), m_r.of({2, 3})));
    if (kind < 70) return IndexCond::eq0(floorDiv(affine(2), 2) - affine(1));
    if (kind < 85) return IndexCond::any({IndexCond::ge0(affine(2)), IndexCond::ge0(affine(2) + IndexExpr(m_r.between(-3, 3)))});
    if (kind < 95) return IndexCond::negate(IndexCond::all({IndexCond::ge0(affine(2)), IndexCond::ge0(affine(2) + IndexExpr(1))}));
    return IndexCond::any(
        {IndexCond::eq0(floorMod(v(0), 2)), IndexCond::all({IndexCond::ge0(affine(2)), IndexCond::eq0(affine(2))})});
  }

  IndexExpr axis(int extent) {
    m_p.domain.push_back({0, extent - 1});
    return v(m_p.domain.size() - 1);
  }

  void add(IndexExpr f, std::int64_t extent) {
    m_p.access.push_back(std::move(f));
    m_p.shape.push_back(std::max<std::int64_t>(1, extent));
  }

  // Shifts the access so that its least value is `shift`, in a tensor that just holds it, less `clip`.
  void place(const IndexExpr& f, int shift, int clip) {
    Tape tape(m_p.domain.size());
    const Tape::Slot slot = tape.add(f);
    std::vector<std::int64_t> values(tape.slots());
    BoxPoints points(m_p.domain, std::size_t{1} << 30);
    std::optional<Range> range;
    while (points.next(values)) {
      tape.run(values);
      const std::int64_t x = values[slot];
      range = range ? Range{std::min(range->lo, x), std::max(range->hi, x)} : Range{x, x};
    }
    add(f + IndexExpr(shift - range->lo), range->hi - range->lo + 1 + shift - clip);
  }

  void permuteVariables() {
    std::vector<std::size_t> order(m_p.domain.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    m_r.shuffle(order);
    std::vector<Range> domain(m_p.domain.size());
    for (std::size_t i = 0; i < order.size(); ++i) domain[order[i]] = m_p.domain[i];
    m_p.domain = std::move(domain);
    const auto renumber = [&](IndexVar i) { return std::optional(v(order[i])); };
    for (IndexExpr& f : m_p.access) f = substitute(f, renumber);
    for (IndexCond& g : m_p.guards) g = substitute(g, renumber);
  }

  std::optional<AccessProblem> checked() {
    std::int64_t elements = 1;
    for (const std::int64_t extent : m_p.shape) elements *= extent;
    return elements <= kMostElements ? std::optional(std::move(m_p)) : std::nullopt;
  }

  Choices& m_r;
  AccessProblem m_p;
};

}  // namespace

std::string_view name(AccessClass c) {
  switch (c) {
    case AccessClass::Affine: return "affine";
    case AccessClass::Floor: return "floor";
    case AccessClass::Mod: return "mod";
    case AccessClass::Pair: return "pair";
    case AccessClass::Mixed: return "mixed";
    case AccessClass::Guards: return "guards";
    case AccessClass::ConvLike: return "conv";
    case AccessClass::Reshape: return "reshape";
    case AccessClass::Wide: return "wide";
  }
  return "";
}

std::uint64_t Choices::word() {
  if (m_fromBytes) {
    if (m_bytes.empty()) return 0;
    const std::uint64_t byte = m_bytes.front();
    m_bytes = m_bytes.subspan(1);
    return byte;
  }
  m_state += 0x9e3779b97f4a7c15ull;  // splitmix64
  std::uint64_t z = m_state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

std::optional<AccessProblem> randomAccess(AccessClass c, Choices& choices) {
  Generator generator(choices);
  switch (c) {
    case AccessClass::Affine:
    case AccessClass::Floor:
    case AccessClass::Mod:
    case AccessClass::Pair:
    case AccessClass::Mixed:
    case AccessClass::Guards: return generator.general(c);
    case AccessClass::ConvLike: return generator.convolution();
    case AccessClass::Reshape: return generator.reshape();
    case AccessClass::Wide: return generator.wide();
  }
  return std::nullopt;
}

}  // namespace nf::testing
