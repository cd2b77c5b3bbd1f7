// SPDX-License-Identifier: Apache-2.0
#include "core/ir/integer_set.h"

#include <isl/aff.h>
#include <isl/constraint.h>
#include <isl/ctx.h>
#include <isl/ilp.h>
#include <isl/local_space.h>
#include <isl/map.h>
#include <isl/options.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/val.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <iterator>
#include <list>
#include <mutex>
#include <stop_token>
#include <thread>

#include "core/support/assert.h"

namespace nf {

namespace {

using Nanoseconds = std::chrono::nanoseconds;

Nanoseconds nowOf(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return std::chrono::seconds(t.tv_sec) + Nanoseconds(t.tv_nsec);
}

// Ends what isl does for a context when its time is over: isl looks for that at every operation, but at no clock.
class Watch {
 public:
  struct Waiting {
    Deadline until;
    isl_ctx* ctx;
  };
  using Entry = std::list<Waiting>::iterator;

  static Watch& instance() {
    static Watch watch;
    return watch;
  }

  Entry add(Deadline until, isl_ctx* ctx) {
    const std::lock_guard lock(m_mutex);
    m_waiting.push_back({until, ctx});
    m_added = true;
    m_changed.notify_one();
    return std::prev(m_waiting.end());
  }

  void remove(Entry entry) {
    const std::lock_guard lock(m_mutex);
    m_waiting.erase(entry);
  }

 private:
  void run(std::stop_token stop) {
    std::unique_lock lock(m_mutex);
    while (!stop.stop_requested()) {
      Nanoseconds next = Nanoseconds::max();
      for (const Waiting& w : m_waiting) {
        const Nanoseconds left = w.until.left();
        if (left <= Nanoseconds::zero()) isl_ctx_abort(w.ctx);
        else next = std::min(next, left);
      }
      m_added = false;
      const auto added = [this] { return m_added; };
      if (next == Nanoseconds::max()) m_changed.wait(lock, stop, added);
      else m_changed.wait_for(lock, stop, next, added);
    }
  }

  std::mutex m_mutex;
  std::condition_variable_any m_changed;
  std::list<Waiting> m_waiting;
  bool m_added = false;
  std::jthread m_thread{[this](std::stop_token stop) { run(std::move(stop)); }};
};

}  // namespace

Deadline::Deadline(clockid_t clock, double milliseconds)
    : m_clock(clock),
      m_at(nowOf(clock) + std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double, std::milli>(milliseconds))) {}

Deadline Deadline::ofClock(double milliseconds) { return {CLOCK_MONOTONIC, milliseconds}; }

Deadline Deadline::ofProcessor(double milliseconds) {
  clockid_t clock{};
  return {pthread_getcpuclockid(pthread_self(), &clock) == 0 ? clock : CLOCK_MONOTONIC, milliseconds};
}

double processorMilliseconds() { return std::chrono::duration<double, std::milli>(nowOf(CLOCK_THREAD_CPUTIME_ID)).count(); }

std::chrono::nanoseconds Deadline::left() const { return m_at - nowOf(m_clock); }

struct IntegerContext::Impl {
  isl_ctx* ctx = nullptr;
  QuestionLimit limit;
  std::optional<Watch::Entry> watched;
  std::optional<std::stop_callback<std::function<void()>>> onStop;

  // isl counts from the reset; a question that runs out yields null or isl_bool_error and leaves an error behind.
  void beginQuestion() {
    isl_ctx_reset_error(ctx);
    isl_ctx_reset_operations(ctx);
    isl_ctx_set_max_operations(ctx, limit.operations);
    if (limit.isOver()) isl_ctx_abort(ctx);
  }
  // Building sets is cheap and must not fail half-way: it runs without a quota.
  void beginBuilding() {
    isl_ctx_reset_error(ctx);
    isl_ctx_set_max_operations(ctx, 0);
  }
};

IntegerContext::IntegerContext(QuestionLimit limit) : m_impl(std::make_unique<Impl>()) {
  m_impl->ctx = isl_ctx_alloc();
  m_impl->limit = limit;
  isl_options_set_on_error(m_impl->ctx, ISL_ON_ERROR_CONTINUE);
  if (limit.stop.stop_possible()) m_impl->onStop.emplace(limit.stop, [ctx = m_impl->ctx] { isl_ctx_abort(ctx); });
  if (limit.until) m_impl->watched = Watch::instance().add(*limit.until, m_impl->ctx);
}

