// SPDX-License-Identifier: Apache-2.0
#include "core/lang/parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unordered_set>

#include "core/syntax/lexer.h"

namespace nf {

std::string_view ast::spelling(Op op) {
  switch (op) {
    case Op::Add: return "+";
    case Op::Sub: return "-";
    case Op::Mul: return "*";
    case Op::Div: return "/";
    case Op::FloorDiv: return "//";
    case Op::Mod: return "%";
    case Op::Pow: return "^";
    case Op::Less: return "<";
    case Op::LessEqual: return "<=";
    case Op::Greater: return ">";
    case Op::GreaterEqual: return ">=";
    case Op::Equal: return "==";
    case Op::NotEqual: return "!=";
    case Op::And: return "and";
    case Op::Or: return "or";
    case Op::Negate: return "-";
    case Op::Not: return "not";
  }
  return "";
}

namespace {

using namespace ast;

class Parser {
 public:
  Parser(std::string_view text, SourceId source, Diagnostics& diagnostics)
      : m_text(text), m_source(source), m_diagnostics(diagnostics) {
    LexResult lexed = lex(text, source);
    for (Diagnostic& d : lexed.diagnostics) {
      m_refused.insert(d.span.begin);
      m_diagnostics.push_back(std::move(d));
    }
    m_all = std::move(lexed.tokens);
    m_tokens.reserve(m_all.size());
    for (const Token& t : m_all)
      if (t.kind != TokenKind::Comment && t.kind != TokenKind::Markdown) m_tokens.push_back(t);
  }

  Ast run() {
    m_ast.exprs.reserve(m_tokens.size() / 2);
    Cell cell;
    cell.span = {m_source, 0, 0};
    bool implicit = true;  // statements before the first marker
    while (true) {
      if (tok().kind == TokenKind::CellMarker || tok().kind == TokenKind::End) {
        cell.span.end = tok().begin;
        if (!implicit || !cell.statements.empty()) m_ast.cells.push_back(std::move(cell));
        if (tok().kind == TokenKind::End) break;
        cell = {};
        implicit = false;
        cell.span = {m_source, tok().begin, tok().end};
        cell.markdown = isMarkdownMarker(text(tok()));
        ++m_at;
        continue;
      }
      if (tok().kind == TokenKind::Semicolon) {
        ++m_at;
        continue;
      }
      cell.statements.push_back(parseStatement());
    }
    return std::move(m_ast);
  }

 private:
  // ------------------------------------------------------------ tokens
  const Token& tok() const { return m_tokens[m_at]; }
  const Token& tokAt(std::size_t i) const { return m_tokens[std::min(i, m_tokens.size() - 1)]; }
  std::string_view text(const Token& t) const { return m_text.substr(t.begin, t.end - t.begin); }
  Span span(const Token& t) const { return {m_source, t.begin, t.end}; }
  Span spanFrom(std::uint32_t begin) const { return {m_source, begin, std::max(begin, m_lastEnd)}; }

  // The kind of the next token of this statement; End where the statement ends.
  TokenKind kind() const {
    if (m_failed) return TokenKind::End;
    const Token& t = tok();
    if (t.kind == TokenKind::CellMarker) return TokenKind::End;
    if (m_nesting == 0 && t.newlineBefore && m_at != m_continued) return TokenKind::End;
    return t.kind;
  }
  bool at(TokenKind k) const { return kind() == k; }
  bool atKeyword(std::string_view word) const { return at(TokenKind::Keyword) && text(tok()) == word; }
  bool atWord(std::string_view word) const { return at(TokenKind::Name) && text(tok()) == word; }
  bool atEnd() const { return at(TokenKind::End) || at(TokenKind::Semicolon) || at(TokenKind::RightBrace); }

  const Token& take() {
    const Token& t = tok();
    m_lastEnd = t.end;
    if (t.kind != TokenKind::End) ++m_at;
    return t;
  }
  bool accept(TokenKind k) {
    if (!at(k)) return false;
    take();
    return true;
  }
  // The statement goes on in the next line: after an operator, `=`, a comma, a reduction's bracket.
  void continueLine() { m_continued = m_at; }

  // ------------------------------------------------------------ mistakes
  Diagnostic* fail(std::string code, std::string message, Span where) {
    if (m_failed) return nullptr;
    m_failed = true;
    // What the lexer refused is told about once; a text that is no program at all is not told about line by line.
    constexpr std::size_t kMost = 100;
    if (m_told >= kMost || m_refused.contains(where.begin)) return nullptr;
    ++m_told;
    Diagnostic d;
    d.code = std::move(code);
    d.message = std::move(message);
    d.span = where;
    m_diagnostics.push_back(std::move(d));
    return &m_diagnostics.back();
  }

  // Where a person looks for what is missing: the token there, or the end of the line before.
  Span here() const {
    const Token& t = tok();
    const bool ended = t.kind == TokenKind::End || t.kind == TokenKind::CellMarker || (t.newlineBefore && m_nesting == 0);
    if (ended) return {m_source, m_lastEnd, m_lastEnd};
    return span(t);
  }
  std::string found() const {
    const Token& t = tok();
    if (t.kind == TokenKind::End) return "the end";
    if (t.kind == TokenKind::CellMarker) return "the end of the cell";
    if (t.newlineBefore && m_nesting == 0) return "the end of the line";
    if (t.kind == TokenKind::Invalid || t.kind == TokenKind::Name || t.kind == TokenKind::Keyword || t.kind == TokenKind::Number ||
        t.kind == TokenKind::Reducer)
      return "`" + std::string(text(t).substr(0, 40)) + "`";
    return std::string(describe(t.kind));
  }
  Diagnostic* expected(const std::string& what) { return fail("expected", "expected " + what + ", found " + found(), here()); }

  bool expect(TokenKind k, const std::string& why) {
    if (accept(k)) return true;
    expected(std::string(describe(k)) + why);
    return false;
  }

