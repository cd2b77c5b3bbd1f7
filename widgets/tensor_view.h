// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QAbstractTableModel>
#include <QWidget>
#include <vector>

#include "core/protocol/message.h"
#include "widgets/theme.h"

class QHBoxLayout;
class QLabel;
class QSpinBox;
class QStackedWidget;
class QTableView;

namespace nf {

// Two axes of a slice: rows by columns.
class TensorModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;
  void set(std::vector<double> values, int rows, int columns);
  int rowCount(const QModelIndex& = {}) const override { return m_rows; }
  int columnCount(const QModelIndex& = {}) const override { return m_columns; }
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<double> m_values;
  int m_rows = 0, m_columns = 0;
};

// The values of a tensor: picture, table, histogram, counts of what is no number. The last two axes are shown, the others are chosen.
class TensorView : public QWidget {
  Q_OBJECT
 public:
  explicit TensorView(const Theme* theme, bool compact, QWidget* parent = nullptr);
  // Before values are there: which tensor, and its shape.
  void setTensor(const QString& name, const std::vector<std::int64_t>& shape);
  void setSlice(const protocol::TensorSlice& slice, std::vector<double> values);
  QString tensor() const { return m_name; }
  // What to ask for now: the whole of the last two axes at the chosen place.
  protocol::TensorRequest request() const;
  const TensorModel* model() const { return m_model; }
  void setMode(int mode);  // 0: image, 1: table

 Q_SIGNALS:
  void sliceWanted();

 private:
  class Image;
  class Histogram;
  void showChoices();
  const Theme* m_theme;
  QString m_name;
  std::vector<std::int64_t> m_shape;
  std::vector<QSpinBox*> m_places;
  QHBoxLayout* m_choices;
  QLabel* m_facts;
  QLabel* m_none;
  QStackedWidget* m_stack;
  Image* m_image;
  Histogram* m_histogram;
  QTableView* m_table;
  TensorModel* m_model;
};

// -scale..scale as blue, white, orange; grey for what is no number.
QColor diverging(double value, double scale);

}  // namespace nf
