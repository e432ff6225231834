// Pong, as PufferLib 3.0 plays it: against a paddle that follows the ball, first to 21 points.
//
// Rules: github.com/PufferAI/PufferLib 3.0, ocean/pong, held against recorded transitions. Actions: stay, towards larger
// y, towards smaller y. Lengths are pixels; the player is at x = 500, its opponent at x = 0; y points up. A bounce pays
// 0.1, a point won 1, a point lost -1. Not as there: the two scores are not observed (there a whole-number division
// shows both as 0 always), what is observed after a point is the next serve (there the frame before it), and an episode is
// truncated after 40,000 frames (there a rally may last for ever).
#pragma once

#include "environment.h"

namespace pong {

constexpr int observation_size = 6;
constexpr int actions = 3;
constexpr int frame_limit = 40000;   // then an episode is truncated
constexpr int longest_episode = 5000;
constexpr int points_to_win = 21;

constexpr float width = 500.0f, height = 640.0f;
constexpr float paddle_height = 70.0f, paddle_speed = 8.0f;
constexpr float lowest_paddle = -paddle_height / 2, highest_paddle = height - paddle_height / 2;
constexpr float ball_size = 32.0f, ball_speed = 10.0f;
constexpr float steepest = 13.0f, spin = 3.0f;   // px per frame: the ball's fastest vy; what a moving paddle adds to it

struct State {
    float opponent_y;    // px, the lower end of its paddle
    float player_y;      // px, the lower end of ours
    float ball_x;        // px, the left side of the ball
    float ball_y;        // px, the bottom of the ball
    float ball_vx;       // px per frame
    float ball_vy;       // px per frame
    int opponent_score;  // points
    int player_score;    // points
    int frames;          // frames of this episode
};

struct Params {
    int frameskip = 8;  // frames that an action is held
};
constexpr sweep::Bounds bounds[] = {{1, 16}};

// The ball may be beyond an edge for a frame.
SWEEP_FN constexpr sweep::Input input(int i) {
    return i == 2 || i == 3 ? sweep::typical(0.0f, 1.0f) : sweep::quantity(0.0f, 1.0f);
}

SWEEP_FN void serve(State& s, sweep::Rng& rng) {
    s.opponent_y = s.player_y = (height - paddle_height) / 2;
    s.ball_x = width / 5;
    s.ball_y = (height - ball_size) / 2;
    s.ball_vx = ball_speed;
    s.ball_vy = (rng.next() & 1u) != 0u ? 0.0f : -1.0f;
}

SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.opponent_score = s.player_score = 0;
    s.frames = 0;
    serve(s, rng);
}

SWEEP_FN bool meets(float ball_y, float paddle_y) {
    return (ball_y + ball_size > paddle_y) & (ball_y < paddle_y + paddle_height);
}

// The player's paddle returns the ball: moving, it adds spin.
SWEEP_FN void return_ball(State& s, float direction) {
    s.ball_vx = -s.ball_vx;
    s.ball_vy = sweep::clamp(s.ball_vy + spin * direction, -steepest, steepest);
    if (s.ball_vy < 0.01f && s.ball_vy > -0.01f) s.ball_vy = spin;
    s.ball_x = sweep::clamp(s.ball_x, 0.0f, width - ball_size);
    s.ball_y = sweep::clamp(s.ball_y, 0.0f, height - ball_size);
}

SWEEP_FN sweep::Outcome step(State& s, const Params& params, int action, sweep::Rng& rng) {
    const float direction = action == 1 ? 1.0f : action == 2 ? -1.0f : 0.0f;
    float reward = 0.0f;
    for (int i = 0; i < params.frameskip; i++) {
        s.frames++;
        s.player_y = sweep::clamp(s.player_y + paddle_speed * direction, lowest_paddle, highest_paddle);
        const float away = sweep::clamp(s.ball_y - (s.opponent_y + paddle_height / 2), -paddle_speed, paddle_speed);
        s.opponent_y = sweep::clamp(s.opponent_y + away, lowest_paddle, highest_paddle);
        s.ball_x += s.ball_vx;
        s.ball_y += s.ball_vy;
        if ((s.ball_y < 0.0f) | (s.ball_y + ball_size > height)) s.ball_vy = -s.ball_vy;
        const bool left = s.ball_x < 0.0f, right = s.ball_x + ball_size > width;
        if (!(left | right)) continue;
        if (left && meets(s.ball_y, s.opponent_y)) {
            s.ball_vx = -s.ball_vx;
        } else if (right && meets(s.ball_y, s.player_y)) {
            return_ball(s, direction);
            reward = 0.1f;
        } else {
            s.player_score += left;
            s.opponent_score += right;
            const bool over = (s.player_score == points_to_win) | (s.opponent_score == points_to_win);
            serve(s, rng);
            return {left ? 1.0f : -1.0f, over, !over && s.frames >= frame_limit};
        }
    }
    return {reward, false, s.frames >= frame_limit};
}

// The share of the points that the player has won.
SWEEP_FN float metric(const State& s, const Params&) {
    const int points = s.player_score + s.opponent_score;
    return points == 0 ? 0.0f : static_cast<float>(s.player_score) / static_cast<float>(points);
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = (s.opponent_y - lowest_paddle) / (highest_paddle - lowest_paddle);
    observation[1] = (s.player_y - lowest_paddle) / (highest_paddle - lowest_paddle);
    observation[2] = s.ball_x / width;
    observation[3] = s.ball_y / height;
    observation[4] = (s.ball_vx + ball_speed) / (2 * ball_speed);
    observation[5] = (s.ball_vy + steepest) / (2 * steepest);
}

constexpr float paddle_width = 20.0f;
constexpr sweep::Picture picture = {width + 2 * paddle_width, height};

SWEEP_FN void draw(const State& s, const Params&, sweep::Canvas& c) {
    for (int i = 0; i < 21; i++) c.rectangle(paddle_width + width / 2 - 2, height * (i + 0.25f) / 21, 4, height / 42, 0x304848);
    c.rectangle(0, height - s.opponent_y - paddle_height, paddle_width, paddle_height, 0xFF5555);
    c.rectangle(width + paddle_width, height - s.player_y - paddle_height, paddle_width, paddle_height, 0x00BBBB);
    c.rectangle(paddle_width + s.ball_x, height - s.ball_y - ball_size, ball_size, ball_size, 0xF1F1F1);
    for (int i = 0; i < s.opponent_score; i++) c.rectangle(paddle_width + 4 + 10 * i, 8, 6, 6, 0xFF5555);
    for (int i = 0; i < s.player_score; i++) c.rectangle(paddle_width + width - 10 - 10 * i, 8, 6, 6, 0x00BBBB);
}

}  // namespace pong
