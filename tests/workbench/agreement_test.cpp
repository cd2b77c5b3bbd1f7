// SPDX-License-Identifier: GPL-3.0-or-later
// Of whatever is chosen the views say the same: links, marks of the graph's kernels, lines, expressions, formulas and rows of decisions.
#include <QDeadlineTimer>
#include <QLabel>
#include <QPlainTextEdit>
#include <QTextBlock>
#include <QToolButton>
#include <map>
#include <random>
#include <set>

#include "core/support/unique_names.h"
#include "tests/workbench/real_engine.h"
#include "widgets/explain_view.h"
#include "widgets/formula_view.h"
#include "widgets/fusion_model.h"
#include "widgets/graph_view.h"
#include "widgets/inspector_view.h"
#include "widgets/kernel_view.h"
#include "widgets/notebook_view.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

using protocol::GraphNode;
using protocol::SubgraphInfo;

// Functions called twice, one of them by another, with several results and a loop; equal expressions in two cells; two losses;
// gathers and scatters, a state, a loop that runs backwards.
const char* const kNotebooks[] = {
    "# %%\nlet N = 12, M = 10\ninput X[N, M] = normal(0, 1)\nparam W[M, M] = normal(0, 0.3)\nparam V[M, M] = normal(0, 0.3)\n"
    "def pair(a[N, M], w[M, M]) -> u, v {\n  u[n, m] = tanh(sum[k] a[n, k] * w[k, m])\n  v[n, m] = u[n, m] * a[n, m] + 0.5 }\n"
    "def outer(a[N, M], w[M, M]) -> r {\n  p, q = pair(a, w)\n  r[n, m] = p[n, m] - q[n, m]^2 }\n"
    "# %%\nP, Q = pair(X, W)\nR = outer(X, V)\n# %%\nS1[n, m] = exp(X[n, m]) * sum[k] X[n, k] * W[k, m]\n"
    "# %%\nS2[n, m] = exp(X[n, m]) * sum[k] X[n, k] * W[k, m]\n"
    "# %%\nloss La = mean[n, m] (P[n, m] + Q[n, m] * R[n, m] + S1[n, m])^2\nloss Lb = mean[n, m] (S2[n, m] - R[n, m])^2\n"
    "show d(La)/d(W), Q\n# %%\ntrain La { optimizer = sgd(lr=0.01); steps = 3 }\n",
    "# %%\nlet B = 4, N = 8, T = 3\ninput X[B, N, N] = normal(0, 1)\nparam F[3, 3] = normal(0, 0.3)\nparam G[N] = normal(0, 0.3)\n"
    "def smooth(x[B, N], g[N]) -> y {\n  h[b: B, n: N] = 0.0\n  for t in 0..T {\n"
    "    h[b, n] = 0.5 * tanh(h[b, n]) + x[b, n] * g[n]\n  }\n  y[b, n] = h[b, n] * 2 }\n"
    "# %%\nC[b, p: 4, q: 4] = sum[r: 3, s: 3] (X[b, p*2+r-1, q*2+s-1] else 0) * F[r, s]\nZ[b, q] = sum[p] C[b, p, q]\n"
    "# %%\nR[b, q] = exp(Z[b, q] - max[j] Z[b, j]) / sum[k] exp(Z[b, k] - max[j] Z[b, j])\nU[b, n] = X[b, n, 0]\n"
    "V1 = smooth(U, G)\nV2 = smooth(V1, G)\n"
    "# %%\nloss L = mean[b, q] (R[b, q] - 0.5)^2 + mean[b, n] (V2[b, n] - 1)^2\nshow d(L)/d(F), d(L)/d(G), R\n"
    "# %%\ntrain L { optimizer = sgd(lr=0.1, momentum=0.9); steps = 3 }\n",
    "# %%\nlet N = 12, D = 8\ninput X[N, D] = normal(0, 1)\nparam W[D, D] = normal(0, 0.3)\n"
    "def dense(a[N, D]) -> y { y[n, e] = tanh(sum[d] a[n, d] * W[d, e]) }\n# %%\nA = dense(X)\nB = dense(A)\n"
    "# %%\nE1[n, e] = exp(-B[n, e]) / (1 + sum[k] abs(B[n, k]))\n# %%\nE2[n, e] = exp(-B[n, e]) / (1 + sum[k] abs(B[n, k]))\n"
    "# %%\nloss La = mean[n, e] (E1[n, e] - E2[n, e] * A[n, e])^2\nloss Lb = mean[n, e] (E2[n, e] - max[j] A[n, j])^2\n"
    "show d(La)/d(W), d(Lb)/d(W)\n# %%\ntrain La { optimizer = sgd(lr=0.1); steps = 3 }\n",
    "# %%\nlet N = 10, D = 6, K = 4\ninput X[N, D] = normal(0, 1)\ninput k[N] : i32 = uniform(0, 4)\n"
    "param E[K, D] = normal(0, 0.3)\nparam W[D, D] = normal(0, 0.3)\nstate m[D] = zeros()\n"
    "def centre(x[N, D]) -> y {\n  a[d] = mean[n] x[n, d]\n"
    "  y[n, d] = (x[n, d] - a[d]) / sqrt(0.1 + mean[i] (x[i, d] - a[d])^2) }\n"
    "# %%\nG[n, d] = E[k[n], d] * X[n, d]\nS[k[n]: K, d] += G[n, d] * 0.5\nH = centre(G)\n"
    "# %%\nh[n: N, d: D] = 0.1\nfor t in reversed 0..3 {\n"
    "  h[n, d] = tanh(sum[e] h[n, e] * W[e, d]) + H[n, d]\n  stack Hs = h\n}\n"
    "# %%\nP[n, d] = (Hs[0, n+1, d] else 0) - h[n, d]\nQ = centre(P)\nm[d] <- 0.9 * m[d] + 0.1 * mean[n] P[n, d]\n"
    "# %%\nloss La = mean[n, d] (Q[n, d] - m[d])^2 + mean[c, d] S[c, d]^2\n"
    "loss Lb = mean[n, d] (h[n, d] - S[k[n], d])^2\neval far = max[n, d] abs(P[n, d])\n"
    "show d(La)/d(E), d(Lb)/d(W), S\n# %%\ntrain La { optimizer = adam(lr=0.01); steps = 3 }\n",
    "# %%\nlet N = 8, M = 6\ninput X[N, M] = normal(0, 1)\nparam W[M, M] = normal(0, 0.3)\n"
    "def lin(x[N, M], w[M, M]) -> y { y[n, o] = sum[m] x[n, m] * w[o, m] }\n"
    "# %%\nY = lin(X, W)\nU = tanh(lin(Y, W))\n# %%\nloss La = mean[n, m] (U[n, m] - 1)^2 + mean[n, m] Y[n, m]^2\n"
    "# %%\nloss Lb = mean[n, m] (U[n, m] - 2)^2 + mean[n] exp(Y[n, 0])\n# %%\nshow d(La)/d(W), d(Lb)/d(W)\n"
    "# %%\ntrain La { steps = 3 }\n"};

