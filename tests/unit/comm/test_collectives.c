/* Every operation by every algorithm, of every type and reduction, for groups of 1 to 9 and of 16
 * ranks and counts of 0, 1, an odd number and several slices: one long program of calls, which
 * every rank begins when a seed says, several at a time, over a network that delays by the seed.
 * What must come out is computed here, element by element, in the order that each algorithm's file
 * defines.
 *
 * usage: test_collectives [all]: without the word, each operation, algorithm, type and reduction is
 * played in a third of the groups, and from one seed. */
#include "tests/unit/comm/group_network.h"
#include "tests/unit/seeds.h"

#include "comm/collectives/algorithm_choice.h"
#include "comm/pair.h"

#include <math.h>

static bool plays_all;

enum { SLICE_BYTES = 64, GUARD = 16, UNDER_WAY_MAX = 3, UNTOUCHED = 0xa5 };

/* What all ranks call. */
typedef struct call {
    psr_kind kind;
    psr_algorithm algorithm;
    psr_type type;
    psr_reduction reduction;
    size_t count;
    bool varying, in_place;
    uint32_t root; /* of a message: who sends it */
    uint32_t to;   /* and who receives it */
    uint64_t number;
} call;

/* A call of one rank. */
typedef struct begun {
    const call *call;
    psr_request *request;    /* NULL: this rank has no part in it */
    uint8_t *send, *receive; /* NULL: none; one memory in place. With guards around it */
    size_t send_bytes, receive_bytes;
    bool in_place; /* each rank chooses by itself */
} begun;

/* ---- what is called: counts and values, as a function of the call ---- */

static size_t part_of(const call *c, uint32_t rank)
{
    if (!c->varying)
        return c->count;
    psr_rng_at at = {.seed = c->number, .purpose = PSR_RNG_TEST, .layer = 3};
    return psr_rng_word(at, rank) % (2 * c->count + 1);
}

static size_t begin_of(const call *c, uint32_t rank)
{
    size_t begin = 0;
    for (uint32_t r = 0; r < rank; r++)
        begin += part_of(c, r);
    return begin;
}

/* all_to_all_v: what one rank sends another. In place that is what comes back. */
static size_t pair_of(const call *c, uint32_t from, uint32_t to)
{
    if (c->in_place && from > to)
        return pair_of(c, to, from);
    psr_rng_at at = {.seed = c->number, .purpose = PSR_RNG_TEST, .layer = 4, .sample = from};
    return psr_rng_word(at, to) % (2 * c->count + 1);
}

/* Memory for a value of any type. */
typedef struct cell {
    _Alignas(16) uint8_t bytes[16];
} cell;

/* Few values, so that some are equal, of indices of both signs. */
static void pair(const call *c, uint32_t word, void *to)
{
    cell out;
    const int value = (int)(word % 5) - 2, index = (int)(word >> 8 & 0xff) - 128;
    memset(&out, 0x3b, sizeof out); /* gaps too */
    size_t at = 0;
#define PUT(type)                                                                                  \
    do {                                                                                           \
        const type is = (type)value;                                                               \
        memcpy(out.bytes, &is, sizeof is);                                                         \
        at = sizeof is < sizeof(int32_t) ? sizeof(int32_t) : sizeof is;                            \
    } while (0)
    switch (c->type) {
    case PSR_TYPE_FLOAT32_INT32:
        PUT(float);
        break;
    case PSR_TYPE_FLOAT64_INT32:
        PUT(double);
        break;
    case PSR_TYPE_INT16_INT32:
        PUT(int16_t);
        break;
    case PSR_TYPE_INT32_INT32:
        PUT(int32_t);
        break;
    default:
        PUT(int64_t);
    }
#undef PUT
    memcpy(out.bytes + at, &index, sizeof index);
    memcpy(to, &out, psr_type_bytes(c->type));
}

/* Value i of what a rank gives, into memory. Floats of very different sizes, so that the order of a
 * sum shows in its bits. */
