// SPDX-License-Identifier: Apache-2.0
#include "core/lang/parser.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "core/lang/expression_parser.h"
#include "core/lang/spelling.h"
#include "core/syntax/lexer.h"

namespace nf {
namespace {

using namespace ast;
using lang::ExpressionParser;

// Statements, cells and blocks.
class Parser : ExpressionParser {
 public:
  Parser(std::string_view text, SourceId source, Diagnostics& diagnostics) : ExpressionParser(text, source, diagnostics) {}

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
  using ExpressionParser::add;
  StmtRef add(Stmt s) {
    m_ast.stmts.push_back(std::move(s));
    return static_cast<StmtRef>(m_ast.stmts.size() - 1);
  }

  StmtRef parseStatement() {
    const Deeper deeper(*this);
    ++m_statements;
    const int outerNesting = m_nesting;
    const std::size_t outerBegin = m_statementBegin;
    m_nesting = 0;
    m_statementBegin = m_at;
    m_continued = m_at;
    const std::uint32_t begin = tok().begin;
    m_lastEnd = begin;
    Stmt s;
    if (m_statements == 1) m_toldTooDeep = false;
    if (m_statements > kMaxNestedStatements) {
      if (!m_toldTooDeep)
        fail("too-deep", "statements are nested more than " + std::to_string(kMaxNestedStatements) + " levels deep", here());
      m_failed = m_toldTooDeep = true;
    } else if (!tooDeep()) {
      parseInto(s);
    }
    if (!m_failed && !atEnd()) leftover(s);
    s.span = spanFrom(begin);
    if (m_failed) {
      s.kind = StmtKind::Error;
      synchronise();
      s.span = spanFrom(begin);
    }
    m_nesting = outerNesting;
    m_statementBegin = outerBegin;
    --m_statements;
    return add(std::move(s));
  }

  // `summ[k] X[k]`: the access that the statement ends with, where its tensor is nearly the name of a reduction.
  std::optional<std::pair<Span, std::string_view>> misspeltReduction(const Stmt& s) const {
    if (s.values.empty()) return std::nullopt;
    const Expr* e = &m_ast[s.values.back()];
    while (e->kind == ExprKind::Infix || e->kind == ExprKind::Prefix) e = &m_ast[e->args.back()];
    if (e->kind != ExprKind::Index) return std::nullopt;
    const Expr& tensor = m_ast[e->args[0]];
    if (tensor.kind != ExprKind::Name) return std::nullopt;
    std::string_view nearest;
    std::size_t least = tensor.text.size() < 4 ? 1 : 2;
    for (const std::string_view reducer : {"sum", "prod", "max", "min", "mean", "argmax", "argmin"})
      if (const std::size_t distance = lang::editDistance(tensor.text, reducer); distance <= least) {
        nearest = reducer;
        least = distance == 0 ? 0 : distance - 1;
      }
    if (nearest.empty()) return std::nullopt;
    return std::pair(tensor.span, nearest);
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
    if (t.kind == TokenKind::Assign && s.kind == StmtKind::Assign) d->notes.push_back({"a comparison is written `==`", {}});
    else if (const auto meant = misspeltReduction(s))
      d->fixes.push_back({"write `" + std::string(meant->second) + "`", meant->first, std::string(meant->second)});
    else if (t.kind == TokenKind::SlashSlash || readsSlashes()) d->notes.push_back({"a comment starts with `#`", {}});
    else if (t.kind == TokenKind::Name || t.kind == TokenKind::Number || t.kind == TokenKind::LeftParen)
      d->notes.push_back({"a product is written with `*`", {}});
    else if (t.kind == TokenKind::At)
      d->notes.push_back({"a product of matrices is written `C[i, j] = sum[k] A[i, k] * B[k, j]`", {}});
    else if (t.kind == TokenKind::Keyword && text(t) == "if")
      d->notes.push_back({"one of two values is chosen with `select(condition, a, b)`", {}});
  }

  // The statement has a `//`: what stands behind may be a comment of C.
  bool readsSlashes() const {
    for (std::size_t i = m_statementBegin; i < m_at; ++i)
      if (m_tokens[i].kind == TokenKind::SlashSlash) return true;
    return false;
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
        const Token& next = tokAt(m_at + 1);
        const bool comment = t.kind == TokenKind::Slash && next.kind == TokenKind::Star && next.begin == t.end;
        if (d)
          d->notes.push_back(
              {comment ? "a comment starts with `#`" : "to go on with the line above, end that line with the operator", {}});
        return;
      }
      case TokenKind::SlashSlash:
        if (Diagnostic* d = fail("expected", "a statement can't start with `//`", span(t)))
          d->notes.push_back({"a comment starts with `#`", {}});
        return;
      case TokenKind::Hole: {
        const TokenKind second = tokAt(m_at + 1).kind;
        if (second == TokenKind::Comma || second == TokenKind::Assign) return parseNameStatement(s);
        [[fallthrough]];
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
    if (word == "require") return parseRequire(s);
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
      continueExpression();
      b.value = parseExpr();
      s.binders.push_back(b);
    } while (accept(TokenKind::Comma));
  }

