/* Each direction has one table for all kinds of line: the fields of every kind, in the order in
 * which they are written. */
#include "comm/launcher_line.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX 999999999999999.0 /* cJSON prints every digit of numbers up to this one */
#define FIELDS_MAX 5

typedef enum field_type {
    FIELD_TEXT,
    FIELD_BOOL,
    FIELD_ROLE,
    FIELD_LEVEL,
    FIELD_LOG_KIND,
    FIELD_STATUS,  /* int, 0 to 255 */
    FIELD_COUNT32, /* uint32_t */
    FIELD_COUNT64, /* uint64_t, up to COUNT_MAX */
    FIELD_NUMBER,  /* double; left out if it is not finite */
    FIELD_OBJECT,  /* cJSON *; left out if it is NULL */
} field_type;

typedef struct field {
    const char *name;
    field_type type;
    size_t at, size; /* in the struct */
    bool may_lack;   /* a missing text is "" */
} field;

typedef struct shape {
    const char *kind;
    field fields[FIELDS_MAX];
} shape;

#define AT(type, member) offsetof(type, member), sizeof(((type *)NULL)->member)
#define OF_ORDER(member) AT(psr_order, member)
#define OF_EVENT(member) AT(psr_run_event, member)

#define ORDER_PEER                                                                                 \
    {"role", FIELD_ROLE, OF_ORDER(peer.role), false},                                              \
    {                                                                                              \
        "rank", FIELD_COUNT32, OF_ORDER(peer.rank), false                                          \
    }
static const shape order_shapes[] = {
    [PSR_ORDER_LOST] = {"lost",
                        {ORDER_PEER,
                         {"host", FIELD_TEXT, OF_ORDER(host), true},
                         {"by_itself", FIELD_BOOL, OF_ORDER(by_itself), false},
                         {"how", FIELD_TEXT, OF_ORDER(how), false}}},
    [PSR_ORDER_LEFT] = {"left", {ORDER_PEER, {"host", FIELD_TEXT, OF_ORDER(host), true}}},
    [PSR_ORDER_AGENT] = {"agent",
                         {{"host", FIELD_TEXT, OF_ORDER(host), false},
                          {"how", FIELD_TEXT, OF_ORDER(how), false}}},
    [PSR_ORDER_LINKS] = {"links",
                         {{"bits_per_s", FIELD_COUNT64, OF_ORDER(bits_per_s), false},
                          {"host", FIELD_TEXT, OF_ORDER(host), false},
                          {"to", FIELD_TEXT, OF_ORDER(to), false}}},
    [PSR_ORDER_LOG] = {"log", {ORDER_PEER, {"line", FIELD_TEXT, OF_ORDER(line), false}}},
    [PSR_ORDER_CLOSED] = {"closed", {{0}}},
    [PSR_ORDER_STOP] = {"stop", {{0}}},
    [PSR_ORDER_PAUSE] = {"pause", {{0}}},
    [PSR_ORDER_GO_ON] = {"go_on", {{0}}},
    [PSR_ORDER_ALIVE] = {"alive", {{0}}},
};

static const shape event_shapes[] = {
    [PSR_RUN_LISTENING] = {"listening", {{"endpoint", FIELD_TEXT, OF_EVENT(endpoint), false}}},
    [PSR_RUN_JOINED] = {"joined",
                        {{"role", FIELD_ROLE, OF_EVENT(joined.peer.role), false},
                         {"rank", FIELD_COUNT32, OF_EVENT(joined.peer.rank), false},
                         {"host", FIELD_TEXT, OF_EVENT(joined.host), false},
                         {"count", FIELD_COUNT32, OF_EVENT(joined.count), false},
                         {"total", FIELD_COUNT32, OF_EVENT(joined.total), false}}},
    [PSR_RUN_DIRECTORY] = {"directory",
                           {{"out", FIELD_TEXT, OF_EVENT(directory.out), false},
                            {"resumed", FIELD_TEXT, OF_EVENT(directory.resumed), true}}},
    [PSR_RUN_RUNNING] = {"running", {{0}}},
    [PSR_RUN_PROGRESS] = {"progress",
                          {{"step", FIELD_COUNT64, OF_EVENT(progress.step), false},
                           {"total", FIELD_COUNT64, OF_EVENT(progress.total), false},
                           {"loss", FIELD_NUMBER, OF_EVENT(progress.loss), true},
                           {"images_per_s", FIELD_NUMBER, OF_EVENT(progress.images_per_s), true}}},
    [PSR_RUN_EVALUATING] = {"evaluating",
                            {{"step", FIELD_COUNT64, OF_EVENT(evaluating.step), false},
                             {"total", FIELD_COUNT64, OF_EVENT(evaluating.total), false},
                             {"counted", FIELD_COUNT64, OF_EVENT(evaluating.counted), false},
                             {"samples", FIELD_COUNT64, OF_EVENT(evaluating.samples), false}}},
    [PSR_RUN_EVALUATED] = {"evaluated", {{"line", FIELD_TEXT, OF_EVENT(evaluated), false}}},
    [PSR_RUN_SAY] = {"say",
                     {{"level", FIELD_LEVEL, OF_EVENT(say.level), false},
                      {"kind", FIELD_LOG_KIND, OF_EVENT(say.kind), false},
                      {"line", FIELD_TEXT, OF_EVENT(say.line), false}}},
    [PSR_RUN_ALIVE] = {"alive", {{0}}},
    [PSR_RUN_PAUSED] = {"paused", {{0}}},
    [PSR_RUN_ENDED] = {"ended",
                       {{"status", FIELD_STATUS, OF_EVENT(ended.status), false},
                        {"line", FIELD_TEXT, OF_EVENT(ended.line), false},
                        {"outcome", FIELD_OBJECT, OF_EVENT(ended.outcome), true}}},
};

