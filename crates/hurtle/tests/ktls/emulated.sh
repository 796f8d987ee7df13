#!/bin/sh
# TLS by the kernel, for whoever's own kernel has none: boots Debian's kernel in an emulator, with
# its module, a server, and clients (guest.sh, which says what is looked at), and says how it went.
#
#   cargo build && crates/hurtle/tests/ktls/emulated.sh target/debug/hurtle
#
# Takes some minutes, and apt packages that need not be configured in any way:
#   apt-get install --no-install-recommends qemu-system-x86 busybox-static cpio binutils curl openssl
# KERNEL_DEB=file.deb: that kernel and not the one of this Debian. Nothing of it is installed.
set -eu
server=$(realpath "${1:?usage: emulated.sh SERVER}")
guest=$(realpath "$(dirname "$0")/guest.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

if [ -n "${KERNEL_DEB:-}" ]; then
    cp "$KERNEL_DEB" kernel.deb
else
    name=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p' | head -n 1)
    apt-get download "$name" 2>/dev/null
    mv linux-image-*.deb kernel.deb
fi
dpkg -x kernel.deb kernel
modules=$(find kernel -type d -path '*/lib/modules/*' -prune | head -n 1)
version=$(basename "$modules")

mkdir -p root/bin root/sbin root/proc root/sys root/dev root/tmp root/etc "root/lib/modules/$version/kernel"
for part in crypto arch lib net/tls; do
    mkdir -p "root/lib/modules/$version/kernel/$(dirname "$part")"
    cp -r "$modules/kernel/$part" "root/lib/modules/$version/kernel/$part"
done
cp "$modules"/modules.* "root/lib/modules/$version/"
find root/lib/modules -name '*.ko.xz' -exec xz -d {} +
cp "$(command -v busybox)" root/bin/busybox
# The kernel asks for a module by this name.
ln -s /bin/busybox root/sbin/modprobe
busybox depmod -b root "$version"

# Programs, and the libraries that they name.
cp "$server" root/bin/hurtle
strip root/bin/hurtle
cp "$(command -v curl)" "$(command -v openssl)" root/bin/
for library in $(ldd root/bin/hurtle root/bin/curl root/bin/openssl | grep -o '/[^ :]*' | grep '\.so' | sort -u); do
    mkdir -p "root$(dirname "$library")"
    cp -L "$library" "root$library"
done
cp "$guest" root/init
chmod +x root/init
(cd root && find . | cpio --quiet -o -H newc) | gzip -1 >initrd

timeout 900 qemu-system-x86_64 -cpu max -smp 2 -m 2048 -display none -serial stdio -monitor none \
    -nic none -no-reboot -kernel kernel/boot/vmlinuz-* -initrd initrd \
    -append 'console=ttyS0 quiet panic=-1 random.trust_cpu=on' </dev/null | tee log
grep -q '^all is well' log
