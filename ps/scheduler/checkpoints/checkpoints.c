#include "ps/scheduler/checkpoints/checkpoints.h"

#include "base/arrays/ranges.h"
#include "base/clock.h"
#include "net/message.h"
#include "ps/scheduler/checkpoints/checkpoint_files.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NICE 10        /* of the thread that writes */
#define FINISH_MS 5000 /* how long complete checkpoints may take to be put in place at the end */
#define LEAVE_MS 500   /* how long the thread may then still be at the disk */

/* Of the test set, after so many steps. */
typedef struct evaluation {
    bool made;
    uint64_t step;
    psr_checkpoint_evaluation means;
} evaluation;

/* Floats that have arrived and are not written yet. */
typedef struct piece {
    uint32_t section;
    size_t offset, count;
    uint64_t elements;    /* elements that belong to tensors */
    evaluation evaluated; /* of the checkpoint's step, as far as it is known */
    const float *data;    /* in message */
    psr_message *message; /* owned */
    struct piece *next;
} piece;

typedef enum part_state { PART_COMING, PART_WHOLE, PART_IN_PLACE, PART_FAILED } part_state;

/* One checkpoint that is being put together. */
typedef struct part {
    uint64_t step;
    /* used by the caller: */
    uint64_t total, missing; /* elements of all sections */
    uint64_t *missing_of;    /* [sections] */
    uint64_t *pieces_of;     /* [sections]: number of pieces that came */
    psr_ranges *came;        /* [sections] */
    /* protected by the mutex: */
    part_state state;
    piece *first, **last;
    uint64_t written; /* elements */
    int64_t busy_ms;  /* time of the disk for it, without the piece that is being written */
    psr_err err;
    char failure[512];
    struct part *next;
    /* used by the writing thread: */
    psr_checkpoint_files *files;
} part;

struct psr_checkpoints {
    char directory[PSR_PATH_MAX + 16];
    psr_config config;
    const psr_sections *sections;
    const char *const *about; /* borrowed */
    uint32_t section_count;
    void (*wake)(void *context);
    void *wake_context;
    uint64_t last_in_place;
    bool any_in_place;
    evaluation evaluated; /* the last one */

    pthread_t thread;
    bool thread_runs;
    atomic_bool given_up; /* the thread must stop at once, and call wake no more */
    _Atomic int64_t moved_ms;

    pthread_mutex_t mutex;
    pthread_cond_t condition;
    /* protected by the mutex: */
    /* checkpoints whose pieces arrive, that are complete, or whose result was not taken yet, in the
     * order of their steps */
    part *parts;
    part *at_work; /* the one that the thread writes; NULL if it sleeps or is about to wake */
    int64_t at_work_since_ms;
    bool quit;
};

/* ---- parts ---- */

static void piece_free(piece *p)
{
    if (p != NULL)
        psr_message_free(&p->message);
    free(p);
}

static void drop_pieces(part *p)
{
    while (p->first != NULL) {
        piece *next = p->first->next;
        piece_free(p->first);
        p->first = next;
    }
    p->last = &p->first;
}

static void part_free(const psr_checkpoints *set, part *p)
{
    psr_checkpoint_files_free(p->files);
    drop_pieces(p);
    for (uint32_t i = 0; p->came != NULL && i < set->section_count; i++)
        psr_ranges_done(&p->came[i]);
    free(p->came);
    free(p->missing_of);
    free(p->pieces_of);
    free(p);
}

