#include "worker/stored/stored_commands.h"

#include "base/arrays/arena.h"
#include "base/text/printable.h"
#include "worker/stored/stored_backend.h"
#include "worker/stored/stored_picture.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct classifying {
    psr_stored_model model;
    psr_stored_pictures *pictures;
    psr_buckets buckets;
    psr_backend *backend;
    cJSON *names; /* of the classes, an array; NULL: the checkpoint has none */
    float *images, *logits;
    double *shares; /* [classes]: of one picture */
    uint32_t *labels, *samples;
    uint32_t batch, top;
    bool as_json;
    size_t image_floats;
    uint32_t refused; /* files that are no pictures */
} classifying;

/* ---- before the first picture ---- */

static void read_names(classifying *c)
{
    const char *text = psr_checkpoint_metadata(c->model.checkpoint, "class_names");
    c->names = text != NULL ? cJSON_Parse(text) : NULL;
    if (cJSON_IsArray(c->names) && cJSON_GetArraySize(c->names) == (int)c->model.net->classes)
        return;
    cJSON_Delete(c->names);
    c->names = NULL;
    psr_print(stderr,
              "psring classify: %s has no class names: classes are told by their numbers (a "
              "classes.txt beside the training data gives names)\n",
              c->model.file);
}

static psr_err make_arrays(classifying *c)
{
    const psr_network *net = c->model.net;
    c->image_floats = (size_t)net->channels * net->height * net->width;
    PSR_TRY(psr_arena_new(c->batch * c->image_floats, &c->images));
    PSR_TRY(psr_arena_new((size_t)c->batch * net->classes, &c->logits));
    c->shares = calloc(net->classes, sizeof *c->shares);
    c->labels = calloc(c->batch, sizeof *c->labels);
    c->samples = calloc(c->batch, sizeof *c->samples);
    return c->shares != NULL && c->labels != NULL && c->samples != NULL
               ? PSR_OK
               : psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " pictures", c->batch);
}

static psr_err set_up(classifying *c, const char *checkpoint, unsigned threads)
{
    PSR_TRY(psr_stored_open(checkpoint, &c->model));
    PSR_TRY(psr_stored_pictures_new(&c->model, &c->pictures));
    const psr_network *net = c->model.net;
    PSR_TRY(psr_stored_backend(&c->model, c->batch, threads, &c->buckets, &c->backend));
    c->top = c->top < net->classes ? c->top : net->classes;
    PSR_TRY(make_arrays(c));
    read_names(c);
    return PSR_OK;
}

static void clean_up(classifying *c)
{
    if (c->model.net != NULL) {
        psr_arena_free(c->images, c->batch * c->image_floats);
        psr_arena_free(c->logits, (size_t)c->batch * c->model.net->classes);
    }
    free(c->shares);
    free(c->labels);
    free(c->samples);
    cJSON_Delete(c->names);
    psr_backend_free(c->backend);
    psr_buckets_done(&c->buckets);
    psr_stored_pictures_free(c->pictures);
    psr_stored_done(&c->model);
}

/* ---- answers ---- */

/* exp(logit) over their sum, in double; the largest logit is taken away first. */
static void find_shares(const float *logits, uint32_t classes, double *shares)
{
    double largest = (double)logits[0], sum = 0;
    for (uint32_t i = 1; i < classes; i++)
        largest = (double)logits[i] > largest ? (double)logits[i] : largest;
    for (uint32_t i = 0; i < classes; i++)
        sum += shares[i] = exp((double)logits[i] - largest);
    for (uint32_t i = 0; i < classes; i++)
        shares[i] /= sum;
}

/* The most likely class of those that have not been told, the lower number of equal ones. Then it
 * has been told: its share becomes negative. */
static uint32_t take_most_likely(double *shares, uint32_t classes, double *ret_share)
{
    uint32_t found = 0;
    for (uint32_t i = 1; i < classes; i++)
        if (shares[i] > shares[found])
            found = i;
    *ret_share = shares[found];
    shares[found] = -1;
    return found;
}

