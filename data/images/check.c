#include "data/images/check.h"

#include "base/config/config.h"
#include "base/system/file.h"
#include "base/system/thread.h"
#include "data/digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 64

/* What is found of one file. height 0: it is broken. */
typedef psr_known_picture verdict;

/* Shared by the threads: each takes the next picture until none is left. */
typedef struct checking {
    const psr_picture_list *list;
    const psr_known_pictures *known; /* NULL: none */
    psr_reading *reading;
    verdict *verdicts; /* [count] */
    _Atomic uint32_t next;
    _Atomic bool stop; /* a thread failed: the others need not go on */
} checking;

typedef struct checker {
    checking *shared;
    psr_image_decoder *decoder; /* owned */
    pthread_t thread;
    psr_err err;
    char detail[PSR_ERR_DETAIL_BYTES]; /* the error's text is the thread's own */
} checker;

static psr_err read_file(const char *path, psr_image_decoder *decoder, verdict *v)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    psr_image_size sides;
    PSR_TRY(psr_file_read(path, PSR_IMAGE_MAX_FILE_BYTES, &bytes, &size));
    psr_err err = psr_image_check(decoder, path, bytes, size, &sides);
    if (err == PSR_OK) {
        const XXH128_hash_t hash = XXH3_128bits(bytes, size);
        v->height = sides.height;
        v->width = sides.width;
        v->hash[0] = hash.low64;
        v->hash[1] = hash.high64;
    }
    free(bytes);
    return err;
}

/* The state is that of before the file is read: if the file changes meanwhile, a later state is
 * another one. */
static psr_err check_file(const psr_picture_list *list, uint32_t i, const psr_known_pictures *known,
                          psr_image_decoder *decoder, verdict *v)
{
    char path[PSR_PATH_MAX];
    uint64_t state = 0;
    bool settled = false;
    PSR_TRY(psr_picture_list_path(list, i, path, sizeof path));
    const bool is_there = psr_picture_state(path, &state, &settled);
    const psr_known_picture *before =
        is_there && known != NULL ? psr_known_pictures_find(known, state) : NULL;
    if (before != NULL) {
        *v = *before;
        return PSR_OK;
    }
    *v = (verdict){.state = settled ? state : 0};
    return read_file(path, decoder, v);
}

static psr_err check_files(checker *c)
{
    checking *shared = c->shared;
    for (;;) {
        uint32_t i = atomic_fetch_add(&shared->next, 1);
        if (i >= shared->list->paths.count || atomic_load(&shared->stop))
            return PSR_OK;
        PSR_TRY(psr_reading_moved(shared->reading));
        psr_err err = check_file(shared->list, i, shared->known, c->decoder, &shared->verdicts[i]);
        if (err == PSR_ERR_NOMEM)
            return err;
        if (err != PSR_OK)
            shared->verdicts[i] = (verdict){0};
    }
}

static void *run(void *argument)
{
    checker *c = argument;
    c->err = check_files(c);
    if (c->err != PSR_OK) {
        atomic_store(&c->shared->stop, true);
        psr_err_detail_keep(c->detail);
    }
    return NULL;
}

static psr_err check_all(checking *shared, uint32_t threads)
{
    checker checkers[MAX_THREADS] = {0};
    uint32_t started = 0;
    psr_err err = PSR_OK;
    threads = threads == 0 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    threads = threads > shared->list->paths.count ? shared->list->paths.count : threads;
    while (started < threads && err == PSR_OK) {
        checker *c = &checkers[started];
        c->shared = shared;
        err = psr_image_decoder_new(&c->decoder);
        if (err == PSR_OK)
            err = psr_thread_start("psr-check", run, c, &c->thread);
        if (err == PSR_OK)
            started++;
        else
            psr_image_decoder_free(c->decoder);
    }
    if (err != PSR_OK)
        atomic_store(&shared->stop, true);
    for (uint32_t t = 0; t < started; t++) {
        pthread_join(checkers[t].thread, NULL);
        psr_image_decoder_free(checkers[t].decoder);
    }
    for (uint32_t t = 0; t < started && err == PSR_OK; t++) {
        if (checkers[t].err != PSR_OK)
            err = psr_fail(checkers[t].err, "%s", checkers[t].detail);
    }
    return err;
}

