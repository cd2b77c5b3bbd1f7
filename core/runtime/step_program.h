// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/lang/compile.h"
#include "core/runtime/pipeline.h"
#include "core/runtime/run_folder.h"

// Which of the programs that a notebook holds is meant: what steps, what evaluates, what fusion is decided for.
namespace nf {

// One training step: what the loss and the updates need. `train` selects the statement's loss. Rows of data sets that it does not read,
// which another job's loss may, are no part of it; other given tensors stay.
Program trainingProgram(const CompiledNotebook& notebook, std::size_t train);
// How runs of the statement are known, of a notebook that was compiled for it.
TrainPlace trainPlace(const CompiledNotebook& notebook, std::size_t train);
// The loss, if rows of a data set go into it, and every `eval`, nothing else.
Program evaluationProgram(const CompiledNotebook& evaluation, const std::string& loss);
// Every `eval` that no rows of a data set go into: the inputs as they are give it.
Program inputEvaluationProgram(const CompiledNotebook& evaluation);
// Do rows of a data set go into it?
bool readsRows(const Program& program, TensorId tensor);
// All that it computes: what is shown or asked for, or, where nothing is, what no other operator reads.
Program notebookProgram(const CompiledNotebook& notebook);
// The program whose fusion is decided, shown, tuned and exported: the training step where the notebook trains, which is what runs over
// and over; else all that it computes. A `show` beside a `train` changes no decision.
Program decidedProgram(const CompiledNotebook& notebook, std::size_t train = 0);

// Both at one stage: the decided program, and of all that the notebook computes the operators that it does not have, which only a
// `show` or an `eval` needs. Null: the stage was not reached.
struct StagePrograms {
  const Program* decided = nullptr;
  const Program* whole = nullptr;  // what `outside` is of; nobody fuses it
  std::vector<OperatorId> outside;
};
StagePrograms programsAt(Stage stage, const Stages& decided, const Stages& whole);

struct NotebookStages {
  std::shared_ptr<const Stages> decided;  // up to Fused
  std::shared_ptr<const Stages> whole;    // up to Partitioned; the same where all is decided
};
// Of a notebook and what is decided of it. Where a gradient can't be made, the stages end there and the diagnostics of `whole` say why.
Result<NotebookStages> notebookStages(const CompiledNotebook& notebook, const Program& decided, const StageOptions& options);

// A warning for each hint that names a tensor which only a `show` needs: no training step makes it.
Diagnostics hintsOutsideStep(const CompiledNotebook& notebook);
// A warning for each data set of which no row is held out and that an `eval` of a notebook that trains reads: nothing computes it.
Diagnostics evalsWithoutRows(const CompiledNotebook& notebook);
// A warning for each `eval` that reads what only a training step makes: an evaluation makes none.
Diagnostics evalsOfSteps(const CompiledNotebook& notebook, const CompileOptions& options);
// All of these, and valuesOfBatches(). `options`: what the notebook was compiled with.
Diagnostics trainingWarnings(const CompiledNotebook& notebook, const CompileOptions& options);

}  // namespace nf
