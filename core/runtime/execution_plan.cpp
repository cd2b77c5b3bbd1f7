// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/execution_plan.h"

#include <algorithm>
#include <array>
#include <queue>
#include <unordered_map>

#include "core/ir/structural_hash.h"
#include "core/runtime/memory_plan.h"
#include "core/support/checked.h"
#include "core/transform/remove_dead_operators.h"

namespace nf {
namespace {

Error planError(std::string message) { return {"plan", std::move(message), {}, {}}; }

constexpr std::uint32_t kDeepestLoop = 64;

// What stays readable must leave its group: only outputs do.
std::shared_ptr<const Program> withOutputs(const Program& program, const std::vector<TensorId>& wanted) {
  auto copy = std::make_shared<Program>(program);
  std::vector<bool> there(program.tensors.size(), false);
  for (const Output& o : program.outputs) there[o.tensor.value] = true;
  for (const TensorId t : wanted)
    if (!there[t.value]) copy->outputs.push_back({program[t].name, t, OutputRole::Named}), there[t.value] = true;
  return copy;
}

// total = sum + term, elementwise: how gradients of invariants are summed over the steps of a loop.
Program accumulator(const Tensor& tensor) {
  Program p;
  p.stage = Stage::Fused;
  const auto add = [&](const char* name, TensorKind kind) {
    Tensor t;
    t.name = name;
    t.kind = kind;
    t.type = tensor.type;
    t.shape = tensor.shape;
    return p.addTensor(std::move(t));
  };
  const TensorId sum = add("sum", TensorKind::Input), term = add("term", TensorKind::Input),
                 total = add("total", TensorKind::Intermediate);
  Operator op;
  std::vector<AccessIndex> point;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    op.axes.push_back({"i" + std::to_string(d), tensor.shape[d], {}});
    point.push_back({IndexExpr::variable(static_cast<IndexVar>(d)), {}});
  }
  op.outputRank = static_cast<std::uint32_t>(tensor.shape.size());
  const DType type = arithmeticType(tensor.type);
  const ExprId left = p.load(sum, point), right = p.load(term, point);  // in the order of the launch's arguments
  ExprId body = p.binary(ScalarOp::Add, left, right);
  if (p[body].type != type) body = p.cast(type, body);
  op.body = body;
  op.output = total;
  op.name = "total";
  const OperatorId id = p.addOperator(std::move(op));
  p.outputs.push_back({"total", total, OutputRole::Named});
  return extractSubgraph(p, {id}).program;
}

class Planner {
 public:
  Planner(const PlanOptions& options, ExecutionPlan& plan) : m_options(options), m_plan(plan) {}

