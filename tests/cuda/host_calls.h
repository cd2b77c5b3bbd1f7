// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <random>
#include <string>
#include <vector>

#include "core/ir/tensor_data.h"
#include "core/schedule/loop_ir.h"
#include "core/schedule/schedule.h"
#include "core/support/result.h"
#include "tests/cuda/host_run.h"

namespace nf::test {

// A call of the loops of `p` on these inputs; what it runs is left to the caller: CUDA C or an object.
HostCall callOf(const Program& p, const loop::Function& loops, const TensorValues& inputs);

// What the interpreter of the loops makes of the same call, by output.
Result<std::vector<std::vector<double>>> interpretedOutputs(const Program& p, const loop::Function& loops,
                                                            const TensorValues& inputs);

// Kernels whose CUDA C has to equal the interpreter bit for bit. Inputs are reals of any magnitude that their types hold, not only those
// whose sums are exact: the text and the interpreter round at the same places.
class InterpretedCalls {
 public:
  // name: says of which one it is, where something differs.
  void add(const std::string& name, const Program& p, const Schedule& schedule, const Target& target, std::mt19937_64& rng);
  void runAndCompare();

 private:
  std::vector<std::string> m_names;
  std::vector<HostCall> m_calls;
  std::vector<std::vector<std::vector<double>>> m_want;  // by call, by output
};

}  // namespace nf::test
