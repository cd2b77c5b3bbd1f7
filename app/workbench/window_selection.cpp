// SPDX-License-Identifier: GPL-3.0-or-later
// What is selected: the tensor that the inspector shows, the places and views that it leads to.
#include <QApplication>
#include <QRegularExpression>
#include <QTimer>
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "app/workbench/main_window.h"
#include "core/document/document.h"
#include "core/support/unique_names.h"
#include "core/syntax/derivative_name.h"
#include "widgets/basic.h"
#include "widgets/decision_card.h"
#include "widgets/explain_view.h"
#include "widgets/expression_editor.h"
#include "widgets/graph_names.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/names.h"
#include "widgets/notebook_view.h"
#include "widgets/statements_view.h"
#include "widgets/tensor_view.h"
#include "widgets/tune_trials.h"
#include "widgets/tune_view.h"

namespace nf {

namespace {
// A derivative that is computed by the node of another one, which is equal.
bool isMergedInto(const protocol::GraphNode& node, const std::string& derivative) {
  return node.id != derivative && derivative.starts_with("d(") &&
         std::ranges::any_of(node.merged, [&](const protocol::MergedOperator& m) { return m.name == derivative; });
}
}  // namespace

// A tensor of the notebook; a derivative on the way to one that it asks for has the shape of what it is with respect to. A partial sum,
// "d(L)/d(Y)#1", is none.
std::optional<protocol::TensorInfo> MainWindow::tensorNamed(const std::string& name) const {
  if (const auto* t = m_tab->workspace->tensor(name)) return *t;
  const auto names = name.ends_with(')') ? derivativeNames(name) : std::nullopt;
  const auto* wrt = names ? m_tab->workspace->tensor(names->second) : nullptr;
  if (!wrt || !m_tab->workspace->tensor(names->first)) return std::nullopt;
  return protocol::TensorInfo{name, protocol::SymbolKind::Tensor, wrt->dtype, wrt->shape, wrt->bytes, true, {}, {}};
}

void MainWindow::inspect(const QString& name) {
  if (m_inspector->pinned() && name != m_inspector->tensor()) return;
  const auto t = tensorNamed(name.toStdString());
  if (!t) return;
  m_tab->inspected = name;
  m_inspector->setTensor(*t);
  m_inspector->setKept({});
  QStringList among;
  if (!m_selection.body().empty() && m_selection.isCalled(t->name))
    for (const std::string& other : m_selection.tensors())
      if (tensorNamed(other)) among << QString::fromStdString(other);
  m_inspector->setAmong(among);
  m_tab->workspace->wantExpression(name);
  m_tab->workspace->wantSlice(m_inspector->values()->request());
  refreshLeads();
}

void MainWindow::chooseTensor(const QString& name) {
  const auto tensors = withParts({name.toStdString()});
  m_selection.select(placesOf(tensors), tensors);
  inspect(name);
}

// A derivative is the partial sums that it is made of, "d(L)/d(T)#1", too, and the node that equal ones were merged into; itself last.
std::vector<std::string> MainWindow::withParts(const std::vector<std::string>& tensors) const {
  if (tensors.empty()) return tensors;
  const std::string& whole = tensors.back();
  const std::string stem = whole + '#';
  const auto t = tensorNamed(whole);
  if (!t || !t->derivative) return tensors;
  const bool alone = std::all_of(tensors.begin(), tensors.end() - 1, [&](const auto& n) { return n.starts_with(stem); });
  std::set<std::string> parts;
  for (const protocol::GraphPage* graph : {&m_explain->graph()->graph(), m_explain->graph()->plan()})
    if (graph && graph->revision == m_tab->workspace->analysis().revision)
      for (const auto& node : graph->nodes)
        if ((alone && node.id.starts_with(stem)) || isMergedInto(node, whole)) parts.insert(node.id);
  for (const std::string& known : tensors) parts.erase(known);
  if (alone) parts.insert(tensors.begin(), tensors.end() - 1);
  std::vector<std::string> all(parts.begin(), parts.end());
  if (!alone) all.insert(all.end(), tensors.begin(), tensors.end() - 1);
  all.push_back(whole);
  return all;
}

// What makes these came from, for each of spans in one another the innermost: kernels and formulas know it by these. The name of a
// gradient in a `show` is no part of any of them, but it is where the notebook has it; so is the name of what a function makes. What
// nothing makes, a parameter, is known by where it is read.
protocol::Origins MainWindow::placesOf(const std::vector<std::string>& tensors) const {
  protocol::Origins places;
  const auto& spans = m_selection.spans();
  const auto add = [&](const protocol::Origins& origins) {
    for (const auto o : origins) {
      if (o >= spans.size()) continue;
      const bool holds = std::any_of(origins.begin(), origins.end(), [&](std::uint32_t k) {
        return k < spans.size() && spans[o].source == spans[k].source && spans[o].begin <= spans[k].begin &&
               spans[o].end >= spans[k].end && spans[o].end - spans[o].begin > spans[k].end - spans[k].begin;
      });
      if (!holds && std::find(places.begin(), places.end(), o) == places.end()) places.push_back(o);
    }
  };
  std::vector<const protocol::GraphPage*> graphs{&m_explain->graph()->graph(), m_explain->graph()->plan()};
  std::erase(graphs, nullptr);
  // The node that another one of these was merged into stands for that one.
  const auto standsIn = [&](const std::string& tensor) {
    return std::ranges::any_of(graphs, [&](const auto* graph) {
      return std::ranges::any_of(graph->nodes, [&](const auto& node) {
        return node.id == tensor && std::ranges::any_of(tensors, [&](const auto& other) { return isMergedInto(node, other); });
      });
    });
  };
  for (const std::string& tensor : tensors) {
    const auto* t = m_tab->workspace->tensor(tensor);
    if (tensors.size() > 1 && standsIn(tensor)) continue;
    // The node of two statements that compute one thing comes from both, each of two equal gradients from its own.
    const bool written = t && !t->derivative && !t->origins.empty();
    for (const protocol::GraphPage* graph : graphs)
      if (!written)
        for (const auto& node : graph->nodes) {
          if (node.merged.empty() && node.id == tensor) add(node.origins);
          for (const protocol::MergedOperator& m : node.merged)
            if (m.name == tensor) add(m.origins);
        }
    if (t) {
      if (t->derivative || written || places.empty()) add(t->origins);
      for (const std::uint32_t reader : t->readers) add({reader});
      // The statement of an operator holds its name.
      const auto isHeld = [&](const protocol::SourceSpan& name) {
        return std::any_of(t->origins.begin(), t->origins.end(), [&](std::uint32_t o) {
          return o < spans.size() && spans[o].source.empty() && spans[o].begin <= name.begin && spans[o].end >= name.end;
        });
      };
      for (const auto& s : m_tab->workspace->analysis().symbols)
        if (const auto* token = tokenAt(s.definition); token && token->tensor == tensor && token->inside.empty())
          if (!isHeld(s.definition)) add(token->origins);
    }
  }
  return places;
}

const protocol::TokenInfo* MainWindow::tokenAt(const protocol::SourceSpan& span) const {
  if (!span.source.empty() || span.begin >= span.end) return nullptr;
  const auto& tokens = m_tab->workspace->analysis().tokens;
  const auto found = std::lower_bound(tokens.begin(), tokens.end(), span, [](const auto& token, const protocol::SourceSpan& s) {
    return token.begin < s.begin || (token.begin == s.begin && token.end > s.end);
  });
  return found != tokens.end() && found->begin == span.begin && found->end == span.end ? &*found : nullptr;
}

// The longest in the selected place. A part of a statement in a loop that is no token, or several parts, stand for what the statement makes.
const protocol::TokenInfo* MainWindow::selectedToken() const {
  const Selection& selection = m_tab->workspace->selection();
  const protocol::TokenInfo *best = nullptr, *holder = nullptr;
  const auto length = [](const protocol::TokenInfo& token) { return token.end - token.begin; };
  for (const auto& token : m_tab->workspace->analysis().tokens) {
    const Selection::Relation relation = selection.relation(token.origins);
    if (relation == Selection::Relation::Exact && (!best || length(token) > length(*best))) best = &token;
    if (relation == Selection::Relation::Around && !token.inside.empty() && (!holder || length(token) < length(*holder)))
      holder = &token;
  }
  if (!best || !holder) return best ? best : holder;
  const auto places = selection.selectedSpans();
  const bool whole =
      std::any_of(places.begin(), places.end(), [&](const auto& s) { return s.begin == best->begin && s.end == best->end; });
  return whole && places.size() == 1 ? best : holder;
}

void MainWindow::pinInspector(const QString& tensor) {
  m_inspector->setPinned(false);
  inspect(tensor);
  m_inspector->setPinned(true);
  if (const auto* t = m_tab->workspace->tensor(tensor.toStdString()); t && t->derivative) m_inspector->beginCheck();
}

void MainWindow::leaveChoice() {
  Tab::Choice& choice = m_tab->choice;
  choice = {};
  // A place in a function has the names of what its calls make, which follow from the place.
  const auto& body = m_selection.body();
  for (const auto id : body.empty() ? m_selection.origins() : protocol::Origins{body.front()})
    choice.places.push_back(m_selection.spans()[id]);
  if (!m_selection.byPlace()) choice.tensors = m_selection.tensors();
}

void MainWindow::returnToChoice() {
  const auto choice = std::exchange(m_tab->choice, {});
  protocol::Origins places;
  const auto& spans = m_selection.spans();
  for (const protocol::SourceSpan& place : choice.places)
    if (const auto found = std::ranges::find(spans, place); found != spans.end())
      places.push_back(static_cast<std::uint32_t>(found - spans.begin()));
  if (places.empty()) return;
  m_selection.select(places, choice.tensors);
  m_revealed = m_selection.choices();  // the notebook stands where it was left
}

// What was chosen by its name comes into sight in the text, once for each choice.
void MainWindow::revealSelection() {
  if (page() != Page::Author || m_selection.tensors().empty() || !m_tab->workspace->analysisIsCurrent()) return;
  const auto spans = m_selection.selectedSpans();
  if (spans.empty() || std::exchange(m_revealed, m_selection.choices()) == m_selection.choices()) return;
  // Who goes through derived statements reads on there.
  if (m_staysInSight || qobject_cast<const StatementsView*>(QApplication::focusWidget())) return;
  // A page that was hidden has its size from here on.
  QTimer::singleShot(0, m_tab->notebook, [notebook = m_tab->notebook, spans] { notebook->reveal(spans); });
}

// The one tensor that is made there; empty: none, or several, or places that make nothing among them.
std::string MainWindow::tensorMadeAt(const protocol::Origins& origins) const {
  std::set<std::string> made;
  const auto& analysis = m_tab->workspace->analysis();
  for (const auto id : origins) {
    if (id >= analysis.spans.size()) continue;
    bool makes = false;
    const auto note = [&](const std::string& name) { made.insert(name), makes = true; };
    const protocol::TokenInfo* token = tokenAt(analysis.spans[id]);
    if (token && !token->inside.empty()) return {};  // it makes a part of what the loop makes
    for (const auto& s : analysis.symbols)
      if (s.definition == analysis.spans[id] && s.definition.begin < s.definition.end) {
        // A name that a loop gives another value, or a second name of a tensor, says which one it is here.
        const bool other = token && (token->tensor.starts_with(s.name + '#') || !m_tab->workspace->tensor(s.name));
        if (const std::string& name = other ? token->tensor : s.name; m_tab->workspace->tensor(name)) note(name);
      }
    for (const auto& t : analysis.tensors)
      if (t.origins == protocol::Origins{id}) note(t.name);
    if (!makes) return {};
  }
  return made.size() == 1 ? *made.begin() : std::string();
}

// The word of a reduction within an expression stands for the operator that it is: `sum` of `exp(sum[k] ..)`.
std::string MainWindow::reductionAt(const protocol::Origins& origins) const {
  const auto& analysis = m_tab->workspace->analysis();
  if (origins.size() != 1 || origins.front() >= analysis.spans.size()) return {};
  const protocol::SourceSpan& word = analysis.spans[origins.front()];
  const protocol::TokenInfo* token = tokenAt(word);
  if (!token || !token->inside.empty()) return {};
  for (const auto& t : analysis.tensors) {
    if (t.name != token->tensor || t.derivative || t.origins.size() != 1) continue;
    const protocol::SourceSpan& whole = analysis.spans[t.origins.front()];
    if (whole.source == word.source && whole.begin == word.begin && whole.end > word.end) return t.name;
  }
  return {};
}

const protocol::ExpansionInfo* MainWindow::expansionAt(std::uint32_t span) const {
  for (const auto& e : m_tab->workspace->analysis().expansions)
    if (e.span == span) return &e;
  return nullptr;
}

// What a place in a function of the notebook was written out to; a word or an index within the body is part of the smallest place there
// that calls make something of.
const protocol::ExpansionInfo* MainWindow::expansionAround(const protocol::Origins& origins) const {
  if (origins.size() != 1 || origins.front() >= m_selection.spans().size()) return nullptr;
  const auto* e = expansionAt(origins.front());
  const auto& spans = m_selection.spans();
  const protocol::SourceSpan& at = spans[origins.front()];
  if (e || tokenAt(at)) return e;
  for (const auto& around : m_tab->workspace->analysis().expansions) {
    if (around.span >= spans.size()) continue;
    const protocol::SourceSpan& s = spans[around.span];
    const bool holds = s.source == at.source && s.begin <= at.begin && s.end >= at.end;
    if (holds && (!e || s.end - s.begin < spans[e->span].end - spans[e->span].begin)) e = &around;
  }
  return e;
}

// It is everything that its calls make of it; the function's name, what its calls make.
std::vector<std::string> MainWindow::tensorsOfCallsAt(const protocol::Origins& origins) const {
  std::vector<std::string> made;
  if (const auto* e = expansionAround(origins))
    for (const std::string& tensor : e->tensors)
      if (!tensor.empty() && m_tab->workspace->tensor(tensor) && std::ranges::find(made, tensor) == made.end())
        made.push_back(tensor);
  return made;
}

// The place; of the name of a function with all in its body, up to the next function, that calls make something of.
protocol::Origins MainWindow::bodyAt(std::uint32_t place) const {
  protocol::Origins body{place};
  const auto& analysis = m_tab->workspace->analysis();
  const protocol::SourceSpan& name = m_selection.spans()[place];
  std::uint32_t end = 0;  // 0: it is no name of a function
  for (const auto& s : analysis.symbols)
    if (s.kind == protocol::SymbolKind::Function && s.definition == name) end = UINT32_MAX;
  for (const auto& s : analysis.symbols)
    if (end > 0 && s.kind == protocol::SymbolKind::Function && s.definition.source.empty() && s.definition.begin > name.begin)
      end = std::min(end, s.definition.begin);
  for (const auto& e : analysis.expansions)
    if (!e.made.empty() && analysis.spans[e.span].begin > name.begin && analysis.spans[e.span].begin < end) body.push_back(e.span);
  return body;
}

// Of what is chosen by its names; of a place in a function that place, and where what it makes is called.
protocol::Origins MainWindow::placesOfSelection() const {
  if (m_selection.body().empty()) return placesOf(m_selection.tensors());
  protocol::Origins places{m_selection.body().front()};
  if (const auto* e = expansionAround(places))
    for (const auto call : e->calls)
      if (std::ranges::find(places, call) == places.end()) places.push_back(call);
  return places;
}

// The one tensor whose statement holds the place that holds all others, where that is no token and in no loop; empty: none.
std::string MainWindow::tensorMadeAround(const protocol::Origins& origins) const {
  const auto& analysis = m_tab->workspace->analysis();
  const protocol::SourceSpan* whole = nullptr;
  for (const auto o : origins) {
    if (o >= analysis.spans.size()) return {};
    if (!whole || holds(analysis.spans[o], *whole)) whole = &analysis.spans[o];
  }
  if (!whole || !whole->source.empty() || tokenAt(*whole)) return {};
  for (const auto o : origins)
    if (!holds(*whole, analysis.spans[o])) return {};
  for (const auto& token : analysis.tokens)
    if (!token.inside.empty() && token.begin <= whole->begin && token.end >= whole->end) return {};
  const protocol::TensorInfo* made = nullptr;
  std::uint32_t least = 0;
  bool several = false;
  for (const auto& t : analysis.tensors) {
    if (t.origins.size() != 1 || t.derivative) continue;
    const protocol::SourceSpan& statement = analysis.spans[t.origins.front()];
    if (!holds(statement, *whole)) continue;
    const std::uint32_t length = statement.end - statement.begin;
    if (made && length > least) continue;
    several = made && length == least;
    made = &t, least = length;
  }
  return made && !several ? made->name : std::string();
}

// Of the updates that come from one place of a `train`, its optimizer, the last; empty: they do not.
std::string MainWindow::lastUpdateOf(const protocol::Origins& origins) const {
  const auto& analysis = m_tab->workspace->analysis();
  if (origins.size() != 1 || origins.front() >= analysis.spans.size() || !isOfCommand(analysis.spans[origins.front()])) return {};
  std::vector<const protocol::TensorInfo*> made;
  for (const auto& t : analysis.tensors)
    if (t.origins == origins) made.push_back(&t);
  return made.size() > 1 ? made.back()->name : std::string();
}

// Of the name that a statement in a loop makes: the statement, whose places its kernel's lines have. Empty: it is no such name.
protocol::Origins MainWindow::statementInLoop(const protocol::Origins& origins) const {
  const auto& analysis = m_tab->workspace->analysis();
  if (origins.size() != 1 || origins.front() >= analysis.spans.size()) return {};
  const protocol::SourceSpan& name = analysis.spans[origins.front()];
  const auto isDefinition = [&](const protocol::SymbolInfo& s) { return s.definition == name; };
  if (!name.source.empty() || std::ranges::none_of(analysis.symbols, isDefinition)) return {};
  const protocol::TokenInfo* statement = nullptr;
  for (const auto& token : analysis.tokens)
    if (!token.inside.empty() && token.begin == name.begin && token.end > name.end && (!statement || token.end > statement->end))
      statement = &token;
  return statement ? statement->origins : protocol::Origins();
}

// Of a line that makes nothing itself.
bool MainWindow::isOfCommand(const protocol::SourceSpan& span) const {
  const std::string& text = m_tab->workspace->document().text();
  if (!span.source.empty() || span.begin >= text.size() || !m_tab->workspace->analysisIsCurrent()) return false;
  const std::size_t newline = span.begin == 0 ? std::string::npos : text.rfind('\n', span.begin - 1);
  const std::string_view line = std::string_view(text).substr(newline == std::string::npos ? 0 : newline + 1);
  return line.starts_with("show ") || line.starts_with("train ");
}

// Which kernels hold a chosen place is known by the operators that it leads to.
void MainWindow::showLed() {
  const auto& graph = m_explain->plannedGraph();
  std::set<std::string> led;
  if (!m_selection.empty() && m_selection.byPlace()) led = m_explain->ledOperators();
  // What is chosen by its name may be computed again, in another kernel.
  if (!m_selection.empty() && !m_selection.byPlace())
    for (const auto& node : graph.nodes)
      if (isAgain(graph, node) && m_selection.isCalled(tensorOf(graph, node))) led.insert(node.id);
  m_tune->setLed(std::move(led));
}

// From step to step, by a loop whose last value nothing reads.
bool MainWindow::isCarried(const std::string& name) const {
  return m_tab->workspace->tensor(name + "#1") &&
         std::ranges::any_of(m_tab->workspace->analysis().symbols, [&](const auto& s) { return s.name == name; });
}

// Of what several calls make of a line of the kernel in sight, what that kernel makes; empty: none of them.
std::string MainWindow::madeByKernel(const std::vector<std::string>& tensors) const {
  if (page() != Page::Tune) return {};
  for (const auto& s : m_tab->workspace->subgraphs().subgraphs) {
    if (s.id != m_tune->current()) continue;
    const std::vector<std::string> nodes = nodesOf(s);
    for (const std::string& tensor : tensors)
      if (tensorNamed(tensor) && std::ranges::any_of(nodes, [&](const auto& node) { return withoutNumber(node) == tensor; }))
        return tensor;
  }
  return {};
}

// The tensor of the smallest selected token; else the one whose definition is selected.
void MainWindow::inspectSelection() {
  const Selection& selection = m_tab->workspace->selection();
  showLed();
  if (selection.empty()) {
    // Nothing chosen yet: the last thing a cell shows is what the notebook is about.
    if (m_tab->inspected.isEmpty())
      for (const auto& cell : m_tab->workspace->analysis().cells)
        if (!cell.shows.empty()) m_tab->inspected = m_tab->offered = QString::fromStdString(cell.shows.back());
    if (!m_tab->inspected.isEmpty()) inspect(m_tab->inspected);
    if (m_tab->inspected != m_tab->offered) m_inspector->setKept(tr("Chosen last: nothing is selected now."));
    return;
  }
  m_tab->offered.clear();
  if (!selection.tensors().empty()) {
    if (auto all = withParts(selection.tensors()); all != selection.tensors()) return m_selection.call(std::move(all));
    const auto places = placesOfSelection();
    if (!places.empty()) m_selection.place(places);
    if (!m_selection.byPlace()) m_selection.write(writtenOf(m_selection.tensors()));
    revealSelection();
    // One of several that somebody went to stays.
    if (!m_selection.body().empty() && m_amongChoice == m_selection.choices() && tensorNamed(m_tab->inspected.toStdString()))
      return inspect(m_tab->inspected);
    if (!selection.body().empty())
      if (const std::string own = madeByKernel(selection.tensors()); !own.empty()) {
        m_amongChoice = m_selection.choices();
        return inspect(QString::fromStdString(own));
      }
    // What is computed again, "Y#2", is Y; an operator that has no tensor in the notebook has none to show.
    for (auto tensor = selection.tensors().rbegin(); tensor != selection.tensors().rend(); ++tensor)
      for (const std::string& name : {*tensor, std::string(withoutNumber(*tensor))})
        if (tensorNamed(name)) return inspect(QString::fromStdString(name));
    // A mistake may hide it for now.
    if (m_inspector->pinned() || !m_tab->workspace->missing().empty() || selection.isCalled(m_inspector->tensor().toStdString()))
      return;
    m_tab->inspected.clear();
    const std::string name(withoutNumber(selection.tensors().back()));
    if (isCarried(name)) m_inspector->setMadeInLoop(QString::fromStdString(name), true);
    else m_inspector->setNoTensor(QString::fromStdString(name));
    return refreshLeads();
  }
  if (auto made = tensorsOfCallsAt(selection.origins()); !made.empty()) {
    const auto* e = expansionAround(selection.origins());
    return m_selection.callIn(bodyAt(selection.origins().front()), std::move(made), e->made.empty());
  }
  for (const auto& s : m_tab->workspace->analysis().symbols)
    if (s.kind == protocol::SymbolKind::Function && selection.selectedSpans() == std::vector{s.definition}) {
      if (m_inspector->pinned()) return;
      m_tab->inspected.clear();
      return m_inspector->setUncalled(QString::fromStdString(s.name));
    }
  // The place of a statement, or of the name that it defines, is that of the tensor that it makes.
  if (const auto made = tensorMadeAt(selection.origins()); !made.empty()) return m_selection.call({made});
  if (const auto made = reductionAt(selection.origins()); !made.empty()) return m_selection.call({made});
  // What holds several tokens and is none, a product or a function of its operand, is part of what the statement makes.
  if (const auto made = tensorMadeAround(selection.origins()); !made.empty()) {
    if (selection.reads() != made) return m_selection.read(made);
    return inspect(QString::fromStdString(made));
  }
  if (const auto last = lastUpdateOf(selection.origins()); !last.empty()) {
    if (selection.reads() != last) return m_selection.read(last);
    return inspect(QString::fromStdString(last));
  }
  if (const protocol::Origins statement = statementInLoop(selection.origins()); !statement.empty())
    return m_selection.place(statement);
  if (const protocol::TokenInfo* token = selectedToken()) {
    // A name that is shown or trained stands for its tensor.
    const auto chosen = selection.selectedSpans();
    const bool named =
        token->inside.empty() && chosen.size() == 1 && m_tab->workspace->tensor(token->tensor) && isOfCommand(chosen.front());
    if (named) return m_selection.call({token->tensor});
    if (selection.reads() != token->tensor) return m_selection.read(token->tensor);
    if (!token->tensor.empty()) return inspect(QString::fromStdString(token->tensor));
    if (m_inspector->pinned()) return;
    m_tab->inspected.clear();
    const std::string name(withoutNumber(token->inside));
    m_inspector->setMadeInLoop(QString::fromStdString(name), isCarried(name));
    return refreshLeads();
  }
  // What several tensors come from is none of them: `epochs` of a training.
  std::vector<const protocol::TensorInfo*> made;
  for (const auto& t : m_tab->workspace->analysis().tensors)
    if (selection.relation(t.origins) == Selection::Relation::Exact) made.push_back(&t);
  if (made.size() == 1) inspect(QString::fromStdString(made.front()->name));
  else m_inspector->setKept(tr("Chosen last: what is selected now is no tensor."));
}

// Where in functions of the notebook they are made. What is handed over, a parameter, belongs to all that read it.
protocol::Origins MainWindow::writtenOf(const std::vector<std::string>& tensors) const {
  const protocol::GraphPage& graph = m_explain->plannedGraph();
  protocol::Origins written;
  const auto isOne = [&](const std::string& name) { return std::ranges::find(tensors, name) != tensors.end(); };
  for (const auto& node : graph.nodes)
    if (isOne(node.id) || std::ranges::any_of(node.merged, [&](const auto& m) { return isOne(m.name); }))
      for (const auto place : m_selection.expandedOf(node.places))
        if (const auto* e = expansionAt(place); e && !e->calls.empty() && std::ranges::find(written, place) == written.end())
          written.push_back(place);
  return written;
}

bool MainWindow::isOutsideStep(const std::string& tensor) const {
  const auto* plan = m_explain->graph()->plan();
  if (!plan || plan->revision != m_tab->workspace->document().revision()) return false;
  bool outside = false;
  for (const auto& node : plan->nodes) {
    if (tensorOf(*plan, node) != tensor && node.id != tensor) continue;
    if (!node.outsideStep) return false;
    outside = true;
  }
  return outside;
}

namespace {
// "d(L" of d(L)/d(W); empty of what is no derivative.
std::string_view differentiated(std::string_view tensor) {
  const std::size_t end = tensor.find(")/d(");
  return tensor.starts_with("d(") && end != std::string_view::npos ? tensor.substr(0, end) : std::string_view();
}

// Gradients of two losses come from the same accesses.
bool isOfOtherLoss(const protocol::GraphNode& node, std::string_view gradient) {
  const std::string_view loss = differentiated(gradient);
  const auto differs = [&](std::string_view name) { return !differentiated(name).empty() && differentiated(name) != loss; };
  return !loss.empty() && differs(node.id) && std::ranges::all_of(node.merged, differs, &protocol::MergedOperator::name);
}
}  // namespace

// Where the selection leads: its text, the nodes and fused group, the kernel in each of its forms.
std::vector<Lead> MainWindow::leadsOf(const protocol::Origins& origins, const std::vector<std::string>& tensors, bool token) {
  constexpr std::size_t kMostNodes = 8, kMostKernels = 6, kMostWhole = 2;
  const std::string& tensor = tensors.back();
  std::vector<Lead> leads;
  Selection probe;
  probe.setSpans(m_tab->workspace->analysis().spans);
  probe.select(origins);
  const protocol::GraphPage& graph = m_explain->plannedGraph();
  constexpr auto phases = protocol::enumNames(protocol::Phase{});
  // What a parameter becomes has its place in `train`, where that of every other one is: its update is known by its parameter's name.
  std::string updated;
  for (const auto& e : graph.edges)
    if (!token && e.carried && e.from == tensor) updated = e.to;
  const auto related = [&](const protocol::Origins& places) {
    return updated.empty() && probe.relation(places) == Selection::Relation::Exact;
  };
  // A call has the places of all that its function makes: what is made there is told apart by where it is written.
  Selection written;
  written.setSpans(probe.spans());
  const protocol::Origins bodies = token ? protocol::Origins() : writtenOf(tensors);
  written.select(bodies);
  const auto isPart = [&](const protocol::Origins& origins, const protocol::Origins& places) {
    if (!related(origins) && !related(places)) return false;
    const protocol::Origins there = bodies.empty() ? bodies : m_selection.expandedOf(places);
    return there.empty() || written.relation(there) == Selection::Relation::Exact;
  };
  const std::string& reads = tensor == m_tab->inspected.toStdString() && m_selection.body().empty() ? tensor : m_selection.reads();
  std::vector<bool> led = token ? ledTo(graph, probe, reads) : std::vector<bool>(graph.nodes.size());
  for (std::size_t i = 0; i < led.size() && !token; ++i)
    led[i] = !isOfOtherLoss(graph.nodes[i], tensor) && isPart(graph.nodes[i].origins, graph.nodes[i].places);
  const bool operators = leadsToOperator(graph, led);
  // A place in a function is no part of all that makes what its calls make.
  const bool inBody = token && operators && !m_selection.body().empty();
  const auto updates = [&](const std::string& id) {
    return std::any_of(graph.edges.begin(), graph.edges.end(),
                       [&](const auto& e) { return e.carried && e.from == id && e.to == tensor; });
  };
  std::vector<std::string> ids;
  std::set<std::string> made;  // of these, what is no tensor that is only read there
  std::set<std::string> gradients;
  std::size_t more = 0;
  std::string next;  // the first that has no row
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    const bool ofUpdate = !updated.empty() && isUpdateOf(node, updated);
    const bool whole = !inBody || node.kind != protocol::NodeKind::Operator;
    const bool chosen = whole && std::find(tensors.begin(), tensors.end(), node.id) != tensors.end();
    if (!chosen && !led[i] && !updates(node.id) && !ofUpdate) continue;
    ids.push_back(node.id);
    const bool isRead =
        node.id == reads || std::ranges::find(node.merged, reads, &protocol::MergedOperator::name) != node.merged.end();
    if (!token || !isRead || probe.relation(node.places) != Selection::Relation::None) made.insert(node.id);
    const auto leadTo = [&](const std::string& made) {
      if (const auto* t = m_tab->workspace->tensor(std::string(withoutNumber(made))); t && t->derivative && t->name != tensor)
        gradients.insert(t->name);
    };
    if (node.merged.empty()) leadTo(node.id);
    for (const protocol::MergedOperator& m : node.merged)
      if (related(m.origins) || (led[i] && probe.relation(m.origins) == Selection::Relation::Around)) leadTo(m.name);
    // What is chosen is there whole.
    if (!chosen && !ofUpdate && ids.size() > kMostNodes) {
      if (more++ == 0) next = node.id;
      continue;
    }
    leads.push_back({QStringLiteral("graph"), tr("Node %1").arg(shortName(node.name)),
                     QString::fromLatin1(phases[static_cast<std::size_t>(node.phase)]),
                     QStringLiteral("node:") + QString::fromStdString(node.id)});
  }
  if (more > 0)
    leads.push_back({QStringLiteral("graph"),
                     tr("%1 more, %2 first").arg(counted(more, tr("node"), tr("nodes")), shortName(next)),
                     {},
                     QStringLiteral("node:") + QString::fromStdString(next)});
  for (const std::string& name : gradients)
    leads.push_back({QStringLiteral("sum"),
                     tr("Gradient %1").arg(derivativeText(QString::fromStdString(name))),
                     {},
                     QStringLiteral("tensor:") + QString::fromStdString(name)});
  for (const auto& group : graph.groups)
    if (group.nodes.size() > 1 && std::any_of(group.nodes.begin(), group.nodes.end(), [&](const std::string& id) {
          return std::find(ids.begin(), ids.end(), id) != ids.end();
        }))
      leads.push_back({QStringLiteral("group"), tr("Fused group %1").arg(kernelName(group.name, 28)),
                       QString::fromStdString(group.id), QStringLiteral("group:") + QString::fromStdString(group.id)});
  // A kernel that makes it for one call may hold what another call makes of the same place: of a kernel whose operators are nodes of the
  // plan each is asked for itself.
  std::map<std::string, bool> parts;
  if (const auto* plan = token ? nullptr : m_explain->graph()->plan())
    for (const auto& node : plan->nodes) parts.emplace(node.id, isPart(node.origins, node.places));
  const auto holdsPart = [&](const protocol::SubgraphInfo& s) {
    const auto isKnown = [&](const std::string& op) { return parts.contains(op); };
    if (s.operators.empty() || !std::ranges::all_of(s.operators, isKnown)) return isPart(s.origins, s.places);
    return std::ranges::any_of(s.operators, [&](const std::string& op) { return parts.at(op); });
  };
  std::size_t kernels = 0;
  static const std::vector<protocol::SubgraphInfo> kNone;  // of a device that interprets
  const auto& subgraphs = m_tune->interprets() ? kNone : m_tab->workspace->subgraphs().subgraphs;
  const bool outside = !token && std::ranges::all_of(tensors, [this](const std::string& t) { return isOutsideStep(t); });
  for (const auto& s : subgraphs) {
    if (outside) break;
    const auto chosen = [&](const std::string& op) {
      return (!token && std::find(tensors.begin(), tensors.end(), op) != tensors.end()) || made.contains(op);
    };
    const bool own = isSelectedPart(subgraphs, s, probe, token) &&
                     (chosen(s.loop) || std::any_of(s.operators.begin(), s.operators.end(), chosen));
    const bool around = token && ids.empty() && probe.relation(s.origins) == Selection::Relation::Around;
    // A kernel of two loops is told of one of them.
    const bool inLoop = token && !s.loop.empty() && probe.relation(s.places) == Selection::Relation::Exact;
    const bool from = inLoop || (!(token && operators) && holdsPart(s));
    if (!own && !around && !from) continue;
    if (++kernels > kMostKernels && !own) continue;
    const QString id = QString::fromStdString(s.id);
    leads.push_back(
        {QStringLiteral("bars"), tr("Kernel %1").arg(kernelName(s.name, 28)), timeText(s), QStringLiteral("kernel:") + id});
    if (kernels > kMostWhole) continue;
    leads.push_back({QStringLiteral("loop"), tr("Loop nest"), QString::fromStdString(s.kind), QStringLiteral("loops:") + id});
    const bool shown = m_tune->current() == s.id && m_selection.origins() == origins;
    const std::int64_t lines = shown ? m_tune->kernel()->machineLines() : 0;
    leads.push_back({QStringLiteral("code"), tr("Machine code"), lines > 0 ? counted(lines, tr("line"), tr("lines")) : QString(),
                     QStringLiteral("code:") + id});
  }
  const auto found = std::find(ids.begin(), ids.end(), tensor);
  const bool several =
      std::ranges::count_if(m_tab->workspace->analysis().cells, [](const auto& c) { return c.train.has_value(); }) > 1;
  const auto& ops = graph.nodes;
  if (kernels == 0 && found != ids.end() && !subgraphs.empty() && std::any_of(ops.begin(), ops.end(), [&](const auto& node) {
        return node.id == tensor && node.kind == protocol::NodeKind::Operator;
      }))
    leads.push_back({QStringLiteral("stale"), several ? tr("No kernel in this step") : tr("No kernel in training"),
                     several ? tr("runs elsewhere") : tr("a show runs it"),
                     QStringLiteral("node:") + QString::fromStdString(tensor)});
  return leads;
}

