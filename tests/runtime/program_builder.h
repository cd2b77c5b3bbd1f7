// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "core/ir/program.h"

// Small programs by hand.
namespace nf::testing_programs {

inline IndexExpr var(IndexVar v) { return IndexExpr::variable(v); }
inline AccessIndex at(IndexExpr e) { return {std::move(e), {}}; }

inline TensorId tensor(Program& p, std::string name, TensorKind kind, std::vector<std::int64_t> shape,
                       Initializer::Kind init = Initializer::Kind::None, std::vector<double> numbers = {},
                       DType type = DType::F32) {
  Tensor t;
  t.name = std::move(name);
  t.kind = kind;
  t.type = type;
  t.shape = std::move(shape);
  t.init.kind = init;
  t.init.numbers = std::move(numbers);
  return p.addTensor(std::move(t));
}

// output[axes] = REDUCE over `reduced` of body
inline OperatorId op(Program& p, TensorId output, std::vector<std::int64_t> axes, ExprId body,
                     std::vector<std::int64_t> reduced = {}, Reducer reducer = Reducer::None) {
  Operator o;
  o.name = p[output].name;
  for (const std::int64_t e : axes) o.axes.push_back({"i" + std::to_string(o.axes.size()), e, {}});
  o.outputRank = static_cast<std::uint32_t>(axes.size());
  for (const std::int64_t e : reduced) o.axes.push_back({"r" + std::to_string(o.axes.size()), e, {}});
  o.reducer = reduced.empty() ? Reducer::None : reducer;
  o.body = body;
  o.output = output;
  return p.addOperator(std::move(o));
}

inline ExprId read(Program& p, TensorId t) {
  std::vector<AccessIndex> point;
  for (std::size_t d = 0; d < p[t].shape.size(); ++d) point.push_back(at(var(static_cast<IndexVar>(d))));
  return p.load(t, point);
}

// A new intermediate of `like`'s shape: output[x] = body
inline TensorId elementwise(Program& p, std::string name, TensorId like, ExprId body) {
  const TensorId out =
      tensor(p, std::move(name), TensorKind::Intermediate, p[like].shape, Initializer::Kind::None, {}, p[like].type);
  op(p, out, p[like].shape, body);
  return out;
}

inline TensorId meanOf(Program& p, std::string name, TensorId t, ExprId body) {
  const TensorId out = tensor(p, std::move(name), TensorKind::Intermediate, {});
  const TensorId sum = tensor(p, p[out].name + ".sum", TensorKind::Intermediate, {});
  op(p, sum, {}, body, p[t].shape, Reducer::Sum);
  op(p, out, {}, p.binary(ScalarOp::Div, p.load(sum, {}), p.constant(static_cast<double>(p[t].elements()))));
  return out;
}

}  // namespace nf::testing_programs
