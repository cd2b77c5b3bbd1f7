// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/plots.h"

#include <qcustomplot.h>

#include <QAction>
#include <QBuffer>
#include <QClipboard>
#include <QGuiApplication>
#include <QHeaderView>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QStackedWidget>
#include <QStandardItemModel>
#include <QSvgGenerator>
#include <QTableView>
#include <QTimer>
#include <QVBoxLayout>
#include <cmath>
#include <utility>

#include "widgets/basic.h"
#include "widgets/write_file.h"

namespace nf {
namespace {

constexpr int kRedrawPeriodMs = 50;  // 20 a second

QString cellText(const QVariant& value) {
  if (!value.isValid()) return {};
  return value.typeId() == QMetaType::Double ? QString::number(value.toDouble(), 'g', 9) : value.toString();
}

QVariant asJson(const QVariant& value) {
  if (value.typeId() == QMetaType::Double && !std::isfinite(value.toDouble())) return cellText(value);
  return value;
}

}  // namespace

QString csvOf(const PlotTable& table) {
  const auto quoted = [](QString text) {
    if (!text.contains(QLatin1Char(',')) && !text.contains(QLatin1Char('"')) && !text.contains(QLatin1Char('\n'))) return text;
    return QLatin1Char('"') + text.replace(QLatin1Char('"'), QStringLiteral("\"\"")) + QLatin1Char('"');
  };
  QString out;
  const auto add = [&](const QStringList& cells) {
    QStringList line;
    for (const QString& cell : cells) line << quoted(cell);
    out += line.join(QLatin1Char(',')) + QLatin1Char('\n');
  };
  add(table.columns);
  for (const auto& row : table.rows) {
    QStringList cells;
    for (const QVariant& v : row) cells << cellText(v);
    add(cells);
  }
  return out;
}

QByteArray jsonOf(const PlotTable& table) {
  QJsonArray rows;
  for (const auto& row : table.rows) {
    QJsonObject object;
    for (qsizetype i = 0; i < row.size() && i < table.columns.size(); ++i)
      object.insert(table.columns[i], QJsonValue::fromVariant(asJson(row[i])));
    rows.append(object);
  }
  return QJsonDocument(rows).toJson();
}

Plot::Plot(const Theme* theme, const QString& name, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_plot(new QCustomPlot), m_name(name), m_timer(new QTimer(this)),
      m_stack(new QStackedWidget) {
  setAccessibleName(name);
  setFocusPolicy(Qt::StrongFocus);
  // Greyed, it lets the ground through, which nobody draws below what says that it covers it.
  m_plot->setAttribute(Qt::WA_OpaquePaintEvent, false);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  m_stack->addWidget(m_plot);
  layout->addWidget(m_stack);
  m_unsaved = label({});
  m_unsaved->setObjectName(QStringLiteral("unsaved"));
  m_unsaved->setProperty("role", QStringLiteral("failed"));
  m_unsaved->setWordWrap(true);
  m_unsaved->setContentsMargins(12, 2, 12, 2);
  m_unsaved->hide();
  layout->addWidget(m_unsaved);
  m_plot->setPlottingHint(QCP::phFastPolylines, true);
  m_plot->setNoAntialiasingOnDrag(true);
  m_plot->setFocusProxy(this);
  m_plot->setAttribute(Qt::WA_NoMousePropagation, false);  // the wheel and the menu go on to what is around it
  m_plot->installEventFilter(this);
  m_timer->setSingleShot(true);
  m_timer->setInterval(kRedrawPeriodMs);
  connect(m_timer, &QTimer::timeout, this, [this] {
    m_waiting = !isVisible();
    if (!m_waiting) drawNow();
  });
  connect(m_plot, &QCustomPlot::afterLayout, this, [this] { arrange(); });
  connect(theme, &Theme::changed, this, [this] {
    dress();
    requestRedraw();
  });
  m_choosePath = [this](const QString& suggested) { return askSavePath(this, tr("Save %1").arg(m_name), suggested); };
  setContextMenuPolicy(Qt::ActionsContextMenu);
  const auto action = [this](const QString& id, const QString& text, auto run) {
    auto* a = new QAction(text, this);
    a->setObjectName(id);
    connect(a, &QAction::triggered, this, run);
    addAction(a);
    return a;
  };
  action(QStringLiteral("table"), tr("Show as table"), [this] { showTable(!showsTable()); });
  action(QStringLiteral("copy"), tr("Copy values"), [this] { QGuiApplication::clipboard()->setText(csvOf(table())); });
  for (const char* suffix : {"csv", "json", "png", "svg"})
    action(QLatin1String(suffix), tr("Save as %1...").arg(QString::fromLatin1(suffix).toUpper()),
           [this, ending = QString::fromLatin1(suffix)] { saveAs(ending); });
}

void Plot::saveAs(const QString& suffix) {
  const QString ending = QLatin1Char('.') + suffix;
  QString path = m_choosePath(m_name.toLower().replace(QLatin1Char(' '), QLatin1Char('-')) + ending);
  if (path.isEmpty()) return;
  if (!path.endsWith(ending)) path += ending;
  const QString error = save(path);
  m_unsaved->setText(error.isEmpty() ? QString() : tr("%1 was not written: %2").arg(QFileInfo(path).fileName(), error));
  m_unsaved->setVisible(!error.isEmpty());
}

void Plot::setNever(const QString& why) {
  if (std::exchange(m_never, why) != why) requestRedraw();
}

void Plot::requestRedraw() {
  if (!m_timer->isActive()) m_timer->start();
}

void Plot::drawNow() {
  ++m_redraws;
  m_labels.clear();
  m_obstacles.clear();
  redraw();
  if (showsTable()) fillTable();
  else m_plot->replot();
  Q_EMIT drawn();
}

void Plot::setOnPaper(bool onPaper) {
  if (m_onPaper == onPaper) return;
  m_onPaper = onPaper;
  if (onPaper) return;
  if (isVisible()) drawNow();
  else m_waiting = true;
}

void Plot::drawOnPaper() {
  m_plot->setViewport(m_plot->rect());
  drawNow();
}

void Plot::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (m_waiting) requestRedraw();
}

void Plot::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  requestRedraw();
}

