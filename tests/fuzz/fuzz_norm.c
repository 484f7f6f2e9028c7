/* Members that may send anything of the gradient's norm: psr_global_norm_message of worker 0, of
 * another worker and of a shard, where shards, workers or both make the updates. Each record of the
 * input is one NORM near what would be due, or a sum of this member's own. What is refused is
 * PROTOCOL (NUMERIC: the sums overflow); messages go to existing members and are such that their
 * receivers would take them; the norm is that of the sums that were taken, in the order of buckets;
 * a step has one. The first byte says what the run is like. */
#include "tests/fuzz/records.h"

#include "comm/tables/global_norm.h"
#include "comm/wire/messages.h"
#include "ps/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, SHARDS = 2, BUCKETS = 5, FIRST = 1 };
/* What it is; who says it; of which bucket; its step behind the present one; its value, or which
 * bits make it. */
enum { WHAT, WHO, BUCKET, STEP, VALUE, TWIST };
enum { RECORD = TWIST + RECORDS_TWIST_BYTES };
enum { ORDINARY = 208 /* of a byte below it: what is due */ };

RECORDS_MUTATOR(FIRST, RECORD);

typedef struct played {
    psr_config config;
    psr_layout layout;
    psr_buckets buckets;
    psr_plan plan;
    psr_peer self;
    psr_global_norm *norm;
    uint64_t step;
    bool has[BUCKETS], own[BUCKETS];
    double squares[BUCKETS];
} played;

static void must(bool holds)
{
    if (!holds)
        abort();
}

static psr_err see(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    const played *p = context;
    psr_msg_norm says;
    psr_message *message = records_message(p->self, *head, 0, "", 1);
    must(to.rank < (to.role == PSR_ROLE_SHARD ? SHARDS : WORKERS) &&
         to.role != PSR_ROLE_SCHEDULER && !psr_peer_equal(to, p->self) && payload == NULL);
    must(psr_msg_norm_read(message, &says) == PSR_OK && says.step == p->step);
    psr_message_free(&message);
    return PSR_OK;
}

static void open_run(played *p, uint8_t how)
{
    static const char *const routes[] = {"", "a=ring,b=ring", "a=ps,*=ring", "c=ps,d=ps"};
    static const psr_peer members[] = {{PSR_ROLE_WORKER, 0},
                                       {PSR_ROLE_WORKER, 1},
                                       {PSR_ROLE_WORKER, 2},
                                       {PSR_ROLE_SHARD, 0},
                                       {PSR_ROLE_SHARD, 1}};
    psr_config_defaults(&p->config);
    p->config.mode = (how & 1) != 0 ? PSR_MODE_RING : PSR_MODE_PS;
    p->config.workers = WORKERS;
    p->config.shards = SHARDS;
    p->config.clip_norm = 1;
    p->config.slice_bytes = 128;
    strcpy(p->config.route, routes[how >> 1 & 3]);
    p->self = members[(how >> 3) % 5];
    for (char name[] = "a"; name[0] < 'a' + BUCKETS; name[0]++)
        must(psr_layout_add(&p->layout, name, 1, (uint32_t[]){32}) == PSR_OK);
    must(psr_buckets_plan(&p->layout, 32 * sizeof(float), &p->buckets) == PSR_OK &&
         p->buckets.count == BUCKETS);
    must(psr_parts_plan(&p->config, p->config.mode, &p->layout, &p->buckets, NULL, &p->plan) ==
         PSR_OK);
    const psr_outbox outbox = {.context = p, .send = see};
    must(psr_global_norm_new(&p->plan, p->self, 0, false, &outbox, &p->norm) == PSR_OK);
}

/* A sum of squares; or any bits. */
static double value_of(const uint8_t *record)
{
    double value = record[VALUE];
    if (record[VALUE] >= ORDINARY) {
        const uint64_t bits = (uint64_t)record[VALUE] << 56 | (uint64_t)record[BUCKET] << 48;
        memcpy(&value, &bits, sizeof value);
    }
    return value;
}

