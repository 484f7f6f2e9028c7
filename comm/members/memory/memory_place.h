/* Where a member can share memory with others on its host: on which machine, and at which Unix
 * socket (psr_transport_share_path). JOIN tells it to the scheduler, and the roster tells it to
 * all. It only decides which members try to share; net/sharing/sharing.h checks with whom a
 * connection is made. Plain data; any thread. */
#ifndef PSR_COMM_MEMORY_PLACE_H
#define PSR_COMM_MEMORY_PLACE_H

#include "base/err.h"
#include "base/system/machine.h"

#include <stdbool.h>

struct cJSON;

#define PSR_MEMORY_SOCKET_MAX 108 /* bytes of a Unix socket's path, with its zero */

typedef struct psr_memory_place {
    char machine[PSR_MACHINE_BYTES];    /* psr_machine_id of the member's machine */
    char socket[PSR_MEMORY_SOCKET_MAX]; /* "": it shares no memory */
} psr_memory_place;

/* The place on this machine. socket "": none. UNSUPPORTED: the path is too long. */
PSR_MUST_CHECK psr_err psr_memory_place_of(const char *socket, psr_memory_place *ret_place);

/* Whether the two may share memory: they are on one machine, and their sockets are in one
 * directory, which their agent, or their run on ipc sockets, has made. Hosts that are emulated on
 * one machine have an agent each, and so do not share. */
bool psr_memory_place_is_shared(const psr_memory_place *place, const psr_memory_place *other);

/* The place as JSON, for the field "memory" of other messages. Leave the field out if no memory is
 * shared. The caller owns the result: cJSON_Delete. NULL: no memory. */
struct cJSON *psr_memory_place_to_object(const psr_memory_place *place);
/* Reads that field; object NULL: it was left out. The bytes may be hostile: FORMAT names the
 * field. */
PSR_MUST_CHECK psr_err psr_memory_place_from_object(const struct cJSON *object,
                                                    psr_memory_place *ret_place);

#endif
