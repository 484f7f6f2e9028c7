/* deploy/doctor/findings/findings.h: facts in, findings out. */
#include "tests/unit/deploy/checkup_of.h"

#include "deploy/doctor/findings/findings.h"

#include <string.h>

static psr_checkup c;
static psr_findings f;

static int set_up(void **state)
{
    (void)state;
    c = checkup_of(3);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psr_findings_done(&f);
    psr_checkup_done(&c);
    return 0;
}

static void judge(void)
{
    psr_findings_done(&f);
    expect_ok(psr_findings_make(&c, &f));
}

/* The only finding there is. */
static void assert_alone(psr_finding_level level, const char *check, const char *where,
                         const char *what)
{
    judge();
    if (f.count != 1)
        fail_msg("%zu findings, the first: %s %s", f.count, f.count ? f.items[0].where : "",
                 f.count ? f.items[0].what : "");
    assert_string_equal(psr_finding_level_name(f.items[0].level), psr_finding_level_name(level));
    assert_string_equal(f.items[0].check, check);
    assert_string_equal(f.items[0].where, where);
    assert_string_equal(f.items[0].what, what);
}

static void assert_among(psr_finding_level level, const char *check, const char *where,
                         const char *what)
{
    judge();
    for (size_t i = 0; i < f.count; i++)
        if (f.items[i].level == level && strcmp(f.items[i].check, check) == 0 &&
            strcmp(f.items[i].where, where) == 0 && strcmp(f.items[i].what, what) == 0)
            return;
    fail_msg("%zu findings, and not: %s %s", f.count, where, what);
}

/* What there is without it is as well as before. */
static void assert_mended(void)
{
    judge();
    assert_int_equal(f.count, 0);
}

static void hosts_that_are_well_have_no_findings(void **state)
{
    (void)state;
    c.data = "mnist";
    for (size_t i = 0; i < c.count; i++)
        strcpy(c.hosts[i].facts.data, "mnist, 60000 + 10000 samples");
    assert_mended();
}

static void a_host_without_an_agent_stops_a_run(void **state)
{
    (void)state;
    static const struct {
        const char *said, *what, *right;
    } cases[] = {
        {"host node2: ssh could not connect: Permission denied (publickey).; let it log you in",
         "ssh could not connect: Permission denied (publickey).", "let it log you in"},
        {"host node2 has psring 0.0.9, this is 0.1.0; install the same version on both",
         "has psring 0.0.9, this is 0.1.0", "install the same version on both"},
        {"it did not tell its agent's hello within 12 s",
         "it did not tell its agent's hello within 12 s", ""},
    };
    psr_checkup_host *h = &c.hosts[1];
    h->stage = PSR_DOCTOR_NO_AGENT;
    for (size_t i = 0; i < c.count; i++)
        *psr_checkup_pair_of(&c, i, 1) = *psr_checkup_pair_of(&c, 1, i) = (psr_checkup_pair){0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strcpy(h->failure, cases[i].said);
        judge();
        assert_int_equal(f.count, 2);
        assert_int_equal(f.items[0].level, PSR_FINDING_STOPS);
        assert_string_equal(f.items[0].check, "login");
        assert_string_equal(f.items[0].where, "node2");
        assert_string_equal(f.items[0].what, cases[i].what);
        assert_string_equal(f.items[0].right, cases[i].right);
        assert_int_equal(f.items[1].level, PSR_FINDING_UNTESTED);
        assert_string_equal(f.items[1].where, "node2");
    }
}

static void a_host_that_fell_silent_stops_a_run(void **state)
{
    (void)state;
    c.hosts[2].silent = true;
    strcpy(c.hosts[2].failure, "it did not tell a measurement within 10 s");
    assert_alone(PSR_FINDING_STOPS, "answer", "node3", "it did not tell a measurement within 10 s");
    assert_non_null(strstr(f.items[0].right, "look at that host"));
}

