#include "comm/members/memory/memory_place.h"

#include "base/text/json_fields.h"

#include <string.h>

psr_err psr_memory_place_of(const char *socket, psr_memory_place *ret_place)
{
    psr_memory_place place = {.machine = ""};
    if (strlen(socket) >= sizeof place.socket)
        return psr_fail(PSR_ERR_UNSUPPORTED, "the path %s is too long for a socket", socket);
    if (socket[0] != '\0')
        psr_machine_id(place.machine);
    strcpy(place.socket, socket);
    *ret_place = place;
    return PSR_OK;
}

/* The length of the socket's directory in bytes; 0: there is no socket. */
static size_t directory_bytes(const psr_memory_place *place)
{
    const char *slash = strrchr(place->socket, '/');
    return slash != NULL ? (size_t)(slash - place->socket) : 0;
}

bool psr_memory_place_is_shared(const psr_memory_place *place, const psr_memory_place *other)
{
    size_t bytes = directory_bytes(place);
    return bytes > 0 && directory_bytes(other) == bytes &&
           memcmp(place->socket, other->socket, bytes) == 0 &&
           strcmp(place->machine, other->machine) == 0;
}

cJSON *psr_memory_place_to_object(const psr_memory_place *place)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_text(&w, "machine", place->machine);
    psr_fields_put_text(&w, "socket", place->socket);
    if (w.failed) {
        cJSON_Delete(w.object);
        return NULL;
    }
    return w.object;
}

static psr_err read_place(const cJSON *object, psr_memory_place *place)
{
    PSR_TRY(psr_fields_text(object, "machine", place->machine, sizeof place->machine));
    return psr_fields_text(object, "socket", place->socket, sizeof place->socket);
}

psr_err psr_memory_place_from_object(const cJSON *object, psr_memory_place *ret_place)
{
    psr_memory_place place = {.machine = ""};
    psr_err err = object != NULL ? read_place(object, &place) : PSR_OK;
    if (err != PSR_OK)
        return psr_fail_context(err, "field \"memory\"");
    *ret_place = place;
    return PSR_OK;
}
