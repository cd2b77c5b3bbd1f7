// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <tuple>

#include "core/protocol/latency.h"
#include "core/protocol/message.h"

namespace nf::protocol {
namespace {

// Fills every field of a message, so that a field that JSON forgets shows up.
struct Filler {
  std::mt19937_64 rng;

  std::string word() {
    static const std::vector<std::string> words{
        "", "Y", "d(L)/d(W)", "Σ W·X", "line\nbreak", "quote\"s \\", "日本", std::string("\0x", 2)};
    return words[rng() % words.size()] + std::to_string(rng() % 1000);
  }
  void fill(std::string& v) { v = word(); }
  void fill(bool& v) { v = rng() % 2; }
  void fill(double& v) {
    const std::vector<double> special{0.0, -0.0, 1e-300, 1.7976931348623157e308, std::numeric_limits<double>::infinity(), 1.0 / 3};
    v = rng() % 3 ? std::ldexp(static_cast<double>(rng() % 100000), static_cast<int>(rng() % 60) - 30)
                  : special[rng() % special.size()];
  }
  void fill(JsonText& v) { v.text = R"({"kind":"contraction","knobs":{"tile":[4,)" + std::to_string(rng() % 64) + "]}}"; }
  void fill(Formula& v) {
    v.name = word();
    v.nodes.clear();
    FormulaNode base;
    base.kind = FormulaKind::Name;
    fill(base.text);
    fill(base.origins);
    FormulaNode root;
    root.kind = FormulaKind::Reduce;
    root.children = {0};
    fill(root.axes);
    v.nodes = {base, root};
  }
  template <class T>
  void fill(std::vector<T>& v) {
    v.resize(rng() % 4);
    for (T& element : v) fill(element);
  }
  template <class T>
  void fill(std::optional<T>& v) {
    v.reset();
    if (rng() % 2) fill(v.emplace());
  }
  template <class T>
  void fill(std::map<std::string, T>& v) {
    v.clear();
    for (auto n = rng() % 3; n > 0; --n) fill(v[word()]);
  }
  template <class T>
  void fill(T& v) {
    if constexpr (std::is_enum_v<T>) {
      v = static_cast<T>(rng() % enumNames(T{}).size());
    } else if constexpr (std::is_integral_v<T>) {
      const T edges[] = {0, 1, std::numeric_limits<T>::max(), std::numeric_limits<T>::min()};
      v = rng() % 2 ? edges[rng() % 4] : static_cast<T>(rng() % 100);
    } else {
      v.fields([&](const char*, auto& field) { fill(field); });
    }
  }
};

template <std::size_t I = 0, class F>
void forEveryMessage(F&& f) {
  if constexpr (I < std::variant_size_v<Message>) {
    f(Message(std::in_place_index<I>));
    forEveryMessage<I + 1>(f);
  }
}

TEST(Protocol, EveryMessageRoundTrips) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Filler filler{std::mt19937_64(seed)};
    forEveryMessage([&](Message message) {
      std::visit([&](auto& body) { filler.fill(body); }, message);
      const std::string line = encode(message, 7);
      EXPECT_EQ(line.find('\n'), std::string::npos);
      auto back = decode(line);
      ASSERT_TRUE(back.ok()) << back.error().message << "\n" << line;
      EXPECT_TRUE(back.value() == message) << line << "\n" << encode(back.value(), 7);
    });
  }
}

TEST(Protocol, EventsAreTheLinesScriptsRead) {
  EXPECT_EQ(encode(FirstStepEvent{412.5}), R"({"event":"first_step","ms":412.5})");
  const std::string trial =
      encode(TrialEvent{.subgraph = "ab", .schedule = {R"({"kind":"reduction"})"}, .status = TrialStatus::Wrong});
  EXPECT_NE(trial.find(R"("event":"trial")"), std::string::npos);
  EXPECT_NE(trial.find(R"("schedule":{"kind":"reduction"})"), std::string::npos);
  EXPECT_NE(trial.find(R"("us":null)"), std::string::npos);
  EXPECT_NE(trial.find(R"("status":"wrong")"), std::string::npos);
}

