// SPDX-License-Identifier: Apache-2.0
#include "tests/cpu/kernel_check.h"

#include <cmath>
#include <cstring>

#include "core/schedule/lower.h"
#include "plugins/cpu/machine.h"
#include "plugins/cpu/plugin.h"

namespace nf::test {

Backend& cpu() { return *neoflowPlugin(kPluginVersion); }

Target hostTarget(int threads) {
  Target t = cpu::describeHost(threads);
  t.peakFlops = 1e11;
  t.peakBandwidth = 1e10;
  t.launchSeconds = 2e-6;
  return t;
}

namespace {

float halfToFloat(std::uint16_t h) {
  const int sign = h >> 15, exponent = (h >> 10) & 31, fraction = h & 1023;
  double v = exponent == 0    ? std::ldexp(fraction, -24)
             : exponent == 31 ? (fraction ? NAN : INFINITY)
                              : std::ldexp(1024 + fraction, exponent - 25);
  return static_cast<float>(sign ? -v : v);
}

std::uint16_t floatToHalf(double v) {
  // Inputs of the tests are multiples of 2^-10 below 2: exact.
  if (v == 0) return 0;
  int e;
  const double m = std::frexp(std::fabs(v), &e);
  const int fraction = static_cast<int>(std::lround(std::ldexp(m, 11)));
  return static_cast<std::uint16_t>((v < 0 ? 0x8000 : 0) | ((e + 14) << 10) | (fraction & 1023));
}

std::vector<std::byte> toBytes(const TensorData& data) {
  std::vector<std::byte> bytes(data.values.size() * static_cast<std::size_t>(bytesOf(data.type)));
  for (std::size_t i = 0; i < data.values.size(); ++i) {
    const double v = data.values[i];
    const auto put = [&](auto x) { std::memcpy(bytes.data() + i * sizeof x, &x, sizeof x); };
    switch (data.type) {
      case DType::F32: put(static_cast<float>(v)); break;
      case DType::F64: put(v); break;
      case DType::I32: put(static_cast<std::int32_t>(v)); break;
      case DType::F16: put(floatToHalf(v)); break;
      case DType::BF16: {
        const auto f = static_cast<float>(v);
        std::uint32_t bits;
        std::memcpy(&bits, &f, 4);
        put(static_cast<std::uint16_t>(bits >> 16));
        break;
      }
      case DType::Bool: put(static_cast<std::uint8_t>(v != 0)); break;
      case DType::I64: put(static_cast<std::int64_t>(v)); break;
    }
  }
  return bytes;
}

double fromBytes(const std::byte* bytes, DType type, std::size_t i) {
  const auto get = [&](auto x) {
    std::memcpy(&x, bytes + i * sizeof x, sizeof x);
    return x;
  };
  switch (type) {
    case DType::F32: return get(0.f);
    case DType::F64: return get(0.0);
    case DType::I32: return get(std::int32_t{0});
    case DType::F16: return halfToFloat(get(std::uint16_t{0}));
    case DType::BF16: {
      const std::uint32_t bits = static_cast<std::uint32_t>(get(std::uint16_t{0})) << 16;
      float f;
      std::memcpy(&f, &bits, 4);
      return f;
    }
    case DType::Bool: return get(std::uint8_t{0});
    case DType::I64: return static_cast<double>(get(std::int64_t{0}));
  }
  return 0;
}

std::string worst(const Tensor& tensor, const std::vector<double>& want, const std::byte* got) {
  double square = 0;
  for (const double v : want)
    if (std::isfinite(v)) square += v * v;
  const double rms = std::sqrt(square / static_cast<double>(want.size()));
  const bool narrow = tensor.type == DType::F16 || tensor.type == DType::BF16;
  const double relative = narrow ? 1e-2 : 1e-4;
  const double absolute = (narrow ? 1e-2 : 1e-5) * std::max(1.0, rms);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double v = fromBytes(got, tensor.type, i);
    const bool same = std::isnan(want[i])      ? std::isnan(v)
                      : std::isfinite(want[i]) ? std::fabs(v - want[i]) <= absolute + relative * std::fabs(want[i])
                                               : v == want[i];
    if (!same) return tensor.name + "[" + std::to_string(i) + "] is " + std::to_string(v) + ", expected " + std::to_string(want[i]);
  }
  return {};
}

}  // namespace

