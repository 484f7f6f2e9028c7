/* How a run comes up: ranks, versions, facts that must agree, who never comes. */
#include "tests/unit/ps/scheduler/scheduler_fixture.h"

#include "comm/members/join.h"
#include "ps/scheduler/memory_fit.h"
#include "ps/shard_start.h"

#include <stdio.h>
#include <string.h>

static void a_run_starts_when_all_have_joined_agree_and_are_ready(void **state)
{
    fixture *f = *state;
    assert_int_equal(count_sent(f, PSR_MSG_CONFIG), 3);
    psr_place place;
    psr_bytes given;
    psr_config config;
    expect_ok(psr_place_read(bytes_of(last_sent(f, PSR_MSG_CONFIG)), &place, &given));
    assert_int_equal(place.rank, 1);
    assert_int_equal(place.ranks, 2);
    assert_int_equal(place.deadline_ms, 8000);
    psr_config_defaults(&config);
    expect_ok(psr_config_from_json(&config, given.data, given.size));
    assert_true(config.deadline_s == 8);
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
    say(f, w0, PSR_MSG_READY,
        "{\"algorithms\": \"ddd,doo\", \"engines\": \"28,-1\", \"loops\": \"conv1 (ref:any)\", "
        "\"input\": \"bytes\"}");
    assert_int_equal(count_sent(f, PSR_MSG_START), 3);
    assert_string_equal(f->computing.algorithms, "ddd,doo");
    assert_string_equal(f->computing.engines, "28,-1");
    assert_string_equal(f->computing.loops, "conv1 (ref:any)");
    assert_string_equal(f->computing.input, "bytes");
    assert_false(f->ended);
}

static void a_back_end_without_a_choice_says_so(void **state)
{
    fixture *f = *state;
    open_scheduler(f);
    join(f, s0, "a");
    join(f, w0, "a");
    join(f, w1, "b");
    tell_facts(f, s0, some_facts);
    tell_facts(f, w0, some_facts);
    tell_facts(f, w1, some_facts);
    say(f, w1, PSR_MSG_READY, NULL);
    say(f, s0, PSR_MSG_READY, NULL);
    say(f, w0, PSR_MSG_READY, "{\"algorithms\": \"\"}");
    assert_int_equal(count_sent(f, PSR_MSG_START), 3);
    assert_string_equal(f->computing.algorithms, "");
    assert_false(f->ended);
}

/* Worker 0's READY breaks the protocol. */
static void be_ready_badly(fixture *f, const char *text, const char *why)
{
    open_scheduler(f);
    join(f, s0, "a");
    join(f, w0, "a");
    join(f, w1, "b");
    tell_facts(f, s0, some_facts);
    tell_facts(f, w0, some_facts);
    tell_facts(f, w1, some_facts);
    say(f, w0, PSR_MSG_READY, text);
    assert_true(f->ended);
    assert_int_equal(f->status, PSR_ERR_PROTOCOL);
    assert_non_null(strstr(f->line, why));
}

/* begin, then the letter so often, then the object's end. */
static void be_ready_too_long(fixture *f, const char *begin, char letter, size_t count,
                              const char *why)
{
    char text[PSR_SCHEDULER_ENGINES_MAX + 64];
    const int length = snprintf(text, sizeof text, "%s", begin);
    assert_true((size_t)length + count + sizeof "\"}" <= sizeof text);
    memset(text + length, letter, count);
    strcpy(text + length + count, "\"}");
    be_ready_badly(f, text, why);
}

static void what_worker_0_says_about_loops_is_one_line_that_is_not_too_long(void **state)
{
    be_ready_too_long(*state, "{\"algorithms\": \"ddd\", \"loops\": \"", 'a',
                      PSR_SCHEDULER_LOOPS_MAX, "its field loops is not a line of text");
}

static void what_worker_0_says_about_engines_is_a_list_of_numbers_that_is_not_too_long(void **state)
{
    be_ready_too_long(*state, "{\"algorithms\": \"\", \"engines\": \"", '1',
                      PSR_SCHEDULER_ENGINES_MAX, "its field engines is not a list of numbers");
}

static void engines_are_numbers(void **state)
{
    be_ready_badly(*state, "{\"algorithms\": \"\", \"engines\": \"28,x\"}",
                   "its field engines is not a list of numbers");
}

