// SPDX-License-Identifier: Apache-2.0
#include "core/tune/gate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "core/device/reference.h"
#include "core/support/checked.h"
#include "core/support/counter_random.h"
#include "core/tune/index_ranges.h"
#include "core/tune/point_evaluator.h"

namespace nf {
namespace {

constexpr std::int64_t kGuardBytes = 64;
constexpr std::int64_t kQuickWork = 250'000;   // expression nodes: about 10 ms
constexpr std::int64_t kFullWork = 4'000'000;  // per pattern and subgraph, once: about 150 ms
// For the first points of a subgraph's outputs, all together, and for each way to make up for one that is beyond it.
constexpr std::int64_t owedWork(bool full) { return full ? 4'000'000 : 1'000'000; }
constexpr std::int64_t kQuickFlops = 100'000;  // up to here everything is interpreted
constexpr std::int64_t kFullFlops = 2'000'000;
// What moves data has no FLOP to speak of: so many points of its operators are all interpreted, 0.1 us each. Beyond them it is sampled,
// in more points than arithmetic is: one of them costs next to nothing.
constexpr std::int64_t kQuickMoved = 250'000, kFullMoved = 2'000'000;
constexpr std::size_t kQuickMovedPoints = 4096, kFullMovedPoints = 65536;
constexpr std::int64_t kStepFlops = 20'000'000;      // of the first steps of a loop, but two at least
constexpr std::int64_t kRefusalFlops = 100'000'000;  // interpreted once where no legal inputs are known
constexpr std::size_t kPoints = 256;
constexpr double kHalfTolerance = 4e-3;  // of 11 significant bits, which f16 and tf32 have
constexpr double kBeyondKnown = 4;       // of the largest bound of an output that is known, where the work for more is used up
constexpr std::byte kPoison{0xff};       // a NaN in every floating type, -1 in i32
constexpr std::uint64_t kSeed = 1, kStep = 0;

enum class Pattern : std::uint8_t { Integers, Reals, PositiveReals };
constexpr std::array kPatterns{Pattern::Integers, Pattern::Reals, Pattern::PositiveReals};

struct ExpectedPoint {
  std::size_t output;
  std::int64_t element;
  double value;
};

struct Expectation {
  bool full = false;  // all points the Full level wants
  std::vector<ExpectedPoint> points;
  std::vector<double> scale;        // root mean square of each output's finite points
  std::vector<std::size_t> beyond;  // outputs of which the work is enough for no point
  double finiteShare = 1;
  bool known() const { return !points.empty() || !beyond.empty(); }
  // Outputs of the first kernel that passed, of those that keep f32 and of those that round it to tf32; empty: none yet.
  std::array<std::vector<std::vector<std::byte>>, 2> accepted;
};

// Upper bounds of |value|, with integer inputs: where every one fits the mantissa, results are exact in any order of summation.
// Infinity: not an integer computation. Inputs are in [-2, 2], those that reach an index in their range.
class MagnitudeBound {
 public:
  MagnitudeBound(const Program& program, const std::vector<std::optional<ValueRange>>& ranges)
      : m_program(program), m_tensors(program.tensors.size(), 2) {
    for (std::size_t t = 0; t < ranges.size(); ++t) {
      if (!ranges[t]) continue;
      const bool any = std::ceil(ranges[t]->low) <= std::floor(ranges[t]->high);
      m_tensors[t] = any ? std::max(std::fabs(ranges[t]->low), std::fabs(ranges[t]->high)) : INFINITY;
    }
  }

  bool exact() {
    for (const Operator& op : m_program.operators) {
      if (op.kind != OperatorKind::Gather) return false;
      std::map<std::uint32_t, double> nodes;
      double most = 0;
      for (const ExprId id : nodesOf(m_program, op.body)) most = std::max(most, nodes[id.value] = node(op, m_program[id], nodes));
      double result = nodes[op.body.value];
      double count = 1;
      for (std::size_t k = op.outputRank; k < op.axes.size(); ++k) count *= static_cast<double>(op.axes[k].extent);
      if (op.reducer == Reducer::Sum) {
        m_factors = std::max(m_factors, most);
        result *= count;
      }
      if (op.reducer == Reducer::Prod) result = std::pow(std::max(result, 1.0), count);
      if (op.reducer == Reducer::ArgMax || op.reducer == Reducer::ArgMin) result = count;
      m_tensors[op.output.value] = result;
      if (!(std::max(most, result) < mantissa(m_program[op.output].type))) return false;
    }
    return true;
  }

  // Of what sums add up, and of all it is made of, once exact() has been asked.
  double factors() const { return m_factors; }