bool Plot::eventFilter(QObject* watched, QEvent* event) {
  // The wheel belongs to the page; with Ctrl it is the plot's.
  if (watched == m_plot && event->type() == QEvent::Wheel &&
      !(static_cast<QWheelEvent*>(event)->modifiers() & Qt::ControlModifier)) {
    event->ignore();
    return true;
  }
  // What it has drawn for the screen is a picture.
  if (watched == m_plot && event->type() == QEvent::Paint && m_onPaper) {
    QCPPainter painter(m_plot);
    m_plot->toPainter(&painter, m_plot->width(), m_plot->height());
    return true;
  }
  if (watched == m_plot && event->type() == QEvent::MouseButtonPress) setFocus(Qt::MouseFocusReason);
  return QWidget::eventFilter(watched, event);
}

void Plot::dress() {
  const Palette& c = m_theme->colors();
  m_plot->setBackground(c.page);
  for (QCPAxis* axis : {m_plot->xAxis, m_plot->yAxis, m_plot->yAxis2}) {
    axis->setBasePen(Qt::NoPen);
    axis->setTickPen(Qt::NoPen);
    axis->setSubTickPen(Qt::NoPen);
    axis->setTickLabelFont(m_theme->ui(11));
    axis->setTickLabelColor(c.muted);
    axis->setLabelFont(m_theme->ui(11));
    axis->setLabelColor(c.muted);
    axis->grid()->setPen(QPen(c.grid, 1));
    axis->grid()->setZeroLinePen(QPen(c.grid, 1));
    axis->setTickLength(0, 0);
    axis->setNumberFormat(QStringLiteral("g"));  // labels are ours: no power is to be read out of them
    axis->setSubTickLength(0, 0);
  }
}

void Plot::addLabel(Label label) {
  auto* item = new QCPItemText(m_plot);
  item->setText(label.text);
  item->setFont(m_theme->ui(11, label.weight));
  if (!label.color.isValid()) label.color = label.weight > QFont::Normal ? m_theme->colors().text : m_theme->colors().muted;
  item->setColor(label.color);
  item->setPositionAlignment(Qt::AlignTop | Qt::AlignLeft);
  item->position->setType(QCPItemPosition::ptAbsolute);
  item->setClipToAxisRect(false);
  // A label hides what it has to stand on.
  item->setLayer(QStringLiteral("overlay"));
  item->setBrush(m_theme->colors().page);
  label.item = item;
  if (label.led) {
    label.leader = new QCPItemLine(m_plot);
    label.leader->setPen(QPen(m_theme->colors().muted, 1));
    label.leader->setClipToAxisRect(false);
    label.leader->setLayer(QStringLiteral("overlay"));
    for (QCPItemPosition* end : {label.leader->start, label.leader->end}) end->setType(QCPItemPosition::ptAbsolute);
  }
  m_labels.push_back(std::move(label));
}

