/* The C interface for strategies in shared libraries: see PROTOCOL.md, "Shared libraries".
 *
 * A separate process opens the library and implements the protocol. Neither side frees memory of the other, and the
 * library is never unloaded. If the library crashes, the host appends nothing. */
#ifndef JP_COMPACT_STRATEGY_H
#define JP_COMPACT_STRATEGY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The value of `abi`. */
#define JPC_ABI 1

/* Writes one line of the reply, with or without its newline. The caller may free the line after the call. If the result
 * is not 0, the host has stopped reading, and `run` should return. */
typedef int (*jpc_emit)(void *ctx, const uint8_t *line, size_t len);

typedef struct {
  uint32_t abi;              /* JPC_ABI */
  uint32_t size;             /* sizeof(jpc_strategy_v1) */
  const char *describe_json; /* the description, on one line; static */
  /* Replies to one request. `request` is the header line, and `events` are the event lines without `events_end`. It
   * emits lines on the calling thread, and returns 0 after exactly one terminal line. */
  int32_t (*run)(const uint8_t *request, size_t len, const uint8_t *events, size_t events_len, jpc_emit emit,
                 void *ctx);
} jpc_strategy_v1;

/* The only symbol that the library exports. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const jpc_strategy_v1 *jp_compact_strategy_v1(void);

#ifdef __cplusplus
}
#endif

#endif
