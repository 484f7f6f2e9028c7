#include "deploy/lab/loss.h"

#include "deploy/lab/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEVICE "eth0"

static int bpf(int command, union bpf_attr *attributes)
{
    return (int)syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

static uint64_t address_of(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

static psr_err refused(const char *what)
{
    return psr_fail(PSR_ERR_UNSUPPORTED,
                    errno == EPERM
                        ? "loss=: %s: %s; packets are lost for root alone, so leave loss out, or "
                          "run it as root"
                        : "loss=: %s: %s",
                    what, strerror(errno));
}

/* An array of one count. */
static int make_counter(void)
{
    union bpf_attr a = {.map_type = BPF_MAP_TYPE_ARRAY,
                        .key_size = sizeof(uint32_t),
                        .value_size = sizeof(uint64_t),
                        .max_entries = 1};
    return bpf(BPF_MAP_CREATE, &a);
}

/* A 32-bit random number below share * 2^32: counted and dropped. */
static int load_program(double share, int counter)
{
    const struct bpf_insn program[] = {
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_prandom_u32},
        {.code = BPF_ALU | BPF_MOV | BPF_K,
         .dst_reg = 1,
         .imm = (int32_t)(uint32_t)(share * 0x1p32)},
        {.code = BPF_JMP32 | BPF_JLT | BPF_X, .dst_reg = 0, .src_reg = 1, .off = 2},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_EXIT},
        {.code = BPF_LD | BPF_DW | BPF_IMM,
         .dst_reg = 1,
         .src_reg = BPF_PSEUDO_MAP_VALUE,
         .imm = counter},
        {.code = 0}, /* the other half of the address: the first value */
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = 1},
        {.code = BPF_STX | BPF_DW | BPF_ATOMIC, .dst_reg = 1, .src_reg = 2, .imm = BPF_ADD},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = XDP_DROP},
        {.code = BPF_JMP | BPF_EXIT}};
    union bpf_attr a = {.prog_type = BPF_PROG_TYPE_XDP,
                        .insn_cnt = sizeof program / sizeof *program,
                        .insns = address_of(program),
                        .license = address_of("GPL")};
    return bpf(BPF_PROG_LOAD, &a);
}

/* In the network that this process is in. */
static psr_err attach(double share, psr_lab_loss *ret_loss)
{
    psr_lab_loss loss = {.link = -1, .counter = make_counter()};
    if (loss.counter < 0)
        return refused("a counter in the kernel");
    const int program = load_program(share, loss.counter);
    if (program >= 0) {
        union bpf_attr a = {.link_create = {.prog_fd = (uint32_t)program,
                                            .target_ifindex = if_nametoindex(DEVICE),
                                            .attach_type = BPF_XDP}};
        loss.link = bpf(BPF_LINK_CREATE, &a);
    }
    psr_err err = loss.link < 0 ? refused("a program in the kernel") : PSR_OK;
    if (program >= 0)
        close(program);
    if (err != PSR_OK)
        close(loss.counter);
    else
        *ret_loss = loss;
    return err;
}

psr_err psr_lab_loss_begin(pid_t holder, double share, psr_lab_loss *ret_loss)
{
    const int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (own < 0)
        return psr_fail(PSR_ERR_IO, "/proc/self/ns/net: %s", strerror(errno));
    psr_err err = psr_lab_enter(holder, false);
    if (err == PSR_OK) {
        err = attach(share, ret_loss);
        if (setns(own, CLONE_NEWNET) != 0) /* what was attached goes with this process */
            err = psr_fail(PSR_ERR_IO, "back to the lab's switches: %s", strerror(errno));
    }
    close(own);
    return err;
}

psr_err psr_lab_loss_count(const psr_lab_loss *loss, uint64_t *ret_packets)
{
    uint32_t key = 0;
    uint64_t packets = 0;
    union bpf_attr a = {
        .map_fd = (uint32_t)loss->counter, .key = address_of(&key), .value = address_of(&packets)};
    if (bpf(BPF_MAP_LOOKUP_ELEM, &a) != 0)
        return psr_fail(PSR_ERR_IO, "how many packets were lost: %s", strerror(errno));
    *ret_packets = packets;
    return PSR_OK;
}
