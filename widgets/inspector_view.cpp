// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/inspector_view.h"

#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QScrollArea>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/protocol/check_text.h"
#include "widgets/basic.h"
#include "widgets/derivation_view.h"
#include "widgets/names.h"
#include "widgets/tensor_view.h"
#include "widgets/wrapped_label.h"

namespace nf {
namespace {

// The samples whose error is inf or NaN are in no bin.
std::int64_t notFiniteOf(const protocol::NumericCheck& check) {
  if (std::isfinite(check.worst)) return 0;
  return check.samples - std::accumulate(check.histogram.begin(), check.histogram.end(), std::int64_t{0});
}

}  // namespace

// The errors of the samples, binned by their power of ten, with the allowed one marked.
class InspectorView::Check : public QWidget {
 public:
  Check(const Theme* theme, protocol::NumericCheck check)
      : m_theme(theme), m_check(std::move(check)), m_notFinite(notFiniteOf(m_check)) {
    setFixedHeight(58);
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    const Palette& c = m_theme->colors();
    const double first = m_check.histogramFirst, allowed = std::log10(std::max(m_check.allowed, 1e-300));
    const double span = std::max({1.0, m_check.histogramLast - first, allowed - first}) * 1.04;
    constexpr int kOutside = 84;  // px: the bar of those that are no number, and its words
    const int wide = m_notFinite > 0 ? width() - kOutside : width();
    const auto x = [&](double v) { return (v - first) / span * wide; };
    const int room = 36;
    double most = std::max(1.0, static_cast<double>(m_notFinite));
    for (const auto n : m_check.histogram) most = std::max(most, static_cast<double>(n));
    const double step =
        m_check.histogram.empty() ? 0 : (m_check.histogramLast - first) / static_cast<double>(m_check.histogram.size());
    for (std::size_t i = 0; i < m_check.histogram.size(); ++i) {
      const double left = x(first + step * static_cast<double>(i)), right = x(first + step * static_cast<double>(i + 1));
      const double h = room * static_cast<double>(m_check.histogram[i]) / most;
      const QColor color = left < x(allowed) ? c.proved : m_check.refuted > m_notFinite ? c.failed : c.stale;
      p.fillRect(QRectF(left, room - h, std::max(1.0, right - left - 2), h), mixed(c.page, color, 0.6));
    }
    if (m_notFinite > 0) {
      const double h = room * static_cast<double>(m_notFinite) / most;
      p.fillRect(QRectF(wide + 8, room - h, 12, h), mixed(c.page, c.failed, 0.6));
      p.setPen(c.failed);
      p.setFont(m_theme->ui(11));
      p.drawText(QRect(wide + 24, 0, kOutside - 24, room), Qt::AlignLeft | Qt::AlignBottom, QObject::tr("not finite"));
    }
    p.fillRect(QRectF(0, room, width(), 1), c.separator);
    p.setPen(QPen(c.muted, 1, Qt::DashLine));
    p.drawLine(QPointF(x(allowed), 6), QPointF(x(allowed), room));
    p.setPen(c.muted);
    p.setFont(m_theme->ui(11));
    p.drawText(QRect(0, room + 4, width(), 18), Qt::AlignLeft, QObject::tr("worst error %1").arg(significant(m_check.worst, 3)));
    p.drawText(QRect(0, room + 4, width(), 18), Qt::AlignRight, QObject::tr("allowed %1").arg(significant(m_check.allowed, 2)));
  }

