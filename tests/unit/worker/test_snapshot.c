/* Where a run's state comes from and goes to. One process that plays all ranks (--mode local),
 * whose loop goes without a thread here: what it sends comes out of the simulated network where the
 * scheduler is, what the scheduler would restore is put where the loop would. */
#include "tests/unit/worker/local_trainer.h"

#include "base/arrays/arena.h"
#include "comm/wire/encoding.h"
#include "model/checkpoint/checkpoint.h"
#include "worker/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static psr_sim *sim;
static psr_transport *transport, *scheduler;
static const psr_provision provision = {.self = {PSR_ROLE_WORKER, 0},
                                        .scheduler = "sim://scheduler/0"};
static psr_member *member;

/* The next message to the scheduler; NULL: there is no more. */
static psr_message *next_told(void)
{
    psr_message *message = NULL;
    psr_peer to;
    while (psr_transport_recv(scheduler, 0, &message) == PSR_ERR_TIMEOUT)
        if (!psr_sim_step(sim, &to))
            return NULL;
    return message;
}

static void open_at(uint64_t first_step)
{
    const psr_sim_faults none = {.seed = 1};
    expect_ok(psr_sim_new(&none, &sim));
    expect_ok(psr_transport_sim_new(sim, provision.self, &transport));
    expect_ok(psr_transport_sim_new(sim, (psr_peer){PSR_ROLE_SCHEDULER, 0}, &scheduler));
    const psr_member_options member_options = {.transport = transport, .provision = &provision};
    expect_ok(psr_member_open(&member_options, 0, &member));
    psr_message *join = next_told();
    psr_message_free(&join);
    open_trainer((psr_session_options){
        .first_step = first_step, .total_steps = 9, .transport = transport, .member = member});
}

static int set_up(void **state)
{
    (void)state;
    configure_trainer(10);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psr_transport_free(&transport, 0);
    psr_transport_free(&scheduler, 0);
    close_trainer();
    psr_member_free(member);
    psr_sim_free(sim);
    return 0;
}

/* A value that tells section and place. */
static float value_at(uint32_t section, size_t i)
{
    return (float)section + (float)(i % 1000) / 1000;
}

static void release_message(psr_message *message)
{
    free(message);
}

static psr_message *piece(uint32_t section, size_t offset, size_t count)
{
    psr_message *message = calloc(1, sizeof *message + count * sizeof(float));
    float *payload = (float *)(message + 1);
    for (size_t i = 0; i < count; i++)
        payload[i] = value_at(section, offset + i);
    *message = (psr_message){
        .from = {PSR_ROLE_SCHEDULER, 0},
        .head = psr_msg_restore_head(&(psr_msg_piece){.section = section, .span = {offset, count}}),
        .payload = payload,
        .payload_bytes = count * sizeof(float),
        .release = release_message};
    message->head.encoding = PSR_ENCODING_FLOAT32;
    return message;
}

static void restore(psr_message *message)
{
    psr_early_put(session->restored, 0, &message);
}

/* In two pieces, the later one first. */
static void restore_section(uint32_t section, size_t length)
{
    size_t half = length / 2 / PSR_TENSOR_ALIGN * PSR_TENSOR_ALIGN;
    restore(piece(section, half, length - half));
    restore(piece(section, 0, half));
}

static void expect_section(const psr_layout *layout, const float *arena, uint32_t section)
{
    uint64_t wrong = 0;
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        for (size_t i = tensor->offset; i < tensor->offset + tensor->count; i++)
            wrong += arena[i] != value_at(section, i);
    }
    assert_int_equal(wrong, 0);
}

/* ---- in ---- */

static void a_fresh_start_has_the_networks_initial_weights_and_statistics(void **state)
{
    (void)state;
    open_at(0);
    expect_ok(psr_snapshot_load(&trainer));
    float *weights = NULL, *statistics = NULL;
    expect_ok(psr_arena_new(net->params.length, &weights));
    expect_ok(psr_arena_new(net->buffers.length, &statistics));
    psr_network_init(net, 4, weights, statistics);
    assert_memory_equal(weights, psr_exchange_weights(exchange),
                        net->params.length * sizeof *weights);
    for (uint32_t r = 0; r < 3; r++)
        assert_memory_equal(statistics, trainer.replicas[r].buffers,
                            net->buffers.length * sizeof *statistics);
    psr_arena_free(weights, net->params.length);
    psr_arena_free(statistics, net->buffers.length);
}

