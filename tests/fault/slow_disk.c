/* Preloaded into a scheduler, makes the disk that checkpoints go to as slow as
 * SLOW_DISK_BYTES_PER_S says, or hang for good once SLOW_DISK_HANGS_AFTER bytes were written. */
#undef _FILE_OFFSET_BITS /* with which pwrite is pwrite64 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SEEN_BY_ALL __attribute__((visibility("default")))

typedef ssize_t pwrite_function(int fd, const void *bytes, size_t size, off_t offset);

static double setting(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? atof(text) : 0;
}

static void take_the_time_for(size_t size)
{
    double per_s = setting("SLOW_DISK_BYTES_PER_S");
    if (per_s <= 0)
        return;
    double seconds = (double)size / per_s;
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0)
        ;
}

static ssize_t slow_pwrite(const char *name, int fd, const void *bytes, size_t size, off_t offset)
{
    static _Atomic size_t written;
    double hangs_after = setting("SLOW_DISK_HANGS_AFTER");
    while (hangs_after > 0 && (double)atomic_load(&written) >= hangs_after)
        pause();
    take_the_time_for(size);
    atomic_fetch_add(&written, size);
    pwrite_function *next;
    *(void **)&next = dlsym(RTLD_NEXT, name);
    return next(fd, bytes, size, offset);
}

/* One of the two is what a program was built with. */
SEEN_BY_ALL ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    return slow_pwrite("pwrite", fd, bytes, size, offset);
}

SEEN_BY_ALL ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset)
{
    return slow_pwrite("pwrite64", fd, bytes, size, offset);
}
