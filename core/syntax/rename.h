// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nf {

// The places of one name of a notebook: bytes [begin, end), in order. Lexical: attributes, options and words of hints are no names,
// a path is known by its first part, and a function whose parameter, result or own tensor has that name is left alone. Markdown and
// comments are text. Where `name` is the notebook's and `to` stands nowhere, the notebook with `to` at each place means the same.
std::vector<std::pair<std::size_t, std::size_t>> placesOfName(std::string_view notebook, std::string_view name);

// Why nothing can be called `to`: it is no name, a word of the language, or stands in the notebook already. Empty: it can.
std::string whyNotNamed(std::string_view notebook, std::string_view to);

}  // namespace nf
