// MinAtar's Breakout: on 10 x 10 cells, a paddle keeps a ball in play that breaks three rows of bricks; each pays 1.
//
// Rules: github.com/kenjyoung/MinAtar 1.0.15, reproduced from recorded transitions. The actions are its minimal set:
// stay, left, right (its other three stay too, and published PPO agents leave them out). With probability `sticky` the
// action before is repeated; an episode begins with stay, while MinAtar remembers the last action of the episode
// before. A new wall comes when the ball falls to the paddle's row and no brick stands. Missing the ball ends the
// episode; ours also ends, truncated, after 5,000 env steps. gymnax 1.0.1 plays the same game; but its actions are not
// sticky and its episodes last 1,000 env steps at most.
#pragma once

#include "board.h"
#include "environment.h"

namespace breakout_minatar {

enum Channel { paddle, ball, trail, brick, channels };
constexpr sweep::Image image = {10, 10, channels};
constexpr int observation_size = 10 * 10 * channels;
constexpr int actions = 3;  // stay, left, right
constexpr int longest_episode = 5000;

constexpr sweep::uint32 wall = (1u << 30) - 1;  // all bricks
enum Direction { up_left, up_right, down_right, down_left };

struct State {
    int ball_x, ball_y;      // column and row, row 0 at the top
    int ball_dir;            // 0 up left, 1 up right, 2 down right, 3 down left
    int last_x, last_y;      // where the ball was an env step ago
    int pos;                 // column of the paddle, in row 9
    int strike;              // 1: the ball has just broken a brick and passes through another
    sweep::uint32 bricks;    // bit 10 * (row - 1) + column of the bricks that stand, in rows 1 to 3
    int action;              // the last one, which may be repeated
    int steps;               // env steps of this episode
};

struct Params {
    float sticky = 0.1f;  // probability that the action before is repeated
    int ramping = 1;      // no effect: this game's difficulty does not rise
};
constexpr sweep::Bounds bounds[] = {{0, 1}, {0, 1}};

SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    const bool from_right = rng.below(2) != 0;
    s.ball_x = s.last_x = from_right ? 9 : 0;
    s.ball_y = s.last_y = 3;
    s.ball_dir = from_right ? down_left : down_right;
    s.pos = 4;
    s.strike = 0;
    s.bricks = wall;
    s.action = 0;
    s.steps = 0;
}

SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng& rng) {
    if (rng.chance(p.sticky)) action = s.action;
    s.action = action;
    s.steps++;
    if (action == 1 && s.pos > 0) s.pos--;
    if (action == 2 && s.pos < 9) s.pos++;

    const int old_x = s.last_x = s.ball_x, old_y = s.last_y = s.ball_y;
    int x = old_x + (s.ball_dir == up_right || s.ball_dir == down_right ? 1 : -1);
    int y = old_y + (s.ball_dir <= up_right ? -1 : 1);
    if (x < 0 || x > 9) {
        x = x < 0 ? 0 : 9;
        s.ball_dir ^= 1;
    }
    bool struck = false, lost = false;
    float reward = 0.0f;
    const sweep::uint32 bit = y >= 1 && y <= 3 ? 1u << (10 * (y - 1) + x) : 0u;
    if (y < 0) {
        y = 0;
        s.ball_dir = 3 - s.ball_dir;
    } else if (s.bricks & bit) {
        struck = true;
        if (!s.strike) {
            reward = 1.0f;
            s.bricks &= ~bit;
            y = old_y;
            s.ball_dir = 3 - s.ball_dir;
        }
    } else if (y == 9) {
        if (s.bricks == 0) s.bricks = wall;
        if (old_x == s.pos) s.ball_dir = 3 - s.ball_dir;        // from above: as from a mirror
        else if (x == s.pos) s.ball_dir = (s.ball_dir + 2) % 4;  // from the side: back where it came from
        else lost = true;
        if (!lost) y = old_y;
    }
    s.strike = struck;
    s.ball_x = x;
    s.ball_y = y;
    return {reward, lost, !lost && s.steps >= longest_episode};
}

SWEEP_FN void observe(const State& s, const Params&, sweep::uint8* observation) {
    sweep::clear_board(observation, observation_size);
    for (int i = 0; i < 30; i++) observation[(10 + i) * channels + brick] = s.bricks >> i & 1u;
    observation[(10 * s.ball_y + s.ball_x) * channels + ball] = 1;
    observation[(10 * 9 + s.pos) * channels + paddle] = 1;
    observation[(10 * s.last_y + s.last_x) * channels + trail] = 1;
}

constexpr sweep::Picture picture = {10.0f, 10.0f};

SWEEP_FN void draw(const State& s, const Params& p, sweep::Canvas& c) {
    constexpr sweep::uint32 colours[channels] = {0x163d4e, 0x54792f, 0xd07e93, 0xc1caf3};
    sweep::uint8 board[observation_size];
    observe(s, p, board);
    sweep::draw_board(c, board, image, colours);
}

}  // namespace breakout_minatar
