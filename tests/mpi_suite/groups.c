/* mpi.h: groups and communicators. */
#include "shim.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void shim_comm_fill(MPI_Comm comm, psring_group *group)
{
    comm->group = group;
    comm->rank = psring_rank(group);
    comm->size = psring_size(group);
    comm->handler = MPI_ERRORS_ARE_FATAL;
}

static MPI_Comm comm_new(MPI_Comm from, psring_group *group)
{
    MPI_Comm comm = shim_memory(sizeof *comm);
    shim_comm_fill(comm, group);
    comm->handler = from->handler;
    return comm;
}

psring_group *shim_group_of(MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL)
        shim_refuse(comm, MPI_ERR_COMM, "MPI_COMM_NULL");
    if (comm->remote != NULL)
        shim_lacks("intercommunicators");
    return comm->group;
}

/* What a call that makes a group has given: NULL where this rank is not of it. */
static int made(MPI_Comm from, psring_err err, psring_group *group, MPI_Comm *ret_comm)
{
    if (err == PSRING_OK)
        *ret_comm = group != NULL ? comm_new(from, group) : MPI_COMM_NULL;
    return shim_result(from, err);
}

int MPI_Comm_rank(MPI_Comm comm, int *ret_rank)
{
    *ret_rank = comm->rank;
    return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm comm, int *ret_size)
{
    *ret_size = comm->size;
    return MPI_SUCCESS;
}

int MPI_Comm_remote_size(MPI_Comm comm, int *ret_size)
{
    if (comm->remote == NULL)
        return shim_refuse(comm, MPI_ERR_COMM, "not an intercommunicator");
    *ret_size = comm->remote->size;
    return MPI_SUCCESS;
}

int MPI_Comm_test_inter(MPI_Comm comm, int *flag)
{
    *flag = comm->remote != NULL;
    return MPI_SUCCESS;
}

int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm *ret_comm)
{
    psring_group *group = NULL;
    psring_err err =
        psring_group_split(shim_group_of(comm), colour == MPI_UNDEFINED ? PSRING_NO_COLOUR : colour,
                           key, NULL, &group);
    return made(comm, err, group, ret_comm);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *ret_comm)
{
    int status = MPI_Comm_split(comm, 0, 0, ret_comm);
    if (status == MPI_SUCCESS) {
        (*ret_comm)->dimensions = comm->dimensions;
        memcpy((*ret_comm)->dims, comm->dims, sizeof comm->dims);
        memcpy((*ret_comm)->periods, comm->periods, sizeof comm->periods);
    }
    return status;
}

MPI_Comm shim_comm_made(MPI_Comm comm, psring_group *group)
{
    MPI_Comm made = comm_new(comm, group);
    made->dimensions = comm->dimensions;
    memcpy(made->dims, comm->dims, sizeof comm->dims);
    memcpy(made->periods, comm->periods, sizeof comm->periods);
    return made;
}

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *ret_comm, MPI_Request *request)
{
    psring_group *group = shim_group_of(comm);
    MPI_Request r = shim_begin(comm, SHIM_STARTED);
    r->made = shim_memory(sizeof *r->made);
    r->made_comm = ret_comm;
    return shim_end(r, SHIM_STARTED,
                    psring_group_split_start(group, 0, 0, NULL, r->made, &r->operation), request);
}

int MPI_Comm_split_type(MPI_Comm comm, int split, int key, MPI_Info info, MPI_Comm *ret_comm)
{
    (void)info;
    psring_group *on_host = NULL, *group = NULL;
    if (split != MPI_COMM_TYPE_SHARED && split != MPI_UNDEFINED)
        shim_lacks("MPI_Comm_split_type of hardware");
    psring_err err = psring_group_on_host(shim_group_of(comm), NULL, &on_host);
    if (err == PSRING_OK)
        err = psring_group_split(on_host, split == MPI_UNDEFINED ? PSRING_NO_COLOUR : 0, key, NULL,
                                 &group);
    psring_group_free(&on_host);
    return made(comm, err, group, ret_comm);
}

