// SPDX-License-Identifier: GPL-3.0-or-later
// What a notebook asks of its engine, and what it keeps of the answers.
#include <QDateTime>
#include <QDir>
#include <QFileInfo>
#include <QRegularExpression>
#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "app/workbench/workspace.h"

namespace nf {

using namespace protocol;

double Workspace::sinceKey() const { return static_cast<double>(QDateTime::currentMSecsSinceEpoch() - m_lastKeyMs); }

void Workspace::startEngine() { m_engine->start(); }

void Workspace::sendDocument() {
  if (m_engine->state() != EngineLink::State::Ready) return;
  m_replicaKnown = true;
  m_sentWhole = m_document->revision();
  m_edited = false;
  m_lastKeyMs = QDateTime::currentMSecsSinceEpoch();
  const QString runs = m_path.isEmpty() ? place() : QString();
  tell(DocumentReplaced{m_document->revision(), (runs.isEmpty() ? name() : runs).toStdString(),
                        m_path.isEmpty() ? QDir::currentPath().toStdString() : QFileInfo(m_path).absolutePath().toStdString(),
                        asUtf8(m_document->text()), m_step});
}

void Workspace::lookAtStep(std::uint32_t train) {
  if (m_step == train && m_analysis.step == train) return;
  m_step = train;
  m_profile.reset();
  m_document->renew();  // all that is known is of another step
  sendDocument();
  Q_EMIT documentEdited();
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

void Workspace::renameNames(const QString& name, const QString& to) {
  // As it stands in "d(L)/d(W)" and "W.next" too; a function's own, "V.W", is another.
  const QRegularExpression word(QStringLiteral("(?<![\\w.])%1(?!\\w)").arg(QRegularExpression::escape(name)),
                                QRegularExpression::UseUnicodePropertiesOption);
  const auto rename = [&](std::string& known) { known = QString::fromStdString(known).replace(word, to).toStdString(); };
  for (Analysis* names : {&m_names, &m_wholeNames}) {
    for (TensorInfo& t : names->tensors) rename(t.name);
    for (SymbolInfo& s : names->symbols) rename(s.name);
  }
}

void Workspace::keepNames() {
  Analysis next;
  next.tensors = m_analysis.tensors;
  // The library is long: only what the notebook calls.
  for (const SymbolInfo& s : m_analysis.symbols)
    if (s.kind == SymbolKind::Function && (s.definition.source.empty() || !s.uses.empty())) next.symbols.push_back(s);
  m_missing.clear();
  const bool mistaken =
      std::ranges::any_of(m_analysis.diagnostics, [](const DiagnosticInfo& d) { return d.severity == Severity::Error; });
  if (mistaken) {
    // Of the newest text that was whole, not of each that was passed on the way of a name being typed.
    if (m_namesAreWhole) m_wholeNames = std::move(m_names);
    else if (m_wholeNames.tensors.empty() && m_wholeNames.symbols.empty()) m_wholeNames = next;
    keepGone(next.tensors, m_wholeNames.tensors, m_missing, [](TensorInfo& t) { t.origins.clear(); });
    keepGone(next.symbols, m_wholeNames.symbols, m_missing, [](SymbolInfo&) {});
  }
  m_namesAreWhole = !mistaken;
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

bool Workspace::isOvertaken(std::uint64_t revision, const QString& tensor) const {
  return revision != m_document->revision() || !analysisIsCurrent() || m_missing.contains(tensor.toStdString());
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
          if (isOvertaken(asked, tensor)) return;  // what was shown stays
          Q_EMIT expressionFailed(tensor, QString::fromStdString(error->message));
        }
      });
}

