// Deep sea: dive through a square grid, a row per env step; only going right at every one finds the treasure.
//
// Rules: bsuite's DeepSea (Osband et al. 2020), which gymnax's DeepSea-bsuite follows. Each move goes down and to one side.
// A move to the right costs move_cost / size; one more to the right from the last column pays 1. Which of the two actions is
// right differs from cell to cell, drawn once and the same in every episode: here from mapping_seed by our own hash, so
// another map than NumPy's or JAX's of that seed. With stochastic = 1 a move to the right fails with probability 1 / size
// (it costs nevertheless), and the corners of the last row pay a standard normal number more.
#pragma once

#include "environment.h"
#include "math.h"

namespace deep_sea {

constexpr int largest = 20;  // the grid that is observed; a smaller sea lies in its top left
constexpr int observation_size = largest * largest;
constexpr int actions = 2;   // left or right, or right or left
constexpr int longest_episode = 10;

struct State {
    int row;      // from the top; size: the bottom is reached
    int column;   // from the left
    int strayed;  // 1 once a move went left from the diagonal
};

struct Params {
    int size = 10;             // rows and columns
    float move_cost = 0.01f;   // what size moves to the right cost together
    int random_actions = 1;    // 1: which action is right differs from cell to cell; 0: it is action 1
    int mapping_seed = 42;     // of the map of actions
    int stochastic = 0;        // 1: moves to the right may fail, and the corners pay a random sum
};
constexpr sweep::Bounds bounds[] = {{2, largest}, {0, 1}, {0, 1}, {0, 1000000}, {0, 1}};

SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }

// The action that goes right from this cell.
SWEEP_FN int right_of(int row, int column, const Params& p) {
    if (p.random_actions == 0) return 1;
    sweep::Rng rng = sweep::stream(static_cast<sweep::uint64>(p.mapping_seed), static_cast<sweep::uint64>(row * largest + column));
    return rng.below(2);
}

SWEEP_FN void reset(State& s, const Params&, sweep::Rng&) { s.row = s.column = s.strayed = 0; }

SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng& rng) {
    const int last = p.size - 1;
    const bool right = action == right_of(s.row, s.column, p);
    float reward = right && s.column == last ? 1.0f : 0.0f;
    if (p.stochastic != 0 && s.row == last && (s.column == 0 || s.column == last)) reward += rng.normal();
    if (right) {
        if (p.stochastic == 0 || rng.uniform() * p.size > 1.0f) s.column = s.column < last ? s.column + 1 : last;
        reward -= p.move_cost / static_cast<float>(p.size);
    } else {
        if (s.row == s.column) s.strayed = 1;
        s.column = s.column > 0 ? s.column - 1 : 0;
    }
    s.row++;
    return {reward, s.row >= p.size, false};
}

// bsuite counts bad episodes: those that left the diagonal by a move to the left.
SWEEP_FN float metric(const State& s, const Params&) { return s.strayed ? 0.0f : 1.0f; }

SWEEP_FN void observe(const State& s, const Params& p, float* observation) {
    for (int i = 0; i < observation_size; i++) observation[i] = 0.0f;
    if (s.row < p.size) observation[s.row * largest + s.column] = 1.0f;
}

constexpr sweep::Picture picture = {100.0f, 100.0f};

// The sea, the way to the treasure, the diver.
SWEEP_FN void draw(const State& s, const Params& p, sweep::Canvas& c) {
    const float cell = 100.0f / static_cast<float>(p.size);
    c.rectangle(0.0f, 0.0f, 100.0f, 100.0f, 0x0a2a4a);
    for (int i = 0; i < p.size; i++)
        c.rectangle(i * cell, i * cell, cell, cell, i == p.size - 1 ? 0xffcc33 : 0x123a63);
    if (s.row < p.size) c.disc((s.column + 0.5f) * cell, (s.row + 0.5f) * cell, 0.4f * cell, 0xffffff);
}

}  // namespace deep_sea
