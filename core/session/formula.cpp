// SPDX-License-Identifier: Apache-2.0
#include "core/session/formula.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "core/session/loop_names.h"
#include "core/support/unique_names.h"

namespace nf {
namespace {

using protocol::FormulaKind;
using protocol::FormulaNode;
using protocol::Origins;

std::string numberText(double value, DType type) {
  if (type == DType::Bool) return value != 0 ? "true" : "false";
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  return buffer;
}

class FormulaBuilder {
 public:
  FormulaBuilder(const Program& program, const Operator& op, const OriginSpans& spans, const LoopNames& names,
                 const std::vector<std::string>& counters)
      : m_program(program), m_op(op), m_spans(spans), m_names(names), m_counters(counters) {
    if (m_counters.empty() && m_op.kind != OperatorKind::Loop) m_formula.name = m_op.name;
  }

  // `as`: the name of what it makes.
  protocol::Formula build(const FormulaName& as) {
    const std::uint32_t left = subscripted(as, leftIndices(), m_op.origin);
    const bool arrives = m_op.kind == OperatorKind::Scatter && !m_op.scatter.empty();
    std::uint32_t right = arrives ? whereItArrives(m_op.body) : scalar(m_op.body, 0);
    if (m_op.axes.size() > m_op.outputRank) {
      const std::string_view reducer = m_op.kind == OperatorKind::Scatter ? "sum" : name(m_op.reducer);
      right = add(FormulaKind::Reduce, std::string(reducer), {right}, m_op.origin);
      for (std::size_t k = m_op.outputRank; k < m_op.axes.size(); ++k)
        m_formula.nodes[right].axes.push_back({m_op.axes[k].name, 0, m_op.axes[k].extent - 1});
    }
    add(FormulaKind::Equation, "=", {left, right}, m_op.origin);
    return std::move(m_formula);
  }

  // Lines of a loop that are no operators.
  protocol::Formula head() {
    const Loop& loop = m_program[m_op.loop];
    add(FormulaKind::Name,
        "for " + m_counters.back() + " in " + (loop.reversed ? "reversed " : "") + "0.." + std::to_string(loop.trips), {},
        m_op.origin);
    return std::move(m_formula);
  }
  protocol::Formula equal(const FormulaName& left, const FormulaName& right) {
    const std::uint32_t a = subscripted(left, {}, m_op.origin), b = subscripted(right, {}, m_op.origin);
    add(FormulaKind::Equation, "=", {a, b}, m_op.origin);
    return std::move(m_formula);
  }
  protocol::Formula stacked(const FormulaName& all, const FormulaName& one) {
    const std::uint32_t step = add(FormulaKind::Name, m_counters.back(), {}, {});
    const std::uint32_t a = subscripted(all, {step}, m_op.origin), b = subscripted(one, {}, m_op.origin);
    add(FormulaKind::Equation, "=", {a, b}, m_op.origin);
    return std::move(m_formula);
  }
  protocol::Formula accumulated(const FormulaName& all, const FormulaName& one) {
    const std::uint32_t a = subscripted(all, {}, m_op.origin), b = subscripted(one, {}, m_op.origin);
    const std::uint32_t sum = add(FormulaKind::Reduce, "sum", {b}, m_op.origin);
    m_formula.nodes[sum].axes.push_back({m_counters.back(), 0, m_program[m_op.loop].trips - 1});
    add(FormulaKind::Equation, "=", {a, sum}, m_op.origin);
    return std::move(m_formula);
  }

 private:
  static constexpr int kDeepest = 60;
  static constexpr std::size_t kMostNodes = 4000;

  std::uint32_t add(FormulaKind kind, std::string text, std::vector<std::uint32_t> children, OriginId origin) {
    FormulaNode node;
    node.kind = kind;
    node.text = std::move(text);
    node.children = std::move(children);
    m_formula.nodes.push_back(std::move(node));
    if (origin.valid()) place(m_formula.nodes.back(), origin);
    return static_cast<std::uint32_t>(m_formula.nodes.size() - 1);
  }

