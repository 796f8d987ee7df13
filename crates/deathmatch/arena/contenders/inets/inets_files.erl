%% Serves a directory with inets' own httpd and nothing else: -extra PORT DIRECTORY WORK MAX_CLIENTS
-module(inets_files).
-export([start/0]).

start() ->
    [Port, Root, Work, Clients] = init:get_plain_arguments(),
    {ok, _} = application:ensure_all_started(inets),
    {ok, _} = inets:start(httpd, options(list_to_integer(Port), Root, Work, list_to_integer(Clients))),
    ok.

%% max_keep_alive_request must be an integer; socket options make the acceptor crash.
options(Port, Root, Work, Clients) ->
    [{bind_address, {127, 0, 0, 1}}, {port, Port}, {socket_type, ip_comm},
     {server_name, "localhost"}, {server_root, Work}, {document_root, Root},
     {directory_index, ["index.html"]},
     {keep_alive, true}, {keep_alive_timeout, 60}, {max_keep_alive_request, 999999999},
     {max_clients, Clients},
     {mime_types, [{"html", "text/html"}, {"txt", "text/plain"}, {"png", "image/png"},
                   {"css", "text/css"}, {"js", "application/javascript"},
                   {"bin", "application/octet-stream"}]},
     {modules, [mod_alias, mod_dir, mod_get, mod_head]}].