std::string compare(const Program& p, const Schedule& schedule, const Target& target, Device& device, std::mt19937_64& rng,
                    std::vector<std::int64_t> counters, int integerLimit) {
  auto compiler = cpu().compiler(target);
  if (!compiler) return compiler.error().message;
  const auto object = (*compiler)->compile({p, schedule, {}});
  if (!object) return "compile: " + object.error().message + "\n" + object.error().detail;
  auto kernel = device.link(*object);
  if (!kernel) return "link: " + kernel.error().message + "\n" + kernel.error().detail;

  const TensorValues inputs = randomInputs(p, rng, integerLimit);
  const auto reference = ReferenceProgram::prepare(p);
  if (!reference) return reference.error().message;
  const auto want = reference->run(inputs, 7, 3, counters);
  std::vector<void*> tensors;
  std::vector<std::pair<TensorId, std::byte*>> outputs;
  const auto allocate = [&](std::int64_t bytes) { return static_cast<std::byte*>(*device.allocate(bytes)); };
  for (const auto& [id, data] : inputs) {
    const auto bytes = toBytes(data);
    std::byte* memory = allocate(static_cast<std::int64_t>(bytes.size()));
    std::memcpy(memory, bytes.data(), bytes.size());
    tensors.push_back(memory);
  }
  constexpr std::int64_t kFence = 256;
  for (const Output& o : p.outputs) {
    std::byte* memory = allocate(p[o.tensor].bytes() + kFence);
    std::memset(memory, 0xff, static_cast<std::size_t>(p[o.tensor].bytes()));
    std::memset(memory + p[o.tensor].bytes(), 0x5a, kFence);
    tensors.push_back(memory);
    outputs.emplace_back(o.tensor, memory);
  }
  std::byte* workspace = allocate(object->workspaceBytes);
  std::memset(workspace, 0xff, static_cast<std::size_t>(object->workspaceBytes));
  LaunchArgs args;
  args.tensors = tensors;
  args.workspace = workspace;
  args.counters = counters;
  args.seed = 7;
  args.step = 3;
  const auto ran = (*kernel)->launch(args);
  std::string result = compareLoops(p, schedule, target, inputs, want, counters);
  if (!result.empty()) {
  } else if (ran.ok() != want.ok()) {
    result = ran.ok() ? "the reference failed, the kernel did not: " + want.error().message : "launch: " + ran.error().message;
  } else if (!ran.ok()) {
    result = "refused: " + ran.error().message;
  } else {
    for (const auto& [id, memory] : outputs) {
      if (result.empty()) result = worst(p[id], want->at(id).values, memory);
      for (std::int64_t f = 0; f < kFence && result.empty(); ++f)
        if (memory[p[id].bytes() + f] != std::byte{0x5a}) result = p[id].name + ": written past its end";
    }
  }
  for (void* t : tensors) device.release(t);
  device.release(workspace);
  if (!result.empty()) {
    const auto loops = lower(p, schedule, target);
    result += "\n" + schedule.text() + "\n" + (loops ? loop::toText(*loops).text : loops.error().message);
  }
  return result;
}

std::string compareFirst(const Program& p, std::mt19937_64& rng, int threads, std::vector<std::int64_t> counters,
                         int integerLimit) {
  const Target target = hostTarget(threads);
  auto device = cpu().open("cpu", threads);
  if (!device) return device.error().message;
  const auto space = scheduleSpace(p, target);
  if (!space) return space.error().message;
  return compare(p, (*space)->first(), target, **device, rng, std::move(counters), integerLimit);
}

}  // namespace nf::test
