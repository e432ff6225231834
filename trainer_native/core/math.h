// The elementary functions: our own polynomials, the same numbers on every processor with fused multiply-add.
//
// Branch-free, so that a plain loop over an array that calls one of them becomes vector code, and so that a lane of a
// vector gives what a single call gives. Denormal numbers count: how they are treated shows where an argument is one.
// NaN gives NaN. Argument reduction is that of Cephes (S. Moshier), the coefficients are weighted minimax fits of our own.
//
// Largest errors, in units in the last place of the true value. tests/unit/test_math.py walks every float there is and
// holds each to the last digit here:
//   exp      1.02   from -87.33 to 88.37; 0 below, infinite above
//   sigmoid  2.41   from -87; level below
//   log      0.88   all normal numbers
//   tanh     1.34   everywhere
//   sin      1.55   to |x| = 100
//   sin      2.48   from there to |x| = 100,000; beyond, only in [-1, 1]
//   cos      1.56   to |x| = 100
//   cos      2.44   from there to |x| = 100,000; beyond, only in [-1, 1]
#pragma once

#include "device.h"

namespace sweep {

// Adding this to a float below 2^22 in size rounds it to a whole number, in two's complement in the low bits.
constexpr float rounding_magic = 0x1.8p23f;
// ln 2 in two parts; 8 bits times the first is exact.
constexpr float log2_high = 0.693359375f, log2_low = -2.12194440e-4f;
constexpr uint32 infinity_bits = 0x7F800000u, nan_bits = 0x7FC00000u, sign_bit = 0x80000000u;

// exp(x) for x from -87.33 to 88.37, where neither the result nor the power of two in it leaves the normal numbers.
SWEEP_FN float exp_of_moderate(float x) {
    float shifted = fma(x, 1.44269504088896341f, rounding_magic);
    float n = shifted - rounding_magic;
    float r = fma(n, -log2_high, x);
    r = fma(n, -log2_low, r);
    float p = 0.0013814320554956794f;
    p = fma(p, r, 0.00836885068565607f);
    p = fma(p, r, 0.041668400168418884f);
    p = fma(p, r, 0.1666651964187622f);
    p = fma(p, r, 0.4999999403953552f);
    p = fma(p, r * r, r) + 1.0f;
    return p * bits_to_float((float_to_bits(shifted) + 127u) << 23);
}

// e^x; 0 below -87.33 and infinite above 88.37.
SWEEP_FN float exp(float x) {
    float y = exp_of_moderate(x);
    y = x < -87.33f ? 0.0f : y;
    return x > 88.37f ? bits_to_float(infinity_bits) : y;
}

// 1 / (1 + e^-x), in [0, 1]; levels off at 1.6e-38.
SWEEP_FN float sigmoid(float x) {
    float size = bits_to_float(float_to_bits(x) & ~sign_bit);
    size = 87.0f < size ? 87.0f : size;  // in this order NaN stays NaN
    float e = exp_of_moderate(-size);
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// Natural logarithm; minus infinity for 0 (and what is below the normal numbers), NaN for less.
SWEEP_FN float log(float x) {
    uint32 bits = float_to_bits(x) - 0x3F3504F3u;  // sqrt(1/2): the mantissa comes out in [sqrt(1/2), sqrt(2))
    float n = static_cast<float>(static_cast<int>(bits) >> 23);
    float f = bits_to_float((bits & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
    float p = -0.07634497433900833f;
    p = fma(p, f, 0.1276157796382904f);
    p = fma(p, f, -0.13160182535648346f);
    p = fma(p, f, 0.14201757311820984f);
    p = fma(p, f, -0.16623356938362122f);
    p = fma(p, f, 0.20001226663589478f);
    p = fma(p, f, -0.2500081956386566f);
    p = fma(p, f, 0.3333333134651184f);
    p = fma(p, f, -0.5f);
    p = fma(p, f * f, n * log2_low) + f;
    p = fma(n, log2_high, p);
    p = x < 0x1p-126f ? -bits_to_float(infinity_bits) : p;
    p = x < 0.0f ? bits_to_float(nan_bits) : p;
    return x < bits_to_float(infinity_bits) ? p : x;  // infinity and NaN are their own logarithms
}

// Hyperbolic tangent; odd exactly.
SWEEP_FN float tanh(float x) {
    float size = bits_to_float(float_to_bits(x) & ~sign_bit);
    float square = size * size;
    float p = -0.005697384011000395f;
    p = fma(p, square, 0.0206325463950634f);
    p = fma(p, square, -0.05373779684305191f);
    p = fma(p, square, 0.13331420719623566f);
    p = fma(p, square, -0.3333328068256378f);
    float near = fma(p * square, size, size);
    float bounded = 10.0f < size ? 10.0f : size;  // in this order NaN stays NaN
    float far = 1.0f - 2.0f / (exp_of_moderate(bounded + bounded) + 1.0f);
    float y = size < 0.625f ? near : far;
    return bits_to_float(float_to_bits(y) | (float_to_bits(x) & sign_bit));
}

// sin(x + quarter * pi / 2). From |x| = 1,000,000 it loses accuracy, but stays in [-1, 1].
SWEEP_FN float sine_of_quarter(float x, uint32 quarter) {
    float shifted = fma(x, 0.636619772367581343f, rounding_magic);
    float n = shifted - rounding_magic;
    quarter += float_to_bits(shifted);
    float r = fma(n, -1.57080078125f, x);  // pi / 2 in three parts; 7 bits times the first two are exact
    r = fma(n, 4.45445766672492e-06f, r);
    r = fma(n, -2.5633440682570896e-12f, r);
    r = -1.0f > r ? -1.0f : r;   // |r| is a little over pi / 4 at most; in this order NaN stays NaN
    r = 1.0f < r ? 1.0f : r;
    float square = r * r;
    float s = -0.00019514957966748625f;
    s = fma(s, square, 0.00833215843886137f);
    s = fma(s, square, -0.16666655242443085f);
    s = fma(s * square, r, r);
    float c = 2.4432785721728578e-05f;
    c = fma(c, square, -0.0013887312961742282f);
    c = fma(c, square, 0.04166664555668831f);
    c = fma(c * square, square, fma(-0.5f, square, 1.0f));
    float y = (quarter & 1u) != 0u ? c : s;
    return bits_to_float(float_to_bits(y) ^ ((quarter & 2u) << 30));
}

SWEEP_FN float sin(float x) { return sine_of_quarter(x, 0u); }
SWEEP_FN float cos(float x) { return sine_of_quarter(x, 1u); }

}  // namespace sweep
