/* Which machine this is. No state; any thread. */
#ifndef PSR_BASE_MACHINE_H
#define PSR_BASE_MACHINE_H

#define PSR_MACHINE_BYTES 64

/* What tells this machine, as long as it runs, from every other: the same in all its namespaces. "" when it is not known. */
void psr_machine_id(char id[PSR_MACHINE_BYTES]);

#endif
