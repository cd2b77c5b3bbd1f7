// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/phases.h"

#include <algorithm>
#include <numeric>

#include "core/ir/paths.h"
#include "core/ir/rewrite.h"
#include "core/support/checked.h"

namespace nf::loop {
namespace {

// By tensor, by axis: the number of phases.
using Phases = std::vector<std::vector<std::int64_t>>;

bool canSplit(const Program& p, const Operator& op) { return op.kind == OperatorKind::Gather && p[op.output].layout.order.empty(); }

std::vector<std::int64_t> moduliOf(const Program& p, const Operator& op) {
  Nest nest;
  nest.shape.assign(op.outputRank, 1);
  for (const ExprId e : nodesOf(p, op.body)) {
    if (p[e].index.valid()) nest.y.push_back(p[p[e].index]);
    if (!p[e].access.valid()) continue;
    for (const AccessIndex& index : p[p[e].access].indices)
      if (!index.isData()) nest.y.push_back(index.affine);
  }
  return phaseModuli(nest);
}

// Gives `phases` the factor too, where that divides the extent.
bool refine(std::int64_t& phases, std::int64_t factor, std::int64_t extent, std::int64_t most) {
  const std::int64_t both = std::lcm(phases, factor);
  if (both == phases || both > most || extent % both != 0) return false;
  phases = both;
  return true;
}

Phases plan(const Program& p, const PhaseOptions& options) {
  Phases phases;
  for (const Tensor& t : p.tensors) phases.emplace_back(t.shape.size(), 1);
  for (const Operator& op : p.operators) {
    if (!canSplit(p, op)) continue;
    const auto moduli = moduliOf(p, op);
    for (std::size_t k = 0; k < moduli.size(); ++k)
      refine(phases[op.output.value][k], moduli[k], op.axes[k].extent, options.mostPerDimension);
  }
  // An axis read as it is has the same phases on both sides: factors only grow, and are bounded.
  const std::vector<OperatorId> made = producers(p);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Operator& op : p.operators) {
      if (!canSplit(p, op)) continue;
      for (const ExprId e : nodesOf(p, op.body)) {
        if (p[e].op != ScalarOp::Load) continue;
        const Access& access = p[p[e].access];
        const OperatorId producer = made[access.tensor.value];
        if (!producer.valid() || !canSplit(p, p[producer])) continue;
        for (std::size_t k = 0; k < access.indices.size(); ++k) {
          const auto v = access.indices[k].isData() ? std::nullopt : access.indices[k].affine.asVariable();
          const std::int64_t extent = p[access.tensor].shape[k];
          if (!v || *v >= op.outputRank || op.axes[*v].extent != extent) continue;
          std::int64_t &here = phases[op.output.value][*v], &there = phases[access.tensor.value][k];
          changed = refine(here, there, extent, options.mostPerDimension) || changed;
          changed = refine(there, here, extent, options.mostPerDimension) || changed;
        }
      }
    }
  }
  // The parts of an index that is data are not to be had.
  for (std::size_t e = 0; e < p.accesses.size(); ++e)
    for (std::size_t k = 0; k < p.accesses[e].indices.size(); ++k)
      if (p.accesses[e].indices[k].isData()) phases[p.accesses[e].tensor.value][k] = 1;
  for (std::vector<std::int64_t>& ofTensor : phases) keepWithin(options, ofTensor);
  return phases;
}

std::string nameOfPhase(const Operator& op, std::string name) {
  do name += "_phase";
  while (std::any_of(op.axes.begin(), op.axes.end(), [&](const Axis& axis) { return axis.name == name; }));
  return name;
}

constexpr std::uint64_t kPruneQuota = 100000;  // isl operations a question

}  // namespace

