/* The run directory and its checkpoints: what is written, read back, and refused. */
#include "tests/unit/folder.h"

#include "base/clock.h"
#include "base/system/file.h"
#include "model/checkpoint/checkpoint.h"
#include "ps/scheduler/checkpoints/checkpoints.h"
#include "ps/scheduler/checkpoints/resume.h"
#include "ps/scheduler/rundir.h"

#include <cjson/cJSON.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char *text_of(const char *name)
{
    uint8_t *text = NULL;
    size_t size;
    expect_ok(psr_file_read(in_folder(name), 1 << 20, &text, &size));
    return (char *)text;
}

/* ---- a small run ---- */

static psr_config config;
static psr_facts facts;
/* of the run that set_up makes */
static const char *compress = "none", *compress_weights = "none";
static psr_precision precision = PSR_PRECISION_FP32;

static void set_up(void)
{
    psr_config_defaults(&config);
    config.workers = 2;
    config.momentum = 0.9;
    config.precision = precision;
    strcpy(config.compress, compress);
    strcpy(config.compress_weights, compress_weights);
    snprintf(config.model, sizeof config.model, "resnet20");
    snprintf(config.out, sizeof config.out, "%s/deep/run", folder);
    facts = (psr_facts){.classes = 10, .channels = 3, .height = 32, .width = 32, .total_steps = 9};
    psr_network *net;
    expect_ok(psr_network_new(config.model, 10, 3, 32, 32, config.shortcut, &net));
    facts.parameter_count = net->params.count;
    psr_network_free(net);
}

static const char roster[] =
    "[{\"role\":\"worker\",\"rank\":0,\"host\":\"a\"},{\"role\":\"worker\",\"rank\":1,\"host\":"
    "\"b\"},{\"role\":\"shard\",\"rank\":0,\"host\":\"a\"}]";

static const psr_metrics_line one_line = {.text = "{\"step\": 1}", .size = 11};
static const psr_peer w1 = {PSR_ROLE_WORKER, 1}, s0 = {PSR_ROLE_SHARD, 0},
                      head = {PSR_ROLE_SCHEDULER, 0};

/* ---- the directory ---- */

static void it_appears_when_the_run_begins_and_holds_what_was_logged_before(void **state)
{
    (void)state;
    psr_rundir *rundir;
    set_up();
    expect_ok(psr_rundir_new(&config, NULL, "psring train", &rundir));
    psr_rundir_log(rundir, head, "early words");
    psr_rundir_log(rundir, w1, "a worker's");
    assert_false(exists("deep"));
    expect_ok(psr_rundir_begin(rundir, 1 << 16, &facts, roster, NULL));
    psr_rundir_log(rundir, s0, "a shard's\nand \x1b[2J\xc2\x9b");
    psr_rundir_log(rundir, head, "late words");
    expect_ok(psr_rundir_metrics(rundir, &one_line));
    expect_ok(psr_rundir_flush(rundir));
    char *log = text_of("deep/run/log/scheduler.log"), *rank = text_of("deep/run/log/rank-1.log"),
         *shard = text_of("deep/run/log/shard-0.log"), *metrics = text_of("deep/run/metrics.jsonl");
    assert_string_equal(log, "early words\nlate words\n");
    assert_string_equal(rank, "a worker's\n");
    assert_string_equal(shard, "a shard's and ?[2J??\n");
    assert_string_equal(metrics, "{\"step\": 1}\n");
    free(log), free(rank), free(shard), free(metrics);
    psr_rundir_free(rundir);
}

static void run_json_has_configuration_hosts_and_outcome_and_makes_the_same_run_again(void **state)
{
    (void)state;
    psr_rundir *rundir;
    set_up();
    config.lr = 0.1234567890123;
    strcpy(config.algorithms, "timed"); /* the run that repeats it takes what was picked */
    expect_ok(psr_rundir_new(&config, NULL, "psring train", &rundir));
    expect_ok(psr_rundir_begin(rundir, 1 << 16, &facts, roster, "there/step-3"));
    expect_ok(psr_rundir_computing(
        rundir,
        &(psr_computing){.algorithms = "ddd,doo", .loops = "conv1 by loops", .input = "bytes"}));
    expect_ok(
        psr_rundir_end(rundir, PSR_ERR_CANCELLED, "stopped after step 4", "{\"hash\": \"12\"}"));
    char *text = text_of("deep/run/run.json");
    cJSON *run = cJSON_Parse(text);
    const cJSON *outcome = cJSON_GetObjectItem(run, "outcome"),
                *hosts = cJSON_GetObjectItem(run, "hosts");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(run, "version")), PSR_VERSION);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(run, "resumed_from")),
                        "there/step-3");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(run, "algorithms")), "ddd,doo");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(run, "loops")), "conv1 by loops");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(run, "input")), "bytes");
    assert_null(cJSON_GetObjectItem(run, "engines")); /* on no GPU */
    assert_int_equal(cJSON_GetArraySize(hosts), 2);   /* each once */
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(run, "roster")), 3);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(outcome, "status")), "cancelled");
    assert_int_equal(cJSON_GetObjectItem(outcome, "exit_status")->valueint, 130);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(outcome, "line")),
                        "stopped after step 4");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(outcome, "hash")), "12");
    psr_config again;
    psr_config_defaults(&again);
    expect_ok(psr_config_from_json(&again, text, strlen(text)));
    assert_true(again.lr == config.lr);
    assert_int_equal(config.bucket_bytes, 0); /* auto is kept as what it came to */
    assert_int_equal(again.bucket_bytes, 1 << 16);
    assert_string_equal(again.algorithms, "ddd,doo");
    cJSON_Delete(run);
    free(text);
    psr_rundir_free(rundir);
}

