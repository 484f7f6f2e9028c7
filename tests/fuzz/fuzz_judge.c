/* Ranks that may say anything to the coordinator of a communicator, before all have begun and
 * after. Each record of the input is one message, news of a process, or time that passes. Nothing
 * is sent to a rank that has not joined or whose channel is cut; what is sent speaks of ranks that
 * there are; each line is one. The first byte says how many have joined, and told their facts. */
#include "tests/fuzz/records.h"

#include "comm/members/join.h"
#include "comm/node/judge.h"

#include <stdlib.h>
#include <string.h>

/* What happens; who says it; the head; the payload; how much time passes. */
enum { WHAT, WHO, HEAD, PAYLOAD = HEAD + RECORDS_HEAD_BYTES, TIME, RECORD };
enum { RANKS = 4, DEADLINE_MS = 1000, RANK_BYTES = 4 };

RECORDS_MUTATOR(1, RECORD);

typedef struct played {
    psr_judge *judge;
    psr_coordinator *coordinator; /* the judge's */
    bool connected[RANKS], cut[RANKS];
    uint32_t epoch; /* the last that was given */
    int64_t now_ms;
} played;

/* ---- what it says ---- */

static void check_line(const psr_payload *payload)
{
    if (payload != NULL && memchr(payload->data, 0, payload->bytes) != NULL)
        abort();
}

static void check_said(played *p, const psr_head *head, const psr_payload *payload)
{
    const psr_message message = {.from = {PSR_ROLE_SCHEDULER, 0},
                                 .head = *head,
                                 .payload = payload != NULL ? payload->data : NULL,
                                 .payload_bytes = payload != NULL ? payload->bytes : 0};
    const psr_msg_limits limits = {.workers = RANKS, .epoch = p->epoch};
    psr_msg_failure failure;
    psr_msg_shrunk shrunk;
    uint32_t *ranks = NULL, count = 0;
    if (head->type == PSR_MSG_VERDICT) {
        check_line(payload);
        if (psr_msg_failure_read(&message, &limits, &failure) != PSR_OK)
            abort();
    } else if (head->type == PSR_MSG_SHRUNK) {
        if (psr_msg_shrunk_read(&message, &limits, &shrunk) != PSR_OK)
            abort();
        if (shrunk.status != PSR_OK) {
            check_line(payload);
            return;
        }
        if (psr_msg_rank_list_read(&message, RANKS, &ranks, &count) != PSR_OK)
            abort();
        free(ranks);
        p->epoch = shrunk.new_epoch;
    }
}

static psr_err on_send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    played *p = context;
    if (to.role != PSR_ROLE_WORKER || to.rank >= RANKS || !p->connected[to.rank] || p->cut[to.rank])
        abort();
    check_said(p, head, payload);
    if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
    return PSR_OK;
}

static psr_err on_connect(void *context, psr_peer peer, const char *endpoint)
{
    played *p = context;
    if (p->connected[peer.rank])
        abort(); /* a rank joins once */
    if (strcmp(endpoint, "bad") == 0)
        return psr_fail(PSR_ERR_USAGE, "endpoint bad");
    p->connected[peer.rank] = true;
    return PSR_OK;
}

static void on_refuse(void *context, const psr_message *join, psr_err status, const char *line)
{
    (void)context, (void)join;
    if (status == PSR_OK || *line == '\0')
        abort();
}

static void on_cut(void *context, psr_peer peer)
{
    ((played *)context)->cut[peer.rank] = true;
}

static void on_retire(void *context, psr_peer peer)
{
    (void)context, (void)peer;
}

/* ---- what it hears ---- */

static void hear(played *p, psr_message *message)
{
    psr_coordinator_message(p->coordinator, message, p->now_ms);
    psr_message_free(&message);
}

static void join(played *p, psr_peer from, uint8_t how)
{
    psr_join says = {.version = PSR_VERSION, .host = "host", .pid = 1};
    char *json = NULL;
    strcpy(says.endpoint, (how & 15) == 1 ? "bad" : "ipc:///run/x");
    if ((how & 15) == 2)
        strcpy(says.version, "9.9.9");
    if (psr_join_to_json(&says, &json) != PSR_OK)
        abort();
    size_t bytes = (how & 15) == 3 ? how % strlen(json) : strlen(json);
    hear(p, records_message(from, (psr_head){.type = PSR_MSG_JOIN}, bytes, json, strlen(json)));
    free(json);
}

static void tell_facts(played *p, psr_peer from, uint8_t bytes)
{
    hear(p, records_message(from, (psr_head){.type = PSR_MSG_FACTS}, bytes, "facts", 5));
}

