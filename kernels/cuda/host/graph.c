#include "kernels/cuda/host/graph.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

/* The runtime knows only the kernels of this program, the driver those of cuBLAS as well. */
typedef CUresult get_params(CUgraphNode, CUDA_KERNEL_NODE_PARAMS *);
enum { GET_PARAMS_SINCE = 12000 };

/* A function of the driver. By version where the toolkit (12.5 on) can say so: the plain way is gone later. */
static cudaError_t find_entry(const char *name, void **found)
{
    enum cudaDriverEntryPointQueryResult status;
#if CUDART_VERSION >= 12050
    return cudaGetDriverEntryPointByVersion(name, found, GET_PARAMS_SINCE, cudaEnableDefault, &status);
#else
    return cudaGetDriverEntryPoint(name, found, cudaEnableDefault, &status);
#endif
}

static get_params *find_get_params(struct err *e)
{
    static get_params *found;
    return found || cuda_ok(find_entry("cuGraphKernelNodeGetParams", (void **)&found),
                            "the driver's view of a graph", e)
               ? found
               : NULL;
}

static bool describe_kernel(cudaGraphNode_t node, struct graph_node *out, struct err *e)
{
    CUDA_KERNEL_NODE_PARAMS p;
    cudaLaunchAttributeValue cluster;
    get_params *get = find_get_params(e);
    if (!get || get(node, &p) != CUDA_SUCCESS)
        return err_set(e, "CUDA: the driver does not say which kernel a node of a graph runs");
    if (!cuda_ok(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributeClusterDimension, &cluster),
                 "graph", e))
        return false;
    out->kernel = p.func ? (const void *)p.func : (const void *)p.kern;
    out->cluster.x = cluster.clusterDim.x;
    out->cluster.y = cluster.clusterDim.y;
    out->cluster.z = cluster.clusterDim.z;
    return true;
}

/* [*n], the caller's; NULL with *e set. */
static struct graph_node *describe(cudaGraph_t graph, int64_t *n, struct err *e)
{
    size_t count = 0;
    if (!cuda_ok(cudaGraphGetNodes(graph, NULL, &count), "graph", e))
        return NULL;
    cudaGraphNode_t *node = xcalloc(count, sizeof *node);
    struct graph_node *out = xcalloc(count, sizeof *out);
    bool good = cuda_ok(cudaGraphGetNodes(graph, node, &count), "graph", e);
    for (size_t i = 0; i < count && good; i++)
        good = cuda_ok(cudaGraphNodeGetType(node[i], &out[i].type), "graph", e) &&
               (out[i].type != cudaGraphNodeTypeKernel || describe_kernel(node[i], &out[i], e));
    free(node);
    *n = (int64_t)count;
    if (good)
        return out;
    free(out);
    return NULL;
}

bool graph_follow(struct cuda_graph *g, cudaGraph_t captured, struct err *e)
{
    cudaGraphExecUpdateResultInfo info;
    int64_t n;
    struct graph_node *node = describe(captured, &n, e);
    if (!node)
        return false;
    bool same = g->exec && n == g->n && memcmp(node, g->node, (size_t)n * sizeof *node) == 0;
    free(g->node);
    g->node = node;
    g->n = n;
    if (same && cudaGraphExecUpdate(g->exec, captured, &info) == cudaSuccess)
        return true;
    cudaGetLastError(); /* refused: not a fault */
    if (g->exec)
        cudaGraphExecDestroy(g->exec);
    g->exec = NULL;
    return cuda_ok(cudaGraphInstantiate(&g->exec, captured, 0), "graph", e);
}

void graph_free(struct cuda_graph *g)
{
    if (g->exec)
        cudaGraphExecDestroy(g->exec);
    free(g->node);
}
