// SPDX-License-Identifier: Apache-2.0
#include "plugins/cuda/emit.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/schedule/fragment.h"
#include "core/support/assert.h"
#include "plugins/cuda/frame.h"
#include "plugins/cuda/kernel_call.h"

namespace nf::cuda {
namespace {

using namespace loop;

Error failure(const std::string& message) { return Error{"compile", message, "cuda", {}}; }

// Names that generated text itself means something by.
bool reserved(const std::string& name) {
  static const std::set<std::string> names = {
      "alignas",  "alignof",   "and",      "asm",      "auto",      "bool",    "break",    "case",     "catch",    "char",
      "class",    "const",     "continue", "counters", "default",   "delete",  "do",       "double",   "else",     "enum",
      "explicit", "export",    "extern",   "false",    "float",     "for",     "friend",   "goto",     "if",       "inline",
      "int",      "kernel",    "long",     "mutable",  "namespace", "new",     "not",      "nullptr",  "operator", "or",
      "private",  "protected", "public",   "random",   "register",  "return",  "short",    "signed",   "sizeof",   "static",
      "status",   "struct",    "switch",   "template", "this",      "throw",   "true",     "try",      "typedef",  "typeid",
      "typename", "union",     "unsigned", "using",    "virtual",   "void",    "volatile", "warpSize", "while",    "workspace",
      "xor",      "blockIdx",  "blockDim", "gridDim",  "threadIdx", "expf",    "exp",      "logf",     "log",      "sqrtf",
      "sqrt",     "tanhf",     "tanh",     "erff",     "erf",       "sinf",    "sin",      "cosf",     "cos",      "powf",
      "pow",      "fabsf",     "fabs",     "floorf",   "floor",     "fmaf",    "fma",      "abs",      "rest",     "constexpr",
      "decltype", "noexcept",  "concept",  "requires", "wchar_t",   "char8_t", "char16_t", "char32_t", "nf",       "linux",
      "unix",     "compl",     "bitand",   "bitor",    "and_eq",    "or_eq",   "not_eq",   "xor_eq",   "protected"};
  return names.contains(name) || name.starts_with("nf_") || name.starts_with("Nf") || name.starts_with("__") ||
         name.starts_with("NF_");
}

std::string identifier(const std::string& name) {
  std::string result;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    result.push_back(plain ? c : '_');
  }
  while (result.starts_with("_")) result.erase(0, 1);
  if (result.empty() || (result[0] >= '0' && result[0] <= '9')) result = "x" + result;
  return reserved(result) ? result + "_" : result;
}

std::string storageType(DType type) {
  switch (type) {
    case DType::F32: return "float";
    case DType::F64: return "double";
    case DType::I32: return "int";
    case DType::I64: return "nf_long";
    case DType::F16:
    case DType::BF16: return "unsigned short";
    case DType::Bool: return "unsigned char";
  }
  return {};
}

std::string valueType(DType type) {
  switch (type) {
    case DType::F64: return "double";
    case DType::I32: return "int";
    case DType::I64: return "nf_long";
    case DType::Bool: return "bool";
    case DType::F32:
    case DType::F16:
    case DType::BF16: return "float";
  }
  return {};
}

std::string literal(double value, DType type) {
  if (type == DType::Bool) return value != 0 ? "true" : "false";
  if (type == DType::I32) {
    const auto n = static_cast<std::int32_t>(static_cast<std::int64_t>(value));
    return n == INT32_MIN ? "(-2147483647 - 1)" : std::to_string(n);
  }
  if (type == DType::I64) return "(nf_long)(" + std::to_string(static_cast<std::int64_t>(value)) + ")";  // below 2^53
  const bool wide = type == DType::F64;
  if (std::isnan(value)) return wide ? "NF_NAN_D" : "NF_NAN";
  if (!wide) value = static_cast<float>(value);
  if (std::isinf(value)) return std::string(value < 0 ? "-" : "") + (wide ? "NF_INFINITY_D" : "NF_INFINITY");
  char text[40];
  const auto end =
      wide ? std::to_chars(text, text + sizeof text, value) : std::to_chars(text, text + sizeof text, static_cast<float>(value));
  std::string result(text, end.ptr);
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  if (!wide) result += "f";
  return result[0] == '-' ? "(" + result + ")" : result;
}

constexpr std::size_t kLongest = 90;  // of an expression that gets no name

class Emitter : private Frame {
 public:
  explicit Emitter(const Function& f) : Frame(f) {
    for (const Buffer& b : f.buffers) m_buffers.push_back(unique(b.name));
    for (const Var& v : f.vars) m_vars.push_back(unique(v.name));
    for (const TensorMap& m : f.maps) m_maps.push_back(unique(m.name));
  }

