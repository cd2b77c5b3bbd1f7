// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/fusion/fuse.h"
#include "core/ir/program.h"
#include "core/support/hash.h"

namespace nf {

// Of a tensor that is computed again: `B#2` repeats `B`.
std::string originalName(const std::string& name);

// A kernel as one of two fusions of a program has it.
struct SiteKernel {
  std::shared_ptr<const Program> subgraph;  // without origins
  Hash hash;
  std::string name;
  std::vector<std::string> tensors;  // inputs, then outputs, as the program names them: who reads what another one has written
  std::vector<std::string> made;     // by its operators
  Hash signature;
};

// Where two fusions of one program differ: the kernels of each that together compute the same operators, in program order.
//   A: {B, C}, {D}     B: {B}, {C}, {D}     site of B: {B, C} against {B}, {C}
struct FusionSite {
  std::vector<SiteKernel> first, second;
  std::string loop;  // its body holds them, "outer/inner"; empty: the program itself
};

// The sites at which the programs (stage Fused) differ, each as small as it can be, in program order. Recomputed operators count as
// those they are copies of.
std::vector<FusionSite> differingSites(const Program& first, const Program& second);

// What fusion says of this kernel of the site where it was kept from making it; null: nothing.
const BarredKernel* barredAt(const std::vector<BarredKernel>& barred, const FusionSite& site, const SiteKernel& kernel);

// One site of everything that differs in the body or program that makes `tensor`.
FusionSite siteAround(const Program& first, const Program& second, const std::string& tensor);

// A kernel that fusion has made of several operators.
struct FusedKernel {
  Hash signature, subgraph;
  std::string name;
  std::string producer, consumer;  // tensors of the kernel, the first one that another operator of it reads
};
// Bodies of Loops included, each signature once.
std::vector<FusedKernel> fusedKernels(const Program& fused);

}  // namespace nf
