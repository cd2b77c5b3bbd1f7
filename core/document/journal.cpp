// SPDX-License-Identifier: Apache-2.0
#include "core/document/journal.h"

#include <algorithm>
#include <charconv>

namespace nf {
namespace {

constexpr std::string_view kMagic = "neoflow journal 2\n";

std::vector<std::string_view> linesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    std::string_view line = text.substr(0, end);
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(end);
  }
  return lines;
}

// The number up to `stop`, which is taken off too.
std::optional<std::uint64_t> takeNumber(std::string_view& bytes, char stop, int base = 10) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), value, base);
  if (error != std::errc() || end == bytes.data() + bytes.size() || *end != stop) return std::nullopt;
  bytes.remove_prefix(static_cast<std::size_t>(end - bytes.data()) + 1);
  return value;
}

std::string hex(std::uint64_t value) {
  char text[17];
  const auto end = std::to_chars(text, text + sizeof text, value, 16).ptr;
  return std::string(text, end);
}

// The bytes that sized() wrote.
std::optional<std::string> takeSized(std::string_view& bytes) {
  const auto length = takeNumber(bytes, ' ');
  if (!length || *length >= bytes.size() || bytes[*length] != '\n') return std::nullopt;
  std::string out(bytes.substr(0, *length));
  bytes.remove_prefix(*length + 1);
  return out;
}

std::string sized(std::string_view bytes) { return std::to_string(bytes.size()).append(" ").append(bytes).append("\n"); }

}  // namespace

Hash hashOf(std::string_view bytes) { return Hasher().add(bytes).finish(); }

std::string toBytes(const Journal& journal) {
  std::string body = sized(journal.path) + hex(journal.onDisk.low) + " " + hex(journal.onDisk.high) + " " +
                     std::to_string(journal.revision) + "\n";
  const History& h = journal.history;
  body +=
      std::to_string(h.steps.size()) + " " + std::to_string(h.done) + " " + (h.saved ? std::to_string(*h.saved + 1) : "0") + "\n";
  for (const History::Step& step : h.steps)
    body += std::to_string(step.edit.begin) + " " + (step.typing ? "1 " : "0 ") + sized(step.edit.removed) +
            sized(step.edit.inserted) + sized(step.label);
  body += journal.text;
  const Hash check = hashOf(body);
  return std::string(kMagic) + hex(check.low) + " " + hex(check.high) + "\n" + body;
}

std::optional<Journal> journalFrom(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return std::nullopt;
  bytes.remove_prefix(kMagic.size());
  const auto low = takeNumber(bytes, ' ', 16), high = takeNumber(bytes, '\n', 16);
  if (!low || !high || hashOf(bytes) != Hash{*low, *high}) return std::nullopt;
  Journal out;
  const auto path = takeSized(bytes);
  if (!path) return std::nullopt;
  out.path = *path;
  const auto diskLow = takeNumber(bytes, ' ', 16), diskHigh = takeNumber(bytes, ' ', 16), revision = takeNumber(bytes, '\n');
  if (!diskLow || !diskHigh || !revision) return std::nullopt;
  out.onDisk = {*diskLow, *diskHigh};
  out.revision = *revision;
  const auto steps = takeNumber(bytes, ' '), done = takeNumber(bytes, ' '), saved = takeNumber(bytes, '\n');
  if (!steps || !done || !saved) return std::nullopt;
  out.history.done = *done;
  out.history.saved = *saved == 0 ? std::nullopt : std::optional<std::size_t>(*saved - 1);
  for (std::uint64_t i = 0; i < *steps; ++i) {
    const auto begin = takeNumber(bytes, ' '), typing = takeNumber(bytes, ' ');
    const auto removed = takeSized(bytes), inserted = takeSized(bytes), label = takeSized(bytes);
    if (!begin || !typing || !removed || !inserted || !label) return std::nullopt;
    out.history.steps.push_back({{*begin, *removed, *inserted}, *label, *typing == 1});
  }
  out.text = bytes;
  return out;
}

std::vector<DiffLine> diffLines(std::string_view before, std::string_view after) {
  const auto a = linesOf(before), b = linesOf(after);
  std::size_t head = 0, tail = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
  while (tail < a.size() - head && tail < b.size() - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  std::vector<DiffLine> out;
  const auto put = [&](DiffLine::Kind kind, std::string_view text) { out.push_back({kind, std::string(text)}); };
  for (std::size_t i = 0; i < head; ++i) put(DiffLine::Kind::Same, a[i]);
  const std::size_t n = a.size() - head - tail, m = b.size() - head - tail;
  // Longest common subsequence; past 4e6 pairs the middle is shown as all removed, all added.
  std::vector<std::uint32_t> longest;
  const bool exact = n * m <= 4000000;
  const auto at = [&](std::size_t i, std::size_t j) -> std::uint32_t& { return longest[i * (m + 1) + j]; };
  if (exact) {
    longest.assign((n + 1) * (m + 1), 0);
    for (std::size_t i = n; i-- > 0;)
      for (std::size_t j = m; j-- > 0;)
        at(i, j) = a[head + i] == b[head + j] ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
  }
  std::size_t i = 0, j = 0;
  while (i < n || j < m) {
    if (exact && i < n && j < m && a[head + i] == b[head + j]) {
      put(DiffLine::Kind::Same, a[head + i]);
      ++i, ++j;
    } else if (i < n && (!exact || j == m || at(i + 1, j) >= at(i, j + 1))) {
      put(DiffLine::Kind::Removed, a[head + i++]);
    } else {
      put(DiffLine::Kind::Added, b[head + j++]);
    }
  }
  for (std::size_t k = a.size() - tail; k < a.size(); ++k) put(DiffLine::Kind::Same, a[k]);
  return out;
}

}  // namespace nf