 private:
  static double mantissa(DType type) {
    switch (type) {
      case DType::F32: return 1 << 24;
      case DType::F64: return 1e15;
      case DType::F16: return 1 << 11;
      case DType::BF16: return 1 << 8;
      case DType::I32: return 2e9;
      case DType::Bool: return 2;
      case DType::I64: return 9e15;
    }
    return 0;
  }

  double node(const Operator& op, const ScalarNode& n, const std::map<std::uint32_t, double>& nodes) const {
    const auto of = [&](int k) { return nodes.at(n.operands[static_cast<std::size_t>(k)].value); };
    constexpr double kNever = INFINITY;
    switch (n.op) {
      case ScalarOp::Constant: return n.value == std::floor(n.value) ? std::fabs(n.value) : kNever;
      case ScalarOp::Index: {
        const auto range = bounds(m_program[n.index], rangesOf(op));
        return range ? static_cast<double>(std::max(std::abs(range->lo), std::abs(range->hi))) : kNever;
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
      case ScalarOp::Or: return 1;
      case ScalarOp::Neg:
      case ScalarOp::Abs:
      case ScalarOp::Floor:
      case ScalarOp::Relu:
      case ScalarOp::StopGradient: return of(0);
      case ScalarOp::Cast: return of(0) <= mantissa(n.type) ? of(0) : kNever;
      case ScalarOp::Add:
      case ScalarOp::Sub: return of(0) + of(1);
      case ScalarOp::Mul: return of(0) * of(1);
      case ScalarOp::Max:
      case ScalarOp::Min: return std::max(of(0), of(1));
      case ScalarOp::Select: return std::max(of(1), of(2));
      case ScalarOp::Random:
      case ScalarOp::Exp:
      case ScalarOp::Log:
      case ScalarOp::Sqrt:
      case ScalarOp::Rsqrt:
      case ScalarOp::Tanh:
      case ScalarOp::Sigmoid:
      case ScalarOp::Erf:
      case ScalarOp::Sin:
      case ScalarOp::Cos:
      case ScalarOp::Div:
      case ScalarOp::Pow:
      case ScalarOp::FloorDiv:
      case ScalarOp::Mod: return kNever;
    }
    return kNever;
  }

  const Program& m_program;
  std::vector<double> m_tensors;
  double m_factors = 0;
};

// Positions worth looking at: corners, both sides of likely tile seams, then random ones.
std::vector<std::int64_t> samplePositions(const std::vector<std::int64_t>& shape, std::size_t count, std::uint64_t seed) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  std::vector<std::int64_t> result;
  std::set<std::int64_t> seen;
  const auto add = [&](const std::vector<std::int64_t>& at) {
    std::int64_t element = 0;
    for (std::size_t k = 0; k < shape.size(); ++k) element = element * shape[k] + std::clamp<std::int64_t>(at[k], 0, shape[k] - 1);
    if (seen.insert(element).second) result.push_back(element);
  };
  if (static_cast<std::size_t>(elements) <= count) {
    for (std::int64_t e = 0; e < elements; ++e) result.push_back(e);
    return result;
  }
  std::vector<std::int64_t> at(shape.size());
  for (std::uint32_t corner = 0; corner < (1u << std::min<std::size_t>(shape.size(), 4)); ++corner) {
    for (std::size_t k = 0; k < shape.size(); ++k) at[k] = corner >> std::min<std::size_t>(k, 3) & 1 ? shape[k] - 1 : 0;
    add(at);
  }
  constexpr std::array<std::int64_t, 6> kTiles{4, 8, 16, 32, 64, 128};
  for (std::int64_t point = 0; result.size() < count && point < static_cast<std::int64_t>(20 * count); ++point) {
    for (std::size_t k = 0; k < shape.size(); ++k) {
      const std::uint64_t bits = randomBits(seed + k, point);
      at[k] = static_cast<std::int64_t>((bits >> 20) % static_cast<std::uint64_t>(shape[k]));
      if (point % 2 == 0) {  // beside a seam, or in the ragged last tile
        const std::int64_t tile = kTiles[bits % kTiles.size()];
        const std::int64_t seam = (bits >> 4) % 4 == 0 ? shape[k] / tile * tile : at[k] / tile * tile;
        at[k] = seam - static_cast<std::int64_t>(bits >> 6 & 1);
      }
    }
    add(at);
  }
  return result;
}

std::string positionText(const std::vector<std::int64_t>& shape, std::int64_t element) {
  std::vector<std::int64_t> at(shape.size());
  for (std::size_t k = shape.size(); k-- > 0; element /= shape[k]) at[k] = element % shape[k];
  std::string text = "[";
  for (std::size_t k = 0; k < at.size(); ++k) text += (k ? ", " : "") + std::to_string(at[k]);
  return text + "]";
}

std::string number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

// The first element of this width that holds nothing but poison; -1: none.
template <class T>
std::int64_t firstPoisoned(const std::byte* from, std::size_t bytes) {
  T poison;
  std::memset(&poison, static_cast<int>(kPoison), sizeof poison);
  for (std::size_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    T value;
    std::memcpy(&value, from + i, sizeof value);
    if (value == poison) return static_cast<std::int64_t>(i / sizeof(T));
  }
  return -1;
}

}  // namespace

struct Gate::Impl {
  Impl(Device& d, std::shared_ptr<const Program> p, const Hash& h) : device(d), program(std::move(p)), hash(h) {}
  Device& device;
  std::shared_ptr<const Program> program;
  Hash hash;
  std::vector<TensorId> inputs, outputs;
  std::vector<void*> memory;  // of inputs, then outputs
  std::vector<std::vector<std::byte>> host;
  std::optional<IndexRanges> indices;
  IndexRanges::Choice choice;  // of the inputs' ranges
  std::size_t attempt = 0;     // whose choice it is: unguarded indices, all of them, then guesses
  bool nothingLegal = false;   // no choice was found under which the reference computes every output
  std::vector<std::int64_t> zeroCounters;
  std::optional<PointEvaluator> evaluator;
  // For points that differ by more than the tolerance: how far rounding may take them.
  std::optional<PointEvaluator> bounds;
  std::int64_t boundsWork = 0;
  std::vector<double> largestBound;  // of each output, those seen so far
  std::optional<ReferenceProgram> reference;
  std::map<Pattern, Expectation> expectations;
  std::optional<Pattern> current;                     // whose values the device's inputs hold
  std::int64_t flops = 0, moved = 0, totalBytes = 0;  // moved: points of all operators
  bool exact = false, exactRounded = false;
  bool rounded = false;  // the kernel at hand rounds operands to tf32
  double tolerance = 1e-5;
  const Loop* loop = nullptr;          // the subgraph is that; its steps are compared from the first on
  double inputScale = 1;               // of reals: so that what a step makes of small differences does not grow from step to step
  std::optional<PointEvaluator> near;  // for outputs beyond the work for points: the other outputs are those of the kernel at hand

