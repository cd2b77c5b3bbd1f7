// SPDX-License-Identifier: Apache-2.0
#include "core/tune/worker_main.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <list>
#include <map>
#include <new>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/ir/serialize.h"
#include "core/tune/device_lease.h"
#include "core/tune/gate.h"
#include "core/tune/measure.h"
#include "core/tune/timed_runs.h"
#include "core/tune/worker_messages.h"
#include "core/tune/worker_process.h"

namespace nf {
namespace {

using nlohmann::json;

// The pipe to the parent. Standard output is given to standard error: what a library prints must not get between frames.
class Pipe {
 public:
  Pipe() : m_descriptor(fcntl(1, F_DUPFD_CLOEXEC, 3)) { dup2(2, 1); }
  std::optional<Frame> receive() {
    std::byte chunk[1 << 16];
    for (;;) {
      if (auto frame = m_reader.next()) return frame;
      if (m_reader.garbled()) return std::nullopt;
      const ssize_t n = read(0, chunk, sizeof chunk);
      if (n == 0 || (n < 0 && errno != EINTR)) return std::nullopt;
      if (n > 0) m_reader.add(chunk, static_cast<std::size_t>(n));
    }
  }
  bool send(const Frame& frame) {
    const std::vector<std::byte> bytes = encode(frame);
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = write(m_descriptor, bytes.data() + sent, bytes.size() - sent);
      if (n < 0 && errno != EINTR) return false;
      if (n > 0) sent += static_cast<std::size_t>(n);
    }
    return true;
  }

 private:
  int m_descriptor;
  FrameReader m_reader;
};

json errorJson(const Error& e) { return {{"stage", e.stage}, {"message", e.message}, {"device", e.device}, {"detail", e.detail}}; }

// Programs by hash, as the parent sent them.
class KnownPrograms {
 public:
  Result<std::shared_ptr<const Program>> of(const json& request) {
    if (request.value("forget", false)) m_programs.clear();
    NF_TRY(const Hash hash, hashFromHex(request.at("hash").get<std::string>()));
    if (const auto it = request.find("program"); it != request.end()) {
      NF_TRY(Program program, programFromJson(*it));
      m_programs[hash] = std::make_shared<const Program>(std::move(program));
    }
    const auto found = m_programs.find(hash);
    if (found == m_programs.end()) return Error{"worker", "the program is not known", {}, {}};
    return found->second;
  }

 private:
  std::map<Hash, std::shared_ptr<const Program>> m_programs;
};

// What follows the compiler's own fatal error can be shown and tested with a real compiler: each compile takes one from the number in
// this file, and aborts, until it is 0.
void abortIfAsked() {
  static const char* const path = std::getenv("NEOFLOW_ABORT_COMPILES");
  const int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return;
  flock(file, LOCK_EX);
  char text[16] = {};
  const ssize_t length = pread(file, text, sizeof text - 1, 0);
  const long left = length > 0 ? std::strtol(text, nullptr, 10) : 0;
  const std::string less = std::to_string(left - 1);
  const bool due = left > 0 && ftruncate(file, 0) == 0 && pwrite(file, less.data(), less.size(), 0) > 0;
  close(file);
  if (due) std::abort();
}

// Steps come first; on a busy machine a search that gets nothing at all would be no search.
constexpr int kNice = 5;

class CompileWorker {
 public:
  explicit CompileWorker(BackendRegistry& registry) : m_registry(registry) {}

  Frame answer(const json& request) {
    abortIfAsked();
    Result<KernelObject> kernel = compile(request);
    if (!kernel) return {json{{"error", errorJson(kernel.error())}}.dump(), {}};
    json header{{"kernel", kernelToJson(*kernel)}};
    return {header.dump(), std::move(kernel->code)};
  }

 private:
  Result<KernelObject> compile(const json& request) {
    if (request.value("nice", false) && !m_nice) {
      m_nice = true;
      setpriority(PRIO_PROCESS, 0, kNice);
    }
    NF_TRY(const auto program, m_programs.of(request));
    NF_TRY(Schedule schedule, Schedule::parse(request.at("schedule").get<std::string>()));
    const std::string key = request.at("targetKey").get<std::string>();
    auto compiler = m_compilers.find(key);
    if (compiler == m_compilers.end()) {
      if (!request.contains("target")) return Error{"worker", "the target is not known", {}, {}};
      NF_TRY(const Target target, targetFromJson(request.at("target")));
      Backend* backend = m_registry.generator(target.backend);
      if (!backend) return Error{"compile", "this process has no back end " + target.backend, target.backend, {}};
      NF_TRY(auto made, backend->compiler(target));
      compiler = m_compilers.emplace(key, std::move(made)).first;
    }
    return compiler->second->compile({*program, std::move(schedule), request.at("texts").get<std::vector<std::string>>(),
                                      request.at("quick").get<bool>() ? CompileEffort::Quick : CompileEffort::Full});
  }

