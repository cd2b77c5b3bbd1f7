// SPDX-License-Identifier: Apache-2.0
#include "core/session/describe.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/autodiff/explain.h"
#include "core/fusion/lowerable.h"
#include "core/ir/structural_hash.h"
#include "core/runtime/meaning.h"
#include "core/runtime/step_program.h"
#include "core/session/caption.h"
#include "core/session/describe_tokens.h"
#include "core/session/formula.h"
#include "core/support/scaled_text.h"

namespace nf {
namespace {

protocol::Severity severity(Severity s) {
  switch (s) {
    case Severity::Error: return protocol::Severity::Error;
    case Severity::Warning: return protocol::Severity::Warning;
    case Severity::Note: return protocol::Severity::Note;
  }
  return protocol::Severity::Error;
}

protocol::SymbolKind symbolKind(Symbol::Kind kind) {
  switch (kind) {
    case Symbol::Kind::Extent: return protocol::SymbolKind::Extent;
    case Symbol::Kind::Data: return protocol::SymbolKind::Data;
    case Symbol::Kind::Input: return protocol::SymbolKind::Input;
    case Symbol::Kind::Param: return protocol::SymbolKind::Param;
    case Symbol::Kind::Const: return protocol::SymbolKind::Const;
    case Symbol::Kind::State: return protocol::SymbolKind::State;
    case Symbol::Kind::Tensor: return protocol::SymbolKind::Tensor;
    case Symbol::Kind::Function: return protocol::SymbolKind::Function;
    case Symbol::Kind::Loss: return protocol::SymbolKind::Loss;
    case Symbol::Kind::Eval: return protocol::SymbolKind::Eval;
  }
  return protocol::SymbolKind::Tensor;
}

protocol::SymbolKind symbolKind(TensorKind kind) {
  switch (kind) {
    case TensorKind::Input: return protocol::SymbolKind::Input;
    case TensorKind::Param: return protocol::SymbolKind::Param;
    case TensorKind::Const: return protocol::SymbolKind::Const;
    case TensorKind::State: return protocol::SymbolKind::State;
    case TensorKind::Intermediate: return protocol::SymbolKind::Tensor;
  }
  return protocol::SymbolKind::Tensor;
}

protocol::NodeKind nodeKind(TensorKind kind) {
  switch (kind) {
    case TensorKind::Input: return protocol::NodeKind::Input;
    case TensorKind::Param: return protocol::NodeKind::Param;
    case TensorKind::Const: return protocol::NodeKind::Const;
    case TensorKind::State: return protocol::NodeKind::State;
    case TensorKind::Intermediate: return protocol::NodeKind::Operator;
  }
  return protocol::NodeKind::Operator;
}

protocol::Phase phase(Phase p) {
  switch (p) {
    case Phase::Forward: return protocol::Phase::Forward;
    case Phase::Backward: return protocol::Phase::Backward;
    case Phase::Optimizer: return protocol::Phase::Optimizer;
    case Phase::Evaluation: return protocol::Phase::Evaluation;
  }
  return protocol::Phase::Forward;
}

std::string flopsText(std::int64_t flops) {
  static constexpr const char* kUnits[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"};
  return scaledText(static_cast<double>(flops), kUnits, 1000);
}

std::string shapeText(const Tensor& t) {
  std::string out = std::string(name(t.type));
  if (t.shape.empty()) return out + " scalar";
  out += " [";
  for (std::size_t i = 0; i < t.shape.size(); ++i) out += (i ? ", " : "") + std::to_string(t.shape[i]);
  return out + "]";
}

constexpr const char* kNotDerived = "not derived yet";

bool readsByData(const Program& p, ExprId load) {
  if (!load.valid()) return false;
  const std::vector<AccessIndex>& indices = p[p[load].access].indices;
  return std::any_of(indices.begin(), indices.end(), [](const AccessIndex& i) { return i.isData(); });
}

// The places of the accesses of each tensor, bodies of loops included. The word in `train` that all updates stand for, `sgd`, is none:
// it would be a place of every parameter.
std::vector<protocol::Origins> readersOf(const Program& p, const OriginSpans& spans) {
  std::vector<protocol::Origins> readers(p.tensors.size());
  std::set<std::uint32_t> updates;
  for (const Operator& op : p.operators)
    if (op.phase == Phase::Optimizer)
      if (const auto places = spans.of(p, op.origin); !places.empty()) updates.insert(places.front());
  const auto note = [&updates](protocol::Origins& into, std::uint32_t place) {
    if (!updates.contains(place) && std::find(into.begin(), into.end(), place) == into.end()) into.push_back(place);
  };
  for (const ScalarNode& n : p.scalars) {
    if (n.op != ScalarOp::Load || !n.origin.valid()) continue;
    protocol::Origins& of = readers[p[n.access].tensor.value];
    for (const std::uint32_t place : spans.readAt(p, n.origin)) note(of, place);
  }
  for (const Loop& loop : p.loops) {
    const auto inside = readersOf(*loop.body, spans);
    for (const auto& x : loop.invariants)
      for (const std::uint32_t place : inside[x.inner.value]) note(readers[x.outer.value], place);
  }
  return readers;
}

// What a node is named by: the first tensor that its operator writes; of a loop one that the notebook names, where it leaves any, before
// what passes keep of all its steps.
TensorId namingTensor(const Program& p, OperatorId id) {
  const auto written = writesOf(p, id);
  if (written.empty()) return {};
  const auto named = std::ranges::find_if(written, [&p](TensorId t) { return t.valid() && !p[t].name.ends_with("_steps"); });
  return named == written.end() ? written[0] : *named;
}

// A loop that nothing reads is named by what it carries.
std::string nodeName(const Program& p, OperatorId id) {
  if (const TensorId by = namingTensor(p, id); by.valid()) return p[by].name;
  bool taken = p[id].kind != OperatorKind::Loop || p.tensorNamed(p[id].name).valid();
  for (std::size_t o = 0; o < id.value && !taken; ++o)
    taken = p.operators[o].name == p[id].name && writesOf(p, OperatorId(o)).empty();
  return taken ? "operator " + std::to_string(id.value) : p[id].name;
}

bool isDerivative(const std::string& name) { return name.starts_with("d(") && name.find(")/d(") != std::string::npos; }

}  // namespace

protocol::DiagnosticInfo describe(const Diagnostic& d, const SourceMap& sources, const OriginSpans& spans) {
  protocol::DiagnosticInfo info;
  info.severity = severity(d.severity);
  info.code = d.code;
  info.message = d.message;
  info.span = spans.place(d.span);
  if (d.span.valid()) {
    const LineColumn at = sources.lineColumn(d.span);
    info.line = at.line;
    info.column = at.column;
  }
  for (const DiagnosticNote& note : d.notes) info.notes.push_back({note.message, spans.place(note.span)});
  for (const DiagnosticFix& fix : d.fixes) info.fixes.push_back({fix.label, fix.span.begin, fix.span.end, fix.text});
  return info;
}

DecidedParts::Kernels& DecidedParts::kernelsOf(const Program& program) {
  const auto [known, isNew] = m_kernels.try_emplace(&program);
  Kernels& kernels = known->second;
  if (!isNew) return kernels;
  for (std::size_t g = 0; g < program.groups.size(); ++g) {
    kernels.parts.emplace_back();
    for (const OperatorId op : program.groups[g].operators) {
      kernels.parts.back().push_back(structuralHash(program, op));
      for (const TensorId t : writesOf(program, op))
        if (t.valid()) {
          kernels.makers.emplace(program[t].name, g);
          kernels.origins.emplace(program[t].name, program[op].origin);
          kernels.nodes.emplace(program[t].name, nodeName(program, op));
        }
    }
  }
  return kernels;
}

OriginId DecidedParts::consumerOrigin(const FusionDecision& d) {
  const auto& origins = kernelsOf(d.body ? *d.body : m_fused).origins;
  const auto found = origins.find(d.consumer);
  return found == origins.end() ? OriginId() : found->second;
}

const std::string& DecidedParts::nodeOf(const FusionDecision& d, const std::string& tensor) {
  const auto& nodes = kernelsOf(d.body ? *d.body : m_fused).nodes;
  const auto found = nodes.find(tensor);
  return found == nodes.end() ? tensor : found->second;
}

std::string DecidedParts::of(const FusionDecision& d) {
  const Kernels& kernels = kernelsOf(d.body ? *d.body : m_fused);
  std::set<Hash> parts;
  for (const std::string* end : {&d.producer, &d.consumer})
    for (auto [maker, last] = kernels.makers.equal_range(*end); maker != last; ++maker)
      parts.insert(kernels.parts[maker->second].begin(), kernels.parts[maker->second].end());
  Hasher hasher;
  for (const Hash& part : parts) hasher.add(part);
  return hasher.finish().hex();
}

protocol::FusionDecisionInfo describe(const FusionDecision& d, const Program& fused, const OriginSpans& spans, std::uint32_t id) {
  protocol::FusionDecisionInfo info;
  info.id = id;
  info.producer = d.producer;
  info.consumer = d.consumer;
  info.category = d.category;
  info.producerClass = name(d.producerClass);
  info.consumerClass = name(d.consumerClass);
  info.dT = d.dT;
  info.dC = d.dC;
  info.dK = static_cast<double>(d.dK);
  info.R = d.R;
  for (const FusionTerm& t : d.traffic) info.traffic.push_back({t.name, t.amount});
  for (const FusionTerm& t : d.arithmetic) info.arithmetic.push_back({t.name, t.amount});
  info.recomputed = d.recomputed;
  switch (d.state) {
    case FusionState::Accepted: info.state = protocol::FusionState::Accepted; break;
    case FusionState::Refused: info.state = protocol::FusionState::Refused; break;
    case FusionState::NotLowerable: info.state = protocol::FusionState::NotLowerable; break;
    case FusionState::Forced: info.state = protocol::FusionState::Forced; break;
    case FusionState::Forbidden: info.state = protocol::FusionState::Forbidden; break;
    case FusionState::Reverted: info.state = protocol::FusionState::Reverted; break;
  }
  info.why = reasonOf(d);
  for (const FusionFlip& f : d.flips) info.flips.push_back({f.quantity, f.now, f.threshold, f.threshold > f.now, f.unit});
  if (!d.flips.empty()) {
    // R over the quantity that flips it soonest, from a quarter of the smaller to four times the larger of now and threshold.
    const FusionFlip& f = d.flips.front();
    protocol::FusionCurve curve;
    curve.quantity = f.quantity;
    const double from = std::min(f.now, f.threshold) / 4, to = std::max(f.now, f.threshold) * 4;
    constexpr int kPoints = 65;
    for (int i = 0; i < kPoints; ++i) {
      const double x = from * std::pow(to / from, static_cast<double>(i) / (kPoints - 1));
      curve.x.push_back(x);
      curve.rewardSeconds.push_back(f.rewardAt(x));
    }
    info.curve = std::move(curve);
  }
  if (d.measured && d.measured->pairs > 0) {
    protocol::Measured saving;
    saving.median = d.measured->saved;
    saving.low = d.measured->savedLow;
    saving.high = d.measured->savedHigh;
    info.measuredSaving = std::move(saving);
  }
  info.repeats = static_cast<double>(d.repeats);
  info.origins = spans.of(d.body ? *d.body : fused, d.origin);
  return info;
}

namespace {
// "78 528", with the narrow space that views group digits by.
std::string groupedText(std::int64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, "\u202f");
  return text;
}
}  // namespace

protocol::Analysis describeAnalysis(const CompiledNotebook& notebook, const CompiledNotebook& sound, const OriginSpans& spans,
                                    std::uint64_t revision, std::size_t step, double ms, const Diagnostics& ofFiles) {
  const Program& p = sound.program;
  protocol::Analysis a;
  a.revision = revision;
  a.step = static_cast<std::uint32_t>(step);
  a.ms = ms;
  a.spans = spans.spans();
  for (const Diagnostics* list : {&notebook.diagnostics, &ofFiles})
    for (const Diagnostic& d : *list) a.diagnostics.push_back(describe(d, notebook.sources, spans));
  for (const ExtentHint& hint : notebook.extents)
    if (hint.statement.source == notebook.notebook)
      a.extents.push_back({hint.statement.begin, hint.statement.end, hint.axis, hint.extent});
  for (const Symbol& s : notebook.symbols) {
    protocol::SymbolInfo info;
    info.kind = symbolKind(s.kind);
    info.name = s.name;
    info.detail = s.detail;
    info.definition = spans.place(s.definition);
    for (const Span use : s.uses) info.uses.push_back(spans.place(use));
    a.symbols.push_back(std::move(info));
  }
  const std::vector<OperatorId> made = producers(p);
  std::vector<protocol::Origins> readers = readersOf(p, spans);
  for (std::size_t i = 0; i < p.tensors.size(); ++i) {
    const Tensor& t = p.tensors[i];
    const bool given = !made[i].valid() && !isDerivative(t.name);
    a.tensors.push_back({t.name, symbolKind(t.kind), std::string(name(t.type)), t.shape, t.bytes(), isDerivative(t.name),
                         spans.of(p, made[i].valid() ? p[made[i]].origin : t.origin),
                         given ? std::move(readers[i]) : protocol::Origins{}});
  }
  std::set<std::string_view> named;  // in the text; the others are made within a call
  for (const Symbol& s : notebook.symbols)
    if (s.kind != Symbol::Kind::Function) named.insert(s.name);
  const std::vector<Hash> meanings = cellMeanings(sound);
  for (std::size_t i = 0; i < sound.cells.size(); ++i) {
    const CellInfo& cell = sound.cells[i];
    protocol::CellInfo info;
    if (meanings[i] != Hash()) info.meaning = meanings[i].hex();
    info.markdown = cell.kind == CellInfo::Kind::Markdown;
    info.begin = cell.span.begin;
    info.end = cell.span.end;
    const auto inside = [&](Span s) {
      return s.source == notebook.notebook && s.begin >= cell.span.begin && s.begin < cell.span.end;
    };
    for (const Diagnostics* list : {&notebook.diagnostics, &ofFiles})
      for (const Diagnostic& d : *list)
        if (d.severity == Severity::Error && inside(d.span)) info.status = protocol::CellStatus::Error;
    TensorId last;
    std::int64_t flops = 0;
    std::set<OperatorId> makers;  // a loop makes several tensors
    for (const TensorId t : cell.defines) {
      info.defines.push_back(p[t].name);
      if (!made[t.value].valid()) continue;
      if (!last.valid() || named.contains(p[t].name) || !named.contains(p[last].name)) last = t;
      if (makers.insert(made[t.value]).second) flops += flopsOf(p, made[t.value]);
    }
    if (last.valid() && info.status != protocol::CellStatus::Error)
      info.summary =
          p[last].name + "  " + shapeText(p[last]) + ", " + bytesText(p[last].bytes()) + " · " +
          (makers.size() == 1 ? flopsText(flops) : flopsText(flopsOf(p, made[last.value])) + ", the cell " + flopsText(flops));
    for (const TensorId t : cell.shows) info.shows.push_back(p[t].name);
    std::set<std::string> own;  // not made here because of what the cell waits for
    for (const Unsound& u : notebook.unsound) {
      if (!inside(u.span)) continue;
      if (!u.uses.empty() && !own.contains(u.uses) && std::ranges::find(info.waits, u.uses) == info.waits.end())
        info.waits.push_back(u.uses);
      own.insert(u.gives.begin(), u.gives.end());
    }
    std::int64_t parameters = 0, values = 0;
    for (const Update& u : p.updates) {
      if (p[u.target].kind != TensorKind::Param || std::ranges::find(cell.defines, u.value) == cell.defines.end()) continue;
      ++parameters;
      values += p[u.target].elements();
    }
    // Of several in one cell the first is what the cell trains.
    for (std::size_t i = 0; i < sound.trains.size() && !info.train; ++i) {
      const TrainSettings& train = sound.trains[i];
      if (!inside(train.span)) continue;
      info.train = protocol::TrainInfo{train.loss,  train.optimizer, train.mode, train.device, train.epochs,
                                       train.steps, train.batch,     train.seed, {},           static_cast<std::uint32_t>(i)};
      // The notebook was compiled with the optimizer of one.
      if (i == step) info.train->program = structuralHash(trainingProgram(sound, i)).hex();
    }
    if (info.train && parameters > 0 && !info.summary.empty())
      info.summary = "trains " + groupedText(parameters) + (parameters == 1 ? " parameter, " : " parameters, ") +
                     groupedText(values) + (values == 1 ? " value · " : " values · ") + flopsText(flops) + " an update";
    a.cells.push_back(std::move(info));
  }
  a.tokens = describeTokens(sound, spans);
  a.expansions = describeExpansions(sound, spans);
  return a;
}

namespace {

// Nodes of the stage before by name: what each computes, of what.
using KnownNodes = std::unordered_map<std::string, Hash>;

Hash computedBy(const Program& p, OperatorId id) {
  Hasher h;
  h.add(structuralHash(p, id));
  for (const TensorId t : readsOf(p, id)) h.add(std::string_view(p[t].name));
  return h.finish();
}

// One program's part of the graph: a node an operator and one a given tensor that something reads.
class GraphPart {
 public:
  GraphPart(const Program& program, const OriginSpans& spans)
      : m_program(program), m_spans(spans), m_made(producers(program)), m_readByUpdates(program.tensors.size()),
        m_readElsewhere(program.tensors.size()) {
    for (std::size_t i = 0; i < program.operators.size(); ++i) {
      m_names.push_back(nodeName(program, OperatorId(i)));
      for (const TensorId t : readsOf(program, OperatorId(i)))
        (program[OperatorId(i)].phase == Phase::Optimizer ? m_readByUpdates : m_readElsewhere)[t.value] = true;
    }
  }

