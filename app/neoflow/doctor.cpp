// SPDX-License-Identifier: Apache-2.0
#include <isl/version.h>
#include <sqlite3.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/neoflow/commands.h"
#include "core/runtime/pipeline.h"
#include "core/support/scaled_text.h"
#include "core/tune/record_database.h"

namespace nf {

std::vector<std::pair<std::string, std::string>> versions() {
  std::string islVersion = isl_version();
  islVersion = islVersion.substr(0, islVersion.find_first_of("\n"));
  utsname system{};
  uname(&system);
  return {{"neoflow", NF_VERSION},          {"system", std::string(system.sysname) + " " + system.release + ", " + system.machine},
          {"compiler", __VERSION__},        {"isl", islVersion},
          {"sqlite", sqlite3_libversion()}, {"zlib", zlibVersion()}};
}

std::string programNamed(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string rest = path ? path : "";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string file = rest.substr(0, end) + "/" + name;
    if (end > 0 && access(file.c_str(), X_OK) == 0) return file;
    rest.erase(0, end + 1);
  }
  return {};
}

namespace {

// Whether a file in `folder` can grow: what access() allows, a full disk refuses. Empty: it can; else why not.
std::string whyNothingFits(const std::filesystem::path& folder) {
  std::string name = (folder / ".neoflow-probe-XXXXXX").string();
  const int file = mkstemp(name.data());
  if (file < 0) return std::strerror(errno);
  unlink(name.c_str());
  const std::vector<char> bytes(std::size_t{64} << 10, '\x5a');
  std::string why;
  for (std::size_t done = 0; done < bytes.size() && why.empty();) {
    const ssize_t n = write(file, bytes.data() + done, bytes.size() - done);
    if (n > 0) done += static_cast<std::size_t>(n);
    else if (n == 0 || errno != EINTR) why = n == 0 ? "nothing was written" : std::strerror(errno);
  }
  if (why.empty() && fsync(file) != 0 && errno != EINVAL && errno != EROFS) why = std::strerror(errno);
  close(file);
  return why;
}

// What a run can do with the records: tried, with nothing left behind.
std::string stateOfRecords(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string without = ": runs go on without, and what they measure is not kept";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    fs::path folder = fs::absolute(path, ignored).parent_path();
    while (!fs::exists(folder, ignored) && folder != folder.parent_path()) folder = folder.parent_path();
    if (!fs::is_directory(folder, ignored)) return "can't be made in " + folder.string() + without;
    const std::string why = whyNothingFits(folder);
    return why.empty() ? "made by the first run" : "can't be made in " + folder.string() + " (" + why + ")" + without;
  }
  if (!fs::is_regular_file(path, ignored)) return "is no file" + without;
  if (access(path.c_str(), R_OK | W_OK) != 0) return "can't be read and written" + without;
  sqlite3* database = nullptr;
  int code = sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE, nullptr);
  if (code == SQLITE_OK) code = sqlite3_exec(database, "BEGIN IMMEDIATE; ROLLBACK", nullptr, nullptr, nullptr);
  const std::string message = database ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  const std::string foreign = code == SQLITE_OK ? foreignRecordTable(database) : std::string();
  sqlite3_close(database);
  if (!foreign.empty())
    return "is another program's, its table " + foreign + " has other columns: the first run moves it aside and makes one";
  if (code == SQLITE_OK || code == SQLITE_BUSY) {
    const std::string why = whyNothingFits(fs::absolute(path, ignored).parent_path());
    return why.empty() ? "can be read and written" : "can't be written (" + why + ")" + without;
  }
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) return "is no database: the first run moves it aside and makes one";
  return "can't be opened (" + message + ")" + without;
}

// null: none is known.
nlohmann::json intervalOf(const Backend::Estimate& e) {
  if (e.samples <= 0) return nullptr;
  return {{"low", e.low}, {"high", e.high}, {"samples", e.samples}};
}

}  // namespace

std::string intervalsText(const Backend::About& about) {
  if (about.bandwidth.samples <= 0) return {};
  char line[200];
  std::snprintf(line, sizeof line, "95 %%: P_d %.1f to %.1f GB/s, P_c %.1f to %.1f GFLOP/s, L %s to %s, %d samples each",
                about.bandwidth.low / 1e9, about.bandwidth.high / 1e9, about.flopRate.low / 1e9, about.flopRate.high / 1e9,
                siText(about.launchSeconds.low, "s").c_str(), siText(about.launchSeconds.high, "s").c_str(),
                static_cast<int>(about.bandwidth.samples));
  return line;
}

