// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "core/support/hash.h"
#include "core/support/result.h"

// A Program as the executor runs it: groups in an order that respects their edges, unique subgraphs, loops as nested sequences,
// and an offset in one arena for everything that is written in a step. Plain data; nothing here knows a device.
namespace nf {

struct PlannedSubgraph {
  Hash hash;
  std::shared_ptr<const Program> program;  // without origins: equal groups share it
  std::string name;                        // of the first group that has it
  double callsPerStep = 0;
};

struct PlannedLaunch {
  std::uint32_t subgraph = 0;
  std::vector<TensorId> tensors;  // of the sequence's program: the subgraph's inputs, then its outputs
  std::size_t inputs = 0;         // how many of them are inputs
  std::vector<OperatorId> operators;
};

struct PlannedSequence;

// Where a tensor that the body writes lives in step n of its loop (memory: design, loops).
struct PlannedHome {
  TensorId inner;
  enum class Kind : std::uint8_t { Slice, PingPong } kind = Kind::Slice;
  std::uint32_t index = 0;  // Slice: of Loop::stacked; PingPong: of Loop::carried
};

struct PlannedLoop {
  Loop loop;  // without its body
  std::unique_ptr<PlannedSequence> body;
  std::int64_t bodyOffset = 0;                       // of the body's arena in the enclosing one
  std::vector<std::array<std::int64_t, 2>> carried;  // two buffers each, in the enclosing arena
  std::vector<bool> carriedHome;                     // innerOut is written where the next step reads it
  std::vector<bool> stackedHome;                     // inner is written into the slice
  std::vector<std::int64_t> accumulated;             // the second accumulator, in the enclosing arena
  std::vector<std::uint32_t> accumulate;             // the subgraph that adds, by Loop::accumulated
  std::vector<PlannedHome> homes;
};

struct PlannedStep {
  bool isLoop = false;
  std::uint32_t index = 0;  // of launches or loops
};

struct PlannedSequence {
  std::shared_ptr<const Program> program;
  std::vector<PlannedStep> steps;
  std::vector<PlannedLaunch> launches;
  std::vector<PlannedLoop> loops;
  std::vector<std::int64_t> offsets;  // by tensor, in this sequence's arena; -1: not there
  std::int64_t arenaBytes = 0;
  std::int64_t base = 0;        // of this arena in the main one
  std::uint32_t firstSlot = 0;  // tensors are numbered through all sequences
};

// Applied when all launches have ended. Every target has two buffers that change places; Direct: the value is written into the second
// one by its operator, else it is copied there first.
struct PlannedUpdate {
  TensorId target, value;
  bool direct = false;
};

struct ExecutionPlan {
  PlannedSequence main;
  std::vector<PlannedSubgraph> subgraphs;
  std::vector<PlannedUpdate> updates;
  std::vector<bool> persistent;  // by tensor of the main program: input, param, const, state that something reads or updates
  std::uint32_t slots = 0;
  std::int64_t launchesPerStep = 0;
  // Blocks of the arena of the main sequence, for tests and views: what is live when.
  struct Block {
    std::string name;
    std::int64_t offset = 0, bytes = 0;
    std::uint32_t first = 0, last = 0;
  };
  std::vector<Block> blocks;
  // Whether something that a later launch of the step makes lies where this tensor of the main program lay.
  bool overwrites(TensorId tensor) const;
};

struct PlanOptions {
  std::vector<TensorId> keep;  // readable after the step, besides the program's outputs
  bool updates = true;         // false: evaluation and inference change nothing
  bool doubles = false;        // every element takes 8 bytes (the reference device)
};

// A program without `groups` gets one an operator. Operators that nothing wanted depends on are left out.
// Fails on a pending Derivative, and on an arena that overflows 64 bits.
Result<std::shared_ptr<const ExecutionPlan>> planExecution(const Program& program, const PlanOptions& options = {});

// The program with those of its outputs that name `outputs`, and with only what they and, where `updates`, its updates need.
// Tensors are renumbered.
Program restrictedTo(const Program& program, const std::vector<TensorId>& outputs, bool updates);

}  // namespace nf
