// SPDX-License-Identifier: Apache-2.0
#include "core/tune/point_evaluator.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/ir/folding.h"
#include "core/support/checked.h"
#include "core/support/counter_random.h"

namespace nf {
namespace {

constexpr std::size_t kMaximumNodes = 4000;  // evaluation recurses over them: about 1 MB of stack
constexpr std::int64_t kDenseElements = 4 << 20;

double halfToDouble(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double value = 0;
  if (exponent == 31) value = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  else value = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
  return bits & 0x8000 ? -value : value;
}

std::uint16_t doubleToHalf(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  if (size == 0) return sign;
  int exponent = 0;
  std::frexp(size, &exponent);
  const int scale = std::max(exponent - 11, -24);  // of the last kept bit
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, -scale)));
  // units < 1024 is subnormal; 2048 carries into the exponent by itself.
  return static_cast<std::uint16_t>(sign + (scale == -24 ? units : ((scale + 25) << 10) + units - 1024));
}

// An index expression without its virtual variables: constant + coefficient * position, + coefficient * floor(inner / divisor).
struct CompiledIndex {
  struct Floor {
    std::int64_t coefficient, divisor;
    std::vector<CompiledIndex> numerator;  // one
  };
  std::int64_t constant = 0;
  std::vector<std::pair<std::uint32_t, std::int64_t>> axes;
  std::vector<Floor> floors;

  // Loop counters count as 0: the gate looks at the first turn.
  explicit CompiledIndex(const IndexExpr& e) : constant(e.constant()) {
    for (const IndexTerm& term : e.terms()) {
      if (term.atom.isFloorDiv()) floors.push_back({term.coefficient, term.atom.divisor, {CompiledIndex(*term.atom.numerator)}});
      else if (term.atom.variable < kLoopVariable) axes.emplace_back(term.atom.variable, term.coefficient);
    }
  }
  CompiledIndex() = default;
  std::int64_t at(const std::vector<std::int64_t>& position) const {
    std::int64_t value = constant;
    for (const auto& [axis, coefficient] : axes) value += coefficient * position[axis];
    for (const Floor& f : floors) value += f.coefficient * floorDiv(f.numerator[0].at(position), f.divisor);
    return value;
  }
};

struct CompiledNode {
  ScalarOp op;
  DType type;
  std::uint32_t a = 0, b = 0, c = 0;  // of the same operator
  double value = 0;                   // an i64's as heldI64, here and in CompiledOperator::values
  CompiledIndex index;
  std::uint32_t tensor = 0;
  struct Component {
    bool data = false;
    std::uint32_t node = 0;
    CompiledIndex affine;
    std::int64_t extent = 1;
  };
  std::vector<Component> components;
};

struct CompiledOperator {
  std::vector<CompiledNode> nodes;
  std::uint32_t root = 0;
  std::vector<std::int64_t> extents;
  std::uint32_t outputRank = 0;
  Reducer reducer = Reducer::None;
  std::int64_t reduced = 1;
  // Of the point under evaluation.
  std::vector<std::int64_t> position;
  std::vector<double> values;
  std::vector<std::uint64_t> stamps;
  std::uint64_t stamp = 0;
};

// Computed points of one tensor.
struct Memo {
  bool dense = true;
  std::vector<double> values;
  std::vector<bool> known;
  std::unordered_map<std::int64_t, double> sparse;
};

}  // namespace

double readElement(const TensorView& view, std::int64_t i) {
  switch (view.type) {
    case DType::F32: return static_cast<const float*>(view.data)[i];
    case DType::F64: return static_cast<const double*>(view.data)[i];
    case DType::F16: return halfToDouble(static_cast<const std::uint16_t*>(view.data)[i]);
    case DType::BF16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(view.data)[i]) << 16);
    case DType::I32: return static_cast<const std::int32_t*>(view.data)[i];
    case DType::Bool: return static_cast<const std::uint8_t*>(view.data)[i];
    case DType::I64: break;  // no tensor
  }
  return 0;
}

void writeElement(DType type, void* data, std::int64_t i, double value) {
  switch (type) {
    case DType::F32: static_cast<float*>(data)[i] = static_cast<float>(value); return;
    case DType::F64: static_cast<double*>(data)[i] = value; return;
    case DType::F16: static_cast<std::uint16_t*>(data)[i] = doubleToHalf(value); return;
    case DType::BF16: {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      const bool nan = (bits & 0x7fffffff) > 0x7f800000;
      static_cast<std::uint16_t*>(data)[i] =
          static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
      return;
    }
    case DType::I32: static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(value); return;
    case DType::Bool: static_cast<std::uint8_t*>(data)[i] = value != 0; return;
    case DType::I64: return;  // no tensor
  }
}

