package classic_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// recorder stands between clients and a Redis and writes down every command
// that passes, whoever sends it and whatever its library makes of it.
type recorder struct {
	socket        string
	network, addr string // of the Redis

	mu       sync.Mutex
	commands []string // guarded by mu
}

// record starts a recorder in front of the Redis at addr.
func record(t *testing.T, network, addr string) *recorder {
	t.Helper()
	dir, err := os.MkdirTemp("", "rec") // t.TempDir can be too long for a socket
	noError(t, err)
	r := &recorder{socket: filepath.Join(dir, "s"), network: network, addr: addr}
	l, err := net.Listen("unix", r.socket)
	noError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() { r.serve(l, &wg) })
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
		_ = os.RemoveAll(dir)
	})
	return r
}

// client returns a client that is heard. It is closed before the recorder.
func (r *recorder) client(t *testing.T) *redis.Client {
	return patient(t, "unix", r.socket)
}

// take returns what was sent since the last call, without the handshakes of
// connections.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.commands
	r.commands = nil
	return list
}

func (r *recorder) serve(l net.Listener, wg *sync.WaitGroup) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(r.network, r.addr)
		if err != nil {
			_ = client.Close()
			return
		}
		wg.Go(func() { _, _ = io.Copy(client, server) })
		wg.Go(func() {
			_ = r.forward(client, server)
			_ = client.Close()
			_ = server.Close()
		})
	}
}

// forward notes a command before it sends it on: who has the reply finds the
// command noted.
func (r *recorder) forward(client io.Reader, server io.Writer) error {
	in := bufio.NewReader(client)
	for {
		args, raw, err := readCommand(in)
		if err != nil {
			return err
		}
		args[0] = strings.ToUpper(args[0])
		if args[0] != "HELLO" && args[0] != "CLIENT" {
			r.note(args)
		}
		if _, err = server.Write(raw); err != nil {
			return err
		}
	}
}

func (r *recorder) note(args []string) {
	if args[0] == "ZINTERSTORE" || args[0] == "SET" {
		for i, a := range args[3:] { // keywords have no case
			if a == "weights" || a == "nx" || a == "ex" || a == "px" {
				args[3+i] = strings.ToUpper(a)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands = append(r.commands, strings.Join(args, " "))
}

// readCommand reads one RESP array of bulk strings, and returns its bytes too.
func readCommand(in *bufio.Reader) (args []string, raw []byte, err error) {
	n, raw, err := readHeader(in, '*')
	for ; err == nil && n > 0; n-- {
		var size int
		var head []byte
		if size, head, err = readHeader(in, '$'); err != nil {
			break
		}
		body := make([]byte, size+2)
		_, err = io.ReadFull(in, body)
		raw = append(append(raw, head...), body...)
		args = append(args, string(body[:size]))
	}
	return args, raw, err
}

func readHeader(in *bufio.Reader, kind byte) (int, []byte, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return 0, nil, err
	}
	if line[0] != kind {
		return 0, nil, fmt.Errorf("%q is no %q header", line, kind)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	return n, line, err
}
