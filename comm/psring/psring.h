/* A communicator for C and C++ programs: collectives, messages, neighbour exchange and parameter
 * servers between the processes of a program, on one machine or several. The guide is
 * share/doc/psring/library.md. These rules hold for every call:
 *
 * - An options struct begins with its size. Zero in any other field means the default, unless the
 *   field says otherwise. Bytes beyond the fields that this library knows must be zero. A struct
 *   that a function fills in is filled up to the size that the caller has set in it.
 * - An operation whose ret_request is NULL returns when it has ended. Otherwise it is only started,
 *   and the caller owns *ret_request. The buffers are lent to the library until psring_test or
 *   psring_wait says that the operation has ended, with success or failure. After that the library
 *   neither reads nor writes them.
 * - Results are the last parameters. They are untouched on failure. The receive buffer of a failed
 *   operation is undefined.
 * - Every wait has a deadline. A failure (TIMEOUT, PEER, MISMATCH, PROTOCOL, CANCELLED) names the
 *   rank that is to blame and is the same on all ranks of a group. It breaks the group in which it
 *   was found. A rank that dies breaks all groups that it belongs to. Other groups go on, and
 *   psring_shrink makes a group of the ranks that live. Everything is broken for good only if the
 *   others have given this rank up, or if the scheduler is gone: close the communicator then.
 * - A call may return OK on one rank and fail on another: a rank that has done its part of the call
 *   returns before a failure is found elsewhere. Its next call or psring_close returns the failure,
 *   unless the rank has left before the failure is found. To be sure that all ranks made the same
 *   calls, call psring_barrier before psring_close: the barrier succeeds only if all ranks made the
 *   same calls of the group in the same order. It does not check what ranks call individually:
 *   messages, blocks, persistent operations.
 * - Other errors of a call (USAGE, UNSUPPORTED, BUSY, NOT_FOUND) concern this rank alone: nothing
 *   was started, and the call does not count in the order of calls. Ranks that made the call
 *   correctly wait for this one, so it repeats the call with correct arguments, or calls
 *   psring_revoke or psring_abort.
 * - Error lines and psring_failure number the ranks as psring_options.rank does: first the ranks of
 *   psring_world, then the shards.
 * - A handle or a result pointer that is NULL where this is not allowed is USAGE. A function that
 *   returns no error code returns an empty value then: PSRING_NO_RANK, 0 or NULL.
 * - Any thread may make any call at any time. Calls of a communicator exclude each other, but a
 *   call that waits lets others in meanwhile. One thread at a time may use a request: start it,
 *   test it, wait for it or free it. A group, table, memory or op is freed when no other thread is
 *   in a call with it. psring_close is USAGE, and psring_abort does nothing, while another thread
 *   is in a call. If several threads call on one group, the program gives their calls one order,
 *   the same on all ranks; calls on different groups need none, except those that all ranks make in
 *   one order whatever the group: psring_shrink and the opening and closing of tables. Functions
 *   marked [any] never wait. Several communicators in a process are independent of each other.
 * - The library logs nothing, touches no signal, and neither exits nor forks. A child after fork()
 *   may only exec. Only psring_options_env reads the environment, and psring_init where it says so.
 * - psring_close and psring_abort free everything that was made from the communicator: groups,
 *   requests, tables and memory. Freeing a group frees its requests. They may not be used or freed
 *   after that. The requests of a closed table can be queried and freed as long as the group that
 *   opened the table exists.
 *
 * Any call may return NOMEM, and IO (the operating system refused). Any call on a group may return
 * BROKEN (the group has failed before, and an earlier call returned the failure). */
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

/* Fills in an options struct within a call; at least one field must be given:
 *     PSRING_CALL(.deadline_ms = 1000)
 *     PSRING_WITH(psring_options, .ranks = 1)
 * These are for C. In C++ write
 *     psring_call call = {};
 *     call.size = sizeof call;
 *     call.deadline_ms = 1000; */
#ifndef __cplusplus
#define PSRING_WITH(type, ...) (&(type){.size = sizeof(type), __VA_ARGS__})
#define PSRING_CALL(...) PSRING_WITH(psring_call, __VA_ARGS__)
#endif

enum {
    /* no rank. In psring_options.rank: the scheduler gives this process its rank */
    PSRING_NO_RANK = -1,
    PSRING_ANY_RANK = -2, /* for psring_receive and psring_probe */
    PSRING_NO_COLOUR = -1 /* for psring_group_split: this rank joins no group */
};
#define PSRING_FOREVER INT64_MAX   /* ms */
#define PSRING_TAG_MAX 2147483646u /* the largest tag of psring_send */
#define PSRING_ANY_TAG UINT32_MAX  /* for psring_receive and psring_probe */
/* Limits of psring_call.buffered, in bytes: for one send, and for all sends to one rank that it has
 * not yet received. */
#define PSRING_BUFFERED_MAX 65536u
#define PSRING_BUFFERED_TO_RANK_MAX 1048576u

/* this process as a member: owns the sockets and a progress thread */
typedef struct psring_comm psring_comm;
/* some of the ranks, numbered 0 .. size-1, with their own order of calls */
typedef struct psring_group psring_group;
typedef struct psring_request psring_request; /* one operation, under way or persistent */
typedef struct psring_table psring_table;     /* an array in parts, which lie on the shards */

/* ---- errors ---- */

typedef enum psring_err {
    PSRING_OK = 0,
    PSRING_ERR_NOMEM,     /* out of memory */
    PSRING_ERR_USAGE,     /* an argument is wrong */
    PSRING_ERR_FORMAT,    /* a file's or a process's bytes do not have the expected format */
    PSRING_ERR_IO,        /* the operating system refused: file, socket, thread */
    PSRING_ERR_NOT_FOUND, /* the thing asked for does not exist */
    PSRING_ERR_TIMEOUT,   /* a deadline passed; the rank to blame lives */
    PSRING_ERR_PROTOCOL,  /* a process broke the protocol */
    PSRING_ERR_VERSION,   /* a process runs another version */
    PSRING_ERR_DENIED,    /* a wrong key or token, or a place that another process has */
    PSRING_ERR_PEER, /* another rank failed or is gone, or the others have given this rank up */
    PSRING_ERR_CANCELLED, /* a rank revoked the group, or shrinks it */
    /* a value that is not finite, to be sent in an encoding that has finite values only; or an
     * update on a shard failed with it */
    PSRING_ERR_NUMERIC,
    PSRING_ERR_COMPUTE,     /* only from psring_serve: an update failed with it */
    PSRING_ERR_UNSUPPORTED, /* valid, but not supported by this build or version */
    PSRING_ERR_MISMATCH,    /* two ranks made different calls where all must make the same */
    PSRING_ERR_BROKEN,      /* the group has failed before; an earlier call said how */
    PSRING_ERR_BUSY,        /* the operation has not ended */
    PSRING_ERR_FULL,        /* no room on a disk */
    PSRING_ERR_WIDTH_ = INT32_MAX
} psring_err;

typedef struct psring_failure {
    size_t size; /* set by the caller */
    psring_err err;
    /* The rank to blame, and for a MISMATCH the second rank as well. Both are numbered as
     * psring_options.rank. PSRING_NO_RANK: there is none */
    int rank, other;
    uint64_t epoch; /* of the group that failed */
    /* Number of the failed call in its group, counted from 1. Calls that all ranks of the group
     * make in the same order count, psring_group_split and the opening and closing of tables among
     * them. 0: no such call failed, but for example a message or a persistent operation */
    uint64_t number;
    char line[512];
} psring_failure;

/* [any] The name of an error, such as "timeout". "unknown" for any other value. A static text. */
PSRING_API const char *psring_err_name(psring_err err);
/* [any] One line that says what failed, where, and who is to blame. It describes the last failure
 * on this thread and stays until the thread's next failure. */
