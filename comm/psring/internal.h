/* What the files behind comm/psring/psring.h share. Only they include it. */
#ifndef PSR_COMM_PSRING_INTERNAL_H
#define PSR_COMM_PSRING_INTERNAL_H

#include "comm/psring/driver.h"
#include "comm/psring/hosting.h"
#include "comm/psring/psring.h"
#include "comm/start/job_folder.h"

struct psring_group {
    psring_comm *comm;
    psring_group *next, *previous; /* in the communicator's list, without the world */
    psr_node_group *group;
    psring_request *requests;
};

/* Of psring_call's first version. */
#define PSR_CALL_FIRST_BYTES offsetof(psring_call, message)

/* A fold that the program defined. */
typedef struct psr_defined_fold {
    psring_fold fold; /* its function NULL: this number is free */
    size_t users;     /* requests that use it */
} psr_defined_fold;

/* A group that is being made (comm/psring/group.c). */
typedef struct psr_making psr_making;

/* A send that has copied its values. */
typedef struct psr_buffered {
    struct psr_buffered *next; /* in the communicator's list */
    psr_node_request *request;
    uint32_t to; /* numbered among all ranks */
    size_t bytes;
    bool awaited; /* by a thread, which frees it */
    double values[];
} psr_buffered;

/* Memory that the program made (comm/psring/memory.c). */
typedef struct psr_memory psr_memory;

struct psring_request {
    psring_comm *comm;
    psring_request *next, *previous; /* in the group's list */
    psring_group *group;
    psr_node_request *request; /* NULL: it has ended, and its table was closed */
    psr_node_request **others; /* [other_count] further operations of the request; owned */
    size_t other_count;
    psring_table *table;     /* NULL: it is no table's */
    psring_message *message; /* where to describe what came; NULL: nowhere. Borrowed until then */
    psr_defined_fold *fold;  /* the fold that it uses; NULL: none */
    psr_making *making;      /* owned; NULL: none */
    bool failed;             /* without request: it failed, as the communicator did */
    bool persistent;
    bool told; /* it is not started, or its result was returned to the caller */
};

struct psring_table {
    psring_comm *comm;
    psring_table *next;  /* in the communicator's list */
    psring_group *group; /* the group that opened it; NULL: it was freed */
    psr_node_group *node_group;
    uint32_t part_count, states;
    bool bsp;
    psr_type type;    /* in the program's memory: FLOAT32, FLOAT16 or BFLOAT16 */
    uint64_t updates; /* that an earlier run has made */
};

/* An update that this shard knows. */
typedef struct psr_defined_update {
    struct psr_defined_update *next;
    char name[64];
    psring_update update;
} psr_defined_update;

/* The context of the member's callbacks; first in the struct, and valid after joining. */
typedef struct psr_joining {
    psring_comm *comm;
    const psring_options *options; /* NULL: joining has ended */
} psr_joining;

struct psring_comm {
    psr_joining joining;
    psr_provision provision;
    psr_job_folder folder;
    psr_transport *transport; /* NULL: this rank is alone; then so are member and hosting */
    psr_member *member;
    psr_hosting *hosting; /* NULL: another process is the scheduler */
    psr_view alone;       /* the view, if there is no member that has it */
    const psr_view *view;
    psr_driver *driver;
    _Atomic(psr_node *) node; /* the driver's */
    uint32_t rank;
    uint32_t workers, shards; /* the first ranks are workers, the last ones shards */
    int64_t deadline_ms;      /* for calls that give none */
    psring_group world;
    psring_group *groups;
    /* [workers] for each worker its group with all shards (comm/psring/service.h); a worker has
     * only its own. NULL: there are no shards */
    psr_node_group **services;
    psring_table *tables;
    psr_defined_update *updates;
    psr_defined_fold folds[PSR_REDUCTIONS_OWN];
    psr_buffered *buffered;
    psr_memory *memories;
    uint64_t next_group; /* number of the next group whose first rank is this one */
    bool told;           /* a call has returned the failure that broke everything */
    bool served;         /* this shard has served until all workers had left */
    bool shares_memory;  /* the transport shares memory with other processes */
    /* Threads that are in a call have locked it, unless they wait (comm/psring/driver.h). */
    pthread_mutex_t calls;
    unsigned inside;        /* how many threads are in a call, waiting ones included */
    bool closing;           /* no further thread may enter */
    _Atomic bool shrinking; /* a thread waits for psring_shrink's new group */
};

/* Copies a struct that begins with its size; what the caller's does not have becomes zero.
 * first_bytes: the size of its first version. USAGE: its size is impossible, or it sets a field
 * that this library does not know. given NULL: all zero. */
psr_err psr_options_read(const char *name, const void *given, size_t first_bytes, void *ret_known,
                         size_t known_bytes);
/* Copies the other way, up to the size that *ret begins with. */
psr_err psr_options_write(const char *name, const void *known, size_t known_bytes, void *ret,
                          size_t first_bytes);

/* USAGE: a pointer that a call needs is NULL; what names it: "psring_wait: request". */
psr_err psr_comm_need(const void *given, const char *what);

/* "float32", or "an unknown type". */
const char *psr_comm_type_name(psring_type type);

