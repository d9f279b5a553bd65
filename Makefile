# Every target is one line into scripts/. Variables reach them by the environment: make start APIS=2 WORKERS=3 SLOTS=50
# (also PROFILE, STATE, and any setting: PENSTOCK_QUEUE__DEPTH_MAX=8).
.PHONY: help up start stop status demo test conformance check loadtest bench chaos

help: ## these lines
	@scripts/help $(MAKEFILE_LIST)
up: ## build, start everything, run one task; Ctrl-C stops it
	@scripts/up
start: ## the same in the background
	@scripts/start
stop: ## stop what `start` started
	@scripts/system stop
status: ## the parts that run
	@scripts/system status
demo: ## submit one task to the running system and print its events
	@scripts/demo
test: ## all tests, on private servers
	@scripts/test
conformance: ## official clients: AG-UI, the SDKs of OpenAI and Anthropic (PART=litellm: a LiteLLM proxy)
	@scripts/conformance
check: ## format, lints, docs, licences, generated files, scripts
	@scripts/check
loadtest: ## k6: burst, overload, soak (SCRIPT=burst for one)
	@scripts/loadtest
chaos: ## the fault suite at length: kills, freezes, restarts, losses, cut links (STORY=…, TASKS=1000000)
	@scripts/chaos
bench: ## throughput and CPU per task; beside other queues where their bench is
	@scripts/bench