PSRING_API const char *psring_err_detail(void);
/* The failure that broke the group, even if no call has returned it yet. ret_failure->size is set
 * before. NOT_FOUND: the group is not broken. */
PSRING_API PSRING_MUST_CHECK psring_err psring_group_failure(const psring_group *group,
                                                             psring_failure *ret_failure);

/* ---- life ---- */

/* A key-value store of the program, such as torch's TCPStore, by which ranks find each other. It
 * carries a key, so strangers must not be able to read it. One store, or one prefix of names, for
 * each communicator. The functions run on the thread that is in psring_init; any error of
 * psring_err makes psring_init fail with it, and any other value counts as IO. */
typedef struct psring_store {
    size_t size;
    void *context; /* passed to the functions */
    /* Stores bytes bytes under name. Called once, by rank 0. */
    psring_err (*put)(void *context, const char *name, const void *value, size_t bytes);
    /* Waits until name was put, at most timeout_ms (TIMEOUT), and copies the value, of at most room
     * bytes, to ret_value. *ret_bytes: how many there are. */
    psring_err (*get)(void *context, const char *name, int64_t timeout_ms, void *ret_value,
                      size_t room, size_t *ret_bytes);
} psring_store;

/* Text and memory are borrowed for the call of psring_init. */
typedef struct psring_options {
    size_t size;
    /* The number of all processes, shards included. 0: psring_options_env fills the fields from
     * here to host_scheduler, and they may not be given (USAGE); the fields after them are used as
     * given. Where a launcher's ranks on several hosts meet by a file (docs/launching.md), only
     * psring_init can make that file and wait for it. 1 without scheduler: this process is alone,
     * as in PSRING_WITH(psring_options, .ranks = 1) */
    int ranks;
    int rank; /* of this process, 0 .. ranks-1. PSRING_NO_RANK: the scheduler gives one */
    /* Where the ranks find each other: "HOST:PORT", or the absolute path of a socket. The path must
     * be used by no other communicator and lie in a folder that only this user can enter (mode
     * 0700). */
    const char *scheduler;
    /* Who may join: a key file; or the folder that psring keygen wrote, which has one file for each
     * rank; or the one file that all ranks share (psring keygen --shared). NULL: any process that
     * can enter the socket's folder may join. Over TCP a key file is required. */
    const char *key_file;
    /* The name of this host. Ranks that give the same name are taken to be on one host. NULL: the
     * host's own name */
    const char *host;
    /* Over TCP: address or name of the network interface to listen on. NULL: 127.0.0.1 */
    const char *interface;
    /* Set by exactly one rank: this process also runs the scheduler, on a thread of its own, until
     * all others have left. */
    bool host_scheduler;
    /* Deadline of calls that give none, in milliseconds (psring_call.deadline_ms says what it
     * means). The scheduler uses the deadline of the process that hosts it to detect silent ranks.
     * 0: 30000 */
    int64_t deadline_ms;
    /* In milliseconds. For the process that hosts the scheduler: how long psring_init waits for all
     * to join. For the others: how long it waits for the scheduler's first answer; after that the
     * scheduler's own deadline counts (under psring run: the run's). 0: deadline_ms */
    int64_t join_deadline_ms;
    /* At most 64 KiB, which must be the same on all ranks, or psring_init fails. NULL: nothing is
     * compared */
    const void *agree;
    size_t agree_bytes;
    /* The last so many ranks are shards: they hold tables and do not belong to psring_world. The
     * number must be the same on all ranks. 0, if ranks is 0 too: PSRING_SHARDS of the
     * environment */
    int shards;
    /* How values travel between ranks of one host. It need not be the same on all ranks.
     *   NULL, "auto"  large values through shared memory where both ranks can, else the sockets
     *   "shm"         the same; psring_init fails if this rank can share no memory (UNSUPPORTED)
     *   "ipc"         over the sockets alone; the ranks meet at a path
     *   "tcp"         over the sockets alone; the ranks meet at HOST:PORT */
    const char *transport;
    /* Used over TCP only: a folder in which the ranks of this communicator on this host meet to
     * share memory. Only this user can enter it (mode 0700), and no other communicator uses it.
     * NULL: no memory is shared. Ranks that meet at a path use the path's folder instead */
    const char *sharing;
    /* A key of psring_key_make, the text itself. It replaces key_file. NULL: none */
    const char *key;
    /* ranks and rank are given, and scheduler, key_file, key and host_scheduler are not: rank 0
     * hosts the scheduler, at a free port of its interface, and puts its address and a fresh key
     * under the name "psring", where the others get them. NULL: none */
    const psring_store *store;
} psring_options;

/* [any] Makes a key that so many ranks share, a text of about a hundred bytes for each of them. Who
 * reads it can be any of them, so hand it to the ranks where strangers cannot read it. The caller
 * owns *ret_key: psring_key_free. USAGE: there are no so many ranks. */
PSRING_API PSRING_MUST_CHECK psring_err psring_key_make(int ranks, char **ret_key);
/* [any] Wipes and frees it, and sets *key to NULL. key may be NULL or point to NULL. */
PSRING_API void psring_key_free(char **key);

/* [any] Reads the place that a launcher gives this process from the environment: PSRING_RANKS,
 * PSRING_RANK, PSRING_SHARDS, PSRING_SCHEDULER and PSRING_HOST_SCHEDULER (0 or 1; the default is 1
 * for rank 0), or RANK, WORLD_SIZE and the other variables of torchrun. PSRING_KEY_FILE,
 * PSRING_HOST, PSRING_INTERFACE, PSRING_DEADLINE_MS, PSRING_TRANSPORT and PSRING_SHARING are read
 * beside either. docs/launching.md describes each launcher. The text in *ret_options stays until
 * the thread's next call of this function. USAGE: the variables make no sense, or those of two
 * launchers contradict each other. NOT_FOUND: no rank is given (psring_init starts a single rank
 * then). UNSUPPORTED: the launcher gives no place, or its ranks meet by a file. */
PSRING_API PSRING_MUST_CHECK psring_err psring_options_env(psring_options *ret_options);

/* Joins, and returns when all ranks have joined. options NULL: those of psring_options_env. A
 * process is a single rank by itself if no launcher has started it and it asks for no others (by
 * shards, or by a variable such as PSRING_SCHEDULER). The caller owns *ret_comm: psring_close,
 * psring_abort. Errors:
 * - USAGE: the options contradict each other, or those of another rank.
 * - DENIED: the keys are wrong, or another communicator, of this process or another one, has joined
 *   as this rank. So a process has only one communicator at a time under psring run.
 * - PEER: the scheduler is not there, or says which rank never came.
 * - NOT_FOUND: the environment gives no rank among others, or a folder or file does not exist.
 * - VERSION: another process runs another version. */
PSRING_API PSRING_MUST_CHECK psring_err psring_init(const psring_options *options,
                                                    psring_comm **ret_comm);

/* Waits until everything that was started has ended and has left this process, then leaves in
 * order, so that the others do not take it for a death. Calls of others that need this rank, and
 * can no longer end, fail with PEER soon after. The process that hosts the scheduler waits until
 * the others have left or are given up. So it still learns of a rank that died or broke the
 * protocol in a group with it, while another rank may have left by then. Consumes *comm and sets it
 * to NULL, on failure too; only with USAGE (another thread is in a call) it stays. Returns the
 * failure that broke the communicator or a group of this rank, if no call has returned it before.
 * comm may be NULL or point to NULL. */
PSRING_API PSRING_MUST_CHECK psring_err psring_close(psring_comm **comm);

