// SPDX-License-Identifier: Apache-2.0
// `neoflow profile --trace` as scripts meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/tune/fakes.h"

namespace nf {
namespace {

using nlohmann::json;

constexpr const char* kNet =
    "input X[4, 3] = normal(0, 1)\nparam W[2, 3] = normal(0, 1)\nY[b, n] = sum[k] X[b, k] * W[n, k]\n"
    "loss L = mean[b, n] Y[b, n]^2\ntrain L { steps = 3; optimizer = sgd(lr=0.1); seed = 1 }\n";

class ProfileTrace : public testing::Test {
 protected:
  ProfileTrace() { std::ofstream(m_folder.path("net.nf")) << kNet; }
  int run(const std::string& arguments) {
    const std::string command = "cd '" + m_folder.path(".") + "' && HOME='" + m_folder.path("home") + "' NEOFLOW_RECORDS='" +
                                m_folder.path("records.sqlite") + "' '" NF_NEOFLOW "' " + arguments + " >'" + m_folder.path("out") +
                                "' 2>'" + m_folder.path("err") + "'";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string text(const std::string& name) const {
    std::ifstream in(m_folder.path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fakes::Folder m_folder;
};

TEST_F(ProfileTrace, TheTraceOfACpuStepAddsUpToItsProfile) {
  for (const std::string device : {"cpu", "reference"}) {
    SCOPED_TRACE(device);
    ASSERT_EQ(run("profile net.nf --device " + device + " --repeats 1 --trace t.json --json"), 0) << text("err");
    const json profile = json::parse(text("out")), trace = json::parse(text("t.json"));
    EXPECT_EQ(profile["trace"]["steps"], 1);
    EXPECT_EQ(profile["trace"]["steps_left_out"], 0);
    EXPECT_EQ(profile["clock"]["of"], "host");
    std::map<std::string, double> us, calls;
    std::size_t steps = 0;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      if (event["cat"] == "step") ++steps;
      if (!event["cat"].get<std::string>().starts_with("kernel,")) continue;
      us[event["args"]["subgraph"]] += event["dur"].get<double>();
      ++calls[event["args"]["subgraph"]];
    }
    EXPECT_EQ(steps, 1u);
    EXPECT_EQ(us.size(), profile["kernels"].size());
    for (const json& kernel : profile["kernels"]) {
      const std::string subgraph = kernel["subgraph"];
      EXPECT_EQ(calls[subgraph], kernel["calls"].get<double>()) << kernel;
      // A kernel's figure is the median of its calls in single precision.
      if (calls[subgraph] != 1) continue;
      EXPECT_NEAR(us[subgraph], kernel["us"].get<double>(), 1e-3 + 1e-6 * us[subgraph]) << kernel;
    }
  }
}

TEST_F(ProfileTrace, AFileThatCannotBeWrittenIsTold) {
  EXPECT_EQ(run("profile net.nf --device reference --repeats 1 --trace none/t.json"), 3);
  EXPECT_THAT(text("err"), testing::HasSubstr("none/t.json"));
}

TEST_F(ProfileTrace, ADeviceWithoutCountersHasNone) {
  ASSERT_EQ(run("profile net.nf --device reference --repeats 1 --json"), 0) << text("err");
  const json profile = json::parse(text("out"));
  EXPECT_EQ(profile["counters_missing"], "");
  EXPECT_FALSE(profile.contains("trace"));
  for (const json& kernel : profile["kernels"]) EXPECT_FALSE(kernel.contains("counters"));
}

}  // namespace
}  // namespace nf
