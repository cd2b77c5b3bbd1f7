// SPDX-License-Identifier: Apache-2.0
// Numbers, declared tensors, data sets, and what is worked out around them: the batch extent, the fans of initial values.
#include "core/lang/elaborator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/lang/spelling.h"
#include "core/lang/statement.h"
#include "core/support/checked.h"

namespace nf::lang {

using namespace ast;

void Elaborator::letNames(const Ast& ast, const Stmt& s) {
  for (const Binder& b : s.binders) {
    Entity e;
    e.kind = Entity::Kind::Number;
    const std::string name(b.name);
    std::optional<Number> value;
    const bool top = m_scope->kind == Scope::Kind::Notebook;
    const auto decided = m_batchNames.find(name);
    if (top && decided != m_batchNames.end()) value = decided->second;
    else value = number(ast, b.value, "`" + name + "`");
    if (top && m_options.sets.contains(name)) m_setsUsed.insert(name);
    if (!value) {
      poison(name, b.span);
      continue;
    }
    e.number = *value;
    declare(name, b.span, std::move(e), Symbol::Kind::Extent);
  }
}

namespace {

// The name of the file that values come from, or of a bundled set.
Span fileSpan(const Ast& ast, ExprRef values) {
  const Expr& e = ast[values];
  if (e.kind == ExprKind::Name) return e.span;
  return e.kind == ExprKind::Call && !e.args.empty() && ast[e.args[0]].kind == ExprKind::String ? ast[e.args[0]].span : Span{};
}

Span columnsSpan(const Ast& ast, const Stmt& s) {
  const Span begin = ast[s.batchBegin].span;
  return s.batchEnd == kNone ? begin : cover(begin, ast[s.batchEnd].span);
}

struct Form {
  std::string_view name;
  Initializer::Kind kind;
  std::size_t numbers, optional, strings;
};
constexpr Form kForms[] = {
    {"zeros", Initializer::Kind::Zeros, 0, 0, 0},     {"normal", Initializer::Kind::Normal, 2, 0, 0},
    {"uniform", Initializer::Kind::Uniform, 2, 0, 0}, {"kaiming", Initializer::Kind::Kaiming, 0, 2, 0},
    {"xavier", Initializer::Kind::Xavier, 0, 2, 0},   {"npy", Initializer::Kind::Npy, 0, 0, 1},
    {"npz", Initializer::Kind::Npz, 0, 0, 2},         {"idx", Initializer::Kind::Idx, 0, 0, 1},
    {"csv", Initializer::Kind::Csv, 0, 0, 1},         {"safetensors", Initializer::Kind::Safetensors, 0, 0, 2},
};

}  // namespace

bool isInitializer(std::string_view name) {
  return std::any_of(std::begin(kForms), std::end(kForms), [&](const Form& f) { return f.name == name; });
}

bool Elaborator::initializer(const Ast& ast, ExprRef ref, Initializer& into, bool ofData) {
  const Expr& e = ast[ref];
  if (e.kind == ExprKind::String) {
    const std::string file(e.text);
    const auto ends = [&](std::string_view end) { return file.ends_with(end) || file.ends_with(std::string(end) + ".gz"); };
    const char* reader = ends(".csv") || ends(".tsv") || ends(".txt") ? "csv"
                         : ends(".npy")                               ? "npy"
                         : ends("ubyte") || ends(".idx")              ? "idx"
                                                                      : nullptr;
    Diagnostic& d = report("missing-reader", "a file is named together with what reads it, as in `csv(\"d.csv\")`", e.span);
    d.notes.push_back({"there are csv(\"d.csv\"), npy(\"x.npy\"), npz(\"x.npz\", \"W\"), idx(\"images.idx\")" +
                           std::string(ofData ? "; or the bundled set `digits`" : ", safetensors(\"w.st\", \"W\")"),
                       {}});
    if (reader) {
      const std::string call = std::string(reader) + "(" + std::string(m_out.sources.text(e.span)) + ")";
      d.fixes.push_back({"write `" + call + "`", e.span, call});
    }
    return false;
  }
  if (e.kind == ExprKind::Call) {
    const auto form = std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& f) { return f.name == e.text; });
    if (form == std::end(kForms)) {
      const bool function = functionNamed(e.text) || isBuiltinFunction(e.text);
      if (!function) {
        const std::string what =
            ofData ? "` reads no data: there are csv, npy, npz, idx, and the bundled set `digits`"
                   : "` is no initial value: there are normal, uniform, kaiming, xavier, zeros, npy, npz, idx, csv, "
                     "safetensors, batch";
        std::vector<std::string> names;
        for (const Form& f : kForms)
          if (!ofData || f.strings > 0) names.emplace_back(f.name);
        suggest(report("unknown-initializer", "`" + std::string(e.text) + what, e.head), e.text, names, e.head);
        return false;
      }
    } else {
      if (!e.binders.empty()) {
        report("unknown-option", "`" + std::string(e.text) + "` has no option `" + std::string(e.binders[0].name) + "`",
               e.binders[0].span);
        return false;
      }
      const std::size_t count = form->numbers + form->strings;
      if (e.args.size() != count && !(form->optional && e.args.size() == form->optional)) {
        report("wrong-arity",
               "`" + std::string(e.text) + "` takes " + std::to_string(count) + (count == 1 ? " argument" : " arguments") +
                   (e.args.size() == 1 ? ", here is " : ", here are ") + std::to_string(e.args.size()),
               e.span);
        return false;
      }
      into.kind = form->kind;
      for (std::size_t i = 0; i < e.args.size(); ++i) {
        const Expr& a = ast[e.args[i]];
        if (form->strings > 0) {
          if (a.kind != ExprKind::String) {
            report("expected-string", "`" + std::string(e.text) + "` takes a name in double quotes", a.span);
            return false;
          }
          into.strings.emplace_back(a.text);
          continue;
        }
        const auto n = number(ast, e.args[i], "an argument of `" + std::string(e.text) + "`");
        if (!n) return false;
        into.numbers.push_back(n->value());
      }
      if (form->kind == Initializer::Kind::Uniform && into.numbers[0] > into.numbers[1]) {
        report("empty-range", "`uniform` takes the lower bound first", e.span);
        return false;
      }
      if (form->kind == Initializer::Kind::Normal && into.numbers[1] < 0) {
        report("negative-deviation", "the deviation of `normal` is not negative", e.span);
        return false;
      }
      return true;
    }
  }
  const auto n = number(ast, ref, "an initial value");
  if (!n) return false;
  into.kind = n->value() == 0 && !std::signbit(n->value()) ? Initializer::Kind::Zeros : Initializer::Kind::Constant;
  if (into.kind == Initializer::Kind::Constant) into.numbers = {n->value()};
  return true;
}

