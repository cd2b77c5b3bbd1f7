// SPDX-License-Identifier: Apache-2.0
#include "plugins/llvm/text.h"

#include <charconv>
#include <map>

#include <llvm/IR/InstIterator.h>
#include <llvm/Support/raw_ostream.h>

namespace nf::codegen {
namespace {

// "!12 = !DILocation(line: 7, ..." of a printed module or ".loc 1 7 0" of assembly: which line of the loops a line comes from.
using LineOrigins = std::vector<std::vector<OriginId>>;

const std::vector<OriginId>* originsAt(const loop::LoopText& loops, std::size_t line) {
  return line >= 1 && line <= loops.lineOrigins.size() ? &loops.lineOrigins[line - 1] : nullptr;
}

template <class OfLine>
LineOrigins mapLines(const std::string& text, OfLine&& ofLine) {
  LineOrigins result;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::vector<OriginId>* origins = ofLine(std::string_view(text).substr(begin, end - begin));
    result.push_back(origins ? *origins : std::vector<OriginId>{});
    begin = end + 1;
  }
  return result;
}

std::size_t numberAfter(std::string_view line, std::string_view mark, std::size_t from = 0) {
  const std::size_t at = line.find(mark, from);
  if (at == std::string_view::npos) return 0;
  std::size_t number = 0;
  std::from_chars(line.data() + at + mark.size(), line.data() + line.size(), number);
  return number;
}

bool isKnown(const llvm::DebugLoc& location) { return location && location.getLine() != 0; }

}  // namespace

DebugLocations::DebugLocations(llvm::Module& module) {
  for (llvm::Function& f : module)
    for (llvm::Instruction& i : llvm::instructions(f))
      if (isKnown(i.getDebugLoc())) m_locations.emplace_back(&i, i.getDebugLoc());
}

void DebugLocations::restore() {
  for (const auto& [value, location] : m_locations)
    if (auto* instruction = llvm::cast_or_null<llvm::Instruction>(value); instruction && !isKnown(instruction->getDebugLoc()))
      instruction->setDebugLoc(location);
}

KernelText moduleText(const llvm::Module& module, const loop::LoopText& loops) {
  KernelText result;
  llvm::raw_string_ostream out(result.text);
  module.print(out, nullptr);
  out.flush();
  std::map<std::size_t, std::size_t> lineOf;  // metadata number -> line of the loops
  mapLines(result.text, [&](std::string_view line) -> const std::vector<OriginId>* {
    if (line.size() > 1 && line[0] == '!' && line.find("!DILocation(line: ") != std::string_view::npos)
      lineOf[numberAfter(line, "!")] = numberAfter(line, "(line: ");
    return nullptr;
  });
  result.lineOrigins = mapLines(result.text, [&](std::string_view line) -> const std::vector<OriginId>* {
    if (line.find(", !dbg !") == std::string_view::npos) return nullptr;
    const auto found = lineOf.find(numberAfter(line, ", !dbg !"));
    return found == lineOf.end() ? nullptr : originsAt(loops, found->second);
  });
  return result;
}

KernelText assemblyText(std::string text, const loop::LoopText& loops) {
  KernelText result;
  result.text = std::move(text);
  std::size_t current = 0;
  result.lineOrigins = mapLines(result.text, [&](std::string_view line) -> const std::vector<OriginId>* {
    const std::size_t loc = line.find("\t.loc\t");
    if (loc != std::string_view::npos) {
      const std::size_t space = line.find(' ', loc + 6);
      current = space == std::string_view::npos ? 0 : numberAfter(line, " ", space);
      return nullptr;
    }
    if (line.starts_with(".visible")) current = 0;  // PTX: the next kernel's parameters
    const bool instruction = line.size() > 1 && line[0] == '\t' && std::string_view(".#/").find(line[1]) == std::string_view::npos;
    return instruction ? originsAt(loops, current) : nullptr;
  });
  return result;
}

}  // namespace nf::codegen