  BackendRegistry& m_registry;
  KnownPrograms m_programs;
  std::map<std::string, std::unique_ptr<Compiler>> m_compilers;
  bool m_nice = false;
};

std::int64_t nanoseconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

// The lease of the worker, held for at most one slice.
class Slices {
 public:
  explicit Slices(DeviceLease* lease) : m_lease(lease) {}
  void beforeRun() {
    constexpr std::int64_t kSlice = 20'000'000;
    if (!m_lease) return;
    const std::int64_t now = nanoseconds(CLOCK_MONOTONIC);
    if (m_hold && now - m_since < kSlice) return;
    m_hold.release();
    m_hold = m_lease->acquire();
    m_since = nanoseconds(CLOCK_MONOTONIC);
  }

 private:
  DeviceLease* m_lease;
  DeviceLease::Hold m_hold;
  std::int64_t m_since = 0;
};

class MeasureWorker {
 public:
  MeasureWorker(BackendRegistry& registry, const std::string& backend, const std::string& device, int threads,
                const std::string& leaseDirectory)
      : m_threads(threads) {
    Backend* found = registry.find(backend);
    if (!found) {
      m_failure = "this process has no back end " + backend;
      return;
    }
    auto opened = found->open(device, threads);
    if (!opened) {
      m_failure = opened.error().message;
      return;
    }
    m_device = std::move(*opened);
    auto lease = DeviceLease::open(device, leaseDirectory);
    if (lease) m_lease = std::move(*lease);
    else m_failure = lease.error().message;
  }

  Frame answer(const json& request, std::vector<std::byte> body) {
    try {
      return answered(request, std::move(body));
    } catch (const std::bad_alloc&) {
      m_gates.clear();
      return {outcomeToJson(lacking(": a limit (`ulimit -v`) or the machine's own is reached")).dump(), {}};
    }
  }
  // No call on the device can succeed any more: another process must go on.
  bool ends() const { return m_device && m_device->lost(); }

 private:
  Frame answered(const json& request, std::vector<std::byte> body) {
    Result<MeasureOutcome> outcome =
        request.value("op", "") == "compare" ? compare(request, body) : measure(request, std::move(body));
    const std::optional<Error> lost = m_device ? m_device->lost() : std::nullopt;
    if (!outcome || lost) {
      // Whatever a kernel that took the device down seemed to do before that.
      const Error& error = lost ? *lost : outcome.error();
      MeasureOutcome failed;
      failed.status = TrialStatus::Crashed;
      failed.reason = error.message;
      if (!error.detail.empty()) failed.reason += ": " + error.detail;
      failed.lostDevice = lost.has_value();
      if (!lost && error.stage == "allocate") failed = lacking(" (" + failed.reason + ")");
      return {outcomeToJson(failed).dump(), {}};
    }
    return {outcomeToJson(*outcome).dump(), {}};
  }

  static MeasureOutcome lacking(const std::string& why) {
    MeasureOutcome failed;
    failed.status = TrialStatus::Crashed;
    failed.lacksMemory = true;
    failed.reason = "there is not enough memory to check it, beside what the step takes" + why;
    return failed;
  }

  // Gates are kept from trial to trial, the latest used first.
  struct Kept {
    Hash hash;
    std::unique_ptr<Gate> gate;
    bool hasReference = false;
  };
  static constexpr std::int64_t kKeptBytes = 512ll << 20;

  Result<Kept*> gateOf(std::shared_ptr<const Program> program, const Hash& hash) {
    for (auto it = m_gates.begin(); it != m_gates.end(); ++it)
      if (it->hash == hash) {
        m_gates.splice(m_gates.begin(), m_gates, it);
        return &m_gates.front();
      }
    NF_TRY(auto gate, Gate::prepare(*m_device, std::move(program), hash));
    m_gates.push_front({hash, std::move(gate), false});
    std::int64_t bytes = 0;
    for (auto it = m_gates.begin(); it != m_gates.end();) {
      bytes += it->gate->bytes();
      it = bytes > kKeptBytes && it != m_gates.begin() ? m_gates.erase(it) : std::next(it);
    }
    return &m_gates.front();
  }

