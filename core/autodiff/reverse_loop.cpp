// SPDX-License-Identifier: Apache-2.0
// The adjoint of a Loop is a Loop that runs the other way (design: loops). It carries the adjoints of the carried tensors and reads
// the forward values of its step from tensors the forward Loop stacks. Gradients of invariants leave the loop at once: what
// reaches an operator's output in each step is stacked, and the operator is differentiated outside with time as its first axis, so
// that `dW += dZ*H` in every step becomes one contraction over time, and a slice X[b,t,i] inverts to t = z.
#include <algorithm>

#include "core/autodiff/reverse.h"

namespace nf {

struct Reverse::LoopGradient {
  OperatorId id;
  Loop loop;
  Operator op;
  std::vector<bool> relevant;  // inner tensors
  Program body;                // the loop's body, grown by its gradient
  std::size_t forwardOperators = 0, forwardTensors = 0;
  std::vector<OperatorId> made;  // by tensor of `body`: who writes it

  Loop reverse;
  Program step;                                            // the reversed loop's body
  std::unordered_map<std::uint32_t, TensorId> stepTensor;  // of `body` -> of `step`
  std::unordered_map<std::uint32_t, TensorId> given;       // inputs of `body` the gradient added -> outer tensor
  struct Carried {
    std::size_t index;
    TensorId adjointIn, adjointOut;  // of `body`
  };
  std::vector<Carried> carried;

  bool isForward(TensorId t) const {
    return made[t.value].valid() ? made[t.value].value < forwardOperators : t.value < forwardTensors;
  }
};

TensorId Reverse::stackOf(LoopId loop, const Program& body, TensorId inner) {
  for (const auto& s : m_program[loop].stacked)
    if (s.inner == inner) return s.outer;
  for (const Stack& s : m_stacks)
    if (s.loop == loop && s.inner == inner) return s.outer;
  std::vector<std::int64_t> shape = body[inner].shape;
  shape.insert(shape.begin(), m_program[loop].trips);
  const TensorId outer = newTensor(fresh(body[inner].name + "_steps"), body[inner].type, std::move(shape), {});
  m_stacks.push_back({loop, inner, outer});
  return outer;
}

// Stacks that some operator came to read are written by their loop; the others were never needed.
void Reverse::settleStacks() {
  if (m_stacks.empty()) return;
  std::vector<bool> read(m_program.tensors.size(), false);
  for (std::size_t o = 0; o < m_program.operators.size(); ++o)
    for (const TensorId t : readsOf(m_program, OperatorId(o))) read[t.value] = true;
  for (const Stack& s : m_stacks)
    if (read[s.outer.value]) m_program[s.loop].stacked.push_back({s.inner, s.outer});
  m_stacks.clear();
}

namespace {

// Tensors of a body that influence the marked ones, through time.
void markInfluences(const Loop& loop, std::vector<bool>& useful) {
  const Program& body = *loop.body;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t o = body.operators.size(); o-- > 0;) {
      const auto writes = writesOf(body, OperatorId(o));
      if (!std::any_of(writes.begin(), writes.end(), [&](TensorId t) { return useful[t.value]; })) continue;
      for (const TensorId t : readsOf(body, OperatorId(o))) useful[t.value] = true;
    }
    for (const auto& c : loop.carried)
      if (useful[c.innerIn.value] && !useful[c.innerOut.value]) useful[c.innerOut.value] = changed = true;
  }
}

bool isRead(const Program& program, TensorId t) {
  for (std::size_t o = 0; o < program.operators.size(); ++o) {
    const auto reads = readsOf(program, OperatorId(o));
    if (std::find(reads.begin(), reads.end(), t) != reads.end()) return true;
  }
  return false;
}

std::vector<AccessIndex> allAxes(std::size_t rank) {
  std::vector<AccessIndex> result;
  for (std::size_t k = 0; k < rank; ++k) result.push_back({IndexExpr::variable(static_cast<IndexVar>(k)), {}});
  return result;
}

// The origin is one of the program the tensor is added to.
Tensor inputLike(const Tensor& t, std::string name, OriginId origin) {
  Tensor copy;
  copy.name = std::move(name);
  copy.kind = TensorKind::Input;
  copy.type = t.type;
  copy.shape = t.shape;
  copy.origin = origin;
  return copy;
}