  Result<Unit> sequence(PlannedSequence& s, const std::vector<TensorId>& wanted, const std::vector<bool>& outside, double calls,
                        std::uint32_t depth, bool isMain) {
    if (depth > kDeepestLoop) return planError("Loops are nested deeper than " + std::to_string(kDeepestLoop) + ".");
    const Program& p = *s.program;
    s.firstSlot = m_plan.slots;
    m_plan.slots += static_cast<std::uint32_t>(p.tensors.size());
    NF_TRY(const std::vector<Group> groups, orderedGroups(p, wanted));

    const SubgraphExtractor extractor(p);
    std::vector<std::uint32_t> written(p.tensors.size(), kNever), lastUse(p.tensors.size(), 0);
    std::vector<bool> shared = outside;  // not of this arena
    shared.resize(p.tensors.size(), false);
    const auto use = [&](TensorId t, std::uint32_t at) { lastUse[t.value] = std::max(lastUse[t.value], at); };
    std::vector<MemoryRequest> requests;
    std::vector<std::int64_t*> receivers;
    std::vector<std::string> names;
    const auto request = [&](std::int64_t* receiver, std::int64_t bytes, std::uint32_t first, std::uint32_t last,
                             std::string name) {
      requests.push_back({bytes, first, last});
      receivers.push_back(receiver);
      names.push_back(std::move(name));
    };

    s.loops.reserve(groups.size());
    for (const Group& group : groups) {
      const auto at = static_cast<std::uint32_t>(s.steps.size());
      for (const OperatorId o : group.operators) {
        for (const TensorId t : readsOf(p, o)) use(t, at);
        for (const TensorId t : writesOf(p, o)) written[t.value] = std::min(written[t.value], at), use(t, at);
      }
      const Operator& first = p[group.operators.front()];
      if (isStepped(p, group)) {
        s.loops.emplace_back();
        NF_TRY([[maybe_unused]] const Unit planned, loop(s.loops.back(), p, p[first.loop], calls, depth));
        PlannedLoop& l = s.loops.back();
        request(&l.bodyOffset, l.body->arenaBytes, at, at, first.name + ", body");
        for (std::size_t k = 0; k < l.loop.carried.size(); ++k)
          for (int side = 0; side < 2; ++side)
            request(&l.carried[k][static_cast<std::size_t>(side)], bytesOfTensor(p[l.loop.carried[k].initial]), at, at,
                    first.name + ", carried");
        for (std::size_t k = 0; k < l.loop.accumulated.size(); ++k)
          request(&l.accumulated[k], bytesOfTensor(p[l.loop.accumulated[k].outer]), at, at, first.name + ", sum");
        s.steps.push_back({true, static_cast<std::uint32_t>(s.loops.size() - 1)});
        continue;
      }
      Subgraph sub = extractor.extract(group.operators, false);
      PlannedLaunch launch;
      launch.tensors = sub.outerInputs;
      launch.inputs = sub.outerInputs.size();
      launch.tensors.insert(launch.tensors.end(), sub.outerOutputs.begin(), sub.outerOutputs.end());
      launch.operators = group.operators;
      std::string name = group.name.empty() ? p[group.operators.back()].name : group.name;
      launch.subgraph = subgraph(sub.hash, std::move(sub.program), std::move(name), calls);
      s.launches.push_back(std::move(launch));
      s.steps.push_back({false, static_cast<std::uint32_t>(s.launches.size() - 1)});
    }

    const auto end = static_cast<std::uint32_t>(s.steps.size());
    for (const TensorId t : wanted) use(t, end);
    s.offsets.assign(p.tensors.size(), -1);
    // Written inside a group and never read outside it: it has no place in memory.
    std::vector<bool> inMemory(p.tensors.size(), false);
    for (const PlannedLaunch& l : s.launches)
      for (const TensorId t : l.tensors) inMemory[t.value] = true;
    for (const PlannedLoop& l : s.loops)
      for (const TensorId t : touched(l.loop)) inMemory[t.value] = true;
    for (std::size_t t = 0; t < p.tensors.size(); ++t)
      if (written[t] != kNever && !shared[t] && inMemory[t])
        request(&s.offsets[t], bytesOfTensor(p.tensors[t]), written[t], lastUse[t], p.tensors[t].name);
    std::int64_t total = 0;
    for (const MemoryRequest& r : requests) {
      const auto sum = r.bytes < (std::int64_t{1} << 62) ? checkedAdd(total, aligned(r.bytes)) : std::nullopt;
      if (!sum) return planError("The tensors of a step together are larger than 64 bits can count.");
      total = *sum;
    }
    const MemoryPlan memory = planMemory(requests);
    for (std::size_t r = 0; r < requests.size(); ++r) {
      *receivers[r] = memory.offsets[r];
      if (isMain) m_plan.blocks.push_back({names[r], memory.offsets[r], requests[r].bytes, requests[r].first, requests[r].last});
    }
    s.arenaBytes = memory.bytes;
    return Unit{};
  }

 private:
  static constexpr std::uint32_t kNever = 0xffffffffu;

  std::int64_t bytesOfTensor(const Tensor& t) const { return m_options.doubles ? t.elements() * 8 : t.bytes(); }

