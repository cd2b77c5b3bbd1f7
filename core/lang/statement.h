// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/ir/bounds.h"
#include "core/ir/paths.h"
#include "core/lang/elaborator.h"

namespace nf::lang {

// The note where a condition is missed: what is stored, `B = X > 0`, is 0 or 1.
inline constexpr const char* kOfNumber = "a number, or a comparison that is stored in a tensor, is compared: `B[i] != 0`";

using TermId = std::uint32_t;
inline constexpr TermId kNoTerm = 0xffffffffu;

struct TermIndex {
  IndexExpr affine;
  TermId data = kNoTerm;
  Span span;
};

// A resolved scalar expression over the variables of its statement; extents are not known yet.
struct Term {
  enum class Kind : std::uint8_t { Error, Constant, Index, Condition, Truth, Load, Op, Reduce, Random };
  Kind kind = Kind::Error;
  ScalarOp op = ScalarOp::Constant;
  DType type = DType::F32;
  bool soft = false;      // a number or index that takes the type of what it meets
  bool literal = false;   // Truth: written as `true`, kept as a node
  bool equality = false;  // Condition: index == 0, else index >= 0
  bool truth = false;
  bool mean = false;
  bool tiesEven = false;
  bool parenthesised = false;
  bool readsData = false;  // a load stands somewhere below
  Reducer reducer = Reducer::None;
  Number number;
  IndexExpr index;  // Index, Condition; Random: the point, where it is written
  bool hasPoint = false;
  TensorRef tensor;
  std::vector<Passed> passed;  // Load: of the View; an argument of a one-line function: the parameter's uses, too
  std::vector<TermIndex> indices;
  TermId otherwise = kNoTerm;
  std::array<TermId, 3> operands{kNoTerm, kNoTerm, kNoTerm};
  std::vector<IndexVar> variables;  // Reduce, in the order written
  std::vector<IndexVar> tested;     // Load: variables that the conditions above it test
  Span span;                        // the whole
  Span head;                        // the token that stands for it: origins point here
  std::uint32_t frame = 0;          // the call it was expanded from
};

bool isSlice(const ast::Ast& ast, const ast::Expr& e);  // X[_, t, _]

// One right side: builds terms, infers the extents of its indices, emits operators.
class Statement {
 public:
  Statement(Elaborator& elaborator, const ast::Ast& ast);

  // The left side. An ellipsis or a whole target opens the group of remaining indices.
  bool outputs(const std::vector<ast::TargetIndex>& indices);
  void wholeOutput();
  void axes(const std::vector<ast::Binder>& binders, std::size_t count);                          // scatter
  void knowGroup(const std::vector<std::int64_t>& shape, const std::vector<std::string>& names);  // the target is known already
  bool fixOutputs(const std::vector<std::int64_t>& shape, const std::string& name, Span span);  // of a target that is there already
  void giveExtent(IndexVar v, std::int64_t extent, Span span);
  std::int64_t extentOf(IndexVar v) const { return m_variables[v].extent; }
  void where(const std::vector<ast::Binder>& binders, std::size_t from);
  void implicitIndices(bool on) { m_implicit = on, m_scatters = true; }  // scatter: unknown names in its indices are new variables

  TermId term(ast::ExprRef e);
  TermId accessTerm(const View& view, const std::vector<ast::ExprRef>& indices, Span span, Span head, TermId otherwise);
  TermIndex indexTerm(ast::ExprRef e);
  // Arguments of a one-line function that is written into this operator: what it reads as a number, and as a tensor.
  std::optional<Entity> termArgument(ast::ExprRef e);
  std::optional<Entity> wholeArgument(ast::ExprRef e, const std::string& takes, const Function* f);
  std::optional<View> tensorArgument(ast::ExprRef e);
  std::optional<Entity> wholeCall(ast::ExprRef e);  // a function of whole tensors, called here
  void passThrough(TermId argument, const Passed& place);
  bool indexOfCaller(const ast::Expr& name);  // an index of the operator around such a call: reported, once a call
  std::optional<Number> constantOf(TermId id) const;
  // The expression is to be a number known while compiling; `what`, `counts`: see Elaborator::number.
  void numberFor(const std::string& what, bool counts) { m_numberFor = &what, m_counts = counts; }
  bool failed() const { return m_failed; }
  void carried() { m_carried = true; }  // from step to step of a loop: its extents are those that it came with

