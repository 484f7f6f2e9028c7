/* What mpi.h's handles point to, and what its files share. */
#ifndef SHIM_H
#define SHIM_H

#include "mpi.h"

#include <stdbool.h>

#include <psring/psring.h>

/* One value of MPI's is `values` of the library's. A fold of logical values, or of bytes, takes
 * some operations alone. */
struct shim_type {
    const char *name;
    size_t bytes;
    psring_type type;
    size_t values;
    bool is_complex, is_pair; /* of two parts: only moved, or summed; a value and an index */
};

/* Ranks of psring_world. */
struct shim_group {
    int size;
    int ranks[];
};

enum { SHIM_DIMENSIONS = 8 };

struct shim_comm {
    psring_group *group; /* owned, but for the world's. Of an intercommunicator: of its own side */
    int rank, size;
    MPI_Errhandler handler;
    char name[MPI_MAX_OBJECT_NAME];
    struct shim_group *remote; /* NULL: not an intercommunicator */
    MPI_Comm peer;             /* of an intercommunicator: where the
                                  leaders meet; its leaders there */
    int leader, remote_leader, tag;
    int dimensions, dims[SHIM_DIMENSIONS], periods[SHIM_DIMENSIONS]; /* 0: no grid */
};

typedef enum shim_mode { SHIM_BLOCKING, SHIM_STARTED, SHIM_PERSISTENT } shim_mode;

/* A run of bytes that lies elsewhere for the library than for the program. */
struct shim_piece {
    char *theirs, *ours;
    size_t bytes;
};

struct shim_request {
    psring_request *operation; /* NULL: nothing is left to wait for */
    MPI_Comm comm;
    bool is_persistent, is_active;
    MPI_Status status;
    psring_message came;        /* of a receive: its bytes to one value of MPI's are value_bytes */
    size_t value_bytes, values; /* 0: it is none */
    psring_group **made;        /* of MPI_Comm_idup: where the library writes the group; owned */
    MPI_Comm *made_comm;
    char *packed; /* what the pieces' ours lie in */
    struct shim_piece *send, *receive;
    int send_count, receive_count;
};

extern psring_comm *shim_psring;
extern psring_group *shim_world_group;

/* MPI's code of an error, by what the communicator has been told to do with one. */
int shim_result(MPI_Comm comm, psring_err err);
int shim_refuse(MPI_Comm comm, int code, const char *line);
void *shim_memory(size_t bytes); /* zero; never NULL */
void shim_comm_fill(MPI_Comm comm, psring_group *group);

/* What MPI_Comm_idup gives when the library has made its group: like comm. */
MPI_Comm shim_comm_made(MPI_Comm comm, psring_group *group);
/* The group that an operation is of. */
psring_group *shim_group_of(MPI_Comm comm);
psring_op shim_fold_of(MPI_Op op, MPI_Datatype type);

/* ---- an operation in one of its three forms: shim_begin, then the library's call with SHIM_LAST,
 * then shim_end ---- */

MPI_Request shim_begin(MPI_Comm comm, shim_mode mode);
void shim_pack(MPI_Request request); /* what is sent */
/* Of a blocking one the end; else *ret_request is the caller's. */
int shim_end(MPI_Request request, shim_mode mode, psring_err err, MPI_Request *ret_request);
#define SHIM_CALL(mode) ((mode) == SHIM_PERSISTENT ? PSRING_CALL(.persistent = true) : NULL)
#define SHIM_LAST(mode, request)                                                                   \
    SHIM_CALL(mode), ((mode) == SHIM_BLOCKING ? NULL : &(request)->operation)

#endif
