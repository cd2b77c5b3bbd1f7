// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QPlainTextEdit>
#include <vector>

#include "widgets/selection.h"
#include "widgets/theme.h"

namespace nf {

// Statements under one another, as source to read and to copy. A click on one, or Enter at the caret, selects the operator that it is;
// what is selected is tinted. Dragging marks text, as in any field.
class StatementsView : public QPlainTextEdit {
  Q_OBJECT
 public:
  StatementsView(const Theme* theme, Selection* selection, QWidget* parent = nullptr);
  // `heading`: a comment above them; empty: none.
  void setStatements(std::vector<protocol::DerivedStatement> statements, const QString& heading);
  const std::vector<protocol::DerivedStatement>& statements() const { return m_statements; }
  bool tinted(std::size_t statement) const;
  void dress();                   // in the theme's colours of now
  void setOnPaper(bool onPaper);  // nothing is tinted there

 protected:
  void mouseReleaseEvent(QMouseEvent*) override;
  void keyPressEvent(QKeyEvent*) override;

 private:
  void selectAt(const QTextCursor& at);
  void tint();
  const Theme* m_theme;
  Selection* m_selection;
  std::vector<protocol::DerivedStatement> m_statements;
  std::vector<int> m_begins;  // the first line of each
  QList<QTextEdit::ExtraSelection> m_code;
  bool m_onPaper = false;
};

}  // namespace nf
