// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "plugins/cuda/kernel_call.h"
#include "plugins/cuda/nvptx/emitter.h"

namespace nf::cuda {

using namespace loop;

// ---------------------------------------------------------------- kernels

Result<EmittedModule> ModuleEmitter::run() {
  const auto refused = [](const std::string& why) { return Error{"compile", why, "cuda", {}}; };
  if (m_f.operands > kMostOperands)
    return refused("the subgraph has " + std::to_string(m_f.operands) + " operands, a kernel takes " +
                   std::to_string(kMostOperands));
  if (m_lines) openDebug();
  EmittedModule result;
  for (std::size_t s = 0; s < m_f.stages.size() && m_error.empty(); ++s) result.stages.push_back(stage(s));
  if (m_debug) m_debug->finalize();
  if (!m_error.empty()) return refused(m_error);
  result.module = std::move(m_module);
  return result;
}

void ModuleEmitter::openDebug() {
  m_module->addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  m_debug = std::make_unique<llvm::DIBuilder>(*m_module);
  m_file = m_debug->createFile("kernel.loops", ".");
  // Lines and nothing else: with more, PTX would be for a debugger, and unoptimised.
  m_debug->createCompileUnit(llvm::dwarf::DW_LANG_C, m_file, "neoflow", true, "", 0, "", llvm::DICompileUnit::DebugDirectivesOnly);
}

void ModuleEmitter::annotate(llvm::Function* kernel, const char* what, std::uint32_t value) {
  m_module->getOrInsertNamedMetadata("nvvm.annotations")
      ->addOperand(llvm::MDNode::get(m_context, {llvm::ConstantAsMetadata::get(kernel), llvm::MDString::get(m_context, what),
                                                 llvm::ConstantAsMetadata::get(m_b.getInt32(value))}));
}

// The parameters of kernel_call.h.
llvm::Function* ModuleEmitter::declare(const Grid& grid, const Touched& used) {
  llvm::Type* global = m_b.getPtrTy(kGlobal);
  std::vector<llvm::Type*> parameters(m_f.operands, global);
  parameters.insert(parameters.end(), {global, m_b.getPtrTy(), global, global, m_b.getInt32Ty()});
  auto* kernel = llvm::Function::Create(llvm::FunctionType::get(m_b.getVoidTy(), parameters, false),
                                        llvm::Function::ExternalLinkage, grid.stage.symbol, *m_module);
  kernel->setCallingConv(llvm::CallingConv::PTX_Kernel);
  kernel->setDoesNotThrow();
  annotate(kernel, "kernel", 1);
  annotate(kernel, "maxntidx", static_cast<std::uint32_t>(grid.stage.threads));
  for (unsigned b = 0; b < m_f.operands; ++b) {
    const BufferId id(static_cast<std::size_t>(b));
    kernel->getArg(b)->setName(m_f[id].name);
    if (!used.passed(id)) kernel->addParamAttr(b, llvm::Attribute::NoAlias);
    kernel->addParamAttr(b, llvm::Attribute::getWithAlignment(m_context, alignment(id)));
    if (m_f[id].direction == Direction::In) kernel->addParamAttr(b, llvm::Attribute::ReadOnly);
    m_pointers[id] = kernel->getArg(b);
  }
  const auto next = static_cast<unsigned>(m_f.operands);
  m_workspace = kernel->getArg(next);
  m_counters = kernel->getArg(next + 1);
  m_random = kernel->getArg(next + 2);
  m_status = kernel->getArg(next + 3);
  m_kernel = kernel->getArg(next + 4);
  auto* counters = llvm::ArrayType::get(m_b.getInt64Ty(), kMostCounters);
  kernel->addParamAttr(next + 1, llvm::Attribute::getWithByValType(m_context, counters));
  kernel->addParamAttr(next + 1, llvm::Attribute::getWithAlignment(m_context, llvm::Align(8)));
  kernel->addParamAttr(next + 1, llvm::Attribute::ReadOnly);
  return kernel;
}

KernelStage ModuleEmitter::stage(std::size_t index) {
  const auto found = grid(index);
  if (!found) return {};
  m_pointers.clear();
  m_variables.clear();
  m_constants.clear();
  m_keys.clear();
  m_shared = found->shared;
  m_b.SetCurrentDebugLocation({});
  Touched used;
  collect(m_f.stages[index].body, used);
  m_function = declare(*found, used);
  if (m_debug) {
    auto* type = m_debug->createSubroutineType(m_debug->getOrCreateTypeArray({}));
    m_subprogram = m_debug->createFunction(m_file, m_stage, found->stage.symbol, m_file, 1, type, 1, llvm::DINode::FlagZero,
                                           llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagOptimized);
    m_function->setSubprogram(m_subprogram);
  }
  m_b.SetInsertPoint(block());
  for (const BufferId b : used.buffers)
    if (m_f[b].scope == Scope::Fragment) return fail("it has matrix tiles, which LLVM does not generate"), KernelStage{};
  if (!used.streams.empty()) {
    llvm::Type* i64 = m_b.getInt64Ty();
    LV* seed = m_b.CreateLoad(i64, m_random);
    LV* step = m_b.CreateLoad(i64, m_b.CreateConstInBoundsGEP1_64(i64, m_random, 1));
    for (const std::uint64_t s : used.streams) m_keys[s] = randomKey(seed, step, s);
  }
  bindNumbers(found->blocks, llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  for (std::size_t n = 0; n < found->nests.size(); ++n) {
    if (n > 0) m_b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
    bindNumbers(found->nests[n].threads, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
    statements(*found->nests[n].body);
  }
  m_b.CreateRetVoid();
  return found->stage;
}

// The loop variables from the number of a block or thread, the innermost fastest.
void ModuleEmitter::bindNumbers(const std::vector<VarId>& loops, llvm::Intrinsic::ID number) {
  LV* rest = nullptr;
  std::size_t slower = 0;
  std::uint64_t count = 1;
  for (const VarId v : loops) {
    slower += m_f[v].extent > 1;
    count *= static_cast<std::uint64_t>(m_f[v].extent);
  }
  for (std::size_t k = loops.size(); k-- > 0;) {
    const VarId v = loops[k];
    if (m_f[v].extent == 1) {
      m_constants[v.value] = 0;
      continue;
    }
    if (!rest) {
      llvm::CallInst* call = m_b.CreateIntrinsic(number, {}, {});
      call->addRangeRetAttr(llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, count)));
      rest = call;
    }
    LV* extent = m_b.getInt32(static_cast<std::uint32_t>(m_f[v].extent));
    --slower;
    m_variables[v.value] = slower == 0 ? rest : m_b.CreateURem(rest, extent);
    if (slower > 0) rest = m_b.CreateUDiv(rest, extent);
  }
}

// ---------------------------------------------------------------- statements

void ModuleEmitter::statements(const std::vector<StmtId>& body) {
  for (const StmtId id : body) statement(id);
}

void ModuleEmitter::statement(StmtId id) {
  if (!m_error.empty()) return;
  const Statement& s = m_f[id];
  if (m_debug) m_b.SetCurrentDebugLocation(llvm::DILocation::get(m_context, m_lines->lines[id.value], 0, m_subprogram));
  switch (s.kind) {
    case Statement::Kind::For: forLoop(s); return;
    case Statement::Kind::If: branch(s); return;
    case Statement::Kind::Store: store(s, {}); return;
    case Statement::Kind::Barrier:
      if (s.barrier == BarrierScope::Grid) return fail("it has a barrier of the grid, which LLVM does not generate");
      m_b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
      return;
    case Statement::Kind::Exchange: exchange(s); return;
    case Statement::Kind::AsyncCopy: asyncCopy(s); return;
    case Statement::Kind::AsyncCommit:
      if (m_capability >= 80) m_b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_commit_group, {}, {});
      return;
    case Statement::Kind::AsyncWait:
      if (m_capability >= 80)
        m_b.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_group, {}, {m_b.getInt32(static_cast<std::uint32_t>(s.elements))});
      return;
    case Statement::Kind::MatrixLoad:
    case Statement::Kind::MatrixTile: return;  // refused before
    case Statement::Kind::WarpgroupFence:
    case Statement::Kind::WarpgroupTile:
    case Statement::Kind::WarpgroupCommit:
    case Statement::Kind::WarpgroupWait:
    case Statement::Kind::ProxyFence: return fail("it has tiles of a warpgroup, which LLVM does not generate");
    case Statement::Kind::TensorCopy:
    case Statement::Kind::ArrivalInit:
    case Statement::Kind::ArrivalExpect:
    case Statement::Kind::ArrivalWait: return fail("it has copies of tensors' boxes, which LLVM does not generate");
  }
}

