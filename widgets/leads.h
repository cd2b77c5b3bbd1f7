// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QString>
#include <functional>
#include <vector>

#include "widgets/theme.h"

namespace nf {

class Section;

// A place in another view that a thing leads to. Targets: "byte:N" of the notebook, "tensor:NAME", "node:ID", "kernel:ID", and
// "loops:ID", "code:ID" for a kernel's loops and its code.
struct Lead {
  QString icon, text, detail, target;
};

// A row a lead, the detail at the right; nothing to lead to hides the section.
void showLeads(Section* section, const Theme* theme, const std::vector<Lead>& leads, const std::function<void(const QString&)>& go);

}  // namespace nf