/* A sum of a bucket that this member updates and has not summed in this step. */
static psr_err add_own(played *p, const uint8_t *record)
{
    for (uint32_t i = 0; i < BUCKETS; i++) {
        const uint32_t b = (record[BUCKET] + i) % BUCKETS;
        if (p->own[b] || !psr_plan_holds(&p->plan, b, p->self))
            continue;
        p->own[b] = p->has[b] = true;
        p->squares[b] = record[VALUE];
        return psr_global_norm_part(p->norm, b, record[VALUE]);
    }
    return PSR_OK;
}

static psr_err hear(played *p, const uint8_t *record)
{
    psr_msg_norm norm = {.bucket = record[BUCKET] % (BUCKETS + 1),
                         .step = p->step - (record[STEP] < ORDINARY ? 0 : record[STEP] & 3),
                         .phase = (psr_norm_phase)(record[WHAT] & 1),
                         .value = value_of(record)};
    psr_peer from = record[WHO] < ORDINARY && norm.bucket < BUCKETS
                        ? psr_plan_home(&p->plan, norm.bucket)
                        : (psr_peer){PSR_ROLE_SHARD, record[WHO] & 1};
    if (norm.phase == PSR_NORM_TOTAL && record[WHO] < ORDINARY)
        from = (psr_peer){PSR_ROLE_WORKER, 0};
    if (psr_peer_equal(from, p->self))
        from = (psr_peer){PSR_ROLE_WORKER, 2};
    psr_head head = psr_msg_norm_head(&norm);
    records_twist(&head, record + TWIST, BUCKETS);
    psr_message *message = records_message(from, head, 0, "", 1);
    /* What it says, twisted, if it is taken. */
    const bool reads = psr_msg_norm_read(message, &norm) == PSR_OK;
    psr_err err = psr_global_norm_message(p->norm, &message);
    must(message == NULL && (err != PSR_OK || reads));
    if (err == PSR_OK && norm.phase == PSR_NORM_PART) {
        must(norm.bucket < BUCKETS && !p->has[norm.bucket]);
        p->has[norm.bucket] = true;
        p->squares[norm.bucket] = norm.value;
    }
    return err;
}

static void take_norms(played *p)
{
    uint64_t step;
    double norm, sum = 0;
    if (!psr_global_norm_take(p->norm, &step, &norm))
        return;
    bool all = true;
    for (uint32_t b = 0; b < BUCKETS; b++) {
        all = all && p->has[b];
        sum += p->squares[b];
        must(p->own[b] == psr_plan_holds(&p->plan, b, p->self));
    }
    must(step == p->step && isfinite(norm) && norm >= 0 && (!all || norm == sqrt(sum)));
    p->step++;
    memset(p->has, 0, sizeof p->has);
    memset(p->own, 0, sizeof p->own);
    memset(p->squares, 0, sizeof p->squares);
}

static void check_waiting(const played *p)
{
    psr_waiting waiting;
    uint32_t bucket;
    if (!psr_global_norm_waits(p->norm, &waiting, &bucket))
        return;
    must(bucket < BUCKETS && !psr_peer_equal(waiting.peer, p->self) && waiting.round == p->step &&
         waiting.peer.rank < (waiting.peer.role == PSR_ROLE_SHARD ? SHARDS : WORKERS));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    played p = {.step = 0};
    if (size < FIRST)
        return 0;
    open_run(&p, data[0]);
    for (data += FIRST, size -= FIRST; size >= RECORD; data += RECORD, size -= RECORD) {
        psr_err err = (data[WHAT] & 2) != 0 ? add_own(&p, data) : hear(&p, data);
        must(err == PSR_OK || err == PSR_ERR_PROTOCOL || err == PSR_ERR_NUMERIC);
        if (err != PSR_OK) /* the run is over */
            break;
        take_norms(&p);
        check_waiting(&p);
    }
    psr_global_norm_free(p.norm);
    psr_plan_done(&p.plan);
    psr_buckets_done(&p.buckets);
    psr_layout_done(&p.layout);
    return 0;
}
