/* `psring-ps serve`: a shard of libpsring's tables (psring/psring.h), which `psring run --shards`
 * starts after the program's ranks. It finds its place in the environment as any rank does. */
#ifndef PSR_PS_TABLES_SERVE_H
#define PSR_PS_TABLES_SERVE_H

#include "base/err.h"

#include <stddef.h>

/* Joins, serves until the others have left, and leaves. Fails as these calls do; ret_line says
 * why. */
PSR_MUST_CHECK psr_err psr_tables_serve(char *ret_line, size_t line_bytes);

#endif
