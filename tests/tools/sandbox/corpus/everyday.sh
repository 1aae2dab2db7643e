# The work that people ask an agent for, in a repository of the person. Each command ends with 0 where it works.

# list the files
ls -la && ls -R src

# read a file
cat README.md && head -3 app.py && tail -2 app.py

# search the sources
grep -rn "def " --include='*.py' . | head

# count lines
find . -name '*.py' -not -path './.git/*' | xargs wc -l

# compare two files
cp app.py b.py && echo x >> b.py && ! diff -u app.py b.py

# make, move and remove files
mkdir -p a1/b1 && touch a1/b1/c && mv a1/b1/c a1/d && rm -r a1

# write a file from a here document
cat > notes.md <<'TEXT'
# Notes
TEXT
grep -q Notes notes.md

# edit a file in place
sed -i 's/hello/good morning/' app.py && grep -q 'good morning' app.py

# edit with perl [perl]
perl -pi -e 's/hello/hi/' app.py && grep -q hi app.py

# write to the directory for temporary files
echo x > /tmp/$NAME-out && test "$(cat /tmp/$NAME-out)" = x && rm /tmp/$NAME-out

# write to the named directory for temporary files
f=$(mktemp) && echo x > "$f" && test -s "$f" && d=$(mktemp -d) && touch "$d/a"

# write to the other directory for temporary files
f=$(mktemp -p /var/tmp) && rm "$f"

# sort, cut and count
printf 'b 1\na 2\n' | sort | cut -d' ' -f2 | uniq -c | tr -s ' '

# a large sort
seq 200000 | sort -R | sort -n | tail -1 | grep -qx 200000

# a table with awk [awk]
printf 'a,1\nb,2\n' | awk -F, '{ s += $2 } END { print s }' | grep -qx 3

# make and list an archive
tar czf out.tgz src && tar tzf out.tgz | grep -q src && mkdir x && tar xzf out.tgz -C x

# make a zip archive [zip]
zip -qr out.zip src && python3 -m zipfile -l out.zip

# compress and expand [gzip]
gzip -k app.py && gunzip -c app.py.gz | cmp - app.py

# work with JSON [jq]
echo '{"a": [1, 2]}' | jq '.a | add' | grep -qx 3

# a patch is applied [patch]
cp app.py b.py && sed -i 's/hello/bye/' b.py; diff -u app.py b.py > p.diff; patch -s app.py p.diff && cmp app.py b.py

# a patch is applied by git [git]
sed -i 's/hello/bye/' app.py && git diff > p.diff && git checkout -q app.py && git apply p.diff && grep -q bye app.py

# checksums
sha256sum app.py > sums && sha256sum -c --quiet sums

# the status of the repository [git]
git status --short && git log --oneline | head -3

# a commit [git]
echo x >> app.py && git commit -qam 'change' && git log -1 --format=%s | grep -qx change

# a commit of a new file [git]
echo x > new.py && git add new.py && git commit -qm new

# a new branch [git]
git checkout -q -b feature && echo x >> app.py && git commit -qam x && git checkout -q main

# a switch and a merge [git]
git switch -q -c other && echo x > o && git add o && git commit -qm o && git switch -q main && git merge -q --no-ff -m m other

# a rebase [git]
git checkout -q -b f && echo x > f1 && git add f1 && git commit -qm f && git checkout -q main && echo y > m1 && git add m1 && git commit -qm m && git rebase -q main f

# a conflict is solved [git]
git checkout -q -b f && echo 1 > c && git add c && git commit -qm 1 && git checkout -q main && echo 2 > c && git add c && git commit -qm 2; git merge -q f; echo 3 > c && git add c && git commit -qm 3

# a cherry-pick and a revert [git]
git checkout -q -b f && echo 1 > c && git add c && git commit -qm 1 && git checkout -q main && git cherry-pick f > /dev/null && git revert --no-edit HEAD > /dev/null

# a stash [git]
echo x >> app.py && git stash -q && git stash pop -q && grep -qx x app.py

# a tag [git]
git tag -a v1 -m v1 && git describe | grep -qx v1

# a branch is deleted [git]
git branch old && git branch -q -d old && ! git rev-parse -q --verify old

# a branch is renamed [git]
git branch old && git branch -m old new && git rev-parse -q --verify new

# a reset [git]
echo x > n && git add n && git commit -qm n && git reset -q --hard HEAD~1 && test ! -e n

# an amended commit [git]
echo x >> app.py && git commit -qa --amend --no-edit

# blame and show [git]
git --no-pager blame app.py > /dev/null && git --no-pager show --stat HEAD

