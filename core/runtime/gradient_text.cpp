// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/gradient_text.h"

#include <algorithm>
#include <iomanip>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/ir/structural_hash.h"
#include "core/runtime/execution_plan.h"
#include "core/support/unique_names.h"

namespace nf {
namespace {

bool isDerived(const Program& p, std::size_t o, std::size_t forward) {
  return o >= forward || p.operators[o].phase == Phase::Backward;
}

// Of each tensor: whether the notebook's end has it by its name. What is derived it has not, nor what a name meant before.
std::vector<bool> reached(const CompiledNotebook& notebook, const Program& p, std::size_t forward) {
  // By name at the end of the notebook: what a cell declares, else the first tensor that has it.
  std::unordered_map<std::string_view, TensorId> named;
  for (const Symbol& s : notebook.symbols)
    if (!s.inside && s.kind != Symbol::Kind::Function && s.kind != Symbol::Kind::Extent && s.kind != Symbol::Kind::Data)
      named.emplace(s.name, s.tensor);
  for (std::size_t t = 0; t < notebook.program.tensors.size(); ++t) named.emplace(notebook.program.tensors[t].name, TensorId(t));
  std::vector<bool> reached(p.tensors.size(), false);
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const auto found = named.find(p.tensors[t].name);
    const std::string_view plain = withoutNumber(p.tensors[t].name);
    reached[t] =
        found != named.end() && found->second == TensorId(t) && (plain == p.tensors[t].name || !notebook.tensorSymbol(plain));
  }
  for (std::size_t o = 0; o < p.operators.size(); ++o)
    if (isDerived(p, o, forward))
      for (const TensorId t : writesOf(p, OperatorId(o))) reached[t.value] = false;
  return reached;
}

bool isOneNumber(const Tensor& t) {
  return t.kind == TensorKind::Const &&
         (t.init.kind == Initializer::Kind::Zeros || (t.init.kind == Initializer::Kind::Constant && t.init.numbers.size() == 1));
}

// Operators, and constants of one number that a loop has written over, which make a tensor.
struct Steps {
  std::vector<OperatorId> operators;
  std::vector<TensorId> constants;
};

// What makes `results` of what is there; nothing where something is neither there nor made.
std::optional<Steps> leadingTo(const Program& p, const std::vector<TensorId>& results, const std::vector<bool>& there) {
  const auto made = producers(p);
  std::vector<bool> needed(p.operators.size(), false);
  std::set<TensorId> constants;
  std::vector<TensorId> stack = results;
  while (!stack.empty()) {
    const TensorId t = stack.back();
    stack.pop_back();
    if (there[t.value]) continue;
    const OperatorId o = made[t.value];
    if (!o.valid()) {
      if (!isOneNumber(p[t])) return std::nullopt;
      constants.insert(t);
      continue;
    }
    if (needed[o.value]) continue;
    needed[o.value] = true;
    for (const TensorId read : readsOf(p, o)) stack.push_back(read);
  }
  Steps steps;
  for (std::size_t o = 0; o < p.operators.size(); ++o)
    if (needed[o]) steps.operators.emplace_back(o);
  steps.constants.assign(constants.begin(), constants.end());
  return steps;
}

// const h[2, 48] = 0.5
std::string constantText(const Tensor& t) {
  std::ostringstream text;
  text << std::setprecision(17) << "const `" << t.name << "`";
  for (std::size_t k = 0; k < t.shape.size(); ++k) text << (k ? ", " : "[") << t.shape[k];
  text << (t.shape.empty() ? "" : "]");
  if (t.type != DType::F32) text << " : " << name(t.type);
  text << " = " << (t.init.kind == Initializer::Kind::Zeros ? 0.0 : t.init.numbers[0]) << "\n";
  return text.str();
}

// What the notebook has made and the text makes again, the steps of a loop or what was written over, under names that nobody has.
void nameAnew(Program& p, const Steps& steps, std::size_t forward, const CompiledNotebook& notebook) {
  std::unordered_set<std::string> taken;
  for (const Symbol& s : notebook.symbols) taken.insert(s.name);
  for (const Tensor& t : p.tensors) taken.insert(t.name);
  const auto anew = [&](TensorId t) {
    const std::string wish = std::string(withoutNumber(p[t].name)) + "_again";
    std::string name = wish;
    for (int n = 2; !taken.insert(name).second; ++n) name = wish + std::to_string(n);
    p[t].name = name;
  };
  for (const TensorId t : steps.constants) anew(t);
  for (const OperatorId o : steps.operators)
    if (!isDerived(p, o.value, forward))
      for (const TensorId t : writesOf(p, o)) anew(t);
}

// A cell behind the notebook, of the program's `results`; nothing where no cell can make them. `read`: read by the compiler before it is
// given, also where it makes nothing again.
std::optional<std::string> textBehind(const CompiledNotebook& notebook, const Program& p, std::size_t forward,
                                      const std::vector<TensorId>& results, TensorId seed, const CompileOptions& compiled,
                                      bool read) {
  std::vector<bool> there = reached(notebook, p, forward);
  if (seed.valid()) there[seed.value] = true;
  const auto steps = leadingTo(p, results, there);
  if (!steps) return std::nullopt;
  std::string text;
  if (seed.valid()) {
    text += "input " + p[seed].name + "[";
    for (std::size_t k = 0; k < p[seed].shape.size(); ++k) text += (k ? ", " : "") + std::to_string(p[seed].shape[k]);
    text += "] = 1\n";
  }
  const std::vector<OperatorId>& operators = steps->operators;
  const bool again = !steps->constants.empty() ||
                     std::any_of(operators.begin(), operators.end(), [&](OperatorId o) { return !isDerived(p, o.value, forward); });
  if (again) {
    Program renamed = p;
    nameAnew(renamed, *steps, forward, notebook);
    for (const TensorId t : steps->constants) text += constantText(renamed[t]);
    std::vector<std::string> notebooks;
    for (const Symbol& s : notebook.symbols) notebooks.push_back(s.name);
    text += toText(renamed, operators, {}, notebooks) + "\n";
  } else if (!operators.empty()) {
    text += toText(p, operators) + "\n";
  }
  if (!again && !read) return text;
  Source both = notebook.sources.at(notebook.notebook);
  both.text += "\n# %%\n" + text;
  if (!compileNotebook(std::move(both), compiled).ok()) return std::nullopt;
  return text;
}

std::string textAlone(const Program& p, const std::vector<TensorId>& results) {
  Program alone = p;
  alone.derivatives.clear();
  alone.updates.clear();
  alone.outputs.clear();
  for (const TensorId t : results) alone.outputs.push_back({alone[t].name, t, OutputRole::Show});
  return toText(restrictedTo(alone, results, false));
}

}  // namespace

