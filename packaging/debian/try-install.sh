#!/bin/sh
# Installs a package in a new Debian, serves a page with the installed program and configuration,
# reloads it, and purges it. Nothing may be left. Usage: try-install.sh PACKAGE DIRECTORY
# Exits with 77 if it cannot run here: it needs root, mmdebstrap and a mirror.
set -eu

package=$1
root=$2/root
skip() { echo "$1" >&2; exit 77; }
[ "$(id -u)" = 0 ] || skip "needs root"
for tool in mmdebstrap curl; do
	command -v $tool >/dev/null || skip "$tool is missing"
done

rm -rf "$root"
mkdir -p "$root"
. /etc/os-release
mmdebstrap --quiet --variant=minbase --include=adduser,libgcc-s1 --aptopt='APT::Sandbox::User "root"' \
	"${VERSION_CODENAME:-stable}" "$root" >"$2/mmdebstrap.log" 2>&1 ||
	skip "mmdebstrap: $(tail -n 1 "$2/mmdebstrap.log")"

files() {
	(cd "$root" && find . -path ./proc -prune -o -path ./run -prune -o -path ./var/lib/dpkg -prune -o \
		-path ./var/cache -prune -o -path ./var/log -prune -o \
		! -path './etc/*-' ! -name .pwd.lock -print | sort)
}
in_root() { chroot "$root" "$@"; }

files >"$2/before"
cp "$package" "$root/hurtle.deb"
in_root dpkg --install /hurtle.deb
in_root hurtle --version
in_root hurtle check --config /etc/hurtle/hurtle.toml

# As systemd does: directories of the user, and no privilege for the process.
for dir in run var/lib var/log var/cache; do
	mkdir -p "$root/$dir/hurtle"
	in_root chown hurtle:hurtle "/$dir/hurtle"
done
chroot --userspec=hurtle:hurtle "$root" hurtle --config /etc/hurtle/hurtle.toml \
	--listen unix:/run/hurtle/http.sock 2>"$2/server.log" &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
page=$(curl --silent --show-error --fail --retry 50 --retry-delay 1 --retry-connrefused \
	--retry-all-errors --unix-socket "$root/run/hurtle/http.sock" http://localhost/) ||
	{ cat "$2/server.log" >&2; exit 1; }
case $page in
*"hurtle is running"*) echo "served the installed page" ;;
*) echo "unexpected page: $page" >&2; exit 1 ;;
esac
in_root hurtle reload --config /etc/hurtle/hurtle.toml
kill $server
wait $server
trap - EXIT
grep -q '"GET / HTTP/1.1" 200' "$root/var/log/hurtle/access.log"

in_root dpkg --purge hurtle
rm -rf "$root/hurtle.deb" "$root/run/hurtle"
files >"$2/after"
diff "$2/before" "$2/after"
for dir in var/log var/cache; do
	[ ! -e "$root/$dir/hurtle" ] || { echo "/$dir/hurtle is left" >&2; exit 1; }
done
if in_root getent passwd hurtle; then
	echo "the user hurtle is left" >&2
	exit 1
fi
echo "purged; nothing is left"
