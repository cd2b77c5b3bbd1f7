// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nf {

// What a person may be about to write at a place in the text. Lexical only, so that an editor asks at every key.
struct CompletionContext {
  enum class Kind : std::uint8_t {
    None,            // in a comment, Markdown, a string, a number
    Statement,       // where a statement begins: keywords, and names to define or call
    Expression,      // names of tensors, extents, indices, functions
    Type,            // after `:` of a declaration
    Initializer,     // after `=` of input, param, const, state
    Attribute,       // inside the braces of train or data
    AttributeValue,  // after `optimizer =`, `mode =`, `device =` of train
    Hint,            // after `hint`
    NewName,         // a name that does not exist yet: nothing to offer
  };
  Kind kind = Kind::None;
  std::uint32_t begin = 0, end = 0;  // bytes of the word that a choice replaces
  std::string prefix;                // its part before the cursor
  std::string owner;                 // Attribute: "train" or "data"
  std::string attribute;             // AttributeValue: its name
  // The innermost call around the cursor, for its signature.
  struct Call {
    std::string function;
    std::uint32_t argument = 0;  // from 0
  };
  std::optional<Call> call;
};

CompletionContext completionContext(std::string_view text, std::uint32_t cursor);

// Words the language itself offers there, sorted: keywords, types, initial values, attributes, functions of numbers.
std::vector<std::string_view> languageWords(const CompletionContext& context);

// Is it written before round brackets alone? `exp`, `normal`, `adam`; not `sum`, nor `max`, which is a reduction, too.
bool isCall(std::string_view languageWord);

// The indices in use in the statement around the cursor, in order of their first place: the plain names inside its brackets.
std::vector<std::string_view> indicesAround(std::string_view text, std::uint32_t cursor);

}  // namespace nf
