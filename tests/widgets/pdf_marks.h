// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QByteArray>
#include <QList>
#include <QRectF>
#include <QTransform>
#include <set>
#include <vector>

namespace nf {

// What the pages of a PDF as QPdfWriter writes them put on paper, in points from the lower left corner of a page.
struct PdfMarks {
  // A letter, a filled or drawn path, or a picture; clips are taken for the rectangles around them.
  struct Mark {
    int page;
    char kind;  // t, f, i
    QRectF at;
    bool seen;  // some of it is within every clip
    auto place() const {
      return std::tuple(page, kind, qRound(4 * at.left()), qRound(4 * at.top()), qRound(4 * at.width()), qRound(4 * at.height()));
    }
  };
  QList<QByteArray> pages;  // what draws them
  std::vector<Mark> marks;
  bool lossy = false;  // some picture is packed as a photograph is

  // Places where something is drawn and nothing is seen.
  std::size_t lost(char kind) const {
    std::set<decltype(marks.front().place())> drawn, seen;
    for (const Mark& mark : marks)
      if (mark.kind == kind) (mark.seen ? seen : drawn).insert(mark.place());
    for (const auto& place : seen) drawn.erase(place);
    return drawn.size();
  }
};

inline PdfMarks marksOf(const QByteArray& pdf) {
  PdfMarks out;
  out.lossy = pdf.contains("/DCTDecode");
  for (qsizetype at = pdf.indexOf("stream\n"); at >= 0; at = pdf.indexOf("\nstream\n", at + 1)) {
    const qsizetype begin = pdf.indexOf('\n', at + 1) + 1, end = pdf.indexOf("endstream", begin);
    if (pdf[begin] != 'x') continue;  // not packed
    const QByteArray text = qUncompress(QByteArray("\0\1\0\0", 4) + pdf.mid(begin, end - begin));
    if (text.contains(" cm\n") && text.contains("\nQ\n")) out.pages << text;
  }
  for (int page = 0; page < out.pages.size(); ++page) {
    struct State {
      QTransform matrix;
      QRectF clip{-1e9, -1e9, 2e9, 2e9};
    } now;
    std::vector<State> kept;
    std::vector<double> numbers;
    QRectF path;
    bool any = false, clips = false;
    QTransform line;  // of the text
    const auto matrix = [&] {
      const double* n = numbers.data() + numbers.size() - 6;
      return QTransform(n[0], n[1], n[2], n[3], n[4], n[5]);
    };
    const auto reach = [&](double x, double y) {
      const QPointF p = now.matrix.map(QPointF(x, y));
      if (!any) path = QRectF(p, p), any = true;
      path.setCoords(std::min(path.left(), p.x()), std::min(path.top(), p.y()), std::max(path.right(), p.x()),
                     std::max(path.bottom(), p.y()));
    };
    const auto mark = [&](char kind, const QRectF& at) {
      const QRectF wide = at.adjusted(-0.01, -0.01, 0.01, 0.01);
      out.marks.push_back({page, kind, at, wide.intersects(now.clip)});
    };
    for (const QByteArray& word : out.pages[page].simplified().split(' ')) {
      bool isNumber = false;
      if (const double value = word.toDouble(&isNumber); isNumber) {
        numbers.push_back(value);
        continue;
      }
      const std::size_t n = numbers.size();
      if (word == "q") kept.push_back(now);
      else if (word == "Q" && !kept.empty()) now = kept.back(), kept.pop_back();
      else if (word == "cm" && n >= 6) now.matrix = matrix() * now.matrix;
      else if ((word == "m" || word == "l") && n >= 2) reach(numbers[n - 2], numbers[n - 1]);
      else if (word == "c" && n >= 6)
        for (std::size_t i = n - 6; i < n; i += 2) reach(numbers[i], numbers[i + 1]);
      else if (word == "re" && n >= 4)
        reach(numbers[n - 4], numbers[n - 3]), reach(numbers[n - 4] + numbers[n - 2], numbers[n - 3] + numbers[n - 1]);
      else if (word == "W" || word == "W*") clips = true;
      else if (word == "n" || word == "f" || word == "f*" || word == "S" || word == "B" || word == "B*") {
        if (clips) now.clip = any ? now.clip.intersected(path) : QRectF();
        else if (any && word != "n") mark('f', path);
        any = clips = false;
      } else if (word == "BT") line = QTransform();
      else if (word == "Tm" && n >= 6) line = matrix();
      else if (word == "Td" && n >= 2) line = QTransform::fromTranslate(numbers[n - 2], numbers[n - 1]) * line;
      else if (word == "Tj") mark('t', QRectF((line * now.matrix).map(QPointF(0, 0)), QSizeF(0, 0)));
      else if (word == "Do") mark('i', now.matrix.mapRect(QRectF(0, 0, 1, 1)));
      // A string stands between the place of a letter and its sign.
      if (!word.startsWith('<') && !word.startsWith('/')) numbers.clear();
    }
  }
  return out;
}

}  // namespace nf
