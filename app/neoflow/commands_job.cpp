// SPDX-License-Identifier: Apache-2.0
// run, train, tune, profile: what computes.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "app/neoflow/commands.h"
#include "app/neoflow/profile_text.h"
#include "app/neoflow/stop_on_signal.h"
#include "app/neoflow/value_text.h"
#include "app/neoflow/working_line.h"
#include "core/runtime/data_file.h"
#include "core/runtime/execution_plan.h"
#include "core/runtime/fusion_trials.h"
#include "core/runtime/memory_need.h"
#include "core/runtime/pipeline.h"
#include "core/runtime/prepared.h"
#include "core/runtime/report.h"
#include "core/runtime/run.h"
#include "core/runtime/step_program.h"
#include "core/runtime/train.h"
#include "core/support/row_names.h"
#include "core/tune/trial.h"
#include "core/tune/tune_program.h"

namespace nf {
namespace {

using Json = nlohmann::json;

const auto kProcessStart = std::chrono::steady_clock::now();
constexpr std::chrono::seconds kQuietWait{2};

void printLine(const std::string& line) {
  std::cout << line << "\n";
  std::cout.flush();
}

std::string text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// What a run is called beside its notebook: NAME.nf.out; of standard input: neoflow.out.
std::string outputRoot(const std::string& file, const std::string& wish) {
  if (!wish.empty()) return wish;
  return file == "-" ? "neoflow.out" : file + ".out";
}

std::vector<std::string> commaList(const std::string& list) {
  std::vector<std::string> names;
  std::string name;
  const auto flush = [&] {
    const std::size_t first = name.find_first_not_of(' '), last = name.find_last_not_of(' ');
    if (first != std::string::npos) names.push_back(name.substr(first, last - first + 1));
    name.clear();
  };
  for (const char c : list) {
    if (c == ',') flush();
    else name.push_back(c);
  }
  flush();
  return names;
}

// The first eight.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return text + (names.size() > kMost ? " and " + std::to_string(names.size() - kMost) + " more" : "");
}

std::string splitText(const protocol::FusionRevertedEvent& e) {
  char times[96];
  std::snprintf(times, sizeof times, ", %.2f us fused, %.2f us in parts", e.fused_us, e.split_us);
  const auto beside = e.fused_kernels - 1;
  return "split again: " + e.name +
         (beside > 0 ? " + " + std::to_string(beside) + (beside == 1 ? " other kernel" : " other kernels") : std::string()) + times;
}

// A failure of a job: the place where one is known, and exit code 1 when the input is at fault.
int reportJob(const Error& error, Span place, const SourceMap& sources, bool json) {
  const bool lacks = error.stage == "allocate" || error.stage == kGateStage || isStopped(error);
  if (isStopped(error)) place = {};  // of what it was at
  if (!json && place.valid()) {
    Diagnostic d;
    d.message = error.message;
    d.span = place;
    std::cerr << render(d, sources);
    if (!error.detail.empty()) std::cerr << error.detail << "\n";
    return lacks ? kExitMachineLacks : kExitWrongInput;
  }
  const int code = place.valid() && !lacks ? kExitWrongInput : exitCodeOf(error);
  if (!json) return report(error, false, code);
  printLine(protocol::encode(errorEvent(error, sources, place)));
  return code;
}

void printWarning(const protocol::WarningEvent& w) {
  const std::string place = w.line > 0 ? w.file + ":" + std::to_string(w.line) + ":" + std::to_string(w.column) + ": " : "";
  std::fprintf(stderr, "%swarning: %s\n", place.c_str(), w.message.c_str());
}

// What is wrong with the command, told at the place in the notebook that it is about; invalid: the file as a whole.
int reportCommand(const Error& error, Span place, const Loaded& loaded, bool json, int exitCode) {
  if (!json) return report(error, false, exitCode);
  protocol::ErrorEvent event = errorEvent(error, loaded.notebook.sources, place);
  if (event.file.empty()) event.file = loaded.notebook.sources.at(loaded.notebook.notebook).name;
  printLine(protocol::encode(event));
  return exitCode;
}

// Of a notebook that a job can't be made of: one event, of the first mistake, with all of them as `check --json` has them.
int reportMistakes(const FileOptions& options, bool json, const Diagnostics& diagnostics, const SourceMap& sources) {
  if (!json) return tellMistakes(diagnostics, sources, options.file, false);
  const auto first =
      std::find_if(diagnostics.begin(), diagnostics.end(), [](const Diagnostic& d) { return d.severity == Severity::Error; });
  NF_ASSERT(first != diagnostics.end());
  Json event = Json::parse(protocol::encode(errorEvent({"check", first->message, {}, {}}, sources, first->span)));
  event["ok"] = false;
  event["diagnostics"] = toJson(diagnostics, sources);
  printLine(text(event));
  return kExitWrongInput;
}

// The names of a table's rows and how wide their column is; the other columns take `others`.
template <class Rows, class Name>
std::pair<std::vector<std::string>, std::size_t> tableNames(const Rows& rows, std::size_t others, Name name) {
  std::vector<RowName> all;
  std::size_t longest = 0;
  for (const auto& row : rows) {
    all.push_back(name(row));
    longest = std::max(longest, columnsOf(all.back().name) + 10);  // and what tells it from others
  }
  std::vector<std::string> names = rowNames(all, nameColumns(others, longest));
  std::size_t width = std::string_view("kernel").size();
  for (const std::string& n : names) width = std::max(width, columnsOf(n));
  return {std::move(names), width};
}

std::string secondsText(double seconds) {
  char buffer[40];
  if (seconds < 1e-3) std::snprintf(buffer, sizeof buffer, "%.1f us", seconds * 1e6);
  else if (seconds < 1) std::snprintf(buffer, sizeof buffer, "%.2f ms", seconds * 1e3);
  else std::snprintf(buffer, sizeof buffer, "%.2f s", seconds);
  return buffer;
}

}  // namespace

