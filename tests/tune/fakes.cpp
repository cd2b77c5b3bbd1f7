// SPDX-License-Identifier: Apache-2.0
#include "tests/tune/fakes.h"

#include <cmath>
#include <cstdlib>

namespace nf::fakes {

Program matmul(std::int64_t m, std::int64_t n, std::int64_t k, bool relu, DType type) {
  Program p;
  const auto tensor = [&](const char* name, TensorKind kind, std::vector<std::int64_t> shape, DType t) {
    Tensor made;
    made.name = name;
    made.kind = kind;
    made.type = t;
    made.shape = std::move(shape);
    return p.addTensor(std::move(made));
  };
  const TensorId a = tensor("A", TensorKind::Input, {m, k}, type), b = tensor("B", TensorKind::Input, {k, n}, type);
  const TensorId z = tensor("Z", TensorKind::Intermediate, {m, n}, type);
  const auto v = [](IndexVar i) { return AccessIndex{IndexExpr::variable(i), {}}; };
  const OriginId origin = p.sourceOrigin(Span{SourceId(0u), 3, 4});
  Operator op;
  op.name = "Z";
  op.axes = {{"i", m, origin}, {"j", n, origin}, {"k", k, origin}};
  op.outputRank = 2;
  op.reducer = Reducer::Sum;
  op.body = p.binary(ScalarOp::Mul, p.load(a, {v(0), v(2)}), p.load(b, {v(2), v(1)}));
  op.output = z;
  op.origin = p.derivedOrigin("differentiate", {origin});
  p.addOperator(op);
  TensorId last = z;
  if (relu) {
    last = tensor("Y", TensorKind::Intermediate, {m, n}, type);
    Operator r;
    r.name = "Y";
    r.axes = {{"i", m, origin}, {"j", n, origin}};
    r.outputRank = 2;
    r.body = p.unary(ScalarOp::Relu, p.load(z, {v(0), v(1)}));
    r.output = last;
    p.addOperator(r);
  }
  p.outputs.push_back({p[last].name, last, OutputRole::Named});
  p.stage = Stage::Fused;
  return p;
}

Program elementwise(std::int64_t n) {
  Program p;
  Tensor x;
  x.name = "X";
  x.kind = TensorKind::Input;
  x.shape = {n};
  Tensor y = x;
  y.name = "Y";
  y.kind = TensorKind::Intermediate;
  const TensorId in = p.addTensor(x), out = p.addTensor(y);
  Operator op;
  op.name = "Y";
  op.axes = {{"i", n, {}}};
  op.outputRank = 1;
  const ExprId v = p.load(in, {{IndexExpr::variable(0), {}}});
  const ExprId left = p.binary(ScalarOp::Mul, p.unary(ScalarOp::Exp, v), p.constant(2));
  const ExprId right = p.binary(ScalarOp::Div, v, p.binary(ScalarOp::Add, p.constant(1), p.binary(ScalarOp::Mul, v, v)));
  op.body = p.binary(ScalarOp::Add, left, right);
  op.output = out;
  p.addOperator(op);
  p.outputs.push_back({"Y", out, OutputRole::Named});
  p.stage = Stage::Fused;
  return p;
}

Folder::Folder() {
  char name[] = "/tmp/nf-tune-XXXXXX";
  m_path = mkdtemp(name);
}

// A bowl with its bottom at (9, 5, 13), ridges along b = c and a comb in a that no bowl explains.
double Space::seconds(int a, int b, int c) {
  const double bowl = std::pow(a - 9, 2) * 0.05 + std::pow(b - 5, 2) * 0.08 + std::pow(c - 13, 2) * 0.03;
  return 1e-4 * (1 + bowl + (a % 4 == 1 ? 0 : 0.6) + (b * 3 % 16 > c ? 0.5 : 0));
}
double Space::seconds(const Schedule& s) {
  return seconds(s.knobs->at("a").get<int>(), s.knobs->at("b").get<int>(), s.knobs->at("c").get<int>());
}
double Space::bestSeconds() {
  double best = 1;
  for (int a = 0; a < kValues; ++a)
    for (int b = 0; b < kValues; ++b)
      for (int c = 0; c < kValues; ++c) best = std::min(best, seconds(a, b, c));
  return best;
}

namespace {
int any(std::mt19937_64& rng) { return static_cast<int>(rng() % Space::kValues); }
}  // namespace

Schedule Space::random(std::mt19937_64& rng) const {
  const int a = any(rng), b = any(rng), c = any(rng);
  return make(a, b, c);
}
Schedule Space::mutate(const Schedule& s, std::mt19937_64& rng) const {
  nlohmann::json knobs = *s.knobs;
  const char* names[] = {"a", "b", "c"};
  const char* knob = names[rng() % 3];
  knobs[knob] = rng() % 2 ? any(rng) : std::clamp(knobs[knob].get<int>() + (rng() % 2 ? 1 : -1), 0, kValues - 1);
  return schedule(knobs);
}
Schedule Space::cross(const Schedule& x, const Schedule& y, std::mt19937_64& rng) const {
  nlohmann::json knobs = *x.knobs;
  for (const char* knob : {"a", "b", "c"})
    if (rng() % 2) knobs[knob] = y.knobs->at(knob);
  return schedule(knobs);
}
Result<Unit> Space::check(const Schedule& s) const {
  for (const char* knob : {"a", "b", "c"}) {
    const auto it = s.knobs->find(knob);
    if (s.kind != "fake" || it == s.knobs->end() || !it->is_number() || it->get<int>() < 0 || it->get<int>() >= kValues)
      return Error{"schedule", std::string("knob ") + knob, {}, {}};
  }
  return Unit{};
}
double Space::estimateSeconds(const Schedule& s) const {
  const int a = s.knobs->at("a"), b = s.knobs->at("b");
  return 1e-4 * (1 + std::pow(a - 7, 2) * 0.05 + std::pow(b - 5, 2) * 0.08);
}
std::vector<double> Space::features(const Schedule& s) const {
  const double a = s.knobs->at("a"), b = s.knobs->at("b"), c = s.knobs->at("c");
  return {a, b, c, a * a, b * b, c * c, a * b, b * c};
}

}  // namespace nf::fakes
