// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace nf {

// f16 and bf16 are storage types: arithmetic on them is done in f32. Bool exists only inside expressions, I64 only inside
// data-dependent indices: no tensor has it, and the language has no name for it.
enum class DType : std::uint8_t { F32, F64, F16, BF16, I32, Bool, I64 };
inline constexpr int kDTypeCount = 7;

std::string_view name(DType type);                       // "f32"
std::optional<DType> dtypeNamed(std::string_view name);  // of those that may be written
std::int64_t bytesOf(DType type);
// What a tensor of this type keeps of a value: f16 and bf16 round to the nearest, ties to even, subnormal numbers included, and are
// infinite from half a unit beyond their largest number on. Every other type: the value as it is.
double storedAs(DType type, double value);
inline bool isFloating(DType t) { return t == DType::F32 || t == DType::F64 || t == DType::F16 || t == DType::BF16; }
inline bool isInteger(DType t) { return t == DType::I32 || t == DType::I64; }

}  // namespace nf
