// SPDX-License-Identifier: Apache-2.0
#include "core/tune/genetic_search.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace nf {

std::string knobDifference(const Schedule& from, const Schedule& to) {
  if (!from.knobs || !to.knobs) return {};
  std::string out;
  int changed = 0;
  for (const auto& [name, value] : to.knobs->items()) {
    const auto before = from.knobs->find(name);
    if (before != from.knobs->end() && *before == value) continue;
    if (++changed > 3) continue;
    out +=
        (out.empty() ? "" : ", ") + name + ": " + (before == from.knobs->end() ? "none" : before->dump()) + " to " + value.dump();
  }
  if (changed > 3) out += ", " + std::to_string(changed - 3) + " more";
  return out;
}

GeneticSearch::GeneticSearch(const ScheduleSpace& space, CostModel& model, SearchOptions options)
    : m_space(space), m_model(model), m_options(options), m_rng(options.seed) {}

void GeneticSearch::suggest(const Schedule& schedule) {
  if (m_space.check(schedule)) m_suggested.push_back(schedule);
}

void GeneticSearch::forbid(const Schedule& schedule) { m_taken.insert(schedule.text()); }

bool GeneticSearch::fresh(const Schedule& schedule) const {
  return !m_taken.contains(schedule.text()) && m_space.check(schedule).ok();
}

GeneticSearch::Child GeneticSearch::drawn() { return {m_space.random(m_rng), {}, "random"}; }

GeneticSearch::Child GeneticSearch::breed() {
  const std::size_t parents = std::min(m_measured.size(), m_options.elite);
  if (parents == 0) return std::uniform_int_distribution<int>(0, 1)(m_rng) ? drawn() : mutant();
  // The better half of a pair drawn at random: the best breeds most, none is left out.
  const auto pick = [&]() -> const Schedule& {
    std::uniform_int_distribution<std::size_t> any(0, parents - 1);
    const std::size_t a = any(m_rng), b = any(m_rng);
    return m_measured[std::min(a, b)].schedule;
  };
  const Schedule& mother = pick();
  const Schedule& father = pick();
  Child child{m_space.cross(mother, father, m_rng), {mother.text()}, {}};
  const bool alone = mother.text() == father.text();
  if (std::uniform_real_distribution<double>(0, 1)(m_rng) < 0.5 || alone) child.schedule = m_space.mutate(child.schedule, m_rng);
  if (!alone) child.parents.push_back(father.text());
  const std::string change = knobDifference(mother, child.schedule);
  child.how = alone ? change : change.empty() ? "crossed" : "crossed, " + change;
  return child;
}

GeneticSearch::Child GeneticSearch::mutant() {
  const std::size_t parents = std::min(m_measured.size(), m_options.elite);
  Schedule from =
      parents == 0 ? m_space.first() : m_measured[std::uniform_int_distribution<std::size_t>(0, parents - 1)(m_rng)].schedule;
  Schedule to = m_space.mutate(from, m_rng);
  std::string how = knobDifference(from, to);
  return {std::move(to), {from.text()}, std::move(how)};
}

const Lineage* GeneticSearch::lineage(const Schedule& schedule) const {
  const auto found = m_lineages.find(schedule.text());
  return found == m_lineages.end() ? nullptr : &found->second;
}

std::vector<double> GeneticSearch::predictedSeconds(const std::vector<Schedule>& schedules) const {
  std::vector<std::vector<double>> features;
  features.reserve(schedules.size());
  for (const Schedule& s : schedules) features.push_back(m_space.features(s));
  std::vector<double> seconds = m_model.predict(features);
  for (std::size_t i = 0; i < schedules.size(); ++i) seconds[i] = m_space.estimateSeconds(schedules[i]) * std::exp(seconds[i]);
  return seconds;
}

