/* A GPU that this processor plays: model/cuda/api.h without any device or library of NVIDIA's, for
 * tests and for whole runs of psring-worker-cuda's emulated build.
 *
 * Device memory is memory that the host cannot touch at the addresses it was given, holds 0xff when
 * new, and has known ends. What a program must not do (leave an allocation, read what streams have
 * not written yet, copy from memory that is not pinned) either ends the process with one line, or
 * gives other numbers under some seed. */
#ifndef PSR_TESTS_EMULATOR_CUDA_EMULATOR_H
#define PSR_TESTS_EMULATOR_CUDA_EMULATOR_H

#include "model/cuda/api.h"

typedef enum psr_emulator_streams {
    PSR_EMULATOR_THREADS, /* each stream is a thread */
    PSR_EMULATOR_LAZY     /* orders are carried out by who waits, in his thread */
} psr_emulator_streams;

typedef struct psr_emulator_settings {
    psr_emulator_streams streams;
    /* Threads: of delays before orders; 0: none. Lazy: of the order in which streams move on, and
     * how far ahead of being waited for; 0: no order before it is needed. With threads a seed gives
     * orders that differ from call to call, lazy streams repeat theirs. */
    uint64_t seed;
    uint32_t devices;
    uint32_t other_from; /* devices from this number on are of another kind */
    size_t bytes;        /* of each device's memory */
    uint64_t fail_after; /* the device fails after that many orders; 0: never */
} psr_emulator_settings;

psr_emulator_settings psr_emulator_default(void); /* threads without delays, one device of 4 GiB */

/* For devices that are opened from now on. */
void psr_emulator_set(const psr_emulator_settings *settings);

const psr_cuda_api *psr_emulator(void);

/* The same table, in which one call does nothing and answers that it did: number (from 0) of the
 * calls of that kind since this was set. For tests that show that each of them is needed. */
typedef enum psr_emulator_droppable {
    PSR_EMULATOR_STREAM_WAIT,
    PSR_EMULATOR_EVENT_RECORD,
    PSR_EMULATOR_SYNCHRONIZE, /* of streams and of events */
    PSR_EMULATOR_DROPPABLE_COUNT
} psr_emulator_droppable;
const psr_cuda_api *psr_emulator_dropping(psr_emulator_droppable kind, uint64_t number);
#define PSR_EMULATOR_DROP_NONE UINT64_MAX
/* How many calls of that kind there were since, the dropped one included. */
uint64_t psr_emulator_calls(psr_emulator_droppable kind);
/* Whether a stream or the host waited for what that event_record had recorded. Of 4096 records;
 * true for later ones. */
bool psr_emulator_was_waited_for(uint64_t record);

#endif
