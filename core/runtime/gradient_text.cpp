// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/gradient_text.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "core/ir/structural_hash.h"
#include "core/runtime/execution_plan.h"

namespace nf {
namespace {

bool isDerived(const Program& p, std::size_t o, std::size_t forward) {
  return o >= forward || p.operators[o].phase == Phase::Backward;
}

// The operators that `result` depends on.
std::vector<bool> leadingTo(const Program& p, TensorId result) {
  const auto made = producers(p);
  std::vector<bool> needed(p.operators.size(), false);
  std::vector<TensorId> stack{result};
  while (!stack.empty()) {
    const OperatorId o = made[stack.back().value];
    stack.pop_back();
    if (!o.valid() || needed[o.value]) continue;
    needed[o.value] = true;
    for (const TensorId t : readsOf(p, o)) stack.push_back(t);
  }
  return needed;
}

// Whether everything that the derived operators read has the same name at the end of the notebook.
bool namesReach(const CompiledNotebook& notebook, const Program& p, std::size_t forward, TensorId seed) {
  std::vector<bool> derived(p.tensors.size(), false);
  for (std::size_t o = 0; o < p.operators.size(); ++o)
    if (isDerived(p, o, forward))
      for (const TensorId t : writesOf(p, OperatorId(o))) derived[t.value] = true;
  std::vector<TensorId> read;
  for (std::size_t o = 0; o < p.operators.size(); ++o) {
    if (!isDerived(p, o, forward)) continue;
    for (const TensorId t : readsOf(p, OperatorId(o)))
      if (!derived[t.value] && t != seed) read.push_back(t);
  }
  if (read.empty()) return true;
  // By name at the end of the notebook: what a cell declares, else the first tensor that has it.
  std::unordered_map<std::string_view, TensorId> named;
  for (const Symbol& s : notebook.symbols)
    if (s.kind != Symbol::Kind::Function && s.kind != Symbol::Kind::Extent && s.kind != Symbol::Kind::Data)
      named.emplace(s.name, s.tensor);
  for (std::size_t t = 0; t < notebook.program.tensors.size(); ++t) named.emplace(notebook.program.tensors[t].name, TensorId(t));
  return std::all_of(read.begin(), read.end(), [&](TensorId t) {
    const auto found = named.find(p[t].name);
    return found != named.end() && found->second == t;
  });
}

}  // namespace

Result<GradientText> gradientText(const CompiledNotebook& notebook, TensorId of, TensorId wrt, const InvertOptions& options) {
  GradientText made;
  const DerivativeProgram only = onlyDerivative(notebook.program, of, wrt);
  made.result = only.result;
  made.seed = only.seed;
  const std::size_t forward = only.program.operators.size();
  NF_TRY(made.differentiated, differentiate(only.program, options));
  const Program& p = made.differentiated.program;
  if (hasErrors(made.differentiated.diagnostics)) return made;

  made.whole = only.ofDerivative || !namesReach(notebook, p, forward, made.seed);
  if (made.whole) {
    Program alone = p;
    alone.derivatives.clear();
    alone.outputs = {{alone[made.result].name, made.result, OutputRole::Show}};
    made.text = toText(restrictedTo(alone, {made.result}, false));
    return made;
  }
  if (made.seed.valid()) {
    const Tensor& seed = p[made.seed];
    made.text += "input " + seed.name + "[";
    for (std::size_t k = 0; k < seed.shape.size(); ++k) made.text += (k ? ", " : "") + std::to_string(seed.shape[k]);
    made.text += "] = 1\n";
  }
  const std::vector<bool> needed = leadingTo(p, made.result);
  std::vector<OperatorId> derived;
  for (std::size_t o = 0; o < p.operators.size(); ++o)
    if (needed[o] && isDerived(p, o, forward)) derived.emplace_back(o);
  if (!derived.empty()) made.text += toText(p, derived) + "\n";
  return made;
}

}  // namespace nf
