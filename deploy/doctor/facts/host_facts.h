/* What a probe found on its own host, as it is sent to the launcher: one flat JSON object. A field
 * is a text or a count. One table has a line for each field, by which facts are written, read (the
 * bytes may be hostile) and shown in --json. Plain data; any thread. */
#ifndef PSR_DEPLOY_DOCTOR_FACTS_HOST_FACTS_H
#define PSR_DEPLOY_DOCTOR_FACTS_HOST_FACTS_H

#include "base/content.h"
#include "base/err.h"

#include <cjson/cJSON.h>
#include <stdint.h>

/* No limit. */
#define PSR_FACT_UNLIMITED ((uint64_t)1 << 48)

typedef struct psr_host_facts {
    /* names and network */
    char hostname[256];
    char own_address[64]; /* the address of the host's own name there; "": none */
    /* the interface and address that its processes listen on, and the most bytes of a packet; "",
     * 0: not known */
    char interface[32];
    char address[64];
    uint64_t mtu_bytes;
    char endpoint[192]; /* of the probe's inbox; "": it cannot listen; listen_failure says why */
    char listen_failure[512];
    char congestion[32];          /* its congestion control of TCP */
    char congestion_allowed[128]; /* "reno cubic": what programs there may choose instead */
    /* programs */
    char identity[128]; /* psr_backend_identity of the worker */
    char library[32];   /* "libzmq 4.3.4" */
    /* CUDA there, as psring-worker-cuda finds it (model/cuda/linked.h) */
    char cuda_devices[256], cuda_libraries[128], cuda_missing[512];
    char worker_failure[512]; /* why psring-worker does not run there; "": it does */
    char path_program[256], path_version[64]; /* another psring that the shell
                                                 would find; "": none */
    /* data: both "" if no data set was asked about */
    char data[256], data_failure[512];
    /* the hash of its samples; "": its files were not read to their end */
    char data_content[PSR_CONTENT_TEXT_BYTES];
    /* a worker's memory for the network in question (model/networks/network_memory.h); 0: not
     * known */
    uint64_t fixed_bytes, sample_bytes;
    uint64_t data_bytes; /* of data in memory, once for all workers of the host */
    /* why there is no such network for the data; "": there is, or none was asked about */
    char model_failure[512];
    /* processor and memory */
    char processor[128];
    uint64_t cores, cores_allowed; /* online; those that this process may use */
    /* thousandths of a core that its control group allows; PSR_FACT_UNLIMITED */
    uint64_t cpu_limit_milli;
    /* caches: data of one core, second of one core, last; 0: not known */
    uint64_t l1_bytes, l2_bytes, l3_bytes;
    uint64_t memory_bytes, memory_free_bytes; /* within the control group's limit */
    /* limits */
    uint64_t files_max;        /* the limit of descriptors to which a process may raise its own */
    uint64_t locked_bytes_max; /* bytes of memory that it may lock */
    char huge_pages[16];       /* "always", "madvise", "never"; "": not in this kernel */
    uint64_t shm_free_bytes;   /* of /dev/shm; 0: it does not exist */
    uint64_t seccomp;          /* 0: there is no filter of system calls */
    char sharing_failure[256]; /* why processes there cannot share memory; "": they can */
    char sockets_failure[256]; /* why no directory for ipc sockets can be made; "": it can */
} psr_host_facts;

/* The caller owns *ret_object: cJSON_Delete. NOMEM. */
PSR_MUST_CHECK psr_err psr_host_facts_to_object(const psr_host_facts *facts, cJSON **ret_object);
/* FORMAT, naming the field. */
PSR_MUST_CHECK psr_err psr_host_facts_from_object(const cJSON *object, psr_host_facts *ret_facts);

#endif
