// SPDX-License-Identifier: Apache-2.0
#include "core/fusion/lowerable.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "core/support/checked.h"

namespace nf {

std::string_view name(FusionClass c) {
  switch (c) {
    case FusionClass::Injective: return "injective";
    case FusionClass::Reduction: return "reduction";
    case FusionClass::OutputFusable: return "output-fusable";
    case FusionClass::Opaque: return "opaque";
  }
  return "";
}

const std::string& toldName(const Program& program, OperatorId id) {
  const Operator& op = program[id];
  if (op.kind != OperatorKind::Loop) return op.name;
  const std::vector<TensorId> left = writesOf(program, id);
  return left.empty() ? op.name : program[left.front()].name;
}

bool isContraction(const Program& program, OperatorId id) {
  const Operator& op = program[id];
  if (op.kind != OperatorKind::Gather || op.reducer != Reducer::Sum) return false;
  // Factors of the product, through scalings and lazy guards of a factor.
  std::vector<ExprId> factors, stack{op.body};
  while (!stack.empty()) {
    const ExprId e = stack.back();
    stack.pop_back();
    const ScalarNode& n = program[e];
    if (n.op == ScalarOp::Mul) {
      stack.push_back(n.operands[1]);
      stack.push_back(n.operands[0]);
    } else if (n.op == ScalarOp::Select && program[n.operands[2]].op == ScalarOp::Constant && program[n.operands[2]].value == 0) {
      stack.push_back(n.operands[1]);
    } else if (n.op != ScalarOp::Constant) {
      factors.push_back(e);
    }
  }
  if (factors.size() < 2) return false;
  const auto axesOf = [&](ExprId factor) {
    std::vector<IndexVar> used;
    for (const ExprId e : nodesOf(program, factor)) {
      const ScalarNode& n = program[e];
      if (n.op == ScalarOp::Load)
        for (const AccessIndex& i : program[n.access].indices) i.affine.collectVariables(used);
      if (n.index.valid()) program[n.index].collectVariables(used);
    }
    return used;
  };
  const auto uses = [](const std::vector<IndexVar>& used, IndexVar v) { return std::binary_search(used.begin(), used.end(), v); };
  std::vector<std::vector<IndexVar>> used;
  for (const ExprId f : factors) used.push_back(axesOf(f));
  for (std::size_t a = 0; a < used.size(); ++a)
    for (std::size_t b = a + 1; b < used.size(); ++b) {
      bool m = false, n = false, k = false;
      for (IndexVar v = 0; v < op.axes.size(); ++v) {
        if (op.axes[v].extent == 1) continue;
        const bool left = uses(used[a], v), right = uses(used[b], v), out = v < op.outputRank;
        m |= out && left && !right;
        n |= out && right && !left;
        k |= !out && left && right;
      }
      if (m && n && k) return true;
    }
  return false;
}

FusionClass fusionClass(const Program& program, OperatorId id) {
  const Operator& op = program[id];
  if (op.kind != OperatorKind::Gather) return FusionClass::Opaque;
  if (op.reducer == Reducer::None) return FusionClass::Injective;
  return isContraction(program, id) ? FusionClass::OutputFusable : FusionClass::Reduction;
}

OperatorFacts factsOf(const Program& program, OperatorId op) {
  OperatorFacts facts{fusionClass(program, op), {}, {}};
  if (facts.fusionClass == FusionClass::Opaque) return facts;
  for (const ExprId e : nodesOf(program, program[op].body))
    if (program[e].op == ScalarOp::Load) facts.loads.push_back(program[e].access);
  facts.byTensor.resize(facts.loads.size());
  std::iota(facts.byTensor.begin(), facts.byTensor.end(), 0u);
  std::stable_sort(facts.byTensor.begin(), facts.byTensor.end(), [&](std::uint32_t a, std::uint32_t b) {
    return program[facts.loads[a]].tensor < program[facts.loads[b]].tensor;
  });
  return facts;
}

std::span<const std::uint32_t> loadsOf(const Program& program, const OperatorFacts& facts, TensorId t) {
  const auto tensorAt = [&](std::uint32_t position) { return program[facts.loads[position]].tensor; };
  const auto first = std::lower_bound(facts.byTensor.begin(), facts.byTensor.end(), t,
                                      [&](std::uint32_t position, TensorId wanted) { return tensorAt(position) < wanted; });
  auto last = first;
  while (last != facts.byTensor.end() && tensorAt(*last) == t) ++last;
  return {first, last};
}

namespace {

struct InnerRead {
  std::size_t reader;  // position in the group
  std::size_t writer;
  const Access* access;
};

class GroupCheck {
 public:
  GroupCheck(const Program& program, const std::vector<OperatorId>& group, const FusionLimits& limits,
             std::span<const OperatorFacts> facts)
      : m_program(program), m_group(group), m_limits(limits) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      const OperatorFacts own = facts.empty() ? factsOf(program, group[i]) : OperatorFacts();
      const OperatorFacts& known = facts.empty() ? own : facts[group[i].value];
      m_classes.push_back(known.fusionClass);
      // In the order of the loads, though only those of the group's own tensors are looked up: one may have thousands.
      std::vector<std::pair<std::uint32_t, std::size_t>> inner;
      for (std::size_t w = 0; w < group.size(); ++w)
        for (const std::uint32_t position : loadsOf(program, known, program[group[w]].output)) inner.emplace_back(position, w);
      std::sort(inner.begin(), inner.end());
      for (const auto& [position, w] : inner) m_reads.push_back({i, w, &program[known.loads[position]]});
    }
  }

