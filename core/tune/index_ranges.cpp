// SPDX-License-Identifier: Apache-2.0
#include "core/tune/index_ranges.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace nf {
namespace {

// Binary exponents of the widths that are tried: from this many above the extent's.
constexpr int kWider = 8, kNarrowest = -20;

double roundingOf(DType type) {
  switch (type) {
    case DType::F16: return 2e-3;
    case DType::BF16: return 2e-2;
    case DType::F64: return 1e-12;
    default: return 2e-6;
  }
}

// Where ranges of this width may begin: the common ones first.
std::vector<double> startsOf(double width) {
  std::vector<double> from{0, -width / 2, -width};
  for (int k = 1; k <= 8; ++k) from.insert(from.end(), {static_cast<double>(k), static_cast<double>(-k)});
  for (int k = 1; k <= 4; ++k) from.insert(from.end(), {k * width, -(k + 1) * width});
  return from;
}

}  // namespace

// Contains every value of an expression. `whole`: they are whole numbers and computed without rounding.
struct IndexRanges::Interval {
  double low = -INFINITY, high = INFINITY;
  bool nan = true, whole = false;

  static Interval of(double low, double high, bool whole = false) { return {low, high, false, whole}; }
};

class IndexRanges::Analysis {
 public:
  Analysis(const Program& program, const std::vector<std::optional<ValueRange>>& ranges) : m_program(program) {
    m_tensors.resize(program.tensors.size());
    for (std::size_t t = 0; t < program.tensors.size(); ++t) {
      const DType type = program.tensors[t].type;
      const ValueRange range = ranges[t].value_or(freeRange(type));
      m_tensors[t] = Interval::of(range.low, range.high, !isFloating(type));
      if (isFloating(type)) m_tensors[t] = widened(m_tensors[t], type == DType::F32 ? DType::F64 : type);
    }
    for (const Operator& op : program.operators) run(op);
  }

  bool holds(const Index& index) const {
    const auto found = m_indices.find({index.op.value, index.value.value});
    if (found == m_indices.end()) return false;
    const Interval& i = found->second;
    const Interval v = i.whole ? i : widened(i, DType::F32);
    return !v.nan && v.low >= 0 && v.high < static_cast<double>(index.extent);
  }

 private:
  static Interval widened(const Interval& i, DType type) {
    const double by = roundingOf(type) * std::max(std::fabs(i.low), std::fabs(i.high));
    if (!std::isfinite(by)) return i;
    return {i.low - by, i.high + by, i.nan, false};
  }

  static Interval joined(const Interval& a, const Interval& b) {
    return {std::min(a.low, b.low), std::max(a.high, b.high), a.nan || b.nan, a.whole && b.whole};
  }

  template <class F>
  static Interval corners(const Interval& a, const Interval& b, F f) {
    const double values[] = {f(a.low, b.low), f(a.low, b.high), f(a.high, b.low), f(a.high, b.high)};
    Interval r{values[0], values[0], a.nan || b.nan, a.whole && b.whole};
    for (const double v : values) {
      if (std::isnan(v)) return {};
      r.low = std::min(r.low, v);
      r.high = std::max(r.high, v);
    }
    return r;
  }

  template <class F>
  static Interval rising(const Interval& a, F f, bool whole = false) {
    return {f(a.low), f(a.high), a.nan, whole};
  }

  // A value that rounding may have pushed over a whole number before its fraction is cut off.
  template <class F>
  static Interval cut(const Interval& a, F f) {
    return rising(a.whole ? a : widened(a, DType::F32), f, true);
  }

  static Interval power(const Interval& a, const Interval& b) {
    const auto pow = [](double x, double y) { return std::pow(x, y); };
    if (a.low > 0 || (a.low >= 0 && b.low > 0)) {
      Interval r = corners(a, b, pow);
      r.whole = false;
      return r;
    }
    if (b.low != b.high || b.low != std::floor(b.low) || b.low < 0) return {};
    const double low = std::pow(a.low, b.low), high = std::pow(a.high, b.low);
    if (std::fmod(b.low, 2) != 0) return {low, high, a.nan || b.nan, a.whole};
    return {a.low <= 0 && a.high >= 0 ? 0 : std::min(low, high), std::max(low, high), a.nan || b.nan, a.whole};
  }