std::vector<StepTime> randomTimes(std::mt19937_64& rng) {
  std::vector<StepTime> times(1 + rng() % 300);
  std::int64_t step = 0;
  double level = 8;
  for (StepTime& t : times) {
    if (rng() % 40 == 0) level = 2.0 + static_cast<double>(rng() % 10);
    t.steps = rng() % 4 == 0 ? 1 + static_cast<std::int64_t>(rng() % 5) : 1;
    t.ms = level * (rng() % 12 == 0 ? 4 : 1) + static_cast<double>(rng() % 100) * 0.01;
    t.step = step += t.steps;
  }
  return times;
}

// By the definition: the halves of steps within half a window of the sample's middle, sorted.
std::vector<double> mediansByDefinition(const std::vector<StepTime>& times) {
  std::vector<double> medians;
  for (const StepTime& t : times) {
    std::vector<double> around;
    const std::int64_t middle = 2 * t.step - t.steps, window = std::max<std::int64_t>(9, middle / 2 / 50);
    for (const StepTime& o : times)
      for (std::int64_t half = 2 * (o.step - o.steps); half < 2 * o.step; ++half)
        if (half >= middle - window && half < middle + window) around.push_back(o.ms);
    std::sort(around.begin(), around.end());
    medians.push_back(around[around.size() / 2]);
  }
  return medians;
}

TEST(Latency, RunningMediansAreThoseOfTheStepsAround) {
  EXPECT_TRUE(runningMedians({}).empty());
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    const auto times = randomTimes(rng);
    EXPECT_EQ(runningMedians(times), mediansByDefinition(times));
  }
}

// What a resumed run adds leaves what was said of its first steps.
TEST(Latency, MoreStepsLeaveTheMediansOfEarlierOnes) {
  std::vector<StepTime> times;
  for (std::int64_t step = 1; step <= 600; ++step) times.push_back({step, step > 470 && step <= 482 ? 20.0 : 1.0, 1});
  const auto before = runningMedians(times);
  ASSERT_TRUE(againstPeer(times, 10) && againstPeer(times, 10)->from);
  EXPECT_EQ(againstPeer(times, 10)->from, 483);
  for (std::int64_t step = 601; step <= 6600; ++step) times.push_back({step, 1.0, 1});
  const auto after = runningMedians(times);
  EXPECT_TRUE(std::equal(before.begin(), before.end() - 9, after.begin()));
  EXPECT_EQ(againstPeer(times, 10)->from, 483);
}

// Neighbours that stand for many steps outvote a step on which the machine slept.
TEST(Latency, OneSlowStepIsNotTheLine) {
  const std::vector<StepTime> times{{50, 2.1, 50}, {51, 17000, 1}, {101, 2.2, 50}, {102, 17000, 1}};
  EXPECT_EQ(runningMedians(times), (std::vector<double>{2.1, 2.2, 2.2, 2.2}));
}

// They are those that the line's end is the median of; a sample that reaches further back counts with the steps that are within.
TEST(Latency, TheNewestStepsHaveAMedianAndQuartiles) {
  EXPECT_FALSE(newestSteps({}));
  const std::vector<StepTime> times{{1, 6.4, 1}, {41, 0.2, 40}, {61, 0.1, 20}, {62, 9, 1}};
  const auto few = newestSteps(times), one = newestSteps({times.data(), 1});
  ASSERT_TRUE(few && one);
  EXPECT_EQ(std::tuple(few->low, few->ms, few->high, few->steps), std::tuple(0.1, 0.1, 0.1, 5));
  EXPECT_EQ(std::tuple(one->low, one->ms, one->high, one->steps), std::tuple(6.4, 6.4, 6.4, 1));
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    const auto random = randomTimes(rng);
    const auto newest = newestSteps(random);
    ASSERT_TRUE(newest);
    EXPECT_EQ(newest->ms, runningMedians(random).back());
    EXPECT_LE(newest->low, newest->ms);
    EXPECT_GE(newest->high, newest->ms);
  }
}

