// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/contraction.h"

// The slices of a contraction's operand as boxes of a tensor, which a GPU's copy engine brings by itself.
namespace nf::loop {

// Whose number a coordinate is a digit of.
enum class TilePoints : std::uint8_t { Own, Inner, Batch };
inline constexpr std::array kTilePoints{TilePoints::Own, TilePoints::Inner, TilePoints::Batch};

// An operand that is one read of a tensor by constant strides. Axes of each kind of points outermost first, those that memory has as one
// merged; strides in elements, 0: the operand does not move along it.
struct TensorOperand {
  std::string refused;  // why it is none; empty: it is
  TensorId tensor;
  DType type = DType::F32;
  std::int64_t offset = 0;  // elements
  struct Axis {
    std::int64_t extent = 1, stride = 0;
  };
  std::array<std::vector<Axis>, kTilePoints.size()> axes;
  const std::vector<Axis>& of(TilePoints points) const { return axes[static_cast<std::size_t>(points)]; }
};
TensorOperand tensorOperand(const GroupView& group, const ContractionView& view, bool left);

// A box of `block` points of its own and `steps` reduced ones as warpgroups take it (fragment.h): axes innermost first, as memory has them.
struct TensorTile {
  struct Axis {
    std::int64_t extent = 1, stride = 1, box = 1;  // elements; points
    TilePoints points = TilePoints::Own;
    std::size_t digit = 0;  // of these points' number, in the radix of the operand's axes
  };
  std::vector<Axis> axes;
  bool innerRows = false;  // rows of 128 bytes lie along the reduced points; else along its own, and a box has one row's of them
};
// Why there is none; empty: `tile` is it.
std::string tensorTile(const TensorOperand& operand, DType type, std::int64_t block, std::int64_t steps, TensorTile& tile);

}  // namespace nf::loop
