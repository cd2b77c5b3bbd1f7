// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/wrap_layout.h"

#include <algorithm>

namespace nf {

WrapLayout::~WrapLayout() {
  for (QLayoutItem* item : m_items) delete item;
}

QLayoutItem* WrapLayout::itemAt(int index) const {
  return index >= 0 && index < count() ? m_items[static_cast<std::size_t>(index)] : nullptr;
}

QLayoutItem* WrapLayout::takeAt(int index) {
  QLayoutItem* const item = itemAt(index);
  if (item) m_items.erase(m_items.begin() + index);
  return item;
}

QSize WrapLayout::sizeHint() const {
  QSize size(0, 0);
  for (const QLayoutItem* item : m_items) {
    if (item->isEmpty()) continue;
    const QSize one = item->sizeHint();
    size = {size.width() + (size.width() > 0 ? spacing() : 0) + one.width(), std::max(size.height(), one.height())};
  }
  return size;
}

QSize WrapLayout::minimumSize() const {
  QSize size(0, 0);
  for (const QLayoutItem* item : m_items) size = size.expandedTo(item->minimumSize());
  return size;
}

void WrapLayout::setGeometry(const QRect& rect) {
  QLayout::setGeometry(rect);
  arrange(rect, true);
}

int WrapLayout::arrange(const QRect& rect, bool apply) const {
  const auto sizeOf = [&](const QLayoutItem* item) {
    QSize size = item->sizeHint();
    if (size.width() > rect.width()) {
      size.setWidth(rect.width());
      if (item->hasHeightForWidth()) size.setHeight(item->heightForWidth(rect.width()));
    }
    return size;
  };
  int top = rect.top();
  for (std::size_t first = 0; first < m_items.size();) {
    std::size_t end = first;
    int used = 0, height = 0, atRight = 0;
    for (; end < m_items.size(); ++end) {
      if (m_items[end]->isEmpty()) continue;
      const QSize size = sizeOf(m_items[end]);
      if (used > 0 && used + spacing() + size.width() > rect.width()) break;
      used += (used > 0 ? spacing() : 0) + size.width();
      height = std::max(height, size.height());
      if (m_items[end]->alignment() & Qt::AlignRight) atRight += (atRight > 0 ? spacing() : 0) + size.width();
    }
    int left = rect.left(), right = rect.left() + rect.width() - atRight;
    for (; first < end; ++first) {
      if (m_items[first]->isEmpty()) continue;
      const QSize size = sizeOf(m_items[first]);
      int& at = m_items[first]->alignment() & Qt::AlignRight ? right : left;
      if (apply) m_items[first]->setGeometry({at, top + (height - size.height()) / 2, size.width(), size.height()});
      at += size.width() + spacing();
    }
    top += height + (end < m_items.size() ? spacing() : 0);
  }
  return top - rect.top();
}

}  // namespace nf