  static Interval quotient(const Interval& a, const Interval& b) {
    if (b.low <= 0 && b.high >= 0) return {};
    Interval r = corners(a, b, [](double x, double y) { return x / y; });
    r.whole = false;
    return r;
  }

  static Interval remainder(const Interval& a, const Interval& b) {
    const bool nan = a.nan || b.nan, whole = a.whole && b.whole;
    if (!std::isfinite(a.low) || !std::isfinite(a.high)) return {};
    if (b.low > 0) {
      if (a.low >= 0 && a.high < b.low) return {a.low, a.high, nan, whole};
      return {0, whole ? b.high - 1 : b.high, nan, whole};
    }
    if (b.high < 0) return {whole ? b.low + 1 : b.low, 0, nan, whole};
    return {};
  }

  Interval node(const Operator& op, const ScalarNode& n, const std::map<std::uint32_t, Interval>& nodes) const {
    const auto at = [&](int k) -> const Interval& { return nodes.at(n.operands[static_cast<std::size_t>(k)].value); };
    switch (n.op) {
      case ScalarOp::Constant:
        return std::isnan(n.value) ? Interval{} : Interval::of(n.value, n.value, n.value == std::floor(n.value));
      case ScalarOp::Index: {
        const RangeOf axes = rangesOf(op);
        const auto range = bounds(m_program[n.index], [&](IndexVar v) -> std::optional<Range> {
          if (v >= kLoopVariable) return Range{0, 0};  // the gate runs the first turn
          return axes(v);
        });
        if (!range) return {};
        return Interval::of(static_cast<double>(range->lo), static_cast<double>(range->hi), true);
      }
      case ScalarOp::Load: return m_tensors[m_program[n.access].tensor.value];
      case ScalarOp::Training:
      case ScalarOp::IndexGe0:
      case ScalarOp::IndexEq0:
      case ScalarOp::Not:
      case ScalarOp::Lt:
      case ScalarOp::Le:
      case ScalarOp::Eq:
      case ScalarOp::Ne:
      case ScalarOp::And:
      case ScalarOp::Or: return Interval::of(0, 1, true);
      case ScalarOp::Random: return Interval::of(0, 1 - 0x1p-25);
      case ScalarOp::Neg: return {-at(0).high, -at(0).low, at(0).nan, at(0).whole};
      case ScalarOp::Exp: return rising(at(0), [](double x) { return std::exp(x); });
      case ScalarOp::Log:
        if (!(at(0).low > 0)) return {};
        return rising(at(0), [](double x) { return std::log(x); });
      case ScalarOp::Sqrt:
        if (!(at(0).low >= 0)) return {};
        return rising(at(0), [](double x) { return std::sqrt(x); });
      case ScalarOp::Rsqrt:
        if (!(at(0).low > 0)) return {};
        return {1 / std::sqrt(at(0).high), 1 / std::sqrt(at(0).low), at(0).nan, false};
      case ScalarOp::Tanh: return rising(at(0), [](double x) { return std::tanh(x); });
      case ScalarOp::Sigmoid: return rising(at(0), [](double x) { return 1 / (1 + std::exp(-x)); });
      case ScalarOp::Erf: return rising(at(0), [](double x) { return std::erf(x); });
      case ScalarOp::Sin:
      case ScalarOp::Cos: return {-1, 1, at(0).nan || !std::isfinite(at(0).low) || !std::isfinite(at(0).high), false};
      case ScalarOp::Abs: {
        const Interval& a = at(0);
        const double low = a.low <= 0 && a.high >= 0 ? 0 : std::min(std::fabs(a.low), std::fabs(a.high));
        return {low, std::max(std::fabs(a.low), std::fabs(a.high)), a.nan, a.whole};
      }
      case ScalarOp::Floor: return cut(at(0), [](double x) { return std::floor(x); });
      case ScalarOp::Relu:
        return rising(
            at(0), [](double x) { return std::max(x, 0.0); }, at(0).whole);
      case ScalarOp::Cast:
        if (n.type == DType::I32) return cut(at(0), [](double x) { return std::trunc(x); });
        return n.type == DType::F16 || n.type == DType::BF16 ? widened(at(0), n.type) : at(0);
      case ScalarOp::StopGradient: return at(0);
      case ScalarOp::Add: return corners(at(0), at(1), [](double x, double y) { return x + y; });
      case ScalarOp::Sub: return corners(at(0), at(1), [](double x, double y) { return x - y; });
      case ScalarOp::Mul: return corners(at(0), at(1), [](double x, double y) { return x * y; });
      case ScalarOp::Div: return quotient(at(0), at(1));
      case ScalarOp::Pow: return power(at(0), at(1));
      case ScalarOp::FloorDiv: return cut(quotient(at(0), at(1)), [](double x) { return std::floor(x); });
      case ScalarOp::Mod: return remainder(at(0), at(1));
      case ScalarOp::Max: return corners(at(0), at(1), [](double x, double y) { return std::max(x, y); });
      case ScalarOp::Min: return corners(at(0), at(1), [](double x, double y) { return std::min(x, y); });
      case ScalarOp::Select: return joined(at(1), at(2));
    }
    return {};
  }

