// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

#include "core/lang/ast.h"
#include "core/support/diagnostic.h"

namespace nf {

// Parses a notebook or plain statements. Recovers after each mistake: the Ast holds what could be understood, statements that
// could not are StmtKind::Error with the targets they name. The texts of the Ast point into `text`, which must outlive it.
ast::Ast parse(std::string_view text, SourceId source, Diagnostics& diagnostics);

}  // namespace nf
