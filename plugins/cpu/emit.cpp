// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/emit.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include "core/support/assert.h"
#include "core/support/counter_random.h"
#include "plugins/cpu/kernel_call.h"
#include "plugins/cpu/vector_math.h"

namespace nf::cpu {
namespace {

using namespace loop;
using LV = llvm::Value;

// Only a stage that may take a good part of a second looks whether it is to stop, about every millisecond. Operations.
constexpr double kLongStage = 3e8, kBetweenPolls = 1e6;

// Shorter loops are unrolled rather than given ends of their own.
constexpr std::int64_t kBoundedExtent = 16;

// Offsets of the lanes of one access: base + fixed[l], or a vector that only the run knows.
struct LaneOffsets {
  LV* base = nullptr;               // i64
  std::vector<std::int64_t> fixed;  // by lane; empty: see `vector`
  LV* vector = nullptr;             // <lanes x i32 or i64>, added to base
  bool uniform() const {
    return !vector && std::all_of(fixed.begin(), fixed.end(), [&](std::int64_t o) { return o == fixed[0]; });
  }
  bool consecutive() const {
    if (vector) return false;
    for (std::size_t l = 0; l < fixed.size(); ++l)
      if (fixed[l] != fixed[0] + static_cast<std::int64_t>(l)) return false;
    return true;
  }
};

class Emitter {
 public:
  Emitter(const Function& f, llvm::LLVMContext& context, const std::string& features, const LoopText* lines)
      : m_f(f), m_context(context), m_b(context), m_module(std::make_unique<llvm::Module>(f.name, context)), m_features(features),
        m_lines(lines), m_math(m_b, *m_module) {}

  Emitted run() {
    if (m_lines) openDebug();
    Emitted result;
    for (std::size_t s = 0; s < m_f.stages.size(); ++s) result.stages.push_back(stage(s));
    if (m_debug) m_debug->finalize();
    result.module = std::move(m_module);
    return result;
  }

 private:
  // ------------------------------------------------------------ frame
  void openDebug() {
    m_module->addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
    m_module->addModuleFlag(llvm::Module::Warning, "Dwarf Version", 4);
    m_debug = std::make_unique<llvm::DIBuilder>(*m_module);
    m_file = m_debug->createFile(m_f.name + ".loops", ".");
    m_unit =
        m_debug->createCompileUnit(llvm::dwarf::DW_LANG_C, m_file, "neoflow", true, "", 0, "", llvm::DICompileUnit::LineTablesOnly);
  }

  void attributes(llvm::Function* fn) {
    fn->addFnAttr("target-features", m_features);
    fn->addFnAttr("prefer-vector-width", "512");
    fn->addFnAttr("min-legal-vector-width", "512");
    fn->addFnAttr("no-trapping-math", "true");
    fn->setDoesNotThrow();
  }

  void collect(const std::vector<StmtId>& body, std::set<BufferId>& buffers) {
    const auto place = [&](const Place& p) {
      if (p.buffer.valid()) buffers.insert(p.buffer);
    };
    for (const StmtId id : body) {
      const Statement& s = m_f[id];
      place(s.target);
      place(s.left);
      place(s.right);
      for (const ValueId v : valuesOf(m_f, s)) place(m_f[v].place);
      collect(s.body, buffers);
      collect(s.otherwise, buffers);
    }
  }

  EmittedStage stage(std::size_t index) {
    const loop::Stage& stage = m_f.stages[index];
    EmittedStage result{"nf_stage" + std::to_string(index), m_f.tasks(stage)};
    llvm::Type* ptr = m_b.getPtrTy();
    llvm::Type* i64 = m_b.getInt64Ty();
    std::set<BufferId> used;
    collect(stage.body, used);
    std::vector<BufferId> globals;
    for (const BufferId b : used)
      if (m_f[b].scope == Scope::Global) globals.push_back(b);

    // A function with one restrict pointer a buffer does the work; the exported one reads the pointers.
    std::vector<llvm::Type*> parameters(globals.size(), ptr);
    parameters.insert(parameters.end(), {ptr, i64, i64});
    auto* body = llvm::Function::Create(llvm::FunctionType::get(m_b.getVoidTy(), parameters, false),
                                        llvm::Function::InternalLinkage, result.symbol + "_body", *m_module);
    attributes(body);
    for (unsigned a = 0; a < globals.size(); ++a) {
      body->addParamAttr(a, llvm::Attribute::NoAlias);
      body->addParamAttr(a, llvm::Attribute::NoUndef);
      const bool operand = globals[a].value < m_f.operands;
      body->addParamAttr(a, llvm::Attribute::getWithAlignment(m_context, operand ? alignment(globals[a]) : llvm::Align(64)));
      body->getArg(a)->setName(m_f[globals[a]].name);
    }
    body->addParamAttr(static_cast<unsigned>(globals.size()), llvm::Attribute::NoAlias);
    auto* entry = llvm::Function::Create(llvm::FunctionType::get(m_b.getVoidTy(), {ptr, i64, i64}, false),
                                         llvm::Function::ExternalLinkage, result.symbol, *m_module);
    attributes(entry);
    m_b.SetCurrentDebugLocation({});
    m_b.SetInsertPoint(llvm::BasicBlock::Create(m_context, "", entry));
    std::vector<LV*> arguments;
    LV* tensors = field(entry->getArg(0), 0, ptr);
    for (const BufferId b : globals) {
      if (b.value < m_f.operands) {
        arguments.push_back(m_b.CreateLoad(ptr, m_b.CreateConstInBoundsGEP1_64(ptr, tensors, b.value)));
      } else {
        arguments.push_back(m_b.CreateConstInBoundsGEP1_64(m_b.getInt8Ty(), field(entry->getArg(0), 1, ptr),
                                                           static_cast<std::uint64_t>(m_f[b].workspaceOffset)));
      }
    }
    arguments.insert(arguments.end(), {entry->getArg(0), entry->getArg(1), entry->getArg(2)});
    m_b.CreateCall(body, arguments);
    m_b.CreateRetVoid();

    if (m_debug) {
      auto* type = m_debug->createSubroutineType(m_debug->getOrCreateTypeArray({}));
      m_subprogram = m_debug->createFunction(
          m_file, stage.name, result.symbol, m_file, 1, type, 1, llvm::DINode::FlagZero,
          llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagLocalToUnit | llvm::DISubprogram::SPFlagOptimized);
      body->setSubprogram(m_subprogram);
    }
    openBody(body, globals);
    m_exit = nullptr;
    m_polls = static_cast<double>(result.tasks) * costOf(stage.body) >= kLongStage;
    tasks(stage, body->getArg(static_cast<unsigned>(globals.size()) + 1), body->getArg(static_cast<unsigned>(globals.size()) + 2));
    m_b.CreateRetVoid();
    if (m_exit) {
      m_exit->insertInto(m_function);
      m_b.SetInsertPoint(m_exit);
      m_b.CreateRetVoid();
    }
    return result;
  }

  // Operations of one execution, the lanes of a vector counted once; the loops of the tasks do not count.
  double costOf(const std::vector<StmtId>& body) const {
    double cost = 0;
    for (const StmtId id : body) {
      const Statement& s = m_f[id];
      if (s.kind == Statement::Kind::For) {
        const Var& v = m_f[s.var];
        const bool once = v.kind == LoopKind::Vector || v.kind == LoopKind::Parallel;
        cost += (once ? 1.0 : static_cast<double>(v.extent)) * costOf(s.body);
      } else if (s.kind == Statement::Kind::If) {
        cost += 1 + std::max(costOf(s.body), costOf(s.otherwise));
      } else {
        cost += static_cast<double>(1 + valuesOf(m_f, s).size());
      }
    }
    return cost;
  }

