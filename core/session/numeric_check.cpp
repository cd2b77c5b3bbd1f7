// SPDX-License-Identifier: Apache-2.0
#include "core/session/numeric_check.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <tuple>
#include <unordered_map>

#include "core/device/reference.h"
#include "core/ir/structural_hash.h"
#include "core/runtime/data_feed.h"
#include "core/runtime/execution_plan.h"
#include "core/runtime/initialize.h"
#include "core/session/held_values.h"
#include "core/tune/index_ranges.h"
#include "core/tune/point_evaluator.h"

namespace nf {
namespace {

// Steps relative to the size of what is moved. A long one drowns rounding, a short one steps over no kink.
constexpr double kSteps[] = {1e-3, 1e-4, 1e-5, 1e-6};
constexpr double kAllowed = 1e-5;
constexpr double kRounding = 8 * 2.3e-16;  // of a sum of terms, relative to the sum of their sizes
constexpr double kFirstBin = -13, kLastBin = -3;
constexpr int kBins = 20;
constexpr std::size_t kWorstSamples = 8;
constexpr std::int64_t kSamples = 256;
constexpr std::int64_t kMostHeld = std::int64_t{1} << 24;   // values, of 8 bytes
constexpr std::int64_t kBoundWork = std::int64_t{1} << 24;  // expression nodes, to bound the rounding of one element

// Operations to compute `wanted` once.
double costOf(const Program& p, TensorId wanted) {
  const std::vector<OperatorId> made = producers(p);
  std::vector<bool> needed(p.operators.size(), false);
  std::vector<OperatorId> stack;
  const auto need = [&](TensorId t) {
    const OperatorId op = made[t.value];
    if (op.valid() && !needed[op.value]) {
      needed[op.value] = true;
      stack.push_back(op);
    }
  };
  need(wanted);
  double total = 0;
  while (!stack.empty()) {
    const OperatorId op = stack.back();
    stack.pop_back();
    double points = 1;
    for (const Axis& axis : p[op].axes) points *= static_cast<double>(axis.extent);
    total += static_cast<double>(flopsOf(p, op)) + points;
    for (const TensorId t : readsOf(p, op)) need(t);
  }
  return total;
}

Error refused(std::string why) { return {"check", std::move(why), {}, {}}; }

std::vector<std::int64_t> coordinates(std::size_t element, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> at(shape.size());
  auto rest = static_cast<std::int64_t>(element);
  for (std::size_t k = shape.size(); k-- > 0; rest /= shape[k]) at[k] = rest % shape[k];
  return at;
}

// What is not a number is worse than any.
bool worse(double a, double b) { return !std::isnan(b) && (std::isnan(a) || a > b); }

// Keeps the few worst, worst first.
void addWorst(std::vector<protocol::NumericSample>& worst, protocol::NumericSample sample) {
  const auto place = std::find_if(worst.begin(), worst.end(), [&](const auto& known) { return worse(sample.error, known.error); });
  worst.insert(place, std::move(sample));
  if (worst.size() > kWorstSamples) worst.pop_back();
}

// What the notebook gives its inputs; where it gives nothing, random values that are legal. Parameters that start as one number
// are moved a little: where all are equal, kinks lie exactly where they are.
Result<TensorValues> inputsOf(const Program& p, const std::string& directory, std::mt19937_64& rng) {
  std::normal_distribution<double> normal;
  const auto ranges = IndexRanges(p).choose(false).ranges;
  NF_TRY(DataFeed feed, DataFeed::open(p, directory, 1));
  TensorValues inputs;
  for (std::size_t i = 0; i < p.tensors.size(); ++i) {
    const Tensor& t = p.tensors[i];
    if (t.kind == TensorKind::Intermediate) continue;
    TensorData data{t.type, t.shape, std::vector<double>(static_cast<std::size_t>(t.elements()), 0.0)};
    const auto random = [&](std::optional<ValueRange> range) {
      for (double& v : data.values) {
        if (range && isFloating(t.type)) v = range->low + (range->high - range->low) * (static_cast<double>(rng() >> 40) * 0x1p-24);
        else if (range) v = range->low + static_cast<double>(rng() % static_cast<std::uint64_t>(range->high - range->low + 1));
        else v = isFloating(t.type) ? normal(rng) : 0;
      }
    };
    if (t.init.kind == Initializer::Kind::Batch) {
      for (std::size_t k = 0; k < feed.inputs().size(); ++k) {
        const DataFeed::Input& in = feed.inputs()[k];
        if (in.name != t.name) continue;
        HostTensor rows = HostTensor::make(t.type, t.shape);
        if (rows.elements() != feed.batch() * in.rowElements) return refused("The batch of " + t.name + " has another size.");
        feed.training(0, k, rows.bytes.data());
        for (std::size_t e = 0; e < data.values.size(); ++e) data.values[e] = rows.at(static_cast<std::int64_t>(e));
      }
    } else if (t.init.kind == Initializer::Kind::None) {
      random(ranges[i]);
    } else {
      NF_TRY(const HostTensor value, initialValue(t, 1, directory));
      for (std::size_t e = 0; e < data.values.size(); ++e) data.values[e] = value.at(static_cast<std::int64_t>(e));
      const bool equal = t.init.kind == Initializer::Kind::Zeros || t.init.kind == Initializer::Kind::Constant;
      if (equal && t.kind == TensorKind::Param && isFloating(t.type))
        for (double& v : data.values) v += 0.01 * normal(rng) * (v != 0 ? std::fabs(v) : 1);
    }
    inputs.emplace(TensorId(i), std::move(data));
  }
  return inputs;
}

// The program in which t is given: whoever made it leaves it alone.
Program withGiven(const Program& p, TensorId t) {
  Program given = p;
  const OperatorId maker = producers(p)[t.value];
  if (!maker.valid()) return given;
  given[t].kind = TensorKind::Input;
  if (given[maker].kind != OperatorKind::Loop) {
    given.operators.erase(given.operators.begin() + static_cast<std::ptrdiff_t>(maker.value));
    return given;
  }
  Loop& loop = given[given[maker].loop];
  for (auto& c : loop.carried)
    if (c.last == t) c.last = {};
  std::erase_if(loop.stacked, [&](const auto& s) { return s.outer == t; });
  std::erase_if(loop.accumulated, [&](const auto& a) { return a.outer == t; });
  return given;
}

// Gives `inputs` what `held` holds, computed from them.
Result<Unit> addHeld(const HeldProgram& held, TensorValues& inputs) {
  if (held.values.empty()) return Unit{};
  std::vector<TensorId> computed;
  for (const HeldProgram::Value& v : held.values) computed.push_back(v.computed);
  NF_TRY(const ReferenceProgram program, ReferenceProgram::prepare(held.computes, computed));
  NF_TRY(TensorValues values, program.run(inputs));
  for (const HeldProgram::Value& v : held.values) inputs[v.held] = values.at(v.computed);
  return Unit{};
}

// As the interpreter computes: nothing is rounded to the types of tensors.
Program inDoublePrecision(Program p) {
  for (Tensor& t : p.tensors)
    if (isFloating(t.type)) t.type = DType::F64;
  for (ScalarNode& n : p.scalars)
    if (isFloating(n.type)) n.type = DType::F64;
  return p;
}

// How far rounding takes the derived gradient from what it would be, element by element.
class DerivedRounding {
 public:
  // Nothing where points do not stand alone.
  static std::optional<DerivedRounding> of(const Program& p, TensorId result, const TensorValues& inputs) {
    Program wanted = p;
    wanted.outputs = {{"result", result, OutputRole::Named}};
    const Program q = inDoublePrecision(restrictedTo(wanted, {result}, false));
    auto evaluator = PointEvaluator::prepare(q, true, true);
    if (!evaluator) return std::nullopt;
    DerivedRounding made{std::move(*evaluator), q.tensorNamed(p[result].name)};
    made.m_evaluator.setRandom(1, 0);
    for (const auto& [tensor, data] : inputs) {
      if (tensor.value >= p.tensors.size()) continue;
      const TensorId here = q.tensorNamed(p[tensor].name);
      if (here.valid()) made.m_evaluator.bind(here, {DType::F64, data.values.data()});
    }
    return made;
  }
  // 0 where it is not known.
  double at(std::size_t element) {
    std::int64_t work = kBoundWork;
    const auto error = m_evaluator.error(m_result, static_cast<std::int64_t>(element), work);
    return error && std::isfinite(*error) ? *error : 0;
  }

