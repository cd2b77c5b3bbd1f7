// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/run.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "core/ir/work.h"
#include "core/lang/missing_tensor.h"
#include "core/runtime/checkpoint.h"
#include "core/runtime/data_feed.h"
#include "core/runtime/data_file.h"
#include "core/runtime/run_folder.h"
#include "core/runtime/schedule_check.h"
#include "core/runtime/step_program.h"
#include "core/runtime/train.h"
#include "core/runtime/weights_match.h"
#include "core/support/unique_names.h"
#include "core/syntax/derivative_name.h"

namespace nf {
namespace {

// What a loop of `p` carries last, where nothing reads it behind the loop.
TensorId lastCarried(Program& p, const Symbol& symbol) {
  Loop::Carried& carried = p.loops[symbol.lastOf.value].carried[symbol.carried];
  if (!carried.last.valid()) {
    const Tensor& initial = p[carried.initial];
    Tensor t;
    t.name = p.freshName(symbol.name);
    t.type = initial.type;
    t.shape = initial.shape;
    t.origin = initial.origin;
    carried.last = p.addTensor(std::move(t));
  }
  return carried.last;
}

// What a name means at the end of the notebook; invalid where it is the name of none.
TensorId meaningOf(const CompiledNotebook& notebook, const Program& p, const std::string& name) {
  const Symbol* const s = notebook.tensorSymbol(name);
  return s && s->lastOf.valid() ? p.loops[s->lastOf.value].carried[s->carried].last : s ? s->tensor : TensorId();
}

// A name that was given to another tensor later is the last one's: what it stood for before has a number.
void tellShownApart(const CompiledNotebook& notebook, Program& p) {
  const std::vector<Output> outputs = p.outputs;
  const auto shown = [](const Output& o) { return o.role == OutputRole::Show || o.role == OutputRole::Named; };
  std::map<std::pair<std::string, TensorId>, std::string> numbered;
  std::set<std::string> used;
  for (const Output& o : outputs) used.insert(o.name);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Output& o = outputs[i];
    if (!shown(o)) continue;
    const std::string& own = p[o.tensor].name;
    const bool later = std::any_of(outputs.begin() + static_cast<std::ptrdiff_t>(i) + 1, outputs.end(), [&](const Output& other) {
      return shown(other) && other.name == o.name && other.tensor != o.tensor;
    });
    const bool ownName = own == o.name || own.starts_with(o.name + "#");
    if (!later && (!ownName || !notebook.tensorSymbol(o.name) || meaningOf(notebook, p, o.name) == o.tensor)) continue;
    std::string& name = numbered[{o.name, o.tensor}];
    if (name.empty()) {
      name = own.starts_with(o.name + "#") ? own : o.name + "#1";
      const auto taken = [&] {
        const TensorId t = p.tensorNamed(name);
        return used.contains(name) || (t.valid() && t != o.tensor);
      };
      for (std::size_t n = 2; taken(); ++n) name = o.name + "#" + std::to_string(n);
      used.insert(name);
    }
    p.outputs[i].name = name;
  }
}

// The tensor of this name. What the notebook does not ask for is asked for here, of `p`: a derivative, a carried value behind its loop.
TensorId tensorFor(const CompiledNotebook& notebook, Program& p, const std::string& name) {
  for (const Output& o : p.outputs)
    if (o.name == name) return o.tensor;
  if (const TensorId t = notebook.tensorNamed(name); t.valid()) return t;
  if (const Symbol* s = notebook.tensorSymbol(name); s && s->lastOf.valid()) return lastCarried(p, *s);
  const auto derivative = derivativeNames(name);
  if (!derivative || !name.ends_with(')')) return {};
  const TensorId of = notebook.tensorNamed(derivative->first), wrt = notebook.tensorNamed(derivative->second);
  if (!of.valid() || !wrt.valid() || p[of].elements() != 1 || !p[of].shape.empty()) return {};
  Tensor t;
  t.name = name;
  t.type = p[wrt].type;
  t.shape = p[wrt].shape;
  const TensorId result = p.addTensor(std::move(t));
  p.derivatives.push_back({of, wrt, result, {}, p[wrt].origin});
  return result;
}

bool moreExpensive(const KernelTime& a, const KernelTime& b) {
  return a.microseconds * a.callsPerStep > b.microseconds * b.callsPerStep;
}

// By tensor: it is a derivative or made of one.
std::vector<bool> madeOfDerivatives(const Program& p) {
  std::vector<bool> made(p.tensors.size(), false);
  for (const Derivative& d : p.derivatives) made[d.result.value] = true;
  for (bool changed = true; std::exchange(changed, false);) {
    for (std::size_t o = 0; o < p.operators.size(); ++o) {
      const auto reads = readsOf(p, OperatorId(o));
      if (std::none_of(reads.begin(), reads.end(), [&](TensorId t) { return made[t.value]; })) continue;
      for (const TensorId t : writesOf(p, OperatorId(o))) {
        changed = changed || !made[t.value];
        made[t.value] = true;
      }
    }
  }
  return made;
}

}  // namespace

