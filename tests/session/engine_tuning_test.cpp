// SPDX-License-Identifier: Apache-2.0
// Kernels of the engine, in its own process: their texts, knobs, trials and records.
#include <gmock/gmock.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "core/document/document.h"
#include "core/runtime/data_file.h"
#include "tests/session/engine_jobs.h"
#include "tests/session/engine_process.h"

namespace nf {
namespace {

using namespace protocol;

TEST_F(EngineJobs, KernelsShowTheirTextsAndKnobsAreMeasured) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto subgraphs = engine.ask<Subgraphs>(SubgraphsRequest{1});
  ASSERT_FALSE(subgraphs.subgraphs.empty());
  std::set<std::string> kinds;
  for (const SubgraphInfo& s : subgraphs.subgraphs) {
    SCOPED_TRACE(s.name);
    EXPECT_FALSE(s.kind.empty());
    EXPECT_FALSE(s.operators.empty());
    kinds.insert(s.kind);
  }
  EXPECT_GT(kinds.size(), 1u) << "a contraction and others";
  const SubgraphInfo chosen = *std::max_element(subgraphs.subgraphs.begin(), subgraphs.subgraphs.end(),
                                                [](const auto& a, const auto& b) { return a.flops < b.flops; });

  const auto kernel = engine.ask<Kernel>(KernelRequest{chosen.id, {}, {}});
  EXPECT_EQ(kernel.subgraph, chosen.id);
  EXPECT_FALSE(kernel.expression.empty());
  std::set<std::string> languages;
  for (const KernelTextInfo& text : kernel.texts) {
    SCOPED_TRACE(text.language);
    languages.insert(text.language);
    EXPECT_FALSE(text.text.empty());
    EXPECT_TRUE(std::any_of(text.lineOrigins.begin(), text.lineOrigins.end(), [](const Origins& o) { return !o.empty(); }))
        << "no line leads back to the source";
  }
  EXPECT_EQ(languages, (std::set<std::string>{"asm", "llvm", "loops"}));
  const auto one = engine.ask<Kernel>(KernelRequest{chosen.id, {}, {"loops"}});
  ASSERT_EQ(one.texts.size(), 1u);
  EXPECT_EQ(engine.ask<Failed>(KernelRequest{"0123", {}, {}}).stage, "revision");
  EXPECT_EQ(engine.ask<Failed>(KernelRequest{chosen.id, 7, {}}).stage, "kernel") << "there is no trial yet";

  const auto space = engine.ask<Space>(SpaceRequest{chosen.id});
  EXPECT_EQ(space.kind, chosen.kind);
  ASSERT_FALSE(space.knobs.empty());
  const auto measured = engine.ask<TrialMeasured>(MeasureRequest{chosen.id, space.current});
  EXPECT_EQ(measured.trial.status, TrialStatus::Ok) << measured.trial.how;
  ASSERT_TRUE(measured.trial.us);
  EXPECT_GT(*measured.trial.us, 0);
  EXPECT_LE(*measured.trial.lowUs, *measured.trial.us);
  EXPECT_GE(*measured.trial.highUs, *measured.trial.us);
  // What stands beside a value is what measuring it says.
  EXPECT_EQ(space.at, space.current);
  EXPECT_EQ(space.ruledOut, "");
  for (const protocol::KnobInfo& knob : space.knobs) {
    ASSERT_EQ(knob.ruledOut.size(), knob.values.size()) << knob.name;
    auto turned = nlohmann::json::parse(space.current.text);
    turned["knobs"][knob.name] = nlohmann::json::parse(knob.values.back().text);
    EXPECT_EQ(engine.ask<Space>(SpaceRequest{chosen.id, JsonText{turned.dump()}}).ruledOut, knob.ruledOut.back()) << turned;
  }
  for (const protocol::KnobInfo& knob : space.knobs) {
    if (knob.values.size() < 2) continue;
    auto json = nlohmann::json::parse(space.current.text);
    json["knobs"][knob.name] = nlohmann::json::parse(knob.values.back().text);
    if (json == nlohmann::json::parse(space.current.text)) continue;
    const RequestId id = engine.newId();
    engine.send(MeasureRequest{chosen.id, {json.dump()}}, id);
    const Envelope e = engine.awaitThat([id](const Envelope& m) { return m.id == id; });
    // A knob that can't be turned alone is refused with the reason.
    if (const auto* turned = std::get_if<TrialMeasured>(&e.message))
      EXPECT_TRUE(turned->trial.status == TrialStatus::Ok || turned->trial.status == TrialStatus::Slow) << turned->trial.how;
    else EXPECT_TRUE(std::holds_alternative<Failed>(e.message));
  }
  auto illegal = nlohmann::json::parse(space.current.text);
  illegal["knobs"] = {{"no such knob", -1}};
  engine.ask<Failed>(MeasureRequest{chosen.id, {illegal.dump()}});
  engine.ask<Failed>(MeasureRequest{chosen.id, {"[]"}});

  const auto trials = engine.ask<Trials>(TrialsRequest{chosen.id, 0, 5000});
  ASSERT_EQ(trials.total, trials.trials.size());
  ASSERT_GE(trials.total, 1u);
  EXPECT_EQ(trials.trials[0], measured.trial);
  EXPECT_EQ(engine.ask<Trials>(TrialsRequest{chosen.id, 99, 5000}).trials.size(), 0u);
  EXPECT_FALSE(engine.ask<Kernel>(KernelRequest{chosen.id, 0, {"asm"}}).texts.empty());
}

// What a call makes on the way has no name in the text.
TEST_F(EngineJobs, TheLineUnderACellIsOfWhatTheTextNames) {
  EngineProcess engine(m_folder.path(""));
  const Analysis analysis = engine.document(
      "# %%\ndef rec(x[N, M]) -> y {\n  s[a: N, b: M] = 0\n  for t in 0..3 { s[a, b] = tanh(s[a, b] + x[a, b]) }\n"
      "  y[a, b] = s[a, b] * 2 }\ninput X[8, 10] = normal(0, 1)\n# %%\nP = rec(X)\nQ = rec(P)\n# %%\nshow Q\n");
  ASSERT_EQ(analysis.cells.size(), 3u);
  EXPECT_TRUE(analysis.cells[1].summary.starts_with("Q  f32 [8, 10]")) << analysis.cells[1].summary;
}

// Before anything was tried a profile is of the first kernels, and says so.
TEST_F(EngineJobs, AProfileTellsWhichKernelsItTimed) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto profile = engine.ask<Profile>(ProfileRequest{1, 3});
  ASSERT_FALSE(profile.kernels.empty());
  for (const KernelTimeInfo& k : profile.kernels) {
    ASSERT_TRUE(k.made) << k.name;
    EXPECT_EQ(k.made->schedule, engine.ask<Space>(SpaceRequest{k.subgraph}).current) << k.name;
    EXPECT_FALSE(k.made->quick) << k.name;
  }
}

