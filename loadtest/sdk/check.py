"""The official SDKs of OpenAI and Anthropic talk to the fake provider, directly and through the gateway.

    check.py FAKE DOOR      base addresses of the fake provider and of `penstock-gateway-bench serve`

Directly: what the fake provider sends is what the SDKs accept, so that tests against it mean something. Through the door,
whose chains `openai`, `anthropic` and `gemini` lead to the fake provider in that dialect: one OpenAI client gets the same
answers from all, and each request that arrived is of the types of its vendor's SDK.
"""
import json
import sys
import types
import urllib.request
from collections.abc import Mapping

import anthropic
import openai
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from typing_extensions import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

FAKE, DOOR = sys.argv[1:3]
TOOLS = [{"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object", "properties": {}}}}
         for name in ("calculator", "now")]
CALLS = [("calculator", {"expression": "6*7"}), ("now", {"zone": "UTC"})]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def ask(text, behaviour=""):
    return [{"role": "user", "content": f"{text} [[fake: {behaviour}]]" if behaviour else text}]


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected")


def openai_stream(client, model, messages, **more):
    """Text, reasoning, tool calls, usage and finish of a stream, put together as the SDK's users do."""
    text, reasoning, calls, usage, finish = "", "", {}, None, None
    stream = client.chat.completions.create(model=model, messages=messages, stream=True, stream_options={"include_usage": True}, **more)
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            finish = choice.finish_reason or finish
            for piece in choice.delta.tool_calls or []:
                call = calls.setdefault(piece.index, {"id": piece.id, "name": piece.function.name, "arguments": ""})
                call["arguments"] += piece.function.arguments or ""
    return text, reasoning, list(calls.values()), usage, finish


def of_openai(client, model, limited):
    """What any OpenAI client may expect, whoever answers."""
    text, reasoning, calls, usage, finish = openai_stream(client, model, ask("hello", "chunks=3,reasoning=2,cached=2"))
    assert text == "[1 messages] hello word-1 word-2", text
    assert reasoning == "thought-1 thought-2 ", reasoning
    assert (usage.completion_tokens, usage.prompt_tokens_details.cached_tokens, finish) == (5, 2, "stop"), usage
    assert usage.completion_tokens_details.reasoning_tokens == 2

    text, _, calls, _, finish = openai_stream(client, model, ask("tools", "tools=interleaved"), tools=TOOLS)
    assert [(call["name"], json.loads(call["arguments"])) for call in calls] == CALLS, calls
    assert all(call["id"] for call in calls) and finish == "tool_calls", (calls, finish)

    whole = client.chat.completions.create(model=model, messages=ask("hello", "chunks=3"))
    assert whole.choices[0].message.content == "[1 messages] hello word-1 word-2", whole
    assert whole.usage.completion_tokens == 3

    error = raises(openai.RateLimitError, lambda: client.chat.completions.create(model=limited, messages=ask("x", "status=429,retry_after=120")))
    assert error.response.headers["retry-after"] == "120"
    raises(openai.BadRequestError, lambda: client.chat.completions.create(model=model, messages=ask("x", "status=400")))
    # An error inside a stream that began well is an error, and no short answer.
    raises(openai.APIError, lambda: openai_stream(client, model, ask("x", "error=2,gap_ms=20")))


def of_anthropic(client):
    with client.messages.stream(model="m", max_tokens=100, messages=ask("hello", "chunks=3,reasoning=2,cached=2")) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == "[1 messages] hello word-1 word-2", text
    thinking, said = message.content
    assert (thinking.type, thinking.thinking, bool(thinking.signature)) == ("thinking", "thought-1 thought-2 ", True), thinking
    assert (said.text, message.stop_reason) == (text, "end_turn")
    assert (message.usage.output_tokens, message.usage.cache_read_input_tokens) == (5, 2), message.usage

    for shape in ("indexed", "interleaved", "object"):
        with client.messages.stream(model="m", max_tokens=100, messages=ask("tools", f"tools={shape}")) as stream:
            message = stream.get_final_message()
        assert [(block.name, block.input) for block in message.content] == CALLS, (shape, message)
        assert message.stop_reason == "tool_use"

    whole = client.messages.create(model="m", max_tokens=100, messages=ask("hello", "chunks=3"))
    assert whole.content[0].text == "[1 messages] hello word-1 word-2", whole
    raises(anthropic.RateLimitError, lambda: client.messages.create(model="m", max_tokens=1, messages=ask("x", "status=429")))
    raises(anthropic.AuthenticationError, lambda: client.messages.create(model="m", max_tokens=1, messages=ask("x", "status=401")))
    overloaded = raises(anthropic.InternalServerError, lambda: client.messages.create(model="m", max_tokens=1, messages=ask("x", "status=529")))
    assert overloaded.body["error"]["type"] == "overloaded_error", overloaded.body

    def broken():
        with client.messages.stream(model="m", max_tokens=1, messages=ask("x", "error=2,status=529")) as stream:
            stream.get_final_message()

    raises(anthropic.APIError, broken)