  Result<EmittedSource> run() {
    const std::size_t most = kMostOperands - kOperandsOfMap * m_f.maps.size();
    if (m_f.operands > most)
      return failure("the subgraph has " + std::to_string(m_f.operands) + " operands, a kernel takes " + std::to_string(most));
    EmittedSource result;
    line(std::string("#include \"") + preludeName() + "\"");
    for (std::size_t s = 0; s < m_f.stages.size() && m_error.empty(); ++s) {
      line("");
      result.stages.push_back(stage(s));
    }
    if (!m_error.empty()) return failure(m_error);
    result.source = std::move(m_text);
    return result;
  }

 private:
  // ------------------------------------------------------------ text
  std::string unique(const std::string& wish) {
    const std::string base = identifier(wish);
    std::string name = base;
    for (int n = 2; !m_used.insert(name).second; ++n) name = base + "_" + std::to_string(n);
    return name;
  }

  std::string fresh(const std::string& prefix) {
    std::string name;
    do name = prefix + std::to_string(m_next++);
    while (!m_used.insert(name).second);
    return name;
  }

  void line(const std::string& text, std::vector<OriginId> origins = {}) {
    if (!text.empty() && text[0] != '#') m_text.text.append(2 * m_depth, ' ');
    m_text.text.append(text).append("\n");
    m_text.lineOrigins.push_back(loop::distinct(std::move(origins)));
  }

  // ------------------------------------------------------------ frame
  KernelStage stage(std::size_t index) {
    const loop::Stage& stage = m_f.stages[index];
    const std::optional<Grid> found = grid(index);
    if (!found) return {};
    const auto& [result, shared, blocks, nests] = *found;
    Touched used;
    collect(stage.body, used);
    line("// " + printable(stage.name));
    line("extern \"C\" __global__ void __launch_bounds__(" + std::to_string(result.threads) + ")");
    std::string head = result.symbol + "(";
    for (std::size_t b = 0; b < m_f.operands; ++b) {
      const Buffer& buffer = m_f.buffers[b];
      head += std::string(buffer.direction == Direction::In ? "const " : "") + storageType(buffer.type) +
              (used.passed(BufferId(b)) ? "* " : "* __restrict__ ") + m_buffers[b] + ", ";
    }
    line(head + "char* workspace,");
    std::string maps;
    for (const MapId m : used.maps) maps += ", const __grid_constant__ NfTensorMap " + m_maps[m.value];
    line("    const NfCounters counters, const nf_bits* random, nf_bits* status, unsigned kernel" + maps + ") {");
    ++m_depth;
    if (!shared.empty()) line("NF_SHARED_OF_LAUNCH");
    for (const BufferId b : used.buffers) {
      const Buffer& buffer = m_f[b];
      const std::string type = storageType(buffer.type), &name = m_buffers[b.value];
      if (shared.contains(b))
        line(type + "* const " + name + " = (" + type + "*)(nf_shared + " + std::to_string(shared.at(b)) + ");");
      else if (buffer.scope == Scope::Shared)
        line("__shared__ __align__(16) " + type + " " + name + "[" + std::to_string(buffer.elements) + "];");
      if (buffer.scope == Scope::Global && b.value >= m_f.operands)
        line(type + "* const " + name + " = (" + type + "*)(workspace + " + std::to_string(buffer.workspaceOffset) + ");");
    }
    m_keys.clear();
    for (const std::uint64_t s : used.streams) {
      m_keys[s] = fresh("key");
      line("const nf_bits " + m_keys[s] + " = nf_key(random, " + std::to_string(s) + "ull);");
    }
    numbers(blocks, "blockIdx.x");
    for (std::size_t n = 0; n < nests.size(); ++n) {
      if (n > 0) line("__syncthreads();");
      if (nests.size() > 1) {
        line("{");
        ++m_depth;
      }
      numbers(nests[n].threads, "threadIdx.x");
      Touched mine;
      collect(*nests[n].body, mine);
      for (const BufferId b : mine.buffers)
        if (m_f[b].scope == Scope::Local)
          line(valueType(m_f[b].type) + " " + m_buffers[b.value] + "[" + std::to_string(m_f[b].elements) + "];");
        else if (m_f[b].scope == Scope::Fragment)
          line("unsigned " + m_buffers[b.value] + "[" + std::to_string(m_f[b].elements / perRegister(m_f[b].type)) + "];");
      body(*nests[n].body);
      if (nests.size() > 1) {
        --m_depth;
        line("}");
      }
    }
    m_constants.clear();
    --m_depth;
    line("}");
    return result;
  }

