// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/program.h"
#include "core/runtime/host_tensor.h"
#include "core/runtime/initialize.h"
#include "core/support/result.h"

namespace nf {

// The batches of a program: its data sets in memory, and for each input of kind Batch its columns, converted once. Stateless: what a
// batch holds follows from the seed and the number of the step, so a data cursor is that number.
class DataFeed {
 public:
  // Relative paths: to DataSet::directory, else to `directory`. `place`: where what could not be loaded stands in the source.
  // A stop ends it with stopped(). The inputs that only `evaluated` reads come behind those of `program`: they have held-out rows alone.
  static Result<DataFeed> open(const Program& program, const std::string& directory, std::uint64_t seed, Span* place = nullptr,
                               std::stop_token stop = {}, const Program* evaluated = nullptr);

  struct Input {
    std::string name;
    DType type = DType::F32;
    std::int64_t rowElements = 1;
    std::size_t set = 0;
  };
  const std::vector<Input>& inputs() const { return m_inputs; }
  bool empty() const { return m_inputs.empty(); }

  std::int64_t batch() const { return m_batch; }
  // Of the set that the first input reads; without batches an epoch is one step.
  std::int64_t trainingRows() const;
  std::int64_t heldOutRows() const;  // the least of those sets that hold any out
  const StrayLabels& strayLabels() const { return m_strayLabels; }
  std::int64_t stepsPerEpoch() const;

  // Fails where a set leaves no whole batch for training; `place`: that set's statement.
  Result<Unit> trains(const Program& program, Span* place = nullptr) const;

  // Copies the rows of training step `step` (from 0) to `to`: batch * rowElements values of the input's type. Every epoch is shuffled
  // anew and its last partial batch dropped. The first held-out rows where nothing is left for training. Allocates once an epoch.
  void training(std::int64_t step, std::size_t input, std::byte* to);
  // A batch of the first training rows, in the file's order: what cells show without a training.
  void first(std::size_t input, std::byte* to) const;
  // Held-out rows [first, first + count), in the file's order.
  void heldOut(std::int64_t first, std::int64_t count, std::size_t input, std::byte* to) const;

 private:
  struct Set {
    std::string name;
    std::int64_t rows = 0, heldOut = 0;
    std::int64_t epoch = -1;
    std::vector<std::int64_t> order;  // of `epoch`
  };
  using Tables = std::map<std::string, std::pair<std::size_t, HostTensor>>;  // by data set: which one it is, all its rows
  Result<Unit> add(const Program& program, const std::string& directory, Span* place, const std::stop_token& stop, Tables& tables);
  void shuffle(Set& set, std::int64_t epoch) const;
  std::vector<Set> m_sets;
  std::size_t m_trained = 0;  // so many of them, the first ones, have rows in a step
  std::vector<Input> m_inputs;
  StrayLabels m_strayLabels;
  std::vector<std::vector<std::byte>> m_values;  // by input, all rows
  std::int64_t m_batch = 1;
  std::uint64_t m_seed = 1;
};

}  // namespace nf