static void run_json_of_a_gpu_has_its_engines_and_no_algorithms(void **state)
{
    (void)state;
    psr_rundir *rundir;
    set_up();
    expect_ok(psr_rundir_new(&config, NULL, "psring train", &rundir));
    expect_ok(psr_rundir_begin(rundir, 1 << 16, &facts, roster, NULL));
    expect_ok(psr_rundir_computing(rundir, &(psr_computing){.engines = "28,4,28"}));
    char *text = text_of("deep/run/run.json");
    cJSON *run = cJSON_Parse(text);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(run, "engines")), "28,4,28");
    assert_null(cJSON_GetObjectItem(run, "algorithms"));
    cJSON_Delete(run);
    free(text);
    psr_rundir_free(rundir);
}

/* Of a network without convolutions. */
static void a_run_that_had_nothing_to_time_is_repeated_as_it_was_asked_for(void **state)
{
    (void)state;
    psr_rundir *rundir;
    set_up();
    strcpy(config.algorithms, "timed");
    expect_ok(psr_rundir_new(&config, NULL, "psring train", &rundir));
    expect_ok(psr_rundir_begin(rundir, 1 << 16, &facts, roster, NULL));
    expect_ok(psr_rundir_computing(rundir, &(psr_computing){.algorithms = ""}));
    char *text = text_of("deep/run/run.json");
    psr_config again;
    psr_config_defaults(&again);
    expect_ok(psr_config_from_json(&again, text, strlen(text)));
    assert_string_equal(again.algorithms, "timed");
    free(text);
    psr_rundir_free(rundir);
}

static void a_run_that_never_began_leaves_nothing(void **state)
{
    (void)state;
    psr_rundir *rundir;
    set_up();
    expect_ok(psr_rundir_new(&config, NULL, "psring train", &rundir));
    psr_rundir_log(rundir, head, "words");
    expect_ok(psr_rundir_end(rundir, PSR_ERR_TIMEOUT, "nobody came", NULL));
    psr_rundir_free(rundir);
    assert_false(exists("deep"));
}

static void a_run_that_is_discarded_leaves_nothing_of_its_own(void **state)
{
    (void)state;
    psr_rundir *rundir;
    set_up();
    expect_ok(psr_rundir_new(&config, NULL, "psring train", &rundir));
    psr_rundir_discard(rundir); /* nothing is there yet */
    psr_rundir_log(rundir, w1, "a worker's");
    expect_ok(psr_rundir_begin(rundir, 1 << 16, &facts, roster, NULL));
    psr_rundir_log(rundir, s0, "a shard's");
    expect_ok(psr_rundir_metrics(rundir, &one_line));
    psr_rundir_discard(rundir);
    assert_false(exists("deep/run"));
    psr_rundir_log(rundir, head, "late words");
    psr_rundir_free(rundir);
    assert_false(exists("deep/run"));

    expect_ok(psr_rundir_new(&config, NULL, "psring train", &rundir));
    expect_ok(psr_rundir_begin(rundir, 1 << 16, &facts, roster, NULL));
    expect_ok(psr_file_write_atomic(in_folder("deep/run/notes"), "mine", 4));
    psr_rundir_discard(rundir);
    psr_rundir_free(rundir);
    assert_true(exists("deep/run/notes")); /* what is not the run's stays */
    assert_false(exists("deep/run/run.json"));
}

static void a_directory_that_cannot_be_made_is_refused_before_anything_is_done(void **state)
{
    (void)state;
    psr_rundir *rundir;
    char expected[256];
    set_up();
    snprintf(config.out, sizeof config.out, "%s", folder);
    snprintf(expected, sizeof expected,
             "--out %s exists already; name a directory that a run can make", folder);
    expect_failure(psr_rundir_new(&config, NULL, "psring train", &rundir), PSR_ERR_USAGE, expected);

    FILE *file = fopen(in_folder("file"), "w");
    assert_non_null(file);
    fclose(file);
    snprintf(config.out, sizeof config.out, "%s/file/run", folder);
    assert_int_equal(psr_rundir_new(&config, NULL, "psring train", &rundir), PSR_ERR_IO);
    assert_non_null(strstr(psr_err_detail(), "cannot be made"));

    config.out[0] = '\0';
    expect_failure(psr_rundir_new(&config, NULL, "psring train", &rundir), PSR_ERR_USAGE,
                   "--out is empty; name a directory that a run can make");
}

