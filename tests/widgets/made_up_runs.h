// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "core/protocol/message.h"

// Events of trainings that nobody made; a seed gives the same ones.
namespace nf {

inline std::vector<protocol::StepEvent> manySteps(int count, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<protocol::StepEvent> steps;
  for (int i = 0; i < count; ++i) {
    protocol::StepEvent e;
    e.step = i * 3 + 1, e.steps = 3, e.seconds = i * 0.02;
    e.ms = 9.0 - 5.0 * i / count + static_cast<double>(rng() % 100) * 0.005;
    e.ms_min = e.ms * 0.97, e.ms_max = e.ms * (rng() % 20 == 0 ? 2.5 : 1.1), e.loss = 2.0 / (1 + i * 0.1);
    steps.push_back(e);
  }
  return steps;
}

inline std::vector<protocol::KernelSwapEvent> manySwaps(int count, int lastStep, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<protocol::KernelSwapEvent> swaps;
  for (int i = 0; i < count; ++i) {
    protocol::KernelSwapEvent s;
    s.subgraph = "aa01", s.name = "d(L)/d(V.Logit.0.sum) + d(L)/d(Votes) + W.next", s.before_us = 900, s.after_us = 300,
    s.generation = i + 2;
    s.step = static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(lastStep));
    swaps.push_back(s);
  }
  std::sort(swaps.begin(), swaps.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return swaps;
}

}  // namespace nf
