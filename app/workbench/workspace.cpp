// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/workspace.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QJsonObject>
#include <QStandardPaths>
#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "app/workbench/carry_runs.h"
#include "widgets/write_file.h"

namespace nf {

using namespace protocol;

namespace {

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
    wantDevices(false);
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
  if (current) m_selection->setSpans(m_analysis.spans);
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

void Workspace::install(std::unique_ptr<Document> document, const QString& path) {
  document->setReadOnly(!m_holder.isEmpty());
  m_document = std::move(document);
  m_path = path;
  m_journalled = m_document->revision();
  m_wasModified = m_document->modified();
  m_diskState = OnDisk::Same;
  m_analysis = m_names = {};
  m_refusedHints.clear();
  m_missing.clear();
  m_subgraphs = {};
  m_trials.clear();
  m_counted.clear();
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

Result<Unit> Workspace::open(const QString& path) {
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly))
    return Error{"open", (tr("%1 cannot be read: %2").arg(path, file.errorString())).toStdString(), {}, {}};
  const std::string text = file.readAll().toStdString();
  lock(path);
  m_onDisk = hashOf(text);
  install(std::make_unique<Document>(text, m_document->revision() + 1), QFileInfo(path).absoluteFilePath());
  return Unit{};
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
    if (m_diskState != OnDisk::Deleted && !m_goneTimer.isActive()) m_goneTimer.start();
    return;
  }
  if (!file.open(QIODevice::ReadOnly)) return;
  const QByteArray bytes = file.readAll();
  if (!m_watcher.files().contains(m_path)) m_watcher.addPath(m_path);
  const Hash hash = hashOf(viewOf(bytes));
  if (viewOf(bytes) == m_document->text()) {
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
  const std::string& text = m_document->text();
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
    sendDocument();  // data files are found beside the notebook
    carryRuns(before + kRuns, first);
  }
  Q_EMIT modifiedChanged();
  return Unit{};
}

