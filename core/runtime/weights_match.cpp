// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/weights_match.h"

#include <algorithm>
#include <set>
#include <vector>

#include "core/runtime/host_tensor.h"
#include "core/runtime/tensor_store.h"

namespace nf {
namespace {

bool isKept(const TensorStore::Entry& entry) { return entry.kind == TensorKind::Param || entry.kind == TensorKind::State; }

// The first eight.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return text + (names.size() > kMost ? ", ..." : "");
}

}  // namespace

std::string unmatchedWeights(const TensorStore& store, const CompiledNotebook& notebook, const NamedTensors& tensors,
                             const std::string& from) {
  std::set<std::string> given;
  for (const auto& [name, value] : tensors) given.insert(name);
  // `W.adam.m` of the parameter W, here or in the file, `L.step` of the loss L.
  const auto isOfOptimizer = [&](const std::string& name) {
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      const std::string owner = name.substr(0, dot);
      const TensorId of = notebook.tensorNamed(owner);
      if (given.contains(owner) || (of.valid() && notebook.program[of].kind == TensorKind::Param)) return true;
    }
    return std::any_of(notebook.trains.begin(), notebook.trains.end(),
                       [&](const TrainSettings& train) { return name.starts_with(train.loss + ".step"); });
  };
  std::vector<std::string> taken, missing, unknown;
  for (const std::string& name : given)
    if (!store.entries().contains(name) && !notebook.tensorNamed(name).valid() && !isOfOptimizer(name)) unknown.push_back(name);
  for (const auto& [name, entry] : store.entries())
    if (isKept(*entry) && !isOfOptimizer(name)) (given.contains(name) ? taken : missing).push_back(name);
  if (missing.empty() && unknown.empty()) return {};
  std::string text = from + " gives " + (taken.empty() ? "no parameter" : listed(taken));
  if (!missing.empty())
    text += "; it lacks " + listed(missing) +
            (missing.size() == 1 ? ", which keeps its initial value" : ", which keep their initial values");
  if (!unknown.empty()) text += "; it holds " + listed(unknown) + ", which no tensor here is called";
  return text;
}

std::string replacedInputs(const TensorStore& store, const NamedTensors& tensors, const std::set<std::string>& fed,
                           const std::string& from) {
  std::vector<std::string> replaced;
  for (const auto& [name, value] : tensors)
    if (const auto found = store.entries().find(name);
        found != store.entries().end() && !isKept(*found->second) && !fed.contains(name))
      replaced.push_back(name);
  if (replaced.empty()) return {};
  std::sort(replaced.begin(), replaced.end());
  return from + " replaces " + listed(replaced) + ", which " + (replaced.size() == 1 ? "is no parameter" : "are no parameters") +
         ": the notebook's own values are not used";
}

std::string checkpointDifference(const TensorStore& store, const Checkpoint& checkpoint, const std::string& optimizer) {
  std::set<std::string> given;
  std::string other;  // a tensor of the same name and another shape
  std::vector<std::string> missing, unknown;
  for (const auto& [name, value] : checkpoint.tensors) {
    given.insert(name);
    const auto found = store.entries().find(name);
    if (found == store.entries().end() || !isKept(*found->second)) unknown.push_back(name);
    else if (other.empty() && found->second->shape != value.shape)
      other = name + " is " + shapeText(value.shape) + " there and " + shapeText(found->second->shape) + " here";
  }
  for (const auto& [name, entry] : store.entries())
    if (isKept(*entry) && !given.contains(name)) missing.push_back(name);
  if (!other.empty()) return other + ".";
  std::string text;
  if (!checkpoint.optimizer.empty() && checkpoint.optimizer != optimizer)
    text = "its optimizer is " + checkpoint.optimizer + ", here it is " + optimizer;
  else if (!missing.empty()) text = "it has no " + listed(missing);
  else if (!unknown.empty()) text = "it has " + listed(unknown) + ", which nothing trains here";
  else text = "its tensors are the same, what is computed with them is not";
  return text + ". `neoflow train --weights` takes its values by name and begins with step 1.";
}

}  // namespace nf
