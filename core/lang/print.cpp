// SPDX-License-Identifier: Apache-2.0
// The text form: a Program as source of the language. docs/language.md, "The text form", says what is written how.
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/lang/compile.h"
#include "core/lang/elaborator.h"
#include "core/support/unique_names.h"
#include "core/syntax/schedule_text.h"
#include "core/syntax/token.h"

namespace nf {
namespace {

using lang::printReal;

// Binding strength of what was printed; a weaker one gets parentheses.
enum Level : int { kOr, kAnd, kNot, kCompare, kSum, kProduct, kUnary, kPower, kAtom };

std::string numberText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return printReal(value);
}

std::string_view phaseWord(Phase phase) {
  switch (phase) {
    case Phase::Forward: return "";
    case Phase::Backward: return "@backward ";
    case Phase::Optimizer: return "@optimizer ";
    case Phase::Evaluation: return "@evaluation ";
  }
  return "";
}

class Printer {
 public:
  explicit Printer(const Program& program) : m_program(program) {}

  std::string run() {
    takeNames();
    for (const DataSet& d : m_program.data) line(dataText(d));
    for (const Tensor& t : m_program.tensors)
      if (t.kind != TensorKind::Intermediate)
        line(declarationText(t, m_names[static_cast<std::size_t>(&t - m_program.tensors.data())]));
    indexDerivatives();
    printOperators();
    while (m_nextDerivative < m_program.derivatives.size()) explicitDerivative();
    for (const Update& u : m_program.updates) line(nameOf(u.target) + " <- " + nameOf(u.value));
    for (const Output& o : m_program.outputs) line(outputText(o));
    for (const Hint& h : m_program.hints)
      if (isNamed(h)) line(hintText(h));
    return std::move(m_out);
  }

  std::vector<std::string> statements(const std::vector<OperatorId>& operators) {
    std::vector<std::string> list;
    for (const OperatorId id : operators) {
      printOperator(id);
      m_out.pop_back();
      list.push_back(std::exchange(m_out, {}));
    }
    return list;
  }

  std::string some(const std::vector<OperatorId>& operators, std::vector<std::string> counters,
                   const std::vector<std::string>& reserved) {
    m_counters = std::move(counters);
    m_used.insert(reserved.begin(), reserved.end());
    for (const OperatorId id : operators) printOperator(id);
    if (!m_out.empty() && m_out.back() == '\n') m_out.pop_back();
    return std::move(m_out);
  }

  std::string expression(const Operator& op, ExprId e, std::vector<std::string> counters) {
    m_counters = std::move(counters);
    prepare(op, e, {});
    return print(e, std::nullopt).text;
  }

 private:
  struct Text {
    std::string text;
    Level level;
  };

  // A loop's body, with the names its tensors have outside.
  Printer(const Program& body, const Printer& around, std::vector<std::string> names, std::vector<std::string> counters)
      : m_program(body), m_names(std::move(names)), m_used(around.m_used), m_counters(std::move(counters)),
        m_indent(around.m_indent + "  ") {
    m_used.insert(m_names.begin(), m_names.end());
  }

  // One operator without a loop needs no list of all names: they are the program's.
  void takeNames() {
    if (!m_names.empty()) return;
    for (const Tensor& t : m_program.tensors) m_names.push_back(t.name);
    m_used.insert(m_names.begin(), m_names.end());
    // One name from the start to behind the loop, as it was written: the start of `h` is `h#1` to the program.
    for (std::size_t i = m_program.operators.size(); i-- > 0;) {
      if (m_program.operators[i].kind != OperatorKind::Loop) continue;
      const Loop& loop = m_program[m_program.operators[i].loop];
      for (std::size_t c = 0; c < loop.carried.size(); ++c) {
        const auto& [initial, in, out, last] = loop.carried[c];
        std::string& name = m_names[initial.value];
        const std::string stem(withoutNumber(name));
        if (stem == name || !carriedAlone(loop, c, i)) continue;
        const std::string& behind = last.valid() ? m_names[last.value] : stem;
        if (last.valid() ? withoutNumber(behind) == stem : m_used.insert(stem).second) name = behind;
      }
    }
  }

  // Nobody asks for the initial value any more once the loop at `op` has begun.
  bool carriedAlone(const Loop& loop, std::size_t carried, std::size_t op) const {
    const TensorId initial = loop.carried[carried].initial;
    for (std::size_t k = 0; k < loop.carried.size(); ++k)
      if (k != carried && loop.carried[k].initial == initial) return false;
    return std::ranges::none_of(loop.invariants, [&](const auto& v) { return v.outer == initial; }) && !readLater(initial, op);
  }

