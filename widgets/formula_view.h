// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QWidget>

#include "widgets/formula_layout.h"
#include "widgets/selection.h"

class QScrollBar;

namespace nf {

// Formulas under one another; the parts that the selection led to are tinted, a click selects all that a part is made of.
// A formula wider than the view is broken into lines; one that cannot be is scrolled sideways.
class FormulaView : public QWidget {
  Q_OBJECT
 public:
  FormulaView(const Theme* theme, Selection* selection, QWidget* parent = nullptr);
  void setFormulas(std::vector<protocol::Formula> formulas);
  const std::vector<protocol::Formula>& formulas() const { return m_formulas; }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {120, sizeHint().height()}; }
  // The innermost part at a place: formula and node; nullopt: none.
  std::optional<std::pair<std::size_t, std::uint32_t>> partAt(QPointF at) const;
  bool tinted(std::size_t formula, std::uint32_t node) const { return formula < m_tinted.size() && m_tinted[formula][node]; }
  QScrollBar* scrollBar() const { return m_scroll; }
  void setOnPaper(bool onPaper);  // one that is wider than the page is set smaller; nothing is tinted

 Q_SIGNALS:
  void heightChanged();

 protected:
  void paintEvent(QPaintEvent*) override;
  void mousePressEvent(QMouseEvent*) override;
  void mouseMoveEvent(QMouseEvent*) override;
  void leaveEvent(QEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void wheelEvent(QWheelEvent*) override;

 private:
  bool isOperator(std::size_t formula, std::uint32_t node) const;
  protocol::Origins originsWithin(std::size_t formula, std::uint32_t node) const;
  protocol::Origins chosenBy(std::size_t formula, std::uint32_t node) const;
  void layOut();
  void findTinted();
  void leaveOtherResults();
  void leaveOtherLosses();
  void placeScrollBar();
  const Theme* m_theme;
  Selection* m_selection;
  QScrollBar* m_scroll;
  std::vector<protocol::Formula> m_formulas;
  std::vector<std::vector<bool>> m_tinted;  // by formula and node
  std::vector<FormulaBox> m_boxes;
  std::vector<QPointF> m_origins;
  std::optional<std::pair<std::size_t, std::uint32_t>> m_hovered;
  QSize m_content{0, 0};
  bool m_onPaper = false;
};

}  // namespace nf
