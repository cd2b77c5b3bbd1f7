// SPDX-License-Identifier: GPL-3.0-or-later
// A window of 1024 x 700: nothing is cut at its edges.
#include <qcustomplot.h>

#include <QAbstractButton>
#include <QComboBox>
#include <QDockWidget>
#include <QHeaderView>
#include <QLabel>
#include <QScrollBar>
#include <QStackedWidget>
#include <QTableWidget>

#include "tests/workbench/selected.h"
#include "widgets/basic.h"
#include "widgets/elided_combo.h"
#include "widgets/message_bar.h"
#include "widgets/plots.h"
#include "widgets/swap_list.h"
#include "widgets/tensor_view.h"
#include "widgets/train_strip.h"

namespace nf {
namespace {

struct NarrowWindow : Selected {
  void openNarrow(const std::string& text) {
    openWith(text);
    window->resize(1024, 700);
  }
  QDockWidget* panel(const char* id) { return window->findChild<QDockWidget*>(QStringLiteral("author.") + QLatin1String(id)); }
  // What stands out of the notebook's page at the right.
  QStringList cut() {
    const QWidget* page = window->notebook()->viewport();
    QStringList out;
    for (const QWidget* w : page->findChildren<QWidget*>()) {
      const bool small = qobject_cast<const QAbstractButton*>(w) || qobject_cast<const QComboBox*>(w) ||
                         qobject_cast<const TabRow*>(w) || qobject_cast<const QLabel*>(w);
      const int right = w->mapTo(page, QPoint(w->width(), 0)).x();
      if (small && w->isVisible() && right > page->width())
        out << QStringLiteral("%1 %2: %3 of %4")
                   .arg(QString::fromLatin1(w->metaObject()->className()), w->accessibleName())
                   .arg(right)
                   .arg(page->width());
    }
    return out;
  }
};

// Words that have not the room that they take, and buttons without their word.
QStringList clipped(const QWidget* page) {
  QStringList out;
  for (const QWidget* w : page->findChildren<QWidget*>()) {
    if (!w->isVisible()) continue;
    const auto* words = qobject_cast<const QLabel*>(w);
    const auto* button = qobject_cast<const QAbstractButton*>(w);
    const bool elides = qobject_cast<const ElidedLabel*>(w);
    bool cut = false;
    if (words && !words->text().isEmpty()) {
      const int wide = w->hasHeightForWidth() ? w->minimumSizeHint().width() : w->sizeHint().width();
      const int high = w->hasHeightForWidth() ? w->heightForWidth(w->width()) : w->sizeHint().height();
      cut = (!elides && w->width() < wide) || w->height() < high;
    } else if (button && !button->text().isEmpty()) {
      cut = w->width() < w->sizeHint().width() || w->height() < w->sizeHint().height();
    } else if (qobject_cast<const TabRow*>(w)) {
      cut = w->height() < w->heightForWidth(w->width());
    }
    if (cut)
      out << QStringLiteral("%1 \"%2\": %3 x %4")
                 .arg(QString::fromLatin1(w->metaObject()->className()), words    ? words->text()
                                                                         : button ? button->text()
                                                                                  : w->accessibleName())
                 .arg(w->width())
                 .arg(w->height());
  }
  return out;
}

// All that is read in a notebook grows; none of it leaves its column.
TEST_F(NarrowWindow, LargerTextIsThatOfEveryPanelAndStaysInItsColumn) {
  std::string text = capsule::kText;
  text.insert(text.find("# %%\nloss"), "# %%\nZ[i] = nowhere[i]\n\n");
  write(text);
  openChecked();
  run(4);
  ASSERT_TRUE(wait([&] { return cell(4)->train() && !cell(4)->train()->running() && cell(4)->train()->plot()->steps() == 100; }));
  cell(3)->showResult(3);
  const QWidget* page = window->notebook()->viewport();
  const auto smaller = [&](int px) {
    QStringList out;
    for (const QWidget* w : page->findChildren<QWidget*>()) {
      const auto* words = qobject_cast<const QLabel*>(w);
      const auto* button = qobject_cast<const QAbstractButton*>(w);
      const QString text = words ? words->text() : button ? button->text() : QString();
      if (w->isVisible() && !text.isEmpty() && w->font().pixelSize() < px) out << text;
    }
    return out;
  };
  for (int step = 0; step <= 4; ++step) {
    if (step > 0) QTest::keyClick(window->notebook(), Qt::Key_Plus, Qt::ControlModifier);
    const QStringList small = smaller(qRound(12 * window->textScale()));
    EXPECT_TRUE(small.isEmpty()) << step << ": " << small.join('\n').toStdString();
    EXPECT_EQ(cell(4)->train()->plot()->plot()->xAxis->tickLabelFont().pixelSize(), qRound(11 * window->textScale())) << step;
    const QTableWidget* swaps = cell(4)->train()->swaps()->table();
    EXPECT_EQ(swaps->horizontalHeader()->viewport()->font().pixelSize(), qRound(13 * window->textScale())) << step;
    const auto fits = [&] { return swaps->horizontalHeader()->length() <= swaps->viewport()->width(); };
    for (const QSize size : {QSize(1600, 1000), QSize(1024, 700)}) {
      window->resize(size);
      EXPECT_TRUE(wait([&] {
        return window->size() == size && window->notebook()->horizontalScrollBar()->maximum() == 0 && fits() && cut().isEmpty() &&
               clipped(page).isEmpty();
      })) << step
          << " " << size.width() << ": " << (cut() + clipped(page)).join('\n').toStdString();
    }
  }
}

TEST_F(NarrowWindow, AResultWithAChoiceOfTensorsFitsItsPage) {
  const std::string name = "encoder_attention_query_projected";
  openNarrow("# %%\nlet N = 8\ninput X[N, N] = normal(0, 1)\nparam W[N, N] = normal(0, 1)\n" + name +
             "[i, j] = sum[k] X[i, k] * W[k, j]\nloss L = mean[i, j] " + name + "[i, j]^2\nshow " + name + ", d(L)/d(W)\n");
  ASSERT_TRUE(wait([&] { return !panel("outline")->isVisible(); }));
  window->action("view.outline")->trigger();
  run(0);
  ASSERT_TRUE(wait([&] { return cell(0)->status() != protocol::CellStatus::Running; }));
  cell(0)->showResult(3);
  ASSERT_TRUE(wait([&] { return cell(0)->tensorView() && cell(0)->tensorView()->model()->rowCount() == 8; }));
  const auto* choice = dynamic_cast<ElidedCombo*>(cell(0)->findChild<QComboBox*>());
  ASSERT_TRUE(choice && wait([&] { return choice->isVisible(); }));
  EXPECT_TRUE(wait([&] { return cut().isEmpty(); })) << cut().join('\n').toStdString();
  EXPECT_LE(window->minimumSizeHint().width(), 1024);
  EXPECT_TRUE(choice->shown().startsWith("encoder") && choice->shown().endsWith("projected")) << choice->shown().toStdString();
  EXPECT_NE(choice->shown().toStdString(), name);
  // What wraps gets the height that it needs, however often the width changes.
  const auto overlaps = [&] {
    const auto* values = cell(0)->tensorView();
    const auto* facts = values->findChild<QLabel*>(QStringLiteral("facts"));
    const auto* pictures = values->findChild<QStackedWidget*>();
    return !facts->isVisible() || facts->geometry().intersects(pictures->geometry()) ||
           facts->geometry().bottom() >= values->height() || facts->height() < facts->heightForWidth(facts->width());
  };
  for (const int width : {1024, 900, 1300, 1024}) {
    window->resize(width, 700);
    EXPECT_TRUE(wait([&] { return !overlaps(); })) << width;
  }
  // Where there is room for both the choice stands beside the tabs.
  QCoreApplication::processEvents();
  if (!panel("outline")->isVisible()) window->action("view.outline")->trigger();
  const auto* tabs = cell(0)->findChild<TabRow*>();
  EXPECT_TRUE(wait([&] { return choice->y() > tabs->geometry().bottom(); }));
  window->resize(1600, 1000);
  EXPECT_TRUE(wait([&] { return choice->x() > tabs->geometry().right(); }));
  EXPECT_LT(choice->y(), tabs->geometry().bottom());
}

// Beside code of a readable width: the outline gives way first, the inspector for larger text; by hand each is as it is wanted.
TEST_F(NarrowWindow, PanelsFoldWhereThereIsNoRoomForTheCode) {
  openChecked();
  const auto shown = [&] {
    QStringList out;
    for (const char* id : {"outline", "inspector"})
      if (panel(id)->isVisible()) out << id;
    return out.join(' ');
  };
  const auto at = [&](int width, const char* panels) {
    window->resize(width, 700);
    QCoreApplication::processEvents();
    return wait([&] { return window->width() == width && shown() == panels; });
  };
  const auto open = [&](const QString& name) {
    for (QAbstractButton* b : window->findChildren<QAbstractButton*>())
      if (b->isVisible() && b->accessibleName() == "Open " + name) return b;
    return static_cast<QAbstractButton*>(nullptr);
  };
  ASSERT_TRUE(at(1600, "outline inspector"));
  EXPECT_FALSE(open("Outline"));
  ASSERT_TRUE(at(1024, "inspector"));
  EXPECT_GE(window->notebook()->width(), 520);
  for (int i = 0; i < 3; ++i) QTest::keyClick(window->notebook(), Qt::Key_Plus, Qt::ControlModifier);
  ASSERT_TRUE(wait([&] { return shown().isEmpty(); })) << shown().toStdString();
  EXPECT_GE(window->notebook()->width(), 780);
  ASSERT_TRUE(at(1600, "outline inspector"));
  window->action("view.zoomReset")->trigger();
  ASSERT_TRUE(at(1024, "inspector"));
  // Opened by hand it stays, until there was room for all.
  ASSERT_TRUE(open("Outline"));
  QTest::mouseClick(open("Outline"), Qt::LeftButton);
  ASSERT_TRUE(wait([&] { return shown() == "outline inspector" && !open("Outline"); }));
  ASSERT_TRUE(at(1060, "outline inspector")) << shown().toStdString() << " " << window->width();
  ASSERT_TRUE(at(1600, "outline inspector"));
  ASSERT_TRUE(at(1024, "inspector"));
  // Put away by hand it stays away.
  window->action("view.inspector")->trigger();
  ASSERT_TRUE(wait([&] { return shown() == "outline"; })) << "there is room for one";
  ASSERT_TRUE(at(1600, "outline"));
  EXPECT_FALSE(open("Inspector"));
}

// What is said about a notebook and its engine has the room that there is.
TEST_F(NarrowWindow, NothingThatIsSaidMakesTheWindowWider) {
  openNarrow("# %%\nlet N = 8\n");
  const auto keepsItsSize = [&] {
    QCoreApplication::processEvents();
    return window->minimumSizeHint().width() <= 1024 && window->size() == QSize(1024, 700);
  };
  window->action("file.new")->trigger();
  ASSERT_TRUE(wait([&] { return window->workspace().analysisIsKnown(); }));
  QLabel* state = nullptr;
  for (QLabel* l : window->findChildren<QLabel*>())
    if (l->text() == "not saved yet") state = l;
  ASSERT_TRUE(state);
  EXPECT_TRUE(keepsItsSize()) << window->minimumSizeHint().width();
  for (const char* words : {"read-only", "changed on disk", "cannot be written", "deleted on disk"}) {
    state->setText(words);
    EXPECT_TRUE(keepsItsSize()) << words << window->minimumSizeHint().width();
  }
  window->findChild<MessageBar*>()->ask("long", QString(400, QLatin1Char('x')) + " cannot be written.", {"Save as", "Leave it"});
  EXPECT_TRUE(keepsItsSize()) << window->minimumSizeHint().width();
}

TEST_F(NarrowWindow, ALongNameOfANotebookGivesWay) {
  openNarrow("# %%\nlet N = 8\n");
  const QString longer = folder.filePath(QStringLiteral("a_notebook_with_rather_a_long_name_for_its_file.nf"));
  ASSERT_TRUE(QFile::copy(path(), longer));
  window->openFile(longer);
  document().replace(0, 0, "# %%\nlet M = 9\n\n", "Edit");
  QCoreApplication::processEvents();
  for (const auto page : {MainWindow::Page::Author, MainWindow::Page::Explain, MainWindow::Page::Tune, MainWindow::Page::Devices}) {
    window->showPage(page);
    EXPECT_LE(window->minimumSizeHint().width(), 1024) << static_cast<int>(page);
  }
}

}  // namespace
}  // namespace nf
