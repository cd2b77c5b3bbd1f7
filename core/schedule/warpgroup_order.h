// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/loop_ir.h"

namespace nf::loop {

// What the interpreter keeps of a block's warpgroup tiles, which end later than they are begun: accumulators that nobody may touch, elements
// of shared memory that nobody may write, and writes that tiles do not see yet. Functions return what is wrong; empty: nothing.
class WarpgroupOrder {
 public:
  // An element of a shared operand that a tile reads.
  struct Element {
    BufferId buffer;
    std::int64_t at = 0;
    std::int64_t version = 0;
  };

  explicit WarpgroupOrder(const Function& function);
  bool concerns(BufferId buffer) const { return m_roles[buffer.value] != Role::None; }
  void begin(std::size_t threads);  // a block, or another nest of Thread loops

  // Ordinary accesses, of statements other than tiles.
  std::string read(BufferId buffer, std::int64_t at, std::size_t thread) const;
  std::string written(BufferId buffer, std::int64_t at, std::size_t thread);
  // The copy engine begins to write an element of an operand, and has written it, for those who waited: no fence is needed behind it.
  void overwritten(BufferId buffer, std::int64_t at);
  void landed(BufferId buffer, std::int64_t at);

  void fence(std::size_t thread);
  void proxyFence(std::size_t thread, std::int64_t interval);
  // A tile of the thread begins: on its accumulators, and, once for a warpgroup, on elements of shared memory.
  std::string accumulates(BufferId buffer, std::int64_t at, std::int64_t elements, std::size_t thread);
  std::string takes(BufferId buffer, std::int64_t at, std::int64_t interval, std::size_t thread);
  void commit(std::size_t thread);
  // Lets all but so many groups of the thread end; what their tiles had taken is appended to `ended`.
  std::string wait(std::size_t thread, std::int64_t inFlight, std::vector<Element>& ended);
  std::string end() const;  // of a block

 private:
  enum class Role : std::uint8_t { None, Accumulator, Operand };
  struct Range {
    BufferId buffer;
    std::int64_t at = 0, elements = 0;
  };
  struct Group {
    std::vector<Range> accumulators;
    std::vector<Element> taken;
  };
  struct Thread {
    Group open;
    std::vector<Group> flying;     // closed groups, oldest first
    std::vector<Element> unknown;  // written since its last proxy fence
  };
  std::size_t cell(BufferId buffer, std::int64_t at, std::size_t thread) const;

  const Function& m_f;
  bool m_any = false;
  std::vector<Role> m_roles;
  std::vector<Thread> m_threads;
  std::vector<std::vector<int>> m_underWay;          // accumulators, by thread: tiles that have begun and not ended
  std::vector<std::vector<char>> m_unfenced;         // accumulators, by thread
  std::vector<std::vector<std::int64_t>> m_version;  // shared operands: how often written
  std::vector<std::vector<std::int64_t>>
      m_known;  // shared operands: the interval of the proxy fence behind the last write, kNotYet
};

}  // namespace nf::loop
