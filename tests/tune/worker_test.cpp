// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <fstream>

#include "core/tune/compile_service.h"
#include "core/tune/measure_service.h"
#include "core/tune/worker_process.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

using fakes::schedule;

const std::string kWorker = NF_BINARY_DIR "/bin/tune_test_worker";

std::shared_ptr<const Target> target() {
  auto made = std::make_shared<Target>();
  made->backend = "fake";
  made->fingerprint = "fake 1";
  return made;
}

CompileJob job(std::vector<Schedule> schedules) {
  static const auto program = std::make_shared<const Program>(fakes::matmul(6, 5, 4));
  CompileJob made;
  made.subgraph = program;
  made.hash = structuralHash(*program);
  made.target = target();
  made.schedules = std::move(schedules);
  return made;
}

CompileService::Options options(int workers = 2) {
  CompileService::Options o;
  o.workers = workers;
  o.command.arguments = {kWorker};
  return o;
}

// The first two compiles abort.
CompileService::Options abortingTwice(const fakes::Folder& folder) {
  const std::string file = folder.path("aborts");
  std::ofstream(file) << 2;
  CompileService::Options o;
  o.command.arguments = {"/usr/bin/env", "NEOFLOW_ABORT_COMPILES=" + file, kWorker};
  return o;
}

TEST(Frame, SurvivesAnyFragmentation) {
  const Frame frame{"{\"a\":1}", {std::byte{0}, std::byte{255}, std::byte{7}}};
  const auto bytes = encode(frame);
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    FrameReader reader;
    int found = 0;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      reader.add(bytes.data() + at, std::min(step, bytes.size() - at));
      if (const auto got = reader.next()) {
        ++found;
        EXPECT_EQ(got->header, frame.header);
        EXPECT_EQ(got->body, frame.body);
      }
    }
    EXPECT_EQ(found, 1) << step;
    EXPECT_TRUE(reader.empty());
  }
}

TEST(Frame, AnAbsurdLengthIsGarbled) {
  FrameReader reader;
  const std::vector<std::byte> noise(64, std::byte{0xee});
  reader.add(noise.data(), noise.size());
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.garbled());
}

TEST(CompileService, AKernelComesBackOverThePipe) {
  CompileService service(options());
  auto asked = job({schedule({{"compile", "ok"}, {"tile", {4, 8}}})});
  asked.texts = {"loops"};
  const auto outcome = service.compile(asked).get();
  ASSERT_TRUE(outcome.kernel.ok()) << outcome.kernel.error().message << outcome.kernel.error().detail;
  EXPECT_EQ(outcome.status, TrialStatus::Ok);
  EXPECT_EQ(outcome.attempts, 1);
  EXPECT_EQ(outcome.kernel->schedule, asked.schedules[0]);
  EXPECT_EQ(outcome.kernel->subgraph, asked.hash);
  EXPECT_EQ(outcome.kernel->stages.at(0).symbol, "main");
  EXPECT_FALSE(outcome.kernel->code.empty());
  // The worker knows origins by other numbers; they come back as the program's own.
  const auto& lines = outcome.kernel->texts.at("loops").lineOrigins;
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1], std::vector{asked.subgraph->operators[0].origin});
}

TEST(CompileService, AWorkerServesManyJobsOfBothPriorities) {
  CompileService service(options());
  std::vector<std::future<CompileOutcome>> futures;
  for (int i = 0; i < 24; ++i) {
    auto asked = job({schedule({{"n", i}})});
    asked.priority = i % 2 ? CompilePriority::Background : CompilePriority::FirstKernel;
    futures.push_back(service.compile(std::move(asked)));
  }
  for (int i = 0; i < 24; ++i) EXPECT_EQ(futures[static_cast<std::size_t>(i)].get().kernel->schedule, schedule({{"n", i}}));
  EXPECT_EQ(service.statistics().compiled, 24);
  EXPECT_EQ(service.statistics().workersDied, 0);
}

