/* Weights into oneDNN's tiles and back: where every element goes, against the definition of the
 * layout. */
#include "model/onednn/kernels/bf16.h"
#include "model/onednn/kernels/tiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#define THREADS 2

/* Of w[o][i][k] in the layout, by its definition. */
static size_t place(const psr_onednn_tiles *t, size_t o, size_t i, size_t k)
{
    size_t side = t->tile, rows = t->outputs / side, columns = t->inputs / side;
    size_t tile = t->order == PSR_ONEDNN_TILES_BAAB ? i / side * rows + o / side
                                                    : o / side * columns + i / side;
    size_t within =
        t->order == PSR_ONEDNN_TILES_ABBA ? i % side * side + o % side : o % side * side + i % side;
    return (tile * t->window + k) * side * side + within;
}

static void check(psr_onednn_tiles t)
{
    size_t count = t.outputs * t.inputs * t.window;
    float *plain = malloc(count * sizeof *plain), *tiles = calloc(count, sizeof *tiles),
          *back = calloc(count, sizeof *back);
    assert_true(plain != NULL && tiles != NULL && back != NULL);
    for (size_t i = 0; i < count; i++)
        plain[i] = (float)(i + 1);
    psr_onednn_tile(&t, plain, tiles, THREADS);
    for (size_t o = 0, at = 0; o < t.outputs; o++)
        for (size_t i = 0; i < t.inputs; i++)
            for (size_t k = 0; k < t.window; k++, at++)
                if (tiles[place(&t, o, i, k)] != plain[at])
                    fail_msg(
                        "order %d, tiles of %zu, %zux%zux%zu: w[%zu][%zu][%zu] is not in its place",
                        (int)t.order, t.tile, t.outputs, t.inputs, t.window, o, i, k);
    psr_onednn_untile(&t, tiles, back, THREADS);
    assert_memory_equal(back, plain, count * sizeof *plain);
    free(plain);
    free(tiles);
    free(back);
}

static void every_weight_has_its_place_in_every_order(void **state)
{
    (void)state;
    for (int order = 0; order < PSR_ONEDNN_TILE_ORDERS; order++) {
        check((psr_onednn_tiles){(psr_onednn_tile_order)order, 16, 16, 16, 1});
        check((psr_onednn_tiles){(psr_onednn_tile_order)order, 16, 48, 32, 1});
        check((psr_onednn_tiles){(psr_onednn_tile_order)order, 16, 32, 48, 9});
        check((psr_onednn_tiles){(psr_onednn_tile_order)order, 16, 16, 80, 25});
        check((psr_onednn_tiles){(psr_onednn_tile_order)order, 8, 8, 8, 1});
        check((psr_onednn_tiles){(psr_onednn_tile_order)order, 8, 24, 16, 9});
        check((psr_onednn_tiles){(psr_onednn_tile_order)order, 8, 16, 40, 4});
    }
}

/* Of w[o][i][k] as a bf16 in the layout, by its definition. */
static size_t place_of_half(const psr_onednn_pairs *t, size_t o, size_t i, size_t k)
{
    const size_t rows = t->outputs / 16, columns = t->inputs / 16;
    const size_t tile = t->order == PSR_ONEDNN_PAIRS_BA_OUTPUTS ? i / 16 * rows + o / 16
                                                                : o / 16 * columns + i / 16;
    const bool of_inputs = t->order == PSR_ONEDNN_PAIRS_AB_INPUTS;
    const size_t paired = of_inputs ? i % 16 : o % 16, other = of_inputs ? o % 16 : i % 16;
    return (tile * t->window + k) * 256 + paired / 2 * 32 + other * 2 + paired % 2;
}

static void check_pairs(psr_onednn_pairs t)
{
    const size_t count = t.outputs * t.inputs * t.window;
    float *plain = malloc(count * sizeof *plain);
    uint32_t *tiles = calloc(count / 2, sizeof *tiles);
    assert_true(plain != NULL && tiles != NULL);
    for (size_t i = 0; i < count; i++)
        plain[i] = (float)(i + 1) / 7;
    psr_onednn_tile_pairs(&t, plain, tiles, THREADS);
    for (size_t o = 0, at = 0; o < t.outputs; o++)
        for (size_t i = 0; i < t.inputs; i++)
            for (size_t k = 0; k < t.window; k++, at++) {
                const size_t place = place_of_half(&t, o, i, k);
                const uint16_t found = (uint16_t)(tiles[place / 2] >> (place % 2 * 16));
                if (found != psr_bf16_from_float(plain[at]))
                    fail_msg("order %d, %zux%zux%zu: w[%zu][%zu][%zu] is not in its place",
                             (int)t.order, t.outputs, t.inputs, t.window, o, i, k);
            }
    free(plain);
    free(tiles);
}

static void every_pair_of_bf16_has_its_place_in_every_order(void **state)
{
    (void)state;
    for (int order = 0; order < PSR_ONEDNN_PAIR_ORDERS; order++) {
        check_pairs((psr_onednn_pairs){(psr_onednn_pair_order)order, 16, 16, 1});
        check_pairs((psr_onednn_pairs){(psr_onednn_pair_order)order, 48, 32, 1});
        check_pairs((psr_onednn_pairs){(psr_onednn_pair_order)order, 32, 48, 9});
        check_pairs((psr_onednn_pairs){(psr_onednn_pair_order)order, 16, 80, 25});
    }
}

static void the_time_that_it_takes_is_counted(void **state)
{
    (void)state;
    double before = psr_onednn_tiles_seconds();
    check((psr_onednn_tiles){PSR_ONEDNN_TILES_ABBA, 16, 512, 512, 9});
    assert_true(psr_onednn_tiles_seconds() > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_weight_has_its_place_in_every_order),
        cmocka_unit_test(every_pair_of_bf16_has_its_place_in_every_order),
        cmocka_unit_test(the_time_that_it_takes_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
