// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <optional>
#include <span>

#include "core/lang/token_reader.h"

namespace nf::lang {

// Expressions, by recursive descent in the order of docs/language.md. Their nodes go into `m_ast`.
class ExpressionParser : protected TokenReader {
 protected:
  using TokenReader::TokenReader;

  // ------------------------------------------------------------ nodes
  ast::ExprRef add(ast::Expr e);
  static ast::Expr errorExpr(Span span);
  ast::ExprRef error() { return add(errorExpr(here())); }

  // ------------------------------------------------------------ expressions
  ast::ExprRef parseExpr() { return parseOr(); }

  ast::ExprRef infix(ast::Op op, Span head, ast::ExprRef a, ast::ExprRef b);
  // One more operand of a chain, with the sign before it.
  struct Link {
    ast::Op op;
    Span head;
    ast::ExprRef operand;
  };
  ast::ExprRef chain(std::span<const Link> links);
  ast::ExprRef parseOr();
  ast::ExprRef parseAnd();
  ast::ExprRef parseNot();
  std::optional<ast::Op> comparison() const;
  ast::ExprRef parseComparison();
  ast::ExprRef parseSum();
  ast::ExprRef parseProduct();
  ast::ExprRef parseUnary();
  ast::ExprRef parsePower();
  ast::ExprRef parsePostfix();
  ast::ExprRef parseElseAtom();
  ast::ExprRef parseIndexing(ast::ExprRef base);
  ast::ExprRef parseIndexItem();

  // d(name)/d(name), where a name may be such a derivative again.
  bool derivativeName(std::size_t& i, std::string& of, std::string& wrt) const;

  std::string_view intern(std::string name) { return m_ast.names.emplace_back(std::move(name)); }

  // A tensor where it is named: Name, quoted name, d(L)/d(W).
  bool parseTensorName(std::string_view& name, Span& where);
  ast::ExprRef parsePrimary();
  ast::ExprRef parseNumber();
  ast::ExprRef parseNamed();
  ast::ExprRef parseCall(ast::Expr e);
  ast::ExprRef parseReduction();

  ast::Ast m_ast;
  mutable int m_derivativeDepth = 0;
};

}  // namespace nf::lang