Result<std::unique_ptr<DeviceContext>> openDevice(BackendRegistry& registry, const DeviceChoice& choice, bool records, bool tells) {
  DeviceContextOptions options;
  options.device = choice.device;
  options.threads = choice.threads;
  if (!records) options.records = "none";
  auto context = DeviceContext::open(registry, options);
  if (context && tells && !(*context)->recordsMessage().empty()) std::cerr << (*context)->recordsMessage() << "\n";
  return context;
}

int runRun(BackendRegistry& registry, const RunCommandOptions& options) {
  const bool json = options.json || options.progress;
  const auto sets = parseSets(options.sets);
  if (!sets) return report(sets.error(), json, kExitUsage);
  // Mistakes first: they need no device.
  FileOptions file = options;
  file.json = json;
  const Loaded loaded = loadNotebook(file);
  if (!loaded.ok()) {
    if (!loaded.notebook.diagnostics.empty())
      return reportMistakes(file, json, loaded.notebook.diagnostics, loaded.notebook.sources);
    return loaded.exitCode;
  }
  const StopOnSignal signals;
  WorkingLine working("deriving gradients and preparing kernels", json);
  auto context = openDevice(registry, options.device);
  if (!context) return report(context.error(), json, exitCodeOf(context.error()));
  auto source = readSource(options.file);
  if (!source) return report(source.error(), json, kExitWrongInput);
  RunOptions run;
  run.source = loaded.notebook.sources.at(loaded.notebook.notebook);
  run.sets = *sets;
  run.seed = options.seed;
  run.weights = options.weights;
  run.tensors = options.dump.empty() ? std::vector<std::string>{"shown"} : commaList(options.dump);
  RunJob job(**context, run);
  const auto prepared = job.prepare(signals.token());
  if (!prepared) return reportJob(prepared.error(), job.place(), job.notebook().sources, json);
  if (!*prepared) return report(stopped(), json);
  for (const protocol::WarningEvent& w : job.warnings()) {
    if (options.progress) printLine(protocol::encode(w));
    else printWarning(w);
  }
  const auto begin = std::chrono::steady_clock::now();
  working.now("computing");
  const auto done = job.run(false, signals.token());
  working.end();
  if (!done) return reportJob(done.error(), job.place(), job.notebook().sources, json);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!options.dump.empty() || !options.output.empty()) {
    const auto dumped = dumpTensors(job, options.output.empty() ? outputRoot(options.file, {}) : options.output);
    if (!dumped) return report(dumped.error(), json);
  }
  Json shown = Json::array();
  std::vector<std::string> trained;
  bool evaluated = false;
  for (const std::string& name : job.names()) {
    const std::optional<bool> ofTraining = job.ofTraining(name);
    if (ofTraining.value_or(false)) trained.push_back(name);
    else evaluated = true;
    const auto tensor = job.tensor(name);
    if (!tensor) return report(tensor.error(), json);
    if (!json) {
      for (const std::string& line : valueLines(name, *tensor)) printLine(line);
      continue;
    }
    const ValueSummary summary(*tensor);
    Json first = Json::array();
    for (const double v : summary.first)
      first.push_back(std::isfinite(v) ? Json(v) : Json(std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf"));
    shown.push_back({{"name", name},
                     {"dtype", nf::name(tensor->type)},
                     {"shape", tensor->shape},
                     {"first", first},
                     {"mean", summary.none() ? Json() : Json(summary.mean)},
                     {"rms", summary.none() ? Json() : Json(summary.rms)},
                     {"not_finite", summary.notFinite}});
    if (ofTraining) shown.back()["program"] = *ofTraining ? "training" : "evaluation";
  }
  if (json) printLine(text({{"event", "done"}, {"seconds", seconds}, {"tensors", shown}, {"training_rows", job.trainingRows()}}));
  else if (!trained.empty())
    printLine(evaluated ? "Of the training program: " + listed(trained) + "; the other values are of evaluation."
                        : "All values are of the training program, not of evaluation.");
  else if (job.names().empty()) printLine("Nothing is shown: add `show` to a cell, or name tensors with --dump.");
  if (!json && job.trainingRows() > 0 && !job.names().empty())
    printLine("The inputs hold the first " + std::to_string(job.trainingRows()) +
              " rows for training; `neoflow train --evaluate` takes those that are held out.");
  return kExitFine;
}

int runTrain(BackendRegistry& registry, const TrainCommandOptions& options) {
  const bool json = options.json || options.progress;
  const auto sets = parseSets(options.sets);
  if (!sets) return report(sets.error(), json, kExitUsage);
  const StopOnSignal signals;
  // Workers start while the notebook is read. What there is to say about records is an event of the training.
  auto context = openDevice(registry, options.device, !options.noRecords, false);
  if (!context) return report(context.error(), json, exitCodeOf(context.error()));
  FileOptions file = options;
  file.json = json;
  const Loaded loaded = loadNotebook(file);
  if (!loaded.ok()) {
    if (!loaded.notebook.diagnostics.empty())
      return reportMistakes(file, json, loaded.notebook.diagnostics, loaded.notebook.sources);
    return loaded.exitCode;
  }
  const CompiledNotebook& notebook = loaded.notebook;
  if (notebook.trains.empty())
    return reportCommand(
        {"train",
         "The notebook has no `train` statement: `train L { steps = 100; optimizer = adam(lr=1e-3) }` trains a loss L.",
         {},
         {}},
        {}, loaded, json, kExitWrongInput);
  if (options.which == 0 || options.which > notebook.trains.size())
    return reportCommand({"train",
                          "The notebook has " + std::to_string(notebook.trains.size()) +
                              (notebook.trains.size() == 1 ? " `train` statement." : " `train` statements."),
                          {},
                          {}},
                         notebook.trains.back().span, loaded, json, kExitUsage);
  const Span statement = notebook.trains[options.which - 1].span;
  if (options.epochs > 0 && notebook.program.data.empty())
    return reportCommand({"usage", "--epochs needs a data set, the notebook has none: give --steps.", {}, {}}, statement, loaded,
                         json, kExitUsage);
  const std::string& wished = notebook.trains[options.which - 1].device;
  if (!wished.empty() && wished != "auto" && wished != options.device.device) {
    if (options.device.device == "auto") {
      DeviceChoice choice = options.device;
      choice.device = wished;
      context->reset();
      context = openDevice(registry, choice, !options.noRecords, false);
      if (!context) return reportCommand(context.error(), statement, loaded, json, exitCodeOf(context.error()));
    } else {
      std::cerr << "The `train` statement asks for the device " << wished << "; --device " << options.device.device
                << " decides.\n";
    }
  }
  TrainOptions train;
  train.source = notebook.sources.at(notebook.notebook);
  train.sets = *sets;
  train.train = options.which - 1;
  train.mode = options.mode;
  train.seed = options.seed;
  train.steps = options.steps;
  train.epochs = options.epochs;
  train.seconds = options.seconds;
  train.evaluate = !options.noEvaluation;
  train.onlyEvaluate = options.onlyEvaluation;
  if (!train.onlyEvaluate) train.outputRoot = outputRoot(options.file, options.output);
  train.resume = options.resume;
  train.replaySwaps = options.replaySwaps;
  train.initialWeights = options.weights;
  if (options.checkpointSeconds) train.checkpointSeconds = *options.checkpointSeconds;
  train.tuning.deviceShare = options.share;
  train.tuning.useRecords = !options.noRecords;
  train.version = NF_VERSION;
  train.standIn = [&] {
    DeviceContextOptions host;
    host.threads = options.device.threads;
    if (options.noRecords) host.records = "none";
    return openHostDevice(registry, host);
  };
  train.processStart = kProcessStart;

  const bool terminal = isatty(STDERR_FILENO) != 0;
  double shownAt = -1;
  std::vector<double> sinceShown;  // ms of steps
  std::int64_t trials = 0, swaps = 0;
  std::int64_t evaluatedAt = 0;
  std::string lastEvaluation, waitsFor, saidWait, failedAt, lastLine;
  auto waitsSince = std::chrono::steady_clock::now();
  const auto sink = [&](const protocol::Message& message) {
    if (const auto* m = std::get_if<protocol::CheckpointFailedEvent>(&message)) {
      std::fflush(stdout);
      std::fprintf(stderr, "%sneoflow: %s\n", terminal ? "\r\033[K" : "", m->message.c_str());
    }
    if (const auto* m = std::get_if<protocol::WarningEvent>(&message); m && !options.progress) printWarning(*m);
    if (options.progress || options.json) {
      const bool event = std::visit(
          [](const auto& m) {
            return requires { m.kEvent; };
          },
          message);
      const bool last =
          std::holds_alternative<protocol::DoneEvent>(message) || std::holds_alternative<protocol::ErrorEvent>(message);
      if (event && options.progress) printLine(protocol::encode(message));
      else if (last) lastLine = protocol::encode(message);
      return;
    }
    if (const auto* m = std::get_if<protocol::FirstStepEvent>(&message)) {
      std::printf("first step after %.0f ms\n", m->ms);
    } else if (const auto* m = std::get_if<protocol::StepEvent>(&message)) {
      sinceShown.push_back(m->ms);
      if (m->seconds - shownAt >= (terminal ? 0.2 : 2.0)) {
        shownAt = m->seconds;
        const auto middle = sinceShown.begin() + static_cast<std::ptrdiff_t>(sinceShown.size() / 2);
        std::nth_element(sinceShown.begin(), middle, sinceShown.end());
        std::printf("%sstep %lld  %.1f s  loss %.6g  %.4g ms a step  trials %lld, swaps %lld%s%s", terminal ? "\r\033[K" : "",
                    static_cast<long long>(m->step), m->seconds, m->loss.value_or(NAN), *middle, static_cast<long long>(trials),
                    static_cast<long long>(swaps), lastEvaluation.c_str(), terminal ? "" : "\n");
        std::fflush(stdout);
        sinceShown.clear();
      }
    } else if (const auto* m = std::get_if<protocol::EvalEvent>(&message)) {
      char line[100];
      evaluatedAt = m->step;
      lastEvaluation = m->of_inputs ? "  on the inputs:" : "  held out:";
      for (const auto& [name, value] : m->values) {
        std::snprintf(line, sizeof line, " %s %.4g", name.substr(0, 60).c_str(), value);
        lastEvaluation += line;
        if (std::ranges::count(m->averaged, name) > 0) lastEvaluation += " (mean over batches)";
      }
      if (m->values.empty() && m->loss) {
        std::snprintf(line, sizeof line, " loss %.6g", *m->loss);
        lastEvaluation += line;
      }
    } else if (const auto* m = std::get_if<protocol::ErrorEvent>(&message)) {
      if (m->line > 0) failedAt = m->file + ":" + std::to_string(m->line) + ":" + std::to_string(m->column) + ": ";
    } else if (const auto* m = std::get_if<protocol::RunState>(&message)) {
      // A wait that people notice says what for; one line a new sentence.
      if (m->detail != waitsFor) waitsFor = m->detail, waitsSince = std::chrono::steady_clock::now();
      const auto now = std::chrono::steady_clock::now();
      if (m->phase != protocol::RunPhase::Preparing || m->detail.empty() || m->detail == saidWait ||
          now - kProcessStart < kQuietWait || now - waitsSince < kQuietWait / 4)
        return;
      saidWait = m->detail;
      std::printf("%s%s%s", terminal ? "\r\033[K" : "", m->detail.c_str(), terminal ? "" : "\n");
      std::fflush(stdout);
    } else if (const auto* m = std::get_if<protocol::TrialEvent>(&message)) {
      trials += m->counted;
    } else if (std::get_if<protocol::KernelSwapEvent>(&message)) {
      ++swaps;
    } else if (const auto* m = std::get_if<protocol::FusionRevertedEvent>(&message)) {
      std::printf("%s%s\n", terminal ? "\r\033[K" : "", splitText(*m).c_str());
    }
  };
  TrainJob job(**context, train, sink);
  const auto summary = job.run(signals.token());
  if (!lastLine.empty()) printLine(lastLine);
  if (!summary && isStopped(summary.error())) return report(summary.error(), json);
  if (!summary) {
    if (json) return exitCodeOf(summary.error());  // the error event has been printed
    std::fflush(stdout);
    Error error = summary.error();
    error.message = failedAt + error.message;
    return report(error, false, exitCodeOf(error));
  }
  // As of other commands that were stopped: a script must not take it for a result.
  const bool stoppedEarly = !summary->done.loss && signals.token().stop_requested();
  if (!json && train.onlyEvaluate) {
    if (!lastEvaluation.empty())
      printLine(lastEvaluation.substr(lastEvaluation.find_first_not_of(' ')) +
                (options.weights.empty() && options.resume.empty() ? ", with the initial weights" : ""));
  } else if (!json) {
    const protocol::DoneEvent& d = summary->done;
    std::printf("%s%lld steps", terminal ? "\r\033[K" : "", static_cast<long long>(d.steps));
    if (d.resumed_at > 0)
      std::printf(", %lld of them in %.2f s since it was resumed", static_cast<long long>(d.steps - d.resumed_at), d.seconds);
    else std::printf(" in %.2f s", d.seconds);
    if (d.loss) std::printf(", loss %.6g", *d.loss);
    else std::printf(": stopped before the first one was made");
    if (d.accuracy && d.evals.size() <= 1) std::printf(", accuracy %.4g", *d.accuracy);
    else if (!lastEvaluation.empty()) std::printf(",%s", lastEvaluation.c_str() + 1);
    // Where a run was stopped between two evaluations, that of the step it says.
    if (evaluatedAt > 0 && evaluatedAt < d.steps) std::printf(" at step %lld", static_cast<long long>(evaluatedAt));
    std::printf("\n");
    if (d.loss)
      std::printf("step: median %.4g ms, first tenth %.4g ms, last tenth %.4g ms; first after %.0f ms; %s\n", d.median_step_ms,
                  d.median_step_ms_first_tenth, d.median_step_ms_last_tenth, d.first_step_ms,
                  options.replaySwaps.empty() ? (std::to_string(trials) + " trials, " + std::to_string(swaps) +
                                                 (swaps == 1 ? " kernel swap" : " kernel swaps"))
                                                    .c_str()
                                              : "kernels as in the swap log");
    if (!summary->folder.empty()) std::printf("%s\n", summary->folder.c_str());
  }
  // What a full disk took is told of each file, and the last error's exit code stands.
  if (summary->unsaved && !json) report(*summary->unsaved, false);
  bool complete = !summary->unsaved;
  if (!summary->folder.empty()) {
    const auto written = writeReport(summary->folder, options.file);
    if (!written) {
      Error error = written.error();
      error.message = "The report was not written: " + error.message + ".";
      // One error event at most: scripts take the last line for the end.
      if (!json || complete) report(error, json);
      complete = false;
    }
  }
  if (!complete) return kExitMachineLacks;
  return stoppedEarly ? kExitMachineLacks : kExitFine;
}

int runTune(BackendRegistry& registry, const TuneCommandOptions& options) {
  const bool json = options.json || options.progress;
  FileOptions file = options;
  file.json = json;
  const Loaded loaded = loadNotebook(file, options.compiled());
  if (!loaded.ok()) {
    if (!loaded.notebook.diagnostics.empty())
      return reportMistakes(options, json, loaded.notebook.diagnostics, loaded.notebook.sources);
    return loaded.exitCode;
  }
  const StopOnSignal signals;
  StageOptions passes;
  Backend* backend = registry.find("cpu");
  if (!backend) return report({"tune", "There is no device to tune for: see `neoflow doctor`.", {}, {}}, json);
  const int threads = options.device.threads > 0 ? options.device.threads : 1;
  if (const auto target = backend->target("cpu", threads)) passes.device = deviceConstants(*target);
  StageOptions first = passes;
  first.invert.stop = signals.token();
  const auto stages = runStages(std::make_shared<const Program>(decidedProgram(loaded.notebook, options.which - 1)), first);
  const auto codeOf = [](const Error& error) { return isStopped(error) ? kExitMachineLacks : kExitInternal; };
  if (!stages) return report(stages.error(), json, codeOf(stages.error()));
  if (hasErrors(stages->diagnostics)) return reportMistakes(options, json, stages->diagnostics, loaded.notebook.sources);
  // Kernels whose operands no memory holds are measured by no trial.
  if (const auto plan = planExecution(stages->last())) {
    const Program& program = *(*plan)->main.program;
    const MemoryNeed need = memoryNeed(**plan);
    if (const auto error = tooLarge(need, program, memoryLimit())) {
      const OriginId origin = need.largest.valid() ? program[need.largest].origin : OriginId();
      return reportJob(*error, origin.valid() ? program[origin].span : Span{}, loaded.notebook.sources, json);
    }
  }
  TuneProgramOptions tune;
  tune.threads = threads;
  tune.trials = options.trials;
  tune.seconds = options.seconds;
  tune.seed = options.seed;
  tune.stop = signals.token();
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  std::int64_t count = 0;
  tune.onTrial = [&](const TrialEvent& e) {
    count += e.counted;
    if (options.progress) printLine(text(toJson(e)));
    else if (!options.json && e.improved)
      std::printf("%6lld  %s %9.2f us  %s\n", static_cast<long long>(count),
                  padded(rowNames({{e.name, e.subgraph.hex()}}, 40).front(), 40).c_str(), e.bestMicroseconds,
                  e.schedule.text().c_str());
    if (!json && terminal) std::fflush(stdout);
  };
  tune.onMessage = [&](const std::string& message) { std::cerr << message << "\n"; };
  // Which kernels there are comes before what they are made by.
  auto context = openDevice(registry, options.device);
  if (!context) return report(context.error(), json, exitCodeOf(context.error()));
  passes.fusion.reverted = revertedKernels(**context);
  auto settled = fusedAgain(*stages, passes);
  if (settled)
    settled = settleFusion(
        std::move(*settled), **context, passes,
        [&](const RevertedFusion& r) {
          if (options.progress) printLine(protocol::encode(revertedEvent(r)));
          else if (!options.json) std::printf("%s\n", splitText(revertedEvent(r)).c_str());
        },
        signals.token());
  if (!settled) return report(settled.error(), json, codeOf(settled.error()));
  context->reset();  // its workers: the search has its own
  const auto summary = tuneProgram(*settled->fused, registry, tune);
  if (!summary) return report(summary.error(), json);
  if (summary->withoutFirst > 0 && signals.token().stop_requested())
    return report({"tune",
                   "Stopped before the first kernels were there: " + std::to_string(summary->withoutFirst) + " of " +
                       std::to_string(summary->subgraphs.size()) + " were missing.",
                   {},
                   {}},
                  json);
  // A kernel that no trial has timed has no figure, and a step with such a kernel none either.
  const auto figure = [](double microseconds) { return microseconds > 0 ? Json(microseconds) : Json(); };
  const auto unmeasured = std::count_if(summary->subgraphs.begin(), summary->subgraphs.end(), [](const TuningService::State& s) {
    return s.bestMicroseconds <= 0 && s.notLowerable.empty();
  });
  if (json) {
    Json subgraphs = Json::array();
    for (const TuningService::State& s : summary->subgraphs)
      subgraphs.push_back({{"subgraph", s.subgraph.hex()},
                           {"name", s.name},
                           {"calls_per_step", s.callsPerStep},
                           {"trials", s.trials},
                           {"failed", s.failed},
                           {"first_us", figure(s.firstMicroseconds)},
                           {"best_us", figure(s.bestMicroseconds)},
                           {"roofline_us", s.rooflineMicroseconds},
                           {"record_hit", s.recordHit},
                           {"not_lowerable", s.notLowerable}});
    printLine(text({{"event", "done"},
                    {"trials", summary->trials},
                    {"seconds", summary->seconds},
                    {"first_step_us", figure(unmeasured > 0 ? 0 : summary->firstStepMicroseconds)},
                    {"best_step_us", figure(unmeasured > 0 ? 0 : summary->bestStepMicroseconds)},
                    {"subgraphs", subgraphs}}));
    return kExitFine;
  }
  const auto [names, width] = tableNames(summary->subgraphs, 49, [](const auto& s) { return RowName{s.name, s.subgraph.hex()}; });
  std::printf("\n%s %6s %10s %10s %10s %7s\n", padded("kernel", width).c_str(), "calls", "first us", "best us", "bound us",
              "trials");
  const auto cell = [](double microseconds) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.2f", microseconds);
    return microseconds > 0 ? std::string(buffer) : std::string("-");
  };
  for (std::size_t i = 0; i < names.size(); ++i) {
    const TuningService::State& s = summary->subgraphs[i];
    std::printf("%s %6.0f %10s %10s %10s %7lld\n", padded(names[i], width).c_str(), s.callsPerStep,
                cell(s.firstMicroseconds).c_str(), cell(s.bestMicroseconds).c_str(),
                cell(s.rooflineMicroseconds < 0.005 ? 0 : s.rooflineMicroseconds).c_str(), static_cast<long long>(s.trials));
  }
  std::printf("\n%lld trials in %.1f s; ", static_cast<long long>(summary->trials), summary->seconds);
  if (unmeasured > 0)
    std::printf("%lld of %zu kernels were not measured: more trials give a figure for the step\n",
                static_cast<long long>(unmeasured), summary->subgraphs.size());
  else
    std::printf("a step's kernels: %s first, %s best\n", secondsText(summary->firstStepMicroseconds * 1e-6).c_str(),
                secondsText(summary->bestStepMicroseconds * 1e-6).c_str());
  return kExitFine;
}

