// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/workspace.h"

#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QJsonObject>

#include "app/workbench/carry_runs.h"
#include "widgets/write_file.h"

namespace nf {

using namespace protocol;

namespace {

const QByteArray kMark("\xef\xbb\xbf");         // that some editors begin a file of UTF-8 with
constexpr std::size_t kHistoryBytes = 1 << 20;  // of a journal

std::string_view viewOf(const QByteArray& bytes) { return {bytes.constData(), static_cast<std::size_t>(bytes.size())}; }

// Nobody may write it: a privileged user could, and a new file can take the place of any.
bool isProtected(const QString& path) {
  return QFileInfo::exists(path) && !(QFile::permissions(path) & (QFile::WriteOwner | QFile::WriteGroup | QFile::WriteOther));
}

// One file has one lock, however it is reached.
QString lockPath(const QString& path) {
  const QFileInfo info(path);
  const QFileInfo real(info.exists() ? info.canonicalFilePath() : info.absoluteFilePath());
  return real.absoluteDir().filePath(QLatin1Char('.') + real.fileName() + QStringLiteral(".lock"));
}

}  // namespace

Workspace::Workspace(QStringList engineCommand, Selection* selection, std::function<QString()> newJournal, int untitled,
                     QObject* parent)
    : QObject(parent), m_document(std::make_unique<Document>()), m_newJournal(std::move(newJournal)),
      m_engineCommand(std::move(engineCommand)), m_engine(std::make_unique<EngineLink>(m_engineCommand)), m_selection(selection),
      m_untitled(untitled) {
  connect(m_engine.get(), &EngineLink::ready, this, [this] {
    m_replicaKnown = m_analysedHere = false;
    sendDocument();
    if (m_budget) tell(BudgetRequest{*m_budget, std::nullopt});
    if (m_device.isEmpty()) wantDevices(false);
    else useDevice(m_device);  // an engine that was started anew goes on with what was chosen
    if (!m_valuesOf.isEmpty()) ask(ValuesRequest{m_valuesOf.toStdString()}, [](const Envelope&) {});
    Q_EMIT engineReady();
  });
  connect(m_engine.get(), &EngineLink::died, this, [this](const QString& reason) {
    m_profiling = m_resuming = m_analysedHere = false;
    m_runAsked = false;
    m_slices.clear();
    m_replicaKnown = false;
    const bool wasRunning = running();
    m_runState = {};
    if (m_devices)
      for (auto& device : m_devices->devices) device.inUse = false;
    Q_EMIT runStateChanged();
    if (m_devices) Q_EMIT devicesArrived();
    Q_EMIT engineDied(wasRunning ? reason + tr(" The running job ended with it; the notebook and what was drawn are kept.")
                                 : reason);
    const Envelope gone{0, Failed{"gone", tr("The engine ended.").toStdString(), {}, {}}, {}};
    for (const auto& [id, reply] : std::exchange(m_replies, {})) reply(gone);
  });
  connect(m_engine.get(), &EngineLink::received, this, &Workspace::handle);
  m_journalTimer.setSingleShot(true);
  m_journalTimer.setInterval(1000);
  connect(&m_journalTimer, &QTimer::timeout, this, &Workspace::writeJournal);
  // A program that writes a new file and renames it leaves none for a moment.
  m_goneTimer.setSingleShot(true);
  m_goneTimer.setInterval(300);
  connect(&m_goneTimer, &QTimer::timeout, this, [this] {
    if (QFileInfo::exists(m_path)) return checkDisk();
    m_document->markUnsaved();
    m_wasModified = true;
    writeJournal();
    setOnDisk(OnDisk::Deleted);
    Q_EMIT modifiedChanged();
  });
  const auto changed = [this] {
    checkDisk();
    checkLock();
  };
  connect(&m_watcher, &QFileSystemWatcher::fileChanged, this, changed);
  connect(&m_watcher, &QFileSystemWatcher::directoryChanged, this, changed);
  connect(this, &Workspace::runStateChanged, this, &Workspace::settleRuns);
  connect(this, &Workspace::expressionArrived, this, [this](const Expression& e) {
    constexpr std::size_t kMostKept = 256;
    const auto last = m_expressions.find(e.tensor);
    if (last == m_expressions.end()) {
      if (m_expressions.size() >= kMostKept) m_expressions.erase(m_expressions.begin());
      m_expressions.emplace(e.tensor, e);
      return;
    }
    // A proof that ends later brings no check.
    std::optional<NumericCheck> check = e.check;
    if (!check && last->second.revision == e.revision) check = std::move(last->second.check);
    last->second = e;
    last->second.check = std::move(check);
  });
  attachDocument();
}

Workspace::~Workspace() {
  blockSignals(true);
  disconnect(m_engine.get(), nullptr, this, nullptr);
  m_engine.reset();
  m_runState = {};
  m_runAsked = false;
  settleRuns();
}

QString Workspace::place() {
  if (!m_path.isEmpty()) return m_path;
  if (m_journalFile.isEmpty()) m_journalFile = m_newJournal();
  return m_journalFile.isEmpty() ? QString() : QDir(folderOfJournal(m_journalFile)).filePath(name());
}

QString Workspace::name() const {
  if (!m_path.isEmpty()) return QFileInfo(m_path).fileName();
  return m_untitled == 1 ? tr("untitled.nf") : tr("untitled %1.nf").arg(m_untitled);
}

void Workspace::setCurrent(bool current) {
  m_current = current;
  if (current) offerSpans();
}

void Workspace::offerSpans() {
  const auto& spans = m_analysis.spans;
  Selection::Functions functions;
  for (const auto& e : m_analysis.expansions) functions.calls.insert(e.calls.begin(), e.calls.end());
  const auto isName = [&](const SourceSpan& at) {
    return std::ranges::any_of(m_analysis.symbols,
                               [&](const auto& s) { return s.kind == SymbolKind::Function && s.definition == at; });
  };
  const auto holdsCall = [&](const SourceSpan& at) {
    return std::ranges::any_of(functions.calls, [&](std::uint32_t call) { return holds(at, spans[call]); });
  };
  for (const auto& e : m_analysis.expansions) {
    if (!isName(spans[e.span]) && !holdsCall(spans[e.span])) functions.expanded.insert(e.span);
    // An index is no place of its own.
    for (std::uint32_t i = 0; i < spans.size(); ++i)
      if (holds(spans[e.span], spans[i])) functions.bodies.insert(i);
  }
  m_selection->setSpans(spans, std::move(functions));
}

void Workspace::attachDocument() {
  m_document->refused = [this] { Q_EMIT editRefused(); };
  m_document->edited = [this](const TextEdit& edit) {
    m_lastKeyMs = QDateTime::currentMSecsSinceEpoch();
    m_edited = true;
    if (!m_journalTimer.isActive()) m_journalTimer.start();
    if (m_replicaKnown)
      tell(DocumentEdited{m_document->revision(), static_cast<std::uint32_t>(edit.begin),
                          static_cast<std::uint32_t>(edit.begin + edit.removed.size()), asUtf8(edit.inserted)});
    if (m_wasModified != m_document->modified()) {
      m_wasModified = m_document->modified();
      Q_EMIT modifiedChanged();
    }
    Q_EMIT documentEdited();
  };
}

QString Workspace::folder() const { return m_path.isEmpty() ? QString() : QFileInfo(m_path).absolutePath(); }

void Workspace::install(std::unique_ptr<Document> document, const QString& path) {
  document->setReadOnly(!m_holder.isEmpty());
  m_document = std::move(document);
  m_path = path;
  m_journalled = m_document->revision();
  m_wasModified = m_document->modified();
  m_diskState = OnDisk::Same;
  m_analysis = m_names = m_wholeNames = {};
  m_analysedText.clear();
  m_step = 0;
  m_namesAreWhole = false;
  m_refusedHints.clear();
  m_missing.clear();
  m_subgraphs = {};
  m_whole.clear();
  m_gone.clear();
  m_trials.clear();
  m_counted.clear();
  m_byHand = 0;
  m_profile.reset();
  m_steps.clear();
  m_swaps.clear();
  m_evals.clear();
  m_values.clear();
  m_postponed.clear();
  m_expressions.clear();
  m_spaces.clear();
  if (m_current) m_selection->setSpans({});
  attachDocument();
  watch();
  sendDocument();
  Q_EMIT opened();
  Q_EMIT modifiedChanged();
}

// The mark is the file's, and no part of the notebook.
std::string Workspace::textOf(const QByteArray& bytes) {
  return bytes.mid(bytes.startsWith(kMark) ? kMark.size() : 0).toStdString();
}

Result<Unit> Workspace::open(const QString& path) {
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly))
    return Error{"open", (tr("%1 cannot be read: %2").arg(path, file.errorString())).toStdString(), {}, {}};
  const QByteArray bytes = file.readAll();
  lock(path);
  m_onDisk = hashOf(viewOf(bytes));
  install(std::make_unique<Document>(textOf(bytes), m_document->revision() + 1), QFileInfo(path).absoluteFilePath());
  return Unit{};
}