RunJob::RunJob(DeviceContext& context, RunOptions options) : m_context(context), m_options(std::move(options)) {}
RunJob::~RunJob() = default;

Result<Program> RunJob::wantedProgram() {
  if (m_options.trainStep) {
    if (*m_options.trainStep >= m_notebook.trains.size())
      return Error{"train", "There is no `train` statement " + std::to_string(*m_options.trainStep + 1) + ".", {}, {}};
    return trainingProgram(m_notebook, *m_options.trainStep);
  }
  Program p = m_notebook.program;
  tellShownApart(m_notebook, p);
  std::vector<std::string> names;
  std::set<std::string> seen;
  const auto want = [&](const std::string& name) {
    if (seen.insert(name).second) names.push_back(name);
  };
  for (const std::string& name : m_options.tensors) {
    const bool all = name == "all";
    if (name == "outputs") {
      Program asked = notebookProgram(m_notebook);
      tellShownApart(m_notebook, asked);
      for (const Output& o : asked.outputs) want(o.name);
      continue;
    }
    if (!all && name != "shown") {
      want(name);
      continue;
    }
    if (all) {
      for (const Symbol& s : m_notebook.symbols)
        if (s.tensor.valid() && s.tensor.value < p.tensors.size()) want(s.inside ? p[s.tensor].name : s.name);
        else if (s.lastOf.valid() && !s.inside) want(s.name);
      // What a rebound name stood for first, where no cell shows it.
      for (std::size_t t = 0; t < p.tensors.size(); ++t) {
        const std::string& name = p.tensors[t].name;
        const bool shown = std::ranges::any_of(p.outputs, [&](const Output& o) { return o.tensor == TensorId(t); });
        if (!shown && withoutNumber(name) != name && m_notebook.tensorSymbol(withoutNumber(name))) want(name);
      }
      // What calls of the library made: weights, `O.W`.
      for (const Tensor& t : m_notebook.program.tensors)
        if (t.kind == TensorKind::Param && m_notebook.tensorNamed(t.name).valid()) want(t.name);
    }
    for (const std::string& shown : m_shown) want(shown);
    for (const Output& o : p.outputs)
      if (all || o.role == OutputRole::Show) want(o.name);
  }
  const bool two = m_notebook.readsTraining && !m_options.training;
  std::vector<TensorId> tensors;
  std::vector<Output> outputs;
  m_namesOfTraining.clear();
  m_byProgramName.clear();
  for (const std::string& name : names) {
    const TensorId t = tensorFor(m_notebook, p, name);
    if (!t.valid() && !two) return missingTensor(m_notebook, "tensor", name);
    if (t.valid()) m_byProgramName.emplace(p[t].name, name);
    if (t.valid()) outputs.push_back({name, t, OutputRole::Named});
    else m_namesOfTraining.push_back(name);
  }
  if (two) {
    const std::vector<bool> derived = madeOfDerivatives(p);
    std::erase_if(outputs, [&](const Output& o) {
      if (derived[o.tensor.value]) m_namesOfTraining.push_back(o.name);
      return derived[o.tensor.value];
    });
  }
  for (const Output& o : outputs) tensors.push_back(o.tensor);
  p.outputs = outputs;
  m_names = names;
  return restrictedTo(p, tensors, false);
}

