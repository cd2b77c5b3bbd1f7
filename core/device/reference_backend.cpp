// SPDX-License-Identifier: Apache-2.0
#include "core/device/reference_backend.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>

#include "core/device/reference.h"
#include "core/ir/serialize.h"

namespace nf {
namespace {

constexpr std::align_val_t kAlignment{64};

double fromHalf(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}

std::uint16_t toHalf(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7e00;
  const double rounded = std::fabs(storedAs(DType::F16, value));
  if (std::isinf(rounded)) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (rounded < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<int>(std::ldexp(rounded, 24)));
  const int exponent = std::ilogb(rounded);
  return static_cast<std::uint16_t>(sign | (exponent + 15) << 10 | (static_cast<int>(std::ldexp(rounded, 10 - exponent)) & 1023));
}

std::uint16_t toBrain(double value) {
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(storedAs(DType::BF16, value))) >> 16);
}

template <class T>
T at(const void* memory, std::size_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(memory) + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void put(void* memory, std::size_t i, T value) {
  std::memcpy(static_cast<std::byte*>(memory) + i * sizeof(T), &value, sizeof(T));
}

TensorData readTyped(const Tensor& t, const void* memory, bool doubles) {
  TensorData data{t.type, t.shape, std::vector<double>(static_cast<std::size_t>(t.elements()))};
  if (doubles) {
    std::memcpy(data.values.data(), memory, data.values.size() * sizeof(double));
    return data;
  }
  for (std::size_t i = 0; i < data.values.size(); ++i) {
    switch (t.type) {
      case DType::F32: data.values[i] = at<float>(memory, i); break;
      case DType::F64: data.values[i] = at<double>(memory, i); break;
      case DType::F16: data.values[i] = fromHalf(at<std::uint16_t>(memory, i)); break;
      case DType::BF16:
        data.values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(at<std::uint16_t>(memory, i)) << 16);
        break;
      case DType::I32: data.values[i] = at<std::int32_t>(memory, i); break;
      case DType::Bool:
      case DType::I64: break;
    }
  }
  return data;
}

void writeTyped(const TensorData& data, void* memory, bool doubles) {
  if (doubles) {
    std::memcpy(memory, data.values.data(), data.values.size() * sizeof(double));
    return;
  }
  for (std::size_t i = 0; i < data.values.size(); ++i) {
    const double value = data.values[i];
    switch (data.type) {
      case DType::F32: put(memory, i, static_cast<float>(value)); break;
      case DType::F64: put(memory, i, value); break;
      case DType::F16: put(memory, i, toHalf(value)); break;
      case DType::BF16: put(memory, i, toBrain(value)); break;
      case DType::I32: {
        const bool fits = value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max();
        put(memory, i, fits ? static_cast<std::int32_t>(value) : std::numeric_limits<std::int32_t>::min());
        break;
      }
      case DType::Bool:
      case DType::I64: break;
    }
  }
}

class ReferenceKernelLaunch : public Kernel {
 public:
  ReferenceKernelLaunch(ReferenceProgram program, std::vector<Tensor> tensors, std::vector<TensorId> inputs,
                        std::vector<TensorId> outputs, bool doubles)
      : m_program(std::move(program)), m_tensors(std::move(tensors)), m_inputs(std::move(inputs)), m_outputs(std::move(outputs)),
        m_doubles(doubles) {}

  Result<Unit> launch(const LaunchArgs& args) override {
    if (args.tensors.size() != m_inputs.size() + m_outputs.size())
      return Error{
          "launch", "the kernel takes " + std::to_string(m_inputs.size() + m_outputs.size()) + " tensors", "reference", {}};
    TensorValues inputs;
    for (std::size_t k = 0; k < m_inputs.size(); ++k)
      inputs[m_inputs[k]] = readTyped(m_tensors[m_inputs[k].value], args.tensors[k], m_doubles);
    NF_TRY(const TensorValues results, m_program.run(inputs, args.seed, args.step, args.counters, args.stop));
    for (std::size_t k = 0; k < m_outputs.size(); ++k)
      writeTyped(results.at(m_outputs[k]), args.tensors[m_inputs.size() + k], m_doubles);
    return Unit{};
  }