 private:
  DerivedRounding(PointEvaluator evaluator, TensorId result) : m_evaluator(std::move(evaluator)), m_result(result) {}
  PointEvaluator m_evaluator;
  TensorId m_result;
};

struct Value {
  double sum = 0, size = 0;  // of the terms, and of their sizes
};
struct Slope {
  double value = 0, rounding = 0, error = 0;  // error: an estimate, rounding included
};

}  // namespace

Hash checkedHash(const Program& program, TensorId of, TensorId wrt, TensorId result, TensorId seed, const std::string& directory) {
  Program wanted = program;
  wanted.outputs = {{"of", of, OutputRole::Named}, {"result", result, OutputRole::Named}};
  const Program p = restrictedTo(wanted, {of, result}, false);
  Hasher h;
  const auto addFile = [&](const Initializer& init, const std::string& folder) {
    if (init.strings.empty()) return;
    std::error_code code;
    const auto time = std::filesystem::last_write_time(resolvePath(folder, init.strings.front()), code);
    h.add(code ? 0 : static_cast<std::uint64_t>(time.time_since_epoch().count()));
  };
  std::map<TensorId, std::uint64_t> numbers;
  const auto add = [&](TensorId t) {
    const auto [place, fresh] = numbers.emplace(t, numbers.size());
    h.add(place->second);
    if (!fresh || p[t].kind == TensorKind::Intermediate) return;
    h.add(p[t].name).add(static_cast<std::uint64_t>(p[t].kind)).add(declarationOf(p[t]));
    addFile(p[t].init, directory);
    for (const DataSet& d : p.data) {
      if (d.name != p[t].init.data) continue;
      Tensor whole;
      whole.init = d.source;
      h.add(declarationOf(whole)).add(d.directory).add(static_cast<std::uint64_t>(d.heldOutLast));
      addFile(d.source, d.directory);
    }
  };
  for (std::size_t o = 0; o < p.operators.size(); ++o) {
    h.add(structuralHash(p, OperatorId(o)));
    for (const TensorId t : readsOf(p, OperatorId(o))) add(t);
    for (const TensorId t : writesOf(p, OperatorId(o))) add(t);
  }
  for (const TensorId t : {of, wrt, result, seed})
    if (t.valid()) add(p.tensorNamed(program[t].name));
  return h.finish();
}

struct NumericChecker::Impl {
  struct Moved {
    ReferenceProgram value;
    TensorValues inputs;
  };
  std::vector<std::int64_t> shape;  // of wrt
  TensorId of, wrt, seed;
  Program program;                    // with wrt given
  Moved plain;                        // what stop_gradient cuts is held
  std::optional<Moved> withoutJumps;  // jumps too; made when a sample disagrees
  bool triedWithoutJumps = false;
  std::vector<Span> held;
  std::vector<double> expected;
  Program derived;  // makes `result`
  TensorId result;
  std::optional<DerivedRounding> rounding;  // made when a sample disagrees
  bool triedRounding = false;
  double largest = 1e-12, typical = 0;
  double forward = 0, spent = 0;
  std::mt19937_64 rng;
  std::unordered_map<std::uint64_t, std::uint64_t> drawn;  // what stands at a place of the shuffled elements, where it was moved
  std::size_t firstUndefined = ~std::size_t{0};
  protocol::NumericCheck check;

