// SPDX-License-Identifier: Apache-2.0
#include "core/transform/unroll_loops.h"

#include <unordered_map>

#include "core/ir/rewrite.h"
#include "core/support/unique_names.h"

namespace nf {
namespace {

constexpr std::size_t kDeepestLoop = 64;
constexpr std::size_t kMostOperators = 1000000;

class Unrolling {
 public:
  Unrolling(const Program& from, std::int64_t mostTrips, std::size_t depth)
      : m_from(from), m_mostTrips(mostTrips), m_depth(depth), m_to(from) {
    m_to.operators.clear();
    m_to.loops.clear();
    for (const Tensor& t : from.tensors) m_names.take(t.name);
  }

  Result<Program> run() {
    if (m_depth > kDeepestLoop) return Error{"transform", "loops are nested deeper than 64", {}, {}};
    for (const Operator& op : m_from.operators) {
      if (op.kind != OperatorKind::Loop) {
        m_to.addOperator(op);
        continue;
      }
      Loop loop = m_from[op.loop];
      NF_TRY(Program body, Unrolling(*loop.body, m_mostTrips, m_depth + 1).run());
      if (loop.trips <= m_mostTrips) {
        if (static_cast<double>(loop.trips) * static_cast<double>(body.operators.size()) +
                static_cast<double>(m_to.operators.size()) >
            static_cast<double>(kMostOperators))
          return Error{"transform", "unrolling " + op.name + " would make more than a million operators", {}, {}};
        unroll(op, loop, body);
        continue;
      }
      loop.body = std::make_shared<const Program>(std::move(body));
      m_to.loops.push_back(std::move(loop));
      Operator kept = op;
      kept.loop = LoopId(m_to.loops.size() - 1);
      m_to.addOperator(std::move(kept));
    }
    return std::move(m_to);
  }

 private:
  // A nested loop that stays: the counter becomes a number in it too, and its own counters move one place out.
  std::shared_ptr<const Program> withoutCounter(const Program& body, std::uint32_t depth, std::int64_t t) {
    Program result = body;
    for (Operator& op : result.operators) {
      if (op.kind == OperatorKind::Loop) {
        Loop& nested = result[op.loop];
        nested.body = withoutCounter(*nested.body, depth, t);
        --nested.depth;
        continue;
      }
      ExprRewriter rewriter(body, result);
      rewriter.variable = [&](IndexVar v) { return replaced(v, depth, t); };
      op.body = rewriter.rewrite(op.body);
      for (AccessIndex& index : op.scatter) index = rewriter.rewrite(index);
    }
    return std::make_shared<const Program>(std::move(result));
  }

  static std::optional<IndexExpr> replaced(IndexVar v, std::uint32_t depth, std::int64_t t) {
    if (v == kLoopVariable + depth) return IndexExpr(t);
    if (v > kLoopVariable + depth) return IndexExpr::variable(v - 1);
    return std::nullopt;
  }

  void unroll(const Operator& op, const Loop& loop, const Program& body) {
    OriginImporter import(body, m_to);
    std::unordered_map<std::uint32_t, TensorId> outside;  // inner tensor -> the one that holds it in this step
    for (const auto& i : loop.invariants) outside[i.inner.value] = i.outer;
    for (const auto& c : loop.carried) outside[c.innerIn.value] = c.initial;
    std::vector<std::vector<TensorId>> stacked(loop.stacked.size(), std::vector<TensorId>(static_cast<std::size_t>(loop.trips)));
    std::vector<std::vector<TensorId>> accumulated(loop.accumulated.size());
    for (std::int64_t n = 0; n < loop.trips; ++n) {
      const std::int64_t t = loop.reversed ? loop.trips - 1 - n : n;
      std::unordered_map<std::uint32_t, TensorId> now = outside;
      const auto tensor = [&](TensorId inner) {
        if (const auto found = now.find(inner.value); found != now.end()) return found->second;
        Tensor copy = body[inner];
        copy.name = m_names.taken(copy.name + "." + std::to_string(t));
        copy.kind = TensorKind::Intermediate;
        copy.origin = import(copy.origin);
        const TensorId made = m_to.addTensor(std::move(copy));
        now.emplace(inner.value, made);
        return made;
      };
      for (const Operator& inner : body.operators) m_to.addOperator(copied(inner, body, loop, t, tensor, import));
      for (std::size_t k = 0; k < stacked.size(); ++k) stacked[k][static_cast<std::size_t>(t)] = tensor(loop.stacked[k].inner);
      for (std::size_t k = 0; k < accumulated.size(); ++k) accumulated[k].push_back(tensor(loop.accumulated[k].inner));
      std::vector<TensorId> next;
      for (const auto& c : loop.carried) next.push_back(tensor(c.innerOut));
      for (std::size_t k = 0; k < next.size(); ++k) outside[loop.carried[k].innerIn.value] = next[k];
    }
    const OriginId origin = m_to.derivedOrigin("unroll_loops", {op.origin});
    for (const auto& c : loop.carried)
      if (c.last.valid()) collect(c.last, {outside.at(c.innerIn.value)}, Collect::Copy, op.phase, origin);
    for (std::size_t k = 0; k < stacked.size(); ++k) collect(loop.stacked[k].outer, stacked[k], Collect::Stack, op.phase, origin);
    for (std::size_t k = 0; k < accumulated.size(); ++k)
      collect(loop.accumulated[k].outer, accumulated[k], Collect::Sum, op.phase, origin);
  }

