// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/fusion/fuse.h"

namespace nf {

// The kernels of a program while they are being merged. It owns the program: recomputation adds copies of operators to it.
class KernelGraph {
 public:
  using KernelId = std::uint32_t;
  explicit KernelGraph(Program program);

  // What a merge around one tensor does. Bytes and operations saved are positive.
  struct Move {
    enum class Kind : std::uint8_t {
      Merge,   // the producer's kernel joins one consumer's; the tensor is written only if somebody else needs it
      Inline,  // the producer is computed again in every kernel that reads it
    };
    Kind kind = Kind::Merge;
    TensorId tensor;
    KernelId producer = 0;
    KernelId consumer = 0;  // of Merge
    std::map<TensorId, double> traffic;
    double bytes = 0, operations = 0;
    std::int64_t kernels = 0;
    std::string recomputed;
    std::optional<std::string> obstacle;  // why it can't be lowered
    bool forbidden = false;
    std::optional<Hash> reverted;  // a kernel it would make is known to be slower than its parts
  };

  const Program& program() const { return m_program; }
  OperatorId producerOf(TensorId t) const { return m_producer[t.value]; }
  const std::vector<OperatorId>& readersOf(TensorId t) const { return m_readers[t.value]; }
  KernelId kernelOf(OperatorId op) const { return m_kernelOf[op.value]; }
  const std::vector<OperatorId>& operatorsOf(KernelId k) const { return m_kernels[k]; }
  FusionClass classOf(OperatorId op) const { return m_classes[op.value]; }
  // Kernels but the producer's own, ascending; of more than `most` only some, one more than `most`.
  std::vector<KernelId> consumersOf(TensorId t, std::size_t most = SIZE_MAX) const;
  std::vector<TensorId> tensorsAround(KernelId k) const;  // read or written by it

  // `kernels` outlives the graph. Before the first move.
  void bar(const MeasuredKernels& kernels);
  void forbid(TensorId a, TensorId b) { m_forbidden.emplace_back(a, b); }
  bool forbidsAny() const { return !m_forbidden.empty(); }
  // All ways of fusing the producer of `t` with its readers.
  std::vector<Move> movesFor(TensorId t, const FusionLimits& limits) const;
  Move mergeOf(KernelId a, KernelId b, TensorId between, const FusionLimits& limits) const;
  // Carries it out; yields the kernels it changed.
  std::vector<KernelId> apply(const Move& move);

  // Operators kernel by kernel in a topological order, one Group each.
  Program take() &&;

 private:
  // Marks by tensor and operator that hold while they equal the epoch: sets without allocation. One thread at a time.
  struct Marks {
    std::vector<std::uint32_t> operators, tensors, kernels;
    std::uint32_t epoch = 0;
  };
  struct Traffic {
    std::map<TensorId, double> bytes;
    double total = 0;
  };
  void addTraffic(Traffic& into, const std::vector<OperatorId>& ops, TensorId vanished, double sign,
                  const std::vector<OperatorId>& gone = {}) const;
  std::vector<OperatorId> sliceFor(TensorId t) const;  // operators of its kernel that its value needs, in order
  std::vector<OperatorId> deadWithout(TensorId t) const;
  std::vector<KernelId> between(KernelId from, KernelId end, bool& leadsOn) const;
  bool cycleIfMerged(KernelId a, KernelId b) const;
  void resequence(KernelId a, KernelId b);
  double reevaluation(const std::vector<OperatorId>& readers, TensorId t) const;
  bool violates(const std::vector<OperatorId>& ops) const;
  std::optional<Hash> barred(const std::vector<OperatorId>& ops) const;
  template <class Reads>
  std::optional<Hash> barredWhere(const std::vector<OperatorId>& ops, const Reads& reads) const;
  std::vector<OperatorId> unite(const std::vector<OperatorId>& a, const std::vector<OperatorId>& b) const;
  Move inlineOf(TensorId t, const std::vector<KernelId>& consumers, const FusionLimits& limits) const;
  void know(OperatorId op);  // what the caches hold of it
  void link(OperatorId op);
  void unlink(OperatorId op);
  TensorId copyTensor(TensorId t);
  void rename(OperatorId op, const std::map<TensorId, TensorId>& renamed);

  Program m_program;
  std::vector<OperatorId> m_producer;
  std::vector<std::vector<OperatorId>> m_readers;
  std::vector<bool> m_kept;
  // Read off once an operator, and again when it is renamed: every score asks for them.
  std::vector<std::vector<TensorId>> m_reads, m_writes;
  std::vector<FusionClass> m_classes;
  std::vector<double> m_flops;
  const MeasuredKernels* m_barred = nullptr;
  std::vector<Hash> m_hashes;  // of operators, where kernels are barred
  std::vector<KernelId> m_kernelOf;
  mutable Marks m_marks;
  std::vector<std::vector<OperatorId>> m_kernels;  // empty: merged away
  std::vector<KernelId> m_sequence;                // kernels in a topological order, merged ones included
  std::vector<std::size_t> m_position;             // of kernels in m_sequence
  std::vector<double> m_order;                     // of operators: topological
  std::vector<std::pair<TensorId, TensorId>> m_forbidden;
  std::unordered_map<std::string, int> m_copies;
  std::unordered_set<std::string> m_names;
};

}  // namespace nf
