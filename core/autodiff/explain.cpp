// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/explain.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/autodiff/reverse.h"
#include "core/lang/compile.h"
#include "core/syntax/token.h"

namespace nf {
namespace {

using Json = nlohmann::json;

const char* nameOf(GradientTerm::Form form) {
  switch (form) {
    case GradientTerm::Form::Gather: return "gather";
    case GradientTerm::Form::Scatter: return "scatter";
    case GradientTerm::Form::Zero: return "zero";
    case GradientTerm::Form::Empty: return "empty";
  }
  return "";
}

const char* nameOf(Inverse::State state) {
  switch (state) {
    case Inverse::State::Empty: return "empty";
    case Inverse::State::Gather: return "proved";
    case Inverse::State::Uncertified: return "none";
    case Inverse::State::Checking: return "checking";
    case Inverse::State::Unneeded: return "not needed";
  }
  return "";
}

// Keys of the steps that are lists of lines.
constexpr std::array<std::pair<const char*, const char*>, 5> kLists = {{{"Linear system", "linear_system"},
                                                                        {"Solution", "solution"},
                                                                        {"Free axes", "free_axes"},
                                                                        {"Guards dropped", "dropped_guards"},
                                                                        {"Where a fibre is not empty", "existence"}}};

// A long line in several, broken after `and`, `or` or a comma; those that go on are set in.
std::vector<std::string> broken(std::string line) {
  constexpr std::size_t kWidth = 110;
  std::vector<std::string> parts;
  while (line.size() > kWidth) {
    std::size_t end = 0;
    for (std::size_t at = line.find(' ', 4); at != std::string::npos && (at <= kWidth || end == 0); at = line.find(' ', at + 1)) {
      const std::string_view before = std::string_view(line).substr(0, at);
      if (before.ends_with(',') || before.ends_with(" and") || before.ends_with(" or") || before.ends_with(':')) end = at;
    }
    if (end == 0) break;
    parts.push_back(line.substr(0, end));
    line = "    " + line.substr(end + 1);
  }
  parts.push_back(std::move(line));
  return parts;
}

double product(const std::vector<std::int64_t>& extents) {
  double all = 1;
  for (const std::int64_t extent : extents) all *= static_cast<double>(extent);
  return all;
}

}  // namespace

std::string accessText(const Program& program, const GradientTerm& term) {
  const Program& p = bodyAt(program, term.forwardLoops);
  const std::string &name = p[term.tensor].name, plain = writtenName(name);
  // What a loop writes over has a number, which nobody has written; a sum of a derivative is another tensor.
  const std::string& called = isDerivativeName(plain) ? name : plain;
  if (!term.access.valid()) return called;
  Operator op = p[term.forward];
  // A loop's operators have the loop's time as an axis where a term is of all its steps.
  if (op.kind == OperatorKind::Loop)
    for (const std::string& name : term.names) op.axes.push_back({name, 1, {}});
  std::vector<std::string> counters;
  for (const Program* at = &program; const LoopId loop : term.forwardLoops) {
    counters.push_back((*at)[loop].counter);
    at = (*at)[loop].body.get();
  }
  std::string text = toText(p, op, term.access, std::move(counters));
  if (const std::string own = quotedName(name); text.starts_with(own + "[")) text.replace(0, own.size(), quotedName(called));
  return text;
}

std::string accessAsWritten(const Program& program, const GradientTerm& term, const SourceMap& sources) {
  const Program& p = bodyAt(program, term.forwardLoops);
  if (!term.access.valid() || !p[term.access].origin.valid()) return {};
  const Span span = p[p[term.access].origin].span;
  if (!span.valid() || span.source.value >= sources.size()) return {};
  std::string line, dense, normal;
  for (const char c : sources.text(span)) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!blank) dense += c;
    if (!blank || (!line.empty() && line.back() != ' ')) line += blank ? ' ' : c;
  }
  for (const char c : accessText(program, term))
    if (c != ' ') normal += c;
  // What is no access, a call that reads the tensor in its body, is another text altogether.
  if (dense == normal || dense.find('[') == std::string::npos) return {};
  return line;
}