/* Leaves at once when the scheduler has received line. If the scheduler does not answer, this takes
 * five seconds or the communicator's deadline, whichever is shorter. The calls of every other rank
 * fail with PEER and this line. Consumes *comm and sets it to NULL; while another thread is in a
 * call it does nothing. comm may be NULL or point to NULL, so that it may be called after
 * psring_init failed. */
PSRING_API void psring_abort(psring_comm **comm, const char *line);

/* What this process has sent and received on a communicator since psring_init. */
typedef struct psring_counts {
    size_t size;
    /* values, and what joining takes; not the heads of messages */
    uint64_t bytes_sent, bytes_received;
    /* including those to and from the scheduler, and credits */
    uint64_t messages_sent, messages_received;
    /* connections turned away, and messages dropped, because the sender has not joined */
    uint64_t strangers;
    double waited_s;     /* seconds spent in this library's calls, waiting for other ranks */
    uint64_t bytes_lent; /* the part of bytes_sent that went through shared memory */
    /* The part that went sealed: over TCP, on a second connection. To ranks where that cannot be
     * made values go by CURVE, which takes longer. */
    uint64_t bytes_sealed;
} psring_counts;

/* Fills in *ret_counts; ret_counts->size is set before. A rank that is alone sends nothing.
 * USAGE. */
PSRING_API PSRING_MUST_CHECK psring_err psring_counts_get(psring_comm *comm,
                                                          psring_counts *ret_counts);

/* [any] Says, between calls, that this rank is at work; step is a count of its own. Ranks that wait
 * for it keep waiting: their deadlines begin anew. */
PSRING_API void psring_report(psring_comm *comm, uint64_t step);

/* [any] The library's version: major << 16 | minor << 8 | patch. */
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
    PSRING_FLOAT32_INT32, /* a value and its index: psring_float32_int32; the next four likewise */
    PSRING_FLOAT64_INT32,
    PSRING_INT16_INT32,
    PSRING_INT32_INT32,
    PSRING_INT64_INT32,
    PSRING_TYPE_WIDTH_ = INT32_MAX
} psring_type;

/* Pairs of a value and an index. Their layout is that of MPI's pairs (MPI_FLOAT_INT,
 * MPI_DOUBLE_INT, MPI_SHORT_INT, MPI_2INT, MPI_LONG_INT). A count of values is a count of pairs.
 * Padding bytes are not sent and are undefined in a received pair. */
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

/* How two values are combined. Integers wrap around. float16 and bfloat16 are added in float32 and
 * rounded at each addition. In MINIMUM, MAXIMUM, MINLOC and MAXLOC a NaN wins, and -0 is below +0.
 * Each operation has the types below; another type is USAGE, and the line names both:
 *     SUM, PRODUCT, MINIMUM, MAXIMUM  all types but pairs
 *     MEAN                            floating-point types; a SUM, divided by the number of ranks
 *                                     at the end; not in scans
 *     BITWISE_AND, _OR, _XOR          integers
 *     LOGICAL_AND, _OR, _XOR          all types but pairs; a value other than 0 is true, a NaN too;
 *                                     the result is 1 or 0, also with one rank
 *     MINLOC, MAXLOC                  pairs; the pair with the least or greatest value, and among
 *                                     equal values the one with the smallest index */
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

/* Describes a received message; filled in by psring_receive and psring_probe. */
typedef struct psring_message {
    size_t size; /* set by the caller */
    int from;    /* the sender's rank in the group */
    uint32_t tag;
    size_t count; /* number of values */
    psring_type type;
} psring_message;

/* A fold that the program defines. It must handle every type that it is used with. */
typedef struct psring_fold {
    size_t size;
    /* passed to the function; borrowed until psring_op_free, or until comm is closed */
    void *context;
    /* Computes out[i] = a[i] op b[i] for count values. out may be a or b; otherwise nothing
     * overlaps. It runs on the progress thread or on a thread that is in a call, one call at a
     * time. It must call no psring function and must not wait: meanwhile this rank answers nobody.
     * The operation must be associative. */
    void (*fold)(void *context, void *out, const void *a, const void *b, size_t count,
                 psring_type type);
    /* true: a op b equals b op a, so any algorithm may be chosen, and the algorithm decides the
     * order (docs/algorithms.md). false: the order is always ascending, x[0] op x[1] op .. Then
     * all-reduce and reduce-scatter have the algorithm "direct" alone, and reduce has "binomial"
     * alone (USAGE) */
    bool commutative;
} psring_fold;

/* Makes a psring_op of a fold. Reductions in any group of comm take it. All ranks of a group must
 * make theirs in the same order, because MISMATCH compares only their numbers. *fold is copied. At
 * most 128 exist at a time (UNSUPPORTED). Sends no message. */
PSRING_API PSRING_MUST_CHECK psring_err psring_op_make(psring_comm *comm, const psring_fold *fold,
                                                       psring_op *ret_op);
/* Frees an op of psring_op_make; a later psring_op_make may return its number again. BUSY: a
 * request that uses it has not been freed. USAGE: there is no such op. */
PSRING_API PSRING_MUST_CHECK psring_err psring_op_free(psring_comm *comm, psring_op op);

/* Options of one operation. A NULL pointer means all defaults. It is copied, with its text and
 * arrays. */
typedef struct psring_call {
    size_t size;
    /* In milliseconds, to about a tenth of a second. The call fails with TIMEOUT when two things
     * hold for this long: nothing of the operation has come from the rank that it waits for; and
     * the rank at the end of the chain of waiting ranks, which waits for nobody, has neither begun
     * a call nor called psring_report. 0: the communicator's deadline. PSRING_FOREVER is allowed */
    int64_t deadline_ms;
    /* Must be the same on all ranks. NULL and "auto": a fixed table chooses by bytes, ranks and
     * hosts. Any other name must be one of the operation's (USAGE):
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
    /* For gather, all-gather, scatter and reduce-scatter, and the same on all ranks: [size of the
     * group], the number of values of each rank's part. The parameter count is ignored then. NULL:
     * each part has count values */
    const size_t *counts;
    /* The request is only made; psring_start starts it, as often as wanted. Needs ret_request. All
     * ranks of a collective must make it persistent, or none: otherwise they wait for each other
     * until TIMEOUT */
    bool persistent;
    /* Name of the operation in the lines of timeouts; at most 63 bytes are kept. NULL: none */
    const char *name;
    /* For psring_receive. Then count is the room in the buffer, the message may be shorter, and
     * *message says what came. It is written when the call itself, psring_test or a function like
     * it returns that the receive has ended well, and is borrowed until then. Its size is set
     * before. NULL: the message must have exactly count values; but with PSRING_ANY_RANK or
     * PSRING_ANY_TAG count is the room here too */
    psring_message *message;
    /* For psring_send of at most PSRING_BUFFERED_MAX bytes (else USAGE). The send ends when the
     * values are copied, whether they have been received or not. If PSRING_BUFFERED_TO_RANK_MAX
     * bytes already wait for that rank, it ends like any other send. The copy keeps the call's
     * deadline: a receiver that does not take it in time has failed, as with any send. psring_close
     * and psring_group_free wait for the copy. It cannot be persistent */
    bool buffered;
    /* How the sums and means of float32 are sent; the same on all ranks. For all-reduce by ring,
     * which algorithm NULL chooses then. NULL and "none": unchanged. "fp16", "bf16": every rank
     * rounds what it sends. Only for persistent requests: "int8", "topk:R" (the fraction R of the
     * values, 0 < R <= 1) and "1bit"; a rank keeps what it rounded away (its residual:
     * psring_residual_read) and adds it at the next start; a value that is not finite fails with
     * NUMERIC, and on the other ranks with PEER. All ranks receive the same bits.
     * docs/algorithms.md, "Compression" */
    const char *encoding;
    /* Order among all-reduces by ring that wait to send: the smallest priority goes first, and
     * among equals the one that was started first. In a group whose ranks all share memory this
     * holds for reduce-scatters by ring too. Other operations send without waiting */
    int32_t priority;
} psring_call;

