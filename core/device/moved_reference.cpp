// SPDX-License-Identifier: Apache-2.0
#include "core/device/moved_reference.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace nf {

Result<MovedReference> MovedReference::prepare(const Program& program, const std::vector<TensorId>& outputs, Storage storage) {
  std::vector<bool> needed(program.tensors.size(), false);
  for (const TensorId t : outputs) needed[t.value] = true;
  std::vector<bool> later = needed;
  Program one = program;
  MovedReference made;
  for (std::size_t o = program.operators.size(); o-- > 0;) {
    std::vector<TensorId> writes = writesOf(program, OperatorId(o));
    std::erase_if(writes, [&](TensorId t) { return !t.valid() || !needed[t.value]; });
    if (writes.empty()) continue;
    std::vector<TensorId> dies;
    for (const TensorId t : readsOf(program, OperatorId(o))) {
      needed[t.value] = true;
      if (!later[t.value]) dies.push_back(t);
      later[t.value] = true;
    }
    one.operators = {program.operators[o]};
    NF_TRY(ReferenceProgram value, ReferenceProgram::prepare(one, writes, true, storage));
    made.m_stages.push_back({std::move(value), std::move(dies)});
  }
  std::ranges::reverse(made.m_stages);
  return made;
}

Result<TensorValues> MovedReference::run(TensorValues values, std::uint64_t seed, double move, std::mt19937_64& random) const {
  const auto factor = [&] { return random() % 2 ? 1 + move : 1 - move; };
  for (auto& [tensor, data] : values)
    if (isFloating(data.type))
      for (double& v : data.values) v *= factor();
  for (const Stage& stage : m_stages) {
    NF_TRY(TensorValues made, stage.value.run(values, seed));
    for (auto& [tensor, data] : made) {
      if (isFloating(data.type) && data.type != DType::F64)
        for (double& v : data.values)
          if (std::isfinite(v) && v != std::floor(v)) v *= factor();
      values[tensor] = std::move(data);
    }
    for (const TensorId t : stage.dies) values.erase(t);
  }
  return values;
}

}  // namespace nf
