// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/tune/fakes.h"

namespace nf {

inline constexpr const char* kNet = R"(input X[4, 3] = normal(0, 1)
param W[2, 3] = normal(0, 1)
Y[b, n] = sum[k] X[b, k] * W[n, k]
loss L = mean[b, n] Y[b, n]^2
show Y
train L { steps = 3; optimizer = sgd(lr=0.1); seed = 1 }
)";

struct Outcome {
  int code = -1;
  std::string out, err;
};

// `neoflow` as a shell runs it, in a folder of its own.
class CommandLine : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(m_folder.path(name)) << text;
    return m_folder.path(name);
  }
  // Arguments as a shell takes them; `to`: where standard output goes instead; `before`: what the shell does first, "ulimit -f 1 &&".
  Outcome run(const std::string& arguments, const std::string& to = {}, const std::string& before = {}) {
    return shell("'" NF_NEOFLOW "' " + arguments, to, before);
  }
  Outcome shell(const std::string& line, const std::string& to = {}, const std::string& before = {}) {
    const std::string out = to.empty() ? m_folder.path("out") : to, err = m_folder.path("err");
    const std::string command = "cd '" + m_folder.path(".") + "' && " + before + " HOME='" + m_folder.path("home") +
                                "' NEOFLOW_RECORDS='" + m_folder.path("records.sqlite") + "' " + line + " >'" + out + "' 2>'" +
                                err + "'";
    const int status = std::system(command.c_str());
    const auto text = [](const std::string& path) {
      std::stringstream s;
      s << std::ifstream(path).rdbuf();
      return s.str();
    };
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, to.empty() ? text(out) : std::string(), text(err)};
  }
  fakes::Folder m_folder;
};

}  // namespace nf
