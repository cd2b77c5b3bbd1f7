// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/recurrence.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/schedule/gpu.h"
#include "core/schedule/nest.h"
#include "core/support/checked.h"

namespace nf::loop {
namespace {

constexpr std::size_t kMostStages = 48;

Error refuse(const std::string& why) { return Error{"schedule", why, {}, {}}; }

// The same value in a tensor of its own.
TensorId copyOf(Program& body, TensorId from) {
  Tensor copy = body[from];
  copy.name = body.freshName(copy.name);
  copy.kind = TensorKind::Intermediate;
  copy.init = {};
  Operator op;
  op.name = copy.name;
  op.origin = copy.origin;
  std::vector<AccessIndex> point;
  for (std::size_t k = 0; k < copy.shape.size(); ++k) {
    op.axes.push_back({"i" + std::to_string(k), copy.shape[k], {}});
    point.push_back({IndexExpr::variable(static_cast<IndexVar>(k)), {}});
  }
  op.outputRank = static_cast<std::uint32_t>(copy.shape.size());
  op.body = body.load(from, std::move(point), copy.origin);
  op.output = body.addTensor(std::move(copy));
  const TensorId made = op.output;
  body.addOperator(std::move(op));
  return made;
}

// Why the loop's body is none that stays in one kernel; empty: it is.
std::string refuseBody(const Program& body) {
  for (const Operator& op : body.operators) {
    const std::string name = "operator " + op.name + " of its body ";
    if (op.kind == OperatorKind::Loop) return name + "is a loop itself";
    if (op.kind == OperatorKind::Scatter) return name + "is a scatter";
    if (isArg(op.reducer)) return name + "asks for the place of a maximum or minimum";
    for (const ExprId e : nodesOf(body, op.body)) {
      if (body[e].op != ScalarOp::Load) continue;
      const Access& access = body[body[e].access];
      for (const AccessIndex& index : access.indices)
        if (index.isData()) return name + "reads " + body[access.tensor].name + " at a place that depends on data";
    }
  }
  return {};
}

// Reads of `op` at these values of its axes.
class ReadCollector {
 public:
  ReadCollector(const GroupView& group, RangeOf ranges, std::vector<RecurrenceRead>& into)
      : m_group(group), m_p(*group.program), m_ranges(std::move(ranges)), m_into(into) {}

  void collect(OperatorId id, const std::vector<IndexExpr>& axes) {
    if (!m_seen.insert({id, axes}).second) return;
    for (const ExprId e : nodesOf(m_p, m_p[id].body)) {
      if (m_p[e].op != ScalarOp::Load) continue;
      const Access& access = m_p[m_p[e].access];
      RecurrenceRead read{access.tensor, {}, true};
      for (std::size_t k = 0; k < access.indices.size(); ++k) {
        read.indices.push_back(simplify(substitute(access.indices[k].affine,
                                                   [&](IndexVar v) -> std::optional<IndexExpr> {
                                                     if (v < axes.size()) return axes[v];
                                                     return std::nullopt;
                                                   }),
                                        m_ranges));
        const auto range = bounds(read.indices.back(), m_ranges);
        read.proved = read.proved && range && range->lo >= 0 && range->hi < m_p[access.tensor].shape[k];
      }
      const OperatorId producer = m_group.producers[access.tensor.value];
      if (producer.valid() && !m_group.stored[access.tensor.value]) collect(producer, read.indices);
      else m_into.push_back(std::move(read));
    }
  }

