// SPDX-License-Identifier: Apache-2.0
#include "core/fusion/partition.h"

#include <unordered_map>

#include "core/ir/structural_hash.h"

namespace nf {

void numberSubgraphs(Program& program) {
  const SubgraphExtractor extractor(program);
  std::unordered_map<Hash, std::uint32_t> numbers;
  for (Group& group : program.groups) {
    const Hash hash = extractor.extract(group.operators, false).hash;
    group.subgraph = numbers.emplace(hash, static_cast<std::uint32_t>(numbers.size())).first->second;
  }
}

namespace {

// What the loop takes out of its body must be written by the body's kernels, also where they read it themselves.
void handOn(const Loop& loop, Program& body) {
  const auto keep = [&](TensorId t) {
    for (const Output& o : body.outputs)
      if (o.tensor == t) return;
    body.outputs.push_back({body[t].name, t, OutputRole::Named});
  };
  for (const auto& c : loop.carried) keep(c.innerOut);
  for (const auto& s : loop.stacked) keep(s.inner);
  for (const auto& a : loop.accumulated) keep(a.inner);
}

// Loop bodies are partitioned with the program around them: they run kernel by kernel too.
Result<Program> partitionAt(const Program& program, int depth) {
  if (depth > 64) return Error{"partition", "Loops are nested too deep.", {}, {}};
  Program out = program;
  out.stage = Stage::Partitioned;
  out.groups.clear();
  for (std::size_t i = 0; i < out.operators.size(); ++i) out.groups.push_back({{OperatorId(i)}, 0, out.operators[i].name});
  for (Loop& loop : out.loops) {
    Program inner = *loop.body;
    handOn(loop, inner);
    NF_TRY(Program body, partitionAt(inner, depth + 1));
    loop.body = std::make_shared<const Program>(std::move(body));
  }
  numberSubgraphs(out);
  return out;
}

}  // namespace

Result<Program> partition(const Program& program) { return partitionAt(program, 0); }

}  // namespace nf
