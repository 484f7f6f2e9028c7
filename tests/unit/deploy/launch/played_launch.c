#include "tests/unit/deploy/launch/played_launch.h"

#include <inttypes.h>
#include <stdlib.h>

static psr_host host_items[] = {{"a", 2, 0}, {"b", 1, 0}};
static psr_placed placed[] = {{{PSR_ROLE_SHARD, 0}, A},
                              {{PSR_ROLE_WORKER, 0}, A},
                              {{PSR_ROLE_WORKER, 1}, A},
                              {{PSR_ROLE_WORKER, 2}, B}};
static const psr_placement placement = {{host_items, 2}, placed, 4, 2, 2};

static const psr_placement of_program = {{host_items, 2}, placed + 1, 3, 2, 2};

/* ---- the actions ---- */

static psr_err start_agent(void *context, size_t host, bool *ret_here)
{
    played *p = context;
    psr_text_add(&p->end, "start agent %s\n", host_items[host].name);
    *ret_here = host == A;
    return p->failure == PSR_OK ? PSR_OK : psr_fail(p->failure, "no ssh");
}

static void drop_agent(void *context, size_t host)
{
    psr_text_add(&((played *)context)->end, "drop agent %s\n", host_items[host].name);
}

static psr_err ask_to_listen(void *context, size_t host, const char *interface)
{
    played *p = context;
    psr_text_add(&p->end, "agent %s: listen on %s\n", host_items[host].name, interface);
    return p->failure == PSR_OK ? PSR_OK : psr_fail(p->failure, "no token");
}

static void measure_link(void *context, size_t host, size_t next, const char *address,
                         uint16_t port)
{
    psr_text_add(&((played *)context)->end, "agent %s: send to %s at %s:%u\n",
                 host_items[host].name, host_items[next].name, address, (unsigned)port);
}

static void take_links(void *context, const psr_order *slowest)
{
    psr_text_add(&((played *)context)->end, "slowest %" PRIu64 " from %s to %s\n",
                 slowest->bits_per_s, slowest->host, slowest->to);
}

static psr_err start_scheduler(void *context, uint32_t threads, const char *interface)
{
    played *p = context;
    psr_text_add(&p->end, "start scheduler threads=%" PRIu32 " interface=%s\n", threads, interface);
    return p->failure == PSR_OK ? PSR_OK : psr_fail(p->failure, "no scheduler");
}

