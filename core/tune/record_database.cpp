// SPDX-License-Identifier: Apache-2.0
#include "core/tune/record_database.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <sstream>

#include <sqlite3.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

namespace nf {
namespace {

constexpr int kVersion = 2;              // PRAGMA user_version
constexpr int kBusyMilliseconds = 2000;  // that another program may keep the file to itself

constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS workload (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  kind TEXT NOT NULL,
  sizes TEXT NOT NULL,
  best INTEGER,
  UNIQUE (hash, fingerprint));
CREATE INDEX IF NOT EXISTS workload_kind ON workload (kind, fingerprint);
CREATE TABLE IF NOT EXISTS trial (
  id INTEGER PRIMARY KEY,
  workload INTEGER NOT NULL REFERENCES workload (id),
  schedule TEXT NOT NULL,
  status TEXT NOT NULL,
  median_us REAL NOT NULL DEFAULT 0,
  spread_us REAL NOT NULL DEFAULT 0,
  runs INTEGER NOT NULL DEFAULT 0,
  UNIQUE (workload, schedule));
CREATE TABLE IF NOT EXISTS lineage (
  trial INTEGER PRIMARY KEY REFERENCES trial (id),
  round INTEGER NOT NULL,
  parents TEXT NOT NULL,
  how TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS first_kernel (
  workload INTEGER PRIMARY KEY REFERENCES workload (id),
  trial INTEGER NOT NULL REFERENCES trial (id),
  median_us REAL NOT NULL,
  spread_us REAL NOT NULL,
  runs INTEGER NOT NULL,
  quick INTEGER NOT NULL);  -- 2: quick, and the trial of its schedule has a time of its own since
CREATE TABLE IF NOT EXISTS kernel_verdict (
  kernel TEXT NOT NULL,
  parts TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  reverted INTEGER NOT NULL,
  fused_us REAL NOT NULL,
  fused_spread_us REAL NOT NULL,
  split_us REAL NOT NULL,
  split_spread_us REAL NOT NULL,
  saved_us REAL NOT NULL,
  saved_low_us REAL NOT NULL,
  saved_high_us REAL NOT NULL,
  pairs INTEGER NOT NULL,
  fused_kernels INTEGER NOT NULL,
  split_kernels INTEGER NOT NULL,
  PRIMARY KEY (kernel, parts, fingerprint));
DROP TABLE IF EXISTS fusion_verdict;  -- of earlier versions, without the parts
)";

struct Close {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};
using Connection = std::unique_ptr<sqlite3, Close>;

bool isLock(int code) { return (code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_LOCKED; }

std::string lockedText(const std::string& path) { return "the tuning records " + path + " are locked by another program"; }

Error failed(const std::string& what, sqlite3* db) {
  return {"tuning records", what + ": " + (db ? sqlite3_errmsg(db) : "out of memory"), {}, {}};
}

// One prepared statement, parameters in order.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) : m_db(db) {
    sqlite3_stmt* s = nullptr;
    m_code = sqlite3_prepare_v2(db, sql, -1, &s, nullptr);
    m_statement.reset(s);
  }
  Statement& bind(const std::string& text) {
    sqlite3_bind_text(m_statement.get(), ++m_at, text.c_str(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& bind(double value) { return sqlite3_bind_double(m_statement.get(), ++m_at, value), *this; }
  Statement& bind(std::int64_t value) { return sqlite3_bind_int64(m_statement.get(), ++m_at, value), *this; }
  bool row() {
    if (m_code == SQLITE_OK || m_code == SQLITE_ROW) m_code = sqlite3_step(m_statement.get());
    return m_code == SQLITE_ROW;
  }
  Result<Unit> run(const char* what) {
    while (row()) {}
    if (m_code != SQLITE_DONE) return failed(what, m_db);
    return Unit{};
  }
  std::string text(int column) const {
    const auto* t = reinterpret_cast<const char*>(sqlite3_column_text(m_statement.get(), column));
    return t ? t : "";
  }
  double real(int column) const { return sqlite3_column_double(m_statement.get(), column); }
  std::int64_t integer(int column) const { return sqlite3_column_int64(m_statement.get(), column); }
  int code() const { return m_code; }

 private:
  sqlite3* m_db;
  std::unique_ptr<sqlite3_stmt, Close> m_statement;
  int m_code = SQLITE_OK, m_at = 0;
};

}  // namespace

std::string foreignRecordTable(sqlite3* database) {
  constexpr std::pair<const char*, const char*> kColumns[] = {
      {"workload", "SELECT id, hash, fingerprint, kind, sizes, best FROM workload"},
      {"trial", "SELECT id, workload, schedule, status, median_us, spread_us, runs FROM trial"},
      {"lineage", "SELECT trial, round, parents, how FROM lineage"},
      {"first_kernel", "SELECT workload, trial, median_us, spread_us, runs, quick FROM first_kernel"},
      {"kernel_verdict",
       "SELECT kernel, parts, fingerprint, reverted, fused_us, fused_spread_us, split_us, split_spread_us, saved_us, saved_low_us, "
       "saved_high_us, pairs, fused_kernels, split_kernels FROM kernel_verdict"}};
  for (const auto& [table, columns] : kColumns) {
    Statement there(database, "SELECT 1 FROM sqlite_master WHERE name = ?");
    if (there.bind(std::string(table)).row() && Statement(database, columns).code() == SQLITE_ERROR) return table;
  }
  return {};
}

namespace {

// Opens and checks. An error here means: this file is no use as it is. `busy`: only the world was in the way, a lock or a full disk.
Result<Connection> openChecked(const std::string& path, bool& busy) {
  sqlite3* raw = nullptr;
  // What the world does to a sound file says nothing against it: a full disk, a broken one, a read-only one, no memory.
  const auto excused = [](int result) {
    switch (result & 0xff) {
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
      case SQLITE_FULL:
      case SQLITE_IOERR:
      case SQLITE_CANTOPEN:
      case SQLITE_READONLY:
      case SQLITE_PERM:
      case SQLITE_NOMEM: return true;
      default: return false;
    }
  };
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
  Connection db(raw);
  busy = excused(code);
  if (code != SQLITE_OK) return failed("cannot open " + path, raw);
  sqlite3_busy_timeout(raw, kBusyMilliseconds);
  const auto execute = [&](const char* sql) {
    const int result = sqlite3_exec(raw, sql, nullptr, nullptr, nullptr);
    busy = busy || excused(result);
    return result == SQLITE_OK;
  };
  const auto cannot = [&](const char* what) {
    if (isLock(sqlite3_errcode(raw))) return Error{"tuning records", lockedText(path), {}, {}};
    return failed(std::string("cannot ") + what + " " + path, raw);
  };
  if (!execute("PRAGMA journal_mode = WAL") || !execute("PRAGMA synchronous = NORMAL")) return cannot("use");
  {
    Statement version(raw, "PRAGMA user_version");
    if (!version.row()) {
      busy = busy || excused(sqlite3_errcode(raw));
      return cannot("read");
    }
    const std::int64_t found = version.integer(0);
    if (found != 0 && found != kVersion) return Error{"tuning records", path + " is of version " + std::to_string(found), {}, {}};
  }
  {
    Statement check(raw, "PRAGMA quick_check(1)");
    const bool read = check.row();
    if (!read) busy = busy || excused(sqlite3_errcode(raw));
    if (!read || check.text(0) != "ok") return Error{"tuning records", path + " is damaged", {}, {}};
  }
  if (const std::string table = foreignRecordTable(raw); !table.empty())
    return Error{"tuning records", path + " is another program's: its table " + table + " has other columns", {}, {}};
  // What is there needs no lock: another program may be writing, for however long.
  {
    Statement tables(
        raw,
        "SELECT count(*) FROM sqlite_master WHERE name IN ('workload', 'workload_kind', 'trial', 'lineage', 'first_kernel', "
        "'kernel_verdict')");
    if (tables.row() && tables.integer(0) == 6) return db;
  }
  const std::string stamp = "PRAGMA user_version = " + std::to_string(kVersion);
  if (!execute("BEGIN IMMEDIATE") || !execute(kTables) || !execute(stamp.c_str()) || !execute("COMMIT")) return cannot("prepare");
  return db;
}

// PATH.damaged-N with its journal files. The new name; empty: it cannot be moved.
std::string moveAside(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (int n = 1; n < 1000; ++n) {
    const std::string to = path + ".damaged-" + std::to_string(n);
    if (fs::exists(to, error)) continue;
    fs::rename(path, to, error);
    if (error) return {};
    for (const char* suffix : {"-wal", "-shm"}) fs::remove(path + suffix, error);
    return to;
  }
  return {};
}

std::string sizesText(const WorkloadTraits& traits) { return nlohmann::json(traits.sizes).dump(); }

// Root mean square over the common part; sizes that only one has count as different by one.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  const std::size_t most = std::max(a.size(), b.size()), least = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < least; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  sum += static_cast<double>(most - least);
  return std::sqrt(sum / std::max<double>(static_cast<double>(most), 1));
}

std::optional<Hash> hashOf(const std::string& hex) {
  if (hex.size() != 32 || hex.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
  return Hash{std::stoull(hex.substr(16), nullptr, 16), std::stoull(hex.substr(0, 16), nullptr, 16)};
}

// Hashes with a space between.
std::string textOf(const std::vector<Hash>& hashes) {
  std::string text;
  for (const Hash& hash : hashes) text += (text.empty() ? "" : " ") + hash.hex();
  return text;
}

std::optional<std::vector<Hash>> hashesOf(const std::string& text) {
  std::vector<Hash> hashes;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto hash = hashOf(word);
    if (!hash) return std::nullopt;
    hashes.push_back(*hash);
  }
  return hashes;
}

std::optional<TuningRecord> recordFrom(const Statement& row) {
  // hash, fingerprint, schedule, status, median, spread, runs
  auto schedule = Schedule::parse(row.text(2));
  const auto workload = hashOf(row.text(0));
  if (!schedule || !workload) return std::nullopt;
  TuningRecord record;
  record.workload = *workload;
  record.fingerprint = row.text(1);
  record.schedule = std::move(*schedule);
  record.status = trialStatusNamed(row.text(3));
  record.timing = {row.real(4), row.real(5), static_cast<int>(row.integer(6))};
  return record;
}

}  // namespace

struct RecordDatabase::Impl {
  std::mutex mutex;
  Connection db;
  std::string path;
  std::atomic<bool> locked = false;