  // A closing bracket. Says where it was opened when the cell or a new statement comes first.
  bool close(TokenKind k, const Token& opened) {
    if (!m_failed && tok().kind == k) {
      --m_nesting;
      take();
      return true;
    }
    if (!m_failed) {
      const Token& t = tok();
      const bool stops = t.kind == TokenKind::End || t.kind == TokenKind::CellMarker || startsStatement(m_at);
      if (stops) {
        Diagnostic* d = fail("unclosed-bracket",
                             std::string(describe(opened.kind)) + " is not closed" +
                                 (t.kind == TokenKind::CellMarker ? " before its cell ends" : ""),
                             span(opened));
        if (d)
          d->notes.push_back({"expected " + std::string(describe(k)) + " before this",
                              t.kind == TokenKind::End ? Span{m_source, m_lastEnd, m_lastEnd} : span(t)});
      } else {
        expected(std::string(describe(k)) + " or `,`");
      }
    }
    --m_nesting;
    return false;
  }

  // A line that looks like a statement of its own, whatever bracket is still open.
  bool startsStatement(std::size_t i) const {
    const Token& t = tokAt(i);
    if (!t.newlineBefore) return false;
    if (t.kind == TokenKind::Keyword) return beginsStatement(text(t));
    if (t.kind != TokenKind::Name && t.kind != TokenKind::QuotedName) return false;
    int depth = 0;
    for (std::size_t k = i + 1; k < m_tokens.size() && !m_tokens[k].newlineBefore; ++k) {
      switch (m_tokens[k].kind) {
        case TokenKind::LeftBracket: ++depth; break;
        case TokenKind::RightBracket: --depth; break;
        case TokenKind::Assign:
        case TokenKind::AddAssign:
        case TokenKind::Becomes:
          if (depth == 0) return true;
          break;
        case TokenKind::LeftParen:
          if (depth == 0) return false;
          break;
        case TokenKind::RightParen:
        case TokenKind::LeftBrace:
        case TokenKind::RightBrace: return false;
        default: break;
      }
      if (depth < 0) return false;
    }
    return false;
  }

  // After a mistake: to the end of the statement. Brackets opened since then are skipped whole.
  void synchronise() {
    m_failed = false;
    int open = std::max(m_nesting, 0);
    m_nesting = 0;
    while (true) {
      const Token& t = tok();
      if (t.kind == TokenKind::End || t.kind == TokenKind::CellMarker) return;
      if (m_at > m_statementBegin && startsStatement(m_at)) return;
      if (open == 0 && m_at > m_statementBegin &&
          (t.newlineBefore || t.kind == TokenKind::Semicolon || t.kind == TokenKind::RightBrace))
        return;
      if (t.kind == TokenKind::LeftParen || t.kind == TokenKind::LeftBracket || t.kind == TokenKind::LeftBrace) ++open;
      if (t.kind == TokenKind::RightParen || t.kind == TokenKind::RightBracket || t.kind == TokenKind::RightBrace)
        open = std::max(0, open - 1);
      m_lastEnd = t.end;
      ++m_at;
    }
  }

  struct Deeper {
    explicit Deeper(Parser& p) : parser(p) { ++p.m_depth; }
    ~Deeper() { --parser.m_depth; }
    Parser& parser;
  };
  bool tooDeep() {
    if (m_depth <= kMaxDepth) return false;
    fail("too-deep", "this is nested more than " + std::to_string(kMaxDepth) + " levels deep", here());
    return true;
  }

  // ------------------------------------------------------------ nodes
  ExprRef add(Expr e) {
    std::uint32_t height = 0;
    for (const ExprRef a : e.args) height = std::max(height, m_ast.exprs[a].height);
    for (const Binder& b : e.binders)
      if (b.value != kNone) height = std::max(height, m_ast.exprs[b.value].height);
    e.height = height + 1;
    if (e.height > kMaxDepth) {
      fail("too-deep", "this expression is more than " + std::to_string(kMaxDepth) + " operations deep: name a part of it", e.head);
      e = errorExpr(e.span);
    }
    m_ast.exprs.push_back(std::move(e));
    return static_cast<ExprRef>(m_ast.exprs.size() - 1);
  }
  static Expr errorExpr(Span span) {
    Expr e;
    e.kind = ExprKind::Error;
    e.span = e.head = span;
    return e;
  }
  ExprRef error() { return add(errorExpr(here())); }

  // ------------------------------------------------------------ expressions
  ExprRef parseExpr() { return parseOr(); }

  ExprRef infix(Op op, Span head, ExprRef a, ExprRef b) {
    Expr e;
    e.kind = ExprKind::Infix;
    e.op = op;
    e.head = head;
    e.span = cover(m_ast.exprs[a].span, m_ast.exprs[b].span);
    e.args = {a, b};
    return add(std::move(e));
  }

  ExprRef parseOr() {
    ExprRef a = parseAnd();
    while (atKeyword("or")) {
      const Span head = span(take());
      continueLine();
      a = infix(Op::Or, head, a, parseAnd());
    }
    return a;
  }

  ExprRef parseAnd() {
    ExprRef a = parseNot();
    while (atKeyword("and")) {
      const Span head = span(take());
      continueLine();
      a = infix(Op::And, head, a, parseNot());
    }
    return a;
  }

  ExprRef parseNot() {
    if (!atKeyword("not")) return parseComparison();
    const Deeper deeper(*this);
    if (tooDeep()) return error();
    Expr e;
    e.kind = ExprKind::Prefix;
    e.op = Op::Not;
    e.head = span(take());
    e.args = {parseNot()};
    e.span = cover(e.head, m_ast.exprs[e.args[0]].span);
    return add(std::move(e));
  }

  std::optional<Op> comparison() const {
    switch (kind()) {
      case TokenKind::Less:
      case TokenKind::Becomes: return Op::Less;  // x <-1
      case TokenKind::LessEqual: return Op::LessEqual;
      case TokenKind::Greater: return Op::Greater;
      case TokenKind::GreaterEqual: return Op::GreaterEqual;
      case TokenKind::EqualEqual: return Op::Equal;
      case TokenKind::NotEqual: return Op::NotEqual;
      default: return std::nullopt;
    }
  }

  ExprRef parseComparison() {
    const ExprRef a = parseSum();
    const auto op = comparison();
    if (!op) return a;
    const Token& sign = take();
    continueLine();
    ExprRef b;
    if (sign.kind == TokenKind::Becomes) {
      Expr negated;
      negated.kind = ExprKind::Prefix;
      negated.op = Op::Negate;
      negated.head = {m_source, sign.end - 1, sign.end};
      negated.args = {parseSum()};
      negated.span = cover(negated.head, m_ast.exprs[negated.args[0]].span);
      b = add(std::move(negated));
    } else {
      b = parseSum();
    }
    const ExprRef e = infix(*op, span(sign), a, b);
    if (comparison()) {
      Diagnostic* d = fail("chained-comparison", "comparisons do not chain: write `a < b and b < c`", span(tok()));
      if (d) d->notes.push_back({"the first comparison", span(sign)});
    }
    return e;
  }

