// SPDX-License-Identifier: Apache-2.0
#include "core/session/engine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/runtime/data_check.h"
#include "core/session/describe.h"
#include "core/syntax/derivative_name.h"

namespace nf {
namespace {

// Of the interpreter, which does some 1e8 a second: what a person waits for one sample, and what other answers wait for a round.
constexpr double kCheckOperations = 1e10, kRoundOperations = 2e7;

std::string hostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string("unknown host");
}

}  // namespace

Engine::Engine(BackendRegistry& registry, Outbox& outbox, Options options)
    : m_registry(registry), m_outbox(outbox), m_options(std::move(options)), m_inverses(m_options.invert),
      m_jobs(registry, outbox, m_options.version), m_analysis([this](std::stop_token stop) { analyse(stop); }),
      m_clerk([this](std::stop_token stop) { answerRequests(stop); }),
      m_prover([this](std::stop_token stop) { settleProofs(stop); }), m_reader([this](std::stop_token stop) { watchFiles(stop); }) {
  protocol::Hello hello;
  hello.program = m_options.program;
  hello.host = hostName();
  hello.process = getpid();
  m_outbox.send(hello);
}

Engine::~Engine() {
  m_jobs.stop();
  {
    const std::lock_guard lock(m_mutex);
    for (const auto& request : m_active) request->stop.request_stop();
    for (const auto& request : m_requests) request->stop.request_stop();
  }
  m_analysis.request_stop();
  m_clerk.request_stop();
  m_prover.request_stop();
  m_reader.request_stop();
}

void Engine::fail(protocol::RequestId id, const Error& error) {
  m_outbox.send(protocol::Failed{error.stage, error.message, error.device, error.detail}, id);
}

std::shared_ptr<const Revision> Engine::newest() const {
  const std::lock_guard lock(m_mutex);
  return m_newest;
}

void Engine::receive(protocol::Envelope envelope) {
  const protocol::RequestId id = envelope.id;
  if (const auto* m = std::get_if<protocol::Hello>(&envelope.message)) {
    if (m->version != protocol::kProtocolVersion)
      fail(id, {"protocol",
                "The workbench speaks version " + std::to_string(m->version) + ", this engine version " +
                    std::to_string(protocol::kProtocolVersion) + ".",
                {},
                {}});
    return;
  }
  if (const auto* m = std::get_if<protocol::DocumentReplaced>(&envelope.message)) return replaceDocument(*m, id);
  if (const auto* m = std::get_if<protocol::DocumentEdited>(&envelope.message)) return editDocument(*m, id);
  if (const auto* m = std::get_if<protocol::Cancel>(&envelope.message)) return cancel(m->request);
  // These act at once, also while answers wait for the compiler.
  if (std::get_if<protocol::PauseRequest>(&envelope.message)) return m_jobs.pause();
  if (std::get_if<protocol::ResumeRequest>(&envelope.message)) return m_jobs.resume();
  if (std::get_if<protocol::StopRequest>(&envelope.message)) return m_jobs.stop();
  if (const auto* m = std::get_if<protocol::BudgetRequest>(&envelope.message)) return m_jobs.setBudget(*m);
  if (const auto* m = std::get_if<protocol::SeriesRequest>(&envelope.message)) return m_jobs.answerSeries(*m, id);
  if (const auto* m = std::get_if<protocol::TrialsRequest>(&envelope.message)) return m_jobs.answerTrials(*m, id);
  auto request = std::make_shared<Request>();
  request->id = id;
  request->message = std::move(envelope.message);
  {
    const std::lock_guard lock(m_mutex);
    m_requests.push_back(std::move(request));
  }
  m_changed.notify_all();
}