struct PointEvaluator::Impl {
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<std::string> names;
  std::vector<TensorView> views;
  std::vector<std::int32_t> producer;  // operator of each tensor, -1: none
  std::vector<CompiledOperator> operators;
  std::vector<Memo> memos;
  bool training = true;
  std::uint64_t seed = 1, step = 0;
  std::int64_t work = 0;
  bool stopped = false;
  std::string failure;

  double tensorValue(std::uint32_t tensor, std::int64_t element) {
    if (views[tensor].data) return readElement(views[tensor], element);
    if (producer[tensor] < 0) return fail(names[tensor] + " has no value");
    Memo& memo = memos[tensor];
    const auto at = static_cast<std::size_t>(element);
    if (memo.dense) {
      if (memo.known[at]) return memo.values[at];
    } else if (const auto found = memo.sparse.find(element); found != memo.sparse.end()) {
      return found->second;
    }
    const double value = compute(operators[static_cast<std::size_t>(producer[tensor])], element);
    if (stopped) return value;
    if (memo.dense) {
      memo.known[at] = true;
      memo.values[at] = value;
    } else {
      memo.sparse.emplace(element, value);
    }
    return value;
  }

  double fail(std::string message) {
    if (failure.empty()) failure = std::move(message);
    stopped = true;
    return std::numeric_limits<double>::quiet_NaN();
  }

  double compute(CompiledOperator& op, std::int64_t element) {
    for (std::size_t k = op.outputRank; k-- > 0;) {
      op.position[k] = element % op.extents[k];
      element /= op.extents[k];
    }
    if (op.reducer == Reducer::None) return point(op);
    std::fill(op.position.begin() + op.outputRank, op.position.end(), 0);
    double accumulator = 0;
    std::int64_t best = 0;
    for (std::int64_t i = 0; i < op.reduced && !stopped; ++i) {
      const double v = point(op);
      combine(op.reducer, i, v, accumulator, best);
      for (std::size_t k = op.extents.size(); k-- > op.outputRank;) {
        if (++op.position[k] < op.extents[k]) break;
        op.position[k] = 0;
      }
    }
    return op.reducer == Reducer::ArgMax || op.reducer == Reducer::ArgMin ? static_cast<double>(best) : accumulator;
  }

  static void combine(Reducer reducer, std::int64_t i, double v, double& accumulator, std::int64_t& best) {
    bool better = i == 0;
    switch (reducer) {
      case Reducer::Sum: accumulator += v; return;
      case Reducer::Prod: accumulator = i == 0 ? v : accumulator * v; return;
      case Reducer::Max:
      case Reducer::ArgMax: better = better || v > accumulator; break;
      case Reducer::Min:
      case Reducer::ArgMin: better = better || v < accumulator; break;
      case Reducer::None: break;
    }
    if (better || (std::isnan(v) && !std::isnan(accumulator))) {
      accumulator = v;
      best = i;
    }
  }

  double point(CompiledOperator& op) {
    ++op.stamp;
    return node(op, op.root);
  }

  double node(CompiledOperator& op, std::uint32_t id) {
    if (op.stamps[id] == op.stamp) return op.values[id];
    if (stopped || --work < 0) {
      stopped = true;
      return 0;
    }
    const double value = evaluate(op, op.nodes[id]);
    op.stamps[id] = op.stamp;
    return op.values[id] = value;
  }

  double load(CompiledOperator& op, const CompiledNode& n) {
    std::int64_t element = 0;
    for (std::size_t k = 0; k < n.components.size(); ++k) {
      const auto& c = n.components[k];
      std::int64_t index = 0;
      if (c.data) {
        const double v = node(op, c.node);
        if (stopped) return 0;
        if (op.nodes[c.node].type == DType::I64) index = wholeI64(v);
        else index = v >= 0 && v < static_cast<double>(c.extent) ? static_cast<std::int64_t>(v) : -1;
      } else {
        index = c.affine.at(op.position);
      }
      if (index < 0 || index >= c.extent)
        return fail("index " + std::to_string(k) + " of " + names[n.tensor] + " is outside [0, " + std::to_string(c.extent) + ")");
      element = element * c.extent + index;
    }
    return tensorValue(n.tensor, element);
  }

