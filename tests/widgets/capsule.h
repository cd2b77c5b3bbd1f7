// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "core/protocol/message.h"

// What an engine says about one small notebook: the value structs that tests of views draw.
namespace nf::capsule {

inline const std::string kText =
    "# %% [markdown]\n# # Capsule convolution\n# One operator that no library has.\n\n"
    "# %%\nlet B = 1, C = 8, K = 32, H = 28, R = 3\ninput A[B, C, 2*H+1, 2*H+1, 4, 4] = normal(0, 1)\n"
    "param W[K, C, R, R, 4, 4] = normal(0, 0.05)\n"
    "Y[b,k,p,q,i,j] = sum[c,r,s,l] A[b, c, p*2+r, q*2+s, i, l] * W[k, c, r, s, l, j]\n\n"
    "# %%\nloss L = mean[b,k,p,q,i,j] (Y[b,k,p,q,i,j] - 1)^2\nshow Y, d(L)/d(W)\n\n"
    "# %%\ntrain L { optimizer = sgd(lr=0.1); steps = 500 }\n";

inline protocol::SourceSpan spanOf(const std::string& text, const std::string& part) {
  const std::size_t at = text.find(part);
  if (at == std::string::npos) return {};
  return {"", static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + part.size())};
}

// Spans: 0 statement of Y, 1 access of A, 2 access of W, 3 statement of L, 4 input A, 5 param W.
inline protocol::Analysis analysis(const std::string& text, std::uint64_t revision) {
  using namespace protocol;
  Analysis a;
  a.revision = revision;
  a.ms = 3.5;
  const auto y = spanOf(text, "Y[b,k,p,q,i,j] = sum[c,r,s,l] A[b, c, p*2+r, q*2+s, i, l] * W[k, c, r, s, l, j]");
  const auto accessA = spanOf(text, "A[b, c, p*2+r, q*2+s, i, l]"), accessW = spanOf(text, "W[k, c, r, s, l, j]");
  const auto l = spanOf(text, "loss L = mean[b,k,p,q,i,j] (Y[b,k,p,q,i,j] - 1)^2");
  a.spans = {y, accessA, accessW, l, spanOf(text, "A[B, C, 2*H+1, 2*H+1, 4, 4]"), spanOf(text, "W[K, C, R, R, 4, 4]")};
  std::size_t at = 0;
  for (std::size_t begin = text.find("# %%"); begin != std::string::npos;
       begin = at == std::string::npos ? at : text.find("# %%", begin + 4)) {
    const std::size_t next = text.find("\n# %%", begin);
    CellInfo cell;
    cell.begin = static_cast<std::uint32_t>(begin);
    cell.end = static_cast<std::uint32_t>(next == std::string::npos ? text.size() : next + 1);
    cell.markdown = text.compare(begin, 15, "# %% [markdown]") == 0;
    const std::string body = text.substr(begin, cell.end - begin);
    if (body.find("Y[b") != std::string::npos && body.find("sum[") != std::string::npos) {
      cell.defines = {"A", "W", "Y"};
      cell.summary = "Y  f32 [1, 32, 28, 28, 4, 4], 1.53 MiB · 231 MFLOP · contraction M 3 136, N 128, K 288";
    }
    if (body.find("show Y") != std::string::npos) cell.shows = {"Y", "d(L)/d(W)"};
    if (body.find("loss L") != std::string::npos) cell.defines = {"L"};
    if (body.find("train L") != std::string::npos) {
      const auto steps = body.find("steps = "), epochs = body.find("epochs = ");
      cell.train = TrainInfo{"L",
                             "sgd(lr=0.1)",
                             "dynamic",
                             "auto",
                             epochs == std::string::npos ? 0 : std::atoll(body.c_str() + epochs + 9),
                             steps == std::string::npos ? 0 : std::atoll(body.c_str() + steps + 8),
                             0,
                             1};
    }
    a.cells.push_back(cell);
  }
  if (y.end > 0)
    for (const auto& [axis, extent] : {std::pair{"k", 32}, {"p", 28}, {"q", 28}, {"i", 4}, {"j", 4}})
      a.extents.push_back({y.begin, y.end, axis, extent});
  const auto tensor = [&](const char* name, SymbolKind kind, std::vector<std::int64_t> shape, Origins origins,
                          bool derivative = false) {
    TensorInfo t;
    t.name = name, t.kind = kind, t.dtype = "f32", t.shape = std::move(shape), t.origins = std::move(origins),
    t.derivative = derivative;
    t.bytes = 4;
    for (const auto e : t.shape) t.bytes *= e;
    a.tensors.push_back(t);
    a.symbols.push_back({kind, name, "f32", derivative ? SourceSpan{} : a.spans[t.origins.front()], {}});
  };
  tensor("A", SymbolKind::Input, {1, 8, 57, 57, 4, 4}, {4});
  tensor("W", SymbolKind::Param, {32, 8, 3, 3, 4, 4}, {5});
  tensor("Y", SymbolKind::Tensor, {1, 32, 28, 28, 4, 4}, {0});
  tensor("L", SymbolKind::Loss, {}, {3});
  tensor("d(L)/d(W)", SymbolKind::Tensor, {32, 8, 3, 3, 4, 4}, {0, 2}, true);
  a.tokens.push_back({accessA.begin, accessA.end, "A", {}, {1}});
  a.tokens.push_back({accessW.begin, accessW.end, "W", {}, {2}});
  if (const auto bad = text.find("nowhere"); bad != std::string::npos) {
    DiagnosticInfo d;
    d.code = "undefined-name";
    d.message = "nowhere is not defined";
    d.span = {"", static_cast<std::uint32_t>(bad), static_cast<std::uint32_t>(bad + 7)};
    d.notes.push_back({"did you mean W?", {}});
    d.fixes.push_back({"W", d.span.begin, d.span.end, "W"});
    a.diagnostics.push_back(d);
  }
  return a;
}

