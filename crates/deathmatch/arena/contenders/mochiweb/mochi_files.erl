%% Serves a directory with MochiWeb and nothing else: -extra PORT DIRECTORY
-module(mochi_files).
-export([start/0, serve/1]).

start() ->
    [Port, Root] = init:get_plain_arguments(),
    persistent_term:put(?MODULE, Root),
    {ok, Pid} = mochiweb_http:start_link([
        {name, ?MODULE}, {ip, "127.0.0.1"}, {port, list_to_integer(Port)}, {loop, {?MODULE, serve}},
        {max, 65536}, {acceptor_pool_size, 16}, {backlog, 4096}, {nodelay, true}]),
    unlink(Pid),
    ok.

serve(Request) ->
    "/" ++ Path = mochiweb_request:get(path, Request),
    mochiweb_request:serve_file(Path, persistent_term:get(?MODULE), Request).
