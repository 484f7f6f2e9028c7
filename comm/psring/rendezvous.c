#include "comm/psring/rendezvous.h"

#include "base/text/secret.h"
#include "comm/psring/internal.h"
#include "net/address/interface.h"
#include "net/trust/keys/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const NAME = "psring"; /* under which the store has "HOST:PORT\nKEY" */

/* ---- keys ---- */

static psr_err make_key(int ranks, char **ret_key)
{
    psr_keys *sets = NULL;
    size_t count = 0;
    if (ranks < 1 || ranks > UINT16_MAX)
        return psr_fail(PSR_ERR_USAGE, "a key for %d ranks: it should be 1 to %d", ranks,
                        UINT16_MAX);
    PSR_TRY(psr_keys_generate((uint32_t)ranks, 0, true, &sets, &count));
    psr_err err = psr_keys_to_shared_json(sets, ret_key);
    for (size_t i = 0; i < count; i++)
        psr_keys_done(&sets[i]);
    free(sets);
    return err;
}

psring_err psring_key_make(int ranks, char **ret_key)
{
    psr_err err = psr_comm_need(ret_key, "psring_key_make: ret_key");
    return (psring_err)(err == PSR_OK ? make_key(ranks, ret_key) : err);
}

void psring_key_free(char **key)
{
    if (key == NULL)
        return;
    psr_secret_free(*key);
    *key = NULL;
}

/* ---- the store ---- */

static psr_err store_failed(psring_err err, const char *what)
{
    const bool known = err > PSRING_OK && err <= PSRING_ERR_FULL;
    return psr_fail(known ? (psr_err)err : PSR_ERR_IO, "store: %s \"%s\" failed: %s", what, NAME,
                    psring_err_name(err));
}

static psr_err check(const psring_options *o)
{
    if (o->scheduler != NULL || o->key_file != NULL || o->key != NULL || o->host_scheduler)
        return psr_fail(PSR_ERR_USAGE, "store: scheduler, key_file, key and host_scheduler come "
                                       "from it, and are not given");
    if (o->ranks < 1 || o->rank < 0 || o->rank >= o->ranks)
        return psr_fail(PSR_ERR_USAGE, "store: ranks and rank are given with it; they are %d, %d",
                        o->ranks, o->rank);
    return PSR_OK;
}

static psr_err put(const psring_options *o, const psring_store *store, psr_rendezvous *r)
{
    char address[PSR_ADDRESS_BYTES];
    uint16_t port = 0;
    PSR_TRY(psr_interface_address(o->interface != NULL ? o->interface : "127.0.0.1", address));
    PSR_TRY(psr_interface_reserve(address, &port, &r->port));
    snprintf(r->scheduler, sizeof r->scheduler, strchr(address, ':') != NULL ? "[%s]:%u" : "%s:%u",
             address, (unsigned)port);
    PSR_TRY(make_key(o->ranks, &r->key));
    const size_t bytes = strlen(r->scheduler) + 1 + strlen(r->key);
    char *value = malloc(bytes + 1);
    if (value == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a key");
    snprintf(value, bytes + 1, "%s\n%s", r->scheduler, r->key);
    psring_err err = store->put(store->context, NAME, value, bytes);
    explicit_bzero(value, bytes);
    free(value);
    return err == PSRING_OK ? PSR_OK : store_failed(err, "putting");
}

static psr_err read_value(const char *value, size_t bytes, psr_rendezvous *r)
{
    const char *end = memchr(value, '\n', bytes);
    const size_t length = end != NULL ? (size_t)(end - value) : 0;
    if (length == 0 || length >= sizeof r->scheduler)
        return psr_fail(PSR_ERR_FORMAT, "store: its \"%s\" is not what rank 0 puts there", NAME);
    memcpy(r->scheduler, value, length);
    r->scheduler[length] = '\0';
    r->key = strndup(end + 1, bytes - length - 1);
    return r->key != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a key");
}

static psr_err get(const psring_store *store, int64_t deadline_ms, psr_rendezvous *r)
{
    const size_t room = PSR_KEYS_TEXT_MAX + sizeof r->scheduler;
    char *value = malloc(room);
    size_t bytes = 0;
    if (value == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a key");
    psring_err err = store->get(store->context, NAME, deadline_ms, value, room, &bytes);
    psr_err read = err != PSRING_OK ? store_failed(err, "getting")
                   : bytes > room ? psr_fail(PSR_ERR_FORMAT, "store: its \"%s\" is too long", NAME)
                                  : read_value(value, bytes, r);
    explicit_bzero(value, room);
    free(value);
    return read;
}

psr_err psr_rendezvous_meet(psring_options *o, int64_t deadline_ms, psr_rendezvous *ret_rendezvous)
{
    psring_store store;
    PSR_TRY(psr_options_read("psring_store", o->store, sizeof store, &store, sizeof store));
    PSR_TRY(check(o));
    if (store.put == NULL || store.get == NULL)
        return psr_fail(PSR_ERR_USAGE, "store: put or get is NULL");
    o->store = NULL;
    if (o->ranks == 1)
        return PSR_OK;
    PSR_TRY(o->rank == 0 ? put(o, &store, ret_rendezvous)
                         : get(&store, deadline_ms, ret_rendezvous));
    o->scheduler = ret_rendezvous->scheduler;
    o->key = ret_rendezvous->key;
    o->host_scheduler = o->rank == 0;
    return PSR_OK;
}

void psr_rendezvous_done(psr_rendezvous *r)
{
    psring_key_free(&r->key);
    if (r->port >= 0)
        close(r->port);
    *r = PSR_RENDEZVOUS_NONE;
}
