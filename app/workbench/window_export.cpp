// SPDX-License-Identifier: GPL-3.0-or-later
// The notebook as a report and on paper.
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <algorithm>
#include <memory>

#include "app/workbench/main_window.h"
#include "widgets/message_bar.h"
#include "widgets/notebook_view.h"
#include "widgets/train_strip.h"

namespace nf {

void MainWindow::exportAs(const QString& title, const QString& filter, const QString& ending,
                          void (MainWindow::*write)(const QString&)) {
  auto* dialog = new QFileDialog(this, title);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setAcceptMode(QFileDialog::AcceptSave);
  dialog->setNameFilter(filter);
  dialog->setDefaultSuffix(ending);
  const QFileInfo file(workspace().path());
  if (!workspace().path().isEmpty()) dialog->setDirectory(file.absolutePath());
  dialog->selectFile(QFileInfo(workspace().name()).completeBaseName() + QLatin1Char('.') + ending);
  connect(dialog, &QFileDialog::fileSelected, this, [this, write](const QString& chosen) { (this->*write)(chosen); });
  dialog->open();
}

// Of what the command line says of the notebook as it was given; one in a function of the standard library is at no place of it.
TrainStrip::Place MainWindow::mistakeAt(const QJsonObject& mistake) const {
  const QString file = mistake.value(QStringLiteral("file")).toString();
  const bool own = file == QLatin1String("standard input") || QFileInfo(file) == QFileInfo(m_tab->workspace->path());
  return own ? placeAt(m_tab, mistake.value(QStringLiteral("line")).toInteger(),
                       mistake.value(QStringLiteral("column")).toInteger())
             : TrainStrip::Place();
}

TrainStrip::Place MainWindow::placeAt(const Tab* tab, std::int64_t line, std::int64_t column) {
  TrainStrip::Place place;
  if (line < 1) return place;
  const std::string& text = tab->workspace->document().text();
  std::size_t begin = 0;
  for (std::int64_t i = 1; i < line; ++i) {
    const std::size_t newline = text.find('\n', begin);
    if (newline == std::string::npos) return place;
    begin = newline + 1;
  }
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  const std::size_t byte = std::min(end, begin + static_cast<std::size_t>(std::max<std::int64_t>(0, column - 1)));
  place.name = tab->notebook->placeName(static_cast<std::uint32_t>(byte));
  place.go = [notebook = QPointer(tab->notebook), byte] {
    if (notebook) notebook->scrollToByte(byte, true);
  };
  return place;
}

// The command line writes it: with the newest run where the file is what the window shows, of the text alone where it is not saved.
void MainWindow::exportHtml(const QString& path) {
  if (m_export) return setStatus("error", tr("A report is being written already"));
  m_messages->dismiss("export");
  m_toMistake = nullptr;
  auto folder = std::make_shared<QTemporaryDir>();
  const QFileInfo file(workspace().path());
  const QString place = !workspace().path().isEmpty()   ? file.absoluteFilePath()
                        : workspace().place().isEmpty() ? workspace().name()
                                                        : workspace().place();
  const bool asSaved = !workspace().path().isEmpty() && !workspace().document().modified();
  QStringList command = m_engineCommand;
  if (command.size() > 1 && command.back() == QLatin1String("engine")) command.removeLast();
  const QString program = command.takeFirst();
  command << QStringLiteral("export") << (asSaved ? file.absoluteFilePath() : QStringLiteral("-")) << folder->path()
          << (asSaved ? QStringList() : QStringList{QStringLiteral("--as"), place}) << QStringLiteral("--to")
          << QStringLiteral("html") << QStringLiteral("--values") << QStringLiteral("--json");
  const QString made = folder->filePath((asSaved ? file : QFileInfo(place)).completeBaseName() + QStringLiteral(".html"));
  m_export = new QProcess(this);
  m_export->setWorkingDirectory(workspace().path().isEmpty() ? QDir::currentPath() : file.absolutePath());
  const auto ended = [this, folder, made, path](const QString& trouble, const QString& place = {}) {
    if (!m_export) return;
    m_export->deleteLater();
    m_export = nullptr;
    QString said = trouble;
    if (said.isEmpty()) {
      QFile::remove(path);
      if (QFile::copy(made, path)) return setStatus("ok", tr("Exported %1").arg(QFileInfo(path).fileName()));
      said = tr("%1 cannot be written").arg(path);
    }
    setStatus("error", tr("The report was not written"));
    m_messages->ask("export", tr("The report was not written: %1").arg(said),
                    place.isEmpty() ? QStringList() : QStringList{tr("Go to %1").arg(place)});
  };
  connect(m_export, &QProcess::errorOccurred, this, [this, ended, program](QProcess::ProcessError error) {
    if (error == QProcess::FailedToStart) ended(tr("%1 cannot be started").arg(program));
  });
  connect(m_export, &QProcess::finished, this, [this, ended, of = QPointer(notebook())](int code, QProcess::ExitStatus how) {
    if (!m_export) return;
    if (how == QProcess::NormalExit && code == 0) return ended({});
    const QJsonObject answer = QJsonDocument::fromJson(m_export->readAllStandardOutput()).object();
    for (const QJsonValue& mistake : answer.value(QStringLiteral("diagnostics")).toArray()) {
      if (mistake[QStringLiteral("severity")].toString() != QLatin1String("error")) continue;
      const TrainStrip::Place place = of == notebook() ? mistakeAt(mistake.toObject()) : TrainStrip::Place();
      m_toMistake = place.go;
      const QString words = mistake[QStringLiteral("message")].toString().section(QLatin1Char('\n'), 0, 0);
      return ended(place.name.isEmpty() ? tr("a mistake keeps it from being made, %1").arg(words)
                                        : tr("a mistake in %1 keeps it from being made, %2").arg(place.name, words),
                   place.name);
    }
    const QString message = answer.value(QStringLiteral("message")).toString();
    const QString words = QString::fromUtf8(m_export->readAllStandardError()).trimmed();
    ended(!message.isEmpty() ? message : !words.isEmpty() ? words : tr("neoflow export ended with %1").arg(code));
  });
  setStatus("running", tr("Writing the report"));
  const std::string& text = workspace().document().text();
  m_export->start(program, command);
  if (!m_export) return;
  if (!asSaved) m_export->write(text.data(), static_cast<qint64>(text.size()));
  m_export->closeWriteChannel();
}

// The cells as they are shown, in the light theme: paper is white.
void MainWindow::exportPdf(const QString& path) {
  const Theme::Mode mode = m_theme->mode();
  const bool dark = m_theme->colors().dark;
  // Both themes are set before the next paint of the screen. Updates stay enabled: a widget without them renders nothing.
  if (dark) m_theme->setMode(Theme::Mode::Light);
  const bool written = notebook()->savePdf(path, workspace().name());
  if (dark) m_theme->setMode(mode);
  m_messages->dismiss("export");
  if (written) setStatus("ok", tr("Exported %1").arg(QFileInfo(path).fileName()));
  else m_messages->ask("export", tr("%1 cannot be written.").arg(path), {});
}

}  // namespace nf
