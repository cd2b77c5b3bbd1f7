// SPDX-License-Identifier: Apache-2.0
// The rules of the source tree: layers, licences, rooted includes, nothing of one machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = NF_SOURCE_DIR;

// The folders of core, bottom to top: a file may include what stands before its own folder, and its own folder.
constexpr std::array kCore = {"support",   "syntax", "document", "protocol", "ir",   "lang",    "autodiff",
                              "transform", "fusion", "schedule", "device",   "tune", "runtime", "session"};
// What the graphical program may include of core.
constexpr std::array kSeenByWidgets = {"support", "syntax", "document", "protocol"};

struct File {
  std::string path;  // from the root
  std::string text;

  bool under(std::string_view folder) const { return path.starts_with(folder); }
  bool isCpp() const { return path.ends_with(".cpp") || path.ends_with(".h") || path.ends_with(".def"); }
  bool isBuild() const { return path.ends_with("CMakeLists.txt") || path.ends_with(".cmake"); }
};

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Every file that a person wrote; data and pictures are left out.
const std::vector<File>& tree() {
  static const std::vector<File> files = [] {
    std::vector<File> found;
    const auto take = [&](const fs::path& path) { found.push_back({fs::relative(path, kRoot).generic_string(), read(path)}); };
    for (const char* folder : {"app", "core", "plugins", "widgets", "tests", "cmake", "resources", ".ci", "docs"}) {
      if (!fs::exists(kRoot / folder)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder))
        if (entry.is_regular_file()) take(entry.path());
    }
    for (const char* file : {"CMakeLists.txt", "run", "test"}) take(kRoot / file);
    std::sort(found.begin(), found.end(), [](const File& a, const File& b) { return a.path < b.path; });
    return found;
  }();
  return files;
}

struct Include {
  std::string name;
  bool angle = false;
  int line = 0;
};