static void restored_pieces_make_the_whole_state_in_any_order(void **state)
{
    (void)state;
    open_at(5);
    restore_section(PSR_SECTION_RANK(2), net->buffers.length);
    restore_section(PSR_SECTION_SLOT(0), net->params.length);
    /* the averaged ones: not needed, not refused */
    restore_section(PSR_SECTION_BUFFERS, net->buffers.length);
    restore_section(PSR_SECTION_RANK(0), net->buffers.length);
    restore_section(PSR_SECTION_WEIGHTS, net->params.length);
    restore_section(PSR_SECTION_RANK(1), net->buffers.length);
    expect_ok(psr_snapshot_load(&trainer));
    expect_section(&net->params, psr_exchange_weights(exchange), PSR_SECTION_WEIGHTS);
    expect_section(&net->params, psr_exchange_slot(exchange, 0), PSR_SECTION_SLOT(0));
    for (uint32_t r = 0; r < 3; r++)
        expect_section(&net->buffers, trainer.replicas[r].buffers, PSR_SECTION_RANK(r));
}

static void restore_all_but_residuals(void)
{
    restore_section(PSR_SECTION_WEIGHTS, net->params.length);
    restore_section(PSR_SECTION_SLOT(0), net->params.length);
    for (uint32_t r = 0; r < 3; r++)
        restore_section(PSR_SECTION_RANK(r), net->buffers.length);
}

static void what_each_rank_owes_is_restored_too(void **state)
{
    (void)state;
    strcpy(config.compress, "1bit");
    open_at(5);
    restore_section(PSR_SECTION_RESIDUAL(1), net->params.length);
    restore_all_but_residuals();
    restore_section(PSR_SECTION_RESIDUAL(0), net->params.length);
    restore_section(PSR_SECTION_RESIDUAL(2), net->params.length);
    expect_ok(psr_snapshot_load(&trainer));
    expect_section(&net->params, psr_exchange_weights(exchange), PSR_SECTION_WEIGHTS);
    for (uint32_t r = 0; r < 3; r++)
        expect_section(&net->params, psr_exchange_residual(exchange, r), PSR_SECTION_RESIDUAL(r));
}

static void a_residual_of_nobody_here_is_a_violation(void **state)
{
    (void)state;
    strcpy(config.compress, "1bit");
    open_at(5);
    restore(piece(PSR_SECTION_RESIDUAL(3), 0, 16));
    expect_failure(psr_snapshot_load(&trainer), PSR_ERR_PROTOCOL,
                   "the scheduler restored section 65539, which this run does not have");
}

static void a_run_that_owes_nothing_has_no_residual(void **state)
{
    (void)state;
    strcpy(config.compress, "fp16");
    open_at(5);
    assert_null(psr_exchange_residual(exchange, 0));
    restore(piece(PSR_SECTION_RESIDUAL(0), 0, 16));
    expect_failure(psr_snapshot_load(&trainer), PSR_ERR_PROTOCOL,
                   "the scheduler restored section 65536, which this run does not have");
}

/* The weights that are updated are the checkpoint's; the workers go on with those that they had,
 * and a checkpoint has both again. */
static void what_workers_have_is_restored_and_saved(void **state)
{
    (void)state;
    strcpy(config.compress_weights, "topk:0.1");
    open_at(5);
    restore_section(PSR_SECTION_PULLED, net->params.length);
    restore_all_but_residuals();
    expect_ok(psr_snapshot_load(&trainer));
    expect_section(&net->params, psr_exchange_weights(exchange), PSR_SECTION_PULLED);
    expect_section(&net->params, psr_exchange_saved_weights(exchange), PSR_SECTION_WEIGHTS);

    expect_ok(psr_snapshot_save(&trainer, 7));
    size_t seen[2] = {0};
    int64_t next_ms;
    expect_ok(psr_loop_step(session->loop, 0, &next_ms));
    for (psr_message *message; (message = next_told()) != NULL; psr_message_free(&message)) {
        psr_msg_piece says;
        const float *values;
        expect_ok(psr_msg_piece_read(message, &says));
        if (says.section != PSR_SECTION_WEIGHTS && says.section != PSR_SECTION_PULLED)
            continue;
        expect_ok(psr_decode_floats(message, PSR_ENCODING_FLOAT32, says.span.count, &values));
        assert_true(values[0] == value_at(says.section, says.span.offset));
        seen[says.section == PSR_SECTION_PULLED] += says.span.count;
    }
    assert_int_equal(seen[0], net->params.length);
    assert_int_equal(seen[1], net->params.length);
}

static void a_run_whose_weights_come_whole_has_no_others(void **state)
{
    (void)state;
    strcpy(config.compress_weights, "bf16");
    open_at(5);
    restore(piece(PSR_SECTION_PULLED, 0, 16));
    expect_failure(psr_snapshot_load(&trainer), PSR_ERR_PROTOCOL,
                   "the scheduler restored section 2, which this run does not have");
}

