// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "plugins/cuda/compiler.h"
#include "plugins/cuda/driver.h"
#include "plugins/cuda/graph.h"
#include "plugins/cuda/kernel_call.h"
#include "plugins/cuda/loss.h"
#include "plugins/cuda/nvptx/generate.h"
#include "plugins/cuda/nvrtc.h"
#include "plugins/cuda/profiler.h"
#include "plugins/cuda/tensor_map.h"
#include "plugins/cuda/toolkit.h"

namespace nf::cuda {
namespace {

constexpr double kLaunchSeconds = 3e-6;
constexpr std::size_t kStagingBytes = 4u << 20;
constexpr std::size_t kReadBytes = 4096;          // that one wait brings to the host, with the status word
constexpr std::int64_t kKeptBytes = 512ll << 20;  // of released memory, for the next who asks

CUdeviceptr address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

// Fused additions and multiplications a cycle of one multiprocessor in f32, as NVIDIA's programming guide lists them.
int fusedPerCycle(int major, int minor) {
  if (major == 7 || (major == 8 && minor == 0)) return 64;
  return 128;
}

// One device's context, stream and small buffers. One thread at a time works on it.
class Context {
 public:
  static Result<std::shared_ptr<Context>> open(int number) {
    NF_TRY(const Driver* const driver, Driver::get());
    auto self = std::shared_ptr<Context>(new Context(*driver, number));
    const Driver& d = *driver;
    NF_TRY([[maybe_unused]] const Unit got,
           self->check("open device", "the device can't be opened", d.deviceGet(&self->m_device, number)));
    NF_TRY([[maybe_unused]] const Unit retained,
           self->check("open device", "the device gives no context", d.contextRetain(&self->m_context, self->m_device)));
    NF_TRY([[maybe_unused]] const Unit bound, self->bind());
    NF_TRY([[maybe_unused]] const Unit streamed,
           self->check("open device", "the device gives no stream", d.streamCreate(&self->stream, CU_STREAM_NON_BLOCKING)));
    NF_TRY([[maybe_unused]] const Unit small,
           self->check("open device", "the device has no memory left", d.allocate(&self->m_small, kSmallBytes)));
    NF_TRY([[maybe_unused]] const Unit host,
           self->check("open device", "the machine has no page-locked memory left",
                       d.allocateHost(&self->m_host, kSmallBytes + kReadBytes + kStagingBytes * self->m_slots.size())));
    for (Slot& s : self->m_slots) {
      NF_TRY([[maybe_unused]] const Unit event,
             self->check("open device", "the device gives no event", d.eventCreate(&s.event, CU_EVENT_DISABLE_TIMING)));
    }
    NF_TRY([[maybe_unused]] const Unit zeroed,
           self->check("open device", "the device's memory can't be written", d.fill(self->m_small, 0, kSmallBytes, self->stream)));
    return self;
  }

  ~Context() {
    if (!m_context) return;
    driver.contextSet(m_context);
    // After a failure the driver refuses these as well; the process is about to let go of everything.
    if (stream) driver.streamSynchronize(stream);
    for (auto& [bytes, memory] : m_kept)
      for (const CUdeviceptr p : memory) driver.release(p);
    for (Slot& s : m_slots)
      if (s.event) driver.eventDestroy(s.event);
    if (m_host) driver.releaseHost(m_host);
    if (m_small) driver.release(m_small);
    if (stream) driver.streamDestroy(stream);
    driver.contextRelease(m_device);
  }

  // Makes the context this thread's.
  Result<Unit> bind() {
    if (!m_lost.message.empty()) return m_lost;
    return check("open device", "the device's context can't be used", driver.contextSet(m_context));
  }