  // Whether a loop further in is long enough to look by itself.
  bool pollsInside(const std::vector<StmtId>& body) const {
    return std::any_of(body.begin(), body.end(), [&](StmtId id) {
      const Statement& s = m_f[id];
      if (s.kind == Statement::Kind::If) return pollsInside(s.body) || pollsInside(s.otherwise);
      if (s.kind != Statement::Kind::For) return false;
      const Var& v = m_f[s.var];
      const bool loops = v.kind == LoopKind::Serial && v.extent > 1;
      return pollsInside(s.body) || (loops && static_cast<double>(v.extent) * costOf(s.body) >= kBetweenPolls);
    });
  }

  // At the head of an iteration of a loop over `body`.
  void poll(LV* counter, double extent, const std::vector<StmtId>& body) {
    if (!m_polls || pollsInside(body)) return;
    const double cost = std::max(costOf(body), 1.0);
    if (extent * cost < kBetweenPolls) return;
    std::uint64_t period = 1;
    while (static_cast<double>(2 * period) * cost <= kBetweenPolls) period *= 2;
    auto* look = llvm::BasicBlock::Create(m_context, "", m_function);
    auto* on = llvm::BasicBlock::Create(m_context, "", m_function);
    if (period == 1) m_b.CreateBr(look);
    else m_b.CreateCondBr(m_b.CreateIsNull(m_b.CreateAnd(counter, m_b.getInt64(period - 1))), look, on);
    m_b.SetInsertPoint(look);
    LV* stop = m_b.CreateLoad(m_b.getInt8Ty(), field(m_call, 6, m_b.getPtrTy()), true);
    if (!m_exit) m_exit = llvm::BasicBlock::Create(m_context, "stopped");
    m_b.CreateCondBr(m_b.CreateIsNotNull(stop), m_exit, on);
    m_b.SetInsertPoint(on);
  }

  LV* field(LV* call, unsigned number, llvm::Type* type) {
    return m_b.CreateLoad(type, m_b.CreateConstInBoundsGEP1_64(m_b.getInt64Ty(), call, number));
  }

  void openBody(llvm::Function* body, const std::vector<BufferId>& globals) {
    m_function = body;
    m_call = body->getArg(static_cast<unsigned>(globals.size()));
    m_entry = llvm::BasicBlock::Create(m_context, "", body);
    m_b.SetInsertPoint(m_entry);
    m_pointers.clear();
    for (unsigned a = 0; a < globals.size(); ++a) m_pointers[globals[a]] = body->getArg(a);
    m_constants.clear();
    m_runtime.clear();
    m_depth.clear();
    m_scopes.clear();
    m_scopes.push_back({});
    m_counters.clear();
    m_keys.clear();
    m_lane = {};
    m_lanes = 1;
    m_mask = nullptr;
  }

  void tasks(const loop::Stage& stage, LV* begin, LV* end) {
    std::vector<VarId> parallel;
    const std::vector<StmtId>* body = &stage.body;
    while (body->size() == 1) {
      const Statement& s = m_f[body->front()];
      if (s.kind != Statement::Kind::For || m_f[s.var].kind != LoopKind::Parallel) break;
      parallel.push_back(s.var);
      body = &s.body;
    }
    loop(begin, end, [&](LV* task) {
      LV* rest = task;
      for (std::size_t k = parallel.size(); k-- > 0;) {
        LV* extent = m_b.getInt64(static_cast<std::uint64_t>(m_f[parallel[k]].extent));
        LV* value = k == 0 ? rest : m_b.CreateURem(rest, extent);
        if (k > 0) rest = m_b.CreateUDiv(rest, extent);
        bindRuntime(parallel[k], value);
      }
      poll(task, static_cast<double>(m_f.tasks(stage)), *body);
      statements(*body);
      for (const VarId v : parallel) m_runtime.erase(v.value);
    });
  }

  void bindRuntime(VarId v, LV* value) {
    m_runtime[v.value] = value;
    m_depth[v.value] = m_scopes.size() - 1;
  }

  // begin..end by one; the body is emitted in a scope of its own.
  template <class Body>
  void loop(LV* begin, LV* end, Body&& body) {
    auto* header = llvm::BasicBlock::Create(m_context, "", m_function);
    auto* exit = llvm::BasicBlock::Create(m_context, "");
    auto* before = m_b.GetInsertBlock();
    const auto* constantBegin = llvm::dyn_cast<llvm::ConstantInt>(begin);
    const auto* constantEnd = llvm::dyn_cast<llvm::ConstantInt>(end);
    llvm::Instruction* entering;
    if (constantBegin && constantEnd && constantBegin->getSExtValue() < constantEnd->getSExtValue())
      entering = m_b.CreateBr(header);
    else entering = m_b.CreateCondBr(m_b.CreateICmpSLT(begin, end), header, exit);
    m_b.SetInsertPoint(header);
    llvm::PHINode* counter = m_b.CreatePHI(m_b.getInt64Ty(), 2);
    counter->addIncoming(begin, before);
    pushScope(entering);
    body(counter);
    popScope();
    LV* next = m_b.CreateAdd(counter, m_b.getInt64(1), "", true, true);
    counter->addIncoming(next, m_b.GetInsertBlock());
    exit->insertInto(m_function);
    m_b.CreateCondBr(m_b.CreateICmpSLT(next, end), header, exit);
    m_b.SetInsertPoint(exit);
  }

  // ------------------------------------------------------------ scopes
  // What is emitted inside a loop or branch. Index arithmetic that needs only outer variables goes before `entering`, and is
  // found again in the cache of the scope it stands in.
  struct Scope_ {
    llvm::Instruction* entering = nullptr;
    std::map<IndexExpr, LV*> indices;
    std::map<ValueId, LV*> values;
  };
  void pushScope(llvm::Instruction* entering) { m_scopes.push_back({entering, {}, {}}); }
  void popScope() { m_scopes.pop_back(); }

  // ------------------------------------------------------------ statements
  void locate(StmtId id) {
    if (!m_debug) return;
    m_b.SetCurrentDebugLocation(llvm::DILocation::get(m_context, m_lines->lines[id.value], 0, m_subprogram));
  }

  void statements(const std::vector<StmtId>& body) {
    for (const StmtId id : body) statement(id);
  }

  void statement(StmtId id) {
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
      case Statement::Kind::MatrixTile: break;  // a GPU's; templates for a CPU make none
    }
    NF_ASSERT(false);
  }

  void forLoop(const Statement& s) {
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

  // ------------------------------------------------------------ guards as ends of loops (design: autodiff, section 4, "peel")
  // Where the body is one test, conjuncts that bound the counter narrow begin and end, so that no iteration runs only to fail; the others
  // are returned. They compare an expression linear in the counter with 0, or the counter with an integer that the loop leaves alone.
  //   for t in 64: if z - t >= 0 and A       ->      for t in 0 .. min(64, z + 1): if A
  std::optional<std::vector<ValueId>> bounded(const Statement& s, LV*& begin, LV*& end) {
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

  // e = c * counter + rest, or nullopt: the counter stands in a floor, or lanes do anywhere.
  std::optional<std::pair<std::int64_t, IndexExpr>> linearIn(const IndexExpr& unbound, VarId counter) {
    const IndexExpr e = bind(unbound);
    const std::int64_t c = e.coefficientOf(counter.value);
    const IndexExpr rest = e - c * IndexExpr::variable(counter.value);
    if (c == 0 || usesLane(e) || rest.uses(counter.value) || rest.overflowed()) return std::nullopt;
    return std::pair(c, rest);
  }

  void raise(LV*& begin, LV* to) { begin = m_b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, begin, to); }
  void lower(LV*& end, LV* to) { end = m_b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, to); }

