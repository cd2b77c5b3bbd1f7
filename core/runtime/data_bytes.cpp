// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/data_bytes.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/support/checked.h"

namespace nf {
namespace {

constexpr std::size_t kLargestInflated = std::size_t{8} << 30;

struct Inflater {
  z_stream stream{};
  bool open = false;
  explicit Inflater(int windowBits) { open = inflateInit2(&stream, windowBits) == Z_OK; }
  ~Inflater() {
    if (open) inflateEnd(&stream);
  }
};

// Inflates everything, members after one another when `concatenated`.
Result<std::string> inflateAll(std::string_view bytes, int windowBits, bool concatenated, std::size_t largest,
                               const std::string& what, const std::stop_token& stop) {
  Inflater inflater(windowBits);
  if (!inflater.open) return dataError(what, "the decompressor could not start");
  z_stream& z = inflater.stream;
  std::string out;
  std::vector<char> chunk(std::size_t{1} << 18);
  std::size_t at = 0;
  while (true) {
    if (stop.stop_requested()) return stopped();
    if (z.avail_in == 0 && at < bytes.size()) {
      const std::size_t count = std::min<std::size_t>(bytes.size() - at, std::size_t{1} << 30);
      z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + at));
      z.avail_in = static_cast<uInt>(count);
      at += count;
    }
    z.next_out = reinterpret_cast<Bytef*>(chunk.data());
    z.avail_out = static_cast<uInt>(chunk.size());
    const int code = inflate(&z, Z_NO_FLUSH);
    out.append(chunk.data(), chunk.size() - z.avail_out);
    if (out.size() > largest) return dataError(what, "unpacks to more than expected");
    if (code == Z_STREAM_END) {
      const bool more = z.avail_in > 0 || at < bytes.size();
      if (!concatenated || !more) return out;
      inflateReset(&z);
      continue;
    }
    if (code == Z_BUF_ERROR || (code == Z_OK && z.avail_in == 0 && at == bytes.size() && z.avail_out > 0))
      return dataError(what, "the compressed data ends too early");
    if (code != Z_OK)
      return dataError(what, std::string("the compressed data is damaged") + (z.msg ? std::string(" (") + z.msg + ")" : ""));
  }
}

}  // namespace

std::int64_t bytesOf(FileType type) {
  switch (type) {
    case FileType::I8:
    case FileType::U8:
    case FileType::Bool: return 1;
    case FileType::F16:
    case FileType::BF16:
    case FileType::I16:
    case FileType::U16: return 2;
    case FileType::F32:
    case FileType::I32:
    case FileType::U32: return 4;
    case FileType::F64:
    case FileType::I64:
    case FileType::U64: return 8;
  }
  return 1;
}

DType storedAs(FileType type) {
  switch (type) {
    case FileType::F16: return DType::F16;
    case FileType::BF16: return DType::BF16;
    case FileType::F32: return DType::F32;
    case FileType::F64: return DType::F64;
    case FileType::I8:
    case FileType::U8:
    case FileType::I16:
    case FileType::U16:
    case FileType::I32:
    case FileType::U32:
    case FileType::I64:
    case FileType::U64:
    case FileType::Bool: return DType::I32;
  }
  return DType::F32;
}

std::optional<std::int64_t> elementsOf(const std::vector<std::int64_t>& shape, std::int64_t elementBytes) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    const auto product = checkedMul(count, extent);
    if (!product) return std::nullopt;
    count = *product;
  }
  if (!checkedMul(count, std::max<std::int64_t>(elementBytes, 8))) return std::nullopt;
  return count;
}

