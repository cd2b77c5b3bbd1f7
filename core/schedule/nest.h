// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <string>
#include <vector>

#include "core/schedule/group.h"
#include "core/schedule/phases.h"
#include "core/schedule/schedule.h"

namespace nf::loop {

// One loop nest: elementwise operators, reductions and scatters, one or several side by side, with one axis on vector lanes.
// It can lower any stage of planStages().

// An axis of the nest: neighbouring axes that every access walks as one are merged, extents of 1 are gone.
struct NestAxis {
  std::string name;
  std::int64_t extent = 1;
  bool reduced = false;
  std::int64_t whole = 1;  // of its points, those that every residue class has; extent where it is no quotient
};

struct NestView {
  std::vector<NestAxis> axes;                     // output axes first
  std::vector<std::vector<std::size_t>> members;  // by axis: the operators' axes it merges, outermost first
  // Axis of the operators -> expression over the axes above (variable = position); leading axes of a row stand behind them, in order.
  std::vector<IndexExpr> original;
  std::vector<std::size_t> ragged;     // operators' axes whose quotient and class may go past their extent
  std::vector<std::int64_t> moduli;    // by operators' axis: of how many residue classes it is made; 1: it is whole
  std::vector<std::size_t> classAxes;  // the axes that count classes
  // What the passes make of each class, of all terms where there is but one; empty: they were not asked, or it would be too much code.
  std::vector<StageClass> classes;
  ExprId term;                      // of a stage that is one sum: what it adds, without the guards above
  double visited = 1;               // share of all terms that the classes' axes leave
  double guards = 0;                // tests that are left of a term
  double interior = 0;              // share of the results at which guards can be peeled off
  std::vector<double> accessCost;   // by axis: cycles of memory accesses a 16-lane vector, were it the lanes
  std::vector<bool> lanesAllowed;   // by axis
  std::vector<double> foldedStore;  // by output axis: cycles of storing the results of 16 neighbours along it
  std::size_t operators = 1;
  // Without a reduction, by vector axis and tile axis: accessCost where blocks are transposed; as accessCost where none can be.
  std::vector<std::vector<double>> transposedCost;
  std::vector<bool> tileAllowed;  // by axis: an output axis of a reduction
  double rows = 1;                // points of the leading axes
  double work = 1;                // arithmetic operations a point
  double calls = 0;               // of them in exp, tanh, ..
  double points = 1;
  double bytes = 0;  // of distinct tensors
  std::size_t accesses = 0;
};

// rowAxes: leading axes that stay outside, one row of the nest at a time. joined: axes merged with the one before whatever it costs
// the accesses. phases: output axes under floor divisions become quotient and residue class (design: autodiff, section 4), so that the
// floors fold; where the divisor does not divide the extent, points past it are left out.
//   before: dX[z: 7] = sum[t: 2] select(z//2 >= t, dY[z//2 - t]*W[z%2 + 2*t], 0)
//   after : z = 2*z' + phi, z' in 4, phi in 2 where 2*z' + phi < 7:  sum[t: 2] select(z' >= t, dY[z' - t]*W[phi + 2*t], 0)
// With phi constant in loops of their own (NestView::classes), axes are as long as the class needs: of W[3] the second class has W[1] alone.
NestView viewNest(const GroupView& group, const StagePlan& stage, std::size_t rowAxes = 0, const std::set<std::size_t>& joined = {},
                  bool phases = false);
// `e` with variable k as by[k], where there is one, simplified.
IndexExpr replaced(const IndexExpr& e, const std::vector<IndexExpr>& by, const RangeOf& ranges);
// The operators' axes, where the nest's are `merged` and the row's leading axes behind them.
std::vector<IndexExpr> originalAxes(const NestView& view, const std::vector<IndexExpr>& merged, const RangeOf& ranges);
// Is a read at this offset far apart along `lane` and contiguous along `other`? Blocks of it can be transposed in registers.
bool transposable(const IndexExpr& offset, IndexVar lane, IndexVar other);
// Has the stage output axes to split, those of rows left out?
bool hasPhases(const GroupView& group, const StagePlan& stage, std::size_t rowAxes = 0);

// vectorAxis: position in NestView::axes, -1 none. lanes: a power of two. tileAxis: of a reduction, an output axis of which `tile`
// neighbours are reduced together; where the lanes are reduced too, the neighbours' lanes are folded into each other. Without a
// reduction: the axis along which reads are contiguous that are not along the lanes; blocks of them are transposed in registers.
// sorted: of a scatter by data (sortsPoints): the points are put in the order of the places they go to first.
struct NestKnobs {
  int vectorAxis = -1;
  int lanes = 1;
  int tileAxis = -1;
  int tile = 1;
  bool sorted = false;
  bool phases = false;  // as viewNest takes it
  bool peeled = false;  // guards that hold for all terms of a result, or of a block of them, are tested once and not inside
  friend bool operator==(const NestKnobs&, const NestKnobs&) = default;
};

// Of the power-of-two lane counts up to `most`, the first that covers the extent.
int lanesCovering(std::int64_t extent, int most);
std::vector<int> lanesFor(const NestView& view, int vectorAxis, const Target& target);
// Legal tiles along an axis, given the lanes.
std::vector<int> tilesFor(const NestView& view, const NestKnobs& knobs, int tileAxis, std::size_t operators, const Target& target);
double estimateNest(const NestView& view, const NestKnobs& knobs, const Target& target);
NestKnobs firstNest(const NestView& view, const Target& target);

// Appends the stage (a scatter: two, the first zeroes) to the function. body.buffers names the buffers of earlier stages.
void lowerNest(const GroupView& group, const StagePlan& stage, const NestKnobs& knobs, Function& function, BodyLowering& body);

// Leading axes that all operators of the group share and at which each reads only what the others made at the same place: the
// points of these axes are independent of each other through the whole group.
std::size_t sharedRows(const GroupView& group, const std::vector<StagePlan>& stages);
// All stages for one row, then the next row: one stage whose tasks are the rows. Knobs by stage, of views with the same rowAxes.
void lowerRows(const GroupView& group, const std::vector<StagePlan>& stages, std::size_t rowAxes,
               const std::vector<NestKnobs>& knobs, Function& function, BodyLowering& body);

// Buffers as lowering of this stage sees them: what the stage itself makes is inlined at the same point.
void hideOwn(const GroupView& group, const StagePlan& stage, BodyLowering& body);

// Argmax or argmin?
inline bool isArg(Reducer r) { return r == Reducer::ArgMax || r == Reducer::ArgMin; }
// The identity of a reducer and one step of it; arg reducers are not among them.
double identityOf(Reducer reducer, DType type);
ValueId combine(Function& function, Reducer reducer, ValueId accumulator, ValueId value);

}  // namespace nf::loop
