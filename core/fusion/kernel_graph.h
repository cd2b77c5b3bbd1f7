// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/fusion/fuse.h"
#include "core/fusion/kept.h"

namespace nf {

// The kernels of a program while they are being merged. It owns the program: recomputation adds copies of operators to it.
// What it has reckoned of two kernels, or of a tensor, it keeps until one of those kernels changes. One thread at a time.
class KernelGraph {
 public:
  using KernelId = std::uint32_t;
  explicit KernelGraph(Program program, FusionLimits limits = {});

  using TrafficTerms = std::vector<std::pair<TensorId, double>>;  // bytes by tensor; none is 0

  // Operations that a move saves or adds: of the operator that makes `of`, times the points of `reader` for each element of `at`, which
  // it reads, where there is a reader. All three by what is made.
  struct Work {
    double operations = 0;
    TensorId of, at, reader;
  };

  // A kernel that a move would make.
  struct Barred {
    Hash kernel;                 // its signature
    std::vector<TensorId> made;  // by its operators, as the program had them before anything was computed again; ascending
    auto operator<=>(const Barred&) const = default;
  };

  // What a merge around one tensor does. Bytes and operations saved are positive.
  struct Move {
    enum class Kind : std::uint8_t {
      Merge,   // the producer's kernel joins one consumer's; the tensor is written only if somebody else needs it
      Inline,  // the producer is computed again in every kernel that reads it
    };
    Kind kind = Kind::Merge;
    TensorId tensor;
    KernelId producer = 0;
    KernelId consumer = 0;                          // of Merge
    std::shared_ptr<const TrafficTerms> traffic;    // null: none
    std::shared_ptr<const std::vector<Work>> work;  // of `operations`; null: none
    double bytes = 0, operations = 0;
    std::int64_t kernels = 0;
    std::vector<std::string> recomputed;                     // names
    std::vector<std::string> kept;                           // what goes through memory inside the fused kernel still: names
    std::optional<std::string> obstacle;                     // why it can't be lowered
    std::optional<std::pair<TensorId, TensorId>> forbidden;  // by which call of forbid()
    std::optional<Barred> reverted;                          // a kernel it would make is known to be slower than its parts
  };

  const Program& program() const { return m_program; }
  const std::vector<TensorId>& readsOf(OperatorId op) const { return m_reads[op.value]; }
  OperatorId producerOf(TensorId t) const { return m_producer[t.value]; }
  const std::vector<OperatorId>& readersOf(TensorId t) const { return m_readers[t.value]; }
  KernelId kernelOf(OperatorId op) const { return m_kernelOf[op.value]; }
  const std::vector<OperatorId>& operatorsOf(KernelId k) const { return m_kernels[k]; }
  std::size_t kernelCount() const { return m_kernels.size(); }           // those that are merged away, and empty, included
  TensorId originalOf(TensorId t) const { return m_original[t.value]; }  // of a tensor that is computed again
  // How often the work computes an element of a costly value again: one that is, from kKeptFrom on, kept instead. 0: it is no such work.
  double evaluationsOf(const Work& work) const {
    const OperatorId op = producerOf(work.of);
    return work.operations < 0 && m_keptFacts[op.value].costly ? -work.operations / m_flops[op.value] : 0;
  }
  TensorId madeBy(OperatorId op) const { return m_original[m_writes[op.value].front().value]; }
  bool hasManyConsumers(TensorId t) const;  // too many to look at
  FusionClass classOf(OperatorId op) const { return m_facts[op.value].fusionClass; }
  // Kernels but the producer's own, ascending; of more than `most` only some, one more than `most`.
  std::vector<KernelId> consumersOf(TensorId t, std::size_t most = SIZE_MAX) const;
  std::vector<TensorId> tensorsAround(KernelId k) const;  // read or written by it