  bool narrowByIndex(const Value& v, VarId counter, LV*& begin, LV*& end) {
    if (v.kind != Value::Kind::IndexGe0) return false;
    const auto linear = linearIn(v.index, counter);
    if (!linear) return false;
    const auto& [c, rest] = *linear;
    // c*t + rest >= 0: t >= ceil(-rest/c), or t <= floor(rest/-c)
    if (c > 0) raise(begin, index(IndexExpr(0) - floorDiv(rest, c)));
    else lower(end, index(floorDiv(rest, -c) + IndexExpr(1)));
    return true;
  }

  bool narrowByData(const Value& v, const Statement& s, LV*& begin, LV*& end) {
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

  // Whether an integer is the same in every iteration: it uses neither the counter nor lanes, and reads nothing that the loop writes.
  bool staysTheSame(ValueId id, const Statement& loop) {
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

  void forgetValues() { m_scopes.back().values.clear(); }

  void branch(const Statement& s) { branch(value(s.value), s); }
  void branch(LV* condition, const Statement& s) {
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

  // ------------------------------------------------------------ types
  llvm::Type* valueType(DType type) {
    switch (type) {
      case DType::F32:
      case DType::F16:
      case DType::BF16: return m_b.getFloatTy();
      case DType::F64: return m_b.getDoubleTy();
      case DType::I32: return m_b.getInt32Ty();
      case DType::Bool: return m_b.getInt1Ty();
    }
    return nullptr;
  }

  llvm::Type* storageType(DType type) {
    switch (type) {
      case DType::F16: return m_b.getHalfTy();
      case DType::BF16: return m_b.getInt16Ty();
      case DType::Bool: return m_b.getInt8Ty();
      case DType::F32:
      case DType::F64:
      case DType::I32: return valueType(type);
    }
    return nullptr;
  }

  llvm::Type* lanesOf(llvm::Type* scalar, unsigned lanes) {
    return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, lanes);
  }
  static unsigned width(LV* v) {
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
    return vector ? vector->getNumElements() : 1;
  }
  LV* spread(LV* v) { return m_lanes > 1 && width(v) == 1 ? m_b.CreateVectorSplat(m_lanes, v) : v; }

  LV* fromStorage(LV* v, DType type) {
    if (type == DType::F16) return m_b.CreateFPExt(v, lanesOf(m_b.getFloatTy(), width(v)));
    if (type == DType::BF16) {
      llvm::Type* i32 = lanesOf(m_b.getInt32Ty(), width(v));
      return m_b.CreateBitCast(m_b.CreateShl(m_b.CreateZExt(v, i32), 16), lanesOf(m_b.getFloatTy(), width(v)));
    }
    if (type == DType::Bool) return m_b.CreateICmpNE(v, llvm::ConstantInt::get(v->getType(), 0));
    return v;
  }

  LV* toStorage(LV* v, DType type) {
    if (type == DType::F16) return m_b.CreateFPTrunc(v, lanesOf(m_b.getHalfTy(), width(v)));
    if (type == DType::BF16) {
      // To nearest, ties to even; a NaN stays one.
      llvm::Type* i32 = lanesOf(m_b.getInt32Ty(), width(v));
      const auto c = [&](std::uint64_t n) { return llvm::ConstantInt::get(i32, n); };
      LV* bits = m_b.CreateBitCast(v, i32);
      LV* odd = m_b.CreateAnd(m_b.CreateLShr(bits, 16), c(1));
      LV* rounded = m_b.CreateLShr(m_b.CreateAdd(bits, m_b.CreateAdd(odd, c(0x7fff))), 16);
      LV* nan = m_b.CreateOr(m_b.CreateLShr(bits, 16), c(0x40));
      LV* chosen = m_b.CreateSelect(m_b.CreateFCmpUNO(v, v), nan, rounded);
      return m_b.CreateTrunc(chosen, lanesOf(m_b.getInt16Ty(), width(v)));
    }
    if (type == DType::Bool) return m_b.CreateZExt(v, lanesOf(m_b.getInt8Ty(), width(v)));
    return v;
  }

  LV* convert(LV* v, DType from, DType to) {
    const unsigned n = width(v);
    llvm::Type* target = lanesOf(valueType(to), n);
    const bool fromReal = isFloating(from), toReal = isFloating(to);
    if (to == DType::Bool) {
      if (from == DType::Bool) return v;
      return fromReal ? m_b.CreateFCmpUNE(v, llvm::ConstantFP::get(v->getType(), 0))
                      : m_b.CreateICmpNE(v, llvm::ConstantInt::get(v->getType(), 0));
    }
    if (from == DType::Bool) return toReal ? m_b.CreateUIToFP(v, target) : m_b.CreateZExt(v, target);
    if (fromReal && !toReal) return m_b.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {target, v->getType()}, {v});
    if (!fromReal && toReal) v = m_b.CreateSIToFP(v, target);
    else if (fromReal && v->getType() != target) v = m_b.CreateFPCast(v, target);
    // Casts to the narrow types round to them; the value goes on in f32.
    if (to == DType::F16 || to == DType::BF16) v = fromStorage(toStorage(v, to), to);
    return v;
  }

  // ------------------------------------------------------------ index arithmetic
  // Variables that have a constant replaced by it.
  IndexExpr bind(const IndexExpr& e) {
    bool nested = false;
    for (const IndexTerm& term : e.terms()) {
      if (term.atom.isFloorDiv()) {
        nested = true;
        break;
      }
    }
    if (m_constants.empty()) return e;
    const auto with = [&](IndexVar v) -> std::optional<IndexExpr> {
      const auto found = m_constants.find(v);
      if (found != m_constants.end()) return IndexExpr(found->second);
      return std::nullopt;
    };
    if (nested) return simplify(substitute(e, with), m_f.ranges());
    bool any = false;
    for (const IndexTerm& term : e.terms()) any = any || m_constants.contains(term.atom.variable);
    return any ? substitute(e, with) : e;
  }

  std::size_t depthOf(const IndexAtom& atom) {
    if (!atom.isFloorDiv()) {
      if (atom.variable >= kLoopVariable) return 0;
      return m_depth.at(atom.variable);
    }
    std::size_t depth = 0;
    for (const IndexTerm& t : atom.numerator->terms()) depth = std::max(depth, depthOf(t.atom));
    return depth;
  }

  // Runs `make` where values of scope `depth` belong.
  template <class Make>
  LV* inScope(std::size_t depth, Make&& make) {
    if (depth + 1 >= m_scopes.size()) return make();
    const auto saved = m_b.saveIP();
    const auto location = m_b.getCurrentDebugLocation();
    m_b.SetInsertPoint(m_scopes[depth + 1].entering);
    m_b.SetCurrentDebugLocation(location);
    LV* made = make();
    m_b.restoreIP(saved);
    m_b.SetCurrentDebugLocation(location);
    return made;
  }

  LV* counterValue(std::uint32_t number) {
    auto& known = m_counters[number];
    if (!known)
      known = inScope(0, [&] {
        LV* counters = field(m_call, 2, m_b.getPtrTy());
        return m_b.CreateLoad(m_b.getInt64Ty(), m_b.CreateConstInBoundsGEP1_64(m_b.getInt64Ty(), counters, number));
      });
    return known;
  }

  LV* atomValue(const IndexAtom& atom) {
    if (!atom.isFloorDiv()) {
      if (atom.variable >= kLoopVariable) return counterValue(atom.variable - kLoopVariable);
      return m_runtime.at(atom.variable);
    }
    LV* numerator = index(*atom.numerator);
    const auto range = bounds(*atom.numerator, m_f.ranges());
    LV* divisor = m_b.getInt64(static_cast<std::uint64_t>(atom.divisor));
    if (range && range->lo >= 0) return m_b.CreateUDiv(numerator, divisor);
    if ((atom.divisor & (atom.divisor - 1)) == 0)
      return m_b.CreateAShr(numerator, static_cast<std::uint64_t>(__builtin_ctzll(static_cast<std::uint64_t>(atom.divisor))));
    LV* negative = m_b.CreateICmpSLT(numerator, m_b.getInt64(0));
    LV* shifted = m_b.CreateSub(numerator, m_b.getInt64(static_cast<std::uint64_t>(atom.divisor - 1)));
    return m_b.CreateSDiv(m_b.CreateSelect(negative, shifted, numerator), divisor);
  }

  // A lane-free expression as i64, each part in the outermost scope that knows its variables.
  LV* index(const IndexExpr& unbound) {
    const IndexExpr e = bind(unbound);
    std::map<std::size_t, IndexExpr> byDepth;
    for (const IndexTerm& term : e.terms()) {
      IndexExpr one =
          term.atom.isFloorDiv() ? floorDiv(*term.atom.numerator, term.atom.divisor) : IndexExpr::variable(term.atom.variable);
      IndexExpr& sum = byDepth[depthOf(term.atom)];
      sum = sum + term.coefficient * one;
    }
    LV* sum = nullptr;
    IndexExpr so_far;
    for (const auto& [depth, part] : byDepth) {
      so_far = so_far + part;
      auto& cache = m_scopes[depth].indices;
      const auto found = cache.find(so_far);
      if (found != cache.end()) {
        sum = found->second;
        continue;
      }
      LV* previous = sum;
      sum = inScope(depth, [&] {
        LV* total = previous;
        for (const IndexTerm& term : part.terms()) {
          LV* v = atomValue(term.atom);
          if (term.coefficient != 1)
            v = m_b.CreateMul(v, m_b.getInt64(static_cast<std::uint64_t>(term.coefficient)), "", false, true);
          total = total ? m_b.CreateAdd(total, v, "", false, true) : v;
        }
        return total ? total : m_b.getInt64(0);
      });
      m_scopes[depth].indices.emplace(so_far, sum);
    }
    LV* constant = m_b.getInt64(static_cast<std::uint64_t>(e.constant()));
    if (!sum) return constant;
    return e.constant() == 0 ? sum : m_b.CreateAdd(sum, constant, "", false, true);
  }

  bool usesLane(const IndexExpr& e) const { return m_lane.valid() && e.uses(m_lane.value); }

  bool fits32(const IndexExpr& e) const {
    const auto range = bounds(e, m_f.ranges());
    return range && range->lo > -(1ll << 30) && range->hi < (1ll << 30);
  }

  // A vector of the values of e in each lane.
  LV* laneVector(const IndexExpr& e, bool narrow) {
    llvm::Type* element = narrow ? m_b.getInt32Ty() : m_b.getInt64Ty();
    auto* type = llvm::FixedVectorType::get(element, m_lanes);
    const auto splat = [&](LV* v) { return m_b.CreateVectorSplat(m_lanes, narrow ? m_b.CreateTrunc(v, element) : v); };
    const auto constant = [&](std::int64_t c) { return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(c), true); };
    IndexExpr uniform(e.constant());
    LV* sum = nullptr;
    const auto add = [&](LV* v) { sum = sum ? m_b.CreateAdd(sum, v) : v; };
    for (const IndexTerm& term : e.terms()) {
      if (!term.atom.isFloorDiv()) {
        if (term.atom.variable != m_lane.value) {
          uniform = uniform + term.coefficient * IndexExpr::variable(term.atom.variable);
          continue;
        }
        std::vector<llvm::Constant*> lanes;
        for (unsigned l = 0; l < m_lanes; ++l)
          lanes.push_back(llvm::ConstantInt::get(element, static_cast<std::uint64_t>(term.coefficient * l), true));
        add(llvm::ConstantVector::get(lanes));
        continue;
      }
      if (!usesLane(*term.atom.numerator)) {
        uniform = uniform + term.coefficient * floorDiv(*term.atom.numerator, term.atom.divisor);
        continue;
      }
      LV* numerator = laneVector(*term.atom.numerator, narrow);
      const auto range = bounds(*term.atom.numerator, m_f.ranges());
      LV* quotient;
      const std::int64_t d = term.atom.divisor;
      if (range && range->lo >= 0) {
        quotient = m_b.CreateUDiv(numerator, constant(d));
      } else if ((d & (d - 1)) == 0) {
        quotient = m_b.CreateAShr(numerator, constant(__builtin_ctzll(static_cast<std::uint64_t>(d))));
      } else {
        LV* negative = m_b.CreateICmpSLT(numerator, constant(0));
        quotient = m_b.CreateSDiv(m_b.CreateSelect(negative, m_b.CreateSub(numerator, constant(d - 1)), numerator), constant(d));
      }
      add(term.coefficient == 1 ? quotient : m_b.CreateMul(quotient, constant(term.coefficient)));
    }
    if (!(uniform == IndexExpr(0)) || !sum) add(splat(index(uniform)));
    return sum;
  }

