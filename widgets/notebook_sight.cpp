// SPDX-License-Identifier: GPL-3.0-or-later
// What of the notebook is in sight: cells, results, places and the caret come into it, and nothing else moves the page.
#include <QEvent>
#include <QScrollBar>
#include <QTimer>
#include <QVBoxLayout>

#include "widgets/command_note.h"
#include "widgets/expression_editor.h"
#include "widgets/notebook_view.h"

namespace nf {

void NotebookView::scrollToByte(std::size_t byte, bool focus, Edit edit) {
  for (const Cell& cell : m_document->cells()) {
    if (byte < cell.begin || (byte >= cell.end && &cell != &m_document->cells().back())) continue;
    CellView* v = view(cell.id);
    if (!v) return;
    const bool code = v->kind() == CellKind::Code;
    if (focus) activate(cell.id, edit == Edit::Any || (edit == Edit::Code && code));
    const std::size_t inBody = byte > cell.bodyBegin ? byte - cell.bodyBegin : 0;
    const std::size_t place = code ? inBody : markdownOffset(m_document->body(cell), inBody);
    if (code || v->active() == CellView::Active::Editing) v->editor()->moveCaretTo(place);
    // It may have stood there already, put by the text that came, and is what is meant from here on all the same.
    if (code && m_editing && m_active == cell.id) selectCaret(v);
    return showPlace(v, place);
  }
}

// The layout of a cell that was just made is not there yet.
void NotebookView::showPlace(CellView* v, std::size_t at) {
  QTimer::singleShot(0, v, [this, v, at] {
    ExpressionEditor* editor = v->editor();
    if (!editor->isVisible()) return showCell(v);
    m_held = nullptr;
    if (editor->height() < viewport()->height()) return ensureWidgetVisible(editor, 0, 40);
    ensureVisible(0, editor->mapTo(m_content, editor->rectOf(at).center()).y(), 0, viewport()->height() / 4);
  });
}

// What was shown just now gets its place by layouts that have yet to be made, the cell's and then the page's.
void NotebookView::layOutAround(QWidget* part) {
  for (QWidget* w = part; w && w != m_content; w = w->parentWidget())
    if (w->layout()) w->layout()->activate();
  m_layout->activate();
  const int needed = std::max(m_layout->totalMinimumSize().height(), m_layout->totalHeightForWidth(m_content->width()));
  m_content->resize(m_content->width(), std::max(viewport()->height(), needed));
  m_layout->activate();
}

// In a cell that is higher than the page. Under a pressed button the page stays as long as some of the caret is seen: a click selects
// nothing, and another one meets the same line.
void NotebookView::followCaret(CellView* v, bool pressed) {
  constexpr int kMargin = 24;
  ExpressionEditor* editor = v->editor();
  if (!editor->hasFocus()) return;
  const auto caret = [&] {
    return QRect(editor->viewport()->mapTo(m_content, editor->cursorRect().topLeft()), editor->cursorRect().size());
  };
  const QRect seen(m_content->mapTo(viewport(), caret().topLeft()), caret().size());
  const int page = viewport()->height();
  const bool whole = seen.top() >= 0 && seen.bottom() < page, some = seen.bottom() >= 0 && seen.top() < page;
  if (!(pressed ? some : whole)) {
    layOutAround(editor);
    showSpan(caret().top(), caret().bottom(), kMargin);
  }
  if (pressed) return;
  m_held = v;
  m_heldAt = editor->mapTo(viewport(), QPoint()).y();
}

// Results that arrive in the cells above leave the line that is written in where it is.
void NotebookView::keepHeld() {
  if (!m_held || !m_content->isAncestorOf(m_held)) return;
  const int moved = m_held->editor()->mapTo(viewport(), QPoint()).y() - m_heldAt;
  if (moved != 0) verticalScrollBar()->setValue(verticalScrollBar()->value() + moved);
}

// All of it, or where it begins.
void NotebookView::showSpan(int top, int bottom, int margin) {
  m_held = nullptr;
  ensureVisible(0, bottom, 0, margin);
  ensureVisible(0, top, 0, margin);
}

void NotebookView::showCell(CellView* cell) {
  m_keptInSight = cell;
  m_keptHead = true;
  showKeptInSight();
}

void NotebookView::bringIntoSight(QWidget* part) {
  layOutAround(part);
  m_keptInSight = part;
  m_keptHead = false;
  showKeptInSight();
}

void NotebookView::showKeptInSight() {
  if (!m_keptInSight || !m_content->isAncestorOf(m_keptInSight)) return;
  const QWidget* part = m_keptInSight;
  // Of a cell that is higher than the page what it shows.
  if (const auto* cell = qobject_cast<const CellView*>(part);
      cell && cell->result() && !m_keptHead && cell->height() > viewport()->height())
    part = cell->result();
  const int top = part->mapTo(m_content, QPoint(0, 0)).y();
  showSpan(top, top + part->height(), m_keptHead ? 40 : 24);
}

void NotebookView::pressed(const QWidget* at) {
  if (!m_note->isAncestorOf(at)) forgetCommand();
  // What is clicked stays under the pointer.
  m_pressedBefore.reset();
  if (m_content->isAncestorOf(at)) m_held = nullptr, m_pressedBefore = m_selection->choices();
}

// Of the page and its cells.
bool NotebookView::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Move && watched == m_held) keepHeld();
  // The cells have their new places once the page has laid them out.
  if (watched == m_content && event->type() == QEvent::Resize && m_keptInSight)
    QTimer::singleShot(0, this, &NotebookView::showKeptInSight);
  return QScrollArea::eventFilter(watched, event);
}

// Places in the text: one of them is in sight, the cursor stays where it is. So does the page, where it is clicked in: in a formula, say.
void NotebookView::reveal(const std::vector<protocol::SourceSpan>& spans) {
  if (m_pressedBefore && m_selection->choices() == *m_pressedBefore + 1) return;
  QWidget* cell = nullptr;
  QPoint there;
  for (const auto& span : spans)
    for (CellView* v : m_cells) {
      if (v->kind() != CellKind::Code || span.begin < v->bodyBegin || span.end > v->bodyBegin + v->editor()->bytes().size())
        continue;
      const QPoint at = v->editor()->mapTo(m_content, v->editor()->rectOf(span.begin - v->bodyBegin).center());
      const QPoint seen = m_content->mapTo(viewport(), at);
      if (viewport()->rect().adjusted(0, 12, 0, -12).contains(QPoint(viewport()->width() / 2, seen.y()))) return;
      if (!cell) cell = v, there = at;
    }
  if (!cell) return;
  m_held = nullptr;
  ensureVisible(0, there.y(), 0, viewport()->height() / 4);
}

}  // namespace nf
