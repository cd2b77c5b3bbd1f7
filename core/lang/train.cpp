// SPDX-License-Identifier: Apache-2.0
// `train L { ... }`: settings, derivatives of the loss, clipping and the optimizer, expanded once a parameter.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/lang/elaborator.h"
#include "core/lang/spelling.h"
#include "core/lang/statement.h"

namespace nf::lang {

using namespace ast;

namespace {

constexpr std::array<std::string_view, 10> kAttributes{"batch",     "clip", "device", "epochs", "mode",
                                                       "optimizer", "seed", "steps",  "wrt",    "optimiser"};

// The call of an optimizer that gives no option of its own: "sgd(lr=0.01, momentum=0)".
std::string withDefaults(const Function& f, const SourceMap& sources) {
  std::string text;
  for (std::size_t i = 0; i < f.def->optionCount; ++i) {
    const Binder& b = f.def->binders[i];
    if (b.value != kNone)
      text += (text.empty() ? "" : ", ") + std::string(b.name) + "=" + std::string(sources.text((*f.ast)[b.value].span));
  }
  return std::string(f.def->name) + "(" + text + ")";
}

// Tensors that `loss` is made of: those that an operator on the way to it reads, and what a derivative on the way is of.
std::vector<bool> reaches(const Program& p, TensorId loss) {
  std::vector<bool> needed(p.tensors.size(), false);
  const std::vector<OperatorId> made = producers(p);
  std::unordered_map<std::uint32_t, const Derivative*> derivatives;
  for (const Derivative& d : p.derivatives) derivatives.emplace(d.result.value, &d);
  std::vector<TensorId> stack{loss};
  while (!stack.empty()) {
    const TensorId t = stack.back();
    stack.pop_back();
    if (!t.valid() || needed[t.value]) continue;
    needed[t.value] = true;
    if (const OperatorId maker = made[t.value]; maker.valid())
      for (const TensorId read : readsOf(p, maker)) stack.push_back(read);
    if (const auto d = derivatives.find(t.value); d != derivatives.end())
      stack.insert(stack.end(), {d->second->of, d->second->seed});
  }
  return needed;
}

}  // namespace

void Elaborator::train(const Ast& ast, const Stmt& s) {
  if (m_scope->kind != Scope::Kind::Notebook) {
    report("misplaced-statement", "`train` stands in a cell, not inside a block", s.span);
    return;
  }
  Entity* loss = resolve(s.name, s.nameSpan);
  const bool known = loss && loss->kind != Entity::Kind::Poison;
  const bool scalar = known && loss->kind == Entity::Kind::Tensor && loss->view.fixed.empty() &&
                      tensorOf(loss->view.tensor).shape.empty() && isFloating(typeOf(loss->view));
  if (known && !scalar) {
    // What `loss` has refused is told there.
    if (m_noLosses.contains(std::string(s.name))) m_poisonMet = s.name;
    else report("not-scalar", "`train` takes a loss: one real number", s.nameSpan);
  }
  const TensorId lossId = scalar ? loss->view.tensor.id : TensorId();
  TrainSettings settings;
  if (scalar) settings.loss = program()[lossId].name;
  settings.span = s.span;
  const Expr* optimizer = nullptr;
  Span batchSpan;
  std::vector<std::pair<std::string, Span>> wrt;
  bool all = true, given[kAttributes.size()] = {};
  for (const Binder& b : s.binders) {
    const Expr& e = ast[b.value];
    const auto attribute = std::find(kAttributes.begin(), kAttributes.end(), b.name);
    if (attribute == kAttributes.end()) {
      Diagnostic& d = report("unknown-attribute", "`train` has no attribute `" + std::string(b.name) + "`", b.span);
      d.notes.push_back({"there are batch, clip, device, epochs, mode, optimizer, seed, steps, wrt", {}});
      if (b.name == "lr" || b.name == "learning_rate" || b.name == "momentum" || b.name == "weight_decay")
        d.notes.push_back({"an optimizer has options of its own: `optimizer = sgd(lr=0.1, momentum=0.9)`, `adam(lr=1e-3)`", {}});
      suggest(d, b.name, {kAttributes.begin(), kAttributes.end() - 1}, b.span);
      continue;
    }
    bool& twice = given[attribute - kAttributes.begin()];
    if (twice) report("redefinition", "`" + std::string(b.name) + "` is given twice", b.span);
    twice = true;
    const auto positive = [&](std::int64_t& into, std::int64_t least) {
      const auto n = integer(ast, b.value, "`" + std::string(b.name) + "`");
      if (n && *n < least) report("bad-attribute", "`" + std::string(b.name) + "` is at least " + std::to_string(least), e.span);
      else if (n) into = *n;
    };
    const auto word = [&](std::string& into, std::initializer_list<std::string_view> allowed) {
      const bool plain = e.kind == ExprKind::Name || e.kind == ExprKind::String;
      if (plain && (allowed.size() == 0 || std::find(allowed.begin(), allowed.end(), e.text) != allowed.end())) {
        into = e.text;
        return;
      }
      std::string list;
      for (const std::string_view a : allowed) list += (list.empty() ? "" : ", ") + std::string(a);
      Diagnostic& d =
          report("bad-attribute", "`" + std::string(b.name) + "` takes " + (list.empty() ? "a name" : "one of " + list), e.span);
      if (plain) suggest(d, e.text, {allowed.begin(), allowed.end()}, e.span);
    };
    const auto deviceName = [&](const Expr& value, std::string& into) {
      const std::string_view name = value.text, backend = name.substr(0, name.find(':'));
      const std::string_view number = name.substr(std::min(name.size(), backend.size() + 1));
      const bool plain = value.kind == ExprKind::Name || value.kind == ExprKind::String;
      const bool one = name == backend && (name == "auto" || name == "reference" || name == "cpu" || name == "cuda");
      const bool numbered = backend == "cuda" && !number.empty() && number.size() <= 4 &&
                            std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (plain && (one || numbered)) into = name;
      else
        report("bad-attribute", "`device` takes one of auto, reference, cpu, cuda, or a numbered one as in \"cuda:1\"", value.span);
    };
    if (b.name == "epochs") positive(settings.epochs, 1);
    else if (b.name == "steps") positive(settings.steps, 1);
    else if (b.name == "batch") {
      positive(settings.batch, 1);
      batchSpan = b.span;
    } else if (b.name == "mode") word(settings.mode, {"dynamic", "static"});
    else if (b.name == "device") deviceName(e, settings.device);
    else if (b.name == "seed") {
      std::int64_t seed = 1;
      positive(seed, 0);
      settings.seed = static_cast<std::uint64_t>(seed);
    } else if (b.name == "clip") {
      if (e.kind == ExprKind::Name && e.text == "none") continue;
      const auto n = number(ast, b.value, "`clip`");
      if (n && !(n->value() > 0)) report("bad-attribute", "`clip` is a positive number or none", e.span);
      else if (n) settings.clip = n->value();
    } else if (b.name == "optimizer" || b.name == "optimiser") {
      if (e.kind != ExprKind::Call && e.kind != ExprKind::Name) {
        report("bad-attribute", "`optimizer` takes a function, as in `adam(lr=1e-3)`", e.span);
        continue;
      }
      optimizer = &e;
      settings.optimizer = std::string(m_out.sources.text(e.span));
    } else if (b.name == "wrt") {
      if (e.kind == ExprKind::Name && e.text == "all") continue;
      if (e.kind != ExprKind::Name && e.kind != ExprKind::Call) {
        report("bad-attribute", "`wrt` takes all, a parameter, or tensors(W, U)", e.span);
        continue;
      }
      all = false;
      std::vector<const Expr*> names;
      if (e.kind == ExprKind::Name) names.push_back(&e);
      else
        for (const ExprRef a : e.args) names.push_back(&ast[a]);
      for (const Expr* n : names) {
        Entity* p = n->kind == ExprKind::Name ? resolve(n->text, n->span) : nullptr;
        if (!p || p->kind == Entity::Kind::Poison) continue;
        if (p->kind != Entity::Kind::Tensor || tensorOf(p->view.tensor).kind != TensorKind::Param) {
          report("bad-attribute", "`wrt` names parameters, `" + std::string(n->text) + "` is none", n->span);
          continue;
        }
        const std::string& name = tensorOf(p->view.tensor).name;
        if (std::ranges::find(wrt, name, &std::pair<std::string, Span>::first) != wrt.end()) {
          report("bad-attribute", "`wrt` names `" + name + "` twice", n->span);
          continue;
        }
        wrt.emplace_back(name, n->span);
      }
    }
  }
  if (settings.epochs > 0 && settings.steps > 0) report("bad-attribute", "`epochs` and `steps` exclude each other", s.span);
  if (!scalar) {  // its own mistakes are told all the same
    optimizerNamed(optimizer, s);
    return;
  }
  if (settings.epochs == 0 && settings.steps == 0) settings.epochs = 1;
  if (settings.epochs > 0 && m_out.program.data.empty()) {
    if (given[3]) report("bad-attribute", "`epochs` needs a data set: without one write `steps = N`", s.span);
    settings.epochs = 0;
    settings.steps = given[7] ? settings.steps : 100;
  }
  bool batches = false;
  for (const auto& t : m_out.program.tensors)
    if (t.init.kind == Initializer::Kind::Batch && !t.shape.empty()) {
      batches = true;
      // Of another one the extent is not this program's.
      if (settings.batch != 0 && m_out.trains.size() != m_options.train && m_batchesOfTrains.contains(t.name)) continue;
      if (settings.batch != 0 && t.shape[0] != settings.batch && m_options.batchOverride <= 0 && m_options.sets.empty())
        report(
            "shape-mismatch",
            "`batch` is " + std::to_string(settings.batch) + ", input `" + t.name + "` has " + std::to_string(t.shape[0]) + " rows",
            s.span);
      settings.batch = t.shape[0];
    }
  if (batchSpan.valid() && !batches)
    warn("unused-attribute", "`batch` changes nothing here: no input takes a batch", batchSpan)
        .notes.push_back({"`input X[B, ...] = batch D[:, 0..4]` takes rows of a data set", {}});
  if (!optimizer)
    if (const Function* f = functionNamed("sgd")) settings.optimizer = withDefaults(*f, m_out.sources);
  m_out.trains.push_back(settings);
  // What is trained is a loss, whether the word `loss` stands before it or not.
  auto& outputs = m_out.program.outputs;
  if (std::none_of(outputs.begin(), outputs.end(),
                   [&](const Output& o) { return o.role == OutputRole::Loss && o.tensor == lossId; }))
    outputs.push_back({settings.loss, lossId, OutputRole::Loss});
  const auto expansion = [&] { optimize(ast, s, lossId, optimizer, all, wrt, settings); };
  m_inTrain = true;
  if (m_options.training && m_out.trains.size() - 1 == m_options.train) {
    const std::size_t before = m_out.program.updates.size();
    expansion();
    for (std::size_t i = before; i < m_out.program.updates.size(); ++i) m_trained.insert(m_out.program.updates[i].target.value);
  } else {
    rehearse(expansion);
  }
  m_inTrain = false;
}

// The optimizer of another job, or an update where evaluation makes none: expanded for its mistakes and its names alone, then forgotten.
void Elaborator::rehearse(const std::function<void()>& expansion) {
  Program program = m_out.program;
  Context context = *m_contexts[0];
  Scope global = m_global;
  auto fullNames = m_fullNames;
  auto prefixes = m_prefixes;
  auto scalars = m_scalars;
  const std::int64_t streams = m_randomStreams;
  const std::size_t extents = m_out.extents.size();
  std::erase_if(m_out.program.updates, [&](const Update& u) { return m_trained.contains(u.target.value); });
  const std::size_t updates = m_out.program.updates.size();
  expansion();
  for (std::size_t i = updates; i < m_out.program.updates.size(); ++i)
    if (m_out.program.updates[i].target.value < program.tensors.size()) m_trained.insert(m_out.program.updates[i].target.value);
  for (const auto& [name, tensor] : m_fullNames)
    if (!fullNames.contains(name)) m_elsewhere.insert(name);
  m_out.program = std::move(program);
  *m_contexts[0] = std::move(context);
  m_global = std::move(global);
  m_fullNames = std::move(fullNames);
  m_prefixes = std::move(prefixes);
  m_scalars = std::move(scalars);
  m_randomStreams = streams;
  m_out.extents.resize(extents);
  std::erase_if(m_out.references, [&](const TensorReference& r) {
    return r.loops.empty() ? r.tensor.value >= m_out.program.tensors.size() : r.loops[0].value >= m_out.program.loops.size();
  });
}

// The function that `optimizer = f(..)` names, sgd where nothing does; null where there is none, which is told.
const Function* Elaborator::optimizerNamed(const Expr* optimizer, const Stmt& s) {
  const std::string name = optimizer ? std::string(optimizer->text) : "sgd";
  const auto is = [](const Function& f) {
    return f.def->value == kNone && f.def->parameters.size() >= 2 && f.def->parameters.size() <= 3;
  };
  // Those that give their first parameter its next value; a function that is called alone may do it for them.
  const auto updates = [](const Function& g, bool byCalls) {
    std::vector<StmtRef> stack = g.def->body;
    while (!stack.empty()) {
      const Stmt& inner = g.ast->stmts[stack.back()];
      stack.pop_back();
      if (byCalls && inner.kind == StmtKind::Call) return true;
      if (inner.assign == AssignOp::Update && !inner.targets.empty() && inner.targets[0].name == g.def->parameters[0].name)
        return true;
      for (const auto* block : {&inner.body, &inner.otherwise}) stack.insert(stack.end(), block->begin(), block->end());
    }
    return false;
  };
  const Function* f = functionNamed(name);
  if (f && is(*f) && updates(*f, true)) return f;
  const Span site = optimizer ? optimizer->head : s.nameSpan;
  if (f) {
    Diagnostic& d = report("undefined-function",
                           "`" + name + "` is no optimizer: " +
                               (f->def->value != kNone ? "it is one expression and updates nothing"
                                : is(*f)               ? "it does not update its first parameter"
                                                       : "it does not take a parameter and its gradient"),
                           site);
    d.notes.push_back({f->signature, f->def->nameSpan});
    d.notes.push_back({"as in `def " + name + "(W[...], G[...]; lr) { W[...] <- W[...] - lr*G[...] }`", {}});
    return nullptr;
  }
  if (const Entity* other = lookup(name); other && other->kind == Entity::Kind::Poison) return nullptr;
  Diagnostic& d = report("undefined-function", "there is no optimizer `" + name + "`", site);
  std::vector<std::string> names;
  for (const auto& [other, g] : m_functions)
    if (is(g) && updates(g, false)) names.push_back(other);
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string& other : names) list += (list.empty() ? "" : ", ") + other;
  d.notes.push_back({"there are " + list, {}});
  d.notes.push_back({"an optimizer is a function like `def sgd(W[...], G[...]; lr) { W[...] <- W[...] - lr*G[...] }`", {}});
  suggest(d, name, names, site);
  return nullptr;
}