/* Starts a persistent request that is not under way. Collectives may be started in any order: they
 * are matched by the order in which they were made. Messages are matched as if psring_send or
 * psring_receive were called now; the other end need not be persistent. BUSY: it is under way.
 * USAGE: it is not persistent. */
PSRING_API PSRING_MUST_CHECK psring_err psring_start(psring_request *request);
/* Asks whether an operation has ended; does not wait. OK: it has ended well, or was never started.
 * BUSY: it has not ended. USAGE: this call was wrong, and nothing is said about the operation. Any
 * other error: the operation has failed with it. */
PSRING_API PSRING_MUST_CHECK psring_err psring_test(psring_request *request);
/* The same, but waits at most timeout_ms milliseconds. With PSRING_FOREVER the operation's own
 * deadline ends the wait. */
PSRING_API PSRING_MUST_CHECK psring_err psring_wait(psring_request *request, int64_t timeout_ms);
/* Waits until one of requests[count] has ended, sets *ret_index to it and returns its result as
 * psring_wait does. Skipped are NULLs and requests that are not under way: those that were never
 * started, and those that psring_test, psring_wait, psring_wait_some or this function has already
 * reported as ended. The index is set also if the operation has failed. BUSY: none has ended within
 * timeout_ms. NOT_FOUND: none is under way. USAGE: all are NULL. With these three errors the index
 * is untouched. */
PSRING_API PSRING_MUST_CHECK psring_err psring_wait_any(psring_request *const *requests,
                                                        size_t count, int64_t timeout_ms,
                                                        size_t *ret_index);
/* The same for all requests that have ended: waits for one, and takes every other that has ended by
 * then. ret_indices has room for count; the first *ret_count are set, in ascending order, also for
 * operations that failed. OK: all of these ended well. Otherwise the error of the first one that
 * failed; psring_test returns the result of each. */
PSRING_API PSRING_MUST_CHECK psring_err psring_wait_some(psring_request *const *requests,
                                                         size_t count, int64_t timeout_ms,
                                                         size_t *ret_indices, size_t *ret_count);
/* Waits until the operation has ended, frees the request and sets *request to NULL. request may be
 * NULL or point to NULL. */
PSRING_API void psring_request_free(psring_request **request);
/* [any] Ends every psring_wait, psring_wait_any and psring_wait_some that is under way on comm, as
 * if its timeout_ms had passed: BUSY, unless its operation has ended. If none is under way, the
 * next one that has to wait returns so. Calls that wait without a request go on. A signal handler
 * may call it; comm is not being closed. */
PSRING_API void psring_wake(psring_comm *comm);
/* A descriptor for poll, epoll or an event loop. It is readable when a request of comm has ended,
 * well or badly, since the last psring_event_take, and stays readable until the next one (which is
 * level-triggered). It may be readable without that. When it is: call psring_event_take, and after
 * it psring_test for each request under way. A request that ends between the two is found by its
 * test, and one that ends later makes the descriptor readable, so none is missed.
 *
 * From the first call on, the library gets on with operations at once, without waiting for this
 * process's next call. A rank that is alone has nobody else to do that: there only calls let time
 * pass, and with it deadlines. The descriptor is always the same one, non-blocking and
 * close-on-exec. comm owns it, so it is not read, written or closed. IO. */
PSRING_API PSRING_MUST_CHECK psring_err psring_event_fd(psring_comm *comm, int *ret_fd);
/* [any] Makes the descriptor unreadable until a request ends. Before psring_event_fd: nothing. */
PSRING_API void psring_event_take(psring_comm *comm);
/* The name of the algorithm that was chosen, a static text. NULL: it is not known yet, because the
 * request is under way for the first time. */
PSRING_API const char *psring_algorithm(const psring_request *request);

/* ---- encodings ---- */

/* [any] Checks a psring_call.encoding or psring_table_options.encoding. *ret_keeps: whether ranks
 * keep a residual with it ("int8", "topk:R", "1bit"). ret_keeps may be NULL. USAGE: there is no
 * such encoding; the line names those that there are. */
PSRING_API PSRING_MUST_CHECK psring_err psring_encoding_check(const char *encoding,
                                                              bool *ret_keeps);

/* Copy the residual of a persistent all-reduce, which this rank adds at the next start. With them a
 * program saves it, and goes on after a restart with the same bits: by a request with as many
 * values, on as many ranks. They concern this rank alone and send nothing. residual has count
 * float32 values, one for each value of the request: zeros before the first start, and undefined
 * after a start that has failed. They are in the unit of the sum; of a MEAN, where this rank rounds
 * last, of the mean (docs/algorithms.md, "Compression"). Any of the encodings that keep one may go
 * on with the residual of another. NOT_FOUND: the request keeps none. BUSY: it is under way. USAGE:
 * it has not count values. NUMERIC: a value to be written is not finite. */
PSRING_API PSRING_MUST_CHECK psring_err psring_residual_read(psring_request *request,
                                                             float *ret_residual, size_t count);
PSRING_API PSRING_MUST_CHECK psring_err psring_residual_write(psring_request *request,
                                                              const float *residual, size_t count);

/* ---- memory ---- */

/* The kind of memory that psring_memory_new makes. */
typedef enum psring_space {
    PSRING_HOST,   /* ordinary memory of this process */
    PSRING_SHARED, /* memory that the other ranks of comm on this host can read */
    PSRING_SPACE_WIDTH_ = INT32_MAX
} psring_space;

/* The largest number of PSRING_SHARED memories that a communicator has at a time. */
#define PSRING_SHARED_MEMORIES_MAX 15

/* Makes memory for arrays that are sent or received often. The memory is filled with zeros, begins
 * at a page boundary, and lies in huge pages where they fit and the kernel gives them. An array in
 * it, or a part of such an array, may be any buffer of any operation, in place or not. Each rank
 * chooses its memory for itself, and the results have the same bits with any memory.
 *
 * Values in PSRING_SHARED memory are not copied when they are sent to a rank of this host, if there
 * are 4 KiB of them or more and both ranks share memory (psring_options.transport): the other rank
 * reads them where they lie. Only this process can write them. The other ranks on this host keep
 * the memory mapped until it is freed, or this rank has left or was given up. If the communicator
 * shares no memory, or this rank is alone, PSRING_SHARED is the same as PSRING_HOST.
 *
 * PSRING_SHARED memory takes all of its bytes from the system at once, PSRING_HOST memory when they
 * are first written. Only this machine's memory limits their sum. A child after fork() does not
 * have PSRING_SHARED memory.
 *
 * The caller owns *ret_memory until psring_memory_free, psring_close or psring_abort. USAGE: bytes
 * is 0; there is no such space; or PSRING_SHARED_MEMORIES_MAX memories are there already: make
 * larger ones and use parts of them. NOMEM: this machine has less memory than that, or less of it
 * that can be shared, or the limit of this process's control group is lower. If others in that
 * group use the memory, the kernel ends a process of it, in this call for PSRING_SHARED. */
PSRING_API PSRING_MUST_CHECK psring_err psring_memory_new(psring_comm *comm, psring_space space,
                                                          size_t bytes, void **ret_memory);
/* Frees memory of psring_memory_new and sets *memory to NULL. It waits for no other rank. BUSY: a
 * request that is under way uses the memory, or a persistent request that was not freed; the memory
 * stays. USAGE: comm has no memory that begins there. memory may be NULL or point to NULL. */
