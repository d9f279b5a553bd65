# shellcheck shell=bash
# Background processes by pid file: start one, know whether it lives, stop it in time.
#
# A pid file ($STATE/pid/NAME) holds "PID STARTED"; STARTED is the start time of the process in clock ticks since boot,
# so a pid that the kernel has meanwhile given to somebody else is never taken for ours, and never killed.
# Each process has its own session: Ctrl-C in a terminal reaches only the script, which then stops the parts in order.
# Needs: STATE, say.sh.

# process_started PID: prints its start time; fails when there is no such process, or only its zombie.
process_started() {
  local stat field
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  read -ra field <<<"${stat##*) }" # what follows "PID (name) ": state first, start time 20th
  [[ ${field[0]} != Z ]] && printf '%s' "${field[19]}"
}

# process_pid NAME: prints the pid of the living process NAME, else fails.
process_pid() {
  local pid started
  read -r pid started 2>/dev/null <"$STATE/pid/$1" || return 1
  [[ $(process_started "$pid") == "$started" ]] && printf '%s' "$pid"
}

process_alive() { process_pid "$1" >/dev/null; }

# process_names [PREFIX]: names that have a pid file.
# shellcheck disable=SC2120
process_names() {
  local file
  for file in "$STATE/pid/${1-}"*; do
    if [[ -e $file ]]; then printf '%s\n' "${file##*/}"; fi
  done
}

# process_living: names of the living processes.
process_living() {
  local name
  for name in $(process_names ''); do
    if process_alive "$name"; then printf '%s\n' "$name"; fi
  done
}

# process_launch NAME COMMAND...: starts COMMAND detached, its output in $STATE/log/NAME.log.
process_launch() {
  local name=$1 pid stopped=
  shift
  mkdir -p "$STATE/pid" "$STATE/log"
  # A signal between the start and the pid file would leave a process that nobody knows.
  trap 'stopped=1' INT TERM HUP
  setsid "$@" </dev/null >>"$STATE/log/$name.log" 2>&1 9>&- &
  pid=$!
  printf '%s %s\n' "$pid" "$(process_started "$pid")" >"$STATE/pid/$name"
  trap - INT TERM HUP
  if [[ $stopped ]]; then exit 130; fi
}

# process_stop SECONDS NAME...: SIGTERM to all of them at once, SIGKILL to what still lives after SECONDS.
process_stop() {
  local deadline=$((SECONDS + $1)) name pid
  shift
  for name; do
    if pid=$(process_pid "$name"); then kill -TERM "$pid" 2>/dev/null || true; fi
  done
  for name; do
    while process_alive "$name" && ((SECONDS < deadline)); do sleep 0.05; done
    if pid=$(process_pid "$name"); then
      say "$name did not stop in time: killed"
      kill -KILL "$pid" 2>/dev/null || true
      while process_alive "$name"; do sleep 0.05; done
    fi
    rm -f "$STATE/pid/$name"
  done
}

process_log_tail() {
  say "--- the last lines of $STATE/log/$1.log"
  tail -n 15 "$STATE/log/$1.log" >&2 || true
}
