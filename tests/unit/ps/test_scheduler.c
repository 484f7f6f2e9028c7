/* The scheduler in virtual time: every message, every order and the clock are the test's. */
#include "tests/unit/expect.h"

#include "net/violation.h"
#include "ps/scheduler/scheduler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENT_MAX = 512, TEXT_MAX = 4096 };

static const psr_peer w0 = {PSR_ROLE_WORKER, 0}, w1 = {PSR_ROLE_WORKER, 1}, s0 = {PSR_ROLE_SHARD, 0};
static const psr_peer any_worker = {PSR_ROLE_WORKER, PSR_RANK_ANY};

typedef struct fixture {
    psr_config config;
    psr_scheduler *scheduler;
    int64_t now_ms;
    struct sent {
        psr_peer to;
        psr_head head;
        char text[TEXT_MAX];
    } * sent;
    size_t sent_count;
    char said[TEXT_MAX];
    uint32_t connected, joined, begun, restored, started, metrics, pieces, evaluations;
    uint32_t metrics_rank;
    uint64_t metrics_step, evaluated_step, evaluated_count;
    uint64_t first_step, last_checkpoint;
    psr_err last_checkpoint_err;
    char algorithms[64];
    psr_facts facts; /* of begin */
    bool ended;
    psr_err status;
    char line[TEXT_MAX], outcomes[TEXT_MAX];
} fixture;

/* ---- the driver ---- */

static psr_err on_send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    fixture *f = context;
    assert_true(f->sent_count < SENT_MAX);
    struct sent *sent = &f->sent[f->sent_count++];
    *sent = (struct sent){.to = to, .head = *head};
    if (payload)
        snprintf(sent->text, sizeof sent->text, "%.*s", (int)payload->bytes, (const char *)payload->data);
    return PSR_OK;
}

static psr_err on_connect(void *context, psr_peer peer, const char *endpoint)
{
    fixture *f = context;
    (void)peer;
    assert_string_equal(endpoint, "tcp://127.0.0.1:1");
    f->connected++;
    return PSR_OK;
}

static void on_joined(void *context, const psr_view_member *entry, uint32_t count, uint32_t total)
{
    fixture *f = context;
    (void)entry;
    assert_int_equal(count, ++f->joined);
    assert_int_equal(total, f->config.workers + (f->config.mode == PSR_MODE_PS ? f->config.shards : 0));
}

static psr_err on_begin(void *context, const psr_config *config, const psr_facts *facts,
                        const char *members_json, psr_beginning *ret_beginning)
{
    fixture *f = context;
    assert_non_null(strstr(members_json, "\"endpoint\":\"tcp://127.0.0.1:1\""));
    f->begun++;
    f->facts = *facts;
    static const psr_part parts[] = {{{2048, 1024}, 0}, {{0, 2048}, 1}};
    const psr_plan_options plan = {
        .route = PSR_ROUTE_SHARD, .ranks = config->workers, .shards = 1, .slice_floats = 1024, .window = 2};
    ret_beginning->first_step = f->first_step;
    return psr_plan_make(&plan, parts, 2, &ret_beginning->plan);
}

static psr_err on_restore(void *context)
{
    ((fixture *)context)->restored++;
    return PSR_OK;
}

static psr_err on_started(void *context, const char *algorithms)
{
    fixture *f = context;
    f->started++;
    snprintf(f->algorithms, sizeof f->algorithms, "%s", algorithms);
    return PSR_OK;
}

static psr_err on_metrics(void *context, const psr_metrics_line *line)
{
    fixture *f = context;
    assert_true(cJSON_IsObject(line->fields));
    assert_true(f->config.mode == PSR_MODE_LOCAL ? line->worker == 0 : line->worker == line->rank);
    f->metrics++;
    f->metrics_rank = line->rank;
    f->metrics_step = line->step;
    return PSR_OK;
}

static void on_evaluating(void *context, uint32_t rank, uint64_t step, uint64_t counted)
{
    fixture *f = context;
    assert_int_equal(rank, 1);
    f->evaluations++;
    f->evaluated_step = step;
    f->evaluated_count = counted;
}

static psr_err on_checkpoint(void *context, uint64_t step, uint32_t section, const float *data, size_t offset,
                             size_t count)
{
    (void)step, (void)section, (void)data, (void)offset, (void)count;
    ((fixture *)context)->pieces++;
    return PSR_OK;
}

static psr_err on_last_checkpoint(void *context, uint64_t step)
{
    fixture *f = context;
    f->last_checkpoint = step;
    return f->last_checkpoint_err == PSR_OK ? PSR_OK : psr_fail(f->last_checkpoint_err, "a piece is missing");
}

static void on_say(void *context, const char *line)
{
    fixture *f = context;
    size_t used = strlen(f->said);
    snprintf(f->said + used, sizeof f->said - used, "%s\n", line);
}

static void on_done(void *context, uint32_t rank, const char *json, size_t size)
{
    fixture *f = context;
    size_t used = strlen(f->outcomes);
    snprintf(f->outcomes + used, sizeof f->outcomes - used, "worker %u: %.*s\n", rank, (int)size, json);
}

static void on_carried(void *context, uint32_t shard, const psr_traffic *traffic)
{
    fixture *f = context;
    size_t used = strlen(f->outcomes);
    snprintf(f->outcomes + used, sizeof f->outcomes - used,
             "shard %u: {\"gradient_bytes\": %" PRIu64 ", \"weight_bytes\": %" PRIu64 "}\n", shard,
             traffic->gradient_bytes, traffic->weight_bytes);
}

static void on_ended(void *context, psr_err status, const char *line)
{
    fixture *f = context;
    assert_false(f->ended);
    f->ended = true;
    f->status = status;
    snprintf(f->line, sizeof f->line, "%s", line);
}

static void clear(fixture *f)
{
    psr_scheduler_free(f->scheduler);
    free(f->sent);
    memset(f, 0, sizeof *f);
}

/* Two workers and a shard, deadline 8 s. The scheduler of a run before is gone. */
static void set_up(fixture *f)
{
    clear(f);
    f->sent = calloc(SENT_MAX, sizeof *f->sent);
    psr_config_defaults(&f->config);
    f->config.mode = PSR_MODE_PS;
    f->config.workers = 2;
    f->config.shards = 1;
    f->config.deadline_s = 8;
}

static void open_scheduler(fixture *f)
{
    psr_scheduler_events events = {
        .context = f,
        .send = on_send,
        .connect = on_connect,
        .joined = on_joined,
        .begin = on_begin,
        .restore = on_restore,
        .started = on_started,
        .metrics = on_metrics,
        .evaluating = on_evaluating,
        .done = on_done,
        .carried = on_carried,
        .checkpoint = on_checkpoint,
        .last_checkpoint = on_last_checkpoint,
        .say = on_say,
        .ended = on_ended,
    };
    expect_ok(psr_scheduler_new(&f->config, &events, "head", f->now_ms, &f->scheduler));
}

