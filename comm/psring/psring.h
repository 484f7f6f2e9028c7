/* A communicator for C and C++ programs: collectives, messages, neighbour exchange and parameter
 * servers between the processes of a program, on one machine or several.
 * share/doc/psring/library.md is its guide. What holds for every call:
 *
 * - Options structs begin with their size. Zero in any other field means the default, unless the
 *   field says otherwise. Bytes beyond the fields that this library knows must be zero. A struct
 *   that a function fills in is filled up to the size that the caller has set in it.
 * - An operation with ret_request NULL returns when it has ended. Otherwise it is started, and the
 *   caller owns *ret_request. Its buffers are lent until psring_test or psring_wait says that it
 *   has ended, with success or failure. After that the library neither reads nor writes them.
 * - Results are the last parameters. They are untouched on failure; the receive buffer of a failed
 *   operation is undefined.
 * - Every wait has a deadline. A failure (TIMEOUT, PEER, MISMATCH, PROTOCOL, CANCELLED) names who
 *   is to blame and is the same on all ranks of a group. It breaks the group in which it was found;
 *   when a rank dies, it breaks all groups of that rank. Other groups go on, and psring_shrink
 *   makes a group of the ranks that live. Only where this rank itself is given up by the others, or
 *   the scheduler is gone, everything is broken for good: close the communicator.
 * - A call may return OK on one rank and fail on another: a rank that has done its part of the call
 *   returns before a failure is found elsewhere. It gets the failure from its next call or from
 *   psring_close, unless it has left before the failure is found. To be sure that all ranks made
 *   the same calls, call psring_barrier before psring_close: it succeeds only if all ranks made the
 *   same calls of the group in the same order. It does not check what ranks call individually:
 *   messages, blocks, persistent operations.
 * - Other errors of a call (USAGE, UNSUPPORTED, BUSY, NOT_FOUND) concern this rank alone: nothing
 *   was started, and the call does not count in the order of calls. Ranks that made the call
 *   correctly wait for this one, so it repeats the call with correct arguments, or calls
 *   psring_revoke or psring_abort.
 * - Ranks in error lines and in psring_failure are numbered as in psring_options.rank: first the
 *   ranks of psring_world, then the shards.
 * - A handle or a result pointer that is NULL where it may not be is USAGE. Functions that return
 *   no error code return an empty value then: PSRING_NO_RANK, 0 or NULL.
 * - One thread at a time may use a communicator and all that was made from it; else USAGE.
 *   Functions marked [any] may be called by any thread. Several communicators in a process are
 *   independent of each other.
 * - The library logs nothing, touches no signal, and neither exits nor forks. A child after fork()
 *   may only exec. Only psring_options_env reads the environment, and psring_init where it says so.
 * - psring_close and psring_abort free everything that was made from the communicator: groups,
 *   requests and tables. Freeing a group frees its requests. They may not be used or freed after
 *   that. The requests of a closed table can be queried and freed as long as the group that opened
 *   the table exists.
 *
 * Any call may return NOMEM and IO (the system refused), and a call on a group BROKEN (the group
 * has failed before, and an earlier call said how). */
#ifndef PSRING_PSRING_H
#define PSRING_PSRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#define PSRING_API __attribute__((visibility("default")))
#define PSRING_MUST_CHECK __attribute__((warn_unused_result))
#else
#define PSRING_API
#define PSRING_MUST_CHECK
#endif

/* Options in a call, at least one: PSRING_CALL(.deadline_ms = 1000), PSRING_WITH(psring_options,
 * .ranks = 1). C++ has them not, and writes
 *     psring_call call = {};
 *     call.size = sizeof call;
 *     call.deadline_ms = 1000; */
#ifndef __cplusplus
#define PSRING_WITH(type, ...) (&(type){.size = sizeof(type), __VA_ARGS__})
#define PSRING_CALL(...) PSRING_WITH(psring_call, __VA_ARGS__)
#endif

enum {
    /* nobody; in psring_options: the scheduler gives a rank */
    PSRING_NO_RANK = -1,
    PSRING_ANY_RANK = -2, /* of psring_receive and psring_probe */
    PSRING_NO_COLOUR = -1 /* of psring_group_split: no group for this rank */
};
#define PSRING_FOREVER INT64_MAX   /* ms */
#define PSRING_TAG_MAX 2147483646u /* of psring_send */
#define PSRING_ANY_TAG UINT32_MAX  /* of psring_receive and psring_probe */
/* Of psring_call.buffered: bytes of one send, and of all to one rank that it has not received. */
#define PSRING_BUFFERED_MAX 65536u
#define PSRING_BUFFERED_TO_RANK_MAX 1048576u

typedef struct psring_comm psring_comm;       /* this process among the others: owns
                                                 sockets and a progress thread */
typedef struct psring_group psring_group;     /* ranks 0 .. size-1, with an
                                                 order of calls of their own */
typedef struct psring_request psring_request; /* an operation */
typedef struct psring_table psring_table;     /* an array in parts, on the ranks that are shards */

/* ---- errors ---- */

