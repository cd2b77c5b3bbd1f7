// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/tensor_tile.h"

#include <algorithm>

#include "core/schedule/fragment.h"

namespace nf::loop {
namespace {

std::size_t kindOf(AxisClass c) {
  const TilePoints points = c == AxisClass::Inner ? TilePoints::Inner : c == AxisClass::Batch ? TilePoints::Batch : TilePoints::Own;
  return static_cast<std::size_t>(points);
}

// Boxes along axes that rows of 128 bytes lie along, innermost last; empty: a row would go past the end of an axis into the next.
std::vector<std::int64_t> boxesOfRow(const std::vector<TensorOperand::Axis>& axes, std::int64_t columns) {
  std::vector<std::int64_t> boxes(axes.size(), 1);
  if (axes.size() > 1 && axes.back().extent % columns != 0) return {};
  boxes.back() = columns;
  return boxes;
}

// Boxes that hold `points` neighbours in the mixed radix of the axes; empty: these are no box.
std::vector<std::int64_t> boxesOfRows(const std::vector<TensorOperand::Axis>& axes, std::int64_t points) {
  std::vector<std::int64_t> boxes(axes.size(), 1);
  std::int64_t rest = points;
  for (std::size_t a = axes.size(); a-- > 1 && rest > 1;) {
    const std::int64_t extent = axes[a].extent, box = std::min(rest, extent);
    if (extent % box != 0 || rest % box != 0) return {};
    boxes[a] = box;
    rest /= box;
  }
  if (rest > 1) boxes.front() = rest;
  return boxes;
}

}  // namespace

TensorOperand tensorOperand(const GroupView& group, const ContractionView& view, bool left) {
  const Program& p = *group.program;
  TensorOperand result;
  const auto refuse = [&](const char* why) {
    result.refused = why;
    return result;
  };
  const ExprId read = left ? view.leftRead : view.rightRead;
  if (!read.valid() || !(left ? view.leftStored : view.rightStored)) return refuse("it is computed, not read from memory");
  if (!peel(p, (left ? view.left : view.right).front()).conditions.empty()) return refuse("it is read under conditions");
  const Access& access = p[p[read].access];
  result.tensor = access.tensor;
  const Tensor& tensor = p[access.tensor];
  result.type = tensor.type;
  const std::vector<std::int64_t> strides = stridesOf(tensor);
  IndexExpr offset;
  for (std::size_t k = 0; k < strides.size(); ++k) offset = offset + strides[k] * access.indices[k].affine;
  const std::size_t axes = view.nest.axes.size();
  std::vector<std::int64_t> extents;
  for (const NestAxis& a : view.nest.axes) extents.push_back(a.extent);
  offset = replaced(offset, view.nest.original, rangesOf(extents));
  std::vector<IndexVar> used;
  offset.collectVariables(used);
  if (offset.overflowed() || !offset.isAffine() || std::any_of(used.begin(), used.end(), [&](IndexVar v) { return v >= axes; }))
    return refuse("it is not read by constant strides");
  result.offset = offset.constant();
  for (std::size_t a = 0; a < axes; ++a) {
    const std::int64_t stride = offset.coefficientOf(static_cast<IndexVar>(a));
    if (view.classes[a] == (left ? AxisClass::Right : AxisClass::Left)) continue;
    if (stride < 0) return refuse("it is read backwards");
    auto& kind = result.axes[kindOf(view.classes[a])];
    if (stride == 0 && view.classes[a] != AxisClass::Batch) return refuse("it is not read by constant strides");
    if (!kind.empty() && kind.back().stride == stride * extents[a]) kind.back() = {kind.back().extent * extents[a], stride};
    else kind.push_back({extents[a], stride});
  }
  const std::int64_t bytes = bytesOf(tensor.type);
  if (tensor.elements() * bytes % kMapAlignment != 0 || result.offset * bytes % kMapAlignment != 0)
    return refuse("it need not begin at a multiple of 16 bytes");
  return result;
}

std::string tensorTile(const TensorOperand& operand, DType type, std::int64_t block, std::int64_t steps, TensorTile& tile) {
  if (!operand.refused.empty()) return operand.refused;
  const std::int64_t bytes = bytesOf(type), columns = swizzledColumns(type);
  const auto &own = operand.of(TilePoints::Own), &inner = operand.of(TilePoints::Inner);
  if (operand.type != type) return "its numbers change their type on the way";
  if (own.empty() || inner.empty()) return "it has no axis of its own or none that is reduced";
  tile.innerRows = inner.back().stride == 1;
  if (!tile.innerRows && own.back().stride != 1) return "its neighbours do not lie side by side in memory";
  if (!tile.innerRows && type == DType::F32)
    return "its neighbours in memory are not those along the reduced points, and nothing turns tf32";
  const std::vector<std::int64_t> rowBoxes = boxesOfRow(tile.innerRows ? inner : own, columns);
  const std::vector<std::int64_t> rowsBoxes = tile.innerRows ? boxesOfRows(own, block) : boxesOfRows(inner, steps);
  if (rowBoxes.empty() || rowsBoxes.empty()) return "a slice of it is no box of its axes";

  const auto add = [&](TilePoints points, const std::vector<std::int64_t>& boxes) {
    const auto& axes = operand.of(points);
    for (std::size_t a = axes.size(); a-- > 0;)
      if (axes[a].stride > 0) tile.axes.push_back({axes[a].extent, axes[a].stride, boxes.empty() ? 1 : boxes[a], points, a});
  };
  tile.axes.clear();
  add(tile.innerRows ? TilePoints::Inner : TilePoints::Own, rowBoxes);
  add(tile.innerRows ? TilePoints::Own : TilePoints::Inner, rowsBoxes);
  add(TilePoints::Batch, {});
  if (tile.axes.size() > kMostMapAxes) return "it has more than 5 axes";
  // The order of a box in shared memory is that of the axes along which it has more than one point.
  std::vector<std::int64_t> order;
  for (const TensorTile::Axis& a : tile.axes)
    if (a.box > 1) order.push_back(a.stride);
  std::stable_sort(tile.axes.begin(), tile.axes.end(), [](const auto& a, const auto& b) { return a.stride < b.stride; });
  if (!std::is_sorted(order.begin(), order.end())) return "its axes are in another order in memory";
  for (std::size_t a = 0; a < tile.axes.size(); ++a) {
    const TensorTile::Axis& axis = tile.axes[a];
    if (a > 0 && axis.stride < tile.axes[a - 1].stride * tile.axes[a - 1].extent) return "its axes overlap in memory";
    if (a > 0 && axis.stride * bytes % kMapAlignment != 0) return "its rows need not begin at multiples of 16 bytes";
    if (axis.extent > kMostMapExtent || axis.stride * bytes >= kMostMapStride || axis.box > kMostBox) return "it is too large";
  }
  return {};
}

}  // namespace nf::loop