  Result<Unit> check(const char* stage, const char* what, CUresult code) {
    if (code == CUDA_SUCCESS) return Unit{};
    Error error = driver.failure(stage, std::string(what) + " on " + name() + ".", code, name());
    if (!recoverable(code) && m_lost.message.empty()) {
      m_lost = error;
      m_lost.message = "The device " + name() + " is lost: " + error.message;
      rememberLoss(m_number, m_lost);
    }
    return error;
  }

  std::optional<Error> lost() const { return m_lost.message.empty() ? std::nullopt : std::optional(m_lost); }

  std::string name() const { return "cuda:" + std::to_string(m_number); }
  CUcontext handle() const { return m_context; }
  int number() const { return m_number; }
  std::span<const std::byte> launched;  // the cubin of the kernel that was launched last; empty: the driver made it of PTX

  // ------------------------------------------------------------ memory
  Result<void*> allocate(std::int64_t bytes) {
    NF_TRY([[maybe_unused]] const Unit outside, outsideGraph("memory"));
    if (bytes < 0) return Error{"allocate", "a negative size was asked for", name(), {}};
    const std::int64_t rounded = std::max<std::int64_t>((bytes + 511) / 512 * 512, 512);
    NF_TRY([[maybe_unused]] const Unit bound, bind());
    const auto kept = m_kept.find(rounded);
    CUdeviceptr memory = 0;
    if (kept != m_kept.end() && !kept->second.empty()) {
      memory = kept->second.back();
      kept->second.pop_back();
      m_keptBytes -= rounded;
    } else {
      CUresult code = driver.allocate(&memory, static_cast<std::size_t>(rounded));
      if (code == CUDA_ERROR_OUT_OF_MEMORY && m_keptBytes > 0) {
        forgetKept();
        code = driver.allocate(&memory, static_cast<std::size_t>(rounded));
      }
      if (code == CUDA_ERROR_OUT_OF_MEMORY)
        return driver.failure("allocate", "There is no memory for " + std::to_string(bytes) + " bytes on " + name() + ".", code,
                              name());
      NF_TRY([[maybe_unused]] const Unit got, check("allocate", "memory can't be allocated", code));
    }
    m_sizes[memory] = rounded;
    return reinterpret_cast<void*>(memory);
  }

  // Work that was queued before may still use it: only work queued later gets it again.
  void release(void* memory) {
    const auto found = m_sizes.find(address(memory));
    if (found == m_sizes.end()) return;
    m_kept[found->second].push_back(found->first);
    m_keptBytes += found->second;
    m_sizes.erase(found);
    if (m_keptBytes > kKeptBytes && bind()) forgetKept();
  }

  Result<Unit> copyIn(void* to, const void* from, std::int64_t bytes) {
    NF_TRY([[maybe_unused]] const Unit outside, outsideGraph("a copy from the host"));
    NF_TRY([[maybe_unused]] const Unit bound, bind());
    const auto size = static_cast<std::size_t>(bytes);
    if (size == 0) return Unit{};
    if (size > kStagingBytes) {
      NF_TRY([[maybe_unused]] const Unit copied,
             check("copy", "a copy to the device failed", driver.copyIn(address(to), from, size, stream)));
      return check("copy", "a copy to the device failed", driver.streamSynchronize(stream));
    }
    // Through page-locked memory, so that the caller's is free again at once and nobody waits for the stream.
    Slot& slot = m_slots[m_next];
    void* staging = static_cast<std::byte*>(m_host) + kSmallBytes + kReadBytes + kStagingBytes * m_next;
    m_next = (m_next + 1) % m_slots.size();
    if (slot.used) {
      NF_TRY([[maybe_unused]] const Unit waited, check("copy", "a copy to the device failed", driver.eventSynchronize(slot.event)));
    }
    std::memcpy(staging, from, size);
    NF_TRY([[maybe_unused]] const Unit copied,
           check("copy", "a copy to the device failed", driver.copyIn(address(to), staging, size, stream)));
    slot.used = true;
    return check("copy", "a copy to the device failed", driver.eventRecord(slot.event, stream));
  }