typedef enum psring_err {
    PSRING_OK = 0,
    PSRING_ERR_NOMEM,     /* memory could not be had */
    PSRING_ERR_USAGE,     /* an argument is wrong */
    PSRING_ERR_FORMAT,    /* bytes of a file or of a process are not what they should be */
    PSRING_ERR_IO,        /* the operating system refused: file, socket, thread */
    PSRING_ERR_NOT_FOUND, /* it is not there */
    PSRING_ERR_TIMEOUT,   /* a deadline passed, and who is to blame lives */
    PSRING_ERR_PROTOCOL,  /* a process broke the protocol */
    PSRING_ERR_VERSION,   /* a process is another version */
    PSRING_ERR_DENIED,    /* a wrong key or token, or a place that is another's */
    PSRING_ERR_PEER,      /* another rank failed, or is gone; or
                             this one was given up by the others */
    PSRING_ERR_CANCELLED, /* a rank revoked the group, or shrinks it */
    PSRING_ERR_NUMERIC,   /* psring_serve, as the next: what an update failed with */
    PSRING_ERR_COMPUTE,
    PSRING_ERR_UNSUPPORTED, /* valid, but not with this build */
    PSRING_ERR_MISMATCH,    /* two ranks called different things where all must call the same */
    PSRING_ERR_BROKEN,      /* an earlier call said how the group failed */
    PSRING_ERR_BUSY,        /* it has not ended */
    PSRING_ERR_WIDTH_ = INT32_MAX
} psring_err;

typedef struct psring_failure {
    size_t size; /* the caller's */
    psring_err err;
    int rank, other; /* as psring_options.rank: to blame; of a
                        MISMATCH both. PSRING_NO_RANK: nobody */
    uint64_t epoch;  /* of the group */
    /* Of the call in its group, from 1: of those that all of the group make in the same order,
     * psring_group_split and a table's opening and closing among them. 0: of none; of a message or
     * a persistent operation */
    uint64_t number;
    char line[512];
} psring_failure;

/* [any] "timeout"; "unknown". */
PSRING_API const char *psring_err_name(psring_err err);
/* [any] One line, what, where, who: of the last failure on this thread, until its next one. */
PSRING_API const char *psring_err_detail(void);
/* What broke the group, also when no call has said so yet. NOT_FOUND: it is whole. */
PSRING_API PSRING_MUST_CHECK psring_err psring_group_failure(const psring_group *group,
                                                             psring_failure *ret_failure);

/* ---- life ---- */

/* All text and memory is borrowed for the call. */
typedef struct psring_options {
    size_t size;
    /* Of all processes. 0: what is said from here to host_scheduler comes from psring_options_env,
     * and is not given (USAGE); the rest counts as it is given. Where a launcher's ranks on several
     * hosts meet by a file (docs/launching.md), psring_init alone can make it and wait for it. 1
     * without scheduler: alone, as in PSRING_WITH(psring_options, .ranks = 1) */
    int ranks;
    int rank; /* of this one; PSRING_NO_RANK: the scheduler gives one */
    /* Where the ranks find each other: "HOST:PORT", or the absolute path of a socket that nobody
     * else has, in a folder that only this user can enter (mode 0700). */
    const char *scheduler;
    /* Who may join: a key file, the folder that psring keygen wrote, which has one for each rank,
     * or the file that all share (psring keygen --shared). NULL: whoever can enter the socket's
     * folder; over TCP there must be one. */
    const char *key_file;
    const char *host;      /* what this host is called: ranks of one name
                              are on one host. NULL: its own name */
    const char *interface; /* over TCP: address or name of the interface
                              to listen on. NULL: 127.0.0.1 */
    /* Of one rank: it is the scheduler too, on a thread of its own, until all others have left. */
    bool host_scheduler;
    /* Of calls that give none (psring_call has what it means). Who hosts the scheduler has the one
     * by which silent ranks are missed. 0: 30000 */
    int64_t deadline_ms;
    /* Of who hosts the scheduler: how long psring_init waits for all to join. 0: deadline_ms. Of
     * the others: how long it waits for the scheduler to answer; when that has, its own deadline
     * counts (under psring run: the run's) */
    int64_t join_deadline_ms;
    const void *agree; /* at most 64 KiB that all ranks must say alike,
                          or psring_init fails. NULL: nothing */
    size_t agree_bytes;
    /* Of the ranks the last ones, the same number on all: they hold tables, and are not of
     * psring_world. With ranks 0: PSRING_SHARDS' */
    int shards;
    /* How values go between ranks of one host. NULL and "auto": large ones through shared memory
     * where both can, all else over the sockets. "shm": the same, and psring_init fails where this
     * rank can share none (UNSUPPORTED). "ipc", where the ranks meet at a path, and "tcp", where at
     * HOST:PORT: over the sockets alone. It need not be the same on all ranks */
    const char *transport;
    /* Over TCP: a folder that only this user can enter (mode 0700), in which this host's ranks of
     * this communicator, and no others, meet to share memory. NULL: there is none. At a path the
     * ranks meet in its own folder, and this is not looked at */
    const char *sharing;
} psring_options;

/* [any] The place that a launcher gives this process: from PSRING_RANKS, PSRING_RANK,
 * PSRING_SHARDS, PSRING_SCHEDULER, PSRING_HOST_SCHEDULER (0, 1; the default is 1 for rank 0), or
 * from RANK, WORLD_SIZE and the others of torchrun; beside all of them PSRING_KEY_FILE,
 * PSRING_HOST, PSRING_INTERFACE, PSRING_DEADLINE_MS, PSRING_TRANSPORT, PSRING_SHARING.
 * docs/launching.md has each way. Its text stays until the thread's next call. USAGE: what there is
 * makes no sense, or two launchers' variables contradict each other. NOT_FOUND: no rank is given
 * (psring_init is one rank then). UNSUPPORTED: the launcher gives none, or its ranks meet by a
 * file. */
PSRING_API PSRING_MUST_CHECK psring_err psring_options_env(psring_options *ret_options);

/* Joins, and returns when all ranks have. options NULL: psring_options_env's. A process that no
 * launcher has started, and that asks for no others (shards; a variable of them, as
 * PSRING_SCHEDULER), is one rank by itself. USAGE: what they say cannot be, or two ranks disagree.
 * DENIED: wrong keys; or another communicator, of this process or another one, has joined as this
 * rank (so a process has one at a time of psring run's). PEER: the scheduler is not there, or says
 * who never came. NOT_FOUND: the environment gives no rank among others, no such folder or file.
 * VERSION. ret owns: psring_close, psring_abort. */