static psr_err part_new(const psr_checkpoints *set, uint64_t step, part *next, part **ret_part)
{
    part *p = calloc(1, sizeof *p);
    if (p == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a checkpoint");
    p->step = step;
    p->next = next;
    p->last = &p->first;
    p->missing_of = calloc((size_t)set->section_count + 1, sizeof *p->missing_of);
    p->pieces_of = calloc((size_t)set->section_count + 1, sizeof *p->pieces_of);
    p->came = calloc((size_t)set->section_count + 1, sizeof *p->came);
    if (p->missing_of == NULL || p->pieces_of == NULL || p->came == NULL) {
        part_free(set, p);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a checkpoint");
    }
    uint32_t section;
    psr_section_place place;
    for (uint32_t i = 0; psr_sections_at(set->sections, i, &section); i++)
        if (psr_sections_place(set->sections, section, &place)) {
            p->missing_of[i] = place.layout->count;
            p->total += place.layout->count;
        }
    p->missing = p->total;
    *ret_part = p;
    return PSR_OK;
}

static psr_err find_part(psr_checkpoints *set, uint64_t step, part **ret_part)
{
    part **at = &set->parts;
    while (*at != NULL && (*at)->step < step)
        at = &(*at)->next;
    if (*at != NULL && (*at)->step == step) {
        *ret_part = *at;
        return PSR_OK;
    }
    part *p = NULL;
    PSR_TRY(part_new(set, step, *at, &p));
    /* The writing thread walks the list. */
    pthread_mutex_lock(&set->mutex);
    *at = p;
    pthread_mutex_unlock(&set->mutex);
    *ret_part = p;
    return PSR_OK;
}

/* ---- the writing thread ---- */

static bool note_disk_progress(void *context)
{
    psr_checkpoints *set = context;
    atomic_store(&set->moved_ms, psr_clock_ms());
    return !atomic_load(&set->given_up);
}

static psr_err write_piece(psr_checkpoints *set, part *p, const piece *work)
{
    psr_checkpoint_files_options options = {set->directory, &set->config,       set->sections,
                                            set->about,     note_disk_progress, set};
    if (p->files == NULL)
        PSR_TRY(psr_checkpoint_files_new(&options, p->step, &p->files));
    if (work->evaluated.made)
        psr_checkpoint_files_evaluated(p->files, &work->evaluated.means);
    return psr_checkpoint_files_put(p->files, work->section, work->data, work->offset, work->count);
}

/* The oldest checkpoint that is not done, if there is something to do for it; the end only if it is
 * complete. Pieces of the next one wait: a disk with room for one more gets the older one. Call it
 * with the mutex held. */
static part *next_part(const psr_checkpoints *set)
{
    part *p = set->parts;
    while (p != NULL && (p->state == PART_IN_PLACE || p->state == PART_FAILED))
        p = p->next;
    if (p != NULL && (p->state == PART_WHOLE || (p->first != NULL && !set->quit)))
        return p;
    return NULL;
}

static piece *pop_piece(part *p)
{
    piece *first = p->first;
    if (first == NULL)
        return NULL;
    p->first = first->next;
    if (p->first == NULL)
        p->last = &p->first;
    return first;
}

/* Writes one piece, or finishes a complete checkpoint. The mutex is held before and after. */
static void write_some(psr_checkpoints *set, part *p)
{
    piece *work = pop_piece(p);
    set->at_work_since_ms = psr_clock_ms();
    pthread_mutex_unlock(&set->mutex);
    psr_err err = work != NULL ? write_piece(set, p, work) : psr_checkpoint_files_commit(p->files);
    uint64_t elements = work != NULL ? work->elements : 0;
    bool last = work == NULL;
    piece_free(work);
    note_disk_progress(set);
    pthread_mutex_lock(&set->mutex);
    p->written += elements;
    p->busy_ms += psr_clock_ms() - set->at_work_since_ms;
    set->at_work_since_ms = 0;
    if (err != PSR_OK) {
        p->err = err;
        snprintf(p->failure, sizeof p->failure, "%s", psr_err_detail());
        p->state = PART_FAILED;
        drop_pieces(p);
    } else if (last) {
        p->state = PART_IN_PLACE;
    }
    if ((err != PSR_OK || last) && !atomic_load(&set->given_up))
        set->wake(set->wake_context);
}

static void *write_all(void *context)
{
    psr_checkpoints *set = context;
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* workers compute meanwhile */
    pthread_mutex_lock(&set->mutex);
    while (!atomic_load(&set->given_up)) {
        set->at_work = next_part(set);
        if (set->at_work != NULL)
            write_some(set, set->at_work);
        else if (set->quit)
            break;
        else
            pthread_cond_wait(&set->condition, &set->mutex);
    }
    pthread_mutex_unlock(&set->mutex);
    return NULL;
}

/* ---- pieces ---- */

static bool index_of(const psr_sections *sections, uint32_t section, uint32_t *ret_index)
{
    uint32_t each;
    for (uint32_t i = 0; psr_sections_at(sections, i, &each); i++)
        if (each == section) {
            *ret_index = i;
            return true;
        }
    return false;
}

/* Limits pieces, since each costs memory beside its floats until it is written. A worker's are
 * large; a shard's are buckets, of at least 1024 floats (--bucket-size), or of small tensors
 * between large ones. */
static uint64_t pieces_most(const psr_layout *layout)
{
    return 64 + 2 * layout->tensor_count + layout->length / 512;
}

/* Consumes it. */
static void give_to_thread(psr_checkpoints *set, part *p, piece *given)
{
    pthread_mutex_lock(&set->mutex);
    if (p->state == PART_COMING) {
        *p->last = given;
        p->last = &given->next;
        if (p->missing == 0)
            p->state = PART_WHOLE;
        if (set->at_work == NULL) {
            atomic_store(&set->moved_ms, psr_clock_ms());
            pthread_cond_signal(&set->condition);
        }
    } else {
        piece_free(given); /* it failed, and the failure was not taken yet */
    }
    pthread_mutex_unlock(&set->mutex);
}

psr_err psr_checkpoints_put(psr_checkpoints *set, uint64_t step, uint32_t section,
                            const float *data, size_t offset, size_t count, psr_message **message)
{
    psr_section_place place;
    uint32_t index = 0;
    part *p = NULL;
    if (!psr_sections_place(set->sections, section, &place) ||
        !index_of(set->sections, section, &index))
        return psr_fail(PSR_ERR_PROTOCOL, "a checkpoint of this run has no section %" PRIu32,
                        section);
    if (offset > place.layout->length || count > place.layout->length - offset)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "%zu floats at %zu are not within section %" PRIu32 ", which has %zu",
                        count, offset, section, place.layout->length);
    if (count == 0)
        return PSR_OK;
    PSR_TRY(find_part(set, step, &p));
    if (psr_ranges_overlap(&p->came[index], offset, offset + count))
        return psr_fail(PSR_ERR_PROTOCOL,
                        "floats %zu to %zu of section %" PRIu32
                        " of the checkpoint of step %" PRIu64 " came before",
                        offset, offset + count, section, step);
    if (p->pieces_of[index] == pieces_most(place.layout))
        return psr_fail(PSR_ERR_PROTOCOL,
                        "section %" PRIu32 " of the checkpoint of step %" PRIu64
                        " comes in more than %" PRIu64 " pieces",
                        section, step, p->pieces_of[index]);
    PSR_TRY(psr_ranges_reserve(&p->came[index]));
    piece *given = malloc(sizeof *given);
    if (given == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a piece of a checkpoint");
    *given = (piece){.section = section,
                     .offset = offset,
                     .count = count,
                     .elements = psr_layout_elements_in(place.layout, offset, count),
                     .data = data,
                     .message = *message};
    if (set->evaluated.made && set->evaluated.step == step)
        given->evaluated = set->evaluated;
    *message = NULL;

    psr_ranges_add(&p->came[index], offset, offset + count);
    p->pieces_of[index]++;
    p->missing_of[index] -= given->elements;
    p->missing -= given->elements;
    give_to_thread(set, p, given);
    return PSR_OK;
}

void psr_checkpoints_evaluated(psr_checkpoints *set, uint64_t step,
                               const psr_checkpoint_evaluation *means)
{
    set->evaluated = (evaluation){true, step, *means};
}

psr_err psr_checkpoints_whole(const psr_checkpoints *set, uint64_t step)
{
    if (set->any_in_place && set->last_in_place == step)
        return PSR_OK;
    const part *p = set->parts;
    while (p != NULL && p->step != step)
        p = p->next;
    if (p == NULL)
        return psr_fail(PSR_ERR_PROTOCOL, "nobody sent anything of the checkpoint of step %" PRIu64,
                        step);
    uint32_t section;
    psr_section_place place;
    for (uint32_t i = 0; psr_sections_at(set->sections, i, &section); i++)
        if (p->missing_of[i] > 0 && psr_sections_place(set->sections, section, &place))
            return psr_fail(PSR_ERR_PROTOCOL,
                            "the checkpoint of step %" PRIu64 " lacks %" PRIu64
                            " numbers of %s (%s.safetensors)",
                            step, p->missing_of[i], place.prefix[0] ? place.prefix : "the model",
                            psr_checkpoint_file_name(place.file));
    return PSR_OK;
}

psr_err psr_checkpoints_take(psr_checkpoints *set, uint64_t *ret_step)
{
    part *taken = NULL;
    pthread_mutex_lock(&set->mutex);
    for (part **at = &set->parts; *at != NULL; at = &(*at)->next)
        if ((*at)->state == PART_IN_PLACE || (*at)->state == PART_FAILED) {
            taken = *at;
            *at = taken->next;
            break;
        }
    pthread_mutex_unlock(&set->mutex);
    if (taken == NULL)
        return PSR_ERR_NOT_FOUND;
    psr_err err = taken->err;
    if (err != PSR_OK) {
        psr_fail(err, "%s", taken->failure);
    } else {
        *ret_step = set->last_in_place = taken->step;
        set->any_in_place = true;
    }
    part_free(set, taken);
    return err;
}

bool psr_checkpoints_writing(psr_checkpoints *set, psr_checkpoints_pace *ret_pace)
{
    pthread_mutex_lock(&set->mutex);
    const part *p = set->at_work != NULL ? set->at_work : next_part(set);
    int64_t now_ms = psr_clock_ms(),
            since_ms = set->at_work_since_ms ? set->at_work_since_ms : now_ms;
    if (p != NULL)
        *ret_pace = (psr_checkpoints_pace){.step = p->step,
                                           .written = (double)p->written / (double)p->total,
                                           .busy_ms = p->busy_ms + now_ms - since_ms,
                                           .moved_ms = atomic_load(&set->moved_ms)};
    pthread_mutex_unlock(&set->mutex);
    return p != NULL;
}

/* ---- life ---- */

psr_err psr_checkpoints_new(const psr_checkpoints_options *options,
                            psr_checkpoints **ret_checkpoints)
{
    psr_checkpoints *set = calloc(1, sizeof *set);
    if (set == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for checkpoints");
    if (snprintf(set->directory, sizeof set->directory, "%s", options->directory) >=
        (int)sizeof set->directory) {
        free(set);
        return psr_fail(PSR_ERR_USAGE, "--out: the path is too long");
    }
    set->config = *options->config;
    set->sections = options->sections;
    set->about = options->about;
    set->wake = options->wake;
    set->wake_context = options->context;
    uint32_t section;
    while (psr_sections_at(set->sections, set->section_count, &section))
        set->section_count++;
    pthread_mutex_init(&set->mutex, NULL);
    pthread_cond_init(&set->condition, NULL);
    int failure = pthread_create(&set->thread, NULL, write_all, set);
    if (failure != 0) {
        psr_checkpoints_free(set);
        return psr_fail(PSR_ERR_NOMEM, "no thread for checkpoints: %s", strerror(failure));
    }
    set->thread_runs = true;
    *ret_checkpoints = set;
    return PSR_OK;
}

static bool thread_ends_within(const psr_checkpoints *set, int64_t timeout_ms)
{
    struct timespec until = psr_clock_after_ns(timeout_ms * 1000000);
    return pthread_clockjoin_np(set->thread, NULL, CLOCK_MONOTONIC, &until) == 0;
}

/* false: it hangs in the disk. */
static bool end_thread(psr_checkpoints *set)
{
    pthread_mutex_lock(&set->mutex);
    set->quit = true;
    pthread_cond_signal(&set->condition);
    pthread_mutex_unlock(&set->mutex);
    if (thread_ends_within(set, FINISH_MS))
        return true;
    pthread_mutex_lock(&set->mutex); /* the thread may be calling wake */
    atomic_store(&set->given_up, true);
    pthread_mutex_unlock(&set->mutex);
    return thread_ends_within(set, LEAVE_MS);
}

void psr_checkpoints_free(psr_checkpoints *set)
{
    if (set == NULL || (set->thread_runs && !end_thread(set)))
        return;
    while (set->parts != NULL) {
        part *next = set->parts->next;
        part_free(set, set->parts);
        set->parts = next;
    }
    pthread_mutex_destroy(&set->mutex);
    pthread_cond_destroy(&set->condition);
    free(set);
}
