// SPDX-License-Identifier: GPL-3.0-or-later
// Devices: what they are used for, their constants with intervals, what is missing and why.
#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QLabel>
#include <QTest>
#include <QToolButton>

#include "tests/widgets/capsule.h"
#include "tests/widgets/view_fixtures.h"
#include "widgets/devices_view.h"

namespace nf {
namespace {

using namespace protocol;

TEST_F(Tuning, ADeviceIsInUseWhileSomethingRunsOnIt) {
  DevicesView view(&theme);
  view.resize(900, 700);
  view.show();
  const auto devices = capsule::devices();
  view.setDevices(devices);
  const std::string name = devices.devices[0].name;
  EXPECT_EQ(view.stateOf(name), "ready");
  view.setRunning(name, "training");
  EXPECT_EQ(view.stateOf(name), "in use: training");
  view.setDevices(devices);
  EXPECT_EQ(view.stateOf(name), "in use: training");
  view.setRunning({}, {});
  EXPECT_EQ(view.stateOf(name), "ready");
}

TEST_F(Tuning, AnotherOfSeveralDevicesIsChosenOnItsCard) {
  DevicesView view(&theme);
  view.resize(900, 700);
  view.show();
  protocol::Devices devices;
  for (const char* name : {"cuda:0", "cuda:1", "cuda:2"}) {
    protocol::DeviceInfo d;
    d.name = name;
    d.backend = "cuda";
    d.inUse = d.name == "cuda:0";
    if (d.name == "cuda:2") d.unavailable = "cuda:2 has compute capability 6.1; 7.5 or later is needed.";
    devices.devices.push_back(d);
  }
  view.setDevices(devices);
  const auto use = [&](const char* name) {
    return view.findChild<QWidget*>(QString::fromLatin1(name))->findChild<QToolButton*>(QStringLiteral("use"));
  };
  EXPECT_FALSE(use("cuda:0")->isEnabled());
  EXPECT_EQ(use("cuda:2"), nullptr) << "what can't be used is listed with its reason alone";
  QString wanted;
  QObject::connect(&view, &DevicesView::deviceWanted, &view, [&](const QString& name) { wanted = name; });
  QTest::mouseClick(use("cuda:1"), Qt::LeftButton);
  EXPECT_EQ(wanted, "cuda:1");
}

// Ages count from when the engine told of the devices, not from when the page was drawn for another notebook.
TEST_F(Tuning, AnAgeIsOfNowWheneverThePageIsDrawn) {
  DevicesView view(&theme);
  view.resize(900, 700);
  view.show();
  auto devices = capsule::devices();
  for (auto& d : devices.devices) {
    if (d.constants) d.constants->measuredSecondsAgo = 180;
    d.kernels.reset();
  }
  view.setDevices(devices, std::chrono::steady_clock::now() - std::chrono::minutes(17));
  QStringList ages;
  for (const QLabel* l : view.findChildren<QLabel*>(QStringLiteral("note")))
    if (l->text().startsWith("measured")) ages << l->text();
  ASSERT_FALSE(ages.isEmpty());
  EXPECT_TRUE(ages.front().startsWith("measured 20 min ")) << ages.front().toStdString();
}

// No number without its noise, and one that is noisy says so.
TEST_F(Tuning, AConstantHasItsIntervalAndAWideOneIsWarnedOf) {
  DevicesView view(&theme);
  view.resize(900, 700);
  view.show();
  auto devices = capsule::devices();
  devices.devices[0].kernels.reset();
  auto& k = *devices.devices[0].constants;
  k.bandwidth = 5.56e9, k.bandwidthInterval = {5.41e9, 5.62e9, 64};
  k.flopRate = 118e9, k.flopInterval = {117e9, 119e9, 64};
  k.launchSeconds = 202e-9, k.launchInterval = {200e-9, 204e-9, 64};
  const auto noises = [&] {
    QStringList out;
    QCoreApplication::processEvents();
    for (const QLabel* l : view.findChildren<QLabel*>(QStringLiteral("noise")))
      if (l->isVisible()) out << l->text();
    return out.join(QStringLiteral(" | "));
  };
  const auto warning = [&]() -> QString {
    QCoreApplication::processEvents();
    for (QWidget* w : view.findChildren<QWidget*>(QStringLiteral("shaky")))
      if (w->isVisible()) return static_cast<MessageStrip*>(w)->text();
    return {};
  };
  view.setDevices(devices);
  EXPECT_EQ(noises().toStdString(), "[5.41, 5.62]  n = 64 | [117, 119]  n = 64 | [200, 204]  n = 64");
  EXPECT_EQ(warning(), QString());
  k.bandwidthInterval.low = 3.1e9;
  view.setDevices(devices);
  EXPECT_TRUE(warning().contains("The interval of P_d is wide")) << warning().toStdString();
  k.bandwidthInterval = {};
  view.setDevices(devices);
  EXPECT_TRUE(noises().startsWith("interval not known")) << noises().toStdString();
  EXPECT_EQ(warning(), QString());
}

// A constant that no sample differs from is the same number as both ends of its interval, also where it lies between two digits.
TEST_F(Tuning, NoConstantIsRoundedOutOfItsInterval) {
  for (int i = 1000; i < 9999; ++i) {
    const double seconds = i * 1e-10, rate = i * 1e7;
    const auto number = [](const QString& text) { return text.section(QLatin1Char(' '), 0, 0); };
    const QString l = number(microsecondsText(seconds * 1e6)), p = number(flopsText(rate, QStringLiteral("B/s")));
    ASSERT_EQ(secondsNoise(seconds, {seconds, seconds, 64}), QStringLiteral("[%1, %1]  n = 64").arg(l));
    ASSERT_EQ(rateNoise(rate, {rate, rate, 64}), QStringLiteral("[%1, %1]  n = 64").arg(p));
  }
}

TEST_F(Tuning, DevicesSayWhatIsMissingAndWhy) {
  DevicesView view(&theme);
  view.resize(1600, 900);
  view.show();
  view.setDevices(capsule::devices());
  view.setDevices(capsule::devices());
  QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
  QStringList texts;
  for (const QLabel* l : view.findChildren<QLabel*>()) texts << l->text();
  EXPECT_TRUE(texts.contains("no CUDA driver was found: libcuda.so.1 is not there"));
  EXPECT_TRUE(texts.contains("21.4 GB/s"));
  EXPECT_TRUE(texts.contains("measured 12 min 0 s ago"));
  // Everything has a place: nothing is drawn over or outside of its parent.
  QCoreApplication::processEvents();
  for (const QLabel* l : view.findChildren<QLabel*>())
    if (!l->text().isEmpty()) { EXPECT_TRUE(l->isVisible() && l->width() > 0 && l->height() >= 12) << l->text().toStdString(); }
  bool asked = false;
  QObject::connect(&view, &DevicesView::measureWanted, &view, [&] { asked = true; });
  QTest::mouseClick(view.measure(), Qt::LeftButton);
  EXPECT_TRUE(asked);
}

}  // namespace
}  // namespace nf
