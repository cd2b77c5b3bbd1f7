// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/ir/program.h"

namespace nf {

// TVM's classes of operators. A contraction takes an epilogue: output-fusable.
enum class FusionClass : std::uint8_t { Injective, Reduction, OutputFusable, Opaque };
std::string_view name(FusionClass c);  // "injective", "reduction", "output-fusable", "opaque"
FusionClass fusionClass(const Program& program, OperatorId op);

// What decisions call an operator: of a loop, the first tensor that it leaves.
const std::string& toldName(const Program& program, OperatorId op);

// A sum over products of two loads in which each of the classes m (output and first factor), n (output and second factor) and
// k (both factors, reduced) has an axis (design: codegen, "Recognising contractions").
bool isContraction(const Program& program, OperatorId op);

// What is asked of an operator again and again while kernels are merged.
struct OperatorFacts {
  FusionClass fusionClass = FusionClass::Opaque;
  std::vector<AccessId> loads;          // of its body, as nodesOf meets them
  std::vector<std::uint32_t> byTensor;  // positions in `loads`, ordered by the tensor, then by themselves
};
OperatorFacts factsOf(const Program& program, OperatorId op);
std::span<const std::uint32_t> loadsOf(const Program& program, const OperatorFacts& facts, TensorId t);  // a part of byTensor

struct FusionLimits {
  std::int64_t rowBytes = 32 << 10;  // of all intermediates of one row: they stay in the first-level cache
  std::size_t operators = 24;        // in one kernel
};

// The one list of groups that code generation takes. nullopt: this group is one of them; else the reason in one sentence.
//   inline    injective operators only: chains inlined into the operators that are written, all of which run over the same points
//   prologue  injective producers inlined into the loads of one contraction or reduction
//   epilogue  injective consumers that read a contraction's or reduction's result at their own point
//   rows      without a contraction: operators that agree on leading output axes and read each other only within the same
//             leading point; reductions along the rest side by side or followed by injective operators (softmax, norms)
// facts: of each operator of the program, where the caller has them.
// Operators of a group stand in program order. A written intermediate is an output of the group.
std::optional<std::string> whyNotLowerable(const Program& program, const std::vector<OperatorId>& group,
                                           const FusionLimits& limits = {}, std::span<const OperatorFacts> facts = {});

}  // namespace nf
