/* How a process finds its place in a run: its launcher has put it into the environment, and this
 * reads it into one typed struct, whichever the launcher is. Each launcher has a file of its own in
 * this folder, which reads its variables and fills the struct (comm/start/ways/ways.h). This file
 * decides which of several sources counts; comm/start/meeting.h says where the processes find their
 * scheduler. No state. Any thread, as long as nobody changes the environment. */
#ifndef PSR_COMM_START_H
#define PSR_COMM_START_H

#include "comm/view/view.h"

#include <stdbool.h>

#define PSR_START_UNTOLD UINT32_MAX /* a count or number that is not given */
#define PSR_START_RANKS_MAX 65536
#define PSR_START_LINE_MAX 512

/* From the outermost level to the innermost: a process of one level may start the ranks of the
 * next. */
typedef enum psr_start_level {
    PSR_START_MANAGER, /* a resource manager: Slurm, Kubernetes */
    PSR_START_MPI,     /* a launcher of ranks on hosts: Open MPI, MPICH */
    PSR_START_RANKS,   /* a framework's launcher, or a script, that gives each rank its number */
    PSR_START_OWN,     /* PSRING_RANK */
} psr_start_level;

typedef struct psr_start {
    /* Which launcher it is */
    const char *way; /* "torchrun"; static text, as the names of variables */
    psr_start_level level;
    /* Its variables were set by a launcher, and variables of other levels belong to what started
     * that launcher. false: perhaps by a script */
    bool by_launcher;
    /* the MPI library of the launcher: "Open MPI", or "MPICH" and its relatives; NULL: none */
    const char *mpi;
    /* the variables that gave rank and ranks; rank_variable may be one of a role */
    const char *rank_variable, *ranks_variable;

    /* Who this process is */
    psr_role role;
    uint32_t rank; /* among processes of its role; PSR_RANK_ANY: the scheduler gives one */
    /* number of workers of the run; for a program on libpsring that of all its ranks */
    uint32_t ranks;
    uint32_t local_rank, local_ranks, node, nodes; /* or PSR_START_UNTOLD */
    /* number of processes that are started as shards; PSR_START_UNTOLD: none is, and options say */
    uint32_t shards;
    const char *shards_variable; /* the variable that gave it; NULL: none */
    /* How many of the last ranks are in the last of several components (Slurm's heterogeneous
     * steps): the shards of a run that has any. 0: there is one component */
    uint32_t last_component;

    /* Where the scheduler is, and who starts it */
    /* as given: HOST:PORT or a socket's path; "": comm/start/meeting.h finds it */
    char scheduler[PSR_ENDPOINT_MAX];
    char address[PSR_HOST_MAX];   /* address of the scheduler's host; "": not given */
    uint16_t port;                /* the scheduler's TCP port there; 0: not given */
    bool port_is_told;            /* the user gave the port; otherwise it follows from the job */
    const char *address_variable; /* NULL: there is none */
    bool starts_scheduler;        /* this process starts the scheduler */
    uint32_t attempt; /* how often the launcher has already started the run's processes anew */
    /* text of the launcher that is the same in all processes of this run and in no other. "":
     * none */
    char job[256];
    char job_here[160];               /* the same for its processes on this host. "": none */
    char meeting[PSR_START_LINE_MAX]; /* the file by which its hosts meet
                                         (comm/start/meeting_file.h); "": none */

    /* For every launcher: from PSRING_SCHEDULER (then it is scheduler), PSRING_KEY_FILE,
     * PSRING_HOST, PSRING_INTERFACE, PSRING_DEADLINE_MS, PSRING_MEETING, PSRING_TRANSPORT,
     * PSRING_SHARING, and PSRING_PORT (then it is port). "" and 0: not set */
    char key_file[PSR_START_LINE_MAX];
    char meeting_folder[PSR_START_LINE_MAX]; /* a folder that all hosts of the run see */
    char host[PSR_HOST_MAX], interface[PSR_HOST_MAX];
    /* the launcher's, used over TCP only and if no other is given */
    char tcp_interface[PSR_HOST_MAX];
    int64_t deadline_ms;
    char transport[8], sharing[PSR_START_LINE_MAX]; /* see psring_options */
} psr_start;

/* The place that the environment gives. NOT_FOUND: none. USAGE: a variable has a wrong value, one
 * is missing, or two sources contradict each other; the line names them. */
PSR_MUST_CHECK psr_err psr_start_read(psr_start *ret_start);
/* For a program on libpsring that no launcher has started (psr_start_read: NOT_FOUND): rank 0 of 1.
 * NOT_FOUND: a variable speaks of other ranks. USAGE. */
PSR_MUST_CHECK psr_err psr_start_alone(psr_start *ret_start);

/* DATA_PATH, where MindSpore's programs look for their data, however they are started (mpirun, a
 * loop, roles). "": it is not set. USAGE: it is not a printable line of at most PSR_START_LINE_MAX
 * bytes. */
PSR_MUST_CHECK psr_err psr_start_input(char ret_path[PSR_START_LINE_MAX]);

/* A place as a command line gives it, in the way of PyTorch's programs. Text is borrowed for the
 * call; NULL: not given. */
typedef struct psr_start_options {
    uint32_t rank, ranks, local_rank; /* PSR_START_UNTOLD if not given; ranks must be given */
    const char *address, *port;       /* --addr, --port */
    /* --dist-url: tcp://HOST:PORT, or env://, where MASTER_ADDR and MASTER_PORT are used for what
     * is not given */
    const char *url;
} psr_start_options;

/* The place that options give, with RANK or LOCAL_RANK if they do not give the rank. USAGE: they
 * have wrong values, or contradict the environment. */
PSR_MUST_CHECK psr_err psr_start_from_options(const psr_start_options *options,
                                              psr_start *ret_start);

/* The place of a process that a loop has started on its node with a LOCAL_RANK, and with options
 * that would start a process for each rank of the node (--multiprocessing-distributed, where rank
 * and ranks count nodes): it is that rank, and starts no other. ranks: 1 if not given. local_ranks:
 * those of the node, by options; PSR_START_UNTOLD: by LOCAL_WORLD_SIZE or WORLD_SIZE. NOT_FOUND: it
 * is the only process of its node, and is to start the others. USAGE: as above, or their number is
 * not given. */
PSR_MUST_CHECK psr_err psr_start_of_node(const psr_start_options *options, uint32_t local_ranks,
                                         psr_start *ret_start);

/* The host and port at which the ranks of such a run meet: from options, else MASTER_ADDR and
 * MASTER_PORT, else PyTorch's 127.0.0.1 and 29500. USAGE. */
typedef struct psr_start_master {
    char address[PSR_HOST_MAX];
    uint16_t port;
} psr_start_master;
PSR_MUST_CHECK psr_err psr_start_master_of(const psr_start_options *options,
                                           psr_start_master *ret_master);

/* Writes for example "rank 3 of 8 from RANK and WORLD_SIZE (torchrun)". */
void psr_start_describe(const psr_start *start, char *line, size_t size);

/* Whether all processes of the run are on this host, as far as is known: all ranks are local, or
 * there is one node, or only this host reaches the scheduler's address. */
bool psr_start_is_on_one_host(const psr_start *start);

#endif
