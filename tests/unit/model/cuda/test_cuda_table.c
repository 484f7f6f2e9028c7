/* The table over NVIDIA's libraries (model/cuda/nvidia), which are played: what is called, in which
 * order and with what, and what their failures become. */
#include "base/system/file.h"
#include "model/cuda/kernels/kernels.h"
#include "model/cuda/linked.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define GOOD "driver=13000 runtime=13000 devices=2 cudnn=91900 nccl=22809"

/* The program's kernels are nvcc's; here they are a text that the played runtime repeats. */
const unsigned char psr_cuda_kernels_fatbin[] = "played-code";

/* ---- what was called ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char said[1 << 16];

__attribute__((visibility("default"))) void played_say(const char *text);
void played_say(const char *text)
{
    pthread_mutex_lock(&mutex);
    const size_t length = strlen(said);
    snprintf(said + length, sizeof said - length, "%s\n", text);
    pthread_mutex_unlock(&mutex);
}

static void play(const char *answers)
{
    char all[256];
    snprintf(all, sizeof all, "%s %s", GOOD, answers);
    assert_int_equal(setenv("PLAYED_CUDA", all, 1), 0);
    pthread_mutex_lock(&mutex);
    said[0] = '\0';
    pthread_mutex_unlock(&mutex);
}

static bool was_said(const char *text)
{
    pthread_mutex_lock(&mutex);
    const bool was = strstr(said, text) != NULL;
    pthread_mutex_unlock(&mutex);
    return was;
}

/* All that was called since play. */
#define assert_said(expected)                                                                      \
    do {                                                                                           \
        assert_string_equal(said, expected);                                                       \
        said[0] = '\0';                                                                            \
    } while (0)

#define assert_ok(call) assert_int_equal((call), PSR_OK)
#define assert_fails(call, err, line)                                                              \
    do {                                                                                           \
        assert_int_equal((call), err);                                                             \
        assert_string_equal(psr_err_detail(), line);                                               \
    } while (0)

/* ---- one device for a test ---- */

static const psr_cuda_api *api;
static psr_cuda_device *device;
static psr_cuda_stream *stream;

static int open_device(void **state)
{
    (void)state;
    api = psr_cuda_linked();
    play("");
    assert_ok(api->device_open(0, &device));
    assert_ok(api->stream_new(device, &stream));
    play("");
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    play("");
    api->device_close(device);
    return 0;
}

/* ---- devices ---- */

static void a_device_is_opened_with_its_kernels_and_told_by_what_its_bits_depend_on(void **state)
{
    psr_cuda_device *other = NULL;
    psr_cuda_device_facts facts;
    uint32_t count = 0;
    (void)state;
    assert_ok(api->device_count(&count));
    assert_int_equal(count, 2);
    assert_ok(api->device_open(1, &other));
    assert_true(was_said("cudaSetDevice 1\ncudaLibraryLoadData played-code options 0\n"
                         "cudaFuncGetAttributes psr_kernel_images_of_bytes\n"));
    assert_ok(api->device_facts(other, &facts));
    assert_string_equal(facts.name, "Played B");
    assert_string_equal(facts.identity, "cuda 13.0 cudnn 9.19.0 sm_100 Played B");
    assert_int_equal(facts.architecture, 100);
    assert_int_equal(facts.free_bytes, 3 << 20);
    api->device_close(other);
    assert_true(was_said("cudaLibraryUnload"));
}

