// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Intrinsics.h>

#include "core/support/assert.h"
#include "plugins/cuda/nvptx/emitter.h"

namespace nf::cuda {

using namespace loop;

// ---------------------------------------------------------------- index arithmetic

LV* ModuleEmitter::variable(IndexVar v, llvm::Type* type) {
  if (v >= kLoopVariable) return m_b.CreateLoad(type, m_b.CreateConstInBoundsGEP1_64(type, m_counters, v - kLoopVariable));
  LV* number = m_variables.at(v);
  return number->getType() == type ? number : m_b.CreateZExt(number, type, "", true);
}

LV* ModuleEmitter::index(const IndexExpr& unbound) {
  const IndexExpr e = bind(unbound);
  return indexOf(e, fitsInt(e) ? m_b.getInt32Ty() : m_b.getInt64Ty());
}

LV* ModuleEmitter::indexOf(const IndexExpr& e, llvm::Type* type) {
  const auto number = [&](std::int64_t n) { return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(n), true); };
  LV* sum = nullptr;
  const auto add = [&](LV* v) { sum = sum ? m_b.CreateAdd(sum, v, "", false, true) : v; };
  for (const IndexTerm& t : e.terms()) {
    LV* v;
    if (!t.atom.isFloorDiv()) {
      v = variable(t.atom.variable, type);
    } else {
      LV* numerator = indexOf(*t.atom.numerator, type);
      LV* divisor = number(t.atom.divisor);
      const auto range = bounds(*t.atom.numerator, m_f.ranges());
      if (range && range->lo >= 0) {
        v = m_b.CreateUDiv(numerator, divisor);
      } else {
        LV* below = m_b.CreateICmpSLT(m_b.CreateSRem(numerator, divisor), number(0));
        v = m_b.CreateSub(m_b.CreateSDiv(numerator, divisor), m_b.CreateZExt(below, type));
      }
    }
    add(t.coefficient == 1 ? v : m_b.CreateMul(v, number(t.coefficient), "", false, true));
  }
  if (e.constant() != 0 || !sum) add(number(e.constant()));
  return sum;
}

// ---------------------------------------------------------------- memory

llvm::Type* ModuleEmitter::elementType(BufferId id) {
  const Buffer& buffer = m_f[id];
  // One's own copies are values: they are rounded where they go to memory that others see.
  return buffer.scope == Scope::Local && buffer.type != DType::Bool ? valueType(buffer.type) : storageType(buffer.type);
}

LV* ModuleEmitter::pointer(BufferId id) {
  LV*& known = m_pointers[id];
  if (known) return known;
  const Buffer& buffer = m_f[id];
  auto* array = llvm::ArrayType::get(elementType(id), static_cast<std::uint64_t>(buffer.elements));
  llvm::IRBuilder<> entry(&m_function->getEntryBlock(), m_function->getEntryBlock().begin());
  switch (buffer.scope) {
    case Scope::Fragment: NF_ASSERT(false); break;  // refused before
    case Scope::Local: known = entry.CreateAlloca(array, nullptr, buffer.name); break;
    case Scope::Shared: {
      if (const auto at = m_shared.find(id); at != m_shared.end()) {
        known = entry.CreateConstInBoundsGEP1_64(entry.getInt8Ty(), sharedOfLaunch(), static_cast<std::uint64_t>(at->second));
        break;
      }
      auto* shared = new llvm::GlobalVariable(
          *m_module, array, false, llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(array),
          m_function->getName() + "_shared" + std::to_string(id.value), nullptr, llvm::GlobalValue::NotThreadLocal, kShared);
      shared->setAlignment(llvm::Align(16));
      known = shared;
      break;
    }
    case Scope::Global:
      known = entry.CreateConstInBoundsGEP1_64(entry.getInt8Ty(), m_workspace, static_cast<std::uint64_t>(buffer.workspaceOffset));
      break;
  }
  return known;
}

