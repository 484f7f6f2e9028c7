/* mpi.h: requests and messages. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* ---- an operation's beginning and end ---- */

MPI_Request shim_begin(MPI_Comm comm, shim_mode mode)
{
    MPI_Request r = shim_memory(sizeof *r);
    r->comm = comm;
    r->is_persistent = mode == SHIM_PERSISTENT;
    r->is_active = !r->is_persistent;
    r->status = (MPI_Status){.MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG};
    return r;
}

void shim_pack(MPI_Request r)
{
    for (int i = 0; i < r->send_count; i++)
        memcpy(r->send[i].ours, r->send[i].theirs, r->send[i].bytes);
}

static void unpack(MPI_Request r)
{
    for (int i = 0; i < r->receive_count; i++)
        memcpy(r->receive[i].theirs, r->receive[i].ours, r->receive[i].bytes);
}

static void request_free(MPI_Request *request)
{
    MPI_Request r = *request;
    psring_request_free(&r->operation);
    free(r->packed);
    free(r->made);
    free(r->send);
    free(r->receive);
    free(r);
    *request = MPI_REQUEST_NULL;
}

/* Has ended: what the program sees of that. */
static int ended(MPI_Request *request, psring_err err, MPI_Status *status)
{
    MPI_Request r = *request;
    MPI_Comm comm = r->comm;
    if (err == PSRING_OK)
        unpack(r);
    if (err == PSRING_OK && r->value_bytes > 0)
        r->status = (MPI_Status){.MPI_SOURCE = r->came.from,
                                 .MPI_TAG = (int)r->came.tag,
                                 .shim_bytes = r->came.count / r->values * r->value_bytes};
    if (err == PSRING_OK && r->made != NULL)
        *r->made_comm = shim_comm_made(comm, *r->made);
    if (status != MPI_STATUS_IGNORE)
        *status = r->status;
    r->is_active = false;
    if (!r->is_persistent)
        request_free(request);
    return shim_result(comm, err);
}

int shim_end(MPI_Request r, shim_mode mode, psring_err err, MPI_Request *ret_request)
{
    if (mode == SHIM_BLOCKING || err != PSRING_OK)
        return ended(&r, err, MPI_STATUS_IGNORE);
    *ret_request = r;
    return MPI_SUCCESS;
}

/* ---- messages ---- */

static psring_err message(MPI_Request r, shim_mode mode, void *data, int count, MPI_Datatype type,
                          int other, int tag, bool is_send)
{
    psring_group *group = shim_group_of(r->comm);
    size_t values = (size_t)count * type->values;
    r->status =
        (MPI_Status){.MPI_SOURCE = other,
                     .MPI_TAG = other == MPI_PROC_NULL ? MPI_ANY_TAG : tag,
                     .shim_bytes = other == MPI_PROC_NULL ? 0 : (size_t)count * type->bytes};
    if (other == MPI_PROC_NULL)
        return PSRING_OK;
    if (is_send)
        return psring_send(group, data, values, type->type, other, (uint32_t)tag,
                           SHIM_LAST(mode, r));
    r->came = (psring_message){.size = sizeof r->came};
    r->value_bytes = type->bytes;
    r->values = type->values;
    psring_call call = {
        .size = sizeof call, .persistent = mode == SHIM_PERSISTENT, .message = &r->came};
    return psring_receive(group, data, values, type->type,
                          other == MPI_ANY_SOURCE ? PSRING_ANY_RANK : other,
                          tag == MPI_ANY_TAG ? PSRING_ANY_TAG : (uint32_t)tag, &call,
                          mode == SHIM_BLOCKING ? NULL : &r->operation);
}

#define SENDS(Name, mode)                                                                          \
    int MPI_##Name(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, \
                   MPI_Request *request)                                                           \
    {                                                                                              \
        MPI_Request r = shim_begin(comm, mode);                                                    \
        return shim_end(r, mode, message(r, mode, (void *)data, count, type, to, tag, true),       \
                        request);                                                                  \
    }
