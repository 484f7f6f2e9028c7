#include "bench/collectives/operations.h"

#include "bench/collectives/values.h"

/* ---- sizes ---- */

static size_t none(int ranks)
{
    (void)ranks;
    return 0;
}

static size_t one(int ranks)
{
    (void)ranks;
    return 1;
}

static size_t two(int ranks)
{
    (void)ranks;
    return 2;
}

static size_t one_of_each(int ranks)
{
    return (size_t)ranks;
}

static size_t triangle(int ranks)
{
    return (size_t)ranks * ((size_t)ranks + 1) / 2;
}

/* ---- bus factors (docs/figures.md) ---- */

static double of_all_reduce(int ranks)
{
    return 2.0 * (ranks - 1) / ranks;
}

static double of_others(int ranks)
{
    return (ranks - 1.0) / ranks;
}

static double of_all_to_all_v(int ranks)
{
    return 1 - 1 / (double)triangle(ranks);
}

static double whole(int ranks)
{
    return ranks > 1;
}

/* ---- what is sent, what is received ---- */

static size_t send_nothing(const bench_call *c)
{
    (void)c;
    return 0;
}

static size_t send_unit(const bench_call *c)
{
    return c->unit;
}

static size_t send_two_units(const bench_call *c)
{
    return 2 * c->unit;
}

static size_t send_to_each(const bench_call *c)
{
    return c->unit * (size_t)c->ranks;
}

static size_t send_root_to_each(const bench_call *c)
{
    return c->rank == c->root ? send_to_each(c) : 0;
}

static size_t send_triangle(const bench_call *c)
{
    return c->unit * triangle(c->ranks);
}

static size_t receive_nothing(const bench_call *c, bench_part *parts)
{
    (void)c, (void)parts;
    return 0;
}

static size_t receive_folded(const bench_call *c, bench_part *parts)
{
    parts[0] = (bench_part){BENCH_FOLDED(c->ranks), 0, c->unit};
    return 1;
}

static size_t receive_prefix(const bench_call *c, bench_part *parts)
{
    parts[0] = (bench_part){BENCH_FOLDED(c->rank + 1), 0, c->unit};
    return 1;
}

/* Rank 0 receives nothing. */
static size_t receive_prefix_before(const bench_call *c, bench_part *parts)
{
    parts[0] = (bench_part){BENCH_FOLDED(c->rank), 0, c->unit};
    return c->rank > 0;
}

static size_t receive_folded_at_root(const bench_call *c, bench_part *parts)
{
    return c->rank == c->root ? receive_folded(c, parts) : 0;
}

static size_t receive_folded_part(const bench_call *c, bench_part *parts)
{
    parts[0] = (bench_part){BENCH_FOLDED(c->ranks), c->unit * (size_t)c->rank, c->unit};
    return 1;
}

static size_t receive_from_each(const bench_call *c, bench_part *parts)
{
    for (int from = 0; from < c->ranks; from++)
        parts[from] = (bench_part){from, 0, c->unit};
    return (size_t)c->ranks;
}

static size_t receive_from_each_at_root(const bench_call *c, bench_part *parts)
{
    return c->rank == c->root ? receive_from_each(c, parts) : 0;
}

static size_t receive_of_root(const bench_call *c, bench_part *parts)
{
    parts[0] = (bench_part){c->root, 0, c->unit};
    return 1;
}

static size_t receive_part_of_root(const bench_call *c, bench_part *parts)
{
    parts[0] = (bench_part){c->root, c->unit * (size_t)c->rank, c->unit};
    return 1;
}

static size_t receive_part_of_each(const bench_call *c, bench_part *parts)
{
    for (int from = 0; from < c->ranks; from++)
        parts[from] = (bench_part){from, c->unit * (size_t)c->rank, c->unit};
    return (size_t)c->ranks;
}

/* all_to_all_v: every rank sends 1, 2, .., n units, each to another one, and receives as many. */
static size_t varying_count(const bench_call *c, int from, int to)
{
    return c->unit * (size_t)((from + to) % c->ranks + 1);
}

static size_t receive_varying(const bench_call *c, bench_part *parts)
{
    for (int from = 0; from < c->ranks; from++) {
        parts[from] = (bench_part){from, 0, varying_count(c, from, c->rank)};
        for (int before = 0; before < c->rank; before++)
            parts[from].first += varying_count(c, from, before);
    }
    return (size_t)c->ranks;
}