std::uint64_t littleEndian(std::string_view bytes, std::size_t at, int count) {
  std::uint64_t value = 0;
  for (int i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  return value;
}

std::uint64_t bigEndian(std::string_view bytes, std::size_t at, int count) {
  std::uint64_t value = 0;
  for (int i = 0; i < count; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  return value;
}

void appendLittleEndian(std::string& to, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) to.push_back(static_cast<char>(value >> (8 * i) & 255u));
}

namespace {

// Bits of an integer of a file, as a number of 64 bits; those of a u64 are for the caller.
std::int64_t integerOf(FileType type, std::uint64_t bits) {
  switch (type) {
    case FileType::I8: return static_cast<std::int8_t>(bits);
    case FileType::I16: return static_cast<std::int16_t>(bits);
    case FileType::I32: return static_cast<std::int32_t>(bits);
    case FileType::Bool: return bits != 0;
    case FileType::I64:
    case FileType::U8:
    case FileType::U16:
    case FileType::U32:
    case FileType::U64:
    case FileType::F16:
    case FileType::BF16:
    case FileType::F32:
    case FileType::F64: break;
  }
  return static_cast<std::int64_t>(bits);
}

bool fits32Bits(FileType type, std::uint64_t bits) {
  if (type == FileType::U64) return bits <= 0x7fffffffu;
  const std::int64_t value = integerOf(type, bits);
  return value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace

Result<HostTensor> decode(FileType type, bool big, bool columnMajor, const std::vector<std::int64_t>& shape, std::string_view data,
                          const std::string& what, std::stop_token stop) {
  const std::int64_t size = bytesOf(type);
  const auto elements = elementsOf(shape, size);
  if (!elements) return dataError(what, "the size of shape " + shapeText(shape) + " overflows");
  const std::int64_t count = *elements;
  const auto bitsAt = [&](std::int64_t element) {
    const auto at = static_cast<std::size_t>(element * size);
    return big ? bigEndian(data, at, static_cast<int>(size)) : littleEndian(data, at, static_cast<int>(size));
  };
  const bool integers = storedAs(type) == DType::I32;
  DType stored = storedAs(type);
  if (integers && size >= 4 && type != FileType::I32)
    for (std::int64_t i = 0; i < count && stored == DType::I32; ++i) {
      if (i % kElementsBetweenStops == 0 && stop.stop_requested()) return stopped();
      if (!fits32Bits(type, bitsAt(i))) stored = DType::F64;
    }
  NF_TRY(HostTensor tensor, HostTensor::zeros(stored, shape, stop));
  std::vector<std::int64_t> strides(shape.size(), 1);  // of the file, in elements
  for (std::size_t i = 1; i < shape.size(); ++i) strides[i] = strides[i - 1] * shape[i - 1];
  std::vector<std::int64_t> point(shape.size(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % kElementsBetweenStops == 0 && stop.stop_requested()) return stopped();
    std::int64_t from = i;
    if (columnMajor) {
      from = 0;
      for (std::size_t d = 0; d < shape.size(); ++d) from += point[d] * strides[d];
      for (std::size_t d = shape.size(); d-- > 0;) {
        if (++point[d] < shape[d]) break;
        point[d] = 0;
      }
    }
    const std::uint64_t bits = bitsAt(from);
    std::byte* const to = tensor.bytes.data() + i * bytesOf(stored);
    if (!integers) {
      std::memcpy(to, &bits, static_cast<std::size_t>(size));
    } else if (stored == DType::F64) {
      const double number = type == FileType::U64 ? static_cast<double>(bits) : static_cast<double>(integerOf(type, bits));
      std::memcpy(to, &number, sizeof number);
    } else {
      const auto narrow = static_cast<std::int32_t>(integerOf(type, bits));
      std::memcpy(to, &narrow, sizeof narrow);
    }
  }
  return tensor;
}

Result<std::string> gunzip(std::string_view bytes, const std::string& what, std::stop_token stop) {
  return inflateAll(bytes, 15 + 16, true, kLargestInflated, what, stop);
}

Result<std::string> inflateRaw(std::string_view bytes, std::size_t size, const std::string& what, std::stop_token stop) {
  if (size > kLargestInflated) return dataError(what, "is larger than 8 GiB");
  NF_TRY(std::string out, inflateAll(bytes, -15, false, size, what, stop));
  if (out.size() != size) return dataError(what, "unpacks to another size than its directory says");
  return out;
}

}  // namespace nf
