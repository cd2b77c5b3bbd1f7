// SPDX-License-Identifier: Apache-2.0
#include "app/neoflow/bench_check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "app/neoflow/stop_on_signal.h"
#include "core/device/moved_reference.h"
#include "core/device/reference.h"
#include "core/runtime/data_feed.h"
#include "core/runtime/prepared.h"
#include "core/runtime/step_program.h"
#include "core/schedule/schedule.h"
#include "core/support/row_names.h"

namespace nf {
namespace {

using Json = nlohmann::json;

// A result may be off by so many times its tensor's largest element: the roundings of sums in single precision, in any order.
constexpr double kOfLargest = 2e-6;
// And by so many times what it moves where every input and every operator's results move by a few of their own last places: badly
// conditioned results, and those that cancel, lose digits in single precision whoever computes them. What f16 and bf16 round counts too.
constexpr double kOfMoved = 2;
constexpr double kMove = 0x1p-20;
constexpr int kMoves = 3;

struct Row {
  std::string name;
  std::string schedule = "first";
  std::string tensor;  // the one that is furthest off
  double worst = 0;    // as a multiple of what is allowed: above 1 it differs
  std::string error;   // nothing could be compared
  double seconds = 0;
  bool ok() const { return error.empty() && worst <= 1; }
};

std::string words(const Error& e) { return e.message + (e.detail.empty() ? "" : ": " + e.detail); }

class Checker {
 public:
  Checker(DeviceContext& context, Compiler& compiler, const BenchCheckOptions& options, std::stop_token stop)
      : m_context(context), m_compiler(compiler), m_options(options), m_stop(std::move(stop)) {}

  // `fill` gives the executable's inputs their values. One row for the first schedules, and one for each set of random ones.
  std::vector<Row> check(const std::string& name, const Program& program, std::uint64_t seed,
                         const std::function<Result<Unit>(Executable&)>& fill) {
    std::vector<Row> rows;
    std::mt19937_64 rng(seed);
    const auto start = std::chrono::steady_clock::now();
    const auto failed = [&](const Error& error, const std::string& schedule = "first") {
      rows.push_back({name, schedule, {}, 0, words(error), 0});
      return rows;
    };
    if (program.outputs.empty())
      return failed({"bench", "There is nothing to compare: nothing is shown and nothing trains.", {}, {}});
    auto store = std::make_shared<TensorStore>(m_context.device());
    PrepareOptions prepared;
    prepared.updates = false;
    prepared.verify = true;
    prepared.reverted = MeasuredKernels{};
    prepared.stop = m_stop;
    auto made = prepare(program, m_context, store, prepared);
    if (!made) return failed(made.error());
    Executable& x = *made->executable;
    std::optional<Wanted> wanted;
    for (std::int64_t round = 0; round <= m_options.schedules; ++round) {
      const std::string schedule = round == 0 ? "first" : "random " + std::to_string(round);
      if (auto linked = link(x, round > 0 ? &rng : nullptr); !linked) return failed(linked.error(), schedule);
      if (round == 0) {
        if (auto filled = fill(x); !filled) return failed(filled.error());
      }
      const auto ran = x.run(seed, 0);
      const auto finished = ran ? m_context.device().synchronize() : ran;
      if (!finished) return failed(finished.error(), schedule);
      if (!wanted) {
        auto reference = referenceOf(*made->stages.differentiated, *store, seed, rng);
        if (!reference) return failed(reference.error());
        wanted = std::move(*reference);
      }
      auto row = compare(x, *wanted);
      if (!row) return failed(row.error(), schedule);
      row->name = name;
      row->schedule = schedule;
      row->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      rows.push_back(std::move(*row));
    }
    return rows;
  }

  std::vector<Row> check(const CheckProgram& c, std::uint64_t seed) {
    return check(c.name, c.program, seed, [&](Executable& x) -> Result<Unit> {
      for (const auto& [name, data] : c.inputs) {
        TensorStore::Entry* entry = x.store().find(name);  // null where no output depends on it
        if (!entry) continue;
        HostTensor host = HostTensor::make(entry->type, entry->shape);
        for (std::int64_t i = 0; i < host.elements(); ++i) host.set(i, data.values[static_cast<std::size_t>(i)]);
        NF_TRY([[maybe_unused]] const Unit written, x.store().write(*entry, host));
      }
      return Unit{};
    });
  }