static void a_device_that_cannot_be_used_is_refused_in_one_line(void **state)
{
    psr_cuda_device *none = NULL;
    uint32_t count = 77;
    (void)state;
    assert_fails(api->device_open(2, &none), PSR_ERR_UNSUPPORTED,
                 "there is no GPU 2: this host has 2, from 0 on");
    play("old=1");
    assert_fails(api->device_open(0, &none), PSR_ERR_UNSUPPORTED,
                 "GPU 0: Played A is sm_70, and psring's kernels are for sm_80 and later");
    play("cudaFuncGetAttributes=209");
    assert_fails(api->device_open(0, &none), PSR_ERR_UNSUPPORTED,
                 "GPU 0: cudaFuncGetAttributes: played: psring's kernels are for sm_80 and later, "
                 "so the GPU is too old or the driver cannot compile for it");
    assert_true(was_said("cudaLibraryUnload"));
    play("broken=1");
    assert_fails(api->device_count(&count), PSR_ERR_UNSUPPORTED,
                 "no CUDA device: cudaGetDeviceCount: initialization error");
    assert_int_equal(setenv("PLAYED_CUDA", "driver=12040 runtime=13000 devices=1", 1), 0);
    assert_fails(api->device_count(&count), PSR_ERR_UNSUPPORTED,
                 "no CUDA device: cudaGetDeviceCount: played: NVIDIA's driver is too old; install "
                 "one for CUDA 13");
    assert_int_equal(count, 77);
    assert_null(none);
}

static void what_a_device_made_ends_with_it_the_last_first(void **state)
{
    psr_cuda_device *other = NULL;
    psr_cuda_event *event = NULL;
    psr_cuda_stream *own = NULL;
    void *memory = NULL, *freed = NULL, *pinned = NULL, *host = malloc(64);
    (void)state;
    assert_ok(api->device_open(0, &other));
    assert_ok(api->memory_new(other, 100, &memory));
    assert_ok(api->memory_new(other, 0, &freed));
    assert_ok(api->pinned_new(other, 200, &pinned));
    assert_ok(api->host_register(other, host, 64));
    assert_ok(api->stream_new(other, &own));
    assert_ok(api->event_new(other, &event));
    assert_true(was_said("cudaMalloc 100\ncudaMalloc 1\ncudaHostAlloc 200 flags 1\n"
                         "cudaHostRegister 64 flags 1\n"
                         "cudaStreamCreateWithFlags flags 1\ncudaEventCreateWithFlags flags 2\n"));
    api->memory_free(other, freed);
    play("");
    api->device_close(other);
    const char *ends[] = {"cudaEventDestroy", "cudaStreamDestroy", "cudaHostUnregister",
                          "cudaFreeHost",     "cudaFree ",         "cudaLibraryUnload"};
    const char *at = said;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        at = strstr(at, ends[i]);
        assert_non_null(at);
    }
    assert_null(strstr(strstr(said, "cudaFree ") + 1, "cudaFree ")); /* the other one was freed */
    api->device_close(NULL);
    free(host);
}

/* ---- orders ---- */

static void orders_come_to_the_stream_in_their_order(void **state)
{
    psr_cuda_event *event = NULL;
    psr_cuda_stream *second = NULL;
    uint32_t words[4] = {41, 0, 0, 0};
    bool passed = false;
    (void)state;
    assert_ok(api->event_new(device, &event));
    assert_ok(api->stream_new(device, &second));
    play("");
    assert_ok(api->copy(stream, words, words + 1, 64));
    assert_ok(api->fill(stream, words, 255, 16));
    assert_ok(api->launch(stream, PSR_CUDA_KERNEL_add, 3, 128, words, sizeof words));
    assert_ok(api->event_record(event, stream));
    assert_ok(api->stream_wait(second, event));
    assert_ok(api->event_passed(event, &passed));
    assert_true(passed);
    assert_true(was_said("cudaMemcpyAsync 64 kind 4 on "));
    assert_true(was_said("cudaMemsetAsync 255 times 16 on "));
    assert_true(was_said("cudaLaunchKernel psr_kernel_add 3x1x1 of 128 threads on "));
    assert_true(was_said("first word 41\ncudaEventRecord "));
    assert_true(was_said("cudaStreamWaitEvent "));
    assert_false(was_said(" on 0")); /* CUDA's default stream, which waits for all others */
    play("cudaEventQuery=600");
    assert_ok(api->event_passed(event, &passed));
    assert_false(passed);
    play("cudaEventQuery=719");
    assert_int_equal(api->event_passed(event, &passed), PSR_ERR_COMPUTE);
}