PSRING_API PSRING_MUST_CHECK psring_err psring_memory_free(psring_comm *comm, void **memory);

/* ---- groups ---- */

/* The group of all ranks but the shards; on a shard, the group of the shards. Borrowed from
 * comm. */
PSRING_API psring_group *psring_world(psring_comm *comm);
PSRING_API int psring_rank(const psring_group *group); /* this process's rank in the group */
PSRING_API int psring_size(const psring_group *group);
/* 0 for psring_world. A group that psring_shrink made has a larger epoch than any group before it.
 * Any other group has the epoch of the group that it was made from. */
PSRING_API uint64_t psring_epoch(const psring_group *group);
/* The name of a rank's host. Borrowed from the communicator. NULL: there is no such rank. */
PSRING_API const char *psring_host(const psring_group *group, int rank);
/* Numbers the ranks of the group that are on one host, from 0, and returns the number of this rank;
 * *ret_local_size is how many there are. ret_local_size may be NULL. Sends no message. */
PSRING_API int psring_local_rank(const psring_group *group, int *ret_local_size);
/* The rank in group to of the process that is rank in group from. PSRING_NO_RANK: it is not in to,
 * or there is no such rank. */
PSRING_API int psring_group_translate(const psring_group *from, int rank, const psring_group *to);

/* The functions below make groups. All ranks of parent call them (psring_group_from_ranks: the
 * ranks that are listed), in the same order. They return when all ranks of the new group have
 * called. The caller owns *ret_group: psring_group_free. If a group fails while it is made, and
 * parent has not failed, then all of its ranks get the group, and its first call returns the
 * failure. Errors:
 * - USAGE: a listed rank does not exist or is listed twice, or this rank is not listed.
 * - MISMATCH: the lists differ, in their members or their order.
 * - TIMEOUT: this rank lists a rank that does not list it, or that does not call. */
PSRING_API PSRING_MUST_CHECK psring_err psring_group_from_ranks(psring_group *parent,
                                                                const int *ranks, int count,
                                                                const psring_call *call,
                                                                psring_group **ret_group);
/* The same, but returns when it is started, as psring_group_split_start does. Several may be under
 * way. All ranks of parent start those that they share in the same order; groups without a common
 * rank need no order. */
PSRING_API PSRING_MUST_CHECK psring_err psring_group_from_ranks_start(psring_group *parent,
                                                                      const int *ranks, int count,
                                                                      const psring_call *call,
                                                                      psring_group **ret_group,
                                                                      psring_request **ret_request);
/* Makes one group for each colour >= 0. Its ranks are ordered by key, then by their rank in parent.
 * With PSRING_NO_COLOUR *ret_group becomes NULL. */
PSRING_API PSRING_MUST_CHECK psring_err psring_group_split(psring_group *parent, int colour,
                                                           int key, const psring_call *call,
                                                           psring_group **ret_group);
/* The same, but returns when it is started. *ret_group is written when psring_test or a function
 * like it returns that the request has ended well; the pointer is borrowed until then, and the
 * caller owns the group. parent may not be freed before the request has ended. Several may be under
 * way; all ranks of parent start them in the same order. */
PSRING_API PSRING_MUST_CHECK psring_err psring_group_split_start(psring_group *parent, int colour,
                                                                 int key, const psring_call *call,
                                                                 psring_group **ret_group,
                                                                 psring_request **ret_request);
/* Makes a group of the ranks of parent that are on this host. */
PSRING_API PSRING_MUST_CHECK psring_err psring_group_on_host(psring_group *parent,
                                                             const psring_call *call,
                                                             psring_group **ret_group);
/* Waits until the group's requests have ended, frees them and the group, and sets *group to NULL.
 * Sends no message. group may be NULL or point to NULL; psring_world is not freed. */
PSRING_API void psring_group_free(psring_group **group);

/* ---- going on after a failure ---- */

/* Breaks the group on all of its ranks, unless it is broken already. Their calls fail with
 * CANCELLED and this line. It serves a rank that cannot go on in a group where others would wait
 * for it. line NULL: none. */
PSRING_API PSRING_MUST_CHECK psring_err psring_revoke(psring_group *group, const char *line);

/* Makes a new group of the ranks of group that live, in the same order and with a larger epoch. All
 * of them call it, and it returns when they all have. A group that is not broken is revoked first.
 * group itself stays as it is.
 *
 * A rank that the scheduler has given up as silent (all hear of that within three quarters of its
 * deadline), or that has left, is not in the new group and never will be: when it wakes, its calls
 * fail with PEER. A rank that dies meanwhile is left out or breaks the new group. If the new group
 * fails, call psring_shrink on the new group; call it on group again only if psring_shrink itself
 * failed.
 *
 * Nothing that was sent in group reaches the new group. An operation that failed on this rank may
 * have ended well on others, so the ranks must compare their states. Tables of group stay broken;
 * the new group can open others as long as all shards live.
 *
 * The caller owns *ret_group: psring_group_free. A failure is the same on all ranks, except NOMEM
 * and USAGE. TIMEOUT: a rank that lives has neither called it nor reported progress for the
 * deadline. PEER: this rank was given up, or the scheduler is gone. */
PSRING_API PSRING_MUST_CHECK psring_err psring_shrink(psring_group *group, const psring_call *call,
                                                      psring_group **ret_group);

/* ---- collectives ----
 * Every rank of the group makes the same calls in the same order; for persistent requests the order
 * of making counts. A fold is done in the order of its algorithm, so the bits are the same on every
 * rank and in every run.
 *
 * count is the number of values of one rank's part; for all-reduce, reduce, scan, exscan and
 * broadcast it is the whole. Buffers are aligned for the type. A buffer may be NULL if this rank
 * has no values there.
 *
 * A rank may work in place. Then one of its two buffers is the other, or is a part of it:
 * - all-reduce, reduce, scan, exscan and all-to-all: receive == send;
 * - all-gather and gather: send is this rank's part of receive;
 * - reduce-scatter and scatter: receive is this rank's part of send.
 *
 * Otherwise the two may not overlap (USAGE). Each rank chooses for itself.
 *
 * Errors of all: MISMATCH, which names two ranks and their calls; TIMEOUT and PEER, which name the
 * rank to blame; USAGE. */

/* On all ranks: receive[count] = send of rank 0 op send of rank 1 op .. */
PSRING_API PSRING_MUST_CHECK psring_err psring_all_reduce(psring_group *group, const void *send,
                                                          void *receive, size_t count,
                                                          psring_type type, psring_op op,
                                                          const psring_call *call,
                                                          psring_request **ret_request);
/* The same on rank root alone. On other ranks receive is scratch memory and may be NULL. */
PSRING_API PSRING_MUST_CHECK psring_err psring_reduce(psring_group *group, const void *send,
                                                      void *receive, size_t count, psring_type type,
                                                      psring_op op, int root,
                                                      const psring_call *call,
                                                      psring_request **ret_request);
/* Prefixes: on rank r, receive[count] = send of rank 0 op .. op send of rank r. */
PSRING_API PSRING_MUST_CHECK psring_err psring_scan(psring_group *group, const void *send,
                                                    void *receive, size_t count, psring_type type,
                                                    psring_op op, const psring_call *call,
                                                    psring_request **ret_request);
/* On rank r, receive[count] = send of rank 0 op .. op send of rank r-1. With the same algorithm
 * these are the bits that psring_scan gives rank r-1. On rank 0 receive is left as it is and may be
 * NULL. */
PSRING_API PSRING_MUST_CHECK psring_err psring_exscan(psring_group *group, const void *send,
                                                      void *receive, size_t count, psring_type type,
                                                      psring_op op, const psring_call *call,
                                                      psring_request **ret_request);