/* Several that are started in the same second by the same command. */
static void a_name_that_was_not_told_is_the_first_ones_and_the_others_take_the_next(void **state)
{
    (void)state;
    psr_rundir *rundirs[3];
    char series[PSR_PATH_MAX], expected[PSR_PATH_MAX + 8], before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0); /* names that are not told are relative */
    set_up();
    snprintf(series, sizeof series, "%s/again", folder);
    for (int of_attempts = 0; of_attempts < 2; of_attempts++) {
        if (of_attempts)
            strcpy(config.out, series);
        else
            psr_config_name_out(&config);
        for (size_t i = 0; i < 3; i++)
            expect_ok(psr_rundir_new(&config, of_attempts ? series : "", "", &rundirs[i]));
        for (size_t i = 0; i < 3; i++)
            expect_ok(psr_rundir_begin(rundirs[i], 1 << 20, &facts, roster, NULL));
        assert_string_equal(psr_rundir_path(rundirs[0]), config.out);
        for (size_t i = 1; i < 3; i++) {
            snprintf(expected, sizeof expected, "%s-%zu", series, i + 1);
            if (of_attempts)
                assert_string_equal(psr_rundir_path(rundirs[i]), expected);
            for (size_t other = 0; other < i; other++)
                assert_string_not_equal(psr_rundir_path(rundirs[i]),
                                        psr_rundir_path(rundirs[other]));
        }
        for (size_t i = 0; i < 3; i++)
            psr_rundir_free(rundirs[i]);
    }
    psr_rundir *told;
    snprintf(config.out, sizeof config.out, "%s/told", folder);
    expect_ok(psr_rundir_new(&config, NULL, "psring train", &told));
    expect_ok(psr_mkdirs(config.out));
    assert_int_equal(psr_rundir_begin(told, 1 << 20, &facts, roster, NULL), PSR_ERR_IO);
    psr_rundir_free(told);
    assert_int_equal(chdir(before), 0);
}

static pthread_mutex_t disk_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t disk_condition = PTHREAD_COND_INITIALIZER;
static bool disk_is_shut, disk_is_waited_for;

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    pthread_mutex_lock(&disk_mutex);
    while (disk_is_shut) {
        disk_is_waited_for = true;
        pthread_cond_broadcast(&disk_condition);
        pthread_cond_wait(&disk_condition, &disk_mutex);
    }
    disk_is_waited_for = false;
    pthread_mutex_unlock(&disk_mutex);
    return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

static void shut_disk(bool shut)
{
    pthread_mutex_lock(&disk_mutex);
    disk_is_shut = shut;
    pthread_cond_broadcast(&disk_condition);
    pthread_mutex_unlock(&disk_mutex);
}

static void until_the_disk_is_waited_for(void)
{
    pthread_mutex_lock(&disk_mutex);
    while (!disk_is_waited_for)
        pthread_cond_wait(&disk_condition, &disk_mutex);
    pthread_mutex_unlock(&disk_mutex);
}

/* The writing thread's word that something is done. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static unsigned wakes, wakes_taken;

static void wake(void *context)
{
    (void)context;
    pthread_mutex_lock(&mutex);
    wakes++;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
}

static void await_wake(void)
{
    pthread_mutex_lock(&mutex);
    while (wakes == wakes_taken)
        pthread_cond_wait(&condition, &mutex);
    wakes_taken++;
    pthread_mutex_unlock(&mutex);
}

static psr_sections sections;
static psr_checkpoints *checkpoints;

static void until_all_is_written(void)
{
    psr_checkpoints_pace pace;
    while (psr_checkpoints_writing(checkpoints, &pace))
        sched_yield();
}

static void open_checkpoints(void)
{
    set_up();
    wakes = wakes_taken = 0; /* of a test before this one, whose end nobody waited for */
    assert_int_equal(mkdir(in_folder("checkpoints"), 0777), 0);
    expect_ok(psr_sections_init(&config, &facts, &sections));
    psr_checkpoints_options options = {
        in_folder("checkpoints"), &config, &sections, NULL, wake, NULL};
    expect_ok(psr_checkpoints_new(&options, &checkpoints));
}

static void close_checkpoints(void)
{
    psr_checkpoints_free(checkpoints);
    psr_sections_done(&sections);
}

static float value_of(uint32_t section, size_t i)
{
    return (float)section + (float)i / 1024;
}

static void free_piece(psr_message *message)
{
    free((void *)(uintptr_t)message->payload);
    free(message);
}

/* A copy of data comes in a message. */
static psr_err put_piece(uint64_t step, uint32_t section, const float *data, size_t offset,
                         size_t count)
{
    psr_message *message = calloc(1, sizeof *message);
    float *values = malloc(count * sizeof *values);
    memcpy(values, data, count * sizeof *values);
    *message = (psr_message){
        .payload = values, .payload_bytes = count * sizeof *values, .release = free_piece};
    psr_err err = psr_checkpoints_put(checkpoints, step, section, values, offset, count, &message);
    assert_true((err == PSR_OK) == (message == NULL));
    psr_message_free(&message);
    return err;
}