// What earlier runs have tried is shown before anything runs, and a trial of it can be measured once more.
TEST_F(EngineJobs, TrialsOnRecordAreShownByTheNextEngine) {
  std::map<std::string, std::set<std::string>> tried;
  {
    EngineProcess engine(m_folder.path(""));
    engine.document(kDigits);
    const RequestId id = engine.newId();
    engine.send(train(1'000'000'000), id);
    const auto timed = [](const TrialEvent& e) { return e.us && e.status == TrialStatus::Ok; };
    const Envelope first = engine.awaitThat([&](const Envelope& e) {
      const auto* trial = std::get_if<TrialEvent>(&e.message);
      return trial && timed(*trial);
    });
    engine.send(StopRequest{});
    engine.await<DoneEvent>();
    engine.await<Finished>(id);
    const auto& trial = std::get<TrialEvent>(first.message);
    tried[trial.subgraph].insert(trial.schedule.text);
    for (const TrialEvent& e : engine.passed<TrialEvent>())
      if (timed(e)) tried[e.subgraph].insert(e.schedule.text);
  }
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  std::map<std::string, SubgraphInfo> now;
  for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs) now[s.id] = s;
  std::optional<std::pair<std::string, TrialInfo>> chosen;
  for (const auto& [subgraph, schedules] : tried) {
    if (!now.contains(subgraph)) continue;  // its fusion was undone
    SCOPED_TRACE(now[subgraph].name);
    EXPECT_TRUE(now[subgraph].us && now[subgraph].firstUs);
    EXPECT_EQ(now[subgraph].budgetShare, 0);
    std::set<std::string> known;
    for (const TrialInfo& t : engine.ask<Trials>(TrialsRequest{subgraph, 0, 5000}).trials) {
      known.insert(t.schedule.text);
      EXPECT_TRUE(t.how.ends_with("on record")) << t.how;
      if (t.generation > 0) { EXPECT_GT(t.how.size(), std::string("on record").size()) << "how it came about is on record, too"; }
      if (t.us) chosen = {subgraph, t};
    }
    for (const std::string& s : schedules) EXPECT_TRUE(known.contains(s)) << s;
  }
  ASSERT_TRUE(chosen);
  const auto total = engine.ask<Trials>(TrialsRequest{chosen->first, 0, 5000}).total;
  const auto again = engine.ask<TrialMeasured>(MeasureRequest{chosen->first, chosen->second.schedule, chosen->second.number}).trial;
  EXPECT_EQ(again.number, chosen->second.number);
  EXPECT_EQ(again.generation, chosen->second.generation);
  EXPECT_EQ(again.schedule, chosen->second.schedule);
  EXPECT_TRUE(again.how.starts_with("replay of c")) << again.how;
  EXPECT_TRUE(again.us) << again.how;
  // It is no trial of its own: there are as many as before, and the one that it repeats tells of it.
  const auto trials = engine.ask<Trials>(TrialsRequest{chosen->first, 0, 5000});
  EXPECT_EQ(trials.total, total);
  EXPECT_EQ(trials.trials[chosen->second.number].us, chosen->second.us);
  const std::string& told = trials.trials[chosen->second.number].how;
  EXPECT_NE(told.find("; replayed: "), std::string::npos) << told;
  const std::string figure = told.substr(told.find("replayed: ") + 10);
  EXPECT_THAT(figure, testing::MatchesRegex("[0-9.]+ (n|µ|m)s")) << told;
  // So is one by hand that turns no knob, however its schedule is written.
  const auto untouched =
      engine.ask<TrialMeasured>(MeasureRequest{chosen->first, {nlohmann::json::parse(chosen->second.schedule.text).dump(1)}, {}})
          .trial;
  EXPECT_EQ(untouched.number, chosen->second.number);
  EXPECT_TRUE(untouched.how.starts_with("replay of c")) << untouched.how;
  const auto twice = engine.ask<Trials>(TrialsRequest{chosen->first, 0, 5000});
  EXPECT_EQ(twice.total, total);
  EXPECT_TRUE(twice.trials[chosen->second.number].how.starts_with(told + ", ")) << twice.trials[chosen->second.number].how;
  // Another one by hand belongs to the newest generation and is counted by the list of kernels as by the trials.
  std::optional<TrialInfo> byHand;
  for (const protocol::KnobInfo& knob : engine.ask<Space>(SpaceRequest{chosen->first}).knobs)
    for (const JsonText& value : knob.values) {
      auto json = nlohmann::json::parse(chosen->second.schedule.text);
      json["knobs"][knob.name] = nlohmann::json::parse(value.text);
      const bool known = std::any_of(trials.trials.begin(), trials.trials.end(), [&](const TrialInfo& t) {
        return nlohmann::json::parse(t.schedule.text)["knobs"] == json["knobs"];
      });
      if (byHand || known) continue;
      const RequestId id = engine.newId();
      engine.send(MeasureRequest{chosen->first, {json.dump()}, {}, chosen->second.number}, id);
      const Envelope e = engine.awaitThat([id](const Envelope& m) { return m.id == id; });
      if (const auto* turned = std::get_if<TrialMeasured>(&e.message)) byHand = turned->trial;
    }
  ASSERT_TRUE(byHand) << "no knob can be turned alone";
  EXPECT_EQ(byHand->number, total);
  EXPECT_EQ(byHand->parents, std::vector{chosen->second.number}) << "the one whose knob was turned";
  for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs)
    if (s.id == chosen->first) { EXPECT_EQ(static_cast<std::uint64_t>(s.trials), total + 1); }
  // Another engine has it from the record, by the same figure.
  if (!byHand->us) return;
  EngineProcess other(m_folder.path(""));
  other.document(kDigits);
  const auto kept = other.ask<Trials>(TrialsRequest{chosen->first, 0, 5000}).trials;
  const auto same =
      std::find_if(kept.begin(), kept.end(), [&](const TrialInfo& t) { return t.schedule.text == byHand->schedule.text; });
  ASSERT_NE(same, kept.end());
  EXPECT_EQ(same->us, byHand->us);
  EXPECT_EQ(same->generation, byHand->generation);
  EXPECT_EQ(same->how, "by hand, on record");
  ASSERT_EQ(same->parents.size(), 1u);
  EXPECT_EQ(kept.at(same->parents.front()).schedule, chosen->second.schedule);
}

