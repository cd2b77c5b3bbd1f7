// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <map>

#include "core/schedule/loop_ir.h"

namespace nf::loop {
namespace {

std::string_view word(LoopKind kind) {
  switch (kind) {
    case LoopKind::Serial: return "for";
    case LoopKind::Parallel: return "parallel";
    case LoopKind::Unrolled: return "unrolled";
    case LoopKind::Vector: return "vector";
    case LoopKind::Block: return "block";
    case LoopKind::Thread: return "thread";
  }
  return "";
}

std::string_view word(Direction direction) {
  switch (direction) {
    case Direction::None: return "workspace";
    case Direction::In: return "@in";
    case Direction::Out: return "@out";
    case Direction::InOut: return "@inout";
  }
  return "";
}

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

// A value of this length gets a line of its own once two places read it.
constexpr std::size_t kLongest = 96;

class Printer {
 public:
  explicit Printer(const Function& f) : m_f(f) {
    for (std::size_t v = 0; v < f.vars.size(); ++v) m_vars.push_back(unique(f.vars[v].name));
    for (const Buffer& b : f.buffers) m_buffers.push_back(unique(b.name));
    m_result.lines.resize(f.statements.size(), 0);
  }

  LoopText run() {
    std::string head = "kernel " + m_f.name + "(";
    for (std::size_t b = 0; b < m_f.operands; ++b) {
      if (b > 0) head += ", ";
      head += std::string(word(m_f.buffers[b].direction)) + " " + declaration(b);
    }
    line(0, head + ")");
    for (std::size_t b = m_f.operands; b < m_f.buffers.size(); ++b) {
      const Buffer& buffer = m_f.buffers[b];
      const std::string_view scope = buffer.scope == Scope::Shared     ? "shared"
                                     : buffer.scope == Scope::Local    ? "local"
                                     : buffer.scope == Scope::Fragment ? "fragment"
                                                                       : "workspace";
      line(1, std::string(scope) + " " + declaration(b) + (buffer.rounded ? ", rounded to tf32" : ""));
    }
    for (const TensorMap& m : m_f.maps) {
      std::string text = "map " + m.name + ": " + m_buffers[m.buffer.value];
      if (m.offset != 0) text += " + " + std::to_string(m.offset);
      for (const TensorMap::Axis& a : m.axes)
        text += ", " + std::to_string(a.box) + " of " + std::to_string(a.extent) + " by " + std::to_string(a.stride);
      line(1, text + (m.rounded ? ", rounded to tf32" : ""));
    }
    for (const Stage& stage : m_f.stages) {
      line(1, "stage " + stage.name + ", " + std::to_string(m_f.tasks(stage)) + (m_f.tasks(stage) == 1 ? " task:" : " tasks:"));
      body(stage.body, 2);
    }
    return std::move(m_result);
  }

 private:
  std::string unique(const std::string& wish) {
    int& used = m_used[wish];
    ++used;
    return used == 1 ? wish : wish + "_" + std::to_string(used);
  }

  std::string declaration(std::size_t b) const {
    return m_buffers[b] + ": " + std::string(name(m_f.buffers[b].type)) + "[" + std::to_string(m_f.buffers[b].elements) + "]";
  }

  void line(std::size_t depth, const std::string& text, std::vector<OriginId> origins = {}) {
    m_result.text.append(2 * depth, ' ').append(text).append("\n");
    m_result.lineOrigins.push_back(distinct(std::move(origins)));
  }

  std::string index(const IndexExpr& e) const {
    return nf::toText(e, [&](IndexVar v) {
      return v >= kLoopVariable ? "t" + std::to_string(v - kLoopVariable) : v < m_vars.size() ? m_vars[v] : "?";
    });
  }

  std::string place(const Place& p, std::size_t depth) {
    std::string text = m_buffers[p.buffer.value] + "[";
    const bool zero = p.offset == IndexExpr(0) && !p.data.empty();
    if (!zero) text += index(p.offset);
    for (std::size_t k = 0; k < p.data.size(); ++k) {
      if (k > 0 || !zero) text += " + ";
      if (p.data[k].stride != 1) text += std::to_string(p.data[k].stride) + "*";
      text += "check(" + value(p.data[k].value, depth) + ", " + std::to_string(p.data[k].extent) + ")";
    }
    return text + "]";
  }

