// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/moved_places.h"

#include <gtest/gtest.h>

#include <string>

#include "core/protocol/message.h"

namespace nf {
namespace {

using protocol::Origins;
using protocol::SourceSpan;

std::vector<SourceSpan> wordsOf(const std::string& text) {
  std::vector<SourceSpan> spans{{"std/nn.nf", 3, 9}};
  for (std::size_t i = 0, end = 0; i < text.size(); i = end + 1) {
    end = std::min(text.find(' ', i), text.size());
    SourceSpan s;
    s.begin = static_cast<std::uint32_t>(i), s.end = static_cast<std::uint32_t>(end);
    spans.push_back(s);
  }
  return spans;
}

// By number, 0 for that of the library: which words of `now` those of `before` are.
Origins moved(const std::string& before, const std::string& now) {
  Origins all;
  for (std::uint32_t i = 0; i < wordsOf(before).size(); ++i) all.push_back(i);
  MovedPlaces(wordsOf(before), before, wordsOf(now), now).move(all);
  return all;
}

TEST(MovedPlaces, WhatIsBeforeAndBehindAnEditIsFoundAgain) {
  EXPECT_EQ(moved("a bb ccc", "a bb ccc"), (Origins{0, 1, 2, 3}));
  EXPECT_EQ(moved("a bb ccc", "a x y ccc"), (Origins{0, 1, 4})) << "bb became two words";
  EXPECT_EQ(moved("a bb ccc", "a ccc"), (Origins{0, 1, 2}));
  EXPECT_EQ(moved("a bb ccc", "a bbb ccc"), (Origins{0, 1, 3})) << "a longer word is another one";
  EXPECT_EQ(moved("a bb ccc", "new a bb ccc"), (Origins{0, 2, 3, 4}));
  EXPECT_EQ(moved("a bb ccc", ""), (Origins{0}));
  EXPECT_EQ(moved("", "a"), (Origins{0}));
}

TEST(MovedPlaces, NumbersThatMeanNothingAreLeftOut) {
  Origins places{7, 1};
  MovedPlaces(wordsOf("a b"), "a b", wordsOf("a b"), "a b").move(places);
  EXPECT_EQ(places, (Origins{1}));
}

// Only nodes that the newer graph has, and only of the same stage.
TEST(MovedPlaces, AGraphTakesPlacesOfANewerOne) {
  protocol::GraphPage graph, newer;
  graph.stage = newer.stage = "fused";
  for (const char* id : {"A", "B"}) {
    protocol::GraphNode node;
    node.id = id;
    node.places = node.origins = {1};
    graph.nodes.push_back(node);
  }
  newer.nodes = {graph.nodes[1]};
  newer.nodes[0].places = {2, 5};
  newer.nodes[0].origins = {4};
  takePlaces(graph, newer);
  EXPECT_EQ(graph.nodes[0].places, (Origins{1}));
  EXPECT_EQ(graph.nodes[1].places, (Origins{2, 5}));
  EXPECT_EQ(graph.nodes[1].origins, (Origins{4}));
  newer.stage = "source";
  newer.nodes[0].origins = {9};
  takePlaces(graph, newer);
  EXPECT_EQ(graph.nodes[1].origins, (Origins{4}));
}

}  // namespace
}  // namespace nf