  double evaluate(CompiledOperator& op, const CompiledNode& n) {
    const auto a = [&] { return node(op, n.a); };
    const auto b = [&] { return node(op, n.b); };
    const auto both = [&](auto f) {
      const double x = a(), y = b();
      return static_cast<double>(f(x, y));
    };
    if (n.type == DType::I32 && info(n.op).arity > 0 && n.op != ScalarOp::Select) {  // wraps
      const double x = a();
      return evaluateScalar(n.op, n.type, x, info(n.op).arity > 1 ? b() : 0).value_or(n.op == ScalarOp::Mod ? x : 0);
    }
    if (info(n.op).arity > 0 && n.op != ScalarOp::Select &&
        (n.type == DType::I64 || op.nodes[n.a].type == DType::I64 || (info(n.op).arity > 1 && op.nodes[n.b].type == DType::I64))) {
      const auto whole = [&](std::uint32_t id) {
        const double v = node(op, id);
        return op.nodes[id].type == DType::I64 ? wholeI64(v) : static_cast<std::int64_t>(v);
      };
      const std::int64_t x = whole(n.a), value = evaluateI64(n.op, x, info(n.op).arity > 1 ? whole(n.b) : 0);
      return n.type == DType::I64 ? heldI64(value) : static_cast<double>(value);
    }
    switch (n.op) {
      case ScalarOp::Constant: return n.value;
      case ScalarOp::Index: {
        const std::int64_t value = n.index.at(op.position);
        return n.type == DType::I64 ? heldI64(value) : static_cast<double>(value);
      }
      case ScalarOp::Load: return load(op, n);
      case ScalarOp::Training: return training;
      case ScalarOp::Random:
        return randomUniform(randomKey(seed, step, static_cast<std::uint64_t>(n.value)), n.index.at(op.position));
      case ScalarOp::IndexGe0: return n.index.at(op.position) >= 0;
      case ScalarOp::IndexEq0: return n.index.at(op.position) == 0;
      case ScalarOp::Neg: return -a();
      case ScalarOp::Not: return a() == 0;
      case ScalarOp::Exp: return std::exp(a());
      case ScalarOp::Log: return std::log(a());
      case ScalarOp::Sqrt: return std::sqrt(a());
      case ScalarOp::Rsqrt: return 1 / std::sqrt(a());
      case ScalarOp::Tanh: return std::tanh(a());
      case ScalarOp::Sigmoid: return 1 / (1 + std::exp(-a()));
      case ScalarOp::Erf: return std::erf(a());
      case ScalarOp::Sin: return std::sin(a());
      case ScalarOp::Cos: return std::cos(a());
      case ScalarOp::Abs: return std::fabs(a());
      case ScalarOp::Floor: return std::floor(a());
      case ScalarOp::Relu: {
        const double x = a();
        return x <= 0 ? 0.0 : x;
      }
      case ScalarOp::Cast: return a();
      case ScalarOp::StopGradient: return a();
      case ScalarOp::Add: return both([](double x, double y) { return x + y; });
      case ScalarOp::Sub: return both([](double x, double y) { return x - y; });
      case ScalarOp::Mul: return both([](double x, double y) { return x * y; });
      case ScalarOp::Div: return both([](double x, double y) { return x / y; });
      case ScalarOp::Pow: return both([](double x, double y) { return std::pow(x, y); });
      case ScalarOp::FloorDiv: return both([](double x, double y) { return std::floor(x / y); });
      case ScalarOp::Mod: return both([](double x, double y) { return x - y * std::floor(x / y); });
      case ScalarOp::Max: return both([](double x, double y) { return x > y || std::isnan(x) ? x : y; });
      case ScalarOp::Min: return both([](double x, double y) { return x < y || std::isnan(x) ? x : y; });
      case ScalarOp::Lt: return both([](double x, double y) { return x < y; });
      case ScalarOp::Le: return both([](double x, double y) { return x <= y; });
      case ScalarOp::Eq: return both([](double x, double y) { return x == y; });
      case ScalarOp::Ne: return both([](double x, double y) { return x != y; });
      case ScalarOp::And: return both([](double x, double y) { return x != 0 && y != 0; });
      case ScalarOp::Or: return both([](double x, double y) { return x != 0 || y != 0; });
      case ScalarOp::Select: return a() != 0 ? b() : node(op, n.c);
    }
    return 0;
  }
};

