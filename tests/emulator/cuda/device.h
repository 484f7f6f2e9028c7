/* What the emulator's files share: a device, the memory that it knows, its streams and the orders
 * that they carry out. */
#ifndef PSR_TESTS_EMULATOR_CUDA_DEVICE_H
#define PSR_TESTS_EMULATOR_CUDA_DEVICE_H

#include "tests/emulator/cuda/emulator.h"

#include <pthread.h>

/* Ends the process with one line: the program did what a GPU answers with wrong numbers. */
void psr_emulator_fault(const char *format, ...) PSR_PRINTF(1, 2) __attribute__((noreturn));

/* ---- what a device made, and frees when it is closed ---- */

typedef enum psr_emulator_made_kind {
    PSR_EMULATOR_GROUP, /* in the order in which they go */
    PSR_EMULATOR_STREAM,
    PSR_EMULATOR_EVENT,
    PSR_EMULATOR_RECORDING,
    PSR_EMULATOR_PLAN,
    PSR_EMULATOR_MADE_COUNT
} psr_emulator_made_kind;

typedef struct psr_emulator_made {
    struct psr_emulator_made *next, **at;
    psr_cuda_device *device;
    void (*free)(void *object);
} psr_emulator_made; /* an object's first member */

void psr_emulator_keep(psr_cuda_device *device, psr_emulator_made_kind kind,
                       psr_emulator_made *made, void (*free)(void *object));
void psr_emulator_forget(psr_emulator_made *made);

struct psr_cuda_device {
    psr_emulator_settings settings;
    pthread_mutex_t lock; /* of all below, and of what the streams and events hold */
    pthread_cond_t moved; /* an order was given or carried out, a stream ends, a device failed */
    psr_emulator_made *made[PSR_EMULATOR_MADE_COUNT];
    psr_cuda_stream *streams;
    size_t used_bytes;
    uint64_t random, orders, recordings;
    bool failed, is_other;
};

psr_err psr_emulator_failed(const psr_cuda_device *device); /* COMPUTE once it failed; locked */
uint64_t psr_emulator_random(psr_cuda_device *device);      /* locked */
/* Counts an order that is about to be carried out; false: the device has failed. Takes the lock. */
bool psr_emulator_count_order(psr_cuda_device *device);

/* ---- memory ---- */

/* Where the emulator finds [address, address + bytes) of device memory: the host's address of it is
 * another. Faults where that is not within one allocation. who: "a copy reads". */
void *psr_emulator_device_memory(const void *address, size_t bytes, const char *who);
/* The same; pinned and registered memory too, which lies where the host has it. */
void *psr_emulator_any_memory(const void *address, size_t bytes, const char *who);
/* Whether the address is device memory's. */
bool psr_emulator_is_device_memory(const void *address);
/* Faults when something was written behind an allocation's end. who: what ran last. */
void psr_emulator_check_ends(const char *who);
void psr_emulator_free_all_memory(psr_cuda_device *device);

psr_err psr_emulator_memory_new(psr_cuda_device *device, size_t bytes, void **ret_memory);
void psr_emulator_memory_free(psr_cuda_device *device, void *memory);
psr_err psr_emulator_pinned_new(psr_cuda_device *device, size_t bytes, void **ret_memory);
void psr_emulator_pinned_free(psr_cuda_device *device, void *memory);
psr_err psr_emulator_host_register(psr_cuda_device *device, void *memory, size_t bytes);
void psr_emulator_host_unregister(psr_cuda_device *device, void *memory);

/* ---- orders ---- */

typedef enum psr_emulator_order_kind {
    PSR_EMULATOR_WAIT,
    PSR_EMULATOR_RECORD,
    PSR_EMULATOR_COPY,
    PSR_EMULATOR_FILL,
    PSR_EMULATOR_CALL,
    PSR_EMULATOR_LAUNCH,
    PSR_EMULATOR_GRAPH,
    PSR_EMULATOR_SUM,
    PSR_EMULATOR_RECORDING_RUN
} psr_emulator_order_kind;

#define PSR_EMULATOR_ARGUMENT_BYTES 128

/* A place in a stream, or in one of a recording's. Counted. */
typedef struct psr_emulator_mark {
    uint32_t references;
    bool passed;
    int64_t passed_ns;       /* by psr_clock_ns */
    psr_cuda_stream *stream; /* until it has passed */
    uint64_t recording;      /* its number; 0: not of one */
    uint32_t lane, index;    /* of a recording's marks */
} psr_emulator_mark;

void psr_emulator_mark_drop(psr_emulator_mark *mark); /* locked */

typedef struct psr_emulator_order {
    struct psr_emulator_order *next;
    psr_emulator_order_kind kind;
    psr_emulator_mark *mark; /* of WAIT and RECORD */
    uint32_t lane;           /* of a recording: the stream it was given to */
    union {
        struct {
            void *to;
            const void *from;
            size_t bytes;
        } copy;
        struct {
            void *to;
            size_t bytes;
            uint8_t byte;
        } fill;
        struct {
            void (*call)(void *context);
            void *context;
        } call;
        struct {
            psr_cuda_kernel kernel;
            uint32_t blocks, threads;
            _Alignas(16) unsigned char arguments[PSR_EMULATOR_ARGUMENT_BYTES];
        } launch;
        struct {
            const psr_cuda_plan *plan;
            psr_cuda_plan_tensors tensors;
            void *workspace;
        } graph;
        struct {
            psr_cuda_group *group;
            float *values;
            size_t count;
        } sum;
        const psr_cuda_recording *recording;
    } of;
} psr_emulator_order;

