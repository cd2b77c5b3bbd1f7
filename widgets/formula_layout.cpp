// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/formula_layout.h"

#include <QFontMetricsF>
#include <cctype>
#include <cmath>
#include <optional>

#include "widgets/basic.h"

namespace nf {
namespace {

using protocol::Formula;
using protocol::FormulaKind;
using protocol::FormulaNode;

constexpr double kIndex = 0.68;
constexpr double kIndexBelow = 18;  // letters smaller than this are indices
constexpr double kBrackets = 0.64;  // the width of a pair, in letters

// How tightly a node binds: a looser one inside a tighter place gets parentheses.
// `mod` is a word between two products: beside a factor `a mod b` would take it along.
enum Binding {
  kOr = -2,
  kAnd = -1,
  kCompare = 0,
  kSum = 1,
  kModulo = 2,
  kProduct = 3,
  kPrefix = 4,
  kPower = 5,
  kAtom = 6,
  kBracketed = 7
};

Binding infixBinding(const std::string& op) {
  if (op == "+" || op == "-") return kSum;
  if (op == "*") return kProduct;
  if (op == "%") return kModulo;
  if (op == "/" || op == "//") return kAtom;  // drawn as fraction and floor
  if (op == "or") return kOr;
  if (op == "and") return kAnd;
  return kCompare;
}

// A number as it is set: -1.5e-05 is a minus, 1.5 and the power -5 of ten. Integers are set whole.
struct SetNumber {
  bool negative = false;
  QString mantissa, exponent;  // no mantissa where it is 1 and a power of ten follows
};
SetNumber numberOf(const std::string& text) {
  SetNumber number;
  QString digits = QString::fromStdString(text);
  number.negative = digits.startsWith(QLatin1Char('-'));
  if (number.negative) digits.remove(0, 1);
  const qsizetype e = digits.indexOf(QLatin1Char('e'));
  if (e > 0 && digits[0].isDigit()) {
    number.exponent = QString::number(digits.mid(e + 1).toInt());
    digits.truncate(e);
    if (digits == QLatin1String("1")) digits.clear();
  }
  number.mantissa = digits;
  return number;
}

Binding bindingOf(const FormulaNode& node) {
  switch (node.kind) {
    case FormulaKind::Number: {
      const SetNumber number = numberOf(node.text);
      if (!number.exponent.isEmpty() && !number.mantissa.isEmpty()) return kProduct;
      return number.negative ? kPrefix : number.exponent.isEmpty() ? kAtom : kPower;
    }
    case FormulaKind::Name:
    case FormulaKind::Subscript:
    case FormulaKind::Call:
    case FormulaKind::Fraction:
    case FormulaKind::Partial: return kAtom;
    case FormulaKind::Infix: return infixBinding(node.text);
    case FormulaKind::Reduce:
    case FormulaKind::Cases: return kProduct;
    case FormulaKind::Prefix: return kPrefix;
    case FormulaKind::Power: return kPower;
    case FormulaKind::Equation: return kCompare;
  }
  return kAtom;
}

// What the left operand of an infix needs to stand without brackets.
Binding leftBinding(const std::string& op) { return op == "%" ? kProduct : infixBinding(op); }

bool beginsWithMinus(const std::vector<FormulaNode>& nodes, std::uint32_t id) {
  while (true) {
    const FormulaNode& node = nodes[id];
    if (node.kind == FormulaKind::Number) return node.text.starts_with('-');
    if (node.kind == FormulaKind::Prefix) return node.text == "-";
    if (node.kind != FormulaKind::Infix || node.text == "/" || node.text == "//") return false;
    if (bindingOf(nodes[node.children[0]]) < leftBinding(node.text)) return false;
    id = node.children[0];
  }
}

// What the right operand needs: no two signs stand side by side.
Binding rightBinding(const std::vector<FormulaNode>& nodes, const FormulaNode& infix) {
  const Binding own = infixBinding(infix.text);
  if (own >= kSum && own <= kProduct && beginsWithMinus(nodes, infix.children[1])) return kBracketed;
  return infix.text == "-" || infix.text == "%" ? static_cast<Binding>(own + 1) : own;
}

QString symbolOf(const std::string& op) {
  if (op == "<=") return QStringLiteral("≤");
  if (op == ">=") return QStringLiteral("≥");
  if (op == "!=") return QStringLiteral("≠");
  if (op == "==") return QStringLiteral("=");
  if (op == "-") return QStringLiteral("−");
  if (op == "%") return QStringLiteral("mod");
  return QString::fromStdString(op);
}

// What a part begins with when it is drawn, a number or a minus: a factor before it would be read on into it.
bool readsOn(const std::vector<FormulaNode>& nodes, std::uint32_t id) {
  while (true) {
    const FormulaNode& node = nodes[id];
    if (node.kind == FormulaKind::Number || node.kind == FormulaKind::Fraction) return true;
    if (node.kind == FormulaKind::Prefix) return node.text == "-";
    Binding least = kAtom;
    if (node.kind == FormulaKind::Infix) {
      if (node.text == "/") return true;
      if (node.text == "//" || (node.text == "*" && nodes[node.children[0]].kind == FormulaKind::Reduce)) return false;
      least = leftBinding(node.text);
    } else if (node.kind == FormulaKind::Subscript) {
      least = kOr;
    } else if (node.kind != FormulaKind::Power) {
      return false;
    }
    if (bindingOf(nodes[node.children[0]]) < least) return false;  // it stands in brackets
    id = node.children[0];
  }
}

// A name of several letters: 10 B.sum, where 2p is one word.
bool beginsWithWord(const std::vector<FormulaNode>& nodes, std::uint32_t id) {
  while (!nodes[id].children.empty() && nodes[id].kind != FormulaKind::Call && nodes[id].kind != FormulaKind::Reduce)
    id = nodes[id].children.front();
  return nodes[id].kind == FormulaKind::Name && nodes[id].text.size() > 1 &&
         !std::isdigit(static_cast<unsigned char>(nodes[id].text[1]));
}

bool endsWithNumber(const std::vector<FormulaNode>& nodes, std::uint32_t id) {
  while (nodes[id].kind == FormulaKind::Infix && nodes[id].text == "*" &&
         bindingOf(nodes[nodes[id].children[1]]) >= rightBinding(nodes, nodes[id]))
    id = nodes[id].children[1];
  return nodes[id].kind == FormulaKind::Number;
}

// Whether a product has its sign. A number and a fraction would be a mixed number.
bool needsDot(const std::vector<FormulaNode>& nodes, const FormulaNode& product) {
  const std::uint32_t right = product.children[1];
  if (beginsWithMinus(nodes, right)) return true;  // x (−2) would be a call
  return bindingOf(nodes[right]) >= rightBinding(nodes, product) && readsOn(nodes, right) &&
         (nodes[right].kind != FormulaKind::Fraction || endsWithNumber(nodes, product.children[0]));
}

// The cases that more stands to the right of: their rows would read on into it. Such cases stand in brackets.
class ClosedCases {
 public:
  explicit ClosedCases(const std::vector<FormulaNode>& nodes) : m_nodes(nodes), m_closed(nodes.size(), false) {
    for (const FormulaNode& node : nodes) {
      const auto& child = node.children;
      switch (node.kind) {
        case FormulaKind::Infix: {
          const bool drawn = node.text == "/" || node.text == "//";  // one below the other
          const bool bracketed = node.text == "*" && nodes[child[0]].kind == FormulaKind::Reduce;
          if (!drawn && !bracketed) closeLast(child[0], leftBinding(node.text));
          break;
        }
        case FormulaKind::Subscript:
        case FormulaKind::Call:
          for (std::size_t i = node.kind == FormulaKind::Subscript; i + 1 < child.size(); ++i) closeLast(child[i], kOr);
          break;
        default: break;
      }
    }
  }
  bool operator()(std::uint32_t id) const { return m_closed[id]; }

