// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/runtime/data_bytes.h"
#include "core/runtime/data_file.h"

namespace nf {
namespace {

std::string_view trimmed(std::string_view field) {
  while (!field.empty() && (field.front() == ' ' || field.front() == '\r')) field.remove_prefix(1);
  while (!field.empty() && (field.back() == ' ' || field.back() == '\r')) field.remove_suffix(1);
  if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
  return field;
}

std::optional<double> number(std::string_view field) {
  field = trimmed(field);
  if (!field.empty() && field.front() == '+') field.remove_prefix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (code != std::errc{} || end != field.data() + field.size()) return std::nullopt;
  return value;
}

bool fitsNoDouble(std::string_view field) {
  field = trimmed(field);
  if (!field.empty() && field.front() == '+') field.remove_prefix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), value);
  return code == std::errc::result_out_of_range && end == field.data() + field.size();
}

// Of the field that begins at `at`: where it ends. In quotes a separator is a letter, and two quotes are one.
std::size_t endOfField(std::string_view line, std::size_t at, char separator) {
  const std::size_t begin = line.find_first_not_of(' ', at);
  if (begin == std::string_view::npos || line[begin] != '"') return line.find(separator, at);
  std::size_t close = line.find('"', begin + 1);
  while (close != std::string_view::npos && line.substr(close + 1, 1) == "\"") close = line.find('"', close + 2);
  return line.find(separator, close == std::string_view::npos ? at : close);
}

char separatorOf(std::string_view line) {
  for (const char separator : {',', ';', '\t'}) {
    bool inQuotes = false;
    for (const char c : line) {
      if (c == '"') inQuotes = !inQuotes;
      else if (c == separator && !inQuotes) return separator;
    }
  }
  return ',';
}

// "1,5", or what is left of 1,5;2,5 where the comma was taken for the separator: why the field is no number, as a clause.
std::string decimalComma(std::string_view field, char separator) {
  std::string point(trimmed(field));
  std::replace(point.begin(), point.end(), ',', '.');
  const bool comma = point.find('.') != std::string::npos && std::count(point.begin(), point.end(), '.') == 1 &&
                     trimmed(field).find(',') != std::string_view::npos && number(point);
  const std::size_t cut = field.find_first_of(";\t");
  const bool cutShort = separator == ',' && cut != std::string_view::npos && number(field.substr(0, cut));
  return comma || cutShort
             ? ": a decimal comma is not read, only a point, as in 1.5; fields stand between commas, semicolons or tabs"
             : "";
}

std::string quoted(std::string_view field) {
  std::string text = "\"";
  for (const char c : field.substr(0, 40))
    text += static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126 ? '?' : c;
  return text + (field.size() > 40 ? "...\"" : "\"");
}

}  // namespace

Result<HostTensor> parseCsv(std::string_view bytes, const std::string& what, std::stop_token stopping) {
  std::string unpacked;
  if (isGzip(bytes)) {
    NF_TRY(unpacked, gunzip(bytes, what, stopping));
    bytes = unpacked;
  }
  if (bytes.substr(0, 3) == "\xef\xbb\xbf") bytes.remove_prefix(3);
  std::vector<double> values;
  std::int64_t rows = 0, columns = 0, line = 0;
  char separator = 0;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view text = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (line++ % 1024 == 0 && stopping.stop_requested()) return stopped();
    if (trimmed(text).empty() || trimmed(text).front() == '#') continue;
    if (separator == 0) separator = separatorOf(text);
    const bool first = rows == 0 && columns == 0;
    std::int64_t column = 0, numbers = 0;
    Error wrong;
    std::size_t at = 0;
    while (true) {
      const std::size_t stop = endOfField(text, at, separator);
      const std::string_view field = text.substr(at, stop == std::string_view::npos ? stop : stop - at);
      ++column;
      if (const auto value = number(field)) {
        values.push_back(*value);
        ++numbers;
      } else if (wrong.message.empty()) {
        wrong =
            dataError(what, "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + quoted(trimmed(field)) +
                                (fitsNoDouble(field) ? " is beyond the range of double precision"
                                                     : " is no number" + decimalComma(field, separator)));
      }
      if (stop == std::string_view::npos) break;
      at = stop + 1;
    }
    if (!wrong.message.empty()) {
      if (first && numbers == 0) {  // a header
        columns = column;
        continue;
      }
      return wrong;
    }
    if (columns == 0) columns = column;
    if (column != columns)
      return dataError(what, "line " + std::to_string(line) + " has " + std::to_string(column) +
                                 (column == 1 ? " field" : " fields") + ", the lines before it have " + std::to_string(columns));
    ++rows;
  }
  if (rows == 0) return dataError(what, "holds no rows");
  HostTensor tensor = HostTensor::make(DType::F64, {rows, columns});
  std::memcpy(tensor.bytes.data(), values.data(), values.size() * sizeof(double));
  return tensor;
}

Result<HostTensor> readCsv(const std::string& path, std::stop_token stop) {
  NF_TRY(const std::string bytes, readFile(path, kLargestFile, stop));
  return parseCsv(bytes, path, stop);
}

}  // namespace nf