TEST(CompileService, AWorkerThatAbortsOnItsFirstCompileIsReplaced) {
  const fakes::Folder folder;
  CompileService service(abortingTwice(folder));
  std::vector<std::future<CompileOutcome>> futures;
  for (int i = 0; i < 6; ++i) futures.push_back(service.compile(job({schedule({{"n", i}})})));
  for (auto& future : futures) {
    const auto outcome = future.get();
    EXPECT_TRUE(outcome.kernel.ok());
    EXPECT_EQ(outcome.status, TrialStatus::Ok);
  }
  EXPECT_EQ(service.statistics().workersDied, 2);
}

TEST(CompileService, AScheduleThatKillsEveryWorkerGivesWayToTheNext) {
  CompileService service(options());
  const auto outcome =
      service.compile(job({schedule({{"compile", "abort"}}), schedule({{"compile", "refuse"}}), schedule({{"safe", 1}})})).get();
  ASSERT_TRUE(outcome.kernel.ok());
  EXPECT_EQ(outcome.kernel->schedule, schedule({{"safe", 1}}));
  EXPECT_EQ(outcome.status, TrialStatus::Crashed);
  EXPECT_EQ(outcome.attempts, 5);
  EXPECT_EQ(service.statistics().workersDied, 3);
}

TEST(CompileService, TheParentHoldsTheDeadline) {
  CompileService service(options(1));
  auto asked = job({schedule({{"compile", "hang"}})});
  asked.deadline = std::chrono::milliseconds(200);
  asked.attempts = 1;
  const auto outcome = service.compile(std::move(asked)).get();
  EXPECT_FALSE(outcome.kernel.ok());
  EXPECT_EQ(outcome.status, TrialStatus::Killed);
  EXPECT_EQ(outcome.kernel.error().detail.find("no answer within"), 0u) << outcome.kernel.error().detail;
  EXPECT_EQ(service.statistics().deadlinesPassed, 1);
  EXPECT_TRUE(service.compile(job({schedule({{"n", 1}})})).get().kernel.ok());
}

TEST(CompileService, ARefusalCarriesTheCompilersWords) {
  CompileService service(options(1));
  const auto outcome = service.compile(job({schedule({{"compile", "refuse"}})})).get();
  ASSERT_FALSE(outcome.kernel.ok());
  EXPECT_EQ(outcome.status, TrialStatus::Crashed);
  EXPECT_EQ(outcome.attempts, 1);
  EXPECT_EQ(outcome.kernel.error().message, "the schedule spills");
  EXPECT_EQ(outcome.kernel.error().detail, "12 registers too many");
}

TEST(CompileService, ACommandThatCannotStartIsAnError) {
  CompileService::Options o;
  o.command.arguments = {"/nowhere/neoflow", "worker"};
  CompileService missing(o);
  EXPECT_FALSE(missing.compile(job({schedule({{"n", 1}})})).get().kernel.ok());
  o.command.arguments = {"/bin/false"};
  CompileService useless(o);
  const auto outcome = useless.compile(job({schedule({{"n", 1}})})).get();
  EXPECT_EQ(outcome.status, TrialStatus::Crashed);
  EXPECT_TRUE(outcome.died);
  EXPECT_EQ(outcome.attempts, 3);
}