/* Those of the bits below; then one that is twice there, or is none, or a byte less. */
static void shrink(played *p, psr_peer from, psr_head head, uint8_t who)
{
    uint32_t ranks[RANKS + 1], count = 0;
    uint8_t bytes[sizeof ranks];
    for (uint32_t r = 0; r < RANKS; r++)
        if ((who >> r & 1) != 0)
            ranks[count++] = r;
    if ((who & 0x30) != 0)
        ranks[count++] = (who & 0x30) == 0x10 ? 0 : (who & 0x30) == 0x20 ? RANKS : UINT32_MAX - 15;
    psr_msg_rank_list_write(ranks, count, bytes);
    size_t size = (size_t)count * RANK_BYTES;
    hear(p, records_message(from, head, size - ((who & 0xc0) == 0xc0 && size > 0), bytes,
                            sizeof bytes));
}

/* With messages to those of the bits below; then to nobody that there is, or a byte less. */
static void leave(played *p, psr_peer from, psr_head head, uint8_t who)
{
    uint64_t sent[RANKS + 1] = {0};
    uint8_t bytes[sizeof sent / sizeof sent[0] * PSR_MSG_SENT_BYTES];
    for (uint32_t r = 0; r <= RANKS; r++)
        sent[r] = (who >> r & 1) != 0 ? r + 1 : 0;
    size_t size = psr_msg_sent_write(sent, RANKS + 1, bytes);
    hear(p, records_message(from, head, size - ((who & 0xc0) == 0xc0 && size > 0), bytes,
                            sizeof bytes));
}

static void tell(played *p, psr_peer from, const uint8_t *record)
{
    static const char text[] = "what it says, and more of it\n\033[2J";
    static const psr_message_type often[] = {
        PSR_MSG_PROGRESS, PSR_MSG_PROGRESS, PSR_MSG_PROGRESS, PSR_MSG_FINDING, PSR_MSG_FINDING,
        PSR_MSG_FINDING,  PSR_MSG_SHRINK,   PSR_MSG_SHRINK,   PSR_MSG_DONE,    PSR_MSG_FAILED};
    const uint8_t which = record[WHAT] >> 4;
    const psr_message_type type =
        which < sizeof often / sizeof often[0] ? often[which] : (psr_message_type)record[PAYLOAD];
    const psr_head head = records_head(type, record + HEAD, RANKS);
    if (type == PSR_MSG_SHRINK)
        shrink(p, from, head, record[PAYLOAD]);
    else if (type == PSR_MSG_DONE)
        leave(p, from, head, record[PAYLOAD]);
    else
        hear(p, records_message(from, head, (size_t)record[PAYLOAD] * 4, text, sizeof text - 1));
}

static void pass_time(played *p, uint8_t amount)
{
    int64_t next_ms = 0;
    p->now_ms += 4 * (int64_t)amount;
    psr_coordinator_tick(p->coordinator, p->now_ms);
    next_ms = psr_coordinator_next_tick(p->coordinator);
    if (next_ms < p->now_ms)
        abort();
}

static void event(played *p, const uint8_t *record)
{
    const uint64_t rank = records_number(record[WHO] >> 1, RANKS);
    const psr_peer from = {(record[WHO] & 1) != 0 && record[TIME] == 255 ? PSR_ROLE_SHARD
                                                                         : PSR_ROLE_WORKER,
                           record[WHO] == 255 ? PSR_RANK_ANY : (uint32_t)rank};
    switch (record[WHAT] & 15) {
    case 0:
        pass_time(p, record[TIME]);
        return;
    case 1:
        join(p, from, record[PAYLOAD]);
        return;
    case 2:
        tell_facts(p, from, record[PAYLOAD]);
        return;
    default:
        tell(p, from, record);
        pass_time(p, record[TIME] & 15);
    }
}

static void bring_up(played *p, uint8_t stage)
{
    for (uint32_t r = 0; r < (stage & 7); r++)
        join(p, (psr_peer){PSR_ROLE_WORKER, r % RANKS}, 0);
    for (uint32_t r = 0; r < (stage >> 3 & 7); r++)
        tell_facts(p, (psr_peer){PSR_ROLE_WORKER, r % RANKS}, (stage >> 6) == 3 ? (uint8_t)r : 5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    played p = {0};
    const psr_judge_options options = {.ranks = RANKS,
                                       .deadline_ms = DEADLINE_MS,
                                       .join_deadline_ms = DEADLINE_MS,
                                       .host = "host",
                                       .ways = {.context = &p,
                                                .send = on_send,
                                                .connect = on_connect,
                                                .refuse = on_refuse,
                                                .cut = on_cut,
                                                .retire = on_retire}};
    if (psr_judge_new(&options, 0, &p.judge) != PSR_OK)
        abort();
    p.coordinator = psr_judge_coordinator(p.judge);
    bring_up(&p, data[0]);
    for (data++, size--; size >= RECORD; data += RECORD, size -= RECORD) {
        event(&p, data);
        const char *line = NULL;
        if (psr_judge_verdict(p.judge, &line) != PSR_OK && line == NULL)
            abort();
        for (uint32_t r = 0; r < RANKS; r++)
            (void)psr_coordinator_misses(p.coordinator, (psr_peer){PSR_ROLE_WORKER, r});
    }
    psr_judge_free(p.judge);
    return 0;
}
