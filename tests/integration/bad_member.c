/* A member of a run that has its keys and breaks the protocol: joins as a worker and then does what
 * WHAT says.
 *
 *     bad_member SCHEDULER KEY-FILE RANK FACTS WHAT
 *
 * FACTS: JSON, what an honest worker would have found (run.json has it). Prints "WHAT: done" when
 * it has misbehaved, then what it is told, and ends with status 0 when the run's end was told to
 * it, or at the end of its standard input. Without WHAT lists what it can do, but for its floods,
 * which test_unread.py plays. */
#include "bad_member.h"

#include "comm/collectives/call.h"
#include "net/trust/admission.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#define SLICE ((size_t)128 << 10) /* floats of a slice by default */

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

/* ---- with the transport, but without the member ---- */

psr_err bad_open(bad *b)
{
    if (b->transport != NULL)
        return PSR_OK;
    const psr_zmq_options zmq = {
        .self = b->provision.self, .directory = b->provision.directory, .keys = &b->provision.keys};
    return psr_transport_zmq_new(&zmq, &b->transport);
}

static psr_err tell_scheduler(bad *b, psr_message_type type, const char *text)
{
    PSR_TRY(bad_open(b));
    PSR_TRY(psr_transport_connect(b->transport, scheduler, b->provision.scheduler, NULL));
    const psr_payload payload = {.data = text, .bytes = strlen(text)};
    return psr_transport_send(b->transport, scheduler, &(psr_head){.type = type}, &payload);
}

static psr_err other_version(bad *b)
{
    psr_join join = {
        .version = "99.0", .host = "elsewhere", .endpoint = "tcp://127.0.0.1:1", .pid = 1};
    char *json = NULL;
    PSR_TRY(psr_join_to_json(&join, &json));
    psr_err err = tell_scheduler(b, PSR_MSG_JOIN, json);
    free(json);
    return err;
}

static psr_err torn_join(bad *b)
{
    return tell_scheduler(b, PSR_MSG_JOIN, "{\"version\": \"");
}

static psr_err join_from_nowhere(bad *b)
{
    return tell_scheduler(b, PSR_MSG_JOIN, "{\"version\": \"" PSR_VERSION "\", \"host\": 7}");
}

/* ---- with ZeroMQ alone ---- */

psr_err bad_connect(bad *b, psr_peer peer, const char *endpoint)
{
    b->ctx = zmq_ctx_new();
    b->dealer = zmq_socket(b->ctx, ZMQ_DEALER);
    static const char id[16] = BAD_ID; /* a channel's name has so many bytes */
    if (zmq_setsockopt(b->dealer, ZMQ_ROUTING_ID, id, sizeof id) != 0)
        return psr_fail(PSR_ERR_IO, "ZMQ_ROUTING_ID: %s", zmq_strerror(zmq_errno()));
    PSR_TRY(psr_admission_apply(&b->provision.keys, b->provision.self, b->dealer,
                                psr_keys_of(&b->provision.keys, peer)));
    if (zmq_connect(b->dealer, endpoint) != 0)
        return psr_fail(PSR_ERR_IO, "%s: %s", endpoint, zmq_strerror(zmq_errno()));
    return PSR_OK;
}

static psr_err connect_dealer(bad *b)
{
    return bad_connect(b, scheduler, b->provision.scheduler);
}

static psr_err send_bytes(bad *b, const void *bytes, size_t size, bool more)
{
    if (zmq_send(b->dealer, bytes, size, more ? ZMQ_SNDMORE : 0) != (int)size)
        return psr_fail(PSR_ERR_IO, "sending: %s", zmq_strerror(zmq_errno()));
    return PSR_OK;
}

static psr_err send_head(bad *b, const psr_head *head, size_t payload_bytes)
{
    uint8_t bytes[PSR_HEAD_BYTES_MAX];
    size_t size;
    psr_head_encode(head, payload_bytes, bytes, &size);
    return send_bytes(b, bytes, size, false);
}

