// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/device/backend.h"
#include "core/lang/compile.h"
#include "core/protocol/message.h"
#include "core/runtime/pipeline.h"
#include "core/session/jobs.h"
#include "core/session/numeric_check.h"
#include "core/session/outbox.h"
#include "core/session/revision.h"

// The engine's side of the protocol: holds a numbered replica of the notebook, keeps its meaning up to date as edits come,
// answers what the views ask, and runs jobs. Four threads besides the reader: analysis of the newest revision, answers, proofs that
// were put off, the job.
// A document whose name is an absolute path has no file yet: its runs go to that path with ".out", and the last part is its name.
// (design: architecture, "Three kinds of process"; workbench)
namespace nf {

class Engine {
 public:
  struct Options {
    std::string program = "neoflow";                            // with its version, as Hello says it
    std::string version;                                        // alone, for the records of runs
    std::vector<std::pair<std::string, std::string>> versions;  // of what it is made with, for the devices view
    InvertOptions invert;                                       // of the inverses that the engine keeps
  };
  Engine(BackendRegistry& registry, Outbox& outbox, Options options);
  ~Engine();  // stops what runs

  // From the reader's thread. Answers at once or hands the message to a thread of the engine.
  void receive(protocol::Envelope envelope);

 private:
  struct Request {
    protocol::RequestId id = 0;
    protocol::Message message;
    std::stop_source stop;
    std::uint64_t again = 0;  // the revision of an answer that is sent a second time; dropped when that is no longer the newest
  };

  void replaceDocument(const protocol::DocumentReplaced& m, protocol::RequestId id);
  void editDocument(const protocol::DocumentEdited& m, protocol::RequestId id);
  void cancel(protocol::RequestId id);
  void analyse(std::stop_token stop);
  void answerRequests(std::stop_token stop);
  // False, as of prepare().
  bool answer(const Request& request);
  void answerOfJobs(const Request& request, std::stop_token stop);
  // Makes what the answer needs of the newest revision. False: an edit came meanwhile, or the request was cancelled.
  bool prepare(const Request& request);
  // A newer text has come: what is derived of the older one ends, also in the middle of a proof.
  void overtake(std::stop_source passes);
  std::stop_source beginPasses(std::uint64_t revision);  // of the clerk's thread; requested at once where that is not the newest
  void settleProofs(std::stop_token stop);
  void watchFiles(std::stop_token stop);
  void sendAnalysis(const Revision& revision, const Diagnostics& ofFiles);
  void sendExpression(const protocol::Expression& expression, const std::vector<GradientTerm>& derived,
                      const protocol::Message& request, protocol::RequestId id);
  void fail(protocol::RequestId id, const Error& error);
  std::shared_ptr<const Revision> newest() const;

  bool answerExpression(const protocol::ExpressionRequest& m, protocol::RequestId id, std::stop_token stop);
  // Adds one round of the check of d(of)/d(wrt) = result, or why there is none.
  // `further`: by one round; else what is known by now, where it still holds.
  void check(protocol::Expression& into, bool further, const Program& program, TensorId of, TensorId wrt, TensorId result,
             TensorId seed, const CheckedStart& start, std::stop_token stop);
  bool answerGradient(const protocol::GradientRequest& m, protocol::RequestId id, std::stop_token stop);
  void answerGraph(const protocol::GraphRequest& m, protocol::RequestId id);
  void answerFusion(protocol::RequestId id);
  void answerDevices(const protocol::DevicesRequest& m, protocol::RequestId id);

  BackendRegistry& m_registry;
  Outbox& m_outbox;
  Options m_options;

  mutable std::mutex m_mutex;
  std::condition_variable_any m_changed;
  Source m_document;
  std::uint64_t m_documentRevision = 0;
  std::size_t m_step = 0;  // DocumentReplaced::step
  std::uint64_t m_analysed = 0;
  std::string m_results;
  std::stop_source m_passes{std::nostopstate};  // of what is derived now
  std::shared_ptr<const Revision> m_newest;
  std::deque<std::shared_ptr<Request>> m_requests;
  std::vector<std::shared_ptr<Request>> m_active;

  InverseCache m_inverses;
  std::optional<protocol::Message> m_unsettled;  // the newest request that was answered with proofs under way
  std::uint64_t m_unsettledRevision = 0;

  // Files are read beside the analysis, which is sent again with what is wrong in them. Where that was quick to find it is looked for before
  // the next one is sent, so that mistakes do not come and go while somebody types.
  std::shared_ptr<const Revision> m_unread;  // the newest revision whose files nobody has looked at
  bool m_filesAtFault = false;
  double m_filesTook = 0;  // s

  // The numeric check under way: a request takes it one round further, other answers stand between the rounds. It holds as long as an
  // edit leaves what it compares.
  struct Check {
    Hash checked;
    std::string tensor;
    NumericChecker checker;
    std::optional<protocol::NumericCheck> known;
  };
  std::optional<Check> m_check;  // of the clerk's thread

  Jobs m_jobs;
  std::jthread m_analysis, m_clerk, m_prover, m_reader;  // last: they use all of the above
};

// `neoflow engine`: protocol on these descriptors until the input ends. Returns the exit code.
int runEngine(BackendRegistry& registry, int inputDescriptor, int outputDescriptor, Engine::Options options);

}  // namespace nf
