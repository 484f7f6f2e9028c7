/* What the files of tables share: comm/psring/table.c, which opens, pushes, pulls and closes,
 * comm/psring/table_state.c, which reads and writes, comm/psring/residual.c, which does so with
 * what a worker owes, and comm/psring/table_set.c, which sets the arguments of updates. Within a
 * call. */
#ifndef PSR_COMM_PSRING_TABLE_SHARED_H
#define PSR_COMM_PSRING_TABLE_SHARED_H

#include "comm/psring/internal.h"

/* A table's calls take a deadline and a name only. USAGE: there is more. */
psr_err psr_table_call_read(const char *what, const psring_call *given, psring_call *ret_call);
/* USAGE: the memory is NULL, or not aligned for values of so many bytes. */
psr_err psr_table_check_values(const char *what, const void *values, size_t value_bytes);
/* USAGE: a push or a pull of the table is under way, or its end was not told. */
psr_err psr_table_check_idle(const psring_table *table, const char *what);
/* *ret_part is the part or PSR_NODE_ALL_PARTS, *ret_count its number of values. USAGE: there is no
 * such part. */
psr_err psr_table_find_part(const psring_table *table, const char *what, size_t part,
                            uint32_t *ret_part, size_t *ret_count);
/* Gathers each rank's bytes, a multiple of eight, on all ranks. all: bytes for each rank of the
 * group. *ret_number: the number of the call in the group. */
psr_err psr_table_gather(psr_kind kind, const psring_group *group, const void *own, void *all,
                         size_t bytes, const psring_call *call, uint64_t *ret_number);
/* MISMATCH for the whole group: its first rank and its rank r call something else. first, other:
 * what each of them does, as in "sets ..". number: of the call in the group. */
psr_err psr_table_differ(const psring_group *group, uint32_t r, uint64_t number, const char *first,
                         const char *other);
/* Returns err. If a shard has failed, the detail says that the table is lost. */
psr_err psr_table_name_loss(const psring_table *table, psr_err err);

#endif