  static std::vector<TensorId> touched(const Loop& loop) {
    std::vector<TensorId> ids;
    for (const auto& c : loop.carried) {
      ids.push_back(c.initial);
      if (c.last.valid()) ids.push_back(c.last);
    }
    for (const auto& i : loop.invariants) ids.push_back(i.outer);
    for (const auto& k : loop.stacked) ids.push_back(k.outer);
    for (const auto& a : loop.accumulated) ids.push_back(a.outer);
    return ids;
  }

  std::uint32_t subgraph(const Hash& hash, Program&& program, std::string name, double calls) {
    const auto [found, isNew] = m_known.emplace(hash, static_cast<std::uint32_t>(m_plan.subgraphs.size()));
    if (isNew) m_plan.subgraphs.push_back({hash, std::make_shared<const Program>(std::move(program)), std::move(name), 0});
    m_plan.subgraphs[found->second].callsPerStep += calls;
    return found->second;
  }

  Result<Unit> loop(PlannedLoop& l, const Program& outer, const Loop& loop, double calls, std::uint32_t depth) {
    l.loop = loop;
    l.loop.body.reset();
    l.body = std::make_unique<PlannedSequence>();
    const Program& body = *loop.body;
    const double innerCalls = calls * static_cast<double>(loop.trips);
    l.carried.assign(loop.carried.size(), {0, 0});
    l.carriedHome.assign(loop.carried.size(), false);
    l.stackedHome.assign(loop.stacked.size(), false);
    l.accumulated.assign(loop.accumulated.size(), 0);

    const auto made = producers(body);
    std::vector<bool> outside(body.tensors.size(), false);
    std::vector<TensorId> wanted;
    for (std::size_t k = 0; k < loop.stacked.size(); ++k) {
      const TensorId t = loop.stacked[k].inner;
      wanted.push_back(t);
      // Kernels take pointers aligned to 64 bytes: a slice that is not is written elsewhere and copied.
      if (!made[t.value].valid() || outside[t.value] || bytesOfTensor(body[t]) % kAlignment != 0) continue;
      outside[t.value] = true;
      l.stackedHome[k] = true;
      l.homes.push_back({t, PlannedHome::Kind::Slice, static_cast<std::uint32_t>(k)});
    }
    for (std::size_t k = 0; k < loop.carried.size(); ++k) {
      const TensorId t = loop.carried[k].innerOut;
      wanted.push_back(t);
      if (!made[t.value].valid()) continue;
      if (outside[t.value]) {
        // Written to a slice of its own step: the next step reads it there. A second carried tensor of the same value takes a copy.
        const bool slice = std::any_of(l.homes.begin(), l.homes.end(),
                                       [&](const PlannedHome& h) { return h.inner == t && h.kind == PlannedHome::Kind::Slice; });
        l.carriedHome[k] = slice;
        continue;
      }
      outside[t.value] = true;
      l.carriedHome[k] = true;
      l.homes.push_back({t, PlannedHome::Kind::PingPong, static_cast<std::uint32_t>(k)});
    }
    for (const auto& a : loop.accumulated) {
      wanted.push_back(a.inner);
      Program adder = accumulator(outer[a.outer]);
      const Hash hash = structuralHash(adder);
      l.accumulate.push_back(
          subgraph(hash, std::move(adder), outer[a.outer].name + ", sum over " + loop.counter, std::max(0.0, innerCalls - calls)));
    }
    std::vector<bool> bound(body.tensors.size(), false);
    for (const auto& c : loop.carried) bound[c.innerIn.value] = true;
    for (const auto& i : loop.invariants) bound[i.inner.value] = true;
    for (std::size_t o = 0; o < body.operators.size(); ++o)
      for (const TensorId t : readsOf(body, OperatorId(o)))
        if (!made[t.value].valid() && !bound[t.value])
          return planError("Tensor " + body[t].name + " of a loop's body has no value.");
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    l.body->program = withOutputs(body, wanted);
    return sequence(*l.body, wanted, outside, innerCalls, depth + 1, false);
  }