static void timed_events_are_made_otherwise_and_tell_nanoseconds(void **state)
{
    psr_cuda_event *from = NULL, *to = NULL;
    int64_t ns = 0;
    (void)state;
    play("");
    assert_ok(api->event_new_timed(device, &from));
    assert_ok(api->event_new_timed(device, &to));
    assert_true(was_said("cudaEventCreateWithFlags flags 0\n"));
    assert_ok(api->event_elapsed(from, to, &ns));
    assert_true(was_said("cudaEventElapsedTime from "));
    assert_int_equal(ns, 1500000);
    play("cudaEventElapsedTime=600");
    assert_int_equal(api->event_elapsed(from, to, &ns), PSR_ERR_COMPUTE);
    api->event_free(from);
    api->event_free(to);
}

static void add_one(void *context)
{
    ++*(int *)context;
}

static void the_host_is_called_also_when_the_device_has_failed(void **state)
{
    int calls = 0;
    (void)state;
    assert_ok(api->call_host(stream, add_one, &calls)); /* it is played with a failure */
    assert_int_equal(calls, 1);
    assert_true(was_said("cudaStreamAddCallback"));
    play("cudaStreamAddCallback=719");
    assert_int_equal(api->call_host(stream, add_one, &calls), PSR_ERR_COMPUTE);
    assert_int_equal(calls, 1);
}

/* ---- failures ---- */

static void each_failure_is_one_line_that_says_what_to_do(void **state)
{
    static const struct {
        int status;
        psr_err err;
        const char *line;
    } cases[] = {
        {214, PSR_ERR_COMPUTE,
         "cudaStreamSynchronize: played: the GPU's memory has an error that ECC cannot correct "
         "(Xid 48); leave this GPU out, or reset it (nvidia-smi -r)"},
        {700, PSR_ERR_COMPUTE,
         "cudaStreamSynchronize: played: a kernel went wrong; the kernel's log has the Xid (dmesg "
         "| grep Xid)"},
        {719, PSR_ERR_COMPUTE,
         "cudaStreamSynchronize: played: a kernel went wrong; the kernel's log has the Xid (dmesg "
         "| grep Xid)"},
        {999, PSR_ERR_COMPUTE,
         "cudaStreamSynchronize: played: the GPU may have fallen off the bus (Xid 79); dmesg | "
         "grep Xid"},
        {46, PSR_ERR_UNSUPPORTED,
         "cudaStreamSynchronize: played: another process has the GPU for itself (nvidia-smi -q -d "
         "COMPUTE)"},
        {802, PSR_ERR_UNSUPPORTED,
         "cudaStreamSynchronize: played: the GPUs are not ready: is nvidia-fabricmanager running?"},
        {1, PSR_ERR_COMPUTE, "cudaStreamSynchronize: played"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char answer[64];
        snprintf(answer, sizeof answer, "cudaStreamSynchronize=%d", cases[i].status);
        play(answer);
        assert_fails(api->stream_synchronize(stream), cases[i].err, cases[i].line);
    }
}

static void memory_that_is_not_there_is_told_with_what_is(void **state)
{
    void *memory = NULL;
    (void)state;
    play("cudaMalloc=2");
    assert_fails(api->memory_new(device, (size_t)5 << 20, &memory), PSR_ERR_NOMEM,
                 "the GPU's memory: 5.0 MiB are wanted, and 3.0 of 8.0 MiB free");
    play("cudaHostAlloc=2");
    assert_fails(api->pinned_new(device, (size_t)5 << 20, &memory), PSR_ERR_NOMEM,
                 "the host has no 5.0 MiB of memory that can be pinned");
    play("cudaMalloc=719");
    assert_int_equal(api->memory_new(device, 5, &memory), PSR_ERR_COMPUTE);
    assert_null(memory);
}

static void a_device_that_failed_is_found_without_waiting(void **state)
{
    (void)state;
    assert_ok(api->device_check(device));
    assert_true(was_said("cudaStreamQuery"));
    play("cudaStreamQuery=600");
    assert_ok(api->device_check(device)); /* it is busy */
    play("cudaPeekAtLastError=600");
    assert_ok(api->device_check(device));
    play("cudaStreamQuery=214");
    assert_int_equal(api->device_check(device), PSR_ERR_COMPUTE);
    play("cudaPeekAtLastError=719");
    assert_int_equal(api->device_check(device), PSR_ERR_COMPUTE);
    play("");
    assert_ok(api->record_begin(stream));
    assert_ok(api->device_check(device));
    assert_false(was_said("cudaStreamQuery")); /* which would end the recording */
    psr_cuda_recording *recording = NULL;
    assert_ok(api->record_end(stream, &recording));
}

/* ---- recordings ---- */

static void a_recording_is_made_once_and_run_again_and_again(void **state)
{
    psr_cuda_recording *recording = NULL;
    int calls = 0;
    (void)state;
    assert_ok(api->record_begin(stream));
    assert_ok(api->call_host(stream, add_one, &calls));
    assert_ok(api->record_end(stream, &recording));
    assert_ok(api->recording_run(stream, recording));
    assert_ok(api->recording_run(stream, recording));
    const char *orders[] = {"cudaStreamBeginCapture", "mode 1",           "cudaLaunchHostFunc",
                            "cudaStreamEndCapture",   "cudaGraphInst",    "cudaGraphDestroy",
                            "cudaGraphLaunch",        "\ncudaGraphLaunch"};
    const char *at = said;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        at = strstr(at, orders[i]);
        assert_non_null(at);
    }
    api->recording_free(recording);
    assert_true(was_said("cudaGraphExecDestroy"));
    play("cudaGraphInstantiate=2");
    assert_ok(api->record_begin(stream));
    assert_int_equal(api->record_end(stream, &recording), PSR_ERR_NOMEM);
    assert_true(was_said("cudaGraphDestroy"));
}