  void line(const std::string& text) { m_out += m_indent + text + "\n"; }
  const std::string& rawName(TensorId id) const { return m_names.empty() ? m_program[id].name : m_names[id.value]; }
  std::string nameOf(TensorId id) const {
    return id.valid() && id.value < m_program.tensors.size() ? quotedName(rawName(id)) : "`?`";
  }

  std::string freshName(const std::string& wish) {
    std::string name = wish;
    for (int n = 2; !m_used.insert(name).second; ++n) name = wish + "@" + std::to_string(n);
    return name;
  }

  // ------------------------------------------------------------ declarations
  static std::string initializerText(const Initializer& init) {
    const auto call = [&](const char* word) {
      std::string text = std::string(word) + "(";
      bool first = true;
      for (const double x : init.numbers) {
        text += (first ? "" : ", ") + numberText(x);
        first = false;
      }
      for (const std::string& s : init.strings) {
        text += std::string(first ? "" : ", ") + "\"" + s + "\"";
        first = false;
      }
      return text + ")";
    };
    switch (init.kind) {
      case Initializer::Kind::None: return "";
      case Initializer::Kind::Zeros: return "zeros()";
      case Initializer::Kind::Constant: return init.numbers.empty() ? "0" : numberText(init.numbers[0]);
      case Initializer::Kind::Normal: return call("normal");
      case Initializer::Kind::Uniform: return call("uniform");
      case Initializer::Kind::Kaiming: return call("kaiming");
      case Initializer::Kind::Xavier: return call("xavier");
      case Initializer::Kind::Npy: return call("npy");
      case Initializer::Kind::Npz: return call("npz");
      case Initializer::Kind::Idx: return call("idx");
      case Initializer::Kind::Csv: return call("csv");
      case Initializer::Kind::Safetensors: return call("safetensors");
      case Initializer::Kind::Batch: {
        std::string text = "batch " + quotedName(init.data) + "[:, " + std::to_string(init.columnBegin);
        if (init.columnEnd != init.columnBegin + 1) text += ".." + std::to_string(init.columnEnd);
        text += "]";
        if (init.scale != 1) text += " * " + (init.scale < 0 ? "(" + numberText(init.scale) + ")" : numberText(init.scale));
        if (init.shift != 0) text += (init.shift < 0 ? " - " : " + ") + numberText(std::fabs(init.shift));
        return text;
      }
    }
    return "";
  }

  static std::string dataText(const DataSet& d) {
    std::string text = "data " + quotedName(d.name) + " = ";
    text += d.source.kind == Initializer::Kind::None && !d.source.strings.empty() ? d.source.strings[0] : initializerText(d.source);
    return text + " { split = last " + std::to_string(d.heldOutLast) + " }";
  }

  static std::string layoutText(const Tensor& t) {
    if (t.layout.order.empty()) return "";
    std::string text = " layout(";
    for (std::size_t i = 0; i < t.layout.order.size(); ++i) text += (i ? ", " : "") + std::to_string(t.layout.order[i]);
    return text + ")";
  }

  static std::string declarationText(const Tensor& t, const std::string& called) {
    std::string text = t.kind == TensorKind::Input   ? "input "
                       : t.kind == TensorKind::Param ? "param "
                       : t.kind == TensorKind::Const ? "const "
                                                     : "state ";
    text += quotedName(called);
    if (!t.shape.empty()) {
      text += "[";
      for (std::size_t i = 0; i < t.shape.size(); ++i) text += (i ? ", " : "") + std::to_string(t.shape[i]);
      text += "]";
    }
    if (t.type != DType::F32) text += " : " + std::string(name(t.type));
    text += layoutText(t);
    const std::string init = initializerText(t.init);
    return init.empty() ? text : text + " = " + init;
  }

  std::string outputText(const Output& o) {
    const std::string tensor = m_names[o.tensor.value];
    switch (o.role) {
      case OutputRole::Loss:
      case OutputRole::Eval: {
        const std::string word = o.role == OutputRole::Loss ? "loss " : "eval ";
        if (o.name == tensor || m_used.contains(o.name)) return word + nameOf(o.tensor);
        m_used.insert(o.name);
        return quotedName(o.name) + " = " + nameOf(o.tensor) + "\n" + m_indent + word + quotedName(o.name);
      }
      case OutputRole::Show:
        return "show " + nameOf(o.tensor) +
               (o.name == tensor || o.name.find('"') != std::string::npos ? "" : " as \"" + o.name + "\"");
      case OutputRole::Named:
        return "output " + nameOf(o.tensor) +
               (o.name == tensor || o.name.find('"') != std::string::npos ? "" : " as \"" + o.name + "\"");
    }
    return "";
  }

