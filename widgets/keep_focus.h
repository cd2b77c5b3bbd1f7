// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
class QWidget;

namespace nf {

// Qt gives the keyboard of what is disabled to whatever comes next. A button that cannot be pressed for now leaves it to its panel, and has
// it back when it can be pressed again, unless somebody took it meanwhile.
void setUsable(QWidget* button, bool usable);

}  // namespace nf
