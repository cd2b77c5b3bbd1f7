// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/markdown_view.h"

#include <QAbstractTextDocumentLayout>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QImage>
#include <QPainter>
#include <QTextBlock>
#include <QTextCursor>
#include <QTextList>
#include <QTextTable>
#include <QUrl>
#include <algorithm>
#include <cmath>

#include "core/support/bidi.h"

namespace nf {

namespace {
constexpr int kBodySize = 15, kLinePercent = 145;

constexpr int kSaysWhy = QTextFormat::UserProperty;  // stands where a picture should

const QTextDocument::MarkdownFeatures kDialect =
    QTextDocument::MarkdownFeatures(QTextDocument::MarkdownDialectGitHub) | QTextDocument::MarkdownNoHTML;
}  // namespace

QVariant ProseDocument::loadResource(int type, const QUrl& name) {
  constexpr qint64 kMost = 64 << 20;
  if (type != ImageResource) return {};
  // Of a null picture Qt opens the file by itself.
  QImage none(16, 16, QImage::Format_ARGB32_Premultiplied);
  none.fill(Qt::transparent);
  const auto refuse = [&](const QString& why) {
    m_unread.insert(name, why);
    return none;
  };
  m_unread.remove(name);
  if (!(name.isRelative() || name.isLocalFile())) return refuse(tr("only files of this machine are read"));
  const QString path = name.isLocalFile() ? name.toLocalFile() : name.path();
  if (m_folder.isEmpty() && QFileInfo(path).isRelative()) return refuse(tr("the notebook has no folder yet"));
  QFile file(QDir(m_folder).filePath(path));
  const QFileInfo info(file);
  if (!info.exists()) return refuse(tr("there is no such file"));
  if (!info.isFile()) return refuse(tr("it is no file"));
  if (info.size() > kMost) return refuse(tr("it is larger than 64 MiB"));
  if (!file.open(QIODevice::ReadOnly)) return refuse(file.errorString());
  // What grows meanwhile, as files of the kernel do, is read as far as it was.
  const QImage read = QImage::fromData(file.read(info.size()));
  return read.isNull() ? refuse(tr("it is no picture that can be read")) : read;
}

QString firstLineOf(const QString& markdown) {
  QTextDocument document;
  document.setMarkdown(markdown, kDialect);
  return document.toPlainText().section(QLatin1Char('\n'), 0, 0, QString::SectionSkipEmpty).trimmed();
}

MarkdownView::MarkdownView(const Theme* theme, QWidget* parent) : QWidget(parent), m_theme(theme) {
  QSizePolicy policy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  policy.setHeightForWidth(true);
  setSizePolicy(policy);
  m_document.setDocumentMargin(0);
  connect(theme, &Theme::changed, this, [this] { typeset(); });
}

void MarkdownView::setMarkdown(const QString& markdown) {
  m_markdown = markdown;
  std::replace_if(
      m_markdown.begin(), m_markdown.end(), [](QChar c) { return reordersText(c.unicode()); }, QChar(0xfffd));
  setAccessibleName(markdown);
  typeset();
}

void MarkdownView::setFolder(const QString& folder) {
  m_document.setFolder(folder);
  typeset();
}

void MarkdownView::typeset() {
  m_document.setDefaultFont(m_theme->ui(kBodySize));
  m_document.setMarkdown(m_markdown.isEmpty() ? tr("Double-click to write text") : m_markdown, kDialect);
  const Palette& c = m_theme->colors();
  partPictures();
  m_pictures = pictures();
  ruleTables();
  const double between = QFontMetricsF(m_theme->ui(kBodySize)).height() * (kLinePercent - 100) / 100;
  const auto isCode = [](const QTextBlock& block) { return block.blockFormat().hasProperty(QTextFormat::BlockCodeLanguage); };
  for (QTextBlock block = m_document.begin(); block.isValid(); block = block.next()) {
    QTextCursor cursor(block);
    QTextBlockFormat format = block.blockFormat();
    const int level = format.headingLevel();
    format.setLineHeight(level > 0                           ? 125
                         : QTextCursor(block).currentTable() ? 110
                                                             : kLinePercent,
                         QTextBlockFormat::ProportionalHeight);
    // A part of the line's height would be a part of the picture's.
    if (std::ranges::any_of(m_pictures, [&](int at) { return block.contains(at); }))
      format.setLineHeight(between, QTextBlockFormat::LineDistanceHeight);
    format.setTopMargin(level > 0 && block != m_document.begin() ? 14 : 0);
    format.setBottomMargin(level > 0 ? 4 : QTextCursor(block).currentTable() ? 0 : 6);
    const bool code = isCode(block);
    if (code) {
      format.setBackground(c.code);
      format.setLeftMargin(8);
      format.setNonBreakableLines(false);
      if (isCode(block.next())) format.setBottomMargin(0);
    }
    cursor.setBlockFormat(format);
    for (auto it = block.begin(); !it.atEnd(); ++it) {
      const QTextFragment fragment = it.fragment();
      QTextCharFormat chars = fragment.charFormat();
      QFont font = code || chars.fontFixedPitch() ? m_theme->mono(13) : m_theme->ui(level == 1 ? 24 : level == 2 ? 18 : kBodySize);
      font.setWeight(level > 0 || chars.fontWeight() > QFont::Medium ? QFont::DemiBold : QFont::Normal);
      font.setItalic(chars.fontItalic());
      chars.setFont(font);
      chars.setForeground(m_markdown.isEmpty()          ? c.hint
                          : chars.isAnchor()            ? c.accent
                          : chars.hasProperty(kSaysWhy) ? c.muted
                                                        : c.text);
      cursor.setPosition(fragment.position());
      cursor.setPosition(fragment.position() + fragment.length(), QTextCursor::KeepAnchor);
      cursor.setCharFormat(chars);
    }
  }
  if (testAttribute(Qt::WA_Resized)) setFixedHeight(heightForWidth(width()));
  updateGeometry();
  update();
}

void MarkdownView::setFound(const QString& text, QTextDocument::FindFlags how, bool current) {
  if (m_found == text && m_foundHow == how && m_foundHere == current) return;
  m_found = text, m_foundHow = how, m_foundHere = current;
  update();
}

std::vector<int> MarkdownView::pictures() const {
  std::vector<int> all;
  for (QTextBlock block = m_document.begin(); block.isValid(); block = block.next())
    for (auto it = block.begin(); !it.atEnd(); ++it)
      for (int i = 0; it.fragment().charFormat().isImageFormat() && i < it.fragment().length(); ++i)
        all.push_back(it.fragment().position() + i);
  return all;
}

QSizeF MarkdownView::pictureSize(int at) const {
  QTextCursor cursor(&m_document);
  cursor.setPosition(at + 1);
  QTextImageFormat format = cursor.charFormat().toImageFormat();
  format.clearProperty(QTextFormat::ImageWidth);
  format.clearProperty(QTextFormat::ImageHeight);
  return m_document.documentLayout()->handlerForObject(QTextFormat::ImageObject)->intrinsicSize(&m_document, at, format);
}

// Words in the place of a picture that was not read: which, and why.
bool MarkdownView::sayUnread(int at) {
  QTextCursor cursor(&m_document);
  cursor.setPosition(at);
  cursor.setPosition(at + 1, QTextCursor::KeepAnchor);
  const QString name = cursor.charFormat().toImageFormat().name();
  const QString why = m_document.unread(QUrl(name));
  if (why.isEmpty()) return false;
  QTextCharFormat format;
  format.setFontItalic(true);
  format.setProperty(kSaysWhy, true);
  cursor.insertText(tr("[picture %1: %2]").arg(name, why), format);
  return true;
}

// Thin lines with room around the words.
void MarkdownView::ruleTables() {
  for (QTextFrame* frame : m_document.rootFrame()->childFrames()) {
    auto* table = qobject_cast<QTextTable*>(frame);
    if (!table) continue;
    QTextTableFormat format = table->format();
    format.setBorder(1);
    format.setBorderStyle(QTextFrameFormat::BorderStyle_Solid);
    format.setBorderBrush(m_theme->colors().separator);
    format.setBorderCollapse(true);
    format.setCellSpacing(0);
    format.setCellPadding(5);
    format.setTopMargin(4);
    format.setBottomMargin(10);
    table->setFormat(format);
  }
}

// What is much higher than words stands on lines of its own: Qt makes a line whose end it does not fit on as high as it is.
void MarkdownView::partPictures() {
  const double most = 2 * QFontMetricsF(m_theme->ui(kBodySize)).height();
  QTextCursor cursor(&m_document);
  const auto breakLine = [&](int at) {
    cursor.setPosition(at);
    if (m_document.characterAt(at).isSpace()) cursor.setPosition(at + 1, QTextCursor::KeepAnchor);
    cursor.insertText(QString(QChar::LineSeparator), QTextCharFormat());
  };
  const std::vector<int> all = pictures();
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    const double height = pictureSize(*at).height();  // reads it
    if (sayUnread(*at) || height <= most) continue;
    const QTextBlock block = m_document.findBlock(*at);
    if (*at + 2 < block.position() + block.length()) breakLine(*at + 1);
    if (*at > block.position()) breakLine(m_document.characterAt(*at - 1).isSpace() ? *at - 1 : *at);
  }
}

