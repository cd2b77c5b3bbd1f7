// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference_indices.h"

#include <algorithm>

#include "core/support/checked.h"

namespace nf::reference {

IndexStepper::IndexStepper(const ReferenceKernel::Code& code, std::span<const std::int64_t> counters)
    : m_code(code), m_counters(counters), m_slots(code.slots.size() * kStrip), m_atoms(code.atoms.size() * kStrip),
      m_position(code.extents.size(), 0) {
  chooseBlock();
  for (const Slot& slot : m_code.slots) m_slotSteps.push_back(stepOf(slot.form));
  for (const FloorAtom& atom : m_code.atoms) m_atomSteps.push_back(stepOf(atom.numerator));
  m_atomOuter.resize(m_code.atoms.size(), 0);
  refreshBases();
}

IndexStepper::Step IndexStepper::stepOf(const LinearForm& form) const {
  Step s;
  s.start = form.constant;
  for (const auto& [counter, c] : form.counters) s.start += c * m_counters[counter];
  const std::size_t rank = m_code.extents.size();
  std::vector<std::int64_t> coefficients(rank, 0);
  for (const auto& [axis, c] : form.axes) {
    coefficients[axis] = c;
    if (axis < m_block) s.outerAxes.emplace_back(axis, c);
    else if (m_block + 1 == rank) s.inner = c;
  }
  for (const auto& [atom, c] : form.atoms) {
    s.affine = false;
    (m_code.atoms[atom].inner ? s.innerAtoms : s.outerAtoms).emplace_back(atom, c);
  }
  s.advance.resize(rank, 0);
  std::int64_t wrapped = 0;  // what the axes further in give back, the block left out: it is added a lane at a time
  for (std::size_t k = m_block; k-- > 0;) {
    s.advance[k] = coefficients[k] - wrapped;
    wrapped += coefficients[k] * (m_code.extents[k] - 1);
  }
  s.base = s.start;
  if (m_block + 1 < rank) {
    s.pattern.assign(1, 0);
    for (std::size_t k = m_block; k < rank; ++k) {
      std::vector<std::int64_t> longer;
      for (const std::int64_t before : s.pattern)
        for (std::int64_t i = 0; i < m_code.extents[k]; ++i) longer.push_back(before + coefficients[k] * i);
      s.pattern = std::move(longer);
    }
  }
  return s;
}

// The innermost axes that fit a strip together and that no floor depends on are one block with a fixed pattern of offsets.
void IndexStepper::chooseBlock() {
  const std::size_t rank = m_code.extents.size();
  if (rank == 0) return;
  m_block = rank - 1;
  m_blockSize = m_code.extents[m_block];
  std::vector<bool> floored(rank, false);
  for (const FloorAtom& atom : m_code.atoms)
    for (const auto& [axis, c] : atom.numerator.axes) floored[axis] = true;
  if (floored[m_block]) return;
  while (m_block > 0 && !floored[m_block - 1] && m_blockSize * m_code.extents[m_block - 1] <= static_cast<std::int64_t>(kStrip))
    m_blockSize *= m_code.extents[--m_block];
}

std::int64_t IndexStepper::baseOf(const Step& s) const {
  std::int64_t base = s.start;
  for (const auto& [axis, c] : s.outerAxes) base += c * m_position[axis];
  for (const auto& [atom, c] : s.outerAtoms) base += c * m_atomOuter[atom];
  return base;
}

// After the outer axes moved: everything that is not stepped.
void IndexStepper::refreshBases() {
  for (std::size_t a = 0; a < m_atomSteps.size(); ++a) {
    m_atomSteps[a].base = baseOf(m_atomSteps[a]);
    if (!m_code.atoms[a].inner) m_atomOuter[a] = floorDiv(m_atomSteps[a].base, m_code.atoms[a].divisor);
  }
  for (Step& s : m_slotSteps)
    if (!s.affine) s.base = baseOf(s);
}

void IndexStepper::fillRun(std::size_t lane, std::size_t length, std::int64_t inner) {
  const auto fill = [&](const Step& s, std::int64_t* out) {
    if (!s.pattern.empty()) {
      const std::int64_t* pattern = s.pattern.data() + inner;
      for (std::size_t i = 0; i < length; ++i) out[i] = s.base + pattern[i];
      return;
    }
    const std::int64_t from = s.base + s.inner * inner;
    for (std::size_t i = 0; i < length; ++i) out[i] = from + s.inner * static_cast<std::int64_t>(i);
    for (const auto& [atom, c] : s.innerAtoms) {
      const std::int64_t* values = m_atoms.data() + atom * kStrip + lane;
      for (std::size_t i = 0; i < length; ++i) out[i] += c * values[i];
    }
  };
  for (std::size_t a = 0; a < m_atomSteps.size(); ++a) {
    if (!m_code.atoms[a].inner) continue;
    std::int64_t* out = m_atoms.data() + a * kStrip + lane;
    fill(m_atomSteps[a], out);
    const std::int64_t divisor = m_code.atoms[a].divisor;
    for (std::size_t i = 0; i < length; ++i) out[i] = floorDiv(out[i], divisor);
  }
  for (std::size_t k = 0; k < m_slotSteps.size(); ++k) fill(m_slotSteps[k], m_slots.data() + k * kStrip + lane);
}

void IndexStepper::fillStrip(std::size_t count) {
  std::size_t lane = 0;
  while (lane < count) {
    const auto length = std::min(count - lane, static_cast<std::size_t>(m_blockSize - m_inBlock));
    fillRun(lane, length, m_inBlock);
    lane += length;
    m_inBlock += static_cast<std::int64_t>(length);
    if (m_inBlock == m_blockSize) {
      m_inBlock = 0;
      advanceOuter();
    }
  }
}

void IndexStepper::advanceOuter() {
  for (std::size_t k = m_block; k-- > 0;) {
    if (++m_position[k] < m_code.extents[k]) {
      for (Step& s : m_slotSteps)
        if (s.affine) s.base += s.advance[k];
      if (!m_atomSteps.empty()) refreshBases();
      return;
    }
    m_position[k] = 0;
  }
}

}  // namespace nf::reference
