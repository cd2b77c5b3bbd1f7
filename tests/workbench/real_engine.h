// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QPlainTextEdit>
#include <QTextBlock>
#include <set>

#include "tests/workbench/selected.h"
#include "widgets/formula_view.h"
#include "widgets/kernel_view.h"
#include "widgets/tune_view.h"

namespace nf {

inline const std::string kNotebook =
    "# %%\nlet N = 4\nparam W[N, N] = normal(0, 1)\n\n"
    "# %%\nA[i, j] = W[i, j] * 2\nshow A\n\n"
    "# %%\nC[i, j] = W[i, j] + 1\nshow C\n\n"
    "# %%\nD[i] = sum[j] C[i, j] * A[i, j]\nshow D\n\n"
    "# %%\nloss L = mean[i, j] (C[i, j] - 3)^2\nshow d(L)/d(W)\n\n"
    "# %%\ntrain L { optimizer = sgd(lr=0.01); steps = 100000000; device = reference }\n";

// Lines of a kernel's expression that light up, from 0.
inline std::set<int> litExpressions(const KernelView& kernel) {
  std::set<int> lit;
  for (const QTextEdit::ExtraSelection& s : kernel.findChild<QPlainTextEdit*>()->extraSelections())
    if (s.format.boolProperty(QTextFormat::FullWidthSelection)) lit.insert(s.cursor.blockNumber());
  return lit;
}

inline int tintedParts(const FormulaView& view, std::size_t formula) {
  int tinted = 0;
  for (std::uint32_t i = 0; i < view.formulas()[formula].nodes.size(); ++i) tinted += view.tinted(formula, i) ? 1 : 0;
  return tinted;
}

// The window with the engine that people have.
struct RealEngine : Selected {
  void openChecked(const std::string& text = kNotebook) { openWith(text); }
  // In Tune, which shows it.
  bool showKernel(const std::string& subgraph) {
    const KernelView* kernel = window->tune()->kernel();
    window->showPage(MainWindow::Page::Tune);
    window->tune()->chooseSubgraph(subgraph);
    return wait([&] { return window->tune()->current() == subgraph && !kernel->pending() && !kernel->text().isEmpty(); });
  }
  void checked() {
    ASSERT_TRUE(wait([&] { return window->workspace().analysisIsKnown(); }));
  }
  void compute(std::size_t i) {
    run(i);
    ASSERT_TRUE(wait([&] { return cell(i)->status() != protocol::CellStatus::Running; }));
    EXPECT_EQ(cell(i)->status(), protocol::CellStatus::Ok) << cell(i)->note().toStdString();
    // The cell's result comes before the word that the engine is free again, and a training is refused until then.
    ASSERT_TRUE(wait([&] { return !window->workspace().running() && !window->workspace().runAsked(); }));
  }
  void replace(const std::string& what, const std::string& with) {
    const std::size_t at = document().text().find(what);
    ASSERT_NE(at, std::string::npos);
    document().replace(at, at + what.size(), with, "Edit");
    window->notebook()->followDocument();
    checked();
  }
  std::vector<protocol::CellStatus> states() {
    std::vector<protocol::CellStatus> out;
    for (CellView* v : window->notebook()->cells()) out.push_back(v->status());
    return out;
  }
};

}  // namespace nf
