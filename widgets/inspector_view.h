// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once
#include <QPointer>
#include <QPushButton>
#include <QTimer>
#include <QWidget>
#include <optional>

#include "core/protocol/message.h"
#include "widgets/leads.h"
#include "widgets/selection.h"
#include "widgets/theme.h"

class QBoxLayout;
class QLabel;
class QScrollArea;

namespace nf {

class Badge;
class DerivationView;
class IconButton;
class Section;
class TensorView;
class WrappedLabel;

// Everything about one tensor: type and size, how its gradient was made and proved, the numeric check, its values, where it leads.
class InspectorView : public QWidget {
  Q_OBJECT
 public:
  explicit InspectorView(const Theme* theme, QWidget* parent = nullptr);
  void clear();
  // In place of a tensor: what was chosen is none.
  void setMadeInLoop(const QString& name, bool carried);
  void setNoTensor(const QString& made);  // what a pass makes and the notebook has no tensor of
  void setUncalled(const QString& function);
  QString instead() const;  // what is said while no tensor is shown
  void setTensor(const protocol::TensorInfo& tensor);
  void setKept(const QString& why);  // it stays though it is not what is selected; "": it is
  QString kept() const;
  // Of several tensors of the selected place, the shown one included: what it is one of; one or none: nothing is said.
  void setAmong(const QStringList& tensors);
  QLabel* among() const { return m_among; }  // links to the others
  void setExpression(const protocol::Expression& expression);
  void setExpressionFailed(const QString& tensor, const QString& message);
  void beginCheck();  // as a click on compare() would, as soon as it is there
  void setCheckFailed(const QString& message);
  void setCheckOvertaken();  // the text has changed under a round: the next one is asked for with what is known of it
  QString checked() const { return m_checkText; }     // the badge of the numeric check
  QPushButton* compare() const { return m_compare; }  // begins, ends and goes on; null: checked, or nothing to check
  void setSlice(const protocol::TensorSlice& slice, const std::vector<double>& values);
  void setLeads(const std::vector<Lead>& leads);
  QString tensor() const { return m_tensor; }
  DerivationView* derivation() const { return m_steps; }
  void setPinned(bool pinned);
  // A mistake hides the tensor: what is known of it stays, greyed.
  void setOutdated(bool outdated);
  // The newest text: what is known of a derivative of an older one is greyed, and its badges say `checking`, until it is answered.
  void setRevision(std::uint64_t revision);
  bool checking() const { return m_checking; }
  bool proves() const { return m_proves; }  // the proof of what it shows is under way
  bool awaitsAnswer() const { return m_checking || m_age.isActive(); }
  bool pinned() const;  // the selection moves on without it
  QScrollArea* scroll() const { return m_scroll; }
  TensorView* values() const { return m_values; }

 Q_SIGNALS:
  void checkWanted(const QString& tensor);  // one round more
  void checkingChanged();
  void sliceWanted();
  void leadChosen(const QString& target);
  void amongChosen(const QString& tensor);

 protected:
  void resizeEvent(QResizeEvent*) override;

 private:
  class Check;
  void sayInstead(const QString& words);  // code between backquotes
  void placeBadges();
  void showCheckBadge();
  void sayStates();
  void followAge();
  void setChecking(bool checking);
  const Theme* m_theme;
  QString m_tensor;
  WrappedLabel* m_name;
  QLabel* m_facts;
  WrappedLabel* m_kept;
  QLabel* m_among;
  QLabel* m_empty;
  QString m_instead;
  Badge *m_proved, *m_checked;
  QBoxLayout* m_badges;
  QString m_checkText;
  struct Known {
    std::uint64_t revision = 0;
    std::string tensor;
    std::optional<protocol::NumericCheck> check;
  };
  Known m_known;
  std::uint64_t m_revision = 0;
  bool m_checking = false, m_proves = false;
  QTimer m_age;
  QPointer<QPushButton> m_compare;
  bool m_checkPending = false, m_comparing = false, m_overtaken = false;
  bool m_begunAgain = false;  // what was checked has changed
  std::int64_t m_round = 0;   // samples that the newest round was asked for after
  QString m_checkDetail;
  std::optional<std::int64_t> m_step;  // of the values; -1: initial ones; none: there are no values
  bool m_ofBatch = false;              // what is inspected is computed from the rows of one
  std::int64_t m_rows = 0;             // else the first so many for training, as its values say
  Section *m_certificate, *m_derivation, *m_check, *m_valueSection, *m_leads;
  DerivationView* m_steps;
  IconButton* m_pin;
  QScrollArea* m_scroll;
  QWidget *m_body, *m_head, *m_line;
  TensorView* m_values;
};

}  // namespace nf