  static std::string printable(const std::string& text) {
    std::string result;
    for (const char c : text) result.push_back(c >= ' ' && c != '\\' && c != 127 ? c : '_');
    return result;
  }

  // The loop variables from the number of a block or thread, the innermost fastest.
  void numbers(const std::vector<VarId>& loops, const std::string& from) {
    std::int64_t inner = 1;
    for (const VarId v : loops) inner *= m_f[v].extent;
    bool first = true;
    for (const VarId v : loops) {
      const std::int64_t extent = m_f[v].extent;
      if (extent == 1) {
        m_constants[v.value] = 0;
        continue;
      }
      inner /= extent;
      std::string text = "(int)" + from;
      if (inner > 1) text += " / " + std::to_string(inner);
      if (!first) text += " % " + std::to_string(extent);
      first = false;
      line("const int " + m_vars[v.value] + " = " + text + ";");
    }
  }

  // ------------------------------------------------------------ statements
  void body(const std::vector<StmtId>& statements) {
    for (const StmtId id : statements) statement(id);
  }

  std::vector<OriginId> originsOf(const Statement& s) const { return loop::originsOf(m_f, s); }

  void statement(StmtId id) {
    if (!m_error.empty()) return;
    const Statement& s = m_f[id];
    switch (s.kind) {
      case Statement::Kind::For: forLoop(s); return;
      case Statement::Kind::If: {
        const auto value = values(s, {});
        line("if (" + bare(value.at(s.value)) + ") {", originsOf(s));
        nested(s.body);
        if (!s.otherwise.empty()) {
          line("} else {");
          nested(s.otherwise);
        }
        line("}");
        return;
      }
      case Statement::Kind::Store: {
        const auto value = values(s, {});
        const Access to = access(s.target, value, {});
        const std::string assigned = m_buffers[s.target.buffer.value] + "[" + to.offset +
                                     "] = " + stored(s.target.buffer, value.at(s.value), m_f[s.value].type) + ";";
        line(to.guard.empty() ? assigned : "if (" + to.guard + ") " + assigned, originsOf(s));
        return;
      }
      case Statement::Kind::Barrier:
        line(s.barrier == BarrierScope::Grid ? "nf_grid_barrier(status + 2);" : "__syncthreads();", {s.origin});
        return;
      case Statement::Kind::AsyncCopy: asyncCopy(s); return;
      case Statement::Kind::AsyncCommit: line("nf_async_commit();", {s.origin}); return;
      case Statement::Kind::AsyncWait: line("nf_async_wait<" + std::to_string(s.elements) + ">();", {s.origin}); return;
      case Statement::Kind::Exchange:
        line(place(s.target) + " = __shfl_xor_sync(0xffffffffu, " + place(s.left) + ", " + std::to_string(s.elements) + ");",
             {s.origin});
        return;
      case Statement::Kind::MatrixLoad: matrixLoad(s); return;
      case Statement::Kind::MatrixTile:
        line("nf_mma_" + std::string(fragmentType(s.left.buffer)) + "<" + std::to_string(s.tile[2]) + ">(&" + place(s.target) +
                 ", &" + registers(s.left) + ", &" + registers(s.right) + ");",
             {s.origin});
        return;
      case Statement::Kind::WarpgroupTile: warpgroupTile(s); return;
      case Statement::Kind::WarpgroupFence:
        holdAccumulators(s);
        line("nf_wgmma_fence();", {s.origin});
        return;
      case Statement::Kind::WarpgroupCommit: line("nf_wgmma_commit();", {s.origin}); return;
      case Statement::Kind::WarpgroupWait:
        line("nf_wgmma_wait<" + std::to_string(s.elements) + ">();", {s.origin});
        holdAccumulators(s);
        return;
      case Statement::Kind::ProxyFence: line("nf_proxy_fence();", {s.origin}); return;
      case Statement::Kind::TensorCopy: {
        std::string coordinates;
        for (const IndexExpr& c : s.coordinates) coordinates += ", (int)(" + index(c) + ")";
        line("nf_tensor_copy(&" + place(s.target) + ", " + m_maps[s.map.value] + ", &" + place(s.right) + coordinates + ");",
             {s.origin});
        return;
      }
      case Statement::Kind::ArrivalInit: line("nf_arrival_init(&" + place(s.target) + ");", {s.origin}); return;
      case Statement::Kind::ArrivalExpect:
        line("nf_arrival_expect(&" + place(s.target) + ", " + std::to_string(s.elements) + ");", {s.origin});
        return;
      case Statement::Kind::ArrivalWait:
        line("nf_arrival_wait(&" + place(s.target) + ", " + index(s.parity) + ");", {s.origin});
        return;
    }
  }