static void what_worker_0_says_about_its_input_is_one_of_two_words(void **state)
{
    be_ready_badly(*state, "{\"algorithms\": \"ddd\", \"input\": \"bytes of pixels\"}",
                   "its field input is neither bytes nor floats");
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
    assert_string_equal(f->said, "a worker on late (process 7) wants to join and has no place: the "
                                 "run has 3 workers and 1 shards, each once\n");
    assert_int_equal(f->refused, 1);
    assert_int_equal(f->refused_status, PSR_ERR_DENIED);
    assert_memory_equal(f->refusal, f->said, strlen(f->refusal));
}

static void
who_asks_for_a_rank_that_is_taken_or_not_there_is_turned_away_and_the_run_goes_on(void **state)
{
    fixture *f = *state;
    join(f, w1, "thief");
    join(f, (psr_peer){PSR_ROLE_WORKER, 9}, "nine");
    join(f, (psr_peer){PSR_ROLE_SCHEDULER, 0}, "king");
    assert_int_equal(f->joined, 3);
    assert_int_equal(count_sent(f, PSR_MSG_CONFIG), 3);
    assert_non_null(strstr(f->said, "on thief"));
    assert_non_null(strstr(f->said, "on nine"));
    assert_non_null(strstr(f->said, "scheduler 0 on king"));
    assert_int_equal(f->refused, 3);
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
    assert_int_equal(f->refused, 1); /* and to itself */
    assert_true(psr_peer_equal(f->refused_peer, w1));
    assert_int_equal(f->refused_status, PSR_ERR_VERSION);
    assert_string_equal(f->refusal, f->line);
}

