#include "deploy/doctor/findings/findings_private.h"

#include "net/address/interface.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* psring never compares the clocks of two hosts, but people who read the logs of both do. */
#define CLOCK_APART_S 0.5
#define OUT_LEAST_BYTES ((uint64_t)1 << 30)

const char *psr_finding_level_name(psr_finding_level level)
{
    static const char *const names[] = {"stops", "slows", "untested", "note"};
    return (size_t)level < sizeof names / sizeof *names ? names[level] : "?";
}

uint64_t psr_findings_files_needed(uint32_t workers)
{
    return 6 * (uint64_t)workers + 192; /* of these 64 for connections of
                                           strangers (net/zmq/inbox/half_open.h) */
}

bool psr_checkup_host_probed(const psr_checkup_host *host)
{
    return host->stage == PSR_DOCTOR_PROBED;
}

void psr_findings_add(psr_findings *f, psr_finding_level level, const char *check,
                      const char *where, const char *right, const char *what, ...)
{
    psr_finding *grown = realloc(f->items, (f->count + 1) * sizeof *grown);
    va_list args;
    if (grown == NULL) {
        f->failed = true;
        return;
    }
    f->items = grown;
    psr_finding *finding = &grown[f->count++];
    *finding = (psr_finding){.level = level, .check = check};
    snprintf(finding->where, sizeof finding->where, "%s", where);
    snprintf(finding->right, sizeof finding->right, "%s", right);
    va_start(args, what);
    vsnprintf(finding->what, sizeof finding->what, what, args);
    va_end(args);
}

/* ---- one host ---- */

/* The text of psr_host_no_agent names the host and the failure and, after a semicolon, what to
 * do. */
static void judge_login(const psr_checkup_host *h, psr_findings *f)
{
    char who[PSR_HOST_NAME_MAX + 8];
    const char *what = h->failure;
    snprintf(who, sizeof who, "host %s", h->host.name);
    if (strncmp(what, who, strlen(who)) == 0)
        what += strlen(who) + strspn(what + strlen(who), ": ");
    const char *right = strstr(what, "; ");
    psr_findings_add(f, PSR_FINDING_STOPS, "login", h->host.name, right != NULL ? right + 2 : "",
                     "%.*s", (int)(right != NULL ? right - what : (ptrdiff_t)strlen(what)), what);
}

static void judge_answers(const psr_checkup_host *h, psr_findings *f)
{
    psr_findings_add(
        f, PSR_FINDING_STOPS, "answer", h->host.name,
        h->silent
            ? "look at that host: a disk or file server that does not answer, or a stopped process?"
            : "",
        "%s", h->failure);
}

static void judge_programs(const psr_checkup_host *h, psr_findings *f)
{
    const psr_host_facts *facts = &h->facts;
    if (facts->worker_failure[0] != '\0')
        psr_findings_add(
            f, PSR_FINDING_STOPS, "program", h->host.name,
            "install psring whole, with the libraries that it needs (deploy/packages run)", "%s",
            facts->worker_failure);
    if (facts->path_program[0] != '\0' && strcmp(facts->path_version, PSR_VERSION) != 0)
        psr_findings_add(f, PSR_FINDING_NOTE, "path", h->host.name,
                         "remove it, or give its place to this version",
                         "the psring in PATH is another: %s is version %s", facts->path_program,
                         facts->path_version);
}

static void judge_data(const psr_checkup *c, const psr_checkup_host *h, psr_findings *f)
{
    if (c->data != NULL && h->facts.data_failure[0] != '\0')
        psr_findings_add(f, PSR_FINDING_STOPS, "data", h->host.name,
                         "put the data there under the same path, or mount it", "%s",
                         h->facts.data_failure);
}

/* Whether a host is another machine than h. If all hosts are one machine, as in a test, they
 * connect over loopback. */
static bool has_others(const psr_checkup *c, const psr_checkup_host *h)
{
    for (size_t i = 0; i < c->count; i++)
        if (&c->hosts[i] != h &&
            (h->machine[0] == '\0' || strcmp(c->hosts[i].machine, h->machine) != 0))
            return true;
    return false;
}

