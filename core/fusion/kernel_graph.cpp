// SPDX-License-Identifier: Apache-2.0
#include "core/fusion/kernel_graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/ir/structural_hash.h"
#include "core/support/unique_names.h"

namespace nf {
namespace {

// ops in a topological order; writer: who makes the tensor that an operator reads, invalid for those from outside.
template <class HashOf, class ReadsOf, class Writer>
Hash signatureOf(const std::vector<OperatorId>& ops, const HashOf& hashOf, const ReadsOf& readsOf, const Writer& writer) {
  std::unordered_map<std::uint32_t, Hash> known;
  Hash sum;
  for (const OperatorId op : ops) {
    Hasher hasher;
    hasher.add(hashOf(op));
    const std::vector<TensorId>& reads = readsOf(op);
    for (std::size_t k = 0; k < reads.size(); ++k) {
      const OperatorId from = writer(op, reads[k]);
      const auto inside = from.valid() ? known.find(from.value) : known.end();
      if (inside != known.end()) hasher.add(k).add(inside->second);
    }
    const Hash hash = hasher.finish();
    known.emplace(op.value, hash);
    sum.low += hash.low;
    sum.high += hash.high;
  }
  return Hasher().add(sum).add(ops.size()).finish();
}

}  // namespace

Hash kernelSignature(const Program& program, const std::vector<OperatorId>& group) {
  std::unordered_map<std::uint32_t, OperatorId> writers;
  for (const OperatorId op : group)
    for (const TensorId t : writesOf(program, op)) writers.emplace(t.value, op);
  return signatureOf(
      group, [&](OperatorId op) { return structuralHash(program, op); }, [&](OperatorId op) { return readsOf(program, op); },
      [&](OperatorId, TensorId t) {
        const auto found = writers.find(t.value);
        return found == writers.end() ? OperatorId() : found->second;
      });
}

KernelGraph::KernelGraph(Program program, FusionLimits limits)
    : m_program(std::move(program)), m_limits(limits), m_producer(producers(m_program)), m_readers(m_program.tensors.size()),
      m_kept(m_program.tensors.size(), false), m_kernelOf(m_program.operators.size()) {
  for (const Tensor& t : m_program.tensors) {
    m_names.insert(t.name);
    m_original.emplace_back(m_original.size());
  }
  m_marks.tensors.resize(m_program.tensors.size(), 0);
  for (std::size_t i = 0; i < m_program.operators.size(); ++i) {
    m_order.push_back(static_cast<double>(i));
    know(OperatorId(i));
    link(OperatorId(i));
  }
  for (const Group& group : m_program.groups) {
    for (const OperatorId op : group.operators) m_kernelOf[op.value] = static_cast<KernelId>(m_kernels.size());
    m_position.push_back(m_kernels.size());
    m_sequence.push_back(static_cast<KernelId>(m_kernels.size()));
    m_kernels.push_back(group.operators);
  }
  m_versions.resize(m_kernels.size(), 0);
  m_boundary.resize(m_kernels.size());
  m_marks.kernels.resize(m_kernels.size(), 0);
  const auto keep = [&](TensorId t) {
    if (t.valid()) m_kept[t.value] = true;
  };
  for (const Update& u : m_program.updates) keep(u.value);
  for (const Output& o : m_program.outputs) keep(o.tensor);
  for (const Derivative& d : m_program.derivatives) keep(d.result);
  // A tensor that nobody reads was asked for by somebody outside: a Loop hands its body's tensors on.
  for (std::size_t t = 0; t < m_readers.size(); ++t)
    if (m_readers[t].empty()) m_kept[t] = true;
}

void KernelGraph::know(OperatorId op) {
  if (m_reads.size() <= op.value) {
    m_reads.resize(op.value + 1);
    m_sortedReads.resize(op.value + 1);
    m_writes.resize(op.value + 1);
    m_facts.resize(op.value + 1);
    m_keptFacts.resize(op.value + 1);
    m_flops.resize(op.value + 1, 0);
    m_marks.operators.resize(op.value + 1, 0);
  }
  m_reads[op.value] = nf::readsOf(m_program, op);
  m_sortedReads[op.value] = m_reads[op.value];
  std::sort(m_sortedReads[op.value].begin(), m_sortedReads[op.value].end());
  m_writes[op.value] = nf::writesOf(m_program, op);
  m_facts[op.value] = factsOf(m_program, op);
  m_keptFacts[op.value] = keptFactsOf(m_program, op);
  m_flops[op.value] = static_cast<double>(flopsOf(m_program, op));
  if (m_barred) {
    m_hashes.resize(m_facts.size());
    m_hashes[op.value] = structuralHash(m_program, op);
  }
}

void KernelGraph::bar(const MeasuredKernels& kernels, const std::set<Barred>& spared) {
  if (kernels.empty()) return;
  m_barred = &kernels;
  m_spared = &spared;
  m_hashes.clear();
  for (std::size_t i = 0; i < m_program.operators.size(); ++i) m_hashes.push_back(structuralHash(m_program, OperatorId(i)));
}

// reads: whether an operator reads a tensor that another one of them makes from there, rather than from outside.
template <class Reads>
Hash KernelGraph::signatureWhere(const std::vector<OperatorId>& ops, const Reads& reads) const {
  return signatureOf(
      ops, [&](OperatorId op) { return m_hashes[op.value]; },
      [&](OperatorId op) -> const std::vector<TensorId>& { return m_reads[op.value]; },
      [&](OperatorId op, TensorId t) { return reads(op, t) ? producerOf(t) : OperatorId(); });
}

template <class Reads>
std::optional<KernelGraph::Barred> KernelGraph::barredWhere(const std::vector<OperatorId>& ops, const Reads& reads) const {
  if (!m_barred || ops.size() < 2) return std::nullopt;
  Barred kernel{signatureWhere(ops, reads), {}};
  if (!isMeasured(*m_barred, kernel.kernel)) return std::nullopt;
  for (const OperatorId op : ops) kernel.made.push_back(madeBy(op));
  std::sort(kernel.made.begin(), kernel.made.end());
  if (m_spared->contains(kernel)) return std::nullopt;
  return kernel;
}

std::optional<KernelGraph::Barred> KernelGraph::barred(const std::vector<OperatorId>& ops) const {
  return barredWhere(ops, [](OperatorId, TensorId) { return true; });
}

std::vector<Hash> KernelGraph::partsOf(const std::vector<TensorId>& made) const {
  std::vector<Hash> signatures;
  for (const std::vector<OperatorId>& ops : m_kernels)
    if (std::any_of(ops.begin(), ops.end(),
                    [&](OperatorId op) { return std::binary_search(made.begin(), made.end(), madeBy(op)); }))
      signatures.push_back(signatureWhere(ops, [](OperatorId, TensorId) { return true; }));
  std::sort(signatures.begin(), signatures.end());
  return signatures;
}

void KernelGraph::link(OperatorId op) {
  for (const TensorId t : m_reads[op.value]) {
    m_readers[t.value].push_back(op);
    if (const OperatorId from = producerOf(t); from.valid() && !m_versions.empty()) changed(kernelOf(from));
  }
}

void KernelGraph::unlink(OperatorId op) {
  for (const TensorId t : m_reads[op.value]) {
    std::erase(m_readers[t.value], op);
    if (const OperatorId from = producerOf(t); from.valid()) changed(kernelOf(from));
  }
}

void KernelGraph::forget() {
  m_pairs.clear();
  m_inlinings.clear();
  m_boundary.assign(m_kernels.size(), {});
}

KernelGraph::TrafficTerms KernelGraph::Traffic::take() {
  TrafficTerms terms;
  for (const TensorId t : touched)
    if (const double amount = std::exchange(bytes[t.value], NAN); amount != 0) terms.emplace_back(t, amount);
  touched.clear();
  return terms;
}

std::vector<KernelGraph::KernelId> KernelGraph::consumersOf(TensorId t, std::size_t most) const {
  std::vector<KernelId> result;
  const KernelId own = kernelOf(producerOf(t));
  for (const OperatorId r : readersOf(t)) {
    const KernelId k = kernelOf(r);
    if (k == own) continue;
    const auto at = std::lower_bound(result.begin(), result.end(), k);
    if (at != result.end() && *at == k) continue;
    result.insert(at, k);
    if (result.size() > most) break;
  }
  return result;
}

std::vector<TensorId> KernelGraph::tensorsAround(KernelId k) const {
  std::vector<TensorId> result;
  for (const OperatorId op : m_kernels[k]) {
    for (const TensorId t : m_reads[op.value]) result.push_back(t);
    for (const TensorId t : m_writes[op.value]) result.push_back(t);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// Every distinct tensor that the operators read from outside and every tensor of theirs that somebody outside needs.
// `vanished` is no longer asked for from outside: its readers compute it themselves. `gone` need nothing any more.
void KernelGraph::addTraffic(Traffic& into, const std::vector<OperatorId>& ops, TensorId vanished, double sign,
                             const std::vector<OperatorId>& gone) const {
  const std::uint32_t epoch = ++m_marks.epoch;
  for (const OperatorId op : ops) {
    m_marks.operators[op.value] = epoch;
    m_work += 1 + m_reads[op.value].size();
  }
  const auto inside = [&](OperatorId op) { return m_marks.operators[op.value] == epoch; };
  const auto count = [&](TensorId t) {
    if (std::exchange(m_marks.tensors[t.value], epoch) == epoch) return;
    into.add(t, sign * static_cast<double>(m_program[t].bytes()));
  };
  for (const OperatorId op : ops) {
    for (const TensorId t : m_reads[op.value]) {
      const OperatorId from = producerOf(t);
      if (!from.valid() || !inside(from)) count(t);
    }
    for (const TensorId t : m_writes[op.value]) {
      const auto& readers = readersOf(t);
      const bool leaves = m_kept[t.value] || (t != vanished && std::any_of(readers.begin(), readers.end(), [&](OperatorId r) {
                                                return !inside(r) && std::find(gone.begin(), gone.end(), r) == gone.end();
                                              }));
      if (leaves) count(t);
    }
  }
}

const KernelGraph::Boundary& KernelGraph::boundaryOf(KernelId k) const {
  Boundary& boundary = m_boundary[k];
  if (boundary.version == m_versions[k]) return boundary;
  boundary.version = m_versions[k];
  boundary.in.clear();
  boundary.out.clear();
  for (const OperatorId op : m_kernels[k]) {
    m_work += 1 + m_reads[op.value].size();
    for (const TensorId t : m_reads[op.value]) {
      const OperatorId from = producerOf(t);
      if (!from.valid() || kernelOf(from) != k) boundary.in.push_back(t);
    }
    for (const TensorId t : m_writes[op.value]) {
      const auto& readers = readersOf(t);
      if (m_kept[t.value] || std::any_of(readers.begin(), readers.end(), [&](OperatorId r) { return kernelOf(r) != k; }))
        boundary.out.push_back(t);
    }
  }
  for (auto* tensors : {&boundary.in, &boundary.out}) {
    std::sort(tensors->begin(), tensors->end());
    tensors->erase(std::unique(tensors->begin(), tensors->end()), tensors->end());
  }
  boundary.kept =
      keptIn(m_kernels[k], [&](TensorId t) { return std::binary_search(boundary.out.begin(), boundary.out.end(), t); }).traffic;
  return boundary;
}

// A row of what is kept is what the loops around its readers leave of it: those that all of them run at its own place, through readers that
// are computed again at theirs. A contraction has tiles of its own, and reads all of it.
KernelGraph::Kept KernelGraph::keptIn(const std::vector<OperatorId>& ops, const Leaves& leaves, const Inside& inside) const {
  Kept found;
  if (ops.size() < 2 || ops.size() > m_limits.operators) return found;
  const auto mayBeKept = [&](OperatorId op) {
    return !m_keptFacts[op.value].injective || m_keptFacts[op.value].costly || leaves(m_program[op].output);
  };
  m_work += ops.size();
  const auto gathers = [&](OperatorId op) { return m_program[op].kind == OperatorKind::Gather; };
  if (!std::all_of(ops.begin(), ops.end(), gathers) || std::none_of(ops.begin(), ops.end(), mayBeKept)) return found;
  const std::vector<bool> kept = keptInGroup(
      m_program, ops, [this](OperatorId op) -> const KeptFacts& { return m_keptFacts[op.value]; }, leaves, inside);
  std::vector<std::size_t> shared(ops.size());  // leading axes
  for (std::size_t i = ops.size(); i-- > 0;) {
    const TensorId t = m_program[ops[i]].output;
    const Tensor& tensor = m_program[t];
    shared[i] = tensor.shape.size();
    bool isRead = false;
    for (std::size_t r = i + 1; r < ops.size(); ++r) {
      const Operator& reader = m_program[ops[r]];
      if (!reads(ops[r], t) || (inside && !inside(ops[r], t))) continue;
      isRead = true;
      if (classOf(ops[r]) == FusionClass::OutputFusable) shared[i] = 0;
      if (!kept[r]) shared[i] = std::min(shared[i], shared[r]);
      for (const std::uint32_t position : loadsOf(m_program, m_facts[ops[r].value], t)) {
        ++m_work;
        const Access& access = m_program[m_facts[ops[r].value].loads[position]];
        for (std::size_t k = 0; k < shared[i]; ++k)
          if (k >= reader.outputRank || reader.axes[k].extent != tensor.shape[k] || !readsOwnPlace(reader, access, k))
            shared[i] = k;
      }
    }
    if (!isRead || !kept[i]) continue;
    found.tensors.push_back(t);
    std::int64_t rows = 1;
    for (std::size_t k = 0; k < shared[i]; ++k) rows *= tensor.shape[k];
    // What leaves is written in any case. A reduction is given on only along rows that stay, or not at all (core/fusion/lowerable.h).
    if (m_keptFacts[ops[i].value].injective && tensor.bytes() / std::max<std::int64_t>(rows, 1) > m_limits.rowBytes)
      found.traffic.emplace_back(t, (leaves(t) ? 1 : 2) * static_cast<double>(tensor.bytes()));
  }
  std::sort(found.tensors.begin(), found.tensors.end());
  return found;
}

std::vector<OperatorId> KernelGraph::sliceFor(TensorId t) const {
  const KernelId own = kernelOf(producerOf(t));
  std::vector<OperatorId> slice{producerOf(t)};
  for (std::size_t i = 0; i < slice.size(); ++i)
    for (const TensorId r : m_reads[slice[i].value]) {
      const OperatorId from = producerOf(r);
      if (from.valid() && kernelOf(from) == own && std::find(slice.begin(), slice.end(), from) == slice.end())
        slice.push_back(from);
    }
  std::sort(slice.begin(), slice.end(), [this](OperatorId a, OperatorId b) { return m_order[a.value] < m_order[b.value]; });
  return slice;
}

// Operators of the producer's kernel that nobody needs once `t` is not asked for from outside.
std::vector<OperatorId> KernelGraph::deadWithout(TensorId t) const {
  if (m_kept[t.value]) return {};
  const std::vector<OperatorId> slice = sliceFor(t);
  std::unordered_set<std::uint32_t> dead;
  const KernelId own = kernelOf(producerOf(t));
  for (auto it = slice.rbegin(); it != slice.rend(); ++it) {
    bool needed = false;
    for (const TensorId w : m_writes[it->value]) {
      if (m_kept[w.value]) needed = true;
      for (const OperatorId r : readersOf(w)) {
        if (dead.contains(r.value)) continue;
        if (w == t && kernelOf(r) != own) continue;  // that reader computes it itself
        needed = true;
      }
    }
    if (!needed) dead.insert(it->value);
  }
  std::vector<OperatorId> result;
  for (const OperatorId op : slice)
    if (dead.contains(op.value)) result.push_back(op);
  return result;
}

// Kernels that `from` leads to and that stand before `end` in the topological sequence; `from` itself and `end` are left out.
// `leadsOn` is set if one of them leads on to `end`.
std::vector<KernelGraph::KernelId> KernelGraph::between(KernelId from, KernelId end, bool& leadsOn) const {
  leadsOn = false;
  std::vector<KernelId> found;
  std::unordered_set<KernelId> seen{from};
  const auto follow = [&](KernelId k) {
    for (const OperatorId op : m_kernels[k])
      for (const TensorId t : m_writes[op.value])
        for (const OperatorId r : readersOf(t)) {
          const KernelId next = kernelOf(r);
          if (next == end && k != from) leadsOn = true;
          if (next != end && m_position[next] < m_position[end] && seen.insert(next).second) found.push_back(next);
        }
  };
  follow(from);
  for (std::size_t i = 0; i < found.size(); ++i) follow(found[i]);
  return found;
}

// Nearest first, as a way round is short where there is one: readers of the same tensor.
bool KernelGraph::cycleIfMerged(KernelId a, KernelId b) const {
  if (m_position[a] > m_position[b]) std::swap(a, b);
  const std::uint32_t epoch = ++m_marks.epoch;
  m_marks.kernels[a] = epoch;
  std::vector<KernelId> waiting{a};
  for (std::size_t i = 0; i < waiting.size(); ++i)
    for (const OperatorId op : m_kernels[waiting[i]])
      for (const TensorId t : m_writes[op.value])
        for (const OperatorId r : readersOf(t)) {
          const KernelId next = kernelOf(r);
          if (next == b && waiting[i] != a) return true;
          if (next == b || m_position[next] > m_position[b]) continue;
          if (std::exchange(m_marks.kernels[next], epoch) != epoch) waiting.push_back(next);
        }
  return false;
}

// The merged kernel takes the place of the later one; what needs the earlier one moves behind it.
void KernelGraph::resequence(KernelId a, KernelId b) {
  if (m_position[a] > m_position[b]) std::swap(a, b);
  bool leadsOn = false;
  const std::vector<KernelId> after = between(a, b, leadsOn);
  const std::unordered_set<KernelId> behind(after.begin(), after.end());
  const std::size_t begin = m_position[a], end = m_position[b];
  std::vector<KernelId> first, last;
  for (std::size_t i = begin + 1; i < end; ++i) (behind.contains(m_sequence[i]) ? last : first).push_back(m_sequence[i]);
  std::size_t at = begin;
  const auto place = [&](KernelId k) {
    m_sequence[at] = k;
    m_position[k] = at++;
  };
  for (const KernelId k : first) place(k);
  place(a);
  place(b);
  for (const KernelId k : last) place(k);
}

// How often one element of `t` is evaluated when `readers`, in one kernel, compute it where they read it. Contractions pack their
// factors, so once; an access by the reader's leading axes is the same point for all and is hoisted out of the loops inside; any
// other place is computed at every point of its reader.
double KernelGraph::reevaluation(const std::vector<OperatorId>& readers, TensorId t, std::vector<Work>* parts) const {
  const double elements = static_cast<double>(m_program[t].elements());
  double times = 0;
  bool atPoint = false;
  for (const OperatorId reader : readers) {
    const Operator& op = m_program[reader];
    ++m_work;
    if (!reads(reader, t)) continue;
    if (op.kind != OperatorKind::Gather || classOf(reader) == FusionClass::OutputFusable) {
      atPoint = true;
      continue;
    }
    double points = 1;
    for (const Axis& axis : op.axes) points *= static_cast<double>(axis.extent);
    std::vector<const Access*> places;
    for (const std::uint32_t position : loadsOf(m_program, m_facts[reader.value], t)) {
      ++m_work;
      const Access& access = m_program[m_facts[reader.value].loads[position]];
      bool hoisted = true;
      for (std::size_t k = 0; k < access.indices.size(); ++k) hoisted &= readsOwnPlace(op, access, k);
      const auto same = [&](const Access* p) {
        return std::equal(p->indices.begin(), p->indices.end(), access.indices.begin(), access.indices.end(),
                          [](const AccessIndex& a, const AccessIndex& b) { return a.data == b.data && a.affine == b.affine; });
      };
      if (hoisted) atPoint = true;
      else if (std::none_of(places.begin(), places.end(), same)) places.push_back(&access);
    }
    const double more = static_cast<double>(places.size()) * points / elements;
    times += more;
    if (parts && more > 0) parts->push_back({more, {}, m_original[t.value], madeBy(reader)});
  }
  const double once = times + (atPoint ? 1 : 0) < 1 ? 1 - times : atPoint ? 1 : 0;
  if (parts && once != 0) parts->push_back({once, {}, {}, {}});
  return std::max(1.0, times + (atPoint ? 1 : 0));
}

std::optional<std::pair<TensorId, TensorId>> KernelGraph::violated(const std::vector<OperatorId>& ops) const {
  for (const auto& [a, b] : m_forbidden) {
    bool hasA = false, hasB = false;
    for (const OperatorId op : ops)
      for (const TensorId t : m_writes[op.value]) {
        hasA |= m_original[t.value] == a;
        hasB |= m_original[t.value] == b;
      }
    if (hasA && hasB) return std::pair(a, b);
  }
  return std::nullopt;
}

std::vector<OperatorId> KernelGraph::unite(const std::vector<OperatorId>& a, const std::vector<OperatorId>& b) const {
  std::vector<OperatorId> all = a;
  for (const OperatorId op : b)
    if (std::find(a.begin(), a.end(), op) == a.end()) all.push_back(op);
  std::sort(all.begin(), all.end(), [this](OperatorId x, OperatorId y) { return m_order[x.value] < m_order[y.value]; });
  return all;
}

// Only what both touch can change: a kernel that reads thousands of tensors is met by a small one at the small one's cost.
KernelGraph::Pair& KernelGraph::pairOf(KernelId a, KernelId b) const {
  Pair& pair = m_pairs[std::uint64_t{a} << 32 | b];
  if (pair.known && pair.versions[0] == m_versions[a] && pair.versions[1] == m_versions[b]) return pair;
  pair = Pair();
  pair.known = true;
  pair.versions[0] = m_versions[a];
  pair.versions[1] = m_versions[b];
  const Boundary &first = boundaryOf(a), &second = boundaryOf(b);
  const auto save = [&](TensorId t, int times) { m_traffic.add(t, times * static_cast<double>(m_program[t].bytes())); };
  const auto eachCommon = [&](const std::vector<TensorId>& x, const std::vector<TensorId>& y, const auto& visit) {
    const auto &few = x.size() < y.size() ? x : y, &many = x.size() < y.size() ? y : x;
    m_work += 1 + few.size();
    for (const TensorId t : few)
      if (std::binary_search(many.begin(), many.end(), t)) visit(t);
  };
  // Read once instead of twice; handed over within the kernel, it is written only where somebody else needs it.
  const auto leaves = [&](TensorId t) {
    const auto& readers = readersOf(t);
    return m_kept[t.value] ||
           std::any_of(readers.begin(), readers.end(), [&](OperatorId r) { return kernelOf(r) != a && kernelOf(r) != b; });
  };
  std::vector<TensorId> handed;
  const auto handedOver = [&](TensorId t) {
    handed.push_back(t);
    save(t, leaves(t) ? 1 : 2);
  };
  eachCommon(first.in, second.in, [&](TensorId t) { save(t, 1); });
  eachCommon(first.out, second.in, handedOver);
  eachCommon(first.in, second.out, handedOver);
  if (!handed.empty()) {
    const Kept both = keptIn(unite(m_kernels[a], m_kernels[b]), leaves);
    for (const TensorId t : handed)
      if (std::binary_search(both.tensors.begin(), both.tensors.end(), t)) pair.once.push_back(t);
    std::sort(pair.once.begin(), pair.once.end());
    for (const TrafficTerms* alone : {&first.kept, &second.kept})
      for (const auto& [t, bytes] : *alone) m_traffic.add(t, bytes);
    const auto isOf = [](const TrafficTerms& terms, TensorId t) {
      return std::any_of(terms.begin(), terms.end(), [&](const auto& term) { return term.first == t; });
    };
    for (const auto& [t, bytes] : both.traffic) {
      m_traffic.add(t, -bytes);
      if (!isOf(first.kept, t) && !isOf(second.kept, t)) pair.kept.push_back(t);
    }
  }
  TrafficTerms terms = m_traffic.take();
  for (const auto& [tensor, bytes] : terms) pair.bytes += bytes;
  pair.traffic = std::make_shared<const TrafficTerms>(std::move(terms));
  return pair;
}

KernelGraph::Move KernelGraph::scoredMerge(KernelId a, KernelId b, TensorId between) const {
  const Pair& pair = pairOf(a, b);
  Move move;
  move.kind = Move::Kind::Merge;
  move.tensor = between;
  move.producer = a;
  move.consumer = b;
  move.traffic = pair.traffic;
  move.bytes = pair.bytes;
  move.kernels = 1;
  if (between.valid()) {
    const OperatorId producer = producerOf(between);
    if (classOf(producer) == FusionClass::Injective && !std::binary_search(pair.once.begin(), pair.once.end(), between))
      move.operations -= (reevaluation(m_kernels[b], between) - 1) * m_flops[producer.value];
    if (move.operations != 0) {
      std::vector<Work> work;
      reevaluation(m_kernels[b], between, &work);
      work.push_back({-1, {}, {}, {}});
      for (Work& w : work) w.operations *= -m_flops[producer.value], w.of = madeBy(producer);
      move.work = std::make_shared<const std::vector<Work>>(std::move(work));
    }
    if (move.operations < 0) move.recomputed = {m_program[between].name};
  }
  for (const TensorId t : pair.kept) move.kept.push_back(m_program[t].name);
  return move;
}

void KernelGraph::judge(Move& merge) const {
  const KernelId a = merge.producer, b = merge.consumer;
  Pair& pair = pairOf(a, b);
  if (!pair.judged) {
    pair.judged = true;
    const std::vector<OperatorId> merged = unite(m_kernels[a], m_kernels[b]);
    m_work += merged.size();
    pair.forbidden = violated(merged);
    pair.reverted = barred(merged);
    // A training step runs without what only an evaluation asks for.
    const auto evaluates = [&](KernelId k) { return m_program[m_kernels[k].front()].phase == Phase::Evaluation; };
    if (evaluates(a) != evaluates(b)) pair.obstacle = "One belongs to the evaluation, the other to the step.";
    else pair.obstacle = whyNotLowerable(m_program, merged, m_limits, m_facts);
  }
  merge.forbidden = pair.forbidden;
  merge.reverted = pair.reverted;
  merge.obstacle = pair.obstacle;
  if (merge.obstacle || merge.forbidden) return;
  // A way round through other kernels stays one while those merge; only an operator that is computed elsewhere can take it away.
  const bool holds = pair.cycleAsked == m_applied || (pair.cycle && pair.cycleAsked != 0 && pair.inlined == m_inlined);
  if (!holds) {
    pair.cycle = cycleIfMerged(a, b);
    pair.cycleAsked = m_applied;
    pair.inlined = m_inlined;
  }
  if (pair.cycle) merge.obstacle = "Another kernel lies between them.";
}

KernelGraph::Move KernelGraph::mergeOf(KernelId a, KernelId b, TensorId between) const {
  Move move = scoredMerge(a, b, between);
  judge(move);
  return move;
}

KernelGraph::Inlining& KernelGraph::inliningOf(TensorId t, const std::vector<KernelId>& consumers) const {
  Inlining& inlining = m_inlinings[t.value];
  const KernelId own = kernelOf(producerOf(t));
  std::vector<std::uint64_t> versions{m_versions[own]};
  for (const KernelId k : consumers) versions.push_back(m_versions[k]);
  if (inlining.versions == versions && inlining.consumers == consumers) return inlining;
  inlining = Inlining();
  inlining.versions = std::move(versions);
  inlining.consumers = consumers;
  inlining.slice = sliceFor(t);
  const std::vector<OperatorId>& slice = inlining.slice;
  const std::vector<OperatorId> dead = deadWithout(t);
  for (const OperatorId op : m_kernels[own])
    if (std::find(dead.begin(), dead.end(), op) == dead.end()) inlining.rest.push_back(op);
  Move& move = inlining.move;
  move.kind = Move::Kind::Inline;
  move.tensor = t;
  move.producer = own;
  addTraffic(m_traffic, m_kernels[own], {}, 1);
  addTraffic(m_traffic, inlining.rest, t, -1, dead);
  const auto addKept = [&](const TrafficTerms& terms, double sign) {
    for (const auto& [kept, bytes] : terms) m_traffic.add(kept, sign * bytes);
  };
  addKept(boundaryOf(own).kept, 1);
  const auto staysIn = [&](const std::vector<OperatorId>& ops, OperatorId op) {
    return std::find(ops.begin(), ops.end(), op) != ops.end();
  };
  addKept(keptIn(inlining.rest,
                 [&](TensorId made) {
                   const auto& readers = readersOf(made);
                   return m_kept[made.value] || (made != t && std::any_of(readers.begin(), readers.end(), [&](OperatorId r) {
                                                   return !staysIn(inlining.rest, r) && !staysIn(dead, r);
                                                 }));
                 })
              .traffic,
          -1);
  double sliceOperations = 0, deadOperations = 0;
  for (const OperatorId op : slice) sliceOperations += m_flops[op.value];
  for (const OperatorId op : dead) deadOperations += m_flops[op.value];
  move.operations = deadOperations;
  std::vector<Work> work;
  for (const OperatorId op : dead) work.push_back({m_flops[op.value], madeBy(op), {}, {}});
  // What the slice reads, each of the consumers reads from now on, instead of `t`.
  std::vector<TensorId> needs;
  for (const OperatorId op : slice)
    for (const TensorId read : m_reads[op.value])
      if (const OperatorId from = producerOf(read); !from.valid() || kernelOf(from) != own) needs.push_back(read);
  std::sort(needs.begin(), needs.end());
  needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
  for (const KernelId k : consumers) {
    const Boundary& boundary = boundaryOf(k);
    m_work += 1 + needs.size();
    m_traffic.add(t, static_cast<double>(m_program[t].bytes()));
    for (const TensorId read : needs)
      if (!std::binary_search(boundary.in.begin(), boundary.in.end(), read))
        m_traffic.add(read, -static_cast<double>(m_program[read].bytes()));
    // Each has the slice for itself, and reads of it nothing but `t`.
    const Kept joined = keptIn(
        unite(slice, m_kernels[k]),
        [&](TensorId made) {
          return kernelOf(producerOf(made)) == k && std::binary_search(boundary.out.begin(), boundary.out.end(), made);
        },
        [&](OperatorId op, TensorId read) { return read == t || kernelOf(op) == kernelOf(producerOf(read)); });
    addKept(boundary.kept, 1);
    addKept(joined.traffic, -1);
    for (const auto& [kept, bytes] : joined.traffic) {
      const std::string& name = m_program[kept].name;
      if (kernelOf(producerOf(kept)) == own && std::find(move.kept.begin(), move.kept.end(), name) == move.kept.end())
        move.kept.push_back(name);
    }
    std::vector<Work> times;
    if (std::binary_search(joined.tensors.begin(), joined.tensors.end(), t)) {
      times.push_back({1, {}, {}, {}});
      move.operations -= sliceOperations;
    } else {
      move.operations -= sliceOperations * reevaluation(m_kernels[k], t, &times);
    }
    for (const OperatorId op : slice)
      for (const Work& w : times) work.push_back({-m_flops[op.value] * w.operations, madeBy(op), w.at, w.reader});
  }
  move.work = std::make_shared<const std::vector<Work>>(std::move(work));
  TrafficTerms terms = m_traffic.take();
  for (const auto& [tensor, bytes] : terms) move.bytes += bytes;
  move.traffic = std::make_shared<const TrafficTerms>(std::move(terms));
  move.kernels = inlining.rest.empty() ? 1 : 0;
  for (const OperatorId op : slice) move.recomputed.push_back(m_program[op].name);
  return inlining;
}

bool KernelGraph::exclude(const Move& a, const Move& b) const {
  constexpr std::size_t kMost = 256;
  if (a.kind != Move::Kind::Merge || b.kind != Move::Kind::Merge) return false;
  if (a.producer != b.producer && a.producer != b.consumer && a.consumer != b.producer && a.consumer != b.consumer) return false;
  std::vector<OperatorId> joined;
  for (const KernelId k : {a.producer, a.consumer, b.producer, b.consumer}) {
    if (m_kernels[k].size() > kMost) return false;
    joined = unite(joined, m_kernels[k]);
  }
  return whyNotLowerable(m_program, joined, m_limits, m_facts).has_value();
}

void KernelGraph::judge(Inlining& inlining) const {
  if (inlining.judged) return;
  inlining.judged = true;
  Move& move = inlining.move;
  const std::vector<OperatorId>& slice = inlining.slice;
  const auto inSlice = [&](OperatorId op) { return std::find(slice.begin(), slice.end(), op) != slice.end(); };
  if (slice.size() > m_limits.operators) move.obstacle = "Too many operators would be computed again.";
  for (const KernelId k : inlining.consumers) {
    const std::vector<OperatorId> joined = unite(slice, m_kernels[k]);
    if (!move.obstacle) move.obstacle = whyNotLowerable(m_program, joined, m_limits, m_facts);
    if (!move.forbidden) move.forbidden = violated(joined);
    if (!move.reverted)
      move.reverted = barredWhere(joined, [&](OperatorId op, TensorId read) {
        const OperatorId from = producerOf(read);
        return read == move.tensor || kernelOf(op) != k || !from.valid() || !inSlice(from);
      });
  }
  if (!move.reverted) move.reverted = barred(inlining.rest);
}

namespace {
constexpr std::size_t kMostConsumers = 16;
}  // namespace

bool KernelGraph::hasManyConsumers(TensorId t) const { return consumersOf(t, kMostConsumers).size() > kMostConsumers; }

std::vector<KernelGraph::KernelId> KernelGraph::fewConsumers(TensorId t) const {
  if (!producerOf(t).valid()) return {};
  std::vector<KernelId> consumers = consumersOf(t, kMostConsumers);
  if (consumers.size() > kMostConsumers) consumers.clear();
  return consumers;
}

std::vector<KernelGraph::Move> KernelGraph::movesFor(TensorId t) const {
  std::vector<Move> moves;
  const std::vector<KernelId> consumers = fewConsumers(t);
  for (const KernelId k : consumers) moves.push_back(mergeOf(kernelOf(producerOf(t)), k, t));
  if (consumers.size() > 1 && m_program[producerOf(t)].kind == OperatorKind::Gather) {
    Inlining& inlining = inliningOf(t, consumers);
    judge(inlining);
    moves.push_back(inlining.move);
  }
  return moves;
}

std::optional<KernelGraph::Move> KernelGraph::bestFor(TensorId t, const Worth& worth) const {
  const std::vector<KernelId> consumers = fewConsumers(t);
  if (consumers.empty()) return std::nullopt;
  struct Candidate {
    double worth;
    Move move;
  };
  std::vector<Candidate> candidates;
  const auto consider = [&](Move move) {
    if (const double amount = worth(move); amount > 0) candidates.push_back({amount, std::move(move)});
  };
  for (const KernelId k : consumers) consider(scoredMerge(kernelOf(producerOf(t)), k, t));
  if (consumers.size() > 1 && m_program[producerOf(t)].kind == OperatorKind::Gather) consider(inliningOf(t, consumers).move);
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.worth > b.worth; });
  // Whether it can be done is the dearer question.
  for (Candidate& candidate : candidates) {
    Move& move = candidate.move;
    if (move.kind == Move::Kind::Merge) {
      judge(move);
    } else {
      Inlining& inlining = inliningOf(t, consumers);
      judge(inlining);
      move = inlining.move;
    }
    if (!move.obstacle && !move.forbidden && !move.reverted) return std::move(move);
  }
  return std::nullopt;
}

TensorId KernelGraph::copyTensor(TensorId id) {
  Tensor t = m_program[id];
  const std::string stem(withoutNumber(t.name));
  int& number = m_copies.emplace(stem, 1).first->second;
  std::string fresh;
  do fresh = stem + "#" + std::to_string(++number);
  while (!m_names.insert(fresh).second);
  t.name = std::move(fresh);
  m_producer.emplace_back();
  m_readers.emplace_back();
  m_kept.push_back(false);
  m_original.push_back(m_original[id.value]);
  m_marks.tensors.push_back(0);
  return m_program.addTensor(std::move(t));
}

void KernelGraph::rename(OperatorId id, const std::map<TensorId, TensorId>& renamed) {
  ExprCloner cloner(m_program, m_program);
  cloner.tensor = [&](TensorId t) {
    const auto found = renamed.find(t);
    return found == renamed.end() ? t : found->second;
  };
  const ExprId body = cloner.clone(m_program[id].body);
  std::vector<AccessIndex> scatter = m_program[id].scatter;
  for (AccessIndex& index : scatter) index = cloner.clone(index);
  m_program[id].body = body;
  m_program[id].scatter = std::move(scatter);
}

std::vector<KernelGraph::KernelId> KernelGraph::apply(const Move& move) {
  ++m_applied;
  if (move.kind == Move::Kind::Merge) {
    resequence(move.producer, move.consumer);
    std::vector<OperatorId> merged = unite(m_kernels[move.producer], m_kernels[move.consumer]);
    for (const OperatorId op : merged) m_kernelOf[op.value] = move.consumer;
    m_kernels[move.consumer] = std::move(merged);
    m_kernels[move.producer].clear();
    changed(move.producer);
    changed(move.consumer);
    return {move.consumer};
  }
  ++m_inlined;
  const KernelId own = move.producer;
  std::vector<KernelId> consumers = consumersOf(move.tensor);
  std::sort(consumers.begin(), consumers.end(),
            [this](KernelId a, KernelId b) { return m_order[m_kernels[a].front().value] < m_order[m_kernels[b].front().value]; });
  const std::vector<OperatorId> slice = sliceFor(move.tensor), dead = deadWithout(move.tensor);
  // Copies before moves: a copy is made from the operator as it stands in the old kernel.
  for (auto at = consumers.rbegin(); at != consumers.rend(); ++at) {
    const KernelId k = *at;
    const bool first = at + 1 == consumers.rend();
    const Phase phase = m_program[m_kernels[k].front()].phase;
    std::map<TensorId, TensorId> renamed;
    std::vector<OperatorId> placed;
    for (const OperatorId op : slice) {
      const TensorId output = m_program[op].output;
      if (first && std::find(dead.begin(), dead.end(), op) != dead.end()) {
        // What the old kernel does not need any more moves into the first reader's; the others get copies.
        unlink(op);
        rename(op, renamed);
        know(op);
        link(op);
        m_kernelOf[op.value] = k;
        placed.push_back(op);
        continue;
      }
      Operator copy = m_program[op];
      const TensorId made = copyTensor(output);
      renamed[output] = made;
      copy.output = made;
      // Of the phase that computes it again; what an optimiser computes is its own in a gradient's kernel, too.
      copy.phase = std::max(copy.phase, phase);
      copy.origin = m_program.derivedOrigin("fuse", {copy.origin});
      const OperatorId id = m_program.addOperator(std::move(copy));
      m_order.push_back(m_order[op.value]);
      m_kernelOf.push_back(k);
      m_producer[made.value] = id;
      rename(id, renamed);
      know(id);
      link(id);
      placed.push_back(id);
    }
    if (renamed.contains(move.tensor))
      for (const OperatorId reader : m_kernels[k]) {
        if (!reads(reader, move.tensor)) continue;
        unlink(reader);
        rename(reader, {{move.tensor, renamed.at(move.tensor)}});
        know(reader);
        link(reader);
      }
    m_kernels[k] = unite(placed, m_kernels[k]);
    changed(k);
  }
  for (const OperatorId op : dead) std::erase(m_kernels[own], op);
  changed(own);
  if (!m_kernels[own].empty()) consumers.push_back(own);
  return consumers;
}

Program KernelGraph::take() && {
  std::vector<Operator> operators;
  std::vector<Group> groups;
  for (const KernelId k : m_sequence) {
    if (m_kernels[k].empty()) continue;
    Group group;
    // What is computed again has the name of what it repeats: it is said once.
    std::vector<std::string> named;
    for (const OperatorId op : m_kernels[k]) {
      if (std::find(named.begin(), named.end(), m_program[op].name) == named.end()) {
        group.name += (named.empty() ? "" : " + ") + m_program[op].name;
        named.push_back(m_program[op].name);
      }
      operators.push_back(std::move(m_program[op]));
      group.operators.push_back(OperatorId(operators.size() - 1));
    }
    constexpr std::size_t kLongest = 80;
    if (group.name.size() > kLongest)
      group.name = operators.back().name + " and " + std::to_string(group.operators.size() - 1) + " more";
    groups.push_back(std::move(group));
  }
  m_program.operators = std::move(operators);
  m_program.groups = std::move(groups);
  m_program.stage = Stage::Fused;
  return std::move(m_program);
}

}  // namespace nf
