// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QObject>
#include <QTimer>

namespace nf {

class Workspace;

// Notices an engine that lives and does not answer. While something is awaited of it, it is asked now and then what it answers at once;
// nothing heard from it for as long as the patience is silence.
class AnswerWatch : public QObject {
  Q_OBJECT
 public:
  explicit AnswerWatch(Workspace* workspace, QObject* parent = nullptr);
  void setPatience(int milliseconds);

 Q_SIGNALS:
  void silent();
  void answered();  // after a silence

 private:
  void look();
  Workspace* m_workspace;
  QTimer m_timer;
  int m_unanswered = 0;  // looks since the question; a window that was itself held up has not looked
  bool m_silent = false;
};

}  // namespace nf