psr_err bad_send(bad *b, psr_head head, size_t announced, const void *bytes, size_t size)
{
    uint8_t encoded[PSR_HEAD_BYTES_MAX];
    size_t encoded_size;
    head.sequence = b->sequence++;
    psr_head_encode(&head, announced, encoded, &encoded_size);
    PSR_TRY(send_bytes(b, encoded, encoded_size, bytes != NULL));
    return bytes != NULL ? send_bytes(b, bytes, size, false) : PSR_OK;
}

static psr_err say_hello(bad *b, uint32_t rank)
{
    psr_head hello = psr_msg_hello_head((psr_peer){PSR_ROLE_WORKER, rank});
    PSR_TRY(connect_dealer(b));
    return send_head(b, &hello, 0);
}

static psr_err other_wire_version(bad *b)
{
    uint8_t bytes[PSR_HEAD_BYTES_MAX];
    size_t size;
    PSR_TRY(say_hello(b, b->provision.self.rank));
    psr_head_encode(&(psr_head){.type = PSR_MSG_JOIN, .sequence = 1}, 0, bytes, &size);
    bytes[5]++; /* the version, behind four letters */
    return send_bytes(b, bytes, size, false);
}

static psr_err garbage(bad *b)
{
    PSR_TRY(say_hello(b, b->provision.self.rank));
    return send_bytes(b, "what is this, and who are you to ask me for a preamble?", 55, false);
}

/* A PROGRESS that would be right. */
static psr_err send_progress(bad *b)
{
    psr_head head = psr_msg_progress_head(&(psr_msg_progress){.phase = PSR_PHASE_START});
    return send_head(b, &head, 0);
}

static psr_err no_hello(bad *b)
{
    PSR_TRY(connect_dealer(b));
    return send_progress(b);
}

static psr_err another_rank(bad *b)
{
    return say_hello(b, b->provision.self.rank + 1);
}

/* From the first byte of the handshake on it is its neighbour, whose token it does not have: it
 * shows its own. */
static psr_err another_name(bad *b)
{
    b->provision.self.rank = b->provision.self.rank > 0 ? b->provision.self.rank - 1 : 1;
    return say_hello(b, b->provision.self.rank);
}

static psr_err payload_that_does_not_come(bad *b)
{
    PSR_TRY(say_hello(b, b->provision.self.rank));
    return send_head(b, &(psr_head){.type = PSR_MSG_JOIN, .sequence = 1}, 1000);
}

static psr_err same_message_twice(bad *b)
{
    PSR_TRY(say_hello(b, b->provision.self.rank));
    return send_progress(b); /* HELLO had the number 0 too */
}

/* ---- as a member that was welcomed ---- */

static psr_err give_facts(void *context, const psr_place *place, psr_bytes given, void **ret_facts,
                          size_t *ret_facts_size)
{
    const bad *b = context;
    (void)place, (void)given;
    *ret_facts = strdup(b->facts);
    *ret_facts_size = strlen(b->facts);
    return *ret_facts != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for facts");
}

psr_err bad_join(bad *b)
{
    PSR_TRY(bad_open(b));
    const psr_member_options options = {.transport = b->transport,
                                        .provision = &b->provision,
                                        .shares_memory = true,
                                        .context = b,
                                        .configured = give_facts};
    return psr_member_join(&options, &b->member);
}

static psr_err tell(bad *b, psr_head head, const char *text)
{
    PSR_TRY(bad_join(b));
    return psr_member_tell(b->member, &head, text, strlen(text));
}

static psr_err facts_twice(bad *b)
{
    return tell(b, (psr_head){.type = PSR_MSG_FACTS}, b->facts);
}

static psr_err no_phase(bad *b)
{
    return tell(b, psr_msg_progress_head(&(psr_msg_progress){.phase = (psr_phase)99}), "");
}

static psr_err metrics_before_start(bad *b)
{
    return tell(b, (psr_head){.type = PSR_MSG_METRICS}, "{}");
}

/* The head of one float of the weights. */
static psr_head one_float(uint64_t steps, size_t offset)
{
    psr_head head =
        psr_msg_checkpoint_head(&(psr_msg_piece){steps, PSR_SECTION_WEIGHTS, {offset, 1}});
    head.encoding = PSR_ENCODING_FLOAT32;
    return head;
}

static psr_err checkpoint_before_start(bad *b)
{
    return tell(b, one_float(0, 0), "1234");
}