  // One wait is enough: until the file is free again nothing waits for it.
  void setLocked(bool now) {
    if (locked.exchange(now) != now) sqlite3_busy_timeout(db.get(), now ? 0 : kBusyMilliseconds);
  }
  Result<Unit> write(Statement& statement, const char* what) {
    auto written = statement.run(what);
    setLocked(isLock(statement.code()));
    if (locked) return Error{"tuning records", lockedText(path), {}, {}};
    return written;
  }
  // Reading goes on beside one who writes; it cannot where the file is another's alone.
  void readBy(const Statement& statement) {
    if (isLock(statement.code())) setLocked(true);
  }
};

RecordDatabase::RecordDatabase(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}
RecordDatabase::~RecordDatabase() = default;

std::string RecordDatabase::defaultPath() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (const std::string chosen = variable("NEOFLOW_RECORDS"); !chosen.empty()) return chosen;
  std::string data = variable("XDG_DATA_HOME");
  if (data.empty()) {
    const std::string home = variable("HOME");
    data = home.empty() ? "/tmp/neoflow-" + std::to_string(getuid()) : home + "/.local/share";
  }
  return data + "/neoflow/records.sqlite";
}

Result<std::unique_ptr<RecordDatabase>> RecordDatabase::open(const std::string& path, std::string* message) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  bool busy = false;
  auto db = openChecked(path, busy);
  if (!db) {
    if (busy || !std::filesystem::is_regular_file(path, error)) return db.error();
    const Error why = db.error();
    const std::string aside = moveAside(path);
    if (aside.empty()) return why;
    if (message)
      *message = "The tuning records could not be used (" + why.message + (why.detail.empty() ? "" : ": " + why.detail) +
                 "); they are kept as " + aside + ", and tuning starts afresh.";
    db = openChecked(path, busy);
    if (!db) return db.error();
  }
  auto impl = std::make_unique<Impl>();
  impl->db = std::move(*db);
  impl->path = path;
  return std::unique_ptr<RecordDatabase>(new RecordDatabase(std::move(impl)));
}

