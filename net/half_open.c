#include "net/half_open.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* rfc.zeromq.org/spec/23 to 26: of the server's side, the greeting, then with PLAIN WELCOME (only to those let in) and
 * READY, with CURVE WELCOME (to everybody who sends a key) and READY. READY has 30 bytes at least, ERROR 12 at most. */
#define GREETING_BYTES 64
#define PLAIN_WELCOME_BYTES 10
#define CURVE_WELCOME_BYTES 170
#define ERROR_BYTES_MAX 12

void psr_half_open_init(psr_half_open *half_open, bool curve)
{
    *half_open = (psr_half_open){.spare = eventfd(0, EFD_CLOEXEC), .nothing = eventfd(0, EFD_CLOEXEC)};
    half_open->stranger_bytes =
        GREETING_BYTES + (curve ? CURVE_WELCOME_BYTES : PLAIN_WELCOME_BYTES) + ERROR_BYTES_MAX;
}

void psr_half_open_done(psr_half_open *half_open)
{
    free(half_open->entries);
    if (half_open->spare >= 0)
        close(half_open->spare);
    if (half_open->nothing >= 0)
        close(half_open->nothing);
    *half_open = (psr_half_open){.spare = -1, .nothing = -1};
}

static bool cookie_of(int fd, uint64_t *ret_cookie)
{
    int family = 0;
    socklen_t size = sizeof family, cookie_size = sizeof *ret_cookie;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family != AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_COOKIE, ret_cookie, &cookie_size) == 0;
}

void psr_half_open_add(psr_half_open *half_open, int fd)
{
    psr_half_open_entry entry = {.fd = fd};
    if (!cookie_of(fd, &entry.cookie))
        return;
    if (half_open->count == half_open->capacity) {
        size_t capacity = half_open->capacity * 2 + PSR_HALF_OPEN_MAX;
        psr_half_open_entry *grown = realloc(half_open->entries, capacity * sizeof *grown);
        if (grown == NULL)
            return; /* it has its handshake's time, as every other */
        half_open->entries = grown;
        half_open->capacity = capacity;
    }
    half_open->entries[half_open->count++] = entry;
}

static bool was_let_in(const psr_half_open *half_open, int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        size < offsetof(struct tcp_info, tcpi_bytes_sent) + 8)
        return true; /* a kernel before 4.19: nobody is ended */
    return info.tcpi_bytes_sent - info.tcpi_bytes_retrans > half_open->stranger_bytes;
}

/* Is the entry's connection there and not let in? It is looked at through a descriptor of our own, which stays that
 * connection's whatever libzmq closes and accepts meanwhile. end: ends it then. */
static bool look(const psr_half_open *half_open, const psr_half_open_entry *entry, bool end)
{
    uint64_t cookie;
    if (dup3(entry->fd, half_open->spare, O_CLOEXEC) < 0)
        return false;
    bool is_half_open = cookie_of(half_open->spare, &cookie) && cookie == entry->cookie &&
                        !was_let_in(half_open, half_open->spare);
    if (is_half_open && end)
        (void)shutdown(half_open->spare, SHUT_RDWR); /* libzmq closes it as if the other end had */
    (void)dup3(half_open->nothing, half_open->spare, O_CLOEXEC);
    return is_half_open;
}

void psr_half_open_trim(psr_half_open *half_open)
{
    if (half_open->count <= PSR_HALF_OPEN_MAX || half_open->spare < 0 || half_open->nothing < 0)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < half_open->count; i++)
        if (look(half_open, &half_open->entries[i], false))
            half_open->entries[kept++] = half_open->entries[i];
    size_t too_many = kept > PSR_HALF_OPEN_MAX ? kept - PSR_HALF_OPEN_MAX : 0;
    for (size_t i = 0; i < too_many; i++)
        (void)look(half_open, &half_open->entries[i], true);
    for (size_t i = too_many; i < kept; i++)
        half_open->entries[i - too_many] = half_open->entries[i];
    half_open->count = kept - too_many;
}