void Plot::addEndLabel(const QString& text, double x, double y, const QColor& color, int weight) {
  Label label{text, x, y, {}, weight, color, 8};
  label.end = true;
  addLabel(std::move(label));
}

// Each as near to the height of its own line as the others let it; where there is no room behind the lines, above it.
std::vector<QRectF> Plot::placeEndLabels(const QRectF& area) {
  std::vector<Label*> ends;
  double left = 0;
  for (Label& label : m_labels)
    if (label.end) {
      ends.push_back(&label);
      left = std::max(left, m_plot->xAxis->coordToPixel(label.x) + label.gap);
    }
  const auto heightOf = [&](const Label* label) { return m_plot->yAxis->coordToPixel(label->y); };
  std::stable_sort(ends.begin(), ends.end(), [&](const Label* a, const Label* b) { return heightOf(a) < heightOf(b); });
  std::vector<QRectF> places;
  double free = area.top();
  for (const Label* label : ends) {
    const QFontMetricsF metrics(label->item->font());
    const QSizeF size(metrics.horizontalAdvance(label->text) + 2, metrics.height());
    const bool behind = left + size.width() <= m_plot->width();
    const double top = heightOf(label) - (behind ? size.height() / 2 : size.height() + label->gap);
    places.emplace_back(QPointF(behind ? left : area.right() - size.width(), std::max(free, top)), size);
    free = places.back().bottom() + 1;
  }
  double floor = area.bottom();
  for (std::size_t i = places.size(); i-- > 0;) {
    places[i].moveTop(std::min(places[i].top(), floor - places[i].height()));
    floor = places[i].top() - 1;
    ends[i]->item->setVisible(true);
    ends[i]->item->position->setPixelPosition(places[i].topLeft());
    places[i].adjust(-4, 0, 4, 0);
  }
  return places;
}

void Plot::avoid(double x, double y, double radius) { m_obstacles.push_back({QRectF(x, y, 0, 0), radius, false}); }
void Plot::avoidBox(double x0, double y0, double x1, double y1) {
  m_obstacles.push_back({QRectF(QPointF(x0, y0), QPointF(x1, y1)), 0, false});
}
void Plot::avoidLine(double x0, double y0, double x1, double y1, bool faint) {
  m_obstacles.push_back({QRectF(QPointF(x0, y0), QPointF(x1, y1)), 0, true, faint});
}