 private:
  // The cases that the part ends with, unless it stands in brackets itself.
  void closeLast(std::uint32_t id, Binding least) {
    const FormulaNode& node = m_nodes[id];
    if (bindingOf(node) < least) return;
    if (node.kind == FormulaKind::Cases) m_closed[id] = true;
    else if (node.kind == FormulaKind::Reduce) closeLast(node.children[0], kProduct);
    else if (node.kind == FormulaKind::Prefix) closeLast(node.children[0], kPrefix);
    else if (node.kind == FormulaKind::Infix && node.text != "/" && node.text != "//")
      closeLast(node.children[1], rightBinding(m_nodes, node));
  }

  const std::vector<FormulaNode>& m_nodes;
  std::vector<bool> m_closed;
};

class Setter {
 public:
  Setter(const Formula& formula, const Theme& theme) : m_nodes(formula.nodes), m_closed(m_nodes), m_theme(theme) {}

  FormulaBox set(std::uint32_t id, double px) { return withRegion(id, setNode(id, px)); }

  // As `set`, on several lines where one is wider than the room and breaking makes it narrower. The base line is that of the first.
  FormulaBox wrap(std::uint32_t id, double px, double room) {
    FormulaBox box = set(id, px);
    if (box.width <= room) return box;
    FormulaBox broken = withRegion(id, breakNode(id, px, room));
    return broken.width > 0 && broken.width < box.width ? broken : box;
  }

