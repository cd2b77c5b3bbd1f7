// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/emitter.h"

namespace nf::cpu {
namespace {

// Shorter loops are unrolled rather than given ends of their own.
constexpr std::int64_t kBoundedExtent = 16;

}  // namespace

void Emitter::locate(StmtId id) {
  if (!m_debug) return;
  m_b.SetCurrentDebugLocation(llvm::DILocation::get(m_context, m_lines->lines[id.value], 0, m_subprogram));
}

void Emitter::statements(const std::vector<StmtId>& body) {
  for (const StmtId id : body) statement(id);
}

void Emitter::statement(StmtId id) {
  const Statement& s = m_f[id];
  locate(id);
  switch (s.kind) {
    case Statement::Kind::For: forLoop(s); return;
    case Statement::Kind::If: branch(s); return;
    case Statement::Kind::Store: store(s); return;
    case Statement::Kind::AsyncCopy:
    case Statement::Kind::AsyncCommit:
    case Statement::Kind::AsyncWait:
    case Statement::Kind::Exchange:
    case Statement::Kind::Barrier:
    case Statement::Kind::MatrixLoad:
    case Statement::Kind::MatrixTile:
    case Statement::Kind::WarpgroupFence:
    case Statement::Kind::WarpgroupTile:
    case Statement::Kind::WarpgroupCommit:
    case Statement::Kind::WarpgroupWait:
    case Statement::Kind::ProxyFence:
    case Statement::Kind::TensorCopy:
    case Statement::Kind::ArrivalInit:
    case Statement::Kind::ArrivalExpect:
    case Statement::Kind::ArrivalWait: break;  // a GPU's; templates for a CPU make none
  }
  NF_ASSERT(false);
}

void Emitter::forLoop(const Statement& s) {
  const Var& v = m_f[s.var];
  if (v.extent == 1) {
    m_constants[s.var.value] = 0;
    statements(s.body);
    m_constants.erase(s.var.value);
    return;
  }
  switch (v.kind) {
    case LoopKind::Unrolled:
      for (std::int64_t i = 0; i < v.extent; ++i) {
        m_constants[s.var.value] = i;
        statements(s.body);
        forgetUsers(s.var);
      }
      m_constants.erase(s.var.value);
      return;
    case LoopKind::Vector: {
      NF_ASSERT(!m_lane.valid());
      m_lane = s.var;
      m_lanes = static_cast<unsigned>(v.extent);
      forgetValues();
      statements(s.body);
      forgetValues();
      m_lane = {};
      m_lanes = 1;
      return;
    }
    case LoopKind::Serial:
    case LoopKind::Parallel:
    case LoopKind::Block:
    case LoopKind::Thread: break;
  }
  LV* begin = m_b.getInt64(0);
  LV* end = m_b.getInt64(static_cast<std::uint64_t>(v.extent));
  const std::optional<std::vector<ValueId>> left = v.extent >= kBoundedExtent ? bounded(s, begin, end) : std::nullopt;
  loop(begin, end, [&](LV* counter) {
    bindRuntime(s.var, counter);
    poll(counter, static_cast<double>(v.extent), s.body);
    if (!left) {
      statements(s.body);
    } else if (left->empty()) {
      statements(m_f[s.body.front()].body);
    } else {
      LV* condition = nullptr;
      for (const ValueId c : *left) condition = condition ? m_b.CreateAnd(condition, value(c)) : value(c);
      branch(condition, m_f[s.body.front()]);
    }
    m_runtime.erase(s.var.value);
  });
  forgetValues();
}

std::optional<std::vector<ValueId>> Emitter::bounded(const Statement& s, LV*& begin, LV*& end) {
  if (s.body.size() != 1) return std::nullopt;
  const Statement& test = m_f[s.body.front()];
  if (test.kind != Statement::Kind::If || !test.otherwise.empty()) return std::nullopt;
  std::vector<ValueId> open{test.value}, left;
  bool any = false;
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    const Value& v = m_f[id];
    if (v.kind == Value::Kind::Apply && v.op == ScalarOp::And) {
      open.insert(open.end(), {v.operands[1], v.operands[0]});
    } else if (narrowByIndex(v, s.var, begin, end) || narrowByData(v, s, begin, end)) {
      any = true;
    } else {
      left.push_back(id);
    }
  }
  if (!any) return std::nullopt;
  return left;
}

std::optional<std::pair<std::int64_t, IndexExpr>> Emitter::linearIn(const IndexExpr& unbound, VarId counter) {
  const IndexExpr e = bind(unbound);
  const std::int64_t c = e.coefficientOf(counter.value);
  const IndexExpr rest = e - c * IndexExpr::variable(counter.value);
  if (c == 0 || usesLane(e) || rest.uses(counter.value) || rest.overflowed()) return std::nullopt;
  return std::pair(c, rest);
}

