// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "core/document/document.h"
#include "core/document/journal.h"

namespace nf {
namespace {

const char* const kNotebook = "# %% [markdown]\n# # Capsule\n# One operator.\n\n# %%\nlet B = 1\n\nY[i] = A[i]\n\n# %%\nshow Y\n";

std::vector<std::string> bodies(const Document& d) {
  std::vector<std::string> out;
  for (const Cell& c : d.cells()) out.emplace_back((c.kind == CellKind::Markdown ? "M:" : "C:") + std::string(d.body(c)));
  return out;
}

using Bodies = std::vector<std::string>;

TEST(Cells, AreSplitAtSeparatorLines) {
  const Document d(kNotebook);
  EXPECT_EQ(bodies(d), (Bodies{"M:# # Capsule\n# One operator.", "C:let B = 1\n\nY[i] = A[i]", "C:show Y"}));
}

TEST(Cells, TextBeforeTheFirstSeparatorIsACell) {
  EXPECT_EQ(bodies(Document("let a = 1\n# %%\nb\n")), (Bodies{"C:let a = 1", "C:b"}));
  EXPECT_EQ(bodies(Document("\n\n# %%\nb")), (Bodies{"C:b"}));
  EXPECT_EQ(bodies(Document("")), (Bodies{"C:"}));
  EXPECT_EQ(bodies(Document("# %%%\n # %%\nx # %%\n")), (Bodies{"C:# %%%\n # %%\nx # %%"}));
}

TEST(Cells, CoverTheTextWithoutGapOrOverlap) {
  std::mt19937_64 rng(11);
  const std::vector<std::string> pieces{"# %%\n", "# %% [markdown]\n",   "a = 1\n", "\n", "# text\n", "  \n", "# %%", "\r\n",
                                        "x",      "# %% [markdown] \r\n"};
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (auto n = rng() % 12; n > 0; --n) text += pieces[rng() % pieces.size()];
    std::size_t at = 0;
    for (const Cell& c : splitCells(text)) {
      EXPECT_EQ(c.begin, at) << text;
      EXPECT_LE(c.begin, c.bodyBegin);
      EXPECT_LE(c.bodyBegin, c.bodyEnd);
      EXPECT_LE(c.bodyEnd, c.end);
      at = c.end;
    }
    EXPECT_EQ(at, text.size()) << text;
  }
}

TEST(Markdown, RoundTripsWithItsEscape) {
  EXPECT_EQ(markdownOf("# # Title\n#\n# \\%% magic\n# text"), "# Title\n\n%% magic\ntext");
  for (const std::string text : {"", "a", "# Title\n\n%% magic\n\n- item", "\n\nx"})
    EXPECT_EQ(markdownOf(markdownToBody(text)), text);
}

TEST(Markdown, SeparatorsThatAreWrittenBeginCells) {
  const auto written = [](std::string_view text, std::string_view line, std::string_view newline = "\n") {
    const std::size_t at = text.find(line);
    return markdownToCells(text, at, at + line.size(), newline);
  };
  EXPECT_EQ(written("Hello\n# %%", "# %%"), "# Hello\n# %%");
  EXPECT_EQ(written("Hello\n\n# %%\nlet a = 3\n\n# more", "# %%"), "# Hello\n\n# %%\nlet a = 3\n\n# more");
  EXPECT_EQ(written("a\n# %% [markdown]\nb", "# %% [markdown]"), "# a\n# %% [markdown]\n# b");
  EXPECT_EQ(written("a\n# %%\nb", "# %%", "\r\n"), "# a\r\n# %%\r\nb");
  EXPECT_EQ(written("# %%", "# %%"), "# %%");
  // Headings that stand there already are none.
  EXPECT_EQ(written("# %%\nb", "b"), "# # %%\n# b");
  EXPECT_EQ(written("# %%\n# %%", "\n# %%"), "# %%\n# %%");
  EXPECT_EQ(written("# %%b\n%%", "%%"), markdownToBody("# %%b\n%%"));
}

TEST(Markdown, APlaceOfTheBodyIsOneOfTheField) {
  const std::string body = "# one\n#\n# \\%% two\nthree";
  const std::string field = markdownOf(body);
  ASSERT_EQ(field, "one\n\n%% two\nthree");
  EXPECT_EQ(markdownOffset(body, 0), 0u);
  EXPECT_EQ(markdownOffset(body, body.find("ne")), 1u);
  EXPECT_EQ(markdownOffset(body, body.find("two")), field.find("two"));
  EXPECT_EQ(markdownOffset(body, body.find("three") + 2), field.find("three") + 2);
  EXPECT_EQ(markdownOffset(body, body.size()), field.size());
  EXPECT_EQ(markdownOffset("", 0), 0u);
  for (std::size_t offset = 0; offset <= field.size(); ++offset)
    EXPECT_EQ(markdownOffset(body, bodyOffset(body, offset)), offset) << offset;
  EXPECT_EQ(bodyOffset("", 0), 0u);
}

TEST(Display, CountsUnitsOfEveryByte) {
  const std::string bytes = std::string("a\r\nä") + "\xff" + "𝛼\rΣ" + std::string(1, '\0') + "\xe2\x82";
  const std::u16string shown = displayText(bytes);
  EXPECT_EQ(shown, u"a\nä\ufffd𝛼\u240dΣ\u2400\ufffd\ufffd");
  for (std::size_t unit = 0; unit <= shown.size(); ++unit) {
    if (unit > 0 && unit < shown.size() && (shown[unit] & 0xfc00) == 0xdc00) continue;
    EXPECT_EQ(unitOffset(bytes, byteOffset(bytes, unit)), unit);
  }
  EXPECT_EQ(byteOffset(bytes, shown.size()), bytes.size());
}

TEST(Display, BytesThatAreNoTextKeepTheirPlace) {
  const std::string odd = "a\xff\xc3\xa9\xe2\x82\r\n\xf0\x9f\x99\x82\xc3";
  EXPECT_EQ(asUtf8(odd, '?'), "a?\xc3\xa9??\r\n\xf0\x9f\x99\x82?");
  EXPECT_EQ(asUtf8(odd), "a\x1a\xc3\xa9\x1a\x1a\r\n\xf0\x9f\x99\x82\x1a");
  EXPECT_EQ(asUtf8("plain"), "plain");
}

TEST(Document, TypingIsUndoneByTheWord) {
  Document d("# %%\n");
  std::size_t at = d.text().size();
  for (const char c : std::string("Y = A + B")) d.replace(at, at, std::string(1, c), "Typing", true), ++at;
  EXPECT_EQ(d.text(), "# %%\nY = A + B");
  d.undo();
  EXPECT_EQ(d.text(), "# %%\nY = A + ");
  while (d.canUndo()) d.undo();
  EXPECT_EQ(d.text(), "# %%\n");
  while (d.canRedo()) d.redo();
  EXPECT_EQ(d.text(), "# %%\nY = A + B");
}

// A Markdown cell's text has no blanks at the end of a line: they come with the word behind them.
TEST(Document, ABlankThatComesWithItsWordBeginsAStep) {
  Document d("# %% [markdown]\n# one");
  for (const char* typed : {" t", "w", "o", " t", "hree"}) d.replace(d.text().size(), d.text().size(), typed, "Typing", true);
  d.undo();
  EXPECT_EQ(d.text(), "# %% [markdown]\n# one two");
  d.undo();
  EXPECT_EQ(d.text(), "# %% [markdown]\n# one");
}

TEST(Document, SavedStateIsKnownThroughUndo) {
  Document d(kNotebook);
  EXPECT_FALSE(d.modified());
  d.replace(0, 0, "x", "Typing", true);
  d.markSaved();
  EXPECT_FALSE(d.modified());
  d.replace(1, 1, "y", "Typing", true);
  EXPECT_TRUE(d.modified());
  d.undo();
  EXPECT_FALSE(d.modified());
  EXPECT_EQ(d.text(), "x" + std::string(kNotebook));
  d.undo();
  EXPECT_TRUE(d.modified());
  d.replace(0, 0, "z", "Typing");
  d.undo();
  EXPECT_TRUE(d.modified()) << "the saved state is not in the history any more";
}

TEST(Document, CellsKeepTheirIdWhileOthersChange) {
  Document d(kNotebook);
  const auto ids = [&] {
    std::vector<CellId> out;
    for (const Cell& c : d.cells()) out.push_back(c.id);
    return out;
  };
  const auto before = ids();
  const Cell middle = d.cells()[1];
  d.replace(middle.bodyEnd, middle.bodyEnd, "\nZ[i] = Y[i]", "Typing", true);
  EXPECT_EQ(ids(), before);
  d.replace(d.cells()[0].bodyBegin, d.cells()[0].bodyEnd, "# x", "Edit");
  EXPECT_EQ(ids(), before);
  const CellId added = d.insertCell(1, CellKind::Code, "new");
  EXPECT_EQ(ids(), (std::vector<CellId>{before[0], added, before[1], before[2]}));
  d.moveCell(added, 3);
  EXPECT_EQ(ids(), (std::vector<CellId>{before[0], before[1], before[2], added}));
  d.removeCell(before[1]);
  EXPECT_EQ(ids(), (std::vector<CellId>{before[0], before[2], added}));
}

TEST(Document, ABlankLineFollowsWhatIsWrittenIntoANewCell) {
  Document d("# %%\nlet A = 1\n\n# %%\nlet B = 2\n");
  const CellId added = d.insertCell(1, CellKind::Code);
  const Cell cell = *d.cell(added);
  EXPECT_EQ(d.body(cell), "");
  d.replace(cell.bodyBegin, cell.bodyBegin, "let C = 3", "Typing", true);
  EXPECT_EQ(d.text(), "# %%\nlet A = 1\n\n# %%\nlet C = 3\n\n# %%\nlet B = 2\n");
  EXPECT_EQ(d.cells().size(), 3u);
}

TEST(Document, CellsThatComeBackHaveTheirIds) {
  Document d("# %%\nlet A = 1\n\n# %%\nlet B = 2\n\n# %%\nlet A = 1\n");
  const auto ids = [&] {
    std::vector<CellId> out;
    for (const Cell& c : d.cells()) out.push_back(c.id);
    return out;
  };
  const auto before = ids();
  const std::string text = d.text();
  for (const CellId id : before) {
    d.removeCell(id);
    EXPECT_EQ(ids().size(), 2u);
    const auto without = ids();
    d.undo();
    EXPECT_EQ(ids(), before) << id;
    d.redo();
    EXPECT_EQ(ids(), without) << id;
    d.undo();
    EXPECT_EQ(ids(), before) << id;
  }
  // Two at once, and what is cut and pasted elsewhere.
  d.removeCell(before[0]);
  d.removeCell(before[1]);
  d.undo();
  d.undo();
  EXPECT_EQ(ids(), before);
  EXPECT_EQ(d.text(), text);
  d.removeCell(before[1]);
  EXPECT_EQ(d.insertCell(2, CellKind::Code, "let B = 2"), before[1]);
  EXPECT_NE(d.insertCell(3, CellKind::Code, "let B = 2"), before[1]) << "it is there already";
  // Read again from disk, the cells that are the same are.
  d.reload("# %%\nlet C = 3\n\n" + text);
  const auto after = ids();
  ASSERT_EQ(after.size(), 4u);
  EXPECT_EQ(after[2], before[1]);
  std::string both = d.text();
  both.replace(both.find("let C = 3"), 9, "let C = 4");
  both.replace(both.find("let B = 2"), 9, "let B = 5");
  d.reload(both);
  EXPECT_EQ(ids(), after) << "other texts in the same places";
}

TEST(Document, SeveralPlacesAreOneStepAndTheCellsStay) {
  Document d("# %%\nlet W = 1\n\n# %%\nlet b = W + W\n\n# %%\nlet c = 3\n\n# %%\nlet d = W\n");
  const std::string before = d.text();
  const auto ids = [&] {
    std::vector<CellId> out;
    for (const Cell& c : d.cells()) out.push_back(c.id);
    return out;
  };
  const auto was = ids();
  std::vector<Document::Replacement> places;
  for (std::size_t at = before.find('W'); at != std::string::npos; at = before.find('W', at + 1))
    places.push_back({at, at + 1, "Wide"});
  ASSERT_EQ(places.size(), 4u);
  d.replaceAll(places, "Replace all");
  const std::string after = "# %%\nlet Wide = 1\n\n# %%\nlet b = Wide + Wide\n\n# %%\nlet c = 3\n\n# %%\nlet d = Wide\n";
  EXPECT_EQ(d.text(), after);
  EXPECT_EQ(ids(), was);
  d.undo();
  EXPECT_EQ(d.text(), before);
  EXPECT_EQ(ids(), was);
  EXPECT_FALSE(d.canUndo());
  d.redo();
  EXPECT_EQ(d.text(), after);
  EXPECT_EQ(ids(), was);
  d.replaceAll({}, "Replace all");
  EXPECT_EQ(d.text(), after);
}

TEST(Document, TheOnlyCellComesBackWithItsId) {
  Document d("let A = 1\n\n");
  const CellId id = d.cells().front().id;
  d.removeCell(id);
  ASSERT_EQ(d.cells().size(), 1u);
  const CellId empty = d.cells().front().id;
  EXPECT_NE(empty, id);
  // Typed again it is another one: what is typed in a cell is that cell's.
  d.replace(0, 0, "let A = 1", "Typing", true);
  EXPECT_EQ(d.cells().front().id, empty);
  d.undo();
  d.undo();
  EXPECT_EQ(d.cells().front().id, id);
  EXPECT_EQ(d.text(), "let A = 1\n\n");
  d.redo();
  EXPECT_EQ(d.text(), "");
  d.undo();
  EXPECT_EQ(d.cells().front().id, id);
}

TEST(Document, CellOperationsAreOneStepEachAndUndoToTheByte) {
  Document d(kNotebook);
  const CellId first = d.cells()[0].id, second = d.cells()[1].id, third = d.cells()[2].id;
  d.insertCell(0, CellKind::Markdown, "# above");
  EXPECT_EQ(bodies(d)[0], "M:# above");
  d.moveCell(third, 1);
  EXPECT_EQ(bodies(d)[1], "C:show Y");
  const CellId half = d.splitCell(second, 10);
  EXPECT_EQ(d.body(*d.cell(half)), "Y[i] = A[i]");
  d.joinWithNext(second);
  EXPECT_EQ(d.body(*d.cell(second)), "let B = 1\nY[i] = A[i]");
  d.setKind(first, CellKind::Code);
  EXPECT_EQ(d.body(*d.cell(first)), "# Capsule\nOne operator.");
  d.removeCell(second);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(d.undo().has_value());
  EXPECT_EQ(d.text(), kNotebook);
  EXPECT_FALSE(d.canUndo());
}

TEST(Document, AMarkdownCellIsSplitIntoTwo) {
  const std::string text = "# %% [markdown]\n# one two\n#\n# three\n\n# %%\nlet a = 1\n";
  Document d(text);
  const CellId id = d.cells()[0].id;
  const auto split = [&](std::string_view at) {
    const std::string body(d.body(*d.cell(id)));
    const CellId half = d.splitCell(id, bodyOffset(body, markdownOf(body).find(at)));
    EXPECT_EQ(d.cell(half)->kind, CellKind::Markdown);
    const Bodies now = bodies(d);
    EXPECT_TRUE(d.undo().has_value());
    EXPECT_EQ(d.text(), text);
    return now;
  };
  EXPECT_EQ(split("two"), (Bodies{"M:# one", "M:# two\n#\n# three", "C:let a = 1"}));
  EXPECT_EQ(split("three"), (Bodies{"M:# one two", "M:# three", "C:let a = 1"}));
}

TEST(Document, AnImplicitFirstCellGetsItsSeparatorWhenItMoves) {
  Document d("a = 1\n# %%\nb = 2");
  d.moveCell(d.cells()[0].id, 1);
  EXPECT_EQ(bodies(d), (Bodies{"C:b = 2", "C:a = 1"}));
}

TEST(Document, AnImplicitFirstCellStaysWhileItsTextGoes) {
  const std::string text = "a = 1\n# %%\nb = 2";
  Document d(text);
  const CellId first = d.cells()[0].id, second = d.cells()[1].id;
  const auto stays = [&](const Bodies& wanted) {
    EXPECT_EQ(bodies(d), wanted);
    ASSERT_EQ(d.cells().size(), 2u);
    EXPECT_EQ(d.cells()[0].id, first);
    EXPECT_EQ(d.cells()[1].id, second);
  };
  d.replace(0, 1, "", "Typing", true);
  stays({"C: = 1", "C:b = 2"});
  d.replace(0, 4, "", "Typing", true);
  stays({"C:", "C:b = 2"});
  d.replace(d.cells()[0].bodyBegin, d.cells()[0].bodyBegin, "x", "Typing", true);
  stays({"C:x", "C:b = 2"});
  while (d.undo()) stays(bodies(d));
  EXPECT_EQ(d.text(), text);
  // Below an empty cell there is a second one.
  Document empty("");
  empty.insertCell(1, CellKind::Code);
  EXPECT_EQ(empty.cells().size(), 2u);
}

TEST(Document, RandomEditsUndoToTheByteAndReplayOnAReplica) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    const std::string start = seed % 2 ? kNotebook : "a\r\n# %%\r\nb\r\n";
    Document d(start);
    std::string replica = start;
    const auto ids = [&] {
      std::vector<CellId> out;
      for (const Cell& c : d.cells()) out.push_back(c.id);
      return out;
    };
    const auto first = ids();
    d.edited = [&](const TextEdit& e) {
      ASSERT_EQ(replica.substr(e.begin, e.removed.size()), e.removed);
      replica.replace(e.begin, e.removed.size(), e.inserted);
      ASSERT_EQ(replica, d.text());
    };
    for (int i = 0; i < 200; ++i) {
      const auto& cells = d.cells();
      const CellId id = cells[rng() % cells.size()].id;
      switch (rng() % 10) {
        case 0:
          d.insertCell(rng() % (cells.size() + 1), rng() % 2 ? CellKind::Code : CellKind::Markdown, rng() % 2 ? "# t" : "");
          break;
        case 1: d.removeCell(id); break;
        case 2: d.moveCell(id, rng() % cells.size()); break;
        case 3: d.splitCell(id, rng() % 20); break;
        case 4: d.joinWithNext(id); break;
        case 5: d.setKind(id, rng() % 2 ? CellKind::Code : CellKind::Markdown); break;
        case 6: rng() % 2 ? d.undo() : d.redo(); break;
        default: {
          const std::size_t begin = rng() % (d.text().size() + 1);
          const std::size_t end = std::min(d.text().size(), begin + rng() % 6);
          const std::vector<std::string> texts{"", "x", "\n# %%\n", "# %% [markdown]\n", "\n"};
          d.replace(begin, end, texts[rng() % texts.size()], "Typing", rng() % 2);
        }
      }
      std::size_t at = 0;
      for (const Cell& c : d.cells()) {
        EXPECT_EQ(c.begin, at);
        EXPECT_NE(c.id, 0u);
        at = c.end;
      }
    }
    while (d.canRedo()) d.redo();
    std::vector<std::vector<CellId>> states{ids()};
    for (; d.canUndo(); states.push_back(ids())) d.undo();
    EXPECT_EQ(d.text(), start);
    EXPECT_EQ(ids(), first);
    for (; !states.empty(); states.pop_back()) {
      EXPECT_EQ(ids(), states.back());
      d.redo();
    }
  }
}

