/* The launcher's decisions, played: what agents, scheduler and person do in, what is to be done out, as lines of text. */
#include "tests/unit/expect.h"

#include "base/text.h"
#include "deploy/launch/launch_machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEGAN_MS = 1000000, DEADLINE_MS = 8000 };
enum { A, B };     /* hosts: this one, and one that ssh reaches */
#define SIGNAL_9 9 /* as waitpid says it */
#define EXIT(status) ((status) << 8)

static psr_host host_items[] = {{"a", 2}, {"b", 1}};
static psr_placed placed[] = {{{PSR_ROLE_SHARD, 0}, A},
                              {{PSR_ROLE_WORKER, 0}, A},
                              {{PSR_ROLE_WORKER, 1}, A},
                              {{PSR_ROLE_WORKER, 2}, B}};
static const psr_placement placement = {{host_items, 2}, placed, 4, 2};

typedef struct played {
    psr_launch_machine *machine;
    psr_config config;
    psr_err failure; /* of the next action that can fail */
    char done[16384];
    psr_text_end end; /* of done */
} played;

/* ---- the actions ---- */

static psr_err start_scheduler(void *context, uint32_t threads, const char *interface)
{
    played *p = context;
    psr_text_add(&p->end, "start scheduler threads=%" PRIu32 " interface=%s\n", threads, interface);
    return p->failure == PSR_OK ? PSR_OK : psr_fail(p->failure, "no scheduler");
}

static psr_err spawn(void *context, size_t item, const char *interface, const char *endpoint)
{
    played *p = context;
    psr_text_add(&p->end, "spawn %s %" PRIu32 " interface=%s endpoint=%s\n",
                 psr_role_name(placed[item].peer.role), placed[item].peer.rank, interface, endpoint);
    return p->failure == PSR_OK ? PSR_OK : psr_fail(p->failure, "no provision");
}

static void order(void *context, const psr_order *order)
{
    played *p = context;
    char *text = NULL;
    expect_ok(psr_order_encode(order, &text));
    psr_text_add(&p->end, "%s\n", text);
    free(text);
}

static void command(void *context, size_t host, psr_launch_command command, int64_t grace_ms)
{
    static const char *const names[] = {"alive", "pause", "go on", "end"};
    played *p = context;
    psr_text_add(&p->end, "agent %s: %s", host_items[host].name, names[command]);
    if (command == PSR_LAUNCH_END)
        psr_text_add(&p->end, " in %" PRId64 " ms", grace_ms);
    psr_text_add(&p->end, "\n");
}

static void kill_all(void *context)
{
    psr_text_add(&((played *)context)->end, "kill all\n");
}

static void stop(void *context)
{
    psr_text_add(&((played *)context)->end, "stop\n");
}

static void show_line(void *context, const char *line)
{
    psr_text_add(&((played *)context)->end, "line: %s\n", line);
}

static void show_error(void *context, const char *line)
{
    psr_text_add(&((played *)context)->end, "error: %s\n", line);
}

static void show_others_error(void *context, const char *line)
{
    psr_text_add(&((played *)context)->end, "others: %s\n", line);
}

static void show_progress(void *context, const psr_run_progress *progress)
{
    psr_text_add(&((played *)context)->end, "progress %" PRIu64 " of %" PRIu64 "\n", progress->step,
                 progress->total);
}

static void show_evaluating(void *context, const psr_run_evaluating *evaluating)
{
    psr_text_add(&((played *)context)->end, "evaluating %" PRIu64 " of %" PRIu64 "\n", evaluating->counted,
                 evaluating->samples);
}

static void show_evaluated(void *context)
{
    psr_text_add(&((played *)context)->end, "evaluated\n");
}

static void end_bar(void *context)
{
    psr_text_add(&((played *)context)->end, "end bar\n");
}

static void draw_bar_again(void *context)
{
    psr_text_add(&((played *)context)->end, "bar again\n");
}

static void show_resumable(void *context)
{
    psr_text_add(&((played *)context)->end, "resumable\n");
}

static void show_outcome(void *context, const cJSON *outcome)
{
    psr_text_add(&((played *)context)->end, "outcome %s\n",
                 cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(outcome, "hash")));
}

/* ---- playing ---- */

static void forget(played *p)
{
    p->done[0] = '\0';
    p->end = (psr_text_end){p->done, sizeof p->done};
}

/* What was done since the last time is this. */
static void expect_done(played *p, const char *text)
{
    assert_string_equal(p->done, text);
    forget(p);
}