 private:
  const Theme* m_theme;
  protocol::NumericCheck m_check;
  std::int64_t m_notFinite;
};

namespace {

void addPair(Section* section, const Theme* theme, const QString& name, const QString& value, bool code = false) {
  auto* row = new QHBoxLayout;
  row->setSpacing(8);
  auto* left = label(name, "muted");
  left->setFixedWidth(108);
  left->setFont(theme->ui(12));
  auto* right = new WrappedLabel(value);
  right->setFont(code ? theme->mono(12) : theme->ui(12));
  right->setTextInteractionFlags(Qt::TextSelectableByMouse);
  row->addWidget(left, 0, Qt::AlignTop);
  row->addWidget(right, 1);
  section->body()->addLayout(row);
}

// Element, what was derived, what the differences say, and how far apart they are, the worst first.
void addSamples(Section* section, const Theme* theme, const std::vector<protocol::NumericSample>& samples, const QString& name) {
  auto* table = new QWidget;
  table->setObjectName(name);
  auto* grid = new QGridLayout(table);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(10);
  grid->setVerticalSpacing(2);
  grid->setColumnStretch(0, 1);
  const auto put = [&](int row, const QStringList& words, bool head) {
    for (int column = 0; column < words.size(); ++column) {
      auto* l = label(words[column], head ? "muted" : nullptr);
      l->setFont(head ? theme->ui(11) : theme->mono(11));
      if (!head) l->setTextInteractionFlags(Qt::TextSelectableByMouse);
      l->setWordWrap(column == 0);  // an element of many axes
      grid->addWidget(l, row, column, column == 0 ? Qt::Alignment() : Qt::AlignRight | Qt::AlignTop);
    }
  };
  put(0, {QObject::tr("element"), QObject::tr("derived"), QObject::tr("differences"), QObject::tr("error")}, true);
  int row = 0;
  for (const auto& s : samples) {
    QStringList element;
    for (const auto at : s.element) element << QString::number(at);
    QString place = QStringLiteral("[%1]").arg(element.join(QStringLiteral(", ")));
    if (const std::string beside = besideText(s); !beside.empty()) place += QStringLiteral(", ") + QString::fromStdString(beside);
    put(++row, {place, significant(s.derived, 5), significant(s.differences, 5), significant(s.error, 3)}, false);
  }
  section->body()->addWidget(table);
}

QLabel* paragraph(const QString& text) {
  auto* l = new WrappedLabel(text);
  l->setTextInteractionFlags(Qt::TextSelectableByMouse);
  return l;
}

QLabel* codeParagraph(const QString& text) {
  auto* l = label(codeText(text));
  l->setTextFormat(Qt::RichText);
  l->setWordWrap(true);
  l->setTextInteractionFlags(Qt::TextSelectableByMouse);
  return l;
}

// The second point: parameters that start as one number, moved a little.
void addMoved(Section* section, const Theme* theme, const protocol::NumericCheck& check) {
  const protocol::MovedCheck& moved = *check.moved;
  const auto finite = std::find_if(moved.worstSamples.begin(), moved.worstSamples.end(),
                                   [](const protocol::NumericSample& s) { return std::isfinite(s.error); });
  QString text = QObject::tr("Also with %1: %2 of %3")
                     .arg(QString::fromStdString(movedText(moved)), grouped(moved.samples),
                          counted(check.elements, QObject::tr("element"), QObject::tr("elements")));
  if (finite != moved.worstSamples.end()) text += QObject::tr(", worst error %1").arg(significant(finite->error, 3));
  if (moved.undefined > 0)
    text += QObject::tr(", undefined at %1").arg(counted(moved.undefined, QObject::tr("element"), QObject::tr("elements")));
  if (moved.refuted > moved.undefined)
    text += QObject::tr(", %1 beyond what rounding explains").arg(grouped(moved.refuted - moved.undefined));
  section->body()->addWidget(paragraph(text + QLatin1Char('.')));
  if (moved.refuted > 0) addSamples(section, theme, moved.worstSamples, QStringLiteral("moved samples"));
}

QString nothingChosen() {
  return InspectorView::tr(
      "Put the cursor on a tensor, or choose one in the outline: its gradient, proof, values and where it leads "
      "stand here.");
}

}  // namespace

InspectorView::InspectorView(const Theme* theme, QWidget* parent)
    : QWidget(parent), m_theme(theme), m_name(new WrappedLabel), m_facts(label({}, "muted")), m_kept(new WrappedLabel({}, "muted")),
      m_among(label({}, "muted")), m_empty(label(nothingChosen(), "muted")), m_proved(new Badge(theme)),
      m_checked(new Badge(theme)), m_certificate(new Section(theme, tr("Certificate"))),
      m_derivation(new Section(theme, tr("Derivation"))), m_check(new Section(theme, tr("Numeric check"))),
      m_valueSection(new Section(theme, tr("Values"))), m_leads(new Section(theme, tr("Leads to"))),
      m_steps(new DerivationView(theme)), m_pin(new IconButton(theme, QStringLiteral("pin"))), m_scroll(new QScrollArea),
      m_body(new QWidget), m_head(new QWidget), m_line(line()), m_values(new TensorView(theme, true)) {
  setProperty("role", QStringLiteral("page"));
  setAttribute(Qt::WA_StyledBackground);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  m_empty->setWordWrap(true);
  m_empty->setTextFormat(Qt::RichText);
  m_empty->setContentsMargins(16, 4, 16, 0);
  m_empty->setAlignment(Qt::AlignTop);
  auto* content = new QVBoxLayout(m_body);
  content->setContentsMargins(0, 0, 0, 0);
  content->setSpacing(0);
  content->addWidget(m_empty);
  auto* head = new QVBoxLayout(m_head);
  head->setContentsMargins(16, 4, 16, 12);
  head->setSpacing(6);
  m_name->setFont(theme->mono(20));
  m_name->setTextInteractionFlags(Qt::TextSelectableByMouse);
  m_facts->setWordWrap(true);
  m_facts->setFont(theme->ui(12));
  m_kept->setFont(theme->ui(12));
  m_kept->hide();
  m_among->setFont(theme->ui(12));
  m_among->setWordWrap(true);
  m_among->setTextFormat(Qt::RichText);
  m_among->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
  m_among->hide();
  connect(m_among, &QLabel::linkActivated, this, &InspectorView::amongChosen);
  auto* title = new QHBoxLayout;
  m_pin->setCheckable(true);
  m_pin->setAccessibleName(tr("Pin"));
  m_pin->setToolTip(tr("Keep this tensor here while the selection moves on"));
  title->addWidget(m_name, 1);
  title->addWidget(m_pin, 0, Qt::AlignTop);
  head->addLayout(title);
  head->addWidget(m_facts);
  head->addWidget(m_kept);
  head->addWidget(m_among);
  m_badges = new QHBoxLayout;
  m_badges->setSpacing(8);
  m_badges->addWidget(m_proved, 0, Qt::AlignLeft);
  m_badges->addWidget(m_checked, 0, Qt::AlignLeft);
  m_badges->addStretch(1);
  head->addLayout(m_badges);
  content->addWidget(m_head);
  content->addWidget(m_line);
  for (Section* s : {m_certificate, m_derivation, m_check, m_valueSection, m_leads}) content->addWidget(s);
  content->addStretch(1);
  // A tensor of many axes has a wide row of slice boxes: it must not push the whole panel wider than it is.
  m_values->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  m_valueSection->body()->addWidget(m_values);
  m_derivation->body()->addWidget(m_steps);
  m_scroll->setWidgetResizable(true);
  m_scroll->setFocusPolicy(Qt::TabFocus);  // a click beside its parts leaves the keyboard where somebody writes
  m_body->setProperty("role", QStringLiteral("page"));
  scrollAsWide(m_scroll, m_body);
  layout->addWidget(m_scroll, 1);
  connect(m_values, &TensorView::sliceWanted, this, &InspectorView::sliceWanted);
  constexpr int kSoonMs = 150;  // an answer within it replaces what is shown without a flicker
  m_age.setSingleShot(true);
  m_age.setInterval(kSoonMs);
  connect(&m_age, &QTimer::timeout, this, [this] { setChecking(true); });
  clear();
}

void InspectorView::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  placeBadges();
}