/* Each rank gets its part of the reduced values: send[sum of all counts], receive[this rank's
 * count]. */
PSRING_API PSRING_MUST_CHECK psring_err psring_reduce_scatter(psring_group *group, const void *send,
                                                              void *receive, size_t count,
                                                              psring_type type, psring_op op,
                                                              const psring_call *call,
                                                              psring_request **ret_request);
/* All ranks get all parts: send[this rank's count]; receive[sum of all counts], in the order of
 * ranks. */
PSRING_API PSRING_MUST_CHECK psring_err psring_all_gather(psring_group *group, const void *send,
                                                          void *receive, size_t count,
                                                          psring_type type, const psring_call *call,
                                                          psring_request **ret_request);
/* data[count] of rank root is copied to all ranks. */
PSRING_API PSRING_MUST_CHECK psring_err psring_broadcast(psring_group *group, void *data,
                                                         size_t count, psring_type type, int root,
                                                         const psring_call *call,
                                                         psring_request **ret_request);
/* Rank root gets all parts: send[this rank's count]; on root receive[sum of all counts]. */
PSRING_API PSRING_MUST_CHECK psring_err psring_gather(psring_group *group, const void *send,
                                                      void *receive, size_t count, psring_type type,
                                                      int root, const psring_call *call,
                                                      psring_request **ret_request);
/* Rank root hands out the parts: on root send[sum of all counts]; receive[this rank's count]. */
PSRING_API PSRING_MUST_CHECK psring_err psring_scatter(psring_group *group, const void *send,
                                                       void *receive, size_t count,
                                                       psring_type type, int root,
                                                       const psring_call *call,
                                                       psring_request **ret_request);
/* send[size * count], receive[size * count]: part r of send goes to rank r, and part r of receive
 * comes from rank r. In place (receive == send, MPI's MPI_IN_PLACE) the part that comes replaces
 * the part that goes. */
PSRING_API PSRING_MUST_CHECK psring_err psring_all_to_all(psring_group *group, const void *send,
                                                          void *receive, size_t count,
                                                          psring_type type, const psring_call *call,
                                                          psring_request **ret_request);
/* The same with parts of different sizes. send_counts[size] and receive_counts[size] are in values
 * and are copied. The parts lie one after another in the order of ranks. In place send_counts
 * equals receive_counts or is NULL. USAGE: this rank sends itself another number of values than it
 * expects from itself. */
PSRING_API PSRING_MUST_CHECK psring_err
psring_all_to_all_v(psring_group *group, const void *send, const size_t *send_counts, void *receive,
                    const size_t *receive_counts, psring_type type, const psring_call *call,
                    psring_request **ret_request);
/* Returns on no rank before all ranks have entered. MISMATCH, on all ranks: earlier calls of the
 * group differed and nothing else has found it; the line names the last of them, with two ranks and
 * their calls. A persistent barrier only waits and compares nothing. */
PSRING_API PSRING_MUST_CHECK psring_err psring_barrier(psring_group *group, const psring_call *call,
                                                       psring_request **ret_request);

/* ---- messages ----
 * A send and a receive match if their ranks and tags fit, in the order of the calls. A tag is at
 * most PSRING_TAG_MAX. Both ends give the same type and the same count (MISMATCH), unless
 * psring_call.message allows a shorter message.
 *
 * A send ends when the other rank has called psring_receive and the values have left. So two ranks
 * that both send first, blocking, wait for each other; psring_call.buffered avoids that. A rank may
 * send to itself: it starts one of the two ends with ret_request before the other. Otherwise it
 * waits for itself until the deadline, and is named.
 *
 * Up to 4096 sends from one rank to another that are not received, or receives that are not sent,
 * hold up no other message. With more of both, those after them wait. */
PSRING_API PSRING_MUST_CHECK psring_err psring_send(psring_group *group, const void *data,
                                                    size_t count, psring_type type, int to,
                                                    uint32_t tag, const psring_call *call,
                                                    psring_request **ret_request);
PSRING_API PSRING_MUST_CHECK psring_err psring_receive(psring_group *group, void *data,
                                                       size_t count, psring_type type, int from,
                                                       uint32_t tag, const psring_call *call,
                                                       psring_request **ret_request);

/* With PSRING_ANY_RANK psring_receive takes a message from any rank, this one included; with
 * PSRING_ANY_TAG it takes one with any tag. psring_call.message says whose it was. Of the messages
 * that fit, the one that was announced to this rank first is taken; the messages of one rank keep
 * their order. Here alone in the library the order of arrival decides: the same program may get
 * another message in another run. TIMEOUT names all ranks that might have sent. */

/* Waits for a message that psring_receive would take, describes it and leaves it there: the next
 * psring_receive from that rank and tag gets it. ret_message->size is set before. call may have a
 * deadline and a name only. */
PSRING_API PSRING_MUST_CHECK psring_err psring_probe(psring_group *group, int from, uint32_t tag,
                                                     const psring_call *call,
                                                     psring_message *ret_message);
/* The same without waiting. NOT_FOUND: there is no such message, or this rank has not heard of it
 * yet. */
PSRING_API PSRING_MUST_CHECK psring_err psring_probe_now(psring_group *group, int from,
                                                         uint32_t tag, psring_message *ret_message);

/* ---- neighbours ----
 * All ranks of the group call these functions. A rank without neighbours passes none. */

/* A part of a tensor that goes to a rank or comes from it. Programs keep arrays of it, so its
 * layout never changes. */
typedef struct psring_block {
    int rank;
    void *data;       /* its first value; lent like any buffer; only read in a block that is sent */
    size_t shape[4];  /* number of values along each dimension; one dimension: {1, 1, 1, count} */
    size_t stride[4]; /* number of values from one index to the next; all 0: dense */
} psring_block;

/* Sends blocks to ranks and receives blocks from ranks. The k-th block that a rank sends to us
 * becomes our k-th block from it, and must have as many values. The two arrays are copied. Blocks
 * that a rank sends to itself it receives as well. */
PSRING_API PSRING_MUST_CHECK psring_err psring_neighbor_exchange(
    psring_group *group, const psring_block *send, size_t send_count, const psring_block *receive,
    size_t receive_count, psring_type type, const psring_call *call, psring_request **ret_request);

/* The halo of a 2-D image that is cut into tiles, one for each rank (MindSpore's
 * NeighborExchangeV2). These are the directions, the indices of send_ranks and receive_ranks: */
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
/* The edges, the indices of send_lengths and receive_lengths. */
enum { PSRING_EDGE_TOP, PSRING_EDGE_BOTTOM, PSRING_EDGE_LEFT, PSRING_EDGE_RIGHT };

typedef struct psring_halo {
    size_t size;
    size_t shape[4]; /* N, C, H, W of this rank's tile without halo */
    /* By direction, PSRING_TOP and so on: the rank that gets this edge, and the rank whose edge
     * comes in there. PSRING_NO_RANK: no rank, and zeros come in. All sixteen must be set, since 0
     * is rank 0. Values that leave in one direction come in from the opposite one, also if a rank
     * has the same neighbour on several sides, or is its own. */
    int send_ranks[8], receive_ranks[8];
    /* By edge, PSRING_EDGE_TOP and so on: the rows (top, bottom) or columns (left, right) that are
     * sent, and those of the halo that comes in. A corner has the rows of one of its edges and the
     * columns of the other. A rank must send as many values as the receiver's halo has there; apart
     * from that the H and W of tiles may differ. MISMATCH: the number of all values sent to a rank
     * is not what it expects. */
    size_t send_lengths[4], receive_lengths[4];
    bool back; /* the way back, for gradients: the halo is added to the edges from which it came */
} psring_halo;

