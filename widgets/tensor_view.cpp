// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/tensor_view.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QSpinBox>
#include <QStackedWidget>
#include <QTableView>
#include <QTimer>
#include <QToolTip>
#include <cmath>

#include "widgets/basic.h"
#include "widgets/names.h"
#include "widgets/wrap_layout.h"
#include "widgets/wrapped_label.h"

namespace nf {
namespace {

QString numberText(double value, bool whole, int digits) {
  return whole && std::isfinite(value) ? QString::number(value, 'f', 0) : significant(value, digits);
}

const QColor kNotFinite(0x80, 0x80, 0x80);

}  // namespace

QColor diverging(double value, double scale) {
  if (!std::isfinite(value)) return kNotFinite;
  const double t = scale > 0 ? std::clamp(value / scale, -1.0, 1.0) : 0;
  return mixed(Qt::white, t < 0 ? QColor(0x00, 0x72, 0xB2) : QColor(0xD5, 0x5E, 0x00), std::abs(t));
}

void TensorModel::set(std::vector<double> values, int rows, int columns, double scale, const QColor& page, std::int64_t firstRow,
                      std::int64_t firstColumn) {
  // The same place with new values keeps its scroll position.
  const bool same =
      rows == m_rows && columns == m_columns && rows > 0 && columns > 0 && firstRow == m_firstRow && firstColumn == m_firstColumn;
  if (!same) beginResetModel();
  m_values = std::move(values);
  m_rows = rows, m_columns = columns, m_scale = scale, m_page = page;
  m_firstRow = firstRow, m_firstColumn = firstColumn;
  m_values.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns), std::nan(""));
  if (!same) endResetModel();
  else Q_EMIT dataChanged(index(0, 0), index(rows - 1, columns - 1));
}

void TensorModel::setPage(const QColor& page) {
  m_page = page;
  if (m_rows > 0 && m_columns > 0) Q_EMIT dataChanged(index(0, 0), index(m_rows - 1, m_columns - 1));
}

void TensorModel::setWhole(bool whole) {
  if (std::exchange(m_whole, whole) == whole || m_rows == 0 || m_columns == 0) return;
  Q_EMIT dataChanged(index(0, 0), index(m_rows - 1, m_columns - 1));
}

QVariant TensorModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const double value = m_values[static_cast<std::size_t>(index.row()) * static_cast<std::size_t>(m_columns) +
                                static_cast<std::size_t>(index.column())];
  if (role == Qt::DisplayRole) return numberText(value, m_whole, 4);
  if (role == Qt::ToolTipRole) return QString::number(value, 'g', 17);
  if (role == Qt::TextAlignmentRole) return static_cast<int>(Qt::AlignRight | Qt::AlignVCenter);
  if (role == Qt::UserRole) return value;
  if (role == Qt::BackgroundRole && m_page.isValid() && m_scale > 0 && std::isfinite(value)) {
    const double t = std::clamp(value / m_scale, -1.0, 1.0);
    return mixed(m_page, t < 0 ? QColor(0x00, 0x72, 0xB2) : QColor(0xD5, 0x5E, 0x00), 0.4 * std::abs(t));
  }
  return {};
}

QVariant TensorModel::headerData(int section, Qt::Orientation orientation, int role) const {
  const std::int64_t first = orientation == Qt::Horizontal ? m_firstColumn : m_firstRow;
  return role == Qt::DisplayRole ? QVariant::fromValue<qlonglong>(first + section) : QVariant();
}

namespace {
constexpr double kFaded = 0.45;  // what was, and is not asked for again
}

class TensorView::Image : public QWidget {
 public:
  Image(const Theme* theme, const TensorModel* model) : m_theme(theme), m_model(model) {
    setMinimumSize(110, 110);
    setMouseTracking(true);
    setAccessibleName(tr("Values as a picture: blue below zero, orange above"));
  }
  double scale = 1;
  QString notFinite;  // what of it there is: "NaN, inf"
  bool old = false;