SENDS(Isend, SHIM_STARTED)
SENDS(Issend, SHIM_STARTED)
SENDS(Irsend, SHIM_STARTED)
SENDS(Send_init, SHIM_PERSISTENT)
SENDS(Ssend_init, SHIM_PERSISTENT)
SENDS(Rsend_init, SHIM_PERSISTENT)

int MPI_Send(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    MPI_Request r = shim_begin(comm, SHIM_BLOCKING);
    return ended(&r, message(r, SHIM_BLOCKING, (void *)data, count, type, to, tag, true),
                 MPI_STATUS_IGNORE);
}

/* A send of the library's ends when the other has called for it: it is a synchronous one. */
int MPI_Ssend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    return MPI_Send(data, count, type, to, tag, comm);
}

int MPI_Rsend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    return MPI_Send(data, count, type, to, tag, comm);
}

int MPI_Recv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    MPI_Request r = shim_begin(comm, SHIM_BLOCKING);
    return ended(&r, message(r, SHIM_BLOCKING, data, count, type, from, tag, false), status);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    MPI_Request r = shim_begin(comm, SHIM_STARTED);
    return shim_end(r, SHIM_STARTED, message(r, SHIM_STARTED, data, count, type, from, tag, false),
                    request);
}

int MPI_Recv_init(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    MPI_Request r = shim_begin(comm, SHIM_PERSISTENT);
    return shim_end(r, SHIM_PERSISTENT,
                    message(r, SHIM_PERSISTENT, data, count, type, from, tag, false), request);
}

int MPI_Sendrecv(const void *send, int send_count, MPI_Datatype send_type, int to, int send_tag,
                 void *receive, int receive_count, MPI_Datatype receive_type, int from,
                 int receive_tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request coming;
    int result = MPI_Irecv(receive, receive_count, receive_type, from, receive_tag, comm, &coming);
    if (result == MPI_SUCCESS)
        result = MPI_Send(send, send_count, send_type, to, send_tag, comm);
    return result == MPI_SUCCESS ? MPI_Wait(&coming, status) : result;
}

/* ---- sends that are copied: MPI's buffer is the library's ---- */

static void *attached;
static int attached_bytes;

int MPI_Buffer_attach(void *memory, int bytes)
{
    attached = memory;
    attached_bytes = bytes;
    return MPI_SUCCESS;
}

/* MPI waits here until all has left; the library's copies leave by themselves. */
int MPI_Buffer_detach(void *ret_memory, int *ret_bytes)
{
    *(void **)ret_memory = attached;
    *ret_bytes = attached_bytes;
    attached = NULL;
    attached_bytes = 0;
    return MPI_SUCCESS;
}

static psring_err buffered(MPI_Request r, shim_mode mode, const void *data, int count,
                           MPI_Datatype type, int to, int tag)
{
    psring_group *group = shim_group_of(r->comm);
    if (to == MPI_PROC_NULL)
        return PSRING_OK;
    return psring_send(group, data, (size_t)count * type->values, type->type, to, (uint32_t)tag,
                       PSRING_CALL(.buffered = true), mode == SHIM_BLOCKING ? NULL : &r->operation);
}

int MPI_Bsend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    MPI_Request r = shim_begin(comm, SHIM_BLOCKING);
    return ended(&r, buffered(r, SHIM_BLOCKING, data, count, type, to, tag), MPI_STATUS_IGNORE);
}

int MPI_Ibsend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    MPI_Request r = shim_begin(comm, SHIM_STARTED);
    return shim_end(r, SHIM_STARTED, buffered(r, SHIM_STARTED, data, count, type, to, tag),
                    request);
}

/* ---- probes ---- */