  ~Impl() {
    for (void* m : memory)
      if (m) device.release(m);
  }

  const Tensor& tensor(std::size_t binding) const {
    return (*program)[binding < inputs.size() ? inputs[binding] : outputs[binding - inputs.size()]];
  }

  void describe() {
    const std::vector<OperatorId> writer = producers(*program);
    for (std::size_t t = 0; t < program->tensors.size(); ++t)
      if (!writer[t].valid()) inputs.push_back(TensorId(t));
    for (const Output& output : program->outputs) outputs.push_back(output.tensor);
    double longest = 1, nodes = 0;
    bool half = false, bhalf = false;
    for (std::size_t i = 0; i < program->operators.size(); ++i) {
      const Operator& op = program->operators[i];
      flops += std::max<std::int64_t>(flopsOf(*program, OperatorId(i)), 1);
      std::int64_t points = 1;
      for (const Axis& axis : op.axes) points = checkedMul(points, axis.extent).value_or(INT64_MAX / 4096);
      moved += points;
      double reduced = 1;
      for (std::size_t k = op.outputRank; k < op.axes.size(); ++k) reduced *= static_cast<double>(op.axes[k].extent);
      longest = std::max(longest, reduced);
    }
    nodes = static_cast<double>(program->scalars.size());
    const auto look = [&](const Program& p) {
      for (const Tensor& t : p.tensors) {
        half = half || t.type == DType::F16;
        bhalf = bhalf || t.type == DType::BF16;
      }
    };
    look(*program);
    double steps = 1;
    if (program->operators.size() == 1 && program->operators.front().kind == OperatorKind::Loop) {
      loop = &(*program)[program->operators.front().loop];
      look(*loop->body);
      nodes = static_cast<double>(loop->body->scalars.size());
      for (const Operator& op : loop->body->operators)
        for (std::size_t k = op.outputRank; k < op.axes.size(); ++k)
          longest = std::max(longest, static_cast<double>(op.axes[k].extent));
      steps = static_cast<double>(loop->trips);
      inputScale = 1 / std::sqrt(longest);
    }
    tolerance = std::min(1e-6 * (8 + nodes + 4 * std::sqrt(longest)) * std::sqrt(steps), loop ? 2e-3 : 5e-4);
    if (half) tolerance = std::max(tolerance, kHalfTolerance);
    if (bhalf) tolerance = std::max(tolerance, 3e-2);
    indices.emplace(*program);
    use(indices->choose(false));
    std::size_t depth = loop ? loop->depth : 0;
    for (const IndexExpr& e : program->indices) countCounters(e, depth);
    for (const Access& a : program->accesses)
      for (const AccessIndex& i : a.indices) countCounters(i.affine, depth);
    zeroCounters.assign(depth, 0);
  }

