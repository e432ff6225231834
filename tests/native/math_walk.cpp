// Walks bit patterns through the elementary functions of math.h and says how far each is from the true value.
//
// A shared library for tests/unit/test_math.py, which also holds `reference_*` against other people's functions. The
// reference is our own double arithmetic, because it has to be vector code: there are 2^32 patterns and six functions.
#include "math.h"

namespace {

using sweep::bits_to_float;
using sweep::float_to_bits;
using sweep::uint32;
using sweep::uint64;

constexpr double ln2_high = 0x1.62e42fefa39efp-1, ln2_low = 0x1.abc9e3b39803fp-56;
constexpr double rounding = 0x1.8p52;   // adding it rounds to a whole number, in two's complement in the low bits

inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline uint64 bits_of(double x) { return __builtin_bit_cast(uint64, x); }
inline double double_of(uint64 x) { return __builtin_bit_cast(double, x); }
inline double within(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

// A polynomial, its highest coefficient first.
template <class... More> inline double polynomial(double x, double p, More... more) {
    ((p = fused(p, x, more)), ...);
    return p;
}

// e^x = (1 + p) · power.
struct Exp { double p, power; };
inline Exp exp_parts(double x) {
    x = within(x, -300.0, 300.0);
    const double shifted = fused(x, 0x1.71547652b82fep0, rounding), n = shifted - rounding;
    const double r = fused(n, -ln2_low, fused(n, -ln2_high, x));
    const double p = polynomial(r, 1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
                                1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0,
                                1.0 / 6.0, 1.0 / 2.0);
    return {fused(p, r * r, r), double_of((bits_of(shifted) + 1023) << 52)};
}
inline double reference_exp(double x) {
    const Exp e = exp_parts(x);
    return fused(e.p, e.power, e.power);
}
inline double reference_sigmoid(double x) { return 1.0 / (1.0 + reference_exp(-x)); }
inline double reference_tanh(double x) {
    const Exp e = exp_parts(2.0 * __builtin_fabs(x));
    const double less_one = fused(e.p, e.power, e.power - 1.0);
    return __builtin_copysign(less_one / (less_one + 2.0), x);
}
inline double reference_log(double x) {   // of positive normal numbers
    const uint64 bits = bits_of(x) - 0x3FE6A09E00000000ull;
    // The exponent as a double, without a conversion of 64-bit integers: its bits in the low end of 2^52 · 1.5.
    const double n = double_of((((bits >> 52) ^ 0x800) & 0xFFF) | 0x4338000000000000ull) - (rounding + 0x800);
    const double m = double_of((bits & 0x000FFFFFFFFFFFFFull) + 0x3FE6A09E00000000ull);
    const double s = (m - 1.0) / (m + 1.0), square = s * s;
    const double p = polynomial(square, 2.0 / 25.0, 2.0 / 23.0, 2.0 / 21.0, 2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0,
                                2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0);
    return fused(n, ln2_high, fused(n, ln2_low, fused(p * square, s, 2.0 * s)));
}
inline double reference_quarter(double x, uint64 quarter) {
    const double shifted = fused(x, 0x1.45f306dc9c883p-1, rounding), n = shifted - rounding;
    quarter += bits_of(shifted);
    double r = fused(n, -0x1.921fb54442d18p0, x);   // pi / 2 in two parts
    r = fused(n, -0x1.1a62633145c07p-54, r);
    const double square = r * r;
    const double s = polynomial(-square, 1.0 / 355687428096000.0, 1.0 / 1307674368000.0, 1.0 / 6227020800.0,
                                1.0 / 39916800.0, 1.0 / 362880.0, 1.0 / 5040.0, 1.0 / 120.0, 1.0 / 6.0);
    const double c = polynomial(-square, 1.0 / 6402373705728000.0, 1.0 / 20922789888000.0, 1.0 / 87178291200.0,
                                1.0 / 479001600.0, 1.0 / 3628800.0, 1.0 / 40320.0, 1.0 / 720.0, 1.0 / 24.0, 1.0 / 2.0);
    const double y = (quarter & 1) != 0 ? fused(c, -square, 1.0) : fused(s * -square, r, r);
    return double_of(bits_of(y) ^ ((quarter & 2) << 62));
}
inline double reference_sin(double x) { return reference_quarter(x, 0); }
inline double reference_cos(double x) { return reference_quarter(x, 1); }

// How many units in the last place of a float at `x` make 1.
inline double units_at(double x) {
    const double power = double_of(bits_of(x) & 0x7FF0000000000000ull);
    const uint64 bits = bits_of(power < 0x1p-126 ? 0x1p-126 : power);
    return double_of((uint64(2046 + 23) << 52) - bits);
}

}  // namespace

// What is asked of a range of arguments.
enum Kind { measured, constant, itself, not_a_number, at_most_one };

// What a walk found. `patterns` walked; `wrong`: those that broke an exact promise, or were not finite where measured.
struct Found {
    uint64 patterns, wrong;
    double units;                // largest error in units in the last place
    uint32 worst, first_wrong;   // bits of their arguments
};

template <float (*function)(float), double (*reference)(double)>
inline void walk(uint32 first, uint32 last, uint32 stride, Kind kind, uint32 expected, Found& found) {
    constexpr int block = 512, lanes = 8;
    float x[block], y[block];
    double unit[block];
    found = {};
    for (uint64 start = first; start <= last; start += uint64(block) * stride) {
        const uint64 left = (last - start) / stride + 1;
        const int count = left < block ? int(left) : block;
        // What is beyond the range repeats its last pattern.
        for (int i = 0; i < block; i++) {
            const uint32 step = uint32(i < count ? i : count - 1);
            x[i] = bits_to_float(uint32(start) + step * stride);
        }
        for (int i = 0; i < block; i++) y[i] = function(x[i]);
        found.patterns += uint64(count);
        int wrong = 0;
        if (kind == measured) {
            for (int i = 0; i < block; i++) {
                const double truth = reference(double(x[i]));
                unit[i] = __builtin_fabs(double(y[i]) - truth) * units_at(truth);
            }
            for (int i = 0; i < block; i++) wrong += !(unit[i] < 1e30);
            double most[lanes] = {};
            for (int i = 0; i < block; i += lanes)
                for (int j = 0; j < lanes; j++) most[j] = unit[i + j] > most[j] ? unit[i + j] : most[j];
            for (int j = 0; j < lanes; j++) {
                if (!(most[j] > found.units)) continue;
                found.units = most[j];
                for (int i = 0; i < block; i++)
                    if (unit[i] == most[j]) found.worst = float_to_bits(x[i]);
            }
        } else if (kind == constant) {
            for (int i = 0; i < block; i++) wrong += float_to_bits(y[i]) != expected;
        } else if (kind == itself) {
            for (int i = 0; i < block; i++) wrong += float_to_bits(y[i]) != float_to_bits(x[i]);
        } else if (kind == not_a_number) {
            for (int i = 0; i < block; i++) wrong += (float_to_bits(y[i]) & 0x7FFFFFFFu) <= 0x7F800000u;
        } else {
            for (int i = 0; i < block; i++) wrong += !(y[i] >= -1.0f && y[i] <= 1.0f);
        }
        if (wrong && !found.wrong) found.first_wrong = uint32(start);   // to within a block
        found.wrong += uint64(wrong < count ? wrong : count);
    }
}

#define SWEEP_WALK(name)                                                                                             \
    extern "C" __attribute__((visibility("default"))) void walk_##name(uint32 first, uint32 last, uint32 stride,    \
                                                                       int kind, uint32 expected, Found* found) {   \
        walk<sweep::name, reference_##name>(first, last, stride, Kind(kind), expected, *found);                     \
    }                                                                                                                \
    extern "C" __attribute__((visibility("default"))) void reference_##name##_of(const double* x, double* y, int n) { \
        for (int i = 0; i < n; i++) y[i] = reference_##name(x[i]);                                                   \
    }
SWEEP_WALK(exp)
SWEEP_WALK(sigmoid)
SWEEP_WALK(log)
SWEEP_WALK(tanh)
SWEEP_WALK(sin)
SWEEP_WALK(cos)
