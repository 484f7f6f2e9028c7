/* comm/start: what each launcher's variables come to, and which are refused. */
#include "tests/unit/expect.h"

#include "comm/start/start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* All that any way reads. */
static const char *const names[] = {
    "DMLC_ROLE",
    "DMLC_NUM_WORKER",
    "DMLC_NUM_SERVER",
    "DMLC_PS_ROOT_URI",
    "DMLC_PS_ROOT_PORT",
    "DMLC_INTERFACE",
    "MS_ROLE",
    "MS_WORKER_NUM",
    "MS_SERVER_NUM",
    "MS_SCHED_HOST",
    "MS_SCHED_PORT",
    "DATA_PATH",
    "PSRING_RANK",
    "PSRING_RANKS",
    "PSRING_SHARDS",
    "PSRING_LOCAL_RANK",
    "PSRING_LOCAL_SIZE",
    "PSRING_HOST_SCHEDULER",
    "PSRING_SCHEDULER",
    "PSRING_KEY_FILE",
    "PSRING_HOST",
    "PSRING_INTERFACE",
    "PSRING_DEADLINE_MS",
    "PSRING_TRANSPORT",
    "PSRING_SHARING",
    "PSRING_PORT",
    "PSRING_MEETING",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "TORCHELASTIC_RUN_ID",
    "MASTER_ADDR",
    "TORCHELASTIC_RESTART_COUNT",
    "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE",
    "PMIX_SERVER_URI2",
    "OMPI_MCA_orte_precondition_transports",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_FD",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_RESTART_COUNT",
    "SLURM_CLUSTER_NAME",
    "SLURM_HET_SIZE",
    "SLURM_JOB_NUM_NODES_HET_GROUP_0",
    "SLURM_JOB_NUM_NODES_HET_GROUP_1",
    "SLURM_STEP_TASKS_PER_NODE",
};

static int forget_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return 0;
}

/* "NAME=VALUE NAME=VALUE" and nothing else. */
static void surround(const char *assignments)
{
    char text[512], *rest = text;
    forget_all(NULL);
    assert_true(strlen(assignments) < sizeof text);
    strcpy(text, assignments);
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        char *value = strchr(word, '=');
        if (value == NULL)
            continue;
        *value = '\0';
        setenv(word, value + 1, 1);
    }
}

static psr_start place(const char *assignments)
{
    psr_start start;
    surround(assignments);
    expect_ok(psr_start_read(&start));
    return start;
}

static void assert_refused(const char *assignments, const char *detail)
{
    psr_start start, before;
    memset(&start, 7, sizeof start);
    before = start;
    surround(assignments);
    expect_failure(psr_start_read(&start), PSR_ERR_USAGE, detail);
    assert_memory_equal(&start, &before, sizeof start);
}

static void assert_described(const psr_start *start, const char *line)
{
    char text[PSR_START_LINE_MAX];
    psr_start_describe(start, text, sizeof text);
    assert_string_equal(text, line);
}

#define LOOP "WORLD_SIZE=8 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 "
#define TORCHRUN                                                                                   \
    "WORLD_SIZE=8 MASTER_ADDR=node1 MASTER_PORT=29500 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 "            \
    "GROUP_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=a TORCHELASTIC_RESTART_COUNT=0 RANK=5 LOCAL_RANK=1 "

static void without_variables_there_is_no_place(void **state)
{
    (void)state;
    psr_start start;
    surround("MASTER_ADDR=127.0.0.1 MASTER_PORT=1");
    assert_int_equal(psr_start_read(&start), PSR_ERR_NOT_FOUND);
}