std::vector<Schedule> GeneticSearch::propose(std::size_t count) {
  std::vector<Schedule> chosen;
  ++m_round;
  const auto take = [&](const Child& child) {
    if (chosen.size() >= count || !fresh(child.schedule)) return false;
    const std::string text = child.schedule.text();
    m_taken.insert(text);
    m_lineages[text] = {m_round, child.parents, child.how, 0};
    chosen.push_back(child.schedule);
    return true;
  };
  if (m_measured.empty()) take({m_space.first(), {}, "first"});
  for (const Schedule& s : m_suggested) take({s, {}, "recorded for a similar workload"});
  if (chosen.size() < count) m_suggested.clear();

  const auto draw = [&](auto make) {
    for (int i = 0; i < m_options.triesPerCandidate; ++i)
      if (take(make())) return;
  };
  // Shares of a small round come out right on average.
  std::uniform_real_distribution<double> unit(0, 1);
  const std::size_t open = count - chosen.size();
  std::size_t filtered = 0;
  for (std::size_t i = 0; i < open; ++i) {
    const double lot = unit(m_rng);
    if (lot < m_options.randomShare) draw([&] { return drawn(); });
    else if (lot < m_options.randomShare + m_options.mutantShare) draw([&] { return mutant(); });
    else ++filtered;
  }
  if (filtered > 0 && chosen.size() < count) {
    std::vector<Schedule> population;
    std::vector<Child> children;
    std::set<std::string> texts;
    const std::size_t wanted = m_options.population;
    for (std::size_t i = 0; i < wanted; ++i) {
      Child c = i % 8 == 7 ? drawn() : breed();
      if (!fresh(c.schedule) || !texts.insert(c.schedule.text()).second) continue;
      population.push_back(c.schedule);
      children.push_back(std::move(c));
    }
    const std::vector<double> seconds = predictedSeconds(population);
    std::vector<std::size_t> order(population.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return seconds[a] < seconds[b]; });
    if (!order.empty() && !m_measured.empty()) m_promise = std::clamp(1 - seconds[order[0]] / m_measured[0].seconds, 0.0, 0.9);
    for (const std::size_t i : order) take(children[i]);
  }
  // Duplicates may have left places open; whatever is new fills them. Random points alone would not do: in a space where
  // few combinations are legal they come out as the first schedule again and again.
  for (int i = 0; i < 64 && chosen.size() < count; ++i) take(i % 4 == 3 ? drawn() : i % 2 ? breed() : mutant());
  // Nothing to go by before the first trial: the estimate alone is no prediction of the model.
  if (!m_measured.empty()) {
    const std::vector<double> seconds = predictedSeconds(chosen);
    for (std::size_t i = 0; i < chosen.size(); ++i) m_lineages[chosen[i].text()].predictedSeconds = seconds[i];
  }
  return chosen;
}

void GeneticSearch::observe(const Schedule& schedule, TrialStatus status, double seconds) {
  m_taken.insert(schedule.text());
  const bool timed = (status == TrialStatus::Ok || status == TrialStatus::Slow) && seconds > 0 && std::isfinite(seconds);
  if (!timed) {
    ++m_barren;
    return;
  }
  // Tried again with another effort of the compiler: the newer time is that of what would run.
  std::erase_if(m_measured, [&](const Known& k) { return k.schedule == schedule; });
  const bool improves = m_measured.empty() || seconds < 0.98 * m_measured[0].seconds;
  m_barren = improves ? 0 : m_barren + 1;
  const auto at =
      std::upper_bound(m_measured.begin(), m_measured.end(), seconds, [](double s, const Known& k) { return s < k.seconds; });
  m_measured.insert(at, {schedule, seconds});
  const double estimate = m_space.estimateSeconds(schedule);
  if (!(estimate > 0)) return;
  m_samples.push_back({m_space.features(schedule), std::log(seconds / estimate)});
  m_model.fit(m_samples);
}

std::optional<double> GeneticSearch::bestSeconds() const {
  if (m_measured.empty()) return std::nullopt;
  return m_measured[0].seconds;
}

namespace {

constexpr double kPriorPromise = 0.1;  // of the cost model, before a round has spoken

// Peaks are measured too, and data that stays in a cache beats the memory's: a twentieth is always thought possible. Of the distance
// to the roofline a search has closed about a third where it found anything at all.
double gainSeconds(double best, double floor, double promise) {
  const double room = std::clamp(1 - floor / best, 0.05, 1.0);
  return best * (0.5 * std::min(promise, 3 * room) + 0.5 * room / 3);
}

}  // namespace

double GeneticSearch::priorGainSeconds(double seconds, double floorSeconds) {
  return seconds > 0 ? gainSeconds(seconds, floorSeconds, kPriorPromise) : 0;
}

double GeneticSearch::expectedGainSeconds(double floorSeconds) const {
  if (m_measured.empty()) return 0;
  const double promise = std::isfinite(m_promise) ? m_promise : kPriorPromise;
  return gainSeconds(m_measured[0].seconds, floorSeconds, promise) * std::exp2(-m_barren / 12.0);
}

}  // namespace nf