/* All of a section, in pieces of at most `most` floats, from the end. */
static void put_section(uint64_t step, uint32_t section, size_t most)
{
    psr_section_place place;
    assert_true(psr_sections_place(&sections, section, &place));
    size_t length = place.layout->length;
    float *values = calloc(length + 1, sizeof *values);
    for (size_t i = 0; i < length; i++)
        values[i] = value_of(section, i);
    for (size_t end = length; end > 0;) {
        size_t count = end < most ? end : most;
        end -= count;
        expect_ok(put_piece(step, section, values + end, end, count));
    }
    free(values);
}

static void put_all_but(uint64_t step, uint32_t left_out)
{
    uint32_t section;
    for (uint32_t i = 0; psr_sections_at(&sections, i, &section); i++)
        if (section != left_out)
            put_section(step, section, 1000);
}

static void a_checkpoint_is_renamed_into_place_when_its_last_piece_has_come(void **state)
{
    (void)state;
    uint64_t step = 0;
    open_checkpoints();
    put_all_but(4, PSR_SECTION_RANK(1));
    until_all_is_written();
    assert_int_equal(psr_checkpoints_take(checkpoints, &step), PSR_ERR_NOT_FOUND);
    assert_true(exists("checkpoints/.step-4.part"));
    assert_int_equal(psr_checkpoints_whole(checkpoints, 4), PSR_ERR_PROTOCOL);
    assert_non_null(strstr(psr_err_detail(), "numbers of rank1/ (state.safetensors)"));
    put_section(4, PSR_SECTION_RANK(1), 31);
    expect_ok(psr_checkpoints_whole(checkpoints, 4));
    await_wake();
    expect_ok(psr_checkpoints_take(checkpoints, &step));
    assert_int_equal(step, 4);
    expect_ok(psr_checkpoints_whole(checkpoints, 4));
    assert_false(exists("checkpoints/.step-4.part"));

    psr_checkpoint *file;
    expect_ok(psr_checkpoint_open(in_folder("checkpoints/step-4/state.safetensors"), &file));
    const psr_tensor *tensor = &sections.net->params.tensors[3];
    char name[128];
    snprintf(name, sizeof name, "momentum/%s", tensor->name);
    float *data = calloc(tensor->count, sizeof *data);
    assert_non_null(data);
    expect_ok(psr_checkpoint_read(file, name, tensor->rank, tensor->shape, data));
    assert_true(data[5] == value_of(PSR_SECTION_SLOT(0), tensor->offset + 5));
    free(data);
    assert_string_equal(psr_checkpoint_metadata(file, "step"), "4");
    psr_checkpoint_close(file);
    close_checkpoints();
}

static void two_checkpoints_may_be_on_their_way_and_an_unfinished_one_leaves_nothing(void **state)
{
    (void)state;
    uint64_t step = 0;
    open_checkpoints();
    put_section(6, PSR_SECTION_SLOT(0), 100000); /* a shard is ahead */
    put_all_but(4, UINT32_MAX);
    await_wake();
    expect_ok(psr_checkpoints_take(checkpoints, &step));
    assert_int_equal(step, 4);
    until_all_is_written();
    assert_true(exists("checkpoints/.step-6.part"));
    close_checkpoints();
    assert_true(exists("checkpoints/step-4/model.safetensors"));
    assert_false(exists("checkpoints/.step-6.part"));
    assert_false(exists("checkpoints/step-6"));
}

/* A disk that has room for one more takes the older one. */
static void nothing_of_a_checkpoint_is_written_before_the_one_before_it_is_in_place(void **state)
{
    (void)state;
    uint64_t step = 0;
    open_checkpoints();
    put_section(4, PSR_SECTION_SLOT(0), 100000);
    put_all_but(6, UINT32_MAX);
    until_all_is_written();
    assert_true(exists("checkpoints/.step-4.part"));
    assert_false(exists("checkpoints/.step-6.part"));
    put_all_but(4, PSR_SECTION_SLOT(0));
    for (uint64_t expected = 4; expected <= 6; expected += 2) {
        await_wake();
        expect_ok(psr_checkpoints_take(checkpoints, &step));
        assert_int_equal(step, expected);
    }
    close_checkpoints();
}

