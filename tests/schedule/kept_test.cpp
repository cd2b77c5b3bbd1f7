// SPDX-License-Identifier: Apache-2.0
// Fusion counts what lowering makes: what is said to be computed again is inlined, all else has a buffer between the loops.
#include <gtest/gtest.h>

#include <set>

#include "core/fusion/fuse.h"
#include "core/fusion/partition.h"
#include "core/ir/structural_hash.h"
#include "core/lang/compile.h"
#include "core/schedule/group.h"

namespace nf {
namespace {

struct Fused {
  FusionDecision decision;
  bool hasBuffer = false;  // G, in the kernel of both
};

Fused fusedOf(const std::string& text) {
  const CompiledNotebook notebook = compileNotebook({"a", {}, text});
  EXPECT_TRUE(notebook.ok());
  Program program = notebook.program;
  program.stage = Stage::Differentiated;
  const auto parts = partition(program);
  EXPECT_TRUE(parts.ok());
  const auto result = fuse(*parts, {1e10, 1e10, 1e-8});
  EXPECT_TRUE(result.ok());
  Fused fused;
  for (const FusionDecision& d : result->decisions)
    if (d.producer == "G" && d.consumer == "P") fused.decision = d;
  EXPECT_EQ(fused.decision.state, FusionState::Forced) << fused.decision.why;
  for (const Group& g : result->program.groups) {
    const Subgraph kernel = extractSubgraph(result->program, g.operators);
    const TensorId made = kernel.program.tensorNamed("G");
    if (g.operators.size() < 2 || !made.valid()) continue;
    const auto view = loop::viewGroup(kernel.program);
    EXPECT_TRUE(view.ok());
    fused.hasBuffer = view->stored[made.value];
  }
  return fused;
}

TEST(Kept, WhatIsComputedAgainHasNoBufferAndWhatHasOneIsComputedOnce) {
  struct Case {
    std::string producer, consumer, also;
    bool again, beyondCache;
  };
  const std::string window = "P[n, p, q] = sum[c, r: 3, s: 3] G[n, c, p + r, q + s]";
  const Case cases[] = {
      {"exp(sin(X[n, c, h, w]))", window, "", false, true},
      {"2 * X[n, c, h, w]", window, "", true, false},
      {"exp(X[n, c, h, w])", "P[n, c, p: 100, q: 100] = G[n, c, p, q] + G[n, c, p + 1, q]", "", true, false},
      {"exp(X[n, c, h, w])", "P[n, c, h, w] = max(G[n, c, h, w], G[n, c, h, w] * 2)", "", false, false},
      {"2 * X[n, c, h, w]", window, "show G\n", false, true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.producer + " ... " + c.consumer);
    const Fused fused = fusedOf("input X[2, 3, 128, 128] = normal(0, 1)\nG[n, c, h, w] = " + c.producer + "\n" + c.consumer +
                                "\nhint fuse G, P\nshow P\n" + c.also);
    EXPECT_EQ(fused.decision.recomputed, c.again ? "G" : "");
    EXPECT_EQ(fused.decision.dC < 0, c.again);
    EXPECT_EQ(fused.decision.kept, c.beyondCache ? "G" : "");
    if (c.again || c.beyondCache) { EXPECT_EQ(fused.hasBuffer, c.beyondCache); }
    constexpr double kG = 2 * 3 * 128 * 128 * 4;
    EXPECT_EQ(fused.decision.dT, c.beyondCache ? 0 : 2 * kG);
  }
}

// A size that would have a costly value read so often that it is kept turns nothing.
TEST(Kept, NoSizeIsSaidToFlipWhatWouldBeKeptByThen) {
  const auto flipsOf = [](const std::string& producer) {
    const CompiledNotebook notebook = compileNotebook(
        {"a", {}, "input X[1002] = normal(0, 1)\nG[i] = " + producer + "\nP[p: 1000] = sum[r: 3] G[p + r]\nshow P\n"});
    EXPECT_TRUE(notebook.ok());
    Program program = notebook.program;
    program.stage = Stage::Differentiated;
    const auto parts = partition(program);
    EXPECT_TRUE(parts.ok());
    const auto result = fuse(*parts, {1e9, 4e9, 0});
    EXPECT_TRUE(result.ok());
    std::set<std::string> sizes;
    for (const FusionDecision& d : result->decisions)
      for (const FusionFlip& f : d.flips)
        if (d.producer == "G" && f.unit.empty()) sizes.insert(f.quantity);
    for (const FusionDecision& d : result->decisions) EXPECT_EQ(d.recomputed, "G");
    return sizes;
  };
  EXPECT_TRUE(flipsOf("(((X[i]*3 + 1)*X[i] + 2)*X[i] + 5)*X[i] + 7").contains("r of P"));
  EXPECT_FALSE(flipsOf("exp(X[i])").contains("r of P"));
}

}  // namespace
}  // namespace nf