static psr_err join_twice(bad *b)
{
    return tell(b, (psr_head){.type = PSR_MSG_WELCOME}, "{}");
}

static psr_err send_to(bad *b, psr_peer peer, psr_head head, size_t payload_bytes)
{
    static const float zeros[SLICE];
    PSR_TRY(bad_join(b));
    if (peer.role == PSR_ROLE_WORKER || peer.role == PSR_ROLE_SHARD)
        PSR_TRY(psr_member_connect(b->member, peer));
    const psr_payload payload = {.data = zeros, .bytes = payload_bytes};
    if (payload_bytes > 0 && head.type != PSR_MSG_VALUES)
        head.encoding = PSR_ENCODING_FLOAT32;
    return psr_transport_send(b->transport, peer, &head, payload_bytes > 0 ? &payload : NULL);
}

/* ---- as a member of a run that is on ---- */

psr_err bad_start(bad *b)
{
    if (b->member == NULL)
        PSR_TRY(bad_join(b));
    PSR_TRY(psr_member_tell(b->member, &(psr_head){.type = PSR_MSG_READY}, NULL, 0));
    for (psr_message_type type = 0; type != PSR_MSG_START;) {
        psr_message *message = NULL;
        PSR_TRY(psr_member_recv(b->member, -1, &message));
        type = message->head.type;
        psr_message_free(&message);
    }
    return PSR_OK;
}

static psr_err tell_metrics(bad *b, const char *line)
{
    PSR_TRY(bad_start(b));
    return psr_member_tell(b->member, &(psr_head){.type = PSR_MSG_METRICS}, line, strlen(line));
}

static psr_err metrics_of_another_rank(bad *b)
{
    return tell_metrics(b, "{\"step\": 1, \"rank\": 1}");
}

static psr_err metrics_of_a_later_step(bad *b)
{
    return tell_metrics(b, "{\"step\": 2, \"rank\": 0}");
}

static psr_err metrics_twice(bad *b)
{
    static const char line[] = "{\"step\": 1, \"rank\": 0}";
    PSR_TRY(tell_metrics(b, line));
    return psr_member_tell(b->member, &(psr_head){.type = PSR_MSG_METRICS}, line, sizeof line - 1);
}

static psr_err metrics_with_a_terminal_command(bad *b)
{
    return tell_metrics(b, "{\"step\": 1, \"rank\": 0, \"\x1b[2J\": 1}");
}