  void nested(const std::vector<StmtId>& statements) {
    ++m_depth;
    body(statements);
    --m_depth;
  }

  void forLoop(const Statement& s) {
    const Var& v = m_f[s.var];
    if (v.extent == 1) {
      m_constants[s.var.value] = 0;
      body(s.body);
      m_constants.erase(s.var.value);
      return;
    }
    switch (v.kind) {
      case LoopKind::Vector:
        for (const StmtId id : s.body) lanes(id, s.var, v.extent);
        return;
      case LoopKind::Unrolled: line("#pragma unroll"); break;
      case LoopKind::Serial: break;
      case LoopKind::Parallel:
      case LoopKind::Block:
      case LoopKind::Thread: return fail("a loop over " + v.name + " stands inside its threads");
    }
    const std::string& name = m_vars[s.var.value];
    line("for (int " + name + " = 0; " + name + " < " + std::to_string(v.extent) + "; ++" + name + ") {", originsOf(s));
    nested(s.body);
    line("}");
  }

  std::string place(const Place& p) const { return m_buffers[p.buffer.value] + "[" + index(p.offset) + "]"; }

  void asyncCopy(const Statement& s) {
    const std::int64_t bytes = bytesOf(m_f[s.target.buffer].type);
    const bool whole =
        s.elements == 1 || (wide(s.target.buffer, s.target.offset, s.elements) && wide(s.left.buffer, s.left.offset, s.elements));
    const std::int64_t each = whole ? s.elements : 1;
    for (std::int64_t e = 0; e < s.elements; e += each) {
      const std::string to = "&" + m_buffers[s.target.buffer.value] + "[" + index(s.target.offset + IndexExpr(e)) + "]";
      const std::string from = "&" + m_buffers[s.left.buffer.value] + "[" + index(s.left.offset + IndexExpr(e)) + "]";
      line("nf_async<" + std::to_string(each * bytes) + ">(" + to + ", " + from + ");", {s.origin});
    }
  }

  // ------------------------------------------------------------ matrices of a warp
  const char* fragmentType(BufferId id) const {
    const DType type = m_f[id].type;
    return type == DType::F16 ? "f16" : type == DType::BF16 ? "bf16" : "tf32";
  }

  // Fragments are arrays of 32-bit registers.
  std::string registers(const Place& p) const {
    return m_buffers[p.buffer.value] + "[" + index(floorDiv(p.offset, perRegister(m_f[p.buffer].type))) + "]";
  }

  // To a compiler a tile has ended where it is begun: it could read accumulators before the wait.
  void holdAccumulators(const Statement& s) {
    std::set<BufferId> accumulators;
    for (const Statement& tile : m_f.statements)
      if (tile.kind == Statement::Kind::WarpgroupTile) accumulators.insert(tile.target.buffer);
    for (const BufferId b : accumulators)
      line("nf_hold<" + std::to_string(m_f[b].elements) + ">(" + m_buffers[b.value] + ");", {s.origin});
  }

  void warpgroupTile(const Statement& s) {
    if (std::find(kWarpgroupColumns.begin(), kWarpgroupColumns.end(), s.tile[1]) == kWarpgroupColumns.end())
      return fail("the prelude has no tiles of " + std::to_string(s.tile[1]) + " columns");
    const std::string tile = "nf_wgmma_" + std::string(fragmentType(s.left.buffer)) + "<" + std::to_string(s.tile[1]);
    if (m_f[s.left.buffer].type == DType::F32)
      return line(tile + ">(&" + place(s.target) + ", &" + place(s.left) + ", &" + place(s.right) + ");", {s.origin});
    const auto turned = [](const SwizzledOperand& o) { return std::string(o.turned ? "true" : "false"); };
    const auto apart = [&](const Place& p, const SwizzledOperand& o) {
      return std::to_string(o.apart * bytesOf(m_f[p.buffer].type));
    };
    line(tile + ", " + turned(s.leftLies) + ", " + turned(s.rightLies) + ">(&" + place(s.target) + ", &" + place(s.left) + ", " +
             apart(s.left, s.leftLies) + ", &" + place(s.right) + ", " + apart(s.right, s.rightLies) + ");",
         {s.origin});
  }