// Of a notebook with a file: its trials, what it ran with and how its time was shared, although the engine that knew them is gone.
TEST_F(EngineJobs, TheTrialsOfARunOutliveTheirEngine) {
  std::ofstream(m_folder.path("test.nf")) << kDigits;
  struct Shown {
    std::map<std::string, std::tuple<std::optional<double>, TrialStatus, std::int64_t, std::string>> trials;
    std::string inUse;
    std::optional<double> us, firstUs;
    bool operator==(const Shown&) const = default;
  };
  double share = 0;
  const auto shown = [&](EngineProcess& engine) {
    std::map<std::string, Shown> all;
    share = 0;
    for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs) {
      Shown& one = all[s.id];
      one.inUse = s.inUse.text;
      one.us = s.us;
      one.firstUs = s.firstUs;
      share += s.budgetShare;
      for (const TrialInfo& t : engine.ask<Trials>(TrialsRequest{s.id, 0, 5000}).trials)
        one.trials[t.schedule.text] = {t.us, t.status, t.generation, t.how};
    }
    return all;
  };
  std::map<std::string, Shown> before;
  {
    EngineProcess engine(m_folder.path(""));
    engine.document(kDigits);
    const RequestId id = engine.newId();
    engine.send(train(1'000'000'000), id);
    int timed = 0;
    engine.awaitThat([&](const Envelope& e) {
      const auto* trial = std::get_if<TrialEvent>(&e.message);
      return trial && trial->us && ++timed >= 6;
    });
    engine.send(StopRequest{});
    engine.await<DoneEvent>();
    engine.await<Finished>(id);
    before = shown(engine);
    engine.kill();
  }
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto after = shown(engine);
  EXPECT_GT(share, 0) << "of the trials that the run made";
  ASSERT_EQ(after.size(), before.size());
  bool used = false;
  for (const auto& [subgraph, was] : before) {
    SCOPED_TRACE(subgraph);
    EXPECT_TRUE(after.at(subgraph) == was);
    EXPECT_EQ(after.at(subgraph).trials, was.trials);
    EXPECT_EQ(after.at(subgraph).inUse, was.inUse);
    used = used || !was.inUse.empty();
  }
  EXPECT_TRUE(used);
}

// Rows, trials and records tell the same: what runs and its time, how many trials there are, what the first kernel was and each one's
// name, in the run, after the engine's end and in the next run.
TEST_F(EngineJobs, TheFirstKernelAndTheNamesOfTrialsStayFromRunToRun) {
  std::ofstream(m_folder.path("test.nf")) << kDigits;
  struct Kernel {
    SubgraphInfo row;
    std::vector<TrialInfo> trials;
  };
  const auto kernels = [](EngineProcess& engine) {
    std::map<std::string, Kernel> all;
    for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs)
      all[s.id] = {s, engine.ask<Trials>(TrialsRequest{s.id, 0, 5000}).trials};
    return all;
  };
  const auto trainUntil = [&](EngineProcess& engine, int trials) {
    const RequestId id = engine.newId();
    engine.send(train(1'000'000'000), id);
    const Envelope last = engine.awaitThat([&](const Envelope& e) {
      const auto* trial = std::get_if<TrialEvent>(&e.message);
      return trial && trial->us && --trials <= 0;
    });
    engine.send(StopRequest{});
    engine.await<DoneEvent>();
    engine.await<Finished>(id);
    return std::get<TrialEvent>(last.message);
  };
  const auto agree = [](const std::map<std::string, Kernel>& all) {
    for (const auto& [id, k] : all) {
      SCOPED_TRACE(k.row.name);
      const auto timed = [](const TrialInfo& t) { return t.us || t.status != TrialStatus::Ok; };
      EXPECT_EQ(k.row.trials, std::count_if(k.trials.begin(), k.trials.end(), timed));
      if (k.row.inUse == JsonText{} || !k.row.us) continue;
      EXPECT_TRUE(std::any_of(k.trials.begin(), k.trials.end(),
                              [&](const TrialInfo& t) { return t.schedule == k.row.inUse && t.us == k.row.us; }))
          << *k.row.us << " is no time of the kernel in use";
    }
  };
  std::map<std::string, Kernel> run;
  {
    EngineProcess engine(m_folder.path(""));
    engine.document(kDigits);
    const TrialEvent awaited = trainUntil(engine, 12);
    run = kernels(engine);
    agree(run);
    std::map<std::string, std::int64_t> counted{{awaited.subgraph, awaited.counted}};
    for (const TrialEvent& e : engine.passed<TrialEvent>()) counted[e.subgraph] += e.counted;
    for (const auto& [id, k] : run) EXPECT_EQ(k.row.trials, counted[id]) << k.row.name;
    engine.kill();
  }
  const auto same = [&](const std::map<std::string, Kernel>& now) {
    int known = 0;
    for (const auto& [id, k] : run) {
      if (!now.contains(id)) continue;  // its fusion was undone
      SCOPED_TRACE(k.row.name);
      EXPECT_EQ(now.at(id).row.firstUs, k.row.firstUs);
      ASSERT_GE(now.at(id).trials.size(), k.trials.size());
      for (std::size_t i = 0; i < k.trials.size(); ++i) {
        if (!k.trials[i].us) continue;
        EXPECT_EQ(now.at(id).trials[i].schedule, k.trials[i].schedule) << "number " << i;
        EXPECT_EQ(now.at(id).trials[i].generation, k.trials[i].generation) << "number " << i;
        ++known;
      }
    }
    EXPECT_GT(known, 0);
  };
  {
    EngineProcess engine(m_folder.path(""));
    engine.document(kDigits);
    const auto restored = kernels(engine);
    agree(restored);
    same(restored);
    for (const auto& [id, k] : run) EXPECT_EQ(restored.at(id).row.us, k.row.us) << k.row.name;
    const TrialEvent awaited = trainUntil(engine, 6);
    const auto again = kernels(engine);
    agree(again);
    same(again);
    std::map<std::string, std::int64_t> counted{{awaited.subgraph, awaited.counted}};
    for (const TrialEvent& e : engine.passed<TrialEvent>()) counted[e.subgraph] += e.counted;
    for (const auto& [id, k] : again)
      EXPECT_EQ(k.row.budgetShare > 0, counted[id] > 0)
          << k.row.name << ": one on record that is tried again is a trial of the run";
    engine.kill();
  }
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto last = kernels(engine);
  agree(last);
  same(last);
}

// However trainings and searches take turns: the next engine has the same trials, in the same number and with the same times.
TEST_F(EngineJobs, TrialsAreTheSameAfterTrainingsSearchesAndARestart) {
  const std::string text =
      "param V[24, 24] = normal(0, 0.5)\nparam P[32, 24] = normal(0, 1)\nz[n, j] = tanh(sum[m] P[n, m] * V[m, j])\n"
      "loss L = mean[n, j] (z[n, j] - 0.5)^2\ntrain L { steps = 1000000000; optimizer = adam(lr=1e-3) }\n";
  std::ofstream(m_folder.path("test.nf")) << text;
  struct Kernel {
    std::optional<double> us, firstUs;
    std::int64_t count = 0;
    std::map<std::pair<std::string, std::optional<double>>, std::int64_t> trials;  // generation by schedule and time
    bool operator==(const Kernel&) const = default;
  };
  const auto kernels = [](EngineProcess& engine) {
    std::map<std::string, Kernel> all;
    for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs) {
      Kernel& k = all[s.name + " " + s.id];
      k = {s.us, s.firstUs, s.trials, {}};
      for (const TrialInfo& t : engine.ask<Trials>(TrialsRequest{s.id, 0, 5000}).trials)
        if (t.us || t.status != TrialStatus::Ok) k.trials[{t.schedule.text, t.us}] = t.generation;
      EXPECT_EQ(static_cast<std::size_t>(k.count), k.trials.size()) << s.name;
    }
    return all;
  };
  const auto trainUntil = [](EngineProcess& engine, int trials) {
    const RequestId id = engine.newId();
    engine.send(TrainRequest{.revision = 1, .cell = 0, .steps = 1'000'000'000}, id);
    engine.awaitThat([&](const Envelope& e) {
      const auto* trial = std::get_if<TrialEvent>(&e.message);
      return trial && trial->us && --trials <= 0;
    });
    engine.send(StopRequest{});
    engine.await<DoneEvent>();
    engine.await<Finished>(id);
  };
  const auto tune = [](EngineProcess& engine, std::int64_t trials) {
    engine.ask<Finished>(TuneRequest{.revision = 1, .trials = trials});
  };
  const auto restarted = [&](const std::map<std::string, Kernel>& before, const char* when) {
    SCOPED_TRACE(when);
    EngineProcess engine(m_folder.path(""));
    engine.document(text);
    const auto after = kernels(engine);
    ASSERT_EQ(after.size(), before.size());
    for (const auto& [name, was] : before) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(after.contains(name));
      EXPECT_EQ(after.at(name).us, was.us);
      EXPECT_EQ(after.at(name).firstUs, was.firstUs);
      EXPECT_EQ(after.at(name).count, was.count);
      EXPECT_EQ(after.at(name).trials, was.trials);
    }
    engine.kill();
  };
  std::map<std::string, Kernel> before;
  const auto session = [&](const char* when, const std::function<void(EngineProcess&)>& work) {
    EngineProcess engine(m_folder.path(""));
    engine.document(text);
    work(engine);
    before = kernels(engine);
    engine.kill();
    restarted(before, when);
  };
  session("trained", [&](EngineProcess& engine) { trainUntil(engine, 8); });
  session("tuned", [&](EngineProcess& engine) { tune(engine, 12); });
  session("trained and tuned", [&](EngineProcess& engine) {
    trainUntil(engine, 8);
    tune(engine, 12);
  });
  session("tuned and trained", [&](EngineProcess& engine) {
    tune(engine, 6);
    trainUntil(engine, 8);
    tune(engine, 6);
  });
}

// A run whose first kernel is one that a search has bred before: its events call it first, the record knows how it came about.
TEST_F(EngineJobs, AFirstKernelKeepsTheGenerationThatBredIt) {
  std::ofstream(m_folder.path("test.nf")) << kDigits;
  TrialEvent bred;
  {
    EngineProcess engine(m_folder.path(""));
    engine.document(kDigits);
    const RequestId id = engine.newId();
    engine.send(train(1'000'000'000), id);
    const Envelope found = engine.awaitThat([](const Envelope& e) {
      const auto* t = std::get_if<TrialEvent>(&e.message);
      return t && t->us && t->status == TrialStatus::Ok && t->generation > 0;
    });
    bred = std::get<TrialEvent>(found.message);
    engine.send(StopRequest{});
    engine.await<DoneEvent>();
    engine.await<Finished>(id);
    engine.kill();
  }
  int runs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(m_folder.path("test.nf.out"))) {
    if (entry.path().filename() != "events.jsonl") continue;
    TrialEvent first = bred;
    first.generation = 0, first.how = "first, compiled with full effort", first.parents.clear();
    std::ofstream(entry.path(), std::ios::trunc) << encode(first) << "\n";
    ++runs;
  }
  ASSERT_EQ(runs, 1);
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  engine.ask<Subgraphs>(SubgraphsRequest{1});
  int same = 0;
  for (const TrialInfo& t : engine.ask<Trials>(TrialsRequest{bred.subgraph, 0, 5000}).trials) {
    if (t.schedule != bred.schedule) continue;
    ++same;
    EXPECT_EQ(t.generation, bred.generation);
    EXPECT_FALSE(t.how.starts_with("first")) << t.how;
  }
  EXPECT_EQ(same, 1);
}

// One kernel has one time wherever it is shown, and a pinned one that was never measured has none.
TEST_F(EngineJobs, APinnedKernelThatWasNotMeasuredHasNoTime) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto subgraphs = engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs;
  const SubgraphInfo chosen =
      *std::max_element(subgraphs.begin(), subgraphs.end(), [](const auto& a, const auto& b) { return a.flops < b.flops; });
  const auto space = engine.ask<Space>(SpaceRequest{chosen.id});
  ASSERT_TRUE(engine.ask<TrialMeasured>(MeasureRequest{chosen.id, space.current}).trial.us);
  const auto first = nlohmann::json::parse(space.current.text);
  std::optional<nlohmann::json> other;
  for (const protocol::KnobInfo& knob : space.knobs)
    for (std::size_t i = 0; i < knob.values.size() && !other; ++i) {
      auto turned = first;
      turned["knobs"][knob.name] = nlohmann::json::parse(knob.values[i].text);
      if (turned != first && knob.ruledOut[i].empty()) other = std::move(turned);
    }
  ASSERT_TRUE(other);
  const auto rowOf = [&](std::uint64_t revision) {
    for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{revision}).subgraphs)
      if (s.id == chosen.id) return s;
    return SubgraphInfo{};
  };
  EXPECT_TRUE(rowOf(1).us);
  EXPECT_EQ(engine.ask<Kernel>(KernelRequest{chosen.id, {}, {"loops"}}).us, rowOf(1).us);
  engine.document(std::string(kDigits) + "hint schedule " + chosen.pinTensor + " " + other->dump() + "\n", 2);
  ASSERT_EQ(rowOf(2).state, SubgraphState::Pinned);
  EXPECT_FALSE(rowOf(2).us);
  const auto kernel = engine.ask<Kernel>(KernelRequest{chosen.id, {}, {"loops"}});
  EXPECT_EQ(nlohmann::json::parse(kernel.schedule.text), *other);
  EXPECT_FALSE(kernel.us) << *kernel.us;
}

