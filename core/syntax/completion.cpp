// SPDX-License-Identifier: Apache-2.0
#include "core/syntax/completion.h"

#include <algorithm>
#include <array>

#include "core/syntax/lexer.h"

namespace nf {
namespace {

constexpr std::array<std::string_view, 18> kStatementWords{"const",   "data",  "def",   "eval",  "for",   "hint",
                                                           "if",      "input", "let",   "loss",  "param", "repeat",
                                                           "require", "show",  "stack", "state", "train", "accumulate"};
constexpr std::array<std::string_view, 5> kTypes{"bf16", "f16", "f32", "f64", "i32"};
constexpr std::array<std::string_view, 11> kInitializers{"batch", "csv",         "idx",     "kaiming", "normal", "npy",
                                                         "npz",   "safetensors", "uniform", "xavier",  "zeros"};
constexpr std::array<std::string_view, 9> kTrain{"batch", "clip", "device", "epochs", "mode", "optimizer", "seed", "steps", "wrt"};
constexpr std::array<std::string_view, 1> kData{"split"};
constexpr std::array<std::string_view, 3> kOptimizers{"adam", "momentum", "sgd"};
constexpr std::array<std::string_view, 2> kModes{"dynamic", "static"};
constexpr std::array<std::string_view, 4> kDevices{"auto", "cpu", "cuda", "reference"};
constexpr std::array<std::string_view, 3> kHints{"fuse", "schedule", "split"};
constexpr std::array<std::string_view, 32> kExpression{
    "abs",    "and",  "argmax", "argmin", "cos",     "else", "erf",  "exp", "f16",  "f32",     "float",
    "floor",  "grad", "i32",    "log",    "max",     "mean", "min",  "not", "or",   "pow",     "prod",
    "random", "relu", "rsqrt",  "select", "sigmoid", "sin",  "sqrt", "sum", "tanh", "training"};

constexpr std::array<std::string_view, 27> kCalls{"abs",     "adam", "cos",     "csv",   "erf",         "exp",    "floor",
                                                  "grad",    "idx",  "kaiming", "log",   "momentum",    "normal", "npy",
                                                  "npz",     "pow",  "relu",    "rsqrt", "safetensors", "select", "sgd",
                                                  "sigmoid", "sin",  "sqrt",    "tanh",  "uniform",     "xavier"};

// A line that ends with this goes on in the next one.
bool continues(TokenKind last) {
  switch (last) {
    case TokenKind::Plus:
    case TokenKind::Minus:
    case TokenKind::Star:
    case TokenKind::Slash:
    case TokenKind::SlashSlash:
    case TokenKind::Percent:
    case TokenKind::Caret:
    case TokenKind::Assign:
    case TokenKind::AddAssign:
    case TokenKind::Becomes:
    case TokenKind::Comma:
    case TokenKind::Less:
    case TokenKind::LessEqual:
    case TokenKind::Greater:
    case TokenKind::GreaterEqual:
    case TokenKind::EqualEqual:
    case TokenKind::NotEqual: return true;
    default: return false;
  }
}

// The statement around the cursor: its tokens before it.
struct Before {
  std::vector<Token> tokens;      // of the statement, up to the cursor, the word at hand left out
  std::vector<std::size_t> open;  // positions in `tokens` of brackets that are open
};

}  // namespace

CompletionContext completionContext(std::string_view text, std::uint32_t cursor) {
  CompletionContext context;
  cursor = std::min<std::uint32_t>(cursor, static_cast<std::uint32_t>(text.size()));
  context.begin = context.end = cursor;
  const LexResult lexed = lex(text, SourceId());
  const auto word = [&](const Token& t) { return text.substr(t.begin, t.end - t.begin); };

  Before before;
  const auto reset = [&](std::size_t keep) {
    before.tokens.resize(keep);
    while (!before.open.empty() && before.open.back() >= keep) before.open.pop_back();
  };
  for (const Token& t : lexed.tokens) {
    if (t.kind == TokenKind::End || t.begin >= cursor) break;
    if (t.kind == TokenKind::CellMarker) {
      if (cursor <= t.end) return context;
      reset(0);
      continue;
    }
    if (t.kind == TokenKind::Comment || t.kind == TokenKind::Markdown) {
      // A cursor at the very end of a comment's line is still in the comment.
      if (cursor <= t.end) return context;
      continue;
    }
    const bool touches = cursor <= t.end;
    if (touches && (t.kind == TokenKind::String || t.kind == TokenKind::Number || t.kind == TokenKind::QuotedName)) return context;
    const bool isWord = t.kind == TokenKind::Name || t.kind == TokenKind::Keyword || t.kind == TokenKind::Reducer;
    // A new line outside of ( and [ begins a statement; one inside braces belongs to the block.
    const bool inParens = !before.open.empty() && before.tokens[before.open.back()].kind != TokenKind::LeftBrace;
    const bool goesOn = !before.tokens.empty() && continues(before.tokens.back().kind);
    if ((t.newlineBefore && !inParens && !goesOn) ||
        (!before.tokens.empty() && before.tokens.back().kind == TokenKind::Semicolon && !inParens))
      reset(before.open.empty() ? 0 : before.open.back() + 1);
    if (touches && isWord) {
      context.begin = t.begin;
      context.end = t.end;
      context.prefix = std::string(text.substr(t.begin, cursor - t.begin));
      break;
    }
    before.tokens.push_back(t);
    switch (t.kind) {
      case TokenKind::LeftParen:
      case TokenKind::LeftBracket:
      case TokenKind::LeftBrace: before.open.push_back(before.tokens.size() - 1); break;
      case TokenKind::RightParen:
      case TokenKind::RightBracket:
      case TokenKind::RightBrace:
        if (!before.open.empty()) before.open.pop_back();
        if (t.kind == TokenKind::RightBrace && before.open.empty()) reset(0);
        break;
      default: break;
    }
  }
  // A new line may have begun after the last token.
  const bool inParens = !before.open.empty() && before.tokens[before.open.back()].kind != TokenKind::LeftBrace;
  if (context.prefix.empty() && !inParens && !before.tokens.empty()) {
    const std::size_t end = before.tokens.back().end;
    const TokenKind last = before.tokens.back().kind;
    const bool operatorLast = last == TokenKind::Assign || last == TokenKind::Plus || last == TokenKind::Minus ||
                              last == TokenKind::Star || last == TokenKind::Slash || last == TokenKind::Comma;
    if (!operatorLast && text.substr(end, cursor - end).find('\n') != std::string_view::npos)
      reset(before.open.empty() ? 0 : before.open.back() + 1);
  }

  // The innermost call.
  for (auto it = before.open.rbegin(); it != before.open.rend(); ++it) {
    if (before.tokens[*it].kind != TokenKind::LeftParen || *it == 0) continue;
    const Token& name = before.tokens[*it - 1];
    if (name.kind != TokenKind::Name && name.kind != TokenKind::Reducer) continue;
    CompletionContext::Call call;
    call.function = word(name);
    int depth = 0;
    for (std::size_t i = *it + 1; i < before.tokens.size(); ++i) {
      const TokenKind k = before.tokens[i].kind;
      if (k == TokenKind::LeftParen || k == TokenKind::LeftBracket) ++depth;
      if (k == TokenKind::RightParen || k == TokenKind::RightBracket) --depth;
      if (depth == 0 && (k == TokenKind::Comma || k == TokenKind::Semicolon)) ++call.argument;
    }
    context.call = std::move(call);
    break;
  }

  // Inside braces the words of their own statement count: `train L {`.
  std::size_t from = 0;
  bool attributes = false;
  for (const std::size_t o : before.open) {
    if (before.tokens[o].kind != TokenKind::LeftBrace) continue;
    const bool train =
        from < before.tokens.size() && before.tokens[from].kind == TokenKind::Keyword && word(before.tokens[from]) == "train";
    const bool data =
        from < before.tokens.size() && before.tokens[from].kind == TokenKind::Keyword && word(before.tokens[from]) == "data";
    attributes = train || data;
    if (attributes) context.owner = train ? "train" : "data";
    from = o + 1;
  }
  const std::size_t count = before.tokens.size() - from;
  const auto at = [&](std::size_t i) -> const Token& { return before.tokens[from + i]; };
  if (attributes) {
    const TokenKind last = count == 0 ? TokenKind::Semicolon : before.tokens.back().kind;
    if (last == TokenKind::Assign && count >= 2 && context.owner == "train") {
      context.attribute = word(before.tokens[before.tokens.size() - 2]);
      if (context.attribute == "optimiser") context.attribute = "optimizer";
      if (context.attribute == "optimizer" || context.attribute == "mode" || context.attribute == "device") {
        context.kind = CompletionContext::Kind::AttributeValue;
        return context;
      }
      context.attribute.clear();
    }
    context.kind = last == TokenKind::Semicolon || last == TokenKind::Comma || last == TokenKind::LeftBrace
                       ? CompletionContext::Kind::Attribute
                       : CompletionContext::Kind::Expression;
    return context;
  }
  if (count == 0) {
    context.kind = CompletionContext::Kind::Statement;
    return context;
  }
  context.kind = CompletionContext::Kind::Expression;
  if (at(0).kind != TokenKind::Keyword) return context;
  const std::string_view keyword = word(at(0));
  const bool declares = keyword == "input" || keyword == "param" || keyword == "const" || keyword == "state";
  const TokenKind last = before.tokens.back().kind;
  const bool inside = !before.open.empty() && before.tokens[before.open.back()].kind != TokenKind::LeftBrace;
  if (count == 1 && (declares || keyword == "let" || keyword == "def" || keyword == "data" || keyword == "loss" ||
                     keyword == "eval" || keyword == "stack" || keyword == "accumulate" || keyword == "for"))
    context.kind = CompletionContext::Kind::NewName;
  else if (count == 1 && keyword == "hint") context.kind = CompletionContext::Kind::Hint;
  else if (declares && !inside && last == TokenKind::Colon) context.kind = CompletionContext::Kind::Type;
  else if ((declares || keyword == "data") && !inside && last == TokenKind::Assign)
    context.kind = CompletionContext::Kind::Initializer;
  return context;
}

std::vector<std::string_view> languageWords(const CompletionContext& context) {
  std::vector<std::string_view> words;
  switch (context.kind) {
    case CompletionContext::Kind::None:
    case CompletionContext::Kind::NewName: break;
    case CompletionContext::Kind::Statement: words.assign(kStatementWords.begin(), kStatementWords.end()); break;
    case CompletionContext::Kind::Expression: words.assign(kExpression.begin(), kExpression.end()); break;
    case CompletionContext::Kind::Type: words.assign(kTypes.begin(), kTypes.end()); break;
    case CompletionContext::Kind::Initializer: words.assign(kInitializers.begin(), kInitializers.end()); break;
    case CompletionContext::Kind::Attribute:
      if (context.owner == "train") words.assign(kTrain.begin(), kTrain.end());
      else words.assign(kData.begin(), kData.end());
      break;
    case CompletionContext::Kind::AttributeValue:
      if (context.attribute == "optimizer") words.assign(kOptimizers.begin(), kOptimizers.end());
      else if (context.attribute == "mode") words.assign(kModes.begin(), kModes.end());
      else words.assign(kDevices.begin(), kDevices.end());
      break;
    case CompletionContext::Kind::Hint: words.assign(kHints.begin(), kHints.end()); break;
  }
  std::erase_if(words, [&](std::string_view w) { return w.substr(0, context.prefix.size()) != context.prefix; });
  std::sort(words.begin(), words.end());
  return words;
}

bool isCall(std::string_view languageWord) { return std::find(kCalls.begin(), kCalls.end(), languageWord) != kCalls.end(); }

std::vector<std::string_view> indicesAround(std::string_view text, std::uint32_t cursor) {
  std::vector<std::string_view> found;
  const LexResult lexed = lex(text, SourceId());
  const auto& tokens = lexed.tokens;
  int depth = 0, brackets = 0;
  TokenKind last = TokenKind::End;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& t = tokens[i];
    if (t.kind == TokenKind::End) break;
    if (t.kind == TokenKind::Comment || t.kind == TokenKind::Markdown) continue;
    if (t.kind == TokenKind::CellMarker || t.kind == TokenKind::Semicolon || (t.newlineBefore && depth == 0 && !continues(last))) {
      if (t.begin > cursor) break;
      found.clear();
    }
    last = t.kind;
    switch (t.kind) {
      case TokenKind::LeftBracket: ++brackets; [[fallthrough]];
      case TokenKind::LeftParen: ++depth; break;
      case TokenKind::RightBracket: brackets = std::max(0, brackets - 1); [[fallthrough]];
      case TokenKind::RightParen: depth = std::max(0, depth - 1); break;
      case TokenKind::Name: {
        const std::string_view name = text.substr(t.begin, t.end - t.begin);
        const bool used =
            i + 1 < tokens.size() && (tokens[i + 1].kind == TokenKind::LeftBracket || tokens[i + 1].kind == TokenKind::LeftParen);
        const bool atCursor = t.begin <= cursor && cursor <= t.end;
        if (brackets > 0 && !used && !atCursor && std::find(found.begin(), found.end(), name) == found.end()) found.push_back(name);
        break;
      }
      default: break;
    }
  }
  return found;
}

}  // namespace nf
