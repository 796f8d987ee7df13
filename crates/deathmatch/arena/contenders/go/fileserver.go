// Serves a directory with Go's own net/http and nothing else: fileserver ADDRESS DIRECTORY
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	server := http.Server{
		Addr:        os.Args[1],
		Handler:     http.FileServer(http.Dir(os.Args[2])),
		IdleTimeout: time.Minute,
	}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}