  // The elements in their order where all are checked; else without replacement: the first steps of a shuffle.
  std::size_t nextElement() {
    const auto at = static_cast<std::uint64_t>(check.samples), all = static_cast<std::uint64_t>(check.elements);
    if (check.wanted == check.elements) return static_cast<std::size_t>(at);
    const auto standing = [this](std::uint64_t place) {
      const auto moved = drawn.find(place);
      return moved == drawn.end() ? place : moved->second;
    };
    const std::uint64_t place = at + rng() % (all - at), element = standing(place);
    drawn[place] = standing(at);
    drawn[at] = element;  // a sample that is broken off is drawn from all that are left
    return static_cast<std::size_t>(element);
  }

  const std::vector<double>& point() const { return plain.inputs.at(wrt).values; }

  double roundingOf(std::size_t element) {
    if (!triedRounding) rounding = DerivedRounding::of(derived, result, plain.inputs);
    triedRounding = true;
    return rounding ? rounding->at(element) : 0;
  }

  // Null: they can't be told apart, or are too many.
  Moved* holdJumps() {
    if (triedWithoutJumps) return withoutJumps ? &*withoutJumps : nullptr;
    triedWithoutJumps = true;
    const auto fixed = holdValues(program, of, wrt, Hold::Jumps, kMostHeld);
    if (!fixed) return nullptr;
    TensorValues inputs = plain.inputs;
    if (!addHeld(*fixed, inputs)) return nullptr;
    if (auto value = ReferenceProgram::prepare(fixed->holds, {of}))
      withoutJumps.emplace(Moved{std::move(*value), std::move(inputs)});
    return withoutJumps ? &*withoutJumps : nullptr;
  }