  Interval reduced(const Operator& op, const Interval& body) const {
    double count = 1;
    for (std::size_t k = op.outputRank; k < op.axes.size(); ++k) count *= static_cast<double>(op.axes[k].extent);
    switch (op.reducer) {
      case Reducer::Sum: return {body.low * count, body.high * count, body.nan, body.whole};
      case Reducer::Prod: return power(body, Interval::of(count, count, true));
      case Reducer::ArgMax:
      case Reducer::ArgMin: return Interval::of(0, count - 1, true);
      case Reducer::None:
      case Reducer::Max:
      case Reducer::Min: return body;
    }
    return {};
  }

  void run(const Operator& op) {
    const auto id = static_cast<std::uint32_t>(&op - m_program.operators.data());
    if (op.kind != OperatorKind::Gather && op.kind != OperatorKind::Scatter) return;
    std::map<std::uint32_t, Interval> nodes;
    const auto evaluate = [&](ExprId root) {
      for (const ExprId e : nodesOf(m_program, root))
        if (!nodes.contains(e.value)) nodes[e.value] = node(op, m_program[e], nodes);
    };
    evaluate(op.body);
    for (const AccessIndex& index : op.scatter)
      if (index.isData()) evaluate(index.data);
    for (const auto& [e, interval] : nodes) m_indices[{id, e}] = interval;
    Interval result = reduced(op, nodes[op.body.value]);
    const Tensor& output = m_program[op.output];
    if (op.kind == OperatorKind::Scatter) {
      double points = 1;
      for (const Axis& axis : op.axes) points *= static_cast<double>(axis.extent);
      const Interval& body = nodes[op.body.value];
      result = {std::min(body.low * points, 0.0), std::max(body.high * points, 0.0), body.nan, body.whole};
    }
    if (output.type == DType::I32) result = cut(result, [](double x) { return std::trunc(x); });
    else if (!result.whole) result = widened(result, output.type);
    if (std::isnan(result.low) || std::isnan(result.high)) result = {};
    m_tensors[op.output.value] = result;
  }

  const Program& m_program;
  std::vector<Interval> m_tensors;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Interval> m_indices;
};

ValueRange IndexRanges::freeRange(DType type) {
  if (type == DType::I32) return {0, 3};
  if (type == DType::Bool) return {0, 1};
  return {-2, 2};
}

