/* psring-ps: one shard of a run. Started by psring's agent (--provision -), or by hand
 * (--scheduler, --key-file). */
#include "base/clock.h"
#include "base/config/config.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/system/memory.h"
#include "comm/loop.h"
#include "comm/members/join.h"
#include "comm/members/member.h"
#include "comm/members/provision.h"
#include "comm/members/memory/shared_memory.h"
#include "comm/view/plan.h"
#include "comm/view/view.h"
#include "comm/wire/messages.h"
#include "ps/input_thread.h"
#include "ps/shard/arguments.h"
#include "ps/shard/shard_run.h"
#include "ps/shard_start.h"
#include "ps/tables/serve.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* time at the end for the last messages to leave, because their receiver may be gone */
#define LINGER_MS 300

typedef struct program {
    psr_provision provision;
    psr_transport *transport;
    psr_input_thread *input;
    psr_member *member;
    psr_config config;     /* the run's configuration, when it has come */
    psr_shard_start start; /* set when all have agreed */
    psr_loop *loop;
    /* holds the weights, if they are sent from there, and the pieces of a checkpoint */
    psr_shared_memory memory;
    psr_blocks *pieces; /* of a checkpoint */
    psr_shard_run *shard;
    psr_tracer *tracer; /* --trace; NULL: without */
    bool configured;    /* CONFIG has come */
    bool by_hand;       /* standard input is not used */
    bool counted;       /* its traffic is in its log */
    bool orphaned;      /* its agent has gone */
} program;

static void log_stranger(void *context, const char *line)
{
    (void)context;
    psr_log_of(PSR_LOG_OF_STRANGER, PSR_LOG_WARN, "%s", line);
}

static void wake(void *context)
{
    program *p = context;
    psr_transport_wake(p->transport);
}

/* Handles what the input thread saw: the agent died, or a signal to end came. */
static psr_err check_input(void *context)
{
    program *p = context;
    char *line = NULL;
    for (;;) {
        switch (psr_input_thread_next(p->input, &line)) {
        case PSR_INPUT_NOTHING:
            return PSR_OK;
        case PSR_INPUT_END:
            p->orphaned = true;
            return psr_fail(PSR_ERR_PEER, "the agent that started this shard is gone");
        case PSR_INPUT_INTERRUPT:
            return psr_fail(PSR_ERR_CANCELLED, "told to end by a signal");
        case PSR_INPUT_LINE:
            free(line); /* an agent sends nothing after the provision */
            break;
        }
    }
}

static void report(void *context, psr_msg_progress *progress)
{
    const program *p = context;
    if (p->shard != NULL)
        psr_shard_run_report(p->shard, progress);
}

/* ---- setting up ---- */

static void say_shared(bool warning, const char *line)
{
    psr_log(warning ? PSR_LOG_WARN : PSR_LOG_INFO, "%s", line);
}

/* Must be called before others can connect, which they do after WELCOME. What cannot be shared is
 * sent as messages. */
static void share_memory(program *p)
{
    if (psr_config_shares_memory(&p->config))
        psr_shared_memory_begin(&p->memory, p->transport, p->config.transport == PSR_TRANSPORT_SHM,
                                say_shared);
}

static psr_err emulate_link(program *p)
{
    const psr_config *config = &p->config;
    if (!psr_config_has_link(config))
        return PSR_OK;
    return psr_transport_emulate_link(
        p->transport, (uint64_t)((double)config->link_rate_bits_per_s / config->dilate),
        (double)config->link_delay_ns * 1e-9 * config->dilate);
}

/* A shard has no facts. */
static psr_err take_config(void *context, const psr_place *place, psr_bytes given, void **ret_facts,
                           size_t *ret_facts_size)
{
    program *p = context;
    (void)place, (void)ret_facts, (void)ret_facts_size;
    p->configured = true;
    psr_config_defaults(&p->config);
    psr_err err = psr_config_from_json(&p->config, given.data, given.size);
    if (err != PSR_OK)
        return psr_fail_context(err, "the scheduler's CONFIG");
    PSR_TRY(emulate_link(p));
    share_memory(p);
    return PSR_OK;
}

static psr_err join_once(program *p)
{
    psr_zmq_options zmq = psr_provision_zmq(&p->provision);
    zmq.watches_ways = true;
    zmq.misses_scheduler = true;
    zmq.log_stranger = log_stranger;
    PSR_TRY(psr_transport_zmq_new(&zmq, &p->transport));
    PSR_TRY(psr_input_thread_new(p->by_hand ? -1 : STDIN_FILENO, wake, p, &p->input));
    psr_member_options member = {.transport = p->transport,
                                 .provision = &p->provision,
                                 .shares_memory = true,
                                 .context = p,
                                 .configured = take_config,
                                 .report = report,
                                 .interrupted = check_input};
    return psr_member_join(&member, &p->member);
}

