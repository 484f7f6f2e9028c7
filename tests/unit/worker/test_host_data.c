/* The data set of a host's workers: read by one of them, and mapped by the rest. Threads of one
 * process are the workers here, and processes where one has to die. */
#include "worker/input/host_data.h"

#include "net/address/socket_directory.h"
#include "tests/unit/data/data_files.h"
#include "tests/unit/expect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { RANKS = 4, PATIENCE_MS = 50000 };

static psr_socket_directory directory;
static char files[200];

static int set_up(void **state)
{
    if (directory_setup(state) != 0 || psr_socket_directory_make(NULL, &directory) != PSR_OK)
        return -1;
    snprintf(files, sizeof files, "%s", (char *)*state);
    static const char *const names[] = {"train-images-idx3-ubyte.xz", "train-labels-idx1-ubyte.xz",
                                        "t10k-images-idx3-ubyte.xz", "t10k-labels-idx1-ubyte.xz"};
    bytes plain[] = {idx_images(300, 9, 9), idx_labels(300), idx_images(20, 9, 9), idx_labels(20)};
    for (int i = 0; i < 4; i++) {
        bytes packed = pack_xz(plain[i]);
        write_file(files, names[i], packed);
        bytes_done(&packed);
        bytes_done(&plain[i]);
    }
    return 0;
}

static int tear_down(void **state)
{
    char path[PSR_SOCKET_DIRECTORY_BYTES];
    struct stat status;
    memcpy(path, directory.path, sizeof path);
    psr_socket_directory_remove(&directory);
    /* nothing is left of turns */
    return directory_teardown(state) == 0 && stat(path, &status) != 0 ? 0 : -1;
}

/* ---- a worker ---- */

typedef struct reader {
    psr_host_data *data;
    int ended; /* an eventfd */
} reader;

static void has_ended(void *context)
{
    const reader *r = context;
    assert_int_equal(eventfd_write(r->ended, 1), 0);
}

static void start(reader *r, uint32_t rank, const char *in)
{
    r->ended = eventfd(0, EFD_CLOEXEC);
    expect_ok(psr_host_data_start(&(psr_host_data_options){.data = files,
                                                           .name = "mine",
                                                           .directory = in,
                                                           .rank = rank,
                                                           .ranks = RANKS,
                                                           .context = r,
                                                           .ended = has_ended},
                                  &r->data));
}

static psr_opened *take(reader *r)
{
    psr_opened *opened = NULL;
    struct pollfd ended = {.fd = r->ended, .events = POLLIN};
    assert_int_equal(poll(&ended, 1, PATIENCE_MS), 1);
    expect_ok(psr_host_data_take(r->data, &opened));
    assert_non_null(opened);
    return opened;
}

static void stop(reader *r)
{
    psr_host_data_free(r->data);
    close(r->ended);
}

static ino_t memory_of(const reader *r)
{
    struct stat status;
    assert_int_equal(fstat(psr_host_data_shared(r->data), &status), 0);
    return status.st_ino;
}