static void begin_with(played *p, psr_bare bare, const char *interface)
{
    *p = (played){0};
    forget(p);
    psr_config_defaults(&p->config);
    p->config.deadline_s = DEADLINE_MS / 1000.0;
    p->config.bare = bare;
    const psr_launch_machine_options options = {
        .placement = &placement, .config = &p->config, .interface = interface, .host = "a", .machine = "m1"};
    const psr_launch_actions actions = {
        .context = p,
        .start_scheduler = start_scheduler,
        .spawn = spawn,
        .order = order,
        .command = command,
        .kill_all = kill_all,
        .stop = stop,
        .show_line = show_line,
        .show_error = show_error,
        .show_others_error = show_others_error,
        .show_progress = show_progress,
        .show_evaluating = show_evaluating,
        .show_evaluated = show_evaluated,
        .end_bar = end_bar,
        .draw_bar_again = draw_bar_again,
        .show_resumable = show_resumable,
        .show_outcome = show_outcome,
    };
    expect_ok(psr_launch_machine_new(&options, &actions, BEGAN_MS, &p->machine));
    psr_launch_machine_agent_started(p->machine, A, true, BEGAN_MS);
    psr_launch_machine_agent_started(p->machine, B, false, BEGAN_MS);
    psr_launch_machine_tick(p->machine, true, BEGAN_MS);
    expect_done(p, "agent a: alive\nagent b: alive\n");
}

static void begin(played *p)
{
    begin_with(p, PSR_BARE_NOWHERE, NULL);
}

static void agent_says(played *p, size_t host, const char *line, int64_t at_ms)
{
    psr_launch_machine_agent_said(p->machine, host, line, BEGAN_MS + at_ms);
}

static void scheduler_says(played *p, const char *line, int64_t at_ms)
{
    psr_launch_machine_scheduler_said(p->machine, line, BEGAN_MS + at_ms);
}

static void tick(played *p, int64_t at_ms)
{
    psr_launch_machine_tick(p->machine, true, BEGAN_MS + at_ms);
}

static int64_t wait_ms(played *p, int64_t at_ms)
{
    return psr_launch_machine_wait_ms(p->machine, BEGAN_MS + at_ms);
}

#define HELLO_A "{\"event\":\"hello\",\"version\":\"" PSR_VERSION "\",\"machine\":\"m1\",\"cores\":8}"
#define HELLO_B                                                                                              \
    "{\"event\":\"hello\",\"version\":\"" PSR_VERSION                                                        \
    "\",\"address\":\"10.0.0.2\",\"launcher_address\":\"10.0.0.1\",\"machine\":\"m2\",\"cores\":6}"
#define LISTENING "{\"event\":\"listening\",\"endpoint\":\"tcp://10.0.0.1:7\"}"
#define ENDED_WELL "{\"event\":\"ended\",\"status\":0,\"line\":\"done\",\"outcome\":{\"hash\":\"12\"}}"

/* Until processes are spawned. */
static void begin_run(played *p)
{
    begin(p);
    agent_says(p, A, HELLO_A, 0);
    agent_says(p, B, HELLO_B, 0);
    scheduler_says(p, LISTENING, 0);
    forget(p);
}

static void close_all(played *p, int64_t at_ms)
{
    psr_launch_machine_scheduler_ended(p->machine);
    psr_launch_machine_scheduler_closed(p->machine, 0, BEGAN_MS + at_ms);
    for (size_t host = A; host <= B; host++) {
        assert_false(psr_launch_machine_is_over(p->machine));
        psr_launch_machine_agent_ended(p->machine, host);
        psr_launch_machine_agent_closed(p->machine, host, 0, BEGAN_MS + at_ms);
    }
}

/* The run is over; how the person is told. */
static void expect_end(played *p, int status, const char *told)
{
    forget(p);
    psr_launch_machine_conclude(p->machine);
    expect_done(p, told);
    assert_int_equal(psr_launch_machine_status(p->machine), status);
    psr_launch_machine_free(p->machine);
}

/* ---- the start ---- */

static void the_scheduler_is_started_when_all_agents_have_said_hello(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, B, HELLO_B, 10);
    expect_done(&p, "");
    agent_says(&p, A, HELLO_A, 20);
    /* the fewest cores by the most workers of a host; this host as the other one sees it */
    expect_done(&p, "start scheduler threads=3 interface=10.0.0.1\n");
    scheduler_says(&p, LISTENING, 30);
    expect_done(&p, "spawn shard 0 interface=10.0.0.1 endpoint=tcp://10.0.0.1:7\n"
                    "spawn worker 0 interface=10.0.0.1 endpoint=tcp://10.0.0.1:7\n"
                    "spawn worker 1 interface=10.0.0.1 endpoint=tcp://10.0.0.1:7\n"
                    "spawn worker 2 interface=10.0.0.2 endpoint=tcp://10.0.0.1:7\n");
    scheduler_says(&p, LISTENING, 40);
    expect_done(&p, "");
    psr_launch_machine_free(p.machine);
}

static void the_interface_and_threads_that_the_user_names_are_taken(void **state)
{
    (void)state;
    played p;
    begin_with(&p, PSR_BARE_NOWHERE, "eth1");
    p.config.threads = 5;
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_A, 0); /* without an address */
    expect_done(&p, "start scheduler threads=5 interface=eth1\n");
    psr_launch_machine_free(p.machine);
}

