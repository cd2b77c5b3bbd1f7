// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference_execution.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/device/backend.h"
#include "core/device/reference_indices.h"
#include "core/ir/folding.h"
#include "core/support/assert.h"
#include "core/support/counter_random.h"

namespace nf::reference {
namespace {

// Lanes of a strip: all of [0, count), or the listed ones.
struct Lanes {
  std::size_t count = 0;
  const std::uint16_t* list = nullptr;
};

template <class F>
void each(const Lanes& lanes, F&& f) {
  if (!lanes.list) {
    for (std::size_t i = 0; i < lanes.count; ++i) f(i);
  } else {
    for (std::size_t k = 0; k < lanes.count; ++k) f(lanes.list[k]);
  }
}

// Walks the points of one operator, a strip at a time.
class Execution {
 public:
  Execution(const ReferenceKernel::Code& code, const ReferenceKernel::Bindings& bindings)
      : m_code(code), m_bindings(bindings), m_indices(code, bindings.counters), m_registers(code.registers * kStrip),
        m_done(code.calls * kStrip) {
    for (const auto& [reg, value] : code.constants) std::fill_n(registerOf(reg), kStrip, value);
    for (const auto& block : code.blocks)
      for (const Instruction& i : block)
        if (i.kind == Kind::Random) m_keys.emplace(i.stream, randomKey(bindings.seed, bindings.step, i.stream));
  }

  Result<Unit> run() {
    m_bindings.output->assign(static_cast<std::size_t>(m_code.outputElements), 0.0);
    std::int64_t point = 0;
    while (point < m_code.points) {
      const auto count = static_cast<std::size_t>(std::min<std::int64_t>(kStrip, m_code.points - point));
      m_indices.fillStrip(count);
      std::fill(m_done.begin(), m_done.end(), 0);
      if (m_code.scatter) scatterStrip(count);
      else gatherStrip(count);
      if (!m_error.empty()) return Error{"interpret", m_error, "reference", {}};
      if (m_bindings.stop && m_bindings.stop->load(std::memory_order_relaxed)) return stopped();
      point += static_cast<std::int64_t>(count);
    }
    return Unit{};
  }

 private:
  double* registerOf(std::uint32_t reg) { return m_registers.data() + static_cast<std::size_t>(reg) * kStrip; }
  const std::int64_t* slotOf(std::uint32_t slot) const { return m_indices.slot(slot); }

  // ------------------------------------------------------------ instructions
  // nullopt: a NaN.
  static std::optional<std::int64_t> indexOf(double value, bool wide) {
    if (wide) return wholeI64(value);
    return std::isnan(value) ? std::nullopt : std::optional(static_cast<std::int64_t>(std::clamp(value, -0x1p62, 0x1p62)));
  }

  void outOfRange(const Instruction& i, std::uint32_t component, std::optional<std::int64_t> value, std::int64_t extent) {
    if (!m_error.empty()) return;
    const std::string text = value ? std::to_string(*value) : "nan";
    m_error = "operator " + m_code.name + ": index " + std::to_string(component) + " of " + m_code.tensorNames.at(i.tensor) +
              " is " + text + ", outside [0, " + std::to_string(extent) + ")";
  }

  void runBlock(std::uint32_t block, const Lanes& lanes) {
    if (lanes.count == 0) return;
    for (const Instruction& i : m_code.blocks[block]) {
      if (!m_error.empty()) return;
      double* out = registerOf(i.dst);
      switch (i.kind) {
        case Kind::Scalar: scalar(i, out, lanes); break;
        case Kind::Index:
          if (i.type == DType::I64) each(lanes, [&, s = slotOf(i.slot)](std::size_t l) { out[l] = heldI64(s[l]); });
          else each(lanes, [&, s = slotOf(i.slot)](std::size_t l) { out[l] = static_cast<double>(s[l]); });
          break;
        case Kind::Ge0: each(lanes, [&, s = slotOf(i.slot)](std::size_t l) { out[l] = s[l] >= 0; }); break;
        case Kind::Eq0: each(lanes, [&, s = slotOf(i.slot)](std::size_t l) { out[l] = s[l] == 0; }); break;
        case Kind::Random:
          each(lanes, [&, s = slotOf(i.slot), key = m_keys.at(i.stream)](std::size_t l) { out[l] = randomUniform(key, s[l]); });
          break;
        case Kind::Load: load(i, out, lanes); break;
        case Kind::Select: select(i, out, lanes); break;
        case Kind::CallOnce: callOnce(i, lanes); break;
      }
    }
  }

