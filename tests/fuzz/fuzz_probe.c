/* What an agent and its probe tell psring doctor, over hostile bytes: lines to psr_visit_take_line,
 * then findings, screen and JSON of what was believed. The first byte of an input says what was
 * asked (its low bits), and whether the lines are the agent's own (its highest bit) or the probe's,
 * which come in lines of the agent's. */
#include "deploy/doctor/checkup_json.h"
#include "deploy/doctor/picture.h"
#include "deploy/doctor/visit/visit_private.h"

#include <stdlib.h>
#include <string.h>

#define HOSTS 3
#define LINES_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* As deploy/doctor/visit/visit.c sets it up when all probes have started. */
static void set_up(psr_visitor *v, psr_checkup *c, psr_visited visited[HOSTS],
                   psr_placed placed[HOSTS], psr_host hosts[HOSTS])
{
    psr_hosts named = {0};
    require(psr_hosts_add(&named, "node1", 2) == PSR_OK &&
            psr_hosts_add(&named, "node2", 1) == PSR_OK &&
            psr_hosts_add(&named, "node3", 1) == PSR_OK);
    require(psr_checkup_init(&named, c) == PSR_OK);
    psr_hosts_done(&named);
    c->data = c->model = "resnet20";
    c->batch_size = 1 << 20;
    for (size_t i = 0; i < HOSTS; i++) {
        hosts[i] = c->hosts[i].host;
        placed[i] = (psr_placed){{PSR_ROLE_WORKER, (uint32_t)i}, (uint32_t)i};
        visited[i] = (psr_visited){.greeted = true, .spawned = true, .partner = (i + 1) % HOSTS};
    }
    *v = (psr_visitor){.checkup = c,
                       .visited = visited,
                       .placement = {.hosts = {hosts, HOSTS}, .items = placed, .count = HOSTS}};
}

static char *as_agent_line(const char *text)
{
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "event", "line");
    cJSON_AddStringToObject(line, "role", "worker");
    cJSON_AddNumberToObject(line, "rank", 0);
    cJSON_AddStringToObject(line, "stream", "out");
    cJSON_AddStringToObject(line, "text", text);
    char *whole = cJSON_PrintUnformatted(line);
    cJSON_Delete(line);
    require(whole != NULL);
    return whole;
}

static void take(psr_visitor *v, const char *text, uint8_t how)
{
    v->visited[0].asked = (psr_question)(how % (PSR_ASKED_END + 1));
    if ((how & 0x80) != 0) {
        psr_visit_take_line(v, 0, text);
        return;
    }
    char *line = as_agent_line(text);
    psr_visit_take_line(v, 0, line);
    cJSON_free(line);
}

static void tell(const psr_checkup *c)
{
    psr_findings findings;
    char *json = NULL;
    FILE *nowhere = fopen("/dev/null", "w");
    require(nowhere != NULL && psr_findings_make(c, &findings) == PSR_OK);
    psr_picture_print(nowhere, c, &findings);
    require(psr_checkup_to_json(c, &findings, &json) == PSR_OK);
    cJSON *again = cJSON_Parse(json);
    require(again != NULL);
    cJSON_Delete(again);
    free(json);
    psr_findings_done(&findings);
    fclose(nowhere);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    psr_visitor v;
    psr_checkup c;
    psr_visited visited[HOSTS];
    psr_placed placed[HOSTS];
    psr_host hosts[HOSTS];
    char *rest = NULL, *text = size > 0 ? malloc(size) : NULL;
    if (text == NULL)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    set_up(&v, &c, visited, placed, hosts);
    char *line = strtok_r(text, "\n", &rest);
    for (int i = 0; line != NULL && i < LINES_MAX; i++, line = strtok_r(NULL, "\n", &rest))
        take(&v, line, (uint8_t)(data[0] + i));
    for (size_t i = 1; i < HOSTS; i++) /* nobody is believed about another */
        require(c.hosts[i].stage == PSR_DOCTOR_NO_AGENT && c.hosts[i].failure[0] == '\0' &&
                !psr_checkup_pair_of(&c, i, 0)->tried);
    tell(&c);
    psr_checkup_done(&c);
    free(text);
    return 0;
}
