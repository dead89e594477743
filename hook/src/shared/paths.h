/* The paths of a container's files. Constants of the build: a tenant's setting, such as an
 * environment variable, must not choose its limits. Tests build a variant with relative paths. */
#ifndef HOOK_PATHS_H
#define HOOK_PATHS_H

#ifndef HOOK_LIMITS_PATH
#define HOOK_LIMITS_PATH "/etc/vcuda/limits"
#endif
#ifndef HOOK_ACTIVITY_PATH
#define HOOK_ACTIVITY_PATH "/etc/vcuda/activity"
#endif
#ifndef HOOK_LEDGER_PATH
#define HOOK_LEDGER_PATH "/etc/vcuda/ledger"
#endif

#endif
