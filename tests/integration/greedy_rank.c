/* A rank of `psring run` that asks its scheduler for more than it reads: joins as the others do,
 * and does what WHAT says if it is rank 1.
 *
 *     greedy_rank WHAT [PROGRAM WORD..]
 *
 * Rank 1 never receives. The others are PROGRAM, or read until they are told that it is out; they
 * end with status 1, as ranks do that are told of a failure. If GREEDY_GATE names a FIFO, rank 1
 * begins once somebody has it open. */
#include "comm/members/member.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    REPORTS = 500000,
    TIMES = 200000,
    RANK = 1,
};

static psr_err tell(psr_transport *transport, const psr_head *head, const void *data, size_t bytes,
                    uint64_t times)
{
    const psr_payload payload = {.data = data, .bytes = bytes};
    psr_transport_bound(transport, PSR_ROLE_SCHEDULER, SIZE_MAX);
    for (uint64_t i = 0; i < times; i++)
        PSR_TRY(psr_transport_send(transport, (psr_peer){PSR_ROLE_SCHEDULER, 0}, head,
                                   bytes > 0 ? &payload : NULL));
    return PSR_OK;
}

/* Each would be answered; the last one is a violation. */
static psr_err report_without_end(psr_transport *transport)
{
    psr_head head = psr_msg_progress_head(&(psr_msg_progress){.phase = PSR_PHASE_FORWARD});
    PSR_TRY(tell(transport, &head, NULL, 0, REPORTS));
    head = psr_msg_progress_head(&(psr_msg_progress){.phase = (psr_phase)99});
    return tell(transport, &head, NULL, 0, 1);
}

/* Of one group, which has failed from the first on: each is answered with its verdict. */
static psr_err find_without_end(psr_transport *transport)
{
    char line[400];
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    const psr_msg_failure found = {.group = 7,
                                   .status = PSR_ERR_PEER,
                                   .scope = PSR_SCOPE_GROUP,
                                   .rank = RANK,
                                   .other = PSR_RANK_ANY};
    psr_head head = psr_msg_finding_head(&found);
    return tell(transport, &head, line, strlen(line), TIMES);
}

/* Of itself alone: answered at once, each time. */
static psr_err shrink_without_end(psr_transport *transport)
{
    uint8_t list[sizeof(uint32_t)];
    const uint32_t rank = RANK;
    psr_msg_rank_list_write(&rank, 1, list);
    psr_head head = psr_msg_shrink_head(&(psr_msg_shrink){.within_ms = 1000});
    return tell(transport, &head, list, sizeof list, TIMES);
}

/* Rank 0 may begin any number of operations, none of which is read. */
static psr_err allow_without_end(psr_transport *transport)
{
    psr_head head = psr_msg_ahead_head(&(psr_msg_ahead){.operations = (uint64_t)1 << 40});
    return psr_transport_send(transport, (psr_peer){PSR_ROLE_WORKER, 0}, &head, NULL);
}

static psr_err read_all(psr_member *member)
{
    for (;;) {
        psr_message *message = NULL;
        PSR_TRY(psr_member_recv(member, -1, &message));
        const psr_msg_limits limits = {.workers = UINT32_MAX, .epoch = UINT32_MAX};
        psr_msg_failure says = {0};
        bool out = message->head.type == PSR_MSG_VERDICT &&
                   psr_msg_failure_read(message, &limits, &says) == PSR_OK &&
                   says.scope >= PSR_SCOPE_LOST;
        if (out)
            fprintf(stderr, "%.*s\n", (int)message->payload_bytes, (const char *)message->payload);
        psr_message_free(&message);
        if (out)
            return psr_fail(PSR_ERR_PEER, "rank %d is out", RANK);
    }
}

static psr_err play(psr_transport *transport, psr_member *member, const char *what)
{
    static const struct {
        const char *name;
        psr_err (*play)(psr_transport *transport);
    } all[] = {{"report-without-end", report_without_end},
               {"find-without-end", find_without_end},
               {"shrink-without-end", shrink_without_end},
               {"allow-without-end", allow_without_end}};
    if (psr_member_self(member).rank != RANK)
        return read_all(member);
    const char *gate = getenv("GREEDY_GATE");
    const int opened = gate != NULL ? open(gate, O_RDONLY) : -1;
    if (opened >= 0)
        close(opened);
    PSR_TRY(psr_member_connect(member, (psr_peer){PSR_ROLE_WORKER, 0}));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(what, all[i].name) == 0) {
            PSR_TRY(all[i].play(transport));
            printf("%s: done\n", what);
            fflush(stdout);
            pause(); /* its agent ends it */
        }
    return psr_fail(PSR_ERR_USAGE, "it does not know how to do %s", what);
}

/* As ranks have none to agree on. */
static psr_err give_no_facts(void *context, const psr_place *place, psr_bytes given,
                             void **ret_facts, size_t *ret_facts_size)
{
    (void)context, (void)place, (void)given, (void)ret_facts, (void)ret_facts_size;
    return PSR_OK;
}

static psr_err run(const char *what, psr_provision *provision)
{
    const char *interface = getenv("PSRING_INTERFACE"), *keys = getenv("PSRING_KEY_FILE");
    const psr_peer self = {PSR_ROLE_WORKER, (uint32_t)atoi(getenv("PSRING_RANK"))};
    psr_transport *transport = NULL;
    psr_member *member = NULL;
    PSR_TRY(psr_provision_by_hand(self, getenv("PSRING_SCHEDULER"), keys, interface, provision));
    const psr_zmq_options zmq = psr_provision_zmq(provision);
    PSR_TRY(psr_transport_zmq_new(&zmq, &transport));
    const psr_member_options options = {
        .transport = transport, .provision = provision, .configured = give_no_facts};
    psr_err err = psr_member_join(&options, &member);
    if (err == PSR_OK)
        err = play(transport, member, what);
    psr_member_free(member);
    psr_transport_free(&transport, 0);
    return err;
}

int main(int argc, char **argv)
{
    psr_provision provision = {0};
    if (argc < 2 || getenv("PSRING_RANK") == NULL || getenv("PSRING_SCHEDULER") == NULL)
        return 2;
    if (argc > 2 && atoi(getenv("PSRING_RANK")) != RANK) {
        execv(argv[2], argv + 2);
        return 2;
    }
    psr_err err = run(argv[1], &provision);
    fprintf(stderr, "greedy_rank: %s\n", psr_err_detail());
    psr_provision_done(&provision);
    return err == PSR_OK ? 0 : 1;
}
