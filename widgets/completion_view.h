// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QListView>
#include <QStandardItemModel>
#include <vector>

#include "widgets/completion_list.h"

namespace nf {

class Theme;

// What may stand at the caret, over the window that the editor is in. No window of its own: who types keeps the keyboard, whatever the
// window system makes of windows that come and go.
class CompletionView : public QListView {
  Q_OBJECT
 public:
  CompletionView(const Theme* theme, QWidget* editor);

  // caret: in the editor's coordinates. The first item is the current one.
  void offer(const std::vector<CompletionItem>& items, const QRect& caret);
  // Up, Down and their like move in the list, Return and Tab choose, Escape closes. False: the key is not the list's.
  bool takesKey(const QKeyEvent& event) const;
  void pressKey(const QKeyEvent& event);

 Q_SIGNALS:
  void chosen(const QString& word, bool call);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void showEvent(QShowEvent*) override;
  void hideEvent(QHideEvent*) override;

 private:
  void chooseAt(const QModelIndex& index);
  QWidget* m_editor;
  QStandardItemModel* m_items;
};

}  // namespace nf
