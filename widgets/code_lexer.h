// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <Qsci/qscilexercustom.h>

#include "widgets/theme.h"

namespace nf {

// Colours of read-only kernel code: comments, words of the language, numbers, names that are called. One lexer for loop IR, LLVM IR,
// assembly, PTX and CUDA C, told apart by their words and comments.
class CodeLexer : public QsciLexerCustom {
 public:
  CodeLexer(const Theme* theme, const QFont& font, QsciScintilla* editor);
  void setCodeLanguage(const QString& language);
  const char* language() const override { return "kernel"; }
  QString description(int style) const override;
  void styleText(int start, int end) override;

 private:
  QString m_language;
};

}  // namespace nf
