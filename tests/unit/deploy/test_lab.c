/* deploy/lab/lab.h and deploy/lab/picture.h */
#include "tests/unit/expect.h"

#include "deploy/lab/lab.h"
#include "deploy/lab/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static psr_lab lab;

static psr_err parse(const char *text)
{
    memset(&lab, 0, sizeof lab);
    return psr_lab_parse("a.lab", text, strlen(text), &lab);
}

static void expect_refused(const char *text, const char *detail)
{
    expect_failure(parse(text), PSR_ERR_FORMAT, detail);
}

static const char racks[] = "# a comment\n"
                            "congestion cubic\n"
                            "default rate=100Mbit queue=64K # and one here\n"
                            "switch rack uplink=50Mbit queue=128K\n"
                            "host node[1-2] slots=2\n"
                            "host far switch=rack burst=16K slow=2.5 loss=0.25% congestion=reno\r\n"
                            "host ps1 shards=2 rate=1Gbit\n"
                            "host both shards=1 slots=1";

static void a_file_says_hosts_links_and_switches(void **state)
{
    (void)state;
    expect_ok(parse(racks));
    assert_int_equal(lab.host_count, 5);
    assert_int_equal(lab.switch_count, 2);
    assert_string_equal(lab.switches[1].name, "rack");
    assert_int_equal(lab.switches[1].uplink.rate_bits_per_s, 50000000);
    assert_int_equal(lab.switches[1].uplink.queue_bytes, 128 << 10);
    assert_string_equal(lab.hosts[1].name, "node2");
    assert_int_equal(lab.hosts[1].link.rate_bits_per_s, 100000000);
    assert_int_equal(lab.hosts[1].link.queue_bytes, 64 << 10);
    assert_int_equal(lab.hosts[1].slots, 2);
    assert_int_equal(lab.hosts[1].in_switch, 0);
    assert_string_equal(lab.hosts[1].congestion, "cubic");
    const psr_lab_host *far = &lab.hosts[2];
    assert_int_equal(far->in_switch, 1);
    assert_int_equal(far->link.burst_bytes, 16 << 10);
    assert_true(far->slow == 2.5);
    assert_true(far->loss == 0.0025 && lab.hosts[1].loss == 0);
    assert_int_equal(far->slots, 1);
    assert_string_equal(far->congestion, "reno");
    assert_int_equal(lab.hosts[3].slots, 0); /* for shards alone */
    assert_int_equal(lab.hosts[3].shards, 2);
    assert_int_equal(lab.hosts[3].link.rate_bits_per_s, 1000000000);
    assert_int_equal(lab.hosts[4].slots, 1);
    assert_int_equal(psr_lab_slots(&lab), 6);
    assert_int_equal(psr_lab_shards(&lab), 3);
}

static void a_burst_follows_the_rate_unless_it_is_given(void **state)
{
    (void)state;
    expect_ok(parse("host slow rate=1Mbit\nhost fast rate=1Gbit\nhost own rate=1Gbit burst=8K\n"));
    assert_int_equal(lab.hosts[0].link.burst_bytes, 8 << 10);
    assert_int_equal(lab.hosts[1].link.burst_bytes, 62500); /* half a millisecond */
    assert_int_equal(lab.hosts[2].link.burst_bytes, 8 << 10);
}

static void what_is_printed_reads_back_as_the_same_lab(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    expect_ok(parse(racks));
    const psr_lab first = lab;
    psr_lab_print(&lab, to);
    assert_int_equal(fclose(to), 0);
    expect_ok(parse(text));
    assert_memory_equal(&lab, &first, sizeof lab);
    free(text);
}

static void a_picture_has_each_host_on_its_switch(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    expect_ok(parse("switch rack uplink=50Mbit\nhost a rate=100Mbit\n"
                    "host b rate=10Mbit queue=64K switch=rack shards=1\n"));
    psr_lab_picture(&lab, to);
    assert_int_equal(fclose(to), 0);
    assert_string_equal(text, "switch\n"
                              "  +--[ 100Mbit, queue 256K, burst 8K ]--  a  10.77.0.1  1 worker\n"
                              "  |\n"
                              "  +--[ 50Mbit, queue 256K, burst 8K ]--  switch rack\n"
                              "        +--[ 10Mbit, queue 64K, burst 8K ]--  b  10.77.0.2  "
                              "1 shard\n");
    free(text);
}

static void a_dilated_lab_has_slower_links(void **state)
{
    (void)state;
    expect_ok(parse(racks));
    const psr_lab first = lab;
    psr_lab_dilate(&lab, 10);
    assert_int_equal(lab.hosts[0].link.rate_bits_per_s, 10000000);
    assert_int_equal(lab.switches[1].uplink.rate_bits_per_s, 5000000);
    assert_int_equal(lab.hosts[0].link.queue_bytes, first.hosts[0].link.queue_bytes);
}

static void hostfiles_follow(void **state)
{
    (void)state;
    char text[256], tiny[8];
    expect_ok(parse(racks));
    expect_ok(psr_lab_hostfile(&lab, false, text, sizeof text));
    assert_string_equal(text, "node1 slots=2\nnode2 slots=2\nfar slots=1\nboth slots=1\n");
    expect_ok(psr_lab_hostfile(&lab, true, text, sizeof text));
    assert_string_equal(text, "ps1 slots=2\nboth slots=1\n");
    expect_failure(psr_lab_hostfile(&lab, true, tiny, sizeof tiny), PSR_ERR_NOMEM,
                   "no room for a hostfile");
}