void MainWindow::refreshLeads() {
  if (const auto t = tensorNamed(m_tab->inspected.toStdString())) {
    const bool token = m_selection.tensors().empty() && !m_selection.empty() && m_selection.reads() == t->name;
    const auto& called = m_selection.tensors();
    const bool several = called.size() > 1 && m_selection.isCalled(t->name);  // that a function makes
    const bool term = called.size() == 1 && called.front() != t->name && withoutNumber(called.front()) == t->name;
    // What no operator makes is known by where it is read, as a token is.
    m_inspector->setLeads(token                         ? leadsOf(m_selection.origins(), {t->name}, true)
                          : !m_selection.body().empty() ? leadsOf(m_selection.body(), m_selection.tensors(), true)
                          : !t->readers.empty()         ? leadsOf(placesOf({t->name}), {t->name}, true)
                          : several || term             ? leadsOf(m_selection.origins(), called, false)
                                                        : leadsOf(t->origins, withParts({t->name}), false));
  } else if (m_inspector->tensor().isEmpty() && !m_selection.empty()) {
    const auto& tensors = m_selection.tensors();
    const auto* token = tensors.empty() ? selectedToken() : nullptr;
    m_inspector->setLeads(!tensors.empty() ? leadsOf(m_selection.origins(), tensors, false)
                          : token          ? leadsOf(m_selection.origins(), {token->inside}, true)
                                           : std::vector<Lead>());
  }
  const auto* decision = m_explain->chosenDecision();
  if (!decision) return;
  std::vector<Lead> leads;
  const auto& spans = m_tab->workspace->analysis().spans;
  const std::string& text = m_tab->workspace->document().text();
  protocol::Origins sources;  // of both ends, as they are written
  for (const std::string& name : {decision->producer, decision->consumer})
    if (const auto* t = m_tab->workspace->tensor(std::string(withoutNumber(name))); t && !t->derivative && !t->origins.empty())
      if (std::ranges::find(sources, t->origins.front()) == sources.end()) sources.push_back(t->origins.front());
  if (sources.empty()) sources = decision->origins;
  if (m_tab->workspace->analysisIsCurrent())
    for (const auto id : sources) {
      if (id >= spans.size() || !spans[id].source.empty() || spans[id].end > text.size() || leads.size() >= 2) continue;
      const QString source = QString::fromStdString(text.substr(spans[id].begin, spans[id].end - spans[id].begin)).simplified();
      leads.push_back({QStringLiteral("text"), tr("Source"), source.size() > 24 ? source.left(23) + QChar(0x2026) : source,
                       QStringLiteral("byte:%1").arg(spans[id].begin)});
    }
  for (const std::string& name : {decision->producer, decision->consumer})
    if (name.starts_with("d(") && m_tab->workspace->tensor(name))
      leads.push_back({QStringLiteral("sum"),
                       tr("Gradient %1").arg(shortName(name)),
                       {},
                       QStringLiteral("tensor:") + QString::fromStdString(name)});
  for (Lead& lead : leadsOf({}, {decision->producerNode, decision->consumerNode}, false))
    if (std::ranges::find(leads, lead.target, &Lead::target) == leads.end()) leads.push_back(std::move(lead));
  m_explain->card()->setLeads(leads);
}

