// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "core/autodiff/phase.h"
#include "core/ir/program.h"

namespace nf::loop {

// What passes on nests (core/autodiff/phase.h) make of one stage: all its terms, or those of one residue class.
struct StageClass {
  std::vector<std::int64_t> phase;  // by axis of the operators: axis = modulus * quotient + phase; 0 where it is whole
  bool empty = false;               // no term of it is in a sum
  std::vector<Range> left;          // by axis: what the guards leave of a reduced one; an output axis whole
  std::vector<IndexCond> guards;    // over the operators' axes; of those above the term what is left
};

// moduli: by axis, 1 where it is whole. conditions: above each term of a sum, by core/schedule/group.h `peel`. Every class, those of
// the last axis running fastest.
std::vector<StageClass> classesOf(const Program& program, const Operator& op, const std::vector<ExprId>& conditions,
                                  const std::vector<std::int64_t>& moduli);

// Share of the class's results at which every term's guards that can be peeled hold whatever the reduced axes; 0: there are none.
double interiorOf(const Operator& op, const StageClass& one, const std::vector<std::int64_t>& moduli);

// The phase split (design: autodiff, section 4) of a subgraph that is about to be scheduled: an output axis z that stands under floor
// divisions becomes z = h*z' + phi with axes z' and phi, where h divides its extent. The tensor [.., Z, ..] is then [.., Z/h, h, ..], which
// is the same memory, so operands and results are bound as before. What the subgraph reads of such a tensor follows.
//   before: dX[z: 8] = sum[t: 2] select(z//2 >= t, dY[z//2 - t]*W[z%2 + 2*t], 0)
//   after : dX[z: 4, z_phase: 2] = sum[t: 2] select(z >= t, dY[z - t]*W[z_phase + 2*t], 0)
// nullopt: no axis is to be split.
std::optional<Program> withPhases(const Program& program, const PhaseOptions& options = {});

}  // namespace nf::loop
