// The sizes of a network, where its weights lie, and the room of one pass through it.
//
// A network is an encoder, the layers of its cell and a decoder: a tower. Policy and value share one, or have one each
// (`separate`). Rows are padded to a multiple of 8 floats; what pads is zero and stays zero.
#pragma once

#include "environment.h"

namespace sweep {

SWEEP_FN constexpr int padded(int n) { return (n + 7) & ~7; }

enum class Cell { mingru, lstm, mlp };

constexpr int most_layers = 8;
constexpr int most_states = 2 * most_layers;   // of both towers
constexpr int most_action_count = 16;

struct Shape {
    int inputs;      // what the encoder reads: the observation, and the constant where there is one
    int hidden;      // H, a multiple of 8
    int layers;      // L; of an MLP the encoder is the first
    int actions;     // A: choices of all discrete actions side by side, or means of continuous ones
    Cell cell;
    bool relu;       // an MLP's activation: else tanh
    bool biases;     // one per product
    bool separate;   // the value has a tower of its own, the second
    int action_count;                 // k: numbers of an action
    bool continuous;                  // they are real numbers, normal around the means; else each is a choice
    bool squashed;                    // what is drawn passes a tanh to the bounds; else it is clipped there
    int choices[most_action_count];   // of each discrete action; they sum to A
    bool bytes;                       // observations are flags, kept as bytes
    int filter_count;                 // filters of a convolution under the encoder, a multiple of 8; 0: there is none
    Image image;                      // what it passes over

    SWEEP_FN int towers() const { return separate ? 2 : 1; }
    SWEEP_FN int inner() const { return cell == Cell::mlp ? layers - 1 : layers; }   // layers after the encoder
    SWEEP_FN int stride() const { return padded(inputs); }         // numbers from one input row to the next
    // What the encoder reads: the inputs, or the features of a convolution (3 × 3, at each place) and the constant.
    SWEEP_FN int image_size() const { return image.height * image.width * image.channels; }
    SWEEP_FN int places() const { return (image.height - 2) * (image.width - 2); }
    SWEEP_FN int read() const {
        return filter_count == 0 ? inputs : places() * filter_count + inputs - image_size();
    }
    SWEEP_FN int read_stride() const { return padded(read()); }
    SWEEP_FN int outputs() const { return padded(actions + 1); }   // floats of a decoder row: logits, value, padding
    // The columns of a decoder row that tower k fills.
    SWEEP_FN int first_output(int k) const { return k == 0 ? 0 : actions; }
    SWEEP_FN int output_count(int k) const { return !separate ? actions + 1 : k == 0 ? actions : 1; }

    // Floats of one row in one layer: what W makes of it, what else a backward pass needs; and of a sequence's state.
    SWEEP_FN int gates() const { return cell == Cell::mingru ? 3 * hidden : cell == Cell::lstm ? 4 * hidden : hidden; }
    SWEEP_FN int kept() const { return cell == Cell::mingru ? hidden : cell == Cell::lstm ? 3 * hidden : 0; }
    SWEEP_FN int state() const { return cell == Cell::mingru ? hidden : cell == Cell::lstm ? 2 * hidden : 0; }
    // Layers that have a state, of all towers; and the floats of `copies` copies' states, [towers, layers, copies, state].
    SWEEP_FN int state_layers() const { return state() > 0 ? towers() * inner() : 0; }
    SWEEP_FN long states(long copies) const { return copies * state() * state_layers(); }

    // Where the weights lie, from the start of a tower: each matrix [in, out], its bias the row above it.
    SWEEP_FN int above() const { return biases ? 1 : 0; }
    SWEEP_FN int taps() const { return filter_count == 0 ? 0 : 9 * image.channels; }
    SWEEP_FN long filters() const { return filter_count; }                                     // [taps, filter_count], its bias above
    SWEEP_FN long filter_floats() const { return long(padded(taps()) + (filter_count > 0)) * filter_count; }
    SWEEP_FN long encoder() const { return filter_floats() + above() * hidden; }               // [read_stride, H]
    SWEEP_FN long first_layer() const { return encoder() + long(read_stride()) * hidden; }
    SWEEP_FN long layer_floats() const { return (long(above()) + hidden * (cell == Cell::lstm ? 2 : 1)) * gates(); }
    SWEEP_FN long layer(int l) const { return first_layer() + l * layer_floats() + above() * gates(); }   // [H, gates]
    SWEEP_FN long recurrent() const { return long(hidden) * gates(); }                    // [H, gates], from its layer
    SWEEP_FN long decoder() const { return first_layer() + inner() * layer_floats() + above() * outputs(); }   // [H, outputs]
    SWEEP_FN long head() const { return decoder() - above() * outputs(); }   // the decoder and its bias, to the end
    SWEEP_FN long tower() const { return decoder() + long(hidden) * outputs(); }          // floats of one tower
    SWEEP_FN long log_stds() const { return towers() * tower(); }   // behind the towers: of each continuous action, [1, padded]
    SWEEP_FN long weights() const { return log_stds() + (continuous ? padded(action_count) : 0); }   // floats in all

