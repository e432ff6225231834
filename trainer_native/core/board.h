// A board of cells with flags, as MinAtar's games show themselves: [row][column][channel], a byte each.
#pragma once

#include "environment.h"

namespace sweep {

SWEEP_FN void clear_board(uint8* board, int size) {
    for (int i = 0; i < size; i++) board[i] = 0;
}

// Each cell with a flag becomes a square of side 1, in the colour of its highest channel.
template <int channels>
SWEEP_FN void draw_board(Canvas& canvas, const uint8* board, Image image, const uint32 (&colours)[channels]) {
    for (int cell = 0; cell < image.height * image.width; cell++)
        for (int channel = channels - 1; channel >= 0; channel--)
            if (board[cell * channels + channel]) {
                const int row = cell / image.width, column = cell % image.width;
                canvas.rectangle(static_cast<float>(column), static_cast<float>(row), 1.0f, 1.0f, colours[channel]);
                break;
            }
}

}  // namespace sweep