static void a_worker_that_does_not_run_and_data_that_lack_stop_a_run(void **state)
{
    (void)state;
    psr_host_facts *facts = &c.hosts[0].facts;
    strcpy(facts->worker_failure, "libdnnl.so.2: cannot open shared object file");
    facts->identity[0] = '\0';
    assert_alone(PSR_FINDING_STOPS, "program", "node1",
                 "libdnnl.so.2: cannot open shared object file");
    *facts = facts_of(0);
    strcpy(facts->data_failure, "--data /d: no such directory");
    assert_mended(); /* nobody asked for any */
    c.data = "/d";
    assert_alone(PSR_FINDING_STOPS, "data", "node1", "--data /d: no such directory");
}

static void other_bits_and_other_data_stop_a_run_other_processors_slow_it(void **state)
{
    (void)state;
    strcpy(c.hosts[2].facts.identity, "onednn 2.6.3 cpu_isa_avx2 openmp");
    assert_alone(PSR_FINDING_STOPS, "bits", "node1, node3",
                 "they compute with onednn 3.7.2 cpu_isa_avx2 openmp and onednn 2.6.3 cpu_isa_avx2 "
                 "openmp: their bits would differ, so a run refuses them");
    c.hosts[2].facts = facts_of(2);
    c.data = "mnist";
    for (size_t i = 0; i < c.count; i++)
        snprintf(c.hosts[i].facts.data, sizeof c.hosts[i].facts.data, "mnist, %d samples",
                 i == 1 ? 59999 : 60000);
    assert_alone(PSR_FINDING_STOPS, "data", "node1, node2",
                 "they have other data: mnist, 60000 samples; mnist, 59999 samples");
    strcpy(c.hosts[1].facts.data, c.hosts[0].facts.data);
    /* As many samples, which are others; and equal ones under another name. */
    for (size_t i = 0; i < c.count; i++)
        strcpy(c.hosts[i].facts.data_content,
               "0123456789abcdef0123456789abcdef-fedcba9876543210fedcba9876543210");
    strcpy(c.hosts[1].facts.data, "copy of mnist, 60000 samples");
    assert_mended();
    c.hosts[1].facts.data_content[PSR_CONTENT_BYTES] = '0';
    assert_alone(PSR_FINDING_STOPS, "data", "node1, node2",
                 "they have other test samples: mnist, 60000 samples (content fedcba9876543210); "
                 "copy of mnist, 60000 samples (content 0edcba9876543210)");
    strcpy(c.hosts[1].facts.data_content, c.hosts[0].facts.data_content);
    c.hosts[1].facts.data_content[0] = 'f';
    assert_alone(PSR_FINDING_STOPS, "data", "node1, node2",
                 "they have other training samples: mnist, 60000 samples (content "
                 "0123456789abcdef); copy of mnist, 60000 samples (content f123456789abcdef)");
    strcpy(c.hosts[1].facts.data_content, c.hosts[0].facts.data_content);
    strcpy(c.hosts[1].facts.data, c.hosts[0].facts.data);
    c.hosts[1].facts.l3_bytes /= 2;
    assert_alone(
        PSR_FINDING_SLOWS, "processor", "node1, node2",
        "they have other processors (A processor; A processor): in bsp all wait for the slowest");
}

static void a_host_that_listens_on_loopback_stops_a_run_unless_all_are_one_machine(void **state)
{
    (void)state;
    strcpy(c.hosts[1].facts.address, "127.0.1.1");
    for (size_t i = 0; i < c.count; i++)
        strcpy(psr_checkup_pair_of(&c, 1, i)->source, "127.0.1.1");
    assert_alone(PSR_FINDING_STOPS, "listen", "node2",
                 "its processes would listen on 127.0.1.1, where no other host reaches them");
    for (size_t i = 0; i < c.count; i++)
        strcpy(c.hosts[i].machine, "one");
    judge();
    assert_int_equal(psr_findings_at(&f, PSR_FINDING_STOPS), 0);
}

static void a_host_that_cannot_listen_stops_a_run(void **state)
{
    (void)state;
    strcpy(c.hosts[1].facts.listen_failure, "interface eth7: this machine has none of that name");
    assert_alone(PSR_FINDING_STOPS, "listen", "node2",
                 "interface eth7: this machine has none of that name");
}

