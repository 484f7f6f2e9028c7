/* Preloaded beside a copy of oneDNN in which every cpuid instruction is an undefined one
 * (with_played_amx.py): answers them as a processor with AMX would, and the system call by which
 * its use is asked for. Plans can be made then; AMX's instructions are still not there. Every
 * processor with AMX has AVX512-FP16 and AVX-VNNI too, without which oneDNN 3 believes in none. */
#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define TILE_LEAF 0x1d
#define PRODUCT_LEAF 0x1e
#define FEATURES_LEAF 7
#define AMX_BF16 (1u << 22)
#define AVX512_FP16 (1u << 23)
#define AMX_TILE (1u << 24)
#define AMX_INT8 (1u << 25)
#define AVX_VNNI (1u << 4) /* of part 1 */

enum { ARCH_GET_XCOMP_SUPP = 0x1021, ARCH_GET_XCOMP_PERM, ARCH_REQ_XCOMP_PERM };

static void answer_cpuid(greg_t *registers)
{
    const uint32_t leaf = (uint32_t)registers[REG_RAX], part = (uint32_t)registers[REG_RCX];
    uint32_t a, b, c, d;
    __cpuid_count(leaf, part, a, b, c, d);
    if (leaf == 0 && a < PRODUCT_LEAF)
        a = PRODUCT_LEAF;
    if (leaf == FEATURES_LEAF && part == 0)
        d |= AMX_BF16 | AMX_TILE | AMX_INT8 | AVX512_FP16;
    if (leaf == FEATURES_LEAF && part == 1)
        a |= AVX_VNNI;
    if (leaf == TILE_LEAF && part == 0) { /* one palette */
        a = 1;
        b = c = d = 0;
    } else if (leaf == TILE_LEAF) { /* eight tiles of sixteen rows of 64 bytes */
        a = 8192 | 1024u << 16;
        b = 64 | 8u << 16;
        c = 16;
        d = 0;
    } else if (leaf == PRODUCT_LEAF) {
        a = c = d = 0;
        b = 16 | 64u << 8;
    }
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

static void on_undefined(int number, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *instruction = (const uint8_t *)registers[REG_RIP];
    (void)info;
    if (instruction[0] == 0x0f && instruction[1] == 0x0b)
        answer_cpuid(registers);
    else
        signal(number, SIG_DFL); /* it comes again */
}

static long kernel(long number, const long arguments[6])
{
    long result;
    register long fourth __asm__("r10") = arguments[3];
    register long fifth __asm__("r8") = arguments[4];
    register long sixth __asm__("r9") = arguments[5];
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]),
                       "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    if (result >= 0 || result < -4095)
        return result;
    errno = (int)-result;
    return -1;
}

/* In the place of glibc's. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_arch_prctl && arguments[0] == ARCH_REQ_XCOMP_PERM)
        return 0;
    if (number == SYS_arch_prctl &&
        (arguments[0] == ARCH_GET_XCOMP_SUPP || arguments[0] == ARCH_GET_XCOMP_PERM)) {
        *(uint64_t *)arguments[1] = 1u << 17 | 1u << 18;
        return 0;
    }
    return kernel(number, arguments);
}

/* Linked with -z initfirst: oneDNN asks when it is loaded. */
__attribute__((constructor)) static void begin(void)
{
    const struct sigaction action = {.sa_sigaction = on_undefined, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, NULL);
}
