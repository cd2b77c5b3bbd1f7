// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/autodiff/differentiate.h"
#include "core/fusion/fuse.h"
#include "core/ir/program.h"
#include "core/schedule/schedule.h"
#include "core/support/result.h"
#include "core/transform/merge_equal_operators.h"

// The one chain of passes between the source program and the fused one. Command line, executor and engine all run this.
namespace nf {

struct Stages;

struct StageOptions {
  InvertOptions invert;
  DeviceConstants device;
  FusionOptions fusion;
  bool fuse = true;                      // false: one kernel an operator
  std::shared_ptr<const Target> target;  // where it runs: loops may be one kernel each there; null: no loop is
  // Of a program that this one is a part of: what stands in it for operators of the rest, too, has their origins. Null: there is none.
  std::shared_ptr<const Stages> around;
  Names preferred;      // of equal operators, those whose names are kept; mergeEqualOperators()
  bool verify = false;  // check every stage; a problem is our bug and comes back as an Error of stage "verify"
};

// A program after each pass, up to the one that was asked for. Later ones are null.
struct Stages {
  std::shared_ptr<const Program> source, differentiated, transformed, partitioned, fused;
  std::vector<GradientTerm> terms;  // operator ids of `differentiated`
  MergedNames merged;               // on the way from `differentiated` to `transformed`
  std::vector<FusionDecision> decisions;
  std::vector<BarredKernel> barred;  // FusionResult
  Diagnostics diagnostics;           // of differentiation; with errors the chain ends there
  std::vector<std::pair<Stage, double>> milliseconds;

  const Program* at(Stage stage) const;  // null where it was not reached
  const Program& last() const;
};

// `options.invert.stop` ends it with stopped().
Result<Stages> runStages(std::shared_ptr<const Program> source, const StageOptions& options, Stage upTo = Stage::Fused);

// The same program with fusion decided anew.
Result<Stages> fusedAgain(const Stages& stages, const StageOptions& options);

// Every `hint fuse` that fusion could not obey, at its place with the reason.
Diagnostics unobeyedHints(const Stages& stages);

// P_d, P_c and L of Equation 4 as fusion counts them.
DeviceConstants deviceConstants(const Target& target);

}  // namespace nf