static void a_wrong_line_is_named(void **state)
{
    (void)state;
    expect_refused("", "a.lab names no host for workers; give 'host NAME rate=100Mbit'");
    expect_refused("host p shards=1 rate=1Gbit",
                   "a.lab names no host for workers; give 'host NAME rate=100Mbit'");
    expect_refused("\n\nhots a", "a.lab:3: 'hots ..': a line is 'host NAME KEY=VALUE..', 'switch "
                                 "NAME uplink=RATE', 'congestion NAME' or 'default KEY=VALUE..'");
    expect_refused("host a", "a.lab:1: it has no rate; give rate=100Mbit, here or by a line "
                             "'default rate=100Mbit' above");
    expect_refused("host a rate=100", "a.lab:1: rate=100: give 1Kbit to 1000Gbit (100Mbit)");
    expect_refused("host a rate=100MB", "a.lab:1: rate=100MB: give 1Kbit to 1000Gbit (100Mbit)");
    expect_refused("host a rate=0bit", "a.lab:1: rate=0bit: give 1Kbit to 1000Gbit (100Mbit)");
    expect_refused("host a rate=1Gbit queue=1", "a.lab:1: queue=1: give 4K to 1024M bytes");
    expect_refused("host a rate=1Gbit burst=2M", "a.lab:1: burst=2M: give 4K to 1M bytes");
    expect_refused("host a rate=1Gbit slots=65", "a.lab:1: slots=65: give 0 to 64 workers");
    expect_refused("host a rate=1Gbit slots=0",
                   "a.lab:1: a host without slots and shards has nothing to do");
    expect_refused("host a rate=1Gbit slow=0.5", "a.lab:1: slow=0.5: give a factor of 1 to 1000");
    expect_refused("host a rate=1Gbit loss=51%",
                   "a.lab:1: loss=51%: give a share of at most half: 0.001 or 0.1%");
    expect_refused("host a rate=1Gbit loss=nan",
                   "a.lab:1: loss=nan: give a share of at most half: 0.001 or 0.1%");
    expect_refused("host a rate=1Gbit switch=b",
                   "a.lab:1: switch=b: give the name of a switch in a line above");
    expect_refused("host a rat=1Gbit",
                   "a.lab:1: 'rat=1Gbit' is not understood; there are rate, queue, burst, slots, "
                   "shards, slow, loss, switch, congestion, each with =VALUE");
    expect_refused("host a rate", "a.lab:1: 'rate' is not understood; there are rate, queue, "
                                  "burst, slots, shards, slow, loss, switch, congestion, each with "
                                  "=VALUE");
    expect_refused("default uplink=1Gbit",
                   "a.lab:1: 'uplink=1Gbit' is not understood; there are rate, queue, burst, "
                   "slots, slow, loss, switch, congestion, each with =VALUE");
    expect_refused("switch s queue=64K", "a.lab:1: switch s has no uplink; give uplink=1Gbit");
    expect_refused("switch s uplink=1Gbit\nswitch s uplink=1Gbit",
                   "a.lab:2: the name s is taken; give another");
    expect_refused("host a rate=1Gbit\nhost a rate=1Gbit",
                   "a.lab:2: the name a is taken; give another");
    expect_refused("host localhost rate=1Gbit",
                   "a.lab:1: the name localhost is taken; give another");
    expect_refused("host me@a rate=1Gbit",
                   "a.lab:1: 'me@a' is not a host's name: letters, digits, '-', '_' and '.', 63 "
                   "at most");
    expect_refused("host a:2 rate=1Gbit", "a.lab:1: 'a:2': give slots=2");
    expect_refused("host a[1-65] rate=1Gbit", "a.lab:1: more than 64 hosts");
    expect_refused("host a[2-1] rate=1Gbit",
                   "a.lab:1: 'a[2-1]' is not understood; brackets hold numbers and ranges that go "
                   "up, as node[1-4,7]");
    expect_refused("congestion", "a.lab:1: 'congestion': a line is 'host NAME KEY=VALUE..', "
                                 "'switch NAME uplink=RATE', 'congestion NAME' or 'default "
                                 "KEY=VALUE..'");
    expect_refused("congestion a b", "a.lab:1: 'congestion a': give the name of one, like cubic");
    expect_refused("congestion cub;ic",
                   "a.lab:1: 'congestion cub;ic': give the name of one, like cubic");
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    assert_int_equal(psr_lab_read("/nowhere/a.lab", &lab), PSR_ERR_NOT_FOUND);
    assert_non_null(strstr(psr_err_detail(), "/nowhere/a.lab"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_says_hosts_links_and_switches),
        cmocka_unit_test(a_burst_follows_the_rate_unless_it_is_given),
        cmocka_unit_test(what_is_printed_reads_back_as_the_same_lab),
        cmocka_unit_test(a_picture_has_each_host_on_its_switch),
        cmocka_unit_test(a_dilated_lab_has_slower_links),
        cmocka_unit_test(hostfiles_follow),
        cmocka_unit_test(a_wrong_line_is_named),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
