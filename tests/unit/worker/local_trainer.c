#include "tests/unit/worker/local_trainer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

psr_config config;
psr_network *net;
psr_session *session;
psr_exchange *exchange;
psr_trainer trainer;

static psr_buckets buckets;
static psr_opened opened;
static psr_plan plan; /* mode local: nothing leaves the process */

void configure_trainer(uint32_t test_count)
{
    psr_config_defaults(&config);
    config.mode = PSR_MODE_LOCAL;
    config.backend = PSR_BACKEND_REFERENCE;
    config.workers = 3;
    config.batch_size = 8;
    config.threads = 1;
    config.seed = 4;
    strcpy(config.model, "resnet20");
    snprintf(config.data, sizeof config.data,
             "synthetic:count=40,test=%" PRIu32 ",channels=1,size=8,classes=4", test_count);
}

static void plan_trainer(void)
{
    psr_compression compression, pulled;
    psr_part *parts = NULL;
    expect_ok(psr_compression_parse(config.compress, &compression));
    expect_ok(psr_compression_parse(config.compress_weights, &pulled));
    const psr_plan_options options = {.route = PSR_ROUTE_NONE,
                                      .ranks = 3,
                                      .slice_floats = 1024,
                                      .window = 1,
                                      .compression = &compression,
                                      .pulled = &pulled};
    expect_ok(psr_buckets_parts(&buckets, false, &parts));
    expect_ok(psr_plan_make(&options, parts, buckets.count, &plan));
    free(parts);
}

void open_trainer(psr_session_options options)
{
    expect_ok(psr_network_new(config.model, 4, 1, 8, 8, config.shortcut, &net));
    expect_ok(psr_buckets_plan(&net->params, psr_bucket_bytes(&net->params, config.bucket_bytes),
                               &buckets));
    plan_trainer();
    options.commands_max = psr_exchange_commands_max(&buckets);
    expect_ok(psr_session_new(&options, &session));
    const psr_exchange_options exchange_options = {.session = session,
                                                   .config = &config,
                                                   .layout = &net->params,
                                                   .buckets = &buckets,
                                                   .plan = &plan,
                                                   .ways = &(psr_ways){{&psr_engine_local}, 1}};
    expect_ok(psr_exchange_new(&exchange_options, &exchange));
    expect_ok(psr_opened_init(config.data, NULL, NULL, &opened));
    const psr_sampler sampler = psr_trainer_sampler(&config, config.workers, opened.train->count);
    const psr_deal deal = psr_sampler_deal(&sampler);
    config.pace = psr_pace_of(&deal, true);
    const psr_trainer_options trainer_options = {.config = &config,
                                                 .net = net,
                                                 .buckets = &buckets,
                                                 .session = session,
                                                 .exchange = exchange,
                                                 .data = &opened,
                                                 .ranks = config.workers,
                                                 .first_step = options.first_step,
                                                 .total_steps = options.total_steps};
    expect_ok(psr_trainer_init(&trainer_options, &trainer));
    assert_int_equal(trainer.replica_count, 3);
}

void close_trainer(void)
{
    psr_trainer_done(&trainer);
    psr_opened_done(&opened);
    psr_exchange_free(exchange);
    psr_session_free(session);
    psr_plan_done(&plan);
    psr_buckets_done(&buckets);
    psr_network_free(net);
}
