// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/evaluation_check.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "core/runtime/execution_plan.h"
#include "core/runtime/prepared.h"
#include "core/runtime/step_program.h"
#include "core/support/scaled_text.h"

namespace nf {
namespace {

// The training whose evaluations are meant, and how many rows they have; nothing: there are none besides batches.
struct HeldOut {
  const TrainSettings* train = nullptr;
  std::int64_t rows = 0;
};

std::optional<HeldOut> heldOutOf(const CompiledNotebook& notebook, const CompileOptions& options) {
  if (options.train >= notebook.trains.size()) return std::nullopt;
  const TrainSettings& train = notebook.trains[options.train];
  const HeldOut held{&train, heldOutRows(evaluationProgram(notebook, train.loss))};
  if (held.rows <= 0 || held.train->batch <= 0 || held.rows == held.train->batch) return std::nullopt;
  return held;
}

CompiledNotebook compiledForRows(const CompiledNotebook& notebook, CompileOptions options, std::int64_t rows) {
  options.training = false;
  options.batchOverride = rows;
  return compileNotebook(notebook.sources.at(notebook.notebook), options);
}

// Bytes of all that is evaluated, of so many rows in place of a batch: too many rather than too few.
double mostBytes(const Program& program, std::int64_t batch, std::int64_t rows) {
  const double growth = static_cast<double>(rows) / static_cast<double>(batch);
  double bytes = 0;
  for (const Tensor& t : program.tensors) {
    double ofTensor = static_cast<double>(bytesOf(t.type));
    for (const std::int64_t extent : t.shape) ofTensor *= static_cast<double>(extent) * (extent == batch ? growth : 1);
    bytes += ofTensor;
  }
  for (const Loop& loop : program.loops) bytes += mostBytes(*loop.body, batch, rows);
  return bytes;
}

}  // namespace

std::int64_t heldOutRows(const Program& program) {
  std::int64_t rows = 0;
  for (const DataSet& set : program.data) {
    const bool feeds = std::any_of(program.tensors.begin(), program.tensors.end(), [&](const Tensor& t) {
      return t.init.kind == Initializer::Kind::Batch && t.init.data == set.name;
    });
    if (feeds && set.heldOutLast > 0 && (rows == 0 || set.heldOutLast < rows)) rows = set.heldOutLast;
  }
  return rows;
}

std::vector<std::string> evalsThatAreNoMean(const CompiledNotebook& notebook, const Program& program) {
  std::vector<std::string> names;
  for (const Output& o : program.outputs)
    if (o.role == OutputRole::Eval && !notebook.means.contains(o.name)) names.push_back(o.name);
  return names;
}

std::string averagedOverBatches(const std::vector<std::string>& evals, std::int64_t batch, std::int64_t rows, std::int64_t bytes) {
  std::string names;
  for (const std::string& name : evals) names += (names.empty() ? "`" : ", `") + name + "`";
  if (names.empty()) return {};
  return names + (evals.size() == 1 ? " is" : " are") + " averaged over batches of " + std::to_string(batch) +
         " rows, which is right for means alone: the " + std::to_string(rows) + " held-out rows would take " + bytesText(bytes) +
         " at once";
}

Diagnostics valuesOfBatches(const CompiledNotebook& notebook, const CompileOptions& options) {
  Diagnostics diagnostics;
  const auto held = heldOutOf(notebook, options);
  if (!held) return diagnostics;
  std::vector<TensorId> suspects;
  for (std::size_t t = 0; t < notebook.program.tensors.size(); ++t) {
    const Tensor& tensor = notebook.program.tensors[t];
    if ((tensor.kind == TensorKind::Param || tensor.kind == TensorKind::State) && tensor.origin.valid() &&
        std::find(tensor.shape.begin(), tensor.shape.end(), held->train->batch) != tensor.shape.end())
      suspects.push_back(TensorId(t));
  }
  if (suspects.empty()) return diagnostics;
  const CompiledNotebook compiled = compiledForRows(notebook, options, held->rows);
  if (!compiled.ok()) return diagnostics;
  const Program evaluation = evaluationProgram(compiled, held->train->loss);
  for (const TensorId suspect : suspects) {
    const Tensor& tensor = notebook.program[suspect];
    const TensorId there = evaluation.tensorNamed(tensor.name);
    if (!there.valid() || evaluation[there].shape == tensor.shape) continue;
    Diagnostic d;
    d.severity = Severity::Warning;
    d.code = "values-of-batches";
    d.message = "`" + tensor.name + "` has the extent of the batch: the " + std::to_string(held->rows) +
                " rows that are held out are evaluated with its first values, not with those that training gives it";
    d.span = notebook.program[tensor.origin].span;
    d.notes.push_back({"what all rows share has no axis of the batch", {}});
    diagnostics.push_back(std::move(d));
  }
  return diagnostics;
}

Diagnostics averagedEvals(const CompiledNotebook& notebook, const CompileOptions& options, const StageOptions& passes,
                          std::int64_t bytes) {
  constexpr double kDerived = 8;  // what derivation may add
  const auto held = heldOutOf(notebook, options);
  if (!held || held->rows < held->train->batch) return {};
  const Program few = evaluationProgram(notebook, held->train->loss);
  if (evalsThatAreNoMean(notebook, few).empty() ||
      kDerived * mostBytes(few, held->train->batch, held->rows) <= static_cast<double>(bytes))
    return {};
  const CompiledNotebook compiled = compiledForRows(notebook, options, held->rows);
  if (!compiled.ok()) return {};
  const Program all = evaluationProgram(compiled, held->train->loss);
  const std::vector<std::string> names = evalsThatAreNoMean(compiled, all);
  if (names.empty()) return {};
  const auto stages = runStages(std::make_shared<const Program>(all), passes);
  if (!stages || hasErrors(stages->diagnostics)) return {};  // somebody else says so
  PlanOptions planned;
  planned.updates = false;
  const auto plan = planExecution(stages->last(), planned);
  if (!plan || (*plan)->main.arenaBytes <= bytes) return {};
  Diagnostic d;
  d.severity = Severity::Warning;
  d.code = "averaged-eval";
  d.message = averagedOverBatches(names, held->train->batch, held->rows, (*plan)->main.arenaBytes);
  for (const Output& o : few.outputs)
    if (o.name == names.front()) d.span = placeOf(few, o.tensor);
  return {std::move(d)};
}

}  // namespace nf
