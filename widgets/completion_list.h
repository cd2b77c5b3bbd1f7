// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QString>
#include <string_view>
#include <vector>

#include "core/protocol/values.h"
#include "core/syntax/completion.h"

namespace nf {

struct CompletionItem {
  QString word, detail, icon;
  bool call = false;  // a round bracket stands behind it
};

// What may be written at `cursor`: names, functions, tensors and words of the language, by place; those that begin with the word at
// hand first, then those that hold it.
std::vector<CompletionItem> completionsAt(std::string_view text, std::uint32_t cursor, const CompletionContext& context,
                                          const std::vector<protocol::SymbolInfo>& symbols);

// The signature of the call around the cursor; empty: none is known.
QString signatureAt(const CompletionContext& context, const std::vector<protocol::SymbolInfo>& symbols);

}  // namespace nf