PSRING_API PSRING_MUST_CHECK psring_err psring_init(const psring_options *options,
                                                    psring_comm **ret_comm);

/* Waits until what was started has ended and has left this process, and leaves in order: others do
 * not take that for a death. Who hosts the scheduler waits until the others have left, or are given
 * up, so it hears here of one that died or broke the protocol in a group with it; another rank may
 * have left when that is found. Consumes, on failure too (but for USAGE: another thread is in a
 * call). Returns the failure that broke the communicator, or a group of this rank's, when no call
 * has said it before. NULL, and a pointer to it, are allowed. */
PSRING_API PSRING_MUST_CHECK psring_err psring_close(psring_comm **comm);

/* Leaves as soon as the scheduler has this line, without one that answers after five seconds or the
 * deadline, whichever is shorter. Every other rank's calls fail with PEER and this line. Consumes,
 * but while another thread is in a call: then it does nothing. NULL, and a pointer to it, are
 * allowed, so that it may be called after psring_init failed. */
PSRING_API void psring_abort(psring_comm **comm, const char *line);

/* Of this process's side of a communicator, since psring_init. */
typedef struct psring_counts {
    size_t size;
    uint64_t bytes_sent, bytes_received;       /* of values and of what joining takes;
                                                  without the messages' heads */
    uint64_t messages_sent, messages_received; /* with those of scheduler and credits */
    uint64_t strangers;                        /* connections turned away and messages
                                                  dropped: of nobody who has joined */
    double waited_s;                           /* in this library's calls, for others */
    uint64_t bytes_lent;                       /* of those sent: through shared memory */
} psring_counts;

/* ret_counts->size is set before. A rank that is alone sends nothing. USAGE. */
PSRING_API PSRING_MUST_CHECK psring_err psring_counts_get(psring_comm *comm,
                                                          psring_counts *ret_counts);

/* [any] Between calls: this rank is at work, in a step of its own count. Others that wait for it
 * wait on. */
PSRING_API void psring_report(psring_comm *comm, uint64_t step);

/* [any] major << 16 | minor << 8 | patch */
PSRING_API uint32_t psring_version(void);

/* ---- what every operation takes ---- */

typedef enum psring_type {
    PSRING_FLOAT32 = 1,
    PSRING_FLOAT64,
    PSRING_FLOAT16,  /* IEEE 754 binary16, as uint16_t */
    PSRING_BFLOAT16, /* the upper half of a float32, as uint16_t */
    PSRING_INT8,
    PSRING_UINT8,
    PSRING_INT32,
    PSRING_INT64,
    PSRING_INT16,
    PSRING_UINT16,
    PSRING_UINT32,
    PSRING_UINT64,
    PSRING_FLOAT32_INT32, /* a value and its index: psring_float32_int32, and so on */
    PSRING_FLOAT64_INT32,
    PSRING_INT16_INT32,
    PSRING_INT32_INT32,
    PSRING_INT64_INT32,
    PSRING_TYPE_WIDTH_ = INT32_MAX
} psring_type;

/* Pairs, laid out as MPI's (MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_SHORT_INT, MPI_2INT, MPI_LONG_INT).
 * count is of pairs. Bytes that are no member's are not sent, and undefined in what is received. */
typedef struct psring_float32_int32 {
    float value;
    int32_t index;
} psring_float32_int32;
typedef struct psring_float64_int32 {
    double value;
    int32_t index;
} psring_float64_int32;
typedef struct psring_int16_int32 {
    int16_t value;
    int32_t index;
} psring_int16_int32;
typedef struct psring_int32_int32 {
    int32_t value, index;
} psring_int32_int32;
typedef struct psring_int64_int32 {
    int64_t value;
    int32_t index;
} psring_int64_int32;

/* Integers wrap. float16 and bfloat16 are added in float32 and rounded at each addition. In
 * MINIMUM, MAXIMUM, MINLOC and MAXLOC a NaN wins, and -0 is below +0. Each is of some types; of
 * others it is USAGE, which names both:
 *     SUM, PRODUCT, MINIMUM, MAXIMUM  all but pairs
 *     MEAN                            floating-point types; SUM, and a division at the end; not of
 *                                     scans
 *     BITWISE_AND and so on           integers
 *     LOGICAL_AND and so on           all but pairs; what is not 0 is true, a NaN too; the result
 *                                     is 1 or 0, also where it is of one rank's value alone
 *     MINLOC, MAXLOC                  pairs; the pair with the least or greatest value, and of
 *                                     those the one with the smallest index */
typedef enum psring_op {
    PSRING_SUM,
    PSRING_PRODUCT,
    PSRING_MINIMUM,
    PSRING_MAXIMUM,
    PSRING_MEAN,
    PSRING_BITWISE_AND,
    PSRING_BITWISE_OR,
    PSRING_BITWISE_XOR,
    PSRING_LOGICAL_AND,
    PSRING_LOGICAL_OR,
    PSRING_LOGICAL_XOR,
    PSRING_MINLOC,
    PSRING_MAXLOC,
    PSRING_OP_WIDTH_ = INT32_MAX
} psring_op;

/* A message, as psring_receive and psring_probe tell it. */
typedef struct psring_message {
    size_t size; /* the caller's */
    int from;    /* rank in the group */
    uint32_t tag;
    size_t count; /* values */
    psring_type type;
} psring_message;

