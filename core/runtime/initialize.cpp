// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/initialize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numbers>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "core/runtime/data_bytes.h"
#include "core/runtime/data_file.h"
#include "core/support/assert.h"
#include "core/support/counter_random.h"
#include "core/support/hash.h"

namespace nf {

// Made by cmake/embed.cmake from examples/data/digits.csv.gz.
extern const unsigned char kDigitsData[];
extern const unsigned long kDigitsSize;

namespace {

std::uint64_t keyOf(std::uint64_t seed, const std::string& name) {
  return mixBits(seed + Hasher().add(std::string_view(name)).finish().low);
}

// What element `i` of the tensor begins with.
using Value = std::function<double(std::int64_t)>;

Value uniform(std::uint64_t key, double low, double high) {
  return [=](std::int64_t i) { return low + (high - low) * randomUniform(key, i); };
}

// Box and Muller, two uniforms an element.
Value normal(std::uint64_t key, double mean, double deviation) {
  return [=](std::int64_t i) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - randomUniform(key, 2 * i)));
    return mean + deviation * radius * std::cos(2.0 * std::numbers::pi * randomUniform(key, 2 * i + 1));
  };
}

double numberOr(const Initializer& init, std::size_t at, double otherwise) {
  return at < init.numbers.size() ? init.numbers[at] : otherwise;
}

// nullopt: nothing generates its values; null: zeros.
std::optional<Value> valueOf(const Initializer& init, DType type, std::uint64_t key) {
  const double fanIn = std::max(1.0, numberOr(init, 0, 1)), fanOut = std::max(0.0, numberOr(init, 1, 1));
  const double bound = std::sqrt(6.0 / (fanIn + fanOut));
  switch (init.kind) {
    case Initializer::Kind::Zeros: return Value();
    case Initializer::Kind::Constant: return [value = numberOr(init, 0, 0)](std::int64_t) { return value; };
    case Initializer::Kind::Normal: return normal(key, numberOr(init, 0, 0), numberOr(init, 1, 1));
    case Initializer::Kind::Uniform: {
      const Value real = uniform(key, numberOr(init, 0, 0), numberOr(init, 1, 1));
      if (type != DType::I32) return real;
      return [real](std::int64_t i) { return std::floor(real(i)); };
    }
    case Initializer::Kind::Kaiming: return normal(key, 0, std::sqrt(2.0 / fanIn));
    case Initializer::Kind::Xavier: return uniform(key, -bound, bound);
    case Initializer::Kind::None:
    case Initializer::Kind::Batch:
    case Initializer::Kind::Csv:
    case Initializer::Kind::Npy:
    case Initializer::Kind::Npz:
    case Initializer::Kind::Idx:
    case Initializer::Kind::Safetensors: break;
  }
  return std::nullopt;
}

// Elements [first, first + values.elements()) of the tensor, in pieces that any thread may take: none hangs on another. False: a stop.
bool fill(HostTensor& values, std::int64_t first, const Value& value, const std::stop_token& stop) {
  const std::int64_t elements = values.elements(), pieces = (elements + kElementsBetweenStops - 1) / kElementsBetweenStops;
  std::atomic<std::int64_t> next{0};
  const auto take = [&] {
    for (std::int64_t piece; (piece = next.fetch_add(1)) < pieces;) {
      if (stop.stop_requested()) return;
      const std::int64_t end = std::min(elements, (piece + 1) * kElementsBetweenStops);
      for (std::int64_t i = piece * kElementsBetweenStops; i < end; ++i) values.set(i, value(first + i));
    }
  };
  {
    std::vector<std::jthread> others;
    // A thread that has but one piece to itself is not worth its beginning.
    const auto threads = std::min<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()), pieces / 2);
    try {
      while (static_cast<std::int64_t>(others.size()) + 1 < threads) others.emplace_back(take);
    } catch (const std::system_error&) {  // those that there are do it all
    }
    take();
  }
  return !stop.stop_requested();
}

Result<HostTensor> fromFile(const Tensor& tensor, const std::string& directory, const std::stop_token& stop) {
  NF_TRY(HostTensor value, readData(tensor.init, directory, stop));
  const bool sameCount = value.elements() == tensor.elements();
  // A table has rank 2 whatever it stands for; other files know their shape.
  if (value.shape != tensor.shape && !(tensor.init.kind == Initializer::Kind::Csv && sameCount))
    return dataError(tensor.init.strings.empty() ? tensor.name : tensor.init.strings.front(),
                     "has the shape " + shapeText(value.shape) + ", tensor " + tensor.name + " has " + shapeText(tensor.shape));
  value.shape = tensor.shape;
  if (tensor.type == DType::I32 && value.type != DType::I32)
    for (std::int64_t i = 0, n = value.elements(); i < n; ++i)
      if (const double v = value.at(i); !(v == std::floor(v) && v >= -2147483648.0 && v <= 2147483647.0)) {
        const bool whole = v == std::floor(v) && std::isfinite(v);
        char number[32];
        std::snprintf(number, sizeof number, whole ? "%.0f" : "%g", v);
        return dataError(tensor.name, "element " + std::to_string(i) + " is " + number +
                                          (whole ? ", which does not fit 32 bits" : ", an integer was expected"));
      }
  return converted(value, tensor.type);
}

}  // namespace