static psr_err spawn(void *context, size_t item, const char *interface, const char *endpoint,
                     const char *cpus)
{
    played *p = context;
    psr_text_add(&p->end, "spawn %s %" PRIu32 " interface=%s endpoint=%s%s%s\n",
                 psr_role_name(placed[item].peer.role), placed[item].peer.rank, interface, endpoint,
                 cpus != NULL ? " cpus=" : "", cpus != NULL ? cpus : "");
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

static void kill_agent(void *context, size_t host)
{
    psr_text_add(&((played *)context)->end, "kill agent ");
    psr_text_add(&((played *)context)->end, host == A ? "a\n" : "b\n");
}

static void kill_scheduler(void *context)
{
    psr_text_add(&((played *)context)->end, "kill scheduler\n");
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

static void show_output(void *context, uint32_t rank, bool to_stderr, const char *line)
{
    psr_text_add(&((played *)context)->end, "rank %" PRIu32 " on std%s: %s\n", rank,
                 to_stderr ? "err" : "out", line);
}

static void show_connecting(void *context, size_t there, size_t troubles, size_t hosts)
{
    psr_text_add(&((played *)context)->end, "connecting %zu and %zu of %zu\n", there, troubles,
                 hosts);
}

static void show_directory(void *context, const psr_run_directory *directory)
{
    psr_text_add(&((played *)context)->end, "directory %s%s%s\n", directory->out,
                 directory->resumed[0] != '\0' ? " from " : "", directory->resumed);
}

static void show_progress(void *context, const psr_run_progress *progress)
{
    psr_text_add(&((played *)context)->end, "progress %" PRIu64 " of %" PRIu64 "\n", progress->step,
                 progress->total);
}

static void show_evaluating(void *context, const psr_run_evaluating *evaluating)
{
    psr_text_add(&((played *)context)->end, "evaluating %" PRIu64 " of %" PRIu64 "\n",
                 evaluating->counted, evaluating->samples);
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

void forget(played *p)
{
    p->done[0] = '\0';
    p->end = (psr_text_end){p->done, sizeof p->done};
}

void expect_done(played *p, const char *text)
{
    assert_string_equal(p->done, text);
    forget(p);
}

static void open_to_run(played *p, bool runs_program, psr_bare bare, const char *interface,
                        psr_bind_to bind_to, bool measures_links)
{
    *p = (played){0};
    forget(p);
    psr_config_defaults(&p->config);
    p->config.deadline_s = DEADLINE_MS / 1000.0;
    p->config.bare = bare;
    const psr_launch_machine_options options = {.placement =
                                                    runs_program ? &of_program : &placement,
                                                .config = &p->config,
                                                .runs_program = runs_program,
                                                .measures_links = measures_links,
                                                .bind_to = bind_to,
                                                .report_bindings = bind_to != PSR_BIND_TO_NONE,
                                                .interface = interface,
                                                .host = "a",
                                                .machine = "m1"};
    const psr_launch_actions actions = {
        .context = p,
        .start_agent = start_agent,
        .drop_agent = drop_agent,
        .ask_to_listen = ask_to_listen,
        .measure_link = measure_link,
        .take_links = take_links,
        .start_scheduler = start_scheduler,
        .spawn = spawn,
        .order = order,
        .command = command,
        .kill_agent = kill_agent,
        .kill_scheduler = kill_scheduler,
        .stop = stop,
        .show_line = show_line,
        .show_error = show_error,
        .show_others_error = show_others_error,
        .show_output = show_output,
        .show_connecting = show_connecting,
        .show_directory = show_directory,
        .show_progress = show_progress,
        .show_evaluating = show_evaluating,
        .show_evaluated = show_evaluated,
        .end_bar = end_bar,
        .draw_bar_again = draw_bar_again,
        .show_resumable = show_resumable,
        .show_outcome = show_outcome,
    };
    expect_ok(psr_launch_machine_new(&options, &actions, BEGAN_MS, &p->machine));
}

void open_machine(played *p, psr_bare bare, const char *interface)
{
    open_to_run(p, false, bare, interface, PSR_BIND_TO_NONE, false);
}

static void start_agents(played *p)
{
    psr_launch_machine_tick(p->machine, true, BEGAN_MS);
    expect_done(p, "start agent a\nstart agent b\nagent a: alive\nagent b: alive\n");
}

void begin_with(played *p, psr_bare bare, const char *interface)
{
    open_machine(p, bare, interface);
    start_agents(p);
}

void begin_bound(played *p, psr_bind_to bind_to)
{
    open_to_run(p, false, PSR_BARE_NOWHERE, NULL, bind_to, false);
    start_agents(p);
}

void begin_measuring(played *p, const char *interface)
{
    open_to_run(p, false, PSR_BARE_NOWHERE, interface, PSR_BIND_TO_NONE, true);
    start_agents(p);
}

void begin(played *p)
{
    begin_with(p, PSR_BARE_NOWHERE, NULL);
}

void agent_says(played *p, size_t host, const char *line, int64_t at_ms)
{
    psr_launch_machine_agent_said(p->machine, host, line, BEGAN_MS + at_ms);
}

void scheduler_says(played *p, const char *line, int64_t at_ms)
{
    psr_launch_machine_scheduler_said(p->machine, line, BEGAN_MS + at_ms);
}

void tick(played *p, int64_t at_ms)
{
    psr_launch_machine_tick(p->machine, true, BEGAN_MS + at_ms);
}

int64_t wait_ms(played *p, int64_t at_ms)
{
    return psr_launch_machine_wait_ms(p->machine, BEGAN_MS + at_ms);
}

static void spawn_all(played *p)
{
    agent_says(p, A, HELLO_A, 0);
    agent_says(p, B, HELLO_B, 0);
    scheduler_says(p, LISTENING, 0);
    forget(p);
}

void begin_run(played *p)
{
    begin(p);
    spawn_all(p);
}

void begin_program(played *p)
{
    open_to_run(p, true, PSR_BARE_NOWHERE, NULL, PSR_BIND_TO_NONE, false);
    start_agents(p);
    spawn_all(p);
}

void close_all(played *p, int64_t at_ms)
{
    psr_launch_machine_scheduler_ended(p->machine);
    psr_launch_machine_scheduler_closed(p->machine, 0, BEGAN_MS + at_ms);
    for (size_t host = A; host <= B; host++) {
        assert_false(psr_launch_machine_is_over(p->machine));
        psr_launch_machine_agent_ended(p->machine, host);
        psr_launch_machine_agent_closed(p->machine, host, 0, BEGAN_MS + at_ms);
    }
}

void expect_end(played *p, int status, const char *told)
{
    forget(p);
    psr_launch_machine_conclude(p->machine);
    expect_done(p, told);
    assert_int_equal(psr_launch_machine_status(p->machine), status);
    psr_launch_machine_free(p->machine);
}
