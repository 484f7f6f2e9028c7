/* Serves a run's figures over HTTP, at /metrics. A thread of its own answers, so that a client, how
 * slow or hostile it may be, holds up no step: connections are few, each gets one answer and ends
 * soon, and the oldest makes room for a newer one. Nothing that a client sends changes anything. */
#ifndef PSR_PS_SCHEDULER_PROMETHEUS_ENDPOINT_H
#define PSR_PS_SCHEDULER_PROMETHEUS_ENDPOINT_H

#include "base/config/config.h"
#include "ps/scheduler/prometheus/exposition.h"

typedef struct psr_endpoint psr_endpoint;

/* OK, or UNSUPPORTED: this program was built without libmicrohttpd. */
PSR_MUST_CHECK psr_err psr_endpoint_check(void);

/* Listens, and answers from then on. exposition: borrowed for the endpoint's life. IO: the port is
 * taken, or may not be had. NOMEM, UNSUPPORTED. The caller owns *ret_endpoint. */
PSR_MUST_CHECK psr_err psr_endpoint_new(const psr_metrics_port *at, psr_exposition *exposition,
                                        psr_endpoint **ret_endpoint);
/* Ends all connections. NULL allowed. */
void psr_endpoint_free(psr_endpoint *endpoint);

/* "http://127.0.0.1:9100/metrics", with the port that it has. Borrowed. */
const char *psr_endpoint_url(const psr_endpoint *endpoint);

#endif