int MPI_Comm_free(MPI_Comm *comm)
{
    if (*comm == MPI_COMM_NULL || *comm == MPI_COMM_WORLD || *comm == MPI_COMM_SELF)
        return shim_refuse(MPI_COMM_WORLD, MPI_ERR_COMM,
                           "MPI_Comm_free of a communicator that is not the program's");
    psring_group_free(&(*comm)->group);
    free((*comm)->remote);
    free(*comm);
    *comm = MPI_COMM_NULL;
    return MPI_SUCCESS;
}

int MPI_Comm_get_name(MPI_Comm comm, char *name, int *ret_length)
{
    *ret_length = snprintf(name, MPI_MAX_OBJECT_NAME, "%s", comm->name);
    return MPI_SUCCESS;
}

int MPI_Comm_set_name(MPI_Comm comm, const char *name)
{
    snprintf(comm->name, sizeof comm->name, "%s", name);
    return MPI_SUCCESS;
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
    comm->handler = handler;
    return MPI_SUCCESS;
}

int MPI_Comm_get_attr(MPI_Comm comm, int key, void *ret_value, int *flag)
{
    static int tag_most = (int)PSRING_TAG_MAX;
    (void)comm;
    *flag = key == MPI_TAG_UB;
    if (*flag)
        *(int **)ret_value = &tag_most;
    return MPI_SUCCESS;
}

/* ---- groups: lists of the world's ranks ---- */

static MPI_Group group_new(int size)
{
    MPI_Group group = shim_memory(sizeof *group + (size_t)size * sizeof *group->ranks);
    group->size = size;
    return group;
}

static int place_in(MPI_Group group, int world_rank)
{
    for (int i = 0; i < group->size; i++)
        if (group->ranks[i] == world_rank)
            return i;
    return MPI_UNDEFINED;
}

int MPI_Comm_group(MPI_Comm comm, MPI_Group *ret_group)
{
    *ret_group = group_new(comm->size);
    for (int i = 0; i < comm->size; i++)
        (*ret_group)->ranks[i] = psring_group_translate(comm->group, i, shim_world_group);
    return MPI_SUCCESS;
}

int MPI_Group_free(MPI_Group *group)
{
    if (*group != MPI_GROUP_EMPTY)
        free(*group);
    *group = MPI_GROUP_NULL;
    return MPI_SUCCESS;
}

int MPI_Group_size(MPI_Group group, int *ret_size)
{
    *ret_size = group->size;
    return MPI_SUCCESS;
}

int MPI_Group_rank(MPI_Group group, int *ret_rank)
{
    *ret_rank = place_in(group, shim_world.rank);
    return MPI_SUCCESS;
}

int MPI_Group_incl(MPI_Group group, int count, const int ranks[], MPI_Group *ret_group)
{
    *ret_group = group_new(count);
    for (int i = 0; i < count; i++)
        (*ret_group)->ranks[i] = group->ranks[ranks[i]];
    return MPI_SUCCESS;
}

int MPI_Group_excl(MPI_Group group, int count, const int ranks[], MPI_Group *ret_group)
{
    *ret_group = group_new(group->size - count);
    int kept = 0;
    for (int i = 0; i < group->size; i++) {
        bool out = false;
        for (int k = 0; k < count; k++)
            out = out || ranks[k] == i;
        if (!out)
            (*ret_group)->ranks[kept++] = group->ranks[i];
    }
    return MPI_SUCCESS;
}

int MPI_Group_range_incl(MPI_Group group, int count, int ranges[][3], MPI_Group *ret_group)
{
    int *ranks = shim_memory((size_t)group->size * sizeof *ranks), used = 0;
    for (int i = 0; i < count; i++)
        for (int r = ranges[i][0]; ranges[i][2] > 0 ? r <= ranges[i][1] : r >= ranges[i][1];
             r += ranges[i][2])
            ranks[used++] = r;
    int status = MPI_Group_incl(group, used, ranks, ret_group);
    free(ranks);
    return status;
}

int MPI_Group_translate_ranks(MPI_Group from, int count, const int ranks[], MPI_Group to,
                              int ret_ranks[])
{
    for (int i = 0; i < count; i++)
        ret_ranks[i] =
            ranks[i] == MPI_PROC_NULL ? MPI_PROC_NULL : place_in(to, from->ranks[ranks[i]]);
    return MPI_SUCCESS;
}