static void tell_probed(const psring_message *came, MPI_Status *status)
{
    static const size_t bytes[] = {
        [PSRING_FLOAT32] = 4,       [PSRING_FLOAT64] = 8,        [PSRING_FLOAT16] = 2,
        [PSRING_BFLOAT16] = 2,      [PSRING_INT8] = 1,           [PSRING_UINT8] = 1,
        [PSRING_INT32] = 4,         [PSRING_INT64] = 8,          [PSRING_INT16] = 2,
        [PSRING_UINT16] = 2,        [PSRING_UINT32] = 4,         [PSRING_UINT64] = 8,
        [PSRING_FLOAT32_INT32] = 8, [PSRING_FLOAT64_INT32] = 16, [PSRING_INT16_INT32] = 8,
        [PSRING_INT32_INT32] = 8,   [PSRING_INT64_INT32] = 16};
    if (status != MPI_STATUS_IGNORE)
        *status = (MPI_Status){.MPI_SOURCE = came->from,
                               .MPI_TAG = (int)came->tag,
                               .shim_bytes = came->count * bytes[came->type]};
}

static psring_err probe(int from, int tag, MPI_Comm comm, bool at_once, MPI_Status *status)
{
    psring_message came = {.size = sizeof came};
    psring_group *group = shim_group_of(comm);
    const int rank = from == MPI_ANY_SOURCE ? PSRING_ANY_RANK : from;
    const uint32_t with = tag == MPI_ANY_TAG ? PSRING_ANY_TAG : (uint32_t)tag;
    if (from == MPI_PROC_NULL) {
        if (status != MPI_STATUS_IGNORE)
            *status = (MPI_Status){.MPI_SOURCE = MPI_PROC_NULL, .MPI_TAG = MPI_ANY_TAG};
        return PSRING_OK;
    }
    psring_err err = at_once ? psring_probe_now(group, rank, with, &came)
                             : psring_probe(group, rank, with, NULL, &came);
    if (err == PSRING_OK)
        tell_probed(&came, status);
    return err;
}

int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *status)
{
    return shim_result(comm, probe(from, tag, comm, false, status));
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    psring_err err = probe(from, tag, comm, true, status);
    *flag = err == PSRING_OK;
    return err == PSRING_ERR_NOT_FOUND ? MPI_SUCCESS : shim_result(comm, err);
}

int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *ret_count)
{
    *ret_count = status->shim_bytes % type->bytes == 0 ? (int)(status->shim_bytes / type->bytes)
                                                       : MPI_UNDEFINED;
    return MPI_SUCCESS;
}

/* ---- requests ---- */

static const MPI_Status nothing = {.MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG};

static void say_nothing(MPI_Status *status)
{
    if (status != MPI_STATUS_IGNORE)
        *status = nothing;
}

static bool is_active(MPI_Request request)
{
    return request != MPI_REQUEST_NULL && request->is_active;
}

