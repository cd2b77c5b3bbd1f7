// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/ir/dtype.h"

// How the numbers of a small matrix lie in the 32 threads of a warp: the layouts of mma.sync and ldmatrix (NVIDIA, Parallel Thread
// Execution ISA, "Matrix multiply-accumulate operation using mma instruction"). A thread has whole 32-bit registers: two neighbours of
// F16 and BF16, one number of F32 (tf32).
namespace nf::loop {

struct MatrixElement {
  std::int64_t row = 0, column = 0;
};

inline constexpr std::int64_t kMatrixRows = 8;       // of what one load reads
inline constexpr std::int64_t kMatrixRowBytes = 16;  // of shared memory
inline std::int64_t matrixColumns(DType type) { return kMatrixRowBytes / bytesOf(type); }
inline std::int64_t perRegister(DType type) { return 4 / bytesOf(type); }

// The tiles that there are: 16 x 8 results, and 16 or 32 bytes of both operands along the reduced points.
inline bool isMatrixTile(DType type, const std::array<std::int64_t, 3>& tile) {
  if (tile[0] != 16 || tile[1] != 8) return false;
  if (type == DType::F32) return tile[2] == 8;
  return tile[2] == 16 || (tile[2] == 8 && type == DType::F16);
}

// Element e of a thread's part of: an 8 x 16-byte matrix as it is loaded; A, m x k; B, k x n; C, m x n.
inline MatrixElement elementLoaded(DType type, std::int64_t lane, std::int64_t e, bool transposed) {
  const std::int64_t along = perRegister(type) * (lane % 4) + e;
  return transposed ? MatrixElement{along, lane / 4} : MatrixElement{lane / 4, along};
}
inline MatrixElement elementOfA(DType type, std::int64_t lane, std::int64_t e) {
  const std::int64_t each = perRegister(type), word = e / each;
  return {lane / 4 + 8 * (word % 2), matrixColumns(type) * (word / 2) + each * (lane % 4) + e % each};
}
inline MatrixElement elementOfB(DType type, std::int64_t lane, std::int64_t e) {
  const std::int64_t each = perRegister(type), word = e / each;
  return {matrixColumns(type) * word + each * (lane % 4) + e % each, lane / 4};
}
inline MatrixElement elementOfC(std::int64_t lane, std::int64_t e) { return {lane / 4 + 8 * (e / 2), 2 * (lane % 4) + e % 2}; }

// ---------------------------------------------------------------- warpgroups
// wgmma ("Asynchronous warpgroup level matrix instructions"): four warps multiply what lies in shared memory, from an address that is a
// multiple of 1024 bytes on, in rows of 128 bytes whose 16-byte parts change places (swizzling mode 128B).

inline constexpr std::int64_t kWarpgroupThreads = 128;
inline constexpr std::int64_t kSwizzledRowBytes = 128;    // eight parts, all banks
inline constexpr std::int64_t kSwizzledAtomBytes = 1024;  // eight rows, after which the order of the parts comes again
inline std::int64_t swizzledColumns(DType type) { return kSwizzledRowBytes / bytesOf(type); }

inline constexpr std::int64_t kWarpgroupStepBytes = 32;  // of both operands along the reduced points

// The tiles that there are: 64 x n results, n a multiple of 8 up to 256, and 32 bytes of both operands along the reduced points.
inline bool isWarpgroupTile(DType type, const std::array<std::int64_t, 3>& tile) {
  if (type != DType::F16 && type != DType::BF16 && type != DType::F32) return false;
  return tile[0] == 64 && tile[1] >= 8 && tile[1] <= 256 && tile[1] % 8 == 0 && tile[2] * bytesOf(type) == kWarpgroupStepBytes;
}

// How an operand lies there. Along the reduced points: a row is 128 bytes of them, of one point of its own, and its points are rows one after
// the other. Turned: a row is 128 bytes of its own points at one reduced point, and `apart` elements later begins the next of them; operands
// of F32 (tf32) are never turned.
struct SwizzledOperand {
  bool turned = false;
  std::int64_t apart = 0;
};
// Elements from the operand's first one to that of a point of its own and a reduced one, before the parts change places.
inline std::int64_t beforeSwizzle(DType type, const SwizzledOperand& operand, std::int64_t own, std::int64_t step) {
  const std::int64_t columns = swizzledColumns(type);
  return operand.turned ? own / columns * operand.apart + step * columns + own % columns : own * columns + step;
}
// Where an element really is.
inline std::int64_t swizzled(DType type, std::int64_t element) {
  const std::int64_t byte = element * bytesOf(type);
  return (byte ^ (byte / kSwizzledRowBytes % 8 * kMatrixRowBytes)) / bytesOf(type);
}

// Element e of a thread's part of C, 64 x n.
inline MatrixElement elementOfWarpgroupC(std::int64_t thread, std::int64_t e) {
  const std::int64_t lane = thread % 32;
  return {16 * (thread / 32) + lane / 4 + 8 * (e / 2 % 2), 8 * (e / 4) + 2 * (lane % 4) + e % 2};
}

// ---------------------------------------------------------------- the copy engine
// What a tensor map may be (NVIDIA, CUDA driver API, cuTensorMapEncodeTiled), and a phase of an arrival count (PTX ISA, mbarrier).
inline constexpr std::size_t kMostMapAxes = 5;
inline constexpr std::int64_t kMostBox = 256;      // points of a box along an axis
inline constexpr std::int64_t kMapAlignment = 16;  // bytes, of a map's beginning and of its strides
inline constexpr std::int64_t kMostMapExtent = std::int64_t{1} << 32;
inline constexpr std::int64_t kMostMapStride = std::int64_t{1} << 40;  // bytes
inline constexpr std::int64_t kMostArrivalBytes = (1 << 20) - 1;

// A number rounded to what a fragment of the type holds. That of F32 is tf32, 10 bits behind the point, ties away from zero
// (cvt.rna.tf32.f32); the others round to even.
double roundedToFragment(DType type, double value);

}  // namespace nf::loop
