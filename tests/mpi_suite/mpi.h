/* As much of MPI as libpsring can do, so that tests which others wrote for MPI run over it. It is a
 * test's, not a product's: what the library has not is not made up for here, but ends the program
 * with the line "mpi.h over psring lacks NAME" and exit status 77. Made from the standard's text
 * (MPI 4.0); a function means what it means there, but for what docs/library.md says of messages.
 *
 * Handles are pointers. Every rank has one thread. */
#ifndef MPI_H
#define MPI_H

#include <stddef.h>
#include <stdint.h>

#define MPI_VERSION 4
#define MPI_SUBVERSION 0

typedef struct shim_comm *MPI_Comm;
typedef struct shim_group *MPI_Group;
typedef const struct shim_type *MPI_Datatype;
typedef struct shim_request *MPI_Request;
typedef int MPI_Op, MPI_Errhandler, MPI_Fint;
typedef int *MPI_Info;
typedef ptrdiff_t MPI_Aint;
typedef long long MPI_Count, MPI_Offset;
typedef struct MPI_Status {
    int MPI_SOURCE, MPI_TAG, MPI_ERROR;
    size_t shim_bytes;
} MPI_Status;

/* Of what the library has not: for declarations alone. */
typedef int MPI_Win, MPI_File, MPI_Message, MPI_Session;
typedef void MPI_User_function(void *, void *, int *, MPI_Datatype *);
typedef void MPI_User_function_c(void *, void *, MPI_Count *, MPI_Datatype *);
typedef int MPI_Comm_copy_attr_function(MPI_Comm, int, void *, void *, void *, int *);
typedef int MPI_Comm_delete_attr_function(MPI_Comm, int, void *, void *);

/* ---- constants ---- */

enum {
    MPI_SUCCESS,
    MPI_ERR_BUFFER,
    MPI_ERR_COUNT,
    MPI_ERR_TYPE,
    MPI_ERR_TAG,
    MPI_ERR_COMM,
    MPI_ERR_RANK,
    MPI_ERR_REQUEST,
    MPI_ERR_ROOT,
    MPI_ERR_GROUP,
    MPI_ERR_OP,
    MPI_ERR_TOPOLOGY,
    MPI_ERR_DIMS,
    MPI_ERR_ARG,
    MPI_ERR_TRUNCATE,
    MPI_ERR_OTHER,
    MPI_ERR_IN_STATUS,
    MPI_ERR_PENDING,
    MPI_ERR_LASTCODE = 0x3fff
};
enum { MPI_IDENT, MPI_CONGRUENT, MPI_SIMILAR, MPI_UNEQUAL };
enum { MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE };
enum { MPI_COMM_TYPE_SHARED = 1, MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_HW_UNGUIDED };
enum { MPI_TAG_UB = 1, MPI_UNIVERSE_SIZE };
enum { MPI_ERRORS_ARE_FATAL = 1, MPI_ERRORS_RETURN };
enum { MPI_CART = 1, MPI_GRAPH, MPI_DIST_GRAPH };
enum { MPI_COMBINER_NAMED = 1, MPI_COMBINER_STRUCT };
enum {
    MPI_OP_NULL,
    MPI_SUM,
    MPI_PROD,
    MPI_MIN,
    MPI_MAX,
    MPI_BAND,
    MPI_BOR,
    MPI_BXOR,
    MPI_LAND,
    MPI_LOR,
    MPI_LXOR,
    MPI_MINLOC,
    MPI_MAXLOC,
    MPI_REPLACE,
    MPI_NO_OP
};
#define MPI_ANY_SOURCE (-2)
#define MPI_PROC_NULL (-1)
#define MPI_ROOT (-3)
#define MPI_ANY_TAG (-1)
#define MPI_UNDEFINED (-32766)
#define MPI_KEYVAL_INVALID (-1)
#define MPI_MAX_ERROR_STRING 1024
#define MPI_MAX_OBJECT_NAME 128
#define MPI_MAX_PROCESSOR_NAME 256
#define MPI_MAX_INFO_KEY 36
#define MPI_MAX_INFO_VAL 1024
#define MPI_MAX_LIBRARY_VERSION_STRING 256
#define MPI_BSEND_OVERHEAD 64
#define MPI_BOTTOM ((void *)0)
#define MPI_IN_PLACE ((void *)-1)
#define MPI_STATUS_IGNORE ((MPI_Status *)0)
#define MPI_STATUSES_IGNORE ((MPI_Status *)0)
#define MPI_COMM_NULL ((MPI_Comm)0)
#define MPI_GROUP_NULL ((MPI_Group)0)
#define MPI_REQUEST_NULL ((MPI_Request)0)
#define MPI_DATATYPE_NULL ((MPI_Datatype)0)
#define MPI_INFO_NULL ((MPI_Info)0)
#define MPI_SESSION_NULL 0
#define MPI_MESSAGE_NULL 0
#define MPI_MESSAGE_NO_PROC 1
#define MPI_UNWEIGHTED ((int *)1)
#define MPI_WEIGHTS_EMPTY ((int *)2)
#define MPI_NULL_COPY_FN ((MPI_Comm_copy_attr_function *)0)
#define MPI_NULL_DELETE_FN ((MPI_Comm_delete_attr_function *)0)

