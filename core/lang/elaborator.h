// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/lang/ast.h"
#include "core/lang/compile.h"
#include "core/support/unique_names.h"

// From the AST to a Program, statement by statement. Private to core/lang.
//
//   Elaborator  walks statements: scopes, declarations, definitions, functions, loops, training
//               elaborate.cpp, declare.cpp, define.cpp, expand.cpp, control_flow.cpp, train.cpp
//   Statement   one right side: terms, extents, operators
//               terms.cpp, operators.cpp, calls.cpp, inlined.cpp, extents.cpp, emit.cpp, nested_reductions.cpp
namespace nf::lang {

// A tensor of one of the programs under construction: level 0 is the notebook's, deeper ones are bodies of loops.
struct TensorRef {
  std::uint32_t level = 0;
  TensorId id;
  bool valid() const { return id.valid(); }
};

// Where a value goes through a call: its argument in the caller, its parameter, a use of that in the body. What is read of it came
// from there, too.
struct Passed {
  Span span;
  std::uint32_t frame = 0;  // the call that it stands in the body of; 0: none
  friend bool operator==(const Passed&, const Passed&) = default;
};

// A whole tensor, or a slice X[_, t, _]: fixed[i] unset is a free axis.
struct View {
  TensorRef tensor;
  std::vector<Passed> passed;
  std::vector<std::optional<IndexExpr>> fixed;  // empty: the whole tensor
  std::size_t rankOf(const Tensor& t) const;
};

// A number known while compiling.
struct Number {
  bool isInteger = true;
  std::int64_t integer = 0;
  double real = 0;
  double value() const { return isInteger ? static_cast<double>(integer) : real; }
  static Number of(std::int64_t i) { return {true, i, 0}; }
  static Number of(double r) { return {false, 0, r}; }
};

struct Function {
  const ast::Ast* ast = nullptr;
  const ast::Stmt* def = nullptr;
  std::string signature;
  bool standard = false;
  std::uint32_t symbol = ast::kNone;
  std::vector<bool> whole;  // of one expression: which parameters, then options, it reads as tensors
};

class Statement;

struct Entity {
  enum class Kind : std::uint8_t {
    Poison,  // a mistake was reported where it was made: uses are silent
    Number,
    Index,  // an expression of loop counters
    Tensor,
    LastOf,  // the value of a carried tensor after its loop: made on first use
    Data,
    Term,  // an argument that is part of an operator
  };
  Kind kind = Kind::Poison;
  Number number;
  IndexExpr index;
  View view;
  std::uint32_t loop = 0, carried = 0;  // LastOf
  std::uint32_t level = 0;              // LastOf: of the program that holds the loop
  const Statement* within = nullptr;    // an argument of a one-line function: the operator it is written into
  std::uint32_t term = ast::kNone;      // and what it is there
  Span definition;
  std::uint32_t symbol = ast::kNone;  // of CompiledNotebook::symbols
};

struct Scope {
  enum class Kind : std::uint8_t { Notebook, Function, Inlined, Loop, Repeat };
  Kind kind = Kind::Notebook;
  std::unordered_map<std::string, Entity> names;
  Scope* parent = nullptr;                               // where lookups go on; a function of the library has none
  Scope* caller = nullptr;                               // Inlined: where tensors get their names
  std::string prefix;                                    // of full tensor names: "Z."
  std::string suffix;                                    // Repeat: ".2"
  std::unordered_map<std::string, std::string> results;  // Function: local name -> full name
  std::unordered_set<std::string> rebinds;               // Loop, Repeat: names from outside that the body assigns
  std::vector<std::string> assigned;                     // Loop, Repeat: all names that the body assigns
};

// What a loop stacks or accumulates: it becomes a tensor of the program around once the loop is done.
struct Collected {
  std::string name;
  Span span;
  bool stacks = false;
  TensorId inner;
  std::optional<DType> type;
  std::vector<std::uint32_t> layout;
};

// One program under construction.
struct Context {
  Program* program = nullptr;
  UniqueNames names;
  std::unordered_map<std::uint32_t, TensorId> imports;  // tensor of the program around -> its inner twin
  std::unordered_map<std::uint64_t, OriginId> origins;
  std::vector<std::vector<std::string>> axisNames;  // by tensor: names for generated axes
  std::vector<Loop::Invariant> invariants;
  std::vector<Collected> collected;
  std::vector<TensorReference> references;  // of a loop's body: `loops` are those inside
};

bool isBuiltinFunction(std::string_view name);
bool isInitializer(std::string_view name);    // normal, csv: what gives a declared tensor its values
std::vector<std::string> builtinFunctions();  // all of them, sorted
bool isJsonObject(const std::string& text);
bool isLoopSchedule(const std::string& text);  // of a loop that is one kernel
bool isSchedule(const std::string& text);      // what core/schedule reads: a kind and knobs
std::string printReal(double value);           // the shortest that reads back as the same number

class Elaborator {
 public:
  Elaborator(CompiledNotebook& out, const CompileOptions& options);