int MPI_Group_compare(MPI_Group a, MPI_Group b, int *ret_result)
{
    *ret_result = a->size == b->size ? MPI_IDENT : MPI_UNEQUAL;
    for (int i = 0; i < a->size && *ret_result != MPI_UNEQUAL; i++)
        if (a->ranks[i] != b->ranks[i])
            *ret_result = place_in(b, a->ranks[i]) == MPI_UNDEFINED ? MPI_UNEQUAL : MPI_SIMILAR;
    return MPI_SUCCESS;
}

int MPI_Comm_compare(MPI_Comm a, MPI_Comm b, int *ret_result)
{
    MPI_Group of_a, of_b;
    if (a == b) {
        *ret_result = MPI_IDENT;
        return MPI_SUCCESS;
    }
    MPI_Comm_group(a, &of_a);
    MPI_Comm_group(b, &of_b);
    MPI_Group_compare(of_a, of_b, ret_result);
    if (*ret_result == MPI_IDENT)
        *ret_result = MPI_CONGRUENT;
    if ((a->remote != NULL) != (b->remote != NULL))
        *ret_result = MPI_UNEQUAL;
    MPI_Group_free(&of_a);
    MPI_Group_free(&of_b);
    return MPI_SUCCESS;
}

/* By all of comm: who is in the group goes to it, by its place there. Ranks that make different
 * groups give different lists. */
int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *ret_comm)
{
    int place = place_in(group, shim_world.rank);
    if (place == MPI_UNDEFINED)
        return MPI_Comm_split(comm, MPI_UNDEFINED, 0, ret_comm);
    return MPI_Comm_split(comm, group->ranks[0], place, ret_comm);
}

int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *ret_comm)
{
    (void)tag; /* calls for one group come in one order */
    MPI_Group of_comm;
    psring_group *parent = shim_group_of(comm), *made_group = NULL;
    if (group->size == 0) {
        *ret_comm = MPI_COMM_NULL;
        return MPI_SUCCESS;
    }
    MPI_Comm_group(comm, &of_comm);
    int *ranks = shim_memory((size_t)group->size * sizeof *ranks);
    for (int i = 0; i < group->size; i++)
        ranks[i] = place_in(of_comm, group->ranks[i]);
    psring_err err = psring_group_from_ranks(parent, ranks, group->size, NULL, &made_group);
    free(ranks);
    MPI_Group_free(&of_comm);
    return made(comm, err, made_group, ret_comm);
}

/* ---- intercommunicators, as far as they are merged or asked: the leaders tell each other their
 * groups, and each its own ---- */

/* Of each side one number, or a list: what the other side's leader says. ret_theirs[count] on all
 * of both sides. */
static psring_err across(MPI_Comm inter, const int *ours, int *ret_theirs, size_t count,
                         size_t their_count)
{
    psring_group *local = inter->group, *peer = inter->peer != NULL ? inter->peer->group : NULL;
    psring_err err = PSRING_OK;
    if (inter->rank == inter->leader) {
        psring_request *sent = NULL;
        err = psring_send(peer, ours, count, PSRING_INT32, inter->remote_leader,
                          (uint32_t)inter->tag, NULL, &sent);
        if (err == PSRING_OK)
            err = psring_receive(peer, ret_theirs, their_count, PSRING_INT32, inter->remote_leader,
                                 (uint32_t)inter->tag, NULL, NULL);
        if (err == PSRING_OK)
            err = psring_wait(sent, PSRING_FOREVER);
        psring_request_free(&sent);
    }
    if (err == PSRING_OK)
        err = psring_broadcast(local, ret_theirs, their_count, PSRING_INT32, inter->leader, NULL,
                               NULL);
    return err;
}

/* local may be freed before it: it has a group of its own. */
int MPI_Intercomm_create(MPI_Comm local, int leader, MPI_Comm peer, int remote_leader, int tag,
                         MPI_Comm *ret_comm)
{
    MPI_Group ours;
    MPI_Comm inter;
    int size = local->size, their_size = 0, status = MPI_Comm_dup(local, &inter);
    if (status != MPI_SUCCESS)
        return status;
    inter->peer = peer;
    inter->leader = leader;
    inter->remote_leader = remote_leader;
    inter->tag = tag;
    MPI_Comm_group(local, &ours);
    psring_err err = across(inter, &size, &their_size, 1, 1);
    inter->remote = group_new(err == PSRING_OK ? their_size : 0);
    if (err == PSRING_OK)
        err = across(inter, ours->ranks, inter->remote->ranks, (size_t)size, (size_t)their_size);
    MPI_Group_free(&ours);
    *ret_comm = inter;
    return shim_result(local, err);
}