/* The ranks stand in a circle for what goes to neighbours. */
static int rank_before(const bench_call *c)
{
    return (c->rank + c->ranks - 1) % c->ranks;
}

static int rank_behind(const bench_call *c)
{
    return (c->rank + 1) % c->ranks;
}

static size_t receive_of_rank_before(const bench_call *c, bench_part *parts)
{
    parts[0] = (bench_part){rank_before(c), 0, c->unit};
    return 1;
}

/* Who stands behind sent its first half here, who stands before its second. */
static size_t receive_halves(const bench_call *c, bench_part *parts)
{
    parts[0] = (bench_part){rank_behind(c), 0, c->unit};
    parts[1] = (bench_part){rank_before(c), c->unit, c->unit};
    return 2;
}

/* A tile of two rows, which both go out, with a row of halo above and below. */
static size_t receive_rows(const bench_call *c, bench_part *parts)
{
    parts[0] = (bench_part){rank_before(c), c->unit, c->unit};
    parts[1] = (bench_part){c->rank, 0, 2 * c->unit};
    parts[2] = (bench_part){rank_behind(c), 0, c->unit};
    return 3;
}

/* ---- calls ---- */

static psring_err all_reduce(const bench_call *c, psring_request **r)
{
    return psring_all_reduce(c->group, c->send, c->receive, c->unit, c->type, c->op, c->options, r);
}

static psring_err reduce(const bench_call *c, psring_request **r)
{
    return psring_reduce(c->group, c->send, c->receive, c->unit, c->type, c->op, c->root,
                         c->options, r);
}

static psring_err reduce_scatter(const bench_call *c, psring_request **r)
{
    return psring_reduce_scatter(c->group, c->send, c->receive, c->unit, c->type, c->op, c->options,
                                 r);
}

static psring_err scan(const bench_call *c, psring_request **r)
{
    return psring_scan(c->group, c->send, c->receive, c->unit, c->type, c->op, c->options, r);
}

static psring_err exscan(const bench_call *c, psring_request **r)
{
    return psring_exscan(c->group, c->send, c->receive, c->unit, c->type, c->op, c->options, r);
}

static psring_err all_gather(const bench_call *c, psring_request **r)
{
    return psring_all_gather(c->group, c->send, c->receive, c->unit, c->type, c->options, r);
}

static psring_err broadcast(const bench_call *c, psring_request **r)
{
    return psring_broadcast(c->group, c->receive, c->unit, c->type, c->root, c->options, r);
}

static psring_err gather(const bench_call *c, psring_request **r)
{
    return psring_gather(c->group, c->send, c->receive, c->unit, c->type, c->root, c->options, r);
}

static psring_err scatter(const bench_call *c, psring_request **r)
{
    return psring_scatter(c->group, c->send, c->receive, c->unit, c->type, c->root, c->options, r);
}

static psring_err all_to_all(const bench_call *c, psring_request **r)
{
    return psring_all_to_all(c->group, c->send, c->receive, c->unit, c->type, c->options, r);
}

static psring_err all_to_all_v(const bench_call *c, psring_request **r)
{
    size_t *send = c->counts, *receive = send + c->ranks;
    for (int other = 0; other < c->ranks; other++) {
        send[other] = varying_count(c, c->rank, other);
        receive[other] = varying_count(c, other, c->rank);
    }
    return psring_all_to_all_v(c->group, c->send, send, c->receive, receive, c->type, c->options,
                               r);
}

static psring_err barrier(const bench_call *c, psring_request **r)
{
    return psring_barrier(c->group, c->options, r);
}

/* A message to the rank behind, and one from the rank before. The request is the receive's. */
static psring_err send_receive(const bench_call *c, psring_request **r)
{
    psring_request *receive = NULL;
    psring_err err = psring_receive(c->group, c->receive, c->unit, c->type, rank_before(c), 0,
                                    c->options, &receive);
    if (err == PSRING_OK)
        err = psring_send(c->group, c->send, c->unit, c->type, rank_behind(c), 0, c->options, NULL);
    if (err == PSRING_OK && r == NULL)
        err = psring_wait(receive, PSRING_FOREVER);
    if (err == PSRING_OK && r != NULL)
        *r = receive;
    else
        psring_request_free(&receive);
    return err;
}