std::string RecordDatabase::trouble() const {
  return m_impl->locked ? "While " + lockedText(m_impl->path) + " nothing that is measured is kept there." : std::string();
}

WorkloadTraits traitsOf(const Program& program, const std::string& kind) {
  double flops = 1, inputs = 1, outputs = 1;
  for (std::size_t i = 0; i < program.operators.size(); ++i) flops += static_cast<double>(flopsOf(program, OperatorId(i)));
  const std::vector<OperatorId> writer = producers(program);
  for (std::size_t t = 0; t < program.tensors.size(); ++t)
    if (!writer[t].valid()) inputs += static_cast<double>(program.tensors[t].bytes());
  for (const Output& output : program.outputs) outputs += static_cast<double>(program[output.tensor].bytes());
  WorkloadTraits traits{kind, {std::log2(flops), std::log2(inputs), std::log2(outputs)}};
  if (!program.operators.empty())
    for (const Axis& axis : program.operators.back().axes) traits.sizes.push_back(std::log2(static_cast<double>(axis.extent)));
  return traits;
}

Result<Unit> RecordDatabase::begin(const Hash& workload, const std::string& fingerprint, const Schedule& schedule,
                                   const WorkloadTraits& traits) {
  const std::lock_guard lock(m_impl->mutex);
  sqlite3* db = m_impl->db.get();
  Statement first(db, "INSERT INTO workload (hash, fingerprint, kind, sizes) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING");
  NF_TRY([[maybe_unused]] const Unit known,
         m_impl->write(first.bind(workload.hex()).bind(fingerprint).bind(traits.kind).bind(sizesText(traits)),
                       "cannot add a workload"));
  Statement second(db,
                   "INSERT INTO trial (workload, schedule, status) SELECT id, ?, 'started' FROM workload "
                   "WHERE hash = ? AND fingerprint = ? ON CONFLICT DO NOTHING");
  return m_impl->write(second.bind(schedule.text()).bind(workload.hex()).bind(fingerprint), "cannot write a trial ahead");
}

