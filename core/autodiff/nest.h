// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/autodiff/explanation.h"
#include "core/autodiff/inverse.h"

// The gather as a nest of loops while it is made: steps 5, 6 and 6b of the inversion (design: autodiff, section 3).
namespace nf {

// What e >= 0 says, with the common factor of e's coefficients taken out: 2*x - 3 becomes x - 2.
IndexExpr reducedInequality(const IndexExpr& e);

struct Guard {
  IndexCond condition;  // over z and t
  std::string why;      // for people; empty where nobody asked
};

// z are variables 0 .. shape.size()-1, t the ones behind.
struct Nest {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> axes;
  std::vector<IndexExpr> y;
  std::vector<IndexExpr> tOfY;  // one an axis, over y; empty where nobody keeps it
  std::vector<Guard> guards;

  std::vector<Range> ranges() const;
  bool usesAxis(const IndexCond& c) const;
};

// The nest of the operator that a gather is: of every element of the tensor the points that read it.
Nest nestOf(const std::vector<std::int64_t>& shape, const Inverse& inverse);
Inverse inverseOf(const Nest& nest);  // and back; not certified

enum class NestState : std::uint8_t { Ready, Empty, Overflow };

// Step 6: drops guards that the others imply, dearest first; a guard of z alone only because of other guards of z alone, so that what
// can be hoisted stays hoisted. Narrows the axes to what the guards leave. `limit`: of what isl is asked.
//   before: r: 0..1, guards r >= 0, r <= 2 - z % 2, z >= 0       after: guards r <= 2 - z % 2
NestState prune(Nest& nest, const QuestionLimit& limit, const PartNames& names);

// Step 6b: adds guards of z alone that say where a fibre is not empty, by eliminating the axes; at most four, else none.
// The nest must be pruned.
NestState addExistenceGuards(Nest& nest, const QuestionLimit& limit, const PartNames& names);

// The share of all z where the guards of z alone hold: counted, or estimated where z are many.
double shareOfGuarded(const std::vector<std::int64_t>& shape, const std::vector<IndexCond>& guards);

}  // namespace nf
