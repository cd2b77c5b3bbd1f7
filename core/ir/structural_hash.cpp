// SPDX-License-Identifier: Apache-2.0
#include "core/ir/structural_hash.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "core/support/assert.h"

namespace nf {
namespace {

// Numbers nodes and tensors by first occurrence, so that ids of the pools do not reach the hash.
class ProgramHasher {
 public:
  ProgramHasher(const Program& program, Hasher& hasher) : m_program(program), m_hasher(hasher) {}

  void tensor(TensorId id) {
    if (!id.valid()) {
      m_hasher.add(std::uint64_t{0xffffffff});
      return;
    }
    const auto [at, isNew] = m_tensors.emplace(id.value, m_tensors.size());
    m_hasher.add(at->second);
    if (!isNew) return;
    const Tensor& t = m_program[id];
    m_hasher.add(static_cast<std::uint64_t>(t.type)).add(t.shape.size());
    for (const std::int64_t extent : t.shape) m_hasher.add(static_cast<std::uint64_t>(extent));
    m_hasher.add(t.layout.order.size());
    for (const std::uint32_t axis : t.layout.order) m_hasher.add(axis);
  }

  void index(const AccessIndex& index, Hasher& into) {
    into.add(index.isData() ? 1 : 0);
    if (index.isData()) into.add(m_nodes.at(index.data.value));
    else index.affine.addTo(into);
  }

  // Equal parts count once, whether they are one shared node or written twice.
  void expression(ExprId root) {
    for (const ExprId id : nodesOf(m_program, root)) {
      if (m_nodes.contains(id.value)) continue;
      const ScalarNode& node = m_program[id];
      Hasher content;
      content.add(static_cast<std::uint64_t>(node.op)).add(static_cast<std::uint64_t>(node.type));
      for (int k = 0; k < info(node.op).arity; ++k) content.add(m_nodes.at(node.operands[k].value));
      content.addReal(node.value);
      if (node.index.valid()) m_program[node.index].addTo(content);
      if (node.access.valid()) {
        const Access& access = m_program[node.access];
        if (!m_tensors.contains(access.tensor.value)) tensor(access.tensor);
        content.add(m_tensors.at(access.tensor.value)).add(access.indices.size());
        for (const AccessIndex& i : access.indices) index(i, content);
      }
      const Hash hash = content.finish();
      const auto [at, isNew] = m_contents.emplace(hash, m_contents.size());
      m_nodes.emplace(id.value, at->second);
      if (isNew) m_hasher.add(hash);
    }
    if (root.valid()) m_hasher.add(m_nodes.at(root.value));
  }

  void op(OperatorId id) {
    const Operator& op = m_program[id];
    m_hasher.add(static_cast<std::uint64_t>(op.kind)).add(op.axes.size()).add(op.outputRank);
    for (const Axis& axis : op.axes) m_hasher.add(static_cast<std::uint64_t>(axis.extent));
    m_hasher.add(static_cast<std::uint64_t>(op.reducer)).add(op.tiesEven ? 1 : 0);
    if (op.kind == OperatorKind::Loop) {
      loop(m_program[op.loop]);
      return;
    }
    expression(op.body);
    for (const AccessIndex& i : op.scatter)
      if (i.isData()) expression(i.data);
    for (const AccessIndex& i : op.scatter) index(i, m_hasher);
    tensor(op.output);
  }

 private:
  void loop(const Loop& loop) {
    m_hasher.add(static_cast<std::uint64_t>(loop.trips)).add(loop.reversed ? 1 : 0).add(loop.depth);
    ProgramHasher inner(*loop.body, m_hasher);
    for (std::size_t i = 0; i < loop.body->operators.size(); ++i) inner.op(OperatorId(i));
    m_hasher.add(loop.carried.size()).add(loop.invariants.size()).add(loop.stacked.size()).add(loop.accumulated.size());
    for (const auto& c : loop.carried) {
      tensor(c.initial);
      inner.tensor(c.innerIn);
      inner.tensor(c.innerOut);
      tensor(c.last);
    }
    for (const auto& i : loop.invariants) {
      tensor(i.outer);
      inner.tensor(i.inner);
    }
    for (const auto& s : loop.stacked) {
      inner.tensor(s.inner);
      tensor(s.outer);
    }
    for (const auto& a : loop.accumulated) {
      inner.tensor(a.inner);
      tensor(a.outer);
    }
  }

