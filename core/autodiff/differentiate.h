// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/autodiff/inverse.h"
#include "core/ir/program.h"
#include "core/support/diagnostic.h"
#include "core/support/result.h"

namespace nf {

// How one access's gradient was made: views and `neoflow grad --explain` read it.
struct GradientTerm {
  OperatorId forward, backward;  // both in the resulting program; invalid where nothing is emitted
  ExprId access;                 // the Load in the forward operator; where that is a Loop, in its operator with time as an axis
  TensorId tensor;
  enum class Form { Gather, Scatter, Zero, Empty } form = Form::Gather;  // Empty: no point reads the access
  std::string why;                                                       // of all but Gather
  OriginId cut;  // of a load whose value passes only a node without slope: that node's, in the access' program
  AccessProblem problem;
  std::vector<std::string> names;  // of the problem's y: the axes of the access' operator, then the counters of loops that it reads
  Inverse inverse;
  // Inside Loops: in whose bodies the two operators stand, outermost first. The ids above are of the innermost body then; `access` and
  // `tensor` of the forward one.
  std::vector<LoopId> forwardLoops, backwardLoops;
};

// The program that a path of loops leads to; the program itself where it is empty.
const Program& bodyAt(const Program& program, const std::vector<LoopId>& loops);

struct DifferentiateResult {
  Program program;  // stage Differentiated: every Derivative has its producer
  std::vector<GradientTerm> terms;
  Diagnostics diagnostics;  // what cannot be differentiated, with its span
};

// Replaces every pending Derivative by operators (reverse accumulation over the graph; section 5 of the design for bodies).
//   before: L[] = sum[i] W[i]*X[i];  derivative d(L)/d(W)
//   after : ... `d(L)/d(W)`[i] = X[i]
// `options.stop` ends it with stopped().
Result<DifferentiateResult> differentiate(const Program& program, const InvertOptions& options = {});

// A program that asks for d(of)/d(wrt) and, of the derivatives it asked for before, for those that `of` itself depends on (a gradient of a
// gradient). Nothing else is an output, and nothing is updated.
struct DerivativeProgram {
  Program program;
  TensorId result;
  TensorId seed;              // an input of ones in the shape of `of`; invalid where that is a scalar
  bool ofDerivative = false;  // another derivative comes before it
};
DerivativeProgram onlyDerivative(const Program& program, TensorId of, TensorId wrt);

}  // namespace nf
