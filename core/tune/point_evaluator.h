// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "core/support/result.h"

namespace nf {

// Values of a tensor where they lie, in their storage type, row-major.
struct TensorView {
  DType type = DType::F32;
  const void* data = nullptr;
};
double readElement(const TensorView& view, std::int64_t element);
void writeElement(DType type, void* data, std::int64_t element, double value);  // rounds to nearest even

// Single output points of a Program, computed on demand in double precision: a point of an output asks for the points it reads,
// each of which is computed once. What the correctness gate compares at full shape, where interpreting everything would take
// seconds. Definitions as in the reference interpreter; nothing is rounded to storage types.
class PointEvaluator {
 public:
  // Fails where points do not stand alone: a Loop, a Scatter that can't be sorted by place (core/schedule/scatter.h), or an expression
  // too deep to walk.
  // bounding: errors are kept as well, see error(). factorUnit: twice the relative rounding of what the products of a sum multiply,
  // kTf32Unit where it comes as tf32.
  static Result<PointEvaluator> prepare(const Program& program, bool training = true, bool bounding = false, double factorUnit = 0);
  static constexpr double kTf32Unit = 0x1p-10;
  // Every tensor without a producer must be. One that has a producer is taken from there, until it is bound to {}; `error`: how far its
  // values may be off.
  void bind(TensorId tensor, TensorView view, double error = 0);
  void setRandom(std::uint64_t seed, std::uint64_t step);
  // Sums of more than kExactTerms terms are estimated from so many terms, drawn without order; 0: none is. Of one that bounds: error() then
  // allows for what the terms not seen may add, and is infinite where those seen say too little of them.
  void setSample(std::int64_t terms);
  static constexpr std::int64_t kExactTerms = 4096;
  // Forgets computed points: inputs have new values.
  void clear();
  // The value at a row-major position. nullopt: it needs more than `work` expression nodes (counted down), a tensor that is not
  // bound, or an index out of range (failed() says which).
  std::optional<double> value(TensorId tensor, std::int64_t element, std::int64_t& work);
  // How far rounding may take a right kernel's result from value(): each operation's rounding in its type, carried on to the point by
  // running error analysis, sums of n terms by the square root of n. Infinity: rounding decides which way the computation goes (a floor, a
  // comparison, an index, the sign under a root).
  std::optional<double> error(TensorId tensor, std::int64_t element, std::int64_t& work);
  // Row-major elements, at most `count` of each, that something arrives at in the results of scatters of this shape: of a large table
  // most are reached by nothing. As inputs are bound.
  std::vector<std::int64_t> reached(std::span<const std::int64_t> shape, std::size_t count, std::uint64_t seed);
  const std::string& failed() const;

  PointEvaluator(PointEvaluator&&) noexcept;
  PointEvaluator& operator=(PointEvaluator&&) noexcept;
  ~PointEvaluator();

 private:
  struct Impl;
  explicit PointEvaluator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> m_impl;
};

}  // namespace nf
