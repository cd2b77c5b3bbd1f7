// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QFont>
#include <QPointF>
#include <QRectF>
#include <QString>
#include <vector>

#include "core/protocol/values.h"
#include "widgets/theme.h"

namespace nf {

// A formula set in type: runs of text and rules, placed relative to the left end of its base line.
struct FormulaBox {
  struct Run {
    QString text;
    QFont font;
    QPointF at;  // of the base line
  };
  struct Stroke {
    std::vector<QPointF> points;
    double width;
  };
  struct Region {  // of a node that has origins
    QRectF rect;
    std::uint32_t node;
  };
  double width = 0, ascent = 0, descent = 0;
  std::vector<Run> runs;
  std::vector<Stroke> strokes;
  std::vector<Region> regions;
};

// `px`: size of a letter, 20-25; indices are 0.68 of it. The formula is well formed (protocol::wellFormed). One wider than `room` is
// broken: after its equals sign, before the signs of its chains (a side of several lines has the relation below it), between the arguments of a call, conditions below their value. What
// can be broken nowhere stays wider. Cases that something follows stand in brackets, in LaTeX too.
FormulaBox setFormula(const protocol::Formula& formula, const Theme& theme, double px, double room = 1e9);
QString toLatex(const protocol::Formula& formula);

}  // namespace nf
