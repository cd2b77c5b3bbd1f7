// SPDX-License-Identifier: Apache-2.0
#include "plugins/cpu/emitter.h"
#include "plugins/cpu/kernel_call.h"

namespace nf::cpu {
namespace {

// Only a stage that may take a good part of a second looks whether it is to stop, about every millisecond. Operations.
constexpr double kLongStage = 3e8, kBetweenPolls = 1e6;

}  // namespace

Emitted Emitter::run() {
  if (m_lines) openDebug();
  Emitted result;
  for (std::size_t s = 0; s < m_f.stages.size(); ++s) result.stages.push_back(stage(s));
  if (m_debug) m_debug->finalize();
  result.module = std::move(m_module);
  return result;
}

void Emitter::openDebug() {
  m_module->addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  m_module->addModuleFlag(llvm::Module::Warning, "Dwarf Version", 4);
  m_debug = std::make_unique<llvm::DIBuilder>(*m_module);
  m_file = m_debug->createFile(m_f.name + ".loops", "");  // a folder apart from the name is more than `as` takes of DWARF 4
  m_unit =
      m_debug->createCompileUnit(llvm::dwarf::DW_LANG_C, m_file, "neoflow", true, "", 0, "", llvm::DICompileUnit::LineTablesOnly);
}

void Emitter::attributes(llvm::Function* fn) {
  fn->addFnAttr("target-features", m_features);
  fn->addFnAttr("prefer-vector-width", "512");
  fn->addFnAttr("min-legal-vector-width", "512");
  fn->addFnAttr("no-trapping-math", "true");
  fn->setDoesNotThrow();
}

void Emitter::collect(const std::vector<StmtId>& body, std::set<BufferId>& buffers) {
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

EmittedStage Emitter::stage(std::size_t index) {
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
  auto* body = llvm::Function::Create(llvm::FunctionType::get(m_b.getVoidTy(), parameters, false), llvm::Function::InternalLinkage,
                                      result.symbol + "_body", *m_module);
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

double Emitter::costOf(const std::vector<StmtId>& body) const {
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

bool Emitter::pollsInside(const std::vector<StmtId>& body) const {
  return std::any_of(body.begin(), body.end(), [&](StmtId id) {
    const Statement& s = m_f[id];
    if (s.kind == Statement::Kind::If) return pollsInside(s.body) || pollsInside(s.otherwise);
    if (s.kind != Statement::Kind::For) return false;
    const Var& v = m_f[s.var];
    const bool loops = v.kind == LoopKind::Serial && v.extent > 1;
    return pollsInside(s.body) || (loops && static_cast<double>(v.extent) * costOf(s.body) >= kBetweenPolls);
  });
}

void Emitter::poll(LV* counter, double extent, const std::vector<StmtId>& body) {
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

LV* Emitter::field(LV* call, unsigned number, llvm::Type* type) {
  return m_b.CreateLoad(type, m_b.CreateConstInBoundsGEP1_64(m_b.getInt64Ty(), call, number));
}

void Emitter::openBody(llvm::Function* body, const std::vector<BufferId>& globals) {
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

void Emitter::tasks(const loop::Stage& stage, LV* begin, LV* end) {
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

void Emitter::bindRuntime(VarId v, LV* value) {
  m_runtime[v.value] = value;
  m_depth[v.value] = m_scopes.size() - 1;
}

Emitted emit(const Function& function, llvm::LLVMContext& context, const std::string& features, const LoopText* lines) {
  return Emitter(function, context, features, lines).run();
}

}  // namespace nf::cpu
