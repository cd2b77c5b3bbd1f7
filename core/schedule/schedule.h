// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/ir/program.h"
#include "core/support/result.h"

namespace nf {

// What the code generator must know of a machine. Every number is measured or read from it, never guessed from a name.
struct Target {
  std::string backend = "cpu";        // "cpu", "cuda"
  std::string fingerprint;            // device, driver, compiler versions, code generator version: key of tuning records
  std::vector<std::string> features;  // CPU feature list ("+avx512f", ...), as LLVM takes it
  std::int64_t vectorBytes = 32;      // widest usable vector
  std::int64_t vectorRegisters = 16;
  std::int64_t l1Bytes = 32 << 10, l2Bytes = 1 << 20, l3Bytes = 0;
  std::int64_t threads = 1;
  double peakFlops = 0;      // of one thread, f32, per second
  double peakBandwidth = 0;  // bytes per second, whole device
  double launchSeconds = 0;  // cost of one kernel start
};

// How a subgraph becomes loops: plain data, versioned JSON, one object (design: codegen, "Schedule"). Each knob can be set by hand.
struct Schedule {
  std::string kind;                             // template: "contraction", "reduction", "elementwise", "stencil", "scatter", ...
  std::shared_ptr<const nlohmann::json> knobs;  // name -> number, string or list of numbers; never null
  std::string text() const;                     // canonical JSON text, {"version":1,"kind":..,"knobs":{..}}
  static Result<Schedule> parse(std::string_view text);
  friend bool operator==(const Schedule& a, const Schedule& b) { return a.text() == b.text(); }
};

// The schedule rounds operands in f32 to tf32, 10 bits behind the point: knob `precision`, which a search never sets.
bool roundsToTf32(const Schedule& schedule);

struct KnobInfo {
  std::string name, help;
  std::vector<std::string> values;  // legal ones, as JSON text
};

// Every legal schedule of one subgraph on one target.
class ScheduleSpace {
 public:
  virtual ~ScheduleSpace() = default;
  virtual double size() const = 0;     // number of schedules, for people
  virtual Schedule first() const = 0;  // the analytic model's choice: runs before any search
  virtual Schedule random(std::mt19937_64& rng) const = 0;
  virtual Schedule mutate(const Schedule& s, std::mt19937_64& rng) const = 0;
  virtual Schedule cross(const Schedule& a, const Schedule& b, std::mt19937_64& rng) const = 0;
  virtual Result<Unit> check(const Schedule& s) const = 0;            // legal here? names the knob that is not
  virtual double estimateSeconds(const Schedule& s) const = 0;        // the analytic model
  virtual std::vector<double> features(const Schedule& s) const = 0;  // of the cost model, fixed length for one kind
  virtual std::vector<KnobInfo> knobs() const = 0;
};

// Fails where no template can lower the subgraph: the reason in one sentence (fusion's "not lowerable").
Result<std::unique_ptr<ScheduleSpace>> scheduleSpace(const Program& subgraph, const Target& target);

}  // namespace nf
