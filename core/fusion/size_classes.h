// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/program.h"

namespace nf {

// Which extents of a program are one size: a dimension of a tensor and the axis that runs along it, in every operator that does. A size
// that changes changes all of its class. Where several axes share a dimension, p*2 + r, it is of the one that spans it.
class SizeClasses {
 public:
  using Class = std::uint32_t;
  static constexpr Class kNone = UINT32_MAX;
  explicit SizeClasses(const Program& program);

  // Of the dimensions of a tensor, and of the axes of the operator that makes it, reductions included. No sizes, kNone: an extent of 1, a
  // dimension that no axis spans, as one indexed by `i % 2`.
  const std::vector<Class>& dimensionsOf(TensorId tensor) const { return m_dimensions[tensor.value]; }
  const std::vector<Class>& axesOf(TensorId made) const { return m_axes[made.value]; }
  // How it is called where this tensor is made or, if nothing makes it, read, "k of Y", with its extent there; empty: it is not there.
  std::pair<std::string, std::int64_t> nameIn(const Program& program, TensorId tensor, Class c) const;

 private:
  std::vector<std::vector<Class>> m_dimensions, m_axes;  // by tensor
  std::vector<OperatorId> m_makers;                      // by tensor
};

}  // namespace nf