/* Forward: in[N,C,H,W] becomes out[N,C,top+H+bottom,left+W+right]. Back: in has the halo and out
 * has none; the ranks and lengths are those of the forward call. in and out may not overlap. *halo
 * is copied. */
PSRING_API PSRING_MUST_CHECK psring_err
psring_halo_exchange(psring_group *group, const psring_halo *halo, const void *in, void *out,
                     psring_type type, const psring_call *call, psring_request **ret_request);

/* ---- tables ----
 * A table is an array of values in parts, which lie on the shards: a parameter server. The shards
 * are the last psring_options.shards ranks; the parts are spread over them so that their sizes
 * balance. The ranks of the group that opens a table are its workers. A push gives the part's
 * update values to work with. A pull gets the part's values.
 *   "bsp"    All workers push a part the same number of times. The n-th pushes of all workers are
 *            one update by their sum. The sum's order is fixed: the bits are the same with any
 *            number of shards and in every run. A pull waits for the update of this worker's last
 *            push; before any push it gets the initial values. The values come back with every
 *            push, so a pull costs no message. Push n + 1 of a part does not end before all workers
 *            have made push n.
 *   "ssp:K"  Each push is an update at once. A pull waits while any worker has pushed the part more
 *            than K times less often than this one. This holds for a worker that is done as well,
 *            so all workers push equally often, give or take K (0 to 999999999).
 *   "async"  The same, but a pull never waits.
 *
 * A pull always includes this worker's own pushes. In SSP and async, to see the pushes of all
 * workers: each worker pushes, pulls the parts that it pushed, calls psring_barrier, and pulls
 * again. Calls for one part take effect in their order, even if they were only started; calls for
 * different parts may overtake each other. In SSP and async a part above 256 KiB is updated in
 * pieces, and a pull may find some pieces newer than others.
 *
 * A table and the group that opened it fail together. Other groups go on, with their tables on the
 * same shards. If an update fails, its table fails with PEER. A shard counts as gone when its
 * process has ended, or when it is silent, which all hear within three quarters of the deadline of
 * the process that hosts the scheduler. The first is known at once on that process's host, and
 * under psring run on all; elsewhere after about a second, where its host still answers.
 *
 * Shards are started in one of two ways. Ranks of the program that call psring_serve know the
 * updates "sum", "assign" and those that they define. `psring run -n N --shards S` starts shards
 * itself (PSRING_RANKS is N + S then); they know "sum", "assign" and three optimizers, with
 * torch.optim's formulas:
 *     "sgd lr=RATE [momentum=M] [nesterov] [weight-decay=W]"
 *     "adam lr=RATE [weight-decay=W] [adam-beta1=B] [adam-beta2=B] [adam-epsilon=E]"
 *     "adamw lr=RATE ..", with adam's arguments
 * psring_table_set gives an update other arguments later, a learning rate for example.
 *
 * A table of float64 is pushed, held, folded and updated in float64. Of any other type the shards
 * hold float32, and fold and update in float32. In a table of float16 or bfloat16 what is pushed
 * and pulled has 16 bits, in memory and on the way: a pushed value is exact in float32, and a
 * pulled one is rounded once, to the nearest, ties to the even one. In BSP all pushes are one sum,
 * folded in float32 without a rounding to 16 bits between. */
/* A run of values of one part, for an update to work on. All of it is borrowed for the call. */
typedef struct psring_update_run {
    size_t size;
    /* the text after the update's name in psring_table_options.update, or that of psring_table_set;
     * "" if none */
    const char *arguments;
    uint64_t number; /* number of this update of these values, from 1 */
    size_t part, offset, count;
    float *values; /* [count], from offset in the part; read and written */
    /* [count]; in BSP the sum, or by psring_table_options.fold the mean, of all workers' pushes,
     * else one worker's push */
    const float *pushed;
    float *const *states; /* psring_update.states arrays of [count]; read and written */
    /* PSRING_FLOAT32; or PSRING_FLOAT64, in a table of that type: then values, pushed and states
     * are NULL, and the next three are in their place. Otherwise these are NULL */
    psring_type type;
    double *values64;
    const double *pushed64;
    double *const *states64;
} psring_update_run;

typedef struct psring_update {
    size_t size;
    uint32_t states; /* number of arrays kept beside a table's values, zero at first; at most 8 */
    void *context;   /* passed to the functions; borrowed until comm is closed */
    /* Checks the arguments when a table is opened, and those of psring_table_set. USAGE or NOMEM
     * refuses them (any other error counts as USAGE), and psring_table_open fails with the text in
     * ret_line. Runs on the thread that is in psring_serve. NULL: the update takes no arguments. */
    psring_err (*check)(void *context, const char *arguments, char *ret_line, size_t line_bytes);
    /* Applies one update to a run. Each update covers every value once, in runs of any length.
     * Calls come one at a time, on the library's thread or the thread that is in psring_serve. It
     * must call no psring function. Meanwhile this shard answers nobody: up to 65536 values come at
     * once, and all runs of these together must take well under half of the deadline of the
     * process that hosts the scheduler, or the shard is taken for dead; psring_report does not
     * help. May fail with NUMERIC, COMPUTE, USAGE, NOMEM or IO; any other error counts as
     * COMPUTE. */
    psring_err (*apply)(void *context, const psring_update_run *run);
    /* apply knows runs of float64. If not, a table of float64 cannot be opened with it (USAGE) */
    bool float64;
} psring_update;

/* Makes an update known on this shard by name (letters, digits, '-' and '_'). Two exist already:
 * "sum" adds the pushed values; in float32 counts of 1 stop at 2^24; "assign" replaces the
 * values by the pushed ones, with several workers in BSP by their sum. *update is copied. USAGE:
 * the name is taken or empty, or this rank is no shard. */
PSRING_API PSRING_MUST_CHECK psring_err psring_update_define(psring_comm *comm, const char *name,
                                                             const psring_update *update);

/* Serves as a shard: holds the tables that other ranks open, until each of them has called
 * psring_close, which waits for that, or was lost. It does not fail when they do. It fails when
 * another shard fails or when everything is broken. It has no deadline of its own; only the
 * messages that it sends have one. Called again after that it returns OK at once. USAGE: this rank
 * is no shard. */
PSRING_API PSRING_MUST_CHECK psring_err psring_serve(psring_comm *comm);
/* The number of shards, and whether this rank is one. */
PSRING_API int psring_shards(const psring_comm *comm);
PSRING_API bool psring_is_shard(const psring_comm *comm);

typedef struct psring_table_options {
    size_t size;
    /* [part_count], at least 1: number of values of each part. A part is pushed and pulled as a
     * whole */
    const size_t *parts;
    size_t part_count;
    /* PSRING_FLOAT32, which 0 means too, PSRING_FLOAT64, PSRING_FLOAT16 or PSRING_BFLOAT16; others
     * are UNSUPPORTED in this version. FLOAT64: with "sum", "assign", and updates that say
     * psring_update.float64 */
    psring_type type;
    /* The name of an update that the shards know; after a space its arguments: "sgd lr=0.1". At
     * most 511 bytes. NULL: "sum" */
    const char *update;
    const char *sync; /* "bsp", "ssp:K", "async". NULL: "bsp" */
    /* The initial values of all parts, one part after another, of the table's type. Rank 0 of the
     * group gives them to all; those of other ranks are ignored. NULL: zeros */
    const void *initial;
    /* How many updates of each part an earlier run has made. The numbers of updates continue from
     * there. "adam" uses them, "sgd" does not. It is the same on all ranks, and at most INT64_MAX.
     * In BSP the pushes of a part by one worker are counted, otherwise those of all workers */
    uint64_t updates;
    /* How the pushes of all workers become one. PSRING_SUM, which is 0; or PSRING_MEAN: their sum,
     * divided by the number of workers in float32, in BSP only (USAGE) */
    psring_op fold;
    /* How pushes are sent, in a table of float32 alone (USAGE); the values come back as they are.
     * As in psring_call.encoding: "fp16", "bf16", "int8", "topk:R" or "1bit". A worker encodes each
     * part that it pushes as one, of fewer than 2^32 values (USAGE). With the last three it keeps
     * what it rounded away (its residual: psring_table_residual_read), and adds it to its next push
     * of that part. This is lost when the table is closed, and psring_table_write does not change
     * it. With these three a push of a value that is not finite fails with NUMERIC, and on the
     * group's other ranks with PEER. NULL and "none": unchanged. The text is borrowed for the
     * call */
    const char *encoding;
} psring_table_options;

