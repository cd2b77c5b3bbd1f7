// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/ir/program.h"
#include "core/support/result.h"

namespace nf {

// Moves operators out of loops (design: loops). One that depends on no carried tensor leaves to the front and computes all steps at
// once, or once for all steps where it does not use time; one that no carried tensor depends on leaves to the back and reads stacks.
// What only a nested loop reads stays with it. A loop with nothing left disappears. Inner loops come first.
//   before: for t in 0..T { z = sum[i] W[n,i]*X[b,t,i]; h = tanh(z + ..h..); y = sum[n] V[k,n]*h[b,n]; stack Y = y }
//   after : Z[t,b,n] = sum[i] ..; for t in 0..T { h = tanh(Z[t,b,n] + ..h..); stack H = h }; Y[t,b,k] = sum[n] V[k,n]*H[t,b,n]
// An accumulation over the steps of what leaves becomes a sum over time in the operator itself.
//   before: for t in 0..T { g = sum[b] dZ[t,b,n]*H[t,b,k]; accumulate dW = g }      after: dW[n,k] = sum[t,b] dZ[t,b,n]*H[t,b,k]
Result<Program> hoistLoops(const Program& program);

}  // namespace nf
