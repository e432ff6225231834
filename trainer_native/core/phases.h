// What a run's time goes into: marks where one part ends and the next begins.
//
// A mark costs some 10 ns, so it stands only around what takes microseconds; of what is shorter and comes often, some are
// timed and stand for the rest.
#pragma once

#include "device.h"

namespace sweep {

enum class Phase { environment, forward, sampling, advantages, loss, backward, optimizer, copying, evaluation, rest };
constexpr int phases = 10;
constexpr const char* phase_names[phases] = {"environment", "forward",   "sampling", "advantages", "loss",
                                             "backward",    "optimizer", "copying",  "evaluation", "rest"};

// Lane 0 counts; the others pass.
struct Phases {
    uint64 spent[phases];   // ticks
    uint64 last;            // when the mark before was made
    uint64 weight;          // how many times what goes on counts

    SWEEP_FN void begin(Block b) {
        if (b.lane) return;
        for (uint64& s : spent) s = 0;
        weight = 1;
        last = ticks();
    }
    // What follows counts so many times; 0: marks pass until the next call.
    SWEEP_FN void count(Block b, int times) {
        if (b.lane) return;
        if (weight == 0 && times) last = ticks();
        weight = times;
    }
    // All since the mark before was `done`.
    SWEEP_FN void mark(Block b, Phase done) {
        if (b.lane || weight == 0) return;
        const uint64 now = ticks();
        spent[int(done)] += weight * (now - last);
        last = now;
    }
    // Adds each phase's part of `cpu_seconds`, those since the last time, to `seconds`. A time in which the thread did not
    // run falls on whatever it left.
    SWEEP_FN void share_out(Block b, double cpu_seconds, double* seconds) {
        if (b.lane) return;
        uint64 all = 0;
        for (const uint64 s : spent) all += s;
        for (int i = 0; i < phases; i++) {
            if (all) seconds[i] += cpu_seconds * (double(spent[i]) / double(all));
            spent[i] = 0;
        }
    }
};

}  // namespace sweep