/* A fold of the program's own, of every type. */
typedef struct psring_fold {
    size_t size;
    void *context; /* of the function; borrowed until psring_op_free, or comm's end */
    /* out[i] = a[i] op b[i], of count values. out may be a or b; else nothing overlaps. It is
     * called on the progress thread or on the one that is in a call, one at a time, and calls
     * nothing of psring; it must not wait: meanwhile this rank says nothing to anybody. It is to be
     * associative. */
    void (*fold)(void *context, void *out, const void *a, const void *b, size_t count,
                 psring_type type);
    /* a op b is b op a, and any algorithm may be chosen: the order is the algorithm's
     * (docs/algorithms.md). false: always ascending, x[0] op x[1] op ..; all-reduce and
     * reduce-scatter by "direct", reduce by "binomial" alone (USAGE) */
    bool commutative;
} psring_fold;

/* A name for it, which folds of any group of comm take as a psring_op. All ranks of a group make
 * theirs in the same order, as MISMATCH tells them apart by their numbers alone. Copied. At most
 * 128 at a time (UNSUPPORTED). No message. */
PSRING_API PSRING_MUST_CHECK psring_err psring_op_make(psring_comm *comm, const psring_fold *fold,
                                                       psring_op *ret_op);
/* Its number is given again. BUSY: a request that uses it is not freed. USAGE: there is none
 * such. */
PSRING_API PSRING_MUST_CHECK psring_err psring_op_free(psring_comm *comm, psring_op op);

/* NULL: all defaults. Copied, with its text and arrays. */
typedef struct psring_call {
    size_t size;
    /* The call fails when for so long nothing of it came from the rank that it waits for, and the
     * rank at the end of the waiting (who waits for nobody) began no call and called no
     * psring_report either. Give or take a tenth of a second. 0: the communicator's. PSRING_FOREVER
     * is allowed */
    int64_t deadline_ms;
    /* The same on all ranks. NULL and "auto": by a fixed table of bytes, ranks and hosts. Else one
     * that the operation has (or USAGE):
     *     all-reduce              ring, direct, doubling, halving, root
     *     reduce-scatter          ring, direct, halving
     *     all-gather              ring, direct, bruck
     *     reduce                  binomial, chain
     *     broadcast               binomial, chain, root
     *     scan, exscan            doubling, chain
     *     gather, scatter         direct, binomial
     *     all-to-all              direct, bruck
     *     barrier                 dissemination, root
     *     all others              direct */
    const char *algorithm;
    /* The same on all ranks: [size of the group] of gather, all-gather, scatter, reduce-scatter:
     * values of each rank's part; count is not looked at then. NULL: count for each */
    const size_t *counts;
    /* The request is made, and psring_start starts it, again and again. Needs ret_request. Of a
     * collective the same on all ranks: one that is persistent and one that is not wait for each
     * other (TIMEOUT) */
    bool persistent;
    const char *name; /* in lines of timeouts; at most 63 bytes are kept. NULL: none */
    /* Of psring_receive: count is the room, and what comes may be shorter; this says what came. It
     * is written when the call, or psring_test or another such function, says that the receive
     * ended well: borrowed until then, its size set before. NULL: what comes has count values, but
     * from any rank or with any tag, where count is the room too */
    psring_message *message;
    /* Of psring_send, of at most PSRING_BUFFERED_MAX bytes (else USAGE): it ends when the values
     * are copied, whether they are received or not. Where PSRING_BUFFERED_TO_RANK_MAX bytes wait
     * for that rank already it ends as any send does. The copy has the call's deadline: a rank that
     * does not receive it in time has failed, as with any send; psring_close and psring_group_free
     * wait for it. Not persistent */
    bool buffered;
    /* The same on all ranks, of all-reduce by ring (which NULL then takes): how sums and means of
     * float32 are sent. NULL and "none": as they are. "fp16", "bf16": every rank rounds what it
     * sends. Of persistent requests alone, "int8", "topk:R" (0 < R <= 1: of R of the values) and
     * "1bit": what a rank rounds away it owes, and adds in the next start. All ranks receive the
     * same bits. docs/algorithms.md, "Compression" */
    const char *encoding;
    /* Of all-reduces by ring that wait to send, the one of the smallest priority goes first, of
     * equals the one that was started first. Others send without waiting */
    int32_t priority;
} psring_call;

/* Starts a persistent request that is not under way. Collectives may be started in any order: they
 * are matched by the order of making. Messages are matched as if psring_send or psring_receive were
 * called now: the other end may be a persistent one or not. BUSY: it is under way. USAGE: it is not
 * persistent. */
PSRING_API PSRING_MUST_CHECK psring_err psring_start(psring_request *request);
/* OK: it has ended, or was never started. BUSY: not yet. USAGE: of this call alone, it says nothing
 * about the operation. Else why it failed. */
PSRING_API PSRING_MUST_CHECK psring_err psring_test(psring_request *request);
/* The same after at most timeout_ms (PSRING_FOREVER: the operation has its own deadline). */
PSRING_API PSRING_MUST_CHECK psring_err psring_wait(psring_request *request, int64_t timeout_ms);
/* As psring_wait of the first one that has ended, whose index is set however that was. Skipped are
 * NULLs and what is not under way: never started, or told by psring_test, psring_wait,
 * psring_wait_some or this function to have ended. Other errors leave the index alone. BUSY: none
 * has ended. NOT_FOUND: none is under way. USAGE: all are NULL. */
PSRING_API PSRING_MUST_CHECK psring_err psring_wait_any(psring_request *const *requests,
                                                        size_t count, int64_t timeout_ms,
                                                        size_t *ret_index);