  // A pass may have removed what a hint names; derived tensors and operators come later.
  bool isNamed(const Hint& h) const {
    return std::all_of(h.tensors.begin(), h.tensors.end(), [&](const std::string& name) {
      return name.find('/') != std::string::npos || name.find('#') != std::string::npos || m_program.tensorNamed(name).valid();
    });
  }

  std::string hintText(const Hint& h) const {
    std::string text = h.kind == Hint::Kind::Fuse ? "hint fuse " : h.kind == Hint::Kind::Split ? "hint split " : "hint schedule ";
    for (std::size_t i = 0; i < h.tensors.size(); ++i) {
      const TensorId named = m_program.tensorNamed(h.tensors[i]);  // what a loop carries goes by another name here
      text += (i ? ", " : "") + (named.valid() ? nameOf(named) : quotedName(h.tensors[i]));
    }
    return h.kind == Hint::Kind::Schedule ? text + " " + scheduleText(h.attributes) : text;
  }

  // ------------------------------------------------------------ derivatives
  void indexDerivatives() {
    for (std::size_t i = 0; i < m_program.derivatives.size(); ++i) m_derivativeOf.emplace(m_program.derivatives[i].result.value, i);
    m_introduced.assign(m_program.derivatives.size(), false);
  }

  bool canonical(const Derivative& d) const {
    return !d.seed.valid() && m_names[d.result.value] == "d(" + m_names[d.of.value] + ")/d(" + m_names[d.wrt.value] + ")" &&
           isDerivativeName(m_names[d.result.value]);
  }

  void explicitDerivative() {
    const std::size_t i = m_nextDerivative++;
    const Derivative& d = m_program.derivatives[i];
    if (m_introduced[i]) return;
    m_introduced[i] = true;
    line(nameOf(d.result) + " = " +
         (d.seed.valid() ? "grad(" + nameOf(d.of) + ", " + nameOf(d.wrt) + ", " + nameOf(d.seed) + ")"
                         : "d(" + nameOf(d.of) + ")/d(" + nameOf(d.wrt) + ")"));
  }

  // Derivatives among these tensors, before their first use and in the program's order. A single one that is next and goes by
  // its own name needs no line: naming it asks for it.
  void introduce(const std::vector<TensorId>& reads) {
    std::vector<std::size_t> fresh;
    for (const TensorId t : reads) {
      const auto at = m_derivativeOf.find(t.value);
      if (at != m_derivativeOf.end() && !m_introduced[at->second]) fresh.push_back(at->second);
    }
    if (fresh.empty()) return;
    if (fresh.size() == 1 && fresh[0] == m_nextDerivative && canonical(m_program.derivatives[fresh[0]])) {
      m_introduced[m_nextDerivative++] = true;
      return;
    }
    const std::size_t last = *std::max_element(fresh.begin(), fresh.end());
    while (m_nextDerivative <= last) explicitDerivative();
  }

  // ------------------------------------------------------------ operators
  void printOperators() {
    std::unordered_map<std::uint32_t, const Group*> first;
    for (const Group& g : m_program.groups)
      if (!g.operators.empty()) first.emplace(g.operators[0].value, &g);
    for (std::size_t i = 0; i < m_program.operators.size(); ++i) {
      if (const auto g = first.find(static_cast<std::uint32_t>(i)); g != first.end())
        line("# subgraph " + std::to_string(g->second->subgraph) + ": " + g->second->name);
      introduce(readsOf(m_program, OperatorId(i)));
      printOperator(OperatorId(i));
    }
  }