static void a_host_that_does_not_tell_its_address_ends_the_start(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_A, 0);
    expect_done(&p, "agent a: end in 750 ms\nagent b: end in 750 ms\n");
    expect_end(&p, 2,
               "end bar\nerror: psring train: host b does not tell the address that ssh reached it by; name "
               "the interface with "
               "--interface\n");
}

static void without_encryption_another_machine_is_refused(void **state)
{
    (void)state;
    played p;
    begin_with(&p, PSR_BARE_THIS_MACHINE, NULL);
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_B, 0);
    expect_end(&p, 2,
               "end bar\nerror: psring train: --no-encrypt: host b is another machine, and who is on the way "
               "could read and "
               "change the run; leave it out, or give --no-encrypt=trusted-network\n");
    begin_with(&p, PSR_BARE_TRUSTED_NETWORK, NULL);
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_B, 0);
    expect_done(&p, "start scheduler threads=3 interface=10.0.0.1\n");
    psr_launch_machine_free(p.machine);
}

static void what_a_login_shell_prints_before_the_hello_changes_nothing(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, B, "Welcome to b", 0);
    psr_launch_machine_agent_complained(p.machine, B, "a word of ssh");
    expect_done(&p, "");
    agent_says(&p, B, HELLO_B, 0);
    psr_launch_machine_agent_complained(p.machine, B, "another");
    expect_done(&p, "others: [agent on b] another\n");
    psr_launch_machine_free(p.machine);
}

static void an_agent_that_does_not_answer_ends_the_start(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    psr_launch_machine_agent_complained(p.machine, B, "Last login: today");
    for (int64_t at_ms = 0; at_ms < 20000; at_ms += 1000) {
        agent_says(&p, A, "{\"event\":\"alive\"}", at_ms);
        tick(&p, at_ms);
    }
    agent_says(&p, A, "{\"event\":\"alive\"}", 19999);
    assert_int_equal(wait_ms(&p, 19999), 1);
    tick(&p, 19999);
    forget(&p);
    tick(&p, 20000);
    expect_done(&p, "agent a: end in 750 ms\nagent b: end in 750 ms\n");
    expect_end(
        &p, 1,
        "end bar\nerror: psring train: host b: its agent did not answer within 20 s: Last login: today\n");
}

static void an_agent_that_ends_before_its_hello_ends_the_start(void **state)
{
    (void)state;
    played p;
    begin(&p);
    psr_launch_machine_agent_complained(p.machine, B, "Permission denied (publickey)");
    psr_launch_machine_agent_ended(p.machine, B);
    expect_done(&p, "");
    psr_launch_machine_agent_closed(p.machine, B, EXIT(255), BEGAN_MS);
    expect_done(&p, "agent a: end in 750 ms\n"); /* the other has ended */
    expect_end(
        &p, 2,
        "end bar\nerror: psring train: host b: ssh could not connect: Permission denied (publickey)\n");
    begin(&p);
    psr_launch_machine_agent_ended(p.machine, A);
    psr_launch_machine_agent_closed(p.machine, A, SIGNAL_9, BEGAN_MS);
    expect_end(&p, 1,
               "end bar\nerror: psring train: host a: its agent ended (killed by signal 9 (Killed))\n");
}

static void an_agent_that_ends_while_others_are_awaited_ends_the_start(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    psr_launch_machine_agent_ended(p.machine, A);
    psr_launch_machine_agent_closed(p.machine, A, EXIT(1), BEGAN_MS);
    expect_done(&p, "agent b: end in 750 ms\n");
    expect_end(&p, 1, "end bar\nerror: psring train: host a: its agent ended (exit status 1)\n");
}

static void an_action_that_fails_ends_the_run(void **state)
{
    (void)state;
    played p;
    begin(&p);
    p.failure = PSR_ERR_NOT_FOUND;
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_B, 0);
    expect_done(
        &p, "start scheduler threads=3 interface=10.0.0.1\nagent a: end in 750 ms\nagent b: end in 750 ms\n");
    expect_end(&p, 2, "end bar\nerror: psring train: no scheduler\n");
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_B, 0);
    p.failure = PSR_ERR_NOMEM;
    forget(&p);
    scheduler_says(&p, LISTENING, 0);
    expect_done(&p, "spawn shard 0 interface=10.0.0.1 endpoint=tcp://10.0.0.1:7\n"
                    "agent a: end in 750 ms\nagent b: end in 750 ms\n");
    expect_end(&p, 1, "end bar\nerror: psring train: no provision\n");
}

static void a_failure_of_the_driver_before_the_first_agent_is_over_at_once(void **state)
{
    (void)state;
    played p;
    const psr_launch_machine_options options = {
        .placement = &placement, .config = &p.config, .host = "a", .machine = ""};
    const psr_launch_actions actions = {.context = &p, .show_error = show_error, .end_bar = end_bar};
    p = (played){0};
    forget(&p);
    expect_ok(psr_launch_machine_new(&options, &actions, BEGAN_MS, &p.machine));
    psr_launch_machine_failed(p.machine, psr_fail(PSR_ERR_USAGE, "--ssh: the command is empty"), BEGAN_MS);
    assert_true(psr_launch_machine_is_over(p.machine));
    expect_end(&p, 2, "end bar\nerror: psring train: --ssh: the command is empty\n");
}