void Workspace::begin(const QString& path) {
  lock(path);
  m_onDisk = {};
  install(std::make_unique<Document>(std::string(), m_document->revision() + 1), QFileInfo(path).absoluteFilePath());
}

void Workspace::lookWhetherWritable() {
  const QFileInfo file(m_path);
  m_writable = m_path.isEmpty() || !file.exists() || (file.isWritable() && !isProtected(m_path));
}

void Workspace::watch() {
  lookWhetherWritable();
  if (const QStringList old = m_watcher.files() + m_watcher.directories(); !old.isEmpty()) m_watcher.removePaths(old);
  if (m_path.isEmpty()) return;
  if (QFileInfo::exists(m_path)) m_watcher.addPath(m_path);
  m_watcher.addPath(QFileInfo(m_path).absolutePath());  // the file may go and come, the lock too
}

// False where somebody else has it. Where no lock can be made, nothing can be saved either.
bool Workspace::lock(const QString& path) {
  const QString place = lockPath(path);
  if (m_lock && m_lock->isLocked() && m_lock->fileName() == place) return true;
  auto wanted = std::make_unique<QLockFile>(place);
  wanted->setStaleLockTime(0);  // it holds while its process lives
  QString holder;
  if (!wanted->tryLock(0) && wanted->error() == QLockFile::LockFailedError) {
    qint64 process = 0;
    QString host, program;
    wanted->getLockInfo(&process, &host, &program);
    holder = tr("%1, process %2 on %3").arg(program.isEmpty() ? tr("another program") : program).arg(process).arg(host);
  }
  const bool free = holder.isEmpty();
  m_lock = free ? std::move(wanted) : nullptr;
  if (holder != m_holder) {
    m_holder = holder;
    m_document->setReadOnly(!free);
    Q_EMIT lockChanged();
  }
  return free;
}