 private:
  FormulaBox withRegion(std::uint32_t id, FormulaBox box) {
    if (box.width > 0 && !m_nodes[id].origins.empty())
      box.regions.push_back({QRectF(0, -box.ascent, box.width, box.ascent + box.descent), id});
    return box;
  }
  static void put(FormulaBox& into, const FormulaBox& box, double x, double y) {
    for (auto run : box.runs) run.at += QPointF(x, y), into.runs.push_back(std::move(run));
    for (auto stroke : box.strokes) {
      for (QPointF& p : stroke.points) p += QPointF(x, y);
      into.strokes.push_back(std::move(stroke));
    }
    for (auto region : box.regions) region.rect.translate(x, y), into.regions.push_back(region);
    into.ascent = std::max(into.ascent, box.ascent - y);
    into.descent = std::max(into.descent, box.descent + y);
    into.width = std::max(into.width, x + box.width);
  }
  static void append(FormulaBox& into, const FormulaBox& box, double gap = 0) {
    put(into, box, into.width + (into.width > 0 ? gap : 0), 0);
  }

  FormulaBox word(const QString& text, double px, bool italic) {
    FormulaBox box;
    if (text.isEmpty()) return box;
    const QFont font = m_theme.math(px, italic);
    const QFontMetricsF metrics(font);
    const QRectF ink = metrics.tightBoundingRect(text);
    box.width = metrics.horizontalAdvance(text) + (italic ? px * 0.05 : 0);
    box.ascent = std::max(-ink.top(), px * 0.45);
    box.descent = std::max(ink.bottom(), 0.0);
    box.runs.push_back({text, font, {0, 0}});
    return box;
  }
  // One letter is italic, digits after it stand lower; a name of several letters is upright.
  // With indices its number stands on the line: below, W2[k] and W[2*k] would look alike.
  FormulaBox name(const std::string& text, double px, bool indexed = false) {
    const QString t = QString::fromStdString(text);
    qsizetype digits = t.size();
    while (digits > 1 && t[digits - 1].isDigit()) --digits;
    if (digits != 1 || !t[0].isLetter()) return word(t, px, t.size() == 1 && t[0].isLetter());
    FormulaBox box = word(t.left(1), px, true);
    if (digits < t.size() && indexed) append(box, word(t.mid(1), px, false));
    else if (digits < t.size()) put(box, word(t.mid(1), px * 0.74, false), box.width, px * 0.16);
    return box;
  }

  // `box` between brackets as high as it: round, floor, or bars.
  FormulaBox bracketed(const FormulaBox& inner, double px, char kind) {
    const double top = std::max(inner.ascent, px * 0.7) + px * 0.08, bottom = std::max(inner.descent, px * 0.2) + px * 0.08;
    const double w = px * 0.22;
    FormulaBox box;
    const auto side = [&](double x, bool left) {
      FormulaBox::Stroke stroke{{}, std::max(1.0, px * 0.055)};
      const double inward = left ? x + w : x, outward = left ? x : x + w;
      if (kind == '(') {
        for (int i = 0; i <= 12; ++i) {
          const double t = i / 12.0, bulge = 4 * t * (1 - t);
          stroke.points.emplace_back(inward + (outward - inward) * bulge, -top + (top + bottom) * t);
        }
      } else if (kind == '|') {
        stroke.points = {{x + w / 2, -top}, {x + w / 2, bottom}};
      } else {
        stroke.points = {{outward, -top}, {outward, bottom}, {inward, bottom}};
      }
      box.strokes.push_back(std::move(stroke));
    };
    side(0, true);
    put(box, inner, w + px * 0.08, 0);
    const double right = box.width + px * 0.08;
    side(right, false);
    box.width = right + w + px * 0.04;
    box.ascent = top, box.descent = bottom;
    return box;
  }

  FormulaBox operand(std::uint32_t id, double px, Binding least) {
    FormulaBox box = set(id, px);
    return bindingOf(m_nodes[id]) < least ? bracketed(box, px, '(') : box;
  }

  FormulaBox fraction(const FormulaBox& above, const FormulaBox& below, double px) {
    FormulaBox box;
    const double axis = -px * 0.27, gap = px * 0.16, width = std::max(above.width, below.width) + px * 0.3;
    put(box, above, (width - above.width) / 2, axis - gap - above.descent);
    put(box, below, (width - below.width) / 2, axis + gap + below.ascent);
    box.strokes.push_back({{{0, axis}, {width, axis}}, std::max(1.0, px * 0.055)});
    box.width = width + px * 0.08;
    return box;
  }

  FormulaBox list(const std::vector<std::uint32_t>& ids, std::size_t first, double px) {
    FormulaBox box;
    for (std::size_t i = first; i < ids.size(); ++i) {
      if (i > first) append(box, word(QStringLiteral(","), px, false)), box.width += px * 0.22;
      append(box, set(ids[i], px));
    }
    return box;
  }

