// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The notebook as a person edits it: one text, its cells, one history. Places are byte offsets; saving writes the text as it is.
namespace nf {

enum class CellKind : std::uint8_t { Code, Markdown };
using CellId = std::uint64_t;  // stays with a cell while edits go on around and inside it, and when it is deleted and comes back

struct Cell {
  CellId id = 0;
  CellKind kind = CellKind::Code;
  std::size_t begin = 0, end = 0;          // all of it, separator line included
  std::size_t bodyBegin = 0, bodyEnd = 0;  // without the separator line and the blank lines that follow
};

// Cells in order. A line that starts with `# %%`, at column 0 and followed by a blank or its end, starts one; `# %% [markdown]` a Markdown
// cell. Text before the first such line is a code cell when it is not empty; an empty text has one empty cell.
std::vector<Cell> splitCells(std::string_view text);

// Markdown cells are comments: `# ` before each line, and `# \%%` for a line that starts with %%.
std::string markdownOf(std::string_view body);
std::string markdownToBody(std::string_view markdown, std::string_view newline = "\n");
// The same of what is being written: separators among the lines that [from, to] touches begin cells, and what follows them is theirs.
std::string markdownToCells(std::string_view markdown, std::size_t from, std::size_t to, std::string_view newline = "\n");
std::size_t markdownOffset(std::string_view body, std::size_t byte);  // where a byte of the body stands in markdownOf()
std::size_t bodyOffset(std::string_view body, std::size_t offset);    // and where one of markdownOf() stands in the body

// A text field counts UTF-16 units and knows one kind of line end. displayText is what it shows, one unit for each byte that is no
// UTF-8, each lone carriage return and each zero; the offsets translate between it and the bytes, which thus survive untouched.
std::u16string displayText(std::string_view bytes);
// The same length, each byte that is no UTF-8 as `standIn`: for who takes only UTF-8 and speaks of places. ASCII's SUBSTITUTE says just
// that, also to the lexer.
std::string asUtf8(std::string_view bytes, char standIn = '\x1a');
std::size_t byteOffset(std::string_view bytes, std::size_t unit);
std::size_t unitOffset(std::string_view bytes, std::size_t byte);

// Bytes [begin, begin + removed.size()) became `inserted`.
struct TextEdit {
  std::size_t begin = 0;
  std::string removed, inserted;
  friend bool operator==(const TextEdit&, const TextEdit&) = default;
};

// The edits that made a text, oldest first; `done` of them are in force. `saved`: how many were when it was saved.
struct History {
  struct Step {
    TextEdit edit;
    std::string label;
    bool typing = false;
    friend bool operator==(const Step&, const Step&) = default;
  };
  std::vector<Step> steps;
  std::size_t done = 0;
  std::optional<std::size_t> saved = 0;
  friend bool operator==(const History&, const History&) = default;
};

class Document {
 public:
  // `revision` is that of the first text: a replica which has seen another document takes only newer ones.
  explicit Document(std::string text = {}, std::uint64_t revision = 1);
  // A text with the history that led to it. A history that does not fit the text is left out; no state of it is saved then.
  Document(std::string text, History history, std::uint64_t revision);

  const std::string& text() const { return m_text; }
  std::uint64_t revision() const { return m_revision; }  // one more with every edit, undone ones too
  void renew() { ++m_revision; }                         // the same text, to be looked at anew
  const std::vector<Cell>& cells() const { return m_cells; }
  const Cell* cell(CellId id) const;
  std::size_t indexOf(CellId id) const;  // cells().size() where there is none
  std::string_view body(const Cell& cell) const;
  std::string_view newline() const { return m_crlf ? "\r\n" : "\n"; }

  // Called after every edit, with text, cells and revision new already.
  std::function<void(const TextEdit&)> edited;
  // Called instead where a read-only document did not take an edit.
  std::function<void()> refused;

  // Bytes [begin, end) become `text`. `typing` joins the step to the one before where a person would call both one.
  void replace(std::size_t begin, std::size_t end, std::string_view text, std::string label, bool typing = false);
  // Several places at once as one step, in order and none within another; the cells keep their ids.
  struct Replacement {
    std::size_t begin = 0, end = 0;
    std::string text;
  };
  void replaceAll(const std::vector<Replacement>& places, std::string label);
  void reload(std::string text);  // the file changed outside; the history goes on
  // A read-only document takes no edit and undoes none; only reload() changes it.
  void setReadOnly(bool readOnly) { m_readOnly = readOnly; }
  bool readOnly() const { return m_readOnly; }