  void printOperator(OperatorId id) {
    const Operator& op = m_program[id];
    if (op.kind == OperatorKind::Loop) return printLoop(id);
    prepare(op, op.body, op.scatter);
    const Tensor& out = m_program[op.output];
    std::string text(phaseWord(op.phase));
    const std::vector<bool> explicitExtent = extentsToWrite(op);
    const auto axis = [&](std::size_t a) {
      return m_axisNames[a] + (explicitExtent[a] ? ": " + std::to_string(op.axes[a].extent) : "");
    };
    if (op.kind == OperatorKind::Scatter) {
      text += "scatter[";
      for (std::size_t a = 0; a < op.axes.size(); ++a)
        text += (a ? ", " : "") + m_axisNames[a] + ": " + std::to_string(op.axes[a].extent);
      text += "] " + nameOf(op.output) + "[";
      for (std::size_t k = 0; k < op.scatter.size(); ++k)
        text += (k ? ", " : "") + indexText(op.scatter[k]) + ": " + std::to_string(out.shape[k]);
      text += "]";
    } else {
      text += nameOf(op.output);
      const bool plainRead = m_program[op.body].op == ScalarOp::Load && op.reducer == Reducer::None;
      if (op.outputRank > 0 || plainRead) {
        text += "[";
        for (std::size_t a = 0; a < op.outputRank; ++a) text += (a ? ", " : "") + axis(a);
        text += "]";
      }
    }
    const bool arg = op.reducer == Reducer::ArgMax || op.reducer == Reducer::ArgMin;
    const DType natural = arg                                      ? DType::I32
                          : m_program[op.body].type == DType::Bool ? DType::F32
                                                                   : arithmeticType(m_program[op.body].type);
    if (out.type != natural) text += " : " + std::string(name(out.type));
    text += layoutText(out);
    text += op.kind == OperatorKind::Scatter ? " += " : " = ";
    const std::optional<DType> want = out.type != natural && !arg ? arithmeticType(out.type) : DType::F32;
    Text body = print(op.body, want);
    if (op.kind == OperatorKind::Gather && op.reducer != Reducer::None) {
      text += std::string(name(op.reducer)) + "[";
      for (std::size_t a = op.outputRank; a < op.axes.size(); ++a) text += (a > op.outputRank ? ", " : "") + axis(a);
      text += op.tiesEven ? "; ties=even] " : "] ";
      if (body.level < kProduct) body.text = "(" + body.text + ")";
    }
    text += body.text;
    for (std::size_t i = 0; i < m_where.size(); ++i) text += (i == 0 ? " where " : ", ") + m_where[i];
    line(text);
  }

  // Axes whose extent reading the text back would not infer.
  std::vector<bool> extentsToWrite(const Operator& op) const {
    std::vector<bool> write(op.axes.size(), true);
    std::vector<bool> conflict(op.axes.size(), false);
    // A load under a select or a logic operator may count as conditional.
    std::unordered_set<std::uint32_t> conditional;
    std::vector<ExprId> roots{op.body};
    for (const AccessIndex& i : op.scatter)
      if (i.isData()) roots.push_back(i.data);
    for (const ExprId root : roots) {
      for (const ExprId e : nodesOf(m_program, root)) {
        const ScalarNode& n = m_program[e];
        if (n.op != ScalarOp::Select && n.op != ScalarOp::And && n.op != ScalarOp::Or) continue;
        if (conditional.contains(e.value)) continue;
        for (const ExprId below : nodesOf(m_program, e)) conditional.insert(below.value);
      }
      for (const ExprId e : nodesOf(m_program, root)) {
        const ScalarNode& n = m_program[e];
        if (n.op != ScalarOp::Load) continue;
        const Access& access = m_program[n.access];
        for (std::size_t k = 0; k < access.indices.size(); ++k) {
          if (access.indices[k].isData()) continue;
          const auto v = access.indices[k].affine.asVariable();
          if (!v || *v >= op.axes.size()) continue;
          if (m_program[access.tensor].shape[k] != op.axes[*v].extent) conflict[*v] = true;
          else if (!conditional.contains(e.value)) write[*v] = false;
        }
      }
    }
    for (std::size_t a = 0; a < write.size(); ++a) write[a] = write[a] || conflict[a];
    return write;
  }

