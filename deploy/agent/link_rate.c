#include "deploy/agent/link_rate.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SEND_NS 100000000
#define SEND_BYTES_MAX ((uint64_t)16 << 20)
/* What waits in the kernel when sending ends should be gone soon, also over a slow link. */
#define SEND_BUFFER_BYTES (128 << 10)
#define CHUNK_BYTES (64 << 10)
#define AT_ONCE 8    /* chunks, before the other direction is looked at */
#define GUESTS_MAX 4 /* connections that have not said the token yet */
#define SAMPLES_MAX 4096
#define SAMPLE_NS 100000 /* between two samples at least */
#define BYTES_LEAST 4096 /* fewer tell nothing */

typedef struct guest {
    int fd; /* -1: none */
    size_t said;
} guest;

typedef struct measuring {
    const psr_link_way *way;
    int listener, out, in;
    guest guests[GUESTS_MAX];
    size_t token_sent;
    uint64_t sent;
    int64_t sending_until_ns; /* 0: no connection yet */
    bool all_sent, all_came;
    uint64_t came;
    size_t count;
    psr_link_sample samples[SAMPLES_MAX];
    char chunk[CHUNK_BYTES];
} measuring;

/* ---- sockets ---- */

/* The caller frees *ret_info: freeaddrinfo. */
static psr_err numeric(const char *address, uint16_t port, struct addrinfo **ret_info)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    const int failed = getaddrinfo(address, service, &hints, ret_info);
    return failed == 0 ? PSR_OK : psr_fail(PSR_ERR_IO, "%.63s: %s", address, gai_strerror(failed));
}