  // Whatever their parts are; but not those of `spared`. Both outlive the graph. Before the first move.
  void bar(const MeasuredKernels& kernels, const std::set<Barred>& spared);
  // The signatures of the kernels that make these now, ascending. Only where kernels are barred.
  std::vector<Hash> partsOf(const std::vector<TensorId>& made) const;
  // No kernel makes both, nor computes them again.
  void forbid(TensorId a, TensorId b) { m_forbidden.emplace_back(a, b); }
  // Tensors and operators looked at so far to score moves: what a fusion costs, on any machine.
  std::uint64_t work() const { return m_work; }
  bool forbidsAny() const { return !m_forbidden.empty(); }
  // All ways of fusing the producer of `t` with its readers.
  std::vector<Move> movesFor(TensorId t) const;
  using Worth = std::function<double(const Move&)>;  // from bytes, operations and kernels
  // Of those that can be done the one of greatest worth, the first of equals; nullopt: none is worth more than 0.
  std::optional<Move> bestFor(TensorId t, const Worth& worth) const;
  Move mergeOf(KernelId a, KernelId b, TensorId between) const;
  // Whether two merges that share a kernel, and so make one of all three or four, can't both be carried out. Of kernels of many
  // operators it is not asked.
  bool exclude(const Move& a, const Move& b) const;
  // Carries it out; yields the kernels it changed.
  std::vector<KernelId> apply(const Move& move);
  // Drops what was reckoned: every answer is the same as before, only later.
  void forget();

  // Operators kernel by kernel in a topological order, one Group each.
  Program take() &&;

 private:
  // Marks by tensor and operator that hold while they equal the epoch: sets without allocation. One thread at a time.
  struct Marks {
    std::vector<std::uint32_t> operators, tensors, kernels;
    std::uint32_t epoch = 0;
  };
  // Bytes by tensor: a sum that is emptied without walking over all tensors.
  struct Traffic {
    std::vector<double> bytes;  // by tensor; NaN: not in `touched`
    std::vector<TensorId> touched;
    void add(TensorId t, double amount) {
      if (t.value >= bytes.size()) bytes.resize(t.value + 1, NAN);
      double& sum = bytes[t.value];
      if (std::isnan(sum)) {
        sum = 0;
        touched.push_back(t);
      }
      sum += amount;
    }
    TrafficTerms take();  // and empties it
  };
  // What a kernel moves: distinct tensors, ascending, as of its version.
  struct Boundary {
    std::uint64_t version = UINT64_MAX;
    std::vector<TensorId> in, out;  // read from outside; written and needed outside
    TrafficTerms kept;              // besides: of what it keeps where one row of it does not stay in the cache
  };
  using Leaves = std::function<bool(TensorId)>;              // whether somebody outside of the operators needs it
  using Inside = std::function<bool(OperatorId, TensorId)>;  // whether one of them reads it from another one; null: if one makes it
  struct Kept {
    std::vector<TensorId> tensors;  // those that the operators read from one another, ascending
    TrafficTerms traffic;           // as Boundary::kept
  };
  Kept keptIn(const std::vector<OperatorId>& ops, const Leaves& leaves, const Inside& inside = {}) const;
  // Of two kernels, while neither has changed since.
  struct Pair {
    bool known = false;
    std::uint64_t versions[2] = {0, 0};
    std::shared_ptr<const TrafficTerms> traffic;
    double bytes = 0;
    std::vector<TensorId> once;  // handed over and kept, so computed once: ascending
    std::vector<TensorId> kept;  // what goes through memory in both together and in neither alone
    bool judged = false, cycle = false;
    std::optional<std::pair<TensorId, TensorId>> forbidden;
    std::optional<Barred> reverted;
    std::optional<std::string> obstacle;        // but for another kernel between them
    std::uint64_t cycleAsked = 0, inlined = 0;  // m_applied and m_inlined when `cycle` was found
  };
  // Of a tensor, while neither its kernel nor those that read it have changed since.
  struct Inlining {
    std::vector<std::uint64_t> versions;  // of the producer's kernel, then of the consumers
    std::vector<KernelId> consumers;
    std::vector<OperatorId> slice, rest;
    bool judged = false;
    Move move;
  };
  const Boundary& boundaryOf(KernelId k) const;
  bool reads(OperatorId op, TensorId t) const {
    return std::binary_search(m_sortedReads[op.value].begin(), m_sortedReads[op.value].end(), t);
  }
  void addTraffic(Traffic& into, const std::vector<OperatorId>& ops, TensorId vanished, double sign,
                  const std::vector<OperatorId>& gone = {}) const;
  Pair& pairOf(KernelId a, KernelId b) const;
  Inlining& inliningOf(TensorId t, const std::vector<KernelId>& consumers) const;
  // What the move saves; `judge` then finds whether it can be done.
  Move scoredMerge(KernelId a, KernelId b, TensorId between) const;
  void judge(Move& merge) const;
  void judge(Inlining& inlining) const;
  std::vector<KernelId> fewConsumers(TensorId t) const;  // none where there are too many to look at
  void changed(KernelId k) { m_versions[k] = ++m_changes; }
  std::vector<OperatorId> sliceFor(TensorId t) const;  // operators of its kernel that its value needs, in order
  std::vector<OperatorId> deadWithout(TensorId t) const;
  std::vector<KernelId> between(KernelId from, KernelId end, bool& leadsOn) const;
  bool cycleIfMerged(KernelId a, KernelId b) const;
  void resequence(KernelId a, KernelId b);
  double reevaluation(const std::vector<OperatorId>& readers, TensorId t, std::vector<Work>* parts = nullptr) const;
  std::optional<std::pair<TensorId, TensorId>> violated(const std::vector<OperatorId>& ops) const;  // by what was forbidden
  std::optional<Barred> barred(const std::vector<OperatorId>& ops) const;
  template <class Reads>
  Hash signatureWhere(const std::vector<OperatorId>& ops, const Reads& reads) const;
  template <class Reads>
  std::optional<Barred> barredWhere(const std::vector<OperatorId>& ops, const Reads& reads) const;
  std::vector<OperatorId> unite(const std::vector<OperatorId>& a, const std::vector<OperatorId>& b) const;
  void know(OperatorId op);  // what the caches hold of it
  void link(OperatorId op);
  void unlink(OperatorId op);
  TensorId copyTensor(TensorId t);
  void rename(OperatorId op, const std::map<TensorId, TensorId>& renamed);

