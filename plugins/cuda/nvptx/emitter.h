// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <vector>

#include <llvm/IR/DIBuilder.h>

#include "plugins/cuda/frame.h"
#include "plugins/cuda/nvptx/emit.h"
#include "plugins/llvm/arithmetic.h"

namespace nf::cuda {

using codegen::LV;

// NVPTX's numbers of address spaces.
enum AddressSpace : unsigned { kGlobal = 1, kShared = 3 };

// The walk from loops to LLVM IR behind emitModule(): emit_module.cpp holds kernels and statements, emit_values.cpp index arithmetic,
// memory and what a statement reads. Values live as long as their statement; LLVM's passes find what several have in common.
class ModuleEmitter final : private Frame, private codegen::Arithmetic {
 public:
  ModuleEmitter(const loop::Function& f, llvm::LLVMContext& context, int capability, const loop::LoopText* lines)
      : Frame(f), Arithmetic(context), m_module(std::make_unique<llvm::Module>(f.name, context)), m_capability(capability),
        m_lines(lines) {}

  Result<EmittedModule> run();

 private:
  using Values = std::map<loop::ValueId, LV*>;

  // ------------------------------------------------------------ kernels
  void openDebug();
  KernelStage stage(std::size_t index);
  llvm::Function* declare(const Grid& grid, const Touched& used);
  void annotate(llvm::Function* kernel, const char* what, std::uint32_t value);
  void bindNumbers(const std::vector<loop::VarId>& loops, llvm::Intrinsic::ID number);

  // ------------------------------------------------------------ statements
  void statements(const std::vector<loop::StmtId>& body);
  void statement(loop::StmtId id);
  void forLoop(const loop::Statement& s);
  void branch(const loop::Statement& s);
  void store(const loop::Statement& s, const Values& known);
  void lanes(loop::StmtId id, loop::VarId lane, std::int64_t count);
  void exchange(const loop::Statement& s);
  void asyncCopy(const loop::Statement& s);

  llvm::BasicBlock* block() { return llvm::BasicBlock::Create(m_context, "", m_function); }
  // `body` where the condition holds; null: always.
  template <class Body>
  void guarded(LV* condition, Body&& body) {
    if (!condition) return body();
    llvm::BasicBlock *then = block(), *after = block();
    m_b.CreateCondBr(condition, then, after);
    m_b.SetInsertPoint(then);
    body();
    m_b.CreateBr(after);
    m_b.SetInsertPoint(after);
  }

  // ------------------------------------------------------------ index arithmetic
  LV* index(const IndexExpr& unbound);  // i32 where that holds it, else i64
  LV* indexOf(const IndexExpr& e, llvm::Type* type);
  LV* variable(IndexVar v, llvm::Type* type);

  // ------------------------------------------------------------ memory
  llvm::Type* elementType(loop::BufferId id);
  LV* pointer(loop::BufferId id);
  LV* sharedOfLaunch();
  LV* address(loop::BufferId id, LV* offset);
  llvm::Align alignment(loop::BufferId id, std::int64_t elements = 1);
  LV* loaded(loop::BufferId id, LV* element);            // as a value
  LV* stored(loop::BufferId id, LV* value, DType from);  // as an element
  struct Access {
    LV* offset = nullptr;
    LV* guard = nullptr;  // null: always
  };
  // Data-dependent components are tested, the first that is out of range is reported.
  Access access(const loop::Place& p, const Values& values, LV* guard);
  LV* inside(LV* index, const loop::DataIndex& d, LV* asked);
  LV* load(const loop::Value& v, const Values& values);

  // ------------------------------------------------------------ values
  Values valuesFor(const loop::Statement& s, const Values& known);
  LV* one(const loop::Value& v, const Values& values);
  LV* function(ScalarOp op, LV* x) override;
  LV* power(LV* x, LV* y) override;
  LV* libdevice(const char* name, std::vector<LV*> arguments);

  std::unique_ptr<llvm::Module> m_module;
  int m_capability;
  const loop::LoopText* m_lines;
  std::unique_ptr<llvm::DIBuilder> m_debug;
  llvm::DIFile* m_file = nullptr;
  llvm::DISubprogram* m_subprogram = nullptr;
  llvm::Function* m_function = nullptr;
  LV *m_workspace = nullptr, *m_counters = nullptr, *m_random = nullptr, *m_status = nullptr, *m_kernel = nullptr;
  std::map<loop::BufferId, LV*> m_pointers;
  std::map<loop::BufferId, std::int64_t> m_shared;  // in the shared memory of the launch, Grid::shared
  std::map<std::uint32_t, LV*> m_variables;
  std::map<std::uint64_t, LV*> m_keys;  // of random streams
};

}  // namespace nf::cuda
