#include "ps/scheduler/checkpoints/resume.h"

#include "base/text/printable.h"
#include "comm/wire/encoding.h"
#include "comm/wire/messages.h"
#include "model/checkpoint/checkpoint.h"
#include "ps/roster.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES (PSR_PATH_MAX + 64)

struct psr_resume {
    char path[PATH_BYTES];
    psr_checkpoint *files[PSR_CHECKPOINT_FILES]; /* that of averages: NULL if it has none */
    uint64_t step;
    uint32_t workers;
    psr_loss_scale loss_scale; /* zeros: its run had none */
    psr_pace pace; /* zeros: an older version wrote it, and it was never dealt out anew */
    /* the compression whose residuals the checkpoint has; NULL: none. Borrowed from the
     * checkpoint */
    const char *compress;
    /* the same of weights that came as differences: it has those that the shards updated too */
    const char *compress_weights;
};

/* ---- opening one ---- */

static psr_err read_count(const psr_resume *resume, const char *key, uint64_t *ret_value)
{
    const char *text = psr_checkpoint_metadata(resume->files[PSR_CHECKPOINT_STATE], key);
    char *end = NULL;
    errno = 0;
    unsigned long long value =
        text != NULL && text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (end == NULL || *end != '\0' || errno != 0 || value > INT64_MAX)
        return psr_fail(PSR_ERR_FORMAT, "%s/state.safetensors: its metadata has no \"%s\"",
                        resume->path, key);
    *ret_value = value;
    return PSR_OK;
}

/* Older versions do not say which optimizer it was. */
static psr_err check_optimizer(const psr_resume *resume, const psr_config *config)
{
    const char *was = psr_checkpoint_metadata(resume->files[PSR_CHECKPOINT_STATE], "optimizer");
    char is[PSR_OPTION_TEXT_MAX];
    PSR_TRY(psr_config_get(config, "optimizer", is, sizeof is));
    if (was == NULL || strcmp(was, is) == 0)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "--resume %s is of --optimizer %.64s, and --optimizer is %s, which has another "
                    "state; give --optimizer %.64s, or --init for its weights alone",
                    resume->path, was, is, was);
}

static psr_err check_run(psr_resume *resume, const psr_config *config)
{
    uint64_t workers = 0;
    PSR_TRY(read_count(resume, "step", &resume->step));
    PSR_TRY(read_count(resume, "workers", &workers));
    resume->compress = psr_checkpoint_metadata(resume->files[PSR_CHECKPOINT_STATE], "compress");
    resume->compress_weights =
        psr_checkpoint_metadata(resume->files[PSR_CHECKPOINT_STATE], "compress-weights");
    const char *model = psr_checkpoint_metadata(resume->files[PSR_CHECKPOINT_STATE], "model");
    if (model == NULL || strcmp(model, config->model) != 0)
        return psr_fail(PSR_ERR_USAGE, "--resume %s is of model %s, and --model is %s",
                        resume->path, model != NULL ? model : "(none)", config->model);
    if (workers == 0 || workers > UINT32_MAX)
        return psr_fail(PSR_ERR_FORMAT, "%s/state.safetensors: it is of %" PRIu64 " workers",
                        resume->path, workers);
    resume->workers = (uint32_t)workers;
    PSR_TRY(check_optimizer(resume, config));
    const char *pace = psr_checkpoint_metadata(resume->files[PSR_CHECKPOINT_STATE], "pace");
    psr_err err = pace != NULL ? psr_pace_read(pace, &resume->pace) : PSR_OK;
    return err == PSR_OK ? PSR_OK : psr_fail_context(err, "%s/state.safetensors", resume->path);
}

