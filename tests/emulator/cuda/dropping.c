/* The table with one call left out: the tests' mutants. */
#include "tests/emulator/cuda/device.h"

#include <stdatomic.h>
#include <string.h>

static psr_cuda_api dropping;
static psr_emulator_droppable dropped_kind;
static uint64_t dropped_number;
static atomic_uint_fast64_t calls[PSR_EMULATOR_DROPPABLE_COUNT];

/* Whose record was the last of each event, and which of them somebody waited for. */
#define MOST_RECORDS 4096
static pthread_mutex_t records_lock = PTHREAD_MUTEX_INITIALIZER;
static const psr_cuda_event *recorded[MOST_RECORDS];
static bool waited_for[MOST_RECORDS];

static void note_record(const psr_cuda_event *event, uint64_t number)
{
    pthread_mutex_lock(&records_lock);
    if (number < MOST_RECORDS)
        recorded[number] = event;
    pthread_mutex_unlock(&records_lock);
}

static void note_wait(const psr_cuda_event *event)
{
    pthread_mutex_lock(&records_lock);
    for (uint32_t number = MOST_RECORDS; number-- > 0;)
        if (recorded[number] == event) {
            waited_for[number] = true;
            break;
        }
    pthread_mutex_unlock(&records_lock);
}

static bool is_dropped(psr_emulator_droppable kind)
{
    const uint64_t number = atomic_fetch_add(&calls[kind], 1);
    return kind == dropped_kind && number == dropped_number;
}

static psr_err stream_wait(psr_cuda_stream *stream, psr_cuda_event *event)
{
    note_wait(event);
    return is_dropped(PSR_EMULATOR_STREAM_WAIT) ? PSR_OK : psr_emulator_stream_wait(stream, event);
}

static psr_err event_record(psr_cuda_event *event, psr_cuda_stream *stream)
{
    note_record(event, atomic_load(&calls[PSR_EMULATOR_EVENT_RECORD]));
    return is_dropped(PSR_EMULATOR_EVENT_RECORD) ? PSR_OK
                                                 : psr_emulator_event_record(event, stream);
}

static psr_err stream_synchronize(psr_cuda_stream *stream)
{
    return is_dropped(PSR_EMULATOR_SYNCHRONIZE) ? PSR_OK : psr_emulator_stream_synchronize(stream);
}

static psr_err event_synchronize(psr_cuda_event *event)
{
    note_wait(event);
    return is_dropped(PSR_EMULATOR_SYNCHRONIZE) ? PSR_OK : psr_emulator_event_synchronize(event);
}

const psr_cuda_api *psr_emulator_dropping(psr_emulator_droppable kind, uint64_t number)
{
    dropped_kind = kind;
    dropped_number = number;
    for (int i = 0; i < PSR_EMULATOR_DROPPABLE_COUNT; i++)
        atomic_store(&calls[i], 0);
    memset(recorded, 0, sizeof recorded);
    memset(waited_for, 0, sizeof waited_for);
    dropping = *psr_emulator();
    dropping.stream_wait = stream_wait;
    dropping.event_record = event_record;
    dropping.stream_synchronize = stream_synchronize;
    dropping.event_synchronize = event_synchronize;
    return &dropping;
}

uint64_t psr_emulator_calls(psr_emulator_droppable kind)
{
    return atomic_load(&calls[kind]);
}

bool psr_emulator_was_waited_for(uint64_t record)
{
    return record >= MOST_RECORDS || waited_for[record];
}
