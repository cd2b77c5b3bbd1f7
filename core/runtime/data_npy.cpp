// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "core/runtime/data_bytes.h"
#include "core/runtime/data_file.h"

// NumPy's .npy (format 1.0 to 3.0) and .npz, which is a zip archive of them.
namespace nf {
namespace {

static_assert(std::endian::native == std::endian::little, "storage is little-endian");

struct NpyHeader {
  FileType type = FileType::F32;
  bool bigEndian = false, columnMajor = false;
  std::vector<std::int64_t> shape;
};

// The header is a Python dictionary literal of three keys; this reads just that.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& what) : m_text(text), m_what(what) {}

  Result<NpyHeader> read() {
    NpyHeader header;
    bool type = false, order = false, shape = false;
    if (!take('{')) return problem();
    while (!take('}')) {
      const auto key = string();
      if (!key || !take(':')) return problem();
      if (*key == "descr") {
        const auto value = string();
        if (!value) return dataError(m_what, "holds records, not plain numbers");
        NF_TRY(header.type, fileType(*value, header.bigEndian));
        type = true;
      } else if (*key == "fortran_order") {
        if (word("True")) header.columnMajor = true;
        else if (!word("False")) return problem();
        order = true;
      } else if (*key == "shape") {
        if (!take('(')) return problem();
        while (!take(')')) {
          skip();
          std::int64_t extent = 0;
          const auto [end, code] = std::from_chars(m_text.data(), m_text.data() + m_text.size(), extent);
          if (code != std::errc{} || extent < 0 || header.shape.size() >= 64) return problem();
          m_text.remove_prefix(static_cast<std::size_t>(end - m_text.data()));
          header.shape.push_back(extent);
          take(',');
        }
        shape = true;
      } else {
        return problem();
      }
      take(',');
    }
    if (!type || !order || !shape) return problem();
    return header;
  }