/* ---- members ---- */

static void give(fixture *f, psr_peer from, psr_head head, const void *payload, size_t bytes)
{
    psr_message message = {.from = from, .head = head, .payload = payload, .payload_bytes = bytes};
    psr_scheduler_message(f->scheduler, &message, f->now_ms);
}

/* A piece of a checkpoint: the first float of a section. */
static psr_head one_float(uint64_t steps, uint32_t section)
{
    psr_head head = psr_msg_checkpoint_head(&(psr_msg_piece){steps, section, {0, 1}});
    head.encoding = PSR_ENCODING_FLOAT32;
    return head;
}

static void say(fixture *f, psr_peer from, psr_message_type type, const char *text)
{
    give(f, from, (psr_head){.type = type}, text, text ? strlen(text) : 0);
}

static void join_as(fixture *f, psr_peer from, const char *host, const char *version)
{
    psr_join join = {.pid = 7, .endpoint = "tcp://127.0.0.1:1"};
    char *json = NULL;
    snprintf(join.host, sizeof join.host, "%s", host);
    snprintf(join.version, sizeof join.version, "%s", version);
    expect_ok(psr_join_to_json(&join, &json));
    say(f, from, PSR_MSG_JOIN, json);
    free(json);
}

static void join(fixture *f, psr_peer from, const char *host)
{
    join_as(f, from, host, PSR_VERSION);
}

static const psr_facts some_facts = {.identity = "oneDNN 2.6.3 avx2 threads=1",
                                     .data_name = "synthetic",
                                     .train_count = 100,
                                     .test_count = 30,
                                     .classes = 10,
                                     .steps_per_epoch = 5,
                                     .total_steps = 20,
                                     .parameter_count = 1000};

static void tell_facts(fixture *f, psr_peer from, psr_facts facts)
{
    char *json = NULL;
    if (from.role == PSR_ROLE_WORKER)
        expect_ok(psr_facts_to_json(&facts, &json));
    say(f, from, PSR_MSG_FACTS, json);
    free(json);
}

static void join_all(fixture *f)
{
    join(f, s0, "a");
    join(f, w0, "a");
    join(f, w1, "b");
    assert_int_equal(f->joined, 3);
    assert_int_equal(f->connected, 3);
}

static void start_all(fixture *f)
{
    join_all(f);
    tell_facts(f, s0, some_facts);
    tell_facts(f, w0, some_facts);
    tell_facts(f, w1, some_facts);
    say(f, s0, PSR_MSG_READY, NULL);
    say(f, w1, PSR_MSG_READY, NULL);
    assert_int_equal(f->started, 0);
    say(f, w0, PSR_MSG_READY, "{\"algorithms\": \"ddd,doo\"}");
    assert_int_equal(f->started, 1);
}

/* A run from its beginning: nobody has joined; all have; it is on. Tests begin in one of these, and may begin again. */
static void set_up_opened(fixture *f)
{
    set_up(f);
    open_scheduler(f);
}

static void set_up_joined(fixture *f)
{
    set_up_opened(f);
    join_all(f);
}

static void set_up_started(fixture *f)
{
    set_up_opened(f);
    start_all(f);
}

typedef struct beginning {
    void (*set_up)(fixture *f);
} beginning;

static int begin(void **state)
{
    static fixture f;
    ((const beginning *)*state)->set_up(&f);
    *state = &f;
    return 0;
}

static int end(void **state)
{
    clear(*state);
    return 0;
}

static void held(fixture *f, psr_peer from, uint64_t step)
{
    give(f, from, psr_msg_held_head(step), NULL, 0);
}

static void failed(fixture *f, psr_peer from, psr_err status, const char *line)
{
    give(f, from, psr_msg_failed_head(status), line, strlen(line));
}

static void done(fixture *f, psr_peer from, uint64_t steps, const char *outcome)
{
    give(f, from, psr_msg_done_head(&(psr_msg_done){.steps = steps}), outcome, outcome ? strlen(outcome) : 0);
}

static void all_done(fixture *f, uint64_t steps)
{
    done(f, s0, steps, NULL);
    done(f, w0, steps, "{}");
    done(f, w1, steps, NULL);
}

static size_t count_sent(const fixture *f, psr_message_type type)
{
    size_t count = 0;
    for (size_t i = 0; i < f->sent_count; i++)
        count += f->sent[i].head.type == type;
    return count;
}

static const struct sent *last_sent(const fixture *f, psr_message_type type)
{
    static const struct sent nothing;
    const struct sent *last = &nothing;
    for (size_t i = 0; i < f->sent_count; i++)
        if (f->sent[i].head.type == type)
            last = &f->sent[i];
    assert_true(last != &nothing);
    return last;
}

static void ends(fixture *f, psr_err status, const char *line)
{
    if (!f->ended)
        fail_msg("the run goes on, and should end: %s", line);
    assert_string_equal(f->line, line);
    assert_string_equal(psr_err_name(f->status), psr_err_name(status));
    assert_true(psr_scheduler_ended(f->scheduler));
}

