// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QPointer>
#include <QStringList>
#include <QWidget>

class QLabel;
class QPushButton;
class QVBoxLayout;

namespace nf {

class Theme;

// Bars across the window that say what happened and offer what can be done; never a modal box. The newest stands first, under it those
// that still wait. One that says something else, or is asked again by its answer, keeps its place. Once one is answered the focus is where
// it was, and the others stay where they are until the pointer leaves its place.
// With the focus in a bar Enter presses its button and Esc puts it away, as its cross does. Each answer has an underlined letter of its
// own, none of them a menu's.
class MessageBar : public QWidget {
  Q_OBJECT
 public:
  static constexpr int kMostShown = 3;  // of the others is told how many there are

  explicit MessageBar(const Theme* theme, QWidget* parent = nullptr);
  ~MessageBar() override;
  // The buttons' texts in order; `answered` tells which was pressed. -1 is the closing cross.
  void ask(const QString& key, const QString& text, const QStringList& answers);
  // A question about what was just commanded: the keys are the bar's until it is answered.
  void askNow(const QString& key, const QString& text, const QStringList& answers);
  bool
  focusNext();  // into the newest bar, from one into that below it, from the last one back to where it was; false: no bar is shown
  void dismiss(const QString& key);
  // Of the newest one.
  QString key() const;
  QString text() const;
  QList<QPushButton*> buttons() const;
  QStringList answers() const;  // as they read
  QStringList shown() const;    // the keys of those that can be read, the newest first

 Q_SIGNALS:
  void answered(const QString& key, int index);
  void focusLeft();  // one that had the focus is gone, and so is what had it before

 private:
  class Row;
  void remove(const QString& key);
  void closeGap();
  void shiftPlaces(int from, int by);
  void arrange();
  void giveLetters();
  void leave();
  const Theme* m_theme;
  QVBoxLayout* m_layout;
  QLabel* m_more;
  QList<Row*> m_rows;    // the newest first
  Row* m_gap = nullptr;  // the place of one that was answered, until the pointer leaves it
  int m_gapAt = 0;
  QString m_answered;  // while its answer is heard
  int m_answeredAt = 0;
  QPointer<QWidget> m_before;
};

}  // namespace nf