  const std::string& nameOf(OperatorId op) const { return m_names[op.value]; }
  // Of the node that a tensor comes from.
  const std::string& nameOf(TensorId t) const {
    return m_made[t.value].valid() ? m_names[m_made[t.value].value] : m_program[t].name;
  }
  bool isMade(TensorId t) const { return m_made[t.value].valid(); }
  // Those that nobody makes among what these operators read.
  std::vector<TensorId> givenTo(const std::vector<OperatorId>& operators) const {
    std::vector<bool> read(m_program.tensors.size(), false);
    for (const OperatorId op : operators)
      for (const TensorId t : readsOf(m_program, op)) read[t.value] = true;
    std::vector<TensorId> given;
    for (std::size_t t = 0; t < read.size(); ++t)
      if (read[t] && !m_made[t].valid()) given.push_back(TensorId(t));
    return given;
  }

  protocol::GraphNode node(TensorId id) const {
    const Program& p = m_program;
    const Tensor& t = p[id];
    protocol::GraphNode node;
    node.id = node.name = t.name;
    node.kind = nodeKind(t.kind);
    node.dtype = name(t.type);
    node.shape = t.shape;
    node.bytes = t.bytes();
    node.origins = m_spans.of(p, t.origin);
    // What an optimiser keeps between steps is read by its updates alone.
    if (t.kind == TensorKind::State && m_readByUpdates[id.value] && !m_readElsewhere[id.value])
      node.phase = protocol::Phase::Optimizer;
    if (isDerivative(t.name)) {
      // Read by an optimiser before it has been derived: it comes from what it is the derivative of, and with respect to.
      node.phase = protocol::Phase::Backward;
      node.text = kNotDerived;
      const std::size_t middle = t.name.find(")/d(");
      for (const std::string& part : {t.name.substr(2, middle - 2), t.name.substr(middle + 4, t.name.size() - middle - 5)})
        if (const TensorId of = p.tensorNamed(part); of.valid())
          for (const std::uint32_t o : m_spans.of(p, isMade(of) ? p[m_made[of.value]].origin : p[of].origin))
            if (std::find(node.origins.begin(), node.origins.end(), o) == node.origins.end()) node.origins.push_back(o);
    }
    return node;
  }