  // Names given to long shared values are written as lines of their own before the statement.
  std::string value(ValueId id, std::size_t depth) {
    const auto named = m_named.find(id);
    if (named != m_named.end()) return named->second;
    const Value& v = m_f[id];
    std::string text;
    switch (v.kind) {
      case Value::Kind::Constant: text = v.type == DType::Bool ? (v.constant != 0 ? "true" : "false") : number(v.constant); break;
      case Value::Kind::Index: text = std::string(name(v.type)) + "(" + index(v.index) + ")"; break;
      case Value::Kind::IndexGe0: text = "(" + index(v.index) + " >= 0)"; break;
      case Value::Kind::IndexEq0: text = "(" + index(v.index) + " == 0)"; break;
      case Value::Kind::Random: text = "random(" + number(v.constant) + ", " + index(v.index) + ")"; break;
      case Value::Kind::Load:
        text = place(v.place, depth);
        if (v.guard.valid()) text = "(" + text + " if " + value(v.guard, depth) + ")";
        break;
      case Value::Kind::Fma:
        text = "fma(" + value(v.operands[0], depth) + ", " + value(v.operands[1], depth) + ", " + value(v.operands[2], depth) + ")";
        break;
      case Value::Kind::Apply: {
        const ScalarOpInfo& op = info(v.op);
        const auto operand = [&](int k) { return value(v.operands[k], depth); };
        if (v.op == ScalarOp::Cast) text = std::string(name(v.type)) + "(" + operand(0) + ")";
        else if (op.form == ScalarForm::Infix) text = "(" + operand(0) + " " + std::string(op.spelling) + " " + operand(1) + ")";
        else if (op.form == ScalarForm::Prefix)
          text = "(" + std::string(op.spelling) + (v.op == ScalarOp::Not ? " " : "") + operand(0) + ")";
        else {
          text = std::string(op.spelling) + "(";
          for (int k = 0; k < op.arity; ++k) text += (k > 0 ? ", " : "") + operand(k);
          text += ")";
        }
        break;
      }
    }
    if (text.size() > kLongest && v.kind == Value::Kind::Apply) {
      const std::string given = "v" + std::to_string(m_next++);
      std::vector<OriginId> origins;
      addOrigins(id, origins);
      line(depth, "let " + given + " = " + text, std::move(origins));
      m_named.emplace(id, given);
      return given;
    }
    return text;
  }

  void body(const std::vector<StmtId>& statements, std::size_t depth) {
    for (const StmtId id : statements) statement(id, depth);
  }

  // Of all that is written out for a value; what has a name has a line of its own.
  void addOrigins(ValueId id, std::vector<OriginId>& origins) const {
    if (!id.valid() || m_named.contains(id)) return;
    const Value& v = m_f[id];
    origins.push_back(v.origin);
    origins.insert(origins.end(), v.readAs.begin(), v.readAs.end());
    for (const ValueId o : v.operands) addOrigins(o, origins);
    addOrigins(v.guard, origins);
    for (const DataIndex& d : v.place.data) addOrigins(d.value, origins);
  }

  void open(StmtId id, std::size_t depth, const std::string& text) {
    line(depth, text, originsOf(m_f, m_f[id]));
    if (m_result.lines[id.value] == 0) m_result.lines[id.value] = static_cast<std::uint32_t>(m_result.lineOrigins.size());
  }

