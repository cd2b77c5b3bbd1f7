// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace nf::testing {

// Compares `text` with the file tests/PATH of the source tree. The test program run with --update rewrites the file instead.
inline void expectGolden(const std::string& path, const std::string& text) {
  const std::string file = std::string(NF_SOURCE_DIR) + "/tests/" + path;
  const auto arguments = ::testing::internal::GetArgvs();
  if (std::find(arguments.begin(), arguments.end(), "--update") != arguments.end()) {
    std::ofstream(file, std::ios::binary) << text;
    return;
  }
  std::ostringstream expected;
  expected << std::ifstream(file, std::ios::binary).rdbuf();
  EXPECT_EQ(text, expected.str()) << file << " differs; run the test program with --update and look at the change";
}

}  // namespace nf::testing
