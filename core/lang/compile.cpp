// SPDX-License-Identifier: Apache-2.0
#include "core/lang/compile.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/lang/elaborator.h"
#include "core/lang/parser.h"
#include "core/lang/standard_library.h"

namespace nf {

bool lang::isJsonObject(const std::string& text) {
  const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  return parsed.is_object();
}

bool lang::isLoopSchedule(const std::string& text) {
  const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  return parsed.is_object() && parsed.contains("kind") && parsed["kind"] == "recurrence";
}

bool lang::isSchedule(const std::string& text) {
  const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  return parsed.is_object() && parsed.contains("kind") && parsed["kind"].is_string() && parsed.contains("knobs") &&
         parsed["knobs"].is_object() && (!parsed.contains("version") || parsed["version"] == 1);
}

const Symbol* CompiledNotebook::tensorSymbol(std::string_view name) const {
  for (const Symbol& s : symbols)
    if (!s.inside && s.name == name && s.kind != Symbol::Kind::Function && s.kind != Symbol::Kind::Extent &&
        s.kind != Symbol::Kind::Data)
      return &s;
  return nullptr;
}

TensorId CompiledNotebook::tensorNamed(std::string_view name) const {
  const Symbol* const symbol = tensorSymbol(name);
  return symbol ? symbol->tensor : program.tensorNamed(name);
}

namespace {

// Mistakes in what only the evaluating program has.
void addMistakesOfEvaluation(CompiledNotebook& out, CompileOptions options) {
  options.training = false;
  const CompiledNotebook evaluation = compileNotebook(out.sources.at(out.notebook), options);
  out.unsound.insert(out.unsound.end(), evaluation.unsound.begin(), evaluation.unsound.end());
  for (const Diagnostic& d : evaluation.diagnostics) {
    const bool known = std::any_of(out.diagnostics.begin(), out.diagnostics.end(), [&](const Diagnostic& other) {
      return other.code == d.code && other.message == d.message && other.span == d.span;
    });
    if (known) continue;
    out.diagnostics.push_back(d);
    out.diagnostics.back().notes.push_back({"where `training` is false", {}});
  }
}

// Statements that hold a mistake, wherever it was found; a mistake outside of all of them takes its line.
void addMistakenStatements(CompiledNotebook& out, const ast::Ast& notebook) {
  const std::string& text = out.sources.at(out.notebook).text;
  for (const Diagnostic& d : out.diagnostics) {
    if (d.severity != Severity::Error || d.span.source != out.notebook) continue;
    bool found = false;
    for (const ast::Cell& cell : notebook.cells)
      for (const ast::StmtRef ref : cell.statements) {
        const Span span = notebook.stmts[ref].span;
        const bool holds = d.span.begin >= span.begin && d.span.begin <= std::max(span.begin, span.end - 1);
        if (holds) out.unsound.push_back({span, {}, {}});
        found = found || holds;
      }
    if (found) continue;
    Span line = d.span;
    while (line.begin > 0 && text[line.begin - 1] != '\n') --line.begin;
    while (line.end < text.size() && text[line.end] != '\n') ++line.end;
    out.unsound.push_back({line, {}, {}});
  }
  // A mistake of its own comes before what it uses.
  std::sort(out.unsound.begin(), out.unsound.end(), [](const Unsound& a, const Unsound& b) {
    return a.span.begin != b.span.begin ? a.span.begin < b.span.begin : a.uses < b.uses;
  });
  out.unsound.erase(
      std::unique(out.unsound.begin(), out.unsound.end(), [](const Unsound& a, const Unsound& b) { return a.span == b.span; }),
      out.unsound.end());
}

}  // namespace

std::optional<CompiledNotebook> soundPart(const CompiledNotebook& notebook, const CompileOptions& options) {
  Source source = notebook.sources.at(notebook.notebook);
  const std::vector<Unsound>* unsound = &notebook.unsound;
  // Mistakes that only show without the others are few: what depends on an unsound statement is known to be unsound.
  constexpr int kMostRounds = 6;
  std::optional<CompiledNotebook> part;
  for (int round = 0; round < kMostRounds && !unsound->empty(); ++round) {
    for (const Unsound& u : *unsound)
      for (std::size_t i = u.span.begin; i < std::min<std::size_t>(u.span.end, source.text.size()); ++i)
        if (source.text[i] != '\n' && source.text[i] != '\r') source.text[i] = ' ';
    part = compileNotebook(source, options);
    if (part->ok()) {
      // Text before the first marker is a cell only while it holds a statement; it stays one here.
      if (!notebook.cells.empty() && part->cells.size() < notebook.cells.size()) {
        CellInfo empty;
        empty.span = notebook.cells.front().span;
        part->cells.insert(part->cells.begin(), empty);
      }
      return part;
    }
    unsound = &part->unsound;
  }
  return std::nullopt;
}

CompiledNotebook compileNotebook(Source source, const CompileOptions& options) {
  CompiledNotebook out;
  out.notebook = out.sources.add(std::move(source));
  std::vector<SourceId> standard;
  for (const StandardFile& file : standardLibrary())
    standard.push_back(out.sources.add({std::string(file.name), {}, std::string(file.text)}));
  // Texts of the trees point into `out.sources`, which does not change any more.
  std::vector<ast::Ast> library;
  library.reserve(standard.size());
  Diagnostics libraryMistakes;
  for (const SourceId id : standard) library.push_back(parse(out.sources.at(id).text, id, libraryMistakes));
  NF_ASSERT(libraryMistakes.empty());
  const ast::Ast notebook = parse(out.sources.at(out.notebook).text, out.notebook, out.diagnostics);
  lang::Elaborator elaborator(out, options);
  for (const ast::Ast& file : library) elaborator.addFunctions(file, true);
  elaborator.run(notebook);
  if (options.training && elaborator.asksForTraining()) addMistakesOfEvaluation(out, options);
  addMistakenStatements(out, notebook);
  std::stable_sort(out.diagnostics.begin(), out.diagnostics.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.span.begin < b.span.begin; });
  std::stable_sort(out.references.begin(), out.references.end(),
                   [](const TensorReference& a, const TensorReference& b) { return a.span.begin < b.span.begin; });
  return out;
}

}  // namespace nf
