/* A small libnvidia-ml for tests: the symbols that nvidia-ml-py asks for, over a GB200 tray.
 *
 * FAKE_NVML is a list of words: unloaded, gone, lost, nofabric, insufficient, v2, v1, strangefabric,
 * slow.
 * -DOLD leaves out fabric and platform calls, as drivers before 525 do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_RESOURCES = 24,
    DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, UNKNOWN = 999, VERSION_MISMATCH = 25
};
enum { COUNT = 4, LINKS = 18, SWITCH = 2 };

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} pci_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct {
    unsigned version;
    unsigned char clusterUuid[16];
    unsigned status, cliqueId;
    unsigned char state;
    unsigned healthMask;
    unsigned char healthSummary;
} fabric_t;
typedef struct {
    unsigned char clusterUuid[16];
    unsigned status, cliqueId;
    unsigned char state;
} fabric_v1_t;
typedef struct {
    unsigned version;
    unsigned char ibGuid[16];
    char chassisSerialNumber[16];
    unsigned char slotNumber, trayIndex, hostId, peerType, moduleId;
} platform_t;

static int is(const char *word) {
    const char *words = getenv("FAKE_NVML");
    return words != NULL && strstr(words, word) != NULL;
}
static long number(void *device) { return (char *)device - (char *)NULL - 1; }

int nvmlInitWithFlags(unsigned flags) { (void)flags; return is("unloaded") ? DRIVER_NOT_LOADED : 0; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "an error"; }

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    snprintf(version, size, "570.124.06");
    return SUCCESS;
}
int nvmlDeviceGetCount_v2(unsigned *count) { *count = COUNT; return is("gone") ? UNKNOWN : SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) {
    if (is("lost") && i == 2) return GPU_IS_LOST;
    *device = (char *)NULL + i + 1;
    return SUCCESS;
}
int nvmlDeviceGetPciInfo_v3(void *device, pci_t *pci) {
    snprintf(pci->busId, sizeof pci->busId, "0000000%ld:01:00.0", 8 + number(device) % 2);
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    (void)device;
    memory->total = 198674743296ull;
    return SUCCESS;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) {
    snprintf(uuid, size, "GPU-%08ld", number(device));
    return SUCCESS;
}
int nvmlDeviceGetName(void *device, char *name, unsigned size) {
    (void)device;
    snprintf(name, size, "NVIDIA GB200");
    return SUCCESS;
}
int nvmlDeviceGetNumaNodeId(void *device, int *node) {
    *node = 2 + 8 * (int)number(device);
    return SUCCESS;
}
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *level) {
    *level = number(a) / 2 == number(b) / 2 ? 40 : 50;
    return SUCCESS;
}
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *state) {
    (void)device;
    if (link >= LINKS) return INVALID_ARGUMENT;
    *state = link != 5;
    return SUCCESS;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, pci_t *pci) {
    (void)device;
    if (link == 5) return NOT_SUPPORTED;
    snprintf(pci->busId, sizeof pci->busId, "00000000:C3:00.0");
    return link == 6 ? UNKNOWN : SUCCESS;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type) {
    (void)device;
    *type = SWITCH;
    return link == 5 ? NOT_SUPPORTED : SUCCESS;
}

#ifndef OLD
typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType, nvmlReturn;
    union { double dVal; unsigned uiVal; unsigned long long ullVal; } value;
} field_t;
enum { NVLINK_GET_SPEED = 164 };

int nvmlDeviceGetFieldValues(void *device, int count, field_t *fields) {
    (void)device;
    for (int i = 0; i < count; i++) {
        int known = fields[i].fieldId == NVLINK_GET_SPEED && fields[i].scopeId != 7;
        fields[i].nvmlReturn = known ? SUCCESS : NOT_SUPPORTED;
        fields[i].value.uiVal = is("slow") && fields[i].scopeId == 3 ? 1562 : 53125;
    }
    return SUCCESS;
}
static void cluster(unsigned char *uuid) {
    for (int i = 0; i < 16; i++) uuid[i] = (unsigned char)(is("insufficient") ? 0 : i + 1);
}
int nvmlDeviceGetGpuFabricInfoV(void *device, fabric_t *fabric) {
    (void)device;
    unsigned version = fabric->version >> 24;
    if (is("nofabric")) return NOT_SUPPORTED;
    if (is("strangefabric")) return UNKNOWN;
    if (is("v1") || (is("v2") && version == 3)) return VERSION_MISMATCH;
    cluster(fabric->clusterUuid);
    fabric->status = is("insufficient") ? INSUFFICIENT_RESOURCES : SUCCESS;
    fabric->cliqueId = is("insufficient") ? 0 : 32766;
    fabric->state = 3;
    fabric->healthMask = 0xaa;
    if (version == 3) fabric->healthSummary = 1;
    return SUCCESS;
}
int nvmlDeviceGetGpuFabricInfo(void *device, fabric_v1_t *fabric) {
    (void)device;
    cluster(fabric->clusterUuid);
    fabric->status = SUCCESS;
    fabric->cliqueId = 7;
    fabric->state = 3;
    return SUCCESS;
}
int nvmlDeviceGetPlatformInfo(void *device, platform_t *platform) {
    static const unsigned char guid[16] = {0x94, 0x6d, 0, 0, 0xae};
    if (is("nofabric")) return NOT_SUPPORTED;
    memcpy(platform->ibGuid, guid, sizeof guid);
    memcpy(platform->chassisSerialNumber, "1821624200001", 13);
    platform->slotNumber = 14;
    platform->trayIndex = 4;
    platform->hostId = 1;
    platform->peerType = 1;
    platform->moduleId = (unsigned char)(number(device) + 1);
    return SUCCESS;
}
#endif