static void ends_with_words(const fixture *f, psr_err status, const char *words)
{
    if (!f->ended)
        fail_msg("the run goes on, and should end: %s", words);
    assert_string_equal(psr_err_name(f->status), psr_err_name(status));
    if (strstr(f->line, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, f->line);
}

static void tick(fixture *f, int64_t now_ms)
{
    f->now_ms = now_ms;
    psr_scheduler_tick(f->scheduler, now_ms);
}

/* What was said last with one of these. */
static uint64_t saved_said(const fixture *f)
{
    psr_message message = {.head = last_sent(f, PSR_MSG_SAVED)->head};
    uint64_t steps;
    expect_ok(psr_msg_saved_read(&message, &steps));
    return steps;
}

static uint64_t stop_at_said(const fixture *f)
{
    psr_message message = {.head = last_sent(f, PSR_MSG_STOP_AT)->head};
    uint64_t step;
    expect_ok(psr_msg_stop_at_read(&message, &step));
    return step;
}

static void progress(fixture *f, psr_peer from, psr_phase phase, uint64_t step, uint64_t counter,
                     const psr_peer *waits_for)
{
    psr_msg_progress says = {.phase = phase, .step = step, .counter = counter, .waits = waits_for != NULL};
    if (waits_for)
        says.waits_for = *waits_for;
    give(f, from, psr_msg_progress_head(&says), NULL, 0);
}

/* ---- joining ---- */

static void a_run_starts_when_all_have_joined_agree_and_are_ready(void **state)
{
    fixture *f = *state;
    assert_int_equal(count_sent(f, PSR_MSG_CONFIG), 3);
    assert_non_null(strstr(last_sent(f, PSR_MSG_CONFIG)->text, "\"rank\":1"));
    tell_facts(f, w1, some_facts);
    tell_facts(f, w0, some_facts);
    assert_int_equal(f->begun, 0);
    tell_facts(f, s0, some_facts);
    assert_int_equal(f->begun, 1);
    assert_int_equal(f->facts.total_steps, 20);
    assert_int_equal(count_sent(f, PSR_MSG_WELCOME), 3);
    assert_int_equal(f->restored, 0);
    say(f, w1, PSR_MSG_READY, NULL);
    say(f, s0, PSR_MSG_READY, NULL);
    assert_int_equal(count_sent(f, PSR_MSG_START), 0);
    say(f, w0, PSR_MSG_READY, "{\"algorithms\": \"ddd,doo\"}");
    assert_int_equal(count_sent(f, PSR_MSG_START), 3);
    assert_string_equal(f->algorithms, "ddd,doo");
    assert_false(f->ended);
}

static void ranks_that_nobody_asks_for_are_given_in_the_order_of_joining(void **state)
{
    fixture *f = *state;
    f->config.workers = 3;
    open_scheduler(f);
    join(f, w1, "x");
    join(f, any_worker, "y");
    assert_int_equal(last_sent(f, PSR_MSG_CONFIG)->to.rank, 0);
    join(f, any_worker, "z");
    assert_int_equal(last_sent(f, PSR_MSG_CONFIG)->to.rank, 2);
    join(f, any_worker, "late");
    assert_int_equal(f->joined, 3);
    assert_string_equal(f->said, "a worker on late (process 7) wants to join and has no place: the run has 3 "
                                 "workers and 1 shards, each once\n");
}

static void who_asks_for_a_rank_that_is_taken_or_not_there_is_turned_away_and_the_run_goes_on(void **state)
{
    fixture *f = *state;
    join(f, w1, "thief");
    join(f, (psr_peer){PSR_ROLE_WORKER, 9}, "nine");
    join(f, (psr_peer){PSR_ROLE_SCHEDULER, 0}, "king");
    assert_int_equal(f->joined, 3);
    assert_int_equal(count_sent(f, PSR_MSG_CONFIG), 3);
    assert_non_null(strstr(f->said, "on thief"));
    assert_non_null(strstr(f->said, "on nine"));
    assert_non_null(strstr(f->said, "a scheduler on king"));
    assert_false(f->ended);
}

static void another_version_is_refused_by_host_and_both_versions(void **state)
{
    fixture *f = *state;
    join(f, s0, "a");
    join_as(f, w1, "b", "0.0.9");
    ends(f, PSR_ERR_VERSION,
         "worker 1 on b is psring 0.0.9, the scheduler on head is psring " PSR_VERSION
         ": install one version on all hosts");
    assert_int_equal(count_sent(f, PSR_MSG_ABORT), 1); /* to the one that has joined */
    assert_string_equal(last_sent(f, PSR_MSG_ABORT)->text, f->line);
}

static void facts_that_differ_are_refused_by_host_and_both_values(void **state)
{
    fixture *f = *state;
    const struct {
        psr_facts facts;
        const char *line;
    } cases[] = {
        {{.identity = "oneDNN 3.7.2 amx threads=1"},
         "worker 1 on b computes with oneDNN 3.7.2 amx threads=1, worker 0 on a with oneDNN 2.6.3 avx2 "
         "threads=1: their bits could "
         "differ; use the same on all hosts"},
        {{.identity = "oneDNN 2.6.3 avx2 threads=1", .data_name = "mnist"},
         "worker 1 on b found data set mnist, worker 0 on a found synthetic: --data must be the same on all "
         "hosts"},
        {{.identity = "oneDNN 2.6.3 avx2 threads=1", .data_name = "synthetic", .train_count = 99},
         "worker 1 on b has 99 training samples in synthetic, worker 0 on a has 100: --data must be the same "
         "on all hosts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set_up_joined(f);
        tell_facts(f, s0, some_facts);
        tell_facts(f, w0, some_facts);
        tell_facts(f, w1, cases[i].facts);
        ends(f, PSR_ERR_USAGE, cases[i].line);
        assert_int_equal(f->begun, 0); /* nothing was written */
    }
}

static void who_never_comes_up_is_named_with_those_that_did(void **state)
{
    fixture *f = *state;
    join(f, s0, "a");
    tick(f, 1000);
    join(f, w0, "a");
    progress(f, s0, PSR_PHASE_START, 0, 1, NULL);
    tick(f, 8500); /* counted from the last that came */
    assert_false(f->ended);
    progress(f, s0, PSR_PHASE_START, 0, 2, NULL);
    progress(f, w0, PSR_PHASE_START, 0, 2, NULL);
    assert_true(psr_scheduler_next_tick(f->scheduler) <= 9000);
    tick(f, 9000);
    ends(f, PSR_ERR_TIMEOUT, "worker 1 never came up; those that did: shard 0 on a, worker 0 on a");
}

static void a_short_deadline_still_gives_time_to_come_up(void **state)
{
    fixture *f = *state;
    f->config.deadline_s = 1;
    open_scheduler(f);
    tick(f, 4900);
    assert_false(f->ended);
    tick(f, 5000);
    ends(f, PSR_ERR_TIMEOUT, "shard 0, worker 0, worker 1 never came up; nobody did");
}

static void a_member_that_joins_and_falls_silent_is_named(void **state)
{
    fixture *f = *state;
    tick(f, 8001);
    ends_with_words(f, PSR_ERR_TIMEOUT, "no sign of life for 8.0 s");
}

static void a_resumed_run_has_its_state_sent_after_the_roster(void **state)
{
    fixture *f = *state;
    f->first_step = 12;
    open_scheduler(f);
    start_all(f);
    assert_int_equal(f->restored, 1);
    psr_welcome welcome;
    const char *text = last_sent(f, PSR_MSG_WELCOME)->text;
    expect_ok(psr_welcome_from_json(text, strlen(text), &welcome));
    assert_int_equal(welcome.first_step, 12);
    assert_int_equal(welcome.view.epoch, 0);
    assert_int_equal(welcome.view.plan.slice_count, 3);
    assert_int_equal(welcome.view.member_count, 3);
    assert_string_equal(welcome.view.members[2].host, "b");
    psr_view_done(&welcome.view);
}

static void in_local_mode_one_process_is_the_whole_run(void **state)
{
    fixture *f = *state;
    f->config.mode = PSR_MODE_LOCAL;
    f->config.workers = 5;
    open_scheduler(f);
    join(f, (psr_peer){PSR_ROLE_SHARD, 0}, "a");
    assert_non_null(strstr(f->said, "has no place"));
    f->config.workers = 1; /* of processes, for on_joined */
    join(f, w0, "a");
    tell_facts(f, w0, some_facts);
    say(f, w0, PSR_MSG_READY, NULL);
    assert_int_equal(f->started, 1);
    give(f, w0, one_float(20, PSR_SECTION_RANK(4)), (float[]){1}, sizeof(float));
    assert_int_equal(f->pieces, 1);
}

/* ---- running ---- */

static void progress_is_answered_and_figures_are_passed_on(void **state)
{
    fixture *f = *state;
    progress(f, w1, PSR_PHASE_FORWARD, 0, 1, NULL);
    assert_int_equal(count_sent(f, PSR_MSG_ALIVE), 1);
    assert_int_equal(last_sent(f, PSR_MSG_ALIVE)->to.rank, 1);
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 0}");
    assert_int_equal(f->metrics, 1);
}

static void an_evaluations_progress_is_told_from_its_begin_on(void **state)
{
    fixture *f = *state;
    progress(f, w1, PSR_PHASE_FORWARD, 3, 1, NULL);
    assert_int_equal(f->evaluations, 0);
    psr_msg_progress says = {.phase = PSR_PHASE_EVALUATION, .step = 3, .evaluates = true};
    give(f, w1, psr_msg_progress_head(&says), NULL, 0);
    assert_int_equal(f->evaluations, 1);
    assert_int_equal(f->evaluated_step, 4); /* completed */
    assert_int_equal(f->evaluated_count, 0);
    /* It waits for the others, and has counted all that it had to. */
    says.phase = PSR_PHASE_BARRIER;
    says.counted = 30;
    give(f, w1, psr_msg_progress_head(&says), NULL, 0);
    assert_int_equal(f->evaluations, 2);
    assert_int_equal(f->evaluated_count, 30);
    assert_false(f->ended);
}

/* Behind a row of pieces a PROGRESS may wait for long. */
static void every_piece_of_a_checkpoint_is_answered(void **state)
{
    fixture *f = *state;
    give(f, s0, one_float(20, PSR_SECTION_SLOT(0)), (float[]){1}, sizeof(float));
    give(f, w1, one_float(20, PSR_SECTION_RANK(1)), (float[]){1}, sizeof(float));
    assert_int_equal(f->pieces, 2);
    assert_int_equal(count_sent(f, PSR_MSG_ALIVE), 2);
    assert_true(psr_peer_equal(last_sent(f, PSR_MSG_ALIVE)->to, w1));
}

/* One float of a section that is the sender's own. */
static void send_piece(fixture *f, psr_peer from, uint64_t step)
{
    uint32_t section = from.role == PSR_ROLE_SHARD ? PSR_SECTION_SLOT(0) : PSR_SECTION_RANK(from.rank);
    give(f, from, one_float(step, section), (float[]){1}, sizeof(float));
}

static void start_with_checkpoints(fixture *f, uint64_t every, uint64_t first_step)
{
    set_up(f);
    f->config.checkpoint_every = every;
    f->first_step = first_step;
    open_scheduler(f);
    start_all(f);
}

static void checkpoints_come_in_order_each_when_the_one_before_is_in_place(void **state)
{
    fixture *f = *state;
    start_with_checkpoints(f, 6, 6); /* of 20 steps; 6 were taken before */
    send_piece(f, w1, 12);
    send_piece(f, s0, 12);
    send_piece(f, s0, 18); /* the workers wait with theirs, but its buckets go on */
    send_piece(f, s0, 12);
    send_piece(f, w1, 12);
    psr_scheduler_checkpointed(f->scheduler, 12, 0);
    send_piece(f, w1, 18);
    send_piece(f, s0, 20);
    psr_scheduler_checkpointed(f->scheduler, 18, 0);
    send_piece(f, w1, 20);
    assert_false(f->ended);
    assert_int_equal(f->pieces, 8);
}

static void a_run_that_stops_has_its_checkpoint_due_there(void **state)
{
    fixture *f = *state;
    start_with_checkpoints(f, 0, 0);
    psr_scheduler_stop(f->scheduler, 0);
    held(f, w1, 6);
    held(f, w0, 7);
    send_piece(f, w1, 8);
    send_piece(f, s0, 8);
    assert_false(f->ended);
    assert_int_equal(f->pieces, 2);
}

static void a_checkpoint_that_is_not_due_is_a_violation(void **state)
{
    fixture *f = *state;
    const struct {
        psr_peer from;
        uint64_t steps[4]; /* the last of them is the violation */
        const char *why;
    } cases[] = {
        {{PSR_ROLE_WORKER, 1},
         {6},
         "no checkpoint of 6 steps is due; its next one is of 12"}, /* it was resumed from */
        {{PSR_ROLE_WORKER, 1}, {0}, "no checkpoint of 0 steps is due; its next one is of 12"},
        {{PSR_ROLE_WORKER, 1}, {13}, "no checkpoint of 13 steps is due; its next one is of 12"},
        {{PSR_ROLE_WORKER, 1}, {18}, "no checkpoint of 18 steps is due; its next one is of 12"},
        {{PSR_ROLE_WORKER, 1}, {21}, "no checkpoint of 21 steps is due; its next one is of 12"},
        {{PSR_ROLE_WORKER, 1},
         {UINT64_MAX},
         "no checkpoint of 18446744073709551615 steps is due; its next one is of 12"},
        {{PSR_ROLE_WORKER, 1}, {12, 18}, "its checkpoint of 12 steps is not in place"},
        {{PSR_ROLE_SHARD, 0}, {18}, "no checkpoint of 18 steps is due; its next one is of 12"},
        {{PSR_ROLE_SHARD, 0}, {12, 18, 20}, "its checkpoint of 12 steps is not in place"},
        {{PSR_ROLE_SHARD, 0}, {12, 18, 6}, "no checkpoint of 6 steps is due; its next one is of 20"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start_with_checkpoints(f, 6, 6);
        size_t at = 0;
        do
            send_piece(f, cases[i].from, cases[i].steps[at++]);
        while (cases[i].steps[at] != 0);
        ends_with_words(f, PSR_ERR_PROTOCOL, cases[i].why);
        assert_int_equal(f->pieces, at - 1);
        assert_non_null(strstr(f->line, cases[i].from.role == PSR_ROLE_SHARD ? "on a: shard 0 sent"
                                                                             : "on b: worker 1 sent"));
    }
}

static void a_line_of_metrics_that_is_not_due_is_a_violation(void **state)
{
    fixture *f = *state;
    char longer[5000];
    memset(longer, ' ', sizeof longer);
    memcpy(longer, "{\"step\": 7, \"rank\": 1", 21);
    snprintf(longer + sizeof longer - 2, 2, "}");
    const struct {
        const char *line, *why;
    } cases[] = {
        {"{\"step\": 7, \"rank\": 0}", "the metrics of rank 0 are not its to tell"},
        {"{\"step\": 7, \"rank\": 2}", "the metrics of rank 2 are not its to tell"},
        {"{\"step\": 6, \"rank\": 1}", "it tells step 6 of rank 1 after step 6"},
        {"{\"step\": 8, \"rank\": 1}", "it tells step 8 of rank 1 after step 6"},
        {"{\"step\": 7}", "its payload is no JSON object with step and rank"},
        {"{\"step\": -1, \"rank\": 1}", "its payload is no JSON object with step and rank"},
        {"{\"step\": 1e300, \"rank\": 1}", "its payload is no JSON object with step and rank"},
        {"{\"step\": 7.5, \"rank\": 1}", "its payload is no JSON object with step and rank"},
        {"{\"step\": 7, \"rank\": \"1\"}", "its payload is no JSON object with step and rank"},
        {"[7, 1]", "its payload is no JSON object with step and rank"},
        {"{", "its payload is no JSON object with step and rank"},
        {"garbage", "its payload is no JSON object with step and rank"},
        {"{\"step\": 7, \"rank\": 7}", "the metrics of rank 7 are not its to tell"},
        {"{\"step\": 7, \"rank\": 1}{\"step\": 8, \"rank\": 1}",
         "its payload is no JSON object with step and rank"},
        {"{\"step\": 7, \"rank\": 1}\n{\"b\": 2}", "its payload holds control characters"},
        {"{\"step\": 7, \"rank\": 1, \"x\": \"\xc2\x9b\"}", "its payload holds control characters"},
        {"", "its payload is no JSON object with step and rank"},
        {"{\"step\": 7, \"rank\": 1, \"x\": \"\x1b[2J\"}", "its payload holds control characters"},
        {longer, "its payload has 4999 bytes, more than a line of metrics"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        start_with_checkpoints(f, 0, 6);
        say(f, w1, PSR_MSG_METRICS, cases[i].line);
        ends_with_words(f, PSR_ERR_PROTOCOL, cases[i].why);
        assert_int_equal(f->metrics, 0);
        assert_non_null(strstr(f->line, "on b: worker 1 sent METRICS"));
    }
}

static void metrics_come_step_by_step_to_the_runs_last(void **state)
{
    fixture *f = *state;
    char line[64];
    for (unsigned step = 1; step <= 20; step++) {
        snprintf(line, sizeof line, "{\"step\": %u, \"rank\": 1}", step);
        say(f, w1, PSR_MSG_METRICS, line);
        assert_int_equal(f->metrics, step);
        assert_int_equal(f->metrics_rank, 1);
        assert_int_equal(f->metrics_step, step);
    }
    assert_false(f->ended);
    say(f, w1, PSR_MSG_METRICS, "{\"step\": 21, \"rank\": 1}");
    ends_with_words(f, PSR_ERR_PROTOCOL, "it tells step 21 of rank 1 after step 20");
    assert_int_equal(f->metrics, 20);
}

static void in_local_mode_one_process_tells_of_all_ranks(void **state)
{
    fixture *f = *state;
    f->config.mode = PSR_MODE_LOCAL;
    open_scheduler(f);
    f->config.workers = 1; /* of processes, for on_joined */
    join(f, w0, "a");
    tell_facts(f, w0, some_facts);
    say(f, w0, PSR_MSG_READY, NULL);
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 0}");
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 1}");
    assert_int_equal(f->metrics_rank, 1);
    assert_false(f->ended);
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 2}");
    ends_with_words(f, PSR_ERR_PROTOCOL, "the metrics of rank 2 are not its to tell");
    assert_int_equal(f->metrics, 2);
}