TEST_F(EngineJobs, TuningIsOfWhatIsAskedFor) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto subgraphs = engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs;
  const SubgraphInfo chosen =
      *std::max_element(subgraphs.begin(), subgraphs.end(), [](const auto& a, const auto& b) { return a.flops < b.flops; });
  const RequestId id = engine.newId();
  TuneRequest request;
  request.revision = 1;
  request.subgraphs = {chosen.id};
  request.trials = 6;
  engine.send(request, id);
  engine.await<Finished>(id);
  const auto trials = engine.passed<TrialEvent>();
  EXPECT_GE(trials.size(), 2u);
  for (const TrialEvent& e : trials) EXPECT_EQ(e.subgraph, chosen.id);
  std::set<std::uint64_t> numbers;
  for (const TrialEvent& e : trials) numbers.insert(e.number);
  const auto before = engine.ask<Trials>(TrialsRequest{chosen.id, 0, 100}).trials;
  EXPECT_EQ(before.size(), numbers.size());
  // Another search begins with what this one has found, which stays the trial that it was.
  engine.ask<Finished>(request);
  const auto after = engine.ask<Trials>(TrialsRequest{chosen.id, 0, 100}).trials;
  ASSERT_GE(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].schedule, before[i].schedule) << i;
    EXPECT_EQ(after[i].generation, before[i].generation) << i;
    EXPECT_EQ(after[i].how, before[i].how) << i;
    EXPECT_TRUE(!before[i].us || after[i].us == before[i].us) << i << ", " << before[i].how;
  }
  std::map<std::string, int> times;
  for (const TrialInfo& t : after) ++times[t.schedule.text];
  for (const auto& [schedule, count] : times)
    EXPECT_LE(count, schedule == before.front().schedule.text ? 2 : 1) << "the first alone is tried quickly and in full";
  // An unknown one is told, and all are searched until a cancel.
  request.subgraphs = {"0123"};
  EXPECT_EQ(engine.ask<Failed>(request).stage, "tune");
  request.subgraphs = {};
  request.trials = 1'000'000;
  const RequestId all = engine.newId();
  engine.send(request, all);
  engine.await<TrialEvent>();
  engine.send(Cancel{all});
  engine.await<Cancelled>(all);
  // Fused kernels against their parts come first, each with its name and how many there are.
  const auto states = engine.passed<RunState>();
  EXPECT_TRUE(std::any_of(states.begin(), states.end(), [](const RunState& s) {
    return s.phase == RunPhase::Tuning && s.detail.starts_with("fused kernel 1 of ") &&
           s.detail.find(" against its parts: ") != std::string::npos;
  }));
  // Who is told that it is over finds nothing searching; and one rule says what is faster than the first kernel.
  const auto idle = [&] { return engine.await<RunState>().phase == RunPhase::Idle; };
  while (!idle()) {}
  for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs) {
    EXPECT_NE(s.state, SubgraphState::Searching) << s.name;
    if (!s.us || !s.firstUs || *s.us == *s.firstUs) continue;
    const auto list = engine.ask<Trials>(TrialsRequest{s.id, 0, 10000}).trials;
    const auto first =
        std::find_if(list.begin(), list.end(), [](const TrialInfo& t) { return t.us && t.status == TrialStatus::Ok; });
    ASSERT_NE(first, list.end());
    EXPECT_EQ(*s.firstUs, *first->us);
    const auto shown = std::ranges::find_if(list, [&](const TrialInfo& t) { return t.number == s.trial; });
    ASSERT_NE(shown, list.end());
    // The first one with full effort is that kernel still. Of others turns decide, whatever a busy machine made of the first one's time.
    if (shown->schedule == first->schedule) {
      EXPECT_EQ(s.generation, 0);
    } else {
      EXPECT_TRUE(shown->won) << s.name;
      EXPECT_LT(*shown->us, shown->besideUs.value_or(0));
    }
  }
}