  // Groups that are needed, each after those it reads from.
  Result<std::vector<Group>> orderedGroups(const Program& p, const std::vector<TensorId>& wanted) {
    std::vector<Group> groups;
    if (p.groups.empty()) {
      for (std::size_t o = 0; o < p.operators.size(); ++o) groups.push_back({{OperatorId(o)}, 0, {}});
    } else {
      groups = p.groups;
    }
    const auto made = producers(p);
    std::vector<std::uint32_t> groupOf(p.operators.size(), kNever);
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const OperatorId o : groups[g].operators) groupOf[o.value] = static_cast<std::uint32_t>(g);
    // Backwards from what is wanted.
    std::vector<bool> needed(groups.size(), false);
    std::vector<std::uint32_t> pending;
    const auto need = [&](TensorId t) {
      if (!made[t.value].valid()) return;
      const std::uint32_t g = groupOf[made[t.value].value];
      if (g == kNever || needed[g]) return;
      needed[g] = true;
      pending.push_back(g);
    };
    for (const TensorId t : wanted) need(t);
    std::vector<std::vector<std::uint32_t>> users(groups.size());
    std::vector<std::uint32_t> waiting(groups.size(), 0);
    while (!pending.empty()) {
      const std::uint32_t g = pending.back();
      pending.pop_back();
      std::vector<std::uint32_t> sources;
      for (const OperatorId o : groups[g].operators)
        for (const TensorId t : readsOf(p, o)) {
          need(t);
          if (made[t.value].valid() && groupOf[made[t.value].value] != g) sources.push_back(groupOf[made[t.value].value]);
        }
      std::sort(sources.begin(), sources.end());
      sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
      for (const std::uint32_t source : sources) users[source].push_back(g);
      waiting[g] = static_cast<std::uint32_t>(sources.size());
    }
    // Ties by the first operator, so that the order follows the program's.
    const auto later = [&](std::uint32_t a, std::uint32_t b) { return groups[a].operators.front() > groups[b].operators.front(); };
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, decltype(later)> ready(later);
    std::size_t count = 0;
    for (std::uint32_t g = 0; g < groups.size(); ++g) {
      count += needed[g];
      if (needed[g] && waiting[g] == 0) ready.push(g);
    }
    std::vector<Group> ordered;
    while (!ready.empty()) {
      const std::uint32_t g = ready.top();
      ready.pop();
      for (const std::uint32_t user : users[g])
        if (--waiting[user] == 0) ready.push(user);
      ordered.push_back(std::move(groups[g]));
    }
    if (ordered.size() != count) return planError("The groups of the program depend on one another in a circle.");
    return ordered;
  }

  const PlanOptions& m_options;
  ExecutionPlan& m_plan;
  std::unordered_map<Hash, std::uint32_t> m_known;
};

void setBases(PlannedSequence& s, std::int64_t base) {
  s.base = base;
  for (PlannedLoop& l : s.loops) setBases(*l.body, base + l.bodyOffset);
}

std::int64_t countLaunches(const PlannedSequence& s) {
  std::int64_t count = static_cast<std::int64_t>(s.launches.size());
  for (const PlannedLoop& l : s.loops) count += l.loop.trips * countLaunches(*l.body);
  return count;
}

}  // namespace