void MainWindow::showRun() {
  const Workspace& w = *m_tab->workspace;
  m_tune->setRun(w.steps(), w.swaps(), w.evals());
  // One figure of one run.
  const CellView* v = m_tab->notebook->viewThatRan(m_tab->runOf);
  if (v && v->train() && v->train()->plot()->given() > 0 && v->train()->plot()->steps() == static_cast<int>(w.steps().size()))
    m_tune->setFigure(v->train()->plot()->given());
}

// What the profile is held against.
void MainWindow::showStep() {
  const Workspace& w = *m_tab->workspace;
  const bool interpreted = m_tune->interprets();
  m_tune->setStep(w.deviceInUse(), w.profileIsEdited(), w.replacedSinceProfile());
  if (m_tune->interprets() != interpreted) refreshLeads();
}

// As the profile has them where it is of all these kernels, side by side in one step; else as the trial of each was timed.
void MainWindow::showTimes() {
  const Workspace& w = *m_tab->workspace;
  showStep();
  std::vector<protocol::SubgraphInfo> kernels = w.subgraphs().subgraphs;
  if (const auto& profile = w.profile(); profile && (w.deviceInUse().empty() || profile->device == w.deviceInUse()) &&
                                         !w.profileIsEdited() && w.replacedSinceProfile().empty()) {
    std::map<std::string, double> profiled;
    for (const protocol::KernelTimeInfo& k : profile->kernels) profiled.emplace(k.subgraph, k.us);
    if (std::ranges::all_of(kernels, [&](const auto& k) { return profiled.contains(k.id); }))
      for (protocol::SubgraphInfo& k : kernels) k.us = profiled.at(k.id);
  }
  m_explain->setSubgraphs(kernels);
}

