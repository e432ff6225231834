// The network: an encoder, the layers of its cell, a decoder to action logits and the value; forwards and backwards.
//
// With MinGRU, the default, this is PufferNet: the encoder is one linear layer, so is the decoder, and one constant input
// stands for biases. Acting is the same function as training, with one step.
#pragma once

#include "cell_lstm.h"
#include "cell_mingru.h"
#include "cell_mlp.h"
#include "encoder.h"

namespace sweep {

// Rows of the functions below are numbered t · sequences + s: step t of sequence s.

SWEEP_FN LayerWeights layer_weights(const Shape& n, const float* tower, int l) {
    const float* w = tower + n.layer(l);
    return {w, n.cell == Cell::lstm ? w + n.recurrent() : nullptr, n.biases};
}

// The logits and values of steps · sequences rows, in a.logits. states: one pointer per tower and layer, the state before
// the first step, [sequences, state]; `next`: where the states after the last step go (which may be `states`), or null.
inline void network_forward(Block b, const Shape& n, const float* weights, int steps, int sequences, const Seen& seen,
                            const float* keep, float* const* states, float* const* next, const Activations& a) {
    const int rows = steps * sequences, hidden = n.hidden, outputs = n.outputs();
    for (int k = 0; k < n.towers(); k++) {
        const float* tower = weights + k * n.tower();
        float* x = a.x_of(n, k, 0);
        encoder_forward(b, n, tower, steps, sequences, seen, a.features, x);
        if (n.cell == Cell::mlp) activate(b, n.relu, long(rows) * hidden, x);
        for (int l = 0; l < n.inner(); l++) {
            const LayerWeights w = layer_weights(n, tower, l);
            float* out = a.x_of(n, k, l + 1);
            const int i = k * n.inner() + l;
            if (n.cell == Cell::mingru)
                mingru_forward(b, w, steps, sequences, hidden, x, keep, states[i], next ? next[i] : nullptr,
                               a.gates_of(n, k, l), a.kept_of(n, k, l), out);
            else if (n.cell == Cell::lstm)
                lstm_forward(b, w, steps, sequences, hidden, x, keep, states[i], next ? next[i] : nullptr,
                             a.gates_of(n, k, l), a.kept_of(n, k, l), out);
            else
                mlp_forward(b, w, n.relu, rows, hidden, x, out);
            x = out;
        }
        if (k == 0) {
            product(b, rows, outputs, hidden, x, hidden, tower + n.decoder(), n.biases, a.logits, outputs);
            continue;
        }
        // The second tower fills a column that the first leaves at 0.
        if (n.biases) {
            for (int i = b.lane; i < rows; i += b.lanes)
                a.logits[long(i) * outputs + n.actions] = tower[n.decoder() - outputs + n.actions];
            b.sync();
        }
        matmul<Left::rows, Result::added>(b, rows, outputs, hidden, x, hidden, tower + n.decoder(), outputs, a.logits,
                                          outputs);
    }
}

// The transposes that a backward pass multiplies by, once per gradient step: [towers, transposed_tower].
inline void make_transposes(Block b, const Shape& n, const float* weights, float* to) {
    const int hidden = n.hidden, gates = n.gates();
    for (int k = 0; k < n.towers(); k++, weights += n.tower(), to += n.transposed_tower()) {
        for (int l = 0; l < n.inner(); l++) {
            const LayerWeights w = layer_weights(n, weights, l);
            float* layer = to + n.transposed_layer(l);
            transpose(b, hidden, gates, w.matrix, gates, layer, hidden);
            if (w.recurrent) transpose(b, hidden, gates, w.recurrent, gates, layer + n.recurrent(), hidden);
        }
        transpose(b, hidden, n.outputs(), weights + n.decoder(), n.outputs(), to + n.transposed_decoder(), hidden);
        if (n.filter_count > 0)
            transpose(b, n.read_stride(), hidden, weights + n.encoder(), hidden, to + n.transposed_encoder(), n.read_stride());
    }
}

// From the gradient of the logits (in a.logits) to those of all weights, which are added to `gradients`. What the forward
// pass left in `a` is used up. carry: scratch, [sequences, state].
inline void network_backward(Block b, const Shape& n, const float* weights, const float* transposes, int steps, int sequences, const Seen& seen,
                             const float* keep, float* const* states, const Activations& a, float* gradients,
                             float* carry) {
    const int rows = steps * sequences, hidden = n.hidden, outputs = n.outputs();
    for (int k = 0; k < n.towers(); k++, gradients += n.tower(), weights += n.tower(), transposes += n.transposed_tower()) {
        const int inner = n.inner(), first = n.first_output(k);
        float* top = a.x_of(n, k, inner);
        weight_gradient(b, hidden, outputs, rows, top, hidden, a.logits, outputs, gradients + n.decoder(),
                        n.biases ? gradients + n.decoder() - outputs : nullptr);
        // The gradient goes down in the place of what left the last layer; an MLP still needs that.
        float* gradient = n.cell == Cell::mlp ? a.gates_of(n, k, 0) : top;
        matmul(b, rows, hidden, n.output_count(k), a.logits + first, outputs,
               transposes + n.transposed_decoder() + long(first) * hidden, hidden, gradient, hidden);
        for (int l = inner - 1; l >= 0; l--) {
            float* g = gradients + n.layer(l);
            const float* w = transposes + n.transposed_layer(l);
            const LayerGradients to = {g, n.cell == Cell::lstm ? g + n.recurrent() : nullptr,
                                       n.biases ? g - n.gates() : nullptr};
            const LayerWeights transposed = {w, n.cell == Cell::lstm ? w + n.recurrent() : nullptr, false};
            const float* x = a.x_of(n, k, l);
            if (n.cell == Cell::mingru)
                mingru_backward(b, transposed, to, steps, sequences, hidden, x, keep, states[k * inner + l],
                                a.gates_of(n, k, l), a.kept_of(n, k, l), gradient, carry);
            else if (n.cell == Cell::lstm)
                lstm_backward(b, transposed, to, steps, sequences, hidden, x, keep, states[k * inner + l],
                              a.gates_of(n, k, l), a.kept_of(n, k, l), gradient, carry);
            else
                mlp_backward(b, transposed, to, n.relu, rows, hidden, x, a.x_of(n, k, l + 1), gradient);
        }
        if (n.cell == Cell::mlp) {
            activate_backward(b, n.relu, long(rows) * hidden, gradient, a.x_of(n, k, 0));
            gradient = a.x_of(n, k, 0);
        }
        encoder_backward(b, n, weights, transposes + n.transposed_encoder(), steps, sequences, seen, a.features, gradient,
                         gradients);
    }
}

// A tower's decoder has columns that belong to the other: what the products left in their gradients goes.
inline void clear_foreign_gradients(Block b, const Shape& n, float* gradients) {
    if (!n.separate) return;
    each_matrix(n, [&](const Matrix& m) {
        if (m.role != Role::decoder) return;
        for (int i = b.lane; i < m.padded_rows; i += b.lanes)
            for (int j = 0; j < m.padded_columns; j++)
                if (j < m.first_column || j >= m.first_column + m.columns) gradients[m.at + long(i) * m.padded_columns + j] = 0.0f;
    });
    b.sync();
}

}  // namespace sweep
