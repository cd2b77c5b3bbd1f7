// SPDX-License-Identifier: GPL-3.0-or-later
// Values of tensors.
#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QLabel>
#include <QSpinBox>
#include <QStackedWidget>
#include <QTableView>
#include <QTest>
#include <QTextDocument>
#include <algorithm>
#include <cmath>

#include "tests/widgets/view_fixtures.h"
#include "widgets/cell_view.h"
#include "widgets/tensor_view.h"

namespace nf {
namespace {

using namespace protocol;

// In a panel a table has the height of its rows; the picture stays small.
TEST_F(Tuning, ATableOfValuesUsesTheRoomOfItsPanel) {
  TensorView view(&theme, true);
  view.resize(340, 700);
  view.show();
  const auto show = [&](std::int64_t rows) {
    view.setTensor("W", {rows, 8});
    TensorSlice slice;
    slice.tensor = "W", slice.shape = {rows, 8}, slice.begin = {0, 0}, slice.end = {rows, 8};
    view.setSlice(slice, std::vector<double>(static_cast<std::size_t>(rows) * 8, 0.5));
    QCoreApplication::processEvents();
  };
  auto* table = view.findChild<QTableView*>();
  view.setMode(TensorView::kTable);
  for (const std::int64_t rows : {2, 12}) {
    show(rows);
    const auto last = table->visualRect(view.model()->index(static_cast<int>(rows) - 1, 0));
    EXPECT_LE(last.bottom(), table->viewport()->height()) << rows;
    EXPECT_LT(table->viewport()->height() - last.bottom(), 40) << rows;
  }
  show(200);
  EXPECT_GT(table->viewport()->height(), 300);
  EXPECT_LT(table->viewport()->height(), 480);
}

// More rows or columns than are shown at once: a window of them, moved by its first one.
TEST_F(Tuning, ALargeTensorIsLookedAtThroughAWindow) {
  TensorView view(&theme, false);
  view.resize(900, 400);
  view.show();
  view.setTensor("Y", {3, 1000, 200});
  ASSERT_TRUE(view.place(0) && view.place(1));
  EXPECT_FALSE(view.place(2)) << "all of it is shown";
  using Places = std::vector<std::int64_t>;
  EXPECT_EQ(view.request().begin, (Places{0, 0, 0}));
  EXPECT_EQ(view.request().end, (Places{1, 256, 200}));
  int wanted = 0;
  QObject::connect(&view, &TensorView::sliceWanted, [&] { ++wanted; });
  view.place(1)->stepUp();
  EXPECT_EQ(wanted, 1);
  EXPECT_EQ(view.request().begin, (Places{0, 256, 0}));
  EXPECT_EQ(view.request().end, (Places{1, 512, 200}));
  const auto ends = [&] {
    QStringList words;
    for (const QLabel* l : view.findChildren<QLabel*>())
      if (l->text().startsWith(':')) words << l->text();
    return words;
  };
  EXPECT_TRUE(ends().contains(":512")) << ends().join(' ').toStdString();
  for (int i = 0; i < 9; ++i) view.place(1)->stepUp();
  EXPECT_EQ(view.request().end, (Places{1, 1000, 200})) << "the last window is whole";
  EXPECT_TRUE(ends().contains(":1000"));
  view.place(1)->selectAll();
  QTest::keyClicks(view.place(1), "900");
  QTest::keyClick(view.place(1), Qt::Key_Return);
  EXPECT_EQ(view.place(1)->value(), 744) << "the window that has row 900";
  TensorSlice slice;
  slice.tensor = "Y", slice.shape = {3, 1000, 200}, slice.begin = view.request().begin, slice.end = view.request().end;
  view.setSlice(slice, std::vector<double>(256 * 200, 0.5));
  EXPECT_EQ(view.model()->headerData(0, Qt::Vertical, Qt::DisplayRole).toInt(), 744);
  EXPECT_EQ(view.model()->headerData(0, Qt::Horizontal, Qt::DisplayRole).toInt(), 0);
  // What another view of the tensor looks at is not shown under this place.
  TensorSlice other = slice;
  other.begin = {1, 0, 0}, other.end = {2, 256, 200};
  view.setSlice(other, std::vector<double>(256 * 200, -3));
  EXPECT_EQ(view.model()->data(view.model()->index(0, 0), Qt::UserRole).toDouble(), 0.5);
}

TEST_F(Tuning, IntegersAreShownWithoutDecimals) {
  TensorView view(&theme, false);
  view.setTensor("y", {3});
  TensorSlice slice;
  slice.tensor = "y", slice.dtype = "i32", slice.shape = {3}, slice.begin = {0}, slice.end = {3};
  view.setSlice(slice, {7, -3, 123456789});
  const auto shown = [&](int column) { return view.model()->index(0, column).data().toString(); };
  EXPECT_EQ(shown(0), "7");
  EXPECT_EQ(shown(1), "-3");
  EXPECT_EQ(shown(2), "123456789");
  slice.dtype = "f32";
  view.setSlice(slice, {7, -3, 1});
  EXPECT_EQ(shown(0), "7.000");
}

TEST_F(Tuning, AValueFarOffElsewhereTakesNoColourFromThePicture) {
  TensorView view(&theme, false);
  view.resize(700, 300);
  view.show();
  view.setTensor("Y", {512, 64});
  TensorSlice slice;
  slice.tensor = "Y", slice.shape = {512, 64}, slice.begin = {0, 0}, slice.end = {256, 64}, slice.min = -1, slice.max = 1e6;
  std::vector<double> values(256 * 64, 1);
  const auto picture = [&] {
    view.setSlice(slice, values);
    const QList<QWidget*> parts = view.findChildren<QWidget*>();
    const auto found =
        std::ranges::find_if(parts, [](const QWidget* w) { return w->accessibleName().startsWith("Values as a picture"); });
    return found == parts.end() ? QImage() : (*found)->grab().toImage();
  };
  const QImage far = picture();
  ASSERT_FALSE(far.isNull());
  slice.max = 1;
  EXPECT_EQ(far, picture());
  slice.max = 1e6, values.back() = 1e6;
  EXPECT_NE(far, picture()) << "where it is in sight it counts";
}

TEST_F(Tuning, WithoutAFiniteValueThereIsNoMean) {
  TensorView view(&theme, false);
  view.setTensor("y", {3});
  TensorSlice slice;
  slice.tensor = "y", slice.shape = {3}, slice.begin = {0}, slice.end = {3}, slice.nans = 1, slice.infinities = 2;
  view.setSlice(slice, {NAN, INFINITY, -INFINITY});
  EXPECT_TRUE(view.facts().contains("no finite value")) << view.facts().toStdString();
  EXPECT_FALSE(view.facts().contains("mean")) << view.facts().toStdString();
  slice.infinities = 1, slice.mean = 2;
  view.setSlice(slice, {NAN, INFINITY, 2});
  EXPECT_FALSE(view.facts().contains("no finite value")) << view.facts().toStdString();
  EXPECT_TRUE(view.facts().contains("mean")) << view.facts().toStdString();
}

// As it is laid out: rich text makes common spaces of others.
QString laidOut(const QString& html) {
  QTextDocument document;
  document.setHtml(html);
  return document.toRawText();
}

TEST_F(Tuning, NoLineBreaksWithinANumber) {
  const QChar unbroken(0xa0);
  const QString number = QStringLiteral("50") + unbroken + QStringLiteral("703");
  EXPECT_TRUE(laidOut(codeText(QStringLiteral("at step %1").arg(grouped(50703)))).contains(number));
  TensorView view(&theme, true);
  view.setTensor("W", {2, 8});
  TensorSlice slice;
  slice.tensor = "W", slice.shape = {2, 8}, slice.begin = {0, 0}, slice.end = {2, 8};
  slice.step = 50703, slice.nans = 12345;
  view.setSlice(slice, std::vector<double>(16, 0.5));
  const QString facts = laidOut(view.findChild<QLabel*>("facts")->text());
  EXPECT_TRUE(facts.contains(number)) << facts.toStdString();
  EXPECT_TRUE(facts.contains(QStringLiteral("12") + unbroken + QStringLiteral("345"))) << facts.toStdString();
}

// A word below the values asks for its room: facts never stand on the picture.
TEST_F(Tuning, AWordBelowTheValuesMakesACellHigher) {
  Selection selection;
  CellView cell(&theme, &selection, 1, CellKind::Code);
  cell.resize(800, 600);
  cell.show();
  Analysis analysis;
  analysis.revision = 1;
  TensorInfo tensor;
  tensor.name = "W", tensor.shape = {64, 10};
  analysis.tensors.push_back(tensor);
  CellInfo info;
  info.shows = {"W"};
  analysis.cells.push_back(info);
  cell.setAnalysis(analysis, &analysis.cells[0]);
  cell.showResult(3);
  TensorSlice slice;
  slice.tensor = "W", slice.shape = {64, 10}, slice.begin = {0, 0}, slice.end = {64, 10}, slice.step = 7;
  ASSERT_TRUE(QTest::qWaitFor([&] { return cell.tensorView() != nullptr; }));
  TensorView* view = cell.tensorView();
  cell.setSlice(slice, std::vector<double>(640, 0.5));
  QCoreApplication::processEvents();
  const auto fits = [&] {
    const QWidget *stack = view->findChild<QStackedWidget*>(), *facts = view->findChild<QLabel*>("facts");
    return view->height() >= view->heightForWidth(view->width()) && facts->y() >= stack->y() + stack->height();
  };
  EXPECT_TRUE(QTest::qWaitFor(fits));
  view->setUnavailable("W", "W is not kept while training: fused kernels never write it.");
  EXPECT_TRUE(QTest::qWaitFor(fits, 2000));
}

TEST_F(Tuning, ALongNameInTheReasonMakesNoPanelWider) {
  TensorView view(&theme, true);
  view.resize(300, 500);
  view.show();
  const QString name = QStringLiteral("a_very_long_name_of_a_tensor_that_goes_on_and_on_until_nobody_reads_it_any_more_here");
  const QString reason = name + QStringLiteral(" has no value yet: run its cell.");
  view.setTensor(name, {4, 4});
  view.setUnavailable(name, reason);
  QCoreApplication::processEvents();
  EXPECT_EQ(view.note(), reason);
  EXPECT_EQ(view.width(), 300);
  EXPECT_LE(view.minimumSizeHint().width(), 300);
  const auto labels = view.findChildren<QLabel*>();
  const auto why = std::find_if(labels.begin(), labels.end(), [](const QLabel* l) { return l->text().endsWith("run its cell."); });
  ASSERT_NE(why, labels.end());
  EXPECT_TRUE((*why)->text().contains(QChar(0x2026))) << (*why)->text().toStdString();
  EXPECT_EQ((*why)->toolTip(), reason);
}

TEST_F(Tuning, TheEndsOfTheColourScaleAreWritten) {
  TensorView view(&theme, true);
  view.resize(340, 700);
  view.show();
  view.setTensor("W", {4, 400});
  TensorSlice slice;
  slice.tensor = "W", slice.shape = {4, 400}, slice.begin = {0, 0}, slice.end = {4, 400};
  for (const double scale : {0.5, 0.00258, 88888.0, 1.25e-12}) {
    slice.min = -scale, slice.max = scale;
    view.setSlice(slice, std::vector<double>(1600, scale));
    QCoreApplication::processEvents();
    QWidget* picture = nullptr;
    for (QWidget* w : view.findChildren<QWidget*>())
      if (w->accessibleName().startsWith("Values as a picture")) picture = w;
    ASSERT_TRUE(picture);
    const QImage image = picture->grab().toImage();
    const int last = image.width() - 1;
    for (int y = 0; y < image.height(); ++y) ASSERT_EQ(image.pixel(last, y), image.pixel(last, 0)) << scale << " is cut at " << y;
  }
}

TEST_F(Tuning, WhatHasNoAxesIsItsNumber) {
  TensorView view(&theme, true);
  view.setTensor("L", {});
  EXPECT_EQ(view.number(), QString());
  TensorSlice slice;
  slice.tensor = "L", slice.min = slice.max = slice.mean = slice.rms = 10.1412, slice.step = 7;
  view.setSlice(slice, {10.1412});
  EXPECT_EQ(view.number(), "10.14120");
  EXPECT_EQ(view.facts(), "at step 7");
  EXPECT_TRUE(view.findChild<QTableView*>()->parentWidget()->isHidden());
  view.setUnavailable("L", "L is not kept while training.");
  EXPECT_TRUE(view.old());
  EXPECT_TRUE(view.note().contains("These are of step 7")) << view.note().toStdString();
  view.setTensor("W", {2});
  EXPECT_EQ(view.number(), QString());
  slice.tensor = "W", slice.shape = {2}, slice.begin = {0}, slice.end = {2};
  view.setSlice(slice, {1, 2});
  EXPECT_EQ(view.number(), QString());
  EXPECT_TRUE(view.facts().contains("rms"));
}

TEST_F(Tuning, NotANumberIsCountedInSight) {
  TensorView view(&theme, false);
  view.setTensor("W", {2, 2});
  TensorSlice slice;
  slice.tensor = "W", slice.shape = {2, 2}, slice.begin = {0, 0}, slice.end = {2, 2}, slice.min = -1, slice.max = 2, slice.nans = 1,
  slice.step = 40;
  view.setSlice(slice, {-1, 2, std::nan(""), 0});
  EXPECT_TRUE(view.facts().contains("<b")) << view.facts().toStdString();
  EXPECT_TRUE(view.facts().contains("at step 40"));
  EXPECT_TRUE(view.model()->data(view.model()->index(0, 1), Qt::BackgroundRole).isValid());
  EXPECT_FALSE(view.model()->data(view.model()->index(1, 0), Qt::BackgroundRole).isValid());
  view.setUnavailable("W", "W is not kept while training: fused kernels never write it.");
  EXPECT_TRUE(view.note().contains("never write it"));
  // The values that stand there are of a step before, and the words say so; newer ones take both away.
  EXPECT_TRUE(view.note().contains("These are of step 40")) << view.note().toStdString();
  EXPECT_TRUE(view.old());
  view.setSlice(slice, {-1, 2, std::nan(""), 0});
  EXPECT_FALSE(view.old());
  EXPECT_EQ(view.note(), QString());
  view.setTensor("V", {2, 2});
  EXPECT_TRUE(view.note().contains("No values yet"));
  EXPECT_FALSE(view.facts().contains("rms"));
  view.setUnavailable("V", "V has no value yet: run its cell.");
  EXPECT_EQ(view.note(), "V has no value yet: run its cell.");
}

// Figures are of the whole tensor, whatever part of it is shown.
TEST_F(Tuning, FiguresOfAPartSayThatTheyAreOfAll) {
  TensorView view(&theme, false);
  view.setTensor("W", {64, 3, 3});
  TensorSlice slice;
  slice.tensor = "W", slice.shape = {64, 3, 3}, slice.begin = {0, 0, 0}, slice.end = {1, 3, 3}, slice.rms = 0.5;
  view.setSlice(slice, std::vector<double>(9, 0.5));
  EXPECT_TRUE(view.facts().startsWith("9 of 576 values shown")) << view.facts().toStdString();
  EXPECT_TRUE(view.facts().contains("of all, as the histogram: rms 0.5")) << view.facts().toStdString();
  view.setTensor("V", {3, 3});
  slice.tensor = "V", slice.shape = {3, 3}, slice.begin = {0, 0}, slice.end = {3, 3};
  view.setSlice(slice, std::vector<double>(9, 0.5));
  EXPECT_FALSE(view.facts().contains("of all")) << view.facts().toStdString();
}

TEST_F(Tuning, OnPaperAPlaceIsANumber) {
  TensorView view(&theme, false);
  view.setTensor("W", {64, 3, 3});
  view.show();
  ASSERT_TRUE(view.place(0));
  view.place(0)->setValue(7);
  const auto printed = [&] {
    return std::ranges::any_of(view.findChildren<QLabel*>(), [](const QLabel* l) { return l->isVisible() && l->text() == "7"; });
  };
  EXPECT_FALSE(printed());
  view.setOnPaper(true);
  EXPECT_FALSE(view.place(0)->isVisible());
  EXPECT_TRUE(printed());
  view.setOnPaper(false);
  EXPECT_TRUE(view.place(0)->isVisible());
  EXPECT_FALSE(printed());
}

}  // namespace
}  // namespace nf