  Result<MeasureOutcome> measure(const json& request, std::vector<std::byte> body) {
    NF_TRY(auto program, m_programs.of(request));
    if (!m_failure.empty()) return Error{"measure", m_failure, {}, {}};
    NF_TRY(const Hash hash, hashFromHex(request.at("hash").get<std::string>()));
    const json& candidateJson = request.at("candidate");
    const auto codeBytes = candidateJson.at("codeBytes").get<std::size_t>();
    if (codeBytes > body.size()) return Error{"measure", "malformed message: code of another length", {}, {}};
    const auto split = body.begin() + static_cast<std::ptrdiff_t>(codeBytes);
    NF_TRY(const KernelObject candidate, kernelFromJson(candidateJson, {body.begin(), split}));
    std::int64_t leastFlops = 0;
    for (std::size_t o = 0; o < program->operators.size(); ++o) leastFlops += leastFlopsOf(*program, OperatorId(o));
    NF_TRY(Kept* const kept, gateOf(std::move(program), hash));
    NF_TRY(const auto kernel, m_device->link(candidate));
    std::optional<KernelObject> incumbent;
    std::unique_ptr<Kernel> incumbentKernel;
    if (const auto it = request.find("incumbent"); it != request.end()) {
      NF_TRY(incumbent, kernelFromJson(*it, {split, body.end()}));
      NF_TRY(incumbentKernel, m_device->link(*incumbent));
    }

    MeasureOutcome outcome;
    const bool full = request.at("full").get<bool>();
    // On a CPU the gate's own work takes device time as well; waiting for the lease does not.
    const clockid_t clock = m_device->target().backend == "cpu" ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    const std::int64_t start = nanoseconds(clock);
    // A worker that was replaced has forgotten the results that candidates are compared with.
    if (full && !kept->hasReference && incumbentKernel) kept->gate->check(*incumbentKernel, *incumbent, GateLevel::Full);
    outcome.hasCounters = m_device->profiler() != nullptr;
    outcome.gate = kept->gate->check(*kernel, candidate, full ? GateLevel::Full : GateLevel::Quick);
    kept->hasReference = kept->hasReference || full;
    if (!outcome.gate.passed) {
      outcome.status = TrialStatus::Wrong;
      outcome.reason = outcome.gate.failure;
    } else if (request.value("count", false)) {
      NF_TRY([[maybe_unused]] const Unit counted, countKernels(request.at("exclusive").get<bool>(), *kept->gate, candidate, *kernel,
                                                               incumbent ? &*incumbent : nullptr, incumbentKernel.get(), outcome));
    } else if (request.at("time").get<bool>()) {
      NF_TRY([[maybe_unused]] const Unit timed,
             timeKernels(request.at("exclusive").get<bool>(), *kept->gate, candidate, *kernel, leastFlops,
                         incumbent ? &*incumbent : nullptr, incumbentKernel.get(), outcome));
    }
    outcome.deviceSeconds = static_cast<double>(nanoseconds(clock) - start) * 1e-9;
    return outcome;
  }

  // A counter that can't be read is a sentence, not a failure of the kernel.
  Result<Unit> countKernels(bool exclusive, const Gate& gate, const KernelObject& candidate, Kernel& kernel,
                            const KernelObject* incumbent, Kernel* incumbentKernel, MeasureOutcome& outcome) {
    Profiler* const profiler = m_device->profiler();
    if (!profiler) {
      outcome.countersMissing = "The device " + m_device->name() + " has no counters.";
      return Unit{};
    }
    Slices slices(exclusive ? m_lease.get() : nullptr);
    void* workspace = nullptr;
    const std::int64_t bytes = std::max(candidate.workspaceBytes, incumbent ? incumbent->workspaceBytes : 0);
    if (bytes > 0) { NF_TRY(workspace, m_device->allocate(bytes)); }
    const LaunchArgs args{gate.tensors(), workspace, gate.counters(), 1, 0};
    Result<Unit> done = Unit{};
    const auto count = [&](Kernel& counted, std::optional<KernelCounters>& into) {
      auto counters = profiler->count([&] {
        slices.beforeRun();
        return counted.launch(args);
      });
      if (counters) into = std::move(*counters);
      else if (counters.error().stage == kCountersStage) outcome.countersMissing = counters.error().message;
      else done = counters.error();
    };
    count(kernel, outcome.counters);
    if (done && incumbentKernel && outcome.countersMissing.empty()) count(*incumbentKernel, outcome.incumbentCounters);
    if (workspace) m_device->release(workspace);
    return done;
  }