  Result<Unit> copyOut(void* to, const void* from, std::int64_t bytes) {
    NF_TRY([[maybe_unused]] const Unit outside, outsideGraph("a copy to the host"));
    NF_TRY([[maybe_unused]] const Unit bound, bind());
    const auto size = static_cast<std::size_t>(bytes);
    // To memory that is not page-locked the driver copies at once, waiting by itself: a step's loss would be waited for twice.
    const bool small = size <= kReadBytes;
    void* const into = small ? static_cast<std::byte*>(m_host) + kSmallBytes : to;
    if (size > 0) {
      NF_TRY([[maybe_unused]] const Unit copied,
             check("copy", "a copy from the device failed", driver.copyOut(into, address(from), size, stream)));
    }
    NF_TRY([[maybe_unused]] const Unit ended, synchronize());
    if (small && size > 0) std::memcpy(to, into, size);
    return Unit{};
  }

  Result<Unit> copy(void* to, const void* from, std::int64_t bytes) {
    NF_TRY([[maybe_unused]] const Unit bound, bind());
    if (bytes == 0) return Unit{};
    if (m_recorded) {
      m_recorded->push_back(GraphNode::copy(address(to), address(from), static_cast<std::size_t>(bytes)));
      return Unit{};
    }
    return check("copy", "a copy within the device failed",
                 driver.copy(address(to), address(from), static_cast<std::size_t>(bytes), stream));
  }

  // ------------------------------------------------------------ launches
  // On the stream, or into what is recorded.
  Result<Unit> launch(CUfunction function, const LaunchShape& shape, LaunchParameters& parameters) {
    if (m_recorded) {
      m_recorded->push_back(GraphNode::launch(function, shape, parameters));
      return Unit{};
    }
    const CUresult code = shape.cooperative ? driver.launchTogether(function, shape.blocks, 1, 1, shape.threads, 1, 1,
                                                                    shape.sharedBytes, stream, parameters.data())
                                            : driver.launch(function, shape.blocks, 1, 1, shape.threads, 1, 1, shape.sharedBytes,
                                                            stream, parameters.data(), nullptr);
    return check("run", "a kernel can't be launched", code);
  }

  // seed and step of random numbers, in device memory: a kernel's parameters do not change from step to step.
  Result<Unit> setRandom(std::uint64_t seed, std::uint64_t step) {
    if (m_recorded) {  // a graph is given its own at every replay
      m_recordsRandom = true;
      return Unit{};
    }
    if (m_randomSet && m_random[0] == seed && m_random[1] == step) return Unit{};
    m_random = {seed, step};
    m_randomSet = true;
    return copyIn(reinterpret_cast<void*>(random()), m_random.data(), sizeof m_random);
  }
  CUdeviceptr random() const { return m_small; }
  CUdeviceptr status() const { return m_small + 2 * sizeof(std::uint64_t); }

  // A number for the checks of a linked kernel, which a launch reports with.
  std::uint32_t addChecks(std::vector<std::string> checks) {
    m_checks.push_back(std::move(checks));
    return static_cast<std::uint32_t>(m_checks.size() - 1);
  }

  // ------------------------------------------------------------ graphs
  Result<Unit> beginRecording() {
    NF_TRY([[maybe_unused]] const Unit bound, bind());
    m_recorded.emplace();
    m_recordsRandom = false;
    return Unit{};
  }
  bool recordsRandom() const { return m_recordsRandom; }  // what was recorded last draws random numbers
  std::vector<GraphNode> endRecording() {
    std::vector<GraphNode> nodes;
    if (m_recorded) nodes.swap(*m_recorded);
    m_recorded.reset();
    return nodes;
  }
  std::unique_ptr<Graph> makeGraph() const { return std::make_unique<Graph>(driver, m_context, stream); }

