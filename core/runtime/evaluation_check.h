// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/lang/compile.h"
#include "core/runtime/pipeline.h"

// What an evaluation of the rows that are held out cannot give, known before a training begins.
namespace nf {

// Of the arena of an evaluation of all held-out rows at once; a larger one is made in batches, whose values are averaged by their rows.
inline constexpr std::int64_t kEvaluationBytes = std::int64_t{512} << 20;

// As many as every data set holds out that batches come from and that holds any out; 0: none does.
std::int64_t heldOutRows(const Program& program);

// The evals of `program`, part of what `notebook` computes, that are no mean as written, in its order: batches do not give them.
std::vector<std::string> evalsThatAreNoMean(const CompiledNotebook& notebook, const Program& program);
// What is said where these evals come from batches all the same; empty: there are none. `bytes`: what all rows would take at once.
std::string averagedOverBatches(const std::vector<std::string>& evals, std::int64_t batch, std::int64_t rows, std::int64_t bytes);

// In both, `options` are what `notebook` was compiled with.
// A warning for each parameter and state with the extent of the batch, at its place: what training makes of it belongs to the rows of a
// batch, so held-out rows are evaluated with its first values.
Diagnostics valuesOfBatches(const CompiledNotebook& notebook, const CompileOptions& options);
// A warning, at the first of them, where evals that are no mean would be averaged over batches: an evaluation of all rows at once, as the
// passes lay it out, takes more than `bytes`.
Diagnostics averagedEvals(const CompiledNotebook& notebook, const CompileOptions& options, const StageOptions& passes,
                          std::int64_t bytes = kEvaluationBytes);

}  // namespace nf
