// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/fusion/lowerable.h"
#include "core/ir/program.h"
#include "core/support/hash.h"
#include "core/support/result.h"

namespace nf {

// Measured on the device: P_d in bytes a second, P_c in operations a second, L in seconds a launch (paper, Equation 4).
struct DeviceConstants {
  double bandwidth = 1e10;
  double flopRate = 5e10;
  double launchSeconds = 1e-6;
  friend bool operator==(const DeviceConstants&, const DeviceConstants&) = default;
};

enum class FusionState : std::uint8_t { Accepted, Refused, NotLowerable, Forced, Forbidden, Reverted };
// "accepted", "refused", "not lowerable", "forced", "forbidden", "reverted by measurement"
std::string_view name(FusionState state);

// A term of dT (bytes) or dC (operations): positive is saved, negative is added.
struct FusionTerm {
  std::string name;
  double amount = 0;
};

// The smallest change of one quantity at which the sign of R turns, all else as it is. A size changes wherever it is one: in every tensor
// and operator of the program.
struct FusionFlip {
  std::string quantity;           // "P_d", "P_c", "L", or a size: "k of Y", the extent of an axis
  double now = 0, threshold = 0;  // of a size: the first whole number at which it has turned
  std::string unit;               // "B/s", "FLOP/s", "s"; none of a size
  // R over the quantity: the sum of seconds * (x / now)^power.
  struct Term {
    double seconds = 0;
    int power = 0;
  };
  std::vector<Term> terms;
  double rewardAt(double x) const;
};

// A fused kernel, and all that is another kernel where it is not made, against what is there then, run in turn on the device.
// Microseconds: median, and half the distance of the quartiles.
struct FusionMeasurement {
  double fused = 0, fusedSpread = 0;
  double split = 0, splitSpread = 0;
  std::int64_t pairs = 0;                           // 0: not known, as of a swap log
  double saved = 0, savedLow = 0, savedHigh = 0;    // split - fused of each pair: median, and what holds it with 95 %
  std::int64_t fusedKernels = 0, splitKernels = 0;  // how many the times are of; 0: not known
  friend bool operator==(const FusionMeasurement&, const FusionMeasurement&) = default;
};
// A fused kernel, and what stood in its place where it was measured.
struct JudgedKernel {
  Hash kernel;              // kernelSignature()
  std::vector<Hash> parts;  // likewise, ascending; none: not known, as of an old swap log, and so whatever they are
  auto operator<=>(const JudgedKernel&) const = default;
};
using MeasuredKernels = std::map<JudgedKernel, FusionMeasurement>;
bool isMeasured(const MeasuredKernels& kernels, const Hash& signature);  // whatever its parts

// Equal for kernels of equal operators, wired alike: names, ids, and which tensors are written do not count. What is known of a fused
// kernel holds wherever it is met again.
Hash kernelSignature(const Program& program, const std::vector<OperatorId>& group);

// One decision with all its numbers: R = dT / P_d + dC / P_c + dK * L, seconds saved a step; of a Loop's body times its trips.
struct FusionDecision {
  std::string producer, consumer;  // tensors: what lies between is `producer`
  std::string category;            // "One+One", "One+Many", "Many+One", "Many+Many": inputs of the two operators
  FusionClass producerClass = FusionClass::Injective, consumerClass = FusionClass::Injective;
  double dT = 0, dC = 0;
  std::int64_t dK = 0;
  double R = 0;
  std::vector<FusionTerm> traffic, arithmetic;
  std::string recomputed;  // names what is computed again; empty: nothing is
  std::string kept;        // names what the fused kernel moves through memory inside, so that dT does not count it; empty: nothing
  FusionState state = FusionState::Refused;
  std::string why;                            // one sentence
  std::vector<FusionFlip> flips;              // the smallest relative change first
  OriginId origin;                            // of the producer
  std::shared_ptr<const Program> body;        // of the innermost Loop around, which has the origin; null: the program itself has it
  std::optional<FusionMeasurement> measured;  // of Reverted: what turned it
  JudgedKernel lost;                          // of Reverted: the kernel that it would make, as it was measured
  std::string loop;                           // names of the Loops around, outermost first, "outer/inner"; empty: none
  std::int64_t repeats = 1;                   // passes of those Loops in a step
  // The tensors of a `hint fuse`, as it names them, that asks for this and cannot be obeyed; empty: none does.
  std::pair<std::string, std::string> askedInVain{};
};

// A kernel that fusion would make, had it not been measured.
struct BarredKernel {
  JudgedKernel judged;            // with the parts that stand in its place while none that was measured is made
  std::vector<std::string> made;  // tensors of its operators, as the program had them before anything was computed again
  std::string loop;               // as FusionDecision::loop
};

struct FusionOptions {
  FusionLimits limits;
  std::vector<std::pair<std::string, std::string>> force, forbid;  // tensor names; besides the program's hints
  // Kernels that are slower than their parts: where these stand in its place while none of them is made, or one of these is such a kernel
  // itself, no move makes one, unless it is forced.
  MeasuredKernels reverted;
  std::function<bool()>
      outdated;  // asked now and then, from the thread that fuses: true ends it with outdatedFusion(). Empty: never
};

struct FusionResult {
  Program program;                        // stage Fused; recomputed operators are copies named `B#2`
  std::vector<FusionDecision> decisions;  // in the order they were taken, then the refused ones
  std::vector<BarredKernel> barred;       // all, also those that were made after all, as their parts are others
  std::uint64_t work = 0;                 // tensors and operators looked at to score moves: what deciding costs, on any machine
};

// How fuse() ends that nobody waits for any more; isOutdated() tells it from failures.
Error outdatedFusion();
bool isOutdated(const Error& error);

// Merges kernels greedily, best reward first, rescored around every merge, until none is positive. The reward counts real kernels
// before and after, of the tensor and of its gradient together. Forced and forbidden pairs come first and win over it; what was
// measured to be slower wins over the reward.
//   before: groups {B}, {C}            after: group {B, C}, B never leaves the chip
Result<FusionResult> fuse(const Program& partitioned, const DeviceConstants& device, const FusionOptions& options = {});

// {"device":{"P_d","P_c","L"},"decisions":[{"producer","consumer","category","dT","dC","dK","R","accepted","why","flip",..}]}
// Its reason, and before it that a hint asks for it in vain.
std::string reasonOf(const FusionDecision& decision);
nlohmann::json toJson(const std::vector<FusionDecision>& decisions, const DeviceConstants& device);
std::string toText(const std::vector<FusionDecision>& decisions);
// Where operators run, loops and what is in them told apart: "49 in 14 kernels, 2 loops of 2 kernels each". `operators`: of the program as
// partition has it, each loop one of them; `what` follows the number.
std::string kernelsText(const Program& partitionedOrFused, std::int64_t operators, std::string_view what = "");
nlohmann::json toJson(const DeviceConstants& device);  // {"P_d","P_c","L"}
std::string toText(const DeviceConstants& device);     // in one line

}  // namespace nf
