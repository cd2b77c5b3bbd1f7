// SPDX-License-Identifier: Apache-2.0
#include "core/lang/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

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

namespace lang {

using namespace ast;

// ------------------------------------------------------------ nodes

ExprRef ExpressionParser::add(Expr e) {
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

Expr ExpressionParser::errorExpr(Span span) {
  Expr e;
  e.kind = ExprKind::Error;
  e.span = e.head = span;
  return e;
}

// ------------------------------------------------------------ expressions

ExprRef ExpressionParser::infix(Op op, Span head, ExprRef a, ExprRef b) {
  Expr e;
  e.kind = ExprKind::Infix;
  e.op = op;
  e.head = head;
  e.span = cover(m_ast.exprs[a].span, m_ast.exprs[b].span);
  e.args = {a, b};
  return add(std::move(e));
}

// Of operands joined by + and -, or by * alone; what stands before the first is not part of it. From the left as one reads it, but a
// long chain in halves, so that it is not as deep as it is long: a second half after a - has its signs turned.
ExprRef ExpressionParser::chain(std::span<const Link> links) {
  constexpr std::size_t kLong = 256;
  const auto joining = [&](std::size_t k) {
    if (links[k].op == Op::Mul) return Op::Mul;
    return k == 0 || links[k].op == links[0].op ? Op::Add : Op::Sub;
  };
  if (links.size() > kLong) {
    const std::size_t half = links.size() / 2;
    const ExprRef left = chain(links.first(half)), right = chain(links.subspan(half));
    return infix(joining(half), links[half].head, left, right);
  }
  ExprRef a = links[0].operand;
  for (std::size_t k = 1; k < links.size(); ++k) a = infix(joining(k), links[k].head, a, links[k].operand);
  return a;
}

ExprRef ExpressionParser::parseOr() {
  ExprRef a = parseAnd();
  while (atKeyword("or")) {
    const Span head = span(take());
    continueExpression();
    a = infix(Op::Or, head, a, parseAnd());
  }
  return a;
}

ExprRef ExpressionParser::parseAnd() {
  ExprRef a = parseNot();
  while (atKeyword("and")) {
    const Span head = span(take());
    continueExpression();
    a = infix(Op::And, head, a, parseNot());
  }
  return a;
}

ExprRef ExpressionParser::parseNot() {
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

std::optional<Op> ExpressionParser::comparison() const {
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

ExprRef ExpressionParser::parseComparison() {
  const ExprRef a = parseSum();
  const auto op = comparison();
  if (!op) return a;
  const Token& sign = take();
  continueExpression();
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

ExprRef ExpressionParser::parseSum() {
  const ExprRef first = parseProduct();
  if (!at(TokenKind::Plus) && !at(TokenKind::Minus)) return first;
  std::vector<Link> links{{Op::Add, {}, first}};
  while (at(TokenKind::Plus) || at(TokenKind::Minus)) {
    const Op op = at(TokenKind::Plus) ? Op::Add : Op::Sub;
    const Span head = span(take());
    continueExpression();
    links.push_back({op, head, parseProduct()});
  }
  return chain(links);
}

ExprRef ExpressionParser::parseProduct() {
  const Deeper deeper(*this);
  if (tooDeep()) return error();
  const ExprRef first = parseUnary();
  if (!at(TokenKind::Star) && !at(TokenKind::Slash) && !at(TokenKind::SlashSlash) && !at(TokenKind::Percent)) return first;
  std::vector<Link> factors{{Op::Mul, {}, first}};
  while (at(TokenKind::Star) || at(TokenKind::Slash) || at(TokenKind::SlashSlash) || at(TokenKind::Percent)) {
    const Op op = at(TokenKind::Star)         ? Op::Mul
                  : at(TokenKind::Slash)      ? Op::Div
                  : at(TokenKind::SlashSlash) ? Op::FloorDiv
                                              : Op::Mod;
    const Token& sign = take();
    const Span head = span(sign);
    continueExpression();
    if (op == Op::Mul && at(TokenKind::Star) && !tok().spaceBefore) {
      Diagnostic* d = fail("bad-operator", "`**` is no operator: powers are written `^`", {m_source, sign.begin, tok().end});
      if (d) d->fixes.push_back({"write `^`", {m_source, sign.begin, tok().end}, "^"});
      return chain(factors);
    }
    const ExprRef next = parseUnary();
    if (op == Op::Mul) factors.push_back({op, head, next});
    else factors = {{Op::Mul, {}, infix(op, head, chain(factors), next)}};
  }
  return chain(factors);
}

ExprRef ExpressionParser::parseUnary() {
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

ExprRef ExpressionParser::parsePower() {
  const ExprRef base = parsePostfix();
  if (!at(TokenKind::Caret)) return base;
  const Span head = span(take());
  continueExpression();
  return infix(Op::Pow, head, base, parseUnary());  // right associative; -2 may be an exponent
}

ExprRef ExpressionParser::parsePostfix() {
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

ExprRef ExpressionParser::parseElseAtom() {
  if (at(TokenKind::Number) || at(TokenKind::Name) || at(TokenKind::LeftParen) || at(TokenKind::QuotedName)) return parsePrimary();
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

ExprRef ExpressionParser::parseIndexing(ExprRef base) {
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

ExprRef ExpressionParser::parseIndexItem() {
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
bool ExpressionParser::derivativeName(std::size_t& i, std::string& of, std::string& wrt) const {
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

// A tensor where it is named: Name, quoted name, d(L)/d(W).
bool ExpressionParser::parseTensorName(std::string_view& name, Span& where) {
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

ExprRef ExpressionParser::parsePrimary() {
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
      if (Diagnostic* d = expected("an expression"); d && text(t) == "where" && tokAt(m_at + 1).kind == TokenKind::LeftParen)
        d->notes.push_back({"one of two values is chosen with `select(condition, a, b)`", {}});
      return error();
    case TokenKind::LeftBracket:
      if (Diagnostic* d = expected("an expression"))
        d->notes.push_back(
            {"numbers are not listed in the text: `input X[2, 3] = csv(\"x.csv\")` reads them from a file, and "
             "`Y[i: 2, j: 3] = 3*i + j` makes them of indices",
             {}});
      return error();
    case TokenKind::Ellipsis: expected("an expression: `...` stands in brackets only"); return error();
    default: expected("an expression"); return error();
  }
}

ExprRef ExpressionParser::parseNumber() {
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

ExprRef ExpressionParser::parseNamed() {
  const Token& t = tok();
  if (m_nesting > 0 && isWholeStatement(m_at)) {
    if (Diagnostic* d = fail("expected", "expected an expression, found the end of the line", {m_source, m_lastEnd, m_lastEnd}))
      d->notes.push_back({"a statement begins here, and a bracket before it is still open", span(t)});
    return error();
  }
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

ExprRef ExpressionParser::parseCall(Expr e) {
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
        for (const Binder& other : e.binders)
          if (other.name == option.name) {
            if (Diagnostic* d = fail("redefinition", "`" + std::string(option.name) + "` is given twice", option.span))
              d->notes.push_back({"it was given here", other.span});
            break;
          }
        e.binders.push_back(option);
      } else {
        const ExprRef argument = parseExpr();
        if (!e.binders.empty()) {
          Diagnostic* d = fail("positional-after-named", "a plain argument can't follow a named one", m_ast.exprs[argument].span);
          if (d && e.text == "select") d->notes.push_back({"two values are compared with `==`", e.binders.back().span});
        }
        e.args.push_back(argument);
      }
    } while (accept(TokenKind::Comma) || accept(TokenKind::Semicolon));
  }
  close(TokenKind::RightParen, opened);
  e.span = spanFrom(e.head.begin);
  return add(std::move(e));
}

ExprRef ExpressionParser::parseReduction() {
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
  continueExpression();
  if (m_failed) return error();
  e.args = {parseProduct()};
  e.span = cover(e.head, m_ast.exprs[e.args[0]].span);
  return add(std::move(e));
}

}  // namespace lang
}  // namespace nf
