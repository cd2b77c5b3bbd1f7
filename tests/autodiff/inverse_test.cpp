// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include <algorithm>
#include <map>
#include <semaphore>
#include <stop_token>
#include <thread>

#include "core/autodiff/hermite.h"
#include "core/ir/integer_set.h"
#include "tests/autodiff/named_accesses.h"
#include "tests/fuzz/access_generator.h"
#include "tests/fuzz/access_oracle.h"
#include "tests/golden.h"

namespace nf::testing {
namespace {

IndexExpr v(std::size_t i) { return IndexExpr::variable(static_cast<IndexVar>(i)); }

AccessProblem problemOf(std::vector<std::int64_t> extents, std::vector<IndexExpr> access, std::vector<std::int64_t> shape,
                        std::vector<IndexCond> guards = {}) {
  AccessProblem p;
  for (const std::int64_t extent : extents) p.domain.push_back({0, extent - 1});
  p.access = std::move(access);
  p.shape = std::move(shape);
  p.guards = std::move(guards);
  return p;
}

IndexCond inside(const IndexExpr& e, std::int64_t extent) {
  return IndexCond::all({IndexCond::ge0(e), IndexCond::ge0(IndexExpr(extent - 1) - e)});
}

TEST(Inverse, RealisticSizesAreCertified) {
  const IndexExpr p2r = 2 * v(2) + v(5) - IndexExpr(3), q2s = 2 * v(3) + v(6) - IndexExpr(3);
  const AccessProblem resnet =
      problemOf({32, 64, 112, 112, 3, 7, 7}, {v(0), v(4), p2r, q2s}, {32, 3, 224, 224}, {inside(p2r, 224), inside(q2s, 224)});
  const IndexExpr channel = 16 * floorDiv(v(1), 16) + v(4), p3 = 2 * v(2) + 3 * v(5) - IndexExpr(4),
                  q3 = 2 * v(3) + 3 * v(6) - IndexExpr(4);
  const AccessProblem shuffled =
      problemOf({4, 64, 30, 30, 16, 3, 3}, {v(0), 16 * floorMod(channel, 4) + floorDiv(channel, 4), p3, q3}, {4, 64, 60, 60},
                {inside(p3, 60), inside(q3, 60)});
  const std::vector<std::pair<AccessProblem, std::vector<std::int64_t>>> cases = {
      {resnet, {64, 4, 4}},
      {problemOf({32, 32, 6, 6, 4, 4, 32, 3, 3, 4}, {v(0), v(6), 2 * v(2) + v(7), 2 * v(3) + v(8), v(4), v(9)},
                 {32, 32, 14, 14, 4, 4}),
       {32, 2, 2, 4}},
      {problemOf({8, 64, 128, 128},
                 {v(0), 4 * v(1) + 2 * floorMod(v(2), 2) + floorMod(v(3), 2), floorDiv(v(2), 2), floorDiv(v(3), 2)},
                 {8, 256, 64, 64}),
       {}},
      {problemOf({8, 12, 197, 64}, {v(0), v(2), 64 * v(1) + v(3)}, {8, 197, 768}), {}},
      {problemOf({1024, 768}, {floorDiv(768 * v(0) + v(1), 512), floorMod(768 * v(0) + v(1), 512)}, {1536, 512}), {}},
      {shuffled, {16, 2, 2}},
  };
  for (const auto& [problem, axes] : cases) {
    const Inverse inverse = invert(problem);
    EXPECT_EQ(inverse.state, Inverse::State::Gather) << describe(problem) << ": " << inverse.why;
    std::vector<std::int64_t> got = inverse.axes, expected = axes;
    std::sort(got.begin(), got.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(got, expected) << describe(problem) << "\n" << toText(inverse);
    EXPECT_TRUE(cheap(inverse, problem)) << describe(problem);
  }
}

TEST(Inverse, TheTimeOfAProofIsThatOfItsThread) {
  const double begin = processorMilliseconds();
  const Inverse inverse = invert(problemOf({8, 64}, {v(0), 4 * v(1)}, {8, 256}));
  EXPECT_GT(inverse.certificateMilliseconds, 0);
  EXPECT_LE(inverse.certificateMilliseconds, processorMilliseconds() - begin);
}

TEST(Inverse, EmptyFibresAreZero) {
  EXPECT_EQ(invert(problemOf({4}, {v(0) + IndexExpr(9)}, {5})).state, Inverse::State::Empty);
  EXPECT_EQ(invert(problemOf({4}, {v(0)}, {4}, {IndexCond::ge0(v(0) - IndexExpr(7))})).state, Inverse::State::Empty);
  EXPECT_EQ(invert(problemOf({4, 1000000}, {v(0)}, {4}, {IndexCond::eq0(2 * v(1) - 4 * v(0) - IndexExpr(1))})).state,
            Inverse::State::Empty);
  EXPECT_EQ(invert(problemOf({4}, {v(0)}, {4}, {IndexCond::any({})})).state, Inverse::State::Empty);
  AccessProblem none = problemOf({4}, {v(0)}, {4});
  none.domain[0] = {3, 2};
  EXPECT_EQ(invert(none).state, Inverse::State::Empty);
  EXPECT_EQ(toText(invert(none)), "0");
}

TEST(Inverse, ConstantsScalarsAndUnusedVariables) {
  const Inverse constant = invert(problemOf({3}, {IndexExpr(2)}, {5}));  // every y reads element 2
  EXPECT_EQ(toText(constant), "if z0 == 2: sum t0:3: y0 = t0");
  const Inverse scalar = invert(problemOf({3, 4}, {}, {}));
  EXPECT_EQ(toText(scalar), "sum t0:3, t1:4: y0 = t0, y1 = t1");
  EXPECT_EQ(invert(problemOf({}, {}, {})).state, Inverse::State::Gather);
}

TEST(Inverse, NumbersThatDoNotFitMeanScatter) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_EQ(invert(problemOf({4, 4}, {kHuge * v(0) + (kHuge - 1) * v(1)}, {5})).state, Inverse::State::Uncertified);
  EXPECT_EQ(invert(problemOf({kHuge, 2}, {v(0)}, {5})).state, Inverse::State::Uncertified);
  IndexExpr nested = v(0);
  for (int i = 0; i < 100; ++i) nested = floorDiv(nested + v(1), 2);
  EXPECT_TRUE(nested.overflowed());
  EXPECT_EQ(invert(problemOf({4, 4}, {nested}, {5})).state, Inverse::State::Uncertified);
  IndexCond deep = IndexCond::eq0(v(0));
  for (int i = 0; i < 200; ++i) deep = IndexCond::any({IndexCond::all({deep, IndexCond::eq0(v(1))}), IndexCond::eq0(v(1))});
  EXPECT_EQ(invert(problemOf({4, 4}, {v(0)}, {4}, {deep})).state, Inverse::State::Uncertified);
}

TEST(Inverse, WithoutQuotaThereIsNoGather) {
  InvertOptions options;
  options.certificateQuota = 1;
  const Inverse inverse = invert(namedAccesses()[4].problem, options);
  EXPECT_EQ(inverse.state, Inverse::State::Uncertified);
  EXPECT_EQ(inverse.why, "the proof did not end within its quota");
}

TEST(Inverse, DearGathersAreRefused) {
  const AccessProblem banded =
      problemOf({6, 6}, {v(1)}, {6}, {IndexCond::ge0(v(0) - v(1) + IndexExpr(1)), IndexCond::ge0(v(1) - v(0) + IndexExpr(1))});
  EXPECT_TRUE(cheap(invert(banded), banded, 1));
  const AccessProblem sparse = problemOf({10}, {3 * v(0)}, {1000000});
  EXPECT_FALSE(cheap(invert(sparse), sparse));  // a third of a million elements for ten contributions
}

TEST(Inverse, DerivationForPeople) {
  std::string text;
  for (const char* wanted :
       {"conv1d s2 pad1 guard", "conv1d s4 d2 R3 (gcd2)", "x//2 and x//3", "banded attn |i-j|<=1", "depth2space"}) {
    for (const NamedAccess& access : namedAccesses()) {
      if (access.name != wanted) continue;
      InvertOptions options;
      options.explain = true;
      options.names = access.variables;
      text += access.name + "\n";
      for (const Inverse::Step& step : invert(access.problem, options).derivation) {
        text += "  " + step.title + "\n";
        for (const std::string& line : step.lines)
          text += "    " + line.substr(0, line.find(" ms)") == std::string::npos ? line.size() : line.rfind(" (")) + "\n";
      }
    }
  }
  expectGolden("autodiff/derivations.golden", text);
}

// Parts of an access are solved one by one; what they call q0 is one thing all the same.
TEST(Inverse, ADerivationNamesEachUnknownOnce) {
  InvertOptions options;
  options.explain = true;
  const AccessProblem halves = problemOf(
      {16, 16, 9}, {floorDiv(v(0), 2), floorDiv(v(1), 2), floorDiv(v(2), 3)}, {8, 8, 3},
      {IndexCond::ge0(v(0) - 2 * floorDiv(v(0), 4) - IndexExpr(1)), IndexCond::ge0(v(1) - 2 * floorDiv(v(1), 4) - IndexExpr(1))});
  std::map<std::string, int> defined;
  for (const Inverse::Step& step : invert(halves, options).derivation)
    if (step.title == "Linear system")
      for (const std::string& line : step.lines)
        if (const std::size_t at = line.find("   ("); at != std::string::npos)
          ++defined[line.substr(at + 4, line.find(' ', at + 4) - at - 4)];
  EXPECT_GE(defined.size(), 10u) << "five quotients, their remainders, two slacks";
  for (const auto& [name, times] : defined) EXPECT_EQ(times, 1) << name;
}

TEST(Inverse, ADerivationShowsNoGuardOfConstants) {
  InvertOptions options;
  options.explain = true;
  // On the diagonal the second guard says 0 != -1.
  const AccessProblem diagonal =
      problemOf({8, 8}, {v(0)}, {8}, {IndexCond::eq0(v(0) - v(1)), IndexCond::negate(IndexCond::eq0(v(0) - v(1) + IndexExpr(1)))});
  const Inverse inverse = invert(diagonal, options);
  EXPECT_EQ(inverse.state, Inverse::State::Gather);
  for (const Inverse::Step& step : inverse.derivation)
    for (const std::string& line : step.lines) EXPECT_EQ(line.find("0 == -1"), std::string::npos) << step.title << ": " << line;
}

TEST(InverseCache, SharedBetweenThreads) {
  InverseCache cache;
  const std::vector<NamedAccess> accesses = namedAccesses();
  std::vector<std::jthread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&] {
      for (const NamedAccess& access : accesses) EXPECT_EQ(cache.invert(access.problem)->state, Inverse::State::Gather);
    });
  threads.clear();
  EXPECT_LE(cache.size(), accesses.size());
  const std::size_t before = cache.hits();
  EXPECT_EQ(toText(*cache.invert(accesses[0].problem)), toText(invert(accesses[0].problem)));
  EXPECT_EQ(cache.hits(), before + 1);
  AccessProblem other = accesses[0].problem;
  other.shape[0] += 1;
  EXPECT_NE(hashOf(other), hashOf(accesses[0].problem));
}

