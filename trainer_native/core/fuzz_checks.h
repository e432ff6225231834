// What is wrong with one call of a game: faults, each told when it is first met.
#pragma once

#include "fuzz_game.h"

namespace {

std::set<std::string> told;

bool first_time(const std::string& fault, const std::string& what) { return told.insert(fault + " " + what).second; }

// Where in the play: part of each fault's line.
std::string place(const Copy& c, const Params& p) {
    return "\"step\": " + std::to_string(c.steps) + ", \"params\": " + p.text;
}

void check_guards(Copy& c, const Params& p, const char* who) {
    const struct { const Guarded& memory; const char* what; int unit; } parts[] = {
        {c.state, "State", 1}, {c.seen, "observation", observation_bytes_each}, {c.action, "action", 4}};
    for (const auto& part : parts) {
        long first = 0, last = 0;
        if (part.memory.intact(&first, &last)) continue;
        part.memory.mend();
        if (first_time(who, part.what))
            say("{\"fault\": \"outside\", \"who\": \"%s\", \"what\": \"%s\", \"first\": %ld, \"last\": %ld, %s}", who, part.what,
                long(std::floor(double(first) / part.unit)), long(std::floor(double(last) / part.unit)), place(c, p).c_str());
    }
}

void check_state(const Copy& c, const Params& p, const char* who) {
    for (int i = 0; i < game->state_fields; i++) {
        const Field& f = game->state_field[i];
        if (f.type != 'f' && f.type != 'd') continue;
        for (int k = 0; k < f.count; k++) {
            const double x = get(c.state.data() + f.offset + k * bytes_of(f.type), f.type);
            if (!std::isfinite(x) && first_time("state", f.name))
                say("{\"fault\": \"state\", \"who\": \"%s\", \"what\": \"%s\", \"index\": %d, \"value\": %s, %s}", who, f.name,
                    f.count > 1 ? k : -1, number(x).c_str(), place(c, p).c_str());
        }
    }
}

// Observes twice over different bytes: a number that keeps them was not written, one that differs depends on them.
void check_observe(Copy& c, const Params& p) {
    static std::vector<unsigned char> before;
    memset(c.seen.data(), 0x5A, c.seen.size);
    call_observe(c, p);
    before.assign(c.seen.data(), c.seen.data() + c.seen.size);
    memset(c.seen.data(), 0xA5, c.seen.size);
    call_observe(c, p);
    check_guards(c, p, "observe");
    bool good = memcmp(before.data(), c.seen.data(), before.size()) == 0;
    for (int i = 0; i < game->observation_size; i++) {
        const double x = c.observation(i);
        good &= x - x == 0.0 && (!game->inputs[i].is_flag || x == 0.0 || x == 1.0);
    }
    if (good) return;
    const int each = observation_bytes_each;
    for (int i = 0; i < game->observation_size; i++) {
        const unsigned char *one = before.data() + size_t(i) * each, *two = c.seen.data() + size_t(i) * each;
        const double x = c.observation(i);
        if (memcmp(one, two, each) != 0) {
            bool kept = true;
            for (int k = 0; k < each; k++) kept = kept && one[k] == 0x5A && two[k] == 0xA5;
            if (first_time(kept ? "unwritten" : "reads", std::to_string(i)))
                say("{\"fault\": \"%s\", \"index\": %d, %s}", kept ? "unwritten" : "reads", i, place(c, p).c_str());
            memset(c.seen.data() + size_t(i) * each, 0, each);
        } else if (!std::isfinite(x)) {
            if (first_time("observation", std::to_string(i)))
                say("{\"fault\": \"observation\", \"index\": %d, \"value\": %s, %s}", i, number(x).c_str(), place(c, p).c_str());
        } else if (game->inputs[i].is_flag && x != 0.0 && x != 1.0 && first_time("flag", std::to_string(i))) {
            say("{\"fault\": \"flag\", \"index\": %d, \"value\": %s, %s}", i, number(x).c_str(), place(c, p).c_str());
        }
    }
}

void check_outcome(const Copy& c, const Params& p, const Outcome& outcome) {
    if (!std::isfinite(outcome.reward) && first_time("reward", ""))
        say("{\"fault\": \"reward\", \"value\": %s, %s}", number(outcome.reward).c_str(), place(c, p).c_str());
    if (outcome.terminated && outcome.truncated && first_time("both", ""))
        say("{\"fault\": \"both\", %s}", place(c, p).c_str());
}

// Of the episode that has just ended; NaN where the game has none.
double check_metric(const Copy& c, const Params& p) {
    if (!game->metric) return NAN;
    float x = NAN;
    enter("metric");
    game->metric(c.state.data(), p.bytes.data(), &x, 1);
    if (!(x >= 0.0f && x <= 1.0f) && first_time("metric", ""))
        say("{\"fault\": \"metric\", \"value\": %s, %s}", number(x).c_str(), place(c, p).c_str());
    return x;
}

// Marks that cannot be drawn; a picture is looked at now and then.
void check_picture(const Copy& c, const Params& p) {
    if (!game->draw || c.steps % 64 != 0) return;
    static std::vector<Mark> marks(4096);
    Canvas canvas = {marks.data(), 0, static_cast<int>(marks.size())};
    enter("draw");
    game->draw(c.state.data(), p.bytes.data(), &canvas);
    for (int i = 0; i < canvas.count; i++) {
        const Mark& m = marks[i];
        const bool whole = std::isfinite(m.x) && std::isfinite(m.y) && std::isfinite(m.w) && std::isfinite(m.h) && std::isfinite(m.thickness);
        if (!whole && first_time("mark", ""))
            say("{\"fault\": \"mark\", \"index\": %d, %s}", i, place(c, p).c_str());
    }
}

void begin(Copy& c, const Params& p) {
    call_reset(c, p);
    check_guards(c, p, "reset");
    check_state(c, p, "reset");
    check_observe(c, p);
    check_picture(c, p);
}

Outcome act(Copy& c, const Params& p) {
    c.draw_action();
    const Outcome outcome = call_step(c, p);
    check_guards(c, p, "step");
    check_state(c, p, "step");
    check_outcome(c, p, outcome);
    check_observe(c, p);
    check_picture(c, p);
    return outcome;
}

}  // namespace
