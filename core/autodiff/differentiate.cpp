// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/differentiate.h"

#include <algorithm>
#include <optional>

#include "core/autodiff/reverse.h"

namespace nf {
namespace {

class Differentiation {
 public:
  Differentiation(Program& program, ReverseContext& context, Diagnostics& diagnostics, LoopsAround around)
      : m_program(program), m_context(context), m_diagnostics(diagnostics), m_around(std::move(around)),
        m_firstTerm(context.terms.size()) {}

  void run() {
    differentiateBodies();
    std::vector<Derivative> pending;
    for (const Derivative& d : m_program.derivatives)
      if (accepts(d)) pending.push_back(d);
    m_program.derivatives.clear();
    while (!pending.empty()) {
      // Those of one tensor with one seed share their backward pass. A group waits while its tensor depends on a result that is missing.
      const auto ready = std::find_if(pending.begin(), pending.end(), [&](const Derivative& d) { return !waits(d.of, pending); });
      if (ready == pending.end()) {
        for (const Derivative& d : pending) {
          error(d, "circular-derivative", m_program[d.result].name + " depends on itself", d.of);
          zeroResult(d);
        }
        return;
      }
      const Derivative first = *ready;
      std::vector<Derivative> group, rest;
      for (const Derivative& d : pending) (d.of == first.of && d.seed == first.seed ? group : rest).push_back(d);
      m_context.differentiatedAgain =
          std::any_of(rest.begin(), rest.end(), [&](const Derivative& d) { return waits(d.of, group); });
      accumulate(group);
      pending = std::move(rest);
    }
  }

 private:
  Span spanOf(OriginId origin) const {
    return origin.valid() && origin.value < m_program.origins.size() ? m_program[origin].span : Span{};
  }

  // Where the derivative is written; one that no source asks for is told of at the tensor it is about.
  Diagnostic& error(const Derivative& d, std::string code, std::string message, TensorId about,
                    Severity severity = Severity::Error) {
    Diagnostic diagnostic;
    diagnostic.severity = severity;
    diagnostic.code = std::move(code);
    diagnostic.message = std::move(message);
    diagnostic.span = spanOf(d.origin.valid() ? d.origin : m_program[about].origin);
    m_diagnostics.push_back(std::move(diagnostic));
    return m_diagnostics.back();
  }

  bool accepts(const Derivative& d) {
    const Tensor& of = m_program[d.of];
    const Tensor& wrt = m_program[d.wrt];
    const auto refuse = [&](const char* code, TensorId about, std::string message) {
      error(d, code, std::move(message), about);
      zeroResult(d);
      return false;
    };
    if (!isFloating(of.type)) return refuse("derivative-of-integers", d.of, of.name + " holds integers and has no derivative");
    if (!isFloating(wrt.type))
      return refuse("derivative-by-integers", d.wrt, "nothing can be differentiated by " + wrt.name + ": it holds integers");
    if (!d.seed.valid() && of.elements() != 1)
      return refuse("derivative-needs-seed", d.of,
                    "d(" + of.name + ")/d(" + wrt.name + ") needs a scalar " + of.name + "; use grad(" + of.name + ", " + wrt.name +
                        ", seed) with a seed of its shape");
    if (d.seed.valid() && m_program[d.seed].shape != of.shape)
      return refuse("seed-shape", d.seed, "the seed " + m_program[d.seed].name + " has another shape than " + of.name);
    return true;
  }

  // A refused derivative still has its producer, so that the program holds together for the views.
  void zeroResult(const Derivative& d) {
    Operator op;
    op.name = m_program[d.result].name;
    op.phase = Phase::Backward;
    const auto& shape = m_program[d.result].shape;
    for (std::size_t k = 0; k < shape.size(); ++k) op.axes.push_back({"z" + std::to_string(k), shape[k], d.origin});
    op.outputRank = static_cast<std::uint32_t>(shape.size());
    const DType type = m_program[d.result].type;
    op.body = m_program.constant(0, arithmeticType(type), d.origin);
    op.output = d.result;
    op.origin = m_program.derivedOrigin("differentiate", {d.origin});
    m_program.addOperator(std::move(op));
  }

