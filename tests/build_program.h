// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/program.h"
#include "core/ir/tensor_data.h"

namespace nf::test {

inline IndexExpr var(IndexVar v) { return IndexExpr::variable(v); }

// Programs by hand, for tests that must not depend on the language.
struct Build {
  Program p;

  TensorId tensor(const std::string& name, std::vector<std::int64_t> shape, TensorKind kind = TensorKind::Input,
                  DType type = DType::F32) {
    Tensor t;
    t.name = name;
    t.kind = kind;
    t.type = type;
    t.shape = std::move(shape);
    return p.addTensor(std::move(t));
  }

  ExprId load(TensorId t, std::vector<IndexExpr> at) {
    std::vector<AccessIndex> indices;
    for (IndexExpr& e : at) indices.push_back({std::move(e), {}});
    return p.load(t, std::move(indices));
  }
  ExprId mul(ExprId a, ExprId b) { return p.binary(ScalarOp::Mul, a, b); }
  ExprId add(ExprId a, ExprId b) { return p.binary(ScalarOp::Add, a, b); }
  ExprId sub(ExprId a, ExprId b) { return p.binary(ScalarOp::Sub, a, b); }
  ExprId number(double v, DType type = DType::F32) { return p.constant(v, type); }

  // The first outputRank axes are the output's.
  TensorId op(const std::string& name, std::vector<std::pair<std::string, std::int64_t>> axes, std::uint32_t outputRank,
              Reducer reducer, ExprId body, DType type = DType::F32) {
    Operator o;
    o.name = name;
    std::vector<std::int64_t> shape;
    for (auto& [axis, extent] : axes) {
      if (o.axes.size() < outputRank) shape.push_back(extent);
      o.axes.push_back({axis, extent, {}});
    }
    o.outputRank = outputRank;
    o.reducer = reducer;
    o.body = body;
    o.output = tensor(name, std::move(shape), TensorKind::Intermediate, type);
    const TensorId out = o.output;
    p.addOperator(std::move(o));
    return out;
  }

  TensorId scatter(const std::string& name, std::vector<std::pair<std::string, std::int64_t>> axes, std::vector<std::int64_t> shape,
                   std::vector<AccessIndex> at, ExprId body) {
    Operator o;
    o.name = name;
    o.kind = OperatorKind::Scatter;
    for (auto& [axis, extent] : axes) o.axes.push_back({axis, extent, {}});
    o.body = body;
    o.scatter = std::move(at);
    o.output = tensor(name, std::move(shape), TensorKind::Intermediate);
    const TensorId out = o.output;
    p.addOperator(std::move(o));
    return out;
  }

  TensorId derivative(TensorId of, TensorId wrt, TensorId seed = {}) {
    const TensorId result = tensor("d(" + p[of].name + ")/d(" + p[wrt].name + ")" + (seed.valid() ? "!" : ""), p[wrt].shape,
                                   TensorKind::Intermediate, p[wrt].type);
    p.derivatives.push_back({of, wrt, result, seed, {}});
    return result;
  }

  void output(TensorId t) { p.outputs.push_back({p[t].name, t, OutputRole::Named}); }
};

// NF_TEST_SEED replays a property test; without it every run draws the given one.
inline std::uint64_t testSeed(std::uint64_t otherwise) {
  const char* text = std::getenv("NF_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Away from 0 by at least 0.3, so that kinks and quotients are no accident.
inline TensorData randomData(const Tensor& t, std::mt19937_64& rng) {
  TensorData data{t.type, t.shape, {}};
  std::uniform_real_distribution<double> size(0.3, 1.7);
  for (std::int64_t i = 0; i < t.elements(); ++i) data.values.push_back(size(rng) * (rng() % 2 ? 1 : -1));
  return data;
}

}  // namespace nf::test
