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
#include "core/session/outbox.h"
#include "core/session/revision.h"

// The engine's side of the protocol: holds a numbered replica of the notebook, keeps its meaning up to date as edits come,
// answers what the views ask, and runs jobs. Three threads besides the reader: analysis of the newest revision, answers, the job.
// (design: architecture, "Three kinds of process"; workbench)
namespace nf {

class Engine {
 public:
  struct Options {
    std::string program = "neoflow";  // with its version, as Hello says it
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
  };

  void replaceDocument(const protocol::DocumentReplaced& m, protocol::RequestId id);
  void editDocument(const protocol::DocumentEdited& m, protocol::RequestId id);
  void cancel(protocol::RequestId id);
  void analyse(std::stop_token stop);
  void answerRequests(std::stop_token stop);
  void answer(const Request& request);
  void fail(protocol::RequestId id, const Error& error);
  std::shared_ptr<const Revision> newest() const;

  void answerExpression(const protocol::ExpressionRequest& m, protocol::RequestId id, std::stop_token stop);
  void answerGradient(const protocol::GradientRequest& m, protocol::RequestId id, std::stop_token stop);
  void answerGraph(const protocol::GraphRequest& m, protocol::RequestId id);
  void answerFusion(protocol::RequestId id);
  void answerDevices(protocol::RequestId id);

  BackendRegistry& m_registry;
  Outbox& m_outbox;
  Options m_options;

  mutable std::mutex m_mutex;
  std::condition_variable_any m_changed;
  Source m_document;
  std::uint64_t m_documentRevision = 0;
  std::uint64_t m_analysed = 0;
  std::shared_ptr<const Revision> m_newest;
  std::deque<std::shared_ptr<Request>> m_requests;
  std::vector<std::shared_ptr<Request>> m_active;

  Jobs m_jobs;
  std::jthread m_analysis, m_clerk;  // last: they use all of the above
};

// `neoflow engine`: protocol on these descriptors until the input ends. Returns the exit code.
int runEngine(BackendRegistry& registry, int inputDescriptor, int outputDescriptor, const std::string& program);

}  // namespace nf
