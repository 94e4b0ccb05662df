#!/usr/bin/env bash
# Runs a command while it owns a Holdfast mutex:
#
#   with-lock.sh MUTEX COMMAND [ARGUMENT…]
#
# Needs bash and curl. Variables, all optional:
#
#   HOLDFAST_ADDRESS    the service; http://127.0.0.1:8080
#   LOCK_WAIT           seconds to wait in line at most; 600
#   LOCK_CONTENDER      what others see as the owner; host name and process
#   LOCK_TTL_MS         windows to ask for; what the mutex or the
#   LOCK_TRANSITION_MS  service has
#
# The command finds its fencing token in HOLDFAST_FENCING_TOKEN. It runs in a
# process group of its own, and does not get the terminal as its input. The
# mutex is released when it ends: it has to wait for what it starts. The exit
# status is that of the command, or
#
#   64       the usage is wrong, or the service refuses the request as such
#   75       not acquired within LOCK_WAIT; the command was never started
#   76       the mutex was lost, or nothing proved for a whole ttl that it was
#            not; the command was stopped
#   128 + n  after signal n, INT, TERM or HUP; the command was sent it, too
#
# After kill -9 of this script the command is stopped, too, and the mutex is
# free when its windows end.
set -u

say() { printf 'with-lock: %s\n' "$*" >&2; }
die() { local status=$1; shift; say "$@"; exit "$status"; }

[ $# -ge 2 ] || die 64 "usage: with-lock.sh MUTEX COMMAND [ARGUMENT…]"
name=$1
shift
[[ $name =~ ^[A-Za-z0-9_][A-Za-z0-9._:@~-]{0,199}$ ]] || die 64 "$name cannot be the name of a mutex"
url=${HOLDFAST_ADDRESS:-http://127.0.0.1:8080}/v1/mutexes/$name
contender=${LOCK_CONTENDER:-${HOSTNAME:-host}-$$}
case $contender in *[\"\\]*) die 64 "LOCK_CONTENDER has a quote or a backslash" ;; esac
[[ ${LOCK_WAIT:=600} =~ ^[0-9]+$ ]] || die 64 "LOCK_WAIT is not a number of seconds"
ask=${LOCK_TTL_MS:+,\"ttl_ms\":$LOCK_TTL_MS}${LOCK_TRANSITION_MS:+,\"transition_ms\":$LOCK_TRANSITION_MS}
[ ! -t 0 ] || exec </dev/null # a command in the background stops when it reads a terminal

dir=$(mktemp -d) || exit 64 # mode 0700; what is asked, and what is answered
work='' starting='' party='' code=000 answer='' heard=''

# now prints milliseconds, where possible of a clock that nobody can set.
now() {
  local up rest
  if read -r up rest 2>/dev/null </proc/uptime; then
    up=${up/./}0
    echo $((10#$up))
  else
    echo $((SECONDS * 1000))
  fi
}

seconds() { printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)); }
least() { echo $(($1 < $2 ? $1 : $2)); }

# rest MS, in a way that a signal can end.
rest() {
  sleep "$(seconds "$1")" >/dev/null 2>&1 &
  wait $!
}

# new_token makes us a new party: a token is good for one ownership.
new_token() {
  party="\"contender_id\":\"$contender\",\"token\":\"$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')\""
}

# call WHAT MORE MS posts to the mutex. It sets code, which is 000 when no
# answer came within MS, and answer. Arguments of a program are there for every
# user of a machine to see, so the token goes by a file.
call() {
  printf '{%s%s}' "$party" "$2" >"$dir/$1.body"
  : >"$dir/$1.answer"
  curl -s --max-time "$(seconds "$3")" -o "$dir/$1.answer" -w '%{http_code}' \
    --data-binary "@$dir/$1.body" "$url/$1" >"$dir/$1.code" &
  wait $!
  code=$(<"$dir/$1.code")
  answer=$(<"$dir/$1.answer")
}

# number FIELD and text FIELD print a field of the answer.
number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" <<<"$answer"; }
text() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" <<<"$answer"; }

# owned AT takes in an answer that says that we own. It counts from when the
# request was sent, for nobody knows how long the answer travelled: the command
# runs until soft at most, and nobody else can own the mutex before hard.
owned() {
  soft=$(($1 + $(number ttl_remaining_ms)))
  hard=$(($1 + $(number transition_remaining_ms)))
  pause=$(number guard_after_ms)
}

# guard renews. Three tries fit into a ttl, and none takes longer than is left.
guard() {
  local at
  at=$(now)
  call guard '' "$1"
  [ "$code" != 200 ] || owned "$at"
}

# acquire returns when we own. Whatever happens it calls again as the same
# party: that keeps the place in line, and gets the answer that was lost.
acquire() {
  local left poll until=$(($(now) + 10#$LOCK_WAIT * 1000))
  new_token
  while :; do
    left=$((until - $(now)))
    poll=$(least $((left > 0 ? left : 0)) 30000)
    call acquire ",\"wait_ms\":$poll$ask" $((poll + 10000))
    explain
    case $code in
      200)
        guard 10000 # the answer came from a wait, and may be old
        [ "$code" != 200 ] || return 0
        ;;
      423) ;; # in line; again at once
      409)
        [ "$(text code)" = token_spent ] || die 75 "$answer"
        new_token
        ;;
      000 | 429 | 5??) rest 500 ;;
      *) die 64 "$answer" ;;
    esac
    [ "$left" -gt 0 ] || die 75 "$name was not free within $LOCK_WAIT s"
  done
}

# explain says what keeps us, once.
explain() {
  [ "$code" != 200 ] && [ "$code" != "$heard" ] || return 0
  heard=$code
  case $code in
    423) say "in line for $name, which $(text contender_id) owns" ;;
    000) say "no answer from $url" ;;
    *) say "$name: $code $(text code)" ;;
  esac
}

