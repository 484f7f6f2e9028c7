/* Device memory, and what is known of the host's. An allocation is one mapping:
 *
 *     guard | the host's addresses | guard | the emulator's | guard
 *
 * of which only the emulator's pages can be touched. The address that is handed out is the host's,
 * so whoever follows it without the table is stopped. What lies between an allocation's end and its
 * last page's keeps its 0xff. Addresses of device memory are never given out twice. */
#include "tests/emulator/cuda/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef enum range_kind { DEVICE_MEMORY, PINNED, REGISTERED } range_kind;

typedef struct range {
    struct range *next;
    uintptr_t at;
    size_t bytes;
    unsigned char *memory; /* the emulator's */
    void *mapping;
    size_t mapping_bytes;
    psr_cuda_device *device;
    range_kind kind;
} range;

/* Of all devices, as a process has one space of addresses. */
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;
static range *ranges;

static const char *const kind_names[] = {"device", "pinned", "registered"};

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

static range *find(uintptr_t at)
{
    for (range *r = ranges; r != NULL; r = r->next)
        if (at >= r->at && at - r->at < r->bytes)
            return r;
    return NULL;
}

static void add(const range *values)
{
    range *r = malloc(sizeof *r);
    if (r == NULL)
        psr_emulator_fault("no memory is left on the host");
    *r = *values;
    pthread_mutex_lock(&ranges_lock);
    r->next = ranges;
    ranges = r;
    pthread_mutex_unlock(&ranges_lock);
}

/* ---- look-ups ---- */

static void *look_up(const void *address, size_t bytes, const char *who, bool host_too)
{
    pthread_mutex_lock(&ranges_lock);
    const range *r = find((uintptr_t)address);
    const bool known = r != NULL && (r->kind == DEVICE_MEMORY || host_too);
    const size_t from = known ? (uintptr_t)address - r->at : 0;
    const bool within = known && bytes <= r->bytes - from;
    unsigned char *memory = within ? r->memory + from : NULL;
    const range found = known ? *r : (range){0};
    pthread_mutex_unlock(&ranges_lock);
    if (!known)
        psr_emulator_fault("%s %zu bytes at %p, which is no address of %s", who, bytes, address,
                           host_too ? "device, pinned or registered memory" : "device memory");
    if (!within)
        psr_emulator_fault("%s %zu bytes from byte %zu on of %zu bytes of %s memory", who, bytes,
                           from, found.bytes, kind_names[found.kind]);
    return memory;
}

void *psr_emulator_device_memory(const void *address, size_t bytes, const char *who)
{
    return look_up(address, bytes, who, false);
}

void *psr_emulator_any_memory(const void *address, size_t bytes, const char *who)
{
    return look_up(address, bytes, who, true);
}

bool psr_emulator_is_device_memory(const void *address)
{
    pthread_mutex_lock(&ranges_lock);
    const range *r = find((uintptr_t)address);
    const bool known = r != NULL && r->kind == DEVICE_MEMORY;
    pthread_mutex_unlock(&ranges_lock);
    return known;
}

static void check_end(const range *r, const char *who)
{
    const size_t end = whole_pages(r->bytes);
    if (r->kind != DEVICE_MEMORY || r->bytes == end)
        return;
    /* Each byte is the one before it: after each kernel every allocation is looked at. */
    const unsigned char *behind = r->memory + r->bytes;
    if (behind[0] == 0xff && memcmp(behind, behind + 1, end - r->bytes - 1) == 0)
        return;
    for (size_t i = r->bytes; i < end; i++)
        if (r->memory[i] != 0xff)
            psr_emulator_fault("%s wrote %zu bytes behind an allocation of %zu bytes", who,
                               i - r->bytes, r->bytes);
}

void psr_emulator_check_ends(const char *who)
{
    pthread_mutex_lock(&ranges_lock);
    for (const range *r = ranges; r != NULL; r = r->next)
        check_end(r, who);
    pthread_mutex_unlock(&ranges_lock);
}

/* ---- device memory ---- */

static psr_err reserve(psr_cuda_device *device, size_t bytes)
{
    pthread_mutex_lock(&device->lock);
    psr_err err = psr_emulator_failed(device);
    const size_t free_bytes = device->settings.bytes - device->used_bytes;
    if (err == PSR_OK && bytes > free_bytes)
        err = psr_fail(PSR_ERR_NOMEM,
                       "the device's memory does not suffice: %zu bytes are wanted, %zu are free",
                       bytes, free_bytes);
    if (err == PSR_OK)
        device->used_bytes += bytes;
    pthread_mutex_unlock(&device->lock);
    return err;
}

static void give_back(psr_cuda_device *device, size_t bytes)
{
    pthread_mutex_lock(&device->lock);
    device->used_bytes -= bytes;
    pthread_mutex_unlock(&device->lock);
}