void Engine::replaceDocument(const protocol::DocumentReplaced& m, protocol::RequestId id) {
  // What has no file yet is named by where its results lie.
  const bool placed = m.name.starts_with('/');
  const std::string name = placed ? m.name.substr(m.name.rfind('/') + 1) : m.name, results = placed ? m.name + ".out" : "";
  std::stop_source overtaken{std::nostopstate};
  {
    const std::lock_guard lock(m_mutex);
    const bool moved = m_document.name != name || m_document.directory != m.directory || m_results != results;
    const bool known = m.revision == m_documentRevision && !moved;
    if (known && m.text == m_document.text && m.step == m_step) return;
    if (m_documentRevision != 0 && (m.revision < m_documentRevision || known)) {
      fail(id, {"revision", "Revision " + std::to_string(m.revision) + " is older than what the engine holds.", {}, {}});
      return;
    }
    m_document = {name, m.directory, m.text};
    m_step = m.step;
    m_documentRevision = m.revision;
    m_results = results;
    m_analysed = 0;
    overtaken = m_passes;
  }
  m_jobs.setResults(results);
  overtake(overtaken);
}

void Engine::editDocument(const protocol::DocumentEdited& m, protocol::RequestId id) {
  std::stop_source overtaken{std::nostopstate};
  {
    const std::lock_guard lock(m_mutex);
    if (m.revision != m_documentRevision + 1 || m.begin > m.end || m.end > m_document.text.size()) {
      fail(id, {"revision", "The edit does not fit revision " + std::to_string(m_documentRevision) + ".", {}, {}});
      return;
    }
    m_document.text.replace(m.begin, m.end - m.begin, m.text);
    m_documentRevision = m.revision;
    overtaken = m_passes;
  }
  overtake(overtaken);
}

void Engine::overtake(std::stop_source passes) {
  passes.request_stop();
  m_inverses.forgetWaiting();
  m_changed.notify_all();
}

std::stop_source Engine::beginPasses(std::uint64_t revision) {
  std::stop_source passes;
  const std::lock_guard lock(m_mutex);
  m_passes = passes;
  if (m_documentRevision != revision) passes.request_stop();
  return passes;
}

void Engine::cancel(protocol::RequestId id) {
  std::shared_ptr<Request> waiting;
  {
    const std::lock_guard lock(m_mutex);
    for (const auto& request : m_active)
      if (request->id == id) request->stop.request_stop();  // it answers Cancelled itself
    const auto at = std::find_if(m_requests.begin(), m_requests.end(), [id](const auto& r) { return r->id == id; });
    if (at != m_requests.end()) {
      waiting = *at;
      m_requests.erase(at);
    }
  }
  if (waiting) m_outbox.send(protocol::Cancelled{}, id);
  else m_jobs.cancel(id);
}

void Engine::analyse(std::stop_token stop) {
  for (;;) {
    Source document;
    std::string place;
    std::uint64_t number;
    CompileOptions options;
    {
      std::unique_lock lock(m_mutex);
      if (!m_changed.wait(lock, stop, [this] { return m_documentRevision != m_analysed; })) return;
      document = m_document;
      options.train = m_step;
      number = m_documentRevision;
      place = m_document.directory + '\n' + m_document.name;
    }
    auto revision = std::make_shared<const Revision>(number, std::move(document), options, &m_inverses);
    bool overtaken;
    {
      const std::lock_guard lock(m_mutex);
      overtaken = m_documentRevision != number || m_document.directory + '\n' + m_document.name != place;
      m_analysed = overtaken ? 0 : number;
      m_newest = revision;
    }
    m_changed.notify_all();
    if (overtaken) continue;
    constexpr double kQuick = 0.03;  // s
    bool now;
    {
      const std::lock_guard lock(m_mutex);
      now = m_filesAtFault && m_filesTook < kQuick && revision->notebook().ok();
    }
    const Diagnostics ofFiles = now ? checkFiles(revision->notebook(), stop) : Diagnostics();
    sendAnalysis(*revision, ofFiles);
    {
      const std::lock_guard lock(m_mutex);
      if (now) m_filesAtFault = !ofFiles.empty();
      else m_unread = revision;
    }
    m_changed.notify_all();
  }
}

