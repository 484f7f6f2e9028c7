/* How a process finds its place in a run by what its launcher has put into the environment: one
 * typed struct, whichever the launcher is. Each way has a file of its own in this folder, which
 * reads its variables and fills the struct (comm/start/ways.h); which of several sources counts is
 * decided here, and comm/start/meeting.h says where the processes find their scheduler. No state.
 * Any thread, while nobody changes the environment. */
#ifndef PSR_COMM_START_H
#define PSR_COMM_START_H

#include "comm/view.h"

#include <stdbool.h>

#define PSR_START_UNTOLD UINT32_MAX /* of counts and numbers: nobody said so */
#define PSR_START_RANKS_MAX 65536
#define PSR_START_LINE_MAX 512

/* From the outside to the inside: what one level starts may start the next one's ranks. */
typedef enum psr_start_level {
    PSR_START_MANAGER, /* a resource manager: Slurm, Kubernetes */
    PSR_START_MPI,     /* a launcher of ranks on hosts: Open MPI, MPICH */
    PSR_START_RANKS,   /* what a framework's launcher, or a script, says of each rank */
    PSR_START_OWN,     /* PSRING_RANK */
} psr_start_level;

typedef struct psr_start {
    /* Which way it is */
    const char *way; /* "torchrun"; static, as the names of variables */
    psr_start_level level;
    bool by_launcher;                           /* a launcher has set it: another level's
                                                   variables are of what started the
                                                   launcher. false: perhaps a script */
    const char *mpi;                            /* the library whose launcher it is: "Open MPI",
                                                   or "MPICH" and its kin; NULL: of none */
    const char *rank_variable, *ranks_variable; /* that said so; rank_variable
                                                   may be one of a role */

    /* Who this process is */
    psr_role role;
    uint32_t rank;                                 /* of its role; PSR_RANK_ANY:
                                                      the scheduler gives one */
    uint32_t ranks;                                /* workers of the run; for a program
                                                      on libpsring all of its ranks */
    uint32_t local_rank, local_ranks, node, nodes; /* or PSR_START_UNTOLD */
    uint32_t shards;                               /* processes that are started as shards;
                                                      PSR_START_UNTOLD: none is, options say */
    const char *shards_variable;                   /* that said so; NULL: none did */
    /* Of ranks, how many at the end are in the last of several components (Slurm's heterogeneous
     * steps): the shards of a run that has any. 0: there is one component */
    uint32_t last_component;

    /* Where the scheduler is, and who starts it */
    char scheduler[PSR_ENDPOINT_MAX]; /* told: HOST:PORT or a socket's path;
                                         "": comm/start/meeting.h finds it */
    char address[PSR_HOST_MAX];       /* of the host that it is on; "": not told */
    uint16_t port;                    /* that it listens on there, over TCP; 0: not told */
    bool port_is_told;                /* by the user, not by what follows from the job */
    const char *address_variable;     /* NULL: there is none */
    bool starts_scheduler;            /* this process does */
    uint32_t attempt;                 /* how often the launcher has started the run's
                                         processes before, where it does so by itself */
    char job[256];                    /* what this run alone has, the same in all of its
                                         processes: text of the launcher's. "": nothing */
    char job_here[160];               /* what it has beside that on this host, the
                                         same in its processes here. "": nothing */
    char meeting[PSR_START_LINE_MAX]; /* the file by which its hosts meet
                                         (comm/start/meeting_file.h); "": none */

    /* Of every way: PSRING_SCHEDULER in scheduler's place, PSRING_KEY_FILE, PSRING_HOST,
     * PSRING_INTERFACE, PSRING_DEADLINE_MS, PSRING_MEETING, PSRING_TRANSPORT, PSRING_SHARING, and
     * PSRING_PORT in port's place. "" and 0: not set */
    char key_file[PSR_START_LINE_MAX];
    char meeting_folder[PSR_START_LINE_MAX]; /* that all hosts of the run see */
    char host[PSR_HOST_MAX], interface[PSR_HOST_MAX];
    char tcp_interface[PSR_HOST_MAX]; /* the launcher's, which counts over
                                         TCP alone, where no other is said */
    int64_t deadline_ms;
    char transport[8], sharing[PSR_START_LINE_MAX]; /* as psring_options */
} psr_start;

/* The place that the environment gives. NOT_FOUND: none. USAGE: a variable is not what it should
 * be, one is missing beside another, or two sources contradict each other; the line names them. */
PSR_MUST_CHECK psr_err psr_start_read(psr_start *ret_start);
/* Of a program on libpsring that no launcher has started (psr_start_read: NOT_FOUND): rank 0 of 1.
 * NOT_FOUND: a variable is of others. USAGE. */
PSR_MUST_CHECK psr_err psr_start_alone(psr_start *ret_start);

/* DATA_PATH, where MindSpore's programs look for what they read, whichever way they are started
 * (mpirun, a loop, roles). "": it is not set. USAGE: it is no printable line of at most
 * PSR_START_LINE_MAX bytes. */
PSR_MUST_CHECK psr_err psr_start_input(char ret_path[PSR_START_LINE_MAX]);

/* What a command line says of a place, as PyTorch's programs take it. Text is borrowed for the
 * call; NULL: not given. */
typedef struct psr_start_options {
    uint32_t rank, ranks, local_rank; /* PSR_START_UNTOLD where it is not given; ranks is */
    const char *address, *port;       /* --addr, --port */
    const char *url;                  /* --dist-url: env://, where MASTER_ADDR and MASTER_PORT
                                         count for what is not given, or tcp://HOST:PORT */
} psr_start_options;

/* The place that options give, beside RANK or LOCAL_RANK where they do not say which rank it is.
 * USAGE: they are not what they should be, or contradict the environment. */
PSR_MUST_CHECK psr_err psr_start_from_options(const psr_start_options *options,
                                              psr_start *ret_start);

/* The place of one of a node's processes that a loop has started, each with its LOCAL_RANK and the
 * options that would start a process for each rank of the node (--multiprocessing-distributed,
 * where rank and ranks count nodes): it is that rank, and starts nobody. ranks: 1 where it is not
 * given. local_ranks: of the node, as options say; PSR_START_UNTOLD: LOCAL_WORLD_SIZE or WORLD_SIZE
 * does. NOT_FOUND: it is the only process of its node, which is to start the others. USAGE: as
 * above; nobody says how many there are. */
PSR_MUST_CHECK psr_err psr_start_of_node(const psr_start_options *options, uint32_t local_ranks,
                                         psr_start *ret_start);

/* The host and port at which such a run's ranks meet, which MASTER_ADDR and MASTER_PORT would say:
 * by options, then by the environment, then 127.0.0.1 and 29500, PyTorch's. USAGE. */
typedef struct psr_start_master {
    char address[PSR_HOST_MAX];
    uint16_t port;
} psr_start_master;
PSR_MUST_CHECK psr_err psr_start_master_of(const psr_start_options *options,
                                           psr_start_master *ret_master);

/* "rank 3 of 8 from RANK and WORLD_SIZE (torchrun)". */
void psr_start_describe(const psr_start *start, char *line, size_t size);

/* Whether all processes of the run are on this host, as far as is known: its ranks are as many as
 * are local, it has one node, or the scheduler's address is one that only this host reaches. */
bool psr_start_is_on_one_host(const psr_start *start);

#endif