// "Faster from step n on": the curve stays below the peer's line from there to the end, and does not one sample before.
TEST(Latency, TheClaimToBeFasterHoldsToTheEndAndBeginsAsEarlyAsItCan) {
  EXPECT_FALSE(againstPeer({}, 5));
  int claims = 0, none = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    const auto times = randomTimes(rng);
    const double peer = 2.0 + static_cast<double>(rng() % 1000) * 0.01;
    const auto medians = mediansByDefinition(times);
    const auto against = againstPeer(times, peer);
    ASSERT_TRUE(against);
    EXPECT_EQ(against->ms, medians.back());
    ++(against->from ? claims : none);
    EXPECT_EQ(against->from.has_value(), medians.back() < peer);
    if (!against->from) continue;
    for (std::size_t i = 0; i < times.size(); ++i) {
      const std::int64_t first = times[i].step - times[i].steps + 1;
      if (first >= *against->from) { EXPECT_LT(medians[i], peer) << i; }
      if (times[i].step + 1 == *against->from) { EXPECT_GE(medians[i], peer) << i; }
    }
    const bool begins =
        std::any_of(times.begin(), times.end(), [&](const StepTime& t) { return t.step - t.steps + 1 == *against->from; });
    EXPECT_TRUE(begins);
  }
  EXPECT_GT(claims, 20);
  EXPECT_GT(none, 20);
}

TEST(Protocol, NotANumberTravels) {
  auto back = decode(encode(StepEvent{.step = 3, .loss = std::numeric_limits<double>::quiet_NaN()}));
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(std::isnan(*std::get<StepEvent>(*back).loss));
}

TEST(Protocol, TextThatIsNoUtf8IsMadeSo) {
  auto back = decode(encode(DocumentReplaced{.text = "a\xff"
                                                     "b"}));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(std::get<DocumentReplaced>(*back).text,
            "a\xef\xbf\xbd"
            "b");
}

TEST(Protocol, UnknownKeysAreIgnoredAndMissingOnesKeepTheirDefault) {
  auto back = decode(R"({"type":"get_graph","revision":4,"of_the_future":{"a":[1]}})");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(std::get<GraphRequest>(*back), (GraphRequest{.revision = 4}));
}

// What an engine of another version leaves out, whichever it is, keeps its default, and the rest is read.
TEST(Protocol, AnyOneFieldMayBeMissing) {
  Filler filler{std::mt19937_64(11)};
  forEveryMessage([&](const Message& empty) {
    Message full = empty;
    std::visit([&](auto& body) { filler.fill(body); }, full);
    const auto all = nlohmann::json::parse(encode(full)), defaults = nlohmann::json::parse(encode(empty));
    for (const auto& [key, value] : all.items()) {
      if (key == "event" || key == "type") continue;
      auto without = all, wanted = all;
      without.erase(key);
      wanted[key] = defaults.at(key);
      const auto back = decode(without.dump());
      ASSERT_TRUE(back.ok()) << back.error().message << "\n" << without.dump();
      EXPECT_EQ(nlohmann::json::parse(encode(*back)), wanted) << key;
    }
  });
}

// As it stands in events.jsonl of the first version.
TEST(Protocol, ADoneEventOfAnOlderEngineIsRead) {
  const auto back = decode(R"({"event":"done","steps":880,"loss":0.02,"seconds":8.5,"median_step_ms":9.1})");
  ASSERT_TRUE(back.ok()) << back.error().message;
  const auto& done = std::get<DoneEvent>(*back);
  EXPECT_EQ(done.steps, 880);
  EXPECT_EQ(done.resumed_at, 0);
  EXPECT_EQ(done.loss, 0.02);
  EXPECT_EQ(done.accuracy, std::nullopt);
  EXPECT_EQ(done.preparation_ms, 0);
  EXPECT_EQ(done.search, SearchState::Unknown);
  EXPECT_FALSE(done.stopped);
}

TEST(Protocol, HostileLinesAreErrorsWithTheirPlace) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "no JSON object"},
      {"[]", "no JSON object"},
      {"{", "no JSON object"},
      {"{}", "no type"},
      {R"({"type":5})", "no type"},
      {R"({"type":"nothing"})", "unknown message"},
      {R"({"event":"hello"})", "unknown message"},
      {R"({"type":"hello","version":"1"})", "hello, version: expected a whole number"},
      {R"({"type":"hello","version":1e99})", "expected a whole number"},
      {R"({"type":"hello","version":99999999999})", "out of range"},
      {R"({"type":"document_edited","begin":-1})", "begin: number out of range"},
      {R"({"type":"graph","nodes":[{"shape":[1,"x"]}]})", "nodes.0.shape.1: expected a whole number"},
      {R"({"type":"graph","nodes":[{"phase":"sideways"}]})", "nodes.0.phase: unknown value"},
      {R"({"type":"graph","nodes":{}})", "nodes: expected a list"},
      {R"({"type":"run","sets":[]})", "sets: expected an object"},
      {R"({"type":"run_state","loss":true})", "loss: expected a number"},
      {R"({"type":"pause","id":-3})", "id: number out of range"},
      {R"({"type":"expression","formulas":[{"nodes":[{"kind":"name","children":[0]}]}]})", "no tree"},
      {R"({"type":"expression","formulas":[{"nodes":[{"kind":"name"},{"kind":"infix","children":[0,0]}]}]})", "no tree"},
      {R"({"type":"expression","formulas":[{"nodes":[{"kind":"name"},{"kind":"name"}]}]})", "no tree"},
  };
  for (const auto& [line, message] : cases) {
    auto back = decode(line);
    ASSERT_FALSE(back.ok()) << line;
    EXPECT_EQ(back.error().stage, "protocol");
    EXPECT_NE(back.error().message.find(message), std::string::npos) << line << "\n" << back.error().message;
  }
}

