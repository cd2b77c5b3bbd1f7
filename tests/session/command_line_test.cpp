// SPDX-License-Identifier: Apache-2.0
// The command line as scripts meet it: its arguments, exit codes, what stands on which stream, what the system refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "core/runtime/data_file.h"
#include "core/support/uncaught.h"
#include "tests/session/command_line.h"

namespace nf {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(CommandLine, WhatCouldNotBePrintedIsTold) {
  file("net.nf", kNet);
  for (const char* arguments :
       {"check net.nf", "check net.nf --json", "show net.nf", "show net.nf --json", "grad net.nf L W", "grad net.nf L W --json",
        "explain net.nf --json", "doctor", "doctor --json", "--help", "run net.nf --device reference",
        "run net.nf --device reference --json", "train net.nf --device reference -o out.d",
        "train net.nf --device reference -o out.d --json-progress", "profile net.nf --device reference --json"}) {
    const Outcome o = run(arguments, "/dev/full");
    EXPECT_EQ(o.code, 3) << arguments;
    EXPECT_THAT(o.err, HasSubstr("could not be written")) << arguments;
  }
}

TEST_F(CommandLine, NumbersThatAreNoneAreUsageErrors) {
  file("net.nf", kNet);
  for (const char* arguments : {"train net.nf --seconds nan", "train net.nf --budget nan", "train net.nf --checkpoint-seconds nan",
                                "tune net.nf --seconds nan", "bench net.nf --seconds nan", "bench ops --seconds inf",
                                "resume --help", "bench", "profile net.nf --which 0", "tune net.nf --seed -1",
                                "tune net.nf --seed 99999999999999999999999", "bench check net.nf --seed -1"})
    EXPECT_EQ(run(arguments).code, 2) << arguments;
}

TEST_F(CommandLine, MistakesOfTheCommandHaveARemedy) {
  file("net.nf", kNet);
  file("lets.nf", "let Alpha = 3\nlet n = 4\ninput X[Alpha] = 1\nshow X\n");
  file("unnamed.nf", "data D = csv(\"\")\nlet B = 1\ninput X[B, 1] = batch D[:, 0..1]\nshow X\n");
  file("untrained.nf", "input X[3] = 1\nshow X\n");
  const std::pair<const char*, const char*> cases[] = {
      {"check lets.nf --set Q=3", "those there are: Alpha n"},
      {"check lets.nf --set Alpa=3", "is `Alpha` meant?"},
      {"check unnamed.nf", "\"\": cannot be opened"},
      {"train untrained.nf", "train L { steps = 100"},
      {"train net.nf --seed 99999999999999999999", "99999999999999999999 is more than 1000000000000000"},
      {"export net.nf d --to json --stage lowered", "`neoflow show` has scheduled and lowered"},
      {"grad lets.nf X n", "n is a number, a gradient is of tensors"}};
  for (const auto& [arguments, words] : cases) {
    const Outcome o = run(arguments);
    EXPECT_NE(o.code, 0) << arguments;
    EXPECT_THAT(o.err, HasSubstr(words)) << arguments;
  }
  for (const char* child : {"engine --help", "worker --help"}) EXPECT_THAT(run(child).out, Not(HasSubstr("Examples:"))) << child;
}

TEST_F(CommandLine, EpochsNeedADataSet) {
  file("net.nf", kNet);
  const Outcome o = run("train net.nf --device reference --epochs 3 -o out.d");
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--epochs needs a data set"));
  EXPECT_FALSE(std::filesystem::exists(m_folder.path("out.d")));
  EXPECT_THAT(run("train --help").out, HasSubstr("takes the place of the"));
}

TEST_F(CommandLine, ExitCodesSayWhoseMistakeItIs) {
  file("net.nf", kNet);
  file("damaged.jsonl", "{\"step\": what\n");
  EXPECT_EQ(run("run net.nf --device tpu").code, 2);
  EXPECT_EQ(run("train net.nf --device tpu").code, 2);
  EXPECT_EQ(run("train net.nf --steps 5 --epochs 3").code, 2);
  EXPECT_EQ(run("train net.nf --device cpu -o out.d --replay-swaps damaged.jsonl").code, 1);
  const Outcome missing = run("check nowhere.nf --json");
  EXPECT_EQ(missing.code, 1);
  const auto json = nlohmann::json::parse(missing.out);
  EXPECT_FALSE(json["ok"].get<bool>());
  EXPECT_EQ(json["diagnostics"].size(), 1u);
}

TEST_F(CommandLine, AFileInTheWayOfAFolderIsNamed) {
  file("net.nf", kNet);
  for (const char* arguments : {"train net.nf --device reference -o net.nf", "run net.nf --device reference -o net.nf/deep/er"}) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 3) << arguments;
    EXPECT_THAT(o.err, HasSubstr("cannot be made: net.nf is a file.")) << arguments;
  }
}