static void psring_run_gives_a_place(void **state)
{
    (void)state;
    psr_start s = place(
        "PSRING_RANK=1 PSRING_RANKS=4 PSRING_SCHEDULER=/a/b PSRING_KEY_FILE=/k PSRING_SHARDS=1");
    assert_int_equal(s.rank, 1);
    assert_int_equal(s.ranks, 4);
    assert_int_equal(s.shards, 1);
    assert_false(s.starts_scheduler);
    assert_string_equal(s.scheduler, "/a/b");
    assert_string_equal(s.key_file, "/k");
    assert_described(&s, "rank 1 of 4 from PSRING_RANK and PSRING_RANKS (psring)");
    s = place("PSRING_RANKS=4");
    assert_true(s.rank == PSR_RANK_ANY && !s.starts_scheduler);
    s = place("PSRING_RANK=3 PSRING_RANKS=4 PSRING_LOCAL_RANK=1 PSRING_LOCAL_SIZE=2");
    assert_true(s.local_rank == 1 && s.local_ranks == 2);
    assert_true(place("PSRING_RANK=0 PSRING_RANKS=4").starts_scheduler);
    assert_false(place("PSRING_RANK=0 PSRING_RANKS=4 PSRING_HOST_SCHEDULER=0").starts_scheduler);
}

static void torchrun_gives_a_place(void **state)
{
    (void)state;
    psr_start s = place(TORCHRUN);
    assert_true(s.rank == 5 && s.ranks == 8 && s.local_rank == 1 && s.local_ranks == 4 &&
                s.node == 1 && s.nodes == 2);
    assert_true(s.role == PSR_ROLE_WORKER && !s.starts_scheduler && s.shards == PSR_START_UNTOLD);
    assert_string_equal(s.address, "node1");
    assert_int_equal(s.port, 30500); /* MASTER_PORT is torchrun's own */
    assert_false(psr_start_is_on_one_host(&s));
    assert_described(&s, "rank 5 of 8 from RANK and WORLD_SIZE (torchrun)");
    assert_int_equal(place("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=65000").port, 64000);
}

static void a_shell_loop_gives_rank_or_local_rank(void **state)
{
    (void)state;
    psr_start s = place(LOOP "RANK=0");
    assert_true(s.rank == 0 && s.ranks == 8 && s.starts_scheduler && psr_start_is_on_one_host(&s));
    s = place(LOOP "LOCAL_RANK=3");
    assert_true(s.rank == 3 && !s.starts_scheduler);
    assert_described(&s,
                     "rank 3 of 8 from LOCAL_RANK and WORLD_SIZE (torch.distributed's variables)");
    assert_int_equal(place("RANK=0 WORLD_SIZE=1").ranks, 1);
}

#define OPENMPI                                                                                    \
    "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=2 "                  \
    "OMPI_COMM_WORLD_LOCAL_SIZE=4 "
#define HYDRA "PMI_RANK=2 PMI_SIZE=4 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2 "
#define SRUN                                                                                       \
    "SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=8 SLURM_NTASKS=8 SLURM_LOCALID=1 SLURM_NODEID=1 "         \
    "SLURM_STEP_NUM_NODES=2 SLURM_JOB_ID=1234 SLURM_STEP_ID=3 SLURM_RESTART_COUNT=1 "              \
    "SLURM_CLUSTER_NAME=c "

static void open_mpi_gives_a_place(void **state)
{
    (void)state;
    psr_start s = place(OPENMPI "PMIX_NAMESPACE=77 PMIX_SERVER_URI2=76.0;tcp4://127.0.0.1:5 "
                                "OMPI_MCA_orte_precondition_transports=a-b");
    assert_true(s.rank == 2 && s.ranks == 4 && s.local_rank == 2 && s.local_ranks == 4);
    assert_true(!s.starts_scheduler && psr_start_is_on_one_host(&s));
    assert_string_equal(s.job, "openmpi 77 a-b"); /* on all hosts of the job */
    assert_string_equal(s.job_here, "76.0;tcp4://127.0.0.1:5");
    assert_described(
        &s, "rank 2 of 4 from OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE (Open MPI's mpirun)");
    s = place("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2");
    assert_true(s.starts_scheduler && !psr_start_is_on_one_host(&s));
    assert_string_equal(s.job, "");
    assert_refused("OMPI_COMM_WORLD_RANK=4 OMPI_COMM_WORLD_SIZE=4",
                   "OMPI_COMM_WORLD_RANK is \"4\": it should be a number from 0 to 3");
    assert_refused("OMPI_COMM_WORLD_SIZE=4",
                   "OMPI_COMM_WORLD_RANK is not set, and OMPI_COMM_WORLD_SIZE is: it says which of "
                   "them this process is");
}

