// SPDX-License-Identifier: Apache-2.0
#include "core/tune/genetic_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nf {

GeneticSearch::GeneticSearch(const ScheduleSpace& space, CostModel& model, SearchOptions options)
    : m_space(space), m_model(model), m_options(options), m_rng(options.seed) {}

void GeneticSearch::suggest(const Schedule& schedule) {
  if (m_space.check(schedule)) m_suggested.push_back(schedule);
}

void GeneticSearch::forbid(const Schedule& schedule) { m_taken.insert(schedule.text()); }

bool GeneticSearch::fresh(const Schedule& schedule) const {
  return !m_taken.contains(schedule.text()) && m_space.check(schedule).ok();
}

Schedule GeneticSearch::breed() {
  const std::size_t parents = std::min(m_measured.size(), m_options.elite);
  if (parents == 0)
    return std::uniform_int_distribution<int>(0, 1)(m_rng) ? m_space.random(m_rng) : m_space.mutate(m_space.first(), m_rng);
  // The better half of a pair drawn at random: the best breeds most, none is left out.
  const auto pick = [&]() -> const Schedule& {
    std::uniform_int_distribution<std::size_t> any(0, parents - 1);
    const std::size_t a = any(m_rng), b = any(m_rng);
    return m_measured[std::min(a, b)].schedule;
  };
  const Schedule& mother = pick();
  const Schedule& father = pick();
  Schedule child = m_space.cross(mother, father, m_rng);
  if (std::uniform_real_distribution<double>(0, 1)(m_rng) < 0.5 || mother.text() == father.text())
    child = m_space.mutate(child, m_rng);
  return child;
}

Schedule GeneticSearch::mutant() {
  const std::size_t parents = std::min(m_measured.size(), m_options.elite);
  Schedule from =
      parents == 0 ? m_space.first() : m_measured[std::uniform_int_distribution<std::size_t>(0, parents - 1)(m_rng)].schedule;
  return m_space.mutate(from, m_rng);
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
  const auto take = [&](const Schedule& s) {
    if (chosen.size() >= count || !fresh(s)) return false;
    m_taken.insert(s.text());
    chosen.push_back(s);
    return true;
  };
  if (m_measured.empty()) take(m_space.first());
  for (const Schedule& s : m_suggested) take(s);
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
    if (lot < m_options.randomShare) draw([&] { return m_space.random(m_rng); });
    else if (lot < m_options.randomShare + m_options.mutantShare) draw([&] { return mutant(); });
    else ++filtered;
  }
  if (filtered > 0 && chosen.size() < count) {
    std::vector<Schedule> population;
    std::set<std::string> texts;
    const std::size_t wanted = m_options.population;
    for (std::size_t i = 0; i < wanted; ++i) {
      Schedule s = i % 8 == 7 ? m_space.random(m_rng) : breed();
      if (fresh(s) && texts.insert(s.text()).second) population.push_back(std::move(s));
    }
    const std::vector<double> seconds = predictedSeconds(population);
    std::vector<std::size_t> order(population.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return seconds[a] < seconds[b]; });
    if (!order.empty() && !m_measured.empty()) m_promise = std::clamp(1 - seconds[order[0]] / m_measured[0].seconds, 0.0, 0.9);
    for (const std::size_t i : order) take(population[i]);
  }
  // Duplicates may have left places open; whatever is new fills them. Random points alone would not do: in a space where
  // few combinations are legal they come out as the first schedule again and again.
  for (int i = 0; i < 64 && chosen.size() < count; ++i) take(i % 4 == 3 ? m_space.random(m_rng) : i % 2 ? breed() : mutant());
  return chosen;
}

void GeneticSearch::observe(const Schedule& schedule, TrialStatus status, double seconds) {
  m_taken.insert(schedule.text());
  const bool timed = (status == TrialStatus::Ok || status == TrialStatus::Slow) && seconds > 0 && std::isfinite(seconds);
  if (!timed) {
    ++m_barren;
    return;
  }
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

double GeneticSearch::expectedGainSeconds(double floorSeconds) const {
  if (m_measured.empty()) return 0;
  const double best = m_measured[0].seconds;
  const double promise = std::isfinite(m_promise) ? m_promise : 0.1;  // before a round has spoken
  // Peaks are measured too, and data that stays in a cache beats the memory's: a twentieth is always thought possible.
  const double room = std::clamp(1 - floorSeconds / best, 0.05, 1.0);
  // Of the distance to the roofline a search has closed about a third where it found anything at all.
  return best * (0.5 * std::min(promise, 3 * room) + 0.5 * room / 3) * std::exp2(-m_barren / 12.0);
}

}  // namespace nf