Result<Unit> RecordDatabase::finish(const Hash& workload, const std::string& fingerprint, const Schedule& schedule,
                                    TrialStatus status, const Timing& timing, Timed timed) {
  const std::lock_guard lock(m_impl->mutex);
  Statement update(m_impl->db.get(),
                   "UPDATE trial SET status = ?, median_us = ?, spread_us = ?, runs = ? WHERE schedule = ? AND workload = "
                   "(SELECT id FROM workload WHERE hash = ? AND fingerprint = ?) AND (? OR status = 'started' OR (? AND EXISTS "
                   "(SELECT 1 FROM first_kernel AS f WHERE f.trial = trial.id AND f.quick = 1 AND f.runs = trial.runs AND "
                   "f.median_us = trial.median_us)))");
  update.bind(std::string(name(status)))
      .bind(timing.median)
      .bind(timing.spread)
      .bind(std::int64_t{timing.runs})
      .bind(schedule.text())
      .bind(workload.hex())
      .bind(fingerprint)
      .bind(std::int64_t{timed == Timed::Trial || status != TrialStatus::Ok})
      .bind(std::int64_t{timed == Timed::Begun});
  NF_TRY(const Unit written, m_impl->write(update, "cannot record a trial"));
  if (timed == Timed::Quickly) return written;
  Statement own(m_impl->db.get(),
                "UPDATE first_kernel SET quick = 2 WHERE quick = 1 AND trial = (SELECT trial.id FROM trial JOIN workload ON "
                "workload.id = trial.workload WHERE schedule = ? AND hash = ? AND fingerprint = ?)");
  return m_impl->write(own.bind(schedule.text()).bind(workload.hex()).bind(fingerprint), "cannot record a trial");
}

Result<Unit> RecordDatabase::setFirst(const Hash& workload, const std::string& fingerprint, const FirstKernel& kernel) {
  const std::lock_guard lock(m_impl->mutex);
  Statement insert(m_impl->db.get(),
                   "INSERT INTO first_kernel (workload, trial, median_us, spread_us, runs, quick) "
                   "SELECT workload.id, trial.id, ?, ?, ?, ? FROM workload JOIN trial ON trial.workload = workload.id "
                   "WHERE schedule = ? AND hash = ? AND fingerprint = ? AND NOT EXISTS "
                   "(SELECT 1 FROM trial AS timed WHERE timed.workload = workload.id AND timed.status = 'ok') "
                   "ON CONFLICT DO NOTHING");
  insert.bind(kernel.timing.median)
      .bind(kernel.timing.spread)
      .bind(std::int64_t{kernel.timing.runs})
      .bind(std::int64_t{kernel.quick})
      .bind(kernel.schedule.text())
      .bind(workload.hex())
      .bind(fingerprint);
  return m_impl->write(insert, "cannot record a first kernel");
}

