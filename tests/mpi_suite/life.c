/* mpi.h: beginning and end, errors, types. */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

psring_comm *shim_psring;
psring_group *shim_world_group;
struct shim_comm shim_world, shim_self;
struct shim_group shim_nobody;
static enum { BEFORE, WITHIN, AFTER } stage;

enum { EXIT_LACKS = 77 };

int shim_lacks(const char *name)
{
    printf("mpi.h over psring lacks %s\n", name);
    fflush(stdout);
    psring_abort(&shim_psring, name);
    _Exit(EXIT_LACKS);
}

void *shim_memory(size_t bytes)
{
    void *memory = calloc(bytes > 0 ? bytes : 1, 1);
    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        _Exit(1);
    }
    return memory;
}

static _Noreturn void end(const char *line)
{
    fprintf(stderr, "%s\n", line);
    psring_abort(&shim_psring, line);
    _Exit(1);
}

int shim_refuse(MPI_Comm comm, int code, const char *line)
{
    if (comm == NULL || comm->handler != MPI_ERRORS_RETURN)
        end(line);
    return code;
}

int shim_result(MPI_Comm comm, psring_err err)
{
    if (err == PSRING_OK)
        return MPI_SUCCESS;
    char line[600];
    snprintf(line, sizeof line, "%s: %s", psring_err_name(err), psring_err_detail());
    return shim_refuse(comm, err == PSRING_ERR_USAGE ? MPI_ERR_ARG : MPI_ERR_OTHER, line);
}

/* ---- life ---- */

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    (void)argc;
    (void)argv;
    (void)required;
    psring_err err = psring_init(NULL, &shim_psring);
    if (err == PSRING_OK) {
        shim_world_group = psring_world(shim_psring);
        shim_comm_fill(&shim_world, shim_world_group);
        strcpy(shim_world.name, "MPI_COMM_WORLD");
        int self = psring_rank(shim_world_group);
        psring_group *alone;
        err = psring_group_from_ranks(shim_world_group, &self, 1, NULL, &alone);
        if (err == PSRING_OK)
            shim_comm_fill(&shim_self, alone);
        strcpy(shim_self.name, "MPI_COMM_SELF");
    }
    if (err != PSRING_OK)
        end(psring_err_detail());
    stage = WITHIN;
    *provided = MPI_THREAD_SINGLE;
    return MPI_SUCCESS;
}

int MPI_Init(int *argc, char ***argv)
{
    int provided;
    return MPI_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
}

int MPI_Initialized(int *flag)
{
    *flag = stage != BEFORE;
    return MPI_SUCCESS;
}

int MPI_Finalized(int *flag)
{
    *flag = stage == AFTER;
    return MPI_SUCCESS;
}

int MPI_Finalize(void)
{
    stage = AFTER;
    psring_err err = psring_close(&shim_psring);
    if (err != PSRING_OK)
        end(psring_err_detail());
    return MPI_SUCCESS;
}

int MPI_Abort(MPI_Comm comm, int status)
{
    (void)comm;
    psring_abort(&shim_psring, "MPI_Abort");
    _Exit(status != 0 ? status : 1);
}

int MPI_Error_class(int code, int *ret_class)
{
    *ret_class = code;
    return MPI_SUCCESS;
}

int MPI_Error_string(int code, char *text, int *ret_length)
{
    *ret_length =
        snprintf(text, MPI_MAX_ERROR_STRING, "MPI error %d: %s", code, psring_err_detail());
    return MPI_SUCCESS;
}