static void one_reads_and_all_map_what_it_has_read(void **state)
{
    reader readers[RANKS];
    (void)state;
    for (uint32_t r = 0; r < RANKS; r++)
        start(&readers[r], r, directory.path);
    const psr_opened *first = take(&readers[0]);
    for (uint32_t r = 1; r < RANKS; r++) {
        const psr_opened *other = take(&readers[r]);
        assert_int_equal(memory_of(&readers[r]), memory_of(&readers[0]));
        assert_string_equal(other->content.train, first->content.train);
        assert_memory_equal(other->train->pixels, first->train->pixels, 300 * 81);
        assert_ptr_not_equal(other->train->pixels, first->train->pixels);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        stop(&readers[r]);
}

static void nobody_can_write_what_is_shared_not_even_who_has_read_it(void **state)
{
    reader r;
    (void)state;
    start(&r, 0, directory.path);
    (void)take(&r);
    int fd = psr_host_data_shared(r.data);
    int seals = fcntl(fd, F_GET_SEALS);
    assert_int_equal(seals & (F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL),
                     F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
    assert_true(seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE));
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    stop(&r);
}

static void who_has_no_directory_in_common_reads_alone(void **state)
{
    reader r, other;
    (void)state;
    start(&r, 0, "");
    start(&other, 1, "");
    assert_string_equal(take(&r)->content.train, take(&other)->content.train);
    assert_int_equal(psr_host_data_shared(r.data), -1);
    assert_int_equal(psr_host_data_shared(other.data), -1);
    stop(&r);
    stop(&other);
}

static void what_is_wrong_with_the_files_each_worker_tells(void **state)
{
    reader readers[2];
    (void)state;
    write_file(files, "t10k-labels-idx1-ubyte.xz", (bytes){0});
    for (uint32_t r = 0; r < 2; r++)
        start(&readers[r], r, directory.path);
    for (uint32_t r = 0; r < 2; r++) {
        psr_opened *opened = NULL;
        struct pollfd ended = {.fd = readers[r].ended, .events = POLLIN};
        assert_int_equal(poll(&ended, 1, PATIENCE_MS), 1);
        assert_int_equal(psr_host_data_take(readers[r].data, &opened), PSR_ERR_FORMAT);
        assert_non_null(strstr(psr_err_detail(), "t10k-labels-idx1-ubyte.xz"));
        stop(&readers[r]);
    }
}

/* ---- whose turn it is ---- */

/* Another process has the turn, and dies with it. Returns its process, and the read end of a pipe
 * that it has written to by then. */
static pid_t take_the_turn(uint32_t rank)
{
    char key[PSR_CONTENT_BYTES], name[32], holder[16], told;
    int pipe_of[2], turn = -1;
    assert_int_equal(pipe(pipe_of), 0);
    expect_ok(psr_content_key(files, key));
    snprintf(name, sizeof name, "data-%.16s", key);
    snprintf(holder, sizeof holder, "%u\n", rank);
    pid_t child = fork();
    if (child == 0) {
        if (psr_socket_directory_turn(&directory, name, holder, &turn) != PSR_OK ||
            write(pipe_of[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(pipe_of[1]);
    assert_int_equal(read(pipe_of[0], &told, 1), 1);
    close(pipe_of[0]);
    return child;
}

static void who_waits_for_another_says_for_whom_and_reads_when_that_one_dies(void **state)
{
    reader r;
    psr_opened *opened = NULL;
    psr_msg_progress progress = {0};
    (void)state;
    pid_t other = take_the_turn(3);
    start(&r, 1, directory.path);
    while (!progress.waits) /* it is on its way there */
        psr_host_data_report(r.data, &progress);
    assert_true(psr_peer_equal(progress.waits_for, (psr_peer){PSR_ROLE_WORKER, 3}));
    assert_int_equal(progress.phase, PSR_PHASE_START);
    expect_ok(psr_host_data_take(r.data, &opened));
    assert_null(opened);
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
    assert_int_equal(take(&r)->train->count, 300);
    progress = (psr_msg_progress){0};
    psr_host_data_report(r.data, &progress);
    assert_false(progress.waits);
    assert_true(progress.counter > 0);
    stop(&r);
}

/* Who has read the files and died leaves its socket behind. */
static void a_socket_of_one_that_has_died_is_no_hindrance(void **state)
{
    reader r;
    (void)state;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        reader dying;
        start(&dying, 2, directory.path);
        (void)take(&dying);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    start(&r, 1, directory.path);
    assert_int_equal(take(&r)->test->count, 20);
    stop(&r);
}

/* ---- memory ---- */

enum { MANY = 12288, SIDE = 64, PIXEL_BYTES = MANY * SIDE * SIDE };

/* Plain files of zeroes, which take no room on the disk: 48 MiB of training pixels. */
static void write_large_set(void)
{
    static const char *const packed[] = {"train-images-idx3-ubyte.xz",
                                         "train-labels-idx1-ubyte.xz"};
    static const uint8_t images[16] = {0, 0, 8, 3,    0, 0, MANY >> 8, 0,
                                       0, 0, 0, SIDE, 0, 0, 0,         SIDE},
                         labels[8] = {0, 0, 8, 1, 0, 0, MANY >> 8, 0};
    for (int i = 0; i < 2; i++)
        remove_file(files, packed[i]);
    bytes test = idx_images(20, SIDE, SIDE);
    write_file(files, "t10k-images-idx3-ubyte", test);
    bytes_done(&test);
    write_sparse(files, "train-images-idx3-ubyte", sizeof images + PIXEL_BYTES);
    write_sparse(files, "train-labels-idx1-ubyte", sizeof labels + MANY);
    for (long i = 0; i < (long)sizeof images; i++)
        write_at(files, "train-images-idx3-ubyte", i, images[i]);
    for (long i = 0; i < (long)sizeof labels; i++)
        write_at(files, "train-labels-idx1-ubyte", i, labels[i]);
}

/* A line of a process's account, in bytes. */
static uint64_t account_of(pid_t process, const char *file, const char *name)
{
    char path[64], line[256];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)process, file);
    FILE *account = fopen(path, "r");
    assert_non_null(account);
    bool found = false;
    while (!found && fgets(line, sizeof line, account) != NULL)
        found = strncmp(line, name, strlen(name)) == 0 &&
                sscanf(line + strlen(name), ": %llu kB", &kib) == 1;
    fclose(account);
    assert_true(found);
    return kib << 10;
}

/* A worker process: reads or maps the data, looks at every pixel, writes to `told` by how much its
 * memory had grown at its peak, and lives until `ends` is closed. */
static void be_a_worker(uint32_t rank, int told, int ends)
{
    reader r;
    char end;
    uint64_t peak = 0, sum = 0;
    const uint64_t before = account_of(getpid(), "status", "VmRSS");
    start(&r, rank, directory.path);
    const psr_dataset *train = take(&r)->train;
    for (size_t i = 0; i < PIXEL_BYTES; i++)
        sum += train->pixels[i];
    peak = account_of(getpid(), "status", "VmHWM") - before + sum;
    if (write(told, &peak, sizeof peak) != sizeof peak || read(ends, &end, 1) != 0)
        _exit(1);
    stop(&r);
    _exit(0);
}

/* The sum of proportional sets counts a page that several map once. If each worker had the pixels,
 * it would be four times their size. */
static void they_are_in_the_memory_of_all_workers_once_and_of_the_reader_never_twice(void **state)
{
    int told[2], ends[2];
    pid_t workers[RANKS];
    uint64_t all = 0;
    (void)state;
    write_large_set();
    assert_int_equal(pipe(told), 0);
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    for (uint32_t r = 0; r < RANKS; r++) {
        workers[r] = fork();
        if (workers[r] == 0) {
            close(ends[1]);
            be_a_worker(r, told[1], ends[0]);
        }
        assert_true(workers[r] > 0);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        uint64_t peak = 0;
        assert_int_equal(read(told[0], &peak, sizeof peak), sizeof peak);
        assert_in_range(peak, PIXEL_BYTES, PIXEL_BYTES / 2 * 3);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        all += account_of(workers[r], "smaps_rollup", "Pss");
    assert_in_range(all, PIXEL_BYTES, PIXEL_BYTES / 2 * 3);
    close(ends[1]);
    for (uint32_t r = 0; r < RANKS; r++) {
        int status = -1;
        assert_int_equal(waitpid(workers[r], &status, 0), workers[r]);
        assert_int_equal(status, 0);
    }
    close(ends[0]);
    close(told[0]);
    close(told[1]);
}

#define SET_UP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* With an argument what a sanitizer, which keeps freed memory, would change. */
int main(int argc, char **argv)
{
    (void)argv;
    const struct CMUnitTest as_built[] = {
        SET_UP(they_are_in_the_memory_of_all_workers_once_and_of_the_reader_never_twice),
    };
    const struct CMUnitTest tests[] = {
        SET_UP(one_reads_and_all_map_what_it_has_read),
        SET_UP(nobody_can_write_what_is_shared_not_even_who_has_read_it),
        SET_UP(who_has_no_directory_in_common_reads_alone),
        SET_UP(what_is_wrong_with_the_files_each_worker_tells),
        SET_UP(who_waits_for_another_says_for_whom_and_reads_when_that_one_dies),
        SET_UP(a_socket_of_one_that_has_died_is_no_hindrance),
    };
    return argc > 1 ? cmocka_run_group_tests(as_built, NULL, NULL)
                    : cmocka_run_group_tests(tests, NULL, NULL);
}
