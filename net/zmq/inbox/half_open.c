#include "net/zmq/inbox/half_open.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* rfc.zeromq.org/spec/23 to 26, the server's side: the greeting; then with PLAIN WELCOME (only to
 * admitted clients) and READY; with CURVE WELCOME (to everybody who sends a key) and READY. READY
 * has at least 30 bytes, ERROR at most 12. */
#define GREETING_BYTES 64
#define PLAIN_WELCOME_BYTES 10
#define CURVE_WELCOME_BYTES 170
#define ERROR_BYTES_MAX 12
/* TCP_ESTABLISHED of netinet/tcp.h, which does not go with linux/tcp.h */
#define ESTABLISHED 1

void psr_half_open_init(psr_half_open *half_open, bool curve)
{
    *half_open =
        (psr_half_open){.spare = eventfd(0, EFD_CLOEXEC), .nothing = eventfd(0, EFD_CLOEXEC)};
    half_open->stranger_bytes =
        GREETING_BYTES + (curve ? CURVE_WELCOME_BYTES : PLAIN_WELCOME_BYTES) + ERROR_BYTES_MAX;
}

void psr_half_open_done(psr_half_open *half_open)
{
    free(half_open->entries);
    free(half_open->processes);
    if (half_open->spare >= 0)
        close(half_open->spare);
    if (half_open->nothing >= 0)
        close(half_open->nothing);
    *half_open = (psr_half_open){.spare = -1, .nothing = -1};
}

/* ---- what the kernel says of a connection ---- */

static bool cookie_of(int fd, uint64_t *ret_cookie)
{
    socklen_t size = sizeof *ret_cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, ret_cookie, &size) == 0;
}

static bool is_unix(int fd)
{
    int family = 0;
    socklen_t size = sizeof family;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family == AF_UNIX;
}

/* 0: it is TCP. */
static pid_t process_of(int fd)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    if (!is_unix(fd))
        return 0;
    bool told = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0;
    return told ? peer.pid : PSR_HALF_OPEN_FOREIGN;
}

static bool was_let_in_over_tcp(const psr_half_open *half_open, int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        size < offsetof(struct tcp_info, tcpi_bytes_sent) + 8)
        return true; /* a kernel before 4.19: no connection is ended */
    return info.tcpi_bytes_sent - info.tcpi_bytes_retrans > half_open->stranger_bytes;
}

psr_half_open_state psr_half_open_state_of(int fd, uint64_t cookie)
{
    struct tcp_info info = {0};
    uint64_t now = 0;
    socklen_t size = sizeof info;
    const bool told = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
    if (cookie == 0 || !cookie_of(fd, &now) || now != cookie)
        return PSR_HALF_OPEN_ENDED;
    return told && info.tcpi_state != ESTABLISHED ? PSR_HALF_OPEN_ENDING : PSR_HALF_OPEN_CONNECTED;
}

/* 0: it is not TCP, or the kernel does not tell. */
static uint64_t received_over_tcp(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (is_unix(fd) || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        size < offsetof(struct tcp_info, tcpi_bytes_received) + 8)
        return 0;
    return info.tcpi_bytes_received;
}

/* Looks at the entry's connection through a descriptor of our own, which stays that connection's
 * whatever libzmq closes and accepts meanwhile. false: it is gone. end: ends it then. */
static bool look(const psr_half_open *half_open, psr_half_open_entry *entry, bool end)
{
    uint64_t cookie;
    if (half_open->nothing < 0 || dup3(entry->fd, half_open->spare, O_CLOEXEC) < 0)
        return false;
    bool is_there = cookie_of(half_open->spare, &cookie) && cookie == entry->cookie;
    if (is_there && end)
        /* libzmq then closes it as if the other end had */
        (void)shutdown(half_open->spare, SHUT_RDWR);
    entry->stranger =
        is_there && !is_unix(half_open->spare) && !was_let_in_over_tcp(half_open, half_open->spare);
    entry->greedy =
        is_there && entry->bytes_max > 0 && received_over_tcp(half_open->spare) > entry->bytes_max;
    (void)dup3(half_open->nothing, half_open->spare, O_CLOEXEC);
    return is_there;
}

/* ---- processes that were let in ---- */

static psr_half_open_process *find_process(const psr_half_open *half_open, pid_t process)
{
    for (size_t i = 0; i < half_open->process_count; i++)
        if (half_open->processes[i].process == process)
            return &half_open->processes[i];
    return NULL;
}

void psr_half_open_let_in(psr_half_open *half_open, pid_t process)
{
    psr_half_open_process *found = find_process(half_open, process);
    if (found != NULL) {
        found->let_in++;
        return;
    }
    if (half_open->process_count == half_open->process_capacity) {
        size_t capacity = half_open->process_capacity * 2 + 16;
        psr_half_open_process *grown = realloc(half_open->processes, capacity * sizeof *grown);
        if (grown == NULL)
            return; /* it may be ended while there are many, and then connects again */
        half_open->processes = grown;
        half_open->process_capacity = capacity;
    }
    half_open->processes[half_open->process_count++] =
        (psr_half_open_process){.process = process, .let_in = 1};
}

static void forget_one_of(psr_half_open *half_open, pid_t process)
{
    psr_half_open_process *found = find_process(half_open, process);
    if (found != NULL && --found->let_in == 0)
        *found = half_open->processes[--half_open->process_count];
}

/* The first connections of each process are the admitted ones, as many as were admitted. Admitted
 * connections that have ended are no longer counted. */
