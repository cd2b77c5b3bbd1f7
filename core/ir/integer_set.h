// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <time.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "core/ir/index_expr.h"

// The one wrapper of isl. It answers yes/no and min/max questions about sets and maps of integer points; it never builds
// index functions (design: autodiff, section 3). Every question has a limit: an answer it did not reach is nullopt.
// A context and all that was made in it belong to one thread at a time.
namespace nf {

class IntegerContext;

double processorMilliseconds();  // that this thread has taken

// A time from now on: by the clock, or of the processor time that the calling thread takes, which a busy machine brings no nearer. The
// latter may be looked at as long as that thread lives.
class Deadline {
 public:
  static Deadline ofClock(double milliseconds);
  static Deadline ofProcessor(double milliseconds);
  std::chrono::nanoseconds left() const;  // 0 or less: it is over
  bool isOver() const { return left() <= std::chrono::nanoseconds::zero(); }

 private:
  Deadline(clockid_t clock, double milliseconds);
  clockid_t m_clock;
  std::chrono::nanoseconds m_at{};
};

// Of operations, counted anew for each question, and of time: a question that is under way at `until`, or when `stop` is requested, ends
// there, and later ones are not begun. An operation is a pivot of a tableau, so its time grows with the question.
struct QuestionLimit {
  std::uint64_t operations = 1000000;
  std::optional<Deadline> until = std::nullopt;
  std::stop_token stop;

  QuestionLimit() = default;
  QuestionLimit(std::uint64_t most, std::optional<Deadline> end = std::nullopt, std::stop_token stopped = {})
      : operations(most), until(end), stop(std::move(stopped)) {}
  bool isOver() const { return stop.stop_requested() || (until && until->isOver()); }
};

// Points (v0, .., vn-1) of integers that satisfy conditions.
class IntegerSet {
 public:
  static IntegerSet box(IntegerContext& context, std::span<const Range> ranges);
  IntegerSet(const IntegerSet&);
  IntegerSet(IntegerSet&&) noexcept;
  IntegerSet& operator=(IntegerSet);
  ~IntegerSet();

  IntegerSet constrained(const IndexCond& condition) const;  // variables number the set's dimensions
  std::optional<bool> isEmpty() const;
  std::optional<bool> isSubsetOf(const IntegerSet& other) const;
  std::optional<bool> isEqualTo(const IntegerSet& other) const;
  // Least and greatest value of an expression over the set; nullopt: empty, unbounded or not reached.
  std::optional<Range> rangeOf(const IndexExpr& e) const;

 private:
  friend class IntegerContext;
  struct Impl;
  explicit IntegerSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> m_impl;
  friend struct IntegerSetAccess;
};

class IntegerContext {
 public:
  explicit IntegerContext(QuestionLimit limit = {});
  ~IntegerContext();
  IntegerContext(const IntegerContext&) = delete;
  IntegerContext& operator=(const IntegerContext&) = delete;

  // Is  point -> images  injective on `domain`, and is the set of its images exactly `expected`?
  // images[i] gives dimension i of the image in terms of domain dimensions. Step 7 of the gradient's certificate.
  std::optional<bool> isBijectionOnto(const IntegerSet& domain, std::span<const IndexExpr> images, const IntegerSet& expected);
  // Is  point -> images  on `domain` the inverse of  point -> preimages  on `range`? Then both are bijections. One equality of
  // relations with nothing to project out: another way to the same answer, that costs about as much as isBijectionOnto and often
  // ends where that one runs out of its quota.
  std::optional<bool> areInverse(const IntegerSet& domain, std::span<const IndexExpr> images, const IntegerSet& range,
                                 std::span<const IndexExpr> preimages);

  struct Impl;
  Impl& impl() { return *m_impl; }

 private:
  std::unique_ptr<Impl> m_impl;
};

}  // namespace nf
