/* Evaluation over several ranks against one pass over every test sample. The ranks are those of
 * --mode local, whose exchange needs no thread for this; that other modes count the same is shown
 * by real processes (tests/integration). */
#include "tests/unit/worker/local_trainer.h"

#include "base/arrays/arena.h"
#include "worker/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int set_up(void **state)
{
    (void)state;
    configure_trainer(50); /* shares of 17, 17 and 16: the last batches are of 1, 1 and none */
    open_trainer((psr_session_options){.total_steps = 1});

    float *spare = NULL;
    expect_ok(psr_arena_new(net->buffers.length, &spare));
    psr_network_init(net, 5, psr_exchange_first_weights(exchange), spare);
    /* Every rank has statistics of its own; variances stay positive. */
    for (uint32_t r = 0; r < 3; r++) {
        for (size_t i = 0; i < net->buffers.length; i++)
            trainer.replicas[r].buffers[i] = spare[i] + (float)((i % 7) * (r + 1)) / 30;
    }
    psr_arena_free(spare, net->buffers.length);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_trainer();
    return 0;
}

static void statistics_are_averaged_in_double_and_ranks_keep_their_own(void **state)
{
    (void)state;
    float *averaged = calloc(net->buffers.length, sizeof *averaged);
    float *before = malloc(net->buffers.length * sizeof *before);
    memcpy(before, trainer.replicas[1].buffers, net->buffers.length * sizeof *before);
    expect_ok(psr_average_buffers(&trainer, PSR_STATISTICS_OWN, averaged));
    uint32_t differ = 0;
    for (size_t i = 0; i < net->buffers.length; i++) {
        double sum = (double)trainer.replicas[0].buffers[i] +
                     (double)trainer.replicas[1].buffers[i] +
                     (double)trainer.replicas[2].buffers[i];
        assert_true(averaged[i] == (float)(sum / 3));
        differ += averaged[i] != trainer.replicas[0].buffers[i];
    }
    assert_true(differ > 100);
    assert_memory_equal(before, trainer.replicas[1].buffers, net->buffers.length * sizeof *before);
    free(averaged);
    free(before);
}

/* The normalised pixels of a test sample, straight from the data set. */
static void take_image(uint32_t i, psr_picture_scratch *scratch, float *image)
{
    const psr_dataset *test = trainer.test;
    psr_picture picture;
    expect_ok(psr_picture_source_get(test->source, i, NULL, scratch, &picture));
    for (size_t p = 0; p < (size_t)test->channels * test->height * test->width; p++)
        image[p] = ((float)picture.pixels[p] / 255 - test->mean[0]) / test->deviation[0];
}

/* One sample at a time. */
static void count_one_by_one(float *averaged, uint64_t *ret_correct, double *ret_loss)
{
    const psr_dataset *test = trainer.test;
    size_t pixels = (size_t)test->channels * test->height * test->width;
    float *image = aligned_alloc(64, (pixels * sizeof *image + 63) / 64 * 64);
    uint64_t correct = 0;
    double loss = 0;
    psr_picture_scratch scratch = {0};
    for (uint32_t i = 0; i < test->count; i++) {
        take_image(i, &scratch, image);
        const psr_batch batch = {
            .images = image, .labels = &test->labels[i], .samples = &i, .count = 1};
        const psr_exec_state on = {.weights = psr_exchange_weights(exchange), .buffers = averaged};
        psr_pass_result result;
        expect_ok(psr_backend_infer(trainer.executors->backend, &batch, &on, NULL, NULL, &result));
        correct += result.correct;
        loss += result.loss_sum;
    }
    psr_scratch_done(&scratch);
    free(image);
    *ret_correct = correct;
    *ret_loss = loss / test->count;
}

static void every_test_sample_counts_once_however_many_share_it(void **state)
{
    (void)state;
    psr_evaluation evaluation;
    expect_ok(psr_evaluate(&trainer, 1, &evaluation));
    assert_int_equal(evaluation.count, 50);

    float *averaged = calloc(net->buffers.length, sizeof *averaged);
    expect_ok(psr_average_buffers(&trainer, PSR_STATISTICS_OWN, averaged));
    uint64_t correct;
    double loss;
    count_one_by_one(averaged, &correct, &loss);
    assert_true(evaluation.accuracy == (double)correct / 50);
    assert_true(fabs(evaluation.loss - loss) < 1e-5 * fabs(loss));
    assert_true(correct > 0 && correct < 50); /* neither all nor none, or the
                                                 count would show little */
    free(averaged);
}

static void an_evaluation_changes_neither_weights_nor_statistics(void **state)
{
    (void)state;
    uint64_t weights = psr_layout_hash(&net->params, psr_exchange_weights(exchange));
    uint64_t statistics = psr_layout_hash(&net->buffers, trainer.replicas[2].buffers);
    psr_evaluation first, again;
    expect_ok(psr_evaluate(&trainer, 1, &first));
    expect_ok(psr_evaluate(&trainer, 1, &again));
    assert_true(first.loss == again.loss && first.accuracy == again.accuracy);
    assert_true(weights == psr_layout_hash(&net->params, psr_exchange_weights(exchange)));
    assert_true(statistics == psr_layout_hash(&net->buffers, trainer.replicas[2].buffers));
}

