// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/gpu_cases.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/schedule/loop_interpreter.h"
#include "core/schedule/lower.h"

namespace nf::test {

Target gpuTarget(const std::string& architecture) {
  Target t;
  t.backend = "cuda";
  t.fingerprint = "a device for tests";
  t.features = {architecture};
  t.vectorBytes = 16;
  t.vectorRegisters = 255;
  const bool turing = architecture == "sm_75", hopper = architecture == "sm_90";
  t.threads = turing ? 40 : hopper ? 132 : 108;
  t.peakFlops = turing ? 2.0e11 : hopper ? 4.6e11 : 1.8e11;
  t.peakBandwidth = turing ? 3.2e11 : hopper ? 3.3e12 : 1.5e12;
  t.launchSeconds = 3e-6;
  return t;
}

Schedule scheduled(const std::string& knobs, const std::string& kind) {
  return *Schedule::parse(R"({"version":1,"kind":")" + kind + R"(","knobs":)" + knobs + "}");
}

std::string unitOf(const Schedule& s) { return s.kind == "contraction" ? s.knobs->value("matrix", "fma") : ""; }

std::optional<Schedule> randomMatrix(const ScheduleSpace& space, std::mt19937_64& rng) {
  for (int attempt = 0; attempt < 200; ++attempt) {
    const Schedule s = space.random(rng);
    if (s.kind != "contraction") return std::nullopt;
    if (unitOf(s) != "fma") return s;
  }
  return std::nullopt;
}

std::string interpreted(const loop::Function& f, const Program& p) {
  std::mt19937_64 rng(1);
  std::vector<std::vector<double>> operands;
  for (const auto& [id, data] : randomInputs(p, rng)) operands.push_back(data.values);
  for (const Output& o : p.outputs) operands.emplace_back(static_cast<std::size_t>(p[o.tensor].elements()), 0.0);
  const auto ran = loop::interpret(f, {&operands, {}, 1, 0});
  return ran.ok() ? "" : ran.error().message;
}

void everyBarrierIsNeeded(const Program& p, const std::string& knobs) {
  const auto lowered = lower(p, scheduled(knobs), gpuTarget());
  ASSERT_TRUE(lowered.ok()) << lowered.error().message;
  EXPECT_EQ(interpreted(*lowered, p), "") << knobs;
  using Kind = loop::Statement::Kind;
  // Behind the last slice nothing is under way.
  std::size_t last = lowered->statements.size();
  if (scheduled(knobs).knobs->at("stages") > 1)
    while (lowered->statements[--last].kind != Kind::AsyncWait) {}
  int removed = 0;
  for (std::size_t s = 0; s < last; ++s) {
    const Kind kind = lowered->statements[s].kind;
    if (kind != Kind::Barrier && kind != Kind::AsyncWait) continue;
    loop::Function broken = *lowered;
    for (loop::Statement& around : broken.statements) std::erase(around.body, loop::StmtId(s));
    EXPECT_NE(interpreted(broken, p), "") << knobs << " without statement " << s;
    ++removed;
  }
  EXPECT_GE(removed, 2);
}

}  // namespace nf::test
