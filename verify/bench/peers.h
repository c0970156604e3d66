/*
 * peers.h - kernels that others released, as somebody timed them: the format of ../shared/peers/README.md.
 */
#ifndef TREEATTN_VERIFY_BENCH_PEERS_H
#define TREEATTN_VERIFY_BENCH_PEERS_H

#include "ref/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gpu_peer {
    char *tree; /* "1,10_4096,416" */
    int32_t h_q, h_kv;
    char method[16];
    double us;
    double read_bps; /* of its own card, in its own run */
};
struct gpu_peers {
    int64_t n, cap;
    struct gpu_peer *at;
};
/* Every *.csv of a folder. Files with other columns and rows that were not measured are left out; a row that is cut off is an
 * error, and so is a folder without timings. Free with gpu_peers_free. */
bool gpu_peers_read(const char *dir, struct gpu_peers *out, struct err *e);
void gpu_peers_free(struct gpu_peers *p);
/* Of the card that the peers ran on: bytes per second, operations per second. */
#define PEER_READ_BPS 4525e9
#define PEER_TENSOR_FLOPS 790e12

#ifdef __cplusplus
}
#endif

#endif