static void cores_that_may_not_be_used_slow_a_run(void **state)
{
    (void)state;
    psr_host_facts *facts = &c.hosts[1].facts;
    facts->cpu_limit_milli = 2500;
    assert_alone(PSR_FINDING_SLOWS, "cores", "node2",
                 "it has 8 cores, of which its control group gets 2.5: threads for all of them "
                 "would wait for one another");
    facts->cpu_limit_milli = 8000; /* as many as there are */
    assert_mended();
    facts->cores_allowed = 3;
    assert_alone(PSR_FINDING_SLOWS, "cores", "node2",
                 "it has 8 cores, of which processes may use 3");
    facts->cores_allowed = 8;
    c.hosts[1].host.slots = 9;
    assert_alone(PSR_FINDING_SLOWS, "cores", "node2", "9 slots share 8 cores");
}

static void too_few_files_stop_a_run_of_that_many_workers(void **state)
{
    (void)state;
    const uint64_t needed = psr_findings_files_needed(6);
    c.hosts[1].facts.files_max = needed;
    assert_mended();
    c.hosts[1].facts.files_max = needed - 1;
    assert_alone(PSR_FINDING_STOPS, "files", "node2",
                 "a process may open 227 files (ulimit -Hn); 6 workers may need 228");
}

static void little_memory_and_huge_pages_that_are_off_slow_a_run(void **state)
{
    (void)state;
    psr_host_facts *facts = &c.hosts[1].facts;
    facts->memory_free_bytes = 1 << 30;
    assert_mended();
    facts->memory_free_bytes--;
    assert_alone(PSR_FINDING_SLOWS, "memory", "node2", "1.0 GiB of memory are free for 2 slots");
    *facts = facts_of(1);
    strcpy(facts->huge_pages, "never");
    assert_alone(PSR_FINDING_SLOWS, "huge-pages", "node2",
                 "transparent huge pages are off; psring asks for them for weights and gradients");
    strcpy(facts->huge_pages, ""); /* a kernel without: nothing is to be done */
    assert_mended();
}

/* 1 GiB and 16 MiB a sample: batches of 64 take 2 GiB, two slots 4. */
static void memory_is_held_against_the_network_that_would_be_trained(void **state)
{
    (void)state;
    psr_host_facts *facts = &c.hosts[1].facts;
    c.model = "resnet50";
    c.batch_size = 64;
    for (size_t i = 0; i < c.count; i++) {
        c.hosts[i].facts.fixed_bytes = 1 << 30;
        c.hosts[i].facts.sample_bytes = 16 << 20;
    }
    facts->memory_free_bytes = (uint64_t)4 << 30;
    assert_mended();
    facts->memory_free_bytes--;
    assert_alone(PSR_FINDING_SLOWS, "memory", "node2",
                 "a worker of resnet50 with batches of 64 takes about 2.0 GiB, 2 slots 4.0 GiB; of "
                 "16.0 GiB 4.0 are free");
    assert_string_equal(f.items[0].right,
                        "give it 1 slot, or --batch-size 63 or less, or free some");
    facts->memory_free_bytes = (uint64_t)5 << 30; /* data lie there once, beside all slots */
    facts->data_bytes = (uint64_t)1 << 30;
    assert_mended();
    facts->memory_free_bytes--;
    assert_alone(
        PSR_FINDING_SLOWS, "memory", "node2",
        "a worker of resnet50 with batches of 64 takes about 2.0 GiB, 2 slots 4.0 GiB, the "
        "data 1.0 GiB; of 16.0 GiB 5.0 are free");
    assert_string_equal(f.items[0].right,
                        "give it 1 slot, or --batch-size 63 or less, or free some");
    facts->data_bytes = 0;
    facts->memory_bytes = facts->memory_free_bytes = (uint64_t)1 << 30;
    assert_alone(PSR_FINDING_STOPS, "memory", "node2",
                 "a worker of resnet50 with batches of 64 takes about 2.0 GiB, 2 slots 4.0 GiB; of "
                 "1.0 GiB 1.0 are free");
    assert_string_equal(f.items[0].right, "a smaller --model, or another host");
    facts->sample_bytes = PSR_FACT_UNLIMITED; /* of a host that tells nonsense */
    judge();
    assert_int_equal(psr_findings_at(&f, PSR_FINDING_STOPS), 1);
    *facts = facts_of(1);
    strcpy(facts->model_failure, "--model resnet50: the image is 8x8 pixels; it takes 32 at least");
    assert_alone(PSR_FINDING_STOPS, "model", "node2",
                 "--model resnet50: the image is 8x8 pixels; it takes 32 at least");
}

