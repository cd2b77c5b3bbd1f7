// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/runtime/data_file.h"
#include "core/runtime/kernel_swaps.h"

namespace nf {

class TensorStore;

// All that a training run goes on from: weights, optimiser and state tensors; the step, which is data cursor and random counter too;
// the kernels in use and how they came to be. One safetensors file, whose metadata hold the rest as JSON, so that other programs
// read the weights as they are.
struct Checkpoint {
  std::int64_t step = 0;  // steps done
  std::uint64_t seed = 1;
  std::string program;                          // structural hash of the training program, hex: another one is refused
  std::string optimizer;                        // as written in the notebook; empty in older files
  std::string device, mode;                     // "cpu", "static"; empty in older files
  NamedTensors tensors;                         // by name
  std::map<std::string, std::string> declared;  // declarationOf() of those that the notebook declares; none in older files
  std::map<std::string, std::string> places;    // parameterPlaces() in the loss; none in older files
  std::vector<KernelSwap> swaps;
};

// Seconds of training from the checkpoint written at `trained` seconds (0: none yet) to the next one: as long again as was trained, at
// least 1 and at most `period`, so that a young run loses little when it is killed; and never less than 50 times `cost`, the seconds
// that one takes. A cost that was only estimated, with none written, delays the first one to `period` at most.
double checkpointDistance(double trained, double cost, double period);

Result<Unit> writeCheckpoint(const std::string& path, const Checkpoint& checkpoint);
Result<Checkpoint> readCheckpoint(const std::string& path);
// By name, of a safetensors or npz file; a checkpoint's are checked as readCheckpoint() does.
Result<NamedTensors> readWeights(const std::string& path);
// What was renamed stands at its place in the loss (parameterPlaces()): by the name then, the one now.
std::map<std::string, std::string> renamedParameters(const std::map<std::string, std::string>& thenPlaces,
                                                     const std::map<std::string, std::string>& nowPlaces);
// The optimizer's states of a parameter go by its name: `Wt`, `Wt.adam.m` of `W`, `W.adam.m`.
void renameTensors(NamedTensors& tensors, const std::map<std::string, std::string>& renamed);
// Into the tensors of these names; others are left out. `from`: for errors. An error: another shape, or not one of the parameters and
// states that are there. Returns the names that were written.
Result<std::vector<std::string>> writeWeights(TensorStore& store, const NamedTensors& tensors, const std::string& from);

}  // namespace nf