  void addFunctions(const ast::Ast& ast, bool standard);
  void run(const ast::Ast& notebook);
  bool asksForTraining() const { return m_asksForTraining; }  // `training` stands in the notebook itself

 private:
  friend class Statement;

  // ---- diagnostics
  Diagnostic& report(std::string code, std::string message, Span span);
  Diagnostic& warn(std::string code, std::string message, Span span);
  bool failedSince(std::size_t errors) const { return m_errors != errors; }

  // ---- programs and origins
  Context& context() { return *m_contexts.back(); }
  Program& program() { return *m_contexts.back()->program; }
  std::uint32_t level() const { return static_cast<std::uint32_t>(m_contexts.size() - 1); }
  const Tensor& tensorOf(const TensorRef& ref) const { return (*m_contexts[ref.level]->program)[ref.id]; }
  TensorId import(const TensorRef& ref);  // its id in the current program
  OriginId origin(Span span);
  OriginId originIn(Context& context, Span span, std::uint32_t frame);
  OriginId originThrough(Context& context, Span span, std::uint32_t frame, const std::vector<Passed>& passed);
  std::vector<std::int64_t> counters() const { return m_trips; }
  std::string fresh(const std::string& wish);

  // ---- names
  Scope& scope() { return *m_scope; }
  Entity* lookup(std::string_view name);
  // Lookup, uses noted, LastOf made; null and a diagnostic where unknown. `written`: the name itself stands there.
  Entity* resolve(std::string_view name, Span use, bool written = true);
  const Function* functionNamed(std::string_view name);
  bool declare(std::string_view name, Span span, Entity entity, Symbol::Kind kind);  // false and a diagnostic: taken
  void poison(std::string_view name, Span span);
  void bind(std::string_view name, Entity entity);  // without asking
  Scope& open(Scope scope);
  void close();
  std::string fullName(const std::string& local);
  void noteUse(Entity& entity, Span use, bool written);
  void noteName(const Entity& entity, Span name);
  void noteSlice(Span name, Span whole, const TensorRef& tensor);
  void noteReference(Span span, const Entity& entity);
  void noteCalls(const ast::Ast& ast, ast::ExprRef value, const Entity& made);
  void noteMeaning(const Entity& entity);
  void nameLast(const std::string& name);  // what a repetition made last, as the name outside
  void rename(TensorId id, const std::string& name);
  // The name goes to another tensor of this program: what it meant before is `h#1`, `h#2`.
  void renumber(const std::string& name, TensorId before);
  // What is in scope and near to it, `others` too.
  std::vector<std::string> suggestions(std::string_view name, std::vector<std::string> others = {}) const;
  // Where a loop around assigns the name and nothing does before it: says so. False: none does.
  bool noteUncarried(std::string_view name, Diagnostic& d) const;
  void reportUndefinedFunction(const ast::Expr& call);
  bool inNotebook(Span span) const { return span.source == m_out.notebook; }

  // ---- tensors
  struct NewTensor {
    std::string local;
    Span span;
    TensorKind kind = TensorKind::Intermediate;
    DType type = DType::F32;
    std::vector<std::int64_t> shape;
    std::vector<std::string> axisNames;
    Initializer init;
    Span valuesSpan;  // of the file's name or the columns of a batch that it begins with
    std::vector<std::uint32_t> layout;
    bool temporary = false;  // not bound in the scope
  };
  TensorRef makeTensor(NewTensor wish);              // invalid and a diagnostic where the size overflows
  bool checkFree(std::string_view name, Span span);  // false and a diagnostic where the name is taken here
  std::string callName(std::string_view function);   // of what a call inside an expression makes
  void poisonTargets(const ast::Stmt& s);
  bool dependsOn(const ast::Ast& ast, const ast::Stmt& s, const std::vector<std::string>& names, std::size_t budget) const;
  void reportUndefined(std::string_view name, Span use);
  void listTensors(Diagnostic& d) const;  // as a note
  std::string detailOf(const Tensor& t) const;

