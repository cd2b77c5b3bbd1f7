// SPDX-License-Identifier: Apache-2.0
// check, show, grad, explain: what a notebook means, without running it.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "app/neoflow/commands.h"
#include "app/neoflow/working_line.h"
#include "core/autodiff/differentiate.h"
#include "core/autodiff/explain.h"
#include "core/ir/serialize.h"
#include "core/lang/dot.h"
#include "core/lang/missing_tensor.h"
#include "core/protocol/check_text.h"
#include "core/runtime/data_check.h"
#include "core/runtime/evaluation_check.h"
#include "core/runtime/fusion_trials.h"
#include "core/runtime/gradient_text.h"
#include "core/runtime/memory_check.h"
#include "core/runtime/pipeline.h"
#include "core/runtime/schedule_check.h"
#include "core/runtime/step_program.h"
#include "core/schedule/lower.h"
#include "core/session/numeric_check.h"
#include "core/syntax/token.h"
#include "core/tune/tune_program.h"

namespace nf {
namespace {

using Json = nlohmann::json;

void printJson(const Json& json) { std::cout << json.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n"; }

std::string_view word(Severity severity) {
  switch (severity) {
    case Severity::Error: return "error";
    case Severity::Warning: return "warning";
    case Severity::Note: return "note";
  }
  return "";
}

Json place(Span span, const SourceMap& sources) {
  if (!span.valid()) return {{"file", nullptr}, {"line", 0}, {"column", 0}, {"length", 0}};
  const LineColumn at = sources.lineColumn(span);
  return {{"file", sources.at(span.source).name}, {"line", at.line}, {"column", at.column}, {"length", span.length()}};
}

Json toJson(const Diagnostic& d, const SourceMap& sources) {
  Json json = place(d.span, sources);
  json["severity"] = word(d.severity);
  json["code"] = d.code;
  json["message"] = d.message;
  json["notes"] = Json::array();
  for (const DiagnosticNote& note : d.notes) {
    Json n = place(note.span, sources);
    n["message"] = note.message;
    json["notes"].push_back(std::move(n));
  }
  json["fixes"] = Json::array();
  for (const DiagnosticFix& fix : d.fixes) {
    Json f = place(fix.span, sources);
    f["label"] = fix.label;
    f["text"] = fix.text;
    json["fixes"].push_back(std::move(f));
  }
  return json;
}

// A file that is no notebook has hundreds of mistakes, and the first ones say it all. How many of them are errors.
std::size_t tellDiagnostics(const Diagnostics& diagnostics, const SourceMap& sources) {
  constexpr std::size_t kMostShown = 25;
  const Diagnostics shown(diagnostics.begin(),
                          diagnostics.begin() + static_cast<std::ptrdiff_t>(std::min(diagnostics.size(), kMostShown)));
  std::cerr << render(shown, sources);
  if (shown.size() < diagnostics.size())
    std::cerr << diagnostics.size() - shown.size() << " more are left out; --json has them all\n";
  return static_cast<std::size_t>(
      std::count_if(diagnostics.begin(), diagnostics.end(), [](const Diagnostic& d) { return d.severity == Severity::Error; }));
}

}  // namespace

Json toJson(const Diagnostics& diagnostics, const SourceMap& sources) {
  Json list = Json::array();
  for (const Diagnostic& d : diagnostics) list.push_back(toJson(d, sources));
  return list;
}

int tellMistakes(const Diagnostics& diagnostics, const SourceMap& sources, const std::string& file, bool json) {
  if (json) {
    printJson({{"ok", false}, {"diagnostics", toJson(diagnostics, sources)}, {"counts", Json::object()}});
    return kExitWrongInput;
  }
  const std::size_t errors = tellDiagnostics(diagnostics, sources);
  std::cout << file << ": " << errors << (errors == 1 ? " error\n" : " errors\n");
  return kExitWrongInput;
}

namespace {

// Prints what is wrong; true when nothing is.
bool presentable(const Loaded& loaded, bool json) {
  if (loaded.ok()) return true;
  if (loaded.notebook.diagnostics.empty()) return false;
  if (json) printJson({{"ok", false}, {"diagnostics", toJson(loaded.notebook.diagnostics, loaded.notebook.sources)}});
  else std::cerr << render(loaded.notebook.diagnostics, loaded.notebook.sources);
  return false;
}

// Pinned schedules are a device's: where none opens there is nothing to hold them against. What may be fused hangs on the program.
Diagnostics checkHints(const CompiledNotebook& notebook, const CompileOptions& compiled, const FindDevices& devices) {
  const auto& hints = notebook.program.hints;
  if (!devices || std::none_of(hints.begin(), hints.end(), [](const Hint& h) { return h.kind != Hint::Kind::Split; })) return {};
  StageOptions passes;
  const auto context = trainingDevice(devices(), passes, false);
  if (!context) return checkFusions(notebook, passes);
  Diagnostics diagnostics = checkSchedules(notebook, compiled, passes, *context->target());
  for (Diagnostic& d : checkFusions(notebook, passes)) diagnostics.push_back(std::move(d));
  return diagnostics;
}

// What a step takes of this machine; a device with a memory of its own has its own words for it.
Diagnostics checkStepMemory(const CompiledNotebook& notebook, const FindDevices& devices) {
  const MemoryLimit limit = memoryLimit();
  if (!mayTakeMuch(notebook, limit)) return {};
  StageOptions passes;
  const auto context = devices ? trainingDevice(devices(), passes, false) : nullptr;
  if (context && context->target()->backend == "cuda") return {};
  return checkMemory(notebook, passes, limit);
}

// Whether all held-out rows at once are too many hangs on what a device fuses.
Diagnostics checkEvals(const CompiledNotebook& notebook, const CompileOptions& compiled, const FindDevices& devices) {
  if (!devices || notebook.trains.empty() || evalsThatAreNoMean(notebook, notebook.program).empty()) return {};
  StageOptions passes;
  const auto context = trainingDevice(devices(), passes, false);
  return averagedEvals(notebook, compiled, passes);
}

std::string whyFolded(const FoldedAccess& f, const SourceMap& sources) {
  return "no point of " + f.reader + " reads it: `" + std::string(sources.text(f.condition)) + "` leaves none";
}

// Where a derivative is zero as no operator has the accesses that are written: those, with what left them out.
void noteFolded(const CompiledNotebook& notebook, Diagnostics& diagnostics) {
  for (Diagnostic& d : diagnostics) {
    if (d.code != "zero-derivative") continue;
    for (const FoldedAccess& f : notebook.folded) {
      const OriginId origin = notebook.program[f.tensor].origin;
      if (!origin.valid()) continue;
      const Span defined = notebook.program[origin].span;
      if (d.span == defined ||
          std::any_of(d.notes.begin(), d.notes.end(), [&](const DiagnosticNote& note) { return note.span == defined; }))
        d.notes.push_back({whyFolded(f, notebook.sources), f.access});
    }
  }
}

}  // namespace

int runCheck(const FileOptions& options, const FindDevices& devices) {
  WorkingLine working("deriving gradients", options.json);
  if (options.json && options.file != "-")
    if (const auto source = readSource(options.file); !source) {
      const Json unread{{"severity", "error"},
                        {"code", "unreadable"},
                        {"message", source.error().message},
                        {"file", options.file},
                        {"line", 0},
                        {"column", 0},
                        {"length", 0},
                        {"notes", Json::array()},
                        {"fixes", Json::array()}};
      printJson({{"ok", false}, {"diagnostics", Json::array({unread})}, {"counts", Json::object()}});
      return kExitWrongInput;
    }
  const Loaded loaded = loadNotebook(options);
  const CompiledNotebook& notebook = loaded.notebook;
  if (!loaded.ok() && notebook.diagnostics.empty()) return loaded.exitCode;
  // A gradient that can't be made is a mistake of the source too.
  Diagnostics diagnostics = notebook.diagnostics;
  Json counts = Json::object();
  if (loaded.ok()) {
    const std::clock_t begin = std::clock();
    auto differentiated = differentiate(notebook.program);
    if (!differentiated) return report(differentiated.error(), options.json, kExitInternal);
    counts = {{"operators", notebook.program.operators.size()},
              {"trains", notebook.trains.size()},
              {"differentiated_operators", differentiated->program.operators.size()},
              {"gradient_terms", differentiated->terms.size()},
              {"differentiate_cpu_ms", 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC}};
    noteFolded(notebook, differentiated->diagnostics);
    diagnostics.insert(diagnostics.end(), differentiated->diagnostics.begin(), differentiated->diagnostics.end());
    const Diagnostics zero = zeroParts(*differentiated, notebook.sources, notebook.notebook);
    diagnostics.insert(diagnostics.end(), zero.begin(), zero.end());
    const Diagnostics data = checkData(notebook);
    diagnostics.insert(diagnostics.end(), data.begin(), data.end());
    CompileOptions compiled;
    compiled.sets = *parseSets(options.sets);  // as it was loaded with
    const Diagnostics ofTraining = trainingWarnings(notebook, compiled);
    diagnostics.insert(diagnostics.end(), ofTraining.begin(), ofTraining.end());
    if (!hasErrors(differentiated->diagnostics)) {
      const Diagnostics pinned = checkHints(notebook, compiled, devices);
      diagnostics.insert(diagnostics.end(), pinned.begin(), pinned.end());
      const Diagnostics memory = checkStepMemory(notebook, devices);
      diagnostics.insert(diagnostics.end(), memory.begin(), memory.end());
      const Diagnostics averaged = checkEvals(notebook, compiled, devices);
      diagnostics.insert(diagnostics.end(), averaged.begin(), averaged.end());
    }
  }
  working.end();
  const bool ok = !hasErrors(diagnostics);
  if (options.json) {
    printJson({{"ok", ok}, {"diagnostics", toJson(diagnostics, notebook.sources)}, {"counts", counts}});
    return ok ? kExitFine : kExitWrongInput;
  }
  if (!ok) return tellMistakes(diagnostics, notebook.sources, options.file, false);
  tellDiagnostics(diagnostics, notebook.sources);
  std::cout << options.file << ": fine, " << notebook.program.operators.size()
            << (notebook.program.operators.size() == 1 ? " operator\n" : " operators\n");
  return kExitFine;
}

namespace {

int reportGradients(const Diagnostics& diagnostics, const SourceMap& sources, bool json) {
  if (json) printJson({{"ok", false}, {"diagnostics", toJson(diagnostics, sources)}});
  else std::cerr << render(diagnostics, sources);
  return kExitWrongInput;
}

// The chain of passes up to `stage`; prints what is wrong and yields null where it can't go so far.
std::shared_ptr<const Stages> stagesOf(const CompiledNotebook& notebook, const StageOptions& options, Stage stage, bool json,
                                       int& exitCode) {
  auto stages = runStages(std::make_shared<const Program>(stage == Stage::Source ? notebook.program : notebookProgram(notebook)),
                          options, stage);
  if (!stages) {
    exitCode = report(stages.error(), json, kExitInternal);
    return nullptr;
  }
  if (hasErrors(stages->diagnostics)) {
    exitCode = reportGradients(stages->diagnostics, notebook.sources, json);
    return nullptr;
  }
  return std::make_shared<const Stages>(std::move(*stages));
}

// The same of what is fused; nothing where it can't go so far. `evaluates`: of the program that evaluates, not of the one that trains.
std::optional<NotebookStages> fusedStagesOf(const CompiledNotebook& notebook, std::size_t train, bool evaluates,
                                            const StageOptions& options, bool json, int& exitCode) {
  const bool other = evaluates && !notebook.trains.empty();
  auto stages = notebookStages(
      notebook, other ? evaluationProgram(notebook, notebook.trains[train].loss) : decidedProgram(notebook, train), options);
  if (!stages) {
    exitCode = report(stages.error(), json, kExitInternal);
    return std::nullopt;
  }
  for (const auto& s : {stages->whole, stages->decided})
    if (hasErrors(s->diagnostics)) {
      exitCode = reportGradients(s->diagnostics, notebook.sources, json);
      return std::nullopt;
    }
  return std::move(*stages);
}

// What the notebook computes besides what is decided.
Json outsideJson(const NotebookStages& stages) {
  const StagePrograms p = programsAt(Stage::Fused, *stages.decided, *stages.whole);
  Json list = Json::array();
  for (const OperatorId op : p.outside) {
    const auto written = writesOf(*p.whole, op);
    list.push_back({{"name", written.empty() || !written[0].valid() ? std::string() : (*p.whole)[written[0]].name},
                    {"statement", toText(*p.whole, op)}});
  }
  return list;
}

// As comments: the text that they stand behind is a program of its own.
std::string outsideText(const NotebookStages& stages) {
  const StagePrograms p = programsAt(Stage::Fused, *stages.decided, *stages.whole);
  if (p.outside.empty()) return {};
  std::string text = "\n# Outside the training step, for `show` and `eval`, no part of what is decided:\n";
  std::istringstream lines(toText(*p.whole, p.outside));
  for (std::string line; std::getline(lines, line);) text += line.empty() ? "" : "# " + line + "\n";
  return text;
}

}  // namespace

std::unique_ptr<DeviceContext> trainingDevice(BackendRegistry& registry, StageOptions& passes, bool measures) {
  DeviceContextOptions device;
  device.compileWorkers = measures ? 2 : 0;
  device.measures = measures;
  auto context = DeviceContext::open(registry, device);
  if (!context) return nullptr;
  passes.device = deviceConstants(*(*context)->target());
  passes.target = (*context)->target();
  passes.fusion.reverted = revertedKernels(**context);
  return std::move(*context);
}

namespace {

std::string deviceLine(const DeviceContext* context, const DeviceConstants& constants) {
  if (!context) return "no device; assumed " + toText(constants);
  const std::int64_t threads = context->target()->threads;
  return context->target()->backend + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads") +
         ", as training runs by default: " + toText(constants);
}

Json deviceJson(const DeviceContext* context, const DeviceConstants& constants) {
  Json json = toJson(constants);
  json["backend"] = context ? Json(context->target()->backend) : Json(nullptr);
  json["threads"] = context ? context->target()->threads : 0;
  return json;
}

// A kernel with the schedule that a training begins with: a hint's, the best one that is recorded, or the analytic model's.
struct ScheduledKernel {
  TuningTask task;
  Schedule schedule;
  const char* from = "";
  std::string loops;  // of stage Lowered
};

Result<std::vector<ScheduledKernel>> scheduledKernels(const Program& fused, DeviceContext& context, bool lowered) {
  const Target& target = *context.target();
  std::vector<ScheduledKernel> kernels;
  std::vector<HintProblem> problems;
  for (TuningTask& task : tuningTasks(fused, &target, &problems)) {
    ScheduledKernel k;
    NF_TRY(const auto space, scheduleSpace(*task.subgraph, target));
    const auto record = context.records() ? context.records()->best(task.hash, target.fingerprint) : std::nullopt;
    if (task.forced) {
      k.schedule = *task.forced;
      k.from = "hint";
    } else if (record && space->check(record->schedule)) {
      k.schedule = record->schedule;
      k.from = "record";
    } else {
      k.schedule = space->first();
      k.from = "model";
    }
    if (lowered) {
      NF_TRY(const auto function, lower(*task.subgraph, k.schedule, target));
      k.loops = loop::toText(function).text;
    }
    k.task = std::move(task);
    kernels.push_back(std::move(k));
  }
  if (!problems.empty()) return problems.front().error;
  return kernels;
}

int showKernels(const NotebookStages& stages, DeviceContext* context, const StageOptions& passes, Stage stage,
                const SourceMap& sources, const ShowOptions& options) {
  if (!context || context->inProcess())
    return report({"show", "There is no device with schedules here: see `neoflow doctor`.", {}, {}}, options.json);
  const PinFindings pins = checkPins(*stages.decided, passes, *context->target());
  const auto without = withoutSetAside(stages.decided->fused, pins);
  const Program& fused = *without;
  if (!options.json) std::cerr << render(pins.diagnostics, sources);
  const auto kernels = scheduledKernels(fused, *context, stage == Stage::Lowered);
  if (!kernels) return report(kernels.error(), options.json, kExitWrongInput);
  if (options.json) {
    Json list = Json::array();
    for (const ScheduledKernel& k : *kernels) {
      list.push_back({{"name", k.task.name},
                      {"subgraph", k.task.hash.hex()},
                      {"calls_per_step", k.task.callsPerStep},
                      {"schedule", Json::parse(k.schedule.text())},
                      {"from", k.from}});
      if (stage == Stage::Lowered) list.back()["loops"] = k.loops;
    }
    Json json = toJson(fused);
    json["stage"] = static_cast<int>(stage);
    json["device"] = deviceJson(context, passes.device);
    json["kernels"] = std::move(list);
    json["outside"] = outsideJson(stages);
    printJson(json);
    return kExitFine;
  }
  std::cout << "# " << deviceLine(context, passes.device) << "\n";
  if (stage == Stage::Scheduled) std::cout << toText(fused);
  for (const ScheduledKernel& k : *kernels) {
    std::cout << (stage == Stage::Lowered ? "\n" : "") << "# " << k.task.name << ", schedule of the " << k.from << ": "
              << k.schedule.text() << "\n"
              << k.loops;
  }
  std::cout << outsideText(stages);
  return kExitFine;
}

}  // namespace

int runShow(const FindDevices& devices, const ShowOptions& options) {
  const auto stage = stageNamed(options.stage);
  if (!stage)
    return report({"usage",
                   "There is no stage \"" + options.stage +
                       "\": source, differentiated, transformed, partitioned, fused, scheduled, lowered.",
                   {},
                   {}},
                  options.json, kExitUsage);
  if (options.dot && *stage > Stage::Fused)
    return report({"usage", "--dot draws a program up to the stage fused.", {}, {}}, options.json, kExitUsage);
  WorkingLine working("deriving gradients", options.json);
  CompileOptions compile = options.compiled();
  compile.training = !options.evaluation;
  const Loaded loaded = loadNotebook(options, compile);
  if (!presentable(loaded, options.json)) return loaded.exitCode;
  StageOptions passes;
  passes.verify = true;
  std::unique_ptr<DeviceContext> context;
  if (*stage >= Stage::Fused) context = trainingDevice(devices(), passes, false);
  int exitCode = kExitFine;
  if (*stage >= Stage::Fused) {
    const auto fused = fusedStagesOf(loaded.notebook, options.which - 1, options.evaluation, passes, options.json, exitCode);
    if (!fused) return exitCode;
    if (*stage > Stage::Fused) return showKernels(*fused, context.get(), passes, *stage, loaded.notebook.sources, options);
    const Program& program = *fused->decided->fused;
    if (options.json) {
      Json json = toJson(program);
      json["device"] = deviceJson(context.get(), passes.device);
      json["outside"] = outsideJson(*fused);
      printJson(json);
    } else if (options.dot) {
      std::cout << toDot(program);
    } else {
      std::cout << "# " << deviceLine(context.get(), passes.device) << "\n" << toText(program) << outsideText(*fused);
    }
    return kExitFine;
  }
  const auto stages = stagesOf(loaded.notebook, passes, *stage, options.json, exitCode);
  if (!stages) return exitCode;
  const Program& program = *stages->at(*stage);
  if (options.json) printJson(toJson(program));
  else std::cout << (options.dot ? toDot(program) : toText(program));
  return kExitFine;
}

namespace {

Json timingJson(const Timing& t) { return {{"us", t.median}, {"spread_us", t.spread}, {"runs", t.runs}}; }

int explainMeasured(DeviceContext& context, const Stages& stages, const StageOptions& passes, const ExplainOptions& options) {
  const std::size_t comma = options.measure.rfind(',');
  if (comma == std::string::npos || comma == 0 || comma + 1 == options.measure.size())
    return report({"usage", "--measure takes two tensors, PRODUCER,CONSUMER.", {}, {}}, options.json, kExitUsage);
  const auto compared =
      compareBranches(stages, context, passes, options.measure.substr(0, comma), options.measure.substr(comma + 1), {});
  if (!compared)
    return report(compared.error(), options.json, compared.error().stage == "compare" ? kExitWrongInput : kExitMachineLacks);
  const BranchComparison& c = **compared;
  const auto names = [](const std::vector<SiteKernel>& kernels) {
    Json list = Json::array();
    for (const SiteKernel& k : kernels) list.push_back(k.name);
    return list;
  };
  if (options.json) {
    Json pairs = Json::array();
    for (const TimedPair& p : c.comparison.pairs) pairs.push_back({p.incumbent, p.candidate});
    Json fused = timingJson(c.comparison.first), split = timingJson(c.comparison.second);
    fused["kernels"] = names(c.site.first);
    split["kernels"] = names(c.site.second);
    printJson({{"device", context.device().name()},
               {"loop", c.site.loop},
               {"fused", fused},
               {"split", split},
               {"pairs_us", pairs},
               {"gain_of_split", c.comparison.verdict.medianGain},
               {"error_of_gain", c.comparison.verdict.spread},
               {"separates", c.comparison.separates},
               {"schedules", c.recorded() ? "recorded" : "first"},
               {"verdict", c.verdict()}});
    return kExitFine;
  }
  const auto row = [](const char* name, const std::vector<SiteKernel>& kernels, const Timing& t) {
    std::printf("%-6s %10.2f us  +- %.2f us  %3d runs  ", name, t.median, t.spread, t.runs);
    for (std::size_t i = 0; i < kernels.size(); ++i) std::printf("%s{%s}", i ? ", " : "", kernels[i].name.c_str());
    std::printf("\n");
  };
  row("fused", c.site.first, c.comparison.first);
  row("split", c.site.second, c.comparison.second);
  std::printf("%s\n", c.verdict().c_str());
  return kExitFine;
}

}  // namespace

int runExplain(BackendRegistry& registry, const ExplainOptions& options) {
  WorkingLine working("deriving gradients and deciding on fusion", options.json);
  StageOptions passes;
  const std::unique_ptr<DeviceContext> context = trainingDevice(registry, passes, !options.measure.empty());
  const Loaded loaded = loadNotebook(options, options.compiled());
  if (!presentable(loaded, options.json)) return loaded.exitCode;
  int exitCode = kExitFine;
  const auto both = fusedStagesOf(loaded.notebook, options.which - 1, false, passes, options.json, exitCode);
  if (!both) return exitCode;
  const Stages* const stages = both->decided.get();
  if (!options.json) std::cerr << render(hintsOutsideStep(loaded.notebook), loaded.notebook.sources);
  if (!options.measure.empty()) {
    if (!context) return report({"measure", "There is no device to measure on: see `neoflow doctor`.", {}, {}}, options.json);
    return explainMeasured(*context, *stages, passes, options);
  }
  if (options.json) {
    Json json = toJson(stages->decisions, passes.device);
    json["device"] = deviceJson(context.get(), passes.device);
    json["kernels"] = Json::array();
    for (const Group* group : kernelGroups(*stages->fused)) json["kernels"].push_back(group->name);
    json["outside"] = outsideJson(*both);
    json["diagnostics"] = toJson(hintsOutsideStep(loaded.notebook), loaded.notebook.sources);
    if (context) json["intervals"] = intervalsJson(measurementOf(registry, *context->target()));
    printJson(json);
  } else {
    std::cout << deviceLine(context.get(), passes.device) << "\n";
    if (context)
      if (const std::string intervals = intervalsText(measurementOf(registry, *context->target())); !intervals.empty())
        std::cout << intervals << "\n";
    std::cout << "\n"
              << toText(stages->decisions) << "\n"
              << kernelsText(*stages->fused, static_cast<std::int64_t>(stages->partitioned->operators.size()), " operators") << "\n"
              << outsideText(*both);
  }
  return kExitFine;
}

namespace {

// Of the reference interpreter: what one sample may take, what all may, and what is done between two words about it.
constexpr double kSampleOperations = 2e10, kCheckOperations = 3e9, kRoundOperations = 2e8;

Json samplesJson(const std::vector<protocol::NumericSample>& samples) {
  Json json = Json::array();
  for (const protocol::NumericSample& s : samples)
    json.push_back({{"element", s.element},
                    {"derived", s.derived},
                    {"differences", s.differences},
                    {"error", s.error},
                    {"rounding", s.rounding},
                    {"jump", s.jump},
                    {"tie", s.tie}});
  return json;
}

// places: of `choices`.
Json checkJson(const protocol::NumericCheck& check, const std::vector<Span>& places, const SourceMap& sources) {
  Json choices = Json::array();
  for (std::size_t k = 0; k < check.choices.size(); ++k) {
    const protocol::NumericChoice& c = check.choices[k];
    choices.push_back({{"what", c.what},
                       {"in", c.reader},
                       {"kind", enumNames(c.kind)[static_cast<std::size_t>(c.kind)]},
                       {"samples", c.samples},
                       {"place", place(places[k], sources)}});
  }
  Json json{{"samples", check.samples}, {"wanted", check.wanted},       {"elements", check.elements},
            {"refuted", check.refuted}, {"undefined", check.undefined}, {"epsilon", check.epsilon},
            {"worst", check.worst},     {"allowed", check.allowed},     {"worst_samples", samplesJson(check.worstSamples)},
            {"held", check.held},       {"jumps", check.jumps},         {"ties", check.ties},
            {"choices", choices}};
  if (check.moved)
    json["moved"] = {{"tensors", check.moved->tensors},
                     {"samples", check.moved->samples},
                     {"wanted", check.moved->wanted},
                     {"refuted", check.moved->refuted},
                     {"undefined", check.moved->undefined},
                     {"worst", check.moved->worst},
                     {"worst_samples", samplesJson(check.moved->worstSamples)}};
  if (check.undefined > 0) json["first_undefined"] = check.firstUndefined;
  return json;
}

// # check: 24 of 24 elements by central differences, worst error 3.1e-10 of 1e-05 allowed
// #   [0, 2]: derived 0.25, differences 0.250000001, error 3.1e-10
// # check: 3 of 3 elements by central differences, undefined at 1 element, the first [0], worst error elsewhere 2e-12 of 1e-05 allowed
// #   5 samples lie at a tie of `max` in L (net.nf:3:10): the first of equals has the gradient, as in PyTorch
// # stop_gradient at net.nf:3:12: its value is held while the differences are taken
// # check: also with W moved by about 1 %, as all its values are equal: 24 of 24 elements, worst error 2e-11 of 1e-05 allowed
std::string checkText(const protocol::NumericCheck& check, const std::vector<Span>& held, const std::vector<Span>& choices,
                      const SourceMap& sources) {
  const auto number = [](double value) {
    if (std::isnan(value)) return std::string("nan");
    std::ostringstream text;
    text << std::setprecision(9) << value;
    return text.str();
  };
  const auto brief = [](double value) {
    std::ostringstream text;
    text << std::setprecision(2) << value;
    return text.str();
  };
  const auto place = [](const std::vector<std::int64_t>& element) {
    std::string text = "[";
    for (std::size_t k = 0; k < element.size(); ++k) text += (k ? ", " : "") + std::to_string(element[k]);
    return text + "]";
  };
  const auto at = [&](Span span) {
    if (!span.valid()) return std::string();
    const LineColumn where = sources.lineColumn(span);
    return sources.at(span.source).name + ":" + std::to_string(where.line) + ":" + std::to_string(where.column);
  };
  const auto verdict = [&](const auto& c, std::int64_t refuted, const std::string& undefined) {
    std::string text;
    std::optional<double> worst;  // of what can be compared, the worst first
    for (const protocol::NumericSample& sample : c.worstSamples)
      if (!worst && std::isfinite(sample.error)) worst = sample.error;
    if (c.undefined > 0)
      text += ", undefined at " + std::to_string(c.undefined) + (c.undefined == 1 ? " element" : " elements") + undefined;
    if (worst)
      text += std::string(", worst error ") + (c.undefined > 0 ? "elsewhere " : "") + brief(*worst) +
              (*worst <= check.allowed ? " of " : ", more than the ") + brief(check.allowed) + " allowed";
    if (refuted > c.undefined) text += ", " + std::to_string(refuted - c.undefined) + " beyond what rounding explains";
    else if (worst && *worst > check.allowed) text += ", but not beyond what rounding does to the differences";
    return text + "\n";
  };
  const auto samples = [&](const std::vector<protocol::NumericSample>& list) {
    std::string text;
    for (const protocol::NumericSample& sample : list) {
      text +=
          "#   " + place(sample.element) + ": derived " + number(sample.derived) + ", differences " + number(sample.differences);
      text += std::isfinite(sample.error) ? ", error " + brief(sample.error) : ", undefined";
      const std::string beside = besideText(sample);
      text += (beside.empty() ? "" : ", " + beside) + "\n";
    }
    return text;
  };
  std::string text = "# check: " + std::to_string(check.samples) + " of " + std::to_string(check.elements) +
                     " elements by central differences" +
                     verdict(check, check.refuted - (check.moved ? check.moved->refuted : 0),
                             check.undefined > 0 ? ", the first " + place(check.firstUndefined) : std::string()) +
                     samples(check.worstSamples);
  if (check.jumps > 0)
    text += "#   at " + std::to_string(check.jumps) + (check.jumps == 1 ? " element" : " elements") +
            " a floor, a comparison or an index of the best jumps: the differences hold it as it is there\n";
  for (std::size_t k = 0; k < check.choices.size(); ++k) text += "#   " + choiceText(check.choices[k], at(choices[k])) + "\n";
  for (const Span span : held) text += "#   stop_gradient at " + at(span) + ": the differences hold its value\n";
  if (check.moved) {
    text += "# check: also with " + movedText(*check.moved) + ": " + std::to_string(check.moved->samples) + " of " +
            std::to_string(check.elements) + " elements" + verdict(*check.moved, check.moved->refuted, "");
    if (check.moved->refuted > 0) text += samples(check.moved->worstSamples);
  }
  return text;
}

}  // namespace

namespace {

// The accesses that no operator has, of what is computed from `wrt`: their condition leaves them no point. Of those that are written.
std::vector<FoldedAccess> foldedBehind(const CompiledNotebook& notebook, TensorId wrt) {
  const Program& p = notebook.program;
  std::vector<bool> behind(p.tensors.size(), false);
  behind[wrt.value] = true;
  for (std::size_t o = 0; o < p.operators.size(); ++o) {
    const auto reads = readsOf(p, OperatorId(o));
    if (std::any_of(reads.begin(), reads.end(), [&](TensorId t) { return behind[t.value]; }))
      for (const TensorId t : writesOf(p, OperatorId(o))) behind[t.value] = true;
  }
  std::vector<FoldedAccess> folded;
  for (const FoldedAccess& f : notebook.folded)
    if (f.tensor.value < behind.size() && behind[f.tensor.value]) folded.push_back(f);
  return folded;
}

// With the keys of explanationJson().
Json foldedJson(const CompiledNotebook& notebook, const FoldedAccess& f) {
  const std::string text(notebook.sources.text(f.access));
  Json json{{"tensor", notebook.program[f.tensor].name},
            {"forward", f.reader},
            {"access", text},
            {"written", text},
            {"result", ""},
            {"form", "empty"},
            {"why", whyFolded(f, notebook.sources)},
            {"certificate", {{"state", "empty"}, {"ms", 0}}},
            {"excluded_by", Json::array({notebook.sources.text(f.condition)})},
            {"axes", Json::array()},
            {"y", Json::object()},
            {"guards", {{"z", Json::array()}, {"t", Json::array()}}},
            {"cost", nullptr},
            {"place", place(f.access, notebook.sources)}};
  for (const char* list : {"linear_system", "solution", "free_axes", "dropped_guards", "existence", "derivation"})
    json[list] = Json::array();
  return json;
}

}  // namespace

int runGrad(const GradOptions& options) {
  WorkingLine working("deriving gradients", options.json);
  const Loaded loaded = loadNotebook(options);
  if (!presentable(loaded, options.json)) return loaded.exitCode;
  const auto find = [&](const std::string& name) -> Result<TensorId> {
    const TensorId id = loaded.notebook.tensorNamed(name);
    if (id.valid()) return id;
    for (const Symbol& s : loaded.notebook.symbols)
      if (s.name == name && (s.kind == Symbol::Kind::Extent || s.kind == Symbol::Kind::Function || s.kind == Symbol::Kind::Data))
        return Error{"grad",
                     name + " is " +
                         (s.kind == Symbol::Kind::Extent ? "a number"
                          : s.kind == Symbol::Kind::Data ? "a data set"
                                                         : "a function") +
                         ", a gradient is of tensors.",
                     {},
                     {}};
    return missingTensor(loaded.notebook, "grad", name);
  };
  const auto of = find(options.output), wrt = find(options.input);
  if (!of) return report(of.error(), options.json, kExitWrongInput);
  if (!wrt) return report(wrt.error(), options.json, kExitWrongInput);

  InvertOptions invert;
  invert.explain = options.explain;
  CompileOptions compiled;
  if (auto sets = parseSets(options.sets)) compiled.sets = std::move(*sets);
  auto made = gradientText(loaded.notebook, *of, *wrt, invert, compiled);
  if (!made) return report(made.error(), options.json, kExitInternal);
  const DifferentiateResult& d = made->differentiated;
  if (hasErrors(d.diagnostics)) {
    if (options.json) printJson({{"ok", false}, {"diagnostics", toJson(d.diagnostics, loaded.notebook.sources)}});
    else std::cerr << render(d.diagnostics, loaded.notebook.sources);
    return kExitWrongInput;
  }

  const std::string& text = made->text;
  const Program& program = loaded.notebook.program;
  std::optional<Result<protocol::NumericCheck>> check;
  std::vector<Span> held, choices;
  if (options.check) {
    working.now("checking the gradient by central differences");
    auto checker =
        NumericChecker::prepare(d.program, *of, *wrt, made->result, made->seed, kSampleOperations,
                                {loaded.notebook.sources.at(loaded.notebook.notebook).directory, loaded.notebook.randomSeed()});
    check = checker ? checker->goOn(kRoundOperations, {}) : Result<protocol::NumericCheck>(checker.error());
    if (checker) {
      for (double spent = kRoundOperations; *check && !checker->done() && spent < kCheckOperations; spent += kRoundOperations) {
        working.now("checking the gradient by central differences, " + std::to_string((*check)->samples) + " of " +
                    std::to_string((*check)->wanted) + " samples");
        check = checker->goOn(kRoundOperations, {});
      }
      held = checker->held();
      choices = checker->choices();
    }
  }
  working.end();
  const bool passed = !check || (*check && (*check)->refuted == 0);
  // A gradient that nothing was compared with is not wrong.
  const int exitCode = passed ? kExitFine : *check ? kExitWrongInput : kExitUsage;
  if (options.json) {
    Json terms = Json::array();
    for (const GradientTerm& term : d.terms) {
      terms.push_back(explanationJson(d.program, term, loaded.notebook.sources));
      const Program& forward = bodyAt(d.program, term.forwardLoops);
      const auto placeOf = [&](OriginId origin) {
        return place(origin.valid() ? forward[origin].span : Span{}, loaded.notebook.sources);
      };
      terms.back()["place"] = placeOf(term.access.valid() ? forward[term.access].origin : forward[term.tensor].origin);
      if (term.cut.valid()) terms.back()["cut"] = placeOf(term.cut);
    }
    for (const FoldedAccess& f : foldedBehind(loaded.notebook, *wrt)) terms.push_back(foldedJson(loaded.notebook, f));
    Json json{{"ok", passed},
              {"text", text},
              {"stands_alone", made->whole},
              {"output", {{"asked", options.output}, {"tensor", program[*of].name}}},
              {"input", {{"asked", options.input}, {"tensor", program[*wrt].name}}},
              {"terms", std::move(terms)},
              {"diagnostics", toJson(d.diagnostics, loaded.notebook.sources)}};
    if (check) {
      if (*check) {
        json["check"] = checkJson(**check, choices, loaded.notebook.sources);
        json["check"]["held_at"] = Json::array();
        for (const Span span : held) json["check"]["held_at"].push_back(place(span, loaded.notebook.sources));
      } else json["check"] = {{"unavailable", check->error().message}};
    }
    printJson(json);
    return exitCode;
  }
  std::cout << (made->whole ? "# stands alone, as a notebook of its own\n"
                            : "# belongs behind the notebook, in a cell of its own\n");
  // A name that stands for what a loop or another statement made goes by the maker's.
  for (const auto& [asked, tensor] : {std::pair{&options.output, *of}, {&options.input, *wrt}})
    if (program[tensor].name != *asked)
      std::cout << "# " << quotedName(program[tensor].name) << " is what " << *asked << " is at the end of the notebook\n";
  std::cout << text;
  if (!d.diagnostics.empty()) std::cerr << render(d.diagnostics, loaded.notebook.sources);
  // What is zero by rule is said, whether somebody asks how the others were made or not.
  for (const GradientTerm& term : d.terms)
    if (options.explain || (term.form == GradientTerm::Form::Zero && !term.why.empty()))
      std::cout << (options.explain ? "\n" : "") << explanationText(d.program, term, loaded.notebook.sources);
  if (options.explain)
    for (const FoldedAccess& f : foldedBehind(loaded.notebook, *wrt))
      std::cout << "\n# " << loaded.notebook.sources.text(f.access) << " in " << f.reader << ": empty, "
                << whyFolded(f, loaded.notebook.sources) << "\n";
  if (check && *check) std::cout << "\n" << checkText(**check, held, choices, loaded.notebook.sources);
  if (check && !*check)
    return report({"check", "Nothing was compared: " + check->error().message, {}, check->error().detail}, false, kExitUsage);
  return exitCode;
}

}  // namespace nf
