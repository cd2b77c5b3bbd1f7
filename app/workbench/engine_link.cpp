// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/engine_link.h"

#include <QCoreApplication>
#include <QProcess>

namespace nf {

using Batch = std::shared_ptr<std::vector<protocol::Envelope>>;

// Lives on the link's thread.
class EngineProcess : public QObject {
  Q_OBJECT
 public:
  explicit EngineProcess(QStringList command) : m_command(std::move(command)) {}

  void start(int generation) {
    delete m_process;
    m_reader = {};
    m_stderr.clear();
    m_process = new QProcess(this);
    const auto tell = [this, generation](const QString& reason) {
      if (m_told == generation) return;
      m_told = generation;
      Q_EMIT ended(generation, reason);
    };
    connect(m_process, &QProcess::readyReadStandardOutput, this, [this, generation, tell] {
      const QByteArray bytes = m_process->readAllStandardOutput();
      std::vector<Error> errors;
      auto batch = std::make_shared<std::vector<protocol::Envelope>>(
          m_reader.feed({bytes.constData(), static_cast<std::size_t>(bytes.size())}, errors));
      if (!batch->empty()) Q_EMIT arrived(generation, batch);
      if (m_reader.broken()) {
        tell(tr("The engine's answers break the protocol: %1").arg(QString::fromStdString(errors.back().message)));
        m_process->kill();
      }
    });
    connect(m_process, &QProcess::readyReadStandardError, this, [this] {
      m_stderr += m_process->readAllStandardError();
      m_stderr = m_stderr.right(4096);
    });
    connect(m_process, &QProcess::started, this, [this, generation] { Q_EMIT started(generation, m_process->processId()); });
    connect(m_process, &QProcess::errorOccurred, this, [this, tell](QProcess::ProcessError error) {
      if (error == QProcess::FailedToStart)
        tell(tr("The engine %1 cannot be started: %2").arg(m_command.value(0), m_process->errorString()));
    });
    connect(m_process, &QProcess::finished, this, [this, tell](int code, QProcess::ExitStatus status) {
      QString reason =
          status == QProcess::CrashExit ? tr("The engine was killed.") : tr("The engine ended with code %1.").arg(code);
      const QString last = QString::fromUtf8(m_stderr).trimmed().section(QLatin1Char('\n'), -1);
      if (!last.isEmpty()) reason += QLatin1Char(' ') + last.left(300);
      tell(reason);
    });
    m_process->start(m_command.value(0), m_command.mid(1));
  }

  void write(const QByteArray& bytes) {
    if (m_process && m_process->state() != QProcess::NotRunning) m_process->write(bytes);
  }

  void close() {
    if (!m_process) return;
    m_process->disconnect(this);
    m_process->closeWriteChannel();
    if (!m_process->waitForFinished(1500)) {
      m_process->kill();
      m_process->waitForFinished(1000);
    }
    delete m_process;
    m_process = nullptr;
  }

 Q_SIGNALS:
  void started(int generation, qint64 processId);
  void arrived(int generation, nf::Batch batch);
  void ended(int generation, const QString& reason);

 private:
  QStringList m_command;
  QProcess* m_process = nullptr;
  protocol::FrameReader m_reader;
  QByteArray m_stderr;
  int m_told = 0;
};

EngineLink::EngineLink(QStringList command, QObject* parent)
    : QObject(parent), m_command(std::move(command)), m_process(new EngineProcess(m_command)) {
  qRegisterMetaType<Batch>("nf::Batch");
  m_process->moveToThread(&m_thread);
  connect(m_process, &EngineProcess::started, this, [this](int generation, qint64 id) {
    if (generation != m_generation) return;
    m_processId = id;
    protocol::Hello hello;
    hello.program = "neoflow-workbench " + QCoreApplication::applicationVersion().toStdString();
    hello.process = QCoreApplication::applicationPid();
    send(hello, 0);
  });
  connect(m_process, &EngineProcess::arrived, this, [this](int generation, const Batch& batch) {
    for (const auto& envelope : *batch)
      if (generation == m_generation && m_state != State::Dead) handle(envelope);
  });
  connect(m_process, &EngineProcess::ended, this, [this](int generation, const QString& reason) {
    if (generation != m_generation || m_state == State::Dead) return;
    m_state = State::Dead;
    m_processId = 0;
    Q_EMIT died(reason);
  });
  m_thread.start();
}

EngineLink::~EngineLink() {
  QMetaObject::invokeMethod(
      m_process, [p = m_process] { p->close(); }, Qt::BlockingQueuedConnection);
  m_thread.quit();
  m_thread.wait();
  delete m_process;
}

void EngineLink::start() {
  m_state = State::Starting;
  ++m_generation;
  QMetaObject::invokeMethod(m_process, [p = m_process, g = m_generation] {
    p->close();
    p->start(g);
  });
  Q_EMIT starting();
}

void EngineLink::send(const protocol::Message& message, protocol::RequestId id) {
  const std::string line = protocol::encodeFrame({id, message, {}});
  QMetaObject::invokeMethod(m_process, [p = m_process, bytes = QByteArray::fromStdString(line)] { p->write(bytes); });
}

protocol::RequestId EngineLink::request(const protocol::Message& message) {
  if (m_state != State::Ready) return 0;
  const auto id = m_nextId++;
  send(message, id);
  return id;
}

void EngineLink::notify(const protocol::Message& message) {
  if (m_state == State::Ready) send(message, 0);
}

void EngineLink::handle(const protocol::Envelope& envelope) {
  if (const auto* hello = std::get_if<protocol::Hello>(&envelope.message)) {
    m_hello = *hello;
    if (hello->version != protocol::kProtocolVersion) {
      m_state = State::Dead;
      Q_EMIT died(tr("The engine speaks version %1 of the protocol, this workbench %2.")
                      .arg(hello->version)
                      .arg(protocol::kProtocolVersion));
      return;
    }
    m_state = State::Ready;
    Q_EMIT ready();
    return;
  }
  Q_EMIT received(envelope);
}

}  // namespace nf

#include "engine_link.moc"