std::vector<StageClass> classesOf(const Program& p, const Operator& op, const std::vector<ExprId>& conditions,
                                  const std::vector<std::int64_t>& moduli) {
  // A nest of the axes that have a part in it; counters of loops around have no range here, so their guards stay.
  std::vector<IndexCond> guards, others;
  std::vector<bool> used(op.axes.size(), false);
  for (std::size_t k = 0; k < used.size(); ++k) used[k] = moduli[k] > 1;
  for (const ExprId c : conditions) {
    IndexCond guard = *asIndexCond(p, c);
    std::vector<IndexVar> variables;
    collectVariables(guard, variables);
    if (!variables.empty() && variables.back() >= op.axes.size()) {
      others.push_back(std::move(guard));
      continue;
    }
    for (const IndexVar v : variables) used[v] = true;
    guards.push_back(std::move(guard));
  }
  Nest nest;
  std::vector<std::size_t> z, t;
  std::vector<std::int64_t> modulus;
  std::vector<IndexVar> variableOf(op.axes.size(), 0);
  for (std::size_t k = 0; k < op.axes.size(); ++k) {
    if (!used[k]) continue;
    variableOf[k] = static_cast<IndexVar>(z.size() + t.size());
    (k < op.outputRank ? z : t).push_back(k);
    (k < op.outputRank ? nest.shape : nest.axes).push_back(op.axes[k].extent);
    if (k < op.outputRank) modulus.push_back(moduli[k]);
  }
  for (std::size_t k = 0; k < t.size(); ++k) {
    nest.y.push_back(IndexExpr::variable(static_cast<IndexVar>(z.size() + k)));
    nest.tOfY.push_back(IndexExpr::variable(static_cast<IndexVar>(k)));
  }
  for (const IndexCond& g : guards)
    nest.guards.push_back({substitute(g, [&](IndexVar v) { return std::optional(IndexExpr::variable(variableOf[v])); }), {}});
  std::vector<NestClass> live = splitPhases(nest, modulus, kPruneQuota);

  std::vector<StageClass> classes;
  StageClass one;
  one.phase.assign(op.axes.size(), 0);
  for (auto next = live.begin();;) {
    one.left.clear();
    for (const Axis& axis : op.axes) one.left.push_back({0, axis.extent - 1});
    one.guards = others;
    one.empty = next == live.end() || !std::equal(z.begin(), z.end(), next->phase.begin(),
                                                  [&](std::size_t k, std::int64_t phase) { return one.phase[k] == phase; });
    if (!one.empty) {
      const Nest& made = next->nest;
      const std::vector<Range> box = made.ranges();
      const RangeOf ranges = [&](IndexVar v) -> std::optional<Range> {
        if (v < box.size()) return box[v];
        return std::nullopt;
      };
      for (std::size_t k = 0; k < t.size(); ++k) one.left[t[k]] = bounds(made.y[k], ranges).value_or(one.left[t[k]]);
      const auto axes = [&](IndexVar v) -> std::optional<IndexExpr> {
        if (v < z.size()) return floorDiv(IndexExpr::variable(static_cast<IndexVar>(z[v])), modulus[v]);
        return substitute(made.tOfY[v - z.size()],
                          [&](IndexVar y) { return std::optional(IndexExpr::variable(static_cast<IndexVar>(t[y]))); });
      };
      for (const Guard& g : made.guards) one.guards.push_back(substitute(g.condition, axes));
      ++next;
    }
    classes.push_back(one);
    bool more = false;
    for (std::size_t j = z.size(); j-- > 0 && !more;) {
      more = ++one.phase[z[j]] < modulus[j];
      if (!more) one.phase[z[j]] = 0;
    }
    if (!more) return classes;
  }
}