static psr_err join(program *p)
{
    const int64_t began_ms = psr_clock_ms();
    bool said = false;
    psr_err err = join_once(p);
    while (err != PSR_OK && !p->configured && !p->orphaned &&
           psr_member_joins_again(&p->provision, p->transport, err, began_ms, &said)) {
        psr_input_thread_free(p->input); /* it wakes the transport */
        p->input = NULL;
        psr_transport_free(&p->transport, 0);
        err = join_once(p);
    }
    return err;
}

/* Written to the shard's own log only in a start by hand. Otherwise the scheduler writes it into
 * this shard's log, since the run might end before the shard's line arrives. */
static void log_traffic(program *p)
{
    const psr_traffic *traffic = psr_shard_run_traffic(p->shard);
    if (traffic == NULL || !p->by_hand || p->counted)
        return;
    p->counted = true;
    psr_log(PSR_LOG_INFO, PSR_TRAFFIC_LINE, traffic->gradient_bytes, traffic->weight_bytes);
}

static psr_err take_message(void *context, psr_message **message)
{
    program *p = context;
    psr_peer from = (*message)->from;
    psr_err err = psr_shard_run_message(p->shard, message);
    if (err == PSR_ERR_PROTOCOL && from.role != PSR_ROLE_SCHEDULER)
        err = psr_fail_context(err, "%s broke the protocol", psr_member_name(p->member, from));
    if (err != PSR_OK)
        return err;
    log_traffic(p);
    if (psr_shard_run_left(p->shard))
        psr_loop_quit(p->loop);
    return PSR_OK;
}

/* A view's buckets cover its arena, from the end on. */
static psr_err check_plan(const psr_plan *plan, const psr_layout *layout)
{
    if (plan->bucket_count > 0 && psr_span_end(plan->buckets[0].span) == layout->length)
        return PSR_OK;
    return psr_fail(PSR_ERR_FORMAT, "the plan's buckets are not those of an arena of %zu floats",
                    layout->length);
}

static psr_err take_start(program *p)
{
    psr_err err = psr_shard_start_from_json(psr_member_agreed(p->member), &p->start);
    p->config.pace = p->start.pace;
    if (err == PSR_OK)
        err = check_plan(&psr_member_view(p->member)->plan, &p->start.layout);
    return err == PSR_OK ? PSR_OK : psr_fail_context(err, "the scheduler's WELCOME");
}

/* In BSP values are lent. Otherwise they are copied when they are sent, and the table has its own
 * (NULL). */
static float *make_weights(program *p)
{
    if (p->config.sync != PSR_SYNC_BSP)
        return NULL;
    float *weights = psr_shared_memory_arena(&p->memory, p->start.layout.length);
    psr_shared_memory_fill_held(&p->memory, weights, &psr_member_view(p->member)->plan,
                                psr_member_self(p->member));
    return weights;
}

static psr_err reach(void *context, psr_peer shard)
{
    return psr_member_connect(((program *)context)->member, shard);
}

static psr_err make_tracer(program *p)
{
    psr_traced_steps steps;
    PSR_TRY(psr_config_traced_steps(&p->config, p->start.first_step, p->start.total_steps, &steps));
    if (steps.count == 0)
        return PSR_OK;
    const psr_tracer_options room =
        psr_tracer_room(&psr_member_view(p->member)->plan, steps.first, steps.count, 0, 0);
    return psr_tracer_new(&room, &p->tracer);
}

/* What this shard has of a checkpoint goes to a scheduler of this host by reference. */
static psr_err share_pieces(program *p)
{
    psr_member_lend_to_scheduler(p->member);
    PSR_TRY(psr_blocks_new(PSR_PAYLOAD_BYTES_MAX, &p->pieces));
    psr_shared_memory_blocks(&p->memory, p->pieces, psr_shard_run_kept_pieces(p->shard),
                             !psr_duration_is_none(p->config.checkpoint_every));
    psr_shard_run_copy_to(p->shard, p->pieces);
    return PSR_OK;
}

static psr_err make_shard(program *p)
{
    const psr_view *view = psr_member_view(p->member);
    uint32_t rank = psr_member_self(p->member).rank;
    const psr_loop_options loop = {.transport = p->transport,
                                   .member = p->member,
                                   .context = p,
                                   .message = take_message,
                                   .woken = check_input};
    PSR_TRY(make_tracer(p));
    PSR_TRY(psr_loop_new(&loop, &p->loop));
    psr_shard_options shard = {
        .config = &p->config,
        .layout = &p->start.layout,
        .plan = &view->plan,
        .shard = rank,
        .total_steps = p->start.total_steps,
        .first_step = p->start.first_step,
        .skipped_steps = p->start.skipped_steps,
        .weights = make_weights(p),
        .outbox = psr_loop_outbox(p->loop),
        .peers = p,
        .reach = reach,
        .tracer = p->tracer,
    };
    PSR_TRY(psr_shard_run_new(&shard, &p->shard));
    PSR_TRY(share_pieces(p));
    psr_loop_observe(p->loop,
                     &(psr_observer){p->shard, psr_shard_run_see, .work = p->tracer != NULL});
    psr_transport_bound(p->transport, PSR_ROLE_WORKER, psr_shard_run_waiting_max(p->shard));
    for (uint32_t r = 0; r < psr_view_workers(view); r++)
        PSR_TRY(psr_member_connect(p->member, (psr_peer){PSR_ROLE_WORKER, r}));
    return PSR_OK;
}