void psr_emulator_order_free(psr_emulator_order *order); /* locked */
/* Does it, in the caller's thread, unlocked; not waits, records and recordings. Of a device that
 * has failed only calls are carried out. seed: of a kernel's order. */
void psr_emulator_carry_out(psr_cuda_device *device, const psr_emulator_order *order,
                            uint64_t seed);
/* Replaces the pointers in a kernel's arguments; faults where they leave device memory. */
void psr_emulator_translate_arguments(psr_cuda_kernel kernel, void *arguments);
size_t psr_emulator_argument_bytes(psr_cuda_kernel kernel);
const char *psr_emulator_kernel_name(psr_cuda_kernel kernel);

/* ---- streams, events, recordings ---- */

struct psr_cuda_stream {
    psr_emulator_made made;
    psr_cuda_stream *next;
    psr_emulator_order *first, **end;
    pthread_t thread;
    bool threaded, busy, closing;
    uint32_t ahead; /* lazy: of 8 chances to move before it is waited for */
    psr_cuda_recording *recording;
    uint32_t lane;
};

struct psr_cuda_event {
    psr_emulator_made made;
    psr_emulator_mark *mark; /* NULL: never recorded */
    bool timed;
};

struct psr_cuda_recording {
    psr_emulator_made made;
    uint64_t number;
    psr_cuda_stream *origin;
    psr_emulator_order *first, **end;
    uint32_t lanes, marks;
    psr_err err; /* of orders that could not be kept */
};

psr_err psr_emulator_stream_new(psr_cuda_device *device, psr_cuda_stream **ret_stream);
void psr_emulator_stream_free(psr_cuda_stream *stream);
psr_err psr_emulator_stream_wait(psr_cuda_stream *stream, psr_cuda_event *event);
psr_err psr_emulator_stream_synchronize(psr_cuda_stream *stream);
psr_err psr_emulator_event_new(psr_cuda_device *device, psr_cuda_event **ret_event);
psr_err psr_emulator_event_new_timed(psr_cuda_device *device, psr_cuda_event **ret_event);
void psr_emulator_event_free(psr_cuda_event *event);
psr_err psr_emulator_event_record(psr_cuda_event *event, psr_cuda_stream *stream);
psr_err psr_emulator_event_passed(psr_cuda_event *event, bool *ret_passed);
psr_err psr_emulator_event_synchronize(psr_cuda_event *event);
psr_err psr_emulator_event_elapsed(psr_cuda_event *from, psr_cuda_event *to, int64_t *ret_ns);
/* Takes the order, which is of malloc. */
psr_err psr_emulator_give(psr_cuda_stream *stream, psr_emulator_order *order);
psr_emulator_order *psr_emulator_order_new(psr_emulator_order_kind kind); /* NULL: no memory */

/* Until no stream holds a sum of the group. */
void psr_emulator_finish_sums(psr_cuda_device *device, const psr_cuda_group *group);

psr_err psr_emulator_record_begin(psr_cuda_stream *stream);
psr_err psr_emulator_record_end(psr_cuda_stream *stream, psr_cuda_recording **ret_recording);
psr_err psr_emulator_recording_run(psr_cuda_stream *stream, const psr_cuda_recording *recording);
void psr_emulator_recording_free(psr_cuda_recording *recording);
/* Keeps an order that was given to the stream while it records; locked. */
void psr_emulator_recording_add(psr_cuda_stream *stream, psr_emulator_order *order);
/* Carries out all of it, in the caller's thread, unlocked. */
void psr_emulator_recording_carry_out(psr_cuda_device *device, const psr_cuda_recording *recording,
                                      uint64_t seed);

/* ---- graphs ---- */

struct psr_cuda_plan {
    psr_emulator_made made;
    psr_cuda_graph graph;
    size_t workspace_bytes;
    bool tf32;
};

psr_err psr_emulator_plan_new(psr_cuda_device *device, const psr_cuda_graph *graph,
                              const psr_cuda_plan_limits *limits, psr_cuda_plan **ret_plan);
void psr_emulator_plan_free(psr_cuda_plan *plan);
size_t psr_emulator_plan_workspace(const psr_cuda_plan *plan);
int64_t psr_emulator_plan_engine(const psr_cuda_plan *plan);
psr_err psr_emulator_plan_run(psr_cuda_stream *stream, const psr_cuda_plan *plan,
                              const psr_cuda_plan_tensors *tensors, void *workspace);
/* How many of an operation's tensors, its last ones, it makes. */
uint32_t psr_emulator_outputs(const psr_cuda_operation *operation);
/* Computes it, in the caller's thread. */
void psr_emulator_graph_carry_out(const psr_cuda_plan *plan, const psr_cuda_plan_tensors *tensors,
                                  void *workspace);

/* ---- groups ---- */

psr_err psr_emulator_group_id(uint8_t ret_id[PSR_CUDA_GROUP_ID_BYTES]);
psr_err psr_emulator_group_join(psr_cuda_device *device, const uint8_t id[PSR_CUDA_GROUP_ID_BYTES],
                                uint32_t members, uint32_t member, psr_cuda_group **ret_group);
psr_err psr_emulator_group_sum(psr_cuda_group *group, psr_cuda_stream *stream, float *values,
                               size_t count);
psr_err psr_emulator_group_check(psr_cuda_group *group);
void psr_emulator_group_end(psr_cuda_group *group);
/* Sums, in the caller's thread; the emulator's address. */
void psr_emulator_group_carry_out(psr_cuda_group *group, float *values, size_t count);

#endif