  static void countCounters(const IndexExpr& e, std::size_t& depth) {
    std::vector<IndexVar> variables;
    e.collectVariables(variables);
    for (const IndexVar v : variables)
      if (v >= kLoopVariable) depth = std::max<std::size_t>(depth, v - kLoopVariable + 1);
  }

  void use(IndexRanges::Choice next) {
    choice = std::move(next);
    MagnitudeBound magnitudes(*program, choice.ranges);
    exact = magnitudes.exact();
    exactRounded = exact && magnitudes.factors() <= 1 << 11;
    expectations.clear();
    current.reset();
  }

  // Other inputs, after some that led out of an axis. False: there are no more.
  bool nextInputs() {
    if (choice.proved) return false;
    if (attempt == 0) {
      ++attempt;
      use(indices->choose(true));
      return true;
    }
    auto guessed = indices->guess(indices->choose(true), attempt++ - 1);
    if (!guessed) return false;
    use(std::move(*guessed));
    return true;
  }

  Result<Unit> allocate() {
    for (std::size_t b = 0; b < inputs.size() + outputs.size(); ++b) {
      const auto bytes = checkedAdd(tensor(b).bytes(), kGuardBytes);
      if (!bytes) return Error{"gate", "tensor " + tensor(b).name + " is too large", device.name(), {}};
      NF_TRY(void* m, device.allocate(*bytes));
      memory.push_back(m);
      host.emplace_back(static_cast<std::size_t>(*bytes));
      totalBytes += *bytes;
    }
    return Unit{};
  }

  // Of what reaches an index few digits are drawn, so that the arithmetic on it is mostly exact: rounding must not decide which
  // element is read.
  static double drawn(const ValueRange& range, std::uint64_t bits, DType type, Pattern pattern) {
    const double low = std::ceil(range.low), high = std::floor(range.high);
    if (!isFloating(type) || (pattern == Pattern::Integers && low <= high))
      return low + static_cast<double>(bits % static_cast<std::uint64_t>(high - low + 1));
    constexpr std::uint64_t kValues = 256;
    return range.low + (range.high - range.low) / (kValues - 1) * static_cast<double>(bits % kValues);
  }

  // A block of prime length, repeated: cheap to make, and no tile size divides it.
  void fillInput(std::size_t i, Pattern pattern) {
    constexpr std::int64_t kBlock = 65521;
    const Tensor& t = tensor(i);
    void* to = host[i].data();
    const std::uint64_t key = randomKey(hash.low, i, static_cast<std::uint64_t>(pattern));
    const std::int64_t elements = t.elements();
    for (std::int64_t e = 0; e < std::min(elements, kBlock); ++e) {
      const std::uint64_t bits = randomBits(key, e);
      const double uniform = static_cast<double>(bits >> 40) * 0x1p-24;
      double value = 0;
      if (t.type == DType::Bool) value = static_cast<double>(bits & 1);
      else if (const auto& range = choice.ranges[inputs[i].value]) value = drawn(*range, bits >> 8, t.type, pattern);
      else if (t.type == DType::I32) value = static_cast<double>((bits >> 8) % 4);
      else if (pattern == Pattern::Integers) value = bits & 1 ? 0 : static_cast<double>((bits >> 1) % 5) - 2;
      else if (pattern == Pattern::Reals) value = inputScale * (2 * uniform - 1);
      else value = inputScale * (0.5 + uniform);
      writeElement(t.type, to, e, value);
    }
    const std::int64_t width = bytesOf(t.type);
    for (std::int64_t done = kBlock; done < elements; done += kBlock)
      std::memcpy(host[i].data() + done * width, host[i].data(),
                  static_cast<std::size_t>(std::min(kBlock, elements - done) * width));
  }

  Result<Unit> fill(Pattern pattern) {
    if (current == pattern) return Unit{};
    current.reset();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      fillInput(i, pattern);
      NF_TRY([[maybe_unused]] const Unit done, device.copyIn(memory[i], host[i].data(), tensor(i).bytes()));
    }
    if (evaluator) evaluator->clear();
    bounds.reset();
    current = pattern;
    return Unit{};
  }

