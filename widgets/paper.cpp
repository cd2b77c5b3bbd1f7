// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/paper.h"

#include <QPaintEngine>
#include <QPainter>
#include <QPainterPath>
#include <cmath>

namespace nf {

class Paper::Engine : public QPaintEngine {
 public:
  Engine(QPainter* file, const QRectF& sheet) : QPaintEngine(AllFeatures), m_file(file), m_base(file->worldTransform()) {
    m_sheet.addRect(sheet);
  }
  bool begin(QPaintDevice*) override {
    m_file->setRenderHint(QPainter::LosslessImageRendering);
    clip();
    return true;
  }
  bool end() override { return true; }
  Type type() const override { return User; }

  void updateState(const QPaintEngineState& state) override {
    const DirtyFlags dirty = state.state();
    if (dirty & DirtyPen) m_file->setPen(state.pen());
    if (dirty & DirtyBrush) m_file->setBrush(state.brush());
    if (dirty & DirtyBrushOrigin) m_file->setBrushOrigin(state.brushOrigin());
    if (dirty & DirtyBackground) m_file->setBackground(state.backgroundBrush());
    if (dirty & DirtyBackgroundMode) m_file->setBackgroundMode(state.backgroundMode());
    if (dirty & DirtyOpacity) m_file->setOpacity(state.opacity());
    if (dirty & DirtyHints) {
      m_file->setRenderHints(m_file->renderHints(), false);
      // The pixels of a small tensor's picture are its values.
      m_file->setRenderHints(state.renderHints() | QPainter::LosslessImageRendering);
    }
    if (dirty & DirtyTransform) {
      m_transform = state.transform();
      m_file->setWorldTransform(m_transform * m_base);
    }
    if (dirty & (DirtyClipRegion | DirtyClipPath | DirtyClipEnabled)) clip();
  }

  void drawRects(const QRectF* rects, int count) override { ready().drawRects(rects, count); }
  void drawLines(const QLineF* lines, int count) override { ready().drawLines(lines, count); }
  void drawPoints(const QPointF* points, int count) override { ready().drawPoints(points, count); }
  void drawPath(const QPainterPath& path) override { ready().drawPath(path); }
  void drawEllipse(const QRectF& rect) override { ready().drawEllipse(rect); }
  void drawPolygon(const QPointF* points, int count, PolygonDrawMode mode) override {
    QPainter& file = ready();
    switch (mode) {
      case PolylineMode: return file.drawPolyline(points, count);
      case ConvexMode: return file.drawConvexPolygon(points, count);
      case OddEvenMode: return file.drawPolygon(points, count, Qt::OddEvenFill);
      case WindingMode: return file.drawPolygon(points, count, Qt::WindingFill);
    }
  }
  void drawPixmap(const QRectF& to, const QPixmap& pixmap, const QRectF& from) override { ready().drawPixmap(to, pixmap, from); }
  void drawImage(const QRectF& to, const QImage& image, const QRectF& from, Qt::ImageConversionFlags flags) override {
    ready().drawImage(to, image, from, flags);
  }
  void drawTiledPixmap(const QRectF& rect, const QPixmap& pixmap, const QPointF& at) override {
    ready().drawTiledPixmap(rect, pixmap, at);
  }
  // To the engine, not its painter, which would draw what underlines it once more.
  void drawTextItem(const QPointF& at, const QTextItem& text) override {
    QPaintEngine* engine = ready().paintEngine();
    engine->syncState();
    engine->drawTextItem(at, text);
  }

 private:
  // Between the paintings of two widgets the part that may be painted changes, and nobody tells.
  QPainter& ready() {
    if (systemClip() != m_part) clip();
    return *m_file;
  }

  // As the painter knows it, which is in the places of its own transform.
  void clip() {
    m_part = systemClip();
    QPainterPath all = m_sheet;
    const auto narrow = [&all](const QPainterPath& by) {
      if (by.boundingRect().contains(all.boundingRect()) && by.elementCount() == 5) return;
      all = all.intersected(by);
    };
    if (!m_part.isEmpty()) {
      QPainterPath part;
      part.addRegion(m_part);
      narrow(part.simplified());
    }
    if (const QPainter* on = painter(); on && on->hasClipping()) narrow(on->deviceTransform().map(on->clipPath()));
    m_file->setWorldTransform(m_base);
    m_file->setClipPath(all);
    m_file->setWorldTransform(m_transform * m_base);
  }

  QPainter* m_file;
  QTransform m_base, m_transform;
  QPainterPath m_sheet;
  QRegion m_part;
};

Paper::Paper(QPainter* file, const QRectF& sheet)
    : m_size(static_cast<int>(std::ceil(sheet.right())), static_cast<int>(std::ceil(sheet.bottom()))),
      m_engine(std::make_unique<Engine>(file, sheet)) {}

Paper::~Paper() = default;

QPaintEngine* Paper::paintEngine() const { return m_engine.get(); }

int Paper::metric(PaintDeviceMetric metric) const {
  constexpr int kDotsPerInch = 96;
  constexpr double kInch = 25.4;  // mm
  const auto millimetres = [](int pixels) { return static_cast<int>(std::lround(pixels * kInch / kDotsPerInch)); };
  switch (metric) {
    case PdmWidth: return m_size.width();
    case PdmHeight: return m_size.height();
    case PdmWidthMM: return millimetres(m_size.width());
    case PdmHeightMM: return millimetres(m_size.height());
    case PdmDpiX:
    case PdmDpiY:
    case PdmPhysicalDpiX:
    case PdmPhysicalDpiY: return kDotsPerInch;
    case PdmNumColors: return 1 << 24;
    case PdmDepth: return 32;
    case PdmDevicePixelRatio: return 1;
    default: return QPaintDevice::metric(metric);
  }
}

}  // namespace nf
