// SPDX-License-Identifier: Apache-2.0
#include "core/tune/point_evaluator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/ir/folding.h"
#include "core/schedule/scatter.h"
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

// A scatter whose points can be sorted by the place that data gives them.
struct CompiledScatter {
  struct Place {
    bool data = false;
    std::uint32_t at = 0;  // the node of its index, or the axis that it is
    std::int64_t extent = 1;
  };
  struct Arrival {
    std::int64_t place, point;  // row-major in the places by data and in the sorted axes
    auto operator<=>(const Arrival&) const = default;
  };
  std::vector<Place> places;          // one an axis of the output
  std::vector<std::uint32_t> sorted;  // axes that the places by data depend on
  std::vector<std::uint32_t> guards;  // nodes
  std::int64_t points = 1;            // of the sorted axes
  // In order, once they have been looked up in the tensors as they are bound. certain: rounding leads none elsewhere.
  std::vector<Arrival> arrivals;
  bool known = false, certain = true;
};

struct CompiledOperator {
  std::vector<CompiledNode> nodes;
  std::uint32_t root = 0;
  std::optional<CompiledScatter> scatter;
  std::vector<std::int64_t> extents;
  std::uint32_t outputRank = 0;
  Reducer reducer = Reducer::None;
  std::int64_t reduced = 1;
  // Of the point under evaluation.
  std::vector<std::int64_t> position;
  std::vector<double> values, errors;  // errors: where they are kept
  std::vector<std::uint64_t> stamps;
  std::uint64_t stamp = 0;
};

// Computed points of one tensor.
struct Memo {
  bool dense = true;
  std::vector<double> values, errors;
  std::vector<bool> known;
  struct Point {
    double value, error;
  };
  std::unordered_map<std::int64_t, Point> sparse;
};

