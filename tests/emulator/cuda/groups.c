/* Sums over processes of this host, for NCCL's. The process that made the id listens at a socket of
 * the abstract space, which leaves nothing behind, and is the hub: it folds the members' values in
 * their order and sends the sum to all. A member that ends hangs up, and so ends the group.
 *
 * The id: the socket's name, which nobody guesses. */
#include "tests/emulator/cuda/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef struct hello {
    uint32_t members, member;
} hello;

struct psr_cuda_group {
    psr_emulator_made made;
    uint32_t members, member;
    int *sockets; /* the hub's: of each other member; a member's: one, to the hub */
    uint32_t socket_count;
    bool is_hub, failed;
};

/* ---- the sockets that wait for members ---- */

typedef struct listening {
    struct listening *next;
    uint8_t id[PSR_CUDA_GROUP_ID_BYTES];
    int socket;
} listening;

static pthread_mutex_t listeners_lock = PTHREAD_MUTEX_INITIALIZER;
static listening *listeners;

static struct sockaddr_un address_of(const uint8_t *id)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path + 1, id, 64); /* the first byte is 0: abstract */
    return address;
}

#define ADDRESS_BYTES ((socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + 64))

psr_err psr_emulator_group_id(uint8_t ret_id[PSR_CUDA_GROUP_ID_BYTES])
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return psr_fail(PSR_ERR_COMPUTE, "there are no random numbers for a group's id");
    listening *l = calloc(1, sizeof *l);
    if (l == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory is left for a group");
    snprintf((char *)l->id, sizeof l->id, "psring-emulated-group-%016llx%016llx",
             (unsigned long long)random[0], (unsigned long long)random[1]);
    const struct sockaddr_un address = address_of(l->id);
    l->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->socket < 0 || bind(l->socket, (const struct sockaddr *)&address, ADDRESS_BYTES) != 0 ||
        listen(l->socket, 1024) != 0) {
        const psr_err err =
            psr_fail(PSR_ERR_COMPUTE, "a group's socket cannot be made: %s", strerror(errno));
        if (l->socket >= 0)
            close(l->socket);
        free(l);
        return err;
    }
    memcpy(ret_id, l->id, sizeof l->id);
    pthread_mutex_lock(&listeners_lock);
    l->next = listeners;
    listeners = l;
    pthread_mutex_unlock(&listeners_lock);
    return PSR_OK;
}

/* The socket of an id that this process made, which is the caller's now; -1: there is none. */
static int take_listener(const uint8_t *id)
{
    int found = -1;
    pthread_mutex_lock(&listeners_lock);
    for (listening **from = &listeners; *from != NULL && found < 0;) {
        listening *l = *from;
        if (memcmp(l->id, id, sizeof l->id) == 0) {
            found = l->socket;
            *from = l->next;
            free(l);
        } else {
            from = &l->next;
        }
    }
    pthread_mutex_unlock(&listeners_lock);
    return found;
}

/* ---- bytes ---- */

