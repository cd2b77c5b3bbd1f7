// SPDX-License-Identifier: Apache-2.0
// bench FILE|all: a notebook's training step, or what its cells show, on this machine.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "app/neoflow/commands.h"
#include "app/neoflow/stop_on_signal.h"
#include "core/runtime/report.h"
#include "core/runtime/run.h"
#include "core/runtime/train.h"
#include "core/support/row_names.h"

namespace nf {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

struct Measured {
  std::string what;  // "training step of L"
  double milliseconds = 0, spread = 0;
  std::optional<double> atFirst;  // with the first kernels, where they get better
};

// Median, and half the distance of the quartiles.
std::pair<double, double> medianAndSpread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {values[n / 2], (values[n * 3 / 4] - values[n / 4]) / 2};
}

// The notebooks that come with the program: beside an installed one, or in the tree it was built in.
std::vector<std::string> bundledNotebooks() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  for (fs::path folder = self.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    for (const char* place : {"share/neoflow/examples", "examples"}) {
      if (!fs::exists(folder / place / "welcome.nf", error)) continue;
      std::set<std::string> files;
      for (const auto& entry : fs::directory_iterator(folder / place, error))
        if (entry.path().extension() == ".nf" && entry.is_regular_file(error)) files.insert(entry.path().string());
      return {files.begin(), files.end()};
    }
    if (folder == folder.root_path()) break;
  }
  return {};
}

Result<Measured> measureTraining(DeviceContext& context, const CompiledNotebook& notebook, const BenchOptions& options,
                                 const std::map<std::string, std::string>& sets, std::stop_token stop) {
  TrainOptions train;
  train.source = notebook.sources.at(notebook.notebook);
  train.sets = sets;
  train.seconds = options.seconds;
  train.evaluate = false;
  std::vector<std::pair<double, double>> steps;  // seconds, milliseconds
  TrainJob job(context, train, [&](const protocol::Message& m) {
    if (const auto* s = std::get_if<protocol::StepEvent>(&m)) steps.emplace_back(s->seconds, s->ms);
  });
  NF_TRY(const TrainSummary summary, job.run(stop));
  if (stop.stop_requested() || steps.empty()) return stopped();
  std::vector<double> last;
  for (const auto& [seconds, ms] : steps)
    if (seconds >= steps.back().first / 2) last.push_back(ms);
  return Measured{"training step of " + notebook.trains.front().loss, summary.done.median_step_ms_last_tenth,
                  medianAndSpread(last).second, summary.done.median_step_ms_first_tenth};
}

Result<Measured> measureShown(DeviceContext& context, const CompiledNotebook& notebook, const BenchOptions& options,
                              const std::map<std::string, std::string>& sets, std::stop_token stop) {
  RunOptions run;
  run.source = notebook.sources.at(notebook.notebook);
  run.sets = sets;
  run.tensors = {"shown"};
  RunJob job(context, run);
  NF_TRY(const bool prepared, job.prepare(stop));
  if (!prepared) return stopped();
  if (job.names().empty()) return Error{"bench", "The notebook neither trains nor shows anything.", {}, {}};
  std::vector<double> times;
  const auto begin = std::chrono::steady_clock::now();
  const auto since = [](auto start) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  while (times.size() < 9 || since(begin) < options.seconds) {
    const auto start = std::chrono::steady_clock::now();
    NF_TRY([[maybe_unused]] const Unit ran, job.run(false, stop));
    times.push_back(since(start) * 1e3);
  }
  times.erase(times.begin(), times.begin() + 2);  // they touch memory for the first time
  const auto [median, spread] = medianAndSpread(times);
  return Measured{"what cells show", median, spread, {}};
}

// A notebook's training step with the kernels that are recorded for it, nothing searched. Answers every line {"seconds": 0.5} on standard
// input with one line, until there are no more: somebody else times another program between them.
int serveTurns(DeviceContext& context, const CompiledNotebook& notebook, const BenchOptions& options,
               const std::map<std::string, std::string>& sets, std::stop_token stop) {
  RunOptions run;
  run.source = notebook.sources.at(notebook.notebook);
  run.sets = sets;
  run.trainStep = 0;
  RunJob job(context, run);
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const auto began = Clock::now();
  const auto prepared = job.prepare(stop);
  if (!prepared) return report(prepared.error(), true);
  if (!*prepared) return report(stopped(), true);
  const auto steps = [&](std::int64_t count) -> Result<double> {
    const auto start = Clock::now();
    for (std::int64_t n = 0; n < count; ++n) { NF_TRY([[maybe_unused]] const Unit ran, job.run(false, stop)); }
    NF_TRY([[maybe_unused]] const Unit ended, context.device().synchronize());
    return since(start) / static_cast<double>(count);
  };
  for (int n = 0; n < 2; ++n)  // they touch memory for the first time
    if (const auto first = steps(1); !first) return report(first.error(), true);
  std::cout
      << Json{{"ready", true}, {"prepare_ms", since(began) * 1e3}, {"kernels", job.executable().plan().subgraphs.size()}}.dump()
      << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const Json asked = Json::parse(line, nullptr, false);
    const bool own = asked.is_object() && asked.contains("seconds");
    if (!asked.is_object() || (own && !(asked["seconds"].is_number() && asked["seconds"].get<double>() > 0))) {
      std::cout << Json{{"error", "A line is {} or {\"seconds\": 1.5}."}}.dump() << std::endl;
      continue;
    }
    const double seconds = own ? asked["seconds"].get<double>() : options.seconds;
    const auto once = steps(1);
    if (!once) return report(once.error(), true);
    // Of short steps many a sample, so that waiting for the device costs nothing.
    const std::int64_t count = std::clamp<std::int64_t>(static_cast<std::int64_t>(2e-3 / std::max(*once, 1e-7)), 1, 200);
    std::vector<double> times;
    const auto start = Clock::now();
    while (times.size() < 3 || since(start) < seconds) {
      const auto taken = steps(count);
      if (!taken) return report(taken.error(), true);
      times.push_back(*taken * 1e3);
    }
    const auto [median, spread] = medianAndSpread(times);
    std::cout
        << Json{{"ms", median}, {"spread", spread / median}, {"steps", static_cast<std::int64_t>(times.size()) * count}}.dump()
        << std::endl;
  }
  return kExitFine;
}

}  // namespace