static void a_text_that_is_too_long_is_a_violation(void **state)
{
    fixture *f = *state;
    static char text[(64 << 10) + 2];
    memset(text, ' ', sizeof text - 1);
    const psr_message_type types[] = {PSR_MSG_JOIN, PSR_MSG_FACTS, PSR_MSG_DONE, PSR_MSG_PROGRESS};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        start_with_checkpoints(f, 0, 0);
        say(f, w1, types[i], text);
        ends_with_words(f, PSR_ERR_PROTOCOL, "its payload has 65537 bytes, more than 65536");
    }
}

static void workers_hear_of_a_checkpoint_that_is_in_place(void **state)
{
    fixture *f = *state;
    psr_scheduler_checkpointed(f->scheduler, 10, 0);
    assert_int_equal(count_sent(f, PSR_MSG_SAVED), 2);
    assert_int_equal(saved_said(f), 10);
    assert_true(psr_peer_equal(last_sent(f, PSR_MSG_SAVED)->to, w1));
    assert_false(f->ended);
}

static void all_wait_in_the_next_checkpoint(fixture *f)
{
    static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};
    progress(f, w0, PSR_PHASE_CHECKPOINT, 9, 1, &scheduler);
    progress(f, w1, PSR_PHASE_CHECKPOINT, 9, 1, &scheduler);
    progress(f, s0, PSR_PHASE_PUSH, 10, 1, &w0);
    tick(f, f->now_ms);
}