static void judge_listening(const psr_checkup *c, const psr_checkup_host *h, psr_findings *f)
{
    if (h->facts.listen_failure[0] != '\0')
        psr_findings_add(f, PSR_FINDING_STOPS, "listen", h->host.name,
                         "name an interface that every host has by --interface", "%s",
                         h->facts.listen_failure);
    else if (has_others(c, h) && psr_address_is_loopback(h->facts.address))
        psr_findings_add(f, PSR_FINDING_STOPS, "listen", h->host.name,
                         "name the network by --interface, or write another name of this host",
                         "its processes would listen on %s, where no other host reaches them",
                         h->facts.address);
}

static void judge_processor(const psr_checkup_host *h, psr_findings *f)
{
    const psr_host_facts *facts = &h->facts;
    const double limit = (double)facts->cpu_limit_milli / 1000;
    if (facts->cpu_limit_milli < facts->cores * 1000)
        psr_findings_add(f, PSR_FINDING_SLOWS, "cores", h->host.name,
                         "give --threads by what it may use, or raise cpu.max",
                         "it has %" PRIu64 " cores, of which its control group gets %.1f: threads "
                         "for all of them would wait for one another",
                         facts->cores, limit);
    else if (facts->cores_allowed < facts->cores)
        psr_findings_add(f, PSR_FINDING_SLOWS, "cores", h->host.name,
                         "give --threads by what it may use, or widen the set (taskset, cpuset)",
                         "it has %" PRIu64 " cores, of which processes may use %" PRIu64,
                         facts->cores, facts->cores_allowed);
    else if (h->host.slots > facts->cores)
        psr_findings_add(f, PSR_FINDING_SLOWS, "cores", h->host.name, "give it fewer slots",
                         "%" PRIu32 " slots share %" PRIu64 " cores", h->host.slots, facts->cores);
}

static void judge_limits(const psr_checkup *c, const psr_checkup_host *h, psr_findings *f)
{
    const psr_host_facts *facts = &h->facts;
    uint64_t needed = psr_findings_files_needed(psr_checkup_slots(c));
    if (facts->files_max < needed)
        psr_findings_add(f, PSR_FINDING_STOPS, "files", h->host.name,
                         "raise it: /etc/security/limits.conf, or LimitNOFILE of sshd's service",
                         "a process may open %" PRIu64 " files (ulimit -Hn); %" PRIu32
                         " workers may need %" PRIu64,
                         facts->files_max, psr_checkup_slots(c), needed);
    if (strcmp(facts->huge_pages, "never") == 0)
        psr_findings_add(
            f, PSR_FINDING_SLOWS, "huge-pages", h->host.name,
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            "transparent huge pages are off; psring asks for them for weights and gradients");
}

/* Where there is a driver. psring computes on processors, so nothing of it stops a run. */
static void judge_gpus(const psr_checkup_host *h, psr_findings *f)
{
    const psr_host_facts *facts = &h->facts;
    if (facts->cuda_libraries[0] != '\0' && facts->cuda_missing[0] != '\0')
        psr_findings_add(f, PSR_FINDING_NOTE, "cuda", h->host.name, "", "%s", facts->cuda_missing);
}

/* Processes of one host share memory, by a directory that is made for the run; where all are on one
 * host, their sockets are in it too. */
static void judge_sharing(const psr_checkup *c, const psr_checkup_host *h, psr_findings *f)
{
    const psr_host_facts *facts = &h->facts;
    const char *filter = facts->seccomp != 0 ? "; a filter of system calls (seccomp) is on" : "";
    const psr_finding_level matters = h->host.slots > 1 ? PSR_FINDING_SLOWS : PSR_FINDING_NOTE;
    if (facts->sockets_failure[0] != '\0')
        psr_findings_add(
            f, c->count == 1 ? PSR_FINDING_STOPS : matters, "shared-memory", h->host.name,
            "let this user write to $XDG_RUNTIME_DIR or /tmp, or give --transport tcp",
            "no directory can be made for the sockets of a run: %s", facts->sockets_failure);
    if (facts->sharing_failure[0] != '\0')
        psr_findings_add(f, matters, "shared-memory", h->host.name,
                         "allow memfd_create to this user's processes",
                         "processes on this host cannot share memory: %s%s", facts->sharing_failure,
                         filter);
    if (facts->shm_free_bytes == 0)
        psr_findings_add(f, PSR_FINDING_NOTE, "shared-memory", h->host.name,
                         "mount a tmpfs there for programs that need it (docker run --shm-size)",
                         "/dev/shm is missing or full; psring does not need it, but NCCL, MPI and "
                         "PyTorch's loader do");
}