 private:
  const GroupView& m_group;
  const Program& m_p;
  RangeOf m_ranges;
  std::vector<RecurrenceRead>& m_into;
  std::set<std::pair<OperatorId, std::vector<IndexExpr>>> m_seen;
};

std::vector<IndexExpr> pointOf(const Operator& op) {
  std::vector<IndexExpr> axes;
  for (std::size_t k = 0; k < op.axes.size(); ++k) axes.push_back(IndexExpr::variable(static_cast<IndexVar>(k)));
  return axes;
}

void makeStages(RecurrenceView& view) {
  const Program& p = *view.body;
  for (StagePlan& plan : planStages(view.group)) {
    const Operator& first = p[plan.front()];
    RecurrenceStage stage;
    for (std::size_t k = 0; k < first.axes.size(); ++k)
      (k < first.outputRank ? stage.extents : stage.reduced).push_back(first.axes[k].extent);
    std::vector<bool> own(p.tensors.size(), false);
    for (const OperatorId id : plan) own[p[id].output.value] = true;
    std::vector<RecurrenceRead> reads;
    for (const OperatorId id : plan) ReadCollector(view.group, rangesOf(p[id]), reads).collect(id, pointOf(p[id]));
    // What the stage makes itself is at hand at the same point.
    for (RecurrenceRead& r : reads)
      if (!own[r.tensor.value]) stage.reads.push_back(std::move(r));
    stage.operators = std::move(plan);
    view.stages.push_back(std::move(stage));
  }
}

void makeHomes(RecurrenceView& view) {
  const Program& p = *view.body;
  view.homeOf.assign(p.tensors.size(), SIZE_MAX);
  for (std::size_t s = 0; s < view.stages.size(); ++s)
    for (const OperatorId id : view.stages[s].operators) {
      RecurrenceHome home;
      home.tensor = p[id].output;
      home.stage = s;
      home.isOutput = view.group.isOutput[home.tensor.value];
      view.homeOf[home.tensor.value] = view.homes.size();
      view.homes.push_back(home);
    }
  for (const auto& c : view.loop.carried) {
    const std::size_t h = view.homeOf[c.innerOut.value];
    view.homes[h].before = c.innerIn;
    view.homes[h].initial = c.initial;
    view.homeOf[c.innerIn.value] = h;
  }
  for (const RecurrenceStage& stage : view.stages)
    for (const RecurrenceRead& r : stage.reads) {
      if (view.homeOf[r.tensor.value] == SIZE_MAX) continue;
      RecurrenceHome& home = view.homes[view.homeOf[r.tensor.value]];
      (r.tensor == home.before ? home.carriedRead : home.read) = true;
      home.readsProved = home.readsProved && r.proved;
    }
}

}  // namespace

Result<RecurrenceView> viewRecurrence(const Program& subgraph) {
  if (subgraph.operators.size() != 1 || subgraph.operators.front().kind != OperatorKind::Loop)
    return refuse("only a loop alone is a recurrence");
  const std::string name = "the loop " + subgraph.operators.front().name + " is not one kernel: ";
  RecurrenceView view;
  view.outer = std::make_shared<const Program>(subgraph);
  view.loop = (*view.outer)[view.outer->operators.front().loop];
  auto body = std::make_shared<Program>(*view.loop.body);
  view.loop.body.reset();
  if (const std::string why = refuseBody(*body); !why.empty()) return refuse(name + why);

  body->groups.clear();
  body->outputs.clear();
  std::vector<bool> made(body->tensors.size(), false);
  for (const Operator& op : body->operators) made[op.output.value] = true;
  std::vector<bool> carried = made;  // those that no carried value stands for yet
  for (auto& c : view.loop.carried) {
    if (c.innerOut.value < carried.size() && carried[c.innerOut.value]) carried[c.innerOut.value] = false;
    else c.innerOut = copyOf(*body, c.innerOut);
  }
  const auto leaving = [&](TensorId& t) {
    if (t.value < made.size() && !made[t.value]) t = copyOf(*body, t);
  };
  for (auto& s : view.loop.stacked) leaving(s.inner);
  for (auto& a : view.loop.accumulated) leaving(a.inner);
  const auto hand = [&](TensorId t) {
    for (const Output& o : body->outputs)
      if (o.tensor == t) return;
    body->outputs.push_back({(*body)[t].name, t, OutputRole::Named});
  };
  for (const auto& c : view.loop.carried) hand(c.innerOut);
  for (const auto& s : view.loop.stacked) hand(s.inner);
  for (const auto& a : view.loop.accumulated) hand(a.inner);
  view.body = std::move(body);

  auto group = viewGroup(*view.body);
  if (!group) return refuse(name + group.error().message);
  view.group = std::move(*group);
  makeStages(view);
  if (view.stages.size() > kMostStages)
    return refuse(name + "its body is " + std::to_string(view.stages.size()) + " stages, at most " + std::to_string(kMostStages) +
                  " stand in one");
  makeHomes(view);

  const auto seed = std::find_if(view.homes.begin(), view.homes.end(), [](const RecurrenceHome& h) { return h.carriedRead; });
  if (seed == view.homes.end())
    return refuse(name + "no step reads what another made, so its operators run over all steps at once");
  view.seed = seed->stage;
  const Operator& first = (*view.body)[view.stages[view.seed].operators.front()];
  for (std::uint32_t k = 0; k < first.outputRank; ++k) {
    if (first.axes[k].extent == 1) continue;
    view.axes.push_back(static_cast<int>(k));
    view.axisNames.push_back(first.axes[k].name);
  }
  if (view.axes.empty()) {
    view.axes.push_back(-1);
    view.axisNames.emplace_back("none");
  }
  return view;
}

namespace {

// The output axes that are shared out, spread from one stage to those that read it or that it reads.
std::vector<int> unitsOf(const RecurrenceView& view, int seed) {
  std::vector<int> unit(view.stages.size(), -1);
  std::vector<bool> known(view.stages.size(), false);
  const auto own = [](const IndexExpr& e, int axis) { return axis >= 0 && e.asVariable() == static_cast<IndexVar>(axis); };
  const auto spread = [&] {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t r = 0; r < view.stages.size(); ++r)
        for (const RecurrenceRead& read : view.stages[r].reads) {
          if (view.homeOf[read.tensor.value] == SIZE_MAX) continue;
          const std::size_t w = view.homes[view.homeOf[read.tensor.value]].stage;
          const auto &made = view.stages[w].extents, &mine = view.stages[r].extents;
          for (std::size_t k = 0; k < read.indices.size(); ++k) {
            const auto v = read.indices[k].asVariable();
            if (!v || *v >= mine.size() || mine[*v] != made[k]) continue;
            if (known[r] && !known[w] && own(read.indices[k], unit[r])) unit[w] = static_cast<int>(k), known[w] = more = true;
            if (known[w] && !known[r] && unit[w] == static_cast<int>(k)) unit[r] = static_cast<int>(*v), known[r] = more = true;
          }
        }
    }
  };
  unit[view.seed] = seed;
  known[view.seed] = true;
  spread();
  for (std::size_t s = 0; s < view.stages.size(); ++s) {
    if (known[s]) continue;
    const auto& extents = view.stages[s].extents;
    const auto longest = std::max_element(extents.begin(), extents.end());
    if (longest != extents.end() && *longest > 1) unit[s] = static_cast<int>(longest - extents.begin());
    known[s] = true;
    spread();
  }
  return unit;
}

