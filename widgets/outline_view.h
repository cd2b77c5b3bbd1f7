// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QVariant>
#include <QWidget>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/document/document.h"
#include "core/protocol/message.h"
#include "widgets/selection.h"
#include "widgets/theme.h"

class QLineEdit;
class QTreeWidget;
class QTreeWidgetItem;

namespace nf {

class WrappedLabel;

// Cells, tensors, functions, devices by name, with a filter; a click goes there and selects.
class OutlineView : public QWidget {
  Q_OBJECT
 public:
  OutlineView(const Theme* theme, Selection* selection, QWidget* parent = nullptr);
  struct CellLine {
    CellId id;
    QString title, state;
    enum class Kind { Text, Code } kind;
    int status;  // protocol::CellStatus, or -1 where nothing is known
  };
  void setCells(const std::vector<CellLine>& cells, CellId active);
  // Tensors and functions of `analysis`; the `missing` are those that a mistake hides: greyed.
  void setNames(const protocol::Analysis& analysis, const std::set<std::string>& missing = {});
  void setDevices(const protocol::Devices& devices);
  QTreeWidget* tree() const { return m_tree; }
  QLineEdit* filterField() const { return m_filter; }
  QString nothing() const;  // said while no name has what the filter says; empty: one has

 Q_SIGNALS:
  void cellOpened(nf::CellId id);  // by a double click or Enter: to write in it
  void cellChosen(CellId id);
  void tensorOpened(const QString& name);
  void tensorChosen(const QString& name);
  void functionOpened(const QString& name);  // of the standard library
  void placeChosen(std::uint32_t byte);
  void deviceChosen();

 private:
  // A row as it is drawn: equal rows keep their items.
  struct Row {
    QString text, icon, detail, tip;
    QVariant value;
    int kind = 0;
    Shade shade = nullptr;
    bool mono = false, gone = false, selectable = true;
    bool operator==(const Row&) const = default;
  };
  QTreeWidgetItem* section(const QString& title);
  void fill(QTreeWidgetItem* section, std::vector<Row>& shown, std::vector<Row> rows);
  static void write(QTreeWidgetItem* item, const Row& row);
  void setCount(QTreeWidgetItem* section);
  void filter(QTreeWidgetItem* section);
  void applyFilter();
  void sayNothing();
  void markSelection();

  const Theme* m_theme;
  Selection* m_selection;
  QLineEdit* m_filter;
  WrappedLabel* m_nothing;
  QTreeWidget* m_tree;
  QTreeWidgetItem *m_cells, *m_tensors, *m_functions, *m_devices;
  std::vector<Row> m_cellRows, m_tensorRows, m_functionRows;       // of the items there are
  std::vector<std::pair<std::string, protocol::Origins>> m_named;  // of the tensors
};

// What a cell that defines these is called: three of them at most, those that a person named before parts that have names of their own,
// `P.sum`; where there are more, losses and evals, which are results, first.
QString cellTitle(const std::vector<std::string>& defines, const std::function<bool(const std::string& name)>& isResult);

}  // namespace nf