 protected:
  QRectF frame() const {
    // A scale stands at the right. Long thin slices are stretched: single cells stay visible.
    const double rows = std::max(1, m_model->rowCount()), columns = std::max(1, m_model->columnCount());
    const double room = std::max(20, width() - scaleWidth()), side = std::min(room / columns, height() / rows);
    return {0, 0, std::max(side * columns, std::min(room, 40.0)), std::max(side * rows, std::min<double>(height(), 24))};
  }
  static constexpr int kBarGap = 10, kBar = 8, kWordsGap = 4;
  int scaleWidth() const {
    const QFontMetrics metrics(m_theme->ui(11));
    return kBarGap + kBar + kWordsGap +
           std::max(metrics.horizontalAdvance(significant(-scale, 2)), metrics.horizontalAdvance(notFinite)) + 2;
  }
  void paintScale(QPainter& p) const {
    const Palette& c = m_theme->colors();
    const double below = notFinite.isEmpty() ? 0 : QFontMetrics(m_theme->ui(11)).height() + kBarGap;
    const QRectF bar(frame().right() + kBarGap, 0, kBar, std::min<double>(height() - 1 - below, 120));
    for (int y = 0; y < static_cast<int>(bar.height()); ++y)
      p.fillRect(QRectF(bar.left(), y, bar.width(), 1), diverging(1 - 2 * y / bar.height(), 1));
    p.setFont(m_theme->ui(11));
    p.setPen(c.muted);
    const QRectF words(bar.right() + kWordsGap, 0, scaleWidth(), bar.height());
    if (below > 0) {
      const QRectF line(words.left(), bar.bottom() + kBarGap, words.width(), below - kBarGap);
      p.fillRect(QRectF(bar.left(), line.center().y() - kBar / 2.0, kBar, kBar), kNotFinite);
      p.drawText(line, Qt::AlignVCenter | Qt::AlignLeft, notFinite);
    }
    p.drawText(words, Qt::AlignVCenter | Qt::AlignLeft, QStringLiteral("0"));
    if (scale <= 0) return;  // no value differs from 0, or none is finite
    p.drawText(words, Qt::AlignTop | Qt::AlignLeft, significant(scale, 2));
    p.drawText(words, Qt::AlignBottom | Qt::AlignLeft, significant(-scale, 2));
  }
  void paintEvent(QPaintEvent*) override {
    const int rows = m_model->rowCount(), columns = m_model->columnCount();
    if (rows == 0 || columns == 0) return;
    QImage image(columns, rows, QImage::Format_RGB32);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c)
        image.setPixelColor(c, r, diverging(m_model->data(m_model->index(r, c), Qt::UserRole).toDouble(), scale));
    QPainter p(this);
    if (old) p.setOpacity(kFaded);
    const QRectF box = frame();
    p.drawImage(box, image);
    paintScale(p);
    // Cells are told apart along an axis on which they are wide enough for it.
    constexpr double kLeastCell = 7;
    p.setPen(QPen(m_theme->colors().page, 1));
    for (int c = 1; c < columns && box.width() / columns >= kLeastCell; ++c)
      p.drawLine(QPointF(box.width() * c / columns, 0), QPointF(box.width() * c / columns, box.height()));
    for (int r = 1; r < rows && box.height() / rows >= kLeastCell; ++r)
      p.drawLine(QPointF(0, box.height() * r / rows), QPointF(box.width(), box.height() * r / rows));
    // Zeros are as white as a light page.
    p.setPen(QPen(m_theme->colors().separator, 1));
    p.drawRect(QRect(0, 0, static_cast<int>(box.width()) - 1, static_cast<int>(box.height()) - 1));
  }
  void mouseMoveEvent(QMouseEvent* event) override {
    const QRectF box = frame();
    if (!box.contains(event->position()) || m_model->rowCount() == 0) return;
    const int r = static_cast<int>(event->position().y() / box.height() * m_model->rowCount()),
              c = static_cast<int>(event->position().x() / box.width() * m_model->columnCount());
    QToolTip::showText(event->globalPosition().toPoint(),
                       QStringLiteral("[%1, %2]  %3")
                           .arg(m_model->firstRow() + r)
                           .arg(m_model->firstColumn() + c)
                           .arg(m_model->data(m_model->index(r, c), Qt::DisplayRole).toString()),
                       this);
  }

 private:
  const Theme* m_theme;
  const TensorModel* m_model;
};