# keep guards for as long as the command and this script live.
keep() {
  local left
  while :; do
    rest "$(least "$pause" $((soft > $(now) ? soft - $(now) : 0)))"
    kill -0 $$ 2>/dev/null || lose $((hard - $(now))) "the script was killed"
    left=$((soft - $(now)))
    [ "$left" -gt 0 ] || lose $((hard - $(now))) "$name was not guarded for a whole ttl ($code)"
    guard "$(least "$left" "$third")"
    case $code in
      200) ;;
      409) lose 1000 "$name is lost: $(text code) $(text ended)" ;;
      *) pause=$(least $((third / 5)) 1000) ;; # 503, or no answer: again soon
    esac
  done
}

# lose MS WHY stops the command within MS.
lose() {
  : >"$dir/lost"
  say "$2; the command is stopped"
  stop TERM "$1"
  kill -0 $$ 2>/dev/null || rm -rf "$dir"
  exit
}

# stop SIGNAL MS sends the signal to the command and to whatever it started,
# and kills what is there after MS.
stop() {
  local until=$(($(now) + $2))
  kill -s "$1" -- "-$work" 2>/dev/null
  kill -s CONT -- "-$work" 2>/dev/null # what is stopped cannot end
  while kill -0 -- "-$work" 2>/dev/null && [ "$(now)" -lt "$until" ]; do
    # What a shell started in the background does not heed INT.
    kill -0 "$work" 2>/dev/null || kill -s TERM -- "-$work" 2>/dev/null
    rest 50
  done
  kill -s KILL -- "-$work" 2>/dev/null
}

# on_signal NAME NUMBER. The mutex is guarded while the command ends.
on_signal() {
  trap '' INT TERM HUP
  [ -n "$work" ] || work=${starting:+$!}
  [ -z "$work" ] || stop "$1" 5000
  exit $((128 + $2))
}

# finish gives the mutex, or the place in line, back, however the script ends.
finish() {
  local job status=$?
  trap '' INT TERM HUP
  {
    for job in $(jobs -p); do kill -- "-$job" || kill "$job"; done
    wait
  } 2>/dev/null
  [ -z "$party" ] || give_back
  rm -rf "$dir"
  exit "$status"
}

give_back() {
  for _ in 1 2 3; do
    call release ',"operation_id":"finish"' 2000
    case $code in 2?? | 4??) return ;; esac # a 409 says that it was not ours any more
    rest 500
  done
  say "no answer to the release; $name is free when its windows end"
}

trap finish EXIT
trap 'on_signal INT 2' INT
trap 'on_signal TERM 15' TERM
trap 'on_signal HUP 1' HUP

acquire
third=$pause
starting=yes
set -m # from here on, what goes to the background has a process group of its own
HOLDFAST_FENCING_TOKEN=$(number fencing_token) "$@" &
work=$!
keep &
keeper=$!
set +m
wait "$work"
status=$?
work='' starting=''
if [ -e "$dir/lost" ]; then
  wait "$keeper" # until whatever the command started is gone, too
  status=76
fi
exit "$status"
