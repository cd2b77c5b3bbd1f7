// SPDX-License-Identifier: Apache-2.0
// Training while another program keeps the tuning records locked: it is said once, and steps go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sqlite3.h>

#include "core/runtime/device_context.h"
#include "core/runtime/train.h"
#include "plugins/cpu/plugin.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

using testing::HasSubstr;

constexpr const char* kNotebook = R"(# %%
param W[64, 64] = normal(0, 1)
A[i, j] = sum[k] W[i, k] * W[k, j]
loss L = mean[i, j] (A[i, j] - 1)^2
train L { steps = 1000000000; optimizer = sgd(lr=1e-9) }
)";

class LockedRecords : public ::testing::Test {
 protected:
  LockedRecords() {
    m_registry.add("cpu", neoflowPlugin);
    // A file of the right form.
    EXPECT_TRUE(RecordDatabase::open(m_path).ok());
    EXPECT_EQ(sqlite3_open(m_path.c_str(), &m_other), SQLITE_OK);
  }
  ~LockedRecords() override { sqlite3_close(m_other); }

  void hold(const char* sql) { ASSERT_EQ(sqlite3_exec(m_other, sql, nullptr, nullptr, nullptr), SQLITE_OK); }
  // Trains until `enough`, and what was warned of.
  std::vector<std::string> train(const std::string& mode, std::int64_t steps, bool untilWarned) {
    DeviceContextOptions o;
    o.device = "cpu";
    o.worker.arguments = {NF_NEOFLOW, "worker"};
    o.records = m_path;
    o.leaseDirectory = m_folder.path("lease");
    auto context = DeviceContext::open(m_registry, o);
    EXPECT_TRUE(context.ok());
    TrainOptions options;
    options.source = {"test.nf", "", kNotebook};
    options.mode = mode;
    options.steps = steps;
    options.outputRoot = m_folder.path("out");
    options.tuning.deviceShare = 1;
    std::vector<std::string> warnings;
    std::stop_source stop;
    TrainJob job(**context, std::move(options), [&](const protocol::Message& message) {
      if (const auto* w = std::get_if<protocol::WarningEvent>(&message)) {
        warnings.push_back(w->message);
      } else if (untilWarned && !warnings.empty() && std::holds_alternative<protocol::StepEvent>(message)) {
        stop.request_stop();
      }
    });
    const auto summary = job.run(stop.get_token());
    EXPECT_TRUE(summary.ok()) << (summary ? "" : summary.error().message);
    if (summary) {
      EXPECT_GT(summary->done.steps, 0);
      EXPECT_FALSE(summary->unsaved);
    }
    return warnings;
  }

  fakes::Folder m_folder;
  std::string m_path = m_folder.path("records.sqlite");
  BackendRegistry m_registry;
  sqlite3* m_other = nullptr;
};

TEST_F(LockedRecords, ATrainingGoesOnWithoutThemAndSaysSoOnce) {
  hold("BEGIN IMMEDIATE");
  EXPECT_THAT(train("dynamic", 1'000'000'000, true), testing::ElementsAre(HasSubstr("locked by another program")));
}

TEST_F(LockedRecords, AFileThatIsAnothersAloneIsSaidAtTheBeginning) {
  hold("PRAGMA locking_mode = EXCLUSIVE");
  hold("BEGIN EXCLUSIVE");
  EXPECT_THAT(train("static", 3, false), testing::ElementsAre(testing::AllOf(HasSubstr("No tuning records are read or kept"),
                                                                             HasSubstr("locked by another program"))));
}

}  // namespace
}  // namespace nf
