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

#include "core/autodiff/reverse.h"
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

// Steps relative to a size. A long one drowns rounding, a short one steps over no kink.
constexpr double kSteps[] = {1e-3, 1e-4, 1e-5, 1e-6};
constexpr double kAllowed = 1e-5;
constexpr double kRounding = 8 * 2.3e-16;  // of a sum of terms, relative to the sum of their sizes
constexpr double kFirstBin = -13, kLastBin = -3;
constexpr int kBins = 20;
constexpr std::size_t kWorstSamples = 8;
constexpr std::int64_t kSamples = 256, kMovedSamples = 64;
constexpr double kLeastScale = 1e-12;                       // of a gradient, where all that is compared is smaller
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

// Of the finite values other than 0 the median size, and the root of the mean square of the finite ones; 0 where there are none.
struct Sizes {
  double median = 0, rms = 0;
  static Sizes of(const std::vector<double>& values) {
    std::vector<double> sizes;
    std::size_t finite = 0;
    for (const double v : values) {
      if (!std::isfinite(v)) continue;
      ++finite;
      if (v != 0) sizes.push_back(std::fabs(v));
    }
    if (sizes.empty()) return {};
    const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
    std::nth_element(sizes.begin(), middle, sizes.end());
    const double largest = *std::max_element(sizes.begin(), sizes.end());
    double squares = 0;  // as shares of the largest, whose own square may be too large
    for (const double v : sizes) squares += (v / largest) * (v / largest);
    return {*middle, largest * std::sqrt(squares / static_cast<double>(finite))};
  }
};

// What is not a number is worse than any.
bool worse(double a, double b) { return !std::isnan(b) && (std::isnan(a) || a > b); }

// Keeps the few worst, worst first.
void addWorst(std::vector<protocol::NumericSample>& worst, protocol::NumericSample sample) {
  const auto place = std::find_if(worst.begin(), worst.end(), [&](const auto& known) { return worse(sample.error, known.error); });
  worst.insert(place, std::move(sample));
  if (worst.size() > kWorstSamples) worst.pop_back();
}

bool startsEqual(const Tensor& t) {
  const bool equal = t.init.kind == Initializer::Kind::Zeros || t.init.kind == Initializer::Kind::Constant;
  return equal && t.kind == TensorKind::Param && isFloating(t.type);
}

