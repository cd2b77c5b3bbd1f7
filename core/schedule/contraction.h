// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/schedule/group.h"
#include "core/schedule/nest.h"

namespace nf::loop {

// out[b, m, n] = epilogue(sum over k of A(b, m, k) * B(b, n, k)), recognised for any expression (design: codegen, "Recognising
// contractions"): every axis is classed by the factors that use it. Any factor may be an expression; what surrounds it is fused.
enum class AxisClass : std::uint8_t { Batch, Left, Right, Inner };  // used by both, by A alone, by B alone, reduced

// Conditions on indices at the root of factors. Those of one set of axes stand together.
struct ContractionGuard {
  std::vector<ExprId> conditions;
  std::vector<bool> axes;            // by merged axis: the conditions use it
  double fraction = 1;               // of the points of these axes where they hold
  bool left = false, right = false;  // on a factor of this side
  bool skips = false;  // of the whole product: where it fails nothing is added, and a tile it does not divide goes on without it
};

struct ContractionView {
  OperatorId op;                     // the contraction
  std::vector<OperatorId> before;    // stored injective operators that need nothing of it: loops of their own
  std::vector<OperatorId> epilogue;  // stored injective operators over the same points, in order; may be empty
  std::vector<ContractionGuard> guards;
  std::vector<ExprId> left, right;                      // factors of its body; left: A
  NestView nest;                                        // its axes, merged
  std::vector<AxisClass> classes;                       // by merged axis
  std::vector<double> outStride;                        // of the output by merged axis
  bool leftPlain = false, rightPlain = false;           // a side is a read of memory as it is, in f32
  bool leftStored = false, rightStored = false;         // the same of any type
  DType leftType = DType::F32, rightType = DType::F32;  // f16 or bf16 where that holds every value of the side as it is
  // By merged axis: elements between neighbours in the side's first load, -1 through a floor division, 0 unused.
  std::vector<double> leftStride, rightStride;
  double leftElements = 1, rightElements = 1;  // of a copy of the side, tile by tile
  // The side is one read of one tensor, under guards at most: a copy may order the tensor's axes anew. Invalid: it is not.
  ExprId leftRead, rightRead;
  double leftLoads = 1, rightLoads = 1;                // reads that an element of the side takes
  double leftReadElements = 0, rightReadElements = 0;  // of that tensor
  std::vector<bool> leftMovable, rightMovable;         // by merged axis: neighbours along it can be neighbours in such a copy
  double flops = 0;
};

// Axes of the operator that an expression depends on.
std::set<std::size_t> axesOf(const GroupView& group, ExprId root);

// sum of select(c, a*b, 0) with conditions on indices becomes a product of guarded factors, so that the rest can be classed.
struct GuardedFactors {
  Program program;
  std::set<ExprId> skips;  // conditions that stood above a whole product
};
GuardedFactors withGuardsOnFactors(const Program& program);

// nullopt: the group is no contraction with an epilogue of its own points and what needs nothing of it.
// joined: as viewNest takes them.
std::optional<ContractionView> viewContraction(const GroupView& group, const std::set<ExprId>& skips,
                                               const std::set<std::size_t>& joined = {});
// Axes of the operator that could be merged with the one before: both of one side, side by side in the output.
std::set<std::size_t> neighbours(const ContractionView& view);
// The guard is the same for all points of a register tile.
bool uniform(const ContractionGuard& guard, const struct ContractionKnobs& knobs);

// How an operand of the register tiles is read.
enum class Packing : std::uint8_t {
  Place,   // where it is
  Tiles,   // from a copy in the order of the tiles, element by element as they are used
  Tensor,  // from a copy of its tensor: computed once, the vector axis innermost
};

// The schedule of one contraction. Axes are positions in ContractionView::nest.axes.
struct ContractionKnobs {
  std::size_t vectorAxis = 0;  // an output axis of one side: its lanes; the other side is broadcast
  int vectors = 1;             // vectors a tile along it
  int lanes = 16;
  struct Row {
    std::size_t axis = 0;
    std::int64_t factor = 1;
    friend bool operator==(const Row&, const Row&) = default;
  };
  std::vector<Row> rows;                 // register tile of the broadcast side; all but the first divide their axis
  int unroll = 4;                        // of the innermost reduced axis
  Packing packRows = Packing::Place;     // of the broadcast operand
  Packing packColumns = Packing::Place;  // of the vector operand
  bool apart = false;      // the sums go to a workspace in the order of the lanes; a nest of its own turns and finishes them
  bool rowsInside = true;  // the loop over row tiles stands inside the one over column tiles
};

// Which side the vector axis is on; the other one is the side of the rows.
AxisClass vectorSide(const ContractionView& view, const ContractionKnobs& knobs);
double estimateContraction(const ContractionView& view, const ContractionKnobs& knobs, const Target& target);
Function lowerContraction(const GroupView& group, const ContractionView& view, const ContractionKnobs& knobs, const Target& target);

}  // namespace nf::loop