/* ---- words for enumerators ---- */

static const char *role_name(unsigned value)
{
    return psr_role_name((psr_role)value);
}

static const char *level_name(unsigned value)
{
    return psr_log_level_name((psr_log_level)value);
}

static const char *log_kind_name(unsigned value)
{
    return psr_log_kind_name((psr_log_kind)value);
}

typedef struct words {
    const char *(*name)(unsigned value);
    unsigned count;
} words;

static words words_of(field_type type)
{
    switch (type) {
    case FIELD_ROLE:
        return (words){role_name, PSR_ROLE_WORKER + 1};
    case FIELD_LEVEL:
        return (words){level_name, PSR_LOG_DEBUG + 1};
    case FIELD_LOG_KIND:
        return (words){log_kind_name, PSR_LOG_OF_STRANGER + 1};
    default:
        return (words){NULL, 0};
    }
}

/* None of the three has a negative enumerator. */
_Static_assert(sizeof(psr_role) == sizeof(unsigned) && sizeof(psr_log_level) == sizeof(unsigned) &&
                   sizeof(psr_log_kind) == sizeof(unsigned),
               "an enumeration is as wide as unsigned");

/* ---- encoding ---- */

static bool put_number(cJSON *object, const char *name, double value)
{
    return !isfinite(value) || cJSON_AddNumberToObject(object, name, value) != NULL;
}

static bool put_object(cJSON *object, const char *name, cJSON *value)
{
    return value == NULL || cJSON_AddItemReferenceToObject(object, name, value);
}

/* from: the field in its struct. false: no memory. */
static bool put_field(cJSON *object, const field *f, const void *from)
{
    unsigned word;
    switch (f->type) {
    case FIELD_TEXT:
        return (f->may_lack && *(const char *)from == '\0') ||
               cJSON_AddStringToObject(object, f->name, from) != NULL;
    case FIELD_BOOL:
        return cJSON_AddBoolToObject(object, f->name, *(const bool *)from) != NULL;
    case FIELD_ROLE:
    case FIELD_LEVEL:
    case FIELD_LOG_KIND:
        memcpy(&word, from, sizeof word);
        return cJSON_AddStringToObject(object, f->name, words_of(f->type).name(word)) != NULL;
    case FIELD_STATUS:
        return put_number(object, f->name, *(const int *)from);
    case FIELD_COUNT32:
        return put_number(object, f->name, *(const uint32_t *)from);
    case FIELD_COUNT64:
        return put_number(object, f->name, (double)*(const uint64_t *)from);
    case FIELD_NUMBER:
        return put_number(object, f->name, *(const double *)from);
    case FIELD_OBJECT:
        return put_object(object, f->name, *(cJSON *const *)from);
    }
    return false;
}

/* what: "order" or "event"; value: the struct that has the shape's fields. */
static psr_err encode(const char *what, const shape *s, const void *value, char **ret_text)
{
    cJSON *object = cJSON_CreateObject();
    bool whole = cJSON_AddStringToObject(object, what, s->kind) != NULL;
    for (const field *f = s->fields; f < s->fields + FIELDS_MAX && f->name != NULL && whole; f++)
        whole = put_field(object, f, (const char *)value + f->at);
    /* allocated by malloc, so free() is right */
    char *text = whole ? cJSON_PrintUnformatted(object) : NULL;
    cJSON_Delete(object);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a line between launcher and scheduler");
    *ret_text = text;
    return PSR_OK;
}

/* ---- decoding ---- */

static psr_err get_text(const cJSON *item, const field *f, char *to)
{
    if (!cJSON_IsString(item))
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is no text", f->name);
    size_t bytes = strlen(item->valuestring);
    if (bytes >= f->size)
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is longer than %zu bytes", f->name,
                        f->size - 1);
    memcpy(to, item->valuestring, bytes + 1);
    return PSR_OK;
}

static psr_err get_word(const cJSON *item, const field *f, void *to)
{
    const char *text = cJSON_GetStringValue(item);
    words known = words_of(f->type);
    for (unsigned i = 0; text != NULL && i < known.count; i++)
        if (strcmp(text, known.name(i)) == 0) {
            memcpy(to, &i, sizeof i);
            return PSR_OK;
        }
    return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is none of the words that are known", f->name);
}