 private:
  Error problem() const { return dataError(m_what, "the .npy header is damaged"); }
  void skip() {
    while (!m_text.empty() && (m_text.front() == ' ' || m_text.front() == '\n')) m_text.remove_prefix(1);
  }
  bool take(char c) {
    skip();
    if (m_text.empty() || m_text.front() != c) return false;
    m_text.remove_prefix(1);
    return true;
  }
  bool word(std::string_view w) {
    skip();
    if (m_text.substr(0, w.size()) != w) return false;
    m_text.remove_prefix(w.size());
    return true;
  }
  std::optional<std::string_view> string() {
    skip();
    if (m_text.empty() || (m_text.front() != '\'' && m_text.front() != '"')) return std::nullopt;
    const std::size_t end = m_text.find(m_text.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view value = m_text.substr(1, end - 1);
    m_text.remove_prefix(end + 1);
    return value;
  }
  Result<FileType> fileType(std::string_view descr, bool& big) const {
    big = !descr.empty() && descr.front() == '>';
    if (!descr.empty() && (descr.front() == '<' || descr.front() == '>' || descr.front() == '|' || descr.front() == '='))
      descr.remove_prefix(1);
    constexpr std::pair<std::string_view, FileType> kTypes[] = {
        {"f2", FileType::F16}, {"f4", FileType::F32}, {"f8", FileType::F64}, {"i1", FileType::I8},
        {"u1", FileType::U8},  {"i2", FileType::I16}, {"u2", FileType::U16}, {"i4", FileType::I32},
        {"u4", FileType::U32}, {"i8", FileType::I64}, {"u8", FileType::U64}, {"b1", FileType::Bool}};
    for (const auto& [text, type] : kTypes)
      if (descr == text) return type;
    return dataError(m_what, "elements of type \"" + std::string(descr.substr(0, 20)) + "\" cannot be read");
  }

  std::string_view m_text;
  const std::string& m_what;
};

struct ZipMember {
  std::string name;
  std::string_view data;  // packed
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  bool deflated = false;
};

Result<std::vector<ZipMember>> zipMembers(std::string_view bytes, const std::string& what) {
  const Error damaged = dataError(what, "is no .npz archive, or a damaged one");
  constexpr std::size_t kEnd = 22;
  if (bytes.size() < kEnd) return damaged;
  std::size_t end = bytes.size() - kEnd;
  for (const std::size_t lowest = end > 65535 ? end - 65535 : 0; littleEndian(bytes, end, 4) != 0x06054b50u; --end)
    if (end == lowest) return damaged;
  std::uint64_t count = littleEndian(bytes, end + 10, 2), directory = littleEndian(bytes, end + 16, 4);
  if ((count == 0xffff || directory == 0xffffffffu) && end >= 20 && littleEndian(bytes, end - 20, 4) == 0x07064b50u) {
    const std::uint64_t record = littleEndian(bytes, end - 20 + 8, 8);
    if (record > bytes.size() || bytes.size() - record < 56 || littleEndian(bytes, record, 4) != 0x06064b50u) return damaged;
    count = littleEndian(bytes, record + 32, 8);
    directory = littleEndian(bytes, record + 48, 8);
  }
  std::vector<ZipMember> members;
  std::uint64_t at = directory;
  for (std::uint64_t i = 0; i < count; ++i) {
    constexpr std::uint64_t kCentral = 46;
    if (at > bytes.size() || bytes.size() - at < kCentral || littleEndian(bytes, at, 4) != 0x02014b50u) return damaged;
    ZipMember member;
    const std::uint64_t method = littleEndian(bytes, at + 10, 2), nameLength = littleEndian(bytes, at + 28, 2),
                        extraLength = littleEndian(bytes, at + 30, 2), commentLength = littleEndian(bytes, at + 32, 2);
    std::uint64_t packed = littleEndian(bytes, at + 20, 4), offset = littleEndian(bytes, at + 42, 4);
    member.crc = static_cast<std::uint32_t>(littleEndian(bytes, at + 16, 4));
    member.size = littleEndian(bytes, at + 24, 4);
    if (bytes.size() - at < kCentral + nameLength + extraLength + commentLength) return damaged;
    member.name = bytes.substr(at + kCentral, nameLength);
    if (littleEndian(bytes, at + 8, 2) & 1u) return dataError(what, "member " + member.name + " is encrypted");
    // Zip64: the fields that did not fit stand in an extra record, in this order.
    std::string_view extra = bytes.substr(at + kCentral + nameLength, extraLength);
    while (extra.size() >= 4) {
      const std::size_t length = littleEndian(extra, 2, 2);
      if (extra.size() < 4 + length) return damaged;
      if (littleEndian(extra, 0, 2) == 1) {
        std::string_view fields = extra.substr(4, length);
        for (std::uint64_t* field : {&member.size, &packed, &offset})
          if (*field == 0xffffffffu) {
            if (fields.size() < 8) return damaged;
            *field = littleEndian(fields, 0, 8);
            fields.remove_prefix(8);
          }
      }
      extra.remove_prefix(4 + length);
    }
    constexpr std::uint64_t kLocal = 30;
    if (offset > bytes.size() || bytes.size() - offset < kLocal || littleEndian(bytes, offset, 4) != 0x04034b50u) return damaged;
    const std::uint64_t start = offset + kLocal + littleEndian(bytes, offset + 26, 2) + littleEndian(bytes, offset + 28, 2);
    if (start > bytes.size() || bytes.size() - start < packed) return damaged;
    if (method != 0 && method != 8) return dataError(what, "member " + member.name + " is packed in a way that cannot be read");
    member.deflated = method == 8;
    member.data = bytes.substr(start, packed);
    if (!member.deflated && member.size != packed) return damaged;
    members.push_back(std::move(member));
    at += kCentral + nameLength + extraLength + commentLength;
  }
  return members;
}

std::uint32_t crcOf(std::string_view bytes) {
  uLong crc = crc32(0, nullptr, 0);
  while (!bytes.empty()) {
    const std::size_t count = std::min<std::size_t>(bytes.size(), std::size_t{1} << 30);
    crc = crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(count));
    bytes.remove_prefix(count);
  }
  return static_cast<std::uint32_t>(crc);
}

}  // namespace

Result<HostTensor> parseNpy(std::string_view bytes, const std::string& what, std::stop_token stop) {
  if (bytes.size() < 10 || bytes.substr(0, 6) != "\x93NUMPY") return dataError(what, "is no .npy file");
  const int major = static_cast<unsigned char>(bytes[6]);
  const std::size_t lengthBytes = major == 1 ? 2 : 4;
  if (major < 1 || major > 3 || bytes.size() < 8 + lengthBytes) return dataError(what, "is of an unknown .npy version");
  const std::uint64_t length = littleEndian(bytes, 8, static_cast<int>(lengthBytes));
  const std::size_t start = 8 + lengthBytes;
  if (length > bytes.size() - start) return dataError(what, "ends within its header");
  NF_TRY(const NpyHeader header, HeaderReader(bytes.substr(start, length), what).read());
  const std::string_view data = bytes.substr(start + length);
  const auto elements = elementsOf(header.shape, bytesOf(header.type));
  if (!elements) return dataError(what, "the size of shape " + shapeText(header.shape) + " overflows");
  if (static_cast<std::uint64_t>(*elements * bytesOf(header.type)) > data.size())
    return dataError(what, "holds fewer values than its shape " + shapeText(header.shape) + " says");
  return decode(header.type, header.bigEndian, header.columnMajor, header.shape, data, what, stop);
}