  Result<Unit> synchronize() {
    NF_TRY([[maybe_unused]] const Unit outside, outsideGraph("a wait"));
    NF_TRY([[maybe_unused]] const Unit bound, bind());
    auto* const status = static_cast<std::uint64_t*>(m_host);
    if (m_checks.size() > 1) {
      NF_TRY([[maybe_unused]] const Unit copied,
             check("run", "a kernel failed", driver.copyOut(status, this->status(), 2 * sizeof *status, stream)));
    }
    NF_TRY([[maybe_unused]] const Unit waited, check("run", "a kernel failed", driver.streamSynchronize(stream)));
    if (m_checks.size() <= 1 || status[0] == 0) return Unit{};
    const std::size_t kernel = status[0] >> 32, number = (status[0] & 0xffffffffu) - 1;
    const std::string met = std::to_string(static_cast<std::int64_t>(status[1]));
    NF_TRY([[maybe_unused]] const Unit cleared,
           check("run", "a kernel failed", driver.fill(this->status(), 0, 2 * sizeof *status, stream)));
    const bool known = kernel < m_checks.size() && number < m_checks[kernel].size();
    return Error{"run", (known ? m_checks[kernel][number] : "an index is out of range") + ": it is " + met, name(), {}};
  }

  const Driver& driver;
  CUstream stream = nullptr;

 private:
  Context(const Driver& d, int number) : driver(d), m_number(number) {
    if (const auto loss = lossOf(number)) m_lost = *loss;
  }

  Result<Unit> outsideGraph(const char* what) const {
    if (!m_recorded) return Unit{};
    return Error{"record", std::string(what) + " can't be part of a graph", name(), {}};
  }

  void forgetKept() {
    driver.streamSynchronize(stream);
    for (auto& [bytes, memory] : m_kept)
      for (const CUdeviceptr p : memory) driver.release(p);
    m_kept.clear();
    m_keptBytes = 0;
  }

  static constexpr std::size_t kSmallBytes = 64;
  struct Slot {
    CUevent event = nullptr;
    bool used = false;
  };
  int m_number;
  CUdevice m_device = 0;
  CUcontext m_context = nullptr;
  CUdeviceptr m_small = 0;
  void* m_host = nullptr;
  std::array<Slot, 4> m_slots;
  std::size_t m_next = 0;
  std::map<std::int64_t, std::vector<CUdeviceptr>> m_kept;  // released memory by size
  std::int64_t m_keptBytes = 0;
  std::map<CUdeviceptr, std::int64_t> m_sizes;
  std::array<std::uint64_t, 2> m_random{};
  bool m_randomSet = false;
  std::vector<std::vector<std::string>> m_checks{{}};  // number 0: of kernels without any
  std::optional<std::vector<GraphNode>> m_recorded;    // while a graph is recorded
  bool m_recordsRandom = false;
  Error m_lost;
};

class CudaKernel final : public Kernel {
 public:
  CudaKernel(std::shared_ptr<Context> context, const KernelObject& object)
      : m_context(std::move(context)), m_stages(object.stages),
        m_random(std::any_of(m_stages.begin(), m_stages.end(), [](const KernelStage& s) { return s.random; })),
        m_number(object.checks.empty() ? 0 : m_context->addChecks(object.checks)) {
    for (const KernelStage& s : m_stages)
      for (const KernelTensorMap& m : s.maps) m_maps.push_back({m, 0, {}});
  }

  ~CudaKernel() override {
    if (m_context->launched.data() == m_cubin.data()) m_context->launched = {};
    if (m_module && m_context->bind()) {
      // Launches of it may still be queued.
      m_context->driver.streamSynchronize(m_context->stream);
      m_context->driver.moduleUnload(m_module);
    }
  }

