// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/reverse.h"

#include <algorithm>

#include "core/ir/folding.h"
#include "core/support/assert.h"
#include "core/support/unique_names.h"

namespace nf {

std::vector<bool> dependentsInLoop(const Loop& loop, const std::vector<bool>& outer, Through through) {
  std::vector<bool> inner(loop.body->tensors.size(), false);
  for (const auto& i : loop.invariants) inner[i.inner.value] = outer[i.outer.value];
  for (const auto& c : loop.carried)
    if (outer[c.initial.value]) inner[c.innerIn.value] = true;
  for (bool changed = true; changed;) {
    changed = false;
    markDependents(*loop.body, inner, through);
    for (const auto& c : loop.carried)
      if (inner[c.innerOut.value] && !inner[c.innerIn.value]) inner[c.innerIn.value] = changed = true;
  }
  return inner;
}

void markDependents(const Program& program, std::vector<bool>& marked, Through through) {
  for (std::size_t o = 0; o < program.operators.size(); ++o) {
    const Operator& op = program.operators[o];
    const auto reads = readsOf(program, OperatorId(o));
    if (!std::any_of(reads.begin(), reads.end(), [&](TensorId t) { return marked[t.value]; })) continue;
    if (op.kind != OperatorKind::Loop) {
      if (through == Through::Any || isFloating(program[op.output].type)) marked[op.output.value] = true;
      continue;
    }
    const Loop& loop = program[op.loop];
    const std::vector<bool> inner = dependentsInLoop(loop, marked, through);
    for (const auto& c : loop.carried)
      if (c.last.valid() && inner[c.innerOut.value]) marked[c.last.value] = true;
    for (const auto& s : loop.stacked)
      if (inner[s.inner.value]) marked[s.outer.value] = true;
    for (const auto& a : loop.accumulated)
      if (inner[a.inner.value]) marked[a.outer.value] = true;
  }
}

void markSources(const Program& program, std::vector<bool>& marked) {
  for (std::size_t o = program.operators.size(); o-- > 0;) {
    const Operator& op = program.operators[o];
    if (op.kind != OperatorKind::Loop) {
      if (!marked[op.output.value]) continue;
      for (const TensorId t : readsOf(program, OperatorId(o))) marked[t.value] = true;
      continue;
    }
    const Loop& loop = program[op.loop];
    std::vector<bool> inner(loop.body->tensors.size(), false);
    for (const auto& c : loop.carried)
      if (c.last.valid() && marked[c.last.value]) inner[c.innerOut.value] = true;
    for (const auto& s : loop.stacked)
      if (marked[s.outer.value]) inner[s.inner.value] = true;
    for (const auto& a : loop.accumulated)
      if (marked[a.outer.value]) inner[a.inner.value] = true;
    for (bool changed = true; changed;) {
      changed = false;
      markSources(*loop.body, inner);
      for (const auto& c : loop.carried)
        if (inner[c.innerIn.value] && !inner[c.innerOut.value]) inner[c.innerOut.value] = changed = true;
    }
    for (const auto& c : loop.carried)
      if (inner[c.innerIn.value]) marked[c.initial.value] = true;
    for (const auto& i : loop.invariants)
      if (inner[i.inner.value]) marked[i.outer.value] = true;
  }
}

std::string writtenName(const std::string& name) { return std::string(withoutNumber(name)); }

Reverse::Reverse(Program& program, ReverseContext& context, std::string of, LoopsAround around)
    : m_program(program), m_context(context), m_of(std::move(of)), m_around(std::move(around)),
      m_relevant(program.tensors.size(), false) {
  for (const Tensor& t : program.tensors) m_names.insert(t.name);
}

void Reverse::seed(TensorId of, Adjoint adjoint) {
  m_seeded.push_back(of);
  m_partials[of.value].emplace_back(std::move(adjoint));
}

void Reverse::want(TensorId wrt, TensorId result) {
  m_results[wrt.value] = result;
  m_wants.push_back(wrt);
  if (wrt.value < m_relevant.size()) m_relevant[wrt.value] = true;
}

void Reverse::defer(TensorId invariant) {
  m_deferred.insert(invariant.value);
  m_relevant[invariant.value] = true;
}

void Reverse::run() {
  m_forwardOperators = m_program.operators.size();
  m_relevant.resize(m_program.tensors.size(), false);
  markDependents(m_program, m_relevant);
  for (std::size_t o = m_program.operators.size(); o-- > 0;) {
    const OperatorId id(o);
    if (m_program[id].kind == OperatorKind::Loop) {
      reverseLoop(id);
      continue;
    }
    const TensorId output = m_program[id].output;
    if (!m_relevant[output.value] || !hasPartials(output)) continue;
    const Adjoint adjoint = finalize(output);
    if (!m_deferred.empty()) {
      const auto reads = readsOf(m_program, id);
      if (std::any_of(reads.begin(), reads.end(), [&](TensorId t) { return m_deferred.contains(t.value); }))
        m_deferredUses.push_back({id, adjoint});
    }
    const Operator op = m_program[id];
    reverseOperator(op, id, adjoint, [this](TensorId t) {
      return t.value < m_relevant.size() && m_relevant[t.value] && !m_deferred.contains(t.value);
    });
  }
  for (const TensorId wrt : m_wants) {
    if (m_done.contains(wrt.value)) continue;
    if (hasPartials(wrt)) finalize(wrt);
    else makeZero(wrt, m_results.at(wrt.value));
  }
  for (const std::uint32_t invariant : m_deferred)
    if (hasPartials(TensorId(invariant))) whole(TensorId(invariant));
  settleStacks();
}

TensorId Reverse::deferredSum(TensorId invariant) const {
  const auto found = m_done.find(invariant.value);
  return m_deferred.contains(invariant.value) && found != m_done.end() ? found->second.tensor : TensorId{};
}

std::string Reverse::fresh(const std::string& wish) {
  if (m_names.insert(wish).second) return wish;
  int& next = m_nextNumber.emplace(wish, 2).first->second;
  for (;; ++next) {
    std::string name = wish + "#" + std::to_string(next);
    if (m_names.insert(name).second) return name;
  }
}

TensorId Reverse::newTensor(std::string name, DType type, std::vector<std::int64_t> shape, OriginId origin) {
  Tensor t;
  t.name = std::move(name);
  t.type = type;
  t.shape = std::move(shape);
  t.origin = origin;
  return m_program.addTensor(std::move(t));
}

OperatorId Reverse::emit(Operator op, TensorId output) {
  op.output = output;
  op.name = m_program[output].name;
  op.phase = Phase::Backward;
  return m_program.addOperator(std::move(op));
}

void Reverse::recordBackward(std::size_t record, OperatorId op) {
  if (record != kNone) m_context.terms[record].backward = op;
}

// ---------------------------------------------------------------- sums of partials

Adjoint Reverse::finalize(TensorId t) {
  if (const auto found = m_done.find(t.value); found != m_done.end()) return found->second;
  std::vector<Partial> partials = std::move(m_partials.at(t.value));
  m_partials.erase(t.value);
  const auto result = m_results.find(t.value);
  if (result == m_results.end() && partials.size() == 1)
    if (const Adjoint* only = std::get_if<Adjoint>(&partials.front())) return m_done[t.value] = *only;
  Adjoint adjoint;
  if (result != m_results.end()) adjoint.tensor = result->second;
  else adjoint.tensor = newTensor(fresh(gradientName(t)), m_program[t].type, m_program[t].shape, m_program[t].origin);
  combine(t, std::move(partials), adjoint.tensor);
  settleSilent(t);
  return m_done[t.value] = adjoint;
}

// Loads that add nothing belong to the operator that makes their tensor's gradient, the last one that was added.
void Reverse::settleSilent(TensorId t) {
  const auto found = m_silent.find(t.value);
  if (found == m_silent.end()) return;
  for (const std::size_t record : found->second) recordBackward(record, OperatorId(m_program.operators.size() - 1));
  m_silent.erase(found);
}

Adjoint Reverse::whole(TensorId t) {
  Adjoint adjoint = finalize(t);
  if (adjoint.isWhole()) return adjoint;
  const TensorId target = newTensor(fresh(gradientName(t)), m_program[t].type, m_program[t].shape, m_program[t].origin);
  combine(t, {adjoint}, target);
  adjoint = {};
  adjoint.tensor = target;
  return m_done[t.value] = adjoint;
}

void Reverse::combine(TensorId t, std::vector<Partial> partials, TensorId target) {
  const bool narrow = arithmeticType(m_program[t].type) != m_program[t].type;
  if (partials.size() == 1 && !narrow) {
    if (auto* scatter = std::get_if<ScatterPartial>(&partials.front())) {
      recordBackward(scatter->record, emit(std::move(scatter->op), target));
      return;
    }
  }
  std::vector<const GatherPartial*> inlined;
  std::vector<std::vector<const GatherPartial*>> sums;
  std::vector<Adjoint> ready;
  int terms = 0;
  const auto own = [&] {
    std::string name;
    do name = gradientName(t) + "#" + std::to_string(++terms);
    while (!m_names.insert(name).second);
    return newTensor(std::move(name), arithmeticType(m_program[t].type), m_program[t].shape, m_program[t].origin);
  };
  for (Partial& partial : partials) {
    if (auto* scatter = std::get_if<ScatterPartial>(&partial)) {
      Adjoint made;
      made.tensor = own();
      recordBackward(scatter->record, emit(std::move(scatter->op), made.tensor));
      ready.push_back(made);
    } else if (const auto* gather = std::get_if<GatherPartial>(&partial)) {
      if (gather->trips.empty()) {
        inlined.push_back(gather);
        continue;
      }
      const auto fits = [&](const std::vector<const GatherPartial*>& group) {
        const GatherPartial& first = *group.front();
        return gather->elementwise && first.elementwise && first.forward == gather->forward && first.trips == gather->trips;
      };
      const auto found = std::find_if(sums.begin(), sums.end(), fits);
      if (found != sums.end()) found->push_back(gather);
      else sums.push_back({gather});
    } else {
      ready.push_back(std::get<Adjoint>(partial));
    }
  }
  if (sums.size() == 1 && inlined.empty() && ready.empty()) {
    emitSum(t, target, sums.front(), {});
    return;
  }
  for (const auto& group : sums) {
    Adjoint made;
    made.tensor = own();
    emitSum(t, made.tensor, group, {});
    ready.push_back(made);
  }
  emitSum(t, target, inlined, ready);
}

OperatorId Reverse::emitSum(TensorId t, TensorId target, const std::vector<const GatherPartial*>& terms,
                            const std::vector<Adjoint>& more) {
  const std::vector<std::int64_t> shape = m_program[t].shape;
  Folding fold(m_program);
  Operator op;
  std::vector<OriginId> parents;
  for (const GatherPartial* term : terms) parents.push_back(term->origin);
  for (const Adjoint& a : more)
    if (a.tensor.valid()) parents.push_back(m_program[a.tensor].origin);
  if (parents.empty()) parents.push_back(m_program[t].origin);
  op.origin = parents.size() == 1 && parents[0].valid() && !m_program[parents[0]].pass.empty()
                  ? parents[0]
                  : m_program.derivedOrigin("differentiate", parents);
  m_program[target].origin = op.origin;

  std::unordered_set<std::string> names;
  const auto addAxis = [&](const std::string& wish, std::int64_t extent) {
    std::string name = wish;
    for (int n = 2; !names.insert(name).second; ++n) name = wish + "_" + std::to_string(n);
    op.axes.push_back({std::move(name), extent, op.origin});
  };
  for (std::size_t k = 0; k < shape.size(); ++k)
    addAxis(terms.empty() ? "z" + std::to_string(k) : terms.front()->zNames[k], shape[k]);
  op.outputRank = static_cast<std::uint32_t>(shape.size());
  ExprId sum;
  const auto add = [&](ExprId e) { sum = sum.valid() ? fold.add(sum, e, op.origin) : e; };
  std::vector<AccessIndex> point;
  for (std::size_t k = 0; k < shape.size(); ++k) point.push_back({IndexExpr::variable(static_cast<IndexVar>(k)), {}});
  for (const Adjoint& a : more)
    add(loadAt(a, point, arithmeticType(m_program[t].type), a.tensor.valid() ? m_program[a.tensor].origin : op.origin));
  for (const GatherPartial* term : terms) add(term->body);
  if (!terms.empty())
    for (std::size_t k = 0; k < terms.front()->trips.size(); ++k) addAxis(terms.front()->tNames[k], terms.front()->trips[k]);
  if (op.axes.size() > op.outputRank) op.reducer = Reducer::Sum;
  op.body = sum;
  const OperatorId id = emit(std::move(op), target);
  for (const GatherPartial* term : terms) recordBackward(term->record, id);
  return id;
}

TensorId Reverse::zeros(const std::string& name, TensorId like, std::string why) {
  const TensorId t = newTensor(fresh(name), m_program[like].type, m_program[like].shape, m_program[like].origin);
  GradientTerm term;
  term.backward = emitZero(like, t);
  term.tensor = like;
  term.form = GradientTerm::Form::Zero;
  term.why = std::move(why);
  if (m_around.trips.empty()) m_context.terms.push_back(std::move(term));
  return t;
}

OperatorId Reverse::emitZero(TensorId t, TensorId target) {
  Operator op;
  op.origin = m_program.derivedOrigin("differentiate", {m_program[target].origin});
  const auto& shape = m_program[t].shape;
  for (std::size_t k = 0; k < shape.size(); ++k) op.axes.push_back({"z" + std::to_string(k), shape[k], op.origin});
  op.outputRank = static_cast<std::uint32_t>(shape.size());
  op.body = m_program.constant(0, arithmeticType(m_program[t].type), op.origin);
  return emit(std::move(op), target);
}

void Reverse::makeZero(TensorId t, TensorId target) {
  const OperatorId id = emitZero(t, target);
  if (!m_around.trips.empty()) return;
  ZeroByRule zero = whyZero(t, id);
  GradientTerm term;
  term.backward = id;
  term.tensor = t;
  term.form = GradientTerm::Form::Zero;
  term.why = zero.why;
  m_context.terms.push_back(std::move(term));
  m_zeroByRule.push_back(std::move(zero));
}

// Loads that add nothing and could be what makes it zero belong to the operator `zero`.
Reverse::ZeroByRule Reverse::whyZero(TensorId t, OperatorId zero) {
  const std::string name = writtenName(m_program[t].name), of = writtenName(m_of);
  const auto anySeed = [&](const std::vector<bool>& marked) {
    return std::any_of(m_seeded.begin(), m_seeded.end(), [&](TensorId s) { return marked[s.value]; });
  };
  std::vector<bool> reached(m_program.tensors.size(), false);
  reached[t.value] = true;
  markDependents(m_program, reached, Through::Any);
  if (!anySeed(reached)) {
    std::vector<bool> later(m_program.tensors.size(), false);
    for (const TensorId s : m_seeded) later[s.value] = true;
    markDependents(m_program, later, Through::Any);
    std::string why = "nothing leads from " + name + " to " + of;
    if (later[t.value]) why += ": " + name + " is computed from " + of;
    return {t, why, m_program[t].origin, "here it is defined"};
  }
  const GradientTerm *flat = nullptr, *empty = nullptr;
  for (auto& [tensor, records] : m_silent) {
    if (!reached[tensor]) continue;
    for (const std::size_t record : records) {
      GradientTerm& term = m_context.terms[record];
      if (!term.backward.valid()) term.backward = zero;
      const GradientTerm*& one = term.form == GradientTerm::Form::Empty ? empty : flat;
      if (!one || term.why < one->why) one = &term;
    }
  }
  const std::string slope = of + " depends on " + name + " only where the slope is 0: ";
  if (flat) return {t, slope + flat->why, flat->forwardLoops.empty() ? flat->cut : OriginId{}, "here it is cut"};
  std::vector<bool> leading(m_program.tensors.size(), false);
  for (const TensorId s : m_seeded) leading[s.value] = true;
  markSources(m_program, leading);
  for (std::size_t o = 0; o < m_forwardOperators; ++o) {
    const auto reads = readsOf(m_program, OperatorId(o));
    if (!std::any_of(reads.begin(), reads.end(), [&](TensorId r) { return reached[r.value]; })) continue;
    for (const TensorId w : writesOf(m_program, OperatorId(o)))
      if (reached[w.value] && leading[w.value] && !isFloating(m_program[w].type))
        return {t, slope + writtenName(m_program[w].name) + " holds whole numbers", m_program[OperatorId(o)].origin,
                "here it is cut"};
  }
  if (empty)
    return {t, empty->why, empty->forwardLoops.empty() ? m_program[empty->access].origin : OriginId{}, "here it would be read"};
  return {t, slope + "so is that of every way between them", {}, ""};
}

}  // namespace nf
