// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/schedule/loop_ir.h"

namespace nf::loop {

// What the interpreter keeps of a block's tensor copies, which end later than they are begun. A phase ends as late as it may, when somebody
// waits for it, and only threads that have waited for it see what it brought. Functions return what is wrong; empty: nothing.
class ArrivalOrder {
 public:
  struct Landing {
    BufferId buffer;
    std::int64_t at = 0;
    double value = 0;
  };

  explicit ArrivalOrder(const Function& function);
  void begin(std::size_t threads);  // a block
  bool fills(BufferId buffer) const { return !m_needs[buffer.value].empty(); }

  std::string init(const Place& place, std::int64_t at, std::size_t thread, std::int64_t interval);
  void proxyFence(std::size_t thread);
  std::string expect(const Place& place, std::int64_t at, std::int64_t bytes, std::size_t thread, std::int64_t interval);
  std::string copy(const Place& place, std::int64_t at, std::int64_t bytes, const std::vector<Landing>& landings,
                   std::size_t thread, std::int64_t interval);
  // Where this ends the phase, what it brought is appended to `landed`.
  std::string wait(const Place& place, std::int64_t at, std::int64_t parity, std::size_t thread, std::int64_t interval,
                   std::vector<Landing>& landed);
  // Threads from `first` on read an element.
  std::string read(BufferId buffer, std::int64_t at, std::size_t first, std::size_t threads);
  std::string end() const;  // of a block

 private:
  struct Arrival {
    bool begun = false, fenced = false, expected = false;
    std::size_t owner = 0;
    std::int64_t interval = 0;  // in which it began
    std::int64_t ended = 0;     // phases
    std::int64_t bytes = 0;     // that are expected and not copied yet
    std::vector<Landing> landings;
    std::vector<std::int64_t> seen;   // by thread: phases
    std::vector<std::int64_t> least;  // by the first of some threads: phases that all of them have seen, when it was last looked
  };
  // Of an element: the arrival whose phase brings it, and how many must have ended; -1: no copy of it has begun.
  struct Need {
    std::int64_t arrival = -1, phases = 0;
  };
  std::size_t number(const Place& place, std::int64_t at) const;
  std::string unusable(const Place& place, const Arrival& arrival, std::size_t thread, std::int64_t interval) const;
  std::string name(BufferId buffer, std::int64_t at) const;

  const Function& m_f;
  std::vector<std::size_t> m_first;  // by buffer: of its arrivals
  std::vector<Arrival> m_arrivals;
  std::vector<std::vector<Need>> m_needs;  // by buffer and element; empty: no tensor copies go there
  std::size_t m_count = 0;                 // of arrivals
};

}  // namespace nf::loop