int runBench(BackendRegistry& registry, const BenchOptions& options) {
  const auto sets = parseSets(options.sets);
  if (!sets) return report(sets.error(), options.json, kExitUsage);
  const std::vector<std::string> files = options.file == "all" ? bundledNotebooks() : std::vector{options.file};
  if (files.empty()) return report({"bench", "There are no examples beside this program: name a notebook.", {}, {}}, options.json);
  const StopOnSignal signals;
  DeviceContextOptions device;
  device.device = options.device.device;
  device.threads = options.device.threads;
  auto context = DeviceContext::open(registry, device);
  if (!context) return report(context.error(), options.json, exitCodeOf(context.error()));
  const Target& target = *(*context)->target();
  Json rows = Json::array();
  bool headed = options.json;
  std::size_t width = 4;
  for (const std::string& file : files) width = std::max(width, columnsOf(fs::path(file).stem().string()) + 24);
  for (const std::string& file : files) {
    FileOptions one = options;
    one.file = file;
    const Loaded loaded = loadNotebook(one);
    if (!loaded.ok())
      return loaded.notebook.diagnostics.empty()
                 ? loaded.exitCode
                 : tellMistakes(loaded.notebook.diagnostics, loaded.notebook.sources, file, options.json);
    if (options.turns) {
      if (loaded.notebook.trains.empty())
        return report({"bench", "--turns measures training steps, and this notebook trains nothing.", {}, {}}, true, kExitUsage);
      return serveTurns(**context, loaded.notebook, options, *sets, signals.token());
    }
    const auto measured = loaded.notebook.trains.empty()
                              ? measureShown(**context, loaded.notebook, options, *sets, signals.token())
                              : measureTraining(**context, loaded.notebook, options, *sets, signals.token());
    if (!measured) return report(measured.error(), options.json, exitCodeOf(measured.error()));
    const auto peer = peerBeside(file);
    const std::string name = fs::path(file).stem().string() + ", " + measured->what;
    if (options.json) {
      rows.push_back({{"case", name},
                      {"ours_ms", measured->milliseconds},
                      {"spread", measured->spread},
                      {"at_first_ms", measured->atFirst ? Json(*measured->atFirst) : Json(nullptr)},
                      {"peer", peer ? Json(peer->name) : Json(nullptr)},
                      {"peer_ms", peer ? Json(peer->stepMilliseconds) : Json(nullptr)},
                      {"ratio", peer ? Json(peer->stepMilliseconds / measured->milliseconds) : Json(nullptr)}});
      continue;
    }
    if (!headed)
      std::printf("%s\n%s %10s %10s %10s   %s\n", (*context)->device().description().c_str(), padded("case", width).c_str(), "ms",
                  "spread", "at first", "peer, its ms, ratio of speeds");
    headed = true;
    std::printf("%s %10.4f %10.4f ", padded(name, width).c_str(), measured->milliseconds, measured->spread);
    if (measured->atFirst) std::printf("%10.4f", *measured->atFirst);
    else std::printf("%10s", "-");
    if (peer)
      std::printf("   %s (recorded), %.4f, %.2f", peer->name.c_str(), peer->stepMilliseconds,
                  peer->stepMilliseconds / measured->milliseconds);
    std::printf("\n");
    std::fflush(stdout);
  }
  if (options.json)
    std::cout << Json{{"machine",
                       {{"description", (*context)->device().description()},
                        {"device", (*context)->device().name()},
                        {"P_c", target.peakFlops},
                        {"P_d", target.peakBandwidth},
                        {"L", target.launchSeconds},
                        {"threads", target.threads}}},
                      {"rows", rows}}
                     .dump(-1, ' ', false, Json::error_handler_t::replace)
              << "\n";
  return kExitFine;
}

}  // namespace nf