extern struct shim_comm shim_world, shim_self;
#define MPI_COMM_WORLD (&shim_world)
#define MPI_COMM_SELF (&shim_self)
extern struct shim_group shim_nobody;
#define MPI_GROUP_EMPTY (&shim_nobody)

/* Types by their place in shim_types; those that the standard calls optional, and the library has
 * not, are MPI_DATATYPE_NULL. */
extern const struct shim_type shim_char, shim_signed_char, shim_unsigned_char, shim_byte,
    shim_short, shim_unsigned_short, shim_int, shim_unsigned, shim_long, shim_unsigned_long,
    shim_long_long, shim_unsigned_long_long, shim_float, shim_double, shim_int8, shim_uint8,
    shim_int16, shim_uint16, shim_int32, shim_uint32, shim_int64, shim_uint64, shim_bool, shim_aint,
    shim_count, shim_offset, shim_float_complex, shim_double_complex, shim_2int, shim_float_int,
    shim_double_int, shim_long_int, shim_short_int;
#define MPI_CHAR (&shim_char)
#define MPI_SIGNED_CHAR (&shim_signed_char)
#define MPI_UNSIGNED_CHAR (&shim_unsigned_char)
#define MPI_BYTE (&shim_byte)
#define MPI_PACKED (&shim_byte)
#define MPI_SHORT (&shim_short)
#define MPI_UNSIGNED_SHORT (&shim_unsigned_short)
#define MPI_INT (&shim_int)
#define MPI_UNSIGNED (&shim_unsigned)
#define MPI_LONG (&shim_long)
#define MPI_UNSIGNED_LONG (&shim_unsigned_long)
#define MPI_LONG_LONG (&shim_long_long)
#define MPI_LONG_LONG_INT (&shim_long_long)
#define MPI_UNSIGNED_LONG_LONG (&shim_unsigned_long_long)
#define MPI_FLOAT (&shim_float)
#define MPI_DOUBLE (&shim_double)
#define MPI_INT8_T (&shim_int8)
#define MPI_UINT8_T (&shim_uint8)
#define MPI_INT16_T (&shim_int16)
#define MPI_UINT16_T (&shim_uint16)
#define MPI_INT32_T (&shim_int32)
#define MPI_UINT32_T (&shim_uint32)
#define MPI_INT64_T (&shim_int64)
#define MPI_UINT64_T (&shim_uint64)
#define MPI_C_BOOL (&shim_bool)
#define MPI_AINT (&shim_aint)
#define MPI_COUNT (&shim_count)
#define MPI_OFFSET (&shim_offset)
#define MPI_C_COMPLEX (&shim_float_complex)
#define MPI_C_FLOAT_COMPLEX (&shim_float_complex)
#define MPI_C_DOUBLE_COMPLEX (&shim_double_complex)
#define MPI_2INT (&shim_2int)
#define MPI_FLOAT_INT (&shim_float_int)
#define MPI_DOUBLE_INT (&shim_double_int)
#define MPI_LONG_INT (&shim_long_int)
#define MPI_SHORT_INT (&shim_short_int)
#define MPI_LONG_DOUBLE MPI_DATATYPE_NULL
#define MPI_LONG_DOUBLE_INT MPI_DATATYPE_NULL
#define MPI_C_LONG_DOUBLE_COMPLEX MPI_DATATYPE_NULL
#define MPI_COMPLEX MPI_DATATYPE_NULL
#define MPI_DOUBLE_COMPLEX MPI_DATATYPE_NULL

/* ---- life, errors, time ---- */

/* Says that the library has it not, and ends this rank and all others. */
int shim_lacks(const char *name);

