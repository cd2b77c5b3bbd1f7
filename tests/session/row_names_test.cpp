// SPDX-License-Identifier: Apache-2.0
#include "core/support/row_names.h"

#include <gtest/gtest.h>

namespace nf {
namespace {

using Names = std::vector<std::string>;

TEST(RowNames, NoTwoRowsReadAlike) {
  EXPECT_EQ(rowNames({{"Conv", "5e07aa"}, {"Y", "99"}}, 20), (Names{"Conv", "Y"}));
  // Cut to the same beginning, and of the same name.
  EXPECT_EQ(
      rowNames({{"Space + Joined + d(L)/d(Joined) + d(L)/d(W)", "5e07aa"}, {"Space + Joined + d(L)/d(Joined) + L", "11aa00"}}, 24),
      (Names{"Space + Joined + \u2026 #5e07", "Space + Joined + \u2026 #11aa"}));
  EXPECT_EQ(rowNames({{"d(L)/d(c)", "5e07aa"}, {"d(L)/d(c)", "11aa00"}, {"c", "7"}}, 24),
            (Names{"d(L)/d(c) #5e07", "d(L)/d(c) #11aa", "c"}));
  // As much of the id as it takes.
  EXPECT_EQ(rowNames({{"a", "12345678"}, {"a", "12349999"}}, 24), (Names{"a #12345678", "a #12349999"}));
}

TEST(RowNames, ACharacterIsAColumn) {
  EXPECT_EQ(
      rowNames({{"\u03b1\u03b2\u03b3\u03b4\u03b1\u03b2\u03b3\u03b4\u03b1\u03b2\u03b3\u03b4\u03b1\u03b2\u03b3\u03b4", "12345678"}},
               16),
      (Names{"\u03b1\u03b2\u03b3\u03b4\u03b1\u03b2\u03b3\u03b4\u03b1\u03b2\u03b3\u03b4\u03b1\u03b2\u03b3\u03b4"}));
  EXPECT_EQ(
      rowNames({{"\u03b1\u03b2\u03b3\u03b4\u03b1\u03b2\u03b3\u03b4\u03b1\u03b2\u03b3\u03b4\u03b1\u03b2\u03b3\u03b4x", "12345678"}},
               16),
      (Names{"\u03b1\u03b2\u03b3\u03b4\u03b1\u03b2\u03b3\u03b4\u03b1\u2026 #1234"}));
  EXPECT_EQ(padded("\u03b1", 3), "\u03b1  ");
}

}  // namespace
}  // namespace nf