void ModuleEmitter::forLoop(const Statement& s) {
  const Var& v = m_f[s.var];
  const auto expanded = [&](auto&& body) {
    for (std::int64_t i = 0; i < v.extent; ++i) {
      m_constants[s.var.value] = i;
      body();
    }
    m_constants.erase(s.var.value);
  };
  if (v.extent == 1) return expanded([&] { statements(s.body); });
  switch (v.kind) {
    case LoopKind::Vector:
      for (const StmtId id : s.body) lanes(id, s.var, v.extent);
      return;
    case LoopKind::Unrolled: return expanded([&] { statements(s.body); });
    case LoopKind::Serial: break;
    case LoopKind::Parallel:
    case LoopKind::Block:
    case LoopKind::Thread: return fail("a loop over " + v.name + " stands inside its threads");
  }
  llvm::BasicBlock *before = m_b.GetInsertBlock(), *head = block();
  m_b.CreateBr(head);
  m_b.SetInsertPoint(head);
  llvm::PHINode* counter = m_b.CreatePHI(m_b.getInt32Ty(), 2);
  counter->addIncoming(m_b.getInt32(0), before);
  m_variables[s.var.value] = counter;
  statements(s.body);
  LV* next = m_b.CreateAdd(counter, m_b.getInt32(1), "", true, true);
  counter->addIncoming(next, m_b.GetInsertBlock());
  llvm::BasicBlock* after = block();
  m_b.CreateCondBr(m_b.CreateICmpULT(next, m_b.getInt32(static_cast<std::uint32_t>(v.extent))), head, after);
  m_b.SetInsertPoint(after);
}