static void judge_own_name(const psr_checkup_host *h, psr_findings *f)
{
    const psr_host_facts *facts = &h->facts;
    if (facts->own_address[0] == '\0')
        psr_findings_add(f, PSR_FINDING_NOTE, "names", h->host.name, "add it to /etc/hosts there",
                         "its own name, %s, is not found there", facts->hostname);
    else if (!h->reached.here && psr_address_is_loopback(facts->own_address))
        psr_findings_add(
            f, PSR_FINDING_NOTE, "names", h->host.name,
            "give the name its network address in /etc/hosts there",
            "its own name, %s, stands for %s there (as Debian sets it up): psring works with that, "
            "but Gloo, NCCL and MPI may listen where no other host reaches them",
            facts->hostname, facts->own_address);
}

static void judge_clock(const psr_checkup_host *h, psr_findings *f)
{
    if (psr_checkup_host_probed(h) && !h->clock_known)
        psr_findings_add(f, PSR_FINDING_UNTESTED, "clock", h->host.name, "",
                         "its clock was not compared");
    if (!h->clock_known || fabs(h->clock_s) - h->clock_within_s < CLOCK_APART_S)
        return;
    psr_findings_add(f, PSR_FINDING_SLOWS, "clock", h->host.name,
                     "set it by NTP: timedatectl set-ntp true, or chrony",
                     "its clock is %.3f s %s this machine's (give or take %.3f s): times in logs "
                     "and run.json mislead",
                     fabs(h->clock_s), h->clock_s > 0 ? "ahead of" : "behind", h->clock_within_s);
}

static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = strstr(list, word); at != NULL; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

/* What psring takes there instead of BBR (net/address/tcp_congestion.h); "": it may take nothing
 * else. */
static const char *instead_of_bbr(const psr_host_facts *facts)
{
    return has_word(facts->congestion_allowed, "cubic")  ? "cubic"
           : has_word(facts->congestion_allowed, "reno") ? "reno"
                                                         : "";
}

/* Once for all hosts of which the same is true. */
static void judge_congestion(const psr_checkup *c, psr_findings *f)
{
    static const char *const taken[] = {"cubic", "reno", ""};
    for (size_t t = 0; t < sizeof taken / sizeof *taken && c->count > 1; t++) {
        const psr_checkup_host *first = NULL;
        size_t count = 0;
        for (size_t i = 0; i < c->count; i++) {
            const psr_checkup_host *h = &c->hosts[i];
            if (!psr_checkup_host_probed(h) || strncmp(h->facts.congestion, "bbr", 3) != 0 ||
                strcmp(instead_of_bbr(&h->facts), taken[t]) != 0)
                continue;
            first = first != NULL ? first : h;
            count++;
        }
        if (count == 0)
            continue;
        char where[300];
        if (count == 1)
            snprintf(where, sizeof where, "%s", first->host.name);
        else
            snprintf(where, sizeof where, "%s and %zu other%s", first->host.name, count - 1,
                     count == 2 ? "" : "s");
        if (taken[t][0] != '\0')
            psr_findings_add(f, PSR_FINDING_NOTE, "tcp", where, "",
                             "TCP there controls congestion by bbr, under which workers that send "
                             "to one shard overflow the queue before it; psring takes %s for its "
                             "own connections to hosts less than 5 ms away",
                             taken[t]);
        else
            psr_findings_add(f, PSR_FINDING_SLOWS, "tcp", where,
                             "set net.ipv4.tcp_congestion_control to cubic, or allow cubic by "
                             "net.ipv4.tcp_allowed_congestion_control",
                             "TCP there controls congestion by bbr, under which workers that send "
                             "to one shard overflow the queue before it, and programs may not "
                             "choose another");
    }
}