void Engine::sendAnalysis(const Revision& revision, const Diagnostics& ofFiles) {
  protocol::Analysis analysis = describeAnalysis(revision.notebook(), revision.sound(), revision.spans(), revision.number(),
                                                 revision.step(), revision.analysisMilliseconds(), ofFiles);
  for (const Diagnostic& d : revision.hintDiagnostics())
    analysis.diagnostics.push_back(describe(d, revision.sound().sources, revision.spans()));
  m_outbox.send(std::move(analysis));
}

void Engine::watchFiles(std::stop_token stop) {
  Hash sound;  // what was read last without a fault
  for (;;) {
    std::shared_ptr<const Revision> revision;
    bool told;
    {
      std::unique_lock lock(m_mutex);
      if (!m_changed.wait(lock, stop, [this] { return m_unread != nullptr; })) return;
      revision = std::exchange(m_unread, nullptr);
      told = m_filesAtFault;
    }
    const CompiledNotebook& notebook = revision->notebook();
    if (!notebook.ok()) continue;
    const Hash read = filesRead(notebook);
    if (!told && (read == Hash() || read == sound)) continue;
    const auto begin = std::chrono::steady_clock::now();
    const Diagnostics found = checkFiles(notebook, stop);
    if (stop.stop_requested()) return;
    if (found.empty()) sound = read;
    {
      const std::lock_guard lock(m_mutex);
      m_filesAtFault = !found.empty();
      m_filesTook = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (m_documentRevision != revision->number() || m_newest != revision) continue;
    }
    if (!found.empty() || told) sendAnalysis(*revision, found);
  }
}

void Engine::answerRequests(std::stop_token stop) {
  for (;;) {
    std::shared_ptr<Request> request;
    {
      std::unique_lock lock(m_mutex);
      // Views ask about the text they have sent: its analysis comes first.
      if (!m_changed.wait(lock, stop, [this] { return !m_requests.empty() && m_documentRevision == m_analysed; })) return;
      request = m_requests.front();
      m_requests.pop_front();
      m_active.push_back(request);
    }
    const bool prepared = prepare(*request) && answer(*request);
    const bool cancelled = !prepared && request->stop.stop_requested();
    {
      const std::lock_guard lock(m_mutex);
      std::erase(m_active, request);
      // It waits for the analysis of the newer text, before what was asked after it.
      if (!prepared && !cancelled) m_requests.push_front(request);
    }
    if (cancelled) m_outbox.send(protocol::Cancelled{}, request->id);
  }
}

bool Engine::prepare(const Request& request) {
  using namespace protocol;
  const auto is = [&]<class... T>(std::type_identity<T>...) { return (std::holds_alternative<T>(request.message) || ...); };
  const bool shows = is(std::type_identity<ExpressionRequest>(), std::type_identity<GraphRequest>());
  const bool decides =
      is(std::type_identity<GraphRequest>(), std::type_identity<FusionRequest>(), std::type_identity<CompareFusionRequest>());
  const bool runs = is(std::type_identity<SubgraphsRequest>(), std::type_identity<SpaceRequest>(),
                       std::type_identity<KernelRequest>(), std::type_identity<MeasureRequest>());
  const auto revision = newest();
  if (!revision || (!shows && !decides && !runs)) return true;
  FusionInputs inputs = m_jobs.fusionInputs();
  std::stop_source passes = beginPasses(revision->number());
  const std::stop_callback onCancel(request.stop.get_token(), [&passes] { passes.request_stop(); });
  inputs.stop = passes.get_token();
  inputs.outdated = [this, &request, number = revision->number()] {
    if (request.stop.stop_requested()) return true;
    const std::lock_guard lock(m_mutex);
    return m_documentRevision != number;
  };
  const auto made = [](const Result<std::shared_ptr<const Stages>>& stages) {
    return stages || !(isOutdated(stages.error()) || isStopped(stages.error()));
  };
  return (!shows || made(revision->stages(inputs))) && (!decides || made(revision->decidedStages(inputs))) &&
         (!runs || made(revision->runningStages(inputs)));
}