static void what_cuda_lacks_is_told_only_where_there_is_a_driver(void **state)
{
    (void)state;
    psr_host_facts *facts = &c.hosts[0].facts;
    strcpy(facts->cuda_libraries, "driver 13.0, runtime 13.0");
    strcpy(facts->cuda_missing, "libcudnn.so.9 is not there");
    assert_alone(PSR_FINDING_NOTE, "cuda", "node1", "libcudnn.so.9 is not there");
    facts->cuda_libraries[0] = '\0';
    assert_mended();
}

static void memory_that_cannot_be_shared_slows_who_has_two_processes_on_a_host(void **state)
{
    (void)state;
    strcpy(c.hosts[0].facts.sharing_failure, "memfd_create: Operation not permitted");
    c.hosts[0].facts.seccomp = 2;
    c.hosts[0].host.slots = 1;
    assert_alone(PSR_FINDING_NOTE, "shared-memory", "node1",
                 "processes on this host cannot share memory: memfd_create: Operation not "
                 "permitted; a filter of system calls (seccomp) is on");
    c.hosts[0].host.slots = 2;
    c.hosts[0].facts.seccomp = 0;
    assert_alone(
        PSR_FINDING_SLOWS, "shared-memory", "node1",
        "processes on this host cannot share memory: memfd_create: Operation not permitted");
    c.hosts[0].facts = facts_of(0);
    strcpy(c.hosts[0].facts.sockets_failure, "/tmp: Read-only file system");
    assert_alone(PSR_FINDING_SLOWS, "shared-memory", "node1",
                 "no directory can be made for the sockets of a run: /tmp: Read-only file system");
    psr_checkup_done(&c);
    c = checkup_of(1); /* where the run has no others */
    strcpy(c.hosts[0].facts.sockets_failure, "/tmp: Read-only file system");
    assert_alone(PSR_FINDING_STOPS, "shared-memory", "node1",
                 "no directory can be made for the sockets of a run: /tmp: Read-only file system");
    c.hosts[0].facts = facts_of(0);
    c.hosts[0].facts.shm_free_bytes = 0;
    assert_alone(PSR_FINDING_NOTE, "shared-memory", "node1",
                 "/dev/shm is missing or full; psring does not need it, but NCCL, MPI and "
                 "PyTorch's loader do");
}

static void an_own_name_that_stands_for_loopback_is_told(void **state)
{
    (void)state;
    strcpy(c.hosts[1].facts.own_address, "127.0.1.1");
    assert_alone(
        PSR_FINDING_NOTE, "names", "node2",
        "its own name, node2, stands for 127.0.1.1 there (as Debian sets it up): psring works with "
        "that, but Gloo, NCCL and MPI may listen where no other host reaches them");
    c.hosts[1].reached.here = true; /* where the person sits, that is as usual */
    assert_mended();
    c.hosts[1].facts.own_address[0] = '\0';
    assert_alone(PSR_FINDING_NOTE, "names", "node2", "its own name, node2, is not found there");
}

static void a_clock_is_wrong_when_it_is_so_for_certain(void **state)
{
    (void)state;
    psr_checkup_host *h = &c.hosts[2];
    h->clock_s = -3.5;
    assert_alone(PSR_FINDING_SLOWS, "clock", "node3",
                 "its clock is 3.500 s behind this machine's (give or take 0.001 s): times in logs "
                 "and run.json mislead");
    h->clock_within_s = 3.4; /* a slow answer: it may be right */
    assert_mended();
    h->clock_known = false;
    assert_alone(PSR_FINDING_UNTESTED, "clock", "node3", "its clock was not compared");
}

