// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QPaintDevice>
#include <QRectF>
#include <memory>

namespace nf {

// What widgets are rendered on for a painter of a file, as QPdfWriter's: it draws there whatever is drawn here, in pixels of a screen
// that the painter's transform maps, and nothing outside `sheet`.
// The engines of files leave it to QPainter::restore() to set clips again. It does so with a widget's offset counted twice, and all that
// the widget draws after it is cut away; and they know nothing of the part of a widget that may be painted. Here clips are right.
class Paper : public QPaintDevice {
 public:
  Paper(QPainter* file, const QRectF& sheet);
  ~Paper() override;
  QPaintEngine* paintEngine() const override;

 protected:
  int metric(PaintDeviceMetric metric) const override;

 private:
  class Engine;
  QSize m_size;
  std::unique_ptr<Engine> m_engine;
};

}  // namespace nf