struct Agreement : RealEngine, testing::WithParamInterface<int> {
  struct Links {
    std::set<std::string> nodes, kernels;
    bool cut = false;  // there are more than are listed

    bool holds(const std::string& tensor) const {
      return std::ranges::any_of(nodes, [&](const std::string& n) { return withoutNumber(n) == withoutNumber(tensor); });
    }
  };
  struct Shown {
    std::vector<int> lines;
    std::set<std::string> expressions;  // tensors that they make
    bool around = false;
  };

  void open() {
    openChecked(kNotebooks[GetParam()]);
    window->showPage(MainWindow::Page::Explain);
    ASSERT_TRUE(wait([&] { return window->explain()->graph()->plan() && !window->workspace().subgraphs().subgraphs.empty(); }));
    kernel = window->tune()->kernel();
    subgraphs = window->workspace().subgraphs().subgraphs;
    for (const GraphNode& node : window->explain()->graph()->graph().nodes) nodes.insert(node.id);
    const char* given = std::getenv("NF_SEED");
    seed = given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : 1;
    RecordProperty("seed", std::to_string(seed));
    random.seed(seed);
  }

  // Where a word or an operator begins, from the first function to what is shown.
  std::vector<std::size_t> shuffledPlaces() {
    const std::string text = document().text();
    const auto isLetter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
    std::vector<std::size_t> places;
    for (std::size_t i = text.find("def "); i < text.find("\nshow "); ++i) {
      const bool word = isLetter(text[i]) && !isLetter(text[i - 1]);
      if (word || std::string_view("*+-/^=").find(text[i]) != std::string_view::npos) places.push_back(i);
    }
    std::ranges::shuffle(places, random);
    return places;
  }

