/* The newer ways to begin a capture: to the fake driver the same as the older one. */
#include "fake_launch.h"

cuStreamBeginCapture_v2_fn cuStreamBeginCapture_v2;
cuStreamEndCapture_fn cuStreamEndCapture;

cuStreamBeginRecaptureToGraph_fn cuStreamBeginRecaptureToGraph;
CUresult cuStreamBeginRecaptureToGraph(CUstream stream, int mode, CUgraph graph,
                                       CUgraphRecaptureCallback callback, void *data) {
    (void)graph, (void)callback, (void)data;
    return cuStreamBeginCapture_v2(stream, mode);
}

cuStreamBeginCaptureToCig_fn cuStreamBeginCaptureToCig;
CUresult cuStreamBeginCaptureToCig(CUstream stream, CUstreamCigCaptureParams *parameters) {
    (void)parameters;
    return cuStreamBeginCapture_v2(stream, 2); /* relaxed, as cuda.h says */
}

cuStreamEndCaptureToCig_fn cuStreamEndCaptureToCig;
CUresult cuStreamEndCaptureToCig(CUstream stream) {
    CUgraph graph;
    return cuStreamEndCapture(stream, &graph);
}
