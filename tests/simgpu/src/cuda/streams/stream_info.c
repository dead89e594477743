/* Answers of a stream about itself. */
#include "api.h"

static CUresult find(CUstream handle, struct stream **stream) {
    struct context *context;
    CUresult rc = context_current(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&driver.lock);
    *stream = stream_of_handle(context, handle);
    pthread_mutex_unlock(&driver.lock);
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamGetPriority(CUstream handle, int *priority) {
    struct stream *stream;
    CUresult rc = find(handle, &stream);
    if (rc == CUDA_SUCCESS && !priority)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *priority = stream->priority;
    return rc;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned *flags) {
    struct stream *stream;
    CUresult rc = find(handle, &stream);
    if (rc == CUDA_SUCCESS && !flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *flags = stream->flags;
    return rc;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id) {
    struct stream *stream;
    CUresult rc = find(handle, &stream);
    if (rc == CUDA_SUCCESS && !id)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *id = stream->id;
    return rc;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context) {
    struct stream *stream;
    CUresult rc = find(handle, &stream);
    if (rc == CUDA_SUCCESS && !context)
        return CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *context = stream->context;
    return rc;
}

CUresult cuStreamGetPriority_ptsz(CUstream handle, int *priority) {
    return cuStreamGetPriority(own_stream(handle), priority);
}

CUresult cuStreamGetFlags_ptsz(CUstream handle, unsigned *flags) {
    return cuStreamGetFlags(own_stream(handle), flags);
}

CUresult cuStreamGetId_ptsz(CUstream handle, unsigned long long *id) {
    return cuStreamGetId(own_stream(handle), id);
}

CUresult cuStreamGetCtx_ptsz(CUstream handle, CUcontext *context) {
    return cuStreamGetCtx(own_stream(handle), context);
}