  FormulaBox big(const FormulaNode& node, double px) {
    FormulaBox out;
    const bool sign = node.text == "sum" || node.text == "prod";
    const QString glyph = node.text == "sum" ? QStringLiteral("∑") : QStringLiteral("∏");
    const auto stack = [&](const FormulaBox& symbol, const FormulaBox& above, const FormulaBox& below) {
      FormulaBox box;
      const double width = std::max({symbol.width, above.width, below.width});
      put(box, symbol, (width - symbol.width) / 2, 0);
      const double top = symbol.ascent, bottom = symbol.descent;
      if (above.width > 0) put(box, above, (width - above.width) / 2, -top - px * 0.12 - above.descent);
      if (below.width > 0) put(box, below, (width - below.width) / 2, bottom + px * 0.14 + below.ascent);
      box.width = width;
      return box;
    };
    if (!sign) {
      FormulaBox axes;
      for (const auto& axis : node.axes) {
        if (axes.width > 0) append(axes, word(QStringLiteral(","), px * kIndex, false)), axes.width += px * 0.12;
        append(axes, name(axis.name, px * kIndex));
      }
      return stack(word(QString::fromStdString(node.text), px, false), {}, axes);
    }
    for (const auto& axis : node.axes) {
      FormulaBox symbol = word(glyph, px * 1.65, false);
      const double shift = px * 0.12;  // the sign is centred on the mathematical axis
      FormulaBox centred;
      put(centred, symbol, 0, shift);
      FormulaBox below = name(axis.name, px * kIndex);
      append(below, word(QStringLiteral("="), px * kIndex, false), 1);
      append(below, word(grouped(axis.first), px * kIndex, false), 1);
      append(out, stack(centred, word(grouped(axis.last), px * kIndex, false), below), px * 0.14);
    }
    return out;
  }

  // The operands of a chain of `and`, in order.
  void conjuncts(std::uint32_t id, std::vector<std::uint32_t>& into) const {
    const FormulaNode& node = m_nodes[id];
    if (node.kind != FormulaKind::Infix || node.text != "and") return into.push_back(id);
    for (const auto child : node.children) conjuncts(child, into);
  }

  // A row for each value, a line for each condition of it; cases inside the last value go on as rows.
  FormulaBox cases(std::uint32_t id, double px) {
    const double line = px * 0.26, row = px * 0.5;
    struct Row {
      FormulaBox value, condition;
    };
    std::vector<Row> rows;
    while (m_nodes[id].kind == FormulaKind::Cases) {
      std::vector<std::uint32_t> conditions;
      conjuncts(m_nodes[id].children[0], conditions);
      Row made{set(m_nodes[id].children[1], px * 0.92), {}};
      const double indent = word(QStringLiteral("and"), px * 0.8, false).width + px * 0.28;
      for (std::size_t i = 0; i < conditions.size(); ++i) {
        FormulaBox text = word(i == 0 ? QStringLiteral("if") : QStringLiteral("and"), px * 0.8, false);
        put(text, operand(conditions[i], px * 0.8, conditions.size() > 1 ? kCompare : kOr), indent, 0);
        put(made.condition, text, 0, i == 0 ? 0 : made.condition.descent + line + text.ascent);
      }
      rows.push_back(std::move(made));
      id = m_nodes[id].children[2];
    }
    rows.push_back({set(id, px * 0.92), word(QStringLiteral("otherwise"), px * 0.8, false)});
    double column = 0, height = 0;
    for (const Row& r : rows) {
      column = std::max(column, r.value.width);
      height += std::max(r.value.ascent + r.value.descent, r.condition.ascent + r.condition.descent);
    }
    height += row * static_cast<double>(rows.size() - 1);
    FormulaBox box;
    double top = -px * 0.27 - height / 2;
    for (const Row& r : rows) {
      const double value = r.value.ascent + r.value.descent, condition = r.condition.ascent + r.condition.descent;
      const double own = std::max(value, condition);
      put(box, r.value, px * 0.5, top + (own - value) / 2 + r.value.ascent);
      put(box, r.condition, px * 0.5 + column + px * 0.9, top + (own - condition) / 2 + r.condition.ascent);
      top += own + row;
    }
    addBrace(box, px);
    return box;
  }

  static void addBrace(FormulaBox& box, double px) {
    const double t = -box.ascent, b = box.descent, m = (t + b) / 2, r = px * 0.16;
    box.strokes.push_back(
        {{{2 * r, t}, {r, t + r}, {r, m - r}, {0, m}, {r, m + r}, {r, b - r}, {2 * r, b}}, std::max(1.0, px * 0.055)});
  }

  // ---- several lines
  static void below(FormulaBox& into, const FormulaBox& box, double x, double gap) {
    put(into, box, x, into.width > 0 ? into.descent + gap + box.ascent : 0);
  }

  FormulaBox wrappedOperand(std::uint32_t id, double px, Binding least, double room) {
    if (bindingOf(m_nodes[id]) >= least) return wrap(id, px, room);
    return bracketed(wrap(id, px, room - px * kBrackets), px, '(');
  }

