// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "core/schedule/fragment.h"
#include "core/support/ids.h"

// The loop IR: what a scheduled subgraph is before a back end takes it (Glow's address-only level). Loops have constant
// extents and a kind; every read and write names a flat buffer and an offset in elements. Its meaning does not depend on the
// kinds: running every loop serially gives the same result, which the interpreter and the race check rest on.
namespace nf::loop {

using VarId = Id<struct LoopVarTag>;
using BufferId = Id<struct LoopBufferTag>;
using ValueId = Id<struct LoopValueTag>;
using StmtId = Id<struct LoopStmtTag>;
using MapId = Id<struct LoopMapTag>;

// Serial: a loop. Parallel: independent tasks of a stage (only outermost). Unrolled: expanded by the back end. Vector: lanes of
// one vector. Block, Thread: of a GPU's grid.
enum class LoopKind : std::uint8_t { Serial, Parallel, Unrolled, Vector, Block, Thread };
// Global: operands and the workspace. Shared: one a block. Local: one a task or thread, small ones live in registers. Fragment: a
// thread's part of matrices that are spread over the 32 threads of its warp (fragment.h), of type F16, BF16 or F32; numbers in
// fragments of F32 are rounded to tf32 as they come in.
enum class Scope : std::uint8_t { Global, Shared, Local, Fragment };
enum class Direction : std::uint8_t { None, In, Out, InOut };
// Who waits for whom: the threads of a block, or those of all blocks, which are then there together.
enum class BarrierScope : std::uint8_t { Block, Grid };

// Runs over [0, extent). IndexVar v of every IndexExpr here is VarId v; counters of enclosing Loops keep their numbers.
struct Var {
  std::string name;
  std::int64_t extent = 1;
  LoopKind kind = LoopKind::Serial;
};

struct Buffer {
  std::string name;
  DType type = DType::F32;  // of storage
  std::int64_t elements = 1;
  Scope scope = Scope::Global;
  Direction direction = Direction::None;  // Global with None: part of the workspace
  std::int64_t workspaceOffset = 0;       // bytes
  bool rounded = false;                   // Shared, of F32: numbers are rounded to tf32 as they are stored
};

// A global buffer, or a part of it, as a GPU's copy engine takes it: boxes of it go to shared memory. Axes innermost first, five at most;
// what a box has outside an extent is zero.
struct TensorMap {
  std::string name;
  BufferId buffer;
  std::int64_t offset = 0;  // elements, to where all coordinates are 0
  bool rounded = false;     // F32: to tf32 on the way
  struct Axis {
    std::int64_t extent = 1, stride = 1;  // elements; the first axis' are neighbours
    std::int64_t box = 1;                 // points; the first axis' are 128 bytes
  };
  std::vector<Axis> axes;
};

// A data-dependent component: adds stride * value to the offset. The value must be in [0, extent): else the kernel reports
// `check` and the access does not happen (a load yields 0).
struct DataIndex {
  ValueId value;
  std::int64_t stride = 1;
  std::int64_t extent = 0;
  std::uint32_t check = 0;  // index of Function::checks
};

struct Place {
  BufferId buffer;
  IndexExpr offset;  // elements
  std::vector<DataIndex> data;
};

// Operands stand before their users in the pool. Evaluation is eager; a load whose offset may be invalid carries its guard.
struct Value {
  enum class Kind : std::uint8_t { Constant, Index, IndexGe0, IndexEq0, Random, Load, Apply, Fma };
  Kind kind = Kind::Constant;
  ScalarOp op = ScalarOp::Add;  // Apply
  DType type = DType::F32;
  std::array<ValueId, 3> operands;  // Apply: its arity; Fma: a*b + c, rounded once
  double constant = 0;              // Constant; Random: the stream
  IndexExpr index;                  // Index, IndexGe0, IndexEq0; Random: the point
  Place place;                      // Load
  ValueId guard;                    // Load: read only where it holds, else 0; invalid: always
  OriginId origin;
  std::vector<OriginId> readAs;  // the accesses it stands for: of tensors that are computed where they are read
};

struct Statement {
  // AsyncCopy starts a copy into a shared buffer; AsyncCommit closes a thread's group of copies; AsyncWait lets all but so many of its
  // groups land. Exchange: target = left as the thread of the warp has it whose number differs in some bits.
  // MatrixLoad, MatrixTile: the threads of a warp come together. MatrixLoad reads matrices of 8 rows of 16 bytes from shared memory into
  // fragments; thread 8*j + r names where row r of matrix j begins. MatrixTile: C += A * B of tile m x n x k, the products exact, added
  // to C in any order with at least single precision and rounded to F32; the interpreter adds them up in order of k, in double.
  // WarpgroupTile: the same of the 128 threads of four warps, C spread over them, both operands in shared memory (fragment.h), those of F32 in
  // buffers that round, because the units want tf32 and do not make it. It only begins
  // there: WarpgroupCommit closes a thread's group of tiles, WarpgroupWait lets all but so many groups end, until when C is not to be
  // touched but by further tiles. WarpgroupFence stands between other uses of C and tiles. A tile sees what a thread wrote to shared memory
  // once that thread has passed a ProxyFence, and then a barrier.
  // TensorCopy begins a copy of a map's box, which one thread does for all: in shared memory it lies as a WarpgroupTile takes it, each of the
  // first axis' neighbours a row. Its bytes are there when a phase of its arrival has ended. An arrival is an element of a shared i64 buffer; ArrivalInit
  // begins it, for others than its thread behind a ProxyFence and a barrier. One thread says by ArrivalExpect how many bytes
  // a phase brings, which ends with the last of them, and the next one begins. ArrivalWait, of all threads of a block, waits for the end of the
  // phase of this parity (the first: 0), and who has waited sees what it brought.
  enum class Kind : std::uint8_t {
    For,
    If,
    Store,
    Barrier,
    AsyncCopy,
    AsyncCommit,
    AsyncWait,
    Exchange,
    MatrixLoad,
    MatrixTile,
    WarpgroupFence,
    WarpgroupTile,
    WarpgroupCommit,
    WarpgroupWait,
    ProxyFence,
    TensorCopy,
    ArrivalInit,
    ArrivalExpect,
    ArrivalWait
  };
  Kind kind = Kind::Store;
  OriginId origin;
  VarId var;                      // For
  std::vector<StmtId> body;       // For, If
  std::vector<StmtId> otherwise;  // If
  ValueId value;                  // Store; If: the condition
  Place
      target;  // Store; AsyncCopy, Exchange, MatrixLoad, TensorCopy: where to; MatrixTile, WarpgroupTile: the accumulator C; Arrival..: the arrival
  Place left,
      right;  // AsyncCopy, Exchange, MatrixLoad: left is where from; MatrixTile, WarpgroupTile: C += left * right; TensorCopy: right is its arrival
  std::int64_t elements =
      0;  // AsyncCopy; AsyncWait, WarpgroupWait: groups that may stay in flight; Exchange: the bits, below 32; MatrixLoad: matrices; ArrivalExpect: bytes
  bool transposed = false;                     // MatrixLoad: a thread takes neighbours of a column, not of a row
  std::array<std::int64_t, 3> tile{};          // MatrixTile, WarpgroupTile: m, n, k
  BarrierScope barrier = BarrierScope::Block;  // Barrier
  SwizzledOperand leftLies, rightLies;         // WarpgroupTile
  MapId map;                                   // TensorCopy
  std::vector<IndexExpr> coordinates;          // TensorCopy: of the box's first element, by axis of the map
  IndexExpr parity;                            // ArrivalWait
};

// Stages run one after the other; the tasks of a stage (product of its outermost Parallel or Block loops) in any order. Inside
// its Block loops a GPU's stage is a list of nests of Thread loops; between two of them all threads of the block wait for each other.
// A stage with a barrier of the grid has one nest of Thread loops; its blocks run together.
struct Stage {
  std::string name;
  std::vector<StmtId> body;
};

struct Function {
  std::string name;
  std::vector<Var> vars;
  std::vector<Buffer> buffers;  // operands first, in binding order: the subgraph's inputs, then its outputs
  std::vector<TensorMap> maps;
  std::size_t operands = 0;
  std::vector<Value> values;
  std::vector<Statement> statements;
  std::vector<Stage> stages;
  std::vector<std::string> checks;  // what went wrong where a data index is out of range: "operator E: index 0 of T"
  std::int64_t workspaceBytes = 0;
  std::int64_t flops = 0;