int MPI_Intercomm_merge(MPI_Comm comm, int high, MPI_Comm *ret_comm)
{
    MPI_Group ours, theirs = comm->remote;
    int their_high = 0, total = comm->size + theirs->size;
    psring_group *group = NULL;
    psring_err err = across(comm, &high, &their_high, 1, 1);
    MPI_Comm_group(comm, &ours);
    bool first = high != their_high ? !high : ours->ranks[0] < theirs->ranks[0];
    int *ranks = shim_memory((size_t)total * sizeof *ranks), used = 0;
    for (int side = 0; side < 2; side++) {
        MPI_Group g = first == (side == 0) ? ours : theirs;
        for (int i = 0; i < g->size; i++)
            ranks[used++] = g->ranks[i];
    }
    if (err == PSRING_OK)
        err = psring_group_from_ranks(shim_world_group, ranks, total, NULL, &group);
    free(ranks);
    MPI_Group_free(&ours);
    return made(comm, err, group, ret_comm);
}

/* ---- grids ---- */

int MPI_Dims_create(int size, int count, int dims[])
{
    int left = size, open = 0;
    for (int i = 0; i < count; i++) {
        if (dims[i] > 0)
            left /= dims[i];
        open += dims[i] == 0;
    }
    /* Each one that is open takes the smallest divisor that is at least the root of what is
     * left. */
    for (int i = 0; i < count; i++) {
        if (dims[i] != 0)
            continue;
        int part = 1;
        while (part < left &&
               (left % part != 0 || __builtin_powi((double)part, open) < (double)left))
            part++;
        dims[i] = part;
        left /= part;
        open--;
    }
    return MPI_SUCCESS;
}

int MPI_Cart_create(MPI_Comm comm, int count, const int dims[], const int periods[], int reorder,
                    MPI_Comm *ret_comm)
{
    (void)reorder;
    int size = 1;
    for (int i = 0; i < count; i++)
        size *= dims[i];
    if (count > SHIM_DIMENSIONS || size > comm->size)
        return shim_refuse(comm, MPI_ERR_DIMS,
                           "a grid of more ranks than there are, or of too many dimensions");
    int status = MPI_Comm_split(comm, comm->rank < size ? 0 : MPI_UNDEFINED, 0, ret_comm);
    if (status == MPI_SUCCESS && *ret_comm != MPI_COMM_NULL) {
        (*ret_comm)->dimensions = count;
        memcpy((*ret_comm)->dims, dims, (size_t)count * sizeof *dims);
        memcpy((*ret_comm)->periods, periods, (size_t)count * sizeof *periods);
    }
    return status;
}

int MPI_Cart_coords(MPI_Comm comm, int rank, int count, int coords[])
{
    for (int i = count - 1; i >= 0; i--) {
        coords[i] = rank % comm->dims[i];
        rank /= comm->dims[i];
    }
    return MPI_SUCCESS;
}

int MPI_Cart_get(MPI_Comm comm, int count, int dims[], int periods[], int coords[])
{
    memcpy(dims, comm->dims, (size_t)count * sizeof *dims);
    memcpy(periods, comm->periods, (size_t)count * sizeof *periods);
    return MPI_Cart_coords(comm, comm->rank, count, coords);
}

static int neighbour(MPI_Comm comm, int dimension, int by)
{
    int coords[SHIM_DIMENSIONS], rank = 0;
    MPI_Cart_coords(comm, comm->rank, comm->dimensions, coords);
    int there = coords[dimension] + by, dim = comm->dims[dimension];
    if (!comm->periods[dimension] && (there < 0 || there >= dim))
        return MPI_PROC_NULL;
    coords[dimension] = (there % dim + dim) % dim;
    for (int i = 0; i < comm->dimensions; i++)
        rank = rank * comm->dims[i] + coords[i];
    return rank;
}

int MPI_Cart_shift(MPI_Comm comm, int dimension, int by, int *ret_source, int *ret_to)
{
    *ret_source = neighbour(comm, dimension, -by);
    *ret_to = neighbour(comm, dimension, by);
    return MPI_SUCCESS;
}
