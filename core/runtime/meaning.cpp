// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/meaning.h"

#include <filesystem>
#include <optional>

#include "core/ir/structural_hash.h"
#include "core/syntax/derivative_name.h"

namespace nf {
namespace {

class Meanings {
 public:
  explicit Meanings(const Program& program) : m_program(program), m_known(program.tensors.size()) {
    for (std::size_t i = 0; i < program.operators.size(); ++i) {
      const OperatorId op(i);
      Hasher hasher;
      hasher.add(structuralHash(program, op));
      for (const TensorId t : readsOf(program, op)) hasher.add(of(t));
      const Hash made = hasher.finish();
      std::uint64_t position = 0;
      for (const TensorId t : writesOf(program, op))
        if (t.valid()) m_known[t.value] = Hasher().add(made).add(position++).finish();
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
    hasher.add(t.name).add(static_cast<std::uint64_t>(t.kind)).add(static_cast<std::uint64_t>(t.type)).add(t.shape.size());
    for (const std::int64_t extent : t.shape) hasher.add(static_cast<std::uint64_t>(extent));
    add(hasher, t.init);
    for (const DataSet& data : m_program.data)
      if (data.name == t.init.data) {
        add(hasher, data.source);
        // However the notebook was named.
        const std::filesystem::path folder = data.directory.empty() ? "." : data.directory;
        std::error_code none;
        const std::filesystem::path whole = std::filesystem::absolute(folder, none);
        hasher.add((none ? folder : whole / "").lexically_normal().string()).add(static_cast<std::uint64_t>(data.heldOutLast));
      }
    return hasher.finish();
  }

  const Program& m_program;
  std::vector<std::optional<Hash>> m_known;
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

}  // namespace nf