class FormulaMaker {
 public:
  using Kind = protocol::FormulaKind;
  std::uint32_t add(Kind kind, std::string text, std::vector<std::uint32_t> children = {}, protocol::Origins origins = {}) {
    formula.nodes.push_back({kind, std::move(text), std::move(children), {}, std::move(origins), {}});
    return static_cast<std::uint32_t>(formula.nodes.size() - 1);
  }
  std::uint32_t access(const char* tensor, std::vector<std::string> indices, protocol::Origins origins = {}) {
    std::vector<std::uint32_t> children{add(Kind::Name, tensor)};
    for (const std::string& index : indices) {
      if (index.size() == 4) {  // "2p+r"
        const auto two = add(Kind::Number, index.substr(0, 1)), p = add(Kind::Name, index.substr(1, 1));
        const auto product = add(Kind::Infix, "*", {two, p});
        const auto r = add(Kind::Name, index.substr(3));
        children.push_back(add(Kind::Infix, "+", {product, r}));
      } else {
        children.push_back(add(Kind::Name, index));
      }
    }
    return add(Kind::Subscript, "", children, std::move(origins));
  }
  std::uint32_t sum(std::vector<protocol::FormulaAxis> axes, std::uint32_t body) {
    const auto node = add(Kind::Reduce, "sum", {body});
    formula.nodes[node].axes = std::move(axes);
    return node;
  }
  protocol::Formula formula;
};