  std::string selectedText() {
    std::string out;
    for (const auto& s : window->workspace().selection().selectedSpans())
      out += (out.empty() ? "`" : ", `") + document().text().substr(s.begin, s.end - s.begin) + "`";
    for (const std::string& tensor : window->workspace().selection().tensors()) out += ", " + tensor;
    return out;
  }

  std::string again() const { return "; again with NF_SEED=" + std::to_string(seed); }

  void settle() {
    const QDeadlineTimer until(80);
    while (!until.hasExpired()) QCoreApplication::processEvents(QEventLoop::AllEvents, 10);
  }

  Links links() const {
    Links out;
    for (const QToolButton* lead : window->inspector()->findChildren<QToolButton*>()) {
      const std::string name = lead->isHidden() ? std::string() : lead->objectName().toStdString();
      if (name.starts_with("node:")) out.nodes.insert(name.substr(5));
      if (name.starts_with("kernel:")) out.kernels.insert(name.substr(7));
      out.cut = out.cut || (!lead->isHidden() && lead->text().contains(QLatin1String(" more, ")));
    }
    return out;
  }

  static std::string lossOf(const std::string& gradient) {  // "d(L)"
    return gradient.starts_with("d(") ? gradient.substr(0, gradient.find("/d(")) : std::string();
  }

  static std::string madeBy(const QString& line) {
    const QString name =
        line.section(QLatin1Char('['), 0, 0).section(QStringLiteral(" ="), 0, 0).remove(QLatin1Char('`')).trimmed();
    return (name.startsWith(QLatin1Char('@')) ? name.section(QLatin1Char(' '), 1) : name).toStdString();
  }

  Shown shown() const {
    Shown out;
    out.lines = kernel->tintedLines();
    const auto* expression = kernel->findChild<QPlainTextEdit*>();
    for (const int line : litExpressions(*kernel))
      out.expressions.insert(madeBy(expression->document()->findBlockByNumber(line).text()));
    for (const QLabel* label : kernel->findChildren<QLabel*>())
      out.around = out.around || label->text().startsWith(QLatin1String("part of this kernel"));
    return out;
  }

  KernelView* kernel = nullptr;
  std::vector<SubgraphInfo> subgraphs;
  std::set<std::string> nodes;
  unsigned seed = 0;
  std::mt19937 random;
};

TEST_P(Agreement, APlaceInTheTextLeadsToWhatLightsUp) {
  ASSERT_NO_FATAL_FAILURE(open());
  const std::string text = document().text();
  const std::vector<std::size_t> places = shuffledPlaces();
  int chosen = 0;
  for (std::size_t i = 0; i < places.size() && chosen < 9; ++i) {
    const std::size_t line = text.rfind('\n', places[i]) + 1;
    SCOPED_TRACE("column " + std::to_string(places[i] - line + 1) + " of " + text.substr(line, text.find('\n', line) - line) +
                 again());
    window->showPage(MainWindow::Page::Author);
    window->notebook()->scrollToByte(places[i], true);
    settle();
    if (window->workspace().selection().empty()) continue;
    ++chosen;
    const Links led = links();
    for (const CellView* c : window->notebook()->cells()) {
      const FormulaView* view = c->formulaView();
      for (std::size_t f = 0; view && f < view->formulas().size(); ++f) {
        const auto& formula = view->formulas()[f];
        const int tinted = tintedParts(*view, f);
        EXPECT_TRUE(tinted == 0 || led.cut || !nodes.contains(formula.name) || led.holds(formula.name)) << formula.name;
      }
    }
    window->showPage(MainWindow::Page::Explain);
    for (const int d : window->explain()->relatedDecisions()) {
      const auto& decision = window->explain()->fusion()->report().decisions[static_cast<std::size_t>(d)];
      if (led.cut || !nodes.contains(decision.producerNode) || !nodes.contains(decision.consumerNode)) continue;  // in a loop
      EXPECT_TRUE(led.holds(decision.producerNode) || led.holds(decision.consumerNode))
          << decision.producer << " -> " << decision.consumer;
    }
    for (const SubgraphInfo& subgraph : subgraphs) {
      SCOPED_TRACE(subgraph.name);
      ASSERT_TRUE(showKernel(subgraph.id));
      const Shown now = shown();
      if (led.kernels.contains(subgraph.id))
        EXPECT_TRUE(now.around || !now.lines.empty() || !now.expressions.empty()) << "a link there";
      else EXPECT_TRUE((now.lines.empty() && now.expressions.empty()) || led.kernels.size() >= 6) << "no link there";
      // The names in a loop's kernel are of its body, which has no nodes, those of a kernel of several places of the first.
      if (!subgraph.loop.empty() || !kernel->also().isEmpty()) continue;
      for (const std::string& tensor : now.expressions)
        EXPECT_TRUE(led.cut || !nodes.contains(tensor) || led.holds(tensor)) << tensor;
    }
  }
  EXPECT_GT(chosen, 3);
}