  void place(FormulaNode& node, OriginId origin) const {
    node.origins = origin.valid() ? m_spans.of(m_program, origin) : Origins{};
    node.bodies = origin.valid() ? m_spans.expandedFrom(m_program, origin) : Origins{};
  }

  std::string variableName(IndexVar v) const {
    if (v < m_op.axes.size()) return m_op.axes[v].name;
    const std::size_t level = v - kLoopVariable;
    if (level < m_counters.size()) return m_counters[level];
    return level == 0 ? "t" : "t" + std::to_string(level);
  }

  // The printer's text of an index, "2*p + r - 1" or "(z + 1) // 2 <= 3", as a tree: what a person reads in the source is what is
  // set in type, remainders re-created. Variables stand in it as `$` and their number.
  class IndexReader {
   public:
    IndexReader(FormulaBuilder& builder, std::string text) : m_builder(builder), m_text(std::move(text)) {}
    std::uint32_t comparison() {
      const std::uint32_t left = sum();
      for (const char* relation : {"<=", ">=", "=="})
        if (take(relation)) {
          const std::uint32_t right = sum();
          return m_builder.add(FormulaKind::Infix, relation, {left, right}, {});
        }
      return left;
    }

   private:
    bool take(std::string_view word) {
      while (m_at < m_text.size() && m_text[m_at] == ' ') ++m_at;
      if (std::string_view(m_text).substr(m_at, word.size()) != word) return false;
      m_at += word.size();
      return true;
    }
    std::string digits() {
      const std::size_t begin = m_at;
      while (m_at < m_text.size() && m_text[m_at] >= '0' && m_text[m_at] <= '9') ++m_at;
      return m_text.substr(begin, m_at - begin);
    }
    std::uint32_t infix(const char* sign, std::uint32_t left, std::uint32_t right) {
      return m_builder.add(FormulaKind::Infix, sign, {left, right}, {});
    }
    std::uint32_t sum() {
      std::uint32_t left = product();
      while (true) {
        const char* sign = take("+") ? "+" : take("-") ? "-" : nullptr;
        if (!sign) return left;
        const std::uint32_t right = product();
        left = infix(sign, left, right);
      }
    }
    std::uint32_t product() {
      std::uint32_t left = atom();
      while (true) {
        const char* sign = take("//") ? "//" : take("*") ? "*" : take("%") ? "%" : nullptr;
        if (!sign) return left;
        const std::uint32_t right = atom();
        left = infix(sign, left, right);
      }
    }
    std::uint32_t atom() {
      if (take("-")) {
        const std::uint32_t operand = atom();
        return m_builder.add(FormulaKind::Prefix, "-", {operand}, {});
      }
      if (take("(")) {
        const std::uint32_t inner = sum();
        take(")");
        return inner;
      }
      if (take("$"))
        return m_builder.add(FormulaKind::Name, m_builder.variableName(static_cast<IndexVar>(std::stoul("0" + digits()))), {}, {});
      return m_builder.add(FormulaKind::Number, digits(), {}, {});
    }

    FormulaBuilder& m_builder;
    std::string m_text;
    std::size_t m_at = 0;
  };
  static std::string numbered(IndexVar v) { return "$" + std::to_string(v); }

  template <class T>
  std::uint32_t index(const T& e, OriginId origin) {
    constexpr std::size_t kLongest = 300;  // its tree is as deep as it has summands
    std::string text = toText(e, numbered);
    if (text.size() > kLongest)
      return add(FormulaKind::Name, toText(e, [this](IndexVar v) { return variableName(v); }), {}, origin);
    const std::uint32_t made = IndexReader(*this, std::move(text)).comparison();
    if (origin.valid()) place(m_formula.nodes[made], origin);
    return made;
  }

  // A scatter has no names for the element that it adds to: z, or z0, z1, ..; none that its axes have.
  std::vector<std::string> elementNames() const {
    const auto taken = [&](const std::string& name) {
      return std::any_of(m_op.axes.begin(), m_op.axes.end(), [&](const Axis& axis) { return axis.name == name; });
    };
    std::vector<std::string> names;
    for (std::size_t k = 0; k < m_op.scatter.size(); ++k) {
      std::string name = m_op.scatter.size() == 1 ? "z" : "z" + std::to_string(k);
      while (taken(name)) name += "'";
      names.push_back(std::move(name));
    }
    return names;
  }

