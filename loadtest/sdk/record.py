"""Writes a stream of each vendor, with everything in it, from the types of the vendor's own SDK.

    python record.py FOLDER     writes FOLDER/{openai,anthropic,gemini}.sse

Each event is built as the SDK's class and written by it, so a shape that the SDK does not know cannot be in the files.
The gateway's tests read them: reasoning, text, two calls of one tool (the second interleaved where the vendor does that),
usage with cached and reasoning tokens, end.
"""
import json
import pathlib
import sys

from anthropic import types as a
from google.genai import types as g
from openai.types import chat as o

CALLS = [("1", '{"city":"Köln"}'), ("2", '{"city":"東京"}')]


def openai():
    def chunk(delta=None, finish=None, usage=None):
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        event = o.ChatCompletionChunk.model_validate({
            "id": "chatcmpl-1", "created": 1700000000, "model": "gpt", "object": "chat.completion.chunk",
            "service_tier": "default", "system_fingerprint": None, "choices": choices, "usage": usage,
        })
        return event.model_dump_json(exclude_unset=True)

    def call(index, id=None, arguments=""):
        function = {"arguments": arguments} | ({"name": "get_weather"} if id else {})
        return {"tool_calls": [{"index": index, "function": function} | ({"id": id, "type": "function"} if id else {})]}

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    yield chunk({"reasoning_content": "Two cities"})  # of DeepSeek and others; the SDK keeps members that it does not know
    yield chunk({"reasoning_content": ", two calls."})
    yield chunk({"content": "Let me "})
    yield chunk({"content": "look \N{WHITE SUN WITH RAYS}."})
    yield chunk(call(0, "call_1"))
    yield chunk(call(1, "call_2"))
    for index, (_, arguments) in enumerate(CALLS):
        half = len(arguments) // 2
        yield chunk(call(index, arguments=arguments[:half]))
        yield chunk(call(index, arguments=arguments[half:]))
    yield chunk({}, "tool_calls")
    yield chunk(usage={
        "prompt_tokens": 82, "completion_tokens": 17, "total_tokens": 99,
        "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 5, "audio_tokens": 0},
    })
    yield "[DONE]"


def anthropic():
    def write(event):
        return event.type, event.model_dump_json(exclude_unset=True)

    def start(index, block):
        return write(a.RawContentBlockStartEvent(type="content_block_start", index=index, content_block=block))

    def delta(index, part):
        return write(a.RawContentBlockDeltaEvent(type="content_block_delta", index=index, delta=part))

    def stop(index):
        return write(a.RawContentBlockStopEvent(type="content_block_stop", index=index))

    usage = a.Usage(input_tokens=12, output_tokens=1, cache_read_input_tokens=64, cache_creation_input_tokens=6)
    message = a.Message(id="msg_1", type="message", role="assistant", model="claude", content=[], usage=usage)
    yield write(a.RawMessageStartEvent(type="message_start", message=message))
    yield "ping", '{"type": "ping"}'
    yield start(0, a.ThinkingBlock(type="thinking", thinking="", signature=""))
    yield delta(0, a.ThinkingDelta(type="thinking_delta", thinking="Two cities"))
    yield delta(0, a.ThinkingDelta(type="thinking_delta", thinking=", two calls."))
    yield delta(0, a.SignatureDelta(type="signature_delta", signature="c2lnbmF0dXJl"))
    yield stop(0)
    yield start(1, a.RedactedThinkingBlock(type="redacted_thinking", data="aGlkZGVu"))
    yield stop(1)
    yield start(2, a.TextBlock(type="text", text=""))
    yield delta(2, a.TextDelta(type="text_delta", text="Let me "))
    yield delta(2, a.TextDelta(type="text_delta", text="look \N{WHITE SUN WITH RAYS}."))
    yield stop(2)
    for index, (number, arguments) in enumerate(CALLS, 3):
        half = len(arguments) // 2
        yield start(index, a.ToolUseBlock(type="tool_use", id=f"toolu_{number}", name="get_weather", input={}))
        for part in ("", arguments[:half], arguments[half:]):
            yield delta(index, a.InputJSONDelta(type="input_json_delta", partial_json=part))
        yield stop(index)
    yield write(a.RawMessageDeltaEvent(
        type="message_delta",
        delta={"stop_reason": "tool_use", "stop_sequence": None},
        usage=a.MessageDeltaUsage(output_tokens=17, output_tokens_details={"thinking_tokens": 5}),
    ))
    yield write(a.RawMessageStopEvent(type="message_stop"))


def gemini():
    def response(parts, finish=None):
        candidate = g.Candidate(index=0, content=g.Content(role="model", parts=parts), finish_reason=finish)
        usage = g.GenerateContentResponseUsageMetadata(
            prompt_token_count=82, cached_content_token_count=64, candidates_token_count=12, thoughts_token_count=5, total_token_count=99)
        whole = g.GenerateContentResponse(candidates=[candidate], usage_metadata=usage, model_version="gemini", response_id="1")
        return whole.model_dump_json(exclude_none=True, by_alias=True)

    yield response([g.Part(text="Two cities", thought=True)])
    yield response([g.Part(text=", two calls.", thought=True)])
    yield response([g.Part(text="Let me ")])
    yield response([g.Part(text="look \N{WHITE SUN WITH RAYS}.")])
    calls = [g.FunctionCall(name="get_weather", args=json.loads(arguments)) for _, arguments in CALLS]
    yield response([g.Part(function_call=calls[0], thought_signature=b"signature"), g.Part(function_call=calls[1])])
    yield response([g.Part(text="")], "STOP")


def main(folder):
    for vendor in (openai, anthropic, gemini):
        with (pathlib.Path(folder) / f"{vendor.__name__}.sse").open("w") as file:
            for event in vendor():
                name, data = event if isinstance(event, tuple) else (None, event)
                print(*([f"event: {name}"] if name else []), f"data: {data}", "", sep="\n", file=file)


if __name__ == "__main__":
    main(sys.argv[1])
