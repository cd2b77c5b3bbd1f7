// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/executable.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/device/reference.h"
#include "core/ir/structural_hash.h"
#include "core/support/assert.h"

namespace nf {

// What firstNaN() looks for.
struct Executable::Check {
  std::string found;
};

namespace {

std::size_t mostTensors(const PlannedSequence& s) {
  std::size_t most = 3;  // of an accumulation
  for (const PlannedLaunch& l : s.launches) most = std::max(most, l.tensors.size());
  for (const PlannedLoop& l : s.loops) most = std::max(most, mostTensors(*l.body));
  return most;
}

std::size_t deepest(const PlannedSequence& s) {
  std::size_t depth = 0;
  for (const PlannedLoop& l : s.loops) depth = std::max(depth, 1 + deepest(*l.body));
  return depth;
}

std::string nameOf(const Program& program, const PlannedLaunch& launch) {
  std::string name;
  for (const OperatorId o : launch.operators)
    for (const TensorId t : writesOf(program, o)) name += (name.empty() ? "" : ", ") + program[t].name;
  return name;
}

// The operator of a group that makes the first NaN, each run alone on values rounded to storage types. The last one where double
// precision shows none.
std::string culprit(const Program& program, const PlannedLaunch& launch, TensorValues values, std::uint64_t seed,
                    std::uint64_t step, const std::vector<std::int64_t>& counters) {
  for (const OperatorId o : launch.operators) {
    const Subgraph sub = extractSubgraph(program, {o});
    auto prepared = ReferenceProgram::prepare(sub.program, sub.outputs);
    TensorValues inputs;
    for (std::size_t i = 0; i < sub.inputs.size(); ++i)
      if (const auto found = values.find(sub.outerInputs[i]); found != values.end()) inputs[sub.inputs[i]] = found->second;
    if (!prepared) break;
    auto results = prepared->run(inputs, seed, step, counters);
    if (!results) break;
    for (std::size_t i = 0; i < sub.outputs.size(); ++i) {
      TensorData data = std::move(results->at(sub.outputs[i]));
      HostTensor rounded = HostTensor::make(data.type, data.shape);
      for (std::size_t e = 0; e < data.values.size(); ++e) {
        rounded.set(static_cast<std::int64_t>(e), data.values[e]);
        data.values[e] = rounded.at(static_cast<std::int64_t>(e));
        if (std::isnan(data.values[e])) return program[sub.outerOutputs[i]].name;
      }
      values[sub.outerOutputs[i]] = std::move(data);
    }
  }
  return nameOf(program, launch);
}

// More than this is not interpreted to find out which element was at fault. Floating-point operations.
constexpr std::int64_t kExplainedFlops = 1'000'000'000;

bool readsByData(const Program& program, OperatorId o) {
  const auto isData = [](const AccessIndex& index) { return index.isData(); };
  const Operator& op = program[o];
  if (std::any_of(op.scatter.begin(), op.scatter.end(), isData)) return true;
  for (const ExprId e : nodesOf(program, op.body)) {
    const ScalarNode& n = program[e];
    if (n.op == ScalarOp::Load && std::any_of(program[n.access].indices.begin(), program[n.access].indices.end(), isData))
      return true;
  }
  return false;
}

struct OutOfRange {
  OperatorId op;
  std::string message;
};

// The operator of a group that refuses its values, and why: by name, which a kernel shared by equal groups does not know.
std::optional<OutOfRange> refusal(const Program& program, const PlannedLaunch& launch, TensorValues values, std::uint64_t seed,
                                  std::uint64_t step, const std::vector<std::int64_t>& counters) {
  for (const OperatorId o : launch.operators) {
    const Subgraph sub = extractSubgraph(program, {o});
    auto prepared = ReferenceProgram::prepare(sub.program, sub.outputs);
    if (!prepared) return std::nullopt;
    TensorValues inputs;
    for (std::size_t i = 0; i < sub.inputs.size(); ++i)
      if (const auto found = values.find(sub.outerInputs[i]); found != values.end()) inputs[sub.inputs[i]] = found->second;
    auto results = prepared->run(inputs, seed, step, counters);
    if (!results) {
      std::string message = results.error().message;
      if (const std::string named = "operator " + program[o].name + ": "; message.starts_with(named))
        message.erase(0, named.size());
      return OutOfRange{o, std::move(message)};
    }
    for (std::size_t i = 0; i < sub.outputs.size(); ++i) values[sub.outerOutputs[i]] = std::move(results->at(sub.outputs[i]));
  }
  return std::nullopt;
}

}  // namespace

Executable::Executable(std::shared_ptr<const ExecutionPlan> plan, Device& device, std::shared_ptr<TensorStore> store)
    : m_plan(std::move(plan)), m_device(device), m_store(std::move(store)), m_graphs(device) {}

Executable::~Executable() {
  m_graphs.clear();
  m_kernels.clear();
  for (const auto& entry : m_own)
    for (void* buffer : entry->buffers)
      if (buffer) m_device.release(buffer);
  if (m_arena) m_device.release(m_arena);
  if (m_workspace) m_device.release(m_workspace);
}

Result<std::unique_ptr<Executable>> Executable::create(std::shared_ptr<const ExecutionPlan> plan, Device& device,
                                                       std::shared_ptr<TensorStore> store, Span* failedAt) {
  std::unique_ptr<Executable> self(new Executable(std::move(plan), device, std::move(store)));
  const ExecutionPlan& p = *self->m_plan;
  const Program& program = *p.main.program;
  self->m_kernels.resize(p.subgraphs.size());
  self->m_watches.resize(p.subgraphs.size());
  self->m_profile.resize(p.subgraphs.size());
  self->m_slots.assign(p.slots, nullptr);
  self->m_arguments.resize(mostTensors(p.main));
  self->m_counters.reserve(deepest(p.main));
  self->m_entries.assign(program.tensors.size(), nullptr);
  const auto at = [&](const Tensor& tensor) {
    if (failedAt && tensor.origin.valid()) *failedAt = program[tensor.origin].span;
  };
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    if (!p.persistent[t]) continue;
    at(program.tensors[t]);
    NF_TRY(TensorStore::Entry * entry, self->m_store->entry(program.tensors[t]));
    if (!entry) {
      const Tensor& tensor = program.tensors[t];
      auto own = std::make_unique<TensorStore::Entry>();
      own->name = tensor.name;
      own->kind = tensor.kind;
      own->type = tensor.type;
      own->shape = tensor.shape;
      own->bytes = self->bytesOfTensor(tensor);
      NF_TRY(own->buffers[0], deviceMemory(device, own->bytes, own->name + ": it takes"));
      entry = own.get();
      self->m_own.push_back(std::move(own));
    }
    self->m_entries[t] = entry;
  }
  for (const PlannedUpdate& u : p.updates) {
    TensorStore::Entry& entry = *self->m_entries[u.target.value];
    at(program[u.target]);
    NF_TRY([[maybe_unused]] const Unit made, self->m_store->makeSecondBuffer(entry));
  }
  if (p.main.arenaBytes > 0) {
    // The largest of those that lie there is what a person can make smaller.
    std::size_t largest = program.tensors.size();
    for (std::size_t t = 0; t < program.tensors.size(); ++t)
      if (!p.persistent[t] && (largest == program.tensors.size() || program.tensors[t].bytes() > program.tensors[largest].bytes()))
        largest = t;
    std::string what = "what lies between the operators:";
    if (largest < program.tensors.size()) {
      at(program.tensors[largest]);
      what = program.tensors[largest].name + " and what else lies between the operators: they take";
    }
    NF_TRY(self->m_arena, deviceMemory(device, p.main.arenaBytes, what));
  }
  if (failedAt) *failedAt = {};
  self->place(p.main);
  self->bind();
  return self;
}