  // What a scatter adds, at the points whose indices are the element's: "body if 2*i + j = z0 and idx[i] = z1, else 0".
  std::uint32_t whereItArrives(ExprId body) {
    const std::vector<std::string> names = elementNames();
    std::optional<std::uint32_t> all;
    for (std::size_t k = 0; k < names.size(); ++k) {
      const AccessIndex& i = m_op.scatter[k];
      const std::uint32_t read = i.isData() ? scalar(i.data, 1) : index(i.affine, {});
      const std::uint32_t element = add(FormulaKind::Name, names[k], {}, {});
      const std::uint32_t equal = add(FormulaKind::Infix, "==", {read, element}, {});
      all = all ? add(FormulaKind::Infix, "and", {*all, equal}, {}) : equal;
    }
    int depth = 1;
    body = under(body, 0, depth, all);
    const std::uint32_t value = scalar(body, depth);
    const std::uint32_t nothing = add(FormulaKind::Number, "0", {}, {});
    return add(FormulaKind::Cases, {}, {*all, value, nothing}, {});
  }

  // select(a, select(b, x, 0), 0) reads as one case, "x if a and b": joins to `all` the conditions that lead to `elsewhere` where they
  // do not hold, and returns what is left of the body.
  ExprId under(ExprId body, double elsewhere, int& depth, std::optional<std::uint32_t>& all) {
    const auto isGuarded = [&] {
      const ScalarNode& n = m_program[body];
      return n.op == ScalarOp::Select && m_program[n.operands[2]].op == ScalarOp::Constant &&
             m_program[n.operands[2]].value == elsewhere;
    };
    for (; depth < kDeepest && isGuarded(); ++depth) {
      const ScalarNode& n = m_program[body];
      const std::uint32_t condition = scalar(n.operands[0], depth + 1);
      all = all ? add(FormulaKind::Infix, "and", {*all, condition}, n.origin) : condition;
      body = n.operands[1];
    }
    return body;
  }

  std::vector<std::uint32_t> leftIndices() {
    std::vector<std::uint32_t> indices;
    if (m_op.kind == OperatorKind::Scatter) {
      for (const std::string& name : elementNames()) indices.push_back(add(FormulaKind::Name, name, {}, {}));
    } else {
      for (std::uint32_t k = 0; k < m_op.outputRank; ++k)
        indices.push_back(add(FormulaKind::Name, m_op.axes[k].name, {}, m_op.axes[k].origin));
    }
    return indices;
  }

  // `d(L)/d(W)` is set as a partial derivative, its indices below at W; the sums it is made of, `d(L)/d(W)#2`, carry their number.
  // The step that a tensor is of stands above it, in a derivative above what it is with respect to.
  std::uint32_t subscripted(const FormulaName& named, std::vector<std::uint32_t> indices, OriginId origin) {
    const std::string& name = named.name;
    const std::size_t middle = name.find(")/d("), end = name.rfind(')');
    const bool partial = name.starts_with("d(") && middle != std::string::npos && end > middle + 3 &&
                         (end + 1 == name.size() || name[end + 1] == '#');
    const auto with = [&](std::uint32_t base) {
      if (!indices.empty()) {
        indices.insert(indices.begin(), base);
        base = add(FormulaKind::Subscript, {}, std::move(indices), {});
      }
      if (named.step.empty()) return base;
      const std::uint32_t step = add(FormulaKind::Name, named.step, {}, {});
      return add(FormulaKind::Power, {}, {base, step}, {});
    };
    std::uint32_t made;
    if (partial) {
      const std::uint32_t of = add(FormulaKind::Name, name.substr(2, middle - 2), {}, {});
      const std::uint32_t wrt = with(add(FormulaKind::Name, name.substr(middle + 4, end - middle - 4), {}, {}));
      made = add(FormulaKind::Partial, {}, {of, wrt}, {});
      if (end + 1 < name.size()) {
        // In parentheses it would be a step.
        const bool loops = m_names.hasLoops();
        const std::uint32_t number =
            add(FormulaKind::Name, (loops ? "[" : "(") + name.substr(end + 2) + (loops ? "]" : ")"), {}, {});
        made = add(FormulaKind::Power, {}, {made, number}, {});
      }
    } else {
      made = with(add(FormulaKind::Name, name, {}, {}));
    }
    place(m_formula.nodes[made], origin);
    return made;
  }