static void a_section_that_the_run_does_not_have_is_a_violation(void **state)
{
    (void)state;
    open_at(5);
    restore(piece(PSR_SECTION_RANK(3), 0, 16));
    expect_failure(psr_snapshot_load(&trainer), PSR_ERR_PROTOCOL,
                   "the scheduler restored section 259, which this run does not have");
}

static void a_piece_beyond_its_sections_end_is_a_violation(void **state)
{
    (void)state;
    open_at(5);
    restore(piece(PSR_SECTION_WEIGHTS, net->params.length - 8, 16));
    assert_int_equal(psr_snapshot_load(&trainer), PSR_ERR_PROTOCOL);
    assert_non_null(strstr(psr_err_detail(), "of section 0, which has"));
}

static void a_piece_whose_payload_is_shorter_than_it_says_is_a_violation(void **state)
{
    (void)state;
    open_at(5);
    psr_message *message = piece(PSR_SECTION_WEIGHTS, 0, 16);
    message->head =
        psr_msg_restore_head(&(psr_msg_piece){.section = PSR_SECTION_WEIGHTS, .span = {0, 17}});
    message->head.encoding = PSR_ENCODING_FLOAT32;
    restore(message);
    assert_int_equal(psr_snapshot_load(&trainer), PSR_ERR_PROTOCOL);
}

static void more_pieces_than_a_checkpoint_has_are_a_violation(void **state)
{
    (void)state;
    open_at(5);
    for (int i = 0; i < 4; i++) /* weights and one slot are two arenas;
                                   the statistics are far smaller */
        restore(piece(PSR_SECTION_WEIGHTS, 0, net->params.length));
    expect_failure(psr_snapshot_load(&trainer), PSR_ERR_PROTOCOL,
                   "the scheduler restored section 0 more than once");
}

/* ---- a file to start from ---- */

static void write_model(const char *path, const psr_layout *params, const psr_layout *statistics)
{
    size_t count = params->tensor_count + statistics->tensor_count;
    psr_tensor *all = calloc(count, sizeof *all);
    memcpy(all, params->tensors, params->tensor_count * sizeof *all);
    memcpy(all + params->tensor_count, statistics->tensors, statistics->tensor_count * sizeof *all);
    psr_checkpoint_writer *writer = NULL;
    expect_ok(psr_checkpoint_create(path, all, count, NULL, &writer));
    for (size_t t = 0; t < count; t++) {
        uint32_t section = t < params->tensor_count ? PSR_SECTION_WEIGHTS : PSR_SECTION_BUFFERS;
        float *data = malloc(all[t].count * sizeof *data);
        for (size_t i = 0; i < all[t].count; i++)
            data[i] = value_at(section, all[t].offset + i);
        expect_ok(psr_checkpoint_put(writer, all[t].name, 0, all[t].count, data));
        free(data);
    }
    expect_ok(psr_checkpoint_commit(&writer));
    free(all);
}

static void init_takes_weights_and_statistics_from_a_checkpoints_directory(void **state)
{
    (void)state;
    char directory[] = "/tmp/psring-test-XXXXXX", file[64];
    assert_non_null(mkdtemp(directory));
    snprintf(file, sizeof file, "%s/model.safetensors", directory);
    strcpy(config.init, directory);
    open_at(0);
    write_model(file, &net->params, &net->buffers);
    psr_err err = psr_snapshot_load(&trainer);
    unlink(file);
    rmdir(directory);
    expect_ok(err);
    expect_section(&net->params, psr_exchange_weights(exchange), PSR_SECTION_WEIGHTS);
    for (uint32_t r = 0; r < 3; r++)
        expect_section(&net->buffers, trainer.replicas[r].buffers, PSR_SECTION_BUFFERS);
}

static void an_init_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    strcpy(config.init, "/nonexistent/model.safetensors");
    open_at(0);
    assert_int_equal(psr_snapshot_load(&trainer), PSR_ERR_NOT_FOUND);
    assert_ptr_equal(strstr(psr_err_detail(), "--init: /nonexistent/model.safetensors"),
                     psr_err_detail());
}

/* ---- out ---- */