  void load(const Instruction& i, double* out, const Lanes& lanes) {
    for (const Check& check : i.checks) {
      const std::int64_t* s = slotOf(check.slot);
      each(lanes, [&](std::size_t l) {
        if (s[l] < 0 || s[l] >= check.extent) outOfRange(i, check.component, s[l], check.extent);
      });
    }
    for (const DataIndex& d : i.data) {
      const double* v = registerOf(d.reg);
      each(lanes, [&](std::size_t l) {
        const auto index = indexOf(v[l], d.wide);
        if (!index || *index < 0 || *index >= d.extent) outOfRange(i, d.component, index, d.extent);
      });
    }
    if (!m_error.empty()) return;
    const double* values = m_bindings.tensors[i.tensor]->data();
    const std::int64_t* s = slotOf(i.slot);
    if (i.data.empty()) {
      each(lanes, [&](std::size_t l) { out[l] = values[s[l]]; });
      return;
    }
    each(lanes, [&](std::size_t l) {
      std::int64_t offset = s[l];
      for (const DataIndex& d : i.data) offset += d.stride * *indexOf(registerOf(d.reg)[l], d.wide);
      out[l] = values[offset];
    });
  }

  void select(const Instruction& i, double* out, const Lanes& lanes) {
    const auto branch = [&](std::uint32_t block, std::uint32_t reg, const Lanes& some) {
      runBlock(block, some);
      const double* value = registerOf(reg);
      each(some, [&](std::size_t l) { out[l] = value[l]; });
    };
    std::uint16_t yes[kStrip], no[kStrip];
    std::size_t yesCount = 0, noCount = 0;
    const auto split = [&](auto&& holds) {
      each(lanes, [&](std::size_t l) {
        const bool h = holds(l);
        yes[yesCount] = no[noCount] = static_cast<std::uint16_t>(l);
        yesCount += h;
        noCount += !h;
      });
    };
    if (i.onIndices()) {
      // Negative where any condition fails.
      std::int64_t fails[kStrip];
      each(lanes, [&](std::size_t l) { fails[l] = 0; });
      for (const std::uint32_t k : i.atLeastZero) each(lanes, [&, s = slotOf(k)](std::size_t l) { fails[l] |= s[l]; });
      for (const std::uint32_t k : i.zero) each(lanes, [&, s = slotOf(k)](std::size_t l) { fails[l] |= s[l] | -s[l]; });
      split([&](std::size_t l) { return fails[l] >= 0; });
    } else {
      const double* condition = registerOf(i.a);
      split([&](std::size_t l) { return condition[l] != 0; });
    }
    if (noCount == 0) return branch(i.thenBlock, i.thenReg, lanes);
    if (yesCount == 0) return branch(i.elseBlock, i.elseReg, lanes);
    branch(i.thenBlock, i.thenReg, {yesCount, yes});
    branch(i.elseBlock, i.elseReg, {noCount, no});
  }

  void callOnce(const Instruction& i, const Lanes& lanes) {
    std::uint8_t* done = m_done.data() + static_cast<std::size_t>(i.a) * kStrip;
    std::uint16_t left[kStrip];
    std::size_t count = 0;
    each(lanes, [&](std::size_t l) {
      if (!done[l]) left[count++] = static_cast<std::uint16_t>(l);
      done[l] = 1;
    });
    if (count == lanes.count) runBlock(i.thenBlock, lanes);
    else runBlock(i.thenBlock, {count, left});
  }