void MainWindow::train() {
  const auto writesTrain = [](const CellView* v) {
    static const QRegularExpression statement(QStringLiteral(R"(^[ \t]*train\b)"), QRegularExpression::MultilineOption);
    return v->kind() == CellKind::Code &&
           (v->train() || statement.match(QString::fromUtf8(asUtf8(v->editor()->bytes(), '?'))).hasMatch());
  };
  const auto& cells = notebook()->cells();
  const auto found = std::find_if(cells.begin(), cells.end(), writesTrain);
  if (found == cells.end()) return setStatus("warning", tr("%1 has no train cell").arg(workspace().name()));
  const CellView* v = *found;
  const auto index = notebook()->analysisCell(v->id());
  const protocol::Analysis& analysis = workspace().analysis();
  showPage(Page::Author);
  if (workspace().analysisIsCurrent() && index && !analysis.cells[*index].train && v->status() != protocol::CellStatus::Error)
    for (const protocol::DiagnosticInfo& d : analysis.diagnostics) {
      const QString place = d.span.source.empty() ? notebook()->placeName(d.span.begin) : QString();
      if (d.severity != protocol::Severity::Error || place.isEmpty()) continue;
      notebook()->scrollToByte(d.span.begin, true);
      return setStatus("error", tr("A mistake in %1 keeps it from training: %2")
                                    .arg(place, QString::fromStdString(d.message).section(QLatin1Char('\n'), 0, 0)));
    }
  showCell(v->id());
  runCell(v->id());
}