static void value(const call *c, uint32_t rank, size_t i, void *to)
{
    psr_rng_at at = {.seed = c->number, .purpose = PSR_RNG_TEST, .sample = rank, .layer = 2};
    uint32_t word = psr_rng_word(at, i);
    if (psr_type_is_pair(c->type)) {
        pair(c, word, to);
        return;
    }
    if (c->reduction >= PSR_REDUCTION_LOGICAL_AND && word % 3 == 0) {
        memset(to, 0, psr_type_bytes(c->type));
        return;
    }
    int spread = c->reduction == PSR_REDUCTION_PRODUCT ? 1 : 8;
    float x = ldexpf((word & 1 ? -1.0f : 1.0f) * (1 + psr_rng_unit(word)),
                     (int)(word % (2 * spread + 1)) - spread);
    switch (c->type) {
    case PSR_TYPE_FLOAT32:
        memcpy(to, &x, sizeof x);
        return;
    case PSR_TYPE_FLOAT64: {
        double y = (double)x * (1 + (double)word * 1e-12);
        memcpy(to, &y, sizeof y);
        return;
    }
    case PSR_TYPE_FLOAT16:
    case PSR_TYPE_BFLOAT16: {
        uint16_t half =
            c->type == PSR_TYPE_FLOAT16 ? psr_float16_of_float(x) : psr_bfloat16_of_float(x);
        memcpy(to, &half, sizeof half);
        return;
    }
    default: {
        uint64_t bits = word * 0x9e3779b97f4a7c15u;
        memcpy(to, &bits, psr_type_bytes(c->type));
    }
    }
}

static void fill(const call *c, uint32_t rank, size_t first, size_t count, uint8_t *to)
{
    for (size_t i = 0; i < count; i++)
        value(c, rank, first + i, to + i * psr_type_bytes(c->type));
}

/* ---- the orders of folds ---- */

static void combine(const call *c, void *out, const void *a, const void *b)
{
    psr_reduce(c->type, c->reduction, out, a, b, 1);
}

/* From rank begin on round. */
static void fold_round(const call *c, uint32_t n, uint32_t begin, uint32_t step, cell x[])
{
    cell sum = x[begin];
    for (uint32_t k = 1, rank = begin; k < n; k++) {
        rank = (rank + step) % n;
        combine(c, &sum, &sum, &x[rank]);
    }
    x[0] = sum;
}

static uint32_t power_below(uint32_t n)
{
    uint32_t power = 1;
    while (2 * power <= n)
        power *= 2;
    return power;
}

/* Neighbours first when up, else those at half the way. */
static void fold_by_twos(const call *c, uint32_t n, bool up, cell x[])
{
    uint32_t power = power_below(n);
    for (uint32_t i = 0; i + power < n; i++)
        combine(c, &x[i], &x[i], &x[power + i]);
    for (uint32_t d = up ? 1 : power / 2; d > 0 && d < power; d = up ? 2 * d : d / 2)
        for (uint32_t i = 0; i + d < power; i += up ? 2 * d : 1)
            if (up || i < d)
                combine(c, &x[i], &x[i], &x[i + d]);
}

static void fold_tree(const call *c, uint32_t n, cell x[])
{
    for (uint32_t d = 1; d < n; d *= 2)
        for (uint32_t i = 0; i + d < n; i += 2 * d)
            combine(c, &x[i], &x[i], &x[i + d]);
}

/* Of the first k ranks: in blocks as k is cut into powers of two, the largest first, from the last
 * block to the first. */
static void fold_prefix(const call *c, uint32_t k, cell x[])
{
    if (c->algorithm == PSR_ALGORITHM_CHAIN) {
        fold_round(c, k, 0, 1, x);
        return;
    }
    uint32_t end = k, size = k & -k;
    fold_tree(c, size, x + k - size);
    for (end -= size; end > 0; end -= size) {
        size = end & -end;
        fold_tree(c, size, x + end - size);
        combine(c, &x[end - size], &x[end - size], &x[end]);
    }
}

