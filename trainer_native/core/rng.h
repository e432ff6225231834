// Random numbers: one 64-bit counter per stream, mixed by SplitMix64.
//
// Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014); the mixing constants are those of
// its variant 13. A stream is 8 bytes, so every environment copy has its own and the order of the copies does not matter.
#pragma once

#include "math.h"

namespace sweep {

SWEEP_FN uint64 mix(uint64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// A normal number, mean 0 and deviation 1, of two uniform ones (Box, Muller 1958); at most 5.77 in size.
SWEEP_FN float normal_of(float first, float second) {
    const float radius = square_root(-2.0f * log(1.0f - first));
    return radius * cos(6.2831853072f * second);
}

struct Rng {
    uint64 state;

    SWEEP_FN uint32 next() {
        state += 0x9E3779B97F4A7C15ull;
        return static_cast<uint32>(mix(state) >> 32);
    }
    // Uniform in [0, 1), a multiple of 2^-24.
    SWEEP_FN float uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }
    SWEEP_FN float uniform(float low, float high) { return fma(uniform(), high - low, low); }
    // Uniform in 0 .. n - 1 (n up to 2^16: the bias is under n / 2^32).
    SWEEP_FN int below(int n) { return static_cast<int>((static_cast<uint64>(next()) * static_cast<uint32>(n)) >> 32); }
    // True with this probability.
    SWEEP_FN bool chance(float p) { return uniform() < p; }
    // Normal, mean 0 and deviation 1, from two draws.
    SWEEP_FN float normal() {
        const float first = uniform();
        return normal_of(first, uniform());
    }
};

// The stream numbered `stream` of a seed: streams of one seed, and the same stream of two seeds, start far apart.
SWEEP_FN Rng stream(uint64 seed, uint64 number) { return {mix(mix(seed + 0x9E3779B97F4A7C15ull) + number * 0xD1342543DE82EF95ull)}; }

}  // namespace sweep