class TensorView::Histogram : public QWidget {
 public:
  explicit Histogram(const Theme* theme) : m_theme(theme) {
    setMinimumSize(120, 90);
    setMaximumWidth(260);
  }
  protocol::TensorSlice slice;
  bool old = false;

 protected:
  void paintEvent(QPaintEvent*) override {
    if (slice.histogram.empty()) return;
    QPainter p(this);
    if (old) p.setOpacity(kFaded);
    const Palette& c = m_theme->colors();
    const double most =
        static_cast<double>(std::max<std::int64_t>(1, *std::max_element(slice.histogram.begin(), slice.histogram.end())));
    const double bar = double(width()) / static_cast<double>(slice.histogram.size()),
                 words = QFontMetricsF(m_theme->ui(11)).height(), room = height() - words - 6;
    for (std::size_t i = 0; i < slice.histogram.size(); ++i) {
      const double h = room * static_cast<double>(slice.histogram[i]) / most;
      p.fillRect(QRectF(bar * static_cast<double>(i), room - h, std::max(1.0, bar - 1), h), mixed(c.page, c.accent, 0.75));
    }
    p.fillRect(QRectF(0, room, width(), 1), c.separator);
    p.setPen(c.muted);
    p.setFont(m_theme->ui(11));
    int digits = 2;
    while (slice.min < slice.max && digits < 7 && significant(slice.min, digits) == significant(slice.max, digits)) ++digits;
    p.drawText(QRectF(0, room + 3, width(), words), Qt::AlignLeft, significant(slice.min, digits));
    p.drawText(QRectF(0, room + 3, width(), words), Qt::AlignRight, significant(slice.max, digits));
  }

 private:
  const Theme* m_theme;
};

TensorView::TensorView(const Theme* theme, bool compact, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_choices(new WrapLayout(4)), m_number(label({})), m_facts(label({}, "muted")),
      m_none(new WrappedLabel({}, "muted")), m_stack(new QStackedWidget), m_histogram(new Histogram(theme)),
      m_table(new QTableView), m_model(new TensorModel(this)) {
  m_image = new Image(theme, m_model);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(8);
  auto* mode = m_mode = new TabRow(theme, {tr("image"), tr("table")});
  mode->setAccessibleName(tr("Form of the values"));
  connect(mode, &TabRow::chosen, this, [this](int i) { setMode(static_cast<Mode>(i)); });
  // A narrow panel has no room for both in one row.
  if (compact) {
    auto* top = new QHBoxLayout;
    m_title = new ElidedLabel;
    setMono(m_title, theme, 13);
    top->addWidget(m_title, 1);
    top->addWidget(mode);
    layout->addLayout(top);
    layout->addLayout(m_choices);
  } else {
    auto* places = new QHBoxLayout;
    places->addLayout(m_choices, 1);
    places->addWidget(mode, 0, Qt::AlignTop);
    layout->addLayout(places);
  }
  auto* pictures = new QWidget;
  auto* row = new QHBoxLayout(pictures);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(16);
  row->addWidget(m_image, 1);
  row->addWidget(m_histogram, 1);
  m_stack->addWidget(pictures);
  m_table->setTabKeyNavigation(false);
  m_table->setModel(m_model);
  setTableMono(m_table, theme, 12);
  m_table->setShowGrid(true);
  m_stack->addWidget(m_table);
  layout->addWidget(m_stack);
  layout->addWidget(m_number);
  layout->addWidget(m_facts);
  setMono(m_number, theme, 20);
  m_number->setTextInteractionFlags(Qt::TextSelectableByMouse);
  m_number->hide();
  layout->addWidget(m_none);
  setUi(m_facts, theme, 12);
  setUi(m_none, theme, 13);
  m_facts->setObjectName(QStringLiteral("facts"));
  m_facts->setWordWrap(true);
  m_none->setWords(tr("No values yet: run the cell to compute them."));
  m_stack->hide();
  connect(theme, &Theme::changed, this, &TensorView::dress);
  dress();
}

void TensorView::dress() {
  m_model->setPage(m_theme->colors().page);
  m_table->horizontalHeader()->setDefaultSectionSize(m_theme->scaled(82));
  m_table->verticalHeader()->setDefaultSectionSize(m_theme->scaled(24));
  m_table->verticalHeader()->setMinimumWidth(m_theme->scaled(30));
  fitPlaces();
  fit();
  Q_EMIT heightChanged();
}

void TensorView::fitPlaces() {
  for (std::size_t axis = 0; axis < m_places.size(); ++axis) {
    QSpinBox* place = m_places[axis];
    if (!place) continue;
    place->setFont(m_theme->ui());
    const QFontMetrics metrics(place->font());
    place->setFixedWidth(std::max(m_theme->scaled(m_shape[axis] > 100 ? 56 : 44),
                                  metrics.horizontalAdvance(QString::number(m_shape[axis] - 1)) + 34));
  }
}

void TensorView::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  if (event->size().width() == event->oldSize().width()) return;
  // While it is being shown a size that is set from here would reach no layout of its own.
  if (isVisible()) Q_EMIT heightChanged();
  else QTimer::singleShot(0, this, &TensorView::heightChanged);
}

