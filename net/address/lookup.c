#include "net/address/lookup.h"

#include "base/clock.h"

#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* The memory that getaddrinfo_a works on. It may go on after we have stopped waiting, and then
 * keeps all of it. */
typedef struct request {
    struct gaicb control;
    struct addrinfo wanted;
    char name[]; /* a copy: the caller's may be gone by then */
} request;

static request *request_new(const char *name)
{
    size_t size = strlen(name) + 1;
    request *r = calloc(1, sizeof *r + size);
    if (r == NULL)
        return NULL;
    memcpy(r->name, name, size);
    r->wanted = (struct addrinfo){.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    r->control = (struct gaicb){.ar_name = r->name, .ar_request = &r->wanted};
    return r;
}

/* Left to the resolver where it cannot be called off. */
static void request_end(request *r)
{
    if (r == NULL ||
        (gai_error(&r->control) == EAI_INPROGRESS && gai_cancel(&r->control) != EAI_CANCELED))
        return;
    if (r->control.ar_result != NULL)
        freeaddrinfo(r->control.ar_result);
    free(r);
}

static void take_answer(const request *r, psr_lookup *lookup)
{
    const struct addrinfo *found = r->control.ar_result;
    if (gai_error((struct gaicb *)(uintptr_t)&r->control) != 0 || found == NULL ||
        getnameinfo(found->ai_addr, found->ai_addrlen, lookup->address, sizeof lookup->address,
                    NULL, 0, NI_NUMERICHOST) != 0)
        lookup->address[0] = '\0';
}

static void wait_for_all(struct gaicb *const *list, size_t count, int timeout_ms)
{
    int64_t end_ms = psr_clock_ms() + timeout_ms;
    for (;;) {
        const struct gaicb *open[1] = {NULL};
        for (size_t i = 0; i < count && open[0] == NULL; i++)
            open[0] = gai_error(list[i]) == EAI_INPROGRESS ? list[i] : NULL;
        int64_t left_ms = end_ms - psr_clock_ms();
        if (open[0] == NULL || left_ms <= 0)
            return;
        struct timespec left = {left_ms / 1000, left_ms % 1000 * 1000000};
        (void)gai_suspend(open, 1, &left);
    }
}

psr_err psr_lookup_all(psr_lookup *lookups, size_t count, int timeout_ms)
{
    struct sigevent quiet = {.sigev_notify = SIGEV_NONE};
    request **requests = calloc(count + 1, sizeof *requests);
    struct gaicb **list = calloc(count + 1, sizeof *list);
    psr_err err = requests != NULL && list != NULL ? PSR_OK : PSR_ERR_NOMEM;
    for (size_t i = 0; i < count && err == PSR_OK; i++) {
        requests[i] = request_new(lookups[i].name);
        if (requests[i] != NULL)
            list[i] = &requests[i]->control;
        else
            err = PSR_ERR_NOMEM;
    }
    if (err == PSR_OK && count > 0 &&
        getaddrinfo_a(GAI_NOWAIT, list, (int)count, &quiet) == EAI_MEMORY)
        err = PSR_ERR_NOMEM;
    if (err == PSR_OK)
        wait_for_all(list, count, timeout_ms);
    for (size_t i = 0; i < count && err == PSR_OK; i++)
        take_answer(requests[i], &lookups[i]);
    for (size_t i = 0; requests != NULL && i < count; i++)
        request_end(requests[i]);
    free(requests);
    free(list);
    return err != PSR_OK ? psr_fail(err, "no memory to look %zu names up", count) : PSR_OK;
}
