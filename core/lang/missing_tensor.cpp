// SPDX-License-Identifier: Apache-2.0
#include "core/lang/missing_tensor.h"

#include <utility>
#include <vector>

#include "core/lang/spelling.h"

namespace nf {

Error missingTensor(const CompiledNotebook& notebook, std::string stage, const std::string& name) {
  if (const Symbol* symbol = notebook.tensorSymbol(name); symbol && symbol->lastOf.valid())
    return {std::move(stage), "Nothing uses the value that " + name + " has behind its loop.", {}, {}};
  constexpr std::size_t kMostText = 400;
  std::vector<std::string> made, there;
  for (const Symbol& s : notebook.symbols)
    if (s.inside && s.name == name && s.tensor.valid() && s.tensor.value < notebook.program.tensors.size())
      made.push_back(notebook.program[s.tensor].name);
  for (const Tensor& t : notebook.program.tensors) {
    const Symbol* const symbol = notebook.tensorSymbol(t.name);
    if (!symbol || symbol->tensor.valid()) there.push_back(t.name);
  }
  const auto listed = [&](const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& n : names)
      if (text.size() < kMostText) text += (text.empty() ? "" : ", ") + n;
    return text;
  };
  if (!made.empty())
    return {std::move(stage), "There is no tensor " + name + ": every repetition has its own.", {}, "They are " + listed(made)};
  const std::vector<std::string> near = lang::nearest(name, there);
  return {std::move(stage),
          "There is no tensor " + name + (near.empty() ? "." : ": is " + near.front() + " meant?"),
          {},
          "Tensors here: " + listed(there)};
}

}  // namespace nf
