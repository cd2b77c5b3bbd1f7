// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/fusion/fuse.h"
#include "core/fusion/partition.h"
#include "core/ir/verify.h"

namespace nf::fusion_test {

// Builds programs of elementwise operators over one extent each, and of what else a case needs.
class Build {
 public:
  Program p;

  TensorId given(const std::string& name, std::int64_t extent) {
    Tensor t;
    t.name = name;
    t.kind = TensorKind::Input;
    t.shape = {extent};
    return p.addTensor(t);
  }
  TensorId made(const std::string& name, std::vector<std::int64_t> shape) {
    Tensor t;
    t.name = name;
    t.shape = std::move(shape);
    return p.addTensor(t);
  }
  ExprId at(TensorId t, std::vector<IndexVar> vars = {0}) {
    std::vector<AccessIndex> indices;
    for (const IndexVar v : vars) indices.push_back({IndexExpr::variable(v), {}});
    return p.load(t, indices);
  }
  void define(TensorId out, ExprId body, Phase phase = Phase::Forward, Reducer reducer = Reducer::None,
              std::vector<std::int64_t> reduced = {}) {
    Operator op;
    op.name = p[out].name;
    op.phase = phase;
    op.reducer = reducer;
    for (std::size_t k = 0; k < p[out].shape.size(); ++k) op.axes.push_back({"i" + std::to_string(k), p[out].shape[k], {}});
    for (std::size_t k = 0; k < reduced.size(); ++k) op.axes.push_back({"r" + std::to_string(k), reduced[k], {}});
    op.outputRank = static_cast<std::uint32_t>(p[out].shape.size());
    op.body = body;
    op.output = out;
    p.addOperator(op);
  }
  // name[i] = product of the operands at i: linear in each, so the backward operators read what fusion.md lists.
  TensorId product(const std::string& name, std::vector<TensorId> operands, std::int64_t extent, Phase phase = Phase::Forward) {
    const TensorId out = made(name, {extent});
    ExprId body = at(operands[0]);
    for (std::size_t k = 1; k < operands.size(); ++k) body = p.binary(ScalarOp::Mul, body, at(operands[k]));
    if (operands.size() == 1) body = p.binary(ScalarOp::Mul, body, p.constant(2));
    define(out, body, phase);
    return out;
  }
  void keep(TensorId t) { p.outputs.push_back({p[t].name, t, OutputRole::Named}); }

  Program partitioned() {
    p.stage = Stage::Differentiated;
    EXPECT_EQ(verify(p, Stage::Differentiated), std::vector<std::string>{});
    auto result = partition(p);
    EXPECT_TRUE(result.ok());
    return std::move(result).value();
  }
};

inline constexpr std::int64_t kN = 1000, kBytes = 4 * kN;
inline const DeviceConstants kSlowMemory{1e9, 1e12, 1e-6};  // recomputation is cheap: the paper's formulas show

inline const FusionDecision& decisionOn(const FusionResult& r, const std::string& producer) {
  for (const FusionDecision& d : r.decisions)
    if (d.producer == producer) return d;
  ADD_FAILURE() << "no decision on " << producer;
  static const FusionDecision kNone;
  return kNone;
}

// By what each makes.
inline std::vector<std::vector<std::string>> kernelsOf(const Program& fused) {
  std::vector<std::vector<std::string>> kernels;
  for (const Group& group : fused.groups) {
    kernels.emplace_back();
    for (const OperatorId op : group.operators) kernels.back().push_back(fused[fused[op].output].name);
  }
  return kernels;
}

inline double term(const FusionDecision& d, const std::string& name) {
  for (const FusionTerm& t : d.traffic)
    if (t.name == name) return t.amount / kBytes;
  return 0;
}

}  // namespace nf::fusion_test