  void statement(StmtId id, std::size_t depth) {
    const Statement& s = m_f[id];
    m_named.clear();
    switch (s.kind) {
      case Statement::Kind::For: {
        const Var& v = m_f[s.var];
        open(id, depth, std::string(word(v.kind)) + " " + m_vars[s.var.value] + " in " + std::to_string(v.extent) + ":");
        body(s.body, depth + 1);
        return;
      }
      case Statement::Kind::If: {
        const std::string condition = value(s.value, depth);
        open(id, depth, "if " + condition + ":");
        body(s.body, depth + 1);
        if (!s.otherwise.empty()) {
          line(depth, "else:", originsOf(m_f, s));
          body(s.otherwise, depth + 1);
        }
        return;
      }
      case Statement::Kind::Store: {
        const std::string stored = value(s.value, depth);
        const std::string where = place(s.target, depth);
        open(id, depth, where + " = " + stored);
        return;
      }
      case Statement::Kind::Barrier: open(id, depth, s.barrier == BarrierScope::Grid ? "barrier of the grid" : "barrier"); return;
      case Statement::Kind::AsyncCopy:
        open(id, depth,
             "async " + place(s.target, depth) + " = " + place(s.left, depth) + ", " + std::to_string(s.elements) + " elements");
        return;
      case Statement::Kind::AsyncCommit: open(id, depth, "async commit"); return;
      case Statement::Kind::AsyncWait: open(id, depth, "async wait " + std::to_string(s.elements)); return;
      case Statement::Kind::Exchange:
        open(id, depth, place(s.target, depth) + " = " + place(s.left, depth) + " of thread ^ " + std::to_string(s.elements));
        return;
      case Statement::Kind::MatrixLoad:
        open(id, depth,
             "matrix " + place(s.target, depth) + " = " + place(s.left, depth) + ", " + std::to_string(s.elements) + " of 8 rows" +
                 (s.transposed ? ", transposed" : ""));
        return;
      case Statement::Kind::MatrixTile: {
        std::string shape;
        for (const std::int64_t n : s.tile) shape += (shape.empty() ? "" : "x") + std::to_string(n);
        open(id, depth,
             "matrix " + shape + " " + place(s.target, depth) + " += " + place(s.left, depth) + " * " + place(s.right, depth));
        return;
      }
      case Statement::Kind::WarpgroupTile: {
        std::string shape;
        for (const std::int64_t n : s.tile) shape += (shape.empty() ? "" : "x") + std::to_string(n);
        const auto operand = [&](const Place& p, const SwizzledOperand& lies) {
          return place(p, depth) + (lies.turned ? " turned, " + std::to_string(lies.apart) + " apart" : std::string());
        };
        open(id, depth,
             "warpgroup " + shape + " " + place(s.target, depth) + " += " + operand(s.left, s.leftLies) + " * " +
                 operand(s.right, s.rightLies));
        return;
      }
      case Statement::Kind::WarpgroupFence: open(id, depth, "warpgroup fence"); return;
      case Statement::Kind::WarpgroupCommit: open(id, depth, "warpgroup commit"); return;
      case Statement::Kind::WarpgroupWait: open(id, depth, "warpgroup wait " + std::to_string(s.elements)); return;
      case Statement::Kind::ProxyFence: open(id, depth, "proxy fence"); return;
      case Statement::Kind::TensorCopy: {
        std::string at;
        for (const IndexExpr& c : s.coordinates) at += (at.empty() ? "" : ", ") + index(c);
        open(id, depth, "tensor " + place(s.target, depth) + " = " + m_f[s.map].name + "(" + at + "), " + place(s.right, depth));
        return;
      }
      case Statement::Kind::ArrivalInit: open(id, depth, "arrival " + place(s.target, depth) + " begins"); return;
      case Statement::Kind::ArrivalExpect:
        open(id, depth, "arrival " + place(s.target, depth) + " expects " + std::to_string(s.elements) + " bytes");
        return;
      case Statement::Kind::ArrivalWait:
        open(id, depth, "arrival " + place(s.target, depth) + " wait for phase " + index(s.parity));
        return;
    }
  }

  const Function& m_f;
  std::map<std::string, int> m_used;
  std::vector<std::string> m_vars, m_buffers;
  std::map<ValueId, std::string> m_named;
  int m_next = 0;
  LoopText m_result;
};

}  // namespace

LoopText toText(const Function& function) { return Printer(function).run(); }

}  // namespace nf::loop
