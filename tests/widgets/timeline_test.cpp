// SPDX-License-Identifier: GPL-3.0-or-later
// One step over time on the tune page: seen, zoomed, chosen by clicks and keys.
#include <gtest/gtest.h>

#include <QAction>
#include <QComboBox>
#include <QFile>
#include <QSignalSpy>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QWheelEvent>

#include "tests/widgets/capsule.h"
#include "widgets/basic.h"
#include "widgets/profile_view.h"
#include "widgets/selection.h"
#include "widgets/timeline_view.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

using namespace protocol;

// A step of 1 ms: a loop of two steps with a kernel each, a copy, two kernels of the optimizer; on the device the kernels once more.
protocol::Timeline stepTimeline() {
  protocol::Timeline t;
  t.lanes = {"steps", "stream 7"};
  t.sites = {{"aa01", "Y + L", "Y[i] = X[i]", Phase::Forward, {"Y"}, {0}},
             {"bb02", "dW + sgd", "dW[i] = Y[i]", Phase::Backward, {"dW"}, {1}},
             {"cc03", "W.next", "W[i] = W[i]", Phase::Optimizer, {}, {2}}};
  const auto add = [&](protocol::ActivityKind kind, std::uint32_t lane, std::int64_t begin, std::int64_t end, std::int64_t site,
                       std::int64_t trip = -1, const char* name = "", std::int64_t bytes = 0) {
    t.activities.push_back({kind, lane, begin, end, site, trip, bytes, name});
  };
  add(ActivityKind::Step, 0, 0, 1000000, -1);
  add(ActivityKind::Trip, 0, 10000, 200000, -1, 0, "t");
  add(ActivityKind::Launch, 0, 20000, 60000, 0, 0);
  add(ActivityKind::Kernel, 1, 50000, 150000, 0, 0, "nf_k0");
  add(ActivityKind::Trip, 0, 200000, 400000, -1, 1, "t");
  add(ActivityKind::Launch, 0, 210000, 250000, 0, 1);
  add(ActivityKind::Kernel, 1, 240000, 340000, 0, 1, "nf_k0");
  add(ActivityKind::Copy, 0, 420000, 450000, -1, -1, "within the device", 4096);
  add(ActivityKind::Launch, 0, 460000, 470000, 1);
  add(ActivityKind::Kernel, 1, 500000, 800000, 1, -1, "nf_k1");
  add(ActivityKind::Launch, 0, 480000, 490000, 2);
  add(ActivityKind::Kernel, 1, 800000, 950000, 2, -1, "nf_k2");
  t.ofDevice = true;
  return t;
}

struct TimelineTest : ::testing::Test {
  Theme theme;
  TimelineModel model;
  TimelineView view{&theme, &model};
  TimelineTest() {
    theme.setMode(Theme::Mode::Dark);
    view.resize(800, 220);
    view.show();
    EXPECT_TRUE(QTest::qWaitForWindowExposed(&view));
  }
  int row(ActivityKind kind, std::int64_t site, int which = 0) const {
    const auto& all = model.timeline().activities;
    for (int i = 0; i < model.rowCount(); ++i)
      if (all[static_cast<std::size_t>(i)].kind == kind && all[static_cast<std::size_t>(i)].site == site && which-- == 0) return i;
    return -1;
  }
  void wheel(QPointF at, int turned, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
    QWheelEvent event(at, view.mapToGlobal(at), {}, {0, turned}, Qt::NoButton, modifiers, Qt::NoScrollPhase, false);
    QCoreApplication::sendEvent(&view, &event);
  }
};

TEST_F(TimelineTest, NothingYetSaysWhatToDo) {
  EXPECT_FALSE(view.emptyText().isEmpty());
  EXPECT_EQ(view.rowAt({100, 100}), -1);
  QTest::keyClick(&view, Qt::Key_Right);
  EXPECT_EQ(view.chosen(), -1);
  protocol::Timeline large;
  large.leftOut = 20;
  model.setTimeline(large);
  EXPECT_TRUE(view.emptyText().contains("--trace"));
  model.setTimeline(stepTimeline());
  EXPECT_TRUE(view.emptyText().isEmpty());
}