/* ---- plans ---- */

/* y = relu(x b), with a number b and what is between inside. */
static psr_cuda_graph small_graph(uint32_t *ret_number)
{
    psr_cuda_graph g;
    psr_cuda_graph_begin(&g);
    const uint32_t x = psr_cuda_image(&g, PSR_CUDA_FLOAT32, 1, 8, 2, 2);
    const uint32_t inner = psr_cuda_inner(&g, x);
    const uint32_t y = psr_cuda_like(&g, x, PSR_CUDA_FLOAT32);
    const uint32_t number = psr_cuda_number(&g);
    psr_cuda_point(&g, PSR_CUDA_MULTIPLY, x, number, inner);
    psr_cuda_point(&g, PSR_CUDA_RELU, inner, 0, y);
    *ret_number = number;
    return g;
}

static void a_plan_is_for_the_device_and_runs_on_the_stream_with_its_tensors(void **state)
{
    const psr_cuda_plan_limits limits = {.workspace_bytes = 1024};
    psr_cuda_plan_tensors tensors = {.at = {NULL}};
    psr_cuda_plan *plan = NULL, *second = NULL;
    uint32_t number = 0;
    char memory[4][16];
    const psr_cuda_graph graph = small_graph(&number);
    (void)state;
    assert_ok(api->plan_new(device, &graph, &limits, &plan));
    assert_ok(api->plan_new(device, &graph, &limits, &second));
    /* one handle for all plans */
    assert_said("cudnnCreate\nplanned for 0\nheuristics 3\nplanned for 0\nheuristics 3\n");
    assert_int_equal(api->plan_workspace(plan), 512);
    assert_int_equal(api->plan_engine(plan), 7);
    for (int i = 0; i < 4; i++)
        tensors.at[i] = memory[i];
    tensors.numbers[number] = 2.5f;
    assert_ok(api->plan_run(stream, plan, &tensors, memory[0]));
    assert_ok(api->plan_run(stream, second, &tensors, memory[0]));
    assert_non_null(strstr(said, "cudnnSetStream"));
    assert_null(strstr(strstr(said, "cudnnSetStream") + 1, "cudnnSetStream")); /* once */
    assert_true(was_said("tensors 1 3 4\nthe last number 2.5\ncudnnBackendExecute\n"));
    play("cudnnBackendExecute=5000");
    assert_fails(api->plan_run(stream, plan, &tensors, memory[0]), PSR_ERR_COMPUTE,
                 "cuDNN: cudnnBackendExecute: CUDNN_STATUS_EXECUTION_FAILED: the words of cuDNN");
    api->plan_free(plan);
}

