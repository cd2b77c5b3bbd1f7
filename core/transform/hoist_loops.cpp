// SPDX-License-Identifier: Apache-2.0
#include "core/transform/hoist_loops.h"

#include <algorithm>
#include <unordered_map>

#include "core/ir/rewrite.h"
#include "core/support/unique_names.h"
#include "core/transform/join_origins.h"

namespace nf {
namespace {

constexpr std::size_t kDeepestLoop = 64;

enum class Place : std::uint8_t { Front, Core, Back };

// Where each operator of a body may stand.
std::vector<Place> placesOf(const Loop& loop) {
  const Program& body = *loop.body;
  const std::size_t tensors = body.tensors.size(), count = body.operators.size();
  std::vector<bool> late(tensors, false), steers(tensors, false);  // depends on a carried tensor; a carried tensor depends on it
  for (const auto& c : loop.carried) {
    late[c.innerIn.value] = true;
    steers[c.innerOut.value] = true;
  }
  std::vector<bool> pinned(tensors, false);  // read by a nested loop, which stays, or the next value of a carried tensor
  for (const auto& c : loop.carried) pinned[c.innerOut.value] = true;
  for (const Operator& op : body.operators)
    if (op.kind == OperatorKind::Loop)
      for (const TensorId t : readsOf(body, OperatorId(static_cast<std::size_t>(&op - body.operators.data()))))
        pinned[t.value] = true;
  std::vector<bool> front(count, false), back(count, false);
  for (std::size_t o = 0; o < count; ++o) {
    const auto reads = readsOf(body, OperatorId(o));
    const bool depends = std::any_of(reads.begin(), reads.end(), [&](TensorId t) { return late[t.value]; });
    const auto writes = writesOf(body, OperatorId(o));
    const bool stays = body.operators[o].kind == OperatorKind::Loop ||
                       std::any_of(writes.begin(), writes.end(), [&](TensorId t) { return pinned[t.value]; });
    front[o] = !depends && !stays;
    // What stays inside pins what depends on it: it is no longer ready before the loop.
    if (!front[o])
      for (const TensorId t : writes) late[t.value] = true;
  }
  for (std::size_t o = count; o-- > 0;) {
    const auto writes = writesOf(body, OperatorId(o));
    const bool steering = std::any_of(writes.begin(), writes.end(), [&](TensorId t) { return steers[t.value]; });
    const bool stays = body.operators[o].kind == OperatorKind::Loop ||
                       std::any_of(writes.begin(), writes.end(), [&](TensorId t) { return pinned[t.value]; });
    back[o] = !steering && !stays && !front[o];
    // A carried tensor's way leads through what stays; what merely leaves to the front is ready anyway.
    if (!back[o] && !front[o])
      for (const TensorId t : readsOf(body, OperatorId(o))) steers[t.value] = true;
  }
  std::vector<Place> places;
  for (std::size_t o = 0; o < count; ++o) places.push_back(front[o] ? Place::Front : back[o] ? Place::Back : Place::Core);
  return places;
}

bool usesCounter(const Program& body, const Operator& op, IndexVar counter) {
  const auto in = [&](const IndexExpr& e) { return e.uses(counter); };
  const auto inExpr = [&](ExprId root) {
    for (const ExprId id : nodesOf(body, root)) {
      const ScalarNode& n = body[id];
      if (n.index.valid() && in(body[n.index])) return true;
      if (n.access.valid())
        for (const AccessIndex& i : body[n.access].indices)
          if (!i.isData() && in(i.affine)) return true;
    }
    return false;
  };
  if (inExpr(op.body)) return true;
  return std::any_of(op.scatter.begin(), op.scatter.end(),
                     [&](const AccessIndex& i) { return i.isData() ? inExpr(i.data) : in(i.affine); });
}

class Hoisting {
 public:
  explicit Hoisting(const Program& from) : m_to(from) {
    for (const Tensor& t : from.tensors) m_names.take(t.name);
  }

  Result<Program> run(std::size_t depth) {
    if (depth > kDeepestLoop) return Error{"transform", "loops are nested deeper than 64", {}, {}};
    const std::vector<Operator> operators = std::move(m_to.operators);
    m_to.operators.clear();
    for (const Operator& op : operators) {
      if (op.kind != OperatorKind::Loop) {
        m_to.addOperator(op);
        continue;
      }
      Loop loop = m_to[op.loop];
      NF_TRY(Program body, Hoisting(*loop.body).run(depth + 1));
      loop.body = std::make_shared<const Program>(std::move(body));
      hoist(op, loop);
    }
    return std::move(m_to);
  }

 private:
  TensorId newTensor(const Program& body, TensorId inner, std::optional<std::int64_t> trips, OriginId loop,
                     OriginImporter& import) {
    Tensor t;
    t.name = m_names.taken(trips ? body[inner].name + "_steps" : body[inner].name);
    t.type = body[inner].type;
    t.shape = body[inner].shape;
    if (trips) t.shape.insert(t.shape.begin(), *trips);
    t.origin = m_to.derivedOrigin("hoist_loops", {loop, import(body[inner].origin)});
    return m_to.addTensor(std::move(t));
  }