TEST_F(EngineJobs, APinnedScheduleIsUsedAndLeftAlone) {
  EngineProcess engine(m_folder.path(""));
  engine.document(kDigits);
  const auto subgraphs = engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs;
  const SubgraphInfo chosen =
      *std::max_element(subgraphs.begin(), subgraphs.end(), [](const auto& a, const auto& b) { return a.flops < b.flops; });
  EXPECT_NE(chosen.state, SubgraphState::Pinned);
  ASSERT_FALSE(chosen.pinTensor.empty());
  const auto space = engine.ask<Space>(SpaceRequest{chosen.id});
  const auto first = nlohmann::json::parse(space.current.text);
  auto pinned = first;
  // Knobs depend on one another: one that can be turned alone.
  for (const protocol::KnobInfo& knob : space.knobs)
    for (const JsonText& value : knob.values) {
      auto turned = first;
      turned["knobs"][knob.name] = nlohmann::json::parse(value.text);
      if (pinned != first || turned == first) continue;
      const RequestId id = engine.newId();
      engine.send(MeasureRequest{chosen.id, {turned.dump()}}, id);
      const Envelope e = engine.awaitThat([id](const Envelope& m) { return m.id == id; });
      const auto* measured = std::get_if<TrialMeasured>(&e.message);
      if (measured && (measured->trial.status == TrialStatus::Ok || measured->trial.status == TrialStatus::Slow)) pinned = turned;
    }
  ASSERT_NE(pinned, first);
  engine.document(std::string(kDigits) + "hint schedule " + chosen.pinTensor + " " + pinned.dump() + "\n", 2);
  const auto after = engine.ask<Subgraphs>(SubgraphsRequest{2}).subgraphs;
  for (const SubgraphInfo& s : after) EXPECT_EQ(s.state == SubgraphState::Pinned, s.id == chosen.id) << s.name;
  // Its time is that of what was pinned, not of the best that was tried.
  for (const SubgraphInfo& s : after)
    if (s.id == chosen.id)
      for (const TrialInfo& t : engine.ask<Trials>(TrialsRequest{chosen.id}).trials)
        if (t.us && nlohmann::json::parse(t.schedule.text) == pinned) { EXPECT_EQ(s.us, t.us); }
  EXPECT_EQ(nlohmann::json::parse(engine.ask<Space>(SpaceRequest{chosen.id}).current.text), pinned);
  const RequestId id = engine.newId();
  auto request = train(0);
  request.revision = 2;
  engine.send(request, id);
  engine.await<DoneEvent>();
  engine.await<Finished>(id);
  bool used = false;
  for (const TrialEvent& e : engine.passed<TrialEvent>()) {
    if (e.subgraph != chosen.id) continue;
    used = true;
    EXPECT_EQ(nlohmann::json::parse(e.schedule.text), pinned);
  }
  EXPECT_TRUE(used);
  // The trial by hand is the one that the run has timed: it keeps its name, and the row has its figure.
  std::vector<TrialInfo> own;
  for (const TrialInfo& t : engine.ask<Trials>(TrialsRequest{chosen.id}).trials)
    if (nlohmann::json::parse(t.schedule.text) == pinned) own.push_back(t);
  ASSERT_EQ(own.size(), 1u);
  EXPECT_TRUE(own[0].how.starts_with("by hand")) << own[0].how;
  for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{2}).subgraphs)
    if (s.id == chosen.id) {
      EXPECT_EQ(s.us, own[0].us);
      EXPECT_EQ(s.inUse, own[0].schedule);
    }

  // One that the kernel can't have is a mistake that is told, not passed over.
  engine.document(std::string(kDigits) + "hint schedule " + chosen.pinTensor + " {\"kind\": \"nonsense\", \"knobs\": {}}\n", 3);
  request.revision = 3;
  const RequestId wrong = engine.newId();
  engine.send(request, wrong);
  const auto failed = engine.awaitThat([&](const Envelope& e) { return e.id == wrong; });
  ASSERT_TRUE(std::holds_alternative<Failed>(failed.message));
  EXPECT_EQ(std::get<Failed>(failed.message).stage, "hint");
}

