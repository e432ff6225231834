// Board: a fruit falls over a small board and a paddle below catches it: an image of flags, as bytes.
#pragma once
#include "environment.h"

namespace board {

constexpr int height = 6, width = 5, channels = 3;   // paddle, fruit, and a flag that blinks
constexpr int observation_size = height * width * channels, actions = 3, longest_episode = 60;
constexpr sweep::Image image = {height, width, channels};

struct State {
    int paddle, column, row;   // cells
    int elapsed;               // env steps
};
struct Params {};

SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) { s = {width / 2, rng.below(width), 0, 0}; }

SWEEP_FN sweep::Outcome step(State& s, const Params&, int action, sweep::Rng& rng) {
    s.paddle += action - 1;
    s.paddle = s.paddle < 0 ? 0 : s.paddle >= width ? width - 1 : s.paddle;
    float reward = 0.0f;
    if (++s.row == height) {
        reward = s.column == s.paddle ? 1.0f : -1.0f;
        s.column = rng.below(width);
        s.row = 0;
    }
    return {reward, false, ++s.elapsed >= longest_episode};
}

SWEEP_FN void observe(const State& s, const Params&, sweep::uint8* observation) {
    for (int i = 0; i < observation_size; i++) observation[i] = 0;
    observation[((height - 1) * width + s.paddle) * channels] = 1;
    observation[(s.row * width + s.column) * channels + 1] = 1;
    observation[(s.elapsed % height * width) * channels + 2] = 1;
}

}  // namespace board
