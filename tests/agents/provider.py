"""A loopback provider for the tests of real agents: Anthropic Messages, OpenAI Responses, OpenAI chat, and Gemini.

The model is a script. A prompt with `jpc-turn-N` gets the number of tool calls in `CALLS`, then a text. Every other
request gets a text. Each request is checked as providers check it, and recorded in a file.
"""

import hashlib
import http.server
import json
import pathlib
import re
import sys
import threading

# The number of tool calls of each turn. Turn 2 is the long one.
CALLS = {"1": 2, "2": 12, "3": 1, "4": 1, "5": 1, "8": 3, "9": 1, "10": 1}
# All calls of this turn are in one response. Only Anthropic's form has it.
PARALLEL = "8"
# The call of this turn reads an image.
IMAGE = "9"
# The call of this turn starts a sub-agent, whose prompt is turn 2.
SUB_AGENT = "10"
MARK = re.compile(r"jpc-turn-(\d+)")


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Rejected(Exception):
    """A request that a provider would answer with status 400."""


def require(condition, message):
    if not condition:
        raise Rejected(message)


def call_of(tools, number):
    """Returns the name and the arguments of a call. Most calls use the agent's shell tool."""
    command = f"cat out-{number}.txt"
    if number.startswith(f"{IMAGE}-") and "Read" in tools:
        return "Read", {"file_path": "picture.png"}
    if number.startswith(f"{SUB_AGENT}-"):
        name = next(name for name in ("Task", "Agent") if name in tools)
        prompt = "jpc-turn-2: read the files"
        return name, {"description": "read files", "prompt": prompt, "subagent_type": "general-purpose", "run_in_background": False}
    for name in ("Bash", "bash", "exec_command", "shell_command", "shell", "run_shell_command", "terminal", "Shell",
                 "run_commands"):
        if name in tools:
            arguments = {"exec_command": {"cmd": command}, "shell": {"command": ["bash", "-lc", command]},
                         "terminal": {"command": command, "security_risk": "LOW"}, "Shell": {"command": command},
                         "run_commands": {"commands": [command]}}
            return name, arguments.get(name, {"command": command, "description": f"print file {number}"})
    return None


def script(texts_and_results, tools):
    """Returns the next step of the model for a list of user texts and results (None) in order."""
    turn, results, total = None, 0, 0
    for text in texts_and_results:
        if text is None:
            results, total = results + 1, total + 1
        elif marks := MARK.findall(text):
            turn, results = marks[-1], 0
    if turn is None or not tools:
        return None, f"Answer without a turn."
    number = f"{turn}-{results + 1}"
    if results < CALLS.get(turn, 0) and (call := call_of(tools, number)):
        return (number, *call), f"I read file {number}."
    return None, f"Turn {turn} is done after {results} results."


# Anthropic Messages


def check_anthropic(body):
    messages = body["messages"]
    require(messages and messages[0]["role"] == "user", "the first message is not the user's")
    open_calls = []
    for number, message in enumerate(messages):
        role, content = message["role"], message["content"]
        require(role in ("user", "assistant", "system"), f"messages.{number}: role {role}")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        require(blocks, f"messages.{number}: content is empty")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        require(sorted(results) == sorted(open_calls), f"messages.{number}: calls {open_calls}, results {results}")
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        ids = open_calls + results
        require(all(re.fullmatch(r"[a-zA-Z0-9_-]+", id) for id in ids), f"messages.{number}: ids {ids}")
        for block in blocks:
            if block["type"] == "text":
                require(block["text"].strip(), f"messages.{number}: text content blocks must be non-empty")
            if block["type"] == "thinking":
                require(block["signature"] == digest(block["thinking"]), f"messages.{number}: invalid signature")
    require(not open_calls, f"tool_use without tool_result: {open_calls}")
    # In a turn that continues after results, the last response begins with its thinking.
    if body.get("thinking", {}).get("type") in ("enabled", "adaptive") and results:
        last = next(message for message in reversed(messages) if message["role"] == "assistant")
        require(last["content"][0]["type"] == "thinking", f"Expected `thinking`, but found {last['content'][0]['type']}")


def steps_anthropic(body):
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "user":
            for block in blocks:
                if block["type"] == "tool_result":
                    yield None
                elif block["type"] == "text":
                    yield block["text"]


def calls_at_once(call, body, serial):
    """Returns the id, the name, and the arguments of each call of a response."""
    if call is None:
        return []
    number, *named = call
    calls = [(f"toolu_{serial:04}", *named)]
    if number == f"{PARALLEL}-1":
        tools = [tool.get("name") for tool in body["tools"]]
        calls += [(f"toolu_{serial:04}_{at}", *call_of(tools, f"{PARALLEL}-{at}")) for at in range(2, CALLS[PARALLEL] + 1)]
    return calls