static int open_socket(const struct addrinfo *info)
{
    return socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

psr_err psr_link_listen(const char *interface, psr_link_listener *ret_listener)
{
    psr_link_listener listener = {.fd = -1};
    PSR_TRY(psr_interface_address(interface, listener.address));
    PSR_TRY(psr_interface_reserve(listener.address, &listener.port, &listener.fd));
    if (fcntl(listener.fd, F_SETFL, O_NONBLOCK) != 0 || listen(listener.fd, GUESTS_MAX) != 0) {
        psr_err err = psr_fail(PSR_ERR_IO, "%s: %s", interface, strerror(errno));
        psr_link_listener_done(&listener);
        return err;
    }
    *ret_listener = listener;
    return PSR_OK;
}

void psr_link_listener_done(psr_link_listener *listener)
{
    if (listener->fd >= 0)
        close(listener->fd);
    listener->fd = -1;
}

/* What is still on its way is dropped, so that it is out of the run's way. */
static void drop(int fd)
{
    const struct linger none = {.l_onoff = 1, .l_linger = 0};
    if (fd < 0)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(fd);
}

/* ---- sending ---- */

static psr_err begin_sending(measuring *m)
{
    const int bytes = SEND_BUFFER_BYTES;
    struct addrinfo *info = NULL;
    PSR_TRY(numeric(m->way->address, m->way->port, &info));
    m->out = open_socket(info);
    if (m->out >= 0)
        (void)setsockopt(m->out, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    const bool begun = m->out >= 0 && (connect(m->out, info->ai_addr, info->ai_addrlen) == 0 ||
                                       errno == EINPROGRESS);
    const int number = errno;
    freeaddrinfo(info);
    return begun ? PSR_OK : psr_fail(PSR_ERR_IO, "%.63s: %s", m->way->address, strerror(number));
}

static bool may_not_now(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* false: the connection has failed. */
static bool send_more(measuring *m, int64_t now_ns)
{
    if (m->sending_until_ns == 0)
        m->sending_until_ns = now_ns + SEND_NS;
    for (int turn = 0; turn < AT_ONCE; turn++) {
        const bool token = m->token_sent < PSR_LINK_TOKEN_BYTES;
        if (!token && (m->sent >= SEND_BYTES_MAX || psr_clock_ns() >= m->sending_until_ns)) {
            m->all_sent = true;
            (void)shutdown(m->out, SHUT_WR);
            return true;
        }
        const ssize_t n = token ? send(m->out, m->way->token + m->token_sent,
                                       PSR_LINK_TOKEN_BYTES - m->token_sent, MSG_NOSIGNAL)
                                : send(m->out, m->chunk, sizeof m->chunk, MSG_NOSIGNAL);
        if (n < 0)
            return may_not_now();
        if (token)
            m->token_sent += (size_t)n;
        else
            m->sent += (uint64_t)n;
    }
    return true;
}

/* ---- receiving ---- */

static void take_guests(measuring *m)
{
    for (size_t i = 0; i < GUESTS_MAX && m->in < 0; i++)
        if (m->guests[i].fd < 0) {
            m->guests[i] =
                (guest){.fd = accept4(m->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)};
            if (m->guests[i].fd < 0)
                return;
        }
}

/* Who says another token is sent away. */
static void hear_guest(measuring *m, guest *g)
{
    char said[PSR_LINK_TOKEN_BYTES];
    const ssize_t n = recv(g->fd, said, sizeof said - g->said, 0);
    if (n < 0 && may_not_now())
        return;
    if (n <= 0 || memcmp(said, m->way->own_token + g->said, (size_t)n) != 0) {
        drop(g->fd);
        g->fd = -1;
        return;
    }
    g->said += (size_t)n;
    if (g->said < sizeof said)
        return;
    m->in = g->fd;
    g->fd = -1;
}

static void note(measuring *m, int64_t now_ns)
{
    const bool far = m->count < 2 || now_ns - m->samples[m->count - 2].at_ns >= SAMPLE_NS;
    if (m->count < SAMPLES_MAX && far)
        m->count++;
    m->samples[m->count - 1] = (psr_link_sample){now_ns, m->came};
}

static void receive_more(measuring *m)
{
    for (int turn = 0; turn < AT_ONCE; turn++) {
        const ssize_t n = recv(m->in, m->chunk + sizeof m->chunk / 2, sizeof m->chunk / 2, 0);
        if (n < 0 && may_not_now())
            return;
        if (n <= 0) {
            m->all_came = true;
            return;
        }
        m->came += (size_t)n;
        note(m, psr_clock_ns());
    }
}

uint64_t psr_link_rate_of(const psr_link_sample *samples, size_t count)
{
    if (count < 2 || samples[count - 1].bytes < BYTES_LEAST)
        return 0;
    const psr_link_sample *end = &samples[count - 1], *half = samples;
    while (half + 1 < end && half->bytes < end->bytes / 2)
        half++;
    const int64_t taken_ns = end->at_ns - half->at_ns;
    return taken_ns > 0 ? (uint64_t)((double)(end->bytes - half->bytes) * 8e9 / (double)taken_ns)
                        : 0;
}

/* ---- both ---- */

static void run(measuring *m, int64_t end_ns)
{
    int64_t now_ns = psr_clock_ns();
    while (now_ns < end_ns && (!m->all_sent || !m->all_came)) {
        struct pollfd fds[3 + GUESTS_MAX] = {
            {.fd = m->all_sent ? -1 : m->out, .events = POLLOUT},
            {.fd = m->all_came ? -1 : m->in, .events = POLLIN},
            {.fd = m->in < 0 ? m->listener : -1, .events = POLLIN},
        };
        for (size_t i = 0; i < GUESTS_MAX; i++)
            fds[3 + i] = (struct pollfd){.fd = m->guests[i].fd, .events = POLLIN};
        (void)poll(fds, sizeof fds / sizeof *fds, (int)((end_ns - now_ns) / 1000000) + 1);
        now_ns = psr_clock_ns();
        if (fds[0].revents != 0 && !send_more(m, now_ns))
            m->all_sent = true;
        if (fds[1].revents != 0)
            receive_more(m);
        if (fds[2].revents != 0)
            take_guests(m);
        for (size_t i = 0; i < GUESTS_MAX; i++)
            if (fds[3 + i].revents != 0 && m->guests[i].fd >= 0 && m->in < 0)
                hear_guest(m, &m->guests[i]);
    }
}

static psr_err measure(measuring *m, uint64_t *ret_bits_per_s)
{
    PSR_TRY(begin_sending(m));
    run(m, psr_clock_ns() + PSR_LINK_MEASURE_MS * INT64_C(1000000));
    const uint64_t rate = psr_link_rate_of(m->samples, m->count);
    if (rate == 0)
        return psr_fail(PSR_ERR_TIMEOUT, "%llu bytes came in %d ms, too few to tell a rate",
                        (unsigned long long)m->came, PSR_LINK_MEASURE_MS);
    *ret_bits_per_s = rate;
    return PSR_OK;
}

psr_err psr_link_measure(const psr_link_listener *listener, const psr_link_way *way,
                         uint64_t *ret_bits_per_s)
{
    char endpoint[PSR_ADDRESS_BYTES + 16];
    psr_endpoint_format(way->address, way->port, endpoint, sizeof endpoint);
    if (psr_endpoint_is_own(endpoint))
        return psr_fail(PSR_ERR_UNSUPPORTED, "%.63s is this host: there is no link between",
                        way->address);
    measuring *m = calloc(1, sizeof *m);
    if (m == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a measurement");
    *m = (measuring){.way = way, .listener = listener->fd, .out = -1, .in = -1};
    for (size_t i = 0; i < GUESTS_MAX; i++)
        m->guests[i].fd = -1;
    psr_err err = measure(m, ret_bits_per_s);
    drop(m->out);
    drop(m->in);
    for (size_t i = 0; i < GUESTS_MAX; i++)
        drop(m->guests[i].fd);
    free(m);
    return err;
}