/* As psring_wait_any of all that have ended: waits for one, and takes with it what has ended by
 * then. ret_indices has room for count; the first *ret_count are set, in ascending order, however
 * those ended. OK: well. Else how the first of them failed; psring_test says it of each. */
PSRING_API PSRING_MUST_CHECK psring_err psring_wait_some(psring_request *const *requests,
                                                         size_t count, int64_t timeout_ms,
                                                         size_t *ret_indices, size_t *ret_count);
/* Waits until it has ended, and nulls it. While another thread is in a call it does nothing. NULL,
 * and a pointer to it, are allowed. */
PSRING_API void psring_request_free(psring_request **request);
/* The algorithm that was chosen: a static text. NULL: not known while it is under way for the first
 * time. */
PSRING_API const char *psring_algorithm(const psring_request *request);

/* ---- groups ---- */

/* Of all ranks but the shards; on a shard: of the shards. Borrowed from comm. */
PSRING_API psring_group *psring_world(psring_comm *comm);
PSRING_API int psring_rank(const psring_group *group); /* this process's, in the group */
PSRING_API int psring_size(const psring_group *group);
/* 0 of psring_world; larger than any before of a group that psring_shrink made; else that of the
 * group it was made of. */
PSRING_API uint64_t psring_epoch(const psring_group *group);
/* Of a rank of the group. Borrowed from the communicator; NULL: no such rank. */
PSRING_API const char *psring_host(const psring_group *group, int rank);
/* This rank's place among those of the group that are on its host, and how many they are.
 * ret_local_size may be NULL. No message. */
PSRING_API int psring_local_rank(const psring_group *group, int *ret_local_size);
/* What a rank of one group is in another one. PSRING_NO_RANK: not in it, or no rank. */
PSRING_API int psring_group_translate(const psring_group *from, int rank, const psring_group *to);

/* Groups are made together: each call is made by all of parent, or by those that are listed, in the
 * same order. They return when all of the new group are there. ret owns: psring_group_free. USAGE:
 * a rank that there is not, or twice, or this one is not listed. MISMATCH: the lists differ, in
 * their order too. TIMEOUT: this rank lists one that does not list it, or that does not call. A
 * group that fails while it is made, where parent is whole, is made on all of its ranks: its first
 * call says how it failed. */
PSRING_API PSRING_MUST_CHECK psring_err psring_group_from_ranks(psring_group *parent,
                                                                const int *ranks, int count,
                                                                const psring_call *call,
                                                                psring_group **ret_group);
/* One group for each colour >= 0, in the order of key, then of rank. PSRING_NO_COLOUR: *ret_group
 * becomes NULL. */
PSRING_API PSRING_MUST_CHECK psring_err psring_group_split(psring_group *parent, int colour,
                                                           int key, const psring_call *call,
                                                           psring_group **ret_group);
/* The same, started: *ret_group is written when psring_test or another such function says that the
 * request ended well; it is borrowed until then, and the group is the caller's. Until the request
 * has ended parent is not freed. Several may be under way: they are started in the same order by
 * all of parent. */
PSRING_API PSRING_MUST_CHECK psring_err psring_group_split_start(psring_group *parent, int colour,
                                                                 int key, const psring_call *call,
                                                                 psring_group **ret_group,
                                                                 psring_request **ret_request);
/* The ranks of parent on this host. */
PSRING_API PSRING_MUST_CHECK psring_err psring_group_on_host(psring_group *parent,
                                                             const psring_call *call,
                                                             psring_group **ret_group);
/* Waits until its requests have ended, frees them too, and nulls it. No message. While another
 * thread is in a call it does nothing. NULL, and a pointer to it, are allowed; the world is left
 * alone. */
PSRING_API void psring_group_free(psring_group **group);

/* ---- going on after a failure ---- */

/* Breaks the group on all of its ranks, unless it is broken: their calls fail with CANCELLED and
 * this line. For a rank that cannot go on in a group where others would wait for it. line NULL:
 * none. */
PSRING_API PSRING_MUST_CHECK psring_err psring_revoke(psring_group *group, const char *line);

/* A new group of those ranks of group that live, in the same order, with a larger epoch; called by
 * all of them. A group that is whole is revoked first. Returns when all who live have called it.
 * Who is silent for three quarters of the scheduler's deadline, or has left, is not among them and
 * never will be: when such a rank wakes, its calls fail with PEER. One that dies meanwhile is left
 * out, or breaks the new group. Nothing that was sent in group reaches the new one. An operation
 * that failed here may have ended well on other ranks: those states must be compared. Call it again
 * on the new group when that fails; on group, as long as it failed itself. ret owns:
 * psring_group_free. group stays as it is. Fails on all ranks alike, but for NOMEM and USAGE:
 * TIMEOUT: for the deadline a rank that lives has neither called it nor reported progress. PEER:
 * this rank was given up, or the scheduler is gone. Tables of group stay broken; the new group
 * opens others, as long as all shards live. */
PSRING_API PSRING_MUST_CHECK psring_err psring_shrink(psring_group *group, const psring_call *call,
                                                      psring_group **ret_group);

/* ---- collectives ---- The same call on every rank of the group, in the same order (a persistent
 * one: made in the same order). count is one rank's part; of all-reduce, reduce, scan, exscan and
 * broadcast the whole. Buffers are aligned for the type, and may be NULL where this rank has
 * nothing there. In place: one of the two is where this rank's values lie in the other: all-reduce,
 * reduce, scan, exscan and all-to-all: receive == send; all-gather and gather: send is this rank's
 * part of receive; reduce-scatter and scatter: receive is this rank's part of send. Otherwise the
 * two do not overlap: USAGE. Each rank chooses by itself. A fold's order is its algorithm's: the
 * same bits on every rank and in every run. All: MISMATCH, naming two ranks and their calls;
 * TIMEOUT and PEER, naming whom; USAGE. */

