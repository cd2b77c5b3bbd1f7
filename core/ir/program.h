// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/dtype.h"
#include "core/ir/index_expr.h"
#include "core/support/hash.h"
#include "core/support/ids.h"
#include "core/support/span.h"

// The single-level IR of NeoFlow: tensors, and operators that are Equation 1 of the paper,
//
//   out[x1..xN] = REDUCE over r1..rL of body(x, r)
//
// Flat pools with typed ids; values are immutable once built. A pass takes `const Program&` and makes a new Program.
namespace nf {

using TensorId = Id<struct TensorTag>;
using OperatorId = Id<struct OperatorTag>;
using ExprId = Id<struct ExprTag>;
using IndexId = Id<struct IndexTag>;
using AccessId = Id<struct AccessTag>;
using LoopId = Id<struct LoopTag>;
using OriginId = Id<struct OriginTag>;

// ---------------------------------------------------------------- origins
// Where a thing comes from. Either a place in the source, or the pass that made it and the origins it was made from.
// Ids stay valid from pass to pass: a pass starts with a copy of its input's table and only appends.
struct Origin {
  Span span;         // valid for source origins; for derived ones the span of the nearest source ancestor
  std::string pass;  // empty for source origins; "differentiate", "fuse", ...
  std::vector<OriginId> parents;
};

// ---------------------------------------------------------------- scalar expressions
enum class ScalarOp : std::uint8_t {
#define NF_SCALAR(name, arity, spelling, form, flops) name,
#include "core/ir/scalar_ops.def"
#undef NF_SCALAR
};
inline constexpr std::size_t kScalarOpCount = 0
#define NF_SCALAR(name, arity, spelling, form, flops) +1
#include "core/ir/scalar_ops.def"
#undef NF_SCALAR
    ;

enum class ScalarForm : std::uint8_t { Leaf, Prefix, Infix, Call };
struct ScalarOpInfo {
  std::string_view name;  // "Add"
  int arity;
  std::string_view spelling;
  ScalarForm form;
  int flops;
};
const ScalarOpInfo& info(ScalarOp op);

// Operands precede their node in the pool, so a sweep over ids is a topological order.
struct ScalarNode {
  ScalarOp op = ScalarOp::Constant;
  DType type = DType::F32;
  std::array<ExprId, 3> operands;  // `arity` of them
  double value = 0;                // Constant: the value; Random: its stream number
  IndexId index;                   // Index, IndexGe0, IndexEq0; Random: the point, so that substitution keeps the numbers
  AccessId access;                 // Load
  OriginId origin;
};

// One component of an access: quasi-affine, or data-dependent (an i32 or i64 expression; its value is range-checked, never clamped).
// i64: no value met in working it out leaves 64 bits, whatever the i32 it reads.
struct AccessIndex {
  IndexExpr affine;
  ExprId data;
  bool isData() const { return data.valid(); }
};

struct Access {
  TensorId tensor;
  std::vector<AccessIndex> indices;  // one an axis of the tensor
};

// ---------------------------------------------------------------- tensors
enum class TensorKind : std::uint8_t { Input, Param, Const, State, Intermediate };

// Initial values, or the data file they come from. Names and numbers as written: `normal(0, 0.05)`, `npz("x.npz", "W")`.
struct Initializer {
  enum class Kind : std::uint8_t {
    None,
    Zeros,
    Constant,
    Normal,
    Uniform,
    Kaiming,
    Xavier,
    Npy,
    Npz,
    Idx,
    Csv,
    Safetensors,
    Batch
  };
  Kind kind = Kind::None;
  std::vector<double> numbers;  // normal: mean, deviation; uniform: low, high; constant: value; kaiming, xavier: fan in, fan out
  std::vector<std::string> strings;  // file, member
  // Batch: rows of data set `data` (Program::data), columns [begin, end), then value * scale + shift.
  std::string data;
  std::int64_t columnBegin = 0, columnEnd = 0;
  double scale = 1, shift = 0;
  OriginId origin;  // of the file's name, of a batch's columns; two that say the same are equal wherever they stand

  friend bool operator==(const Initializer& a, const Initializer& b);
};
void add(Hasher& hasher, const Initializer& init);  // equal ones alike

// Storage order of the logical axes, outermost first; empty means row-major. Packing and splits extend it.
struct Layout {
  std::vector<std::uint32_t> order;
  friend bool operator==(const Layout&, const Layout&) = default;
};

struct Tensor {
  std::string name;  // unique in its program; parameters of calls by path: "block3.conv1.F"
  TensorKind kind = TensorKind::Intermediate;
  DType type = DType::F32;
  std::vector<std::int64_t> shape;  // extents > 0; rank 0 is a scalar
  Initializer init;
  Layout layout;
  OriginId origin;