void Workspace::reloadFromDisk() {
  QFile file(m_path);
  if (!file.open(QIODevice::ReadOnly)) return;
  const std::string text = file.readAll().toStdString();
  m_onDisk = hashOf(text);
  m_document->reload(text);
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
  if (running() || runAsked()) return;
  for (const Carry& carry : std::exchange(m_carries, {}))
    if (const QString error = carry.move ? moveRuns(carry.from, carry.to) : copyRuns(carry.from, carry.to); !error.isEmpty())
      Q_EMIT failed(tr("Results"), tr("The runs in %1 did not follow the notebook: %2").arg(carry.from, error));
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

double Workspace::sinceKey() const { return static_cast<double>(QDateTime::currentMSecsSinceEpoch() - m_lastKeyMs); }

void Workspace::startEngine() { m_engine->start(); }

void Workspace::sendDocument() {
  if (m_engine->state() != EngineLink::State::Ready) return;
  m_replicaKnown = true;
  m_edited = false;
  m_lastKeyMs = QDateTime::currentMSecsSinceEpoch();
  const QString runs = m_path.isEmpty() ? place() : QString();
  tell(DocumentReplaced{m_document->revision(), (runs.isEmpty() ? name() : runs).toStdString(),
                        m_path.isEmpty() ? QDir::currentPath().toStdString() : QFileInfo(m_path).absolutePath().toStdString(),
                        asUtf8(m_document->text())});
}

namespace {

// Puts what is gone from `now` back where it stood `before`, without places in a text that has changed.
template <class T, class F>
void keepGone(std::vector<T>& now, const std::vector<T>& before, std::set<std::string>& gone, F&& forgetPlaces) {
  std::unordered_set<std::string> present;
  for (const T& t : now) present.insert(t.name);
  std::vector<T> out;
  std::unordered_map<std::string, std::vector<T>> behind;  // by the name that stays before them
  std::string stays;
  for (T old : before) {
    if (present.count(old.name)) {
      stays = old.name;
      continue;
    }
    forgetPlaces(old);
    gone.insert(old.name);
    (stays.empty() ? out : behind[stays]).push_back(std::move(old));
  }
  for (T& t : now) {
    const auto found = behind.find(t.name);
    out.push_back(std::move(t));
    if (found == behind.end()) continue;
    std::move(found->second.begin(), found->second.end(), std::back_inserter(out));
    behind.erase(found);
  }
  now = std::move(out);
}

}  // namespace

void Workspace::keepNames() {
  Analysis next;
  next.tensors = m_analysis.tensors;
  // The library is long: only what the notebook calls.
  for (const SymbolInfo& s : m_analysis.symbols)
    if (s.kind == SymbolKind::Function && (s.definition.source.empty() || !s.uses.empty())) next.symbols.push_back(s);
  m_missing.clear();
  if (std::any_of(m_analysis.diagnostics.begin(), m_analysis.diagnostics.end(),
                  [](const DiagnosticInfo& d) { return d.severity == Severity::Error; })) {
    keepGone(next.tensors, m_names.tensors, m_missing, [](TensorInfo& t) { t.origins.clear(); });
    keepGone(next.symbols, m_names.symbols, m_missing, [](SymbolInfo&) {});
  }
  m_names = std::move(next);
}

void Workspace::ask(const Message& message, Reply reply) {
  const auto id = m_engine->request(message);
  if (id != 0) m_replies[id] = std::move(reply);
}

template <class T, class F>
void Workspace::askFor(const Message& request, const QString& what, F&& use) {
  ask(request, [this, what, use = std::forward<F>(use)](const Envelope& envelope) {
    if (const auto* answer = std::get_if<T>(&envelope.message)) {
      use(*answer, envelope);
    } else if (const auto* error = std::get_if<Failed>(&envelope.message)) {
      if (error->stage != "revision" && error->stage != "gone") Q_EMIT failed(what, QString::fromStdString(error->message));
    }
  });
}

void Workspace::wantExpression(const QString& tensor) {
  if (m_engine->state() != EngineLink::State::Ready) {
    if (const auto last = m_expressions.find(tensor.toStdString()); last != m_expressions.end())
      Q_EMIT expressionArrived(Expression(last->second));
    return;
  }
  ask(ExpressionRequest{m_document->revision(), tensor.toStdString(), false},
      [this, tensor, live = m_live, asked = m_document->revision()](const Envelope& envelope) {
        if (const auto* e = std::get_if<Expression>(&envelope.message)) {
          if (live && e->revision == m_document->revision()) m_afterKey = sinceKey();
          Q_EMIT expressionArrived(*e);
          Q_EMIT milestone(QStringLiteral("expression"));
        } else if (const auto* error = std::get_if<Failed>(&envelope.message);
                   error && error->stage != "revision" && error->stage != "gone") {
          // Overtaken, or hidden by a mistake that is told at its place: what was shown stays.
          if (asked != m_document->revision() || !analysisIsCurrent() || m_missing.contains(tensor.toStdString())) return;
          Q_EMIT expressionFailed(tensor, QString::fromStdString(error->message));
        }
      });
}

void Workspace::wantGraph(const QString& stage) {
  const auto ticket = ++m_graphTicket;
  const auto show = [this, stage, ticket] {
    graphPages({}, stage, ticket, [this](const GraphPage& graph) {
      if (graph.stage == "fused") m_planRevision = graph.revision;
      Q_EMIT graphArrived(graph);
      Q_EMIT milestone(QStringLiteral("graph"));
    });
  };
  const QString fused = QStringLiteral("fused");
  if (stage == fused || m_planRevision == m_document->revision()) return show();
  // A notebook whose gradients cannot be made has no plan, but a source.
  graphPages(
      {}, fused, ticket,
      [this, show](const GraphPage& plan) {
        m_planRevision = plan.revision;
        Q_EMIT graphPlanArrived(plan);
        show();
      },
      show);
}

void Workspace::graphPages(GraphPage soFar, const QString& stage, std::uint64_t ticket, std::function<void(const GraphPage&)> use,
                           std::function<void()> otherwise) {
  GraphRequest request;
  request.revision = m_document->revision();
  request.stage = stage.toStdString();
  request.offset = static_cast<std::int64_t>(soFar.nodes.size());
  ask(request, [this, soFar = std::move(soFar), stage, ticket, use = std::move(use),
                otherwise = std::move(otherwise)](const Envelope& envelope) {
    if (ticket != m_graphTicket) return;
    if (const auto* error = std::get_if<Failed>(&envelope.message)) {
      if (error->stage == "revision") return;
      if (otherwise) otherwise();
      else Q_EMIT failed(tr("Graph"), QString::fromStdString(error->message));
    }
    const auto* page = std::get_if<GraphPage>(&envelope.message);
    if (!page) return;
    GraphPage all = soFar;
    all.stage = page->stage;
    all.revision = page->revision;
    all.totalNodes = page->totalNodes;
    all.nodes.insert(all.nodes.end(), page->nodes.begin(), page->nodes.end());
    all.edges.insert(all.edges.end(), page->edges.begin(), page->edges.end());
    all.groups.insert(all.groups.end(), page->groups.begin(), page->groups.end());
    if (!page->stages.empty()) all.stages = page->stages;
    if (static_cast<std::int64_t>(all.nodes.size()) < page->totalNodes && !page->nodes.empty())
      return graphPages(std::move(all), stage, ticket, use, otherwise);
    use(all);
  });
}

void Workspace::wantFusion() {
  askFor<FusionReport>(FusionRequest{m_document->revision()}, tr("Fusion"), [this](const FusionReport& report, const Envelope&) {
    if (report.revision == m_analysis.revision && report.refusedHints != m_refusedHints) {
      std::erase_if(m_analysis.diagnostics, [this](const DiagnosticInfo& d) { return std::ranges::count(m_refusedHints, d) > 0; });
      m_refusedHints = report.refusedHints;
      m_analysis.diagnostics.insert(m_analysis.diagnostics.end(), m_refusedHints.begin(), m_refusedHints.end());
      Q_EMIT hintsRefused();
    }
    Q_EMIT fusionArrived(report);
    Q_EMIT milestone(QStringLiteral("fusion"));
  });
}

void Workspace::wantDevices(bool measure) {
  askFor<Devices>(DevicesRequest{measure}, tr("Devices"), [this](const Devices& devices, const Envelope&) {
    m_devices = devices;
    Q_EMIT devicesArrived();
    Q_EMIT milestone(QStringLiteral("devices"));
  });
}

void Workspace::useDevice(const QString& name) {
  askFor<Devices>(DevicesRequest{false, name.toStdString()}, tr("Devices"), [this](const Devices& devices, const Envelope&) {
    m_devices = devices;
    Q_EMIT devicesArrived();
    // Decisions and kernels are those of the device.
    wantFusion();
    wantSubgraphs();
  });
}

void Workspace::wantSubgraphs() {
  askFor<Subgraphs>(SubgraphsRequest{m_document->revision()}, tr("Subgraphs"), [this](const Subgraphs& s, const Envelope&) {
    m_subgraphs = s;
    Q_EMIT subgraphsArrived();
    Q_EMIT milestone(QStringLiteral("subgraphs"));
  });
}

void Workspace::wantTrials(const std::string& subgraph) {
  TrialsRequest request;
  request.subgraph = subgraph;
  askFor<Trials>(request, tr("Trials"), [this](const Trials& t, const Envelope&) {
    auto& known = m_trials[t.subgraph];
    std::map<std::uint64_t, TrialInfo> all;
    for (const auto& trial : known) all[trial.number] = trial;
    for (const auto& trial : t.trials) all[trial.number] = trial;
    known.clear();
    for (auto& [number, trial] : all) known.push_back(std::move(trial));
    Q_EMIT trialsChanged(t.subgraph);
  });
}

void Workspace::takeTrial(const std::string& subgraph, const TrialInfo& trial) {
  auto& known = m_trials[subgraph];
  const auto place = std::lower_bound(known.begin(), known.end(), trial.number,
                                      [](const TrialInfo& t, std::uint64_t number) { return t.number < number; });
  if (place != known.end() && place->number == trial.number) return;
  known.insert(place, trial);
  Q_EMIT trialsChanged(subgraph);
}

void Workspace::wantKernel(const std::string& subgraph, std::optional<std::uint64_t> trial) {
  askFor<Kernel>(KernelRequest{subgraph, trial, {"loops", "llvm", "asm", "cuda", "ptx"}}, tr("Kernel"),
                 [this](const Kernel& k, const Envelope&) {
                   Q_EMIT kernelArrived(k);
                   Q_EMIT milestone(QStringLiteral("kernel"));
                 });
}

void Workspace::wantSpace(const std::string& subgraph, std::optional<JsonText> at) {
  const bool found = !at;  // as it was found, nothing turned
  if (found && m_engine->state() != EngineLink::State::Ready) {
    if (const auto last = m_spaces.find(subgraph); last != m_spaces.end()) Q_EMIT spaceArrived(Space(last->second));
    return;
  }
  askFor<Space>(SpaceRequest{subgraph, std::move(at)}, tr("Knobs"), [this, found](const Space& s, const Envelope&) {
    if (found) m_spaces[s.subgraph] = s;
    Q_EMIT spaceArrived(s);
  });
}

// One at a time: the steps are timed for it.
void Workspace::wantProfile() {
  if (m_profiling) return;
  m_profiling = m_engine->state() == EngineLink::State::Ready;
  ask(ProfileRequest{m_document->revision(), 20}, [this](const Envelope& envelope) {
    m_profiling = false;
    if (const auto* p = std::get_if<Profile>(&envelope.message)) {
      m_profile = *p;
      m_profileTaken = std::chrono::steady_clock::now();
      Q_EMIT profileArrived(*p);
      Q_EMIT milestone(QStringLiteral("profile"));
    } else if (const auto* error = std::get_if<Failed>(&envelope.message); error && !running() && error->stage != "gone") {
      Q_EMIT failed(tr("Profile"), QString::fromStdString(error->message));
    }
  });
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

// The last values stand in for those that cannot be had.
bool Workspace::showLastSlice(const TensorRequest& asked) {
  const auto last = m_values.find(asked.tensor);
  const TensorInfo* now = tensor(asked.tensor);
  if (last == m_values.end() || !now || last->second.slice.shape != now->shape || last->second.slice.begin != asked.begin)
    return false;
  const Values shown = last->second;
  Q_EMIT sliceArrived(shown.slice, shown.values);
  return true;
}

void Workspace::wantSlice(const TensorRequest& request) {
  if (request.tensor.empty()) return;
  if (m_engine->state() != EngineLink::State::Ready) {
    const QString tensor = QString::fromStdString(request.tensor);
    m_slices.remove(tensor);
    if (showLastSlice(request)) {
      m_postponed[request.tensor] = request;
      Q_EMIT sliceFailed(tensor, tr("No engine runs."));
    }
    return;
  }
  ask(request,
      [this, asked = request, tensor = QString::fromStdString(request.tensor), turn = ++m_asked](const Envelope& envelope) {
        m_slices.remove(tensor);
        if (const auto* error = std::get_if<Failed>(&envelope.message)) {
          if (error->stage == "revision" || error->stage == "gone") return;
          // What the engine says now marks the last ones as old.
          showLastSlice(asked);
          Q_EMIT sliceFailed(tensor, QString::fromStdString(error->message));
          return;
        }
        if (const auto* slice = std::get_if<TensorSlice>(&envelope.message)) {
          if (const auto last = m_values.find(slice->tensor); last != m_values.end() && last->second.asked > turn) return;
          constexpr std::size_t kMostKept = 64;  // slices of 256 by 256
          if (m_values.size() >= kMostKept && !m_values.contains(slice->tensor)) m_values.erase(m_values.begin());
          Values& kept = m_values[slice->tensor] = {*slice, unpackValues(envelope.binary), turn};
          Q_EMIT sliceArrived(kept.slice, kept.values);
          Q_EMIT milestone(QStringLiteral("tensor"));
        }
      });
}

void Workspace::refreshSlice(const TensorRequest& request) {
  const QString tensor = QString::fromStdString(request.tensor);
  if (m_slices.contains(tensor)) return;
  m_slices.insert(tensor);
  wantSlice(request);
}

// What is asked for can be stopped from here on.
void Workspace::askRun(const Message& request, Reply reply) {
  ask(request, [this, reply = std::move(reply)](const Envelope& envelope) {
    reply(envelope);
    if (!std::exchange(m_runAsked, false)) return;
    if (m_runState.phase == RunPhase::Stopping) m_runState = {};
    Q_EMIT runStateChanged();
  });
  m_runAsked = !idle();
  Q_EMIT runStateChanged();
}

void Workspace::runCell(std::uint32_t cell, bool train, bool resume) {
  if (train) {
    m_resuming = resume;
    if (!resume) {
      m_steps.clear();
      m_swaps.clear();
      m_evals.clear();
    }
    m_trials.clear();
    m_counted.clear();
    if (!resume) m_profile.reset();
    Q_EMIT runStarted(cell, resume);
    TrainRequest request;
    if (resume) request.resume = "newest";
    request.revision = m_document->revision();
    request.cell = cell;
    askRun(request, [this](const Envelope& envelope) {
      if (const auto* error = std::get_if<Failed>(&envelope.message)) Q_EMIT runFailed(QString::fromStdString(error->message));
      else if (std::holds_alternative<Cancelled>(envelope.message)) Q_EMIT runFailed(tr("stopped before the first step"));
    });
  } else {
    RunRequest request;
    request.revision = m_document->revision();
    request.cells = {cell};
    const auto reply = [this, cell](const Envelope& envelope) {
      if (const auto* error = std::get_if<Failed>(&envelope.message)) {
        CellResult result;
        result.cell = cell;
        result.status = CellStatus::Error;
        result.message = error->message;
        Q_EMIT cellFinished(result);
      }
      Q_EMIT runEnded(tr("Stopped."));
    };
    askRun(request, reply);
  }
}

void Workspace::runAll() {
  RunRequest request;
  request.revision = m_document->revision();
  askRun(request, [this](const Envelope& envelope) {
    const auto* error = std::get_if<Failed>(&envelope.message);
    if (error) Q_EMIT failed(tr("Run"), QString::fromStdString(error->message));
    Q_EMIT runEnded(error ? QString::fromStdString(error->message) : tr("Stopped."));
  });
}

// Shown at once: how long the engine takes to answer is another matter.
void Workspace::stop() {
  tell(StopRequest{});
  if (!running() && !runAsked()) return;
  m_runState.phase = RunPhase::Stopping;
  m_runState.detail.clear();
  m_runState.secondsLeft.reset();
  Q_EMIT runStateChanged();
}

void Workspace::pause(bool pause) {
  if (pause) tell(PauseRequest{});
  else tell(ResumeRequest{});
}

const TensorInfo* Workspace::tensor(const std::string& name) const {
  for (const TensorInfo& t : m_analysis.tensors)
    if (t.name == name) return &t;
  return nullptr;
}

const std::vector<TrialInfo>& Workspace::trials(const std::string& subgraph) const {
  static const std::vector<TrialInfo> none;
  const auto found = m_trials.find(subgraph);
  return found == m_trials.end() ? none : found->second;
}

std::int64_t Workspace::trialsOfOthers() const {
  std::int64_t count = 0;
  for (const auto& [subgraph, trials] : m_counted)
    if (std::none_of(m_subgraphs.subgraphs.begin(), m_subgraphs.subgraphs.end(), [&](const auto& s) { return s.id == subgraph; }))
      count += trials;
  return count;
}

void Workspace::handle(const Envelope& envelope) {
  if (const auto* result = std::get_if<CellResult>(&envelope.message)) {
    Q_EMIT cellFinished(*result);
    Q_EMIT milestone(QStringLiteral("cell"));
    return;
  }
  if (const auto* a = std::get_if<Analysis>(&envelope.message)) {
    if (a->revision != m_document->revision()) return;  // overtaken
    m_analysis = *a;
    m_refusedHints.clear();
    keepNames();
    m_analysedHere = true;
    m_afterKey = sinceKey();
    m_live = true;
    if (m_current) m_selection->setSpans(m_analysis.spans);
    Q_EMIT analysed();
    m_live = false;
    for (const auto& [tensor, request] : std::exchange(m_postponed, {})) wantSlice(request);
    Q_EMIT milestone(QStringLiteral("analysis"));
    return;
  }
  // A proof that was under way has ended.
  if (const auto* e = std::get_if<Expression>(&envelope.message); e && envelope.id == 0) {
    if (e->revision != m_document->revision()) return;
    Q_EMIT expressionArrived(*e);
    Q_EMIT milestone(QStringLiteral("expression"));
    return;
  }
  if (const auto* state = std::get_if<RunState>(&envelope.message)) {
    const bool stopping = m_runState.phase == RunPhase::Stopping && state->phase != RunPhase::Idle;
    m_runState = *state;
    if (running()) m_runAsked = false;
    if (stopping) m_runState.phase = RunPhase::Stopping;
    Q_EMIT runStateChanged();
    return;
  }
  if (const auto* step = std::get_if<StepEvent>(&envelope.message)) {
    // Training that has lost its device makes steps again.
    if (std::exchange(m_resuming, false) || (!m_steps.empty() && step->step <= m_steps.back().step)) {
      const auto again = [&](const auto& event) { return event.step >= step->step; };
      const auto before = m_steps.size() + m_swaps.size() + m_evals.size();
      std::erase_if(m_steps, again);
      std::erase_if(m_swaps, again);
      std::erase_if(m_evals, again);
      if (m_steps.size() + m_swaps.size() + m_evals.size() != before) Q_EMIT stepsTrimmed();
    }
    m_steps.push_back(*step);
    Q_EMIT stepArrived(*step);
    Q_EMIT milestone(QStringLiteral("step"));
    return;
  }
  if (const auto* swap = std::get_if<KernelSwapEvent>(&envelope.message)) {
    m_swaps.push_back(*swap);
    Q_EMIT swapArrived(*swap);
    Q_EMIT milestone(QStringLiteral("kernel_swap"));
    return;
  }
  if (const auto* counters = std::get_if<KernelCountersEvent>(&envelope.message)) return Q_EMIT countersArrived(*counters);
  if (const auto* eval = std::get_if<EvalEvent>(&envelope.message)) {
    m_evals.push_back(*eval);
    Q_EMIT evalArrived(*eval);
    Q_EMIT milestone(QStringLiteral("eval"));
    return;
  }
  if (const auto* trial = std::get_if<TrialEvent>(&envelope.message)) {
    auto& known = m_trials[trial->subgraph];
    m_counted[trial->subgraph] += trial->counted;
    // Those on record from earlier runs have not been told; it may be the first of them that is tried again.
    if (known.empty() || trial->number > known.size()) wantTrials(trial->subgraph);
    TrialInfo info;
    info.number = trial->number, info.generation = trial->generation, info.seconds = trial->seconds, info.us = trial->us;
    info.lowUs = trial->low_us, info.highUs = trial->high_us;
    for (const JsonText& parent : trial->parents)
      if (const auto from = std::find_if(known.begin(), known.end(), [&](const TrialInfo& t) { return t.schedule == parent; });
          from != known.end())
        info.parents.push_back(from->number);
    info.predictedUs = trial->predicted_us, info.status = trial->status, info.schedule = trial->schedule, info.how = trial->how;
    // The first kernel is told when it was checked and again when it was timed; one on record when it is tried again.
    const auto place = std::lower_bound(known.begin(), known.end(), info.number,
                                        [](const TrialInfo& t, std::uint64_t number) { return t.number < number; });
    if (place != known.end() && place->number == info.number) *place = std::move(info);
    else known.insert(place, std::move(info));
    Q_EMIT trialArrived(*trial);
    Q_EMIT trialsChanged(trial->subgraph);
    Q_EMIT milestone(QStringLiteral("trial"));
    return;
  }
  // A decision was undone by measurement: decisions and kernels are others now.
  if (const auto* reverted = std::get_if<FusionRevertedEvent>(&envelope.message)) {
    m_swaps.push_back(swapOf(*reverted));
    Q_EMIT swapArrived(m_swaps.back());
    wantFusion();
    wantSubgraphs();
    return;
  }
  if (const auto* finished = std::get_if<DoneEvent>(&envelope.message)) {
    m_replies.erase(envelope.id);
    m_runAsked = false;
    Q_EMIT done(*finished);
    Q_EMIT milestone(QStringLiteral("done"));
    return;
  }
  if (const auto* error = std::get_if<ErrorEvent>(&envelope.message)) {
    m_replies.erase(envelope.id);
    m_runAsked = false;
    Q_EMIT runFailed(QString::fromStdString(error->message), *error);
    Q_EMIT milestone(QStringLiteral("error"));
    return;
  }
  if (const auto* warning = std::get_if<WarningEvent>(&envelope.message)) {
    Q_EMIT warned(*warning);
    return;
  }
  if (const auto* trouble = std::get_if<CheckpointFailedEvent>(&envelope.message)) {
    Q_EMIT checkpointFailed(*trouble);
    return;
  }
  if (const auto* failure = std::get_if<Failed>(&envelope.message); failure && failure->stage == "revision") sendDocument();
  if (const auto found = m_replies.find(envelope.id); found != m_replies.end()) {
    const Reply reply = std::move(found->second);
    m_replies.erase(found);
    reply(envelope);
  } else if (const auto* failure = std::get_if<Failed>(&envelope.message); failure && failure->stage != "revision") {
    Q_EMIT failed(QString::fromStdString(failure->stage), QString::fromStdString(failure->message));
  }
}

}  // namespace nf