/* x[rank]: the values of one element. Becomes the result in x[0]. chunk: of that element. */
static void fold(const call *c, uint32_t n, uint32_t chunk, cell x[])
{
    if (psr_kind_scans(c->kind))
        fold_prefix(c, n, x);
    else
        switch (c->algorithm) {
        case PSR_ALGORITHM_DOUBLING:
            fold_by_twos(c, n, true, x);
            break;
        case PSR_ALGORITHM_HALVING:
            fold_by_twos(c, n, false, x);
            break;
        case PSR_ALGORITHM_BINOMIAL:
            fold_tree(c, n, x);
            break;
        case PSR_ALGORITHM_ROOT:
            fold_round(c, n, 0, 1, x);
            break;
        case PSR_ALGORITHM_CHAIN:
            fold_round(c, n, n - 1, n - 1, x);
            break;
        default:
            fold_round(c, n, (chunk + 1) % n, 1, x);
        }
    if (psr_reduction_finishes(c->reduction))
        psr_reduce_finish(c->type, c->reduction, x, 1, n);
}

static void folded(const call *c, uint32_t n, size_t i, uint32_t chunk, void *to)
{
    cell x[NETWORK_RANKS_MAX] = {0};
    for (uint32_t r = 0; r < n; r++)
        value(c, r, i, &x[r]);
    fold(c, n, chunk, x);
    memcpy(to, &x[0], psr_type_bytes(c->type));
}

static uint32_t chunk_of(size_t count, uint32_t n, size_t i)
{
    uint32_t chunk = 0;
    while (!(i >= count * chunk / n && i < count * (chunk + 1) / n))
        chunk++;
    return chunk;
}

/* ---- what a rank must receive ---- */

static void expect_exchange(const call *c, uint32_t n, uint32_t rank, uint8_t *to)
{
    size_t bytes = psr_type_bytes(c->type), at = 0;
    for (uint32_t from = 0; from < n; from++) {
        size_t first = 0, count = c->count;
        if (c->kind == PSR_KIND_ALL_TO_ALL)
            first = rank * c->count;
        for (uint32_t r = 0; c->kind == PSR_KIND_ALL_TO_ALL_V && r < rank; r++)
            first += pair_of(c, from, r);
        if (c->kind == PSR_KIND_ALL_TO_ALL_V)
            count = pair_of(c, from, rank);
        fill(c, from, first, count, to + at * bytes);
        at += count;
    }
}

/* Of k ranks. Of none: what stood there. */
static void expect_prefix(const call *c, bool in_place, uint32_t k, uint8_t *to)
{
    size_t bytes = psr_type_bytes(c->type);
    if (k == 0 && in_place)
        fill(c, 0, 0, c->count, to);
    else if (k == 0)
        memset(to, UNTOUCHED, c->count * bytes);
    for (size_t i = 0; i < c->count && k > 0; i++)
        folded(c, k, i, 0, to + i * bytes);
}

static void expect(const begun *b, uint32_t n, uint32_t rank, uint8_t *to)
{
    const call *c = b->call;
    size_t bytes = psr_type_bytes(c->type);
    switch (c->kind) {
    case PSR_KIND_ALL_REDUCE:
    case PSR_KIND_REDUCE:
        for (size_t i = 0; i < c->count; i++)
            folded(c, n, i, chunk_of(c->count, n, i), to + i * bytes);
        return;
    case PSR_KIND_REDUCE_SCATTER:
        for (size_t i = 0; i < part_of(c, rank); i++)
            folded(c, n, begin_of(c, rank) + i, rank, to + i * bytes);
        return;
    case PSR_KIND_SCAN:
    case PSR_KIND_EXSCAN:
        expect_prefix(c, b->in_place, c->kind == PSR_KIND_SCAN ? rank + 1 : rank, to);
        return;
    case PSR_KIND_ALL_GATHER:
    case PSR_KIND_GATHER:
        for (uint32_t r = 0; r < n; r++)
            fill(c, r, 0, part_of(c, r), to + begin_of(c, r) * bytes);
        return;
    case PSR_KIND_BROADCAST:
    case PSR_KIND_SEND:
        fill(c, c->root, 0, c->count, to);
        return;
    case PSR_KIND_NEIGHBORS:
        fill(c, (rank + n - 1) % n, 0, c->count, to);
        return;
    case PSR_KIND_SCATTER:
        fill(c, c->root, begin_of(c, rank), part_of(c, rank), to);
        return;
    default:
        expect_exchange(c, n, rank, to);
    }
}