/* By definition (worker/views.h): view v of a picture, column by column. */
static float seen(const float *plane, int v, int y, int x, int height, int width)
{
    static const int shifts[] = {0, 0, 1, 1, -1, -1};
    x = v % 2 == 1 ? width - 1 - x : x;
    y = abs(y - shifts[v]);
    x = abs(x - shifts[v]);
    y = y < height ? y : height - 2;
    x = x < width ? x : width - 2;
    return plane[y * width + x];
}

/* The mean logits over views, of every sample by itself. */
static void count_views(int count, const double *shares, float *averaged, uint64_t *ret_correct,
                        double *ret_loss)
{
    const psr_dataset *test = trainer.test;
    const size_t pixels = (size_t)test->channels * test->height * test->width;
    float *image = aligned_alloc(64, (pixels * sizeof *image + 63) / 64 * 64);
    float *view = aligned_alloc(64, (pixels * sizeof *view + 63) / 64 * 64);
    float logits[16];
    psr_picture_scratch scratch = {0};
    assert_int_equal(test->channels, 1);
    assert_true(net->classes <= 16);
    for (uint32_t i = 0; i < test->count; i++) {
        double mean[16] = {0}, sum = 0;
        take_image(i, &scratch, image);
        for (int v = 0; v < count; v++) {
            for (uint32_t y = 0; y < test->height; y++)
                for (uint32_t x = 0; x < test->width; x++)
                    view[y * test->width + x] =
                        seen(image, v, (int)y, (int)x, (int)test->height, (int)test->width);
            const psr_batch batch = {
                .images = view, .labels = &test->labels[i], .samples = &i, .count = 1};
            const psr_exec_state on = {.weights = psr_exchange_weights(exchange),
                                       .buffers = averaged};
            psr_pass_result result;
            expect_ok(
                psr_backend_infer(trainer.executors->backend, &batch, &on, NULL, logits, &result));
            for (uint32_t k = 0; k < net->classes; k++)
                mean[k] += shares[v] * (double)logits[k];
        }
        bool right = true;
        for (uint32_t k = 0; k < net->classes; k++) {
            sum += exp(mean[k]);
            right = right && (k == test->labels[i] || mean[k] < mean[test->labels[i]]);
        }
        *ret_loss += log(sum) - mean[test->labels[i]];
        *ret_correct += right;
    }
    psr_scratch_done(&scratch);
    free(image);
    free(view);
}

static void views_of_a_picture_are_judged_by_their_mean_logits(void **state)
{
    (void)state;
    static const double flip[] = {0.5, 0.5},
                        flip_shift[] = {0.25, 0.25, 0.125, 0.125, 0.125, 0.125};
    float *averaged = calloc(net->buffers.length + 1, sizeof *averaged);
    psr_evaluation plain, evaluation;
    expect_ok(psr_average_buffers(&trainer, PSR_STATISTICS_OWN, averaged));
    expect_ok(psr_evaluate(&trainer, 1, &plain));
    for (int which = 0; which < 2; which++) {
        uint64_t correct = 0;
        double loss = 0;
        config.eval_tta = which == 0 ? PSR_EVAL_TTA_FLIP : PSR_EVAL_TTA_FLIP_SHIFT;
        expect_ok(psr_evaluate(&trainer, 1, &evaluation));
        count_views(which == 0 ? 2 : 6, which == 0 ? flip : flip_shift, averaged, &correct, &loss);
        assert_int_equal(evaluation.count, 50);
        assert_true(fabs(evaluation.accuracy * 50 - (double)correct) < 1e-9);
        assert_true(fabs(evaluation.loss - loss / 50) < 1e-5);
        assert_true(evaluation.loss != plain.loss);
    }
    config.eval_tta = PSR_EVAL_TTA_NONE;
    free(averaged);
}

static void an_evaluation_is_left_out_when_the_run_stops_with_its_step_and_only_then(void **state)
{
    (void)state;
    psr_evaluation evaluation;
    session->stop_at = 4; /* 0-based: five steps are to be taken */
    expect_ok(psr_evaluate(&trainer, 4, &evaluation));
    assert_false(evaluation.left_out);
    assert_int_equal(evaluation.count, 50);
    expect_ok(psr_evaluate(&trainer, 5, &evaluation));
    assert_true(evaluation.left_out);
    session->stop_at = UINT64_MAX;
    session->held = true; /* nobody has begun a step that this process has not */
    expect_ok(psr_evaluate(&trainer, 5, &evaluation));
    assert_true(evaluation.left_out);
    session->held = false;
    assert_int_equal(atomic_load(&session->evaluating), 0);
    expect_ok(psr_evaluate(&trainer, 5, &evaluation));
    assert_false(evaluation.left_out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_are_averaged_in_double_and_ranks_keep_their_own),
        cmocka_unit_test(every_test_sample_counts_once_however_many_share_it),
        cmocka_unit_test(an_evaluation_changes_neither_weights_nor_statistics),
        cmocka_unit_test(views_of_a_picture_are_judged_by_their_mean_logits),
        cmocka_unit_test(an_evaluation_is_left_out_when_the_run_stops_with_its_step_and_only_then),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