  std::int64_t elements() const;  // the extents' product fits 64 bits: the verifier sees to it
  std::int64_t bytes() const { return elements() * bytesOf(type); }
  OriginId valuesOrigin() const { return init.origin.valid() ? init.origin : origin; }
};

// ---------------------------------------------------------------- operators
enum class Reducer : std::uint8_t { None, Sum, Prod, Max, Min, ArgMax, ArgMin };
std::string_view name(Reducer reducer);

enum class OperatorKind : std::uint8_t {
  Gather,  // Equation 1: output[x] = REDUCE_r body(x, r)
  // output = 0, then for every point of the axes output[scatter indices] += body; all axes are iterated, outputRank is 0.
  // An affine index outside the output adds nothing. Where the body is select(c, v, 0) at its root (nested ones alike), points
  // with c false are skipped: neither v nor the indices are read there.
  Scatter,
  Loop,  // loops.md; axes and body unused
};

enum class Phase : std::uint8_t { Forward, Backward, Optimizer, Evaluation };

struct Axis {
  std::string name;  // as written; unique in its operator
  std::int64_t extent = 1;
  OriginId origin;
};

struct Operator {
  std::string name;  // of its output tensor, for people
  OperatorKind kind = OperatorKind::Gather;
  Phase phase = Phase::Forward;
  std::vector<Axis> axes;  // the first outputRank are the output's, the rest are reduced, outermost first
  std::uint32_t outputRank = 0;
  Reducer reducer = Reducer::None;
  bool tiesEven = false;  // max and min: the gradient is shared among equal elements, else the first in row-major order has it
  ExprId body;
  std::vector<AccessIndex> scatter;  // Scatter: one an axis of the output
  LoopId loop;
  TensorId output;  // Loop: invalid, its outputs stand in the Loop
  OriginId origin;
};

struct Program;

// Loop { T; body; ... }, loops.md. The body is a Program of its own whose accesses may use the counter,
// IndexVar kLoopVariable + depth, in [0, trips). Tensors named `outer` belong to the enclosing program, `inner` to the body.
// A slice X[_, t, _] is an access of an invariant with the counter in it.
struct Loop {
  struct Carried {
    TensorId initial;
    TensorId innerIn;
    TensorId innerOut;
    TensorId last;
  };  // last: outer, value after the loop; may be invalid
  struct Invariant {
    TensorId outer;
    TensorId inner;
  };
  struct Stacked {
    TensorId inner;
    TensorId outer;
  };  // outer has one more axis, the first, of extent trips
  struct Accumulated {
    TensorId inner;
    TensorId outer;
  };  // outer = sum over the steps of inner
  std::string counter = "t";
  std::int64_t trips = 1;
  bool reversed = false;    // runs from trips-1 down to 0
  bool persistent = false;  // one kernel runs all its steps; else its body's groups are kernels (from stage Fused on)
  std::uint32_t depth = 0;
  std::shared_ptr<const Program> body;
  std::vector<Carried> carried;
  std::vector<Invariant> invariants;
  std::vector<Stacked> stacked;
  std::vector<Accumulated> accumulated;
};

// ---------------------------------------------------------------- what the program is for
// A derivative that is asked for and not yet made: `result` has no producer until `differentiate` has run.
// With a seed: grad(of, wrt, seed). Without: d(of)/d(wrt), `of` a scalar.
struct Derivative {
  TensorId of, wrt, result, seed;
  OriginId origin;
};

// `target <- value` at the end of a training step; every read in the step sees the old value.
struct Update {
  TensorId target, value;
  OriginId origin;
};

enum class OutputRole : std::uint8_t { Loss, Eval, Show, Named };
struct Output {
  std::string name;
  TensorId tensor;
  OutputRole role = OutputRole::Named;
};

// `hint fuse Y, Z`, `hint split Y, Z`, `hint schedule Y { ... }`: a person's decisions, inputs of the passes.
struct Hint {
  enum class Kind : std::uint8_t { Fuse, Split, Schedule };
  Kind kind = Kind::Fuse;
  std::vector<std::string> tensors;
  std::string attributes;  // Schedule: JSON object
  OriginId origin;
};

// `data D = csv("...") { split = last 360 }`
struct DataSet {
  std::string name;
  Initializer source;
  std::string directory;  // where its path is relative to
  std::int64_t heldOutLast = 0;
  OriginId origin;
};

// The stages of a Program, in order. verify() checks what each promises; `show --stage` and the views use these names.
enum class Stage : std::uint8_t { Source, Differentiated, Transformed, Partitioned, Fused, Scheduled, Lowered };
std::string_view name(Stage stage);
std::optional<Stage> stageNamed(std::string_view name);

// One kernel's worth of operators, after partition. `subgraph` numbers the unique ones: equal groups share it.
struct Group {
  std::vector<OperatorId> operators;  // in program order
  std::uint32_t subgraph = 0;
  std::string name;
};

struct Program {
  std::vector<Tensor> tensors;
  std::vector<Operator> operators;  // topological order
  std::vector<ScalarNode> scalars;
  std::vector<IndexExpr> indices;
  std::vector<Access> accesses;
  std::vector<Loop> loops;
  std::vector<Origin> origins;

  std::vector<Derivative> derivatives;
  std::vector<Update> updates;
  std::vector<Output> outputs;
  std::vector<Hint> hints;
  std::vector<DataSet> data;
  std::vector<Group> groups;  // from stage Partitioned on: every operator is in exactly one
  Stage stage = Stage::Source;