// A view that was shown `checking` gets the same expression again, proved or as a scatter, without asking.
void Engine::settleProofs(std::stop_token stop) {
  for (;;) {
    {
      std::unique_lock lock(m_mutex);
      if (!m_changed.wait(lock, stop, [this] { return m_unsettled.has_value(); })) return;
    }
    m_inverses.settle(stop);
    {
      const std::lock_guard lock(m_mutex);
      if (!m_unsettled) continue;
      auto request = std::make_shared<Request>();
      request->message = *std::exchange(m_unsettled, std::nullopt);
      request->again = m_unsettledRevision;
      m_requests.push_back(std::move(request));
    }
    m_changed.notify_all();
  }
}

void Engine::sendExpression(const protocol::Expression& expression, const std::vector<GradientTerm>& derived,
                            const protocol::Message& request, protocol::RequestId id) {
  const auto shows = [&](protocol::CertificateState state) {
    return std::any_of(expression.terms.begin(), expression.terms.end(),
                       [&](const protocol::GradientTermInfo& term) { return term.certificate == state; });
  };
  const bool hasty = std::any_of(derived.begin(), derived.end(), [](const GradientTerm& t) { return t.inverse.hasty; });
  m_outbox.send(expression, id);
  if (!shows(protocol::CertificateState::Checking) && !(hasty && shows(protocol::CertificateState::Unneeded))) return;
  {
    const std::lock_guard lock(m_mutex);
    m_unsettled = request;
    m_unsettledRevision = expression.revision;
  }
  m_changed.notify_all();
}

bool Engine::answer(const Request& request) {
  const std::stop_token stop = request.stop.get_token();
  if (request.again != 0)
    if (const auto revision = newest(); !revision || revision->number() != request.again) return true;
  if (const auto* m = std::get_if<protocol::ExpressionRequest>(&request.message)) return answerExpression(*m, request.id, stop);
  if (const auto* m = std::get_if<protocol::GradientRequest>(&request.message)) return answerGradient(*m, request.id, stop);
  if (const auto* m = std::get_if<protocol::GraphRequest>(&request.message)) answerGraph(*m, request.id);
  else if (std::get_if<protocol::FusionRequest>(&request.message)) answerFusion(request.id);
  else if (const auto* d = std::get_if<protocol::DevicesRequest>(&request.message); d && !d->use.empty())
    m_jobs.use(d->use, request.id, [this, m = *d, id = request.id] { answerDevices(m, id); });
  else if (d) answerDevices(*d, request.id);
  else if (const auto* v = std::get_if<protocol::ValuesRequest>(&request.message)) m_jobs.useValues(*v, request.id);
  else answerOfJobs(request, stop);
  return true;
}

void Engine::answerOfJobs(const Request& request, std::stop_token stop) {
  const auto revision = newest();
  if (!revision) return fail(request.id, {"engine", "There is no notebook yet.", {}, {}});
  const auto queued = [&] {
    if (stop.stop_requested()) m_jobs.cancel(request.id);
  };
  if (const auto* m = std::get_if<protocol::TensorRequest>(&request.message))
    return m_jobs.answerTensor(revision, *m, request.id), queued();
  if (const auto* m = std::get_if<protocol::RunRequest>(&request.message)) return m_jobs.run(revision, *m, request.id), queued();
  if (const auto* m = std::get_if<protocol::TrainRequest>(&request.message))
    return m_jobs.train(revision, *m, request.id), queued();
  if (const auto* m = std::get_if<protocol::TuneRequest>(&request.message)) return m_jobs.tune(revision, *m, request.id), queued();
  if (std::get_if<protocol::SubgraphsRequest>(&request.message))
    return m_jobs.answerSubgraphs(*revision, m_jobs.fusionInputs(), request.id);
  if (const auto* m = std::get_if<protocol::ProfileRequest>(&request.message)) return m_jobs.profile(revision, *m, request.id);
  if (const auto* m = std::get_if<protocol::SpaceRequest>(&request.message))
    return m_jobs.answerSpace(*revision, m_jobs.fusionInputs(), *m, request.id);
  if (const auto* m = std::get_if<protocol::KernelRequest>(&request.message))
    return m_jobs.answerKernel(*revision, m_jobs.fusionInputs(), *m, request.id, stop);
  if (const auto* m = std::get_if<protocol::MeasureRequest>(&request.message))
    return m_jobs.answerMeasure(*revision, m_jobs.fusionInputs(), *m, request.id, stop);
  if (const auto* m = std::get_if<protocol::CompareFusionRequest>(&request.message))
    return m_jobs.answerCompareFusion(*revision, m_jobs.fusionInputs(), *m, request.id, stop);
  fail(request.id, {"protocol", "The engine does not answer this message.", {}, {}});
}