Result<NamedTensors> parseNpz(std::string_view bytes, const std::string& what, const std::string* wanted, std::stop_token stop) {
  NF_TRY(const auto members, zipMembers(bytes, what));
  NamedTensors tensors;
  std::string names;
  for (const ZipMember& member : members) {
    std::string name = member.name;
    if (name.size() > 4 && name.ends_with(".npy")) name.resize(name.size() - 4);
    else if (!wanted) continue;
    names += (names.empty() ? "" : ", ") + name;
    if (wanted && name != *wanted) continue;
    const std::string label = what + ", member " + name;
    std::string unpacked;
    std::string_view data = member.data;
    if (member.deflated) {
      NF_TRY(unpacked, inflateRaw(member.data, member.size, label, stop));
      data = unpacked;
    }
    if (crcOf(data) != member.crc) return dataError(label, "the checksum does not match");
    NF_TRY(HostTensor tensor, parseNpy(data, label, stop));
    tensors.emplace_back(std::move(name), std::move(tensor));
    if (wanted) return tensors;
  }
  if (wanted) return dataError(what, "has no member \"" + *wanted + "\"; it has " + (names.empty() ? "none" : names));
  return tensors;
}

std::string npyBytes(const HostTensor& tensor) {
  if (tensor.type == DType::BF16) return npyBytes(converted(tensor, DType::F32));
  const char* descr = "<f4";
  switch (tensor.type) {
    case DType::F32:
    case DType::BF16: descr = "<f4"; break;
    case DType::F64: descr = "<f8"; break;
    case DType::F16: descr = "<f2"; break;
    case DType::I32: descr = "<i4"; break;
    case DType::Bool: descr = "|b1"; break;
    case DType::I64: descr = "<i8"; break;
  }
  std::string header = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t extent : tensor.shape) header += std::to_string(extent) + ", ";
  if (tensor.shape.size() > 1) header.resize(header.size() - 2);
  else if (tensor.shape.size() == 1) header.resize(header.size() - 1);
  header += "), }";
  constexpr std::size_t kPrefix = 10;
  header.append((64 - (kPrefix + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  appendLittleEndian(out, header.size(), 2);
  out += header;
  out.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return out;
}

Result<HostTensor> readNpy(const std::string& path, std::stop_token stop) {
  NF_TRY(const std::string bytes, readFile(path, kLargestFile, stop));
  return parseNpy(bytes, path, stop);
}

Result<HostTensor> readNpz(const std::string& path, const std::string& member, std::stop_token stop) {
  NF_TRY(const std::string bytes, readFile(path, kLargestFile, stop));
  NF_TRY(NamedTensors tensors, parseNpz(bytes, path, &member, stop));
  return std::move(tensors.front().second);
}

Result<NamedTensors> readNpzAll(const std::string& path) {
  NF_TRY(const std::string bytes, readFile(path));
  return parseNpz(bytes, path);
}

Result<Unit> writeNpy(const std::string& path, const HostTensor& tensor) { return writeFileAtomically(path, npyBytes(tensor)); }

Result<Unit> writeNpz(const std::string& path, const NamedTensors& tensors) {
  constexpr std::uint64_t kZip32 = 0xffffffffu;
  std::string out, directory;
  for (const auto& [name, tensor] : tensors) {
    const std::string data = npyBytes(tensor), file = name + ".npy";
    if (data.size() >= kZip32 || out.size() >= kZip32 || file.size() > 0xffff)
      return Error{"save", path + ": an .npz archive holds at most 4 GiB", {}, {}};
    std::string fields;  // common to the local and the central header: version, flags, stored, time, date, checksum, sizes, name
    appendLittleEndian(fields, 20, 2);
    appendLittleEndian(fields, 0x0800, 2);
    appendLittleEndian(fields, 0, 2);
    appendLittleEndian(fields, 0, 2);
    appendLittleEndian(fields, 0x21, 2);
    appendLittleEndian(fields, crcOf(data), 4);
    appendLittleEndian(fields, data.size(), 4);
    appendLittleEndian(fields, data.size(), 4);
    appendLittleEndian(fields, file.size(), 2);
    appendLittleEndian(fields, 0, 2);
    appendLittleEndian(directory, 0x02014b50u, 4);
    appendLittleEndian(directory, 20, 2);
    directory += fields;
    directory.append(10, '\0');
    appendLittleEndian(directory, out.size(), 4);
    directory += file;
    appendLittleEndian(out, 0x04034b50u, 4);
    out += fields + file + data;
  }
  if (out.size() >= kZip32 || tensors.size() >= 0xffff)
    return Error{"save", path + ": an .npz archive holds at most 4 GiB", {}, {}};
  const std::size_t start = out.size();
  out += directory;
  appendLittleEndian(out, 0x06054b50u, 4);
  appendLittleEndian(out, 0, 4);
  appendLittleEndian(out, tensors.size(), 2);
  appendLittleEndian(out, tensors.size(), 2);
  appendLittleEndian(out, directory.size(), 4);
  appendLittleEndian(out, start, 4);
  appendLittleEndian(out, 0, 2);
  return writeFileAtomically(path, out);
}

}  // namespace nf