// The engine of issue 2: workers abort on their first compile, then one is killed again and again; every kernel arrives.
TEST(CompileService, EveryFirstKernelArrivesWhileWorkersAreKilled) {
  const fakes::Folder folder;
  CompileService service(abortingTwice(folder));
  int arrived = 0;
  for (int round = 0; round < 8; ++round) {
    std::vector<std::future<CompileOutcome>> futures;
    for (int i = 0; i < 8; ++i) {
      futures.push_back(service.compile(job({schedule({{"n", 100 * round + i}}), schedule({{"safe", 1}})})));
    }
    // The first round has the aborts. In each other one two die, whatever they do then: a job has three attempts, so none can lose
    // all of them, however slow the machine is.
    for (std::size_t i = 0; i < futures.size(); ++i) {
      if (round > 0 && i % 4 == 0) {
        std::vector<pid_t> ids = service.processIds();
        while (ids.empty()) ids = service.processIds();
        kill(ids[static_cast<std::size_t>(round) % ids.size()], SIGKILL);
      }
      const auto outcome = futures[i].get();
      EXPECT_TRUE(outcome.kernel.ok());
      EXPECT_EQ(outcome.status, TrialStatus::Ok);
      ++arrived;
    }
  }
  EXPECT_EQ(arrived, 64);
  EXPECT_GE(service.statistics().workersDied, 2);
}

// A machine that is busy with others makes no worker late, but keeps nobody waiting for ever.
TEST(WorkerProcess, WaitingForACorePutsItsDeadlineOff) {
  using std::chrono::milliseconds;
  const auto given = [](const std::function<milliseconds(int call)>& waited) {
    int calls = 0;
    auto process = WorkerProcess::start({"/bin/sleep", "600"}, [&](pid_t) { return waited(calls++); });
    EXPECT_TRUE(process.ok());
    const auto reply = (*process)->exchange({"{}", {}}, std::chrono::steady_clock::now() + milliseconds(40), -1, {});
    EXPECT_EQ(reply.failure, WorkerProcess::Failure::Deadline);
    return reply.how;
  };
  const auto about = [](const std::string& how, int ms) {  // the deadline was set a little before it is counted from
    return how == "no answer within " + std::to_string(ms) + " ms" || how == "no answer within " + std::to_string(ms - 1) + " ms";
  };
  std::string how = given([](int) { return milliseconds(7); });
  EXPECT_TRUE(about(how, 40)) << how;
  how = given([](int call) { return milliseconds(call == 0 ? 7 : 37); });
  EXPECT_TRUE(about(how, 70)) << how;
  how = given([](int call) { return milliseconds(100 * call); });
  EXPECT_TRUE(about(how, 240)) << how;
}

// A schedule whose compiler hangs, so that only the kills end it: they are nobody's fault but the killer's.
TEST(CompileService, KillsByOthersCountForNoSchedule) {
  CompileService service(options(1));
  auto asked = job({schedule({{"compile", "hang"}}), schedule({{"safe", 1}})});
  asked.deadline = std::chrono::minutes(10);
  asked.forgivenKills = 4;
  auto future = service.compile(std::move(asked));
  pid_t last = 0;
  while (future.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    const std::vector<pid_t> ids = service.processIds();
    if (!ids.empty() && ids[0] != last) kill(last = ids[0], SIGKILL);
  }
  const auto outcome = future.get();
  EXPECT_FALSE(outcome.kernel.ok());
  EXPECT_TRUE(outcome.outside);
  EXPECT_FALSE(outcome.died);
  EXPECT_EQ(outcome.status, TrialStatus::Ok);
  EXPECT_TRUE(service.compile(job({schedule({{"n", 1}})})).get().kernel.ok());
}

TEST(CompileService, AStopEndsQueuedJobsAndTheServiceEndsTheRest) {
  std::vector<std::future<CompileOutcome>> futures;
  std::stop_source stop;
  {
    CompileService service(options(1));
    auto hanging = job({schedule({{"compile", "hang"}})});
    futures.push_back(service.compile(std::move(hanging)));
    auto queued = job({schedule({{"n", 1}})});
    queued.stop = stop.get_token();
    futures.push_back(service.compile(std::move(queued)));
    futures.push_back(service.compile(job({schedule({{"n", 2}})})));
    stop.request_stop();
  }
  for (auto& future : futures) EXPECT_TRUE(future.get().cancelled);
}

