// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>
#include <vector>

#include "core/protocol/values.h"
#include "widgets/theme.h"

class QGridLayout;

namespace nf {

// One row of a derivation. `pieces` flow in a line and break between, `lines` stand under one another, each with its reason.
struct DerivationRow {
  QString title;
  QStringList pieces;
  struct Line {
    QString text, note;
  };
  std::vector<Line> lines;
};

// Why the whole derivative is 0 by the rules; empty: it is not.
QString zeroByRule(const std::vector<protocol::GradientTermInfo>& terms);
// The proof of one of them has not ended.
bool isProving(const std::vector<protocol::GradientTermInfo>& terms);

// The steps of an inversion as a person reads them: the access as one equation, ranges gathered (0 ≤ p, q < 14), what repeats left
// out, dropped guards beside their reason. Text that is not understood stays as it is.
std::vector<DerivationRow> derivationRows(const protocol::GradientTermInfo& term);

// Numbered rows: title, formulas in a column.
class DerivationView : public QWidget {
  Q_OBJECT
 public:
  explicit DerivationView(const Theme* theme, QWidget* parent = nullptr);
  // With `headings`, the access and form of each term stand above its steps.
  void setTerms(const std::vector<protocol::GradientTermInfo>& terms, bool headings);
  int steps() const { return m_steps; }
  QString text() const;  // what is shown, for copying and for tests

 private:
  const Theme* m_theme;
  QGridLayout* m_grid;
  int m_steps = 0;
  QStringList m_text;
};

}  // namespace nf