  const Var& operator[](VarId id) const { return vars[id.value]; }
  const Buffer& operator[](BufferId id) const { return buffers[id.value]; }
  const TensorMap& operator[](MapId id) const { return maps[id.value]; }
  const Value& operator[](ValueId id) const { return values[id.value]; }
  const Statement& operator[](StmtId id) const { return statements[id.value]; }
  Statement& operator[](StmtId id) { return statements[id.value]; }

  VarId addVar(std::string name, std::int64_t extent, LoopKind kind);
  BufferId addLocal(std::string name, DType type, std::int64_t elements);
  BufferId addShared(std::string name, DType type, std::int64_t elements);
  BufferId addFragment(std::string name, DType type, std::int64_t elements);
  MapId addMap(TensorMap map);
  BufferId addWorkspace(std::string name, DType type, std::int64_t elements);  // 64-byte aligned
  ValueId constant(double value, DType type, OriginId origin = {});
  ValueId indexValue(IndexExpr index, DType type, OriginId origin = {});
  ValueId ge0(IndexExpr index, OriginId origin = {});
  ValueId eq0(IndexExpr index, OriginId origin = {});
  ValueId random(double stream, IndexExpr point, OriginId origin = {});
  ValueId load(Place place, ValueId guard = {}, OriginId origin = {});
  ValueId apply(ScalarOp op, DType type, std::array<ValueId, 3> operands, OriginId origin = {});
  ValueId fma(ValueId a, ValueId b, ValueId c, OriginId origin = {});
  ValueId addProduct(ValueId product, ValueId c,
                     OriginId origin);  // the product is not rounded; fma stands for what it was read as
  ValueId both(ValueId a, ValueId b);   // a and b; an invalid one is true
  StmtId forEach(VarId var, std::vector<StmtId> body, OriginId origin = {});
  StmtId when(ValueId condition, std::vector<StmtId> body, std::vector<StmtId> otherwise = {}, OriginId origin = {});
  StmtId store(Place place, ValueId value, OriginId origin = {});
  StmtId barrier(OriginId origin = {}, BarrierScope scope = BarrierScope::Block);
  StmtId exchange(Place target, Place source, std::int64_t bits, OriginId origin = {});
  StmtId matrixLoad(Place target, Place source, std::int64_t matrices, bool transposed, OriginId origin = {});
  StmtId matrixTile(Place c, Place a, Place b, std::array<std::int64_t, 3> tile, OriginId origin = {});
  StmtId warpgroupTile(Place c, Place a, SwizzledOperand aLies, Place b, SwizzledOperand bLies, std::array<std::int64_t, 3> tile,
                       OriginId origin = {});
  StmtId warpgroupFence(OriginId origin = {});
  StmtId warpgroupCommit(OriginId origin = {});
  StmtId warpgroupWait(std::int64_t inFlight, OriginId origin = {});
  StmtId proxyFence(OriginId origin = {});
  StmtId tensorCopy(Place target, MapId map, std::vector<IndexExpr> coordinates, Place arrival, OriginId origin = {});
  StmtId arrivalInit(Place arrival, OriginId origin = {});
  StmtId arrivalExpect(Place arrival, std::int64_t bytes, OriginId origin = {});
  StmtId arrivalWait(Place arrival, IndexExpr parity, OriginId origin = {});
  StmtId asyncCopy(Place target, Place source, std::int64_t elements, OriginId origin = {});
  StmtId asyncCommit(OriginId origin = {});
  StmtId asyncWait(std::int64_t inFlight, OriginId origin = {});
  StmtId add(Statement statement);