void Plot::arrange() {
  const QRectF area = QRectF(m_plot->axisRect()->rect()).adjusted(0, -2, 0, 2);
  const auto pixel = [this](double x, double y) { return QPointF(m_plot->xAxis->coordToPixel(x), m_plot->yAxis->coordToPixel(y)); };
  std::vector<QRectF> taken, faint;
  for (const Obstacle& o : m_obstacles) {
    const QPointF a = pixel(o.box.left(), o.box.top()), b = pixel(o.box.right(), o.box.bottom());
    if (!o.line) {
      taken.push_back(QRectF(a, b).normalized().adjusted(-o.radius, -o.radius, o.radius, o.radius));
      continue;
    }
    const int parts = std::clamp(static_cast<int>(std::max(std::abs(b.x() - a.x()), std::abs(b.y() - a.y())) / 8), 1, 400);
    for (int i = 0; i < parts; ++i)
      (o.faint ? faint : taken)
          .push_back(QRectF(a + (b - a) * i / parts, a + (b - a) * (i + 1) / parts).normalized().adjusted(-1, -1, 1, 1));
  }
  std::vector<QRectF> words = placeEndLabels(area);  // and of the labels before
  bool one = false;                                  // of those that should be clear of faint lines
  for (Label& label : m_labels) {
    if (label.end) continue;
    const QFontMetricsF metrics(label.item->font());
    const QSizeF size(metrics.horizontalAdvance(label.text) + 2, metrics.height());
    std::vector<QPointF> points{pixel(label.x, label.y)};
    for (const QPointF& other : label.elsewhere) points.push_back(pixel(other.x(), other.y()));
    const auto place = [&](const QPointF& at, Side side, int row) {
      const double g = label.gap, w = size.width(), h = size.height(), up = row * (h + 1);
      QPointF corner;
      switch (side) {
        case Side::Right: corner = {g, -h / 2}; break;
        case Side::Left: corner = {-g - w, -h / 2}; break;
        case Side::Above: corner = {-w / 2, -g - h}; break;
        case Side::Below: corner = {-w / 2, g}; break;
        case Side::AboveRight: corner = {g, -g - h}; break;
        case Side::AboveLeft: corner = {-g - w, -g - h}; break;
        case Side::BelowRight: corner = {g, g}; break;
        case Side::BelowLeft: corner = {-g - w, g}; break;
      }
      const bool below = side == Side::Below || side == Side::BelowRight || side == Side::BelowLeft;
      return QRectF(at + corner + QPointF(0, below ? up : -up), size);
    };
    const auto meets = [](const std::vector<QRectF>& others, const QRectF& r) {
      return std::any_of(others.begin(), others.end(), [&](const QRectF& t) { return t.intersects(r); });
    };
    const auto search = [&](int rows) -> std::optional<QRectF> {
      for (const bool crossing : {false, true}) {
        if (crossing && (one || !label.clear)) break;
        for (int row = 0; row <= rows; ++row)
          for (const QPointF& at : points)
            for (const Side side : label.sides)
              if (const QRectF r = place(at, side, row);
                  area.contains(r) && !meets(words, r) && !meets(taken, r) && (crossing || !label.clear || !meets(faint, r)))
                return r;
      }
      return std::nullopt;
    };
    const auto leastCovering = [&](int rows) {
      std::optional<QRectF> best;
      double least = HUGE_VAL;
      for (int row = 0; row <= rows; ++row)
        for (const QPointF& at : points)
          for (const Side side : label.sides) {
            const QRectF r = place(at, side, row);
            if (!area.contains(r) || meets(words, r)) continue;
            // A name far from what it names is as bad as one that hides something: 25 rows as one that hides all below it.
            double cost = row * size.width() * size.height() / 25;
            for (const QRectF& t : taken) {
              const QRectF common = t.intersected(r);
              cost += common.width() * common.height();
            }
            if (cost < least) least = cost, best = r;
          }
      return best;
    };
    std::optional<QRectF> found = search(label.rows);
    if (!found && label.must) found = search(label.rows + 4);
    // What must be said may cover a line, as little of it as can be, and never another word.
    if (!found && label.must) found = leastCovering(label.rows + 20);
    if (!found && label.must && !label.sides.empty()) {
      QRectF r = place(points.front(), label.sides.front(), 0);
      r.moveLeft(std::clamp(r.left(), area.left(), std::max(area.left(), area.right() - r.width())));
      r.moveTop(std::clamp(r.top(), area.top(), std::max(area.top(), area.bottom() - r.height())));
      while (meets(words, r) && r.bottom() + 2 < area.bottom()) r.translate(0, 4);
      if (!meets(words, r)) found = r;
    }
    label.item->setVisible(found.has_value());
    if (label.leader) label.leader->setVisible(false);
    if (!found) continue;
    if (label.leader) {
      const QPointF at = points.front(),
                    near(std::clamp(at.x(), found->left(), found->right()), std::clamp(at.y(), found->top(), found->bottom()));
      const QLineF away(at, near);
      if (away.length() > label.gap + size.height()) {
        label.leader->setVisible(true);
        label.leader->start->setPixelPosition(away.pointAt(label.gap / away.length()));
        label.leader->end->setPixelPosition(near);
      }
    }
    one = one || label.clear;
    label.item->position->setPixelPosition(found->topLeft());
    words.push_back(found->adjusted(-4, 0, 4, 0));
  }
}

std::vector<std::pair<QString, QRectF>> Plot::shownLabels() {
  drawNow();
  return labelPlaces();
}

std::vector<std::pair<QString, QRectF>> Plot::labelPlaces() const {
  std::vector<std::pair<QString, QRectF>> out;
  for (const Label& label : m_labels)
    if (label.item->visible()) {
      const QFontMetricsF metrics(label.item->font());
      out.emplace_back(label.text, QRectF(label.item->position->pixelPosition(),
                                          QSizeF(metrics.horizontalAdvance(label.text), metrics.height())));
    }
  return out;
}

QStringList Plot::tickLabels(Qt::Orientation orientation) {
  drawNow();
  return (orientation == Qt::Horizontal ? m_plot->xAxis : m_plot->yAxis)->tickVectorLabels();
}

QPointF Plot::valueAt(QPoint pixel) const {
  return {m_plot->xAxis->pixelToCoord(pixel.x()), m_plot->yAxis->pixelToCoord(pixel.y())};
}