// Twice the rounding of one operation, relative. Expressions of the storage types are computed in single precision.
double unitOf(DType type) { return type == DType::F64 ? 0x1p-51 : isFloating(type) ? 0x1p-22 : 0; }
DType computedIn(DType type) { return type == DType::F16 || type == DType::BF16 ? DType::F32 : type; }
double storageUnitOf(DType type) { return type == DType::F16 ? 0x1p-10 : type == DType::BF16 ? 0x1p-7 : unitOf(type); }
// Results below it may be less precise, or 0.
double smallestOf(DType type) {
  switch (type) {
    case DType::F16: return 0x1p-24;
    case DType::F32:
    case DType::BF16: return std::numeric_limits<float>::min();
    case DType::F64: return std::numeric_limits<double>::min();
    default: return 0;
  }
}
double roundingOf(double value, double unit, DType type) {
  return value == 0 ? 0 : std::max(unit * std::fabs(value), smallestOf(type));
}
double largestOf(DType type) {
  switch (type) {
    case DType::F16: return 65504;
    case DType::F32:
    case DType::BF16: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}
// Of a quotient of two values with errors.
double quotientError(double a, double ea, double b, double eb) {
  return std::fabs(b) > eb ? (ea + std::fabs(a / b) * eb) / (std::fabs(b) - eb) : INFINITY;
}

// The error of a reduction, term by term.
class ReductionError {
 public:
  explicit ReductionError(Reducer reducer) : m_reducer(reducer) {}
  // Of a sum of `all` terms, where those added are a sample of them.
  double ofSample(DType type, std::int64_t all) const {
    const double each = static_cast<double>(all) / static_cast<double>(m_count);
    return each * (m_errors + unitOf(type) * (2 + std::sqrt(static_cast<double>(all))) * m_sizes);
  }
  void add(double value, double error) {
    ++m_count;
    m_errors += error;
    m_most = std::max(m_most, error);
    m_sizes += std::fabs(value);
    m_product *= std::fabs(value);
    m_upper *= std::fabs(value) + error;
    m_growth *= std::max(1.0, std::fabs(value) + error);
    if (m_reducer != Reducer::ArgMax && m_reducer != Reducer::ArgMin) return;
    const double rank = m_reducer == Reducer::ArgMax ? value : -value;
    if (m_count == 1 || rank > m_best) {
      if (m_count > 1) m_rival = std::max(m_rival, m_best + m_bestError);
      m_best = rank;
      m_bestError = error;
    } else {
      m_rival = std::max(m_rival, rank + error);
    }
  }
  double total(DType type) const {
    const double n = static_cast<double>(m_count), unit = unitOf(type);
    switch (m_reducer) {
      case Reducer::None: return m_errors;
      case Reducer::Sum: return m_errors + unit * (2 + std::sqrt(n)) * m_sizes;
      case Reducer::Prod:
        return m_upper - m_product + unit * n * m_upper + (m_product == 0 ? 0 : n * smallestOf(computedIn(type)) * m_growth);
      case Reducer::Max:
      case Reducer::Min: return m_most;
      case Reducer::ArgMax:
      case Reducer::ArgMin: return m_errors > 0 && m_rival >= m_best - m_bestError ? INFINITY : 0;
    }
    return INFINITY;
  }

 private:
  Reducer m_reducer;
  std::int64_t m_count = 0;
  double m_errors = 0, m_most = 0, m_sizes = 0, m_product = 1, m_upper = 1, m_growth = 1;
  double m_best = 0, m_bestError = 0, m_rival = -INFINITY;
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

namespace {

// Its places stand alone, and whether a point arrives does not hang on where in its place.
bool isSortable(const Program& program, const Operator& op) {
  if (!loop::sortsPoints(program, op)) return false;
  const std::set<std::size_t> sorted = loop::axesOfData(program, op);
  return std::ranges::all_of(loop::partsOf(program, op).guards,
                             [&](ExprId guard) { return loop::dependsOnlyOn(program, op, guard, sorted); });
}

using LocalNodes = std::unordered_map<std::uint32_t, std::uint32_t>;

CompiledNode compiledNode(const Program& program, const ScalarNode& n, const LocalNodes& local) {
  CompiledNode c;
  c.op = n.op;
  c.type = n.type;
  c.value = n.op == ScalarOp::Constant && n.type == DType::I64 ? heldI64(static_cast<std::int64_t>(n.value)) : n.value;
  std::uint32_t* operands[] = {&c.a, &c.b, &c.c};
  for (int k = 0; k < info(n.op).arity; ++k) *operands[k] = local.at(n.operands[static_cast<std::size_t>(k)].value);
  if (n.index.valid()) c.index = CompiledIndex(program[n.index]);
  if (!n.access.valid()) return c;
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
  return c;
}

CompiledScatter compiledScatter(const Program& program, const Operator& op, const LocalNodes& local) {
  CompiledScatter s;
  for (const ExprId guard : loop::partsOf(program, op).guards) s.guards.push_back(local.at(guard.value));
  for (const std::size_t axis : loop::axesOfData(program, op)) {
    s.sorted.push_back(static_cast<std::uint32_t>(axis));
    s.points *= op.axes[axis].extent;
  }
  for (std::size_t k = 0; k < op.scatter.size(); ++k) {
    const AccessIndex& index = op.scatter[k];
    const std::uint32_t at = index.isData() ? local.at(index.data.value) : static_cast<std::uint32_t>(*index.affine.asVariable());
    s.places.push_back({index.isData(), at, program[op.output].shape[k]});
  }
  return s;
}

CompiledOperator compiled(const Program& program, const Operator& op, bool bounding) {
  CompiledOperator made;
  LocalNodes local;
  const auto add = [&](ExprId root) {
    for (const ExprId id : nodesOf(program, root)) {
      if (local.contains(id.value)) continue;
      CompiledNode node = compiledNode(program, program[id], local);
      local.emplace(id.value, static_cast<std::uint32_t>(made.nodes.size()));
      made.nodes.push_back(std::move(node));
    }
  };
  add(op.body);
  for (const AccessIndex& index : op.scatter)
    if (index.isData()) add(index.data);
  const bool scatters = op.kind == OperatorKind::Scatter;
  made.root = local.at(scatters ? loop::partsOf(program, op).value.value : op.body.value);
  if (scatters) made.scatter = compiledScatter(program, op, local);
  for (const Axis& axis : op.axes) made.extents.push_back(axis.extent);
  made.outputRank = op.outputRank;
  made.reducer = op.reducer;
  for (std::size_t k = op.outputRank; k < op.axes.size(); ++k) made.reduced *= op.axes[k].extent;
  made.position.resize(op.axes.size());
  made.values.resize(made.nodes.size());
  made.errors.resize(bounding ? made.nodes.size() : 0);
  made.stamps.resize(made.nodes.size());
  return made;
}

}  // namespace

struct PointEvaluator::Impl {
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<std::string> names;
  std::vector<TensorView> views;
  std::vector<double> viewErrors;
  std::vector<std::int32_t> producer;  // operator of each tensor, -1: none
  std::vector<CompiledOperator> operators;
  std::vector<Memo> memos;
  std::vector<DType> types;
  bool training = true, bounding = false;
  double factorUnit = 0;
  std::int64_t sample = 0;
  double loadedError = 0;  // of the newest load
  std::uint64_t seed = 1, step = 0;
  std::int64_t work = 0;
  bool stopped = false;
  std::string failure;

  double tensorValue(std::uint32_t tensor, std::int64_t element) {
    loadedError = viewErrors[tensor];
    if (views[tensor].data) return readElement(views[tensor], element);
    if (producer[tensor] < 0) return fail(names[tensor] + " has no value");
    Memo& memo = memos[tensor];
    const auto at = static_cast<std::size_t>(element);
    if (memo.dense) {
      if (memo.known[at]) {
        if (bounding) loadedError = memo.errors[at];
        return memo.values[at];
      }
    } else if (const auto found = memo.sparse.find(element); found != memo.sparse.end()) {
      loadedError = found->second.error;
      return found->second.value;
    }
    double error = 0;
    const double value = compute(operators[static_cast<std::size_t>(producer[tensor])], element, error);
    if (stopped) return value;
    if (bounding) error = held(error + roundingOf(value, storageUnitOf(types[tensor]), types[tensor]), value, types[tensor]);
    loadedError = error;
    if (memo.dense) {
      memo.known[at] = true;
      memo.values[at] = value;
      if (bounding) memo.errors[at] = error;
    } else {
      memo.sparse.emplace(element, Memo::Point{value, error});
    }
    return value;
  }

  double fail(std::string message) {
    if (failure.empty()) failure = std::move(message);
    stopped = true;
    return std::numeric_limits<double>::quiet_NaN();
  }

  // Where the type may hold it no longer nothing is known.
  static double held(double error, double value, DType type) {
    return std::isfinite(error) && std::fabs(value) + error <= largestOf(type) ? error : INFINITY;
  }

  double compute(CompiledOperator& op, std::int64_t element, double& error) {
    if (op.scatter) return arriving(op, element, error);
    for (std::size_t k = op.outputRank; k-- > 0;) {
      op.position[k] = element % op.extents[k];
      element /= op.extents[k];
    }
    if (op.reducer == Reducer::None) {
      const double value = point(op);
      if (bounding) error = op.errors[op.root];
      return value;
    }
    if (sample > 0 && op.reducer == Reducer::Sum && op.reduced > std::max(sample, kExactTerms)) return sampled(op, error);
    ReductionError errors(op.reducer);
    std::fill(op.position.begin() + op.outputRank, op.position.end(), 0);
    double accumulator = 0;
    std::int64_t best = 0;
    for (std::int64_t i = 0; i < op.reduced && !stopped; ++i) {
      const double v = point(op);
      combine(op.reducer, i, v, accumulator, best);
      if (bounding) errors.add(v, op.errors[op.root]);
      for (std::size_t k = op.extents.size(); k-- > op.outputRank;) {
        if (++op.position[k] < op.extents[k]) break;
        op.position[k] = 0;
      }
    }
    error = errors.total(op.nodes[op.root].type);
    return op.reducer == Reducer::ArgMax || op.reducer == Reducer::ArgMin ? static_cast<double>(best) : accumulator;
  }

  double sampled(CompiledOperator& op, double& error) {
    ReductionError errors(op.reducer);
    std::vector<double> terms;
    const std::uint64_t key = randomKey(seed, step, static_cast<std::uint64_t>(op.reduced));
    for (std::int64_t i = 0; i < sample && !stopped; ++i) {
      auto at = static_cast<std::int64_t>(randomBits(key, i) % static_cast<std::uint64_t>(op.reduced));
      for (std::size_t k = op.extents.size(); k-- > op.outputRank; at /= op.extents[k]) op.position[k] = at % op.extents[k];
      terms.push_back(point(op));
      if (bounding) errors.add(terms.back(), op.errors[op.root]);
    }
    const double n = static_cast<double>(terms.size()), all = static_cast<double>(op.reduced);
    double mean = 0, square = 0, deviation = 0, most = 0, largest = 0;
    for (const double v : terms) mean += v / n;
    for (const double v : terms) {
      const double d = std::fabs(v - mean);
      square += d * d;
      deviation += d;
      most = std::max(most, d);
      largest = std::max(largest, std::fabs(v));
    }
    // Where few terms are all that differs, more of them or larger ones may not have been met.
    constexpr double kShare = 0.05, kDeviations = 6, kUnseen = 14;  // 14: exp(-14) that a share of 14 / n of the terms is not met
    if (!(most <= kShare * deviation) || deviation == 0) error = INFINITY;
    else
      error =
          errors.ofSample(op.nodes[op.root].type, op.reduced) + all * (kDeviations * std::sqrt(square) / n + kUnseen / n * largest);
    return all * mean;
  }

  static void moveTo(CompiledOperator& op, std::int64_t sortedPoint) {
    const auto& axes = op.scatter->sorted;
    for (std::size_t k = axes.size(); k-- > 0; sortedPoint /= op.extents[axes[k]])
      op.position[axes[k]] = sortedPoint % op.extents[axes[k]];
  }

  // Not counted as work: interpreting the scatter, which this is instead of, visits each of these points for every place beside it.
  void findArrivals(CompiledOperator& op) {
    CompiledScatter& s = *op.scatter;
    const std::int64_t left = std::exchange(work, std::numeric_limits<std::int64_t>::max());
    s.arrivals.clear();
    s.certain = true;
    for (std::int64_t point = 0; point < s.points && !stopped; ++point) {
      moveTo(op, point);
      ++op.stamp;
      bool arrives = true;
      for (std::size_t g = 0; g < s.guards.size() && arrives; ++g) {
        arrives = node(op, s.guards[g]) != 0;
        if (bounding) s.certain = s.certain && op.errors[s.guards[g]] == 0;
      }
      std::int64_t place = 0;
      for (std::size_t k = 0; k < s.places.size() && arrives && !stopped; ++k) {
        const CompiledScatter::Place& p = s.places[k];
        if (!p.data) continue;
        const std::int64_t index = indexByData(op, p.at, p.extent, s.certain);
        if (!stopped && (index < 0 || index >= p.extent))
          fail("index " + std::to_string(k) + " of a scatter is outside [0, " + std::to_string(p.extent) + ")");
        place = place * p.extent + index;
      }
      if (arrives && !stopped) s.arrivals.push_back({place, point});
    }
    std::ranges::sort(s.arrivals);
    s.known = !stopped;
    work = left;
  }

  double arriving(CompiledOperator& op, std::int64_t element, double& error) {
    CompiledScatter& s = *op.scatter;
    if (!s.known) findArrivals(op);
    if (stopped) return 0;
    std::int64_t place = 0, stride = 1;
    for (std::size_t k = s.places.size(); k-- > 0; element /= s.places[k].extent) {
      const std::int64_t at = element % s.places[k].extent;
      if (s.places[k].data) place += at * stride, stride *= s.places[k].extent;
      else op.position[s.places[k].at] = at;
    }
    ReductionError errors(Reducer::Sum);
    double sum = 0;
    for (auto a = std::ranges::lower_bound(s.arrivals, CompiledScatter::Arrival{place, 0});
         a != s.arrivals.end() && a->place == place && !stopped; ++a) {
      moveTo(op, a->point);
      const double v = point(op);
      sum += v;
      if (bounding) errors.add(v, op.errors[op.root]);
    }
    if (bounding) error = s.certain ? errors.total(op.nodes[op.root].type) : INFINITY;
    return sum;
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
    if (bounding) op.errors[id] = held(errorOf(op, op.nodes[id], value), value, op.nodes[id].type);
    return op.values[id] = value;
  }

  // Outside [0, extent): no index.
  std::int64_t indexByData(CompiledOperator& op, std::uint32_t id, std::int64_t extent, bool& certain) {
    const double v = node(op, id);
    if (stopped) return 0;
    if (bounding) certain = certain && std::trunc(v - op.errors[id]) == std::trunc(v + op.errors[id]);
    if (op.nodes[id].type == DType::I64) return wholeI64(v);
    return v >= 0 && v < static_cast<double>(extent) ? static_cast<std::int64_t>(v) : -1;
  }

  double load(CompiledOperator& op, const CompiledNode& n) {
    std::int64_t element = 0;
    bool certain = true;
    for (std::size_t k = 0; k < n.components.size(); ++k) {
      const auto& c = n.components[k];
      std::int64_t index = 0;
      if (c.data) {
        index = indexByData(op, c.node, c.extent, certain);
        if (stopped) return 0;
      } else {
        index = c.affine.at(op.position);
      }
      if (index < 0 || index >= c.extent)
        return fail("index " + std::to_string(k) + " of " + names[n.tensor] + " is outside [0, " + std::to_string(c.extent) + ")");
      element = element * c.extent + index;
    }
    const double value = tensorValue(n.tensor, element);
    if (!certain) loadedError = INFINITY;
    return value;
  }

  // Its operands, but for the branch that is not taken, have been evaluated at this point.
  double errorOf(const CompiledOperator& op, const CompiledNode& n, double value) const {
    const double unit = unitOf(n.type), size = std::fabs(value), own = roundingOf(value, unit, computedIn(n.type));
    const int arity = info(n.op).arity;
    const double a = arity > 0 ? op.values[n.a] : 0, ea = arity > 0 ? op.errors[n.a] : 0;
    const bool two = arity > 1 && n.op != ScalarOp::Select;
    const double b = two ? op.values[n.b] : 0, eb = two ? op.errors[n.b] : 0;
    const auto flips = [](double v, double e) { return e > 0 && std::fabs(v) <= e; };
    const bool whole = n.type == DType::I32 || n.type == DType::I64;
    if (whole && arity > 0 && n.op != ScalarOp::Select && n.op != ScalarOp::Cast) {
      if (ea == 0 && eb == 0) return 0;
      return n.op == ScalarOp::Add || n.op == ScalarOp::Sub || n.op == ScalarOp::Neg ? ea + eb : INFINITY;
    }
    switch (n.op) {
      case ScalarOp::Constant:
      case ScalarOp::Index: return n.type == DType::F64 || whole ? 0 : std::fabs(value - static_cast<float>(value));
      case ScalarOp::Random: return own;
      case ScalarOp::Load: return loadedError;
      case ScalarOp::Training:
      case ScalarOp::IndexGe0:
      case ScalarOp::IndexEq0: return 0;
      case ScalarOp::Neg:
      case ScalarOp::Abs:
      case ScalarOp::Relu:
      case ScalarOp::StopGradient: return ea;
      case ScalarOp::Not: return flips(a, ea);
      case ScalarOp::Cast:
        if (n.type == DType::Bool) return flips(a, ea);
        if (!whole) return held(ea + roundingOf(value, storageUnitOf(n.type), n.type), value, n.type);
        // Beyond the type the conversion is the machine's.
        return std::fabs(a) + ea < 0x1p31 || (n.type == DType::I64 && std::fabs(a) + ea < 0x1p62)
                   ? std::trunc(a + ea) - std::trunc(a - ea)
                   : INFINITY;
      case ScalarOp::Exp: return size * std::expm1(ea) + 4 * own;
      case ScalarOp::Log: return a > ea ? ea / (a - ea) + 4 * own + unit : INFINITY;
      case ScalarOp::Sqrt:
        if (ea == 0) return own;
        return a >= ea ? std::sqrt(a + ea) - std::sqrt(a - ea) + own : INFINITY;
      case ScalarOp::Rsqrt: return a > ea ? 1 / std::sqrt(a - ea) - 1 / std::sqrt(a + ea) + 4 * own : INFINITY;
      case ScalarOp::Tanh:
      case ScalarOp::Sigmoid: return ea + 4 * unit;
      case ScalarOp::Erf: return 2 / std::sqrt(M_PI) * ea + 4 * unit;
      case ScalarOp::Sin:
      case ScalarOp::Cos: return std::min(2.0, ea + unit * (4 + std::fabs(a)));
      case ScalarOp::Floor: return std::floor(a + ea) - std::floor(a - ea);
      case ScalarOp::Add:
      case ScalarOp::Sub: return ea + eb + own;
      case ScalarOp::Mul: {
        const double rounding = op.reducer == Reducer::Sum ? factorUnit : 0;
        const double ra = ea + rounding * std::fabs(a), rb = eb + rounding * std::fabs(b);
        return std::fabs(a) * rb + std::fabs(b) * ra + ra * rb + own;
      }
      case ScalarOp::Div: return quotientError(a, ea, b, eb) + 2 * own;
      case ScalarOp::Pow: {
        if (ea == 0 && eb == 0 && a == 0) return own;
        if (std::fabs(a) <= ea || (a < 0 && eb > 0)) return INFINITY;
        const double slope = std::fabs(std::log(std::fabs(a)));
        return size * std::expm1(std::fabs(b) * ea / (std::fabs(a) - ea) + eb * slope) + 8 * own * (1 + std::fabs(b) * slope);
      }
      case ScalarOp::FloorDiv:
      case ScalarOp::Mod: {
        const double q = a / b, e = quotientError(a, ea, b, eb) + unit * std::fabs(q);
        const double jump = std::floor(q + e) - std::floor(q - e);
        if (n.op == ScalarOp::FloorDiv) return jump;
        return jump * (std::fabs(b) + eb) + ea + std::fabs(std::floor(q)) * eb + unit * (std::fabs(a) + size);
      }
      case ScalarOp::Max:
      case ScalarOp::Min: return std::max(ea, eb);
      case ScalarOp::Lt:
      case ScalarOp::Le:
      case ScalarOp::Eq:
      case ScalarOp::Ne: return flips(a - b, ea + eb);
      case ScalarOp::And:
      case ScalarOp::Or: return flips(a, ea) || flips(b, eb);
      case ScalarOp::Select: return flips(a, ea) ? INFINITY : op.errors[a != 0 ? n.b : n.c];
    }
    return INFINITY;
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
      case ScalarOp::Pow: return both([](double x, double y) { return powerOf(x, y); });
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

Result<PointEvaluator> PointEvaluator::prepare(const Program& program, bool training, bool bounding, double factorUnit) {
  auto impl = std::make_unique<Impl>();
  impl->training = training;
  impl->bounding = bounding;
  impl->factorUnit = factorUnit;
  std::size_t nodes = 0;
  impl->producer.assign(program.tensors.size(), -1);
  for (const Tensor& t : program.tensors) {
    impl->shapes.push_back(t.shape);
    impl->names.push_back(t.name);
    impl->types.push_back(t.type);
  }
  impl->views.resize(program.tensors.size());
  impl->viewErrors.resize(program.tensors.size());
  for (const Operator& op : program.operators) {
    const bool scatters = op.kind == OperatorKind::Scatter && isSortable(program, op);
    if (op.kind != OperatorKind::Gather && !scatters)
      return Error{"gate", "operator " + op.name + " does not compute its points one by one", {}, {}};
    CompiledOperator made = compiled(program, op, impl->bounding);
    nodes += made.nodes.size();
    if (nodes > kMaximumNodes) return Error{"gate", "the subgraph has too many expression nodes to walk", {}, {}};
    impl->producer[op.output.value] = static_cast<std::int32_t>(impl->operators.size());
    impl->operators.push_back(std::move(made));
  }
  PointEvaluator evaluator(std::move(impl));
  evaluator.clear();
  return evaluator;
}

void PointEvaluator::bind(TensorId tensor, TensorView view, double error) {
  m_impl->views[tensor.value] = view;
  m_impl->viewErrors[tensor.value] = error;
}

void PointEvaluator::setRandom(std::uint64_t seed, std::uint64_t step) {
  m_impl->seed = seed;
  m_impl->step = step;
}

void PointEvaluator::setSample(std::int64_t terms) { m_impl->sample = terms; }

void PointEvaluator::clear() {
  m_impl->memos.assign(m_impl->shapes.size(), {});
  m_impl->failure.clear();
  for (CompiledOperator& op : m_impl->operators)
    if (op.scatter) op.scatter->known = false;
  for (std::size_t t = 0; t < m_impl->shapes.size(); ++t) {
    if (m_impl->producer[t] < 0) continue;
    std::int64_t elements = 1;
    for (const std::int64_t extent : m_impl->shapes[t]) elements *= extent;
    Memo& memo = m_impl->memos[t];
    memo.dense = elements <= kDenseElements;
    if (!memo.dense) continue;
    memo.values.resize(static_cast<std::size_t>(elements));
    memo.errors.resize(m_impl->bounding ? static_cast<std::size_t>(elements) : 0);
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

std::optional<double> PointEvaluator::error(TensorId tensor, std::int64_t element, std::int64_t& work) {
  if (!m_impl->bounding || !value(tensor, element, work)) return std::nullopt;
  return m_impl->loadedError;
}

std::vector<std::int64_t> PointEvaluator::reached(std::span<const std::int64_t> shape, std::size_t count, std::uint64_t seed) {
  std::vector<std::int64_t> elements;
  m_impl->stopped = false;
  for (std::size_t t = 0; t < m_impl->shapes.size(); ++t) {
    if (m_impl->producer[t] < 0 || !std::ranges::equal(m_impl->shapes[t], shape)) continue;
    CompiledOperator& op = m_impl->operators[static_cast<std::size_t>(m_impl->producer[t])];
    if (!op.scatter) continue;
    if (!op.scatter->known) m_impl->findArrivals(op);
    if (m_impl->stopped || op.scatter->arrivals.empty()) continue;
    const auto& arrivals = op.scatter->arrivals;
    for (std::size_t n = 0; n < count; ++n) {
      const std::uint64_t bits = randomBits(seed, static_cast<std::int64_t>(n));
      std::int64_t place = arrivals[bits % arrivals.size()].place, element = 0, stride = 1;
      for (std::size_t k = op.scatter->places.size(); k-- > 0;) {
        const CompiledScatter::Place& p = op.scatter->places[k];
        const auto beside = static_cast<std::int64_t>(randomBits(bits, static_cast<std::int64_t>(k)) >> 1);
        element += (p.data ? place : beside) % p.extent * stride;
        if (p.data) place /= p.extent;
        stride *= p.extent;
      }
      elements.push_back(element);
    }
  }
  return elements;
}

const std::string& PointEvaluator::failed() const { return m_impl->failure; }

}  // namespace nf
