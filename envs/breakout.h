// Breakout, as PufferLib 3.0 plays it: two screens of bricks, six balls, 864 points.
//
// Rules: github.com/PufferAI/PufferLib, ocean/breakout, reproduced from recorded transitions. Lengths are pixels, y
// points down, a frame is 1/60 s. The ball is a square; in each frame it moves to its first contact at most.
#pragma once

#include "environment.h"
#include "math.h"

namespace breakout {

constexpr int rows = 6, columns = 18;
constexpr int quantity_count = 10;     // what is observed beside the bricks
constexpr int observation_size = quantity_count + rows * columns;
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
        case 2: return sweep::typical(0.0f, (field_width - ball_size) / field_width);        // ball x: it may leave the field
        case 3: return sweep::typical(0.0f, lost_below / field_height);                      // ball y: for some frames
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

// Whether a face `distance` ahead is met in this frame.
SWEEP_FN bool in_reach(float distance, float speed) {
    return speed > 0.0f ? distance > 0.0f && distance <= speed : distance < 0.0f && distance >= speed;
}

// Takes the face from `low` to `high`, met `time` from now with the ball `at` along it, if it is the first.
SWEEP_FN void consider(Contact& first, float time, float at, float low, float high, int what, bool upright) {
    const float overlap = sweep::lowest(at + ball_size, high) - sweep::highest(at, low);
    if (overlap > 0.0f && (time < first.time || (time == first.time && overlap > first.overlap)))
        first = {time, overlap, what, upright};
}

SWEEP_FN int round_up(float x) {
    const int i = static_cast<int>(x);
    return static_cast<float>(i) < x ? i + 1 : i;
}
SWEEP_FN int between(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

// The standing bricks: in one frame the ball can reach the faces of one column and of one row.
SWEEP_FN void consider_bricks(Contact& first, const State& s) {
    const float x = s.ball_x, y = s.ball_y, vx = s.ball_vx, vy = s.ball_vy;

    const int column = vx > 0.0f ? static_cast<int>((x + ball_size) / brick_width) + 1 : round_up(x / brick_width) - 2;
    const float across = vx > 0.0f ? column * brick_width - (x + ball_size) : (column + 1) * brick_width - x;
    if (in_reach(across, vx) && column >= 0 && column < columns) {
        const float time = across / vx, at = y + vy * time;
        const int end = between(static_cast<int>((at + ball_size - bricks_top) / brick_height), 0, rows - 1);
        for (int row = between(static_cast<int>((at - bricks_top) / brick_height), 0, rows - 1); row <= end; row++) {
            const int brick = row * columns + column;
            const float top = bricks_top + row * brick_height;
            if (s.bricks[brick] == 0) consider(first, time, at, top, top + brick_height, brick, true);
        }
    }

    const int row = vy > 0.0f ? static_cast<int>((y + ball_size - bricks_top) / brick_height + 1.0f)
                              : round_up((y - bricks_top) / brick_height) - 2;
    const float down = vy > 0.0f ? bricks_top + row * brick_height - (y + ball_size)
                                 : bricks_top + (row + 1) * brick_height - y;
    if (in_reach(down, vy) && row >= 0 && row < rows) {
        const float time = down / vy, at = x + vx * time;
        const int end = between(static_cast<int>((at + ball_size) / brick_width), 0, columns - 1);
        for (int column = between(static_cast<int>(at / brick_width), 0, columns - 1); column <= end; column++) {
            const int brick = row * columns + column;
            const float left = column * brick_width;
            if (s.bricks[brick] == 0) consider(first, time, at, left, left + brick_width, brick, false);
        }
    }
}

SWEEP_FN void consider_walls(Contact& first, const State& s) {
    const float x = s.ball_x, y = s.ball_y, vx = s.ball_vx, vy = s.ball_vy;
    const float across = vx > 0.0f ? field_width - (x + ball_size) : -x;
    if (in_reach(across, vx)) consider(first, across / vx, y + vy * (across / vx), 0.0f, field_height, side_wall, true);
    if (vy < 0.0f && in_reach(-y, vy)) consider(first, -y / vy, x + vx * (-y / vy), 0.0f, field_width, top_wall, false);
}

// The paddle's top edge, which has to be met before all else.
SWEEP_FN void consider_paddle(Contact& first, const State& s) {
    const float down = paddle_top - (s.ball_y + ball_size);
    if (s.ball_vy <= 0.0f || !in_reach(down, s.ball_vy) || s.ball_y + s.ball_vy + ball_size < paddle_top) return;
    const float time = down / s.ball_vy;
    if (time < first.time)
        consider(first, time, s.ball_x + s.ball_vx * time, s.paddle_x, s.paddle_x + s.paddle_width, paddle, false);
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

// Moves the ball to its first contact of this frame, or by its velocity. Returns the points.
SWEEP_FN int move_ball(State& s) {
    const float x = s.ball_x, y = s.ball_y, vx = s.ball_vx, vy = s.ball_vy;
    Contact first = {2.0f, 0.0f, 0, false};
    if (sweep::lowest(y, y + vy) <= bricks_bottom) consider_bricks(first, s);
    consider_walls(first, s);
    consider_paddle(first, s);
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

// Whether the ball surely meets nothing for so many frames: below the bricks, above the paddle, a pixel from all else.
SWEEP_FN bool flies_freely(const State& s, int frames) {
    const float x = s.ball_x + frames * s.ball_vx, y = s.ball_y + frames * s.ball_vy;
    return (s.balls_fired != 0) & (sweep::lowest(s.ball_x, x) > 1.0f) &
           (sweep::highest(s.ball_x, x) < field_width - ball_size - 1.0f) &
           (sweep::lowest(s.ball_y, y) > bricks_bottom + 1.0f) &
           (sweep::highest(s.ball_y, y) < paddle_top - ball_size - 1.0f) & (s.frames + frames < frame_limit);
}

// The same as that many frames of play_frame, and faster.
SWEEP_FN void fly(State& s, float paddle_move, int frames) {
    for (int i = 0; i < frames; i++) {
        s.paddle_x = sweep::clamp(s.paddle_x + paddle_move, 0.0f, field_width - s.paddle_width);
        s.ball_x += s.ball_vx;
        s.ball_y += s.ball_vy;
    }
    s.frames += frames;
}

SWEEP_FN sweep::Outcome step(State& s, const Params& params, int action, sweep::Rng& rng) {
    const float paddle_move = action == 0 ? 0.0f : action == 1 ? -paddle_speed : paddle_speed;
    int points = 0;
    if (flies_freely(s, params.frameskip)) {
        fly(s, paddle_move, params.frameskip);
        return {0.0f, false, false};
    }
    for (int i = 0; i < params.frameskip; i++) {
        if (play_frame(s, paddle_move, rng, points)) return {static_cast<float>(points), true, false};
        if (s.frames >= frame_limit) return {static_cast<float>(points), false, true};
    }
    return {static_cast<float>(points), false, false};
}

SWEEP_FN void observe(const State& s, const Params&, float* observation) {
    const float quantities[quantity_count] = {
        s.paddle_x, s.paddle_y, s.ball_x, s.ball_y, s.ball_vx, s.ball_vy, static_cast<float>(s.balls_fired),
        static_cast<float>(s.score), static_cast<float>(s.balls_left), s.paddle_width};
    constexpr float units[quantity_count] = {field_width, field_height, field_width, field_height, 512.0f, 512.0f, 5.0f,
                                             2.0f * full_screen, 5.0f, full_width};
    for (int i = 0; i < quantity_count; i++) observation[i] = quantities[i] / units[i];
    for (int i = 0; i < rows * columns; i++) observation[quantity_count + i] = s.bricks[i];
}

constexpr sweep::Picture picture = {field_width, field_height};  // px

SWEEP_FN void draw(const State& s, const Params&, sweep::Canvas& c) {
    constexpr sweep::uint32 colours[rows] = {0xD9655B, 0xE08A50, 0xE0B070, 0x6FD08C, 0x4C9BE8, 0x9A7FE0};  // from the top
    for (int i = 0; i < rows * columns; i++)
        if (s.bricks[i] == 0)
            c.rectangle(i % columns * brick_width + 1, bricks_top + i / columns * brick_height + 1, brick_width - 2,
                        brick_height - 2, colours[i / columns]);
    c.rectangle(s.paddle_x, s.paddle_y, s.paddle_width, 8.0f, 0xF2F2F2);
    c.rectangle(s.ball_x, s.ball_y, ball_size, ball_size, 0xF2F2F2);
}

}  // namespace breakout
