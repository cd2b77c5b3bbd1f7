// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/host_tensor.h"
#include "core/support/result.h"

// Data files. Reading trusts nothing: every length is checked before it is used, and what is wrong is an Error of stage
// "load data" that names the file; a stop ends it with stopped(). Element types: floating ones keep theirs; integers and booleans become i32 and must fit.
namespace nf {

using NamedTensors = std::vector<std::pair<std::string, HostTensor>>;

// Numbers separated by comma, semicolon or tab, one row a line, all of equal length; a first line without any number is a header.
// Gzip is recognised by its magic, not by name. A field that is no number is reported with line and column. Shape [rows, columns], f64.
Result<HostTensor> readCsv(const std::string& path, std::stop_token stop = {});
Result<HostTensor> readNpy(const std::string& path, std::stop_token stop = {});
Result<HostTensor> readNpz(const std::string& path, const std::string& member,
                           std::stop_token stop = {});  // stored and deflated ones
Result<NamedTensors> readNpzAll(const std::string& path);
Result<HostTensor> readIdx(const std::string& path, std::stop_token stop = {});  // MNIST's format; gzip too
Result<HostTensor> readSafetensors(const std::string& path, const std::string& name, std::stop_token stop = {});
Result<NamedTensors> readSafetensorsAll(const std::string& path);

// Written to a new file beside it, then renamed: a reader sees the old or the new one whole.
Result<Unit> writeNpy(const std::string& path, const HostTensor& tensor);     // bf16 is written as f32
Result<Unit> writeNpz(const std::string& path, const NamedTensors& tensors);  // stored members
Result<Unit> writeSafetensors(const std::string& path, const NamedTensors& tensors);
Result<Unit> writeFileAtomically(const std::string& path, std::string_view contents);

constexpr std::size_t kLargestFile = std::size_t{8} << 30;
Result<std::string> readFile(const std::string& path, std::size_t largest = kLargestFile, std::stop_token stop = {});

// The same on bytes in memory; `what` names them in errors.
Result<HostTensor> parseCsv(std::string_view bytes, const std::string& what, std::stop_token stop = {});
Result<HostTensor> parseNpy(std::string_view bytes, const std::string& what, std::stop_token stop = {});
Result<NamedTensors> parseNpz(std::string_view bytes, const std::string& what, const std::string* member = nullptr,
                              std::stop_token stop = {});
Result<HostTensor> parseIdx(std::string_view bytes, const std::string& what, std::stop_token stop = {});
Result<NamedTensors> parseSafetensors(std::string_view bytes, const std::string& what, const std::string* name = nullptr,
                                      std::stop_token stop = {});
std::string npyBytes(const HostTensor& tensor);
std::string safetensorsBytes(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata = {});
std::map<std::string, std::string> safetensorsMetadata(std::string_view bytes);  // of a file that parseSafetensors has read

}  // namespace nf