TEST_F(EngineJobs, AnEvalThatBatchesWouldAverageIsToldWithTheFusionReport) {
  EngineProcess engine(m_folder.path(""));
  engine.document(
      "let B = 20, K = 500000\ndata D = digits { split = last 360 }\ninput X[B, 64] = batch D[:, 0..64] / 16\n"
      "param U[K, 64] = normal(0, 1)\nH[b, k] = sum[i] X[b, i] * U[k, i]\nR[b] = max[k] H[b, k]\nhint split H, R\n"
      "loss L = mean[b] R[b]\neval top = max[b] R[b]\ntrain L { steps = 3; optimizer = sgd(lr=0.1) }\n");
  const FusionReport report = engine.ask<FusionReport>(FusionRequest{1});
  ASSERT_EQ(report.refusedHints.size(), 1u);
  EXPECT_EQ(report.refusedHints[0].severity, Severity::Warning);
  EXPECT_EQ(report.refusedHints[0].line, 9u);
  EXPECT_NE(report.refusedHints[0].message.find("`top` is averaged over batches of 20 rows"), std::string::npos);
}

TEST_F(EngineJobs, WhatAHintCannotHaveIsToldWithTheFusionReport) {
  EngineProcess engine(m_folder.path(""));
  const std::string net =
      "input X[4, 3] = normal(0, 1)\nparam W[2, 3] = normal(0, 1)\nY[b, n] = sum[k] X[b, k] * W[n, k]\n"
      "loss L = mean[b, n] Y[b, n]^2\n";
  engine.document(net);
  EXPECT_TRUE(engine.ask<FusionReport>(FusionRequest{1}).refusedHints.empty());
  const std::string hint = "hint schedule Y {\"kind\": \"nonsense\", \"knobs\": {}}";
  const Analysis analysis = engine.document(net + hint + "\n", 2);
  EXPECT_TRUE(analysis.diagnostics.empty());
  for (int time = 0; time < 2; ++time) {
    const FusionReport report = engine.ask<FusionReport>(FusionRequest{2});
    ASSERT_EQ(report.refusedHints.size(), 1u);
    const DiagnosticInfo& d = report.refusedHints.front();
    EXPECT_EQ(d.severity, Severity::Error);
    EXPECT_NE(d.message.find("nonsense"), std::string::npos) << d.message;
    EXPECT_EQ(d.line, 5u);
    EXPECT_EQ(d.span.begin, net.size()) << "of the statement";
  }
}