namespace {
CheckedStart startOf(const CompiledNotebook& notebook) {
  return {notebook.sources.at(notebook.notebook).directory, notebook.randomSeed()};
}
}  // namespace

bool Engine::answerExpression(const protocol::ExpressionRequest& m, protocol::RequestId id, std::stop_token stop) {
  const auto revision = newest();
  if (!revision) return fail(id, {"expression", "There is no notebook yet.", {}, {}}), true;
  const CompiledNotebook& notebook = revision->sound();
  const auto stages = revision->stages(m_jobs.fusionInputs());
  if (!stages) return fail(id, stages.error()), true;
  const Program* program = *stages && (*stages)->differentiated ? (*stages)->differentiated.get() : &notebook.program;
  const TensorId tensor = program->tensorNamed(m.tensor);
  if (!tensor.valid()) {
    if (const auto names = derivativeNames(m.tensor))
      return answerGradient({m.revision, names->first, names->second, m.numericCheck}, id, stop);
    return fail(id, {"expression", "There is no tensor " + m.tensor + ".", {}, {}}), true;
  }
  static const std::vector<GradientTerm> kNoTerms;
  const std::vector<GradientTerm>& derived = *stages ? (*stages)->terms : kNoTerms;
  auto expression = describeExpression(*program, tensor, derived, revision->spans(), notebook.program);
  if (!expression) return fail(id, {"expression", m.tensor + " is given, not computed.", {}, {}}), true;
  expression->revision = revision->number();
  if (const auto names = derivativeNames(m.tensor)) {
    const TensorId of = program->tensorNamed(names->first), wrt = program->tensorNamed(names->second);
    if (of.valid() && wrt.valid() && (*program)[of].shape.empty())
      check(*expression, m.numericCheck, *program, of, wrt, tensor, {}, startOf(notebook), stop);
  }
  if (stop.stop_requested()) return m_outbox.send(protocol::Cancelled{}, id), true;
  sendExpression(*expression, derived, m, id);
  return true;
}

void Engine::check(protocol::Expression& into, bool further, const Program& program, TensorId of, TensorId wrt, TensorId result,
                   TensorId seed, const CheckedStart& start, std::stop_token stop) {
  const bool same = m_check && m_check->tensor == into.tensor;
  if (!same && !further) return;
  const Hash checked = checkedHash(program, of, wrt, result, seed, start);
  if (!same || m_check->checked != checked) {
    m_check.reset();
    if (!further) return;
    auto checker = NumericChecker::prepare(program, of, wrt, result, seed, kCheckOperations, start);
    if (!checker) {
      into.uncheckable = checker.error().message;
      return;
    }
    m_check.emplace(checked, into.tensor, std::move(*checker));
  }
  if (further) {
    auto round = m_check->checker.goOn(kRoundOperations, std::move(stop));
    if (round) m_check->known = std::move(*round);
    else into.uncheckable = round.error().message;
    if (!round) return;
  }
  into.check = m_check->known;
}