// What is computed here is not the training step, whose kernels the pins are for: they have nothing to say where that can have them.
std::set<std::string> RunJob::pinsOfStep() const {
  const std::vector<Hint>& hints = m_notebook.program.hints;
  const bool any = std::any_of(hints.begin(), hints.end(), [](const Hint& h) { return h.kind == Hint::Kind::Schedule; });
  if (!any || m_options.trainStep || m_notebook.trains.empty() || m_context.inProcess() || !m_context.target()) return {};
  CompileOptions compile;
  compile.sets = m_options.sets;
  compile.train = m_options.train;
  const CompiledNotebook training = compileNotebook(m_options.source, compile);
  if (!training.ok()) return {};
  std::set<std::string> pins;
  const Diagnostics wrong = checkSchedules(training, compile, stageOptions(m_context, {}), *m_context.target(), &pins);
  return wrong.empty() ? pins : std::set<std::string>();
}

Result<bool> RunJob::prepare(std::stop_token stop, const std::function<void(std::size_t, std::size_t)>& waiting) {
  CompileOptions compile;
  compile.sets = m_options.sets;
  compile.training = m_options.training || m_options.trainStep;
  compile.train = m_options.trainStep.value_or(m_options.train);
  m_notebook = compileNotebook(m_options.source, compile);
  if (!compile.training && (!m_notebook.ok() || !m_notebook.ofOtherSteps.empty())) leaveToTraining(compile);
  if (!m_notebook.ok()) return firstError(m_notebook.diagnostics, "check", m_place);
  m_seed = m_options.seed.value_or(m_notebook.randomSeed());
  NF_TRY(const Program program, wantedProgram());
  if (!m_namesOfTraining.empty()) {
    const bool all = m_namesOfTraining.size() == m_names.size();
    if (all) {
      m_allOfTraining = true;
      m_options.training = true;
      m_options.tensors = m_names;
      return prepare(stop, waiting);
    }
    NF_TRY(const bool complete, prepareTraining(m_namesOfTraining, stop, waiting));
    if (!complete) return false;
  }
  m_store = std::make_shared<TensorStore>(m_context.device());
  auto made = nf::prepare(program, m_context, m_store,
                          {.updates = m_options.trainStep.has_value(),
                           .verify = m_options.verify,
                           .stop = stop,
                           .failedAt = &m_place,
                           .readsBack = true,
                           .pinsOfOthers = pinsOfStep()});
  if (!made && isStopped(made.error())) return false;
  NF_TRY(m_prepared, std::move(made));
  Executable& x = *m_prepared.executable;
  KernelSupplyOptions supply;
  supply.tuning = m_options.tuning;
  supply.tuning.seed = m_seed;
  supply.tuning.exclusive = m_context.lease() != nullptr;
  m_supply = std::make_unique<KernelSupply>(m_context, std::move(supply));
  if (auto requested = m_supply->request(x); !requested) {
    m_place = m_supply->failedAt();
    return requested.error();
  }
  protocol::WarningEvent unmatched, replaced;
  NamedTensors weights;
  if (!m_options.weights.empty()) {
    NF_TRY(weights, readWeights(m_options.weights));
    renameTensors(weights, m_options.renamed);
    // What is computed here may need none of those that the notebook has.
    const auto isHere = [&](const auto& named) { return m_notebook.tensorNamed(named.first).valid(); };
    const auto isNeeded = [&](const auto& named) { return m_store->find(named.first) != nullptr; };
    if (std::ranges::any_of(weights, isNeeded) || std::ranges::none_of(weights, isHere)) {
      NF_TRY([[maybe_unused]] const auto written, writeWeights(*m_store, weights, m_options.weights));
    }
    unmatched.message = unmatchedWeights(*m_store, m_notebook, weights, m_options.weights);
  }
  for (const auto& [name, value] : m_options.values) {
    TensorStore::Entry* entry = m_store->find(name);
    if (!entry || entry->shape != value.shape) continue;  // the interpreter's are of another type, and declared alike
    NF_TRY([[maybe_unused]] const Unit written, m_store->write(*entry, value));
  }
  StrayLabels strays;
  if (auto initial = initializeTensors(x, m_seed, m_options.source.directory, &m_place, &strays, stop); !initial) {
    if (isStopped(initial.error())) return false;
    return initial.error();
  }
  auto opened = DataFeed::open(x.program(), m_options.source.directory, m_seed, &m_place, stop);
  if (!opened && isStopped(opened.error())) return false;
  NF_TRY(DataFeed feed, std::move(opened));
  m_place = {};
  strays.insert(strays.end(), feed.strayLabels().begin(), feed.strayLabels().end());
  m_warnings = warningEvents(m_prepared.warnings, m_notebook.sources);
  for (protocol::WarningEvent& e : warningEvents(strays, x.program(), m_notebook.sources)) m_warnings.push_back(std::move(e));
  if (!unmatched.message.empty()) m_warnings.push_back(std::move(unmatched));
  std::set<std::string> fed;
  for (const DataFeed::Input& in : feed.inputs()) fed.insert(in.name);
  replaced.message = replacedInputs(*m_store, weights, fed, m_options.weights);
  if (!replaced.message.empty()) m_warnings.push_back(std::move(replaced));
  std::vector<std::byte> rows;
  for (std::size_t i = 0; i < feed.inputs().size(); ++i) {
    const DataFeed::Input& in = feed.inputs()[i];
    TensorStore::Entry* entry = x.entry(x.program().tensorNamed(in.name));
    if (!entry) continue;
    rows.resize(static_cast<std::size_t>(feed.batch() * in.rowElements * bytesOf(in.type)));
    if (m_options.trainStep) feed.training(0, i, rows.data());
    else feed.first(i, rows.data());
    NF_TRY([[maybe_unused]] const Unit written, m_store->writeBytes(*entry, rows.data()));
    if (feed.heldOutRows() > 0) m_trainingRows = feed.batch();
  }
  auto complete = m_supply->await(x, stop, waiting);
  if (!complete) m_place = m_supply->failedAt();
  return complete;
}