  void differentiateBodies() {
    for (std::size_t l = 0; l < m_program.loops.size(); ++l) {
      const Program& inside = *m_program.loops[l].body;
      if (inside.derivatives.empty() && inside.loops.empty()) continue;
      if (m_around.trips.size() > 64) continue;  // the verifier refuses what is nested deeper
      Program body = inside;
      const std::size_t before = m_context.terms.size();
      Differentiation(body, m_context, m_diagnostics, m_around.with(m_program.loops[l])).run();
      for (std::size_t t = before; t < m_context.terms.size(); ++t)
        for (auto* path : {&m_context.terms[t].forwardLoops, &m_context.terms[t].backwardLoops})
          path->insert(path->begin(), LoopId(l));
      m_program.loops[l].body = std::make_shared<const Program>(std::move(body));
    }
  }

  // Does `of` depend on the result of a pending derivative?
  bool waits(TensorId of, const std::vector<Derivative>& pending) const {
    std::vector<bool> missing(m_program.tensors.size(), false), seen(m_program.tensors.size(), false);
    for (const Derivative& d : pending) missing[d.result.value] = true;
    const auto made = producers(m_program);
    std::vector<TensorId> stack{of};
    while (!stack.empty()) {
      const TensorId t = stack.back();
      stack.pop_back();
      if (seen[t.value]) continue;
      seen[t.value] = true;
      if (missing[t.value]) return true;
      if (!made[t.value].valid()) continue;
      for (const TensorId read : readsOf(m_program, made[t.value])) stack.push_back(read);
    }
    return false;
  }

  void accumulate(const std::vector<Derivative>& group) {
    const Derivative& first = group.front();
    Reverse reverse(m_program, m_context, m_program[first.of].name, m_around);
    Adjoint seed;
    if (first.seed.valid()) seed.tensor = first.seed;
    else seed.unit = true;
    reverse.seed(first.of, seed);
    std::unordered_map<std::uint32_t, TensorId> results;
    std::vector<std::pair<TensorId, TensorId>> copies;
    for (const Derivative& d : group) {
      const auto [known, isNew] = results.emplace(d.wrt.value, d.result);
      if (isNew) reverse.want(d.wrt, d.result);
      else copies.emplace_back(known->second, d.result);
    }
    reverse.run();
    for (const Derivative& d : group)
      for (const Reverse::ZeroByRule& zero : reverse.zeroByRule()) {
        if (zero.wrt != d.wrt) continue;
        Diagnostic& told =
            error(d, "zero-derivative",
                  "d(" + writtenName(m_program[d.of].name) + ")/d(" + writtenName(m_program[d.wrt].name) + ") is 0: " + zero.why,
                  d.of, Severity::Warning);
        if (const Span span = spanOf(zero.place); span.valid() && span != told.span) told.notes.push_back({zero.note, span});
      }
    for (const auto& [from, to] : copies) copy(from, to);
    const auto moved = sortOperators(m_program);
    if (moved.empty()) return;
    for (std::size_t t = m_firstTerm; t < m_context.terms.size(); ++t) {
      GradientTerm& term = m_context.terms[t];
      if (term.forward.valid() && term.forwardLoops.empty()) term.forward = moved[term.forward.value];
      if (term.backward.valid() && term.backwardLoops.empty()) term.backward = moved[term.backward.value];
    }
  }