  void emit(Operator op, TensorId output, Phase phase) {
    op.output = output;
    op.name = m_to[output].name;
    op.phase = phase;
    op.origin = m_to.derivedOrigin("hoist_loops", {op.origin});
    m_to.addOperator(std::move(op));
  }

  // An operator that does not use time, outside as it is.
  Operator liftOnce(const Program& body, const Operator& op, const std::function<OuterTensor(TensorId)>& tensor,
                    OriginImporter& import) {
    Operator lifted = op;
    for (Axis& axis : lifted.axes) axis.origin = import(axis.origin);
    lifted.origin = import(op.origin);
    ExprRewriter rewriter(body, m_to);
    rewriter.origin = [&](OriginId o) { return import(o); };
    rewriter.access = [&](Access access) {
      access.tensor = tensor(access.tensor).id;
      return access;
    };
    lifted.body = rewriter.rewrite(op.body);
    for (AccessIndex& index : lifted.scatter) index = rewriter.rewrite(index);
    return lifted;
  }

  // [t, x.., r..] as sum over t and r: the operator of one step's summand.
  void sumOverTime(Operator& op) {
    const std::uint32_t rank = op.outputRank - 1;
    ExprRewriter rewriter(m_to, m_to);
    rewriter.variable = [rank](IndexVar v) -> std::optional<IndexExpr> {
      if (v == 0) return IndexExpr::variable(rank);
      if (v <= rank) return IndexExpr::variable(v - 1);
      return std::nullopt;
    };
    op.body = rewriter.rewrite(op.body);
    std::rotate(op.axes.begin(), op.axes.begin() + 1, op.axes.begin() + 1 + rank);
    op.outputRank = rank;
    op.reducer = Reducer::Sum;
  }

  // target = from over all steps, or its sum over them. `target` has the shape of one step where it sums.
  void spread(const OuterTensor& from, TensorId target, bool sum, const Loop& loop, const Operator& loopOp) {
    Operator op;
    op.origin = loopOp.origin;
    const std::size_t rank = m_to[target].shape.size() + (sum ? 1 : 0);
    std::vector<AccessIndex> at;
    for (std::size_t k = 0; k < rank; ++k) {
      op.axes.push_back({k == 0 ? loop.counter : "z" + std::to_string(k),
                         k == 0 ? loop.trips : m_to[target].shape[k - (sum ? 1 : 0)], loopOp.origin});
      if (k > 0 || from.timed) at.push_back({IndexExpr::variable(static_cast<IndexVar>(k)), {}});
    }
    op.outputRank = static_cast<std::uint32_t>(rank);
    op.body = m_to.load(from.id, std::move(at), loopOp.origin);
    if (sum) sumOverTime(op);
    emit(std::move(op), target, loopOp.phase);
  }