  void matrixLoad(const Statement& s) {
    const std::string places = "(&" + registers(s.target) + ", &" + place(s.left) + ");", count = std::to_string(s.elements);
    const bool rounded = m_f[s.target.buffer].type == DType::F32;
    if (rounded) line("nf_matrix_load_tf32<" + count + ">" + places, {s.origin});
    else line("nf_matrix_load<" + count + (s.transposed ? ", true>" : ", false>") + places, {s.origin});
  }

  // ------------------------------------------------------------ lanes
  void lanes(StmtId id, VarId lane, std::int64_t count) {
    const Statement& s = m_f[id];
    if (s.kind != Statement::Kind::Store) {
      for (std::int64_t l = 0; l < count; ++l) {
        m_constants[lane.value] = l;
        statement(id);
      }
      m_constants.erase(lane.value);
      return;
    }
    // Reads that come in as one, by value.
    std::map<ValueId, std::string> read;
    m_constants[lane.value] = 0;
    for (const ValueId v : valuesOf(m_f, s)) {
      const Value& load = m_f[v];
      if (load.kind != Value::Kind::Load || load.guard.valid() || !together(load.place, lane, count)) continue;
      const std::string name = fresh("w");
      line("const NfVector<" + storageType(m_f[load.place.buffer].type) + ", " + std::to_string(count) + "> " + name +
               " = nf_wide<" + std::to_string(count) + ">(&" + place(load.place) + ");",
           {load.origin});
      read.emplace(v, name);
    }
    const bool atOnce = together(s.target, lane, count);
    std::string all;
    for (std::int64_t l = 0; l < count; ++l) {
      m_constants[lane.value] = l;
      std::map<ValueId, std::string> known;
      for (const auto& [v, name] : read) known[v] = loaded(m_f[v].place.buffer, name + ".at[" + std::to_string(l) + "]");
      const auto value = values(s, known);
      const std::string text = stored(s.target.buffer, value.at(s.value), m_f[s.value].type);
      if (atOnce) {
        all += (l > 0 ? ", " : "") + text;
        continue;
      }
      const Access to = access(s.target, value, {});
      const std::string assigned = m_buffers[s.target.buffer.value] + "[" + to.offset + "] = " + text + ";";
      line(to.guard.empty() ? assigned : "if (" + to.guard + ") " + assigned, originsOf(s));
    }
    m_constants[lane.value] = 0;
    if (atOnce) {
      const std::string type = storageType(m_f[s.target.buffer].type);
      line("nf_put(&" + place(s.target) + ", NfVector<" + type + ", " + std::to_string(count) + ">{{" + all + "}});", originsOf(s));
    }
    m_constants.erase(lane.value);
  }

  // ------------------------------------------------------------ index arithmetic
  std::string variable(IndexVar v, bool narrow) const {
    if (v >= kLoopVariable) return "counters.of[" + std::to_string(v - kLoopVariable) + "]";
    return narrow ? m_vars[v] : "(nf_long)" + m_vars[v];
  }

  std::string index(const IndexExpr& unbound) const {
    const IndexExpr e = bind(unbound);
    return index(e, fitsInt(e));
  }

  std::string index(const IndexExpr& e, bool narrow) const {
    if (nonNegativeFloors(e)) {
      // Then the language's // and % are C's.
      std::string text = nf::toText(e, [&](IndexVar v) { return variable(v, narrow); });
      for (std::size_t at = text.find("//"); at != std::string::npos; at = text.find("//", at)) text.erase(at, 1);
      return text;
    }
    std::string text;
    const auto append = [&](std::int64_t coefficient, const std::string& factor) {
      if (!text.empty()) text += coefficient < 0 ? " - " : " + ";
      else if (coefficient < 0) text += "-";
      const std::uint64_t size =
          coefficient < 0 ? 0 - static_cast<std::uint64_t>(coefficient) : static_cast<std::uint64_t>(coefficient);
      if (factor.empty()) text += std::to_string(size);
      else text += (size == 1 ? "" : std::to_string(size) + "*") + factor;
    };
    for (const IndexTerm& t : e.terms()) {
      if (!t.atom.isFloorDiv()) {
        append(t.coefficient, variable(t.atom.variable, narrow));
        continue;
      }
      const char* type = narrow ? "int" : "nf_long";
      append(t.coefficient, std::string("nf_floor_div<") + type + ">(" + index(*t.atom.numerator, narrow) + ", " +
                                std::to_string(t.atom.divisor) + ")");
    }
    if (e.constant() != 0 || text.empty()) append(e.constant(), {});
    return text;
  }