static void pieces_that_do_not_fit_are_violations(void **state)
{
    (void)state;
    float one[8] = {0};
    open_checkpoints();
    size_t length = sections.net->params.length;
    char expected[128];
    expect_failure(put_piece(1, 15, one, 0, 1), PSR_ERR_PROTOCOL,
                   "a checkpoint of this run has no section 15");
    expect_failure(put_piece(1, PSR_SECTION_SLOT(1), one, 0, 1), PSR_ERR_PROTOCOL,
                   "a checkpoint of this run has no section 17");
    expect_failure(put_piece(1, PSR_SECTION_RANK(2), one, 0, 1), PSR_ERR_PROTOCOL,
                   "a checkpoint of this run has no section 258");
    snprintf(expected, sizeof expected, "2 floats at %zu are not within section 0, which has %zu",
             length - 1, length);
    expect_failure(put_piece(1, 0, one, length - 1, 2), PSR_ERR_PROTOCOL, expected);
    snprintf(expected, sizeof expected, "2 floats at %zu are not within section 0, which has %zu",
             SIZE_MAX, length);
    expect_failure(put_piece(1, 0, one, SIZE_MAX, 2), PSR_ERR_PROTOCOL, expected);
    expect_ok(put_piece(1, 0, one, 0, 8));
    expect_failure(put_piece(1, 0, one, 7, 1), PSR_ERR_PROTOCOL,
                   "floats 7 to 8 of section 0 of the checkpoint of step 1 came before");
    assert_int_equal(psr_checkpoints_whole(checkpoints, 2), PSR_ERR_PROTOCOL);
    assert_string_equal(psr_err_detail(), "nobody sent anything of the checkpoint of step 2");
    close_checkpoints();
}

/* Each costs memory beside its floats. */
static void a_section_in_more_pieces_than_anybody_would_send_is_a_violation(void **state)
{
    (void)state;
    float one = 0;
    open_checkpoints();
    size_t length = sections.net->params.length, pieces = 0;
    psr_err err = PSR_OK;
    for (; err == PSR_OK && 2 * pieces < length; pieces++)
        err = put_piece(1, PSR_SECTION_WEIGHTS, &one, 2 * pieces, 1);
    assert_int_equal(err, PSR_ERR_PROTOCOL);
    assert_non_null(
        strstr(psr_err_detail(), "section 0 of the checkpoint of step 1 comes in more than"));
    assert_true(pieces < 200 + length / 512);
    close_checkpoints();
}

static void pieces_wait_while_the_disk_takes_nothing_and_that_is_told(void **state)
{
    (void)state;
    uint64_t step = 0;
    psr_checkpoints_pace before, pace;
    open_checkpoints();
    assert_false(psr_checkpoints_writing(checkpoints, &pace));
    shut_disk(true);
    put_all_but(4, UINT32_MAX); /* does not wait for the disk */
    expect_ok(psr_checkpoints_whole(checkpoints, 4));
    until_the_disk_is_waited_for();
    assert_true(psr_checkpoints_writing(checkpoints, &before));
    assert_int_equal(before.step, 4);
    assert_true(before.written < 0.5);
    put_section(6, PSR_SECTION_WEIGHTS, 1000); /* the next one may be on its way */
    int64_t now_ms = psr_clock_ms();
    while (psr_clock_ms() == now_ms)
        sched_yield();
    assert_true(psr_checkpoints_writing(checkpoints, &pace));
    assert_int_equal(pace.step, 4);
    assert_true(pace.moved_ms == before.moved_ms && pace.busy_ms > before.busy_ms);
    assert_int_equal(psr_checkpoints_take(checkpoints, &step), PSR_ERR_NOT_FOUND);
    shut_disk(false);
    await_wake();
    expect_ok(psr_checkpoints_take(checkpoints, &step));
    assert_int_equal(step, 4);
    until_all_is_written();
    close_checkpoints();
}

static void the_time_in_which_pieces_are_waited_for_is_not_the_disks(void **state)
{
    (void)state;
    psr_checkpoints_pace pace;
    int64_t begin_ms = psr_clock_ms();
    open_checkpoints();
    put_section(4, PSR_SECTION_SLOT(0), 100000);
    until_all_is_written();
    int64_t idle_ms = 30, idle_since_ms = psr_clock_ms();
    while (psr_clock_ms() < idle_since_ms + idle_ms)
        sched_yield();
    shut_disk(true);
    put_all_but(4, PSR_SECTION_SLOT(0));
    until_the_disk_is_waited_for();
    assert_true(psr_checkpoints_writing(checkpoints, &pace));
    assert_true(pace.busy_ms <= psr_clock_ms() - begin_ms - idle_ms);
    shut_disk(false);
    await_wake();
    close_checkpoints();
}

static void what_is_whole_gets_into_place_at_the_end(void **state)
{
    (void)state;
    open_checkpoints();
    shut_disk(true);
    put_all_but(4, UINT32_MAX);
    put_all_but(6, PSR_SECTION_WEIGHTS);
    until_the_disk_is_waited_for();
    shut_disk(false);
    close_checkpoints();
    assert_true(exists("checkpoints/step-4/state.safetensors"));
    assert_false(exists("checkpoints/.step-6.part"));
    assert_false(exists("checkpoints/step-6"));
}

static void what_the_disk_refuses_is_told_with_its_path(void **state)
{
    (void)state;
    uint64_t step;
    char expected[256];
    open_checkpoints();
    assert_int_equal(rmdir(in_folder("checkpoints")), 0);
    put_section(4, PSR_SECTION_WEIGHTS, 1000);
    await_wake();
    snprintf(expected, sizeof expected,
             "%s/checkpoints/.step-4.part: cannot be made: No such file or directory", folder);
    expect_failure(psr_checkpoints_take(checkpoints, &step), PSR_ERR_IO, expected);
    close_checkpoints();
}

