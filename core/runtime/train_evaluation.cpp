// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/train_job.h"

#include <algorithm>

#include "core/runtime/evaluation_check.h"
#include "core/runtime/initialize.h"
#include "core/runtime/schedule_check.h"
#include "core/runtime/step_program.h"

namespace nf {

// Whatever an `eval` computes of its rows is right over all of them at once. Batches, whose values are averaged by their rows, are right
// for means only: they stand in where one evaluation would be too large.
void TrainJob::Impl::planEvaluations() {
  evaluationsPlanned = true;
  const std::int64_t all = feed->heldOutRows();
  evaluates = options.evaluate &&
              !(all > 0 ? evaluationProgram(notebook, settings.loss) : inputEvaluationProgram(notebook)).outputs.empty();
  if (!evaluates) return;
  PrepareOptions prepare{.updates = false,
                         .verify = options.verify,
                         .reverted = prepareOptions.reverted,
                         .device = prepareOptions.device,
                         .pinsOfOthers = pinsOf(training.stages)};
  evaluationThread = std::jthread([this, prepare = std::move(prepare), batch = feed->batch(), all] {
    PlannedEvaluations plans;
    const auto plan = [&](std::int64_t rows) {
      CompileOptions compile;
      compile.sets = options.sets;
      compile.training = false;
      if (all > 0) compile.batchOverride = rows;
      else compile.train = options.train;
      const CompiledNotebook compiled = compileNotebook(options.source, compile);
      if (!compiled.ok()) {
        plans.error = firstError(compiled.diagnostics, "check", plans.place);
        return;
      }
      // A batch that is written as a number stays what it is.
      if (all > 0 && rows != batch &&
          std::any_of(compiled.program.tensors.begin(), compiled.program.tensors.end(), [&](const Tensor& t) {
            return t.init.kind == Initializer::Kind::Batch && !t.shape.empty() && t.shape.front() != rows;
          })) {
        const std::string number = std::to_string(batch);
        plans.warning = "The batch of " + number + " rows is written as a number, so ";
        if (all < batch)
          plans.warning += "the " + std::to_string(all) + " rows that are held out, fewer than that, are not evaluated";
        else plans.warning += "what is held out is evaluated in batches of it and averaged";
        if (all > batch && all % batch > 0) plans.warning += ", without the last " + std::to_string(all % batch) + " rows";
        plans.warning += ": `let B = " + number + "` and `[B, ...]` take all rows at once.";
        return;
      }
      const Program program = all > 0 ? evaluationProgram(compiled, settings.loss) : inputEvaluationProgram(compiled);
      auto made = planned(program, *context, prepare);
      if (made && !made->refusedPins.empty()) {
        plans.refusedPins = std::move(made->refusedPins);
        PrepareOptions without = prepare;
        without.pinsOfOthers.merge(pinsOf(made->stages));
        made = planned(program, *context, without);
      }
      if (!made) {
        plans.error = made.error();
        return;
      }
      if (rows == all && all > batch && made->plan->main.arenaBytes > options.evaluationBytes) {
        plans.warning =
            averagedOverBatches(evalsThatAreNoMean(compiled, *made->stages.source), batch, all, made->plan->main.arenaBytes);
        return;
      }
      if (rows < all && plans.averaged.empty()) plans.averaged = evalsThatAreNoMean(compiled, *made->stages.source);
      plans.evaluations.push_back({std::move(*made), rows, {}, false});
    };
    plan(std::max<std::int64_t>(all, 1));
    if (plans.evaluations.empty() && all > batch) {
      plans.error.reset();
      for (const std::int64_t rows : {batch, all % batch})
        if (rows > 0 && !plans.error) plan(rows);
    }
    {
      const std::lock_guard lock(mutex);
      plannedEvaluations = std::move(plans);
    }
    changed.notify_all();
  });
}

Result<bool> TrainJob::Impl::takeEvaluations(std::stop_token stop, bool wait) {
  if (!evaluates || evaluationsTaken) return true;
  std::optional<PlannedEvaluations> plans;
  for (;;) {
    {
      std::unique_lock lock(mutex);
      if (wait) changed.wait_for(lock, stop, kEventPeriod, [&] { return plannedEvaluations.has_value(); });
      plans.swap(plannedEvaluations);
    }
    if (plans) break;
    if (!wait || stop.stop_requested()) return false;
    attend(stop);
  }
  evaluationsTaken = true;
  averagedByBatches = std::move(plans->averaged);
  if (plans->error && options.onlyEvaluate) {
    place = plans->place;
    return *plans->error;
  }
  // Training is not lost for what cannot be made of the rows that are held out.
  if (plans->error) {
    protocol::WarningEvent warning;
    const protocol::ErrorEvent why = errorEvent(*plans->error, notebook.sources, plans->place);
    warning.message = "What is held out is not evaluated: " + why.message;
    warning.file = why.file, warning.line = why.line, warning.column = why.column;
    emit(warning);
    plans->evaluations.clear();
  }
  for (Diagnostic& d : plans->refusedPins) d.message += "; what is held out is evaluated without it";
  for (protocol::WarningEvent& e : warningEvents(plans->refusedPins, notebook.sources)) emit(std::move(e));
  if (!plans->warning.empty()) {
    protocol::WarningEvent warning;
    warning.message = plans->warning;
    emit(warning);
  }
  for (Evaluation& e : plans->evaluations) {
    NF_TRY([[maybe_unused]] const Unit made, layOut(e.prepared, *context, store));
    NF_TRY([[maybe_unused]] const Unit initial,
           initializeTensors(*e.prepared.executable, seed, options.source.directory, nullptr, nullptr, stop));
    for (const auto& [name, value] : bystanders)
      if (TensorStore::Entry* const entry = store->find(name)) {
        NF_TRY([[maybe_unused]] const Unit given, store->write(*entry, value));
      }
    // A step: the rows once an epoch, the inputs as they are once in all.
    double runs = 1.0 / static_cast<double>(std::max<std::int64_t>(1, stepLimit));
    if (const std::int64_t all = feed->heldOutRows(); all > 0)
      runs = (e.rows == feed->batch() ? static_cast<double>(all / e.rows) : 1.0) / static_cast<double>(feed->stepsPerEpoch());
    NF_TRY([[maybe_unused]] const Unit requested, supply->request(*e.prepared.executable, runs, true));
    e.inputs = inputsOf(*e.prepared.executable);
    evaluations.push_back(std::move(e));
  }
  return true;
}

Result<bool> TrainJob::Impl::mayEvaluate(std::stop_token stop) {
  if (!dynamic) return true;
  NF_TRY(bool all, takeEvaluations(stop, false));
  for (Evaluation& e : evaluations) {
    if (!e.ready) { NF_TRY(e.ready, supply->collect(*e.prepared.executable)); }
    all = all && e.ready;
  }
  return all;
}

void TrainJob::Impl::tellEvaluation(bool intoFolder) {
  if (untold > 0) emit(newestEval, intoFolder);
  else if (unwritten > 0 && intoFolder && folder) flushWritten(), folder->addEvent(protocol::encode(protocol::Message(newestEval)));
  untold = 0;
  if (intoFolder) unwritten = 0;
  lastEvalEvent = std::chrono::steady_clock::now();
}

Result<Unit> TrainJob::Impl::evaluate(std::stop_token stop) {
  NF_TRY(const bool taken, takeEvaluations(stop, true));
  if (!taken || evaluations.empty()) return Unit{};
  std::map<std::string, double> sums;
  std::optional<double> lossSum;
  std::int64_t row = 0, runs = 0;
  const bool ofInputs = feed->heldOutRows() == 0;
  const std::int64_t all = ofInputs ? 1 : feed->heldOutRows();
  for (Evaluation& e : evaluations) {
    if (!e.ready) {
      NF_TRY(const bool complete, supply->await(*e.prepared.executable, stop, [&](std::size_t have, std::size_t kernels) {
        attend(stop);
        emitState(protocol::RunPhase::Training,
                  "compiling " + std::to_string(have) + " of " + std::to_string(kernels) + " kernels of the evaluation");
      }));
      if (!complete) return Unit{};
      e.ready = true;
    }
    Executable& x = *e.prepared.executable;
    NF_TRY([[maybe_unused]] const Unit better, supply->takeBetter(x));
    x.bind();
    while (row + e.rows <= all && (e.rows == feed->batch() || row + e.rows == all)) {
      for (std::size_t i = 0; i < feed->inputs().size() && !ofInputs; ++i) {
        TensorStore::Entry* entry = e.inputs[i];
        if (!entry) continue;
        staging.resize(std::max(
            staging.size(), static_cast<std::size_t>(e.rows * feed->inputs()[i].rowElements * bytesOf(feed->inputs()[i].type))));
        feed->heldOut(row, e.rows, i, staging.data());
        NF_TRY([[maybe_unused]] const Unit written, x.store().writeBytes(*entry, staging.data()));
      }
      if (auto ran = x.run(seed, static_cast<std::uint64_t>(step), &interrupted); !ran) {
        if (isStopped(ran.error())) return Unit{};
        return ran;
      }
      for (const Output& o : x.program().outputs) {
        if (x.program()[o.tensor].elements() != 1) continue;
        NF_TRY(const double value, x.scalar(o.tensor));
        if (o.role == OutputRole::Loss) lossSum = lossSum.value_or(0) + value * static_cast<double>(e.rows);
        else sums[o.name] += value * static_cast<double>(e.rows);
      }
      row += e.rows;
      ++runs;
    }
  }
  if (row == 0) return Unit{};
  protocol::EvalEvent event;
  event.step = step;
  event.of_inputs = ofInputs;
  const auto rows = static_cast<double>(row);
  for (auto& [name, sum] : sums) event.values[name] = sum / rows;
  if (lossSum) event.loss = *lossSum / rows;
  if (const auto accuracy = event.values.find("accuracy"); accuracy != event.values.end()) event.accuracy = accuracy->second;
  if (runs > 1) event.averaged = averagedByBatches;
  done.accuracy = event.accuracy;
  done.evals = event.values;
  done.averaged = event.averaged;
  // The training executable's inputs have been overwritten where shapes agree: the next step writes them anew.
  ++evaluated;
  ++untold;
  ++unwritten;
  newestEval = std::move(event);
  const Time now = std::chrono::steady_clock::now();
  if (now - lastEvalEvent >= kEventPeriod || untold * kResolution >= evaluated) tellEvaluation(unwritten * kWritten >= evaluated);
  return Unit{};
}

}  // namespace nf
