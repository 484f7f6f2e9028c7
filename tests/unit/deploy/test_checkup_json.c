/* deploy/doctor/checkup_json.h, and the screen beside it: the same checkup, told to a program and
 * to a person. */
#include "tests/unit/deploy/checkup_of.h"

#include "deploy/doctor/checkup_json.h"
#include "deploy/doctor/picture.h"
#include "base/text/json.h"

#include <stdlib.h>
#include <string.h>

/* Of three hosts one is not reached, and the way from the first to the last is closed. */
static psr_checkup broken(void)
{
    psr_checkup c = checkup_of(3);
    c.hosts[1].stage = PSR_DOCTOR_NO_AGENT;
    c.hosts[1].clock_known = false;
    strcpy(c.hosts[1].failure,
           "host node2: ssh could not connect: Permission denied; ssh-copy-id node2");
    for (size_t i = 0; i < c.count; i++)
        *psr_checkup_pair_of(&c, i, 1) = *psr_checkup_pair_of(&c, 1, i) = (psr_checkup_pair){0};
    close_way(&c, 0, 2, "Connection refused");
    c.hosts[2].clock_s = 2.5;
    return c;
}

static cJSON *json_of(const psr_checkup *c)
{
    psr_findings f;
    char *text = NULL;
    expect_ok(psr_findings_make(c, &f));
    expect_ok(psr_checkup_to_json(c, &f, &text));
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    assert_null(strchr(text, '\n'));
    free(text);
    psr_findings_done(&f);
    return json;
}

static const cJSON *item_of(const cJSON *json, const char *list, int index)
{
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(json, list), index);
}

static void all_hosts_ways_and_findings_are_in_it(void **state)
{
    (void)state;
    psr_checkup c = broken();
    cJSON *json = json_of(&c);
    assert_string_equal(psr_json_text(json, "version"), PSR_VERSION);
    assert_int_equal((int)psr_json_number(json, "stops", -1), 2);
    assert_int_equal((int)psr_json_number(json, "slows", -1), 1);
    assert_int_equal((int)psr_json_number(json, "message_bytes", -1), 1 << 20);

    const cJSON *first = item_of(json, "hosts", 0), *second = item_of(json, "hosts", 1),
                *third = item_of(json, "hosts", 2);
    assert_null(third->next);
    psr_host_facts facts;
    expect_ok(psr_host_facts_from_object(cJSON_GetObjectItemCaseSensitive(first, "facts"), &facts));
    assert_memory_equal(&facts, &c.hosts[0].facts, sizeof facts);
    assert_string_equal(psr_json_text(first, "failure"), "");
    assert_null(cJSON_GetObjectItemCaseSensitive(second, "facts"));
    assert_null(cJSON_GetObjectItemCaseSensitive(second, "clock_s"));
    assert_string_equal(psr_json_text(second, "failure"),
                        "host node2: ssh could not connect: Permission denied; ssh-copy-id node2");
    assert_true(psr_json_number(third, "clock_s", 0) == 2.5);

    const cJSON *closed = item_of(json, "pairs", 1), *open = item_of(json, "pairs", 4);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(json, "pairs")), 6);
    assert_string_equal(psr_json_text(closed, "from"), "node1");
    assert_string_equal(psr_json_text(closed, "to"), "node3");
    assert_string_equal(psr_json_text(closed, "connect_failure"), "Connection refused");
    assert_null(cJSON_GetObjectItemCaseSensitive(closed, "bytes_per_s"));
    assert_string_equal(psr_json_text(open, "from"), "node3");
    assert_true(psr_json_true(open, "connected"));
    assert_int_equal((int)psr_json_number(open, "round_trip_ns", 0), 90000);

    const cJSON *finding = item_of(json, "findings", 0);
    assert_string_equal(psr_json_text(finding, "level"), "stops");
    assert_string_equal(psr_json_text(finding, "check"), "login");
    assert_string_equal(psr_json_text(finding, "where"), "node2");
    assert_non_null(psr_json_text(finding, "right"));
    cJSON_Delete(json);
    psr_checkup_done(&c);
}

/* ret owns: free(). */
static char *picture_of(const psr_checkup *c)
{
    psr_findings f;
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    expect_ok(psr_findings_make(c, &f));
    psr_picture_print(to, c, &f);
    fclose(to);
    psr_findings_done(&f);
    return text;
}

