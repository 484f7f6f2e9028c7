/* A rank of `psring run` that breaks the protocol: joins the communicator, or would, and then does
 * what WHAT says.
 *
 *     bad_rank WHAT
 *
 * Its place is in its environment, as any rank's is. It ends with status 1 when it is told that all
 * has failed; it may be ended before. Without WHAT lists what it can do. */
#include "comm/members/member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY 0xFFFFFFF0u

typedef struct bad {
    psr_provision provision;
    psr_transport *transport;
    psr_member *member;
    const psr_msg_progress *reports; /* NULL: what nobody objects to */
} bad;

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

/* ---- who would join ---- */

static psr_err say_join(bad *b, const char *text)
{
    PSR_TRY(psr_transport_connect(b->transport, scheduler, b->provision.scheduler,
                                  psr_keys_of(&b->provision.keys, scheduler)));
    const psr_payload payload = {.data = text, .bytes = strlen(text)};
    return psr_transport_send(b->transport, scheduler, &(psr_head){.type = PSR_MSG_JOIN}, &payload);
}

static psr_err torn_join(bad *b)
{
    return say_join(b, "{\"version\": \"");
}

static psr_err join_from_nowhere(bad *b)
{
    return say_join(b, "{\"version\": \"" PSR_VERSION "\", \"host\": 7}");
}

static psr_err join_at_no_endpoint(bad *b)
{
    return say_join(b, "{\"version\": \"" PSR_VERSION
                       "\", \"host\": \"here\", \"endpoint\": \"pigeon://loft\", \"pid\": 1}");
}

/* ---- who has joined ---- */

/* None, as the others. */
static psr_err give_facts(void *context, const psr_place *place, psr_bytes given, void **ret_facts,
                          size_t *ret_facts_size)
{
    (void)context, (void)place, (void)given;
    (void)ret_facts, (void)ret_facts_size;
    return PSR_OK;
}

static void report(void *context, psr_msg_progress *progress)
{
    const bad *b = context;
    if (b->member != NULL && b->reports != NULL)
        *progress = *b->reports;
}

static psr_err tell(bad *b, psr_head head, const void *payload, size_t bytes)
{
    const psr_member_options options = {.transport = b->transport,
                                        .provision = &b->provision,
                                        .context = b,
                                        .configured = give_facts,
                                        .report = report};
    PSR_TRY(psr_member_join(&options, &b->member));
    return psr_member_tell(b->member, &head, payload, bytes);
}

static psr_err shrink_to(bad *b, const uint32_t *ranks, uint32_t count)
{
    uint8_t bytes[16];
    psr_msg_rank_list_write(ranks, count, bytes);
    return tell(b, psr_msg_shrink_head(&(psr_msg_shrink){.within_ms = 600000}), bytes, 4 * count);
}

/* While the others wait for it. */
static psr_err wait_for_nobody(bad *b)
{
    static const psr_msg_progress lie = {
        .phase = PSR_PHASE_PUSH, .waits = true, .waits_for = {PSR_ROLE_WORKER, NOBODY}};
    b->reports = &lie;
    return shrink_to(b, (const uint32_t[]){0, 1}, 2);
}

static psr_err shrink_with_nobody(bad *b)
{
    return shrink_to(b, (const uint32_t[]){1, NOBODY}, 2);
}

static psr_err find(bad *b, const psr_msg_failure *found)
{
    return tell(b, psr_msg_finding_head(found), "it says so", 10);
}

static psr_err blame_nobody(bad *b)
{
    return find(
        b, &(psr_msg_failure){.status = PSR_ERR_MISMATCH, .rank = NOBODY, .other = PSR_RANK_ANY});
}

static psr_err blame_nobody_beside_another(bad *b)
{
    return find(b, &(psr_msg_failure){.status = PSR_ERR_MISMATCH, .rank = 0, .other = NOBODY});
}

static psr_err find_in_no_epoch(bad *b)
{
    return find(b,
                &(psr_msg_failure){.status = PSR_ERR_MISMATCH, .epoch = 77, .other = PSR_RANK_ANY});
}

static psr_err tell_metrics(bad *b)
{
    return tell(b, (psr_head){.type = PSR_MSG_METRICS}, "{", 1);
}

/* ---- the program ---- */

static const struct {
    const char *name;
    psr_err (*play)(bad *b);
} behaviours[] = {
    {"torn-join", torn_join},
    {"join-from-nowhere", join_from_nowhere},
    {"join-at-no-endpoint", join_at_no_endpoint},
    {"wait-for-nobody", wait_for_nobody},
    {"shrink-with-nobody", shrink_with_nobody},
    {"blame-nobody", blame_nobody},
    {"blame-nobody-beside-another", blame_nobody_beside_another},
    {"find-in-no-epoch", find_in_no_epoch},
    {"tell-metrics", tell_metrics},
};

/* Until it is told that all has failed. */
static psr_err await_end(bad *b)
{
    for (psr_err err = PSR_OK;;) {
        psr_message *message = NULL;
        err = b->member != NULL ? psr_member_recv(b->member, -1, &message)
                                : psr_transport_recv(b->transport, -1, &message);
        bool judged =
            err == PSR_OK && message->head.type == PSR_MSG_VERDICT && message->head.fields[0] > 0;
        psr_message_free(&message);
        if (err != PSR_OK || judged)
            return err;
    }
}

static psr_err live(bad *b, const char *what)
{
    const psr_peer self = {PSR_ROLE_WORKER, (uint32_t)atoi(getenv("PSRING_RANK"))};
    PSR_TRY(psr_provision_by_hand(self, getenv("PSRING_SCHEDULER"), getenv("PSRING_KEY_FILE"), NULL,
                                  &b->provision));
    const psr_zmq_options zmq = psr_provision_zmq(&b->provision);
    PSR_TRY(psr_transport_zmq_new(&zmq, &b->transport));
    for (size_t i = 0; i < sizeof behaviours / sizeof behaviours[0]; i++)
        if (strcmp(behaviours[i].name, what) == 0)
            PSR_TRY(behaviours[i].play(b));
    return await_end(b);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof behaviours / sizeof behaviours[0] && argc == 1; i++)
        printf("%s\n", behaviours[i].name);
    if (argc != 2)
        return argc == 1 ? 0 : 2;
    bad b = {0};
    psr_err err = live(&b, argv[1]);
    if (err != PSR_OK)
        fprintf(stderr, "bad_rank: %s\n", psr_err_detail());
    psr_member_free(b.member);
    psr_transport_free(&b.transport, 0);
    psr_provision_done(&b.provision);
    return 1;
}