Json explanationJson(const Program& program, const GradientTerm& term, const SourceMap& sources) {
  const Program& p = bodyAt(program, term.forwardLoops);
  const Program& backward = bodyAt(program, term.backwardLoops);
  Json json;
  json["tensor"] = p[term.tensor].name;
  json["forward"] = term.forward.valid() ? p[term.forward].name : std::string();
  json["access"] = accessText(program, term);
  json["written"] = accessAsWritten(program, term, sources);
  json["result"] = term.backward.valid() ? backward[backward[term.backward].output].name : std::string();
  json["form"] = nameOf(term.form);
  json["why"] = term.why;
  for (const auto& list : kLists) {
    const auto step = std::find_if(term.inverse.derivation.begin(), term.inverse.derivation.end(),
                                   [&](const Inverse::Step& s) { return s.title == list.first; });
    json[list.second] = step == term.inverse.derivation.end() ? Json::array() : Json(step->lines);
  }
  Json steps = Json::array();
  for (const Inverse::Step& step : term.inverse.derivation) steps.push_back({{"title", step.title}, {"lines", step.lines}});
  json["derivation"] = std::move(steps);
  // A scalar operator has no variables, so its inverse, proved or not, has no expressions.
  const bool empty = term.form == GradientTerm::Form::Empty;
  const bool inverted = !empty && term.form != GradientTerm::Form::Zero &&
                        (!term.inverse.y.empty() || term.inverse.state == Inverse::State::Gather ||
                         term.inverse.state == Inverse::State::Checking || term.inverse.state == Inverse::State::Unneeded);
  json["certificate"] = {{"state", inverted || empty ? nameOf(term.inverse.state) : "none"},
                         {"ms", term.inverse.certificateMilliseconds}};
  json["excluded_by"] = Json::array();
  json["axes"] = term.inverse.axes;
  json["y"] = Json::object();
  json["guards"] = {{"z", Json::array()}, {"t", Json::array()}};
  json["cost"] = nullptr;
  if (empty)
    for (const IndexCond& c : term.inverse.excludedBy)
      json["excluded_by"].push_back(toText(c, [&](IndexVar v) { return term.names[v]; }));
  if (!inverted) return json;
  const std::size_t m = term.problem.shape.size();
  const InverseLetters letters = lettersBeside(term.names);
  const auto name = [&](IndexVar v) { return v < m ? letters.z + std::to_string(v) : letters.t + std::to_string(v - m); };
  for (std::size_t i = 0; i < term.inverse.y.size(); ++i) json["y"][term.names[i]] = toText(term.inverse.y[i], name);
  for (const IndexCond& g : term.inverse.zGuards) json["guards"]["z"].push_back(toText(g, name));
  for (const IndexCond& g : term.inverse.tGuards) json["guards"]["t"].push_back(toText(g, name));
  const double points = visitsOf(term.inverse, term.problem);
  std::vector<std::int64_t> domain;
  for (const Range& r : term.problem.domain) domain.push_back(r.extent());
  json["cost"] = {{"points", points}, {"forward_points", product(domain)}, {"ratio", points / std::max(product(domain), 1.0)}};
  return json;
}

std::string explanationText(const Program& program, const GradientTerm& term, const SourceMap& sources) {
  const Program& p = bodyAt(program, term.forwardLoops);
  std::string text = "# " + accessText(program, term);
  if (term.forward.valid()) text += " in " + p[term.forward].name;
  text += std::string(": ") + nameOf(term.form) + (term.why.empty() ? "" : ", " + term.why) + "\n";
  if (const std::string written = accessAsWritten(program, term, sources); !written.empty())
    text += "#   As written: " + written + "\n";
  for (const Inverse::Step& step : term.inverse.derivation) {
    text += "#   " + step.title + "\n";
    for (const std::string& line : step.lines)
      for (const std::string& part : broken(line)) text += "#     " + part + "\n";
  }
  return text;
}

Diagnostics zeroParts(const DifferentiateResult& differentiated, const SourceMap& sources, SourceId notebook) {
  Diagnostics parts;
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::string>> told;
  std::set<std::uint32_t> whole;  // operators without anything but zeros
  for (const GradientTerm& term : differentiated.terms)
    if (term.form == GradientTerm::Form::Zero && !term.access.valid() && term.backward.valid() && term.backwardLoops.empty())
      whole.insert(term.backward.value);
  for (const GradientTerm& term : differentiated.terms) {
    if (term.form != GradientTerm::Form::Zero || !term.access.valid() || !term.cut.valid()) continue;
    if (term.backward.valid() && term.backwardLoops.empty() && whole.contains(term.backward.value)) continue;
    const Program& p = bodyAt(differentiated.program, term.forwardLoops);
    const OriginId origin = p[term.access].origin;
    const Span cut = p[term.cut].span, span = origin.valid() ? p[origin].span : Span{};
    if (!cut.valid() || cut.source != notebook) continue;
    const std::string written = accessAsWritten(differentiated.program, term, sources);
    const Program& backward = bodyAt(differentiated.program, term.backwardLoops);
    const TensorId result = term.backward.valid() ? backward[term.backward].output : TensorId();
    Diagnostic d;
    d.severity = Severity::Note;
    d.code = "zero-part";
    d.message =
        "`" + (written.empty() ? accessText(differentiated.program, term) : written) + "` adds nothing to " +
        (result.valid() ? "`" + backward[result].name + "`" : "the derivative by `" + writtenName(p[term.tensor].name) + "`") +
        ": " + term.why;
    d.span = span.valid() && span.source == notebook ? span : cut;
    if (told.emplace(d.span.begin, d.span.end, d.message).second) parts.push_back(std::move(d));
  }
  return parts;
}

}  // namespace nf
