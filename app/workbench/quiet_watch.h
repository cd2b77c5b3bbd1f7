// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QObject>
#include <QTimer>

namespace nf {

class Workspace;

// Notices that nothing more is to come by itself: the newest text is checked, all that was asked for is answered and nothing runs, for as
// long as views take to ask for more.
class QuietWatch : public QObject {
  Q_OBJECT
 public:
  explicit QuietWatch(Workspace* workspace, QObject* parent = nullptr);
  void setPatience(int milliseconds);

 Q_SIGNALS:
  void quiet();

 private:
  void look();
  Workspace* m_workspace;
  QTimer m_timer;
  int m_looks = 0;  // in a row that found nothing under way; a process that was itself held up has not looked
};

}  // namespace nf