bool Elaborator::fitsType(const NewTensor& wish, Span span) {
  if (wish.type != DType::I32 || wish.init.kind != Initializer::Kind::Constant) return true;
  const double value = wish.init.numbers[0];
  if (value == std::floor(value) && value >= std::numeric_limits<std::int32_t>::min() &&
      value <= std::numeric_limits<std::int32_t>::max())
    return true;
  report("bad-initial-value", "`" + std::string(m_out.sources.text(span)) + "` is no i32: whole numbers in -2147483648..2147483647",
         span);
  return false;
}

bool Elaborator::batchInitializer(const Ast& ast, const Stmt& s, const std::vector<std::int64_t>& shape, DType, Initializer& into) {
  Entity* data = resolve(s.batchData, s.batchSpan);
  if (!data || data->kind == Entity::Kind::Poison) return false;
  if (data->kind != Entity::Kind::Data) {
    report("not-data",
           "`" + std::string(s.batchData) + "` is no data set: `data " + std::string(s.batchData) + " = csv(\"...\")` makes one",
           s.batchSpan);
    return false;
  }
  into.kind = Initializer::Kind::Batch;
  into.data = s.batchData;
  const auto begin = integer(ast, s.batchBegin, "a column");
  if (!begin) return false;
  const auto end = s.batchEnd == kNone ? std::optional(*begin + 1) : integer(ast, s.batchEnd, "a column");
  if (!end) return false;
  const Span columns = columnsSpan(ast, s);
  if (*begin < 0 || *end <= *begin) {
    report("bad-columns", "columns run from 0 on and must not be empty", columns);
    return false;
  }
  into.columnBegin = *begin;
  into.columnEnd = *end;
  if (shape.empty()) {
    report("batch-shape", "a batch needs a first axis for its rows", s.targets[0].span);
    return false;
  }
  const auto each = checkedProduct(std::span(shape).subspan(1));
  if (!each || *each != *end - *begin) {
    report("batch-shape",
           "a row of `" + std::string(s.targets[0].name) + "` has " + (each ? std::to_string(*each) : "too many") +
               " elements, the columns are " + std::to_string(*end - *begin),
           columns);
    return false;
  }
  for (const auto& [op, ref] : s.batchArithmetic) {
    const auto n = number(ast, ref, "what a batch is scaled with");
    if (!n) return false;
    const double x = n->value();
    if (op == Op::Div && x == 0) {
      report("division-by-zero", "this divides by zero", ast[ref].span);
      return false;
    }
    if (op == Op::Add) into.shift += x;
    if (op == Op::Sub) into.shift -= x;
    if (op == Op::Mul || op == Op::Div) {
      const double f = op == Op::Mul ? x : 1 / x;
      into.scale *= f;
      into.shift *= f;
    }
  }
  return true;
}