  void copy(TensorId from, TensorId to) {
    Operator op;
    op.name = m_program[to].name;
    op.phase = Phase::Backward;
    op.origin = m_program.derivedOrigin("differentiate", {m_program[to].origin});
    std::vector<AccessIndex> at;
    const auto& shape = m_program[to].shape;
    for (std::size_t k = 0; k < shape.size(); ++k) {
      op.axes.push_back({"z" + std::to_string(k), shape[k], op.origin});
      at.push_back({IndexExpr::variable(static_cast<IndexVar>(k)), {}});
    }
    op.outputRank = static_cast<std::uint32_t>(shape.size());
    op.body = m_program.load(from, std::move(at), op.origin);
    op.output = to;
    m_program.addOperator(std::move(op));
  }

  Program& m_program;
  ReverseContext& m_context;
  Diagnostics& m_diagnostics;
  LoopsAround m_around;
  std::size_t m_firstTerm;
};

}  // namespace

const Program& bodyAt(const Program& program, const std::vector<LoopId>& loops) {
  const Program* p = &program;
  for (const LoopId loop : loops) p = (*p)[loop].body.get();
  return *p;
}

Result<DifferentiateResult> differentiate(const Program& program, const InvertOptions& options) {
  DifferentiateResult result;
  result.program = program;
  std::optional<InverseCache> own;
  InverseCache& inverses = options.cache ? *options.cache : own.emplace(options);
  ReverseContext context{options, result.terms, inverses};
  Differentiation(result.program, context, result.diagnostics, {}).run();
  if (options.stop.stop_requested()) return stopped();
  dropUnusedTensors(result.program, program.tensors.size());
  result.program.stage = Stage::Differentiated;
  return result;
}

namespace {

// Of the pending derivatives those that `of` cannot be computed without.
std::vector<Derivative> neededBy(const Program& program, TensorId of) {
  std::vector<Derivative> needed;
  std::vector<std::size_t> asked(program.tensors.size(), program.derivatives.size());
  for (std::size_t d = 0; d < program.derivatives.size(); ++d) asked[program.derivatives[d].result.value] = d;
  const auto made = producers(program);
  std::vector<bool> seen(program.tensors.size(), false);
  std::vector<TensorId> stack{of};
  while (!stack.empty()) {
    const TensorId t = stack.back();
    stack.pop_back();
    if (seen[t.value]) continue;
    seen[t.value] = true;
    if (asked[t.value] < program.derivatives.size()) {
      needed.push_back(program.derivatives[asked[t.value]]);
      stack.push_back(needed.back().of);
    }
    if (made[t.value].valid())
      for (const TensorId read : readsOf(program, made[t.value])) stack.push_back(read);
  }
  return needed;
}

}  // namespace

DerivativeProgram onlyDerivative(const Program& program, TensorId of, TensorId wrt) {
  DerivativeProgram only;
  only.program = program;
  Program& p = only.program;
  p.derivatives = neededBy(program, of);
  only.ofDerivative = !p.derivatives.empty();
  p.updates.clear();
  p.outputs.clear();
  Derivative derivative;
  derivative.of = of;
  derivative.wrt = wrt;
  if (!p[of].shape.empty()) {
    Tensor seed;
    seed.name = p.freshName("d" + p[of].name);
    seed.kind = TensorKind::Input;
    seed.type = p[of].type;
    seed.shape = p[of].shape;
    seed.init.kind = Initializer::Kind::Constant;
    seed.init.numbers = {1};
    only.seed = derivative.seed = p.addTensor(std::move(seed));
  }
  const std::string name = "d(" + p[of].name + ")/d(" + p[wrt].name + ")";
  const TensorId known = p.tensorNamed(name);
  if (known.valid() && !producers(p)[known.value].valid()) {
    only.result = known;
  } else {
    Tensor result;
    result.name = p.freshName(name);
    result.type = p[wrt].type;
    result.shape = p[wrt].shape;
    only.result = p.addTensor(std::move(result));
  }
  derivative.result = only.result;
  std::erase_if(p.derivatives, [&](const Derivative& d) { return d.result == only.result; });
  p.derivatives.push_back(derivative);
  return only;
}

}  // namespace nf