  void parseTypeAndLayout(Target& target) {
    if (accept(TokenKind::Colon)) {
      const auto type = at(TokenKind::Name) ? dtypeNamed(text(tok())) : std::nullopt;
      if (!type || *type == DType::Bool) {
        Diagnostic* d = fail("unknown-type", "expected a type: f32, f16, bf16, f64 or i32, found " + found(), here());
        static constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
            {"float", "f32"},   {"float32", "f32"},   {"double", "f64"}, {"float64", "f64"}, {"half", "f16"},
            {"float16", "f16"}, {"bfloat16", "bf16"}, {"int", "i32"},    {"int32", "i32"},   {"integer", "i32"}};
        for (const auto& [word, meant] : kElsewhere)
          if (d && text(tok()) == word) d->fixes.push_back({"write `" + std::string(meant) + "`", d->span, std::string(meant)});
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
    continueExpression();
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
      if (at(TokenKind::Colon)) {
        Diagnostic* d = expected("`=` and the value of `" + std::string(b.name) + "`");
        if (d) d->fixes.push_back({"write ` =`", span(tok()), " ="});
        break;
      }
      if (!expect(TokenKind::Assign, " and the value of `" + std::string(b.name) + "`")) break;
      continueLine();
      b.value = parseAttributeValue();
      s.binders.push_back(b);
      if (!m_failed && !atEnd() && !at(TokenKind::Comma)) expected("`;` or `}`");
    }
    m_nesting = nesting;
    if (m_failed) skipBraces();
  }