// Decisions and kernels are the plan's.
TEST_P(Agreement, AStageChangesNothingOfWhereAPlaceLeads) {
  ASSERT_NO_FATAL_FAILURE(open());
  std::vector<std::size_t> places = shuffledPlaces();
  places.resize(std::min<std::size_t>(places.size(), 24));
  const std::string text = document().text();
  std::map<std::size_t, std::pair<std::vector<int>, std::set<std::string>>> planned;
  std::size_t related = 0;
  for (const char* stage : {"fused", "transformed", "differentiated", "source"}) {
    window->showPage(MainWindow::Page::Explain);
    window->explain()->wantStage(QString::fromLatin1(stage));
    ASSERT_TRUE(wait([&] { return window->explain()->graph()->graph().stage == stage; }));
    for (const std::size_t place : places) {
      const std::size_t line = text.rfind('\n', place) + 1;
      SCOPED_TRACE(std::string(stage) + ", column " + std::to_string(place - line + 1) + " of " +
                   text.substr(line, text.find('\n', line) - line) + again());
      window->showPage(MainWindow::Page::Author);
      window->notebook()->scrollToByte(place, true);
      settle();
      const std::pair now{window->explain()->relatedDecisions(), window->explain()->ledOperators()};
      related += now.first.size();
      const auto [first, isFirst] = planned.try_emplace(place, now);
      if (isFirst) continue;
      EXPECT_EQ(now.first, first->second.first);
      EXPECT_EQ(now.second, first->second.second);
    }
  }
  EXPECT_GT(related, 40u);
}

TEST_P(Agreement, ALineOfAKernelLeadsBackToIt) {
  ASSERT_NO_FATAL_FAILURE(open());
  int clicked = 0;
  for (const SubgraphInfo& subgraph : subgraphs) {
    SCOPED_TRACE(subgraph.name);
    ASSERT_TRUE(showKernel(subgraph.id));
    const auto lines = kernel->lineOrigins();
    std::vector<std::size_t> numbers;
    std::set<protocol::Origins> seen;
    for (std::size_t i = 0; i < lines.size(); ++i)
      if (!lines[i].empty() && seen.insert(lines[i]).second) numbers.push_back(i);
    const QStringList code = kernel->text().split(QLatin1Char('\n'));
    const QStringList statements = kernel->findChild<QPlainTextEdit*>()->toPlainText().split(QLatin1Char('\n'));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      SCOPED_TRACE("line " + std::to_string(numbers[i] + 1));
      ASSERT_TRUE(showKernel(subgraph.id));
      kernel->chooseLine(static_cast<int>(numbers[i]));
      settle();
      ++clicked;
      const auto lit = kernel->tintedLines();
      EXPECT_TRUE(std::ranges::find(lit, static_cast<int>(numbers[i])) != lit.end())
          << code.value(static_cast<int>(numbers[i])).toStdString() << "\nchooses " << selectedText();
      // A loop is of what it holds.
      const auto depth = [&](qsizetype at) { return code[at].size() - code[at].trimmed().size(); };
      const auto opens = [&](qsizetype at) { return code[at].endsWith(QLatin1Char(':')); };
      const auto number = static_cast<qsizetype>(numbers[i]);
      bool holds = !opens(number);
      for (qsizetype at = number + 1; at < code.size() && depth(at) > depth(number); ++at)
        holds = holds || (!opens(at) && std::ranges::find(lit, static_cast<int>(at)) != lit.end());
      EXPECT_TRUE(holds) << code[number].toStdString();
      const std::string stored = madeBy(code.value(static_cast<int>(numbers[i])));
      if (std::ranges::any_of(statements, [&](const QString& s) { return !s.isEmpty() && madeBy(s) == stored; })) {
        EXPECT_TRUE(shown().expressions.contains(stored)) << stored;
      }
      const Links led = links();
      EXPECT_TRUE(led.kernels.contains(subgraph.id));
      EXPECT_TRUE(led.cut || led.nodes.contains(subgraph.loop) ||
                  std::ranges::any_of(subgraph.operators, [&](const auto& op) { return led.holds(op); }));
    }
  }
  EXPECT_GT(clicked, 5);
}

