// What differs between a CPU and a GPU: the only file that asks which one is compiled for.
//
// A function that works on many things takes a Block first and loops
// `for (int i = b.lane; i < n; i += b.lanes)`. On the CPU a block has one lane, known at compile time, so such a loop
// is a plain one; on a GPU one training run is one thread block. What lanes exchange lives in memory, every lane reaches
// every sync, and a function that writes what others read ends with one. A lane that works by itself is `alone()`.
// Built with SWEEP_LANES_AS_THREADS, the lanes of a block are threads: how the code of a GPU is checked without one. Built
// with SWEEP_FENCES under an address sanitizer, what lies between two parts of a run's memory is out of bounds.
#pragma once

#ifdef SWEEP_FENCES
#include <sanitizer/asan_interface.h>
#endif
#ifdef SWEEP_LANES_AS_THREADS
#include <barrier>
#include <thread>
#include <vector>
#endif

namespace sweep {

using uint8 = unsigned char;
using uint32 = unsigned int;
using uint64 = unsigned long long;
using int64 = long long;

}  // namespace sweep

#ifdef __CUDACC__

#define SWEEP_FN __host__ __device__ __forceinline__
#define SWEEP_NO_VECTORS   // for vector.h and matmul.h: a lane has none of its own

namespace sweep {

struct Block {
    int lane, lanes;
    SWEEP_FN void sync() const {
#ifdef __CUDA_ARCH__
        if (lanes > 1) __syncthreads();
#endif
    }
};
SWEEP_FN Block alone() { return {0, 1}; }

SWEEP_FN float bits_to_float(uint32 bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    union { uint32 u; float f; } x; x.u = bits; return x.f;
#endif
}
SWEEP_FN uint32 float_to_bits(float value) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(value);
#else
    union { float f; uint32 u; } x; x.f = value; return x.u;
#endif
}
SWEEP_FN void copy_bytes(void* to, const void* from, decltype(sizeof(0)) bytes) { memcpy(to, from, bytes); }
SWEEP_FN float fma(float a, float b, float c) { return fmaf(a, b, c); }
SWEEP_FN float square_root(float x) { return sqrtf(x); }
SWEEP_FN double square_root(double x) { return sqrt(x); }

// A clock of its own unit and beginning, read in a few nanoseconds.
SWEEP_FN uint64 ticks() {
#ifdef __CUDA_ARCH__
    return clock64();
#else
    return 0;
#endif
}

}  // namespace sweep

#else

#define SWEEP_FN inline __attribute__((always_inline))

namespace sweep {

#ifdef SWEEP_LANES_AS_THREADS
struct Block {
    int lane = 0, lanes = 1;
    std::barrier<>* barrier = nullptr;
    void sync() const {
        if (barrier) barrier->arrive_and_wait();
    }
};
inline int lanes_of_a_block = 1;
#else
struct Block {
    static constexpr int lane = 0, lanes = 1;
    SWEEP_FN void sync() const {}
};
#endif
SWEEP_FN Block alone() { return {}; }

// work(Block) on every lane of a block; returns when all have.
template <class Work> void on_lanes(Work work) {
#ifdef SWEEP_LANES_AS_THREADS
    std::barrier<> barrier(lanes_of_a_block);
    std::vector<std::thread> lanes;
    for (int i = 0; i < lanes_of_a_block; i++)
        lanes.emplace_back([&, i] { work(Block{i, lanes_of_a_block, &barrier}); });
    for (std::thread& lane : lanes) lane.join();
#else
    work(Block{});
#endif
}

SWEEP_FN float bits_to_float(uint32 bits) { return __builtin_bit_cast(float, bits); }
SWEEP_FN uint32 float_to_bits(float value) { return __builtin_bit_cast(uint32, value); }
SWEEP_FN void copy_bytes(void* to, const void* from, decltype(sizeof(0)) bytes) { __builtin_memcpy(to, from, bytes); }

// a * b + c, rounded once where the processor can. Without FMA instructions (x86-64-v2) it is rounded twice: such a
// build gives other weights than the rest, and says so in build_info().
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(SWEEP_SCALAR_FMA)
constexpr bool has_fma = true;
SWEEP_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
constexpr bool has_fma = false;
SWEEP_FN float fma(float a, float b, float c) { return a * b + c; }
#endif
SWEEP_FN float square_root(float x) { return __builtin_sqrtf(x); }
SWEEP_FN double square_root(double x) { return __builtin_sqrt(x); }

// A clock of its own unit and beginning, read in a few nanoseconds; 0 where we know none.
SWEEP_FN uint64 ticks() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64 now;
    asm volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
#else
    return 0;
#endif
}

}  // namespace sweep

#endif

namespace sweep {

// Memory between fences holds NaN until it is written.
#ifdef SWEEP_FENCES
constexpr int fence_bytes = 64;
inline void fence(char* from, decltype(sizeof(0)) bytes) { __asan_poison_memory_region(from, bytes); }
inline bool is_fenced(const char* at) { return __asan_address_is_poisoned(at); }
inline void open_field(char* from, decltype(sizeof(0)) bytes) {
    __asan_unpoison_memory_region(from, bytes);
    __builtin_memset(from, 0xFF, bytes);
}
#else
constexpr int fence_bytes = 0;
inline void fence(char*, decltype(sizeof(0))) {}
SWEEP_FN constexpr bool is_fenced(const char*) { return false; }
inline void open_field(char*, decltype(sizeof(0))) {}
#endif

SWEEP_FN float lowest(float a, float b) { return a < b ? a : b; }
SWEEP_FN float highest(float a, float b) { return a > b ? a : b; }
// NaN stays NaN.
SWEEP_FN float clamp(float x, float low, float high) {
    const float y = x < low ? low : x;
    return y > high ? high : y;
}

// This lane's part of 0 .. n − 1, where neighbours should stay together.
struct Range {
    int first, last;
};
SWEEP_FN Range share_of(Block b, int n) {
    return {int(int64(n) * b.lane / b.lanes), int(int64(n) * (b.lane + 1) / b.lanes)};
}

}  // namespace sweep
