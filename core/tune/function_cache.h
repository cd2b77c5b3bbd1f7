// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "core/device/backend.h"
#include "core/tune/trial.h"

namespace nf {

struct CachedKernel {
  std::shared_ptr<const KernelObject> object;
  std::uint64_t generation = 0;        // 1: the first kernel of its subgraph; one more with each replacement
  std::optional<double> microseconds;  // nullopt: not measured yet
  bool standIn = false;                // see FunctionCache::standIn()
};

// The current best kernel of every subgraph (paper, section 6): what the executor runs. Thread-safe. A kernel enters only with
// a passed gate; a slower one never replaces a faster one. Readers poll changesSince() between steps, which never blocks on work.
class FunctionCache {
 public:
  enum class Entry : std::uint8_t { Entered, NotGated, Slower };
  // `microseconds` of the candidate, and of the incumbent measured in the same session where that was done (timings of different
  // moments do not compare well); without it the incumbent's recorded time counts. A kernel without a time enters an empty place only.
  Entry offer(const Hash& subgraph, std::shared_ptr<const KernelObject> kernel, const GateReport& gate,
              std::optional<double> microseconds, std::optional<double> incumbentMicroseconds = {});
  // A kernel that is right and slow, until the first one can be made after all: any kernel with a passed gate replaces it. Enters an
  // empty place only.
  void standIn(const Hash& subgraph, std::shared_ptr<const KernelObject> kernel);
  // The first kernel of this subgraph could not be made. Ends waits; a later offer clears it.
  void fail(const Hash& subgraph, Error error);
  // Takes a kernel out that turned out wrong after all (the first ones enter by the quick gate). Executors go on with what they
  // have until the next offer, which takes the empty place.
  void revoke(const Hash& subgraph, std::uint64_t generation);
  // Sets the time of the current kernel if it is still of this generation.
  void measured(const Hash& subgraph, std::uint64_t generation, double microseconds);

  std::optional<CachedKernel> find(const Hash& subgraph) const;
  std::optional<Error> failure(const Hash& subgraph) const;

  struct Change {
    Hash subgraph;
    CachedKernel kernel;
    std::optional<double> beforeMicroseconds;  // of the kernel it replaced; nullopt for first kernels
  };
  struct Changes {
    std::uint64_t version = 0;    // pass it to the next call
    std::vector<Change> changes;  // at most one a subgraph: its newest kernel
  };
  Changes changesSince(std::uint64_t version) const;
  std::uint64_t version() const;

  // Waits until each subgraph has a kernel or a failure. False: stop was requested or the time is over.
  bool waitFor(std::span<const Hash> subgraphs, std::stop_token stop,
               std::chrono::milliseconds atMost = std::chrono::hours(1)) const;

 private:
  struct Slot {
    CachedKernel kernel;
    std::optional<double> before;
    std::optional<Error> error;
    std::uint64_t version = 0;
  };
  mutable std::mutex m_mutex;
  mutable std::condition_variable_any m_changed;
  std::unordered_map<Hash, Slot> m_slots;
  std::uint64_t m_version = 0;
};

}  // namespace nf