TEST_F(CommandLine, AMisspeltOptionNamesTheOneThatIsMeant) {
  file("net.nf", kNet);
  const std::pair<const char*, const char*> cases[] = {
      {"train net.nf --stepz 3", "neoflow train has no option --stepz: is --steps meant?"},
      {"run net.nf --dumb=Y", "neoflow run has no option --dumb: is --dump meant?"},
      {"bench ops --filtr gemm", "neoflow bench ops has no option --filtr: is --filter meant?"},
      {"--frob", "neoflow has no option --frob."},
      {"--versoin", "neoflow has no option --versoin: is --version meant?"},
      {"check net.nf --qwertyuiop", "neoflow check has no option --qwertyuiop."},
      {"show net.nf --stage fusd", "There is no stage \"fusd\""},
      {"check net.nf more.nf", "neoflow check takes no further argument \"more.nf\"."},
      {"trian net.nf", "There is no command \"trian\": is train meant?"},
      {"train net.nf --steps", "--steps needs a value."},
      {"train net.nf --steps 3 --steps 4", "--steps is given more than once."},
      {"train net.nf -o a -o b", "--output is given more than once."},
      {"export net.nf d --to svg --to dot", "--to is given more than once."},
      {"train net.nf --no-eval=x", "--no-eval takes no value."},
      {"train net.nf --which abc", "abc is no whole number from 1 on"},
      {"tune net.nf --seed abc", "abc is no whole number from 0 on"},
      {"train net.nf --resume ra --weights other", "one of them is taken."},
      {"train net.nf --steps many", "many is no whole number from 1 on"},
      {"train net.nf --threads 5000", "5000 is no whole number from 0 to 1024"}};
  for (const auto& [arguments, message] : cases) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << arguments;
    EXPECT_THAT(o.err, HasSubstr(message)) << arguments;
    const auto json = nlohmann::json::parse(run(std::string(arguments) + " --json").out, nullptr, false);
    if (std::string_view(arguments).ends_with("--steps")) continue;  // takes --json for its value
    EXPECT_EQ(json["stage"], "usage") << arguments;
  }
  file("let.nf", "let N = 4\nX[i: N] = 1\nshow X\n");
  EXPECT_EQ(run("check --set N=5 let.nf").code, 0) << "an option does not swallow what follows its value";
}

TEST_F(CommandLine, AnEmptyTextIsNotAnOptionThatWasLeftOut) {
  file("net.nf", kNet);
  for (const char* arguments :
       {"check ''", "export net.nf '' --to dot", "run net.nf -o '' --dump Y", "run net.nf --dump ''", "run net.nf --weights ''",
        "train net.nf -o ''", "train net.nf --resume ''", "train net.nf --weights ''", "train net.nf --replay-swaps ''",
        "profile net.nf --trace ''", "explain net.nf --measure ''", "bench ''"}) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << arguments;
    EXPECT_THAT(o.err, HasSubstr("an empty text is no value")) << arguments;
  }
  for (const char* arguments : {"train --resume= net.nf", "train --output= net.nf", "train -o= net.nf"}) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << arguments;
    EXPECT_THAT(o.err, HasSubstr("Nothing stands behind the = of -")) << arguments;
  }
  EXPECT_FALSE(std::filesystem::exists(m_folder.path("net.nf.out")));
}