void Workspace::checkLock() {
  if (m_holder.isEmpty() || !lock(m_path)) return;
  checkDisk();
}

void Workspace::editAnyway() {
  if (lock(m_path)) return checkDisk();
  m_holder.clear();
  m_document->setReadOnly(false);
  checkDisk();
  Q_EMIT lockChanged();
}

void Workspace::setOnDisk(OnDisk state) {
  if (m_diskState == state) return;
  m_diskState = state;
  Q_EMIT diskChanged();
}

void Workspace::checkDisk() {
  lookWhetherWritable();
  if (m_path.isEmpty()) return;
  QFile file(m_path);
  if (!file.exists()) {
    if (!neverSaved() && m_diskState != OnDisk::Deleted && !m_goneTimer.isActive()) m_goneTimer.start();
    return;
  }
  if (!file.open(QIODevice::ReadOnly)) return;
  const QByteArray bytes = file.readAll();
  if (!m_watcher.files().contains(m_path)) m_watcher.addPath(m_path);
  const Hash hash = hashOf(viewOf(bytes));
  if (textOf(bytes) == m_document->text()) {
    const bool news = hash != m_onDisk || m_diskState != OnDisk::Same;
    m_onDisk = hash;
    if (news) m_document->markSaved();
    if (!m_document->modified()) removeJournal();
    setOnDisk(OnDisk::Same);
    if (m_wasModified != m_document->modified()) {
      m_wasModified = m_document->modified();
      Q_EMIT modifiedChanged();
    }
    return;
  }
  if (hash == m_onDisk) return setOnDisk(OnDisk::Same);
  if (m_document->modified()) return setOnDisk(OnDisk::Changed);
  reloadFromDisk();
  Q_EMIT readAgain();
}

