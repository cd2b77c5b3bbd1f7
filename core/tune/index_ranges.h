// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "core/ir/program.h"

namespace nf {

// Closed; of whole numbers where the tensor holds them.
struct ValueRange {
  double low = 0, high = 0;
};

// Which values the inputs of a program may have so that every data-dependent index, of a read or of a scatter, lies within its
// axis. Found by interval arithmetic over the whole program: an input that reaches no index is free, and counts with `freeRange`.
class IndexRanges {
 public:
  explicit IndexRanges(const Program& program);

  // Whether any index depends on data at all.
  bool any() const { return !m_indices.empty(); }
  // Whether a value of this tensor takes part in an index, through whatever it computes.
  bool reaches(TensorId tensor) const { return m_reaches[tensor.value]; }

  struct Choice {
    std::vector<std::optional<ValueRange>> ranges;  // by tensor; nullopt: free
    bool proved = false;                            // no value within them leads out of range
  };
  // Inputs that reach an index get the widest range found under which it is proved. `guarded`: also the indices of reads that stand
  // in a branch of a select, which may keep them from being read out of range.
  Choice choose(bool guarded) const;
  // For indices without a proof: one of a few guesses, within `base`. nullopt: there are no more.
  std::optional<Choice> guess(const Choice& base, std::size_t number) const;

  static ValueRange freeRange(DType type);

 private:
  struct Index {
    OperatorId op;
    ExprId value;
    std::int64_t extent = 0;
    bool guarded = false;
    std::vector<bool> inputs;  // by tensor
  };
  struct Interval;
  class Analysis;
  ValueRange candidate(DType type, double from, double width) const;
  std::optional<std::vector<std::optional<ValueRange>>> within(const std::vector<std::optional<ValueRange>>& ranges,
                                                               const std::vector<bool>& inputs, double from, double width) const;

  const Program& m_program;
  std::vector<Index> m_indices;
  std::vector<bool> m_reaches, m_input;
};

}  // namespace nf
