// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/points.h"

#include <algorithm>

#include "core/support/checked.h"

namespace nf {

bool Tape::Test::holds(std::span<const std::int64_t> values) const {
  const auto each = [&](const Test& t) { return t.holds(values); };
  switch (kind) {
    case IndexCond::Kind::GreaterEqualZero: return values[slot] >= 0;
    case IndexCond::Kind::EqualZero: return values[slot] == 0;
    case IndexCond::Kind::And: return std::all_of(operands.begin(), operands.end(), each);
    case IndexCond::Kind::Or: return std::any_of(operands.begin(), operands.end(), each);
    case IndexCond::Kind::Not: return !each(operands[0]);
  }
  return false;
}

Tape::Slot Tape::add(const IndexExpr& e) {
  if (const auto v = e.asVariable()) return *v;
  return add(e, 1);
}

Tape::Slot Tape::add(const IndexExpr& e, std::int64_t divisor) {
  const auto known = m_known.find({e, divisor});
  if (known != m_known.end()) return known->second;
  std::vector<Operand> operands;
  for (const IndexTerm& t : e.terms())
    operands.push_back({t.atom.isFloorDiv() ? add(*t.atom.numerator, t.atom.divisor) : t.atom.variable, t.coefficient});
  const std::size_t begin = m_operands.size();
  m_operands.insert(m_operands.end(), operands.begin(), operands.end());
  m_instructions.push_back({begin, m_operands.size(), e.constant(), divisor});
  const Slot slot = static_cast<Slot>(slots() - 1);
  m_known.emplace(std::pair(e, divisor), slot);
  return slot;
}

Tape::Test Tape::add(const IndexCond& c) {
  Test test;
  test.kind = c.kind;
  if (c.kind == IndexCond::Kind::GreaterEqualZero || c.kind == IndexCond::Kind::EqualZero) test.slot = add(c.expr);
  for (const IndexCond& operand : c.operands) test.operands.push_back(add(operand));
  return test;
}

void Tape::run(std::span<std::int64_t> values) const {
  std::int64_t* out = values.data() + m_variables;
  for (const Instruction& i : m_instructions) {
    std::uint64_t sum = static_cast<std::uint64_t>(i.constant);  // wraps: the sum fits, its parts need not
    for (std::size_t k = i.begin; k < i.end; ++k)
      sum += static_cast<std::uint64_t>(m_operands[k].coefficient) * static_cast<std::uint64_t>(values[m_operands[k].slot]);
    const std::int64_t v = static_cast<std::int64_t>(sum);
    *out++ = i.divisor == 1 ? v : floorDiv(v, i.divisor);
  }
}

BoxPoints::BoxPoints(std::vector<Range> box, std::size_t budget) : m_box(std::move(box)) {
  std::int64_t all = 1;
  for (const Range& r : m_box) all = checkedMul(all, r.extent()).value_or(std::int64_t{1} << 62);
  m_exhaustive = all <= static_cast<std::int64_t>(budget);
  m_count = m_exhaustive ? static_cast<std::size_t>(all) : budget / 4;
}

bool BoxPoints::next(std::span<std::int64_t> point) {
  if (m_done == m_count) return false;
  ++m_done;
  if (m_exhaustive) {
    if (m_done == 1) {
      for (std::size_t i = 0; i < m_box.size(); ++i) point[i] = m_box[i].lo;
      return true;
    }
    for (std::size_t i = m_box.size(); i-- > 0;) {
      if (++point[i] <= m_box[i].hi) break;
      point[i] = m_box[i].lo;
    }
    return true;
  }
  for (std::size_t i = 0; i < m_box.size(); ++i) {
    m_random ^= m_random << 13;
    m_random ^= m_random >> 7;
    m_random ^= m_random << 17;
    const Range& r = m_box[i];
    const std::uint64_t bits = m_random >> 20;
    const auto width = static_cast<std::uint64_t>(r.hi) - static_cast<std::uint64_t>(r.lo);
    switch (bits & 7) {
      case 0: point[i] = r.lo; break;
      case 1: point[i] = r.hi; break;
      case 2: point[i] = r.lo + (width > 0 ? 1 : 0); break;
      case 3: point[i] = r.hi - (width > 0 ? 1 : 0); break;
      default: point[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(r.lo) + (m_random >> 8) % (width + 1)); break;
    }
  }
  return true;
}

}  // namespace nf
