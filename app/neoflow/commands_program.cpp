// SPDX-License-Identifier: Apache-2.0
// check, show, grad, explain: what a notebook means, without running it.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/neoflow/commands.h"
#include "core/autodiff/differentiate.h"
#include "core/ir/serialize.h"
#include "core/lang/dot.h"
#include "core/runtime/pipeline.h"

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

Json toJson(const Diagnostics& diagnostics, const SourceMap& sources) {
  Json list = Json::array();
  for (const Diagnostic& d : diagnostics) list.push_back(toJson(d, sources));
  return list;
}

// Prints what is wrong; true when nothing is.
bool presentable(const Loaded& loaded, bool json) {
  if (loaded.ok()) return true;
  if (loaded.notebook.diagnostics.empty()) return false;
  if (json) printJson({{"ok", false}, {"diagnostics", toJson(loaded.notebook.diagnostics, loaded.notebook.sources)}});
  else std::cerr << render(loaded.notebook.diagnostics, loaded.notebook.sources);
  return false;
}

}  // namespace

int runCheck(const FileOptions& options) {
  const Loaded loaded = loadNotebook(options);
  const CompiledNotebook& notebook = loaded.notebook;
  if (!loaded.ok() && notebook.diagnostics.empty()) return loaded.exitCode;
  // A gradient that can't be made is a mistake of the source too.
  Diagnostics diagnostics = notebook.diagnostics;
  if (loaded.ok()) {
    auto differentiated = differentiate(notebook.program);
    if (!differentiated) return report(differentiated.error(), options.json, kExitInternal);
    diagnostics.insert(diagnostics.end(), differentiated->diagnostics.begin(), differentiated->diagnostics.end());
  }
  const bool ok = !hasErrors(diagnostics);
  if (options.json) {
    printJson({{"ok", ok}, {"diagnostics", toJson(diagnostics, notebook.sources)}});
  } else {
    std::cerr << render(diagnostics, notebook.sources);
    std::size_t errors = 0;
    for (const Diagnostic& d : diagnostics) errors += d.severity == Severity::Error;
    if (ok)
      std::cout << options.file << ": fine, " << notebook.program.operators.size()
                << (notebook.program.operators.size() == 1 ? " operator\n" : " operators\n");
    else std::cout << options.file << ": " << errors << (errors == 1 ? " error\n" : " errors\n");
  }
  return ok ? kExitFine : kExitWrongInput;
}

namespace {

// The chain of passes up to `stage`; prints what is wrong and yields null where it can't go so far.
std::shared_ptr<const Stages> stagesOf(const CompiledNotebook& notebook, const StageOptions& options, Stage stage, bool json,
                                       int& exitCode) {
  auto stages = runStages(std::make_shared<const Program>(notebook.program), options, stage);
  if (!stages) {
    exitCode = report(stages.error(), json, kExitInternal);
    return nullptr;
  }
  if (hasErrors(stages->diagnostics)) {
    if (json) printJson({{"ok", false}, {"diagnostics", toJson(stages->diagnostics, notebook.sources)}});
    else std::cerr << render(stages->diagnostics, notebook.sources);
    exitCode = kExitWrongInput;
    return nullptr;
  }
  return std::make_shared<const Stages>(std::move(*stages));
}

}  // namespace

int runShow(const ShowOptions& options) {
  const auto stage = stageNamed(options.stage);
  if (!stage || *stage > Stage::Fused)
    return report(
        {"usage", "There is no stage \"" + options.stage + "\": source, differentiated, transformed, partitioned, fused.", {}, {}},
        false, kExitUsage);
  CompileOptions compile;
  compile.training = !options.evaluation;
  const Loaded loaded = loadNotebook(options, compile);
  if (!presentable(loaded, options.json)) return loaded.exitCode;
  StageOptions passes;
  passes.verify = true;
  int exitCode = kExitFine;
  const auto stages = stagesOf(loaded.notebook, passes, *stage, options.json, exitCode);
  if (!stages) return exitCode;
  const Program& program = *stages->at(*stage);
  if (options.json) printJson(toJson(program));
  else if (options.dot) std::cout << toDot(program);
  else std::cout << toText(program);
  return kExitFine;
}

int runExplain(const FileOptions& options, const BackendRegistry& registry) {
  const Loaded loaded = loadNotebook(options);
  if (!presentable(loaded, options.json)) return loaded.exitCode;
  StageOptions passes;
  if (Backend* cpu = registry.find("cpu"))
    if (const auto target = cpu->target("cpu", static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))))
      passes.device = deviceConstants(*target);
  int exitCode = kExitFine;
  const auto stages = stagesOf(loaded.notebook, passes, Stage::Fused, options.json, exitCode);
  if (!stages) return exitCode;
  if (options.json) printJson(toJson(stages->decisions, passes.device));
  else
    std::cout << toText(stages->decisions, passes.device) << "\n"
              << stages->partitioned->operators.size() << " operators in " << stages->fused->groups.size() << " kernels\n";
  return kExitFine;
}

