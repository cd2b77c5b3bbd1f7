// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/device/reference_kernel.h"
#include "core/ir/program.h"

// What reference_preparation makes of an operator and reference_execution runs.
namespace nf::reference {

inline constexpr std::size_t kStrip = 256;  // points an instruction works on at once: 2 KiB a register

// constant + sums over axes, loop counters and floor atoms.
struct LinearForm {
  std::int64_t constant = 0;
  std::vector<std::pair<std::uint32_t, std::int64_t>> axes, counters, atoms;
  friend bool operator==(const LinearForm&, const LinearForm&) = default;
};

struct FloorAtom {
  LinearForm numerator;
  std::int64_t divisor = 1;
  bool inner = false;  // depends on the innermost axis
  friend bool operator==(const FloorAtom& a, const FloorAtom& b) { return a.divisor == b.divisor && a.numerator == b.numerator; }
};

struct Slot {
  LinearForm form;
  bool inner = false;
};

struct Check {
  std::uint32_t slot;
  std::int64_t extent;
  std::uint32_t component;
};

struct DataIndex {
  std::uint32_t reg;
  std::int64_t stride, extent;
  std::uint32_t component;
  bool wide;
};

enum class Kind : std::uint8_t { Scalar, Index, Ge0, Eq0, Random, Load, Select, CallOnce };

struct Instruction {
  Kind kind = Kind::Scalar;
  ScalarOp op = ScalarOp::Add;
  DType type = DType::F32;            // of the result; for Div: decides nothing, for Cast: the target
  bool wideA = false, wideB = false;  // operands that are i64
  std::uint32_t dst = 0, a = 0, b = 0;
  std::uint32_t slot = 0;                                                // Index, Ge0, Eq0, Random, Load
  std::uint32_t tensor = 0;                                              // Load
  std::uint32_t stream = 0;                                              // Random
  std::uint32_t thenBlock = 0, elseBlock = 0, thenReg = 0, elseReg = 0;  // Select; CallOnce: thenBlock, a = number of the call
  std::vector<Check> checks;
  std::vector<DataIndex> data;
  // Select on a conjunction of index conditions: slots that must be >= 0 and slots that must be 0; `a` is not used then.
  std::vector<std::uint32_t> atLeastZero, zero;
  bool onIndices() const { return !atLeastZero.empty() || !zero.empty(); }
};

}  // namespace nf::reference

namespace nf {

struct ReferenceKernel::Code {
  std::string name;
  TensorId output;
  bool scatter = false;
  Reducer reducer = Reducer::None;
  bool integers = false;  // i32 are combined to i32
  bool rounds = false;    // to f16 and bf16
  DType outputType = DType::F32;
  std::vector<std::int64_t> extents;
  std::int64_t points = 1, outputElements = 1, reduced = 1;
  std::vector<reference::FloorAtom> atoms;
  std::vector<reference::Slot> slots;
  std::vector<std::vector<reference::Instruction>> blocks;
  std::uint32_t registers = 0, calls = 0;
  std::size_t counters = 0;  // loop variables it uses: [0, counters)
  std::vector<std::pair<std::uint32_t, double>> constants;
  std::uint32_t result = 0;

  // Scatter: guards[k] is evaluated in block stages[k]; the value and the indices in the last stage.
  std::vector<std::uint32_t> stages{0}, guards;
  struct Target {
    bool data = false;
    bool wide = false;  // an i64
    std::uint32_t slot = 0, reg = 0;
    std::int64_t extent = 1, stride = 1;
  };
  std::vector<Target> targets;

  std::unordered_map<std::uint32_t, std::string> tensorNames;  // of what it reads, for messages
};

}  // namespace nf
