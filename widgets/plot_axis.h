// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <qcustomplot.h>

#include <QString>

#include "widgets/theme.h"

// Axes of the plots: few round ticks, never two with the same label.
namespace nf {

// The label of a tick. `step`: distance of the ticks on a linear axis, 0 on a logarithmic one; `top`: the largest value shown.
using TickText = QString (*)(double value, double step, double top);
QString countTick(double value, double step, double top);
QString microsecondTick(double us, double step, double top);
QString millisecondTick(double ms, double step, double top);
QString secondTick(double s, double step, double top);
QString flopTick(double flops, double step, double top);
QString plainTick(double value, double step, double top);
QString percentTick(double share, double step, double top);

struct AxisRange {
  double low = 0, high = 1;
  bool positive = true;       // never below 0; logarithmic where it spans more than a factor of ten
  bool integers = false;      // ticks at whole numbers only
  bool logarithmic = false;   // whatever it spans
  double room = 0.06;         // of the range, on both sides
  double labelsUpTo = 1e300;  // no tick above
};
void setAxis(QCPAxis* axis, const AxisRange& range, TickText text);

// "8 ms" where "8.00 ms" says no more.
QString withoutZeros(QString text);

// What a plot without data says instead of drawing an empty scale; empty text: nothing, and the axes are back.
void sayEmpty(QCustomPlot* plot, const Theme* theme, const QString& text);

}  // namespace nf