  // ---- statements
  void statements(const ast::Ast& ast, const std::vector<ast::StmtRef>& list);
  void statement(const ast::Ast& ast, const ast::Stmt& s);
  std::string calledWithMistakes(const ast::Stmt& s, std::size_t told) const;
  void letNames(const ast::Ast& ast, const ast::Stmt& s);
  void declaration(const ast::Ast& ast, const ast::Stmt& s);
  void dataSet(const ast::Ast& ast, const ast::Stmt& s);
  void assignment(const ast::Ast& ast, const ast::Stmt& s);
  void define(const ast::Ast& ast, const ast::Stmt& s, const ast::Target& target, ast::ExprRef value);
  void defineWhole(const ast::Ast& ast, const ast::Stmt& s, const ast::Target& target, ast::ExprRef value);
  void defineBy(const ast::Ast& ast, Statement& right, const ast::Stmt& s, const ast::Target& target, ast::ExprRef value);
  void update(const ast::Ast& ast, const ast::Stmt& s);
  void scatter(const ast::Ast& ast, const ast::Stmt& s);
  void namedScalar(const ast::Ast& ast, const ast::Stmt& s);
  void show(const ast::Ast& ast, const ast::Stmt& s);
  void hint(const ast::Ast& ast, const ast::Stmt& s);
  bool readsOther(const std::string& a, const std::string& b) const;
  // The outer of two tensors, and the reduction within its expression that reads the other; empty where none does.
  std::pair<std::string, std::string> readsWithin(const std::string& a, const std::string& b) const;
  bool isBesideReduction(std::string_view name);
  void train(const ast::Ast& ast, const ast::Stmt& s);
  const Function* optimizerNamed(const ast::Expr* optimizer, const ast::Stmt& s);
  void optimize(const ast::Ast& ast, const ast::Stmt& s, TensorId loss, const ast::Expr* optimizer, bool all,
                const std::vector<std::pair<std::string, Span>>& wrt, const TrainSettings& settings);
  void rehearse(const std::function<void()>& expansion);
  TensorRef stepCounter(const std::string& loss, Span span);
  void clip(std::vector<TensorRef>& gradients, double limit, Span span);
  void conditional(const ast::Ast& ast, const ast::Stmt& s);
  bool readsGivenTensor(const ast::Ast& ast, ast::ExprRef condition);
  void require(const ast::Ast& ast, const ast::Stmt& s);
  std::optional<bool> constantCondition(const ast::Ast& ast, ast::ExprRef e, const std::string& word);
  void forLoop(const ast::Ast& ast, const ast::Stmt& s);
  void repeat(const ast::Ast& ast, const ast::Stmt& s);
  void collect(const ast::Ast& ast, const ast::Stmt& s);  // stack, accumulate
  TensorId collected(const Collected& c, const Context& body, std::int64_t trips);
  void callAlone(const ast::Ast& ast, const ast::Stmt& s);
  bool bindTarget(const ast::Target& target, Entity entity, Symbol::Kind kind = Symbol::Kind::Tensor);
  std::optional<View> scalarOf(const ast::Ast& ast, ast::ExprRef e, const std::string& local, Span span, std::optional<DType> type,
                               const ast::Stmt& s);
  void finishKaiming();
  // The extents of a tensor as its declaration in the notebook writes them, else as numbers.
  std::vector<std::string> extentTexts(std::string_view name, const Tensor& tensor) const;
  void prepareBatch(const ast::Ast& ast);

  bool initializer(const ast::Ast& ast, ast::ExprRef e, Initializer& into, bool ofData = false);
  bool fitsType(const NewTensor& wish, Span span);
  bool batchInitializer(const ast::Ast& ast, const ast::Stmt& s, const std::vector<std::int64_t>& shape, DType type,
                        Initializer& into);

  // ---- values known while compiling
  // counts: `what` is a number of elements or steps, so that a tensor there was meant for its extent.
  std::optional<Number> number(const ast::Ast& ast, ast::ExprRef e, const std::string& what, bool counts = false);
  std::optional<std::int64_t> extent(const ast::Ast& ast, ast::ExprRef e, const std::string& of);
  std::optional<std::int64_t> integer(const ast::Ast& ast, ast::ExprRef e, const std::string& what, bool counts = false);

  // ---- whole tensors and functions (expand.cpp)
  struct Argument {
    std::string name;  // of an option
    Entity entity;
    Span span;
  };
  // A tensor, slice, number or call where a whole value may stand. `wish` names what has to be made for it.
  std::optional<Entity> wholeValue(const ast::Ast& ast, ast::ExprRef e, const std::string& wish, std::optional<DType> type = {});
  std::optional<View> wholeTensor(const ast::Ast& ast, ast::ExprRef e, const std::string& wish);
  // within: the operator whose indices the slice may be taken at.
  std::optional<View> slice(const ast::Ast& ast, ast::ExprRef e, Statement* within = nullptr);
  std::optional<View> derivative(const ast::Expr& e);
  std::optional<View> gradWithSeed(const ast::Ast& ast, const ast::Expr& e, const std::string& wish);
  View materialise(const View& view, const std::string& wish, Span span);  // a slice as a tensor of its own
  View wholeView(const TensorRef& ref) const { return {ref, {}}; }
  std::vector<std::int64_t> shapeOf(const View& view) const;
  DType typeOf(const View& view) const { return tensorOf(view.tensor).type; }