bool uses(const std::vector<IndexExpr>& indices, IndexVar variable) {
  std::vector<IndexVar> used;
  for (const IndexExpr& e : indices) e.collectVariables(used);
  return std::binary_search(used.begin(), used.end(), variable);
}

// Reads of a sum's terms that are the same at every step.
std::vector<HeldAccess> heldOf(const RecurrenceView& view, const RecurrenceStage& stage, int unit) {
  std::vector<HeldAccess> held;
  const auto rank = static_cast<IndexVar>(stage.extents.size());
  for (const OperatorId id : stage.operators) {
    const Program& p = *view.body;
    for (const ExprId e : nodesOf(p, p[id].body)) {
      if (p[e].op != ScalarOp::Load) continue;
      const Access& access = p[p[e].access];
      if (view.group.producers[access.tensor.value].valid() || view.homeOf[access.tensor.value] != SIZE_MAX) continue;
      HeldAccess h{access.tensor, -1, {}};
      for (const AccessIndex& index : access.indices) h.indices.push_back(index.affine);
      std::vector<IndexVar> used;
      for (const IndexExpr& i : h.indices) i.collectVariables(used);
      const bool still = used.empty() || used.back() < kLoopVariable;
      const bool reduced = std::any_of(used.begin(), used.end(), [&](IndexVar v) { return v >= rank && v < kLoopVariable; });
      bool proved = true;
      for (std::size_t k = 0; k < h.indices.size(); ++k) {
        const auto range = bounds(h.indices[k], rangesOf(p[id]));
        proved = proved && range && range->lo >= 0 && range->hi < p[h.tensor].shape[k];
        if (unit >= 0 && h.indices[k].asVariable() == static_cast<IndexVar>(unit) && h.unit < 0) h.unit = static_cast<int>(k);
      }
      // Only a share of it stays with a block where nothing else walks along its units.
      if (h.unit >= 0 && !(p[h.tensor].shape[static_cast<std::size_t>(h.unit)] == stage.extents[static_cast<std::size_t>(unit)]))
        h.unit = -1;
      const auto same = [&](const HeldAccess& o) { return o.tensor == h.tensor && o.indices == h.indices; };
      if (still && reduced && proved && std::none_of(held.begin(), held.end(), same)) held.push_back(std::move(h));
    }
  }
  return held;
}

