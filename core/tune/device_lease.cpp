// SPDX-License-Identifier: Apache-2.0
#include "core/tune/device_lease.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

namespace nf {

// A plain mutex lets its last holder take it again at once, which starves the other side of a training loop. So a
// taker passes the turnstile first: it holds it while it waits for the device, and the next one waits there.
struct DeviceLease::Shared {
  static constexpr std::uint32_t kReady = 0x4e464c31;  // "NFL1"
  std::uint32_t ready;
  pthread_mutex_t turnstile;
  pthread_mutex_t device;
};

namespace {

Error failed(const std::string& what, const std::string& path) {
  return {"open device lease", what + " " + path, {}, std::strerror(errno)};
}

std::string defaultDirectory() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime && *runtime && access(runtime, W_OK) == 0) return std::string(runtime) + "/neoflow";
  return "/tmp/neoflow-" + std::to_string(getuid());
}

void initialise(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

enum class Wait { No, Forever, Until };

// 0, EOWNERDEAD (recovered), or EBUSY/ETIMEDOUT. `until` is wall-clock time: the one timed lock that ThreadSanitizer knows.
int lockRobust(pthread_mutex_t& mutex, Wait wait, const timespec& until = {}) {
  int code = 0;
  if (wait == Wait::No) code = pthread_mutex_trylock(&mutex);
  if (wait == Wait::Forever) code = pthread_mutex_lock(&mutex);
  if (wait == Wait::Until) code = pthread_mutex_timedlock(&mutex, &until);
  if (code == EOWNERDEAD) pthread_mutex_consistent(&mutex);
  NF_ASSERT(code == 0 || code == EOWNERDEAD || code == EBUSY || code == ETIMEDOUT);
  return code;
}

timespec wallClockIn(std::chrono::nanoseconds time) {
  const std::chrono::nanoseconds end = std::chrono::system_clock::now().time_since_epoch() + time;
  return {static_cast<time_t>(end.count() / 1000000000), static_cast<long>(end.count() % 1000000000)};
}

constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

std::int64_t monotonicNanoseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

}  // namespace

Result<std::unique_ptr<DeviceLease>> DeviceLease::open(const std::string& device, const std::string& directory) {
  const std::string folder = directory.empty() ? defaultDirectory() : directory;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), ignored);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return failed("cannot make the folder", folder);
  struct stat status;
  if (stat(folder.c_str(), &status) != 0 || status.st_uid != getuid() || !S_ISDIR(status.st_mode))
    return Error{"open device lease", "the folder " + folder + " belongs to somebody else", device, {}};
  std::string file = device;
  for (char& c : file)
    if (c == ':' || c == '/') c = '-';
  const std::string path = folder + "/lease-" + file;
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return failed("cannot open", path);
  // The file lock covers the first initialisation; a process that dies inside leaves `ready` unset for the next.
  flock(descriptor, LOCK_EX);
  void* memory = MAP_FAILED;
  if (ftruncate(descriptor, sizeof(Shared)) == 0)
    memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    Error error = failed("cannot map", path);
    flock(descriptor, LOCK_UN);
    close(descriptor);
    return error;
  }
  auto* shared = static_cast<Shared*>(memory);
  if (shared->ready != Shared::kReady) {
    initialise(shared->turnstile);
    initialise(shared->device);
    shared->ready = Shared::kReady;
  }
  flock(descriptor, LOCK_UN);  // the mapping keeps the open file, and so its lock, beyond close()
  close(descriptor);
  return std::unique_ptr<DeviceLease>(new DeviceLease(shared));
}

DeviceLease::~DeviceLease() { munmap(m_shared, sizeof(Shared)); }

DeviceLease::Hold& DeviceLease::Hold::operator=(Hold&& other) noexcept {
  if (this != &other) {
    release();
    m_lease = other.m_lease;
    other.m_lease = nullptr;
  }
  return *this;
}

void DeviceLease::Hold::release() {
  if (m_lease) m_lease->unlock();
  m_lease = nullptr;
}

DeviceLease::Hold DeviceLease::acquire() { return std::move(*acquireWithin(kForever)); }

std::optional<DeviceLease::Hold> DeviceLease::acquireWithin(std::chrono::nanoseconds atMost) {
  std::int64_t died = 0, start = 0;
  bool waited = false, held = false;
  const int turn = lockRobust(m_shared->turnstile, Wait::No);
  if (turn == 0 || turn == EOWNERDEAD) {
    died += turn == EOWNERDEAD;
    const int code = lockRobust(m_shared->device, Wait::No);
    if (code == 0 || code == EOWNERDEAD) {
      died += code == EOWNERDEAD;
      held = true;
      pthread_mutex_unlock(&m_shared->turnstile);
    }
  }
  if (!held) {
    waited = true;
    start = monotonicNanoseconds();
    const Wait wait = atMost == kForever ? Wait::Forever : Wait::Until;
    const timespec until = wait == Wait::Until ? wallClockIn(atMost) : timespec{};
    bool turnstile = turn != EBUSY;
    if (!turnstile) {
      const int code = lockRobust(m_shared->turnstile, wait, until);
      turnstile = code != ETIMEDOUT;
      died += code == EOWNERDEAD;
    }
    if (turnstile) {
      const int code = lockRobust(m_shared->device, wait, until);
      held = code != ETIMEDOUT;
      died += code == EOWNERDEAD;
      pthread_mutex_unlock(&m_shared->turnstile);
    }
  }
  const std::int64_t duration = waited ? monotonicNanoseconds() - start : 0;
  {
    const std::lock_guard lock(m_waitsMutex);
    m_waits.ownersDied += died;
    m_waits.count += waited;
    m_waits.totalNanoseconds += duration;
    m_waits.longestNanoseconds = std::max(m_waits.longestNanoseconds, duration);
  }
  if (!held) return std::nullopt;
  return Hold(this);
}

void DeviceLease::unlock() { pthread_mutex_unlock(&m_shared->device); }

DeviceLease::Waits DeviceLease::waits() const {
  const std::lock_guard lock(m_waitsMutex);
  return m_waits;
}

}  // namespace nf
