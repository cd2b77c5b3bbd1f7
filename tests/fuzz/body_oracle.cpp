// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/body_oracle.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/autodiff/differentiate.h"
#include "core/device/reference.h"
#include "core/lang/compile.h"
#include "tests/build_program.h"

namespace nf::testing {
namespace {

using test::Build;
using test::var;

constexpr double kStep = 1e-5;
constexpr std::size_t kMostFactors = 12;  // of a product: more overflow
constexpr std::size_t kSampled = 5;

// The access as an operator Y[..] = reduce select(guards and inside, body, otherwise) over inputs A (what is accessed) and W (over all axes).
class BodyCase {
 public:
  BodyCase(const AccessProblem& problem, BodyKind kind, Choices& choices) : m_choices(choices) {
    const auto shifted = [&](IndexVar v) -> std::optional<IndexExpr> { return var(v) + IndexExpr(problem.domain[v].lo); };
    std::vector<std::pair<std::string, std::int64_t>> axes;
    std::vector<std::int64_t> extents;
    for (std::size_t k = 0; k < problem.domain.size(); ++k) {
      axes.emplace_back("y" + std::to_string(k), problem.domain[k].extent());
      extents.push_back(problem.domain[k].extent());
      m_axes.push_back(var(static_cast<IndexVar>(k)));
    }
    std::vector<IndexCond> conditions;
    for (const IndexCond& g : problem.guards) conditions.push_back(substitute(g, shifted));
    for (std::size_t j = 0; j < problem.access.size(); ++j) {
      m_access.push_back(substitute(problem.access[j], shifted));
      conditions.push_back(IndexCond::ge0(m_access[j]));
      conditions.push_back(IndexCond::ge0(IndexExpr(problem.shape[j] - 1) - m_access[j]));
    }
    A = m_build.tensor("A", problem.shape);
    W = m_build.tensor("W", extents);
    outputRank = static_cast<std::uint32_t>(m_choices.between(0, static_cast<int>(axes.size())));
    std::size_t reduced = 1;
    for (std::size_t k = outputRank; k < extents.size(); ++k) reduced *= static_cast<std::size_t>(extents[k]);
    reducer = m_choices.of({Reducer::Sum, Reducer::Sum, Reducer::Max, Reducer::Min, Reducer::Prod});
    if (kind == BodyKind::Ties) reducer = m_choices.of({Reducer::Max, Reducer::Min});
    if (kind == BodyKind::Zeros) reducer = Reducer::Prod;
    if (reducer == Reducer::Prod && reduced > kMostFactors) {
      outputRank = static_cast<std::uint32_t>(axes.size() - 1);  // no extent is larger than that
    }
    if (outputRank == axes.size()) reducer = Reducer::None;
    ExprId body = a();
    double otherwise = 0;
    if (kind == BodyKind::Differences) {
      body = m_build.p.binary(m_choices.of({ScalarOp::Mul, ScalarOp::Add, ScalarOp::Max}), body, expression(2));
      if (reducer == Reducer::Prod)
        body = m_build.add(m_build.number(1), m_build.mul(m_build.number(0.5), unary(ScalarOp::Tanh, body)));
    } else if (kind == BodyKind::Ties) {
      otherwise = reducer == Reducer::Max ? -9 : 9;  // never the best but where all are outside
    } else if (m_choices.chance(50)) {
      body = m_build.mul(body, w());
    }
    body = m_build.p.select(m_build.p.cond(IndexCond::all(std::move(conditions))), body, m_build.number(otherwise));
    Y = m_build.op("Y", axes, outputRank, reducer, body);
    m_build.p.operators.back().tiesEven = m_choices.chance(50);
    dY = m_build.tensor("dY", m_build.p[Y].shape);
    dA = m_build.derivative(Y, A, dY);
    dW = m_build.derivative(Y, W, dY);
  }

  const Program& program() const { return m_build.p; }
  TensorId A, W, Y, dY, dA, dW;
  std::uint32_t outputRank = 0;
  Reducer reducer = Reducer::None;

  // data: of A and W; where it is empty anything between 0.3 and 1.7 on both sides of 0.
  TensorValues inputs(std::initializer_list<double> data) {
    TensorValues values;
    for (const TensorId t : {A, W, dY}) {
      TensorData made{DType::F32, m_build.p[t].shape, {}};
      for (std::int64_t i = 0; i < m_build.p[t].elements(); ++i) {
        const double anything =
            (0.3 + 1.4 * static_cast<double>(m_choices.word() >> 11) * 0x1p-53) * (m_choices.chance(50) ? 1 : -1);
        made.values.push_back(data.size() == 0 || t == dY ? anything : m_choices.of(data));
      }
      values[t] = std::move(made);
    }
    return values;
  }