Result<GradientText> gradientText(const CompiledNotebook& notebook, TensorId of, TensorId wrt, const InvertOptions& options,
                                  const CompileOptions& compiled) {
  GradientText made;
  const DerivativeProgram only = onlyDerivative(notebook.program, of, wrt);
  made.result = only.result;
  made.seed = only.seed;
  NF_TRY(made.differentiated, differentiate(only.program, options));
  const Program& p = made.differentiated.program;
  if (hasErrors(made.differentiated.diagnostics)) return made;

  if (!only.ofDerivative) {
    auto behind = textBehind(notebook, p, only.program.operators.size(), {made.result}, made.seed, compiled, false);
    if (behind) {
      made.text = std::move(*behind);
      return made;
    }
  }
  // What a name was given to that the text cannot make again.
  made.whole = true;
  made.text = textAlone(p, {made.result});
  return made;
}

GradientsText gradientsText(const CompiledNotebook& notebook, const Program& differentiated, const CompileOptions& compiled) {
  std::vector<TensorId> results;
  for (const Derivative& d : notebook.program.derivatives) results.push_back(d.result);
  if (results.empty()) return {};
  if (auto behind = textBehind(notebook, differentiated, differentiated.operators.size(), results, {}, compiled, true))
    return {std::move(*behind), false};
  return {textAlone(differentiated, results), true};
}

}  // namespace nf