void TensorView::setMode(Mode mode) {
  m_stack->setCurrentIndex(mode);
  m_mode->setCurrent(mode);
  fit();
}

// A table of a panel is as high as its rows, up to what leaves the rest of the panel in reach.
void TensorView::fit() {
  constexpr int kMostRows = 16;
  int height = m_theme->scaled(m_title ? 128 : 200);
  if (m_title && m_stack->currentIndex() == 1) {
    const int rows = std::clamp(m_model->rowCount(), 1, kMostRows);
    height = rows * m_table->verticalHeader()->defaultSectionSize() + m_table->horizontalHeader()->sizeHint().height() +
             m_table->horizontalScrollBar()->sizeHint().height() + 2 * m_table->frameWidth();
  }
  if (m_stack->height() != height) m_stack->setFixedHeight(height);
}

QString TensorView::number() const { return m_number->isHidden() ? QString() : m_number->text(); }
QString TensorView::facts() const { return m_facts->text().replace(QChar(0xa0), QLatin1Char(' ')); }
QString TensorView::note() const { return m_none->isHidden() ? QString() : m_none->words(); }

void TensorView::setUnavailable(const QString& tensor, const QString& reason) {
  if (tensor != m_name) return;
  // Values that are there stay, and say of when they are: what follows is not about them.
  const bool shown = !m_stack->isHidden() || !m_number->isHidden();
  const QString stay = m_step >= 0 ? tr("These are of step %1 and stay until there are newer ones.").arg(grouped(m_step))
                                   : tr("These are of the last run and stay until there are newer ones.");
  const QString why = plainCodeText(reason);
  m_none->setWords(shown ? stay + QLatin1Char(' ') + tr("Now: %1").arg(why) : why);
  m_none->show();
  setOld(shown);
  Q_EMIT heightChanged();
}

void TensorView::setLost() {
  if (m_model->rowCount() > 0 || !number().isEmpty()) setUnavailable(m_name, tr("the engine has ended."));
}

void TensorView::setOld(bool old) {
  m_image->old = m_histogram->old = old;
  setGreyed(m_table, old);
  setGreyed(m_number, old);
  m_image->update();
  m_histogram->update();
}

bool TensorView::old() const { return m_image->old; }

void TensorView::setTensor(const QString& name, const std::vector<std::int64_t>& shape) {
  if (name == m_name && shape == m_shape) return;
  m_name = name, m_shape = shape;
  m_model->set({}, 0, 0);
  m_step = -1;
  setOld(false);
  m_facts->clear();
  m_none->setWords(tr("No values yet: run the cell to compute them."));
  m_none->show();
  m_stack->hide();
  m_number->hide();
  m_mode->setVisible(!shape.empty());
  showChoices();
}