TEST(InverseCache, ProofsThatWerePutOffAreSettled) {
  InvertOptions options;
  options.interactiveQuota = 1;
  InverseCache cache(options);
  const AccessProblem problem = namedAccesses()[4].problem;
  EXPECT_EQ(cache.invert(problem, InverseCache::Proof::PutOff)->state, Inverse::State::Checking);
  EXPECT_EQ(cache.invert(problem, InverseCache::Proof::Quick)->state, Inverse::State::Checking);
  EXPECT_EQ(cache.putOff(), 1u);
  const Inverse shown = cache.explained(problem, {"p", "r"}, InverseCache::Proof::Quick);
  EXPECT_EQ(shown.state, Inverse::State::Checking);
  EXPECT_EQ(shown.derivation[shown.derivation.size() - 2].lines[0], "checking: the proof is under way");
  EXPECT_TRUE(cache.settle());
  EXPECT_EQ(cache.putOff(), 0u);
  EXPECT_EQ(cache.settledProofs(), 1u);
  EXPECT_FALSE(cache.settle());
  const auto proved = cache.invert(problem, InverseCache::Proof::Quick);
  EXPECT_EQ(proved->state, Inverse::State::Gather);
  EXPECT_EQ(toText(*proved), toText(invert(problem)));
  // Who needs the proof gets it at once.
  AccessProblem other = problem;
  other.shape[0] += 1;
  EXPECT_EQ(cache.invert(other, InverseCache::Proof::PutOff)->state, Inverse::State::Checking);
  EXPECT_EQ(cache.invert(other)->state, Inverse::State::Gather);
  EXPECT_EQ(cache.putOff(), 0u);
}

