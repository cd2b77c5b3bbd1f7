// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/device_context.h"

#include <thread>

#include "core/device/reference_backend.h"

namespace nf {
namespace {

// "cuda:1" -> "cuda"
std::string backendOf(const std::string& device) { return device.substr(0, device.find(':')); }

Result<std::pair<Backend*, std::string>> choose(BackendRegistry& registry, const std::string& device, int threads) {
  if (device == "auto") {
    // One may be too old, or lost to this process.
    if (Backend* backend = registry.find("cuda"))
      for (const std::string& name : backend->deviceNames())
        if (backend->target(name, threads)) return std::pair(backend, name);
    if (Backend* backend = registry.find("cpu")) return std::pair(backend, std::string("cpu"));
    return std::pair<Backend*, std::string>(nullptr, "reference");
  }
  if (device == "reference") return std::pair<Backend*, std::string>(nullptr, device);
  Backend* backend = registry.find(backendOf(device));
  if (!backend) {
    std::string known = "auto, reference", why;
    for (const auto& entry : registry.entries()) {
      if (entry.backend) known += ", " + entry.name;
      if (entry.name == backendOf(device)) why = entry.reason;
    }
    const std::string name = backendOf(device);
    if (why.empty() && (name == "cpu" || name == "cuda")) why = "The back end " + name + " is not in this installation.";
    return Error{why.empty() ? "device name" : "open device",
                 why.empty() ? "There is no device " + device + "; there are " + known + "." : why,
                 device,
                 {}};
  }
  const auto names = backend->deviceNames();
  for (const std::string& name : names)
    if (name == device || backendOf(name) == device) return std::pair(backend, name);
  return Error{"open device", "The back end " + backend->name() + " has no device " + device + ".", device, {}};
}

}  // namespace

DeviceContext::~DeviceContext() = default;

std::unique_ptr<DeviceContext> DeviceContext::of(std::unique_ptr<Device> device, std::unique_ptr<Compiler> inProcess,
                                                 std::unique_ptr<Evaluator> evaluator, std::unique_ptr<RecordDatabase> records) {
  std::unique_ptr<DeviceContext> self(new DeviceContext);
  self->m_target = std::make_shared<const Target>(device->target());
  self->m_device = std::move(device);
  self->m_inProcess = std::move(inProcess);
  self->m_evaluator = std::move(evaluator);
  self->m_records = std::move(records);
  return self;
}

std::shared_ptr<const Target> DeviceContext::target() const {
  const std::lock_guard lock(m_targetMutex);
  return m_target;
}

void DeviceContext::setTarget(const Target& target) {
  auto next = std::make_shared<const Target>(target);
  const std::lock_guard lock(m_targetMutex);
  m_target = std::move(next);
}

void DeviceContext::openRecords(const DeviceContextOptions& options) {
  if (options.records == "none") return;
  auto records = RecordDatabase::open(options.records.empty() ? RecordDatabase::defaultPath() : options.records, &m_recordsMessage);
  if (records) m_records = std::move(*records);
  else
    m_recordsMessage = "No tuning records are read or kept: " + records.error().message +
                       (records.error().detail.empty() ? "" : ": " + records.error().detail) + ".";
}

Result<std::unique_ptr<DeviceContext>> DeviceContext::open(BackendRegistry& registry, const DeviceContextOptions& options) {
  const int threads = std::max(1, options.threads);
  NF_TRY(const auto chosen, choose(registry, options.device, threads));
  std::unique_ptr<DeviceContext> self(new DeviceContext);
  if (!chosen.first) {
    Backend& interpreter = *referenceBackend(kPluginVersion);
    NF_TRY(self->m_device, interpreter.open("reference:f64", threads));
    self->m_target = std::make_shared<const Target>(self->m_device->target());
    NF_TRY(self->m_inProcess, interpreter.compiler(*self->m_target));
    return self;
  }
  if (!options.measures && options.compileWorkers == 0) {
    NF_TRY(self->m_device, chosen.first->open(chosen.second, threads));
    self->m_target = std::make_shared<const Target>(self->m_device->target());
    self->openRecords(options);
    return self;
  }
  CompileService::Options compile;
  compile.workers = options.compileWorkers;
  compile.command = options.worker;
  self->m_compile = std::make_unique<CompileService>(compile);
  MeasureService::Options measure;
  measure.backend = chosen.first->name();
  measure.device = chosen.second;
  measure.threads = threads;
  measure.command = options.worker;
  measure.leaseDirectory = options.leaseDirectory;
  self->m_measure = std::make_unique<MeasureService>(measure);
  NF_TRY(self->m_device, chosen.first->open(chosen.second, threads));
  self->m_target = std::make_shared<const Target>(self->m_device->target());
  self->m_evaluator = workerEvaluator(*self->m_compile, *self->m_measure);
  // One training thread leaves the other cores to the measuring worker.
  const bool ownCore = self->m_target->backend == "cpu" && threads < static_cast<int>(std::thread::hardware_concurrency());
  if (!ownCore) { NF_TRY(self->m_lease, DeviceLease::open(chosen.second, options.leaseDirectory)); }
  self->openRecords(options);
  return self;
}

Result<std::unique_ptr<DeviceContext>> openHostDevice(BackendRegistry& registry, DeviceContextOptions options) {
  options.device = registry.find("cpu") ? "cpu" : "reference";
  return DeviceContext::open(registry, options);
}

}  // namespace nf