static void bbr_is_told_with_what_is_taken_instead(void **state)
{
    (void)state;
    strcpy(c.hosts[1].facts.congestion, "bbr");
    assert_among(PSR_FINDING_SLOWS, "tcp", "node2",
                 "TCP there controls congestion by bbr, under which workers that send to one shard "
                 "overflow the queue before it, and programs may not choose another");
    for (size_t i = 0; i < c.count; i++) {
        strcpy(c.hosts[i].facts.congestion, "bbr");
        strcpy(c.hosts[i].facts.congestion_allowed, "cubical reno bbr");
    }
    assert_alone(PSR_FINDING_NOTE, "tcp", "node1 and 2 others",
                 "TCP there controls congestion by bbr, under which workers that send to one shard "
                 "overflow the queue before it; psring takes reno for its own connections to hosts "
                 "less than 5 ms away");
    strcpy(c.hosts[2].facts.congestion_allowed, "reno cubic");
    assert_among(PSR_FINDING_NOTE, "tcp", "node3",
                 "TCP there controls congestion by bbr, under which workers that send to one shard "
                 "overflow the queue before it; psring takes cubic for its own connections to "
                 "hosts less than 5 ms away");
}

static void names_versions_and_settings_that_differ_are_told(void **state)
{
    (void)state;
    psr_host_facts *facts = &c.hosts[1].facts;
    strcpy(facts->congestion, "bbr");
    assert_among(PSR_FINDING_NOTE, "tcp", "node1, node2",
                 "their TCP controls congestion by cubic and bbr");
    *facts = facts_of(1);
    strcpy(facts->library, "libzmq 4.3.4");
    assert_alone(PSR_FINDING_NOTE, "library", "node1, node2",
                 "they have libzmq 4.3.5 and libzmq 4.3.4");
    *facts = facts_of(1);
    facts->mtu_bytes = 9000;
    assert_alone(PSR_FINDING_SLOWS, "mtu", "node1, node2",
                 "packets have at most 1500 bytes on eth0, 9000 on eth0: large ones may be lost "
                 "between them");
    *facts = facts_of(1);
    strcpy(facts->path_program, "/usr/bin/psring");
    strcpy(facts->path_version, PSR_VERSION);
    assert_mended();
    strcpy(facts->path_version, "0.0.9");
    assert_alone(PSR_FINDING_NOTE, "path", "node2",
                 "the psring in PATH is another: /usr/bin/psring is version 0.0.9");
    *facts = facts_of(1);
    strcpy(facts->hostname, "node1");
    assert_alone(PSR_FINDING_NOTE, "same-host", "node1, node2",
                 "both machines call themselves node1, so that their lines look alike");
    *facts = facts_of(1);
    strcpy(c.hosts[2].machine, c.hosts[1].machine);
    assert_alone(PSR_FINDING_NOTE, "same-host", "node2, node3",
                 "they are the same machine and share its cores");
}

static void
ways_that_are_closed_stop_a_run_and_a_host_that_nobody_reaches_is_one_finding(void **state)
{
    (void)state;
    close_way(&c, 0, 2, "Connection refused");
    assert_int_equal((judge(), f.count), 2); /* and what was not measured */
    assert_string_equal(f.items[0].check, "port");
    assert_string_equal(f.items[0].where, "node1 -> node3");
    assert_string_equal(f.items[0].what,
                        "no connection to tcp://10.0.0.3:4242: Connection refused");
    assert_non_null(strstr(f.items[0].right, "rejects"));
    assert_string_equal(f.items[1].check, "speed");
    assert_string_equal(
        f.items[1].what,
        "1 of 6 ways were not measured: a connection is missing, or the time was over");

    close_way(&c, 1, 2, "no answer within 3000 ms");
    assert_int_equal((judge(), f.count), 2);
    assert_string_equal(f.items[0].where, "node3");
    assert_string_equal(
        f.items[0].what,
        "none of the 2 other hosts reaches tcp://10.0.0.3:4242 there: Connection refused");

    close_way(&c, 2, 0, "No route to host");
    close_way(&c, 2, 1, "No route to host");
    assert_int_equal((judge(), f.count), 2);
    assert_string_equal(f.items[0].what,
                        "none of the 2 other hosts reaches tcp://10.0.0.3:4242 there, and it "
                        "reaches none of them: Connection refused");
}

static void who_reaches_nobody_is_one_finding(void **state)
{
    (void)state;
    close_way(&c, 2, 0, "Network is unreachable");
    close_way(&c, 2, 1, "Network is unreachable");
    assert_int_equal((judge(), f.count), 2);
    assert_string_equal(f.items[0].where, "node3");
    assert_string_equal(f.items[0].what,
                        "it reaches none of the 2 other hosts: Network is unreachable");
}