  bool narrowEverywhere(const IndexExpr& e) const {
    if (!fits32(e)) return false;
    for (const IndexTerm& term : e.terms()) {
      if (term.coefficient > (1 << 30) || term.coefficient < -(1 << 30)) return false;
      if (term.atom.isFloorDiv() && (term.atom.divisor > (1 << 30) || !narrowEverywhere(*term.atom.numerator))) return false;
    }
    return true;
  }

  LaneOffsets lanes(const IndexExpr& unbound) {
    const IndexExpr e = bind(unbound);
    LaneOffsets result;
    if (!usesLane(e)) {
      result.base = index(e);
      result.fixed.assign(m_lanes, 0);
      return result;
    }
    std::int64_t stride = 0;
    bool inFloor = false;
    IndexExpr rest(e.constant());
    for (const IndexTerm& term : e.terms()) {
      if (!term.atom.isFloorDiv()) {
        if (term.atom.variable == m_lane.value) stride = term.coefficient;
        else rest = rest + term.coefficient * IndexExpr::variable(term.atom.variable);
      } else {
        inFloor = inFloor || usesLane(*term.atom.numerator);
        rest = rest + term.coefficient * floorDiv(*term.atom.numerator, term.atom.divisor);
      }
    }
    if (!inFloor) {
      result.base = index(rest);
      for (unsigned l = 0; l < m_lanes; ++l) result.fixed.push_back(stride * l);
      return result;
    }
    // What only the lane decides is a number a lane.
    IndexExpr ofLane, others(e.constant());
    for (const IndexTerm& term : e.terms()) {
      const bool uses = term.atom.isFloorDiv() ? usesLane(*term.atom.numerator) : term.atom.variable == m_lane.value;
      IndexExpr& part = uses ? ofLane : others;
      part = part + term.coefficient * (term.atom.isFloorDiv() ? floorDiv(*term.atom.numerator, term.atom.divisor)
                                                               : IndexExpr::variable(term.atom.variable));
    }
    std::vector<IndexVar> used;
    ofLane.collectVariables(used);
    if (used.size() == 1) {
      const auto at = [&](unsigned lane) { return evaluate(ofLane, [&](IndexVar) { return static_cast<std::int64_t>(lane); }); };
      for (unsigned l = 0; l < m_lanes; ++l) result.fixed.push_back(at(l) - at(0));
      result.base = index(others + IndexExpr(at(0)));
      return result;
    }
    // Floors of the lane: the distances may still be constants, (16*b + l)//8 for one.
    std::optional<IndexExpr> first;
    for (unsigned l = 0; l < m_lanes; ++l) {
      const IndexExpr at = simplify(substitute(e,
                                               [&](IndexVar v) -> std::optional<IndexExpr> {
                                                 if (v == m_lane.value) return IndexExpr(static_cast<std::int64_t>(l));
                                                 return std::nullopt;
                                               }),
                                    m_f.ranges());
      if (!first) first = at;
      const IndexExpr distance = at - *first;
      if (!distance.isConstant()) {
        result.fixed.clear();
        break;
      }
      result.fixed.push_back(distance.constant());
    }
    if (!result.fixed.empty()) {
      result.base = index(*first);
      return result;
    }
    result.base = m_b.getInt64(0);
    result.vector = laneVector(e, narrowEverywhere(e));
    return result;
  }

