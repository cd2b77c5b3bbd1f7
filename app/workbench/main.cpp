// SPDX-License-Identifier: GPL-3.0-or-later
#include <fcntl.h>
#include <unistd.h>
#include <QApplication>
#include <QCommandLineParser>
#include <QDir>
#include <QFileInfo>
#include <QProcess>
#include <QSocketNotifier>
#include <QStandardPaths>
#include <QTimer>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "app/workbench/main_window.h"
#include "app/workbench/quiet_watch.h"
#include "widgets/cell_view.h"
#include "widgets/explain_view.h"
#include "widgets/inspector_view.h"
#include "widgets/notebook_view.h"
#include "widgets/tensor_view.h"
#include "widgets/theme.h"

using namespace nf;

namespace {

// The engine beside this program, else the one on the path.
QStringList engineCommand(const QString& wish) {
  if (!wish.isEmpty()) return QProcess::splitCommand(wish);
  const QString beside = QCoreApplication::applicationDirPath() + QStringLiteral("/neoflow");
  if (QFileInfo(beside).isExecutable()) return {beside, QStringLiteral("engine")};
  const QString found = QStandardPaths::findExecutable(QStringLiteral("neoflow"));
  return {found.isEmpty() ? QStringLiteral("neoflow") : found, QStringLiteral("engine")};
}

int g_ends[2] = {-1, -1};  // a pipe: the window hears of a signal in its own time

void tellWindow(int) {
  const char byte = 0;
  [[maybe_unused]] const auto written = ::write(g_ends[1], &byte, 1);
}

// A desktop that logs out, a shell that is closed: they ask the window to end.
void endOnSignals(MainWindow& window) {
  if (::pipe2(g_ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  QObject::connect(new QSocketNotifier(g_ends[0], QSocketNotifier::Read, &window), &QSocketNotifier::activated, &window, [&window] {
    char byte;
    while (::read(g_ends[0], &byte, 1) == 1) {}
    window.end();
  });
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) std::signal(number, tellWindow);
  }
}

int usage(const QString& message) {
  std::fprintf(stderr, "neoflow-workbench: %s\n", qPrintable(message));
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  // Help and version need no display.
  const auto asks = [](std::string_view word) {
    return word == "-h" || word == "--help" || word == "--help-all" || word == "-v" || word == "--version";
  };
  const bool words = std::any_of(argv + 1, argv + argc, asks);
  const std::unique_ptr<QCoreApplication> made(words ? new QCoreApplication(argc, argv) : new QApplication(argc, argv));
  QCoreApplication& application = *made;
  QApplication::setApplicationName(QStringLiteral("neoflow-workbench"));
  QApplication::setOrganizationName(QStringLiteral("neoflow"));
  QApplication::setApplicationVersion(QStringLiteral("0.1.0"));
  QGuiApplication::setDesktopFileName(QStringLiteral("neoflow-workbench"));

  QCommandLineParser parser;
  parser.setApplicationDescription(
      QStringLiteral("A notebook for tensor kernels: write an operator, see its gradient and its fusion, train, tune."));
  parser.addHelpOption();
  parser.addVersionOption();
  parser.addPositionalArgument(QStringLiteral("FILE"), QStringLiteral("notebook to open; one that is not there is begun"),
                               QStringLiteral("[FILE]"));
  const QCommandLineOption engine(QStringLiteral("engine"), QStringLiteral("engine command; default: neoflow engine"),
                                  QStringLiteral("COMMAND"));
  const QCommandLineOption view(QStringLiteral("view"), QStringLiteral("author, explain, tune or devices"), QStringLiteral("VIEW"),
                                QStringLiteral("author"));
  const QCommandLineOption theme(QStringLiteral("theme"), QStringLiteral("light, dark or system"), QStringLiteral("THEME"));
  const QCommandLineOption size(QStringLiteral("size"), QStringLiteral("window size"), QStringLiteral("WxH"));
  const QCommandLineOption screenshot(QStringLiteral("screenshot"), QStringLiteral("write a picture of the window and quit"),
                                      QStringLiteral("PNG"));
  const QCommandLineOption after(QStringLiteral("after"),
                                 QStringLiteral("when to take it: opened, analysis, expression, graph, fusion, devices, subgraphs, "
                                                "kernel, check, cell, tensor, step, kernel_swap, trial, eval, profile, done"),
                                 QStringLiteral("EVENT"), QStringLiteral("opened"));
  const QCommandLineOption count(QStringLiteral("count"), QStringLiteral("after the N-th such event"), QStringLiteral("N"),
                                 QStringLiteral("1"));
  const QCommandLineOption run(QStringLiteral("run"), QStringLiteral("run the cell of --cell once the notebook is checked"));
  const QCommandLineOption train(QStringLiteral("train"), QStringLiteral("run the first train cell once the notebook is checked"));
  const QCommandLineOption cell(QStringLiteral("cell"), QStringLiteral("go to the N-th cell, counted from 1"), QStringLiteral("N"));
  const QCommandLineOption values(QStringLiteral("values"),
                                  QStringLiteral("how the values of --cell and of the inspector stand: image or table"),
                                  QStringLiteral("MODE"), QStringLiteral("image"));
  const QCommandLineOption decision(QStringLiteral("decision"), QStringLiteral("choose the N-th fusion decision, counted from 1"),
                                    QStringLiteral("N"));
  const QCommandLineOption select(QStringLiteral("select"), QStringLiteral("put the cursor into the first place of TEXT"),
                                  QStringLiteral("TEXT"));
  const QCommandLineOption inspect(QStringLiteral("inspect"),
                                   QStringLiteral("show this tensor in the inspector and check its gradient"),
                                   QStringLiteral("TENSOR"));
  parser.addOptions({engine, view, theme, size, screenshot, after, count, train, cell, run, values, decision, select, inspect});
  parser.process(application);

  Theme look;
  const QString mode = parser.value(theme);
  if (!mode.isEmpty() && mode != QLatin1String("light") && mode != QLatin1String("dark") && mode != QLatin1String("system"))
    return usage(QStringLiteral("--theme is light, dark or system"));
  // Pictures look the same whatever somebody chose.
  look.setMode(mode == QLatin1String("light")                ? Theme::Mode::Light
               : mode == QLatin1String("dark")               ? Theme::Mode::Dark
               : mode.isEmpty() && !parser.isSet(screenshot) ? MainWindow::keptTheme()
                                                             : Theme::Mode::System);

  const QStringList views{QStringLiteral("author"), QStringLiteral("explain"), QStringLiteral("tune"), QStringLiteral("devices")};
  const auto page = views.indexOf(parser.value(view));
  if (page < 0) return usage(QStringLiteral("--view is author, explain, tune or devices"));

  const bool asTable = parser.value(values) == QLatin1String("table");
  if (!asTable && parser.value(values) != QLatin1String("image")) return usage(QStringLiteral("--values is image or table"));

  MainWindow window(&look, engineCommand(parser.value(engine)));
  endOnSignals(window);
  if (parser.isSet(screenshot)) window.forgetSession();
  else {
    window.fitToScreen();
    window.restoreLayout();
  }
  if (parser.isSet(size)) {
    const QStringList parts = parser.value(size).split(QLatin1Char('x'));
    if (parts.size() != 2 || parts[0].toInt() < 200 || parts[1].toInt() < 200)
      return usage(QStringLiteral("--size is WxH, 1600x1000 for instance"));
    window.setWindowState(window.windowState() & ~(Qt::WindowMaximized | Qt::WindowFullScreen));
    window.resize(parts[0].toInt(), parts[1].toInt());
  }
  if (parser.isSet(train)) window.trainFirst();
  if (const QStringList files = parser.positionalArguments(); !files.isEmpty()) {
    const QFileInfo first(files.first());
    if (!first.exists() && (parser.isSet(screenshot) || !first.dir().exists()))
      return usage(QStringLiteral("%1 does not exist").arg(files.first()));
    window.openFiles(files, MainWindow::Missing::Begun);
    window.tellOfLeft();
  } else if (!parser.isSet(screenshot)) {
    window.restoreSession();
  }
  window.showPage(static_cast<MainWindow::Page>(page));
  window.show();
  window.startEngine();
  if (parser.isSet(cell)) {
    const auto& cells = window.workspace().document().cells();
    const auto index = static_cast<std::size_t>(parser.value(cell).toInt());
    if (index < 1 || index > cells.size()) return usage(QStringLiteral("--cell is 1 to %1").arg(cells.size()));
    QObject::connect(&window.workspace(), &Workspace::analysed, &window,
                     [&window, id = cells[index - 1].id, start = parser.isSet(run), asTable]() mutable {
                       window.showCell(id);
                       if (asTable)
                         for (TensorView* v : {window.notebook()->view(id)->tensorView(), window.inspector()->values()})
                           if (v) v->setMode(TensorView::kTable);
                       if (std::exchange(start, false)) window.action(QStringLiteral("run.stay"))->trigger();
                     });
  }
  if (parser.isSet(select)) {
    const auto place = window.workspace().document().text().find(parser.value(select).toStdString());
    if (place == std::string::npos) return usage(QStringLiteral("--select: the notebook has no such text"));
    QObject::connect(
        &window.workspace(), &Workspace::analysed, &window, [&window, place] { window.notebook()->scrollToByte(place + 1, true); },
        Qt::SingleShotConnection);
  }
  if (parser.isSet(inspect))
    QObject::connect(
        &window.workspace(), &Workspace::analysed, &window, [&window, name = parser.value(inspect)] { window.pinInspector(name); },
        Qt::SingleShotConnection);
  // Of the text as it was opened: what is decided later has other numbers.
  if (parser.isSet(decision))
    QObject::connect(&window.workspace(), &Workspace::fusionArrived, &window, [&window, number = parser.value(decision).toInt()] {
      if (!window.workspace().document().canUndo()) window.explain()->chooseDecision(number - 1);
    });
  const QString awaited = parser.value(after);
  const QStringList ofRuns{QStringLiteral("cell"),  QStringLiteral("step"), QStringLiteral("kernel_swap"),
                           QStringLiteral("trial"), QStringLiteral("eval"), QStringLiteral("done")};
  if (parser.isSet(screenshot) && !parser.isSet(train) && !parser.isSet(run) && ofRuns.contains(awaited))
    return usage(QStringLiteral("--after %1 comes of a run: give --train, or --cell and --run").arg(awaited));
  if (parser.isSet(screenshot)) {
    // What is waited for does not come any more.
    const auto giveUp = [&application](const QString& why) {
      std::fprintf(stderr, "neoflow-workbench: %s\n", qPrintable(why));
      application.exit(1);
    };
    Workspace* w = &window.workspace();
    QObject::connect(w, &Workspace::runFailed, &window, [giveUp, ofRuns, awaited](const QString& message) {
      if (ofRuns.contains(awaited) || awaited == QLatin1String("profile")) giveUp(message);
    });
    QObject::connect(w, &Workspace::cellFinished, &window, [giveUp, awaited](const protocol::CellResult& result) {
      if (result.status == protocol::CellStatus::Error && (awaited == QLatin1String("cell") || awaited == QLatin1String("tensor")))
        giveUp(QString::fromStdString(result.message));
    });
    QObject::connect(w, &Workspace::failed, &window, [giveUp, awaited](const QString& what, const QString& message) {
      if (what.compare(awaited, Qt::CaseInsensitive) == 0) giveUp(message);
    });
    if (parser.isSet(train))
      QObject::connect(w, &Workspace::analysed, &window, [w, giveUp] {
        const auto& cells = w->analysis().cells;
        if (std::none_of(cells.begin(), cells.end(), [](const protocol::CellInfo& c) { return c.train.has_value(); }))
          giveUp(QStringLiteral("%1 has no train cell").arg(w->name()));
      });
    // The event, then what it made the views do: answers under way, layouts, thinned redraws.
    auto* settle = new QTimer(&window);
    settle->setSingleShot(true);
    settle->setInterval(700);
    QObject::connect(settle, &QTimer::timeout, &window, [&, waits = 0]() mutable {
      constexpr int kMostWaits = 30;
      if (!window.workspace().idle() && !window.workspace().running() && ++waits < kMostWaits) return settle->start();
      const QString path = parser.value(screenshot);
      const bool written = window.grab().save(path);
      if (!written) std::fprintf(stderr, "neoflow-workbench: %s cannot be written\n", qPrintable(path));
      application.exit(written ? 0 : 3);
    });
    if (parser.value(after) == QLatin1String("opened")) settle->start();
    QObject::connect(new QuietWatch(w, &window), &QuietWatch::quiet, &window, [giveUp, settle, awaited, w] {
      if (!settle->isActive())
        giveUp(QStringLiteral("--after %1: %2 is checked, nothing is under way, and it did not come").arg(awaited, w->name()));
    });
    // What else arrives is waited for too, but a run goes on telling things.
    QObject::connect(
        &window.workspace(), &Workspace::milestone, &window,
        [&window, &parser, &after, settle, armed = false, left = parser.value(count).toInt()](const QString& event) mutable {
          const bool now = !armed && event == parser.value(after) && --left <= 0;
          if (now || (armed && !window.workspace().running())) settle->start();
          armed = armed || now;
        });
    QObject::connect(&window.workspace(), &Workspace::engineDied, &window, [&](const QString& reason) {
      std::fprintf(stderr, "neoflow-workbench: %s\n", qPrintable(reason));
      if (parser.value(after) != QLatin1String("opened")) application.exit(3);
    });
  }
  return QApplication::exec();
}
