#include "deploy/lab/network.h"

#include "base/text/json.h"

#include <inttypes.h>
#include <string.h>

/* More than all connections of a host may have in it: thousands of them, at 256 KiB each. */
#define HOST_QUEUE_BYTES (1u << 30)

void psr_lab_network_links(const psr_lab *lab, const pid_t *holders, FILE *to)
{
    for (size_t k = 0; k < lab->switch_count; k++)
        fprintf(to, "link add br%zu type bridge\nlink set br%zu up\n", k, k);
    for (size_t k = 1; k < lab->switch_count; k++)
        fprintf(to,
                "link add down%zu type veth peer name up%zu\n"
                "link set down%zu master br0 up\nlink set up%zu master br%zu up\n",
                k, k, k, k, k);
    for (size_t i = 0; i < lab->host_count; i++)
        fprintf(to,
                "link add port%zu type veth peer name eth0 netns %d\n"
                "link set port%zu master br%u up\n",
                i, (int)holders[i], i, lab->hosts[i].in_switch);
}

static void queue(const psr_lab_link *link, const char *device, size_t index, FILE *to)
{
    fprintf(to,
            "qdisc add dev %s%zu root tbf rate %" PRIu64 "bit burst %" PRIu64 " limit %" PRIu64
            "\n",
            device, index, link->rate_bits_per_s, link->burst_bytes, link->queue_bytes);
}

void psr_lab_network_queues(const psr_lab *lab, FILE *to)
{
    for (size_t k = 1; k < lab->switch_count; k++) {
        queue(&lab->switches[k].uplink, "down", k, to);
        queue(&lab->switches[k].uplink, "up", k, to);
    }
    for (size_t i = 0; i < lab->host_count; i++)
        queue(&lab->hosts[i].link, "port", i, to);
}

void psr_lab_network_host_links(const psr_lab *lab, size_t index, FILE *to)
{
    char address[PSR_LAB_ADDRESS_BYTES];
    const char *congestion = lab->hosts[index].congestion;
    psr_lab_address(index, address);
    fprintf(to,
            "link set lo up\naddr add %s/24 dev eth0 noprefixroute\nlink set eth0 up\n"
            "route add 10.77.0.0/24 dev eth0 src %s%s%s\n",
            address, address, congestion[0] != '\0' ? " congctl " : "", congestion);
}

void psr_lab_network_host_queues(const psr_lab *lab, size_t index, FILE *to)
{
    const psr_lab_link *link = &lab->hosts[index].link;
    fprintf(to, "qdisc add dev eth0 root tbf rate %" PRIu64 "bit burst %" PRIu64 " limit %u\n",
            link->rate_bits_per_s, link->burst_bytes, HOST_QUEUE_BYTES);
}

psr_err psr_lab_network_count(const char *tc_json, const char *device, psr_lab_count *ret_count)
{
    cJSON *all = cJSON_Parse(tc_json);
    const cJSON *queue;
    psr_err err = psr_fail(PSR_ERR_FORMAT, "tc tells nothing of %s", device);
    cJSON_ArrayForEach(queue, all)
    {
        const char *name = psr_json_text(queue, "dev");
        if (name == NULL || strcmp(name, device) != 0)
            continue;
        *ret_count = (psr_lab_count){(uint64_t)psr_json_number(queue, "bytes", 0),
                                     (uint64_t)psr_json_number(queue, "packets", 0),
                                     (uint64_t)psr_json_number(queue, "drops", 0)};
        err = PSR_OK;
        break;
    }
    cJSON_Delete(all);
    return err;
}