  ExprRef parseSum() {
    ExprRef a = parseProduct();
    while (at(TokenKind::Plus) || at(TokenKind::Minus)) {
      const Op op = at(TokenKind::Plus) ? Op::Add : Op::Sub;
      const Span head = span(take());
      continueLine();
      a = infix(op, head, a, parseProduct());
    }
    return a;
  }

  ExprRef parseProduct() {
    const Deeper deeper(*this);
    if (tooDeep()) return error();
    ExprRef a = parseUnary();
    while (at(TokenKind::Star) || at(TokenKind::Slash) || at(TokenKind::SlashSlash) || at(TokenKind::Percent)) {
      const Op op = at(TokenKind::Star)         ? Op::Mul
                    : at(TokenKind::Slash)      ? Op::Div
                    : at(TokenKind::SlashSlash) ? Op::FloorDiv
                                                : Op::Mod;
      const Token& sign = take();
      const Span head = span(sign);
      continueLine();
      if (op == Op::Mul && at(TokenKind::Star) && !tok().spaceBefore) {
        Diagnostic* d = fail("bad-operator", "`**` is no operator: powers are written `^`", {m_source, sign.begin, tok().end});
        if (d) d->fixes.push_back({"write `^`", {m_source, sign.begin, tok().end}, "^"});
        return a;
      }
      a = infix(op, head, a, parseUnary());
    }
    return a;
  }

  ExprRef parseUnary() {
    const Deeper deeper(*this);
    if (tooDeep()) return error();
    if (!at(TokenKind::Minus) && !at(TokenKind::Plus)) return parsePower();
    const bool minus = at(TokenKind::Minus);
    const Span head = span(take());
    const ExprRef operand = parseUnary();
    if (!minus) return operand;
    Expr e;
    e.kind = ExprKind::Prefix;
    e.op = Op::Negate;
    e.head = head;
    e.args = {operand};
    e.span = cover(head, m_ast.exprs[operand].span);
    return add(std::move(e));
  }

  ExprRef parsePower() {
    const ExprRef base = parsePostfix();
    if (!at(TokenKind::Caret)) return base;
    const Span head = span(take());
    continueLine();
    return infix(Op::Pow, head, base, parseUnary());  // right associative; -2 may be an exponent
  }

  ExprRef parsePostfix() {
    ExprRef e = parsePrimary();
    while (true) {
      if (at(TokenKind::LeftBracket)) {
        e = parseIndexing(e);
      } else if (atKeyword("else")) {
        const Span head = span(take());
        Expr node;
        node.kind = ExprKind::Else;
        node.head = head;
        node.args = {e, parseElseAtom()};
        node.span = cover(m_ast.exprs[e].span, m_ast.exprs[node.args[1]].span);
        e = add(std::move(node));
      } else {
        return e;
      }
      if (m_failed) return e;
    }
  }

  ExprRef parseElseAtom() {
    if (at(TokenKind::Number) || at(TokenKind::Name) || at(TokenKind::LeftParen) || at(TokenKind::QuotedName))
      return parsePrimary();
    if (at(TokenKind::Minus)) {
      const std::uint32_t begin = tok().begin;
      Diagnostic* d = fail("else-atom", "`else` takes one number, name or parenthesis", span(tok()));
      const Token& next = tokAt(m_at + 1);
      if (d && next.kind == TokenKind::Number)
        d->fixes.push_back({"add parentheses", {m_source, begin, next.end}, "(-" + std::string(text(next)) + ")"});
      return error();
    }
    expected("a number, a name or a parenthesis after `else`");
    return error();
  }

  ExprRef parseIndexing(ExprRef base) {
    const Token& opened = take();
    ++m_nesting;
    Expr e;
    e.kind = ExprKind::Index;
    e.head = m_ast.exprs[base].span;
    e.args = {base};
    if (!at(TokenKind::RightBracket)) {
      do {
        if (at(TokenKind::RightBracket)) break;
        e.args.push_back(parseIndexItem());
      } while (accept(TokenKind::Comma));
    }
    close(TokenKind::RightBracket, opened);
    e.span = cover(m_ast.exprs[base].span, spanFrom(opened.begin));
    return add(std::move(e));
  }

  ExprRef parseIndexItem() {
    if (at(TokenKind::Ellipsis) || at(TokenKind::Hole)) {
      Expr e;
      e.kind = at(TokenKind::Ellipsis) ? ExprKind::Ellipsis : ExprKind::Hole;
      e.span = e.head = span(take());
      return add(std::move(e));
    }
    if (at(TokenKind::Colon)) {
      Diagnostic* d = fail("bad-slice", "a whole axis is written `_`", span(tok()));
      if (d) d->fixes.push_back({"write `_`", span(tok()), "_"});
      return error();
    }
    return parseExpr();
  }

  // d(name)/d(name), where a name may be such a derivative again.
  bool derivativeName(std::size_t& i, std::string& of, std::string& wrt) const {
    std::size_t k = i;
    const auto is = [&](TokenKind want) { return tokAt(k).kind == want; };
    const auto part = [&](std::string& into) {
      if (tokAt(k).kind != TokenKind::Name || text(tokAt(k)) != "d") return false;
      ++k;
      if (!is(TokenKind::LeftParen)) return false;
      ++k;
      std::string innerOf, innerWrt;
      std::size_t inner = k;
      if (m_derivativeDepth < 20) {
        ++m_derivativeDepth;
        const bool nested = derivativeName(inner, innerOf, innerWrt);
        --m_derivativeDepth;
        if (nested) {
          into = "d(" + innerOf + ")/d(" + innerWrt + ")";
          k = inner;
        }
      }
      if (into.empty()) {
        if (is(TokenKind::Name)) into = text(tokAt(k));
        else if (is(TokenKind::QuotedName)) into = text(tokAt(k)).substr(1, tokAt(k).end - tokAt(k).begin - 2);
        else return false;
        ++k;
      }
      if (!is(TokenKind::RightParen)) return false;
      ++k;
      return true;
    };
    if (!part(of) || !is(TokenKind::Slash)) return false;
    ++k;
    if (!part(wrt)) return false;
    i = k;
    return true;
  }

