// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/protocol/values.h"
#include "core/support/result.h"

// What the workbench and the engine say to each other. One message is one line of JSON, {"type":"graph","id":7,...}; the events that
// `--json-progress` prints too have {"event":"step",...} instead of a type. A line with "binary":N is followed by N raw bytes.
// Both sides start with Hello. A request carries an id > 0; its replies carry the same; Failed or Cancelled ends it when nothing else does.
// Requests about the notebook name the revision they mean; the engine answers for its newest and says which.
namespace nf::protocol {

inline constexpr int kProtocolVersion = 1;
using RequestId = std::uint64_t;  // 0: no request

// ---------------------------------------------------------------- both ways
struct Hello {
  static constexpr const char* kType = "hello";
  int version = kProtocolVersion;
  std::string program;  // "neoflow 0.1.0"
  std::string host;     // name of the machine
  std::int64_t process = 0;
  NF_FIELDS(Hello, version, program, host, process);
};

// ---------------------------------------------------------------- workbench -> engine
struct DocumentReplaced {
  static constexpr const char* kType = "document_replaced";
  std::uint64_t revision = 0;
  std::string name, directory;  // "capsule.nf"; data files are relative to the directory
  std::string text;
  std::uint32_t step = 0;  // of which `train` statement, from 0, views see the step; the last where there are fewer
  NF_FIELDS(DocumentReplaced, revision, name, directory, text, step);
};

// Replaces bytes [begin, end) of revision - 1. An engine that has another revision answers Failed, stage "revision": replace the document.
struct DocumentEdited {
  static constexpr const char* kType = "document_edited";
  std::uint64_t revision = 0;
  std::uint32_t begin = 0, end = 0;
  std::string text;
  NF_FIELDS(DocumentEdited, revision, begin, end, text);
};

struct Cancel {  // of a request; answered by Cancelled under the request's id
  static constexpr const char* kType = "cancel";
  RequestId request = 0;
  NF_FIELDS(Cancel, request);
};

// -> Expression. A tensor, "Y", or a derivative, "d(L)/d(W)".
struct ExpressionRequest {
  static constexpr const char* kType = "get_expression";
  std::uint64_t revision = 0;
  std::string tensor;
  bool numericCheck = false;  // takes the numeric check one round further; asked again until `samples` is `wanted`
  NF_FIELDS(ExpressionRequest, revision, tensor, numericCheck);
};

// -> Expression of the gradient of `output` with respect to `input`, whether the notebook asks for it or not.
struct GradientRequest {
  static constexpr const char* kType = "get_gradient";
  std::uint64_t revision = 0;
  std::string output, input;
  bool numericCheck = false;
  NF_FIELDS(GradientRequest, revision, output, input, numericCheck);
};

// -> GraphPage: nodes [offset, offset + limit) with the edges that end in them.
struct GraphRequest {
  static constexpr const char* kType = "get_graph";
  std::uint64_t revision = 0;
  std::string stage = "fused";
  std::int64_t offset = 0, limit = 2000;
  NF_FIELDS(GraphRequest, revision, stage, offset, limit);
};

struct FusionRequest {  // -> FusionReport
  static constexpr const char* kType = "get_fusion";
  std::uint64_t revision = 0;
  NF_FIELDS(FusionRequest, revision);
};

struct DevicesRequest {  // -> Devices
  static constexpr const char* kType = "get_devices";
  bool measure = false;  // measure the constants again
  // What runs, trains and is tuned from now on goes on this device, where nothing else is asked for; answered when what runs by now has
  // ended. Empty: on the one that is in use.
  std::string use;
  NF_FIELDS(DevicesRequest, measure, use);
};

struct SubgraphsRequest {  // -> Subgraphs
  static constexpr const char* kType = "get_subgraphs";
  std::uint64_t revision = 0;
  NF_FIELDS(SubgraphsRequest, revision);
};

// -> Trials: numbers [from, from + limit). First those on record for this device, from earlier runs, then those of this engine.
struct TrialsRequest {
  static constexpr const char* kType = "get_trials";
  std::string subgraph;
  std::uint64_t from = 0;
  std::int64_t limit = 5000;
  NF_FIELDS(TrialsRequest, subgraph, from, limit);
};

struct SpaceRequest {  // -> Space
  static constexpr const char* kType = "get_space";
  std::string subgraph;
  std::optional<JsonText> at;  // schedule that one knob of is to be turned; none: the current one
  NF_FIELDS(SpaceRequest, subgraph, at);
};

struct KernelRequest {  // -> Kernel
  static constexpr const char* kType = "get_kernel";
  std::string subgraph;
  std::optional<std::uint64_t> trial;  // none: the newest kernel, or the first one's schedule before anything ran
  std::vector<std::string> languages;  // "loops", "llvm", "asm"
  NF_FIELDS(KernelRequest, subgraph, trial, languages);
};

// -> TrialMeasured: compiles, gates and measures this schedule now, under the device's lease. A schedule made by hand becomes a trial
// of the newest generation; a replay has the number and the generation of the trial that it repeats.
struct MeasureRequest {
  static constexpr const char* kType = "measure";
  std::string subgraph;
  JsonText schedule;
  std::optional<std::uint64_t> replays;  // the trial that is measured once more; none: a schedule made by hand
  std::optional<std::uint64_t> base;     // the trial whose knobs were turned to make it
  NF_FIELDS(MeasureRequest, subgraph, schedule, replays, base);
};

// -> FusionCompared: both branches of one fusion decision, forced and forbidden, compiled and measured in turn now.
struct CompareFusionRequest {
  static constexpr const char* kType = "compare_fusion";
  std::uint64_t revision = 0;
  std::string producer, consumer;  // of a FusionDecisionInfo
  NF_FIELDS(CompareFusionRequest, revision, producer, consumer);
};

// -> Profile. While something trains its own steps are timed, at least `steps` of them; else a step is prepared and run that often.
struct ProfileRequest {
  static constexpr const char* kType = "get_profile";
  std::uint64_t revision = 0;
  std::int64_t steps = 20;
  NF_FIELDS(ProfileRequest, revision, steps);
};

struct SeriesRequest {  // -> Series. "latency" (ms) and "loss" over steps
  static constexpr const char* kType = "get_series";
  std::string name;
  double from = 0, to = 1e18;  // of x
  std::int64_t buckets = 1000;
  NF_FIELDS(SeriesRequest, name, from, to, buckets);
};

// -> TensorSlice: one value each of [begin, end) along every axis; empty begin and end: all. At most `limit` values: the rest is cut off.
struct TensorRequest {
  static constexpr const char* kType = "get_tensor";
  std::string tensor;
  std::vector<std::int64_t> begin, end;
  std::int64_t limit = 65536;
  NF_FIELDS(TensorRequest, tensor, begin, end, limit);
};

// Computes what cells show. Without cells: all of them. -> CellResult each, then Finished.
struct RunRequest {
  static constexpr const char* kType = "run";
  std::uint64_t revision = 0;
  std::vector<std::uint32_t> cells;  // indices into Analysis::cells
  std::string device = "auto";
  std::map<std::string, std::string> sets;
  NF_FIELDS(RunRequest, revision, cells, device, sets);
};

// What is computed from now on, until a training has made steps, is with the parameters of this checkpoint; empty: with those of the
// last training. -> Finished, when what runs by now has ended.
struct ValuesRequest {
  static constexpr const char* kType = "use_values";
  std::string checkpoint;  // a path
  NF_FIELDS(ValuesRequest, checkpoint);
};

// Runs a train cell: RunState and the events, then Done or Error. What is empty or 0 is as the cell says. `resume`: a checkpoint to go
// on from; "newest": the last one that a run of this notebook wrote. `weights`: tensors by name that the run begins with, a checkpoint
// or any safetensors or npz file.
struct TrainRequest {
  static constexpr const char* kType = "train";
  std::uint64_t revision = 0;
  std::uint32_t cell = 0;
  std::string mode, device;
  std::int64_t steps = 0;
  double seconds = 0;
  std::map<std::string, std::string> sets;
  std::string resume, weights;
  NF_FIELDS(TrainRequest, revision, cell, mode, device, steps, seconds, sets, resume, weights);
};

struct TuneRequest {  // searches without training
  static constexpr const char* kType = "tune";
  std::uint64_t revision = 0;
  std::vector<std::string> subgraphs;  // empty: all
  std::int64_t trials = 0;             // 0: until the budget is spent
  double seconds = 0;
  NF_FIELDS(TuneRequest, revision, subgraphs, trials, seconds);
};

struct PauseRequest {
  static constexpr const char* kType = "pause";
  NF_FIELDS(PauseRequest);
};
struct ResumeRequest {
  static constexpr const char* kType = "resume";
  NF_FIELDS(ResumeRequest);
};
struct StopRequest {  // of everything that runs: drained within 2 s, then Done
  static constexpr const char* kType = "stop";
  NF_FIELDS(StopRequest);
};
struct BudgetRequest {  // share of device time for tuning while training, 0..1; seconds of tuning alone
  static constexpr const char* kType = "budget";
  std::optional<double> share, seconds;
  NF_FIELDS(BudgetRequest, share, seconds);
};

// ---------------------------------------------------------------- engine -> workbench: replies
struct Failed {  // the world's failure of a request
  static constexpr const char* kType = "failed";
  std::string stage, message, device, detail;
  NF_FIELDS(Failed, stage, message, device, detail);
};
struct Cancelled {
  static constexpr const char* kType = "cancelled";
  NF_FIELDS(Cancelled);
};
struct Finished {  // of a request that has no reply of its own
  static constexpr const char* kType = "finished";
  NF_FIELDS(Finished);
};

// Sent after every DocumentReplaced and DocumentEdited that was not overtaken by a newer one.
struct Analysis {
  static constexpr const char* kType = "analysis";
  std::uint64_t revision = 0;
  double ms = 0;
  std::vector<DiagnosticInfo> diagnostics;
  std::vector<ExtentInfo> extents;
  std::vector<SymbolInfo> symbols;
  std::vector<CellInfo> cells;
  std::vector<TensorInfo> tensors;
  std::vector<TokenInfo> tokens;
  std::vector<ExpansionInfo> expansions;
  std::vector<SourceSpan> spans;  // what Origins index
  std::uint32_t step = 0;         // of which of the cells that train, from 0, graph, decisions and kernels are
  NF_FIELDS(Analysis, revision, ms, diagnostics, extents, symbols, cells, tensors, tokens, expansions, spans, step);
};

// An operator or a derivative: as text, as formulas, and how each gradient term was made.
struct Expression {
  static constexpr const char* kType = "expression";
  static constexpr std::size_t kMostDefinitions = 400;
  std::uint64_t revision = 0;
  std::string tensor, dtype;
  std::vector<std::int64_t> shape;
  std::string text;  // legal source, as `neoflow grad` prints it where the notebook names all that is read
  std::vector<Formula> formulas;
  // Of a derivative: the other derived statements that define what `text` refers to, as source, each after those it reads. At most
  // kMostDefinitions, the nearest ones; how many there are in all.
  std::vector<DerivedStatement> definitions;
  std::int64_t definitionCount = 0;
  std::vector<GradientTermInfo> terms;  // of a derivative
  std::optional<NumericCheck> check;
  std::string uncheckable;  // why there is no check though it was asked for
  Origins origins;
  NF_FIELDS(Expression, revision, tensor, dtype, shape, text, formulas, definitions, definitionCount, terms, check, uncheckable,
            origins);
};

struct GraphPage {
  static constexpr const char* kType = "graph";
  std::uint64_t revision = 0;
  std::string stage;
  std::int64_t offset = 0, totalNodes = 0;
  std::vector<GraphNode> nodes;
  std::vector<GraphEdge> edges;
  std::vector<GraphGroup> groups;    // on the last page
  std::vector<StageSummary> stages;  // on the first page
  NF_FIELDS(GraphPage, revision, stage, offset, totalNodes, nodes, edges, groups, stages);
};

struct FusionReport {
  static constexpr const char* kType = "fusion";
  std::uint64_t revision = 0;
  DeviceConstants device;
  std::vector<FusionDecisionInfo> decisions;
  std::vector<DiagnosticInfo>
      refusedHints;  // what a `hint` asks for and cannot have on this device; and evals that batches would average
  NF_FIELDS(FusionReport, revision, device, decisions, refusedHints);
};

// One run of all that differs between the branches. Later FusionReports carry the saving with the decision, as long as it stands.
struct FusionCompared {
  static constexpr const char* kType = "fusion_compared";
  std::uint64_t revision = 0;
  std::string producer, consumer, device;
  std::string loop;  // whose body holds the kernels, "outer/inner"; empty: none
  std::vector<std::string> fusedKernels, splitKernels;
  Measured fused, split;
  Measured saving;         // split - fused of each pair: positive, the fused branch is faster
  bool separates = false;  // one of them is faster beyond noise
  std::string verdict;     // one sentence
  bool judged = false;     // a fusion that had been taken back was decided anew: reports of before are of the past
  NF_FIELDS(FusionCompared, revision, producer, consumer, device, loop, fusedKernels, splitKernels, fused, split, saving, separates,
            verdict, judged);
};

struct Devices {
  static constexpr const char* kType = "devices";
  std::vector<DeviceInfo> devices;
  std::vector<DoctorLine> doctor;
  NF_FIELDS(Devices, devices, doctor);
};

struct Subgraphs {
  static constexpr const char* kType = "subgraphs";
  std::uint64_t revision = 0;
  std::vector<SubgraphInfo> subgraphs;
  NF_FIELDS(Subgraphs, revision, subgraphs);
};

struct Trials {
  static constexpr const char* kType = "trials";
  std::string subgraph;
  std::uint64_t total = 0;
  std::vector<TrialInfo> trials;
  NF_FIELDS(Trials, subgraph, total, trials);
};

struct TrialMeasured {
  static constexpr const char* kType = "trial_measured";
  std::string subgraph;
  TrialInfo trial;
  NF_FIELDS(TrialMeasured, subgraph, trial);
};

struct Space {
  static constexpr const char* kType = "space";
  std::string subgraph;
  std::string kind;
  double size = 0;
  std::vector<KnobInfo> knobs;
  JsonText current;      // schedule of the newest kernel, or the first one
  JsonText at;           // what was asked about
  std::string ruledOut;  // why the kernel cannot have `at`; empty: it can
  NF_FIELDS(Space, subgraph, kind, size, knobs, current, at, ruledOut);
};

struct Kernel {
  static constexpr const char* kType = "kernel";
  std::string subgraph, name;
  std::optional<std::uint64_t> trial;
  std::int64_t generation = 0;
  std::optional<double> us;
  JsonText schedule;
  std::string expression;                  // language text of the fused operators
  std::vector<Origins> expressionOrigins;  // by line
  std::vector<Origins> expressionPlaces;   // by line: where it and all that it computes is written, as GraphNode::places
  std::vector<KernelTextInfo> texts;
  std::vector<NamedText> facts;  // "workspace", "vector width", "stages" ...
  NF_FIELDS(Kernel, subgraph, name, trial, generation, us, schedule, expression, expressionOrigins, expressionPlaces, texts, facts);
};

struct Profile {
  static constexpr const char* kType = "profile";
  std::uint64_t revision = 0;
  std::string device;
  bool training = false;  // of steps that trained
  std::int64_t runs = 0;
  double stepUs = 0;                    // in kernels, a step
  std::vector<KernelTimeInfo> kernels;  // the most expensive first
  Timeline timeline;                    // of the step that took the median of their times
  std::string countersMissing;          // why no kernel has counters though the device has some, one sentence
  NF_FIELDS(Profile, revision, device, training, runs, stepUs, kernels, timeline, countersMissing);
};

struct Series {
  static constexpr const char* kType = "series";
  std::string name;
  std::int64_t points = 0;  // in the asked range
  std::vector<Bucket> buckets;
  NF_FIELDS(Series, name, points, buckets);
};

// Followed by its values as a binary frame: little-endian f64, row-major over [begin, end).
struct TensorSlice {
  static constexpr const char* kType = "tensor";
  std::string tensor, dtype;
  std::vector<std::int64_t> shape, begin, end;
  std::int64_t step = -1;                      // of training; -1: not trained
  double min = 0, max = 0, mean = 0, rms = 0;  // of the whole tensor's finite values
  std::int64_t nans = 0, infinities = 0;
  std::vector<std::int64_t> histogram;  // equal bins over [min, max]
  bool outdated = false;                // what it depends on has changed since it was computed
  std::int64_t rows = 0;  // it is computed from the first so many rows for training; 0: of none, or of its step's batch
  NF_FIELDS(TensorSlice, tensor, dtype, shape, begin, end, step, min, max, mean, rms, nans, infinities, histogram, outdated, rows);
};

struct CellResult {
  static constexpr const char* kType = "cell_result";
  std::uint64_t revision = 0;
  std::uint32_t cell = 0;
  CellStatus status = CellStatus::Ok;
  double ms = 0;
  std::vector<std::string> tensors;  // whose values can be asked for now
  std::string message;               // of an error; else what its values do not hold of a training, if anything
  NF_FIELDS(CellResult, revision, cell, status, ms, tensors, message);
};

// ---------------------------------------------------------------- engine -> workbench: notifications
enum class RunPhase : std::uint8_t { Idle, Preparing, Computing, Training, Tuning, Paused, Stopping };
constexpr auto enumNames(RunPhase) {
  return std::array{"idle", "preparing", "computing", "training", "tuning", "paused", "stopping"};
}

// At most 20 a second, and at once when the phase changes.
struct RunState {
  static constexpr const char* kType = "run_state";
  RunPhase phase = RunPhase::Idle;
  std::optional<std::uint32_t> cell;
  std::uint64_t revision = 0;
  std::string device;
  std::string detail;  // "compiling 12 of 40 kernels"
  std::int64_t step = 0, steps = 0, epoch = 0, epochs = 0;
  std::int64_t resumedAt = 0;         // the step of the checkpoint that it goes on from; 0: it began by itself
  double seconds = 0;                 // since its own first step began
  std::optional<double> secondsLeft;  // at the recent pace, with all that stands between steps
  std::optional<double> loss;
  std::optional<double> stepMs, stepMsLow, stepMsHigh;  // median of the last samples, and their quartiles
  std::int64_t samples = 0;
  std::int64_t trials = 0, swaps = 0;
  std::int64_t candidates = 0;  // of the trials of a training: all but those that time its first kernels
  double budgetShare = 0, budgetSpentSeconds = 0;
  NF_FIELDS(RunState, phase, cell, revision, device, detail, step, steps, epoch, epochs, resumedAt, seconds, secondsLeft, loss,
            stepMs, stepMsLow, stepMsHigh, samples, trials, swaps, candidates, budgetShare, budgetSpentSeconds);
};

// ---------------------------------------------------------------- events (architecture.md; --json-progress prints these lines)
struct FirstStepEvent {
  static constexpr const char* kEvent = "first_step";
  double ms = 0;  // since the process started
  NF_FIELDS(FirstStepEvent, ms);
};
// Stands for `steps` steps, which end with `step`: at most a 256th of those so far, so that a curve of events is true however fast
// the steps are, and no more than are made in the time between two events.
struct StepEvent {
  static constexpr const char* kEvent = "step";
  std::int64_t step = 0;
  double ms = 0, ms_min = 0, ms_max = 0;  // of those steps: median, least, most
  std::int64_t steps = 1;
  std::optional<double> loss;                // of `step`
  std::optional<double> loss_min, loss_max;  // of those steps: least, most
  double seconds = 0;                        // since training began
  NF_FIELDS(StepEvent, step, ms, ms_min, ms_max, steps, loss, loss_min, loss_max, seconds);
};
struct EvalEvent {
  static constexpr const char* kEvent = "eval";
  std::int64_t step = 0;
  std::optional<double> accuracy, loss;
  std::map<std::string, double> values;  // every `eval` by name
  bool of_inputs = false;                // no rows are held out: of the inputs as they are, and no loss
  std::vector<std::string> averaged;     // values that are means over batches, of an `eval` that is none as written
  NF_FIELDS(EvalEvent, step, accuracy, loss, values, of_inputs, averaged);
};
struct KernelSwapEvent {
  static constexpr const char* kEvent = "kernel_swap";
  std::string subgraph, name;                 // id and name of SubgraphInfo
  std::optional<double> before_us, after_us;  // of one call; null: not measured
  std::int64_t generation = 0;                // of the trial with this schedule; 0: a first kernel
  std::int64_t step = 0;
  double seconds = 0;
  JsonText schedule;  // of the kernel that runs from here on
  // Never sent: of swapOf() a FusionRevertedEvent, and how many kernels its times are of.
  bool split = false;
  std::int64_t kernelsBefore = 1, kernelsAfter = 1;
  NF_FIELDS(KernelSwapEvent, subgraph, name, before_us, after_us, generation, step, seconds, schedule);
};
// The kernel in use and one that has beaten it, once more under the device's counters.
struct KernelCountersEvent {
  static constexpr const char* kEvent = "kernel_counters";
  std::string subgraph, name;  // id and name of SubgraphInfo
  CountedKernel before, after;
  std::string missing;  // why there are none, one sentence: told once
  double seconds = 0;
  NF_FIELDS(KernelCountersEvent, subgraph, name, before, after, missing, seconds);
};
// A fused kernel was slower than its parts beyond noise: from this step on it is split. FusionReport and Subgraphs have changed.
struct FusionRevertedEvent {
  static constexpr const char* kEvent = "fusion_reverted";
  std::string kernel, name;        // signature, and name as GraphGroup has it
  std::string producer, consumer;  // of the decision that says so in FusionReport
  // One run of all kernels that are others without it, itself among the first; how many these are, 0: not known.
  double fused_us = 0, split_us = 0;
  std::int64_t fused_kernels = 0, split_kernels = 0;
  std::int64_t pairs = 0, step = 0;
  double seconds = 0;
  NF_FIELDS(FusionRevertedEvent, kernel, name, producer, consumer, fused_us, split_us, fused_kernels, split_kernels, pairs, step,
            seconds);
};
// The kernels that a training's step runs, bodies of loops included, from `step` on: before the first one, and when fusion is another.
struct StepKernelsEvent {
  static constexpr const char* kEvent = "step_kernels";
  std::vector<std::string> subgraphs;  // ids of SubgraphInfo
  std::int64_t step = 0;
  NF_FIELDS(StepKernelsEvent, subgraphs, step);
};
// The fused kernel against its parts, as views show it among the swaps. It is no subgraph any more.
inline KernelSwapEvent swapOf(const FusionRevertedEvent& e) {
  return {{},
          e.name,
          e.fused_us,
          e.split_us,
          0,
          e.step,
          e.seconds,
          {},
          true,
          std::max<std::int64_t>(1, e.fused_kernels),
          std::max<std::int64_t>(1, e.split_kernels)};
}
// A checkpoint could not be written (a full disk): training goes on and tries again at the next one. Once until one is written again.
struct CheckpointFailedEvent {
  static constexpr const char* kEvent = "checkpoint_failed";
  std::string message;
  std::int64_t step = 0;
  double seconds = 0;
  NF_FIELDS(CheckpointFailedEvent, message, step, seconds);
};
struct TrialEvent {
  static constexpr const char* kEvent = "trial";
  std::string subgraph;
  JsonText schedule;
  std::optional<double> us;
  TrialStatus status = TrialStatus::Ok;
  std::uint64_t number = 0;
  std::int64_t generation = 0;
  double seconds = 0;
  std::optional<double> predicted_us, low_us, high_us;
  std::string name;               // of the subgraph
  std::vector<JsonText> parents;  // schedules it was bred from
  std::string how;
  bool counted = true;  // RunState::trials has it; else a first kernel was only held right, and its time follows as a trial
  bool quick = false;   // compiled quickly, so that a run can begin: another code than the trial with its schedule has
  std::optional<double> beside_us;  // of the best so far, timed in turns with it: `us` of another time may differ
  bool won = false;                 // it was faster in these turns; steps have the last word
  NF_FIELDS(TrialEvent, subgraph, schedule, us, status, number, generation, seconds, predicted_us, low_us, high_us, name, parents,
            how, counted, quick, beside_us, won);
};
// What the search for better kernels came to in a run.
enum class SearchState : std::uint8_t {
  Unknown,   // of a run that an older version kept
  Static,    // the mode is static: there is no search
  Replayed,  // the kernels were those of a swap log
  Finished,  // nothing was left that would be worth a trial: on record, pinned, of one schedule, or with too little to gain
  Unbegun,   // the run ended before a first candidate was tried; its first kernels may have been timed
  Searched,  // candidates were tried
  Fixed,     // the device runs no kernels: there is nothing to search
};
constexpr auto enumNames(SearchState) {
  return std::array{"unknown", "static", "replayed", "finished", "unbegun", "searched", "fixed"};
}
struct DoneEvent {
  static constexpr const char* kEvent = "done";
  std::int64_t steps = 0;       // those of the runs that it was resumed from, too
  std::int64_t resumed_at = 0;  // how many those are; `seconds` and all times are of the others
  std::optional<double> loss, accuracy;
  double first_step_ms = 0, median_step_ms = 0, median_step_ms_first_tenth = 0, median_step_ms_last_tenth = 0, seconds = 0;
  std::int64_t peak_bytes = 0;
  bool stopped = false;                                  // by a person, before its end
  double last_tenth_low_ms = 0, last_tenth_high_ms = 0;  // quartiles of the steps that median_step_ms_last_tenth is of
  std::int64_t last_tenth_steps = 0;
  std::int64_t checkpoints_failed = 0;  // that could not be written on the way
  double preparation_ms = 0;            // from the start until the first step began
  SearchState search = SearchState::Unknown;
  std::map<std::string, double> evals;  // the newest values
  std::vector<std::string> averaged;    // as EvalEvent's
  NF_FIELDS(DoneEvent, steps, resumed_at, loss, accuracy, first_step_ms, median_step_ms, median_step_ms_first_tenth,
            median_step_ms_last_tenth, seconds, peak_bytes, stopped, last_tenth_low_ms, last_tenth_high_ms, last_tenth_steps,
            checkpoints_failed, preparation_ms, search, evals, averaged);
};
// Of the data and of pinned schedules, before the first step: what can be computed and is hardly meant. `line` and `column` count from 1, 0 where there is no place.
struct WarningEvent {
  static constexpr const char* kEvent = "warning";
  std::string message, file;
  std::int64_t line = 0, column = 0;
  NF_FIELDS(WarningEvent, message, file, line, column);
};
struct ErrorEvent {  // training or tuning ended by it; behind Done: what they made could not all be saved
  static constexpr const char* kEvent = "error";
  std::string stage, message, file;
  std::int64_t line = 0, column = 0;
  NF_FIELDS(ErrorEvent, stage, message, file, line, column);
};

using Message =
    std::variant<Hello, DocumentReplaced, DocumentEdited, Cancel, ExpressionRequest, GradientRequest, GraphRequest, FusionRequest,
                 DevicesRequest, SubgraphsRequest, TrialsRequest, SpaceRequest, KernelRequest, MeasureRequest, CompareFusionRequest,
                 ProfileRequest, SeriesRequest, TensorRequest, RunRequest, ValuesRequest, TrainRequest, TuneRequest, PauseRequest,
                 ResumeRequest, StopRequest, BudgetRequest, Failed, Cancelled, Finished, Analysis, Expression, GraphPage,
                 FusionReport, FusionCompared, Devices, Subgraphs, Trials, TrialMeasured, Space, Kernel, Profile, Series,
                 TensorSlice, CellResult, RunState, FirstStepEvent, StepEvent, EvalEvent, KernelSwapEvent, KernelCountersEvent,
                 FusionRevertedEvent, StepKernelsEvent, CheckpointFailedEvent, WarningEvent, TrialEvent, DoneEvent, ErrorEvent>;

struct Envelope {
  RequestId id = 0;
  Message message;
  std::string binary;  // of TensorSlice
  friend bool operator==(const Envelope&, const Envelope&) = default;
};

// One line without its newline. Text that is no UTF-8 is made so; not-a-number and infinities are the strings "nan", "inf", "-inf".
std::string encode(const Message& message, RequestId id = 0);
// What goes over the wire: the line, its newline, the binary frame.
std::string encodeFrame(const Envelope& envelope);
// Keys that are not known are ignored and missing ones keep their default: both sides may be newer. A wrong type, an unknown message,
// a formula that is no tree, a number out of range is an Error of stage "protocol".
Result<Message> decode(std::string_view line);

// The values of a TensorSlice's binary frame, and back.
std::string packValues(const std::vector<double>& values);
std::vector<double> unpackValues(std::string_view binary);

inline constexpr std::size_t kLongestLine = 64u << 20;
inline constexpr std::size_t kLongestBinary = 256u << 20;

// Cuts a byte stream into envelopes. A line that cannot be understood is reported and skipped; a stream that breaks the framing
// (a line or frame past the limits) is dead from there on.
class FrameReader {
 public:
  // The envelopes that became complete. Errors are appended in the order they were met.
  std::vector<Envelope> feed(std::string_view bytes, std::vector<Error>& errors);
  bool broken() const { return m_broken; }
  std::size_t pending() const { return m_buffer.size() - m_at; }  // bytes of a message that is not complete yet

 private:
  std::string m_buffer;
  std::size_t m_at = 0, m_searched = 0;
  std::optional<Envelope> m_waiting;
  std::size_t m_waitingBytes = 0;
  bool m_broken = false;
};

}  // namespace nf::protocol
