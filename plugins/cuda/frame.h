// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/device/backend.h"
#include "core/schedule/loop_ir.h"

namespace nf::cuda {

// One nest of Thread loops of a stage.
struct ThreadNest {
  std::vector<loop::VarId> threads;
  const std::vector<loop::StmtId>* body = nullptr;
};

// A stage as a kernel launch.
struct Grid {
  KernelStage stage;
  // Bytes from the beginning of the launch's shared memory to each shared buffer; empty: each is declared by itself, where a block has
  // memory for them without being asked and none must begin at 1024 bytes.
  std::map<loop::BufferId, std::int64_t> shared;
  std::vector<loop::VarId> blocks;
  std::vector<ThreadNest> nests;  // a barrier of the block between two of them
};

// What both code generators must know of the loops: the grid of a stage, what it touches, which neighbours move as one, and how wide
// index arithmetic must be.
class Frame {
 protected:
  explicit Frame(const loop::Function& f) : m_f(f) {}

  void fail(const std::string& what) {
    if (m_error.empty()) m_error = "the loops of stage " + m_stage + " are no GPU's: " + what;
  }

  struct Touched {
    std::set<loop::BufferId> buffers, read, written;
    std::set<std::uint64_t> streams;  // of random numbers
    std::set<loop::MapId> maps;       // of the copy engine
    bool swizzled = false;            // operands of warpgroups
    // What one thread writes another may read behind a barrier: a compiler that is told that nothing else leads there may read it before.
    bool passed(loop::BufferId b) const { return read.contains(b) && written.contains(b); }
  };
  void collect(const std::vector<loop::StmtId>& body, Touched& into) const;

  // Fails where the stage is not Block loops around nests of Thread loops, all of one size.
  std::optional<Grid> grid(std::size_t stage);

  // Variables that have a constant replaced by it.
  IndexExpr bind(const IndexExpr& e) const;
  IndexExpr atLane(const IndexExpr& e, loop::VarId lane, std::int64_t l) const;

  // The largest magnitude on the way to the value; nullopt: not known.
  std::optional<double> magnitude(const IndexExpr& e) const;
  bool fitsInt(const IndexExpr& e) const;
  bool nonNegativeFloors(const IndexExpr& e) const;

  // Elements side by side from an aligned one on can be moved at once. An operand may be a slice of a larger tensor, at a multiple of
  // its own size.
  bool wide(loop::BufferId id, const IndexExpr& unbound, std::int64_t elements) const;
  bool together(const loop::Place& p, loop::VarId lane, std::int64_t count) const;

  const loop::Function& m_f;
  std::map<std::uint32_t, std::int64_t> m_constants;  // variables with a constant value: lanes, loops of one point
  std::string m_stage, m_error;

 private:
  std::vector<loop::VarId> chain(loop::LoopKind kind, const std::vector<loop::StmtId>*& body) const;
  std::int64_t product(const std::vector<loop::VarId>& loops) const;
  KernelTensorMap mapOf(loop::MapId id) const;
  void layShared(const std::vector<loop::StmtId>& body, Grid& grid) const;
};

}  // namespace nf::cuda