/* ---- buffers ---- */

static bool receives(const call *c, uint32_t rank)
{
    if (c->kind == PSR_KIND_SEND)
        return rank == c->to;
    return c->kind != PSR_KIND_BARRIER &&
           ((c->kind != PSR_KIND_REDUCE && c->kind != PSR_KIND_GATHER) || rank == c->root);
}

static bool sends(const call *c, uint32_t rank)
{
    return c->kind != PSR_KIND_BARRIER && c->kind != PSR_KIND_BROADCAST &&
           ((c->kind != PSR_KIND_SCATTER && c->kind != PSR_KIND_SEND) || rank == c->root);
}

static size_t sum_of_pairs(const call *c, uint32_t n, uint32_t rank, bool sent)
{
    size_t count = 0;
    for (uint32_t other = 0; other < n; other++)
        count += sent ? pair_of(c, rank, other) : pair_of(c, other, rank);
    return count;
}

static size_t send_count(const call *c, uint32_t n, uint32_t rank)
{
    switch (c->kind) {
    case PSR_KIND_REDUCE_SCATTER:
    case PSR_KIND_SCATTER:
        return begin_of(c, n);
    case PSR_KIND_ALL_TO_ALL:
        return n * c->count;
    case PSR_KIND_ALL_TO_ALL_V:
        return sum_of_pairs(c, n, rank, true);
    case PSR_KIND_ALL_GATHER:
    case PSR_KIND_GATHER:
        return part_of(c, rank);
    default:
        return c->count;
    }
}

static size_t receive_count(const call *c, uint32_t n, uint32_t rank)
{
    switch (c->kind) {
    case PSR_KIND_ALL_GATHER:
    case PSR_KIND_GATHER:
        return begin_of(c, n);
    case PSR_KIND_ALL_TO_ALL:
        return n * c->count;
    case PSR_KIND_ALL_TO_ALL_V:
        return sum_of_pairs(c, n, rank, false);
    case PSR_KIND_REDUCE_SCATTER:
    case PSR_KIND_SCATTER:
        return part_of(c, rank);
    default:
        return c->count;
    }
}

/* Memory with guards around it; its beginning is aligned. */
static uint8_t *guarded(size_t bytes)
{
    uint8_t *memory = malloc(bytes + 2 * GUARD);
    memset(memory, UNTOUCHED, bytes + 2 * GUARD);
    return memory + GUARD;
}

static void check_guards(const uint8_t *memory, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++)
        if (memory[-1 - (ptrdiff_t)i] != UNTOUCHED || memory[bytes + i] != UNTOUCHED)
            fail_msg("memory around a buffer of %zu bytes was written", bytes);
}

/* Where this rank's values stand in the larger one of its buffers, in place. */
static size_t place_of(const call *c, uint32_t rank)
{
    bool parts = c->kind == PSR_KIND_ALL_GATHER || c->kind == PSR_KIND_GATHER ||
                 c->kind == PSR_KIND_SCATTER || c->kind == PSR_KIND_REDUCE_SCATTER;
    return parts ? begin_of(c, rank) * psr_type_bytes(c->type) : 0;
}

/* One memory, as large as the larger, which the other one is a part of. */
static void make_in_place(begun *b, uint32_t rank)
{
    const call *c = b->call;
    size_t at = place_of(c, rank);
    bool send_is_part = b->send_bytes < b->receive_bytes;
    uint8_t *whole = guarded(send_is_part ? b->receive_bytes : b->send_bytes);
    b->send = send_is_part ? whole + at : whole;
    b->receive = send_is_part ? whole : whole + at;
}