 private:
  ExprId unary(ScalarOp op, ExprId e) { return m_build.p.unary(op, e); }
  ExprId a() { return m_build.load(A, m_access); }
  ExprId w() { return m_build.load(W, m_axes); }
  ExprId positive(ExprId e) { return m_build.add(m_build.mul(e, e), m_build.number(0.5)); }

  ExprId expression(int depth) {
    if (depth == 0) {
      const int leaf = m_choices.between(0, 5);
      if (leaf == 0 && !m_axes.empty()) return m_build.p.indexValue(m_axes[0], DType::F32);
      if (leaf == 1) return m_build.number(m_choices.of({-1.5, 0.0, 0.5, 2.0}));
      return leaf < 4 ? a() : w();
    }
    const ExprId x = expression(depth - 1);
    switch (m_choices.between(0, 9)) {
      case 0:
        return unary(m_choices.of({ScalarOp::Tanh, ScalarOp::Sigmoid, ScalarOp::Sin, ScalarOp::Cos, ScalarOp::Erf, ScalarOp::Neg}),
                     x);
      case 1: return unary(m_choices.of({ScalarOp::Abs, ScalarOp::Relu}), x);
      case 2: return unary(m_choices.of({ScalarOp::Sqrt, ScalarOp::Rsqrt, ScalarOp::Log}), positive(x));
      case 3: return unary(ScalarOp::Exp, unary(ScalarOp::Tanh, x));
      case 4: return m_build.p.binary(ScalarOp::Div, x, positive(expression(depth - 1)));
      case 5: return m_build.p.binary(ScalarOp::Pow, positive(x), m_build.number(m_choices.of({-0.5, 1.5, 2.0})));
      case 6: return m_build.p.binary(m_choices.of({ScalarOp::Max, ScalarOp::Min}), x, expression(depth - 1));
      case 7: {
        // log(y) is only there where it is taken.
        const ExprId y = expression(depth - 1), above = m_build.p.binary(ScalarOp::Lt, m_build.number(0.25), y);
        return m_build.p.select(above, m_build.mul(x, unary(ScalarOp::Log, y)), x);
      }
      case 8: return m_build.p.cast(DType::F32, m_build.p.cast(DType::F64, x));
      default: return m_build.p.binary(m_choices.of({ScalarOp::Add, ScalarOp::Sub, ScalarOp::Mul}), x, expression(depth - 1));
    }
  }