/* receive[count] of all = send[0] op send[1] op .. */
PSRING_API PSRING_MUST_CHECK psring_err psring_all_reduce(psring_group *group, const void *send,
                                                          void *receive, size_t count,
                                                          psring_type type, psring_op op,
                                                          const psring_call *call,
                                                          psring_request **ret_request);
/* receive[count] of root; the others' receive is scratch and may be NULL. */
PSRING_API PSRING_MUST_CHECK psring_err psring_reduce(psring_group *group, const void *send,
                                                      void *receive, size_t count, psring_type type,
                                                      psring_op op, int root,
                                                      const psring_call *call,
                                                      psring_request **ret_request);
/* receive[count] of rank r = send[0] op send[1] op .. send[r]: a prefix of the ranks. */
PSRING_API PSRING_MUST_CHECK psring_err psring_scan(psring_group *group, const void *send,
                                                    void *receive, size_t count, psring_type type,
                                                    psring_op op, const psring_call *call,
                                                    psring_request **ret_request);
/* receive[count] of rank r = send[0] op .. send[r-1]; by the same algorithm the bits that
 * psring_scan gives rank r-1. Rank 0's receive is left as it is, and may be NULL. */
PSRING_API PSRING_MUST_CHECK psring_err psring_exscan(psring_group *group, const void *send,
                                                      void *receive, size_t count, psring_type type,
                                                      psring_op op, const psring_call *call,
                                                      psring_request **ret_request);
/* send[sum of all counts]; receive[this rank's count]. */
PSRING_API PSRING_MUST_CHECK psring_err psring_reduce_scatter(psring_group *group, const void *send,
                                                              void *receive, size_t count,
                                                              psring_type type, psring_op op,
                                                              const psring_call *call,
                                                              psring_request **ret_request);
/* send[this rank's count]; receive[sum of all counts], in order of rank. */
PSRING_API PSRING_MUST_CHECK psring_err psring_all_gather(psring_group *group, const void *send,
                                                          void *receive, size_t count,
                                                          psring_type type, const psring_call *call,
                                                          psring_request **ret_request);
/* data[count] of root becomes everybody's. */
PSRING_API PSRING_MUST_CHECK psring_err psring_broadcast(psring_group *group, void *data,
                                                         size_t count, psring_type type, int root,
                                                         const psring_call *call,
                                                         psring_request **ret_request);
/* send[this rank's count]; root: receive[sum of all counts]. */
PSRING_API PSRING_MUST_CHECK psring_err psring_gather(psring_group *group, const void *send,
                                                      void *receive, size_t count, psring_type type,
                                                      int root, const psring_call *call,
                                                      psring_request **ret_request);
/* root: send[sum of all counts]; receive[this rank's count]. */
PSRING_API PSRING_MUST_CHECK psring_err psring_scatter(psring_group *group, const void *send,
                                                       void *receive, size_t count,
                                                       psring_type type, int root,
                                                       const psring_call *call,
                                                       psring_request **ret_request);
/* send[size * count], receive[size * count]: part r goes to, and comes from, rank r. In place
 * (receive == send, MPI's MPI_IN_PLACE) the part that comes takes the place of the one that
 * goes. */
PSRING_API PSRING_MUST_CHECK psring_err psring_all_to_all(psring_group *group, const void *send,
                                                          void *receive, size_t count,
                                                          psring_type type, const psring_call *call,
                                                          psring_request **ret_request);
/* The same with parts of varying counts, [size] each, which are copied; the parts lie behind one
 * another in order of rank. USAGE: what this rank sends itself is not as much as it expects of
 * itself. In place send_counts are receive_counts, or NULL. */
PSRING_API PSRING_MUST_CHECK psring_err
psring_all_to_all_v(psring_group *group, const void *send, const size_t *send_counts, void *receive,
                    const size_t *receive_counts, psring_type type, const psring_call *call,
                    psring_request **ret_request);
/* Nobody leaves before all have entered. MISMATCH, on all ranks, where calls before it in the
 * group's order differed, which nothing else may have found: of the last one it names two ranks and
 * what they called. A persistent one only waits. */
PSRING_API PSRING_MUST_CHECK psring_err psring_barrier(psring_group *group, const psring_call *call,
                                                       psring_request **ret_request);

/* ---- messages: matched by the two ranks and tag (at most PSRING_TAG_MAX), in order. The type is
 * the same at both ends, and so is the count, but where psring_call.message says otherwise
 * (MISMATCH). A send ends when the other has called psring_receive and its values have left: two
 * ranks that first send each other, blocking, wait for each other (psring_call.buffered). Between
 * two ranks 4096 sends that are not received, or receives that are not sent, are no obstacle to
 * others; with more of both those behind them wait. To oneself the same: one of the two ends is
 * started (ret_request) before the other; who blocks without that waits for itself, until the
 * deadline, and is named ---- */
PSRING_API PSRING_MUST_CHECK psring_err psring_send(psring_group *group, const void *data,
                                                    size_t count, psring_type type, int to,
                                                    uint32_t tag, const psring_call *call,
                                                    psring_request **ret_request);
PSRING_API PSRING_MUST_CHECK psring_err psring_receive(psring_group *group, void *data,
                                                       size_t count, psring_type type, int from,
                                                       uint32_t tag, const psring_call *call,
                                                       psring_request **ret_request);

/* from PSRING_ANY_RANK: a message of any rank, this one too; tag PSRING_ANY_TAG: with any tag.
 * psring_call.message says whose. Of messages that fit the one that was announced here first is
 * taken; those of one rank in the order in which it sent them. This is the one place of the library
 * where the order of arrival decides: the same program may get another message in another run. A
 * TIMEOUT names all ranks that might have sent. */

