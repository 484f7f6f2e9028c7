/* mpi.h: collectives. Each is written once, for its three forms. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* The three forms of one function `name(mode, request, .., comm)`, whose parameters and arguments
 * are given in parentheses. */
#define UNPAREN(...) __VA_ARGS__
#define FORMS(Name, iname, params, args)                                                           \
    int MPI_##Name(UNPAREN params, MPI_Comm comm)                                                  \
    {                                                                                              \
        MPI_Request r = shim_begin(comm, SHIM_BLOCKING);                                           \
        return shim_end(r, SHIM_BLOCKING, iname(SHIM_BLOCKING, r, UNPAREN args), NULL);            \
    }                                                                                              \
    int MPI_I##iname(UNPAREN params, MPI_Comm comm, MPI_Request *request)                          \
    {                                                                                              \
        MPI_Request r = shim_begin(comm, SHIM_STARTED);                                            \
        return shim_end(r, SHIM_STARTED, iname(SHIM_STARTED, r, UNPAREN args), request);           \
    }                                                                                              \
    int MPI_##Name##_init(UNPAREN params, MPI_Comm comm, MPI_Info info, MPI_Request *request)      \
    {                                                                                              \
        (void)info;                                                                                \
        MPI_Request r = shim_begin(comm, SHIM_PERSISTENT);                                         \
        return shim_end(r, SHIM_PERSISTENT, iname(SHIM_PERSISTENT, r, UNPAREN args), request);     \
    }

/* ---- what lies elsewhere for the program than for the library ---- */

/* count pieces of theirs, the i-th of counts[i] values of type at offsets[i], one behind another in
 * memory of ours. counts and offsets NULL: each of one_count, dense. ret: the memory, which the
 * request owns. */
static char *pieces(struct shim_piece **ret_pieces, int count, void *theirs, const int *counts,
                    const int *offsets, int one_count, MPI_Datatype type, size_t *ret_counts)
{
    struct shim_piece *list = shim_memory((size_t)count * sizeof *list);
    size_t bytes = 0;
    for (int i = 0; i < count; i++) {
        int values = counts != NULL ? counts[i] : one_count;
        ptrdiff_t offset = offsets != NULL ? offsets[i] : (ptrdiff_t)i * one_count;
        list[i].theirs = (char *)theirs + offset * (ptrdiff_t)type->bytes;
        list[i].bytes = (size_t)values * type->bytes;
        ret_counts[i] = (size_t)values * type->values;
        bytes += list[i].bytes;
    }
    char *packed = shim_memory(bytes);
    char *end = packed;
    for (int i = 0; i < count; i++) {
        list[i].ours = end;
        end += list[i].bytes;
    }
    *ret_pieces = list;
    return packed;
}

static psring_block block(int rank, void *data, int count, MPI_Datatype type)
{
    return (psring_block){
        .rank = rank, .data = data, .shape = {1, 1, 1, (size_t)count * type->values}};
}

static void *at(const void *memory, ptrdiff_t place, MPI_Datatype type)
{
    return (char *)memory + place * (ptrdiff_t)type->bytes;
}

/* ---- one root ---- */

static psring_err bcast(shim_mode mode, MPI_Request r, void *data, int count, MPI_Datatype type,
                        int root)
{
    return psring_broadcast(shim_group_of(r->comm), data, (size_t)count * type->values, type->type,
                            root, SHIM_LAST(mode, r));
}

static psring_err reduce(shim_mode mode, MPI_Request r, const void *send, void *receive, int count,
                         MPI_Datatype type, MPI_Op op, int root)
{
    psring_group *group = shim_group_of(r->comm);
    if (send == MPI_IN_PLACE)
        send = receive;
    return psring_reduce(group, send, r->comm->rank == root ? receive : NULL,
                         (size_t)count * type->values, type->type, shim_fold_of(op, type), root,
                         SHIM_LAST(mode, r));
}

/* Where the root has its own part already, the library is told where that is. */
static psring_err gather(shim_mode mode, MPI_Request r, const void *send, int send_count,
                         MPI_Datatype send_type, void *receive, int receive_count,
                         MPI_Datatype receive_type, int root)
{
    psring_group *group = shim_group_of(r->comm);
    if (r->comm->rank == root && send == MPI_IN_PLACE) {
        send = at(receive, (ptrdiff_t)root * receive_count, receive_type);
        send_count = receive_count;
        send_type = receive_type;
    }
    return psring_gather(group, send, r->comm->rank == root ? receive : NULL,
                         (size_t)send_count * send_type->values, send_type->type, root,
                         SHIM_LAST(mode, r));
}

