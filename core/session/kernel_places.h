// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "core/ir/structural_hash.h"
#include "core/session/origin_spans.h"

namespace nf {

// The same expression written in several places is one kernel: what a line of it came from, in each of them. Equal programs number
// their parts alike. What it is made of outlives it.
class KernelPlaces {
 public:
  KernelPlaces(const OriginSpans& spans, const Program& first, const std::vector<Subgraph>& others);
  protocol::Origins of(OriginId origin) const;
  // With the places in functions of the notebook that it was written out from.
  protocol::Origins withBodies(OriginId origin) const;
  // Where an operator and all that it computes is written, ascending.
  protocol::Origins ofAll(OperatorId op) const;

 private:
  template <class SpansOf>
  protocol::Origins everywhere(OriginId origin, const SpansOf& spansOf) const;
  const OriginSpans& m_spans;
  std::vector<const Program*> m_programs;                                       // the first one first
  std::map<OriginId, std::vector<std::pair<const Program*, OriginId>>> m_same;  // of the first, in the others
};

// The word `sum` of a reduction within an expression: what reads the sum is written there, and so is the tensor of the sum. Who lowers
// the program knows no places, only that both have one origin.
void joinReadsOfSums(Program& program, const OriginSpans& spans);

}  // namespace nf