  struct Piece {
    QString sign;  // before it; empty at the first
    std::uint32_t node;
    Binding least;
    std::vector<std::uint32_t> within;  // the shorter chains that it is a part of
  };
  // a + b - c, a * b * c: the operands of a chain of signs that bind alike.
  void chain(std::uint32_t id, Binding own, std::vector<std::uint32_t> within, std::vector<Piece>& into) const {
    const FormulaNode& node = m_nodes[id];
    const FormulaNode& left = m_nodes[node.children[0]];
    if (left.kind == FormulaKind::Infix && infixBinding(left.text) == own && own != kCompare && own != kModulo) {
      auto deeper = within;
      deeper.push_back(node.children[0]);
      chain(node.children[0], own, std::move(deeper), into);
    } else {
      into.push_back({{}, node.children[0], leftBinding(node.text), within});
    }
    into.push_back({node.text == "*" ? QStringLiteral("·") : symbolOf(node.text), node.children[1], rightBinding(m_nodes, node),
                    std::move(within)});
  }

  // Pieces on lines that they fill; a line after the first begins with its sign, indented.
  FormulaBox fill(const std::vector<Piece>& pieces, double px, double room) {
    const double indent = px * 0.9, gap = px * 0.24;
    FormulaBox out, line;
    double at = 0;
    bool broken = false;  // the operand before takes several lines: a sign beside it would stand at the end of its first
    for (const Piece& piece : pieces) {
      const FormulaBox sign = piece.sign.isEmpty() ? FormulaBox{} : word(piece.sign, px, false);
      const double before = sign.width > 0 ? sign.width + gap : 0;
      const auto sized = [&](double width) {
        FormulaBox box = wrappedOperand(piece.node, px, piece.least, width);
        // What begins a chain of factors and would take the rest along stands in brackets, as on one line.
        if (pieces.size() > 1 && &piece == &pieces.front() && m_nodes[piece.node].kind == FormulaKind::Reduce &&
            pieces[1].sign == QStringLiteral("·"))
          box = bracketed(box, px, '(');
        return box;
      };
      FormulaBox operand = set(piece.node, px);
      const double beside = room - at - line.width - (line.width > 0 ? gap : 0) - before;
      if (line.width > 0 && (broken || operand.width > beside)) {
        below(out, line, at, px * 0.32);
        line = {};
        at = indent;
      }
      const double own = room - at - line.width - (line.width > 0 ? gap : 0) - before;
      const FormulaNode& node = m_nodes[piece.node];
      broken = operand.width > own && node.kind == FormulaKind::Infix && bindingOf(node) >= piece.least;
      operand = sized(own);
      for (const std::uint32_t outer : piece.within) operand = withRegion(outer, std::move(operand));
      if (sign.width > 0) append(line, sign, gap);
      append(line, operand, gap);
    }
    below(out, line, at, px * 0.32);
    return out;
  }

  FormulaBox brokenCases(std::uint32_t id, double px, double room) {
    const double line = px * 0.26, row = px * 0.5, brace = px * 0.5, indent = px * 0.9;
    FormulaBox rows;
    const auto add = [&](std::uint32_t value, std::optional<std::uint32_t> condition) {
      FormulaBox box = wrap(value, px * 0.92, room - brace);
      if (!condition) {
        const FormulaBox otherwise = word(QStringLiteral("otherwise"), px * 0.8, false);
        const bool beside = brace + box.width + indent + otherwise.width <= room;
        if (beside) append(box, otherwise, indent);
        below(rows, box, brace, row);
        if (!beside) below(rows, otherwise, brace + indent, line);
        return;
      }
      below(rows, box, brace, row);
      std::vector<std::uint32_t> conditions;
      conjuncts(*condition, conditions);
      const double words = word(QStringLiteral("and"), px * 0.8, false).width + px * 0.28;
      for (std::size_t i = 0; i < conditions.size(); ++i) {
        FormulaBox text = word(i == 0 ? QStringLiteral("if") : QStringLiteral("and"), px * 0.8, false);
        put(text, wrappedOperand(conditions[i], px * 0.8, conditions.size() > 1 ? kCompare : kOr, room - brace - indent - words),
            words, 0);
        below(rows, text, brace + indent, line);
      }
    };
    while (m_nodes[id].kind == FormulaKind::Cases) {
      add(m_nodes[id].children[1], m_nodes[id].children[0]);
      id = m_nodes[id].children[2];
    }
    add(id, std::nullopt);
    FormulaBox box;
    put(box, rows, 0, -px * 0.27 - (rows.descent - rows.ascent) / 2);
    addBrace(box, px);
    return box;
  }

