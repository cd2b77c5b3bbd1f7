// SPDX-License-Identifier: Apache-2.0
// One mistake a file: tests/lang/golden/NAME.nf holds a notebook, a line "# ---- diagnostics" and what is said about it.
// NF_UPDATE_GOLDEN=1 rewrites what is said.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/ir/verify.h"
#include "core/lang/compile.h"

namespace nf {
namespace {

constexpr std::string_view kSeparator = "# ---- diagnostics\n";

std::string fileText(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> goldenFiles() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(NF_SOURCE_DIR "/tests/lang/golden")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string said(const CompiledNotebook& c) {
  std::string text;
  for (const Diagnostic& d : c.diagnostics) {
    text += "[" + d.code + "] " + render(d, c.sources);
    for (const DiagnosticFix& fix : d.fixes)
      text += "fix: " + fix.label + ": `" + std::string(c.sources.text(fix.span)) + "` becomes `" + fix.text + "`\n";
  }
  return text;
}

TEST(Golden, EachMistakeIsSaidAsWritten) {
  std::set<std::string> codes;
  const auto files = goldenFiles();
  EXPECT_GE(files.size(), 60u);
  for (const auto& path : files) {
    const std::string whole = fileText(path);
    const std::size_t at = whole.find(kSeparator);
    const std::string source = whole.substr(0, at);
    const std::string expected = at == std::string::npos ? "" : whole.substr(at + kSeparator.size());
    const CompiledNotebook c = compileNotebook({path.filename().string(), {}, source});
    const std::string actual = said(c);
    for (const Diagnostic& d : c.diagnostics) codes.insert(d.code);
    EXPECT_FALSE(c.diagnostics.empty()) << path;
    // What could be understood is a Program all the same.
    EXPECT_EQ(verify(c.program, Stage::Source), std::vector<std::string>{}) << path;
    if (std::getenv("NF_UPDATE_GOLDEN")) {
      std::ofstream out(path, std::ios::binary);
      out << source << kSeparator << actual;
      continue;
    }
    EXPECT_EQ(actual, expected) << path;
  }
  EXPECT_GE(codes.size(), 50u);
}

// Every fix that a diagnostic of one mistake offers makes that diagnostic go away.
TEST(Golden, FixesFix) {
  int fixes = 0;
  for (const auto& path : goldenFiles()) {
    const std::string whole = fileText(path);
    const std::string source = whole.substr(0, whole.find(kSeparator));
    const CompiledNotebook c = compileNotebook({"test.nf", {}, source});
    for (const Diagnostic& d : c.diagnostics)
      for (const DiagnosticFix& fix : d.fixes) {
        if (fix.span.source != c.notebook) continue;
        std::string fixed = source;
        fixed.replace(fix.span.begin, fix.span.length(), fix.text);
        const CompiledNotebook after = compileNotebook({"test.nf", {}, fixed});
        const bool still = std::any_of(after.diagnostics.begin(), after.diagnostics.end(), [&](const Diagnostic& e) {
          return e.code == d.code && e.message == d.message && e.span == d.span;
        });
        EXPECT_FALSE(still) << path << " " << fix.label << "\n" << fixed << render(after.diagnostics, after.sources);
        if (fix.label == "read 0 outside") {
          EXPECT_LT(after.diagnostics.size(), c.diagnostics.size()) << path << " makes another mistake\n"
                                                                    << fixed << render(after.diagnostics, after.sources);
        }
        ++fixes;
      }
  }
  EXPECT_GE(fixes, 15);
}

}  // namespace
}  // namespace nf