def received():
    with urllib.request.urlopen(f"{FAKE}/fake/calls?last=1") as answer:
        return json.load(answer)[-1]["body"]


def fits(value, kind, at="body"):
    """Checks a value against a type of an SDK; members that a TypedDict does not name are mistakes too.

    pydantic would do, but it looks at the items of an Iterable late and ignores unknown members.
    """
    def demand(holds, problem):
        if not holds:
            raise AssertionError(f"{at}: {problem}: {json.dumps(value)[:200]}")

    origin, parts = get_origin(kind), get_args(kind)
    if kind in (Any, object):
        return
    if origin in (Required, NotRequired, Annotated):
        fits(value, parts[0], at)
    elif origin in (Union, types.UnionType):
        problems = []
        for part in parts:
            try:
                return fits(value, part, at)
            except AssertionError as problem:
                problems.append(str(problem))
        demand(False, "fits none of its types\n  " + "\n  ".join(problems))
    elif origin is Literal:
        demand(value in parts, f"is none of {parts}")
    elif is_typeddict(kind):
        demand(isinstance(value, dict), f"is no {kind.__name__}")
        members = get_type_hints(kind, include_extras=True)
        demand(kind.__required_keys__ <= set(value), f"{kind.__name__} lacks {kind.__required_keys__ - set(value)}")
        demand(set(value) <= set(members), f"{kind.__name__} does not know {set(value) - set(members)}")
        for name, member in value.items():
            fits(member, members[name], f"{at}.{name}")
    elif origin is not None and issubclass(origin, Mapping):
        demand(isinstance(value, dict), "is no object")
    elif origin is not None:  # Iterable, List and the SDKs' own sequence
        demand(isinstance(value, list), "is no list")
        for index, item in enumerate(value):
            fits(item, parts[0], f"{at}[{index}]")
    elif kind is float:
        demand(isinstance(value, (int, float)) and not isinstance(value, bool), "is no number")
    else:
        demand(type(value) is kind, f"is no {getattr(kind, '__name__', kind)}")


def full_request(client, model):
    """A conversation with everything in it: instructions, an image, reasoning, calls, results, tools, a schema."""
    messages = [{"role": "system", "content": "be brief"},
                {"role": "user", "content": [{"type": "text", "text": "what is it? [[fake: tools=indexed]]"}, IMAGE]}]
    _, _, calls, _, _ = openai_stream(client, model, messages, tools=TOOLS)
    said = [{"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}} for call in calls]
    messages.append({"role": "assistant", "content": None, "tool_calls": said})
    messages += [{"role": "tool", "tool_call_id": call["id"], "content": "42"} for call in calls]
    messages.append({"role": "user", "content": "so? [[fake: instant]]"})
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "properties": {}}}}
    text = openai_stream(client, model, messages, tools=TOOLS, tool_choice="auto", parallel_tool_calls=False, max_completion_tokens=99,
                         stop=["END"], temperature=0.5, user="ann", response_format=schema)[0]
    assert "so?" in text, text
    return received()


def main():
    of_openai(openai.OpenAI(base_url=f"{FAKE}/v1", api_key="x", max_retries=0), "m", "m")
    print("openai SDK, fake provider: ok")
    of_anthropic(anthropic.Anthropic(base_url=FAKE, api_key="x", max_retries=0))
    print("anthropic SDK, fake provider: ok")
    door = openai.OpenAI(base_url=f"{DOOR}/v1", api_key="x", max_retries=0)
    for chain in ("openai", "anthropic", "gemini"):
        of_openai(door, chain, f"{chain}-limited")  # its gate is shut afterwards
        print(f"openai SDK, gateway, {chain} dialect: ok")
    fits(full_request(door, "openai"), CompletionCreateParamsStreaming)
    body = full_request(door, "anthropic")
    # The types of the newest SDK leave sampling out; the vendor still takes it.
    assert body.pop("temperature") == 0.5
    fits(body, MessageCreateParamsStreaming)
    assert body["max_tokens"] == 99 and body["tool_choice"]["disable_parallel_tool_use"] and body["metadata"] == {"user_id": "ann"}, body
    body = full_request(door, "gemini")
    assert set(body) == {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}, body.keys()
    print("requests that arrived are of the vendors' types: ok")


if __name__ == "__main__":
    main()