static bool send_all(int socket, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        const ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool receive_all(int socket, void *bytes, size_t size)
{
    char *at = bytes;
    while (size > 0) {
        const ssize_t received = recv(socket, at, size, 0);
        if (received < 0 && errno == EINTR)
            continue;
        if (received <= 0)
            return false;
        at += received;
        size -= (size_t)received;
    }
    return true;
}

/* ---- joining ---- */

static void hang_up(const psr_cuda_group *group)
{
    for (uint32_t i = 0; i < group->socket_count; i++)
        if (group->sockets[i] >= 0)
            shutdown(group->sockets[i], SHUT_RDWR);
}

static void free_group(psr_cuda_group *group)
{
    for (uint32_t i = 0; i < group->socket_count; i++)
        if (group->sockets[i] >= 0)
            close(group->sockets[i]);
    free(group->sockets);
    free(group);
}

static bool same_user(int socket)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

/* Waits for all others, and then tells them so. */
static psr_err gather(psr_cuda_group *group, int listener)
{
    for (uint32_t missing = group->members - 1; missing > 0;) {
        const int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (peer < 0 && errno == EINTR)
            continue;
        if (peer < 0)
            return psr_fail(PSR_ERR_COMPUTE, "a group's socket failed: %s", strerror(errno));
        hello said;
        if (!same_user(peer) || !receive_all(peer, &said, sizeof said)) {
            close(peer);
            continue;
        }
        if (said.members != group->members || said.member >= group->members ||
            said.member == group->member || group->sockets[said.member] >= 0) {
            close(peer);
            return psr_fail(PSR_ERR_COMPUTE, "member %u of %u joins a group of %u", said.member,
                            said.members, group->members);
        }
        group->sockets[said.member] = peer;
        missing--;
    }
    for (uint32_t i = 0; i < group->members; i++)
        if (group->sockets[i] >= 0 && !send_all(group->sockets[i], "", 1))
            return psr_fail(PSR_ERR_COMPUTE, "member %u left a group before all had joined", i);
    return PSR_OK;
}

static psr_err reach_hub(psr_cuda_group *group, const uint8_t *id)
{
    const struct sockaddr_un address = address_of(id);
    const hello said = {group->members, group->member};
    char all;
    group->sockets[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (group->sockets[0] < 0 ||
        connect(group->sockets[0], (const struct sockaddr *)&address, ADDRESS_BYTES) != 0)
        return psr_fail(PSR_ERR_COMPUTE, "a group cannot be joined: %s", strerror(errno));
    if (!send_all(group->sockets[0], &said, sizeof said) ||
        !receive_all(group->sockets[0], &all, 1))
        return psr_fail(PSR_ERR_COMPUTE, "a group ended before all had joined");
    return PSR_OK;
}

static void end_made(void *object)
{
    psr_emulator_group_end(object);
}

psr_err psr_emulator_group_join(psr_cuda_device *device, const uint8_t id[PSR_CUDA_GROUP_ID_BYTES],
                                uint32_t members, uint32_t member, psr_cuda_group **ret_group)
{
    if (members == 0 || member >= members)
        return psr_fail(PSR_ERR_COMPUTE, "there is no member %u of %u", member, members);
    psr_cuda_group *group = calloc(1, sizeof *group);
    if (group == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory is left for a group");
    const int listener = take_listener(id);
    group->members = members;
    group->member = member;
    group->is_hub = listener >= 0;
    group->socket_count = group->is_hub ? members : 1;
    group->sockets = calloc(group->socket_count, sizeof *group->sockets);
    if (group->sockets == NULL)
        psr_emulator_fault("no memory is left on the host");
    for (uint32_t i = 0; i < group->socket_count; i++)
        group->sockets[i] = -1;
    const psr_err err = group->is_hub ? gather(group, listener) : reach_hub(group, id);
    if (listener >= 0)
        close(listener);
    if (err != PSR_OK) {
        free_group(group);
        return err;
    }
    psr_emulator_keep(device, PSR_EMULATOR_GROUP, &group->made, end_made);
    *ret_group = group;
    return PSR_OK;
}

/* ---- sums ---- */

static void fail(psr_cuda_group *group)
{
    pthread_mutex_lock(&group->made.device->lock);
    group->failed = true;
    pthread_mutex_unlock(&group->made.device->lock);
    hang_up(group);
}

/* All members' counts have to be the hub's. */
static bool fold_at_hub(const psr_cuda_group *group, float *sums, size_t count)
{
    float *own = malloc((count + 1) * sizeof *own), *other = malloc((count + 1) * sizeof *other);
    if (own == NULL || other == NULL)
        psr_emulator_fault("no memory is left on the host");
    memcpy(own, sums, count * sizeof *own);
    bool whole = true;
    for (uint32_t m = 0; m < group->members && whole; m++) {
        uint64_t its_count = count;
        if (m != group->member)
            whole = receive_all(group->sockets[m], &its_count, sizeof its_count) &&
                    its_count == count &&
                    receive_all(group->sockets[m], other, count * sizeof *other);
        const float *from = m == group->member ? own : other;
        for (size_t i = 0; i < count && whole; i++)
            sums[i] = m == 0 ? from[i] : sums[i] + from[i];
    }
    for (uint32_t m = 0; m < group->members && whole; m++)
        if (m != group->member)
            whole = send_all(group->sockets[m], sums, count * sizeof *sums);
    free(own);
    free(other);
    return whole;
}

static bool sum_by_hub(const psr_cuda_group *group, float *values, size_t count)
{
    const uint64_t own_count = count;
    return send_all(group->sockets[0], &own_count, sizeof own_count) &&
           send_all(group->sockets[0], values, count * sizeof *values) &&
           receive_all(group->sockets[0], values, count * sizeof *values);
}

/* A sum that failed leaves no numbers. */
void psr_emulator_group_carry_out(psr_cuda_group *group, float *values, size_t count)
{
    pthread_mutex_lock(&group->made.device->lock);
    const bool failed = group->failed;
    pthread_mutex_unlock(&group->made.device->lock);
    if (!failed && (group->is_hub ? fold_at_hub : sum_by_hub)(group, values, count))
        return;
    fail(group);
    memset(values, 0xff, count * sizeof *values);
}

psr_err psr_emulator_group_check(psr_cuda_group *group)
{
    pthread_mutex_lock(&group->made.device->lock);
    const bool failed = group->failed;
    pthread_mutex_unlock(&group->made.device->lock);
    if (failed)
        return psr_fail(PSR_ERR_COMPUTE,
                        "a member of the group of %u devices left it, or gave "
                        "another number of values",
                        group->members);
    return PSR_OK;
}

void psr_emulator_group_end(psr_cuda_group *group)
{
    if (group == NULL)
        return;
    fail(group);
    psr_emulator_finish_sums(group->made.device, group);
    psr_emulator_forget(&group->made);
    free_group(group);
}
