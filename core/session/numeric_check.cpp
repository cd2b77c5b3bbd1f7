// SPDX-License-Identifier: Apache-2.0
#include "core/session/numeric_check.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "core/device/reference.h"

namespace nf {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr double kAllowed = 1e-5;
constexpr double kFirstBin = -13, kLastBin = -3;
constexpr int kBins = 20;
constexpr std::size_t kWorstSamples = 8;

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

// Keeps the few worst, worst first.
void addWorst(std::vector<protocol::NumericSample>& worst, protocol::NumericSample sample) {
  const auto place = std::find_if(worst.begin(), worst.end(), [&](const auto& known) { return known.error < sample.error; });
  worst.insert(place, std::move(sample));
  if (worst.size() > kWorstSamples) worst.pop_back();
}

}  // namespace

Result<protocol::NumericCheck> checkNumerically(const Program& p, TensorId of, TensorId wrt, TensorId result, TensorId seed,
                                                double operations, std::stop_token stop) {
  const std::vector<OperatorId> made = producers(p);
  if (made[wrt.value].valid()) return refused(p[wrt].name + " is computed, so it can't be moved by itself.");
  if (!isFloating(p[wrt].type)) return refused(p[wrt].name + " holds whole numbers.");
  const double forward = costOf(p, of), gradient = costOf(p, result);
  if (gradient + 4 * forward > operations) return refused("The program is too large to interpret.");
  const auto samples = static_cast<std::int64_t>(
      std::min<double>({256, (operations - gradient) / (2 * forward + 1), static_cast<double>(p[wrt].elements())}));

  std::mt19937_64 rng(1);
  std::normal_distribution<double> normal;
  TensorValues inputs;
  for (std::size_t i = 0; i < p.tensors.size(); ++i) {
    const Tensor& t = p.tensors[i];
    if (t.kind == TensorKind::Intermediate) continue;
    TensorData data{t.type, t.shape, std::vector<double>(static_cast<std::size_t>(t.elements()), 0.0)};
    if (isFloating(t.type))
      for (double& v : data.values) v = normal(rng);
    inputs.emplace(TensorId(i), std::move(data));
  }
  const auto derived = ReferenceProgram::prepare(p, {result});
  const auto value = ReferenceProgram::prepare(p, {of});
  if (!derived) return derived.error();
  if (!value) return value.error();
  const auto all = derived->run(inputs);
  if (!all) return all.error();
  const std::vector<double>& expected = all->at(result).values;
  double largest = 1e-12;
  for (const double g : expected) largest = std::max(largest, std::abs(g));

  const auto evaluateAt = [&](std::size_t element, double shift) -> Result<double> {
    double& cell = inputs.at(wrt).values[element];
    const double before = cell;
    cell = before + shift;
    const auto out = value->run(inputs);
    cell = before;
    if (!out) return out.error();
    const std::vector<double>& y = out->at(of).values;
    double total = 0;
    for (std::size_t i = 0; i < y.size(); ++i) total += y[i] * (seed.valid() ? inputs.at(seed).values[i] : 1.0);
    return total;
  };
  protocol::NumericCheck check;
  check.epsilon = kEpsilon;
  check.allowed = kAllowed;
  check.histogram.assign(kBins, 0);
  check.histogramFirst = kFirstBin;
  check.histogramLast = kLastBin;
  const std::size_t elements = expected.size();
  for (std::int64_t s = 0; s < samples; ++s) {
    if (stop.stop_requested()) return refused("It was stopped.");
    const std::size_t element = static_cast<std::size_t>(samples) == elements ? static_cast<std::size_t>(s) : rng() % elements;
    const auto up = evaluateAt(element, kEpsilon), down = evaluateAt(element, -kEpsilon);
    if (!up) return up.error();
    if (!down) return down.error();
    const double slope = (*up - *down) / (2 * kEpsilon), error = std::abs(slope - expected[element]) / largest;
    check.worst = std::max(check.worst, error);
    addWorst(check.worstSamples, {coordinates(element, p[wrt].shape), expected[element], slope, error});
    const double place = (std::log10(std::max(error, 1e-300)) - kFirstBin) / (kLastBin - kFirstBin) * kBins;
    ++check.histogram[static_cast<std::size_t>(std::clamp(place, 0.0, kBins - 1.0))];
    ++check.samples;
  }
  return check;
}

}  // namespace nf
