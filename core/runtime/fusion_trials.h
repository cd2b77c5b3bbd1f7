// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <vector>

#include "core/fusion/site.h"
#include "core/protocol/message.h"
#include "core/runtime/device_context.h"
#include "core/runtime/pipeline.h"

// Fusion decided by measurement: the reward is a filter, the device has the last word (paper, section 6.1; design: architecture, "Dynamic
// mode").
namespace nf {

struct FusionComparison {
  Timing first, second;          // of one run of each side of the site, microseconds
  std::vector<TimedPair> pairs;  // incumbent: the first; empty where the second one was dropped at once
  PairedVerdict verdict;         // Accept: the second one is faster beyond noise
  bool separates = false;        // one of them is, whichever
  // second - first of each pair, microseconds: median, and what holds it with 95 %. Zeroes where there are no pairs.
  double saved = 0;
  TimeInterval savedInterval;
  std::map<Hash, Schedule> schedules;  // that the kernels of both sides ran by
  double deviceSeconds = 0;
  bool takesBack() const;  // the second one is faster, and by what the pairs themselves hold apart from nothing
};

struct CompareOptions {
  bool whole = false;  // see CompareJob
  bool exclusive = true;
  // The schedule to make a kernel by; nullopt or empty: the analytic model's.
  std::function<std::optional<Schedule>(const Hash&)> schedule;
  std::vector<Hint> hints;  // of the program: a schedule that one pins goes before all others
};

// Of a device that interprets.
Error measuresNothing(std::string device = {});

// Compiles the kernels of both sides in workers and runs the two in turn in the measuring worker. An Error where a kernel can't be made
// or fails its gate. nullopt: stop was requested.
Result<std::optional<FusionComparison>> compareSite(const FusionSite& site, DeviceContext& context, const CompareOptions& options,
                                                    std::stop_token stop);

// One decision both ways: everything of the body that makes `producer` that differs between the plan of these stages and the nearest one
// that decides otherwise: without the notebook's hint on the two where that does, else with a hint against it. first: fused.
//   plan: {B, C}, {B#2, D}     neighbour, B apart from C: {B, D}, {C}
// An Error where the fusion can't be lowered, with its reason, or changes nothing.
Result<FusionSite> branchSite(const Stages& stages, const StageOptions& options, const std::string& producer,
                              const std::string& consumer);

struct BranchComparison {
  FusionSite site;  // first: fused
  FusionComparison comparison;
  bool fusedTuned = false, splitTuned = false;  // schedules of every kernel of the side have been searched on this device
  bool pinned = false;                          // a `hint schedule` is for a kernel of them
  std::optional<FusionState> judged;            // of a fusion that had been taken back: Reverted or Accepted by this, and on record
  bool recorded() const { return fusedTuned && splitTuned; }  // else both sides ran by first schedules
  std::string verdict() const;                                // what was found, and by which schedules
};
// All pairs, whichever is slower, like with like: each kernel by its best schedule on record where both sides have been tuned, else each
// by its first. Errors of branchSite, and where a kernel can't be made. A fusion that measurement had taken back is judged anew where
// both sides ran by schedules of one kind, none pinned, and the fused one has the very kernel that had lost.
Result<std::optional<BranchComparison>> compareBranches(const Stages& stages, DeviceContext& context, const StageOptions& options,
                                                        const std::string& producer, const std::string& consumer,
                                                        std::stop_token stop);

// The best schedules that are recorded for the context's device.
std::function<std::optional<Schedule>(const Hash&)> recordedSchedules(const DeviceContext& context);
// Kernels that are known to be slower than their parts on the context's device.
MeasuredKernels revertedKernels(const DeviceContext& context);

// A kernel that turned out slower than its parts, and the program without it.
struct RevertedFusion {
  FusedKernel kernel;
  std::vector<Hash> parts;  // JudgedKernel
  FusionMeasurement measurement;
  std::map<Hash, Schedule> schedules;  // it was measured with, of the kernel and of its parts
  Stages stages;
  JudgedKernel judged() const { return {kernel.signature, parts}; }
};

protocol::FusionRevertedEvent revertedEvent(const RevertedFusion& reverted);  // without step and time

// Holds every fused kernel against what fusion would make without it, unless the analytic model is sure, until none loses. One that a
// `hint schedule` pins, itself or a part, stays: what the search finds for the others says nothing of it. Each verdict is recorded and
// never asked for again: that a kernel stays holds wherever it is met, that it loses only where the same parts would take its place. One
// that has lost elsewhere is asked for here. A kernel that loses by schedules that have been superseded meanwhile is measured again. One thread at a time.
class FusionTrials {
 public:
  struct Options {
    StageOptions stages;  // of the fusion that runs; `fusion.reverted` grows
    bool exclusive = true;
    bool useRecords = true;
    std::function<std::optional<Schedule>(const Hash&)> schedule;
    std::function<bool(std::stop_token)> before;  // of a comparison: waits for its turn. False: a stop
    std::function<void(double)> after;            // device seconds it took
    // The kernel that is held against its parts next: how many were judged before it, and how many there are now.
    std::function<void(std::size_t, std::size_t, const FusedKernel&)> judging;
  };
  FusionTrials(DeviceContext& context, Stages running, Options options);

  // The next kernel that loses; nullopt: none is left, or a stop. Compiles and measures: it takes its time. Before it is called again,
  // accept() or refuse() says what became of the kernel.
  Result<std::optional<RevertedFusion>> next(std::stop_token stop);
  // Its parts have taken its place.
  void accept();
  // It stays. superseded: by now its parts, or the kernel itself, run by other schedules than those it was measured with, and it is
  // measured again; else it is not asked for any more, and nothing is recorded.
  void refuse(bool superseded);

 private:
  struct Doubt {
    FusionSite site;
    std::vector<Hash> parts;  // JudgedKernel
  };
  enum class Verdict : std::uint8_t { Stays, Loses, Superseded, Stopped };
  struct Judgement {
    Verdict verdict = Verdict::Stays;
    std::vector<Hash> parts;
    FusionMeasurement measurement;
    std::map<Hash, Schedule> schedules;
  };
  struct Open {
    FusedKernel kernel;
    std::vector<Hash> parts;
    FusionMeasurement measurement;
    Stages before;
    JudgedKernel judged() const { return {kernel.signature, parts}; }
  };
  Result<Judgement> verdictOn(const FusedKernel& kernel, std::stop_token stop);
  Result<std::optional<Doubt>> doubtfulSite(const FusedKernel& kernel) const;
  std::optional<double> estimate(const std::vector<SiteKernel>& kernels) const;
  // The best ones known now.
  std::map<Hash, std::optional<Schedule>> schedulesOf(const FusionSite& site) const;
  void record(const JudgedKernel& kernel, bool reverted, const FusionMeasurement& measurement);

  DeviceContext& m_context;
  Stages m_running;
  Options m_options;
  std::set<Hash> m_judged;         // by signature: those that stay
  std::set<JudgedKernel> m_known;  // of those that have lost somewhere
  std::map<Hash, int> m_measured;  // comparisons of one kernel
  std::optional<Open> m_open;      // loses, and neither accepted nor refused yet
  std::size_t m_seen = 0;          // judged by this one
};

// All of it at once, for `tune`: the stages when no fused kernel loses any more, or a stop was requested.
Result<Stages> settleFusion(Stages stages, DeviceContext& context, StageOptions options,
                            const std::function<void(const RevertedFusion&)>& reverted, std::stop_token stop,
                            decltype(FusionTrials::Options::judging) judging = {});

}  // namespace nf