nlohmann::json intervalsJson(const Backend::About& about) {
  return {{"P_d", intervalOf(about.bandwidth)}, {"P_c", intervalOf(about.flopRate)}, {"L", intervalOf(about.launchSeconds)}};
}

Backend::About measurementOf(const BackendRegistry& registry, const Target& target) {
  for (const BackendRegistry::Entry& entry : registry.entries()) {
    if (!entry.reason.empty() || entry.name != target.backend) continue;
    for (const std::string& name : entry.backend->deviceNames()) {
      Backend::About about = entry.backend->about(name, static_cast<int>(target.threads));
      // Another measurement may have taken its place meanwhile, and another device has its own.
      if (std::abs(about.bandwidth.value - target.peakBandwidth) <= 1e-6 * target.peakBandwidth) return about;
    }
  }
  return {};
}

int runDoctor(const BackendRegistry& registry, bool json) {
  using Json = nlohmann::json;
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto versions = nf::versions();
  Json plugins = Json::array(), devices = Json::array(), versionsJson = Json::object();
  for (const auto& [name, version] : versions) versionsJson[name] = version;
  std::string text = "Versions\n";
  for (const auto& [name, version] : versions)
    text += "  " + name + std::string(10 - std::min<std::size_t>(9, name.size()), ' ') + version + "\n";
  text += "\nPlugins\n";
  bool serving = false;
  for (const BackendRegistry::Entry& entry : registry.entries()) {
    const bool loaded = entry.reason.empty();
    serving |= loaded;
    plugins.push_back({{"name", entry.name}, {"loaded", loaded}, {"reason", entry.reason}});
    text += "  " + entry.name + "  " + (loaded ? "serves" : entry.reason) + "\n";
  }
  plugins.push_back({{"name", "reference"}, {"loaded", true}, {"reason", ""}});
  text += "  reference  serves (interpreter in double precision)\n\nDevices\n";
  for (const BackendRegistry::Entry& entry : registry.entries()) {
    if (!entry.reason.empty()) continue;
    for (const std::string& name : entry.backend->deviceNames()) {
      const auto target = entry.backend->target(name, threads);
      if (!target) {
        devices.push_back({{"name", name}, {"available", false}, {"reason", target.error().message}});
        text += "  " + name + "  " + target.error().message + "\n";
        continue;
      }
      const DeviceConstants c = deviceConstants(*target);
      const Backend::About about = entry.backend->about(name, threads);
      devices.push_back({{"name", name},
                         {"available", true},
                         {"fingerprint", target->fingerprint},
                         {"threads", target->threads},
                         {"vector_bytes", target->vectorBytes},
                         {"P_d", c.bandwidth},
                         {"P_c", c.flopRate},
                         {"L", c.launchSeconds},
                         {"intervals", intervalsJson(about)}});
      char line[200];
      std::snprintf(line, sizeof line, "  %s  %d threads, %d-bit vectors, P_d %.1f GB/s, P_c %.1f GFLOP/s, L %s\n", name.c_str(),
                    static_cast<int>(target->threads), static_cast<int>(target->vectorBytes * 8), c.bandwidth / 1e9,
                    c.flopRate / 1e9, siText(c.launchSeconds, "s").c_str());
      text += line;
      if (const std::string intervals = intervalsText(about); !intervals.empty()) text += "      " + intervals + "\n";
      text += "      " + target->fingerprint + "\n";
    }
  }
  // What commands need beside this program, and where it keeps what.
  const std::string dot = programNamed("dot"), records = RecordDatabase::defaultPath();
  const std::string recordsState = stateOfRecords(records);
  const Json tools =
      Json::array({{{"name", "dot"}, {"path", dot.empty() ? Json(nullptr) : Json(dot)}, {"needed_by", "export --to svg"}}});
  const Json files = Json::array({{{"name", "records"}, {"path", records}, {"state", recordsState}}});
  text += "\nTools\n  dot  " + (dot.empty() ? "is not there: `neoflow export --to svg` needs it (package graphviz)" : dot) + "\n";
  text += "\nFiles\n  tuning records  " + records + ", " + recordsState + "\n";
  if (json)
    std::cout
        << Json{{"plugins", plugins}, {"devices", devices}, {"versions", versionsJson}, {"tools", tools}, {"files", files}}.dump()
        << "\n";
  else std::cout << text;
  return serving ? kExitFine : kExitMachineLacks;
}

}  // namespace nf