inline protocol::Expression expression(const std::string& tensor, std::uint64_t revision, bool check = true) {
  using namespace protocol;
  using Kind = FormulaKind;
  Expression e;
  e.revision = revision;
  e.tensor = tensor;
  e.dtype = "f32";
  FormulaMaker m;
  if (tensor == "Y") {
    const auto left = m.access("Y", {"b", "k", "p", "q", "i", "j"});
    const auto a = m.access("A", {"b", "c", "2p+r", "2q+s", "i", "l"}, {1}), w = m.access("W", {"k", "c", "r", "s", "l", "j"}, {2});
    const auto body = m.sum({{"c", 0, 7}, {"r", 0, 2}, {"s", 0, 2}, {"l", 0, 3}}, m.add(Kind::Infix, "*", {a, w}));
    m.add(Kind::Equation, "", {left, body}, {0});
    e.text = "Y[b,k,p,q,i,j] = sum[c,r,s,l] A[b, c, p*2+r, q*2+s, i, l] * W[k, c, r, s, l, j]\n";
  } else {
    const auto l = m.add(Kind::Name, "L"), w = m.access("W", {"k", "c", "r", "s", "l", "j"});
    const auto left = m.add(Kind::Partial, "", {l, w});
    const auto two = m.add(Kind::Number, "2"), n = m.add(Kind::Number, "401408");
    const auto factor = m.add(Kind::Fraction, "", {two, n});
    const auto y = m.access("Y", {"b", "k", "p", "q", "i", "j"}), one = m.add(Kind::Number, "1");
    const auto difference = m.add(Kind::Infix, "-", {y, one}), a = m.access("A", {"b", "c", "2p+r", "2q+s", "i", "l"}, {1});
    const auto body = m.sum({{"b", 0, 0}, {"p", 0, 27}, {"q", 0, 27}, {"i", 0, 3}}, m.add(Kind::Infix, "*", {difference, a}));
    const auto right = m.add(Kind::Infix, "*", {factor, body});
    m.add(Kind::Equation, "", {left, right});
    e.text = "`d(L)/d(W)`[k,c,r,s,l,j] = 2/401408 * sum[b,p,q,i] (Y[b,k,p,q,i,j] - 1) * A[b, c, p*2+r, q*2+s, i, l]\n";
    GradientTermInfo t;
    t.tensor = "W", t.access = "W[k, c, r, s, l, j]", t.result = "d(L)/d(W)", t.form = GradientForm::Gather,
    t.certificate = CertificateState::Proved;
    t.certificateMs = 12, t.tripsPerElement = 3136, t.origins = {2};
    t.derivation = {{"System", {"(k,c,r,s,l,j) = z"}},
                    {"Solution", {"r = z2   s = z3   l = z4"}},
                    {"Free axes", {"b < 1  p,q < 28  i < 4"}},
                    {"Guards", {"none"}}};
    e.terms = {t};
    if (check)
      e.check = NumericCheck{256, 256, 9216, 0, 0, {}, 1e-6, 3.1e-10, 1e-5, {2, 5, 12, 26, 34, 31, 22, 13, 6, 3, 1, 0}, -12, -8};
  }
  e.formulas = {m.formula};
  return e;
}

inline protocol::GraphPage graph(std::uint64_t revision, const std::string& stage) {
  using namespace protocol;
  GraphPage g;
  g.revision = revision;
  g.stage = stage;
  g.stages = {{"source", 2, "2 operators"},
              {"differentiated", 5, "5, added 3"},
              {"transformed", 5, "5"},
              {"partitioned", 5, "5 in 5 subgraphs"},
              {"fused", 5, "5 in 4 kernels"}};
  const auto node = [&](const char* id, NodeKind kind, Phase phase, const char* text, Origins origins, Origins places = {}) {
    GraphNode n;
    n.id = n.name = id, n.kind = kind, n.phase = phase, n.text = text, n.dtype = "f32", n.shape = {32, 28, 28};
    n.places = places.empty() ? origins : std::move(places);
    n.origins = std::move(origins);
    n.bytes = 1605632, n.flops = 231211008, n.category = "output-fusable", n.added = phase != Phase::Forward;
    g.nodes.push_back(n);
  };
  node("A", NodeKind::Input, Phase::Forward, "", {4});
  node("W", NodeKind::Param, Phase::Forward, "", {5});
  node("Y", NodeKind::Operator, Phase::Forward, "Σ A·W", {0}, {0, 1, 2});
  node("L", NodeKind::Operator, Phase::Forward, "mean (Y-1)²", {3});
  const auto edge = [&](const char* from, const char* to, bool kept = false) {
    g.edges.push_back({from, to, from, 1605632, kept, false});
  };
  edge("A", "Y"), edge("W", "Y"), edge("Y", "L");
  if (stage != "source") {
    node("d(L)/d(Y)", NodeKind::Operator, Phase::Backward, "2/n (Y-1)", {3});
    node("d(L)/d(W)", NodeKind::Operator, Phase::Backward, "Σ dY·A", {0, 2}, {0, 1, 2});
    node("W <-", NodeKind::Operator, Phase::Optimizer, "sgd", {5});
    edge("L", "d(L)/d(Y)"), edge("Y", "d(L)/d(Y)", true), edge("d(L)/d(Y)", "d(L)/d(W)"), edge("d(L)/d(W)", "W <-"),
        edge("A", "d(L)/d(W)", true);
  }
  if (stage == "fused") {
    g.groups.push_back({"G1", "Y + L", {"Y", "L"}, 0, 1, 41.8, {0, 3}});
    g.groups.push_back({"G2", "dW + sgd", {"d(L)/d(W)", "W <-"}, 1, 1, 12.6, {0, 2, 5}});
  }
  g.totalNodes = static_cast<std::int64_t>(g.nodes.size());
  return g;
}