/* Hydra's proxy made both ends of the socket; here this test did. */
static void hydra_gives_a_place_and_its_proxy_names_the_job(void **state)
{
    (void)state;
    int fds[2], other[2];
    char text[256], job[256], wanted[64];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
    snprintf(text, sizeof text, HYDRA "PMI_FD=%d", fds[0]);
    psr_start s = place(text);
    assert_true(s.rank == 2 && s.ranks == 4 && s.local_rank == 0 && s.local_ranks == 2 &&
                !s.starts_scheduler);
    assert_described(&s, "rank 2 of 4 from PMI_RANK and PMI_SIZE (MPICH's Hydra)");
    snprintf(wanted, sizeof wanted, "hydra %d ", (int)getpid());
    assert_memory_equal(s.job_here, wanted, strlen(wanted));
    assert_true(strlen(s.job_here) > strlen(wanted));
    assert_string_equal(s.job, ""); /* this process is no proxy: no word of
                                       its command line is --control-port */
    strcpy(job, s.job_here);
    snprintf(text, sizeof text, HYDRA "PMI_FD=%d", other[1]);
    assert_string_equal(place(text).job_here, job);
    for (int i = 0; i < 2; i++) {
        close(fds[i]);
        close(other[i]);
    }
    assert_string_equal(place(text).job_here, ""); /* no socket any more */
    assert_refused(HYDRA "PMI_FD=x", "PMI_FD is \"x\": it should be a number from 0 to 2147483647");
    assert_refused("PMI_RANK=1", "PMI_SIZE is not set, and PMI_RANK is: it says of how many");
}

static void srun_gives_a_place_on_the_steps_nodes(void **state)
{
    (void)state;
    psr_start s = place(SRUN "SLURM_STEP_NODELIST=node[08-11,20],other");
    assert_true(s.rank == 5 && s.ranks == 8 && s.local_rank == 1 && s.node == 1 && s.nodes == 2);
    assert_true(!s.starts_scheduler && !psr_start_is_on_one_host(&s));
    assert_string_equal(s.address, "node08");
    assert_int_equal(s.port, 30000 + 1234 * 16 + 3);
    assert_string_equal(s.job, "slurm c 1234 3 1");
    assert_described(&s, "rank 5 of 8 from SLURM_PROCID and SLURM_STEP_NUM_TASKS (Slurm's srun)");
    assert_string_equal(place(SRUN "SLURM_STEP_NODELIST=rack[2,4]n[7-9].example").address,
                        "rack2n7.example");
    assert_string_equal(place(SRUN "SLURM_STEP_NODELIST=one").address, "one");
    s = place("SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=one");
    assert_true(s.starts_scheduler && psr_start_is_on_one_host(&s));
    static const char *const wrong[] = {"node[", "node[x-y]", ",a", "a[1-2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[512], detail[256];
        snprintf(text, sizeof text, SRUN "SLURM_STEP_NODELIST=%s", wrong[i]);
        snprintf(detail, sizeof detail,
                 "SLURM_STEP_NODELIST is \"%s\": it should be a list of nodes as \"node[1-3]\"",
                 wrong[i]);
        assert_refused(text, detail);
    }
    assert_refused(SRUN "SLURM_STEP_NODELIST=n SLURM_PROCID=8",
                   "SLURM_PROCID is \"8\": it should be a number from 0 to 7");
}

/* A script of sbatch is no task, whatever Slurm has told it; and what starts ranks within a step is
 * nearer than the step. */
#define HETEROGENEOUS                                                                              \
    "SLURM_STEP_NODELIST=n[1-3] SLURM_HET_SIZE=2 SLURM_JOB_NUM_NODES_HET_GROUP_0=2 "               \
    "SLURM_JOB_NUM_NODES_HET_GROUP_1=1 SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=8 "

