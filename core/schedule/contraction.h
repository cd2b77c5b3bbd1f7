// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/schedule/group.h"
#include "core/schedule/nest.h"

namespace nf::loop {

// out[b, m, n] = epilogue(sum over k of A(b, m, k) * B(b, n, k)), recognised for any expression (design: codegen, "Recognising
// contractions"): every axis is classed by the factors that use it. Any factor may be an expression; what surrounds it is fused.
enum class AxisClass : std::uint8_t { Batch, Left, Right, Inner };  // used by both, by A alone, by B alone, reduced

struct ContractionView {
  OperatorId op;                               // the contraction
  std::vector<OperatorId> epilogue;            // stored injective operators over the same points, in order; may be empty
  std::vector<ExprId> left, right;             // factors of its body; left: A
  NestView nest;                               // its axes, merged
  std::vector<AxisClass> classes;              // by merged axis
  std::vector<double> outStride;               // of the output by merged axis
  bool leftPlain = false, rightPlain = false;  // one load without a guard: can be read in place
  // By merged axis: elements between neighbours in the side's first load, -1 through a floor division, 0 unused.
  std::vector<double> leftStride, rightStride;
  double leftElements = 1, rightElements = 1;  // of a copy of the side
  double flops = 0;
};

// sum of select(c, a*b, 0) with conditions on indices becomes a product of guarded factors, so that the rest can be classed.
Program withGuardsOnFactors(const Program& program);

// nullopt: the group is no contraction with an epilogue of its own points.
std::optional<ContractionView> viewContraction(const GroupView& group);

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
  std::vector<Row> rows;     // register tile of the broadcast side; all but the first divide their axis
  int unroll = 4;            // of the innermost reduced axis
  bool packRows = false;     // the broadcast operand is copied tile by tile before the kernel
  bool packColumns = false;  // the vector operand
  bool rowsInside = true;    // the loop over row tiles stands inside the one over column tiles
};

// Which side the vector axis is on; the other one is the side of the rows.
AxisClass vectorSide(const ContractionView& view, const ContractionKnobs& knobs);
double estimateContraction(const ContractionView& view, const ContractionKnobs& knobs, const Target& target);
Function lowerContraction(const GroupView& group, const ContractionView& view, const ContractionKnobs& knobs, const Target& target);

}  // namespace nf::loop