TEST(FusionHints, AreWrittenChangedAndTakenOut) {
  Document d(kNotebook);
  using Hint = Document::FusionHint;
  d.setFusionHint("Y", "d(L)/d(W)", Hint::Fuse);
  EXPECT_EQ(d.text(), std::string(kNotebook) + "\n# %%\nhint fuse Y, d(L)/d(W)\n");
  d.setFusionHint("A", "B", Hint::Split);
  EXPECT_EQ(d.cells().size(), 4u);
  EXPECT_EQ(d.body(d.cells()[3]), "hint fuse Y, d(L)/d(W)\nhint split A, B");
  EXPECT_EQ(d.fusionHint("Y", "d(L)/d(W)"), Hint::Fuse);
  d.setFusionHint("Y", "d(L)/d(W)", Hint::Split);
  EXPECT_EQ(d.fusionHint("Y", "d(L)/d(W)"), Hint::Split);
  d.setFusionHint("Y", "d(L)/d(W)", Hint::None);
  EXPECT_EQ(d.body(d.cells()[3]), "hint split A, B");
  for (int i = 0; i < 4; ++i) d.undo();
  EXPECT_EQ(d.text(), kNotebook);
}

// Parts of a gradient have names with a sign that begins a comment elsewhere.
TEST(FusionHints, NamesThatAreNoneOfTheLanguageStandInBackquotes) {
  using Hint = Document::FusionHint;
  Document d(kNotebook);
  d.setFusionHint("d(L)/d(A)#2", "d(L)/d(A)", Hint::Split);
  EXPECT_EQ(d.text(), std::string(kNotebook) + "\n# %%\nhint split `d(L)/d(A)#2`, d(L)/d(A)\n");
  EXPECT_EQ(d.fusionHint("d(L)/d(A)#2", "d(L)/d(A)"), Hint::Split);
  d.setFusionHint("d(L)/d(A)#2", "d(L)/d(A)", Hint::Fuse);
  EXPECT_NE(d.text().find("hint fuse `d(L)/d(A)#2`, d(L)/d(A)\n"), std::string::npos);
  d.setFusionHint("d(L)/d(A)#2", "d(L)/d(A)", Hint::None);
  EXPECT_EQ(d.text(), kNotebook);
  d.setFusionHint("d(L)/d(S.bias).square", "d(L)/d(A)", Hint::Split);
  EXPECT_NE(d.text().find("hint split `d(L)/d(S.bias).square`, d(L)/d(A)\n"), std::string::npos);
  d.undo();
  const std::string schedule = "{ kind = nest }";
  d.setScheduleHint("d(L)/d(S.bias).square", schedule);
  EXPECT_EQ(d.text(), std::string(kNotebook) + "\n# %%\nhint schedule `d(L)/d(S.bias).square` { kind = nest }\n");
  EXPECT_EQ(d.scheduleHint("d(L)/d(S.bias).square"), schedule);
  d.setScheduleHint("d(L)/d(S.bias).square", std::nullopt);
  EXPECT_EQ(d.text(), kNotebook);
  Document written("hint fuse `A` , B # a, b\nhint schedule `A` { kind = nest }\n");
  EXPECT_EQ(written.scheduleHint("A"), schedule);
  EXPECT_EQ(written.fusionHint("A", "B"), Hint::Fuse);
}

