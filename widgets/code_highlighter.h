// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QTextCharFormat>
#include <QTextEdit>
#include <string_view>
#include <vector>

#include "widgets/theme.h"

class QPlainTextEdit;

namespace nf {

// A coloured part of expression text, in UTF-16 units of the whole text.
struct ColoredRun {
  int begin = 0, length = 0;
  QTextCharFormat format;
};

// Keywords, reductions and calls, indices, numbers, strings and comments, by the project's own lexer. Names between brackets that no
// access of their own opens are indices.
std::vector<ColoredRun> highlight(std::string_view bytes, const Palette& colors);
// Of all that a field shows, which somebody reads and does not write.
QList<QTextEdit::ExtraSelection> highlighted(const QPlainTextEdit& field, const Palette& colors);

}  // namespace nf
