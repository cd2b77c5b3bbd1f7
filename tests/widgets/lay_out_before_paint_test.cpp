// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/lay_out_before_paint.h"

#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QTest>
#include <QVBoxLayout>
#include <QWidget>
#include <vector>

namespace nf {
namespace {

// Widgets one in the other, the innermost of a fixed height, with a row below each.
struct Nest {
  static constexpr int kLevels = 4;
  QWidget window;
  QWidget* box = new QWidget;
  std::vector<std::pair<QWidget*, QWidget*>> levels;  // what grows, and the row below it

  Nest() {
    box->setFixedHeight(30);
    QWidget* inner = box;
    for (int i = 0; i < kLevels; ++i) {
      auto *outer = i + 1 < kLevels ? new QWidget : &window, *row = new QWidget;
      auto* layout = new QVBoxLayout(outer);
      layout->setContentsMargins(0, 0, 0, 0);
      row->setFixedHeight(20);
      layout->addWidget(inner);
      layout->addWidget(row);
      if (outer == &window) layout->addStretch(1);
      levels.emplace_back(inner, row);
      inner = outer;
    }
    window.resize(300, 600);
  }
  bool laidOut() const {
    for (const auto& [grows, row] : levels)
      if (grows->geometry().bottom() >= row->geometry().top() || row->geometry().bottom() > row->parentWidget()->height())
        return false;
    return true;
  }
};

struct Paints : QObject {
  const Nest& nest;
  int half = 0, grown = 0;
  explicit Paints(const Nest& of) : nest(of) { nest.box->installEventFilter(this); }
  bool eventFilter(QObject*, QEvent* event) override {
    if (event->type() == QEvent::Paint) half += !nest.laidOut(), grown += nest.box->height() == 200;
    return false;
  }
};

// A height that changes while a repaint is waiting: the repaint shows all of it, neighbours in their places.
TEST(LayOutBeforePaint, NothingIsPaintedHalfLaidOut) {
  Nest nest;
  layOutBeforePaint(&nest.window);
  nest.window.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&nest.window));
  QCoreApplication::processEvents();
  ASSERT_TRUE(nest.laidOut());
  Paints paints(nest);
  QMetaObject::invokeMethod(
      &nest.window, [&] { nest.box->setFixedHeight(200); }, Qt::QueuedConnection);
  nest.box->update();
  ASSERT_TRUE(QTest::qWaitFor([&] { return paints.grown > 0; }));
  EXPECT_EQ(paints.half, 0);
  EXPECT_TRUE(nest.laidOut());
}

// One that asks for another layout whenever it is laid out keeps nobody from painting.
TEST(LayOutBeforePaint, LayoutsThatNeverSettleArePainted) {
  struct Restless : QWidget {
    bool settled = true;
    int painted = 0;
    bool event(QEvent* e) override {
      if (e->type() == QEvent::LayoutRequest && !settled) QCoreApplication::postEvent(this, new QEvent(QEvent::LayoutRequest));
      painted += e->type() == QEvent::Paint;
      return QWidget::event(e);
    }
  } window;
  layOutBeforePaint(&window);
  window.resize(100, 100);
  window.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&window));
  QCoreApplication::processEvents();
  window.painted = 0;
  window.settled = false;
  QCoreApplication::postEvent(&window, new QEvent(QEvent::LayoutRequest));
  window.update();
  EXPECT_TRUE(QTest::qWaitFor([&] { return window.painted > 0; }));
  window.settled = true;
}

}  // namespace
}  // namespace nf