  // Expands a call: its results, one an entry of def->results. resultNames: full names for them, empty ones are made from `wish`.
  std::optional<std::vector<Entity>> expand(const ast::Ast& ast, const ast::Expr& call, const std::string& wish,
                                            const std::vector<std::string>& resultNames);
  std::optional<std::vector<Entity>> expandWith(const Function& f, const std::vector<Argument>& arguments,
                                                const std::vector<Argument>& options, Span site, const std::string& wish,
                                                const std::vector<std::string>& resultNames);
  // options: as they are named at the call; one that is named as a parameter is said to be one.
  bool hasArity(const Function& f, std::size_t arguments, std::span<const std::string> options, Span site);
  // The current scope is the function's. within: of the operator that a one-line function is written into.
  bool bindParameters(const Function& f, const std::vector<Argument>& arguments, const std::vector<Argument>& options, Span site,
                      Statement* within = nullptr);
  void findWholeParameters();
  void reportWithin(std::string_view name, Span use);
  bool bindShape(const Function& f, const ast::Parameter& p, const View& view, Span argument);

  CompiledNotebook& m_out;
  CompileOptions m_options;
  std::vector<std::unique_ptr<Context>> m_contexts;
  // A function of whole tensors that is called inside an operator: the operator's indices mean nothing in what it takes.
  struct WholeCall {
    const Statement* within;
    const ast::Expr* call;
    bool told = false;
  };
  std::vector<WholeCall> m_wholeCalls;  // innermost last
  std::vector<std::int64_t> m_trips;    // of the loops around the current program
  struct Counter {
    std::string name;
    std::int64_t from = 0;
    Span end;  // where it is written how far it runs
  };
  std::vector<Counter> m_counters;  // theirs
  std::deque<Scope> m_scopes;       // all that are open; the last is the current one
  Scope* m_scope = nullptr;
  Scope m_global;  // the notebook's

  struct Frame {
    Span site;
    std::uint32_t parent = 0;
    const Function* function = nullptr;
  };
  std::vector<Frame> m_frames{{}};  // calls being expanded; 0: none
  std::uint32_t m_frame = 0;
  std::uint32_t m_callDepth = 0;
  std::unordered_map<std::string, Function> m_functions;
  std::unordered_map<std::string, TensorRef> m_fullNames;  // level 0: "Z.F"
  struct Later {
    Span span;
    const ast::Stmt* statement = nullptr;
  };
  std::unordered_map<std::string, Later> m_laterNames;   // defined further down in the notebook
  std::vector<std::string> m_defining;                   // names of the statement at hand
  std::unordered_map<std::string, int> m_prefixes;       // of calls without a name of their own
  std::unordered_map<std::string, Number> m_batchNames;  // extents that training, --set or the caller decide
  std::unordered_set<std::string> m_batchesOfTrains;     // inputs whose rows `batch =` of a `train` may decide, or `--set`
  std::unordered_set<std::string> m_setsUsed;
  Phase m_phase = Phase::Forward;
  std::string m_nestedBase;  // names the operators of nested reductions
  Diagnostic m_repeated;     // what was told of another call already
  std::size_t m_errors = 0;
  std::string m_poisonMet;    // by the statement at hand
  Span m_mistakenCall;        // of the notebook, in which the newest mistake was found; invalid: in none
  bool m_updateLost = false;  // an unsound `<-`: what trains would miss it
  void taint(const ast::Ast& ast, const ast::Stmt& s, bool inBlock = false);
  std::unordered_set<std::uint32_t> m_misread;  // where statements begin that the parser has found mistakes in
  bool m_refused = false;         // the call being expanded broke a `require`: what follows from that is not told about
  std::vector<TensorId> m_shown;  // by the cell that is being read
  bool m_functionsListed = false;
  std::size_t m_work = 0;     // statements and functions expanded so far
  std::int64_t m_copies = 0;  // of the repetitions around, multiplied; 0: there are none
  bool spend(Span where);     // one more of them; false and one diagnostic past the limit
  std::int64_t m_randomStreams = 0;
  std::unordered_map<Hash, TensorRef> m_scalars;  // of optimizers: what every parameter would calculate anew
  bool m_inTrain = false;
  bool m_asksForTraining = false;
  std::size_t m_metElsewhere = 0;               // uses of them
  std::unordered_set<std::string> m_elsewhere;  // tensors that steps make which are not this program's
  std::unordered_set<std::string> m_noLosses;   // names that `loss` and `eval` have refused: no numbers
  std::unordered_set<std::uint32_t> m_trained;  // what the optimizers of all `train` statements so far update
  const ast::Ast* m_notebook = nullptr;
};

}  // namespace nf::lang