/* Begin and end a call that uses the communicator. After a call that succeeds, the thread's last
 * failure is the same as before it. Other threads may be in calls, and get on while this one waits:
 * whatever may have changed meanwhile is looked at again. USAGE: the communicator is being
 * closed. */
psr_err psr_comm_enter(psring_comm *comm);
psring_err psr_comm_leave(psring_comm *comm, psr_err err);
/* The same for the call that closes it. USAGE: another thread is in a call. */
psr_err psr_comm_enter_last(psring_comm *comm);
/* Within a call: the last failure of this thread when it entered. */
void psr_comm_entered_with(char ret_detail[PSR_ERR_DETAIL_BYTES]);
/* The group's failure, if it has failed: the failure itself for the first call that asks, then
 * BROKEN. */
psr_err psr_comm_check(psring_comm *comm, psr_node_group *group);

/* Waits until the copies of sends to a group have been received or have failed. */
void psr_comm_await_buffered(psring_comm *comm, const psr_node_group *group);
/* Describes what came in ret_message. USAGE: its size. */
psr_err psr_comm_tell_message(const psr_node_request *request, psring_message *ret_message);
psring_type psr_comm_type(psr_type type);
/* Lends nothing from the program's memory any more, so that other ranks unmap it. Nothing in it is
 * lent now. */
void psr_comm_withdraw_memories(psring_comm *comm);
/* Frees all of it, after the transport was freed. */
void psr_comm_free_memories(psring_comm *comm);
/* Sends a copy of the values, for call->buffered. false: too many bytes wait for that rank. */
psr_err psr_comm_send_buffered(psring_group *group, const psr_request_options *options,
                               const psring_call *call, bool *ret_sent);
/* A request that has ended well. The caller owns *ret_request: psr_request_end. */
psr_err psr_request_ended(psring_group *group, psring_request **ret_request);
/* Fills in options->own for an op that the program made. USAGE: there is none. The user of
 * *ret_fold counts itself in its users. */
psr_err psr_comm_own_fold(psring_comm *comm, psring_op op, psring_type type,
                          psr_request_options *options, psr_defined_fold **ret_fold);
/* The request that makes a group has ended with err: gives the caller the group, if there is one.
 * Returns the result of the call. */
psr_err psr_making_end(psr_making *making, psr_err err);
/* NULL allowed. */
void psr_making_free(psr_making *making);

/* Starts an operation on a group; it may begin only when it is waited for. The caller owns
 * *ret_request: psr_comm_finish. */
psr_err psr_comm_start(psring_comm *comm, psr_node_group *group, const psr_request_options *options,
                       const psring_call *call, psr_node_request **ret_request);
/* Waits until it has ended. */
void psr_comm_await(psring_comm *comm, psr_node_request *request);
/* Waits until it has ended, frees it, and returns its result. */
psr_err psr_comm_finish(psring_comm *comm, psr_node_request *request);
/* This rank has found a failure that concerns the whole group: waits until the group has failed,
 * and returns that failure. */
psr_err psr_comm_find(psring_comm *comm, psr_node_group *group, const psr_failure *failure);
/* This rank alone could not do its part, as the last failure on this thread says, so the group
 * fails: the others wait for it. doing: "opens a table". Returns the group's failure, which may be
 * an earlier one. */
psr_err psr_comm_give_up(psring_comm *comm, psr_node_group *group, psr_err err, const char *doing);
/* The result of an operation that has ended. */
psr_err psr_comm_status(psring_comm *comm, const psr_node_request *request);

/* Fills in an allocated group whose node group is open, and adds it to the communicator's list,
 * which owns it. */
void psr_comm_add_group(psring_comm *comm, psr_node_group *open, psring_group *group);
/* The id of the next group whose first rank is this one. UNSUPPORTED: there are no more ids. */
psr_err psr_comm_next_group(psring_comm *comm, uint32_t *ret_id);
/* Tells each shard that this worker opens no more tables. */
psr_err psr_comm_leave_shards(psring_comm *comm);
/* Orders a request that was made, waits until it has ended, and returns its result. Consumes it. */
psr_err psr_comm_run(psring_comm *comm, psr_node_request *request);

/* Starts an operation and gives it to the caller as a request. Consumes made, on failure too. The
 * caller owns *ret_request: psr_request_end. */
psr_err psr_request_keep(psring_comm *comm, psring_group *group, psr_node_request *made,
                         psring_request **ret_request);
/* The same for a request of several operations; count is at least 1. Consumes the operations, not
 * the array. */
psr_err psr_request_keep_all(psring_comm *comm, psring_group *group, psr_node_request **made,
                             size_t count, psring_request **ret_request);
/* Waits for the end, and returns how it ended. */
psr_err psr_request_finish(psring_request *request);
/* Makes a request of the caller's, within a call. The caller owns *ret_request: psr_request_end. */
psr_err psr_request_open(psring_group *group, const psr_request_options *options,
                         const psring_call *call, psring_request **ret_request);
/* Waits until it has ended, and frees it. */
void psr_request_end(psring_request *request);
/* Waits until it has ended, and separates it from its table. The request stays, so that its result
 * can be asked for, and is freed later. */
void psr_request_leave_table(psring_request *request);

#endif
