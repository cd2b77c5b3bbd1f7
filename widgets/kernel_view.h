// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>

#include "core/protocol/message.h"
#include "widgets/selection.h"
#include "widgets/theme.h"

class QLabel;
class QPlainTextEdit;
class QsciScintilla;

namespace nf {

class PanelHeader;
class TabRow;

// The expression of a kernel above what it became: loop IR, LLVM IR, assembly. Lines that came from the selection are tinted, a click
// on a line selects where it came from.
class KernelView : public QWidget {
  Q_OBJECT
 public:
  KernelView(const Theme* theme, Selection* selection, QWidget* parent = nullptr);
  void clear();
  void setKernel(const protocol::Kernel& kernel);
  void showLanguage(const QString& language);
  QString language() const;
  QString text() const;
  std::vector<int> tintedLines() const { return m_tinted; }

 Q_SIGNALS:
  void languageChosen(const QString& language);

 private:
  void showText();
  void tint();
  void dress();
  const Theme* m_theme;
  Selection* m_selection;
  protocol::Kernel m_kernel;
  PanelHeader* m_header;
  TabRow* m_languages;
  QPlainTextEdit* m_expression;
  QsciScintilla* m_code;
  QLabel *m_facts, *m_mapping;
  int m_current = 0;
  std::vector<int> m_tinted;
};

}  // namespace nf