  Result<Unit> load(const std::vector<std::byte>& code) {
    NF_TRY([[maybe_unused]] const Unit bound, m_context->bind());
    const Driver& d = m_context->driver;
    if (code.size() > 4 && std::memcmp(code.data(), "\177ELF", 4) == 0) m_cubin = code;
    NF_TRY([[maybe_unused]] const Unit loaded,
           m_context->check("link", "the driver does not load a kernel", d.moduleLoad(&m_module, code.data())));
    for (const KernelStage& s : m_stages) {
      CUfunction function = nullptr;
      NF_TRY([[maybe_unused]] const Unit found,
             m_context->check("link", "a kernel lacks one of its stages", d.moduleFunction(&function, m_module, s.symbol.c_str())));
      if (s.sharedBytes > 0) {
        NF_TRY([[maybe_unused]] const Unit given,
               m_context->check(
                   "link", "a block cannot have the shared memory that a kernel needs",
                   d.functionSet(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(s.sharedBytes))));
      }
      m_functions.push_back(function);
    }
    return Unit{};
  }

  Result<Unit> launch(const LaunchArgs& args) override {
    NF_TRY([[maybe_unused]] const Unit bound, m_context->bind());
    if (args.counters.size() > kMostCounters)
      return Error{"run", "Loops are nested deeper than " + std::to_string(kMostCounters) + ".", m_context->name(), {}};
    if (m_random) { NF_TRY([[maybe_unused]] const Unit set, m_context->setRandom(args.seed, args.step)); }
    m_context->launched = m_cubin;
    Counters counters;
    std::copy(args.counters.begin(), args.counters.end(), counters.of);
    CUdeviceptr random = m_context->random(), status = m_context->status();
    void* workspace = args.workspace;
    m_parameters.clear();
    for (void* const& tensor : args.tensors) m_parameters.add(tensor);
    m_parameters.add(workspace);
    m_parameters.add(counters);
    m_parameters.add(random);
    m_parameters.add(status);
    m_parameters.add(m_number);
    NF_TRY([[maybe_unused]] const Unit mapped, mapMemory(args));
    auto map = m_maps.begin();
    const std::size_t common = m_parameters.size();
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
      LaunchShape shape;
      shape.blocks = static_cast<unsigned>(m_stages[s].tasks);
      shape.threads = static_cast<unsigned>(m_stages[s].threads);
      shape.sharedBytes = static_cast<unsigned>(m_stages[s].sharedBytes);
      // The driver refuses a grid of which not every block can be resident.
      shape.cooperative = m_stages[s].cooperative;
      m_parameters.keep(common);
      for (std::size_t m = 0; m < m_stages[s].maps.size(); ++m, ++map) m_parameters.add(map->encoded);
      NF_TRY([[maybe_unused]] const Unit launched, m_context->launch(m_functions[s], shape, m_parameters));
    }
    return Unit{};
  }

 private:
  // A map as a parameter, of the memory that it was last made for.
  struct Mapped {
    KernelTensorMap map;
    CUdeviceptr memory = 0;
    CUtensorMap encoded;
  };

  Result<Unit> mapMemory(const LaunchArgs& args) {
    for (Mapped& m : m_maps) {
      const CUdeviceptr memory =
          address(m.map.operand < 0 ? args.workspace : args.tensors[static_cast<std::size_t>(m.map.operand)]);
      if (memory == m.memory) continue;
      NF_TRY([[maybe_unused]] const Unit encoded, m_context->check("run", "an operand can't be mapped for the copy engine",
                                                                   encode(m_context->driver, m.map, memory, m.encoded)));
      m.memory = memory;
    }
    return Unit{};
  }

  std::shared_ptr<Context> m_context;
  std::vector<KernelStage> m_stages;
  bool m_random;
  std::vector<Mapped> m_maps;  // of all stages, in order
  std::uint32_t m_number;
  std::vector<std::byte> m_cubin;
  CUmodule m_module = nullptr;
  std::vector<CUfunction> m_functions;
  LaunchParameters m_parameters;
};

class CudaLaunchGraph final : public LaunchGraph {
 public:
  CudaLaunchGraph(std::shared_ptr<Context> context, std::int64_t& replayed)
      : m_context(std::move(context)), m_graph(m_context->makeGraph()), m_replayed(replayed) {}
  ~CudaLaunchGraph() override { static_cast<void>(m_context->bind()); }  // a lost device's driver refuses what the graph asks then

