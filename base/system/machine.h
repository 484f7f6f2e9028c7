/* Which machine this is. No state; any thread. */
#ifndef PSR_BASE_SYSTEM_MACHINE_H
#define PSR_BASE_SYSTEM_MACHINE_H

#include <stddef.h>

#define PSR_MACHINE_BYTES 64

/* A text that identifies this machine until it reboots: no other machine has it, and all its
 * namespaces (containers) have the same. "" when it is not known. */
void psr_machine_id(char id[PSR_MACHINE_BYTES]);

/* The processor's name as the kernel tells it ("Intel(R) Xeon(R) ..."), else its instruction set
 * ("aarch64"); cut to size. */
void psr_machine_processor(char *name, size_t size);

#endif
