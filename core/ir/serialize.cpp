// SPDX-License-Identifier: Apache-2.0
#include "core/ir/serialize.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace nf {
namespace {

using Json = nlohmann::json;

// JSON has no infinities and no NaN.
Json real(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

template <class Tag>
Json id(Id<Tag> value) {
  return value.valid() ? Json(value.value) : Json(nullptr);
}

Json toJson(const IndexExpr& e) {
  Json terms = Json::array();
  for (const IndexTerm& term : e.terms()) {
    if (term.atom.isFloorDiv()) terms.push_back({term.coefficient, toJson(*term.atom.numerator), term.atom.divisor});
    else terms.push_back({term.coefficient, term.atom.variable});
  }
  return {e.constant(), terms};
}

Json toJson(const AccessIndex& index) { return index.isData() ? id(index.data) : toJson(index.affine); }

Json toJson(const std::vector<AccessIndex>& indices) {
  Json list = Json::array();
  for (const AccessIndex& index : indices) list.push_back(toJson(index));
  return list;
}

Json toJson(const Initializer& init) {
  if (init.kind == Initializer::Kind::None) return nullptr;
  Json numbers = Json::array();
  for (const double n : init.numbers) numbers.push_back(real(n));
  return {{"kind", static_cast<int>(init.kind)},
          {"numbers", numbers},
          {"strings", init.strings},
          {"data", init.data},
          {"begin", init.columnBegin},
          {"end", init.columnEnd},
          {"scale", real(init.scale)},
          {"shift", real(init.shift)},
          {"origin", id(init.origin)}};
}

// Reading: the first thing that does not fit makes the whole read fail, remembered in m_error.
class Reader {
 public:
  bool failed() const { return !m_error.empty(); }
  const std::string& error() const { return m_error; }

  void fail(const std::string& what) {
    if (m_error.empty()) m_error = what;
  }

  const Json& at(const Json& object, const char* key) {
    static const Json kNull;
    if (!object.is_object() || !object.contains(key)) {
      fail(std::string("missing \"") + key + "\"");
      return kNull;
    }
    return object[key];
  }

  std::int64_t integer(const Json& json) {
    if (json.is_number_integer()) return json.get<std::int64_t>();
    fail("a number was expected");
    return 0;
  }

  double real(const Json& json) {
    if (json.is_number()) return json.get<double>();
    if (json.is_string()) {
      const std::string text = json.get<std::string>();
      if (text == "nan") return std::nan("");
      if (text == "inf") return HUGE_VAL;
      if (text == "-inf") return -HUGE_VAL;
    }
    fail("a real number was expected");
    return 0;
  }

  std::string text(const Json& json) {
    if (json.is_string()) return json.get<std::string>();
    fail("a text was expected");
    return {};
  }

  const Json::array_t& list(const Json& json) {
    static const Json::array_t kEmpty;
    if (json.is_array()) return json.get_ref<const Json::array_t&>();
    fail("a list was expected");
    return kEmpty;
  }

  template <class T>
  T id(const Json& json, std::size_t size) {
    if (json.is_null()) return {};
    const std::int64_t value = integer(json);
    if (value < 0 || static_cast<std::size_t>(value) >= size) {
      fail("an id is out of range");
      return {};
    }
    return T(static_cast<std::uint32_t>(value));
  }

  template <class E>
  E enumerator(const Json& json, int count) {
    const std::int64_t value = integer(json);
    if (value < 0 || value >= count) {
      fail("an enumerator is out of range");
      return {};
    }
    return static_cast<E>(value);
  }

  IndexExpr index(const Json& json, int depth = 0) {
    const auto& pair = list(json);
    if (pair.size() != 2 || depth > 64) {
      fail("an index expression was expected");
      return {};
    }
    IndexExpr e(integer(pair[0]));
    for (const Json& term : list(pair[1])) {
      const auto& parts = list(term);
      if (parts.size() == 2) {
        e = e + integer(parts[0]) * IndexExpr::variable(static_cast<IndexVar>(integer(parts[1])));
      } else if (parts.size() == 3 && integer(parts[2]) > 0) {
        e = e + integer(parts[0]) * floorDiv(index(parts[1], depth + 1), integer(parts[2]));
      } else {
        fail("an index term was expected");
      }
    }
    return e;
  }

 private:
  std::string m_error;
};

}  // namespace

Json toJson(const Program& p) {
  Json out;
  out["version"] = 1;
  out["stage"] = static_cast<int>(p.stage);
  Json& tensors = out["tensors"] = Json::array();
  for (const Tensor& t : p.tensors)
    tensors.push_back({{"name", t.name},
                       {"kind", static_cast<int>(t.kind)},
                       {"type", static_cast<int>(t.type)},
                       {"shape", t.shape},
                       {"init", toJson(t.init)},
                       {"layout", t.layout.order},
                       {"origin", id(t.origin)}});
  Json& origins = out["origins"] = Json::array();
  for (const Origin& o : p.origins) {
    Json parents = Json::array();
    for (const OriginId parent : o.parents) parents.push_back(id(parent));
    origins.push_back({id(o.span.source), o.span.begin, o.span.end, o.pass, parents});
  }
  Json& indices = out["indices"] = Json::array();
  for (const IndexExpr& e : p.indices) indices.push_back(toJson(e));
  Json& accesses = out["accesses"] = Json::array();
  for (const Access& a : p.accesses) accesses.push_back({id(a.tensor), toJson(a.indices)});
  Json& scalars = out["scalars"] = Json::array();
  for (const ScalarNode& n : p.scalars)
    scalars.push_back({static_cast<int>(n.op), static_cast<int>(n.type), id(n.operands[0]), id(n.operands[1]), id(n.operands[2]),
                       real(n.value), id(n.index), id(n.access), id(n.origin)});
  Json& operators = out["operators"] = Json::array();
  for (const Operator& op : p.operators) {
    Json axes = Json::array();
    for (const Axis& a : op.axes) axes.push_back({a.name, a.extent, id(a.origin)});
    operators.push_back({{"name", op.name},
                         {"kind", static_cast<int>(op.kind)},
                         {"phase", static_cast<int>(op.phase)},
                         {"axes", axes},
                         {"rank", op.outputRank},
                         {"reducer", static_cast<int>(op.reducer)},
                         {"even", op.tiesEven},
                         {"body", id(op.body)},
                         {"scatter", toJson(op.scatter)},
                         {"loop", id(op.loop)},
                         {"output", id(op.output)},
                         {"origin", id(op.origin)}});
  }
  Json& loops = out["loops"] = Json::array();
  for (const Loop& l : p.loops) {
    Json carried = Json::array(), invariants = Json::array(), stacked = Json::array(), accumulated = Json::array();
    for (const auto& c : l.carried) carried.push_back({id(c.initial), id(c.innerIn), id(c.innerOut), id(c.last)});
    for (const auto& i : l.invariants) invariants.push_back({id(i.outer), id(i.inner)});
    for (const auto& s : l.stacked) stacked.push_back({id(s.inner), id(s.outer)});
    for (const auto& a : l.accumulated) accumulated.push_back({id(a.inner), id(a.outer)});
    loops.push_back({{"counter", l.counter},
                     {"trips", l.trips},
                     {"reversed", l.reversed},
                     {"persistent", l.persistent},
                     {"depth", l.depth},
                     {"body", toJson(*l.body)},
                     {"carried", carried},
                     {"invariants", invariants},
                     {"stacked", stacked},
                     {"accumulated", accumulated}});
  }
  Json& derivatives = out["derivatives"] = Json::array();
  for (const Derivative& d : p.derivatives) derivatives.push_back({id(d.of), id(d.wrt), id(d.result), id(d.seed), id(d.origin)});
  Json& updates = out["updates"] = Json::array();
  for (const Update& u : p.updates) updates.push_back({id(u.target), id(u.value), id(u.origin)});
  Json& outputs = out["outputs"] = Json::array();
  for (const Output& o : p.outputs) outputs.push_back({o.name, id(o.tensor), static_cast<int>(o.role)});
  Json& hints = out["hints"] = Json::array();
  for (const Hint& h : p.hints) hints.push_back({static_cast<int>(h.kind), h.tensors, h.attributes, id(h.origin)});
  Json& data = out["data"] = Json::array();
  for (const DataSet& d : p.data) data.push_back({d.name, toJson(d.source), d.directory, d.heldOutLast, id(d.origin)});
  Json& groups = out["groups"] = Json::array();
  for (const Group& g : p.groups) {
    Json operatorsOf = Json::array();
    for (const OperatorId op : g.operators) operatorsOf.push_back(id(op));
    groups.push_back({operatorsOf, g.subgraph, g.name});
  }
  return out;
}

namespace {

constexpr int kInitializerKinds = static_cast<int>(Initializer::Kind::Batch) + 1;

Initializer readInitializer(Reader& in, const Json& json, std::size_t origins) {
  Initializer init;
  if (json.is_null()) return init;
  init.kind = in.enumerator<Initializer::Kind>(in.at(json, "kind"), kInitializerKinds);
  for (const Json& n : in.list(in.at(json, "numbers"))) init.numbers.push_back(in.real(n));
  for (const Json& s : in.list(in.at(json, "strings"))) init.strings.push_back(in.text(s));
  init.data = in.text(in.at(json, "data"));
  init.columnBegin = in.integer(in.at(json, "begin"));
  init.columnEnd = in.integer(in.at(json, "end"));
  init.scale = in.real(in.at(json, "scale"));
  init.shift = in.real(in.at(json, "shift"));
  init.origin = in.id<OriginId>(in.at(json, "origin"), origins);
  return init;
}

std::vector<AccessIndex> readIndices(Reader& in, const Json& json, std::size_t scalars) {
  std::vector<AccessIndex> indices;
  for (const Json& item : in.list(json)) {
    AccessIndex index;
    if (item.is_number()) index.data = in.id<ExprId>(item, scalars);
    else index.affine = in.index(item);
    indices.push_back(std::move(index));
  }
  return indices;
}

// The parts of a fixed-size record; a shorter one reads as a failure with nulls in its place.
const Json& part(Reader& in, const Json& record, std::size_t i) {
  static const Json kNull;
  const auto& parts = in.list(record);
  if (i < parts.size()) return parts[i];
  in.fail("a record is too short");
  return kNull;
}

Program read(Reader& in, const Json& json, int depth) {
  Program p;
  if (depth > 32) {
    in.fail("loops are nested too deep");
    return p;
  }
  p.stage = in.enumerator<Stage>(in.at(json, "stage"), static_cast<int>(Stage::Lowered) + 1);
  const std::size_t tensors = in.list(in.at(json, "tensors")).size();
  const std::size_t origins = in.list(in.at(json, "origins")).size();
  const std::size_t scalars = in.list(in.at(json, "scalars")).size();
  const std::size_t indices = in.list(in.at(json, "indices")).size();
  const std::size_t accesses = in.list(in.at(json, "accesses")).size();
  const std::size_t loops = in.list(in.at(json, "loops")).size();
  const std::size_t operators = in.list(in.at(json, "operators")).size();
  const auto tensor = [&](const Json& j) { return in.id<TensorId>(j, tensors); };
  const auto origin = [&](const Json& j) { return in.id<OriginId>(j, origins); };
  const auto expr = [&](const Json& j) { return in.id<ExprId>(j, scalars); };

  for (const Json& j : in.list(in.at(json, "tensors"))) {
    Tensor t;
    t.name = in.text(in.at(j, "name"));
    t.kind = in.enumerator<TensorKind>(in.at(j, "kind"), 5);
    t.type = in.enumerator<DType>(in.at(j, "type"), kDTypeCount);
    for (const Json& extent : in.list(in.at(j, "shape"))) t.shape.push_back(in.integer(extent));
    t.init = readInitializer(in, in.at(j, "init"), origins);
    for (const Json& axis : in.list(in.at(j, "layout"))) t.layout.order.push_back(static_cast<std::uint32_t>(in.integer(axis)));
    t.origin = origin(in.at(j, "origin"));
    p.tensors.push_back(std::move(t));
  }
  for (const Json& j : in.list(in.at(json, "origins"))) {
    Origin o;
    if (!part(in, j, 0).is_null()) o.span.source = SourceId(static_cast<std::uint32_t>(in.integer(part(in, j, 0))));
    o.span.begin = static_cast<std::uint32_t>(in.integer(part(in, j, 1)));
    o.span.end = static_cast<std::uint32_t>(in.integer(part(in, j, 2)));
    o.pass = in.text(part(in, j, 3));
    for (const Json& parent : in.list(part(in, j, 4))) o.parents.push_back(origin(parent));
    p.origins.push_back(std::move(o));
  }
  for (const Json& j : in.list(in.at(json, "indices"))) p.indices.push_back(in.index(j));
  for (const Json& j : in.list(in.at(json, "accesses")))
    p.accesses.push_back({tensor(part(in, j, 0)), readIndices(in, part(in, j, 1), scalars)});
  for (const Json& j : in.list(in.at(json, "scalars"))) {
    ScalarNode n;
    n.op = in.enumerator<ScalarOp>(part(in, j, 0), static_cast<int>(kScalarOpCount));
    n.type = in.enumerator<DType>(part(in, j, 1), kDTypeCount);
    for (std::size_t k = 0; k < 3; ++k) n.operands[k] = expr(part(in, j, 2 + k));
    for (int k = 0; k < info(n.op).arity; ++k)
      if (!n.operands[k].valid() || n.operands[k].value >= p.scalars.size()) in.fail("an operand does not precede its node");
    n.value = in.real(part(in, j, 5));
    n.index = in.id<IndexId>(part(in, j, 6), indices);
    n.access = in.id<AccessId>(part(in, j, 7), accesses);
    n.origin = origin(part(in, j, 8));
    p.scalars.push_back(n);
  }
  for (const Json& j : in.list(in.at(json, "loops"))) {
    Loop l;
    l.counter = in.text(in.at(j, "counter"));
    l.trips = in.integer(in.at(j, "trips"));
    l.reversed = in.at(j, "reversed") == true;
    l.persistent = in.at(j, "persistent") == true;
    l.depth = static_cast<std::uint32_t>(in.integer(in.at(j, "depth")));
    auto body = std::make_shared<Program>(read(in, in.at(j, "body"), depth + 1));
    const std::size_t innerCount = body->tensors.size();
    const auto inner = [&](const Json& i) { return in.id<TensorId>(i, innerCount); };
    l.body = std::move(body);
    for (const Json& c : in.list(in.at(j, "carried")))
      l.carried.push_back({tensor(part(in, c, 0)), inner(part(in, c, 1)), inner(part(in, c, 2)), tensor(part(in, c, 3))});
    for (const Json& i : in.list(in.at(j, "invariants"))) l.invariants.push_back({tensor(part(in, i, 0)), inner(part(in, i, 1))});
    for (const Json& s : in.list(in.at(j, "stacked"))) l.stacked.push_back({inner(part(in, s, 0)), tensor(part(in, s, 1))});
    for (const Json& a : in.list(in.at(j, "accumulated"))) l.accumulated.push_back({inner(part(in, a, 0)), tensor(part(in, a, 1))});
    p.loops.push_back(std::move(l));
  }
  for (const Json& j : in.list(in.at(json, "operators"))) {
    Operator op;
    op.name = in.text(in.at(j, "name"));
    op.kind = in.enumerator<OperatorKind>(in.at(j, "kind"), 3);
    op.phase = in.enumerator<Phase>(in.at(j, "phase"), 4);
    for (const Json& a : in.list(in.at(j, "axes")))
      op.axes.push_back({in.text(part(in, a, 0)), in.integer(part(in, a, 1)), origin(part(in, a, 2))});
    op.outputRank = static_cast<std::uint32_t>(in.integer(in.at(j, "rank")));
    op.reducer = in.enumerator<Reducer>(in.at(j, "reducer"), 7);
    op.tiesEven = in.at(j, "even") == true;
    op.body = expr(in.at(j, "body"));
    op.scatter = readIndices(in, in.at(j, "scatter"), scalars);
    op.loop = in.id<LoopId>(in.at(j, "loop"), loops);
    op.output = tensor(in.at(j, "output"));
    op.origin = origin(in.at(j, "origin"));
    if (op.kind == OperatorKind::Loop ? !op.loop.valid() : !op.body.valid() || !op.output.valid())
      in.fail("an operator lacks its body, output or loop");
    p.operators.push_back(std::move(op));
  }
  for (const Json& j : in.list(in.at(json, "derivatives")))
    p.derivatives.push_back(
        {tensor(part(in, j, 0)), tensor(part(in, j, 1)), tensor(part(in, j, 2)), tensor(part(in, j, 3)), origin(part(in, j, 4))});
  for (const Json& j : in.list(in.at(json, "updates")))
    p.updates.push_back({tensor(part(in, j, 0)), tensor(part(in, j, 1)), origin(part(in, j, 2))});
  for (const Json& j : in.list(in.at(json, "outputs")))
    p.outputs.push_back({in.text(part(in, j, 0)), tensor(part(in, j, 1)), in.enumerator<OutputRole>(part(in, j, 2), 4)});
  for (const Json& j : in.list(in.at(json, "hints"))) {
    Hint h;
    h.kind = in.enumerator<Hint::Kind>(part(in, j, 0), 3);
    for (const Json& t : in.list(part(in, j, 1))) h.tensors.push_back(in.text(t));
    h.attributes = in.text(part(in, j, 2));
    h.origin = origin(part(in, j, 3));
    p.hints.push_back(std::move(h));
  }
  for (const Json& j : in.list(in.at(json, "data")))
    p.data.push_back({in.text(part(in, j, 0)), readInitializer(in, part(in, j, 1), origins), in.text(part(in, j, 2)),
                      in.integer(part(in, j, 3)), origin(part(in, j, 4))});
  for (const Json& j : in.list(in.at(json, "groups"))) {
    Group g;
    for (const Json& op : in.list(part(in, j, 0))) g.operators.push_back(in.id<OperatorId>(op, operators));
    g.subgraph = static_cast<std::uint32_t>(in.integer(part(in, j, 1)));
    g.name = in.text(part(in, j, 2));
    p.groups.push_back(std::move(g));
  }
  return p;
}

}  // namespace

Result<Program> programFromJson(const Json& json) {
  Reader in;
  if (in.integer(in.at(json, "version")) != 1) in.fail("another version");
  Program program = read(in, json, 0);
  if (in.failed()) return Error{"read program", "This is not a program: " + in.error() + ".", {}, {}};
  return program;
}

}  // namespace nf
