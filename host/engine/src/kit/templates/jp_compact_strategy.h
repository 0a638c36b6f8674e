/* The C side of a strategy of jp-compact that is a shared library: see PROTOCOL.md, "Shared libraries".
 *
 * The library is opened in a process of its own, which speaks the protocol for it. No allocation crosses the
 * border, and the library is never unloaded. A crash is an exit status, and nothing of it is appended. */
#ifndef JP_COMPACT_STRATEGY_H
#define JP_COMPACT_STRATEGY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The only value of `abi` so far. */
#define JPC_ABI 1

/* Takes one line of the reply, with or without its newline; it may be freed when the call returns. What is not 0
 * means that nobody listens any more: stop. */
typedef int (*jpc_emit)(void *ctx, const uint8_t *line, size_t len);

typedef struct {
  uint32_t abi;              /* JPC_ABI */
  uint32_t size;             /* sizeof(jpc_strategy_v1) */
  const char *describe_json; /* the answer to `describe`, one line; lives for ever */
  /* Answers one request: `request` is the header line, `events` the event lines without `events_end`. Emits on the
   * thread that it was called on, and returns 0 after exactly one line that ends the reply. */
  int32_t (*run)(const uint8_t *request, size_t len, const uint8_t *events, size_t events_len, jpc_emit emit,
                 void *ctx);
} jpc_strategy_v1;

/* The one symbol that the library exports. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const jpc_strategy_v1 *jp_compact_strategy_v1(void);

#ifdef __cplusplus
}
#endif

#endif