TEST_F(CommandLine, AFolderMayStandBehindAnEqualsSign) {
  file("net.nf", kNet);
  for (const char* arguments : {"--output=long.d", "-o=short.d", "-otight.d"})
    EXPECT_EQ(run(std::string("run net.nf --device reference --dump Y ") + arguments).code, 0) << arguments;
  for (const char* folder : {"long.d", "short.d", "tight.d"})
    EXPECT_TRUE(std::filesystem::exists(m_folder.path(std::string(folder) + "/Y.npy"))) << folder;
}

TEST_F(CommandLine, WhatStandsBehindTwoDashesIsNoOption) {
  file("net.nf", kNet);
  EXPECT_EQ(run("check -- net.nf").code, 0);
  const std::pair<const char*, const char*> cases[] = {
      {"train net.nf -- --steps 3", "neoflow train takes no further argument \"--steps\": behind `--` nothing is an option"},
      {"check -- net.nf --threads", "neoflow check takes no further argument \"--threads\": behind `--` nothing is an option"},
      {"check -- net.nf more=1.nf", "neoflow check takes no further argument \"more=1.nf\"."},
      {"check net.nf --stepz -- more.nf", "neoflow check has no option --stepz"}};
  for (const auto& [arguments, message] : cases) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << arguments;
    EXPECT_THAT(o.err, HasSubstr(message)) << arguments;
  }
}

TEST_F(CommandLine, EveryNamedTensorIsDumpedAndNothingElseWhereItIsNamed) {
  file("layers.nf", "input X[4, 3] = normal(0, 1)\nO = linear(X, 2)\nQ[i, j] = O[i, j]^2\nloss L = mean[i, j] Q[i, j]\nshow O\n");
  ASSERT_EQ(run("run layers.nf --device reference --dump all -o all.d").code, 0);
  for (const char* name : {"O.W.npy", "O.bias.npy", "O.npy", "Q.npy", "X.npy", "L.npy"})
    EXPECT_TRUE(std::filesystem::exists(m_folder.path(std::string("all.d/") + name))) << name;
  ASSERT_EQ(run("run layers.nf --device reference --dump 'Q,d(L)/d(O)' -o some.d").code, 0);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(m_folder.path("some.d"))) ++files;
  EXPECT_EQ(files, 2u);
}

// A name of repetitions means nothing behind them, to `show` and to --dump: what each made has a name of its own.
TEST_F(CommandLine, WhatRepetitionsMadeIsDumpedByItsOwnName) {
  file("repeat.nf", "input X[2] = 1\nh = X\nrepeat k in 0..3 {\n  h = h + X\n  m = h * 10\n}\nM = m.1 + h\nshow M\n");
  ASSERT_EQ(run("run repeat.nf --device reference --dump all -o all.d").code, 0);
  for (const char* name : {"m.0.npy", "m.1.npy", "m.2.npy", "h.npy", "M.npy"})
    EXPECT_TRUE(std::filesystem::exists(m_folder.path(std::string("all.d/") + name))) << name;
  EXPECT_FALSE(std::filesystem::exists(m_folder.path("all.d/m.npy")));
  const Outcome last = run("run repeat.nf --device reference --dump m.2,h -o last.d");
  EXPECT_THAT(last.out, testing::AllOf(HasSubstr("m.2  f64 [2]  mean 40"), HasSubstr("h  f64 [2]  mean 4,")));
  const Outcome none = run("run repeat.nf --device reference --dump m");
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, testing::AllOf(HasSubstr("There is no tensor m"), HasSubstr("m.0, m.1, m.2")));
  file("after.nf", "input X[2] = 1\nrepeat k in 0..2 {\n  m = X * k\n}\nm = X * 7\nshow m\n");
  EXPECT_THAT(run("run after.nf --device reference --dump m -o after.d").out, HasSubstr("m  f64 [2]  mean 7,"));
}