  std::string_view intern(std::string name) { return m_ast.names.emplace_back(std::move(name)); }

  // A tensor where it is named: Name, quoted name, d(L)/d(W).
  bool parseTensorName(std::string_view& name, Span& where) {
    const std::uint32_t begin = tok().begin;
    if (at(TokenKind::Name)) {
      std::string of, wrt;
      std::size_t i = m_at;
      if (text(tok()) == "d" && derivativeName(i, of, wrt)) {
        while (m_at < i) take();
        name = intern("d(" + of + ")/d(" + wrt + ")");
      } else {
        name = text(take());
      }
    } else if (at(TokenKind::QuotedName)) {
      const std::string_view quoted = text(take());
      name = quoted.substr(1, quoted.size() - 2);
    } else {
      return false;
    }
    where = spanFrom(begin);
    return true;
  }

  ExprRef parsePrimary() {
    const Token& t = tok();
    switch (kind()) {
      case TokenKind::Number: return parseNumber();
      case TokenKind::String: {
        Expr e;
        e.kind = ExprKind::String;
        e.span = e.head = span(t);
        const std::string_view quoted = text(take());
        e.text = quoted.substr(1, quoted.size() - 2);
        return add(std::move(e));
      }
      case TokenKind::Name:
      case TokenKind::QuotedName: return parseNamed();
      case TokenKind::LeftParen: {
        const Token& opened = take();
        ++m_nesting;
        const ExprRef inner = parseExpr();
        close(TokenKind::RightParen, opened);
        m_ast.exprs[inner].parenthesised = true;
        m_ast.exprs[inner].span = spanFrom(opened.begin);
        return inner;
      }
      case TokenKind::Reducer: return parseReduction();
      case TokenKind::Keyword:
        if (text(t) == "training") {
          Expr e;
          e.kind = ExprKind::Name;
          e.span = e.head = span(t);
          e.text = text(take());
          return add(std::move(e));
        }
        expected("an expression");
        return error();
      case TokenKind::Ellipsis: expected("an expression: `...` stands in brackets only"); return error();
      default: expected("an expression"); return error();
    }
  }

  ExprRef parseNumber() {
    const Token& t = take();
    Expr e;
    e.kind = ExprKind::Number;
    e.span = e.head = span(t);
    e.text = text(t);
    const char* begin = e.text.data();
    const char* end = begin + e.text.size();
    if (e.text == "inf") {
      e.number = INFINITY;
    } else if (e.text == "nan") {
      e.number = NAN;
    } else if (e.text.find_first_of(".eE") == std::string_view::npos) {
      e.isInteger = true;
      if (std::from_chars(begin, end, e.integer).ec != std::errc()) {
        fail("bad-number", "`" + std::string(e.text.substr(0, 40)) + "` does not fit a 64-bit integer", e.span);
        return add(errorExpr(e.span));
      }
      e.number = static_cast<double>(e.integer);
    } else if (std::from_chars(begin, end, e.number).ec != std::errc()) {
      // from_chars also refuses what underflows: that is zero or subnormal, which strtod gives.
      e.number = std::strtod(std::string(e.text).c_str(), nullptr);
      if (std::isinf(e.number)) fail("bad-number", "`" + std::string(e.text.substr(0, 40)) + "` is too large for a double", e.span);
    }
    return add(std::move(e));
  }

  ExprRef parseNamed() {
    const Token& t = tok();
    Expr e;
    e.kind = ExprKind::Name;
    std::size_t i = m_at;
    std::string of, wrt;
    if (t.kind == TokenKind::Name && text(t) == "d" && derivativeName(i, of, wrt)) {
      while (m_at < i) take();
      e.kind = ExprKind::Derivative;
      e.span = e.head = spanFrom(t.begin);
      e.text = intern(std::move(of));
      e.text2 = intern(std::move(wrt));
      return add(std::move(e));
    }
    Span where;
    std::string_view name;
    parseTensorName(name, where);
    e.text = name;
    e.span = e.head = where;
    if (t.kind == TokenKind::Name && at(TokenKind::LeftParen)) return parseCall(std::move(e));
    return add(std::move(e));
  }

  ExprRef parseCall(Expr e) {
    e.kind = ExprKind::Call;
    const Token& opened = take();
    ++m_nesting;
    if (!at(TokenKind::RightParen)) {
      do {
        if (at(TokenKind::RightParen)) break;
        if (at(TokenKind::Name) && tokAt(m_at + 1).kind == TokenKind::Assign) {
          Binder option;
          option.name = text(tok());
          option.span = span(take());
          take();
          option.value = parseExpr();
          e.binders.push_back(option);
        } else {
          const ExprRef argument = parseExpr();
          if (!e.binders.empty())
            fail("positional-after-named", "a plain argument can't follow a named one", m_ast.exprs[argument].span);
          e.args.push_back(argument);
        }
      } while (accept(TokenKind::Comma) || accept(TokenKind::Semicolon));
    }
    close(TokenKind::RightParen, opened);
    e.span = spanFrom(e.head.begin);
    return add(std::move(e));
  }

  ExprRef parseReduction() {
    const Token& t = take();
    Expr e;
    e.text = text(t);
    e.span = e.head = span(t);
    if (at(TokenKind::LeftParen)) {
      if (e.text == "max" || e.text == "min") return parseCall(std::move(e));
      Diagnostic* d =
          fail("reduction-call",
               "`" + std::string(e.text) + "` is a reduction: write its indices, `" + std::string(e.text) + "[i] X[i]`", e.span);
      if (d) d->notes.push_back({"`" + std::string(e.text) + "[...] X[...]` reduces over all axes", {}});
      return error();
    }
    if (!at(TokenKind::LeftBracket)) {
      fail("reserved-name", "`" + std::string(e.text) + "` is reserved for reductions: expected `[` and the indices to reduce over",
           e.span);
      return error();
    }
    e.kind = ExprKind::Reduce;
    const Token& opened = take();
    ++m_nesting;
    if (at(TokenKind::RightBracket)) {
      fail("expected", "a reduction needs at least one index in its brackets", span(tok()));
      return error();
    }
    do {
      Binder b;
      if (at(TokenKind::Ellipsis)) {
        b.span = span(take());
        b.name = "...";
      } else if (at(TokenKind::Name)) {
        b.span = span(tok());
        b.name = text(take());
        if (accept(TokenKind::Colon)) b.value = parseExpr();
      } else {
        expected("the name of an index");
        break;
      }
      e.binders.push_back(b);
    } while (accept(TokenKind::Comma));
    if (accept(TokenKind::Semicolon)) {
      const Span where = here();
      if (atWord("ties") && tokAt(m_at + 1).kind == TokenKind::Assign) {
        take();
        take();
        if (atWord("even")) e.tiesEven = true;
        else if (!atWord("first")) expected("`even` or `first`");
        if (!m_failed) take();
      } else {
        fail("expected", "expected `ties=even` or `ties=first` after `;`", where);
      }
    }
    close(TokenKind::RightBracket, opened);
    continueLine();
    if (m_failed) return error();
    e.args = {parseProduct()};
    e.span = cover(e.head, m_ast.exprs[e.args[0]].span);
    return add(std::move(e));
  }

