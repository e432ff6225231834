// Breakout, as PufferLib 3.0 plays it: two screens of bricks, six balls, 864 points.
//
// Rules: github.com/PufferAI/PufferLib, ocean/breakout, reproduced from recorded transitions. Lengths are pixels, y
// points down, a frame is 1/60 s. The ball is a square; in each frame it moves to its first contact at most.
#pragma once

#include "environment.h"
#include "math.h"

namespace breakout {

constexpr int rows = 6, columns = 18;
constexpr int observation_size = 10 + rows * columns;
constexpr int actions = 3;             // stay, left, right
constexpr int frame_limit = 30000;     // then an episode is truncated
constexpr int longest_episode = 7500;

constexpr float field_width = 576.0f, field_height = 330.0f;
constexpr float brick_width = 32.0f, brick_height = 12.0f, bricks_top = 50.0f;
constexpr float bricks_bottom = bricks_top + rows * brick_height;
constexpr float ball_size = 32.0f, lost_below = 320.0f;
constexpr float full_width = 62.0f, paddle_top = 312.0f, paddle_speed = 620.0f / 60.0f;
constexpr float slow = 256.0f, fast = 448.0f, faster = 64.0f;
constexpr float pi = 3.14159265358979f;
constexpr int full_screen = 432, balls = 6;

struct State {
    float paddle_x;      // px, its left end
    float paddle_y;      // px, its top; never changes
    float paddle_width;  // px, 62, or 31 once the ball has touched the top wall
    float ball_x;        // px, the left side of the ball
    float ball_y;        // px, the top of the ball
    float ball_vx;       // px per frame
    float ball_vy;       // px per frame
    float ball_speed;    // px per second, from the next paddle hit on
    int hits;            // paddle hits in this round
    int balls_fired;     // 1 once this round's ball is launched
    int balls_left;      // spare balls
    int score;           // points
    int frames;          // frames of this episode
    sweep::uint8 bricks[rows * columns];  // 1 where gone, row by row
};

struct Params {
    int frameskip = 4;  // frames that an action is held
};
constexpr sweep::Bounds bounds[] = {{1, 16}};

SWEEP_FN constexpr sweep::Input input(int i) {
    constexpr float fastest = fast / 60.0f / 512.0f;
    switch (i) {
        case 0: return sweep::quantity(0.0f, (field_width - full_width / 2) / field_width);  // paddle x
        case 1: return sweep::quantity(paddle_top / field_height, paddle_top / field_height);
        case 2: return sweep::quantity(0.0f, (field_width - ball_size) / field_width);       // ball x
        case 3: return sweep::quantity(0.0f, lost_below / field_height);                     // ball y
        case 4: return sweep::quantity(-fastest, fastest);
        case 5: return sweep::quantity(-fastest, fastest);
        case 6: return sweep::quantity(0.0f, 0.2f);   // launched
        case 7: return sweep::quantity(0.0f, 1.0f);   // score
        case 8: return sweep::quantity(0.0f, 1.0f);   // spare balls
        case 9: return sweep::quantity(0.5f, 1.0f);   // paddle width
        default: return sweep::flag();                // bricks
    }
}

SWEEP_FN void start_round(State& s) {
    s.paddle_x = (field_width - full_width) / 2;
    s.paddle_width = full_width;
    s.ball_x = s.paddle_x + (full_width - ball_size) / 2;
    s.ball_y = 135.0f;
    s.ball_vx = s.ball_vy = 0.0f;
    s.ball_speed = slow;
    s.hits = 0;
    s.balls_fired = 0;
}

SWEEP_FN void restore_bricks(State& s) {
    for (int i = 0; i < rows * columns; i++) s.bricks[i] = 0;
}

SWEEP_FN void reset(State& s, const Params&, sweep::Rng&) {
    s.paddle_y = paddle_top;
    s.balls_left = balls - 1;
    s.score = 0;
    s.frames = 0;
    restore_bricks(s);
    start_round(s);
}

// The first thing that the ball meets in a frame.
struct Contact {
    float time;     // in frames from now; above 1: nothing
    float overlap;  // px along the face; the larger one wins a tie
    int what;       // a brick's number, or one of those below
    bool upright;   // a face met sideways
};
constexpr int side_wall = -1, top_wall = -2, paddle = -3;

// Considers a face from `low` to `high`, `distance` ahead of a ball whose side starts at `start` along the face.
SWEEP_FN void consider(Contact& first, float distance, float speed, float start, float drift, float low, float high,
                       int what, bool upright) {
    float time = distance / speed;
    float at = start + drift * time;
    float overlap = sweep::lowest(at + ball_size, high) - sweep::highest(at, low);
    bool valid = time > 0.0f && time <= 1.0f && overlap > 0.0f;
    if (valid && (time < first.time || (time == first.time && overlap > first.overlap)))
        first = {time, overlap, what, upright};
}

SWEEP_FN int cell(float position, float size, int last) {
    int i = static_cast<int>(position / size);
    return i < 0 ? 0 : i > last ? last : i;
}

// Considers the standing bricks in the box that the ball sweeps.
SWEEP_FN void consider_bricks(Contact& first, const State& s) {
    const float x = s.ball_x, y = s.ball_y, vx = s.ball_vx, vy = s.ball_vy;
    const float left = x + sweep::lowest(vx, 0.0f), right = x + ball_size + sweep::highest(vx, 0.0f);
    const float top = y + sweep::lowest(vy, 0.0f) - bricks_top, bottom = y + ball_size + sweep::highest(vy, 0.0f) - bricks_top;
    const int row_end = cell(bottom, brick_height, rows - 1), column_end = cell(right, brick_width, columns - 1);
    for (int row = cell(top, brick_height, rows - 1); row <= row_end; row++) {
        for (int column = cell(left, brick_width, columns - 1); column <= column_end; column++) {
            const int brick = row * columns + column;
            if (s.bricks[brick] != 0) continue;
            const float brick_x = column * brick_width, brick_y = bricks_top + row * brick_height;
            if (vx != 0.0f)
                consider(first, vx > 0.0f ? brick_x - (x + ball_size) : brick_x + brick_width - x, vx, y, vy, brick_y,
                         brick_y + brick_height, brick, true);
            if (vy != 0.0f)
                consider(first, vy > 0.0f ? brick_y - (y + ball_size) : brick_y + brick_height - y, vy, x, vx, brick_x,
                         brick_x + brick_width, brick, false);
        }
    }
}

SWEEP_FN void hit_paddle(State& s) {
    const float u = (s.ball_x + ball_size / 2 - s.paddle_x) / s.paddle_width;
    const float angle = -pi / 4 + pi / 2 * u;  // from straight up
    s.ball_vx = s.ball_speed / 60.0f * sweep::sin(angle);
    s.ball_vy = -s.ball_speed / 60.0f * sweep::cos(angle);
    s.hits++;
    if (s.hits % 4 == 0 && s.ball_speed < fast) s.ball_speed += faster;
    if (s.score == full_screen) restore_bricks(s);
}

// The points of the brick.
SWEEP_FN int break_brick(State& s, int brick) {
    const int row = brick / columns, points = 7 - 3 * (row / 2);
    s.bricks[brick] = 1;
    s.score += points;
    if (row < 3) s.ball_speed = fast;
    return points;
}

// Finds the first contact of this frame and moves the ball to it, or by its velocity. Returns the points.
SWEEP_FN int move_ball(State& s) {
    const float x = s.ball_x, y = s.ball_y, vx = s.ball_vx, vy = s.ball_vy;
    Contact first = {2.0f, 0.0f, 0, false};
    if (y + sweep::lowest(vy, 0.0f) <= bricks_bottom && y + ball_size + sweep::highest(vy, 0.0f) >= bricks_top)
        consider_bricks(first, s);
    if (vx < 0.0f) consider(first, -x, vx, y, vy, 0.0f, field_height, side_wall, true);
    if (vx > 0.0f) consider(first, field_width - (x + ball_size), vx, y, vy, 0.0f, field_height, side_wall, true);
    if (vy < 0.0f) consider(first, -y, vy, x, vx, 0.0f, field_width, top_wall, false);
    if (vy > 0.0f && y + vy + ball_size >= paddle_top) {
        Contact before = first;
        first.overlap = 1e9f;  // it has to be earlier
        consider(first, paddle_top - (y + ball_size), vy, x, vx, s.paddle_x, s.paddle_x + s.paddle_width, paddle, false);
        if (first.what != paddle) first = before;
    }
    if (first.time > 1.0f) {
        s.ball_x = x + vx;
        s.ball_y = y + vy;
        return 0;
    }
    if (first.what == paddle) {
        hit_paddle(s);
        return 0;
    }
    s.ball_x = x + vx * first.time;
    s.ball_y = y + vy * first.time;
    if (first.upright) s.ball_vx = -vx;
    else s.ball_vy = -vy;
    if (first.what == top_wall) s.paddle_width = full_width / 2;
    return first.what >= 0 ? break_brick(s, first.what) : 0;
}

SWEEP_FN void launch(State& s, sweep::Rng& rng) {
    const float angle = pi / 3.25f, side = (rng.next() & 1u) != 0u ? 1.0f : -1.0f;
    s.ball_vx = side * (slow / 60.0f * sweep::sin(angle));
    s.ball_vy = slow / 60.0f * sweep::cos(angle);
    s.balls_fired = 1;
}

// One frame; its points are added to `points`. True where the episode has ended.
SWEEP_FN bool play_frame(State& s, float paddle_move, sweep::Rng& rng, int& points) {
    if (s.balls_fired == 0) launch(s, rng);
    else s.paddle_x = sweep::clamp(s.paddle_x + paddle_move, 0.0f, field_width - s.paddle_width);
    const float nudge = 1.1f * fast / 60.0f;
    if (s.ball_x < 0.0f) s.ball_x += nudge;
    if (s.ball_x > field_width) s.ball_x -= nudge;
    if (s.ball_y < 0.0f) s.ball_y += nudge;
    points += move_ball(s);
    s.frames++;
    if (s.ball_y >= lost_below) {
        if (s.balls_left == 0) return true;
        s.balls_left--;
        start_round(s);
    }
    return s.score == 2 * full_screen;
}

SWEEP_FN sweep::Outcome step(State& s, const Params& params, int action, sweep::Rng& rng) {
    const float paddle_move = action == 0 ? 0.0f : action == 1 ? -paddle_speed : paddle_speed;
    int points = 0;
    for (int i = 0; i < params.frameskip; i++) {
        if (play_frame(s, paddle_move, rng, points)) return {static_cast<float>(points), true, false};
        if (s.frames >= frame_limit) return {static_cast<float>(points), false, true};
    }
    return {static_cast<float>(points), false, false};
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    observation[0] = s.paddle_x / field_width;
    observation[1] = s.paddle_y / field_height;
    observation[2] = s.ball_x / field_width;
    observation[3] = s.ball_y / field_height;
    observation[4] = s.ball_vx / 512.0f;
    observation[5] = s.ball_vy / 512.0f;
    observation[6] = s.balls_fired / 5.0f;
    observation[7] = s.score / 864.0f;
    observation[8] = s.balls_left / 5.0f;
    observation[9] = s.paddle_width / full_width;
    for (int i = 0; i < rows * columns; i++) observation[10 + i] = s.bricks[i];
}

}  // namespace breakout
