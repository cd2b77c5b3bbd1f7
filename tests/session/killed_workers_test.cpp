// SPDX-License-Identifier: Apache-2.0
// An engine whose workers abort and are killed while it trains: the same process goes on (docs/testing.md has it by hand).
#include <csignal>
#include <fstream>

#include "tests/session/engine_process.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

using namespace protocol;

constexpr const char* kNotebook = R"(
# %%
let B = 32
data D = digits
input X[B, 64] = batch D[:, 0..64] / 16
input y[B] : i32 = batch D[:, 64]
param W[16, 64] = normal(0, 0.1)
param V[10, 16] = normal(0, 0.1)
H[b, m] = relu(sum[k] X[b, k] * W[m, k])
Z[b, n] = sum[m] H[b, m] * V[n, m]
P[b, n] = exp(Z[b, n]) / (sum[m] exp(Z[b, m]))
loss L = mean[b, n] (P[b, n] - select(y[b] == n, 1, 0))^2
# %%
train L { epochs = 1; batch = 32; optimizer = adam(lr=1e-2); seed = 3 }
)";
constexpr std::uint32_t kTrainCell = 2;

// The engine tells its state every 50 ms: kills follow those, so that each worker lives 200 ms or so.
class Killer {
 public:
  static constexpr int kStatesApart = 4;
  Killer(const EngineProcess& engine, bool all) : m_engine(engine), m_all(all) {}
  void stateTold() {
    if (++m_states % kStatesApart != 0) return;
    const std::vector<pid_t> workers = m_engine.children();
    if (workers.empty()) return;
    ++m_rounds;
    if (!m_all) kill(workers[static_cast<std::size_t>(m_rounds) % workers.size()], SIGKILL);
    else
      for (const pid_t worker : workers) kill(worker, SIGKILL);
  }
  int rounds() const { return m_rounds; }

 private:
  const EngineProcess& m_engine;
  bool m_all;
  int m_states = 0, m_rounds = 0;
};

struct Way {
  const char* name;
  const char* mode;
  bool all;
};

class KilledWorkers : public ::testing::TestWithParam<Way> {};

TEST_P(KilledWorkers, TrainingStartsAndGoesOn) {
  const fakes::Folder folder;
  const std::string aborts = folder.path("aborts");
  std::ofstream(aborts) << 2;
  EngineProcess engine(folder.path(""), {{"NEOFLOW_ABORT_COMPILES", aborts}});
  engine.document(kNotebook);
  TrainRequest request;
  request.revision = 1;
  request.cell = kTrainCell;
  request.steps = 1'000'000'000;
  request.mode = GetParam().mode;
  const RequestId id = engine.newId();
  engine.send(request, id);
  Killer killer(engine, GetParam().all);
  // In static mode nothing stands in, and a machine that gives a worker no time in 200 ms makes nothing: there the killer rests until
  // training has begun.
  const bool rests = std::string(GetParam().mode) == "static";
  constexpr int kRoundsBefore = 5, kRoundsAfter = 5;
  int before = 0;
  std::int64_t first = -1, step = -1;
  while (killer.rounds() < before + kRoundsAfter || step < first + 3 || first < 0) {
    const Envelope e = engine.next();
    if (const auto* s = std::get_if<StepEvent>(&e.message)) {
      if (first < 0) {
        first = s->step;
        before = killer.rounds();
      }
      step = s->step;
    }
    if (const auto* failed = std::get_if<ErrorEvent>(&e.message)) FAIL() << failed->stage << ": " << failed->message;
    if (std::holds_alternative<RunState>(e.message) && (first >= 0 || !rests || killer.rounds() < kRoundsBefore))
      killer.stateTold();
  }
  EXPECT_EQ(kill(engine.pid(), 0), 0) << "the same process, to its regular end";
  // A worker that lived too short to be asked for a kernel has not aborted yet.
  for (int left = 2; left > 0; engine.next()) std::ifstream(aborts) >> left;
  engine.send(StopRequest{});
  engine.awaitThat([&](const Envelope& e) { return e.id == id && std::holds_alternative<Finished>(e.message); });
}

INSTANTIATE_TEST_SUITE_P(Ways, KilledWorkers,
                         ::testing::Values(Way{"DynamicOneByOne", "dynamic", false}, Way{"DynamicAll", "dynamic", true},
                                           Way{"StaticOneByOne", "static", false}, Way{"StaticAll", "static", true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace nf