  // ------------------------------------------------------------ statements
  StmtRef add(Stmt s) {
    m_ast.stmts.push_back(std::move(s));
    return static_cast<StmtRef>(m_ast.stmts.size() - 1);
  }

  StmtRef parseStatement() {
    const Deeper deeper(*this);
    const int outerNesting = m_nesting;
    const std::size_t outerBegin = m_statementBegin;
    m_nesting = 0;
    m_statementBegin = m_at;
    m_continued = m_at;
    const std::uint32_t begin = tok().begin;
    m_lastEnd = begin;
    Stmt s;
    if (!tooDeep()) parseInto(s);
    if (!m_failed && !atEnd()) leftover(s);
    s.span = spanFrom(begin);
    if (m_failed) {
      s.kind = StmtKind::Error;
      synchronise();
      s.span = spanFrom(begin);
    }
    m_nesting = outerNesting;
    m_statementBegin = outerBegin;
    return add(std::move(s));
  }

  // A statement is complete and something stands behind it.
  void leftover(const Stmt& s) {
    const Token& t = tok();
    if (t.kind == TokenKind::RightParen || t.kind == TokenKind::RightBracket) {
      fail("unopened-bracket", std::string(describe(t.kind)) + " closes nothing", span(t));
      return;
    }
    Diagnostic* d = fail("expected", "expected the end of the statement, found " + found(), span(t));
    if (!d) return;
    if ((t.kind == TokenKind::Assign || t.kind == TokenKind::Becomes) && s.kind == StmtKind::Assign)
      d->notes.push_back({"a line that ends with an operator goes on in the next one", {}});
    else if (t.kind == TokenKind::Name || t.kind == TokenKind::Number || t.kind == TokenKind::LeftParen)
      d->notes.push_back({"a product is written with `*`", {}});
  }

  void parseInto(Stmt& s) {
    if (accept(TokenKind::At)) parsePhase(s);
    if (m_failed) return;
    const Token& t = tok();
    switch (kind()) {
      case TokenKind::Keyword: return parseKeyword(s);
      case TokenKind::Name:
      case TokenKind::QuotedName: return parseNameStatement(s);
      case TokenKind::Reducer: fail("reserved-name", "`" + std::string(text(t)) + "` is the name of a reduction", span(t)); return;
      case TokenKind::RightBrace: fail("unopened-bracket", "`}` closes nothing", span(t)); return;
      case TokenKind::Plus:
      case TokenKind::Minus:
      case TokenKind::Star:
      case TokenKind::Slash: {
        Diagnostic* d = fail("expected", "a statement can't start with " + std::string(describe(t.kind)), span(t));
        if (d) d->notes.push_back({"to go on with the line above, end that line with the operator", {}});
        return;
      }
      default: fail("expected", "expected a statement, found " + found(), span(t));
    }
  }

  void parsePhase(Stmt& s) {
    s.hasPhase = true;
    if (atWord("forward")) s.phase = Phase::Forward;
    else if (atWord("backward")) s.phase = Phase::Backward;
    else if (atWord("optimizer")) s.phase = Phase::Optimizer;
    else if (atWord("evaluation")) s.phase = Phase::Evaluation;
    else {
      fail("unknown-phase", "expected forward, backward, optimizer or evaluation after `@`", here());
      return;
    }
    take();
    continueLine();
  }

  void parseKeyword(Stmt& s) {
    const std::string_view word = text(tok());
    if (word == "let") return parseLet(s);
    if (word == "input") return parseDeclaration(s, TensorKind::Input);
    if (word == "param") return parseDeclaration(s, TensorKind::Param);
    if (word == "const") return parseDeclaration(s, TensorKind::Const);
    if (word == "state") return parseDeclaration(s, TensorKind::State);
    if (word == "data") return parseData(s);
    if (word == "def") return parseDef(s);
    if (word == "for") return parseFor(s);
    if (word == "repeat") return parseRepeat(s);
    if (word == "if") return parseIf(s);
    if (word == "scatter") return parseScatter(s);
    if (word == "stack" || word == "accumulate" || word == "loss" || word == "eval") return parseNamedValue(s, word);
    if (word == "show") return parseShow(s);
    if (word == "train") return parseTrain(s);
    if (word == "hint") return parseHint(s);
    fail("expected", "a statement can't start with `" + std::string(word) + "`", span(tok()));
  }

  bool parseName(std::string_view& name, Span& where, const std::string& what) {
    if (at(TokenKind::Name)) {
      where = span(tok());
      name = text(take());
      return true;
    }
    if (at(TokenKind::Keyword) || at(TokenKind::Reducer)) {
      fail("reserved-name", "`" + std::string(text(tok())) + "` is reserved and can't be a name", span(tok()));
      return false;
    }
    expected(what);
    return false;
  }

  void parseLet(Stmt& s) {
    s.kind = StmtKind::Let;
    take();
    do {
      continueLine();
      Binder b;
      if (!parseName(b.name, b.span, "a name after `let`")) return;
      if (!expect(TokenKind::Assign, " and a number")) return;
      continueLine();
      b.value = parseExpr();
      s.binders.push_back(b);
    } while (accept(TokenKind::Comma));
  }