std::string declarationOf(const Tensor& tensor) {
  Hasher h;
  h.add(static_cast<std::uint64_t>(tensor.type)).add(tensor.shape.size());
  for (const std::int64_t extent : tensor.shape) h.add(static_cast<std::uint64_t>(extent));
  add(h, tensor.init);
  return h.finish().hex();
}

std::string resolvePath(const std::string& directory, const std::string& path) {
  const std::filesystem::path p(path);
  return p.is_absolute() || directory.empty() ? path : (std::filesystem::path(directory) / p).string();
}

std::optional<std::string_view> bundledData(std::string_view name) {
  if (name == "digits") return std::string_view(reinterpret_cast<const char*>(kDigitsData), kDigitsSize);
  return std::nullopt;
}

Result<HostTensor> readData(const Initializer& source, const std::string& directory, std::stop_token stop) {
  const auto string = [&](std::size_t at) { return at < source.strings.size() ? source.strings[at] : std::string(); };
  const std::string path = resolvePath(directory, string(0));
  switch (source.kind) {
    case Initializer::Kind::Csv:
      if (const auto bundled = bundledData(string(0))) return parseCsv(*bundled, string(0), stop);
      return readCsv(path, stop);
    case Initializer::Kind::Npy: return readNpy(path, stop);
    case Initializer::Kind::Npz: return readNpz(path, string(1), stop);
    case Initializer::Kind::Idx: return readIdx(path, stop);
    case Initializer::Kind::Safetensors: return readSafetensors(path, string(1), stop);
    case Initializer::Kind::None:
    case Initializer::Kind::Zeros:
    case Initializer::Kind::Constant:
    case Initializer::Kind::Normal:
    case Initializer::Kind::Uniform:
    case Initializer::Kind::Kaiming:
    case Initializer::Kind::Xavier:
    case Initializer::Kind::Batch:
      if (const auto bundled = bundledData(string(0))) return parseCsv(*bundled, string(0), stop);
      return Error{
          "load data",
          "This is no data file: " + (string(0).empty() ? "a data set needs csv, npy, npz, idx or safetensors" : string(0)) + ".",
          {},
          {}};
  }
  return Error{"load data", "This is no data file.", {}, {}};
}

bool isGenerated(const Initializer& init) { return valueOf(init, DType::F32, 0).has_value(); }

Result<HostTensor> initialValue(const Tensor& tensor, std::uint64_t seed, const std::string& directory, std::stop_token stop) {
  const Initializer& init = tensor.init;
  if (init.kind == Initializer::Kind::Batch)
    return Error{"load data", "Tensor " + tensor.name + " takes its values from batches.", {}, {}};
  if (init.kind == Initializer::Kind::None &&
      (tensor.kind == TensorKind::Input || tensor.kind == TensorKind::Const || tensor.kind == TensorKind::Param))
    return Error{"load data", "Tensor " + tensor.name + " has no values: give it an initial value or data.", {}, {}};
  const std::optional<Value> value = valueOf(init, tensor.type, keyOf(seed, tensor.name));
  if (init.kind != Initializer::Kind::None && !value) return fromFile(tensor, directory, stop);
  NF_TRY(HostTensor values, HostTensor::zeros(tensor.type, tensor.shape, stop));
  if (value && *value && !fill(values, 0, *value, stop)) return stopped();
  return values;
}

Result<Unit> initialParts(const Tensor& tensor, std::uint64_t seed, std::stop_token stop,
                          const std::function<Result<Unit>(std::int64_t first, const HostTensor& part)>& take) {
  constexpr std::int64_t kPart = 1 << 20;  // elements
  const std::optional<Value> value = valueOf(tensor.init, tensor.type, keyOf(seed, tensor.name));
  NF_ASSERT(value);
  const std::int64_t elements = tensor.elements();
  HostTensor part = HostTensor::make(tensor.type, {std::min(kPart, elements)});
  for (std::int64_t first = 0; first < elements; first += kPart) {
    if (stop.stop_requested()) return stopped();
    if (elements - first < kPart) part = HostTensor::make(tensor.type, {elements - first});
    if (*value && !fill(part, first, *value, stop)) return stopped();
    NF_TRY([[maybe_unused]] const Unit taken, take(first, part));
  }
  return Unit{};
}

