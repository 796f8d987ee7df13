// A client of quic-go: see real.rs.
package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/quic-go/quic-go/http3"
)

func main() {
	config := &tls.Config{InsecureSkipVerify: true, ServerName: "test.example"}
	client := http.Client{Transport: &http3.Transport{TLSClientConfig: config}}
	send := func(method, path string, body []byte) (int, int) {
		url := "https://127.0.0.1:" + os.Args[1] + path
		request, err := http.NewRequest(method, url, bytes.NewReader(body))
		if err != nil {
			panic(err)
		}
		request.Host = "test.example"
		response, err := client.Do(request)
		if err != nil {
			panic(err)
		}
		content, err := io.ReadAll(response.Body)
		if err != nil {
			panic(err)
		}
		return response.StatusCode, len(content)
	}
	var group sync.WaitGroup
	statuses, sizes := make([]int, 20), make([]int, 20)
	for n := range statuses {
		group.Add(1)
		go func() {
			defer group.Done()
			statuses[n], sizes[n] = send("GET", "/a.txt", nil)
		}()
	}
	group.Wait()
	for n := range statuses {
		if statuses[n] != statuses[0] || sizes[n] != sizes[0] {
			panic("the responses differ")
		}
	}
	fmt.Println(len(statuses), "times /a.txt", statuses[0], sizes[0])
	status, size := send("GET", "/large.bin", nil)
	fmt.Println("/large.bin", status, size)
	status, _ = send("GET", "/none", nil)
	fmt.Println("/none", status)
	status, _ = send("PUT", "/new.bin", bytes.Repeat([]byte("x"), 300_000))
	fmt.Println("PUT", status)
}