  protocol::GraphNode node(OperatorId id, const KnownNodes& before) const {
    const Program& p = m_program;
    const Operator& op = p[id];
    protocol::GraphNode node;
    node.id = node.name = nameOf(id);
    node.phase = phase(op.phase);
    node.text = captionOf(p, id);
    if (op.kind == OperatorKind::Loop) {
      node.category = "loop";
    } else {
      node.statement = toText(p, id);
      node.category = name(fusionClass(p, id));
    }
    const auto written = writesOf(p, id);
    if (const TensorId by = namingTensor(p, id); by.valid()) {
      node.dtype = name(p[by].type);
      node.shape = p[by].shape;
      for (const TensorId t : written) node.bytes += p[t].bytes();
    } else if (op.kind == OperatorKind::Loop && !p[op.loop].carried.empty()) {
      const Tensor& carried = p[p[op.loop].carried.front().initial];
      node.dtype = name(carried.type);
      node.shape = carried.shape;
    }
    // In the source a derivative that is shown stands for itself until it is derived.
    if (p.stage == Stage::Source && isDerivative(node.id)) {
      node.phase = protocol::Phase::Backward;
      node.text = kNotDerived;
    }
    node.flops = flopsOf(p, id);
    const auto known = before.find(node.id);
    node.added = !before.empty() && known == before.end();
    node.changed = known != before.end() && known->second != computedBy(p, id);
    node.origins = m_spans.of(p, op.origin);
    const std::set<std::uint32_t> places = m_spans.placesOf(p, id);
    node.places.assign(places.begin(), places.end());
    return node;
  }

