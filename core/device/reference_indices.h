// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/device/reference_code.h"

namespace nf::reference {

// Values of an operator's index forms, a strip of points after the other in row-major order: stepped instead of recomputed.
class IndexStepper {
 public:
  // counters: of the loops around, outermost first; borrowed, as the code is.
  IndexStepper(const ReferenceKernel::Code& code, std::span<const std::int64_t> counters);

  // The next `count` points, at most kStrip.
  void fillStrip(std::size_t count);
  // Of the strip, by point.
  const std::int64_t* slot(std::uint32_t slot) const { return m_slots.data() + static_cast<std::size_t>(slot) * kStrip; }

 private:
  struct Step {
    std::int64_t base = 0, inner = 0;   // inner: of the innermost axis, where it is the whole block
    std::int64_t start = 0;             // constant and counters
    std::vector<std::int64_t> pattern;  // over the block, where it has several axes
    std::vector<std::pair<std::uint32_t, std::int64_t>> outerAxes, outerAtoms, innerAtoms;
    std::vector<std::int64_t> advance;  // by axis: change of base when it steps and all further in return to 0
    bool affine = true;
  };

  Step stepOf(const LinearForm& form) const;
  void chooseBlock();
  std::int64_t baseOf(const Step& s) const;
  void refreshBases();
  void fillRun(std::size_t lane, std::size_t length, std::int64_t inner);
  void advanceOuter();

  const ReferenceKernel::Code& m_code;
  std::span<const std::int64_t> m_counters;
  std::vector<std::int64_t> m_slots, m_atoms;
  std::size_t m_block = 0;  // first axis of the innermost block
  std::int64_t m_blockSize = 1, m_inBlock = 0;
  std::vector<std::int64_t> m_position, m_atomOuter;  // position: of the axes before the block
  std::vector<Step> m_slotSteps, m_atomSteps;
};

}  // namespace nf::reference