// No time is too little time: the proof is put off, never given up.
TEST(InverseCache, AProofThatTakesTooLongIsPutOff) {
  InvertOptions options;
  options.accessMilliseconds = 1e-9;
  InverseCache cache(options);
  const AccessProblem problem = namedAccesses()[4].problem;
  EXPECT_EQ(certify(problem, invert(problem), {options.certificateQuota, Deadline::ofClock(0)}), std::nullopt);
  EXPECT_EQ(cache.invert(problem, InverseCache::Proof::Quick)->state, Inverse::State::Checking);
  EXPECT_TRUE(cache.settle());
  EXPECT_EQ(cache.invert(problem, InverseCache::Proof::Quick)->state, Inverse::State::Gather);
}

// A proof of it takes minutes.
AccessProblem endlessProblem() {
  const IndexExpr i = v(0), j = v(1);
  return problemOf({300, 300},
                   {floorMod(3 * (floorMod(floorDiv(i, 2), 3) + 2 * floorMod(floorDiv(i, 5), 7) + floorMod(floorDiv(i, 11), 13)) +
                                 floorMod(floorDiv(j, 3), 5) + floorMod(floorDiv(j, 7), 11),
                             97)},
                   {97});
}

// A question whose operations nobody counts ends with its time.
TEST(InverseCache, AProofThatTakesTooLongIsGivenUp) {
  const AccessProblem problem = endlessProblem();
  InvertOptions options;
  options.certificateQuota = options.pruneQuota = 1;
  EXPECT_EQ(certify(problem, invert(problem, options), {~std::uint64_t{0}, Deadline::ofClock(5)}), std::nullopt);

  // Processor time is not spent by waiting, and ends all the same.
  const Deadline work = Deadline::ofProcessor(200);
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  EXPECT_FALSE(work.isOver());
  EXPECT_EQ(certify(problem, invert(problem, options), {~std::uint64_t{0}, work}), std::nullopt);
  EXPECT_TRUE(work.isOver());

  InvertOptions none;
  none.proofMilliseconds = 0;
  const std::shared_ptr<const Inverse> inverse = InverseCache(none).invert(namedAccesses()[4].problem);
  EXPECT_EQ(inverse->state, Inverse::State::Uncertified);
  EXPECT_EQ(inverse->why, "the proof did not end within its time");
}

