// Squared, as PufferLib 3.0 plays it: walk to the target on a board of 11 x 11 cells.
//
// Rules: github.com/PufferAI/PufferLib 3.0, ocean/squared, held against recorded transitions. Actions: stay, down, up,
// left, right. Reaching the target pays 1; leaving the board, or walking for more than 33 env steps, costs 1. Either ends
// the episode. The target is at one of the other cells, each as likely. What is observed is the board row by row: 0 the
// walker, 1 empty, 2 the target. Not as there: there empty is 0 and the walker 1; with empty in the middle a linear layer,
// which all our networks begin with, can see the way from one to the other.
#pragma once

#include "environment.h"

namespace squared {

constexpr int size = 11, cells = size * size, middle = cells / 2;
constexpr int observation_size = cells;
constexpr int actions = 5;
constexpr int longest_episode = 3 * size + 1;

struct State {
    int row;     // of the walker; outside the board where it has left
    int column;  // of the walker
    int target;       // cell, row by row
    int steps;        // env steps of this episode
};

struct Params {};

SWEEP_FN constexpr sweep::Input input(int) { return sweep::quantity(0.0f, 2.0f); }

SWEEP_FN int cell_of(const State& s) { return s.row * size + s.column; }
SWEEP_FN bool on_board(const State& s) {
    return (static_cast<sweep::uint32>(s.row) < size) & (static_cast<sweep::uint32>(s.column) < size);
}

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.row = s.column = size / 2;
    const int other = rng.below(cells - 1);
    s.target = other + (other >= middle);
    s.steps = 0;
}

SWEEP_FN sweep::Outcome step(State& s, const Params&, int action, sweep::Rng&) {
    s.row += (action == 1) - (action == 2);
    s.column += (action == 4) - (action == 3);
    s.steps++;
    const bool lost = (s.steps > 3 * size) | !on_board(s), found = !lost & (cell_of(s) == s.target);
    return {static_cast<float>(found) - static_cast<float>(lost), lost | found, false};
}

// 1 where the target is reached.
SWEEP_FN float metric(const State& s, const Params&) { return on_board(s) && cell_of(s) == s.target ? 1.0f : 0.0f; }

SWEEP_FN void observe(const State& s, const Params&, sweep::uint8* observation) {
    for (int i = 0; i < cells; i++) observation[i] = 1;
    observation[s.target] = 2;
    if (on_board(s)) observation[cell_of(s)] = 0;
}

constexpr sweep::Picture picture = {size, size};

SWEEP_FN void draw(const State& s, const Params&, sweep::Canvas& c) {
    c.rectangle(0, 0, size, size, 0x061818);
    c.rectangle(static_cast<float>(s.target % size), static_cast<float>(s.target / size), 1, 1, 0xBB0000);
    if (on_board(s)) c.rectangle(static_cast<float>(s.column), static_cast<float>(s.row), 1, 1, 0x00BBBB);
}

}  // namespace squared
