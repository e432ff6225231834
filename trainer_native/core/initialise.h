// The weights a run starts from.
//
// Orthogonal: Saxe et al. (arXiv 1312.6120), the gains as PPO implementations use them (Andrychowicz et al., arXiv
// 2006.05990).
#pragma once

#include "math.h"
#include "rng.h"
#include "shape.h"

namespace sweep {

// A standard normal number (Box–Muller).
SWEEP_FN float normal(Rng& rng) {
    const float size = square_root(-2.0f * log(1.0f - rng.uniform()));
    return size * cos(6.28318530718f * rng.uniform());
}

// `count` vectors of `length` floats, orthonormal, uniform over all such (Gram–Schmidt on normal numbers; twice, for the
// sake of rounding): vector i's element k is w[i · step + k · stride]. count is at most length.
inline void fill_orthonormal(float* w, int count, int length, long step, long stride, Rng& rng) {
    for (int i = 0; i < count; i++) {
        float* v = w + i * step;
        for (int k = 0; k < length; k++) v[k * stride] = normal(rng);
        for (int round = 0; round < 2; round++) {
            for (int j = 0; j < i; j++) {
                const float* u = w + j * step;
                double along = 0.0;
                for (int k = 0; k < length; k++) along += double(u[k * stride]) * v[k * stride];
                for (int k = 0; k < length; k++) v[k * stride] = float(v[k * stride] - along * u[k * stride]);
            }
            double square = 0.0;
            for (int k = 0; k < length; k++) square += double(v[k * stride]) * v[k * stride];
            const double size = square_root(square);
            for (int k = 0; k < length; k++) v[k * stride] = float(v[k * stride] / size);
        }
    }
}

// Orthogonal columns, or rows where there are fewer of them, of length `gain`.
inline void fill_orthogonal(float* w, int rows, int columns, int stride, float gain, Rng& rng) {
    if (columns <= rows) fill_orthonormal(w, columns, rows, 1, stride, rng);
    else fill_orthonormal(w, rows, columns, stride, 1, rng);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) w[long(i) * stride + j] *= gain;
}

// Uniform in ± gain / √fan_in, or orthogonal times the gain, each gate and each head by itself. The gain is √2 in the
// encoder (orthogonal: in all layers of an MLP), `policy_gain` for the action logits and 1 elsewhere. Biases and padding
// are zero. One lane's work.
inline void initialise(const Shape& n, float* weights, Rng& rng, bool orthogonal, float policy_gain) {
    constexpr float root = 1.41421356f;
    for (long i = 0; i < n.weights(); i++) weights[i] = 0.0f;
    each_matrix(n, [&](const Matrix& m) {
        if (m.bias) return;
        float* w = weights + m.at;
        const int stride = m.padded_columns, last = m.first_column + m.columns;
        const bool head = m.role == Role::decoder;
        if (!orthogonal) {
            for (int i = 0; i < m.rows; i++)
                for (int j = m.first_column; j < last; j++) {
                    const float gain = m.role == Role::encoder ? root : head && j < n.actions ? policy_gain : 1.0f;
                    const float bound = gain / square_root(float(m.rows));
                    w[i * stride + j] = rng.uniform(-bound, bound);
                }
        } else if (head) {
            if (m.tower == 0) fill_orthogonal(w, m.rows, n.actions, stride, policy_gain, rng);
            if (last > n.actions) fill_orthogonal(w + n.actions, m.rows, 1, stride, 1.0f, rng);
        } else {
            const bool gated = n.cell != Cell::mlp && m.role != Role::encoder;
            const int width = gated ? n.hidden : m.columns;
            for (int j = 0; j < m.columns; j += width)
                fill_orthogonal(w + j, m.rows, width, stride, gated ? 1.0f : root, rng);
        }
    });
}

}  // namespace sweep