  void parseTypeAndLayout(Target& target) {
    if (accept(TokenKind::Colon)) {
      const auto type = at(TokenKind::Name) ? dtypeNamed(text(tok())) : std::nullopt;
      if (!type || *type == DType::Bool) {
        fail("unknown-type", "expected a type: f32, f16, bf16, f64 or i32, found " + found(), here());
        return;
      }
      target.type = type;
      take();
    }
    if (!atWord("layout")) return;
    take();
    const Token& opened = tok();
    if (!expect(TokenKind::LeftParen, " and the order of the axes")) return;
    ++m_nesting;
    do {
      if (!at(TokenKind::Number)) {
        expected("the number of an axis");
        break;
      }
      const ExprRef n = parseNumber();
      const Expr& number = m_ast.exprs[n];
      if (number.kind != ExprKind::Number || !number.isInteger || number.integer >= 64) {
        fail("bad-layout", "an axis is numbered by a small integer", number.span);
        break;
      }
      target.layout.push_back(static_cast<std::uint32_t>(number.integer));
    } while (accept(TokenKind::Comma));
    close(TokenKind::RightParen, opened);
  }

  // [ item (: extent)?, ... ]
  void parseTargetIndices(Target& target) {
    const Token& opened = take();
    ++m_nesting;
    target.hasIndices = true;
    if (!at(TokenKind::RightBracket)) {
      do {
        if (at(TokenKind::RightBracket)) break;
        TargetIndex index;
        index.expr = parseIndexItem();
        if (accept(TokenKind::Colon)) index.extent = parseExpr();
        target.indices.push_back(index);
      } while (accept(TokenKind::Comma));
    }
    close(TokenKind::RightBracket, opened);
  }

  void parseDeclaration(Stmt& s, TensorKind kind) {
    s.kind = StmtKind::Declare;
    s.declares = kind;
    take();
    s.targets.emplace_back();
    Target& target = s.targets.back();
    const std::uint32_t begin = tok().begin;
    if (!parseTensorName(target.name, target.nameSpan) && !parseName(target.name, target.nameSpan, "the name of a tensor")) return;
    if (at(TokenKind::LeftBracket)) parseTargetIndices(target);
    target.span = spanFrom(begin);
    parseTypeAndLayout(target);
    if (!accept(TokenKind::Assign)) return;
    continueLine();
    if (atWord("batch") && (tokAt(m_at + 1).kind == TokenKind::Name || tokAt(m_at + 1).kind == TokenKind::QuotedName))
      parseBatch(s);
    else s.value = parseExpr();
  }

  // batch D[:, a..b] / 16 - 0.5
  void parseBatch(Stmt& s) {
    take();
    parseTensorName(s.batchData, s.batchSpan);
    const Token& opened = tok();
    if (!expect(TokenKind::LeftBracket, " and the columns, as in `D[:, 0..64]`")) return;
    ++m_nesting;
    if (!expect(TokenKind::Colon, " (all rows)") || !expect(TokenKind::Comma, " and the columns")) return;
    s.batchBegin = parseSum();
    if (accept(TokenKind::DotDot)) s.batchEnd = parseSum();
    close(TokenKind::RightBracket, opened);
    while (at(TokenKind::Star) || at(TokenKind::Slash) || at(TokenKind::Plus) || at(TokenKind::Minus)) {
      const TokenKind sign = take().kind;
      continueLine();
      const Op op = sign == TokenKind::Star    ? Op::Mul
                    : sign == TokenKind::Slash ? Op::Div
                    : sign == TokenKind::Plus  ? Op::Add
                                               : Op::Sub;
      s.batchArithmetic.emplace_back(op, parsePower());
    }
  }

  void parseAttributes(Stmt& s, const std::string& of) {
    const Token& opened = tok();
    if (!expect(TokenKind::LeftBrace, " and the attributes of " + of)) return;
    const int nesting = m_nesting;
    while (!m_failed) {
      m_continued = m_at;
      if (tok().kind == TokenKind::Semicolon || tok().kind == TokenKind::Comma) {
        take();
        continue;
      }
      if (tok().kind == TokenKind::RightBrace) {
        take();
        break;
      }
      if (tok().kind == TokenKind::End || tok().kind == TokenKind::CellMarker) {
        fail("unclosed-bracket",
             "`{` is not closed" + std::string(tok().kind == TokenKind::CellMarker ? " before its cell ends" : ""), span(opened));
        break;
      }
      Binder b;
      if (!at(TokenKind::Name)) {
        expected("the name of an attribute");
        break;
      }
      b.span = span(tok());
      b.name = text(take());
      if (!expect(TokenKind::Assign, " and the value of `" + std::string(b.name) + "`")) break;
      continueLine();
      b.value = parseAttributeValue();
      s.binders.push_back(b);
      if (!m_failed && !atEnd() && !at(TokenKind::Comma)) expected("`;` or `}`");
    }
    m_nesting = nesting;
  }

  // `last 360` is one value: Call last(360).
  ExprRef parseAttributeValue() {
    if (atWord("last") && tokAt(m_at + 1).kind != TokenKind::LeftParen) {
      Expr e;
      e.kind = ExprKind::Call;
      e.head = span(tok());
      e.text = text(take());
      e.args = {parseSum()};
      e.span = spanFrom(e.head.begin);
      return add(std::move(e));
    }
    return parseExpr();
  }

  void parseData(Stmt& s) {
    s.kind = StmtKind::Data;
    take();
    if (!parseTensorName(s.name, s.nameSpan) && !parseName(s.name, s.nameSpan, "the name of a data set")) return;
    if (!expect(TokenKind::Assign, " and a file or a bundled set")) return;
    continueLine();
    s.bundled = at(TokenKind::Name) && tokAt(m_at + 1).kind != TokenKind::LeftParen;
    s.value = parsePrimary();
    if (at(TokenKind::LeftBrace)) parseAttributes(s, "the data set");
  }

  void parseBlock(Stmt& s, const std::string& of) { parseBlock(s.body, of); }
  void parseBlock(std::vector<StmtRef>& into, const std::string& of) {
    const Token& opened = tok();
    if (!expect(TokenKind::LeftBrace, " and the body of " + of)) return;
    while (!m_failed) {
      const Token& t = tok();
      if (t.kind == TokenKind::RightBrace) {
        take();
        return;
      }
      if (t.kind == TokenKind::Semicolon) {
        take();
        continue;
      }
      if (t.kind == TokenKind::End || t.kind == TokenKind::CellMarker) {
        fail("unclosed-bracket", "`{` is not closed" + std::string(t.kind == TokenKind::CellMarker ? " before its cell ends" : ""),
             span(opened));
        return;
      }
      const std::uint32_t end = m_lastEnd;
      into.push_back(parseStatement());
      m_lastEnd = std::max(end, m_lastEnd);
      // A statement on its own line ended; the block goes on.
      m_continued = m_at;
    }
  }

