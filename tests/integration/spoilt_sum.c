/* Preloaded into psring-bench-comm: rank 1's last value of each all-reduce of float32 comes out
 * wrong. */
#include <dlfcn.h>
#include <psring/psring.h>

#define SEEN_BY_ALL __attribute__((visibility("default")))

typedef psring_err all_reduce_function(psring_group *group, const void *send, void *receive,
                                       size_t count, psring_type type, psring_op op,
                                       const psring_call *call, psring_request **ret_request);

SEEN_BY_ALL psring_err psring_all_reduce(psring_group *group, const void *send, void *receive,
                                         size_t count, psring_type type, psring_op op,
                                         const psring_call *call, psring_request **ret_request)
{
    static all_reduce_function *real;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "psring_all_reduce");
    psring_err err = real(group, send, receive, count, type, op, call, ret_request);
    if (err == PSRING_OK && ret_request == NULL && type == PSRING_FLOAT32 &&
        psring_rank(group) == 1)
        ((float *)receive)[count - 1] += 1;
    return err;
}