void ModuleEmitter::branch(const Statement& s) {
  LV* condition = valuesFor(s, {}).at(s.value);
  if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(condition))
    return statements(constant->isOne() ? s.body : s.otherwise);
  llvm::BasicBlock *then = block(), *after = block();
  llvm::BasicBlock* otherwise = s.otherwise.empty() ? after : block();
  m_b.CreateCondBr(condition, then, otherwise);
  m_b.SetInsertPoint(then);
  statements(s.body);
  m_b.CreateBr(after);
  if (!s.otherwise.empty()) {
    m_b.SetInsertPoint(otherwise);
    statements(s.otherwise);
    m_b.CreateBr(after);
  }
  m_b.SetInsertPoint(after);
}

void ModuleEmitter::store(const Statement& s, const Values& known) {
  const Values values = valuesFor(s, known);
  const BufferId buffer = s.target.buffer;
  LV* element = stored(buffer, values.at(s.value), m_f[s.value].type);
  const Access to = access(s.target, values, nullptr);
  guarded(to.guard, [&] { m_b.CreateAlignedStore(element, address(buffer, to.offset), alignment(buffer)); });
}

void ModuleEmitter::lanes(StmtId id, VarId lane, std::int64_t count) {
  const Statement& s = m_f[id];
  const auto each = [&](auto&& body) {
    for (std::int64_t l = 0; l < count; ++l) {
      m_constants[lane.value] = l;
      body(l);
    }
    m_constants.erase(lane.value);
  };
  if (s.kind != Statement::Kind::Store) return each([&](std::int64_t) { statement(id); });
  if (m_debug) m_b.SetCurrentDebugLocation(llvm::DILocation::get(m_context, m_lines->lines[id.value], 0, m_subprogram));
  const auto vectorOf = [&](BufferId b) { return llvm::FixedVectorType::get(elementType(b), static_cast<unsigned>(count)); };
  // Reads that come in as one, by value.
  Values read;
  m_constants[lane.value] = 0;
  for (const ValueId v : valuesOf(m_f, s)) {
    const Value& load = m_f[v];
    if (load.kind != Value::Kind::Load || load.guard.valid() || !together(load.place, lane, count)) continue;
    const BufferId b = load.place.buffer;
    read[v] = m_b.CreateAlignedLoad(vectorOf(b), address(b, index(load.place.offset)), alignment(b, count));
  }
  const BufferId target = s.target.buffer;
  const bool atOnce = together(s.target, lane, count);
  LV* all = llvm::PoisonValue::get(vectorOf(target));
  each([&](std::int64_t l) {
    Values known;
    for (const auto& [v, vector] : read)
      known[v] = loaded(m_f[v].place.buffer, m_b.CreateExtractElement(vector, static_cast<std::uint64_t>(l)));
    if (!atOnce) return store(s, known);
    LV* element = stored(target, valuesFor(s, known).at(s.value), m_f[s.value].type);
    all = m_b.CreateInsertElement(all, element, static_cast<std::uint64_t>(l));
  });
  if (!atOnce) return;
  m_constants[lane.value] = 0;
  m_b.CreateAlignedStore(all, address(target, index(s.target.offset)), alignment(target, count));
  m_constants.erase(lane.value);
}