// Beside each other where there is room for their words, else one below the other.
void InspectorView::placeBadges() {
  constexpr int kAround = 16 + 16 + 8 + 12;  // px: margins, gap, scroll bar
  const bool fits = m_proved->sizeHint().width() + m_checked->sizeHint().width() + kAround <= width();
  m_badges->setDirection(fits ? QBoxLayout::LeftToRight : QBoxLayout::TopToBottom);
}

void InspectorView::setKept(const QString& why) {
  m_kept->setWords(pinned() ? QString() : why);
  m_kept->setVisible(!m_kept->words().isEmpty());
}

void InspectorView::setAmong(const QStringList& tensors) {
  constexpr qsizetype kMost = 8;
  m_among->setVisible(tensors.size() > 1 && !pinned());
  QStringList links;
  for (const QString& name : tensors.first(std::min(tensors.size(), kMost))) {
    const QString shown = derivativeText(name).toHtmlEscaped();
    links << (name == m_tensor ? QStringLiteral("<b>%1</b>").arg(shown)
                               : QStringLiteral("<a href=\"%1\" style=\"color:%2\">%3</a>")
                                     .arg(name.toHtmlEscaped(), m_theme->colors().accent.name(), shown));
  }
  if (tensors.size() > kMost) links << tr("%1 more").arg(tensors.size() - kMost);
  m_among->setText(tr("One of %1 of this place: %2").arg(tensors.size()).arg(links.join(QStringLiteral(", "))));
}