static psring_err scatter(shim_mode mode, MPI_Request r, const void *send, int send_count,
                          MPI_Datatype send_type, void *receive, int receive_count,
                          MPI_Datatype receive_type, int root)
{
    psring_group *group = shim_group_of(r->comm);
    if (r->comm->rank == root && receive == MPI_IN_PLACE) {
        receive = at(send, (ptrdiff_t)root * send_count, send_type);
        receive_count = send_count;
        receive_type = send_type;
    }
    return psring_scatter(group, r->comm->rank == root ? send : NULL, receive,
                          (size_t)receive_count * receive_type->values, receive_type->type, root,
                          SHIM_LAST(mode, r));
}

/* Only the root knows the counts: each of the others exchanges one block with it. */
static psring_err with_root(shim_mode mode, MPI_Request r, bool to_root, void *own, int own_count,
                            MPI_Datatype own_type, void *all, const int counts[],
                            const int offsets[], MPI_Datatype all_type, int root)
{
    psring_group *group = shim_group_of(r->comm);
    bool is_root = r->comm->rank == root, in_place = own == MPI_IN_PLACE;
    MPI_Datatype type = is_root ? all_type : own_type;
    psring_block *many = shim_memory((size_t)r->comm->size * sizeof *many), one;
    size_t many_count = 0, one_count = 0;
    for (int i = 0; is_root && i < r->comm->size; i++)
        if (counts[i] > 0 && !(i == root && in_place))
            many[many_count++] = block(i, at(all, offsets[i], all_type), counts[i], all_type);
    if (!in_place && own_count > 0) {
        one = block(root, own, own_count, own_type);
        one_count = 1;
    }
    psring_err err = to_root ? psring_neighbor_exchange(group, &one, one_count, many, many_count,
                                                        type->type, SHIM_LAST(mode, r))
                             : psring_neighbor_exchange(group, many, many_count, &one, one_count,
                                                        type->type, SHIM_LAST(mode, r));
    free(many);
    return err;
}

static psring_err gatherv(shim_mode mode, MPI_Request r, const void *send, int send_count,
                          MPI_Datatype send_type, void *receive, const int counts[],
                          const int offsets[], MPI_Datatype receive_type, int root)
{
    return with_root(mode, r, true, (void *)send, send_count, send_type, receive, counts, offsets,
                     receive_type, root);
}

static psring_err scatterv(shim_mode mode, MPI_Request r, const void *send, const int counts[],
                           const int offsets[], MPI_Datatype send_type, void *receive,
                           int receive_count, MPI_Datatype receive_type, int root)
{
    return with_root(mode, r, false, receive, receive_count, receive_type, (void *)send, counts,
                     offsets, send_type, root);
}

/* ---- folds ---- */

#define FOLD(name, verb)                                                                           \
    static psring_err name(shim_mode mode, MPI_Request r, const void *send, void *receive,         \
                           int count, MPI_Datatype type, MPI_Op op)                                \
    {                                                                                              \
        return verb(shim_group_of(r->comm), send == MPI_IN_PLACE ? receive : send, receive,        \
                    (size_t)count * type->values, type->type, shim_fold_of(op, type),              \
                    SHIM_LAST(mode, r));                                                           \
    }
FOLD(allreduce, psring_all_reduce)
FOLD(scan, psring_scan)
FOLD(exscan, psring_exscan)

/* In place, MPI has the result at the beginning of the whole, and the library at this rank's
 * part. */