void TensorView::showChoices() {
  while (QLayoutItem* item = m_choices->takeAt(0)) {
    delete item->widget();
    delete item;
  }
  m_places.clear();
  m_printed.clear();
  const auto add = [&](const QString& text) {
    auto* l = label(text);
    setMono(l, m_theme, 13);
    m_choices->addWidget(l);
    return l;
  };
  // In a narrow panel the name stands above its indices.
  if (m_title) m_title->setText(derivativeText(m_name));
  const QString bracket = m_shape.empty() ? QString() : QStringLiteral("[");
  if (!m_title && !m_name.isEmpty()) {
    auto* name = new ElidedLabel(nullptr, Qt::ElideMiddle);
    name->setLeast(80);
    setMono(name, m_theme, 13);
    name->setText(m_name + bracket);
    m_choices->addWidget(name);
  } else if (!bracket.isEmpty()) {
    add(bracket);
  }
  for (std::size_t axis = 0; axis < m_shape.size(); ++axis) {
    const bool shown = axis + 2 >= m_shape.size(), window = shown && m_shape[axis] > kWindow;
    m_places.push_back(nullptr);
    if (!shown || window) {
      const std::int64_t most = window ? m_shape[axis] - kWindow : m_shape[axis] - 1;
      auto* place = m_places.back() = new QSpinBox;
      // A row within the last window may be asked for, too.
      place->setRange(0, static_cast<int>(std::clamp<std::int64_t>(m_shape[axis] - 1, 0, 1 << 30)));
      place->setSingleStep(window ? kWindow : 1);
      place->setKeyboardTracking(!window);
      place->setToolTip(window ? tr("Where the %1 of %2 that are shown begin").arg(kWindow).arg(m_shape[axis])
                               : tr("0 to %1").arg(most));
      place->setAccessibleName(window ? tr("First of axis %1").arg(axis) : tr("Axis %1").arg(axis));
      leaveWheelToPage(place);
      connect(place, &QSpinBox::valueChanged, this,
              [this, place, most](int value) { value > most ? place->setValue(static_cast<int>(most)) : Q_EMIT sliceWanted(); });
      m_choices->addWidget(place);
      m_printed.emplace_back(place, add(QString()));
      m_printed.back().second->hide();
    }
    if (window) {
      auto* end = label(QStringLiteral(":%1").arg(kWindow));
      setMono(end, m_theme, 13);
      m_choices->addWidget(end);
      connect(m_places.back(), &QSpinBox::valueChanged, end,
              [end, place = m_places.back()] { end->setText(QStringLiteral(":%1").arg(place->value() + kWindow)); });
    } else if (shown) {
      add(QStringLiteral(":"));
    }
    if (axis + 1 < m_shape.size()) add(QStringLiteral(","));
  }
  if (!m_shape.empty()) add(QStringLiteral("]"));
  fitPlaces();
}

void TensorView::setOnPaper(bool onPaper) {
  for (const auto& [place, number] : m_printed) {
    number->setText(QString::number(place->value()));
    place->setVisible(!onPaper);
    number->setVisible(onPaper);
  }
}

protocol::TensorRequest TensorView::request() const {
  protocol::TensorRequest out;
  out.tensor = m_name.toStdString();
  for (std::size_t axis = 0; axis < m_shape.size(); ++axis) {
    const QSpinBox* const chosen = place(axis);
    const std::int64_t at = chosen ? chosen->value() : 0;
    out.begin.push_back(at);
    out.end.push_back(axis + 2 < m_shape.size() ? at + 1 : std::min(m_shape[axis], at + kWindow));
  }
  return out;
}