TEST_F(TimelineTest, WhatIsInsideLiesBelowWhatIsAroundItAndLanesApart) {
  model.setTimeline(stepTimeline());
  view.grab();
  EXPECT_EQ(view.bands(), 4) << "steps, loop steps, launches, and the stream";
  EXPECT_EQ(view.drawn(), model.rowCount());
  const QRectF step = view.rectOf(0), trip = view.rectOf(1), launch = view.rectOf(2), kernel = view.rectOf(3);
  EXPECT_LT(step.bottom(), trip.top());
  EXPECT_LT(trip.bottom(), launch.top());
  EXPECT_LT(launch.bottom(), kernel.top());
  EXPECT_GE(launch.left(), trip.left());
  EXPECT_LE(launch.right(), trip.right());
  const QRectF optimizer = view.rectOf(row(ActivityKind::Kernel, 2));
  EXPECT_NEAR(optimizer.width() / step.width(), 0.15, 0.01);
  // A launch outside of the loop stands in the band below the step's.
  EXPECT_EQ(view.rectOf(row(ActivityKind::Launch, 1)).top(), trip.top());
}

TEST_F(TimelineTest, KernelsHaveTheColoursOfTheirPhases) {
  model.setTimeline(stepTimeline());
  const QImage image = view.grab().toImage();
  const double ratio = image.devicePixelRatio();
  const auto colorAt = [&](int r) {
    const QRectF rect = view.rectOf(r);
    return image.pixelColor(((rect.bottomRight() - QPointF(4, 3)) * ratio).toPoint());
  };
  EXPECT_EQ(colorAt(row(ActivityKind::Kernel, 0)), theme.colors().forward);
  EXPECT_EQ(colorAt(row(ActivityKind::Kernel, 1)), theme.colors().backward);
  EXPECT_EQ(colorAt(row(ActivityKind::Kernel, 2)), theme.colors().optimizer);
}

TEST_F(TimelineTest, TheWheelZoomsAtThePointerAndKeysAtTheMiddle) {
  model.setTimeline(stepTimeline());
  const QRectF kernel = view.rectOf(row(ActivityKind::Kernel, 1));
  const QPointF at = kernel.center();
  const double before = view.to() - view.from();
  wheel(at, 360);
  EXPECT_LT(view.to() - view.from(), 0.6 * before);
  EXPECT_EQ(view.rowAt(at), row(ActivityKind::Kernel, 1)) << "what is under the pointer stays there";
  const double from = view.from();
  wheel(at, -120, Qt::ShiftModifier);
  EXPECT_GT(view.from(), from);
  QTest::keyClick(&view, Qt::Key_0);
  EXPECT_EQ(view.from(), 0);
  EXPECT_EQ(view.to(), before);
  QTest::keyClick(&view, Qt::Key_Plus);
  EXPECT_NEAR((view.from() + view.to()) / 2, before / 2, 1);
  EXPECT_LT(view.to() - view.from(), before);
  const double left = view.from();
  QTest::keyClick(&view, Qt::Key_Right, Qt::ShiftModifier);
  EXPECT_GT(view.from(), left);
  QTest::keyClick(&view, Qt::Key_Minus);
  QTest::keyClick(&view, Qt::Key_Minus);
  EXPECT_EQ(view.to() - view.from(), before) << "never more than the step";
  for (int i = 0; i < 200; ++i) wheel(at, 120);
  EXPECT_GE(view.to() - view.from(), 49) << "and never less than some nanoseconds";
}

TEST_F(TimelineTest, DraggingMovesAlongAndChoosesNothing) {
  model.setTimeline(stepTimeline());
  wheel(view.rectOf(row(ActivityKind::Kernel, 1)).center(), 600);
  const double from = view.from();
  const QPoint at = view.rectOf(row(ActivityKind::Kernel, 1)).center().toPoint();
  QTest::mousePress(&view, Qt::LeftButton, {}, at);
  QTest::mouseMove(&view, at - QPoint(60, 0));
  QTest::mouseRelease(&view, Qt::LeftButton, {}, at - QPoint(60, 0));
  EXPECT_GT(view.from(), from);
  EXPECT_EQ(view.chosen(), -1);
}