bool Engine::answerGradient(const protocol::GradientRequest& m, protocol::RequestId id, std::stop_token stop) {
  const auto revision = newest();
  if (!revision || !revision->sound().ok()) return fail(id, {"gradient", "The notebook has errors.", {}, {}}), true;
  const Program& notebook = revision->sound().program;
  const TensorId of = notebook.tensorNamed(m.output), wrt = notebook.tensorNamed(m.input);
  if (!of.valid() || !wrt.valid())
    return fail(id, {"gradient", "There is no tensor " + (of.valid() ? m.input : m.output) + ".", {}, {}}), true;
  const DerivativeProgram only = onlyDerivative(notebook, of, wrt);
  InvertOptions options;
  options.explain = true;
  options.cache = &m_inverses;
  options.putOffProofs = true;
  std::stop_source passes = beginPasses(revision->number());
  const std::stop_callback onCancel(stop, [&passes] { passes.request_stop(); });
  options.stop = passes.get_token();
  const auto differentiated = differentiate(only.program, options);
  if (!differentiated && isStopped(differentiated.error())) return false;
  if (!differentiated) return fail(id, differentiated.error()), true;
  if (hasErrors(differentiated->diagnostics))
    return fail(id, {"gradient",
                     differentiated->diagnostics.front().message,
                     {},
                     render(differentiated->diagnostics, revision->sound().sources)}),
           true;
  const Program& d = differentiated->program;
  auto expression = describeExpression(d, only.result, differentiated->terms, revision->spans(), notebook);
  if (!expression) return fail(id, {"gradient", "The gradient has no operator.", {}, {}}), true;
  expression->revision = revision->number();
  check(*expression, m.numericCheck, d, of, wrt, only.result, only.seed, startOf(revision->sound()), stop);
  if (stop.stop_requested()) return m_outbox.send(protocol::Cancelled{}, id), true;
  sendExpression(*expression, differentiated->terms, m, id);
  return true;
}

void Engine::answerGraph(const protocol::GraphRequest& m, protocol::RequestId id) {
  const auto stage = stageNamed(m.stage);
  if (!stage || *stage > Stage::Fused)
    return fail(
        id, {"graph", "There is no stage \"" + m.stage + "\": source, differentiated, transformed, partitioned, fused.", {}, {}});
  const auto revision = newest();
  if (!revision) return fail(id, {"graph", "There is no notebook yet.", {}, {}});
  const FusionInputs inputs = m_jobs.fusionInputs();
  const auto whole = revision->stages(inputs), decided = revision->decidedStages(inputs);
  if (!whole) return fail(id, whole.error());
  if (!decided) return fail(id, decided.error());
  protocol::GraphPage page;
  if (!*whole || !*decided) {
    page = describeGraph({&revision->sound().program, &revision->sound().program, {}}, {}, revision->spans(), m.offset, m.limit);
  } else {
    const auto at = [&](Stage s) { return programsAt(s, **decided, **whole); };
    const StagePrograms programs = at(*stage);
    if (!programs.decided || !programs.whole)
      return fail(id, {"graph",
                       "The notebook has a gradient that can't be made.",
                       {},
                       render((*whole)->diagnostics, revision->sound().sources)});
    page = describeGraph(programs, *stage == Stage::Source ? StagePrograms{} : at(static_cast<Stage>(static_cast<int>(*stage) - 1)),
                         revision->spans(), m.offset, m.limit);
    if (*stage > Stage::Differentiated) {
      MergedNames merged = (*decided)->merged;
      merged.insert((*whole)->merged.begin(), (*whole)->merged.end());
      describeMerged(page, merged, *(*whole)->differentiated, revision->spans());
    }
    if (m.offset == 0) {
      std::int64_t before = 0, apart = 0;  // apart: operators as partition has them, each once
      for (const Stage s : {Stage::Source, Stage::Differentiated, Stage::Transformed, Stage::Partitioned, Stage::Fused}) {
        const StagePrograms there = at(s);
        if (!there.decided || !there.whole) break;
        const auto inside = static_cast<std::int64_t>(there.decided->operators.size());
        const auto outside = static_cast<std::int64_t>(there.outside.size());
        const std::int64_t operators = inside + outside, difference = operators - before;
        std::string note;
        if (s >= Stage::Partitioned) {
          if (s == Stage::Partitioned) apart = inside;
          note = kernelsText(*there.decided, apart);
          if (inside > apart) note += ", " + std::to_string(inside - apart) + " computed again";
          if (outside > 0 && s == Stage::Fused) note += ", " + std::to_string(outside) + " outside the step";
        } else if (s != Stage::Source && difference != 0) {
          note = (difference > 0 ? "added " : "removed ") + std::to_string(std::abs(difference));
        }
        page.stages.push_back({std::string(name(s)), operators, note});
        before = operators;
      }
    }
  }
  page.revision = revision->number();
  page.stage = m.stage;
  m_outbox.send(page, id);
}