TEST(CompileService, AStoppedJobInTheQueueWaitsForNoHangingWorker) {
  CompileService service(options(2));  // the first takes no background work
  auto hanging = job({schedule({{"compile", "hang"}})});
  hanging.deadline = std::chrono::hours(1);
  hanging.priority = CompilePriority::Background;
  auto never = service.compile(std::move(hanging));
  std::stop_source stop;
  auto queued = job({schedule({{"n", 1}})});
  queued.stop = stop.get_token();
  queued.priority = CompilePriority::Background;
  auto future = service.compile(std::move(queued));
  stop.request_stop();
  EXPECT_TRUE(future.get().cancelled);
  EXPECT_EQ(never.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
}

TEST(CompileService, AStopKillsARunningJobAfterItsGrace) {
  CompileService service(options(1));
  std::stop_source stop;
  auto hanging = job({schedule({{"compile", "hang"}})});
  hanging.stop = stop.get_token();
  auto future = service.compile(std::move(hanging));
  stop.request_stop();
  const auto outcome = future.get();
  EXPECT_TRUE(outcome.cancelled);
  EXPECT_EQ(service.statistics().deadlinesPassed, 0);
}

TEST(CompileService, WorkersDieWithTheirParent) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    CompileService service(options(2));
    // Both have answered, so both live.
    service.compile(job({schedule({{"n", 1}})})).get();
    std::vector<pid_t> ids;
    while (ids.size() < 2) ids = service.processIds();
    if (write(ends[1], ids.data(), 2 * sizeof(pid_t)) < 0) _exit(1);
    for (;;) pause();
  }
  pid_t workers[2];
  ASSERT_EQ(read(ends[0], workers, sizeof workers), static_cast<ssize_t>(sizeof workers));
  kill(parent, SIGKILL);
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
  for (const pid_t worker : workers) EXPECT_EQ(waitpid(worker, nullptr, 0), worker);
  close(ends[0]);
  close(ends[1]);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// ---------------------------------------------------------------- the measuring worker

class MeasureServiceTest : public ::testing::Test {
 protected:
  MeasureServiceTest() : m_compile(options(1)), m_measure(measureOptions()) {}

  MeasureService::Options measureOptions() const {
    MeasureService::Options o;
    o.backend = "fake";
    o.device = "fake";
    o.command.arguments = {kWorker};
    o.leaseDirectory = m_folder.path("lease");
    return o;
  }

  std::shared_ptr<const KernelObject> kernel(nlohmann::json knobs) {
    auto outcome = m_compile.compile(job({schedule(std::move(knobs))})).get();
    EXPECT_TRUE(outcome.kernel.ok());
    return std::make_shared<const KernelObject>(std::move(*outcome.kernel));
  }

  MeasureJob jobOf(std::shared_ptr<const KernelObject> candidate, std::shared_ptr<const KernelObject> incumbent = nullptr) {
    const CompileJob source = job({});
    MeasureJob made;
    made.subgraph = source.subgraph;
    made.hash = source.hash;
    made.candidate = std::move(candidate);
    made.incumbent = std::move(incumbent);
    return made;
  }

  MeasureOutcome measure(MeasureJob asked) { return m_measure.measure(std::move(asked)).get(); }

  fakes::Folder m_folder;
  CompileService m_compile;
  MeasureService m_measure;
};

TEST_F(MeasureServiceTest, ARightKernelPassesTheGateAndIsTimed) {
  const auto outcome = measure(jobOf(kernel({{"spin_us", 200}})));
  EXPECT_EQ(outcome.status, TrialStatus::Ok) << outcome.reason;
  EXPECT_TRUE(outcome.gate.passed);
  EXPECT_GE(outcome.gate.comparedOutputs, 30);
  EXPECT_EQ(outcome.timing.runs, 3);
  EXPECT_GE(outcome.timing.median, 200);
  EXPECT_GT(outcome.deviceSeconds, 0);
}

