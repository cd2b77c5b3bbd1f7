// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/paper.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QBuffer>
#include <QComboBox>
#include <QPainter>
#include <QPdfWriter>
#include <QVBoxLayout>
#include <algorithm>
#include <functional>

#include "tests/widgets/pdf_marks.h"

namespace nf {
namespace {

struct Drawn : QWidget {
  explicit Drawn(std::function<void(QPainter&)> draw, QWidget* parent = nullptr) : QWidget(parent), draw(std::move(draw)) {}
  std::function<void(QPainter&)> draw;

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    draw(p);
  }
};

constexpr double kPoint = 72.0 / 96;  // of a pixel

// At 96 pixels an inch and without margins: a pixel of the widget is one of the page.
PdfMarks printed(QWidget& widget) {
  QBuffer bytes;
  bytes.open(QIODevice::WriteOnly);
  QPdfWriter writer(&bytes);
  writer.setResolution(96);
  writer.setPageSize(QPageSize(QSizeF(widget.width(), widget.height()) * kPoint, QPageSize::Point));
  writer.setPageMargins({0, 0, 0, 0});
  QPainter file(&writer);
  {
    Paper paper(&file, widget.rect());
    QPainter on(&paper);
    widget.render(&on, {}, {}, QWidget::DrawChildren);
  }
  file.end();
  return marksOf(bytes.data());
}

std::vector<QRect> seen(const PdfMarks& marks, char kind, int height) {
  std::vector<QRect> out;
  for (const auto& mark : marks.marks)
    if (mark.kind == kind && mark.seen) {
      const QRectF& at = mark.at;
      out.push_back(QRectF(at.left() / kPoint, height - at.bottom() / kPoint, at.width() / kPoint, at.height() / kPoint).toRect());
    }
  return out;
}

// QPainter::restore() of a widget that stands beside its window's corner.
TEST(Paper, WhatIsDrawnAfterAClipIsSetBackIsThere) {
  QWidget window;
  window.resize(400, 300);
  auto* part = new Drawn(
      [](QPainter& p) {
        p.setClipRect(0, 0, 100, 60);
        p.save();
        p.setClipRect(QRect(10, 10, 20, 10), Qt::IntersectClip);
        p.fillRect(10, 10, 5, 5, Qt::red);
        p.fillRect(50, 10, 6, 6, Qt::red);
        p.restore();
        p.fillRect(60, 40, 7, 7, Qt::blue);
        p.setClipping(false);
        p.fillRect(120, 40, 8, 8, Qt::blue);
      },
      &window);
  part->setGeometry(200, 100, 150, 80);
  const PdfMarks marks = printed(window);
  EXPECT_EQ(seen(marks, 'f', 300), (std::vector<QRect>{{210, 110, 5, 5}, {260, 140, 7, 7}, {320, 140, 8, 8}}));
}

TEST(Paper, AWidgetDrawsInItsOwnPlaceAlone) {
  QWidget window;
  window.resize(200, 200);
  auto* frame = new QWidget(&window);
  frame->setGeometry(20, 20, 50, 50);
  auto* part = new Drawn(
      [](QPainter& p) {
        p.fillRect(5, 5, 10, 10, Qt::red);
        p.fillRect(100, 5, 10, 10, Qt::red);  // behind the frame's edge
      },
      frame);
  part->setGeometry(0, 0, 150, 50);
  EXPECT_EQ(seen(printed(window), 'f', 200), (std::vector<QRect>{{25, 25, 10, 10}}));
}

// A box of the style sets a clip for its words, and back again.
TEST(Paper, WhatStandsBehindABoxIsThere) {
  QWidget window;
  window.resize(300, 200);
  auto* layout = new QVBoxLayout(&window);
  layout->setContentsMargins(40, 30, 40, 30);
  auto* box = new QComboBox;
  box->addItem("Values");
  layout->addWidget(box);
  auto* part = new Drawn([](QPainter& p) {
    p.drawText(10, 20, "rms");
    p.drawImage(QRect(40, 10, 16, 16), QImage(2, 2, QImage::Format_RGB32));
  });
  layout->addWidget(part, 1);
  const PdfMarks marks = printed(window);
  EXPECT_EQ(marks.lost('t'), 0u);
  EXPECT_GE(seen(marks, 't', 200).size(), 9u);
  const std::vector<QRect> pictures = seen(marks, 'i', 200);
  EXPECT_NE(std::find(pictures.begin(), pictures.end(), QRect(part->pos() + QPoint(40, 10), QSize(16, 16))), pictures.end());
  EXPECT_FALSE(marks.lossy);
}

}  // namespace
}  // namespace nf