// Fixed places in the arena; those that change from step to step of a loop are set as it runs.
void Executable::place(const PlannedSequence& s) {
  for (std::size_t t = 0; t < s.offsets.size(); ++t)
    if (s.offsets[t] >= 0) m_slots[s.firstSlot + t] = static_cast<std::byte*>(m_arena) + s.base + s.offsets[t];
  for (const PlannedLoop& l : s.loops) place(*l.body);
}

void Executable::bind() {
  for (std::size_t t = 0; t < m_entries.size(); ++t)
    if (m_entries[t]) m_slots[t] = m_entries[t]->value();
  for (const PlannedUpdate& u : m_plan->updates)
    if (u.direct) m_slots[u.value.value] = m_entries[u.target.value]->buffers[m_entries[u.target.value]->current ^ 1u];
  m_applied = false;
}

Result<Unit> Executable::setKernel(std::uint32_t subgraph, std::shared_ptr<LinkedKernel> kernel) {
  if (kernel && kernel->workspaceBytes > m_workspaceBytes) {
    NF_TRY(void* larger, deviceMemory(m_device, kernel->workspaceBytes, "the scratch space of a kernel: it takes"));
    if (m_workspace) m_device.release(m_workspace);
    m_workspace = larger;
    m_workspaceBytes = kernel->workspaceBytes;
  }
  m_kernels[subgraph] = std::move(kernel);
  m_profile[subgraph] = {};  // of the kernel before
  m_graphs.outdate();
  return Unit{};
}