void Workspace::keepMine() {
  QFile file(m_path);
  if (file.open(QIODevice::ReadOnly)) m_onDisk = hashOf(viewOf(file.readAll()));
  m_document->markUnsaved();
  m_wasModified = true;
  writeJournal();
  setOnDisk(OnDisk::Same);
  Q_EMIT modifiedChanged();
}

Result<Unit> Workspace::save(const QString& path, bool overwrite) {
  const QString target = QFileInfo(path).absoluteFilePath();
  const bool moved = m_path != target, first = m_path.isEmpty();
  const QString before = moved ? place() : QString();
  const auto failed = [&](const char* stage, const QString& message) { return Error{stage, message.toStdString(), {}, {}}; };
  if (isProtected(target))
    return failed("save", tr("%1 is write-protected: nothing was written.").arg(QFileInfo(target).fileName()));
  std::unique_ptr<QLockFile> other;
  if (moved) {
    other = std::make_unique<QLockFile>(lockPath(target));
    other->setStaleLockTime(0);
    if (!other->tryLock(0) && other->error() == QLockFile::LockFailedError)
      return failed("save", tr("%1 is open in another window: nothing was written.").arg(target));
  } else if (!m_holder.isEmpty()) {
    return failed("save", tr("%1 is open in %2: nothing was written. It can be saved under another name.").arg(name(), m_holder));
  } else if (!overwrite) {
    QFile now(target);
    if (now.exists() && (!now.open(QIODevice::ReadOnly) || hashOf(viewOf(now.readAll())) != m_onDisk)) {
      setOnDisk(OnDisk::Changed);
      return failed("outside", tr("%1 changed on disk since it was read: nothing was written.").arg(name()));
    }
  }
  QFile was(m_path);
  const bool marked = was.open(QIODevice::ReadOnly) && was.read(kMark.size()) == kMark;
  const std::string text = (marked ? kMark.toStdString() : std::string()) + m_document->text();
  const Hash hadOnDisk = std::exchange(m_onDisk, hashOf(text));  // the watcher may hear of it before this ends
  if (const QString error = writeWhole(target, text); !error.isEmpty()) {
    m_onDisk = hadOnDisk;
    return failed("save", tr("%1 cannot be written: %2").arg(target, error));
  }
  m_path = target;
  if (moved) {
    m_lock = other->isLocked() ? std::move(other) : nullptr;
    m_document->setReadOnly(false);
    if (!m_holder.isEmpty()) {
      m_holder.clear();
      Q_EMIT lockChanged();
    }
  }
  removeJournal();
  m_document->markSaved();
  m_wasModified = false;
  watch();
  setOnDisk(OnDisk::Same);
  if (moved) {
    Q_EMIT this->moved();
    sendDocument();  // data files are found beside the notebook
    carryRuns(before + kRuns, first);
  }
  Q_EMIT modifiedChanged();
  return Unit{};
}

void Workspace::reloadFromDisk() {
  QFile file(m_path);
  if (!file.open(QIODevice::ReadOnly)) return;
  const QByteArray bytes = file.readAll();
  m_onDisk = hashOf(viewOf(bytes));
  m_document->reload(textOf(bytes));
  m_wasModified = m_document->modified();
  setOnDisk(OnDisk::Same);
  Q_EMIT modifiedChanged();
}