  Result<Value> evaluateAt(Moved& moved, std::size_t element, double shift) {
    double& cell = moved.inputs.at(wrt).values[element];
    const double before = cell;
    cell = before + shift;
    const auto out = moved.value.run(moved.inputs);
    cell = before;
    spent += forward;
    if (!out) return out.error();
    const std::vector<double>& y = out->at(of).values;
    Value total;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double term = y[i] * (seed.valid() ? moved.inputs.at(seed).values[i] : 1.0);
      total.sum += term;
      total.size += std::fabs(term);
    }
    return total;
  }

  Result<Slope> difference(Moved& moved, std::size_t element, double step) {
    NF_TRY(const Value up, evaluateAt(moved, element, step));
    NF_TRY(const Value down, evaluateAt(moved, element, -step));
    return Slope{(up.sum - down.sum) / (2 * step), kRounding * std::max(up.size, down.size) / step, 0};
  }

  // Two steps, one half of the other, extrapolated; of several lengths the one that agrees best with itself.
  Result<Slope> slopeAt(Moved& moved, std::size_t element, const std::stop_token& stop) {
    const double here = std::fabs(point()[element]), size = std::max(here, typical);
    std::optional<Slope> best;
    for (const double relative : kSteps) {
      if (stop.stop_requested()) return refused("It was stopped.");
      const double step = relative * (size > 0 ? size : 1);
      NF_TRY(const Slope whole, difference(moved, element, step));
      NF_TRY(const Slope half, difference(moved, element, step / 2));
      Slope made{(4 * half.value - whole.value) / 3, (4 * half.rounding + whole.rounding) / 3, 0};
      made.error = std::fabs(made.value - half.value) + made.rounding;
      if (!best || worse(best->error, made.error)) best = made;
      if (best->error <= kAllowed / 100 * largest) break;
    }
    return *best;
  }

  // The sample, and whether it refutes.
  std::pair<protocol::NumericSample, bool> compared(std::size_t element, const Slope& slope) const {
    const double apart = std::fabs(slope.value - expected[element]) / largest;
    // A finite value whose own error is not known proves nothing.
    const double error = std::isfinite(apart) && !std::isfinite(slope.error) ? INFINITY : apart;
    const double rounding = slope.rounding / largest;
    return {{coordinates(element, shape), expected[element], slope.value, error, rounding},
            !std::isfinite(error) || error > kAllowed + rounding};
  }
};

NumericChecker::NumericChecker(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}
NumericChecker::NumericChecker(NumericChecker&&) noexcept = default;
NumericChecker& NumericChecker::operator=(NumericChecker&&) noexcept = default;
NumericChecker::~NumericChecker() = default;