  FormulaBox breakNode(std::uint32_t id, double px, double room) {
    const FormulaNode& node = m_nodes[id];
    const auto& child = node.children;
    FormulaBox box;
    switch (node.kind) {
      case FormulaKind::Equation: {
        const double gap = px * 0.34, indent = px * 1.6;
        box = set(child[0], px);
        append(box, word(QStringLiteral("="), px, false), gap);
        FormulaBox beside = wrap(child[1], px, room - box.width - gap), under = wrap(child[1], px, room - indent);
        // Below the equals sign there is more room; it is taken where it saves lines or what would not fit.
        const bool fits = box.width + gap + beside.width <= room;
        if (fits && beside.ascent + beside.descent <= under.ascent + under.descent + box.ascent + box.descent + px * 0.4)
          append(box, beside, gap);
        else below(box, under, indent, px * 0.4);
        return box;
      }
      case FormulaKind::Infix: {
        if (node.text == "/" || node.text == "//") return {};
        std::vector<Piece> pieces;
        chain(id, infixBinding(node.text), {}, pieces);
        return fill(pieces, px, room);
      }
      case FormulaKind::Reduce: {
        const double gap = px * 0.32;
        box = big(node, px);
        FormulaBox beside = wrappedOperand(child[0], px, kProduct, room - box.width - gap);
        if (box.width + gap + beside.width <= room) {
          append(box, beside, gap);
        } else {
          below(box, wrappedOperand(child[0], px, kProduct, room - px * 0.9), px * 0.9, px * 0.32);
        }
        return box;
      }
      case FormulaKind::Prefix:
        box = word(node.text == "-" ? QStringLiteral("−") : QString::fromStdString(node.text), px, false);
        append(box, wrappedOperand(child[0], px, kPrefix, room - box.width - px * 0.25), node.text == "-" ? 1 : px * 0.25);
        return box;
      case FormulaKind::Call: {
        if (node.text == "sqrt" || node.text == "abs" || node.text == "floor") return {};
        box = word(QString::fromStdString(node.text), px, false);
        const double inside = room - box.width - px * 0.7;
        FormulaBox lines, line;
        for (std::size_t i = 0; i < child.size(); ++i) {
          FormulaBox argument = wrap(child[i], px, inside);
          if (i + 1 < child.size()) append(argument, word(QStringLiteral(","), px, false));
          if (line.width > 0 && line.width + px * 0.3 + argument.width > inside) {
            below(lines, line, 0, px * 0.32);
            line = {};
          }
          append(line, argument, px * 0.3);
        }
        below(lines, line, 0, px * 0.32);
        append(box, bracketed(lines, px, '('), px * 0.04);
        return box;
      }
      case FormulaKind::Cases:
        return m_closed(id) ? bracketed(brokenCases(id, px, room - px * kBrackets), px, '(') : brokenCases(id, px, room);
      default: return {};
    }
  }

