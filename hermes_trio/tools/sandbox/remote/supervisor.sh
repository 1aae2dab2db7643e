# The supervisor of one command where there is no python3 that can be the reaper of orphans. It does what
# `supervisor_program.py` does, in a POSIX shell. Without a reaper the processes that came of a command are
# those of its session, those with its mark in their environment, and the children of both. Not found is a
# process that left the session, lost its parent and emptied its environment.

say() { echo "hermes-trio: $1" >&2; }
for tool in setsid mkfifo mktemp grep awk sleep cat rm; do
  command -v $tool >/dev/null 2>&1 || { say "failed command there is no python3, and no $tool"; exit 1; }
done
[ -r /proc/self/stat ] || { say "failed command there is no /proc"; exit 1; }
exec 3<&0 </dev/null

set --
while IFS= read -r line <&3; do
  rest=${line#* }
  case $line in
    v\ *) value=$(printf %b. "${rest#* }"); set -- "$@" "${rest%% *}=${value%.}" ;;
    d\ *) directory=$(printf %b. "$rest"); directory=${directory%.} ;;
    c\ *) text=$(printf %b. "$rest"); text=${text%.}; break ;;
  esac
done
[ -n "$text" ] || exit 1
mark=HERMES_TRIO_COMMAND=
for one in "$@"; do case $one in HERMES_TRIO_COMMAND=*) mark=$one ;; esac; done
case $directory in "~" | "~/"*) directory=$HOME${directory#"~"} ;; esac
cd "$directory" 2>/dev/null || { say "failed directory it cannot be entered"; exit 1; }

# The living members, also those that were members at an earlier look; the command itself comes first.
known=
members() {
  { grep -ls "$mark" /proc/[0-9]*/environ; cat /proc/[0-9]*/stat; } 2>/dev/null | awk -v leader="$leader" -v known="$known" '
    BEGIN { n = split(known, list, " "); for (i = 1; i <= n; i++) member[list[i]] = 1; member[leader] = 1 }
    index($0, "/proc/") == 1 { split($0, part, "/"); member[part[3]] = 1; next }
    { pid = $1; sub(/^.*[)] /, ""); if ($1 != "Z" && $1 != "X") { parent[pid] = $2; if ($4 == leader) member[pid] = 1 } }
    END {
      do { more = 0; for (pid in parent) if (parent[pid] in member && !(pid in member)) { member[pid] = 1; more = 1 } } while (more)
      if (leader in parent) printf "%s ", leader
      for (pid in member) if (pid in parent && pid != leader) printf "%s ", pid
    }'
}

# End all members: TERM, and KILL after so many tenths of a second. A shell that waits for a child must get its
# TERM before the child does, or it goes on as if the child had ended by itself.
end() {
  round=0
  while known=$(members) && [ -n "$known" ] && [ $round -lt 50 ]; do
    if [ $round -ge "$1" ]; then kill -KILL $known; elif [ $round = 0 ]; then kill -TERM $known; fi 2>/dev/null
    round=$((round + 1))
    sleep 0.1 2>/dev/null || sleep 1
  done
}

work=$(mktemp -d) && mkfifo "$work/input" || { say "failed command it cannot make a temporary file"; exit 1; }
shell=sh
command -v bash >/dev/null 2>&1 && shell=bash
(
  trap - INT QUIT
  for one in "$@"; do export "$one"; done
  export HERMES_TRIO_DIRECTORY="$work/directory"
  exec setsid $shell -c "$text" <"$work/input" 2>&1 3<&-
) &
leader=$!
exec 4>"$work/input"
say began
trap "end 15" TERM HUP INT

# Reads from the connection: input for the command, the order to end, and a sign of life every 5 seconds.
(
  while IFS= read -r line <&3; do
    : >"$work/heard"
    case $line in
      i\ *) ( trap "" PIPE; if printf %b "${line#* }" >&4 2>/dev/null; then say took; else say deaf; fi ) & ;;
      e*) exec 4>&- ;;
      k*) end 15 ;;
    esac
  done
  end 3
) &
reader=$!

# Ends the command if nothing was heard for 20 seconds: a cut network closes nothing.
(
  trap "kill \$pause; exit" TERM
  silent=0
  while [ $silent -lt 4 ]; do
    sleep 5 & pause=$!
    wait $pause
    if [ -e "$work/heard" ]; then rm -f "$work/heard"; silent=0; else silent=$((silent + 1)); fi
  done
  end 3
) >/dev/null 2>&1 3<&- 4>&- &
watch=$!
exec 4>&-

wait $leader
code=$?
end 15
last=$(cat "$work/directory" 2>/dev/null)
kill $reader $watch 2>/dev/null
rm -rf "$work"
say "ended $code $(set -- $known; echo $#) $last"
exit 0
