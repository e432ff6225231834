// MinAtar's Space Invaders: on 10 x 10 cells, a cannon shoots at aliens that come down and shoot back; each pays 1.
//
// Rules: github.com/kenjyoung/MinAtar 1.0.15, reproduced from recorded transitions. The actions are its minimal set:
// stay, left, right, fire (up and down stay too, and published PPO agents leave them out). With probability `sticky`
// the action before is repeated; an episode begins with stay, while MinAtar remembers the last action of the episode
// before. A wave that is shot down is followed by a faster one. A bullet or an alien on the cannon ends the episode,
// and so do aliens that would leave the screen; ours also ends, truncated, after 5,000 env steps.
#pragma once

#include "board.h"
#include "environment.h"

namespace space_invaders {

enum Channel { cannon, alien, alien_left, alien_right, friendly_bullet, enemy_bullet, channels };
constexpr sweep::Image image = {10, 10, channels};
constexpr int observation_size = 10 * 10 * channels;
constexpr int actions = 4;  // stay, left, right, fire
constexpr int longest_episode = 5000;

constexpr int shot_cool_down = 5, slowest_move = 12, fastest_move = 6, enemy_shot_interval = 10;  // env steps

// Maps of the screen: bit 10 * row + column of rows 0 to 4 in the first number, of rows 5 to 9 in the second.
using sweep::uint64;
constexpr uint64 half = (1ull << 50) - 1, first_column = 1ull | 1ull << 10 | 1ull << 20 | 1ull << 30 | 1ull << 40;
constexpr uint64 wave = 0xFCull | 0xFCull << 10 | 0xFCull << 20 | 0xFCull << 30;  // rows 0 to 3, columns 2 to 7

struct State {
    sweep::uint64 aliens[2];   // where aliens are: bit 10 * row + column, rows 0 to 4 and 5 to 9
    sweep::uint64 shots[2];    // where the player's bullets are, in the same way
    sweep::uint64 bullets[2];  // where the aliens' bullets are
    int pos;                   // column of the cannon, in row 9
    int shot_timer;            // env steps until it can fire
    int alien_dir;             // 1: they go right, -1: left
    int move_interval;         // env steps from one move of many aliens to the next, 12 to 6
    int move_timer;            // env steps until they move
    int bullet_timer;          // env steps until one fires
    int action;                // the last one, which may be repeated
    int steps;                 // env steps of this episode
};

struct Params {
    float sticky = 0.1f;  // probability that the action before is repeated
    int ramping = 1;      // 1: each wave is faster than the one before
};
constexpr sweep::Bounds bounds[] = {{0, 1}, {0, 1}};

SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }

