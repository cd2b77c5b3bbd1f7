// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <gtest/gtest.h>

#include <QByteArray>
#include <QFile>
#include <QString>

#include "tests/widgets/capsule.h"
#include "widgets/basic.h"
#include "widgets/selection.h"

namespace nf {

struct Widgets : ::testing::Test {
  Theme theme;
  Selection selection;
  Widgets() {
    theme.setMode(Theme::Mode::Light);
    selection.setSpans(capsule::analysis(capsule::kText, 1).spans);
  }
};

struct Tuning : ::testing::Test {
  Theme theme;
  Selection selection;
  Tuning() {
    theme.setMode(Theme::Mode::Dark);
    selection.setSpans(capsule::analysis(capsule::kText, 1).spans);
  }
  static QByteArray read(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
  }
};

}  // namespace nf
