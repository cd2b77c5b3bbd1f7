// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>
#include <string_view>

#include "app/neoflow/bench_check.h"
#include "app/neoflow/bench_ops.h"
#include "app/neoflow/commands.h"
#include "app/neoflow/stop_on_signal.h"
#include "core/lang/spelling.h"
#include "core/session/engine.h"
#include "core/support/stack.h"
#include "core/support/uncaught.h"
#include "core/tune/worker_main.h"
#include "plugins/cpu/plugin.h"
#ifdef NF_LINKED_CUDA
#include "plugins/cuda/plugin.h"
#endif

namespace {

void addFile(CLI::App* command, nf::FileOptions& options) {
  command->add_option("FILE", options.file, "notebook (.nf), or - for standard input")->required();
  command->add_option("--set", options.sets, "NAME=VALUE: override a `let` (may be repeated)")->allow_extra_args(false)->take_all();
  command->add_flag("--json", options.json, "one JSON object on stdout, nothing else there");
}

// At most this many steps, epochs, ...: what a number that fits no 64 bits is read as lies beyond.
constexpr std::int64_t kMost = 1000000000000000;

// Finite numbers in [low, high]: "nan" compares with nothing.
CLI::Validator numberIn(double low, double high, const std::string& what) {
  return CLI::Validator(
      [=](const std::string& text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return std::string();
        std::ostringstream words;
        words << text << " is no " << what << " from " << low << " to " << high;
        return words.str();
      },
      {});
}
// Whole numbers from `low` to `high`.
CLI::Validator wholeFrom(std::int64_t low, std::int64_t high = kMost) {
  return CLI::Validator(
      [=](const std::string& text) {
        std::int64_t value = 0;
        const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (code == std::errc{} && end == text.data() + text.size() && value >= low && value <= high) return std::string();
        const bool whole = text.find_first_not_of("0123456789") == std::string::npos && !text.empty();
        if (whole && high == kMost && (value > high || code == std::errc::result_out_of_range))
          return text + " is more than " + std::to_string(high);
        return text + " is no whole number from " + std::to_string(low) + (high == kMost ? " on" : " to " + std::to_string(high));
      },
      {});
}
// No file, folder or name is empty: an empty variable of a script does not stand for an option that was left out. --filter "" is every
// case; --set has words of its own.
void refuseEmptyValues(CLI::App& app) {
  for (CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) refuseEmptyValues(*below);
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_min() > 0 && option->get_name() != "--filter" && option->get_name() != "--set")
      option->transform(CLI::Validator(
          [](const std::string& text) { return text.empty() ? std::string("an empty text is no value") : std::string(); }, {}));
}

CLI::Validator secondsFrom(double low) { return numberIn(low, 1e9, "number of seconds"); }

CLI::Option* addSeed(CLI::App* command, std::optional<std::uint64_t>& seed) {
  return command
      ->add_option_function<std::int64_t>(
          "--seed", [&seed](const std::int64_t& value) { seed = static_cast<std::uint64_t>(value); },
          "of initial values and batches")
      ->check(wholeFrom(0));
}

void addDevice(CLI::App* command, nf::DeviceChoice& choice) {
  command->add_option("--device", choice.device, "auto, reference, cpu, cuda, cuda:1")->capture_default_str();
  command
      ->add_option("--threads", choice.threads,
                   "threads of CPU kernels; 0: one, which leaves the other cores to the tuner. In mode static more of them may pay")
      ->check(wholeFrom(0, 1024));
}

// A driver takes its time to start: back ends are looked for by the commands that need one.
nf::BackendRegistry& devices() {
  static nf::BackendRegistry registry;
  if (!registry.entries().empty()) return registry;
  registry.add("cpu", &neoflowPlugin);
#ifdef NF_LINKED_CUDA
  registry.add("cuda", &neoflowCudaPlugin);
#endif
  std::error_code noPath;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", noPath);
  if (!noPath) registry.load(self.parent_path().string());
  return registry;
}

