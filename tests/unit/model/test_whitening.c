#include "tests/unit/expect.h"

#include "model/networks/whitening.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 12, IMAGES = 20, SIDE = 32, PIXELS = 3 * SIDE * SIDE };

/* ---- eigenvectors ---- */

static void a_matrix_is_made_of_its_eigenvectors_in_descending_order(void **state)
{
    (void)state;
    double a[SIZE * SIZE], kept[SIZE * SIZE], values[SIZE], vectors[SIZE * SIZE];
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++)
            a[i * SIZE + j] = kept[i * SIZE + j] = cos(i * j) + (i == j ? i - 4 : 0);
    psr_symmetric_eigen(a, SIZE, values, vectors);
    for (int i = 0; i < SIZE; i++) {
        int largest = 0;
        for (int k = 1; k < SIZE; k++)
            if (fabs(vectors[i * SIZE + k]) > fabs(vectors[i * SIZE + largest]))
                largest = k;
        assert_true(vectors[i * SIZE + largest] > 0);
        assert_true(i == 0 || values[i] <= values[i - 1]);
        for (int j = 0; j < SIZE; j++) {
            double dot = 0, entry = 0;
            for (int k = 0; k < SIZE; k++) {
                dot += vectors[i * SIZE + k] * vectors[j * SIZE + k];
                entry += values[k] * vectors[k * SIZE + i] * vectors[k * SIZE + j];
            }
            assert_true(fabs(dot - (i == j)) < 1e-12);
            assert_true(fabs(entry - kept[i * SIZE + j]) < 1e-12);
        }
    }
}

static void a_diagonal_matrix_and_zero_are_their_own(void **state)
{
    (void)state;
    double a[9] = {1, 0, 0, 0, 3, 0, 0, 0, 2}, values[3], vectors[9];
    const double turned[9] = {0, 1, 0, 0, 0, 1, 1, 0, 0};
    psr_symmetric_eigen(a, 3, values, vectors);
    assert_true(values[0] == 3 && values[1] == 2 && values[2] == 1);
    assert_memory_equal(vectors, turned, sizeof turned);
    double zero[4] = {0};
    psr_symmetric_eigen(zero, 2, values, vectors);
    assert_true(values[0] == 0 && values[1] == 0 && vectors[0] == 1 && vectors[3] == 1);
}

/* ---- the layer ---- */

static psr_network *net_of(const char *model)
{
    psr_network *net = NULL;
    expect_ok(psr_network_new(model, 10, 3, SIDE, SIDE, PSR_SHORTCUT_A, &net));
    return net;
}

/* Neighbours resemble each other, and so do colours. */
static float *images_of(void)
{
    float *images = calloc(IMAGES * PIXELS, sizeof *images);
    assert_non_null(images);
    for (int n = 0; n < IMAGES; n++)
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < SIDE; y++)
                for (int x = 0; x < SIDE; x++)
                    images[n * PIXELS + (c * SIDE + y) * SIDE + x] =
                        (float)(sin(0.3 * x + 0.2 * y + n) + 0.2 * cos(1.7 * x * y + c + 3 * n) +
                                0.1 * ((x * 7 + y * 13 + c * 5 + n * 3) % 11));
    return images;
}

/* Output (y, x) of a channel of w[24,3,2,2]. */
static double output(const float *w, const float *image, int y, int x)
{
    double sum = 0;
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 4; i++)
            sum += (double)w[c * 4 + i] * (double)image[(c * SIDE + y + i / 2) * SIDE + x + i % 2];
    return sum;
}

static void its_outputs_are_uncorrelated_and_of_size_one_and_their_negatives(void **state)
{
    (void)state;
    psr_network *net = net_of("airbench94");
    float *images = images_of(), *arena = calloc(net->params.length, sizeof *arena);
    psr_whitening *whitening = NULL;
    expect_ok(psr_whitening_new(net, &whitening));
    psr_whitening_add(whitening, images, 7);
    psr_whitening_add(whitening, images + 7 * PIXELS, IMAGES - 7);
    expect_ok(psr_whitening_finish(whitening, arena));
    psr_whitening_free(whitening);

    const float *w = arena + psr_layout_find(&net->params, "0.weight")->offset;
    double moments[SIZE][SIZE] = {{0}};
    for (int n = 0; n < IMAGES; n++)
        for (int y = 0; y < SIDE - 1; y++)
            for (int x = 0; x < SIDE - 1; x++) {
                double y_of[SIZE];
                for (int i = 0; i < SIZE; i++)
                    y_of[i] = output(w + i * SIZE, images + n * PIXELS, y, x);
                for (int i = 0; i < SIZE; i++)
                    for (int j = 0; j < SIZE; j++)
                        moments[i][j] += y_of[i] * y_of[j];
            }
    const double count = (double)IMAGES * (SIDE - 1) * (SIDE - 1);
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++)
            if (i != j)
                assert_true(fabs(moments[i][j] / count) < 1e-4);
        /* l / (l + 5e-4) */
        assert_true(moments[i][i] / count > 0.5 && moments[i][i] / count < 1);
        for (int k = 0; k < SIZE; k++)
            assert_true(w[(SIZE + i) * SIZE + k] == -w[i * SIZE + k]);
    }
    for (size_t i = SIZE * 2 * SIZE; i < net->params.length; i++)
        assert_true(arena[i] == 0); /* nothing else was written */
    free(images);
    free(arena);
    psr_network_free(net);
}

static void a_network_without_such_a_layer_is_told(void **state)
{
    (void)state;
    psr_network *net = net_of("resnet9");
    psr_whitening *whitening = NULL;
    expect_failure(psr_whitening_new(net, &whitening), PSR_ERR_NOT_FOUND,
                   "no layer of resnet9 whitens");
    psr_network_free(net);
}

/* ---- the identity ---- */

static void convolutions_begin_as_the_identity_of_what_they_read(void **state)
{
    (void)state;
    psr_network *net = net_of("airbench94");
    float *arena = calloc(net->params.length, sizeof *arena);
    float *buffers = calloc(net->buffers.length, sizeof *buffers);
    psr_network_init(net, 5, arena, buffers);
    const float *w = arena + psr_layout_find(&net->params, "2.conv1.weight")->offset;
    double others = 0;
    for (int o = 0; o < 64; o++)
        for (int i = 0; i < 24; i++)
            for (int k = 0; k < 9; k++) {
                const float value = w[(o * 24 + i) * 9 + k];
                if (o < 24)
                    assert_true(value == (o == i && k == 4 ? 1.0f : 0.0f));
                else
                    others += fabs((double)value);
            }
    /* uniform in +-1 / sqrt(216) */
    assert_true(fabs(others / (40 * 216) - 0.5 / sqrt(216)) < 0.001);
    const psr_tensor *bias = psr_layout_find(&net->params, "0.bias");
    for (size_t i = 0; i < bias->count; i++)
        assert_true(arena[bias->offset + i] == 0);
    free(arena);
    free(buffers);
    psr_network_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_matrix_is_made_of_its_eigenvectors_in_descending_order),
        cmocka_unit_test(a_diagonal_matrix_and_zero_are_their_own),
        cmocka_unit_test(its_outputs_are_uncorrelated_and_of_size_one_and_their_negatives),
        cmocka_unit_test(a_network_without_such_a_layer_is_told),
        cmocka_unit_test(convolutions_begin_as_the_identity_of_what_they_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