inline protocol::FusionReport fusion(std::uint64_t revision) {
  using namespace protocol;
  FusionReport r;
  r.revision = revision;
  r.device = {"cpu", 21.4e9, 96e9, 2.1e-6, 0, 0, 60, 1};
  const auto decision = [&](const char* producer, const char* consumer, const char* category, double dT, double dC, double dK,
                            FusionState state, const char* why) {
    FusionDecisionInfo d;
    d.id = static_cast<std::uint32_t>(r.decisions.size());
    d.producer = d.producerNode = producer, d.consumer = d.consumerNode = consumer, d.category = category;
    d.dT = dT, d.dC = dC, d.dK = dK, d.state = state, d.why = why;
    d.R = dT / r.device.bandwidth + dC / r.device.flopRate + dK * r.device.launchSeconds;
    d.traffic = {{producer, dT}};
    if (dC != 0) d.arithmetic = {{producer, dC}};
    d.flips = {{"H", 28, 23, false, ""}, {"L", 2.1e-6, 3.12e-6, true, "s"}};
    FusionCurve curve{"H", {}, {}};
    for (int h = 14; h <= 40; ++h) curve.x.push_back(h), curve.rewardSeconds.push_back((23 - h) * 1e-7);
    d.curve = curve;
    // Those of the graph's nodes.
    const std::map<std::string, Origins> origins{{"Y", {0}}, {"L", {3}}, {"d(L)/d(Y)", {3}}, {"d(L)/d(W)", {0, 2}}, {"W <-", {5}}};
    d.origins = origins.at(producer), d.consumerOrigins = origins.at(consumer);
    r.decisions.push_back(d);
  };
  decision("d(L)/d(W)", "W <-", "Many+Many", 1.2e6, 0, 1, FusionState::Accepted, "The weight gradient is used once, in place.");
  decision("Y", "L", "One+One", 3.2e6, 0, 2, FusionState::Accepted, "Y is not written.");
  decision("Y", "d(L)/d(Y)", "One+Many", -2.1e6, -231e6, 2, FusionState::Refused,
           "Recomputing Y costs more than the launches it saves.");
  decision("d(L)/d(Y)", "d(L)/d(W)", "Many+One", 0.4e6, 0, 1, FusionState::NotLowerable,
           "Three axes of the consumer are not the producer's.");
  return r;
}

inline protocol::Devices devices() {
  using namespace protocol;
  Devices d;
  d.devices.push_back({"cpu",
                       "cpu",
                       "2 threads, AVX-512",
                       "",
                       true,
                       DeviceConstants{"cpu", 38.0e9, 190e9, 2.1e-6, 0, 0, 720, 2},
                       {{"L2", "1 MiB"}, {"vector", "64 bytes"}},
                       DeviceConstants{"cpu", 21.4e9, 96e9, 2.1e-6, 0, 0, 720, 1}});
  d.devices.push_back({"reference", "reference", "Reference interpreter, f64", "", false, std::nullopt, {}, std::nullopt});
  d.devices.push_back(
      {"cuda:0", "cuda", "", "no CUDA driver was found: libcuda.so.1 is not there", false, std::nullopt, {}, std::nullopt});
  d.doctor = {{"LLVM", "19.1.7", true}, {"CUDA", "the driver is not installed", false}};
  return d;
}

inline std::vector<protocol::TrialInfo> trials(int count = 120) {
  using namespace protocol;
  std::vector<TrialInfo> out;
  for (int i = 0; i < count; ++i) {
    TrialInfo t;
    t.number = static_cast<std::uint64_t>(i), t.generation = i / 16, t.seconds = i * 0.31;
    t.schedule = {R"({"kind":"contraction","knobs":{"threads":1,"tile":[4,)" + std::to_string(4 + i % 5 * 4) +
                  R"(]},"version":1})"};
    t.how = i == 0 ? "first" : "tile: 4 to 8";
    if (i % 13 == 5) t.status = TrialStatus::Wrong;
    else if (i % 17 == 9) t.status = TrialStatus::Crashed;
    else if (i % 29 == 11) t.status = TrialStatus::Killed;
    else t.us = 40 + 900.0 / (1 + i * 0.4) + (i * 7919 % 97) * (i == 0 ? 0 : 3.0);
    if (t.us) t.lowUs = *t.us * 0.99, t.highUs = *t.us * 1.01;
    if (t.us && i > 0) t.predictedUs = *t.us * (1 + (i * 31 % 7 - 3) * 0.05);
    if (i > 0) t.parents = {static_cast<std::uint64_t>(i / 2)};
    out.push_back(t);
  }
  return out;
}

