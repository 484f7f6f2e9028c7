/* Where a member shares memory with others on its host, as it tells in JOIN and the roster tells
 * all: on which machine, and at which Unix socket (psr_transport_share_path). What a member says
 * decides with whom another one tries; to what it connects is for net/sharing/sharing.h to check.
 * Plain data; any thread. */
#ifndef PSR_COMM_MEMORY_PLACE_H
#define PSR_COMM_MEMORY_PLACE_H

#include "base/err.h"
#include "base/system/machine.h"

#include <stdbool.h>

struct cJSON;

#define PSR_MEMORY_SOCKET_MAX 108 /* a Unix socket's path */

typedef struct psr_memory_place {
    char machine[PSR_MACHINE_BYTES];    /* psr_machine_id there */
    char socket[PSR_MEMORY_SOCKET_MAX]; /* "": it shares none */
} psr_memory_place;

/* Of this machine. socket: "": none. UNSUPPORTED: it is too long. */
PSR_MUST_CHECK psr_err psr_memory_place_of(const char *socket, psr_memory_place *ret_place);

/* Whether both may share memory: they are on one machine, and their sockets are in one directory,
 * which their agent, or their run on ipc sockets, has made. Hosts that are emulated on one machine
 * have an agent each. */
bool psr_memory_place_is_shared(const psr_memory_place *place, const psr_memory_place *other);

/* As JSON, the field "memory" of other messages' objects, which have none where no memory is
 * shared. ret owns: cJSON_Delete; NULL: no memory. */
struct cJSON *psr_memory_place_to_object(const psr_memory_place *place);
/* object: what that field is, or NULL. Bytes may be hostile: FORMAT names the field. */
PSR_MUST_CHECK psr_err psr_memory_place_from_object(const struct cJSON *object,
                                                    psr_memory_place *ret_place);

#endif