static psr_err metrics_of_many_bytes(bad *b)
{
    size_t size = 1000000; /* no frame is larger than a MiB */
    char *line = malloc(size + 1);
    if (line == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a long line");
    memset(line, ' ', size);
    memcpy(line, "{\"step\": 1, \"rank\": 0", 21);
    memcpy(line + size - 1, "}", 2);
    psr_err err = tell_metrics(b, line);
    free(line);
    return err;
}

/* The first piece of so many checkpoints, one every so many steps. */
static psr_err begin_checkpoints(bad *b, uint64_t first, uint64_t every, int count)
{
    PSR_TRY(bad_start(b));
    for (int i = 0; i < count; i++) {
        uint64_t steps = first + (uint64_t)i * every;
        const psr_head head = one_float(steps, 0);
        PSR_TRY(psr_member_tell(b->member, &head, "1234", 4));
    }
    return PSR_OK;
}

static psr_err checkpoints_of_invented_steps(bad *b)
{
    return begin_checkpoints(b, 1000, 1, 40);
}

static psr_err checkpoint_that_is_not_due(bad *b)
{
    return begin_checkpoints(b, 4, 1, 1);
}

static psr_err two_checkpoints_at_once(bad *b)
{
    return begin_checkpoints(b, 2, 2, 2);
}

/* Not many more than are taken, since it does not hear of the run's end while it sends. */
static psr_err checkpoint_in_crumbs(bad *b)
{
    PSR_TRY(bad_start(b));
    for (uint64_t i = 0; i < 1500; i++) {
        const psr_head head = one_float(2, 2 * i);
        PSR_TRY(psr_member_tell(b->member, &head, "1234", 4));
    }
    return PSR_OK;
}

static psr_err done_after_more_steps_than_there_are(bad *b)
{
    PSR_TRY(bad_start(b));
    psr_head head = psr_msg_done_head(&(psr_msg_done){.steps = 1000000});
    return psr_member_tell(b->member, &head, NULL, 0);
}

/* ---- to others ---- */

static const psr_peer shard = {PSR_ROLE_SHARD, 0}, worker = {PSR_ROLE_WORKER, 0};

static psr_err push_no_bucket(bad *b)
{
    return send_to(
        b, shard,
        psr_msg_push_head(&(psr_msg_push){.bucket = 4000000000u, .span = {0, 16}, .answer = true}),
        64);
}

static psr_err push_no_slice(bad *b)
{
    return send_to(b, shard,
                   psr_msg_push_head(&(psr_msg_push){.span = {SIZE_MAX - 8, 16}, .answer = true}),
                   64);
}

static psr_err set_the_weights(bad *b)
{
    return send_to(b, shard, psr_msg_init_head(&(psr_msg_init){.span = {0, SLICE}}),
                   SLICE * sizeof(float));
}

static psr_err ring_to_a_shard(bad *b)
{
    return send_to(b, shard, psr_msg_ring_head(&(psr_msg_ring){.span = {0, 16}}), 64);
}

static psr_err push_to_a_worker(bad *b)
{
    return send_to(b, worker, psr_msg_push_head(&(psr_msg_push){.span = {0, 16}}), 64);
}

static psr_err push_no_slice_to_a_worker(bad *b)
{
    return send_to(b, worker,
                   psr_msg_push_head(&(psr_msg_push){.span = {SIZE_MAX - 8, 16}, .answer = true}),
                   64);
}

/* Worker 0 holds the first bucket. */
static psr_err weights_of_anothers_bucket(bad *b)
{
    return send_to(b, worker, psr_msg_weights_head(&(psr_msg_weights){.span = {0, 16}}), 64);
}

static psr_err ring_no_hop(bad *b)
{
    return send_to(
        b, worker,
        psr_msg_ring_head(&(psr_msg_ring){.span = {0, 16}, .chunk = UINT32_MAX, .hop = UINT32_MAX}),
        64);
}

/* What all workers begin with is the broadcast of the first weights. */
static psr_err another_call(bad *b)
{
    const psr_call call = {.kind = PSR_KIND_ALL_REDUCE,
                           .algorithm = PSR_ALGORITHM_ROOT,
                           .type = PSR_TYPE_FLOAT64,
                           .count = 8};
    const psr_msg_values says = {.tag = {.round = 1}, .call = psr_call_message(&call), .total = 8};
    return send_to(b, worker, psr_msg_values_head(&says), 64);
}

static psr_err values_of_another_group(bad *b)
{
    return send_to(b, worker,
                   psr_msg_values_head(&(psr_msg_values){.tag = {.group = 7}, .total = 8}), 64);
}

static psr_err values_of_no_bucket(bad *b)
{
    const psr_tag tag = {.group = PSR_GROUP_OF_BUCKETS, .slot = UINT32_MAX};
    return send_to(b, worker, psr_msg_values_head(&(psr_msg_values){.tag = tag, .total = 8}), 64);
}

static psr_err credit_for_nothing(bad *b)
{
    return send_to(b, worker,
                   psr_msg_credit_head(&(psr_msg_credit){.tag = {.round = 9}, .slices = 1000}), 0);
}

static psr_err stop_the_run(bad *b)
{
    return send_to(b, worker, psr_msg_stop_at_head(0), 0);
}

/* ---- the program ---- */

static const behaviour behaviours[] = {
    {"other-version", other_version},
    {"torn-join", torn_join},
    {"join-from-nowhere", join_from_nowhere},
    {"other-wire-version", other_wire_version},
    {"garbage", garbage},
    {"no-hello", no_hello},
    {"another-rank", another_rank},
    {"another-name", another_name},
    {"payload-that-does-not-come", payload_that_does_not_come},
    {"same-message-twice", same_message_twice},
    {"facts-twice", facts_twice},
    {"no-phase", no_phase},
    {"metrics-before-start", metrics_before_start},
    {"checkpoint-before-start", checkpoint_before_start},
    {"welcomes-the-scheduler", join_twice},
    {"push-no-bucket", push_no_bucket},
    {"push-no-slice", push_no_slice},
    {"set-the-weights", set_the_weights},
    {"ring-to-a-shard", ring_to_a_shard},
    {"push-to-a-worker", push_to_a_worker},
    {"push-no-slice-to-a-worker", push_no_slice_to_a_worker},
    {"weights-of-anothers-bucket", weights_of_anothers_bucket},
    {"ring-no-hop", ring_no_hop},
    {"another-call", another_call},
    {"values-of-another-group", values_of_another_group},
    {"values-of-no-bucket", values_of_no_bucket},
    {"credit-for-nothing", credit_for_nothing},
    {"stop-the-run", stop_the_run},
    {"metrics-of-another-rank", metrics_of_another_rank},
    {"metrics-of-a-later-step", metrics_of_a_later_step},
    {"metrics-twice", metrics_twice},
    {"metrics-with-a-terminal-command", metrics_with_a_terminal_command},
    {"metrics-of-many-bytes", metrics_of_many_bytes},
    {"checkpoints-of-invented-steps", checkpoints_of_invented_steps},
    {"checkpoint-that-is-not-due", checkpoint_that_is_not_due},
    {"two-checkpoints-at-once", two_checkpoints_at_once},
    {"checkpoint-in-crumbs", checkpoint_in_crumbs},
    {"done-after-more-steps-than-there-are", done_after_more_steps_than_there_are},
};

#define BEHAVIOUR_COUNT (sizeof behaviours / sizeof *behaviours)

/* Until it is told how the run ends, or nobody wants to know any more. */
static psr_err await_end(bad *b)
{
    if (!b->member) {
        char byte;
        while (read(STDIN_FILENO, &byte, 1) > 0)
            continue;
        return PSR_OK;
    }
    for (;;) {
        psr_message *message = NULL;
        psr_err err = psr_member_recv(b->member, -1, &message);
        psr_message_free(&message);
        if (err == PSR_OK)
            continue;
        printf("%s\n", psr_err_detail());
        return strstr(psr_err_detail(), "the run ends: ") != NULL ? PSR_OK : err;
    }
}

static const behaviour *find(const char *name, const behaviour *among, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, among[i].name) == 0)
            return &among[i];
    return NULL;
}