  // Names for the axes, and for shared parts of the expression.
  void prepare(const Operator& op, ExprId body, const std::vector<AccessIndex>& scatter) {
    m_axisNames.clear();
    m_where.clear();
    m_shared.clear();
    std::unordered_set<std::string> taken(m_counters.begin(), m_counters.end());
    std::unordered_map<std::uint32_t, int> uses;
    std::vector<ExprId> roots{body};
    for (const AccessIndex& i : scatter)
      if (i.isData()) roots.push_back(i.data);
    std::unordered_set<std::uint32_t> seen;
    for (const ExprId root : roots)
      for (const ExprId e : nodesOf(m_program, root)) {
        if (!seen.insert(e.value).second) continue;
        const ScalarNode& n = m_program[e];
        for (int k = 0; k < info(n.op).arity; ++k) ++uses[n.operands[k].value];
        if (n.op != ScalarOp::Load) continue;
        const Access& access = m_program[n.access];
        taken.insert(rawName(access.tensor));
        for (const AccessIndex& i : access.indices)
          if (i.isData()) ++uses[i.data.value];
      }
    for (const Axis& axis : op.axes) {
      std::string wish =
          isPlainName(axis.name) && axis.name.find('.') == std::string::npos && axis.name != "true" && axis.name != "false"
              ? axis.name
              : "i";
      std::string chosen = wish;
      for (int n = 2; !taken.insert(chosen).second; ++n) chosen = wish + std::to_string(n);
      m_axisNames.push_back(chosen);
    }
    // A part that is used twice is named, so that the text does not grow with every use.
    for (const ExprId root : roots)
      for (const ExprId e : nodesOf(m_program, root)) {
        if (uses[e.value] < 2 || m_shared.contains(e.value) || info(m_program[e].op).arity == 0) continue;
        std::string name;
        for (int n = 1; name.empty() || !taken.insert(name).second; ++n) name = "w" + std::to_string(n);
        const Text text = printAlone(e, std::nullopt);
        m_where.push_back(name + " = " + text.text);
        m_shared.emplace(e.value, name);
      }
  }

  // ------------------------------------------------------------ expressions
  std::string variableName(IndexVar v) const {
    if (v < m_axisNames.size()) return m_axisNames[v];
    if (v >= kLoopVariable && v - kLoopVariable < m_counters.size()) return m_counters[v - kLoopVariable];
    return "v" + std::to_string(v);
  }
  std::string indexText(const IndexExpr& e) const {
    return toText(e, [this](IndexVar v) { return variableName(v); });
  }
  std::string indexText(const AccessIndex& index) {
    if (!index.isData()) return indexText(index.affine);
    return m_program[index.data].type == DType::I32 ? indexPart(index.data).text : print(index.data, std::nullopt).text;
  }

  // Outside of an index an i64 says what it is.
  Text printAlone(ExprId id, std::optional<DType> want) {
    const ScalarNode& n = m_program[id];
    if (n.type != DType::I64 || n.op == ScalarOp::Constant || m_shared.contains(id.value)) return print(id, want);
    return {"i64(" + print(id, want).text + ")", kAtom};
  }

  // An i32 in an index: its own arithmetic is done in 32 bits, that around it in 64.
  Text indexPart(ExprId id) {
    const ScalarNode& n = m_program[id];
    const bool arithmetic = info(n.op).arity > 0 && n.op != ScalarOp::Cast;
    return arithmetic ? Text{"i32(" + print(id, std::nullopt).text + ")", kAtom} : print(id, std::nullopt);
  }

  // Takes the type of what it meets when read back.
  bool isSoft(ExprId id) const {
    const ScalarNode& n = m_program[id];
    if (n.op == ScalarOp::Constant) return n.type != DType::Bool;
    return n.op == ScalarOp::Select && !m_shared.contains(id.value) && isSoft(n.operands[1]) && isSoft(n.operands[2]) &&
           m_program[n.operands[1]].type == m_program[n.operands[2]].type;
  }

  static std::string wrap(const Text& t, Level least) { return t.level < least ? "(" + t.text + ")" : t.text; }

  std::string comparisonText(const IndexExpr& e, const char* sign) const {
    IndexExpr left, right;
    for (const IndexTerm& term : e.terms()) {
      const IndexExpr atom =
          term.atom.isFloorDiv() ? floorDiv(*term.atom.numerator, term.atom.divisor) : IndexExpr::variable(term.atom.variable);
      if (term.coefficient > 0) left = left + term.coefficient * atom;
      else right = right + (-term.coefficient) * atom;
    }
    // Splitting may not separate a remainder from its floor.
    if (left - right + IndexExpr(e.constant()) != e || e.floorDivCount() > 0) return indexText(e) + " " + sign + " 0";
    const bool negative = e.constant() < 0;
    if (negative) right = right - IndexExpr(e.constant());
    else left = left + IndexExpr(e.constant());
    if (sign[0] == '>' && left.isConstant() && !right.isConstant()) return indexText(right) + " <= " + indexText(left);
    return indexText(left) + " " + sign + " " + indexText(right);
  }

  Text constantText(const ScalarNode& n, std::optional<DType> want) const {
    if (n.type == DType::Bool) return {n.value != 0 ? "true" : "false", kAtom};
    const std::string text = isInteger(n.type) ? std::to_string(static_cast<std::int64_t>(n.value)) : numberText(n.value);
    if (want != n.type && n.type != DType::I64) return {std::string(name(n.type)) + "(" + text + ")", kAtom};
    return {text, text[0] == '-' ? kUnary : kAtom};
  }

