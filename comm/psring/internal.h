/* What the files behind comm/psring/psring.h share. For those alone. */
#ifndef PSR_COMM_PSRING_INTERNAL_H
#define PSR_COMM_PSRING_INTERNAL_H

#include "comm/psring/driver.h"
#include "comm/psring/hosting.h"
#include "comm/psring/psring.h"
#include "comm/start/job_folder.h"

struct psring_group {
    psring_comm *comm;
    psring_group *next, *previous; /* of the communicator's; the world is in none */
    psr_node_group *group;
};

struct psring_request {
    psring_comm *comm;
    psring_request *next, *previous; /* of the communicator's */
    psring_group *group;
    psr_node_request *request; /* NULL: its table was closed, and it has ended */
    psring_table *table;       /* NULL: of none */
    bool failed;               /* of one without request: as the communicator did */
    bool persistent;
    bool told; /* it is not started, or the caller knows how it ended */
};

struct psring_table {
    psring_comm *comm;
    psring_table *next;  /* of the communicator's */
    psring_group *group; /* that opened it; NULL: it is gone */
    psr_node_group *node_group;
    uint32_t part_count;
};

/* An update that this shard knows. */
typedef struct psr_defined_update {
    struct psr_defined_update *next;
    char name[64];
    psring_update update;
} psr_defined_update;

/* What the member's callbacks know; it comes first, and outlives joining. */
typedef struct psr_joining {
    psring_comm *comm;
    const psring_options *options; /* NULL: it is over */
} psr_joining;

struct psring_comm {
    psr_joining joining;
    psr_provision provision;
    psr_job_folder folder;
    psr_transport *transport; /* NULL: alone, as member and hosting */
    psr_member *member;
    psr_hosting *hosting; /* NULL: another process is the scheduler */
    psr_view alone;       /* the view, where no member has it */
    const psr_view *view;
    psr_driver *driver;
    _Atomic(psr_node *) node; /* the driver's */
    uint32_t rank;
    uint32_t workers, shards; /* of all ranks the first, and the last ones */
    int64_t deadline_ms;      /* of calls that give none */
    psring_group world;
    psring_group *groups;
    psring_request *requests;
    psr_node_group *service; /* of all ranks (comm/psring/service.h); NULL: there are no shards */
    psring_table *tables;
    psr_defined_update *updates;
    uint64_t next_group; /* of those that this rank is the first of */
    bool told;           /* a call has said how everything failed */
    bool served;         /* this shard, until all workers had left */
    _Atomic bool entered;
    char detail[PSR_ERR_DETAIL_BYTES]; /* of the caller's thread, when it entered */
};

/* Copies a struct that begins with its size: as far as the caller's goes, zero beyond. first_bytes: of its first version. USAGE: its size is
 * none, or it says something that this library does not know. given NULL: all zero. */
psr_err psr_options_read(const char *name, const void *given, size_t first_bytes, void *ret_known,
                         size_t known_bytes);
/* The other way: up to the size that *ret begins with. */
psr_err psr_options_write(const char *name, const void *known, size_t known_bytes, void *ret,
                          size_t first_bytes);

/* USAGE: what a call needs is NULL; what names it: "psring_wait: request". */
psr_err psr_comm_need(const void *given, const char *what);

/* "float32"; "an unknown type". */
const char *psr_comm_type_name(psring_type type);

/* Begins and ends a call that uses the communicator. After one that ends well the thread's last failure is the one of before. USAGE: another
 * thread is in one. */
psr_err psr_comm_enter(psring_comm *comm);
psring_err psr_comm_leave(psring_comm *comm, psr_err err);
/* How the group failed, when it did: to the first that asks the failure, then BROKEN. */
psr_err psr_comm_check(psring_comm *comm, psr_node_group *group);

/* An operation on a group, which is under way when it is waited for. ret owns: psr_comm_finish. */
psr_err psr_comm_start(psring_comm *comm, psr_node_group *group, const psr_request_options *options,
                       const psring_call *call, psr_node_request **ret_request);
/* Waits for it. */
void psr_comm_await(psring_comm *comm, psr_node_request *request);
/* Waits for it and frees it. */
psr_err psr_comm_finish(psring_comm *comm, psr_node_request *request);
/* What this rank found in the group is that of all of it: waits until it has become a failure, and returns that. */
psr_err psr_comm_find(psring_comm *comm, psr_node_group *group, const psr_failure *failure);
/* What this rank alone could not do, as the last failure on this thread says, is that of all of the group: the others wait for it. doing: "opens
 * a table". Returns the group's failure, which may have been there before. */
psr_err psr_comm_give_up(psring_comm *comm, psr_node_group *group, psr_err err, const char *doing);
/* How an operation ended that has. */
psr_err psr_comm_status(psring_comm *comm, const psr_node_request *request);

/* Fills in one that was allocated, of a group that is open, and puts it into the communicator's list, which owns it. */
void psr_comm_add_group(psring_comm *comm, psr_node_group *open, psring_group *group);
/* The id of the next group that this rank is the first of. UNSUPPORTED: there are no more. */
psr_err psr_comm_next_group(psring_comm *comm, uint32_t *ret_id);
/* On each shard, when this worker opens no table any more. */
psr_err psr_comm_leave_shards(psring_comm *comm);
/* Orders a request that has been made, and waits for it. Consumes. */
psr_err psr_comm_run(psring_comm *comm, psr_node_request *request);

/* Gives what is under way to the caller as a request: consumes made, on failure too. ret owns: psr_request_end. */
psr_err psr_request_keep(psring_comm *comm, psring_group *group, psr_node_request *made,
                         psring_request **ret_request);
/* A request of the caller's, within a call. ret owns: psr_request_end. */
psr_err psr_request_open(psring_group *group, const psr_request_options *options, const psring_call *call,
                         psring_request **ret_request);
/* Waits until it has ended. */
void psr_request_end(psring_request *request);
/* Waits until it has ended, and lets its table go: it stays, to be asked how it ended and to be freed. */
void psr_request_leave_table(psring_request *request);

#endif
