// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QObject>
#include <QPointer>
#include <functional>

class QWidget;

namespace nf {

// Qt gives the keyboard of what is hidden or disabled to the next widget, round to the first one: a button of the page or the toolbar,
// which the next Space would press. They have it when somebody goes there; else it is the page's.
class ToolbarFocus : public QObject {
 public:
  // `toPage` gives the keyboard to the page shown, to none of its buttons.
  ToolbarFocus(QWidget* toolbar, QWidget* pages, std::function<void()> toPage);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void follow(const QWidget* before, QWidget* now);
  QWidget *m_toolbar, *m_pages;
  std::function<void()> m_toPage;
  QPointer<QWidget> m_chosen;  // of the toolbar's; null: somebody has gone on to elsewhere
  bool m_byKey = false;        // how the last of them came to it
};

}  // namespace nf