  Text print(ExprId id, std::optional<DType> want) {
    const ScalarNode& n = m_program[id];
    if (const auto shared = m_shared.find(id.value); shared != m_shared.end()) return {shared->second, kAtom};
    const ScalarOpInfo& about = info(n.op);
    switch (n.op) {
      case ScalarOp::Constant: return constantText(n, want);
      case ScalarOp::Index: {
        const std::string text = indexText(m_program[n.index]);
        if (n.type == DType::I64) return {text, m_program[n.index].asVariable() ? kAtom : kSum};
        return {std::string(name(n.type)) + "(" + text + ")", kAtom};
      }
      case ScalarOp::Load: return loadText(n);
      case ScalarOp::Training: return {"training", kAtom};
      case ScalarOp::Random: return {"random(" + numberText(n.value) + ", " + indexText(m_program[n.index]) + ")", kAtom};
      case ScalarOp::IndexGe0: return {comparisonText(m_program[n.index], ">="), kCompare};
      case ScalarOp::IndexEq0: return {comparisonText(m_program[n.index], "=="), kCompare};
      case ScalarOp::Cast:
        if (n.type == DType::I64) return indexPart(n.operands[0]);
        return {std::string(name(n.type)) + "(" + printAlone(n.operands[0], std::nullopt).text + ")", kAtom};
      case ScalarOp::Not: return {"not " + wrap(print(n.operands[0], std::nullopt), kNot), kNot};
      case ScalarOp::Neg: return {"-" + wrap(print(n.operands[0], std::nullopt), kPower), kUnary};
      case ScalarOp::Select: {
        const bool soft1 = isSoft(n.operands[1]), soft2 = isSoft(n.operands[2]);
        // Numbers alone take what is wanted if that is what they are; else each says its type.
        std::optional<DType> inner;
        if (isSoft(id) && want == n.type) inner = want;
        if (soft1 != soft2) inner = arithmeticType(m_program[n.operands[soft1 ? 2 : 1]].type);
        return {"select(" + print(n.operands[0], std::nullopt).text + ", " + print(n.operands[1], inner).text + ", " +
                    print(n.operands[2], inner).text + ")",
                kAtom};
      }
      default: break;
    }
    if (about.arity == 1) return {std::string(about.spelling) + "(" + print(n.operands[0], std::nullopt).text + ")", kAtom};
    const bool soft0 = isSoft(n.operands[0]), soft1 = isSoft(n.operands[1]);
    std::optional<DType> inner;
    if (soft0 != soft1) inner = arithmeticType(m_program[n.operands[soft0 ? 1 : 0]].type);
    // Numbers alone take what is wanted, unless reading them back would fold them.
    const bool folds = m_program[n.operands[0]].op == ScalarOp::Constant && m_program[n.operands[1]].op == ScalarOp::Constant;
    if (soft0 && soft1 && !folds && n.type != DType::Bool && want == n.type) inner = want;
    const bool compares = n.type == DType::Bool;
    const Text a = compares ? printAlone(n.operands[0], inner) : print(n.operands[0], inner);
    const Text b = compares ? printAlone(n.operands[1], inner) : print(n.operands[1], inner);
    const std::string sign = " " + std::string(about.spelling) + " ";
    switch (n.op) {
      case ScalarOp::Add: return {wrap(a, kSum) + sign + wrap(b, kProduct), kSum};
      case ScalarOp::Sub: return {wrap(a, kSum) + sign + wrap(b, kProduct), kSum};
      case ScalarOp::Mul:
      case ScalarOp::Div:
      case ScalarOp::FloorDiv:
      case ScalarOp::Mod: return {wrap(a, kProduct) + sign + wrap(b, kUnary), kProduct};
      case ScalarOp::Pow: return {wrap(a, kAtom) + "^" + wrap(b, kPower), kPower};
      case ScalarOp::Lt:
      case ScalarOp::Le:
      case ScalarOp::Eq:
      case ScalarOp::Ne: return {wrap(a, kSum) + (n.op == ScalarOp::Ne ? " != " : sign) + wrap(b, kSum), kCompare};
      case ScalarOp::And: return {wrap(a, kAnd) + sign + wrap(b, kNot), kAnd};
      case ScalarOp::Or: return {wrap(a, kOr) + sign + wrap(b, kAnd), kOr};
      default: return {std::string(about.spelling) + "(" + a.text + ", " + b.text + ")", kAtom};
    }
  }

