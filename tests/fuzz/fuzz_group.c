/* A rank that may send anything in well-formed heads: psr_group_message. Each record of the input
 * is one event; fields are near what would be right, so that the fuzzer gets past the first checks.
 * What is refused must be PROTOCOL or MISMATCH, and nothing may be written outside the buffers. */
#include "tests/fuzz/records.h"

#include "comm/collectives/group.h"

#include <stdlib.h>
#include <string.h>

enum {
    RANKS = 3,
    RANK = 1,
    COUNT = 21,
    REQUESTS = 8,
    TWIST = 8,
    RECORD = TWIST + RECORDS_TWIST_BYTES
};

RECORDS_MUTATOR(0, RECORD);

/* What is called here, and what others say of theirs: the kinds by number, each with the first
 * algorithm that there is. */
static psr_request_options options_of(uint8_t which, int32_t *send, int32_t *receive)
{
    static const psr_algorithm algorithms[] = {
        PSR_ALGORITHM_RING,  PSR_ALGORITHM_BINOMIAL, PSR_ALGORITHM_DIRECT, PSR_ALGORITHM_BRUCK,
        PSR_ALGORITHM_CHAIN, PSR_ALGORITHM_DIRECT,   PSR_ALGORITHM_DIRECT, PSR_ALGORITHM_DIRECT};
    psr_kind kind = which % 8 < 7 ? (psr_kind)(which % 8)
                    : which & 8   ? PSR_KIND_SEND
                                  : PSR_KIND_RECEIVE;
    psr_algorithm algorithm = algorithms[which % 8];
    const bool prefix = which >> 7, pairs = prefix && which & 4;
    if (prefix) {
        kind = which & 1 ? PSR_KIND_SCAN : PSR_KIND_EXSCAN;
        algorithm = which & 2 ? PSR_ALGORITHM_DOUBLING : PSR_ALGORITHM_CHAIN;
    }
    if (which == 0x7f)
        kind = PSR_KIND_PROBE;
    return (psr_request_options){
        .kind = kind,
        .algorithm = algorithm,
        .type = pairs ? PSR_TYPE_INT16_INT32 : PSR_TYPE_INT32,
        .reduction = pairs    ? PSR_REDUCTION_MAXLOC
                     : prefix ? PSR_REDUCTION_LOGICAL_XOR
                              : PSR_REDUCTION_SUM,
        .root = which >> 4 & 1 ? RANK : 0,
        .send = send,
        .receive = receive,
        .count = which >> 5 & 1 ? COUNT : 1,
        .persistent = which >> 6 & 1,
        .at_most = which >> 6 & 1,
        .peer = kind == PSR_KIND_RECEIVE && which >> 4 & 1 ? PSR_RANK_ANY : 0,
        .tag = kind == PSR_KIND_RECEIVE && which >> 5 & 1 ? PSR_MESSAGE_TAG_ANY : 0};
}

static psr_msg_call call_of(uint8_t which)
{
    psr_request_options o = options_of(which, NULL, NULL);
    bool rooted = psr_kind_has_root(o.kind);
    return psr_call_message(&(psr_call){.kind = o.kind,
                                        .algorithm = o.algorithm,
                                        .type = o.type,
                                        .reduction = o.reduction,
                                        .root = rooted ? o.root : 0,
                                        .count = o.count});
}

static psr_head make_head(const uint8_t *record)
{
    static const uint32_t slots[] = {0, 1, 2, PSR_MESSAGE_TAG_MAX + 1};
    psr_tag tag = {
        .slot = slots[record[1] & 3], .round = record[1] >> 2 & 15, .group = record[1] >> 7};
    if ((record[0] & 0xf0) == 0xf0)
        return psr_msg_listen_head(0, tag.group);
    if ((record[0] & 0xf0) == 0xe0) {
        tag.round |= (uint64_t)(record[3] & 1) << 63;
        return psr_msg_offer_head(&(psr_msg_offer){tag, call_of(record[2])});
    }
    switch (record[0] & 3) {
    case 0:
        return psr_msg_credit_head(
            &(psr_msg_credit){tag, call_of(record[2]), record[3], record[4] & 3});
    case 1:
        tag = (psr_tag){.group = tag.group};
        return psr_msg_ahead_head(&(psr_msg_ahead){tag, record[3]});
    default:
        return psr_msg_values_head(
            &(psr_msg_values){tag, call_of(record[2]), record[3], record[4], call_of(record[5])});
    }
}

/* A message whose payload is of its exact size, so that a read beyond it is seen. */
static psr_message *make(const uint8_t *record)
{
    const psr_peer from = {record[7] & 4 ? PSR_ROLE_SHARD : PSR_ROLE_WORKER, record[7] & 3};
    psr_message *m = records_message(from, make_head(record), record[5], record + 6, 1);
    records_twist(&m->head, record + TWIST, COUNT);
    return m;
}

typedef struct played {
    psr_group *group;
    psr_request *requests[REQUESTS];
    int32_t *memory[2 * REQUESTS];
} played;

/* false: the group is broken. */
static bool event(played *p, const uint8_t *record)
{
    psr_err err = PSR_OK;
    size_t at = record[3] % REQUESTS;
    psr_request **request = &p->requests[at];
    if ((record[0] & 4) != 0) {
        psr_message *message = make(record);
        err = psr_group_message(p->group, &message);
    } else if (*request == NULL) {
        psr_request_options options =
            options_of(record[2], p->memory[2 * at], p->memory[2 * at + 1]);
        if (psr_request_new(p->group, &options, request) == PSR_OK)
            err = psr_request_start(*request);
    } else if (psr_request_done(*request) && (record[0] & 1) != 0) {
        err = psr_request_start(*request);
    } else if (psr_request_done(*request)) {
        psr_request_free(*request);
        *request = NULL;
    }
    if (err != PSR_OK && err != PSR_ERR_PROTOCOL && err != PSR_ERR_MISMATCH)
        abort();
    psr_waiting waiting;
    const psr_request *oldest = psr_group_next(p->group, NULL);
    psr_peer blamed;
    if (oldest != NULL && psr_request_waits(oldest, &waiting) && waiting.peer.rank >= RANKS)
        abort();
    if (psr_group_failed_of(p->group, &blamed) && blamed.rank >= RANKS)
        abort();
    return err == PSR_OK;
}

static void play(const uint8_t *data, size_t size, bool shares_memory)
{
    played p = {0};
    psr_peer members[RANKS];
    for (uint32_t r = 0; r < RANKS; r++)
        members[r] = (psr_peer){PSR_ROLE_WORKER, r};
    psr_group_options options = {.rank = RANK,
                                 .ranks = RANKS,
                                 .members = members,
                                 .hosts = 1,
                                 .slice_bytes = 16,
                                 .shares_memory = shares_memory,
                                 .window = 2,
                                 .outbox = {.send = records_give_back}};
    if (psr_group_new(&options, &p.group) != PSR_OK)
        abort();
    for (size_t i = 0; i < 2 * REQUESTS; i++) /* a gather has everybody's */
        if ((p.memory[i] = calloc(RANKS * COUNT, sizeof **p.memory)) == NULL)
            abort();
    for (; size >= RECORD && event(&p, data); data += RECORD, size -= RECORD)
        ;
    for (size_t i = 0; i < REQUESTS; i++)
        psr_request_free(p.requests[i]);
    for (size_t i = 0; i < 2 * REQUESTS; i++)
        free(p.memory[i]);
    psr_group_free(p.group);
}

/* By ring there are hops, or none. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    play(data, size, false);
    play(data, size, true);
    return 0;
}
