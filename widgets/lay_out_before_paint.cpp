// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/lay_out_before_paint.h"

#include <QApplication>
#include <QEvent>
#include <QWidget>

namespace nf {
namespace {

class Requests : public QObject {
 public:
  bool any = false;
  bool eventFilter(QObject*, QEvent* event) override {
    any = any || event->type() == QEvent::LayoutRequest;
    return false;
  }
};

// A change of height goes up through the layouts one level a round of the event loop, as posted requests. A repaint that was asked for
// before stands ahead of them, round by round: it would draw a widget at its new size between neighbours at their old places.
class LayoutsFirst : public QObject {
 public:
  explicit LayoutsFirst(QWidget* window) : QObject(window) { window->installEventFilter(this); }

  bool eventFilter(QObject* watched, QEvent* event) override {
    if (event->type() != QEvent::UpdateRequest || watched != parent() || m_layingOut) return false;
    m_layingOut = true;
    layOutNow();
    m_layingOut = false;
    return false;
  }

 private:
  bool m_layingOut = false;
};

}  // namespace

void layOutBeforePaint(QWidget* window) { new LayoutsFirst(window); }

void layOutNow() {
  constexpr int kMostRounds = 40;  // more than widgets are nested; layouts that never settle are left as they are
  Requests requests;
  qApp->installEventFilter(&requests);
  requests.any = true;
  for (int round = 0; round < kMostRounds && requests.any; ++round) {
    requests.any = false;
    QCoreApplication::sendPostedEvents(nullptr, QEvent::LayoutRequest);
  }
}

}  // namespace nf
