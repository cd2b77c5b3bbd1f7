// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QString>
#include <cstdint>
#include <optional>
#include <string>

namespace nf {

// What was looked at on the tune page of a notebook, and what was said of its budget.
struct TunePlace {
  std::string subgraph;
  std::optional<std::uint64_t> trial;
  QString spent;
};

}  // namespace nf