// What only an evaluation makes is none of the step's.
TEST_F(EngineJobs, APinThatNoEvaluationCanHaveIsTold) {
  EngineProcess engine(m_folder.path(""));
  std::string notebook = kDigits;
  notebook.insert(notebook.find("eval"), "Q[b] = sum[n] exp(Z[b, n])\neval mass = mean[b] Q[b]\n");
  engine.document(notebook);
  EXPECT_TRUE(engine.ask<FusionReport>(FusionRequest{1}).refusedHints.empty());
  engine.document(notebook + "hint schedule Q { kind = contraction }\n", 2);
  const FusionReport report = engine.ask<FusionReport>(FusionRequest{2});
  ASSERT_EQ(report.refusedHints.size(), 1u);
  EXPECT_EQ(report.refusedHints[0].severity, Severity::Error);
  EXPECT_NE(report.refusedHints[0].message.find("hint schedule Q"), std::string::npos);
}

// A loop that runs kernel by kernel: those of its body are kernels of the step, as often as it takes steps.
TEST_F(EngineJobs, KernelsOfALoopsBodyAreKernelsOfTheStep) {
  EngineProcess engine(m_folder.path(""));
  const std::string notebook =
      "input X[8, 12, 6] = normal(0, 1)\nparam U[9, 6] = normal(0, 0.3)\nparam V[9, 9] = normal(0, 0.1)\nh[n: 8, i: 9] = 0\n"
      "for s in 0..12 {\n  h[n, i] = tanh(sum[k] U[i, k]*X[n, s, k] + sum[j] V[i, j]*h[n, j])\n}\n"
      "loss L = mean[n, i] h[n, i]^2\ntrain L { steps = 20; optimizer = sgd(lr=0.1); mode = static }\n";
  engine.document(notebook);
  const auto subgraphs = engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs;
  const auto graph = engine.ask<GraphPage>(GraphRequest{1, "fused", 0, 20000});
  const SubgraphInfo* chosen = nullptr;
  for (const SubgraphInfo& s : subgraphs) {
    SCOPED_TRACE(s.name);
    if (s.loop.empty()) continue;
    EXPECT_EQ(s.callsPerStep % 12, 0) << s.callsPerStep;
    EXPECT_TRUE(std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& n) { return n.id == s.loop; })) << s.loop;
    EXPECT_FALSE(s.origins.empty());
    if (!chosen || s.flops > chosen->flops) chosen = &s;
  }
  ASSERT_TRUE(chosen);
  const auto kernel = engine.ask<Kernel>(KernelRequest{chosen->id, {}, {"loops"}});
  ASSERT_EQ(kernel.texts.size(), 1u);
  const auto& lines = kernel.texts[0].lineOrigins;
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const Origins& o) { return !o.empty(); }));
  const auto space = engine.ask<Space>(SpaceRequest{chosen->id});
  const auto measured = engine.ask<TrialMeasured>(MeasureRequest{chosen->id, space.current});
  EXPECT_EQ(measured.trial.status, TrialStatus::Ok) << measured.trial.how;
  EXPECT_TRUE(measured.trial.us);
  std::string expressions;
  for (const SubgraphInfo& s : subgraphs) expressions += engine.ask<Kernel>(KernelRequest{s.id, {}, {"loops"}}).expression;
  EXPECT_NE(expressions.find("[s, "), std::string::npos) << "the loop's counter goes by its name: " << expressions;
  EXPECT_EQ(expressions.find("v10737"), std::string::npos) << expressions;
  // It is kept by a hint, as any other.
  ASSERT_FALSE(chosen->pinTensor.empty());
  const Analysis pinned = engine.document(notebook + "hint schedule " + chosen->pinTensor + " " + space.current.text + "\n", 2);
  EXPECT_TRUE(pinned.diagnostics.empty()) << (pinned.diagnostics.empty() ? "" : pinned.diagnostics[0].message);
  for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{2}).subgraphs)
    EXPECT_EQ(s.state == SubgraphState::Pinned, s.id == chosen->id) << s.name;
}

// The step's kernel is one that evaluation, without a gradient to keep values for, has otherwise.
TEST_F(EngineJobs, APinOfTheStepHindersNoEvaluation) {
  EngineProcess engine(m_folder.path(""));
  const std::string notebook =
      "data D = digits { split = last 360 }\ninput X[64, 8, 8] = batch D[:, 0..64] / 16\ninput y[64] : i32 = batch D[:, 64]\n"
      "const h[64, 48] = 0.5\nconst c[64, 48] = zeros()\nfor t in 0..8 { h, c = milstm(X[_, t, _], h, c) }\n"
      "Score = linear(h, 10)\nloss L = cross_entropy(Score, y)\neval accuracy = mean[b] (argmax[n] Score[b, n] == y[b])\n"
      "show Score\ntrain L { steps = 12; optimizer = sgd(lr=0.1); mode = static }\n";
  engine.document(notebook);
  std::string hints;
  for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs)
    if (!s.loop.empty() && !s.pinTensor.empty())
      hints += "hint schedule " + s.pinTensor + " " + engine.ask<Space>(SpaceRequest{s.id}).current.text + "\n";
  ASSERT_NE(hints.find("hint schedule h.Z.sum2 "), std::string::npos) << hints;
  std::ofstream(m_folder.path("test.nf")) << notebook << hints;
  EXPECT_TRUE(engine.document(notebook + hints, 2).diagnostics.empty());
  const RequestId id = engine.newId();
  TrainRequest request;
  request.revision = 2;
  engine.send(request, id);
  const Envelope end = engine.awaitThat(
      [](const Envelope& e) { return std::holds_alternative<DoneEvent>(e.message) || std::holds_alternative<Failed>(e.message); });
  const auto* failed = std::get_if<Failed>(&end.message);
  EXPECT_FALSE(failed) << (failed ? failed->message : "");
}