# a second work tree [git]
git worktree add -q ../site/wt -b wt && echo x > wt/n && git -C wt add n && git -C wt commit -qm n

# a repository is cloned within the work directory [git]
git clone -q . copy && cd copy && echo x > n && git add n && git commit -qm n

# a repository is cloned from another directory [git]
git clone -q ~/projects/other copy && test -d copy/.git

# a new repository [git]
git init -q fresh && cd fresh && echo x > n && git add n && git -c user.name=a -c user.email=a@b.c commit -qm n

# a repository is tidied [git]
git gc -q && git fsck --no-progress

# files that belong to no commit are cleaned [git]
mkdir junk && touch junk/x && git clean -fdq && test ! -e junk

# a name is set in the repository [git]
git config user.name Agent && git config user.name | grep -qx Agent

# a remote is added [git]
git remote add upstream https://example.invalid/x.git && git remote -v | grep -q upstream

# the hooks run at a commit [git]
echo x >> app.py && git commit -qam x && test -e hook-ran

# an archive of the repository [git]
git archive --format=tar HEAD | tar t | grep -q app.py

# a program in Python runs
python3 app.py | grep -q hello

# tests in Python run
python3 -m unittest -q tests.test_app

# sources are compiled to bytecode
python3 -m compileall -q src tests

# a virtual environment [python3]
python3 -m venv --without-pip env && env/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'

# a package of this directory is installed for development [pip]
python3 -m venv --without-pip --system-site-packages env && env/bin/python -m pip -q --disable-pip-version-check install --no-index --no-build-isolation --no-deps -e . && env/bin/python -c 'import site_tools'