  Program m_program;
  FusionLimits m_limits;
  std::vector<OperatorId> m_producer;
  std::vector<std::vector<OperatorId>> m_readers;
  std::vector<bool> m_kept;
  std::vector<TensorId> m_original;  // of tensors: what it repeats, itself where it repeats nothing
  // Read off once an operator, and again when it is renamed: every score asks for them.
  std::vector<std::vector<TensorId>> m_reads, m_sortedReads, m_writes;
  std::vector<OperatorFacts> m_facts;
  std::vector<KeptFacts> m_keptFacts;
  std::vector<double> m_flops;
  const MeasuredKernels* m_barred = nullptr;
  const std::set<Barred>* m_spared = nullptr;
  std::vector<Hash> m_hashes;  // of operators, where kernels are barred
  std::vector<KernelId> m_kernelOf;
  mutable Marks m_marks;
  mutable Traffic m_traffic;                 // scratch
  mutable std::vector<Boundary> m_boundary;  // of kernels
  mutable std::uint64_t m_work = 0;
  mutable std::unordered_map<std::uint64_t, Pair> m_pairs;
  mutable std::unordered_map<std::uint32_t, Inlining> m_inlinings;
  std::vector<std::uint64_t> m_versions;  // of kernels: their operators, what those read, and who reads what they write
  std::uint64_t m_changes = 0, m_applied = 1, m_inlined = 0;
  std::vector<std::vector<OperatorId>> m_kernels;  // empty: merged away
  std::vector<KernelId> m_sequence;                // kernels in a topological order, merged ones included
  std::vector<std::size_t> m_position;             // of kernels in m_sequence
  std::vector<double> m_order;                     // of operators: topological
  std::vector<std::pair<TensorId, TensorId>> m_forbidden;
  std::unordered_map<std::string, int> m_copies;
  std::unordered_set<std::string> m_names;
};

}  // namespace nf