psr_err psr_emulator_memory_new(psr_cuda_device *device, size_t bytes, void **ret_memory)
{
    PSR_TRY(reserve(device, bytes));
    const size_t page = page_bytes(), inner = whole_pages(bytes > 0 ? bytes : 1);
    range r = {.bytes = bytes > 0 ? bytes : 1, .device = device, .kind = DEVICE_MEMORY};
    r.mapping_bytes = 2 * inner + 3 * page;
    r.mapping =
        mmap(NULL, r.mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r.mapping != MAP_FAILED) {
        r.at = (uintptr_t)r.mapping + page;
        r.memory = (unsigned char *)r.mapping + inner + 2 * page;
    }
    if (r.mapping == MAP_FAILED || mprotect(r.memory, inner, PROT_READ | PROT_WRITE) != 0)
        psr_emulator_fault("no memory is left on the host");
    memset(r.memory, 0xff, inner);
    add(&r);
    *ret_memory = (void *)r.at;
    return PSR_OK;
}

/* The addresses stay taken, without memory behind them. */
static void let_go(range *r)
{
    if (r->kind == DEVICE_MEMORY) {
        check_end(r, "something");
        if (mmap(r->mapping, r->mapping_bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
            psr_emulator_fault("no memory is left on the host");
        give_back(r->device, r->bytes);
    } else if (r->kind == PINNED) {
        munmap(r->mapping, r->mapping_bytes);
    }
    free(r);
}

static range *take_out(uintptr_t at, range_kind kind)
{
    pthread_mutex_lock(&ranges_lock);
    range **from = &ranges;
    while (*from != NULL && ((*from)->at != at || (*from)->kind != kind))
        from = &(*from)->next;
    range *found = *from;
    if (found != NULL)
        *from = found->next;
    pthread_mutex_unlock(&ranges_lock);
    return found;
}

static void free_range(void *memory, range_kind kind)
{
    if (memory == NULL)
        return;
    range *r = take_out((uintptr_t)memory, kind);
    if (r == NULL)
        psr_emulator_fault("%p is freed, which is no %s memory", memory, kind_names[kind]);
    let_go(r);
}

void psr_emulator_memory_free(psr_cuda_device *device, void *memory)
{
    (void)device;
    free_range(memory, DEVICE_MEMORY);
}

void psr_emulator_free_all_memory(psr_cuda_device *device)
{
    range *gone = NULL;
    pthread_mutex_lock(&ranges_lock);
    for (range **from = &ranges; *from != NULL;) {
        range *r = *from;
        if (r->device == device) {
            *from = r->next;
            r->next = gone;
            gone = r;
        } else {
            from = &r->next;
        }
    }
    pthread_mutex_unlock(&ranges_lock);
    while (gone != NULL) {
        range *next = gone->next;
        let_go(gone);
        gone = next;
    }
}

/* ---- the host's ---- */

psr_err psr_emulator_pinned_new(psr_cuda_device *device, size_t bytes, void **ret_memory)
{
    PSR_TRY(reserve(device, 0));
    range r = {.bytes = bytes > 0 ? bytes : 1, .device = device, .kind = PINNED};
    r.mapping_bytes = whole_pages(r.bytes);
    r.mapping =
        mmap(NULL, r.mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r.mapping == MAP_FAILED)
        return psr_fail(PSR_ERR_NOMEM, "no %zu bytes of pinned memory are left", bytes);
    memset(r.mapping, 0xff, r.mapping_bytes);
    r.memory = r.mapping;
    r.at = (uintptr_t)r.mapping;
    add(&r);
    *ret_memory = r.mapping;
    return PSR_OK;
}

void psr_emulator_pinned_free(psr_cuda_device *device, void *memory)
{
    (void)device;
    free_range(memory, PINNED);
}

psr_err psr_emulator_host_register(psr_cuda_device *device, void *memory, size_t bytes)
{
    PSR_TRY(reserve(device, 0));
    const range r = {.at = (uintptr_t)memory,
                     .bytes = bytes,
                     .memory = memory,
                     .device = device,
                     .kind = REGISTERED};
    pthread_mutex_lock(&ranges_lock);
    bool overlaps = false;
    for (const range *other = ranges; other != NULL; other = other->next)
        overlaps |= r.at < other->at + other->bytes && other->at < r.at + bytes;
    pthread_mutex_unlock(&ranges_lock);
    if (overlaps || bytes == 0)
        return psr_fail(PSR_ERR_COMPUTE, "memory that is registered already, or empty, cannot be "
                                         "registered");
    add(&r);
    return PSR_OK;
}

void psr_emulator_host_unregister(psr_cuda_device *device, void *memory)
{
    (void)device;
    free_range(memory, REGISTERED);
}