void Workspace::wantGraph(const QString& stage) {
  const auto ticket = ++m_graphTicket;
  m_stage = stage;
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
    if (!page || page->revision < m_analysis.revision) return;
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

void Workspace::wantPlan() {
  m_planRevision = 0;
  if (!m_stage.isEmpty()) wantGraph(m_stage);
  wantFusion();
  wantSubgraphs();
}

void Workspace::setBudget(double share) {
  m_budget = share;
  tell(BudgetRequest{share, std::nullopt});
}

void Workspace::wantDevices(bool measure) {
  askFor<Devices>(DevicesRequest{measure}, tr("Devices"), [this, measure](const Devices& devices, const Envelope&) {
    m_devices = devices;
    m_devicesTaken = std::chrono::steady_clock::now();
    Q_EMIT devicesArrived();
    if (measure) {
      // Decisions are by the constants.
      wantPlan();
      Q_EMIT devicesMeasured();
    }
    Q_EMIT milestone(QStringLiteral("devices"));
  });
}

void Workspace::useDevice(const QString& name) {
  askFor<Devices>(DevicesRequest{false, name.toStdString()}, tr("Devices"), [this, name](const Devices& devices, const Envelope&) {
    m_device = name;
    m_devices = devices;
    m_devicesTaken = std::chrono::steady_clock::now();
    // Decisions, kernels and their times are those of the device.
    const auto known = std::exchange(m_trials, {});
    m_spaces.clear();
    m_whole.clear();
    Q_EMIT devicesArrived();
    for (const auto& [subgraph, trials] : known) wantTrials(subgraph);
    wantPlan();
  });
}

void Workspace::useValues(const QString& checkpoint) {
  m_valuesOf = checkpoint;
  ask(ValuesRequest{checkpoint.toStdString()}, [this](const Envelope& envelope) {
    if (std::holds_alternative<Finished>(envelope.message)) Q_EMIT valuesChosen();
  });
}

// A mistake takes what hangs on it out of the program: its kernels stay in their places, as gone.
void Workspace::takeSubgraphs(const Subgraphs& s) {
  m_gone.clear();
  m_subgraphs = s;
  if (std::ranges::none_of(m_analysis.diagnostics, [](const DiagnosticInfo& d) { return d.severity == Severity::Error; })) {
    m_whole = s.subgraphs;
    return;
  }
  std::vector<SubgraphInfo> rows = m_whole;
  for (SubgraphInfo& kernel : rows) {
    m_gone.insert(kernel.id);
    kernel.origins.clear();  // of another text
    kernel.places.clear();
  }
  for (const SubgraphInfo& kernel : s.subgraphs) {
    m_gone.erase(kernel.id);
    const auto known = std::ranges::find(rows, kernel.id, &SubgraphInfo::id);
    if (known != rows.end()) *known = kernel;
    else rows.push_back(kernel);
  }
  m_subgraphs.subgraphs = std::move(rows);
}

void Workspace::wantSubgraphs() {
  askFor<Subgraphs>(SubgraphsRequest{m_document->revision()}, tr("Subgraphs"), [this](const Subgraphs& s, const Envelope&) {
    takeSubgraphs(s);
    // A row and the plot of its trials have the same ones: an engine that was started anew knows what the one before had kept. A row
    // tells of the fastest, too, whether anybody has looked at its trials or not.
    for (const SubgraphInfo& kernel : s.subgraphs) {
      const auto count =
          std::ranges::count_if(trials(kernel.id), [](const TrialInfo& t) { return t.us || t.status != TrialStatus::Ok; });
      if (count == 0 ? kernel.trials > 1 : count != kernel.trials) wantTrials(kernel.id);
    }
    Q_EMIT subgraphsArrived();
    Q_EMIT milestone(QStringLiteral("subgraphs"));
  });
}

void Workspace::wantTrials(const std::string& subgraph) {
  TrialsRequest request;
  request.subgraph = subgraph;
  askFor<Trials>(request, tr("Trials"), [this](const Trials& t, const Envelope&) {
    // All that there are: what another run or another engine had is let go.
    auto& known = m_trials[t.subgraph];
    std::vector<TrialInfo> all = t.trials;
    for (TrialInfo& trial : known)
      if (trial.number >= all.size() && trial.number < t.total) all.push_back(std::move(trial));
    known = std::move(all);
    Q_EMIT trialsChanged(t.subgraph);
  });
}

void Workspace::takeTrial(const std::string& subgraph, const TrialInfo& trial) {
  auto& known = m_trials[subgraph];
  const auto place = std::lower_bound(known.begin(), known.end(), trial.number,
                                      [](const TrialInfo& t, std::uint64_t number) { return t.number < number; });
  if (place != known.end() && place->number == trial.number) return;
  known.insert(place, trial);
  ++m_byHand;
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
      m_profileMeaning = p->revision == m_analysis.revision ? meaningOfTrainings() : std::string();
      m_profileTaken = std::chrono::steady_clock::now();
      m_profileMade.clear();
      for (const SubgraphInfo& kernel : m_subgraphs.subgraphs) m_profileMade.emplace(kernel.id, kernel.made);
      Q_EMIT profileArrived(*p);
      Q_EMIT milestone(QStringLiteral("profile"));
    } else if (const auto* error = std::get_if<Failed>(&envelope.message); error && !running() && error->stage != "gone") {
      Q_EMIT failed(tr("Profile"), QString::fromStdString(error->message));
    }
  });
}

// The last values stand in for those that cannot be had.
bool Workspace::showLastSlice(const TensorRequest& asked) {
  const auto last = m_values.find(placeOf(asked));
  const TensorInfo* now = tensor(asked.tensor);
  if (last == m_values.end() || !now || last->second.slice.shape != now->shape) return false;
  const Values shown = last->second;
  Q_EMIT sliceArrived(shown.slice, shown.values);
  return true;
}