/* ---- agents that lie ---- */

static void a_second_hello_ends_the_run(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    agent_says(&p, B, HELLO_B, 0);
    expect_done(&p, "agent a: end in 750 ms\nagent b: end in 750 ms\n");
    agent_says(&p, B, "{\"event\":\"exited\",\"role\":\"worker\",\"rank\":2,\"ok\":false,\"how\":\"x\"}", 0);
    expect_done(&p, ""); /* it is not heard any more */
    expect_end(&p, 3, "end bar\nerror: psring train: host b: its agent said hello twice\n");
}

static void an_agent_speaks_for_what_is_placed_on_its_host_alone(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    agent_says(&p, B, "{\"event\":\"exited\",\"role\":\"worker\",\"rank\":0,\"ok\":false,\"how\":\"x\"}", 0);
    expect_end(
        &p, 3,
        "end bar\nerror: psring train: host b: its agent speaks for worker 0, which is not placed there\n");
}

/* ---- who is lost ---- */

static void a_member_that_is_lost_is_told_to_the_scheduler(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    agent_says(
        &p, B,
        "{\"event\":\"exited\",\"role\":\"worker\",\"rank\":2,\"ok\":false,\"how\":\"killed by signal 9\"}",
        0);
    expect_done(&p, "{\"order\":\"lost\",\"role\":\"worker\",\"rank\":2,\"host\":\"b\",\"by_itself\":false,"
                    "\"how\":\"killed by "
                    "signal 9\"}\n");
    agent_says(&p, A,
               "{\"event\":\"exited\",\"role\":\"shard\",\"rank\":0,\"ok\":true,\"how\":\"exit status 0\"}",
               0);
    expect_done(&p, "");
    scheduler_says(&p, ENDED_WELL, 0);
    forget(&p);
    agent_says(&p, A,
               "{\"event\":\"exited\",\"role\":\"worker\",\"rank\":0,\"ok\":false,\"how\":\"exit status 1\"}",
               0);
    expect_done(&p, "");
    psr_launch_machine_free(p.machine);
}

static void an_agent_that_ends_takes_its_processes_with_it(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_agent_ended(p.machine, A);
    psr_launch_machine_agent_closed(p.machine, A, SIGNAL_9, BEGAN_MS);
    expect_done(&p, "{\"order\":\"lost\",\"role\":\"shard\",\"rank\":0,\"host\":\"a\",\"by_itself\":false,"
                    "\"how\":\"with host a, whose agent "
                    "ended (killed by signal 9 (Killed))\"}\n"
                    "{\"order\":\"lost\",\"role\":\"worker\",\"rank\":0,\"host\":\"a\",\"by_itself\":false,"
                    "\"how\":\"with host a, whose "
                    "agent "
                    "ended (killed by signal 9 (Killed))\"}\n"
                    "{\"order\":\"lost\",\"role\":\"worker\",\"rank\":1,\"host\":\"a\",\"by_itself\":false,"
                    "\"how\":\"with host a, whose "
                    "agent "
                    "ended (killed by signal 9 (Killed))\"}\n");
    psr_launch_machine_agent_closed(p.machine, A, SIGNAL_9, BEGAN_MS);
    expect_done(&p, ""); /* once */
    psr_launch_machine_agent_ended(p.machine, B);
    psr_launch_machine_agent_closed(p.machine, B, EXIT(255), BEGAN_MS);
    expect_done(&p, "{\"order\":\"lost\",\"role\":\"worker\",\"rank\":2,\"host\":\"b\",\"by_itself\":false,"
                    "\"how\":\"with host b, whose ssh "
                    "connection ended (exit status 255)\"}\n");
    psr_launch_machine_free(p.machine);
}

/* Everybody but those says something. */
static void pass_second(played *p, int64_t at_ms, bool a_speaks, bool b_speaks, bool scheduler_speaks)
{
    if (a_speaks)
        agent_says(p, A, "{\"event\":\"alive\"}", at_ms);
    if (b_speaks)
        agent_says(p, B, "{\"event\":\"alive\"}", at_ms);
    if (scheduler_speaks)
        scheduler_says(p, "{\"event\":\"alive\"}", at_ms);
    forget(p);
    tick(p, at_ms);
}