QString InspectorView::kept() const { return m_tensor.isEmpty() ? QString() : m_kept->words(); }

void InspectorView::setPinned(bool pinned) { m_pin->setChecked(pinned); }

void InspectorView::setOutdated(bool outdated) {
  setGreyed(m_body, outdated);
  followAge();
}

void InspectorView::setRevision(std::uint64_t revision) {
  m_revision = revision;
  followAge();
}

void InspectorView::followAge() {
  const bool older =
      !m_tensor.isEmpty() && !isGreyed(m_body) && m_known.tensor == m_tensor.toStdString() && m_known.revision < m_revision;
  if (!older) {
    m_age.stop();
    setChecking(false);
  } else if (!m_checking && !m_age.isActive()) {
    m_age.start();
  }
}

void InspectorView::setChecking(bool checking) {
  if (m_checking == checking) return;
  m_checking = checking;
  for (Section* s : {m_certificate, m_derivation, m_check}) setGreyed(s, checking);
  setGreyed(m_checked, checking);
  if (checking && m_proved->isVisibleTo(this)) m_proved->show(QStringLiteral("running"), tr("checking"), &Palette::accent);
  Q_EMIT checkingChanged();
}

void InspectorView::setExpressionFailed(const QString& tensor, const QString& message) {
  if (tensor != m_tensor || m_known.revision == m_revision) return;
  m_known = {};
  for (Section* s : {m_certificate, m_check}) s->clear(), s->hide();
  m_compare = nullptr;
  m_derivation->hide();
  for (Badge* badge : {m_proved, m_checked}) badge->show({}, {}, nullptr);
  m_checkText.clear();
  m_certificate->setDetail({});
  // What is given and not derived has no certificate to speak of.
  if (tensor.startsWith(QLatin1String("d("))) {
    m_certificate->body()->addWidget(paragraph(message));
    m_certificate->show();
  }
  followAge();
}

bool InspectorView::pinned() const { return m_pin->isChecked(); }

void InspectorView::clear() {
  m_tensor.clear();
  m_values->setTensor({}, {});  // another notebook may have one of this name and shape
  m_proves = false;
  m_known = {};
  followAge();
  m_pin->setChecked(false);
  setGreyed(m_body, false);
  for (QWidget* part :
       std::initializer_list<QWidget*>{m_head, m_line, m_certificate, m_derivation, m_check, m_valueSection, m_leads})
    part->hide();
  sayInstead(nothingChosen());
  m_empty->show();
}

