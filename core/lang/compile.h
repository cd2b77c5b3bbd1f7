// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "core/support/diagnostic.h"
#include "core/support/result.h"

// From notebook text to Programs: lex, parse with recovery, resolve names, expand functions, infer extents, prove bounds.
namespace nf {

struct CompileOptions {
  std::map<std::string, std::string> sets;  // --set NAME=VALUE
  bool training = true;                     // value of the reserved condition `training`
  std::int64_t batchOverride = 0;           // >0: extent of the batch axis (the remainder of an evaluation, inference)
  std::size_t train = 0;                    // the `train` statement whose optimizer the program holds: each is a job of its own
};

// An inferred extent, shown as a grey hint after the statement: "p: 28".
struct ExtentHint {
  Span statement;
  std::string axis;
  std::int64_t extent = 0;
};

// A name a person can jump to or complete.
struct Symbol {
  enum class Kind { Extent, Data, Input, Param, Const, State, Tensor, Function, Loss, Eval };
  Kind kind = Kind::Tensor;
  std::string name;
  std::string detail;  // "f32 [32, 28, 28]", "conv2d(X[N,C,H,W], K, R; stride = 1, pad = 0) -> Y"
  Span definition;
  std::vector<Span> uses;
  TensorId tensor;  // what a tensor's name means at the end of the notebook: `for` and `repeat` give it to another one
  // Where `tensor` is invalid: a value that a loop of the program carries and that nothing reads behind it.
  LoopId lastOf;
  std::uint32_t carried = 0;  // of that loop's
  bool inside = false;        // made in a repetition or a loop: the name means nothing behind it
};

// `train L { ... }` with every attribute resolved.
struct TrainSettings {
  std::string loss;
  std::string optimizer;               // as written: "adam(lr=1e-3)"; where none is, that of sgd with its defaults
  std::int64_t epochs = 0, steps = 0;  // one of them
  std::int64_t batch = 0;              // 0: as the program has it
  std::string mode = "dynamic";        // or "static"
  std::string device = "auto";
  std::uint64_t seed = 1;
  std::optional<double> clip;  // global norm
  Span span;
};

// One cell's or statement's meaning for the views.
struct CellInfo {
  enum class Kind { Markdown, Code } kind = Kind::Code;
  Span span;
  std::vector<TensorId> defines;
  std::vector<TensorId> shows;  // in the order written
  bool hasTrain = false;
};

// A token of the notebook that names a tensor, or the function that makes one: what a click on it selects. In order of `span.begin`;
// of one place the first is meant.
struct TensorReference {
  Span span;
  TensorId tensor;
  std::vector<LoopId> loops;  // outermost first: `tensor` is of the body of the last; empty: of the program
};

// A statement that cannot be used: it holds a mistake, or it uses the name of something that a mistake has kept from being made.
struct Unsound {
  Span span;
  std::string uses;                // that name; empty: the mistake is its own
  std::vector<std::string> gives;  // names that stand for nothing because of it
};

struct NameUse {
  std::string name;
  Span span;
};

// An access that stands in no operator: the condition around it leaves it no point.
struct FoldedAccess {
  TensorId tensor;
  std::string reader;  // what the statement defines
  Span access, condition;
};

struct CompiledNotebook {
  SourceMap sources;
  SourceId notebook;  // its id in `sources`
  Diagnostics diagnostics;
  Program program;  // stage Source. Partial when there are errors: holds what could be understood
  std::vector<ExtentHint> extents;
  std::vector<Symbol> symbols;
  std::vector<TensorReference> references;
  std::vector<CellInfo> cells;
  std::vector<TrainSettings> trains;
  std::vector<Unsound> unsound;  // in order, each once
  // What steps make that are not this program's: of another `train`, or, in evaluation, of any. What reads them is left out, and no mistake.
  std::vector<NameUse> ofOtherSteps;
  std::vector<FoldedAccess> folded;
  std::set<std::string> means;  // evals and losses that are a mean as written: what batches give adds up to that of all rows
  bool readsTraining =
      false;  // the condition `training` stands in it or in a function that it calls: evaluation is another program
  // What a tensor's name means at the end of the notebook; null where it is the name of none.
  const Symbol* tensorSymbol(std::string_view name) const;
  // By its name in the notebook, else by its full name, `Z.F`; invalid where there is none.
  TensorId tensorNamed(std::string_view name) const;
  // Of initial values and batches, where nothing else is said: the first `train` statement's.
  std::uint64_t randomSeed() const { return trains.empty() ? 1 : trains.front().seed; }
  bool ok() const { return !hasErrors(diagnostics); }
};

// `source.text` is a notebook (cells separated by `# %%` lines) or plain statements. Never fails: mistakes are diagnostics.
CompiledNotebook compileNotebook(Source source, const CompileOptions& options = {});

// What a notebook with mistakes means without its unsound statements: compiled from the same text with blanks in their place, so that
// every place is the same. Nullopt where even that has a mistake.
std::optional<CompiledNotebook> soundPart(const CompiledNotebook& notebook, const CompileOptions& options = {});

// The text form: the program as legal source, one statement an operator; parsing it gives an equal program (structural hash).
std::string toText(const Program& program);
std::string toText(const Program& program, OperatorId op);
// Some of its operators in this order, without a line end behind the last. What a loop carries keeps its name behind the loop, as long
// as both stand in one text. `counters`: of the loops around the program, outermost first. `reserved`: names that nothing within a loop may
// go by, as those of a notebook that the text is put into.
std::string toText(const Program& program, const std::vector<OperatorId>& operators, std::vector<std::string> counters = {},
                   const std::vector<std::string>& reserved = {});
// The same, each by itself.
std::vector<std::string> statementTexts(const Program& program, const std::vector<OperatorId>& operators);
std::string toText(const Program& program, const Operator& op, ExprId expression, std::vector<std::string> counters = {});

}  // namespace nf
