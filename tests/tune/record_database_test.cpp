// SPDX-License-Identifier: Apache-2.0
#include "core/tune/record_database.h"

#include <gtest/gtest.h>

#include <sqlite3.h>
#include <sys/resource.h>
#include <csignal>
#include <fstream>
#include <thread>

#include "tests/tune/fakes.h"

namespace nf {
namespace {

constexpr Hash kWork{11, 22}, kOther{33, 44};
const std::string kTarget = "EPYC 9R14, LLVM 19.1.7, generator 1";
const WorkloadTraits kTraits{"fake", {20, 10, 10}};

Schedule tile(int n) { return fakes::schedule({{"tile", n}}); }

class RecordDatabaseTest : public ::testing::Test {
 protected:
  std::unique_ptr<RecordDatabase> open(std::string* message = nullptr) {
    auto database = RecordDatabase::open(m_path, message);
    EXPECT_TRUE(database.ok()) << (database ? "" : database.error().message + database.error().detail);
    return std::move(*database);
  }
  fakes::Folder m_folder;
  std::string m_path = m_folder.path("home/neoflow/records.sqlite");
};

TEST_F(RecordDatabaseTest, WhatIsFinishedIsThereForTheNextProgram) {
  {
    const auto records = open();
    ASSERT_TRUE(records->begin(kWork, kTarget, tile(1), kTraits));
    ASSERT_TRUE(records->finish(kWork, kTarget, tile(1), TrialStatus::Ok, {12.5, 0.25, 7}));
    ASSERT_TRUE(records->begin(kWork, kTarget, tile(2), kTraits));
    ASSERT_TRUE(records->finish(kWork, kTarget, tile(2), TrialStatus::Wrong, {}));
    ASSERT_TRUE(records->setBest(kWork, kTarget, tile(1)));
  }
  const auto records = open();
  const auto all = records->all(kWork, kTarget);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].workload, kWork);
  EXPECT_EQ(all[0].fingerprint, kTarget);
  EXPECT_EQ(all[0].schedule, tile(1));
  EXPECT_EQ(all[0].status, TrialStatus::Ok);
  EXPECT_DOUBLE_EQ(all[0].timing.median, 12.5);
  EXPECT_DOUBLE_EQ(all[0].timing.spread, 0.25);
  EXPECT_EQ(all[0].timing.runs, 7);
  EXPECT_EQ(all[1].status, TrialStatus::Wrong);
  ASSERT_TRUE(records->best(kWork, kTarget));
  EXPECT_EQ(records->best(kWork, kTarget)->schedule, tile(1));
  EXPECT_FALSE(records->best(kWork, "another machine"));
  EXPECT_FALSE(records->best(kOther, kTarget));
}

TEST_F(RecordDatabaseTest, HowAScheduleCameAboutIsKnownToTheNextProgram) {
  {
    const auto records = open();
    for (const int n : {1, 2}) {
      ASSERT_TRUE(records->begin(kWork, kTarget, tile(n), kTraits));
      ASSERT_TRUE(records->finish(kWork, kTarget, tile(n), TrialStatus::Ok, {12.5, 0.25, 7}));
    }
    ASSERT_TRUE(records->setLineage(kWork, kTarget, tile(2), 3, {tile(1).text()}, "tile: 1 to 2"));
    ASSERT_TRUE(records->setLineage(kWork, kTarget, tile(2), 0, {}, "first")) << "it is tried again";
  }
  const auto all = open()->all(kWork, kTarget);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].round, 0);
  EXPECT_EQ(all[0].how, "");
  EXPECT_EQ(all[1].round, 3);
  EXPECT_EQ(all[1].parents, std::vector<std::string>{tile(1).text()});
  EXPECT_EQ(all[1].how, "tile: 1 to 2");
}

