/* The agent: one per host, started by the launcher (directly on its own host, through ssh
 * elsewhere). It starts and ends that host's processes, passes their lines on, and dies with its
 * launcher: the end of its standard input, or silence for longer than the deadline, kills what it
 * started. One that is silent for as long ends the run.
 *
 * JSON objects, one a line. Launcher to agent:
 *   {"op":"begin","deadline_s":30,"sockets":"/run/user/7/psring-x"}
 *                                        once, first. sockets: of a run on one host, to be made
 *                                        now, and removed at the end
 *   {"op":"begin","deadline_s":30,"share":true}
 *                                        of a run over TCP: a directory is made in which its
 *                                        processes share memory
 *   {"op":"spawn","role":"worker","rank":0,"cpus":"0-3,8","provision":{...}}
 *                                        psring-worker, or of role "shard" psring-ps; cpus: the
 *                                        processors that it is bound to, and may be missing
 *   {"op":"program","program":{"words":["./a","1"],"variables":[],"directory":"/home/u",
 *    "output":"","ranks":8,"deadline_s":30}}
 *                                        of psring run, before the first spawn: that is run in the
 *                                        place of psring-worker. From here alone an agent hears of
 *                                        any other program
 *   {"op":"variables","variables":["OMP_PROC_BIND=true"]}
 *                                        before the first spawn: for psring's own two programs,
 *                                        beside what is in the agent's environment
 *   {"op":"probe"}                       of psring doctor, before the first spawn: workers are
 *                                        psring probe (deploy/doctor/visit/probe.h)
 *   {"op":"tell","role":"worker","rank":0,"text":"..."}         a line for that probe
 *   {"op":"listen","interface":"10.0.0.2"}
 *   {"op":"link","address":"10.0.0.3","port":4243,"token":"..","own_token":".."}
 *                                        how fast the link is (deploy/agent/link_rate.h): to be
 *                                        measured by all agents at the same time, before the
 *                                        first spawn; each is answered, in this order
 *   {"op":"alive"}                       at least four times a deadline; it is answered
 *   {"op":"pause"}, {"op":"go_on"}       Ctrl-Z: stop its processes and count no time; let them go
 *                                        on. The agent itself stays awake
 *   {"op":"end","grace_ms":1500}         wait that long for its processes, then kill; then leave
 * Agent to launcher:
 *   {"event":"hello","version":"0.1.0","host":"node1","cores":8,"address":"10.0.0.2",
 *    "launcher_address":"10.0.0.1","machine":"...","topology":[[[0,4],[1,5]],[[2,6],[3,7]]]}
 *                                        the answer to "begin"; the directory of sockets is
 *                                        there. cores: processors that it may use; topology: NUMA
 *                                        nodes, cores, processors (deploy/agent/topology.h), and
 *                                        may be missing
 *   {"event":"alive"}
 *   {"event":"listens","address":"10.0.0.2","port":4242,"failure":""}
 *   {"event":"link","bits_per_s":95600000,"failure":""}
 *                                        what came in; 0: failure says why it is not known
 *   {"event":"line","role":"worker","rank":0,"stream":"out","text":"..."}
 *   {"event":"paused"}                   the answer to "pause"
 *   {"event":"exited","role":"worker","rank":0,"ok":false,"how":"killed by signal 9 (Killed)"} */
#ifndef PSR_DEPLOY_AGENT_H
#define PSR_DEPLOY_AGENT_H

/* `psring agent`: runs until its launcher or its last process has ended. Returns the exit
 * status. */
int psr_agent_main(void);

#endif