namespace {
protocol::DeviceConstants describe(const DeviceConstants& device, const std::string& name, const std::optional<Target>& target) {
  protocol::DeviceConstants out;
  out.device = name;
  out.bandwidth = device.bandwidth;
  out.flopRate = device.flopRate;
  out.launchSeconds = device.launchSeconds;
  out.assumed = true;  // until a measurement is known
  if (target) out.threads = target->threads;
  return out;
}

// An interval is told with the figure it is of: another measurement may have taken its place meanwhile.
protocol::Interval intervalOf(double value, const Backend::Estimate& e) {
  const bool same = e.samples > 0 && std::abs(value - e.value) <= 1e-6 * std::abs(value);
  return same ? protocol::Interval{std::min(e.low, value), std::max(e.high, value), e.samples} : protocol::Interval{};
}

void addMeasurement(protocol::DeviceConstants& c, const Backend::About& about) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (about.measuredAt > 0) c.measuredSecondsAgo = std::max(0.0, now - about.measuredAt);
  c.assumed = about.bandwidth.samples == 0;
  c.l2Bandwidth = about.l2Bandwidth.value;
  c.l2Bytes = about.l2Bytes;
  c.bandwidthInterval = intervalOf(c.bandwidth, about.bandwidth);
  c.flopInterval = intervalOf(c.flopRate, about.flopRate);
  c.launchInterval = intervalOf(c.launchSeconds, about.launchSeconds);
  c.l2Interval = intervalOf(c.l2Bandwidth, about.l2Bandwidth);
}
}  // namespace

void Engine::answerFusion(protocol::RequestId id) {
  const auto revision = newest();
  if (!revision) return fail(id, {"fusion", "There is no notebook yet.", {}, {}});
  const FusionInputs inputs = m_jobs.fusionInputs();
  const DeviceConstants& device = inputs.device;
  const auto stages = revision->decidedStages(inputs);
  if (!stages) return fail(id, stages.error());
  protocol::FusionReport report;
  report.revision = revision->number();
  const std::string inUse = m_jobs.deviceInUse();
  const auto target = m_jobs.target();
  report.device = describe(device, inUse, target);
  if (target)
    for (const BackendRegistry::Entry& entry : m_registry.entries())
      if (entry.reason.empty() && entry.name == target->backend)
        addMeasurement(report.device, entry.backend->about(inUse, static_cast<int>(target->threads)));
  if (*stages && (*stages)->fused) {
    DecidedParts parts(*(*stages)->fused);
    for (const FusionDecision& d : (*stages)->decisions) {
      report.decisions.push_back(
          describe(d, *(*stages)->fused, revision->spans(), static_cast<std::uint32_t>(report.decisions.size())));
      protocol::FusionDecisionInfo& info = report.decisions.back();
      info.parts = parts.of(d);
      info.producerNode = parts.nodeOf(d, d.producer);
      info.consumerNode = parts.nodeOf(d, d.consumer);
      if (const OriginId origin = parts.consumerOrigin(d); origin.valid())
        info.consumerOrigins = revision->spans().of(d.body ? *d.body : *(*stages)->fused, origin);
      if (const auto saving = m_jobs.measuredSaving(d, info.parts)) info.measuredSaving = saving;
    }
  }
  for (const Diagnostic& d : revision->warnings(*stages, inputs))
    report.refusedHints.push_back(describe(d, revision->sound().sources, revision->spans()));
  m_outbox.send(report, id);
}