  // The inputs of `current`, which are in `host`.
  TensorValues inputValues() const {
    TensorValues values;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& t = tensor(i);
      TensorData data{t.type, t.shape, std::vector<double>(static_cast<std::size_t>(t.elements()))};
      for (std::int64_t e = 0; e < t.elements(); ++e)
        data.values[static_cast<std::size_t>(e)] = readElement({t.type, host[i].data()}, e);
      values.emplace(inputs[i], std::move(data));
    }
    return values;
  }

  // The first steps of the loop, as many as kStepFlops allow: what is stacked of them.
  Result<Unit> interpretSteps(Expectation& expectation) {
    const Program& body = *loop->body;
    std::vector<TensorId> wanted;
    for (const auto& c : loop->carried) wanted.push_back(c.innerOut);
    for (const auto& s : loop->stacked) wanted.push_back(s.inner);
    NF_TRY(const ReferenceProgram one, ReferenceProgram::prepare(body, wanted));
    const TensorValues outer = inputValues();
    TensorValues inner;
    for (const auto& i : loop->invariants) inner[i.inner] = outer.at(i.outer);
    for (const auto& c : loop->carried) inner[c.innerIn] = outer.at(c.initial);
    const std::int64_t steps =
        std::clamp<std::int64_t>(kStepFlops / std::max<std::int64_t>(flops / loop->trips, 1), 2, loop->trips);
    std::vector<std::int64_t> counters = zeroCounters;
    counters.push_back(0);
    expectation.points.clear();
    for (std::int64_t n = 0; n < steps; ++n) {
      counters.back() = loop->reversed ? loop->trips - 1 - n : n;
      NF_TRY(const TensorValues made, one.run(inner, kSeed, kStep, counters));
      const auto value = [&](TensorId t) -> const TensorData& { return made.contains(t) ? made.at(t) : inner.at(t); };
      for (const auto& s : loop->stacked) {
        const auto o = static_cast<std::size_t>(std::find(outputs.begin(), outputs.end(), s.outer) - outputs.begin());
        const auto& all = value(s.inner).values;
        for (std::size_t e = 0; o < outputs.size() && e < all.size(); ++e)
          expectation.points.push_back(
              {o, counters.back() * static_cast<std::int64_t>(all.size()) + static_cast<std::int64_t>(e), all[e]});
      }
      TensorValues next;
      for (const auto& c : loop->carried) next[c.innerIn] = value(c.innerOut);
      for (auto& [t, data] : next) inner[t] = std::move(data);
    }
    expectation.full = true;
    return Unit{};
  }

  // Everything the reference interpreter says.
  Result<Unit> interpretAll(Expectation& expectation) {
    if (!reference) {
      auto prepared = ReferenceProgram::prepare(*program, outputs);
      if (!prepared) return prepared.error();
      reference.emplace(std::move(*prepared));
    }
    const TensorValues values = inputValues();
    NF_TRY(const TensorValues results, reference->run(values, kSeed, kStep, zeroCounters));
    expectation.points.clear();
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const auto& all = results.at(outputs[o]).values;
      for (std::size_t e = 0; e < all.size(); ++e) expectation.points.push_back({o, static_cast<std::int64_t>(e), all[e]});
    }
    expectation.full = true;
    return Unit{};
  }

  // Arithmetic alone would let all of it be interpreted.
  bool isCheap(bool full) const { return flops <= (full ? kFullFlops : kQuickFlops); }

  void sample(Expectation& expectation, bool full) {
    expectation.points.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) evaluator->bind(inputs[i], {tensor(i).type, host[i].data()});
    evaluator->setRandom(kSeed, kStep);
    std::vector<std::vector<std::int64_t>> positions;
    const std::size_t all = !isCheap(full) ? kPoints : full ? kFullMovedPoints : kQuickMovedPoints;
    const std::size_t each = std::max<std::size_t>(all / std::max<std::size_t>(outputs.size(), 1), 16);
    for (const TensorId output : outputs) {
      const auto& shape = (*program)[output].shape;
      std::vector<std::int64_t> of = samplePositions(shape, each, hash.high);
      const std::vector<std::int64_t> reached = evaluator->reached(shape, of.size() / 2, hash.high);
      for (std::size_t k = 0; k < reached.size() && 2 * k + 1 < of.size(); ++k) of[2 * k + 1] = reached[k];
      positions.push_back(std::move(of));
    }
    std::int64_t work = full ? kFullWork : kQuickWork, owed = owedWork(full);
    expectation.beyond.clear();
    bool more = true;
    for (std::size_t k = 0; more && work > 0; ++k) {
      more = false;
      for (std::size_t o = 0; o < outputs.size() && work > 0; ++o) {
        if (k >= positions[o].size()) continue;
        more = true;
        if (const auto value = evaluator->value(outputs[o], positions[o][k], k == 0 ? owed : work))
          expectation.points.push_back({o, positions[o][k], *value});
        else if (k == 0) expectation.beyond.push_back(o);
      }
    }
    expectation.full = full;
  }

  static double stored(double value, DType type) {
    std::array<std::byte, 8> element{};
    writeElement(type, element.data(), 0, value);
    return readElement({type, element.data()}, 0);
  }

  Result<Unit> expect(Pattern pattern, bool full) {
    Expectation& e = expectations[pattern];
    if (e.known() && (e.full || !full)) return Unit{};
    if (loop && !loop->stacked.empty() && flops > kStepFlops && loop->trips > 2) {
      NF_TRY([[maybe_unused]] const Unit done, interpretSteps(e));
    } else if (!evaluator || (isCheap(full) && moved <= (full ? kFullMoved : kQuickMoved))) {
      NF_TRY([[maybe_unused]] const Unit done, interpretAll(e));
    } else {
      sample(e, full);
      if (!evaluator->failed().empty()) return Error{"gate", evaluator->failed(), device.name(), {}};
    }
    for (ExpectedPoint& p : e.points)  // beyond what the output's type holds is infinite
      if (const double held = stored(p.value, tensor(inputs.size() + p.output).type); !std::isfinite(held)) p.value = held;
    e.scale.assign(outputs.size(), 0);
    std::vector<double> finite(outputs.size(), 0);
    double all = 0;
    for (const ExpectedPoint& p : e.points)
      if (std::isfinite(p.value)) {
        e.scale[p.output] += p.value * p.value;
        ++finite[p.output];
        ++all;
      }
    for (std::size_t o = 0; o < outputs.size(); ++o) e.scale[o] = std::sqrt(e.scale[o] / std::max(finite[o], 1.0));
    e.finiteShare = all / std::max(static_cast<double>(e.points.size()), 1.0);
    return Unit{};
  }

  // Runs with poisoned outputs and brings them to `host`.
  Result<Unit> runOnce(Kernel& kernel, const KernelObject& object) {
    for (std::size_t b = inputs.size(); b < memory.size(); ++b) {
      std::fill(host[b].begin(), host[b].end(), kPoison);
      NF_TRY([[maybe_unused]] const Unit done, device.copyIn(memory[b], host[b].data(), static_cast<std::int64_t>(host[b].size())));
    }
    void* workspace = nullptr;
    if (object.workspaceBytes > 0) { NF_TRY(workspace, device.allocate(object.workspaceBytes)); }
    Result<Unit> outcome = kernel.launch({memory, workspace, zeroCounters, kSeed, kStep});
    if (outcome) outcome = device.synchronize();
    if (workspace) device.release(workspace);
    if (!outcome) return outcome;
    for (std::size_t b = inputs.size(); b < memory.size(); ++b) {
      NF_TRY([[maybe_unused]] const Unit done,
             device.copyOut(host[b].data(), memory[b], static_cast<std::int64_t>(host[b].size())));
    }
    return Unit{};
  }

  // Bytes of poison behind an output must still be there; no element of it may still be poison.
  std::string unwritten() const {
    for (std::size_t b = inputs.size(); b < memory.size(); ++b) {
      const Tensor& t = tensor(b);
      const auto bytes = static_cast<std::size_t>(t.bytes());
      for (std::size_t i = bytes; i < host[b].size(); ++i)
        if (host[b][i] != kPoison) return "it wrote behind the end of " + t.name;
      const auto width = static_cast<std::size_t>(bytesOf(t.type));
      if (t.type == DType::I32 || t.type == DType::Bool) continue;  // -1 may be a result
      const std::byte* const from = host[b].data();
      const std::int64_t found = width == 2   ? firstPoisoned<std::uint16_t>(from, bytes)
                                 : width == 4 ? firstPoisoned<std::uint32_t>(from, bytes)
                                              : firstPoisoned<std::uint64_t>(from, bytes);
      if (found >= 0) return "it left " + t.name + positionText(t.shape, found) + " unwritten";
    }
    return {};
  }

  // Results on integers are those of any order of summation.
  bool isExact() const { return rounded ? exactRounded : exact; }

  double allowed(const Expectation& e, Pattern pattern, std::size_t output, double expected) const {
    if ((pattern == Pattern::Integers && isExact()) || tensor(inputs.size() + output).type == DType::I32) return 0;
    return (rounded ? std::max(tolerance, kHalfTolerance) : tolerance) * (std::fabs(expected) + e.scale[output]);
  }

  // What cancels, or goes one way or another by a hair, differs by more than a share of its size. Few points ask; what is wrong is found
  // by the first.
  double roundingBound(std::size_t output, std::int64_t element) {
    if (!evaluator) return 0;
    if (!bounds) {
      auto made = PointEvaluator::prepare(*program, true, true, rounded ? PointEvaluator::kTf32Unit : 0);
      if (!made) return 0;
      bounds.emplace(std::move(*made));
      boundsWork = kFullWork;
      largestBound.assign(outputs.size(), 0);
      for (std::size_t i = 0; i < inputs.size(); ++i) bounds->bind(inputs[i], {tensor(i).type, host[i].data()});
      bounds->setRandom(kSeed, kStep);
    }
    double& largest = largestBound[output];
    const auto bound = boundsWork > 0 ? bounds->error(outputs[output], element, boundsWork) : std::nullopt;
    if (!bound) return kBeyondKnown * largest;
    if (std::isfinite(*bound)) largest = std::max(largest, *bound);
    return *bound;
  }

  // Adds one comparison to the report; false: wrong.
  bool compare(GateReport& report, const Expectation& e, Pattern pattern, std::size_t output, std::int64_t element, double expected,
               std::string_view against) {
    const std::size_t b = inputs.size() + output;
    const Tensor& t = tensor(b);
    const double got = readElement({t.type, host[b].data()}, element);
    ++report.comparedOutputs;
    // Infinities and NaN arise at other points when sums are reordered; finite results must agree.
    if (!std::isfinite(expected)) return true;
    const double error = std::fabs(got - expected);
    double limit = allowed(e, pattern, output, expected);
    if (!(error <= limit) && !(pattern == Pattern::Integers && isExact())) {
      // The bound is that of one kernel; where two are compared both have theirs.
      limit = std::max(limit, 2 * roundingBound(output, element));
      if (limit == INFINITY) return true;
    }
    const double relative = error == 0 ? 0 : limit == 0 ? INFINITY : error / limit;
    if (relative <= 1) {
      report.worstError = std::max(report.worstError, relative);
      return true;
    }
    report.worstError = std::isfinite(relative) ? std::max(report.worstError, relative) : 1e30;
    report.failure =
        t.name + positionText(t.shape, element) + " is " + number(got) + ", " + std::string(against) + " " + number(expected);
    return false;
  }

  // One point of an output that has none in the work for points, as a norm over all of a large picture: from what the kernel made of the
  // other outputs, and where that is too much as well from a sample of the terms.
  Result<bool> compareNear(GateReport& report, const Expectation& e, Pattern pattern, std::size_t output, bool full) {
    if (!near) {
      NF_TRY(PointEvaluator made, PointEvaluator::prepare(*program, true, true, rounded ? PointEvaluator::kTf32Unit : 0));
      near.emplace(std::move(made));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) near->bind(inputs[i], {tensor(i).type, host[i].data()});
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const TensorView made{tensor(inputs.size() + o).type, host[inputs.size() + o].data()};
      near->bind(outputs[o], o == output ? TensorView{} : made, o == output ? 0 : 2 * allowed(e, pattern, o, 0));
    }
    near->setRandom(kSeed, kStep);
    const std::int64_t element = tensor(inputs.size() + output).elements() - 1;
    constexpr std::int64_t kSamples[] = {0, 16384, 1024};
    for (const std::int64_t terms : kSamples) {
      near->setSample(terms);
      near->clear();
      std::int64_t work = owedWork(full);
      const auto value = near->value(outputs[output], element, work);
      if (!near->failed().empty()) return Error{"gate", near->failed(), device.name(), {}};
      if (!value) continue;
      const auto bound = near->error(outputs[output], element, work);
      if (!bound || !std::isfinite(*bound) || !std::isfinite(*value)) return true;
      const std::size_t b = inputs.size() + output;
      const double got = readElement({tensor(b).type, host[b].data()}, element);
      const double limit = std::max(allowed(e, pattern, output, *value), 2 * *bound);
      ++report.comparedOutputs;
      if (std::fabs(got - *value) <= limit) return true;
      report.worstError = 1e30;
      report.failure = tensor(b).name + positionText(tensor(b).shape, element) + " is " + number(got) + ", expected " +
                       number(*value) + (terms > 0 ? " give or take " + number(limit) : "");
      return false;
    }
    return true;
  }

  // Every output element against the first kernel that passed.
  bool compareAccepted(GateReport& report, const Expectation& e, Pattern pattern) {
    const auto& accepted = e.accepted[rounded];
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const std::size_t b = inputs.size() + o;
      if (accepted[o] == host[b]) {
        report.comparedOutputs += tensor(b).elements();
        continue;
      }
      for (std::int64_t i = 0; i < tensor(b).elements(); ++i) {
        const double before = readElement({tensor(b).type, accepted[o].data()}, i);
        // Both carry a rounding error of their own.
        if (std::fabs(before - readElement({tensor(b).type, host[b].data()}, i)) <= allowed(e, pattern, o, before)) {
          ++report.comparedOutputs;
          continue;
        }
        if (!compare(report, e, pattern, o, i, before, "the first kernel gave")) return false;
      }
    }
    return true;
  }

  Result<bool> checkPattern(GateReport& report, Pattern pattern, Kernel& kernel, const KernelObject& object, bool full) {
    NF_TRY([[maybe_unused]] const Unit filled, fill(pattern));
    NF_TRY([[maybe_unused]] const Unit expected, expect(pattern, full));
    NF_TRY([[maybe_unused]] const Unit ran, runOnce(kernel, object));
    Expectation& e = expectations[pattern];
    report.failure = unwritten();
    if (!report.failure.empty()) return false;
    for (const ExpectedPoint& p : e.points)
      if (!compare(report, e, pattern, p.output, p.element, p.value, "expected")) return false;
    if (!e.accepted[rounded].empty()) return !full || compareAccepted(report, e, pattern);
    for (const std::size_t o : e.beyond) {
      NF_TRY(const bool right, compareNear(report, e, pattern, o, full));
      if (!right) return false;
    }
    return true;
  }

  // False: wrong, as the report says. Error: it did not run, or the reference did not.
  Result<bool> checkPatterns(GateReport& report, Kernel& kernel, const KernelObject& object, bool full) {
    double finite = 0;
    for (const Pattern pattern : kPatterns) {
      if (pattern == Pattern::Integers && !isExact()) continue;
      if (pattern == Pattern::PositiveReals && finite > 0.75) continue;
      NF_TRY(const bool right, checkPattern(report, pattern, kernel, object, full));
      if (!right) return false;
      finite = expectations[pattern].finiteShare;
    }
    return true;
  }

  // Where no values are known that keep every index in range, a kernel must at least refuse them as the reference does: then it
  // runs on the values of the step, whose indices it checks as well.
  bool refusedAlike(Kernel& kernel, const KernelObject& object) {
    if (choice.proved) return false;
    if (!nothingLegal) use(indices->choose(true));
    nothingLegal = true;
    if (!fill(Pattern::Reals)) return false;
    Expectation unused;
    if (flops > kRefusalFlops || interpretAll(unused)) return false;
    return !runOnce(kernel, object).ok();
  }

  // What later kernels are compared with; only once a kernel has passed every pattern.
  void remember(Kernel& kernel, const KernelObject& object) {
    for (auto& [pattern, e] : expectations) {
      auto& accepted = e.accepted[rounded];
      if (!accepted.empty() || !e.known()) continue;
      if (!fill(pattern) || !runOnce(kernel, object)) return;
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        accepted.push_back(host[inputs.size() + o]);
        if (e.scale[o] > 0) continue;  // of an output without points, what the first kernel made
        const Tensor& t = tensor(inputs.size() + o);
        double square = 0;
        for (std::int64_t i = 0; i < t.elements(); ++i)
          if (const double v = readElement({t.type, accepted[o].data()}, i); std::isfinite(v)) square += v * v;
        e.scale[o] = std::sqrt(square / static_cast<double>(std::max<std::int64_t>(t.elements(), 1)));
      }
    }
  }
};