  void scalar(const Instruction& i, double* out, const Lanes& lanes) {
    const double* a = registerOf(i.a);
    const double* b = registerOf(i.b);
    const auto map = [&](auto f) { each(lanes, [&](std::size_t l) { out[l] = f(a[l]); }); };
    const auto zip = [&](auto f) { each(lanes, [&](std::size_t l) { out[l] = f(a[l], b[l]); }); };
    if (i.wideA || i.wideB || i.type == DType::I64) {
      const auto operand = [](double v, bool wide) { return wide ? wholeI64(v) : static_cast<std::int64_t>(v); };
      const bool binary = info(i.op).arity > 1;
      return each(lanes, [&](std::size_t l) {
        const std::int64_t v = evaluateI64(i.op, operand(a[l], i.wideA), binary ? operand(b[l], i.wideB) : 0);
        out[l] = i.type == DType::I64 ? heldI64(v) : static_cast<double>(v);
      });
    }
    if (i.type == DType::I32) switch (i.op) {
        case ScalarOp::Neg: return map([](double x) { return wrappedI32(-x); });
        case ScalarOp::Abs: return map([](double x) { return wrappedI32(std::fabs(x)); });
        case ScalarOp::Add: return zip([](double x, double y) { return wrappedI32(x + y); });
        case ScalarOp::Sub: return zip([](double x, double y) { return wrappedI32(x - y); });
        case ScalarOp::Mul: return zip(wrappedProduct);
        // By zero as on i64 and on every device: a // 0 is 0, a % 0 is a.
        case ScalarOp::FloorDiv: return zip([](double x, double y) { return y == 0 ? 0.0 : wrappedI32(std::floor(x / y)); });
        case ScalarOp::Mod: return zip([](double x, double y) { return y == 0 ? x : x - y * std::floor(x / y); });
        default: break;
      }
    switch (i.op) {
      case ScalarOp::Neg: return map([](double x) { return -x; });
      case ScalarOp::Not: return map([](double x) { return x == 0 ? 1.0 : 0.0; });
      case ScalarOp::Exp: return map([](double x) { return std::exp(x); });
      case ScalarOp::Log: return map([](double x) { return std::log(x); });
      case ScalarOp::Sqrt: return map([](double x) { return std::sqrt(x); });
      case ScalarOp::Rsqrt: return map([](double x) { return 1 / std::sqrt(x); });
      case ScalarOp::Tanh: return map([](double x) { return std::tanh(x); });
      case ScalarOp::Sigmoid: return map([](double x) { return 1 / (1 + std::exp(-x)); });
      case ScalarOp::Erf: return map([](double x) { return std::erf(x); });
      case ScalarOp::Sin: return map([](double x) { return std::sin(x); });
      case ScalarOp::Cos: return map([](double x) { return std::cos(x); });
      case ScalarOp::Abs: return map([](double x) { return std::fabs(x); });
      case ScalarOp::Floor: return map([](double x) { return std::floor(x); });
      case ScalarOp::Relu: return map([](double x) { return x <= 0 ? 0.0 : x; });
      case ScalarOp::Cast:
        if (i.type == DType::I32) return map([](double x) { return std::trunc(x); });
        if (m_code.rounds) return map([type = i.type](double x) { return storedAs(type, x); });
        return map([](double x) { return x; });
      case ScalarOp::StopGradient: return map([](double x) { return x; });
      case ScalarOp::Add: return zip([](double x, double y) { return x + y; });
      case ScalarOp::Sub: return zip([](double x, double y) { return x - y; });
      case ScalarOp::Mul: return zip([](double x, double y) { return x * y; });
      case ScalarOp::Div: return zip([](double x, double y) { return x / y; });
      case ScalarOp::Pow: return zip([](double x, double y) { return powerOf(x, y); });
      case ScalarOp::FloorDiv: return zip([](double x, double y) { return std::floor(x / y); });
      case ScalarOp::Mod: return zip([](double x, double y) { return x - y * std::floor(x / y); });
      case ScalarOp::Max: return zip([](double x, double y) { return x > y || std::isnan(x) ? x : y; });
      case ScalarOp::Min: return zip([](double x, double y) { return x < y || std::isnan(x) ? x : y; });
      case ScalarOp::Lt: return zip([](double x, double y) { return x < y ? 1.0 : 0.0; });
      case ScalarOp::Le: return zip([](double x, double y) { return x <= y ? 1.0 : 0.0; });
      case ScalarOp::Eq: return zip([](double x, double y) { return x == y ? 1.0 : 0.0; });
      case ScalarOp::Ne: return zip([](double x, double y) { return x != y ? 1.0 : 0.0; });
      case ScalarOp::And: return zip([](double x, double y) { return x != 0 && y != 0 ? 1.0 : 0.0; });
      case ScalarOp::Or: return zip([](double x, double y) { return x != 0 || y != 0 ? 1.0 : 0.0; });
      case ScalarOp::Constant:
      case ScalarOp::Index:
      case ScalarOp::Load:
      case ScalarOp::Training:
      case ScalarOp::Random:
      case ScalarOp::IndexGe0:
      case ScalarOp::IndexEq0:
      case ScalarOp::Select: break;
    }
    NF_ASSERT(false);
  }

