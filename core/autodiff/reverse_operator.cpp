// SPDX-License-Identifier: Apache-2.0
// One operator's part in reverse accumulation: the reducer's rule, the sweep of its body, and for each access of a wanted tensor a
// gather through the certified inverse, or a scatter (design: autodiff, sections 3 to 5).
#include <algorithm>
#include <cctype>
#include <chrono>

#include "core/autodiff/body_gradient.h"
#include "core/autodiff/reverse.h"
#include "core/ir/folding.h"
#include "core/support/assert.h"
#include "core/syntax/derivative_name.h"

namespace nf {
namespace {

std::string identifier(const std::string& name) {
  std::string result;
  for (const char c : name) result += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || (c & 0x80) ? c : '_';
  return result;
}

std::vector<AccessIndex> variables(std::size_t first, std::size_t count) {
  std::vector<AccessIndex> result;
  for (std::size_t k = 0; k < count; ++k) result.push_back({IndexExpr::variable(static_cast<IndexVar>(first + k)), {}});
  return result;
}

// Axis names of a gather: an axis that stands for exactly one variable of the forward operator keeps its name.
std::string nameFor(const Operator& op, const std::vector<IndexExpr>& y, IndexVar v, const std::string& otherwise) {
  for (std::size_t k = 0; k < op.axes.size(); ++k)
    if (y[k].asVariable() == v) return op.axes[k].name;
  return otherwise;
}

}  // namespace

ExprId Reverse::loadAt(const Adjoint& adjoint, std::vector<AccessIndex> at, DType type, OriginId origin) {
  if (adjoint.unit) return m_program.constant(1, type, origin);
  std::vector<AccessIndex> indices;
  for (const IndexExpr& e : adjoint.prefix) indices.push_back({e, {}});
  indices.insert(indices.end(), at.begin() + static_cast<std::ptrdiff_t>(adjoint.drop), at.end());
  return m_program.load(adjoint.tensor, std::move(indices), origin);
}

std::vector<AccessIndex> Reverse::outputPoint(const Operator& op) const {
  return op.kind == OperatorKind::Scatter ? op.scatter : variables(0, op.outputRank);
}

// The body's value as the operator stored it; invalid where it stores something else or rounds.
ExprId Reverse::outputLoad(const Operator& op) {
  if (op.kind != OperatorKind::Gather || op.reducer != Reducer::None) return {};
  const DType stored = m_program[op.output].type;
  if (arithmeticType(stored) != stored || stored != m_program[op.body].type) return {};
  switch (m_program[op.body].op) {
    case ScalarOp::Exp:
    case ScalarOp::Sqrt:
    case ScalarOp::Rsqrt:
    case ScalarOp::Tanh:
    case ScalarOp::Sigmoid:
    case ScalarOp::Relu:
    case ScalarOp::Div:
    case ScalarOp::Pow: return m_program.load(op.output, variables(0, op.outputRank), op.origin);
    default: return {};
  }
}

// A tensor the backward pass needs besides: over the operator's own output axes, or all its axes where nothing is reduced.
TensorId Reverse::auxiliary(const Operator& op, const char* suffix, Reducer reducer, ExprId body, DType type) {
  NF_ASSERT(std::ranges::find(kBesideReduction, std::string_view(suffix)) != kBesideReduction.end());
  Operator made;
  made.axes = op.axes;
  made.outputRank = reducer == Reducer::None ? static_cast<std::uint32_t>(op.axes.size()) : op.outputRank;
  made.reducer = reducer;
  made.body = body;
  made.origin = m_program.derivedOrigin("differentiate", {op.origin});
  std::vector<std::int64_t> shape;
  for (std::uint32_t k = 0; k < made.outputRank; ++k) shape.push_back(op.axes[k].extent);
  const TensorId output = newTensor(fresh(identifier(op.name) + suffix), type, std::move(shape), made.origin);
  emit(std::move(made), output);
  return output;
}

// The product of all factors but one, for each one: quadratic in the reduced points, but it has the right slope where factors are 0.
// Counting zeros, as the first derivative may, gives a value that is right and piecewise constant around two zeros.
ExprId Reverse::otherFactors(const Operator& op) {
  const std::size_t rank = op.axes.size(), reduced = rank - op.outputRank;
  Operator made;
  made.axes = op.axes;
  std::vector<IndexCond> same;
  for (std::size_t k = 0; k < reduced; ++k) {
    made.axes.push_back(op.axes[op.outputRank + k]);
    made.axes.back().name += "_other";
    same.push_back(IndexCond::eq0(IndexExpr::variable(static_cast<IndexVar>(op.outputRank + k)) -
                                  IndexExpr::variable(static_cast<IndexVar>(rank + k))));
  }
  made.outputRank = static_cast<std::uint32_t>(rank);
  made.reducer = Reducer::Prod;
  made.origin = m_program.derivedOrigin("differentiate", {op.origin});
  ExprRewriter rewriter(m_program, m_program);
  rewriter.variable = [&](IndexVar v) -> std::optional<IndexExpr> {
    if (v < op.outputRank || v >= kLoopVariable) return std::nullopt;
    return IndexExpr::variable(static_cast<IndexVar>(v + reduced));
  };
  const DType type = m_program[op.body].type;
  const ExprId factor = rewriter.rewrite(op.body);
  made.body = m_program.select(m_program.cond(IndexCond::all(same)), m_program.constant(1, type, op.origin), factor, op.origin);
  std::vector<std::int64_t> shape;
  for (const Axis& axis : op.axes) shape.push_back(axis.extent);
  const TensorId output = newTensor(fresh(identifier(op.name) + "_others"), type, std::move(shape), made.origin);
  emit(std::move(made), output);
  return m_program.load(output, variables(0, rank), op.origin);
}

void Reverse::reverseOperator(const Operator& op, OperatorId forward, const Adjoint& adjoint, const Wanted& wanted) {
  Folding fold(m_program);
  SweepRequest request;
  request.body = op.body;
  request.wanted = wanted;
  const DType type = m_program[op.body].type;
  if (!isFloating(type)) return;
  const auto point = outputPoint(op);
  const OriginId origin = op.origin;
  const ExprId dB = loadAt(adjoint, point, type, origin);
  const auto x = [&](TensorId t) { return m_program.load(t, variables(0, op.outputRank), origin); };
  const auto number = [&](double value) { return m_program.constant(value, type, origin); };
  const auto equal = [&](ExprId a, ExprId b) { return m_program.binary(ScalarOp::Eq, a, b, origin); };
  request.adjoint = dB;
  if (op.kind == OperatorKind::Scatter) {
    // Where an affine index leaves the output nothing was added.
    const RangeOf ranges = rangesOf(op, m_around.trips);
    const auto& shape = m_program[op.output].shape;
    for (std::size_t k = 0; k < shape.size(); ++k) {
      if (op.scatter[k].isData()) continue;
      for (const IndexCond& inside :
           {IndexCond::ge0(op.scatter[k].affine), IndexCond::ge0(IndexExpr(shape[k] - 1) - op.scatter[k].affine)})
        if (const IndexCond left = simplify(inside, ranges); !left.isAlways()) request.path.push_back({left, {}, true});
    }
  }
  switch (op.reducer) {
    case Reducer::None:
    case Reducer::Sum: request.output = outputLoad(op); break;
    case Reducer::Max:
    case Reducer::Min: {
      if (!op.tiesEven) {
        const TensorId best = auxiliary(op, op.reducer == Reducer::Max ? "_argmax" : "_argmin",
                                        op.reducer == Reducer::Max ? Reducer::ArgMax : Reducer::ArgMin, op.body, DType::I32);
        IndexExpr linear;
        for (std::size_t k = op.outputRank; k < op.axes.size(); ++k)
          linear = op.axes[k].extent * linear + IndexExpr::variable(static_cast<IndexVar>(k));
        request.path.push_back({std::nullopt, equal(m_program.indexValue(linear, DType::I32, origin), x(best)), true});
        break;
      }
      // Equality must compare what the maximum was taken of: a bare load is that, anything else is stored once.
      ExprId element = op.body;
      TensorId best = op.output;
      const bool bare = m_program[op.body].op == ScalarOp::Load &&
                        m_program[m_program[m_program[op.body].access].tensor].type == m_program[op.output].type;
      if (!bare) {
        const TensorId elements = auxiliary(op, "_elements", Reducer::None, op.body, type);
        element = m_program.load(elements, variables(0, op.axes.size()), origin);
        best = auxiliary(op, "_best", op.reducer, element, type);
      }
      const ExprId isBest = equal(element, x(best));
      const TensorId ties = auxiliary(op, "_ties", Reducer::Sum, m_program.select(isBest, number(1), number(0), origin), type);
      request.adjoint = fold.div(dB, x(ties), origin);
      request.path.push_back({std::nullopt, isBest, true});
      break;
    }
    case Reducer::Prod: {
      if (m_context.differentiatedAgain) {
        request.adjoint = fold.mul(dB, otherFactors(op), origin);
        break;
      }
      // The product of the others, without dividing by an element that is 0.
      const ExprId isZero = equal(op.body, number(0));
      const TensorId zeroCount =
          auxiliary(op, "_zeros", Reducer::Sum, m_program.select(isZero, number(1), number(0), origin), type);
      const TensorId others = auxiliary(op, "_nonzero", Reducer::Prod, m_program.select(isZero, number(1), op.body, origin), type);
      const ExprId rest = m_program.select(
          isZero, m_program.select(equal(x(zeroCount), number(1)), x(others), number(0), origin),
          m_program.select(equal(x(zeroCount), number(0)), fold.div(x(others), op.body, origin), number(0), origin), origin);
      request.adjoint = fold.mul(dB, rest, origin);
      break;
    }
    case Reducer::ArgMax:
    case Reducer::ArgMin: return;
  }
  const SweepResult swept = sweepBody(m_program, request);
  for (const Occurrence& occurrence : swept.occurrences)
    addTerm(op, forward, occurrence.load, occurrence.guards, occurrence.weight);
  // Loads of one element that are cut for one reason are one to a reader.
  std::vector<const FlatLoad*> told;
  for (const FlatLoad& flat : swept.flat) {
    const auto same = [&](const FlatLoad* other) {
      const Access &a = m_program[m_program[flat.load].access], &b = m_program[m_program[other->load].access];
      const auto equal = [](const AccessIndex& x, const AccessIndex& y) { return x.data == y.data && x.affine == y.affine; };
      return flat.why == other->why && a.tensor == b.tensor &&
             std::equal(a.indices.begin(), a.indices.end(), b.indices.begin(), equal);
    };
    if (std::any_of(told.begin(), told.end(), same)) continue;
    told.push_back(&flat);
    addFlat(op, forward, flat);
  }
}

void Reverse::addFlat(const Operator& op, OperatorId forward, const FlatLoad& flat) {
  GradientTerm term;
  for (const Axis& axis : op.axes) term.names.push_back(axis.name);
  term.forward = forward;
  term.access = flat.load;
  term.tensor = m_program[m_program[flat.load].access].tensor;
  term.form = GradientTerm::Form::Zero;
  term.why = flat.why;
  term.cut = m_program[flat.cut].origin;
  m_silent[term.tensor.value].push_back(m_context.terms.size());
  m_context.terms.push_back(std::move(term));
}

void Reverse::addEmpty(const Operator& op, OperatorId forward, AccessProblem problem, const std::vector<std::string>& names,
                       TensorId tensor, ExprId load, const Inverse& inverse) {
  GradientTerm term;
  term.forward = forward;
  term.access = load;
  term.tensor = tensor;
  term.form = GradientTerm::Form::Empty;
  term.why = "no point of " + writtenName(op.name) + " reads " + writtenName(m_program[tensor].name);
  if (!inverse.excludedBy.empty())
    term.why += ": none has " + toText(IndexCond::all(inverse.excludedBy), [&](IndexVar v) { return names[v]; });
  term.inverse = inverse;
  term.problem = std::move(problem);
  m_silent[tensor.value].push_back(m_context.terms.size());
  m_context.terms.push_back(std::move(term));
}

std::shared_ptr<const Inverse> Reverse::inverseOf(const AccessProblem& problem, const std::vector<std::string>& names) {
  using Proof = InverseCache::Proof;
  const InvertOptions& options = m_context.options;
  Proof proof = Proof::Now;
  if (options.putOffProofs) proof = m_context.proofMilliseconds > options.interactiveMilliseconds ? Proof::PutOff : Proof::Quick;
  const auto begin = std::chrono::steady_clock::now();
  std::shared_ptr<const Inverse> inverse = m_context.inverses.invert(problem, proof, options.stop);
  m_context.proofMilliseconds += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  if (!options.explain) return inverse;
  return std::make_shared<const Inverse>(m_context.inverses.explained(problem, names, Proof::PutOff, options.stop));
}

RangeOf Reverse::rangesWithCounters(std::vector<std::int64_t> extents) const {
  Operator shell;
  for (const std::int64_t extent : extents) shell.axes.push_back({{}, extent, {}});
  return rangesOf(shell, m_around.trips);
}

void Reverse::addTerm(const Operator& op, OperatorId forward, ExprId load, const std::vector<IndexCond>& guards, ExprId weight) {
  const Access access = m_program[m_program[load].access];
  const bool onData = std::any_of(access.indices.begin(), access.indices.end(), [](const AccessIndex& i) { return i.isData(); });
  // Counters of loops around are coordinates with one more component each, which is the counter itself.
  std::vector<IndexVar> used;
  for (const AccessIndex& index : access.indices)
    if (!index.isData()) index.affine.collectVariables(used);
  for (const IndexCond& guard : guards) collectVariables(guard, used);
  std::vector<std::uint32_t> counters;
  for (const IndexVar v : used)
    if (v >= kLoopVariable && std::find(counters.begin(), counters.end(), v - kLoopVariable) == counters.end())
      counters.push_back(v - kLoopVariable);
  std::sort(counters.begin(), counters.end());
  const auto asAxis = [&](IndexVar v) -> std::optional<IndexExpr> {
    if (v < kLoopVariable) return std::nullopt;
    const auto at = std::find(counters.begin(), counters.end(), v - kLoopVariable) - counters.begin();
    return IndexExpr::variable(static_cast<IndexVar>(op.axes.size() + static_cast<std::size_t>(at)));
  };
  AccessProblem problem;
  for (const Axis& axis : op.axes) problem.domain.push_back({0, axis.extent - 1});
  for (const AccessIndex& index : access.indices)
    problem.access.push_back(index.isData() ? IndexExpr() : substitute(index.affine, asAxis));
  problem.shape = m_program[access.tensor].shape;
  for (const std::uint32_t counter : counters) {
    problem.access.push_back(IndexExpr::variable(static_cast<IndexVar>(problem.domain.size())));
    problem.domain.push_back({0, m_around.trips[counter] - 1});
    problem.shape.push_back(m_around.trips[counter]);
  }
  for (const IndexCond& guard : guards) problem.guards.push_back(substitute(guard, asAxis));
  std::vector<std::string> names;
  for (const Axis& axis : op.axes) names.push_back(axis.name);
  for (const std::uint32_t counter : counters) names.push_back(m_around.counters[counter]);
  const std::size_t record = m_context.terms.size();
  if (onData) {
    addScatter(op, forward, std::move(problem), access.tensor, load, guards, weight, {}, "the index depends on data");
  } else {
    const std::shared_ptr<const Inverse> inverse = inverseOf(problem, names);
    const auto scatter = [&](std::string why) {
      addScatter(op, forward, std::move(problem), access.tensor, load, guards, weight, *inverse, std::move(why));
    };
    const std::string unproved = inverse->why.empty() ? "no certified inverse" : inverse->why;
    switch (inverse->state) {
      case Inverse::State::Empty: addEmpty(op, forward, std::move(problem), names, access.tensor, load, *inverse); break;
      case Inverse::State::Gather:
      case Inverse::State::Checking:
        if (inverse->y.size() != problem.domain.size()) scatter(unproved);  // perhaps empty
        else addGather(op, forward, problem, *inverse, counters, access.tensor, load, weight);
        break;
      case Inverse::State::Unneeded:
      case Inverse::State::Uncertified: scatter(unproved); break;
    }
  }
  m_context.terms[record].names = std::move(names);
}

void Reverse::addGather(const Operator& op, OperatorId forward, const AccessProblem& problem, const Inverse& inverse,
                        const std::vector<std::uint32_t>& counters, TensorId tensor, ExprId load, ExprId weight) {
  const std::vector<std::int64_t> shape = m_program[tensor].shape;
  const std::size_t rank = shape.size(), z = rank + counters.size();
  // The inverse numbers z (counters behind the axes), then t; the new operator numbers its axes, and counters are counters.
  const auto renumber = [&](IndexVar v) -> std::optional<IndexExpr> {
    if (v < rank) return std::nullopt;
    if (v < z) return IndexExpr::variable(kLoopVariable + counters[v - rank]);
    return IndexExpr::variable(static_cast<IndexVar>(v - counters.size()));
  };
  GatherPartial partial;
  partial.forward = forward;
  partial.elementwise = op.reducer == Reducer::None && op.kind == OperatorKind::Gather;
  partial.trips = inverse.axes;
  std::vector<std::int64_t> extents = shape;
  extents.insert(extents.end(), inverse.axes.begin(), inverse.axes.end());
  const RangeOf ranges = rangesWithCounters(extents);
  std::vector<IndexExpr> y;
  for (const IndexExpr& e : inverse.y) y.push_back(simplify(substitute(e, renumber), ranges));
  for (std::size_t k = 0; k < rank; ++k)
    partial.zNames.push_back(nameFor(op, y, static_cast<IndexVar>(k), "z" + std::to_string(k)));
  for (std::size_t k = 0; k < inverse.axes.size(); ++k)
    partial.tNames.push_back(nameFor(op, y, static_cast<IndexVar>(rank + k), "t" + std::to_string(k)));

  ExprRewriter rewriter(m_program, m_program);
  rewriter.variable = [&](IndexVar v) -> std::optional<IndexExpr> {
    if (v >= kLoopVariable) return std::nullopt;
    return y[v];
  };
  // Where the body is read f(g(z, t)) = z holds: that is what was proved. So what the access itself reads is at z, and what is read
  // beside it there too, where z can't leave that tensor.
  const Access own = m_program[m_program[load].access];
  rewriter.node = [&](ExprId, const ScalarNode& n) -> std::optional<ExprId> {
    if (n.op != ScalarOp::Load) return std::nullopt;
    const Access read = m_program[n.access];
    std::vector<AccessIndex> at;
    bool any = false;
    for (std::size_t i = 0; i < read.indices.size(); ++i) {
      const std::int64_t extent = m_program[read.tensor].shape[i];
      std::optional<IndexExpr> z;
      for (std::size_t k = 0; k < rank && !read.indices[i].isData() && !z; ++k)
        if (read.indices[i].affine == own.indices[k].affine && !own.indices[k].affine.isConstant() && shape[k] > 1 &&
            shape[k] <= extent)
          z = IndexExpr::variable(static_cast<IndexVar>(k));
      any = any || z;
      at.push_back(z ? AccessIndex{*z, {}} : rewriter.rewrite(read.indices[i]));
    }
    if (!any) return std::nullopt;
    ScalarNode copy = n;
    m_program.accesses.push_back({read.tensor, std::move(at)});
    copy.access = AccessId(m_program.accesses.size() - 1);
    m_program.scalars.push_back(copy);
    return ExprId(m_program.scalars.size() - 1);
  };
  rewriter.ranges = ranges;
  partial.body = rewriter.rewrite(weight);
  std::vector<PathCondition> guards;
  for (const auto* list : {&inverse.zGuards, &inverse.tGuards})
    for (const IndexCond& guard : *list)
      if (IndexCond left = simplify(substitute(guard, renumber), ranges); !left.isAlways())
        guards.push_back({std::move(left), {}, true});
  // One select for what z alone decides, around one for the rest.
  const auto onlyZ = [&](const PathCondition& c) {
    std::vector<IndexVar> used;
    collectVariables(*c.index, used);
    return std::all_of(used.begin(), used.end(), [&](IndexVar v) { return v < rank || v >= kLoopVariable; });
  };
  for (const bool outer : {false, true}) {
    std::vector<IndexCond> all;
    for (const PathCondition& c : guards)
      if (onlyZ(c) == outer) all.push_back(*c.index);
    if (all.empty()) continue;
    partial.body = guarded(m_program, {{all.size() == 1 ? all.front() : IndexCond::all(all), {}, true}}, partial.body);
  }
  partial.origin = m_program.derivedOrigin("differentiate", {op.origin, m_program[load].origin});
  GradientTerm term;
  term.forward = forward;
  term.access = load;
  term.tensor = tensor;
  term.problem = problem;
  term.inverse = inverse;
  partial.record = m_context.terms.size();
  m_context.terms.push_back(std::move(term));
  m_partials[tensor.value].emplace_back(std::move(partial));
}

void Reverse::addScatter(const Operator& op, OperatorId forward, AccessProblem problem, TensorId tensor, ExprId load,
                         const std::vector<IndexCond>& guards, ExprId weight, const Inverse& inverse, std::string why) {
  ScatterPartial partial;
  partial.op.kind = OperatorKind::Scatter;
  partial.op.reducer = Reducer::None;
  partial.op.axes = op.axes;
  partial.op.scatter = m_program[m_program[load].access].indices;
  partial.op.origin = m_program.derivedOrigin("differentiate", {op.origin, m_program[load].origin});
  std::vector<PathCondition> path;
  for (const IndexCond& guard : guards) path.push_back({guard, {}, true});
  partial.op.body = guarded(m_program, path, weight);
  GradientTerm term;
  term.forward = forward;
  term.access = load;
  term.tensor = tensor;
  term.form = GradientTerm::Form::Scatter;
  term.why = std::move(why);
  term.inverse = inverse;
  term.problem = std::move(problem);
  partial.record = m_context.terms.size();
  m_context.terms.push_back(std::move(term));
  m_partials[tensor.value].emplace_back(std::move(partial));
}

}  // namespace nf
