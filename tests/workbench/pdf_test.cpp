// SPDX-License-Identifier: GPL-3.0-or-later
// What a notebook's PDF has on its pages, and that the window is as it was.
#include <QPushButton>
#include <QScrollBar>

#include "tests/widgets/pdf_marks.h"
#include "tests/workbench/selected.h"
#include "widgets/basic.h"
#include "widgets/expression_editor.h"
#include "widgets/formula_view.h"
#include "widgets/plots.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"

namespace nf {
namespace {

const std::string kNotebook =
    "# %% [markdown]\n# # On paper\n# Words, and *more* of them.\n\n"
    "# %%\nlet N = 8\nparam W[N, N] = normal(0, 1)\n\n"
    "# %%\nA[i, j] = W[i, j] * 2\nQ = softmax(A)\nshow A, Q\n\n"
    "# %%\nloss L = mean[i, j] (Q[i, j] - 3)^2\nshow d(L)/d(W)\n\n"
    "# %%\ntrain L { optimizer = sgd(lr=0.01); steps = 40; device = reference; mode = static }"
    "  # a line that is much longer than the page is wide, with words enough at its end for a second line on paper\n";

struct OnPaper : Selected {
  void openOnPaper() {
    openWith(kNotebook);
    window->resize(1280, 900);
    run(2);
    ASSERT_TRUE(wait([&] { return cell(2)->status() == protocol::CellStatus::Ok && !window->workspace().running(); }));
    cell(2)->showResult(3);
    ASSERT_TRUE(wait([&] { return cell(2)->tensorView()->model()->rowCount() == 8; }));
    ASSERT_TRUE(wait([&] { return cell(3)->formulaView() && !cell(3)->formulaView()->formulas().empty(); }));
    run(4);
    ASSERT_TRUE(wait([&] { return !window->workspace().running() && cell(4)->train() && cell(4)->train()->plot()->steps() > 0; }));
    // What is selected in the text is tinted there.
    window->notebook()->activate(cell(2)->id(), true);
    cell(2)->editor()->selectBytes(0, 1);
    ASSERT_TRUE(wait([&] { return !cell(2)->editor()->extraSelections().isEmpty() && window->workspace().idle(); }));
  }
  PdfMarks exported() {
    window->exportPdf(folder.filePath("out.pdf"));
    QFile file(folder.filePath("out.pdf"));
    return file.open(QIODevice::ReadOnly) ? marksOf(file.readAll()) : PdfMarks{};
  }
};

// With a box to choose among tensors before the values, a tinted word, a line longer than the page.
TEST_F(OnPaper, NothingThatIsDrawnIsCutAway) {
  openOnPaper();
  const PdfMarks marks = exported();
  ASSERT_FALSE(marks.pages.isEmpty());
  EXPECT_EQ(marks.lost('t'), 0u);
  EXPECT_EQ(marks.lost('i'), 0u);
  EXPECT_FALSE(marks.lossy) << "colours are values";
  std::size_t letters = 0, bars = 0;
  double widest = 0;
  for (const auto& mark : marks.marks) {
    if (!mark.seen) continue;
    letters += mark.kind == 't';
    bars += mark.kind == 'f' && mark.at.height() > 1 && mark.at.width() < 12;
    if (mark.kind == 'i') widest = std::max(widest, mark.at.width());
    EXPECT_GT(mark.at.left(), 40) << "the margin";
    EXPECT_LT(mark.at.left(), 555);
  }
  EXPECT_GT(letters, kNotebook.size() / 2);
  EXPECT_GT(widest, 50) << "the picture of the values";
  EXPECT_GT(bars, 10u) << "their histogram";
}

TEST_F(OnPaper, ItIsLightInDarkModeToo) {
  openOnPaper();
  const PdfMarks light = exported();
  theme.setMode(Theme::Mode::Dark);
  const PdfMarks dark = exported();
  EXPECT_EQ(theme.mode(), Theme::Mode::Dark);
  ASSERT_EQ(dark.pages.size(), light.pages.size());
  for (qsizetype i = 0; i < light.pages.size(); ++i) EXPECT_TRUE(dark.pages[i] == light.pages[i]) << i;
}

TEST_F(OnPaper, TheWindowIsAsItWas) {
  openOnPaper();
  window->notebook()->verticalScrollBar()->setValue(60);
  ExpressionEditor* editor = cell(2)->editor();
  auto* latex = cell(2)->findChild<QToolButton*>("copyLatex");
  ASSERT_TRUE(latex && latex->isVisible());
  std::vector<QRect> before;
  for (const CellView* v : window->notebook()->cells()) before.push_back(v->geometry());
  // What still arrives moves cells with or without an export.
  int same = 0;
  ASSERT_TRUE(wait([&] {
    std::vector<QRect> now;
    for (const CellView* v : window->notebook()->cells()) now.push_back(v->geometry());
    same = now == before ? same + 1 : 0;
    before = std::move(now);
    return same >= 20;
  }));
  window->notebook()->verticalScrollBar()->setValue(60);
  const QWidget* focused = QApplication::focusWidget();
  exported();
  EXPECT_TRUE(latex->isVisible());
  EXPECT_EQ(QApplication::focusWidget(), focused);
  EXPECT_EQ(editor->selectionBytes(), (std::pair<std::size_t, std::size_t>(0, 1)));
  EXPECT_FALSE(editor->extraSelections().isEmpty());
  EXPECT_FALSE(editor->isReadOnly());
  EXPECT_EQ(window->notebook()->verticalScrollBar()->value(), 60);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(cell(i)->geometry(), before[i]) << i;
  EXPECT_EQ(document().text(), kNotebook);
}

// A sheet has one width, whatever the window has, and holds as much at every size of the letters.
TEST_F(OnPaper, FromAWindowOfAnotherSizeItIsTheSame) {
  openOnPaper();
  const PdfMarks usual = exported();
  const int width = window->notebook()->viewport()->width();
  window->resize(1024, 700);
  ASSERT_TRUE(wait([&] { return window->notebook()->viewport()->width() < width; }));
  const PdfMarks narrow = exported();
  ASSERT_EQ(narrow.pages.size(), usual.pages.size());
  ASSERT_EQ(narrow.marks.size(), usual.marks.size());
  for (std::size_t i = 0; i < usual.marks.size(); ++i) ASSERT_EQ(narrow.marks[i].place(), usual.marks[i].place()) << i;
  EXPECT_EQ(window->notebook()->horizontalScrollBar()->maximum(), 0);
}

// Nobody has laid it out there for what is on the screen.
TEST_F(OnPaper, FromAnotherPageItIsTheSame) {
  openOnPaper();
  const PdfMarks author = exported();
  window->showPage(MainWindow::Page::Tune);
  const PdfMarks elsewhere = exported();
  ASSERT_EQ(elsewhere.pages.size(), author.pages.size());
  ASSERT_EQ(elsewhere.marks.size(), author.marks.size());
  for (std::size_t i = 0; i < author.marks.size(); ++i) {
    ASSERT_EQ(elsewhere.marks[i].place(), author.marks[i].place()) << i;
    ASSERT_EQ(elsewhere.marks[i].seen, author.marks[i].seen) << i;
  }
}

}  // namespace
}  // namespace nf