TEST_F(TimelineTest, ClicksAndArrowsChoose) {
  model.setTimeline(stepTimeline());
  QSignalSpy chosen(&view, &TimelineView::chosenByHand);
  const int first = row(ActivityKind::Kernel, 0), second = row(ActivityKind::Kernel, 0, 1), third = row(ActivityKind::Kernel, 1);
  QTest::mouseClick(&view, Qt::LeftButton, {}, view.rectOf(first).center().toPoint());
  EXPECT_EQ(view.chosen(), first);
  QTest::keyClick(&view, Qt::Key_Right);
  EXPECT_EQ(view.chosen(), second);
  QTest::keyClick(&view, Qt::Key_Right);
  EXPECT_EQ(view.chosen(), third);
  QTest::keyClick(&view, Qt::Key_Left);
  EXPECT_EQ(view.chosen(), second);
  QTest::keyClick(&view, Qt::Key_Up);
  EXPECT_EQ(view.chosen(), row(ActivityKind::Launch, 0, 1)) << "the nearest of the row above";
  QTest::keyClick(&view, Qt::Key_Home);
  EXPECT_EQ(view.chosen(), 0);
  EXPECT_EQ(chosen.count(), 6);
  // Out of sight it comes into sight.
  for (int i = 0; i < 12; ++i) QTest::keyClick(&view, Qt::Key_Plus);
  QTest::keyClick(&view, Qt::Key_End);
  EXPECT_EQ(view.chosen(), model.rowCount() - 1);
  EXPECT_FALSE(view.rectOf(view.chosen()).isEmpty());
}

TEST_F(TimelineTest, AnotherProfileOfTheStepKeepsThePlace) {
  model.setTimeline(stepTimeline());
  wheel(view.rectOf(row(ActivityKind::Kernel, 1)).center(), 600);
  const double from = view.from(), to = view.to();
  model.setTimeline(stepTimeline());
  EXPECT_NEAR(view.from(), from, 1);
  EXPECT_NEAR(view.to(), to, 1);
}

TEST_F(TimelineTest, ThousandsOfLaunchesAreDrawnAsFarAsPixelsTellThemApart) {
  protocol::Timeline t;
  t.lanes = {"steps"};
  t.sites = stepTimeline().sites;
  for (int i = 0; i < 20000; ++i) t.activities.push_back({ActivityKind::Kernel, 0, i * 100, i * 100 + 90, i % 3, -1, 0, ""});
  model.setTimeline(t);
  view.grab();
  EXPECT_LT(view.drawn(), 2000);
  EXPECT_GT(view.drawn(), 300);
  wheel({400, 60}, 120 * 40);
  view.grab();
  EXPECT_LT(view.drawn(), 100);
  EXPECT_GT(view.drawn(), 0);
}

TEST_F(TimelineTest, HoverTextAndTableSayTheSame) {
  model.setTimeline(stepTimeline());
  const int r = row(ActivityKind::Kernel, 1);
  const QString text = model.textOf(r);
  EXPECT_TRUE(text.contains("dW + sgd")) << text.toStdString();
  EXPECT_TRUE(text.contains("kernel, backward"));
  EXPECT_TRUE(text.contains("dW[i] = Y[i]"));
  EXPECT_TRUE(text.contains("nf_k1"));
  EXPECT_EQ(model.data(model.index(r, TimelineModel::kWhat), Qt::DisplayRole), "kernel, backward");
  EXPECT_EQ(model.data(model.index(r, TimelineModel::kLane), Qt::DisplayRole), "stream 7");
  EXPECT_EQ(model.titleOf(1), "t = 0");
  const PlotTable table = model.table();
  ASSERT_EQ(static_cast<int>(table.rows.size()), model.rowCount());
  EXPECT_EQ(table.rows[static_cast<std::size_t>(r)][1], 300.0);
  EXPECT_EQ(table.rows[static_cast<std::size_t>(r)][7], "bb02");
}

