#include "comm/psring/applied.h"

#include "base/arrays/arena.h"
#include "base/arrays/fold.h"
#include "comm/reduce.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SETTINGS_MAX = 65536,
    MEAN_BLOCK = 2048 /* values that are divided at a time */
};

/* Arguments of the updates from a number on, unless a later setting has them too. */
typedef struct setting {
    struct setting *next; /* set later */
    uint64_t from;
    char arguments[PSR_OPENING_UPDATE_BYTES];
} setting;

/* Owned by the table, and freed with it. */
struct psr_applied {
    psring_update update;
    char name[64];   /* of the update, for lines */
    uint64_t before; /* updates that an earlier run has made */
    uint32_t rank;   /* the shard's */
    uint32_t part_count;
    uint32_t workers; /* by which a sum is divided; 0: it is not */
    uint32_t width;   /* floats of a value: 2 of float64 */
    psr_node_table *table;
    size_t length; /* of one state, in floats */
    float *states[PSR_UPDATE_STATES_MAX];
    pthread_mutex_t mutex; /* protects the settings */
    setting *settings;     /* never empty; the first one's number is 0, or done */
    size_t setting_count;
};

/* ---- the communicator's own ---- */

static psring_err add(void *context, const psring_update_run *run)
{
    (void)context;
    if (run->type == PSRING_FLOAT64)
        psr_reduce(PSR_TYPE_FLOAT64, PSR_REDUCTION_SUM, run->values64, run->values64, run->pushed64,
                   run->count);
    else
        psr_fold_add(run->values, run->pushed, run->count);
    return PSRING_OK;
}

static psring_err assign(void *context, const psring_update_run *run)
{
    (void)context;
    if (run->type == PSRING_FLOAT64)
        memcpy(run->values64, run->pushed64, run->count * sizeof *run->values64);
    else
        memcpy(run->values, run->pushed, run->count * sizeof *run->values);
    return PSRING_OK;
}

static const struct own {
    const char *name;
    psring_update update;
} own[] = {{"sum", {.apply = add, .float64 = true}},
           {"assign", {.apply = assign, .float64 = true}}};

static const psring_update *own_update(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strlen(own[i].name) == length && strncmp(own[i].name, name, length) == 0)
            return &own[i].update;
    return NULL;
}

bool psr_applied_is_own(const char *name, size_t length)
{
    return own_update(name, length) != NULL;
}

psr_defined_update *psr_applied_defined(const psring_comm *comm, const char *name, size_t length)
{
    for (psr_defined_update *u = comm->updates; u != NULL; u = u->next)
        if (strlen(u->name) == length && strncmp(u->name, name, length) == 0)
            return u;
    return NULL;
}

/* ---- arguments ---- */

static psr_err refuse(const psring_comm *comm, const char *text, size_t length)
{
    char names[256] = "sum, assign";
    size_t used = strlen(names);
    for (const psr_defined_update *u = comm->updates; u != NULL && used < sizeof names; u = u->next)
        used += (size_t)snprintf(names + used, sizeof names - used, ", %s", u->name);
    return psr_fail(PSR_ERR_USAGE, "there is no update \"%.*s\", but %s", (int)length, text, names);
}

static psr_err check_arguments(const psr_applied *a, const char *arguments)
{
    char line[256] = "its arguments are not what it takes", text[PSR_OPENING_UPDATE_BYTES + 64];
    snprintf(text, sizeof text, "%s%s%s", a->name, arguments[0] != '\0' ? " " : "", arguments);
    if (a->update.check == NULL && arguments[0] == '\0')
        return PSR_OK;
    if (a->update.check == NULL)
        return psr_fail(PSR_ERR_USAGE, "update \"%s\": it takes no arguments", text);
    psring_err err = a->update.check(a->update.context, arguments, line, sizeof line);
    line[sizeof line - 1] = '\0';
    if (err == PSRING_OK)
        return PSR_OK;
    return psr_fail(err == PSRING_ERR_NOMEM ? PSR_ERR_NOMEM : PSR_ERR_USAGE, "update \"%s\": %s",
                    text, line);
}

/* Drops the settings that a new one replaces wholly: those that begin with no earlier update. With
 * mutex held. */