static psring_block half(const bench_call *c, const void *data, size_t index, int rank)
{
    char *first = (char *)(uintptr_t)data; /* only read when it is sent */
    return (psring_block){.rank = rank,
                          .data = first + index * c->unit * bench_type_bytes(c->type),
                          .shape = {1, 1, 1, c->unit}};
}

static psring_err neighbor_exchange(const bench_call *c, psring_request **r)
{
    const psring_block send[] = {half(c, c->send, 0, rank_before(c)),
                                 half(c, c->send, 1, rank_behind(c))};
    const psring_block receive[] = {half(c, c->receive, 0, rank_behind(c)),
                                    half(c, c->receive, 1, rank_before(c))};
    return psring_neighbor_exchange(c->group, send, 2, receive, 2, c->type, c->options, r);
}

static psring_err halo_exchange(const bench_call *c, psring_request **r)
{
    enum { TOP = 0, BOTTOM = 4, EDGES = 8 };
    psring_halo halo = {.size = sizeof halo,
                        .shape = {1, 1, 2, c->unit},
                        .send_lengths = {1, 1, 0, 0},
                        .receive_lengths = {1, 1, 0, 0}};
    for (int edge = 0; edge < EDGES; edge++)
        halo.send_ranks[edge] = halo.receive_ranks[edge] = PSRING_NO_RANK;
    halo.send_ranks[TOP] = halo.receive_ranks[TOP] = rank_before(c);
    halo.send_ranks[BOTTOM] = halo.receive_ranks[BOTTOM] = rank_behind(c);
    return psring_halo_exchange(c->group, &halo, c->send, c->receive, c->type, c->options, r);
}

const bench_operation bench_operations[] = {
    {"all_reduce", .folds = true, .units = one, .bus_factor = of_all_reduce, .sent = send_unit,
     .received = receive_folded, .start = all_reduce},
    {"reduce", .folds = true, .has_root = true, .units = one, .bus_factor = whole,
     .sent = send_unit, .received = receive_folded_at_root, .start = reduce},
    {"reduce_scatter", .folds = true, .count_is_of_rank = true, .units = one_of_each,
     .bus_factor = of_others, .sent = send_to_each, .received = receive_folded_part,
     .start = reduce_scatter},
    {"scan", .folds = true, .scans = true, .units = one, .bus_factor = whole, .sent = send_unit,
     .received = receive_prefix, .start = scan},
    {"exscan", .folds = true, .scans = true, .units = one, .bus_factor = whole, .sent = send_unit,
     .received = receive_prefix_before, .start = exscan},
    {"all_gather", .count_is_of_rank = true, .units = one_of_each, .bus_factor = of_others,
     .sent = send_unit, .received = receive_from_each, .start = all_gather},
    {"broadcast", .has_root = true, .in_place = true, .units = one, .bus_factor = whole,
     .sent = send_nothing, .received = receive_of_root, .start = broadcast},
    {"gather", .has_root = true, .count_is_of_rank = true, .units = one_of_each,
     .bus_factor = of_others, .sent = send_unit, .received = receive_from_each_at_root,
     .start = gather},
    {"scatter", .has_root = true, .count_is_of_rank = true, .units = one_of_each,
     .bus_factor = of_others, .sent = send_root_to_each, .received = receive_part_of_root,
     .start = scatter},
    {"all_to_all", .count_is_of_rank = true, .units = one_of_each, .bus_factor = of_others,
     .sent = send_to_each, .received = receive_part_of_each, .start = all_to_all},
    {"all_to_all_v", .units = triangle, .bus_factor = of_all_to_all_v, .sent = send_triangle,
     .received = receive_varying, .start = all_to_all_v},
    {"send_receive", .least_ranks = 2, .units = one, .bus_factor = whole, .sent = send_unit,
     .received = receive_of_rank_before, .start = send_receive},
    {"neighbor_exchange", .units = two, .bus_factor = whole, .sent = send_two_units,
     .received = receive_halves, .start = neighbor_exchange},
    {"halo_exchange", .units = two, .bus_factor = whole, .sent = send_two_units,
     .received = receive_rows, .start = halo_exchange},
    {"barrier", .units = none, .bus_factor = whole, .sent = send_nothing,
     .received = receive_nothing, .start = barrier},
};
const size_t bench_operation_count = sizeof bench_operations / sizeof bench_operations[0];