static void the_screen_shows_what_is_closed_and_what_is_not_known(void **state)
{
    (void)state;
    psr_checkup c = broken();
    char *text = picture_of(&c);
    assert_non_null(strstr(text, "3 hosts, 6 slots"));
    assert_non_null(strstr(text, "\n  1  node2      2  no answer, see below\n"));
    assert_non_null(strstr(text, "\n  0       -       ?  closed\n"));
    assert_non_null(strstr(text, "\n  2    0.09       ?       -\n"));
    assert_non_null(strstr(text, "\n  2    1000       ?       -\n"));
    assert_non_null(strstr(text,
                           "\nwould stop a run\n  login          node2: ssh could not connect: "
                           "Permission denied\n                 -> ssh-copy-id node2\n"));
    assert_non_null(strstr(text, "\n  0  A processor                                     "));
    assert_non_null(strstr(text,
                           "\n      32K    1M   32M    524288      8M  madvise  cubic  4.3.5\n"
                           "  2  as the one above\n"));
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
        if (strncmp(line, "  ", 2) == 0 && strstr(line, ": ") == NULL)
            assert_true(strcspn(line, "\n") <= 80);
    assert_non_null(strstr(text, "\n2 would stop a run, 1 would slow it down or mislead;"));
    free(text);
    psr_checkup_done(&c);
}

static void hosts_that_are_alike_are_told_together(void **state)
{
    (void)state;
    psr_checkup c = checkup_of(7);
    c.hosts[3].stage = PSR_DOCTOR_NO_AGENT;
    strcpy(c.hosts[5].facts.congestion, "bbr");
    strcpy(c.hosts[6].facts.cuda_devices, "1 x A GPU");
    strcpy(c.hosts[6].facts.cuda_libraries, "driver 13.0");
    char *text = picture_of(&c);
    assert_non_null(strstr(text,
                           "\n  0  ?\n  1  to 2 as the one above\n  4  to 5 as the one above\n"
                           "  6  1 x A GPU\n     driver 13.0\n"));
    assert_non_null(strstr(
        text,
        "  cubic  4.3.5\n  1  to 2 as the one above\n  4  as the one above\n  5  A processor"));
    assert_non_null(strstr(text, "  bbr    4.3.5\n  6  A processor"));
    free(text);
    psr_checkup_done(&c);
}

static void tables_fit_a_hundred_columns_whatever_hosts_say(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, 12, 13, 40};
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        psr_checkup c = checkup_of(counts[n]);
        for (size_t i = 0; i < c.count; i++) {
            psr_checkup_host *h = &c.hosts[i];
            memset(h->host.name, 'n', sizeof h->host.name - 1);
            h->host.slots = 1024;
            strcpy(h->facts.identity,
                   "onednn 99.999.999.9999 cpu_isa_of_a_very_long_name_indeed_yes openmp");
            strcpy(h->facts.address, "fd00:1234:5678:9abc:def0:1234:5678:9abc");
            h->facts.cores = h->facts.cores_allowed = PSR_FACT_UNLIMITED;
            h->facts.memory_free_bytes = PSR_FACT_UNLIMITED;
            memset(h->facts.processor, 'p', sizeof h->facts.processor - 1);
            memset(h->facts.congestion, 'c', sizeof h->facts.congestion - 1);
            memset(h->facts.library, 'l', sizeof h->facts.library - 1);
            memset(h->facts.cuda_devices, 'd', sizeof h->facts.cuda_devices - 1);
            memset(h->facts.cuda_libraries, 'l', sizeof h->facts.cuda_libraries - 1);
            memset(h->facts.huge_pages, 'h', sizeof h->facts.huge_pages - 1);
            h->facts.l1_bytes = h->facts.l2_bytes = h->facts.l3_bytes = PSR_FACT_UNLIMITED - 1;
            h->facts.files_max = h->facts.locked_bytes_max = PSR_FACT_UNLIMITED - 1;
            h->clock_s = -1e15;
        }
        for (size_t i = 0; i < c.count * c.count; i++)
            c.pairs[i].round_trip_ns = c.pairs[i].bytes_per_s = 1000000000000;
        char *text = picture_of(&c), *rest = NULL;
        for (char *line = strtok_r(text, "\n", &rest);
             line != NULL && strncmp(line, "would", 5) != 0; line = strtok_r(NULL, "\n", &rest))
            if (strlen(line) > 100)
                fail_msg("%zu columns: %s", strlen(line), line);
        free(text);
        psr_checkup_done(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_hosts_ways_and_findings_are_in_it),
        cmocka_unit_test(the_screen_shows_what_is_closed_and_what_is_not_known),
        cmocka_unit_test(hosts_that_are_alike_are_told_together),
        cmocka_unit_test(tables_fit_a_hundred_columns_whatever_hosts_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
