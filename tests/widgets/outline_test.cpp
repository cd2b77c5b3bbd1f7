// SPDX-License-Identifier: GPL-3.0-or-later
// What the outline calls cells.
#include <gtest/gtest.h>

#include "widgets/outline_view.h"

namespace nf {
namespace {

TEST(CellTitle, NamesWhatAPersonNamedAndNotItsParts) {
  const auto isResult = [](const std::string& name) { return name == "L" || name == "accuracy"; };
  EXPECT_EQ(cellTitle({"P.sum", "P", "L"}, isResult), "P, L");
  EXPECT_EQ(cellTitle({"A", "B", "L.P.M", "L.P.S", "L.P", "C", "L", "accuracy"}, isResult), "L, accuracy, A, ...");
  EXPECT_EQ(cellTitle({"A", "B", "L"}, isResult), "A, B, L");
  EXPECT_EQ(cellTitle({"X.a", "X.b", "X.c", "X.d"}, isResult), "X.a, X.b, X.c, ...") << "there is nothing else to name it by";
  EXPECT_EQ(cellTitle({}, isResult), "");
}

}  // namespace
}  // namespace nf