TEST_F(RecordDatabaseTest, TheFirstKernelStaysTheFirst) {
  const auto records = open();
  EXPECT_FALSE(records->first(kWork, kTarget));
  records->begin(kWork, kTarget, tile(1), kTraits).value();
  records->setFirst(kWork, kTarget, {tile(1), {9, 1, 7}, true}).value();
  records->finish(kWork, kTarget, tile(1), TrialStatus::Ok, {9, 1, 7}, RecordDatabase::Timed::Quickly).value();
  EXPECT_DOUBLE_EQ(records->all(kWork, kTarget)[0].timing.median, 9) << "nothing else was known of its schedule";
  records->finish(kWork, kTarget, tile(1), TrialStatus::Ok, {6, 1, 7}, RecordDatabase::Timed::Quickly).value();
  EXPECT_DOUBLE_EQ(records->all(kWork, kTarget)[0].timing.median, 9) << "of the same code";
  EXPECT_TRUE(records->first(kWork, kTarget)->standsIn);
  records->finish(kWork, kTarget, tile(1), TrialStatus::Ok, {5, 1, 7}, RecordDatabase::Timed::Begun).value();
  EXPECT_DOUBLE_EQ(records->all(kWork, kTarget)[0].timing.median, 5) << "what stood in for it gives way";
  for (const auto timed : {RecordDatabase::Timed::Quickly, RecordDatabase::Timed::Begun})
    records->finish(kWork, kTarget, tile(1), TrialStatus::Ok, {8, 1, 7}, timed).value();
  EXPECT_DOUBLE_EQ(records->all(kWork, kTarget)[0].timing.median, 5) << "what it was timed by stays";
  records->finish(kWork, kTarget, tile(1), TrialStatus::Ok, {4, 1, 7}).value();
  EXPECT_DOUBLE_EQ(records->all(kWork, kTarget)[0].timing.median, 4);
  records->begin(kWork, kTarget, tile(2), kTraits).value();
  records->setFirst(kWork, kTarget, {tile(2), {3, 1, 7}, false}).value();
  const auto first = open()->first(kWork, kTarget);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->schedule, tile(1));
  EXPECT_DOUBLE_EQ(first->timing.median, 9);
  EXPECT_TRUE(first->quick);
  EXPECT_FALSE(first->standsIn);
  // The full compilation may take as long as the quick one, to the digit.
  const Hash even = Hasher().add("even").finish();
  records->begin(even, kTarget, tile(1), kTraits).value();
  records->setFirst(even, kTarget, {tile(1), {9, 1, 7}, true}).value();
  records->finish(even, kTarget, tile(1), TrialStatus::Ok, {9, 1, 7}, RecordDatabase::Timed::Quickly).value();
  EXPECT_TRUE(records->first(even, kTarget)->standsIn);
  records->finish(even, kTarget, tile(1), TrialStatus::Ok, {9, 1, 7}, RecordDatabase::Timed::Begun).value();
  EXPECT_FALSE(records->first(even, kTarget)->standsIn);
  // Where kernels were timed before anything was said of a first one, none of a later run is it.
  records->begin(kOther, kTarget, tile(1), kTraits).value();
  records->finish(kOther, kTarget, tile(1), TrialStatus::Ok, {5, 1, 7}).value();
  records->begin(kOther, kTarget, tile(2), kTraits).value();
  records->setFirst(kOther, kTarget, {tile(2), {3, 1, 7}, false}).value();
  EXPECT_FALSE(records->first(kOther, kTarget));
}

TEST_F(RecordDatabaseTest, WhatFusionLostIsKnownToTheNextProgram) {
  const FusionMeasurement slower{12, 0.5, 9, 0.25, 9, -3, -3.5, -2.5, 4, 5}, faster{3, 0.1, 4, 0.1, 7};
  {
    const auto records = open();
    ASSERT_TRUE(records->setFusion(kTarget, {{kWork, {kOther, kWork}}, false, faster}));
    ASSERT_TRUE(records->setFusion(kTarget, {{kWork, {kOther, kWork}}, true, slower}));  // the last word
    ASSERT_TRUE(records->setFusion(kTarget, {{kWork, {kOther}}, false, faster}));        // of other parts
    ASSERT_TRUE(records->setFusion(kTarget, {{kOther, {}}, false, faster}));
    ASSERT_TRUE(records->setFusion("another machine", {{kOther, {}}, true, slower}));
  }
  const auto found = open()->fusions(kTarget);
  ASSERT_EQ(found.size(), 3u);
  const auto of = [&](const JudgedKernel& kernel) {
    return *std::ranges::find(found, kernel, &RecordDatabase::FusionRecord::kernel);
  };
  EXPECT_TRUE(of({kWork, {kOther, kWork}}).reverted);
  EXPECT_EQ(of({kWork, {kOther, kWork}}).measurement, slower);
  EXPECT_FALSE(of({kWork, {kOther}}).reverted);
  EXPECT_FALSE(of({kOther, {}}).reverted);
}

TEST_F(RecordDatabaseTest, AStartedTrialSurvivesTheProgramThatDied) {
  open()->begin(kWork, kTarget, tile(1), kTraits).value();
  const auto records = open();
  ASSERT_EQ(records->all(kWork, kTarget).size(), 1u);
  EXPECT_FALSE(records->all(kWork, kTarget)[0].status);
  EXPECT_TRUE(records->withdraw(kWork, kTarget, tile(1)));
  EXPECT_TRUE(records->all(kWork, kTarget).empty());
}

