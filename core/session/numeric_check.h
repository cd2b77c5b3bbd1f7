// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "core/ir/program.h"
#include "core/protocol/values.h"
#include "core/support/hash.h"
#include "core/support/result.h"

namespace nf {

// What the numbers begin with.
struct CheckedStart {
  std::string directory;     // of data files
  std::uint64_t random = 1;  // seed of initial values, batches and `random()`, as a run of the notebook has it
};

// Equal where a check of d(of)/d(wrt) in `result` would compare the same numbers: the operators and what is given to them, data files
// as old as they are, whatever computed tensors are called.
Hash checkedHash(const Program& program, TensorId of, TensorId wrt, TensorId result, TensorId seed, const CheckedStart& start = {});

// Holds a derived gradient against central differences of the reference interpreter, in double precision on the notebook's own
// values (`start`: data files, the first batch, initialisers; where there are none, random ones): the same
// sampled elements of `wrt`, two steps extrapolated, of the length that agrees best with itself: relative to the element's own size, or
// to what is usual among the elements where rounding leaves nothing of that. Errors are relative to the largest
// finite gradient element, or to the larger of the two values where that is more; where the gradient or the differences are no finite
// number there is none to compare: inf is worse than any number and nan worse than that, and neither is in a bin. What rounding
// explains refutes nothing: that of the differences, and where points stand alone (no loop, no scatter) that of the derived value, by
// running error analysis. What a gradient does not see is held as it is: what stop_gradient cuts always, and where a sample disagrees
// jumps (floors, comparisons, indices of the best), kinks and ties too; it is told apart (`jump`, `tie`) where that explains it, and
// what changes a step beside it is named (`choices`). Parameters that start as one number are moved by about 1 % for a second, smaller
// check (`moved`). A computed `wrt` is moved by itself. `program` is differentiated, `result` holds d(of)/d(wrt), weighted by `seed`
// where `of` is no scalar.
class NumericChecker {
 public:
  // Computes the gradient once. Error: one sample is more than `operations`, it can't be interpreted, what stop_gradient cuts can't be
  // held, or a data file can't be read. Borrows nothing of `program`.
  static Result<NumericChecker> prepare(const Program& program, TensorId of, TensorId wrt, TensorId result, TensorId seed,
                                        double operations, const CheckedStart& start = {});
  // Goes on for about so many operations of the interpreter, at least one sample. Error: as above, or stop was requested; what was
  // sampled before is kept.
  Result<protocol::NumericCheck> goOn(double operations, std::stop_token stop);
  bool done() const;
  // Where the uses of stop_gradient that are held are written.
  const std::vector<Span>& held() const;
  // Where those of `choices` are written, one each; invalid where they are not.
  const std::vector<Span>& choices() const;

  NumericChecker(NumericChecker&&) noexcept;
  NumericChecker& operator=(NumericChecker&&) noexcept;
  ~NumericChecker();

  struct Impl;

 private:
  explicit NumericChecker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> m_impl;
};

}  // namespace nf
