/* The strategy `truncate`: shortens long tool output to its beginning and its end.
 *
 * It is a shared library without a JSON library. It scans the text of each line, and copies parts of the output as they are
 * escaped there. It splits between characters and never inside an escape. The host has already validated the JSON, so the
 * scan does not report errors. It only stays inside the line. */
#include "jp_compact_strategy.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One more than the maximum of each option. */
#define OPTION_LIMIT 1000001

typedef struct {
  const char *start, *end;
} Text;

static void skip_blanks(Text *text) {
  while (text->start < text->end && strchr(" \t\r\n", *text->start)) text->start++;
}

/* Skips one character of a string: an escape (both halves of a surrogate pair), or a whole UTF-8 sequence. */
static void skip_character(Text *text) {
  if (*text->start == '\\' && text->end - text->start >= 2) {
    bool is_unicode = text->start[1] == 'u';
    bool is_pair = is_unicode && text->end - text->start >= 12 && strchr("dD", text->start[2]) &&
                   strchr("89abAB", text->start[3]);
    text->start += is_pair ? 12 : is_unicode ? 6 : 2;
  } else {
    do text->start++;
    while (text->start < text->end && ((unsigned char)*text->start & 0xC0) == 0x80);
  }
  if (text->start > text->end) text->start = text->end;
}

/* Skips a string, and returns the text between its quotes. */
static Text skip_string(Text *text) {
  Text contents = {++text->start, text->end};
  while (text->start < text->end && *text->start != '"') skip_character(text);
  contents.end = text->start;
  if (text->start < text->end) text->start++;
  return contents;
}

/* Skips a value, and returns its text. The text of a string has its quotes. */
static Text skip_value(Text *text) {
  skip_blanks(text);
  Text skipped = *text;
  int depth = 0;
  do {
    if (text->start >= text->end) break;
    char c = *text->start;
    if (c == '"') {
      skip_string(text);
    } else if (c == '{' || c == '[' || c == '}' || c == ']') {
      depth += c == '{' || c == '[' ? 1 : -1;
      text->start++;
    } else if (c == ',' || c == ':' || strchr(" \t\r\n", c)) {
      text->start++;
    } else {
      while (text->start < text->end && !strchr(",:]} \t\r\n", *text->start)) text->start++;
    }
  } while (depth > 0);
  skipped.end = text->start;
  return skipped;
}

static bool equals(Text text, const char *expected) {
  return (size_t)(text.end - text.start) == strlen(expected) && memcmp(text.start, expected, strlen(expected)) == 0;
}

/* Returns the value of a key of an object, or an empty text if the key is missing. */
static Text member(Text object, const char *key) {
  Text none = {object.end, object.end};
  if (object.start >= object.end || *object.start != '{') return none;
  object.start++;
  for (;;) {
    skip_blanks(&object);
    if (object.start >= object.end || *object.start != '"') return none;
    Text name = skip_string(&object);
    while (object.start < object.end && *object.start != ':') object.start++;
    object.start++;
    Text found = skip_value(&object);
    if (equals(name, key)) return found;
    while (object.start < object.end && *object.start != ',') object.start++;
    object.start++;
  }
}

/* Moves to the next element of an array. The text begins at the bracket or after an element. */
static bool next_element(Text *array, Text *found) {
  if (array->start >= array->end || *array->start == ']') return false;
  array->start++;
  skip_blanks(array);
  if (array->start >= array->end || *array->start == ']') return false;
  *found = skip_value(array);
  skip_blanks(array);
  return true;
}

static unsigned long long parse_number(Text text, unsigned long long fallback) {
  return text.start < text.end ? strtoull(text.start, NULL, 10) : fallback;
}

/* A growing text. */
typedef struct {
  char *bytes;
  size_t len, capacity;
} Buffer;

static void append_bytes(Buffer *out, const char *bytes, size_t len) {
  if (out->len + len > out->capacity) {
    out->capacity = (out->len + len) * 2;
    /* Without memory, the library cannot reply. Only this process ends. */
    if (!(out->bytes = realloc(out->bytes, out->capacity))) abort();
  }
  memcpy(out->bytes + out->len, bytes, len);
  out->len += len;
}

static void append(Buffer *out, const char *text) { append_bytes(out, text, strlen(text)); }
static void append_text(Buffer *out, Text text) { append_bytes(out, text.start, (size_t)(text.end - text.start)); }

static void append_number(Buffer *out, unsigned long long n) {
  char digits[24];
  append_bytes(out, digits, (size_t)snprintf(digits, sizeof digits, "%llu", n));
}

