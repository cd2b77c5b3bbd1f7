// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/tensor_map.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/schedule/fragment.h"

namespace nf::cuda {
namespace {

std::optional<CUtensorMapDataType> typeOf(const KernelTensorMap& map) {
  switch (map.type) {
    case DType::F16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::BF16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::F32: return map.rounded ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::F64:
    case DType::I32:
    case DType::Bool:
    case DType::I64: break;
  }
  return std::nullopt;
}

}  // namespace

CUresult encode(const Driver& driver, const KernelTensorMap& map, CUdeviceptr memory, CUtensorMap& into) {
  const auto type = typeOf(map);
  const std::size_t axes = map.axes.size();
  if (!type || axes == 0 || axes > loop::kMostMapAxes) return CUDA_ERROR_INVALID_VALUE;
  std::array<cuuint64_t, loop::kMostMapAxes> extents{}, strides{};  // the first axis has no stride
  std::array<cuuint32_t, loop::kMostMapAxes> box{}, each{};
  for (std::size_t a = 0; a < axes; ++a) {
    extents[a] = static_cast<cuuint64_t>(map.axes[a].extent);
    if (a > 0) strides[a - 1] = static_cast<cuuint64_t>(map.axes[a].stride);
    box[a] = static_cast<cuuint32_t>(map.axes[a].box);
    each[a] = 1;
  }
  // What the driver leaves alone must not differ from launch to launch: a graph compares parameters by their bytes.
  into = {};
  return driver.tensorMap(&into, *type, static_cast<cuuint32_t>(axes),
                          reinterpret_cast<void*>(memory + static_cast<CUdeviceptr>(map.offset)), extents.data(), strides.data(),
                          box.data(), each.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                          CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

}  // namespace nf::cuda
