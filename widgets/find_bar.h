// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include "widgets/field_bar.h"
#include "widgets/theme.h"

class QLabel;
class QLineEdit;
class QToolButton;

namespace nf {

// Find and replace over the notebook: what is typed is looked for at once, Enter goes on, Escape ends it.
class FindBar : public FieldBar {
  Q_OBJECT
 public:
  explicit FindBar(const Theme* theme, QWidget* parent = nullptr);
  void open(const QString& text, bool replace);  // an empty text: what was looked for last
  void setCount(int here, int all);              // `here` from 0
  QLineEdit* field() const { return m_find; }
  QLineEdit* replacement() const { return m_replace; }
  QString countText() const;
  bool exact() const;

 Q_SIGNALS:
  void wanted(const QString& text, bool exact);
  void stepped(int direction);
  void replaceWanted(const QString& with);
  void replaceAllWanted(const QString& with);

 protected:
  void entered(const QObject* field, Qt::KeyboardModifiers modifiers) override;

 private:
  QLineEdit *m_find, *m_replace;
  QLabel* m_count;
  QToolButton* m_exact;
  QWidget* m_replaceRow;
};

}  // namespace nf