  const Program& m_program;
  Hasher& m_hasher;
  std::unordered_map<std::uint32_t, std::uint64_t> m_nodes, m_tensors;
  std::unordered_map<Hash, std::uint64_t> m_contents;
};

}  // namespace

Hash structuralHash(const Program& program, OperatorId op) {
  return SubgraphExtractor(program, SubgraphExtractor::Alone{}).extract({op}, false).hash;
}

Hash structuralHash(const Program& program, const std::vector<OperatorId>& group) {
  return SubgraphExtractor(program).extract(group, false).hash;
}

Hash structuralHash(const Program& program) {
  Hasher hasher;
  ProgramHasher walk(program, hasher);
  for (std::size_t i = 0; i < program.operators.size(); ++i) walk.op(OperatorId(i));
  for (const Derivative& d : program.derivatives) {
    walk.tensor(d.of);
    walk.tensor(d.wrt);
    walk.tensor(d.seed);
    walk.tensor(d.result);
  }
  hasher.add(program.updates.size());
  for (const Update& u : program.updates) {
    walk.tensor(u.target);
    walk.tensor(u.value);
  }
  hasher.add(program.outputs.size());
  for (const Output& o : program.outputs) {
    hasher.add(static_cast<std::uint64_t>(o.role));
    walk.tensor(o.tensor);
  }
  return hasher.finish();
}

namespace {

// A loop's body with every origin by f, and without a table of them.
std::shared_ptr<const Program> bodyWithOrigins(const Program& body, const std::function<OriginId(OriginId)>& f) {
  auto copy = std::make_shared<Program>(body);
  copy->origins.clear();
  copy->hints.clear();
  for (Tensor& t : copy->tensors) t.origin = f(t.origin), t.init = {};
  for (Operator& op : copy->operators) {
    op.origin = f(op.origin);
    for (Axis& axis : op.axes) axis.origin = f(axis.origin);
  }
  for (ScalarNode& n : copy->scalars) n.origin = f(n.origin);
  return copy;
}

// A body's origins are a table of its own that began as that of the program around it: the nearest one that both have, else the loop's.
OriginId outerOrigin(const Program& outer, const Program& body, OriginId id, OriginId loop) {
  std::vector<OriginId> open{id};
  for (std::size_t steps = 0; !open.empty() && steps < body.origins.size(); ++steps) {
    const OriginId at = open.back();
    open.pop_back();
    if (!at.valid() || at.value >= body.origins.size()) continue;
    const Origin& o = body[at];
    if (at.value < outer.origins.size() && outer[at].span == o.span && outer[at].pass == o.pass) return at;
    open.insert(open.end(), o.parents.rbegin(), o.parents.rend());
  }
  return id.valid() ? loop : id;
}

}  // namespace

SubgraphExtractor::SubgraphExtractor(const Program& program)
    : m_program(program), m_readers(program.tensors.size()), m_kept(program.tensors.size(), false) {
  for (std::size_t i = 0; i < program.operators.size(); ++i)
    for (const TensorId t : readsOf(program, OperatorId(i))) m_readers[t.value].push_back(OperatorId(i));
  const auto keep = [&](TensorId t) {
    if (t.valid()) m_kept[t.value] = true;
  };
  for (const Derivative& d : program.derivatives) {
    keep(d.of);
    keep(d.wrt);
    keep(d.seed);
    keep(d.result);
  }
  for (const Update& u : program.updates) {
    keep(u.target);
    keep(u.value);
  }
  for (const Output& o : program.outputs) keep(o.tensor);
}

bool SubgraphExtractor::leaves(TensorId tensor, const std::vector<OperatorId>& group) const {
  // No operator reads what it writes.
  if (group.size() == 1) return true;
  if (m_kept[tensor.value]) return true;
  const auto& readers = m_readers[tensor.value];
  // Nobody reads it: it is written all the same, so that a group always has an output.
  if (readers.empty()) return true;
  return std::any_of(readers.begin(), readers.end(),
                     [&](OperatorId r) { return std::find(group.begin(), group.end(), r) == group.end(); });
}

Subgraph SubgraphExtractor::extract(const std::vector<OperatorId>& group, bool withOrigins) const {
  std::vector<OperatorId> ordered = group;
  std::sort(ordered.begin(), ordered.end());
  Subgraph result;
  Program& sub = result.program;
  if (withOrigins) sub.origins = m_program.origins;
  sub.stage = Stage::Fused;

  std::unordered_map<std::uint32_t, TensorId> local;
  std::unordered_map<std::uint32_t, bool> written;
  const auto localTensor = [&](TensorId outer) {
    if (!outer.valid()) return TensorId{};
    const auto found = local.find(outer.value);
    if (found != local.end()) return found->second;
    Tensor copy = m_program[outer];
    copy.init = {};
    if (!withOrigins) copy.origin = {};
    if (!written.contains(outer.value)) copy.kind = TensorKind::Input;
    const TensorId id = sub.addTensor(std::move(copy));
    if (!written.contains(outer.value)) {
      result.inputs.push_back(id);
      result.outerInputs.push_back(outer);
    }
    local.emplace(outer.value, id);
    return id;
  };

  for (const OperatorId id : ordered)
    for (const TensorId t : writesOf(m_program, id)) written[t.value] = true;
  for (const OperatorId id : ordered) {
    const Operator& op = m_program[id];
    Operator copy = op;
    if (!withOrigins) {
      copy.origin = {};
      for (Axis& axis : copy.axes) axis.origin = {};
    }
    if (op.kind == OperatorKind::Loop) {
      Loop loop = m_program[op.loop];
      // Of a kernel lines come from the body: its origins are then those of the whole program.
      if (loop.persistent) {
        const Program& body = *loop.body;
        auto own = bodyWithOrigins(
            body, [&](OriginId o) { return withOrigins ? outerOrigin(m_program, body, o, op.origin) : OriginId{}; });
        if (withOrigins) {
          auto whole = std::make_shared<Program>(*own);
          whole->origins = m_program.origins;
          own = std::move(whole);
        }
        loop.body = std::move(own);
      }
      for (auto& c : loop.carried) {
        c.initial = localTensor(c.initial);
        c.last = localTensor(c.last);
      }
      for (auto& i : loop.invariants) i.outer = localTensor(i.outer);
      for (auto& s : loop.stacked) s.outer = localTensor(s.outer);
      for (auto& a : loop.accumulated) a.outer = localTensor(a.outer);
      sub.loops.push_back(std::move(loop));
      copy.loop = LoopId(sub.loops.size() - 1);
    } else {
      ExprCloner cloner(m_program, sub);
      cloner.tensor = localTensor;
      if (!withOrigins) cloner.origin = [](OriginId) { return OriginId{}; };
      copy.body = cloner.clone(op.body);
      for (std::size_t i = 0; i < op.scatter.size(); ++i) copy.scatter[i] = cloner.clone(op.scatter[i]);
      copy.output = localTensor(op.output);
    }
    sub.addOperator(std::move(copy));
    for (const TensorId t : writesOf(m_program, id)) {
      if (!leaves(t, ordered)) continue;
      const TensorId inner = local.at(t.value);
      result.outputs.push_back(inner);
      result.outerOutputs.push_back(t);
      sub.outputs.push_back({sub[inner].name, inner, OutputRole::Named});
    }
  }
  result.hash = structuralHash(sub);
  return result;
}

Subgraph extractSubgraph(const Program& program, const std::vector<OperatorId>& group) {
  return SubgraphExtractor(program).extract(group);
}

void forEachKernel(const Program& program, const std::function<void(const KernelSite&)>& visit) {
  std::vector<std::string> counters;
  const auto descend = [&](const Program& p, std::int64_t calls, OperatorId loop, auto&& self) -> void {
    const SubgraphExtractor extractor(p);
    for (const Group& group : p.groups) {
      if (!isStepped(p, group)) {
        visit({p, group, extractor, calls, loop, counters});
        continue;
      }
      const OperatorId first = group.operators.front();
      const Loop& within = p[p[first].loop];
      if (!within.body) continue;
      counters.push_back(within.counter);
      self(*within.body, calls * within.trips, loop.valid() ? loop : first, self);
      counters.pop_back();
    }
  };
  descend(program, 1, {}, descend);
}

}  // namespace nf
