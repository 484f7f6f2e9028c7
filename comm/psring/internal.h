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
    psring_request *requests;
};

/* Of psring_call's first version. */
#define PSR_CALL_FIRST_BYTES offsetof(psring_call, message)

/* A fold of the program's own. */
typedef struct psr_defined_fold {
    psring_fold fold; /* its function NULL: there is none of that number */
    size_t users;     /* requests */
} psr_defined_fold;

/* A group that is being made (comm/psring/group.c). */
typedef struct psr_making psr_making;

/* Values that a send has copied. */
typedef struct psr_buffered {
    struct psr_buffered *next; /* of the communicator's */
    psr_node_request *request;
    uint32_t to; /* of all ranks */
    size_t bytes;
    double values[];
} psr_buffered;

struct psring_request {
    psring_comm *comm;
    psring_request *next, *previous; /* of the group's */
    psring_group *group;
    psr_node_request *request; /* NULL: its table was closed, and it has ended */
    psring_table *table;       /* NULL: of none */
    psring_message *message;   /* to be told; NULL: nowhere. Borrowed until told */
    psr_defined_fold *fold;    /* that it uses; NULL: none */
    psr_making *making;        /* owned; NULL: none */
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
    /* [workers]: of each worker and all shards (comm/psring/service.h); a worker has its own
     * alone. NULL: there are no shards */
    psr_node_group **services;
    psring_table *tables;
    psr_defined_update *updates;
    psr_defined_fold folds[PSR_REDUCTIONS_OWN];
    psr_buffered *buffered;
    uint64_t next_group; /* of those that this rank is the first of */
    bool told;           /* a call has said how everything failed */
    bool served;         /* this shard, until all workers had left */
    _Atomic bool entered;
    char detail[PSR_ERR_DETAIL_BYTES]; /* of the caller's thread, when it entered */
};

/* Copies a struct that begins with its size: as far as the caller's goes, zero beyond. first_bytes:
 * of its first version. USAGE: its size is none, or it says something that this library does not
 * know. given NULL: all zero. */
psr_err psr_options_read(const char *name, const void *given, size_t first_bytes, void *ret_known,
                         size_t known_bytes);
/* The other way: up to the size that *ret begins with. */
psr_err psr_options_write(const char *name, const void *known, size_t known_bytes, void *ret,
                          size_t first_bytes);

/* USAGE: what a call needs is NULL; what names it: "psring_wait: request". */
psr_err psr_comm_need(const void *given, const char *what);

/* "float32"; "an unknown type". */
const char *psr_comm_type_name(psring_type type);

/* Begins and ends a call that uses the communicator. After one that ends well the thread's last
 * failure is the one of before. USAGE: another thread is in one. */
psr_err psr_comm_enter(psring_comm *comm);
psring_err psr_comm_leave(psring_comm *comm, psr_err err);
/* How the group failed, when it did: to the first that asks the failure, then BROKEN. */
psr_err psr_comm_check(psring_comm *comm, psr_node_group *group);

/* Waits until the copies that sends to a group have made are received, or were in vain. */
void psr_comm_await_buffered(psring_comm *comm, const psr_node_group *group);
/* What came: fills in ret_message. USAGE: its size. */
psr_err psr_comm_tell_message(const psr_node_request *request, psring_message *ret_message);
psring_type psr_comm_type(psr_type type);
/* A send whose values are copied, of call->buffered. false: too much waits for that rank. */
psr_err psr_comm_send_buffered(psring_group *group, const psr_request_options *options,
                               const psring_call *call, bool *ret_sent);
/* A request that has ended well. ret owns: psr_request_end. */
psr_err psr_request_ended(psring_group *group, psring_request **ret_request);
/* Fills in options->own, of an op of the program's own. USAGE: there is none. *ret_fold: to be
 * counted by who uses it. */
psr_err psr_comm_own_fold(psring_comm *comm, psring_op op, psring_type type,
                          psr_request_options *options, psr_defined_fold **ret_fold);
/* The request that makes a group has ended so: gives the caller the group, where there is one.
 * Returns how the call ended. */
psr_err psr_making_end(psr_making *making, psr_err err);
/* NULL allowed. */
void psr_making_free(psr_making *making);

/* An operation on a group, which is under way when it is waited for. ret owns: psr_comm_finish. */
psr_err psr_comm_start(psring_comm *comm, psr_node_group *group, const psr_request_options *options,
                       const psring_call *call, psr_node_request **ret_request);
/* Waits for it. */
void psr_comm_await(psring_comm *comm, psr_node_request *request);
/* Waits for it and frees it. */
psr_err psr_comm_finish(psring_comm *comm, psr_node_request *request);
/* What this rank found in the group is that of all of it: waits until it has become a failure, and
 * returns that. */
psr_err psr_comm_find(psring_comm *comm, psr_node_group *group, const psr_failure *failure);
/* What this rank alone could not do, as the last failure on this thread says, is that of all of the
 * group: the others wait for it. doing: "opens a table". Returns the group's failure, which may
 * have been there before. */
psr_err psr_comm_give_up(psring_comm *comm, psr_node_group *group, psr_err err, const char *doing);
/* How an operation ended that has. */
psr_err psr_comm_status(psring_comm *comm, const psr_node_request *request);

/* Fills in one that was allocated, of a group that is open, and puts it into the communicator's
 * list, which owns it. */
void psr_comm_add_group(psring_comm *comm, psr_node_group *open, psring_group *group);
/* The id of the next group that this rank is the first of. UNSUPPORTED: there are no more. */
psr_err psr_comm_next_group(psring_comm *comm, uint32_t *ret_id);
/* On each shard, when this worker opens no table any more. */
psr_err psr_comm_leave_shards(psring_comm *comm);
/* Orders a request that has been made, and waits for it. Consumes. */
psr_err psr_comm_run(psring_comm *comm, psr_node_request *request);

/* Gives what is under way to the caller as a request: consumes made, on failure too. ret owns:
 * psr_request_end. */
psr_err psr_request_keep(psring_comm *comm, psring_group *group, psr_node_request *made,
                         psring_request **ret_request);
/* A request of the caller's, within a call. ret owns: psr_request_end. */
psr_err psr_request_open(psring_group *group, const psr_request_options *options,
                         const psring_call *call, psring_request **ret_request);
/* Waits until it has ended. */
void psr_request_end(psring_request *request);
/* Waits until it has ended, and lets its table go: it stays, to be asked how it ended and to be
 * freed. */
void psr_request_leave_table(psring_request *request);

#endif
