// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/meaning.h"

#include <algorithm>
#include <optional>

#include "core/ir/structural_hash.h"
#include "core/syntax/derivative_name.h"

namespace nf {
namespace {

// Whether somebody reads what a loop carries last changes nothing of what it computes.
Program withoutLasts(Program program) {
  for (Loop& loop : program.loops)
    for (Loop::Carried& carried : loop.carried) carried.last = {};
  return program;
}

// What an operator writes, with the place of each among all that it might.
std::vector<std::pair<TensorId, std::uint64_t>> placedWrites(const Program& program, OperatorId id) {
  const Operator& op = program[id];
  std::vector<std::pair<TensorId, std::uint64_t>> out;
  if (op.kind != OperatorKind::Loop) return {{op.output, 0}};
  const Loop& loop = program[op.loop];
  std::uint64_t place = 0;
  for (const auto& carried : loop.carried) out.emplace_back(carried.last, place++);
  for (const auto& stacked : loop.stacked) out.emplace_back(stacked.outer, place++);
  for (const auto& accumulated : loop.accumulated) out.emplace_back(accumulated.outer, place++);
  std::erase_if(out, [](const auto& written) { return !written.first.valid(); });
  return out;
}

class Meanings {
 public:
  // `nameless`: parameters and states count by their declarations alone.
  explicit Meanings(const Program& program, bool nameless = false)
      : m_program(program), m_known(program.tensors.size()), m_nameless(nameless) {
    const Program computing = withoutLasts(program);
    for (std::size_t i = 0; i < program.operators.size(); ++i) {
      const OperatorId op(i);
      Hasher hasher;
      hasher.add(structuralHash(computing, op));
      for (const TensorId t : readsOf(program, op)) hasher.add(of(t));
      const Hash made = hasher.finish();
      for (const auto& [t, place] : placedWrites(program, op)) m_known[t.value] = Hasher().add(made).add(place).finish();
    }
  }

  Hash of(TensorId id) {
    auto& known = m_known[id.value];
    if (!known) known = given(id);
    return *known;
  }

 private:
  // Of what no operator before has written: a derivative, or a value from outside.
  Hash given(TensorId id) {
    Hasher hasher;
    for (const Derivative& d : m_program.derivatives)
      if (d.result == id) {
        hasher.add("d").add(of(d.of)).add(of(d.wrt));
        if (d.seed.valid()) hasher.add(of(d.seed));
        return hasher.finish();
      }
    const Tensor& t = m_program[id];
    if (!m_nameless || (t.kind != TensorKind::Param && t.kind != TensorKind::State)) hasher.add(t.name);
    hasher.add(static_cast<std::uint64_t>(t.kind)).add(static_cast<std::uint64_t>(t.type)).add(t.shape.size());
    for (const std::int64_t extent : t.shape) hasher.add(static_cast<std::uint64_t>(extent));
    add(hasher, t.init);
    for (const DataSet& data : m_program.data)
      if (data.name == t.init.data) {
        // As it is written: a notebook that is moved takes its runs, and its data, along.
        add(hasher, data.source);
        hasher.add(static_cast<std::uint64_t>(data.heldOutLast));
      }
    return hasher.finish();
  }

  const Program& m_program;
  std::vector<std::optional<Hash>> m_known;
  bool m_nameless;
};

// Towards the leaves: where in `root` a tensor stands, as a multiset of its readings.
class Places {
 public:
  Places(const Program& program, TensorId root)
      : m_program(program), m_computing(withoutLasts(program)), m_meanings(program, true), m_readings(program.tensors.size()) {
    m_readings[root.value].push_back(Hasher().add("root").finish());
    const std::vector<std::size_t> firstReaders = firstReadersOfDerivatives();
    for (std::size_t o = program.operators.size() + 1; o-- > 0;) {
      if (o < program.operators.size()) read(OperatorId(o));
      // What a derivative is of is made before its value is read.
      for (std::size_t d = program.derivatives.size(); d-- > 0;)
        if (firstReaders[d] == o) read(program.derivatives[d]);
    }
  }

  // nullopt: the root does not depend on it.
  std::optional<Hash> of(TensorId id) {
    auto& readings = m_readings[id.value];
    if (readings.empty()) return std::nullopt;
    std::sort(readings.begin(), readings.end());
    Hasher hasher;
    for (const Hash& reading : readings) hasher.add(reading);
    return hasher.add(m_meanings.of(id)).finish();
  }