/* Waits for a message that psring_receive would take, and leaves it: the next receive of that rank
 * and tag gets it. ret_message->size is set before. Of call a deadline and a name alone. */
PSRING_API PSRING_MUST_CHECK psring_err psring_probe(psring_group *group, int from, uint32_t tag,
                                                     const psring_call *call,
                                                     psring_message *ret_message);
/* The same without waiting. NOT_FOUND: there is none, or this rank has not heard of it yet. */
PSRING_API PSRING_MUST_CHECK psring_err psring_probe_now(psring_group *group, int from,
                                                         uint32_t tag, psring_message *ret_message);

/* ---- neighbours: called by all of the group; who has none passes none ---- */

/* A part of a tensor that goes to, or comes from, a rank. It stands in arrays, and so is for good
 * as it is. */
typedef struct psring_block {
    int rank;
    void *data;       /* its first value; lent, as any buffer; only read when it is sent */
    size_t shape[4];  /* one dimension: {1, 1, 1, count} */
    size_t stride[4]; /* values from one index to the next; all 0: it lies dense */
} psring_block;

/* Its k-th block to us is our k-th from it, of as many values. The arrays are copied. What a rank
 * sends itself it receives. */
PSRING_API PSRING_MUST_CHECK psring_err psring_neighbor_exchange(
    psring_group *group, const psring_block *send, size_t send_count, const psring_block *receive,
    size_t receive_count, psring_type type, const psring_call *call, psring_request **ret_request);

/* The halo of a 2-D image that is cut into tiles, one a rank (MindSpore's NeighborExchangeV2). Its
 * directions, of ranks: */
enum {
    PSRING_TOP,
    PSRING_TOP_RIGHT,
    PSRING_RIGHT,
    PSRING_BOTTOM_RIGHT,
    PSRING_BOTTOM,
    PSRING_BOTTOM_LEFT,
    PSRING_LEFT,
    PSRING_TOP_LEFT
};
/* Its edges, of lengths. */
enum { PSRING_EDGE_TOP, PSRING_EDGE_BOTTOM, PSRING_EDGE_LEFT, PSRING_EDGE_RIGHT };

typedef struct psring_halo {
    size_t size;
    size_t shape[4]; /* N, C, H, W of a tile without halo */
    /* By direction, PSRING_TOP and so on: who gets this edge, and whose comes there.
     * PSRING_NO_RANK: nobody; zeros come in. All sixteen are to be filled in: 0 is rank 0. What
     * leaves by one direction comes in from the opposite one, also where a rank has the same
     * neighbour on several sides, or is its own. */
    int send_ranks[8], receive_ranks[8];
    /* By edge, PSRING_EDGE_TOP and so on: rows (top, bottom) or columns (left, right) that are
     * sent, and that the halo has there. A corner has the rows of its one and the columns of its
     * other edge. What is sent must have as many values as the other's halo has there: the H and W
     * of tiles may differ but for that. MISMATCH, where all that goes to a rank differs from what
     * it expects. */
    size_t send_lengths[4], receive_lengths[4];
    bool back; /* the way back, of gradients: the halo is added to the edges that it came from */
} psring_halo;

/* Forward: in[N,C,H,W] becomes out[N,C,top+H+bottom,left+W+right]. Back: in has the halo, and out
 * has none; lengths and ranks of send and receive are those of the way forward. in and out do not
 * overlap. halo is copied. */
PSRING_API PSRING_MUST_CHECK psring_err
psring_halo_exchange(psring_group *group, const psring_halo *halo, const void *in, void *out,
                     psring_type type, const psring_call *call, psring_request **ret_request);

/* ---- tables ---- A table is an array of float32 in parts that lie on the shards, the last
 * psring_options.shards ranks, balanced by their sizes: a parameter server. The ranks of the group
 * that opens it are its workers. A push gives a part's update something to work with, a pull gets
 * the part's values:
 *   "bsp"    All workers push a part the same number of times; the n-th pushes of all are one
 *            update by their sum, whose order is fixed: the same bits with any number of shards, in
 *            every run. A pull waits for the update of this worker's last push; before any push it
 *            gets the initial values. Values come back with every push, so a pull costs no message.
 *            Push n + 1 of a part does not end before all have made push n.
 *   "ssp:K"  Each push is an update, at once. A pull waits while a worker has pushed the part more
 *            than K times less than this one has: also when that one is done and pushes no more, so
 *            all push equally often, give or take K (0 to 999999999).
 *   "async"  The same, and no pull waits.
 * A pull holds this worker's own pushes. Who wants to see those of all in SSP and async: each
 * worker pushes, and pulls the parts that it pushed; psring_barrier; then it pulls. Calls for one
 * part take effect in their order, also those that were only started; of different parts one may be
 * ahead of another. In SSP and async a part above 256 KiB is updated in pieces, and a pull may find
 * some of them newer. A table and the group that opened it fail as one; other groups, with their
 * tables on the same shards, go on. An update's failure is one of its table, as PEER. A shard that
 * is gone is found when it has said nothing for three quarters of the deadline of who hosts the
 * scheduler; under psring run at once, when its process ends.
 *
 * Shards are either ranks of the program, which call psring_serve and know "sum", "assign" and what
 * they define; or `psring run -n N --shards S` starts them (PSRING_RANKS is N + S then), and they
 * know "sum", "assign", and of optimizers
 *     "sgd lr=RATE [momentum=M] [nesterov] [weight-decay=W]"
 *     "adam lr=RATE [weight-decay=W] [adam-beta1=B] [adam-beta2=B] [adam-epsilon=E]"
 * with torch.optim's formulas, and no others. What is pushed in BSP is summed: a mean is had by
 * dividing by the number of workers before. */