static psring_err scatter_fold(shim_mode mode, MPI_Request r, const void *send, void *receive,
                               const int counts[], int one_count, MPI_Datatype type, MPI_Op op)
{
    psring_group *group = shim_group_of(r->comm);
    size_t *values = shim_memory((size_t)r->comm->size * sizeof *values);
    for (int i = 0; i < r->comm->size; i++)
        values[i] = (size_t)(counts != NULL ? counts[i] : one_count) * type->values;
    if (send == MPI_IN_PLACE) {
        const int own = counts != NULL ? counts[r->comm->rank] : one_count;
        size_t own_values[1];
        r->packed = pieces(&r->receive, 1, receive, &own, NULL, 0, type, own_values);
        r->receive_count = 1;
        send = receive;
        receive = r->packed;
    }
    psring_call call = {
        .size = sizeof call, .counts = values, .persistent = mode == SHIM_PERSISTENT};
    psring_err err =
        psring_reduce_scatter(group, send, receive, 0, type->type, shim_fold_of(op, type), &call,
                              mode == SHIM_BLOCKING ? NULL : &r->operation);
    free(values);
    return err;
}

static psring_err reduce_scatter(shim_mode mode, MPI_Request r, const void *send, void *receive,
                                 const int counts[], MPI_Datatype type, MPI_Op op)
{
    return scatter_fold(mode, r, send, receive, counts, 0, type, op);
}

static psring_err reduce_scatter_block(shim_mode mode, MPI_Request r, const void *send,
                                       void *receive, int count, MPI_Datatype type, MPI_Op op)
{
    return scatter_fold(mode, r, send, receive, NULL, count, type, op);
}

/* ---- all to all ---- */

static psring_err allgather(shim_mode mode, MPI_Request r, const void *send, int send_count,
                            MPI_Datatype send_type, void *receive, int receive_count,
                            MPI_Datatype receive_type)
{
    (void)send_count;
    (void)send_type; /* as much, by MPI's rules */
    if (send == MPI_IN_PLACE)
        send = at(receive, (ptrdiff_t)r->comm->rank * receive_count, receive_type);
    return psring_all_gather(shim_group_of(r->comm), send, receive,
                             (size_t)receive_count * receive_type->values, receive_type->type,
                             SHIM_LAST(mode, r));
}

static psring_err allgatherv(shim_mode mode, MPI_Request r, const void *send, int send_count,
                             MPI_Datatype send_type, void *receive, const int counts[],
                             const int offsets[], MPI_Datatype receive_type)
{
    psring_group *group = shim_group_of(r->comm);
    int rank = r->comm->rank, size = r->comm->size;
    size_t *values = shim_memory((size_t)size * sizeof *values);
    (void)send_count;
    (void)send_type;
    r->packed = pieces(&r->receive, size, receive, counts, offsets, 0, receive_type, values);
    r->receive_count = size;
    if (send == MPI_IN_PLACE) { /* from where it lies to its part of ours,
                                   which is in place for the library too */
        r->send = shim_memory(sizeof *r->send);
        *r->send = r->receive[rank];
        r->send_count = 1;
        send = r->send->ours;
        if (mode != SHIM_PERSISTENT)
            shim_pack(r);
    }
    psring_call call = {
        .size = sizeof call, .counts = values, .persistent = mode == SHIM_PERSISTENT};
    psring_err err = psring_all_gather(group, send, r->packed, 0, receive_type->type, &call,
                                       mode == SHIM_BLOCKING ? NULL : &r->operation);
    free(values);
    return err;
}

static psring_err alltoall(shim_mode mode, MPI_Request r, const void *send, int send_count,
                           MPI_Datatype send_type, void *receive, int receive_count,
                           MPI_Datatype receive_type)
{
    (void)send_count;
    (void)send_type;
    return psring_all_to_all(shim_group_of(r->comm), send == MPI_IN_PLACE ? receive : send, receive,
                             (size_t)receive_count * receive_type->values, receive_type->type,
                             SHIM_LAST(mode, r));
}