SWEEP_FN int count(uint64 bits) {
    bits -= bits >> 1 & 0x5555555555555555ull;
    bits = (bits & 0x3333333333333333ull) + (bits >> 2 & 0x3333333333333333ull);
    return static_cast<int>(((bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Full) * 0x0101010101010101ull >> 56);
}
SWEEP_FN bool in_row_9(const uint64* map, int column) { return map[1] >> (40 + column) & 1u; }

SWEEP_FN void reset(State& s, const Params&, sweep::Rng&) {
    s.aliens[0] = wave;
    s.aliens[1] = s.shots[0] = s.shots[1] = s.bullets[0] = s.bullets[1] = 0;
    s.pos = 5;
    s.shot_timer = 0;
    s.alien_dir = -1;
    s.move_interval = s.move_timer = slowest_move;
    s.bullet_timer = enemy_shot_interval;
    s.action = 0;
    s.steps = 0;
}

// Moves the aliens, sideways or, at an edge, down. True where one leaves the screen.
SWEEP_FN bool move_aliens(State& s) {
    const uint64 top = s.aliens[0], bottom = s.aliens[1], edge = s.alien_dir < 0 ? first_column : first_column << 9;
    if ((top | bottom) & edge) {
        s.alien_dir = -s.alien_dir;
        s.aliens[0] = (top << 10 & half) | bottom >> 40;  // who leaves comes back at the top, as in the reference
        s.aliens[1] = (bottom << 10 & half) | top >> 40;
        return bottom >> 40 != 0;
    }
    for (int i = 0; i < 2; i++) s.aliens[i] = s.alien_dir < 0 ? s.aliens[i] >> 1 : s.aliens[i] << 1;
    return false;
}

// The alien in the nearest column, the left one of two, and there the lowest, fires.
SWEEP_FN void fire_back(State& s) {
    uint64 columns = s.aliens[0] | s.aliens[1];
    columns |= columns >> 10 | columns >> 20 | columns >> 30 | columns >> 40;
    int column = s.pos;
    for (int away = 0; away < 10; away++) {
        const int left = s.pos - away, right = s.pos + away;
        if (left >= 0 && (columns >> left & 1u)) { column = left; break; }
        if (right <= 9 && (columns >> right & 1u)) { column = right; break; }
    }
    for (int row = 9; row >= 0; row--) {
        const uint64 bit = 1ull << (10 * (row % 5) + column);
        if (s.aliens[row / 5] & bit) {
            s.bullets[row / 5] |= bit;
            return;
        }
    }
}

SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng& rng) {
    if (rng.chance(p.sticky)) action = s.action;
    s.action = action;
    s.steps++;
    if (action == 3 && s.shot_timer == 0) {
        s.shots[1] |= 1ull << (40 + s.pos);
        s.shot_timer = shot_cool_down;
    }
    if (action == 1 && s.pos > 0) s.pos--;
    if (action == 2 && s.pos < 9) s.pos++;

    s.shots[0] = s.shots[0] >> 10 | (s.shots[1] << 40 & half);
    s.shots[1] >>= 10;
    s.bullets[1] = (s.bullets[1] << 10 & half) | s.bullets[0] >> 40;
    s.bullets[0] = s.bullets[0] << 10 & half;

    bool over = in_row_9(s.bullets, s.pos) || in_row_9(s.aliens, s.pos);
    if (s.move_timer == 0) {
        const int left = count(s.aliens[0]) + count(s.aliens[1]);
        s.move_timer = left < s.move_interval ? left : s.move_interval;
        over |= move_aliens(s);
        over |= in_row_9(s.aliens, s.pos);
    }
    if (s.bullet_timer == 0) {
        s.bullet_timer = enemy_shot_interval;
        fire_back(s);
    }
    int shot = 0;
    for (int i = 0; i < 2; i++) {
        const uint64 both = s.aliens[i] & s.shots[i];
        s.aliens[i] ^= both;
        s.shots[i] ^= both;
        if (both) shot += count(both);
    }
    if (s.shot_timer > 0) s.shot_timer--;
    s.move_timer--;
    s.bullet_timer--;
    if ((s.aliens[0] | s.aliens[1]) == 0) {
        if (s.move_interval > fastest_move && p.ramping) s.move_interval--;
        s.aliens[0] = wave;
    }
    return {static_cast<float>(shot), over, !over && s.steps >= longest_episode};
}

SWEEP_FN void observe(const State& s, const Params&, sweep::uint8* observation) {
    sweep::clear_board(observation, observation_size);
    const int direction = s.alien_dir < 0 ? alien_left : alien_right;
    for (int row = 0; row < 10; row++) {
        const int at = 10 * (row % 5);
        const sweep::uint32 aliens = s.aliens[row / 5] >> at & 1023u, shots = s.shots[row / 5] >> at & 1023u,
                            bullets = s.bullets[row / 5] >> at & 1023u;
        if (!(aliens | shots | bullets)) continue;
        sweep::uint8* cell = observation + 10 * row * channels;
        for (int column = 0; column < 10; column++, cell += channels) {
            cell[alien] = cell[direction] = aliens >> column & 1u;
            cell[friendly_bullet] = shots >> column & 1u;
            cell[enemy_bullet] = bullets >> column & 1u;
        }
    }
    observation[(10 * 9 + s.pos) * channels + cannon] = 1;
}

constexpr sweep::Picture picture = {10.0f, 10.0f};

SWEEP_FN void draw(const State& s, const Params& p, sweep::Canvas& c) {
    constexpr sweep::uint32 colours[channels] = {0x1a2441, 0x1b6145, 0x697b30, 0xc87b7c, 0xcda2e0, 0xc6e1f1};
    sweep::uint8 board[observation_size];
    observe(s, p, board);
    sweep::draw_board(c, board, image, colours);
}

}  // namespace space_invaders