static psr_err run(program *p)
{
    PSR_TRY(join(p));
    uint32_t rank = psr_member_self(p->member).rank;
    char name[32];
    snprintf(name, sizeof name, "shard %" PRIu32, rank);
    psr_log_init(name, PSR_LOG_INFO);
    psr_err err = psr_fault_point_set(p->config.fault_point, "shard", rank);
    if (err == PSR_OK)
        err = take_start(p);
    if (err == PSR_OK)
        err = make_shard(p);
    if (err == PSR_OK) {
        psr_log(PSR_LOG_INFO, "joined scheduler=%s", p->provision.scheduler);
        err = psr_shard_run_begin(p->shard);
    }
    if (err == PSR_OK)
        err = psr_loop_run(p->loop);
    /* If the agent has died, the launcher has seen that too, and names the agent with its host and
     * how it ended. */
    if (err != PSR_OK && !p->orphaned)
        psr_member_failed(p->member, err, psr_err_detail());
    return err;
}

/* The order of freeing: the input thread wakes the transport; the transport has borrowed weights of
 * the shard; the shard uses the member's view. */
static void clean_up(program *p)
{
    psr_input_thread_free(p->input);
    psr_transport_free(&p->transport, LINGER_MS);
    psr_loop_free(p->loop);
    psr_shard_run_free(p->shard);
    psr_tracer_free(p->tracer);
    psr_blocks_free(p->pieces);
    psr_shared_memory_done(&p->memory);
    psr_member_free(p->member);
    psr_shard_start_done(&p->start);
    psr_provision_done(&p->provision);
}

/* argp calls it for --version. */
static void print_version(FILE *to, struct argp_state *state)
{
    char library[32];
    (void)state;
    psr_transport_library(library, sizeof library);
    fprintf(to, "psring-ps %s (%s)\n", PSR_VERSION, library);
}

/* Asks for SIGKILL when the thread that started this process has ended. Who died before that is no
 * parent any more. 0: nobody. */
static psr_err end_with(int32_t parent)
{
    if (parent == 0)
        return PSR_OK;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return psr_fail(PSR_ERR_IO, "--parent: %s", strerror(errno));
    if (getppid() != parent)
        return psr_fail(PSR_ERR_USAGE, "--parent: process %" PRId32 " has not started this one",
                        parent);
    return PSR_OK;
}

/* psring-ps serve. Signals keep their default handling: the agent ends this process as it ends any
 * rank. */
static int serve_tables(int argc, char **argv)
{
    char line[1024] = "";
    psr_serve_arguments arguments;
    psr_serve_arguments_parse(argc, argv, &arguments);
    psr_log_init("shard of tables", PSR_LOG_INFO);
    psr_err err = end_with(arguments.parent);
    if (err == PSR_OK)
        err = psr_tables_serve(line, sizeof line);
    else
        snprintf(line, sizeof line, "%s", psr_err_detail());
    if (err != PSR_OK)
        psr_log(PSR_LOG_ERROR, "%s", line);
    return psr_err_exit_status(err);
}

int main(int argc, char **argv)
{
    argp_program_version_hook = print_version;
    psr_clock_stops_with_process();
    psr_memory_keep_pages();
    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        return serve_tables(argc - 1, argv + 1);
    psr_input_thread_block_signals();
    psr_log_init("shard", PSR_LOG_INFO);
    psr_shard_arguments a;
    psr_shard_arguments_parse(argc, argv, &a);

    program p = {.by_hand = !a.provisioned, .memory = PSR_SHARED_MEMORY_NONE};
    psr_peer self = {PSR_ROLE_SHARD, a.rank};
    psr_err err = a.provisioned
                      ? psr_provision_from_fd(STDIN_FILENO, &p.provision)
                      : psr_provision_by_hand(self, a.scheduler, a.keys, a.interface, &p.provision);
    if (err == PSR_OK)
        err = run(&p);
    if (err != PSR_OK)
        psr_log(PSR_LOG_ERROR, "%s", psr_err_detail());
    clean_up(&p);
    return psr_err_exit_status(err);
}
