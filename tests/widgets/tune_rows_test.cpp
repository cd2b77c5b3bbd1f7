// SPDX-License-Identifier: GPL-3.0-or-later
// Rows of the tune page's kernels: which are marked, what their figures say, and what a trial says of them.
#include <gtest/gtest.h>

#include <QApplication>
#include <QLabel>
#include <QListWidget>
#include <QScrollArea>
#include <QScrollBar>
#include <QTableView>
#include <algorithm>

#include "tests/widgets/capsule.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/profile_view.h"
#include "widgets/tune_trials.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

using namespace protocol;

// Three kernels, T0 to T2, with a row each in the list and in the profile.
struct Marked : Tuning {
  TuneView view{&theme, &selection};
  std::vector<SubgraphInfo> kernels = capsule::subgraphs();

  void show(const std::vector<Origins>& origins) {
    view.resize(1600, 1000);
    view.show();
    kernels.resize(origins.size());
    Profile profile;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      kernels[i].origins = origins[i], kernels[i].operators = {"T" + std::to_string(i)};
      KernelTimeInfo k;
      k.subgraph = kernels[i].id, k.name = kernels[i].name, k.us = 10, k.calls = 1;
      profile.kernels.push_back(k);
    }
    view.setSubgraphs(kernels);
    view.setProfile(profile, std::chrono::steady_clock::now());
  }
  std::string marked() const {
    const QAbstractItemModel* rows = view.profile()->table()->model();
    std::string out;
    for (int i = 0; i < rows->rowCount(); ++i) out += rows->index(i, 0).data(ProfileModel::kHoldsRole).toBool() ? '+' : '-';
    return out;
  }
  // At the left edge of its row.
  QColor edge(int row) const {
    const QRect r = view.list()->visualItemRect(view.list()->item(row));
    return view.list()->viewport()->grab().toImage().pixelColor(1, r.center().y());
  }
};

// One kernel is shown; all that have a part of what is selected are marked.
TEST_F(Marked, EveryKernelThatHasWhatIsSelected) {
  show({{0}, {0}, {2}});
  EXPECT_EQ(marked(), "---");
  selection.setSpans({{"", 0, 4}, {"", 5, 6}, {"", 8, 9}});
  selection.select({0});
  EXPECT_EQ(marked(), "++-");
  EXPECT_EQ(edge(0), edge(1)) << "the one that is shown, and the other";
  EXPECT_EQ(edge(1), theme.colors().accent);
  EXPECT_NE(edge(2), edge(1));
  selection.select({2});
  EXPECT_EQ(marked(), "--+");
  selection.select({0}, {"T1"});
  EXPECT_EQ(marked(), "-+-");
}

// What is chosen by its name may be computed again in another kernel, under another name.
TEST_F(Marked, EveryKernelThatComputesAgainWhatIsChosenByItsName) {
  show({{0}, {0}, {2}});
  selection.setSpans({{"", 0, 4}, {"", 5, 6}, {"", 8, 9}});
  selection.select({0}, {"T1"});
  view.setLed({"T2"});
  EXPECT_EQ(marked(), "-++");
  EXPECT_EQ(edge(2), edge(1));
  selection.select({0}, {"T0"});
  EXPECT_EQ(marked(), "+--") << "what was told of another choice is of that";
}

// A kernel's places are those of its statements: that it reads the selected access is known by the operators that the access leads to.
TEST_F(Marked, TheKernelThatReadsWhatIsSelectedIsShownBeforeThatOfItsGradient) {
  selection.setSpans({{"", 0, 10}, {"", 12, 20}, {"", 3, 5}});
  show({{0}, {2}, {1}});
  for (const std::string& open : {kernels[2].id, kernels[1].id, kernels[0].id}) {
    SCOPED_TRACE(open);
    selection.clear();
    view.chooseSubgraph(open);
    selection.select({2});
    view.setLed({"T0", "T1"});
    EXPECT_EQ(view.current(), kernels[0].id);
    EXPECT_EQ(marked(), "++-");
  }
  selection.select({1});
  EXPECT_EQ(marked(), "--+") << "what the last selection led to";
  EXPECT_EQ(view.current(), kernels[2].id);
}

// While a search runs, its trials come faster than the word of how many there are.
TEST_F(Tuning, ARowCountsTheTrialsOfItsPlot) {
  TuneView view(&theme, &selection);
  auto subgraphs = capsule::subgraphs();
  ASSERT_EQ(subgraphs[0].id, "aa01");
  const auto trials = capsule::trials(5);
  subgraphs[0].trials = 2;
  const auto says = [&](const QString& count) { return view.list()->item(0)->toolTip().contains(count); };
  view.setSubgraphs(subgraphs);
  EXPECT_TRUE(says("2 trials")) << view.list()->item(0)->toolTip().toStdString();
  const QString all = QString::number(trials.size()) + " trials";
  view.setTrials("aa01", trials);
  EXPECT_TRUE(says(all)) << view.list()->item(0)->toolTip().toStdString();
  view.setSubgraphs(subgraphs);
  EXPECT_TRUE(says(all)) << view.list()->item(0)->toolTip().toStdString();
}

