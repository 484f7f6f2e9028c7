#include "data/augment/window.h"

psr_picture_window psr_picture_window_of(uint32_t height, uint32_t width)
{
    return (psr_picture_window){
        .height = height, .width = width, .end_row = height, .end_column = width};
}

/* index - shift, not below 0 and not above most. */
static uint32_t shifted(uint32_t index, int32_t shift, uint32_t most)
{
    int64_t moved = (int64_t)index - shift;
    return moved < 0 ? 0 : moved > most ? most : (uint32_t)moved;
}

psr_picture_window psr_picture_window_cut(const psr_picture_window *window, int32_t top,
                                          int32_t left, uint32_t height, uint32_t width)
{
    int32_t shift = window->flip ? (int32_t)window->width - left - (int32_t)width : left;
    return (psr_picture_window){
        .height = height,
        .width = width,
        .top = window->top + top,
        .left = window->left + shift,
        .flip = window->flip,
        .first_row = shifted(window->first_row, top, height),
        .end_row = shifted(window->end_row, top, height),
        .first_column = shifted(window->first_column, left, width),
        .end_column = shifted(window->end_column, left, width),
    };
}

psr_picture_window psr_picture_window_mirror(const psr_picture_window *window)
{
    psr_picture_window mirrored = *window;
    mirrored.flip = !window->flip;
    mirrored.first_column = window->width - window->end_column;
    mirrored.end_column = window->width - window->first_column;
    return mirrored;
}

bool psr_picture_window_is_full(const psr_picture_window *window)
{
    return window->first_row == 0 && window->end_row == window->height &&
           window->first_column == 0 && window->end_column == window->width;
}

int32_t psr_picture_window_column(const psr_picture_window *window, uint32_t x)
{
    return window->left + (int32_t)(window->flip ? window->width - 1 - x : x);
}