TEST(ScheduleHints, AreWrittenChangedAndTakenOut) {
  Document d(kNotebook);
  const std::string one = R"({"kind":"nest","knobs":{"tile":[8,{"a":1}]}})", two = R"({"kind":"nest","knobs":{"tile":[true]}})";
  EXPECT_FALSE(d.scheduleHint("Y"));
  d.setScheduleHint("Y", one);
  EXPECT_EQ(d.text(), std::string(kNotebook) + "\n# %%\nhint schedule Y " + one + "\n");
  d.setScheduleHint("d(L)/d(Y)", two);
  EXPECT_EQ(d.scheduleHint("Y"), one);
  EXPECT_EQ(d.scheduleHint("d(L)/d(Y)"), two);
  EXPECT_FALSE(d.scheduleHint("L"));
  d.setScheduleHint("Y", two);
  EXPECT_EQ(d.body(d.cells().back()), "hint schedule Y " + two + "\nhint schedule d(L)/d(Y) " + two);
  d.setScheduleHint("Y", std::nullopt);
  EXPECT_EQ(d.body(d.cells().back()), "hint schedule d(L)/d(Y) " + two);
  d.setScheduleHint("Y", std::nullopt);
  for (int i = 0; i < 4; ++i) d.undo();
  EXPECT_EQ(d.text(), kNotebook);

  // In words where they can say it, over several lines where they are many; the next hint joins them.
  Document words(kNotebook);
  words.setScheduleHint("Y", R"({"kind":"nest","knobs":{"tile":[8,8]},"version":1})");
  words.setScheduleHint(
      "Z", R"({"kind":"contraction","knobs":{"axes":"merged","epilogue":"apart","order":"columns","rows":"0:k*2 2:j*4",)"
           R"("unroll":8,"vectors":1},"version":1})");
  words.setScheduleHint("V", R"({"kind":"nest","knobs":{},"version":1})");
  EXPECT_EQ(words.text(), std::string(kNotebook) +
                              "\n# %%\nhint schedule Y { kind = nest; tile = [8, 8] }\nhint schedule Z {\n"
                              "  kind = contraction; axes = merged; epilogue = apart; order = columns\n"
                              "  rows = \"0:k*2 2:j*4\"; unroll = 8; vectors = 1\n}\nhint schedule V { kind = nest }\n")
      << words.text();
  words.setScheduleHint("Z", R"({"kind":"nest","knobs":{},"version":1})");
  EXPECT_EQ(words.scheduleHint("Z"), "{ kind = nest }");
  for (const char* name : {"Y", "Z", "V"}) words.setScheduleHint(name, std::nullopt);
  EXPECT_EQ(words.text(), kNotebook);

  // As a person may write it.
  Document by("# %%\nhint schedule   Y\t{\n  \"kind\": \"nest\",\n  \"knobs\": {}\n}  # mine\nhint schedule Z {\n");
  EXPECT_EQ(by.scheduleHint("Y"), "{\n  \"kind\": \"nest\",\n  \"knobs\": {}\n}");
  EXPECT_FALSE(by.scheduleHint("Z")) << "it has no end";
  by.setScheduleHint("Y", std::nullopt);
  EXPECT_EQ(by.text(), "# %%\nhint schedule Z {\n");
}