static void make_buffers(begun *b, uint32_t n, uint32_t rank)
{
    const call *c = b->call;
    size_t bytes = psr_type_bytes(c->type);
    b->send_bytes = send_count(c, n, rank) * bytes;
    b->receive_bytes = receive_count(c, n, rank) * bytes;
    b->in_place = c->in_place && (c->number + rank) % 3 > 0 && sends(c, rank) && receives(c, rank);
    if (b->in_place) {
        make_in_place(b, rank);
    } else {
        b->send = sends(c, rank) ? guarded(b->send_bytes) : NULL;
        b->receive = receives(c, rank) ? guarded(b->receive_bytes) : NULL;
    }
    if (b->send != NULL)
        fill(c, rank, 0, b->send_bytes / bytes, b->send);
    if (c->kind == PSR_KIND_BROADCAST && rank == c->root)
        fill(c, rank, 0, c->count, b->receive);
}

static void free_buffers(begun *b)
{
    uint8_t *receive = b->receive;
    if (b->in_place && b->send_bytes >= b->receive_bytes)
        receive = NULL; /* a part of send */
    if (b->send != NULL && (!b->in_place || receive == NULL))
        free(b->send - GUARD);
    if (receive != NULL)
        free(receive - GUARD);
}

/* ---- a call of one rank ---- */

static begun begin(network *net, const call *c, uint32_t rank)
{
    uint32_t n = net->ranks;
    begun b = {.call = c};
    make_buffers(&b, n, rank);
    size_t counts[NETWORK_RANKS_MAX], send_counts[NETWORK_RANKS_MAX];
    bool pairs = c->kind == PSR_KIND_ALL_TO_ALL_V;
    for (uint32_t r = 0; r < n; r++) {
        counts[r] = pairs ? pair_of(c, r, rank) : part_of(c, r);
        send_counts[r] = pair_of(c, rank, r);
    }
    bool is_message = c->kind == PSR_KIND_SEND;
    if (is_message && b.send == NULL && b.receive == NULL)
        return b;
    const psr_block right = psr_block_dense((rank + 1) % n, b.send, c->count),
                    left = psr_block_dense((rank + n - 1) % n, b.receive, c->count);
    bool to_neighbors = c->kind == PSR_KIND_NEIGHBORS;
    psr_request_options options = {.kind =
                                       is_message && b.send == NULL ? PSR_KIND_RECEIVE : c->kind,
                                   .algorithm = c->algorithm,
                                   .type = c->type,
                                   .reduction = c->reduction,
                                   .root = c->root,
                                   .send = b.send,
                                   .receive = b.receive,
                                   .count = c->count,
                                   .counts = c->varying || pairs ? counts : NULL,
                                   .send_counts = pairs ? send_counts : NULL,
                                   .peer = rank == c->root ? c->to : c->root,
                                   .tag = is_message ? (uint32_t)c->number % 3 : 0,
                                   .send_blocks = to_neighbors ? &right : NULL,
                                   .send_block_count = to_neighbors,
                                   .receive_blocks = to_neighbors ? &left : NULL,
                                   .receive_block_count = to_neighbors};
    b.request = network_request(net, rank, &options);
    assert_ok(psr_request_start(b.request));
    return b;
}

static bool same_value(const call *c, const uint8_t *a, const uint8_t *b)
{
    if (psr_type_is_pair(c->type)) { /* whatever is in the gaps */
        cell x, y;
        psr_pair_copy(c->type, &x, a, 1);
        psr_pair_copy(c->type, &y, b, 1);
        return memcmp(&x, &y, psr_type_bytes(c->type)) == 0;
    }
    if (memcmp(a, b, psr_type_bytes(c->type)) == 0)
        return true;
    if (c->type == PSR_TYPE_FLOAT16 || c->type == PSR_TYPE_BFLOAT16) {
        uint16_t x, y, infinity = c->type == PSR_TYPE_FLOAT16 ? 0x7c00 : 0x7f80;
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
        return (x & 0x7fff) > infinity && (y & 0x7fff) > infinity;
    }
    return false;
}