  // ------------------------------------------------------------ values
  using Texts = std::map<ValueId, std::string>;

  static std::string bare(const std::string& text) {
    if (text.size() < 2 || text.front() != '(') return text;
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
      if (depth == 0) return i + 1 == text.size() ? text.substr(1, i - 1) : text;
    }
    return text;
  }

  // Texts of all values of the statement, operands first. What is long or used again gets a name, on a line before the statement.
  Texts values(const Statement& s, const Texts& known) {
    const std::vector<ValueId> order = valuesOf(m_f, s);
    std::map<ValueId, int> readers;
    const auto count = [&](ValueId id) {
      if (id.valid()) ++readers[id];
    };
    for (const ValueId id : order) {
      if (known.contains(id)) continue;
      const Value& v = m_f[id];
      for (const ValueId o : v.operands) count(o);
      count(v.guard);
      for (const DataIndex& d : v.place.data) count(d.value), count(d.value);
    }
    for (const DataIndex& d : s.target.data) count(d.value), count(d.value);
    count(s.value);
    Texts texts;
    for (const ValueId id : order) {
      const auto given = known.find(id);
      if (given != known.end()) {
        texts[id] = given->second;
        continue;
      }
      const Value& v = m_f[id];
      std::string text = one(v, texts);
      const bool simple = v.kind == Value::Kind::Constant || (v.kind == Value::Kind::Index && text.size() < 24);
      if (!simple && (readers[id] > 1 || text.size() > kLongest)) {
        const std::string name = fresh("v");
        std::vector<OriginId> origins{v.origin};
        origins.insert(origins.end(), v.readAs.begin(), v.readAs.end());
        line("const " + valueType(v.type) + " " + name + " = " + bare(text) + ";", std::move(origins));
        text = name;
      }
      texts[id] = std::move(text);
    }
    return texts;
  }

  struct Access {
    std::string offset, guard;  // guard empty: always
  };

  // Offset of a place; its data-dependent components are tested on lines of their own.
  Access access(const Place& p, const Texts& texts, const std::string& guard) {
    Access result{index(p.offset), guard};
    for (const DataIndex& d : p.data) {
      const std::string name = fresh("in"), &value = texts.at(d.value);
      line("const bool " + name + " = nf_inside(" + value + ", " + std::to_string(d.extent) + ", " +
           (result.guard.empty() ? "true" : bare(result.guard)) + ", status, kernel, " + std::to_string(d.check) + "u);");
      result.guard = name;
      result.offset += " + " + std::to_string(d.stride) + "*(nf_long)" + value;
    }
    return result;
  }

  std::string loaded(BufferId buffer, const std::string& text) const {
    if (m_f[buffer].scope == Scope::Local) return text;
    switch (m_f[buffer].type) {
      case DType::F16: return "nf_from_half(" + text + ")";
      case DType::BF16: return "nf_from_bf16(" + text + ")";
      case DType::Bool: return "(" + text + " != 0)";
      case DType::F32:
      case DType::F64:
      case DType::I32:
      case DType::I64: break;
    }
    return text;
  }

  std::string stored(BufferId buffer, const std::string& value, DType from) const {
    const DType type = m_f[buffer].type;
    const std::string text = bare(converted(value, from, arithmeticType(type)));
    if (m_f[buffer].scope == Scope::Fragment) return "nf_tf32(" + text + ")";
    if (m_f[buffer].rounded) return "nf_rounded_tf32(" + text + ")";
    if (m_f[buffer].scope == Scope::Local) return text;
    switch (type) {
      case DType::F16: return "nf_to_half(" + text + ")";
      case DType::BF16: return "nf_to_bf16(" + text + ")";
      case DType::Bool: return "(unsigned char)(" + text + ")";
      case DType::F32:
      case DType::F64:
      case DType::I32:
      case DType::I64: break;
    }
    return text;
  }

  static std::string converted(const std::string& text, DType from, DType to) {
    if (to == DType::F16) return "nf_from_half(nf_to_half(" + converted(text, from, DType::F32) + "))";
    if (to == DType::BF16) return "nf_from_bf16(nf_to_bf16(" + converted(text, from, DType::F32) + "))";
    const DType held = from == DType::F16 || from == DType::BF16 ? DType::F32 : from;
    if (held == to) return text;
    if (to == DType::Bool) return "(" + text + " != 0)";
    // Beyond the range the nearest end, and 0 of a NaN.
    if (to == DType::I32 && isFloating(held)) return "nf_to_int(" + text + ")";
    if (to == DType::I64 && isFloating(held)) return "nf_to_long(" + text + ")";
    return "(" + valueType(to) + ")" + (text.front() == '(' ? text : "(" + text + ")");
  }

