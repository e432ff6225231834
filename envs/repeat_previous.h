// Repeat previous: cards are dealt one by one; say the suit of the card seen some env steps ago.
//
// Rules: POPGym 1.0's RepeatPrevious (Morad et al. 2023), by default Easy: one deck of 52, k = 4. Action i names suit i. Counted
// with the card just seen, the k-th last is asked for: with k = 4 the one seen three env steps ago. As soon as there is one,
// each right answer pays 1 / (52 decks - k), each wrong one costs as much: a perfect game is worth 1. Medium is decks = 2,
// k = 32; Hard decks = 3, k = 64. The suit is observed as four flags.
#pragma once

#include "environment.h"

namespace repeat_previous {

constexpr int suits = 4, deck = 52;
constexpr int observation_size = suits;
constexpr int actions = suits;  // spade, diamond, club, heart
constexpr int longest_episode = deck - 1;
constexpr int room = 64;        // cards that can be remembered
constexpr bool needs_memory = true;

struct State {
    sweep::uint8 seen[room];  // suits of the last cards: card i at i modulo 64
    int dealt;                // cards so far, the first one with the reset
    int left[suits];          // cards of each suit that are still in the deck
    int correct;              // right answers
};

struct Params {
    int k = 4;      // the k-th last card is asked for; below 52 decks
    int decks = 1;  // packs of 52 cards that are shuffled together
};
constexpr sweep::Bounds bounds[] = {{1, room}, {1, 3}};

SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }

// The next card of the shuffled deck.
SWEEP_FN void deal(State& s, const Params& p, sweep::Rng& rng) {
    int card = rng.below(p.decks * deck - s.dealt), suit = 0;
    while (suit < suits - 1 && card >= s.left[suit]) card -= s.left[suit++];
    s.left[suit]--;
    s.seen[s.dealt % room] = static_cast<sweep::uint8>(suit);
    s.dealt++;
}

SWEEP_FN void reset(State& s, const Params& p, sweep::Rng& rng) {
    for (int i = 0; i < room; i++) s.seen[i] = 0;
    for (int i = 0; i < suits; i++) s.left[i] = p.decks * deck / suits;
    s.dealt = 0;
    s.correct = 0;
    deal(s, p, rng);
}

SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng& rng) {
    const int cards = p.decks * deck;
    float reward = 0.0f;
    if (s.dealt >= p.k) {
        const bool right = action == s.seen[(s.dealt - p.k) % room];
        s.correct += right;
        reward = (right ? 1.0f : -1.0f) / static_cast<float>(cards - p.k);
    }
    deal(s, p, rng);
    return {reward, s.dealt >= cards, false};
}

SWEEP_FN float metric(const State& s, const Params& p) {
    return static_cast<float>(s.correct) / static_cast<float>(p.decks * deck - p.k);
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    const int suit = s.seen[(s.dealt - 1) % room];
    for (int i = 0; i < suits; i++) observation[i] = i == suit;
}

constexpr sweep::Picture picture = {100.0f, 40.0f};

// The last eight cards, the newest on the right; the one that is asked for lies higher.
SWEEP_FN void draw(const State& s, const Params& p, sweep::Canvas& c) {
    const sweep::uint32 colours[suits] = {0x3366cc, 0xff9933, 0x339966, 0xcc3333};
    for (int back = 1; back <= 8 && back <= s.dealt; back++) {
        const float x = 100.0f - 12.0f * back, y = back == p.k ? 6.0f : 10.0f;
        c.rectangle(x, y, 10.0f, 20.0f, 0xeeeeee);
        c.disc(x + 5.0f, y + 10.0f, 3.5f, colours[s.seen[(s.dealt - back) % room]]);
    }
}

}  // namespace repeat_previous