int runGrad(const GradOptions& options) {
  Loaded loaded = loadNotebook(options);
  if (!presentable(loaded, options.json)) return loaded.exitCode;
  Program program = loaded.notebook.program;
  const auto find = [&](const std::string& name) -> Result<TensorId> {
    const TensorId id = loaded.notebook.tensorNamed(name);
    if (id.valid()) return id;
    std::string known;
    for (const Tensor& t : program.tensors)
      if (known.size() < 400) known += (known.empty() ? "" : ", ") + t.name;
    return Error{"grad", "There is no tensor " + name + ".", {}, "Tensors here: " + known};
  };
  const auto of = find(options.output), wrt = find(options.input);
  if (!of) return report(of.error(), options.json, kExitWrongInput);
  if (!wrt) return report(wrt.error(), options.json, kExitWrongInput);

  // Only this derivative: others that the notebook asks for would print operators nobody asked about.
  program.derivatives.clear();
  program.updates.clear();
  Derivative derivative;
  derivative.of = *of;
  derivative.wrt = *wrt;
  std::string seedText;
  if (!program[*of].shape.empty()) {
    Tensor seed;
    seed.name = program.freshName("d" + program[*of].name);
    seed.kind = TensorKind::Input;
    seed.type = program[*of].type;
    seed.shape = program[*of].shape;
    derivative.seed = program.addTensor(std::move(seed));
  }
  Tensor result;
  result.name = "d(" + program[*of].name + ")/d(" + program[*wrt].name + ")";
  result.type = program[*wrt].type;
  result.shape = program[*wrt].shape;
  const TensorId existing = program.tensorNamed(result.name);
  derivative.result = existing.valid() ? existing : program.addTensor(std::move(result));
  program.derivatives.push_back(derivative);
  const std::size_t forwardOperators = program.operators.size();

  InvertOptions invert;
  invert.explain = options.explain;
  auto differentiated = differentiate(program, invert);
  if (!differentiated) return report(differentiated.error(), options.json, kExitInternal);
  const DifferentiateResult& d = *differentiated;
  if (hasErrors(d.diagnostics)) {
    if (options.json) printJson({{"ok", false}, {"diagnostics", toJson(d.diagnostics, loaded.notebook.sources)}});
    else std::cerr << render(d.diagnostics, loaded.notebook.sources);
    return kExitWrongInput;
  }

  std::string text;
  if (derivative.seed.valid()) {
    const Tensor& seed = d.program[derivative.seed];
    text += "input " + seed.name + "[";
    for (std::size_t k = 0; k < seed.shape.size(); ++k) text += (k ? ", " : "") + std::to_string(seed.shape[k]);
    text += "]\n";
  }
  for (std::size_t i = 0; i < d.program.operators.size(); ++i)
    if (d.program.operators[i].phase == Phase::Backward || i >= forwardOperators) text += toText(d.program, OperatorId(i)) + "\n";

  const auto formName = [](GradientTerm::Form form) {
    switch (form) {
      case GradientTerm::Form::Gather: return "gather";
      case GradientTerm::Form::Scatter: return "scatter";
      case GradientTerm::Form::Zero: return "zero";
    }
    return "";
  };
  if (options.json) {
    Json terms = Json::array();
    for (const GradientTerm& term : d.terms) {
      Json steps = Json::array();
      for (const Inverse::Step& step : term.inverse.derivation) steps.push_back({{"title", step.title}, {"lines", step.lines}});
      terms.push_back({{"forward", d.program[term.forward].name},
                       {"tensor", d.program[term.tensor].name},
                       {"form", formName(term.form)},
                       {"why", term.why},
                       {"trips", term.inverse.tripsPerZ},
                       {"certified", term.form == GradientTerm::Form::Gather},
                       {"certificate_ms", term.inverse.certificateMilliseconds},
                       {"derivation", steps}});
    }
    printJson({{"ok", true}, {"text", text}, {"terms", terms}});
    return kExitFine;
  }
  std::cout << text;
  if (options.explain)
    for (const GradientTerm& term : d.terms) {
      std::cout << "\n# " << d.program[term.tensor].name << " in " << d.program[term.forward].name << ": " << formName(term.form)
                << (term.why.empty() ? "" : ", " + term.why) << "\n";
      for (const Inverse::Step& step : term.inverse.derivation) {
        std::cout << "#   " << step.title << "\n";
        for (const std::string& line : step.lines) std::cout << "#     " << line << "\n";
      }
    }
  return kExitFine;
}

}  // namespace nf