int MPI_Init(int *argc, char ***argv);
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPI_Initialized(int *flag);
int MPI_Finalized(int *flag);
int MPI_Finalize(void);
int MPI_Abort(MPI_Comm comm, int status);
int MPI_Error_class(int code, int *ret_class);
int MPI_Error_string(int code, char *text, int *ret_length);
double MPI_Wtime(void);
int MPI_Get_processor_name(char *name, int *ret_length);
int MPI_Alloc_mem(MPI_Aint bytes, MPI_Info info, void *ret_memory);
int MPI_Free_mem(void *memory);
int MPI_Info_create(MPI_Info *ret_info);
int MPI_Info_free(MPI_Info *info);

/* ---- types ---- */

int MPI_Type_size(MPI_Datatype type, int *ret_size);
int MPI_Type_get_extent(MPI_Datatype type, MPI_Aint *ret_lower, MPI_Aint *ret_extent);
int MPI_Type_get_true_extent(MPI_Datatype type, MPI_Aint *ret_lower, MPI_Aint *ret_extent);
int MPI_Type_get_name(MPI_Datatype type, char *name, int *ret_length);
int MPI_Get_address(const void *place, MPI_Aint *ret_address);
int MPI_Op_commutative(MPI_Op op, int *flag);
int MPI_Op_create(MPI_User_function *function, int commute, MPI_Op *ret_op);
int MPI_Op_free(MPI_Op *op);

/* ---- groups and communicators ---- */

int MPI_Comm_rank(MPI_Comm comm, int *ret_rank);
int MPI_Comm_size(MPI_Comm comm, int *ret_size);
int MPI_Comm_remote_size(MPI_Comm comm, int *ret_size);
int MPI_Comm_test_inter(MPI_Comm comm, int *flag);
int MPI_Comm_compare(MPI_Comm a, MPI_Comm b, int *ret_result);
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *ret_comm);
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *ret_comm, MPI_Request *request);
int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm *ret_comm);
int MPI_Comm_split_type(MPI_Comm comm, int split, int key, MPI_Info info, MPI_Comm *ret_comm);
int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *ret_comm);
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *ret_comm);
int MPI_Comm_group(MPI_Comm comm, MPI_Group *ret_group);
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Comm_get_name(MPI_Comm comm, char *name, int *ret_length);
int MPI_Comm_set_name(MPI_Comm comm, const char *name);
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler);
int MPI_Comm_get_attr(MPI_Comm comm, int key, void *ret_value, int *flag);
int MPI_Intercomm_create(MPI_Comm local, int leader, MPI_Comm peer, int remote_leader, int tag,
                         MPI_Comm *ret_comm);
int MPI_Intercomm_merge(MPI_Comm comm, int high, MPI_Comm *ret_comm);
int MPI_Group_size(MPI_Group group, int *ret_size);
int MPI_Group_rank(MPI_Group group, int *ret_rank);
int MPI_Group_incl(MPI_Group group, int count, const int ranks[], MPI_Group *ret_group);
int MPI_Group_excl(MPI_Group group, int count, const int ranks[], MPI_Group *ret_group);
int MPI_Group_range_incl(MPI_Group group, int count, int ranges[][3], MPI_Group *ret_group);
int MPI_Group_translate_ranks(MPI_Group from, int count, const int ranks[], MPI_Group to,
                              int ret_ranks[]);
int MPI_Group_compare(MPI_Group a, MPI_Group b, int *ret_result);
int MPI_Group_free(MPI_Group *group);
int MPI_Dims_create(int size, int count, int dims[]);
int MPI_Cart_create(MPI_Comm comm, int count, const int dims[], const int periods[], int reorder,
                    MPI_Comm *ret_comm);
int MPI_Cart_get(MPI_Comm comm, int count, int dims[], int periods[], int coords[]);
int MPI_Cart_coords(MPI_Comm comm, int rank, int count, int coords[]);
int MPI_Cart_shift(MPI_Comm comm, int dimension, int by, int *ret_source, int *ret_to);

/* ---- messages and requests ---- */

int MPI_Send(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
int MPI_Ssend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
int MPI_Rsend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
int MPI_Recv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status);
int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request);
int MPI_Issend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request);
int MPI_Irsend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request);
int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request);
int MPI_Send_init(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                  MPI_Request *request);
int MPI_Ssend_init(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                   MPI_Request *request);
int MPI_Rsend_init(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                   MPI_Request *request);
int MPI_Recv_init(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                  MPI_Request *request);
int MPI_Sendrecv(const void *send, int send_count, MPI_Datatype send_type, int to, int send_tag,
                 void *receive, int receive_count, MPI_Datatype receive_type, int from,
                 int receive_tag, MPI_Comm comm, MPI_Status *status);