  void parseParameter(Parameter& p) {
    if (!parseName(p.name, p.span, "the name of a parameter")) return;
    if (!at(TokenKind::LeftBracket)) return;
    const Token& opened = take();
    ++m_nesting;
    p.hasShape = true;
    if (!at(TokenKind::RightBracket)) {
      do p.shape.push_back(parseIndexItem());
      while (accept(TokenKind::Comma));
    }
    close(TokenKind::RightBracket, opened);
  }

  void parseDef(Stmt& s) {
    s.kind = StmtKind::Def;
    take();
    if (!parseName(s.name, s.nameSpan, "the name of a function")) return;
    const Token& opened = tok();
    if (!expect(TokenKind::LeftParen, " and the parameters")) return;
    ++m_nesting;
    bool options = false;
    while (!m_failed && !at(TokenKind::RightParen)) {
      if (accept(TokenKind::Semicolon)) {
        options = true;
        if (at(TokenKind::RightParen)) break;
      }
      if (options) {
        Binder b;
        if (!parseName(b.name, b.span, "the name of an option")) break;
        if (accept(TokenKind::Assign)) b.value = parseExpr();
        s.binders.push_back(b);
      } else {
        Parameter p;
        parseParameter(p);
        s.parameters.push_back(std::move(p));
      }
      if (at(TokenKind::Semicolon)) continue;
      if (!accept(TokenKind::Comma)) break;
    }
    close(TokenKind::RightParen, opened);
    if (accept(TokenKind::Yields)) {
      do {
        Binder b;
        if (!parseName(b.name, b.span, "the name of a result")) return;
        s.results.push_back(b);
      } while (accept(TokenKind::Comma));
    }
    if (accept(TokenKind::Assign)) {
      continueLine();
      s.value = parseExpr();
      parseWhere(s);
      return;
    }
    parseBlock(s, "the function");
  }

  void parseFor(Stmt& s) {
    s.kind = StmtKind::For;
    take();
    if (!parseName(s.name, s.nameSpan, "the name of the counter")) return;
    if (!atKeyword("in")) {
      expected("`in` and a range, as in `for t in 0..T`");
      return;
    }
    take();
    if (atWord("reversed")) {
      take();
      s.reversed = true;
    }
    s.values.push_back(parseSum());
    if (!expect(TokenKind::DotDot, " and the end of the range")) return;
    s.values.push_back(parseSum());
    if (atWord("reads")) {
      take();
      do {
        Binder b;
        if (!parseTensorName(b.name, b.span)) {
          expected("the name of a tensor");
          return;
        }
        s.binders.push_back(b);
      } while (accept(TokenKind::Comma));
    }
    parseBlock(s, "the loop");
  }

  // if c { ... } else { ... }, also else if
  void parseIf(Stmt& s) {
    s.kind = StmtKind::If;
    take();
    s.values.push_back(parseExpr());
    parseBlock(s.body, "`if`");
    const Token& next = tok();
    if (!m_failed && next.kind == TokenKind::Keyword && text(next) == "else") continueLine();  // also on the next line
    if (!atKeyword("else")) return;
    take();
    if (atKeyword("if")) {
      const std::size_t begin = m_statementBegin;
      s.otherwise.push_back(parseStatement());
      m_statementBegin = begin;
      m_continued = m_at;
      return;
    }
    parseBlock(s.otherwise, "`else`");
  }

  void parseRepeat(Stmt& s) {
    s.kind = StmtKind::Repeat;
    take();
    if (at(TokenKind::Name) && tokAt(m_at + 1).kind == TokenKind::Keyword && text(tokAt(m_at + 1)) == "in") {
      parseName(s.name, s.nameSpan, "the name of the counter");
      take();
      s.values.push_back(parseSum());
      if (!expect(TokenKind::DotDot, " and the end of the range")) return;
    }
    s.values.push_back(parseSum());
    parseBlock(s, "`repeat`");
  }

  void parseNamedValue(Stmt& s, std::string_view word) {
    s.kind = word == "stack"        ? StmtKind::Stack
             : word == "accumulate" ? StmtKind::Accumulate
             : word == "loss"       ? StmtKind::Loss
                                    : StmtKind::Eval;
    take();
    if (!parseTensorName(s.name, s.nameSpan)) {
      parseName(s.name, s.nameSpan, "a name after `" + std::string(word) + "`");
      return;
    }
    Target target;
    target.name = s.name;
    target.nameSpan = target.span = s.nameSpan;
    if (at(TokenKind::LeftBracket)) {
      const Token& opened = tok();
      parseTargetIndices(target);
      if (!m_failed && !target.indices.empty()) {
        fail("not-scalar", "`" + std::string(word) + "` names one number: it takes no indices", spanFrom(opened.begin));
        return;
      }
    }
    s.targets.push_back(std::move(target));
    const bool mayNameOnly = s.kind == StmtKind::Loss || s.kind == StmtKind::Eval;
    if (mayNameOnly && atEnd()) return;
    parseTypeAndLayout(s.targets[0]);
    if (!expect(TokenKind::Assign, " and an expression")) return;
    continueLine();
    s.values.push_back(parseExpr());
    parseWhere(s);
  }

  // where a = e, b = e
  void parseWhere(Stmt& s) {
    if (!atKeyword("where")) return;
    take();
    do {
      continueLine();
      Binder b;
      if (!parseName(b.name, b.span, "a name after `where`")) return;
      if (!expect(TokenKind::Assign, " and an expression")) return;
      continueLine();
      b.value = parseExpr();
      s.binders.push_back(b);
    } while (accept(TokenKind::Comma));
  }

  void parseShow(Stmt& s) {
    s.kind = StmtKind::Show;
    take();
    do {
      continueLine();
      s.values.push_back(parseExpr());
    } while (accept(TokenKind::Comma));
    if (atWord("as")) {
      take();
      if (!at(TokenKind::String)) {
        expected("a string after `as`");
        return;
      }
      s.value = parsePrimary();
    }
  }

  void parseTrain(Stmt& s) {
    s.kind = StmtKind::Train;
    take();
    if (!parseTensorName(s.name, s.nameSpan)) {
      expected("the name of a loss");
      return;
    }
    if (atEnd()) return;
    parseAttributes(s, "the training");
  }