static psring_err alltoallv(shim_mode mode, MPI_Request r, const void *send,
                            const int send_counts[], const int send_offsets[],
                            MPI_Datatype send_type, void *receive, const int receive_counts[],
                            const int receive_offsets[], MPI_Datatype receive_type)
{
    psring_group *group = shim_group_of(r->comm);
    int size = r->comm->size;
    size_t *to = shim_memory((size_t)size * sizeof *to),
           *from = shim_memory((size_t)size * sizeof *from);
    r->packed =
        pieces(&r->receive, size, receive, receive_counts, receive_offsets, 0, receive_type, from);
    r->receive_count = size;
    char *sent = r->packed;
    if (send == MPI_IN_PLACE) {
        r->send = shim_memory((size_t)size * sizeof *r->send);
        memcpy(r->send, r->receive, (size_t)size * sizeof *r->send);
        memcpy(to, from, (size_t)size * sizeof *to);
    } else { /* both behind one another, so that the request owns one memory */
        char *apart =
            pieces(&r->send, size, (void *)send, send_counts, send_offsets, 0, send_type, to);
        size_t received_bytes = 0, sent_bytes = 0;
        for (int i = 0; i < size; i++) {
            received_bytes += r->receive[i].bytes;
            sent_bytes += r->send[i].bytes;
        }
        received_bytes = (received_bytes / 64 + 1) * 64; /* apart also where nothing comes in */
        free(apart);
        free(r->packed);
        r->packed = shim_memory(received_bytes + sent_bytes);
        sent = r->packed + received_bytes;
        char *ours = r->packed, *out = sent;
        for (int i = 0; i < size; i++) {
            r->receive[i].ours = ours;
            r->send[i].ours = out;
            ours += r->receive[i].bytes;
            out += r->send[i].bytes;
        }
    }
    r->send_count = size;
    if (mode != SHIM_PERSISTENT)
        shim_pack(r);
    psring_err err = psring_all_to_all_v(group, sent, to, r->packed, from, receive_type->type,
                                         SHIM_LAST(mode, r));
    free(to);
    free(from);
    return err;
}

/* ---- neighbours of a grid: of each dimension the one below, then the one above. What goes down
 * comes in from above, also where both are the same rank: so of one rank the library expects them
 * the other way round ---- */

static psring_err with_neighbours(shim_mode mode, MPI_Request r, void *send, const int *send_counts,
                                  const int *send_offsets, int send_count, bool sends_one,
                                  MPI_Datatype send_type, void *receive, const int *receive_counts,
                                  const int *receive_offsets, int receive_count,
                                  MPI_Datatype receive_type)
{
    psring_group *group = shim_group_of(r->comm);
    int dimensions = r->comm->dimensions;
    psring_block out[2 * SHIM_DIMENSIONS], in[2 * SHIM_DIMENSIONS];
    size_t out_count = 0, in_count = 0;
    if (dimensions == 0)
        shim_lacks("neighbours but of a grid");
    for (int i = 0; i < 2 * dimensions; i++) {
        int below, above, there = i ^ 1; /* the other one of this dimension */
        MPI_Cart_shift(r->comm, i / 2, 1, &below, &above);
        int to = i % 2 == 0 ? below : above, from = i % 2 == 0 ? above : below;
        int to_count = send_counts != NULL ? send_counts[i] : send_count;
        int from_count = receive_counts != NULL ? receive_counts[there] : receive_count;
        ptrdiff_t to_offset = sends_one              ? 0
                              : send_offsets != NULL ? send_offsets[i]
                                                     : (ptrdiff_t)i * send_count;
        ptrdiff_t from_offset =
            receive_offsets != NULL ? receive_offsets[there] : (ptrdiff_t)there * receive_count;
        if (to != MPI_PROC_NULL && to_count > 0)
            out[out_count++] = block(to, at(send, to_offset, send_type), to_count, send_type);
        if (from != MPI_PROC_NULL && from_count > 0)
            in[in_count++] =
                block(from, at(receive, from_offset, receive_type), from_count, receive_type);
    }
    return psring_neighbor_exchange(group, out, out_count, in, in_count, receive_type->type,
                                    SHIM_LAST(mode, r));
}

static psring_err neighbor_allgather(shim_mode mode, MPI_Request r, const void *send,
                                     int send_count, MPI_Datatype send_type, void *receive,
                                     int receive_count, MPI_Datatype receive_type)
{
    return with_neighbours(mode, r, (void *)send, NULL, NULL, send_count, true, send_type, receive,
                           NULL, NULL, receive_count, receive_type);
}

static psring_err neighbor_allgatherv(shim_mode mode, MPI_Request r, const void *send,
                                      int send_count, MPI_Datatype send_type, void *receive,
                                      const int counts[], const int offsets[],
                                      MPI_Datatype receive_type)
{
    return with_neighbours(mode, r, (void *)send, NULL, NULL, send_count, true, send_type, receive,
                           counts, offsets, 0, receive_type);
}