static psr_err open_file(psr_resume *resume, psr_checkpoint_file file)
{
    char path[PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/%s.safetensors", resume->path, psr_checkpoint_file_name(file));
    return psr_checkpoint_open(path, &resume->files[file]);
}

/* What --ema was in the checkpoint's run; NULL: it had none. */
static const char *ema_of(const psr_resume *resume)
{
    return psr_checkpoint_metadata(resume->files[PSR_CHECKPOINT_STATE], "ema");
}

static psr_err open_files(psr_resume *resume)
{
    PSR_TRY(open_file(resume, PSR_CHECKPOINT_MODEL));
    PSR_TRY(open_file(resume, PSR_CHECKPOINT_STATE));
    return ema_of(resume) != NULL ? open_file(resume, PSR_CHECKPOINT_EMA) : PSR_OK;
}

static psr_err read_loss_scale(psr_resume *resume)
{
    const psr_checkpoint *state = resume->files[PSR_CHECKPOINT_STATE];
    float numbers[PSR_LOSS_SCALE_NUMBERS];
    psr_checkpoint_entry entry;
    if (!psr_checkpoint_entry_of(state, PSR_LOSS_SCALE_TENSOR, &entry))
        return PSR_OK;
    PSR_TRY(psr_checkpoint_read(state, PSR_LOSS_SCALE_TENSOR, 1,
                                (uint32_t[]){PSR_LOSS_SCALE_NUMBERS}, numbers));
    return psr_loss_scale_from_floats(numbers, &resume->loss_scale) &&
                   resume->loss_scale.skipped <= resume->step
               ? PSR_OK
               : psr_fail(PSR_ERR_FORMAT, "%s/state.safetensors: its \"%s\" is none", resume->path,
                          PSR_LOSS_SCALE_TENSOR);
}

static psr_err open_one(const char *path, const psr_config *config, psr_resume **ret_resume)
{
    psr_resume *resume = calloc(1, sizeof *resume);
    if (resume == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a checkpoint");
    psr_err err = PSR_OK;
    if (snprintf(resume->path, sizeof resume->path, "%s", path) >= (int)sizeof resume->path)
        err = psr_fail(PSR_ERR_USAGE, "--resume: the path is too long");
    if (err == PSR_OK)
        err = open_files(resume);
    if (err == PSR_OK)
        err = check_run(resume, config);
    if (err == PSR_OK)
        err = read_loss_scale(resume);
    if (err != PSR_OK) {
        psr_resume_free(resume);
        return err;
    }
    *ret_resume = resume;
    return PSR_OK;
}

/* ---- the newest of a run directory ---- */

static psr_err open_newest(const char *run, const psr_config *config,
                           void (*skipped)(void *, const char *), void *context,
                           psr_resume **ret_resume)
{
    char directory[PATH_BYTES], path[PATH_BYTES + 32], line[1024];
    snprintf(directory, sizeof directory, "%s/checkpoints", run);
    uint64_t step = UINT64_MAX;
    psr_err err = psr_fail(PSR_ERR_NOT_FOUND,
                           "--resume %s: neither a checkpoint (model.safetensors and "
                           "state.safetensors) nor a run directory with one in checkpoints/",
                           run);
    while (psr_checkpoint_newest(directory, step, &step)) {
        snprintf(path, sizeof path, "%s/step-%" PRIu64, directory, step);
        err = open_one(path, config, ret_resume);
        if (err != PSR_ERR_FORMAT && err != PSR_ERR_NOT_FOUND)
            return err;
        snprintf(line, sizeof line, "%s; looking for the one before it", psr_err_detail());
        if (skipped != NULL)
            skipped(context, line);
    }
    return err;
}

psr_err psr_resume_open(const char *path, const psr_config *config,
                        void (*skipped)(void *, const char *), void *context,
                        psr_resume **ret_resume)
{
    char file[PATH_BYTES];
    struct stat status;
    if (snprintf(file, sizeof file, "%s/model.safetensors", path) >= (int)sizeof file)
        return psr_fail(PSR_ERR_USAGE, "--resume: the path is too long");
    if (stat(file, &status) == 0)
        return open_one(path, config, ret_resume);
    return open_newest(path, config, skipped, context, ret_resume);
}

void psr_resume_free(psr_resume *resume)
{
    if (resume == NULL)
        return;
    for (int i = 0; i < PSR_CHECKPOINT_FILES; i++)
        psr_checkpoint_close(resume->files[i]);
    free(resume);
}

uint64_t psr_resume_step(const psr_resume *resume)
{
    return resume->step;
}

const char *psr_resume_path(const psr_resume *resume)
{
    return resume->path;
}

const psr_loss_scale *psr_resume_loss_scale(const psr_resume *resume)
{
    return &resume->loss_scale;
}

bool psr_resume_evaluated(const psr_resume *resume)
{
    return psr_checkpoint_metadata(resume->files[PSR_CHECKPOINT_MODEL], "test_accuracy") != NULL;
}

/* ---- the place in the data ---- */

/* An older version's run had one deal from its beginning: this one's, but for the workers. */
static psr_pace pace_before(const psr_resume *resume, const psr_deal *deal)
{
    psr_deal before = *deal;
    before.workers = resume->workers;
    return resume->pace.epoch_steps > 0 ? resume->pace : psr_pace_of(&before, false);
}

psr_pace psr_resume_pace(const psr_resume *resume, const psr_deal *deal)
{
    const psr_pace before = pace_before(resume, deal);
    return psr_pace_after(&before, deal, resume->step);
}

static void tell_deal(const psr_resume *resume, const psr_pace *pace, char *line, size_t size)
{
    const psr_deal *is = &pace->deal;
    const psr_pace before = pace_before(resume, is);
    const psr_deal *was = &before.deal;
    char samples[96] = "", owed[96] = "";
    if (was->count != is->count)
        snprintf(samples, sizeof samples, "; the data had %" PRIu32 " samples, and have %" PRIu32,
                 was->count, is->count);
    if (resume->compress != NULL && is->workers < was->workers)
        snprintf(owed, sizeof owed, "; what the ranks from %" PRIu32 " on owed is dropped",
                 is->workers);
    snprintf(line, size,
             "  resumed    %" PRIu32 " worker%s of batch %" PRIu32 " instead of %" PRIu32
             " of batch %" PRIu32 ": epoch %" PRIu64 " goes on after %" PRIu32
             " of its samples, and the rest is dealt out anew, in %" PRIu64
             " step%s; an epoch has %" PRIu64 " from then on%s%s",
             is->workers, is->workers == 1 ? "" : "s", is->batch_size, was->workers,
             was->batch_size, pace->first_epoch + 1, pace->first_used, pace->rest_steps,
             pace->rest_steps == 1 ? "" : "s", pace->epoch_steps, samples, owed);
}

/* --steps and the schedules that follow it count steps of any size, so after another deal they mean
 * another number of samples. false: the number is the same, or the run has its end in epochs. */
static bool tell_steps(const psr_resume *resume, const psr_config *config, const psr_pace *pace,
                       char *line, size_t size)
{
    const psr_pace before = pace_before(resume, &pace->deal);
    const uint64_t was = (uint64_t)before.deal.workers * before.deal.batch_size,
                   is = (uint64_t)pace->deal.workers * pace->deal.batch_size;
    if (!pace->by_steps || config->steps <= resume->step || was == is)
        return false;
    const uint64_t left = config->steps - resume->step;
    /* in double: rounded, but no overflow; people read it */
    const double same = (double)resume->step + ceil((double)left * (double)was / (double)is);
    snprintf(line, size,
             "  resumed    --steps %" PRIu64
             " ends with that step, and schedules count steps: %" PRIu64 " more, of %" PRIu64
             " samples instead of %" PRIu64 "; as many samples as before would be --steps %.0f",
             config->steps, left, is, was, same);
    return true;
}

/* Whether the option differs from the checkpoint's; an older version did not write it. */
static bool differs(const psr_resume *resume, const psr_config *config, const char *name,
                    const char **ret_was, char is[static PSR_OPTION_TEXT_MAX])
{
    *ret_was = psr_checkpoint_metadata(resume->files[PSR_CHECKPOINT_STATE], name);
    return *ret_was != NULL && psr_config_get(config, name, is, PSR_OPTION_TEXT_MAX) == PSR_OK &&
           strcmp(*ret_was, is) != 0;
}

/* --ema of the checkpoint's run, and of this one. */
static bool tell_ema(const psr_resume *resume, const psr_config *config, char *line, size_t size)
{
    const char *was = ema_of(resume);
    char is[PSR_OPTION_TEXT_MAX];
    if (psr_config_get(config, "ema", is, sizeof is) != PSR_OK ||
        strcmp(was != NULL ? was : "none", is) == 0)
        return false;
    snprintf(line, size, "  resumed    --ema %.32s instead of %.32s: the average of the weights %s",
             is, was != NULL ? was : "none",
             config->ema.decay == 0 ? "ends here"
             : was == NULL          ? "begins with the checkpoint's weights"
                                    : "goes on by it");
    psr_printable_line(line, strlen(line)); /* a file may have any text */
    return true;
}

bool psr_resume_changes(const psr_resume *resume, const psr_config *config, const psr_pace *pace,
                        uint32_t index, char *line, size_t size)
{
    static const struct {
        const char *name, *means;
    } options[] = {
        {"seed",
         "the rest of this epoch is of another order, so some of its samples come twice and "
         "some not at all; later epochs are whole"},
        {"shuffle", "the rest of this epoch is of another order, so some of its samples come twice "
                    "and some not at all; later epochs are whole"},
        {"augment", "the samples from here on are augmented so"},
    };
    const char *was;
    char is[PSR_OPTION_TEXT_MAX];
    if (pace->first_step == resume->step && resume->step > 0 &&
        (pace->first_step != resume->pace.first_step || resume->pace.epoch_steps == 0)) {
        if (index-- == 0) {
            tell_deal(resume, pace, line, size);
            return true;
        }
        if (tell_steps(resume, config, pace, line, size) && index-- == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (differs(resume, config, options[i].name, &was, is) && index-- == 0) {
            snprintf(line, size, "  resumed    --%s %.100s instead of %.100s: %s", options[i].name,
                     is, was, options[i].means);
            psr_printable_line(line, strlen(line)); /* a file may have any text */
            return true;
        }
    return tell_ema(resume, config, line, size) && index-- == 0;
}

bool psr_resume_drops(const psr_resume *resume, const psr_sections *sections, char *line,
                      size_t size)
{
    const bool gradients = resume->compress != NULL && !sections->owes,
               weights = resume->compress_weights != NULL && !sections->pulls_differences;
    if (!gradients && !weights)
        return false;
    size_t used = (size_t)snprintf(line, size, "%s was written by a run with ", resume->path);
    if (gradients && used < size)
        used += (size_t)snprintf(line + used, size - used, "--compress %.32s%s", resume->compress,
                                 weights ? " and " : "");
    if (weights && used < size)
        used += (size_t)snprintf(line + used, size - used, "--compress-weights %.32s",
                                 resume->compress_weights);
    if (used < size)
        snprintf(line + used, size - used,
                 ", and this run has none: the parts of %s%s%s had not sent yet are dropped",
                 gradients ? "gradients that its workers" : "",
                 gradients && weights ? " and of " : "", weights ? "weights that its shards" : "");
    psr_printable_line(line, strlen(line)); /* a file may have any text */
    return true;
}

/* ---- its tensors ---- */

/* A tensor's floats, lent to the messages that carry its pieces. */
typedef struct loan {
    atomic_size_t holders;
    float data[];
} loan;

/* Called by the transport when a loan ends. */
static void give_back(void *context)
{
    loan *lent = context;
    if (atomic_fetch_sub(&lent->holders, 1) == 1)
        free(lent);
}

static psr_err send_pieces(psr_transport *transport, uint32_t worker, uint64_t step,
                           uint32_t section, const psr_tensor *tensor, loan *lent)
{
    const size_t most = psr_encoding_values_max(PSR_ENCODING_FLOAT32);
    for (size_t at = 0; at < tensor->count; at += most) {
        size_t count = tensor->count - at < most ? tensor->count - at : most;
        psr_head head =
            psr_msg_restore_head(&(psr_msg_piece){step, section, {tensor->offset + at, count}});
        psr_payload payload = psr_encode(&head, PSR_ENCODING_FLOAT32, lent->data + at, count);
        payload.release = give_back;
        payload.context = lent;
        atomic_fetch_add(&lent->holders, 1);
        PSR_TRY(
            psr_transport_send(transport, (psr_peer){PSR_ROLE_WORKER, worker}, &head, &payload));
    }
    return PSR_OK;
}

/* Whether the checkpoint has the section. Only residuals may be missing, and count as zeros. */
static bool has_section(const psr_resume *resume, const psr_section_place *place)
{
    return !place->of_compression || (resume->compress != NULL && place->rank < resume->workers);
}

/* The tensor is complete and verified before its first piece is sent: the file may have changed
 * since. */
static psr_err send_tensor(const psr_resume *resume, const psr_section_place *place,
                           const char *name, uint32_t section, const psr_tensor *tensor,
                           psr_transport *transport)
{
    const psr_checkpoint *file = resume->files[place->file];
    psr_err err = PSR_OK;
    loan *lent = calloc(1, sizeof *lent + tensor->count * sizeof(float));
    if (lent == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for tensor %s of a checkpoint", name);
    atomic_init(&lent->holders, 1);
    if (has_section(resume, place))
        err = psr_checkpoint_read(file, name, tensor->rank, tensor->shape, lent->data);
    if (err == PSR_OK)
        err = send_pieces(transport, place->worker, resume->step, section, tensor, lent);
    give_back(lent);
    return err;
}

static psr_err find_tensor(const psr_resume *resume, const psr_section_place *place,
                           const char *name, const psr_tensor *tensor)
{
    const psr_checkpoint *file = resume->files[place->file];
    return has_section(resume, place) ? psr_checkpoint_find(file, name, tensor->rank, tensor->shape)
                                      : PSR_OK;
}

/* With transport == NULL it only checks. */
static psr_err check_or_send_tensor(const psr_resume *resume, const psr_section_place *place,
                                    uint32_t section, const psr_tensor *tensor,
                                    psr_transport *transport)
{
    char name[PSR_TENSOR_NAME_MAX + 40];
    snprintf(name, sizeof name, "%s%s", place->prefix, tensor->name);
    psr_err err = transport != NULL ? send_tensor(resume, place, name, section, tensor, transport)
                                    : find_tensor(resume, place, name, tensor);
    return err == PSR_OK ? PSR_OK : psr_fail_context(err, "--resume");
}

/* Where the checkpoint has what stands in a section: what it does not have begins as the like of it
 * that it has. An average begins as what it is of. */
static bool find_place(const psr_resume *resume, const psr_sections *sections, uint32_t section,
                       psr_section_place *ret_place)
{
    psr_section_place place;
    if (!psr_sections_place(sections, section, &place))
        return false;
    const psr_layout *layout = place.layout; /* an average has what is trained */
    if (place.of_ema && ema_of(resume) == NULL)
        (void)psr_sections_place(sections,
                                 place.of_statistics                  ? PSR_SECTION_RANK(place.rank)
                                 : section == PSR_SECTION_EMA_BUFFERS ? PSR_SECTION_BUFFERS
                                                                      : PSR_SECTION_WEIGHTS,
                                 &place);
    if (place.of_updated && resume->compress_weights == NULL) /* workers had the same */
        (void)psr_sections_place(sections, PSR_SECTION_PULLED, &place);
    if (place.of_statistics && place.rank >= resume->workers) /* a new one: that of all */
        (void)psr_sections_place(
            sections, place.of_ema ? PSR_SECTION_EMA_BUFFERS : PSR_SECTION_BUFFERS, &place);
    place.layout = layout;
    *ret_place = place;
    return true;
}

static psr_err check_or_send(const psr_resume *resume, const psr_sections *sections,
                             psr_transport *transport)
{
    uint32_t section;
    psr_section_place place;
    for (uint32_t i = 0; psr_sections_at(sections, i, &section); i++) {
        if (!find_place(resume, sections, section, &place) || place.of_loss_scale)
            continue;
        for (size_t t = 0; t < place.layout->tensor_count; t++)
            PSR_TRY(check_or_send_tensor(resume, &place, section, &place.layout->tensors[t],
                                         transport));
    }
    return PSR_OK;
}

/* The optimizer's state has the tensors that were trained. */
static psr_err check_frozen(const psr_resume *resume, const psr_layout *layout)
{
    psr_config before;
    const char *was = psr_checkpoint_metadata(resume->files[PSR_CHECKPOINT_STATE], "freeze");
    psr_config_defaults(&before);
    if (was != NULL && psr_config_set(&before, "freeze", was) != PSR_OK)
        return psr_fail(PSR_ERR_FORMAT, "%s/state.safetensors: its \"freeze\" is no list of layers",
                        resume->path);
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const char *name = layout->tensors[t].name;
        if (psr_config_freezes(&before, name) == layout->tensors[t].frozen)
            continue;
        return psr_fail(PSR_ERR_USAGE,
                        "--resume %s is of a run %s%.100s, and %s was %s there, so that the "
                        "optimizer's state is another; give the same --freeze, or --init for its "
                        "weights alone",
                        resume->path, was != NULL ? "with --freeze " : "without --freeze",
                        was != NULL ? was : "", name,
                        layout->tensors[t].frozen ? "trained" : "frozen");
    }
    return PSR_OK;
}

psr_err psr_resume_check(const psr_resume *resume, const psr_sections *sections)
{
    PSR_TRY(check_frozen(resume, &sections->net->params));
    return check_or_send(resume, sections, NULL);
}

psr_err psr_resume_send(const psr_resume *resume, const psr_sections *sections,
                        psr_transport *transport)
{
    return check_or_send(resume, sections, transport);
}
