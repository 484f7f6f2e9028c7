/* A steady step of the oneDNN back end: which reorders oneDNN itself says that it runs, that no
 * convolution is left to its reference loops, and that nothing of ours asks for memory. Meson runs
 * it again with oneDNN held to AVX2, AVX and SSE4.1.
 *
 * oneDNN's account goes to stdout, so the step runs in a child whose stdout is a pipe; the parent
 * never enters a parallel region, which libgomp does not survive a fork with. */
#include "model/backend.h"
#include "model/onednn/kernels/winograd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/model/onednn/algorithms.h"
#include "tests/unit/model/onednn/avx512.h"
#include "tests/unit/expect.h"

enum { BATCH = 13, WARM_UP = 2 }; /* 13: the first size of no weight tensor */

/* ---- what is asked for while counting ---- */

static int counting, asked;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *from, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **ret, size_t alignment, size_t size);
void *__real_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *from, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **ret, size_t alignment, size_t size);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset);

void *__wrap_malloc(size_t size)
{
    asked += counting;
    return __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size)
{
    asked += counting;
    return __real_calloc(count, size);
}
void *__wrap_realloc(void *from, size_t size)
{
    asked += counting;
    return __real_realloc(from, size);
}
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    asked += counting;
    return __real_aligned_alloc(alignment, size);
}
int __wrap_posix_memalign(void **ret, size_t alignment, size_t size)
{
    asked += counting;
    return __real_posix_memalign(ret, alignment, size);
}
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    asked += counting;
    return __real_mmap(at, size, protection, flags, file, offset);
}

/* ---- the child ---- */

typedef struct run {
    const char *model;
    uint32_t channels, size;
    psr_precision precision;
    bool training;
    bool winograd; /* our own, wherever it fits; else all is direct:
                      timing must not decide what is tested */
} run;

static float *zeros(size_t count)
{
    float *x = aligned_alloc(64, (count * sizeof *x + 127) / 64 * 64);
    if (x == NULL)
        _exit(4);
    memset(x, 0, count * sizeof *x);
    return x;
}

/* Exit status 0; 2 when the back end failed, 3 when it asked for memory. */
static int steady_step(const run *r)
{
    psr_network *net;
    psr_buckets buckets;
    psr_backend *backend;
    psr_pass_result result;
    static uint32_t labels[BATCH], samples[BATCH];
    if (psr_network_new(r->model, 10, r->channels, r->size, r->size, PSR_SHORTCUT_B, &net) !=
            PSR_OK ||
        psr_buckets_plan(&net->params, 1 << 20, &buckets) != PSR_OK)
        return 2;
    const psr_backend_options options = {.kind = PSR_BACKEND_ONEDNN,
                                         .precision = r->precision,
                                         .max_batch = BATCH,
                                         .threads = 2,
                                         .buckets = &buckets,
                                         .algorithms = all_by(r->winograd ? 'o' : 'd', net)};
    if (psr_backend_new(net, &options, &backend) != PSR_OK) {
        fprintf(stderr, "%s\n", psr_err_detail());
        return 2;
    }
    float *weights = zeros(net->params.length), *buffers = zeros(net->buffers.length);
    psr_network_init(net, 1, weights, buffers);
    const psr_batch batch = {
        .images = zeros((size_t)BATCH * r->channels * r->size * r->size),
        .labels = labels,
        .samples = samples,
        .count = BATCH,
        .epoch = 1,
        .seed = 1,
    };
    const psr_exec_state state = {weights, zeros(net->params.length), buffers};
    for (int step = 0; step <= WARM_UP; step++) {
        counting = step == WARM_UP;
        if (counting)
            dnnl_set_verbose(1);
        psr_err err = r->training ? psr_backend_train(backend, &batch, &state, 1, NULL, &result)
                                  : psr_backend_infer(backend, &batch, &state, NULL, NULL, &result);
        if (err != PSR_OK)
            return 2;
    }
    counting = 0;
    return asked ? 3 : 0;
}

/* ---- the parent ---- */

typedef struct account {
    uint32_t convolutions, loops, reorders, image_reorders, activation_reorders;
} account;

/* onednn_verbose[,stamp],exec,cpu,KIND,implementation,prop,memories,attributes,
 * algorithm,SHAPE,time */
static void read_line(const char *line, const run *r, account *a)
{
    char images[64];
    snprintf(images, sizeof images, ",%ux%ux%ux%u,", BATCH, r->channels, r->size, r->size);
    if (strstr(line, ",exec,cpu,convolution,") != NULL)
        a->convolutions++;
    if (strstr(line, ",exec,cpu,convolution,ref") != NULL)
        a->loops++;
    if (strstr(line, ",exec,cpu,reorder,") == NULL)
        return;
    a->reorders++;
    char first[16];
    snprintf(first, sizeof first, ",%ux", BATCH);
    if (strstr(line, images) != NULL)
        a->image_reorders++;
    else if (strstr(line, first) != NULL)
        a->activation_reorders++;
}

static account account_of(run r)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        int status = steady_step(&r);
        fflush(stdout);
        _exit(status);
    }
    close(ends[1]);
    FILE *lines = fdopen(ends[0], "r");
    assert_non_null(lines);
    account a = {0};
    char line[1024];
    while (fgets(line, sizeof line, lines) != NULL)
        read_line(line, &r, &a);
    fclose(lines);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
        fail_msg("a steady step of %s asks for memory", r.model);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return a;
}

