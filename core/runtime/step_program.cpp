// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/step_program.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "core/ir/rewrite.h"
#include "core/ir/structural_hash.h"
#include "core/runtime/evaluation_check.h"
#include "core/runtime/execution_plan.h"
#include "core/runtime/prepared.h"
#include "core/support/unique_names.h"
#include "core/transform/merge_equal_operators.h"

namespace nf {
namespace {

TensorId lossOf(const CompiledNotebook& notebook, std::size_t train) {
  const std::string loss = train < notebook.trains.size() ? notebook.trains[train].loss : std::string();
  for (const Output& o : notebook.program.outputs)
    if (o.role == OutputRole::Loss && (loss.empty() || o.name == loss)) return o.tensor;
  return notebook.program.tensorNamed(loss);
}

// Does the program make the tensor, or will it where it is derived? Of names that a derivation gives: d(L)/d(Y), d(L)/d(Y)#1.
class Makes {
 public:
  explicit Makes(const Program& program) : m_program(program), m_producers(producers(program)) {}

  bool operator()(const std::string& name) const {
    const std::string whole(m_program.tensorNamed(name).valid() ? name : withoutNumber(name));
    if (const TensorId t = m_program.tensorNamed(whole); t.valid())
      if (m_producers[t.value].valid() || isResult(t)) return true;
    const std::size_t middle = whole.find(")/d(");
    if (!whole.starts_with("d(") || middle == std::string::npos || !whole.ends_with(')')) return false;
    const TensorId of = m_program.tensorNamed(whole.substr(2, middle - 2));
    const TensorId wrt = m_program.tensorNamed(whole.substr(middle + 4, whole.size() - middle - 5));
    return of.valid() && wrt.valid() && passesThrough(of, wrt);
  }

 private:
  bool isResult(TensorId t) const {
    return std::any_of(m_program.derivatives.begin(), m_program.derivatives.end(),
                       [t](const Derivative& d) { return d.result == t; });
  }
  // A gradient of `of` is asked for that goes back through `through`.
  bool passesThrough(TensorId of, TensorId through) const {
    std::vector<bool> reached(m_program.tensors.size(), false);
    for (const Derivative& d : m_program.derivatives)
      if (d.of == of) reached[d.wrt.value] = true;
    for (std::size_t o = 0; o < m_program.operators.size(); ++o) {
      const auto reads = readsOf(m_program, OperatorId(o));
      if (std::none_of(reads.begin(), reads.end(), [&](TensorId t) { return reached[t.value]; })) continue;
      for (const TensorId t : writesOf(m_program, OperatorId(o)))
        if (t.valid()) reached[t.value] = true;
    }
    return reached[through.value];
  }