int reuseOf(const RecurrenceStage& stage, const std::vector<HeldAccess>& held, int unit) {
  int best = -1;
  for (std::size_t k = 0; k < stage.extents.size() && !held.empty(); ++k) {
    const bool free =
        std::none_of(held.begin(), held.end(), [&](const HeldAccess& h) { return uses(h.indices, static_cast<IndexVar>(k)); });
    if (static_cast<int>(k) == unit || !free || stage.extents[k] == 1) continue;
    if (best < 0 || stage.extents[k] > stage.extents[static_cast<std::size_t>(best)]) best = static_cast<int>(k);
  }
  return best;
}

// Of the positions behind the stages of a step, in a circle, `length` from `begin` on: somewhere there a barrier must stand.
struct Arc {
  std::size_t begin, length;
};

// The fewest positions that every arc has one of: the best of all circles that begin at one of them.
std::vector<std::size_t> pierced(const std::vector<Arc>& arcs, std::size_t positions) {
  std::vector<std::size_t> best;
  if (arcs.empty()) return best;
  for (std::size_t first = 0; first < positions; ++first) {
    std::vector<std::pair<std::size_t, std::size_t>> lines;  // last and first position, counted from `first`
    for (const Arc& a : arcs) {
      const std::size_t begin = (a.begin + positions - first) % positions, end = begin + a.length - 1;
      if (begin != 0 && end < positions) lines.emplace_back(end, begin);
    }
    std::sort(lines.begin(), lines.end());
    std::vector<std::size_t> chosen{first};
    std::size_t latest = 0;
    for (const auto& [end, begin] : lines) {
      if (begin <= latest) continue;
      latest = end;
      chosen.push_back((first + end) % positions);
    }
    if (best.empty() || chosen.size() < best.size()) best = std::move(chosen);
  }
  return best;
}

}  // namespace

RecurrencePlan planRecurrence(const RecurrenceView& view, std::size_t axis, bool oneBlock) {
  RecurrencePlan plan;
  const std::size_t stages = view.stages.size();
  plan.unit = unitsOf(view, view.axes[axis]);
  for (std::size_t s = 0; s < stages; ++s) {
    plan.held.push_back(view.stages[s].reduced.empty() ? std::vector<HeldAccess>() : heldOf(view, view.stages[s], plan.unit[s]));
    plan.reuse.push_back(reuseOf(view.stages[s], plan.held[s], plan.unit[s]));
    for (const HeldAccess& h : plan.held[s])
      if (std::none_of(plan.slices.begin(), plan.slices.end(),
                       [&](const RecurrenceSlice& x) { return x.tensor == h.tensor && x.unit == h.unit; }))
        plan.slices.push_back({h.tensor, h.unit});
  }

  // Elements that a stage reads of another's: each made by the reading thread, by its block, or by anyone.
  const auto meeting = [&](std::size_t w, std::size_t r, const RecurrenceRead& read) {
    const RecurrenceStage &writer = view.stages[w], &reader = view.stages[r];
    const int made = plan.unit[w], mine = plan.unit[r];
    if (!oneBlock) {
      if ((made < 0) != (mine < 0)) return Meeting::Grid;
      if (made >= 0) {
        const bool own = read.indices[static_cast<std::size_t>(made)].asVariable() == static_cast<IndexVar>(mine) &&
                         writer.extents[static_cast<std::size_t>(made)] == reader.extents[static_cast<std::size_t>(mine)];
        if (!own) return Meeting::Grid;
      }
    }
    bool same = writer.reduced.empty() && reader.reduced.empty() && writer.extents == reader.extents && made == mine;
    for (std::size_t k = 0; same && k < read.indices.size(); ++k)
      same =
          read.indices[k].asVariable() == static_cast<IndexVar>(k) || (writer.extents[k] == 1 && read.indices[k] == IndexExpr(0));
    return same ? Meeting::None : Meeting::Block;
  };

  struct Need {
    std::size_t writer, reader, home;
    Meeting meeting;
    bool carried;
  };
  std::vector<Need> needs;
  plan.crosses.assign(view.homes.size(), false);
  for (std::size_t r = 0; r < stages; ++r)
    for (const RecurrenceRead& read : view.stages[r].reads) {
      const std::size_t h = view.homeOf[read.tensor.value];
      if (h == SIZE_MAX) continue;
      const RecurrenceHome& home = view.homes[h];
      const Meeting m = meeting(home.stage, r, read);
      plan.crosses[h] = plan.crosses[h] || m == Meeting::Grid;
      if (m != Meeting::None) needs.push_back({home.stage, r, h, m, read.tensor == home.before});
    }

  plan.behind.assign(stages, Meeting::None);
  const auto has = [&](const Arc& a, Meeting least) {
    for (std::size_t k = 0; k < a.length; ++k)
      if (plan.behind[(a.begin + k) % stages] >= least) return true;
    return false;
  };
  for (const Meeting level : {Meeting::Grid, Meeting::Block}) {
    std::vector<Arc> arcs;
    const auto add = [&](std::size_t from, std::size_t to, std::size_t steps) {
      const Arc arc{from, std::min(to + steps * stages - from, stages)};
      if (!has(arc, level)) arcs.push_back(arc);
    };
    for (const Need& n : needs) {
      if (n.meeting != level) continue;
      add(n.writer, n.reader, n.carried ? 1 : 0);
      // Before it is overwritten: carried values, and others that cross, lie in two buffers in turn.
      const bool twice = !n.carried && (view.homes[n.home].carriedRead || plan.crosses[n.home]);
      add(n.reader, n.writer, twice ? 2 : 1);
    }
    for (const std::size_t position : pierced(arcs, stages)) plan.behind[position] = level;
  }

  // The values before the first step are the business of who makes them later, weights of their block.
  const auto early = [&](std::size_t reader, Meeting level) {
    for (std::size_t k = 0; k < reader; ++k)
      if (plan.behind[k] >= level) return;
    plan.first = std::max(plan.first, level);
  };
  for (const Need& n : needs)
    if (n.carried) early(n.reader, n.meeting);
  for (std::size_t s = 0; s < stages; ++s)
    if (!plan.held[s].empty()) early(s, Meeting::Block);
  return plan;
}

