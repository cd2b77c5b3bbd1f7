// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "core/autodiff/differentiate.h"
#include "core/lang/compile.h"

namespace nf {

struct GradientText {
  DifferentiateResult differentiated;  // of the notebook's program with this one derivative
  TensorId result, seed;               // of its program; seed: d(loss)/d(OUTPUT), where OUTPUT is no scalar
  std::string text;                    // the derived operators, as source; empty where diagnostics have errors
  bool whole = false;                  // the text stands alone; else it goes behind the notebook, in a cell of its own
};

// The derivative of `of` by `wrt`, tensors of the notebook's program. Its text can be run, behind the notebook: what that has no name
// for (the steps of a loop, what was written over) is made again, under new names. What can't be made again (the gradient of a gradient,
// an input that was written over) makes it a program of its own.
// `compiled`: how the notebook was.
Result<GradientText> gradientText(const CompiledNotebook& notebook, TensorId of, TensorId wrt, const InvertOptions& options = {},
                                  const CompileOptions& compiled = {});

struct GradientsText {
  std::string text;    // as of GradientText; empty where the notebook asks for no derivative
  bool whole = false;  // as of GradientText
};

// All derivatives that the notebook asks for, for its training or by a `d(..)/d(..)`, in one text that can be run as that of one is.
// `differentiated`: the notebook's program at that stage, without errors.
GradientsText gradientsText(const CompiledNotebook& notebook, const Program& differentiated, const CompileOptions& compiled = {});

}  // namespace nf