void Elaborator::declaration(const Ast& ast, const Stmt& s) {
  const Target& target = s.targets[0];
  const char* word = s.declares == TensorKind::Input   ? "input"
                     : s.declares == TensorKind::Param ? "param"
                     : s.declares == TensorKind::Const ? "const"
                                                       : "state";
  if (s.declares == TensorKind::Input && m_scope->kind != Scope::Kind::Notebook) {
    report("misplaced-statement", "an `input` is declared in a cell, not inside a block", s.span);
    return;
  }
  NewTensor wish;
  wish.local = target.name;
  wish.span = target.nameSpan;
  wish.kind = s.declares;
  wish.type = target.type.value_or(DType::F32);
  wish.layout = target.layout;
  bool good = checkFree(target.name, target.nameSpan);
  for (const TargetIndex& index : target.indices) {
    const Expr& e = ast[index.expr];
    if (e.kind == ExprKind::Ellipsis) {
      // The remaining extents of the function's own `...`.
      const Entity* rest = lookup("...");
      if (!rest) {
        report("ellipsis-without-target", "`...` means the extents that a parameter `X[...]` brought: there is none here", e.span);
        good = false;
        continue;
      }
      for (const std::int64_t n : shapeOf(rest->view)) wish.shape.push_back(n);
      // What an optimizer keeps of a parameter is held as exactly.
      if (!target.type && tensorOf(rest->view.tensor).type == DType::F64) wish.type = DType::F64;
      continue;
    }
    if (index.extent != kNone || e.kind == ExprKind::Hole) {
      report("bad-extent",
             (std::string_view(word) == "input" ? "an `" : "a `") + std::string(word) + "` is declared with extents, as in `" +
                 std::string(word) + " " + std::string(target.name) + "[3, 4]`",
             e.span);
      good = false;
      continue;
    }
    const auto n = extent(ast, index.expr, "`" + std::string(target.name) + "`");
    wish.shape.push_back(n.value_or(1));
    wish.axisNames.emplace_back();
    good = good && n;
  }
  if (!s.batchData.empty()) {
    if (s.declares != TensorKind::Input) {
      report("misplaced-batch", "`batch` feeds an `input`, this is a `" + std::string(word) + "`", s.batchSpan);
      good = false;
    } else if (good) {
      good = batchInitializer(ast, s, wish.shape, wish.type, wish.init);
      wish.valuesSpan = columnsSpan(ast, s);
    }
  } else if (s.value != kNone) {
    good = initializer(ast, s.value, wish.init) && fitsType(wish, ast[s.value].span) && good;
    wish.valuesSpan = wish.init.strings.empty() ? Span{} : fileSpan(ast, s.value);
  } else if (s.declares == TensorKind::Param && m_frame == 0) {
    const Span end{target.span.source, target.span.end, target.span.end};
    Diagnostic& d = warn("no-initial-value", "`" + std::string(target.name) + "` has no initial value", target.span);
    d.fixes.push_back({"draw it at random", target.type ? Span{s.span.source, s.span.end, s.span.end} : end, " = kaiming()"});
  }
  if (!good) return;
  const TensorRef made = makeTensor(std::move(wish));
  if (!made.valid()) return;
  Entity e;
  e.kind = Entity::Kind::Tensor;
  e.view = wholeView(made);
  const Symbol::Kind kind = s.declares == TensorKind::Input   ? Symbol::Kind::Input
                            : s.declares == TensorKind::Param ? Symbol::Kind::Param
                            : s.declares == TensorKind::Const ? Symbol::Kind::Const
                                                              : Symbol::Kind::State;
  declare(target.name, target.nameSpan, std::move(e), kind);
}