  std::uint32_t scalar(ExprId id, int depth) {
    if (depth > kDeepest || m_formula.nodes.size() > kMostNodes) return add(FormulaKind::Name, "…", {}, {});
    const ScalarNode& n = m_program[id];
    const auto child = [&](int k) { return scalar(n.operands[k], depth + 1); };
    switch (n.op) {
      case ScalarOp::Constant: return add(FormulaKind::Number, numberText(n.value, n.type), {}, n.origin);
      case ScalarOp::Index: return index(m_program[n.index], n.origin);
      case ScalarOp::Training: return add(FormulaKind::Name, "training", {}, n.origin);
      case ScalarOp::Random: return add(FormulaKind::Name, "random", {}, n.origin);
      case ScalarOp::IndexGe0: return index(IndexCond::ge0(m_program[n.index]), n.origin);
      case ScalarOp::IndexEq0: return index(IndexCond::eq0(m_program[n.index]), n.origin);
      case ScalarOp::Load: {
        const Access& access = m_program[n.access];
        std::vector<std::uint32_t> indices;
        FormulaName named = m_names[access.tensor];
        std::size_t first = 0;
        const std::size_t steps = named.stacked.size();
        if (steps > 0 && access.indices.size() >= steps &&
            std::none_of(access.indices.begin(), access.indices.begin() + static_cast<std::ptrdiff_t>(steps),
                         [](const AccessIndex& i) { return i.isData(); })) {
          named.step = "(" + named.around;
          for (; first < steps; ++first)
            named.step += (first > 0 ? ", " : "") + toText(access.indices[first].affine + IndexExpr(named.stacked[first]),
                                                           [this](IndexVar v) { return variableName(v); });
          named.step += ")";
        }
        for (std::size_t k = first; k < access.indices.size(); ++k) {
          const AccessIndex& i = access.indices[k];
          indices.push_back(i.isData() ? scalar(i.data, depth + 1) : index(i.affine, {}));
        }
        return subscripted(named, std::move(indices), n.origin);
      }
      case ScalarOp::Div: {
        const std::uint32_t a = child(0), b = child(1);
        return add(FormulaKind::Fraction, {}, {a, b}, n.origin);
      }
      case ScalarOp::Pow: {
        const std::uint32_t a = child(0), b = child(1);
        return add(FormulaKind::Power, {}, {a, b}, n.origin);
      }
      case ScalarOp::Select: {
        std::optional<std::uint32_t> all = child(0);
        const ScalarNode& otherwise = m_program[n.operands[2]];
        ExprId then = n.operands[1];
        int inner = depth + 1;
        if (otherwise.op == ScalarOp::Constant) then = under(then, otherwise.value, inner, all);
        const std::uint32_t a = scalar(then, inner), b = child(2);
        return add(FormulaKind::Cases, {}, {*all, a, b}, n.origin);
      }
      case ScalarOp::Cast: {
        const std::uint32_t a = child(0);
        return add(FormulaKind::Call, std::string(name(n.type)), {a}, n.origin);
      }
      case ScalarOp::StopGradient: return child(0);
      default: break;
    }
    const ScalarOpInfo& op = info(n.op);
    if (op.form == ScalarForm::Infix) {
      const std::uint32_t a = child(0), b = child(1);
      return add(FormulaKind::Infix, std::string(op.spelling), {a, b}, n.origin);
    }
    std::vector<std::uint32_t> children;
    for (int k = 0; k < op.arity; ++k) children.push_back(child(k));
    return add(op.form == ScalarForm::Prefix ? FormulaKind::Prefix : FormulaKind::Call, std::string(op.spelling),
               std::move(children), n.origin);
  }