  std::optional<std::string> run() {
    for (std::size_t i = 0; i < m_group.size(); ++i)
      if (m_classes[i] == FusionClass::Opaque)
        return toldName(m_program, m_group[i]) + " is a scatter or a loop: it runs as a kernel of its own.";
    for (const InnerRead& r : m_reads)
      for (const AccessIndex& index : r.access->indices)
        if (index.isData()) return op(r.reader).name + " reads " + op(r.writer).name + " at a place that depends on data.";
    const std::size_t reductions = count(FusionClass::Reduction), contractions = count(FusionClass::OutputFusable);
    if (contractions > 1) return "Two contractions in one kernel never pay today.";
    if (contractions == 1) return anchored(position(FusionClass::OutputFusable), reductions > 0);
    if (reductions == 0) return inlined();
    if (reductions == 1)
      if (const auto why = anchored(position(FusionClass::Reduction), false); !why) return why;
    return rows();
  }

 private:
  const Operator& op(std::size_t i) const { return m_program[m_group[i]]; }
  std::size_t count(FusionClass c) const { return static_cast<std::size_t>(std::count(m_classes.begin(), m_classes.end(), c)); }
  std::size_t position(FusionClass c) const {
    return static_cast<std::size_t>(std::find(m_classes.begin(), m_classes.end(), c) - m_classes.begin());
  }
  bool samePoints(std::size_t a, std::size_t b) const { return m_program[op(a).output].shape == m_program[op(b).output].shape; }
  // The reader's output axes, in order, are the indices.
  bool atOwnPoint(const InnerRead& r) const {
    if (!samePoints(r.reader, r.writer)) return false;
    for (std::size_t k = 0; k < r.access->indices.size(); ++k)
      if (!readsOwnPlace(op(r.reader), *r.access, k)) return false;
    return true;
  }
  bool readInside(std::size_t writer) const {
    return std::any_of(m_reads.begin(), m_reads.end(), [&](const InnerRead& r) { return r.writer == writer; });
  }

  // What nobody in the group reads is written, in one loop nest with the others.
  std::optional<std::string> inlined() const {
    std::optional<std::size_t> first;
    for (std::size_t i = 0; i < m_group.size(); ++i) {
      if (readInside(i)) continue;
      if (first && !samePoints(*first, i)) return op(*first).name + " and " + op(i).name + " run over different points.";
      first = first ? first : i;
    }
    return std::nullopt;
  }

  std::optional<std::string> anchored(std::size_t anchor, bool otherReductions) const {
    if (otherReductions) return "A reduction beside the contraction " + op(anchor).name + " would cost it its tiles.";
    // Operators before the anchor are its prologue; those that need it its epilogue.
    std::unordered_set<std::size_t> epilogue{anchor};
    for (std::size_t i = 0; i < m_group.size(); ++i)
      for (const InnerRead& r : m_reads)
        if (r.reader == i && epilogue.contains(r.writer) && i != anchor) {
          if (!atOwnPoint(r)) return op(i).name + " reads " + op(r.writer).name + " away from its own point.";
          epilogue.insert(i);
        }
    for (std::size_t i = 0; i < m_group.size(); ++i) {
      if (epilogue.contains(i) || readInside(i)) continue;
      return op(i).name + " is neither read by " + op(anchor).name + " nor needs it.";
    }
    return std::nullopt;
  }

  // Leading axes on which all agree and at which all inner reads stay.
  std::optional<std::string> rows() const {
    std::size_t common = SIZE_MAX;
    for (std::size_t i = 0; i < m_group.size(); ++i) common = std::min<std::size_t>(common, op(i).outputRank);
    for (std::size_t i = 1; i < m_group.size(); ++i)
      for (std::size_t k = 0; k < common; ++k)
        if (op(i).axes[k].extent != op(0).axes[k].extent) common = k;
    for (const InnerRead& r : m_reads)
      for (std::size_t k = 0; k < common; ++k)
        if (!readsOwnPlace(op(r.reader), *r.access, k)) common = k;
    // A whole tensor as one row is one only while it is small.
    std::int64_t bytes = 0, rowCount = 1;
    for (std::size_t k = 0; k < common; ++k) rowCount *= op(0).axes[k].extent;
    for (std::size_t i = 0; i < m_group.size(); ++i)
      if (readInside(i)) bytes += m_program[op(i).output].bytes() / rowCount;
    if (bytes > m_limits.rowBytes)
      return "One row of what lies between holds " + std::to_string(bytes) + " bytes; " + std::to_string(m_limits.rowBytes) +
             " stay in the cache.";
    if (common == 0) {
      for (std::size_t i = 0; i < m_group.size(); ++i)
        if (op(i).outputRank > 0 && !readInside(i)) return "The operators agree on no leading axis.";
    }
    return std::nullopt;
  }

  const Program& m_program;
  const std::vector<OperatorId>& m_group;
  const FusionLimits& m_limits;
  std::vector<FusionClass> m_classes;
  std::vector<InnerRead> m_reads;
};

}  // namespace

std::optional<std::string> whyNotLowerable(const Program& program, const std::vector<OperatorId>& group, const FusionLimits& limits,
                                           std::span<const OperatorFacts> facts) {
  if (group.size() == 1) return std::nullopt;
  if (group.size() > limits.operators)
    return "More than " + std::to_string(limits.operators) + " operators would stand in one kernel.";
  return GroupCheck(program, group, limits, facts).run();
}

}  // namespace nf