/* Every second way of 16 hosts, so that no host is cut off. */
static void of_many_closed_ways_some_are_named_and_all_are_counted(void **state)
{
    (void)state;
    size_t closed = 0, named = 0;
    psr_checkup_done(&c);
    c = checkup_of(16);
    for (size_t i = 0; i < 16; i++)
        for (size_t k = i % 2; k < 16; k += 2)
            if (i != k) {
                close_way(&c, i, k, "Connection refused");
                closed++;
            }
    judge();
    for (size_t i = 0; i < f.count; i++)
        named += strcmp(f.items[i].check, "port") == 0 && strstr(f.items[i].where, " -> ") != NULL;
    assert_int_equal(named, 12);
    char rest[64];
    snprintf(rest, sizeof rest, "%zu more are not connected", closed - 12);
    assert_string_equal(f.items[12].what, rest);
}

static void a_way_that_carries_no_messages_stops_a_run(void **state)
{
    (void)state;
    psr_checkup_pair *p = psr_checkup_pair_of(&c, 1, 0);
    p->measured = false;
    strcpy(p->measure_failure,
           "short messages are answered, but messages of 1 MiB are not in time");
    assert_alone(PSR_FINDING_STOPS, "messages", "node2 -> node1",
                 "short messages are answered, but messages of 1 MiB are not in time");
}

static void a_way_whose_second_port_does_not_answer_slows_a_run(void **state)
{
    (void)state;
    psr_checkup_pair *p = psr_checkup_pair_of(&c, 1, 0);
    p->unsealed_ms = 3100;
    p->unsealed_port = 40123;
    assert_alone(PSR_FINDING_SLOWS, "port", "node2 -> node1",
                 "port 40123 there did not answer for 3.1 s: values go by CURVE instead, at a "
                 "third of the speed or less");
    p->unsealed_ms = 0;
    assert_mended();
}

static void a_way_much_slower_than_the_middle_one_slows_a_run(void **state)
{
    (void)state;
    psr_checkup_pair *p = psr_checkup_pair_of(&c, 1, 0);
    p->bytes_per_s = 400000000; /* within what repetitions differ by */
    assert_mended();
    p->bytes_per_s = 12500000;
    assert_alone(
        PSR_FINDING_SLOWS, "speed", "node2 -> node1",
        "12.5 MB/s, while the middle pair has 1000.0 MB/s: a ring goes as fast as its slowest way");
}

static void of_two_hosts_a_way_much_slower_than_the_one_back_slows_a_run(void **state)
{
    (void)state;
    psr_checkup two = checkup_of(2);
    psr_findings found = {0};
    psr_checkup_pair_of(&two, 1, 0)->bytes_per_s = 400000000;
    expect_ok(psr_findings_make(&two, &found));
    assert_int_equal(psr_findings_at(&found, PSR_FINDING_SLOWS), 0);
    psr_findings_done(&found);
    psr_checkup_pair_of(&two, 1, 0)->bytes_per_s = 12500000;
    expect_ok(psr_findings_make(&two, &found));
    assert_int_equal(psr_findings_at(&found, PSR_FINDING_SLOWS), 1);
    assert_string_equal(found.items[0].where, "node2 -> node1");
    assert_string_equal(
        found.items[0].what,
        "12.5 MB/s, while the way back has 1000.0 MB/s: a ring goes as fast as its slowest way");
    psr_findings_done(&found);
    psr_checkup_done(&two);
}

static void a_host_that_does_not_reach_itself_stops_a_run(void **state)
{
    (void)state;
    close_way(&c, 1, 1, "no answer");
    assert_alone(
        PSR_FINDING_STOPS, "port", "node2",
        "it does not reach itself at tcp://10.0.0.2:4242, where its processes meet: no answer");
}