static psring_err neighbor_alltoall(shim_mode mode, MPI_Request r, const void *send, int send_count,
                                    MPI_Datatype send_type, void *receive, int receive_count,
                                    MPI_Datatype receive_type)
{
    return with_neighbours(mode, r, (void *)send, NULL, NULL, send_count, false, send_type, receive,
                           NULL, NULL, receive_count, receive_type);
}

static psring_err neighbor_alltoallv(shim_mode mode, MPI_Request r, const void *send,
                                     const int send_counts[], const int send_offsets[],
                                     MPI_Datatype send_type, void *receive,
                                     const int receive_counts[], const int receive_offsets[],
                                     MPI_Datatype receive_type)
{
    return with_neighbours(mode, r, (void *)send, send_counts, send_offsets, 0, false, send_type,
                           receive, receive_counts, receive_offsets, 0, receive_type);
}

/* ---- their forms ---- */

#define ONE_ARGS send, send_count, send_type, receive, receive_count, receive_type
#define FOLD_ARGS send, receive, count, type, op
#define GATHERV_ARGS send, send_count, send_type, receive, receive_counts, offsets, receive_type
#define SCATTERV_ARGS send, send_counts, offsets, send_type, receive, receive_count, receive_type
#define ALLTOALLV_ARGS                                                                             \
    send, send_counts, send_offsets, send_type, receive, receive_counts, receive_offsets,          \
        receive_type
FORMS(Bcast, bcast, (void *data, int count, MPI_Datatype type, int root), (data, count, type, root))
FORMS(Allreduce, allreduce, (SHIM_FOLD), (FOLD_ARGS))
FORMS(Reduce, reduce, (SHIM_FOLD, int root), (FOLD_ARGS, root))
FORMS(Scan, scan, (SHIM_FOLD), (FOLD_ARGS))
FORMS(Exscan, exscan, (SHIM_FOLD), (FOLD_ARGS))
FORMS(Reduce_scatter, reduce_scatter,
      (const void *send, void *receive, const int counts[], MPI_Datatype type, MPI_Op op),
      (send, receive, counts, type, op))
FORMS(Reduce_scatter_block, reduce_scatter_block, (SHIM_FOLD), (FOLD_ARGS))
FORMS(Allgather, allgather, (SHIM_ONE), (ONE_ARGS))
FORMS(Allgatherv, allgatherv, (SHIM_GATHERV), (GATHERV_ARGS))
FORMS(Gather, gather, (SHIM_ONE, int root), (ONE_ARGS, root))
FORMS(Gatherv, gatherv, (SHIM_GATHERV, int root), (GATHERV_ARGS, root))
FORMS(Scatter, scatter, (SHIM_ONE, int root), (ONE_ARGS, root))
FORMS(Scatterv, scatterv, (SHIM_SCATTERV, int root), (SCATTERV_ARGS, root))
FORMS(Alltoall, alltoall, (SHIM_ONE), (ONE_ARGS))
FORMS(Alltoallv, alltoallv, (SHIM_ALLTOALLV), (ALLTOALLV_ARGS))
FORMS(Neighbor_allgather, neighbor_allgather, (SHIM_ONE), (ONE_ARGS))
FORMS(Neighbor_alltoall, neighbor_alltoall, (SHIM_ONE), (ONE_ARGS))
FORMS(Neighbor_allgatherv, neighbor_allgatherv, (SHIM_GATHERV), (GATHERV_ARGS))
FORMS(Neighbor_alltoallv, neighbor_alltoallv, (SHIM_ALLTOALLV), (ALLTOALLV_ARGS))

static psring_err barrier(shim_mode mode, MPI_Request r)
{
    return psring_barrier(shim_group_of(r->comm), SHIM_LAST(mode, r));
}

int MPI_Barrier(MPI_Comm comm)
{
    MPI_Request r = shim_begin(comm, SHIM_BLOCKING);
    return shim_end(r, SHIM_BLOCKING, barrier(SHIM_BLOCKING, r), NULL);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    MPI_Request r = shim_begin(comm, SHIM_STARTED);
    return shim_end(r, SHIM_STARTED, barrier(SHIM_STARTED, r), request);
}

int MPI_Barrier_init(MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    (void)info;
    MPI_Request r = shim_begin(comm, SHIM_PERSISTENT);
    return shim_end(r, SHIM_PERSISTENT, barrier(SHIM_PERSISTENT, r), request);
}
