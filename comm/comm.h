/* The communicator: what stands between net (bytes between two processes) and those who exchange
 * (worker, ps), launch (deploy) or measure (bench). Its users include this header and no other of
 * comm's; house_rules holds it.
 *
 *     who takes part, and who holds what    view.h, plan.h
 *     joining, and hearing that all live    members/: member.h (a process's side), coordinator.h
 *                                           (the scheduler's), provision.h, shared_memory.h,
 *                                           unreached.h
 *     values, and how they are combined     buffer.h, reduce.h
 *     operations of a group of ranks        collectives/: group.h, block.h, halo.h, call.h,
 *                                           algorithm_choice.h
 *     ranks of any program                  node/judge.h (what failing one by one adds to the
 *                                           coordinator)
 *     what moves values in training         operations/: operation.h, ring.h; early.h, loan.h,
 *                                           own_messages.h
 *     push and pull                         tables/: table.h (a worker's end), table_shard.h (a
 *                                           shard's), host_ring.h (what hosts hold, over all of
 *                                           them), update.h, consistency.h
 *     what messages say                     wire/: messages.h (heads by name), encoding.h (values
 *                                           in payloads), compression/ (in fewer bytes)
 *     from one view to the next             epoch_gate.h, handover.h, view_queue.h
 *     the progress thread                   loop.h
 *     launcher and scheduler                launcher_line.h
 *     a process and who started it          start/: start.h (its place by the environment),
 *                                           meeting.h (where the scheduler is), job_folder.h (by
 *                                           sockets that only this job has), meeting_file.h (by a
 *                                           file in a folder that several hosts see) */
#ifndef PSR_COMM_COMM_H
#define PSR_COMM_COMM_H

#include "comm/buffer.h"
#include "comm/collectives/algorithm_choice.h"
#include "comm/collectives/block.h"
#include "comm/collectives/call.h"
#include "comm/collectives/group.h"
#include "comm/collectives/halo.h"
#include "comm/epoch_gate.h"
#include "comm/handover.h"
#include "comm/launcher_line.h"
#include "comm/loop.h"
#include "comm/members/join.h"
#include "comm/members/coordinator.h"
#include "comm/members/member.h"
#include "comm/members/provision.h"
#include "comm/members/scheduler_loop.h"
#include "comm/members/shared_memory.h"
#include "comm/members/unreached.h"
#include "comm/node/judge.h"
#include "comm/operations/early.h"
#include "comm/operations/fences.h"
#include "comm/operations/loan.h"
#include "comm/operations/operation.h"
#include "comm/operations/own_messages.h"
#include "comm/operations/ring.h"
#include "comm/outbox.h"
#include "comm/plan.h"
#include "comm/reduce.h"
#include "comm/start/job_folder.h"
#include "comm/start/meeting.h"
#include "comm/start/meeting_file.h"
#include "comm/start/start.h"
#include "comm/tables/consistency.h"
#include "comm/tables/host_ring.h"
#include "comm/tables/table.h"
#include "comm/tables/table_shard.h"
#include "comm/tables/update.h"
#include "comm/view.h"
#include "comm/view_queue.h"
#include "comm/wire/compression/compression.h"
#include "comm/wire/encoding.h"
#include "comm/wire/messages.h"

#endif
