// SPDX-License-Identifier: Apache-2.0
#include "core/lang/missing_tensor.h"

#include <algorithm>
#include <string_view>
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
    for (const std::string& n : names) {
      if (text.size() >= kMostText) return text + ", ...";
      text += (text.empty() ? "" : ", ") + n;
    }
    return text;
  };
  if (!made.empty())
    return {std::move(stage), "There is no tensor " + name + ": every repetition has its own.", {}, "They are " + listed(made)};
  const std::vector<std::string> near = lang::nearest(name, there);
  // Of a long list what somebody who writes `Z.F` for `Z.conv2d.F` means comes first: the same last part.
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  std::stable_partition(there.begin(), there.end(),
                        [&](const std::string& n) { return std::string_view(n).substr(n.rfind('.') + 1) == last; });
  return {std::move(stage),
          "There is no tensor " + name + (near.empty() ? "." : ": is " + near.front() + " meant?"),
          {},
          "Tensors here: " + listed(there)};
}

}  // namespace nf