  // ------------------------------------------------------------ results
  void gatherStrip(std::size_t count) {
    runBlock(0, {count, nullptr});
    if (!m_error.empty()) return;
    const double* value = registerOf(m_code.result);
    double* out = m_bindings.output->data();
    if (m_code.reducer == Reducer::None) {
      for (std::size_t l = 0; l < count; ++l) out[m_outputAt++] = value[l];
      return;
    }
    if (m_code.reducer == Reducer::Sum) return sumStrip(count, value, out);
    for (std::size_t l = 0; l < count; ++l) {
      combine(value[l]);
      if (++m_reducedAt < m_code.reduced) continue;
      const bool arg = m_code.reducer == Reducer::ArgMax || m_code.reducer == Reducer::ArgMin;
      out[m_outputAt++] = arg ? static_cast<double>(m_best) : m_accumulator;
      m_reducedAt = 0;
    }
  }

  void sumStrip(std::size_t count, const double* value, double* out) {
    std::size_t l = 0;
    while (l < count) {
      const auto end =
          l + static_cast<std::size_t>(std::min<std::int64_t>(static_cast<std::int64_t>(count - l), m_code.reduced - m_reducedAt));
      m_reducedAt += static_cast<std::int64_t>(end - l);
      double sum = m_accumulator;
      for (; l < end; ++l) sum += value[l];
      m_accumulator = sum;
      if (m_reducedAt < m_code.reduced) return;
      out[m_outputAt++] = m_code.integers ? wrappedI32(sum) : sum;
      m_accumulator = 0;
      m_reducedAt = 0;
    }
  }

  void combine(double v) {
    if (m_reducedAt == 0) {
      m_accumulator = v;
      m_best = 0;
      return;
    }
    bool better = false;
    switch (m_code.reducer) {
      case Reducer::Prod: m_accumulator = m_code.integers ? wrappedProduct(m_accumulator, v) : m_accumulator * v; return;
      case Reducer::Max:
      case Reducer::ArgMax: better = v > m_accumulator; break;
      case Reducer::Min:
      case Reducer::ArgMin: better = v < m_accumulator; break;
      case Reducer::Sum:
      case Reducer::None: break;
    }
    // The first NaN wins and stays.
    if (better || (std::isnan(v) && !std::isnan(m_accumulator))) {
      m_accumulator = v;
      m_best = m_reducedAt;
    }
  }

  void scatterStrip(std::size_t count) {
    std::uint16_t list[kStrip];
    Lanes lanes{count, nullptr};
    for (std::size_t k = 0; k < m_code.guards.size(); ++k) {
      runBlock(m_code.stages[k], lanes);
      const double* guard = registerOf(m_code.guards[k]);
      std::size_t kept = 0;
      each(lanes, [&](std::size_t l) {
        if (guard[l] != 0) list[kept++] = static_cast<std::uint16_t>(l);
      });
      lanes = {kept, list};
    }
    runBlock(m_code.stages.back(), lanes);
    if (!m_error.empty()) return;
    const double* value = registerOf(m_code.result);
    double* out = m_bindings.output->data();
    each(lanes, [&](std::size_t l) {
      std::int64_t offset = 0;
      for (std::size_t k = 0; k < m_code.targets.size(); ++k) {
        const auto& target = m_code.targets[k];
        if (target.data) {
          const auto v = indexOf(registerOf(target.reg)[l], target.wide);
          if (!v || *v < 0 || *v >= target.extent) {
            if (m_error.empty())
              m_error = "operator " + m_code.name + ": index " + std::to_string(k) + " of what it adds to is " +
                        (v ? std::to_string(*v) : std::string("nan")) + ", outside [0, " + std::to_string(target.extent) + ")";
            return;
          }
          offset += target.stride * *v;
        } else {
          const std::int64_t v = slotOf(target.slot)[l];
          if (v < 0 || v >= target.extent) return;
          offset += target.stride * v;
        }
      }
      out[offset] = m_code.integers ? wrappedI32(out[offset] + value[l]) : out[offset] + value[l];
    });
  }

  const ReferenceKernel::Code& m_code;
  const ReferenceKernel::Bindings& m_bindings;
  IndexStepper m_indices;
  std::vector<double> m_registers;
  std::vector<std::uint8_t> m_done;
  std::unordered_map<std::uint32_t, std::uint64_t> m_keys;
  std::string m_error;
  std::size_t m_outputAt = 0;
  std::int64_t m_reducedAt = 0, m_best = 0;
  double m_accumulator = 0;
};

}  // namespace

Result<Unit> execute(const ReferenceKernel::Code& code, const ReferenceKernel::Bindings& bindings) {
  return Execution(code, bindings).run();
}

}  // namespace nf::reference
