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

TensorId CompiledNotebook::tensorNamed(std::string_view name) const {
  for (const Symbol& s : symbols)
    if (s.name == name && s.kind != Symbol::Kind::Function && s.kind != Symbol::Kind::Extent && s.kind != Symbol::Kind::Data)
      return s.tensor;
  return program.tensorNamed(name);
}

namespace {

// Mistakes in what only the evaluating program has.
void addMistakesOfEvaluation(CompiledNotebook& out, CompileOptions options) {
  options.training = false;
  const CompiledNotebook evaluation = compileNotebook(out.sources.at(out.notebook), options);
  for (const Diagnostic& d : evaluation.diagnostics) {
    const bool known = std::any_of(out.diagnostics.begin(), out.diagnostics.end(), [&](const Diagnostic& other) {
      return other.code == d.code && other.message == d.message && other.span == d.span;
    });
    if (known) continue;
    out.diagnostics.push_back(d);
    out.diagnostics.back().notes.push_back({"where `training` is false", {}});
  }
}

}  // namespace

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
  std::stable_sort(out.diagnostics.begin(), out.diagnostics.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.span.begin < b.span.begin; });
  std::stable_sort(out.references.begin(), out.references.end(),
                   [](const TensorReference& a, const TensorReference& b) { return a.span.begin < b.span.begin; });
  return out;
}

}  // namespace nf