static void an_agent_that_is_silent_for_the_deadline_is_told_to_the_scheduler_once(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    for (int64_t at_ms = 0; at_ms < DEADLINE_MS; at_ms += 1000)
        pass_second(&p, at_ms, true, false, true);
    assert_true(wait_ms(&p, DEADLINE_MS - 1) <= 1);
    agent_says(&p, A, "{\"event\":\"alive\"}", DEADLINE_MS);
    scheduler_says(&p, "{\"event\":\"alive\"}", DEADLINE_MS);
    forget(&p);
    tick(&p, DEADLINE_MS);
    assert_ptr_equal(
        strstr(p.done, "{\"order\":\"agent\",\"host\":\"b\",\"how\":\"no sign of life for 8.0 s\"}\n"),
        p.done);
    pass_second(&p, DEADLINE_MS + 1000, true, false, true);
    assert_null(strstr(p.done, "\"agent\""));
    psr_launch_machine_free(p.machine);
}

static void a_silent_agent_ends_a_run_that_has_no_scheduler_yet(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    for (int64_t at_ms = 1000; at_ms <= DEADLINE_MS; at_ms += 1000)
        tick(&p, at_ms);
    expect_end(&p, 1, "end bar\nerror: psring train: agent on a: no sign of life for 8.0 s\n");
}

static void while_agents_are_left_unread_their_silence_is_not_theirs(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    for (int64_t at_ms = 0; at_ms <= 3 * DEADLINE_MS; at_ms += 1000) {
        scheduler_says(&p, "{\"event\":\"alive\"}", at_ms);
        psr_launch_machine_tick(p.machine, false, BEGAN_MS + at_ms);
    }
    assert_null(strstr(p.done, "\"agent\""));
    psr_launch_machine_free(p.machine);
}

static void what_the_launcher_was_away_for_is_nobodys_silence(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    tick(&p, 1000);
    forget(&p);
    tick(&p, 1000 + 10 * DEADLINE_MS);
    expect_done(&p, "{\"order\":\"alive\"}\nagent a: alive\nagent b: alive\n");
    psr_launch_machine_free(p.machine);
}

static void a_silent_scheduler_ends_the_run(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    scheduler_says(&p, "{\"event\":\"progress\",\"step\":4,\"total\":10,\"loss\":0.5}", 0);
    expect_done(&p, "progress 4 of 10\n");
    for (int64_t at_ms = 0; at_ms <= DEADLINE_MS; at_ms += 1000)
        pass_second(&p, at_ms, true, true, false);
    expect_end(&p, 1,
               "end bar\nerror: psring train: scheduler 0 on a: no sign of life for 8.0 s; the run was at "
               "step 4 of 10, loss "
               "0.5000\n");
}

static void all_hear_four_signs_of_life_per_deadline(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    int64_t now_ms = 0;
    for (int signs = 0; signs < 4; signs++) {
        int64_t wait = wait_ms(&p, now_ms);
        assert_true(wait > 0 && wait <= DEADLINE_MS / 4 + 1);
        now_ms += wait;
        agent_says(&p, A, "{\"event\":\"alive\"}", now_ms);
        agent_says(&p, B, "{\"event\":\"alive\"}", now_ms);
        scheduler_says(&p, "{\"event\":\"alive\"}", now_ms);
        tick(&p, now_ms);
        expect_done(&p, "{\"order\":\"alive\"}\nagent a: alive\nagent b: alive\n");
    }
    psr_launch_machine_free(p.machine);
}

/* ---- Ctrl-C ---- */

static void the_first_ctrl_c_stops_in_order_and_the_second_at_once(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_interrupted(p.machine, BEGAN_MS);
    expect_done(&p, "{\"order\":\"stop\"}\nline: stopping after this step, with a checkpoint; once more to "
                    "end at once\n");
    assert_false(psr_launch_machine_ends_at_once(p.machine));
    psr_launch_machine_interrupted(p.machine, BEGAN_MS);
    expect_done(&p, "agent a: end in 750 ms\nagent b: end in 750 ms\n");
    assert_true(psr_launch_machine_ends_at_once(p.machine));
    assert_int_equal(wait_ms(&p, 0), 0);
    tick(&p, 0);
    expect_done(&p, "kill all\n");
    close_all(&p, 10);
    assert_true(psr_launch_machine_is_over(p.machine));
    expect_end(&p, 130, "end bar\nerror: psring train: interrupted\n");
}

static void a_run_that_was_stopped_in_order_can_go_on(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_interrupted(p.machine, BEGAN_MS);
    scheduler_says(
        &p, "{\"event\":\"ended\",\"status\":130,\"line\":\"stopped\",\"outcome\":{\"hash\":\"12\"}}", 0);
    close_all(&p, 0);
    expect_end(&p, 130, "end bar\nerror: psring train: stopped\nresumable\n");
}

static void a_signal_to_end_before_processes_are_there_ends_at_once(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    psr_launch_machine_interrupted(p.machine, BEGAN_MS);
    expect_done(&p, "agent a: end in 750 ms\nagent b: end in 750 ms\n");
    agent_says(&p, B, HELLO_B, 0); /* too late for a scheduler */
    expect_done(&p, "");
    expect_end(&p, 130, "end bar\nerror: psring train: interrupted\n");
}

/* ---- Ctrl-Z ---- */