static void a_heterogeneous_step_tells_its_last_component(void **state)
{
    (void)state;
    psr_start s = place(HETEROGENEOUS "SLURM_STEP_NUM_NODES=3 SLURM_STEP_TASKS_PER_NODE=3(x2),2");
    assert_true(s.rank == 5 && s.ranks == 8 && s.last_component == 2);
    assert_int_equal(place(HETEROGENEOUS "SLURM_STEP_NUM_NODES=3 SLURM_STEP_TASKS_PER_NODE=2(x3)")
                         .last_component,
                     2);
    assert_int_equal(place(HETEROGENEOUS "SLURM_STEP_NUM_NODES=3 SLURM_STEP_TASKS_PER_NODE=2,3(x2)")
                         .last_component,
                     3);
    /* a step of one component */
    assert_int_equal(place(HETEROGENEOUS "SLURM_STEP_NUM_NODES=2 SLURM_STEP_TASKS_PER_NODE=4(x2)")
                         .last_component,
                     0);
    assert_int_equal(place(SRUN "SLURM_STEP_NODELIST=a").last_component, 0);
    static const char *const wrong[] = {"3(x",     "3,",     "x",
                                        "3(x2),8", "0(x3)x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[512], detail[256];
        snprintf(text, sizeof text,
                 HETEROGENEOUS "SLURM_STEP_NUM_NODES=3 SLURM_STEP_TASKS_PER_NODE=%s", wrong[i]);
        snprintf(detail, sizeof detail,
                 "SLURM_STEP_TASKS_PER_NODE is \"%s\": it should be the tasks of each of 3 nodes, "
                 "as 2(x3),1",
                 wrong[i]);
        assert_refused(text, detail);
    }
}

static void what_is_nearer_than_slurm_counts(void **state)
{
    (void)state;
    psr_start s;
    surround("SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=5 SLURM_LOCALID=0");
    assert_int_equal(psr_start_read(&s), PSR_ERR_NOT_FOUND);
    assert_string_equal(place(OPENMPI SRUN "SLURM_STEP_NODELIST=a").way, "Open MPI's mpirun");
    assert_string_equal(place(HYDRA SRUN "SLURM_STEP_NODELIST=a").way, "MPICH's Hydra");
    assert_string_equal(place("PMI_RANK=5 PMI_SIZE=8 " SRUN "SLURM_STEP_NODELIST=a").way,
                        "Slurm's srun");
    assert_string_equal(place(LOOP "RANK=2 LOCAL_RANK=2 " OPENMPI "WORLD_SIZE=4").way,
                        "torch.distributed's variables");
}

static void a_wrong_variable_is_refused_by_name(void **state)
{
    (void)state;
    assert_refused(LOOP "RANK=8", "RANK is \"8\": it should be a number from 0 to 7");
    assert_refused(LOOP "RANK=-1", "RANK is \"-1\": it should be a number from 0 to 7");
    assert_refused(LOOP "RANK=3x", "RANK is \"3x\": it should be a number from 0 to 7");
    assert_refused(LOOP "LOCAL_RANK=8", "LOCAL_RANK is \"8\": it should be a number from 0 to 7");
    assert_refused("RANK=1 WORLD_SIZE=0",
                   "WORLD_SIZE is \"0\": it should be a number from 1 to 65536");
    assert_refused("RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=70000",
                   "MASTER_PORT is \"70000\": it should be a number from 1 to 65535");
    assert_refused(LOOP "RANK=1 LOCAL_RANK=2 LOCAL_WORLD_SIZE=8",
                   "RANK is 1 and LOCAL_RANK 2, and all 8 ranks are local: they are one");
    assert_refused("PSRING_RANKS=4 PSRING_LOCAL_SIZE=2 PSRING_LOCAL_RANK=2",
                   "PSRING_LOCAL_RANK is \"2\": it should be a number from 0 to 1");
    assert_refused("PSRING_RANKS=2 PSRING_RANK=2",
                   "PSRING_RANK is \"2\": it should be a number from 0 to 1");
    assert_refused("PSRING_RANKS=2 PSRING_RANK=1 PSRING_HOST=a\x1b",
                   "PSRING_HOST has control characters, or is not UTF-8");
    assert_refused("PSRING_RANKS=2 PSRING_RANK=1 PSRING_PORT=0",
                   "PSRING_PORT is \"0\": it should be a number from 1 to 65535");
}

