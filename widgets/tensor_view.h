// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QAbstractTableModel>
#include <QWidget>
#include <vector>

#include "core/protocol/message.h"
#include "widgets/theme.h"

class QLabel;
class QSpinBox;
class QStackedWidget;
class QTableView;

namespace nf {

class ElidedLabel;
class TabRow;
class WrapLayout;
class WrappedLabel;

// Two axes of a slice: rows by columns.
class TensorModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;
  // `scale`: what is coloured fully; `page`: the ground that colours are mixed into. The first row and column have these numbers.
  void set(std::vector<double> values, int rows, int columns, double scale = 0, const QColor& page = {}, std::int64_t firstRow = 0,
           std::int64_t firstColumn = 0);
  std::int64_t firstRow() const { return m_firstRow; }
  std::int64_t firstColumn() const { return m_firstColumn; }
  void setPage(const QColor& page);
  void setWhole(bool whole);  // integers and truth values: without decimals
  int rowCount(const QModelIndex& = {}) const override { return m_rows; }
  int columnCount(const QModelIndex& = {}) const override { return m_columns; }
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<double> m_values;
  int m_rows = 0, m_columns = 0;
  std::int64_t m_firstRow = 0, m_firstColumn = 0;
  double m_scale = 0;
  bool m_whole = false;
  QColor m_page;
};

// The values of a tensor: picture, table, histogram, counts of what is no number. The last two axes are shown, the others are chosen.
// What has no axes is its number.
class TensorView : public QWidget {
  Q_OBJECT
 public:
  explicit TensorView(const Theme* theme, bool compact, QWidget* parent = nullptr);
  // Before values are there: which tensor, and its shape.
  void setTensor(const QString& name, const std::vector<std::int64_t>& shape);
  void setSlice(const protocol::TensorSlice& slice, std::vector<double> values);
  // Why there are no values; what is shown stays, marked as old.
  void setUnavailable(const QString& tensor, const QString& reason);
  enum Mode { kImage, kTable };
  void setMode(Mode mode);
  QString tensor() const { return m_name; }
  QString number() const;  // of a tensor without axes; empty: it has axes, or no value yet
  QString facts() const;
  QString note() const;
  bool old() const;                             // what is shown is not of now
  static constexpr std::int64_t kWindow = 256;  // of an axis that is shown, at once
  // Of one of the last two axes where the window on it begins; null: all of it is shown.
  QSpinBox* place(std::size_t axis) const { return axis < m_places.size() ? m_places[axis] : nullptr; }
  // What to ask for now: the last two axes, or a window of them, at the chosen place.
  protocol::TensorRequest request() const;
  const TensorModel* model() const { return m_model; }

  void setLost();                 // the engine that they came from has ended: values that are there are of before
  void setOnPaper(bool onPaper);  // numbers in place of the boxes that choose them

 Q_SIGNALS:
  void sliceWanted();
  void heightChanged();  // the one that all of it needs: of another width, or with another word

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  class Image;
  class Histogram;
  void showChoices();
  void dress();
  void fitPlaces();
  void setOld(bool old);
  void fit();
  const Theme* m_theme;
  QString m_name;
  std::vector<std::int64_t> m_shape;
  std::int64_t m_step = -1;                              // of the values shown
  std::vector<QSpinBox*> m_places;                       // of each axis; null: there is nothing to choose
  std::vector<std::pair<QSpinBox*, QLabel*>> m_printed;  // what stands on paper in the place of each
  WrapLayout* m_choices;
  ElidedLabel* m_title = nullptr;  // of a narrow one
  QLabel* m_number;
  QLabel* m_facts;
  WrappedLabel* m_none;
  QStackedWidget* m_stack;
  TabRow* m_mode;
  Image* m_image;
  Histogram* m_histogram;
  QTableView* m_table;
  TensorModel* m_model;
};

// -scale..scale as blue, white, orange; grey for what is no number.
QColor diverging(double value, double scale);

}  // namespace nf
