// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/program.h"
#include "core/support/span.h"

// What the parser understood of one source: flat pools, numbered nodes. Texts are views into the source or into `Ast::names`.
namespace nf::ast {

using ExprRef = std::uint32_t;
using StmtRef = std::uint32_t;
inline constexpr std::uint32_t kNone = 0xffffffffu;

// Deeper nesting than this is refused with a diagnostic: recursion over the tree stays bounded.
inline constexpr std::uint32_t kMaxDepth = 800;
// A nested statement costs several times the stack of a nested operation.
inline constexpr std::uint32_t kMaxNestedStatements = 200;

enum class ExprKind : std::uint8_t {
  Error,
  Number,      // number; integer where isInteger
  String,      // text without the quotes
  Name,        // text: a tensor, an extent, an index, ...
  Prefix,      // op, args[0]
  Infix,       // op, args[0], args[1]
  Call,        // text(args; binders): binders are the options
  Index,       // args[0][args[1..]]
  Reduce,      // reducer[binders] args[0]
  Else,        // args[0] else args[1]
  Derivative,  // d(text)/d(text2)
  Hole,        // _
  Ellipsis,    // ...
};

enum class Op : std::uint8_t {
  Add,
  Sub,
  Mul,
  Div,
  FloorDiv,
  Mod,
  Pow,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  Equal,
  NotEqual,
  And,
  Or,
  Negate,
  Not
};
std::string_view spelling(Op op);

// `name = value`, `name: value`; value is kNone where there is none, name is "..." for an ellipsis.
struct Binder {
  std::string_view name;
  Span span;
  ExprRef value = kNone;
};

struct Expr {
  ExprKind kind = ExprKind::Error;
  Op op = Op::Add;
  bool isInteger = false;
  bool parenthesised = false;
  bool tiesEven = false;  // Reduce
  std::uint32_t height = 1;
  Span span;  // all of it
  Span head;  // the token to point at: name, operator, number
  double number = 0;
  std::int64_t integer = 0;
  std::string_view text;
  std::string_view text2;
  std::vector<ExprRef> args;
  std::vector<Binder> binders;
};

enum class StmtKind : std::uint8_t {
  Error,
  Let,
  Declare,
  Data,
  Assign,
  Call,
  Def,
  For,
  Repeat,
  Stack,
  Accumulate,
  Loss,
  Eval,
  Show,
  Train,
  Hint,
  If,
  Require
};

struct TargetIndex {
  ExprRef expr = kNone;
  ExprRef extent = kNone;
};

// What stands left of `=`: T, T[i, j: 4] : f16 layout(1, 0)
struct Target {
  std::string_view name;
  Span nameSpan;
  Span span;
  bool hasIndices = false;
  std::vector<TargetIndex> indices;
  std::optional<DType> type;
  std::vector<std::uint32_t> layout;
};

enum class AssignOp : std::uint8_t { Define, Scatter, Update };

// A parameter of a function: X[N, C, ...], K, x
struct Parameter {
  std::string_view name;
  Span span;
  bool hasShape = false;
  std::vector<ExprRef> shape;
};

struct Stmt {
  StmtKind kind = StmtKind::Error;
  AssignOp assign = AssignOp::Define;
  Phase phase = Phase::Forward;
  bool hasPhase = false;
  bool reversed = false;  // For
  bool bundled = false;   // Data: a set by name
  bool named = false;     // Show: `output`, a value that is asked for without being shown
  TensorKind declares = TensorKind::Input;
  Hint::Kind hint = Hint::Kind::Fuse;
  Span span;
  Span nameSpan;
  std::string_view name;        // Def, For and Repeat (counter), Data, Loss, Eval, Train, Stack, Accumulate
  std::vector<Target> targets;  // Assign; Declare (one, indices are extents); Hint (tensors)
  std::vector<ExprRef>
      values;  // Assign, Show, Loss, Eval, Stack, Accumulate: right sides; Call: the call; For, Repeat: bounds; If, Require: the condition
  std::vector<Binder>
      binders;  // Let; Train and Data attributes; Def: options, then `where`; Assign: `where`; Scatter: axes; For: names read
  std::size_t optionCount = 0;  // Def
  bool explicitAxes = false;    // scatter[n: 5] T[..] += ..
  std::size_t scatterAxes = 0;  // so many of the binders are those axes, the rest is `where`
  std::vector<Parameter> parameters;
  std::vector<Binder> results;     // Def
  std::vector<StmtRef> body;       // Def, For, Repeat, If
  std::vector<StmtRef> otherwise;  // If: the `else` block
  ExprRef value = kNone;  // Declare: initial value; Data: source; Def: body expression; Show: name to print; Require: what to say
  // input X[...] = batch D[:, begin..end] op number ...
  std::string_view batchData;
  Span batchSpan;
  ExprRef batchBegin = kNone, batchEnd = kNone;
  std::vector<std::pair<Op, ExprRef>> batchArithmetic;
  Span raw;  // Hint: the attributes between braces, inclusive
};

struct Cell {
  bool markdown = false;
  Span span;
  std::vector<StmtRef> statements;
};

struct Ast {
  std::vector<Expr> exprs;
  std::vector<Stmt> stmts;
  std::vector<Cell> cells;
  std::deque<std::string> names;  // spellings that the source does not hold as they are: `d(L)/d(W)`

  const Expr& operator[](ExprRef e) const { return exprs[e]; }
};

}  // namespace nf::ast