// A cache that proves until it is told to stop, and says when a proof begins.
InvertOptions patient(std::counting_semaphore<>& begun) {
  InvertOptions options;
  options.pruneQuota = 1;
  options.certificateQuota = ~std::uint64_t{0};
  options.proofMilliseconds = 1e9;
  options.sabotage = [&begun](Inverse& inverse) {
    inverse.tripsPerZ = 1;  // that it pays
    begun.release();
  };
  return options;
}

TEST(InverseCache, AStopEndsAProofThatIsUnderWay) {
  std::counting_semaphore<> begun(0);
  InverseCache cache(patient(begun));
  std::stop_source stop;
  std::jthread proof([&] {
    EXPECT_NE(cache.invert(endlessProblem(), InverseCache::Proof::Now, stop.get_token())->state, Inverse::State::Gather);
  });
  begun.acquire();
  stop.request_stop();
  proof.join();
  EXPECT_EQ(cache.size(), 0u) << "what was stopped is not known";
}

// A newer program forgets the proofs of the older one: that under way ends when another one waits.
TEST(InverseCache, AProofThatNobodyWaitsForMakesRoom) {
  std::counting_semaphore<> begun(0);
  InverseCache cache(patient(begun));
  cache.invert(endlessProblem(), InverseCache::Proof::PutOff);
  begun.acquire();
  std::jthread settling([&] { EXPECT_TRUE(cache.settle()); });
  begun.acquire();
  cache.forgetWaiting();
  EXPECT_EQ(cache.putOff(), 0u);
  const AccessProblem other = problemOf({8}, {v(0)}, {8});
  EXPECT_EQ(cache.invert(other, InverseCache::Proof::PutOff)->state, Inverse::State::Checking);
  settling.join();
  EXPECT_EQ(cache.settledProofs(), 1u);
  EXPECT_EQ(cache.invert(other, InverseCache::Proof::Quick)->state, Inverse::State::Gather);
  EXPECT_EQ(cache.invert(endlessProblem(), InverseCache::Proof::PutOff)->state, Inverse::State::Checking);
  EXPECT_EQ(cache.putOff(), 1u) << "asked for again, it waits again";
}