  FormulaBox setNode(std::uint32_t id, double px) {
    const FormulaNode& node = m_nodes[id];
    const auto& child = node.children;
    FormulaBox box;
    switch (node.kind) {
      case FormulaKind::Number: {
        const SetNumber number = numberOf(node.text);
        bool whole = false;
        const qlonglong value = number.mantissa.toLongLong(&whole);
        const QString digits = whole && value >= 10000 ? grouped(value) : number.mantissa;
        const QString ten = number.exponent.isEmpty()   ? QString()
                            : number.mantissa.isEmpty() ? QStringLiteral("10")
                                                        : QStringLiteral("·10");
        box = word((number.negative ? QStringLiteral("−") : QString()) + digits + ten, px, false);
        if (number.exponent.isEmpty()) return box;
        const QString exponent = QString(number.exponent).replace(QLatin1Char('-'), QChar(0x2212));
        put(box, word(exponent, px * kIndex, false), box.width, -std::max(px * 0.38, box.ascent - px * 0.3));
        return box;
      }
      case FormulaKind::Name: return name(node.text, px);
      case FormulaKind::Subscript: {
        const bool named = m_nodes[child[0]].kind == FormulaKind::Name;
        box = named ? withRegion(child[0], name(m_nodes[child[0]].text, px, child.size() > 1)) : set(child[0], px);
        if (child.size() > 1) put(box, list(child, 1, px * kIndex), box.width, px * 0.24);
        box.width += px * 0.06;
        return box;
      }
      case FormulaKind::Reduce: {
        box = big(node, px);
        append(box, operand(child[0], px, kProduct), px * 0.32);
        return box;
      }
      case FormulaKind::Infix: {
        const bool index = px < kIndexBelow;
        if (node.text == "/") return fraction(set(child[0], px * 0.92), set(child[1], px * 0.92), px);
        if (node.text == "//") {
          if (!index) return bracketed(fraction(set(child[0], px * 0.85), set(child[1], px * 0.85), px), px, 'f');
          // A fraction in an index would be too small to read: on one line, between floor brackets.
          append(box, operand(child[0], px, kProduct));
          append(box, word(QStringLiteral("/"), px, false), 1);
          append(box, operand(child[1], px, kAtom), 1);
          return bracketed(box, px, 'f');
        }
        const Binding own = infixBinding(node.text);
        const Binding right = rightBinding(m_nodes, node);
        FormulaBox left = operand(child[0], px, leftBinding(node.text));
        if (node.text == "*" && m_nodes[child[0]].kind == FormulaKind::Reduce) left = bracketed(left, px, '(');
        append(box, left);
        if (node.text == "*") {
          const bool number = m_nodes[child[0]].kind == FormulaKind::Number;
          const bool dot = needsDot(m_nodes, node) || (index && !number);
          if (dot) append(box, word(QStringLiteral("·"), px, false), px * (index ? 0.06 : 0.18));
          const bool tight = number && !dot && !beginsWithWord(m_nodes, child[1]);
          append(box, operand(child[1], px, right), tight ? px * 0.04 : index ? px * 0.06 : px * 0.2);
        } else {
          const QString symbol = symbolOf(node.text);
          const double gap = symbol[0].isLetter() ? px * 0.3 : index && own == kSum ? px * 0.1 : px * 0.24;
          append(box, word(symbol, px, false), gap);
          append(box, operand(child[1], px, right), gap);
        }
        return box;
      }
      case FormulaKind::Prefix:
        box = word(node.text == "-" ? QStringLiteral("−") : QString::fromStdString(node.text), px, false);
        append(box, operand(child[0], px, kPrefix), node.text == "-" ? 1 : px * 0.25);
        return box;
      case FormulaKind::Fraction: return fraction(set(child[0], px * 0.92), set(child[1], px * 0.92), px);
      case FormulaKind::Power: {
        box = operand(child[0], px, kAtom);
        const FormulaBox exponent = set(child[1], px * kIndex);
        put(box, exponent, box.width, -std::max(px * 0.38, box.ascent - px * 0.3));
        return box;
      }
      case FormulaKind::Call: {
        const FormulaBox arguments = list(child, 0, px);
        if (node.text == "sqrt" && child.size() == 1) {
          const double top = arguments.ascent + px * 0.16, bottom = arguments.descent;
          put(box, arguments, px * 0.62, 0);
          box.strokes.push_back(
              {{{0, -px * 0.3}, {px * 0.14, -px * 0.38}, {px * 0.32, bottom}, {px * 0.55, -top}, {box.width + px * 0.08, -top}},
               std::max(1.0, px * 0.055)});
          box.ascent = top + 2;
          box.width += px * 0.14;
          return box;
        }
        if (node.text == "abs" && child.size() == 1) return bracketed(arguments, px, '|');
        if (node.text == "floor" && child.size() == 1) return bracketed(arguments, px, 'f');
        box = word(QString::fromStdString(node.text), px, false);
        append(box, bracketed(arguments, px, '('), px * 0.04);
        return box;
      }
      case FormulaKind::Cases: return m_closed(id) ? bracketed(cases(id, px), px, '(') : cases(id, px);
      case FormulaKind::Partial: {
        FormulaBox above = word(QStringLiteral("∂"), px, false), below = above;
        append(above, set(child[0], px)), append(below, set(child[1], px));
        return fraction(above, below, px);
      }
      case FormulaKind::Equation:
        box = set(child[0], px);
        append(box, word(QStringLiteral("="), px, false), px * 0.34);
        append(box, set(child[1], px), px * 0.34);
        return box;
    }
    return box;
  }