bool Emitter::narrowByIndex(const Value& v, VarId counter, LV*& begin, LV*& end) {
  if (v.kind != Value::Kind::IndexGe0) return false;
  const auto linear = linearIn(v.index, counter);
  if (!linear) return false;
  const auto& [c, rest] = *linear;
  // c*t + rest >= 0: t >= ceil(-rest/c), or t <= floor(rest/-c)
  if (c > 0) raise(begin, index(IndexExpr(0) - floorDiv(rest, c)));
  else lower(end, index(floorDiv(rest, -c) + IndexExpr(1)));
  return true;
}

bool Emitter::narrowByData(const Value& v, const Statement& s, LV*& begin, LV*& end) {
  if (m_lanes > 1 || v.kind != Value::Kind::Apply || (v.op != ScalarOp::Lt && v.op != ScalarOp::Le)) return false;
  for (const bool counterFirst : {true, false}) {
    const Value& counted = m_f[v.operands[counterFirst ? 0 : 1]];
    const ValueId other = v.operands[counterFirst ? 1 : 0];
    if (counted.kind != Value::Kind::Index || counted.type != DType::I32 || m_f[other].type != DType::I32) continue;
    const auto linear = linearIn(counted.index, s.var);
    if (!linear || linear->first != 1 || !fits32(counted.index) || !staysTheSame(other, s)) continue;
    LV* limit = m_b.CreateSExt(value(other), m_b.getInt64Ty());
    limit = m_b.CreateSub(limit, index(linear->second));  // of the counter itself
    const bool strict = v.op == ScalarOp::Lt;
    if (counterFirst) lower(end, strict ? limit : m_b.CreateAdd(limit, m_b.getInt64(1)));
    else raise(begin, strict ? m_b.CreateAdd(limit, m_b.getInt64(1)) : limit);
    return true;
  }
  return false;
}

bool Emitter::staysTheSame(ValueId id, const Statement& loop) {
  std::set<BufferId> written;
  const std::function<void(const std::vector<StmtId>&)> collectWritten = [&](const std::vector<StmtId>& body) {
    for (const StmtId inner : body) {
      if (m_f[inner].kind == Statement::Kind::Store) written.insert(m_f[inner].target.buffer);
      collectWritten(m_f[inner].body);
      collectWritten(m_f[inner].otherwise);
    }
  };
  collectWritten(loop.body);
  Statement probe;
  probe.value = id;
  for (const ValueId v : valuesOf(m_f, probe)) {
    const Value& value = m_f[v];
    const auto varies = [&](const IndexExpr& e) { return e.uses(loop.var.value) || usesLane(e); };
    if (varies(value.index) || varies(value.place.offset)) return false;
    if (value.kind == Value::Kind::Load && written.contains(value.place.buffer)) return false;
  }
  return true;
}

void Emitter::branch(LV* condition, const Statement& s) {
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(condition)) {
    if (constant->isAllOnesValue()) return statements(s.body);
    if (constant->isNullValue()) return statements(s.otherwise);
  }
  if (condition->getType()->isVectorTy()) {
    LV* outer = m_mask;
    m_mask = outer ? m_b.CreateAnd(outer, condition) : condition;
    forgetValues();
    statements(s.body);
    if (!s.otherwise.empty()) {
      LV* negated = m_b.CreateNot(condition);
      m_mask = outer ? m_b.CreateAnd(outer, negated) : negated;
      forgetValues();
      statements(s.otherwise);
    }
    m_mask = outer;
    forgetValues();
    return;
  }
  auto* then = llvm::BasicBlock::Create(m_context, "", m_function);
  auto* otherwise = s.otherwise.empty() ? nullptr : llvm::BasicBlock::Create(m_context, "");
  auto* after = llvm::BasicBlock::Create(m_context, "");
  llvm::Instruction* entering = m_b.CreateCondBr(condition, then, otherwise ? otherwise : after);
  const auto part = [&](llvm::BasicBlock* block, const std::vector<StmtId>& body) {
    m_b.SetInsertPoint(block);
    pushScope(entering);
    statements(body);
    popScope();
    m_b.CreateBr(after);
  };
  part(then, s.body);
  if (otherwise) {
    otherwise->insertInto(m_function);
    part(otherwise, s.otherwise);
  }
  after->insertInto(m_function);
  m_b.SetInsertPoint(after);
  forgetValues();
}

}  // namespace nf::cpu