void Elaborator::optimize(const Ast& ast, const Stmt& s, TensorId loss, const Expr* optimizer, bool all,
                          const std::vector<std::pair<std::string, Span>>& wrt, const TrainSettings& settings) {
  const std::vector<bool> reached = reaches(m_out.program, loss);
  std::vector<TensorId> parameters;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const Tensor& t = m_out.program.tensors[i];
    if (t.kind != TensorKind::Param || !reached[i] || !isFloating(t.type)) continue;
    if (all || std::any_of(wrt.begin(), wrt.end(), [&](const auto& named) { return named.first == t.name; }))
      parameters.push_back(TensorId(i));
  }
  if (parameters.empty()) {
    Diagnostic& d =
        report("nothing-to-train", "`" + settings.loss + "` depends on no parameter" + (all ? "" : " named in `wrt`"), s.nameSpan);
    for (std::size_t i = 0; i < reached.size(); ++i) {
      const Tensor& t = m_out.program.tensors[i];
      if (reached[i] && t.kind == TensorKind::Param && !isFloating(t.type))
        d.notes.push_back(
            {"`" + t.name + "` holds whole numbers, which are not trained: `: f32` makes it a parameter that is", {}});
    }
    return;
  }
  for (const auto& [name, span] : wrt) {
    if (std::any_of(parameters.begin(), parameters.end(), [&](TensorId t) { return m_out.program[t].name == name; })) continue;
    const TensorId named = m_out.program.tensorNamed(name);
    warn("not-trained",
         named.valid() && !isFloating(m_out.program[named].type)
             ? "`" + name + "` holds whole numbers: it is not trained"
             : "`" + settings.loss + "` does not depend on `" + name + "`: it is not trained",
         span);
  }
  m_phase = Phase::Optimizer;
  const Function* f = optimizerNamed(optimizer, s);
  if (!f) return;
  const std::string functionName(f->def->name);
  const Span site = optimizer ? optimizer->head : s.nameSpan;
  if (f->symbol != kNone && inNotebook(site)) m_out.symbols[f->symbol].uses.push_back(site);
  std::vector<Argument> options;
  if (optimizer) {
    if (!optimizer->args.empty()) {
      report("wrong-arity", "the options of an optimizer are named: `" + functionName + "(lr=1e-3)`", optimizer->span);
      return;
    }
    for (const Binder& b : optimizer->binders) {
      const auto value = wholeValue(ast, b.value, {});
      if (!value) return;
      if (value->kind == Entity::Kind::Number && std::isnan(value->number.value())) {
        report("bad-attribute", "`" + std::string(b.name) + "` is not a number", b.span);
        return;
      }
      options.push_back({std::string(b.name), *value, b.span});
    }
  }
  std::vector<TensorRef> gradients;
  for (const TensorId w : parameters) {
    NewTensor t;
    const std::string full = "d(" + settings.loss + ")/d(" + m_out.program[w].name + ")";
    if (const auto made = m_fullNames.find(full); made != m_fullNames.end()) {
      gradients.push_back(made->second);
      continue;
    }
    t.local = full;
    t.temporary = true;
    t.span = s.nameSpan;
    t.type = m_out.program[w].type;
    t.shape = m_out.program[w].shape;
    t.axisNames = m_contexts[0]->axisNames[w.value];
    const TensorRef g = makeTensor(std::move(t));
    if (!g.valid()) return;
    m_out.program.derivatives.push_back({loss, w, g.id, {}, origin(s.nameSpan)});
    gradients.push_back(g);
  }
  if (settings.clip) clip(gradients, *settings.clip, s.span);
  std::optional<TensorRef> step;
  if (f->def->parameters.size() == 3) step = stepCounter(settings.loss, site);
  const std::size_t errors = m_errors, updates = m_out.program.updates.size();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::vector<Argument> arguments;
    for (const TensorRef& ref : {TensorRef{0, parameters[i]}, gradients[i]}) {
      Entity e;
      e.kind = Entity::Kind::Tensor;
      e.view = wholeView(ref);
      arguments.push_back({{}, std::move(e), site});
    }
    if (step) {
      Entity e;
      e.kind = Entity::Kind::Tensor;
      e.view = wholeView(*step);
      arguments.push_back({{}, std::move(e), site});
    }
    const std::string wish = m_out.program[parameters[i]].name + "." + functionName;
    if (!expandWith(*f, arguments, options, site, wish, {})) return;
  }
  const auto& made = m_out.program.updates;
  const bool trains = std::any_of(made.begin() + static_cast<std::ptrdiff_t>(updates), made.end(), [&](const Update& u) {
    return std::find(parameters.begin(), parameters.end(), u.target) != parameters.end();
  });
  if (trains || m_errors != errors) return;
  const std::string first(f->def->parameters[0].name);
  report("no-update", "`" + functionName + "` gives no parameter its next value: nothing would be trained", site)
      .notes.push_back({"`" + first + "[...] <- ...` gives one", inNotebook(f->def->nameSpan) ? f->def->nameSpan : Span{}});
}

