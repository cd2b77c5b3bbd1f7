// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

class QWidget;

namespace nf {

// From now on whatever of `window`, a top level, asks to be laid out is laid out before the window is next painted. Once per window.
void layOutBeforePaint(QWidget* window);

// What has asked to be laid out is, with all that asks because of it.
void layOutNow();

}  // namespace nf