  bool inferExtents();
  std::vector<std::int64_t> outputShape() const;
  std::vector<std::string> outputNames() const;

  // The operator that computes `root` over the output indices, with those of nested reductions before it.
  struct Wish {
    Elaborator::NewTensor tensor;
    bool typed = false;  // tensor.type was written
  };
  TensorRef emit(TermId root, Wish wish, Span span);
  TensorRef emitScatter(TermId root, std::vector<TermIndex> into, Wish wish, Span span);
  // The view where the whole right side is one bare tensor, so that no operator is needed.
  std::optional<View> bareView(TermId root) const;
  void forceType(std::optional<DType> type) { m_realType = type; }
  const Term& at(TermId id) const { return m_terms[id]; }
  void noteHints(Span statement);

 private:
  struct Variable {
    std::string name;
    Span span;
    Span extentSpan;
    std::int64_t extent = 0;  // 0: not known yet
    bool given = false;
    bool generated = false;  // of an ellipsis
    bool reduced = false;
    bool inferred = false;  // its extent
  };
  struct Binding {
    std::string_view name;
    IndexVar variable;
  };
  struct Group {  // what `...` stands for
    bool known = false;
    bool reduced = false;
    std::vector<IndexVar> variables;
    Span span;
  };
  struct OutputItem {
    bool isGroup = false;
    IndexVar variable = 0;
  };

  // terms.cpp
  TermId push(Term t);
  TermId error(Span span);
  TermId constant(Number n, Span span);
  TermId nameTerm(const ast::Expr& e);
  TermId entityTerm(Entity& entity, const ast::Expr& e);
  TermId bareTensor(const View& view, const ast::Expr& e);
  TermId indexing(const ast::Expr& e, TermId otherwise);
  TermId prefix(const ast::Expr& e);
  TermId infix(const ast::Expr& e);
  bool toldDerivative(const ast::Expr& quotient);
  TermId arithmetic(const ast::Expr& e, TermId a, TermId b);
  TermId integerDivision(const ast::Expr& e, TermId a, TermId b);
  TermId comparison(const ast::Expr& e, TermId a, TermId b);
  TermId logic(const ast::Expr& e, TermId a, TermId b);
  TermId call(const ast::Expr& e);
  TermId builtin(const ast::Expr& e, bool& known);
  TermId worked(double y, bool finite, const ast::Expr& e);
  TermId unaryCall(ScalarOp op, const ast::Expr& e);
  TermId castCall(DType type, const ast::Expr& e);
  TermId selectCall(const ast::Expr& e);
  bool makesTensors(ast::ExprRef e) const;
  TermId randomCall(const ast::Expr& e);
  TermId inlined(const Function& f, const ast::Expr& e);
  std::optional<std::string_view> ownName(ast::ExprRef e) const;
  TermId reduction(const ast::Expr& e);
  TermId operation(ScalarOp op, std::array<TermId, 3> operands, const ast::Expr& e);
  TermId asValue(TermId id, const char* where);  // refuses conditions
  bool arity(const ast::Expr& e, std::size_t least, std::size_t most);
  std::optional<IndexExpr> asIndex(TermId id) const;
  std::optional<IndexVar> variableNamed(std::string_view name) const;
  IndexVar addVariable(std::string_view name, Span span);
  void setExtent(IndexVar v, ast::ExprRef e);
  bool expandGroup(Group& group, const View& view, std::size_t written, std::size_t before, Span span);
  void testedBy(TermId condition, std::vector<IndexVar>& into) const;
  std::string textOf(Span span) const;
  Diagnostic& report(std::string code, std::string message, Span span);

  // extents.cpp
  struct Use {  // an index of a load
    TermId load;
    std::size_t axis;
    const IndexExpr* index;
    std::int64_t size;
    bool weak;  // under `else`
    bool guarded(const Statement& s, IndexVar v) const;
  };
  std::vector<Use> uses() const;
  std::string extentText(std::int64_t extent) const;
  DiagnosticFix runOver(const Variable& variable, std::int64_t extent) const;
  std::string inBrackets(Span span, const std::string& text) const;
  // quiet: without a word about places that disagree.
  void aloneExtents(const std::vector<Use>& uses, bool weak, bool guarded, bool quiet);
  void settleExtents(const std::vector<Use>& uses, bool quiet);
  DiagnosticFix readZeroOutside(TermId load);
  bool solvedExtents(const std::vector<Use>& uses);
  std::optional<std::int64_t> largestExtent(const IndexExpr& index, std::int64_t size, IndexVar v) const;
  RangeOf ranges() const;
  void reportAmbiguous(IndexVar v, const std::vector<Use>& uses);

