// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/autodiff/differentiate.h"
#include "core/fusion/fuse.h"
#include "core/lang/compile.h"
#include "core/protocol/message.h"
#include "core/runtime/step_program.h"
#include "core/session/origin_spans.h"

// From the compiler's results to what the views draw: pure functions, values in, values out.
namespace nf {

// step: of which `train` statement of `sound`, from 0, it was compiled for. ofFiles: what checkFiles() has found wrong.
protocol::Analysis describeAnalysis(const CompiledNotebook& notebook, const CompiledNotebook& sound, const OriginSpans& spans,
                                    std::uint64_t revision, std::size_t step, double ms, const Diagnostics& ofFiles = {});

// One node an operator and one a given tensor, in program order, those outside the step behind the others; edges to every reader.
// `before` has the programs of the stage before this one, or none: nodes that they lack are marked as added.
protocol::GraphPage describeGraph(const StagePrograms& programs, const StagePrograms& before, const OriginSpans& spans,
                                  std::int64_t offset, std::int64_t limit);

// Tells the nodes of a page, of a stage after differentiation, from which equal operators of `differentiated` each of them was made.
void describeMerged(protocol::GraphPage& page, const MergedNames& merged, const Program& differentiated, const OriginSpans& spans);

// A tensor's operator. For a derivative: the operators that make it, the terms among `terms` that flow into it, and what of the operators
// before it `source`, the notebook's program, does not have.
std::optional<protocol::Expression> describeExpression(const Program& program, TensorId tensor,
                                                       const std::vector<GradientTerm>& terms, const OriginSpans& spans,
                                                       const Program& source);

// What the kernels of both ends of a decision compute, each operator once: the same whether they are fused. Names and origins do not
// count. Borrows the program; each kernel is looked at once, for all decisions.
class DecidedParts {
 public:
  explicit DecidedParts(const Program& fused) : m_fused(fused) {}
  std::string of(const FusionDecision& decision);
  // Of what makes the consumer; not valid where nothing of that name is made.
  OriginId consumerOrigin(const FusionDecision& decision);
  // The graph's node of what makes a tensor of the decision.
  const std::string& nodeOf(const FusionDecision& decision, const std::string& tensor);

 private:
  struct Kernels {
    std::unordered_multimap<std::string, std::size_t> makers;  // groups by what they make
    std::vector<std::vector<Hash>> parts;                      // by group
    std::unordered_map<std::string, OriginId> origins;         // by what is made
    std::unordered_map<std::string, std::string> nodes;        // by what is made
  };
  Kernels& kernelsOf(const Program& program);
  const Program& m_fused;
  std::unordered_map<const Program*, Kernels> m_kernels;
};
protocol::FusionDecisionInfo describe(const FusionDecision& decision, const Program& fused, const OriginSpans& spans,
                                      std::uint32_t id);

protocol::DiagnosticInfo describe(const Diagnostic& diagnostic, const SourceMap& sources, const OriginSpans& spans);

}  // namespace nf