 private:
  std::vector<std::size_t> firstReadersOfDerivatives() const {
    const std::size_t none = m_program.operators.size();
    std::vector<std::size_t> byTensor(m_program.tensors.size(), none), out(m_program.derivatives.size(), none);
    for (std::size_t o = none; o-- > 0;)
      for (const TensorId t : readsOf(m_program, OperatorId(o))) byTensor[t.value] = o;
    for (std::size_t d = out.size(); d-- > 0;) {
      const Derivative& derivative = m_program.derivatives[d];
      out[d] = byTensor[derivative.result.value];
      for (const TensorId t : {derivative.of, derivative.wrt, derivative.seed})
        if (t.valid()) byTensor[t.value] = std::min(byTensor[t.value], out[d]);
    }
    return out;
  }

  void read(OperatorId op) {
    Hasher hasher;
    bool needed = false;
    for (const auto& [t, written] : placedWrites(m_program, op))
      if (const std::optional<Hash> place = of(t)) {
        needed = true;
        hasher.add(written).add(*place);
      }
    if (!needed) return;
    hasher.add(structuralHash(m_computing, op));
    const std::vector<TensorId> reads = readsOf(m_program, op);
    for (const TensorId t : reads) hasher.add(m_meanings.of(t));
    const Hash at = hasher.finish();
    for (std::size_t k = 0; k < reads.size(); ++k) m_readings[reads[k].value].push_back(Hasher().add(at).add(k).finish());
  }

  void read(const Derivative& d) {
    const std::optional<Hash> place = of(d.result);
    if (!place) return;
    const auto add = [&](TensorId t, std::string_view role) {
      if (t.valid()) m_readings[t.value].push_back(Hasher().add(*place).add(role).finish());
    };
    add(d.of, "of");
    add(d.wrt, "wrt");
    add(d.seed, "seed");
  }

  const Program& m_program;
  const Program m_computing;
  Meanings m_meanings;
  std::vector<std::vector<Hash>> m_readings;
};

}  // namespace

std::vector<Hash> cellMeanings(const CompiledNotebook& notebook) {
  const Program& program = notebook.program;
  Meanings meanings(program);
  const std::vector<OperatorId> made = producers(program);
  std::vector<Hash> out(notebook.cells.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const CellInfo& cell = notebook.cells[i];
    Hasher hasher;
    for (const TensorId t : cell.shows) hasher.add(meanings.of(t));
    for (const TrainSettings& train : notebook.trains) {
      if (train.span.begin < cell.span.begin || train.span.begin >= cell.span.end) continue;
      hasher.add(notebook.sources.text(train.span));
      if (const TensorId loss = notebook.tensorNamed(train.loss); loss.valid()) hasher.add(meanings.of(loss));
      // Other hints, other kernels: what was measured of them is old.
      for (const Hint& hint : program.hints) {
        hasher.add(static_cast<std::uint64_t>(hint.kind)).add(hint.attributes).add(hint.tensors.size());
        for (const std::string& name : hint.tensors) hasher.add(name);
      }
      for (const Output& output : program.outputs)
        if (output.role == OutputRole::Eval) hasher.add(meanings.of(output.tensor));
      // What an optimizer makes follows from its settings and the loss.
      for (const Update& update : program.updates)
        if (const OperatorId op = made[update.value.value]; !op.valid() || program[op].phase != Phase::Optimizer)
          hasher.add(meanings.of(update.target)).add(meanings.of(update.value));
    }
    if (!cell.shows.empty() || cell.hasTrain) out[i] = hasher.finish();
  }
  return out;
}

Hash tensorMeaning(const CompiledNotebook& notebook, const std::string& name) {
  const Program& program = notebook.program;
  const auto find = [&](const std::string& wanted) {
    const TensorId t = program.tensorNamed(wanted);
    return t.valid() ? t : notebook.tensorNamed(wanted);
  };
  Meanings meanings(program);
  if (const TensorId t = find(name); t.valid()) return meanings.of(t);
  const auto ends = derivativeNames(name);
  if (!ends) return {};
  const TensorId of = find(ends->first), wrt = find(ends->second);
  return of.valid() && wrt.valid() ? Hasher().add("d").add(meanings.of(of)).add(meanings.of(wrt)).finish() : Hash{};
}

std::map<std::string, std::string> parameterPlaces(const Program& program, TensorId loss) {
  std::map<std::string, std::string> out;
  if (!loss.valid()) return out;
  Places places(program, loss);
  std::map<Hash, std::uint64_t> alike;
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    if (tensor.kind != TensorKind::Param && tensor.kind != TensorKind::State) continue;
    if (const auto place = places.of(TensorId(t)))
      out.emplace(tensor.name, Hasher().add(*place).add(alike[*place]++).finish().hex());
  }
  return out;
}

std::string trainMeaning(const CompiledNotebook& notebook, const TrainSettings& settings) {
  const std::vector<Hash> cells = cellMeanings(notebook);
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (settings.span.begin >= notebook.cells[i].span.begin && settings.span.begin < notebook.cells[i].span.end)
      return cells[i].hex();
  return {};
}

}  // namespace nf