  // emit.cpp, nested_reductions.cpp
  struct Operation;  // operation.h
  ExprId emitTerm(Operation& op, TermId id, DType want);
  void noteFolded(TermId branch, Span condition);
  ExprId emitLoad(Operation& op, const Term& t);
  ExprId emitNested(Operation& op, TermId id);
  ExprId emitCondition(Operation& op, const Term& t);
  bool fits(const IndexExpr& index, Span span);  // into 64 bits at every point; false and a diagnostic
  void fitsInteger(Range range, Span span);      // into an i32, or a diagnostic
  bool countPoints(const Operation& op, std::vector<std::int64_t> times, const std::string& what, Span span);
  void fitsExactly(std::int64_t number, Span span);  // into a double, or a diagnostic
  static bool isIndexArithmetic(const Term& t);
  bool isWhole(TermId id) const;  // arithmetic of indices and integers alone
  TermId narrowPart(TermId id) const;
  static bool isWideAndReal(const Term& a, const Term& b) {
    const auto is = [](const Term& x, const Term& y) { return !x.soft && x.type == DType::I64 && !y.soft && isFloating(y.type); };
    return is(a, b) || is(b, a);
  }
  std::optional<Range> wideRange(const Operation& op, const ScalarNode& n) const;  // of an i64; nullopt: beyond 64 bits
  void fitsWide(Operation& op, ExprId made, Span span);
  AccessIndex emitIndex(Operation& op, const TermIndex& index, bool expanded);
  ExprId asNumber(Operation& op, ExprId condition, OriginId origin);
  TensorRef finish(Operation& op, TermId root, Wish& wish, Span span, std::uint32_t frame);
  void freeVariables(TermId id, std::vector<bool>& into, std::vector<bool>& seen) const;
  bool boundsObvious(TermId id, std::vector<bool>& seen) const;
  bool mayBlowUp(TermId id, std::vector<bool>& seen) const;
  bool looksUpData(TermId id, std::vector<bool>& seen) const;
  void findPaths(Operation& op, const std::vector<TermId>& roots) const;
  std::vector<PathCondition> pathTo(const Operation& op, TermId reduction) const;
  std::vector<PathCondition> onAxes(const Operation& outer, const std::vector<IndexVar>& axes,
                                    const std::vector<PathCondition>& path);
  std::vector<PathCondition> somewhere(const Operation& outer, const std::vector<IndexVar>& axes,
                                       const std::vector<PathCondition>& path, const std::string& local, const Term& t);
  void checkBounds(const Operation& op, const Operator& made);
  void warnOfDropped(const Operator& made, const std::vector<TermIndex>& into);
  void reportBounds(const Operation& op, const Operator& made, ExprId load, std::size_t axis, std::optional<Range> range);
  DType valueType(TermId id) const;

  Elaborator& m_elab;
  const ast::Ast* m_ast;
  std::vector<Term> m_terms;
  std::vector<Variable> m_variables;
  std::vector<Binding> m_bindings;
  std::size_t m_bindingsBase = 0;           // inside an inlined function the caller's indices are hidden
  std::vector<Group> m_groups;              // 0: the output's
  std::vector<std::uint32_t> m_openGroups;  // innermost last
  std::vector<OutputItem> m_outputs;
  std::vector<IndexVar> m_tested;
  struct Macro {
    std::string_view name;
    ast::ExprRef expr = ast::kNone;
    TermId term = kNoTerm;   // done
    std::size_t depth = 0;   // of bindings when it was done
    IndexVar innermost = 0;  // the last of them
    bool open = false;
  };
  std::vector<Macro> m_macros;
  std::size_t m_macrosBase = 0;
  bool m_whole = false;
  const std::string* m_numberFor = nullptr;  // what the expression is a number for; null: it is a value
  bool m_counts = false;
  bool m_implicit = false, m_scatters = false;
  bool m_failed = false;
  bool m_carried = false;
  bool m_toldMany = false;             // that it runs over more points than a machine comes to the end of
  std::optional<DType> m_realType;     // for numbers that meet nothing typed
  std::vector<PathCondition> m_guard;  // of the nested reduction that is emitted next, over its output axes
};

}  // namespace nf::lang