static void judge_host(const psr_checkup *c, const psr_checkup_host *h, psr_findings *f)
{
    if (h->stage == PSR_DOCTOR_NO_AGENT)
        judge_login(h, f);
    else if (h->failure[0] != '\0')
        judge_answers(h, f);
    if (!psr_checkup_host_probed(h)) {
        psr_findings_add(f, PSR_FINDING_UNTESTED, "answer", h->host.name, "",
                         "nothing else is known of this host");
        return;
    }
    judge_programs(h, f);
    judge_data(c, h, f);
    judge_listening(c, h, f);
    judge_processor(h, f);
    psr_findings_of_memory(c, h, f);
    judge_limits(c, h, f);
    judge_sharing(c, h, f);
    judge_gpus(h, f);
    judge_own_name(h, f);
    judge_clock(h, f);
}

/* ---- hosts beside one another ---- */

/* Compares hashes of the samples if they are known: equal data may have other names. */
static void compare_data(const psr_host_facts *x, const psr_host_facts *y, const char *where,
                         psr_findings *f)
{
    const char *a = x->data_content, *b = y->data_content;
    if (a[0] == '\0' || b[0] == '\0') {
        if (x->data[0] && y->data[0] && strcmp(x->data, y->data) != 0)
            psr_findings_add(f, PSR_FINDING_STOPS, "data", where, "put the same data on all hosts",
                             "they have other data: %s; %s", x->data, y->data);
        return;
    }
    const char *const split[] = {"training", "test"};
    for (int s = 0; s < 2;
         s++, a += strcspn(a, "-"), a += *a == '-', b += strcspn(b, "-"), b += *b == '-')
        if (strncmp(a, b, PSR_CONTENT_DIGITS) != 0)
            psr_findings_add(f, PSR_FINDING_STOPS, "data", where, "put the same data on all hosts",
                             "they have other %s samples: %s (content %.16s); %s (content %.16s)",
                             split[s], x->data, a, y->data, b);
}

static void compare(const psr_checkup_host *a, const psr_checkup_host *b, psr_findings *f)
{
    char where[600];
    const psr_host_facts *x = &a->facts, *y = &b->facts;
    snprintf(where, sizeof where, "%s, %s", a->host.name, b->host.name);
    if (x->identity[0] && y->identity[0] && strcmp(x->identity, y->identity) != 0)
        psr_findings_add(
            f, PSR_FINDING_STOPS, "bits", where,
            "use the same oneDNN on the same kind of processor on all hosts",
            "they compute with %s and %s: their bits would differ, so a run refuses them",
            x->identity, y->identity);
    else if (strcmp(x->processor, y->processor) != 0 || x->l2_bytes != y->l2_bytes ||
             x->l3_bytes != y->l3_bytes)
        psr_findings_add(f, PSR_FINDING_SLOWS, "processor", where, "",
                         "they have other processors (%s; %s): in bsp all wait for the slowest",
                         x->processor, y->processor);
    compare_data(x, y, where, f);
    if (strcmp(x->library, y->library) != 0)
        psr_findings_add(f, PSR_FINDING_NOTE, "library", where, "", "they have %s and %s",
                         x->library, y->library);
    if (strcmp(x->congestion, y->congestion) != 0)
        psr_findings_add(f, PSR_FINDING_NOTE, "tcp", where,
                         "set net.ipv4.tcp_congestion_control to the same value",
                         "their TCP controls congestion by %s and %s", x->congestion,
                         y->congestion);
    if (x->mtu_bytes != y->mtu_bytes && x->mtu_bytes != 0 && y->mtu_bytes != 0)
        psr_findings_add(f, PSR_FINDING_SLOWS, "mtu", where, "give both interfaces the same MTU",
                         "packets have at most %" PRIu64 " bytes on %s, %" PRIu64
                         " on %s: large ones may be lost "
                         "between them",
                         x->mtu_bytes, x->interface, y->mtu_bytes, y->interface);
}