Result<bool> RunJob::prepareTraining(std::vector<std::string> names, std::stop_token stop,
                                     const std::function<void(std::size_t, std::size_t)>& waiting) {
  RunOptions options = m_options;
  options.training = true;
  options.tensors = std::move(names);
  m_training = std::make_unique<RunJob>(m_context, std::move(options));
  auto complete = m_training->prepare(stop, waiting);
  if (!complete) m_place = m_training->place();
  return complete;
}

std::int64_t RunJob::rowsBehind(const std::string& name) const {
  const RunJob& of = m_training && !m_notebook.program.tensorNamed(name).valid() ? *m_training : *this;
  const Program& program = of.m_notebook.program;
  const TensorId named = program.tensorNamed(name), t = named.valid() ? named : of.m_notebook.tensorNamed(name);
  return t.valid() && trainingRows() > 0 && readsRows(program, t) ? trainingRows() : 0;
}

// Statements that only training can have, such as a gradient or a parameter's next value that is shown, are left out of evaluation.
void RunJob::leaveToTraining(CompileOptions compile) {
  compile.training = true;
  CompiledNotebook whole = compileNotebook(m_options.source, compile);
  if (!whole.ok()) {
    m_notebook = std::move(whole);
    return;
  }
  if (!m_notebook.ok()) {
    compile.training = false;
    auto part = soundPart(m_notebook, compile);
    if (!part) return;
    m_notebook = std::move(*part);
  }
  m_notebook.readsTraining = true;
  tellShownApart(whole, whole.program);
  for (const Output& o : whole.program.outputs)
    if (o.role == OutputRole::Show) m_shown.push_back(o.name);
}