PointEvaluator::PointEvaluator(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}
PointEvaluator::PointEvaluator(PointEvaluator&&) noexcept = default;
PointEvaluator& PointEvaluator::operator=(PointEvaluator&&) noexcept = default;
PointEvaluator::~PointEvaluator() = default;

Result<PointEvaluator> PointEvaluator::prepare(const Program& program, bool training) {
  auto impl = std::make_unique<Impl>();
  impl->training = training;
  std::size_t nodes = 0;
  impl->producer.assign(program.tensors.size(), -1);
  for (const Tensor& t : program.tensors) {
    impl->shapes.push_back(t.shape);
    impl->names.push_back(t.name);
  }
  impl->views.resize(program.tensors.size());
  for (const Operator& op : program.operators) {
    if (op.kind != OperatorKind::Gather)
      return Error{"gate", "operator " + op.name + " does not compute its points one by one", {}, {}};
    const std::vector<ExprId> order = nodesOf(program, op.body);
    nodes += order.size();
    if (nodes > kMaximumNodes) return Error{"gate", "the subgraph has too many expression nodes to walk", {}, {}};
    CompiledOperator made;
    std::unordered_map<std::uint32_t, std::uint32_t> local;
    for (const ExprId id : order) {
      const ScalarNode& n = program[id];
      CompiledNode c;
      c.op = n.op;
      c.type = n.type;
      c.value = n.op == ScalarOp::Constant && n.type == DType::I64 ? heldI64(static_cast<std::int64_t>(n.value)) : n.value;
      std::uint32_t* operands[] = {&c.a, &c.b, &c.c};
      for (int k = 0; k < info(n.op).arity; ++k) *operands[k] = local.at(n.operands[static_cast<std::size_t>(k)].value);
      if (n.index.valid()) c.index = CompiledIndex(program[n.index]);
      if (n.access.valid()) {
        const Access& access = program[n.access];
        c.tensor = access.tensor.value;
        for (std::size_t k = 0; k < access.indices.size(); ++k) {
          CompiledNode::Component component;
          component.extent = program[access.tensor].shape[k];
          component.data = access.indices[k].isData();
          if (component.data) component.node = local.at(access.indices[k].data.value);
          else component.affine = CompiledIndex(access.indices[k].affine);
          c.components.push_back(std::move(component));
        }
      }
      local.emplace(id.value, static_cast<std::uint32_t>(made.nodes.size()));
      made.nodes.push_back(std::move(c));
    }
    made.root = local.at(op.body.value);
    for (const Axis& axis : op.axes) made.extents.push_back(axis.extent);
    made.outputRank = op.outputRank;
    made.reducer = op.reducer;
    for (std::size_t k = op.outputRank; k < op.axes.size(); ++k) made.reduced *= op.axes[k].extent;
    made.position.resize(op.axes.size());
    made.values.resize(made.nodes.size());
    made.stamps.resize(made.nodes.size());
    impl->producer[op.output.value] = static_cast<std::int32_t>(impl->operators.size());
    impl->operators.push_back(std::move(made));
  }
  PointEvaluator evaluator(std::move(impl));
  evaluator.clear();
  return evaluator;
}

void PointEvaluator::bind(TensorId tensor, TensorView view) { m_impl->views[tensor.value] = view; }

void PointEvaluator::setRandom(std::uint64_t seed, std::uint64_t step) {
  m_impl->seed = seed;
  m_impl->step = step;
}

void PointEvaluator::clear() {
  m_impl->memos.assign(m_impl->shapes.size(), {});
  m_impl->failure.clear();
  for (std::size_t t = 0; t < m_impl->shapes.size(); ++t) {
    if (m_impl->producer[t] < 0) continue;
    std::int64_t elements = 1;
    for (const std::int64_t extent : m_impl->shapes[t]) elements *= extent;
    Memo& memo = m_impl->memos[t];
    memo.dense = elements <= kDenseElements;
    if (!memo.dense) continue;
    memo.values.resize(static_cast<std::size_t>(elements));
    memo.known.resize(static_cast<std::size_t>(elements));
  }
}

std::optional<double> PointEvaluator::value(TensorId tensor, std::int64_t element, std::int64_t& work) {
  m_impl->work = work;
  m_impl->stopped = false;
  const double v = m_impl->tensorValue(tensor.value, element);
  work = std::max<std::int64_t>(m_impl->work, 0);
  if (m_impl->stopped) return std::nullopt;
  return v;
}

const std::string& PointEvaluator::failed() const { return m_impl->failure; }

}  // namespace nf