  RangeOf ranges() const;  // of loop variables
  std::int64_t tasks(const Stage& stage) const;
};

// Has one of the statements, or what stands in them, a barrier of the grid?
bool hasGridBarrier(const Function& function, const std::vector<StmtId>& body);

inline IndexExpr at(VarId v) { return IndexExpr::variable(v.value); }

// Bytes of a box of the map.
std::int64_t boxBytes(const Function& function, const TensorMap& map);

// Values a statement reads, operands before users, without repeats.
std::vector<ValueId> valuesOf(const Function& function, const Statement& statement);

// Of the statement and of all it reads, the accesses that were computed in place included; what is done last first, with repeats.
std::vector<OriginId> originsOf(const Function& function, const Statement& statement);
// The valid ones, each where it stands first.
std::vector<OriginId> distinct(std::vector<OriginId> origins);

// The text form. lineOrigins[i]: origins of line i, as originsOf. lines[s]: line of statement s, from 1.
struct LoopText {
  std::string text;
  std::vector<std::vector<OriginId>> lineOrigins;
  std::vector<std::uint32_t> lines;
};
LoopText toText(const Function& function);

// What holds of every function: ids in range, operands first, @in never written, @out never read before it is written, Parallel
// loops outermost, offsets inside their buffers, barriers, exchanges and matrices not under conditions. Empty: it holds.
std::vector<std::string> verify(const Function& function);

}  // namespace nf::loop