  // After a mistake among attributes: behind their closing brace, if it comes before the next statement.
  void skipBraces() {
    std::size_t i = m_at;
    for (int open = 1; open > 0; ++i) {
      const Token& t = tokAt(i);
      if (t.kind == TokenKind::End || t.kind == TokenKind::CellMarker || (t.kind == TokenKind::Keyword && startsStatement(i)))
        return;
      if (t.kind == TokenKind::LeftBrace) ++open;
      if (t.kind == TokenKind::RightBrace) --open;
    }
    m_at = i;
    m_lastEnd = tokAt(i - 1).end;
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
    continueExpression();
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
        // Of blocks in each other that end nowhere, the innermost is told.
        if (std::exchange(m_unclosedAt, m_at) == m_at) {
          m_failed = true;
          return;
        }
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
    s.optionCount = s.binders.size();
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
    if (!m_failed && !at(TokenKind::LeftBrace)) {
      if (Diagnostic* d = expected("`{` and the body of the function"))
        d->notes.push_back({"`def f(x) = x^2` is one expression, `def f(X[n]) -> Y { Y[i] = X[i]^2 }` a block", {}});
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
    if (!expect(TokenKind::DotDot, " and the end of the range, as in `for t in 0..T`")) return;
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
    if (!m_failed && at(TokenKind::Assign)) {
      if (Diagnostic* d = fail("expected", "`=` gives a name to something: a condition compares with `==`", span(tok())))
        d->fixes.push_back({"write `==`", span(tok()), "=="});
      return;
    }
    parseBlock(s.body, "`if`");
    const Token& next = tok();
    if (!m_failed && next.kind == TokenKind::Keyword && text(next) == "else") continueLine();  // also on the next line
    if (!atKeyword("else")) return;
    take();
    if (atKeyword("if")) {
      const std::size_t begin = m_statementBegin;
      s.otherwise.push_back(parseStatement());
      m_statementBegin = begin;
      return;
    }
    parseBlock(s.otherwise, "`else`");
  }

  // require c, "what to say"
  void parseRequire(Stmt& s) {
    s.kind = StmtKind::Require;
    take();
    s.values.push_back(parseExpr());
    if (!accept(TokenKind::Comma)) return;
    continueExpression();
    if (!at(TokenKind::String)) {
      expected("a string that says what is required");
      return;
    }
    s.value = parsePrimary();
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
    continueExpression();
    s.values.push_back(parseExpr());
    parseWhere(s);
  }

  // where a = e, b = e
  void parseWhere(Stmt& s) {
    if (!atKeyword("where")) return;
    take();
    bool first = true;
    do {
      if (!std::exchange(first, false)) continueLine();
      Binder b;
      if (!parseName(b.name, b.span, "a name after `where`")) return;
      if (!expect(TokenKind::Assign, " and an expression")) return;
      continueExpression();
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

  // `_` among the names of a statement.
  void unnamedResult(Stmt& s) {
    if (Diagnostic* d = fail("expected", "every result needs a name: `_` is none", span(tok())))
      d->notes.push_back({"what nothing reads is not computed", {}});
    s.targets.pop_back();
    // The names behind it are no mistakes of their own further down.
    for (std::size_t i = m_at + 1; tokAt(i).kind == TokenKind::Comma; i += 2) {
      const Token& next = tokAt(i + 1);
      if (next.kind != TokenKind::Name) continue;
      s.targets.emplace_back();
      s.targets.back().name = text(next);
      s.targets.back().nameSpan = span(next);
    }
  }

  // Two words where a statement begins: the first one was meant to be a keyword.
  void unknownStatement(Stmt& s) {
    const Target first = s.targets[0];
    const std::string word(first.name);
    const bool names = at(TokenKind::Name);
    Diagnostic* d = fail("unknown-statement", "`" + word + "` begins no statement", first.nameSpan);
    // What it names is no mistake of its own further down.
    if (names) {
      s.targets.emplace_back();
      s.targets.back().name = text(tok());
      s.targets.back().nameSpan = span(tok());
    }
    if (!d) return;
    std::string lower = word;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    std::string_view nearest;
    std::size_t least = word.size() < 4 ? 1 : 2;
    for (const std::string_view keyword : statementWords())
      if (const std::size_t distance = lang::editDistance(lower, keyword); distance <= least) {
        nearest = keyword;
        least = distance == 0 ? 0 : distance - 1;
      }
    if (!nearest.empty()) {
      d->fixes.push_back({"write `" + std::string(nearest) + "`", first.nameSpan, std::string(nearest)});
      return;
    }
    if (lower == "return") {
      d->notes.push_back({"a function gives what its head names: `def f(x) = x^2`, or `def f(X[n]) -> Y { Y[i] = X[i]^2 }`", {}});
      return;
    }
    std::string all;
    for (const std::string_view keyword : statementWords()) all += (all.empty() ? "" : " ") + std::string(keyword);
    d->notes.push_back({"a statement defines a tensor, `Y[i] = ...`, or begins with one of " + all, {}});
  }

  // By a statement that has been read.
  bool isMadeBefore(std::string_view name) const {
    return std::any_of(m_ast.stmts.begin(), m_ast.stmts.end(), [&](const Stmt& s) {
      const bool makes = s.kind == StmtKind::Assign || s.kind == StmtKind::Declare;
      return ((s.kind == StmtKind::Loss || s.kind == StmtKind::Eval) && s.name == name) ||
             (makes && std::any_of(s.targets.begin(), s.targets.end(), [&](const Target& t) { return t.name == name; }));
    });
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
      if (at(TokenKind::Hole)) return unnamedResult(s);
      if (!parseTarget(s.targets.back())) return;
    } while (accept(TokenKind::Comma));
    if (accept(TokenKind::Assign)) s.assign = AssignOp::Define;
    else if (accept(TokenKind::AddAssign)) s.assign = AssignOp::Scatter;
    else if (accept(TokenKind::Becomes)) s.assign = AssignOp::Update;
    else {
      const bool bare = s.targets.size() == 1 && !s.targets[0].hasIndices && atEnd();
      if (bare) {
        Diagnostic* d = fail("no-effect", "`" + std::string(s.targets[0].name) + "` alone does nothing", s.targets[0].span);
        if (d && isMadeBefore(s.targets[0].name))
          d->fixes.push_back({"show it", s.targets[0].span,
                              "show " + std::string(m_text.substr(s.targets[0].span.begin, s.targets[0].span.length()))});
      } else if (s.targets.size() == 1 && !s.targets[0].hasIndices &&
                 (at(TokenKind::Name) || at(TokenKind::Keyword) || at(TokenKind::Number) || at(TokenKind::String))) {
        unknownStatement(s);
      } else if (at(TokenKind::EqualEqual)) {
        Diagnostic* d = fail("expected", "`==` compares; a tensor is defined with `=`", span(tok()));
        if (d) d->fixes.push_back({"write `=`", span(tok()), "="});
      } else {
        expected("`=`, `+=` or `<-`");
      }
      return;
    }
    do {
      continueExpression();
      s.values.push_back(parseExpr());
    } while (accept(TokenKind::Comma));
    parseWhere(s);
  }

  std::uint32_t m_statements = 0;         // open, one within the other
  bool m_toldTooDeep = false;             // of the outermost one that is open
  std::size_t m_unclosedAt = ast::kNone;  // the token before which an open block was told
};

}  // namespace

ast::Ast parse(std::string_view text, SourceId source, Diagnostics& diagnostics) { return Parser(text, source, diagnostics).run(); }

}  // namespace nf