/* Opens a table. All ranks of the group call it, in the order of the group's calls; it returns when
 * all shards have the initial values. name (at most 63 bytes) appears in error lines. Everything is
 * copied. call may have a deadline only. The caller owns *ret_table and calls psring_table_close
 * before the group is freed: without its group a table can be neither used nor closed in order.
 * Errors:
 * - MISMATCH: two ranks open different tables.
 * - USAGE: there are no shards, or this rank is one, or the shards do not know the update.
 * - NOMEM: the table has more values than fit into this machine's memory, or a shard's.
 * - PEER: a shard is gone; the line names it.
 *
 * If a shard refuses (USAGE, NOMEM) or is gone, all ranks get the same error and nothing is
 * broken. */
PSRING_API PSRING_MUST_CHECK psring_err psring_table_open(psring_group *group, const char *name,
                                                          const psring_table_options *options,
                                                          const psring_call *call,
                                                          psring_table **ret_table);
/* As `part`: all parts of the table. Their values are one part after another. */
#define PSRING_ALL SIZE_MAX
/* Push and pull one part, or all (PSRING_ALL); values and ret_values have as many values as that.
 * After a push has ended the caller may write values again. call may have a deadline and a name
 * only. USAGE: there is no such part. */
PSRING_API PSRING_MUST_CHECK psring_err psring_push(psring_table *table, size_t part,
                                                    const void *values, const psring_call *call,
                                                    psring_request **ret_request);
PSRING_API PSRING_MUST_CHECK psring_err psring_pull(psring_table *table, size_t part,
                                                    void *ret_values, const psring_call *call,
                                                    psring_request **ret_request);
/* A push and a pull in one, as fast as a push. ret_values may equal values; otherwise they may not
 * overlap (USAGE). */
PSRING_API PSRING_MUST_CHECK psring_err psring_push_pull(psring_table *table, size_t part,
                                                         const void *values, void *ret_values,
                                                         const psring_call *call,
                                                         psring_request **ret_request);
/* psring_table_read and psring_table_write transfer the values of a table, or what its update keeps
 * beside them (momentum, for example). With them a program saves a table and goes on with it after
 * a restart, with the same bits. All ranks of the group call them, in the order of the group's
 * calls, with the same state and part. state is 0 for the values, or 1 to psring_table_states for
 * an array of the update, in the order of psring_update_run.states. part may be PSRING_ALL. count
 * is the number of values of the part, or of all parts; another number is refused. What is
 * transferred is as the shards hold it: float64 of a table of that type, float32 of any other.
 *
 * What is read contains every push that any rank of the group made before the call, and no later
 * one. So calls without a push between them read the same table. In BSP these are the values and
 * states after as many updates of a part as each rank has pushed it; if all parts were pushed
 * equally often, they are all after the same update. In SSP and async these are the values and
 * states after all pushes so far, in the order in which the shards took them.
 *
 * call may have a deadline and a name only. USAGE: the count is wrong; there is no such part or
 * state; this rank has a push or pull of the table under way, or has not been told that it ended
 * (psring_wait, psring_test, psring_request_free). MISMATCH: two ranks differ in call, state or
 * part, or, in BSP, in the number of pushes. */

/* ret_values NULL: this rank wants no values, but takes part in the call. */
PSRING_API PSRING_MUST_CHECK psring_err psring_table_read(psring_table *table, uint32_t state,
                                                          size_t part, void *ret_values,
                                                          size_t count, const psring_call *call);
/* values are those of rank 0 of the group; those of other ranks are ignored. All later updates and
 * pulls use them. The numbers of updates do not change. */
PSRING_API PSRING_MUST_CHECK psring_err psring_table_write(psring_table *table, uint32_t state,
                                                           size_t part, const void *values,
                                                           size_t count, const psring_call *call);
/* Gives the table's update new arguments: the text after its name in psring_table_options.update,
 * with all that it needs, such as "lr=0.05 momentum=0.9". All ranks of the group call it, in the
 * order of the group's calls, with the same arguments (at most 511 bytes) and from. Updates use
 * them alike on all shards, so the bits are those of any number of shards:
 * - from 0: all updates by pushes that come after this call, and none by a push before it. It waits
 *   until the shards have taken those pushes. USAGE: this rank has a push or pull of the table
 *   under way, as with psring_table_read.
 * - from N, in BSP: update N (psring_update_run.number) and those after it. Pushes may be under
 *   way, and a whole schedule may be set ahead; for one update the last call counts that reaches
 *   it. USAGE: this rank has begun update N of a part already.
 *
 * It returns when the shards have the arguments. call may have a deadline and a name only. USAGE:
 * the update does not take them, and the line says why; that is so on all ranks, and nothing has
 * changed. MISMATCH: two ranks differ in arguments or from. If a shard takes what another one
 * refuses, because the program defines different updates there, the table fails. */
PSRING_API PSRING_MUST_CHECK psring_err psring_table_set(psring_table *table, const char *arguments,
                                                         uint64_t from, const psring_call *call);
/* Copy the residual of this rank's pushes (psring_table_options.encoding), which it adds to its
 * next push of the part. With them and psring_table_read a program saves a table, and goes on with
 * it with the same bits. They concern this rank alone and send nothing: every rank saves its own.
 * part may be PSRING_ALL; count is the number of values of the part, or of all parts. The values
 * are float32, in the unit of what is pushed; zeros before the first push; undefined after a push
 * that has failed. NOT_FOUND: the table's encoding keeps none. USAGE: the count is wrong; there is
 * no such part; this rank has a push or pull of the table under way, as with psring_table_read.
 * NUMERIC: a value to be written is not finite. */
PSRING_API PSRING_MUST_CHECK psring_err psring_table_residual_read(psring_table *table, size_t part,
                                                                   float *ret_residual,
                                                                   size_t count);
PSRING_API PSRING_MUST_CHECK psring_err psring_table_residual_write(psring_table *table,
                                                                    size_t part,
                                                                    const float *residual,
                                                                    size_t count);
/* The number of arrays that the table's update keeps. 0: "sum" and "assign". */
PSRING_API uint32_t psring_table_states(const psring_table *table);
/* The largest staleness of this worker's pulls since the last call of this function: how many
 * pushes of the part the slowest worker was behind. 0 in BSP. */
PSRING_API uint64_t psring_table_staleness(psring_table *table);
/* Closes a table. All ranks of the group call it, in the order of the group's calls. Waits until
 * this rank's requests have ended and all others have called it. The values are lost. Requests
 * remain and can be queried and freed. Consumes *table and sets it to NULL, on failure too. table
 * may be NULL or point to NULL. MISMATCH: two ranks close different tables. */
PSRING_API PSRING_MUST_CHECK psring_err psring_table_close(psring_table **table,
                                                           const psring_call *call);

#ifdef __cplusplus
}
#endif

#endif