/* Asks once more for the message of a file that was found broken. */
static psr_err add_message(const psr_picture_list *list, uint32_t i, psr_names *broken)
{
    psr_image_decoder *decoder = NULL;
    verdict v;
    PSR_TRY(psr_image_decoder_new(&decoder));
    psr_err err = check_file(list, i, NULL, decoder, &v);
    psr_image_decoder_free(decoder);
    if (err == PSR_ERR_NOMEM)
        return err;
    if (err == PSR_OK)
        return psr_fail(PSR_ERR_IO, "%s/%s: changed while it was read", list->directory,
                        psr_names_get(&list->paths, i));
    return psr_names_add(broken, psr_err_detail(), strlen(psr_err_detail()));
}

/* Labels and hashes of all pictures, in their order. */
static void print_content(const psr_picture_list *list, const verdict *verdicts,
                          char content[PSR_CONTENT_BYTES])
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, "pictures", sizeof "pictures");
    for (uint32_t i = 0; i < list->paths.count; i++) {
        XXH3_128bits_update(&state, &list->labels[i], sizeof list->labels[i]);
        const XXH128_hash_t hash = {.low64 = verdicts[i].hash[0], .high64 = verdicts[i].hash[1]};
        XXH3_128bits_update(&state, &hash, sizeof hash);
    }
    psr_digest_print(&state, content);
}

/* Puts the next good file in the place of each broken one. */
static psr_err replace(psr_picture_list *list, verdict *verdicts, psr_names *broken)
{
    uint32_t count = list->paths.count, good = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (verdicts[i].height == 0)
            PSR_TRY(add_message(list, i, broken));
        else if (good == UINT32_MAX)
            good = i;
    }
    if (good == UINT32_MAX)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: none of its %" PRIu32 " pictures is whole; the first: %s",
                        list->directory, count, psr_names_get(broken, broken->count - count));
    for (uint32_t i = count; i-- > 0;) {
        if (verdicts[i].height != 0) {
            good = i;
            continue;
        }
        verdicts[i] = verdicts[good];
        psr_picture_list_copy(list, good, i);
    }
    return PSR_OK;
}

static psr_err copy_known(const verdict *verdicts, uint32_t count, psr_known_picture **ret_known)
{
    if (ret_known == NULL)
        return PSR_OK;
    psr_known_picture *known = malloc(count * sizeof *known);
    if (known == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what is known of %" PRIu32 " pictures",
                        count);
    memcpy(known, verdicts, count * sizeof *known);
    *ret_known = known;
    return PSR_OK;
}

psr_err psr_picture_list_check(psr_picture_list *list, const psr_known_pictures *known,
                               uint32_t threads, psr_reading *reading, psr_names *broken,
                               psr_image_size **ret_sizes, psr_known_picture **ret_known,
                               char ret_content[PSR_CONTENT_BYTES])
{
    uint32_t count = list->paths.count;
    checking shared = {.list = list, .known = known, .reading = reading};
    psr_image_size *sizes = malloc(count * sizeof *sizes);
    shared.verdicts = calloc(count, sizeof *shared.verdicts);
    psr_err err = PSR_OK;
    if (sizes == NULL || shared.verdicts == NULL)
        err =
            psr_fail(PSR_ERR_NOMEM, "%s: no memory for the sizes of its pictures", list->directory);
    if (err == PSR_OK)
        err = check_all(&shared, threads);
    psr_known_picture *now = NULL;
    if (err == PSR_OK)
        err = copy_known(shared.verdicts, count, ret_known != NULL ? &now : NULL);
    if (err == PSR_OK)
        err = replace(list, shared.verdicts, broken);
    for (uint32_t i = 0; i < count && err == PSR_OK; i++)
        sizes[i] = (psr_image_size){.height = shared.verdicts[i].height,
                                    .width = shared.verdicts[i].width};
    if (err == PSR_OK)
        print_content(list, shared.verdicts, ret_content);
    free(shared.verdicts);
    if (err != PSR_OK) {
        free(sizes);
        free(now);
        return err;
    }
    *ret_sizes = sizes;
    if (ret_known != NULL)
        *ret_known = now;
    return PSR_OK;
}
