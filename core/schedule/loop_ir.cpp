// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/loop_ir.h"

#include <algorithm>
#include <unordered_set>

#include "core/support/assert.h"

namespace nf::loop {
namespace {

ValueId push(Function& f, Value value) {
  f.values.push_back(std::move(value));
  return ValueId(f.values.size() - 1);
}

}  // namespace

bool hasGridBarrier(const Function& function, const std::vector<StmtId>& body) {
  return std::any_of(body.begin(), body.end(), [&](StmtId id) {
    const Statement& s = function[id];
    return (s.kind == Statement::Kind::Barrier && s.barrier == BarrierScope::Grid) || hasGridBarrier(function, s.body) ||
           hasGridBarrier(function, s.otherwise);
  });
}

std::int64_t boxBytes(const Function& function, const TensorMap& map) {
  std::int64_t bytes = bytesOf(function[map.buffer].type);
  for (const TensorMap::Axis& a : map.axes) bytes *= a.box;
  return bytes;
}

VarId Function::addVar(std::string name, std::int64_t extent, LoopKind kind) {
  vars.push_back({std::move(name), extent, kind});
  return VarId(vars.size() - 1);
}

BufferId Function::addLocal(std::string name, DType type, std::int64_t elements) {
  buffers.push_back({std::move(name), type, elements, Scope::Local, Direction::None, 0});
  return BufferId(buffers.size() - 1);
}

BufferId Function::addShared(std::string name, DType type, std::int64_t elements) {
  buffers.push_back({std::move(name), type, elements, Scope::Shared, Direction::None, 0});
  return BufferId(buffers.size() - 1);
}

BufferId Function::addFragment(std::string name, DType type, std::int64_t elements) {
  buffers.push_back({std::move(name), type, elements, Scope::Fragment, Direction::None, 0});
  return BufferId(buffers.size() - 1);
}

MapId Function::addMap(TensorMap map) {
  maps.push_back(std::move(map));
  return MapId(maps.size() - 1);
}

BufferId Function::addWorkspace(std::string name, DType type, std::int64_t elements) {
  buffers.push_back({std::move(name), type, elements, Scope::Global, Direction::None, workspaceBytes});
  workspaceBytes += (elements * bytesOf(type) + 63) / 64 * 64;
  return BufferId(buffers.size() - 1);
}

ValueId Function::constant(double value, DType type, OriginId origin) {
  Value v;
  v.type = type;
  v.constant = value;
  v.origin = origin;
  return push(*this, std::move(v));
}

ValueId Function::indexValue(IndexExpr index, DType type, OriginId origin) {
  Value v;
  v.kind = Value::Kind::Index;
  v.type = type;
  v.index = std::move(index);
  v.origin = origin;
  return push(*this, std::move(v));
}

ValueId Function::ge0(IndexExpr index, OriginId origin) {
  Value v;
  v.kind = Value::Kind::IndexGe0;
  v.type = DType::Bool;
  v.index = std::move(index);
  v.origin = origin;
  return push(*this, std::move(v));
}

ValueId Function::eq0(IndexExpr index, OriginId origin) {
  Value v;
  v.kind = Value::Kind::IndexEq0;
  v.type = DType::Bool;
  v.index = std::move(index);
  v.origin = origin;
  return push(*this, std::move(v));
}

ValueId Function::random(double stream, IndexExpr point, OriginId origin) {
  Value v;
  v.kind = Value::Kind::Random;
  v.type = DType::F32;
  v.constant = stream;
  v.index = std::move(point);
  v.origin = origin;
  return push(*this, std::move(v));
}

ValueId Function::load(Place place, ValueId guard, OriginId origin) {
  Value v;
  v.kind = Value::Kind::Load;
  v.type = arithmeticType(buffers[place.buffer.value].type);
  v.place = std::move(place);
  v.guard = guard;
  v.origin = origin;
  return push(*this, std::move(v));
}

ValueId Function::apply(ScalarOp op, DType type, std::array<ValueId, 3> operands, OriginId origin) {
  Value v;
  v.kind = Value::Kind::Apply;
  v.op = op;
  v.type = type;
  v.operands = operands;
  v.origin = origin;
  return push(*this, std::move(v));
}

ValueId Function::fma(ValueId a, ValueId b, ValueId c, OriginId origin) {
  Value v;
  v.kind = Value::Kind::Fma;
  v.type = values[c.value].type;
  v.operands = {a, b, c};
  v.origin = origin;
  return push(*this, std::move(v));
}

ValueId Function::addProduct(ValueId product, ValueId c, OriginId origin) {
  const Value& v = values[product.value];
  std::vector<OriginId> readAs = v.readAs;
  const ValueId sum = fma(v.operands[0], v.operands[1], c, origin);
  values[sum.value].readAs = std::move(readAs);
  return sum;
}

ValueId Function::both(ValueId a, ValueId b) {
  if (!a.valid()) return b;
  if (!b.valid() || a == b) return a;
  return apply(ScalarOp::And, DType::Bool, {a, b, {}});
}

StmtId Function::add(Statement statement) {
  statements.push_back(std::move(statement));
  return StmtId(statements.size() - 1);
}

StmtId Function::forEach(VarId var, std::vector<StmtId> body, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::For;
  s.var = var;
  s.body = std::move(body);
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::when(ValueId condition, std::vector<StmtId> body, std::vector<StmtId> otherwise, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::If;
  s.value = condition;
  s.body = std::move(body);
  s.otherwise = std::move(otherwise);
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::store(Place place, ValueId value, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::Store;
  s.target = std::move(place);
  s.value = value;
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::barrier(OriginId origin, BarrierScope scope) {
  Statement s;
  s.kind = Statement::Kind::Barrier;
  s.barrier = scope;
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::exchange(Place target, Place source, std::int64_t bits, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::Exchange;
  s.target = std::move(target);
  s.left = std::move(source);
  s.elements = bits;
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::matrixLoad(Place target, Place source, std::int64_t matrices, bool transposed, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::MatrixLoad;
  s.target = std::move(target);
  s.left = std::move(source);
  s.elements = matrices;
  s.transposed = transposed;
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::matrixTile(Place c, Place a, Place b, std::array<std::int64_t, 3> tile, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::MatrixTile;
  s.target = std::move(c);
  s.left = std::move(a);
  s.right = std::move(b);
  s.tile = tile;
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::warpgroupTile(Place c, Place a, SwizzledOperand aLies, Place b, SwizzledOperand bLies,
                               std::array<std::int64_t, 3> tile, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::WarpgroupTile;
  s.target = std::move(c);
  s.left = std::move(a);
  s.right = std::move(b);
  s.leftLies = aLies;
  s.rightLies = bLies;
  s.tile = tile;
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::warpgroupFence(OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::WarpgroupFence;
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::warpgroupCommit(OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::WarpgroupCommit;
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::warpgroupWait(std::int64_t inFlight, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::WarpgroupWait;
  s.elements = inFlight;
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::proxyFence(OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::ProxyFence;
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::tensorCopy(Place target, MapId map, std::vector<IndexExpr> coordinates, Place arrival, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::TensorCopy;
  s.target = std::move(target);
  s.right = std::move(arrival);
  s.map = map;
  s.coordinates = std::move(coordinates);
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::arrivalInit(Place arrival, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::ArrivalInit;
  s.target = std::move(arrival);
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::arrivalExpect(Place arrival, std::int64_t bytes, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::ArrivalExpect;
  s.target = std::move(arrival);
  s.elements = bytes;
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::arrivalWait(Place arrival, IndexExpr parity, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::ArrivalWait;
  s.target = std::move(arrival);
  s.parity = std::move(parity);
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::asyncCopy(Place target, Place source, std::int64_t elements, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::AsyncCopy;
  s.target = std::move(target);
  s.left = std::move(source);
  s.elements = elements;
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::asyncCommit(OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::AsyncCommit;
  s.origin = origin;
  return add(std::move(s));
}

StmtId Function::asyncWait(std::int64_t inFlight, OriginId origin) {
  Statement s;
  s.kind = Statement::Kind::AsyncWait;
  s.elements = inFlight;
  s.origin = origin;
  return add(std::move(s));
}

RangeOf Function::ranges() const {
  return [this](IndexVar v) -> std::optional<Range> {
    if (v < vars.size()) return Range{0, vars[v].extent - 1};
    return std::nullopt;
  };
}

std::int64_t Function::tasks(const Stage& stage) const {
  std::int64_t tasks = 1;
  const std::vector<StmtId>* body = &stage.body;
  while (body->size() == 1) {
    const Statement& s = statements[body->front().value];
    if (s.kind != Statement::Kind::For) break;
    const LoopKind kind = vars[s.var.value].kind;
    if (kind != LoopKind::Parallel && kind != LoopKind::Block) break;
    tasks *= vars[s.var.value].extent;
    body = &s.body;
  }
  return tasks;
}

std::vector<ValueId> valuesOf(const Function& function, const Statement& statement) {
  std::unordered_set<std::uint32_t> seen;
  std::vector<ValueId> found, stack;
  const auto visit = [&](ValueId id) {
    if (!id.valid() || !seen.insert(id.value).second) return;
    found.push_back(id);
    stack.push_back(id);
  };
  const auto visitPlace = [&](const Place& place) {
    for (const DataIndex& d : place.data) visit(d.value);
  };
  visit(statement.value);
  visitPlace(statement.target);
  visitPlace(statement.left);
  visitPlace(statement.right);
  while (!stack.empty()) {
    const Value& v = function[stack.back()];
    stack.pop_back();
    for (const ValueId o : v.operands) visit(o);
    visit(v.guard);
    visitPlace(v.place);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<OriginId> originsOf(const Function& function, const Statement& statement) {
  std::vector<OriginId> origins{statement.origin};
  const auto values = valuesOf(function, statement);
  for (auto id = values.rbegin(); id != values.rend(); ++id) {
    const Value& v = function[*id];
    origins.push_back(v.origin);
    origins.insert(origins.end(), v.readAs.begin(), v.readAs.end());
  }
  return origins;
}

std::vector<OriginId> distinct(std::vector<OriginId> origins) {
  std::unordered_set<std::uint32_t> seen;
  std::erase_if(origins, [&](OriginId id) { return !id.valid() || !seen.insert(id.value).second; });
  return origins;
}

}  // namespace nf::loop