bool Executable::complete() const {
  return std::all_of(m_kernels.begin(), m_kernels.end(), [](const auto& k) { return k != nullptr; });
}

Result<Unit> Executable::run(std::uint64_t seed, std::uint64_t step, const std::atomic<bool>* stop) {
  m_stop = stop;
  m_seed = seed;
  m_step = step;
  m_heldBack = false;
  if (m_applied) {
    for (const PlannedUpdate& u : m_plan->updates) {
      const TensorStore::Entry& entry = *m_entries[u.target.value];
      m_slots[u.target.value] = entry.value();
      if (u.direct) m_slots[u.value.value] = entry.buffers[entry.current ^ 1u];
    }
    m_applied = false;
  }
  LaunchGraph* const whole = graph();
  if (m_profiling && m_recorder) m_recorder->beginRun();
  auto done = whole ? whole->replay(seed, step) : runOnce();
  if (m_profiling && m_recorder) m_recorder->extendRun();
  if (m_profiling) ++m_profiledRuns;
  m_stop = nullptr;
  return done;
}

Result<Unit> Executable::runOnce() {
  m_counters.clear();
  if (!m_guard.valid()) return runSequence(m_plan->main, nullptr);
  const PlannedSequence& s = m_plan->main;
  NF_TRY([[maybe_unused]] const Unit kept, backUp());
  NF_TRY([[maybe_unused]] const Unit guarded, runSteps(s, 0, m_guardedSteps, nullptr));
  NF_TRY(const double value, scalar(m_guard));
  m_heldBack = std::isnan(value);
  return m_heldBack ? Result<Unit>(Unit{}) : runSteps(s, m_guardedSteps, s.steps.size(), nullptr);
}

// Null: launch by launch.
LaunchGraph* Executable::graph() {
  if (!m_device.recorder() || m_profiling || m_counting) return nullptr;
  if (std::any_of(m_watches.begin(), m_watches.end(), [](const Watch& w) { return w.on; })) return nullptr;
  m_bound.clear();
  for (std::size_t t = 0; t < m_entries.size(); ++t)
    if (m_entries[t]) m_bound.push_back(m_slots[t]);
  for (const PlannedUpdate& u : m_plan->updates)
    if (u.direct) m_bound.push_back(m_slots[u.value.value]);
  return m_graphs.of(m_bound, m_kernels, [this] {
    const auto* stop = std::exchange(m_stop, nullptr);
    auto recorded = runOnce();
    m_stop = stop;
    return recorded;
  });
}

Result<Unit> Executable::runSequence(const PlannedSequence& s, Check* check) { return runSteps(s, 0, s.steps.size(), check); }

Result<Unit> Executable::runSteps(const PlannedSequence& s, std::size_t begin, std::size_t end, Check* check) {
  for (std::size_t i = begin; i < end; ++i) {
    const PlannedStep& step = s.steps[i];
    if (m_stop && m_stop->load(std::memory_order_relaxed)) return stopped();
    auto done = step.isLoop ? runLoop(s, s.loops[step.index], check) : launch(s, s.launches[step.index], check);
    if (!done) return done;
    if (check && !check->found.empty()) return done;
  }
  return Unit{};
}

void Executable::Watch::add(double duration) {
  seconds += duration;
  latest[static_cast<std::size_t>(calls++) % latest.size()] = static_cast<float>(duration);
}

