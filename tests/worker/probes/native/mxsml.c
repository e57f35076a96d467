/* A small libmxsml for tests: the documented calls over a fixed host, bent by variables.
 *
 * FAKE_MXSML is a list of words: nocard, hang, hang-once, crash, chatter, badcard, alone, onehost.
 * FAKE_MXSML_CALLERS is a file that gets the number of each process that begins to use the library;
 * with hang-once the first of them hangs.
 * -DOLD leaves out the calls that old libraries lack.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NO_DEVICE = 2, NOT_SUPPORTED = 3, SYSFS_ERROR = 4, INVALID_ID = 6 };
enum { COUNT = 4, LINKS = 7 };

typedef struct {
    unsigned deviceId;
    int type;
    char bdfId[32];
    unsigned gpuId, nodeId;
    char uuid[96];
    int brand, mode;
    char deviceName[32];
} info_t;
typedef struct { long visTotal, visUse, vramTotal, vramUse, xttTotal, xttUse; } memory_t;
typedef struct { float speed; unsigned width; } link_t;
typedef struct { int ceAer, ueAer; } aer_t;
typedef struct { int deviceId; char bdfId[32]; } remote_t;
typedef struct { int code; char reason[64]; } unavailable_t;

static int is(const char *word) {
    const char *words = getenv("FAKE_MXSML");
    return words != NULL && strstr(words, word) != NULL;
}

static int is_first_caller(void) {
    const char *path = getenv("FAKE_MXSML_CALLERS");
    FILE *callers = path == NULL ? NULL : fopen(path, "a");
    if (callers == NULL) return 1;
    fseek(callers, 0, SEEK_END);
    int first = ftell(callers) == 0;
    fprintf(callers, "%d\n", (int)getpid());
    fclose(callers);
    return first;
}

static unsigned init(void) {
    int first = is_first_caller();
    if (is("hang-once") ? first : is("hang")) sleep(600);
    if (is("crash")) abort();
    if (is("chatter")) { printf("MXSML says hello\n"); fflush(stdout); }
    return is("nocard") ? NO_DEVICE : SUCCESS;
}

unsigned mxSmlInit(void) { return init(); }
#ifndef OLD
unsigned mxSmlInitWithFlags(unsigned flags) { (void)flags; return init(); }
unsigned mxSmlGetEthThroughput(void) { return NOT_SUPPORTED; }
#endif

unsigned mxSmlGetDeviceCount(void) { return COUNT; }

unsigned mxSmlGetDeviceInfo(unsigned i, info_t *info) {
    if (i >= COUNT) return INVALID_ID;
    memset(info, 0, sizeof *info);
    info->deviceId = i;
    snprintf(info->bdfId, sizeof info->bdfId, "0000:%02x:00.0", 0x0e + i);
    snprintf(info->uuid, sizeof info->uuid, "GPU-0000000%u", i);
    snprintf(info->deviceName, sizeof info->deviceName, "MXC500");
    return SUCCESS;
}

unsigned mxSmlGetDeviceState(unsigned i, int *state) {
    *state = !(is("badcard") && i == 1);
    return SUCCESS;
}

unsigned mxSmlGetDeviceUnavailableReason(unsigned i, unavailable_t *why) {
    (void)i;
    why->code = 3;
    snprintf(why->reason, sizeof why->reason, "MetaX Sysfs File Unaccessible");
    return SUCCESS;
}

unsigned mxSmlGetNodeAffinity(unsigned i, unsigned size, unsigned *set) {
    memset(set, 0, size * sizeof *set);
    if (i < 2) set[0] = 1u << i;
    if (i == 2) set[1] = 1u << 2;
    return SUCCESS;
}

unsigned mxSmlGetMemoryInfo(unsigned i, memory_t *memory) {
    if (is("badcard") && i == 1) return SYSFS_ERROR;
    memset(memory, 0, sizeof *memory);
    memory->vramTotal = 64L << 20;
    return SUCCESS;
}

unsigned mxSmlGetMetaXLinkInfo_v2(unsigned i, unsigned *size, link_t *links) {
    (void)i;
    for (unsigned link = 0; link < LINKS; link++) {
        links[link].speed = link < 4 ? 32.0f : 0.0f;
        links[link].width = link < 4 ? 16 : 0;
    }
    *size = LINKS;
    return SUCCESS;
}

unsigned mxSmlGetMetaXLinkRemoteInfo(unsigned i, unsigned link, remote_t *remote) {
    if (link >= 3) return link == 6 ? SYSFS_ERROR : NO_DEVICE;
    unsigned peer = link >= i ? link + 1 : link;
    remote->deviceId = (int)peer;
    snprintf(remote->bdfId, sizeof remote->bdfId, "0000:%02x:00.0", 0x0e + peer);
    return SUCCESS;
}

#ifndef OLD
unsigned mxSmlGetMetaXLinkPortState(unsigned i, int *states, unsigned *size) {
    (void)i;
    for (unsigned link = 0; link < LINKS; link++) states[link] = link < 3 ? 1 : link == 3 ? 2 : 5;
    *size = LINKS;
    return SUCCESS;
}

unsigned mxSmlGetMetaXLinkAer(unsigned i, unsigned *size, aer_t *errors) {
    for (unsigned link = 0; link < LINKS; link++) {
        errors[link].ceAer = (int)(10 * i + link);
        errors[link].ueAer = link == 3;
    }
    *size = LINKS;
    return SUCCESS;
}
#endif

unsigned mxSmlGetDeviceTopology(unsigned a, unsigned b, int *level) {
    (void)a, (void)b;
    if (is("badcard") && (a == 1 || b == 1)) return SYSFS_ERROR;
    *level = 5;
    return SUCCESS;
}

#ifndef OLD
unsigned mxSmlGetLocalAndMultipleRemoteUuid(char *local, char **remotes, unsigned *count,
                                            unsigned *size) {
    if (is("alone")) return NOT_SUPPORTED;
    snprintf(local, *size, "1b0c2fa6-1dd2-11b2-01cc-b51e3bd74330");
    snprintf(remotes[0], *size, "1ad2e412-1dd2-11b2-01cc-cb1e3bd74330");
    if (!is("onehost")) snprintf(remotes[1], *size, "1ae13bca-1dd2-11b2-01cc-1b8b3bd74330");
    *count = 2;
    return SUCCESS;
}
#else
unsigned mxSmlGetLocalAndRemoteUuid(char *local, char *remote, unsigned *size) {
    snprintf(local, *size, "1b0c2fa6-1dd2-11b2-01cc-b51e3bd74330");
    snprintf(remote, *size, "1ad2e412-1dd2-11b2-01cc-cb1e3bd74330");
    return SUCCESS;
}
#endif