/* A run of values of one part. All borrowed for the call. */
typedef struct psring_update_run {
    size_t size;
    const char *arguments; /* what stands behind the update's name in psring_table_options; "" */
    uint64_t number;       /* of the update of these values, from 1 */
    size_t part, offset, count;
    float *values;        /* [count] from offset in the part; in and out */
    const float *pushed;  /* [count] in BSP the sum, not the mean,
                             over all workers; else one worker's */
    float *const *states; /* each [count]; in and out */
} psring_update_run;

typedef struct psring_update {
    size_t size;
    uint32_t states; /* arrays beside a table's values, zero at first; at most 8 */
    void *context;   /* of the functions; borrowed until comm is closed */
    /* Are these arguments its? Else USAGE (or NOMEM; any other counts as USAGE); its words are the
     * line that psring_table_open fails with. NULL: it has none. On the thread that is in
     * psring_serve. */
    psring_err (*check)(void *context, const char *arguments, char *ret_line, size_t line_bytes);
    /* Of every value once in each update, in runs of any cut, on the library's thread or the one
     * that is in psring_serve, one at a time: it calls nothing of psring. Meanwhile this shard says
     * nothing to anybody: all runs of 65536 values together, which is how many come at once, take
     * well less than three quarters of the deadline of who hosts the scheduler, or it is taken for
     * dead; psring_report does not help. Failures: NUMERIC, COMPUTE, USAGE, NOMEM, IO; any other
     * counts as COMPUTE. */
    psring_err (*apply)(void *context, const psring_update_run *run);
} psring_update;

/* Makes an update known on this shard, by a name of letters, digits, '-' and '_'; "sum" (values
 * grow by what is pushed, in float32: counts of 1 stop at 2^24) and "assign" (they become it; with
 * several workers in BSP: its sum) are there. Copied. USAGE: the name is taken, or none; not a
 * shard. */
PSRING_API PSRING_MUST_CHECK psring_err psring_update_define(psring_comm *comm, const char *name,
                                                             const psring_update *update);

/* What a shard does: holds tables that others open, until each of the others has called
 * psring_close, which waits for that, or was lost. What they fail of is not its failure; it fails
 * when another shard does, or when everything is broken. Nothing of it has a deadline but what it
 * says to others. OK at once when that has been before. USAGE: not a shard. */
PSRING_API PSRING_MUST_CHECK psring_err psring_serve(psring_comm *comm);
/* How many shards there are, and whether this rank is one. */
PSRING_API int psring_shards(const psring_comm *comm);
PSRING_API bool psring_is_shard(const psring_comm *comm);

typedef struct psring_table_options {
    size_t size;
    const size_t *parts; /* [part_count] values of each, at least
                            1: what is pushed and pulled as one */
    size_t part_count;
    psring_type type; /* 0: PSRING_FLOAT32. Others are UNSUPPORTED in this version */
    /* A name that the shards know, and its arguments behind a space: "sgd lr=0.1"; at most 511
     * bytes. NULL: "sum" */
    const char *update;
    const char *sync; /* "bsp", "ssp:K", "async". NULL: "bsp" */
    /* Of the group's rank 0, which tells the others, whose own is not looked at: all parts behind
     * one another. NULL: zeros */
    const void *initial;
} psring_table_options;

/* By all of the group, in the order of its calls. Returns when the initial values are in place
 * everywhere. name: at most 63 bytes, for lines. All is copied. MISMATCH: two ranks open different
 * tables. USAGE: there are no shards; this is one; they do not know the update. NOMEM: more values
 * than this machine's memory, or than a shard's. What a shard refuses (USAGE, NOMEM) all ranks get
 * alike, and nothing is broken. PEER, likewise: a shard is gone, as the line says. Of call a
 * deadline alone. ret owns: psring_table_close, before its
 * group is freed: a table whose group is gone can be neither used nor closed in order. */
PSRING_API PSRING_MUST_CHECK psring_err psring_table_open(psring_group *group, const char *name,
                                                          const psring_table_options *options,
                                                          const psring_call *call,
                                                          psring_table **ret_table);
/* values: [of the part]. A push has ended when they may be written again. Of call a deadline and a
 * name alone. USAGE: no such part. */
PSRING_API PSRING_MUST_CHECK psring_err psring_push(psring_table *table, size_t part,
                                                    const void *values, const psring_call *call,
                                                    psring_request **ret_request);
PSRING_API PSRING_MUST_CHECK psring_err psring_pull(psring_table *table, size_t part,
                                                    void *ret_values, const psring_call *call,
                                                    psring_request **ret_request);
/* Both; not slower than a push. values may be ret_values; otherwise they do not overlap (USAGE). */
PSRING_API PSRING_MUST_CHECK psring_err psring_push_pull(psring_table *table, size_t part,
                                                         const void *values, void *ret_values,
                                                         const psring_call *call,
                                                         psring_request **ret_request);
/* How many more pushes of a part this worker had made than the slowest one when it pulled it: the
 * most since the last call, which sets it back to 0. 0 in BSP. */
PSRING_API uint64_t psring_table_staleness(psring_table *table);
/* By all of the group, in the order of its calls. Waits until this rank's requests have ended and
 * all others have called it; the values are lost. Requests stay, to be asked and freed. MISMATCH:
 * two ranks close different tables. Consumes, on failure too. NULL, and a pointer to it, are
 * allowed. */
PSRING_API PSRING_MUST_CHECK psring_err psring_table_close(psring_table **table,
                                                           const psring_call *call);

#ifdef __cplusplus
}
#endif

#endif
