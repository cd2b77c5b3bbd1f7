// SPDX-License-Identifier: Apache-2.0
// The programs of the tests as `neoflow bench check` runs them on a device.
#include <random>

#include "app/neoflow/bench_check.h"
#include "tests/kernel_cases.h"
#include "tests/random_program.h"

namespace nf {
namespace {

CheckProgram named(std::string name, Program program, const TensorValues& inputs) {
  CheckProgram c{std::move(name), std::move(program), {}};
  for (const auto& [tensor, data] : inputs) c.inputs[c.program[tensor].name] = data;
  return c;
}

}  // namespace

CheckProgram randomCheckProgram(std::uint64_t seed) {
  test::RandomProgram random(seed);
  Program p = random.make().p;
  const TensorValues inputs = random.inputs(p);
  return named("seed " + std::to_string(seed), std::move(p), inputs);
}

std::vector<CheckProgram> kernelCheckPrograms(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<CheckProgram> programs;
  for (const auto& cases : {test::contractions(), test::nests()})
    for (const test::Case& c : cases) programs.push_back(named(c.name, c.program, test::randomInputs(c.program, rng)));
  return programs;
}

}  // namespace nf
