/* @NAME@: strips the output of tool calls. Replace `run` with your own code. A strategy that reads
 * more than this needs a JSON library. */
#include "jp_compact_strategy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the text after the first `name`. The host writes no blanks between tokens. */
static const char *after(const char *text, const char *name) {
  const char *found = text ? strstr(text, name) : NULL;
  return found ? found + strlen(name) : NULL;
}

/* Returns the end of a string. `text` starts after the opening quote. */
static const char *string_end(const char *text) {
  for (; *text && *text != '"'; text++)
    if (*text == '\\' && text[1]) text++;
  return text;
}

static int32_t run(const uint8_t *request, size_t len, const uint8_t *events, size_t events_len, jpc_emit emit,
                   void *ctx) {
  (void)events, (void)events_len;
  char *text = malloc(len + 1);
  if (!text) return 1;
  memcpy(text, request, len);
  text[len] = 0;

  const char *id = after(text, "\"id\":\"");
  const char *range = after(text, "\"requested_range\":{");
  const char *first = after(range, "\"from_turn\":"), *last = after(range, "\"to_turn\":");
  size_t capacity = len + 512;
  char *reply = malloc(capacity);
  if (!id || !first || !last || !reply) return free(text), free(reply), 1;

  int has_output = 0;
  unsigned long from = strtoul(first, NULL, 10), to = strtoul(last, NULL, 10);
  for (const char *row = after(text, "\"turns\":["); (row = after(row, "{\"turn\":"));) {
    unsigned long turn = strtoul(row, NULL, 10);
    const char *tokens = after(row, "\"tool_response_tokens\":");
    if (tokens && turn >= from && turn <= to && strtoul(tokens, NULL, 10) > 0) has_output = 1;
  }

  int written;
  int id_len = (int)(string_end(id) - id);
  if (has_output)
    written = snprintf(reply, capacity,
                       "{\"type\":\"result\",\"id\":\"%.*s\",\"compactions\":[{\"from_turn\":%lu,\"to_turn\":%lu,"
                       "\"tool_calls\":{\"policy\":\"strip\",\"request\":false,\"response\":true}}]}",
                       id_len, id, from, to);
  else
    written = snprintf(reply, capacity, "{\"type\":\"decline\",\"id\":\"%.*s\",\"reason\":\"no tool output in range\"}",
                       id_len, id);
  emit(ctx, (const uint8_t *)reply, (size_t)written);
  free(text);
  free(reply);
  return 0;
}

static const jpc_strategy_v1 STRATEGY = {
    JPC_ABI,
    sizeof(jpc_strategy_v1),
    "{\"type\":\"describe\",\"protocols\":[1],\"name\":\"@NAME@\",\"version\":\"0.1.0\","
    "\"description\":\"Strip the output of tool calls\",\"produces\":[\"tool_calls\"],\"input\":\"none\","
    "\"features\":[\"worker\"],\"determinism\":\"pure\"}",
    run,
};

const jpc_strategy_v1 *jp_compact_strategy_v1(void) { return &STRATEGY; }