TEST_F(RecordDatabaseTest, BeginningAgainLosesNothing) {
  const auto records = open();
  records->begin(kWork, kTarget, tile(1), kTraits).value();
  records->finish(kWork, kTarget, tile(1), TrialStatus::Ok, {5, 1, 7}).value();
  records->setBest(kWork, kTarget, tile(1)).value();
  records->begin(kWork, kTarget, tile(1), kTraits).value();
  records->withdraw(kWork, kTarget, tile(1)).value();
  ASSERT_TRUE(records->best(kWork, kTarget));
  EXPECT_EQ(records->best(kWork, kTarget)->timing.median, 5);
}

TEST_F(RecordDatabaseTest, NearestComesFirstAndOnlyOfItsKindAndTarget) {
  const auto records = open();
  const auto add = [&](Hash hash, const std::string& target, int n, const WorkloadTraits& traits) {
    records->begin(hash, target, tile(n), traits).value();
    records->finish(hash, target, tile(n), TrialStatus::Ok, {1, 0, 7}).value();
    records->setBest(hash, target, tile(n)).value();
  };
  add({1, 0}, kTarget, 1, {"fake", {30, 10, 10}});
  add({2, 0}, kTarget, 2, {"fake", {21, 10, 10}});
  add({3, 0}, kTarget, 3, {"reduction", {20, 10, 10}});
  add({4, 0}, "elsewhere", 4, {"fake", {20, 10, 10}});
  add(kWork, kTarget, 5, kTraits);
  const auto nearest = records->nearest(kWork, kTarget, kTraits, 4);
  ASSERT_EQ(nearest.size(), 2u);
  EXPECT_EQ(nearest[0].schedule, tile(2));
  EXPECT_EQ(nearest[1].schedule, tile(1));
}

TEST_F(RecordDatabaseTest, TwoProgramsShareIt) {
  const auto a = open(), b = open();
  {
    std::vector<std::jthread> writers;
    for (RecordDatabase* database : {a.get(), b.get()})
      writers.emplace_back([database, first = database == a.get()] {
        for (int i = 0; i < 60; ++i) {
          const Schedule s = tile(first ? i : 30 + i);
          EXPECT_TRUE(database->begin(kWork, kTarget, s, kTraits));
          EXPECT_TRUE(database->finish(kWork, kTarget, s, TrialStatus::Ok, {1.0 + i, 0, 3}));
        }
      });
  }
  EXPECT_EQ(a->all(kWork, kTarget).size(), 90u);
  EXPECT_EQ(b->all(kWork, kTarget).size(), 90u);
}

// Another program's connection, with what it has begun.
struct OtherProgram {
  explicit OtherProgram(const std::string& path) { EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK); }
  ~OtherProgram() { sqlite3_close(db); }
  void execute(const char* sql) const { EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sql; }
  sqlite3* db = nullptr;
};

TEST_F(RecordDatabaseTest, WhileAnotherProgramWritesOneReadsAndGoesOnWithoutKeeping) {
  ASSERT_TRUE(open()->begin(kWork, kTarget, tile(1), kTraits));
  const OtherProgram other(m_path);
  other.execute("BEGIN IMMEDIATE");
  const auto records = open();
  EXPECT_EQ(records->trouble(), "");
  EXPECT_EQ(records->all(kWork, kTarget).size(), 1u);
  EXPECT_EQ(records->trouble(), "") << "one reads beside it";
  const auto refused = records->begin(kWork, kTarget, tile(2), kTraits);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the tuning records " + m_path + " are locked by another program");
  EXPECT_EQ(records->trouble(),
            "While the tuning records " + m_path + " are locked by another program nothing that is measured is kept there.");
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(records->finish(kWork, kTarget, tile(1), TrialStatus::Ok, {1, 0, 3}));
  EXPECT_EQ(records->all(kWork, kTarget).size(), 1u);
  other.execute("COMMIT");
  EXPECT_TRUE(records->begin(kWork, kTarget, tile(2), kTraits));
  EXPECT_EQ(records->trouble(), "");
  EXPECT_EQ(records->all(kWork, kTarget).size(), 2u);
}