TrialInfo timed(double us) {
  TrialInfo trial;
  trial.us = us;
  return trial;
}

TEST(TuneRow, AKernelThatWasOnlyCheckedIsNotWithoutTrials) {
  SubgraphInfo kernel;
  EXPECT_EQ(timeText(kernel), "no trial");
  kernel.trials = 19;
  EXPECT_EQ(timeText(kernel), "not timed");
  kernel.us = 0.157;
  EXPECT_EQ(timeText(kernel), "157 ns");
}

// What somebody has pinned may be slower than all else: its row says so, and nothing of what the search was worth.
TEST(TuneRow, APinnedKernelIsHeldAgainstTheBest) {
  const TrialInfo of60 = timed(60), of65 = timed(65);
  SubgraphInfo kernel;
  kernel.firstUs = 65;
  kernel.generation = 1;
  kernel.us = 60;
  EXPECT_EQ(gainText(kernel, &of60), "1.08× first");
  kernel.us = 65;
  EXPECT_EQ(gainText(kernel, &of65), "faster in turns");
  kernel.state = SubgraphState::Pinned;
  EXPECT_EQ(gainText(kernel, &of65), "pinned, fastest trial");
  kernel.us = 193;
  EXPECT_EQ(gainText(kernel, &of60), "pinned, 3.22× as slow as the best");
  kernel.us = 60.1;
  EXPECT_EQ(gainText(kernel, &of60), "pinned, as fast as the best") << "another trial was the fastest";
  TrialInfo again = of60;
  again.schedule.text = R"({"kind":"nest"})";
  kernel.made = KernelMaking{again.schedule, false};
  EXPECT_EQ(gainText(kernel, &again), "pinned, fastest trial") << "the same kernel at another moment";
  EXPECT_EQ(gainText(kernel, nullptr), "pinned") << "nothing to hold it against";
  kernel.us.reset();
  EXPECT_EQ(gainText(kernel, &of60), "pinned") << "it was never measured";
}

TEST(TuneRow, TheTipSaysWhatTheFiguresAreOf) {
  const TrialInfo of134 = timed(134), of98 = timed(98);
  SubgraphInfo kernel;
  kernel.name = "Y", kernel.firstUs = 143, kernel.us = 134, kernel.trials = 33, kernel.generation = 1;
  EXPECT_TRUE(rowTip(kernel).contains("134 µs: the best trial")) << rowTip(kernel).toStdString();
  kernel.inUse.text = "{}";
  EXPECT_TRUE(rowTip(kernel).contains("134 µs: the kernel that the training runs")) << rowTip(kernel).toStdString();
  EXPECT_TRUE(rowTip(kernel).contains("first, 143 µs: what the first run on this device began with"));
  EXPECT_TRUE(rowTip(kernel).contains("33 trials, those of earlier runs"));
  EXPECT_FALSE(rowTip(kernel).contains("faster in turns"));
  EXPECT_FALSE(rowTip(kernel, &of134).contains("fastest trial"));
  EXPECT_TRUE(rowTip(kernel, &of98).contains("fastest trial, 98.0 µs, as it was timed by itself"))
      << rowTip(kernel, &of98).toStdString();
  kernel.us = 145;
  EXPECT_EQ(gainText(kernel, nullptr), "faster in turns");
  EXPECT_TRUE(rowTip(kernel).contains("faster in turns: its trial is not faster")) << rowTip(kernel).toStdString();
  kernel.state = SubgraphState::Pinned;
  EXPECT_TRUE(rowTip(kernel).contains("145 µs: the pinned kernel")) << rowTip(kernel).toStdString();
  EXPECT_FALSE(rowTip(kernel).contains("first")) << rowTip(kernel).toStdString();
}