  const Program& m_program;
  const Operator& m_op;
  const OriginSpans& m_spans;
  const LoopNames& m_names;
  const std::vector<std::string>& m_counters;
  protocol::Formula m_formula;
};

// The lines of a loop: what it begins with, its head, what a step does, what it keeps.
class LoopWriter {
 public:
  LoopWriter(const OriginSpans& spans, std::vector<protocol::Formula>& out) : m_spans(spans), m_out(out) {}

  void write(const Program& program, OperatorId id, const LoopNames& names, const std::vector<std::string>& counters) {
    const Operator& op = program[id];
    const auto line = [&](const Program& of, const Operator& made, const LoopNames& called,
                          const std::vector<std::string>& within) { return FormulaBuilder(of, made, m_spans, called, within); };
    // What is a slice of all steps goes by their name.
    if (op.kind != OperatorKind::Loop && !names[op.output].stacked.empty()) return;
    if (op.kind != OperatorKind::Loop) return add(line(program, op, names, counters).build(names[op.output]));
    const Loop& loop = program[op.loop];
    const Program& body = *loop.body;
    const std::vector<OperatorId> made = producers(program), madeInside = producers(body);
    std::vector<std::string> within = counters;
    within.push_back(counterName(loop.counter, counters));
    const LoopNames inside = names.inside(loop, within);
    for (const Loop::Carried& c : loop.carried) {
      const FormulaName first = names.first(loop, c), initial = names[c.initial];
      const OperatorId from = counters.empty() ? made[c.initial.value] : OperatorId();  // else it is a line of the body around
      if (from.valid() && program[from].kind != OperatorKind::Loop && program[from].output == c.initial)
        add(line(program, program[from], names, counters).build(first));
      else if (initial.name != first.name || initial.step != first.step)
        add(line(program, op, names, counters).equal(first, initial));
    }
    add(line(program, op, names, within).head());
    for (std::size_t i = 0; i < body.operators.size(); ++i) write(body, OperatorId(i), inside, within);
    for (const Loop::Carried& c : loop.carried) {
      // What is handed on without an operator: an older value, or one from outside.
      FormulaName next = inside[c.innerIn];
      const bool another = !madeInside[c.innerOut.value].valid() || inside[c.innerOut].name != next.name;
      if (!another) continue;
      next.step = names.next(loop, within);
      add(line(program, op, names, within).equal(next, inside[c.innerOut]));
    }
    for (const Loop::Stacked& s : loop.stacked)
      if (names[s.outer].stacked.empty()) add(line(program, op, names, within).stacked(names[s.outer], inside[s.inner]));
    for (const Loop::Accumulated& a : loop.accumulated)
      add(line(program, op, names, within).accumulated(names[a.outer], inside[a.inner]));
    if (!counters.empty()) return;
    for (const Loop::Carried& c : loop.carried) {
      if (!c.last.valid() || names[c.last].name.starts_with("d(")) continue;
      // What a function's loop carries has the name of the call before its own: Z.h.
      const std::string own = names[c.last].name.substr(0, names[c.last].name.find('\''));
      const std::string full(withoutNumber(program[c.last].name));
      add(line(program, op, names, counters).equal({full.ends_with('.' + own) ? full : own, {}, {}, {}}, names[c.last]));
    }
  }

 private:
  static constexpr std::size_t kMost = 60;

  static std::string counterName(const std::string& wish, const std::vector<std::string>& taken) {
    std::string name = wish;
    while (std::find(taken.begin(), taken.end(), name) != taken.end()) name += "'";
    return name;
  }

  void add(protocol::Formula formula) {
    if (m_out.size() > kMost) return;
    if (m_out.size() == kMost) {
      formula.nodes.clear();
      formula.nodes.push_back({FormulaKind::Name, "…", {}, {}, {}, {}});
    }
    m_out.push_back(std::move(formula));
  }

  const OriginSpans& m_spans;
  std::vector<protocol::Formula>& m_out;
};

}  // namespace

std::vector<protocol::Formula> formulasOf(const Program& program, OperatorId op, const OriginSpans& spans) {
  std::vector<protocol::Formula> out;
  LoopWriter(spans, out).write(program, op, LoopNames(program), {});
  return out;
}

}  // namespace nf