static void a_plan_that_cannot_be_is_refused(void **state)
{
    psr_cuda_plan_limits limits = {.workspace_bytes = 100};
    psr_cuda_plan *plan = NULL;
    uint32_t number = 0;
    const psr_cuda_graph graph = small_graph(&number);
    (void)state;
    assert_int_equal(api->plan_new(device, &graph, &limits, &plan), PSR_ERR_UNSUPPORTED);
    assert_non_null(strstr(psr_err_detail(), "2 need more workspace than 100 bytes"));
    limits = (psr_cuda_plan_limits){.workspace_bytes = 1024, .timed = true};
    assert_fails(api->plan_new(device, &graph, &limits, &plan), PSR_ERR_UNSUPPORTED,
                 "--algorithms timed: on a GPU plans are chosen by heuristics alone");
    assert_null(plan);
}

/* ---- plans that are kept ---- */

static char kept[] = "/tmp/psr-test-plans-XXXXXX";

static int make_kept(void **state)
{
    return mkdtemp(kept) == NULL || open_device(state) != 0;
}

/* The only file's path, or "". */
static const char *kept_file(void)
{
    static char path[300];
    DIR *directory = opendir(kept);
    assert_non_null(directory);
    path[0] = '\0';
    for (const struct dirent *e; (e = readdir(directory)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        assert_string_equal(path, "");
        snprintf(path, sizeof path, "%s/%s", kept, e->d_name);
    }
    closedir(directory);
    return path;
}

static int remove_kept(void **state)
{
    char path[600];
    DIR *directory = opendir(kept);
    for (const struct dirent *e; directory != NULL && (e = readdir(directory)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", kept, e->d_name);
        unlink(path);
    }
    closedir(directory);
    rmdir(kept);
    memset(strrchr(kept, '-') + 1, 'X', 6);
    return close_device(state);
}

/* Plans the small graph; whether it was read from a file, or chosen. */
static bool is_read(psr_cuda_device *of, psr_cuda_plan_limits limits)
{
    psr_cuda_plan *plan = NULL;
    uint32_t number = 0;
    const psr_cuda_graph graph = small_graph(&number);
    limits.workspace_bytes += 1024;
    said[0] = '\0';
    assert_ok(api->plan_new(of, &graph, &limits, &plan));
    assert_int_equal(api->plan_workspace(plan), 512);
    assert_true(was_said("heuristics") || was_said("loaded"));
    api->plan_free(plan);
    return !was_said("heuristics");
}

static const psr_cuda_plan_limits keeping = {.kept = kept};

static void a_plan_is_kept_and_read_again_with_the_engine_that_was_chosen(void **state)
{
    (void)state;
    assert_false(is_read(device, keeping));
    assert_true(is_read(device, keeping));
    assert_true(was_said("loaded {plan:7}\n"));
    play("engine=8"); /* heuristics would name another now */
    assert_true(is_read(device, keeping));
    assert_true(was_said("loaded {plan:7}\n"));
    assert_false(is_read(device, (psr_cuda_plan_limits){.kept = NULL}));
    assert_false(was_said("loaded"));
}

/* driver, runtime, cudnn: what PLAYED_CUDA gives; a device is opened with them. */
static bool is_read_with(uint32_t index, const char *versions)
{
    psr_cuda_device *other = NULL;
    char all[200];
    snprintf(all, sizeof all, "devices=2 nccl=22809 %s", versions);
    assert_int_equal(setenv("PLAYED_CUDA", all, 1), 0);
    assert_ok(api->device_open(index, &other));
    const bool read = is_read(other, keeping);
    api->device_close(other);
    return read;
}

static void what_is_kept_is_for_one_device_its_versions_graph_and_limits(void **state)
{
    psr_cuda_plan *plan = NULL;
    psr_cuda_plan_limits limits = {.workspace_bytes = 1024, .kept = kept};
    uint32_t number = 0;
    psr_cuda_graph graph = small_graph(&number);
    (void)state;
    assert_false(is_read(device, keeping));
    assert_true(is_read_with(0, "driver=13000 runtime=13000 cudnn=91900"));
    assert_false(is_read_with(1, "driver=13000 runtime=13000 cudnn=91900"));
    assert_false(is_read_with(0, "driver=13010 runtime=13000 cudnn=91900"));
    assert_false(is_read_with(0, "driver=13010 runtime=13010 cudnn=91900"));
    assert_false(is_read_with(0, "driver=13000 runtime=13000 cudnn=91901"));
    play("");
    assert_false(is_read(device, (psr_cuda_plan_limits){.workspace_bytes = 1, .kept = kept}));
    assert_false(is_read(device, (psr_cuda_plan_limits){.tf32 = true, .kept = kept}));
    graph.tensors[0].strides[0]++;
    play("");
    assert_ok(api->plan_new(device, &graph, &limits, &plan));
    assert_false(was_said("loaded"));
    assert_true(is_read(device, keeping)); /* and all are there */
}

static void a_kept_plan_that_is_damaged_or_refused_is_chosen_anew_and_written_again(void **state)
{
    uint8_t *whole = NULL, *again = NULL;
    size_t size = 0, again_size = 0;
    (void)state;
    assert_false(is_read(device, keeping));
    assert_ok(psr_file_read(kept_file(), 1 << 20, &whole, &size));
    const size_t places[] = {0, 20, size / 2, size - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        assert_int_equal(truncate(kept_file(), (off_t)places[i]), 0);
        assert_false(is_read(device, keeping));
        assert_false(was_said("loaded"));
        assert_true(is_read(device, keeping));
    }
    play("load=3000");
    assert_false(is_read(device, keeping));
    assert_true(was_said("loaded {plan:7}\n"));
    play("load=4000");
    assert_false(is_read(device, keeping));
    play("");
    assert_true(is_read(device, keeping));
    assert_ok(psr_file_read(kept_file(), 1 << 20, &again, &again_size));
    assert_int_equal(again_size, size);
    assert_memory_equal(again, whole, size);
    free(whole);
    free(again);
}

/* A text that cuDNN takes, and makes another plan of than was kept. */
static void a_kept_plan_that_needs_another_workspace_is_not_taken(void **state)
{
    const psr_cuda_plan_limits limits = {.workspace_bytes = 1024, .kept = kept};
    psr_cuda_plan *plan = NULL;
    uint32_t number = 0;
    const psr_cuda_graph graph = small_graph(&number);
    (void)state;
    assert_false(is_read(device, keeping));
    play("workspace=256");
    assert_ok(api->plan_new(device, &graph, &limits, &plan));
    assert_true(was_said("loaded") && was_said("heuristics"));
    assert_int_equal(api->plan_workspace(plan), 256);
}

static void what_cannot_be_written_or_might_be_chosen_otherwise_is_not_kept(void **state)
{
    (void)state;
    play("unwritten=1");
    assert_false(is_read(device, keeping));
    assert_string_equal(kept_file(), "");
    play("build=4000"); /* it has no memory for it, perhaps, and another time it has */
    assert_false(is_read(device, keeping));
    assert_string_equal(kept_file(), "");
    play("build=3000"); /* it never can */
    assert_false(is_read(device, keeping));
    play("");
    assert_true(is_read(device, keeping));
    assert_int_equal(chmod(kept, 0755), 0);
    assert_false(is_read(device, keeping)); /* others might write there */
}

/* ---- groups ---- */

static psr_cuda_group *join(void)
{
    uint8_t id[PSR_CUDA_GROUP_ID_BYTES];
    psr_cuda_group *group = NULL;
    assert_ok(api->group_id(id));
    assert_ok(api->group_join(device, id, 3, 1, &group));
    return group;
}

static void a_group_sums_in_place_and_no_call_blocks(void **state)
{
    float values[4];
    (void)state;
    play("slow=1");
    psr_cuda_group *group = join();
    assert_true(was_said("ncclGetUniqueId\nncclCommInitRankConfig 1 of 3 by i, blocking 0\n"
                         "ncclCommGetAsyncError\nncclCommGetAsyncError\n"));
    play("slow=1");
    assert_ok(api->group_sum(group, stream, values, 4));
    assert_true(was_said("ncclAllReduce 4 type 7 operation 0 in place on "));
    play("");
    assert_ok(api->group_check(group));
    api->group_end(group);
    assert_true(was_said("ncclCommAbort"));
    api->group_end(NULL);
}

static void a_group_whose_member_is_lost_says_so(void **state)
{
    psr_cuda_group *group = join();
    uint8_t id[PSR_CUDA_GROUP_ID_BYTES] = {0};
    psr_cuda_group *none = NULL;
    (void)state;
    play("ncclCommGetAsyncError=6");
    assert_fails(api->group_check(group), PSR_ERR_COMPUTE,
                 "NCCL: remote process exited: the words of NCCL; another worker has ended");
    play("ncclCommInitRankConfig=2");
    assert_int_equal(api->group_join(device, id, 3, 1, &none), PSR_ERR_COMPUTE);
    assert_null(none);
    api->group_end(group);
}

typedef struct endless {
    psr_cuda_group *group;
    psr_err err;
} endless;

static void *sum_for_ever(void *context)
{
    endless *e = context;
    float value = 0;
    e->err = api->group_sum(e->group, stream, &value, 1);
    return NULL;
}

static void a_wait_is_ended_by_another_thread(void **state)
{
    endless e = {.group = join()};
    pthread_t thread;
    (void)state;
    play("never=1");
    assert_int_equal(pthread_create(&thread, NULL, sum_for_ever, &e), 0);
    while (!was_said("ncclCommGetAsyncError"))
        sched_yield();
    api->group_end(e.group);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(e.err, PSR_ERR_COMPUTE);
    assert_true(was_said("ncclCommAbort"));
}

#define TEST_KEPT(name) cmocka_unit_test_setup_teardown(name, make_kept, remove_kept)
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_device, close_device)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_device_is_opened_with_its_kernels_and_told_by_what_its_bits_depend_on),
        TEST(a_device_that_cannot_be_used_is_refused_in_one_line),
        TEST(what_a_device_made_ends_with_it_the_last_first),
        TEST(orders_come_to_the_stream_in_their_order),
        TEST(timed_events_are_made_otherwise_and_tell_nanoseconds),
        TEST(the_host_is_called_also_when_the_device_has_failed),
        TEST(each_failure_is_one_line_that_says_what_to_do),
        TEST(memory_that_is_not_there_is_told_with_what_is),
        TEST(a_device_that_failed_is_found_without_waiting),
        TEST(a_recording_is_made_once_and_run_again_and_again),
        TEST(a_plan_is_for_the_device_and_runs_on_the_stream_with_its_tensors),
        TEST(a_plan_that_cannot_be_is_refused),
        TEST_KEPT(a_plan_is_kept_and_read_again_with_the_engine_that_was_chosen),
        TEST_KEPT(what_is_kept_is_for_one_device_its_versions_graph_and_limits),
        TEST_KEPT(a_kept_plan_that_is_damaged_or_refused_is_chosen_anew_and_written_again),
        TEST_KEPT(a_kept_plan_that_needs_another_workspace_is_not_taken),
        TEST_KEPT(what_cannot_be_written_or_might_be_chosen_otherwise_is_not_kept),
        TEST(a_group_sums_in_place_and_no_call_blocks),
        TEST(a_group_whose_member_is_lost_says_so),
        TEST(a_wait_is_ended_by_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
