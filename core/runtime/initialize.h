// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ir/program.h"
#include "core/runtime/host_tensor.h"
#include "core/support/result.h"

namespace nf {

// The first value of a tensor: random ones from the seed, the tensor's name and the element's number alone, so that neither order
// nor thread count nor another tensor changes them; files relative to `directory`. Kaiming: normal, deviation sqrt(2 / fan in).
// Xavier: uniform, bound sqrt(6 / (fan in + fan out)). Tensors of kind Batch are fed by DataFeed and refused here.
// A stop ends it with stopped(), some milliseconds later at most.
Result<HostTensor> initialValue(const Tensor& tensor, std::uint64_t seed, const std::string& directory, std::stop_token stop = {});

// The same, of a tensor that no file gives its values, in parts of some megabytes: `take` has each once, in order, with the number of
// its first element. What the tensor as a whole takes is never held.
bool isGenerated(const Initializer& init);
Result<Unit> initialParts(const Tensor& tensor, std::uint64_t seed, std::stop_token stop,
                          const std::function<Result<Unit>(std::int64_t first, const HostTensor& part)>& take);

// Equal for tensors that are declared alike: type, shape and what they begin with. Stable between runs, as Hash is.
std::string declarationOf(const Tensor& tensor);

// A whole data file, by its kind.
Result<HostTensor> readData(const Initializer& source, const std::string& directory, std::stop_token stop = {});

// Data that comes with the program: "digits". nullopt: there is no such set. The bytes are the file's.
std::optional<std::string_view> bundledData(std::string_view name);

// `path` as a person wrote it, relative to the notebook's folder.
std::string resolvePath(const std::string& directory, const std::string& path);

// Integer tensors that index others are checked when they are loaded: every value in [0, extent) of each axis it indexes.
Result<Unit> checkIndexValues(const Program& program, TensorId tensor, const HostTensor& value, std::stop_token stop = {});

// A value of a tensor of labels, one that is only compared, which no index has that it is compared with: in a sentence.
bool isLabels(const Program& program, TensorId tensor);  // only such a tensor can have one
std::optional<std::string> strayLabel(const Program& program, TensorId tensor, const HostTensor& value);
using StrayLabels = std::vector<std::pair<std::string, OriginId>>;  // such sentences, and the tensors' origins

}  // namespace nf
