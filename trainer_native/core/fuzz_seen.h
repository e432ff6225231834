// Random play: what a policy would see, with default and with other params, and after the end of episodes.
#pragma once

#include "fuzz_checks.h"

namespace {

struct Seen {
    Input input = {};
    double slack = 0.0;   // a bound that is a rounded decimal is met to within a rounding
    double low = HUGE_VAL, high = -HUGE_VAL, sum = 0.0, squares = 0.0, first = 0.0, farthest = 0.0;
    long count = 0, counted = 0, outside = 0;

    explicit Seen(const Input& of) : input(of), slack(1e-5 * std::max(1e-6, double(of.high) - of.low)) {}
    // The range is that of all that is seen, the mean that of what `counts`.
    void add(double x, bool counts) {
        if (!(x - x == 0.0)) return;
        if (count == 0) first = x;
        low = x < low ? x : low;
        high = x > high ? x : high;
        count++;
        if (counts) {
            const double shifted = x - first;   // a constant has no deviation, whatever its size
            sum += shifted;
            squares += shifted * shifted;
            counted++;
        }
        const double beyond = std::max(input.low - x, x - input.high);
        if (beyond <= slack || input.is_open || beyond <= slack + 1e-6 * std::abs(x)) return;
        outside++;
        farthest = std::max(farthest, beyond);
    }
    void tell(int i) const {
        const double mean = counted ? sum / counted : NAN, spread = counted ? std::sqrt(std::max(0.0, squares / counted - mean * mean)) : NAN;
        say("{\"input\": %d, \"flag\": %s, \"open\": %s, \"low\": %s, \"high\": %s, \"lowest\": %s, \"highest\": %s, \"mean\": %s, "
            "\"deviation\": %s, \"constant\": %s, \"count\": %ld, \"outside\": %ld, \"farthest\": %s}",
            i, input.is_flag ? "true" : "false", input.is_open ? "true" : "false", number(input.low).c_str(), number(input.high).c_str(),
            number(low).c_str(), number(high).c_str(), number(first + mean).c_str(), number(spread).c_str(), low < high ? "false" : "true",
            count, outside, number(farthest).c_str());
    }
};

std::vector<Seen> nothing_seen() {
    std::vector<Seen> all;
    for (int i = 0; i < game->observation_size; i++) all.emplace_back(game->inputs[i]);
    return all;
}

struct Episodes {
    std::vector<long> lengths;
    long steps = 0, rewarded = 0, terminated = 0, truncated = 0, metrics = 0;
    double total = 0.0, lowest = HUGE_VAL, highest = -HUGE_VAL, metric = 0.0;

    void tell() {
        std::sort(lengths.begin(), lengths.end());
        const size_t n = lengths.size();
        const std::string sizes = n == 0 ? "\"shortest\": null, \"median_length\": null, \"longest\": null"
                                         : "\"shortest\": " + std::to_string(lengths[0]) + ", \"median_length\": " +
                                               std::to_string(lengths[n / 2]) + ", \"longest\": " + std::to_string(lengths[n - 1]);
        say("{\"episodes\": %zu, \"env_steps\": %ld, \"rewarded\": %ld, \"terminated\": %ld, \"truncated\": %ld, %s, "
            "\"mean_return\": %s, \"lowest_return\": %s, \"highest_return\": %s, \"mean_metric\": %s}",
            n, steps, rewarded, terminated, truncated, sizes.c_str(), number(n ? total / n : NAN).c_str(),
            number(n ? lowest : NAN).c_str(), number(n ? highest : NAN).c_str(), number(metrics ? metric / metrics : NAN).c_str());
    }
};

// Default params. Ranges are those of all copies, the rest that of copies whose actions are drawn each for itself.
void play(long env_steps, int copies, uint64 seed) {
    const Params p = default_params();
    std::vector<Seen> seen = nothing_seen();
    Episodes episodes;
    for (int number = 0; number < copies; number++) {
        Copy c(seed, number);
        const bool counts = c.manner < 2;
        auto look = [&] {
            for (int i = 0; i < game->observation_size; i++) seen[i].add(c.observation(i), counts);
        };
        const long due = env_steps * (number + 1) / copies - env_steps * number / copies;
        for (long step = 0; step < due; step++) {
            if (c.ended) {
                begin(c, p);
                look();
            }
            const Outcome outcome = act(c, p);
            if (!outcome.terminated) look();   // nobody acts on what is seen after the end
            if (counts) {
                episodes.steps++;
                episodes.rewarded += outcome.reward != 0.0f;
            }
            if (c.steps > game->longest_episode || (c.steps == game->longest_episode && !c.ended)) {
                if (first_time("endless", ""))
                    say("{\"fault\": \"endless\", \"longest\": %d, %s}", game->longest_episode, place(c, p).c_str());
                c.ended = true;
                continue;   // not an episode that ended
            }
            if (!c.ended) continue;
            const double metric = check_metric(c, p);
            if (!counts) continue;
            if (std::isfinite(metric)) {
                episodes.metric += metric;
                episodes.metrics++;
            }
            episodes.lengths.push_back(c.steps);
            (outcome.terminated ? episodes.terminated : episodes.truncated)++;
            episodes.total += c.total;
            episodes.lowest = std::min(episodes.lowest, c.total);
            episodes.highest = std::max(episodes.highest, c.total);
        }
    }
    for (int i = 0; i < game->observation_size; i++) seen[i].tell(i);
    episodes.tell();
}

// Legal params, drawn anew for each copy.
void play_params(long env_steps, int copies, uint64 seed) {
    Rng rng = stream(seed, 1ull << 40);
    std::vector<Seen> seen = nothing_seen();
    for (int number = 0; number < copies; number++) {
        const Params p = some_params(number, rng);
        Copy c(seed, number);
        for (long step = 0; step < env_steps / copies; step++) {
            if (c.ended) begin(c, p);
            const Outcome outcome = act(c, p);
            if (c.ended) check_metric(c, p);
            if (outcome.terminated) continue;
            for (int i = 0; i < game->observation_size; i++) seen[i].add(c.observation(i), true);
        }
    }
    for (int i = 0; i < game->observation_size; i++) seen[i].tell(i);
}

// A few env steps after the end of each episode: nobody should take them, and a vectorised player may.
void play_on(long env_steps, int copies, uint64 seed) {
    const Params p = default_params();
    for (int number = 0; number < copies; number++) {
        Copy c(seed, number);
        for (long step = 0; step < env_steps / copies; step++) {
            if (c.ended) call_reset(c, p);
            c.draw_action();
            call_step(c, p);
            if (c.steps >= game->longest_episode) c.ended = true;
            if (!c.ended) continue;
            for (int more = 0; more < 3; more++) act(c, p);
            c.ended = true;
        }
    }
}

}  // namespace