  // ------------------------------------------------------------ memory
  LV* pointerOf(BufferId id) {
    auto& known = m_pointers[id];
    if (!known) {
      const Buffer& buffer = m_f[id];
      NF_ASSERT(buffer.scope == Scope::Local);
      llvm::IRBuilder<> at(&m_function->getEntryBlock(), m_function->getEntryBlock().begin());
      auto* made = at.CreateAlloca(llvm::ArrayType::get(storageType(buffer.type), static_cast<std::uint64_t>(buffer.elements)));
      made->setAlignment(llvm::Align(64));
      known = made;
    }
    return known;
  }

  llvm::Align alignment(BufferId id) { return llvm::Align(static_cast<std::uint64_t>(bytesOf(m_f[id].type))); }

  LV* anyLane(LV* mask) { return width(mask) == 1 ? mask : m_b.CreateOrReduce(mask); }

  struct Where {
    LaneOffsets offsets;
    LV* mask = nullptr;  // of the statement, the guard and the checks together; null: all
  };

  Where where(const Place& place, LV* guard) {
    Where w;
    w.mask = both(m_mask, guard);
    w.offsets = lanes(place.offset);
    for (const DataIndex& d : place.data) {
      LV* v = value(d.value);
      LV* extent = llvm::ConstantInt::get(v->getType(), static_cast<std::uint64_t>(d.extent));
      LV* inside = m_b.CreateICmpULT(v, extent);
      LV* bad = m_b.CreateNot(inside);
      if (w.mask)
        bad = width(w.mask) > 1 ? m_b.CreateAnd(w.mask, spread(bad)) : m_b.CreateAnd(width(bad) > 1 ? spread(w.mask) : w.mask, bad);
      report(bad, v, d.check);
      w.mask = both(w.mask, inside);
      LV* safe = m_b.CreateSelect(inside, v, llvm::ConstantInt::get(v->getType(), 0));
      LV* wide = m_b.CreateZExt(safe, lanesOf(m_b.getInt64Ty(), width(v)));
      wide = m_b.CreateMul(wide, llvm::ConstantInt::get(wide->getType(), static_cast<std::uint64_t>(d.stride)));
      if (width(wide) == 1) {
        w.offsets.base = m_b.CreateAdd(w.offsets.base, wide);
        continue;
      }
      if (!w.offsets.vector) {
        std::vector<llvm::Constant*> fixed;
        for (const std::int64_t o : w.offsets.fixed) fixed.push_back(m_b.getInt64(static_cast<std::uint64_t>(o)));
        w.offsets.vector = llvm::ConstantVector::get(fixed);
        w.offsets.fixed.clear();
      } else if (w.offsets.vector->getType()->getScalarSizeInBits() == 32) {
        w.offsets.vector = m_b.CreateSExt(w.offsets.vector, wide->getType());
      }
      w.offsets.vector = m_b.CreateAdd(w.offsets.vector, wide);
    }
    return w;
  }

  LV* both(LV* a, LV* b) {
    if (!a) return b;
    if (!b) return a;
    if (width(a) != width(b)) {
      a = spread(a);
      b = spread(b);
    }
    return m_b.CreateAnd(a, b);
  }

  void report(LV* bad, LV* met, std::uint32_t check) {
    auto* failed = llvm::BasicBlock::Create(m_context, "", m_function);
    auto* after = llvm::BasicBlock::Create(m_context, "", m_function);
    m_b.CreateCondBr(anyLane(bad), failed, after);
    m_b.SetInsertPoint(failed);
    LV* status = field(m_call, 5, m_b.getPtrTy());
    LV* one = width(met) == 1 ? met : m_b.CreateExtractElement(met, std::uint64_t{0});
    m_b.CreateStore(m_b.CreateSExt(one, m_b.getInt64Ty()), m_b.CreateConstInBoundsGEP1_64(m_b.getInt64Ty(), status, 1));
    m_b.CreateStore(m_b.getInt64(check + 1), status);
    m_b.CreateBr(after);
    m_b.SetInsertPoint(after);
  }

  LV* address(BufferId buffer, LV* offset) {
    llvm::Type* type = storageType(m_f[buffer].type);
    // base + constant apart, so that the constant folds into the instruction.
    if (auto* add = llvm::dyn_cast<llvm::BinaryOperator>(offset); add && add->getOpcode() == llvm::Instruction::Add)
      if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(add->getOperand(1)))
        return m_b.CreateInBoundsGEP(type, m_b.CreateInBoundsGEP(type, pointerOf(buffer), add->getOperand(0)), c);
    return m_b.CreateInBoundsGEP(type, pointerOf(buffer), offset);
  }

  LV* addresses(BufferId buffer, const LaneOffsets& o) {
    LV* vector = o.vector;
    if (!vector) {
      std::vector<llvm::Constant*> fixed;
      const bool narrow =
          std::all_of(o.fixed.begin(), o.fixed.end(), [](std::int64_t x) { return x > -(1ll << 30) && x < (1ll << 30); });
      for (const std::int64_t x : o.fixed)
        fixed.push_back(narrow ? static_cast<llvm::Constant*>(m_b.getInt32(static_cast<std::uint32_t>(x)))
                               : m_b.getInt64(static_cast<std::uint64_t>(x)));
      vector = llvm::ConstantVector::get(fixed);
    }
    return m_b.CreateGEP(storageType(m_f[buffer].type), address(buffer, o.base), vector);
  }

