// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/device/backend.h"
#include "core/lang/compile.h"
#include "core/runtime/device_context.h"
#include "core/runtime/pipeline.h"

// The command line's verbs. Each prints for people on stdout, or with --json one JSON object and nothing else there;
// messages of failure go to stderr. Each returns the exit code.
namespace nf {

inline constexpr int kExitFine = 0;
inline constexpr int kExitWrongInput = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitMachineLacks = 3;
inline constexpr int kExitInternal = 4;
// The table of --help and docs/architecture.md.
inline constexpr const char* kExitCodes =
    "Exit codes of every command:\n"
    "  0  it was done; of check, grad --check and bench check: nothing is wrong\n"
    "  1  the input is wrong: notebook, data, checkpoint, swap log; or what was checked is\n"
    "  2  the command is: options, names of devices and stages; grad --check: nothing could be compared\n"
    "  3  the machine lacks something, or the command was stopped before it gave a result\n"
    "  4  a mistake of neoflow's own\n"
    "  128 + N  signal N ended it: 130 after a second Ctrl-C, or where there was nothing to stop in order";

struct FileOptions {
  std::string file;               // "-": standard input
  std::string as;                 // of standard input: the file that it is an edit of, by name, folder and runs; empty: of none
  std::vector<std::string> sets;  // NAME=VALUE
  bool json = false;
};

// Of which `train` statement, from 1, the step is looked at.
struct StepOptions : FileOptions {
  std::size_t which = 1;
  CompileOptions compiled() const { return {.train = which - 1}; }
};

struct ShowOptions : StepOptions {
  std::string stage = "source";
  bool dot = false;
  bool evaluation = false;
};

struct ExplainOptions : StepOptions {
  std::string measure;  // "PRODUCER,CONSUMER"
};

struct GradOptions : FileOptions {
  std::string output, input;
  bool explain = false, check = false;
};

// How far P_d, P_c and L of a device may be off, "95 %: P_d 5.4 to 5.6 GB/s, ..."; empty: no interval is known.
std::string intervalsText(const Backend::About& about);
nlohmann::json intervalsJson(const Backend::About& about);  // {"P_d": {"low", "high", "samples"}, ..}; null: none is known
// What a target's constants were measured as.
Backend::About measurementOf(const BackendRegistry& registry, const Target& target);

struct DeviceChoice {
  std::string device = "auto";
  int threads = 0;
};

struct RunCommandOptions : FileOptions {
  DeviceChoice device;
  std::optional<std::uint64_t> seed;
  std::string output, dump, weights;
  bool progress = false;
};

struct TrainCommandOptions : FileOptions {
  DeviceChoice device;
  std::optional<std::uint64_t> seed;
  std::string mode, output, resume, replaySwaps, weights, dump;
  std::int64_t steps = 0, epochs = 0;
  double seconds = 0, share = 0.3;
  std::size_t which = 1;
  std::optional<double> checkpointSeconds;
  bool progress = false, noEvaluation = false, onlyEvaluation = false, noRecords = false;
};

struct TuneCommandOptions : StepOptions {
  DeviceChoice device;
  std::int64_t trials = 256;
  double seconds = 0;
  std::uint64_t seed = 1;
  bool progress = false;
};

struct ProfileOptions : FileOptions {
  DeviceChoice device;
  int repeats = 20;
  std::size_t which = 1;
  std::string trace;  // file; empty: none
};

struct BenchOptions : FileOptions {
  DeviceChoice device;
  double seconds = 5;  // a notebook
  bool turns = false;  // measure once for each line on standard input
};

struct ExportOptions : StepOptions {
  DeviceChoice device;
  std::string to, folder, stage = "fused";
  bool values = false;  // of html: what the cells show is computed
};

int runRun(BackendRegistry& registry, const RunCommandOptions& options);
int runTrain(BackendRegistry& registry, const TrainCommandOptions& options);
int runTune(BackendRegistry& registry, const TuneCommandOptions& options);
int runProfile(BackendRegistry& registry, const ProfileOptions& options);
int runBench(BackendRegistry& registry, const BenchOptions& options);
int runExport(BackendRegistry& registry, const ExportOptions& options);
// `devices`: asked where schedules are pinned, and then only; empty: they are not held against any.
using FindDevices = std::function<BackendRegistry&()>;
int runCheck(const FileOptions& options, const FindDevices& devices = {});
int runShow(const FindDevices& devices, const ShowOptions& options);
int runGrad(const GradOptions& options);
int runExplain(BackendRegistry& registry, const ExplainOptions& options);
std::vector<std::pair<std::string, std::string>> versions();  // of the program, the system, what it is made with
std::string programNamed(const std::string& name);            // its path, of the search path; empty: there is none
int runDoctor(const BackendRegistry& registry, bool json);

// Reads the file and compiles it. On failure prints why and yields the exit code.
struct Loaded {
  CompiledNotebook notebook;
  int exitCode = kExitFine;
  bool ok() const { return exitCode == kExitFine; }
};
nlohmann::json toJson(const Diagnostics& diagnostics, const SourceMap& sources);  // as `check --json` has them
Loaded loadNotebook(const FileOptions& options, CompileOptions compile = {});     // compile.train: of a statement that there is
Result<Source> readSource(const std::string& file, const std::string& as = {});
Result<std::map<std::string, std::string>> parseSets(const std::vector<std::string>& sets);

// `tells`: what there is to say about records goes to standard error.
Result<std::unique_ptr<DeviceContext>> openDevice(BackendRegistry& registry, const DeviceChoice& choice, bool records = true,
                                                  bool tells = true);

// What training meets by default: the device, with what was measured on it before. Null: none opens.
std::unique_ptr<DeviceContext> trainingDevice(BackendRegistry& registry, StageOptions& passes, bool measures);

// Columns for the names of a table whose other cells take `others`: what the terminal leaves, else what 120 columns do; no more than the
// longest name needs.
std::size_t nameColumns(std::size_t others, std::size_t longest);

// A failure of the world on stderr (or as JSON on stdout, an error event that has no place in a notebook: line and column 0), and its
// exit code. file: that it is about, empty: none.
int report(const Error& error, bool json, int exitCode = kExitMachineLacks, const std::string& file = {});
// What a failure means for who called, by its stage: the input, the command, the machine (also what was stopped), or neoflow itself.
int exitCodeOf(const Error& error);
// The mistakes of a notebook as `check` prints them, and the exit code. file: what it was read from; standard input can't be read again.
int tellMistakes(const Diagnostics& diagnostics, const SourceMap& sources, const std::string& file, bool json);

}  // namespace nf
