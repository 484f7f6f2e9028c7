/* The emulation of a GPU's threads finds what is wrong with kernels: wrong ones, and psring's own
 * with each barrier left out in turn. */
#include "tests/emulator/cuda/mutants.h"

#include "tests/unit/model/cuda/kernel_orders.h"

#define BLOCKS 3
#define THREADS 64

static void wrong_kernels_are_reported_in_every_order(void **state)
{
    (void)state;
    float *x = floats((size_t)BLOCKS * THREADS);
    float *y = room((size_t)BLOCKS * THREADS * sizeof *y);
    const psr_mutant_args args = {x, y};
    for (uint32_t i = 0; i < psr_mutant_count; i++) {
        const psr_mutant *mutant = &psr_mutants[i];
        if (mutant->by_watching && !PSR_KERNELS_ARE_WATCHED)
            continue;
        for (uint32_t order = 1; order <= ORDERS; order++) {
            const psr_fibers_grid grid = {
                .blocks = BLOCKS, .threads = THREADS, .seed = order, .barriers = mutant->barriers};
            char problem[PSR_FIBERS_PROBLEM_BYTES];
            const bool ok = psr_fibers_run(&grid, mutant->body, &args, problem);
            if (mutant->expected == NULL) {
                assert_true(ok);
                assert_string_equal(problem, "");
            } else if (ok || strstr(problem, mutant->expected) == NULL)
                fail_msg("%s, order %u: \"%s\" does not tell \"%s\"", mutant->name, order, problem,
                         mutant->expected);
        }
    }
    psr_watch_forget();
}

static void a_grid_has_blocks_and_at_most_1024_threads(void **state)
{
    (void)state;
    static const uint32_t wrong[][2] = {{0, 1}, {1, 0}, {1, 1025}};
    for (int i = 0; i < 3; i++) {
        const psr_fibers_grid grid = {.blocks = wrong[i][0], .threads = wrong[i][1]};
        char problem[PSR_FIBERS_PROBLEM_BYTES];
        assert_false(psr_fibers_run(&grid, psr_mutants[0].body, NULL, problem));
        assert_non_null(strstr(problem, "a grid of"));
    }
}

/* ---- barriers left out of psring's kernels ---- */

typedef struct played_kernel {
    psr_cuda_kernel kernel;
    const void *arguments;
    psr_fibers_barrier seen[PSR_FIBERS_BARRIERS];
} played_kernel;

static bool is_missed(const played_kernel *played, const psr_fibers_barrier *without)
{
    const uint32_t threads = psr_cuda_kernel_grid(played->kernel, played->arguments).threads;
    char problem[PSR_FIBERS_PROBLEM_BYTES];
    return !psr_watched_kernel(played->kernel, 1, threads, played->arguments, 1, without, NULL,
                               problem);
}

static void no_barrier_can_be_left_out(void **state)
{
    (void)state;
    if (!PSR_KERNELS_ARE_WATCHED)
        return;
    float *x = floats(60000);
    float *y = room(60000 * sizeof *y);
    uint32_t labels[3] = {0}, correct[300] = {0}, top5[300] = {0}, counts[2];
    double losses[300] = {0}, loss;
    float small[40], more[40];
    const psr_cuda_image_args image = {x, y, PSR_CUDA_FLOAT32, 2, 3, 8, 33, 35};
    const psr_cuda_loss_args of_loss = {.logits = x,
                                        .labels = labels,
                                        .losses = losses,
                                        .correct = correct,
                                        .top5 = top5,
                                        .samples = 3,
                                        .classes = 40};
    const psr_cuda_loss_total_args total = {losses, correct, top5, &loss, counts, 300};
    const psr_cuda_product_args product = {
        .a = x, .b = x, .c = y, .rows = 70, .inner = 40, .columns = 70};
    const psr_cuda_column_sums_args sums = {x, small, 50, PSR_CUDA_FLOAT32, 40};
    const psr_cuda_norm_gradient_args norm = {.x = x,
                                              .dy = x,
                                              .weight = x,
                                              .mean = x,
                                              .variance = x,
                                              .dscale = small,
                                              .dbias = more,
                                              .channels = 40,
                                              .rows = 50};
    played_kernel played[] = {{.kernel = PSR_CUDA_KERNEL_image, .arguments = &image},
                              {.kernel = PSR_CUDA_KERNEL_loss, .arguments = &of_loss},
                              {.kernel = PSR_CUDA_KERNEL_loss_total, .arguments = &total},
                              {.kernel = PSR_CUDA_KERNEL_product, .arguments = &product},
                              {.kernel = PSR_CUDA_KERNEL_column_sums, .arguments = &sums},
                              {.kernel = PSR_CUDA_KERNEL_norm_gradient, .arguments = &norm}};
    enum { PLAYED = sizeof played / sizeof *played };
    char problem[PSR_FIBERS_PROBLEM_BYTES];
    uint32_t barriers = 0;
    for (int i = 0; i < PLAYED; i++) {
        const uint32_t threads =
            psr_cuda_kernel_grid(played[i].kernel, played[i].arguments).threads;
        if (!psr_watched_kernel(played[i].kernel, 1, threads, played[i].arguments, 1, NULL,
                                played[i].seen, problem))
            fail_msg("%s", problem);
    }
    for (int i = 0; i < PLAYED; i++)
        for (int b = 0; b < PSR_FIBERS_BARRIERS && played[i].seen[b].file != NULL; b++) {
            bool missed = false;
            for (int k = 0; k < PLAYED; k++)
                missed |= is_missed(&played[k], &played[i].seen[b]);
            if (!missed)
                fail_msg("%s:%d: without this barrier nothing is reported", played[i].seen[b].file,
                         played[i].seen[b].line);
            barriers++;
        }
    assert_true(barriers >= 15);
    psr_watch_forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KERNEL_TEST(wrong_kernels_are_reported_in_every_order),
        KERNEL_TEST(a_grid_has_blocks_and_at_most_1024_threads),
        KERNEL_TEST(no_barrier_can_be_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