void Workspace::wantSlice(const TensorRequest& request) {
  if (request.tensor.empty()) return;
  if (m_engine->state() != EngineLink::State::Ready) {
    const QString tensor = QString::fromStdString(request.tensor);
    m_slices.erase(placeOf(request));
    m_postponed[placeOf(request)] = request;
    if (showLastSlice(request)) Q_EMIT sliceFailed(tensor, tr("No engine runs."));
    return;
  }
  ask(request,
      [this, asked = request, tensor = QString::fromStdString(request.tensor), turn = ++m_asked](const Envelope& envelope) {
        m_slices.erase(placeOf(asked));
        if (const auto* error = std::get_if<Failed>(&envelope.message)) {
          if (error->stage == "revision" || error->stage == "gone") return;
          // What the engine says now marks the last ones as old.
          showLastSlice(asked);
          Q_EMIT sliceFailed(tensor, QString::fromStdString(error->message));
          return;
        }
        if (const auto* slice = std::get_if<TensorSlice>(&envelope.message)) {
          const Place place{slice->tensor, slice->begin};
          if (const auto last = m_values.find(place); last != m_values.end() && last->second.asked > turn) return;
          constexpr std::size_t kMostKept = 64;  // slices of 256 by 256
          if (m_values.size() >= kMostKept && !m_values.contains(place))
            m_values.erase(std::ranges::min_element(m_values, {}, [](const auto& kept) { return kept.second.asked; }));
          Values& kept = m_values[place] = {*slice, unpackValues(envelope.binary), turn};
          Q_EMIT sliceArrived(kept.slice, kept.values);
          Q_EMIT milestone(QStringLiteral("tensor"));
        }
      });
}

void Workspace::refreshSlice(const TensorRequest& request) {
  if (!m_slices.insert(placeOf(request)).second) return;
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

void Workspace::runCell(std::uint32_t cell, bool train, const QString& resume, const QString& weights) {
  if (train) {
    m_resuming = !resume.isEmpty();
    if (!m_resuming) {
      m_steps.clear();
      m_swaps.clear();
      m_evals.clear();
    }
    if (cell < m_analysis.cells.size() && m_analysis.cells[cell].train) lookAtStep(m_analysis.cells[cell].train->number);
    m_trials.clear();
    m_counted.clear();
    m_byHand = 0;
    if (!m_resuming) m_profile.reset();
    Q_EMIT runStarted(cell, m_resuming);
    TrainRequest request;
    request.resume = resume.toStdString();
    request.weights = weights.toStdString();
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
      // Of an engine that ended the cell was cut off, which engineDied() says: there is no mistake in it.
      if (const auto* error = std::get_if<Failed>(&envelope.message); error && error->stage != "gone") {
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
    if (error && error->stage != "gone") Q_EMIT failed(tr("Run"), QString::fromStdString(error->message));
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

std::string Workspace::meaningOfTrainings() const {
  std::string all;
  for (const CellInfo& cell : m_analysis.cells)
    if (cell.train) all += cell.meaning + '\n';
  return all;
}

bool Workspace::profileIsEdited() const {
  return m_profile && !m_profileMeaning.empty() && m_profileMeaning != meaningOfTrainings();
}

std::set<std::string> Workspace::replacedSinceProfile() const {
  std::set<std::string> replaced;
  if (!m_profile) return replaced;
  std::map<std::string, std::optional<KernelMaking>> timed;
  for (const KernelTimeInfo& kernel : m_profile->kernels) timed.emplace(kernel.subgraph, kernel.made);
  for (const SubgraphInfo& kernel : m_subgraphs.subgraphs) {
    const auto then = m_profileMade.find(kernel.id);
    const auto measured = timed.find(kernel.id);
    if (!kernel.made || then == m_profileMade.end() || measured == timed.end() || !measured->second) continue;
    if (kernel.made != then->second && kernel.made != measured->second) replaced.insert(kernel.id);
  }
  return replaced;
}

std::string Workspace::deviceInUse() const {
  if (m_devices)
    for (const DeviceInfo& d : m_devices->devices)
      if (d.inUse) return d.name;
  return {};
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
    const MovedPlaces moved(m_analysis.spans, m_analysedText, a->spans, m_document->text());
    m_analysis = *a;
    m_analysedText = m_document->text();
    for (SubgraphInfo& kernel : m_subgraphs.subgraphs) moved.move(kernel);
    m_refusedHints.clear();
    keepNames();
    m_analysedHere = true;
    m_afterKey = sinceKey();
    m_live = true;
    Q_EMIT placesMoved(moved);
    if (m_current) offerSpans();
    Q_EMIT analysed();
    m_live = false;
    for (const auto& [place, request] : std::exchange(m_postponed, {})) wantSlice(request);
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
    m_valuesOf.clear();
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
    info.lowUs = trial->low_us, info.highUs = trial->high_us, info.besideUs = trial->beside_us, info.won = trial->won;
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
    // A search by itself changes no run.
    if (m_runState.phase != RunPhase::Tuning) {
      m_swaps.push_back(swapOf(*reverted));
      Q_EMIT swapArrived(m_swaps.back());
    }
    wantPlan();
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
  // An edit did not fit what the engine has. The same text sent again would change nothing.
  if (const auto* failure = std::get_if<Failed>(&envelope.message);
      failure && failure->stage == "revision" && m_sentWhole != m_document->revision())
    sendDocument();
  if (const auto found = m_replies.find(envelope.id); found != m_replies.end()) {
    const Reply reply = std::move(found->second);
    m_replies.erase(found);
    reply(envelope);
  } else if (const auto* failure = std::get_if<Failed>(&envelope.message);
             failure && failure->stage != "revision" && failure->stage != "tensor") {  // values that nobody waits for any more
    Q_EMIT failed(QString::fromStdString(failure->stage), QString::fromStdString(failure->message));
  }
}

}  // namespace nf