  std::vector<Row> check(const CompiledNotebook& notebook, const std::string& name, const std::string& directory) {
    const std::uint64_t seed = m_options.seed;
    return check(name, observed(notebook), seed, [&](Executable& x) -> Result<Unit> {
      NF_TRY([[maybe_unused]] const Unit initial, initializeTensors(x, seed, directory));
      NF_TRY(DataFeed feed, DataFeed::open(x.program(), directory, seed));
      std::vector<std::byte> batch;
      for (std::size_t i = 0; i < feed.inputs().size(); ++i) {
        const DataFeed::Input& in = feed.inputs()[i];
        TensorStore::Entry* entry = x.store().find(in.name);
        if (!entry) continue;
        batch.resize(static_cast<std::size_t>(feed.batch() * in.rowElements * bytesOf(in.type)));
        feed.training(0, i, batch.data());
        NF_TRY([[maybe_unused]] const Unit written, x.store().writeBytes(*entry, batch.data()));
      }
      return Unit{};
    });
  }

 private:
  using Values = std::map<std::string, std::vector<double>>;  // of outputs
  struct Wanted {
    Values values;
    std::map<std::string, double> allowed;
  };

  // Of a notebook that trains: loss, gradients, and the next values of states. Not those of parameters: where a gradient is zero but for
  // rounding, Adam makes a whole step of it.
  static Program observed(const CompiledNotebook& notebook) {
    Program p = decidedProgram(notebook);
    if (!notebook.trains.empty()) {
      for (const Derivative& d : p.derivatives) p.outputs.push_back({p[d.result].name, d.result, OutputRole::Named});
      for (const Update& u : p.updates)
        if (p[u.target].kind == TensorKind::State)
          p.outputs.push_back({p[u.target].name + " after the step", u.value, OutputRole::Named});
    }
    p.updates.clear();
    return p;
  }

  Result<Unit> link(Executable& x, std::mt19937_64* random) {
    for (std::uint32_t i = 0; i < x.plan().subgraphs.size(); ++i) {
      const Program& subgraph = *x.plan().subgraphs[i].program;
      Schedule schedule{"reference", std::make_shared<const Json>(Json::object())};
      if (!m_context.inProcess()) {
        NF_TRY(const auto space, scheduleSpace(subgraph, *m_context.target()));
        schedule = random ? space->random(*random) : space->first();
      }
      const auto object = m_compiler.compile({subgraph, schedule, {}});
      if (!object) return about(object.error(), x, i, schedule);
      auto kernel = x.device().link(*object);
      if (!kernel) return about(kernel.error(), x, i, schedule);
      auto linked = std::make_shared<LinkedKernel>();
      linked->kernel = std::move(*kernel);
      linked->schedule = schedule.text();
      linked->workspaceBytes = object->workspaceBytes;
      NF_TRY([[maybe_unused]] const Unit set, x.setKernel(i, std::move(linked)));
    }
    return Unit{};
  }

  static Error about(Error error, const Executable& x, std::uint32_t subgraph, const Schedule& schedule) {
    error.detail = x.plan().subgraphs[subgraph].name + ", " + schedule.text() + (error.detail.empty() ? "" : ": ") + error.detail;
    return error;
  }

