/* What PyTorch's variables and options have in common. For comm/start's own files. */
#ifndef PSR_COMM_START_TORCH_H
#define PSR_COMM_START_TORCH_H

#include "comm/start/start.h"

/* Sets the scheduler's port and the job's identity of a run whose ranks meet at a known address and
 * master_port (0: none). USAGE. */
PSR_MUST_CHECK psr_err psr_start_torch_meeting(psr_start *start, uint16_t master_port,
                                               const char *run);

#endif