  Result<Unit> timeKernels(bool exclusive, const Gate& gate, const KernelObject& candidate, Kernel& kernel, std::int64_t leastFlops,
                           const KernelObject* incumbent, Kernel* incumbentKernel, MeasureOutcome& outcome) {
    Slices slices(exclusive ? m_lease.get() : nullptr);
    void* workspace = nullptr;
    const std::int64_t bytes = std::max(candidate.workspaceBytes, incumbent ? incumbent->workspaceBytes : 0);
    if (bytes > 0) { NF_TRY(workspace, m_device->allocate(bytes)); }
    // Other work on the machine does not count in a thread's own time; only one thread has such a clock.
    const clockid_t clock = m_device->target().backend == "cpu" && m_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    const LaunchArgs args{gate.tensors(), workspace, gate.counters(), TimedRuns::kSeed, TimedRuns::kStep};
    const auto timed = [&](Kernel* k) {
      return TimedRuns(
          *m_device, [&args, k] { return k->launch(args); }, [clock] { return nanoseconds(clock); }, [&] { slices.beforeRun(); });
    };
    TimedRuns ours = timed(&kernel);
    std::optional<TimedRuns> theirs;
    std::function<Result<double>()> other;
    if (incumbentKernel) other = std::ref(theirs.emplace(timed(incumbentKernel)));
    auto measured = measureCandidate(std::ref(ours), other);
    if (workspace) m_device->release(workspace);
    if (!measured) return measured.error();
    outcome.status = measured->status;
    outcome.reason = measured->reason;
    outcome.timing = measured->timing;
    outcome.incumbent = measured->incumbent;
    outcome.pairs = std::move(measured->pairs);
    // Faster than the machine can compute: it does not compute what it should, whatever the gate saw.
    const double rate = static_cast<double>(leastFlops) / (outcome.timing.median * 1e-6);
    if (const double most = mostFlops(m_device->target(), m_threads); most > 0 && rate > most) {
      outcome.status = TrialStatus::Wrong;
      outcome.reason = "it claims a rate of arithmetic that the device cannot reach";
    }
    return Unit{};
  }

  // Kernels one after the other, as a step runs them.
  struct Branch {
    struct Member {
      KernelObject object;
      std::unique_ptr<Kernel> kernel;
      std::unique_ptr<Gate> gate;
      std::vector<void*> tensors;
    };
    std::vector<Member> members;
  };

  Result<Branch> branchOf(const json& request, const std::vector<std::byte>& body, std::size_t& at, MeasureOutcome& outcome) {
    Branch branch;
    std::map<std::uint32_t, void*> written;
    for (const json& item : request) {
      NF_TRY(auto program, m_programs.of(item));
      NF_TRY(const Hash hash, hashFromHex(item.at("hash").get<std::string>()));
      const auto bytes = item.at("kernel").at("codeBytes").get<std::size_t>();
      if (bytes > body.size() - at) return Error{"measure", "malformed message: code of another length", {}, {}};
      const auto begin = body.begin() + static_cast<std::ptrdiff_t>(at);
      at += bytes;
      Branch::Member m;
      NF_TRY(m.object, kernelFromJson(item.at("kernel"), {begin, begin + static_cast<std::ptrdiff_t>(bytes)}));
      NF_TRY(m.kernel, m_device->link(m.object));
      const std::size_t outputs = program->outputs.size();
      NF_TRY(m.gate, Gate::prepare(*m_device, std::move(program), hash));
      outcome.gate = m.gate->check(*m.kernel, m.object, GateLevel::Quick);
      if (!outcome.gate.passed) {
        outcome.status = TrialStatus::Wrong;
        outcome.reason = outcome.gate.failure;
        return branch;
      }
      const auto numbers = item.at("tensors").get<std::vector<std::uint32_t>>();
      m.tensors.assign(m.gate->tensors().begin(), m.gate->tensors().end());
      if (numbers.size() != m.tensors.size() || outputs > numbers.size())
        return Error{"measure", "malformed message: tensors of another kernel", {}, {}};
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (i >= numbers.size() - outputs) written[numbers[i]] = m.tensors[i];
        else if (const auto known = written.find(numbers[i]); known != written.end() && !m.gate->reachesIndex(i))
          m.tensors[i] = known->second;
      }
      branch.members.push_back(std::move(m));
    }
    return branch;
  }