void InspectorView::setMadeInLoop(const QString& name, bool carried) {
  clear();
  sayInstead((carried
                  ? tr("%1 is carried from step to step, and nothing reads it behind its loop: it has no values and no gradient of "
                       "its own here. `show %1` behind the loop asks for what the last step leaves, `stack` in the loop keeps "
                       "what all steps make.")
                  : tr("%1 is made anew in every step of its loop and is no tensor behind it: it has no values and no gradient "
                       "of its own here. `stack` in the loop keeps what all steps make."))
                 .arg(name));
}

void InspectorView::setNoTensor(const QString& made) {
  clear();
  sayInstead(tr("%1 is made on the way by the compiler: the notebook has no tensor of it, so it has no values here.")
                 .arg(derivativeText(made)));
}

void InspectorView::setUncalled(const QString& function) {
  clear();
  sayInstead(tr("Nothing in this notebook calls %1, so there is no tensor that it makes.").arg(function));
}

void InspectorView::sayInstead(const QString& words) {
  m_instead = words;
  m_empty->setText(codeText(words));
}

QString InspectorView::instead() const { return m_tensor.isEmpty() ? m_instead : QString(); }

void InspectorView::setTensor(const protocol::TensorInfo& t) {
  const QString name = QString::fromStdString(t.name);
  const bool same = name == m_tensor;
  m_tensor = name;
  m_ofBatch = t.kind == protocol::SymbolKind::Loss || t.kind == protocol::SymbolKind::Eval;
  m_empty->hide();
  m_head->show();
  m_line->show();
  setOutdated(false);
  m_name->setWords(derivativeText(name));
  double values = 1;
  QStringList shape;
  for (const auto extent : t.shape) values *= static_cast<double>(extent), shape << QString::number(extent);
  m_facts->setText(QStringLiteral("%1 [%2]  ·  %3  ·  %4")
                       .arg(QString::fromStdString(t.dtype), shape.join(QStringLiteral(", ")),
                            counted(static_cast<std::int64_t>(std::min(values, 9e15)), tr("value"), tr("values")),
                            bytesText(static_cast<double>(t.bytes))));
  if (!same) {
    m_proves = false;
    m_checkPending = m_comparing = m_overtaken = m_begunAgain = false;
    m_compare = nullptr;
    m_proved->show({}, {}, nullptr);
    m_checked->show({}, {}, nullptr);
    m_checkText.clear();
    for (Section* s : {m_certificate, m_check, m_leads}) s->clear(), s->hide();
    m_derivation->hide();
    m_step.reset();
    sayStates();
    followAge();
  }
  m_values->setTensor(name, t.shape);
  m_valueSection->show();
}