TEST_F(CommandLine, WhatALoopCarriesLastIsDumpedThoughNothingReadsIt) {
  file("loop.nf", "input X[6, 3] = 1\nh[i: 3] = 0 * X[0, i]\nfor t in 0..6 {\n  h = h + X[t, _]\n  stack H = h\n}\nshow H\n");
  const Outcome o = run("run loop.nf --device reference --dump h -o loop.d");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("h  f64 [3]  mean 6,"));
  ASSERT_EQ(run("run loop.nf --device reference --dump all -o all.d").code, 0);
  EXPECT_TRUE(std::filesystem::exists(m_folder.path("all.d/h.npy")));
  const Outcome grad = run("grad loop.nf h X");
  EXPECT_EQ(grad.code, 1);
  EXPECT_THAT(grad.err, HasSubstr("Nothing uses the value that h has behind its loop."));
}

TEST_F(CommandLine, AMisspeltTensorNamesTheOneThatIsMeant) {
  file("net.nf", "input Alpha[3] = 1\nY[i] = Alpha[i]\n");
  EXPECT_THAT(run("run net.nf --device reference --dump Alpa").err, HasSubstr("is Alpha meant?"));
}

TEST_F(CommandLine, MarkdownOfAReportIsRendered) {
  file("md.nf",
       "# %% [markdown]\n# # A *pose*\n#\n# 1. **bold** [place](https://example.org)\n# 2. `a*b`\n#\n# | a | b |\n# |---|---|\n# | "
       "1 | 2 |\n"
       "#\n# <script>alert(1)</script>\n#\n# [never](javascript:alert(1))\n\n# %%\nlet a = 1\n");
  ASSERT_EQ(run("export md.nf out.d --to html").code, 0);
  std::string html;
  for (const auto& item : std::filesystem::directory_iterator(m_folder.path("out.d")))
    if (item.path().extension() == ".html") html = *readFile(item.path().string());
  for (const char* part : {"<h1>A <em>pose</em></h1>", "<li><strong>bold</strong> <a href=\"https://example.org\">place</a></li>",
                           "<ol>", "<code>a*b</code>", "<td>2</td>", "&lt;script&gt;alert(1)&lt;/script&gt;"})
    EXPECT_THAT(html, HasSubstr(part));
  EXPECT_THAT(html, Not(HasSubstr("javascript:")));
}

TEST_F(CommandLine, GradientsOfAReportGoBehindTheNotebook) {
  const std::string net =
      "param A[4] = normal(0, 1)\nparam U[4, 4] = normal(0, 1)\nh[i] = 0.5 * A[i]\n"
      "for t in 0..5 { h[i] = tanh(sum[k] U[i, k] * h[k]) + 0.1 * t }\nloss L = sum[i] h[i]^2\n";
  file("loop.nf", net + "train L { steps = 3; optimizer = sgd(lr=0.1); seed = 1 }\n");
  ASSERT_EQ(run("export loop.nf out.d --to html").code, 0);
  const std::string html = *readFile(m_folder.path("out.d/loop.html"));
  const std::size_t section = html.find("<h2>Derived gradients</h2>");
  ASSERT_NE(section, std::string::npos);
  EXPECT_THAT(html.substr(section), HasSubstr("it can be pasted into a cell behind the notebook"));
  const std::size_t begin = html.find("<pre>", section) + 5, end = html.find("</pre>", begin);
  // As a browser copies it.
  std::string text = std::regex_replace(html.substr(begin, end - begin), std::regex("</?b[^>]*>"), "");
  for (const auto& [written, meant] : {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}})
    text = std::regex_replace(text, std::regex(written), meant);
  EXPECT_THAT(text, HasSubstr("in reversed 0..5 {"));
  file("pasted.nf", net + "# %%\n" + text);
  const Outcome o = run("check pasted.nf");
  EXPECT_EQ(o.code, 0) << o.err << text;
}