  Text loadText(const ScalarNode& n) {
    const Access& access = m_program[n.access];
    std::string text = nameOf(access.tensor);
    if (access.indices.empty()) return {text, kAtom};
    text += "[";
    for (std::size_t k = 0; k < access.indices.size(); ++k) text += (k ? ", " : "") + indexText(access.indices[k]);
    return {text + "]", kAtom};
  }

  // ------------------------------------------------------------ loops
  // Is `tensor` needed by anything behind operator `after`?
  bool readLater(TensorId tensor, std::size_t after) const {
    for (std::size_t i = after + 1; i < m_program.operators.size(); ++i) {
      const auto reads = readsOf(m_program, OperatorId(i));
      if (std::find(reads.begin(), reads.end(), tensor) != reads.end()) return true;
    }
    for (const Derivative& d : m_program.derivatives)
      if (d.of == tensor || d.wrt == tensor || d.seed == tensor) return true;
    for (const Update& u : m_program.updates)
      if (u.target == tensor || u.value == tensor) return true;
    for (const Hint& h : m_program.hints)  // they stand last
      if (isNamed(h) && std::find(h.tensors.begin(), h.tensors.end(), m_program[tensor].name) != h.tensors.end()) return true;
    return std::any_of(m_program.outputs.begin(), m_program.outputs.end(), [&](const Output& o) { return o.tensor == tensor; }) ||
           m_kept.contains(tensor.value);
  }

  void printLoop(OperatorId id) {
    takeNames();
    const Operator& op = m_program[id];
    const Loop& loop = m_program[op.loop];
    const Program& body = *loop.body;
    std::string counter = isPlainName(loop.counter) && !m_used.contains(loop.counter) ? loop.counter : freshName("t'");
    if (!isPlainName(counter)) {
      counter = "t";
      for (int n = 2; m_used.contains(counter); ++n) counter = "t" + std::to_string(n);
    }
    std::vector<std::string> counters = m_counters;
    counters.push_back(counter);

    // Carried tensors go by the name of their initial value where nobody asks for that one any more.
    std::vector<std::string> carried;
    for (std::size_t i = 0; i < loop.carried.size(); ++i) {
      const TensorId initial = loop.carried[i].initial, last = loop.carried[i].last;
      if (carriedAlone(loop, i, id.value)) {
        carried.push_back(m_names[initial.value]);
        continue;
      }
      const std::string name = last.valid() ? m_names[last.value] : freshName(m_names[initial.value] + "@carried");
      line(quotedName(name) + " = " + nameOf(initial));
      carried.push_back(name);
    }

    // Names inside, and the counter: the next loop may have them again, so that a loop reads the same whatever stands before it.
    const std::unordered_set<std::string> outside = m_used;
    m_used.insert(counter);
    std::vector<std::string> names(body.tensors.size());
    std::vector<bool> named(body.tensors.size(), false);
    const auto give = [&](TensorId t, const std::string& name) {
      names[t.value] = name;
      named[t.value] = true;
    };
    for (const auto& v : loop.invariants) give(v.inner, m_names[v.outer.value]);
    for (std::size_t i = 0; i < loop.carried.size(); ++i) give(loop.carried[i].innerIn, carried[i]);
    const std::vector<bool> direct = definedDirectly(loop, named);
    for (std::size_t i = 0; i < loop.carried.size(); ++i)
      if (direct[i]) give(loop.carried[i].innerOut, carried[i]);
    for (std::size_t t = 0; t < names.size(); ++t)
      if (!named[t]) names[t] = freshName(body.tensors[t].name);

    std::string head(phaseWord(op.phase));
    head += "for " + counter + " in " + (loop.reversed ? "reversed " : "") + "0.." + std::to_string(loop.trips);
    if (!readInOrder(loop)) {
      head += " reads ";
      for (std::size_t i = 0; i < loop.invariants.size(); ++i) head += (i ? ", " : "") + nameOf(loop.invariants[i].outer);
    }
    line(head + " {");
    Printer inner(body, *this, names, counters);
    for (const auto& v : loop.invariants) inner.m_kept.insert(v.inner.value);  // to assign to its name would carry it
    for (const auto& s : loop.stacked) inner.m_kept.insert(s.inner.value);
    for (const auto& a : loop.accumulated) inner.m_kept.insert(a.inner.value);
    for (const auto& c : loop.carried) {
      inner.m_kept.insert(c.innerIn.value);
      inner.m_kept.insert(c.innerOut.value);
    }
    inner.printOperators();
    for (const auto& s : loop.stacked)
      inner.line("stack " + collectedText(s.outer, m_program[s.outer].type != body[s.inner].type) + " = " + inner.nameOf(s.inner));
    for (const auto& a : loop.accumulated)
      inner.line("accumulate " + collectedText(a.outer, m_program[a.outer].type != body[a.inner].type) + " = " +
                 inner.nameOf(a.inner));
    std::string left, right;
    for (std::size_t i = 0; i < loop.carried.size(); ++i) {
      if (direct[i]) continue;
      left += (left.empty() ? "" : ", ") + quotedName(carried[i]);
      right += (right.empty() ? "" : ", ") + inner.nameOf(loop.carried[i].innerOut);
    }
    if (!left.empty()) inner.line(left + " = " + right);
    m_out += inner.m_out;
    m_used = outside;
    line("}");
    for (std::size_t i = 0; i < loop.carried.size(); ++i)
      if (loop.carried[i].last.valid()) m_names[loop.carried[i].last.value] = carried[i];
  }

