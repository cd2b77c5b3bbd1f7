// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/host_tensor.h"
#include "core/support/result.h"

// What the readers of data files share.
namespace nf {

inline Error dataError(const std::string& what, const std::string& message) {
  return {"load data", (what.empty() ? std::string("\"\"") : what) + ": " + message, {}, {}};
}

// Element types as files store them.
enum class FileType : std::uint8_t { F16, BF16, F32, F64, I8, U8, I16, U16, I32, U32, I64, U64, Bool };
std::int64_t bytesOf(FileType type);
DType storedAs(FileType type);

// The product of the extents; nullopt when one is negative or the size in bytes does not fit.
std::optional<std::int64_t> elementsOf(const std::vector<std::int64_t>& shape, std::int64_t elementBytes);

// `data` holds exactly the elements of `shape`. Where an integer does not fit i32, all of them are f64, the nearest numbers.
Result<HostTensor> decode(FileType type, bool bigEndian, bool columnMajor, const std::vector<std::int64_t>& shape,
                          std::string_view data, const std::string& what, std::stop_token stop = {});

// Inflates gzip (several members too), or a raw deflate stream of known size.
Result<std::string> gunzip(std::string_view bytes, const std::string& what, std::stop_token stop = {});
Result<std::string> inflateRaw(std::string_view bytes, std::size_t size, const std::string& what, std::stop_token stop = {});
inline bool isGzip(std::string_view bytes) { return bytes.size() > 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b'; }

std::uint64_t littleEndian(std::string_view bytes, std::size_t at, int count);
std::uint64_t bigEndian(std::string_view bytes, std::size_t at, int count);
void appendLittleEndian(std::string& to, std::uint64_t value, int count);

}  // namespace nf
