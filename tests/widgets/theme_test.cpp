// SPDX-License-Identifier: GPL-3.0-or-later
// Colours: of what stays while the theme changes, and of what cannot be chosen.
#include <gtest/gtest.h>

#include <QAbstractItemView>
#include <QApplication>
#include <QComboBox>
#include <QImage>
#include <QTest>

#include "tests/widgets/capsule.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/basic.h"
#include "widgets/inspector_view.h"
#include "widgets/outline_view.h"
#include "widgets/tune_view.h"

namespace nf {
namespace {

using namespace protocol;

struct Themed : Widgets {
  // Pixels that are nearly of this colour.
  static int pixels(QWidget& widget, const QColor& color) {
    const QImage image = widget.grab().toImage();
    int count = 0;
    for (int y = 0; y < image.height(); ++y)
      for (int x = 0; x < image.width(); ++x) {
        const QColor at = image.pixelColor(x, y);
        count += std::abs(at.red() - color.red()) + std::abs(at.green() - color.green()) + std::abs(at.blue() - color.blue()) < 12;
      }
    return count;
  }
};

TEST_F(Themed, ABadgeHasTheColourOfTheThemeInUse) {
  Badge badge(&theme);
  badge.Badge::show(QStringLiteral("proved"), QStringLiteral("proved"), &Palette::proved);
  badge.resize(badge.sizeHint());
  const QColor light = theme.colors().proved;
  EXPECT_GT(pixels(badge, light), 0);
  theme.setMode(Theme::Mode::Dark);
  ASSERT_NE(theme.colors().proved, light);
  EXPECT_GT(pixels(badge, theme.colors().proved), 0);
  EXPECT_EQ(pixels(badge, light), 0);
}

TEST_F(Themed, TheDeviceInUseHasTheColourOfTheThemeInUse) {
  OutlineView view(&theme, &selection);
  view.resize(300, 400);
  Devices devices;
  devices.devices.emplace_back();
  devices.devices[0].name = "cpu", devices.devices[0].inUse = true;
  view.setDevices(devices);
  const QColor light = theme.colors().accent;
  EXPECT_GT(pixels(view, light), 0);
  theme.setMode(Theme::Mode::Dark);
  ASSERT_NE(theme.colors().accent, light);
  EXPECT_GT(pixels(view, theme.colors().accent), 0);
  EXPECT_EQ(pixels(view, light), 0);
}

TEST_F(Themed, AValueThatIsRuledOutIsGreyInTheList) {
  const QString before = qApp->styleSheet();
  const QPalette palette = qApp->palette();
  const QFont font = qApp->font();
  theme.apply(*qApp);
  {
    TuneView view(&theme, &selection);
    view.resize(1600, 1000);
    view.show();
    view.setSubgraphs(capsule::subgraphs());
    view.setTrials("aa01", {});
    const JsonText two{R"({"kind":"contraction","knobs":{"threads":2,"tile":[4,16]},"version":1})"};
    Space space = capsule::spaceAt("aa01", two);
    space.current = two;
    view.setSpace(space);
    QComboBox* tile = view.knob("tile");
    ASSERT_TRUE(tile);
    const int refused = tile->findData("[8,8]"), free = tile->findData("[4,8]");
    ASSERT_GE(refused, 0);
    ASSERT_GE(free, 0);
    ASSERT_FALSE(tile->itemData(refused, Qt::ToolTipRole).toString().isEmpty());
    tile->showPopup();
    tile->view()->setCurrentIndex({});
    const auto drawn = [&](int row, const QColor& color) {
      const QImage image = tile->view()->viewport()->grab(tile->view()->visualRect(tile->model()->index(row, 0))).toImage();
      int count = 0;
      for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x) count += image.pixelColor(x, y).lightness() < color.lightness() + 12;
      return count;
    };
    EXPECT_GT(drawn(free, theme.colors().text), 0);
    EXPECT_EQ(drawn(refused, theme.colors().text), 0) << "as dark as one that can be chosen";
    EXPECT_GT(drawn(refused, theme.colors().hint), 0);
    tile->hidePopup();
  }
  qApp->setStyleSheet(before);
  qApp->setPalette(palette);
  qApp->setFont(font);
}

}  // namespace
}  // namespace nf