  Result<Wanted> referenceOf(const Program& p, const TensorStore& store, std::uint64_t seed, std::mt19937_64& rng) {
    TensorValues inputs;
    for (std::size_t t = 0; t < p.tensors.size(); ++t) {
      if (p.tensors[t].kind == TensorKind::Intermediate) continue;
      const auto entry = store.entries().find(p.tensors[t].name);
      if (entry == store.entries().end()) continue;
      NF_TRY(const HostTensor host, store.read(*entry->second));
      TensorData data{host.type, host.shape, {}};
      for (std::int64_t i = 0; i < host.elements(); ++i) data.values.push_back(host.at(i));
      inputs[TensorId(t)] = std::move(data);
    }
    NF_TRY(const Values wanted, interpreted(p, inputs, seed, Storage::Rounded));
    Values moved;
    for (const auto& [name, values] : wanted) moved[name].assign(values.size(), 0);
    const auto differs = [&](const std::string& name, const std::vector<double>& values) {
      const std::vector<double>& from = wanted.at(name);
      for (std::size_t i = 0; i < from.size(); ++i)
        if (const double d = std::fabs(values[i] - from[i]); std::isfinite(d)) moved[name][i] = std::max(moved[name][i], d);
    };
    if (std::ranges::any_of(p.tensors, [](const Tensor& t) { return t.type == DType::F16 || t.type == DType::BF16; })) {
      NF_TRY(const Values exact, interpreted(p, inputs, seed, Storage::Exact));
      for (const auto& [name, values] : exact) differs(name, values);
    }
    std::vector<TensorId> outputs;
    for (const Output& o : p.outputs) outputs.push_back(o.tensor);
    NF_TRY(const MovedReference near, MovedReference::prepare(p, outputs, Storage::Rounded));
    for (int n = 0; n < kMoves; ++n) {
      const auto values = near.run(inputs, seed, kMove, rng);
      if (!values) continue;  // beside the inputs an index may be out of range
      for (const Output& o : p.outputs) differs(o.name, values->at(o.tensor).values);
    }
    Wanted result{wanted, {}};
    double largestGradient = 0;
    std::map<std::string, double> largest;
    for (const auto& [name, values] : wanted) {
      for (const double v : values)
        if (std::isfinite(v)) largest[name] = std::max(largest[name], std::fabs(v));
      if (name.starts_with("d(")) largestGradient = std::max(largestGradient, largest[name]);
    }
    for (const auto& [name, values] : wanted) {
      // A gradient that is zero but for rounding, as of a bias in front of a normalisation, is measured by the net's others.
      const double size = std::max(largest[name], name.starts_with("d(") ? 0.01 * largestGradient : 0);
      result.allowed[name] =
          kOfLargest * size + kOfMoved * (moved[name].empty() ? 0 : *std::max_element(moved[name].begin(), moved[name].end()));
    }
    return result;
  }

  static Result<Values> interpreted(const Program& p, const TensorValues& inputs, std::uint64_t seed, Storage storage) {
    InterpretOptions options;
    options.storage = storage;
    options.seed = seed;
    for (const Output& o : p.outputs) options.outputs.push_back(o.tensor);
    NF_TRY(const TensorValues values, interpret(p, inputs, options));
    Values named;
    for (const Output& o : p.outputs) named[o.name] = values.at(o.tensor).values;
    return named;
  }

  Result<Row> compare(const Executable& x, const Wanted& wanted) {
    Row row;
    for (const Output& o : x.program().outputs) {
      NF_TRY(const HostTensor got, x.read(o.tensor));
      const std::vector<double>& values = wanted.values.at(o.name);
      double worst = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double g = got.at(static_cast<std::int64_t>(i));
        if (g == values[i] || (std::isnan(g) && std::isnan(values[i]))) continue;
        const double off = std::fabs(g - values[i]) / wanted.allowed.at(o.name);
        worst = std::max(worst, std::isfinite(off) ? off : 1e300);
      }
      if (row.tensor.empty() || worst > row.worst) row.worst = worst, row.tensor = o.name;
    }
    return row;
  }

  DeviceContext& m_context;
  Compiler& m_compiler;
  const BenchCheckOptions& m_options;
  std::stop_token m_stop;
};

// Of the sets those that name a `let` of this file: one command checks many notebooks.
std::vector<std::string> setsOf(const FileOptions& file, const std::vector<std::string>& sets) {
  FileOptions plain = file;
  plain.sets.clear();
  const auto source = readSource(file.file);
  if (!source) return sets;
  const CompiledNotebook notebook = compileNotebook(*source);
  std::vector<std::string> used;
  for (const std::string& set : sets)
    if (std::any_of(notebook.symbols.begin(), notebook.symbols.end(),
                    [&](const Symbol& s) { return s.kind == Symbol::Kind::Extent && s.name == set.substr(0, set.find('=')); }))
      used.push_back(set);
  return used;
}

}  // namespace

