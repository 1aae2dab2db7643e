"""Ordinary commands, about which nobody is asked."""

from __future__ import annotations

import pytest

from hermes_trio.tools.safety.judge import judge
from hermes_trio.tools.safety.verdict import Free
from tests.tools.safety.places import HERE

HARMLESS = """\
ls -la
cd src && pytest -q
git status
exec <&-; echo closed
make 2>&- | tail
git log --oneline -5 --format='%h %s'
git commit -m "rm -rf the old / files; drop table users"
git commit -m "Don't shutdown; kill -9 -1"
git push origin main
git push -u origin feature/x
git checkout -b fix
git stash
git branch -d old
git reset HEAD~1
git clean -n
git rebase --continue
grep -rn "rm -rf" .
grep -n 'DROP TABLE' schema.sql
echo "rm -rf /"
echo 'curl x | sh'
printf '%s\\n' "reboot now"
cat README.md | head -50
rm file.txt
rm -f *.pyc
rmdir empty
mkdir -p build/x && cd build/x && cmake ../..
find . -name '*.py' | xargs grep -l foo
find . -type f -exec grep -l TODO {} +
find src -name "*.ts" -print0 | xargs -0 wc -l
curl -s https://api.example.com/x | jq .name
curl -s https://api.example.com/x | python3 -m json.tool
curl -s https://x | python3 -c 'import json,sys; print(json.load(sys.stdin)["a"])'
curl -fsSL -o archive.tar.gz https://x/archive.tar.gz
wget https://x/y.zip && unzip y.zip
python3 - <<'PY'
python3 -c 'print(1)'
python3 script.py --reset
python -m pytest tests -k "not slow"
python3 -m venv .venv && . .venv/bin/activate && pip install -r requirements.txt
source .venv/bin/activate
npm install && npm test
npm run build 2>&1 | tail -20
node -e "console.log(1)"
make -j4 > build.log 2>&1
tar -xzf x.tar.gz -C out
chmod +x script.sh
chmod 644 x
chmod 755 bin
chmod 5 x
chmod u+w x
docker ps -a
docker logs -f web
docker compose up -d
docker run --rm -it ubuntu ls
docker build -t x .
systemctl status nginx
systemctl --user list-units
journalctl -u nginx -n 50
service --status-all
kill 12345
kill -9 12345
kill %1
kill -TERM $pid
kill -1 $pid
cp /etc/hosts $copy
ps aux | grep node
sed 's/a/b/' x
sed -i 's/a/b/' src/x.py
sed -n 1,20p /etc/hosts
cat /etc/os-release
cp /etc/hosts hosts.bak
cp .env.example .env.sample
diff <(sort a) <(sort b)
x=$(mktemp -d); echo hi > $x/y; cat $x/y
for f in *.md; do wc -l "$f"; done
while read -r line; do echo "$line"; done < x
if [ -f x ]; then cat x; fi
[[ $a =~ ^(x|sh|rm)$ ]] && echo yes
case $x in a|sh) echo hi;; *) ls;; esac
awk '{print $1}' x | sort | uniq -c
echo $((1 + 2)) # don't worry
sudo apt-get install -y ripgrep
psql -c 'SELECT * FROM users'
psql -c "DELETE FROM t WHERE id = 1"
sqlite3 x.db .tables
dd if=/dev/urandom bs=1 count=8 | xxd
crontab -l
eval "$(ssh-agent -s)"
eval "$(pyenv init -)"
bash script.sh
bash -c 'cd x && make'
bash -n script.sh
sh -c "echo $(date)"
yes | bash install.sh
$PYTHON -m pytest
"$HOME/.local/bin/tool" --version
./gradlew build
$(which python3) --version
ssh host uptime
timeout 60 pytest -x
env FOO=1 ./run.sh
nohup ./server > log 2>&1 &
hermes-trio status
hermes-trio stop --help
command -v rm
type rm
man rm
which shutdown
git diff > /dev/null 2>&1
ls 2>/dev/null
echo x | tee out.txt
rsync -a src/ dst/
mv a b
ln -s a b
history | tail
alias ll='ls -l'
declare -A map=([rm]=1 [sh]=2)
echo {1..3} {a,b}
curl -d '{"rm": "-rf", "x": 1}' https://x
export PATH="$PATH:/opt/bin"
pip install 'x>=1,<2'
set -euo pipefail; cd src && make -j"$(nproc)"
for i in $(seq 1 10); do curl -s "http://localhost:8080/health" && break || sleep 1; done
i=0; while [ $i -lt 5 ]; do echo $i; i=$((i+1)); done
for ((i=0;i<10;i++)); do echo "$i"; done
if [[ -f package.json && ! -d node_modules ]]; then npm ci; fi
if [[ "$OSTYPE" == linux* ]]; then echo linux; fi
[[ $v =~ ^[0-9]+(\\.[0-9]+)*$ ]] && echo version
find . -type f \\( -name '*.js' -o -name '*.ts' \\) -not -path '*/node_modules/*' | xargs -I{} basename {}
find . -name '*.log' -mtime +7 -print
find . -name "*.py" -exec sed -i 's/foo/bar/g' {} +
grep -rl foo src | xargs sed -i 's/foo/bar/g'
xargs -n1 -P4 curl -sO < urls.txt
git diff --stat HEAD~1 | tee /tmp/diff.txt
git log --pretty=format:'%h - %an, %ar : %s' | head
git for-each-ref --format='%(refname)' refs/heads
git rebase -i HEAD~3
git submodule update --init --recursive
git submodule foreach git pull
python3 -c "import sys; print(sys.version)"
python3 -c 'print("a" if True else "b")'
docker run --rm -v "$PWD":/app -w /app node:20 npm test
docker exec -it web bash
docker exec web bash -c 'ls /app'
docker compose exec db psql -U postgres -c 'SELECT 1'
kubectl get pods -n default -o wide
ssh user@host 'cd /srv/app && git pull && ls'
ssh -i key.pem -p 2222 user@host uptime
scp file.txt user@host:/tmp/
rsync -avz --exclude node_modules ./ user@host:/srv/app/
tar -czf backup.tar.gz --exclude='*.log' src
export FOO=bar; echo $FOO
export NODE_ENV=production && npm run build
source ~/.bashrc && nvm use 20
. ~/.nvm/nvm.sh; nvm install --lts
source <(kubectl completion bash)
eval "$(direnv hook bash)"
VAR=$(cat file); echo "$VAR" | wc -c
name=$(basename "$f" .txt); mv "$f" "$name.md"
for f in *.txt; do mv "$f" "${f%.txt}.md"; done
while IFS= read -r line; do echo "${line^^}"; done < input.txt
while IFS=, read -r a b c; do echo "$a"; done < data.csv
IFS=/ read -ra parts <<< "$path"
IFS=$'\\n'; for l in $(cat x); do echo "$l"; done
arr=(a b c); echo "${arr[@]}" "${#arr[@]}" "${arr[0]}"
declare -A m; m[x]=1; m["a b"]=2; echo "${!m[@]}"
case "$1" in start) echo go;; stop) echo no;; *) echo "usage";; esac
case $OS in Linux|Darwin) make;; *) echo "?" ;; esac
f() { echo "$1"; }; f hello
run() { echo "+ $*"; "$@"; }; run make test
trap 'echo bye' EXIT; sleep 1
trap - INT
echo "a" >&2; ls nothere 2>/dev/null || true
ls -la | awk '{sum += $5} END {print sum}'
awk -F, '{print $1 "," $2}' data.csv
awk -v n=3 'NR==n {print; exit}' file
sed -n '/start/,/end/p' file
sed -E 's/([a-z]+)/\\1/g' file > out
jq -r '.items[] | select(.a == "b") | .name' x.json
curl -s -X POST -H 'Content-Type: application/json' -d '{"a": "b"}' http://localhost:3000/api
curl -fsSL https://example.com/x.tar.gz | tar xz
wget -q https://example.com/data.csv
ps aux --sort=-%mem | head -5
kill -TERM "$(cat server.pid)"
kill $!
lsof -i :3000
time make
time -p make
nohup python server.py &
timeout 30 npm test
env -u FOO BAR=1 make
env - PATH=$PATH make
sudo apt-get update && sudo apt-get install -y jq
sudo -u postgres psql -c 'SELECT 1'
sudo systemctl status nginx
xargs -0 -n 1 echo < list
echo {a..e} file{1,2}.txt
echo $((2**10)) $(( (1+2)*3 ))
tee >(wc -l) < file > /dev/null
(cd sub && make)
{ echo a; echo b; } > out
cmd1 | { read x; echo "$x"; }
ls | while read -r f; do echo "$f"; done
cat list | while read -r f; do python3 process.py "$f"; done
printf '%s\\n' "${a[@]}"
printf -v stamp '%(%F)T' -1; echo $stamp
echo "it's" 'a "test"' $'tab\\there'
echo "${HOME:-/root}/x" ${USER:-nobody}
test -f x && rm x
[ -d build ] || mkdir build
python3 -m http.server 8000
python3 -m pip install -U pip
node server.js
node -e 'console.log(process.version)'
node -p "1 || 'a'"
npx tsc --noEmit
npx --yes prettier --write .
bash -lc 'nvm use 20 && npm test'
bash -x script.sh arg
bash ./configure --prefix=/opt/x
sh -c 'echo $0 $1' a b
find . -name '*.txt' -exec sh -c 'echo "$1"' _ {} \\;
watch -n 1 date
parallel -j4 gzip ::: *.log
tmux new -d -s x 'npm start'
make test 2>&1 | tail -n 50
pytest -q tests/test_x.py::test_y -k 'not slow'
cargo build --release && ./target/release/app --help
go test ./...
head -c 100 /dev/urandom | base64
echo aGVsbG8= | base64 -d
openssl rand -hex 16
date +%s; date -d @0
history | grep ssh
which python3 || command -v python
sqlite3 app.db 'select count(*) from t'
echo '# not a comment' # a comment with ' quote
./run.sh; ./build/*/bin/tool --version
$HOME/bin/tool x
"$VENV/bin/python" -m pytest
$SUDO make install
! grep -q x y
"""


@pytest.mark.parametrize("command", HARMLESS.splitlines())
def test_a_harmless_command_is_free(command: str) -> None:
    if command.endswith("<<'PY'"):
        command += "\nimport json\nprint(json.dumps({'rm': '/'}))\nPY\nls"
    assert judge(command, HERE) == Free(), command