  Operator copied(const Operator& inner, const Program& body, const Loop& loop, std::int64_t t,
                  const std::function<TensorId(TensorId)>& tensor, OriginImporter& import) {
    Operator copy = inner;
    copy.origin = m_to.derivedOrigin("unroll_loops", {import(inner.origin)});
    for (Axis& axis : copy.axes) axis.origin = import(axis.origin);
    if (inner.kind == OperatorKind::Loop) {
      Loop nested = body[inner.loop];
      nested.body = withoutCounter(*nested.body, loop.depth, t);
      --nested.depth;
      for (auto& c : nested.carried) {
        c.initial = tensor(c.initial);
        if (c.last.valid()) c.last = tensor(c.last);
      }
      for (auto& i : nested.invariants) i.outer = tensor(i.outer);
      for (auto& s : nested.stacked) s.outer = tensor(s.outer);
      for (auto& a : nested.accumulated) a.outer = tensor(a.outer);
      m_to.loops.push_back(std::move(nested));
      copy.loop = LoopId(m_to.loops.size() - 1);
      copy.name += "." + std::to_string(t);
      return copy;
    }
    ExprRewriter rewriter(body, m_to);
    rewriter.origin = [&](OriginId o) { return import(o); };
    rewriter.variable = [&](IndexVar v) { return replaced(v, loop.depth, t); };
    rewriter.access = [&](Access access) {
      access.tensor = tensor(access.tensor);
      return access;
    };
    copy.body = rewriter.rewrite(inner.body);
    for (AccessIndex& index : copy.scatter) index = rewriter.rewrite(index);
    copy.output = tensor(inner.output);
    copy.name = m_to[copy.output].name;
    return copy;
  }

  enum class Collect { Copy, Stack, Sum };
  // One operator that makes a result of the loop from the steps' tensors.
  void collect(TensorId target, const std::vector<TensorId>& steps, Collect how, Phase phase, OriginId origin) {
    Operator op;
    op.name = m_to[target].name;
    op.phase = phase;
    op.origin = origin;
    op.output = target;
    const auto& shape = m_to[target].shape;
    op.outputRank = static_cast<std::uint32_t>(shape.size());
    for (std::size_t k = 0; k < shape.size(); ++k) op.axes.push_back({"z" + std::to_string(k), shape[k], origin});
    std::vector<AccessIndex> at;
    for (std::size_t k = how == Collect::Stack ? 1 : 0; k < shape.size(); ++k)
      at.push_back({IndexExpr::variable(static_cast<IndexVar>(k)), {}});
    // A stack is a chain of selects on its first axis, in halves, so that it is no deeper than the logarithm of the steps.
    struct Part {
      ExprId value;
      std::int64_t first;
    };
    std::vector<Part> parts;
    for (std::size_t s = 0; s < steps.size(); ++s) parts.push_back({m_to.load(steps[s], at, origin), static_cast<std::int64_t>(s)});
    while (parts.size() > 1) {
      std::vector<Part> merged;
      if (how == Collect::Stack) {
        for (std::size_t s = 0; s + 1 < parts.size(); s += 2)
          merged.push_back({m_to.select(m_to.condGe0(IndexExpr(parts[s + 1].first - 1) - IndexExpr::variable(0), origin),
                                        parts[s].value, parts[s + 1].value, origin),
                            parts[s].first});
        if (parts.size() % 2) merged.push_back(parts.back());
      } else {
        merged.push_back({m_to.binary(ScalarOp::Add, parts[0].value, parts[1].value, origin), 0});
        merged.insert(merged.end(), parts.begin() + 2, parts.end());
      }
      parts = std::move(merged);
    }
    op.body = parts.front().value;
    m_to.addOperator(std::move(op));
  }

  const Program& m_from;
  std::int64_t m_mostTrips;
  std::size_t m_depth;
  Program m_to;
  UniqueNames m_names;
};

}  // namespace

Result<Program> unrollLoops(const Program& program, std::int64_t mostTrips) {
  NF_TRY(Program result, Unrolling(program, mostTrips, 0).run());
  dropUnusedTensors(result, program.tensors.size());
  return result;
}

}  // namespace nf
