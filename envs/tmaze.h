// T-maze: a sign at the entrance of a corridor says which way to turn at its far end.
//
// Rules: Bakker, "Reinforcement learning with long short-term memory" (NIPS 2001), the T-maze without noise: the agent walks
// by itself, north, east, south or west. It sees 011 or 110 at the entrance (the treasure is north, or south), 101 in the
// corridor and 010 at the junction. Turning the right way pays 4, the wrong way -0.1, and both end the episode; a move against
// a wall pays -0.1. Ours: who is not there after `patience` times the shortest way is stopped (truncated).
#pragma once

#include "environment.h"
#include "math.h"

namespace tmaze {

constexpr int observation_size = 3;
constexpr int actions = 4;  // north, east, south, west
constexpr int longest_episode = 110;
constexpr bool needs_memory = true;

constexpr float treasure = 4.0f, wrong = -0.1f, bump = -0.1f;
enum Move { north, east, south, west };

struct State {
    int place;    // cells from the entrance; length: the junction
    int side;     // where the treasure is: -1 north, 1 south
    int turned;   // -1 turned north, 1 turned south, 0 not yet
    int steps;    // env steps of this episode
};

struct Params {
    int length = 10;    // cells from the entrance to the junction
    int patience = 10;  // an episode lasts so many times length + 1 env steps at most
};
constexpr sweep::Bounds bounds[] = {{1, 1000}, {1, 100}};

SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.side = rng.below(2) == 0 ? -1 : 1;
    s.place = s.turned = s.steps = 0;
}

SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng&) {
    s.steps++;
    float reward = 0.0f;
    if (action == east && s.place < p.length) s.place++;
    else if (action == west && s.place > 0) s.place--;
    else if (action != east && action != west && s.place == p.length) s.turned = action == north ? -1 : 1;
    else reward = bump;
    if (s.turned != 0) return {s.turned == s.side ? treasure : wrong, true, false};
    return {reward, false, s.steps >= p.patience * (p.length + 1)};
}

SWEEP_FN float metric(const State& s, const Params&) { return s.turned == s.side ? 1.0f : 0.0f; }

SWEEP_FN void observe(const State& s, const Params& p, float* observation) {
    const bool entrance = s.place == 0, junction = s.place == p.length;
    observation[0] = entrance ? s.side > 0 : !junction;
    observation[1] = entrance || junction;
    observation[2] = entrance ? s.side < 0 : !junction;
}

constexpr sweep::Picture picture = {100.0f, 30.0f};

// The corridor from left to right, the sign in the entrance's colour: blue for north, orange for south.
SWEEP_FN void draw(const State& s, const Params& p, sweep::Canvas& c) {
    const float cell = 96.0f / static_cast<float>(p.length + 1), end = 2.0f + cell * p.length;
    c.rectangle(2.0f, 12.0f, 96.0f, 6.0f, 0x444444);
    c.rectangle(end, 2.0f, cell, 26.0f, 0x444444);
    c.rectangle(2.0f, 12.0f, cell, 6.0f, s.side < 0 ? 0x3388ff : 0xff8833);
    c.rectangle(end, s.side < 0 ? 2.0f : 22.0f, cell, 6.0f, 0x33cc66);
    c.disc(2.0f + cell * (s.place + 0.5f), 15.0f + 10.0f * s.turned, sweep::lowest(3.0f, 0.5f * cell), 0xffffff);
}

}  // namespace tmaze
