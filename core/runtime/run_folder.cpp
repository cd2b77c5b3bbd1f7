// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/runtime/data_bytes.h"
#include "core/runtime/data_file.h"

namespace nf {
namespace {

constexpr std::string_view kMagic = "NFSTEPS1";
constexpr std::size_t kChunkRows = 256;
constexpr std::size_t kEventBytes = 4096;                    // that wait for more to be written with
constexpr std::size_t kMostWaiting = std::size_t{64} << 20;  // on a full disk

struct Column {
  std::string_view name;
  std::int64_t StepRow::*integer = nullptr;
  double StepRow::*real = nullptr;
};
constexpr std::array<Column, 6> kColumns{{{"step", &StepRow::step, nullptr},
                                          {"seconds", nullptr, &StepRow::seconds},
                                          {"ms", nullptr, &StepRow::milliseconds},
                                          {"waited_ms", nullptr, &StepRow::waited},
                                          {"loss", nullptr, &StepRow::loss},
                                          {"steps", &StepRow::steps, nullptr}}};

}  // namespace

Result<Unit> makeFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code code, ignored;
  fs::create_directories(folder, code);
  if (!code) return Unit{};
  std::string why = code.message();
  for (fs::path at = folder; !at.empty(); at = at.parent_path()) {
    if (fs::exists(at, ignored) && !fs::is_directory(at, ignored)) why = at.string() + " is a file";
    if (at == at.parent_path()) break;
  }
  return Error{"save", "The folder " + folder + " cannot be made: " + why + ".", {}, {}};
}

Result<std::unique_ptr<RunFolder>> RunFolder::create(const std::string& root) {
  NF_TRY([[maybe_unused]] const Unit made, makeFolder(root));
  std::error_code code;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y-%m-%d-%H%M%S", &local);
  std::unique_ptr<RunFolder> self(new RunFolder);
  for (int n = 1; n < 10000; ++n) {
    self->m_path = root + "/" + stamp + (n > 1 ? "-" + std::to_string(n) : "");
    if (std::filesystem::create_directory(self->m_path, code)) break;
    if (code) return Error{"save", "The folder " + self->m_path + " cannot be made: " + code.message() + ".", {}, {}};
  }
  for (const auto& [file, name] :
       {std::pair(&self->m_steps, "steps.bin"), {&self->m_events, "events.jsonl"}, {&self->m_swaps, "swaps.jsonl"}})
    if (!file->open(self->file(name)))
      return Error{"save", "Nothing can be written to " + self->m_path + ": " + std::strerror(errno) + ".", {}, {}};
  std::string header(kMagic);
  appendLittleEndian(header, kColumns.size(), 4);
  for (const Column& c : kColumns) {
    appendLittleEndian(header, c.name.size(), 4);
    header += c.name;
    appendLittleEndian(header, c.integer ? 0 : 1, 4);
  }
  self->m_steps.add(header);
  self->m_steps.write();
  self->m_rows.reserve(kChunkRows);
  return self;
}

RunFolder::~RunFolder() { flush(); }

RunFolder::File::~File() {
  if (descriptor >= 0) ::close(descriptor);
}

bool RunFolder::File::open(const std::string& path) {
  descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  return descriptor >= 0;
}

void RunFolder::File::add(std::string_view bytes) {
  if (lost) return;
  if (error != 0 && waiting.size() + bytes.size() > kMostWaiting) {
    lost = true;
    waiting.clear();
    waiting.shrink_to_fit();
    return;
  }
  waiting += bytes;
}

// What is written of a record before the disk is full stays: readers leave out a cut end, and the rest follows when there is room.
void RunFolder::File::write() {
  if (lost) return;
  std::size_t done = 0;
  error = 0;
  while (done < waiting.size()) {
    const ssize_t count = ::write(descriptor, waiting.data() + done, waiting.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      error = count < 0 ? errno : EIO;
      break;
    }
    done += static_cast<std::size_t>(count);
  }
  waiting.erase(0, done);
}

void RunFolder::addStep(const StepRow& row) {
  m_rows.push_back(row);
  if (m_rows.size() >= kChunkRows) flush();
}

void RunFolder::addEvent(std::string_view line) {
  m_events.add(line);
  m_events.add("\n");
  if (m_events.waiting.size() >= kEventBytes) m_events.write();
}

void RunFolder::addSwaps(std::string_view lines) {
  m_swaps.add(lines);
  m_swaps.write();
}

void RunFolder::flush() {
  if (!m_rows.empty()) {
    std::string chunk;
    appendLittleEndian(chunk, m_rows.size(), 4);
    for (const Column& c : kColumns)
      for (const StepRow& row : m_rows) {
        std::uint64_t bits;
        if (c.integer) bits = static_cast<std::uint64_t>(row.*c.integer);
        else std::memcpy(&bits, &(row.*c.real), sizeof bits);
        appendLittleEndian(chunk, bits, 8);
      }
    m_steps.add(chunk);
    m_rows.clear();
  }
  for (File* file : {&m_steps, &m_events, &m_swaps}) file->write();
}