static void waiting_for_a_slow_disk_is_nobodys_fault_and_waiting_for_nothing_is_named(void **state)
{
    fixture *f = *state;
    for (f->now_ms = 0; f->now_ms <= 40000; f->now_ms += 1000) {
        psr_scheduler_writing(f->scheduler, f->now_ms);
        all_wait_in_the_next_checkpoint(f);
        assert_false(f->ended);
    }
    for (; f->now_ms < 48000; f->now_ms += 1000) {
        all_wait_in_the_next_checkpoint(f);
        assert_false(f->ended);
    }
    all_wait_in_the_next_checkpoint(f);
    ends(f, PSR_ERR_TIMEOUT,
         "worker 0 on a: everybody has waited for 8.0 s, it for the scheduler in step 10, checkpoint; "
         "shard 0 waits for it in step 11, push, bucket 0");
}

static void the_run_ends_when_all_are_done_and_the_last_checkpoint_is_in_place(void **state)
{
    fixture *f = *state;
    psr_scheduler_checkpointed(f->scheduler, 10, 0);
    done(f, s0, 20, "{\"gradient_bytes\": 800, \"weight_bytes\": 400}");
    done(f, w0, 20, "{\"hash\": \"12\"}");
    f->now_ms = 20000;
    progress(f, w1, PSR_PHASE_FORWARD, 19, 9, NULL);
    progress(f, s0, PSR_PHASE_SHUTDOWN, 20, 1, NULL); /* the others are alive and wait */
    progress(f, w0, PSR_PHASE_SHUTDOWN, 20, 1, NULL);
    tick(f, 20000);
    assert_false(f->ended);
    assert_int_equal(f->last_checkpoint, 0);
    done(f, w1, 20, "{\"train_s\": 3}");
    assert_int_equal(f->last_checkpoint, 20);
    assert_false(f->ended);
    assert_int_equal(count_sent(f, PSR_MSG_BYE), 0);
    psr_scheduler_checkpointed(f->scheduler, 20, 0);
    ends(f, PSR_OK, "20 steps done");
    assert_int_equal(count_sent(f, PSR_MSG_BYE), 3);
    assert_int_equal(count_sent(f, PSR_MSG_ABORT), 0);
    assert_string_equal(f->outcomes, "shard 0: {\"gradient_bytes\": 800, \"weight_bytes\": 400}\n"
                                     "worker 0: {\"hash\": \"12\"}\nworker 1: {\"train_s\": 3}\n");
}