  void parseHint(Stmt& s) {
    s.kind = StmtKind::Hint;
    take();
    if (atWord("fuse")) s.hint = Hint::Kind::Fuse;
    else if (atWord("split")) s.hint = Hint::Kind::Split;
    else if (atWord("schedule")) s.hint = Hint::Kind::Schedule;
    else {
      fail("unknown-hint", "expected fuse, split or schedule after `hint`, found " + found(), here());
      return;
    }
    s.nameSpan = span(take());
    do {
      Target t;
      if (!parseTensorName(t.name, t.nameSpan)) {
        expected("the name of a tensor");
        return;
      }
      t.span = t.nameSpan;
      s.targets.push_back(std::move(t));
    } while (accept(TokenKind::Comma));
    if (s.hint != Hint::Kind::Schedule) return;
    if (!at(TokenKind::LeftBrace)) {
      expected("`{` and the schedule");
      return;
    }
    const Token& opened = tok();
    int depth = 0;
    while (true) {
      const Token& t = tok();
      if (t.kind == TokenKind::End || t.kind == TokenKind::CellMarker) {
        fail("unclosed-bracket", "`{` is not closed", span(opened));
        return;
      }
      if (t.kind == TokenKind::LeftBrace) ++depth;
      if (t.kind == TokenKind::RightBrace) --depth;
      take();
      if (depth == 0) break;
    }
    s.raw = spanFrom(opened.begin);
    m_continued = m_at;
    if (tok().newlineBefore) m_continued = kNone;
  }

  // scatter[n: 5, d: 3] T[idx[n]: V, d: 3] += body
  void parseScatter(Stmt& s) {
    const Token& word = take();
    if (!at(TokenKind::LeftBracket)) {
      expected("`[` and the axes of the scatter");
      return;
    }
    const Token& opened = take();
    ++m_nesting;
    s.explicitAxes = true;
    if (!at(TokenKind::RightBracket)) {
      do {
        Binder b;
        if (!parseName(b.name, b.span, "the name of an index")) break;
        if (accept(TokenKind::Colon)) b.value = parseExpr();
        s.binders.push_back(b);
      } while (accept(TokenKind::Comma));
    }
    close(TokenKind::RightBracket, opened);
    const std::size_t axes = s.binders.size();
    if (m_failed) return;
    if (!at(TokenKind::Name) && !at(TokenKind::QuotedName)) {
      expected("the tensor to scatter into");
      return;
    }
    parseNameStatement(s);
    if (!m_failed && s.assign != AssignOp::Scatter) fail("expected", "`scatter` needs `+=`", span(word));
    // `where` names follow the axes in one list; the axes are those without a value or counted here.
    s.scatterAxes = axes;
  }

  bool parseTarget(Target& target) {
    const std::uint32_t begin = tok().begin;
    if (!parseTensorName(target.name, target.nameSpan)) {
      if (at(TokenKind::Keyword) || at(TokenKind::Reducer)) parseName(target.name, target.nameSpan, "a name");
      else expected("the name of a tensor");
      return false;
    }
    if (at(TokenKind::LeftBracket)) parseTargetIndices(target);
    target.span = spanFrom(begin);
    parseTypeAndLayout(target);
    return !m_failed;
  }

  void parseNameStatement(Stmt& s) {
    const TokenKind second = tokAt(m_at + 1).kind;
    if (atWord("output") && (second == TokenKind::Name || second == TokenKind::QuotedName) && !tokAt(m_at + 1).newlineBefore) {
      parseShow(s);
      s.named = true;
      return;
    }
    if (at(TokenKind::Name) && tokAt(m_at + 1).kind == TokenKind::LeftParen) {
      std::string of, wrt;
      std::size_t i = m_at;
      if (!(text(tok()) == "d" && derivativeName(i, of, wrt))) {
        s.kind = StmtKind::Call;
        s.values.push_back(parseExpr());
        return;
      }
    }
    s.kind = StmtKind::Assign;
    do {
      continueLine();
      s.targets.emplace_back();
      if (!parseTarget(s.targets.back())) return;
    } while (accept(TokenKind::Comma));
    if (accept(TokenKind::Assign)) s.assign = AssignOp::Define;
    else if (accept(TokenKind::AddAssign)) s.assign = AssignOp::Scatter;
    else if (accept(TokenKind::Becomes)) s.assign = AssignOp::Update;
    else {
      const bool bare = s.targets.size() == 1 && !s.targets[0].hasIndices && atEnd();
      if (bare) {
        Diagnostic* d = fail("no-effect", "`" + std::string(s.targets[0].name) + "` alone does nothing", s.targets[0].span);
        if (d)
          d->fixes.push_back({"show it", s.targets[0].span,
                              "show " + std::string(m_text.substr(s.targets[0].span.begin, s.targets[0].span.length()))});
      } else if (at(TokenKind::EqualEqual)) {
        Diagnostic* d = fail("expected", "`==` compares; a tensor is defined with `=`", span(tok()));
        if (d) d->fixes.push_back({"write `=`", span(tok()), "="});
      } else {
        expected("`=`, `+=` or `<-`");
      }
      return;
    }
    do {
      continueLine();
      s.values.push_back(parseExpr());
    } while (accept(TokenKind::Comma));
    parseWhere(s);
  }

  std::string_view m_text;
  SourceId m_source;
  Diagnostics& m_diagnostics;
  std::vector<Token> m_all;
  std::vector<Token> m_tokens;  // without comments and Markdown
  Ast m_ast;
  std::size_t m_at = 0;
  std::size_t m_continued = kNone;  // a token that may stand on a new line
  std::size_t m_statementBegin = 0;
  std::uint32_t m_lastEnd = 0;
  int m_nesting = 0;  // open ( and [: newlines do not count inside
  std::uint32_t m_depth = 0;
  mutable int m_derivativeDepth = 0;
  std::unordered_set<std::uint32_t> m_refused;  // places of the lexer's diagnostics
  std::size_t m_told = 0;
  bool m_failed = false;  // this statement has its mistake: nothing more is read or reported
};

}  // namespace

ast::Ast parse(std::string_view text, SourceId source, Diagnostics& diagnostics) { return Parser(text, source, diagnostics).run(); }

}  // namespace nf
