// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include <vector>

#include "core/support/diagnostic.h"
#include "core/syntax/token.h"

namespace nf {

struct LexResult {
  std::vector<Token> tokens;  // comments, cell markers and Markdown included; the last one is End
  Diagnostics diagnostics;    // bad characters, numbers, strings; the offending bytes are Invalid tokens
};

// Reads a notebook or plain statements. Takes any bytes; `\n` and `\r\n` end a line. Spans of diagnostics are in `source`.
LexResult lex(std::string_view text, SourceId source);

// The line starts a cell ("# %%", "# %% [markdown]", "# %% title"). `line` has no newline.
bool isCellMarker(std::string_view line);
bool isMarkdownMarker(std::string_view line);

}  // namespace nf
