# shellcheck shell=bash
# Servers on free ports of the loopback address.
# Needs: STATE, say.sh, process.sh, probe.sh.

# port_pick [PREFERRED]: prints PREFERRED if nothing listens there, else a free port below the kernel's own range.
port_pick() {
  local port=${1:-} try
  for try in {1..100}; do
    if [[ $port ]] && ! probe_port 127.0.0.1 "$port"; then
      printf '%s' "$port"
      return
    fi
    port=$((20000 + RANDOM % 12000))
  done
  die "found no free port in $try tries"
}

# port_of NAME: the port on which NAME was started last.
port_of() { cat "$STATE/port/$1" 2>/dev/null || true; }

# port_wait NAME READY SECONDS: until `READY PORT` succeeds; fails when NAME ended or SECONDS have passed.
port_wait() {
  local port deadline=$((SECONDS + $3))
  port=$(port_of "$1")
  while process_alive "$1" && ((SECONDS < deadline)); do
    if $2 "$port"; then return; fi
    sleep 0.05
  done
  return 1
}

# port_launch NAME PREFERRED READY SECONDS COMMAND...: starts COMMAND, with each "{port}" in it replaced, and waits until
# it is ready; only waits when NAME lives already. Tries another port if somebody was faster on this one.
port_launch() {
  local name=$1 preferred=$2 ready=$3 wait_s=$4 log=$STATE/log/$1.log port try
  shift 4
  mkdir -p "$STATE/port" "$STATE/log"
  for try in {1..5}; do
    if ! process_alive "$name"; then
      port=$(port_pick "$preferred")
      preferred=
      printf '%s\n' "$port" >"$STATE/port/$name"
      printf -- '--- %(%F %T)T %s on port %s\n' -1 "$name" "$port" >>"$log"
      process_launch "$name" "${@//\{port\}/$port}"
    fi
    if port_wait "$name" "$ready" "$wait_s"; then return; fi
    if process_alive "$name" || ! tail -n 20 "$log" | grep -qi 'address already in use'; then break; fi
  done
  process_log_tail "$name"
  if process_alive "$name"; then die "$name was not ready after $wait_s s"; fi
  die "$name ended while starting (try $try)"
}