// ---------------------------------------------------------------- the journal
void Workspace::writeJournal() {
  if (!m_document->modified()) return removeJournal();  // undone to what is on disk
  if (m_hasJournal && m_journalled == m_document->revision()) return;
  if (m_journalFile.isEmpty()) m_journalFile = m_newJournal();
  if (m_journalFile.isEmpty()) return;
  const QString error = writeWhole(m_journalFile, toBytes({m_path.toStdString(), m_onDisk, m_document->revision(),
                                                           m_document->text(), m_document->history(kHistoryBytes)}));
  if (error.isEmpty()) {
    m_journalled = m_document->revision();
    m_hasJournal = true;
  }
  if (error != std::exchange(m_journalError, error) || error.isEmpty()) Q_EMIT journalChanged();
}

void Workspace::removeJournal() {
  m_journalTimer.stop();
  const bool known = m_hasJournal || !m_journalError.isEmpty();
  if (m_hasJournal) QFile::remove(m_journalFile);
  m_hasJournal = false;
  m_journalError.clear();
  if (known) Q_EMIT journalChanged();
}

void Workspace::forget() {
  removeJournal();
  if (m_path.isEmpty() && !m_journalFile.isEmpty()) QDir(folderOfJournal(m_journalFile)).removeRecursively();
}

// A run that is under way writes on where it began; until it has ended its folder is seen under the new name.
void Workspace::carryRuns(const QString& from, bool move) {
  m_carries.push_back({from, m_path + kRuns, move});
  if (running() || runAsked()) showRunsAt(from, m_path + kRuns);
  else settleRuns();
}

void Workspace::settleRuns() {
  if (running() || runAsked() || m_carries.empty()) return;
  for (const Carry& carry : std::exchange(m_carries, {}))
    if (const QString error = carry.move ? moveRuns(carry.from, carry.to) : copyRuns(carry.from, carry.to); !error.isEmpty()) {
      m_stranded.push_back(carry);
      m_strandedWhy = error;
    }
  Q_EMIT runsStranded();
}

void Workspace::carryAgain() {
  m_carries = std::exchange(m_stranded, {});
  settleRuns();
}

QString Workspace::runsPlace() {
  if (m_stranded.empty()) return place();
  const QString from = m_stranded.back().from;
  return from.left(from.size() - kRuns.size());
}

QString Workspace::strandedText() const {
  if (m_stranded.empty()) return {};
  return tr("The runs of %1 could not be taken along: %2. They are in %3 still.")
      .arg(name(), m_strandedWhy, m_stranded.back().from);
}

void Workspace::openJournal(const LeftJournal& left) {
  removeJournal();
  m_journalFile = left.file;
  m_hasJournal = true;
  const QString path = QString::fromStdString(left.journal.path);
  if (!path.isEmpty()) lock(path);
  m_onDisk = left.journal.onDisk;
  // Its number may be another one now.
  if (path.isEmpty())
    for (QDir runs(folderOfJournal(left.file)); const QString& old : runs.entryList({QLatin1Char('*') + kRuns}, QDir::Dirs))
      runs.rename(old, name() + kRuns);
  install(std::make_unique<Document>(left.journal.text, left.journal.history, m_document->revision() + 1), path);
  checkDisk();
}

void Workspace::recover(const LeftJournal& left) {
  if (!m_document->modified()) return openJournal(left);
  m_document->replace(0, m_document->text().size(), left.journal.text, tr("Recover").toStdString());
  writeJournal();
  if (m_hasJournal) QFile::remove(left.file);
  Q_EMIT modifiedChanged();
}

Workspace::Peer Workspace::peer() const {
  if (m_path.isEmpty()) return {};
  const QFileInfo info(m_path);
  QFile file(info.absoluteDir().filePath(info.completeBaseName() + QStringLiteral(".peer.json")));
  if (!file.open(QIODevice::ReadOnly)) return {};
  const QJsonObject json = QJsonDocument::fromJson(file.readAll()).object();
  const double ms = json.value(QStringLiteral("step_ms")).toDouble();
  const QString name = json.value(QStringLiteral("name")).toString();
  return ms > 0 && !name.isEmpty() ? Peer{name, ms} : Peer{};
}

}  // namespace nf