  std::string one(const Value& v, const Texts& texts) {
    switch (v.kind) {
      case Value::Kind::Constant: return literal(v.constant, v.type);
      case Value::Kind::Index: {
        const std::string text = index(v.index);
        if (v.type == DType::Bool) return "((" + text + ") != 0)";
        return "(" + valueType(v.type) + ")(" + text + ")";
      }
      case Value::Kind::IndexGe0: return "(" + index(v.index) + " >= 0)";
      case Value::Kind::IndexEq0: return "(" + index(v.index) + " == 0)";
      case Value::Kind::Random:
        return "nf_random(" + m_keys.at(static_cast<std::uint64_t>(v.constant)) + ", " + index(v.index) + ")";
      case Value::Kind::Load: {
        const Access from = access(v.place, texts, v.guard.valid() ? texts.at(v.guard) : std::string());
        const std::string text = loaded(v.place.buffer, m_buffers[v.place.buffer.value] + "[" + from.offset + "]");
        if (from.guard.empty()) return text;
        return "(" + from.guard + " ? " + text + " : " + literal(0, arithmeticType(m_f[v.place.buffer].type)) + ")";
      }
      case Value::Kind::Fma:
        return std::string(v.type == DType::F64 ? "fma(" : "fmaf(") + operand(v, 0, v.type, texts) + ", " +
               operand(v, 1, v.type, texts) + ", " + operand(v, 2, v.type, texts) + ")";
      case Value::Kind::Apply: return apply(v, texts);
    }
    return {};
  }

  DType typeOf(const Value& v, unsigned k) const { return m_f[v.operands[k]].type; }
  std::string operand(const Value& v, unsigned k, DType as, const Texts& texts) const {
    return converted(texts.at(v.operands[k]), typeOf(v, k), as);
  }

  // The type comparisons are done in.
  static DType common(DType a, DType b) {
    if (isInteger(a) && isInteger(b)) return a == b ? a : DType::I64;
    if (a == b && (a == DType::Bool || a == DType::F64)) return a;
    if (a == DType::F64 || b == DType::F64) return DType::F64;
    return DType::F32;
  }

  std::string apply(const Value& v, const Texts& texts) {
    const auto infix = [](const std::string& a, const char* op, const std::string& b) {
      return "(" + a + " " + op + " " + b + ")";
    };
    if (v.op == ScalarOp::Cast) return converted(texts.at(v.operands[0]), typeOf(v, 0), v.type);
    if (v.op == ScalarOp::Select)
      return "(" + operand(v, 0, DType::Bool, texts) + " ? " + operand(v, 1, v.type, texts) + " : " + operand(v, 2, v.type, texts) +
             ")";
    if (v.type == DType::Bool) {
      if (v.op == ScalarOp::Not) return "(!" + operand(v, 0, DType::Bool, texts) + ")";
      const bool logical = v.op == ScalarOp::And || v.op == ScalarOp::Or;
      const DType type = logical ? DType::Bool : common(typeOf(v, 0), typeOf(v, 1));
      const std::string a = operand(v, 0, type, texts), b = operand(v, 1, type, texts);
      switch (v.op) {
        case ScalarOp::And: return infix(a, "&&", b);
        case ScalarOp::Or: return infix(a, "||", b);
        case ScalarOp::Lt: return infix(a, "<", b);
        case ScalarOp::Le: return infix(a, "<=", b);
        case ScalarOp::Eq: return infix(a, "==", b);
        case ScalarOp::Ne: return infix(a, "!=", b);
        default: break;
      }
      NF_ASSERT(false);
    }
    if (info(v.op).arity == 1) return unary(v.op, v.type, operand(v, 0, v.type, texts));
    const std::string a = operand(v, 0, v.type, texts), b = operand(v, 1, v.type, texts);
    return isInteger(v.type) ? integers(v.op, v.type, a, b) : reals(v.op, v.type, a, b);
  }

