// SPDX-License-Identifier: GPL-3.0-or-later
#include <gtest/gtest.h>

#include <QApplication>
#include <QSettings>
#include <QTemporaryDir>

#include "tests/workbench/killed_window.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication application(argc, argv);
  QApplication::setApplicationName("neoflow-workbench-test");
  QApplication::setOrganizationName("neoflow-test");
  if (argc > 2 && QString::fromLocal8Bit(argv[1]) == "--window") return nf::windowToKill(QApplication::arguments().mid(2));
  // Tests run side by side: each has settings of its own.
  QTemporaryDir settings;
  QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, settings.path());
  return RUN_ALL_TESTS();
}
