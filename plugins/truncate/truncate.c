/* The strategy `truncate`: shortens long tool output to its beginning and its end.
 *
 * It is a shared library without a JSON library. It scans the text of each line, and copies parts of the output as they are
 * escaped there. It splits between characters and never inside an escape. The host has already validated the JSON, so the
 * scan does not check for errors. It only never leaves the line. */
#include "jp_compact_strategy.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One more than the maximum of the options. */
#define MORE 1000001

typedef struct {
  const char *at, *end;
} Text;

static void blanks(Text *text) {
  while (text->at < text->end && strchr(" \t\r\n", *text->at)) text->at++;
}

/* One character of a string: an escape (both halves of a surrogate pair), or a whole UTF-8 sequence. */
static void character(Text *text) {
  if (*text->at == '\\' && text->end - text->at >= 2) {
    bool unicode = text->at[1] == 'u';
    bool high = unicode && text->end - text->at >= 12 && strchr("dD", text->at[2]) && strchr("89abAB", text->at[3]);
    text->at += high ? 12 : unicode ? 6 : 2;
  } else {
    do text->at++;
    while (text->at < text->end && ((unsigned char)*text->at & 0xC0) == 0x80);
  }
  if (text->at > text->end) text->at = text->end;
}

/* Skips a string, and returns the text between its quotes. */
static Text string(Text *text) {
  Text inside = {++text->at, text->end};
  while (text->at < text->end && *text->at != '"') character(text);
  inside.end = text->at;
  if (text->at < text->end) text->at++;
  return inside;
}

/* Skips a value, and returns its text. */
static Text value(Text *text) {
  blanks(text);
  Text whole = *text;
  int depth = 0;
  do {
    if (text->at >= text->end) break;
    char c = *text->at;
    if (c == '"') {
      string(text);
    } else if (c == '{' || c == '[' || c == '}' || c == ']') {
      depth += c == '{' || c == '[' ? 1 : -1;
      text->at++;
    } else if (c == ',' || c == ':' || strchr(" \t\r\n", c)) {
      text->at++;
    } else {
      while (text->at < text->end && !strchr(",:]} \t\r\n", *text->at)) text->at++;
    }
  } while (depth > 0);
  whole.end = text->at;
  return whole;
}

/* Returns the value of a key of an object, or an empty text if the key is missing. */
static Text member(Text object, const char *key) {
  Text none = {object.end, object.end};
  if (object.at >= object.end || *object.at != '{') return none;
  object.at++;
  for (;;) {
    blanks(&object);
    if (object.at >= object.end || *object.at != '"') return none;
    Text name = string(&object);
    while (object.at < object.end && *object.at != ':') object.at++;
    object.at++;
    Text found = value(&object);
    if ((size_t)(name.end - name.at) == strlen(key) && memcmp(name.at, key, strlen(key)) == 0) return found;
    while (object.at < object.end && *object.at != ',') object.at++;
    object.at++;
  }
}

/* Moves to the next element of an array. The text begins at the bracket or after an element. */
static bool element(Text *array, Text *found) {
  if (array->at >= array->end || *array->at == ']') return false;
  array->at++;
  blanks(array);
  if (array->at >= array->end || *array->at == ']') return false;
  *found = value(array);
  blanks(array);
  return true;
}

static unsigned long long number(Text text, unsigned long long otherwise) {
  return text.at < text.end ? strtoull(text.at, NULL, 10) : otherwise;
}

static bool is(Text text, const char *word) {
  return (size_t)(text.end - text.at) == strlen(word) && memcmp(text.at, word, strlen(word)) == 0;
}

/* A text that grows. */
typedef struct {
  char *bytes;
  size_t len, room;
} Out;

static void put(Out *out, const char *bytes, size_t len) {
  if (out->len + len > out->room) {
    out->room = (out->len + len) * 2;
    /* Without memory, the library cannot reply. Only this process ends. */
    if (!(out->bytes = realloc(out->bytes, out->room))) abort();
  }
  memcpy(out->bytes + out->len, bytes, len);
  out->len += len;
}

