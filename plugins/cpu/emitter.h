// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include "core/support/assert.h"
#include "plugins/cpu/emit.h"
#include "plugins/cpu/vector_math.h"
#include "plugins/llvm/arithmetic.h"

namespace nf::cpu {

using namespace loop;
using codegen::LV;

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

// The walk from loops to LLVM IR behind emit(): emit.cpp holds the frame of a kernel, emit_statements loops and branches, emit_index index
// arithmetic, emit_memory places, loads and stores, emit_values what a statement reads.
class Emitter final : private codegen::Arithmetic {
 public:
  Emitter(const Function& f, llvm::LLVMContext& context, const std::string& features, const LoopText* lines)
      : Arithmetic(context), m_f(f), m_module(std::make_unique<llvm::Module>(f.name, context)), m_features(features),
        m_lines(lines), m_math(m_b, *m_module) {}

  Emitted run();

 private:
  // ------------------------------------------------------------ frame
  void openDebug();
  void attributes(llvm::Function* fn);
  void collect(const std::vector<StmtId>& body, std::set<BufferId>& buffers);
  EmittedStage stage(std::size_t index);

  // Operations of one execution, the lanes of a vector counted once; the loops of the tasks do not count.
  double costOf(const std::vector<StmtId>& body) const;

  // Whether a loop further in is long enough to look by itself.
  bool pollsInside(const std::vector<StmtId>& body) const;

  // At the head of an iteration of a loop over `body`.
  void poll(LV* counter, double extent, const std::vector<StmtId>& body);
  LV* field(LV* call, unsigned number, llvm::Type* type);
  void openBody(llvm::Function* body, const std::vector<BufferId>& globals);
  void tasks(const loop::Stage& stage, LV* begin, LV* end);
  void bindRuntime(VarId v, LV* value);

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
  void locate(StmtId id);
  void statements(const std::vector<StmtId>& body);
  void statement(StmtId id);
  void forLoop(const Statement& s);

  // ------------------------------------------------------------ guards as ends of loops (design: autodiff, section 4, "peel")
  // Where the body is one test, conjuncts that bound the counter narrow begin and end, so that no iteration runs only to fail; the others
  // are returned. They compare an expression linear in the counter with 0, or the counter with an integer that the loop leaves alone.
  //   for t in 64: if z - t >= 0 and A       ->      for t in 0 .. min(64, z + 1): if A
  std::optional<std::vector<ValueId>> bounded(const Statement& s, LV*& begin, LV*& end);

  // e = c * counter + rest, or nullopt: the counter stands in a floor, or lanes do anywhere.
  std::optional<std::pair<std::int64_t, IndexExpr>> linearIn(const IndexExpr& unbound, VarId counter);

  void raise(LV*& begin, LV* to) { begin = m_b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, begin, to); }
  void lower(LV*& end, LV* to) { end = m_b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, to); }

  bool narrowByIndex(const Value& v, VarId counter, LV*& begin, LV*& end);
  bool narrowByData(const Value& v, const Statement& s, LV*& begin, LV*& end);

  // Whether an integer is the same in every iteration: it uses neither the counter nor lanes, and reads nothing that the loop writes.
  bool staysTheSame(ValueId id, const Statement& loop);

  void forgetValues() { m_scopes.back().values.clear(); }

  void branch(const Statement& s) { branch(value(s.value), s); }
  void branch(LV* condition, const Statement& s);

  // ------------------------------------------------------------ types
  LV* spread(LV* v) { return m_lanes > 1 && width(v) == 1 ? m_b.CreateVectorSplat(m_lanes, v) : v; }

  // ------------------------------------------------------------ index arithmetic
  // Variables that have a constant replaced by it.
  IndexExpr bind(const IndexExpr& e);
  std::size_t depthOf(const IndexAtom& atom);

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

  LV* counterValue(std::uint32_t number);
  LV* atomValue(const IndexAtom& atom);

  // A lane-free expression as i64, each part in the outermost scope that knows its variables.
  LV* index(const IndexExpr& unbound);

  bool usesLane(const IndexExpr& e) const { return m_lane.valid() && e.uses(m_lane.value); }

  bool fits32(const IndexExpr& e) const;

  // A vector of the values of e in each lane.
  LV* laneVector(const IndexExpr& e, bool narrow);
  bool narrowEverywhere(const IndexExpr& e) const;
  LaneOffsets lanes(const IndexExpr& unbound);

  // ------------------------------------------------------------ memory
  LV* pointerOf(BufferId id);

  llvm::Align alignment(BufferId id) { return llvm::Align(static_cast<std::uint64_t>(bytesOf(m_f[id].type))); }

  LV* anyLane(LV* mask) { return width(mask) == 1 ? mask : m_b.CreateOrReduce(mask); }

  struct Where {
    LaneOffsets offsets;
    LV* mask = nullptr;  // of the statement, the guard and the checks together; null: all
  };
  Where where(const Place& place, LV* guard);
  LV* both(LV* a, LV* b);
  void report(LV* bad, LV* met, std::uint32_t check);
  LV* address(BufferId buffer, LV* offset);
  LV* addresses(BufferId buffer, const LaneOffsets& o);
  LV* loadFrom(const Value& v);

  // Lanes out of one or two vectors of a local buffer, as whole vectors, so that the buffer can stay in registers.
  LV* shuffledLocal(BufferId buffer, const LaneOffsets& o);
  void store(const Statement& s);

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

  void storeLanes(BufferId buffer, const LaneOffsets& o, LV* v, LV* mask);

  // ------------------------------------------------------------ values
  // By value: whether it, or one that it is computed from, is such a one.
  template <class Is>
  std::vector<bool> dependents(Is&& is) const;
  void forgetUsers(VarId v);
  void forgetReaders(BufferId buffer);
  LV* value(ValueId root);
  LV* indexAs(const IndexExpr& unbound, DType type);
  LV* condition(const Value& v);
  LV* randomValue(const Value& v);
  LV* one(const Value& v);

  LV* function(ScalarOp op, LV* x) override { return m_math.call(op, x); }
  LV* power(LV* x, LV* y) override { return m_math.power(x, y); }

  const Function& m_f;
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
  std::map<BufferId, std::vector<bool>> m_readers;
  std::map<VarId, std::vector<bool>> m_users;
};

}  // namespace nf::cpu
