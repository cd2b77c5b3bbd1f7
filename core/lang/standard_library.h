// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string_view>

namespace nf {

// The files of resources/std, embedded when the program is built.
struct StandardFile {
  std::string_view name;  // "std/conv.nf"
  std::string_view text;
};
std::span<const StandardFile> standardLibrary();

}  // namespace nf