static void say(Out *out, const char *text) { put(out, text, strlen(text)); }
static void copy(Out *out, Text text) { put(out, text.at, (size_t)(text.end - text.at)); }

static void count(Out *out, unsigned long long n) {
  char digits[24];
  put(out, digits, (size_t)snprintf(digits, sizeof digits, "%llu", n));
}

/* Returns whether the view still shows output in a turn. Stripped output must not become visible again. */
static bool shown(Text turns, unsigned long long turn) {
  for (Text row; element(&turns, &row);)
    if (number(member(row, "turn"), 0) == turn)
      return number(member(member(row, "kinds"), "tool_response_tokens"), 0) > 0;
  return false;
}

/* Appends an entry for one event if it is long output in the range. */
static void cut(Out *out, Text line, Text header, unsigned long long head, unsigned long long tail) {
  Text event = member(line, "event"), content = member(event, "content"), range = member(header, "requested_range");
  if (!is(member(event, "type"), "\"tool_call_response\"") || content.at >= content.end || *content.at != '"') return;
  unsigned long long turn = number(member(line, "turn"), 0);
  bool inside = turn >= number(member(range, "from_turn"), 0) && turn <= number(member(range, "to_turn"), 0);
  if (!inside) return;
  content = string(&content);
  unsigned long long all = 0, place = 0;
  for (Text walk = content; walk.at < walk.end; character(&walk)) all++;
  /* The note has about 40 characters, so shorter cuts would save nothing. */
  if (all <= head + tail + 40) return;
  if (!shown(member(member(header, "context"), "turns"), turn)) return;
  Text begin = {content.at, content.at}, rest = content;
  for (; place < all - tail; place++) {
    if (place == head) begin.end = rest.at;
    character(&rest);
  }
  say(out, out->len ? ",{\"seq\":" : "{\"seq\":");
  count(out, number(member(line, "seq"), 0));
  say(out, ",\"response\":{\"replace\":\"");
  copy(out, begin);
  say(out, "\\n[... ");
  count(out, all - head - tail);
  say(out, " characters cut ...]\\n");
  copy(out, rest);
  say(out, "\"}}");
}

static int32_t run(const uint8_t *request, size_t len, const uint8_t *events, size_t events_len, jpc_emit emit,
                   void *ctx) {
  Text header = {(const char *)request, (const char *)request + len};
  Text lines = {(const char *)events, (const char *)events + events_len};
  blanks(&header);
  Text range = member(header, "requested_range"), options = member(header, "options");
  /* The bounds of the options' schema are enforced again, because the sum must not overflow. */
  unsigned long long head = number(member(options, "head"), 400) % MORE, tail = number(member(options, "tail"), 400) % MORE;
  Out calls = {0}, reply = {0};
  while (lines.at < lines.end) {
    const char *newline = memchr(lines.at, '\n', (size_t)(lines.end - lines.at));
    Text line = {lines.at, newline ? newline : lines.end};
    lines.at = newline ? newline + 1 : lines.end;
    blanks(&line);
    cut(&calls, line, header, head, tail);
  }
  say(&reply, calls.len ? "{\"type\":\"result\",\"id\":" : "{\"type\":\"decline\",\"id\":");
  copy(&reply, member(header, "id"));
  if (calls.len) {
    say(&reply, ",\"compactions\":[{\"from_turn\":");
    copy(&reply, member(range, "from_turn"));
    say(&reply, ",\"to_turn\":");
    copy(&reply, member(range, "to_turn"));
    say(&reply, ",\"tool_calls\":{\"policy\":\"selective\",\"calls\":[");
    put(&reply, calls.bytes, calls.len);
    say(&reply, "]}}]}");
  } else {
    say(&reply, ",\"reason\":\"no tool output in range is long\"}");
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