  const Program& m_program;
  std::vector<OperatorId> m_producers;
};

// The data sets whose rows the program reads, each once.
std::vector<std::string> setsReadBy(const Program& p) {
  std::vector<std::string> sets;
  for (std::size_t o = 0; o < p.operators.size(); ++o)
    for (const TensorId t : readsOf(p, OperatorId(o)))
      if (p[t].init.kind == Initializer::Kind::Batch && std::find(sets.begin(), sets.end(), p[t].init.data) == sets.end())
        sets.push_back(p[t].init.data);
  return sets;
}

// What the outputs need, and no rows that none of it reads: those of another job's data, which need not be there.
Program jobOf(const Program& whole, const std::vector<TensorId>& outputs, bool updates) {
  Program p = restrictedTo(whole, outputs, updates);
  std::vector<bool> read(p.tensors.size(), false);
  for (std::size_t o = 0; o < p.operators.size(); ++o)
    for (const TensorId t : readsOf(p, OperatorId(o))) read[t.value] = true;
  const std::size_t count = p.outputs.size();
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (read[t] || p.tensors[t].init.kind != Initializer::Kind::Batch) p.outputs.push_back({{}, TensorId(t), OutputRole::Named});
  dropUnusedTensors(p, 0);
  p.outputs.resize(count);
  return p;
}

}  // namespace

bool readsRows(const Program& program, TensorId tensor) {
  std::vector<bool> needed(program.tensors.size(), false);
  std::vector<TensorId> open;
  const auto need = [&](TensorId t) {
    if (!t.valid() || needed[t.value]) return;
    needed[t.value] = true;
    open.push_back(t);
  };
  const std::vector<OperatorId> made = producers(program);
  for (need(tensor); !open.empty();) {
    const TensorId t = open.back();
    open.pop_back();
    if (program[t].init.kind == Initializer::Kind::Batch) return true;
    if (made[t.value].valid())
      for (const TensorId read : readsOf(program, made[t.value])) need(read);
    for (const Derivative& d : program.derivatives)
      if (d.result == t) need(d.of), need(d.wrt), need(d.seed);
  }
  return false;
}

Program trainingProgram(const CompiledNotebook& notebook, std::size_t train) {
  const TensorId loss = lossOf(notebook, train);
  return jobOf(notebook.program, loss.valid() ? std::vector{loss} : std::vector<TensorId>{}, true);
}

TrainPlace trainPlace(const CompiledNotebook& notebook, std::size_t train) {
  TrainPlace place{notebook.trains[train].loss, 1, structuralHash(trainingProgram(notebook, train)).hex(), {}};
  for (std::size_t i = 0; i < notebook.trains.size(); ++i) {
    place.losses.push_back(notebook.trains[i].loss);
    place.ofLoss += i < train && notebook.trains[i].loss == place.loss;
  }
  return place;
}

Program evaluationProgram(const CompiledNotebook& evaluation, const std::string& loss) {
  const Program& whole = evaluation.program;
  std::vector<TensorId> wanted;
  for (const Output& o : whole.outputs) {
    if (o.role != OutputRole::Eval && (o.role != OutputRole::Loss || o.name != loss)) continue;
    const std::vector<std::string> sets = setsReadBy(restrictedTo(whole, {o.tensor}, false));
    if (o.role == OutputRole::Loss && sets.empty()) continue;  // no row of it is held out
    const bool rows = std::none_of(whole.data.begin(), whole.data.end(), [&](const DataSet& d) {
      return d.heldOutLast == 0 && std::find(sets.begin(), sets.end(), d.name) != sets.end();
    });
    if (rows) wanted.push_back(o.tensor);
  }
  Program p = jobOf(whole, wanted, false);
  std::erase_if(p.outputs, [](const Output& o) { return o.role != OutputRole::Eval && o.role != OutputRole::Loss; });
  return p;
}

Program inputEvaluationProgram(const CompiledNotebook& evaluation) {
  const Program& whole = evaluation.program;
  std::vector<TensorId> wanted;
  for (const Output& o : whole.outputs)
    if (o.role == OutputRole::Eval && (whole.data.empty() || setsReadBy(restrictedTo(whole, {o.tensor}, false)).empty()))
      wanted.push_back(o.tensor);
  Program p = jobOf(whole, wanted, false);
  std::erase_if(p.outputs, [](const Output& o) { return o.role != OutputRole::Eval; });
  return p;
}

Program notebookProgram(const CompiledNotebook& notebook) {
  Program p = notebook.program;
  if (!p.outputs.empty()) return p;
  std::unordered_set<TensorId> read;
  for (std::size_t i = 0; i < p.operators.size(); ++i)
    for (const TensorId t : readsOf(p, OperatorId(i))) read.insert(t);
  for (std::size_t i = 0; i < p.operators.size(); ++i)
    for (const TensorId t : writesOf(p, OperatorId(i)))
      if (t.valid() && read.insert(t).second) p.outputs.push_back({p[t].name, t, OutputRole::Show});
  return p;
}

Program decidedProgram(const CompiledNotebook& notebook, std::size_t train) {
  return notebook.trains.empty() ? notebookProgram(notebook) : trainingProgram(notebook, train);
}

StagePrograms programsAt(Stage stage, const Stages& decided, const Stages& whole) {
  // Fusion may compute an operator where it is read, under another name: what is outside was so before.
  const Stage compared = std::min(stage, Stage::Partitioned);
  StagePrograms programs{decided.at(stage), whole.at(compared), {}};
  const Program* step = decided.at(compared);
  if (!step || !programs.whole || step == programs.whole) return programs;
  std::unordered_set<std::string_view> made;
  for (std::size_t i = 0; i < step->operators.size(); ++i)
    for (const TensorId t : writesOf(*step, OperatorId(i)))
      if (t.valid()) made.insert((*step)[t].name);
  for (std::size_t i = 0; i < programs.whole->operators.size(); ++i) {
    const auto written = writesOf(*programs.whole, OperatorId(i));
    if (std::none_of(written.begin(), written.end(),
                     [&](TensorId t) { return t.valid() && made.contains((*programs.whole)[t].name); }))
      programs.outside.push_back(OperatorId(i));
  }
  return programs;
}

Result<NotebookStages> notebookStages(const CompiledNotebook& notebook, const Program& decided, const StageOptions& options) {
  NotebookStages stages;
  NF_TRY(Stages fused, runStages(std::make_shared<const Program>(decided), options));
  stages.decided = stages.whole = std::make_shared<const Stages>(std::move(fused));
  if (notebook.trains.empty()) return stages;
  NF_TRY(Stages whole, runStages(std::make_shared<const Program>(notebook.program), options, Stage::Partitioned));
  stages.whole = std::make_shared<const Stages>(std::move(whole));
  return stages;
}

Diagnostics hintsOutsideStep(const CompiledNotebook& notebook) {
  Diagnostics diagnostics;
  const Program& whole = notebook.program;
  if (notebook.trains.empty() || whole.hints.empty()) return diagnostics;
  // A step and its evaluations: hints hold for both.
  std::vector<Program> programs, evaluations;
  for (std::size_t train = 0; train < notebook.trains.size(); ++train) {
    std::vector<TensorId> wanted;
    if (const TensorId loss = lossOf(notebook, train); loss.valid()) wanted.push_back(loss);
    programs.push_back(restrictedTo(whole, wanted, true));
    for (const Output& o : whole.outputs)
      if (o.role == OutputRole::Eval) wanted.push_back(o.tensor);
    evaluations.push_back(restrictedTo(whole, wanted, true));
  }
  const std::vector<Makes> steps(programs.begin(), programs.end()), evaluated(evaluations.begin(), evaluations.end());
  const auto madeIn = [](const std::vector<Makes>& all, const std::string& name) {
    return std::ranges::any_of(all, [&](const Makes& made) { return made(name); });
  };
  const Makes makes(whole);
  std::optional<std::map<std::string, std::set<std::string>>> equal;  // by the one of them that passes keep
  const auto twinOf = [&](const std::string& name) -> std::string {
    MergedNames merged;
    if (!equal && mergeEqualOperators(whole, &merged)) {
      equal.emplace();
      for (const auto& [gone, kept] : merged) (*equal)[kept].insert({gone, kept});
    }
    if (equal)
      for (const auto& [kept, all] : *equal)
        if (all.contains(name))
          for (const std::string& other : all)
            if (madeIn(steps, other)) return other;
    return {};
  };
  for (const Hint& hint : whole.hints)
    for (const std::string& name : hint.tensors) {
      if (!makes(name) || madeIn(steps, name)) continue;
      const bool inEvaluation = madeIn(evaluated, name);
      const std::string twin = twinOf(name);
      // Evaluations obey it: that is what it may be meant for.
      if (inEvaluation && twin.empty()) continue;
      Diagnostic d;
      d.severity = Severity::Warning;
      d.code = "hint-outside-step";
      d.message = std::string("only ") + (inEvaluation ? "an `eval`" : "a `show`") + " needs `" + name +
                  "`: no training step makes it, and the hint changes nothing there";
      if (!twin.empty()) d.notes.push_back({"what a step makes is `" + twin + "`, which is equal: name that", {}});
      if (hint.origin.valid()) d.span = whole[hint.origin].span;
      diagnostics.push_back(std::move(d));
      break;
    }
  return diagnostics;
}

Diagnostics evalsWithoutRows(const CompiledNotebook& notebook) {
  Diagnostics diagnostics;
  const Program& whole = notebook.program;
  // `split = last 0` has been told at its place.
  const bool told = std::any_of(notebook.diagnostics.begin(), notebook.diagnostics.end(),
                                [](const Diagnostic& d) { return d.code == "nothing-held-out"; });
  if (notebook.trains.empty() || told || whole.data.empty()) return diagnostics;
  std::vector<std::string> readers(whole.data.size());
  for (const Output& o : whole.outputs) {
    if (o.role != OutputRole::Eval) continue;
    for (const std::string& set : setsReadBy(restrictedTo(whole, {o.tensor}, false)))
      for (std::size_t d = 0; d < whole.data.size(); ++d)
        if (whole.data[d].name == set) readers[d] += (readers[d].empty() ? "`" : ", `") + o.name + "`";
  }
  const DataSet* least = nullptr;
  for (std::size_t i = 0; i < readers.size(); ++i)
    if (!readers[i].empty() && whole.data[i].heldOutLast > 0 && (!least || whole.data[i].heldOutLast < least->heldOutLast))
      least = &whole.data[i];
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (readers[i].empty() || whole.data[i].heldOutLast > 0) {
      const DataSet& most = whole.data[i];
      if (readers[i].empty() || !least || most.heldOutLast <= least->heldOutLast) continue;
      Diagnostic d;
      d.severity = Severity::Warning;
      d.code = "held-out-rows-differ";
      d.message = "`" + most.name + "` holds out " + std::to_string(most.heldOutLast) + " rows and `" + least->name + "` " +
                  std::to_string(least->heldOutLast) + ": each `eval` is of the first " + std::to_string(least->heldOutLast) +
                  " of them";
      if (most.origin.valid()) d.span = whole[most.origin].span;
      diagnostics.push_back(std::move(d));
      continue;
    }
    Diagnostic d;
    d.severity = Severity::Warning;
    d.code = "nothing-held-out";
    d.message = "no row of `" + whole.data[i].name + "` is held out: nothing computes `eval` " + readers[i];
    if (whole.data[i].origin.valid()) d.span = whole[whole.data[i].origin].span;
    d.notes.push_back({"as in `data D = csv(\"d.csv\") { split = last 100 }`", {}});
    diagnostics.push_back(std::move(d));
  }
  return diagnostics;
}