/* Returns whether the view still shows output in a turn. Stripped output must not become visible again. */
static bool shows_output(Text turns, unsigned long long turn) {
  for (Text row; next_element(&turns, &row);)
    if (parse_number(member(row, "turn"), 0) == turn)
      return parse_number(member(member(row, "kinds"), "tool_response_tokens"), 0) > 0;
  return false;
}

/* Appends an entry for one event if it is long output in the range. */
static void append_entry(Buffer *out, Text line, Text header, unsigned long long head, unsigned long long tail) {
  Text event = member(line, "event"), content = member(event, "content"), range = member(header, "requested_range");
  if (!equals(member(event, "type"), "\"tool_call_response\"")) return;
  if (content.start >= content.end || *content.start != '"') return;
  unsigned long long turn = parse_number(member(line, "turn"), 0);
  bool in_range = turn >= parse_number(member(range, "from_turn"), 0) && turn <= parse_number(member(range, "to_turn"), 0);
  if (!in_range) return;
  content = skip_string(&content);
  unsigned long long characters = 0;
  for (Text cursor = content; cursor.start < cursor.end; skip_character(&cursor)) characters++;
  /* The note has about 40 characters, so shorter cuts would save nothing. */
  if (characters <= head + tail + 40) return;
  if (!shows_output(member(member(header, "context"), "turns"), turn)) return;
  Text head_text = {content.start, content.start}, rest = content;
  for (unsigned long long index = 0; index < characters - tail; index++) {
    if (index == head) head_text.end = rest.start;
    skip_character(&rest);
  }
  append(out, out->len ? ",{\"seq\":" : "{\"seq\":");
  append_number(out, parse_number(member(line, "seq"), 0));
  append(out, ",\"response\":{\"replace\":\"");
  append_text(out, head_text);
  append(out, "\\n[... ");
  append_number(out, characters - head - tail);
  append(out, " characters cut ...]\\n");
  append_text(out, rest);
  append(out, "\"}}");
}

static int32_t run(const uint8_t *request, size_t len, const uint8_t *events, size_t events_len, jpc_emit emit,
                   void *ctx) {
  Text header = {(const char *)request, (const char *)request + len};
  Text lines = {(const char *)events, (const char *)events + events_len};
  skip_blanks(&header);
  Text range = member(header, "requested_range"), options = member(header, "options");
  /* The bounds of the options' schema are enforced again, because the sum must not overflow. */
  unsigned long long head = parse_number(member(options, "head"), 400) % OPTION_LIMIT;
  unsigned long long tail = parse_number(member(options, "tail"), 400) % OPTION_LIMIT;
  Buffer calls = {0}, reply = {0};
  while (lines.start < lines.end) {
    const char *newline = memchr(lines.start, '\n', (size_t)(lines.end - lines.start));
    Text line = {lines.start, newline ? newline : lines.end};
    lines.start = newline ? newline + 1 : lines.end;
    skip_blanks(&line);
    append_entry(&calls, line, header, head, tail);
  }
  append(&reply, calls.len ? "{\"type\":\"result\",\"id\":" : "{\"type\":\"decline\",\"id\":");
  append_text(&reply, member(header, "id"));
  if (calls.len) {
    append(&reply, ",\"compactions\":[{\"from_turn\":");
    append_text(&reply, member(range, "from_turn"));
    append(&reply, ",\"to_turn\":");
    append_text(&reply, member(range, "to_turn"));
    append(&reply, ",\"tool_calls\":{\"policy\":\"selective\",\"calls\":[");
    append_bytes(&reply, calls.bytes, calls.len);
    append(&reply, "]}}]}");
  } else {
    append(&reply, ",\"reason\":\"no tool output in range is long\"}");
  }
  emit(ctx, (const uint8_t *)reply.bytes, reply.len);
  free(calls.bytes);
  free(reply.bytes);
  return 0;
}

static const jpc_strategy_v1 STRATEGY = {
    JPC_ABI,
    sizeof(jpc_strategy_v1),
    "{\"type\":\"describe\",\"protocols\":[1],\"name\":\"truncate\",\"version\":\"0.1.0\","
    "\"description\":\"Shorten long tool output to its beginning and end\",\"produces\":[\"tool_calls\"],\"input\":\"full\","
    "\"features\":[\"worker\"],\"determinism\":\"pure\",\"options_schema\":{\"type\":\"object\",\"properties\":{"
    "\"head\":{\"description\":\"number of characters to keep at the beginning\",\"type\":\"integer\",\"minimum\":0,\"maximum\":1000000,\"default\":400},"
    "\"tail\":{\"description\":\"number of characters to keep at the end\",\"type\":\"integer\",\"minimum\":0,\"maximum\":1000000,\"default\":400}},"
    "\"additionalProperties\":false}}",
    run,
};

const jpc_strategy_v1 *jp_compact_strategy_v1(void) { return &STRATEGY; }