// The first kernel's time is of its own moment: what a trial was against in turns says whether it is any better.
TEST(TuneRow, ATrialThatIsNoFasterInTurnsSaysAgainstWhat) {
  SubgraphInfo kernel;
  kernel.name = "Y", kernel.firstUs = kernel.us = 361, kernel.inUse.text = "{}";
  TrialInfo fastest;
  fastest.us = 174;
  EXPECT_EQ(gainText(kernel, &fastest), "first; best 174 µs");
  fastest.besideUs = 181;
  EXPECT_EQ(gainText(kernel, &fastest), "first; 174 µs vs 181 µs");
  EXPECT_TRUE(
      rowTip(kernel, &fastest).contains("fastest trial: in turns with the best until then 174 µs against 181 µs: no faster"))
      << rowTip(kernel, &fastest).toStdString();
  fastest.besideUs = 240, fastest.won = true;
  EXPECT_TRUE(rowTip(kernel, &fastest).contains("174 µs against 240 µs: faster, the steps decide"))
      << rowTip(kernel, &fastest).toStdString();
}

// A row says the same before and after it is chosen.
TEST_F(Tuning, ARowKnowsItsFastestTrialThoughAnotherIsChosen) {
  TuneView view(&theme, &selection);
  auto subgraphs = capsule::subgraphs();
  SubgraphInfo& other = subgraphs[1];
  other.us = other.firstUs = 361, other.generation = 0;
  view.setSubgraphs(subgraphs);
  view.chooseSubgraph(subgraphs[0].id);
  TrialInfo trial;
  trial.us = 174, trial.besideUs = 181;
  view.setTrials(other.id, {trial});
  QStringList rows;
  for (const QListWidget* list : view.findChildren<QListWidget*>())
    for (int i = 0; i < list->count(); ++i) rows << list->item(i)->data(Qt::AccessibleDescriptionRole).toString();
  EXPECT_TRUE(rows.contains("first; 174 µs vs 181 µs")) << rows.join(", ").toStdString();
}

TEST_F(Tuning, TheLineageOfATrialSaysWhatItWasAgainst) {
  TuneView view(&theme, &selection);
  view.resize(1600, 1000);
  view.show();
  view.setSubgraphs(capsule::subgraphs());
  view.chooseSubgraph("aa01");
  auto trials = capsule::trials(5);
  ASSERT_TRUE(trials[1].us);
  trials[1].besideUs = *trials[1].us + 7;
  view.setTrials("aa01", trials);
  view.chooseTrial(trials[1].number);
  EXPECT_TRUE(view.lineage().contains("in turns with the best until then")) << view.lineage().toStdString();
  view.chooseTrial(trials[0].number);
  EXPECT_FALSE(view.lineage().contains("in turns")) << "a first kernel takes none";
}

// Its ancestors scroll with the knobs in a low window and stand below them in a tall one.
TEST_F(Tuning, ALongLineageLeavesRowsInSight) {
  TuneView view(&theme, &selection);
  auto trials = capsule::trials(12);
  ASSERT_EQ(trials.size(), 12u);
  for (std::size_t i = 1; i < trials.size(); ++i) trials[i].parents = {trials[i - 1].number};
  view.setSubgraphs(capsule::subgraphs());
  view.chooseSubgraph("aa01");
  view.setSpace(capsule::space("aa01"));
  view.setTrials("aa01", trials);
  for (const QWidget* w : QApplication::topLevelWidgets()) EXPECT_TRUE(!w->isVisible()) << "before the page was ever shown";
  view.resize(1300, 520);
  view.show();
  const auto* details = view.findChild<QScrollArea*>("trialDetails");
  ASSERT_TRUE(details);
  const auto chosen = [&](std::uint64_t trial) {
    view.chooseTrial(trial);
    for (int i = 0; i < 3; ++i) QCoreApplication::processEvents();
    const QList<QLabel*> labels = view.findChildren<QLabel*>();
    const auto lineage = std::ranges::find(labels, view.lineage(), &QLabel::text);
    return lineage == labels.end() ? nullptr : *lineage;
  };
  ASSERT_TRUE(chosen(trials[0].number));
  const int before = view.list()->height();
  EXPECT_GE(before, 2 * view.list()->sizeHintForRow(0));
  const QLabel* lineage = chosen(trials.back().number);
  ASSERT_TRUE(lineage);
  EXPECT_TRUE(lineage->isVisible() && details->isAncestorOf(lineage));
  EXPECT_GE(lineage->height(), lineage->heightForWidth(lineage->width()));
  EXPECT_EQ(view.list()->height(), before);
  EXPECT_GT(details->verticalScrollBar()->maximum(), 0);
  view.resize(1600, 940);
  lineage = chosen(trials.back().number);
  ASSERT_TRUE(lineage);
  EXPECT_TRUE(lineage->isVisible() && !details->isAncestorOf(lineage));
  EXPECT_GE(lineage->mapTo(&view, QPoint()).y(), details->mapTo(&view, details->rect().bottomLeft()).y());
  view.resize(1300, 520);
  EXPECT_TRUE(details->isAncestorOf(chosen(trials.back().number)));
}

}  // namespace
}  // namespace nf
