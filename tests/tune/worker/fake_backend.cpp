// SPDX-License-Identifier: Apache-2.0
#include "tests/tune/worker/fake_backend.h"

#include <unistd.h>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

#include <nlohmann/json.hpp>

#include "core/device/profiler.h"
#include "core/device/reference.h"
#include "core/ir/serialize.h"
#include "core/schedule/fragment.h"
#include "core/tune/point_evaluator.h"

namespace nf {
namespace {

using nlohmann::json;

[[noreturn]] void hang() {
  for (;;) pause();
}

std::int64_t threadNanoseconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

class FakeCompiler final : public Compiler {
 public:
  Result<KernelObject> compile(const CompileRequest& request) override {
    const std::string how = request.schedule.knobs->value("compile", "ok");
    if (how == "abort") std::abort();
    if (how == "hang") hang();
    if (how == "exit") _exit(3);
    if (how == "refuse") return Error{"compile", "the schedule spills", "fake", "12 registers too many"};
    const std::string text = json{{"program", toJson(request.subgraph)}, {"knobs", *request.schedule.knobs}}.dump();
    KernelObject object;
    object.backend = "fake";
    object.schedule = request.schedule;
    object.code.resize(text.size());
    std::memcpy(object.code.data(), text.data(), text.size());
    object.stages = {{"main", 1}};
    object.workspaceBytes = 64;
    object.flops = 1;
    for (const std::string& name : request.texts) {
      KernelText listing{"line one\nline two\n", {{}, {}}};
      for (const Operator& op : request.subgraph.operators)
        if (op.origin.valid()) listing.lineOrigins[1].push_back(op.origin);
      object.texts[name] = listing;
    }
    return object;
  }
};

class FakeKernel final : public Kernel {
 public:
  FakeKernel(Program program, json knobs) : m_program(std::move(program)), m_knobs(std::move(knobs)) {}

  Result<Unit> launch(const LaunchArgs& args) override {
    const std::string how = m_knobs.value("run", "ok");
    if (how == "crash") std::abort();
    if (how == "hang") hang();
    if (how == "memory") throw std::bad_alloc();
    if (how == "fail") return Error{"launch", "the driver refuses", "fake", {}};
    const std::int64_t until = threadNanoseconds() + 1000 * m_knobs.value("spin_us", 0);
    const std::vector<OperatorId> writer = producers(m_program);
    TensorValues inputs;
    std::size_t binding = 0;
    for (std::size_t i = 0; i < m_program.tensors.size(); ++i) {
      if (writer[i].valid()) continue;
      const Tensor& t = m_program.tensors[i];
      TensorData data{t.type, t.shape, {}};
      for (std::int64_t e = 0; e < t.elements(); ++e) {
        const double read = readElement({t.type, args.tensors[binding]}, e);
        data.values.push_back(how == "tf32" ? loop::roundedToFragment(DType::F32, read) : read);
      }
      inputs.emplace(TensorId(i), std::move(data));
      ++binding;
    }
    InterpretOptions options;
    options.seed = args.seed;
    options.step = args.step;
    NF_TRY(const TensorValues values, interpret(m_program, inputs, options));
    for (const Output& output : m_program.outputs) {
      const Tensor& t = m_program[output.tensor];
      const auto& all = values.at(output.tensor).values;
      for (std::int64_t e = 0; e < t.elements(); ++e) {
        const bool last = e + 1 == t.elements();
        if (how == "partial" && last) continue;
        const double off = how == "wrong" || (how == "last" && last) || (how == "scalars" && t.shape.empty()) ? 1 : 0;
        writeElement(t.type, args.tensors[binding], e, all[static_cast<std::size_t>(e)] + off);
      }
      if (how == "overrun") writeElement(t.type, args.tensors[binding], t.elements(), 0);
      ++binding;
    }
    while (threadNanoseconds() < until) {}
    return Unit{};
  }

 private:
  Program m_program;
  json m_knobs;
};

// Of the device "fake:counted": how often a kernel ran under it. "fake:refused" refuses, "fake:fatal" dies.
class FakeProfiler final : public Profiler {
 public:
  explicit FakeProfiler(std::string device) : m_device(std::move(device)) {}
  Result<Unit> start() override { return Unit{}; }
  void launching(std::uint64_t) override {}
  Result<std::vector<DeviceActivity>> stop() override { return std::vector<DeviceActivity>{}; }
  Result<KernelCounters> count(const std::function<Result<Unit>()>& launch) override {
    if (m_device == "fake:refused") return Error{kCountersStage, "Only an administrator may look.", m_device, {}};
    if (m_device == "fake:fatal") std::abort();
    const std::int64_t begin = threadNanoseconds();
    NF_TRY([[maybe_unused]] const Unit ran, launch());
    KernelCounters c;
    c.us = static_cast<double>(threadNanoseconds() - begin) * 1e-3;
    c.flops = 120;
    c.dramBytes = 4096;
    c.l2Bytes = 8192;
    c.occupancy = 0.5;
    c.stalls = {{"long_scoreboard", 0.75}, {"barrier", 0.25}};
    c.lines = {{12, 30, "barrier"}};
    c.withoutLines = "why";
    return c;
  }

 private:
  std::string m_device;
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(const std::string& device = "fake") {
    m_target.backend = "cpu";
    if (device != "fake") m_profiler = std::make_unique<FakeProfiler>(device);
  }
  Profiler* profiler() override { return m_profiler.get(); }
  std::string name() const override { return "fake"; }
  std::string description() const override { return "interpreter"; }
  const Target& target() const override { return m_target; }
  Result<void*> allocate(std::int64_t bytes) override { return std::calloc(1, static_cast<std::size_t>(bytes)); }
  void release(void* memory) override { std::free(memory); }
  Result<Unit> copyIn(void* to, const void* from, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return Unit{};
  }
  Result<Unit> copyOut(void* to, const void* from, std::int64_t bytes) override { return copyIn(to, from, bytes); }
  Result<std::unique_ptr<Kernel>> link(const KernelObject& object) override {
    const json code = json::parse(reinterpret_cast<const char*>(object.code.data()),
                                  reinterpret_cast<const char*>(object.code.data()) + object.code.size(), nullptr, false);
    if (!code.is_object()) return Error{"link", "no kernel", "fake", {}};
    NF_TRY(Program program, programFromJson(code.at("program")));
    return std::unique_ptr<Kernel>(std::make_unique<FakeKernel>(std::move(program), code.at("knobs")));
  }
  Result<Unit> synchronize() override { return Unit{}; }

 private:
  Target m_target;
  std::unique_ptr<FakeProfiler> m_profiler;
};

class FakeBackend final : public Backend {
 public:
  std::string name() const override { return "fake"; }
  std::vector<std::string> deviceNames() override { return {"fake"}; }
  Result<std::unique_ptr<Device>> open(const std::string& device, int) override {
    return std::unique_ptr<Device>(std::make_unique<FakeDevice>(device));
  }
  Result<Target> target(const std::string&, int) override {
    Target target;
    target.backend = "fake";
    target.fingerprint = "fake 1";
    return target;
  }
  Result<std::unique_ptr<Compiler>> compiler(const Target&) override {
    return std::unique_ptr<Compiler>(std::make_unique<FakeCompiler>());
  }
};

}  // namespace

Backend* fakeBackend(std::uint32_t version) {
  static FakeBackend backend;
  return version == kPluginVersion ? &backend : nullptr;
}

}  // namespace nf