double MPI_Wtime(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int MPI_Get_processor_name(char *name, int *ret_length)
{
    *ret_length = snprintf(name, MPI_MAX_PROCESSOR_NAME, "%s",
                           psring_host(shim_world_group, shim_world.rank));
    return MPI_SUCCESS;
}

int MPI_Alloc_mem(MPI_Aint bytes, MPI_Info info, void *ret_memory)
{
    (void)info;
    *(void **)ret_memory = shim_memory((size_t)bytes);
    return MPI_SUCCESS;
}

int MPI_Free_mem(void *memory)
{
    free(memory);
    return MPI_SUCCESS;
}

/* Hints, of which there are none. */
int MPI_Info_create(MPI_Info *ret_info)
{
    *ret_info = shim_memory(sizeof **ret_info);
    return MPI_SUCCESS;
}

int MPI_Info_free(MPI_Info *info)
{
    free(*info);
    *info = MPI_INFO_NULL;
    return MPI_SUCCESS;
}

/* ---- types ---- */

#define PLAIN(name, label, ctype, kind)                                                            \
    const struct shim_type name = {label, sizeof(ctype), kind, 1, false, false};
#define COMPLEX(name, label, ctype, kind)                                                          \
    const struct shim_type name = {label, 2 * sizeof(ctype), kind, 2, true, false};
#define PAIR(name, label, ctype, kind)                                                             \
    const struct shim_type name = {label,                                                          \
                                   sizeof(struct {                                                 \
                                       ctype value;                                                \
                                       int index;                                                  \
                                   }),                                                             \
                                   kind,                                                           \
                                   1,                                                              \
                                   false,                                                          \
                                   true};
PLAIN(shim_char, "MPI_CHAR", char, PSRING_INT8)
PLAIN(shim_signed_char, "MPI_SIGNED_CHAR", signed char, PSRING_INT8)
PLAIN(shim_unsigned_char, "MPI_UNSIGNED_CHAR", unsigned char, PSRING_UINT8)
PLAIN(shim_byte, "MPI_BYTE", unsigned char, PSRING_UINT8)
PLAIN(shim_short, "MPI_SHORT", short, PSRING_INT16)
PLAIN(shim_unsigned_short, "MPI_UNSIGNED_SHORT", unsigned short, PSRING_UINT16)
PLAIN(shim_int, "MPI_INT", int, PSRING_INT32)
PLAIN(shim_unsigned, "MPI_UNSIGNED", unsigned, PSRING_UINT32)
PLAIN(shim_long, "MPI_LONG", long, PSRING_INT64)
PLAIN(shim_unsigned_long, "MPI_UNSIGNED_LONG", unsigned long, PSRING_UINT64)
PLAIN(shim_long_long, "MPI_LONG_LONG_INT", long long, PSRING_INT64)
PLAIN(shim_unsigned_long_long, "MPI_UNSIGNED_LONG_LONG", unsigned long long, PSRING_UINT64)
PLAIN(shim_float, "MPI_FLOAT", float, PSRING_FLOAT32)
PLAIN(shim_double, "MPI_DOUBLE", double, PSRING_FLOAT64)
PLAIN(shim_int8, "MPI_INT8_T", int8_t, PSRING_INT8)
PLAIN(shim_uint8, "MPI_UINT8_T", uint8_t, PSRING_UINT8)
PLAIN(shim_int16, "MPI_INT16_T", int16_t, PSRING_INT16)
PLAIN(shim_uint16, "MPI_UINT16_T", uint16_t, PSRING_UINT16)
PLAIN(shim_int32, "MPI_INT32_T", int32_t, PSRING_INT32)
PLAIN(shim_uint32, "MPI_UINT32_T", uint32_t, PSRING_UINT32)
PLAIN(shim_int64, "MPI_INT64_T", int64_t, PSRING_INT64)
PLAIN(shim_uint64, "MPI_UINT64_T", uint64_t, PSRING_UINT64)
PLAIN(shim_bool, "MPI_C_BOOL", bool, PSRING_UINT8)
PLAIN(shim_aint, "MPI_AINT", MPI_Aint, PSRING_INT64)
PLAIN(shim_count, "MPI_COUNT", MPI_Count, PSRING_INT64)
PLAIN(shim_offset, "MPI_OFFSET", MPI_Offset, PSRING_INT64)
COMPLEX(shim_float_complex, "MPI_C_COMPLEX", float, PSRING_FLOAT32)
COMPLEX(shim_double_complex, "MPI_C_DOUBLE_COMPLEX", double, PSRING_FLOAT64)
PAIR(shim_2int, "MPI_2INT", int, PSRING_INT32_INT32)
PAIR(shim_float_int, "MPI_FLOAT_INT", float, PSRING_FLOAT32_INT32)
PAIR(shim_double_int, "MPI_DOUBLE_INT", double, PSRING_FLOAT64_INT32)
PAIR(shim_long_int, "MPI_LONG_INT", long, PSRING_INT64_INT32)
PAIR(shim_short_int, "MPI_SHORT_INT", short, PSRING_INT16_INT32)

int MPI_Type_size(MPI_Datatype type, int *ret_size)
{
    /* Without what lies between value and index. */
    size_t between = type == MPI_SHORT_INT                            ? 2
                     : type == MPI_DOUBLE_INT || type == MPI_LONG_INT ? 4
                                                                      : 0;
    *ret_size = (int)(type->bytes - between);
    return MPI_SUCCESS;
}

int MPI_Type_get_extent(MPI_Datatype type, MPI_Aint *ret_lower, MPI_Aint *ret_extent)
{
    *ret_lower = 0;
    *ret_extent = (MPI_Aint)type->bytes;
    return MPI_SUCCESS;
}

int MPI_Type_get_true_extent(MPI_Datatype type, MPI_Aint *ret_lower, MPI_Aint *ret_extent)
{
    return MPI_Type_get_extent(type, ret_lower, ret_extent);
}

int MPI_Type_get_name(MPI_Datatype type, char *name, int *ret_length)
{
    *ret_length = snprintf(name, MPI_MAX_OBJECT_NAME, "%s", type->name);
    return MPI_SUCCESS;
}

int MPI_Get_address(const void *place, MPI_Aint *ret_address)
{
    *ret_address = (MPI_Aint)place;
    return MPI_SUCCESS;
}

/* ---- folds of the program's: made in one order by all ranks, and kept to the end ---- */

enum { OWN_FIRST = 100, OWN_MOST = 128 };

typedef struct own_op {
    MPI_User_function *function;
    MPI_Datatype type; /* of the last call with it */
    bool commutes;
    psring_op op;
} own_op;

static own_op own_ops[OWN_MOST];
static int own_count;

/* inout becomes in op inout. */
static void call_own(void *context, void *out, const void *a, const void *b, size_t count,
                     psring_type type)
{
    own_op *own = context;
    int length = (int)count;
    size_t bytes = count * own->type->bytes;
    char *inout = shim_memory(bytes);
    (void)type;
    memcpy(inout, b, bytes);
    own->function((void *)a, inout, &length, &own->type);
    memcpy(out, inout, bytes);
    free(inout);
}

int MPI_Op_create(MPI_User_function *function, int commute, MPI_Op *ret_op)
{
    int i = 0;
    while (i < own_count &&
           (own_ops[i].function != function || own_ops[i].commutes != (commute != 0)))
        i++;
    if (i == OWN_MOST)
        shim_lacks("more folds of the program's own");
    own_op *own = &own_ops[i];
    *ret_op = OWN_FIRST + i;
    if (i < own_count)
        return MPI_SUCCESS;
    *own = (own_op){.function = function, .commutes = commute != 0};
    own_count++;
    return shim_result(MPI_COMM_WORLD,
                       psring_op_make(shim_psring,
                                      PSRING_WITH(psring_fold, .context = own, .fold = call_own,
                                                  .commutative = own->commutes),
                                      &own->op));
}

int MPI_Op_free(MPI_Op *op)
{
    *op = MPI_OP_NULL;
    return MPI_SUCCESS;
}

int MPI_Op_commutative(MPI_Op op, int *flag)
{
    *flag =
        op >= OWN_FIRST ? own_ops[op - OWN_FIRST].commutes : op != MPI_REPLACE && op != MPI_NO_OP;
    return MPI_SUCCESS;
}

psring_op shim_fold_of(MPI_Op op, MPI_Datatype type)
{
    static const psring_op folds[] = {
        [MPI_SUM] = PSRING_SUM,          [MPI_PROD] = PSRING_PRODUCT,
        [MPI_MIN] = PSRING_MINIMUM,      [MPI_MAX] = PSRING_MAXIMUM,
        [MPI_BAND] = PSRING_BITWISE_AND, [MPI_BOR] = PSRING_BITWISE_OR,
        [MPI_BXOR] = PSRING_BITWISE_XOR, [MPI_LAND] = PSRING_LOGICAL_AND,
        [MPI_LOR] = PSRING_LOGICAL_OR,   [MPI_LXOR] = PSRING_LOGICAL_XOR,
        [MPI_MINLOC] = PSRING_MINLOC,    [MPI_MAXLOC] = PSRING_MAXLOC,
    };
    if (op >= OWN_FIRST && op < OWN_FIRST + own_count) {
        if (type->values != 1)
            shim_lacks("a fold of the program's own of complex numbers");
        own_ops[op - OWN_FIRST].type = type;
        return own_ops[op - OWN_FIRST].op;
    }
    if (op <= MPI_OP_NULL || (size_t)op >= sizeof folds / sizeof *folds)
        shim_lacks("an operation of windows in a fold");
    if (type->is_complex && op != MPI_SUM)
        shim_lacks("the product of complex numbers");
    return folds[op];
}