 private:
  ReferenceProgram m_program;
  std::vector<Tensor> m_tensors;
  std::vector<TensorId> m_inputs, m_outputs;
  bool m_doubles;
};

Target referenceTarget() {
  Target target;
  target.backend = "reference";
  target.fingerprint = "reference interpreter";
  target.vectorBytes = 8;
  target.peakFlops = 1e8;
  target.peakBandwidth = 1e9;
  target.launchSeconds = 1e-6;
  return target;
}

class ReferenceDevice : public Device {
 public:
  explicit ReferenceDevice(bool doubles) : m_doubles(doubles) {}
  std::string name() const override { return "reference"; }
  bool storesDoubles() const override { return m_doubles; }
  std::string description() const override { return "Interpreter in double precision"; }
  const Target& target() const override { return m_target; }
  Result<void*> allocate(std::int64_t bytes) override {
    void* memory = bytes < 0 ? nullptr : ::operator new(static_cast<std::size_t>(bytes), kAlignment, std::nothrow);
    if (!memory) return Error{"allocate", std::to_string(bytes) + " bytes are not to be had", "reference", {}};
    return memory;
  }
  void release(void* memory) override { ::operator delete(memory, kAlignment); }
  Result<Unit> copyIn(void* to, const void* from, std::int64_t bytes) override { return copy(to, from, bytes); }
  Result<Unit> copyOut(void* to, const void* from, std::int64_t bytes) override { return copy(to, from, bytes); }
  Result<Unit> copy(void* to, const void* from, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return Unit{};
  }

  Result<std::unique_ptr<Kernel>> link(const KernelObject& object) override {
    const auto* text = reinterpret_cast<const char*>(object.code.data());
    const auto json = nlohmann::json::parse(text, text + object.code.size(), nullptr, false);
    if (json.is_discarded()) return Error{"link", "the kernel object holds no program", "reference", {}};
    NF_TRY(const Program program, programFromJson(json));
    // Binding order: tensors without a producer by id, then the outputs.
    std::vector<TensorId> inputs, outputs;
    const auto made = producers(program);
    for (std::size_t t = 0; t < program.tensors.size(); ++t)
      if (!made[t].valid()) inputs.push_back(TensorId(t));
    for (const Output& o : program.outputs) outputs.push_back(o.tensor);
    NF_TRY(ReferenceProgram prepared, ReferenceProgram::prepare(program, outputs, true, Storage::Rounded));
    return std::unique_ptr<Kernel>(std::make_unique<ReferenceKernelLaunch>(std::move(prepared), program.tensors, std::move(inputs),
                                                                           std::move(outputs), m_doubles));
  }
  Result<Unit> synchronize() override { return Unit{}; }

 private:
  Target m_target = referenceTarget();
  bool m_doubles;
};

class ReferenceCompiler : public Compiler {
 public:
  Result<KernelObject> compile(const CompileRequest& request) override {
    KernelObject object;
    object.backend = "reference";
    object.schedule = request.schedule;
    const std::string text = toJson(request.subgraph).dump();
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    object.code.assign(bytes, bytes + text.size());
    for (std::size_t o = 0; o < request.subgraph.operators.size(); ++o) object.flops += flopsOf(request.subgraph, OperatorId(o));
    return object;
  }
};

class ReferenceBackend : public Backend {
 public:
  std::string name() const override { return "reference"; }
  std::vector<std::string> deviceNames() override { return {"reference", "reference:f64"}; }
  Result<std::unique_ptr<Device>> open(const std::string& device, int) override {
    if (device != "reference" && device != "reference:f64")
      return Error{"open device", "there is no device " + device + " here", device, {}};
    return std::unique_ptr<Device>(std::make_unique<ReferenceDevice>(device == "reference:f64"));
  }
  Result<Target> target(const std::string&, int) override { return referenceTarget(); }
  Result<std::unique_ptr<Compiler>> compiler(const Target&) override {
    return std::unique_ptr<Compiler>(std::make_unique<ReferenceCompiler>());
  }
};

}  // namespace

Backend* referenceBackend(std::uint32_t version) {
  static ReferenceBackend backend;
  return version == kPluginVersion ? &backend : nullptr;
}

}  // namespace nf