inline std::vector<protocol::SubgraphInfo> subgraphs() {
  using namespace protocol;
  std::vector<SubgraphInfo> out;
  out.push_back({"aa01",
                 "Y + L",
                 "contraction",
                 {"Y", "L"},
                 1,
                 41.8,
                 772.0,
                 60,
                 4,
                 0.5,
                 SubgraphState::Searching,
                 "Y",
                 231211008,
                 5000000,
                 {0, 3}});
  out.push_back({"bb02",
                 "dW + sgd",
                 "contraction",
                 {"d(L)/d(W)", "W <-"},
                 1,
                 12.6,
                 123.0,
                 40,
                 3,
                 0.4,
                 SubgraphState::Searching,
                 "d(L)/d(W)",
                 231211008,
                 4000000,
                 {2, 5}});
  out.push_back({"cc03",
                 "dY",
                 "elementwise",
                 {"d(L)/d(Y)"},
                 1,
                 3.1,
                 6.8,
                 20,
                 2,
                 0.1,
                 SubgraphState::Done,
                 "d(L)/d(Y)",
                 1200000,
                 3200000,
                 {3}});
  return out;
}

inline protocol::Kernel kernel(const std::string& subgraph, std::optional<std::uint64_t> trial) {
  using namespace protocol;
  Kernel k;
  k.subgraph = subgraph, k.name = "Y + L", k.trial = trial.value_or(41), k.generation = 4, k.us = 41.8;
  k.expression = "Y[b,k,p,q,i,j] = sum[c,r,s,l] A[b, c, p*2+r, q*2+s, i, l] * W[k, c, r, s, l, j]";
  k.expressionOrigins = {{0}};
  KernelTextInfo loops{"loops",
                       "parallel for p in 0..28\n  for k in 0..32\n    acc = 0\n    for c in 0..8\n      a = A[c, 2*p + r]\n      "
                       "w = W[k, c, r]\n      acc += a * w\n    Y[k, p] = acc\n",
                       {{0}, {0}, {0}, {0}, {1}, {2}, {0}, {0}}};
  KernelTextInfo llvm{
      "llvm",
      "define void @kernel(ptr %args) {\nentry:\n  %a = load <16 x float>, ptr %pa\n  %w = load float, ptr %pw\n  ret void\n}\n",
      {{0}, {}, {1}, {2}, {}, {}}};
  k.texts = {loops, llvm};
  k.facts = {{"vector", "16"}, {"workspace", "0 B"}, {"tasks", "28"}};
  return k;
}

// The kernel of another schedule: one line differs.
inline protocol::Kernel otherKernel(const std::string& subgraph, std::uint64_t trial) {
  protocol::Kernel k = kernel(subgraph, trial);
  auto& text = k.texts[0].text;
  text.replace(text.find("for k in 0..32"), 14, "for k in 0..16");
  return k;
}

inline protocol::Profile profile(std::uint64_t revision, bool training) {
  protocol::Profile p;
  p.revision = revision, p.device = "cpu", p.training = training, p.runs = 20;
  p.kernels = {{"bb02", "dW + sgd", 2, 900, 43200000, 4000000},
               {"aa01", "Y + L", 1, 400, 4000000, 6000000},
               {"cc03", "dY", 1, 3.1, 1200, 3200}};
  for (const auto& k : p.kernels) p.stepUs += k.us * k.calls;
  return p;
}

inline protocol::Space space(const std::string& subgraph) {
  return {subgraph,
          "contraction",
          2.4e6,
          {{"tile", "rows by vectors of the register tile", {{"[4,8]"}, {"[4,16]"}, {"[8,8]"}}}, {"threads", "", {{"1"}, {"2"}}}},
          {R"({"kind":"contraction","knobs":{"threads":1,"tile":[4,16]},"version":1})"}};
}

// Two threads and the widest tile exclude each other.
inline protocol::Space spaceAt(const std::string& subgraph, const protocol::JsonText& schedule) {
  protocol::Space s = space(subgraph);
  const std::string why = "threads times tile needs more registers than there are";
  const bool two = schedule.text.find("\"threads\":2") != std::string::npos;
  const bool wide = schedule.text.find("[8,8]") != std::string::npos;
  s.at = schedule;
  s.ruledOut = two && wide ? why : std::string();
  s.knobs[0].ruledOut = {"", "", two ? why : std::string()};
  s.knobs[1].ruledOut = {"", wide ? why : std::string()};
  return s;
}

}  // namespace nf::capsule