  Graph& graph() { return *m_graph; }
  void setRandom(bool random) { m_random = random; }

  Result<Unit> replay(std::uint64_t seed, std::uint64_t step) override {
    NF_TRY([[maybe_unused]] const Unit bound, m_context->bind());
    if (m_graph->size() == 0) return Unit{};
    // A copy before each step would be the longest part of a short one's overhead.
    if (m_random) { NF_TRY([[maybe_unused]] const Unit set, m_context->setRandom(seed, step)); }
    ++m_replayed;
    return m_context->check("run", "the graph of a step can't be launched", m_graph->launch());
  }

 private:
  std::shared_ptr<Context> m_context;
  std::unique_ptr<Graph> m_graph;
  std::int64_t& m_replayed;
  bool m_random = true;
};

class CudaRecorder final : public LaunchRecorder {
 public:
  explicit CudaRecorder(std::shared_ptr<Context> context) : m_context(std::move(context)) {}

  Result<Unit> begin() override { return m_context->beginRecording(); }
  void discard() override { m_context->endRecording(); }
  Counts counts() const override { return m_counts; }

  Result<std::unique_ptr<LaunchGraph>> end(std::unique_ptr<LaunchGraph> earlier) override {
    std::vector<GraphNode> nodes = m_context->endRecording();
    NF_TRY([[maybe_unused]] const Unit bound, m_context->bind());
    if (!earlier) earlier = std::make_unique<CudaLaunchGraph>(m_context, m_counts.replayed);
    auto& made = static_cast<CudaLaunchGraph&>(*earlier);
    made.setRandom(m_context->recordsRandom());
    Graph& graph = made.graph();
    const std::int64_t built = graph.builds(), changed = graph.updates();
    const CUresult code = graph.set(std::move(nodes));
    m_counts.built += graph.builds() - built;
    m_counts.changed += graph.updates() - changed;
    NF_TRY([[maybe_unused]] const Unit set, m_context->check("record", "the graph of a step can't be made", code));
    return earlier;
  }

 private:
  std::shared_ptr<Context> m_context;
  Counts m_counts;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<Context> context, Target target, std::string description)
      : m_context(std::move(context)), m_target(std::move(target)), m_description(std::move(description)), m_recorder(m_context),
        m_profiler(makeProfiler({m_context->handle(), m_context->number(), [c = m_context.get()] { return c->synchronize(); },
                                 [c = m_context.get()] { return c->launched; }})) {}

  std::string name() const override { return m_context->name(); }
  std::string description() const override { return m_description; }
  const Target& target() const override { return m_target; }
  Result<void*> allocate(std::int64_t bytes) override { return m_context->allocate(bytes); }
  void release(void* memory) override { m_context->release(memory); }
  Result<Unit> copyIn(void* to, const void* from, std::int64_t bytes) override { return m_context->copyIn(to, from, bytes); }
  Result<Unit> copyOut(void* to, const void* from, std::int64_t bytes) override { return m_context->copyOut(to, from, bytes); }
  Result<Unit> copy(void* to, const void* from, std::int64_t bytes) override { return m_context->copy(to, from, bytes); }
  Result<Unit> synchronize() override { return m_context->synchronize(); }
  LaunchRecorder* recorder() override { return &m_recorder; }
  bool mayBeLost() const override { return true; }
  std::optional<Error> lost() const override { return m_context->lost(); }
  Profiler* profiler() override { return m_profiler.get(); }

