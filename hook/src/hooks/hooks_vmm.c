#include "hooks/hooks_vmm.h"

#include "hooks/current_context.h"
#include "hooks/mempool_driver.h"
#include "memory/vmm_export.h"
#include "memory/vmm_map.h"

static CUresult create_on_card(struct driver *driver, CUmemGenericAllocationHandle *handle,
                               size_t bytes, const CUmemAllocationProp *properties,
                               cuuint64_t flags, const struct current_context *current) {
    struct vmm_charge charge;
    CUresult result = vmm_charge(current, bytes, &charge);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && mempool_driver_reclaim(driver)) {
        result = vmm_charge(current, bytes, &charge);
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    CUmemGenericAllocationHandle made = 0;
    result = REAL(driver, cuMemCreate)(handle == NULL ? NULL : &made, bytes, properties, flags);
    if (result == CUDA_SUCCESS) {
        vmm_keep(&charge, made);
        *handle = made;
    } else {
        vmm_cancel(&charge);
    }
    return result;
}

/* The driver refuses a request that names no card. */
CUresult gate_cuMemCreate(struct driver *driver, CUmemGenericAllocationHandle *handle, size_t bytes,
                          const CUmemAllocationProp *properties, cuuint64_t flags) {
    struct current_context current;
    properties = READ_ONCE(driver, properties);
    if (properties == NULL || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !current_context_of_device(driver, properties->location.id, &current)) {
        return REAL(driver, cuMemCreate)(handle, bytes, properties, flags);
    }
    return create_on_card(driver, handle, bytes, properties, flags, &current);
}

CUresult gate_cuMemRelease(struct driver *driver, CUmemGenericAllocationHandle handle) {
    struct vmm_release release = vmm_release_begin(handle);
    CUresult result = REAL(driver, cuMemRelease)(handle);
    vmm_release_end(&release, result == CUDA_SUCCESS);
    return result;
}

/* Both may answer a handle that is known: each answer needs a release of its own. */
CUresult gate_cuMemRetainAllocationHandle(struct driver *driver,
                                          CUmemGenericAllocationHandle *handle, void *address) {
    CUmemGenericAllocationHandle known = 0;
    CUresult result =
        REAL(driver, cuMemRetainAllocationHandle)(handle == NULL ? NULL : &known, address);
    if (result == CUDA_SUCCESS) {
        vmm_retained(known);
        *handle = known;
    }
    return result;
}

CUresult gate_cuMemExportToShareableHandle(struct driver *driver, void *shared,
                                           CUmemGenericAllocationHandle handle, int type,
                                           cuuint64_t flags) {
    int fd = -1;
    bool own = shared != NULL && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUresult result =
        REAL(driver, cuMemExportToShareableHandle)(own ? &fd : shared, handle, type, flags);
    if (result == CUDA_SUCCESS && own) {
        vmm_exported(handle, fd);
        *(int *)shared = fd;
    }
    return result;
}

CUresult gate_cuMemImportFromShareableHandle(struct driver *driver,
                                             CUmemGenericAllocationHandle *handle, void *shared,
                                             int type) {
    CUmemGenericAllocationHandle known = 0;
    CUresult result =
        REAL(driver, cuMemImportFromShareableHandle)(handle == NULL ? NULL : &known, shared, type);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        vmm_imported(known, (int)(intptr_t)shared);
    } else {
        vmm_retained(known);
    }
    *handle = known;
    return CUDA_SUCCESS;
}

CUresult gate_cuMemMap(struct driver *driver, CUdeviceptr address, size_t bytes, size_t offset,
                       CUmemGenericAllocationHandle handle, cuuint64_t flags) {
    bool known;
    CUresult result = vmm_map_begin(handle, &known);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(driver, cuMemMap)(address, bytes, offset, handle, flags);
    if (known) {
        vmm_map_end(handle, address, bytes, result == CUDA_SUCCESS);
    }
    return result;
}

CUresult gate_cuMemUnmap(struct driver *driver, CUdeviceptr address, size_t bytes) {
    vmm_unmap_begin(address, bytes);
    CUresult result = REAL(driver, cuMemUnmap)(address, bytes);
    vmm_unmap_end(address, bytes, result == CUDA_SUCCESS);
    return result;
}