static void a_last_checkpoint_that_lacks_pieces_ends_the_run_rather_than_hang_it(void **state)
{
    fixture *f = *state;
    f->last_checkpoint_err = PSR_ERR_PROTOCOL;
    open_scheduler(f);
    start_all(f);
    all_done(f, 20);
    assert_int_equal(f->status, PSR_ERR_PROTOCOL);
    assert_int_equal(count_sent(f, PSR_MSG_BYE), 0);
}

static void members_that_end_after_different_steps_break_the_protocol(void **state)
{
    fixture *f = *state;
    done(f, w0, 20, NULL);
    done(f, w1, 20, NULL);
    done(f, s0, 19, NULL);
    ends(f, PSR_ERR_PROTOCOL, "on a: shard 0 on a is done after 19 steps, worker 0 after 20");
}

static void a_slow_member_is_named_once_a_while_and_the_run_goes_on(void **state)
{
    fixture *f = *state;
    for (int64_t now = 0; now <= 7000; now += 500) {
        f->now_ms = now;
        progress(f, w1, PSR_PHASE_BACKWARD, 3, (uint64_t)now, NULL);
        progress(f, s0, PSR_PHASE_PUSH, 3, 1, &w1);
        progress(f, w0, PSR_PHASE_PULL, 3, 1, &s0);
        tick(f, now);
    }
    assert_false(f->ended);
    assert_non_null(strstr(f->said, "worker 1 on b is slow: others have waited "));
    assert_null(strchr(strchr(f->said, '\n') + 1, '\n')); /* one line */
}

/* ---- stopping ---- */

static void told_to_stop_all_take_the_last_step_that_anybody_has_begun(void **state)
{
    fixture *f = *state;
    psr_scheduler_stop(f->scheduler, 0);
    psr_scheduler_stop(f->scheduler, 0); /* again: nothing new */
    assert_int_equal(count_sent(f, PSR_MSG_HOLD), 2);
    held(f, w1, 6);
    say(f, w0, PSR_MSG_METRICS, "{\"step\": 1, \"rank\": 0}"); /* what was under way */
    assert_int_equal(count_sent(f, PSR_MSG_STOP_AT), 0);
    held(f, w0, 7);
    assert_int_equal(count_sent(f, PSR_MSG_STOP_AT), 3); /* shards too */
    assert_int_equal(stop_at_said(f), 7);
    assert_string_equal(f->said, "stopping after step 8\n");
    all_done(f, 8);
    assert_int_equal(f->last_checkpoint, 8);
    psr_scheduler_checkpointed(f->scheduler, 8, 0);
    ends(f, PSR_ERR_CANCELLED, "stopped after step 8 of 20, as told; its checkpoint is written");
    assert_int_equal(count_sent(f, PSR_MSG_BYE), 3);
}

static void a_stop_that_comes_with_the_last_step_is_a_run_that_is_done(void **state)
{
    fixture *f = *state;
    psr_scheduler_stop(f->scheduler, 0);
    held(f, w0, 19);
    held(f, w1, 19);
    all_done(f, 20);
    psr_scheduler_checkpointed(f->scheduler, 20, 0);
    ends(f, PSR_OK, "20 steps done");
}

static void a_stop_that_crosses_the_end_of_a_worker_lets_all_take_all_steps(void **state)
{
    fixture *f = *state;
    psr_scheduler_stop(f->scheduler, 0);
    held(f, w1, 18);
    done(f, w0, 20, "{}"); /* it had sent this before it heard of HOLD, and answers no more */
    assert_int_equal(stop_at_said(f), 19);
    done(f, s0, 20, NULL);
    done(f, w1, 20, NULL);
    psr_scheduler_checkpointed(f->scheduler, 20, 0);
    ends(f, PSR_OK, "20 steps done");

    set_up_started(f);
    done(f, w0, 20, "{}");
    psr_scheduler_stop(f->scheduler, 0);
    assert_int_equal(count_sent(f, PSR_MSG_HOLD), 0);
    done(f, s0, 20, NULL);
    done(f, w1, 20, NULL);
    psr_scheduler_checkpointed(f->scheduler, 20, 0);
    ends(f, PSR_OK, "20 steps done");
}

static void a_stop_in_the_last_evaluation_is_no_run_that_is_done(void **state)
{
    fixture *f = *state;
    psr_scheduler_stop(f->scheduler, 0);
    held(f, w0, 19);
    held(f, w1, 19);
    done(f, s0, 20, NULL);
    give(f, w0, psr_msg_done_head(&(psr_msg_done){20, .left_out = true}), "{}", 2);
    give(f, w1, psr_msg_done_head(&(psr_msg_done){20, .left_out = true}), NULL, 0);
    psr_scheduler_checkpointed(f->scheduler, 20, 0);
    ends(f, PSR_ERR_CANCELLED,
         "stopped in the evaluation after the last step, as told; all 20 steps are in the checkpoint");
}

static void a_run_resumed_behind_its_last_step_has_nothing_to_write(void **state)
{
    fixture *f = *state;
    f->first_step = 20;
    open_scheduler(f);
    start_all(f);
    all_done(f, 20);
    assert_int_equal(f->last_checkpoint, 0);
    ends(f, PSR_OK, "20 steps done");
}

static void stopping_before_the_first_step_ends_at_once(void **state)
{
    fixture *f = *state;
    psr_scheduler_stop(f->scheduler, 0);
    ends(f, PSR_ERR_CANCELLED, "stopped before the first step, as told; nothing to resume");
    assert_int_equal(count_sent(f, PSR_MSG_ABORT), 3);
}

/* ---- failing ---- */

static void a_killed_member_ends_the_run_at_once_with_what_the_others_were_doing(void **state)
{
    fixture *f = *state;
    progress(f, w0, PSR_PHASE_PULL, 12, 1, &s0);
    progress(f, s0, PSR_PHASE_PUSH, 12, 1, &w1);
    psr_scheduler_lost(f->scheduler, w1, NULL, false, "killed by signal 9 (Killed)", 100);
    assert_int_equal(count_sent(f, PSR_MSG_ALIVE), 4); /* two ask */
    psr_message asking = {.head = last_sent(f, PSR_MSG_ALIVE)->head};
    bool report_wanted;
    expect_ok(psr_msg_alive_read(&asking, &report_wanted));
    assert_true(report_wanted);
    progress(f, w0, PSR_PHASE_PULL, 13, 1, &s0);
    assert_false(f->ended);
    progress(f, s0, PSR_PHASE_PUSH, 13, 1, &w1);
    ends_with_words(f, PSR_ERR_PEER, "worker 1 on b was lost: killed by signal 9 (Killed); ");
    assert_non_null(
        strstr(f->line, "worker 0: step 14, pull, bucket 0, waiting for shard 0")); /* people count from 1 */
    assert_int_equal(count_sent(f, PSR_MSG_ABORT), 3);
}

