// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/lay_out_before_paint.h"

#include <QApplication>
#include <QEvent>
#include <QWidget>

namespace nf {
namespace {

// A change of height goes up through the layouts one level a round of the event loop, as posted requests. A repaint that was asked for
// before stands ahead of them, round by round: it would draw a widget at its new size between neighbours at their old places.
class LayoutsFirst : public QObject {
 public:
  explicit LayoutsFirst(QWidget* window) : QObject(window) { window->installEventFilter(this); }

  bool eventFilter(QObject* watched, QEvent* event) override {
    if (event->type() == QEvent::LayoutRequest) m_any = true;
    else if (event->type() == QEvent::UpdateRequest && watched == parent() && !m_layingOut) layOut();
    return false;
  }

 private:
  void layOut() {
    constexpr int kMostRounds = 40;  // more than widgets are nested; layouts that never settle are painted all the same
    m_layingOut = true;
    qApp->installEventFilter(this);  // sees whether a round had a request
    m_any = true;
    for (int round = 0; round < kMostRounds && m_any; ++round) {
      m_any = false;
      QCoreApplication::sendPostedEvents(nullptr, QEvent::LayoutRequest);
    }
    qApp->removeEventFilter(this);
    m_layingOut = false;
  }

  bool m_layingOut = false, m_any = false;
};

}  // namespace

void layOutBeforePaint(QWidget* window) { new LayoutsFirst(window); }

}  // namespace nf
