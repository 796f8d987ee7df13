;; A component of the world wasi:http/proxy that does what the first letter of the path says. TEXT is
;; the text of its response.
(component
  (import "wasi:io/poll@0.2.0" (instance $poll
    (export "pollable" (type $pollable (sub resource)))
    (export "[method]pollable.block" (func (param "self" (borrow $pollable))))
  ))
  (alias export $poll "pollable" (type $pollable))

  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (alias outer 1 $pollable (type $outer-pollable))
    (export "pollable" (type $pollable (eq $outer-pollable)))
    (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))
  ))

  (import "wasi:io/error@0.2.0" (instance $io-error
    (export "error" (type (sub resource)))
  ))
  (alias export $io-error "error" (type $error))

  (import "wasi:io/streams@0.2.0" (instance $streams
    (alias outer 1 $error (type $outer-error))
    (export "error" (type $error (eq $outer-error)))
    (type $stream-error-cases (variant
      (case "last-operation-failed" (own $error)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $stream-error-cases)))
    (export "input-stream" (type $input-stream (sub resource)))
    (export "output-stream" (type $output-stream (sub resource)))
    (export "[method]input-stream.blocking-read" (func
      (param "self" (borrow $input-stream)) (param "len" u64)
      (result (result (list u8) (error $stream-error)))))
    (export "[method]output-stream.blocking-write-and-flush" (func
      (param "self" (borrow $output-stream)) (param "contents" (list u8))
      (result (result (error $stream-error)))))
  ))
  (alias export $streams "input-stream" (type $input-stream))
  (alias export $streams "output-stream" (type $output-stream))

  (import "wasi:cli/stderr@0.2.0" (instance $stderr
    (alias outer 1 $output-stream (type $outer-stream))
    (export "output-stream" (type $output-stream (eq $outer-stream)))
    (export "get-stderr" (func (result (own $output-stream))))
  ))

  (import "wasi:cli/environment@0.2.0" (instance $environment
    (export "get-environment" (func (result (list (tuple string string)))))
  ))

  (import "wasi:filesystem/types@0.2.0" (instance $files
    (type $error-names (enum
      "access" "would-block" "already" "bad-descriptor" "busy" "deadlock" "quota" "exist"
      "file-too-large" "illegal-byte-sequence" "in-progress" "interrupted" "invalid" "io"
      "is-directory" "loop" "too-many-links" "message-size" "name-too-long" "no-device" "no-entry"
      "no-lock" "insufficient-memory" "insufficient-space" "not-directory" "not-empty"
      "not-recoverable" "unsupported" "no-tty" "no-such-device" "overflow" "not-permitted" "pipe"
      "read-only" "invalid-seek" "text-file-busy" "cross-device"))
    (export "error-code" (type $error-code (eq $error-names)))
    (type $path-flag-names (flags "symlink-follow"))
    (export "path-flags" (type $path-flags (eq $path-flag-names)))
    (type $open-flag-names (flags "create" "directory" "exclusive" "truncate"))
    (export "open-flags" (type $open-flags (eq $open-flag-names)))
    (type $descriptor-flag-names (flags
      "read" "write" "file-integrity-sync" "data-integrity-sync" "requested-write-sync"
      "mutate-directory"))
    (export "descriptor-flags" (type $descriptor-flags (eq $descriptor-flag-names)))
    (export "descriptor" (type $descriptor (sub resource)))
    (export "[method]descriptor.open-at" (func
      (param "self" (borrow $descriptor)) (param "path-flags" $path-flags) (param "path" string)
      (param "open-flags" $open-flags) (param "flags" $descriptor-flags)
      (result (result (own $descriptor) (error $error-code)))))
    (export "[method]descriptor.read" (func
      (param "self" (borrow $descriptor)) (param "length" u64) (param "offset" u64)
      (result (result (tuple (list u8) bool) (error $error-code)))))
    (export "[method]descriptor.write" (func
      (param "self" (borrow $descriptor)) (param "buffer" (list u8)) (param "offset" u64)
      (result (result u64 (error $error-code)))))
    (export "[method]descriptor.unlink-file-at" (func
      (param "self" (borrow $descriptor)) (param "path" string)
      (result (result (error $error-code)))))
    (export "[method]descriptor.symlink-at" (func
      (param "self" (borrow $descriptor)) (param "old-path" string) (param "new-path" string)
      (result (result (error $error-code)))))
    (export "[method]descriptor.rename-at" (func
      (param "self" (borrow $descriptor)) (param "old-path" string)
      (param "new-descriptor" (borrow $descriptor)) (param "new-path" string)
      (result (result (error $error-code)))))
    (export "[method]descriptor.link-at" (func
      (param "self" (borrow $descriptor)) (param "old-path-flags" $path-flags)
      (param "old-path" string) (param "new-descriptor" (borrow $descriptor))
      (param "new-path" string) (result (result (error $error-code)))))
  ))
  (alias export $files "descriptor" (type $descriptor))

  (import "wasi:filesystem/preopens@0.2.0" (instance $preopens
    (alias outer 1 $descriptor (type $outer-descriptor))
    (export "descriptor" (type $descriptor (eq $outer-descriptor)))
    (export "get-directories" (func (result (list (tuple (own $descriptor) string)))))
  ))

  (import "wasi:http/types@0.2.0" (instance $http
    (alias outer 1 $input-stream (type $outer-input))
    (export "input-stream" (type $input-stream (eq $outer-input)))
    (alias outer 1 $output-stream (type $outer-output))
    (export "output-stream" (type $output-stream (eq $outer-output)))
    (alias outer 1 $pollable (type $outer-pollable))
    (export "pollable" (type $pollable (eq $outer-pollable)))
    (type $scheme-cases (variant (case "HTTP") (case "HTTPS") (case "other" string)))
    (export "scheme" (type $scheme (eq $scheme-cases)))
    (type $header-error-cases (variant
      (case "invalid-syntax") (case "forbidden") (case "immutable")))
    (export "header-error" (type $header-error (eq $header-error-cases)))
    (type $dns-fields (record (field "rcode" (option string)) (field "info-code" (option u16))))
    (export "DNS-error-payload" (type $dns (eq $dns-fields)))
    (type $tls-fields (record
      (field "alert-id" (option u8)) (field "alert-message" (option string))))
    (export "TLS-alert-received-payload" (type $tls (eq $tls-fields)))
    (type $size-fields (record
      (field "field-name" (option string)) (field "field-size" (option u32))))
    (export "field-size-payload" (type $size (eq $size-fields)))
    (type $error-code-cases (variant
      (case "DNS-timeout")
      (case "DNS-error" $dns)
      (case "destination-not-found")
      (case "destination-unavailable")
      (case "destination-IP-prohibited")
      (case "destination-IP-unroutable")
      (case "connection-refused")
      (case "connection-terminated")
      (case "connection-timeout")
      (case "connection-read-timeout")
      (case "connection-write-timeout")
      (case "connection-limit-reached")
      (case "TLS-protocol-error")
      (case "TLS-certificate-error")
      (case "TLS-alert-received" $tls)
      (case "HTTP-request-denied")
      (case "HTTP-request-length-required")
      (case "HTTP-request-body-size" (option u64))
      (case "HTTP-request-method-invalid")
      (case "HTTP-request-URI-invalid")
      (case "HTTP-request-URI-too-long")
      (case "HTTP-request-header-section-size" (option u32))
      (case "HTTP-request-header-size" (option $size))
      (case "HTTP-request-trailer-section-size" (option u32))
      (case "HTTP-request-trailer-size" $size)
      (case "HTTP-response-incomplete")
      (case "HTTP-response-header-section-size" (option u32))
      (case "HTTP-response-header-size" $size)
      (case "HTTP-response-body-size" (option u64))
      (case "HTTP-response-trailer-section-size" (option u32))
      (case "HTTP-response-trailer-size" $size)
      (case "HTTP-response-transfer-coding" (option string))
      (case "HTTP-response-content-coding" (option string))
      (case "HTTP-response-timeout")
      (case "HTTP-upgrade-failed")
      (case "HTTP-protocol-error")
      (case "loop-detected")
      (case "configuration-error")
      (case "internal-error" (option string))))
    (export "error-code" (type $error-code (eq $error-code-cases)))
    (export "fields" (type $fields (sub resource)))
    (export "incoming-request" (type $incoming-request (sub resource)))
    (export "incoming-body" (type $incoming-body (sub resource)))
    (export "outgoing-response" (type $outgoing-response (sub resource)))
    (export "outgoing-body" (type $outgoing-body (sub resource)))
    (export "response-outparam" (type $response-outparam (sub resource)))
    (export "outgoing-request" (type $outgoing-request (sub resource)))
    (export "request-options" (type $request-options (sub resource)))
    (export "incoming-response" (type $incoming-response (sub resource)))
    (export "future-incoming-response" (type $future-response (sub resource)))
    (export "[constructor]outgoing-request" (func
      (param "headers" (own $fields)) (result (own $outgoing-request))))
    (export "[method]outgoing-request.set-scheme" (func
      (param "self" (borrow $outgoing-request)) (param "scheme" (option $scheme)) (result (result))))
    (export "[method]outgoing-request.set-authority" (func
      (param "self" (borrow $outgoing-request)) (param "authority" (option string))
      (result (result))))
    (export "[method]outgoing-request.set-path-with-query" (func
      (param "self" (borrow $outgoing-request)) (param "path-with-query" (option string))
      (result (result))))
    (export "[method]future-incoming-response.subscribe" (func
      (param "self" (borrow $future-response)) (result (own $pollable))))
    (export "[method]future-incoming-response.get" (func
      (param "self" (borrow $future-response))
      (result (option (result (result (own $incoming-response) (error $error-code)))))))
    (export "[method]incoming-response.status" (func
      (param "self" (borrow $incoming-response)) (result u16)))
    (export "[method]incoming-response.consume" (func
      (param "self" (borrow $incoming-response)) (result (result (own $incoming-body)))))
    (export "[constructor]fields" (func (result (own $fields))))
    (export "[method]fields.append" (func
      (param "self" (borrow $fields)) (param "name" string) (param "value" (list u8))
      (result (result (error $header-error)))))
    (export "[method]incoming-request.path-with-query" (func
      (param "self" (borrow $incoming-request)) (result (option string))))
    (export "[method]incoming-request.authority" (func
      (param "self" (borrow $incoming-request)) (result (option string))))
    (export "[method]incoming-request.consume" (func
      (param "self" (borrow $incoming-request)) (result (result (own $incoming-body)))))
    (export "[method]incoming-body.stream" (func
      (param "self" (borrow $incoming-body)) (result (result (own $input-stream)))))
    (export "[constructor]outgoing-response" (func
      (param "headers" (own $fields)) (result (own $outgoing-response))))
    (export "[method]outgoing-response.set-status-code" (func
      (param "self" (borrow $outgoing-response)) (param "status-code" u16) (result (result))))
    (export "[method]outgoing-response.body" (func
      (param "self" (borrow $outgoing-response)) (result (result (own $outgoing-body)))))
    (export "[method]outgoing-body.write" (func
      (param "self" (borrow $outgoing-body)) (result (result (own $output-stream)))))
    (export "[static]outgoing-body.finish" (func
      (param "this" (own $outgoing-body)) (param "trailers" (option (own $fields)))
      (result (result (error $error-code)))))
    (export "[static]response-outparam.set" (func
      (param "param" (own $response-outparam))
      (param "response" (result (own $outgoing-response) (error $error-code)))))
  ))
  (alias export $http "incoming-request" (type $incoming-request))
  (alias export $http "response-outparam" (type $response-outparam))
  (alias export $http "outgoing-request" (type $outgoing-request))
  (alias export $http "request-options" (type $request-options))
  (alias export $http "future-incoming-response" (type $future-response))
  (alias export $http "error-code" (type $http-error))

  (import "wasi:http/outgoing-handler@0.2.0" (instance $outgoing
    (alias outer 1 $outgoing-request (type $outer-request))
    (export "outgoing-request" (type $outgoing-request (eq $outer-request)))
    (alias outer 1 $request-options (type $outer-options))
    (export "request-options" (type $request-options (eq $outer-options)))
    (alias outer 1 $future-response (type $outer-future))
    (export "future-incoming-response" (type $future-response (eq $outer-future)))
    (alias outer 1 $http-error (type $outer-error))
    (export "error-code" (type $error-code (eq $outer-error)))
    (export "handle" (func
      (param "request" (own $outgoing-request)) (param "options" (option (own $request-options)))
      (result (result (own $future-response) (error $error-code)))))
  ))

  ;; The memory, shared by the adapters of the imports and by the program. Addresses: 0 results,
  ;; 256 constants, 4096 the block of zeros that is sent, 128 KiB what imports return.
  (core module $heap
    (memory (export "memory") 4)
    (global $next (mut i32) (i32.const 131072))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
      ;; The block before is used up when the memory is full.
      (if (i32.gt_u (i32.add (local.get $at) (local.get 3)) (i32.const 262144))
        (then (local.set $at (i32.const 131072))))
      (global.set $next (i32.add (local.get $at) (local.get 3)))
      (local.get $at))
  )
  (core instance $heap (instantiate $heap))
  (alias core export $heap "memory" (core memory $memory))
  (alias core export $heap "realloc" (core func $realloc))

  (core func $block (canon lower (func $poll "[method]pollable.block")))
  (core func $subscribe (canon lower (func $clock "subscribe-duration")))
  (core func $read (canon lower (func $streams "[method]input-stream.blocking-read")
    (memory $memory) (realloc $realloc)))
  (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush")
    (memory $memory)))
  (core func $drop-stream (canon resource.drop $output-stream))
  (core func $stderr (canon lower (func $stderr "get-stderr")))
  (core func $env (canon lower (func $environment "get-environment")
    (memory $memory) (realloc $realloc)))
  (core func $dirs (canon lower (func $preopens "get-directories")
    (memory $memory) (realloc $realloc)))
  (core func $open-at (canon lower (func $files "[method]descriptor.open-at") (memory $memory)))
  (core func $read-file (canon lower (func $files "[method]descriptor.read")
    (memory $memory) (realloc $realloc)))
  (core func $write-file (canon lower (func $files "[method]descriptor.write") (memory $memory)))
  (core func $unlink-at (canon lower (func $files "[method]descriptor.unlink-file-at")
    (memory $memory)))
  (core func $symlink-at (canon lower (func $files "[method]descriptor.symlink-at")
    (memory $memory)))
  (core func $rename-at (canon lower (func $files "[method]descriptor.rename-at")
    (memory $memory)))
  (core func $link-at (canon lower (func $files "[method]descriptor.link-at") (memory $memory)))
  (core func $new-request (canon lower (func $http "[constructor]outgoing-request")))
  (core func $set-scheme (canon lower (func $http "[method]outgoing-request.set-scheme")
    (memory $memory)))
  (core func $set-authority (canon lower (func $http "[method]outgoing-request.set-authority")
    (memory $memory)))
  (core func $set-path (canon lower (func $http "[method]outgoing-request.set-path-with-query")
    (memory $memory)))
  (core func $send (canon lower (func $outgoing "handle") (memory $memory) (realloc $realloc)))
  (core func $await (canon lower (func $http "[method]future-incoming-response.subscribe")))
  (core func $reply (canon lower (func $http "[method]future-incoming-response.get")
    (memory $memory) (realloc $realloc)))
  (core func $reply-status (canon lower (func $http "[method]incoming-response.status")))
  (core func $reply-body (canon lower (func $http "[method]incoming-response.consume")
    (memory $memory)))
  (core func $fields (canon lower (func $http "[constructor]fields")))
  (core func $append (canon lower (func $http "[method]fields.append") (memory $memory)))
  (core func $path (canon lower (func $http "[method]incoming-request.path-with-query")
    (memory $memory) (realloc $realloc)))
  (core func $authority (canon lower (func $http "[method]incoming-request.authority")
    (memory $memory) (realloc $realloc)))
  (core func $consume (canon lower (func $http "[method]incoming-request.consume")
    (memory $memory)))
  (core func $stream (canon lower (func $http "[method]incoming-body.stream") (memory $memory)))
  (core func $response (canon lower (func $http "[constructor]outgoing-response")))
  (core func $status (canon lower (func $http "[method]outgoing-response.set-status-code")))
  (core func $body (canon lower (func $http "[method]outgoing-response.body") (memory $memory)))
  (core func $open (canon lower (func $http "[method]outgoing-body.write") (memory $memory)))
  (core func $finish (canon lower (func $http "[static]outgoing-body.finish")
    (memory $memory) (realloc $realloc)))
  (core func $set (canon lower (func $http "[static]response-outparam.set") (memory $memory)))

  (core module $program
    (import "heap" "memory" (memory 4))
    (import "wasi" "block" (func $block (param i32)))
    (import "wasi" "subscribe" (func $subscribe (param i64) (result i32)))
    (import "wasi" "read" (func $read (param i32 i64 i32)))
    (import "wasi" "write" (func $write (param i32 i32 i32 i32)))
    (import "wasi" "drop-stream" (func $drop-stream (param i32)))
    (import "wasi" "stderr" (func $stderr (result i32)))
    (import "wasi" "env" (func $env (param i32)))
    (import "wasi" "dirs" (func $dirs (param i32)))
    (import "wasi" "open-at" (func $open-at (param i32 i32 i32 i32 i32 i32 i32)))
    (import "wasi" "read-file" (func $read-file (param i32 i64 i64 i32)))
    (import "wasi" "write-file" (func $write-file (param i32 i32 i32 i64 i32)))
    (import "wasi" "unlink-at" (func $unlink-at (param i32 i32 i32 i32)))
    (import "wasi" "symlink-at" (func $symlink-at (param i32 i32 i32 i32 i32 i32)))
    (import "wasi" "rename-at" (func $rename-at (param i32 i32 i32 i32 i32 i32 i32)))
    (import "wasi" "link-at" (func $link-at (param i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "wasi" "new-request" (func $new-request (param i32) (result i32)))
    (import "wasi" "set-scheme" (func $set-scheme (param i32 i32 i32 i32 i32) (result i32)))
    (import "wasi" "set-authority" (func $set-authority (param i32 i32 i32 i32) (result i32)))
    (import "wasi" "set-path" (func $set-path (param i32 i32 i32 i32) (result i32)))
    (import "wasi" "send" (func $send (param i32 i32 i32 i32)))
    (import "wasi" "await" (func $await (param i32) (result i32)))
    (import "wasi" "reply" (func $reply (param i32 i32)))
    (import "wasi" "reply-status" (func $reply-status (param i32) (result i32)))
    (import "wasi" "reply-body" (func $reply-body (param i32 i32)))
    (import "wasi" "fields" (func $fields (result i32)))
    (import "wasi" "append" (func $append (param i32 i32 i32 i32 i32 i32)))
    (import "wasi" "path" (func $path (param i32 i32)))
    (import "wasi" "authority" (func $authority (param i32 i32)))
    (import "wasi" "consume" (func $consume (param i32 i32)))
    (import "wasi" "stream" (func $stream (param i32 i32)))
    (import "wasi" "response" (func $response (param i32) (result i32)))
    (import "wasi" "status" (func $status (param i32 i32) (result i32)))
    (import "wasi" "body" (func $body (param i32 i32)))
    (import "wasi" "open" (func $open (param i32 i32)))
    (import "wasi" "finish" (func $finish (param i32 i32 i32 i32)))
    (import "wasi" "set" (func $set (param i32 i32 i32 i32 i64 i32 i32 i32 i32)))

    (data (i32.const 256) "TEXT\n")
    (data (i32.const 400) "x-accel-redirect")
    (data (i32.const 432) "/secret.txt")
    (data (i32.const 464) "content-length")
    (data (i32.const 496) "100000")
    (data (i32.const 512) "0123456789")
    (data (i32.const 528) "error 00")
    (data (i32.const 544) "made=\n")

    ;; Gives a response with these fields and this status; returns its body.
    (func $begin (param $out i32) (param $fields i32) (param $status i32) (result i32)
      (local $response i32)
      (local.set $response (call $response (local.get $fields)))
      (drop (call $status (local.get $response) (local.get $status)))
      (call $body (local.get $response) (i32.const 0))
      (call $set (local.get $out) (i32.const 0) (local.get $response)
        (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
      (i32.load (i32.const 4)))

    ;; The stream of a body.
    (func $open-stream (param $body i32) (result i32)
      (call $open (local.get $body) (i32.const 0))
      (i32.load (i32.const 4)))

    ;; Writes to a stream; a failure is a trap. The host accepts 4096 bytes at once.
    (func $put (param $stream i32) (param $at i32) (param $len i32)
      (call $write (local.get $stream) (local.get $at) (local.get $len) (i32.const 0))
      (if (i32.load8_u (i32.const 0)) (then (unreachable))))

    (func $end (param $body i32) (param $stream i32)
      (call $drop-stream (local.get $stream))
      (call $finish (local.get $body) (i32.const 0) (i32.const 0) (i32.const 0)))

    ;; A whole response with this text.
    (func $answer (param $out i32) (param $status i32) (param $at i32) (param $len i32)
      (local $body i32) (local $stream i32)
      (local.set $body (call $begin (local.get $out) (call $fields) (local.get $status)))
      (local.set $stream (call $open-stream (local.get $body)))
      (call $put (local.get $stream) (local.get $at) (local.get $len))
      (call $end (local.get $body) (local.get $stream)))

    (func $sleep (param $ns i64)
      (call $block (call $subscribe (local.get $ns))))

    ;; Sends the request's body back.
    (func $echo (param $request i32) (param $out i32)
      (local $input i32) (local $body i32) (local $stream i32)
      (call $consume (local.get $request) (i32.const 0))
      (call $stream (i32.load (i32.const 4)) (i32.const 0))
      (local.set $input (i32.load (i32.const 4)))
      (local.set $body (call $begin (local.get $out) (call $fields) (i32.const 200)))
      (local.set $stream (call $open-stream (local.get $body)))
      (block $ended
        (loop $more
          (call $read (local.get $input) (i64.const 4096) (i32.const 16))
          (br_if $ended (i32.load8_u (i32.const 16)))
          (call $put (local.get $stream) (i32.load (i32.const 20)) (i32.load (i32.const 24)))
          (br $more)))
      (call $end (local.get $body) (local.get $stream)))

    ;; The number of directories: a digit.
    (func $count (param $out i32) (param $count i32)
      (call $answer (local.get $out) (i32.const 200)
        (i32.add (i32.const 512) (local.get $count)) (i32.const 1)))

    ;; All variables, a line each.
    (func $variables (param $out i32)
      (local $body i32) (local $stream i32) (local $at i32) (local $left i32)
      (call $env (i32.const 0))
      (local.set $at (i32.load (i32.const 0)))
      (local.set $left (i32.load (i32.const 4)))
      (local.set $body (call $begin (local.get $out) (call $fields) (i32.const 200)))
      (local.set $stream (call $open-stream (local.get $body)))
      (block $ended
        (loop $more
          (br_if $ended (i32.eqz (local.get $left)))
          (call $put (local.get $stream)
            (i32.load (local.get $at)) (i32.load offset=4 (local.get $at)))
          (call $put (local.get $stream) (i32.const 548) (i32.const 1))
          (call $put (local.get $stream)
            (i32.load offset=8 (local.get $at)) (i32.load offset=12 (local.get $at)))
          (call $put (local.get $stream) (i32.const 549) (i32.const 1))
          (local.set $at (i32.add (local.get $at) (i32.const 16)))
          (local.set $left (i32.sub (local.get $left) (i32.const 1)))
          (br $more)))
      (call $end (local.get $body) (local.get $stream)))

    ;; The number of an error, as two digits.
    (func $fail (param $out i32) (param $code i32)
      (i32.store8 (i32.const 534)
        (i32.add (i32.const 48) (i32.div_u (local.get $code) (i32.const 10))))
      (i32.store8 (i32.const 535)
        (i32.add (i32.const 48) (i32.rem_u (local.get $code) (i32.const 10))))
      (call $answer (local.get $out) (i32.const 200) (i32.const 528) (i32.const 8)))

    ;; The result at 16 of an operation without a value: TEXT, or the number of the error.
    (func $done (param $out i32)
      (if (i32.load8_u (i32.const 16)) (then
        (call $fail (local.get $out) (i32.load8_u (i32.const 17)))
        (return)))
      (call $answer (local.get $out) (i32.const 200) (i32.const 256) (i32.const TEXT_LEN)))

    ;; The granted directory with this number.
    (func $dir (param $number i32) (result i32)
      (call $dirs (i32.const 0))
      (if (i32.ge_u (local.get $number) (i32.load (i32.const 4))) (then (unreachable)))
      (i32.load (i32.add
        (i32.load (i32.const 0)) (i32.mul (local.get $number) (i32.const 12)))))

    ;; Sends the first 4096 bytes of a file.
    (func $read-at (param $out i32) (param $dir i32) (param $at i32) (param $len i32)
      (call $open-at (local.get $dir) (i32.const 1) (local.get $at) (local.get $len)
        (i32.const 0) (i32.const 1) (i32.const 16))
      (if (i32.load8_u (i32.const 16)) (then
        (call $fail (local.get $out) (i32.load8_u (i32.const 20)))
        (return)))
      (call $read-file (i32.load (i32.const 20)) (i64.const 4096) (i64.const 0) (i32.const 16))
      (if (i32.load8_u (i32.const 16)) (then
        (call $fail (local.get $out) (i32.load8_u (i32.const 20)))
        (return)))
      (call $answer (local.get $out) (i32.const 200)
        (i32.load (i32.const 20)) (i32.load (i32.const 24))))

    ;; Creates or replaces a file with TEXT.
    (func $write-at (param $out i32) (param $dir i32) (param $at i32) (param $len i32)
      (call $open-at (local.get $dir) (i32.const 1) (local.get $at) (local.get $len)
        (i32.const 9) (i32.const 2) (i32.const 16))
      (if (i32.load8_u (i32.const 16)) (then
        (call $fail (local.get $out) (i32.load8_u (i32.const 20)))
        (return)))
      (call $write-file (i32.load (i32.const 20)) (i32.const 256) (i32.const TEXT_LEN)
        (i64.const 0) (i32.const 16))
      (if (i32.load8_u (i32.const 16)) (then
        (call $fail (local.get $out) (i32.load8_u (i32.const 24)))
        (return)))
      (call $answer (local.get $out) (i32.const 200) (i32.const 256) (i32.const TEXT_LEN)))

    ;; Sends a request to a target, `h` or `s` for the scheme, authority and path; gives the status
    ;; and the first bytes of the response, or the number of the error.
    (func $ask (param $out i32) (param $at i32) (param $len i32)
      (local $path i32) (local $request i32) (local $future i32) (local $response i32)
      (local $status i32)
      (local.set $path (local.get $at))
      (loop $next
        (local.set $path (i32.add (local.get $path) (i32.const 1)))
        (br_if $next (i32.ne (i32.load8_u (local.get $path)) (i32.const 47))))
      (local.set $request (call $new-request (call $fields)))
      (drop (call $set-scheme (local.get $request) (i32.const 1)
        (i32.eq (i32.load8_u (local.get $at)) (i32.const 115)) (i32.const 0) (i32.const 0)))
      (drop (call $set-authority (local.get $request) (i32.const 1)
        (i32.add (local.get $at) (i32.const 1))
        (i32.sub (i32.sub (local.get $path) (local.get $at)) (i32.const 1))))
      (drop (call $set-path (local.get $request) (i32.const 1) (local.get $path)
        (i32.sub (i32.add (local.get $at) (local.get $len)) (local.get $path))))
      (call $send (local.get $request) (i32.const 0) (i32.const 0) (i32.const 32))
      (if (i32.load8_u (i32.const 32)) (then
        (call $fail (local.get $out) (i32.load8_u (i32.const 40)))
        (return)))
      (local.set $future (i32.load (i32.const 40)))
      (call $block (call $await (local.get $future)))
      (call $reply (local.get $future) (i32.const 32))
      (if (i32.load8_u (i32.const 48)) (then
        (call $fail (local.get $out) (i32.load8_u (i32.const 56)))
        (return)))
      (local.set $response (i32.load (i32.const 56)))
      (local.set $status (call $reply-status (local.get $response)))
      (call $reply-body (local.get $response) (i32.const 0))
      (call $stream (i32.load (i32.const 4)) (i32.const 0))
      (i32.store (i32.const 24) (i32.const 0))
      (call $read (i32.load (i32.const 4)) (i64.const 4096) (i32.const 16))
      ;; A body without bytes has ended.
      (if (i32.load8_u (i32.const 16)) (then (i32.store (i32.const 24) (i32.const 0))))
      (call $answer (local.get $out) (local.get $status)
        (i32.load (i32.const 20)) (i32.load (i32.const 24))))

    ;; An operation in a granted directory: its letter, `?`, the number of the directory, a name.
    (func $operate
      (param $letter i32) (param $out i32) (param $dir i32) (param $at i32) (param $len i32)
      (if (i32.eq (local.get $letter) (i32.const 114)) (then
        (call $read-at (local.get $out) (local.get $dir) (local.get $at) (local.get $len))
        (return)))
      (if (i32.eq (local.get $letter) (i32.const 117)) (then
        (call $write-at (local.get $out) (local.get $dir) (local.get $at) (local.get $len))
        (return)))
      (if (i32.eq (local.get $letter) (i32.const 107)) (then
        (call $unlink-at (local.get $dir) (local.get $at) (local.get $len) (i32.const 16))))
      (if (i32.eq (local.get $letter) (i32.const 121)) (then
        (call $symlink-at (local.get $dir) (local.get $at) (local.get $len)
          (i32.const 544) (i32.const 4) (i32.const 16))))
      (if (i32.eq (local.get $letter) (i32.const 122)) (then
        (call $rename-at (local.get $dir) (local.get $at) (local.get $len)
          (local.get $dir) (i32.const 544) (i32.const 4) (i32.const 16))))
      (if (i32.eq (local.get $letter) (i32.const 106)) (then
        (call $link-at (local.get $dir) (i32.const 0) (local.get $at) (local.get $len)
          (local.get $dir) (i32.const 544) (i32.const 4) (i32.const 16))))
      (call $done (local.get $out)))

    (func (export "handle") (param $request i32) (param $out i32)
      (local $letter i32) (local $fields i32) (local $stream i32) (local $at i32) (local $len i32)
      (call $path (local.get $request) (i32.const 0))
      (local.set $at (i32.load (i32.const 4)))
      (local.set $len (i32.load (i32.const 8)))
      (local.set $letter (i32.load8_u offset=1 (local.get $at)))

      ;; path: sends the path and the query.
      (if (i32.eq (local.get $letter) (i32.const 112)) (then
        (call $answer (local.get $out) (i32.const 200)
          (i32.load (i32.const 4)) (i32.load (i32.const 8)))
        (return)))
      ;; authority
      (if (i32.eq (local.get $letter) (i32.const 97)) (then
        (call $authority (local.get $request) (i32.const 0))
        (call $answer (local.get $out) (i32.const 200)
          (i32.load (i32.const 4)) (i32.load (i32.const 8)))
        (return)))
      ;; body
      (if (i32.eq (local.get $letter) (i32.const 98)) (then
        (call $echo (local.get $request) (local.get $out))
        (return)))
      ;; loop
      (if (i32.eq (local.get $letter) (i32.const 108)) (then
        (loop $forever (br $forever))))
      ;; trap
      (if (i32.eq (local.get $letter) (i32.const 116)) (then
        (unreachable)))
      ;; memory: grows until it is refused.
      (if (i32.eq (local.get $letter) (i32.const 109)) (then
        (loop $more
          (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
        (unreachable)))
      ;; never
      (if (i32.eq (local.get $letter) (i32.const 110)) (then
        (call $sleep (i64.const 3600000000000))))
      ;; garbage: ends without a response.
      (if (i32.eq (local.get $letter) (i32.const 103)) (then
        (return)))
      ;; error: gives an error, connection-refused, in place of a response.
      (if (i32.eq (local.get $letter) (i32.const 101)) (then
        (call $set (local.get $out) (i32.const 1) (i32.const 6)
          (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
        (return)))
      ;; interim: a response with status 103.
      (if (i32.eq (local.get $letter) (i32.const 105)) (then
        (call $answer (local.get $out) (i32.const 103) (i32.const 256) (i32.const 1))
        (return)))
      ;; flood: a body without end.
      (if (i32.eq (local.get $letter) (i32.const 102)) (then
        (local.set $stream (call $open-stream
          (call $begin (local.get $out) (call $fields) (i32.const 200))))
        (loop $forever
          (call $put (local.get $stream) (i32.const 4096) (i32.const 4096))
          (br $forever))))
      ;; cut: announces more than it sends, then traps.
      (if (i32.eq (local.get $letter) (i32.const 99)) (then
        (local.set $fields (call $fields))
        (call $append (local.get $fields) (i32.const 464) (i32.const 14)
          (i32.const 496) (i32.const 6) (i32.const 0))
        (local.set $stream (call $open-stream
          (call $begin (local.get $out) (local.get $fields) (i32.const 200))))
        (call $put (local.get $stream) (i32.const 4096) (i32.const 4096))
        (call $sleep (i64.const 10000000))
        (unreachable)))
      ;; stall: sends a part, then nothing.
      (if (i32.eq (local.get $letter) (i32.const 115)) (then
        (local.set $stream (call $open-stream
          (call $begin (local.get $out) (call $fields) (i32.const 200))))
        (call $put (local.get $stream) (i32.const 4096) (i32.const 4096))
        (call $sleep (i64.const 3600000000000))))
      ;; x: names a file.
      (if (i32.eq (local.get $letter) (i32.const 120)) (then
        (local.set $fields (call $fields))
        (call $append (local.get $fields) (i32.const 400) (i32.const 16)
          (i32.const 432) (i32.const 11) (i32.const 0))
        (drop (call $begin (local.get $out) (local.get $fields) (i32.const 200)))
        (return)))
      ;; w: writes 128 KiB and a line to standard error.
      (if (i32.eq (local.get $letter) (i32.const 119)) (then
        (local.set $stream (call $stderr))
        (call $put (local.get $stream) (i32.const 256) (i32.const TEXT_LEN))
        (local.set $fields (i32.const 32))
        (loop $more
          (call $put (local.get $stream) (i32.const 8192) (i32.const 4096))
          (local.set $fields (i32.sub (local.get $fields) (i32.const 1)))
          (br_if $more (local.get $fields)))))
      ;; q: a body of the announced length; after it a line to standard error. qx: names a file.
      ;; qe: has status 500.
      (if (i32.eq (local.get $letter) (i32.const 113)) (then
        (local.set $letter (i32.load8_u offset=2 (local.get $at)))
        (local.set $fields (call $fields))
        (call $append (local.get $fields) (i32.const 464) (i32.const 14)
          (i32.const 496) (i32.const 6) (i32.const 0))
        (if (i32.eq (local.get $letter) (i32.const 120)) (then
          (call $append (local.get $fields) (i32.const 400) (i32.const 16)
            (i32.const 432) (i32.const 11) (i32.const 0))))
        (local.set $len (call $begin (local.get $out) (local.get $fields)
          (select (i32.const 500) (i32.const 200) (i32.eq (local.get $letter) (i32.const 101)))))
        (local.set $stream (call $open-stream (local.get $len)))
        (local.set $fields (i32.const 40))
        (loop $more
          (call $put (local.get $stream) (i32.const 4096) (i32.const 2500))
          (local.set $fields (i32.sub (local.get $fields) (i32.const 1)))
          (br_if $more (local.get $fields)))
        (call $end (local.get $len) (local.get $stream))
        (call $sleep (i64.const 10000000))
        (call $put (call $stderr) (i32.const 256) (i32.const TEXT_LEN))
        (return)))
      ;; d: the number of directories.
      (if (i32.eq (local.get $letter) (i32.const 100)) (then
        (call $dirs (i32.const 0))
        (call $count (local.get $out) (i32.load (i32.const 4)))
        (return)))
      ;; v: the variables.
      (if (i32.eq (local.get $letter) (i32.const 118)) (then
        (call $variables (local.get $out))
        (return)))
      ;; o?TARGET: an outbound request.
      (if (i32.eq (local.get $letter) (i32.const 111)) (then
        (call $ask (local.get $out) (i32.add (local.get $at) (i32.const 3))
          (i32.sub (local.get $len) (i32.const 3)))
        (return)))
      ;; r?0NAME reads, u?0NAME writes, k?0NAME removes a file; y?0NAME makes a link with this target,
      ;; z?0NAME renames a file, j?0NAME makes another name for it.
      (if (i32.eq (i32.load8_u offset=2 (local.get $at)) (i32.const 63)) (then
        (call $operate (local.get $letter) (local.get $out)
          (call $dir (i32.sub (i32.load8_u offset=3 (local.get $at)) (i32.const 48)))
          (i32.add (local.get $at) (i32.const 4)) (i32.sub (local.get $len) (i32.const 4)))
        (return)))
      (call $answer (local.get $out) (i32.const 200) (i32.const 256) (i32.const TEXT_LEN)))
  )
  (core instance $program (instantiate $program
    (with "heap" (instance $heap))
    (with "wasi" (instance
      (export "block" (func $block))
      (export "subscribe" (func $subscribe))
      (export "read" (func $read))
      (export "write" (func $write))
      (export "drop-stream" (func $drop-stream))
      (export "stderr" (func $stderr))
      (export "env" (func $env))
      (export "dirs" (func $dirs))
      (export "open-at" (func $open-at))
      (export "read-file" (func $read-file))
      (export "write-file" (func $write-file))
      (export "unlink-at" (func $unlink-at))
      (export "symlink-at" (func $symlink-at))
      (export "rename-at" (func $rename-at))
      (export "link-at" (func $link-at))
      (export "new-request" (func $new-request))
      (export "set-scheme" (func $set-scheme))
      (export "set-authority" (func $set-authority))
      (export "set-path" (func $set-path))
      (export "send" (func $send))
      (export "await" (func $await))
      (export "reply" (func $reply))
      (export "reply-status" (func $reply-status))
      (export "reply-body" (func $reply-body))
      (export "fields" (func $fields))
      (export "append" (func $append))
      (export "path" (func $path))
      (export "authority" (func $authority))
      (export "consume" (func $consume))
      (export "stream" (func $stream))
      (export "response" (func $response))
      (export "status" (func $status))
      (export "body" (func $body))
      (export "open" (func $open))
      (export "finish" (func $finish))
      (export "set" (func $set))
    ))
  ))

  (func $handle
    (param "request" (own $incoming-request)) (param "response-out" (own $response-outparam))
    (canon lift (core func $program "handle")))
  (component $exported
    (import "request" (type $incoming-request (sub resource)))
    (import "response" (type $response-outparam (sub resource)))
    (import "handle" (func $handle
      (param "request" (own $incoming-request)) (param "response-out" (own $response-outparam))))
    (export $request "incoming-request" (type $incoming-request))
    (export $response "response-outparam" (type $response-outparam))
    (export "handle" (func $handle) (func
      (param "request" (own $request)) (param "response-out" (own $response))))
  )
  (instance $exported (instantiate $exported
    (with "request" (type $incoming-request))
    (with "response" (type $response-outparam))
    (with "handle" (func $handle))
  ))
  (export "wasi:http/incoming-handler@0.2.0" (instance $exported))
)