static psr_err get_count(const cJSON *item, const field *f, double max, uint64_t *ret_count)
{
    double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(value >= 0 && value <= max) || value != (double)(uint64_t)value)
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is no count of at most %.0f", f->name, max);
    *ret_count = (uint64_t)value;
    return PSR_OK;
}

static psr_err get_number(const cJSON *item, const field *f, double *ret_number)
{
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble))
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is no number", f->name);
    *ret_number = item->valuedouble;
    return PSR_OK;
}

/* The value of an optional field that is missing. The struct was zero. */
static void lack(const field *f, void *to)
{
    if (f->type == FIELD_NUMBER)
        *(double *)to = NAN;
}

static psr_err get_field(cJSON *object, const field *f, void *to)
{
    uint64_t count = 0;
    cJSON *item = cJSON_GetObjectItemCaseSensitive(object, f->name);
    if (item == NULL && f->may_lack) {
        lack(f, to);
        return PSR_OK;
    }
    if (item == NULL)
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is missing", f->name);
    switch (f->type) {
    case FIELD_TEXT:
        return get_text(item, f, to);
    case FIELD_BOOL:
        if (!cJSON_IsBool(item))
            return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is neither true nor false", f->name);
        *(bool *)to = cJSON_IsTrue(item);
        return PSR_OK;
    case FIELD_ROLE:
    case FIELD_LEVEL:
    case FIELD_LOG_KIND:
        return get_word(item, f, to);
    case FIELD_STATUS:
        PSR_TRY(get_count(item, f, UINT8_MAX, &count));
        *(int *)to = (int)count;
        return PSR_OK;
    case FIELD_COUNT32:
        PSR_TRY(get_count(item, f, UINT32_MAX, &count));
        *(uint32_t *)to = (uint32_t)count;
        return PSR_OK;
    case FIELD_COUNT64:
        return get_count(item, f, COUNT_MAX, to);
    case FIELD_NUMBER:
        return get_number(item, f, to);
    case FIELD_OBJECT:
        if (!cJSON_IsObject(item))
            return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is no object", f->name);
        *(cJSON **)to = cJSON_DetachItemViaPointer(object, item);
        return PSR_OK;
    }
    return PSR_OK;
}

/* The first shape whose kind the object names. */
static psr_err find_shape(const cJSON *object, const char *what, const shape *shapes, size_t count,
                          size_t *ret_kind)
{
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, what));
    if (kind == NULL)
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is missing or no text", what);
    for (size_t i = 0; i < count; i++)
        if (strcmp(kind, shapes[i].kind) == 0) {
            *ret_kind = i;
            return PSR_OK;
        }
    return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is '%.64s', which is none that is known", what,
                    kind);
}

/* value: zero before. */
static psr_err decode(cJSON *object, const char *what, const shape *shapes, size_t count,
                      void *value, size_t *ret_kind)
{
    size_t kind = 0;
    PSR_TRY(find_shape(object, what, shapes, count, &kind));
    for (const field *f = shapes[kind].fields;
         f < shapes[kind].fields + FIELDS_MAX && f->name != NULL; f++)
        PSR_TRY(get_field(object, f, (char *)value + f->at));
    *ret_kind = kind;
    return PSR_OK;
}

/* ---- the two ---- */

psr_err psr_order_encode(const psr_order *order, char **ret_text)
{
    return encode("order", &order_shapes[order->kind], order, ret_text);
}

psr_err psr_order_decode(const char *text, psr_order *ret_order)
{
    psr_order order = {0};
    size_t kind = 0;
    cJSON *object = cJSON_ParseWithOpts(text, NULL, true);
    psr_err err = decode(object, "order", order_shapes, sizeof order_shapes / sizeof *order_shapes,
                         &order, &kind);
    cJSON_Delete(object);
    PSR_TRY(err);
    order.kind = (psr_order_kind)kind;
    *ret_order = order;
    return PSR_OK;
}

psr_err psr_run_event_encode(const psr_run_event *event, char **ret_text)
{
    return encode("event", &event_shapes[event->kind], event, ret_text);
}

psr_err psr_run_event_decode(const char *text, psr_run_event *ret_event)
{
    psr_run_event event;
    size_t kind = 0;
    memset(&event, 0, sizeof event); /* the whole union */
    cJSON *object = cJSON_ParseWithOpts(text, NULL, true);
    psr_err err = decode(object, "event", event_shapes, sizeof event_shapes / sizeof *event_shapes,
                         &event, &kind);
    cJSON_Delete(object);
    PSR_TRY(err); /* only the outcome is owned, and it is the last field that can fail */
    event.kind = (psr_run_event_kind)kind;
    *ret_event = event;
    return PSR_OK;
}

void psr_run_event_done(psr_run_event *event)
{
    if (event->kind == PSR_RUN_ENDED)
        cJSON_Delete(event->ended.outcome);
    memset(event, 0, sizeof *event);
}
