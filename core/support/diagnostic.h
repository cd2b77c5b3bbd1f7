// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "core/support/span.h"

namespace nf {

enum class Severity { Error, Warning, Note };

struct DiagnosticNote {
  std::string message;
  Span span;
};

// A change of the source that a person may accept: replaces `span` by `text`.
struct DiagnosticFix {
  std::string label;
  Span span;
  std::string text;
};

// A mistake of the user: what is wrong, where, what was expected. `code` is stable ("rank-mismatch"): tests, docs and filters use it.
struct Diagnostic {
  Severity severity = Severity::Error;
  std::string code;
  std::string message;
  Span span;
  std::vector<DiagnosticNote> notes;
  std::vector<DiagnosticFix> fixes;
};

using Diagnostics = std::vector<Diagnostic>;

bool hasErrors(const Diagnostics& diagnostics);

// For people: "file:line:column: error: message", the line, a caret line under the span, the notes, the fixes.
std::string render(const Diagnostic& diagnostic, const SourceMap& sources);
std::string render(const Diagnostics& diagnostics, const SourceMap& sources);

}  // namespace nf
