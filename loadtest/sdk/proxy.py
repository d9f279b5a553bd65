"""A LiteLLM proxy is a provider like any other: streamed through the gateway by an OpenAI client.

    proxy.py DOOR     base address of `penstock-gateway-bench serve`; its chains `openai` and `anthropic` lead to the proxy
"""
import sys

import openai

ANSWERS = {
    "openai": "The gate opens as far as the turbines can take, and no further: tief, 深い.",
    "anthropic": "[1 messages] hello word-1 word-2 word-3",
}


def main():
    client = openai.OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="x", max_retries=0)
    for chain, answer in ANSWERS.items():
        stream = client.chat.completions.create(
            model=chain, messages=[{"role": "user", "content": "hello"}], stream=True, stream_options={"include_usage": True})
        text, usage, finish = "", None, None
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
        assert (text, finish) == (answer, "stop"), (text, finish)
        assert usage.prompt_tokens > 0 and usage.completion_tokens > 0, usage
        print(f"LiteLLM proxy, {chain} dialect: ok")
    try:
        client.chat.completions.create(model="limited", messages=[{"role": "user", "content": "hello"}])
        raise AssertionError("a rate limit was expected")
    except openai.RateLimitError:
        print("LiteLLM proxy, rate limit: ok")


if __name__ == "__main__":
    main()