void InspectorView::setExpression(const protocol::Expression& given) {
  if (QString::fromStdString(given.tensor) != m_tensor) return;
  if (m_known.tensor == given.tensor && given.revision < m_known.revision) return;
  // A proof that ends later brings no check: the one of this revision stays.
  protocol::Expression e = given;
  if (!e.check && m_known.revision == e.revision && m_known.tensor == e.tensor) e.check = m_known.check;
  if (m_known.check && m_known.tensor == e.tensor && (!e.check || e.check->samples < m_known.check->samples)) m_begunAgain = true;
  m_known = {e.revision, e.tensor, e.check};
  for (Section* s : {m_certificate, m_check}) s->clear(), s->hide();
  m_compare = nullptr;
  m_derivation->hide();
  m_proved->show({}, {}, nullptr);
  m_proves = isProving(e.terms);
  if (!e.terms.empty()) {
    const QString zero = zeroByRule(e.terms);
    std::int64_t without = 0, byData = 0, all = 0;  // accesses without a proof; whose index is data, so that none is tried
    bool scatters = false, unproved = false, checking = false, unread = false, cut = false;
    double ms = 0;
    for (const auto& t : e.terms) {
      unread = unread || t.form == protocol::GradientForm::Empty;
      cut = cut || (t.form == protocol::GradientForm::Zero && t.access != t.tensor);
      if (t.form == protocol::GradientForm::Zero) continue;
      ms += t.certificateMs;
      if (t.form == protocol::GradientForm::Empty) continue;
      scatters = scatters || t.form == protocol::GradientForm::Scatter;
      checking = checking || t.certificate == protocol::CertificateState::Checking;
      unproved = unproved || t.certificate == protocol::CertificateState::Uncertified;
      without += t.certificate == protocol::CertificateState::Uncertified;
      byData += t.certificate == protocol::CertificateState::Untried;
      ++all;
    }
    scatters = scatters || unproved;
    const bool whollyZero = !zero.isEmpty();
    if (whollyZero) m_proved->show({}, tr("zero"), &Palette::muted);
    else if (checking) m_proved->show(QStringLiteral("running"), tr("checking"), &Palette::accent);
    else if (scatters) m_proved->show(QStringLiteral("warning"), tr("scatter"), &Palette::stale);
    else m_proved->show(QStringLiteral("proved"), tr("proved"), &Palette::proved);
    m_certificate->setDetail(checking || (whollyZero && !unread) || ms == 0 ? QString()
                                                                            : tr("isl, %1").arg(microsecondsText(ms * 1000)));
    m_certificate->body()->addWidget(paragraph(
        whollyZero && unread && !cut
            ? tr("%1 is 0: no point reads the tensor, proved on integer sets.").arg(derivativeText(m_tensor))
        : whollyZero ? tr("%1 is 0 by rule. Nothing is gathered, so nothing was to be proved.").arg(derivativeText(m_tensor))
        : checking   ? tr("The proof that this gather is complete is under way. Nothing runs before it ends.")
        : unproved && without < all ? tr("Of %1 of its %2 no inverse could be proved: that part is a scatter, correct, but it adds "
                                         "in place. The others are "
                                         "gathered, as proved.")
                                          .arg(counted(without, tr("access"), tr("accesses")))
                                          .arg(all)
        : unproved ? tr("No inverse of this access could be proved, so its gradient is a scatter: correct, but it adds in place.")
        : byData == all
            ? tr("Its index depends on data: which points reach an element shows only as it runs, so there is nothing to "
                 "invert and the gradient is a scatter: correct, but it adds in place.")
        : byData > 0 ? tr("The index of %1 of its %2 depends on data: that part is a scatter, correct, but it adds in place.")
                           .arg(counted(byData, tr("access"), tr("accesses")))
                           .arg(all)
        : scatters
            ? tr("A gather would visit more points than a scatter, so the gradient is a scatter by its cost, not for want of "
                 "a proof: correct, but it adds in place.")
            : tr("Every element of %1 gathers its terms exactly once, and from nowhere else: a bijection on integer sets, "
                 "proved against the access as written.")
                  .arg(derivativeText(m_tensor))));
    for (std::size_t k = 0; k < e.terms.size(); ++k) {
      const protocol::GradientTermInfo& t = e.terms[k];
      const QString form = t.form == protocol::GradientForm::Gather    ? tr("gather, deterministic")
                           : t.form == protocol::GradientForm::Scatter ? tr("scatter")
                           : t.form == protocol::GradientForm::Empty   ? tr("empty: no point reads it")
                                                                       : tr("zero");
      // One access may have several, as of second order: what each makes tells them apart.
      if (e.terms.size() > 1)
        addPair(m_certificate, m_theme, tr("Term %1 of %2").arg(k + 1).arg(e.terms.size()), QString::fromStdString(t.result), true);
      addPair(m_certificate, m_theme, tr("Access"), QString::fromStdString(t.written.empty() ? t.access : t.written), true);
      if (!t.written.empty()) addPair(m_certificate, m_theme, tr("Same as"), QString::fromStdString(t.access), true);
      if (t.tripsPerElement > 0 && t.form == protocol::GradientForm::Gather)
        addPair(m_certificate, m_theme, tr("Terms an element"), tr("at most %1").arg(grouped(t.tripsPerElement)));
      addPair(m_certificate, m_theme, tr("Form"), form);
      if (!t.why.empty()) addPair(m_certificate, m_theme, tr("Why"), QString::fromStdString(t.why));
    }
    m_certificate->show();
    m_steps->setTerms(e.terms, e.terms.size() > 1);
    m_derivation->setDetail(counted(m_steps->steps(), tr("step"), tr("steps")));
    m_derivation->setVisible(m_steps->steps() > 0);
    if (e.check) {
      const protocol::NumericCheck& k = *e.check;
      const bool whole = k.samples >= k.wanted;
      const std::int64_t refuted = k.refuted - (k.moved ? k.moved->refuted : 0);
      m_checkPending = false;
      m_checkText = tr("numeric check %1, %2")
                        .arg(significant(k.worst, 3), !whole ? tr("%1 of %2").arg(grouped(k.samples), grouped(k.wanted))
                                                      : k.samples < k.elements ? counted(k.samples, tr("sample"), tr("samples"))
                                                                               : tr("all of %1").arg(grouped(k.elements)));
      if (whole) m_comparing = false;
      showCheckBadge();
      m_checkDetail = tr("%1, f64, eps %2")
                          .arg(whole ? counted(k.samples, tr("sample"), tr("samples"))
                                     : tr("%1 of %2").arg(grouped(k.samples), grouped(k.wanted)),
                               significant(k.epsilon, 2));
      sayStates();
      m_check->body()->addWidget(new Check(m_theme, k));
      const std::int64_t notFinite = notFiniteOf(k);
      if (notFinite > 0)
        m_check->body()->addWidget(paragraph(tr("%1 no finite error: what was derived or the differences are inf or NaN.")
                                                 .arg(counted(notFinite, tr("sample has"), tr("samples have")))));
      if (refuted > notFinite)
        m_check->body()->addWidget(paragraph(tr("%1 apart by more than is allowed and rounding explains.")
                                                 .arg(counted(refuted - notFinite, tr("sample is"), tr("samples are")))));
      else if (refuted == 0 && k.worst > k.allowed)
        m_check->body()->addWidget(
            paragraph(tr("The worst is beyond what is allowed, but not beyond what rounding does to the differences.")));
      if (k.jumps > 0)
        m_check->body()->addWidget(paragraph(
            tr("%1 beside a jump of a floor, a comparison or an index of the best, which the differences hold as it is there.")
                .arg(counted(k.jumps, tr("sample lies"), tr("samples lie")))));
      if (k.held > 0)
        m_check->body()->addWidget(paragraph(tr("What stop_gradient cuts is held as it is while the differences are taken.")));
      for (const auto& choice : k.choices)
        m_check->body()->addWidget(codeParagraph(QString::fromStdString(choiceText(choice)) + QLatin1Char('.')));
      if (!k.worstSamples.empty()) addSamples(m_check, m_theme, k.worstSamples, QStringLiteral("samples"));
      if (k.moved) addMoved(m_check, m_theme, k);
      if (!whole && m_comparing && given.check) {
        if (k.samples != m_round) Q_EMIT checkWanted(m_tensor);
        m_round = k.samples;
      }
      if (!whole) {
        m_compare = new QPushButton(m_comparing ? tr("Stop here") : tr("Go on"));
        connect(m_compare, &QPushButton::clicked, this, [this] {
          m_comparing = !m_comparing;
          m_compare->setText(m_comparing ? tr("Stop here") : tr("Go on"));
          showCheckBadge();
          m_round = 0;
          if (m_comparing) Q_EMIT checkWanted(m_tensor);
        });
        m_check->body()->addWidget(m_compare, 0, Qt::AlignLeft);
      }
    } else {
      m_checked->show({}, {}, nullptr);
      m_checkText.clear();
      m_check->setDetail({});
      m_compare = new QPushButton(tr("Compare with finite differences"));
      connect(m_compare, &QPushButton::clicked, this, [this] {
        m_comparing = true;
        m_begunAgain = false;
        m_round = 0;
        m_compare->setEnabled(false);
        m_check->setDetail(tr("comparing"));
        Q_EMIT checkWanted(m_tensor);
      });
      m_check->body()->addWidget(m_compare, 0, Qt::AlignLeft);
      m_compare->setEnabled(!m_comparing);
      if (m_comparing) m_check->setDetail(tr("comparing"));
    }
    if (m_begunAgain)
      m_check->body()->addWidget(paragraph(m_comparing || e.check
                                               ? tr("Begun again: the gradient or what it is computed from has changed.")
                                               : tr("The gradient or what it is computed from has changed since it was checked.")));
    m_check->show();
    sayStates();
    if (m_checkPending) beginCheck();
    if (m_comparing && !e.uncheckable.empty()) setCheckFailed(QString::fromStdString(e.uncheckable));
    if (std::exchange(m_overtaken, false) && m_comparing) {
      m_round = 0;
      Q_EMIT checkWanted(m_tensor);
    }
  }
  placeBadges();
  // An answer for a text that is not the newest either is as old as what it replaces.
  m_age.stop();
  setChecking(false);
  setChecking(m_known.revision < m_revision);
}