#define PAUSES "end bar\n{\"order\":\"pause\"}\nagent a: pause\nagent b: pause\n"
#define GOES_ON "{\"order\":\"go_on\"}\nagent a: go on\nagent b: go on\nbar again\n"

static void a_run_stops_when_all_have_said_that_they_have(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_suspended(p.machine, BEGAN_MS);
    expect_done(&p, PAUSES);
    scheduler_says(&p, "{\"event\":\"paused\"}", 10);
    agent_says(&p, A, "{\"event\":\"paused\"}", 10);
    tick(&p, 10);
    expect_done(&p, "");
    agent_says(&p, B, "{\"event\":\"paused\"}", 20);
    tick(&p, 20);
    expect_done(&p, "stop\n" GOES_ON);
    tick(&p, 30);
    expect_done(&p, "");
    psr_launch_machine_suspended(p.machine, BEGAN_MS + 40); /* answers of the first time do not count */
    expect_done(&p, PAUSES);
    tick(&p, 50);
    expect_done(&p, "");
    psr_launch_machine_free(p.machine);
}

static void who_does_not_answer_within_a_second_does_not_keep_the_launcher_awake(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_suspended(p.machine, BEGAN_MS);
    scheduler_says(&p, "{\"event\":\"paused\"}", 10);
    agent_says(&p, A, "{\"event\":\"paused\"}", 10);
    forget(&p);
    psr_launch_machine_suspended(p.machine, BEGAN_MS + 500); /* pressed again: it is under way */
    expect_done(&p, "end bar\n");
    tick(&p, 999);
    expect_done(&p, "");
    assert_int_equal(wait_ms(&p, 999), 1);
    tick(&p, 1000);
    expect_done(&p, "stop\n" GOES_ON);
    psr_launch_machine_free(p.machine);
}

static void who_has_not_come_up_or_has_ended_is_not_waited_for(void **state)
{
    (void)state;
    played p;
    begin(&p);
    agent_says(&p, A, HELLO_A, 0);
    psr_launch_machine_suspended(p.machine, BEGAN_MS);
    expect_done(&p, "end bar\nagent a: pause\nagent b: pause\n");
    agent_says(&p, A, "{\"event\":\"paused\"}", 0);
    tick(&p, 0);
    expect_done(&p, "stop\nagent a: go on\nagent b: go on\nbar again\n");
    psr_launch_machine_free(p.machine);

    begin_run(&p);
    psr_launch_machine_agent_ended(p.machine, B);
    psr_launch_machine_suspended(p.machine, BEGAN_MS);
    agent_says(&p, A, "{\"event\":\"paused\"}", 0);
    scheduler_says(&p, "{\"event\":\"paused\"}", 0);
    forget(&p);
    tick(&p, 0);
    expect_done(&p, "stop\n{\"order\":\"go_on\"}\nagent a: go on\nbar again\n");
    psr_launch_machine_free(p.machine);
}

static void who_is_to_go_on_before_the_stop_does_not_stop(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_continued(p.machine); /* nothing is paused */
    expect_done(&p, "");
    psr_launch_machine_suspended(p.machine, BEGAN_MS);
    expect_done(&p, PAUSES);
    psr_launch_machine_continued(p.machine);
    expect_done(&p, GOES_ON);
    tick(&p, 1000);
    assert_null(strstr(p.done, "stop"));
    psr_launch_machine_free(p.machine);
}

static void a_run_that_is_ending_stops_without_asking_anybody(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    scheduler_says(&p, ENDED_WELL, 0);
    forget(&p);
    psr_launch_machine_suspended(p.machine, BEGAN_MS);
    expect_done(&p, "end bar\n");
    tick(&p, 0);
    expect_done(&p, "stop\n");
    psr_launch_machine_free(p.machine);
}

/* ---- the end ---- */

static void the_scheduler_says_how_the_run_ended(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    scheduler_says(&p, ENDED_WELL, 0);
    expect_done(&p, "agent a: end in 1500 ms\nagent b: end in 1500 ms\n");
    scheduler_says(&p, "{\"event\":\"ended\",\"status\":1,\"line\":\"again\"}", 0);
    expect_done(&p, ""); /* the first word counts */
    close_all(&p, 0);
    assert_true(psr_launch_machine_is_over(p.machine));
    psr_launch_machine_free(p.machine);

    begin_run(&p);
    scheduler_says(&p, ENDED_WELL, 0);
    close_all(&p, 0);
    expect_end(&p, 0, "end bar\noutcome 12\n");

    begin_run(&p);
    scheduler_says(&p, "{\"event\":\"ended\",\"status\":3,\"line\":\"worker 1 on a: sent nonsense\"}", 0);
    expect_done(&p, "agent a: end in 750 ms\nagent b: end in 750 ms\n");
    expect_end(&p, 3, "end bar\nerror: psring train: worker 1 on a: sent nonsense\n");

    begin_run(&p);
    scheduler_says(&p, "{\"event\":\"ended\",\"status\":0,\"line\":\"nothing left to do\"}", 0);
    expect_end(&p, 0, "end bar\nline: nothing left to do\n");
}

