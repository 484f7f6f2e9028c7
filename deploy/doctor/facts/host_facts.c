#include "deploy/doctor/facts/host_facts.h"

#include "base/text/json_fields.h"

#include <stddef.h>

typedef struct field {
    const char *name;
    size_t offset, text_size; /* text_size 0: a count */
} field;

#define TEXT(name)                                                                                 \
    {                                                                                              \
#name, offsetof(psr_host_facts, name), sizeof(((psr_host_facts *)NULL)->name)              \
    }
#define COUNT(name)                                                                                \
    {                                                                                              \
#name, offsetof(psr_host_facts, name), 0                                                   \
    }

static const field fields[] = {
    TEXT(hostname),           TEXT(own_address),
    TEXT(interface),          TEXT(address),
    COUNT(mtu_bytes),         TEXT(endpoint),
    TEXT(listen_failure),     TEXT(congestion),
    TEXT(identity),           TEXT(library),
    TEXT(worker_failure),     TEXT(path_program),
    TEXT(path_version),       TEXT(data),
    TEXT(data_failure),       COUNT(fixed_bytes),
    COUNT(sample_bytes),      TEXT(model_failure),
    TEXT(processor),          COUNT(cores),
    COUNT(cores_allowed),     COUNT(cpu_limit_milli),
    COUNT(l1_bytes),          COUNT(l2_bytes),
    COUNT(l3_bytes),          COUNT(memory_bytes),
    COUNT(memory_free_bytes), COUNT(files_max),
    COUNT(locked_bytes_max),  TEXT(huge_pages),
    COUNT(shm_free_bytes),    COUNT(seccomp),
    TEXT(sharing_failure),    TEXT(sockets_failure),
    TEXT(data_content),       TEXT(congestion_allowed),
    TEXT(cuda_devices),       TEXT(cuda_libraries),
    TEXT(cuda_missing),       COUNT(data_bytes),
};

#define FIELDS (sizeof fields / sizeof *fields)

psr_err psr_host_facts_to_object(const psr_host_facts *facts, cJSON **ret_object)
{
    psr_fields_writer w = psr_fields_begin();
    for (size_t i = 0; i < FIELDS; i++) {
        const void *value = (const char *)facts + fields[i].offset;
        if (fields[i].text_size > 0)
            psr_fields_put_text(&w, fields[i].name, value);
        else
            psr_fields_put_number(&w, fields[i].name, *(const uint64_t *)value);
    }
    if (w.failed) {
        cJSON_Delete(w.object);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a host's facts");
    }
    *ret_object = w.object;
    return PSR_OK;
}

psr_err psr_host_facts_from_object(const cJSON *object, psr_host_facts *ret_facts)
{
    psr_host_facts facts = {0};
    for (size_t i = 0; i < FIELDS; i++) {
        void *value = (char *)&facts + fields[i].offset;
        if (fields[i].text_size > 0)
            PSR_TRY(psr_fields_text(object, fields[i].name, value, fields[i].text_size));
        else
            PSR_TRY(psr_fields_number(object, fields[i].name, PSR_FACT_UNLIMITED, value));
    }
    *ret_facts = facts;
    return PSR_OK;
}