int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *status);
int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status);
int MPI_Buffer_attach(void *memory, int bytes);
int MPI_Buffer_detach(void *ret_memory, int *ret_bytes);
int MPI_Bsend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm);
int MPI_Ibsend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request);
int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *ret_count);
int MPI_Start(MPI_Request *request);
int MPI_Startall(int count, MPI_Request requests[]);
int MPI_Request_free(MPI_Request *request);
int MPI_Wait(MPI_Request *request, MPI_Status *status);
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]);
int MPI_Waitany(int count, MPI_Request requests[], int *ret_index, MPI_Status *status);
int MPI_Waitsome(int count, MPI_Request requests[], int *ret_count, int indices[],
                 MPI_Status statuses[]);
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status);
int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[]);
int MPI_Testany(int count, MPI_Request requests[], int *ret_index, int *flag, MPI_Status *status);
int MPI_Testsome(int count, MPI_Request requests[], int *ret_count, int indices[],
                 MPI_Status statuses[]);

/* ---- collectives: each blocking, started (I..) and persistent (.._init) ---- */

#define SHIM_FORMS(Name, iname, ...)                                                               \
    int MPI_##Name(__VA_ARGS__, MPI_Comm comm);                                                    \
    int MPI_I##iname(__VA_ARGS__, MPI_Comm comm, MPI_Request *request);                            \
    int MPI_##Name##_init(__VA_ARGS__, MPI_Comm comm, MPI_Info info, MPI_Request *request);
#define SHIM_ONE                                                                                   \
    const void *send, int send_count, MPI_Datatype send_type, void *receive, int receive_count,    \
        MPI_Datatype receive_type
#define SHIM_FOLD const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op
#define SHIM_GATHERV                                                                               \
    const void *send, int send_count, MPI_Datatype send_type, void *receive,                       \
        const int receive_counts[], const int offsets[], MPI_Datatype receive_type
#define SHIM_SCATTERV                                                                              \
    const void *send, const int send_counts[], const int offsets[], MPI_Datatype send_type,        \
        void *receive, int receive_count, MPI_Datatype receive_type
#define SHIM_ALLTOALLV                                                                             \
    const void *send, const int send_counts[], const int send_offsets[], MPI_Datatype send_type,   \
        void *receive, const int receive_counts[], const int receive_offsets[],                    \
        MPI_Datatype receive_type
SHIM_FORMS(Bcast, bcast, void *data, int count, MPI_Datatype type, int root)
SHIM_FORMS(Allreduce, allreduce, SHIM_FOLD)
SHIM_FORMS(Reduce, reduce, SHIM_FOLD, int root)
SHIM_FORMS(Scan, scan, SHIM_FOLD)
SHIM_FORMS(Exscan, exscan, SHIM_FOLD)
SHIM_FORMS(Reduce_scatter, reduce_scatter, const void *send, void *receive, const int counts[],
           MPI_Datatype type, MPI_Op op)
SHIM_FORMS(Reduce_scatter_block, reduce_scatter_block, SHIM_FOLD)
SHIM_FORMS(Allgather, allgather, SHIM_ONE)
SHIM_FORMS(Allgatherv, allgatherv, SHIM_GATHERV)
SHIM_FORMS(Gather, gather, SHIM_ONE, int root)
SHIM_FORMS(Gatherv, gatherv, SHIM_GATHERV, int root)
SHIM_FORMS(Scatter, scatter, SHIM_ONE, int root)
SHIM_FORMS(Scatterv, scatterv, SHIM_SCATTERV, int root)
SHIM_FORMS(Alltoall, alltoall, SHIM_ONE)
SHIM_FORMS(Alltoallv, alltoallv, SHIM_ALLTOALLV)
SHIM_FORMS(Neighbor_allgather, neighbor_allgather, SHIM_ONE)
SHIM_FORMS(Neighbor_alltoall, neighbor_alltoall, SHIM_ONE)
SHIM_FORMS(Neighbor_allgatherv, neighbor_allgatherv, SHIM_GATHERV)
SHIM_FORMS(Neighbor_alltoallv, neighbor_alltoallv, SHIM_ALLTOALLV)
int MPI_Barrier(MPI_Comm comm);
int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request);
int MPI_Barrier_init(MPI_Comm comm, MPI_Info info, MPI_Request *request);

#include "mpi_lacks.h"

#endif
