#!/bin/busybox sh
# The first process of the emulated machine (emulated.sh): serves files over TLS, fetches them in many
# ways, compares every byte, and asks the kernel how many connections it has encrypted for.
/bin/busybox --install -s /bin
export PATH=/bin XDG_DATA_HOME=/tmp/data HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
ip link set lo up
failures=0
base=https://localhost:8443

say() { echo "$*"; }
fail() { say "FAILED: $*"; failures=$((failures + 1)); }
same() { cmp "$2" "$3" && say "ok: $1" || fail "$1"; }
is() { [ "$2" = "$3" ] && say "ok: $1" || fail "$1: $2, not $3"; }
get() { curl -sS --http1.1 --cacert /tmp/data/hurtle/authority.pem "$@"; }
# Connections that the kernel has encrypted for, since it began.
by_kernel() { sed -n 's/^TlsTxSw[[:space:]]*//p' /proc/net/tls_stat; }
client() { openssl s_client -connect 127.0.0.1:8443 -servername localhost -CAfile /tmp/data/hurtle/authority.pem -verify_return_error "$@" 2>&1; }

mkdir -p /tmp/files /tmp/got
for file in 1k 64k 300k 1m 20m; do
    head -c $file /dev/urandom >/tmp/files/$file
done
cd /tmp/got

say "kernel $(uname -r)"
hurtle /tmp/files --tls >/tmp/log 2>&1 &
tries=0
until get -o /dev/null $base/1k 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries = 60 ] && { cat /tmp/log; fail 'the server did not start'; poweroff -f; }
    sleep 1
done
grep . /proc/sys/net/ipv4/tcp_available_ulp
cat >/tmp/hurtle.toml <<'END'
listen_tls = "127.0.0.1:9443"
site = [{ default = true, tls = { certificate = "/tmp/data/hurtle/localhost.pem", key = "/tmp/data/hurtle/localhost.key" }, mount = [{ files = "/tmp/files" }] }]
END
for file in 64k 1m; do
    hurtle explain /$file --config /tmp/hurtle.toml >explained || cat explained
    grep -e 'the kernel' -e '^sent' explained
    is "explain: $file by sendfile" "$(grep -c 'bytes by sendfile' explained)" $([ $file = 1m ] && echo 1 || echo 0)
done
is 'small files are none of the kernel'"'"'s' "$(by_kernel)" 0

# Every cipher, every size; and where a size begins what the kernel does.
for suite in TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256; do
    before=$(by_kernel)
    for file in 1k 64k 300k 1m 20m; do
        get --tls13-ciphers $suite -o $file $base/$file
        same "$file, $suite" $file /tmp/files/$file
    done
    is "by the kernel: 300k, 1m and 20m" $(($(by_kernel) - before)) 3
done

# One connection: before the kernel took over, and long after.
before=$(by_kernel)
get -w '%{num_connects}' -o 1 $base/1k -o 2 $base/1m -o 3 $base/1k -o 4 $base/64k -o 5 $base/20m \
    -o 6 $base/none -o 7 $base/1m >connects
is 'seven requests, one connection' "$(cat connects)" 1000000
same 'a small file before' 1 /tmp/files/1k
same 'the first large one' 2 /tmp/files/1m
same 'a small one after' 3 /tmp/files/1k
same 'another' 4 /tmp/files/64k
same 'a very large one after' 5 /tmp/files/20m
is 'a page in memory after' "$(grep -c 404 6)" 1
same 'a large one after that' 7 /tmp/files/1m
is 'the kernel took over once' $(($(by_kernel) - before)) 1

# HEAD and ranges, before and after.
get -o 1 $base/1m --next -sS --http1.1 --cacert /tmp/data/hurtle/authority.pem -I -w '%{num_connects}' $base/20m >head
is 'HEAD comes on the same connection' "$(tail -n 1 head)" 0
is 'HEAD after a large file says its length' "$(grep -ci 'content-length: 20971520' head)" 1
get -r 1000-900000 -o range $base/1m
tail -c +1001 /tmp/files/1m | head -c 899001 >expected
same 'a range' range expected
get -r 0-9,400000-900000 -o parts $base/1m
is 'two ranges: the length of both, and what parts them' $(($(wc -c <parts) / 1000)) 500
tail -c +400001 /tmp/files/1m | head -c 500001 >expected
tail -c +$((1 + $(wc -c <parts) - 500001 - $(tail -n 1 parts | wc -c) - 2)) parts | head -c 500001 >second
same 'the second range' second expected

# A socket that is full when the answer is over, and closed: nothing of it may be lost.
for rate in 3m 8m; do
    get --limit-rate $rate -H 'Connection: close' -o slow $base/20m
    same "20m at $rate, then the end" slow /tmp/files/20m
done
(printf 'GET /20m HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'; sleep 20) |
    client -quiet -tls1_3 | (sleep 10; cat) >slow
is 'a client that sleeps first gets all' "$(tail -c 20971520 slow | sha256sum)" "$(sha256sum </tmp/files/20m)"

# A close in good order is told as one (RFC 8446 6.1).
(printf 'GET /1m HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'; sleep 5) | client -tls1_3 -ign_eof >told
is 'the goodbye came' "$(grep -ac '^closed$' told)" 1
is 'it was no sudden end' "$(grep -ac 'unexpected eof' told)" 0

# Other keys (RFC 8446 4.6.3): K asks for them, k only changes the client's own.
asked() { printf 'GET /1m HTTP/1.1\r\nHost: localhost\r\n\r\n'; sleep 4; }
(asked; echo K; sleep 2; asked) | client -tls1_3 >keys
is 'a client that wants new keys has the connection closed' "$(grep -ac 'HTTP/1.1 200' keys)" 1
is 'in good order' "$(grep -ac '^closed$' keys)" 1
(asked; echo k; sleep 2; asked) | client -tls1_3 >keys
is 'one that changes its own is answered' "$(grep -ac 'HTTP/1.1 200' keys)" 2
before=$(by_kernel)
(printf 'GET /1k HTTP/1.1\r\nHost: localhost\r\n\r\n'; sleep 2; echo K; sleep 2; asked) | client -tls1_3 >keys
is 'keys changed before any large file: answered' "$(grep -ac 'HTTP/1.1 200' keys)" 2
is 'by the server' $(($(by_kernel) - before)) 0

# Where it stays with the server.
before=$(by_kernel)
get --tls-max 1.2 -o old $base/20m
same 'TLS 1.2' old /tmp/files/20m
curl -sS --http2 --cacert /tmp/data/hurtle/authority.pem -o two -w '%{http_version}' $base/20m >version
same 'HTTP/2' two /tmp/files/20m
is 'it was HTTP/2' "$(cat version)" 2
is 'both by the server' $(($(by_kernel) - before)) 0

# Many at once.
before=$(by_kernel)
for n in 1 2 3 4 5 6 7 8; do get -o many$n $base/20m & clients="$clients $!"; done
wait $clients
for n in 1 2 3 4 5 6 7 8; do same "one of eight" many$n /tmp/files/20m; done
is 'each by the kernel' $(($(by_kernel) - before)) 8
cat /proc/net/tls_stat
cat /tmp/log
[ $failures = 0 ] && say 'all is well' || say "$failures failures"
poweroff -f