static void another_route_and_names_that_lack_are_told(void **state)
{
    (void)state;
    strcpy(psr_checkup_pair_of(&c, 0, 1)->source, "192.168.1.1");
    assert_alone(PSR_FINDING_NOTE, "route", "node1 -> node2",
                 "it goes out by 192.168.1.1, but listens on 10.0.0.1");
    strcpy(psr_checkup_pair_of(&c, 0, 1)->source, "10.0.0.1");
    psr_checkup_pair_of(&c, 0, 1)->looked_up_as[0] =
        psr_checkup_pair_of(&c, 0, 2)->looked_up_as[0] = '\0';
    assert_alone(PSR_FINDING_NOTE, "names", "node1",
                 "2 names of other hosts are not found there (node2 is the first): psring uses "
                 "addresses, but other programs may need the names");
    strcpy(psr_checkup_pair_of(&c, 0, 1)->looked_up_as, "127.0.0.1");
    strcpy(psr_checkup_pair_of(&c, 0, 2)->looked_up_as, "10.0.0.3");
    assert_alone(PSR_FINDING_NOTE, "names", "node1",
                 "there the name node2 stands for 127.0.0.1, which is the host itself");
}

static void a_directory_that_cannot_be_written_stops_a_run(void **state)
{
    (void)state;
    c.out = "runs";
    c.out_free_bytes = 1 << 30;
    assert_mended();
    c.out_free_bytes--;
    assert_alone(PSR_FINDING_SLOWS, "out", "this machine",
                 "1.00 GiB are free for runs, where checkpoints go");
    strcpy(c.out_failure, "/: Read-only file system");
    assert_alone(PSR_FINDING_STOPS, "out", "this machine",
                 "runs cannot be written: /: Read-only file system");
}

static void findings_come_by_level(void **state)
{
    (void)state;
    strcpy(c.hosts[0].facts.own_address, "127.0.1.1");
    c.hosts[1].clock_known = false;
    c.hosts[1].facts.memory_free_bytes = 0;
    strcpy(c.hosts[2].facts.listen_failure, "no");
    judge();
    assert_int_equal(f.count, 4);
    for (size_t i = 0; i < f.count; i++)
        assert_int_equal(f.items[i].level, i);
    for (psr_finding_level level = 0; level < PSR_FINDING_LEVELS; level++)
        assert_int_equal(psr_findings_at(&f, level), 1);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hosts_that_are_well_have_no_findings),
        TEST(a_host_without_an_agent_stops_a_run),
        TEST(a_host_that_fell_silent_stops_a_run),
        TEST(a_worker_that_does_not_run_and_data_that_lack_stop_a_run),
        TEST(other_bits_and_other_data_stop_a_run_other_processors_slow_it),
        TEST(a_host_that_listens_on_loopback_stops_a_run_unless_all_are_one_machine),
        TEST(a_host_that_cannot_listen_stops_a_run),
        TEST(cores_that_may_not_be_used_slow_a_run),
        TEST(too_few_files_stop_a_run_of_that_many_workers),
        TEST(little_memory_and_huge_pages_that_are_off_slow_a_run),
        TEST(memory_is_held_against_the_network_that_would_be_trained),
        TEST(what_cuda_lacks_is_told_only_where_there_is_a_driver),
        TEST(memory_that_cannot_be_shared_slows_who_has_two_processes_on_a_host),
        TEST(an_own_name_that_stands_for_loopback_is_told),
        TEST(a_clock_is_wrong_when_it_is_so_for_certain),
        TEST(bbr_is_told_with_what_is_taken_instead),
        TEST(names_versions_and_settings_that_differ_are_told),
        TEST(ways_that_are_closed_stop_a_run_and_a_host_that_nobody_reaches_is_one_finding),
        TEST(who_reaches_nobody_is_one_finding),
        TEST(of_many_closed_ways_some_are_named_and_all_are_counted),
        TEST(a_way_that_carries_no_messages_stops_a_run),
        TEST(a_way_whose_second_port_does_not_answer_slows_a_run),
        TEST(a_way_much_slower_than_the_middle_one_slows_a_run),
        TEST(of_two_hosts_a_way_much_slower_than_the_one_back_slows_a_run),
        TEST(a_host_that_does_not_reach_itself_stops_a_run),
        TEST(another_route_and_names_that_lack_are_told),
        TEST(a_directory_that_cannot_be_written_stops_a_run),
        TEST(findings_come_by_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
