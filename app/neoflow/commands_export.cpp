// SPDX-License-Identifier: Apache-2.0
// export: a notebook in another form.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "app/neoflow/commands.h"
#include "app/neoflow/notebook_html.h"
#include "app/neoflow/stop_on_signal.h"
#include "app/neoflow/value_text.h"
#include "app/neoflow/working_line.h"
#include "core/ir/serialize.h"
#include "core/ir/structural_hash.h"
#include "core/lang/dot.h"
#include "core/runtime/checkpoint.h"
#include "core/runtime/data_file.h"
#include "core/runtime/meaning.h"
#include "core/runtime/pipeline.h"
#include "core/runtime/report.h"
#include "core/runtime/run.h"
#include "core/runtime/run_folder.h"
#include "core/schedule/generator.h"
#include "core/tune/tune_program.h"

namespace nf {
namespace {

namespace fs = std::filesystem;

std::string quotedForShell(const fs::path& path) {
  std::string text = "'";
  for (const char c : path.string()) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// Graphviz draws; it is a tool of its own and never linked.
Result<Unit> drawSvg(const fs::path& dot, const fs::path& svg) {
  if (programNamed("dot").empty())
    return Error{"export",
                 "Graphviz is needed to draw the graph: install the package graphviz. Its text is in " + dot.string() + ".",
                 {},
                 {}};
  const std::string fresh = svg.string() + ".new-" + std::to_string(::getpid());
  // By the shell's own opening of files: a name that begins with a dash is no option.
  const int status = std::system(("dot -Tsvg <" + quotedForShell(dot) + " >" + quotedForShell(fresh) + " 2>/dev/null").c_str());
  std::error_code error;
  if (status == 0) fs::rename(fresh, svg, error);
  if (status == 0 && !error) return Unit{};
  fs::remove(fresh, error);
  return Error{"export", "The file " + svg.string() + " was not written: dot ended with an error.", {}, {}};
}

std::string safeFileName(const std::string& name) {
  std::string out;
  for (const char c : name)
    out.push_back(std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' ? c : '_');
  return out.substr(0, 80);
}

// Is a loss computed as the run computed it? Then what it learnt means the same, however long or by which kernels it trained, and what was
// renamed since is given by its name then. Empty: it is not.
std::optional<std::map<std::string, std::string>> learntNames(const CompiledNotebook& notebook, const std::string& run) {
  std::error_code none;
  const std::string file = run + "/checkpoint.safetensors";
  const auto checkpoint = fs::exists(file, none) ? readCheckpoint(file) : Result<Checkpoint>(Error{});
  if (!checkpoint || checkpoint->places.empty()) return std::nullopt;
  const auto sorted = [](const std::map<std::string, std::string>& places) {
    std::multiset<std::string> out;
    for (const auto& [name, place] : places) out.insert(place);
    return out;
  };
  for (const TrainSettings& train : notebook.trains) {
    const auto places = parameterPlaces(notebook.program, notebook.tensorNamed(train.loss));
    if (sorted(places) == sorted(checkpoint->places)) return renamedParameters(checkpoint->places, places);
  }
  return std::nullopt;
}

// `run`: the folder of the newest run that what is computed may go on from; empty: there is none.
Result<ShownValues> shownValues(BackendRegistry& registry, const ExportOptions& options, const CompiledNotebook& notebook,
                                const std::map<std::string, std::string>& sets, const std::string& run,
                                const std::map<std::string, std::string>& renamed, std::stop_token stop) {
  ShownValues values;
  const bool any = std::ranges::any_of(notebook.cells, [](const CellInfo& c) { return !c.shows.empty(); });
  if (!any) return values;
  auto context = openDevice(registry, options.device);
  if (!context) return context.error();
  RunOptions asked;
  asked.source = notebook.sources.at(notebook.notebook);
  asked.sets = sets;
  asked.tensors = {"shown"};
  std::error_code none;
  if (!run.empty() && fs::exists(run + "/checkpoint.safetensors", none))
    asked.weights = run + "/checkpoint.safetensors", asked.renamed = renamed;
  RunJob job(**context, asked);
  NF_TRY(const bool prepared, job.prepare(stop));
  if (!prepared) return stopped();
  NF_TRY([[maybe_unused]] const Unit ran, job.run(false, stop));
  for (std::size_t i = 0; i < notebook.cells.size(); ++i)
    for (const TensorId t : notebook.cells[i].shows) {
      const auto output = std::ranges::find_if(notebook.program.outputs, [&](const Output& o) { return o.tensor == t; });
      const std::string& name = notebook.program[t].name;
      NF_TRY(const HostTensor tensor, job.tensorOfProgram(name));
      for (std::string& line : valueLines(output == notebook.program.outputs.end() ? name : output->name, tensor))
        values.lines[i].push_back(std::move(line));
    }
  const bool learns = std::ranges::any_of(notebook.program.tensors, [](const Tensor& t) { return t.kind == TensorKind::Param; });
  if (learns)
    values.note = asked.weights.empty() ? "Values are those with the initial weights."
                                        : "Values are those with the weights of the newest run.";
  return values;
}

// What kernels are generated for. CUDA's without a device are for an architecture that most cards run.
Result<Target> targetOf(BackendRegistry& registry, const ExportOptions& options) {
  if (options.to != "cuda") {
    Backend* cpu = registry.find("cpu");
    if (!cpu) return Error{"export", "There is no CPU back end: see `neoflow doctor`.", {}, {}};
    return cpu->target("cpu", 1);
  }
  Backend* cuda = registry.generator("cuda");
  if (!cuda) return Error{"export", "This neoflow was built without the CUDA back end.", {}, {}};
  if (options.device.device.starts_with("cuda")) return cuda->target(options.device.device, 1);
  return cuda->target(registry.find("cuda") ? "cuda:0" : "cuda:sm_80", 1);
}

}  // namespace

int runExport(BackendRegistry& registry, const ExportOptions& options) {
  const auto stage = stageNamed(options.stage);
  if (!stage || *stage > Stage::Fused)
    return report({"usage",
                   "There is no stage \"" + options.stage +
                       "\" to export: source, differentiated, transformed, partitioned, fused. `neoflow show` has scheduled and "
                       "lowered, too.",
                   {},
                   {}},
                  options.json, kExitUsage);
  if (options.values && options.to != "html")
    return report({"usage", "--values is of a page: it goes with --to html.", {}, {}}, options.json, kExitUsage);
  if (!options.as.empty() && options.file != "-")
    return report({"usage", "--as says which file standard input is an edit of: it goes with - in place of FILE.", {}, {}},
                  options.json, kExitUsage);
  const std::string& file = options.as.empty() ? options.file : options.as;
  const bool cuda = options.to == "cuda", kernels = cuda || options.to == "llvm";
  const std::string& device = options.device.device;
  if (kernels && device != "auto" && device.substr(0, device.find(':')) != (cuda ? "cuda" : "cpu"))
    return report(
        {"usage", "--to " + options.to + " makes kernels for " + (cuda ? "cuda" : "cpu") + ", not for " + device + ".", {}, {}},
        options.json, kExitUsage);
  const Loaded loaded = loadNotebook(options, options.compiled());
  if (!loaded.ok()) {
    if (!loaded.notebook.diagnostics.empty())
      return tellMistakes(loaded.notebook.diagnostics, loaded.notebook.sources, options.file, options.json);
    return loaded.exitCode;
  }
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error) return report({"export", "The folder " + options.folder + " can't be made.", {}, error.message()}, options.json);
  // Before any thread, which would inherit what is masked.
  std::optional<StopOnSignal> signals;
  if (options.values) signals.emplace();
  WorkingLine working("deriving gradients and deciding on fusion", options.json);
  StageOptions passes;
  if (signals) passes.invert.stop = signals->token();
  auto target = targetOf(registry, options);
  if (target) {
    passes.device = deviceConstants(*target);
    passes.target = std::make_shared<const Target>(*target);
  }
  // What is drawn is what trains.
  if (!kernels) {
    if (const auto context = trainingDevice(registry, passes, false)) target = *context->target();
  } else if (!target) {
    return report(target.error(), options.json, exitCodeOf(target.error()));
  }
  const auto both = notebookStages(loaded.notebook, decidedProgram(loaded.notebook, options.which - 1), passes);
  if (!both) return report(both.error(), options.json, kExitInternal);
  if (hasErrors(both->whole->diagnostics))
    return tellMistakes(both->whole->diagnostics, loaded.notebook.sources, options.file, options.json);
  const Stages* const stages = both->decided.get();
  const auto drawn = [&]() -> const Program& { return *(*stage == Stage::Fused ? stages : both->whole.get())->at(*stage); };
  const std::string stem = file == "-" ? "notebook" : fs::path(file).stem().string();
  const fs::path folder = options.folder;
  std::vector<std::string> written;
  const auto write = [&](const fs::path& path, const std::string& text) -> Result<Unit> {
    auto whole = writeFileAtomically(path.string(), text);
    if (!whole) return Error{"export", whole.error().message + ".", {}, {}};
    written.push_back(path.string());
    return whole;
  };
  Result<Unit> done = Unit{};
  if (options.to == "html") {
    std::string run;
    if (auto newest = newestRun(file + ".out"); file != "-" && newest) run = std::move(*newest);
    std::string training;
    ReportOptions page;
    for (const TrainSettings& train : loaded.notebook.trains) page.meanings.push_back(trainMeaning(loaded.notebook, train));
    if (!run.empty()) {
      page.title = fs::path(file).filename().string();
      if (const auto peer = peerBeside(file)) {
        page.peerName = peer->name;
        page.peerStepMilliseconds = peer->stepMilliseconds;
      }
      if (const auto html = htmlOfRun(run, page)) training = *html;
    }
    CompileOptions compiled;
    if (auto sets = parseSets(options.sets)) compiled.sets = std::move(*sets);
    ShownValues values;
    if (options.values) {
      const auto learnt = run.empty() ? std::nullopt : learntNames(loaded.notebook, run);
      auto computed = shownValues(registry, options, loaded.notebook, compiled.sets, learnt ? run : std::string(),
                                  learnt.value_or(std::map<std::string, std::string>()), signals->token());
      if (!computed && isStopped(computed.error())) return report(computed.error(), options.json);
      if (computed) values = std::move(*computed);
      else values.note = "What the cells show was not computed: " + computed.error().message;
      if (!computed) std::cerr << values.note << "\n";
    }
    const GradientsText gradients = gradientsText(loaded.notebook, *both->whole->differentiated, compiled);
    done = write(folder / (stem + ".html"),
                 notebookHtml(loaded.notebook, *both, passes.device,
                              target ? intervalsText(measurementOf(registry, *target)) : std::string(), training, gradients, values,
                              file == "-" ? fs::path() : fs::path(file).parent_path()));
  } else if (options.to == "json") {
    done = write(folder / (stem + ".json"), toJson(drawn()).dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (options.to == "dot" || options.to == "svg") {
    const fs::path dot = folder / (stem + ".dot");
    done = write(dot, toDot(drawn()));
    if (done && options.to == "svg") {
      done = drawSvg(dot, folder / (stem + ".svg"));
      if (done) written.push_back((folder / (stem + ".svg")).string());
    }
  } else {
    // Code generation may end its process; it is asked for in a worker.
    CompileService service({});
    std::set<Hash> seen;
    struct Asked {
      std::string name;
      std::map<std::string, std::string> extensions;  // by text
      std::string generator;                          // that was asked for; empty: the back end has one
      std::future<CompileOutcome> outcome;
    };
    std::vector<Asked> jobs;
    std::optional<Error> failed;
    forEachKernel(*stages->fused, [&](const KernelSite& site) {
      auto subgraph = site.extractor.extract(site.group.operators);
      if (failed || !seen.insert(subgraph.hash).second) return;
      auto space = scheduleSpace(subgraph.program, *target);
      if (!space) {
        failed = space.error();
        return;
      }
      Schedule schedule = (*space)->first();
      if (const Hint* hint = pinOf(stages->fused->hints, site.program, site.group.operators)) {
        auto pinned = pinnedSchedule(*hint, subgraph.program, &*target);
        if (!pinned) {
          failed = pinned.error();
          return;
        }
        schedule = std::move(*pinned);
      }
      CompileJob job;
      job.hash = subgraph.hash;
      job.subgraph = std::make_shared<const Program>(std::move(subgraph.program));
      job.target = std::make_shared<const Target>(*target);
      const std::string name = std::to_string(seen.size() - 1) + "-" + safeFileName(site.group.name);
      const auto ask = [&](const Schedule& asked, const std::string& generator, std::map<std::string, std::string> extensions) {
        job.schedules = {asked};
        job.texts.clear();
        for (const auto& [language, extension] : extensions) job.texts.push_back(language);
        jobs.push_back({name, std::move(extensions), generator, service.compile(job)});
      };
      if (cuda) {
        ask(withGenerator(schedule, "nvrtc"), "nvrtc", {{"cuda", ".cu"}, {"loops", ".loops"}, {"ptx", ".ptx"}});
        if (generatorsOf(schedule.kind).size() > 1)
          ask(withGenerator(schedule, "llvm"), "llvm", {{"llvm", ".ll"}, {"loops", ".loops"}, {"ptx", ".llvm.ptx"}});
      } else {
        ask(schedule, "", {{"asm", ".s"}, {"llvm", ".ll"}, {"loops", ".loops"}});
      }
    });
    if (failed) return report(*failed, options.json);
    std::set<std::string> made;
    for (Asked& job : jobs) {
      const CompileOutcome outcome = job.outcome.get();
      if (!outcome.kernel) return report(outcome.kernel.error(), options.json);
      // What one generator cannot serve the other did, and does again under its own name.
      if (outcome.kernel->generator != job.generator) continue;
      for (const auto& [language, text] : outcome.kernel->texts) {
        const std::string file = job.name + job.extensions.at(language);
        if (!made.insert(file).second) continue;
        done = write(folder / file, text.text);
        if (!done) break;
      }
      if (!done) break;
    }
  }
  if (!done) return report(done.error(), options.json);
  if (options.json) std::cout << nlohmann::json{{"ok", true}, {"files", written}}.dump() << "\n";
  else
    for (const std::string& file : written) std::cout << file << "\n";
  return kExitFine;
}

}  // namespace nf
