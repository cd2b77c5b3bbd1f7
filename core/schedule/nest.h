// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "core/schedule/group.h"
#include "core/schedule/schedule.h"

namespace nf::loop {

// One loop nest: elementwise operators, reductions and scatters, one or several side by side, with one axis on vector lanes.
// It can lower any stage of planStages().

// An axis of the nest: neighbouring axes that every access walks as one are merged, extents of 1 are gone.
struct NestAxis {
  std::string name;
  std::int64_t extent = 1;
  bool reduced = false;
};

struct NestView {
  std::vector<NestAxis> axes;                     // output axes first
  std::vector<std::vector<std::size_t>> members;  // by axis: the operators' axes it merges, outermost first
  std::vector<IndexExpr> original;                // axis of the operators -> expression over the axes above (variable = position)
  std::vector<double> accessCost;                 // by axis: cycles of memory accesses a 16-lane vector, were it the lanes
  std::vector<bool> lanesAllowed;                 // by axis
  double work = 1;                                // arithmetic operations a point
  double calls = 0;                               // of them in exp, tanh, ..
  double points = 1;
  double bytes = 0;  // of distinct tensors
  std::size_t accesses = 0;
};

NestView viewNest(const GroupView& group, const StagePlan& stage);

// vectorAxis: position in NestView::axes, -1 none. lanes: a power of two.
struct NestKnobs {
  int vectorAxis = -1;
  int lanes = 1;
  friend bool operator==(const NestKnobs&, const NestKnobs&) = default;
};

std::vector<int> lanesFor(const NestView& view, int vectorAxis, const Target& target);
double estimateNest(const NestView& view, const NestKnobs& knobs, const Target& target);
NestKnobs firstNest(const NestView& view, const Target& target);

// Appends the stage (a scatter: two, the first zeroes) to the function. body.buffers names the buffers of earlier stages.
void lowerNest(const GroupView& group, const StagePlan& stage, const NestKnobs& knobs, Function& function, BodyLowering& body);

// The identity of a reducer and one step of it; arg reducers are not among them.
double identityOf(Reducer reducer, DType type);
ValueId combine(Function& function, Reducer reducer, ValueId accumulator, ValueId value);

}  // namespace nf::loop
