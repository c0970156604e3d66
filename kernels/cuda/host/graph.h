/*
 * graph.h - a CUDA graph that is captured anew at every step.
 *
 * Updating the executable graph of the step before costs a fraction of making a new one. But cudaGraphExecUpdate leaves the size
 * of clusters as it was and reports success. If a node has become another kernel of cuBLAS, one for clusters of 4 x 1 where there
 * were none, it then computes nonsense (H200, driver 580.159.04, CUDA 13.0). So a graph is updated only if every node runs the
 * same kernel in clusters of the same size. Otherwise it is made anew.
 */
#ifndef TREEATTN_KERNELS_CUDA_HOST_GRAPH_H
#define TREEATTN_KERNELS_CUDA_HOST_GRAPH_H

#include "kernels/cuda/host/device.h"

struct graph_node {
    enum cudaGraphNodeType type;
    const void *kernel;
    struct {
        unsigned x, y, z;
    } cluster;
};

/* Zero-initialise; graph_free. */
struct cuda_graph {
    cudaGraphExec_t exec;
    struct graph_node *node; /* [n] what exec was made of */
    int64_t n;
};

/* exec becomes what was captured. */
bool graph_follow(struct cuda_graph *g, cudaGraph_t captured, struct err *e);
void graph_free(struct cuda_graph *g);

#endif
