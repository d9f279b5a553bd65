# shellcheck shell=bash
# Is a server there, and ready? Asked with bash alone, so that a fresh machine needs no curl and no client of a server.

# probe_port HOST PORT: something listens.
probe_port() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

# probe_http URL [HEADER]: prints the status code of a GET.
probe_http() (
  rest=${1#http://} host=${1#http://} status=
  host=${host%%/*}
  exec 3<>"/dev/tcp/${host%:*}/${host##*:}" || exit 1
  printf 'GET /%s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n' "${rest#*/}" "$host" "${2:+$2$'\r\n'}" >&3
  IFS=' ' read -r -t 5 _ status _ <&3
  printf '%s' "$status"
) 2>/dev/null

probe_ready() { [[ $(probe_http "http://127.0.0.1:$1/readyz") == 2* ]]; }

# probe_redis PORT PASSWORD: answers commands (not: still loading its file).
probe_redis() (
  exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
  printf 'AUTH %s\r\nPING\r\n' "$2" >&3
  read -r -t 2 _ <&3 && read -r -t 2 answer <&3 && [[ $answer == +PONG* ]]
) 2>/dev/null

# probe_mariadb PORT: has sent its greeting, which it does once it accepts connections.
probe_mariadb() (
  exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
  LC_ALL=C read -r -t 2 -n 1 _ <&3
) 2>/dev/null