// The pipe that is printed into has no reader any more. The write that failed by it may lie far back, and its errno be lost.
bool readerLeft() {
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

// What was printed has arrived, or that is said and the exit code is not 0. A reader that left, as `head` does, wants no more.
int written(int exitCode) {
  errno = 0;
  std::cout.flush();
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) || !std::cout;
  if (!failed || errno == EPIPE || readerLeft()) return exitCode;
  std::fprintf(stderr, "neoflow: What was printed could not be written%s%s.\n", errno ? ": " : "",
               errno ? std::strerror(errno) : "");
  return exitCode == nf::kExitFine ? nf::kExitMachineLacks : exitCode;
}

// The one of `others` that `word` may have been meant for; empty: none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& others) {
  std::string best;
  std::size_t least = word.size() < 6 ? 3 : 4;
  for (const std::string& other : others)
    if (const std::size_t d = nf::lang::editDistance(word.substr(0, 60), other); d < least) least = d, best = other;
  return best;
}

const CLI::App& commandOf(const CLI::App& app) {
  const auto below = app.get_subcommands();
  return below.empty() ? app : commandOf(*below.front());
}

// "neoflow bench ops"
std::string nameOf(const CLI::App& command) {
  return (command.get_parent() ? nameOf(*command.get_parent()) + " " : "") + command.get_name();
}

// What stands behind the name of the program. `-o=DIR` is `-o` and `DIR`, as `--output=DIR` is.
std::vector<std::string> argumentsOf(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (!arguments.empty() && arguments[0] == "worker") return arguments;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string word = arguments[i];
    const std::size_t sign = word.find('=');
    if (word[0] != '-' || sign == std::string::npos) continue;
    if (sign + 1 == word.size())
      throw CLI::ParseError("Nothing stands behind the = of " + word.substr(0, sign) + ".", CLI::ExitCodes::ArgumentMismatch);
    if (sign != 2 || word[1] == '-') continue;
    arguments[i] = word.substr(0, 2);
    arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(++i), word.substr(3));
  }
  return arguments;
}

// What is wrong with arguments that no option or positional took: the first one of them, in the words of who typed it.
std::string unexpected(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App& command = commandOf(app);
  const std::string name = nameOf(command);
  const std::vector<std::string> left = app.remaining(true);
  const auto optionOf = [](const std::string& a) { return a.substr(0, a.find('=')); };
  const auto isLeft = [&](const std::string& a) { return a != "--" && std::find(left.begin(), left.end(), a) != left.end(); };
  const auto mark = std::find(arguments.begin(), arguments.end(), "--");
  const auto option = std::find_if(arguments.begin(), mark, [&](const std::string& a) {
    return a.size() > 1 && a[0] == '-' && isLeft(a) && !command.get_option_no_throw(optionOf(a));
  });
  if (option == mark) {
    auto word = std::find_if(mark, arguments.end(), isLeft);
    if (word == arguments.end()) word = std::find_if(arguments.begin(), mark, isLeft);
    if (word == arguments.end()) return name + " does not take all of these arguments.";
    const bool asOption = word > mark && word->size() > 1 && word->front() == '-';
    return name + " takes no further argument \"" + *word + "\"" +
           (asOption ? ": behind `--` nothing is an option, everything a file or a name." : ".");
  }
  const std::string word = optionOf(*option);
  std::vector<std::string> options;
  for (const CLI::Option* o : command.get_options())
    for (const std::string& l : o->get_lnames()) options.push_back("--" + l);
  const std::string near = nearest(word, options);
  if (std::error_code none; std::filesystem::exists(*option, none))
    return name + " has no option " + word + ": the file of that name is given as ./" + *option + ", or behind `--`.";
  return name + " has no option " + word + (near.empty() ? "." : ": is " + near + " meant?");
}

// What CLI11 says, in sentences.
std::string sentenceOf(const CLI::ParseError& error) {
  const std::string message = error.what();
  const bool mismatch = dynamic_cast<const CLI::ArgumentMismatch*>(&error);
  if (mismatch && message.find(": At Most ") != std::string::npos)
    return message.substr(0, message.find(':')) + " is given more than once.";
  if (mismatch) return message.substr(0, message.find(':')) + " needs a value.";
  // Numbers and words have their validators: what is left are flags.
  constexpr std::string_view flag = "Could not convert: ";
  if (dynamic_cast<const CLI::ConversionError*>(&error) && message.starts_with(flag))
    return message.substr(flag.size(), message.find(" = ") - flag.size()) + " takes no value.";
  return message;
}