// What costs decide is not proved, and says so.
TEST(InverseCache, WhatDoesNotPayIsNotProved) {
  const AccessProblem problem = problemOf({10}, {3 * v(0)}, {1000000});
  InverseCache cache;
  for (const auto proof : {InverseCache::Proof::PutOff, InverseCache::Proof::Quick, InverseCache::Proof::Now}) {
    const Inverse inverse = cache.explained(problem, {"i"}, proof);
    EXPECT_EQ(inverse.state, Inverse::State::Unneeded);
    EXPECT_EQ(inverse.certificateMilliseconds, 0);
    const std::string& said = inverse.derivation[inverse.derivation.size() - 2].lines[0];
    EXPECT_TRUE(said.starts_with("not needed: the gather would visit ")) << said;
  }
  EXPECT_EQ(cache.putOff(), 0u);
}

// Costs decide where the time ends before the solution, too: nothing to prove, nothing under way. What a view was shown is solved with
// all the time it takes before it runs.
TEST(InverseCache, WhatDoesNotPayInHasteIsSolvedAgainNotProved) {
  InvertOptions options;
  options.accessMilliseconds = options.proofMilliseconds = 1e-9;
  InverseCache dear(options);
  const AccessProblem tooDear = problemOf({10}, {3 * v(0)}, {1000000});
  for (const auto proof : {InverseCache::Proof::PutOff, InverseCache::Proof::Quick, InverseCache::Proof::Now}) {
    const std::shared_ptr<const Inverse> inverse = dear.invert(tooDear, proof);
    EXPECT_EQ(inverse->state, Inverse::State::Unneeded);
    EXPECT_TRUE(inverse->why.starts_with("the gather would visit ")) << inverse->why;
    EXPECT_EQ(inverse->hasty, proof != InverseCache::Proof::Now);
    EXPECT_EQ(dear.putOff(), proof == InverseCache::Proof::Now ? 0u : 1u);
  }

  int solved = 0;
  options.proofMilliseconds = InvertOptions{}.proofMilliseconds;
  options.sabotage = [&](Inverse& inverse) {
    if (solved++ == 0) inverse.tripsPerZ = 1000;
  };
  InverseCache cache(options);
  const AccessProblem problem = problemOf({8}, {v(0)}, {8});
  EXPECT_EQ(cache.invert(problem, InverseCache::Proof::Quick)->state, Inverse::State::Unneeded);
  EXPECT_EQ(cache.putOff(), 1u);
  EXPECT_TRUE(cache.settle());
  EXPECT_EQ(cache.settledProofs(), 1u);
  EXPECT_EQ(cache.putOff(), 0u);
  EXPECT_EQ(cache.invert(problem)->state, Inverse::State::Gather);
}

// a * u == h, u unimodular, h lower echelon with positive pivots that bound what is left of them.
TEST(Hermite, Properties) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Choices choices(seed);
    const auto m = static_cast<std::size_t>(choices.between(1, 4)), n = static_cast<std::size_t>(choices.between(1, 5));
    Matrix a(m, n);
    for (std::int64_t& value : a.values) value = choices.between(-6, 6);
    const auto hermite = columnHermite(a);
    ASSERT_TRUE(hermite);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        std::int64_t sum = 0;
        for (std::size_t k = 0; k < n; ++k) sum += a.at(i, k) * hermite->u.at(k, j);
        ASSERT_EQ(sum, hermite->h.at(i, j)) << "seed " << seed;
      }
    const auto ofU = columnHermite(hermite->u);
    ASSERT_TRUE(ofU);
    ASSERT_EQ(ofU->pivots.size(), n) << "seed " << seed;
    for (const auto& [row, column] : ofU->pivots) ASSERT_EQ(ofU->h.at(row, column), 1) << "seed " << seed;
    for (const auto& [row, column] : hermite->pivots) {
      const std::int64_t pivot = hermite->h.at(row, column);
      ASSERT_GT(pivot, 0);
      for (std::size_t j = column + 1; j < n; ++j) ASSERT_EQ(hermite->h.at(row, j), 0);
      for (std::size_t j = 0; j < column; ++j) {
        ASSERT_GE(hermite->h.at(row, j), 0);
        ASSERT_LT(hermite->h.at(row, j), pivot);
      }
    }
  }
}

}  // namespace
}  // namespace nf::testing