TEST(Protocol, DeepNestingIsNoDanger) {
  EXPECT_FALSE(decode(std::string(1000000, '[')).ok());
  const std::string deep = R"({"type":"pause","x":)" + std::string(200000, '[') + std::string(200000, ']') + "}";
  EXPECT_TRUE(decode(deep).ok());
  Expression expression;
  Formula& formula = expression.formulas.emplace_back();
  for (std::uint32_t i = 0; i < kFormulaDepth + 1; ++i) {
    FormulaNode& node = formula.nodes.emplace_back();
    node.kind = i ? FormulaKind::Prefix : FormulaKind::Name;
    if (i) node.children = {i - 1};
  }
  EXPECT_FALSE(decode(encode(expression)).ok());
}

TEST(Protocol, RandomBytesAreNeverMoreThanErrors) {
  std::mt19937_64 rng(20261121);
  std::string base = encode(Analysis{.revision = 3, .spans = {{"", 1, 2}}}, 9);
  for (int round = 0; round < 3000; ++round) {
    std::string line = base;
    for (auto n = 1 + rng() % 4; n > 0; --n) line[rng() % line.size()] = static_cast<char>(rng());
    (void)decode(line);
  }
}

TEST(FrameReader, AnyCutOfTheStreamGivesTheSameEnvelopes) {
  std::vector<Envelope> sent;
  sent.push_back({1, Hello{.program = "neoflow"}, {}});
  sent.push_back({2, TensorSlice{.tensor = "W", .shape = {2}}, packValues({1.5, -2.25})});
  sent.push_back({3, TensorSlice{.tensor = "n"}, "\n{\"type\":\"pause\"}\n"});
  sent.push_back({0, StepEvent{.step = 4}, {}});
  std::string stream;
  for (const Envelope& e : sent) stream += encodeFrame(e);
  std::mt19937_64 rng(7);
  for (int round = 0; round < 200; ++round) {
    FrameReader reader;
    std::vector<Envelope> got;
    std::vector<Error> errors;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t n = 1 + rng() % (round % 50 + 1);
      for (Envelope& e : reader.feed(std::string_view(stream).substr(at, n), errors)) got.push_back(std::move(e));
      at += n;
    }
    EXPECT_TRUE(errors.empty());
    EXPECT_EQ(reader.pending(), 0u);
    EXPECT_EQ(got, sent);
  }
  EXPECT_EQ(unpackValues(sent[1].binary), (std::vector<double>{1.5, -2.25}));
}

TEST(FrameReader, AStrayLineIsReportedAndSkipped) {
  FrameReader reader;
  std::vector<Error> errors;
  const auto got = reader.feed("LLVM ERROR: out of registers\n\n" + encodeFrame({5, Finished{}, {}}), errors);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].id, 5u);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].detail, "LLVM ERROR: out of registers");
}

TEST(FrameReader, AnEndlessLineAndAHugeFrameBreakTheStream) {
  std::vector<Error> errors;
  FrameReader endless;
  const std::string chunk(8u << 20, 'x');
  for (int i = 0; i < 9; ++i) endless.feed(chunk, errors);
  EXPECT_TRUE(endless.broken());
  FrameReader huge;
  huge.feed("{\"type\":\"tensor\",\"binary\":999999999999}\n", errors);
  EXPECT_TRUE(huge.broken());
  EXPECT_TRUE(huge.feed("{\"type\":\"pause\"}\n", errors).empty());
  EXPECT_EQ(errors.size(), 2u);
}

}  // namespace
}  // namespace nf::protocol