  CellId insertCell(std::size_t index, CellKind kind, std::string_view body = {});
  void removeCell(CellId id);
  void moveCell(CellId id, std::size_t toIndex);
  void setKind(CellId id, CellKind kind);
  CellId splitCell(CellId id, std::size_t byteInBody);  // the second half's id
  void joinWithNext(CellId id);

  // A person's decision on a fusion, as a `hint fuse A, B` or `hint split A, B` line: written, changed, or taken out.
  enum class FusionHint : std::uint8_t { None, Fuse, Split };
  void setFusionHint(std::string_view producer, std::string_view consumer, FusionHint hint);
  FusionHint fusionHint(std::string_view producer, std::string_view consumer) const;
  // A kernel's schedule kept by hand, as a `hint schedule A {..}`, in words where they can say it: written, changed, or, without `json`,
  // taken out.
  void setScheduleHint(std::string_view tensor, std::optional<std::string_view> json);
  std::optional<std::string> scheduleHint(std::string_view tensor) const;  // braces inclusive, as written
  // Of a step of the history, by its label: did setFusionHint(), did setScheduleHint() make it?
  static bool labelsFusionHint(std::string_view label);
  static bool labelsScheduleHint(std::string_view label);

  bool canUndo() const { return m_history.done > 0 && !m_readOnly; }
  bool canRedo() const { return m_history.done < m_history.steps.size() && !m_readOnly; }
  std::string undoLabel() const { return canUndo() ? m_history.steps[m_history.done - 1].label : std::string(); }
  std::string redoLabel() const { return canRedo() ? m_history.steps[m_history.done].label : std::string(); }
  std::optional<std::size_t> undo();  // where it changed something; nothing to undo: nullopt
  std::optional<std::size_t> redo();

  bool modified() const { return m_history.saved != m_history.done; }
  void markSaved();
  void markUnsaved() { m_history.saved.reset(); }  // no state of the history is on disk
  // The newest steps whose texts take `mostBytes` at most.
  History history(std::size_t mostBytes) const;

 private:
  struct Chunk {
    std::string text;
    CellId id;  // 0: a new one
  };
  // A cell that is no more, as it was when it went.
  struct Gone {
    CellId id;
    CellKind kind;
    std::string body;
  };
  void apply(const TextEdit& edit, const std::map<std::size_t, CellId>* kept = nullptr, bool travels = false);
  void resplit(const std::string& textBefore, const TextEdit& edit, const std::map<std::size_t, CellId>* kept, bool travels);
  void record(TextEdit edit, std::string label, bool typing);
  void leaveState();  // before the history's place changes
  void travel(const TextEdit& edit);
  void push(TextEdit edit, std::string label, bool typing);
  std::vector<Chunk> chunks() const;
  CellId restructure(std::vector<Chunk> chunks, std::string label, std::size_t wanted = 0);
  std::string separator(CellKind kind) const;
  struct HintLine {
    std::size_t begin, end;  // the line with its newline
    FusionHint hint;
  };
  std::optional<HintLine> findHint(std::string_view producer, std::string_view consumer) const;
  struct ScheduleLines {
    std::size_t begin, end;          // whole lines with the last newline
    std::size_t jsonBegin, jsonEnd;  // from `{` to `}`
  };
  std::optional<ScheduleLines> findScheduleHint(std::string_view tensor) const;
  void addHint(const std::string& line, const std::string& label);
  // With its cell, where nothing else stands in it.
  void removeHint(std::size_t begin, std::size_t end, const std::string& label);

  std::string m_text;
  std::vector<Cell> m_cells;
  std::vector<Gone> m_gone;  // the last ones
  std::uint64_t m_revision = 1;
  CellId m_nextId = 1;
  bool m_crlf = false;
  History m_history;
  // Of the state after so many steps: the ids of its cells. Null: one that an earlier program came to.
  std::vector<std::shared_ptr<const std::vector<CellId>>> m_idsOf;
  bool m_readOnly = false;
};

}  // namespace nf