LV* ModuleEmitter::sharedOfLaunch() {
  constexpr const char* kName = "nf_shared";
  if (auto* known = m_module->getNamedGlobal(kName)) return known;
  auto* shared =
      new llvm::GlobalVariable(*m_module, llvm::ArrayType::get(m_b.getInt8Ty(), 0), false, llvm::GlobalValue::ExternalLinkage,
                               nullptr, kName, nullptr, llvm::GlobalValue::NotThreadLocal, kShared);
  shared->setAlignment(llvm::Align(1024));
  return shared;
}

LV* ModuleEmitter::address(BufferId id, LV* offset) {
  if (!offset->getType()->isIntegerTy(64)) offset = m_b.CreateSExt(offset, m_b.getInt64Ty());
  return m_b.CreateInBoundsGEP(elementType(id), pointer(id), offset);
}

llvm::Align ModuleEmitter::alignment(BufferId id, std::int64_t elements) {
  const std::uint64_t bytes = elementType(id)->getPrimitiveSizeInBits() / 8;
  return llvm::Align(bytes * static_cast<std::uint64_t>(elements));
}

LV* ModuleEmitter::loaded(BufferId id, LV* element) {
  const Buffer& buffer = m_f[id];
  return buffer.scope == Scope::Local && buffer.type != DType::Bool ? element : fromStorage(element, buffer.type);
}

LV* ModuleEmitter::stored(BufferId id, LV* value, DType from) {
  const Buffer& buffer = m_f[id];
  value = convert(value, from, arithmeticType(buffer.type));
  return buffer.scope == Scope::Local && buffer.type != DType::Bool ? value : toStorage(value, buffer.type);
}

LV* ModuleEmitter::inside(LV* index, const DataIndex& d, LV* asked) {
  LV* within = m_b.CreateICmpULT(index, m_b.getInt64(static_cast<std::uint64_t>(d.extent)));
  LV* bad = m_b.CreateNot(within);
  guarded(asked ? m_b.CreateAnd(asked, bad) : bad, [&] {
    LV* code = m_b.CreateOr(m_b.CreateShl(m_b.CreateZExt(m_kernel, m_b.getInt64Ty()), 32), m_b.getInt64(d.check + 1u));
    const auto relaxed = llvm::AtomicOrdering::Monotonic;
    LV* swapped = m_b.CreateAtomicCmpXchg(m_status, m_b.getInt64(0), code, llvm::Align(8), relaxed, relaxed);
    guarded(m_b.CreateExtractValue(swapped, 1),
            [&] { m_b.CreateAlignedStore(index, m_b.CreateConstInBoundsGEP1_64(m_b.getInt64Ty(), m_status, 1), llvm::Align(8)); });
  });
  return asked ? m_b.CreateAnd(asked, within) : within;
}

ModuleEmitter::Access ModuleEmitter::access(const Place& p, const Values& values, LV* guard) {
  Access result{index(p.offset), guard};
  if (p.data.empty()) return result;
  if (result.offset->getType()->isIntegerTy(32)) result.offset = m_b.CreateSExt(result.offset, m_b.getInt64Ty());
  for (const DataIndex& d : p.data) {
    LV* number = m_b.CreateSExt(values.at(d.value), m_b.getInt64Ty());
    result.guard = inside(number, d, result.guard);
    result.offset = m_b.CreateAdd(result.offset, m_b.CreateMul(number, m_b.getInt64(static_cast<std::uint64_t>(d.stride))));
  }
  return result;
}