static MPI_Status *status_of(MPI_Status statuses[], int i)
{
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

int MPI_Start(MPI_Request *request)
{
    MPI_Request r = *request;
    shim_pack(r);
    r->is_active = true;
    return shim_result(r->comm, r->operation != NULL ? psring_start(r->operation) : PSRING_OK);
}

int MPI_Startall(int count, MPI_Request requests[])
{
    int result = MPI_SUCCESS;
    for (int i = 0; i < count && result == MPI_SUCCESS; i++)
        result = MPI_Start(&requests[i]);
    return result;
}

int MPI_Request_free(MPI_Request *request)
{
    request_free(request);
    return MPI_SUCCESS;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    say_nothing(status);
    if (!is_active(*request))
        return MPI_SUCCESS;
    psring_request *operation = (*request)->operation;
    return ended(request, operation != NULL ? psring_wait(operation, PSRING_FOREVER) : PSRING_OK,
                 status);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    int result = MPI_SUCCESS;
    for (int i = 0; i < count; i++) {
        int one = MPI_Wait(&requests[i], status_of(statuses, i));
        result = result != MPI_SUCCESS ? result : one;
    }
    return result;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    *flag = 1;
    say_nothing(status);
    if (!is_active(*request))
        return MPI_SUCCESS;
    psring_request *operation = (*request)->operation;
    psring_err err = operation != NULL ? psring_test(operation) : PSRING_OK;
    *flag = err != PSRING_ERR_BUSY;
    return *flag ? ended(request, err, status) : MPI_SUCCESS;
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    *flag = 1;
    for (int i = 0; i < count; i++)
        *flag = *flag && (!is_active(requests[i]) || requests[i]->operation == NULL ||
                          psring_test(requests[i]->operation) != PSRING_ERR_BUSY);
    return *flag ? MPI_Waitall(count, requests, statuses) : MPI_SUCCESS;
}

/* The library's requests of those that are under way, at the same places. ret: owned; *ret_ended:
 * one that needs no waiting, or -1. */
static psring_request **operations(int count, MPI_Request requests[], int *ret_ended,
                                   int *ret_active)
{
    psring_request **list = shim_memory((size_t)count * sizeof *list);
    *ret_ended = -1;
    *ret_active = 0;
    for (int i = 0; i < count; i++) {
        if (!is_active(requests[i]))
            continue;
        ++*ret_active;
        list[i] = requests[i]->operation;
        if (list[i] == NULL && *ret_ended < 0)
            *ret_ended = i;
    }
    return list;
}

int MPI_Waitany(int count, MPI_Request requests[], int *ret_index, MPI_Status *status)
{
    int at_once, active;
    size_t index = 0;
    psring_err err = PSRING_OK;
    psring_request **list = operations(count, requests, &at_once, &active);
    say_nothing(status);
    *ret_index = active == 0 ? MPI_UNDEFINED : at_once;
    if (active > 0 && at_once < 0) {
        err = psring_wait_any(list, (size_t)count, PSRING_FOREVER, &index);
        *ret_index = (int)index;
    }
    free(list);
    return active > 0 ? ended(&requests[*ret_index], err, status) : MPI_SUCCESS;
}

int MPI_Testany(int count, MPI_Request requests[], int *ret_index, int *flag, MPI_Status *status)
{
    int active = 0;
    say_nothing(status);
    *ret_index = MPI_UNDEFINED;
    *flag = 0;
    for (int i = 0; i < count && !*flag; i++) {
        if (!is_active(requests[i]))
            continue;
        active++;
        int result = MPI_Test(&requests[i], flag, status);
        if (*flag)
            *ret_index = i;
        if (result != MPI_SUCCESS)
            return result;
    }
    if (active == 0)
        *flag = 1;
    return MPI_SUCCESS;
}

int MPI_Testsome(int count, MPI_Request requests[], int *ret_count, int indices[],
                 MPI_Status statuses[])
{
    int active = 0, found = 0, result = MPI_SUCCESS;
    for (int i = 0; i < count; i++) {
        int flag;
        if (!is_active(requests[i]))
            continue;
        active++;
        int one = MPI_Test(&requests[i], &flag, status_of(statuses, found));
        result = result != MPI_SUCCESS ? result : one;
        if (flag)
            indices[found++] = i;
    }
    *ret_count = active > 0 ? found : MPI_UNDEFINED;
    return result;
}

int MPI_Waitsome(int count, MPI_Request requests[], int *ret_count, int indices[],
                 MPI_Status statuses[])
{
    int at_once, active, result = MPI_SUCCESS;
    psring_request **list = operations(count, requests, &at_once, &active);
    size_t found = 0, *places = shim_memory((size_t)count * sizeof *places);
    *ret_count = active > 0 ? 0 : MPI_UNDEFINED;
    if (at_once >= 0)
        result = MPI_Testsome(count, requests, ret_count, indices, statuses);
    else if (active > 0) {
        psring_err err = psring_wait_some(list, (size_t)count, PSRING_FOREVER, places, &found);
        for (size_t i = 0; i < found; i++) {
            indices[i] = (int)places[i];
            int one = ended(&requests[places[i]], psring_test(list[places[i]]),
                            status_of(statuses, (int)i));
            result = result != MPI_SUCCESS ? result : one;
        }
        *ret_count = (int)found;
        result = found == 0 ? shim_result(MPI_COMM_WORLD, err) : result;
    }
    free(list);
    free(places);
    return result;
}
