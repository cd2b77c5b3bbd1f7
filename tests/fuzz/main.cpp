// SPDX-License-Identifier: Apache-2.0
// neoflow-fuzz [--seconds S] [--cases N] [--seed N] [--second-order]: random accesses, inverted, proved and compared with brute
// force; one in eight also within a random operator, whose gradients are compared with central differences. Prints a table; the first
// failure is shrunk and printed. Exit code 0: nothing wrong, nothing uncertified; 1: something is, or time was too short for any
// access; 2: the command line is wrong.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/integer_set.h"
#include "tests/fuzz/access_generator.h"
#include "tests/fuzz/access_oracle.h"
#include "tests/fuzz/body_oracle.h"
#include "tests/fuzz/fuzz_options.h"

namespace nf::testing {
namespace {

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

struct Row {
  std::vector<double> tightness, overhead, solve, certificate, visits;
  std::size_t cases = 0, empty = 0;
  std::size_t putOff = 0, slow = 0;  // by the interactive quotas: of isl operations, of time
};

// While somebody types an access may take that long, solved and proved.
constexpr double kInteractiveMilliseconds = 100;

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double shareUpTo(const std::vector<double>& values, double most) {
  const auto n = std::count_if(values.begin(), values.end(), [&](double v) { return v <= most; });
  return values.empty() ? 0 : 100.0 * static_cast<double>(n) / static_cast<double>(values.size());
}

void print(const char* title, Row& row) {
  std::printf("%-9s %7zu %6zu | %6.3f %6.2f%% %6.2f%% | %6.3f %6.3f %6.2f %6.2f%% | %5.2f | %6.3f %6.3f | %6.3f %6.3f %7.2f\n",
              title, row.cases, row.empty, mean(row.tightness), shareUpTo(row.tightness, 1), shareUpTo(row.tightness, 2),
              mean(row.overhead), quantile(row.overhead, 0.5), quantile(row.overhead, 0.99), 100 - shareUpTo(row.overhead, 4),
              mean(row.visits), quantile(row.solve, 0.5), quantile(row.solve, 0.99), quantile(row.certificate, 0.5),
              quantile(row.certificate, 0.99), quantile(row.certificate, 1));
}

void append(Row& to, const Row& from) {
  const auto join = [](std::vector<double>& a, const std::vector<double>& b) { a.insert(a.end(), b.begin(), b.end()); };
  join(to.tightness, from.tightness);
  join(to.overhead, from.overhead);
  join(to.solve, from.solve);
  join(to.certificate, from.certificate);
  join(to.visits, from.visits);
  to.cases += from.cases;
  to.empty += from.empty;
  to.putOff += from.putOff;
  to.slow += from.slow;
}

// Oracle C: one in kBodyEvery accesses within random operators.
constexpr std::size_t kBodyEvery = 8;
// One in kPhasesEvery gathers split into residue classes, each exact and proved by itself.
constexpr std::size_t kPhasesEvery = 4;
struct Bodies {
  std::size_t operators = 0, elements = 0, kinks = 0, wrong = 0;
};

void checkBody(const AccessProblem& problem, std::uint64_t caseSeed, Choices& choices, Bodies& bodies) {
  for (const BodyKind kind : {BodyKind::Differences, BodyKind::Ties, BodyKind::Zeros}) {
    const BodyResult result = compareBody(problem, kind, choices);
    bodies.operators += result.compared > 0 ? 1 : 0;
    bodies.elements += result.compared;
    bodies.kinks += result.kinks;
    if (result.right || ++bodies.wrong > 3) continue;
    std::printf("WRONG GRADIENT (case seed %llu): %s\n  %s\n", static_cast<unsigned long long>(caseSeed), result.wrong.c_str(),
                describe(problem).c_str());
  }
}

bool isWrong(const AccessProblem& problem) { return !compareExactly(problem, invert(problem)).right; }
bool splitsWrong(const AccessProblem& problem) {
  const Inverse inverse = invert(problem);
  return inverse.state == Inverse::State::Gather && !wrongPhases(problem, inverse).empty();
}
bool isUncertified(const AccessProblem& problem) { return invert(problem).state == Inverse::State::Uncertified; }

int run(double seconds, std::size_t mostCases, std::uint64_t seed, bool secondOrderToo) {
  std::map<AccessClass, Row> rows;
  Row second;
  Bodies bodies;
  std::size_t done = 0, wrong = 0, uncertified = 0, split = 0;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const auto begin = Clock::now();
  const auto check = [&](const AccessProblem& problem, Row& row, std::uint64_t caseSeed, const char* what) {
    InvertOptions interactive;
    interactive.certificateQuota = interactive.interactiveQuota;
    const double start = processorMilliseconds();
    Inverse inverse = invert(problem, interactive);
    const double inverted = processorMilliseconds();
    if (inverse.state == Inverse::State::Uncertified) {
      ++row.putOff;
      inverse = invert(problem);
    } else if (inverted - start > kInteractiveMilliseconds) {
      ++row.slow;
    }
    const OracleResult result = compareExactly(problem, inverse);
    ++row.cases;
    ++done;
    if (!result.right && ++wrong <= 3) {
      std::printf("WRONG (case seed %llu, %s): %s\n  %s\n  %s\n", static_cast<unsigned long long>(caseSeed), what,
                  result.wrong.c_str(), describe(problem).c_str(), toText(inverse).c_str());
      std::printf("  minimal: %s\n", describe(shrink(problem, isWrong)).c_str());
    }
    if (inverse.state == Inverse::State::Uncertified && ++uncertified <= 3) {
      std::printf("UNCERTIFIED (case seed %llu, %s): %s\n  %s\n", static_cast<unsigned long long>(caseSeed), what,
                  inverse.why.c_str(), describe(problem).c_str());
      std::printf("  minimal: %s\n", describe(shrink(problem, isUncertified)).c_str());
    }
    if (inverse.state == Inverse::State::Empty) {
      ++row.empty;
      return inverse;
    }
    if (done % kPhasesEvery == 0 && inverse.state == Inverse::State::Gather) {
      ++split;
      const std::string problems = wrongPhases(problem, inverse);
      if (!problems.empty() && ++wrong <= 3) {
        std::printf("WRONG PHASES (case seed %llu, %s): %s\n  %s\n", static_cast<unsigned long long>(caseSeed), what,
                    problems.c_str(), describe(problem).c_str());
        std::printf("  minimal: %s\n", describe(shrink(problem, splitsWrong)).c_str());
      }
    }
    if (done % 4 == 0) {  // proving twice is the price of timing it apart
      const double begun = processorMilliseconds();
      static_cast<void>(certify(problem, inverse, InvertOptions{}.certificateQuota));
      const double proof = processorMilliseconds() - begun;
      row.certificate.push_back(proof);
      row.solve.push_back(std::max(0.0, inverted - start - proof));
    }
    row.tightness.push_back(static_cast<double>(inverse.tripsPerZ) /
                            static_cast<double>(std::max<std::int64_t>(1, result.largestFibre)));
    row.overhead.push_back(static_cast<double>(result.hoistedVisits) / static_cast<double>(result.domain));
    row.visits.push_back(static_cast<double>(result.hoistedVisits) /
                         static_cast<double>(std::max<std::int64_t>(1, result.contributions)));
    return inverse;
  };
  std::mt19937_64 seeds(seed);
  for (std::size_t i = 0; done < mostCases && millisecondsSince(begin) < seconds * 1000; ++i) {
    const AccessClass c = kAccessClasses[i % kAccessClasses.size()];
    const std::uint64_t caseSeed = seeds();
    Choices choices(caseSeed);
    const auto problem = randomAccess(c, choices);
    if (!problem) continue;
    const Inverse inverse = check(*problem, rows[c], caseSeed, std::string(name(c)).c_str());
    if (i % kBodyEvery == 0) checkBody(*problem, caseSeed, choices, bodies);
    if (!secondOrderToo || inverse.state != Inverse::State::Gather || c == AccessClass::Wide) continue;
    const AccessProblem again = secondOrder(*problem, inverse, static_cast<std::uint32_t>(choices.word() | choices.word()));
    double points = 1;
    for (const Range& r : again.domain) points *= static_cast<double>(r.extent());
    if (points <= 40000) check(again, second, caseSeed, "second order");
  }
  std::printf(
      "class       cases  empty | trips/largest fibre   | hoisted nest/forward nest         | vis/y | solve ms      | certificate "
      "ms\n");
  std::printf(
      "                         |   mean     =1     <=2 |   mean median    p99      >4x |  mean |    p50    p99 |    p50    p99    "
      " max\n");
  Row all;
  for (const AccessClass c : kAccessClasses) {
    print(std::string(name(c)).c_str(), rows[c]);
    if (c != AccessClass::Wide) append(all, rows[c]);
  }
  print("not wide", all);
  if (secondOrderToo) print("second", second);
  append(all, rows[AccessClass::Wide]);
  append(all, second);
  std::printf(
      "while typing (%.0f ms and %llu isl operations a question): %zu put off, %zu of them by time: %.4f %% of %zu\n",
      kInteractiveMilliseconds, static_cast<unsigned long long>(InvertOptions{}.interactiveQuota), all.putOff + all.slow, all.slow,
      100.0 * static_cast<double>(all.putOff + all.slow) / static_cast<double>(std::max<std::size_t>(1, all.cases)), all.cases);
  std::printf("within random operators (differences, ties, zeros): %zu, %zu gradient elements, %zu of them at kinks: %zu wrong\n",
              bodies.operators, bodies.elements, bodies.kinks, bodies.wrong);
  std::printf("split into residue classes, each exact and proved: %zu\n", split);
  std::printf("%zu accesses in %.0f s: %zu wrong, %zu uncertified\n", done, millisecondsSince(begin) / 1000, wrong, uncertified);
  return done > 0 && wrong == 0 && uncertified == 0 && bodies.wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nf::testing

namespace {
constexpr const char* kHelp =
    "neoflow-fuzz [--seconds S] [--cases N] [--seed N] [--second-order]\n\n"
    "Draws accesses of every class, derives the gradient of each and holds it against exact integers, isl's certificate and "
    "central\n"
    "differences; prints a row a class, and a minimal case of whatever disagrees. Exit code: 0 where nothing did, else 1.\n\n"
    "  --cases N        accesses to draw\n"
    "  --seconds S      stop after this time, whatever is left\n"
    "  --seed N         draw these cases again; without it each run draws others and prints its seed\n"
    "  --second-order   derive gradients of gradients, too\n";
}  // namespace

int main(int argc, char** argv) {
  const std::vector<const char*> arguments(argv + std::min(argc, 1), argv + argc);
  for (const std::string_view argument : arguments)
    if (argument == "--help" || argument == "-h") {
      std::fputs(kHelp, stdout);
      return 0;
    }
  const auto options = nf::testing::parseFuzzOptions(arguments);
  if (!options) {
    std::fprintf(stderr, "%s\nusage: neoflow-fuzz [--seconds S] [--cases N] [--seed N] [--second-order]\n",
                 options.error().message.c_str());
    return 2;
  }
  const std::uint64_t seed = options->seed ? *options->seed : std::random_device()();
  return nf::testing::run(options->seconds, options->cases, seed, options->secondOrder);
}