  std::string collectedText(TensorId outer, bool typed) const {
    return nameOf(outer) + (typed ? " : " + std::string(name(m_program[outer].type)) : "") + layoutText(m_program[outer]);
  }

  // Carried tensors whose new value may be written over the old name where it is made: all of them in order, or none.
  static std::vector<bool> definedDirectly(const Loop& loop, const std::vector<bool>& named) {
    const Program& body = *loop.body;
    std::vector<bool> none(loop.carried.size(), false), all(loop.carried.size(), true);
    const std::vector<OperatorId> made = producers(body);
    std::vector<bool> taken = named;
    std::int64_t before = -1;
    for (const auto& c : loop.carried) {
      const OperatorId producer = made[c.innerOut.value];
      if (!producer.valid() || body[producer].kind == OperatorKind::Loop || taken[c.innerOut.value] ||
          static_cast<std::int64_t>(producer.value) <= before)
        return none;
      taken[c.innerOut.value] = true;
      before = producer.value;
      for (std::size_t i = producer.value + 1; i < body.operators.size(); ++i) {
        const auto reads = readsOf(body, OperatorId(i));
        if (std::find(reads.begin(), reads.end(), c.innerIn) != reads.end()) return none;
      }
      for (const auto& s : loop.stacked)
        if (s.inner == c.innerIn) return none;
      for (const auto& a : loop.accumulated)
        if (a.inner == c.innerIn) return none;
    }
    return all;
  }

  // Reading the text back meets the invariants in the loop's order.
  static bool readInOrder(const Loop& loop) {
    std::vector<TensorId> order;
    std::unordered_set<std::uint32_t> invariant, seen;
    for (const auto& v : loop.invariants) invariant.insert(v.inner.value);
    for (std::size_t i = 0; i < loop.body->operators.size(); ++i)
      for (const TensorId t : readsOf(*loop.body, OperatorId(i)))
        if (invariant.contains(t.value) && seen.insert(t.value).second) order.push_back(t);
    if (order.size() != loop.invariants.size()) return false;
    for (std::size_t i = 0; i < order.size(); ++i)
      if (order[i] != loop.invariants[i].inner) return false;
    return true;
  }

  const Program& m_program;
  std::vector<std::string> m_names;  // of tensors, where they are named now
  std::unordered_set<std::string> m_used;
  std::unordered_set<std::uint32_t> m_kept;
  std::vector<std::string> m_counters;
  std::string m_indent;
  std::string m_out;
  std::vector<std::string> m_axisNames;
  std::vector<std::string> m_where;
  std::unordered_map<std::uint32_t, std::string> m_shared;
  std::unordered_map<std::uint32_t, std::size_t> m_derivativeOf;
  std::vector<bool> m_introduced;
  std::size_t m_nextDerivative = 0;
};

}  // namespace

std::string toText(const Program& program) { return Printer(program).run(); }
std::string toText(const Program& program, OperatorId op) { return toText(program, std::vector<OperatorId>{op}); }
std::string toText(const Program& program, const std::vector<OperatorId>& operators, std::vector<std::string> counters,
                   const std::vector<std::string>& reserved) {
  return Printer(program).some(operators, std::move(counters), reserved);
}
std::vector<std::string> statementTexts(const Program& program, const std::vector<OperatorId>& operators) {
  return Printer(program).statements(operators);
}
std::string toText(const Program& program, const Operator& op, ExprId expression, std::vector<std::string> counters) {
  return Printer(program).expression(op, expression, std::move(counters));
}

}  // namespace nf