QWidget* Plot::canvas() const { return m_plot; }

QByteArray Plot::forFile(QByteArray (Plot::*picture)()) {
  m_saving = true;
  drawNow();
  const QByteArray bytes = (this->*picture)();
  m_saving = false;
  drawNow();
  return bytes;
}

QByteArray Plot::svg() {
  QBuffer bytes;
  bytes.open(QIODevice::WriteOnly);
  QSvgGenerator svg;
  svg.setOutputDevice(&bytes);
  svg.setTitle(m_name);
  svg.setSize(m_plot->size());
  svg.setViewBox(m_plot->rect());
  QCPPainter painter;
  painter.begin(&svg);
  m_plot->toPainter(&painter, m_plot->width(), m_plot->height());
  painter.end();
  return bytes.data();
}

QByteArray Plot::png() {
  QBuffer bytes;
  bytes.open(QIODevice::WriteOnly);
  m_plot->toPixmap(m_plot->width(), m_plot->height(), 2).save(&bytes, "PNG");
  return bytes.data();
}

QString Plot::save(const QString& path) {
  const QString suffix = path.section(QLatin1Char('.'), -1).toLower();
  QByteArray bytes;
  if (suffix == QLatin1String("csv")) bytes = csvOf(table()).toUtf8();
  else if (suffix == QLatin1String("json")) bytes = jsonOf(table());
  else if (suffix == QLatin1String("svg")) bytes = forFile(&Plot::svg);
  else if (suffix == QLatin1String("png")) bytes = forFile(&Plot::png);
  else return tr("its name ends in none of csv, json, svg, png");
  return writeWhole(path, {bytes.constData(), static_cast<std::size_t>(bytes.size())});
}

bool Plot::showsTable() const { return m_stack->currentIndex() == 1; }

void Plot::showTable(bool table) {
  if (table == showsTable()) return;
  if (table && !m_table) {
    m_table = new QTableView;
    m_table->setTabKeyNavigation(false);
    m_table->setAccessibleName(tr("%1 as a table").arg(m_name));
    m_table->setModel(new QStandardItemModel(m_table));
    setTableMono(m_table, m_theme, 12);
    m_table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_table->verticalHeader()->hide();
    m_table->verticalHeader()->setDefaultSectionSize(25);
    m_table->horizontalHeader()->setStretchLastSection(true);
    m_table->setContextMenuPolicy(Qt::NoContextMenu);
    m_stack->addWidget(m_table);
  }
  if (table) fillTable();
  m_stack->setCurrentIndex(table ? 1 : 0);
  if (!table) requestRedraw();
  findChild<QAction*>(QStringLiteral("table"))->setText(table ? tr("Show as plot") : tr("Show as table"));
  Q_EMIT tableShown(table);
}

void Plot::fillTable() {
  auto* model = static_cast<QStandardItemModel*>(m_table->model());
  const PlotTable data = table();
  const bool fits = model->rowCount() == 0;
  model->setColumnCount(static_cast<int>(data.columns.size()));
  model->setRowCount(static_cast<int>(data.rows.size()));
  model->setHorizontalHeaderLabels(data.columns);
  constexpr int kPadding = 8;
  const QFontMetrics metrics(m_table->font());
  std::vector<int> figures(data.columns.size(), 0);  // widths of the new ones, pixels
  for (int r = 0; r < model->rowCount(); ++r) {
    const auto& row = data.rows[static_cast<std::size_t>(r)];
    for (int i = 0; i < static_cast<int>(row.size()); ++i) {
      // Files have every digit.
      const bool real = row[i].typeId() == QMetaType::Double;
      const QString text = real ? significant(row[i].toDouble(), 4) : cellText(row[i]);
      if (const QStandardItem* old = model->item(r, i); old && old->text() == text) continue;
      auto* item = new QStandardItem(text);
      if (real) item->setToolTip(cellText(row[i]));
      if (row[i].typeId() != QMetaType::QString) item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
      model->setItem(r, i, item);
      if (int& widest = figures[static_cast<std::size_t>(i)]; row[i].typeId() != QMetaType::QString)
        widest = std::max(widest, metrics.horizontalAdvance(text) + kPadding);
    }
  }
  if (fits) return m_table->resizeColumnsToContents();
  // Another kernel's figures may have more digits.
  for (int i = 0; i < model->columnCount(); ++i)
    if (m_table->columnWidth(i) < figures[static_cast<std::size_t>(i)]) m_table->resizeColumnToContents(i);
}

}  // namespace nf
