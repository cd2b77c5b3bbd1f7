// SPDX-License-Identifier: GPL-3.0-or-later
// Counters of the old and the new kernel beside each other.
#include <gtest/gtest.h>

#include <QComboBox>
#include <QTableWidget>
#include <QTest>

#include "tests/widgets/capsule.h"
#include "widgets/basic.h"
#include "widgets/counters_view.h"
#include "widgets/profile_view.h"
#include "widgets/selection.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

using namespace protocol;

CounterInfo counters(double us, double occupancy, const char* most) {
  CounterInfo c;
  c.us = us, c.flops = 3e6, c.dramBytes = 2 << 20, c.l2Bytes = 4 << 20, c.occupancy = occupancy;
  c.stalls = {{most, 0.6}, {"wait", 0.4}};
  c.lines = {{17, 42, most}};
  return c;
}

KernelCountersEvent swapped(const char* subgraph) {
  KernelCountersEvent e;
  e.subgraph = subgraph;
  e.before.counters = counters(100, 0.25, "long_scoreboard");
  e.after.counters = counters(50, 0.5, "barrier");
  return e;
}

struct CountersTest : ::testing::Test {
  Theme theme;
  Selection selection;
  TuneView view{&theme, &selection};
  CountersTest() {
    view.resize(1500, 900);
    view.show();
    EXPECT_TRUE(QTest::qWaitForWindowExposed(&view));
    view.setProfile(capsule::profile(1, false));
    view.profile()->pages()->setFocus();
    for (int i = 0; i < 3; ++i) QTest::keyClick(view.profile()->pages(), Qt::Key_Down);
  }
  CountersView* page() { return view.profile()->counters(); }
  QString cell(const QString& what, int column) {
    for (int r = 0; r < page()->rows()->rowCount(); ++r)
      if (page()->rows()->item(r, 0)->text() == what) return page()->rows()->item(r, column)->text();
    return QStringLiteral("none");
  }
};

TEST_F(CountersTest, WithoutCountersItSaysWhatWouldStandHere) {
  EXPECT_TRUE(page()->isVisible());
  EXPECT_FALSE(page()->rows()->isVisible());
  EXPECT_TRUE(page()->sentence().contains("GPU"));
  KernelCountersEvent refused;
  refused.subgraph = "aa01";
  refused.missing = "Only an administrator may look.";
  view.addCounters(refused);
  EXPECT_EQ(page()->sentence(), "Only an administrator may look.");
}

TEST_F(CountersTest, OldAndNewStandBesideEachOther) {
  view.chooseSubgraph("aa01");
  view.addCounters(swapped("aa01"));
  ASSERT_TRUE(page()->rows()->isVisible());
  EXPECT_EQ(cell("time", 1), "100 µs");
  EXPECT_EQ(cell("time", 2), "50.0 µs");
  EXPECT_EQ(cell("time", 3), "-50 %");
  EXPECT_EQ(cell("resident warps", 1), "25.0 %");
  EXPECT_EQ(cell("resident warps", 3), "+100 %");
  EXPECT_EQ(cell("stalled: long scoreboard", 1), "60.0 %");
  EXPECT_EQ(cell("stalled: long scoreboard", 2), "0.0 %");
  EXPECT_EQ(cell("line 17, samples: barrier", 2), "42");
  EXPECT_EQ(static_cast<int>(page()->table().rows.size()), page()->rows()->rowCount());
  // Of the chosen kernel alone; a row of the profile chooses.
  view.profile()->showPage(ProfileView::kKernels);
  view.profile()->table()->setFocus();
  QTest::keyClick(view.profile()->table(), Qt::Key_Home, Qt::ControlModifier);
  ASSERT_EQ(view.current(), "bb02");
  view.profile()->showPage(ProfileView::kCounters);
  EXPECT_FALSE(page()->rows()->isVisible());
}

TEST_F(CountersTest, AProfileGivesTheKernelInUseAndASwapGoesBeforeIt) {
  view.chooseSubgraph("aa01");
  Profile p = capsule::profile(1, false);
  p.kernels[1].counters = counters(70, 0.3, "wait");
  view.setProfile(p);
  EXPECT_EQ(cell("time", 1), QStringLiteral("\u2013"));
  EXPECT_EQ(cell("time", 2), "70.0 µs");
  view.addCounters(swapped("aa01"));
  view.setProfile(p);
  EXPECT_EQ(cell("time", 1), "100 µs");
  EXPECT_EQ(cell("time", 2), "50.0 µs");
}

}  // namespace
}  // namespace nf
