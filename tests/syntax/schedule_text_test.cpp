// SPDX-License-Identifier: Apache-2.0
#include "core/syntax/schedule_text.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

namespace nf {
namespace {

using Json = nlohmann::json;

TEST(ScheduleText, IsWhatAPersonReads) {
  const std::string json =
      R"({"kind":"contraction","knobs":{"order":"rows","rows":"0:k*2 2:j*4","tile":[8,[2,-1]],"unroll":4},"version":1})";
  const std::string text = "{ kind = contraction; order = rows; rows = \"0:k*2 2:j*4\"; tile = [8, [2, -1]]; unroll = 4 }";
  EXPECT_EQ(scheduleText(json), text);
  EXPECT_EQ(readSchedule(text).json, json);
  EXPECT_EQ(scheduleText(json, 10, 40),
            "{\n  kind = contraction; order = rows\n  rows = \"0:k*2 2:j*4\"\n  tile = [8, [2, -1]]; unroll = 4\n}");
  EXPECT_EQ(readSchedule(scheduleText(json, 10, 40)).json, json);
  EXPECT_EQ(readSchedule("{kind=nest,#words\nin = \"\"\n}").json, R"({"kind":"nest","knobs":{"in":""},"version":1})");
}

TEST(ScheduleText, WhatHasNoWordsStaysJson) {
  for (const char* json : {R"({"kind":"nest","knobs":{"a":{"b":1}}})", R"({"kind":"nest","knobs":{"a":true}})", R"({"tile":[8]})",
                           R"({"kind":"nest","knobs":{"a b":1}})", R"({"kind":"nest","knobs":{},"version":2})",
                           R"({"kind":"nest","knobs":{"a":"\""}})", R"({"kind":"nest","knobs":{"kind":1}})", "{", "", "x"})
    EXPECT_EQ(scheduleText(json), json);
  EXPECT_EQ(readSchedule(R"( {"knobs": {}, "kind": "nest"} )").json, R"({"kind":"nest","knobs":{},"version":1})");
  for (const char* other : {"{}", "{ }", "", "{\"kind\": ", "{\"tile\": [8]}"}) {
    EXPECT_EQ(readSchedule(other).json, other);
    EXPECT_EQ(readSchedule(other).mistake, "");
  }
}

TEST(ScheduleText, AMistakeHasItsPlace) {
  const auto mistake = [](const std::string& text) {
    const ScheduleReading read = readSchedule(text);
    EXPECT_LE(read.end, text.size());
    return text.substr(read.begin, read.end - read.begin) + ": " + read.mistake;
  };
  EXPECT_EQ(mistake("{ kind = nest; tile 8 }"), "8: expected `=` and the value of `tile`");
  EXPECT_EQ(mistake("{ kind = nest unroll = 2 }"), "unroll: expected `;` or `}`");
  EXPECT_EQ(mistake("{ kind = nest; a = 1; a = 2 }"), "a: `a` stands twice");
  EXPECT_EQ(mistake("{ kind = 3 }"), "3: the kind of a schedule is a word");
  EXPECT_EQ(mistake("{ kind = nest; a = [1 2] }"), "2: expected `,` or `]`");
  EXPECT_EQ(mistake("{ kind = nest; a = -b }"), "b: expected a number, a word, a string in quotes or a list of them");
  EXPECT_EQ(mistake("{ 3 = 4 }"), "3: expected the name of a knob");
}

TEST(ScheduleText, AnyScheduleComesBack) {
  std::mt19937 random(11);
  const std::vector<std::string> words{"rows", "sum", "in",    "inf", "nan", "true", "a.b", "8",
                                       "",     "_",   "0:k*2", "a b", "λ",   "\"",   "{",   "x\ny"};
  const auto pick = [&](std::size_t n) { return random() % n; };
  const std::function<Json(int)> value = [&](int depth) -> Json {
    switch (pick(depth < 3 ? 6 : 4)) {
      case 0: return static_cast<std::int64_t>(random()) - 1'000'000'000;
      case 1: return 1e-3 * static_cast<double>(random());
      case 2:
      case 3: return words[pick(words.size())];
      default: {
        Json list = Json::array();
        for (std::size_t i = pick(4); i > 0; --i) list.push_back(value(depth + 1));
        return list;
      }
    }
  };
  for (int round = 0; round < 2000; ++round) {
    Json json{{"kind", words[pick(words.size())]}, {"knobs", Json::object()}, {"version", 1}};
    for (std::size_t i = pick(5); i > 0; --i) json["knobs"][words[pick(words.size())]] = value(0);
    for (const std::size_t columns : {20u, 80u, 10000u}) {
      const ScheduleReading read = readSchedule(scheduleText(json.dump(), 12, columns));
      EXPECT_EQ(read.mistake, "") << json.dump();
      EXPECT_EQ(read.json, json.dump()) << scheduleText(json.dump(), 12, columns);
    }
  }
}

TEST(ScheduleText, AnyBytesAreReadOrRefused) {
  std::mt19937 random(12);
  const std::string_view letters = "{}[]=;,:\"#-.9ak \n\xce\xbb\xff\\";
  for (int round = 0; round < 5000; ++round) {
    std::string text = "{ k";
    for (std::size_t i = random() % 24; i > 0; --i) text += letters[random() % letters.size()];
    const ScheduleReading read = readSchedule(text);
    EXPECT_TRUE(read.mistake.empty() ? !read.json.empty() : read.begin <= read.end && read.end <= text.size()) << text;
    readSchedule(text.substr(2));
  }
}

}  // namespace
}  // namespace nf
