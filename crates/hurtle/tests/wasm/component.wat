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
    (export "descriptor" (type (sub resource)))
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

    ;; Counts directories or variables: a digit.
    (func $count (param $out i32) (param $count i32)
      (call $answer (local.get $out) (i32.const 200)
        (i32.add (i32.const 512) (local.get $count)) (i32.const 1)))

    (func (export "handle") (param $request i32) (param $out i32)
      (local $letter i32) (local $fields i32) (local $stream i32)
      (call $path (local.get $request) (i32.const 0))
      (local.set $letter (i32.load8_u (i32.add (i32.load (i32.const 4)) (i32.const 1))))

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
      ;; d: the number of directories.
      (if (i32.eq (local.get $letter) (i32.const 100)) (then
        (call $dirs (i32.const 0))
        (call $count (local.get $out) (i32.load (i32.const 4)))
        (return)))
      ;; v: the number of variables.
      (if (i32.eq (local.get $letter) (i32.const 118)) (then
        (call $env (i32.const 0))
        (call $count (local.get $out) (i32.load (i32.const 4)))
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
