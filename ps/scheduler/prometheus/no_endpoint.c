/* For a build without libmicrohttpd. */
#include "ps/scheduler/prometheus/endpoint.h"

psr_err psr_endpoint_check(void)
{
    return psr_fail(PSR_ERR_UNSUPPORTED,
                    "--metrics-port: this psring was built without libmicrohttpd; leave it out");
}

psr_err psr_endpoint_new(const psr_metrics_port *at, psr_exposition *exposition,
                         psr_endpoint **ret_endpoint)
{
    (void)at, (void)exposition, (void)ret_endpoint;
    return psr_endpoint_check();
}

void psr_endpoint_free(psr_endpoint *endpoint)
{
    (void)endpoint;
}

const char *psr_endpoint_url(const psr_endpoint *endpoint)
{
    (void)endpoint;
    return "";
}