TEST_F(CommandLine, ARunOfAnotherTextIsSaidToBeOne) {
  const auto net = [](const char* wanted) {
    return "let N = 4\nparam w[N] = 0\nloss L = sum[i] (w[i] - " + std::string(wanted) +
           ")^2\n# %%\ntrain L { steps = 3; optimizer = sgd(lr=0.1); mode = static }\n";
  };
  const auto page = [&] {
    EXPECT_EQ(run("export net.nf page.d --to html").code, 0);
    return *readFile(m_folder.path("page.d/net.html"));
  };
  const std::string other = "It trained something else than the text above says";
  file("net.nf", net("1"));
  ASSERT_EQ(run("train net.nf --device reference").code, 0);
  EXPECT_THAT(page(), testing::AllOf(HasSubstr("The newest run"), Not(HasSubstr(other))));
  file("net.nf", "# Words\n" + net("1"));
  EXPECT_THAT(page(), Not(HasSubstr(other))) << "words change nothing";
  file("net.nf", net("5"));
  EXPECT_THAT(page(), HasSubstr(other));
  file("net.nf", net("1"));
  ASSERT_EQ(run("train net.nf --device reference --set N=7").code, 0);
  EXPECT_THAT(page(), HasSubstr(other));
}

TEST_F(CommandLine, APageHasWhatCellsShow) {
  const auto net = [](const char* wanted) {
    return "param w[4] = 0.5\nloss L = sum[i] (w[i] - " + std::string(wanted) +
           ")^2\nshow w\n# %%\nY[i] = w[i] * 2\nshow Y, select(Y[0] < 2, 1, 0)\n"
           "# %%\ntrain L { steps = 1; optimizer = sgd(lr=0.25); mode = static }\n";
  };
  const auto page = [&](const std::string& options) {
    const Outcome o = run("export net.nf page.d --device reference --to html" + options);
    EXPECT_EQ(o.code, 0) << o.err;
    return *readFile(m_folder.path("page.d/net.html"));
  };
  file("net.nf", net("1"));
  EXPECT_THAT(page(""), Not(HasSubstr("class=\"values\"")));
  std::string text = page(" --values");
  EXPECT_THAT(text, HasSubstr("<pre class=\"values\">w  f64 [4]  mean 0.5, rms 0.5, min 0.5, max 0.5\n    0.5 0.5 0.5 0.5</pre>"));
  EXPECT_THAT(text, HasSubstr("select(Y[0] &lt; 2, 1, 0) = 1</pre>"));
  EXPECT_LT(text.find("w  f64"), text.find("Y  f64"));
  EXPECT_THAT(text, HasSubstr("Values are those with the initial weights."));
  // Once it is trained they are those of the run: w goes half of the way to 1.
  ASSERT_EQ(run("train net.nf --device reference").code, 0);
  text = page(" --values");
  EXPECT_THAT(text, HasSubstr("w  f64 [4]  mean 0.75,"));
  EXPECT_THAT(text, HasSubstr("Values are those with the weights of the newest run."));
  // An edit that is not saved is one of its file: by its name, with its runs.
  file("edited", "# Words\n" + net("1"));
  EXPECT_EQ(run("export - edit.d --as net.nf --device reference --to html --values <edited").code, 0);
  text = *readFile(m_folder.path("edit.d/net.html"));
  EXPECT_THAT(text, HasSubstr("<title>net.nf</title>"));
  EXPECT_THAT(text, HasSubstr("w  f64 [4]  mean 0.75,"));
  EXPECT_THAT(text, HasSubstr("The newest run"));
  EXPECT_THAT(run("export net.nf edit.d --as net.nf --to html").err,
              HasSubstr("--as says which file standard input is an edit of"));
  // However long it is to train from now on, and by whichever kernels.
  std::string longer = net("1") + "hint split Y, L\n";
  longer.replace(longer.find("steps = 1"), 9, "steps = 9");
  file("net.nf", longer);
  EXPECT_THAT(page(" --values"), HasSubstr("w  f64 [4]  mean 0.75,"));
  // A parameter that was renamed since has what it learnt.
  std::string renamed = net("1");
  for (std::size_t at; (at = renamed.find("w[")) != std::string::npos;) renamed.replace(at, 2, "v[");
  renamed.replace(renamed.find("show w"), 6, "show v");
  file("net.nf", renamed);
  text = page(" --values");
  EXPECT_THAT(text, HasSubstr("v  f64 [4]  mean 0.75,"));
  EXPECT_THAT(text, HasSubstr("Values are those with the weights of the newest run."));
  file("net.nf", net("5"));
  EXPECT_THAT(page(" --values"), HasSubstr("w  f64 [4]  mean 0.5,")) << "the run was of another text";
  file("net.nf", "input X[3] = npy(\"nowhere.npy\")\nshow X\n");
  EXPECT_THAT(page(" --values"), HasSubstr("What the cells show was not computed: "));
  EXPECT_THAT(run("export net.nf page.d --to dot --values").err, HasSubstr("--values is of a page: it goes with --to html."));
}

