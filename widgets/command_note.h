// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QFrame>

class QLabel;
class QToolButton;

namespace nf {

class Theme;

// What a letter did to whole cells, over the foot of the notebook that it was typed in, with a button that takes it back.
class CommandNote : public QFrame {
  Q_OBJECT
 public:
  CommandNote(const Theme* theme, QWidget* over);
  void say(const QString& words, bool undoes);  // no words: it is gone
  QString words() const;
  QToolButton* undo() const { return m_undo; }

 Q_SIGNALS:
  void undoRequested();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void dress();
  void place();
  const Theme* m_theme;
  QLabel* m_words;
  QToolButton* m_undo;
};

}  // namespace nf