IntegerContext::~IntegerContext() {
  m_impl->onStop.reset();  // one that runs is waited for
  if (m_impl->watched) Watch::instance().remove(*m_impl->watched);
  isl_ctx_free(m_impl->ctx);
}

struct IntegerSet::Impl {
  IntegerContext::Impl* context = nullptr;
  isl_set* set = nullptr;

  Impl(IntegerContext::Impl* c, isl_set* s) : context(c), set(s) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { isl_set_free(set); }
};

struct IntegerSetAccess {
  static isl_set* set(const IntegerSet& s) { return s.m_impl->set; }
};

namespace {

isl_aff* affine(isl_local_space* space, const IndexExpr& e) {
  isl_ctx* ctx = isl_local_space_get_ctx(space);
  isl_aff* sum = isl_aff_val_on_domain(isl_local_space_copy(space), isl_val_int_from_si(ctx, e.constant()));
  for (const IndexTerm& t : e.terms()) {
    isl_aff* term;
    if (t.atom.isFloorDiv()) {
      term = affine(space, *t.atom.numerator);
      term = isl_aff_scale_down_val(term, isl_val_int_from_si(ctx, t.atom.divisor));
      term = isl_aff_floor(term);
    } else {
      NF_ASSERT(t.atom.variable < static_cast<IndexVar>(isl_local_space_dim(space, isl_dim_set)));
      term = isl_aff_var_on_domain(isl_local_space_copy(space), isl_dim_set, t.atom.variable);
    }
    term = isl_aff_scale_val(term, isl_val_int_from_si(ctx, t.coefficient));
    sum = isl_aff_add(sum, term);
  }
  return sum;
}

isl_set* conditionSet(isl_local_space* space, const IndexCond& c) {
  switch (c.kind) {
    case IndexCond::Kind::GreaterEqualZero:
      return isl_set_from_basic_set(isl_aff_ge_basic_set(affine(space, c.expr), affine(space, IndexExpr(0))));
    case IndexCond::Kind::EqualZero: return isl_set_from_basic_set(isl_aff_zero_basic_set(affine(space, c.expr)));
    case IndexCond::Kind::Not: return isl_set_complement(conditionSet(space, c.operands[0]));
    case IndexCond::Kind::And: {
      isl_set* all = isl_set_universe(isl_local_space_get_space(space));
      for (const IndexCond& o : c.operands) all = isl_set_intersect(all, conditionSet(space, o));
      return all;
    }
    case IndexCond::Kind::Or: {
      isl_set* any = isl_set_empty(isl_local_space_get_space(space));
      for (const IndexCond& o : c.operands) any = isl_set_union(any, conditionSet(space, o));
      return any;
    }
  }
  return nullptr;
}

std::optional<bool> answer(isl_bool b) {
  if (b == isl_bool_error) return std::nullopt;
  return b == isl_bool_true;
}

std::optional<std::int64_t> integer(isl_val* value) {
  std::optional<std::int64_t> result;
  if (value && isl_val_is_int(value) == isl_bool_true && isl_val_n_abs_num_chunks(value, sizeof(std::int64_t)) <= 1) {
    const std::int64_t candidate = isl_val_get_num_si(value);
    if (isl_val_cmp_si(value, candidate) == 0) result = candidate;
  }
  isl_val_free(value);
  return result;
}

}  // namespace

IntegerSet::IntegerSet(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}
IntegerSet::IntegerSet(const IntegerSet& other)
    : m_impl(std::make_unique<Impl>(other.m_impl->context, isl_set_copy(other.m_impl->set))) {}
IntegerSet::IntegerSet(IntegerSet&&) noexcept = default;
IntegerSet& IntegerSet::operator=(IntegerSet other) {
  std::swap(m_impl, other.m_impl);
  return *this;
}
IntegerSet::~IntegerSet() = default;

IntegerSet IntegerSet::box(IntegerContext& context, std::span<const Range> ranges) {
  IntegerContext::Impl& impl = context.impl();
  impl.beginBuilding();
  isl_set* set = isl_set_universe(isl_space_set_alloc(impl.ctx, 0, static_cast<unsigned>(ranges.size())));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto dim = static_cast<unsigned>(i);
    set = isl_set_lower_bound_val(set, isl_dim_set, dim, isl_val_int_from_si(impl.ctx, ranges[i].lo));
    set = isl_set_upper_bound_val(set, isl_dim_set, dim, isl_val_int_from_si(impl.ctx, ranges[i].hi));
  }
  return IntegerSet(std::make_unique<Impl>(&impl, set));
}