// What the notebook gives its inputs; where it gives nothing, random values that are legal. moved: parameters that start as one number
// are moved a little, as a gradient where all are equal says little of one where they are not.
Result<TensorValues> inputsOf(const Program& p, const CheckedStart& start, bool moved, std::mt19937_64& rng) {
  std::normal_distribution<double> normal;
  const auto ranges = IndexRanges(p).choose(false).ranges;
  NF_TRY(DataFeed feed, DataFeed::open(p, start.directory, start.random));
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
      NF_TRY(const HostTensor value, initialValue(t, start.random, start.directory));
      for (std::size_t e = 0; e < data.values.size(); ++e) data.values[e] = value.at(static_cast<std::int64_t>(e));
      if (moved && startsEqual(t))
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
Result<Unit> addHeld(const HeldProgram& held, TensorValues& inputs, std::uint64_t random) {
  if (held.values.empty()) return Unit{};
  std::vector<TensorId> computed;
  for (const HeldProgram::Value& v : held.values) computed.push_back(v.computed);
  NF_TRY(const ReferenceProgram program, ReferenceProgram::prepare(held.computes, computed));
  NF_TRY(TensorValues values, program.run(inputs, random));
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
  static std::optional<DerivedRounding> of(const Program& p, TensorId result, const TensorValues& inputs, std::uint64_t random) {
    Program wanted = p;
    wanted.outputs = {{"result", result, OutputRole::Named}};
    const Program q = inDoublePrecision(restrictedTo(wanted, {result}, false));
    auto evaluator = PointEvaluator::prepare(q, true, true);
    if (!evaluator) return std::nullopt;
    DerivedRounding made{std::move(*evaluator), q.tensorNamed(p[result].name)};
    made.m_evaluator.setRandom(random, 0);
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

// A program that is evaluated while a tensor moves. What does not depend on that is computed once.
struct Moved {
  ReferenceProgram value;
  TensorValues inputs;
  double cost = 0;
  std::uint64_t random = 1;

  static Result<Moved> prepare(Program program, TensorId of, TensorId wrt, TensorValues inputs, std::uint64_t random) {
    std::vector<bool> depends(program.tensors.size(), false), needed(program.tensors.size(), false);
    depends[wrt.value] = true;
    markDependents(program, depends, Through::Any);
    needed[of.value] = true;
    std::vector<TensorId> fixed;
    std::vector<Operator> moving;
    for (std::size_t o = program.operators.size(); o-- > 0;) {
      const auto writes = writesOf(program, OperatorId(o));
      if (std::none_of(writes.begin(), writes.end(), [&](TensorId t) { return needed[t.value]; })) continue;
      if (std::any_of(writes.begin(), writes.end(), [&](TensorId t) { return depends[t.value]; })) {
        for (const TensorId t : readsOf(program, OperatorId(o))) needed[t.value] = true;
        moving.push_back(program.operators[o]);
        continue;
      }
      for (const TensorId t : writes)
        if (needed[t.value]) fixed.push_back(t);
    }
    if (!fixed.empty()) {
      NF_TRY(const ReferenceProgram once, ReferenceProgram::prepare(program, fixed));
      NF_TRY(TensorValues values, once.run(inputs, random));
      for (auto& [tensor, data] : values) inputs[tensor] = std::move(data);
    }
    program.operators.assign(std::make_move_iterator(moving.rbegin()), std::make_move_iterator(moving.rend()));
    program.derivatives.clear();
    NF_TRY(ReferenceProgram value, ReferenceProgram::prepare(program, {of}));
    return Moved{std::move(value), std::move(inputs), costOf(program, of), random};
  }
};

struct Value {
  double sum = 0, size = 0;  // of the terms, and of their sizes
};
struct Slope {
  double value = 0, rounding = 0, error = 0;  // error: an estimate, rounding included
  double size = 1;                            // that the steps were relative to
};

}  // namespace

Hash checkedHash(const Program& program, TensorId of, TensorId wrt, TensorId result, TensorId seed, const CheckedStart& start) {
  Program wanted = program;
  wanted.outputs = {{"of", of, OutputRole::Named}, {"result", result, OutputRole::Named}};
  const Program p = restrictedTo(wanted, {of, result}, false);
  Hasher h;
  h.add(start.random);
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
    addFile(p[t].init, start.directory);
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
  std::vector<std::int64_t> shape;  // of wrt
  TensorId of, wrt, seed;
  Program program;      // with wrt given
  TensorValues inputs;  // of that
  Moved plain;          // what stop_gradient cuts is held
  std::vector<Span> held;
  std::vector<double> expected;
  Program derived;  // makes `result`
  TensorId result;
  CheckedStart start;
  struct Choices {
    Moved moved;
    std::optional<ReferenceProgram> computes;  // what is held
    HeldProgram held;
    TensorValues inputs;  // of `computes`
  };
  std::optional<Choices> choices;  // they are held too; made when a sample disagrees
  bool triedChoices = false;
  std::optional<DerivedRounding> rounding;  // made when a sample disagrees
  bool triedRounding = false;
  double largest = 0, spent = 0;
  Sizes sizes;  // of the elements of wrt
  std::mt19937_64 rng;
  std::unordered_map<std::uint64_t, std::uint64_t> drawn;  // what stands at a place of the shuffled elements, where it was moved
  std::size_t firstUndefined = ~std::size_t{0};
  std::map<std::size_t, std::size_t> known;  // by site of `choices`, the place in `check.choices`
  std::unique_ptr<Impl> second;              // at the moved point
  std::vector<Span> choicePlaces;            // of `check.choices`
  protocol::NumericCheck check;

  static Result<std::unique_ptr<Impl>> at(const Program& p, TensorId of, TensorId wrt, TensorId result, TensorId seed,
                                          const CheckedStart& start, bool moved);
  Result<Unit> sampleOne(const std::stop_token& stop);
  Result<Unit> sampleMoved(const std::stop_token& stop);

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
    if (!triedRounding) rounding = DerivedRounding::of(derived, result, inputs, start.random);
    triedRounding = true;
    return rounding ? rounding->at(element) : 0;
  }

  // Null: they can't be told apart, or are too many.
  Choices* holdChoices() {
    if (triedChoices) return choices ? &*choices : nullptr;
    triedChoices = true;
    auto fixed = holdValues(program, of, wrt, Hold::Choices, kMostHeld);
    if (!fixed) return nullptr;
    TensorValues given = inputs;
    if (!addHeld(*fixed, given, start.random)) return nullptr;
    auto moved = Moved::prepare(fixed->holds, of, wrt, std::move(given), start.random);
    if (moved) choices.emplace(Choices{std::move(*moved), {}, std::move(*fixed), inputs});
    return choices ? &*choices : nullptr;
  }

  // The sites of what is chosen otherwise a step beside the point.
  Result<std::vector<std::size_t>> changingAt(Choices& c, std::size_t element, double size) {
    if (!c.computes) {
      std::vector<TensorId> computed;
      for (const HeldProgram::Value& v : c.held.values) computed.push_back(v.computed);
      NF_TRY(ReferenceProgram prepared, ReferenceProgram::prepare(c.held.computes, computed));
      c.computes = std::move(prepared);
    }
    std::vector<std::size_t> sites;
    double& cell = c.inputs.at(wrt).values[element];
    const double before = cell, step = kSteps[0] * size;
    for (const double shift : {step, -step}) {
      cell = before + shift;
      auto values = c.computes->run(c.inputs, start.random);
      cell = before;
      spent += c.moved.cost;
      if (!values) return values.error();
      for (const HeldProgram::Value& v : c.held.values)
        if (c.held.sites[v.site].kind != HeldProgram::Site::Kind::Stop &&
            values->at(v.computed).values != c.moved.inputs.at(v.held).values)
          sites.push_back(v.site);
    }
    std::sort(sites.begin(), sites.end());
    sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
    return sites;
  }

  // Marks the sample with what it lies next to.
  void tell(protocol::NumericSample& sample, const std::vector<std::size_t>& sites) {
    using Kind = protocol::NumericChoice::Kind;
    for (const std::size_t s : sites) {
      const HeldProgram::Site& site = choices->held.sites[s];
      const Kind kind = site.kind == HeldProgram::Site::Kind::Kink    ? Kind::Kink
                        : site.kind == HeldProgram::Site::Kind::First ? Kind::First
                        : site.kind == HeldProgram::Site::Kind::Even  ? Kind::Even
                                                                      : Kind::Jump;
      const auto [place, fresh] = known.emplace(s, check.choices.size());
      if (fresh) {
        check.choices.push_back({site.what, site.reader, kind, 0});
        choicePlaces.push_back(site.place);
      }
      ++check.choices[place->second].samples;
      (kind == Kind::Jump ? sample.jump : sample.tie) = true;
    }
    if (!sample.tie) sample.jump = true;
    check.jumps += sample.jump ? 1 : 0;
    check.ties += sample.tie ? 1 : 0;
  }

  // Its own size first: what a step of another element's size does to it may be another function altogether, or none. Beside much
  // larger terms rounding leaves nothing of a step that small; then what is usual among the elements, and then what is large.
  std::vector<double> sizesAt(std::size_t element) const {
    const double own = std::fabs(point()[element]);
    std::vector<double> tried;
    for (const double size : {own, std::max(own, sizes.median), std::max(own, sizes.rms)})
      if (std::isfinite(size) && size > 0 && (tried.empty() || size > tried.back())) tried.push_back(size);
    if (tried.empty()) tried.push_back(1);
    return tried;
  }

  Result<Value> evaluateAt(Moved& moved, std::size_t element, double shift) {
    double& cell = moved.inputs.at(wrt).values[element];
    const double before = cell;
    cell = before + shift;
    const auto out = moved.value.run(moved.inputs, moved.random);
    cell = before;
    spent += moved.cost;
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
    return Slope{(up.sum - down.sum) / (2 * step), kRounding * std::max(up.size, down.size) / step, 0, 1};
  }

  // Two steps, one half of the other, extrapolated; of several lengths the one that agrees best with itself.
  Result<Slope> slopeAt(Moved& moved, std::size_t element, const std::stop_token& stop) {
    std::optional<Slope> best;
    for (const double size : sizesAt(element))
      for (const double relative : kSteps) {
        if (stop.stop_requested()) return refused("It was stopped.");
        const double step = relative * size;
        NF_TRY(const Slope whole, difference(moved, element, step));
        NF_TRY(const Slope half, difference(moved, element, step / 2));
        Slope made{(4 * half.value - whole.value) / 3, (4 * half.rounding + whole.rounding) / 3, 0, size};
        made.error = std::fabs(made.value - half.value) + made.rounding;
        if (!best || worse(best->error, made.error)) best = made;
        if (best->error <= kAllowed / 100 * std::max(largest, std::fabs(best->value))) return *best;
      }
    return *best;
  }

  // The sample, and whether it refutes.
  std::pair<protocol::NumericSample, bool> compared(std::size_t element, const Slope& slope) const {
    double scale = std::max(largest, kLeastScale);
    for (const double v : {slope.value, expected[element]})
      if (std::isfinite(v)) scale = std::max(scale, std::fabs(v));
    const double apart = std::fabs(slope.value - expected[element]) / scale;
    // A finite value whose own error is not known proves nothing.
    const double error = std::isfinite(apart) && !std::isfinite(slope.error) ? INFINITY : apart;
    const double rounding = slope.rounding / scale;
    return {{coordinates(element, shape), expected[element], slope.value, error, rounding},
            !std::isfinite(error) || error > kAllowed + rounding};
  }
};

NumericChecker::NumericChecker(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}
NumericChecker::NumericChecker(NumericChecker&&) noexcept = default;
NumericChecker& NumericChecker::operator=(NumericChecker&&) noexcept = default;
NumericChecker::~NumericChecker() = default;

Result<std::unique_ptr<NumericChecker::Impl>> NumericChecker::Impl::at(const Program& p, TensorId of, TensorId wrt, TensorId result,
                                                                       TensorId seed, const CheckedStart& start, bool moved) {
  Program program = withGiven(p, wrt);
  const auto held = holdValues(program, of, wrt, Hold::Stops, kMostHeld);
  if (!held)
    return refused(
        "Differences see through stop_gradient, and what it cuts can't be held here: its values are too many, or conditions "
        "around it too tangled.");
  std::mt19937_64 rng(1);
  NF_TRY(TensorValues inputs, inputsOf(p, start, moved, rng));
  const bool computed = producers(p)[wrt.value].valid();
  const auto derived = ReferenceProgram::prepare(p, computed ? std::vector{result, wrt} : std::vector{result});
  if (!derived) return derived.error();
  auto all = derived->run(inputs, start.random);
  if (!all) return all.error();
  if (computed) inputs[wrt] = all->at(wrt);
  TensorValues given = inputs;
  if (const auto added = addHeld(*held, given, start.random); !added) return added.error();
  auto plain = Moved::prepare(held->holds, of, wrt, std::move(given), start.random);
  if (!plain) return plain.error();
  auto impl = std::make_unique<Impl>(Impl{p[wrt].shape, of, wrt, seed, std::move(program), std::move(inputs), std::move(*plain),
                                          held->places, std::move(all->at(result).values), p, result, start});
  impl->rng = rng;
  for (const double g : impl->expected)
    if (std::isfinite(g)) impl->largest = std::max(impl->largest, std::abs(g));
  impl->sizes = Sizes::of(impl->point());
  protocol::NumericCheck& check = impl->check;
  check.elements = static_cast<std::int64_t>(impl->expected.size());
  check.wanted = std::min(moved ? kMovedSamples : kSamples, check.elements);
  check.epsilon = kSteps[0];
  check.allowed = kAllowed;
  check.histogram.assign(kBins, 0);
  check.histogramFirst = kFirstBin;
  check.histogramLast = kLastBin;
  check.held = held->uses;
  return impl;
}

Result<NumericChecker> NumericChecker::prepare(const Program& p, TensorId of, TensorId wrt, TensorId result, TensorId seed,
                                               double operations, const CheckedStart& start) {
  if (!isFloating(p[wrt].type)) return refused(p[wrt].name + " holds whole numbers.");
  if (costOf(p, result) + 4 * costOf(p, of) > operations) return refused("The program is too large to interpret.");
  NF_TRY(std::unique_ptr<Impl> impl, Impl::at(p, of, wrt, result, seed, start, false));
  Program wanted = p;
  wanted.outputs = {{"of", of, OutputRole::Named}, {"result", result, OutputRole::Named}};
  const Program needed = restrictedTo(wanted, {of, result}, false);
  std::vector<bool> read(needed.tensors.size(), false);
  for (std::size_t o = 0; o < needed.operators.size(); ++o)
    for (const TensorId t : readsOf(needed, OperatorId(o))) read[t.value] = true;
  protocol::MovedCheck moved;
  for (std::size_t t = 0; t < read.size(); ++t)
    if (read[t] && startsEqual(needed.tensors[t])) moved.tensors.push_back(needed.tensors[t].name);
  if (!moved.tensors.empty()) {
    moved.wanted = std::min(kMovedSamples, impl->check.elements);
    impl->check.moved = std::move(moved);
  }
  return NumericChecker(std::move(impl));
}

bool NumericChecker::done() const { return m_impl->check.samples == m_impl->check.wanted; }
const std::vector<Span>& NumericChecker::held() const { return m_impl->held; }
const std::vector<Span>& NumericChecker::choices() const { return m_impl->choicePlaces; }

Result<Unit> NumericChecker::Impl::sampleOne(const std::stop_token& stop) {
  const std::size_t element = nextElement();
  NF_TRY(Slope slope, slopeAt(plain, element, stop));
  auto [sample, refutes] = compared(element, slope);
  // Where large terms cancel, the derived value is no better known than they are.
  const double derivedRounding = refutes && std::isfinite(expected[element]) ? roundingOf(element) : 0;
  if (derivedRounding > 0) {
    slope.rounding += derivedRounding;
    std::tie(sample, refutes) = compared(element, slope);
  }
  if (refutes && std::isfinite(expected[element]))
    if (Choices* held = holdChoices()) {
      NF_TRY(Slope beside, slopeAt(held->moved, element, stop));
      beside.rounding += derivedRounding;
      auto [again, still] = compared(element, beside);
      if (!still) {
        NF_TRY(const std::vector<std::size_t> sites, changingAt(*held, element, slope.size));
        sample = std::move(again);
        tell(sample, sites);
        refutes = false;
      }
    }
  const bool defined = std::isfinite(sample.differences) && std::isfinite(sample.derived);
  if (!defined) {
    ++check.undefined;
    firstUndefined = std::min(firstUndefined, element);
    check.firstUndefined = coordinates(firstUndefined, shape);
  }
  const double error = sample.error;
  if (refutes) ++check.refuted;
  if (worse(error, check.worst)) check.worst = error;
  addWorst(check.worstSamples, std::move(sample));
  if (std::isfinite(error)) {
    const double place = (std::log10(std::max(error, 1e-300)) - kFirstBin) / (kLastBin - kFirstBin) * kBins;
    ++check.histogram[static_cast<std::size_t>(std::clamp(place, 0.0, kBins - 1.0))];
  }
  ++check.samples;
  return Unit{};
}

// Keeps the second point's share of samples up with those of the own one, so that both end together.
Result<Unit> NumericChecker::Impl::sampleMoved(const std::stop_token& stop) {
  protocol::MovedCheck& into = *check.moved;
  while (into.samples * check.wanted < check.samples * into.wanted) {
    if (!second) { NF_TRY(second, at(derived, of, wrt, result, seed, start, true)); }
    const double before = second->spent;
    NF_TRY([[maybe_unused]] const Unit sampled, second->sampleOne(stop));
    spent += second->spent - before;
    const protocol::NumericCheck& c = second->check;
    check.refuted += c.refuted - into.refuted;
    into = {std::move(into.tensors), c.samples, into.wanted, c.refuted, c.undefined, c.worst, c.worstSamples};
  }
  return Unit{};
}

Result<protocol::NumericCheck> NumericChecker::goOn(double operations, std::stop_token stop) {
  Impl& m = *m_impl;
  const double until = m.spent + operations;
  while (!done()) {
    if (stop.stop_requested()) return refused("It was stopped.");
    NF_TRY([[maybe_unused]] const Unit sampled, m.sampleOne(stop));
    if (m.check.moved) { NF_TRY([[maybe_unused]] const Unit moved, m.sampleMoved(stop)); }
    if (m.spent >= until) break;
  }
  return m.check;
}

}  // namespace nf
