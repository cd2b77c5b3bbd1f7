// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"
#include "core/tune/cost_model.h"
#include "core/tune/trial.h"

namespace nf {

struct SearchOptions {
  std::uint64_t seed = 1;
  std::size_t population = 128;  // candidates a round chooses from
  std::size_t elite = 12;        // measured schedules that breed
  double mutantShare = 0.2;      // of a round: mutants that no model has filtered
  double randomShare = 0.05;     // of a round: random ones (epsilon)
  int triesPerCandidate = 8;     // to find one that is new and legal
};

// How a schedule came to be proposed.
struct Lineage {
  std::int64_t round = 0;            // of propose(), from 1
  std::vector<std::string> parents;  // texts of the schedules it was bred from
  std::string how;              // "unroll: 2 to 4", "crossed, tile: [4,8] to [8,8]", "random", "recorded for a similar workload"
  double predictedSeconds = 0;  // by model and estimate when it was proposed
};
// The knobs in which two schedules of one space differ, "unroll: 2 to 4"; three are named, the others counted.
std::string knobDifference(const Schedule& from, const Schedule& to);

// Genetic search over one schedule space (paper, section 6; design: codegen, "Search"). Each round breeds a population from the best
// measured schedules and offers those for which model and estimate together promise most, a share of unfiltered mutants among
// them. The trajectory depends on the seed and the observed timings alone.
class GeneticSearch {
 public:
  // Borrows both.
  GeneticSearch(const ScheduleSpace& space, CostModel& model, SearchOptions options = {});

  // Something to start from (a record of a similar workload): offered before anything else, if it is legal here.
  void suggest(const Schedule& schedule);
  // Never to be offered: tried before, or it has killed a worker.
  void forbid(const Schedule& schedule);
  // Rounds are counted on from that of what was bred before.
  void goOnAfter(std::int64_t round) { m_round = std::max(m_round, round); }
  // Up to `count` schedules that were not offered before. Fewer, or none: the space is exhausted as far as the search can see.
  std::vector<Schedule> propose(std::size_t count);
  // Of a schedule that was proposed; null: of none.
  const Lineage* lineage(const Schedule& schedule) const;
  // What measuring brought. Only an Ok or Slow trial with a time teaches and breeds.
  void observe(const Schedule& schedule, TrialStatus status, double seconds);

  std::size_t observed() const { return m_measured.size(); }
  std::optional<double> bestSeconds() const;
  // Seconds of one call that further rounds may win: what model and estimate promise, blended with the distance to
  // `floorSeconds`, the roofline; halves with every 12 trials that bring nothing.
  // Of a kernel that takes `seconds` and has not been searched.
  static double priorGainSeconds(double seconds, double floorSeconds);
  double expectedGainSeconds(double floorSeconds) const;
  int barrenTrials() const { return m_barren; }  // since the last improvement

 private:
  struct Known {
    Schedule schedule;
    double seconds = 0;
  };
  bool fresh(const Schedule& schedule) const;
  struct Child {
    Schedule schedule;
    std::vector<std::string> parents;
    std::string how;
  };
  Child drawn();
  Child breed();
  Child mutant();
  std::vector<double> predictedSeconds(const std::vector<Schedule>& schedules) const;

  const ScheduleSpace& m_space;
  CostModel& m_model;
  SearchOptions m_options;
  std::mt19937_64 m_rng;
  std::map<std::string, Lineage> m_lineages;  // by text
  std::int64_t m_round = 0;
  std::set<std::string> m_taken;  // texts of all that were offered or forbidden
  std::vector<Schedule> m_suggested;
  std::vector<Known> m_measured;  // by time
  std::vector<CostSample> m_samples;
  double m_promise = std::numeric_limits<double>::infinity();  // best predicted share of the incumbent's time that is saved
  int m_barren = 0;                                            // observations since the last improvement
};

}  // namespace nf