static void a_scheduler_that_dies_without_a_word_ends_the_run(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    psr_launch_machine_scheduler_ended(p.machine);
    scheduler_says(&p, "{\"event\":\"progress\",\"step\":4,\"total\":10}", 0); /* still in the pipe */
    psr_launch_machine_scheduler_closed(p.machine, SIGNAL_9, BEGAN_MS);
    expect_end(&p, 1,
               "end bar\nerror: psring train: scheduler 0 on a: killed by signal 9 (Killed); the run was at "
               "step 4 of 10\n");

    begin(&p); /* before it listens: bad input, which it has told itself */
    agent_says(&p, A, HELLO_A, 0);
    agent_says(&p, B, HELLO_B, 0);
    psr_launch_machine_scheduler_complained(p.machine, "its own words");
    psr_launch_machine_scheduler_closed(p.machine, EXIT(2), BEGAN_MS);
    expect_end(&p, 2,
               "end bar\nerror: psring train: scheduler 0 on a: exit status 2; the run was at its start\n");
}

static void agents_that_do_not_end_are_killed(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    scheduler_says(&p, ENDED_WELL, 0);
    psr_launch_machine_scheduler_ended(p.machine);
    psr_launch_machine_scheduler_closed(p.machine, 0, BEGAN_MS);
    psr_launch_machine_agent_ended(p.machine, A);
    psr_launch_machine_agent_closed(p.machine, A, 0, BEGAN_MS);
    tick(&p, 2001); /* a sign of life is due then, and next after 4002 ms */
    forget(&p);
    assert_int_equal(wait_ms(&p, 2499), 1);
    tick(&p, 2499);
    expect_done(&p, "");
    tick(&p, 2500);
    expect_done(&p, "kill all\n");
    assert_int_equal(wait_ms(&p, 2500), 100);
    tick(&p, 2600);
    expect_done(&p, "kill all\n");
    assert_false(psr_launch_machine_is_over(p.machine));
    psr_launch_machine_agent_ended(p.machine, B);
    assert_false(psr_launch_machine_is_over(p.machine)); /* its last words */
    psr_launch_machine_agent_closed(p.machine, B, SIGNAL_9, BEGAN_MS + 2610);
    assert_true(psr_launch_machine_is_over(p.machine));
    expect_end(&p, 0, "end bar\noutcome 12\n");
}

/* ---- what the person sees ---- */

/* Worker 2 on b prints this on its standard error. */
static void prints(played *p, const char *text)
{
    char line[1024];
    snprintf(line, sizeof line,
             "{\"event\":\"line\",\"role\":\"worker\",\"rank\":2,\"stream\":\"err\",\"text\":\"%s\"}", text);
    agent_says(p, B, line, 0);
}

#define LOGGED(text) "{\"order\":\"log\",\"role\":\"worker\",\"rank\":2,\"line\":\"" text "\"}\n"

static void what_processes_print_goes_to_the_log_and_by_its_level_to_the_person(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    prints(&p, "12:01:02.345 info  worker 2: joined");
    expect_done(&p, LOGGED("12:01:02.345 info  worker 2: joined"));
    prints(&p, "12:01:02.345 warn  worker 2: slow");
    expect_done(&p, LOGGED("12:01:02.345 warn  worker 2: slow") "others: [worker 2 on b] 12:01:02.345 warn  "
                                                                "worker 2: slow\n");
    prints(&p, "12:01:02.345 warn  worker 2 (stranger): turned away one");
    expect_done(&p, LOGGED("12:01:02.345 warn  worker 2 (stranger): turned away one"));
    prints(&p, "malloc(): corrupted top size");
    expect_done(
        &p, LOGGED("malloc(): corrupted top size") "others: [worker 2 on b] malloc(): corrupted top size\n");
    agent_says(&p, B,
               "{\"event\":\"line\",\"role\":\"worker\",\"rank\":2,\"stream\":\"out\",\"text\":\"epoch: 1 "
               "step: 1\"}",
               0);
    expect_done(&p, LOGGED("epoch: 1 step: 1"));
    psr_launch_machine_free(p.machine);
}

static void errors_of_processes_are_shown_at_the_end_where_they_say_more_than_the_run_does(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    prints(&p, "12:01:02.345 error worker 2: the loss is not finite");
    prints(&p, "12:01:02.345 error worker 2: worker 2 on b: the loss is not finite, at step 7");
    prints(&p, "12:01:02.345 error worker 2: and the disk is full");
    expect_done(&p,
                LOGGED("12:01:02.345 error worker 2: the loss is not finite")
                    LOGGED("12:01:02.345 error worker 2: worker 2 on b: the loss is not finite, at step 7")
                        LOGGED("12:01:02.345 error worker 2: and the disk is full"));
    scheduler_says(
        &p, "{\"event\":\"ended\",\"status\":1,\"line\":\"worker 2 on b: the loss is not finite\"}", 0);
    prints(&p, "12:01:02.345 error worker 2: what follows from it");
    expect_end(&p, 1,
               "end bar\nerror: [worker 2 on b] 12:01:02.345 error worker 2: and the disk is full\n"
               "error: psring train: worker 2 on b: the loss is not finite\n");
}

