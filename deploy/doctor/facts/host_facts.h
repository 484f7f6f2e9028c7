/* What a probe found on its own host, and how it tells the launcher: one flat JSON object. A field
 * is a text or a count, and each has its line in one table, by which facts are written, read
 * (hostile bytes allowed) and shown in --json. Plain data; any thread. */
#ifndef PSR_DEPLOY_DOCTOR_FACTS_HOST_FACTS_H
#define PSR_DEPLOY_DOCTOR_FACTS_HOST_FACTS_H

#include "base/content.h"
#include "base/err.h"

#include <cjson/cJSON.h>
#include <stdint.h>

/* A limit that is none. */
#define PSR_FACT_UNLIMITED ((uint64_t)1 << 48)

typedef struct psr_host_facts {
    /* names and network */
    char hostname[256];
    char own_address[64]; /* what the host's own name is looked up as there; "": nothing */
    char interface[32];   /* that its processes listen on, the address, and
                             the most bytes of a packet; "", 0: not known */
    char address[64];
    uint64_t mtu_bytes;
    char endpoint[192]; /* of the probe's inbox; "": it cannot listen, and why */
    char listen_failure[512];
    char congestion[32]; /* TCP's control of it */
    /* programs */
    char identity[128];                       /* psr_backend_identity of the worker */
    char library[32];                         /* "libzmq 4.3.4" */
    char worker_failure[512];                 /* why psring-worker does not
                                                 run there; "": it does */
    char path_program[256], path_version[64]; /* another psring that the shell
                                                 would find; "": none */
    /* data: both "" where none was asked for */
    char data[256], data_failure[512];
    char data_content[PSR_CONTENT_TEXT_BYTES]; /* what its samples are; "": its files
                                                  were not read to their end */
    /* memory of a worker for the network that was asked about (model/networks/network_memory.h); 0:
     * not known */
    uint64_t fixed_bytes, sample_bytes;
    char model_failure[512]; /* why there is no such network for the data;
                                "": there is, or none was asked about */
    /* processor and memory */
    char processor[128];
    uint64_t cores, cores_allowed;            /* online; of them this process may use */
    uint64_t cpu_limit_milli;                 /* thousandths of a core that its control
                                                 group gets; PSR_FACT_UNLIMITED */
    uint64_t l1_bytes, l2_bytes, l3_bytes;    /* caches: data of one core, one core's
                                                 second, the last; 0: not known */
    uint64_t memory_bytes, memory_free_bytes; /* the control group's limit counts */
    /* limits */
    uint64_t files_max;        /* descriptors of a process, which it may raise its limit to */
    uint64_t locked_bytes_max; /* memory that it may lock */
    char huge_pages[16];       /* "always", "madvise", "never"; "": this kernel has none */
    uint64_t shm_free_bytes;   /* of /dev/shm; 0: it is missing */
    uint64_t seccomp;          /* 0: no filter of system calls */
    char sharing_failure[256]; /* why processes there cannot share memory; "": they can */
    char sockets_failure[256]; /* why a directory for ipc sockets cannot be made; "": it can */
} psr_host_facts;

/* ret owns: cJSON_Delete. NOMEM. */
PSR_MUST_CHECK psr_err psr_host_facts_to_object(const psr_host_facts *facts, cJSON **ret_object);
/* FORMAT, naming the field. */
PSR_MUST_CHECK psr_err psr_host_facts_from_object(const cJSON *object, psr_host_facts *ret_facts);

#endif