static void mark_unix_strangers(psr_half_open *half_open)
{
    for (size_t p = half_open->process_count; p-- > 0;) {
        psr_half_open_process *process = &half_open->processes[p];
        uint32_t there = 0;
        for (size_t i = 0; i < half_open->count && there < process->let_in; i++)
            if (half_open->entries[i].process == process->process) {
                half_open->entries[i].stranger = false;
                there++;
            }
        process->let_in = there;
        if (there == 0)
            *process = half_open->processes[--half_open->process_count];
    }
}

/* ---- the list ---- */

static void append(psr_half_open *half_open, psr_half_open_entry entry)
{
    if (half_open->count == half_open->capacity) {
        size_t capacity = half_open->capacity * 2 + PSR_HALF_OPEN_MAX;
        psr_half_open_entry *grown = realloc(half_open->entries, capacity * sizeof *grown);
        if (grown == NULL)
            return; /* it has the time of a handshake, like every other */
        half_open->entries = grown;
        half_open->capacity = capacity;
    }
    half_open->entries[half_open->count++] = entry;
}

static void take_out(psr_half_open *half_open, size_t at)
{
    memmove(&half_open->entries[at], &half_open->entries[at + 1],
            (half_open->count - at - 1) * sizeof *half_open->entries);
    half_open->count--;
}

bool psr_half_open_add(psr_half_open *half_open, int fd, uint64_t bytes_max, int64_t now_ms)
{
    psr_half_open_entry entry = {.fd = fd, .bytes_max = bytes_max, .since_ms = now_ms};
    if (!cookie_of(fd, &entry.cookie))
        return false;
    entry.process = process_of(fd);
    for (size_t i = 0; i < PSR_HALF_OPEN_EARLY; i++)
        if (half_open->early[i] == entry.cookie) {
            half_open->early[i] = 0;
            forget_one_of(half_open, entry.process);
            return true;
        }
    append(half_open, entry);
    return false;
}

uint64_t psr_half_open_known(psr_half_open *half_open, int fd)
{
    uint64_t cookie;
    if (!cookie_of(fd, &cookie))
        return 0;
    for (size_t i = 0; i < half_open->count; i++)
        if (half_open->entries[i].cookie == cookie) {
            forget_one_of(half_open, half_open->entries[i].process);
            take_out(half_open, i);
            return cookie;
        }
    half_open->early[half_open->early_at++ % PSR_HALF_OPEN_EARLY] = cookie;
    return cookie;
}

bool psr_half_open_unknown(psr_half_open *half_open, int fd, uint64_t cookie, int64_t now_ms)
{
    psr_half_open_entry entry = {.fd = fd, .cookie = cookie, .since_ms = now_ms};
    if (cookie == 0 || !look(half_open, &entry, false))
        return false;
    entry.process = process_of(fd);
    if (entry.process != 0)
        psr_half_open_let_in(half_open, entry.process);
    else
        entry.bytes_max = received_over_tcp(fd) + PSR_HALF_OPEN_BYTES_MAX;
    append(half_open, entry);
    return true;
}

/* Removes ended connections from the list; for the others finds out which were not admitted.
 * Returns how many. */
static size_t look_at_all(psr_half_open *half_open)
{
    size_t kept = 0, strangers = 0;
    for (size_t i = 0; i < half_open->count; i++)
        if (look(half_open, &half_open->entries[i], false))
            half_open->entries[kept++] = half_open->entries[i];
    half_open->count = kept;
    for (size_t i = 0; i < kept; i++)
        if (half_open->entries[i].process != 0)
            half_open->entries[i].stranger = true;
    mark_unix_strangers(half_open);
    for (size_t i = 0; i < kept; i++)
        strangers += half_open->entries[i].stranger;
    return strangers;
}

void psr_half_open_trim(psr_half_open *half_open, size_t most, bool settled)
{
    if (half_open->count <= most)
        return;
    size_t strangers = look_at_all(half_open), kept = 0;
    size_t too_many = strangers > most ? strangers - most : 0;
    for (size_t i = 0; i < half_open->count; i++) {
        psr_half_open_entry *entry = &half_open->entries[i];
        if (too_many > 0 && entry->stranger && (settled || entry->process != 0)) {
            (void)look(half_open, entry, true);
            too_many--;
        } else {
            half_open->entries[kept++] = *entry;
        }
    }
    half_open->count = kept;
}

size_t psr_half_open_end_silent(psr_half_open *half_open, int64_t until_ms)
{
    size_t kept = 0, ended = 0;
    for (size_t i = 0; i < half_open->count; i++) {
        psr_half_open_entry *entry = &half_open->entries[i];
        if (entry->since_ms > until_ms)
            half_open->entries[kept++] = *entry;
        else
            ended += look(half_open, entry, true);
    }
    half_open->count = kept;
    return ended;
}

bool psr_half_open_counts(const psr_half_open *half_open)
{
    for (size_t i = 0; i < half_open->count; i++)
        if (half_open->entries[i].bytes_max > 0)
            return true;
    return false;
}

size_t psr_half_open_end_greedy(psr_half_open *half_open)
{
    size_t kept = 0, ended = 0;
    for (size_t i = 0; i < half_open->count; i++) {
        psr_half_open_entry *entry = &half_open->entries[i];
        if (entry->bytes_max > 0 && look(half_open, entry, false) && entry->greedy)
            ended += look(half_open, entry, true);
        else
            half_open->entries[kept++] = *entry;
    }
    half_open->count = kept;
    return ended;
}

void psr_half_open_end(psr_half_open *half_open, int fd)
{
    for (size_t i = half_open->count; i-- > 0;)
        if (half_open->entries[i].fd == fd) {
            (void)look(half_open, &half_open->entries[i], true);
            take_out(half_open, i);
            return;
        }
}

int64_t psr_half_open_oldest_ms(const psr_half_open *half_open)
{
    return half_open->count > 0 ? half_open->entries[0].since_ms : INT64_MAX;
}
