// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/runtime/data_bytes.h"

namespace nf {
namespace {

struct FileDescriptor {
  int fd;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Error saveError(const std::string& path, const std::string& what) {
  return {"save", path + ": " + what + " (" + std::strerror(errno) + ")", {}, {}};
}

std::optional<FileType> safetensorsType(std::string_view name) {
  constexpr std::pair<std::string_view, FileType> kTypes[] = {
      {"F16", FileType::F16}, {"BF16", FileType::BF16}, {"F32", FileType::F32},  {"F64", FileType::F64}, {"I8", FileType::I8},
      {"U8", FileType::U8},   {"I16", FileType::I16},   {"U16", FileType::U16},  {"I32", FileType::I32}, {"U32", FileType::U32},
      {"I64", FileType::I64}, {"U64", FileType::U64},   {"BOOL", FileType::Bool}};
  for (const auto& [text, type] : kTypes)
    if (name == text) return type;
  return std::nullopt;
}

const char* safetensorsName(DType type) {
  switch (type) {
    case DType::F32: return "F32";
    case DType::F64: return "F64";
    case DType::F16: return "F16";
    case DType::BF16: return "BF16";
    case DType::I32: return "I32";
    case DType::Bool: return "BOOL";
    case DType::I64: return "I64";
  }
  return "F32";
}

}  // namespace

Result<std::string> readFile(const std::string& path, std::size_t largest, std::stop_token stop) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) return dataError(path, "is a socket, a file was expected");
  // Not blocking: opening a pipe would wait for who writes it.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return dataError(path, std::string("cannot be opened (") + std::strerror(errno) + ")");
  if (::fstat(file.fd, &status) != 0 || S_ISDIR(status.st_mode)) return dataError(path, "is a folder, a file was expected");
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) return dataError(path, "is a device, a file was expected");
  if (S_ISFIFO(status.st_mode)) return dataError(path, "is a pipe, a file was expected");
  std::string bytes;
  if (S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) <= largest)
    bytes.reserve(static_cast<std::size_t>(status.st_size));
  std::vector<char> chunk(std::size_t{1} << 18);
  while (true) {
    if (stop.stop_requested()) return stopped();
    const ssize_t count = ::read(file.fd, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return dataError(path, std::string("cannot be read (") + std::strerror(errno) + ")");
    if (count == 0) return bytes;
    bytes.append(chunk.data(), static_cast<std::size_t>(count));
    if (bytes.size() > largest) return dataError(path, "is larger than " + std::to_string(largest >> 20) + " MiB");
  }
}

Result<Unit> writeFileAtomically(const std::string& path, std::string_view contents) {
  const std::string fresh = path + ".new-" + std::to_string(::getpid());
  {
    const FileDescriptor file{::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (file.fd < 0) return saveError(path, "cannot be written");
    while (!contents.empty()) {
      const ssize_t count = ::write(file.fd, contents.data(), std::min<std::size_t>(contents.size(), std::size_t{1} << 30));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        const Error error = saveError(path, "cannot be written");
        ::unlink(fresh.c_str());
        return error;
      }
      contents.remove_prefix(static_cast<std::size_t>(count));
    }
    if (::fsync(file.fd) != 0 && errno != EINVAL && errno != EROFS) {
      const Error error = saveError(path, "cannot be written");
      ::unlink(fresh.c_str());
      return error;
    }
  }
  if (::rename(fresh.c_str(), path.c_str()) != 0) {
    const Error error = saveError(path, "cannot be replaced");
    ::unlink(fresh.c_str());
    return error;
  }
  return Unit{};
}

Result<HostTensor> parseIdx(std::string_view bytes, const std::string& what, std::stop_token stop) {
  std::string unpacked;
  if (isGzip(bytes)) {
    NF_TRY(unpacked, gunzip(bytes, what, stop));
    bytes = unpacked;
  }
  if (bytes.size() < 4 || bytes[0] != 0 || bytes[1] != 0) return dataError(what, "is no IDX file");
  FileType type = FileType::U8;
  switch (static_cast<unsigned char>(bytes[2])) {
    case 0x08: type = FileType::U8; break;
    case 0x09: type = FileType::I8; break;
    case 0x0b: type = FileType::I16; break;
    case 0x0c: type = FileType::I32; break;
    case 0x0d: type = FileType::F32; break;
    case 0x0e: type = FileType::F64; break;
    default: return dataError(what, "has elements of an unknown IDX type");
  }
  const std::size_t rank = static_cast<unsigned char>(bytes[3]), start = 4 + 4 * rank;
  if (bytes.size() < start) return dataError(what, "ends within its header");
  std::vector<std::int64_t> shape;
  for (std::size_t d = 0; d < rank; ++d) shape.push_back(static_cast<std::int64_t>(bigEndian(bytes, 4 + 4 * d, 4)));
  const auto elements = elementsOf(shape, bytesOf(type));
  if (!elements) return dataError(what, "the size of shape " + shapeText(shape) + " overflows");
  if (static_cast<std::uint64_t>(*elements * bytesOf(type)) > bytes.size() - start)
    return dataError(what, "holds fewer values than its shape " + shapeText(shape) + " says");
  return decode(type, true, false, shape, bytes.substr(start), what, stop);
}