static psr_err run(bad *b, char **argv)
{
    psr_peer self = {PSR_ROLE_WORKER, (uint32_t)atoi(argv[3])};
    PSR_TRY(psr_provision_by_hand(self, argv[1], argv[2], NULL, &b->provision));
    b->facts = argv[4];
    const behaviour *does = find(argv[5], behaviours, BEHAVIOUR_COUNT);
    if (does == NULL)
        does = find(argv[5], bad_memory_behaviours, bad_memory_behaviour_count);
    if (does == NULL)
        does = find(argv[5], bad_flood_behaviours, bad_flood_behaviour_count);
    if (does == NULL)
        return psr_fail(PSR_ERR_USAGE, "it does not know how to do %s", argv[5]);
    PSR_TRY(does->play(b));
    printf("%s: done\n", argv[5]);
    fflush(stdout);
    return await_end(b);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        for (size_t i = 0; i < BEHAVIOUR_COUNT; i++)
            printf("%s\n", behaviours[i].name);
        for (size_t i = 0; i < bad_memory_behaviour_count; i++)
            printf("%s\n", bad_memory_behaviours[i].name);
        return argc == 1 ? 0 : 2;
    }
    bad b = {0};
    psr_err err = run(&b, argv);
    if (err != PSR_OK)
        fprintf(stderr, "bad_member: %s\n", psr_err_detail());
    psr_member_free(b.member);
    psr_transport_free(&b.transport, 0);
    if (b.dealer != NULL) {
        zmq_setsockopt(b.dealer, ZMQ_LINGER, &(int){0}, sizeof(int));
        zmq_close(b.dealer);
        zmq_ctx_term(b.ctx);
    }
    psr_provision_done(&b.provision);
    return err == PSR_OK ? 0 : 1;
}
