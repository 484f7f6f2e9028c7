/* deploy/lab/network.h */
#include "tests/unit/expect.h"

#include "deploy/lab/network.h"

#include <stdlib.h>
#include <string.h>

static psr_lab lab;

static void read_lab(void)
{
    static const char text[] = "switch rack uplink=50Mbit queue=128K burst=8K\n"
                               "host a rate=100Mbit queue=64K burst=8K\n"
                               "host b rate=1Gbit queue=64K burst=32K switch=rack "
                               "congestion=cubic\n";
    expect_ok(psr_lab_parse("a.lab", text, strlen(text), &lab));
}

typedef struct script {
    char *text;
    size_t size;
    FILE *to;
} script;

static FILE *begin(script *s)
{
    *s = (script){.text = NULL};
    s->to = open_memstream(&s->text, &s->size);
    assert_non_null(s->to);
    return s->to;
}

static void expect_script(script *s, const char *text)
{
    assert_int_equal(fclose(s->to), 0);
    assert_string_equal(s->text, text);
    free(s->text);
}

static void switches_have_a_port_for_each_host_and_uplink(void **state)
{
    (void)state;
    script s;
    const pid_t holders[] = {11, 12};
    read_lab();
    psr_lab_network_links(&lab, holders, begin(&s));
    expect_script(&s, "link add br0 type bridge\nlink set br0 up\n"
                      "link add br1 type bridge\nlink set br1 up\n"
                      "link add down1 type veth peer name up1\n"
                      "link set down1 master br0 up\nlink set up1 master br1 up\n"
                      "link add port0 type veth peer name eth0 netns 11\n"
                      "link set port0 master br0 up\n"
                      "link add port1 type veth peer name eth0 netns 12\n"
                      "link set port1 master br1 up\n");
}

static void queues_of_switches_are_as_long_as_the_file_says(void **state)
{
    (void)state;
    script s;
    read_lab();
    psr_lab_network_queues(&lab, begin(&s));
    expect_script(&s, "qdisc add dev down1 root tbf rate 50000000bit burst 8192 limit 131072\n"
                      "qdisc add dev up1 root tbf rate 50000000bit burst 8192 limit 131072\n"
                      "qdisc add dev port0 root tbf rate 100000000bit burst 8192 limit 65536\n"
                      "qdisc add dev port1 root tbf rate 1000000000bit burst 32768 limit 65536\n");
}

static void a_host_has_an_address_a_route_and_a_queue_without_end(void **state)
{
    (void)state;
    script s;
    read_lab();
    psr_lab_network_host_links(&lab, 0, begin(&s));
    expect_script(&s, "link set lo up\naddr add 10.77.0.1/24 dev eth0 noprefixroute\n"
                      "link set eth0 up\nroute add 10.77.0.0/24 dev eth0 src 10.77.0.1\n");
    psr_lab_network_host_links(&lab, 1, begin(&s));
    expect_script(&s, "link set lo up\naddr add 10.77.0.2/24 dev eth0 noprefixroute\n"
                      "link set eth0 up\nroute add 10.77.0.0/24 dev eth0 src 10.77.0.2 congctl "
                      "cubic\n");
    psr_lab_network_host_queues(&lab, 1, begin(&s));
    expect_script(&s, "qdisc add dev eth0 root tbf rate 1000000000bit burst 32768 limit "
                      "1073741824\n");
}

static void counts_are_those_of_the_device(void **state)
{
    (void)state;
    static const char said[] =
        "[{\"kind\":\"noqueue\",\"dev\":\"br0\",\"bytes\":1,\"packets\":2,\"drops\":3},"
        "{\"kind\":\"tbf\",\"dev\":\"port1\",\"bytes\":70,\"packets\":8,\"drops\":9}]";
    psr_lab_count count;
    expect_ok(psr_lab_network_count(said, "port1", &count));
    assert_int_equal(count.sent_bytes, 70);
    assert_int_equal(count.sent_packets, 8);
    assert_int_equal(count.dropped_packets, 9);
    expect_failure(psr_lab_network_count(said, "port", &count), PSR_ERR_FORMAT,
                   "tc tells nothing of port");
    expect_failure(psr_lab_network_count("[{]", "port1", &count), PSR_ERR_FORMAT,
                   "tc tells nothing of port1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(switches_have_a_port_for_each_host_and_uplink),
        cmocka_unit_test(queues_of_switches_are_as_long_as_the_file_says),
        cmocka_unit_test(a_host_has_an_address_a_route_and_a_queue_without_end),
        cmocka_unit_test(counts_are_those_of_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
