// Snake, by the rules of PufferLib 3.0's many-snake game with one snake: eat, grow, and bite neither wall nor yourself.
//
// Rules: github.com/PufferAI/PufferLib 3.0, ocean/snake, held against recorded transitions. Actions: up, down, left, right;
// turning back on itself the snake goes straight on. Food pays 0.1 and grows the snake by a cell, and another appears at an
// empty cell; death costs 1. The tail moves away only after the head has moved, so the cell it leaves is deadly. What is
// observed are the 11 x 11 cells around the head, row by row: 0 wall or snake, 1 empty, 2 food. Not as there: these numbers
// (there 3 or more, 0 and 1, which say nothing until a network tells them apart); a field of 16 x 16 cells with one snake
// (there 630 x 350 with 256); death ends the episode (there the snake starts again in the same field, among the remains of
// its last life); and an episode is truncated after 1,000 env steps (there it has no limit).
#pragma once

#include "environment.h"

namespace snake {

constexpr int side = 16, inner = side * side;         // the field
constexpr int vision = 5, window = 2 * vision + 1;    // what is seen, and the walls' thickness
constexpr int stride = side + 2 * vision;             // field and walls
constexpr int observation_size = window * window;
constexpr int actions = 4;
constexpr int longest_episode = 1000;
constexpr int longest_snake = 255;

constexpr sweep::uint8 deadly = 0, empty = 1, food = 2;

struct State {
    int length;    // cells
    int head;      // where in `body` the head is; the body lies behind it, around the array's ends
    int steps;     // env steps of this episode
    sweep::uint8 body[256];               // cells of the field, row by row
    sweep::uint8 grid[stride * stride];   // what is where, row by row, walls included
};

struct Params {
    int foods = 4;  // how many lie about at a time
};
constexpr sweep::Bounds bounds[] = {{1, 32}};

SWEEP_FN constexpr sweep::Input input(int) { return sweep::quantity(0.0f, 2.0f); }

// A cell of the field, as a place in `grid`.
SWEEP_FN int place(int cell) { return (cell / side + vision) * stride + cell % side + vision; }

SWEEP_FN void drop_food(State& s, sweep::Rng& rng) {
    int cell = rng.below(inner);
    for (int tries = 0; s.grid[place(cell)] != empty; tries++) {
        if (tries > 10000) return;  // the field is full
        cell = rng.below(inner);
    }
    s.grid[place(cell)] = food;
}

SWEEP_FN void reset(State& s, const Params& params, sweep::Rng& rng) {
    for (int i = 0; i < stride * stride; i++) s.grid[i] = deadly;
    for (int row = vision; row < vision + side; row++)
        for (int column = vision; column < vision + side; column++) s.grid[row * stride + column] = empty;
    for (int i = 0; i < 256; i++) s.body[i] = 0;
    s.length = 1;
    s.head = 0;
    s.steps = 0;
    s.body[0] = static_cast<sweep::uint8>(rng.below(inner));
    s.grid[place(s.body[0])] = deadly;
    for (int i = 0; i < params.foods; i++) drop_food(s, rng);
}

SWEEP_FN sweep::Outcome step(State& s, const Params&, int action, sweep::Rng& rng) {
    const int cell = s.body[s.head], at = place(cell);
    int row = (action == 1) - (action == 0), column = (action == 3) - (action == 2);
    if (s.length > 1 && at + row * stride + column == place(s.body[(s.head - 1) & 255])) {
        row = -row;
        column = -column;
    }
    const int next = at + row * stride + column;
    const sweep::uint8 what = s.grid[next];
    s.steps++;
    if (what == deadly) return {-1.0f, true, false};
    s.head = (s.head + 1) & 255;
    s.body[s.head] = static_cast<sweep::uint8>(cell + row * side + column);
    const bool eats = what == food;
    if (eats) drop_food(s, rng);
    if (eats && s.length < longest_snake) s.length++;
    else s.grid[place(s.body[(s.head - s.length) & 255])] = empty;
    s.grid[next] = deadly;
    return {eats ? 0.1f : 0.0f, false, s.steps >= longest_episode};
}

// The snake's length, as a share of the longest.
SWEEP_FN float metric(const State& s, const Params&) { return static_cast<float>(s.length) / longest_snake; }

SWEEP_FN void observe(const State& s, const Params&, sweep::uint8* observation) {
    const sweep::uint8* corner = s.grid + place(s.body[s.head]) - vision * stride - vision;
    for (int row = 0; row < window; row++) sweep::copy_bytes(observation + row * window, corner + row * stride, window);
}

constexpr sweep::Picture picture = {side, side};

SWEEP_FN void draw(const State& s, const Params&, sweep::Canvas& c) {
    c.rectangle(0, 0, side, side, 0x061818);
    for (int cell = 0; cell < inner; cell++)
        if (s.grid[place(cell)] == food)
            c.disc(static_cast<float>(cell % side) + 0.5f, static_cast<float>(cell / side) + 0.5f, 0.35f, 0xBB0000);
    for (int i = 0; i < s.length; i++) {
        const int cell = s.body[(s.head - i) & 255];
        c.rectangle(static_cast<float>(cell % side) + 0.05f, static_cast<float>(cell / side) + 0.05f, 0.9f, 0.9f,
                    i == 0 ? 0xF1F1F1 : 0x00BBBB);
    }
}

}  // namespace snake