static void facts_that_differ_are_refused_by_host_and_both_values(void **state)
{
    fixture *f = *state;
    const struct {
        psr_facts facts;
        const char *line;
    } cases[] = {
        {{.identity = "oneDNN 3.7.2 amx threads=1"},
         "worker 1 on b computes with oneDNN 3.7.2 amx threads=1, worker 0 on a with oneDNN 2.6.3 "
         "avx2 threads=1: their bits could differ; use the same on all hosts, or give "
         "--mixed-hosts"},
        {{.identity = "oneDNN 2.6.3 avx2 threads=1", .data_name = "synthetic", .train_count = 99},
         "worker 1 on b has 99 training samples in synthetic, worker 0 on a has 100: --data must "
         "be the same on all hosts"},
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

static void with_mixed_hosts_what_computes_may_differ(void **state)
{
    fixture *f = *state;
    psr_facts other = some_facts;
    snprintf(other.identity, sizeof other.identity, "oneDNN 3.7.2 amx threads=1");
    f->config.mixed_hosts = true;
    open_scheduler(f);
    join(f, s0, "a");
    join(f, w0, "a");
    join(f, w1, "b");
    tell_facts(f, s0, some_facts);
    tell_facts(f, w0, some_facts);
    tell_facts(f, w1, other);
    assert_false(f->ended);
    assert_int_equal(f->begun, 1);
}

/* Directories of one name and as many samples, which a count cannot tell from one another. */
static void other_samples_are_refused_by_split_whatever_they_are_called(void **state)
{
    fixture *f = *state;
    psr_facts other = some_facts;
    memset(other.content.test, 'a', PSR_CONTENT_DIGITS);
    set_up_joined(f);
    tell_facts(f, s0, some_facts);
    tell_facts(f, w0, some_facts);
    tell_facts(f, w1, other);
    ends(f, PSR_ERR_USAGE,
         "worker 1 on b has other test samples (synthetic, content "
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) than worker 0 on a (synthetic, content "
         "fedcba9876543210fedcba9876543210): --data must hold the same samples on all hosts");
    memset(other.content.train, 'b', PSR_CONTENT_DIGITS);
    set_up_joined(f);
    tell_facts(f, s0, some_facts);
    tell_facts(f, w0, some_facts);
    tell_facts(f, w1, other);
    ends_with_words(
        f, PSR_ERR_USAGE,
        "worker 1 on b has other training samples (synthetic, content bbbbbbbbbbbbbbbbbbbbbbbb");
}

static void equal_samples_agree_by_whatever_name_each_host_calls_them(void **state)
{
    fixture *f = *state;
    psr_facts other = some_facts;
    strcpy(other.data_name, "copyB");
    set_up_joined(f);
    tell_facts(f, s0, some_facts);
    tell_facts(f, w0, some_facts);
    tell_facts(f, w1, other);
    assert_false(f->ended);
    assert_int_equal(f->begun, 1);
}

static psr_facts needing(uint64_t fixed_mib, uint64_t sample_mib, uint64_t free_mib)
{
    psr_facts facts = some_facts;
    facts.memory_fixed_bytes = fixed_mib << 20;
    facts.memory_sample_bytes = sample_mib << 20;
    facts.memory_free_bytes = free_mib << 20;
    return facts;
}

/* Two workers of 1 GiB and 64 batches of 16 MiB: 2 GiB each; and a shard, of little more than its
 * program. */
static void a_host_with_too_little_memory_is_refused_with_what_would_fit(void **state)
{
    fixture *f = *state;
    set_up_opened(f);
    join(f, s0, "a");
    join(f, w0, "a");
    join(f, w1, "a");
    tell_facts(f, s0, some_facts);
    tell_facts(f, w0, needing(1024, 16, 3072));
    tell_facts(f, w1, needing(1024, 16, 2900)); /* when the other one had begun to take some */
    ends(
        f, PSR_ERR_USAGE,
        "a: 2 workers of resnet20 with batches of 64 and 1 shard need about 4.0 GiB of memory, and "
        "3.0 GiB are free; give it 1 worker, or --batch-size 31 or less, or --no-memory-check "
        "starts it all "
        "the same");
    assert_int_equal(f->begun, 0);
}

/* Workers of 2 GiB each: two and the data that they share take 5. */
static void data_that_the_workers_of_a_host_share_count_once(void **state)
{
    fixture *f = *state;
    psr_facts facts = needing(1024, 16, 5 * 1024);
    facts.memory_host_bytes = (uint64_t)1 << 30;
    set_up_opened(f);
    join(f, s0, "b");
    join(f, w0, "a");
    join(f, w1, "a");
    tell_facts(f, s0, some_facts);
    tell_facts(f, w0, facts);
    tell_facts(f, w1, facts);
    assert_false(f->ended);
    assert_int_equal(f->begun, 1);
    assert_int_equal(f->facts.memory_host_bytes, 0); /* not for run.json */
}

static void and_are_named_where_they_do_not_fit(void **state)
{
    fixture *f = *state;
    psr_facts facts = needing(1024, 16, 5 * 1024 - 1);
    facts.memory_host_bytes = (uint64_t)1 << 30;
    set_up_opened(f);
    join(f, s0, "b");
    join(f, w0, "a");
    join(f, w1, "a");
    tell_facts(f, s0, some_facts);
    tell_facts(f, w0, facts);
    tell_facts(f, w1, facts);
    ends(f, PSR_ERR_USAGE,
         "a: 2 workers of resnet20 with batches of 64 need about 5.0 GiB of memory, 1.0 GiB of it "
         "for data, and 5.0 GiB are free; give it 1 worker, or --batch-size 63 or less, or "
         "--no-memory-check starts it all the same");
    assert_int_equal(f->begun, 0);
}

/* The workers alone would fit: two of 2 GiB. 10^9 parameters with Adam are 12 GB on one shard, and
 * a window of slices from each worker. */
static void a_shard_counts_with_its_part_its_optimizer_and_its_queues(void **state)
{
    fixture *f = *state;
    const uint64_t part = UINT64_C(4000000000), base = 16 << 20;
    psr_config config;
    psr_config_defaults(&config);
    config.mode = PSR_MODE_PS;
    config.workers = 2;
    config.shards = 1;
    config.momentum = 0;
    config.window = 4;
    config.slice_bytes = 1 << 20;
    const uint64_t queues = 2 * 4 * (UINT64_C(1) << 20);
    assert_int_equal(psr_memory_of_shard(&config, 1000000000), base + part + queues);
    config.optimizer = PSR_OPTIMIZER_ADAM;
    assert_int_equal(psr_memory_of_shard(&config, 1000000000), base + 3 * part + queues);
    config.clip_norm = 1; /* sums are kept */
    config.shards = 2;
    assert_int_equal(psr_memory_of_shard(&config, 1000000000), base + 2 * part + queues);
    assert_int_equal(psr_memory_of_shard(&config, 1000), base + 4 * 2000 + 2 * 2000);

    set_up_opened(f);
    join(f, s0, "a");
    join(f, w0, "a");
    join(f, w1, "b");
    psr_facts facts = needing(1024, 16, 4096);
    facts.parameter_count = 1000000000;
    tell_facts(f, s0, some_facts);
    tell_facts(f, w0, facts);
    tell_facts(f, w1, facts);
    ends_with_words(f, PSR_ERR_USAGE,
                    "a: 1 worker of resnet20 with batches of 64 and 1 shard need");
}

static void each_host_is_judged_by_its_own_workers(void **state)
{
    fixture *f = *state;
    set_up_joined(f);
    tell_facts(f, s0, some_facts);
    tell_facts(f, w0, needing(1024, 16, 2080));
    tell_facts(f, w1, needing(1024, 16, 2080));
    assert_false(f->ended);
    assert_int_equal(f->begun, 1);
    assert_int_equal(f->facts.memory_free_bytes, 0); /* not for run.json */
}

static void no_memory_check_starts_what_would_not_fit(void **state)
{
    fixture *f = *state;
    set_up(f);
    f->config.memory_check = false;
    open_scheduler(f);
    join(f, s0, "a");
    join(f, w0, "a");
    join(f, w1, "b");
    tell_facts(f, s0, some_facts);
    tell_facts(f, w0, needing(1024, 16, 1));
    tell_facts(f, w1, needing(1024, 16, 1));
    assert_false(f->ended);
    assert_int_equal(f->begun, 1);
}

static void who_never_comes_up_is_named_with_those_that_did(void **state)
{
    fixture *f = *state;
    join(f, s0, "a");
    tick(f, 1000);
    join(f, w0, "a");
    for (uint64_t i = 1; f->now_ms < 8500; i++) { /* counted from the last that came */
        progress(f, s0, PSR_PHASE_START, 0, i, NULL);
        progress(f, w0, PSR_PHASE_START, 0, i, NULL);
        tick(f, f->now_ms + 500);
    }
    assert_false(f->ended);
    assert_true(psr_coordinator_next_tick(f->coordinator) <= 9000);
    tick(f, 9000);
    ends(f, PSR_ERR_TIMEOUT, "worker 1 never came up; 2 of 3 did: shard 0 on a, worker 0 on a");
}

static void a_short_deadline_still_gives_time_to_come_up(void **state)
{
    fixture *f = *state;
    f->config.deadline_s = 1;
    open_scheduler(f);
    while (f->now_ms < 4900)
        tick(f, f->now_ms + 100);
    assert_false(f->ended);
    tick(f, 5000);
    ends(f, PSR_ERR_TIMEOUT, "shard 0, worker 0, worker 1 never came up; 0 of 3 did");
}

static void nobody_is_late_while_the_scheduler_does_not_run(void **state)
{
    fixture *f = *state;
    join(f, s0, "a");
    tick(f, 20000); /* it was stopped: JOINs may lie there */
    assert_false(f->ended);
    join(f, w0, "a");
    join(f, w1, "a");
    assert_false(f->ended);
}

static void a_member_that_joins_and_falls_silent_is_named(void **state)
{
    fixture *f = *state;
    while (f->now_ms < 5500)
        tick(f, psr_coordinator_next_tick(f->coordinator));
    ends_with_words(f, PSR_ERR_TIMEOUT, "no sign of life for 5.5 s");
}

static void a_resumed_run_has_its_state_sent_after_the_roster(void **state)
{
    fixture *f = *state;
    f->first_step = 12;
    f->loss_scale = (psr_loss_scale){.scale = 1024, .taken = 3, .skipped = 2};
    open_scheduler(f);
    start_all(f);
    assert_int_equal(f->restored, 1);
    psr_view view;
    psr_bytes agreed;
    psr_worker_start worker;
    psr_shard_start shard;
    expect_ok(psr_welcome_read(bytes_of(sent_to(f, PSR_MSG_WELCOME, w1)), &view, &agreed));
    expect_ok(psr_worker_start_from_json(agreed, &worker));
    assert_int_equal(worker.first_step, 12);
    assert_int_equal(worker.total_steps, 20);
    assert_int_equal(worker.loss_scale, 1024);
    assert_int_equal(worker.loss_scale_taken, 3);
    assert_int_equal(worker.skipped_steps, 2);
    assert_int_equal(view.epoch, 0);
    assert_int_equal(view.plan.slice_count, 3);
    assert_int_equal(view.member_count, 3);
    assert_string_equal(view.members[2].host, "b");
    psr_view_done(&view);
    expect_ok(psr_welcome_read(bytes_of(sent_to(f, PSR_MSG_WELCOME, s0)), &view, &agreed));
    expect_ok(psr_shard_start_from_json(agreed, &shard));
    assert_int_equal(shard.first_step, 12);
    assert_int_equal(shard.total_steps, 20);
    assert_int_equal(shard.skipped_steps, 2);
    assert_int_equal(shard.layout.length, 3072);
    psr_shard_start_done(&shard);
    psr_view_done(&view);
}

static bool says_any_of(const struct sent *sent, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memmem(sent->text, sent->text_size, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}

static void a_shard_hears_of_no_network_data_or_path(void **state)
{
    fixture *f = *state;
    static const char *const words[] = {"resnet152", "/its/data",         "/its/out",
                                        "/its/init", some_facts.identity, some_facts.data_name};
    const size_t count = sizeof words / sizeof words[0];
    strcpy(f->config.model, words[0]);
    strcpy(f->config.data, words[1]);
    strcpy(f->config.out, words[2]);
    strcpy(f->config.init, words[3]);
    f->config.lr = 0.375;
    open_scheduler(f);
    start_all(f);
    assert_false(says_any_of(sent_to(f, PSR_MSG_CONFIG, s0), words, count));
    assert_false(says_any_of(sent_to(f, PSR_MSG_WELCOME, s0), words, count));
    assert_true(says_any_of(sent_to(f, PSR_MSG_CONFIG, w0), words, 1));
    assert_true(says_any_of(sent_to(f, PSR_MSG_CONFIG, s0), (const char *const[]){"0.375"}, 1));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        JOINED(a_run_starts_when_all_have_joined_agree_and_are_ready),
        SET_UP(ranks_that_nobody_asks_for_are_given_in_the_order_of_joining),
        SET_UP(a_back_end_without_a_choice_says_so),
        SET_UP(what_worker_0_says_about_engines_is_a_list_of_numbers_that_is_not_too_long),
        SET_UP(engines_are_numbers),
        SET_UP(what_worker_0_says_about_loops_is_one_line_that_is_not_too_long),
        SET_UP(what_worker_0_says_about_its_input_is_one_of_two_words),
        JOINED(who_asks_for_a_rank_that_is_taken_or_not_there_is_turned_away_and_the_run_goes_on),
        OPENED(another_version_is_refused_by_host_and_both_versions),
        SET_UP(facts_that_differ_are_refused_by_host_and_both_values),
        SET_UP(a_host_with_too_little_memory_is_refused_with_what_would_fit),
        SET_UP(data_that_the_workers_of_a_host_share_count_once),
        SET_UP(and_are_named_where_they_do_not_fit),
        SET_UP(a_shard_counts_with_its_part_its_optimizer_and_its_queues),
        SET_UP(each_host_is_judged_by_its_own_workers),
        SET_UP(no_memory_check_starts_what_would_not_fit),
        SET_UP(with_mixed_hosts_what_computes_may_differ),
        SET_UP(other_samples_are_refused_by_split_whatever_they_are_called),
        SET_UP(equal_samples_agree_by_whatever_name_each_host_calls_them),
        OPENED(who_never_comes_up_is_named_with_those_that_did),
        SET_UP(a_short_deadline_still_gives_time_to_come_up),
        OPENED(nobody_is_late_while_the_scheduler_does_not_run),
        JOINED(a_member_that_joins_and_falls_silent_is_named),
        SET_UP(a_resumed_run_has_its_state_sent_after_the_roster),
        SET_UP(a_shard_hears_of_no_network_data_or_path),
        SET_UP(in_local_mode_one_process_is_the_whole_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
