#include "ps/scheduler/lives.h"

#include "base/system/thread.h"
#include "comm/start/job_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AT_ONCE 16

struct psr_lives {
    const char *directory;
    void (*wake)(void *context);
    void *context;
    int epoll, quit;
    int ended[2]; /* a pipe: the thread sends the peers to its owner */
    pthread_t thread;
    bool thread_runs;
    int *pidfds; /* owned */
    size_t count;
};

static uint64_t number_of(psr_peer peer)
{
    return (uint64_t)peer.role << 32 | peer.rank;
}

#define QUIT UINT64_MAX

static void *wait_for_ends(void *context)
{
    psr_lives *lives = context;
    struct epoll_event events[AT_ONCE];
    for (;;) {
        int count = epoll_wait(lives->epoll, events, AT_ONCE, -1);
        if (count < 0 && errno != EINTR)
            return NULL;
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == QUIT)
                return NULL;
            /* A pipe has room for more peers than a run has members. */
            (void)!write(lives->ended[1], &events[i].data.u64, sizeof events[i].data.u64);
            lives->wake(lives->context);
        }
    }
}

static psr_err open_all(psr_lives *lives)
{
    struct epoll_event quits = {.events = EPOLLIN, .data.u64 = QUIT};
    lives->epoll = epoll_create1(EPOLL_CLOEXEC);
    lives->quit = eventfd(0, EFD_CLOEXEC);
    if (lives->epoll < 0 || lives->quit < 0 || pipe2(lives->ended, O_CLOEXEC | O_NONBLOCK) != 0 ||
        epoll_ctl(lives->epoll, EPOLL_CTL_ADD, lives->quit, &quits) != 0)
        return psr_fail(PSR_ERR_IO, "no descriptors to watch processes: %s", strerror(errno));
    PSR_TRY(psr_thread_start("psr-lives", wait_for_ends, lives, &lives->thread));
    lives->thread_runs = true;
    return PSR_OK;
}

psr_err psr_lives_new(const char *directory, void (*wake)(void *context), void *context,
                      psr_lives **ret_lives)
{
    psr_lives *lives = calloc(1, sizeof *lives);
    if (lives == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to watch processes");
    *lives = (psr_lives){.directory = directory,
                         .wake = wake,
                         .context = context,
                         .epoll = -1,
                         .quit = -1,
                         .ended = {-1, -1}};
    psr_err err = open_all(lives);
    if (err != PSR_OK) {
        psr_lives_free(lives);
        return err;
    }
    *ret_lives = lives;
    return PSR_OK;
}

void psr_lives_free(psr_lives *lives)
{
    if (lives == NULL)
        return;
    if (lives->thread_runs) {
        const uint64_t one = 1;
        (void)!write(lives->quit, &one, sizeof one);
        pthread_join(lives->thread, NULL);
    }
    for (size_t i = 0; i < lives->count; i++)
        close(lives->pidfds[i]);
    const int others[] = {lives->epoll, lives->quit, lives->ended[0], lives->ended[1]};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i] >= 0)
            close(others[i]);
    free(lives->pidfds);
    free(lives);
}

void psr_lives_watch(psr_lives *lives, psr_peer peer)
{
    int pidfd = -1;
    if (lives == NULL || psr_job_folder_holder(lives->directory, peer, &pidfd) != PSR_OK)
        return;
    int *grown = realloc(lives->pidfds, (lives->count + 1) * sizeof *grown);
    if (grown != NULL)
        lives->pidfds = grown;
    struct epoll_event ends = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = number_of(peer)};
    if (grown == NULL || epoll_ctl(lives->epoll, EPOLL_CTL_ADD, pidfd, &ends) != 0)
        close(pidfd); /* a member that is not watched is found by its silence, later */
    else
        lives->pidfds[lives->count++] = pidfd;
}

bool psr_lives_ended(psr_lives *lives, psr_peer *ret_peer)
{
    uint64_t number;
    if (lives == NULL || read(lives->ended[0], &number, sizeof number) != (ssize_t)sizeof number)
        return false;
    *ret_peer = (psr_peer){(psr_role)(number >> 32), (uint32_t)number};
    return true;
}