TEST_P(Agreement, ALineOfAnExpressionLeadsBackToIt) {
  ASSERT_NO_FATAL_FAILURE(open());
  int clicked = 0;
  for (const SubgraphInfo& subgraph : subgraphs) {
    SCOPED_TRACE(subgraph.name);
    ASSERT_TRUE(showKernel(subgraph.id));
    auto* expression = kernel->findChild<QPlainTextEdit*>();
    for (int line = 0; line < expression->document()->blockCount(); ++line) {
      const QTextBlock block = expression->document()->findBlockByNumber(line);
      if (block.text().isEmpty()) continue;
      SCOPED_TRACE(block.text().toStdString());
      window->inspector()->setFocus();
      expression->moveCursor(QTextCursor::Start);
      expression->setFocus();
      QTextCursor at(block);
      at.movePosition(QTextCursor::EndOfBlock);
      expression->setTextCursor(at);
      settle();
      ++clicked;
      EXPECT_TRUE(litExpressions(*kernel).contains(line)) << selectedText();
      EXPECT_FALSE(kernel->tintedLines().empty());
      const Links led = links();
      EXPECT_TRUE(led.cut || led.kernels.contains(subgraph.id));
      // Its sign of equality is the operator alone, whatever else calls of a function make there.
      const std::string made = madeBy(block.text());
      if (!subgraph.loop.empty() || !nodes.contains(made) || !kernel->also().isEmpty()) continue;
      at.setPosition(block.position() + static_cast<int>(block.text().indexOf(QStringLiteral(" ="))) + 1);
      expression->setTextCursor(at);
      settle();
      EXPECT_TRUE(litExpressions(*kernel).contains(line)) << selectedText();
      const auto& tensors = window->workspace().selection().tensors();
      EXPECT_TRUE(!tensors.empty() && withoutNumber(tensors.back()) == withoutNumber(made)) << testing::PrintToString(tensors);
    }
  }
  EXPECT_GT(clicked, 10);
}

TEST_P(Agreement, ANodeLeadsToItsKernels) {
  ASSERT_NO_FATAL_FAILURE(open());
  std::vector<std::string> chosen(nodes.begin(), nodes.end());
  std::ranges::shuffle(chosen, random);
  chosen.resize(std::min<std::size_t>(chosen.size(), 8));
  for (const std::string& node : chosen) {
    SCOPED_TRACE(node + again());
    window->showPage(MainWindow::Page::Explain);
    window->explain()->graph()->choose(QString::fromStdString(node), false);
    settle();
    const Links led = links();
    EXPECT_TRUE(led.cut || led.nodes.contains(node));
    for (const std::string& other : led.nodes)
      EXPECT_TRUE(led.cut || lossOf(node).empty() || lossOf(other).empty() || lossOf(other) == lossOf(node)) << other;
    for (const SubgraphInfo& subgraph : subgraphs) {
      SCOPED_TRACE(subgraph.name);
      const bool has = subgraph.loop == node || std::ranges::find(subgraph.operators, node) != subgraph.operators.end();
      EXPECT_TRUE(!has || led.kernels.contains(subgraph.id));
      if (!led.kernels.contains(subgraph.id)) continue;
      ASSERT_TRUE(showKernel(subgraph.id));
      const Shown now = shown();
      EXPECT_TRUE(now.around || !now.lines.empty() || !now.expressions.empty()) << "a link there";
    }
  }
}

const char* const kNames[] = {"Calls", "Loops", "Equals", "Moves", "Losses"};
INSTANTIATE_TEST_SUITE_P(Notebooks, Agreement, testing::Values(0, 1, 2, 3, 4), [](const auto& info) { return kNames[info.param]; });

}  // namespace
}  // namespace nf