  const Tensor& operator[](TensorId id) const { return tensors[id.value]; }
  const Operator& operator[](OperatorId id) const { return operators[id.value]; }
  const ScalarNode& operator[](ExprId id) const { return scalars[id.value]; }
  const IndexExpr& operator[](IndexId id) const { return indices[id.value]; }
  const Access& operator[](AccessId id) const { return accesses[id.value]; }
  const Loop& operator[](LoopId id) const { return loops[id.value]; }
  const Origin& operator[](OriginId id) const { return origins[id.value]; }
  Tensor& operator[](TensorId id) { return tensors[id.value]; }
  Operator& operator[](OperatorId id) { return operators[id.value]; }
  ScalarNode& operator[](ExprId id) { return scalars[id.value]; }
  Loop& operator[](LoopId id) { return loops[id.value]; }

  TensorId tensorNamed(std::string_view name) const;  // invalid where there is none

  // Builders: append to a pool. Scalar builders fold nothing; passes that want folding say so.
  TensorId addTensor(Tensor tensor);
  OperatorId addOperator(Operator op);
  OriginId addOrigin(Origin origin);
  OriginId sourceOrigin(Span span);
  OriginId derivedOrigin(std::string_view pass, std::vector<OriginId> parents);
  ExprId constant(double value, DType type = DType::F32, OriginId origin = {});
  ExprId indexValue(IndexExpr index, DType type, OriginId origin = {});
  ExprId load(TensorId tensor, std::vector<AccessIndex> indices, OriginId origin = {});  // of the tensor's arithmetic type
  ExprId condGe0(IndexExpr index, OriginId origin = {});
  ExprId condEq0(IndexExpr index, OriginId origin = {});
  ExprId cond(const IndexCond& condition, OriginId origin = {});
  // Uniform in [0, 1), f32, by (seed, step, stream, value of `point`): core/support/counter_random.h.
  ExprId random(std::int64_t stream, IndexExpr point, OriginId origin = {});
  ExprId unary(ScalarOp op, ExprId a, OriginId origin = {});
  ExprId binary(ScalarOp op, ExprId a, ExprId b, OriginId origin = {});
  ExprId select(ExprId condition, ExprId then, ExprId otherwise, OriginId origin = {});
  ExprId cast(DType type, ExprId a, OriginId origin = {});
  std::string freshName(std::string_view wish) const;  // wish, wish#2, wish#3, ... until no tensor has it
};

// The type arithmetic on stored values of `type` is done in: f16 and bf16 compute in f32.
DType arithmeticType(DType type);
// The type of `a op b` for operands of these types; nullopt where the operation refuses them.
std::optional<DType> resultType(ScalarOp op, DType a, DType b);

// Is the group a Loop whose body's groups are kernels, rather than a kernel itself?
bool isStepped(const Program& program, const Group& group);
// The groups that are kernels, those in the bodies of stepped loops in their loop's place.
std::vector<const Group*> kernelGroups(const Program& program);

// Ranges of an operator's axes, and of the loop counters around it where `counters` gives their trips (outermost first).
RangeOf rangesOf(const Operator& op, std::vector<std::int64_t> counters = {});

// ---------------------------------------------------------------- walking
// The operator that writes each tensor; invalid for tensors without a producer. Loop outputs name the Loop's operator.
std::vector<OperatorId> producers(const Program& program);
// Tensors an operator reads, in order of first occurrence, without repeats (Loop: initials and invariants).
std::vector<TensorId> readsOf(const Program& program, OperatorId op);
// Whether component `axis` of an access is the operator's own place along its axis of that number. Along an extent of 1 the constant 0
// is that place too: simplification writes it for the axis.
bool readsOwnPlace(const Operator& op, const Access& access, std::size_t axis);
// Tensors an operator writes (Loop: last, stacked and accumulated ones).
std::vector<TensorId> writesOf(const Program& program, OperatorId op);
// Every node of an expression, operands before users, without repeats.
std::vector<ExprId> nodesOf(const Program& program, ExprId root);
// Arithmetic operations of one execution.
std::int64_t flopsOf(const Program& program, OperatorId op);
// What no execution can do without: values computed once for all points that share them, of a select neither branch, any function one.
std::int64_t leastFlopsOf(const Program& program, OperatorId op);

// Copies expressions from one program into another: tensors and index variables are mapped, shared nodes stay shared.
class ExprCloner {
 public:
  ExprCloner(const Program& from, Program& to) : m_from(from), m_to(to) {}
  std::function<TensorId(TensorId)> tensor;                              // unset: same id
  std::function<std::optional<IndexExpr>(IndexVar)> variable;            // unset: same variable
  std::function<std::optional<ExprId>(ExprId, const ScalarNode&)> node;  // a replacement in `to` for a node of `from`; unset: none
  std::function<OriginId(OriginId)> origin;                              // unset: same id (tables share a prefix)
  ExprId clone(ExprId root);
  AccessIndex clone(const AccessIndex& index);

 private:
  const Program& m_from;
  Program& m_to;
  std::map<ExprId, ExprId> m_done;
};

}  // namespace nf
