// SPDX-License-Identifier: GPL-3.0-or-later
// Where a name is defined: in the notebook, or in a file of the standard library, which is written in the same language.
#include <QDialog>
#include <QDialogButtonBox>
#include <QFile>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollBar>
#include <QTextBlock>
#include <QVBoxLayout>

#include "app/workbench/main_window.h"
#include "widgets/cell_view.h"
#include "widgets/code_highlighter.h"
#include "widgets/expression_editor.h"
#include "widgets/notebook_view.h"

static void initLibrary() { Q_INIT_RESOURCE(std); }

namespace nf {

void MainWindow::goToDefinition(const QString& name) {
  const auto& symbols = workspace().analysis().symbols;
  const auto found = std::ranges::find(symbols, name.toStdString(), &protocol::SymbolInfo::name);
  if (found == symbols.end())
    return setStatus("warning", tr("%1 is no name that the notebook defines: it belongs to its statement").arg(name));
  if (!found->definition.source.empty()) return showLibrary(found->definition);
  showPage(Page::Author);
  notebook()->scrollToByte(found->definition.begin, true);
}

void MainWindow::goToDefinition() {
  const CellView* v = notebook()->view(notebook()->activeCell());
  const QString name = page() == Page::Author && v && notebook()->editing() ? v->editor()->nameAtCaret() : QString();
  if (name.isEmpty()) return setStatus("warning", tr("The caret is at no name"));
  goToDefinition(name);
}

QByteArray MainWindow::libraryText(const std::string& source) {
  initLibrary();
  QFile file(QStringLiteral(":/") + QString::fromStdString(source));
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

void MainWindow::showLibrary(const protocol::SourceSpan& place) {
  const QByteArray bytes = libraryText(place.source);
  if (bytes.isEmpty()) return setStatus("warning", tr("%1 is not at hand here").arg(QString::fromStdString(place.source)));
  auto* dialog = new QDialog(this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setObjectName(QStringLiteral("library"));
  dialog->setWindowTitle(tr("%1 of the standard library, to read").arg(QString::fromStdString(place.source)));
  dialog->resize(860, 640);
  auto* layout = new QVBoxLayout(dialog);
  auto* text = new QPlainTextEdit(QString::fromUtf8(bytes));
  text->setReadOnly(true);
  text->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  text->setLineWrapMode(QPlainTextEdit::NoWrap);
  text->setFont(m_theme->mono(13));
  text->setAccessibleName(dialog->windowTitle());
  layout->addWidget(text);
  const auto dress = [this, text] { text->setExtraSelections(highlighted(*text, m_theme->colors())); };
  connect(m_theme, &Theme::changed, text, dress);
  dress();
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
  buttons->button(QDialogButtonBox::Close)->setIcon({});  // the style's is drawn for light windows
  connect(buttons, &QDialogButtonBox::rejected, dialog, &QDialog::close);
  layout->addWidget(buttons);
  const auto unit = [&](std::uint32_t byte) { return static_cast<int>(QString::fromUtf8(bytes.left(byte)).size()); };
  QTextCursor cursor(text->document());
  cursor.setPosition(unit(place.begin));
  cursor.setPosition(unit(place.end), QTextCursor::KeepAnchor);
  dialog->show();
  text->setFocus();
  text->setTextCursor(cursor);
  // The whole function in sight, with the words above it.
  text->verticalScrollBar()->setValue(std::max(0, cursor.block().firstLineNumber() - 6));
}

}  // namespace nf