static void a_lost_member_is_not_kept_secret_because_others_do_not_answer(void **state)
{
    fixture *f = *state;
    psr_scheduler_lost(f->scheduler, w1, NULL, false, "killed by signal 9 (Killed)", 100);
    psr_scheduler_lost(f->scheduler, w0, NULL, false, "killed by signal 9 (Killed)",
                       101); /* the first is the one to name */
    assert_true(psr_scheduler_next_tick(f->scheduler) <= 250);
    tick(f, 250);
    ends_with_words(f, PSR_ERR_PEER, "worker 1 on b was lost");
}

static void a_member_lost_when_all_others_are_done_is_told_with_that(void **state)
{
    fixture *f = *state;
    done(f, s0, 20, NULL);
    done(f, w0, 20, NULL);
    psr_scheduler_lost(f->scheduler, w1, NULL, false, "killed by signal 9 (Killed)", 100);
    ends(f, PSR_ERR_PEER,
         "worker 1 on b was lost: killed by signal 9 (Killed); shard 0: done; worker 0: done");
}

static void the_words_of_a_member_that_exits_are_waited_for_a_moment(void **state)
{
    fixture *f = *state;
    psr_scheduler_lost(f->scheduler, w1, NULL, true, "exit status 1", 1000);
    assert_false(f->ended);
    failed(f, w1, PSR_ERR_NUMERIC, "the loss is not finite");
    ends(f, PSR_ERR_NUMERIC, "worker 1 on b: the loss is not finite");

    set_up_started(f);
    psr_scheduler_lost(f->scheduler, w1, NULL, true, "exit status 1", 1000);
    assert_true(psr_scheduler_next_tick(f->scheduler) <= 1500);
    tick(f, 1500);
    ends_with_words(f, PSR_ERR_PEER, "worker 1 on b was lost: exit status 1");
}

static void a_silent_agent_ends_the_run_and_its_line_says_what_the_members_do(void **state)
{
    fixture *f = *state;
    psr_scheduler_agent_lost(f->scheduler, "b", "no sign of life for 8.0 s", 1000);
    assert_false(f->ended); /* they are asked */
    f->now_ms = 1010;
    progress(f, s0, PSR_PHASE_PUSH, 4, 1, &w1);
    progress(f, w0, PSR_PHASE_PULL, 4, 1, &s0);
    assert_false(f->ended);
    progress(f, w1, PSR_PHASE_BACKWARD, 4, 1, NULL);
    ends_with_words(f, PSR_ERR_TIMEOUT, "agent on b: no sign of life for 8.0 s; shard 0: step 5, push");
    assert_int_equal(strncmp(f->line, "agent", 5), 0);
    assert_non_null(strstr(f->line, "worker 1: step 5, backward"));
}

static void a_member_lost_before_it_joined_is_named_with_the_launchers_word_for_its_host(void **state)
{
    fixture *f = *state;
    psr_scheduler_lost(f->scheduler, s0, "b", true, "exit status 127", 0);
    ends(f, PSR_ERR_PEER, "shard 0 on b was lost: exit status 127");
}

static void a_member_that_fails_gives_the_run_its_line_and_status(void **state)
{
    fixture *f = *state;
    failed(f, w0, PSR_ERR_NOT_FOUND, "no such data");
    ends(f, PSR_ERR_NOT_FOUND, "worker 0 on a: no such data");
}

static void a_member_that_falls_silent_while_it_runs_is_named_when_the_deadline_has_passed(void **state)
{
    fixture *f = *state;
    for (int64_t now = 0; now <= 7000; now += 1000) {
        f->now_ms = now;
        progress(f, w0, PSR_PHASE_PULL, 4, 1, &s0);
        progress(f, s0, PSR_PHASE_PUSH, 4, 1, &w1);
        tick(f, now);
        assert_false(f->ended);
    }
    tick(f, 8000);
    ends_with_words(f, PSR_ERR_TIMEOUT, "worker 1 on b: no sign of life for 8.0 s");
}

static void a_launcher_that_is_gone_ends_the_run_with_what_its_members_were_doing(void **state)
{
    fixture *f = *state;
    psr_scheduler_launcher_lost(f->scheduler, PSR_ERR_PEER, "gone without a word", 0);
    ends(f, PSR_ERR_PEER, "launcher on head: gone without a word; the run was at its start");

    set_up_started(f);
    progress(f, w0, PSR_PHASE_PULL, 2, 1, &s0);
    psr_scheduler_launcher_lost(f->scheduler, PSR_ERR_TIMEOUT, "no sign of life for 8.0 s", 1000);
    psr_scheduler_launcher_lost(f->scheduler, PSR_ERR_TIMEOUT, "no sign of life for 8.1 s", 1100);
    assert_false(f->ended); /* they are asked first */
    progress(f, w0, PSR_PHASE_PULL, 12, 1, &s0);
    progress(f, s0, PSR_PHASE_PUSH, 12, 0, &w1);
    assert_false(f->ended);
    tick(f, 1000 + 150);
    ends_with_words(f, PSR_ERR_TIMEOUT, "launcher on head: no sign of life for 8.0 s; ");
    assert_non_null(strstr(f->line, "worker 0: step 13, pull, bucket 0, waiting for shard 0"));
}

static void what_the_driver_cannot_do_ends_the_run(void **state)
{
    fixture *f = *state;
    psr_scheduler_fail(f->scheduler, PSR_ERR_IO, "no space left");
    ends(f, PSR_ERR_IO, "no space left");
    psr_scheduler_fail(f->scheduler, PSR_ERR_IO, "and again");
    psr_scheduler_lost(f->scheduler, w1, NULL, false, "killed", 0);
    say(f, w1, PSR_MSG_METRICS, "{}");
    assert_string_equal(f->line, "no space left");
    assert_int_equal(psr_scheduler_next_tick(f->scheduler), INT64_MAX);
}

/* ---- violations ---- */

static void a_message_of_somebody_who_has_not_joined_is_dropped(void **state)
{
    fixture *f = *state;
    say(f, w1, PSR_MSG_READY, NULL);
    say(f, any_worker, PSR_MSG_DONE, NULL);
    assert_false(f->ended);
    assert_non_null(strstr(f->said, "worker 1 sent READY and has not joined: dropped"));
}

/* A piece of a checkpoint of no steps. */
static psr_head floats_of(uint32_t section, size_t count)
{
    psr_head head = psr_msg_checkpoint_head(&(psr_msg_piece){.section = section, .span = {0, count}});
    head.encoding = PSR_ENCODING_FLOAT32;
    return head;
}

typedef struct violation {
    const psr_peer *from;
    psr_head head;
    const char *text, *why;
} violation;