    // Where the transposes lie that a backward pass multiplies by: of one layer's W (and U) [gates, H], of the decoder
    // [outputs, H], and floats of one tower's.
    SWEEP_FN long transposed_layer(int l) const { return l * recurrent() * (cell == Cell::lstm ? 2 : 1); }
    SWEEP_FN long transposed_decoder() const { return transposed_layer(inner()); }
    SWEEP_FN long transposed_encoder() const { return transposed_decoder() + long(hidden) * outputs(); }   // below a convolution
    SWEEP_FN long transposed_tower() const {
        return transposed_encoder() + (filter_count > 0 ? long(hidden) * read_stride() : 0);
    }

    // Floats of one row in one tower of Activations.
    SWEEP_FN long x_floats() const { return long(inner() + 1) * hidden; }
    SWEEP_FN long gate_floats() const { return cell == Cell::mlp ? hidden : long(inner()) * gates(); }
    SWEEP_FN long kept_floats() const { return long(inner()) * kept(); }

    // A convolution works on so many rows at a time: their features and the gradient of those stay within some 128 KB.
    SWEEP_FN int feature_rows() const { return read_stride() < 4096 ? 16384 / read_stride() : 4; }
};

enum class Role { filters, encoder, layer, recurrent, decoder, log_std };

// One matrix of the network, or a single row: the bias of one, or the logarithms of the actions' deviations.
struct Matrix {
    Role role;
    bool bias;               // a single row
    int tower;
    long at;                 // its first float in the weights: [padded_rows, padded_columns]
    int padded_rows, padded_columns;
    int rows, columns;       // without padding
    int first_column;        // of those
};

// visit(matrix) for each, in order.
template <class Visit> inline void each_matrix(const Shape& n, Visit visit) {
    const int h = n.hidden, gates = n.gates(), outputs = n.outputs();
    for (int k = 0; k < n.towers(); k++) {
        const long at = k * n.tower();
        if (const int f = n.filter_count; f > 0) {
            visit(Matrix{Role::filters, false, k, at + n.filters(), padded(n.taps()), f, n.taps(), f, 0});
            visit(Matrix{Role::filters, true, k, at + n.filters() - f, 1, f, 1, f, 0});
        }
        visit(Matrix{Role::encoder, false, k, at + n.encoder(), n.read_stride(), h, n.read(), h, 0});
        if (n.biases) visit(Matrix{Role::encoder, true, k, at + n.encoder() - h, 1, h, 1, h, 0});
        for (int l = 0; l < n.inner(); l++) {
            const long layer = at + n.layer(l);
            visit(Matrix{Role::layer, false, k, layer, h, gates, h, gates, 0});
            if (n.cell == Cell::lstm) visit(Matrix{Role::recurrent, false, k, layer + n.recurrent(), h, gates, h, gates, 0});
            if (n.biases) visit(Matrix{Role::layer, true, k, layer - gates, 1, gates, 1, gates, 0});
        }
        const int first = n.first_output(k), count = n.output_count(k);
        visit(Matrix{Role::decoder, false, k, at + n.decoder(), h, outputs, h, count, first});
        if (n.biases) visit(Matrix{Role::decoder, true, k, at + n.decoder() - outputs, 1, outputs, 1, count, first});
    }
    if (n.continuous)
        visit(Matrix{Role::log_std, true, 0, n.log_stds(), 1, padded(n.action_count), 1, n.action_count, 0});
}

// The number of trainable parameters.
inline long parameters_of(const Shape& n) {
    long count = 0;
    each_matrix(n, [&](const Matrix& m) { count += long(m.rows) * m.columns; });
    return count;
}

// Room for `rows` rows of one forward pass: what a backward pass needs of it, tower by tower, layer by layer.
struct Activations {
    float* x;        // [towers, inner + 1, rows, H]: what enters each layer, and what leaves the last
    float* gates;    // [towers, inner, rows, gates]; of an MLP room for one layer's gradient
    float* kept;     // [towers, inner, rows, kept]: of MinGRU each layer's state after each row's step
    float* features; // [the larger of rows and 2 · feature_rows, read_stride]: what a convolution makes, and room for its gradient
    float* logits;   // [rows, outputs]: action logits or means, then the value
    int rows;

    SWEEP_FN float* x_of(const Shape& n, int k, int l) const { return x + (k * n.x_floats() + long(l) * n.hidden) * rows; }
    SWEEP_FN float* gates_of(const Shape& n, int k, int l) const {
        return gates + (k * n.gate_floats() + long(l) * n.gates()) * rows;
    }
    SWEEP_FN float* kept_of(const Shape& n, int k, int l) const {
        return kept + (k * n.kept_floats() + long(l) * n.kept()) * rows;
    }
    // Room for one row in what has room for `rows`: no two share a float.
    SWEEP_FN Activations part(const Shape& n, int row) const {
        const long r = long(row) * n.towers();
        return {x + r * n.x_floats(), gates + r * n.gate_floats(), kept + r * n.kept_floats(), features + long(row) * n.read_stride(),
                logits + long(row) * n.outputs(), 1};
    }
};

// Each layer's part of states that lie as [towers, layers, copies, state], from copy `first`.
SWEEP_FN void layer_pointers(const Shape& n, float* states, int copies, int first, float** pointers) {
    for (int i = 0; i < n.towers() * n.inner(); i++) pointers[i] = states + (long(i) * copies + first) * n.state();
}

}  // namespace sweep