void TensorView::setSlice(const protocol::TensorSlice& slice, std::vector<double> values) {
  if (QString::fromStdString(slice.tensor) != m_name) return;
  // Of another place, that another view looks at.
  if (slice.shape == m_shape && slice.begin.size() == m_shape.size() && slice.begin != request().begin) return;
  std::int64_t rows = 1, columns = 1;
  const std::size_t rank = slice.begin.size();
  if (rank >= 1 && slice.end.size() == rank) columns = slice.end[rank - 1] - slice.begin[rank - 1];
  if (rank >= 2 && slice.end.size() == rank) rows = slice.end[rank - 2] - slice.begin[rank - 2];
  // A binary frame that is shorter than it says leaves cells that are no numbers; one of absurd extents shows nothing.
  if (rows < 0 || columns < 0 || rows > 4096 || columns > 4096) rows = columns = 0;
  const Palette& c = m_theme->colors();
  const bool scalar = slice.shape.empty() && values.size() == 1;
  const bool whole = !slice.dtype.empty() && slice.dtype.front() != 'f';
  m_model->setWhole(whole);
  if (scalar) m_number->setText(numberText(values.front(), whole, 7));
  // Of what is shown: one value far off in another part of the tensor takes no colour from this one.
  m_image->scale = 0;
  for (const double v : values)
    if (std::isfinite(v)) m_image->scale = std::max(m_image->scale, std::abs(v));
  QStringList notFinite;
  if (std::ranges::any_of(values, [](double v) { return std::isnan(v); })) notFinite << QStringLiteral("NaN");
  if (std::ranges::any_of(values, [](double v) { return std::isinf(v); })) notFinite << QStringLiteral("inf");
  m_image->notFinite = notFinite.join(QStringLiteral(", "));
  const auto first = [&](std::size_t fromEnd) { return rank >= fromEnd ? slice.begin[rank - fromEnd] : 0; };
  m_model->set(std::move(values), static_cast<int>(rows), static_cast<int>(columns), m_image->scale, c.page, first(2), first(1));
  m_histogram->slice = slice;
  m_step = slice.step;
  // Rich text takes a narrow space, that between the digits of a number too, for one to break a line at.
  const auto unbroken = [](QString text) {
    return text.replace(QLatin1Char(' '), QChar(0xa0)).replace(QChar(0x202f), QChar(0xa0));
  };
  // What is no number is what one looks for first.
  const auto count = [&](const QString& name, std::int64_t n) {
    const QString text = name + QLatin1Char(' ') + grouped(n);
    return n == 0 ? text : QStringLiteral("<b style='color:%1'>%2</b>").arg(c.failed.name(), unbroken(text));
  };
  std::int64_t all = 1, shown = rows * columns;
  for (const std::int64_t extent : slice.shape) all *= extent;
  const bool part = !scalar && shown < all;
  QStringList facts;
  if (part) facts << tr("%1 of %2 values shown").arg(grouped(shown), grouped(all));
  m_histogram->setToolTip(part ? tr("Of all %1 values").arg(grouped(all)) : QString());
  if (!scalar && all > 0 && slice.nans + slice.infinities == all) facts << tr("no finite value");
  else if (!scalar)
    facts << (part ? tr("of all, as the histogram: rms %1") : tr("rms %1")).arg(significant(slice.rms))
          << tr("mean %1").arg(significant(slice.mean));
  if (!scalar) facts << count(tr("NaN"), slice.nans) << count(tr("Inf"), slice.infinities);
  if (slice.step >= 0) facts << tr("at step %1").arg(grouped(slice.step));
  if (slice.rows > 0) facts << tr("of the first %1 training rows").arg(grouped(slice.rows));
  m_facts->setTextFormat(Qt::RichText);
  for (QString& fact : facts)
    if (!fact.contains(QLatin1Char('<'))) fact = unbroken(fact);
  m_facts->setText(facts.join(QStringLiteral(" &nbsp; ")));
  m_none->setWords(tr("What these depend on has changed since their run began."));
  m_none->setVisible(slice.outdated);
  m_stack->setVisible(!scalar);
  m_number->setVisible(scalar);
  fit();
  setOld(slice.outdated);
}

}  // namespace nf