Gate::Gate(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}
Gate::~Gate() = default;

Result<std::unique_ptr<Gate>> Gate::prepare(Device& device, std::shared_ptr<const Program> subgraph, const Hash& hash) {
  auto impl = std::make_unique<Impl>(device, std::move(subgraph), hash);
  impl->describe();
  NF_TRY([[maybe_unused]] const Unit allocated, impl->allocate());
  auto evaluator = PointEvaluator::prepare(*impl->program);
  if (evaluator) impl->evaluator.emplace(std::move(*evaluator));
  return std::unique_ptr<Gate>(new Gate(std::move(impl)));
}

GateReport Gate::check(Kernel& kernel, const KernelObject& object, GateLevel level) {
  const bool full = level == GateLevel::Full;
  if (const bool rounds = roundsToTf32(object.schedule); rounds != m_impl->rounded) {
    m_impl->rounded = rounds;
    m_impl->bounds.reset();
    m_impl->near.reset();
  }
  GateReport report;
  Result<bool> right = m_impl->checkPatterns(report, kernel, object, full);
  while (!right && !m_impl->nothingLegal && m_impl->nextInputs()) {
    report = {};
    right = m_impl->checkPatterns(report, kernel, object, full);
  }
  if (!right) {
    report.failure = right.error().message;
    report.passed = m_impl->refusedAlike(kernel, object);
    if (report.passed) report.failure.clear();
    return report;
  }
  report.passed = *right;
  if (report.passed && full) m_impl->remember(kernel, object);
  return report;
}

bool Gate::reachesIndex(std::size_t binding) const {
  return binding < m_impl->inputs.size() && m_impl->indices->reaches(m_impl->inputs[binding]);
}

std::span<void* const> Gate::tensors() const { return m_impl->memory; }
std::span<const std::int64_t> Gate::counters() const { return m_impl->zeroCounters; }
std::int64_t Gate::bytes() const { return m_impl->totalBytes; }

}  // namespace nf