Result<NumericChecker> NumericChecker::prepare(const Program& p, TensorId of, TensorId wrt, TensorId result, TensorId seed,
                                               double operations, const std::string& directory) {
  if (!isFloating(p[wrt].type)) return refused(p[wrt].name + " holds whole numbers.");
  const double forward = costOf(p, of), gradient = costOf(p, result);
  if (gradient + 4 * forward > operations) return refused("The program is too large to interpret.");
  Program program = withGiven(p, wrt);
  const auto held = holdValues(program, of, wrt, Hold::Stops, kMostHeld);
  if (!held)
    return refused(
        "Differences see through stop_gradient, and what it cuts can't be held here: its values are too many, or conditions "
        "around it too tangled.");
  std::mt19937_64 rng(1);
  NF_TRY(TensorValues inputs, inputsOf(p, directory, rng));
  const bool computed = producers(p)[wrt.value].valid();
  const auto derived = ReferenceProgram::prepare(p, computed ? std::vector{result, wrt} : std::vector{result});
  if (!derived) return derived.error();
  auto all = derived->run(inputs);
  if (!all) return all.error();
  if (computed) inputs[wrt] = all->at(wrt);
  if (const auto added = addHeld(*held, inputs); !added) return added.error();
  auto value = ReferenceProgram::prepare(held->holds, {of});
  if (!value) return value.error();
  auto impl = std::make_unique<Impl>(Impl{p[wrt].shape,
                                          of,
                                          wrt,
                                          seed,
                                          std::move(program),
                                          {std::move(*value), std::move(inputs)},
                                          {},
                                          false,
                                          held->places,
                                          std::move(all->at(result).values),
                                          p,
                                          result});
  impl->forward = forward;
  impl->rng = rng;
  for (const double g : impl->expected)
    if (std::isfinite(g)) impl->largest = std::max(impl->largest, std::abs(g));
  const std::vector<double>& here = impl->point();
  double squares = 0;
  for (const double v : here) squares += v * v;
  impl->typical = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(here.size(), 1)));
  protocol::NumericCheck& check = impl->check;
  check.elements = static_cast<std::int64_t>(impl->expected.size());
  check.wanted = std::min(kSamples, check.elements);
  check.epsilon = kSteps[0];
  check.allowed = kAllowed;
  check.histogram.assign(kBins, 0);
  check.histogramFirst = kFirstBin;
  check.histogramLast = kLastBin;
  check.held = held->uses;
  return NumericChecker(std::move(impl));
}

bool NumericChecker::done() const { return m_impl->check.samples == m_impl->check.wanted; }
const std::vector<Span>& NumericChecker::held() const { return m_impl->held; }

Result<protocol::NumericCheck> NumericChecker::goOn(double operations, std::stop_token stop) {
  Impl& m = *m_impl;
  protocol::NumericCheck& check = m.check;
  const double until = m.spent + operations;
  while (!done()) {
    if (stop.stop_requested()) return refused("It was stopped.");
    const std::size_t element = m.nextElement();
    NF_TRY(Slope slope, m.slopeAt(m.plain, element, stop));
    auto [sample, refuted] = m.compared(element, slope);
    // Where large terms cancel, the derived value is no better known than they are.
    const double derivedRounding = refuted && std::isfinite(m.expected[element]) ? m.roundingOf(element) : 0;
    if (derivedRounding > 0) {
      slope.rounding += derivedRounding;
      std::tie(sample, refuted) = m.compared(element, slope);
    }
    if (refuted && std::isfinite(m.expected[element]))
      if (Impl::Moved* moved = m.holdJumps()) {
        NF_TRY(Slope beside, m.slopeAt(*moved, element, stop));
        beside.rounding += derivedRounding;
        auto [again, still] = m.compared(element, beside);
        if (!still) {
          sample = std::move(again);
          sample.jump = true;
          refuted = false;
          ++check.jumps;
        }
      }
    const bool defined = std::isfinite(sample.differences) && std::isfinite(sample.derived);
    if (!defined) {
      ++check.undefined;
      m.firstUndefined = std::min(m.firstUndefined, element);
      check.firstUndefined = coordinates(m.firstUndefined, m.shape);
    }
    const double error = sample.error;
    if (refuted) ++check.refuted;
    if (worse(error, check.worst)) check.worst = error;
    addWorst(check.worstSamples, std::move(sample));
    if (std::isfinite(error)) {
      const double place = (std::log10(std::max(error, 1e-300)) - kFirstBin) / (kLastBin - kFirstBin) * kBins;
      ++check.histogram[static_cast<std::size_t>(std::clamp(place, 0.0, kBins - 1.0))];
    }
    ++check.samples;
    if (m.spent >= until) break;
  }
  return check;
}

}  // namespace nf