double interiorOf(const Operator& op, const StageClass& one, const std::vector<std::int64_t>& moduli) {
  const RangeOf ranges = [&](IndexVar v) -> std::optional<Range> {
    if (v < one.left.size()) return one.left[v];
    return std::nullopt;
  };
  const PeeledGuards peeled = peelGuards(
      one.guards, [&](IndexVar v) { return v >= op.outputRank && v < op.axes.size(); }, ranges);
  if (peeled.peeled.empty()) return 0;
  // Counted over the quotients, as many as the class has.
  std::vector<std::int64_t> shape;
  for (std::size_t k = 0; k < op.outputRank; ++k) shape.push_back(floorDiv(op.axes[k].extent - 1 - one.phase[k], moduli[k]) + 1);
  std::vector<IndexCond> interior;
  for (const IndexCond& c : peeled.interior) {
    std::vector<IndexVar> variables;
    collectVariables(c, variables);
    if (!variables.empty() && variables.back() >= op.outputRank) return 0;  // a counter of a loop around: nobody knows
    interior.push_back(
        substitute(c, [&](IndexVar v) { return std::optional(moduli[v] * IndexExpr::variable(v) + IndexExpr(one.phase[v])); }));
  }
  return shareOfGuarded(shape, interior);
}

std::optional<Program> withPhases(const Program& program, const PhaseOptions& options) {
  const Phases phases = plan(program, options);
  const auto isSplit = [](const std::vector<std::int64_t>& h) {
    return std::any_of(h.begin(), h.end(), [](std::int64_t x) { return x > 1; });
  };
  if (std::none_of(phases.begin(), phases.end(), isSplit)) return std::nullopt;
  Program result = program;
  for (std::size_t t = 0; t < phases.size(); ++t) {
    if (!isSplit(phases[t])) continue;
    std::vector<std::int64_t> shape;
    for (std::size_t k = 0; k < phases[t].size(); ++k) {
      shape.push_back(program.tensors[t].shape[k] / phases[t][k]);
      if (phases[t][k] > 1) shape.push_back(phases[t][k]);
    }
    result.tensors[t].shape = std::move(shape);
  }
  for (std::size_t o = 0; o < program.operators.size(); ++o) {
    const Operator& from = program.operators[o];
    Operator to = from;
    to.axes.clear();
    std::vector<IndexExpr> axes;  // of `from`, over those of `to`
    const auto add = [&](std::string name, std::int64_t extent, OriginId origin) {
      to.axes.push_back({std::move(name), extent, origin});
      return IndexExpr::variable(static_cast<IndexVar>(to.axes.size() - 1));
    };
    for (std::size_t k = 0; k < from.axes.size(); ++k) {
      const Axis& axis = from.axes[k];
      const bool output = from.kind == OperatorKind::Gather && k < from.outputRank;
      const std::int64_t h = output ? phases[from.output.value][k] : 1;
      IndexExpr e = add(axis.name, axis.extent / h, axis.origin);
      if (h > 1) e = h * e + add(nameOfPhase(from, axis.name), h, axis.origin);
      axes.push_back(std::move(e));
      if (output) to.outputRank = static_cast<std::uint32_t>(to.axes.size());
    }
    ExprRewriter rewriter(program, result);
    rewriter.ranges = rangesOf(to);
    rewriter.variable = [&](IndexVar v) -> std::optional<IndexExpr> {
      if (v < axes.size()) return axes[v];
      return std::nullopt;
    };
    rewriter.access = [&](Access access) {
      const auto& h = phases[access.tensor.value];
      if (!isSplit(h)) return access;
      std::vector<AccessIndex> indices;
      for (std::size_t k = 0; k < h.size(); ++k) {
        if (h[k] == 1) {
          indices.push_back(access.indices[k]);
          continue;
        }
        indices.push_back({simplify(floorDiv(access.indices[k].affine, h[k]), rewriter.ranges), {}});
        indices.push_back({simplify(floorMod(access.indices[k].affine, h[k]), rewriter.ranges), {}});
      }
      access.indices = std::move(indices);
      return access;
    };
    to.body = rewriter.rewrite(from.body);
    for (AccessIndex& index : to.scatter) index = rewriter.rewrite(index);
    result.operators[o] = std::move(to);
  }
  return result;
}

}  // namespace nf::loop