/* The thread stays where it is: the last of these tests. */
static void at_the_end_a_disk_that_hangs_is_left_alone(void **state)
{
    (void)state;
    open_checkpoints();
    shut_disk(true);
    put_all_but(4, UINT32_MAX);
    until_the_disk_is_waited_for();
    int64_t begin_ms = psr_clock_ms();
    psr_checkpoints_free(checkpoints);
    assert_true(psr_clock_ms() - begin_ms >= 5000);
    assert_true(exists("checkpoints/.step-4.part"));
    psr_sections_done(&sections);
}

/* ---- resuming ---- */

/* Of --precision fp16. */
static const float scale_numbers[PSR_LOSS_SCALE_NUMBERS] = {2048, 17, 0, 1};

static void put_checkpoint(uint64_t step)
{
    put_all_but(step, PSR_SECTION_LOSS_SCALE);
    if (sections.has_scale)
        expect_ok(
            put_piece(step, PSR_SECTION_LOSS_SCALE, scale_numbers, 0, PSR_LOSS_SCALE_NUMBERS));
}

static void write_checkpoints(uint64_t first, uint64_t second)
{
    uint64_t step;
    open_checkpoints();
    put_checkpoint(first);
    put_checkpoint(second);
    for (int i = 0; i < 2; i++) {
        while (psr_checkpoints_take(checkpoints, &step) == PSR_ERR_NOT_FOUND)
            await_wake();
    }
    psr_checkpoints_free(checkpoints);
}

static char skipped[1024];

static void note_skipped(void *context, const char *line)
{
    (void)context;
    snprintf(skipped, sizeof skipped, "%s", line);
}

