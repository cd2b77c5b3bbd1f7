// SPDX-License-Identifier: GPL-3.0-or-later
// Values of a tensor and figures of a run, where there is little room or little was told.
#include <gtest/gtest.h>

#include <QLabel>
#include <QSpinBox>
#include <QStackedWidget>
#include <QTest>
#include <QWheelEvent>

#include "widgets/basic.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"

namespace nf {
namespace {

using namespace protocol;

struct Values : ::testing::Test {
  Theme theme;
  Values() { theme.setMode(Theme::Mode::Light); }
};

TEST_F(Values, AMessageWithAWordOfTenThousandLettersIsNoWiderThanOthers) {
  const MessageStrip strip(&theme, true, "`" + QString(10000, 'x') + "` is not defined");
  EXPECT_LT(strip.minimumSizeHint().width(), 640);
  EXPECT_EQ(codeText("`Wt` & others"), "<b>Wt</b> &amp; others");
  EXPECT_EQ(plainCodeText("expected `)` or `,`, found `Wt`"), u"expected “)” or “,”, found Wt");
}

QImage pictureIn(const TensorView& view) {
  for (QWidget* w : view.findChildren<QWidget*>())
    if (w->isVisible() && w->accessibleName().startsWith("Values as a picture")) return w->grab().toImage();
  ADD_FAILURE() << "no picture is shown";
  return QImage(1, 1, QImage::Format_RGB32);
}

TEST_F(Values, APictureOfZerosIsSeenOnALightPage) {
  TensorView view(&theme, false);
  view.resize(600, 400);
  view.show();
  view.setTensor("w", {5});
  TensorSlice slice;
  slice.tensor = "w", slice.shape = {5}, slice.begin = {0}, slice.end = {5}, slice.histogram = {5};
  view.setSlice(slice, std::vector<double>(5, 0));
  QCoreApplication::processEvents();
  const QImage shot = pictureIn(view);
  const QColor separator = theme.colors().separator;
  int framed = 0;
  for (int x = 0; x < shot.width() / 2; ++x) framed += shot.pixelColor(x, 0) == separator;
  EXPECT_GT(framed, shot.width() / 4) << "the row above the cells";
}

// What is no number has a colour of its own, which the scale names.
TEST_F(Values, TheScaleNamesTheColourOfWhatIsNoNumber) {
  TensorView view(&theme, false);
  view.resize(600, 400);
  view.show();
  view.setTensor("w", {4, 4});
  TensorSlice slice;
  slice.tensor = "w", slice.shape = {4, 4}, slice.begin = {0, 0}, slice.end = {4, 4}, slice.histogram = {16};
  const auto greyBesideTheCells = [&](double odd) {
    view.setSlice(slice, {1, 1, 1, 1, 1, odd, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
    QCoreApplication::processEvents();
    const QImage shot = pictureIn(view);
    int grey = 0;
    for (int y = 0; y < shot.height(); ++y)
      for (int x = std::min(shot.width(), shot.height()); x < shot.width(); ++x)
        grey += shot.pixelColor(x, y) == QColor(0x80, 0x80, 0x80);
    return grey;
  };
  const int none = greyBesideTheCells(0.5);
  EXPECT_GE(greyBesideTheCells(std::nan("")), none + 30);
  EXPECT_GE(greyBesideTheCells(INFINITY), none + 30);
  EXPECT_EQ(greyBesideTheCells(0.5), none);
}

// Logits: many rows, few columns. Each column has its own colour.
TEST_F(Values, ATallNarrowPictureShowsItsColumns) {
  TensorView view(&theme, false);
  view.resize(600, 400);
  view.show();
  constexpr std::int64_t kRows = 240;
  view.setTensor("K", {kRows, 2});
  TensorSlice slice;
  slice.tensor = "K", slice.shape = {kRows, 2}, slice.begin = {0, 0}, slice.end = {kRows, 2};
  slice.min = -1, slice.max = 1, slice.histogram = {kRows, kRows};
  std::vector<double> values;
  for (std::int64_t i = 0; i < kRows; ++i) values.insert(values.end(), {1, -1});
  view.setSlice(slice, values);
  QCoreApplication::processEvents();
  const QImage shot = pictureIn(view);
  for (const int y : {shot.height() / 4, shot.height() / 2}) {
    const QColor left = shot.pixelColor(8, y), right = shot.pixelColor(30, y);
    EXPECT_GT(left.red(), left.blue() + 60) << left.name().toStdString();
    EXPECT_GT(right.blue(), right.red() + 60) << right.name().toStdString();
  }
}

// Who scrolls past a number or a choice does not turn it.
TEST_F(Values, TheWheelOverAnIndexScrollsThePage) {
  TensorView view(&theme, false);
  view.setTensor("w", {3, 4, 5});
  view.show();
  QSpinBox* const place = view.place(0);
  ASSERT_TRUE(place);
  place->setValue(1);
  QWheelEvent wheel(QPointF(5, 5), place->mapToGlobal(QPointF(5, 5)), {}, {0, 120}, Qt::NoButton, Qt::NoModifier, Qt::NoScrollPhase,
                    false);
  QApplication::sendEvent(place, &wheel);
  EXPECT_EQ(place->value(), 1);
  EXPECT_FALSE(wheel.isAccepted());
  QTest::keyClick(place, Qt::Key_Up);
  EXPECT_EQ(place->value(), 2);
}

// The values' row breaks: neither a long name nor many axes push the rest out of sight.
TEST_F(Values, TheRowOfATensorsValuesFitsItsPanel) {
  for (const bool compact : {false, true}) {
    TensorView view(&theme, compact);
    const int width = compact ? 320 : 480;
    EXPECT_TRUE(compact || view.minimumSizeHint().width() < width);
    view.resize(width, 600);
    view.show();
    const std::string name = "d(L)/d(encoder.layer3.block2.attention.projection.weight)";
    const std::vector<std::int64_t> shape{3, 200, 3, 3, 3, 3, 3, 4, 4};
    view.setTensor(QString::fromStdString(name), shape);
    TensorSlice slice;
    slice.tensor = name, slice.shape = shape, slice.begin.assign(9, 0), slice.end = {1, 1, 1, 1, 1, 1, 1, 4, 4};
    slice.min = -1, slice.max = 1, slice.histogram = {1, 2, 3}, slice.step = 123456;
    view.setSlice(slice, std::vector<double>(16, 0.5));
    QCoreApplication::processEvents();
    EXPECT_LE(view.minimumSizeHint().width(), width);
    QRect before;
    for (std::size_t axis = 0; axis < 7; ++axis) {
      ASSERT_TRUE(view.place(axis));
      const QRect place = view.place(axis)->geometry();
      EXPECT_LE(place.right(), width) << axis;
      EXPECT_FALSE(place.intersects(before)) << axis;
      before = place;
    }
    // What stands below has its place, too.
    int bottom = view.place(6)->geometry().bottom();
    for (const QWidget* below : {static_cast<const QWidget*>(view.findChild<QStackedWidget*>()),
                                 static_cast<const QWidget*>(view.findChild<QLabel*>("facts"))}) {
      ASSERT_TRUE(below && below->isVisible());
      EXPECT_GT(below->geometry().top(), bottom);
      EXPECT_LE(below->geometry().right(), width);
      bottom = below->geometry().bottom();
    }
    EXPECT_LE(bottom, view.height());
  }
}

// A run of an engine that does not tell how long it prepared.
TEST_F(Values, WhatAnOlderEngineDoesNotTellIsNotSaid) {
  TrainStrip strip(&theme);
  strip.show();
  strip.start();
  DoneEvent done;
  done.steps = 920, done.seconds = 6.5;
  strip.setDone(done);
  EXPECT_EQ(strip.result(), "Trained 920 steps in 6.5 s");
}

}  // namespace
}  // namespace nf