static void a_variable_that_is_missing_beside_another_is_named(void **state)
{
    (void)state;
    assert_refused("RANK=1",
                   "WORLD_SIZE is not set, and RANK or LOCAL_RANK is: it says of how many");
    assert_refused("WORLD_SIZE=2",
                   "RANK is not set, and WORLD_SIZE is: it says which of them this process is");
    assert_refused("RANK=1 WORLD_SIZE=2", "MASTER_ADDR is not set, and WORLD_SIZE is more than 1: "
                                          "it says on which host the ranks meet");
    assert_refused(
        "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a",
        "MASTER_PORT is not set, and WORLD_SIZE is more than 1: it tells this run from others");
    assert_refused("LOCAL_RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1",
                   "RANK is not set, and LOCAL_RANK says who this is on one host alone (WORLD_SIZE "
                   "and LOCAL_WORLD_SIZE the same, or MASTER_ADDR 127.0.0.1)");
}

static void sources_that_contradict_each_other_are_refused_by_name(void **state)
{
    (void)state;
    assert_refused(LOOP "RANK=3 PSRING_RANK=2 PSRING_RANKS=8",
                   "PSRING_RANK=2 and PSRING_RANKS=8 say rank 2 of 8, but RANK=3 and WORLD_SIZE=8 "
                   "say rank 3 of 8: unset those that are not meant");
    assert_refused(LOOP "RANK=3 PSRING_RANK=3 PSRING_RANKS=4",
                   "PSRING_RANK=3 and PSRING_RANKS=4 say rank 3 of 4, but RANK=3 and WORLD_SIZE=8 "
                   "say rank 3 of 8: unset those that are not meant");
    assert_int_equal(place(LOOP "RANK=3 PSRING_RANK=3 PSRING_RANKS=8").rank, 3);
    assert_refused(OPENMPI "PMI_RANK=1 PMI_SIZE=4",
                   "OMPI_COMM_WORLD_RANK=2 and OMPI_COMM_WORLD_SIZE=4 say rank 2 of 4, but "
                   "PMI_RANK=1 and PMI_SIZE=4 say rank 1 of 4: unset those that are not meant");
    assert_refused(SRUN "SLURM_STEP_NODELIST=a RANK=3 WORLD_SIZE=8 MASTER_ADDR=a MASTER_PORT=1",
                   "RANK=3 and WORLD_SIZE=8 say rank 3 of 8, but SLURM_PROCID=5 and "
                   "SLURM_STEP_NUM_TASKS=8 say rank 5 of 8: unset those that are not meant");
    /* What psring run has started is in a place of its own, wherever psring run itself is. */
    assert_int_equal(
        place(LOOP "RANK=3 PSRING_RANK=1 PSRING_RANKS=2 PSRING_HOST_SCHEDULER=0").ranks, 2);
    /* A process on each of two places, which starts four ranks. */
    assert_int_equal(
        place("RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 PSRING_RANK=5 PSRING_RANKS=8").rank,
        5);
}

/* ---- options ---- */

#define NONE PSR_START_UNTOLD