struct TimelinePage : ::testing::Test {
  Theme theme;
  Selection selection;
  TuneView view{&theme, &selection};
  TimelinePage() {
    selection.setSpans(capsule::analysis(capsule::kText, 1).spans);
    view.resize(1500, 900);
    view.show();
    EXPECT_TRUE(QTest::qWaitForWindowExposed(&view));
    Profile p = capsule::profile(1, false);
    p.timeline = stepTimeline();
    view.setProfile(p);
  }
};

TEST_F(TimelinePage, ThreePagesOverOneChoice) {
  ProfileView* profile = view.profile();
  profile->pages()->setFocus();
  EXPECT_TRUE(profile->table()->isVisible());
  QTest::keyClick(profile->pages(), Qt::Key_Down);
  EXPECT_TRUE(profile->timeline()->isVisible());
  const int kernel = 9;
  ASSERT_EQ(profile->launches()->titleOf(kernel), "dW + sgd");
  QTest::mouseClick(profile->timeline(), Qt::LeftButton, {}, profile->timeline()->rectOf(kernel).center().toPoint());
  EXPECT_EQ(view.current(), "bb02");
  EXPECT_EQ(selection.origins(), (Origins{1}));
  EXPECT_EQ(selection.tensors(), (std::vector<std::string>{"dW"}));
  profile->pages()->setFocus();
  QTest::keyClick(profile->pages(), Qt::Key_Down);
  ASSERT_TRUE(profile->launchTable()->isVisible());
  EXPECT_EQ(profile->launchTable()->currentIndex().row(), kernel);
  profile->launchTable()->setFocus();
  QTest::keyClick(profile->launchTable(), Qt::Key_End, Qt::ControlModifier);
  EXPECT_EQ(view.current(), "cc03");
  EXPECT_EQ(selection.origins(), (Origins{2}));
  EXPECT_EQ(profile->timeline()->chosen(), profile->launches()->rowCount() - 1);
}

TEST_F(TimelinePage, WhyTheDeviceGivesNoTimesOfItsOwnIsSaid) {
  Profile p = capsule::profile(1, false);
  p.timeline = stepTimeline();
  p.timeline.ofDevice = false;
  p.timeline.why = "Only an administrator may look.";
  view.setProfile(p);
  EXPECT_FALSE(view.profile()->sentence().contains("administrator"));
  view.profile()->showPage(ProfileView::kTimeline);
  EXPECT_TRUE(view.profile()->sentence().contains("administrator"));
}

// As the rows of its kernels are.
TEST_F(TimelinePage, LaunchesOfAnEarlierStepAreGrey) {
  auto now = capsule::subgraphs();
  std::erase_if(now, [](const SubgraphInfo& s) { return s.id == "bb02"; });
  const auto colours = [&](bool grey) {
    std::set<std::string> subgraphs;
    const TimelineModel* launches = view.profile()->launches();
    for (int row = 0; row < launches->rowCount(); ++row)
      if (const auto* site = launches->siteOf(row);
          site && launches->timeline().activities[static_cast<std::size_t>(row)].kind == ActivityKind::Kernel &&
          (view.profile()->timeline()->colorOf(row) == theme.colors().muted) == grey)
        subgraphs.insert(site->subgraph);
    return subgraphs;
  };
  view.setSubgraphs(capsule::subgraphs());
  EXPECT_EQ(colours(true), std::set<std::string>());
  view.setSubgraphs(now);
  EXPECT_EQ(colours(true), std::set<std::string>{"bb02"});
  EXPECT_TRUE(colours(false).contains("cc03"));
  view.setStep("cpu", true);
  EXPECT_EQ(colours(false), std::set<std::string>()) << "of another text";
}

TEST_F(TimelinePage, WhatIsShownIsSaved) {
  QTemporaryDir folder;
  view.profile()->showPage(ProfileView::kLaunches);
  ASSERT_EQ(view.profile()->save(folder.filePath("launches.csv")), "");
  QFile file(folder.filePath("launches.csv"));
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  const QList<QByteArray> lines = file.readAll().trimmed().split('\n');
  EXPECT_EQ(lines.size(), view.profile()->launches()->rowCount() + 1);
  EXPECT_TRUE(lines[0].contains("lane"));
}

}  // namespace
}  // namespace nf