TEST(Document, GoesOnWithTheHistoryItIsGiven) {
  std::mt19937 random(5);
  Document d("# %%\nlet a = 1\n");
  for (int i = 0; i < 60; ++i) {
    const std::size_t begin = random() % (d.text().size() + 1), end = std::min(d.text().size(), begin + random() % 3);
    d.replace(begin, end, std::string(random() % 4, static_cast<char>('a' + i % 26)), "Typing", i % 2 == 0);
    if (i % 7 == 0) d.undo();
    if (i == 20) d.markSaved();
  }
  d.undo();
  Document again(d.text(), d.history(1 << 20), 9);
  EXPECT_EQ(again.revision(), 9u);
  EXPECT_EQ(again.modified(), d.modified());
  d.redo();
  again.redo();
  EXPECT_EQ(again.text(), d.text());
  while (d.canUndo()) {
    d.undo();
    again.undo();
    ASSERT_EQ(again.text(), d.text());
    ASSERT_EQ(again.modified(), d.modified());
  }
  EXPECT_FALSE(again.canUndo());
  // Cut to its newest steps it still undoes them.
  while (d.canRedo()) d.redo();
  Document some(d.text(), d.history(40), 1);
  EXPECT_TRUE(some.canUndo());
  while (some.canUndo()) {
    some.undo();
    d.undo();
    ASSERT_EQ(some.text(), d.text());
  }
  // One of another text is left out, and nothing counts as saved.
  Document other("short", d.history(1 << 20), 1);
  EXPECT_FALSE(other.canUndo() || other.canRedo());
  EXPECT_TRUE(other.modified());
}