static void options_and_variables_of_pytorch_say_a_place_together(void **state)
{
    (void)state;
    psr_start s;
    psr_start_options o = {.rank = NONE, .ranks = 3, .local_rank = NONE, .port = "4000"};
    surround("RANK=1");
    expect_ok(psr_start_from_options(&o, &s));
    assert_described(&s, "rank 1 of 3 from RANK and --world-size (its options)");
    surround("LOCAL_RANK=2");
    expect_ok(psr_start_from_options(&o, &s));
    assert_described(&s, "rank 2 of 3 from LOCAL_RANK and --world-size (its options)");
    surround("RANK=1 WORLD_SIZE=3"); /* where they meet is said by options */
    expect_ok(psr_start_from_options(&o, &s));
    assert_true(s.rank == 1 && s.ranks == 3 && s.port == 5000);
    surround("RANK=1 WORLD_SIZE=4");
    expect_failure(psr_start_from_options(&o, &s), PSR_ERR_USAGE,
                   "--world-size is 3, and WORLD_SIZE says 4: leave one of them out");
    surround("RANK=3");
    expect_failure(psr_start_from_options(&o, &s), PSR_ERR_USAGE,
                   "RANK is \"3\": it should be a number from 0 to 2");
    surround("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3");
    assert_int_equal(psr_start_from_options(&o, &s), PSR_ERR_USAGE);
    assert_non_null(strstr(psr_err_detail(), "under mpirun or srun leave --world-size out"));
    o.address = "192.0.2.1"; /* LOCAL_RANK says nothing of several hosts' ranks */
    surround("LOCAL_RANK=2");
    assert_int_equal(psr_start_from_options(&o, &s), PSR_ERR_USAGE);
    o.rank = 0;
    surround("RANK=1");
    expect_failure(psr_start_from_options(&o, &s), PSR_ERR_USAGE,
                   "--rank is 0, and RANK says 1: leave one of them out");
}

static void a_loop_over_the_ranks_of_a_node_starts_a_rank_each(void **state)
{
    (void)state;
    psr_start s;
    psr_start_options o = {.rank = 0, .ranks = 1, .local_rank = NONE};
    surround("LOCAL_RANK=2 WORLD_SIZE=4");
    expect_ok(psr_start_of_node(&o, NONE, &s));
    assert_true(s.rank == 2 && s.ranks == 4 && s.local_rank == 2 && s.local_ranks == 4);
    assert_true(psr_start_is_on_one_host(&s));
    surround("LOCAL_RANK=2");
    expect_ok(psr_start_of_node(&o, 4, &s));
    assert_true(s.rank == 2 && s.ranks == 4);
    assert_int_equal(psr_start_of_node(&o, NONE, &s), PSR_ERR_USAGE);
    assert_non_null(strstr(psr_err_detail(),
                           "nobody says of how many: let the loop that starts each rank set "
                           "WORLD_SIZE, or start psring-worker once on each node"));
    expect_failure(psr_start_of_node(&o, 2, &s), PSR_ERR_USAGE,
                   "LOCAL_RANK is 2: it should be a number from 0 to 1");
    o = (psr_start_options){.rank = 1, .ranks = 2, .local_rank = NONE, .address = "node1"};
    surround("LOCAL_RANK=1 WORLD_SIZE=8");
    expect_ok(psr_start_of_node(&o, NONE, &s));
    assert_true(s.rank == 5 && s.ranks == 8 && s.local_ranks == 4 && !psr_start_is_on_one_host(&s));
    surround("LOCAL_RANK=1 WORLD_SIZE=8 RANK=1");
    assert_int_equal(psr_start_of_node(&o, NONE, &s), PSR_ERR_USAGE);
    surround("LOCAL_RANK=1 WORLD_SIZE=7");
    assert_int_equal(psr_start_of_node(&o, NONE, &s), PSR_ERR_USAGE);
    surround(""); /* this process starts its node's ranks */
    assert_int_equal(psr_start_of_node(&o, 4, &s), PSR_ERR_NOT_FOUND);
    surround("LOCAL_RANK=0 LOCAL_WORLD_SIZE=1"); /* as torchrun with one process on each node */
    assert_int_equal(psr_start_of_node(&o, NONE, &s), PSR_ERR_NOT_FOUND);
}

#define DMLC "DMLC_NUM_WORKER=3 DMLC_PS_ROOT_URI=127.0.0.1 DMLC_PS_ROOT_PORT=9091 "