/* Whole and in order, beside the other sections, which the next test has. */
static void a_checkpoint_has_what_each_rank_owes(void **state)
{
    (void)state;
    strcpy(config.compress, "topk:0.01");
    open_at(0);
    for (uint32_t r = 0; r < 3; r++)
        for (size_t i = 0; i < net->params.length; i++)
            psr_exchange_residual(exchange, r)[i] = value_at(PSR_SECTION_RESIDUAL(r), i);
    expect_ok(psr_snapshot_save(&trainer, 7));
    size_t seen[3] = {0};
    float *whole = calloc(net->params.length, sizeof *whole);
    int64_t next_ms;
    expect_ok(psr_loop_step(session->loop, 0, &next_ms));
    for (psr_message *message; (message = next_told()) != NULL; psr_message_free(&message)) {
        psr_msg_piece says;
        const float *values;
        expect_ok(psr_msg_piece_read(message, &says));
        if (says.section < PSR_SECTION_RESIDUAL(0))
            continue;
        uint32_t rank = says.section - PSR_SECTION_RESIDUAL(0);
        expect_ok(psr_decode_floats(message, PSR_ENCODING_FLOAT32, says.span.count, &values));
        assert_in_range(rank, 0, 2);
        assert_int_equal(says.steps, 7);
        assert_int_equal(says.span.offset, seen[rank]);
        seen[rank] += says.span.count;
        memcpy(whole + says.span.offset, values, says.span.count * sizeof *whole);
        if (seen[rank] == net->params.length)
            expect_section(&net->params, whole, says.section);
    }
    free(whole);
    for (uint32_t r = 0; r < 3; r++)
        assert_int_equal(seen[r], net->params.length);
}

static void a_checkpoint_sends_every_section_once(void **state)
{
    (void)state;
    open_at(0);
    float *weights = psr_exchange_first_weights(exchange), *slot = psr_exchange_slot(exchange, 0);
    for (size_t i = 0; i < net->params.length; i++) {
        weights[i] = value_at(PSR_SECTION_WEIGHTS, i);
        slot[i] = value_at(PSR_SECTION_SLOT(0), i);
    }
    for (uint32_t r = 0; r < 3; r++)
        for (size_t i = 0; i < net->buffers.length; i++)
            trainer.replicas[r].buffers[i] = value_at(PSR_SECTION_RANK(r), i);
    expect_ok(psr_snapshot_save(&trainer, 7));

    size_t seen[PSR_SECTION_RANK(3)] = {0};
    float *whole = calloc(net->params.length, sizeof *whole); /* of the section whose pieces come */
    int64_t next_ms;
    expect_ok(psr_loop_step(session->loop, 0, &next_ms));
    for (psr_message *message; (message = next_told()) != NULL; psr_message_free(&message)) {
        psr_msg_piece says;
        const float *values;
        assert_int_equal(message->head.type, PSR_MSG_CHECKPOINT);
        expect_ok(psr_msg_piece_read(message, &says));
        expect_ok(psr_decode_floats(message, PSR_ENCODING_FLOAT32, says.span.count, &values));
        assert_int_equal(says.steps, 7);
        assert_in_range(says.section, 0, PSR_SECTION_RANK(2));
        bool arena = says.section == PSR_SECTION_WEIGHTS || says.section == PSR_SECTION_SLOT(0);
        const psr_layout *layout = arena ? &net->params : &net->buffers;
        assert_int_equal(says.span.offset, seen[says.section]); /* in order, and none twice */
        seen[says.section] += says.span.count;
        assert_in_range(seen[says.section], 1, layout->length);
        memcpy(whole + says.span.offset, values, says.span.count * sizeof *whole);
        if (seen[says.section] < layout->length)
            continue;
        if (says.section != PSR_SECTION_BUFFERS)
            expect_section(layout, whole, says.section);
        else /* the mean of 256.x, 257.x and 258.x */
            expect_section(layout, whole, PSR_SECTION_RANK(1));
    }
    free(whole);
    assert_int_equal(seen[PSR_SECTION_WEIGHTS], net->params.length);
    assert_int_equal(seen[PSR_SECTION_SLOT(0)], net->params.length);
    assert_int_equal(seen[PSR_SECTION_BUFFERS], net->buffers.length);
    for (uint32_t r = 0; r < 3; r++)
        assert_int_equal(seen[PSR_SECTION_RANK(r)], net->buffers.length);
}

#define with_config(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_config(a_fresh_start_has_the_networks_initial_weights_and_statistics),
        with_config(restored_pieces_make_the_whole_state_in_any_order),
        with_config(a_section_that_the_run_does_not_have_is_a_violation),
        with_config(a_piece_beyond_its_sections_end_is_a_violation),
        with_config(a_piece_whose_payload_is_shorter_than_it_says_is_a_violation),
        with_config(more_pieces_than_a_checkpoint_has_are_a_violation),
        with_config(init_takes_weights_and_statistics_from_a_checkpoints_directory),
        with_config(an_init_file_that_is_not_there_is_named),
        with_config(what_each_rank_owes_is_restored_too),
        with_config(a_residual_of_nobody_here_is_a_violation),
        with_config(what_workers_have_is_restored_and_saved),
        with_config(a_run_whose_weights_come_whole_has_no_others),
        with_config(a_run_that_owes_nothing_has_no_residual),
        with_config(a_checkpoint_has_what_each_rank_owes),
        with_config(a_checkpoint_sends_every_section_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