IndexRanges::IndexRanges(const Program& program)
    : m_program(program), m_reaches(program.tensors.size(), false), m_input(program.tensors.size(), false) {
  const std::vector<OperatorId> made = producers(program);
  // Which inputs each tensor is computed from.
  std::vector<std::vector<bool>> from(program.tensors.size(), std::vector<bool>());
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    m_input[t] = !made[t].valid();
    if (!m_input[t]) continue;
    from[t].assign(program.tensors.size(), false);
    from[t][t] = true;
  }
  const auto add = [](std::vector<bool>& to, const std::vector<bool>& more) {
    if (to.size() < more.size()) to.resize(more.size(), false);
    for (std::size_t k = 0; k < more.size(); ++k)
      if (more[k]) to[k] = true;
  };
  const auto inputsOf = [&](ExprId root) {
    std::vector<bool> inputs(program.tensors.size(), false);
    for (const ExprId e : nodesOf(program, root))
      if (program[e].op == ScalarOp::Load) add(inputs, from[program[program[e].access].tensor.value]);
    return inputs;
  };
  for (std::size_t o = 0; o < program.operators.size(); ++o) {
    const Operator& op = program.operators[o];
    if (op.kind != OperatorKind::Gather && op.kind != OperatorKind::Scatter) continue;
    // Read whatever a select decides: not below one of its branches.
    std::map<std::uint32_t, bool> always;
    std::vector<ExprId> open{op.body};
    while (!open.empty()) {
      const ExprId e = open.back();
      open.pop_back();
      if (!always.emplace(e.value, true).second) continue;
      const ScalarNode& n = program[e];
      const int operands = n.op == ScalarOp::Select ? 1 : info(n.op).arity;
      for (int k = 0; k < operands; ++k) open.push_back(n.operands[static_cast<std::size_t>(k)]);
      if (n.op == ScalarOp::Load)
        for (const AccessIndex& index : program[n.access].indices)
          if (index.isData()) open.push_back(index.data);
    }
    const auto note = [&](const AccessIndex& index, std::int64_t extent, bool guarded) {
      if (!index.isData()) return;
      m_indices.push_back({OperatorId(o), index.data, extent, guarded, inputsOf(index.data)});
      add(m_reaches, m_indices.back().inputs);
    };
    const auto noteReads = [&](ExprId root, bool unconditional) {
      for (const ExprId e : nodesOf(program, root)) {
        const ScalarNode& n = program[e];
        if (n.op != ScalarOp::Load) continue;
        const Access& access = program[n.access];
        for (std::size_t k = 0; k < access.indices.size(); ++k)
          note(access.indices[k], program[access.tensor].shape[k], !unconditional && !always.contains(e.value));
      }
    };
    noteReads(op.body, false);
    for (const AccessIndex& index : op.scatter)
      if (index.isData()) noteReads(index.data, true);
    for (std::size_t k = 0; k < op.scatter.size(); ++k) note(op.scatter[k], program[op.output].shape[k], false);
    std::vector<bool> inputs(program.tensors.size(), false);
    for (const TensorId t : readsOf(program, OperatorId(o))) add(inputs, from[t.value]);
    for (const TensorId t : writesOf(program, OperatorId(o))) from[t.value] = inputs;
  }
}

// Values stand in the middle of 1/256 of the width: none lies on a bound, where rounding would decide.
ValueRange IndexRanges::candidate(DType type, double from, double width) const {
  if (!isFloating(type)) {
    const double low = std::ceil(from);
    return {low, std::max(low, std::ceil(from + width) - 1)};
  }
  return {from + width / 512, from + width - width / 512};
}

std::optional<std::vector<std::optional<ValueRange>>> IndexRanges::within(const std::vector<std::optional<ValueRange>>& ranges,
                                                                          const std::vector<bool>& inputs, double from,
                                                                          double width) const {
  auto narrowed = ranges;
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    if (!inputs[t] || !m_input[t] || m_program.tensors[t].type == DType::Bool) continue;
    ValueRange range = candidate(m_program.tensors[t].type, from, width);
    if (ranges[t]) range = {std::max(range.low, ranges[t]->low), std::min(range.high, ranges[t]->high)};
    if (range.low > range.high) return std::nullopt;
    narrowed[t] = range;
  }
  return narrowed;
}