void ModuleEmitter::exchange(const Statement& s) {
  const auto at = [&](const Place& p) { return address(p.buffer, index(p.offset)); };
  llvm::Type *type = elementType(s.left.buffer), *word = m_b.getInt32Ty();
  LV* own = m_b.CreateAlignedLoad(type, at(s.left), alignment(s.left.buffer));
  const auto other = [&](LV* bits) {
    return m_b.CreateIntrinsic(
        llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
        {m_b.getInt32(0xffffffffu), bits, m_b.getInt32(static_cast<std::uint32_t>(s.elements)), m_b.getInt32(31)});
  };
  const auto size = static_cast<unsigned>(type->getPrimitiveSizeInBits());
  LV* bits = m_b.CreateBitCast(own, m_b.getIntNTy(size));
  if (size <= 32) {
    bits = m_b.CreateTrunc(other(m_b.CreateZExt(bits, word)), bits->getType());
  } else {
    LV* low = m_b.CreateZExt(other(m_b.CreateTrunc(bits, word)), bits->getType());
    LV* high = m_b.CreateZExt(other(m_b.CreateTrunc(m_b.CreateLShr(bits, 32), word)), bits->getType());
    bits = m_b.CreateOr(low, m_b.CreateShl(high, 32));
  }
  m_b.CreateAlignedStore(m_b.CreateBitCast(bits, type), at(s.target), alignment(s.target.buffer));
}

void ModuleEmitter::asyncCopy(const Statement& s) {
  const BufferId to = s.target.buffer, from = s.left.buffer;
  const bool whole = s.elements == 1 || (wide(to, s.target.offset, s.elements) && wide(from, s.left.offset, s.elements));
  const std::int64_t each = whole ? s.elements : 1, bytes = each * bytesOf(m_f[to].type);
  for (std::int64_t e = 0; e < s.elements; e += each) {
    LV* target = address(to, index(s.target.offset + IndexExpr(e)));
    LV* source = address(from, index(s.left.offset + IndexExpr(e)));
    const bool copies = bytes == 4 || bytes == 8 || bytes == 16;
    if (!copies || m_capability < 80) {
      const llvm::Align align(static_cast<std::uint64_t>(bytes));
      auto* type = llvm::FixedVectorType::get(elementType(to), static_cast<unsigned>(each));
      m_b.CreateAlignedStore(m_b.CreateAlignedLoad(type, source, align), target, align);
      continue;
    }
    m_b.CreateIntrinsic(bytes == 16  ? llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16
                        : bytes == 8 ? llvm::Intrinsic::nvvm_cp_async_ca_shared_global_8
                                     : llvm::Intrinsic::nvvm_cp_async_ca_shared_global_4,
                        {}, {target, source});
  }
}

Result<EmittedModule> emitModule(const Function& function, llvm::LLVMContext& context, int capability, const LoopText* lines) {
  return ModuleEmitter(function, context, capability, lines).run();
}

}  // namespace nf::cuda