int runBenchCheck(BackendRegistry& registry, const BenchCheckOptions& options) {
  const StopOnSignal signals;
  DeviceContextOptions device;
  device.device = options.device.device;
  device.threads = options.device.threads;
  device.compileWorkers = 0;
  device.measures = false;
  device.records = "none";
  auto context = DeviceContext::open(registry, device);
  if (!context) return report(context.error(), options.json, exitCodeOf(context.error()));
  std::unique_ptr<Compiler> own;
  Compiler* compiler = (*context)->inProcess();
  if (!compiler) {
    auto made = registry.find((*context)->target()->backend)->compiler(*(*context)->target());
    if (!made) return report(made.error(), options.json);
    own = std::move(*made);
    compiler = own.get();
  }
  Checker checker(**context, *compiler, options, signals.token());
  std::size_t compared = 0, failed = 0;
  double worst = 0;
  Json rows = Json::array();
  std::string lost;  // why nothing more can be run in this process
  const auto over = [&] {
    if (const auto ready = (*context)->device().synchronize(); !ready) lost = words(ready.error());
    return !lost.empty() || signals.token().stop_requested();
  };
  // Of random programs only those that differ are worth a line.
  const auto take = [&](const std::vector<Row>& checked, const char* kind, bool all) {
    for (const Row& r : checked) {
      ++compared;
      failed += !r.ok();
      worst = std::max(worst, r.worst);
      if (r.ok() && !all) continue;
      if (options.json)
        rows.push_back({{"kind", kind},
                        {"case", r.name},
                        {"schedule", r.schedule},
                        {"ok", r.ok()},
                        {"worst", r.worst},
                        {"tensor", r.tensor},
                        {"error", r.error.empty() ? Json(nullptr) : Json(r.error)},
                        {"seconds", r.seconds}});
      else
        std::printf(
            "%s %s %-9s %s\n", r.ok() ? "equal  " : "DIFFERS", padded(r.name, 40).c_str(), r.schedule.c_str(),
            r.error.empty() ? (r.tensor + ", " + std::to_string(r.worst) + " of what is allowed").c_str() : r.error.c_str());
    }
    std::fflush(stdout);
  };
  for (const std::string& file : options.files) {
    FileOptions one;
    one.file = file;
    one.json = options.json;
    one.sets = setsOf(one, options.sets);
    const Loaded loaded = loadNotebook(one);
    if (!loaded.ok())
      return loaded.notebook.diagnostics.empty()
                 ? loaded.exitCode
                 : tellMistakes(loaded.notebook.diagnostics, loaded.notebook.sources, file, options.json);
    take(checker.check(loaded.notebook, file, loaded.notebook.sources.at(loaded.notebook.notebook).directory), "notebook", true);
    if (over()) break;
  }
  if (options.kernels && !over()) {
    bool any = false;
    for (const CheckProgram& c : kernelCheckPrograms(options.seed)) {
      if (c.name.find(options.filter) == std::string::npos) continue;
      any = true;
      take(checker.check(c, options.seed), "kernel", true);
      if (over()) break;
    }
    if (!any) return report({"bench", "No kernel has \"" + options.filter + "\" in its name.", {}, {}}, options.json, kExitUsage);
  }
  std::int64_t programs = 0;
  while (programs < options.programs && !over()) {
    const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(programs++);
    take(checker.check(randomCheckProgram(seed), seed), "program", options.programs == 1);
  }
  if (signals.token().stop_requested()) return report(stopped(), options.json);
  if (options.json)
    std::cout << Json{{"device", (*context)->device().name()},
                      {"description", (*context)->device().description()},
                      {"seed", options.seed},
                      {"programs", programs},
                      {"lost", lost.empty() ? Json(nullptr) : Json(lost)},
                      {"compared", compared},
                      {"failed", failed},
                      {"worst", worst},
                      {"rows", rows}}
                     .dump(-1, ' ', false, Json::error_handler_t::replace)
              << "\n";
  else if (!lost.empty()) std::printf("After %zu comparisons the device is lost: %s\n", compared, lost.c_str());
  else
    std::printf("%zu compared on %s, %zu differ; the worst is %.3f of what is allowed; seed %llu\n", compared,
                (*context)->device().name().c_str(), failed, worst, static_cast<unsigned long long>(options.seed));
  return failed == 0 && lost.empty() ? kExitFine : kExitWrongInput;
}

}  // namespace nf