int runProfile(BackendRegistry& registry, const ProfileOptions& options) {
  const auto sets = parseSets(options.sets);
  if (!sets) return report(sets.error(), options.json, kExitUsage);
  const Loaded loaded = loadNotebook(options);
  if (!loaded.ok()) {
    if (!loaded.notebook.diagnostics.empty())
      return tellMistakes(loaded.notebook.diagnostics, loaded.notebook.sources, options.file, options.json);
    return loaded.exitCode;
  }
  const StopOnSignal signals;
  auto context = openDevice(registry, options.device);
  if (!context) return report(context.error(), options.json, exitCodeOf(context.error()));
  RunOptions run;
  run.source = loaded.notebook.sources.at(loaded.notebook.notebook);
  run.sets = *sets;
  const auto& trains = loaded.notebook.trains;
  std::string program;
  using Asked = std::pair<OutputRole, const char*>;
  for (const auto& [role, words] :
       {Asked(OutputRole::Show, "what the cells show"), Asked(OutputRole::Eval, "evaluations"), Asked(OutputRole::Loss, "losses")})
    if (std::ranges::any_of(loaded.notebook.program.outputs, [r = role](const Output& o) { return o.role == r; }))
      program += (program.empty() ? "" : ", ") + std::string(words);
  if (program.empty()) program = "what nothing reads: the notebook neither trains nor shows anything";
  run.tensors = {"outputs"};
  if (options.which > std::max<std::size_t>(trains.size(), 1))
    return reportCommand({"usage", "There is no `train` statement " + std::to_string(options.which) + ".", {}, {}},
                         trains.empty() ? Span{} : trains.back().span, loaded, options.json, kExitUsage);
  if (!trains.empty()) {
    run.trainStep = options.which - 1;
    program = "a training step of " + trains[*run.trainStep].loss;
  }
  RunJob job(**context, run);
  const auto prepared = job.prepare(signals.token());
  if (!prepared) return reportJob(prepared.error(), job.place(), job.notebook().sources, options.json);
  if (!*prepared) return report(stopped(), options.json);
  std::vector<double> walls;
  if (!options.trace.empty()) job.setRecording(kTracedActivities);
  for (int i = 0; i < 2 + options.repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto done = job.run(i >= 2, signals.token());
    if (!done) return reportJob(done.error(), job.place(), job.notebook().sources, options.json);
    if (i >= 2) walls.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(walls.begin(), walls.begin() + options.repeats / 2, walls.end());
  const double wall = walls[static_cast<std::size_t>(options.repeats / 2)];
  const ActivityRecord activities = job.endTiming();
  if (!options.trace.empty()) {
    const std::string title = loaded.notebook.sources.at(loaded.notebook.notebook).name + ": " + program;
    const auto written = writeFileAtomically(options.trace, chromeTrace(activities, job.notebook().sources, title));
    if (!written) return report(written.error(), options.json, kExitMachineLacks);
  }
  auto counted = countersOf(job, (*context)->device(), signals.token());
  if (!counted) return reportJob(counted.error(), job.place(), job.notebook().sources, options.json);
  double total = 0;
  const auto times = job.kernelTimes();
  for (const auto& k : times) total += k.microseconds * k.callsPerStep;
  if (options.json) {
    Json rows = Json::array();
    for (const auto& k : times) {
      rows.push_back({{"subgraph", k.subgraph.hex()},
                      {"kernel", k.name},
                      {"calls", k.callsPerStep},
                      {"us", k.microseconds},
                      {"share", total > 0 ? k.microseconds * k.callsPerStep / total : 0.0},
                      {"flops", k.flops},
                      {"bytes", k.bytes}});
      if (const auto c = counted->kernels.find(k.subgraph); c != counted->kernels.end())
        rows.back()["counters"] = toJson(c->second);
    }
    Json answer{{"device", (*context)->device().name()},
                {"program", program},
                {"repeats", options.repeats},
                {"step_us", total},
                {"wall_us", wall},
                {"clock", {{"of", activities.ofDevice ? "device" : "host"}, {"why", activities.why}}},
                {"counters_missing", counted->missing},
                {"kernels", rows}};
    if (!options.trace.empty())
      answer["trace"] = {{"file", options.trace}, {"steps", activities.runs}, {"steps_left_out", activities.leftOut}};
    printLine(text(answer));
    return kExitFine;
  }
  const auto [names, width] = tableNames(times, 46, [](const auto& k) { return RowName{k.name, k.subgraph.hex()}; });
  std::printf("%s\n\n%s %6s %10s %7s %9s %8s\n", program.c_str(), padded("kernel", width).c_str(), "calls", "us a call", "share",
              "GFLOP/s", "GB/s");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& k = times[i];
    std::printf("%s %6.0f %10.2f %6.1f%% %9.2f %8.2f\n", padded(names[i], width).c_str(), k.callsPerStep, k.microseconds,
                100 * k.microseconds * k.callsPerStep / total, static_cast<double>(k.flops) / k.microseconds * 1e-3,
                static_cast<double>(k.bytes) / k.microseconds * 1e-3);
  }
  std::printf("\n%.1f us in kernels, %.1f us a run with their timing, median of %d runs on %s\n", total, wall, options.repeats,
              (*context)->device().description().c_str());
  printCounters(names, width, times, *counted);
  if (!activities.why.empty()) std::printf("Times are those of the host's clock: %s\n", activities.why.c_str());
  if (!options.trace.empty())
    std::printf("%s: %lld of %d runs, launch by launch, for chrome://tracing or https://ui.perfetto.dev\n", options.trace.c_str(),
                static_cast<long long>(activities.runs), options.repeats);
  return kExitFine;
}

}  // namespace nf