std::vector<Include> includesOf(const File& file) {
  static const std::regex pattern(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> found;
  std::istringstream lines(file.text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number)
    if (std::smatch m; std::regex_search(line, m, pattern)) found.push_back({m[2], m[1] == "<", number});
  return found;
}

std::string folderOf(std::string_view path, std::string_view under) {
  path.remove_prefix(under.size());
  return std::string(path.substr(0, path.find('/')));
}

int layer(std::string_view folder) {
  const auto* at = std::find(kCore.begin(), kCore.end(), folder);
  return at == kCore.end() ? -1 : static_cast<int>(at - kCore.begin());
}

// Why `file` may not include the rooted path `name`; empty where it may.
std::string refusal(const File& file, const std::string& name) {
  const bool ofCore = name.starts_with("core/");
  const std::string target = ofCore ? folderOf(name, "core/") : "";
  if (ofCore && layer(target) < 0) return "no such layer";
  if (file.under("tests/")) return "";
  if (name.starts_with("tests/")) return "only tests include tests";
  if (file.under("core/")) {
    const std::string own = folderOf(file.path, "core/");
    if (!ofCore) return "core includes core alone";
    return layer(target) > layer(own) ? "core/" + own + " stands below it" : "";
  }
  if (file.under("plugins/")) {
    if (ofCore) return "";
    const std::string own = "plugins/" + folderOf(file.path, "plugins/") + "/";
    return name.starts_with(own) || name.starts_with("plugins/llvm/") ? "" : "a plugin includes core, plugins/llvm and itself";
  }
  if (file.under("widgets/") || file.under("app/workbench/")) {
    if (ofCore)
      return std::find(kSeenByWidgets.begin(), kSeenByWidgets.end(), target) != kSeenByWidgets.end()
                 ? ""
                 : "the graphical program sees structs alone";
    if (name.starts_with("widgets/")) return "";
    return file.under("app/workbench/") && name.starts_with("app/workbench/") ? "" : "neither widgets nor values";
  }
  if (file.under("app/neoflow/"))
    return ofCore || name.starts_with("plugins/") || name.starts_with("app/neoflow/") ? "" : "above or beside it";
  return "no rule for this folder";
}

bool isQt(const std::string& name) {
  static const std::regex pattern(R"(^(Q[A-Z]\w*(/\w+)?|Qt\w*/.*|Qsci/.*|qcustomplot\.h)$)");
  return std::regex_match(name, pattern);
}

TEST(House, IncludesAreRooted) {
  for (const File& file : tree()) {
    if (!file.isCpp()) continue;
    for (const Include& include : includesOf(file)) {
      if (include.angle || include.name.ends_with(".moc")) continue;
      EXPECT_TRUE(fs::exists(kRoot / include.name))
          << file.path << ":" << include.line << ": \"" << include.name << "\" is not a path from the root";
    }
  }
}

TEST(House, IncludesKeepTheLayers) {
  for (const File& file : tree()) {
    if (!file.isCpp()) continue;
    for (const Include& include : includesOf(file)) {
      if (include.angle || include.name.ends_with(".moc")) continue;
      const std::string why = refusal(file, include.name);
      EXPECT_TRUE(why.empty()) << file.path << ":" << include.line << ": \"" << include.name << "\": " << why;
    }
  }
}

TEST(House, ForeignHeadersStayInTheirPlaces) {
  for (const File& file : tree()) {
    if (!file.isCpp() || file.under("tests/")) continue;
    for (const Include& include : includesOf(file)) {
      if (!include.angle) continue;
      const std::string& name = include.name;
      const std::string where = file.path + ":" + std::to_string(include.line) + ": <" + name + ">";
      const bool graphical = file.under("widgets/") || file.under("app/workbench/");
      const bool device = name.starts_with("llvm") || name.starts_with("cuda") || name.starts_with("nvrtc") ||
                          name.starts_with("cupti") || name.starts_with("xgboost");
      const bool source = file.path.ends_with(".cpp");
      const bool doctor = file.path == "app/neoflow/doctor.cpp";  // it names the versions of all
      EXPECT_TRUE(!isQt(name) || graphical) << where << ": Qt and its friends are for the graphical program";
      EXPECT_TRUE(!device || file.under("plugins/")) << where << ": for plugins";
      EXPECT_TRUE(!name.starts_with("isl/") || doctor || file.path == "core/ir/integer_set.cpp")
          << where << ": the one wrapper of isl";
      EXPECT_TRUE(!name.starts_with("sqlite3") || doctor || (source && file.under("core/tune/")))
          << where << ": records alone, and in no header";
      EXPECT_TRUE(!name.starts_with("CLI/") || (source && file.under("app/neoflow/")))
          << where << ": the command line, and in no header";
    }
  }
}

TEST(House, CoreAndPluginsLinkNothingUnderTheGpl) {
  static const std::regex pattern(R"(\b(Qt6|QCustomPlot\w*|qscintilla\w*|nf_widgets\w*)\b)", std::regex::icase);
  for (const File& file : tree()) {
    if (!file.isBuild() || !(file.under("core/") || file.under("plugins/") || file.under("app/neoflow/"))) continue;
    std::smatch m;
    EXPECT_FALSE(std::regex_search(file.text, m, pattern)) << file.path << " names " << m.str();
  }
}

TEST(House, LicenceLineFirst) {
  for (const File& file : tree()) {
    const bool script = file.text.starts_with("#!");
    if (!file.isCpp() && !file.isBuild() && !script) continue;
    const bool gpl = file.isCpp() && (file.under("widgets/") || file.under("app/workbench/") || file.under("tests/widgets/") ||
                                      file.under("tests/workbench/"));
    std::istringstream lines(file.text);
    std::string line;
    std::getline(lines, line);
    if (script) std::getline(lines, line);
    const std::string wanted =
        std::string(file.isCpp() ? "//" : "#") + " SPDX-License-Identifier: " + (gpl ? "GPL-3.0-or-later" : "Apache-2.0");
    EXPECT_EQ(line, wanted) << file.path;
  }
}

TEST(House, NothingOfOneMachine) {
  // Split, so that this file holds to its own rule. Tests may make up a path of some user.
  static const std::regex pattern(
      "(^|[^\\w.])/(ho"
      "me|ro"
      "ot|wo"
      "rk|Us"
      "ers)/[\\w.]");
  static const std::regex inTests(
      "(^|[^\\w.])/(ro"
      "ot|wo"
      "rk)/[\\w.]");
  for (const File& file : tree()) {
    if (file.under("docs/") && !file.path.ends_with(".md")) continue;
    if (file.text.find('\0') != std::string::npos) continue;
    std::istringstream lines(file.text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      if (line.size() > 2000) continue;  // data
      EXPECT_FALSE(std::regex_search(line, file.under("tests/") ? inTests : pattern)) << file.path << ":" << number << ": " << line;
    }
  }
}

TEST(House, TopLevelHoldsWhatItShould) {
  static const std::vector<std::string> allowed = {
      "CMakeLists.txt", "CMakePresets.json", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSES", "run",  "test", "app",
      "core",           "widgets",           "plugins",   "resources",    "tests",           "examples", "docs", "build"};
  for (const auto& entry : fs::directory_iterator(kRoot)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".") || name == "cmake") continue;
    EXPECT_NE(std::find(allowed.begin(), allowed.end(), name), allowed.end()) << name;
  }
}

// The rules themselves, on files that break them.
TEST(House, RulesRefuse) {
  const auto file = [](std::string path) { return File{std::move(path), ""}; };
  EXPECT_NE(refusal(file("core/ir/program.h"), "core/fusion/fuse.h"), "");
  EXPECT_NE(refusal(file("core/ir/program.h"), "plugins/cpu/emit.h"), "");
  EXPECT_NE(refusal(file("core/ir/program.h"), "core/nowhere/x.h"), "");
  EXPECT_NE(refusal(file("widgets/graph.h"), "core/ir/program.h"), "");
  EXPECT_NE(refusal(file("plugins/cpu/emit.h"), "plugins/cuda/emit.h"), "");
  EXPECT_NE(refusal(file("plugins/llvm/arithmetic.h"), "plugins/cpu/emit.h"), "");
  EXPECT_EQ(refusal(file("plugins/cpu/emitter.h"), "plugins/llvm/arithmetic.h"), "");
  EXPECT_NE(refusal(file("app/neoflow/main.cpp"), "widgets/graph.h"), "");
  EXPECT_EQ(refusal(file("core/fusion/fuse.cpp"), "core/ir/program.h"), "");
  EXPECT_EQ(refusal(file("widgets/graph.h"), "core/protocol/values.h"), "");
  EXPECT_TRUE(isQt("QWidget") && isQt("QtCore/QString") && isQt("Qsci/qsciscintilla.h") && isQt("qcustomplot.h"));
  EXPECT_FALSE(isQt("queue"));
}

}  // namespace