  LV* loadFrom(const Value& v) {
    LV* guard = v.guard.valid() ? value(v.guard) : nullptr;
    if (auto* constant = llvm::dyn_cast_or_null<llvm::Constant>(guard)) {
      if (constant->isNullValue()) return llvm::Constant::getNullValue(valueType(v.type));
      if (constant->isAllOnesValue()) guard = nullptr;
    }
    const Where w = where(v.place, guard);
    const BufferId buffer = v.place.buffer;
    const DType stored = m_f[buffer].type;
    llvm::Type* scalar = storageType(stored);
    const LaneOffsets& o = w.offsets;
    if (m_lanes == 1 || o.uniform()) {
      LV* base = o.base;
      if (m_lanes > 1 && o.fixed[0] != 0) base = m_b.CreateAdd(base, m_b.getInt64(static_cast<std::uint64_t>(o.fixed[0])));
      if (w.mask && !llvm::isa<llvm::Constant>(w.mask)) {
        LV* any = anyLane(w.mask);
        LV* loaded =
            m_b.CreateAlignedLoad(scalar, address(buffer, m_b.CreateSelect(any, base, m_b.getInt64(0))), alignment(buffer));
        LV* result = fromStorage(loaded, stored);
        LV* mask = w.mask;
        if (width(mask) > 1) result = spread(result);
        return m_b.CreateSelect(mask, result, llvm::Constant::getNullValue(result->getType()));
      }
      return fromStorage(m_b.CreateAlignedLoad(scalar, address(buffer, base), alignment(buffer)), stored);
    }
    auto* type = llvm::FixedVectorType::get(scalar, m_lanes);
    LV* mask = w.mask ? spread(w.mask) : nullptr;
    if (o.consecutive()) {
      LV* at = address(buffer, m_b.CreateAdd(o.base, m_b.getInt64(static_cast<std::uint64_t>(o.fixed[0]))));
      if (o.fixed[0] == 0) at = address(buffer, o.base);
      if (!mask || m_f[buffer].scope == Scope::Local)
        return fromStorage(m_b.CreateAlignedLoad(type, at, alignment(buffer)), stored);
      return fromStorage(m_b.CreateMaskedLoad(type, at, alignment(buffer), mask, llvm::Constant::getNullValue(type)), stored);
    }
    if (m_f[buffer].scope == Scope::Local && o.fixed.size() == m_lanes) {
      if (LV* shuffled = shuffledLocal(buffer, o)) return fromStorage(shuffled, stored);
    }
    if (o.fixed.size() == m_lanes && !mask) {
      const auto [low, high] = std::minmax_element(o.fixed.begin(), o.fixed.end());
      const std::int64_t span = *high - *low + 1;
      unsigned wide = 4;
      while (wide < span && wide <= 32) wide *= 2;
      if (wide <= 32 && m_lanes <= 32) {
        // Neighbours that are all inside: one wide load and a permutation.
        auto* block = llvm::FixedVectorType::get(scalar, wide);
        LV* at = address(buffer, *low == 0 ? o.base : m_b.CreateAdd(o.base, m_b.getInt64(static_cast<std::uint64_t>(*low))));
        LV* loaded;
        if (static_cast<std::int64_t>(wide) == span) {
          loaded = m_b.CreateAlignedLoad(block, at, alignment(buffer));
        } else {
          std::vector<llvm::Constant*> inside;
          for (unsigned l = 0; l < wide; ++l) inside.push_back(m_b.getInt1(static_cast<std::int64_t>(l) < span));
          loaded = m_b.CreateMaskedLoad(block, at, alignment(buffer), llvm::ConstantVector::get(inside),
                                        llvm::Constant::getNullValue(block));
        }
        std::vector<int> order;
        for (const std::int64_t x : o.fixed) order.push_back(static_cast<int>(x - *low));
        return fromStorage(m_b.CreateShuffleVector(loaded, order), stored);
      }
    }
    LV* all = mask ? mask : llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(m_b.getInt1Ty(), m_lanes));
    return fromStorage(
        m_b.CreateMaskedGather(type, addresses(buffer, o), alignment(buffer), all, llvm::Constant::getNullValue(type)), stored);
  }

  // Lanes out of one or two vectors of a local buffer, as whole vectors, so that the buffer can stay in registers.
  LV* shuffledLocal(BufferId buffer, const LaneOffsets& o) {
    const auto* base = llvm::dyn_cast<llvm::ConstantInt>(o.base);
    if (!base) return nullptr;
    const auto lanes = static_cast<std::int64_t>(m_lanes);
    std::vector<std::int64_t> vectors;
    std::vector<int> order;
    for (const std::int64_t x : o.fixed) {
      const std::int64_t element = base->getSExtValue() + x, vector = element / lanes;
      auto known = std::find(vectors.begin(), vectors.end(), vector);
      if (known == vectors.end()) known = vectors.insert(vectors.end(), vector);
      order.push_back(static_cast<int>((known - vectors.begin()) * lanes + element % lanes));
    }
    if (vectors.size() > 2 || (std::max(vectors.front(), vectors.back()) + 1) * lanes > m_f[buffer].elements) return nullptr;
    auto* type = llvm::FixedVectorType::get(storageType(m_f[buffer].type), m_lanes);
    const auto part = [&](std::int64_t vector) {
      return m_b.CreateAlignedLoad(type, address(buffer, m_b.getInt64(static_cast<std::uint64_t>(vector * lanes))),
                                   alignment(buffer));
    };
    LV* first = part(vectors.front());
    return m_b.CreateShuffleVector(first, vectors.size() > 1 ? part(vectors.back()) : first, order);
  }

  void store(const Statement& s) {
    const BufferId buffer = s.target.buffer;
    const DType type = m_f[buffer].type;
    LV* v = value(s.value);
    v = convert(v, m_f[s.value].type, arithmeticType(type));
    v = toStorage(v, type);
    const Where w = where(s.target, nullptr);
    const LaneOffsets& o = w.offsets;
    if (m_lanes == 1) {
      if (w.mask) guarded(w.mask, [&] { m_b.CreateAlignedStore(v, address(buffer, o.base), alignment(buffer)); });
      else m_b.CreateAlignedStore(v, address(buffer, o.base), alignment(buffer));
    } else {
      storeLanes(buffer, o, spread(v), w.mask ? spread(w.mask) : nullptr);
    }
    forgetReaders(buffer);
  }

  template <class Body>
  void guarded(LV* condition, Body&& body) {
    auto* then = llvm::BasicBlock::Create(m_context, "", m_function);
    auto* after = llvm::BasicBlock::Create(m_context, "", m_function);
    m_b.CreateCondBr(condition, then, after);
    m_b.SetInsertPoint(then);
    body();
    m_b.CreateBr(after);
    m_b.SetInsertPoint(after);
  }

  void storeLanes(BufferId buffer, const LaneOffsets& o, LV* v, LV* mask) {
    if (o.consecutive()) {
      LV* base = o.fixed[0] == 0 ? o.base : m_b.CreateAdd(o.base, m_b.getInt64(static_cast<std::uint64_t>(o.fixed[0])));
      LV* at = address(buffer, base);
      if (mask && m_f[buffer].scope == Scope::Local) {
        LV* old = m_b.CreateAlignedLoad(v->getType(), at, alignment(buffer));
        v = m_b.CreateSelect(mask, v, old);
        mask = nullptr;
      }
      if (mask) m_b.CreateMaskedStore(v, at, alignment(buffer), mask);
      else m_b.CreateAlignedStore(v, at, alignment(buffer));
      return;
    }
    if (o.uniform()) {
      // Serial meaning: the last lane that stores wins.
      for (unsigned l = 0; l < m_lanes; ++l) {
        LV* at = address(buffer, m_b.CreateAdd(o.base, m_b.getInt64(static_cast<std::uint64_t>(o.fixed[0]))));
        LV* one = m_b.CreateExtractElement(v, l);
        if (mask) guarded(m_b.CreateExtractElement(mask, l), [&] { m_b.CreateAlignedStore(one, at, alignment(buffer)); });
        else if (l + 1 == m_lanes) m_b.CreateAlignedStore(one, at, alignment(buffer));
      }
      return;
    }
    LV* all = mask ? mask : llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(m_b.getInt1Ty(), m_lanes));
    m_b.CreateMaskedScatter(v, addresses(buffer, o), alignment(buffer), all);
  }

  // ------------------------------------------------------------ values
  bool reads(ValueId id, BufferId buffer) {
    auto& known = m_reads[id];
    if (known.empty()) {
      known.push_back(BufferId{});  // visited
      Statement probe;
      probe.value = id;
      for (const ValueId v : valuesOf(m_f, probe))
        if (m_f[v].kind == Value::Kind::Load) known.push_back(m_f[v].place.buffer);
    }
    return std::find(known.begin() + 1, known.end(), buffer) != known.end();
  }

  bool usesVariable(ValueId id, VarId v) {
    const auto found = m_uses.find({id, v});
    if (found != m_uses.end()) return found->second;
    Statement probe;
    probe.value = id;
    bool uses = false;
    for (const ValueId o : valuesOf(m_f, probe)) uses = uses || m_f[o].index.uses(v.value) || m_f[o].place.offset.uses(v.value);
    m_uses.emplace(std::pair{id, v}, uses);
    return uses;
  }

  void forgetUsers(VarId v) {
    std::erase_if(m_scopes.back().values, [&](const auto& entry) { return usesVariable(entry.first, v); });
  }

  void forgetReaders(BufferId buffer) {
    for (Scope_& scope : m_scopes) std::erase_if(scope.values, [&](const auto& entry) { return reads(entry.first, buffer); });
  }

  LV* value(ValueId root) {
    auto& cache = m_scopes.back().values;
    const auto found = cache.find(root);
    if (found != cache.end()) return found->second;
    Statement probe;
    probe.value = root;
    // Operands have smaller ids: in ascending order everything is there when it is asked for. Values under a guard that is
    // not taken are computed all the same: they are pure.
    for (const ValueId id : valuesOf(m_f, probe)) {
      if (m_scopes.back().values.contains(id)) continue;
      LV* made = one(m_f[id]);
      m_scopes.back().values[id] = made;
    }
    return m_scopes.back().values.at(root);
  }

  LV* indexAs(const IndexExpr& unbound, DType type) {
    const IndexExpr e = bind(unbound);
    if (!usesLane(e)) return convertIndex(index(e), type);
    return convertIndex(laneVector(e, narrowEverywhere(e)), type);
  }

  LV* convertIndex(LV* v, DType type) {
    llvm::Type* target = lanesOf(valueType(type), width(v));
    if (type == DType::Bool) return m_b.CreateICmpNE(v, llvm::ConstantInt::get(v->getType(), 0));
    if (!isFloating(type)) return m_b.CreateSExtOrTrunc(v, target);
    return m_b.CreateSIToFP(v, target);
  }

  LV* condition(const Value& v) {
    const IndexExpr e = bind(v.index);
    LV* x = usesLane(e) ? laneVector(e, narrowEverywhere(e)) : index(e);
    LV* zero = llvm::ConstantInt::get(x->getType(), 0);
    return v.kind == Value::Kind::IndexGe0 ? m_b.CreateICmpSGE(x, zero) : m_b.CreateICmpEQ(x, zero);
  }

  LV* mix(LV* x) {
    const auto c = [&](std::uint64_t n) { return llvm::ConstantInt::get(x->getType(), n); };
    x = m_b.CreateMul(m_b.CreateXor(x, m_b.CreateLShr(x, c(30))), c(0xbf58476d1ce4e5b9ull));
    x = m_b.CreateMul(m_b.CreateXor(x, m_b.CreateLShr(x, c(27))), c(0x94d049bb133111ebull));
    return m_b.CreateXor(x, m_b.CreateLShr(x, c(31)));
  }

  LV* randomValue(const Value& v) {
    LV*& key = m_keys[static_cast<std::uint64_t>(v.constant)];
    if (!key)
      key = inScope(0, [&] {
        LV* increment = m_b.getInt64(kRandomIncrement);
        LV* seed = field(m_call, 3, m_b.getInt64Ty());
        LV* step = field(m_call, 4, m_b.getInt64Ty());
        LV* k = mix(m_b.CreateAdd(seed, increment));
        k = mix(m_b.CreateAdd(k, m_b.CreateMul(step, increment)));
        return mix(m_b.CreateAdd(k, m_b.getInt64(static_cast<std::uint64_t>(v.constant) * kRandomIncrement)));
      });
    const IndexExpr e = bind(v.index);
    LV* point = usesLane(e) ? laneVector(e, false) : index(e);
    LV* base = width(point) > 1 ? spread(key) : key;
    LV* bits = mix(m_b.CreateAdd(base, m_b.CreateMul(point, llvm::ConstantInt::get(point->getType(), kRandomIncrement))));
    LV* top = m_b.CreateTrunc(m_b.CreateLShr(bits, 40), lanesOf(m_b.getInt32Ty(), width(bits)));
    LV* real = m_b.CreateSIToFP(top, lanesOf(m_b.getFloatTy(), width(bits)));
    return m_b.CreateFMul(real, llvm::ConstantFP::get(real->getType(), 0x1p-24));
  }

  LV* one(const Value& v) {
    switch (v.kind) {
      case Value::Kind::Constant:
        if (v.type == DType::Bool) return m_b.getInt1(v.constant != 0);
        if (v.type == DType::I32) return m_b.getInt32(static_cast<std::uint32_t>(static_cast<std::int64_t>(v.constant)));
        return llvm::ConstantFP::get(valueType(v.type), v.constant);
      case Value::Kind::Index: return indexAs(v.index, v.type);
      case Value::Kind::IndexGe0:
      case Value::Kind::IndexEq0: return condition(v);
      case Value::Kind::Random: return randomValue(v);
      case Value::Kind::Load: return loadFrom(v);
      case Value::Kind::Fma: {
        LV* a = operand(v, 0, v.type);
        LV* b = operand(v, 1, v.type);
        LV* c = operand(v, 2, v.type);
        level(a, b);
        level(a, c);
        level(b, c);
        return m_b.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
      }
      case Value::Kind::Apply: return apply(v);
    }
    return nullptr;
  }

  LV* operand(const Value& v, unsigned k, DType as) { return convert(value(v.operands[k]), m_f[v.operands[k]].type, as); }
  DType typeOf(const Value& v, unsigned k) const { return m_f[v.operands[k]].type; }

  void level(LV*& a, LV*& b) {
    if (width(a) == width(b)) return;
    a = spread(a);
    b = spread(b);
  }

  // The type comparisons are done in.
  static DType common(DType a, DType b) {
    if (a == b && (a == DType::I32 || a == DType::Bool || a == DType::F64)) return a;
    if (a == DType::F64 || b == DType::F64) return DType::F64;
    return DType::F32;
  }

  LV* apply(const Value& v) {
    const int arity = info(v.op).arity;
    if (v.op == ScalarOp::Cast) return convert(value(v.operands[0]), typeOf(v, 0), v.type);
    if (v.op == ScalarOp::Select) {
      LV* c = operand(v, 0, DType::Bool);
      LV* a = operand(v, 1, v.type);
      LV* b = operand(v, 2, v.type);
      level(a, b);
      if (width(c) > 1) {
        a = spread(a);
        b = spread(b);
      }
      return m_b.CreateSelect(c, a, b);
    }
    if (v.type == DType::Bool) return condition2(v);
    if (arity == 1) return unary(v, operand(v, 0, v.type));
    LV* a = operand(v, 0, v.type);
    LV* b = operand(v, 1, v.type);
    level(a, b);
    return v.type == DType::I32 ? integerOp(v.op, a, b) : realOp(v.op, a, b);
  }

  LV* condition2(const Value& v) {
    if (v.op == ScalarOp::Not) return m_b.CreateNot(operand(v, 0, DType::Bool));
    if (v.op == ScalarOp::And || v.op == ScalarOp::Or) {
      LV* a = operand(v, 0, DType::Bool);
      LV* b = operand(v, 1, DType::Bool);
      level(a, b);
      return v.op == ScalarOp::And ? m_b.CreateAnd(a, b) : m_b.CreateOr(a, b);
    }
    const DType type = common(typeOf(v, 0), typeOf(v, 1));
    LV* a = operand(v, 0, type);
    LV* b = operand(v, 1, type);
    level(a, b);
    const bool real = isFloating(type);
    switch (v.op) {
      case ScalarOp::Lt: return real ? m_b.CreateFCmpOLT(a, b) : m_b.CreateICmpSLT(a, b);
      case ScalarOp::Le: return real ? m_b.CreateFCmpOLE(a, b) : m_b.CreateICmpSLE(a, b);
      case ScalarOp::Eq: return real ? m_b.CreateFCmpOEQ(a, b) : m_b.CreateICmpEQ(a, b);
      case ScalarOp::Ne: return real ? m_b.CreateFCmpUNE(a, b) : m_b.CreateICmpNE(a, b);
      default: break;
    }
    NF_ASSERT(false);
    return nullptr;
  }

  LV* unary(const Value& v, LV* x) {
    const bool real = isFloating(v.type);
    LV* zero = llvm::Constant::getNullValue(x->getType());
    if (!real) {
      switch (v.op) {
        case ScalarOp::Neg: return m_b.CreateNeg(x);
        case ScalarOp::Abs: return m_b.CreateSelect(m_b.CreateICmpSLT(x, zero), m_b.CreateNeg(x), x);
        case ScalarOp::Relu: return m_b.CreateSelect(m_b.CreateICmpSLT(x, zero), zero, x);
        case ScalarOp::Floor:
        case ScalarOp::StopGradient: return x;
        default: break;
      }
      // A function of an integer: through f32 and back.
      Value single = v;
      single.type = DType::F32;
      return convert(unary(single, convert(x, DType::I32, DType::F32)), DType::F32, DType::I32);
    }
    switch (v.op) {
      case ScalarOp::Neg: return m_b.CreateFNeg(x);
      case ScalarOp::Abs: return m_b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
      case ScalarOp::Floor: return m_b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x);
      case ScalarOp::Sqrt: return m_b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
      case ScalarOp::Rsqrt:
        return m_b.CreateFDiv(llvm::ConstantFP::get(x->getType(), 1), m_b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x));
      case ScalarOp::Relu: return m_b.CreateSelect(m_b.CreateFCmpOLE(x, zero), zero, x);
      case ScalarOp::StopGradient: return x;
      default: break;
    }
    return m_math.call(v.op, x);
  }

  LV* realOp(ScalarOp op, LV* a, LV* b) {
    switch (op) {
      case ScalarOp::Add: return m_b.CreateFAdd(a, b);
      case ScalarOp::Sub: return m_b.CreateFSub(a, b);
      case ScalarOp::Mul: return m_b.CreateFMul(a, b);
      case ScalarOp::Div: return m_b.CreateFDiv(a, b);
      case ScalarOp::Pow: return m_math.power(a, b);
      // A NaN in either wins, the first operand's first.
      case ScalarOp::Max: return m_b.CreateSelect(m_b.CreateOr(m_b.CreateFCmpOGT(a, b), m_b.CreateFCmpUNO(a, a)), a, b);
      case ScalarOp::Min: return m_b.CreateSelect(m_b.CreateOr(m_b.CreateFCmpOLT(a, b), m_b.CreateFCmpUNO(a, a)), a, b);
      case ScalarOp::FloorDiv: return m_b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, m_b.CreateFDiv(a, b));
      case ScalarOp::Mod:
        return m_b.CreateFSub(a, m_b.CreateFMul(b, m_b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, m_b.CreateFDiv(a, b))));
      default: break;
    }
    NF_ASSERT(false);
    return nullptr;
  }

  LV* integerOp(ScalarOp op, LV* a, LV* b) {
    switch (op) {
      case ScalarOp::Add: return m_b.CreateAdd(a, b);
      case ScalarOp::Sub: return m_b.CreateSub(a, b);
      case ScalarOp::Mul: return m_b.CreateMul(a, b);
      case ScalarOp::Max: return m_b.CreateSelect(m_b.CreateICmpSGT(a, b), a, b);
      case ScalarOp::Min: return m_b.CreateSelect(m_b.CreateICmpSLT(a, b), a, b);
      case ScalarOp::FloorDiv: return floorQuotient(a, b);
      case ScalarOp::Mod: return m_b.CreateSub(a, m_b.CreateMul(floorQuotient(a, b), b));
      case ScalarOp::Div:
      case ScalarOp::Pow: {
        LV* x = convert(a, DType::I32, DType::F32);
        LV* y = convert(b, DType::I32, DType::F32);
        return convert(realOp(op, x, y), DType::F32, DType::I32);
      }
      default: break;
    }
    NF_ASSERT(false);
    return nullptr;
  }

  // Rounds to minus infinity. The divisors that would trap, 0 and -1, are set aside: x/0 is 0 here.
  LV* floorQuotient(LV* a, LV* b) {
    const auto c = [&](std::int64_t n) { return llvm::ConstantInt::get(a->getType(), static_cast<std::uint64_t>(n), true); };
    LV* none = m_b.CreateICmpEQ(b, c(0));
    LV* minus = m_b.CreateICmpEQ(b, c(-1));
    LV* safe = m_b.CreateSelect(m_b.CreateOr(none, minus), c(1), b);
    LV* q = m_b.CreateSDiv(a, safe);
    LV* r = m_b.CreateSub(a, m_b.CreateMul(q, safe));
    LV* different = m_b.CreateICmpSLT(m_b.CreateXor(r, safe), c(0));
    LV* down = m_b.CreateAnd(m_b.CreateICmpNE(r, c(0)), different);
    q = m_b.CreateSub(q, m_b.CreateZExt(down, a->getType()));
    q = m_b.CreateSelect(minus, m_b.CreateNeg(a), q);
    return m_b.CreateSelect(none, c(0), q);
  }

  const Function& m_f;
  llvm::LLVMContext& m_context;
  llvm::IRBuilder<> m_b;
  std::unique_ptr<llvm::Module> m_module;
  std::string m_features;
  const LoopText* m_lines;
  VectorMath m_math;
  std::unique_ptr<llvm::DIBuilder> m_debug;
  llvm::DIFile* m_file = nullptr;
  llvm::DICompileUnit* m_unit = nullptr;
  llvm::DISubprogram* m_subprogram = nullptr;

  llvm::Function* m_function = nullptr;
  llvm::BasicBlock* m_entry = nullptr;
  LV* m_call = nullptr;
  llvm::BasicBlock* m_exit = nullptr;  // where a stage ends early
  bool m_polls = false;
  std::map<BufferId, LV*> m_pointers;
  std::map<std::uint32_t, std::int64_t> m_constants;  // variables with a constant value: unrolled ones
  std::map<std::uint32_t, LV*> m_runtime;
  std::map<std::uint32_t, std::size_t> m_depth;  // scope of each runtime variable
  std::vector<Scope_> m_scopes;
  std::map<std::uint32_t, LV*> m_counters;
  std::map<std::uint64_t, LV*> m_keys;
  VarId m_lane;
  unsigned m_lanes = 1;
  LV* m_mask = nullptr;
  std::map<ValueId, std::vector<BufferId>> m_reads;
  std::map<std::pair<ValueId, VarId>, bool> m_uses;
};

}  // namespace

Emitted emit(const Function& function, llvm::LLVMContext& context, const std::string& features, const LoopText* lines) {
  return Emitter(function, context, features, lines).run();
}

}  // namespace nf::cpu