Diagnostics evalsOfSteps(const CompiledNotebook& notebook, const CompileOptions& options) {
  const Program& whole = notebook.program;
  std::vector<Output> suspects;
  for (const Output& o : whole.outputs) {
    if (o.role != OutputRole::Eval || notebook.trains.empty()) continue;
    const Program needed = restrictedTo(whole, {o.tensor}, false);
    const bool ofStep = std::ranges::any_of(needed.operators, [](const Operator& op) { return op.phase == Phase::Optimizer; });
    if (ofStep || !needed.derivatives.empty()) suspects.push_back(o);
  }
  if (suspects.empty()) return {};
  CompileOptions evaluated = options;
  evaluated.training = false;
  const CompiledNotebook evaluation = compileNotebook(notebook.sources.at(notebook.notebook), evaluated);
  if (!evaluation.ok() || evaluation.ofOtherSteps.empty()) return {};
  Diagnostics diagnostics;
  for (const Output& suspect : suspects) {
    const auto& there = evaluation.program.outputs;
    if (std::ranges::any_of(there, [&](const Output& o) { return o.role == OutputRole::Eval && o.name == suspect.name; })) continue;
    Diagnostic d;
    d.severity = Severity::Warning;
    d.code = "eval-of-a-step";
    d.message = "`" + suspect.name + "` reads what only a training step makes, as `" + evaluation.ofOtherSteps.front().name +
                "`: an evaluation makes no step, and leaves it out";
    d.span = placeOf(whole, suspect.tensor);
    diagnostics.push_back(std::move(d));
  }
  return diagnostics;
}

Diagnostics trainingWarnings(const CompiledNotebook& notebook, const CompileOptions& options) {
  Diagnostics diagnostics = hintsOutsideStep(notebook);
  for (const Diagnostics& more : {evalsWithoutRows(notebook), evalsOfSteps(notebook, options), valuesOfBatches(notebook, options)})
    diagnostics.insert(diagnostics.end(), more.begin(), more.end());
  return diagnostics;
}

}  // namespace nf