static void what_the_scheduler_says_is_shown_by_its_level_and_kind(void **state)
{
    (void)state;
    played p;
    begin_run(&p);
    scheduler_says(
        &p, "{\"event\":\"say\",\"level\":\"info\",\"kind\":\"run\",\"line\":\"worker 1 is slow\"}", 0);
    expect_done(&p, "line: worker 1 is slow\n");
    scheduler_says(
        &p, "{\"event\":\"say\",\"level\":\"warn\",\"kind\":\"run\",\"line\":\"what is no order\"}", 0);
    expect_done(&p, "others: [scheduler] what is no order\n");
    scheduler_says(
        &p, "{\"event\":\"say\",\"level\":\"warn\",\"kind\":\"stranger\",\"line\":\"turned away one\"}", 0);
    expect_done(&p, "");
    scheduler_says(&p, "{\"event\":\"evaluating\",\"step\":4,\"total\":10,\"counted\":30,\"samples\":90}", 0);
    scheduler_says(&p, "{\"event\":\"evaluated\",\"line\":\"step 4: test accuracy 50%\"}", 0);
    expect_done(&p, "evaluating 30 of 90\nevaluated\nline: step 4: test accuracy 50%\n");
    scheduler_says(&p, "what a library prints", 0);
    expect_done(&p, "line: what a library prints\n");
    psr_launch_machine_scheduler_complained(p.machine, "and on stderr");
    expect_done(&p, "others: [scheduler] and on stderr\n");
    psr_launch_machine_free(p.machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scheduler_is_started_when_all_agents_have_said_hello),
        cmocka_unit_test(the_interface_and_threads_that_the_user_names_are_taken),
        cmocka_unit_test(a_host_that_does_not_tell_its_address_ends_the_start),
        cmocka_unit_test(without_encryption_another_machine_is_refused),
        cmocka_unit_test(what_a_login_shell_prints_before_the_hello_changes_nothing),
        cmocka_unit_test(an_agent_that_does_not_answer_ends_the_start),
        cmocka_unit_test(an_agent_that_ends_before_its_hello_ends_the_start),
        cmocka_unit_test(an_agent_that_ends_while_others_are_awaited_ends_the_start),
        cmocka_unit_test(an_action_that_fails_ends_the_run),
        cmocka_unit_test(a_failure_of_the_driver_before_the_first_agent_is_over_at_once),
        cmocka_unit_test(a_second_hello_ends_the_run),
        cmocka_unit_test(an_agent_speaks_for_what_is_placed_on_its_host_alone),
        cmocka_unit_test(a_member_that_is_lost_is_told_to_the_scheduler),
        cmocka_unit_test(an_agent_that_ends_takes_its_processes_with_it),
        cmocka_unit_test(an_agent_that_is_silent_for_the_deadline_is_told_to_the_scheduler_once),
        cmocka_unit_test(a_silent_agent_ends_a_run_that_has_no_scheduler_yet),
        cmocka_unit_test(while_agents_are_left_unread_their_silence_is_not_theirs),
        cmocka_unit_test(what_the_launcher_was_away_for_is_nobodys_silence),
        cmocka_unit_test(a_silent_scheduler_ends_the_run),
        cmocka_unit_test(all_hear_four_signs_of_life_per_deadline),
        cmocka_unit_test(the_first_ctrl_c_stops_in_order_and_the_second_at_once),
        cmocka_unit_test(a_run_that_was_stopped_in_order_can_go_on),
        cmocka_unit_test(a_signal_to_end_before_processes_are_there_ends_at_once),
        cmocka_unit_test(a_run_stops_when_all_have_said_that_they_have),
        cmocka_unit_test(who_does_not_answer_within_a_second_does_not_keep_the_launcher_awake),
        cmocka_unit_test(who_has_not_come_up_or_has_ended_is_not_waited_for),
        cmocka_unit_test(who_is_to_go_on_before_the_stop_does_not_stop),
        cmocka_unit_test(a_run_that_is_ending_stops_without_asking_anybody),
        cmocka_unit_test(the_scheduler_says_how_the_run_ended),
        cmocka_unit_test(a_scheduler_that_dies_without_a_word_ends_the_run),
        cmocka_unit_test(agents_that_do_not_end_are_killed),
        cmocka_unit_test(what_processes_print_goes_to_the_log_and_by_its_level_to_the_person),
        cmocka_unit_test(errors_of_processes_are_shown_at_the_end_where_they_say_more_than_the_run_does),
        cmocka_unit_test(what_the_scheduler_says_is_shown_by_its_level_and_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
