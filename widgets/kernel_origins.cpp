// SPDX-License-Identifier: GPL-3.0-or-later
// What the lines of KernelView came from: the tokens they are tagged with, the places in functions that they were written out from.
#include <Qsci/qsciscintilla.h>
#include <Qsci/qscistyle.h>

#include <QPlainTextEdit>
#include <QRegularExpression>
#include <QTextBlock>
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "widgets/kernel_view.h"

namespace nf {
namespace {

constexpr int kTagStyle = 50;  // QScintilla gives away the numbers from 63 down once, and none when they are used up
constexpr std::size_t kMostTags = 9;

QString withoutSpaces(const QString& text, std::vector<int>* places = nullptr) {
  QString out;
  for (int i = 0; i < text.size(); ++i) {
    if (text[i].isSpace()) continue;
    out += text[i];
    if (places) places->push_back(i);
  }
  return out;
}

}  // namespace

bool KernelView::holds(std::uint32_t outer, std::uint32_t inner) const {
  const auto& spans = m_selection->spans();
  if (outer >= spans.size() || inner >= spans.size()) return false;
  const auto &a = spans[outer], &b = spans[inner];
  return a.source == b.source && a.begin <= b.begin && a.end >= b.end && a.end - a.begin > b.end - b.begin;
}

// A line has first what it does itself, then what that reads. Chosen are the tokens of the statement that does it, of one that is one call
// the statement; where a function was written out its statement there, whose calls are all that the function makes, else the largest part
// of one.
protocol::Origins KernelView::chosenByLine(const protocol::Origins& line) const {
  const auto& spans = m_selection->spans();
  protocol::Origins origins = ownOf(line);
  std::erase_if(origins, [&](std::uint32_t o) { return o >= spans.size(); });
  const auto isCall = [this](std::uint32_t o) { return m_selection->isCall(o); };
  const auto isWithin = [&](std::uint32_t inner, std::uint32_t outer) { return inner == outer || holds(outer, inner); };
  const auto isStatement = [&](std::uint32_t o) { return m_spanText && m_spanText(spans[o]).contains(QLatin1Char('=')); };
  const auto first = std::ranges::find_if_not(origins, isCall);
  if (first == origins.end()) return m_selection->innermost(origins);
  if (!isInBody(*first)) {
    const auto next = std::find_if_not(first + 1, origins.end(), isCall);
    if (isStatement(*first) && next != origins.end() && isInBody(*next)) return {*first};
    std::optional<std::uint32_t> statement;  // the smallest
    for (std::uint32_t o = 0; o < spans.size(); ++o)
      if (isWithin(*first, o) && isStatement(o) && (!statement || holds(*statement, o))) statement = o;
    protocol::Origins tokens;
    for (const std::uint32_t o : origins)
      if (!isInBody(o) && !isCall(o) && isWithin(o, statement.value_or(*first))) tokens.push_back(o);
    return m_selection->innermost(tokens);
  }
  // What holds a call stands for all that the other function makes.
  protocol::Origins places;
  for (const std::uint32_t o : origins)
    if (isInBody(o) && !isCall(o) && std::ranges::none_of(origins, [&](std::uint32_t k) { return isCall(k) && holds(o, k); }))
      places.push_back(o);
  if (places.empty()) return {*first};
  std::optional<std::uint32_t> written;
  const auto rank = [&](std::uint32_t o) {
    return std::tuple(isWithin(places.front(), o), isStatement(o), spans[o].end - spans[o].begin);
  };
  for (const std::uint32_t o : places)
    if (std::ranges::none_of(places, [&](std::uint32_t k) { return holds(k, o); }) && (!written || rank(o) > rank(*written)))
      written = o;
  return {*written};
}

// Where the operator is written that a line of the expression is.
protocol::Origins KernelView::chosenByBlock(std::size_t block) const {
  const protocol::Origins own = ownOf(m_kernel.expressionOrigins[block]);
  const protocol::Origins bodies = bodiesOfBlock(block);
  protocol::Origins statements = own;
  std::erase_if(statements, [this](std::uint32_t o) { return m_selection->isCall(o) || isInBody(o); });
  if (!statements.empty()) return statements;
  // A call is all that its function makes.
  const auto isOfCall = [&](const protocol::Origins& line) {
    return std::ranges::any_of(own, [&](std::uint32_t o) { return std::ranges::find(line, o) != line.end(); });
  };
  return bodies.empty() || std::ranges::count_if(m_kernel.expressionOrigins, isOfCall) == 1 ? own : chosenByLine(bodies);
}

protocol::Origins KernelView::ownOf(const protocol::Origins& origins) const {
  if (m_instances.size() < 2) return origins;
  const auto& spans = m_selection->spans();
  const auto within = [&](std::uint32_t a, std::uint32_t b) {
    return a < spans.size() && b < spans.size() && spans[a].source == spans[b].source && spans[a].begin >= spans[b].begin &&
           spans[a].end <= spans[b].end;
  };
  protocol::Origins own;
  for (const std::uint32_t o : origins)
    if (std::ranges::any_of(m_instances[static_cast<std::size_t>(m_instance)].origins,
                            [&](std::uint32_t place) { return within(o, place) || within(place, o); }) ||
        isInBody(o))
      own.push_back(o);
  return own.empty() ? origins : own;
}

std::unique_ptr<Selection> KernelView::selectionOf(const protocol::Origins& places) const {
  auto selection = std::make_unique<Selection>();
  selection->setSpans(m_selection->spans());
  selection->select(places);
  return selection;
}

std::unique_ptr<Selection> KernelView::calledInBody() const {
  const protocol::Origins& written = m_selection->written();
  return m_selection->byPlace() || written.empty() ? nullptr : selectionOf(written);
}

protocol::Origins KernelView::placesOfBlock(std::size_t block) const {
  return block < m_kernel.expressionPlaces.size() ? m_kernel.expressionPlaces[block] : protocol::Origins();
}

std::unique_ptr<Selection> KernelView::selectedInBody() const {
  protocol::Origins chosen;
  // The calls that are selected with a place are of all that they make.
  for (const std::uint32_t o : m_selection->body().empty() ? m_selection->origins() : m_selection->body())
    if (isInBody(o)) chosen.push_back(o);
  if (chosen.empty()) return nullptr;
  auto places = selectionOf(chosen);
  if (!m_selection->body().empty()) return places;
  const bool any = std::ranges::any_of(
      m_lines, [&](const ShownLine& line) { return places->relation(line.origins) == Selection::Relation::Exact; });
  return any ? std::move(places) : nullptr;
}

std::string KernelView::madeBy(const QString& line) {
  QString name = line.left(line.indexOf(QStringLiteral(" ="))).section(QLatin1Char('['), 0, 0).remove(QLatin1Char('`'));
  if (name.startsWith(QLatin1Char('@'))) name = name.section(QLatin1Char(' '), 1);
  return name.trimmed().toStdString();
}

bool KernelView::makesCalled(std::size_t block) const {
  if (m_selection->byPlace() || m_instance != 0) return false;
  const std::string made = madeBy(m_expression->document()->findBlockByNumber(static_cast<int>(block)).text());
  return m_selection->isCalled(made) && std::ranges::find(m_operators, made) != m_operators.end();
}

bool KernelView::isWrittenAs(std::uint32_t statement) const {
  const auto& spans = m_selection->spans();
  if (!m_spanText || statement >= spans.size()) return false;
  const std::string name = madeBy(m_spanText(spans[statement]));
  const QStringList lines = QString::fromStdString(m_kernel.expression).split(QLatin1Char('\n'));
  for (std::size_t i = 0; i < m_kernel.expressionOrigins.size() && i < static_cast<std::size_t>(lines.size()); ++i)
    if (std::ranges::find(m_kernel.expressionOrigins[i], statement) != m_kernel.expressionOrigins[i].end() &&
        madeBy(lines[static_cast<qsizetype>(i)]) == name)
      return true;
  return false;
}

// Operators that compute one thing are one, which came from all their statements: its tags are those of the statement that is selected,
// else of the one that the expression has the name of.
void KernelView::keepOneOfEqual(const std::set<std::uint32_t>& statements) {
  m_equal.clear();
  std::map<std::uint32_t, std::vector<const Tag*>> tags;  // by statement, as they stand in the text
  for (const Tag& tag : m_tags)
    for (const std::uint32_t s : statements)
      if (holds(s, tag.origin)) tags[s].push_back(&tag);
  // Each statement has its own name and its own indices.
  const auto& spans = m_selection->spans();
  const auto wordOf = [&](const Tag& tag) {
    const auto names = [&](std::uint32_t s) { return s < spans.size() && spans[s].begin == spans[tag.origin].begin; };
    return std::ranges::any_of(statements, names) ? QString() : tag.text.left(tag.text.indexOf(QLatin1Char('[')));
  };
  const auto equal = [&](const std::vector<const Tag*>& a, const std::vector<const Tag*>& b) {
    return std::ranges::equal(a, b, [&](const Tag* x, const Tag* y) {
      return x->origin != y->origin && wordOf(*x) == wordOf(*y) && x->lines == y->lines;
    });
  };
  const auto oneOperator = [&](std::uint32_t a, std::uint32_t b) {
    return !holds(a, b) && !holds(b, a) && std::ranges::any_of(m_kernel.expressionOrigins, [&](const protocol::Origins& line) {
      return std::ranges::find(line, a) != line.end() && std::ranges::find(line, b) != line.end();
    });
  };
  std::set<std::uint32_t> gone;  // tags by origin
  std::set<std::uint32_t> seen;
  for (const auto& [first, own] : tags) {
    if (!seen.insert(first).second) continue;
    std::vector<std::uint32_t> same{first};
    for (const auto& [other, theirs] : tags)
      if (!seen.contains(other) && oneOperator(first, other) && equal(own, theirs)) same.push_back(other), seen.insert(other);
    if (same.size() < 2) continue;
    const auto selected = std::ranges::find_if(
        same, [&](std::uint32_t s) { return !m_selection->empty() && m_selection->relation({s}) != Selection::Relation::None; });
    // The expression has the name of one of them.
    const auto written = std::ranges::find_if(same, [&](std::uint32_t s) { return isWrittenAs(s); });
    const std::uint32_t named = written == same.end() ? first : *written, shown = selected == same.end() ? named : *selected;
    m_equal.push_back({shown, shown != named});
    for (const std::uint32_t s : same)
      if (s != shown)
        for (const Tag* tag : tags[s]) gone.insert(tag->origin);
  }
  std::erase_if(m_tags, [&](const Tag& tag) { return gone.contains(tag.origin); });
}

// Tokens of the source that lines came from: accesses, names, signs that are words. A statement that holds them says less, and the
// expression's line selects it; a number says nothing beside the access that it is a part of.
void KernelView::findTags() {
  m_tags.clear();
  std::map<std::uint32_t, std::vector<int>> lines;
  for (std::size_t i = 0; i < m_lines.size(); ++i)
    for (const std::uint32_t origin : ownOf(m_lines[i].origins))
      if (auto& places = lines[origin]; places.empty() || places.back() != static_cast<int>(i))
        places.push_back(static_cast<int>(i));
  const auto& spans = m_selection->spans();
  std::erase_if(lines, [&](const auto& entry) { return entry.first >= spans.size(); });
  std::set<std::uint32_t> statements;
  for (const auto& origins : m_kernel.expressionOrigins) statements.insert(origins.begin(), origins.end());
  const auto named = [](const QString& text) {
    return std::any_of(text.begin(), text.end(), [](QChar c) { return c.isLetter(); });
  };
  std::map<std::uint32_t, QString> texts;
  for (const auto& [origin, places] : lines) texts[origin] = m_spanText ? m_spanText(spans[origin]).simplified() : QString();
  for (const auto& [origin, places] : lines) {
    const QString& text = texts[origin];
    const auto other = [&](const auto& relation) {
      return std::any_of(texts.begin(), texts.end(), [&](const auto& t) { return relation(t.first, t.second); });
    };
    const std::uint32_t o = origin;
    if ((statements.contains(o) || isInBody(o) || text.contains(QLatin1Char('{'))) &&
        other([&](std::uint32_t k, const QString& t) { return holds(o, k) && named(t); }))
      continue;
    const bool number = !named(text);
    if (number && (std::none_of(text.begin(), text.end(), [](QChar c) { return c.isDigit(); }) ||
                   other([&](std::uint32_t k, const QString&) { return holds(k, o) && !statements.contains(k); })))
      continue;
    m_tags.push_back({o, text, places, -1, -1});
  }
  std::stable_sort(m_tags.begin(), m_tags.end(), [&](const Tag& a, const Tag& b) {
    return std::pair(spans[a.origin].source, spans[a.origin].begin) < std::pair(spans[b.origin].source, spans[b.origin].begin);
  });
  // A parameter that is called what it is given says nothing beside that.
  std::set<std::uint32_t> repeated;
  for (const Tag& tag : m_tags)
    if (isInBody(tag.origin) && !tag.text.contains(QLatin1Char('[')) && std::ranges::any_of(m_tags, [&](const Tag& other) {
          return other.origin != tag.origin && !repeated.contains(other.origin) && other.text == tag.text &&
                 other.lines == tag.lines;
        }))
      repeated.insert(tag.origin);
  std::erase_if(m_tags, [&](const Tag& tag) { return repeated.contains(tag.origin); });
  keepOneOfEqual(statements);
  // Many lines come from few tokens: those are worth a number. Accesses have theirs always.
  while (m_tags.size() > kMostTags) {
    const auto least = std::min_element(m_tags.begin(), m_tags.end(), [](const Tag& a, const Tag& b) {
      return std::pair(a.text.contains(QLatin1Char('[')), a.lines.size()) <
             std::pair(b.text.contains(QLatin1Char('[')), b.lines.size());
    });
    if (least->text.contains(QLatin1Char('['))) break;
    m_tags.erase(least);
  }
  std::vector<int> places;
  const QString expression = withoutSpaces(m_expression->toPlainText(), &places);
  // Of two words that a space or the end of a line parts.
  const auto isParted = [&](qsizetype at) {
    return places[static_cast<std::size_t>(at)] != places[static_cast<std::size_t>(at - 1)] + 1;
  };
  // A statement has the tokens of its own places.
  const auto ofBlock = [&](std::uint32_t origin, int at) {
    const auto block =
        static_cast<std::size_t>(m_expression->document()->findBlock(places[static_cast<std::size_t>(at)]).blockNumber());
    if (block >= m_kernel.expressionOrigins.size() || m_kernel.expressionOrigins[block].empty()) return true;
    const protocol::Origins written = isInBody(origin) ? bodiesOfBlock(block) : protocol::Origins();
    if (!written.empty()) return std::ranges::find(written, origin) != written.end();
    return std::ranges::any_of(m_kernel.expressionOrigins[block], [&](std::uint32_t whole) {
      return whole == origin || (whole < spans.size() && (holds(whole, origin) || holds(origin, whole)));
    });
  };
  // What stands left of the sign of equality is what the statement makes, not what it reads: `c` of c = g*c, which the loop has as `c#1`.
  const auto isLeftOfOther = [&](std::uint32_t origin, int at) {
    const QTextBlock line = m_expression->document()->findBlock(places[static_cast<std::size_t>(at)]);
    const QString before = line.text().left(places[static_cast<std::size_t>(at)] - line.position());
    if (!before.isEmpty() && !(before.startsWith(QLatin1Char('@')) && before.indexOf(QLatin1Char(' ')) + 1 == before.size()))
      return false;
    const auto block = static_cast<std::size_t>(line.blockNumber());
    if (block >= m_kernel.expressionOrigins.size()) return false;
    const auto begins = [&](std::uint32_t s) {
      return s < spans.size() && spans[s].source == spans[origin].source && spans[s].begin == spans[origin].begin;
    };
    const protocol::Origins& statements = m_kernel.expressionOrigins[block];
    return !statements.empty() && !isInBody(origin) && std::ranges::none_of(statements, begins);
  };
  // Whole words: a `1` is none of `10`, of `1.5` or of an extent.
  const auto find = [&](std::uint32_t origin, const QString& wanted, qsizetype begin) {
    const auto joins = [](QChar c) { return c.isLetterOrNumber() || c == QLatin1Char('_') || c == QLatin1Char('.'); };
    for (qsizetype at = wanted.isEmpty() ? -1 : expression.indexOf(wanted, begin); at >= 0;
         at = expression.indexOf(wanted, at + 1)) {
      const qsizetype end = at + wanted.size();
      const bool extent = at > 0 && expression[at - 1] == QLatin1Char(':');  // whatever stands between the two
      const bool before = at > 0 && joins(wanted.front()) && (extent || (!isParted(at) && joins(expression[at - 1])));
      const bool after = end < expression.size() && !isParted(end) && joins(wanted.back()) && joins(expression[end]);
      if (!before && !after && ofBlock(origin, static_cast<int>(at)) && !isLeftOfOther(origin, static_cast<int>(at)))
        return static_cast<int>(at);
    }
    return -1;
  };
  const auto place = [&](Tag& tag, int begin, int end) {
    tag.begin = places[static_cast<std::size_t>(begin)];
    tag.end = places[static_cast<std::size_t>(end - 1)] + 1;
  };
  int from = 0;
  for (Tag& tag : m_tags) {
    QString wanted = withoutSpaces(tag.text);
    // `X[i - 1] else 0` stands there as a choice between the two.
    if (!expression.contains(wanted)) wanted = wanted.left(wanted.lastIndexOf(QLatin1Char(']')) + 1);
    int at = find(tag.origin, wanted, from);
    if (at < 0) at = find(tag.origin, wanted, 0);
    if (at < 0) continue;
    from = at + static_cast<int>(wanted.size());
    place(tag, at, from);
  }
  // Passes write indices in another way, p*2 + r as 2*p + r: then it is the access to that tensor that no other tag has taken.
  for (Tag& tag : m_tags) {
    if (tag.begin >= 0 || tag.text.isEmpty()) continue;
    const qsizetype bracket = tag.text.indexOf(QLatin1Char('['));
    // A reduction within an expression is an operator of its own, P.sum of `exp(sum[k] ..)`.
    const QString name = bracket > 0 ? withoutSpaces(tag.text.left(bracket + 1)) : QLatin1Char('.') + tag.text + QLatin1Char('[');
    // What a loop carries has a number where a step reads it.
    const QRegularExpression numbered(QLatin1Char('`') + QRegularExpression::escape(name.chopped(1)) +
                                      QStringLiteral("#[0-9]+`\\["));
    const auto next = [&](int from) {
      if (const int at = bracket > 0 ? find(tag.origin, name, from) : -1; at >= 0) return at;
      for (qsizetype at = bracket > 0 ? expression.indexOf(numbered, from) : -1; at >= 0; at = expression.indexOf(numbered, at + 1))
        if (ofBlock(tag.origin, static_cast<int>(at))) return static_cast<int>(at);
      if (bracket > 0) return -1;
      for (qsizetype at = expression.indexOf(name, from); at >= 0; at = expression.indexOf(name, at + 1))
        if (ofBlock(tag.origin, static_cast<int>(at))) return static_cast<int>(at);
      return -1;
    };
    for (int found = next(0); found >= 0; found = next(found + 1)) {
      int at = found;
      const QRegularExpressionMatch carried = bracket > 0 ? numbered.match(expression, found, QRegularExpression::NormalMatch,
                                                                           QRegularExpression::AnchorAtOffsetMatchOption)
                                                          : QRegularExpressionMatch();
      while (bracket <= 0 && at > 0 && !isParted(at) &&
             (expression[at - 1].isLetterOrNumber() || QStringLiteral("_.#").contains(expression[at - 1])))
        --at;
      int end = found + static_cast<int>(carried.hasMatch() ? carried.capturedLength() : name.size()), open = 1;
      for (; end < expression.size() && open > 0; ++end)
        open += expression[end] == QLatin1Char('[') ? 1 : expression[end] == QLatin1Char(']') ? -1 : 0;
      const int begin = places[static_cast<std::size_t>(at)];
      if (open > 0 || std::ranges::any_of(m_tags, [&](const Tag& other) { return other.begin == begin; })) continue;
      place(tag, at, end);
      break;
    }
  }
  const Palette& c = m_theme->colors();
  const QsciStyle style(kTagStyle, QStringLiteral("tag"), c.accent, c.page, m_theme->mono(11));
  QFont small = m_theme->mono(11);
  small.setPointSizeF(11 * 72.0 / std::max(1, logicalDpiY()));
  QsciStyle drawn(style);
  drawn.setFont(small);
  m_code->clearMarginText();
  bool any = false;
  for (std::size_t i = 0; i < m_lines.size(); ++i) {
    QStringList numbers;
    for (std::size_t t = 0; t < m_tags.size(); ++t)
      if (std::binary_search(m_tags[t].lines.begin(), m_tags[t].lines.end(), static_cast<int>(i)))
        numbers << QString::number(t + 1);
    QString text = numbers.size() > 3 ? numbers.mid(0, 3).join(QString()) + QChar(0x2026) : numbers.join(QString());
    if (m_lines[i].kind == DiffLine::Kind::Added) text += QStringLiteral(" +");
    if (m_lines[i].kind == DiffLine::Kind::Removed) text += QStringLiteral(" -");
    if (text.isEmpty()) continue;
    any = true;
    m_code->setMarginText(static_cast<int>(i), text + QLatin1Char(' '), drawn);
  }
  m_code->setMarginWidth(kTagMargin, any ? QStringLiteral("0000 + ") : QString());
}

}  // namespace nf