std::string RunFolder::failure() const {
  std::string names;
  int error = 0;
  for (const auto& [file, name] : {std::pair(&m_steps, "steps.bin"), {&m_events, "events.jsonl"}, {&m_swaps, "swaps.jsonl"}})
    if (file->error != 0 || file->lost) {
      names += (names.empty() ? "" : ", ") + std::string(name);
      error = file->error != 0 ? file->error : ENOSPC;
    }
  if (names.empty()) return {};
  return "The results in " + m_path + " are not complete (" + names + "): " + std::strerror(error) + ".";
}

namespace {

bool isOf(const std::filesystem::path& run, const TrainPlace& place) {
  const auto text = readFile((run / "run.json").string());
  const auto json = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  if (!json.is_object() || !json.contains("train") || !json["train"].is_string()) return false;
  const auto loss = json["train"].get<std::string>();
  if (loss == place.loss) return !json.contains("of_loss") || json["of_loss"] == place.ofLoss;
  return !place.program.empty() && json.contains("program") && json["program"] == place.program &&
         std::find(place.losses.begin(), place.losses.end(), loss) == place.losses.end();
}

}  // namespace

Result<std::string> newestRun(const std::string& root, const std::optional<TrainPlace>& of) {
  namespace fs = std::filesystem;
  std::error_code code;
  std::vector<fs::path> runs;  // folders are named by the time they were made at
  for (const fs::directory_entry& run : fs::directory_iterator(root, code)) {
    std::error_code none;
    if (fs::exists(run.path() / "run.json", none)) runs.push_back(run.path());
  }
  std::sort(runs.rbegin(), runs.rend());
  const auto newest = std::find_if(runs.begin(), runs.end(), [&](const fs::path& run) { return !of || isOf(run, *of); });
  if (newest != runs.end()) return newest->string();
  return Error{"resume",
               runs.empty() ? "This notebook has not been trained yet." : "This `train` of " + of->loss + " has no run yet.",
               {},
               {}};
}

Result<std::string> newestCheckpoint(const std::string& root, const std::optional<TrainPlace>& of) {
  namespace fs = std::filesystem;
  std::error_code code;
  NF_TRY(const fs::path newest, newestRun(root, of));
  const std::string checkpoint = (newest / "checkpoint.safetensors").string();
  if (fs::exists(checkpoint, code)) return checkpoint;
  // One that was itself resumed and had no time for a checkpoint goes on from where it began.
  if (const auto text = readFile((newest / "run.json").string())) {
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    const auto at = nlohmann::json::json_pointer("/settings/resume");
    const std::string from = json.contains(at) && json[at].is_string() ? json[at].get<std::string>() : std::string();
    if (!from.empty() && fs::exists(from, code)) return from;
    // The runs of a notebook move with it.
    const fs::path beside = fs::path(root) / fs::path(from).parent_path().filename() / fs::path(from).filename();
    if (!from.empty() && fs::exists(beside, code)) return beside.string();
  }
  return Error{
      "resume",
      "The newest run, " + newest.filename().string() + ", left no checkpoint: train again, or name the folder of an older run.",
      {},
      {}};
}

Result<std::string> checkpointAt(const std::string& path, const std::optional<TrainPlace>& of) {
  namespace fs = std::filesystem;
  std::error_code code;
  if (!fs::is_directory(path, code)) return path;
  const std::string own = (fs::path(path) / "checkpoint.safetensors").string();
  if (fs::exists(own, code)) return own;
  if (fs::exists(fs::path(path) / "run.json", code)) return Error{"resume", "The run " + path + " left no checkpoint.", {}, {}};
  if (newestRun(path)) return newestCheckpoint(path, of);
  return Error{"resume", "There is no checkpoint.safetensors in the folder " + path + ".", {}, {}};
}

Result<std::vector<StepRow>> readSteps(const std::string& path) {
  NF_TRY(const std::string bytes, readFile(path));
  const Error damaged{"read", path + " is no file of steps, or a damaged one.", {}, {}};
  if (bytes.size() < 12 || bytes.compare(0, 8, kMagic) != 0) return damaged;
  std::size_t at = 12;
  std::vector<const Column*> columns;
  for (std::uint64_t c = littleEndian(bytes, 8, 4); c > 0; --c) {
    if (bytes.size() - at < 8) return damaged;
    const std::uint64_t length = littleEndian(bytes, at, 4);
    if (bytes.size() - at - 8 < length) return damaged;
    const std::string_view name = std::string_view(bytes).substr(at + 4, length);
    columns.push_back(nullptr);  // one that is not known is skipped
    for (const Column& known : kColumns)
      if (known.name == name) columns.back() = &known;
    at += 8 + length;
  }
  std::vector<StepRow> rows;
  while (bytes.size() - at >= 4) {
    const std::uint64_t count = littleEndian(bytes, at, 4);
    at += 4;
    if (columns.empty() || count > (bytes.size() - at) / (8 * columns.size())) break;
    const std::size_t first = rows.size();
    rows.resize(first + count);
    for (const Column* c : columns)
      for (std::uint64_t r = 0; r < count; ++r, at += 8) {
        if (!c) continue;
        const std::uint64_t bits = littleEndian(bytes, at, 8);
        if (c->integer) rows[first + r].*c->integer = static_cast<std::int64_t>(bits);
        else std::memcpy(&(rows[first + r].*c->real), &bits, sizeof bits);
      }
  }
  return rows;
}

}  // namespace nf