  Result<std::unique_ptr<Kernel>> link(const KernelObject& object) override {
    if (object.backend != "cuda") return Error{"link", "the kernel was compiled for " + object.backend, name(), {}};
    auto kernel = std::make_unique<CudaKernel>(m_context, object);
    NF_TRY([[maybe_unused]] const Unit loaded, kernel->load(object.code));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

 private:
  std::shared_ptr<Context> m_context;
  Target m_target;
  std::string m_description;
  CudaRecorder m_recorder;
  std::unique_ptr<Profiler> m_profiler;
};

int attribute(const Driver& d, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  return d.deviceAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

Result<CUdevice> deviceOf(const Driver& driver, int number) {
  CUdevice device = 0;
  const CUresult code = driver.deviceGet(&device, number);
  if (number < 0 || code != CUDA_SUCCESS)
    return Error{"open device", "There is no device " + nameOf(number) + ".", nameOf(number), {}};
  return device;
}

std::string modelOf(const Driver& driver, CUdevice device) {
  char text[128] = {};
  if (driver.deviceName(text, sizeof text, device) != CUDA_SUCCESS) return "NVIDIA GPU";
  return text;
}

}  // namespace

std::string nameOf(int number) { return "cuda:" + std::to_string(number); }

Result<Target> targetOf(int number) {
  NF_TRY(const Driver* const driver, Driver::get());
  NF_TRY(const CUdevice device, deviceOf(*driver, number));
  const auto get = [&](CUdevice_attribute which) { return attribute(*driver, device, which); };
  if (const auto loss = lossOf(number))
    return Error{"open device", loss->message + " NeoFlow can use it again when it has been started anew.", nameOf(number),
                 loss->detail};
  const int major = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), minor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  if (major * 10 + minor < 75)
    return Error{"open device",
                 nameOf(number) + ", " + modelOf(*driver, device) + ", has compute capability " + std::to_string(major) + "." +
                     std::to_string(minor) + "; 7.5 or later is needed.",
                 nameOf(number),
                 {}};
  Target t;
  t.backend = "cuda";
  t.features = {"sm_" + std::to_string(major) + std::to_string(minor)};
  t.vectorBytes = 16;
  t.vectorRegisters = 255;
  t.l1Bytes = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  t.l2Bytes = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  t.threads = std::max(1, get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  t.peakFlops = 2.0 * fusedPerCycle(major, minor) * get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) * 1e3;
  // Two transfers a cycle of the memory's clock.
  t.peakBandwidth = 2.0 * get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * 1e3 * get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
  t.launchSeconds = kLaunchSeconds;
  const auto nvrtc = Nvrtc::forDriver();
  if (!nvrtc) t.features.emplace_back("no nvrtc");
  t.fingerprint = modelOf(*driver, device) + ", " + t.features.front() + ", " + std::to_string(t.threads) +
                  " multiprocessors, driver " + versionText(driver->version) + ", NVRTC " + (nvrtc ? (*nvrtc)->version() : "none") +
                  ", LLVM " + llvmVersion() + (findLibdevice(toolkitFolders("nvvm/libdevice")) ? "" : " without libdevice") +
                  ", code generator " + std::to_string(kCodeGeneratorVersion);
  return t;
}

std::string describe(int number) {
  const auto driver = Driver::get();
  if (!driver) return driver.error().message;
  const auto device = deviceOf(**driver, number);
  if (!device) return device.error().message;
  std::size_t bytes = 0;
  (*driver)->deviceMemory(&bytes, *device);
  const auto get = [&](CUdevice_attribute which) { return std::to_string(attribute(**driver, *device, which)); };
  return modelOf(**driver, *device) + ", " + get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) + " multiprocessors, sm_" +
         get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) + get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) + ", " +
         std::to_string(bytes >> 30) + " GB";
}

Result<std::unique_ptr<Device>> openDevice(int number) {
  NF_TRY(Target target, targetOf(number));
  NF_TRY(std::shared_ptr<Context> context, Context::open(number));
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(std::move(context), std::move(target), describe(number)));
}

}  // namespace nf::cuda
