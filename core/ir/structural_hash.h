// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "core/ir/program.h"

namespace nf {

// Equal for operators that compute the same thing on tensors of the same shapes and types: names, origins and ids do not
// count; which operand positions name the same tensor does.
Hash structuralHash(const Program& program, OperatorId op);
Hash structuralHash(const Program& program, const std::vector<OperatorId>& group);
Hash structuralHash(const Program& program);

// A group of operators as a program of their own: tensors read from outside become inputs, tensors that are read outside,
// updated, output or asked for by a derivative become its outputs (in order of operators); pools are canonical. Two groups
// with equal hashes give programs that differ in nothing but origins and names.
struct Subgraph {
  Program program;                                  // its origins are those of the whole program
  std::vector<TensorId> inputs, outputs;            // of `program`, in binding order
  std::vector<TensorId> outerInputs, outerOutputs;  // the whole program's tensors they stand for
  Hash hash;
};

// Finds the readers of every tensor once; extracts any number of groups. Borrows the program. A single operator's hash is
// structuralHash(program, op), which looks at nothing else.
class SubgraphExtractor {
 public:
  explicit SubgraphExtractor(const Program& program);
  Subgraph extract(const std::vector<OperatorId>& group, bool withOrigins = true) const;

 private:
  friend Hash structuralHash(const Program& program, OperatorId op);
  struct Alone {};
  SubgraphExtractor(const Program& program, Alone) : m_program(program) {}
  bool leaves(TensorId tensor, const std::vector<OperatorId>& group) const;
  const Program& m_program;
  std::vector<std::vector<OperatorId>> m_readers;
  std::vector<bool> m_kept;  // by tensor: something besides operators needs it
};

Subgraph extractSubgraph(const Program& program, const std::vector<OperatorId>& group);

// A group that is one kernel, of the program or, where a loop runs kernel by kernel, of a loop's body.
struct KernelSite {
  const Program& program;
  const Group& group;
  const SubgraphExtractor& extractor;  // of `program`
  std::int64_t calls = 1;              // a step: the trips of the loops around it
  OperatorId loop;                     // the outermost loop around it, an operator of the whole program; invalid: none
  std::vector<std::string> counters;   // of the loops around it, outermost first
};
void forEachKernel(const Program& program, const std::function<void(const KernelSite&)>& visit);

}  // namespace nf