/* How often values may be copied. Of `low` convolutions the images have fewer rows than the kernel:
 * AVX2 needs a taller copy of those and of their gradient. With less than AVX2 oneDNN has backward
 * convolutions of plain values alone: both values of both directions are copied. */
static uint32_t most_copies(const run *r, uint32_t convolutions, uint32_t low)
{
    if (!r->training || psr_onednn_has_avx512())
        return 0;
    return psr_onednn_has_avx2() ? 2 * low : 4 * convolutions;
}

/* Weights go in twice (forward and backward data) and a gradient comes out once per layer; the
 * first convolution has no backward data. */
static void check(run r, uint32_t convolutions, uint32_t low, uint32_t linears)
{
    account a = account_of(r);
    assert_int_equal(a.convolutions, r.training ? 3 * convolutions - 1 : convolutions);
    assert_true(a.activation_reorders <= most_copies(&r, convolutions, low));
    assert_true(a.image_reorders <= 1);
    uint32_t layers = convolutions + linears;
    assert_true(a.reorders - a.image_reorders - a.activation_reorders <=
                (r.training ? 3 * layers - 1 : layers));
    /* The account is there at all: the convolution of three channels has weights that oneDNN moves;
     * tiles are our own to move, and the convnet's few channels are matrix products of plain
     * values. */
    assert_true(convolutions == 2 || a.reorders > 0);
    assert_int_equal(a.loops, 0);
}

static void a_step_in_float32_reorders_no_activation(void **state)
{
    (void)state;
    check((run){"resnet20", 3, 32, PSR_PRECISION_FP32, true, false}, 21, 0, 0);
    check((run){"resnet18", 3, 32, PSR_PRECISION_FP32, true, false}, 20, 3, 0);
    check((run){"resnet50", 3, 64, PSR_PRECISION_FP32, true, false}, 53, 2, 0);
    check((run){"convnet", 1, 28, PSR_PRECISION_FP32, true, false}, 2, 0, 0);
}

/* In the suite slow: the same networks with images of other sizes. */
static void images_of_other_sizes_make_no_difference(void **state)
{
    (void)state;
    check((run){"resnet50", 3, 32, PSR_PRECISION_FP32, true, false}, 53, 5, 0);
    check((run){"resnet18", 3, 64, PSR_PRECISION_FP32, true, false}, 20, 3, 0);
    check((run){"resnet20", 1, 28, PSR_PRECISION_FP32, true, false}, 21, 0, 0);
    check((run){"resnet18", 1, 28, PSR_PRECISION_FP32, true, false}, 20, 4, 0);
    check((run){"resnet18", 3, 64, PSR_PRECISION_FP32, false, false}, 20, 3, 0);
}

/* Of oneDNN's convolutions as many are left as are not 3x3 of stride 1, on images of more than a
 * pixel. */
static void a_step_by_winograd_reorders_no_activation(void **state)
{
    (void)state;
    const uint32_t own = psr_onednn_allows_avx2() && psr_winograd_supported() ? 13 : 0;
    const run resnet18 = {"resnet18", 3, 64, PSR_PRECISION_FP32, true, true}; /* 13 of 20 */
    const run resnet50 = {"resnet50", 3, 64, PSR_PRECISION_FP32, true, true}; /* 13 of 53 */
    account a = account_of(resnet18), b = account_of(resnet50);
    assert_int_equal(a.convolutions, 3 * (20 - own) - 1);
    assert_int_equal(b.convolutions, 3 * (53 - own) - 1);
    assert_true(a.activation_reorders <= (own ? 0 : most_copies(&resnet18, 20, 3)));
    assert_true(b.activation_reorders <= (own ? 0 : most_copies(&resnet50, 53, 2)));
    assert_int_equal(a.loops + b.loops, 0);
}

static void a_step_in_bf16_reorders_no_activation(void **state)
{
    (void)state;
    check((run){"resnet20", 3, 32, PSR_PRECISION_BF16, true, false}, 21, 0, 1);
    check((run){"resnet18", 3, 64, PSR_PRECISION_BF16, true, false}, 20, 3, 1);
    check((run){"resnet50", 3, 64, PSR_PRECISION_BF16, true, false}, 53, 2, 1);
}

static void inference_reorders_no_activation(void **state)
{
    (void)state;
    check((run){"resnet50", 3, 64, PSR_PRECISION_FP32, false, false}, 53, 2, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_in_float32_reorders_no_activation),
        cmocka_unit_test(a_step_by_winograd_reorders_no_activation),
        cmocka_unit_test(inference_reorders_no_activation),
    };
    const struct CMUnitTest all[] = {
        tests[0],
        tests[1],
        tests[2],
        cmocka_unit_test(images_of_other_sizes_make_no_difference),
    };
    const struct CMUnitTest avx512[] = {
        cmocka_unit_test(a_step_in_bf16_reorders_no_activation),
    };
    if (argc == 1)
        return cmocka_run_group_tests_name("onednn_steady", tests, NULL, NULL);
    if (strcmp(argv[1], "all") == 0)
        return cmocka_run_group_tests_name("onednn_steady", all, NULL, NULL);
    int status = status_before_avx512_tests(argc, argv, "bf16 is refused, which test_onednn holds");
    if (status != 0)
        return status;
    return cmocka_run_group_tests_name("onednn_steady_avx512", avx512, NULL, NULL);
}