Result<Unit> checkIndexValues(const Program& program, TensorId tensor, const HostTensor& value, std::stop_token stop) {
  if (program[tensor].type != DType::I32) return Unit{};
  double lowest = 0, highest = 0;
  std::int64_t lowestAt = 0, highestAt = 0;
  for (std::int64_t i = 0, n = value.elements(); i < n; ++i) {
    if (i % kElementsBetweenStops == 0 && stop.stop_requested()) return stopped();
    const double v = value.at(i);
    if (i == 0 || v < lowest) lowest = v, lowestAt = i;
    if (i == 0 || v > highest) highest = v, highestAt = i;
  }
  const auto check = [&](const AccessIndex& index, std::int64_t extent, const std::string& target,
                         std::size_t axis) -> Result<Unit> {
    if (!index.isData()) return Unit{};
    const ScalarNode& node = program[index.data];
    if (node.op != ScalarOp::Load || program[node.access].tensor != tensor) return Unit{};
    const bool low = lowest < 0;
    if (!low && highest < static_cast<double>(extent)) return Unit{};
    return Error{"load data",
                 "Element " + std::to_string(low ? lowestAt : highestAt) + " of " + program[tensor].name + " is " +
                     std::to_string(static_cast<std::int64_t>(low ? lowest : highest)) + ", but it indexes axis " +
                     std::to_string(axis) + " of " + target + ", which has the extent " + std::to_string(extent) + ".",
                 {},
                 {}};
  };
  // Only unconditional reads are certain to happen: an access under a select is checked by the kernel when it is taken.
  std::vector<bool> conditional(program.scalars.size(), false);
  for (std::size_t i = program.scalars.size(); i-- > 0;) {
    const ScalarNode& node = program.scalars[i];
    for (int k = 0; k < info(node.op).arity; ++k)
      if (conditional[i] || (node.op == ScalarOp::Select && k > 0)) conditional[node.operands[k].value] = true;
  }
  for (std::size_t i = 0; i < program.scalars.size(); ++i) {
    const ScalarNode& node = program.scalars[i];
    if (node.op != ScalarOp::Load || conditional[i]) continue;
    const Access& access = program[node.access];
    const Tensor& target = program[access.tensor];
    for (std::size_t d = 0; d < access.indices.size(); ++d) {
      NF_TRY([[maybe_unused]] const Unit fine, check(access.indices[d], target.shape[d], target.name, d));
    }
  }
  return Unit{};
}

namespace {

// What a tensor of labels, one that is only compared, is compared with; nullopt: it is none.
std::optional<Range> comparedWith(const Program& program, TensorId tensor) {
  const auto isLabel = [&](ExprId id) {
    const ScalarNode* node = &program[id];
    while (node->op == ScalarOp::Cast) node = &program[node->operands[0]];
    return node->op == ScalarOp::Load && program[node->access].tensor == tensor;
  };
  std::optional<Range> compared;
  for (std::size_t o = 0; o < program.operators.size(); ++o) {
    const Operator& op = program.operators[o];
    const auto reads = readsOf(program, OperatorId(o));
    if (std::find(reads.begin(), reads.end(), tensor) == reads.end()) continue;
    if (op.kind == OperatorKind::Loop) return std::nullopt;
    std::vector<ExprId> roots{op.body};
    for (const AccessIndex& index : op.scatter)
      if (index.isData()) roots.push_back(index.data);
    for (const ExprId root : roots) {
      if (isLabel(root)) return std::nullopt;
      for (const ExprId id : nodesOf(program, root)) {
        const ScalarNode& node = program[id];
        const bool equality = node.op == ScalarOp::Eq || node.op == ScalarOp::Ne;
        for (int k = 0; k < info(node.op).arity; ++k) {
          if (!isLabel(node.operands[static_cast<std::size_t>(k)]) || node.op == ScalarOp::Cast) continue;
          if (!equality) return std::nullopt;
          const ScalarNode& other = program[node.operands[static_cast<std::size_t>(1 - k)]];
          if (other.op != ScalarOp::Index) continue;
          const auto range = bounds(program[other.index], rangesOf(op));
          if (!range) return std::nullopt;
          compared = compared ? Range{std::min(compared->lo, range->lo), std::max(compared->hi, range->hi)} : *range;
        }
        if (node.op != ScalarOp::Load) continue;
        for (const AccessIndex& index : program[node.access].indices)
          if (index.isData() && isLabel(index.data)) return std::nullopt;
      }
    }
  }
  return compared;
}

}  // namespace

bool isLabels(const Program& program, TensorId tensor) { return comparedWith(program, tensor).has_value(); }

std::optional<std::string> strayLabel(const Program& program, TensorId tensor, const HostTensor& value) {
  const std::optional<Range> compared = comparedWith(program, tensor);
  if (!compared) return std::nullopt;
  for (std::int64_t i = 0, n = value.elements(); i < n; ++i) {
    const double v = value.at(i);
    if (v >= static_cast<double>(compared->lo) && v <= static_cast<double>(compared->hi)) continue;
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", v);
    return "element " + std::to_string(i) + " of `" + program[tensor].name + "` is " + text + ", and is compared with " +
           std::to_string(compared->lo) + ".." + std::to_string(compared->hi) + " only: it matches none";
  }
  return std::nullopt;
}

}  // namespace nf