int commandLine(int argc, char** argv, bool json) {
  CLI::App app{"NeoFlow: tensor operators as expressions, with derived gradients, fused and tuned kernels"};
  app.require_subcommand(1);
  app.set_version_flag("--version", NF_VERSION);
  app.name("neoflow");
  app.failure_message(CLI::FailureMessage::simple);
  app.footer(
      "Examples:\n  neoflow check net.nf\n  neoflow run net.nf --dump 'Y,d(L)/d(W)'\n  neoflow train net.nf --steps 500\n"
      "  neoflow grad net.nf L W\n\n" +
      std::string(nf::kExitCodes));
  int exitCode = nf::kExitFine;

  nf::FileOptions check;
  CLI::App* checkCommand = app.add_subcommand("check", "Report the mistakes of a notebook; exit code 0: none, 1: some");
  addFile(checkCommand, check);
  checkCommand->callback([&] { exitCode = nf::runCheck(check, devices); });

  const auto addWhich = [](CLI::App* command, std::size_t& which) {
    command->add_option("--which", which, "number of the `train` statement, from 1")->capture_default_str()->check(wholeFrom(1));
  };
  nf::ShowOptions show;
  CLI::App* showCommand = app.add_subcommand(
      "show", "Print the program after a stage, as language text that can be run again (after lowered: the loops of the kernels)");
  addFile(showCommand, show);
  addWhich(showCommand, show.which);
  showCommand
      ->add_option("--stage", show.stage,
                   "source, differentiated, transformed, partitioned, fused, scheduled or lowered: the kernels' loops")
      ->capture_default_str();
  showCommand->add_flag("--dot", show.dot, "the graph, for Graphviz")->excludes("--json");
  showCommand->add_flag("--evaluation", show.evaluation, "the program that evaluates instead of the one that trains");
  showCommand->callback([&] { exitCode = nf::runShow(devices, show); });

  nf::GradOptions grad;
  CLI::App* gradCommand = app.add_subcommand("grad", "Print the derived gradient of OUTPUT with respect to INPUT as language text");
  addFile(gradCommand, grad);
  gradCommand->add_option("OUTPUT", grad.output, "tensor to differentiate; a seed dOUTPUT is declared unless it is a scalar")
      ->required();
  gradCommand->add_option("INPUT", grad.input, "tensor to differentiate by")->required();
  gradCommand->add_flag("--explain", grad.explain, "the linear system, its solution, guards and certificate of every access");
  gradCommand->add_flag("--check", grad.check,
                        "hold the gradient against central differences in double precision; exit code 1 where they disagree");
  gradCommand->callback([&] { exitCode = nf::runGrad(grad); });

  nf::ExplainOptions explain;
  CLI::App* explainCommand = app.add_subcommand("explain", "Every fusion decision with dT, dC, dK, R, why, and what would flip it");
  addFile(explainCommand, explain);
  addWhich(explainCommand, explain.which);
  explainCommand->add_option("--measure", explain.measure,
                             "PRODUCER,CONSUMER: compile this fusion both ways, fused and split, and measure them in turn");
  explainCommand->callback([&] { exitCode = nf::runExplain(devices(), explain); });

  nf::RunCommandOptions run;
  CLI::App* runCommand = app.add_subcommand("run", "Compute what cells show; trains nothing");
  addFile(runCommand, run);
  addDevice(runCommand, run.device);
  addSeed(runCommand, run.seed);
  runCommand->add_option("-o,--output", run.output, "folder for --dump; NAME.nf.out where it is left out");
  runCommand->add_option("--dump", run.dump, "values of these tensors as .npy files: 'Y,L,d(L)/d(W)', or all");
  runCommand->add_option("--weights", run.weights,
                         "safetensors or npz: tensors by name, in place of initial values; of inputs, too, which is warned of");
  runCommand->add_flag("--json-progress", run.progress, "one JSON object a line");
  runCommand->callback([&] { exitCode = nf::runRun(devices(), run); });

  nf::TrainCommandOptions train;
  CLI::App* trainCommand =
      app.add_subcommand("train",
                         "Run a `train` statement. What neither it nor an option gives: one epoch (100 steps without a data set), "
                         "optimizer = sgd(lr=0.01), wrt = all, clip = none, mode = dynamic, device = auto, seed = 1");
  addFile(trainCommand, train);
  addDevice(trainCommand, train.device);
  addWhich(trainCommand, train.which);
  trainCommand->add_option("--mode", train.mode, "dynamic: kernels get faster while it trains; static: the same kernels throughout")
      ->check(CLI::IsMember({"dynamic", "static"}));
  addSeed(trainCommand, train.seed);
  CLI::Option* const steps = trainCommand->add_option("--steps", train.steps, "end after so many steps")->check(wholeFrom(1));
  CLI::Option* const epochs = trainCommand->add_option("--epochs", train.epochs, "end after so many epochs of the data set")
                                  ->check(wholeFrom(1))
                                  ->excludes(steps);
  CLI::Option* const seconds = trainCommand
                                   ->add_option("--seconds", train.seconds,
                                                "end after so many seconds, or where --steps or --epochs end it sooner; alone it "
                                                "takes the place of the notebook's `steps` or `epochs`")
                                   ->check(secondsFrom(1e-3));
  CLI::Option* const output =
      trainCommand->add_option("-o,--output", train.output, "folder of results; NAME.nf.out where it is left out");
  trainCommand->add_option("--resume", train.resume, "go on from a checkpoint, a run's folder, or the newest run of NAME.nf.out");
  trainCommand
      ->add_option("--checkpoint-seconds", train.checkpointSeconds,
                   "seconds between checkpoints, which come sooner at the beginning; 0: only at the end; default 10")
      ->check(secondsFrom(0));
  CLI::Option* const replay = trainCommand->add_option("--replay-swaps", train.replaySwaps,
                                                       "swaps.jsonl of an earlier run: the same kernels at the same steps");
  trainCommand->add_option("--weights", train.weights, "safetensors or npz: tensors by name, in place of initial values");
  trainCommand->add_option("--budget", train.share, "share of device time for tuning, 0 to 1")
      ->check(numberIn(0, 1, "share"))
      ->capture_default_str();
  trainCommand->add_flag("--no-records", train.noRecords, "neither read nor write the record database");
  CLI::Option* const noEvaluation =
      trainCommand->add_flag("--no-eval", train.noEvaluation, "leave out evaluation on held-out rows");
  CLI::Option* const onlyEvaluation =
      trainCommand->add_flag("--evaluate", train.onlyEvaluation,
                             "take no step: evaluate what is held out with --weights, or with what --resume would go on from");
  for (CLI::Option* const other : {steps, epochs, seconds, output, replay, noEvaluation}) onlyEvaluation->excludes(other);
  trainCommand->add_flag("--json-progress", train.progress,
                         "one JSON object a line as it happens, see below; --json gives the last one alone");
  trainCommand->callback([&] {
    if (!train.resume.empty() && !train.weights.empty())
      throw CLI::ParseError(
          "--weights gives initial values, and --resume goes on from the values of its checkpoint: one of them is taken.",
          CLI::ExitCodes::ExcludesError);
    exitCode = nf::runTrain(devices(), train);
  });

  nf::TuneCommandOptions tune;
  CLI::App* tuneCommand = app.add_subcommand("tune", "Search faster kernels for a notebook and record them");
  addFile(tuneCommand, tune);
  addWhich(tuneCommand, tune.which);
  tuneCommand->add_option("--threads", tune.device.threads, "threads of CPU kernels")->check(wholeFrom(0, 1024));
  tuneCommand->add_option("--trials", tune.trials, "schedules to try, all kernels together")
      ->capture_default_str()
      ->check(wholeFrom(1));
  tuneCommand->add_option("--seconds", tune.seconds, "end after so many seconds; 0: no limit")->check(secondsFrom(0));
  tuneCommand->add_option("--seed", tune.seed, "of the search")->capture_default_str()->check(wholeFrom(0));
  tuneCommand->add_flag("--json-progress", tune.progress, "one JSON object a line");
  tuneCommand->callback([&] { exitCode = nf::runTune(devices(), tune); });

  nf::BenchOpsOptions benchOps;
  nf::BenchOptions bench;
  CLI::App* benchCommand = app.add_subcommand(
      "bench", "Measure a notebook's training step or what its cells show; `all`: of every example; `ops`: operators");
  benchCommand->require_subcommand(0, 1);
  CLI::Option* benchFile = benchCommand->add_option("FILE", bench.file, "notebook (.nf), or all: every example");
  benchCommand->add_option("--set", bench.sets, "NAME=VALUE: override a `let` (may be repeated)")
      ->allow_extra_args(false)
      ->take_all();
  benchCommand->add_flag("--json", bench.json,
                         "one JSON object on stdout: machine, rows of case, ours_ms, spread, peer, peer_ms, ratio");
  addDevice(benchCommand, bench.device);
  benchCommand->add_option("--seconds", bench.seconds, "of measurement a notebook")
      ->check(secondsFrom(1e-3))
      ->capture_default_str();
  benchCommand->add_flag("--turns", bench.turns,
                         "of one notebook's training step: answer each line {\"seconds\"} on standard input with one JSON line");
  benchCommand->callback([&] {
    if (!benchCommand->get_subcommands().empty()) return;
    if (benchFile->empty()) throw CLI::RequiredError("FILE, all or ops");
    exitCode = nf::runBench(devices(), bench);
  });
  CLI::App* benchOpsCommand = benchCommand->add_subcommand("ops", "Single operators against oneDNN and OpenBLAS where installed");
  benchOpsCommand->add_option("--filter", benchOps.filter, "only cases whose name contains this");
  benchOpsCommand->add_option("--threads", benchOps.threads, "threads of ours and theirs")
      ->check(wholeFrom(1, 1024))
      ->capture_default_str();
  benchOpsCommand->add_option("--trials", benchOps.trials, "schedules tried beside the analytic model's first")
      ->check(wholeFrom(0, 100000));
  benchOpsCommand->add_option("--seconds", benchOps.seconds, "of measurement a case")
      ->check(secondsFrom(1e-3))
      ->capture_default_str();
  benchOpsCommand->add_flag("--schedules", benchOps.texts, "print the schedule of each case");
  benchOpsCommand->add_flag("--json", benchOps.json, "one JSON object on stdout, nothing else there");
  benchOpsCommand->add_option("--device", benchOps.device, "cpu, cuda, cuda:1")->capture_default_str();
  benchOpsCommand->add_option("--type", benchOps.type, "of products and convolutions: f32, f16, bf16, f64")->capture_default_str();
  benchOpsCommand->add_flag("--turns", benchOps.turns,
                            "answer each line {\"case\", \"type\", \"seconds\"} on standard input with one JSON line");
  benchOpsCommand->callback([&] { exitCode = nf::runBenchOps(devices(), benchOps); });

  nf::BenchCheckOptions benchCheck;
  CLI::App* benchCheckCommand = benchCommand->add_subcommand(
      "check", "Kernels of a device against the interpreter in double precision: notebooks, random programs, the tests' kernels");
  benchCheckCommand->add_option("FILE", benchCheck.files, "notebooks (.nf)");
  benchCheckCommand->add_option("--set", benchCheck.sets, "NAME=VALUE, of the notebooks that have this `let` (may be repeated)")
      ->allow_extra_args(false)
      ->take_all();
  addDevice(benchCheckCommand, benchCheck.device);
  benchCheckCommand->add_option("--programs", benchCheck.programs, "random programs, of --seed and those that follow it")
      ->check(wholeFrom(0));
  benchCheckCommand->add_flag("--kernels", benchCheck.kernels, "the kernels that the tests compile");
  benchCheckCommand->add_option("--filter", benchCheck.filter, "of those only what has this in its name");
  benchCheckCommand->add_option("--seed", benchCheck.seed, "of programs, inputs and schedules")
      ->capture_default_str()
      ->check(wholeFrom(0));
  benchCheckCommand->add_option("--schedules", benchCheck.schedules, "random schedules of each, beside the first")
      ->check(wholeFrom(0, 1000));
  benchCheckCommand->add_flag("--json", benchCheck.json, "one JSON object on stdout, nothing else there");
  benchCheckCommand->callback([&] {
    if (benchCheck.files.empty() && benchCheck.programs == 0 && !benchCheck.kernels)
      throw CLI::RequiredError("FILE, --programs or --kernels");
    exitCode = nf::runBenchCheck(devices(), benchCheck);
  });

  nf::ProfileOptions profile;
  CLI::App* profileCommand = app.add_subcommand(
      "profile", "Wall time of every kernel of a training step; where nothing trains, of what its cells ask for");
  addFile(profileCommand, profile);
  addDevice(profileCommand, profile.device);
  addWhich(profileCommand, profile.which);
  profileCommand->add_option("--repeats", profile.repeats, "timed runs")->capture_default_str()->check(wholeFrom(1, 100000));
  profileCommand->add_option("--trace", profile.trace,
                             "writes every launch of the timed runs to this file, for chrome://tracing and Perfetto");
  profileCommand->callback([&] { exitCode = nf::runProfile(devices(), profile); });

  nf::ExportOptions exported;
  CLI::App* exportCommand = app.add_subcommand("export", "Write a notebook in another form");
  addFile(exportCommand, exported);
  addDevice(exportCommand, exported.device);
  addWhich(exportCommand, exported.which);
  exportCommand->add_option("DIR", exported.folder, "folder to write into; made where it is missing")->required();
  exportCommand
      ->add_option("--to", exported.to,
                   "html: the report of its newest run, or of the notebook; dot, svg, json: the graph; llvm, cuda: kernels "
                   "(cuda also without a GPU: --device cuda:sm_90)")
      ->required()
      ->check(CLI::IsMember({"html", "dot", "svg", "json", "llvm", "cuda"}));
  exportCommand
      ->add_option("--stage", exported.stage, "of dot, svg and json: source, differentiated, transformed, partitioned or fused")
      ->capture_default_str();
  exportCommand->add_option("--as", exported.as, "with - in place of FILE: the file that the text is an edit of; its runs count");
  exportCommand->add_flag(
      "--values", exported.values,
      "of html: compute what the cells show, with the weights of the newest run where it computed the loss as this text does");
  exportCommand->callback([&] { exitCode = nf::runExport(devices(), exported); });

  bool doctorJson = false;
  CLI::App* doctorCommand = app.add_subcommand("doctor", "Devices, plugins and versions, and why something is missing");
  doctorCommand->add_flag("--json", doctorJson, "one JSON object on stdout");
  doctorCommand->callback([&] { exitCode = nf::runDoctor(devices(), doctorJson); });

  CLI::App* engineCommand =
      app.add_subcommand("engine", "The child process of the workbench: the protocol on standard input and output");
  engineCommand->callback([&] {
    exitCode = nf::runEngine(devices(), STDIN_FILENO, STDOUT_FILENO, {"neoflow " NF_VERSION, NF_VERSION, nf::versions(), {}});
  });

  CLI::App* workerCommand = app.add_subcommand("worker", "The child process that generates code or measures it");
  for (CLI::App* child : {engineCommand, workerCommand}) child->group("Child processes")->footer("");
  workerCommand->prefix_command();
  workerCommand->callback([&] { exitCode = nf::workerMain(workerCommand->remaining(), devices()); });

  // What --json gives: the keys that scripts may rely on.
  const std::pair<const char*, const char*> keys[] = {
      {"check",
       "JSON: ok, diagnostics [severity, message, line, column, length, notes],\ncounts {operators, trains: statements, ...}"},
      {"show", "JSON: the program: tensors, operators, scalars, indices, accesses, outputs, updates, derivatives, origins"},
      {"explain",
       "JSON: device {P_d in B/s, P_c in FLOP/s, L in s, threads}, decisions [producer, consumer, category, dT in B, dC in FLOP, "
       "dK,\n"
       "R in s, accepted, why, flip: by which sizes and constants R turns while what is decided before stays]; with --measure: "
       "fused, split {us, spread_us, runs, kernels}, gain_of_split, separates, "
       "schedules, verdict"},
      {"grad",
       "JSON: ok, text, stands_alone, output, input {asked, tensor: its name in text}, terms, diagnostics,\n"
       "check {samples, worst, allowed}"},
      {"run",
       "JSON: event done, seconds, tensors [name, dtype, shape, first, mean, rms, not_finite], training_rows (that the inputs "
       "hold, of a set that holds rows out; else 0)"},
      {"train",
       "JSON, one object a line, by event: first_step {ms}; step {step, ms, loss, steps: that it stands for};\n"
       "eval {step, accuracy, loss, values}, the newest where they come faster than 20 a second;\n"
       "trial {subgraph, schedule, us, status, counted: false where a first kernel is only held right, its time follows}; "
       "kernel_swap {subgraph, before_us, after_us, generation};\n"
       "kernel_counters {subgraph, before, after, missing};\n"
       "fusion_reverted {producer, consumer, fused_us, split_us, fused_kernels, split_kernels}; step_kernels {subgraphs, step}; "
       "checkpoint_failed {step, message};\n"
       "done {steps, resumed_at, loss, accuracy, first_step_ms, median_step_ms, seconds, peak_bytes, checkpoints_failed};\n"
       "error {stage, message, file, line, column}"},
      {"tune", "JSON, one object a line: trial as of train; done {trials, seconds, first_step_us, best_step_us, subgraphs}"},
      {"profile",
       "JSON: device, program, repeats, step_us, wall_us, clock {of, why}, kernels [subgraph, kernel, calls: a step, us: a call, "
       "share, flops, "
       "bytes,\n"
       "counters {us, flops, dram_bytes, l2_bytes, occupancy, stalls, lines}], counters_missing, trace {file, steps, "
       "steps_left_out}"},
      {"bench", "JSON: machine, rows [case, ours_ms, spread, peer, peer_ms, ratio]"},
      {"export", "JSON: ok, files"},
      {"doctor", "JSON: plugins [name, loaded, reason], devices, versions, tools [name, path], files [name, path, state]"}};
  for (const auto& [command, text] : keys) app.get_subcommand(command)->footer(text);

  refuseEmptyValues(app);

  std::vector<std::string> arguments;
  try {
    // Before --help of what does not exist is taken for help of everything.
    const std::string first = argc > 1 ? argv[1] : "-";
    if (first[0] != '-' && app.get_subcommands([&](const CLI::App* a) { return a->get_name() == first; }).empty()) {
      std::vector<std::string> commands;
      for (const CLI::App* a : app.get_subcommands([](const CLI::App*) { return true; })) commands.push_back(a->get_name());
      const std::string near = nearest(first, commands);
      throw CLI::ParseError("There is no command \"" + first + "\"" + (near.empty() ? "." : ": is " + near + " meant?"),
                            CLI::ExitCodes::ExtrasError);
    }
    const std::string option = first.substr(0, first.find('='));
    if (option.size() > 1 && option[0] == '-' && !app.get_option_no_throw(option)) {
      std::vector<std::string> options;
      for (const CLI::Option* o : app.get_options())
        for (const std::string& l : o->get_lnames()) options.push_back("--" + l);
      const std::string near = nearest(option, options);
      throw CLI::ParseError("neoflow has no option " + option + (near.empty() ? "." : ": is " + near + " meant?"),
                            CLI::ExitCodes::ExtrasError);
    }
    arguments = argumentsOf(argc, argv);
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error), written(nf::kExitFine);
    std::string message = sentenceOf(error);
    const std::vector<std::string> left = app.remaining(true);
    // An argument is missing because what was meant as one looks like an option.
    const bool misread =
        dynamic_cast<const CLI::RequiredError*>(&error) &&
        std::any_of(left.begin(), left.end(), [](const std::string& a) { return a.size() > 1 && a[0] == '-' && a != "--"; });
    if (misread || dynamic_cast<const CLI::ExtrasError*>(&error)) message = unexpected(app, arguments);
    return nf::report({"usage", message, {}, nameOf(commandOf(app)) + " --help lists what there is."}, json, nf::kExitUsage);
  }
  return written(exitCode);
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that left and a file that may not grow are errors of the write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const bool json = std::any_of(
      argv, argv + argc, [](const char* a) { return std::string_view(a) == "--json" || std::string_view(a) == "--json-progress"; });
  nf::tellUncaughtExceptions(json);
  // Workers and engines belong to who started them, and are ended by them.
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command != "worker" && command != "engine") nf::saySentenceOnSignal();
  return nf::withStack([&] { return commandLine(argc, argv, json); });
}