LV* ModuleEmitter::load(const Value& v, const Values& values) {
  const BufferId buffer = v.place.buffer;
  const Access from = access(v.place, values, v.guard.valid() ? values.at(v.guard) : nullptr);
  const auto read = [&] {
    return loaded(buffer, m_b.CreateAlignedLoad(elementType(buffer), address(buffer, from.offset), alignment(buffer)));
  };
  if (!from.guard) return read();
  LV* zero = llvm::Constant::getNullValue(valueType(m_f[buffer].type));
  llvm::BasicBlock *before = m_b.GetInsertBlock(), *then = block(), *after = block();
  m_b.CreateCondBr(from.guard, then, after);
  m_b.SetInsertPoint(then);
  LV* there = read();
  m_b.CreateBr(after);
  m_b.SetInsertPoint(after);
  llvm::PHINode* result = m_b.CreatePHI(zero->getType(), 2);
  result->addIncoming(there, then);
  result->addIncoming(zero, before);
  return result;
}

// ---------------------------------------------------------------- values

// All that the statement reads, operands first. `known`: what is there already.
ModuleEmitter::Values ModuleEmitter::valuesFor(const Statement& s, const Values& known) {
  Values values;
  for (const ValueId id : valuesOf(m_f, s)) {
    const auto given = known.find(id);
    values[id] = given != known.end() ? given->second : one(m_f[id], values);
  }
  return values;
}

LV* ModuleEmitter::one(const Value& v, const Values& values) {
  const auto operands = [&] {
    std::array<LV*, 3> made{};
    for (std::size_t k = 0; k < made.size(); ++k)
      if (v.operands[k].valid()) made[k] = values.at(v.operands[k]);
    return made;
  };
  switch (v.kind) {
    case Value::Kind::Constant: return constant(v);
    case Value::Kind::Index: return convertIndex(index(v.index), v.type);
    case Value::Kind::IndexGe0:
    case Value::Kind::IndexEq0: {
      LV* x = index(v.index);
      LV* zero = llvm::ConstantInt::get(x->getType(), 0);
      return v.kind == Value::Kind::IndexGe0 ? m_b.CreateICmpSGE(x, zero) : m_b.CreateICmpEQ(x, zero);
    }
    case Value::Kind::Random: {
      LV* point = index(v.index);
      if (point->getType()->isIntegerTy(32)) point = m_b.CreateSExt(point, m_b.getInt64Ty());
      return randomAt(m_keys.at(static_cast<std::uint64_t>(v.constant)), point);
    }
    case Value::Kind::Load: return load(v, values);
    case Value::Kind::Fma: return fma(m_f, v, operands());
    case Value::Kind::Apply: return apply(m_f, v, operands());
  }
  return nullptr;
}

LV* ModuleEmitter::libdevice(const char* name, std::vector<LV*> arguments) {
  llvm::Type* type = arguments.front()->getType();
  const std::vector<llvm::Type*> parameters(arguments.size(), type);
  auto callee = m_module->getOrInsertFunction(std::string("__nv_") + name + (type->isFloatTy() ? "f" : ""),
                                              llvm::FunctionType::get(type, parameters, false));
  auto* fn = llvm::cast<llvm::Function>(callee.getCallee());
  fn->setDoesNotThrow();
  fn->setDoesNotAccessMemory();
  fn->setWillReturn();
  return m_b.CreateCall(callee, arguments);
}

LV* ModuleEmitter::function(ScalarOp op, LV* x) {
  switch (op) {
    case ScalarOp::Exp: return libdevice("exp", {x});
    case ScalarOp::Log: return libdevice("log", {x});
    case ScalarOp::Tanh: return libdevice("tanh", {x});
    case ScalarOp::Erf: return libdevice("erf", {x});
    case ScalarOp::Sin: return libdevice("sin", {x});
    case ScalarOp::Cos: return libdevice("cos", {x});
    case ScalarOp::Sigmoid: {
      LV* one = llvm::ConstantFP::get(x->getType(), 1);
      return m_b.CreateFDiv(one, m_b.CreateFAdd(one, libdevice("exp", {m_b.CreateFNeg(x)})));
    }
    default: break;
  }
  NF_ASSERT(false);
  return nullptr;
}

LV* ModuleEmitter::power(LV* x, LV* y) { return libdevice("pow", {x, y}); }

}  // namespace nf::cuda
