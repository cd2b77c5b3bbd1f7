// SPDX-License-Identifier: Apache-2.0
#include "core/fusion/size_classes.h"

#include <cstdlib>
#include <numeric>

namespace nf {
namespace {

// The axis that spans a dimension indexed by `index`, of those with these extents; -1: none does. What grows with an axis in one term
// and falls in another stays as wide as it is: `i % 2` is i - 2*(i // 2).
int spanning(const IndexExpr& index, const std::vector<Axis>& axes, std::int64_t extent) {
  std::vector<double> slopes(axes.size());
  const auto add = [&](const IndexExpr& e, double scale, const auto& self) -> void {
    for (const IndexTerm& term : e.terms()) {
      const double by = scale * static_cast<double>(term.coefficient);
      if (term.atom.isFloorDiv()) self(*term.atom.numerator, by / static_cast<double>(term.atom.divisor), self);
      else if (term.atom.variable < axes.size()) slopes[term.atom.variable] += by;
    }
  };
  add(index, 1, add);
  int best = -1;
  double most = 0;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const double span = std::abs(slopes[a]) * static_cast<double>(axes[a].extent);
    if (span > most) most = span, best = static_cast<int>(a);
  }
  return 2 * most >= static_cast<double>(extent) ? best : -1;
}

}  // namespace

SizeClasses::SizeClasses(const Program& program) {
  // Members: the dimensions of all tensors, then the axes of all operators.
  std::vector<std::uint32_t> dimension(program.tensors.size()), axis(program.operators.size());
  std::uint32_t count = 0;
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    dimension[t] = count;
    count += static_cast<std::uint32_t>(program.tensors[t].shape.size());
  }
  for (std::size_t o = 0; o < program.operators.size(); ++o) {
    axis[o] = count;
    count += static_cast<std::uint32_t>(program.operators[o].axes.size());
  }
  std::vector<Class> parent(count);
  std::iota(parent.begin(), parent.end(), Class{0});
  const auto rootOf = [&](Class c) {
    while (parent[c] != c) c = parent[c] = parent[parent[c]];
    return c;
  };
  for (std::size_t o = 0; o < program.operators.size(); ++o) {
    const Operator& op = program.operators[o];
    if (op.kind == OperatorKind::Loop) continue;
    const auto tie = [&](TensorId tensor, std::size_t k, int by) {
      if (by < 0 || program[tensor].shape[k] == 1 || op.axes[static_cast<std::size_t>(by)].extent == 1) return;
      parent[rootOf(dimension[tensor.value] + static_cast<std::uint32_t>(k))] = rootOf(axis[o] + static_cast<std::uint32_t>(by));
    };
    const auto tieAll = [&](TensorId tensor, const std::vector<AccessIndex>& indices) {
      for (std::size_t k = 0; k < indices.size() && k < program[tensor].shape.size(); ++k)
        if (!indices[k].isData()) tie(tensor, k, spanning(indices[k].affine, op.axes, program[tensor].shape[k]));
    };
    std::vector<ExprId> roots{op.body};
    for (const AccessIndex& index : op.scatter)
      if (index.isData()) roots.push_back(index.data);
    for (const ExprId root : roots)
      for (const ExprId id : nodesOf(program, root))
        if (program[id].access.valid()) tieAll(program[program[id].access].tensor, program[program[id].access].indices);
    if (!op.scatter.empty()) tieAll(op.output, op.scatter);
    else
      for (std::uint32_t r = 0; r < op.outputRank && r < program[op.output].shape.size(); ++r)
        tie(op.output, r, static_cast<int>(r));
  }
  m_dimensions.resize(program.tensors.size());
  m_axes.resize(program.tensors.size());
  m_makers.resize(program.tensors.size());
  // What no axis runs along: another extent there changes nothing that is computed.
  std::vector<bool> hasAxis(count);
  for (std::size_t o = 0; o < program.operators.size(); ++o)
    for (std::uint32_t a = 0; a < program.operators[o].axes.size(); ++a) hasAxis[rootOf(axis[o] + a)] = true;
  const auto classOf = [&](std::uint32_t member, std::int64_t extent) {
    const Class c = rootOf(member);
    return extent > 1 && hasAxis[c] ? c : kNone;
  };
  for (std::size_t t = 0; t < program.tensors.size(); ++t)
    for (std::uint32_t k = 0; k < program.tensors[t].shape.size(); ++k)
      m_dimensions[t].push_back(classOf(dimension[t] + k, program.tensors[t].shape[k]));
  for (std::size_t o = 0; o < program.operators.size(); ++o) {
    const Operator& op = program.operators[o];
    if (op.kind == OperatorKind::Loop || !op.output.valid()) continue;
    m_makers[op.output.value] = OperatorId(o);
    for (std::uint32_t a = 0; a < op.axes.size(); ++a) m_axes[op.output.value].push_back(classOf(axis[o] + a, op.axes[a].extent));
  }
}

std::pair<std::string, std::int64_t> SizeClasses::nameIn(const Program& program, TensorId tensor, Class c) const {
  const auto& axes = m_axes[tensor.value];
  for (std::size_t a = 0; a < axes.size(); ++a)
    if (const Axis& axis = program[m_makers[tensor.value]].axes[a]; axes[a] == c)
      return {axis.name + " of " + program[tensor].name, axis.extent};
  const auto& dimensions = m_dimensions[tensor.value];
  for (std::size_t k = 0; k < dimensions.size(); ++k)
    if (dimensions[k] == c) return {"dimension " + std::to_string(k + 1) + " of " + program[tensor].name, program[tensor].shape[k]};
  return {};
}

}  // namespace nf