// output[x] = from[prefix, x], as an operator of `program`.
Operator sliceOperator(Program& program, TensorId from, TensorId output, const IndexExpr& prefix) {
  Operator op;
  const auto& shape = program[output].shape;
  std::vector<AccessIndex> at = allAxes(shape.size());
  at.insert(at.begin(), {prefix, {}});
  for (std::size_t k = 0; k < shape.size(); ++k) op.axes.push_back({"z" + std::to_string(k), shape[k], {}});
  op.outputRank = static_cast<std::uint32_t>(shape.size());
  op.body = program.load(from, std::move(at));
  op.output = output;
  op.name = program[output].name;
  op.phase = Phase::Backward;
  return op;
}

}  // namespace

void Reverse::reverseLoop(OperatorId id) {
  LoopGradient g;
  g.id = id;
  g.op = m_program[id];
  g.loop = m_program[g.op.loop];
  const auto counter = IndexExpr::variable(kLoopVariable + g.loop.depth);
  const auto takes = [&](TensorId outer) { return outer.valid() && m_relevant[outer.value] && hasPartials(outer); };
  const auto written = writesOf(m_program, id);
  if (!std::any_of(written.begin(), written.end(), takes)) return;

  g.relevant = dependentsInLoop(g.loop, m_relevant);
  g.body = *g.loop.body;
  g.forwardOperators = g.body.operators.size();
  g.forwardTensors = g.body.tensors.size();
  std::vector<bool> useful(g.forwardTensors, false);
  for (const auto& c : g.loop.carried)
    if (takes(c.last)) useful[c.innerOut.value] = true;
  for (const auto& s : g.loop.stacked)
    if (takes(s.outer)) useful[s.inner.value] = true;
  for (const auto& a : g.loop.accumulated)
    if (takes(a.outer)) useful[a.inner.value] = true;
  markInfluences(g.loop, useful);

  // ---- the gradient of one step
  const auto gradientInput = [&](TensorId inner, const Tensor& like) {
    std::string name = "d(" + m_of + ")/d(" + g.body[inner].name + ")";
    return g.body.addTensor(inputLike(like, g.body.freshName(name), g.body[inner].origin));
  };
  std::vector<std::pair<TensorId, Adjoint>> seeds;
  for (std::size_t k = 0; k < g.loop.carried.size(); ++k) {
    const auto& c = g.loop.carried[k];
    if (!g.relevant[c.innerIn.value] || !useful[c.innerOut.value]) continue;
    LoopGradient::Carried slot;
    slot.index = k;
    slot.adjointIn = gradientInput(c.innerOut, g.body[c.innerOut]);
    Tensor out = inputLike(g.body[c.innerIn], g.body.freshName("d(" + m_of + ")/d(" + g.body[c.innerIn].name + ")"),
                           g.body[c.innerIn].origin);
    out.kind = TensorKind::Intermediate;
    slot.adjointOut = g.body.addTensor(std::move(out));
    g.carried.push_back(slot);
    if (g.relevant[c.innerOut.value]) seeds.emplace_back(c.innerOut, Adjoint{slot.adjointIn, false, {}, 0});
  }
  for (const auto& s : g.loop.stacked) {
    if (!takes(s.outer)) continue;
    const TensorId outer = whole(s.outer).tensor;
    const TensorId inner = gradientInput(s.inner, m_program[outer]);
    g.given[inner.value] = outer;
    seeds.emplace_back(s.inner, Adjoint{inner, false, {counter}, 0});
  }
  for (const auto& a : g.loop.accumulated) {
    if (!takes(a.outer)) continue;
    const TensorId outer = whole(a.outer).tensor;
    const TensorId inner = gradientInput(a.inner, m_program[outer]);
    g.given[inner.value] = outer;
    seeds.emplace_back(a.inner, Adjoint{inner, false, {}, 0});
  }
  const std::size_t firstTerm = m_context.terms.size();
  Reverse inner(g.body, m_context, m_of, m_around.with(g.loop));
  for (const auto& [tensor, adjoint] : seeds) inner.seed(tensor, adjoint);
  for (const auto& slot : g.carried) inner.want(g.loop.carried[slot.index].innerIn, slot.adjointOut);
  for (const auto& i : g.loop.invariants)
    if (g.relevant[i.inner.value]) inner.defer(i.inner);
  inner.run();
  const std::size_t endTerm = m_context.terms.size();
  // What nested loops left for an invariant is summed over the steps.
  std::vector<std::pair<Loop::Invariant, TensorId>> summed;
  for (const auto& i : g.loop.invariants)
    if (const TensorId sum = inner.deferredSum(i.inner); sum.valid()) summed.emplace_back(i, sum);
  g.made = producers(g.body);

  // ---- the reversed loop
  g.step.origins = g.body.origins;
  g.step.stage = g.body.stage;
  g.reverse.counter = g.loop.counter;
  g.reverse.trips = g.loop.trips;
  g.reverse.reversed = !g.loop.reversed;
  g.reverse.depth = g.loop.depth;
  std::unordered_map<std::uint32_t, TensorId> outerOfInvariant;
  for (const auto& i : g.loop.invariants) outerOfInvariant.emplace(i.inner.value, i.outer);
  // The tensor of the reversed body that holds `t`; for a forward value, all its steps.
  const auto isStacked = [&](TensorId t) { return g.isForward(t) && !outerOfInvariant.contains(t.value); };
  const auto stepTensor = [&](TensorId t) {
    const auto known = g.stepTensor.find(t.value);
    if (known != g.stepTensor.end()) return known->second;
    TensorId made;
    if (g.made[t.value].valid() && !g.isForward(t)) {
      made = g.step.addTensor(g.body[t]);
    } else {
      TensorId outer;
      if (isStacked(t)) outer = stackOf(g.op.loop, g.body, t);
      else if (const auto i = outerOfInvariant.find(t.value); i != outerOfInvariant.end()) outer = i->second;
      else if (const auto i2 = g.given.find(t.value); i2 != g.given.end()) outer = i2->second;
      made = g.step.addTensor(inputLike(outer.valid() ? m_program[outer] : g.body[t], g.body[t].name, g.body[t].origin));
      if (outer.valid()) g.reverse.invariants.push_back({outer, made});
    }
    g.stepTensor.emplace(t.value, made);
    return made;
  };
  const auto sliced = [&](TensorId t) {  // a forward value of this step as a tensor of its own
    if (!isStacked(t)) return stepTensor(t);
    const TensorId all = stepTensor(t);
    Tensor copy = inputLike(g.body[t], g.step.freshName(g.body[t].name + "_step"), g.body[t].origin);
    copy.kind = TensorKind::Intermediate;
    const TensorId one = g.step.addTensor(std::move(copy));
    g.step.addOperator(sliceOperator(g.step, all, one, counter));
    return one;
  };
  std::vector<OperatorId> movedOperator(g.body.operators.size());  // of `body` -> of `step`
  std::vector<LoopId> movedLoop(g.body.loops.size());
  for (std::size_t o = g.forwardOperators; o < g.body.operators.size(); ++o) {
    Operator op = g.body.operators[o];
    if (op.kind == OperatorKind::Loop) {
      Loop nested = g.body[op.loop];
      for (auto& c : nested.carried) {
        c.initial = sliced(c.initial);
        if (c.last.valid()) c.last = stepTensor(c.last);
      }
      for (auto& i : nested.invariants) i.outer = sliced(i.outer);
      for (auto& s : nested.stacked) s.outer = stepTensor(s.outer);
      for (auto& a : nested.accumulated) a.outer = stepTensor(a.outer);
      g.step.loops.push_back(std::move(nested));
      movedLoop[op.loop.value] = LoopId(g.step.loops.size() - 1);
      op.loop = LoopId(g.step.loops.size() - 1);
    } else {
      ExprRewriter rewriter(g.body, g.step);
      rewriter.access = [&](Access access) {
        if (isStacked(access.tensor)) access.indices.insert(access.indices.begin(), {counter, {}});
        access.tensor = stepTensor(access.tensor);
        return access;
      };
      op.body = rewriter.rewrite(op.body);
      for (AccessIndex& index : op.scatter) index = rewriter.rewrite(index);
      op.output = stepTensor(op.output);
    }
    movedOperator[o] = g.step.addOperator(std::move(op));
  }
  for (const auto& slot : g.carried) {
    const auto& c = g.loop.carried[slot.index];
    Loop::Carried back;
    if (takes(c.last)) {
      back.initial = whole(c.last).tensor;
    } else {
      const bool read = c.last.valid() && isRead(m_program, c.last);
      const std::string carriedName = writtenName(g.body[c.innerIn].name);
      back.initial = zeros(gradientName(c.initial), c.initial,
                           read ? "what reads " + carriedName + " after the loop has slope 0 or leads nowhere"
                                : "nothing reads " + carriedName + " after the loop");
    }
    back.innerIn = stepTensor(slot.adjointIn);
    back.innerOut = stepTensor(slot.adjointOut);
    if (m_relevant[c.initial.value]) {
      back.last = newTensor(fresh(gradientName(c.initial)), m_program[c.initial].type, m_program[c.initial].shape, g.op.origin);
      m_partials[c.initial.value].emplace_back(Adjoint{back.last, false, {}, 0});
    }
    g.reverse.carried.push_back(back);
  }
  for (const auto& [invariant, tensor] : summed) {
    const TensorId outer = newTensor(fresh(gradientName(invariant.outer)), m_program[invariant.outer].type,
                                     m_program[invariant.outer].shape, g.op.origin);
    g.reverse.accumulated.push_back({stepTensor(tensor), outer});
    m_partials[invariant.outer.value].emplace_back(Adjoint{outer, false, {}, 0});
  }
  // What reaches the outputs of operators that read invariants, with all steps.
  std::vector<std::pair<OperatorId, Adjoint>> lifted;
  for (const DeferredUse& use : inner.deferredUses()) {
    Adjoint outer;
    const TensorId t = use.adjoint.tensor;
    if (const auto given = g.given.find(t.value); given != g.given.end()) {
      outer.tensor = given->second;
      outer.drop = use.adjoint.prefix.empty() ? 1 : 0;
    } else {
      const TensorId mine = stepTensor(t);
      const auto known =
          std::find_if(g.reverse.stacked.begin(), g.reverse.stacked.end(), [&](const auto& s) { return s.inner == mine; });
      if (known != g.reverse.stacked.end()) {
        outer.tensor = known->outer;
      } else {
        std::vector<std::int64_t> shape = g.body[t].shape;
        shape.insert(shape.begin(), g.loop.trips);
        outer.tensor = newTensor(fresh(g.body[t].name + "_steps"), g.body[t].type, std::move(shape), g.op.origin);
        g.reverse.stacked.push_back({mine, outer.tensor});
      }
    }
    lifted.emplace_back(use.op, outer);
  }

  // ---- into the program
  LoopId reverseLoop;
  if (!g.body.loops.empty()) {
    Program forward = g.body;  // nested loops may stack more than before
    forward.operators.resize(g.forwardOperators);
    forward.loops.resize(g.loop.body->loops.size());
    m_program[g.op.loop].body = std::make_shared<const Program>(std::move(forward));
  }
  if (!g.reverse.carried.empty() || !g.reverse.stacked.empty() || !g.reverse.accumulated.empty()) {
    g.reverse.body = std::make_shared<const Program>(std::move(g.step));
    m_program.loops.push_back(g.reverse);
    Operator op;
    op.kind = OperatorKind::Loop;
    op.name = fresh("d(" + m_of + ")/d(" + g.op.name + ")");
    op.phase = Phase::Backward;
    op.loop = reverseLoop = LoopId(m_program.loops.size() - 1);
    op.origin = m_program.derivedOrigin("differentiate", {g.op.origin});
    m_program.addOperator(std::move(op));
  }

  for (std::size_t t = firstTerm; t < endTerm; ++t) {
    GradientTerm& term = m_context.terms[t];
    term.forwardLoops.insert(term.forwardLoops.begin(), g.op.loop);
    if (!term.backward.valid()) continue;
    if (!reverseLoop.valid()) {  // nothing needs it
      term.backward = {};
      term.backwardLoops.clear();
      continue;
    }
    if (term.backwardLoops.empty()) term.backward = movedOperator[term.backward.value];
    else term.backwardLoops.front() = movedLoop[term.backwardLoops.front().value];
    term.backwardLoops.insert(term.backwardLoops.begin(), reverseLoop);
  }

  // ---- gradients of invariants, with time as an axis
  std::unordered_set<std::uint32_t> wantedOuter;
  for (const auto& i : g.loop.invariants)
    if (m_relevant[i.outer.value]) wantedOuter.insert(i.outer.value);
  OriginImporter import(g.body, m_program);
  for (const auto& [forward, adjoint] : lifted) {
    const auto outside = [&](TensorId t) -> OuterTensor {
      if (const auto i = outerOfInvariant.find(t.value); i != outerOfInvariant.end()) return {i->second, false};
      return {stackOf(g.op.loop, g.body, t), true};
    };
    Operator op = liftOverTime(g.body, m_program, g.body[forward], g.loop, g.op.origin, outside, import);
    op.output = stackOf(g.op.loop, g.body, g.body[forward].output);
    reverseOperator(op, g.id, adjoint, [&](TensorId t) { return wantedOuter.contains(t.value); });
  }
}

}  // namespace nf