static void flip_a_byte(const char *name, long offset)
{
    FILE *file = fopen(in_folder(name), "r+");
    assert_non_null(file);
    fseek(file, offset, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, offset, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
}

static void the_newest_whole_checkpoint_of_a_run_is_taken_and_a_torn_one_told(void **state)
{
    (void)state;
    psr_resume *resume;
    write_checkpoints(9, 10); /* numbers, not names, are compared */
    expect_ok(psr_resume_open(folder, &config, note_skipped, NULL, &resume));
    assert_int_equal(psr_resume_step(resume), 10);
    expect_ok(psr_resume_check(resume, &sections));
    psr_resume_free(resume);

    flip_a_byte("checkpoints/step-10/state.safetensors", 100000);
    expect_ok(psr_resume_open(folder, &config, note_skipped, NULL, &resume));
    assert_int_equal(psr_resume_step(resume), 9);
    assert_string_equal(psr_resume_path(resume), in_folder("checkpoints/step-9"));
    assert_non_null(strstr(skipped, "step-10/state.safetensors"));
    assert_non_null(strstr(skipped, "looking for the one before it"));
    psr_resume_free(resume);

    /* Named by itself, it is refused. */
    assert_int_equal(
        psr_resume_open(in_folder("checkpoints/step-10"), &config, note_skipped, NULL, &resume),
        PSR_ERR_FORMAT);
    psr_sections_done(&sections);
}

static void what_does_not_fit_the_run_is_refused_by_name(void **state)
{
    (void)state;
    psr_resume *resume;
    char expected[512];
    write_checkpoints(1, 2);
    const char *path = in_folder("checkpoints/step-2");
    snprintf(config.model, sizeof config.model, "mlp");
    snprintf(expected, sizeof expected, "--resume %s is of model resnet20, and --model is mlp",
             path);
    expect_failure(psr_resume_open(path, &config, NULL, NULL, &resume), PSR_ERR_USAGE, expected);
    snprintf(expected, sizeof expected,
             "--resume %s/nowhere: neither a checkpoint (model.safetensors and state.safetensors) "
             "nor a run directory with one in checkpoints/",
             folder);
    expect_failure(psr_resume_open(in_folder("nowhere"), &config, NULL, NULL, &resume),
                   PSR_ERR_NOT_FOUND, expected);
    psr_sections_done(&sections);

    /* Another optimizer's state. */
    snprintf(config.model, sizeof config.model, "resnet20");
    config.optimizer = PSR_OPTIMIZER_ADAM;
    snprintf(expected, sizeof expected,
             "--resume %s is of --optimizer sgd, and --optimizer is adam, which has another state; "
             "give --optimizer sgd, or --init for its weights alone",
             in_folder("checkpoints/step-2"));
    expect_failure(psr_resume_open(in_folder("checkpoints/step-2"), &config, NULL, NULL, &resume),
                   PSR_ERR_USAGE, expected);
}

/* What a run with error feedback leaves, and one of another compression takes up. */
static void what_each_rank_owes_is_a_part_of_the_state(void **state)
{
    (void)state;
    psr_resume *resume;
    psr_checkpoint *file;
    char line[512];
    compress = "topk:0.01";
    write_checkpoints(1, 2);
    compress = "none";
    const psr_tensor *tensor = &sections.net->params.tensors[3];
    char name[128];
    snprintf(name, sizeof name, "residual1/%s", tensor->name);
    float *data = calloc(tensor->count, sizeof *data);
    expect_ok(psr_checkpoint_open(in_folder("checkpoints/step-2/state.safetensors"), &file));
    expect_ok(psr_checkpoint_read(file, name, tensor->rank, tensor->shape, data));
    assert_true(data[5] == value_of(PSR_SECTION_RESIDUAL(1), tensor->offset + 5));
    assert_string_equal(psr_checkpoint_metadata(file, "compress"), "topk:0.01");
    psr_checkpoint_close(file);
    free(data);

    expect_ok(psr_resume_open(folder, &config, NULL, NULL, &resume));
    expect_ok(psr_resume_check(resume, &sections));
    assert_false(psr_resume_drops(resume, &sections, line, sizeof line));
    sections.owes = false; /* --compress fp16 */
    expect_ok(psr_resume_check(resume, &sections));
    assert_true(psr_resume_drops(resume, &sections, line, sizeof line));
    assert_non_null(strstr(
        line, "checkpoints/step-2 was written by a run with --compress topk:0.01, and this run"));
    psr_resume_free(resume);
    psr_sections_done(&sections);
}

static void a_run_that_owes_goes_on_from_one_that_did_not(void **state)
{
    (void)state;
    psr_resume *resume;
    psr_checkpoint *file;
    psr_section_place place;
    char line[512];
    write_checkpoints(1, 2);
    expect_ok(psr_checkpoint_open(in_folder("checkpoints/step-2/state.safetensors"), &file));
    assert_null(psr_checkpoint_metadata(file, "compress"));
    for (size_t i = 0; psr_checkpoint_name(file, i) != NULL; i++)
        assert_null(strstr(psr_checkpoint_name(file, i), "residual"));
    psr_checkpoint_close(file);
    assert_false(psr_sections_place(&sections, PSR_SECTION_RESIDUAL(0), &place));

    sections.owes = true;
    assert_true(psr_sections_place(&sections, PSR_SECTION_RESIDUAL(1), &place));
    assert_int_equal(place.worker, 1);
    expect_ok(psr_resume_open(folder, &config, NULL, NULL, &resume));
    expect_ok(psr_resume_check(resume, &sections)); /* with zeros */
    assert_false(psr_resume_drops(resume, &sections, line, sizeof line));
    psr_resume_free(resume);
    sections.owes = false;
    psr_sections_done(&sections);
}

/* ---- the scale of the loss ---- */

static void the_scale_of_the_loss_is_a_part_of_the_state(void **state)
{
    (void)state;
    psr_resume *resume;
    precision = PSR_PRECISION_FP16;
    write_checkpoints(1, 2);
    precision = PSR_PRECISION_FP32;
    expect_ok(psr_resume_open(folder, &config, NULL, NULL, &resume));
    expect_ok(psr_resume_check(resume, &sections));
    const psr_loss_scale *scale = psr_resume_loss_scale(resume);
    assert_int_equal(scale->scale, 2048);
    assert_int_equal(scale->taken, 17);
    assert_int_equal(scale->skipped, 1);
    psr_resume_free(resume);
    psr_sections_done(&sections);
}

static void a_run_that_scales_the_loss_goes_on_from_one_that_did_not(void **state)
{
    (void)state;
    psr_resume *resume;
    psr_section_place place;
    write_checkpoints(1, 2);
    assert_false(psr_sections_place(&sections, PSR_SECTION_LOSS_SCALE, &place));
    psr_sections_done(&sections);
    config.precision = PSR_PRECISION_FP16;
    expect_ok(psr_sections_init(&config, &facts, &sections));
    assert_true(psr_sections_place(&sections, PSR_SECTION_LOSS_SCALE, &place));
    assert_int_equal(place.file, PSR_CHECKPOINT_STATE);
    expect_ok(psr_resume_open(folder, &config, NULL, NULL, &resume));
    expect_ok(psr_resume_check(resume, &sections));
    assert_int_equal(psr_resume_loss_scale(resume)->scale, 0);
    psr_resume_free(resume);
    psr_sections_done(&sections);
}

/* ---- what workers have of weights that come as differences ---- */

static float read_value(const char *file, const char *prefix, const psr_tensor *tensor, size_t i)
{
    psr_checkpoint *checkpoint;
    char name[128];
    snprintf(name, sizeof name, "%s%s", prefix, tensor->name);
    float *data = calloc(tensor->count, sizeof *data);
    expect_ok(psr_checkpoint_open(in_folder(file), &checkpoint));
    expect_ok(psr_checkpoint_read(checkpoint, name, tensor->rank, tensor->shape, data));
    psr_checkpoint_close(checkpoint);
    const float value = data[i];
    free(data);
    return value;
}

/* The model is what workers have, and what they are evaluated with. */
static void what_shards_update_is_a_part_of_the_state(void **state)
{
    (void)state;
    psr_resume *resume;
    char line[512];
    compress_weights = "1bit";
    write_checkpoints(1, 2);
    compress_weights = "none";
    const psr_tensor *tensor = &sections.net->params.tensors[3];
    assert_true(read_value("checkpoints/step-2/state.safetensors", "updated/", tensor, 5) ==
                value_of(PSR_SECTION_WEIGHTS, tensor->offset + 5));
    assert_true(read_value("checkpoints/step-2/model.safetensors", "", tensor, 5) ==
                value_of(PSR_SECTION_PULLED, tensor->offset + 5));
    expect_ok(psr_resume_open(folder, &config, NULL, NULL, &resume));
    expect_ok(psr_resume_check(resume, &sections));
    assert_false(psr_resume_drops(resume, &sections, line, sizeof line));
    sections.pulls_differences = false;
    expect_ok(psr_resume_check(resume, &sections));
    assert_true(psr_resume_drops(resume, &sections, line, sizeof line));
    assert_non_null(strstr(line, "was written by a run with --compress-weights 1bit, and this run "
                                 "has none: the parts of weights that its shards had not sent yet "
                                 "are dropped"));
    psr_resume_free(resume);
    psr_sections_done(&sections);
}

/* Workers and shards had the same weights. */
static void a_run_of_differences_goes_on_from_one_without(void **state)
{
    (void)state;
    psr_resume *resume;
    psr_section_place place;
    char line[512];
    write_checkpoints(1, 2);
    assert_false(psr_sections_place(&sections, PSR_SECTION_PULLED, &place));
    sections.pulls_differences = true;
    assert_true(psr_sections_place(&sections, PSR_SECTION_PULLED, &place));
    assert_int_equal(place.file, PSR_CHECKPOINT_MODEL);
    assert_true(psr_sections_place(&sections, PSR_SECTION_WEIGHTS, &place));
    assert_int_equal(place.file, PSR_CHECKPOINT_STATE);
    assert_int_equal(place.worker, 0);
    expect_ok(psr_resume_open(folder, &config, NULL, NULL, &resume));
    expect_ok(psr_resume_check(resume, &sections));
    assert_false(psr_resume_drops(resume, &sections, line, sizeof line));
    psr_resume_free(resume);
    sections.pulls_differences = false;
    psr_sections_done(&sections);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(it_appears_when_the_run_begins_and_holds_what_was_logged_before),
        IN_A_FOLDER(run_json_has_configuration_hosts_and_outcome_and_makes_the_same_run_again),
        IN_A_FOLDER(run_json_of_a_gpu_has_its_engines_and_no_algorithms),
        IN_A_FOLDER(a_run_that_had_nothing_to_time_is_repeated_as_it_was_asked_for),
        IN_A_FOLDER(a_run_that_never_began_leaves_nothing),
        IN_A_FOLDER(a_run_that_is_discarded_leaves_nothing_of_its_own),
        IN_A_FOLDER(a_directory_that_cannot_be_made_is_refused_before_anything_is_done),
        IN_A_FOLDER(a_name_that_was_not_told_is_the_first_ones_and_the_others_take_the_next),
        IN_A_FOLDER(a_checkpoint_is_renamed_into_place_when_its_last_piece_has_come),
        IN_A_FOLDER(two_checkpoints_may_be_on_their_way_and_an_unfinished_one_leaves_nothing),
        IN_A_FOLDER(nothing_of_a_checkpoint_is_written_before_the_one_before_it_is_in_place),
        IN_A_FOLDER(pieces_that_do_not_fit_are_violations),
        IN_A_FOLDER(a_section_in_more_pieces_than_anybody_would_send_is_a_violation),
        IN_A_FOLDER(pieces_wait_while_the_disk_takes_nothing_and_that_is_told),
        IN_A_FOLDER(the_time_in_which_pieces_are_waited_for_is_not_the_disks),
        IN_A_FOLDER(what_is_whole_gets_into_place_at_the_end),
        IN_A_FOLDER(what_the_disk_refuses_is_told_with_its_path),
        IN_A_FOLDER(the_newest_whole_checkpoint_of_a_run_is_taken_and_a_torn_one_told),
        IN_A_FOLDER(what_does_not_fit_the_run_is_refused_by_name),
        IN_A_FOLDER(what_each_rank_owes_is_a_part_of_the_state),
        IN_A_FOLDER(a_run_that_owes_goes_on_from_one_that_did_not),
        IN_A_FOLDER(the_scale_of_the_loss_is_a_part_of_the_state),
        IN_A_FOLDER(a_run_that_scales_the_loss_goes_on_from_one_that_did_not),
        IN_A_FOLDER(what_shards_update_is_a_part_of_the_state),
        IN_A_FOLDER(a_run_of_differences_goes_on_from_one_without),
        IN_A_FOLDER(at_the_end_a_disk_that_hangs_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