static void roles_give_no_ranks(void **state)
{
    (void)state;
    psr_start s = place(DMLC "DMLC_ROLE=worker DMLC_NUM_SERVER=2 DMLC_INTERFACE=eth0");
    assert_true(s.role == PSR_ROLE_WORKER && s.rank == PSR_RANK_ANY && s.ranks == 3 &&
                s.shards == 2);
    assert_true(!s.starts_scheduler && s.port == 9091 && psr_start_is_on_one_host(&s));
    assert_string_equal(s.tcp_interface, "eth0");
    assert_described(&s, "one rank of 3 from DMLC_ROLE and DMLC_NUM_WORKER (MXNet's variables)");
    s = place(DMLC "DMLC_ROLE=scheduler");
    assert_true(s.role == PSR_ROLE_SCHEDULER && s.starts_scheduler && s.shards == 0);
    s = place("MS_ROLE=MS_PSERVER MS_WORKER_NUM=8 MS_SERVER_NUM=1 MS_SCHED_HOST=node1 "
              "MS_SCHED_PORT=8118 DATA_PATH=/d");
    assert_true(s.role == PSR_ROLE_SHARD && s.shards == 1 && !psr_start_is_on_one_host(&s));
    char input[PSR_START_LINE_MAX];
    expect_ok(psr_start_input(input));
    assert_string_equal(input, "/d");
}

static void roles_are_refused_by_name(void **state)
{
    (void)state;
    assert_refused(DMLC "DMLC_ROLE=master",
                   "DMLC_ROLE is \"master\": it should be scheduler, server or worker");
    assert_refused("MS_ROLE=WORKER",
                   "MS_ROLE is \"WORKER\": it should be MS_SCHED, MS_PSERVER or MS_WORKER");
    assert_refused(DMLC "DMLC_ROLE=server",
                   "DMLC_ROLE is server, and DMLC_NUM_SERVER says that there are none");
    assert_refused("DMLC_ROLE=worker DMLC_NUM_WORKER=1 DMLC_PS_ROOT_PORT=1",
                   "DMLC_PS_ROOT_URI is not set, and DMLC_ROLE is worker");
    assert_refused(DMLC LOOP "DMLC_ROLE=worker RANK=1",
                   "RANK=1 and WORLD_SIZE=8 say rank 1 of 8, but one rank of 3 from DMLC_ROLE and "
                   "DMLC_NUM_WORKER (MXNet's variables): unset those that are not meant");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(options_and_variables_of_pytorch_say_a_place_together,
                                  forget_all),
        cmocka_unit_test_teardown(a_loop_over_the_ranks_of_a_node_starts_a_rank_each, forget_all),
        cmocka_unit_test_teardown(roles_give_no_ranks, forget_all),
        cmocka_unit_test_teardown(roles_are_refused_by_name, forget_all),
        cmocka_unit_test_teardown(without_variables_there_is_no_place, forget_all),
        cmocka_unit_test_teardown(psring_run_gives_a_place, forget_all),
        cmocka_unit_test_teardown(torchrun_gives_a_place, forget_all),
        cmocka_unit_test_teardown(a_shell_loop_gives_rank_or_local_rank, forget_all),
        cmocka_unit_test_teardown(open_mpi_gives_a_place, forget_all),
        cmocka_unit_test_teardown(hydra_gives_a_place_and_its_proxy_names_the_job, forget_all),
        cmocka_unit_test_teardown(srun_gives_a_place_on_the_steps_nodes, forget_all),
        cmocka_unit_test_teardown(a_heterogeneous_step_tells_its_last_component, forget_all),
        cmocka_unit_test_teardown(what_is_nearer_than_slurm_counts, forget_all),
        cmocka_unit_test_teardown(a_wrong_variable_is_refused_by_name, forget_all),
        cmocka_unit_test_teardown(a_variable_that_is_missing_beside_another_is_named, forget_all),
        cmocka_unit_test_teardown(sources_that_contradict_each_other_are_refused_by_name,
                                  forget_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