TEST_F(RecordDatabaseTest, AFileThatAnotherProgramHasToItselfIsSaidAndStaysInPlace) {
  ASSERT_TRUE(open()->begin(kWork, kTarget, tile(1), kTraits));
  {
    const OtherProgram other(m_path);
    other.execute("PRAGMA locking_mode = EXCLUSIVE");
    other.execute("BEGIN EXCLUSIVE");
    std::string message;
    const auto refused = RecordDatabase::open(m_path, &message);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "the tuning records " + m_path + " are locked by another program");
    EXPECT_EQ(message, "");
    other.execute("ROLLBACK");
  }
  EXPECT_EQ(open()->all(kWork, kTarget).size(), 1u);
}

TEST_F(RecordDatabaseTest, ADamagedFileIsMovedAsideWithAMessage) {
  open()->begin(kWork, kTarget, tile(1), kTraits).value();
  {
    std::fstream file(m_path, std::ios::in | std::ios::out | std::ios::binary);
    file << "this is not a database, it only looks like a file";
  }
  std::string message;
  const auto records = open(&message);
  EXPECT_NE(message.find(m_path + ".damaged-1"), std::string::npos) << message;
  EXPECT_TRUE(std::filesystem::exists(m_path + ".damaged-1"));
  EXPECT_TRUE(records->all(kWork, kTarget).empty());
  EXPECT_TRUE(records->begin(kWork, kTarget, tile(2), kTraits));
}

TEST_F(RecordDatabaseTest, AnotherProgramsTablesAreMovedAsideWithAMessage) {
  std::filesystem::create_directories(std::filesystem::path(m_path).parent_path());
  int aside = 0;
  for (const std::string table : {"workload", "trial", "lineage", "first_kernel", "kernel_verdict"}) {
    std::filesystem::remove(m_path);
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(m_path.c_str(), &other), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(other, ("CREATE TABLE " + table + " (name TEXT)").c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(other);
    std::string message;
    const auto records = open(&message);
    EXPECT_NE(message.find("another program's: its table " + table + " has other columns"), std::string::npos) << message;
    EXPECT_TRUE(std::filesystem::exists(m_path + ".damaged-" + std::to_string(++aside)));
    EXPECT_TRUE(records->begin(kWork, kTarget, tile(1), kTraits));
  }
}

// A file that cannot be written to now is no damaged file: it stays where it is.
TEST_F(RecordDatabaseTest, AFullDiskIsNoDamage) {
  {
    const auto records = open();
    ASSERT_TRUE(records->begin(kWork, kTarget, tile(1), kTraits));
  }
  std::string message;
  {
    // As a full disk has it: the file may not grow.
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = signal(SIGXFSZ, SIG_IGN);
    const rlimit none{0, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    const auto refused = RecordDatabase::open(m_path, &message);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    EXPECT_FALSE(refused.ok());
  }
  EXPECT_TRUE(message.empty()) << message;
  EXPECT_FALSE(std::filesystem::exists(m_path + ".damaged-1"));
  EXPECT_EQ(open()->all(kWork, kTarget).size(), 1u);
}

TEST_F(RecordDatabaseTest, RandomDamageIsNeverFatal) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::filesystem::remove_all(m_folder.path("home"));
    {
      const auto records = open();
      for (int i = 0; i < 40; ++i) records->begin(kWork, kTarget, tile(i), kTraits).value();
    }
    std::mt19937_64 rng(seed);
    {
      std::fstream file(m_path, std::ios::in | std::ios::out | std::ios::binary);
      const auto size = std::filesystem::file_size(m_path);
      for (int i = 0; i < 64; ++i) {
        file.seekp(static_cast<std::streamoff>(rng() % size));
        file.put(static_cast<char>(rng()));
      }
    }
    const auto records = open();
    records->all(kWork, kTarget);
    [[maybe_unused]] const auto written = records->begin(kOther, kTarget, tile(1), kTraits);
  }
}

TEST_F(RecordDatabaseTest, APlaceThatCannotBeWrittenIsAnError) {
  EXPECT_FALSE(RecordDatabase::open("/proc/nowhere/records.sqlite"));
  EXPECT_FALSE(RecordDatabase::open("/tmp"));
}

TEST_F(RecordDatabaseTest, ThePathFollowsTheEnvironment) {
  setenv("XDG_DATA_HOME", "/data", 1);
  unsetenv("NEOFLOW_RECORDS");
  EXPECT_EQ(RecordDatabase::defaultPath(), "/data/neoflow/records.sqlite");
  setenv("NEOFLOW_RECORDS", "/elsewhere.sqlite", 1);
  EXPECT_EQ(RecordDatabase::defaultPath(), "/elsewhere.sqlite");
  unsetenv("NEOFLOW_RECORDS");
  unsetenv("XDG_DATA_HOME");
}

}  // namespace
}  // namespace nf