  std::string unary(ScalarOp op, DType type, const std::string& x) {
    if (!isFloating(type)) {
      switch (op) {
        case ScalarOp::Neg: return negated(type, x);
        case ScalarOp::Abs: return "(" + x + " < 0 ? " + negated(type, x) + " : " + x + ")";
        case ScalarOp::Relu: return "nf_relu(" + x + ")";
        case ScalarOp::Floor:
        case ScalarOp::StopGradient: return x;
        default: break;
      }
      // A function of an integer: through f32 and back.
      return converted(unary(op, DType::F32, converted(x, type, DType::F32)), DType::F32, type);
    }
    const std::string suffix = type == DType::F64 ? "(" : "f(";
    switch (op) {
      case ScalarOp::Neg: return "(-" + x + ")";
      case ScalarOp::Abs: return "fabs" + suffix + x + ")";
      case ScalarOp::Floor: return "floor" + suffix + x + ")";
      case ScalarOp::Sqrt: return "sqrt" + suffix + x + ")";
      case ScalarOp::Rsqrt: return "nf_rsqrt(" + x + ")";
      case ScalarOp::Relu: return "nf_relu(" + x + ")";
      case ScalarOp::Exp: return "exp" + suffix + x + ")";
      case ScalarOp::Log: return "log" + suffix + x + ")";
      case ScalarOp::Tanh: return "tanh" + suffix + x + ")";
      case ScalarOp::Sigmoid: return "nf_sigmoid(" + x + ")";
      case ScalarOp::Erf: return "erf" + suffix + x + ")";
      case ScalarOp::Sin: return "sin" + suffix + x + ")";
      case ScalarOp::Cos: return "cos" + suffix + x + ")";
      case ScalarOp::StopGradient: return x;
      default: break;
    }
    NF_ASSERT(false);
    return {};
  }

  std::string reals(ScalarOp op, DType type, const std::string& a, const std::string& b) {
    const std::string suffix = type == DType::F64 ? "(" : "f(";
    switch (op) {
      case ScalarOp::Add: return "(" + a + " + " + b + ")";
      case ScalarOp::Sub: return "(" + a + " - " + b + ")";
      case ScalarOp::Mul: return "(" + a + " * " + b + ")";
      case ScalarOp::Div: return "(" + a + " / " + b + ")";
      case ScalarOp::Pow: return "pow" + suffix + a + ", " + b + ")";
      case ScalarOp::Max: return "nf_max<" + valueType(type) + ">(" + a + ", " + b + ")";
      case ScalarOp::Min: return "nf_min<" + valueType(type) + ">(" + a + ", " + b + ")";
      case ScalarOp::FloorDiv: return "floor" + suffix + a + " / " + b + ")";
      case ScalarOp::Mod: return "(" + a + " - " + b + " * floor" + suffix + a + " / " + b + "))";
      default: break;
    }
    NF_ASSERT(false);
    return {};
  }

  static std::string unsignedType(DType type) { return type == DType::I64 ? "nf_bits" : "unsigned"; }
  static std::string negated(DType type, const std::string& x) {
    return "(" + valueType(type) + ")(0u - (" + unsignedType(type) + ")" + x + ")";
  }

  std::string integers(ScalarOp op, DType type, const std::string& a, const std::string& b) {
    const std::string held = valueType(type), bits = "(" + unsignedType(type) + ")";
    const auto wrapping = [&](const char* sign) { return "(" + held + ")(" + bits + a + " " + sign + " " + bits + b + ")"; };
    switch (op) {
      case ScalarOp::Add: return wrapping("+");
      case ScalarOp::Sub: return wrapping("-");
      case ScalarOp::Mul: return wrapping("*");
      case ScalarOp::Max: return "nf_max<" + held + ">(" + a + ", " + b + ")";
      case ScalarOp::Min: return "nf_min<" + held + ">(" + a + ", " + b + ")";
      case ScalarOp::FloorDiv: return "nf_quotient(" + a + ", " + b + ")";
      case ScalarOp::Mod: return "nf_remainder(" + a + ", " + b + ")";
      case ScalarOp::Div:
      case ScalarOp::Pow:
        return converted(reals(op, DType::F32, converted(a, type, DType::F32), converted(b, type, DType::F32)), DType::F32, type);
      default: break;
    }
    NF_ASSERT(false);
    return {};
  }

  std::set<std::string> m_used;
  std::vector<std::string> m_buffers, m_vars, m_maps;
  std::map<std::uint64_t, std::string> m_keys;  // of random streams
  KernelText m_text;
  std::size_t m_depth = 0;
  int m_next = 0;
};

}  // namespace

Result<EmittedSource> emit(const loop::Function& function) { return Emitter(function).run(); }

}  // namespace nf::cuda