std::int64_t shareOf(std::int64_t extent, int blocks) { return ceilDiv(extent, blocks); }

std::int64_t rowsOf(const RecurrencePlan& plan, const RecurrenceStage& stage, std::size_t number, const RecurrenceKnobs& knobs) {
  if (plan.reuse[number] < 0) return 1;
  std::int64_t rows = knobs.rows;
  while (stage.extents[static_cast<std::size_t>(plan.reuse[number])] % rows != 0) rows /= 2;
  return rows;
}

std::int64_t placesOf(const RecurrencePlan& plan, const RecurrenceStage& stage, std::size_t number, const RecurrenceKnobs& knobs) {
  std::int64_t places = 1;
  for (std::size_t k = 0; k < stage.extents.size(); ++k) {
    if (static_cast<int>(k) == plan.reuse[number]) continue;
    places *= static_cast<int>(k) == plan.unit[number] ? shareOf(stage.extents[k], knobs.blocks) : stage.extents[k];
  }
  return places;
}

std::int64_t sharedBytes(const RecurrenceView& view, const RecurrenceSlice& slice, const RecurrenceKnobs& knobs) {
  const Tensor& t = (*view.body)[slice.tensor];
  std::int64_t elements = 1;
  for (std::size_t k = 0; k < t.shape.size(); ++k)
    elements *= static_cast<int>(k) == slice.unit ? shareOf(t.shape[k], knobs.blocks) : t.shape[k];
  return ceilDiv(elements * bytesOf(t.type), kSharedAlignment) * kSharedAlignment;
}

std::vector<bool> homesInShared(const RecurrenceView& view, const RecurrencePlan& plan, const RecurrenceKnobs& knobs) {
  std::vector<bool> shared(view.homes.size(), false);
  std::int64_t left = knobs.sharedBytes;
  if (knobs.hold == Hold::Shared)
    for (const RecurrenceSlice& slice : plan.slices) left -= sharedBytes(view, slice, knobs);
  for (std::size_t h = 0; h < view.homes.size(); ++h) {
    const RecurrenceHome& home = view.homes[h];
    if (home.isOutput || !home.read || plan.crosses[h] || !home.readsProved) continue;
    const std::int64_t bytes = sharedBytes(view, {home.tensor, plan.unit[home.stage]}, knobs) * 2;  // of f16 f32 is kept
    shared[h] = bytes <= left;
    if (shared[h]) left -= bytes;
  }
  return shared;
}

}  // namespace nf::loop