# a local wheel is built and installed [pip]
python3 -m pip -q --disable-pip-version-check wheel --no-index --no-build-isolation --no-deps -w dist . && python3 -m pip -q --disable-pip-version-check install --no-index --target lib dist/*.whl && PYTHONPATH=lib python3 -c 'import site_tools'

# a temporary file in Python
python3 -c "
import tempfile
with tempfile.NamedTemporaryFile('w') as f, tempfile.TemporaryDirectory() as d:
    f.write('x')"

# several processes in Python
python3 -c "
import multiprocessing
with multiprocessing.Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]"

# several processes that are started anew in Python
cat > m.py <<'PY'
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
PY
python3 m.py

# a manager of shared values in Python
cat > m.py <<'PY'
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.Manager() as manager:
        shared = manager.dict(a=1)
        assert shared["a"] == 1
PY
python3 m.py

# shared memory in Python
python3 -c "
from multiprocessing import shared_memory
m = shared_memory.SharedMemory(create=True, size=64); m.buf[0] = 1; m.close(); m.unlink()"

# threads in Python
python3 -c "
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    assert sum(pool.map(int, '123')) == 6"

# an event loop in Python with a child process
python3 -c "
import asyncio
async def main():
    child = await asyncio.create_subprocess_exec('echo', 'x', stdout=asyncio.subprocess.PIPE)
    assert (await child.communicate())[0] == b'x\n'
asyncio.run(main())"

# a test with a server on this machine
python3 - <<'PY'
import http.server, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
assert urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/README.md").status == 200
PY

# a pair of sockets in Python
python3 -c "
import socket
a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'"

# the user and the machine are asked for
python3 -c "import getpass, os, pwd; pwd.getpwuid(os.getuid()); os.cpu_count()" && id && uname -a && date

# a database [sqlite3]
sqlite3 data.db "CREATE TABLE t (a); INSERT INTO t VALUES (1); PRAGMA journal_mode = WAL; SELECT * FROM t"

# a database in Python
python3 -c "
import sqlite3
d = sqlite3.connect('data.db'); d.execute('PRAGMA journal_mode=WAL'); d.execute('CREATE TABLE t (a)'); d.commit()"

# a build with make [make]
make -s && ./hello | grep -q hello && make -s clean

# a parallel build with make [make]
make -s -j4

# a build with cmake [cmake ninja gcc]
mkdir cm && printf 'cmake_minimum_required(VERSION 3.10)\nproject(x C)\nadd_executable(x ../src/hello.c)\n' > cm/CMakeLists.txt && cmake -G Ninja -S cm -B cm/out > /dev/null && ninja -C cm/out > /dev/null && cm/out/x

# a program in C [gcc]
gcc -O2 -Wall -o hello src/hello.c && ./hello

# a program in C++ [g++]
printf '#include <iostream>\nint main() { std::cout << 1; }' > one.cc && g++ -o one one.cc && ./one

# a library in C [gcc]
printf 'int one(void) { return 1; }' > one.c && gcc -shared -fPIC -o libone.so one.c && python3 -c "import ctypes; assert ctypes.CDLL('./libone.so').one() == 1"

# a program with checks for memory errors [gcc]
gcc -fsanitize=undefined -o hello src/hello.c && ./hello

# a program is debugged [gdb gcc]
gcc -g -o hello src/hello.c && timeout 20 gdb -batch -nx -ex 'break main' -ex run -ex bt ./hello | grep -q main

# a program is traced [strace]
strace -f -o trace.txt true && grep -q execve trace.txt

# a program in Java [java]
printf 'class A { public static void main(String[] a) { System.out.println(1); } }' > A.java && java -XX:TieredStopAtLevel=1 A.java | grep -qx 1

# a program in JavaScript [node]
node -e 'console.log([1, 2].map(x => x * 2).join())' | grep -qx 2,4

# workers in JavaScript [node]
node -e 'const {Worker} = require("worker_threads"); new Worker("process.exit(0)", {eval: true})'

# a script of npm [npm]
npm run --silent greet | grep -q hello

# the tests of node [node]
node --test tests/app.test.js > /dev/null

# a local package of npm is installed [npm]
mkdir dep && echo '{"name": "dep", "version": "1.0.0"}' > dep/package.json && npm install --silent --no-audit --no-fund --offline ./dep && test -e node_modules/dep

# a new package of npm [npm]
mkdir pkg && cd pkg && npm init -y > /dev/null && test -s package.json

# a package of npm is packed [npm]
npm pack --silent > /dev/null && ls ./*.tgz

# a program in Tcl [tclsh]
echo 'puts [expr 1 + 1]' | tclsh | grep -qx 2

# sums [bc]
echo '2^10' | bc | grep -qx 1024

# a file is edited with ed [ed]
printf 's/hello/bye/\nw\nq\n' | ed -s README.md && grep -q bye README.md

# a file is edited with vim [vim]
vim -u NONE -es -c '%s/hello/bye/' -c 'wq' README.md && grep -q bye README.md

# a key for tests is made [ssh-keygen]
mkdir k && ssh-keygen -q -t ed25519 -N '' -f k/test_key && test -s k/test_key.pub

# a certificate for tests is made [openssl]
openssl req -x509 -newkey rsa:2048 -nodes -keyout k.pem -out c.pem -subj /CN=x -days 1 2> /dev/null && openssl x509 -noout -in c.pem

# a text is encrypted [openssl]
echo x | openssl enc -aes-256-cbc -pbkdf2 -k p | openssl enc -d -aes-256-cbc -pbkdf2 -k p | grep -qx x

# a job in the background of one command
(sleep 0.1; echo done > done.txt) & wait && test -s done.txt

# a pipe with a name
mkfifo pipe && (echo x > pipe &) && grep -qx x pipe

# a process is found and ended
sleep 30 & kill $! && ! wait $!

# the processes are listed [ps]
ps aux | grep -q ps

# a substitution of processes
diff <(echo a) <(echo a)

# a limit of time
timeout 5 true && ! timeout 0.1 sleep 5

# a limit of memory
bash -c 'ulimit -v 4000000; true'

# less haste for a command [nice]
nice -n 5 true

# a lock of files [flock]
flock lock -c true

# a terminal for a program [script]
script -qec 'test -t 0' /dev/null < /dev/null

# random numbers and nothing
head -c 8 /dev/urandom | wc -c | grep -qx 8 && head -c 8 /dev/zero > /dev/null && echo x > /dev/null

# the errors of a program on the standard streams
echo x | tee /dev/null | cat /dev/stdin && (echo y > /dev/stdout) | cat

# what the machine has is looked at
df . > /dev/null && free > /dev/null && cat /proc/cpuinfo /proc/meminfo > /dev/null && nproc

# the documents are read
cat ~/Documents/letter.txt && ls ~/projects

# links in the work directory
ln -s app.py link.py && cat link.py > /dev/null && ln README.md hard.md

# rights of a script are set
printf '#!/bin/sh\necho x\n' > s.sh && chmod +x s.sh && ./s.sh

# times and sizes
touch -d yesterday app.py && stat -c %s app.py && du -sh . > /dev/null && truncate -s 1M big

# a large file
dd if=/dev/zero of=big bs=1M count=20 2> /dev/null && rm big

# many files
mkdir many && for i in $(seq 300); do : > many/$i; done && rm -r many

# two versions of a directory are kept equal
mkdir backup && cp -a src backup/ && diff -r src backup/src

# a calendar and a time zone
TZ=Europe/Berlin date && python3 -c "import zoneinfo; zoneinfo.ZoneInfo('Europe/Berlin')"

# the language is set
LC_ALL=C.UTF-8 printf '%s\n' ä | wc -m | grep -q 2

# a program from the person's own directory
~/.local/bin/greet | grep -q hi

# the editor's settings are read
cat .vscode/settings.json && cat .git/config

# a static analysis of the sources
python3 -W error -c "import ast, pathlib; ast.parse(pathlib.Path('app.py').read_text())" && python3 -m tabnanny app.py

# a profile of a program
python3 -m cProfile -o p.out app.py > /dev/null && python3 -c "import pstats; pstats.Stats('p.out')"

# documentation is made
python3 -m pydoc -w app > /dev/null && test -s app.html

# a script in the shell is checked
bash -n build.sh && bash build.sh

# a container of settings is read
python3 -c "import configparser, tomllib; tomllib.load(open('pyproject.toml', 'rb'))"

# lines that two lists share
sort README.md > one.txt && sort app.py > two.txt && comm -12 one.txt two.txt && join -j 1 one.txt one.txt | head -1

# a large file is cut into parts and put together
seq 5000 > numbers && split -l 1000 numbers part- && cat part-* | cmp - numbers

# a text in another encoding
printf 'Gr\303\274n\n' | iconv -f UTF-8 -t ISO-8859-1 | iconv -f ISO-8859-1 -t UTF-8 | grep -q Gr

# data as text
base64 app.py | base64 -d | cmp - app.py && od -c app.py | head -2

# a name is replaced in all sources
grep -rl greeting --include='*.py' . | xargs sed -i 's/greeting/welcome/g' && grep -q welcome app.py tests/test_app.py

# many commands at the same time
seq 8 | xargs -P 4 -I{} sh -c 'echo {} > out-{}' && ls out-* | wc -l | grep -qx 8

# the newest and the largest files
find . -type f -not -path './.git/*' -printf '%T@ %s %p\n' | sort -rn | head -3 && du -sh src

# files are renamed by a pattern
touch a.txt b.txt && for file in a.txt b.txt; do mv "$file" "${file%.txt}.md"; done && test -f a.md

# a table of values is read in Python
printf 'name,size\na,1\nb,2\n' > t.csv && python3 -c "
import csv; assert sum(int(row['size']) for row in csv.DictReader(open('t.csv'))) == 3"

# a tree of XML is changed in Python
python3 -c "
import xml.etree.ElementTree as tree
root = tree.fromstring('<a><b>1</b></a>'); root.find('b').text = '2'
tree.ElementTree(root).write('a.xml')" && grep -q '<b>2</b>' a.xml

# an archive is read and unpacked in Python
python3 -c "
import shutil
shutil.make_archive('src-copy', 'zip', 'src'); shutil.unpack_archive('src-copy.zip', 'unpacked')" && test -f unpacked/hello.c

# a program with options and a log
cat > tool.py <<'PY'
import argparse, logging
parser = argparse.ArgumentParser()
parser.add_argument("--name", default="x")
logging.basicConfig(filename="tool.log", level="INFO")
logging.info("hello %s", parser.parse_args().name)
PY
python3 tool.py --name site && grep -q 'hello site' tool.log

# a pipe between two programs in Python
python3 -c "
import subprocess
first = subprocess.Popen(['seq', '10'], stdout=subprocess.PIPE)
assert subprocess.check_output(['wc', '-l'], stdin=first.stdout).strip() == b'10'"

# a test that fails is looked at
! python3 -c "assert 1 == 2" 2> error.txt && grep -q AssertionError error.txt

# the history of a line [git]
git log -S hello --oneline -- app.py && git log --stat -1 && git shortlog -s HEAD

# the sources are searched by git [git]
git grep -n greeting -- '*.py' && git ls-files | wc -l

# the commit that broke it is searched [git]
git commit -q --allow-empty -m second && git commit -q --allow-empty -m third && git bisect start HEAD HEAD~2 &&
git bisect run true && git bisect reset

# a patch is made of a commit [git]
echo '# end' >> app.py && git commit -qam end && git format-patch -1 --stdout > end.patch && git apply -R --check end.patch

# a file is brought back [git]
rm app.py && git checkout -q -- app.py && git restore --source HEAD README.md && test -f app.py

# a file is ignored [git]
echo '*.log' >> .gitignore && touch x.log && git check-ignore -q x.log

# a large output is read page by page
seq 20000 | sed -n '100,120p' | tail -1 | grep -qx 120 && seq 20000 | head -c 1000 | wc -c

# dates are computed
date -d '2026-01-31 + 1 day' +%F | grep -qx 2026-02-01 && python3 -c "
from datetime import date, timedelta; assert date(2026, 1, 31) + timedelta(1) == date(2026, 2, 1)"
