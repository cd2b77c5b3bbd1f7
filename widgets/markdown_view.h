// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QHash>
#include <QTextDocument>
#include <QUrl>
#include <QWidget>
#include <vector>

#include "widgets/theme.h"

namespace nf {

// The first line as it reads: no marks of headings, code, links. "": there is none.
QString firstLineOf(const QString& markdown);

// Reads pictures, and those from regular files of this machine alone: a device or a pipe might never end.
class ProseDocument : public QTextDocument {
  Q_OBJECT
 public:
  void setFolder(const QString& folder) { m_folder = folder; }  // that relative names begin in; empty: they name nothing
  QString unread(const QUrl& picture) const { return m_unread.value(picture); }  // why; "": it was read

 protected:
  QVariant loadResource(int type, const QUrl& name) override;

 private:
  QString m_folder;
  QHash<QUrl, QString> m_unread;
};

// Rendered Markdown: headings, paragraphs, lists, tables, code, pictures. Double click edits.
class MarkdownView : public QWidget {
  Q_OBJECT
 public:
  explicit MarkdownView(const Theme* theme, QWidget* parent = nullptr);
  void setMarkdown(const QString& markdown);
  void setFolder(const QString& folder);  // of the notebook
  QString markdown() const { return m_markdown; }
  const QTextDocument* document() const { return &m_document; }  // as it is set
  // Every place of `text` is tinted; `current`: what is looked at stands in this cell.
  void setFound(const QString& text, QTextDocument::FindFlags how, bool current);
  bool hasHeightForWidth() const override { return true; }
  int heightForWidth(int width) const override;
  QSize sizeHint() const override { return {400, heightForWidth(std::max(200, width()))}; }

 Q_SIGNALS:
  void editRequested();

 protected:
  void paintEvent(QPaintEvent*) override;
  void resizeEvent(QResizeEvent*) override;
  void mouseDoubleClickEvent(QMouseEvent*) override;

 private:
  void typeset();
  std::vector<int> pictures() const;  // where they stand in the document
  QSizeF pictureSize(int at) const;   // px, of its file
  bool sayUnread(int at);
  void partPictures();
  void ruleTables();
  void fitPictures(int width) const;
  const Theme* m_theme;
  QString m_markdown, m_found;
  QTextDocument::FindFlags m_foundHow;
  bool m_foundHere = false;
  mutable ProseDocument m_document;
  std::vector<int> m_pictures;
};

}  // namespace nf