  const std::vector<FormulaNode>& m_nodes;
  ClosedCases m_closed;
  const Theme& m_theme;
};

class Latex {
 public:
  explicit Latex(const Formula& formula) : m_nodes(formula.nodes), m_closed(m_nodes) {}
  QString text(std::uint32_t id) {
    const FormulaNode& n = m_nodes[id];
    const auto& c = n.children;
    const QString word = QString::fromStdString(n.text);
    switch (n.kind) {
      case FormulaKind::Number: {
        const SetNumber number = numberOf(n.text);
        const QString digits = (number.negative ? QStringLiteral("-") : QString()) + number.mantissa;
        if (number.exponent.isEmpty()) return digits;
        return digits + (number.mantissa.isEmpty() ? QString() : QStringLiteral(" \\cdot ")) +
               QStringLiteral("10^{%1}").arg(number.exponent);
      }
      case FormulaKind::Name: return named(word);
      case FormulaKind::Subscript: {
        QStringList indices;
        for (std::size_t i = 1; i < c.size(); ++i) indices << text(c[i]);
        if (indices.isEmpty()) return text(c[0]);
        const FormulaNode& base = m_nodes[c[0]];
        return (base.kind == FormulaKind::Name ? named(QString::fromStdString(base.text), true) : text(c[0])) +
               QStringLiteral("_{") + indices.join(QStringLiteral(", ")) + QLatin1Char('}');
      }
      case FormulaKind::Reduce: {
        QString out;
        if (n.text == "sum" || n.text == "prod") {
          for (const auto& axis : n.axes)
            out += QStringLiteral("\\%1_{%2=%3}^{%4} ")
                       .arg(word, named(QString::fromStdString(axis.name)))
                       .arg(axis.first)
                       .arg(axis.last);
        } else {
          QStringList axes;
          for (const auto& axis : n.axes) axes << named(QString::fromStdString(axis.name));
          out = QStringLiteral("\\operatorname*{%1}_{%2} ").arg(word, axes.join(QStringLiteral(", ")));
        }
        return out + inside(c[0], kProduct);
      }
      case FormulaKind::Infix: {
        if (n.text == "/") return QStringLiteral("\\frac{%1}{%2}").arg(text(c[0]), text(c[1]));
        if (n.text == "//") return QStringLiteral("\\left\\lfloor\\frac{%1}{%2}\\right\\rfloor").arg(text(c[0]), text(c[1]));
        const Binding right = rightBinding(m_nodes, n);
        QString left = inside(c[0], leftBinding(n.text));
        if (n.text == "*" && m_nodes[c[0]].kind == FormulaKind::Reduce) left = QStringLiteral("\\left(%1\\right)").arg(left);
        const bool tight = m_nodes[c[0]].kind == FormulaKind::Number && m_nodes[c[1]].kind == FormulaKind::Name;
        const QString sign = n.text == "*"     ? needsDot(m_nodes, n) ? QStringLiteral(" \\cdot ")
                                                 : tight              ? QStringLiteral(" ")
                                                                      : QStringLiteral(" \\, ")
                                 : n.text == "%" ? QStringLiteral(" \\bmod ")
                             : n.text == "<="  ? QStringLiteral(" \\le ")
                             : n.text == ">="  ? QStringLiteral(" \\ge ")
                             : n.text == "!="  ? QStringLiteral(" \\ne ")
                             : n.text == "=="  ? QStringLiteral(" = ")
                             : n.text == "and" ? QStringLiteral(" \\land ")
                             : n.text == "or"  ? QStringLiteral(" \\lor ")
                                               : QStringLiteral(" %1 ").arg(word);
        return left + sign + inside(c[1], right);
      }
      case FormulaKind::Prefix: return (n.text == "not" ? QStringLiteral("\\lnot ") : word) + inside(c[0], kPrefix);
      case FormulaKind::Fraction: return QStringLiteral("\\frac{%1}{%2}").arg(text(c[0]), text(c[1]));
      case FormulaKind::Power: return inside(c[0], kAtom) + QStringLiteral("^{%1}").arg(text(c[1]));
      case FormulaKind::Call: {
        QStringList arguments;
        for (const auto child : c) arguments << text(child);
        const QString joined = arguments.join(QStringLiteral(", "));
        if (n.text == "sqrt") return QStringLiteral("\\sqrt{%1}").arg(joined);
        if (n.text == "abs") return QStringLiteral("\\left|%1\\right|").arg(joined);
        if (n.text == "floor") return QStringLiteral("\\left\\lfloor %1\\right\\rfloor").arg(joined);
        return QStringLiteral("\\operatorname{%1}\\left(%2\\right)").arg(word, joined);
      }
      case FormulaKind::Cases:
        return (m_closed(id) ? QStringLiteral("\\left(%1\\right)") : QStringLiteral("%1"))
            .arg(QStringLiteral("\\begin{cases}%1 & \\text{if } %2\\\\ %3 & \\text{otherwise}\\end{cases}")
                     .arg(text(c[1]), text(c[0]), text(c[2])));
      case FormulaKind::Partial: return QStringLiteral("\\frac{\\partial %1}{\\partial %2}").arg(text(c[0]), text(c[1]));
      case FormulaKind::Equation: return text(c[0]) + QStringLiteral(" = ") + text(c[1]);
    }
    return {};
  }

 private:
  QString inside(std::uint32_t id, Binding least) {
    const QString t = text(id);
    return bindingOf(m_nodes[id]) < least ? QStringLiteral("\\left(%1\\right)").arg(t) : t;
  }
  static QString named(QString name, bool indexed = false) {
    name.replace(QLatin1Char('_'), QStringLiteral("\\_"));
    qsizetype digits = name.size();
    while (digits > 1 && name[digits - 1].isDigit()) --digits;
    if (digits == 1 && name.size() > 1 && !indexed) return QStringLiteral("{%1_{%2}}").arg(name.left(1), name.mid(1));
    return name.size() <= 1 ? name : QStringLiteral("\\mathit{%1}").arg(name);
  }
  const std::vector<FormulaNode>& m_nodes;
  ClosedCases m_closed;
};

}  // namespace

FormulaBox setFormula(const Formula& formula, const Theme& theme, double px, double room) {
  if (formula.nodes.empty() || !protocol::wellFormed(formula)) return {};
  return Setter(formula, theme).wrap(static_cast<std::uint32_t>(formula.nodes.size() - 1), px, room);
}

QString toLatex(const Formula& formula) {
  if (formula.nodes.empty() || !protocol::wellFormed(formula)) return {};
  return Latex(formula).text(static_cast<std::uint32_t>(formula.nodes.size() - 1));
}

}  // namespace nf