def answer_anthropic(body, serial):
    call, text = script(steps_anthropic(body), [tool.get("name") for tool in body.get("tools", [])])
    blocks = []
    if body.get("thinking", {}).get("type") in ("enabled", "adaptive"):
        thought = f"I think about step {serial}."
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [
            {"type": "thinking_delta", "thinking": thought},
            {"type": "signature_delta", "signature": digest(thought)},
        ]))
    blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": text}]))
    for id, name, arguments in calls_at_once(call, body, serial):
        block = {"type": "tool_use", "id": id, "name": name, "input": {}}
        blocks.append((block, [{"type": "input_json_delta", "partial_json": json.dumps(arguments)}]))
    usage = {"input_tokens": len(json.dumps(body)) // 4, "output_tokens": 20}
    head = {"id": f"msg_{serial:04}", "type": "message", "role": "assistant", "model": body["model"], "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield "message_start", {"message": head}
    for index, (block, deltas) in enumerate(blocks):
        yield "content_block_start", {"index": index, "content_block": block}
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    reason = "tool_use" if call else "end_turn"
    yield "message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield "message_stop", {}


# OpenAI Responses


def check_responses(body):
    items, calls, results = body["input"], [], []
    require(items, "input is empty")
    for number, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "message":
            require(item["role"] in ("user", "assistant", "developer", "system"), f"input[{number}]: {item['role']}")
            require(item["content"], f"input[{number}]: content is empty")
        elif kind in ("function_call", "custom_tool_call"):
            require(len(item["call_id"]) <= 64, f"input[{number}]: call_id is too long")
            calls.append(item["call_id"])
        elif kind in ("function_call_output", "custom_tool_call_output"):
            require(item["call_id"] in calls, f"No tool call found for {item['call_id']}")
            results.append(item["call_id"])
        elif kind == "reasoning":
            content = item.get("encrypted_content")
            require(content and content.startswith("enc-"), f"input[{number}]: encrypted content is not valid")
    require(sorted(calls) == sorted(results), f"No tool output found for {set(calls) - set(results)}")


def steps_responses(body):
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "message" and item["role"] == "user":
            content = item["content"]
            yield content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        elif kind.endswith("_output"):
            yield None


def answer_responses(body, serial):
    call, text = script(steps_responses(body), [tool.get("name") for tool in body.get("tools", [])])
    items = []
    if "reasoning" in body or body.get("include"):
        thought = f"enc-{digest(str(serial))}"
        items.append({"type": "reasoning", "id": f"rs_{serial:04}", "summary": [], "encrypted_content": thought})
    if call:
        arguments = json.dumps(call[2])
        items.append({"type": "function_call", "id": f"fc_{serial:04}", "call_id": f"call_{serial:04}",
                      "name": call[1], "arguments": arguments, "status": "completed"})
    else:
        part = {"type": "output_text", "text": text, "annotations": []}
        items.append({"type": "message", "id": f"msg_{serial:04}", "role": "assistant", "status": "completed",
                      "content": [part]})
    response = {"id": f"resp_{serial:04}", "object": "response", "status": "in_progress", "output": []}
    yield "response.created", {"response": response}
    for index, item in enumerate(items):
        yield "response.output_item.added", {"output_index": index, "item": item}
        yield "response.output_item.done", {"output_index": index, "item": item}
    tokens = len(json.dumps(body)) // 4
    usage = {"input_tokens": tokens, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 10,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens + 10}
    yield "response.completed", {"response": {**response, "status": "completed", "output": items, "usage": usage}}


# OpenAI chat


def check_chat(body):
    open_calls = []
    for number, message in enumerate(body["messages"]):
        role = message["role"]
        require(role in ("system", "developer", "user", "assistant", "tool"), f"messages[{number}]: role {role}")
        if role == "tool":
            require(message["tool_call_id"] in open_calls, f"messages[{number}]: no call {message['tool_call_id']}")
            open_calls.remove(message["tool_call_id"])
            continue
        require(not open_calls, f"messages[{number}]: no result of {open_calls}")
        calls = message.get("tool_calls") or []
        require(calls or message.get("content"), f"messages[{number}]: content is empty")
        open_calls = [call["id"] for call in calls]
    require(not open_calls, f"no result of {open_calls}")


def steps_chat(body):
    for message in body["messages"]:
        if message["role"] == "tool":
            yield None
        elif message["role"] == "user":
            content = message["content"]
            yield content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def answer_chat(body, serial):
    call, text = script(steps_chat(body), [tool["function"]["name"] for tool in body.get("tools", [])])
    head = {"id": f"chatcmpl-{serial:04}", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}

    def chunk(delta, reason=None):
        return None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": text})
    if call:
        function = {"name": call[1], "arguments": json.dumps(call[2])}
        yield chunk({"tool_calls": [{"index": 0, "id": f"call_{serial:04}", "type": "function",
                                     "function": function}]})
    yield chunk({}, "tool_calls" if call else "stop")
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    yield None, {**head, "choices": [], "usage": usage}


def whole_chat(chunks):
    """Returns the response that the chunks of a stream add up to."""
    message, usage = {"role": "assistant"}, chunks[-1]["usage"]
    for chunk in chunks[:-1]:
        delta = chunk["choices"][0]["delta"]
        message |= {name: value for name, value in delta.items() if value is not None}
    for call in message.get("tool_calls") or []:
        del call["index"]
    reason = chunks[-2]["choices"][0]["finish_reason"]
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {**chunks[0], "object": "chat.completion", "choices": [choice], "usage": usage}


# Gemini


def parts_once(content):
    """Returns the parts of a content. Gemini CLI 0.61 sends a response again each time it resumes a session."""
    parts = {}
    for part in content["parts"]:
        response = part.get("functionResponse")
        parts.setdefault(response.get("id", "").split("__")[-1] if response else json.dumps(part), part)
    return list(parts.values())


def check_gemini(body):
    contents, open_calls = body["contents"], 0
    require(contents and contents[0]["role"] == "user", "the first content is not the user's")
    for number, content in enumerate(contents):
        require(content["role"] in ("user", "model"), f"contents[{number}]: role {content['role']}")
        require(content["parts"], f"contents[{number}]: no parts")
        results = sum("functionResponse" in part for part in parts_once(content))
        require(results == open_calls, f"contents[{number}]: {open_calls} calls, {results} results")
        open_calls = sum("functionCall" in part for part in content["parts"])
    require(not open_calls, "a function call without a response")


def steps_gemini(body):
    for content in body["contents"]:
        for part in parts_once(content):
            if "functionResponse" in part:
                yield None
            elif content["role"] == "user":
                yield part.get("text", "")


def answer_gemini(body, serial):
    declared = [tool for group in body.get("tools", []) for tool in group.get("functionDeclarations", [])]
    call, text = script(steps_gemini(body), [tool["name"] for tool in declared])
    parts = [{"text": text}]
    if call:
        # The signature is opaque, and comes back with the call.
        parts.append({"functionCall": {"name": call[1], "args": call[2]}, "thoughtSignature": f"c2ln{serial:04}"})
    tokens = len(json.dumps(body)) // 4
    usage = {"promptTokenCount": tokens, "candidatesTokenCount": 10, "totalTokenCount": tokens + 10}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    yield None, {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini"}


PROTOCOLS = {
    ":streamGenerateContent": (check_gemini, answer_gemini),
    ":generateContent": (check_gemini, answer_gemini),
    "/messages": (check_anthropic, answer_anthropic),
    "/responses": (check_responses, answer_responses),
    "/chat/completions": (check_chat, answer_chat),
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body, kind="application/json"):
        bytes = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(bytes)))
        self.end_headers()
        self.wfile.write(bytes)

    def do_GET(self):
        self.reply(200, json.dumps({"data": [], "models": []}))

    def do_HEAD(self):
        self.reply(200, "")

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        protocol = next((value for end, value in PROTOCOLS.items() if path.endswith(end)), None)
        if protocol is None:
            self.reply(200, json.dumps({"input_tokens": 100}))
            return
        check, answer = protocol
        body = json.loads(raw)
        serial, error = self.server.next_serial(), None
        try:
            check(body)
        except (Rejected, KeyError, TypeError) as rejected:
            error = f"{type(rejected).__name__}: {rejected}"
        self.server.record(serial, {"path": path, "error": error, "body": body})
        if error:
            details = {"type": "invalid_request_error", "message": error}
            self.reply(400, json.dumps({"type": "error", "error": details}))
            return
        events = [(name, data if name is None else {"type": name, **data}) for name, data in answer(body, serial)]
        if path.endswith(":generateContent"):
            self.reply(200, json.dumps(events[0][1]))
            return
        if path.endswith(":streamGenerateContent"):
            self.reply(200, f"data: {json.dumps(events[0][1])}\n\n", "text/event-stream")
            return
        if not body.get("stream") and path.endswith("/chat/completions"):
            self.reply(200, json.dumps(whole_chat([data for _, data in events])))
            return
        if not body.get("stream"):
            self.reply(400, json.dumps({"error": {"message": "the test needs `stream`"}}))
            return
        text = "".join((f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n" for name, data in events)
        self.reply(200, text + ("data: [DONE]\n\n" if events[0][0] is None else ""), "text/event-stream")


class Provider(http.server.ThreadingHTTPServer):
    """The server. It listens on a free port of the loopback interface."""

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.lock, self.serial = pathlib.Path(folder), threading.Lock(), 0
        self.folder.mkdir(parents=True, exist_ok=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def next_serial(self):
        with self.lock:
            self.serial += 1
            return self.serial

    def record(self, serial, request):
        (self.folder / f"{serial:04}.json").write_text(json.dumps(request, indent=1))


if __name__ == "__main__":
    provider = Provider(sys.argv[1])
    print(provider.url, flush=True)
    sys.stdin.read()