// A hint's cell was made for it: it goes with its last hint, and what a person wrote into it stays.
TEST(Document, TheLastHintTakesItsCellAlong) {
  using Hint = Document::FusionHint;
  const std::string text = "# %%\nlet a = 1\n";
  Document d(text);
  d.setFusionHint("A", "B", Hint::Fuse);
  d.setScheduleHint("A", "{}");
  ASSERT_EQ(d.cells().size(), 2u);
  d.setFusionHint("A", "B", Hint::None);
  ASSERT_EQ(d.cells().size(), 2u);
  const std::string pinned = d.text();
  d.setScheduleHint("A", std::nullopt);
  EXPECT_EQ(d.cells().size(), 1u);
  EXPECT_EQ(d.text().find("hint"), std::string::npos);
  EXPECT_EQ(d.undoLabel(), "Unpin schedule");
  d.undo();
  EXPECT_EQ(d.text(), pinned);
  d.replace(d.text().size(), d.text().size(), "# kept for a reason\n", "Typing", true);
  d.setScheduleHint("A", std::nullopt);
  EXPECT_EQ(d.cells().size(), 2u);
  Document whole("hint fuse A, B\n");
  whole.setFusionHint("A", "B", Hint::None);
  EXPECT_EQ(whole.cells().size(), 1u);
}