// Nodes keep their names in all stages, groups are the fused stage's.
bool MainWindow::followInGraph(const QString& target) {
  const QString id = target.section(QLatin1Char(':'), 1);
  GraphView* view = m_explain->graph();
  if (target.startsWith(QLatin1String("group:"))) {
    if (view->graph().stage != "fused") return false;
    view->showGroup(id);
    return true;
  }
  if (std::ranges::find(view->graph().nodes, id.toStdString(), &protocol::GraphNode::id) == view->graph().nodes.end()) return false;
  view->choose(id, true);
  return true;
}

void MainWindow::follow(const QString& target) {
  const QString kind = target.section(QLatin1Char(':'), 0, 0), id = target.section(QLatin1Char(':'), 1);
  m_tab->awaitedLink.clear();
  if (kind == QLatin1String("node") || kind == QLatin1String("group")) {
    showPage(Page::Explain);
    if (followInGraph(target)) return;
    m_tab->awaitedLink = target;
    m_explain->wantStage(QStringLiteral("fused"));
  } else if (kind == QLatin1String("byte")) {
    showPage(Page::Author);
    m_tab->notebook->scrollToByte(id.toULongLong(), true);
  } else if (kind == QLatin1String("tensor")) {
    showPage(Page::Author);
    chooseTensor(id);
  } else {
    showPage(Page::Tune);
    m_tune->chooseSubgraph(id.toStdString());
    if (kind == QLatin1String("loops")) m_tune->kernel()->showLanguage(QStringLiteral("loops"));
    if (kind == QLatin1String("code")) m_tune->kernel()->showMachineCode();
  }
}

}  // namespace nf
