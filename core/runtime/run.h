// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "core/lang/compile.h"
#include "core/runtime/device_context.h"
#include "core/runtime/executable.h"
#include "core/runtime/host_tensor.h"
#include "core/runtime/kernel_supply.h"
#include "core/runtime/prepared.h"

namespace nf {

struct KernelTime {
  Hash subgraph;
  std::string name;
  double callsPerStep = 0, microseconds = 0;  // of one call, median of the newest
  std::int64_t flops = 0, bytes = 0;          // of one call
  std::string schedule;                       // of the kernel that was timed; empty: none
  bool quick = false;                         // as LinkedKernel's
};
// Of what the executable's profile has seen, the most expensive first.
std::vector<KernelTime> kernelTimes(const Executable& executable);

struct RunOptions {
  Source source;
  std::map<std::string, std::string> sets;
  std::optional<std::uint64_t> seed;
  std::vector<std::string>
      tensors;          // to be computed: names, `d(L)/d(W)`; "shown": what cells show; "all": every named and every shown one;
                        // "outputs": of notebookProgram(), what fusion is decided for where nothing trains
  std::string weights;  // safetensors (a checkpoint too) or npz, by name, in place of initial values
  std::map<std::string, std::string> renamed;  // parameters of `weights`: by the name there, the one here
  // The same from memory: what has no tensor of its type and shape here is passed over.
  std::map<std::string, HostTensor> values;
  bool training = false;  // value of the condition `training`
  std::size_t train = 0;  // of which `train` statement names are that only one's step has, from 0
  // Number of a `train` statement: a step of it, updates included, in place of `tensors`. Each run() is a step on the first batch.
  std::optional<std::size_t> trainStep;
  bool verify = false;
  TuningOptions tuning;
};

// One computation of a notebook: inference with initial or given weights; a batch is that of the first training step. Nothing is
// updated, but by training steps. Derivatives, what is made of them, and names that evaluation lacks are those of the training program.
class RunJob {
 public:
  RunJob(DeviceContext& context, RunOptions options);
  ~RunJob();

  // Everything up to complete kernels. `waiting(done, all)` is called now and then. False: stopped.
  Result<bool> prepare(std::stop_token stop, const std::function<void(std::size_t, std::size_t)>& waiting = {});
  // Computes the tensors. May be called again; `timed` gathers the time of every kernel, and what is done, as setRecording() says. A stop
  // ends it with stopped().
  Result<Unit> run(bool timed = false, std::stop_token stop = {});
  // Before the first timed run: as Executable's.
  void setRecording(std::int64_t most);
  // After the last timed run: what kernelTimes() knows is complete.
  ActivityRecord endTiming();
  // One run more, under the device's counters: of kernels by their subgraph.
  Result<std::map<Hash, KernelCounters>> count(std::stop_token stop = {});
  // After run(): the names that can be read, in the order asked for, each once. A name means what it does at the end of the notebook; what
  // a `show` has of it before it is given to another tensor is `A#1`, `A#2`.
  const std::vector<std::string>& names() const { return m_names; }
  Result<HostTensor> tensor(const std::string& name) const;
  // By the name that the tensor has in the notebook's Program, as descriptions of its cells do: there `A` is what the name stood for first.
  Result<HostTensor> tensorOfProgram(const std::string& name) const;

  // Whether the value is that of the training program; nullopt where the notebook has one program for both.
  std::optional<bool> ofTraining(const std::string& name) const;

  std::vector<KernelTime> kernelTimes() const;  // the most expensive first
  const CompiledNotebook& notebook() const { return m_notebook; }
  const Executable& executable() const { return *m_prepared.executable; }
  Executable& executable() { return *m_prepared.executable; }
  const std::vector<protocol::WarningEvent>& warnings() const { return m_warnings; }  // of hints and data, by prepare()
  // That the inputs hold, the first of a data set; 0: no input is read from a set, or the sets hold no rows out.
  // Of the rows that the value of tensorOfProgram(name) is computed from; 0: none.
  std::int64_t rowsBehind(const std::string& name) const;
  std::int64_t trainingRows() const { return std::max(m_trainingRows, m_training ? m_training->m_trainingRows : 0); }
  Span place() const { return m_place; }  // of the last failure

 private:
  Result<Program> wantedProgram();
  void leaveToTraining(CompileOptions compile);
  std::set<std::string> pinsOfStep() const;
  Result<bool> prepareTraining(std::vector<std::string> names, std::stop_token stop,
                               const std::function<void(std::size_t, std::size_t)>& waiting);
  DeviceContext& m_context;
  RunOptions m_options;
  CompiledNotebook m_notebook;
  std::shared_ptr<TensorStore> m_store;
  Prepared m_prepared;
  std::unique_ptr<KernelSupply> m_supply;
  std::vector<std::string> m_names, m_namesOfTraining;
  bool m_allOfTraining = false;
  std::map<std::string, std::string> m_byProgramName;  // of m_names
  std::vector<std::string> m_shown;                    // in the order of the notebook, where evaluation lacks some of it
  std::unique_ptr<RunJob> m_training;                  // computes the latter, where evaluation is another program
  std::uint64_t m_seed = 1;
  std::int64_t m_trainingRows = 0;
  std::vector<protocol::WarningEvent> m_warnings;
  Span m_place;
};

// "d(L)/d(W)" -> "d(L)_d(W).npy"
std::string dumpFileName(const std::string& tensor);
// Every name of `job` as an .npy file in `folder`, which is made.
Result<Unit> dumpTensors(const RunJob& job, const std::string& folder);

}  // namespace nf
