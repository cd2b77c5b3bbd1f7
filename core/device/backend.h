// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device/launch_graph.h"
#include "core/ir/program.h"
#include "core/schedule/schedule.h"
#include "core/support/result.h"

// The boundary to machines. A compiler runs in worker processes only and yields relocatable code; a device lives in the
// engine (and in the measuring worker) and links, allocates, launches. (design: architecture, "Three kinds of process")
namespace nf {

// A part of memory as a GPU's copy engine takes it, a parameter of its kernel: axes innermost first, the first one's elements neighbours.
struct KernelTensorMap {
  std::int64_t operand = -1;  // in binding order; -1: the workspace
  std::int64_t offset = 0;    // bytes, to where it begins
  DType type = DType::F16;
  bool rounded = false;  // f32: to tf32 on the way
  struct Axis {
    std::int64_t extent = 1, stride = 0, box = 1;  // points; bytes; points of what one copy moves
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  std::vector<Axis> axes;
  friend bool operator==(const KernelTensorMap&, const KernelTensorMap&) = default;
};

// A stage is a set of independent tasks; stages of a kernel run one after the other.
struct KernelStage {
  std::string symbol;
  std::int64_t tasks = 1;        // a GPU's: blocks of the grid
  std::int64_t threads = 1;      // of a block
  std::int64_t sharedBytes = 0;  // of a block, which the launch gives it; what the code itself declares is not among them
  bool cooperative = false;      // its blocks wait for each other: all of them must be resident at once
  std::vector<KernelTensorMap> maps;
  bool random = true;  // it may draw random numbers, by LaunchArgs::seed and step; false: it draws none
};

struct KernelText {
  std::string text;
  std::vector<std::vector<OriginId>> lineOrigins;  // by line, of the subgraph's program; empty: no mapping
};

// Quick: code sooner, some percent slower, with the same results bit by bit. A back end may know one kind only.
enum class CompileEffort : std::uint8_t { Full, Quick };

struct KernelObject {
  std::string backend;
  std::string generator;  // that made it, where the back end has several: "llvm", "nvrtc"
  Hash subgraph;
  Schedule schedule;
  CompileEffort effort = CompileEffort::Full;
  std::vector<std::byte> code;  // CPU: relocatable object; CUDA: cubin, or PTX and a zero
  std::vector<KernelStage> stages;
  std::int64_t workspaceBytes = 0;
  std::int64_t flops = 0;
  std::vector<std::string> checks;          // what a launch reports where a data-dependent index is out of range
  std::map<std::string, KernelText> texts;  // "loops", "llvm", "asm", "cuda", "ptx"; only those that were asked for
};

struct CompileRequest {
  Program subgraph;
  Schedule schedule;
  std::vector<std::string> texts;
  CompileEffort effort = CompileEffort::Full;
};

// One launch. tensors: inputs, then outputs, in Subgraph order; device pointers, aligned to their element: a loop passes slices.
struct LaunchArgs {
  std::span<void* const> tensors;
  void* workspace = nullptr;               // KernelObject::workspaceBytes, aligned to 64 bytes
  std::span<const std::int64_t> counters;  // of enclosing loops, outermost first
  std::uint64_t seed = 0, step = 0;        // of Random
  // Set by another thread: a launch that takes long ends early, with stopped(); what it wrote is worth nothing. Null: never.
  const std::atomic<bool>* stop = nullptr;
};

class Profiler;

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual Result<Unit> launch(const LaunchArgs& args) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;         // "cpu", "cuda:0"
  virtual std::string description() const = 0;  // "AMD EPYC 9R14, 2 threads, AVX-512"
  virtual const Target& target() const = 0;
  virtual Result<void*> allocate(std::int64_t bytes) = 0;
  virtual void release(void* memory) = 0;
  virtual Result<Unit> copyIn(void* to, const void* from, std::int64_t bytes) = 0;
  virtual Result<Unit> copyOut(void* to, const void* from, std::int64_t bytes) = 0;
  // Within the device; by default through host memory.
  virtual Result<Unit> copy(void* to, const void* from, std::int64_t bytes) {
    std::vector<std::byte> host(static_cast<std::size_t>(bytes));
    auto out = copyOut(host.data(), from, bytes);
    return out ? copyIn(to, host.data(), bytes) : out;
  }
  // Every element of every type is kept as an f64: the reference device.
  virtual bool storesDoubles() const { return false; }
  virtual Result<std::unique_ptr<Kernel>> link(const KernelObject& object) = 0;
  virtual Result<Unit> synchronize() = 0;
  // Null: it has none, and every step is launched kernel by kernel.
  virtual LaunchRecorder* recorder() { return nullptr; }
  // Whether it can be lost while this process lives, and all that stands in its memory with it.
  virtual bool mayBeLost() const { return false; }
  // Why no call on it can succeed any more, in this process; nullopt: it is well.
  virtual std::optional<Error> lost() const { return std::nullopt; }
  // Null: it keeps no account of its own, and a launch has ended when it returns or after synchronize().
  virtual Profiler* profiler() { return nullptr; }
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  virtual Result<KernelObject> compile(const CompileRequest& request) = 0;
};

// What a plugin offers. A plugin that cannot serve this machine says why in one sentence.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::string unavailable() const { return {}; }  // empty: it can serve
  virtual std::vector<std::string> deviceNames() = 0;     // of those that are there; target() says of each whether it can be used
  virtual Result<std::unique_ptr<Device>> open(const std::string& device, int threads) = 0;
  // Cheap: reads the measured constants' cache. A back end may know targets that are no device here: "cuda:sm_90".
  virtual Result<Target> target(const std::string& device, int threads) = 0;
  virtual Result<std::unique_ptr<Compiler>> compiler(const Target& target) = 0;
  // The constants once more, left where target() reads them. A job that runs on the device disturbs them.
  virtual Result<Target> measureAgain(const std::string& device, int threads) { return target(device, threads); }
  // A measured constant: the interval holds the true value with 95 %, as far as the samples of one measurement can tell.
  struct Estimate {
    double value = 0, low = 0, high = 0;
    std::int64_t samples = 0;  // 0: no interval is known
  };
  // For people.
  struct About {
    std::string description;                                    // "Intel(R) Xeon(R), 2 threads, AVX-512"
    double measuredAt = 0;                                      // of the constants, seconds since 1970; 0: unknown
    Estimate bandwidth, flopRate, launchSeconds;                // of the whole device, per second; value 0: not measured
    Estimate l2Bandwidth;                                       // bytes per second, whole device; value 0: not measured
    std::int64_t l2Bytes = 0;                                   // of the whole device; 0: unknown
    std::vector<std::pair<std::string, std::string>> versions;  // {"LLVM", "19.1.7"}, driver, code generator
  };
  virtual About about(const std::string&, int) { return {}; }
};

inline constexpr std::uint32_t kPluginVersion = 2;
// A plugin's one entry point:  extern "C" nf::Backend* neoflowPlugin(uint32_t version)  (null: another version).
using PluginEntry = Backend* (*)(std::uint32_t);

// The back ends of this process, found once: linked-in ones and shared objects beside the executable.
class BackendRegistry {
 public:
  void add(std::string name, PluginEntry entry);
  void load(const std::string& directory);  // every neoflow-plugin-*.so there
  struct Entry {
    std::string name;
    std::string reason;  // why it is not there; empty: it serves
    Backend* backend = nullptr;
  };
  const std::vector<Entry>& entries() const { return m_entries; }
  Backend* find(std::string_view name) const;
  // For its compiler alone: also one that finds no device of its kind here.
  Backend* generator(std::string_view name) const;

 private:
  std::vector<Entry> m_entries;
};

}  // namespace nf
