// The widest float vectors that this instruction set has, with one fused multiply-add each.
//
// Only the matrix products name vector registers; everything else is plain loops that the compiler vectorises.
#pragma once

#include "device.h"

#if defined(SWEEP_NO_VECTORS)
#elif defined(__AVX__) || defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace sweep {

template <class V> constexpr int width = sizeof(V) / sizeof(float);

template <class V> SWEEP_FN V load(const float* from) {
    V value;
    copy_bytes(&value, from, sizeof(V));
    return value;
}
template <class V> SWEEP_FN void store(float* to, V value) { copy_bytes(to, &value, sizeof(V)); }
template <class V> SWEEP_FN V broadcast(float x) { return x - V{}; }

#ifdef SWEEP_NO_VECTORS
// One float stands for a vector.
using narrow = float;
using wide = float;
constexpr int registers = 16;
#else
typedef float vec4 __attribute__((vector_size(16)));
typedef float vec8 __attribute__((vector_size(32)));
typedef float vec16 __attribute__((vector_size(64)));

// a * b + c per element: the same rounding as sweep::fma, so that vector width never shows in a result.
#if defined(__AVX512F__)
SWEEP_FN vec16 fma(vec16 a, vec16 b, vec16 c) { return (vec16)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#endif
#if defined(__FMA__)
SWEEP_FN vec8 fma(vec8 a, vec8 b, vec8 c) { return (vec8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#elif defined(__ARM_NEON) && defined(__aarch64__)
SWEEP_FN vec4 fma(vec4 a, vec4 b, vec4 c) { return (vec4)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
#else
SWEEP_FN vec4 fma(vec4 a, vec4 b, vec4 c) {
    vec4 d;
    for (int i = 0; i < 4; i++) d[i] = fma(a[i], b[i], c[i]);
    return d;
}
#endif

// `narrow` divides every padded row of the network (a multiple of 8 floats).
#if defined(__FMA__)
using narrow = vec8;
#else
using narrow = vec4;
#endif
#if defined(__AVX512F__)
using wide = vec16;
constexpr int registers = 32;
#else
using wide = narrow;
#if defined(__aarch64__)
constexpr int registers = 32;
#else
constexpr int registers = 16;
#endif
#endif
#endif

}  // namespace sweep
