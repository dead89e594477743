/* Physical memory of the fake driver: freed with its last handle and its last mapping. */
#include "fake_driver.h"
#include "fake_launch.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MAX_BLOCKS = 256, MAX_MAPPINGS = 256 };

static struct {
    size_t bytes; /* 0: free place; its number plus FIRST_HANDLE is the handle */
    unsigned handles, mappings;
    bool on_card;
    bool exported; /* and so kept: no event says that the descriptor is closed */
} blocks[MAX_BLOCKS];
static struct {
    CUdeviceptr address;
    size_t bytes; /* 0: free place */
    unsigned block;
} mappings[MAX_MAPPINGS];
enum { FIRST_HANDLE = 5 };

static void end_if_unused(unsigned block) {
    if (blocks[block].handles == 0 && blocks[block].mappings == 0 && !blocks[block].exported) {
        fake_unuse(blocks[block].on_card ? blocks[block].bytes : 0);
        blocks[block].bytes = 0;
    }
}

static bool is_known(CUmemGenericAllocationHandle handle) {
    return handle >= FIRST_HANDLE && handle < FIRST_HANDLE + MAX_BLOCKS &&
           blocks[handle - FIRST_HANDLE].bytes != 0;
}

cuMemCreate_fn cuMemCreate;
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *properties, cuuint64_t flags) {
    (void)flags;
    fake_take_turn();
    fake_lock();
    CUresult result = fake_allocate_call();
    if (result == CUDA_SUCCESS && (properties == NULL || bytes == 0 || bytes % (2u << 20) != 0 ||
                                   properties->location.id >= FAKE_CARDS)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; result == CUDA_SUCCESS; i++) {
        if (blocks[i].bytes == 0) {
            blocks[i].bytes = bytes;
            blocks[i].handles = 1;
            blocks[i].on_card = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
            fake_use(blocks[i].on_card ? bytes : 0);
            *handle = FIRST_HANDLE + i;
            break;
        }
    }
    fake_unlock();
    fake_take_turn();
    return result;
}

cuMemRelease_fn cuMemRelease;
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    fake_lock();
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (is_known(handle) && blocks[handle - FIRST_HANDLE].handles != 0) {
        blocks[handle - FIRST_HANDLE].handles--;
        end_if_unused((unsigned)handle - FIRST_HANDLE);
        result = CUDA_SUCCESS;
    }
    fake_unlock();
    return result;
}

cuMemRetainAllocationHandle_fn cuMemRetainAllocationHandle;
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    CUdeviceptr wanted = (CUdeviceptr)address;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    for (unsigned i = 0; i < MAX_MAPPINGS; i++) {
        if (mappings[i].bytes != 0 && wanted >= mappings[i].address &&
            wanted < mappings[i].address + mappings[i].bytes) {
            blocks[mappings[i].block].handles++;
            *handle = mappings[i].block + FIRST_HANDLE;
            result = CUDA_SUCCESS;
        }
    }
    fake_unlock();
    fake_take_turn();
    return result;
}

/* A file that names the block. */
cuMemExportToShareableHandle_fn cuMemExportToShareableHandle;
CUresult cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle, int type,
                                      cuuint64_t flags) {
    (void)type, (void)flags;
    int fd = memfd_create("fake", MFD_CLOEXEC);
    fake_lock();
    if (is_known(handle)) {
        blocks[handle - FIRST_HANDLE].exported = true;
    }
    fake_unlock();
    *(int *)shared = fd;
    fake_take_turn();
    return fd >= 0 && write(fd, &handle, sizeof handle) == (ssize_t)sizeof handle
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

cuMemImportFromShareableHandle_fn cuMemImportFromShareableHandle;
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                        int type) {
    (void)type;
    CUmemGenericAllocationHandle found = 0;
    if (pread((int)(intptr_t)shared, &found, sizeof found, 0) != (ssize_t)sizeof found) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    fake_lock();
    *handle = found;
    if (is_known(found)) {
        blocks[found - FIRST_HANDLE].handles++;
    }
    fake_unlock();
    fake_take_turn();
    return CUDA_SUCCESS;
}

cuMemMap_fn cuMemMap;
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, cuuint64_t flags) {
    (void)offset;
    fake_lock();
    CUresult result = is_known(handle) && flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; result == CUDA_SUCCESS; i++) {
        if (mappings[i].bytes == 0) {
            mappings[i].address = address;
            mappings[i].bytes = bytes;
            mappings[i].block = (unsigned)handle - FIRST_HANDLE;
            blocks[mappings[i].block].mappings++;
            break;
        }
    }
    fake_unlock();
    return result;
}

/* Whole mappings only, as many as lie in the range. */
cuMemUnmap_fn cuMemUnmap;
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
    size_t found = 0;
    fake_lock();
    for (unsigned i = 0; i < MAX_MAPPINGS; i++) {
        if (mappings[i].address >= address &&
            mappings[i].address + mappings[i].bytes <= address + bytes) {
            found += mappings[i].bytes;
        }
    }
    for (unsigned i = 0; found == bytes && i < MAX_MAPPINGS; i++) {
        if (mappings[i].bytes != 0 && mappings[i].address >= address &&
            mappings[i].address < address + bytes) {
            mappings[i].bytes = 0;
            blocks[mappings[i].block].mappings--;
            end_if_unused(mappings[i].block);
        }
    }
    fake_unlock();
    return found == bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