Result<std::shared_ptr<const ExecutionPlan>> planExecution(const Program& program, const PlanOptions& options) {
  auto plan = std::make_shared<ExecutionPlan>();
  const Program& p = program;
  const auto made = producers(p);
  for (const Derivative& d : p.derivatives)
    if (!made[d.result.value].valid()) return planError("The derivative " + p[d.result].name + " is asked for and not made yet.");

  std::vector<TensorId> wanted = options.keep;
  for (const Output& o : p.outputs) wanted.push_back(o.tensor);
  std::vector<bool> outside(p.tensors.size(), false), taken(p.tensors.size(), false);
  if (options.updates)
    for (const Update& u : p.updates) {
      if (p[u.target].shape != p[u.value].shape || p[u.target].type != p[u.value].type)
        return planError("The update of " + p[u.target].name + " by " + p[u.value].name + " changes its shape or type.");
      if (taken[u.target.value]) return planError("Tensor " + p[u.target].name + " is updated twice in one step.");
      taken[u.target.value] = true;
      const bool direct = made[u.value.value].valid() && !outside[u.value.value];
      if (direct) outside[u.value.value] = true;
      plan->updates.push_back({u.target, u.value, direct});
      wanted.push_back(u.value);
    }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());

  plan->main.program = withOutputs(p, wanted);
  plan->persistent.assign(p.tensors.size(), false);
  Planner planner(options, *plan);
  NF_TRY([[maybe_unused]] const Unit planned, planner.sequence(plan->main, wanted, outside, 1, 0, true));
  const auto persist = [&](TensorId t) {
    if (!made[t.value].valid()) plan->persistent[t.value] = true;
  };
  for (const PlannedLaunch& l : plan->main.launches)
    for (std::size_t i = 0; i < l.inputs; ++i) persist(l.tensors[i]);
  for (const PlannedLoop& l : plan->main.loops) {
    for (const auto& c : l.loop.carried) persist(c.initial);
    for (const auto& i : l.loop.invariants) persist(i.outer);
  }
  for (const TensorId t : wanted) persist(t);
  for (const PlannedUpdate& u : plan->updates) plan->persistent[u.target.value] = true;
  setBases(plan->main, 0);
  plan->launchesPerStep = countLaunches(plan->main);
  return std::shared_ptr<const ExecutionPlan>(std::move(plan));
}

bool ExecutionPlan::overwrites(TensorId tensor) const {
  const std::int64_t offset = main.offsets[tensor.value];
  if (offset < 0) return false;
  const std::string& name = (*main.program)[tensor].name;
  const auto own = std::find_if(blocks.begin(), blocks.end(), [&](const Block& b) { return b.offset == offset && b.name == name; });
  return own != blocks.end() && std::any_of(blocks.begin(), blocks.end(), [&](const Block& b) {
           return b.first > own->last && b.offset < own->offset + own->bytes && own->offset < b.offset + b.bytes;
         });
}

Program restrictedTo(const Program& program, const std::vector<TensorId>& outputs, bool updates) {
  std::vector<bool> needed(program.tensors.size(), false), kept(program.operators.size(), false);
  for (const TensorId t : outputs) needed[t.value] = true;
  if (updates)
    for (const Update& u : program.updates) needed[u.value.value] = needed[u.target.value] = true;
  // A pending derivative needs everything that leads to what it derives.
  bool changed = true;
  while (changed) {
    changed = false;
    for (const Derivative& d : program.derivatives) {
      if (!needed[d.result.value]) continue;
      for (const TensorId t : {d.of, d.wrt, d.seed})
        if (t.valid() && !needed[t.value]) needed[t.value] = changed = true;
    }
    for (std::size_t o = program.operators.size(); o-- > 0;) {
      if (kept[o]) continue;
      const auto writes = writesOf(program, OperatorId(o));
      if (std::none_of(writes.begin(), writes.end(), [&](TensorId t) { return needed[t.value]; })) continue;
      kept[o] = changed = true;
      for (const TensorId t : readsOf(program, OperatorId(o))) needed[t.value] = true;
    }
  }
  Program result = program;
  result.groups.clear();
  if (!updates) result.updates.clear();
  std::erase_if(result.derivatives, [&](const Derivative& d) { return !needed[d.result.value]; });
  std::erase_if(result.outputs,
                [&](const Output& o) { return std::find(outputs.begin(), outputs.end(), o.tensor) == outputs.end(); });
  if (auto alive = removeDeadOperators(result)) return std::move(*alive);
  return result;
}

}  // namespace nf
