// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz_options.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace nf::testing {
namespace {

TEST(FuzzOptions, AreReadToTheLastCharacter) {
  const std::array given = {"--seconds", "0.5", "--cases", "12", "--seed", "18446744073709551615", "--second-order"};
  const auto options = parseFuzzOptions(given);
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->seconds, 0.5);
  EXPECT_EQ(options->cases, 12u);
  EXPECT_EQ(options->seed, ~std::uint64_t{0});
  EXPECT_TRUE(options->secondOrder);
  const auto none = parseFuzzOptions({});
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->seed || none->secondOrder);
}

// A run that checks nothing is no run in which nothing is wrong.
TEST(FuzzOptions, WhatIsNoNumberIsRefused) {
  struct Case {
    std::vector<const char*> given;
    std::string message;
  };
  for (const auto& [given, message] :
       {Case{{"--seconds", "abc"}, "--seconds abc is no number of seconds from 0.001 to 1e9."},
        {{"--seconds", "-1"}, "--seconds -1 is no number of seconds from 0.001 to 1e9."},
        {{"--seconds", "0"}, "--seconds 0 is no number of seconds from 0.001 to 1e9."},
        {{"--seconds", "nan"}, "--seconds nan is no number of seconds from 0.001 to 1e9."},
        {{"--seconds", "inf"}, "--seconds inf is no number of seconds from 0.001 to 1e9."},
        {{"--seconds", "60s"}, "--seconds 60s is no number of seconds from 0.001 to 1e9."},
        {{"--seconds", ""}, "--seconds  is no number of seconds from 0.001 to 1e9."},
        {{"--cases", "0"}, "--cases 0 is no whole number from 1 on."},
        {{"--cases", "-5"}, "--cases -5 is no whole number from 1 on."},
        {{"--cases", "1.5"}, "--cases 1.5 is no whole number from 1 on."},
        {{"--cases", "99999999999999999999"}, "--cases 99999999999999999999 is no whole number from 1 on."},
        {{"--seed", "x"}, "--seed x is no whole number from 0 to 18446744073709551615."},
        {{"--seed", "7 "}, "--seed 7  is no whole number from 0 to 18446744073709551615."},
        {{"--seed"}, "--seed needs a number."},
        {{"--bogus"}, "There is no option --bogus."}}) {
    const auto options = parseFuzzOptions(given);
    ASSERT_FALSE(options.ok()) << message;
    EXPECT_EQ(options.error().message, message);
  }
}

}  // namespace
}  // namespace nf::testing