TEST(Document, AHintThatWasTakenOutLeavesTheTextAsItWas) {
  for (const std::string text : {"# %%\nlet a = 1\n", "# %%\nlet a = 1\n\n", "# %%\r\nlet a = 1\r\n"}) {
    Document d(text);
    d.setScheduleHint("A", "{}");
    ASSERT_NE(d.text(), text);
    d.setScheduleHint("A", std::nullopt);
    EXPECT_EQ(d.text(), text);
    d.undo();
    d.undo();
    EXPECT_EQ(d.text(), text);
  }
}

TEST(Document, TakesNoEditWhileItIsReadOnly) {
  Document d("# %%\nlet a = 1\n\n# %%\nlet b = 2\n");
  d.replace(0, 0, "#", "Typing", true);
  d.setReadOnly(true);
  int refused = 0;
  d.refused = [&] { ++refused; };
  const std::string text = d.text();
  const auto revision = d.revision();
  d.replace(0, 1, "", "Edit");
  EXPECT_NE(d.cell(d.insertCell(2, CellKind::Code)), nullptr);
  d.removeCell(d.cells()[0].id);
  d.moveCell(d.cells()[0].id, 1);
  d.setKind(d.cells()[1].id, CellKind::Markdown);
  d.joinWithNext(d.cells()[0].id);
  EXPECT_EQ(refused, 6);
  d.setFusionHint("a", "b", Document::FusionHint::Fuse);
  d.setScheduleHint("a", "{}");
  EXPECT_EQ(refused, 8);
  EXPECT_FALSE(d.undo());
  EXPECT_EQ(d.text(), text);
  EXPECT_EQ(d.revision(), revision);
  d.reload("# %%\nlet c = 3\n");
  EXPECT_EQ(d.text(), "# %%\nlet c = 3\n");
  EXPECT_TRUE(d.readOnly());
}

TEST(Journal, RoundTripsAndATornOneIsRefused) {
  const Journal j{"/home/a b/c\n.nf", {1, 2}, 77, std::string("text\0\xff", 6), {{{{2, "\n3 ", ""}, "Typing", true}}, 1, 0}};
  const std::string bytes = toBytes(j);
  const auto back = journalFrom(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->path, j.path);
  EXPECT_EQ(back->text, j.text);
  EXPECT_EQ(back->onDisk, j.onDisk);
  EXPECT_EQ(back->revision, 77u);
  EXPECT_EQ(back->history, j.history);
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(journalFrom(std::string_view(bytes).substr(0, n)));
}

TEST(Diff, ShowsWhatChanged) {
  using K = DiffLine::Kind;
  EXPECT_EQ(diffLines("a\nb\nc\n", "a\nx\nc\nd\n"),
            (std::vector<DiffLine>{{K::Same, "a"}, {K::Removed, "b"}, {K::Added, "x"}, {K::Same, "c"}, {K::Added, "d"}}));
  EXPECT_TRUE(diffLines("", "").empty());
}

}  // namespace
}  // namespace nf