static void check(const network *net, begun *b, uint32_t rank)
{
    const call *c = b->call;
    size_t bytes = psr_type_bytes(c->type);
    if (b->receive != NULL) {
        uint8_t *want = malloc(b->receive_bytes + 1);
        expect(b, net->ranks, rank, want);
        for (size_t i = 0; i < b->receive_bytes / bytes; i++)
            if (!same_value(c, want + i * bytes, b->receive + i * bytes))
                fail_msg("seed %llu, rank %u of %u: %s by %s, %s of %s, count %zu%s%s, root %u: "
                         "value %zu is wrong",
                         (unsigned long long)net->seed, rank, net->ranks, psr_kind_name(c->kind),
                         psr_algorithm_name(c->algorithm), psr_reduction_name(c->reduction),
                         psr_type_name(c->type), c->count, c->varying ? ", varying" : "",
                         b->in_place ? ", in place" : "", c->root, i);
        free(want);
    }
    if (b->in_place) {
        bool send_is_part = b->send_bytes < b->receive_bytes;
        check_guards(send_is_part ? b->receive : b->send,
                     send_is_part ? b->receive_bytes : b->send_bytes);
        return;
    }
    if (b->receive != NULL)
        check_guards(b->receive, b->receive_bytes);
    if (b->send != NULL) {
        uint8_t *given = malloc(b->send_bytes + 1);
        fill(c, rank, 0, b->send_bytes / bytes, given);
        assert_memory_equal(given, b->send, b->send_bytes);
        check_guards(b->send, b->send_bytes);
        free(given);
    }
}

/* ---- a program of calls ---- */

typedef struct program {
    call *calls;
    size_t count, capacity;
} program;

typedef struct member {
    size_t next; /* call to begin */
    begun under_way[UNDER_WAY_MAX];
} member;

static void end(const network *net, begun *b, uint32_t rank)
{
    check(net, b, rank);
    psr_request_free(b->request);
    free_buffers(b);
    *b = (begun){0};
}

/* One rank does what it can. Whether it has more to do. */
static bool go_on(network *net, const program *p, member *m, uint32_t rank, bool *moved)
{
    bool more = m->next < p->count;
    for (size_t i = 0; i < UNDER_WAY_MAX; i++) {
        begun *b = &m->under_way[i];
        if (b->request != NULL && psr_request_done(b->request) &&
            psr_request_lent(b->request) == 0) {
            end(net, b, rank);
            *moved = true;
        }
        if (b->request == NULL && m->next < p->count && network_draw(net, 2) > 0) {
            *b = begin(net, &p->calls[m->next++], rank);
            *moved = true;
        }
        more = more || b->request != NULL;
    }
    return more;
}

static void stuck(const network *net, const program *p, const member *members)
{
    for (uint32_t r = 0; r < net->ranks; r++)
        for (size_t i = 0; i < UNDER_WAY_MAX; i++) {
            const psr_request *request = members[r].under_way[i].request;
            if (request != NULL && !psr_request_done(request))
                print_error("rank %u is at call %zu of %zu, %s by %s, and waits for %u\n", r,
                            members[r].next, p->count,
                            psr_kind_name(psr_request_call(request)->kind),
                            psr_algorithm_name(psr_request_call(request)->algorithm),
                            network_waits(request));
        }
    fail_msg("seed %llu: nothing is under way in a group of %u", (unsigned long long)net->seed,
             net->ranks);
}

static void run(const program *p, uint32_t ranks, uint32_t window, uint64_t seed, bool shared)
{
    network *net = (shared ? network_open_shared : network_open)(ranks, SLICE_BYTES, window, seed);
    member *members = calloc(ranks, sizeof *members);
    uint32_t idle = 0;
    for (bool more = true; more;) {
        bool moved = false;
        uint32_t delivered = 0, most = network_draw(net, 4 * ranks + 1);
        while (delivered < most && network_deliver(net, NULL))
            delivered++;
        more = false;
        for (uint32_t r = 0; r < ranks; r++)
            more = go_on(net, p, &members[r], r, &moved) || more;
        idle = moved || delivered > 0 ? 0 : idle + 1;
        if (idle > 100)
            stuck(net, p, members);
    }
    assert_false(network_deliver(net, NULL));
    free(members);
    network_close(net);
}

