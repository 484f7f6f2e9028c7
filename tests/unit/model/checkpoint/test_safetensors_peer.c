/* Our checkpoints in Python's safetensors package, and its files here. Skipped (77) where the
 * interpreter, PSR_PYTHON or python3, does not have the package. */
#include "tests/unit/expect.h"

#include "model/checkpoint/checkpoint.h"
#include "model/networks/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/psr-peer-XXXXXX";
static char ours[64], theirs[64];
static psr_network *net;

static float value_of(const psr_tensor *tensor, size_t i)
{
    return (float)(i % 1021 + strlen(tensor->name));
}

static float *filled(const psr_layout *layout)
{
    float *arena = calloc(layout->length, sizeof *arena);
    assert_non_null(arena);
    for (size_t t = 0; t < layout->tensor_count; t++)
        for (size_t i = 0; i < layout->tensors[t].count; i++)
            arena[layout->tensors[t].offset + i] = value_of(&layout->tensors[t], i);
    return arena;
}

static void put_layout(psr_checkpoint_writer *writer, const psr_layout *layout)
{
    float *arena = filled(layout);
    for (size_t t = 0; t < layout->tensor_count; t++)
        expect_ok(psr_checkpoint_put(writer, layout->tensors[t].name, 0, layout->tensors[t].count,
                                     arena + layout->tensors[t].offset));
    free(arena);
}

static void write_ours(void)
{
    size_t params = net->params.tensor_count, count = params + net->buffers.tensor_count;
    psr_tensor *tensors = calloc(count, sizeof *tensors);
    assert_non_null(tensors);
    memcpy(tensors, net->params.tensors, params * sizeof *tensors);
    memcpy(tensors + params, net->buffers.tensors, (count - params) * sizeof *tensors);
    psr_checkpoint_writer *writer = NULL;
    expect_ok(psr_checkpoint_create_model(ours, tensors, count,
                                          (const char *const[]){"step", "12", NULL}, 12, &writer));
    put_layout(writer, &net->params);
    put_layout(writer, &net->buffers);
    expect_ok(psr_checkpoint_commit(&writer));
    free(tensors);
}

static void check_theirs(const psr_checkpoint *checkpoint, const psr_layout *layout)
{
    float *wanted = filled(layout), *loaded = calloc(layout->length, sizeof *loaded);
    assert_non_null(loaded);
    expect_ok(psr_checkpoint_load(checkpoint, "", layout, loaded));
    assert_memory_equal(loaded, wanted, layout->length * sizeof *loaded);
    free(wanted);
    free(loaded);
}

/* Exit status of safetensors_peer.py on the two files; 77 when there is no interpreter. */
static int run_peer(void)
{
    char script[4096];
    const char *golden = getenv("PSR_GOLDEN"), *python = getenv("PSR_PYTHON");
    if (golden == NULL)
        fail_msg("PSR_GOLDEN must name tests/golden");
    snprintf(script, sizeof script, "%s/safetensors_peer.py", golden);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        python = python != NULL ? python : "python3";
        execlp(python, python, script, ours, theirs, (char *)NULL);
        _exit(77);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int peer_status;

static void python_reads_every_value_of_ours(void **state)
{
    (void)state;
    assert_int_equal(peer_status, 0);
}

static void we_read_every_value_of_pythons(void **state)
{
    (void)state;
    psr_checkpoint *checkpoint = NULL;
    expect_ok(psr_checkpoint_open(theirs, &checkpoint));
    assert_string_equal(psr_checkpoint_metadata(checkpoint, "note"), "theirs");
    check_theirs(checkpoint, &net->params);
    check_theirs(checkpoint, &net->buffers);
    psr_checkpoint_close(checkpoint);
}

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(ours, sizeof ours, "%s/ours.safetensors", folder);
    snprintf(theirs, sizeof theirs, "%s/theirs.safetensors", folder);
    if (psr_network_new("resnet18", 10, 3, 32, 32, PSR_SHORTCUT_A, &net) != PSR_OK)
        return -1;
    write_ours();
    peer_status = run_peer();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psr_network_free(net);
    unlink(ours);
    unlink(theirs);
    return rmdir(folder);
}

int main(void)
{
    /* The group's set-up is run by hand: its outcome decides whether there is a group at all. */
    if (set_up(NULL) != 0)
        return 1;
    int failed = 77;
    if (peer_status == 77)
        printf("1..0 # SKIP no Python with numpy and safetensors here\n");
    if (peer_status != 77) {
        const struct CMUnitTest tests[] = {
            cmocka_unit_test(python_reads_every_value_of_ours),
            cmocka_unit_test(we_read_every_value_of_pythons),
        };
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    }
    return tear_down(NULL) == 0 ? failed : 1;
}