// Names of parts that no source spells, too.
TEST_F(EngineJobs, EveryPinIsReadAndTaken) {
  std::uint64_t revision = 0;
  EngineProcess engine(m_folder.path(""));
  const auto pinsOf = [&](const std::string& name, const std::string& text) {
    SCOPED_TRACE(name);
    engine.send(DocumentReplaced{++revision, name, NF_EXAMPLES, text});
    EXPECT_TRUE(engine.await<Analysis>().diagnostics.empty());
    Document document(text);
    std::set<std::string> pinned;
    for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{revision}).subgraphs)
      if (!s.pinTensor.empty() && pinned.insert(s.pinTensor).second)
        document.setScheduleHint(s.pinTensor, engine.ask<Space>(SpaceRequest{s.id}).current.text);
    engine.send(DocumentReplaced{++revision, name, NF_EXAMPLES, document.text()});
    for (const auto& d : engine.await<Analysis>().diagnostics) ADD_FAILURE() << d.message;
    for (const auto& d : engine.ask<FusionReport>(FusionRequest{revision}).refusedHints) ADD_FAILURE() << d.message;
    for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{revision}).subgraphs)
      EXPECT_EQ(s.state == SubgraphState::Pinned, pinned.contains(s.pinTensor)) << s.name;
    return pinned;
  };
  std::set<std::string> all;
  for (const char* name : {"welcome.nf", "figure4.nf", "digits_capsnet.nf", "milstm.nf"}) {
    const auto text = readFile(std::string(NF_EXAMPLES) + "/" + name);
    ASSERT_TRUE(text.ok());
    const auto pinned = pinsOf(name, *text);
    EXPECT_FALSE(pinned.empty()) << name;
    all.insert(pinned.begin(), pinned.end());
  }
  // The hardest of names: a derivative's, of a function's parameter.
  EXPECT_TRUE(std::ranges::any_of(all, [](const std::string& n) { return n.starts_with("d(L)/d(") && n.find('.') != n.npos; }))
      << testing::PrintToString(all);
  // A kernel in a loop that has no name but that of what the loop carries.
  EXPECT_TRUE(pinsOf("loop.nf",
                     "input X[4, 6, 8] = normal(0, 1)\nparam w[8] = normal(0, 1)\nconst h[4, 8] = 0\n"
                     "for t in 0..6 { h[b, k] = tanh(0.5 * h[b, k] + X[b, t, k] * w[k]) }\nloss L = mean[b, k] h[b, k]^2\n"
                     "train L { steps = 3; optimizer = sgd(lr=0.1); clip = 0.5 }\n")
                  .contains("h"));
}

// Of a kernel of several statements the one that it is shown by, or the one that a hint names already.
TEST_F(EngineJobs, ASharedKernelIsPinnedByTheNameThatItIsShownBy) {
  EngineProcess engine(m_folder.path(""));
  const std::string text =
      "input X[4, 6] = normal(0, 1)\nparam A[6, 6] = normal(0, 1)\nparam B[6, 6] = normal(0, 1)\n"
      "P[i, j] = sum[k] X[i, k] * A[k, j]\nQ[i, j] = sum[k] X[i, k] * B[k, j]\nshow P, Q\n";
  const auto shared = [&](std::uint64_t revision) {
    for (SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{revision}).subgraphs)
      if (s.operators.size() == 2) return s;
    ADD_FAILURE() << "no shared kernel";
    return SubgraphInfo{};
  };
  engine.document(text);
  const SubgraphInfo s = shared(1);
  EXPECT_EQ(s.operators, (std::vector<std::string>{"P", "Q"}));
  EXPECT_EQ(s.pinTensor, "P");
  Document document(text);
  document.setScheduleHint("Q", engine.ask<Space>(SpaceRequest{s.id}).current.text);
  engine.document(document.text(), 2);
  const SubgraphInfo pinned = shared(2);
  EXPECT_EQ(pinned.state, SubgraphState::Pinned);
  EXPECT_EQ(pinned.pinTensor, "Q");
}

// What else is fused with it may be in another kernel after the next hint, and what is computed again elsewhere is there already.
TEST_F(EngineJobs, AKernelIsPinnedByWhatItSpendsMostOn) {
  EngineProcess engine(m_folder.path(""));
  engine.document(
      "let N = 64\ninput X[N, N] = normal(0, 1)\nparam W1[N, N] = normal(0, 0.1)\nparam W2[N, N] = normal(0, 0.1)\n"
      "P[i, j] = sum[k] X[i, k] * W1[k, j]\nQ[i, j] = sum[k] X[i, k] * W2[k, j]\nR[i, j] = relu(2 * P[i, j] + Q[i, j])\n"
      "loss L = mean[i, j] (R[i, j] - 1)^2\ntrain L { optimizer = adam(lr=0.001); steps = 100 }\n");
  std::map<std::string, std::string> pins;  // by what is updated
  for (const SubgraphInfo& s : engine.ask<Subgraphs>(SubgraphsRequest{1}).subgraphs)
    for (const char* updated : {"W1.next", "W2.next"})
      if (std::ranges::count(s.operators, updated) > 0) pins[updated] = s.pinTensor;
  EXPECT_EQ(pins, (std::map<std::string, std::string>{{"W1.next", "d(L)/d(W1)"}, {"W2.next", "d(L)/d(W2)"}}));
}

// As Forbid writes it.
TEST_F(EngineJobs, EveryDecisionTakesAHint) {
  std::uint64_t revision = 0;
  EngineProcess engine(m_folder.path(""));
  std::set<std::string> names;
  for (const char* name : {"welcome.nf", "digits_capsnet.nf", "milstm.nf"}) {
    SCOPED_TRACE(name);
    const auto text = readFile(std::string(NF_EXAMPLES) + "/" + name);
    ASSERT_TRUE(text.ok());
    engine.send(DocumentReplaced{++revision, name, NF_EXAMPLES, *text});
    ASSERT_TRUE(engine.await<Analysis>().diagnostics.empty());
    Document document(*text);
    std::set<std::pair<std::string, std::string>> split;
    for (const FusionDecisionInfo& d : engine.ask<FusionReport>(FusionRequest{revision}).decisions) {
      if (d.state != FusionState::Accepted) continue;
      document.setFusionHint(d.producer, d.consumer, Document::FusionHint::Split);
      split.emplace(d.producer, d.consumer);
      names.insert({d.producer, d.consumer});
    }
    EXPECT_FALSE(split.empty());
    engine.send(DocumentReplaced{++revision, name, NF_EXAMPLES, document.text()});
    for (const auto& d : engine.await<Analysis>().diagnostics) ADD_FAILURE() << d.message;
    const FusionReport report = engine.ask<FusionReport>(FusionRequest{revision});
    for (const auto& d : report.refusedHints) ADD_FAILURE() << d.message;
    for (const FusionDecisionInfo& d : report.decisions)
      if (split.contains({d.producer, d.consumer})) {
        EXPECT_EQ(d.state, FusionState::Forbidden) << d.producer << " " << d.consumer;
      }
  }
  EXPECT_TRUE(names.contains("d(L)/d(h.W).clipped"));
}

}  // namespace
}  // namespace nf