std::optional<RecordDatabase::FirstKernel> RecordDatabase::first(const Hash& workload, const std::string& fingerprint) {
  const std::lock_guard lock(m_impl->mutex);
  Statement query(m_impl->db.get(),
                  "SELECT schedule, first_kernel.median_us, first_kernel.spread_us, first_kernel.runs, quick, quick = 1 AND "
                  "first_kernel.runs = trial.runs AND first_kernel.median_us = trial.median_us FROM workload "
                  "JOIN first_kernel ON first_kernel.workload = workload.id JOIN trial ON trial.id = first_kernel.trial "
                  "WHERE hash = ? AND fingerprint = ?");
  if (query.bind(workload.hex()).bind(fingerprint).row()) {
    if (auto schedule = Schedule::parse(query.text(0)))
      return FirstKernel{std::move(*schedule),
                         {query.real(1), query.real(2), static_cast<int>(query.integer(3))},
                         query.integer(4) != 0,
                         query.integer(5) != 0};
  }
  m_impl->readBy(query);
  return std::nullopt;
}

Result<Unit> RecordDatabase::setLineage(const Hash& workload, const std::string& fingerprint, const Schedule& schedule,
                                        std::int64_t round, const std::vector<std::string>& parents, const std::string& how) {
  const std::lock_guard lock(m_impl->mutex);
  Statement insert(m_impl->db.get(),
                   "INSERT INTO lineage (trial, round, parents, how) SELECT trial.id, ?, ?, ? FROM workload JOIN trial ON "
                   "trial.workload = workload.id WHERE schedule = ? AND hash = ? AND fingerprint = ? ON CONFLICT DO NOTHING");
  insert.bind(round)
      .bind(nlohmann::json(parents).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
      .bind(how)
      .bind(schedule.text())
      .bind(workload.hex())
      .bind(fingerprint);
  return m_impl->write(insert, "cannot record a lineage");
}

Result<Unit> RecordDatabase::withdraw(const Hash& workload, const std::string& fingerprint, const Schedule& schedule) {
  const std::lock_guard lock(m_impl->mutex);
  Statement remove(m_impl->db.get(),
                   "DELETE FROM trial WHERE status = 'started' AND schedule = ? AND workload = "
                   "(SELECT id FROM workload WHERE hash = ? AND fingerprint = ?)");
  return m_impl->write(remove.bind(schedule.text()).bind(workload.hex()).bind(fingerprint), "cannot withdraw a trial");
}

Result<Unit> RecordDatabase::setBest(const Hash& workload, const std::string& fingerprint, const Schedule& schedule) {
  const std::lock_guard lock(m_impl->mutex);
  Statement update(m_impl->db.get(),
                   "UPDATE workload SET best = (SELECT id FROM trial WHERE workload = workload.id AND schedule = ?) "
                   "WHERE hash = ? AND fingerprint = ?");
  return m_impl->write(update.bind(schedule.text()).bind(workload.hex()).bind(fingerprint), "cannot record the best schedule");
}

Result<Unit> RecordDatabase::setFusion(const std::string& fingerprint, const FusionRecord& record) {
  const std::lock_guard lock(m_impl->mutex);
  Statement insert(
      m_impl->db.get(),
      "INSERT OR REPLACE INTO kernel_verdict (kernel, parts, fingerprint, reverted, fused_us, fused_spread_us, split_us, "
      "split_spread_us, saved_us, saved_low_us, saved_high_us, pairs, fused_kernels, split_kernels) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const FusionMeasurement& m = record.measurement;
  insert.bind(record.kernel.kernel.hex())
      .bind(textOf(record.kernel.parts))
      .bind(fingerprint)
      .bind(std::int64_t{record.reverted})
      .bind(m.fused)
      .bind(m.fusedSpread)
      .bind(m.split)
      .bind(m.splitSpread)
      .bind(m.saved)
      .bind(m.savedLow)
      .bind(m.savedHigh)
      .bind(m.pairs)
      .bind(m.fusedKernels)
      .bind(m.splitKernels);
  return m_impl->write(insert, "cannot record a fusion");
}

std::vector<RecordDatabase::FusionRecord> RecordDatabase::fusions(const std::string& fingerprint) {
  const std::lock_guard lock(m_impl->mutex);
  Statement query(
      m_impl->db.get(),
      "SELECT kernel, parts, reverted, fused_us, fused_spread_us, split_us, split_spread_us, saved_us, saved_low_us, "
      "saved_high_us, pairs, fused_kernels, split_kernels FROM kernel_verdict WHERE fingerprint = ? ORDER BY kernel, parts");
  query.bind(fingerprint);
  std::vector<FusionRecord> records;
  while (query.row()) {
    const auto kernel = hashOf(query.text(0));
    auto parts = hashesOf(query.text(1));
    if (!kernel || !parts) continue;
    records.push_back({{*kernel, std::move(*parts)},
                       query.integer(2) != 0,
                       {query.real(3), query.real(4), query.real(5), query.real(6), query.integer(10), query.real(7), query.real(8),
                        query.real(9), query.integer(11), query.integer(12)}});
  }
  m_impl->readBy(query);
  return records;
}

std::optional<TuningRecord> RecordDatabase::best(const Hash& workload, const std::string& fingerprint) {
  const std::lock_guard lock(m_impl->mutex);
  Statement query(m_impl->db.get(),
                  "SELECT hash, fingerprint, schedule, status, median_us, spread_us, runs FROM workload "
                  "JOIN trial ON trial.id = workload.best WHERE hash = ? AND fingerprint = ? AND status = 'ok'");
  if (query.bind(workload.hex()).bind(fingerprint).row()) return recordFrom(query);
  m_impl->readBy(query);
  return std::nullopt;
}

std::vector<TuningRecord> RecordDatabase::all(const Hash& workload, const std::string& fingerprint) {
  const std::lock_guard lock(m_impl->mutex);
  Statement query(m_impl->db.get(),
                  "SELECT hash, fingerprint, schedule, status, median_us, spread_us, runs, round, parents, how FROM workload "
                  "JOIN trial ON trial.workload = workload.id LEFT JOIN lineage ON lineage.trial = trial.id "
                  "WHERE hash = ? AND fingerprint = ? ORDER BY trial.id");
  query.bind(workload.hex()).bind(fingerprint);
  std::vector<TuningRecord> records;
  while (query.row())
    if (auto record = recordFrom(query)) {
      record->round = query.integer(7);
      const auto parents = nlohmann::json::parse(query.text(8), nullptr, false);
      if (parents.is_array())
        for (const auto& parent : parents)
          if (parent.is_string()) record->parents.push_back(parent.get<std::string>());
      record->how = query.text(9);
      records.push_back(std::move(*record));
    }
  m_impl->readBy(query);
  return records;
}

std::vector<TuningRecord> RecordDatabase::nearest(const Hash& workload, const std::string& fingerprint,
                                                  const WorkloadTraits& traits, std::size_t atMost) {
  const std::lock_guard lock(m_impl->mutex);
  Statement query(m_impl->db.get(),
                  "SELECT hash, fingerprint, schedule, status, median_us, spread_us, runs, sizes FROM workload "
                  "JOIN trial ON trial.id = workload.best WHERE kind = ? AND fingerprint = ? AND hash <> ? AND status = 'ok' "
                  "ORDER BY workload.id DESC LIMIT 1000");
  query.bind(traits.kind).bind(fingerprint).bind(workload.hex());
  std::vector<std::pair<double, TuningRecord>> found;
  while (query.row()) {
    const auto sizes = nlohmann::json::parse(query.text(7), nullptr, false);
    std::vector<double> values;
    if (sizes.is_array())
      for (const auto& v : sizes)
        if (v.is_number()) values.push_back(v.get<double>());
    if (auto record = recordFrom(query)) found.emplace_back(distance(values, traits.sizes), std::move(*record));
  }
  m_impl->readBy(query);
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TuningRecord> records;
  for (auto& [d, record] : found)
    if (records.size() < atMost) records.push_back(std::move(record));
  return records;
}

}  // namespace nf