static void drop_replaced(psr_applied *a, uint64_t from)
{
    for (setting **at = &a->settings; *at != NULL;) {
        setting *s = *at;
        if (s->from < from) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        free(s);
        a->setting_count--;
    }
}

/* Drops the settings that no later update uses: those with a later one that has the update after
 * `done` too. With mutex held. */
static void drop_old(psr_applied *a, uint64_t done)
{
    setting *kept = a->settings;
    for (setting *s = a->settings; s != NULL; s = s->next)
        if (s->from <= done + 1)
            kept = s;
    while (a->settings != kept) {
        setting *next = a->settings->next;
        free(a->settings);
        a->settings = next;
        a->setting_count--;
    }
}

psr_err psr_applied_set(psr_applied *a, const char *arguments, uint64_t from, uint64_t done)
{
    PSR_TRY(check_arguments(a, arguments));
    setting *made = calloc(1, sizeof *made), **last = &a->settings;
    if (made == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an update's arguments");
    made->from = from;
    snprintf(made->arguments, sizeof made->arguments, "%s", arguments);
    pthread_mutex_lock(&a->mutex);
    drop_replaced(a, from);
    while (*last != NULL)
        last = &(*last)->next;
    *last = made;
    a->setting_count++;
    drop_old(a, from == 0 ? UINT64_MAX - 1 : done);
    const bool too_many = a->setting_count > SETTINGS_MAX;
    if (too_many) {
        *last = NULL;
        a->setting_count--;
        free(made);
    }
    pthread_mutex_unlock(&a->mutex);
    return too_many ? psr_fail(PSR_ERR_USAGE,
                               "%d arguments wait for updates that were not made: set them with "
                               "from 0",
                               SETTINGS_MAX)
                    : PSR_OK;
}

static void arguments_of(psr_applied *a, uint64_t number, char text[PSR_OPENING_UPDATE_BYTES])
{
    pthread_mutex_lock(&a->mutex);
    const setting *chosen = a->settings;
    for (const setting *s = chosen->next; s != NULL; s = s->next)
        if (s->from <= number)
            chosen = s;
    memcpy(text, chosen->arguments, sizeof chosen->arguments);
    pthread_mutex_unlock(&a->mutex);
}

/* ---- applying ---- */

/* A run as the table has it: all in floats, of which a float64 is two. */
typedef struct floats {
    size_t offset, count; /* offset: in the part */
    float *values, *states[PSR_UPDATE_STATES_MAX];
    const float *pushed;
} floats;

static psring_err apply_run(const psr_applied *a, const floats *f, psring_update_run run)
{
    float *states[PSR_UPDATE_STATES_MAX] = {NULL};
    double *states64[PSR_UPDATE_STATES_MAX] = {NULL};
    run.offset = f->offset / a->width;
    run.count = f->count / a->width;
    for (uint32_t s = 0; s < a->update.states; s++) {
        states[s] = f->states[s];
        states64[s] = (double *)f->states[s]; /* used only where the table's values are that */
    }
    if (a->width == 2) {
        run.type = PSRING_FLOAT64;
        run.values64 = (double *)f->values;
        run.pushed64 = (const double *)f->pushed;
        run.states64 = states64;
    } else {
        run.type = PSRING_FLOAT32;
        run.values = f->values;
        run.pushed = f->pushed;
        run.states = states;
    }
    return a->update.apply(a->update.context, &run);
}

static void divide(const psr_applied *a, double *out, const float *sum, size_t count)
{
    const double *sum64 = (const double *)sum;
    float *out32 = (float *)out;
    for (size_t i = 0; i < count / a->width; i++) {
        if (a->width == 2)
            out[i] = sum64[i] / a->workers;
        else
            out32[i] = sum[i] / (float)a->workers;
    }
}

/* A block at a time: for a mean, the sum is divided into memory of its own. */
static psring_err apply_blocks(const psr_applied *a, floats f, psring_update_run run)
{
    double divided[MEAN_BLOCK / 2];
    const size_t count = f.count;
    if (a->workers == 0)
        return apply_run(a, &f, run);
    psring_err err = PSRING_OK;
    for (size_t at = 0; at < count && err == PSRING_OK; at += f.count) {
        const float *pushed = f.pushed;
        f.count = count - at < MEAN_BLOCK ? count - at : MEAN_BLOCK;
        divide(a, divided, pushed, f.count);
        f.pushed = (const float *)divided;
        err = apply_run(a, &f, run);
        f.pushed = pushed + f.count;
        f.values += f.count;
        f.offset += f.count;
        for (uint32_t s = 0; s < a->update.states; s++)
            f.states[s] += f.count;
    }
    return err;
}

static psr_err apply(void *context, const psr_table_run *run)
{
    psr_applied *a = context;
    const uint32_t part = a->part_count - 1 - run->part;
    char arguments[PSR_OPENING_UPDATE_BYTES];
    floats f = {.offset = run->span.offset - psr_node_table_part(a->table, part).offset,
                .count = run->span.count,
                .values = run->values,
                .pushed = run->pushed};
    for (uint32_t s = 0; s < a->update.states; s++)
        f.states[s] = a->states[s] + run->span.offset;
    const psring_update_run given = {.size = sizeof given,
                                     .arguments = arguments,
                                     .number = a->before + run->number,
                                     .part = part};
    arguments_of(a, given.number, arguments);
    psring_err err = apply_blocks(a, f, given);
    if (err == PSRING_OK)
        return PSR_OK;
    if (err != PSRING_ERR_NUMERIC && err != PSRING_ERR_USAGE && err != PSRING_ERR_NOMEM &&
        err != PSRING_ERR_IO)
        err = PSRING_ERR_COMPUTE; /* other errors would speak of ranks and messages */
    return psr_fail((psr_err)err,
                    "rank %" PRIu32 ", a shard: update %" PRIu64 " of part %" PRIu32
                    " by \"%s%s%s\" failed: %s",
                    a->rank, given.number, part, a->name, arguments[0] != '\0' ? " " : "",
                    arguments, psr_err_name((psr_err)err));
}

static float *state_of(void *context, uint32_t state)
{
    return ((const psr_applied *)context)->states[state];
}

/* ---- life ---- */

void psr_applied_free(void *applied)
{
    psr_applied *a = applied;
    if (a == NULL)
        return;
    for (uint32_t s = 0; s < a->update.states; s++)
        if (a->states[s] != NULL)
            psr_arena_free(a->states[s], a->length);
    for (setting *s = a->settings, *next; s != NULL; s = next) {
        next = s->next;
        free(s);
    }
    pthread_mutex_destroy(&a->mutex);
    free(a);
}

psr_err psr_applied_new(const psring_comm *comm, const psr_opening *opening,
                        psr_applied **ret_applied)
{
    const char *text = opening->update;
    const size_t length = strcspn(text, " ");
    const char *arguments = text + length + strspn(text + length, " ");
    const psr_defined_update *u = psr_applied_defined(comm, text, length);
    const psring_update *update = u != NULL ? &u->update : own_update(text, length);
    if (update == NULL)
        return refuse(comm, text, length);
    if (opening->type == PSR_TYPE_FLOAT64 && !update->float64)
        return psr_fail(PSR_ERR_USAGE, "update \"%.*s\" does not work in float64", (int)length,
                        text);
    psr_applied *a = calloc(1, sizeof *a);
    if (a == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an update");
    pthread_mutex_init(&a->mutex, NULL);
    a->update = *update;
    snprintf(a->name, sizeof a->name, "%.*s", (int)length, text);
    a->rank = comm->rank;
    a->before = opening->updates;
    a->part_count = opening->part_count;
    a->workers = opening->mean ? opening->worker_count : 0;
    a->width = psr_node_table_width(opening->type);
    psr_err err = psr_applied_set(a, arguments, 0, 0);
    if (err != PSR_OK) {
        psr_applied_free(a);
        return err;
    }
    *ret_applied = a;
    return PSR_OK;
}

uint32_t psr_applied_states(const psr_applied *applied)
{
    return applied->update.states;
}

psr_table_update psr_applied_update(psr_applied *applied)
{
    return (psr_table_update){.context = applied,
                              .state_count = applied->update.states,
                              .state = state_of,
                              .apply = apply};
}

psr_err psr_applied_begin(psr_applied *a, psr_node_table *table)
{
    a->table = table;
    a->length = psr_node_table_length(table);
    for (uint32_t s = 0; s < a->update.states; s++)
        PSR_TRY(psr_arena_new(a->length, &a->states[s]));
    return PSR_OK;
}