IntegerSet IntegerSet::constrained(const IndexCond& condition) const {
  m_impl->context->beginQuestion();
  isl_local_space* space = isl_local_space_from_space(isl_set_get_space(m_impl->set));
  isl_set* set = space ? isl_set_intersect(isl_set_copy(m_impl->set), conditionSet(space, condition)) : nullptr;
  isl_local_space_free(space);
  return IntegerSet(std::make_unique<Impl>(m_impl->context, set));
}

std::optional<bool> IntegerSet::isEmpty() const {
  m_impl->context->beginQuestion();
  return answer(isl_set_is_empty(m_impl->set));
}

std::optional<bool> IntegerSet::isSubsetOf(const IntegerSet& other) const {
  m_impl->context->beginQuestion();
  return answer(isl_set_is_subset(m_impl->set, other.m_impl->set));
}

std::optional<bool> IntegerSet::isEqualTo(const IntegerSet& other) const {
  m_impl->context->beginQuestion();
  return answer(isl_set_is_equal(m_impl->set, other.m_impl->set));
}

std::optional<Range> IntegerSet::rangeOf(const IndexExpr& e) const {
  if (!m_impl->set || e.overflowed()) return std::nullopt;
  m_impl->context->beginQuestion();
  isl_local_space* space = isl_local_space_from_space(isl_set_get_space(m_impl->set));
  isl_aff* value = affine(space, e);
  isl_local_space_free(space);
  // isl_set_min_val takes affine forms without integer divisions; a floor becomes one more dimension of a graph.
  isl_map* graph = isl_map_intersect_domain(isl_map_from_aff(value), isl_set_copy(m_impl->set));
  isl_set* image = isl_map_range(graph);
  isl_aff* dimension = isl_aff_var_on_domain(isl_local_space_from_space(isl_set_get_space(image)), isl_dim_set, 0);
  const auto lo = integer(isl_set_min_val(image, dimension));
  const auto hi = integer(isl_set_max_val(image, dimension));
  isl_aff_free(dimension);
  isl_set_free(image);
  if (!lo || !hi) return std::nullopt;
  return Range{*lo, *hi};
}

namespace {

// { point -> images : point in `from` }
isl_map* functionOn(isl_set* from, std::span<const IndexExpr> images) {
  isl_ctx* ctx = isl_set_get_ctx(from);
  isl_local_space* space = isl_local_space_from_space(isl_set_get_space(from));
  isl_space* range = isl_space_set_alloc(ctx, 0, static_cast<unsigned>(images.size()));
  isl_aff_list* list = isl_aff_list_alloc(ctx, static_cast<int>(images.size()));
  for (const IndexExpr& e : images) list = isl_aff_list_add(list, affine(space, e));
  isl_local_space_free(space);
  isl_multi_aff* function = isl_multi_aff_from_aff_list(isl_space_map_from_domain_and_range(isl_set_get_space(from), range), list);
  return isl_map_intersect_domain(isl_map_from_multi_aff(function), isl_set_copy(from));
}

}  // namespace

std::optional<bool> IntegerContext::isBijectionOnto(const IntegerSet& domain, std::span<const IndexExpr> images,
                                                    const IntegerSet& expected) {
  isl_set* from = IntegerSetAccess::set(domain);
  isl_set* onto = IntegerSetAccess::set(expected);
  if (!from || !onto) return std::nullopt;
  m_impl->beginQuestion();
  isl_map* map = functionOn(from, images);
  const auto injective = answer(isl_map_is_injective(map));
  std::optional<bool> equal;
  if (injective && *injective) {
    isl_set* image = isl_map_range(isl_map_copy(map));
    equal = answer(isl_set_is_equal(image, onto));
    isl_set_free(image);
  }
  isl_map_free(map);
  if (!injective) return std::nullopt;
  if (!*injective) return false;
  return equal;
}

std::optional<bool> IntegerContext::areInverse(const IntegerSet& domain, std::span<const IndexExpr> images, const IntegerSet& range,
                                               std::span<const IndexExpr> preimages) {
  isl_set* from = IntegerSetAccess::set(domain);
  isl_set* onto = IntegerSetAccess::set(range);
  if (!from || !onto) return std::nullopt;
  m_impl->beginQuestion();
  isl_map* forth = functionOn(from, images);
  isl_map* back = isl_map_reverse(functionOn(onto, preimages));
  const auto equal = answer(isl_map_is_equal(forth, back));
  isl_map_free(forth);
  isl_map_free(back);
  return equal;
}

}  // namespace nf
