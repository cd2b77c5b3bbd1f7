// SPDX-License-Identifier: GPL-3.0-or-later
// A NotebookView as pages of a PDF.
#include <QAbstractScrollArea>
#include <QPainter>
#include <QPdfWriter>
#include <QPixmap>
#include <QPlainTextEdit>
#include <QScrollBar>
#include <QTextBlock>
#include <QVBoxLayout>
#include <algorithm>

#include "widgets/expression_editor.h"
#include "widgets/lay_out_before_paint.h"
#include "widgets/notebook_view.h"
#include "widgets/paper.h"

namespace nf {
namespace {

// What stands in the cell without parts of its own, and the lines of its text, from top to bottom: no page ends within one.
void addWhole(const QWidget* part, const CellView* cell, std::vector<std::pair<int, int>>& whole) {
  const auto add = [&](double top, double bottom) {
    const int offset = part->mapTo(cell, QPoint(0, 0)).y();
    whole.emplace_back(offset + static_cast<int>(top), offset + static_cast<int>(bottom));
  };
  if (const auto* text = qobject_cast<const QPlainTextEdit*>(part)) {
    QTextCursor cursor(text->document());
    const int from = text->viewport()->y();
    for (bool more = true; more; more = cursor.movePosition(QTextCursor::Down)) {
      const QRect line = text->cursorRect(cursor);
      add(from + line.top(), from + line.bottom() + 1);
    }
    return;
  }
  bool any = false;
  if (!qobject_cast<const QAbstractScrollArea*>(part))
    for (const QObject* child : part->children())
      if (const auto* w = qobject_cast<const QWidget*>(child); w && w->isVisibleTo(cell)) {
        addWhole(w, cell, whole);
        any = true;
      }
  if (!any) add(0, part->height());
}

// Where the page that begins at `from` ends: at `last`, or above what would be cut in two there.
int pageEnd(int from, int last, const std::vector<std::pair<int, int>>& whole) {
  int end = last;
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& [top, bottom] : whole)
      if (top < end && bottom > end && top > from) end = top, moved = true;
  }
  return end;
}

}  // namespace

void NotebookView::layOutCells() {
  layOutNow();
  if (!isVisible()) {
    // Layouts of what is hidden, and the sizes that they give, wait until it is shown or drawn.
    QPixmap nothing(1, 1);
    m_content->render(&nothing, {}, QRegion(0, 0, 1, 1), QWidget::DrawChildren);
    layOutNow();
  }
  m_content->resize(m_content->width(), m_layout->hasHeightForWidth() ? m_layout->totalHeightForWidth(m_content->width())
                                                                      : m_content->sizeHint().height());
  m_layout->activate();
}

// As wide as paper is, in a window of any width and with letters of any size: the page is as large as they are.
void NotebookView::setOnPaper(bool onPaper) {
  constexpr int kPaperWidth = 960;  // px at 100 %: letters as large as those of a book
  setWidgetResizable(!onPaper);
  if (onPaper) m_content->resize(m_theme->scaled(kPaperWidth), m_content->height());
  for (CellView* v : m_cells) v->setOnPaper(onPaper);
  layOutCells();
}

bool NotebookView::savePdf(const QString& path, const QString& title) {
  QPdfWriter writer(path);
  writer.setTitle(title);
  writer.setPageSize(QPageSize(QPageSize::A4));
  writer.setPageMargins(QMarginsF(15, 15, 15, 15), QPageLayout::Millimeter);
  QPainter p;
  if (!p.begin(&writer)) return false;
  m_look->setAsleep(false);
  const int scrolled = verticalScrollBar()->value();
  const QPointer<QWidget> focus = window()->focusWidget();
  setOnPaper(true);
  for (CellView* v : m_cells) v->fitOnPaper();
  layOutCells();
  for (CellView* v : m_cells) v->drawOnPaper();

  const double scale = static_cast<double>(writer.width()) / m_content->width();
  const double room = writer.height() / scale;  // of a page, in the notebook's pixels
  p.scale(scale, scale);
  double y = 0;
  const auto turn = [&] {
    writer.newPage();
    y = 0;
  };
  for (CellView* v : m_cells) {
    if (y > 0 && y + v->height() > room) turn();
    std::vector<std::pair<int, int>> whole;
    for (const QObject* child : v->children())
      if (const auto* w = qobject_cast<const QWidget*>(child); w && w->isVisibleTo(v)) addWhole(w, v, whole);
    for (int from = 0; from < v->height();) {
      int to = std::min(v->height(), from + static_cast<int>(room - y));
      if (to < v->height()) to = pageEnd(from, to, whole);
      if (to <= from) {
        turn();
        continue;
      }
      p.save();
      p.translate(0, y);
      {
        Paper paper(&p, QRectF(0, 0, v->width(), to - from));
        QPainter onPaper(&paper);
        v->render(&onPaper, QPoint(0, 0), QRegion(0, from, v->width(), to - from), QWidget::DrawChildren);
      }
      p.restore();
      y += to - from;
      from = to;
      if (from < v->height()) turn();
    }
    y += m_layout->spacing();
  }
  setOnPaper(false);
  m_look->setAsleep(!isVisible());
  verticalScrollBar()->setValue(scrolled);
  if (focus && focus != window()->focusWidget()) focus->setFocus();
  return p.end();
}

}  // namespace nf