/* Compares all hosts with the first one that was probed. */
static void compare_all(const psr_checkup *c, psr_findings *f)
{
    judge_congestion(c, f);
    const psr_checkup_host *first = NULL;
    for (size_t i = 0; i < c->count; i++) {
        if (!psr_checkup_host_probed(&c->hosts[i]))
            continue;
        if (first != NULL)
            compare(first, &c->hosts[i], f);
        else
            first = &c->hosts[i];
    }
}

/* Two names of the hostfile that mean the same machine, or two machines with the same name. true:
 * this was reported. */
static bool find_double(const psr_checkup_host *a, const psr_checkup_host *b, psr_findings *f)
{
    char where[600];
    const bool one_machine = a->machine[0] != '\0' && strcmp(a->machine, b->machine) == 0;
    if (!psr_checkup_host_probed(a) ||
        (!one_machine && strcmp(a->facts.hostname, b->facts.hostname) != 0))
        return false;
    snprintf(where, sizeof where, "%s, %s", a->host.name, b->host.name);
    if (one_machine)
        psr_findings_add(f, PSR_FINDING_NOTE, "same-host", where,
                         "write it once, with all its slots, unless these are containers",
                         "they are the same machine and share its cores");
    else
        psr_findings_add(f, PSR_FINDING_NOTE, "same-host", where, "give each its own (hostnamectl)",
                         "both machines call themselves %s, so that their lines look alike",
                         a->facts.hostname);
    return true;
}

/* Reports each host with the first host that is the same machine. */
static void find_doubles(const psr_checkup *c, psr_findings *f)
{
    for (size_t k = 1; k < c->count; k++) {
        bool told = !psr_checkup_host_probed(&c->hosts[k]);
        for (size_t i = 0; i < k && !told; i++)
            told = find_double(&c->hosts[i], &c->hosts[k], f);
    }
}

static void judge_out(const psr_checkup *c, psr_findings *f)
{
    if (c->out == NULL)
        return;
    if (c->out_failure[0] != '\0')
        psr_findings_add(f, PSR_FINDING_STOPS, "out", "this machine",
                         "name another directory by --out", "%s cannot be written: %s", c->out,
                         c->out_failure);
    else if (c->out_free_bytes < OUT_LEAST_BYTES)
        psr_findings_add(f, PSR_FINDING_SLOWS, "out", "this machine",
                         "make room, or name another directory by --out",
                         "%.2f GiB are free for %s, where checkpoints go",
                         (double)c->out_free_bytes / (1 << 30), c->out);
}

/* ---- all ---- */

/* Sorts the findings by level; within a level they keep their order. */
static psr_err sort(psr_findings *f)
{
    psr_finding *sorted = malloc((f->count + 1) * sizeof *sorted);
    size_t at = 0;
    if (sorted == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu findings", f->count);
    for (psr_finding_level level = 0; level < PSR_FINDING_LEVELS; level++)
        for (size_t i = 0; i < f->count; i++)
            if (f->items[i].level == level)
                sorted[at++] = f->items[i];
    free(f->items);
    f->items = sorted;
    return PSR_OK;
}

psr_err psr_findings_make(const psr_checkup *c, psr_findings *ret_findings)
{
    psr_findings f = {0};
    for (size_t i = 0; i < c->count; i++)
        judge_host(c, &c->hosts[i], &f);
    compare_all(c, &f);
    find_doubles(c, &f);
    psr_findings_of_ways(c, &f);
    judge_out(c, &f);
    psr_err err = f.failed ? psr_fail(PSR_ERR_NOMEM, "no memory for findings") : sort(&f);
    if (err != PSR_OK)
        psr_findings_done(&f);
    else
        *ret_findings = f;
    return err;
}

void psr_findings_done(psr_findings *f)
{
    free(f->items);
    *f = (psr_findings){0};
}

size_t psr_findings_at(const psr_findings *f, psr_finding_level level)
{
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++)
        count += f->items[i].level == level;
    return count;
}