double Executable::Watch::median() const {
  std::array<float, 33> sorted = latest;
  const auto end = sorted.begin() + std::min<std::ptrdiff_t>(calls, static_cast<std::ptrdiff_t>(sorted.size()));
  if (end == sorted.begin()) return 0;
  const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

Result<Unit> Executable::launchKernel(std::uint32_t subgraph, std::size_t tensors, const PlannedSequence& s,
                                      const PlannedLaunch* launch) {
  LaunchArgs args;
  args.tensors = {m_arguments.data(), tensors};
  args.workspace = m_workspace;
  args.counters = m_counters;
  args.seed = m_seed;
  args.step = m_step;
  args.stop = m_stop;
  if (m_watches[subgraph].on || m_profiling || m_counting) return launchTimed(subgraph, args, s, launch);
  return m_kernels[subgraph]->kernel->launch(args);
}

Result<TensorValues> Executable::inputsOf(const PlannedSequence& s, const PlannedLaunch& l) const {
  TensorValues values;
  for (std::size_t k = 0; k < l.inputs; ++k) {
    const Tensor& t = (*s.program)[l.tensors[k]];
    NF_TRY(const HostTensor host, readDevice(m_device, m_slots[s.firstSlot + l.tensors[k].value], t.type, t.shape));
    TensorData data{t.type, t.shape, std::vector<double>(static_cast<std::size_t>(t.elements()))};
    for (std::size_t e = 0; e < data.values.size(); ++e) data.values[e] = host.at(static_cast<std::int64_t>(e));
    values[l.tensors[k]] = std::move(data);
  }
  return values;
}

Result<Unit> Executable::launch(const PlannedSequence& s, const PlannedLaunch& l, Check* check) {
  void** const slots = m_slots.data() + s.firstSlot;
  for (std::size_t i = 0; i < l.tensors.size(); ++i) m_arguments[i] = slots[l.tensors[i].value];
  auto done = launchKernel(l.subgraph, l.tensors.size(), s, &l);
  if (!done) {
    Error error = done.error();
    if (isStopped(error)) return error;
    OperatorId failed = l.operators.back();
    std::string name = nameOf(*s.program, l);
    std::int64_t flops = 0;
    for (const OperatorId o : l.operators) flops += flopsOf(*s.program, o);
    const bool byData =
        std::any_of(l.operators.begin(), l.operators.end(), [&](OperatorId o) { return readsByData(*s.program, o); });
    if (byData && flops <= kExplainedFlops) {
      NF_TRY(TensorValues values, inputsOf(s, l));
      if (auto found = refusal(*s.program, l, std::move(values), m_seed, m_step, m_counters)) {
        failed = found->op;
        name = (*s.program)[failed].name;
        error = {"data", found->message, {}, {}};
      }
    }
    error.message = "Operator " + name + ": " + error.message;
    if (error.device.empty()) error.device = m_device.name();
    const OriginId origin = (*s.program)[failed].origin;
    m_failedAt = origin.valid() ? (*s.program)[origin].span : Span{};
    return error;
  }
  if (!check) return done;
  const Program& program = *s.program;
  for (std::size_t i = l.inputs; i < l.tensors.size(); ++i) {
    NF_TRY(const bool bad, hasNaN(slots[l.tensors[i].value], program[l.tensors[i]]));
    if (!bad) continue;
    NF_TRY(TensorValues values, inputsOf(s, l));
    check->found = culprit(program, l, std::move(values), m_seed, m_step, m_counters);
    return done;
  }
  return done;
}

Result<Unit> Executable::runLoop(const PlannedSequence& s, const PlannedLoop& l, Check* check) {
  const PlannedSequence& body = *l.body;
  const Loop& loop = l.loop;
  std::byte* const arena = static_cast<std::byte*>(m_arena) + s.base;
  const auto buffer = [&](std::int64_t offset) -> void* { return arena + offset; };
  const auto bytes = [&](TensorId inner) { return bytesOfTensor((*body.program)[inner]); };

  for (const auto& i : loop.invariants) slot(body, i.inner) = slot(s, i.outer);
  for (const auto& c : loop.carried) slot(body, c.innerIn) = slot(s, c.initial);
  m_counters.push_back(0);
  for (std::int64_t n = 0; n < loop.trips; ++n) {
    const std::int64_t t = loop.reversed ? loop.trips - 1 - n : n;
    m_counters.back() = t;
    for (const PlannedHome& home : l.homes)
      slot(body, home.inner) = home.kind == PlannedHome::Kind::PingPong
                                   ? buffer(l.carried[home.index][static_cast<std::size_t>(n & 1)])
                                   : static_cast<std::byte*>(slot(s, loop.stacked[home.index].outer)) + t * bytes(home.inner);
    const bool recorded = m_profiling && m_recorder;
    if (recorded) m_recorder->openTrip(loop.counter, t);
    auto done = runSequence(body, check);
    if (!done || (check && !check->found.empty())) {
      m_counters.pop_back();
      return done;
    }
    for (std::size_t k = 0; k < loop.stacked.size(); ++k) {
      if (l.stackedHome[k]) continue;
      const std::int64_t size = bytes(loop.stacked[k].inner);
      NF_TRY([[maybe_unused]] const Unit copied, copyWithin(static_cast<std::byte*>(slot(s, loop.stacked[k].outer)) + t * size,
                                                            slot(body, loop.stacked[k].inner), size));
    }
    for (std::size_t k = 0; k < loop.accumulated.size(); ++k) {
      const auto& a = loop.accumulated[k];
      // Two accumulators in turn; the last step writes the outer tensor.
      const bool outer = (loop.trips - 1 - n) % 2 == 0;
      void* const into = outer ? slot(s, a.outer) : buffer(l.accumulated[k]);
      if (n == 0) {
        NF_TRY([[maybe_unused]] const Unit copied, copyWithin(into, slot(body, a.inner), bytes(a.inner)));
        continue;
      }
      m_arguments[0] = outer ? buffer(l.accumulated[k]) : slot(s, a.outer);
      m_arguments[1] = slot(body, a.inner);
      m_arguments[2] = into;
      NF_TRY([[maybe_unused]] const Unit added, launchKernel(l.accumulate[k], 3, s, nullptr));
    }
    for (std::size_t k = 0; k < loop.carried.size(); ++k) {
      const auto& c = loop.carried[k];
      if (l.carriedHome[k] || c.innerOut == c.innerIn) continue;
      NF_TRY([[maybe_unused]] const Unit copied,
             copyWithin(buffer(l.carried[k][static_cast<std::size_t>(n & 1)]), slot(body, c.innerOut), bytes(c.innerOut)));
    }
    for (std::size_t k = 0; k < loop.carried.size(); ++k) {
      const auto& c = loop.carried[k];
      if (c.innerOut == c.innerIn) continue;
      slot(body, c.innerIn) = l.carriedHome[k] ? slot(body, c.innerOut) : buffer(l.carried[k][static_cast<std::size_t>(n & 1)]);
    }
    if (recorded) m_recorder->closeTrip();
  }
  m_counters.pop_back();
  for (const auto& c : loop.carried)
    if (c.last.valid()) {
      NF_TRY([[maybe_unused]] const Unit copied, copyWithin(slot(s, c.last), slot(body, c.innerIn), bytes(c.innerIn)));
    }
  return Unit{};
}

Result<Unit> Executable::applyUpdates() {
  for (const PlannedUpdate& u : m_plan->updates) {
    if (u.direct) continue;
    const TensorStore::Entry& entry = *m_entries[u.target.value];
    NF_TRY([[maybe_unused]] const Unit copied, copyWithin(entry.buffers[entry.current ^ 1u], m_slots[u.value.value], entry.bytes));
  }
  for (const PlannedUpdate& u : m_plan->updates) m_entries[u.target.value]->current ^= 1u;
  m_applied = true;
  if (m_profiling && m_recorder) m_recorder->extendRun();
  return Unit{};
}

void Executable::holdBackAt(TensorId loss) {
  m_guard = {};
  if (m_device.recorder()) return;
  const PlannedSequence& s = m_plan->main;
  const auto makes = [&](const PlannedStep& step, TensorId tensor) {
    if (step.isLoop) return false;
    const PlannedLaunch& l = s.launches[step.index];
    return std::find(l.tensors.begin() + static_cast<std::ptrdiff_t>(l.inputs), l.tensors.end(), tensor) != l.tensors.end();
  };
  const auto made = std::find_if(s.steps.begin(), s.steps.end(), [&](const PlannedStep& step) { return makes(step, loss); });
  if (made == s.steps.end()) return;
  m_guard = loss;
  m_guardedSteps = static_cast<std::size_t>(made - s.steps.begin()) + 1;
  m_overwritten.clear();
  m_backups.clear();
  std::int64_t bytes = 0;
  // What none of the later launches makes is made by these, or in a loop, which may be one of these.
  for (const PlannedUpdate& u : m_plan->updates) {
    m_overwritten.push_back(u.direct &&
                            std::none_of(made + 1, s.steps.end(), [&](const PlannedStep& step) { return makes(step, u.value); }));
    if (m_overwritten.back()) bytes += m_entries[u.target.value]->bytes;
  }
  if (bytes > 0 && bytes <= kMostKept) m_backups.resize(m_plan->updates.size());
}

Result<Unit> Executable::backUp() {
  for (std::size_t i = 0; i < m_backups.size(); ++i) {
    if (!m_overwritten[i]) continue;
    const TensorStore::Entry& entry = *m_entries[m_plan->updates[i].target.value];
    m_backups[i].resize(static_cast<std::size_t>(entry.bytes));
    NF_TRY([[maybe_unused]] const Unit out, m_device.copyOut(m_backups[i].data(), entry.buffers[entry.current ^ 1u], entry.bytes));
  }
  return Unit{};
}

bool Executable::revertUpdates() {
  if (!m_applied && !m_heldBack) return false;
  if (m_heldBack && m_backups.empty() && std::ranges::find(m_overwritten, true) != m_overwritten.end()) return false;
  for (std::size_t i = 0; i < m_plan->updates.size(); ++i) {
    TensorStore::Entry& entry = *m_entries[m_plan->updates[i].target.value];
    entry.current ^= 1u;
    if (m_heldBack && m_overwritten[i] && !m_device.copyIn(entry.value(), m_backups[i].data(), entry.bytes)) return false;
  }
  m_heldBack = false;
  bind();
  return true;
}

Result<TensorId> Executable::updatedNaN() const {
  for (const PlannedUpdate& u : m_plan->updates) {
    NF_TRY(const bool bad, hasNaN(m_entries[u.target.value]->value(), program()[u.target]));
    if (bad) return u.target;
  }
  return TensorId();
}

Result<std::set<std::string>> Executable::infiniteParameters() const {
  std::set<std::string> names;
  for (const PlannedUpdate& u : m_plan->updates) {
    const Tensor& target = program()[u.target];
    if (target.kind != TensorKind::Param) continue;
    NF_TRY(const bool infinite, hasInfinity(m_entries[u.target.value]->value(), target));
    if (infinite) names.insert(target.name);
  }
  return names;
}

Result<HostTensor> Executable::read(TensorId tensor) const {
  const Tensor& t = program()[tensor];
  const void* from = m_entries[tensor.value] ? m_entries[tensor.value]->value() : m_slots[tensor.value];
  if (!from) return Error{"read", "Tensor " + t.name + " is not kept: fused kernels never write it.", m_device.name(), {}};
  if (!m_entries[tensor.value] && m_plan->overwrites(tensor))
    return Error{"read", "Tensor " + t.name + " is not kept: its place is used again in the same step.", m_device.name(), {}};
  return readDevice(m_device, from, t.type, t.shape);
}

Result<double> Executable::scalar(TensorId tensor) const {
  const Tensor& t = program()[tensor];
  const void* from = m_entries[tensor.value] ? m_entries[tensor.value]->value() : m_slots[tensor.value];
  NF_ASSERT(from && t.elements() == 1);
  std::array<std::byte, 8> bytes{};
  const DType type = m_device.storesDoubles() ? DType::F64 : t.type;
  NF_TRY([[maybe_unused]] const Unit out, m_device.copyOut(bytes.data(), from, bytesOf(type)));
  return loadValue(type, bytes.data(), 0);
}

namespace {

Result<bool> anyValue(Device& device, const void* from, const Tensor& tensor, bool (*is)(double)) {
  if (!isFloating(tensor.type)) return false;
  NF_TRY(const HostTensor host, readDevice(device, from, tensor.type, tensor.shape));
  for (std::int64_t i = 0, n = host.elements(); i < n; ++i)
    if (is(host.at(i))) return true;
  return false;
}

struct StepTensors {
  std::vector<TensorId> reads, makes;
};

StepTensors tensorsOf(const PlannedSequence& s, const PlannedStep& step) {
  StepTensors t;
  if (!step.isLoop) {
    const PlannedLaunch& l = s.launches[step.index];
    const auto outputs = l.tensors.begin() + static_cast<std::ptrdiff_t>(l.inputs);
    t.reads.assign(l.tensors.begin(), outputs);
    t.makes.assign(outputs, l.tensors.end());
    return t;
  }
  const Loop& loop = s.loops[step.index].loop;
  for (const auto& i : loop.invariants) t.reads.push_back(i.outer);
  for (const auto& c : loop.carried) {
    t.reads.push_back(c.initial);
    if (c.last.valid()) t.makes.push_back(c.last);
  }
  for (const auto& stacked : loop.stacked) t.makes.push_back(stacked.outer);
  for (const auto& a : loop.accumulated) t.makes.push_back(a.outer);
  return t;
}

}  // namespace

Result<bool> Executable::hasNaN(const void* from, const Tensor& tensor) const {
  return anyValue(m_device, from, tensor, [](double v) { return std::isnan(v); });
}

Result<bool> Executable::hasInfinity(const void* from, const Tensor& tensor) const {
  return anyValue(m_device, from, tensor, [](double v) { return std::isinf(v); });
}

Result<std::string> Executable::firstNaN(std::uint64_t seed, std::uint64_t step) {
  m_seed = seed;
  m_step = step;
  const Program& p = program();
  for (std::size_t t = 0; t < m_entries.size(); ++t) {
    if (!m_entries[t]) continue;
    NF_TRY(const bool bad, hasNaN(m_entries[t]->value(), p.tensors[t]));
    if (bad) return p.tensors[t].name;
  }
  Check check;
  m_counters.clear();
  // What is looked at again is no part of a step.
  const bool profiling = std::exchange(m_profiling, false);
  const auto ran = runSequence(m_plan->main, &check);
  m_profiling = profiling;
  if (!ran) return ran.error();
  return check.found;
}

Result<TensorId> Executable::firstInfinity(TensorId tensor, std::uint64_t seed, std::uint64_t step) {
  m_seed = seed;
  m_step = step;
  m_counters.clear();
  const PlannedSequence& s = m_plan->main;
  std::vector<bool> infinite(program().tensors.size());
  std::vector<std::size_t> maker(program().tensors.size(), s.steps.size());
  // While they stand: the places of most are used again.
  const auto run = [&]() -> Result<Unit> {
    for (std::size_t i = 0; i < s.steps.size(); ++i) {
      NF_TRY([[maybe_unused]] const Unit ran, runSteps(s, i, i + 1, nullptr));
      for (const TensorId t : tensorsOf(s, s.steps[i]).makes) {
        if (!slot(s, t)) continue;
        maker[t.value] = i;
        NF_TRY(infinite[t.value], hasInfinity(slot(s, t), program()[t]));
      }
    }
    return Unit{};
  };
  // What is looked at again is no part of a step.
  const bool profiling = std::exchange(m_profiling, false);
  const auto ran = run();
  m_profiling = profiling;
  if (!ran) return ran.error();
  if (!infinite[tensor.value]) return TensorId();
  for (;;) {
    const std::vector<TensorId> reads = tensorsOf(s, s.steps[maker[tensor.value]]).reads;
    const auto from = std::find_if(reads.begin(), reads.end(), [&](TensorId t) {
      return infinite[t.value] && maker[t.value] < maker[tensor.value];  // a scatter reads what it writes
    });
    if (from == reads.end()) return tensor;
    tensor = *from;
  }
}

std::int64_t Executable::peakBytes() const {
  std::int64_t bytes = m_plan->main.arenaBytes + m_workspaceBytes + m_store->bytes();
  for (const auto& entry : m_own) bytes += entry->bytes;
  return bytes;
}

Result<Unit> linkInProcess(Executable& executable, Compiler& compiler) {
  for (std::uint32_t i = 0; i < executable.plan().subgraphs.size(); ++i) {
    if (executable.kernel(i)) continue;
    const PlannedSubgraph& subgraph = executable.plan().subgraphs[i];
    Schedule schedule;
    schedule.kind = "reference";
    schedule.knobs = std::make_shared<const nlohmann::json>(nlohmann::json::object());
    NF_TRY(const KernelObject object, compiler.compile({*subgraph.program, schedule, {}}));
    NF_TRY(std::unique_ptr<Kernel> kernel, executable.device().link(object));
    auto linked = std::make_shared<LinkedKernel>();
    linked->kernel = std::move(kernel);
    linked->workspaceBytes = object.workspaceBytes;
    NF_TRY([[maybe_unused]] const Unit set, executable.setKernel(i, std::move(linked)));
  }
  return Unit{};
}

}  // namespace nf