// No wider than what is beside margins and indents.
void MarkdownView::fitPictures(int width) const {
  for (const int at : m_pictures) {
    QTextCursor cursor(&m_document);
    cursor.setPosition(at);
    const QTextBlockFormat block = cursor.blockFormat();
    const int indents = block.indent() + (cursor.currentList() ? cursor.currentList()->format().indent() : 0);
    cursor.setPosition(at + 1, QTextCursor::KeepAnchor);
    const QTextImageFormat was = cursor.charFormat().toImageFormat();
    QTextImageFormat format = was;
    format.clearProperty(QTextFormat::ImageWidth);
    format.clearProperty(QTextFormat::ImageHeight);
    const QSizeF size = pictureSize(at);
    if (const double room = width - block.leftMargin() - block.rightMargin() - indents * m_document.indentWidth();
        room > 0 && size.width() > room) {
      format.setWidth(room);
      format.setHeight(size.height() * room / size.width());
    }
    if (format != was) cursor.setCharFormat(format);
  }
}

int MarkdownView::heightForWidth(int width) const {
  fitPictures(width);
  m_document.setTextWidth(width);
  return static_cast<int>(std::ceil(m_document.size().height())) + 4;
}

void MarkdownView::resizeEvent(QResizeEvent*) { setFixedHeight(heightForWidth(width())); }

void MarkdownView::paintEvent(QPaintEvent*) {
  QPainter p(this);
  fitPictures(width());
  m_document.setTextWidth(width());
  QAbstractTextDocumentLayout::PaintContext context;
  context.palette.setColor(QPalette::Text, m_theme->colors().text);
  if (!m_found.isEmpty()) {
    QAbstractTextDocumentLayout::Selection place;
    place.format.setBackground(m_theme->colors().found(m_foundHere));
    for (QTextCursor at = m_document.find(m_found, 0, m_foundHow); !at.isNull(); at = m_document.find(m_found, at, m_foundHow)) {
      place.cursor = at;
      context.selections.append(place);
    }
  }
  m_document.documentLayout()->draw(&p, context);
}

void MarkdownView::mouseDoubleClickEvent(QMouseEvent*) { Q_EMIT editRequested(); }

}  // namespace nf