// Steps so far, this one included: what Adam corrects its bias with.
TensorRef Elaborator::stepCounter(const std::string& loss, Span span) {
  NewTensor counter;
  counter.local = loss + ".step";
  counter.temporary = true;
  counter.span = span;
  counter.kind = TensorKind::State;
  counter.init.kind = Initializer::Kind::Zeros;
  const TensorRef state = makeTensor(std::move(counter));
  NewTensor next;
  next.local = loss + ".step.next";
  next.temporary = true;
  next.span = span;
  const TensorRef value = makeTensor(std::move(next));
  Program& p = m_out.program;
  const OriginId o = origin(span);
  Operator op;
  op.body = p.binary(ScalarOp::Add, p.load(state.id, {}, o), p.constant(1, DType::F32, o), o);
  op.output = value.id;
  op.name = p[value.id].name;
  op.phase = Phase::Optimizer;
  op.origin = o;
  p.addOperator(std::move(op));
  p.updates.push_back({state.id, value.id, o});
  return value;
}

// Global norm: gradients are scaled by min(1, clip / |all of them|).
void Elaborator::clip(std::vector<TensorRef>& gradients, double limit, Span span) {
  Program& p = m_out.program;
  const OriginId o = origin(span);
  const bool wide = std::any_of(gradients.begin(), gradients.end(), [&](const TensorRef& g) { return p[g.id].type == DType::F64; });
  const DType type = wide ? DType::F64 : DType::F32;  // of the norm
  const auto make = [&](const std::string& name, std::vector<std::int64_t> shape, DType type) {
    NewTensor t;
    t.local = name;
    t.temporary = true;
    t.span = span;
    t.shape = std::move(shape);
    t.type = type;
    return makeTensor(std::move(t));
  };
  const auto finish = [&](Operator op, TensorRef output) {
    op.output = output.id;
    op.name = p[output.id].name;
    op.phase = Phase::Optimizer;
    op.origin = o;
    p.addOperator(std::move(op));
  };
  const auto element = [&](TensorId t) {
    std::vector<AccessIndex> at(p[t].shape.size());
    for (std::size_t k = 0; k < at.size(); ++k) at[k].affine = IndexExpr::variable(static_cast<IndexVar>(k));
    return p.load(t, std::move(at), o);
  };
  const auto axesOf = [&](TensorId t) {
    std::vector<Axis> axes;
    for (std::size_t k = 0; k < p[t].shape.size(); ++k) axes.push_back({"i" + std::to_string(k), p[t].shape[k], o});
    return axes;
  };
  std::vector<TensorRef> squares;
  for (const TensorRef& g : gradients) {
    const TensorRef square = make(p[g.id].name + ".square", {}, type);
    Operator op;
    op.axes = axesOf(g.id);
    op.reducer = op.axes.empty() ? Reducer::None : Reducer::Sum;
    const ExprId x = element(g.id);
    op.body = p.binary(ScalarOp::Mul, x, x, o);
    finish(std::move(op), square);
    squares.push_back(square);
  }
  // In pairs, so that no expression grows deep.
  while (squares.size() > 1) {
    std::vector<TensorRef> sums;
    constexpr std::size_t kAtOnce = 16;
    for (std::size_t i = 0; i < squares.size(); i += kAtOnce) {
      const TensorRef sum = make("gradient.square", {}, type);
      Operator op;
      for (std::size_t k = i; k < std::min(squares.size(), i + kAtOnce); ++k) {
        const ExprId x = p.load(squares[k].id, {}, o);
        op.body = op.body.valid() ? p.binary(ScalarOp::Add, op.body, x, o) : x;
      }
      finish(std::move(op), sum);
      sums.push_back(sum);
    }
    squares = std::move(sums);
  }
  const TensorRef scale = make("gradient.scale", {}, type);
  Operator op;
  const ExprId norm =
      p.binary(ScalarOp::Add, p.unary(ScalarOp::Sqrt, p.load(squares[0].id, {}, o), o), p.constant(1e-6, type, o), o);
  op.body = p.binary(ScalarOp::Min, p.binary(ScalarOp::Div, p.constant(limit, type, o), norm, o), p.constant(1, type, o), o);
  finish(std::move(op), scale);
  for (TensorRef& g : gradients) {
    const TensorRef clipped = make(p[g.id].name + ".clipped", p[g.id].shape, p[g.id].type);
    Operator each;
    each.axes = axesOf(g.id);
    each.outputRank = static_cast<std::uint32_t>(each.axes.size());
    each.body = p.binary(ScalarOp::Mul, element(g.id), p.load(scale.id, {}, o), o);
    finish(std::move(each), clipped);
    g = clipped;
  }
}

}  // namespace nf::lang