  void addEdgesTo(protocol::GraphPage& page, OperatorId id) const {
    const Program& p = m_program;
    for (const TensorId t : readsOf(p, id))
      page.edges.push_back({nameOf(t), nameOf(id), p[t].name, p[t].bytes(),
                            isMade(t) && p[m_made[t.value]].phase == Phase::Forward && p[id].phase == Phase::Backward, false});
  }

 private:
  const Program& m_program;
  const OriginSpans& m_spans;
  std::vector<OperatorId> m_made;
  std::vector<bool> m_readByUpdates, m_readElsewhere;  // by tensor
  std::vector<std::string> m_names;
};

}  // namespace

protocol::GraphPage describeGraph(const StagePrograms& programs, const StagePrograms& before, const OriginSpans& spans,
                                  std::int64_t offset, std::int64_t limit) {
  const Program& p = *programs.decided;
  protocol::GraphPage page;
  page.stage = name(p.stage);
  page.offset = offset;
  KnownNodes known;
  for (const Program* program : {before.decided, before.whole == before.decided ? nullptr : before.whole})
    for (std::size_t i = 0; program && i < program->operators.size(); ++i)
      if (const auto [node, fresh] = known.try_emplace(nodeName(*program, OperatorId(i))); fresh)
        node->second = computedBy(*program, OperatorId(i));
  const GraphPart step(p, spans), all(*programs.whole, spans);
  std::vector<OperatorId> inside;
  for (std::size_t i = 0; i < p.operators.size(); ++i) inside.emplace_back(i);
  struct Item {
    const GraphPart* part;
    TensorId given;
    OperatorId op;
  };
  // Given tensors come before what reads them, what is outside the step comes behind it.
  std::vector<Item> items;
  std::unordered_set<std::string_view> nodes;
  const auto add = [&](const GraphPart& part, const Program& program, const std::vector<OperatorId>& operators) {
    for (const TensorId t : part.givenTo(operators))
      if (nodes.insert(program[t].name).second) items.push_back({&part, t, {}});
    for (const OperatorId op : operators)
      if (nodes.insert(part.nameOf(op)).second) items.push_back({&part, {}, op});
  };
  add(step, p, inside);
  const std::size_t insideCount = items.size();
  add(all, *programs.whole, programs.outside);
  page.totalNodes = static_cast<std::int64_t>(items.size());
  const std::size_t first = static_cast<std::size_t>(std::clamp<std::int64_t>(offset, 0, page.totalNodes));
  const std::size_t end = std::min(items.size(), first + static_cast<std::size_t>(std::clamp<std::int64_t>(limit, 0, 20000)));
  for (std::size_t k = first; k < end; ++k) {
    const Item& item = items[k];
    page.nodes.push_back(item.op.valid() ? item.part->node(item.op, known) : item.part->node(item.given));
    page.nodes.back().outsideStep = k >= insideCount;
    if (item.op.valid()) item.part->addEdgesTo(page, item.op);
  }
  // What was computed where it is read has another name in the step.
  std::erase_if(page.edges, [&](const protocol::GraphEdge& e) { return !nodes.contains(e.from); });
  if (end == items.size()) {
    // An update closes the circle: the value computed in this step is the parameter of the next.
    for (const Update& u : p.updates)
      if (step.isMade(u.value) && nodes.contains(p[u.target].name))
        page.edges.push_back({step.nameOf(u.value), p[u.target].name, p[u.value].name, p[u.value].bytes(), false, true});
    for (std::size_t g = 0; g < p.groups.size(); ++g) {
      const Group& group = p.groups[g];
      protocol::GraphGroup info;
      info.id = "G" + std::to_string(g + 1);
      info.name = group.name;
      info.subgraph = group.subgraph;
      for (const OperatorId id : group.operators) {
        info.nodes.push_back(step.nameOf(id));
        for (const std::uint32_t o : spans.of(p, p[id].origin))
          if (std::find(info.origins.begin(), info.origins.end(), o) == info.origins.end()) info.origins.push_back(o);
      }
      page.groups.push_back(std::move(info));
    }
  }
  return page;
}

void describeMerged(protocol::GraphPage& page, const MergedNames& merged, const Program& differentiated, const OriginSpans& spans) {
  if (merged.empty()) return;
  std::map<std::string, std::vector<std::string>> by;  // names that are gone, by the one that is kept
  for (const auto& [gone, kept] : merged) by[kept].push_back(gone);
  const std::vector<OperatorId> made = producers(differentiated);
  for (protocol::GraphNode& node : page.nodes) {
    const auto found = by.find(node.id);
    if (found == by.end()) continue;
    std::vector<std::string>& names = found->second;
    std::sort(names.begin(), names.end());
    names.insert(names.begin(), node.id);
    for (const std::string& name : names)
      if (const TensorId t = differentiated.tensorNamed(name); t.valid() && made[t.value].valid())
        node.merged.push_back({name, spans.of(differentiated, differentiated[made[t.value]].origin)});
    if (node.merged.size() < 2) node.merged.clear();
  }
}

namespace {

// Is the term's operator one of these, or does it stand in the body of one?
bool isPartOf(const Program& p, const std::vector<OperatorId>& shown, const GradientTerm& term) {
  return std::any_of(shown.begin(), shown.end(), [&](OperatorId id) {
    if (term.backwardLoops.empty()) return id == term.backward;
    return p[id].kind == OperatorKind::Loop && p[id].loop == term.backwardLoops.front();
  });
}

// What derivation has made that the shown operators refer to, directly or not, in program order: what the source program makes or is
// given stays a name.
void addDefinitions(protocol::Expression& into, const Program& p, const std::vector<OperatorId>& made,
                    const std::vector<OperatorId>& shown, const Program& source, const OriginSpans& spans) {
  std::unordered_set<std::string_view> written;
  const std::vector<OperatorId> madeInSource = producers(source);
  for (std::size_t t = 0; t < source.tensors.size(); ++t)
    if (madeInSource[t].valid()) written.insert(source.tensors[t].name);
  std::vector<bool> seen(p.operators.size(), false);
  for (const OperatorId id : shown) seen[id.value] = true;
  std::vector<OperatorId> open = shown, found;
  for (std::size_t i = 0; i < open.size(); ++i)
    for (const TensorId t : readsOf(p, open[i])) {
      const OperatorId from = made[t.value];
      if (!from.valid() || seen[from.value] || written.contains(p[t].name)) continue;
      seen[from.value] = true;
      open.push_back(from);
      found.push_back(from);
    }
  into.definitionCount = static_cast<std::int64_t>(found.size());
  if (found.size() > protocol::Expression::kMostDefinitions) found.resize(protocol::Expression::kMostDefinitions);
  std::sort(found.begin(), found.end());
  // What a loop leaves goes on under the name that it has there.
  std::vector<OperatorId> all = found;
  all.insert(all.end(), shown.begin(), shown.end());
  std::sort(all.begin(), all.end());
  std::vector<std::string> texts = statementTexts(p, all);
  into.text.clear();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (std::binary_search(found.begin(), found.end(), all[i]))
      into.definitions.push_back({nodeName(p, all[i]), std::move(texts[i]), spans.of(p, p[all[i]].origin)});
    else into.text += texts[i] + "\n";
}

// `sum[j] x[i, j]` beside other terms of a statement of Y is computed for itself, as Y.sum or Y.sum2.
bool isPartOfAStatement(const Program& p, OperatorId id) {
  const Operator& op = p[id];
  if (op.kind != OperatorKind::Gather || op.axes.size() <= op.outputRank) return false;
  const std::string& made = p[op.output].name;
  const std::size_t dot = made.rfind('.');
  if (dot == std::string::npos) return false;
  const std::string_view last = std::string_view(made).substr(dot + 1);
  const std::string_view word = last.substr(0, last.find_last_not_of("0123456789") + 1);
  return word == "mean" || word == name(op.reducer);
}

}  // namespace

std::optional<protocol::Expression> describeExpression(const Program& p, TensorId tensor, const std::vector<GradientTerm>& terms,
                                                       const OriginSpans& spans, const Program& source) {
  const std::vector<OperatorId> made = producers(p);
  const OperatorId last = made[tensor.value];
  if (!last.valid()) return std::nullopt;
  protocol::Expression e;
  e.tensor = p[tensor].name;
  e.dtype = name(p[tensor].type);
  e.shape = p[tensor].shape;
  e.origins = spans.of(p, p[last].origin);
  // A derivative is shown with the partial sums it is made of, another tensor with the sums within its statement; other derivatives and
  // forward operators stay names.
  std::vector<OperatorId> shown{last};
  const std::string stem = e.tensor + "#";
  for (std::size_t i = 0; i < shown.size(); ++i)
    for (const TensorId t : readsOf(p, shown[i])) {
      const OperatorId from = made[t.value];
      const bool part = from.valid() && (isDerivative(e.tensor) ? p[t].name.starts_with(stem) : isPartOfAStatement(p, from));
      if (part && std::find(shown.begin(), shown.end(), from) == shown.end()) shown.push_back(from);
    }
  std::sort(shown.begin(), shown.end());
  for (const OperatorId id : shown) {
    e.text += toText(p, id) + "\n";
    for (protocol::Formula& f : formulasOf(p, id, spans)) e.formulas.push_back(std::move(f));
  }
  if (isDerivative(e.tensor)) addDefinitions(e, p, made, shown, source, spans);
  for (const GradientTerm& term : terms) {
    if (!term.backward.valid() || !isPartOf(p, shown, term)) continue;
    const Program& forward = bodyAt(p, term.forwardLoops);
    const Program& backward = bodyAt(p, term.backwardLoops);
    protocol::GradientTermInfo info;
    info.tensor = forward[term.tensor].name;
    info.access = accessText(p, term);
    info.written = accessAsWritten(p, term, spans.sources());
    info.result = backward[backward[term.backward].output].name;
    switch (term.form) {
      case GradientTerm::Form::Gather: info.form = protocol::GradientForm::Gather; break;
      case GradientTerm::Form::Scatter: info.form = protocol::GradientForm::Scatter; break;
      case GradientTerm::Form::Zero: info.form = protocol::GradientForm::Zero; break;
      case GradientTerm::Form::Empty: info.form = protocol::GradientForm::Empty; break;
    }
    switch (term.inverse.state) {
      case Inverse::State::Empty: info.certificate = protocol::CertificateState::Empty; break;
      case Inverse::State::Gather: info.certificate = protocol::CertificateState::Proved; break;
      case Inverse::State::Uncertified: info.certificate = protocol::CertificateState::Uncertified; break;
      case Inverse::State::Checking: info.certificate = protocol::CertificateState::Checking; break;
      case Inverse::State::Unneeded: info.certificate = protocol::CertificateState::Unneeded; break;
    }
    if (term.form == GradientTerm::Form::Scatter && readsByData(forward, term.access))
      info.certificate = protocol::CertificateState::Untried;
    info.certificateMs = term.inverse.certificateMilliseconds;
    info.why = term.why;
    info.tripsPerElement = term.inverse.tripsPerZ;
    for (const Inverse::Step& step : term.inverse.derivation) info.derivation.push_back({step.title, step.lines});
    if (term.access.valid()) info.origins = spans.of(forward, forward[term.access].origin);
    e.terms.push_back(std::move(info));
  }
  return e;
}

}  // namespace nf