static void add_call(program *p, call c)
{
    if (p->count == p->capacity) {
        p->capacity = p->capacity > 0 ? 2 * p->capacity : 64;
        p->calls = realloc(p->calls, p->capacity * sizeof *p->calls);
    }
    c.number = p->count;
    p->calls[p->count++] = c;
}

/* Of one operation and algorithm, type and reduction, all counts. What else there is to vary goes
 * by the number of the call. */
static void add_counts(program *p, uint32_t ranks, call c)
{
    static const size_t whole[] = {0, 1, 13, 157}, parts[] = {0, 1, 5, 41};
    bool apart = c.kind == PSR_KIND_NEIGHBORS || c.kind == PSR_KIND_SEND,
         exchange = c.kind == PSR_KIND_ALL_TO_ALL || c.kind == PSR_KIND_ALL_TO_ALL_V;
    bool is_whole = c.kind == PSR_KIND_ALL_REDUCE || c.kind == PSR_KIND_REDUCE ||
                    c.kind == PSR_KIND_BROADCAST || c.kind == PSR_KIND_NEIGHBORS ||
                    c.kind == PSR_KIND_SEND || psr_kind_scans(c.kind);
    bool fixed = is_whole || exchange || c.kind == PSR_KIND_BARRIER;
    for (size_t i = 0; i < 4; i++) {
        psr_rng_at at = {.seed = ranks, .purpose = PSR_RNG_TEST, .layer = 9};
        uint32_t word = psr_rng_word(at, p->count);
        c.count = is_whole ? whole[i] : parts[i];
        c.root = word % ranks;
        c.to = (c.root + 1 + (word >> 10) % (ranks > 1 ? ranks - 1 : 1)) % ranks;
        c.varying = !fixed && word >> 8 & 1;
        c.in_place = !apart && word >> 9 & 1;
        add_call(p, c);
    }
}

/* Not to oneself. The others are these under other names. Where all share memory: what is other
 * there, among operations that are not. */
static bool is_played(psr_kind kind, uint32_t ranks, bool shared)
{
    if (shared)
        return kind == PSR_KIND_ALL_REDUCE || kind == PSR_KIND_REDUCE_SCATTER;
    return kind <= PSR_KIND_NEIGHBORS || (kind == PSR_KIND_SEND && ranks > 1) ||
           psr_kind_scans(kind);
}

/* Folds of one type and reduction are played in half of the groups: of 2, 3, 6 and 7 ranks, or in
 * the others. */
static bool fits(psr_kind kind, psr_reduction reduction, psr_type type, uint32_t ranks)
{
    if (!psr_kind_folds(kind))
        return reduction == 0;
    return psr_reduction_fits(reduction, type) && (ranks / 2 + reduction + type) % 2 == 0 &&
           !(psr_kind_scans(kind) && reduction == PSR_REDUCTION_MEAN);
}

static program every_call(uint32_t ranks, bool shared)
{
    const uint32_t each = plays_few() ? 9 : 3; /* unless all are played */
    program p = {0};
    for (psr_kind kind = 0; kind < PSR_KINDS; kind++)
        for (psr_algorithm algorithm = 0;
             algorithm < PSR_ALGORITHMS && is_played(kind, ranks, shared); algorithm++)
            for (psr_type type = 0; type < PSR_TYPES && psr_algorithm_fits(algorithm, kind); type++)
                for (psr_reduction reduction = 0; reduction < PSR_REDUCTIONS; reduction++)
                    if (fits(kind, reduction, type, ranks) &&
                        (plays_all || (kind + algorithm + type + reduction + ranks) % each == 0))
                        add_counts(&p, ranks,
                                   (call){.kind = kind,
                                          .algorithm = algorithm,
                                          .type = type,
                                          .reduction = reduction});
    return p;
}

/* So that neighbours in the program are of different operations. */
static void shuffle(program *p, uint64_t seed)
{
    psr_rng_at at = {.seed = seed, .purpose = PSR_RNG_TEST, .layer = 5};
    uint64_t draws = 0;
    for (size_t i = p->count; i > 1; i--) {
        size_t j = psr_rng_below(at, &draws, (uint32_t)i);
        call swapped = p->calls[i - 1];
        p->calls[i - 1] = p->calls[j];
        p->calls[j] = swapped;
    }
}

