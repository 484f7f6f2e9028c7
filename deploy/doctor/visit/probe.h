/* The probe of psring doctor: one on each host, started by that host's agent with the provision of
 * a worker, whose rank is the host's number. It looks at its host, listens as a worker would, and
 * measures the way to one other probe at a time. It does nothing by itself and ends with its
 * standard input.
 *
 * Behind the provision, JSON objects, one a line. Launcher to probe, each answered when it is done:
 *   {"op":"examine","within_ms":10000,"data":"/d","names":["n1","n2"],"clock_fault_s":0}
 *                                              data: may be missing; clock_fault_s: for tests,
 *                                              added to its clock
 *   {"op":"read","within_ms":100000,"data":"/d"}
 *                                              the data set, to its end
 *   {"op":"clock","number":3}
 *   {"op":"reach","within_ms":3000,"endpoints":["tcp://10.0.0.1:4242",""]}
 *                                              in the hosts' order; "": not to be tried
 *   {"op":"meet","rank":1,"endpoint":"tcp://10.0.0.1:4242"}
 *                                              a channel to that probe, in the place of the one
 *                                              before
 *   {"op":"measure","bytes_ms":100,"within_ms":5000}
 *                                              the way to the probe that was met
 * Probe to launcher:
 *   {"answer":"examine","facts":{..},"looked_up":["10.0.0.1",""]}
 *   {"answer":"read","content":"..","failure":""}          one of both is ""
 *   {"answer":"clock","number":3,"time_s":1763842.25}      CLOCK_REALTIME
 *   {"answer":"reach","reached":[{"source":"10.0.0.2","failure":""},null]}
 *   {"answer":"meet","failure":""}
 *   {"answer":"measure","round_trip_ns":90000,"bytes_per_s":1e9,"unsealed_ms":0,
 *    "unsealed_port":0,"failure":""}           unsealed_ms: so long no second connection has come
 *                                              about, on which messages go sealed; 0: it has */
#ifndef PSR_DEPLOY_DOCTOR_VISIT_PROBE_H
#define PSR_DEPLOY_DOCTOR_VISIT_PROBE_H

/* `psring probe`. Returns the exit status. */
int psr_probe_main(void);

#endif
