#define RECORDED_MOST 40
#define RECORDED_SERIES 1
static const struct {
    uint32_t count;
    double rates[RECORDED_MOST];
} recorded[RECORDED_SERIES] = {{20, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}};