void Elaborator::dataSet(const Ast& ast, const Stmt& s) {
  if (m_scope->kind != Scope::Kind::Notebook) {
    report("misplaced-statement", "a data set is named in a cell, not inside a block", s.span);
    return;
  }
  if (!checkFree(s.name, s.nameSpan)) return;
  DataSet set;
  set.name = s.name;
  set.directory = m_out.sources.at(m_out.notebook).directory;
  set.origin = origin(s.nameSpan);
  if (s.bundled) {
    const Expr& e = ast[s.value];
    if (e.text != "digits") {
      suggest(report("unknown-data", "`" + std::string(e.text) + "` is no bundled data set: there is `digits`", e.span), e.text,
              {"digits"}, e.span);
      return;
    }
    set.source.strings = {std::string(e.text)};
    set.heldOutLast = 360;
  } else {
    if (!initializer(ast, s.value, set.source, true)) return;
    const bool file = set.source.kind == Initializer::Kind::Csv || set.source.kind == Initializer::Kind::Npy ||
                      set.source.kind == Initializer::Kind::Npz || set.source.kind == Initializer::Kind::Idx;
    if (!file) {
      report("not-data", "a data set comes from csv, npy, npz, idx, or is a bundled one", ast[s.value].span);
      return;
    }
  }
  set.source.origin = origin(fileSpan(ast, s.value));
  for (const Binder& b : s.binders) {
    const Expr& e = ast[b.value];
    if (b.name != "split") {
      report("unknown-attribute", "a data set has no attribute `" + std::string(b.name) + "`: there is `split = last N`", b.span);
      continue;
    }
    if (e.kind != ExprKind::Call || e.text != "last" || e.args.size() != 1) {
      report("bad-attribute", "`split` takes `last N`", e.span);
      continue;
    }
    const auto n = integer(ast, e.args[0], "the number of rows held out");
    if (n && *n < 0) report("bad-attribute", "the number of rows held out is not negative", e.span);
    else if (n) set.heldOutLast = *n;
    if (n && *n == 0)
      warn("nothing-held-out", "`split = last 0` holds no row out: all are for training, none is left to evaluate on", e.span);
  }
  m_out.program.data.push_back(std::move(set));
  Entity e;
  e.kind = Entity::Kind::Data;
  declare(s.name, s.nameSpan, std::move(e), Symbol::Kind::Data);
}

// ---------------------------------------------------------------- batches and fans

// The batch extent is decided by the caller, by --set, by `train`, by its `let`, in this order.
void Elaborator::prepareBatch(const Ast& ast) {
  for (const auto& [name, text] : m_options.sets) {
    char* end = nullptr;
    const std::int64_t i = std::strtoll(text.c_str(), &end, 10);
    if (!text.empty() && *end == '\0') {
      m_batchNames[name] = Number::of(i);
      continue;
    }
    const double r = std::strtod(text.c_str(), &end);
    if (!text.empty() && *end == '\0') {
      m_batchNames[name] = Number::of(r);
      continue;
    }
    report("bad-set", "--set " + name + "=" + text + ": the value is no number", {});
  }
  std::unordered_set<std::string> extents, lets;
  std::vector<const Expr*> batches;  // by `train` statement; null: it has none
  for (const Cell& cell : ast.cells)
    for (const StmtRef ref : cell.statements) {
      const Stmt& s = ast.stmts[ref];
      if (s.kind == StmtKind::Let)
        for (const Binder& b : s.binders) lets.insert(std::string(b.name));
      if (s.kind == StmtKind::Declare && !s.batchData.empty() && !s.targets[0].indices.empty()) {
        const Expr& first = ast[s.targets[0].indices[0].expr];
        if (first.kind == ExprKind::Name) {
          extents.insert(std::string(first.text));
          m_batchesOfTrains.insert(std::string(s.targets[0].name));
        }
      }
      if (s.kind == StmtKind::Train) {
        batches.push_back(nullptr);
        for (const Binder& b : s.binders)
          if (b.name == "batch" && b.value != kNone) batches.back() = &ast[b.value];
      }
    }
  // Each has its own. One that says nothing has that of the `let`; where there is none either, the first that is said.
  const Expr* batch = m_options.train < batches.size() ? batches[m_options.train] : nullptr;
  const bool named = std::ranges::all_of(extents, [&](const std::string& name) { return lets.contains(name); });
  if (const auto said = std::ranges::find_if(batches, [](const Expr* e) { return e != nullptr; });
      !batch && !named && said != batches.end())
    batch = *said;
  std::optional<std::int64_t> decided;
  if (m_options.batchOverride > 0) decided = m_options.batchOverride;
  else if (batch && batch->kind == ExprKind::Number && batch->isInteger && batch->integer > 0) decided = batch->integer;
  if (!decided) {
    // Its own mistake is told where it stands; what it would have named is no second one.
    if (batch && batch->kind == ExprKind::Number && batch->isInteger)
      for (const std::string& name : extents)
        if (!lets.contains(name)) m_global.names.emplace(name, Entity{});
    return;
  }
  for (const std::string& name : extents) {
    const bool set = m_options.batchOverride <= 0 && m_batchNames.contains(name);
    if (!set) m_batchNames[name] = Number::of(*decided);
    if (lets.contains(name)) continue;
    m_setsUsed.insert(name);
    Entity e;  // `batch = 64` alone names it
    e.kind = Entity::Kind::Number;
    e.number = m_batchNames[name];
    e.definition = batch ? batch->span : Span{};
    m_global.names.emplace(name, std::move(e));
  }
}

