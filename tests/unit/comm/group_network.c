#include "tests/unit/comm/group_network.h"

typedef struct sender {
    network *net;
    uint32_t rank;
} sender;

static sender senders[NETWORK_RANKS_MAX];

static psr_peer name_of(uint32_t rank)
{
    return (psr_peer){PSR_ROLE_WORKER, 2 * rank + 1};
}

static psr_err send_on(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    const sender *s = context;
    return psr_transport_send(s->net->transports[s->rank], to, head, payload);
}

static void open_rank(network *net, uint32_t rank, const psr_group_options *common)
{
    senders[rank] = (sender){net, rank};
    assert_ok(psr_transport_sim_new(net->sim, name_of(rank), &net->transports[rank]));
    for (uint32_t to = 0; to < net->ranks; to++)
        if (to != rank)
            assert_ok(psr_transport_connect(net->transports[rank], name_of(to), "", NULL));
    psr_group_options options = *common;
    options.rank = rank;
    options.outbox = (psr_outbox){.context = &senders[rank], .send = send_on};
    assert_ok(psr_group_new(&options, &net->groups[rank]));
}

static network *open_network(uint32_t ranks, size_t slice_bytes, uint32_t window, uint64_t seed,
                             bool shared)
{
    network *net = calloc(1, sizeof *net);
    net->ranks = ranks;
    net->window = window;
    net->seed = seed;
    psr_sim_faults faults = {
        .seed = seed, .delay_max_us = (uint32_t)(seed % 3) * 25, .by_reference = shared};
    assert_ok(psr_sim_new(&faults, &net->sim));
    psr_peer members[NETWORK_RANKS_MAX];
    for (uint32_t r = 0; r < ranks; r++)
        members[r] = name_of(r);
    psr_group_options common = {.epoch = NETWORK_EPOCH,
                                .id = NETWORK_GROUP,
                                .ranks = ranks,
                                .members = members,
                                .hosts = 1,
                                .slice_bytes = slice_bytes,
                                .shares_memory = shared,
                                .window = window};
    for (uint32_t r = 0; r < ranks; r++)
        open_rank(net, r, &common);
    return net;
}

network *network_open(uint32_t ranks, size_t slice_bytes, uint32_t window, uint64_t seed)
{
    return open_network(ranks, slice_bytes, window, seed, false);
}

network *network_open_shared(uint32_t ranks, size_t slice_bytes, uint32_t window, uint64_t seed)
{
    return open_network(ranks, slice_bytes, window, seed, true);
}

void network_close_broken(network *net, psr_request **requests, size_t count)
{
    for (uint32_t r = 0; r < net->ranks; r++)
        psr_transport_free(&net->transports[r], 0);
    psr_sim_free(net->sim); /* gives back what is lent */
    for (size_t i = 0; i < count; i++)
        psr_request_free(requests[i]);
    for (uint32_t r = 0; r < net->ranks; r++)
        psr_group_free(net->groups[r]);
    free(net);
}

void network_close(network *net)
{
    network_close_broken(net, NULL, 0);
}

bool network_deliver(network *net, psr_err *ret_err)
{
    psr_peer to;
    psr_message *message = NULL;
    if (!psr_sim_step(net->sim, &to))
        return false;
    uint32_t rank = (to.rank - 1) / 2;
    assert_ok(psr_transport_recv(net->transports[rank], 0, &message));
    psr_err err = psr_group_message(net->groups[rank], &message);
    assert_null(message);
    if (ret_err != NULL)
        *ret_err = err;
    else if (err != PSR_OK)
        fail_msg("seed %llu, rank %u of %u: %s", (unsigned long long)net->seed, rank, net->ranks,
                 psr_err_detail());
    return true;
}

void network_settle(network *net)
{
    while (network_deliver(net, NULL))
        ;
}

void network_cut(network *net, uint32_t rank)
{
    psr_sim_cut(net->sim, name_of(rank));
}

uint32_t network_draw(network *net, uint32_t bound)
{
    psr_rng_at at = {.seed = net->seed, .purpose = PSR_RNG_TEST, .layer = 1};
    return psr_rng_below(at, &net->draws, bound);
}

psr_request *network_request(network *net, uint32_t rank, const psr_request_options *options)
{
    psr_request *request = NULL;
    assert_ok(psr_request_new(net->groups[rank], options, &request));
    return request;
}

uint32_t network_waits(const psr_request *request)
{
    psr_waiting waiting;
    assert_true(psr_request_waits(request, &waiting));
    assert_int_equal(waiting.peer.role, PSR_ROLE_WORKER);
    return (waiting.peer.rank - 1) / 2;
}
