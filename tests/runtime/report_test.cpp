// SPDX-License-Identifier: Apache-2.0
// What the report of a run says of the events that the run kept.
#include "core/runtime/report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/protocol/latency.h"
#include "core/protocol/message.h"
#include "core/runtime/run_folder.h"
#include "tests/tune/fakes.h"

namespace nf {
namespace {

// By the samples that every view was told, not by steps that it was not.
TEST(Report, ItCrossesTheOtherSystemWhereTheCurvesDo) {
  const fakes::Folder folder;
  auto run = RunFolder::create(folder.path("out"));
  ASSERT_TRUE(run.ok()) << run.error().message;
  for (int i = 1; i <= 100; ++i) {
    StepRow row;
    row.step = i, row.milliseconds = 1, row.seconds = i * 1e-3;
    (*run)->addStep(row);
  }
  std::vector<protocol::StepTime> told;
  for (const auto& [step, ms, steps] : {std::tuple{40, 20.0, 40}, {100, 1.0, 60}}) {
    protocol::StepEvent e;
    e.step = step, e.ms = e.ms_min = e.ms_max = ms, e.steps = steps, e.loss = 1, e.seconds = step * 1e-3;
    (*run)->addEvent(protocol::encode(e));
    told.push_back({step, ms, steps});
  }
  (*run)->flush();
  std::ofstream((*run)->file("run.json")) << "{}";
  const auto against = protocol::againstPeer(told, 10.5);
  ASSERT_TRUE(against && against->from);
  ASSERT_EQ(*against->from, 41);
  const auto html = htmlReport((*run)->path(), {"Digits", 10.5, "PyTorch"});
  ASSERT_TRUE(html.ok()) << html.error().message;
  EXPECT_NE(html->find("from step 41 on"), std::string::npos);
}

// What is in use came by swaps: a fast trial that brought none is no gain.
TEST(Report, ItHasTheKernelsThatAreInUse) {
  const fakes::Folder folder;
  auto run = RunFolder::create(folder.path("out"));
  ASSERT_TRUE(run.ok()) << run.error().message;
  for (const auto& [subgraph, us] : {std::pair{"aa", 40.0}, {"aa", 25.0}, {"bb", 90.0}, {"bb", 60.0}, {"bb", 50.0}}) {
    protocol::TrialEvent e;
    e.subgraph = subgraph, e.name = subgraph, e.us = us;
    (*run)->addEvent(protocol::encode(e));
  }
  // Of what the newest step does not run nothing is in use.
  for (const auto& subgraphs : {std::vector<std::string>{"aa", "bb", "cc"}, {"aa", "bb"}}) {
    protocol::StepKernelsEvent running;
    running.subgraphs = subgraphs;
    (*run)->addEvent(protocol::encode(running));
  }
  protocol::TrialEvent gone;
  gone.subgraph = gone.name = "cc", gone.us = 400;
  (*run)->addEvent(protocol::encode(gone));
  protocol::FusionRevertedEvent split;
  split.name = "cc", split.fused_us = 1000, split.split_us = 800, split.fused_kernels = 3, split.split_kernels = 4;
  (*run)->addEvent(protocol::encode(split));
  for (const auto& [before, after] : {std::pair{88.0, 66.0}, {67.5, 45.0}}) {
    protocol::KernelSwapEvent e;
    e.subgraph = e.name = "bb", e.before_us = before, e.after_us = after;
    (*run)->addEvent(protocol::encode(e));
  }
  (*run)->flush();
  std::ofstream((*run)->file("run.json")) << "{}";
  const auto html = htmlReport((*run)->path(), {"Digits", {}, ""});
  ASSERT_TRUE(html.ok()) << html.error().message;
  const auto rowOf = [&](const std::string& name) {
    const std::size_t from = html->find("title=\"" + name + "\"");
    std::string cells;
    bool inside = false;
    for (std::size_t i = from; i < html->find("</tr>", from); ++i) {
      const char c = (*html)[i];
      if (c == '>') inside = true, cells += ' ';
      else if (c == '<') inside = false;
      else if (inside) cells += c;
    }
    std::istringstream words(cells);
    std::string row, word;
    while (words >> word) row += word + ' ';
    return row;
  };
  EXPECT_EQ(rowOf("aa"), "aa 40 \u2013 \u2013 25 2 0 0 ");
  EXPECT_EQ(rowOf("bb"), "bb 88 45 2\u00d7 50 3 0 2 ");
  EXPECT_LT(html->find("title=\"bb\""), html->find("title=\"aa\"")) << "the slowest in use first";
  EXPECT_EQ(rowOf("cc"), "cc 400 \u2013 \u2013 400 1 0 0 ");
  EXPECT_LT(html->find("title=\"aa\""), html->find("<tr class=\"off\"><td class=\"t m\" title=\"cc\""));
  EXPECT_NE(html->find("2 kernel swaps, 1 fused kernel split again, "), std::string::npos);
  EXPECT_NE(html->find("cc + 2 others, split again</td><td>1000</td><td>800</td><td>1.25\u00d7"), std::string::npos);
}

}  // namespace
}  // namespace nf