  void hoist(const Operator& loopOp, Loop loop) {
    const std::shared_ptr<const Program> whole = loop.body;
    const Program& body = *whole;
    const std::vector<Place> places = placesOf(loop);
    const std::vector<OperatorId> made = producers(body);
    OriginImporter import(body, m_to);
    std::unordered_map<std::uint32_t, OuterTensor> outside;  // inner tensors that can be read out of the loop
    for (const auto& i : loop.invariants) outside[i.inner.value] = {i.outer, false};
    std::vector<int> readers(body.tensors.size(), 0);
    for (std::size_t o = 0; o < body.operators.size(); ++o)
      for (const TensorId t : readsOf(body, OperatorId(o))) ++readers[t.value];

    const std::vector<Loop::Stacked> stacked = loop.stacked;
    const std::vector<Loop::Accumulated> accumulated = loop.accumulated;
    const auto stays = [&](TensorId t) { return !made[t.value].valid() || places[made[t.value].value] == Place::Core; };
    std::erase_if(loop.stacked, [&](const auto& s) { return !stays(s.inner); });
    std::erase_if(loop.accumulated, [&](const auto& a) { return !stays(a.inner); });

    const auto outer = [&](TensorId t) {
      if (const auto found = outside.find(t.value); found != outside.end()) return found->second;
      const auto known = std::find_if(loop.stacked.begin(), loop.stacked.end(), [&](const auto& s) { return s.inner == t; });
      OuterTensor all{known != loop.stacked.end() ? known->outer : TensorId{}, true};
      if (!all.id.valid()) {
        all.id = newTensor(body, t, loop.trips, loopOp.origin, import);
        loop.stacked.push_back({t, all.id});
      }
      outside.emplace(t.value, all);
      return all;
    };
    const auto move = [&](std::size_t o) {
      const Operator& op = body.operators[o];
      const TensorId inner = op.output;
      std::vector<TensorId> stacks, sums;
      for (const auto& s : stacked)
        if (s.inner == inner) stacks.push_back(s.outer);
      for (const auto& a : accumulated)
        if (a.inner == inner) sums.push_back(a.outer);
      const bool summable = op.kind == OperatorKind::Gather && (op.reducer == Reducer::None || op.reducer == Reducer::Sum);
      if (summable && sums.size() == 1 && stacks.empty() && readers[inner.value] == 0) {
        Operator lifted = liftOverTime(body, m_to, op, loop, loopOp.origin, outer, import);
        sumOverTime(lifted);
        emit(std::move(lifted), sums.front(), loopOp.phase);
        return;
      }
      const auto reads = readsOf(body, OperatorId(o));
      OuterTensor result;
      if (!usesCounter(body, op, kLoopVariable + loop.depth) &&
          std::none_of(reads.begin(), reads.end(), [&](TensorId t) { return outer(t).timed; })) {
        result.id = newTensor(body, inner, {}, loopOp.origin, import);
        emit(liftOnce(body, op, outer, import), result.id, loopOp.phase);
      } else {
        result.timed = true;
        result.id = stacks.empty() ? newTensor(body, inner, loop.trips, loopOp.origin, import) : stacks.front();
        if (!stacks.empty()) {
          stacks.erase(stacks.begin());
          joinOrigins(m_to, "hoist_loops", m_to.tensors[result.id.value].origin, import(body[inner].origin));
        }
        emit(liftOverTime(body, m_to, op, loop, loopOp.origin, outer, import), result.id, loopOp.phase);
      }
      outside[inner.value] = result;
      for (const TensorId t : stacks) spread(result, t, false, loop, loopOp);
      for (const TensorId t : sums) spread(result, t, true, loop, loopOp);
    };

    for (std::size_t o = 0; o < places.size(); ++o)
      if (places[o] == Place::Front) move(o);
    const bool core = std::any_of(places.begin(), places.end(), [](Place p) { return p == Place::Core; });
    if (!core && loop.carried.empty() && loop.stacked.empty() && loop.accumulated.empty()) return;
    m_to.addOperator(loopOp);
    // What stays reads what left to the front as an invariant, at its step.
    Program rest = body;
    rest.operators.clear();
    std::unordered_map<std::uint32_t, TensorId> entered;
    for (std::size_t o = 0; o < places.size(); ++o) {
      if (places[o] != Place::Core) continue;
      Operator op = body.operators[o];
      if (op.kind != OperatorKind::Loop) {
        ExprRewriter rewriter(body, rest);
        rewriter.access = [&](Access access) {
          const OperatorId by = made[access.tensor.value];
          if (!by.valid() || places[by.value] != Place::Front) return access;
          const OuterTensor from = outside.at(access.tensor.value);
          const auto [at, isNew] = entered.emplace(access.tensor.value, TensorId{});
          if (isNew) {
            Tensor copy = m_to[from.id];
            copy.name = rest.freshName(copy.name);
            copy.kind = TensorKind::Input;
            copy.init = {};
            copy.origin = body[access.tensor].origin;
            at->second = rest.addTensor(std::move(copy));
            loop.invariants.push_back({from.id, at->second});
          }
          access.tensor = at->second;
          if (from.timed) access.indices.insert(access.indices.begin(), {IndexExpr::variable(kLoopVariable + loop.depth), {}});
          return access;
        };
        op.body = rewriter.rewrite(op.body);
        for (AccessIndex& index : op.scatter) index = rewriter.rewrite(index);
      }
      rest.addOperator(std::move(op));
    }
    for (std::size_t o = 0; o < places.size(); ++o)
      if (places[o] == Place::Back) move(o);
    std::erase_if(loop.invariants, [&](const auto& i) {
      for (std::size_t o = 0; o < rest.operators.size(); ++o) {
        const auto reads = readsOf(rest, OperatorId(o));
        if (std::find(reads.begin(), reads.end(), i.inner) != reads.end()) return false;
      }
      const auto named = [&](TensorId t) { return t == i.inner; };
      return std::none_of(loop.carried.begin(), loop.carried.end(), [&](const auto& c) { return named(c.innerOut); }) &&
             std::none_of(loop.stacked.begin(), loop.stacked.end(), [&](const auto& s) { return named(s.inner); }) &&
             std::none_of(loop.accumulated.begin(), loop.accumulated.end(), [&](const auto& a) { return named(a.inner); });
    });
    loop.body = std::make_shared<const Program>(std::move(rest));
    m_to.loops[loopOp.loop.value] = std::move(loop);
  }

  Program m_to;
  UniqueNames m_names;
};

}  // namespace

Result<Program> hoistLoops(const Program& program) {
  NF_TRY(Program result, Hoisting(program).run(0));
  dropUnusedTensors(result, program.tensors.size());
  return result;
}

}  // namespace nf
