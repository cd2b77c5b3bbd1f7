// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <mutex>
#include <string>

#include "core/device/backend.h"
#include "core/tune/compile_service.h"
#include "core/tune/device_lease.h"
#include "core/tune/measure_service.h"
#include "core/tune/record_database.h"
#include "core/tune/tuning_service.h"

namespace nf {

struct DeviceContextOptions {
  std::string device = "auto";  // auto, reference, cpu, cuda, cuda:1
  int threads = 0;              // of CPU kernels; 0: one
  int compileWorkers = 2;
  bool measures = true;  // false, with no compile workers: only what the device is and what is recorded of it
  WorkerCommand worker;
  std::string records;  // path of the record database; empty: the user's; "none": no records
  std::string leaseDirectory;
};

// One device and all that serves it in this process: worker processes, records, lease. Its workers start when it is opened, so open
// it before anything else is read.
class DeviceContext {
 public:
  static Result<std::unique_ptr<DeviceContext>> open(BackendRegistry& registry, const DeviceContextOptions& options);
  // For tests: a device whose kernels `evaluator` makes in this process.
  static std::unique_ptr<DeviceContext> of(std::unique_ptr<Device> device, std::unique_ptr<Compiler> inProcess,
                                           std::unique_ptr<Evaluator> evaluator, std::unique_ptr<RecordDatabase> records = nullptr);
  ~DeviceContext();

  Device& device() const { return *m_device; }
  std::shared_ptr<const Target> target() const;
  // Its constants were measured again. Any thread; who has target() goes on by what that says.
  void setTarget(const Target& target);
  // Set for the interpreter, whose kernels are made in place; nothing is tuned there.
  Compiler* inProcess() const { return m_evaluator ? nullptr : m_inProcess.get(); }
  Evaluator* evaluator() const { return m_evaluator.get(); }
  RecordDatabase* records() const { return m_records.get(); }
  const std::string& recordsMessage() const { return m_recordsMessage; }  // why there are none, or what became of damaged ones
  // Null where measuring has a core of its own: steps and candidates need not take turns.
  DeviceLease* lease() const { return m_lease.get(); }
  CompileService* compileService() const { return m_compile.get(); }
  MeasureService* measureService() const { return m_measure.get(); }

 private:
  DeviceContext() = default;
  void openRecords(const DeviceContextOptions& options);
  std::unique_ptr<Device> m_device;
  mutable std::mutex m_targetMutex;
  std::shared_ptr<const Target> m_target;
  std::unique_ptr<Compiler> m_inProcess;
  std::unique_ptr<CompileService> m_compile;
  std::unique_ptr<MeasureService> m_measure;
  std::unique_ptr<Evaluator> m_evaluator;
  std::unique_ptr<RecordDatabase> m_records;
  std::unique_ptr<DeviceLease> m_lease;
  std::string m_recordsMessage;
};

// Opens the device whose memory is the host's: cpu, or the interpreter where that back end does not serve. What a training whose device
// is lost goes on with; `options` as for the lost one.
Result<std::unique_ptr<DeviceContext>> openHostDevice(BackendRegistry& registry, DeviceContextOptions options);

}  // namespace nf