  static Result<Unit> run(const Branch& branch, void* workspace) {
    for (const Branch::Member& m : branch.members) {
      NF_TRY([[maybe_unused]] const Unit done,
             m.kernel->launch({m.tensors, workspace, m.gate->counters(), TimedRuns::kSeed, TimedRuns::kStep}));
    }
    return Unit{};
  }

  Result<MeasureOutcome> compare(const json& request, const std::vector<std::byte>& body) {
    if (!m_failure.empty()) return Error{"measure", m_failure, {}, {}};
    MeasureOutcome outcome;
    const bool cpu = m_device->target().backend == "cpu";
    const clockid_t budgetClock = cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    const std::int64_t start = nanoseconds(budgetClock);
    const json& branches = request.at("branches");
    std::size_t at = 0;
    NF_TRY(const Branch first, branchOf(branches.at(0), body, at, outcome));
    if (outcome.status != TrialStatus::Ok) return outcome;
    NF_TRY(const Branch second, branchOf(branches.at(1), body, at, outcome));
    if (outcome.status != TrialStatus::Ok) return outcome;
    std::int64_t bytes = 0;
    for (const Branch* branch : {&first, &second})
      for (const Branch::Member& m : branch->members) bytes = std::max(bytes, m.object.workspaceBytes);
    void* workspace = nullptr;
    if (bytes > 0) { NF_TRY(workspace, m_device->allocate(bytes)); }
    Slices slices(request.at("exclusive").get<bool>() ? m_lease.get() : nullptr);
    const clockid_t clock = cpu && m_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    const auto timed = [&](const Branch* branch) {
      return TimedRuns(
          *m_device, [branch, workspace] { return run(*branch, workspace); }, [clock] { return nanoseconds(clock); },
          [&] { slices.beforeRun(); });
    };
    TimedRuns candidate = timed(&second), incumbent = timed(&first);
    MeasurePolicy policy;
    policy.whole = request.at("whole").get<bool>();
    policy.fullGain = true;
    auto measured = measureCandidate(std::ref(candidate), std::ref(incumbent), policy);
    if (workspace) m_device->release(workspace);
    if (!measured) return measured.error();
    outcome.status = measured->status;
    outcome.reason = measured->reason;
    outcome.timing = measured->timing;
    outcome.incumbent = measured->incumbent;
    outcome.pairs = std::move(measured->pairs);
    outcome.deviceSeconds = static_cast<double>(nanoseconds(budgetClock) - start) * 1e-9;
    return outcome;
  }

  int m_threads;
  std::unique_ptr<Device> m_device;
  std::unique_ptr<DeviceLease> m_lease;
  std::string m_failure;
  KnownPrograms m_programs;
  std::list<Kept> m_gates;
};

struct Options {
  bool compile = false, measure = false;
  std::string backend = "cpu", device = "cpu", leaseDirectory;
  int threads = 1;
};

std::optional<Options> parse(const std::vector<std::string>& arguments) {
  Options o;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    if (a == "--compile") o.compile = true;
    else if (a == "--measure") o.measure = true;
    else if (i + 1 == arguments.size()) return std::nullopt;
    else if (a == "--backend") o.backend = arguments[++i];
    else if (a == "--device") o.device = arguments[++i];
    else if (a == "--lease-directory") o.leaseDirectory = arguments[++i];
    else if (a == "--threads") o.threads = std::atoi(arguments[++i].c_str());
    else return std::nullopt;
  }
  if (o.compile == o.measure || o.threads < 1) return std::nullopt;
  return o;
}

}  // namespace

int workerMain(const std::vector<std::string>& arguments, BackendRegistry& registry) {
  const auto options = parse(arguments);
  if (!options) {
    std::fputs("neoflow: `neoflow worker` is started by other commands, which speak to it over a pipe.\n", stderr);
    return 2;
  }
  // The signal comes when the parent's thread ends; a parent that was faster has closed the pipe, which ends receive().
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  std::optional<CompileWorker> compiler;
  std::optional<MeasureWorker> measurer;
  if (options->compile) compiler.emplace(registry);
  else measurer.emplace(registry, options->backend, options->device, options->threads, options->leaseDirectory);
  while (auto frame = pipe.receive()) {
    const auto request = parseObject(frame->header);
    if (!request) return 1;
    Frame answer;
    try {
      answer = compiler ? compiler->answer(*request) : measurer->answer(*request, std::move(frame->body));
    } catch (const json::exception&) {
      return 1;  // the parent sees a worker that died, and starts another
    }
    if (!pipe.send(answer) || (measurer && measurer->ends())) return 1;
  }
  return 0;
}

}  // namespace nf