Result<Unit> RunJob::run(bool timed, std::stop_token stop) {
  if (m_training) {
    auto done = m_training->run(timed, stop);
    if (!done) {
      m_place = m_training->place();
      return done;
    }
  }
  Executable& x = *m_prepared.executable;
  x.setProfiling(timed);
  std::atomic<bool> stops{false};
  const std::stop_callback onStop(stop, [&] { stops = true; });
  auto ran = x.run(m_seed, 0, &stops);
  if (!ran) m_place = x.failedAt();
  return ran && m_options.trainStep ? x.applyUpdates() : ran;
}

void RunJob::setRecording(std::int64_t most) { m_prepared.executable->setRecording(most); }

ActivityRecord RunJob::endTiming() {
  m_prepared.executable->setProfiling(false);
  return m_prepared.executable->takeActivities();
}

Result<std::map<Hash, KernelCounters>> RunJob::count(std::stop_token stop) {
  Executable& x = *m_prepared.executable;
  std::atomic<bool> stops{false};
  const std::stop_callback onStop(stop, [&] { stops = true; });
  NF_TRY(const auto counted, x.countStep(m_seed, 0, &stops));
  std::map<Hash, KernelCounters> counters;
  for (std::size_t i = 0; i < counted.size(); ++i)
    if (counted[i]) counters.emplace(x.plan().subgraphs[i].hash, *counted[i]);
  return counters;
}

Result<HostTensor> RunJob::tensor(const std::string& name) const {
  if (m_training && std::ranges::find(m_namesOfTraining, name) != m_namesOfTraining.end()) return m_training->tensor(name);
  const Executable& x = *m_prepared.executable;
  for (const Output& o : x.program().outputs)
    if (o.name == name) return x.read(o.tensor);
  return Error{"run", "There is no value of " + name + ".", {}, {}};
}

Result<HostTensor> RunJob::tensorOfProgram(const std::string& name) const {
  if (const auto found = m_byProgramName.find(name); found != m_byProgramName.end()) return tensor(found->second);
  if (m_training && m_training->m_byProgramName.contains(name)) return m_training->tensorOfProgram(name);
  return tensor(name);
}

std::optional<bool> RunJob::ofTraining(const std::string& name) const {
  if (m_allOfTraining) return true;
  if (!m_notebook.readsTraining || m_options.training || m_options.trainStep) return std::nullopt;
  return std::ranges::find(m_namesOfTraining, name) != m_namesOfTraining.end();
}

std::vector<KernelTime> RunJob::kernelTimes() const {
  std::vector<KernelTime> times = nf::kernelTimes(*m_prepared.executable);
  if (!m_training) return times;
  const auto more = m_training->kernelTimes();
  times.insert(times.end(), more.begin(), more.end());
  std::sort(times.begin(), times.end(), moreExpensive);
  return times;
}

std::vector<KernelTime> kernelTimes(const Executable& x) {
  std::vector<KernelTime> times;
  for (std::size_t i = 0; i < x.plan().subgraphs.size(); ++i) {
    const PlannedSubgraph& s = x.plan().subgraphs[i];
    const Executable::Watch& watch = x.profile()[i];
    KernelTime time{s.hash, s.name, s.callsPerStep, watch.median() * 1e6, workOf(*s.program), trafficOf(*s.program), {}, false};
    if (const auto& kernel = x.kernel(static_cast<std::uint32_t>(i))) time.schedule = kernel->schedule, time.quick = kernel->quick;
    times.push_back(std::move(time));
  }
  std::sort(times.begin(), times.end(), moreExpensive);
  return times;
}

std::string dumpFileName(const std::string& tensor) {
  std::string file = tensor;
  for (char& c : file)
    if (c == '/' || c == '\0') c = '_';
  return file + ".npy";
}

Result<Unit> dumpTensors(const RunJob& job, const std::string& folder) {
  NF_TRY([[maybe_unused]] const Unit made, makeFolder(folder));
  for (const std::string& name : job.names()) {
    NF_TRY(const HostTensor value, job.tensor(name));
    NF_TRY([[maybe_unused]] const Unit written, writeNpy((std::filesystem::path(folder) / dumpFileName(name)).string(), value));
  }
  return Unit{};
}

}  // namespace nf