  Choices& m_choices;
  Build m_build;
  std::vector<IndexExpr> m_axes, m_access;
};

std::string said(const BodyCase& made, const std::string& what) {
  std::string text = what + "\n";
  for (std::size_t o = 0; o < made.program().operators.size(); ++o) text += "  " + toText(made.program(), OperatorId(o)) + "\n";
  return text;
}

void compareDifferences(const BodyCase& made, const Program& derived, TensorValues inputs, Choices& choices, BodyResult& result) {
  const auto gradients = interpret(derived, inputs, {.outputs = {made.dA, made.dW}});
  const auto forward = ReferenceProgram::prepare(derived, {made.Y});
  if (!gradients.ok() || !forward.ok()) {
    result.right = false;
    result.wrong = said(made, "not to be run: " + (gradients.ok() ? forward.error().message : gradients.error().message));
    return;
  }
  const std::vector<double> seed = inputs.at(made.dY).values;
  double noise = 0;
  const auto value = [&] {
    const auto y = forward->run(inputs);
    double sum = 0, size = 0;
    for (std::size_t i = 0; y.ok() && i < seed.size(); ++i) {
      sum += seed[i] * y->at(made.Y).values[i];
      size += std::fabs(seed[i] * y->at(made.Y).values[i]);
    }
    noise = std::max(noise, 1e-15 * size / kStep);
    return sum;
  };
  for (const auto& [wrt, gradient] : {std::pair(made.A, made.dA), {made.W, made.dW}}) {
    std::vector<double>& x = inputs.at(wrt).values;
    for (std::size_t n = 0; n < std::min(kSampled, x.size()); ++n) {
      const std::size_t i = choices.word() % x.size();
      const double at = x[i], here = value();
      x[i] = at + kStep;
      const double up = value();
      x[i] = at - kStep;
      const double down = value();
      x[i] = at;
      const double got = gradients->at(gradient).values[i];
      const double central = (up - down) / (2 * kStep), right = (up - here) / kStep, left = (here - down) / kStep;
      ++result.compared;
      // The one-sided ones are right to the first order only.
      const auto near = [&](double slope, double allowed) {
        return std::fabs(got - slope) <= allowed * (1 + std::fabs(slope)) + 4 * noise;
      };
      if (near(central, 1e-5)) continue;
      ++result.kinks;
      if (std::fabs(right - left) > 1e-3 * (1 + std::fabs(central)) && (near(right, 1e-2) || near(left, 1e-2))) continue;
      result.right = false;
      std::ostringstream text;
      text.precision(12);
      text << derived[gradient].name << " at " << i << ": derived " << got << ", differences " << central << " (" << left << " and "
           << right << ")";
      result.wrong = said(made, text.str());
      return;
    }
  }
}

// dA by the rule itself: each result's best element, or all of them in equal shares.
void compareTies(const BodyCase& made, const Program& derived, const AccessProblem& problem, const TensorValues& inputs,
                 BodyResult& result) {
  const auto gradients = interpret(derived, inputs, {.outputs = {made.dA}});
  if (!gradients.ok()) {
    result.right = false;
    result.wrong = said(made, "not to be run: " + gradients.error().message);
    return;
  }
  const bool even = made.program().operators[0].tiesEven, most = made.reducer != Reducer::Min;
  const std::vector<double>&a = inputs.at(made.A).values, &dB = inputs.at(made.dY).values;
  std::vector<double> expected(a.size(), 0);
  std::vector<std::int64_t> y(problem.domain.size());
  const auto at = [&](IndexVar v) { return y[v]; };
  std::size_t inner = 1, outer = 1;
  for (std::size_t k = 0; k < y.size(); ++k)
    (k < made.outputRank ? outer : inner) *= static_cast<std::size_t>(problem.domain[k].extent());
  for (std::size_t x = 0; x < outer; ++x) {
    std::vector<std::int64_t> elements;  // of A, by reduced point; -1: outside
    double best = most ? -9 : 9;
    for (std::size_t r = 0; r < inner; ++r) {
      std::size_t rest = x * inner + r;
      for (std::size_t k = y.size(); k-- > 0;) {
        const auto extent = static_cast<std::size_t>(problem.domain[k].extent());
        y[k] = problem.domain[k].lo + static_cast<std::int64_t>(rest % extent);
        rest /= extent;
      }
      bool inside = std::all_of(problem.guards.begin(), problem.guards.end(), [&](const IndexCond& g) { return evaluate(g, at); });
      std::int64_t element = 0;
      for (std::size_t j = 0; j < problem.access.size(); ++j) {
        const std::int64_t z = evaluate(problem.access[j], at);
        inside = inside && z >= 0 && z < problem.shape[j];
        element = element * problem.shape[j] + z;
      }
      elements.push_back(inside ? element : -1);
      if (inside)
        best = most ? std::max(best, a[static_cast<std::size_t>(element)]) : std::min(best, a[static_cast<std::size_t>(element)]);
    }
    const auto isBest = [&](std::int64_t e) { return e >= 0 && a[static_cast<std::size_t>(e)] == best; };
    const auto ties = static_cast<double>(std::count_if(elements.begin(), elements.end(), isBest));
    for (const std::int64_t e : elements) {
      if (!isBest(e)) continue;
      expected[static_cast<std::size_t>(e)] += even && made.reducer != Reducer::None ? dB[x] / ties : dB[x];
      if (!even) break;
    }
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ++result.compared;
    const double got = gradients->at(made.dA).values[i];
    if (std::fabs(got - expected[i]) <= 1e-12 * (1 + std::fabs(expected[i]))) continue;
    result.right = false;
    result.wrong = said(made, std::string(even ? "even" : "first") + ": dA at " + std::to_string(i) + " is " + std::to_string(got) +
                                  ", by the rule " + std::to_string(expected[i]));
    return;
  }
}

}  // namespace

BodyResult compareBody(const AccessProblem& problem, BodyKind kind, Choices& choices, std::size_t mostPoints) {
  BodyResult result;
  double points = 1;
  for (const Range& r : problem.domain) points *= static_cast<double>(r.extent());
  if (points > static_cast<double>(mostPoints)) return result;
  BodyCase made(problem, kind, choices);
  const auto derived = differentiate(made.program());
  for (const Diagnostic& d : derived->diagnostics)
    if (d.severity == Severity::Error) {
      result.right = false;
      result.wrong = said(made, d.message);
      return result;
    }
  switch (kind) {
    case BodyKind::Differences: compareDifferences(made, derived->program, made.inputs({}), choices, result); break;
    case BodyKind::Zeros: compareDifferences(made, derived->program, made.inputs({0, 0, 1, -1, 2}), choices, result); break;
    case BodyKind::Ties: compareTies(made, derived->program, problem, made.inputs({0, 1}), result); break;
  }
  return result;
}

}  // namespace nf::testing