IndexRanges::Choice IndexRanges::choose(bool guarded) const {
  Choice choice;
  choice.ranges.resize(m_program.tensors.size());
  if (!any()) {
    choice.proved = true;
    return choice;
  }
  std::vector<const Index*> held;
  for (const Index& index : m_indices) {
    if (index.guarded && !guarded) continue;
    if (Analysis(m_program, choice.ranges).holds(index)) {
      held.push_back(&index);
      continue;
    }
    // What is proved already stays so: ranges only get narrower.
    const auto settled = [&](double from, double width) {
      const auto narrowed = within(choice.ranges, index.inputs, from, width);
      if (!narrowed || !Analysis(m_program, *narrowed).holds(index)) return false;
      choice.ranges = *narrowed;
      held.push_back(&index);
      return true;
    };
    bool found = settled(0, static_cast<double>(index.extent));
    for (int exponent = std::ilogb(static_cast<double>(index.extent)) + kWider; !found && exponent >= kNarrowest; --exponent) {
      const double width = std::ldexp(1.0, exponent);
      for (const double from : startsOf(width))
        if (found = settled(from, width); found) break;
    }
  }
  // Now as wide as everything that is proved allows.
  for (std::size_t t = 0; t < m_reaches.size(); ++t) {
    const DType type = m_program.tensors[t].type;
    if (!m_input[t] || !m_reaches[t] || type == DType::Bool) continue;
    if (!choice.ranges[t]) {
      const ValueRange range = freeRange(type);
      choice.ranges[t] = isFloating(type) ? candidate(type, range.low, range.high - range.low) : range;
    }
    std::int64_t most = 1;
    for (const Index& index : m_indices)
      if (index.inputs[t]) most = std::max(most, index.extent);
    if (isFloating(type)) continue;
    double step = 2 * std::ldexp(1.0, std::ilogb(static_cast<double>(most)));
    for (; step >= 1; step /= 2) {
      auto wider = choice.ranges;
      wider[t]->high = std::min(wider[t]->high + step, 2.0 * static_cast<double>(most));
      const Analysis analysis(m_program, wider);
      if (std::all_of(held.begin(), held.end(), [&](const Index* index) { return analysis.holds(*index); })) choice.ranges = wider;
    }
  }
  const Analysis analysis(m_program, choice.ranges);
  choice.proved = std::all_of(m_indices.begin(), m_indices.end(), [&](const Index& index) { return analysis.holds(index); });
  return choice;
}

std::optional<IndexRanges::Choice> IndexRanges::guess(const Choice& base, std::size_t number) const {
  constexpr double kWidths[] = {1, 0.5, 2, 4, 0.25, 8, 0.0625, 16};
  const Analysis analysis(m_program, base.ranges);
  std::vector<bool> open(m_program.tensors.size(), false), bound = open;
  for (const Index& index : m_indices) {
    std::vector<bool>& marks = analysis.holds(index) ? bound : open;
    for (std::size_t t = 0; t < marks.size(); ++t) marks[t] = marks[t] || index.inputs[t];
  }
  // Only what proved indices need still binds.
  auto ranges = base.ranges;
  for (std::size_t t = 0; t < open.size(); ++t)
    if (open[t] && !bound[t]) ranges[t].reset();
  for (std::size_t left = number, k = 0; k < 2 * std::size(kWidths); ++k) {
    const double width = kWidths[k / 2];
    auto narrowed = within(base.ranges, open, k % 2 ? -width / 2 : 0, width);
    if (!narrowed) continue;
    if (left-- == 0) return Choice{*narrowed, false};
  }
  return std::nullopt;
}

}  // namespace nf