TEST_F(MeasureServiceTest, AWrongKernelIsNeverTimed) {
  for (const char* how : {"wrong", "last", "partial", "overrun"}) {
    const auto outcome = measure(jobOf(kernel({{"run", how}})));
    EXPECT_EQ(outcome.status, TrialStatus::Wrong) << how;
    EXPECT_FALSE(outcome.gate.passed);
    EXPECT_FALSE(outcome.reason.empty());
    EXPECT_EQ(outcome.timing.runs, 0);
  }
  EXPECT_EQ(measure(jobOf(kernel({{"run", "partial"}}))).reason, "it left Z[5, 4] unwritten");
  EXPECT_EQ(measure(jobOf(kernel({{"run", "overrun"}}))).reason, "it wrote behind the end of Z");
}

TEST_F(MeasureServiceTest, AWorkerWithoutMemorySaysSoAndGoesOn) {
  const auto outcome = measure(jobOf(kernel({{"run", "memory"}})));
  EXPECT_EQ(outcome.status, TrialStatus::Crashed);
  EXPECT_TRUE(outcome.lacksMemory);
  EXPECT_EQ(outcome.reason.find("there is not enough memory to check it"), 0u) << outcome.reason;
  EXPECT_FALSE(measure(jobOf(kernel({{"run", "ok"}}))).lacksMemory);
  EXPECT_EQ(m_measure.statistics().workersDied, 0);
}

TEST_F(MeasureServiceTest, SlowCandidatesAreDroppedEarlyAndFasterOnesTakeSevenPairs) {
  const auto incumbent = kernel({{"spin_us", 1000}});
  const auto slow = measure(jobOf(kernel({{"spin_us", 9000}}), incumbent));
  EXPECT_EQ(slow.status, TrialStatus::Slow) << slow.reason;
  EXPECT_EQ(slow.timing.runs, 1);
  const auto slower = measure(jobOf(kernel({{"spin_us", 1800}}), incumbent));
  EXPECT_EQ(slower.status, TrialStatus::Slow) << slower.reason;
  EXPECT_EQ(slower.timing.runs, 3);
  const auto faster = measure(jobOf(kernel({{"spin_us", 100}}), incumbent));
  EXPECT_EQ(faster.status, TrialStatus::Ok);
  EXPECT_GE(faster.pairs.size(), 7u);
  EXPECT_EQ(judge(faster.pairs).decision, PairedVerdict::Decision::Accept);
}

TEST_F(MeasureServiceTest, KernelsThatCrashHangOrFailEndTheirTrialAlone) {
  const auto crashed = measure(jobOf(kernel({{"run", "crash"}})));
  EXPECT_EQ(crashed.status, TrialStatus::Crashed);
  EXPECT_NE(crashed.reason.find("signal 6"), std::string::npos) << crashed.reason;
  auto hanging = jobOf(kernel({{"run", "hang"}}));
  hanging.deadline = std::chrono::milliseconds(300);
  EXPECT_EQ(measure(std::move(hanging)).status, TrialStatus::Killed);
  const auto failed = measure(jobOf(kernel({{"run", "fail"}})));
  EXPECT_EQ(failed.status, TrialStatus::Wrong);
  EXPECT_EQ(failed.reason, "the driver refuses");
  EXPECT_EQ(measure(jobOf(kernel({{"run", "ok"}}))).status, TrialStatus::Ok);
  EXPECT_EQ(m_measure.statistics().workersStarted, 3);
}

TEST_F(MeasureServiceTest, AnUnknownBackEndIsASentence) {
  auto o = measureOptions();
  o.backend = "cuda";
  MeasureService service(o);
  const auto outcome = service.measure(jobOf(kernel({{"n", 1}}))).get();
  EXPECT_EQ(outcome.status, TrialStatus::Crashed);
  EXPECT_EQ(outcome.reason, "this process has no back end cuda");
}

}  // namespace
}  // namespace nf
