#include "tests/unit/ps/scheduler/scheduler_fixture.h"

#include "comm/members/join.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the driver ---- */

static psr_err on_send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    fixture *f = context;
    assert_true(f->sent_count < SENT_MAX);
    struct sent *sent = &f->sent[f->sent_count++];
    *sent = (struct sent){.to = to, .head = *head};
    if (payload != NULL) {
        assert_true(payload->bytes < sizeof sent->text);
        memcpy(sent->text, payload->data, payload->bytes);
        sent->text_size = payload->bytes;
    }
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

static void on_refuse(void *context, const psr_message *join, psr_err status, const char *line)
{
    fixture *f = context;
    f->refused++;
    f->refused_peer = join->from;
    f->refused_status = status;
    snprintf(f->refusal, sizeof f->refusal, "%s", line);
}

static void on_joined(void *context, const psr_view_member *entry, uint32_t count, uint32_t total)
{
    fixture *f = context;
    (void)entry;
    assert_int_equal(count, ++f->joined);
    assert_int_equal(total, f->config.workers + psr_config_shards(&f->config));
}

static psr_err plan_of(const psr_config *config, psr_mode mode, psr_plan *ret_plan)
{
    static const psr_part parts[] = {{{2048, 1024}, 0}, {{0, 2048}, 1}};
    const psr_plan_options plan = {.route =
                                       mode == PSR_MODE_RING ? PSR_ROUTE_RING : PSR_ROUTE_SHARD,
                                   .ranks = config->workers,
                                   .shards = mode == PSR_MODE_RING ? 0 : 1,
                                   .slice_floats = 1024,
                                   .window = 2};
    return psr_plan_make(&plan, parts, 2, ret_plan);
}

static psr_err on_plan(void *context, psr_mode mode, psr_plan *ret_plan)
{
    const fixture *f = context;
    return f->plan_err == PSR_OK ? plan_of(&f->config, mode, ret_plan)
                                 : psr_fail(f->plan_err, "shards 1-3 would hold nothing");
}

static void tell(char text[static TEXT_MAX], const char *line)
{
    const size_t used = strlen(text);
    snprintf(text + used, TEXT_MAX - used, "%s\n", line);
}

static psr_err on_change_decided(void *context, const psr_mode_change *change,
                                 const psr_config *config)
{
    fixture *f = context;
    char mode[256], line[384];
    expect_ok(psr_config_get(config, "mode", mode, sizeof mode));
    snprintf(line, sizeof line, "%s %" PRIu64 " of %s", psr_mode_name(change->mode),
             change->first_step + 1, mode);
    tell(f->decided, line);
    return PSR_OK;
}

static void on_change_happened(void *context, const psr_mode_change *change)
{
    char line[96];
    snprintf(line, sizeof line, "%s %" PRIu64 " %g s", psr_mode_name(change->mode),
             change->first_step + 1, change->pause_s);
    tell(((fixture *)context)->happened, line);
}

static void on_change_answered(void *context, psr_err status, const char *line)
{
    char whole[384];
    snprintf(whole, sizeof whole, "%s: %s", psr_err_name(status), line);
    tell(((fixture *)context)->answered, whole);
}

static psr_err on_begin(void *context, const psr_config *config, const psr_facts *facts,
                        const psr_view *members, psr_beginning *ret_beginning)
{
    fixture *f = context;
    assert_string_equal(members->members[0].endpoint, "tcp://127.0.0.1:1");
    f->begun++;
    f->facts = *facts;
    static psr_tensor tensors[] = {{"a", 1, {2048, 1, 1, 1}, 0, 2048, false},
                                   {"b", 1, {1024, 1, 1, 1}, 2048, 1024, false}};
    static const psr_layout layout = {tensors, 2, 3072, 3072};
    ret_beginning->first_step = f->first_step;
    ret_beginning->loss_scale = f->loss_scale;
    ret_beginning->evaluates_first = f->evaluates_first;
    ret_beginning->layout = &layout;
    return plan_of(config, psr_config_mode_at(config, f->first_step), &ret_beginning->plan);
}

