// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace nf {

// f16 and bf16 are storage types: arithmetic on them is done in f32. Bool exists only inside expressions.
enum class DType : std::uint8_t { F32, F64, F16, BF16, I32, Bool };

std::string_view name(DType type);  // "f32"
std::optional<DType> dtypeNamed(std::string_view name);
std::int64_t bytesOf(DType type);
inline bool isFloating(DType t) { return t == DType::F32 || t == DType::F64 || t == DType::F16 || t == DType::BF16; }

}  // namespace nf