namespace {

// Per tensor of `outer`: extents of the reduction and output axes that index it in its first reader.
void collectFans(const Program& p, const std::function<std::vector<double>*(TensorId)>& fansOf) {
  for (const Operator& op : p.operators) {
    if (op.kind == OperatorKind::Loop) {
      const Loop& loop = p[op.loop];
      std::unordered_map<std::uint32_t, TensorId> outer;
      for (const auto& invariant : loop.invariants) outer.emplace(invariant.inner.value, invariant.outer);
      collectFans(*loop.body, [&](TensorId inner) -> std::vector<double>* {
        const auto found = outer.find(inner.value);
        return found == outer.end() ? nullptr : fansOf(found->second);
      });
      continue;
    }
    for (const ExprId e : nodesOf(p, op.body)) {
      const ScalarNode& node = p[e];
      if (node.op != ScalarOp::Load) continue;
      std::vector<double>* fans = fansOf(p[node.access].tensor);
      if (!fans || !fans->empty()) continue;
      std::vector<IndexVar> variables;
      for (const AccessIndex& index : p[node.access].indices)
        if (!index.isData()) index.affine.collectVariables(variables);
      *fans = {1, 1};
      for (std::size_t a = 0; a < op.axes.size(); ++a)
        if (std::find(variables.begin(), variables.end(), a) != variables.end())
          (*fans)[a < op.outputRank ? 1 : 0] *= static_cast<double>(op.axes[a].extent);
    }
  }
}

}  // namespace

std::vector<std::string> Elaborator::extentTexts(std::string_view name, const Tensor& tensor) const {
  std::vector<std::string> texts;
  for (const std::int64_t extent : tensor.shape) texts.push_back(std::to_string(extent));
  for (const Cell& cell : m_notebook->cells)
    for (const StmtRef ref : cell.statements) {
      const Stmt& s = m_notebook->stmts[ref];
      if (s.kind != StmtKind::Declare || s.targets.size() != 1 || s.targets[0].name != name) continue;
      for (std::size_t k = 0; k < texts.size() && k < s.targets[0].indices.size(); ++k)
        if (const ExprRef e = s.targets[0].indices[k].expr; e != kNone && (*m_notebook)[e].kind == ExprKind::Name)
          texts[k] = (*m_notebook)[e].text;
    }
  return texts;
}

void Elaborator::finishKaiming() {
  Program& p = m_out.program;
  std::unordered_map<std::uint32_t, std::vector<double>> fans;
  for (std::size_t i = 0; i < p.tensors.size(); ++i) {
    const Initializer& init = p.tensors[i].init;
    const bool fan = init.kind == Initializer::Kind::Kaiming || init.kind == Initializer::Kind::Xavier;
    if (fan && init.numbers.empty()) fans.emplace(static_cast<std::uint32_t>(i), std::vector<double>());
  }
  if (fans.empty()) return;
  collectFans(p, [&](TensorId t) -> std::vector<double>* {
    const auto found = fans.find(t.value);
    return found == fans.end() ? nullptr : &found->second;
  });
  for (auto& [tensor, found] : fans) {
    if (found.empty()) {  // nobody reads it: as a matrix of its first axis by the others
      found = {1, 1};
      for (std::size_t k = 0; k < p.tensors[tensor].shape.size(); ++k)
        found[k == 0 ? 1 : 0] *= static_cast<double>(p.tensors[tensor].shape[k]);
    }
    p.tensors[tensor].init.numbers = found;
  }
}

}  // namespace nf::lang