void Engine::answerDevices(const protocol::DevicesRequest& m, protocol::RequestId id) {
  if (m.measure && m_jobs.busy())
    return fail(
        id,
        {"devices", "Something runs here, and what is measured beside it is what that leaves: measure when it has ended.", {}, {}});
  protocol::Devices devices;
  devices.doctor.push_back({"program", m_options.program, true});
  devices.doctor.push_back({"host", hostName(), true});
  for (const auto& [name, version] : m_options.versions) devices.doctor.push_back({name, version, true});
  auto kernels = m_jobs.target();  // waits until the device is open, and so is in use
  const std::string inUse = m_jobs.deviceInUse();
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (const BackendRegistry::Entry& entry : m_registry.entries()) {
    devices.doctor.push_back({"plugin " + entry.name, entry.reason.empty() ? "serves" : entry.reason, entry.reason.empty()});
    if (!entry.reason.empty()) {
      protocol::DeviceInfo info;
      info.name = info.backend = entry.name;
      info.unavailable = entry.reason;
      devices.devices.push_back(std::move(info));
      continue;
    }
    for (const std::string& name : entry.backend->deviceNames()) {
      protocol::DeviceInfo info;
      info.name = name;
      info.backend = entry.name;
      info.inUse = name == inUse;
      const auto target = m.measure ? entry.backend->measureAgain(name, threads) : entry.backend->target(name, threads);
      if (target) {
        const Backend::About about = entry.backend->about(name, threads);
        info.description = about.description.empty() ? target->fingerprint : about.description;
        protocol::DeviceConstants constants = describe(deviceConstants(*target), name, *target);
        addMeasurement(constants, about);
        info.constants = constants;
        if (info.inUse && kernels) {
          const int own = static_cast<int>(kernels->threads);
          // One after the other: each would spoil the other's figures. Another engine may have measured, too.
          const auto now = own == target->threads ? target
                           : m.measure            ? entry.backend->measureAgain(name, own)
                                                  : entry.backend->target(name, own);
          if (now) m_jobs.setMeasured(*now);
          kernels = m_jobs.target();
          if (kernels && own != target->threads) {
            info.kernels = describe(deviceConstants(*kernels), name, *kernels);
            addMeasurement(*info.kernels, entry.backend->about(name, own));
          }
        }
        info.facts = {{"threads", std::to_string(target->threads)},
                      {"vector", std::to_string(target->vectorBytes * 8) + " bits"},
                      {"caches", std::to_string(target->l1Bytes >> 10) + " KiB, " + std::to_string(target->l2Bytes >> 10) +
                                     " KiB, " + std::to_string(target->l3Bytes >> 10) + " KiB"},
                      {"fingerprint", target->fingerprint}};
        for (const auto& [name, version] : about.versions) info.facts.push_back({name, version});
      } else {
        info.unavailable = target.error().message;
      }
      devices.devices.push_back(std::move(info));
    }
  }
  // Always there: what every other back end is held against.
  protocol::DeviceInfo reference;
  reference.name = reference.backend = "reference";
  reference.description = "Interpreter in double precision, the oracle of the others";
  reference.inUse = inUse == "reference";
  devices.devices.push_back(std::move(reference));
  m_outbox.send(devices, id);
}

int runEngine(BackendRegistry& registry, int input, int output, Engine::Options options) {
  Outbox outbox([output](std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(output, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  });
  Engine engine(registry, outbox, std::move(options));
  protocol::FrameReader reader;
  std::vector<char> buffer(1 << 16);
  for (;;) {
    const ssize_t count = read(input, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return 0;
    std::vector<Error> errors;
    for (protocol::Envelope& envelope : reader.feed(std::string_view(buffer.data(), static_cast<std::size_t>(count)), errors))
      engine.receive(std::move(envelope));
    for (const Error& error : errors) outbox.send(protocol::Failed{error.stage, error.message, error.device, error.detail});
    if (reader.broken() || outbox.closed()) return 1;
  }
}

}  // namespace nf
