// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/schedule/group.h"
#include "core/schedule/knob_space.h"
#include "core/support/result.h"

// A Loop as one kernel over all its steps (loops.md, "persist"): the blocks stay, weights stay with them on the chip, and the blocks wait
// for each other where a step's values cross from one to another.
//   before: for t in 0..T { Z = U * h + ..;  h = tanh(Z) }     T x 2 launches, U read from memory at each step
//   after : one launch; a block makes some elements of Z and h at every step, from rows of U that it holds, and one barrier of the grid a
//           step stands between writing h and reading all of it. h lies in two buffers in turn.
namespace nf::loop {

// A read of a stage, through everything that is computed where it is read.
struct RecurrenceRead {
  TensorId tensor;
  std::vector<IndexExpr> indices;  // over the axes of the stage
  bool proved = false;             // in range whatever is tested around it
};

// An access to weights: it stays the same from step to step.
struct HeldAccess {
  TensorId tensor;
  int unit = -1;                   // the index that is the stage's unit axis, nothing else; -1: none
  std::vector<IndexExpr> indices;  // over the axes of the stage
};

struct RecurrenceStage {
  StagePlan operators;
  std::vector<std::int64_t> extents, reduced;  // of the output axes, and of the others
  std::vector<RecurrenceRead> reads;
};

// A value of a step that others read: in this step, or in the next one under another name.
struct RecurrenceHome {
  TensorId tensor;
  std::size_t stage = 0;     // that writes it
  TensorId before, initial;  // carried: what the next step reads it as, and the first step's value (of the subgraph)
  bool carriedRead = false;  // `before` is read
  bool read = false;         // it is, in its own step
  bool readsProved = true;   // every read of either is in range whatever is tested around it
  bool isOutput = false;     // rounded to its storage type
};

// What does not depend on a schedule. Borrows nothing.
struct RecurrenceView {
  std::shared_ptr<const Program> outer;  // the subgraph: one Loop
  std::shared_ptr<const Program> body;   // each value that leaves a step has an operator of its own that makes it
  Loop loop;                             // its inner tensors are of `body`
  GroupView group;                       // of `body`
  std::vector<RecurrenceStage> stages;
  std::vector<RecurrenceHome> homes;
  std::vector<std::size_t> homeOf;     // by tensor of `body`: of a home, of what a home was before; SIZE_MAX: none
  std::vector<std::string> axisNames;  // axes along which the first carried value can be shared out
  std::vector<int> axes;               // their positions
  std::size_t seed = 0;                // the stage they are of
};
// Fails where the loop cannot be one kernel: one sentence.
Result<RecurrenceView> viewRecurrence(const Program& subgraph);

// Which barrier stands behind a stage.
enum class Meeting : std::uint8_t { None, Block, Grid };

struct RecurrenceSlice {  // of weights, what a block reads of a tensor
  TensorId tensor;
  int unit = -1;  // axis of the tensor of which it has a share
};

// Who makes what, and who waits for whom, for one of the axes.
struct RecurrencePlan {
  // By stage: the output axis that is shared out among blocks in neighbouring parts; -1: block 0 makes all.
  std::vector<int> unit;
  std::vector<int> reuse;  // an output axis along which all its weights are the same; -1: none
  std::vector<std::vector<HeldAccess>> held;
  std::vector<RecurrenceSlice> slices;  // of all stages, each once
  std::vector<bool> crosses;            // by home: blocks read what other blocks wrote
  std::vector<Meeting> behind;          // by stage
  Meeting first = Meeting::None;        // before the first step
};
RecurrencePlan planRecurrence(const RecurrenceView& view, std::size_t axis, bool oneBlock);

enum class Hold : std::uint8_t { None, Shared, Registers };

struct RecurrenceKnobs {
  int blocks = 1, threads = 128;
  int lanes = 1;  // threads that share a sum
  int rows = 1;   // neighbouring results along an axis of equal weights that a thread makes together
  Hold hold = Hold::None;
  std::int64_t sharedBytes = 48 << 10;  // no knob: what the target gives a block (sharedBytesOfBlock)
};

// Elements of an axis of this extent that a block makes.
std::int64_t shareOf(std::int64_t extent, int blocks);
// Neighbours along the axis of equal weights: the largest power of two up to the knob that divides it.
std::int64_t rowsOf(const RecurrencePlan& plan, const RecurrenceStage& stage, std::size_t number, const RecurrenceKnobs& knobs);
// Results of the stage in a block, the others along the axis of equal weights left out.
std::int64_t placesOf(const RecurrencePlan& plan, const RecurrenceStage& stage, std::size_t number, const RecurrenceKnobs& knobs);
// Bytes of the share, as it is laid in the memory of a block.
std::int64_t sharedBytes(const RecurrenceView& view, const RecurrenceSlice& slice, const RecurrenceKnobs& knobs);
// Values that stay within a block lie in its shared memory, as many as fit beside what it holds: by home.
std::vector<bool> homesInShared(const RecurrenceView& view, const RecurrencePlan& plan, const RecurrenceKnobs& knobs);

Function lowerRecurrence(const RecurrenceView& view, const RecurrencePlan& plan, const RecurrenceKnobs& knobs);

// The space of template `recurrence` for a subgraph that is one Loop. Fails in one sentence.
Result<std::unique_ptr<KnobSpace>> recurrenceSpace(const Program& subgraph, const Target& target);

}  // namespace nf::loop