static void each_violation_of_the_protocol_ends_the_run_with_its_line(void **state)
{
    fixture *f = *state;
    const psr_msg_progress nobody = {.waits = true, .waits_for = {(psr_role)3, 0}};
    const psr_msg_progress counted = {.evaluates = true, .counted = 31};
    const violation violations[] = {
        {&w1, {.type = PSR_MSG_FACTS}, NULL, "it has told its facts before"},
        {&w1, {.type = PSR_MSG_READY}, NULL, "that is due once, after WELCOME"},
        {&w1, psr_msg_push_head(&(psr_msg_push){0}), NULL, "that is not due while the run is on"},
        {&w1, psr_msg_held_head(0), NULL, "nobody told it to hold"},
        {&w1, psr_msg_progress_head(&(psr_msg_progress){.phase = (psr_phase)99}), NULL,
         "its phase is 99: 10 is the most"},
        {&w1, psr_msg_progress_head(&nobody), NULL, "its role is 3: 2 is the most"},
        {&w1, psr_msg_progress_head(&counted), NULL, "it has counted 31 samples of 30"},
        {&w1, {.type = PSR_MSG_DONE, .fields = {0, 2}}, NULL, "its left_out is 2: 1 is the most"},
        {&w1, floats_of(0, 1), "1234", "section 0 of a checkpoint is not its to send"},
        {&w0, floats_of(16, 1), "1234", "section 16 of a checkpoint is not its to send"},
        {&w0, floats_of(257, 1), "1234", "section 257 of a checkpoint is not its to send"},
        {&s0, floats_of(256, 1), "1234", "section 256 of a checkpoint is not its to send"},
        {&w0, floats_of(0, 2), "1234", "its payload has 4 bytes, not those of 2 values of float32"},
        {&w0, psr_msg_checkpoint_head(&(psr_msg_piece){.span = {0, 1}}), "1234",
         "its payload is in bytes, not in float32"},
    };
    for (size_t i = 0; i < sizeof violations / sizeof violations[0]; i++) {
        const violation *v = &violations[i];
        char said[256], line[TEXT_MAX];
        psr_head_describe(&v->head, said, sizeof said);
        snprintf(line, sizeof line, "on %s: %s %" PRIu32 " sent %s: %s", v->from == &w1 ? "b" : "a",
                 psr_role_name(v->from->role), v->from->rank, said, v->why);
        set_up_started(f);
        give(f, *v->from, v->head, v->text, v->text ? strlen(v->text) : 0);
        ends(f, PSR_ERR_PROTOCOL, line);
        assert_int_equal(psr_err_exit_status(f->status), 3);
    }
}

static void words_before_their_time_and_bytes_that_are_no_json_are_violations(void **state)
{
    fixture *f = *state;
    say(f, w1, PSR_MSG_METRICS, "{}");
    ends(f, PSR_ERR_PROTOCOL,
         "on b: worker 1 sent METRICS: that is not due before "
         "START");

    set_up_joined(f);
    say(f, w1, PSR_MSG_FACTS, "{\"identity\": 3}");
    ends(f, PSR_ERR_PROTOCOL,
         "on b: worker 1 sent FACTS: field \"identity\" is "
         "missing or no text");

    set_up_opened(f);
    say(f, w1, PSR_MSG_JOIN, "[[[[");
    ends(f, PSR_ERR_PROTOCOL, "worker 1 sent JOIN: not a JSON object");
}

#define FROM(stage, test) cmocka_unit_test_prestate_setup_teardown(test, begin, end, &(beginning){stage})
#define SET_UP(test) FROM(set_up, test)
#define OPENED(test) FROM(set_up_opened, test)
#define JOINED(test) FROM(set_up_joined, test)
#define STARTED(test) FROM(set_up_started, test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        JOINED(a_run_starts_when_all_have_joined_agree_and_are_ready),
        SET_UP(ranks_that_nobody_asks_for_are_given_in_the_order_of_joining),
        JOINED(who_asks_for_a_rank_that_is_taken_or_not_there_is_turned_away_and_the_run_goes_on),
        OPENED(another_version_is_refused_by_host_and_both_versions),
        SET_UP(facts_that_differ_are_refused_by_host_and_both_values),
        OPENED(who_never_comes_up_is_named_with_those_that_did),
        SET_UP(a_short_deadline_still_gives_time_to_come_up),
        JOINED(a_member_that_joins_and_falls_silent_is_named),
        SET_UP(a_resumed_run_has_its_state_sent_after_the_roster),
        SET_UP(in_local_mode_one_process_is_the_whole_run),
        STARTED(progress_is_answered_and_figures_are_passed_on),
        STARTED(an_evaluations_progress_is_told_from_its_begin_on),
        STARTED(every_piece_of_a_checkpoint_is_answered),
        SET_UP(checkpoints_come_in_order_each_when_the_one_before_is_in_place),
        SET_UP(a_run_that_stops_has_its_checkpoint_due_there),
        SET_UP(a_checkpoint_that_is_not_due_is_a_violation),
        SET_UP(a_line_of_metrics_that_is_not_due_is_a_violation),
        STARTED(metrics_come_step_by_step_to_the_runs_last),
        SET_UP(in_local_mode_one_process_tells_of_all_ranks),
        SET_UP(a_text_that_is_too_long_is_a_violation),
        STARTED(workers_hear_of_a_checkpoint_that_is_in_place),
        STARTED(waiting_for_a_slow_disk_is_nobodys_fault_and_waiting_for_nothing_is_named),
        STARTED(the_run_ends_when_all_are_done_and_the_last_checkpoint_is_in_place),
        SET_UP(a_last_checkpoint_that_lacks_pieces_ends_the_run_rather_than_hang_it),
        STARTED(members_that_end_after_different_steps_break_the_protocol),
        STARTED(a_slow_member_is_named_once_a_while_and_the_run_goes_on),
        STARTED(told_to_stop_all_take_the_last_step_that_anybody_has_begun),
        STARTED(a_stop_that_comes_with_the_last_step_is_a_run_that_is_done),
        STARTED(a_stop_that_crosses_the_end_of_a_worker_lets_all_take_all_steps),
        STARTED(a_stop_in_the_last_evaluation_is_no_run_that_is_done),
        SET_UP(a_run_resumed_behind_its_last_step_has_nothing_to_write),
        JOINED(stopping_before_the_first_step_ends_at_once),
        STARTED(a_killed_member_ends_the_run_at_once_with_what_the_others_were_doing),
        STARTED(a_lost_member_is_not_kept_secret_because_others_do_not_answer),
        STARTED(a_member_lost_when_all_others_are_done_is_told_with_that),
        STARTED(the_words_of_a_member_that_exits_are_waited_for_a_moment),
        STARTED(a_silent_agent_ends_the_run_and_its_line_says_what_the_members_do),
        OPENED(a_member_lost_before_it_joined_is_named_with_the_launchers_word_for_its_host),
        JOINED(a_member_that_fails_gives_the_run_its_line_and_status),
        STARTED(a_member_that_falls_silent_while_it_runs_is_named_when_the_deadline_has_passed),
        OPENED(a_launcher_that_is_gone_ends_the_run_with_what_its_members_were_doing),
        STARTED(what_the_driver_cannot_do_ends_the_run),
        OPENED(a_message_of_somebody_who_has_not_joined_is_dropped),
        SET_UP(each_violation_of_the_protocol_ends_the_run_with_its_line),
        JOINED(words_before_their_time_and_bytes_that_are_no_json_are_violations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
