// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/protocol/fields.h"

// The value structs that messages are made of: plain data that the views draw and the engine fills.
// Units stand in the names: bytes, flops, microseconds (us), milliseconds (ms), seconds. Places are UTF-8 byte offsets of the
// notebook's text at the message's revision.
namespace nf::protocol {

// Where a thing comes from: indices into Analysis::spans of the same revision. Every linked view selects by these.
using Origins = std::vector<std::uint32_t>;

// A JSON value kept as its canonical text (schedules: `{"version":1,"kind":..,"knobs":{..}}`). On the wire it is the value itself.
struct JsonText {
  std::string text = "null";
  friend bool operator==(const JsonText&, const JsonText&) = default;
};

// ---------------------------------------------------------------- the notebook's meaning
enum class Severity : std::uint8_t { Error, Warning, Note };
constexpr auto enumNames(Severity) { return std::array{"error", "warning", "note"}; }

struct SourceSpan {
  std::string source;  // empty: the notebook; else the file of the standard library, "std/conv.nf"
  std::uint32_t begin = 0, end = 0;
  NF_FIELDS(SourceSpan, source, begin, end);
};

struct Note {
  std::string message;
  SourceSpan span;
  NF_FIELDS(Note, message, span);
};

struct Fix {
  std::string label;  // "p: 27"
  std::uint32_t begin = 0, end = 0;
  std::string text;  // replaces [begin, end)
  NF_FIELDS(Fix, label, begin, end, text);
};

struct DiagnosticInfo {
  Severity severity = Severity::Error;
  std::string code, message;
  SourceSpan span;
  std::uint32_t line = 1, column = 1;  // of span.begin, from 1, in code points
  std::vector<Note> notes;
  std::vector<Fix> fixes;
  NF_FIELDS(DiagnosticInfo, severity, code, message, span, line, column, notes, fixes);
};

// "p: 28" in grey after the statement.
struct ExtentInfo {
  std::uint32_t begin = 0, end = 0;  // of the statement
  std::string axis;
  std::int64_t extent = 0;
  NF_FIELDS(ExtentInfo, begin, end, axis, extent);
};

enum class SymbolKind : std::uint8_t { Extent, Data, Input, Param, Const, State, Tensor, Function, Loss, Eval };
constexpr auto enumNames(SymbolKind) {
  return std::array{"extent", "data", "input", "param", "const", "state", "tensor", "function", "loss", "eval"};
}

struct SymbolInfo {
  SymbolKind kind = SymbolKind::Tensor;
  std::string name;
  std::string detail;  // "f32 [32, 28, 28]", "conv2d(X[N,C,H,W], K, R; stride = 1, pad = 0) -> Y"
  SourceSpan definition;
  std::vector<SourceSpan> uses;
  NF_FIELDS(SymbolInfo, kind, name, detail, definition, uses);
};

enum class CellStatus : std::uint8_t { Ok, Error, Stale, Queued, Running };
constexpr auto enumNames(CellStatus) { return std::array{"ok", "error", "stale", "queued", "running"}; }

struct TrainInfo {
  std::string loss, optimizer, mode, device;
  std::int64_t epochs = 0, steps = 0, batch = 0;
  std::uint64_t seed = 1;
  std::string program;       // as run.json of its runs has it: a checkpoint of another one is not gone on from. Empty: not known
  std::uint32_t number = 0;  // of the statement among all, from 0
  NF_FIELDS(TrainInfo, loss, optimizer, mode, device, epochs, steps, batch, seed, program, number);
};

struct CellInfo {
  bool markdown = false;
  std::uint32_t begin = 0, end = 0;
  CellStatus status = CellStatus::Ok;
  std::string summary;               // "Y  f32 [1, 32, 28, 28, 4, 4], 1.53 MiB · 231 MFLOP"
  std::vector<std::string> defines;  // tensors
  std::vector<std::string> shows;    // tensors and derivatives a `show` of this cell names
  std::optional<TrainInfo> train;
  // Names it uses that a mistake elsewhere has kept from being made: what uses them cannot be run.
  std::vector<std::string> waits;
  std::string meaning;  // of what a run of it depends on: results of another meaning are stale. Empty: it shows and trains nothing
  NF_FIELDS(CellInfo, markdown, begin, end, status, summary, defines, shows, train, waits, meaning);
};

struct TensorInfo {
  std::string name;  // "Y", "block3.conv1.F", "d(L)/d(W)"
  SymbolKind kind = SymbolKind::Tensor;
  std::string dtype;  // "f32"
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0;
  bool derivative = false;
  Origins origins;
  Origins readers;  // of a tensor that no operator makes: the accesses that read it
  NF_FIELDS(TensorInfo, name, kind, dtype, shape, bytes, derivative, origins, readers);
};

// A token of the notebook that names a tensor, stands for an access of it or for the function that makes it; in the body of a `for`
// a statement, too. What is inside of a loop is known by the tensor of the program around that it reads or that becomes of it.
struct TokenInfo {
  std::uint32_t begin = 0, end = 0;
  std::string tensor;  // empty: of a loop's body alone, made anew in every step
  std::string inside;  // its name in the body of a loop; empty: outside of loops
  Origins origins;
  NF_FIELDS(TokenInfo, begin, end, tensor, inside, origins);
};

// A place in the body of a function of the notebook: what its calls make there, of an access what it reads, in the order of the calls.
struct ExpansionInfo {
  std::uint32_t span = 0;  // as in Origins; no origin of anything, for the call is
  std::vector<std::string> tensors;
  std::vector<std::string> made;  // those of them that are made there; the others are read
  Origins calls;                  // where those that are made there are called: words in the text and in the bodies around
  NF_FIELDS(ExpansionInfo, span, tensors, made, calls);
};

// ---------------------------------------------------------------- formulas
// A formula as a flat tree: children precede their parent, the last node is the root, every other node has one parent.
enum class FormulaKind : std::uint8_t {
  Number,     // text
  Name,       // text
  Subscript,  // children: base, index, index, ...
  Reduce,     // text: sum, prod, max, min, mean, argmax, argmin; axes; child: body
  Infix,      // text: + - * // % < <= == != and or; children: left, right
  Prefix,     // text: - not; child
  Fraction,   // children: numerator, denominator
  Power,      // children: base, exponent
  Call,       // text: function; children: arguments. sqrt, abs and floor have signs of their own
  Cases,      // children: condition, value, otherwise
  Partial,    // children: of, with respect to
  Equation,   // children: left, right
};
constexpr auto enumNames(FormulaKind) {
  return std::array{"number",   "name",  "subscript", "reduce", "infix",   "prefix",
                    "fraction", "power", "call",      "cases",  "partial", "equation"};
}

struct FormulaAxis {
  std::string name;
  std::int64_t first = 0, last = 0;  // inclusive
  NF_FIELDS(FormulaAxis, name, first, last);
};

struct FormulaNode {
  FormulaKind kind = FormulaKind::Number;
  std::string text;
  std::vector<std::uint32_t> children;
  std::vector<FormulaAxis> axes;
  Origins origins;
  Origins bodies;  // places in bodies of functions of the notebook that it was written out from
  NF_FIELDS(FormulaNode, kind, text, children, axes, origins, bodies);
};

struct Formula {
  std::string name;  // of the operator that it writes out; empty: a line of a loop
  std::vector<FormulaNode> nodes;
  NF_FIELDS(Formula, name, nodes);
};

// Whether the tree is one: what the painter and the printers rely on. Depth is at most kFormulaDepth.
inline constexpr std::uint32_t kFormulaDepth = 200;
bool wellFormed(const Formula& formula);

// ---------------------------------------------------------------- gradients
// Zero and Empty add nothing: no slope leads through the access, or no point reads it.
enum class GradientForm : std::uint8_t { Gather, Scatter, Zero, Empty };
constexpr auto enumNames(GradientForm) { return std::array{"gather", "scatter", "zero", "empty"}; }
inline bool addsNothing(GradientForm form) { return form == GradientForm::Zero || form == GradientForm::Empty; }
// Checking: the proof is under way, and nothing runs before it ends. Then the engine sends the Expression again, with id 0; so it does
// of what is Unneeded as far as the time of a view told. Untried: the index depends on data, so there is nothing to invert.
enum class CertificateState : std::uint8_t { Proved, Empty, Uncertified, Checking, Unneeded, Untried };
constexpr auto enumNames(CertificateState) {
  return std::array{"proved", "empty", "uncertified", "checking", "unneeded", "untried"};
}

// An operator that derivation has made.
struct DerivedStatement {
  std::string tensor;  // that it makes, of a loop the first one: the id of its graph node
  std::string text;    // source
  Origins origins;
  NF_FIELDS(DerivedStatement, tensor, text, origins);
};

struct DerivationStep {
  std::string title;
  std::vector<std::string> lines;
  NF_FIELDS(DerivationStep, title, lines);
};

struct GradientTermInfo {
  std::string tensor;   // whose gradient
  std::string access;   // in normal form: "A[b, c, 2*p + r, 2*q + s, i, l]"
  std::string written;  // as it stands in the source; empty: as `access` but for spaces
  std::string result;   // the tensor this term makes: "d(L)/d(A)"
  GradientForm form = GradientForm::Gather;
  CertificateState certificate = CertificateState::Uncertified;
  double certificateMs = 0;
  std::string why;  // of all but gather
  std::int64_t tripsPerElement = 0;
  std::vector<DerivationStep> derivation;
  Origins origins;
  NF_FIELDS(GradientTermInfo, tensor, access, written, result, form, certificate, certificateMs, why, tripsPerElement, derivation,
            origins);
};

// One element of a numeric check.
struct NumericSample {
  std::vector<std::int64_t> element;
  // Relative to the largest gradient element, or to the larger of the two where that is more: how far apart they are, and how much of
  // it rounding can do.
  double derived = 0, differences = 0, error = 0, rounding = 0;
  // What a gradient does not see lies next to the element, and the differences hold it as it is there. jump: a floor, comparison or
  // index of the best changes. tie: equals in a `max` or `min`, or a kink (`relu`, `abs`, `max` and `min` of two).
  bool jump = false, tie = false;
  NF_FIELDS(NumericSample, element, derived, differences, error, rounding, jump, tie);
};

// What is held next to a sample, by where it is written.
struct NumericChoice {
  enum class Kind : std::uint8_t { Jump, Kink, First, Even };
  friend constexpr auto enumNames(Kind) { return std::array{"jump", "kink", "first", "even"}; }
  std::string what;        // "max", "relu", "comparison"
  std::string reader;      // the tensor whose operator it stands in
  Kind kind = Kind::Jump;  // first, even: which of equals has the gradient
  std::int64_t samples = 0;
  NF_FIELDS(NumericChoice, what, reader, kind, samples);
};

// The same at a second point, where parameters that start as one number are moved by about 1 %.
struct MovedCheck {
  std::vector<std::string> tensors;  // that are moved
  std::int64_t samples = 0, wanted = 0, refuted = 0, undefined = 0;
  double worst = 0;
  std::vector<NumericSample> worstSamples;
  NF_FIELDS(MovedCheck, tensors, samples, wanted, refuted, undefined, worst, worstSamples);
};

// Central differences in double precision against the derived gradient, as far as it has come, at the notebook's own point.
struct NumericCheck {
  std::int64_t samples = 0, wanted = 0, elements = 0;  // checked; to be checked; the gradient has
  // Samples of both points, apart by more than `allowed` and what rounding does, undefined ones included.
  std::int64_t refuted = 0;
  std::int64_t undefined = 0;                // samples where the gradient or the differences are no finite number
  std::vector<std::int64_t> firstUndefined;  // the first element of those
  double epsilon = 0;
  double worst = 0, allowed = 0;        // relative error; nan is worse than inf
  std::vector<std::int64_t> histogram;  // of log10(finite error), equal bins over [histogramFirst, histogramLast]
  double histogramFirst = 0, histogramLast = 0;
  std::vector<NumericSample> worstSamples;  // at most 8, worst first
  std::int64_t held = 0;                    // uses of stop_gradient on the way: the differences hold their values
  std::int64_t jumps = 0, ties = 0;         // samples with `jump`, with `tie`
  std::vector<NumericChoice> choices;       // what those lie next to
  std::optional<MovedCheck> moved;
  NF_FIELDS(NumericCheck, samples, wanted, elements, refuted, undefined, firstUndefined, epsilon, worst, allowed, histogram,
            histogramFirst, histogramLast, worstSamples, held, jumps, ties, choices, moved);
};

// ---------------------------------------------------------------- graphs
enum class Phase : std::uint8_t { Forward, Backward, Optimizer, Evaluation };
constexpr auto enumNames(Phase) { return std::array{"forward", "backward", "optimizer", "evaluation"}; }
enum class NodeKind : std::uint8_t { Operator, Input, Param, Const, State };
constexpr auto enumNames(NodeKind) { return std::array{"operator", "input", "param", "const", "state"}; }

// An operator of the differentiated program, by the name of what it makes, with what it came from.
struct MergedOperator {
  std::string name;
  Origins origins;
  NF_FIELDS(MergedOperator, name, origins);
};

struct GraphNode {
  std::string id;    // stable from stage to stage and page to page: the written tensor's name
  std::string name;  // shown
  NodeKind kind = NodeKind::Operator;
  Phase phase = Phase::Forward;
  std::string text;       // its expression, short: "Σ W·X"
  std::string statement;  // its expression as language text
  std::string category;   // injective, reduction, output-fusable, opaque
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0, flops = 0;
  bool added = false;  // by the pass that led to this stage
  bool changed = false;
  bool outsideStep = false;  // only a `show` or an `eval` needs it: no part of what trains, and of what is decided
  Origins origins;
  Origins places;  // where it and all that it computes is written, ascending: tokens of its text, of bodies of functions, of calls
  std::vector<MergedOperator> merged;  // equal ones that are this node since: the one that has its name, and the others; else empty
  NF_FIELDS(GraphNode, id, name, kind, phase, text, statement, category, dtype, shape, bytes, flops, added, changed, outsideStep,
            origins, places, merged);
};

struct GraphEdge {
  std::string from, to;  // node ids
  std::string tensor;
  std::int64_t bytes = 0;
  bool keptForBackward = false;
  bool carried = false;  // between steps
  NF_FIELDS(GraphEdge, from, to, tensor, bytes, keptForBackward, carried);
};

struct GraphGroup {
  std::string id, name;            // "G1", "cell, forward"
  std::vector<std::string> nodes;  // ids
  std::uint32_t subgraph = 0;      // equal groups share it
  std::int64_t kernels = 1;        // launches a step
  std::optional<double> us;        // a step, once measured
  Origins origins;
  NF_FIELDS(GraphGroup, id, name, nodes, subgraph, kernels, us, origins);
};

struct StageSummary {
  std::string stage;  // source, differentiated, transformed, partitioned, fused
  std::int64_t operators = 0;
  std::string note;  // "added 15", "24 in 8 kernels"
  NF_FIELDS(StageSummary, stage, operators, note);
};

// ---------------------------------------------------------------- fusion
enum class FusionState : std::uint8_t { Accepted, Refused, NotLowerable, Forced, Forbidden, Reverted };
constexpr auto enumNames(FusionState) {
  return std::array{"accepted", "refused", "not lowerable", "forced", "forbidden", "reverted"};
}

struct FusionTerm {
  std::string name;   // tensor of a traffic term, operator of an arithmetic one
  double amount = 0;  // bytes or operations saved; negative: added
  NF_FIELDS(FusionTerm, name, amount);
};

struct FusionFlip {
  std::string quantity;  // "H", "L", "P_d"
  double now = 0, threshold = 0;
  bool above = false;  // the sign turns at or above the threshold; else at or below
  std::string unit;    // "", "s", "B/s", "FLOP/s"
  NF_FIELDS(FusionFlip, quantity, now, threshold, above, unit);
};

struct FusionCurve {  // R over the quantity that flips it soonest
  std::string quantity;
  std::vector<double> x, rewardSeconds;
  NF_FIELDS(FusionCurve, quantity, x, rewardSeconds);
};

struct Measured {
  double median = 0, low = 0, high = 0;  // microseconds; the interval holds the true median with 95 %
  std::vector<double> samples;
  NF_FIELDS(Measured, median, low, high, samples);
};

struct FusionDecisionInfo {
  std::uint32_t id = 0;
  std::string producer, consumer;  // tensors
  std::string producerNode,
      consumerNode;      // that make them: node ids of the graph at stage `partitioned`; a loop makes several tensors
  std::string category;  // "One+One" ...
  std::string producerClass, consumerClass;
  double dT = 0, dC = 0, dK = 0;  // bytes, operations, kernels saved
  double R = 0;                   // seconds saved
  std::vector<FusionTerm> traffic, arithmetic;
  std::string recomputed;  // what the fused backward kernel computes again; empty: nothing
  FusionState state = FusionState::Refused;
  std::string why;
  std::vector<FusionFlip> flips;  // the soonest first
  std::optional<FusionCurve> curve;
  double repeats = 1;                      // in a step: passes of the loops around, which R counts
  std::optional<Measured> measuredSaving;  // of one pass: by an A/B, or of Reverted what turned it
  std::string parts;                       // what its kernels compute, fused or not: what was measured of others is not of these
  Origins origins, consumerOrigins;        // of the operators that make the producer, the consumer
  NF_FIELDS(FusionDecisionInfo, id, producer, consumer, producerNode, consumerNode, category, producerClass, consumerClass, dT, dC,
            dK, R, traffic, arithmetic, recomputed, state, why, flips, curve, repeats, measuredSaving, parts, origins,
            consumerOrigins);
};

// ---------------------------------------------------------------- devices
// Holds the true value with 95 %, as far as one measurement can tell.
struct Interval {
  double low = 0, high = 0;
  std::int64_t samples = 0;  // 0: nothing was measured, the figure is the driver's or older than intervals are
  NF_FIELDS(Interval, low, high, samples);
};

struct DeviceConstants {
  std::string device;        // "cpu", "cuda:0"
  double bandwidth = 0;      // P_d, bytes per second
  double flopRate = 0;       // P_c, operations per second
  double launchSeconds = 0;  // L
  double l2Bandwidth = 0;    // 0: not measured
  std::int64_t l2Bytes = 0;  // of the caches that the rate is of; 0: unknown
  double measuredSecondsAgo = 0;
  std::int64_t threads = 0;                                              // of the device that the rates are of; 0: it has none
  Interval bandwidthInterval, flopInterval, launchInterval, l2Interval;  // in the units of what they are of
  bool assumed = false;                                                  // nobody measures this device
  NF_FIELDS(DeviceConstants, device, bandwidth, flopRate, launchSeconds, l2Bandwidth, l2Bytes, measuredSecondsAgo, threads,
            bandwidthInterval, flopInterval, launchInterval, l2Interval, assumed);
};

struct NamedText {
  std::string name, text;
  NF_FIELDS(NamedText, name, text);
};

struct DeviceInfo {
  std::string name, backend;  // "cuda:0", "cuda"
  std::string description;    // "NVIDIA H200, sm_90a, 139 GiB"
  std::string unavailable;    // why it cannot serve, one sentence; empty: it can
  bool inUse = false;
  std::optional<DeviceConstants> constants;
  std::vector<NamedText> facts;  // driver, caches, features, fingerprint, in display order
  // Of the part that this engine's kernels run on, one thread of many, where that is not all of it: what fusion, rooflines and profiles
  // count with.
  std::optional<DeviceConstants> kernels;
  NF_FIELDS(DeviceInfo, name, backend, description, unavailable, inUse, constants, facts, kernels);
};

struct DoctorLine {
  std::string item, text;
  bool ok = true;
  NF_FIELDS(DoctorLine, item, text, ok);
};

// ---------------------------------------------------------------- tuning
enum class TrialStatus : std::uint8_t { Ok, Wrong, Killed, Crashed, Slow, Failed };
constexpr auto enumNames(TrialStatus) { return std::array{"ok", "wrong", "killed", "crashed", "slow", "failed"}; }

enum class SubgraphState : std::uint8_t { Waiting, Searching, Done, Pinned };
constexpr auto enumNames(SubgraphState) { return std::array{"waiting", "searching", "done", "pinned"}; }

// What makes a kernel of a subgraph what it is.
struct KernelMaking {
  JsonText schedule;
  bool quick = false;  // compiled quickly, as a first kernel is
  NF_FIELDS(KernelMaking, schedule, quick);
};

struct SubgraphInfo {
  std::string id;                      // structural hash: the key of events, trials and kernels
  std::string name;                    // "dW + sgd"
  std::string kind;                    // schedule template: contraction, reduction, elementwise ...
  std::vector<std::string> operators;  // node ids; in a loop's body, which the graph has no nodes of, the names there
  std::int64_t callsPerStep = 1;
  std::optional<double> us, firstUs;             // of the newest kernel, a pinned one's where there is one, and of the first
  std::int64_t trials = 0, generation = 0;       // trials: timed or failed, those on record included
  double budgetShare = 0;                        // 0..1
  SubgraphState state = SubgraphState::Waiting;  // Pinned: a `hint schedule` of the notebook keeps its schedule
  std::string pinTensor;                         // what a `hint schedule` names it by; empty: no hint can
  std::int64_t flops = 0, bytes = 0;             // of one call; bytes: distinct tensors read and written
  Origins origins, places;                       // places: as of a node
  JsonText inUse;                      // schedule of the kernel that the last training runs or ran with; empty: none has run it
  std::optional<std::uint64_t> trial;  // whose time `us` is
  std::optional<KernelMaking> made;    // the kernel of that trial, or the pinned one; none: nothing is known of it
  std::string loop;                    // node id of the outermost loop that it runs in; empty: none
  std::string setAside;                // what a `hint schedule` names whose schedule is none of this kernel's; empty: none
  NF_FIELDS(SubgraphInfo, id, name, kind, operators, callsPerStep, us, firstUs, trials, generation, budgetShare, state, pinTensor,
            flops, bytes, origins, places, inUse, trial, made, loop, setAside);
};

struct TrialInfo {
  std::uint64_t number = 0;  // of its subgraph, from 0; 0 is the first kernel
  std::int64_t generation = 0;
  double seconds = 0;  // since tuning began
  std::optional<double> us, lowUs, highUs, predictedUs;
  TrialStatus status = TrialStatus::Ok;
  JsonText schedule;
  std::vector<std::uint64_t> parents;
  std::optional<double> besideUs;  // of the best kernel then, timed in turns with it: none on record, nor of the first
  bool won = false;                // it was faster in these turns; steps have the last word
  std::string how;                 // "stage A: 2 to 3", "crossed", "first", "by hand", or the tool's words on a failure
  NF_FIELDS(TrialInfo, number, generation, seconds, us, lowUs, highUs, predictedUs, status, schedule, parents, besideUs, won, how);
};

struct KnobInfo {
  std::string name, help;
  std::vector<JsonText> values;
  std::vector<std::string> ruledOut;  // by value: why it cannot stand beside the other knobs of Space::at; empty: it can
  NF_FIELDS(KnobInfo, name, help, values, ruledOut);
};

struct KernelTextInfo {
  std::string language;  // "loops", "llvm", "asm", "cuda", "ptx"
  std::string text;
  std::vector<Origins> lineOrigins;  // by line; shorter than the text or empty: no mapping there
  NF_FIELDS(KernelTextInfo, language, text, lineOrigins);
};

// Wall time of one kernel: the mean over the timed calls.
// What counters said of one launch of a kernel, all its stages together.
struct StallInfo {
  std::string reason;  // "long_scoreboard"
  double share = 0;    // of the warps' cycles in which nothing was issued, 0..1
  NF_FIELDS(StallInfo, reason, share);
};
struct SampledLine {
  std::uint32_t line = 0;  // of the kernel's text, from 1; 0: of none
  std::int64_t samples = 0;
  std::string reason;  // why warps stood there most often
  NF_FIELDS(SampledLine, line, samples, reason);
};
struct CounterInfo {
  double us = 0, flops = 0, dramBytes = 0, l2Bytes = 0;
  double occupancy = 0;  // resident warps, of those that fit, 0..1
  std::vector<StallInfo> stalls;
  std::vector<SampledLine> lines;  // the most sampled first
  std::string withoutLines;        // why there are none
  NF_FIELDS(CounterInfo, us, flops, dramBytes, l2Bytes, occupancy, stalls, lines, withoutLines);
};

struct KernelTimeInfo {
  std::string subgraph, name;
  double calls = 0, us = 0;             // calls a step; of one call
  std::int64_t flops = 0, bytes = 0;    // of one call; bytes: distinct tensors read and written
  std::optional<KernelMaking> made;     // none: it was not made by a schedule
  std::optional<CounterInfo> counters;  // where the device has some and nothing trained
  NF_FIELDS(KernelTimeInfo, subgraph, name, calls, us, flops, bytes, made, counters);
};

// Counters of two kernels of a subgraph, each made by a schedule.
struct CountedKernel {
  JsonText schedule;
  std::optional<CounterInfo> counters;
  NF_FIELDS(CountedKernel, schedule, counters);
};

// ---------------------------------------------------------------- timelines
enum class ActivityKind : std::uint8_t { Step, Trip, Launch, Kernel, Copy, Fill, GraphLaunch };
constexpr auto enumNames(ActivityKind) { return std::array{"step", "trip", "launch", "kernel", "copy", "fill", "graph_launch"}; }

// What is launched: some operators.
struct TimelineSite {
  std::string subgraph, name;
  std::string expression;  // as source text
  Phase phase = Phase::Forward;
  std::vector<std::string> operators;  // node ids; none inside of loops
  Origins origins;                     // none where the step is of another revision
  NF_FIELDS(TimelineSite, subgraph, name, expression, phase, operators, origins);
};

struct TimelineActivity {
  ActivityKind kind = ActivityKind::Kernel;
  std::uint32_t lane = 0;
  std::int64_t begin = 0, end = 0;  // ns since the step began
  std::int64_t site = -1;           // of Timeline::sites; -1: none
  std::int64_t trip = -1;           // counter of the innermost loop around it
  std::int64_t bytes = 0;           // of a copy or a fill
  std::string name;                 // a stage's symbol, a copy's direction, a loop's counter
  NF_FIELDS(TimelineActivity, kind, lane, begin, end, site, trip, bytes, name);
};

// One step, launch by launch.
struct Timeline {
  std::vector<std::string> lanes;  // the host's thread that steps, then the device's streams
  std::vector<TimelineSite> sites;
  std::vector<TimelineActivity> activities;  // by begin, what is around before what is inside
  bool ofDevice = false;                     // kernels' times are the device's own
  std::string why;                           // in one sentence, where the device could tell its own and did not
  std::int64_t leftOut = 0;                  // steps that had no room
  NF_FIELDS(Timeline, lanes, sites, activities, ofDevice, why, leftOut);
};

// ---------------------------------------------------------------- series
struct Bucket {
  double x = 0;  // of the bucket's last point
  double min = 0, max = 0, last = 0;
  std::int64_t count = 0;
  NF_FIELDS(Bucket, x, min, max, last, count);
};

}  // namespace nf::protocol