Result<HostTensor> readIdx(const std::string& path, std::stop_token stop) {
  NF_TRY(const std::string bytes, readFile(path, kLargestFile, stop));
  return parseIdx(bytes, path, stop);
}

Result<NamedTensors> parseSafetensors(std::string_view bytes, const std::string& what, const std::string* wanted,
                                      std::stop_token stop) {
  if (bytes.size() < 8) return dataError(what, "is no safetensors file");
  const std::uint64_t length = littleEndian(bytes, 0, 8);
  if (length > bytes.size() - 8 || length > (100u << 20)) return dataError(what, "is no safetensors file, or a damaged one");
  // Nested far deeper than any real header: refused before the parser meets it.
  const std::string_view text = bytes.substr(8, length);
  int depth = 0;
  for (const char c : text) {
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (depth > 16) return dataError(what, "has a damaged header");
  }
  const auto header = nlohmann::json::parse(text, nullptr, false);
  if (!header.is_object()) return dataError(what, "has a damaged header");
  const std::string_view data = bytes.substr(8 + length);
  NamedTensors tensors;
  std::string names;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    names += (names.empty() ? "" : ", ") + name;
    const std::string label = what + ", tensor " + name;
    if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() || !entry.contains("shape") ||
        !entry["shape"].is_array() || !entry.contains("data_offsets") || !entry["data_offsets"].is_array() ||
        entry["data_offsets"].size() != 2)
      return dataError(label, "has a damaged header");
    const auto& offsets = entry["data_offsets"];
    if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) return dataError(label, "has a damaged header");
    const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
    // A file that was cut is damaged whichever of its tensors is asked for.
    if (end > data.size())
      return dataError(label, "its data ends at byte " + std::to_string(end) + ", the file's at byte " +
                                  std::to_string(data.size()) + ": the file is cut off or damaged");
    if (wanted && name != *wanted) continue;
    const auto type = safetensorsType(entry["dtype"].get<std::string>());
    if (!type) return dataError(label, "elements of type " + entry["dtype"].get<std::string>() + " cannot be read");
    std::vector<std::int64_t> shape;
    for (const auto& extent : entry["shape"]) {
      if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > (std::uint64_t{1} << 62))
        return dataError(label, "has a damaged shape");
      shape.push_back(extent.get<std::int64_t>());
    }
    const auto elements = elementsOf(shape, bytesOf(*type));
    if (!elements || begin > end || static_cast<std::uint64_t>(*elements * bytesOf(*type)) != end - begin)
      return dataError(label, "its shape " + shapeText(shape) + " does not fit its data");
    NF_TRY(HostTensor tensor, decode(*type, false, false, shape, data.substr(begin, end - begin), label, stop));
    tensors.emplace_back(name, std::move(tensor));
  }
  if (wanted && tensors.empty())
    return dataError(what, "has no tensor \"" + *wanted + "\"; it has " + (names.empty() ? "none" : names));
  return tensors;
}

Result<HostTensor> readSafetensors(const std::string& path, const std::string& name, std::stop_token stop) {
  NF_TRY(const std::string bytes, readFile(path, kLargestFile, stop));
  NF_TRY(NamedTensors tensors, parseSafetensors(bytes, path, &name, stop));
  return std::move(tensors.front().second);
}

Result<NamedTensors> readSafetensorsAll(const std::string& path) {
  NF_TRY(const std::string bytes, readFile(path));
  return parseSafetensors(bytes, path);
}

std::map<std::string, std::string> safetensorsMetadata(std::string_view bytes) {
  std::map<std::string, std::string> metadata;
  if (bytes.size() < 8 || littleEndian(bytes, 0, 8) > bytes.size() - 8) return metadata;
  const auto header = nlohmann::json::parse(bytes.substr(8, littleEndian(bytes, 0, 8)), nullptr, false);
  if (!header.is_object() || !header.contains("__metadata__") || !header["__metadata__"].is_object()) return metadata;
  for (const auto& [key, value] : header["__metadata__"].items())
    if (value.is_string()) metadata[key] = value.get<std::string>();
  return metadata;
}

std::string safetensorsBytes(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {
        {"dtype", safetensorsName(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string out;
  appendLittleEndian(out, text.size(), 8);
  out += text;
  for (const auto& entry : tensors) out.append(reinterpret_cast<const char*>(entry.second.bytes.data()), entry.second.bytes.size());
  return out;
}

Result<Unit> writeSafetensors(const std::string& path, const NamedTensors& tensors) {
  return writeFileAtomically(path, safetensorsBytes(tensors));
}

}  // namespace nf