// A page that is read elsewhere has the pictures that stand beside its notebook.
TEST_F(CommandLine, AReportHasThePicturesOfItsNotebook) {
  std::filesystem::create_directory(m_folder.path("nb"));
  file("nb/a b.png", "\x89PNG\r\n\x1a\n");
  file("nb/net.nf", std::string("# %% [markdown]\n# ![x](a%20b.png) ![y](none.png) ![z](/dev/zero)\n\n# %%\n") + kNet);
  const Outcome o = run("export nb/net.nf some.d --to html");
  ASSERT_EQ(o.code, 0) << o.err;
  std::stringstream page;
  page << std::ifstream(m_folder.path("some.d/net.html")).rdbuf();
  EXPECT_THAT(page.str(), HasSubstr("<img src=\"data:image/png;base64,iVBORw0KGgo=\" alt=\"x\" />"));
  EXPECT_THAT(page.str(), HasSubstr("<img src=\"none.png\""));
  EXPECT_THAT(page.str(), HasSubstr("<img src=\"/dev/zero\""));
}

TEST_F(CommandLine, AFullDiskLeavesNoHalfExport) {
  file("net.nf", kNet);
  for (const char* to : {"html", "json", "llvm"}) {
    const Outcome o = run(std::string("export net.nf some.d --to ") + to, {}, "ulimit -f 1 &&");
    EXPECT_EQ(o.code, 3) << to;
    EXPECT_THAT(o.err, HasSubstr("some.d/")) << to;
    EXPECT_THAT(o.err, HasSubstr("cannot be written")) << to;
    for (const auto& item : std::filesystem::directory_iterator(m_folder.path("some.d")))
      EXPECT_LE(item.file_size(), 512u) << item.path();
  }
  for (const auto& item : std::filesystem::directory_iterator(m_folder.path("some.d")))
    EXPECT_THAT(item.path().filename().string(), Not(HasSubstr("net"))) << item.path();
}

// The whole process ends by it, so each stands in a process of its own.
TEST(UncaughtDeathTest, WhatTheMachineLacksIsASentence) {
  const auto ends = [](bool json, auto thrown) {
    tellUncaughtExceptions(json);
    if (json) dup2(STDERR_FILENO, STDOUT_FILENO);
    std::thread([&] { throw thrown; }).join();
  };
  EXPECT_EXIT(ends(false, std::bad_alloc()), testing::ExitedWithCode(3), "^neoflow: There is not enough memory");
  const auto again = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_EXIT(ends(false, std::system_error(again)), testing::ExitedWithCode(3), "^neoflow: No further thread can be had");
  EXPECT_EXIT(ends(true, std::system_error(again)), testing::ExitedWithCode(3),
              "^\\{\"event\":\"error\",\"stage\":\"system\",\"message\":\"No further thread");
  EXPECT_EXIT(ends(true, std::runtime_error("a \"quoted\" word")), testing::ExitedWithCode(4),
              R"(Internal error: a \\"quoted\\" word)");
}

