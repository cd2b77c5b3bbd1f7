// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/completion_view.h"

#include <QApplication>
#include <QKeyEvent>
#include <QPainter>
#include <QStyledItemDelegate>
#include <algorithm>

#include "widgets/theme.h"

namespace nf {
namespace {

constexpr int kRowHeight = 24, kWidth = 380, kMostRows = 8;

enum ItemRole { kDetailRole = Qt::UserRole, kIconRole, kCallRole };

class CompletionDelegate : public QStyledItemDelegate {
 public:
  CompletionDelegate(const Theme* theme, QObject* parent) : QStyledItemDelegate(parent), m_theme(theme) {}
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override { return {100, 24}; }
  void paint(QPainter* p, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Palette& c = m_theme->colors();
    p->fillRect(option.rect, option.state & QStyle::State_Selected ? c.accentSoft : c.raised);
    const QRect r = option.rect.adjusted(8, 0, -8, 0);
    if (const QString icon = index.data(kIconRole).toString(); !icon.isEmpty())
      p->drawPixmap(r.left(), r.center().y() - 7, m_theme->pixmap(icon, c.muted, p->device()->devicePixelRatioF()));
    p->setFont(m_theme->mono(13));
    const QString word = index.data(Qt::DisplayRole).toString();
    const int width = p->fontMetrics().horizontalAdvance(word);
    p->setPen(c.text);
    p->drawText(r.adjusted(24, 0, 0, 0), Qt::AlignVCenter | Qt::AlignLeft, word);
    p->setFont(m_theme->ui(11));
    p->setPen(c.hint);
    const QRect right = r.adjusted(24 + width + 16, 0, 0, 0);
    p->drawText(right, Qt::AlignVCenter | Qt::AlignRight,
                p->fontMetrics().elidedText(index.data(kDetailRole).toString(), Qt::ElideRight, right.width()));
  }

 private:
  const Theme* m_theme;
};

}  // namespace

CompletionView::CompletionView(const Theme* theme, QWidget* editor)
    : QListView(editor), m_editor(editor), m_items(new QStandardItemModel(this)) {
  setObjectName(QStringLiteral("completions"));
  setAccessibleName(tr("Completions"));
  setModel(m_items);
  setItemDelegate(new CompletionDelegate(theme, this));
  setFocusPolicy(Qt::NoFocus);
  setEditTriggers(QAbstractItemView::NoEditTriggers);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setUniformItemSizes(true);
  setMouseTracking(true);
  connect(this, &QListView::clicked, this, &CompletionView::chooseAt);
  hide();
}

void CompletionView::offer(const std::vector<CompletionItem>& items, const QRect& caret) {
  m_items->clear();
  for (const CompletionItem& item : items) {
    auto* row = new QStandardItem(item.word);
    row->setData(item.detail, kDetailRole);
    row->setData(item.icon, kIconRole);
    row->setData(item.call, kCallRole);
    m_items->appendRow(row);
  }
  QWidget* const window = m_editor->window();
  if (parentWidget() != window) setParent(window);
  const int rows = std::min(static_cast<int>(items.size()), kMostRows);
  const QSize size(std::min(kWidth, window->width()), rows * kRowHeight + 2);
  const QPoint below = m_editor->mapTo(window, caret.bottomLeft()) + QPoint(0, 2);
  const QPoint above = m_editor->mapTo(window, caret.topLeft()) - QPoint(0, size.height() + 2);
  const int y = below.y() + size.height() <= window->height() || above.y() < 0 ? below.y() : above.y();
  setGeometry(QRect(QPoint(std::clamp(below.x(), 0, window->width() - size.width()), y), size));
  show();
  raise();
  setCurrentIndex(m_items->index(0, 0));
}

bool CompletionView::takesKey(const QKeyEvent& event) const {
  switch (event.key()) {
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Tab: return !(event.modifiers() & ~Qt::KeypadModifier);
    case Qt::Key_Escape:
    case Qt::Key_Up:
    case Qt::Key_Down:
    case Qt::Key_PageUp:
    case Qt::Key_PageDown: return !(event.modifiers() & ~Qt::KeypadModifier);
    default: return false;
  }
}

void CompletionView::pressKey(const QKeyEvent& event) {
  const int last = m_items->rowCount() - 1, at = currentIndex().row();
  const auto go = [&](int row) { setCurrentIndex(m_items->index(std::clamp(row, 0, last), 0)); };
  switch (event.key()) {
    case Qt::Key_Up: return go(at == 0 ? last : at - 1);
    case Qt::Key_Down: return go(at == last ? 0 : at + 1);
    case Qt::Key_PageUp: return go(at - kMostRows);
    case Qt::Key_PageDown: return go(at + kMostRows);
    case Qt::Key_Escape: return hide();
    default: return chooseAt(currentIndex());
  }
}

void CompletionView::chooseAt(const QModelIndex& index) {
  hide();
  if (index.isValid()) Q_EMIT chosen(index.data().toString(), index.data(kCallRole).toBool());
}

// A click or the wheel beside it closes it.
bool CompletionView::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::MouseButtonPress || event->type() == QEvent::Wheel || event->type() == QEvent::Resize) {
    const auto* widget = qobject_cast<QWidget*>(watched);
    const bool own = widget && (widget == this || isAncestorOf(widget));
    if (widget && !own && (event->type() != QEvent::Resize || widget == window())) hide();
  }
  return QListView::eventFilter(watched, event);
}

void CompletionView::showEvent(QShowEvent* event) {
  qApp->installEventFilter(this);
  QListView::showEvent(event);
}

void CompletionView::hideEvent(QHideEvent* event) {
  qApp->removeEventFilter(this);
  QListView::hideEvent(event);
}

}  // namespace nf
