// Serves a directory with Go's own net/http and nothing else: fileserver ADDRESS DIRECTORY [UPLOADS]
// Where the third is given, a PUT to /up/NAME stores a file there.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

func main() {
	server := http.Server{
		Addr:        os.Args[1],
		Handler:     http.FileServer(http.Dir(os.Args[2])),
		IdleTimeout: time.Minute,
	}
	if len(os.Args) > 3 && os.Args[3] != "" {
		server.Handler = withUploads(server.Handler, os.Args[3])
	}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

func withUploads(files http.Handler, folder string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			files.ServeHTTP(w, r)
			return
		}
		if err := store(filepath.Join(folder, filepath.Base(r.URL.Path)), r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
}

// store writes a file beside its place and renames it there once it is whole.
func store(path string, body io.Reader) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".upload-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err := io.Copy(file, body); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