static void every_operation_gives_what_its_definition_says(void **state)
{
    (void)state;
    static const uint32_t worlds[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16};
    size_t combinations = 0, calls = 0;
    for (size_t k = 0; k < 2 * (sizeof worlds / sizeof worlds[0]); k++) {
        const size_t w = k / 2;
        const bool shared = k % 2 > 0;
        program p = every_call(worlds[w], shared);
        for (uint64_t seed = 0; seed < (plays_all && worlds[w] < 9 ? 2 : 1); seed++) {
            shuffle(&p, seed);
            run(&p, worlds[w], 1 + (uint32_t)(w + seed) % 3, seed + 3 * worlds[w] + (uint64_t)w % 3,
                shared);
            calls += p.count * worlds[w];
        }
        combinations += p.count;
        free(p.calls);
    }
    printf("# %zu combinations of operation, algorithm, type, reduction, group size and count; %zu "
           "calls of ranks\n",
           combinations, calls);
}

/* ---- a rank that dies ---- */

/* Where rank's wait leads: to whom the one waits whom it waits for, and so on. */
static uint32_t end_of_chain(const network *net, const begun *calls, uint32_t rank, uint32_t dead)
{
    for (uint32_t links = 0; rank != dead && links <= net->ranks; links++)
        rank = psr_request_done(calls[rank].request) ? NETWORK_RANKS_MAX
                                                     : network_waits(calls[rank].request);
    return rank;
}

/* Cut off after so many messages, before which it may not have called at all. Who is not done
 * waits, by a chain, for the dead. */
static void die(const call *c, uint32_t ranks, uint32_t dead, uint32_t after, uint64_t seed,
                bool shared)
{
    network *net = (shared ? network_open_shared : network_open)(ranks, SLICE_BYTES, 2, seed);
    begun calls[NETWORK_RANKS_MAX];
    psr_request *requests[NETWORK_RANKS_MAX] = {NULL};
    for (uint32_t r = 0; r < ranks; r++)
        if (r != dead || after > 0) {
            calls[r] = begin(net, c, r);
            requests[r] = calls[r].request;
        }
    while (after-- > 0 && network_deliver(net, NULL))
        ;
    network_cut(net, dead);
    network_settle(net);
    for (uint32_t r = 0; r < ranks; r++)
        if (r != dead && !psr_request_done(requests[r]) &&
            end_of_chain(net, calls, r, dead) != dead)
            fail_msg(
                "%s by %s of %u ranks, count %zu: rank %u does not wait for rank %u, which is dead",
                psr_kind_name(c->kind), psr_algorithm_name(c->algorithm), ranks, c->count, r, dead);
    network_close_broken(net, requests, ranks);
    for (uint32_t r = 0; r < ranks; r++)
        if (requests[r] != NULL)
            free_buffers(&calls[r]);
}

static void who_waits_waits_for_the_dead(void **state)
{
    (void)state;
    uint64_t seed = 0;
    for (psr_kind kind = 0; kind < PSR_KINDS; kind++)
        for (psr_algorithm algorithm = 0; algorithm < PSR_ALGORITHMS && is_played(kind, 1, false);
             algorithm++)
            for (uint32_t ranks = 2; ranks < 8 && psr_algorithm_fits(algorithm, kind); ranks++)
                for (uint32_t after = 0; after < 100; after += 1 + after / 4, seed++) {
                    call c = {.kind = kind,
                              .algorithm = algorithm,
                              .type = PSR_TYPE_INT32,
                              .count = 100,
                              .root = (uint32_t)(seed / 7) % ranks,
                              .in_place = false};
                    for (int shared = 0; shared < 2; shared++)
                        if (plays_all || seed % 2 == (uint64_t)shared)
                            die(&c, ranks, (uint32_t)seed % ranks, after, seed, shared != 0);
                }
}

int main(int argc, char **argv)
{
    plays_all = argc == 2 && strcmp(argv[1], "all") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_gives_what_its_definition_says),
        cmocka_unit_test(who_waits_waits_for_the_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
