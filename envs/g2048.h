// 2048, as Jumanji plays it: slide the tiles of a 4 x 4 board, and equal ones that meet become one of twice the value.
//
// Rules: Jumanji 1.1's Game2048-v1 (github.com/instadeepai/jumanji), after Gabriele Cirulli's 2048 of 2014, held against
// recorded transitions. Actions: up, right, down, left. A merged tile pays its value; after each move a tile, 2 or one time
// in ten 4, appears at an empty cell; the game is over where no tile can move. A move that moves nothing passes. What is
// observed are the exponents, row by row (0 empty, 1 for 2, 2 for 4 ...), and of each action whether it moves something. As
// there, a game begins with one tile (Cirulli's with two). Not as there: an episode is truncated after 5,000 env steps
// (there it has no limit).
#pragma once

#include "environment.h"

namespace g2048 {

constexpr int side = 4, cells = side * side;
constexpr int actions = 4;
constexpr int observation_size = cells + actions;
constexpr int longest_episode = 5000;

struct State {
    int score;                    // the values of all merged tiles
    int steps;                    // env steps of this episode
    sweep::uint8 tiles[cells];    // exponents, row by row; 0 empty
    sweep::uint8 legal[actions];  // 1 where the action moves something
};

struct Params {};

SWEEP_FN constexpr sweep::Input input(int i) { return i < cells ? sweep::typical(0.0f, 11.0f) : sweep::flag(); }

// An action slides the tiles of four lines to where each begins: the first line's, the step to the next line's, and the
// step within a line.
struct Slide {
    int first, line, cell;
};
constexpr Slide slides[actions] = {{0, 1, side}, {side - 1, side, -1}, {cells - side, 1, -side}, {0, side, 1}};

// Whether a tile at `from` may go or merge to `to`, the cell before it: nonzero if so.
SWEEP_FN int gives_way(sweep::uint8 to, sweep::uint8 from) { return (from != 0) & ((to == 0) | (to == from)); }

// What moves, for all actions.
SWEEP_FN void find_legal(State& s) {
    int up = 0, down = 0, left = 0, right = 0;
    for (int i = 0; i < cells - side; i++) {
        up |= gives_way(s.tiles[i], s.tiles[i + side]);
        down |= gives_way(s.tiles[i + side], s.tiles[i]);
    }
    for (int row = 0; row < cells; row += side) {
        for (int i = row; i < row + side - 1; i++) {
            left |= gives_way(s.tiles[i], s.tiles[i + 1]);
            right |= gives_way(s.tiles[i + 1], s.tiles[i]);
        }
    }
    s.legal[0] = static_cast<sweep::uint8>(up);
    s.legal[1] = static_cast<sweep::uint8>(right);
    s.legal[2] = static_cast<sweep::uint8>(down);
    s.legal[3] = static_cast<sweep::uint8>(left);
}

SWEEP_FN void drop_tile(State& s, sweep::Rng& rng) {
    int empty[cells + 1], count = 0;
    for (int i = 0; i < cells; i++) {
        empty[count] = i;
        count += s.tiles[i] == 0;
    }
    s.tiles[empty[rng.below(count)]] = rng.chance(0.1f) ? 2 : 1;
}

// Slides one line, each tile merging once at most. Returns the values of those merged.
SWEEP_FN int slide_line(sweep::uint8* tiles, int first, int step) {
    int out[side + 1] = {}, filled = 0, mergeable = 0, points = 0;
    for (int i = 0; i < side; i++) {
        const int tile = tiles[first + i * step], is_tile = tile != 0, merges = is_tile & (tile == mergeable);
        out[filled - merges] = tile + merges;   // an empty cell writes a 0 that the next tile overwrites
        filled += is_tile - merges;
        mergeable = merges ? 0 : is_tile ? tile : mergeable;
        points += merges << (tile + 1);
    }
    for (int i = 0; i < side; i++) tiles[first + i * step] = static_cast<sweep::uint8>(out[i]);
    return points;
}

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.score = s.steps = 0;
    for (int i = 0; i < cells; i++) s.tiles[i] = 0;
    drop_tile(s, rng);
    find_legal(s);
}

SWEEP_FN sweep::Outcome step(State& s, const Params&, int action, sweep::Rng& rng) {
    s.steps++;
    const bool late = s.steps >= longest_episode;
    if (s.legal[action] == 0) return {0.0f, false, late};
    const Slide slide = slides[action];
    int points = 0;
    for (int i = 0; i < side; i++) points += slide_line(s.tiles, slide.first + i * slide.line, slide.cell);
    s.score += points;
    drop_tile(s, rng);
    find_legal(s);
    const bool over = (s.legal[0] | s.legal[1] | s.legal[2] | s.legal[3]) == 0;
    return {static_cast<float>(points), over, late && !over};
}

SWEEP_FN int largest(const State& s) {
    int most = 0;
    for (int i = 0; i < cells; i++) most = s.tiles[i] > most ? s.tiles[i] : most;
    return most;
}

// The largest tile, as a share of 2048.
SWEEP_FN float metric(const State& s, const Params&) {
    return sweep::lowest(static_cast<float>(1 << largest(s)) / 2048.0f, 1.0f);
}

SWEEP_FN void observe(const State& s, const Params&, sweep::uint8* observation) {
    for (int i = 0; i < cells; i++) observation[i] = s.tiles[i];
    for (int i = 0; i < actions; i++) observation[cells + i] = s.legal[i];
}

constexpr sweep::Picture picture = {side, side};

// A tile's exponent as dots, and in its colour.
SWEEP_FN void draw(const State& s, const Params&, sweep::Canvas& c) {
    constexpr sweep::uint32 colours[12] = {0x103030, 0xEEE4DA, 0xEDE0C8, 0xF2B179, 0xF59563, 0xF67C5F,
                                           0xF65E3B, 0xEDCF72, 0xEDCC61, 0xEDC850, 0xEDC53F, 0x00BBBB};
    for (int i = 0; i < cells; i++) {
        const int tile = s.tiles[i];
        const float x = static_cast<float>(i % side), y = static_cast<float>(i / side);
        c.rectangle(x + 0.04f, y + 0.04f, 0.92f, 0.92f, colours[tile < 11 ? tile : 11]);
        for (int dot = 0; dot < tile; dot++)
            c.disc(x + 0.2f + 0.2f * static_cast<float>(dot % side), y + 0.2f + 0.2f * static_cast<float>(dot / side), 0.06f, 0x303030);
    }
}

}  // namespace g2048