static const char *name_of(const classifying *c, uint32_t class)
{
    return c->names != NULL ? cJSON_GetStringValue(cJSON_GetArrayItem(c->names, (int)class)) : NULL;
}

static void print_answer(classifying *c, const char *file)
{
    psr_print(stdout, "%s\n", file);
    for (uint32_t i = 0; i < c->top; i++) {
        double share;
        const uint32_t class = take_most_likely(c->shares, c->model.net->classes, &share);
        const char *name = name_of(c, class);
        psr_print(stdout, "  %6.2f%%  %4" PRIu32 "%s%s\n", 100 * share, class,
                  name != NULL ? "  " : "", name != NULL ? name : "");
    }
}

static psr_err print_json(classifying *c, const char *file)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "file", file);
    cJSON *top = cJSON_AddArrayToObject(object, "top");
    for (uint32_t i = 0; top != NULL && i < c->top; i++) {
        double share;
        const uint32_t class = take_most_likely(c->shares, c->model.net->classes, &share);
        const char *name = name_of(c, class);
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "class", class);
        if (name != NULL)
            cJSON_AddStringToObject(item, "name", name);
        cJSON_AddNumberToObject(item, "share", share);
        if (!cJSON_AddItemToArray(top, item))
            cJSON_Delete(item);
    }
    char *line = top != NULL ? cJSON_PrintUnformatted(object) : NULL;
    cJSON_Delete(object);
    if (line == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what is found");
    psr_print(stdout, "%s\n", line);
    free(line);
    return PSR_OK;
}

/* files: [count], those whose pictures are in the batch. */
static psr_err answer(classifying *c, uint32_t count, const char *const *files)
{
    if (count == 0)
        return PSR_OK;
    const psr_batch batch = {
        .images = c->images, .labels = c->labels, .samples = c->samples, .count = count};
    const psr_exec_state state = {.weights = c->model.weights, .buffers = c->model.buffers};
    static const psr_exec_hooks none = {.context = NULL};
    psr_pass_result result;
    PSR_TRY(psr_backend_infer(c->backend, &batch, &state, &none, c->logits, &result));
    const uint32_t classes = c->model.net->classes;
    for (uint32_t i = 0; i < count; i++) {
        find_shares(c->logits + (size_t)i * classes, classes, c->shares);
        if (c->as_json)
            PSR_TRY(print_json(c, files[i]));
        else
            print_answer(c, files[i]);
    }
    return PSR_OK;
}

static psr_err classify(classifying *c, size_t count, char *const *files)
{
    const char **taken = calloc(c->batch, sizeof *taken);
    psr_err err = taken != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for names");
    uint32_t used = 0;
    for (size_t i = 0; err == PSR_OK && i < count; i++) {
        err = psr_stored_picture_read(c->pictures, files[i], c->images + used * c->image_floats);
        if (err == PSR_OK) {
            taken[used++] = files[i];
        } else if (err != PSR_ERR_NOMEM) {
            psr_print(stderr, "psring classify: %s\n", psr_err_detail());
            c->refused++;
            err = PSR_OK;
        }
        if (err == PSR_OK && (used == c->batch || i + 1 == count)) {
            err = answer(c, used, taken);
            used = 0;
        }
    }
    free(taken);
    return err;
}

int psr_classify_main(const char *checkpoint, unsigned top, bool as_json, unsigned threads,
                      unsigned batch_size, size_t count, char *const *files)
{
    classifying c = {.top = top,
                     .as_json = as_json,
                     .batch = batch_size < count ? (uint32_t)batch_size : (uint32_t)count};
    psr_err err = set_up(&c, checkpoint, threads);
    if (err == PSR_OK)
        err = classify(&c, count, files);
    if (err != PSR_OK)
        psr_print(stderr, "psring classify: %s\n", psr_err_detail());
    clean_up(&c);
    if (err == PSR_OK)
        return c.refused > 0 ? 2 : 0;
    return err == PSR_ERR_FORMAT || err == PSR_ERR_NOT_FOUND ? 2 : psr_err_exit_status(err);
}
