// SPDX-License-Identifier: Apache-2.0
#include "core/lang/dot.h"

#include "core/lang/compile.h"

namespace nf {
namespace {

std::string dotString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    if (c == '\n') out += "\\n";
    else out.push_back(c);
  }
  return out + "\"";
}

std::string_view colour(Phase phase) {
  switch (phase) {
    case Phase::Forward: return "#0072B2";
    case Phase::Backward: return "#CC7A00";
    case Phase::Optimizer: return "#007E5B";
    case Phase::Evaluation: return "#56626E";
  }
  return "";
}

std::string shapeText(const Tensor& t) {
  std::string out = std::string(name(t.type)) + " [";
  for (std::size_t i = 0; i < t.shape.size(); ++i) out += (i ? ", " : "") + std::to_string(t.shape[i]);
  return out + "]";
}

std::string shortened(std::string text) {
  constexpr std::size_t kWidest = 60;
  if (text.size() <= kWidest) return text;
  std::size_t end = kWidest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

std::string toDot(const Program& program) {
  std::string out = "digraph neoflow {\n  rankdir=LR;\n  node [fontname=\"Inter\", fontsize=10, shape=box, style=rounded];\n";
  const std::vector<OperatorId> made = producers(program);
  std::vector<bool> used(program.tensors.size(), false);
  std::string edges;
  for (std::size_t i = 0; i < program.operators.size(); ++i)
    for (const TensorId t : readsOf(program, OperatorId(i))) {
      used[t.value] = true;
      const std::string from = made[t.value].valid() ? "op" + std::to_string(made[t.value].value) : "t" + std::to_string(t.value);
      edges += "  " + from + " -> op" + std::to_string(i) +
               " [label=" + dotString(program[t].name + " " + std::to_string(program[t].bytes()) + " B") + ", fontsize=8];\n";
    }
  for (std::size_t t = 0; t < used.size(); ++t)
    if (used[t] && !made[t].valid())
      out += "  t" + std::to_string(t) +
             " [shape=ellipse, label=" + dotString(program.tensors[t].name + "\n" + shapeText(program.tensors[t])) + "];\n";
  const auto node = [&](OperatorId id) {
    const Operator& op = program[id];
    const std::string text = op.kind == OperatorKind::Loop
                                 ? "for " + program[op.loop].counter + " in 0.." + std::to_string(program[op.loop].trips)
                                 : shortened(toText(program, id));
    return "op" + std::to_string(id.value) + " [color=\"" + std::string(colour(op.phase)) +
           "\", label=" + dotString(op.name + "\n" + text) + "];\n";
  };
  if (program.groups.empty())
    for (std::size_t i = 0; i < program.operators.size(); ++i) out += "  " + node(OperatorId(i));
  for (std::size_t g = 0; g < program.groups.size(); ++g) {
    const Group& group = program.groups[g];
    if (group.operators.size() == 1) {
      out += "  " + node(group.operators[0]);
      continue;
    }
    out += "  subgraph cluster_" + std::to_string(g) + " {\n    style=rounded; label=" + dotString(group.name) + ";\n";
    for (const OperatorId id : group.operators) out += "    " + node(id);
    out += "  }\n";
  }
  return out + edges + "}\n";
}

}  // namespace nf