// What has refuted nothing so far is no reason to warn.
void InspectorView::showCheckBadge() {
  if (!m_known.check) return;
  const protocol::NumericCheck& k = *m_known.check;
  if (k.refuted > 0) m_checked->show(QStringLiteral("error"), m_checkText, &Palette::failed);
  else if (k.samples >= k.wanted) m_checked->show(QStringLiteral("proved"), m_checkText, &Palette::proved);
  else if (m_comparing) m_checked->show(QStringLiteral("running"), m_checkText, &Palette::accent);
  else m_checked->show(QStringLiteral("pause"), m_checkText, &Palette::muted);
}

void InspectorView::beginCheck() {
  m_checkPending = !m_compare && m_checkText.isEmpty();
  if (m_compare && m_compare->isEnabled() && !m_comparing) m_compare->click();
}

void InspectorView::setCheckFailed(const QString& message) {
  m_comparing = false;
  if (!m_compare) return;
  m_compare->setEnabled(true);
  m_check->setDetail({});
  m_check->body()->addWidget(paragraph(message));
}

void InspectorView::setCheckOvertaken() { m_overtaken = m_comparing; }

void InspectorView::setSlice(const protocol::TensorSlice& slice, const std::vector<double>& values) {
  m_values->setSlice(slice, values);
  if (QString::fromStdString(slice.tensor) != m_tensor) return;
  m_step = slice.step;
  m_rows = slice.rows;
  sayStates();
}

// The check computes with initial values, a cell behind a training with what it learnt: beside each other both say so.
void InspectorView::sayStates() {
  const bool checked = m_known.check && m_known.tensor == m_tensor.toStdString(), both = checked && m_step;
  if (checked) m_check->setDetail(both ? tr("initial values, %1").arg(m_checkDetail) : m_checkDetail);
  m_valueSection->setDetail(
      !m_step        ? QString()
      : *m_step >= 0 ? (m_ofBatch && m_rows == 0 ? tr("of the batch of step %1") : tr("at step %1")).arg(grouped(*m_step))
      : both         ? tr("initial values")
                     : QString());
}

void InspectorView::setLeads(const std::vector<Lead>& leads) {
  showLeads(m_leads, m_theme, leads, [this](const QString& target) { Q_EMIT leadChosen(target); });
}

}  // namespace nf
