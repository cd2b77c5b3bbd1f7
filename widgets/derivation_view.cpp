// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/derivation_view.h"

#include <QGridLayout>
#include <QLabel>
#include <QRegularExpression>
#include <QVBoxLayout>
#include <set>

#include "widgets/basic.h"
#include "widgets/wrapped_label.h"

namespace nf {
namespace {

using protocol::DerivationStep;

QString pretty(QString text) {
  return text.replace(QLatin1String("<="), QStringLiteral("≤")).replace(QLatin1String(">="), QStringLiteral("≥"));
}

// A short one stays on one line; a long one would be cut where there is no room for it.
QString unbroken(QString text) {
  constexpr qsizetype kShort = 18;
  return text.size() > kShort ? text : text.replace(QLatin1Char(' '), QChar(0xa0));
}

// A long word without a blank breaks behind its signs.
QString breakable(const QString& text) {
  constexpr int kLong = 18;
  const QString signs = QStringLiteral(",;)]*+");
  QString out;
  int word = 0;
  for (const QChar c : text) {
    out += c;
    word = c == QLatin1Char(' ') ? 0 : word + 1;
    if (word < kLong || !signs.contains(c)) continue;
    out += QChar(0x200b);
    word = 0;
  }
  return out;
}

struct Range {
  QString name;
  qint64 low, high;  // inclusive
  QString note;
};

std::optional<Range> rangeOf(const QString& line) {
  static const QRegularExpression form(QStringLiteral(R"(^(-?\d+) <= ([^\s<>=]+) <= (-?\d+)(?:\s+\((.*)\))?$)"));
  const auto match = form.match(line);
  if (!match.hasMatch()) return std::nullopt;
  return Range{match.captured(2), match.captured(1).toLongLong(), match.captured(3).toLongLong(), match.captured(4)};
}

// Neighbours of one extent share their bounds: 0 ≤ p, q < 14.
QStringList gathered(const std::vector<Range>& ranges) {
  QStringList out;
  for (std::size_t i = 0; i < ranges.size();) {
    QStringList names;
    std::size_t k = i;
    for (; k < ranges.size() && ranges[k].low == ranges[i].low && ranges[k].high == ranges[i].high; ++k) names << ranges[k].name;
    out << QStringLiteral("%1 ≤ %2 < %3").arg(ranges[i].low).arg(names.join(QStringLiteral(", "))).arg(ranges[i].high + 1);
    i = k;
  }
  return out;
}

DerivationRow accessRow(const DerivationStep& step, std::set<QString>& known) {
  static const QRegularExpression component(QStringLiteral(R"(^(\S+) = (.+), 0 <= \1 < (\d+)$)"));
  DerivationRow row{QObject::tr("Access"), {}, {}};
  QStringList indices, shape, others;
  QString letter;  // of w0, w1, ..
  std::vector<Range> ranges;
  for (const std::string& text : step.lines) {
    const QString line = QString::fromStdString(text);
    if (const auto match = component.match(line); match.hasMatch()) {
      letter = match.captured(1).remove(QRegularExpression(QStringLiteral("\\d+$")));
      indices << match.captured(2);
      shape << match.captured(3);
    } else if (const auto range = rangeOf(line)) {
      ranges.push_back(*range);
      known.insert(line);
    } else {
      others << pretty(line);
      known.insert(line);
    }
  }
  if (!indices.isEmpty()) {
    row.lines.push_back({QStringLiteral("%1 = (%2)").arg(letter, indices.join(QStringLiteral(", "))), {}});
    row.lines.push_back({QStringLiteral("0 ≤ %1 < (%2)").arg(letter, shape.join(QStringLiteral(", "))), {}});
  }
  row.pieces = gathered(ranges) + others;
  return row;
}

DerivationRow systemRow(const DerivationStep& step, const std::set<QString>& known) {
  DerivationRow row{QObject::tr("System"), {}, {}};
  for (const std::string& text : step.lines) {
    const QString line = QString::fromStdString(text);
    if (known.contains(line)) continue;
    const auto range = rangeOf(line);
    if (!range) {
      row.pieces << pretty(line);
      continue;
    }
    row.pieces << gathered({*range});
    if (!range->note.isEmpty()) row.pieces << pretty(range->note).replace(QLatin1String(" is "), QLatin1String(" = "));
  }
  return row;
}

// "z0 >= 0   (s0 >= 0): always true" is a guard, what it was before, and why it may go. Those that go for one reason stand together.
DerivationRow droppedRow(const DerivationStep& step) {
  static const QRegularExpression form(QStringLiteral(R"(^(.*?)\s{2,}\((.*)\): (.*)$)"));
  DerivationRow row{QObject::tr("Dropped"), {}, {}};
  std::vector<QString> reasons;  // by line; empty: not understood
  for (const std::string& text : step.lines) {
    const QString line = QString::fromStdString(text);
    const auto match = form.match(line);
    if (!match.hasMatch()) {
      row.lines.push_back({pretty(line), {}});
      reasons.emplace_back();
      continue;
    }
    const QString guard = pretty(match.captured(1)), reason = match.captured(3);
    const auto same = std::find(reasons.begin(), reasons.end(), reason);
    if (same == reasons.end()) {
      row.lines.push_back({guard, QStringLiteral("%1: %2").arg(pretty(match.captured(2)), reason)});
      reasons.push_back(reason);
    } else {
      auto& together = row.lines[static_cast<std::size_t>(same - reasons.begin())];
      together.text += QStringLiteral("   ") + unbroken(guard);
      together.note = reason;
    }
  }
  return row;
}

DerivationRow guardsRow(const DerivationStep& step) {
  static const QRegularExpression form(QStringLiteral(R"(^(.*?)\s{2,}\((.*)\)$)"));
  DerivationRow row{QObject::tr("Guards"), {}, {}};
  for (const std::string& text : step.lines) {
    const QString line = QString::fromStdString(text);
    const auto match = form.match(line);
    row.lines.push_back({pretty(match.hasMatch() ? match.captured(1) : line), match.hasMatch() ? match.captured(2) : QString()});
  }
  return row;
}

// "t1: 2 runs over r in steps of 2, 0 <= r <= 2" is an axis of two, over r by twos.
DerivationRow axesRow(const DerivationStep& step) {
  static const QRegularExpression form(QStringLiteral(R"(^(\S+): (\d+) runs over (\S+?)(?: in steps of (\d+))?(?:, (.*))?$)"));
  DerivationRow row{QObject::tr("Free axes"), {}, {}};
  for (const std::string& text : step.lines) {
    const QString line = QString::fromStdString(text);
    const auto match = form.match(line);
    if (!match.hasMatch()) {
      row.lines.push_back({pretty(line), {}});
      continue;
    }
    const QString over = match.captured(4).isEmpty() ? QObject::tr("over %1").arg(match.captured(3))
                                                     : QObject::tr("over %1 by %2").arg(match.captured(3), match.captured(4));
    row.pieces << QStringLiteral("%1 < %2 %3").arg(match.captured(1), match.captured(2), over);
  }
  return row;
}

}  // namespace

QString zeroByRule(const std::vector<protocol::GradientTermInfo>& terms) {
  QString why;
  for (const auto& t : terms) {
    if (!addsNothing(t.form)) return {};
    // That of the whole derivative, which has no access of its own, before those of the loads that are cut off.
    if (why.isEmpty() || t.access == t.tensor) why = QString::fromStdString(t.why);
  }
  return why;
}

bool isProving(const std::vector<protocol::GradientTermInfo>& terms) {
  return std::any_of(terms.begin(), terms.end(), [](const protocol::GradientTermInfo& t) {
    return !addsNothing(t.form) && t.certificate == protocol::CertificateState::Checking;
  });
}

std::vector<DerivationRow> derivationRows(const protocol::GradientTermInfo& term) {
  std::vector<DerivationRow> rows;
  std::set<QString> known;
  bool guards = false, solved = false;
  for (const DerivationStep& step : term.derivation) {
    DerivationRow row;
    if (step.title == "Access") {
      row = accessRow(step, known);
    } else if (step.title == "Linear system") {
      row = systemRow(step, known);
    } else if (step.title == "Solution") {
      row.title = QObject::tr("Solution");
      for (const std::string& text : step.lines) row.pieces << pretty(QString::fromStdString(text));
      solved = true;
    } else if (step.title == "Free axes") {
      row = axesRow(step);
    } else if (step.title == "Guards that stay") {
      row = guardsRow(step);
      guards = true;
    } else if (step.title == "Guards dropped") {
      row = droppedRow(step);
    } else if (step.title == "Inverse") {
      continue;  // the free axes, guards and solution above, in one line
    } else {
      row.title = QString::fromStdString(step.title);
      for (const std::string& text : step.lines) row.lines.push_back({pretty(QString::fromStdString(text)), {}});
    }
    if (!row.pieces.isEmpty() || !row.lines.empty()) rows.push_back(std::move(row));
  }
  if (solved && !guards) {
    const auto after = std::find_if(rows.begin(), rows.end(), [](const DerivationRow& r) {
      return r.title == QObject::tr("Dropped") || r.title == QLatin1String("Certificate") || r.title == QLatin1String("Cost");
    });
    rows.insert(after, DerivationRow{QObject::tr("Guards"), {QObject::tr("none")}, {}});
  }
  return rows;
}

DerivationView::DerivationView(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_grid(new QGridLayout(this)) {
  m_grid->setContentsMargins(0, 0, 0, 0);
  m_grid->setHorizontalSpacing(8);
  m_grid->setVerticalSpacing(6);
  m_grid->setColumnMinimumWidth(0, 12);
  m_grid->setColumnMinimumWidth(1, 66);
  m_grid->setColumnStretch(2, 1);
  setAccessibleName(tr("Derivation"));
}

void DerivationView::setTerms(const std::vector<protocol::GradientTermInfo>& terms, bool headings) {
  while (QLayoutItem* item = m_grid->takeAt(0)) {
    if (QWidget* widget = item->widget()) widget->hide(), widget->deleteLater();
    delete item;
  }
  m_text.clear();
  m_steps = 0;
  int at = 0;
  const auto words = [&](const QString& text, bool note) {
    auto* l = new WrappedLabel(breakable(text), note ? "muted" : nullptr);
    l->setFont(note ? m_theme->ui(12) : m_theme->mono(12));
    l->setTextInteractionFlags(Qt::TextSelectableByMouse);
    QSizePolicy policy(QSizePolicy::Ignored, QSizePolicy::Minimum);
    policy.setHeightForWidth(true);
    l->setSizePolicy(policy);
    l->setMinimumWidth(60);
    m_text << text;
    return l;
  };
  for (const auto& term : terms) {
    const std::vector<DerivationRow> rows = derivationRows(term);
    if (rows.empty() && !headings) continue;
    if (headings) {
      const QString form = term.form == protocol::GradientForm::Gather    ? tr("gather")
                           : term.form == protocol::GradientForm::Scatter ? tr("scatter")
                           : term.form == protocol::GradientForm::Empty   ? tr("empty")
                                                                          : tr("zero");
      QString text =
          QStringLiteral("%1: %2 of %3").arg(QString::fromStdString(term.result), form, QString::fromStdString(term.access));
      if (term.form == protocol::GradientForm::Gather && term.certificate == protocol::CertificateState::Proved)
        text += tr(", proved in %1").arg(microsecondsText(term.certificateMs * 1000));
      if (term.certificate == protocol::CertificateState::Checking) text += tr(", its proof under way");
      if (!term.why.empty()) text += QStringLiteral(", ") + QString::fromStdString(term.why);
      auto* heading = words(text, false);
      heading->setFont(m_theme->mono(12, QFont::DemiBold));
      m_grid->addWidget(heading, at++, 0, 1, 3);
    }
    int number = 0;
    for (const DerivationRow& row : rows) {
      ++m_steps;
      auto* index = label(QString::number(++number));
      index->setFont(m_theme->ui(12, QFont::DemiBold));
      index->setProperty("role", QStringLiteral("accent"));
      auto* title = label(row.title, "muted");
      title->setFont(m_theme->ui(12));
      title->setWordWrap(true);
      // What a step is called breaks: the room is for what it says.
      title->setFixedWidth(static_cast<int>(QFontMetricsF(title->font()).horizontalAdvance(QStringLiteral("Certificate"))) + 6);
      m_text << row.title;
      m_grid->addWidget(index, at, 0, Qt::AlignTop);
      m_grid->addWidget(title, at, 1, Qt::AlignTop);
      auto* cell = new QWidget;
      auto* lines = new QVBoxLayout(cell);
      lines->setContentsMargins(0, 0, 0, 0);
      lines->setSpacing(1);
      for (const auto& line : row.lines) {
        lines->addWidget(words(line.text, false));
        if (!line.note.isEmpty()) lines->addWidget(words(line.note, true));
      }
      if (!row.pieces.isEmpty()) {
        QStringList pieces;
        for (const QString& piece : row.pieces) pieces << unbroken(piece);
        lines->addWidget(words(pieces.join(QStringLiteral(";   ")), false));
      }
      m_grid->addWidget(cell, at++, 2, Qt::AlignTop);
    }
  }
}

QString DerivationView::text() const { return QString(m_text.join(QLatin1Char('\n'))).replace(QChar(0xa0), QLatin1Char(' ')); }

}  // namespace nf