#if !defined(__SANITIZE_THREAD__)  // its runtime has places of its own in the address space
TEST_F(CommandLine, NoFurtherThreadIsASentence) {
  file("net.nf", kNet);
  // Stacks that no address space has room for.
  const std::string before = "ulimit -S -s 137438953472 &&";
  const Outcome people = run("train net.nf --device reference -o out.d", {}, before);
  EXPECT_EQ(people.code, 3);
  EXPECT_THAT(people.err, testing::StartsWith("neoflow: No further thread can be had"));
  const Outcome scripts = run("train net.nf --device reference -o out.d --json", {}, before);
  EXPECT_EQ(scripts.code, 3);
  EXPECT_EQ(nlohmann::json::parse(scripts.out)["event"], "error");
}
#endif

TEST_F(CommandLine, AFileWhoseNameBeginsWithADashIsToldFromAnOption) {
  file("-x.nf", kNet);
  for (const char* arguments : {"check -x.nf", "run --device reference -x.nf", "grad -x.nf L W"}) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 2) << arguments;
    EXPECT_THAT(o.err, HasSubstr("has no option -x.nf: the file of that name is given as ./-x.nf, or behind `--`.")) << arguments;
  }
  for (const char* arguments : {"check -- -x.nf", "check ./-x.nf", "grad -- -x.nf L W"})
    EXPECT_EQ(run(arguments).code, 0) << arguments;
  const Outcome other = run("check --bogus");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, testing::AllOf(HasSubstr("neoflow check has no option --bogus."), Not(HasSubstr("behind"))));
  EXPECT_THAT(run("check").err, HasSubstr("FILE is required"));
}

TEST_F(CommandLine, ATensorThatIsNotThereIsAMistakeOfTheCommand) {
  file("net.nf", "input X[3] = 1\nY[i] = X[i]\n");
  const Outcome o = run("run net.nf --device reference --dump Q");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("There is no tensor Q."));
  EXPECT_THAT(o.err, HasSubstr("Tensors here: X, Y"));
  std::string many = "input X[3] = 1\ninput V[2, 3] = 1\n";
  for (int i = 0; i < 120; ++i) many += "tensor" + std::to_string(i) + "[i] = X[i] + " + std::to_string(i) + "\n";
  file("many.nf", many + "Z = linear(V, 4)\n");
  const Outcome cut = run("run many.nf --device reference --dump Z.part.bias");
  EXPECT_EQ(cut.code, 1);
  EXPECT_THAT(cut.err, testing::AllOf(HasSubstr("Tensors here: Z.bias, "), HasSubstr(", ...\n"), Not(HasSubstr("tensor119"))));
}

TEST_F(CommandLine, TheDoctorSaysWhatIsKeptWhere) {
  const auto json = nlohmann::json::parse(run("doctor --json").out);
  EXPECT_EQ(json["files"][0]["path"], m_folder.path("records.sqlite"));
  EXPECT_EQ(json["tools"][0]["name"], "dot");
  const auto state = [&] { return nlohmann::json::parse(run("doctor --json").out)["files"][0]["state"].get<std::string>(); };
  EXPECT_EQ(state(), "made by the first run");
  // The answer itself is smaller than what a run would write.
  EXPECT_THAT(nlohmann::json::parse(run("doctor --json", {}, "ulimit -f 16 &&").out)["files"][0]["state"].get<std::string>(),
              testing::AllOf(HasSubstr("can't be made in "), HasSubstr("runs go on without")));
  std::filesystem::create_directory(m_folder.path("records.sqlite"));
  EXPECT_THAT(state(), HasSubstr("is no file"));
  std::filesystem::remove(m_folder.path("records.sqlite"));
  file("records.sqlite", std::string(5000, 'x'));
  EXPECT_THAT(state(), HasSubstr("is no database"));
  std::filesystem::remove(m_folder.path("records.sqlite"));
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(m_folder.path("records.sqlite").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "CREATE TABLE trial (name TEXT)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  EXPECT_THAT(state(), HasSubstr("is another program's, its table trial has other columns"));
}

}  // namespace
}  // namespace nf