static psr_err on_restore(void *context)
{
    ((fixture *)context)->restored++;
    return PSR_OK;
}

static psr_err on_started(void *context, const psr_computing *computing)
{
    fixture *f = context;
    f->started++;
    f->computing = *computing;
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

static psr_err on_norms(void *context, const psr_metrics_line *line)
{
    fixture *f = context;
    f->norms++;
    assert_int_equal(line->rank, 0);
    return PSR_OK;
}

static psr_err on_made_up(void *context, const psr_metrics_line *line)
{
    fixture *f = context;
    assert_int_equal(line->step, f->first_step);
    f->made_up++;
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

static psr_err on_checkpoint(void *context, uint64_t step, uint32_t section, const float *data,
                             size_t offset, size_t count)
{
    (void)step, (void)section, (void)data, (void)offset, (void)count;
    ((fixture *)context)->pieces++;
    return PSR_OK;
}

static psr_err on_last_checkpoint(void *context, uint64_t step)
{
    fixture *f = context;
    f->last_checkpoint = step;
    return f->last_checkpoint_err == PSR_OK
               ? PSR_OK
               : psr_fail(f->last_checkpoint_err, "a piece is missing");
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
    snprintf(f->outcomes + used, sizeof f->outcomes - used, "worker %u: %.*s\n", rank, (int)size,
             json);
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

void set_up(fixture *f)
{
    clear(f);
    f->sent = calloc(SENT_MAX, sizeof *f->sent);
    psr_config_defaults(&f->config);
    f->config.mode = PSR_MODE_PS;
    f->config.workers = 2;
    f->config.shards = 1;
    f->config.deadline_s = 8;
}

void open_scheduler(fixture *f)
{
    psr_scheduler_events events = {
        .context = f,
        .ways = {.context = f, .send = on_send, .connect = on_connect, .refuse = on_refuse},
        .joined = on_joined,
        .begin = on_begin,
        .plan = on_plan,
        .change_decided = on_change_decided,
        .change_happened = on_change_happened,
        .change_answered = on_change_answered,
        .restore = on_restore,
        .started = on_started,
        .metrics = on_metrics,
        .norms = on_norms,
        .made_up = on_made_up,
        .evaluating = on_evaluating,
        .done = on_done,
        .carried = on_carried,
        .checkpoint = on_checkpoint,
        .last_checkpoint = on_last_checkpoint,
        .say = on_say,
        .ended = on_ended,
    };
    expect_ok(psr_scheduler_new(&f->config, &events, "head", f->now_ms, &f->scheduler));
    f->coordinator = psr_scheduler_coordinator(f->scheduler);
}

/* ---- members ---- */

void give(fixture *f, psr_peer from, psr_head head, const void *payload, size_t bytes)
{
    psr_message message = {.from = from, .head = head, .payload = payload, .payload_bytes = bytes};
    psr_coordinator_message(f->coordinator, &message, f->now_ms);
}

psr_head one_float(uint64_t steps, uint32_t section)
{
    psr_head head = psr_msg_checkpoint_head(&(psr_msg_piece){steps, section, {0, 1}});
    head.encoding = PSR_ENCODING_FLOAT32;
    return head;
}

void say(fixture *f, psr_peer from, psr_message_type type, const char *text)
{
    give(f, from, (psr_head){.type = type}, text, text != NULL ? strlen(text) : 0);
}

void join_as(fixture *f, psr_peer from, const char *host, const char *version)
{
    psr_join join = {.pid = 7, .endpoint = "tcp://127.0.0.1:1"};
    char *json = NULL;
    snprintf(join.host, sizeof join.host, "%s", host);
    snprintf(join.version, sizeof join.version, "%s", version);
    expect_ok(psr_join_to_json(&join, &json));
    say(f, from, PSR_MSG_JOIN, json);
    free(json);
}

void join(fixture *f, psr_peer from, const char *host)
{
    join_as(f, from, host, PSR_VERSION);
}

const psr_facts some_facts = {
    .identity = "oneDNN 2.6.3 avx2 threads=1",
    .data_name = "synthetic",
    .content = {"0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"},
    .train_count = 100,
    .test_count = 30,
    .classes = 10,
    .steps_per_epoch = 5,
    .total_steps = 20,
    .parameter_count = 1000};

void tell_facts(fixture *f, psr_peer from, psr_facts facts)
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

void start_all(fixture *f)
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

void set_up_opened(fixture *f)
{
    set_up(f);
    open_scheduler(f);
}

void set_up_joined(fixture *f)
{
    set_up_opened(f);
    join_all(f);
}

void set_up_started(fixture *f)
{
    set_up_opened(f);
    start_all(f);
}

int begin_fixture(void **state)
{
    static fixture f;
    ((const beginning *)*state)->set_up(&f);
    *state = &f;
    return 0;
}

int end_fixture(void **state)
{
    clear(*state);
    return 0;
}

void held(fixture *f, psr_peer from, uint64_t step)
{
    give(f, from, psr_msg_held_head(step), NULL, 0);
}

void bound(fixture *f, psr_peer from, uint32_t epoch, uint64_t pause_us)
{
    f->now_ms += (int64_t)pause_us / 1000 + 1;
    give(f, from, psr_msg_bound_head(&(psr_msg_bound){epoch, pause_us}), NULL, 0);
}

void all_bound(fixture *f, uint32_t epoch)
{
    bound(f, s0, epoch, 0);
    bound(f, w0, epoch, 1500);
    bound(f, w1, epoch, 2500);
}

void done(fixture *f, psr_peer from, uint64_t steps, const char *outcome)
{
    give(f, from, psr_msg_done_head(&(psr_msg_done){.steps = steps}), outcome,
         outcome != NULL ? strlen(outcome) : 0);
}

size_t count_sent(const fixture *f, psr_message_type type)
{
    size_t count = 0;
    for (size_t i = 0; i < f->sent_count; i++)
        count += f->sent[i].head.type == type;
    return count;
}

const struct sent *last_sent(const fixture *f, psr_message_type type)
{
    static const struct sent nothing;
    const struct sent *last = &nothing;
    for (size_t i = 0; i < f->sent_count; i++)
        if (f->sent[i].head.type == type)
            last = &f->sent[i];
    assert_true(last != &nothing);
    return last;
}

const struct sent *sent_to(const fixture *f, psr_message_type type, psr_peer to)
{
    static const struct sent nothing;
    const struct sent *found = &nothing;
    for (size_t i = 0; i < f->sent_count; i++)
        if (f->sent[i].head.type == type && psr_peer_equal(f->sent[i].to, to))
            found = &f->sent[i];
    assert_true(found != &nothing);
    return found;
}

psr_bytes bytes_of(const struct sent *sent)
{
    return (psr_bytes){sent->text, sent->text_size};
}

void ends(fixture *f, psr_err status, const char *line)
{
    if (!f->ended)
        fail_msg("the run goes on, and should end: %s", line);
    assert_string_equal(f->line, line);
    assert_string_equal(psr_err_name(f->status), psr_err_name(status));
    assert_true(psr_coordinator_ended(f->coordinator));
}

void ends_with_words(const fixture *f, psr_err status, const char *words)
{
    if (!f->ended)
        fail_msg("the run goes on, and should end: %s", words);
    assert_string_equal(psr_err_name(f->status), psr_err_name(status));
    if (strstr(f->line, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, f->line);
}

void tick(fixture *f, int64_t now_ms)
{
    f->now_ms = now_ms;
    psr_coordinator_tick(f->coordinator, now_ms);
}

void progress(fixture *f, psr_peer from, psr_phase phase, uint64_t step, uint64_t counter,
              const psr_peer *waits_for)
{
    psr_msg_progress says = {
        .phase = phase, .step = step, .counter = counter, .waits = waits_for != NULL};
    if (waits_for != NULL)
        says.waits_for = *waits_for;
    give(f, from, psr_msg_progress_head(&says), NULL, 0);
}
